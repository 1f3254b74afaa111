/*
 * Is an index table of these files? Where both hold the key, a group's first and last row must have the key that the table says. All rows
 * of a small data set are looked at; of a large one, some in blocks spread over it: enough to know a table of other files, of another order
 * of rows, or with its keys shifted, for the price of a few pages. A scan of all would cost what the table is there to save.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "samples/table.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ROWS 1000000u /* looked at, in all */
#define MAX_PROBES (4u * MAX_ROWS)

static bool comparable(const fby__read_column *a, const fby__read_column *b)
{
    const fby_field *x = a->in.leaf, *y = b->in.leaf;
    const bool texts = fby__read_column_is_text(a) && fby__read_column_is_text(b);
    return texts || (x->kind == y->kind && x->unit == y->unit && a->layout.dtype == b->layout.dtype);
}

/* All rows, or some of blocks that lie evenly apart: of the last one its last, so that what begins right and drifts is seen. */
static void choose_spots(fby__key_check *k)
{
    const uint64_t n = fby__dataset_block_count(k->ds), n_spots = fby__min_u64(n, FBY__KEY_SPOTS);
    if (fby_dataset_rows(k->ds) <= MAX_ROWS) {
        k->spots[k->n_spots++] = (fby__key_spot){0, fby_dataset_rows(k->ds)};
        return;
    }
    for (uint64_t i = 0; i < n_spots; i++) {
        const fby__block *block = fby__dataset_block(k->ds, (uint32_t)(n_spots > 1 ? i * (n - 1) / (n_spots - 1) : 0));
        const uint64_t rows = block->row_end - block->row_begin, some = fby__min_u64(rows, MAX_ROWS / n_spots);
        const uint64_t begin = block->first_row + (i > 0 && i + 1 == n_spots ? rows - some : 0);
        k->spots[k->n_spots++] = (fby__key_spot){begin, begin + some};
    }
}

/* The spot that holds a row, or the first one behind it. */
static uint32_t spot_of(const fby__key_check *k, uint64_t row)
{
    uint32_t lo = 0, hi = k->n_spots;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (k->spots[mid].end <= row)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool is_looked_at(const fby__key_check *k, uint64_t row)
{
    const uint32_t i = spot_of(k, row);
    return i < k->n_spots && k->spots[i].begin <= row;
}

fby_status fby__key_check_init(fby__key_check *k, const fby__sample_base *base, fby__read_column *of_table, fby_error *err)
{
    k->ds = base->ds;
    k->name = base->key;
    if (!base->key)
        return FBY_OK;
    fby_status status = fby__read_column_init(of_table, base->table.ds, FBY__READ_VALUE, base->key, NULL);
    if (status == FBY_OK)
        status = fby__read_column_init(&k->column, base->ds, FBY__READ_VALUE, base->key, NULL);
    if (status == FBY_E_NOMEM)
        return fby__fail_nomem(err, "the index table");
    k->on = status == FBY_OK && comparable(of_table, &k->column);
    if (k->on)
        choose_spots(k);
    return FBY_OK;
}

void fby__key_check_fini(fby__key_check *k)
{
    fby__free(k->probes);
    fby__arena_fini(&k->arena);
    pthread_mutex_destroy(&k->lock);
}

static fby_status add_locked(fby__key_check *k, uint64_t row, uint64_t table_row, const fby__value *value, fby_error *err)
{
    if (k->n_probes == MAX_PROBES)
        return FBY_OK;
    if (fby__grow((void **)&k->probes, &k->cap_probes, k->n_probes + 1, sizeof *k->probes) != 0)
        return fby__fail_nomem(err, "the index table");
    k->probes[k->n_probes++] = (fby__key_probe){row, table_row, *value};
    return FBY_OK;
}

fby_status fby__key_check_offer(fby__key_check *k, uint64_t table_row, uint64_t begin, uint64_t end, const fby__value *value,
                                fby_error *err)
{
    const bool first = is_looked_at(k, begin), last = end - begin > 1 && is_looked_at(k, end - 1);
    if (!first && !last)
        return FBY_OK;
    fby__value kept = *value;
    pthread_mutex_lock(&k->lock);
    fby_status status = FBY_OK;
    if (kept.kind == FBY__VALUE_TEXT && !(kept.text = (const uint8_t *)fby__arena_copy(&k->arena, kept.text, kept.n)))
        status = fby__fail_nomem(err, "the index table");
    if (status == FBY_OK && first)
        status = add_locked(k, begin, table_row, &kept, err);
    if (status == FBY_OK && last)
        status = add_locked(k, end - 1, table_row, &kept, err);
    pthread_mutex_unlock(&k->lock);
    return status;
}

/* ---- against the data ---- */

static int by_row(const void *a, const void *b)
{
    const fby__key_probe *x = a, *y = b;
    return x->row < y->row ? -1 : x->row > y->row;
}

static size_t first_probe(const fby__key_check *k, uint64_t row)
{
    size_t lo = 0, hi = k->n_probes;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (k->probes[mid].row < row)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool wanted_rows(void *user, uint32_t number, uint64_t *out_begin, uint64_t *out_end)
{
    const fby__key_check *k = user;
    const fby__block *block = fby__dataset_block(k->ds, number);
    const uint64_t begin = block->first_row, end = begin + (block->row_end - block->row_begin);
    const size_t first = first_probe(k, begin), last = first_probe(k, end);
    if (first == last)
        return false;
    *out_begin = k->probes[first].row - begin;
    *out_end = k->probes[last - 1].row - begin + 1;
    return true;
}

static bool same(const fby__value *a, const fby__value *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case FBY__VALUE_NUMBER: return a->number == b->number;
    case FBY__VALUE_FLOAT: return a->real == b->real;
    case FBY__VALUE_TEXT: return a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
    case FBY__VALUE_MISSING: break;
    }
    return true;
}

static fby_status fail_other_key(const fby__key_check *k, const fby__key_probe *p, const fby__value *is, fby_error *err)
{
    char said[120], found[120];
    const fby__file_facts file = fby__dataset_facts(k->ds, fby__dataset_block(k->ds, fby__block_of_row(k->ds, p->row))->file);
    fby__value_print(&p->value, said, sizeof said);
    fby__value_print(is, found, sizeof found);
    return fby__fail(
        err, FBY_E_DATA,
        "the index table is not one of these files: row %llu of '%s' has %s = %s, row %llu of the table, whose group begins or ends "
        "there, says %s",
        (unsigned long long)(p->row - file.first_row), file.path, k->name, found, (unsigned long long)p->table_row, said);
}

static fby_status compare_rows(void *user, void *local, const fby__scan_rows *rows, uint32_t c, const fby__panel *panel,
                               const char *constant, fby_error *err)
{
    const fby__key_check *k = user;
    (void)local;
    (void)c;
    const uint64_t begin = rows->block->first_row + rows->row;
    for (size_t i = first_probe(k, begin); i < k->n_probes && k->probes[i].row < begin + rows->n; i++) {
        const fby__value is = fby__value_at(&k->column, panel, constant, k->probes[i].row - begin);
        if (!same(&is, &k->probes[i].value))
            return fail_other_key(k, &k->probes[i], &is, err);
    }
    return FBY_OK;
}

fby_status fby__key_check_run(fby__key_check *k, int n_threads, fby_error *err)
{
    if (k->n_probes == 0)
        return FBY_OK;
    qsort(k->probes, k->n_probes, sizeof *k->probes, by_row);
    return fby__read_columns(&(fby__column_reader){.ds = k->ds,
                                                   .columns = &k->column,
                                                   .n_columns = 1,
                                                   .n_threads = n_threads,
                                                   .user = k,
                                                   .wanted = wanted_rows,
                                                   .column = compare_rows},
                             err);
}
