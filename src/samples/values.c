/* The value of a column that each sample has. See values.h. */
#include "samples/values.h"

#include "base/cancel.h"
#include "base/checked.h"
#include "samples/table.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

/* ---- a column ---- */

static bool has_column(const fby_dataset *ds, const char *path)
{
    fby__dataset_column column;
    return fby__dataset_resolve(ds, path, &column, NULL) == FBY_OK;
}

fby_status fby__sample_values_init(fby__sample_values *v, const fby_samples *s, const char *column, fby_error *err)
{
    const fby__sample_base *base = s->base;
    bool by_key = !column || (base->key && strcmp(column, base->key) == 0);
    *v = (fby__sample_values){.s = s, .source = FBY__VALUES_DATA, .name = column ? column : base->key};
    if (!column && base->kind == FBY_SAMPLES_ROWS)
        return fby__fail(err, FBY_E_ARG, "rows have no key: name the column");
    if (!column && base->n_more_keys)
        return fby__fail(err, FBY_E_ARG, "the key of these samples is of several columns, '%s' and others: name one column", base->key);
    if (!column && !base->key && base->table.ds)
        return fby__fail(err, FBY_E_ARG,
                         "these groups have no key: name a column, of the data or of their index table, or give key when they "
                         "are made");
    if (!column && !base->key) { /* windows by file, groups of so many rows of a file */
        v->source = FBY__VALUES_FILE;
        v->name = "file name";
        v->is_text = true;
        v->shared_names = fby__file_names_shared(s->base);
        return v->shared_names ? FBY_OK : fby__fail_nomem(err, "the names of the files");
    }
    if (base->table.ds && (by_key || !has_column(base->ds, v->name)) && has_column(base->table.ds, v->name))
        v->source = FBY__VALUES_TABLE;
    const fby_dataset *ds = v->source == FBY__VALUES_TABLE ? base->table.ds : base->ds;
    FBY__TRY(fby__read_column_init(&v->column, ds, FBY__READ_VALUE, v->name, err));
    v->is_text = fby__read_column_is_text(&v->column);
    return FBY_OK;
}

/* ---- visiting ---- */

typedef struct visiting {
    const fby__sample_values *v;
    const fby__value_visit *how;
} visiting;

/* From the first sample's first row to the last one's. */
static bool rows_of_block(void *user, uint32_t b, uint64_t *out_begin, uint64_t *out_end)
{
    const fby_samples *s = ((visiting *)user)->v->s;
    uint64_t n = fby__samples_of_block(s, b), rows;
    if (n == 0)
        return false;
    fby__samples_at(s, b, 0, out_begin, &rows);
    fby__samples_at(s, b, n - 1, out_end, &rows);
    ++*out_end;
    return true;
}

static fby_status visit_rows(void *user, void *local, const fby__scan_rows *rows, uint32_t c, const fby__panel *panel, const char *constant,
                             fby_error *err)
{
    const visiting *w = user;
    const fby_samples *s = w->v->s;
    uint32_t b = rows->block_number;
    uint64_t n = fby__samples_of_block(s, b), row, row_count;
    (void)local;
    (void)c;
    for (uint64_t i = fby__samples_from(s, b, rows->row); i < n; i++) {
        fby__samples_at(s, b, i, &row, &row_count);
        if (row >= rows->row + rows->n)
            break;
        FBY__TRY(fby__cancel_check_at(i, err)); /* a million rows of a million classes take a second */
        fby__value value = fby__value_at(&w->v->column, panel, constant, row - rows->row);
        FBY__TRY(w->how->visit(w->how->user, b, i, &value, err));
    }
    return FBY_OK;
}

static fby_status end_block(void *user, void *local, uint32_t b, fby_error *err)
{
    const visiting *w = user;
    (void)local;
    return w->how->block ? w->how->block(w->how->user, b, err) : FBY_OK;
}

static fby_status end_blocks(const fby__sample_values *v, const fby__value_visit *how, fby_error *err)
{
    for (uint32_t b = 0; how->block && b < fby__dataset_block_count(v->s->base->ds); b++) {
        FBY__TRY(fby__cancel_check(err));
        if (fby__samples_of_block(v->s, b))
            FBY__TRY(how->block(how->user, b, err));
    }
    return FBY_OK;
}

static fby_status visit_files(const fby__sample_values *v, const fby__value_visit *how, fby_error *err)
{
    const fby_samples *s = v->s;
    const fby_dataset *ds = s->base->ds;
    for (uint32_t b = 0; b < fby__dataset_block_count(ds); b++) {
        FBY__TRY(fby__cancel_check(err));
        fby__value value = fby__file_label(ds, v->shared_names, fby__dataset_block(ds, b)->file);
        for (uint64_t i = 0; i < fby__samples_of_block(s, b); i++) {
            FBY__TRY(fby__cancel_check_at(i, err));
            FBY__TRY(how->visit(how->user, b, i, &value, err));
        }
    }
    return end_blocks(v, how, err);
}

/* A row of the index table → its sample, and those that repeat it. */
static fby_status visit_group(void *user, uint64_t table_row, uint64_t first_row, const fby__value *value, fby_error *err)
{
    const visiting *w = user;
    const fby_samples *s = w->v->s;
    uint32_t b = fby__block_of_row(s->base->ds, first_row);
    uint64_t at = first_row - fby__dataset_block(s->base->ds, b)->first_row, n = fby__samples_of_block(s, b), row, rows;
    (void)table_row;
    for (uint64_t i = fby__samples_from(s, b, at); i < n; i++) {
        fby__samples_at(s, b, i, &row, &rows);
        if (row != at)
            break; /* not chosen */
        FBY__TRY(w->how->visit(w->how->user, b, i, value, err));
    }
    return FBY_OK;
}

fby_status fby__sample_values_visit(const fby__sample_values *v, const fby__value_visit *how, fby_error *err)
{
    visiting w = {.v = v, .how = how};
    if (v->source == FBY__VALUES_FILE)
        return visit_files(v, how, err);
    if (v->source == FBY__VALUES_TABLE) {
        FBY__TRY(fby__group_table_values(v->s->base, &v->column, how->n_threads, visit_group, &w, err));
        return end_blocks(v, how, err);
    }
    return fby__read_columns(&(fby__column_reader){.ds = v->s->base->ds,
                                                   .columns = &v->column,
                                                   .n_columns = 1,
                                                   .n_threads = how->n_threads,
                                                   .progress = how->progress,
                                                   .progress_user = how->progress_user,
                                                   .user = &w,
                                                   .wanted = rows_of_block,
                                                   .column = visit_rows,
                                                   .block = end_block},
                             err);
}
