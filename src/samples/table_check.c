/*
 * Is an index table of these files? Where both hold the key, the first and the last row of every group must have the key that the table
 * says: a table of other files, of another order of rows, or with its keys shifted anywhere, is an error. That takes one scan of the
 * key column, and a word a group; that it came out well is remembered in the cache directory, under the stamps of the
 * data and what the table says.
 */
#include "base/checked.h"
#include "samples/table.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char CHECKED[8] = {'F', 'B', 'Y', 'C', 'H', 'E', 'C', 'K'};

static bool is_number(const fby_field *field) { return field->kind == FBY_KIND_INT || field->kind == FBY_KIND_FLOAT; }

/* Text with text, numbers with numbers by their value, and otherwise what is of one type. */
static bool comparable(const fby__read_column *a, const fby__read_column *b)
{
    const fby_field *x = a->in.leaf, *y = b->in.leaf;
    const bool texts = fby__read_column_is_text(a) && fby__read_column_is_text(b);
    return texts || (is_number(x) && is_number(y)) || (x->kind == y->kind && x->unit == y->unit && a->layout.dtype == b->layout.dtype);
}

fby_status fby__key_check_init(fby__key_check *k, const fby__sample_base *base, fby_error *err)
{
    k->name = base->key;
    if (!base->key)
        return FBY_OK;
    fby_status status = fby__read_column_init(&k->of_table, base->table.ds, FBY__READ_VALUE, base->key, NULL);
    if (status == FBY_OK)
        status = fby__read_column_init(&k->column, base->ds, FBY__READ_VALUE, base->key, NULL);
    if (status == FBY_E_NOMEM)
        return fby__fail_nomem(err, "the index table");
    k->on = status == FBY_OK && comparable(&k->of_table, &k->column);
    return FBY_OK;
}

uint64_t fby__key_hash(const fby__value *v)
{
    const double real = v->real + 0.0; /* -0 is 0 */
    fby__hash128 hash = {.lo = (uint64_t)v->kind};
    if (v->kind == FBY__VALUE_FLOAT && real >= -0x1p63 && real < 0x1p63 && real == (double)(int64_t)real) /* 7.0 is 7 */
        return fby__key_hash(&(fby__value){.kind = FBY__VALUE_NUMBER, .number = (int64_t)real});
    switch (v->kind) {
    case FBY__VALUE_NUMBER: hash = fby__hash_more(hash, &v->number, sizeof v->number); break;
    case FBY__VALUE_FLOAT: hash = fby__hash_more(hash, &real, sizeof real); break;
    case FBY__VALUE_TEXT: hash = fby__hash_more(hash, v->n ? (const void *)v->text : "", v->n); break;
    case FBY__VALUE_MISSING: break;
    }
    return hash.lo;
}

/* ---- against the data ---- */

typedef struct comparison {
    /* set once */
    const fby__key_check *check;
    const fby__sample_base *base;
    const fby__table_group *groups;
    uint64_t n;
    /* under lock */
    pthread_mutex_t lock;
    const fby__table_group *other; /* the first group that has another key than the table says; NULL: none */
    uint64_t row;                  /* its first or last row */
    char found[120];               /* what that holds */
} comparison;

/* The first group that ends behind a row. */
static uint64_t first_group(const comparison *c, uint64_t row)
{
    uint64_t lo = 0, hi = c->n;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (c->groups[mid].end <= row)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A block's rows from the first to the last that begins or ends a group. */
static bool wanted_rows(void *user, uint32_t number, uint64_t *out_begin, uint64_t *out_end)
{
    const comparison *c = user;
    const fby__block *block = fby__dataset_block(c->base->ds, number);
    const uint64_t begin = block->first_row, end = begin + (block->row_end - block->row_begin);
    uint64_t first = UINT64_MAX, last = 0;
    for (uint64_t i = first_group(c, begin); i < c->n && c->groups[i].begin < end; i++) {
        const uint64_t rows[2] = {c->groups[i].begin, c->groups[i].end - 1};
        for (int e = 0; e < 2; e++)
            if (rows[e] >= begin && rows[e] < end) {
                first = fby__min_u64(first, rows[e]);
                last = rows[e];
            }
    }
    if (first == UINT64_MAX)
        return false;
    *out_begin = first - begin;
    *out_end = last - begin + 1;
    return true;
}

static fby_status note_other_locked(comparison *c, const fby__table_group *g, uint64_t row, const fby__value *is, fby_error *err)
{
    if (!c->other || row < c->row) {
        c->other = g;
        c->row = row;
        fby__value_print(is, c->found, sizeof c->found);
    }
    return fby__fail(err, FBY_E_DATA, "row %llu has another key", (unsigned long long)row); /* fail_other says it in full */
}

static fby_status compare_rows(void *user, void *local, const fby__scan_rows *rows, uint32_t column, const fby__panel *panel,
                               const char *constant, fby_error *err)
{
    comparison *c = user;
    const uint64_t begin = rows->block->first_row + rows->row, end = begin + rows->n;
    (void)local;
    (void)column;
    for (uint64_t i = first_group(c, begin); i < c->n && c->groups[i].begin < end; i++) {
        const fby__table_group *g = &c->groups[i];
        const uint64_t ends[2] = {g->begin, g->end - 1};
        for (int e = 0; e < 2; e++) {
            if (ends[e] < begin || ends[e] >= end)
                continue;
            const fby__value is = fby__value_at(&c->check->column, panel, constant, ends[e] - begin);
            if (fby__key_hash(&is) == g->key)
                continue;
            pthread_mutex_lock(&c->lock);
            fby_status status = note_other_locked(c, g, ends[e], &is, err);
            pthread_mutex_unlock(&c->lock);
            return status;
        }
    }
    return FBY_OK;
}

/* The row of the table whose group it is, read once more for what it says. */
static fby_status tell_other(void *user, uint64_t table_row, uint64_t first_row, const fby__value *value, fby_error *err)
{
    const comparison *c = user;
    const fby_dataset *ds = c->base->ds;
    char said[120];
    if (first_row != c->other->begin)
        return FBY_OK;
    const fby__file_facts file = fby__dataset_facts(ds, fby__dataset_block(ds, fby__block_of_row(ds, c->row))->file);
    fby__value_print(value, said, sizeof said);
    return fby__fail(
        err, FBY_E_DATA,
        "the index table is not one of these files: row %llu of '%s' has %s = %s, row %llu of the table, whose group begins or ends "
        "there, says %s",
        (unsigned long long)(c->row - file.first_row), file.path, c->check->name, c->found, (unsigned long long)table_row, said);
}

static fby_status fail_other(comparison *c, int n_threads, fby_error *err)
{
    FBY__TRY(fby__group_table_values(c->base, &c->check->of_table, n_threads, tell_other, c, err));
    return fby__fail(err, FBY_E_CHANGED, "the index table changed while it was read");
}

/* The name of the file that remembers a comparison: of the stamps of the data, the column, and what the table says. */
static void remembered_name(const comparison *c, char out[64])
{
    char text[33];
    fby__hash128 hash = fby__dataset_hash(c->base->hash, c->base->ds);
    hash = fby__hash_more(hash, c->groups, (size_t)c->n * sizeof *c->groups);
    fby__hash_text(hash, text);
    (void)snprintf(out, 64, "%s.fbychecked", text);
}

fby_status fby__key_check_run(const fby__key_check *k, fby__sample_base *base, const fby__table_group *groups, uint64_t n, int n_threads,
                              fby_error *err)
{
    comparison c = {.check = k, .base = base, .groups = groups, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER};
    const char *dir = fby__dataset_is_settled(base->ds) ? fby__dataset_cache_dir(base->ds) : NULL;
    char name[64];
    fby__buf image = {0};
    if (!k->on)
        return FBY_OK;
    remembered_name(&c, name);
    fby_status status = dir ? fby__cache_read(dir, name, sizeof CHECKED, &image) : FBY_E_IO;
    fby__buf_fini(&image);
    if (status == FBY_OK)
        return FBY_OK;
    if (status == FBY_E_STATE)
        FBY__TRY(fby__notes_put(&base->notes, err,
                                "an earlier check of the index table, in the cache folder '%s', was not used: " FBY__CACHE_FOREIGN, dir));
    status = fby__read_columns(&(fby__column_reader){.ds = base->ds,
                                                     .columns = &k->column,
                                                     .n_columns = 1,
                                                     .n_threads = n_threads,
                                                     .user = &c,
                                                     .wanted = wanted_rows,
                                                     .column = compare_rows},
                               err);
    pthread_mutex_destroy(&c.lock);
    if (status != FBY_OK)
        return c.other ? fail_other(&c, n_threads, err) : status;
    image = (fby__buf){.data = (uint8_t *)(uintptr_t)CHECKED, .n = sizeof CHECKED};
    if (dir)
        (void)fby__cache_write(dir, name, &image, NULL); /* without it the column is read again */
    return FBY_OK;
}
