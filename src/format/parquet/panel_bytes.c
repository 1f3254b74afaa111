/*
 * Pages → byte panels: strings and binaries. The arena gets a dictionary's entries once and plain strings one after the other,
 * so the file's own figures bound it; only DELTA_BYTE_ARRAY stands for more bytes than it takes, and some rows may have more than their
 * share.
 */
#include "format/parquet/panel_column.h"

#include "base/checked.h"

#include <inttypes.h>

typedef struct arena {
    fby__pq_column *column;
    fby__panel *panel;
    const fby__view *dictionary; /* in the reader's converted_mem; NULL until it is needed */
} arena;

/* What does not fit is counted, where the metadata does not say that it has to: the panel is then decoded again, with that room. */
static fby_status put(arena *a, const uint8_t *data, size_t n, fby__view *out, fby_error *err)
{
    fby__panel *panel = a->panel;
    if (panel->used > panel->capacity || n > panel->capacity - panel->used) {
        const fby__pq_chunk *chunk = a->column->reader->chunk;
        const bool expands = chunk->encodings & 1u << FBY__PQ_DELTA_BYTE_ARRAY;
        if (!expands && panel->used + n > chunk->uncompressed_bytes) /* else rows of a part of the group, which were given their share */
            return fby__fail(err, FBY_E_FORMAT, "the strings take more than the %" PRIu64 " bytes that the metadata states",
                             chunk->uncompressed_bytes);
    } else if (n) {
        memcpy(panel->data + panel->used, data, n);
    }
    *out = (fby__view){panel->used, n};
    panel->used += n;
    return FBY_OK;
}

static fby_status put_dictionary(arena *a, fby_error *err)
{
    fby__pq_reader *r = a->column->reader;
    FBY__TRY(fby__pq_mem_need(&r->mem.converted, (size_t)r->n_dictionary * sizeof(fby__view), err));
    fby__view *views = (fby__view *)(void *)r->mem.converted.data;
    for (uint32_t i = 0; i < r->n_dictionary; i++) {
        if (r->value_bytes)
            FBY__TRY(put(a, r->dictionary + (size_t)i * r->value_bytes, r->value_bytes, &views[i], err));
        else
            FBY__TRY(put(a, r->dictionary_strings[i].data, r->dictionary_strings[i].n, &views[i], err));
    }
    a->dictionary = views;
    return FBY_OK;
}

/* The next n ≤ FBY__PQ_TILE_ROWS values of the page as views, dense. */
static fby_status next_views(arena *a, size_t n, fby__view *out, fby_error *err)
{
    fby__pq_reader *r = a->column->reader;
    if (n == 0)
        return FBY_OK;
    if (r->stored == FBY__PQ_INDICES) {
        if (!a->dictionary)
            FBY__TRY(put_dictionary(a, err));
        return fby__pq_values_gather(r, n, a->dictionary, sizeof *out, out, err);
    }
    if (r->value_bytes == 0) {
        FBY__TRY(fby__pq_mem_need(&r->mem.value, n * sizeof(fby__pq_string), err));
        fby__pq_string *strings = (fby__pq_string *)(void *)r->mem.value.data;
        FBY__TRY(fby__pq_values_strings(r, n, strings, err));
        for (size_t i = 0; i < n; i++)
            FBY__TRY(put(a, strings[i].data, strings[i].n, &out[i], err));
        return FBY_OK;
    }
    FBY__TRY(fby__pq_mem_need(&r->mem.value, r->value_bytes, err));
    for (size_t i = 0; i < n; i++) { /* one by one: a value may be megabytes wide */
        const uint8_t *value;
        FBY__TRY(fby__pq_values_in_place(r, 1, &value, err));
        if (!value) {
            FBY__TRY(fby__pq_values_fixed(r, 1, r->mem.value.data, err));
            value = r->mem.value.data;
        }
        FBY__TRY(put(a, value, r->value_bytes, &out[i], err));
    }
    return FBY_OK;
}

static fby_status decode(arena *a, fby_error *err)
{
    const fby__decode *q = a->column->request;
    fby__pq_reader *r = a->column->reader;
    fby__panel *panel = a->panel;
    FBY__TRY(fby__pq_mem_need(&a->column->scratch->work, (FBY__PQ_TILE_ROWS + 1) * sizeof(fby__view), err));
    fby__view *dense = (fby__view *)(void *)a->column->scratch->work.data;
    for (uint64_t row = q->row_begin;;) {
        fby__pq_step s = {0};
        FBY__TRY(fby__pq_reader_levels(r, FBY__PQ_TILE_ROWS, &s, err));
        if (s.n_levels == 0)
            return FBY_OK;
        fby__view *views = panel->views + (row - q->panel_row);
        uint8_t *valid = panel->valid ? panel->valid + (row - q->panel_row) : NULL;
        FBY__TRY(next_views(a, s.n_values, s.def ? dense : views, err));
        if (!s.def) {
            if (valid)
                memset(valid, 1, s.n_levels);
        } else {
            const fby__view *next = dense;
            for (size_t i = 0; i < s.n_levels; i++) {
                const bool there = s.def[i] == r->leaf->max_def;
                if (!there && a->column->target->missing == FBY__MISSING_ERROR)
                    return fby__pq_column_missing(a->column, row + i, err);
                views[i] = there ? *next++ : (fby__view){0, 0};
                if (valid)
                    valid[i] = there;
            }
        }
        row += s.n_levels;
    }
}

fby_status fby__pq_decode_bytes(const fby__decode *q, fby__scratch *scratch, fby_error *err)
{
    const fby__schema *schema = q->table->schema;
    const fby__leaf *leaf = &schema->leaves[q->columns[0].source->leaf];
    const fby_kind kind = schema->fields[leaf->field].kind;
    const bool bytes = leaf->physical == FBY__PQ_BYTE_ARRAY || leaf->physical == FBY__PQ_FLBA || kind == FBY_KIND_NULL;
    fby__pq_column c;
    FBY__TRY(fby__pq_column_open(q, &q->columns[0], scratch, 0, &c, err));
    arena a = {.column = &c, .panel = q->panel};
    q->panel->used = 0;
    fby_status status =
        leaf->max_rep || !bytes
            ? fby__fail(err, FBY_E_SCHEMA, leaf->max_rep ? "a list cannot be a column of strings" : "the column holds no strings or bytes")
            : decode(&a, err);
    if (status != FBY_OK)
        status = fby__pq_column_fail(&c, status, err);
    fby__pq_column_close(&c);
    return status;
}
