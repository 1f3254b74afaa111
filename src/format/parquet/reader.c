/*
 * One column chunk → runs of levels and values, rows [row_begin, row_end) exactly.
 *
 * Flat columns count a row a level. Repeated ones begin a row where the repetition level is 0; the end of a row is known
 * only when the next one begins or the chunk ends, so rows may span v1 pages.
 *
 * Scratch: fby__scratch.state holds FBY__PQ_MAX_READERS readers with their buffers (decompressed page, dictionary, levels,
 * values); opening a slot forgets what it read before and keeps the memory. scratch->buffers are left to the sinks.
 */
#include "format/parquet/reader.h"

#include "base/checked.h"

#include <assert.h>

#define RUN_BYTES ((size_t)1 << 20) /* of values in one run, when one value alone is not larger */

static void mem_fini(fby__pq_mem *mem)
{
    fby__free(mem->data);
    *mem = (fby__pq_mem){0};
}

fby_status fby__pq_mem_need(fby__pq_mem *mem, size_t n, fby_error *err)
{
    if (mem->data && n <= mem->cap) /* also for n = 0: callers get a pointer */
        return FBY_OK;
    if (n > SIZE_MAX / 2)
        return fby__fail_nomem(err, "page buffer");
    const size_t cap = (size_t)fby__align_up_u64(fby__alloc_is_tight() ? n : n + n / 8, 4096);
    mem_fini(mem); /* first: the two are not there at once */
    if (!(mem->data = fby__malloc(cap + 64)))
        return fby__fail_nomem(err, "page buffer");
    mem->cap = cap;
    return FBY_OK;
}

#define N_MEMS 7
static void mems_of(fby__pq_reader *r, fby__pq_mem *out[N_MEMS])
{
    fby__pq_mem *mems[N_MEMS] = {&r->mem.page, &r->mem.dictionary, &r->mem.strings,  &r->mem.def,
                                 &r->mem.rep,  &r->mem.value,      &r->mem.converted};
    memcpy(out, mems, sizeof mems);
}

static void state_free(void *state)
{
    fby__pq_scratch *s = state;
    for (int i = 0; i < FBY__PQ_MAX_READERS; i++) {
        fby__pq_mem *mems[N_MEMS];
        mems_of(&s->slots[i], mems);
        for (size_t m = 0; m < N_MEMS; m++)
            mem_fini(mems[m]);
        fby__delta_strings_fini(&s->slots[i].delta_strings);
    }
    mem_fini(&s->tiles);
    mem_fini(&s->work);
    fby__free(s);
}

static size_t state_bytes(const void *state)
{
    fby__pq_scratch *s = (fby__pq_scratch *)state; /* only read */
    size_t bytes = sizeof *s + s->tiles.cap + s->work.cap;
    for (int i = 0; i < FBY__PQ_MAX_READERS; i++) {
        fby__pq_mem *mems[N_MEMS];
        mems_of(&s->slots[i], mems);
        for (size_t m = 0; m < N_MEMS; m++)
            bytes += mems[m]->cap;
        bytes += s->slots[i].delta_strings.last.cap + s->slots[i].delta_strings.arena.cap;
    }
    return bytes;
}

fby_status fby__pq_scratch_of(fby__scratch *scratch, fby__pq_scratch **out, fby_error *err)
{
    *out = fby__scratch_state(scratch, sizeof **out, state_free, state_bytes);
    return *out ? FBY_OK : fby__fail_nomem(err, "decoder");
}

static size_t physical_bytes(const fby__leaf *leaf)
{
    static const uint8_t BYTES[] = {[FBY__PQ_BOOLEAN] = 1, [FBY__PQ_INT32] = 4,  [FBY__PQ_INT64] = 8,     [FBY__PQ_INT96] = 12,
                                    [FBY__PQ_FLOAT] = 4,   [FBY__PQ_DOUBLE] = 8, [FBY__PQ_BYTE_ARRAY] = 0};
    return leaf->physical == FBY__PQ_FLBA ? (size_t)leaf->type_length : BYTES[leaf->physical];
}

fby_status fby__pq_reader_fail(const fby__pq_reader *r, fby_status status, fby_error *err)
{
    if (err) {
        if (err->file_offset < 0 && status == FBY_E_FORMAT)
            err->file_offset = (int64_t)r->page_offset;
        fby__pq_context(err, r->table, r->file_name, r->group, r->source->leaf);
    }
    return status;
}

fby_status fby__pq_reader_open(const fby__table *table, const char *file_name, uint32_t group, const fby__leaf_source *source,
                               uint64_t row_begin, uint64_t row_end, bool verify_crc, fby__scratch *scratch, int slot, fby__pq_reader **out,
                               fby_error *err)
{
    assert(source->first_row <= row_begin && row_begin <= row_end && row_end <= table->groups[group].rows);
    assert(slot >= 0 && slot < FBY__PQ_MAX_READERS);
    fby__pq_scratch *state = NULL;
    FBY__TRY(fby__pq_scratch_of(scratch, &state, err));
    fby__pq_reader *r = &state->slots[slot];
    *r = (fby__pq_reader){
        .table = table,
        .file_name = file_name,
        .group = group,
        .source = source,
        .scratch = scratch,
        .leaf = &table->schema->leaves[source->leaf],
        .chunk = fby__pq_chunk_of(table, group, source->leaf),
        .row_begin = row_begin,
        .row_end = row_end,
        .verify_crc = verify_crc,
        .to_end = row_end == table->groups[group].rows,
        .row = source->first_row,
        .page_offset = source->range[1].offset,
        .delta_strings = {.last = r->delta_strings.last, .arena = r->delta_strings.arena},
        .mem.page = r->mem.page,
        .mem.dictionary = r->mem.dictionary,
        .mem.strings = r->mem.strings,
        .mem.def = r->mem.def,
        .mem.rep = r->mem.rep,
        .mem.value = r->mem.value,
        .mem.converted = r->mem.converted,
    };
    r->value_bytes = physical_bytes(r->leaf);
    if (r->leaf->physical == FBY__PQ_FLBA && r->leaf->type_length <= 0)
        return fby__pq_reader_fail(r, fby__fail(err, FBY_E_FORMAT, "fixed-length values of %d bytes", r->leaf->type_length), err);
    *out = r;
    return FBY_OK;
}

void fby__pq_reader_close(fby__pq_reader *reader)
{
    if (reader)
        reader->finished = true; /* the memory stays with the scratch */
}

static fby_status too_few_rows(const fby__pq_reader *r, fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "the column chunk ends at row %llu, row %llu was to follow", (unsigned long long)r->row,
                     (unsigned long long)r->row_end - 1);
}

static fby_status too_many_rows(const fby__pq_reader *r, fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "the column chunk holds more than the %llu rows of its row group", (unsigned long long)r->row_end);
}

/* Definition levels of the next n: how many values are there, and the levels when not all are. */
static fby_status definitions(fby__pq_reader *r, size_t n, const uint8_t **out_def, size_t *out_values, fby_error *err)
{
    *out_def = NULL;
    *out_values = n;
    if (r->leaf->max_def == 0)
        return FBY_OK;
    FBY__TRY(fby__pq_mem_need(&r->mem.def, n, err));
    bool all;
    FBY__TRY(fby__levels_next(&r->def, r->mem.def.data, n, &all, err));
    if (!all) {
        *out_values = fby__levels_count(r->mem.def.data, n, (uint8_t)r->leaf->max_def);
        if (*out_values < n)
            *out_def = r->mem.def.data;
    }
    return FBY_OK;
}

static fby_status skip_levels(fby__pq_reader *r, size_t n, fby_error *err)
{
    const uint8_t *def;
    size_t n_values;
    FBY__TRY(definitions(r, n, &def, &n_values, err));
    FBY__TRY(fby__pq_values_skip(r, n_values, err));
    r->page_left -= n;
    return FBY_OK;
}

static size_t least(size_t a, uint64_t b) { return a < b ? a : (size_t)b; }

static fby_status flat_levels(fby__pq_reader *r, size_t max_levels, fby__pq_step *out, fby_error *err)
{
    if (r->row == r->row_end) {
        r->finished = true;
        /* A page index that is wrong about rows would shift them unseen: the pages must hold what it says. */
        uint64_t held = r->row + r->page_left;
        if (r->source->n_rows && !r->to_end && fby__pq_reader_rows_left(r) != r->source->first_row + r->source->n_rows - held)
            return fby__fail(err, FBY_E_FORMAT, "the pages from row %llu on do not hold the %llu rows that the page index states",
                             (unsigned long long)r->source->first_row, (unsigned long long)r->source->n_rows);
        return r->to_end && (r->page_left || fby__pq_reader_has_more(r)) ? too_many_rows(r, err) : FBY_OK;
    }
    for (;;) {
        if (r->page_left == 0) {
            bool end;
            FBY__TRY(fby__pq_reader_page(r, &end, err));
            if (end)
                return too_few_rows(r, err);
        }
        if (r->row >= r->row_begin)
            break;
        size_t n = least(least(4096, r->page_left), r->row_begin - r->row);
        FBY__TRY(skip_levels(r, n, err));
        r->row += n;
    }
    size_t n = least(least(max_levels, r->page_left), r->row_end - r->row);
    if (r->stored == FBY__PQ_DELTA_STRINGS && r->value_bytes == 0)
        FBY__TRY(fby__delta_strings_room(&r->delta_strings, n, &n, err));
    FBY__TRY(definitions(r, n, &out->def, &out->n_values, err));
    out->n_levels = n;
    r->page_left -= n;
    r->row += n;
    return FBY_OK;
}

/* How many of n levels come before the one that begins row `stop`; *rows is moved on. */
static size_t levels_before(const uint8_t *rep, size_t n, uint64_t *rows, uint64_t stop)
{
    size_t begun = fby__levels_count(rep, n, 0);
    if (begun <= stop - *rows) {
        *rows += begun;
        return n;
    }
    for (size_t i = 0;; i++)
        if (rep[i] == 0) {
            if (*rows == stop)
                return i;
            (*rows)++;
        }
}

static fby_status repeated_levels(fby__pq_reader *r, size_t max_levels, fby__pq_step *out, fby_error *err)
{
    for (;;) {
        if (r->page_left == 0) {
            bool end;
            FBY__TRY(fby__pq_reader_page(r, &end, err));
            if (end) {
                r->finished = true;
                if (r->row < r->row_end)
                    return too_few_rows(r, err);
                if (r->to_end && r->source->first_row == 0 && r->levels_seen != r->chunk->n_values)
                    return fby__fail(err, FBY_E_FORMAT, "the column chunk holds %llu values, its metadata says %llu",
                                     (unsigned long long)r->levels_seen, (unsigned long long)r->chunk->n_values);
                return FBY_OK;
            }
        }
        size_t n = least(max_levels, r->page_left);
        if (r->stored == FBY__PQ_DELTA_STRINGS && r->value_bytes == 0)
            FBY__TRY(fby__delta_strings_room(&r->delta_strings, n, &n, err));
        FBY__TRY(fby__pq_mem_need(&r->mem.rep, n, err));
        uint8_t *rep = r->mem.rep.data;
        const fby__levels before = r->rep;
        bool all;
        FBY__TRY(fby__levels_next(&r->rep, rep, n, &all, err));
        if (all)
            memset(rep, r->leaf->max_rep, n);
        if (!r->begun && rep[0] != 0)
            return fby__fail(err, FBY_E_FORMAT, "the first repetition level is %u: a row begins with 0", rep[0]);
        r->begun = true;

        const bool skip = r->row < r->row_begin || (r->row == r->row_begin && r->row > r->source->first_row && rep[0] != 0);
        size_t k = levels_before(rep, n, &r->row, skip ? r->row_begin : r->row_end);
        if (k < n) {
            r->rep = before; /* read the same levels again, up to the border */
            if (k)
                FBY__TRY(fby__levels_next(&r->rep, rep, k, &all, err));
        }
        if (skip) {
            FBY__TRY(skip_levels(r, k, err));
            continue;
        }
        if (k < n) {
            r->finished = true;
            if (r->to_end)
                return too_many_rows(r, err);
        }
        if (k == 0)
            return FBY_OK;
        FBY__TRY(definitions(r, k, &out->def, &out->n_values, err));
        out->n_levels = k;
        out->rep = rep;
        r->page_left -= k;
        return FBY_OK;
    }
}

fby_status fby__pq_reader_levels(fby__pq_reader *r, size_t max_levels, fby__pq_step *out, fby_error *err)
{
    *out = (fby__pq_step){0};
    if (r->finished || max_levels == 0 || (r->row_begin == r->row_end && !r->begun)) {
        r->finished = true;
        return FBY_OK;
    }
    return r->leaf->max_rep ? repeated_levels(r, max_levels, out, err) : flat_levels(r, max_levels, out, err);
}

static fby_status next_run(fby__pq_reader *r, size_t max_levels, fby__pq_span *out, fby_error *err)
{
    if (r->value_bytes > 1 && max_levels > RUN_BYTES / r->value_bytes)
        max_levels = r->value_bytes > RUN_BYTES ? 1 : RUN_BYTES / r->value_bytes;
    fby__pq_step s;
    FBY__TRY(fby__pq_reader_levels(r, max_levels, &s, err));
    *out = (fby__pq_span){.n_levels = s.n_levels, .n_values = s.n_values, .def = s.def, .rep = s.rep};
    if (r->value_bytes == 0) {
        FBY__TRY(fby__pq_mem_need(&r->mem.value, s.n_values * sizeof(fby__pq_string), err));
        out->strings = (fby__pq_string *)(void *)r->mem.value.data;
        return fby__pq_values_strings(r, s.n_values, (fby__pq_string *)(void *)r->mem.value.data, err);
    }
    const uint8_t *plain;
    FBY__TRY(fby__pq_values_in_place(r, s.n_values, &plain, err));
    if (plain) {
        out->fixed = plain;
        return FBY_OK;
    }
    FBY__TRY(fby__pq_mem_need(&r->mem.value, s.n_values * r->value_bytes, err));
    out->fixed = r->mem.value.data;
    return fby__pq_values_fixed(r, s.n_values, r->mem.value.data, err);
}

fby_status fby__pq_reader_next(fby__pq_reader *reader, size_t max_levels, fby__pq_span *out, fby_error *err)
{
    fby_status status = next_run(reader, max_levels, out, err);
    return status == FBY_OK ? FBY_OK : fby__pq_reader_fail(reader, status, err);
}
