/*
 * Tables from data sets: read in file order through a loader, filled row by row by the calling thread.
 */
#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/sized.h"
#include "dataset/dataset.h"
#include "tables/table_keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCH_ROWS 16384u
#define FEWER 128u /* times, where so many rows at once do not fit the budget */
#define BATCH_VALUES ((uint64_t)1 << 22)
#define MAX_COLUMNS ((size_t)1 << 20)

/* ---- which columns ---- */

typedef struct names {
    const char **at; /* owned; the names borrowed */
    size_t n, cap;
} names;

static bool holds(const names *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i], name) == 0)
            return true;
    return false;
}

static fby_status add_name(names *list, const char *name, fby_error *err)
{
    if (list->n >= MAX_COLUMNS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a lookup table has at most %zu columns", MAX_COLUMNS);
    if (fby__grow((void **)&list->at, &list->cap, list->n + 1, sizeof *list->at))
        return fby__fail_nomem(err, "the table's columns");
    list->at[list->n++] = name;
    return FBY_OK;
}

static const fby_field *find_field(const fby_field *at, const char *path)
{
    for (uint32_t i = 0; i < at->n_children; i++) {
        const fby_field *child = &at->children[i];
        if (strcmp(child->path, path) == 0)
            return child;
        const fby_field *below = child->kind == FBY_KIND_STRUCT ? find_field(child, path) : NULL;
        if (below)
            return below;
    }
    return NULL;
}

static bool is_value(const fby_field *f)
{
    return f->kind == FBY_KIND_BOOL || f->kind == FBY_KIND_INT || f->kind == FBY_KIND_FLOAT || f->kind == FBY_KIND_DECIMAL;
}

static bool is_key(const fby__table_key *key, const char *column)
{
    bool is = false;
    for (size_t i = 0; i < key->n; i++)
        is |= strcmp(key->column[i], column) == 0;
    return is;
}

static fby_status add_all(names *list, const fby_dataset *ds, const fby__table_key *key, fby_error *err)
{
    const fby_field *schema = fby_dataset_schema(ds);
    for (uint32_t i = 0; i < schema->n_children; i++) {
        const fby_field *f = &schema->children[i];
        if (is_value(f) && !is_key(key, f->path) && !holds(list, f->path))
            FBY__TRY(add_name(list, f->path, err));
    }
    return FBY_OK;
}

/* A column that was named is a number in some table, and nothing else in any. */
static fby_status check_named(fby_dataset *const *tables, size_t n_tables, const char *column, fby_error *err)
{
    char type[160];
    bool found = false;
    for (size_t i = 0; i < n_tables; i++) {
        const fby_field *f = find_field(fby_dataset_schema(tables[i]), column);
        if (!f)
            continue;
        (void)fby_field_type_text(f, type, sizeof type);
        if (!is_value(f) && f->kind != FBY_KIND_NULL)
            return fby__fail(err, FBY_E_UNSUPPORTED, "column '%s' of type %s cannot be looked up: values are numbers or bools", column,
                             type);
        found = true;
    }
    if (found)
        return FBY_OK;
    fby__dataset_column none;
    fby_status status = fby__dataset_resolve(tables[0], column, &none, err); /* fails, with the names that are close */
    if (status == FBY_OK)
        return fby__fail(err, FBY_E_SCHEMA, "column '%s' cannot be looked up", column);
    if (n_tables > 1)
        fby__error_context(err, "none of the %zu tables has the column", n_tables);
    return status;
}

static fby_status choose_columns(fby_dataset *const *tables, size_t n_tables, const fby_lookup_opts *o, const fby__table_key *key,
                                 names *out, fby_error *err)
{
    for (size_t i = 0; i < o->n_columns; i++) {
        FBY__TRY(check_named(tables, n_tables, o->columns[i], err));
        FBY__TRY(add_name(out, o->columns[i], err));
    }
    for (size_t i = 0; i < n_tables && o->n_columns == 0; i++)
        FBY__TRY(add_all(out, tables[i], key, err));
    return FBY_OK;
}

/* ---- reading one table ---- */

/** A table being read: its columns among those of the result. */
typedef struct reading {
    fby__table_key key;
    fby_lookup *to;       /* borrowed */
    const names *columns; /* of the result */
    names own;            /* those that this table has */
    size_t *column;       /* owned; own.n columns of the result */
    fby__account_scope *scope;
    double n_tables; /* that are read into the result, as far as is known: for what is expected of memory */
    uint64_t n_read; /* rows, from the first one on */
    bool first_wins;
    bool skip_missing; /* rows without a key are left out; otherwise an error */
} reading;

static fby_status conflict(const reading *r, uint32_t row, size_t column, double before, double now, uint64_t at, fby_error *err)
{
    char key[FBY__LOOKUP_KEY_CHARS], where[320];
    fby__lookup_key_text(r->to, row, key);
    fby__table_where(r->key.ds, at, where);
    return fby__fail(err, FBY_E_DATA,
                     "the key %s has %.17g for column '%s' in %s, and had %.17g before: a key may come again with the same "
                     "values only, unless first_wins=True (of a pipeline file: first_wins: true) lets the first one count",
                     key, now, r->columns->at[column], where, before);
}

static fby_status merge_row(const reading *r, uint32_t row, const double *values, uint64_t at, fby_error *err)
{
    if (r->own.n == 0)
        return FBY_OK;
    double *to = fby__lookup_row(r->to, row);
    for (size_t i = 0; i < r->own.n; i++) {
        double *cell = &to[r->column[i]];
        if (isnan(*cell))
            *cell = values[i];
        else if (!isnan(values[i]) && values[i] != *cell && !r->first_wins)
            return conflict(r, row, r->column[i], *cell, values[i], at, err);
    }
    return FBY_OK;
}

static fby_status add_batches(reading *r, fby_loader *l, fby_error *err)
{
    for (;;) {
        fby_batch *batch;
        fby__batch_keys keys;
        FBY__TRY(fby__cancel_check(err));
        fby_status status = fby_loader_next(l, -1, &batch, err);
        if (status != FBY_OK)
            return status == FBY_END ? FBY_OK : status;
        fby__table_key_batch(&r->key, batch, &keys);
        const uint64_t n = fby_batch_size(batch), first = r->n_read;
        uint32_t row = 0;
        const double *values = r->own.n ? fby_batch_tensor(batch, keys.n_tensors)->data : NULL;
        for (uint64_t i = 0; status == FBY_OK && i < n; i++) {
            if ((status = fby__cancel_check_at(i + 1, err)) != FBY_OK)
                break;
            if (r->skip_missing && fby__table_key_missing(&r->key, &keys, i))
                continue;
            if (i == 0 || !fby__table_key_repeats(&r->key, &keys, i))
                status = fby__table_key_add(&r->key, &keys, i, first, r->to, &row, err);
            if (status == FBY_OK)
                status = merge_row(r, row, values ? values + i * r->own.n : NULL, first + i, err);
        }
        fby_batch_unref(batch);
        FBY__TRY(status);
        r->n_read += n;
        r->scope->done = (double)r->n_read / (double)fby_dataset_rows(r->key.ds) / r->n_tables;
    }
}

/* From the batch on that has the first row not read yet; what it has before that comes again, which changes nothing. */
static fby_status read_batches(reading *r, const fby_output *outputs, size_t n_outputs, uint64_t batch_rows, int n_threads, fby_error *err)
{
    const fby_loader_opts opts = {FBY_LOADER_SIZES,         .outputs = outputs,          .n_outputs = n_outputs,
                                  .batch_size = batch_rows, .shuffle = FBY_SHUFFLE_NONE, .tail = FBY_TAIL_KEEP,
                                  .n_threads = n_threads};
    fby_loader *l;
    FBY__TRY(fby__table_loader_open(r->scope, r->key.ds, &opts, &l, err));
    fby_status status = fby_loader_begin_at(l, 0, r->n_read / batch_rows, err);
    r->n_read -= r->n_read % batch_rows;
    if (status == FBY_OK)
        status = add_batches(r, l, err);
    fby__table_loader_close(r->scope, l);
    return status;
}

/* All rows in file order. How many come at once no caller says: where so many do not fit the budget, it goes on with fewer. */
static fby_status read_rows(reading *r, const fby_output *outputs, size_t n_outputs, uint64_t batch_rows, int n_threads, fby_error *err)
{
    fby_status status;
    while ((status = read_batches(r, outputs, n_outputs, batch_rows, n_threads, err)) == FBY_E_BUDGET && batch_rows > 1)
        batch_rows = fby__max_u64(1, batch_rows / FEWER);
    return status;
}

static fby_status read_table(reading *r, int n_threads, fby_error *err)
{
    for (size_t i = 0; i < r->columns->n; i++)
        if (find_field(fby_dataset_schema(r->key.ds), r->columns->at[i])) {
            FBY__TRY(add_name(&r->own, r->columns->at[i], err));
            r->column[r->own.n - 1] = i;
        }
    fby_output outputs[FBY__KEY_OUTPUTS + 1];
    const size_t n_keys = fby__table_key_outputs(&r->key, outputs);
    outputs[n_keys] = (fby_output){.name = "values", .columns = r->own.at, .n_columns = r->own.n, .keep_axis = true, .dtype = FBY_FLOAT64};
    const uint64_t rows = fby__min_u64(BATCH_ROWS, fby__max_u64(1, BATCH_VALUES / fby__max_u64(1, r->own.n)));
    return read_rows(r, outputs, n_keys + (r->own.n > 0), rows, n_threads, err);
}

static fby_status same_types(const fby__table_key *key, const fby_lookup *to, size_t table, fby_error *err)
{
    for (size_t c = 0; c < key->n; c++)
        if (key->text[c] != fby_lookup_key_is_text(to, c))
            return fby__fail(err, FBY_E_SCHEMA,
                             "the key '%s' is %s in table %zu and %s in table 0: make both the same; dtypes state the type of "
                             "a CSV file's column: %s as str",
                             key->column[c], key->text[c] ? "a string" : "a whole number", table,
                             key->text[c] ? "a whole number" : "a string", key->column[c]);
    return FBY_OK;
}

static fby_status read_tables(fby_dataset *const *tables, size_t n_tables, const fby_lookup_opts *o, const names *columns, fby_lookup *to,
                              fby__account_scope *scope, fby_error *err)
{
    for (size_t i = 0; i < n_tables; i++) {
        reading r = {.to = to, .columns = columns, .scope = scope, .n_tables = (double)(n_tables - i), .first_wins = o->first_wins};
        fby_status status = fby__table_key_find(tables[i], o->key, o->more_keys, o->n_more_keys, &r.key, err);
        if (status == FBY_OK)
            status = same_types(&r.key, to, i, err);
        if (status == FBY_OK && !(r.column = fby__calloc(columns->n + 1, sizeof *r.column)))
            status = fby__fail_nomem(err, "the table's columns");
        if (status == FBY_OK && fby_dataset_rows(tables[i]) > 0)
            status = read_table(&r, o->n_threads, err);
        fby__free(r.column);
        fby__free(r.own.at);
        FBY__TRY(status);
    }
    return FBY_OK;
}

static void fill_missing(fby_lookup *t, double fill)
{
    size_t n = fby_lookup_column_count(t);
    for (uint32_t row = 0; n && row < fby_lookup_count(t); row++) {
        double *values = fby__lookup_row(t, row);
        for (size_t i = 0; i < n; i++)
            values[i] = isnan(values[i]) ? fill : values[i];
    }
}

/* ---- public ---- */

static fby_status check_opts(fby_dataset *const *tables, size_t n_tables, const fby_lookup_opts *o, fby_error *err)
{
    if (!o->key || !*o->key)
        return fby__fail(err, FBY_E_ARG, "a lookup needs the name of its key column");
    if (o->n_more_keys && !o->more_keys)
        return fby__fail(err, FBY_E_ARG, "%zu further columns of the key, but no names", o->n_more_keys);
    if (n_tables == 0 || !tables)
        return fby__fail(err, FBY_E_ARG, "a lookup needs at least one table");
    if (o->has_fill_missing && !isfinite(o->fill_missing))
        return fby__fail(err, FBY_E_ARG, "fill_missing=%g: a finite number is expected; missing values are NaN without it",
                         o->fill_missing);
    if (o->n_columns && !o->columns)
        return fby__fail(err, FBY_E_ARG, "%zu columns of a lookup, but no names", o->n_columns);
    return FBY_OK;
}

static fby_status open_lookup(fby_dataset *const *tables, size_t n_tables, const fby_lookup_opts *opts, fby__account_scope *scope,
                              fby_lookup **out, fby_error *err)
{
    fby__table_key key;
    FBY__TRY(fby__table_key_find(tables[0], opts->key, opts->more_keys, opts->n_more_keys, &key, err));
    names columns = {0};
    fby_lookup *t = NULL;
    fby_status status = choose_columns(tables, n_tables, opts, &key, &columns, err);
    if (status == FBY_OK)
        status = fby__lookup_new(key.text, key.n, columns.at, columns.n, &t, err);
    if (status == FBY_OK)
        status = read_tables(tables, n_tables, opts, &columns, t, scope, err);
    if (status == FBY_OK)
        status = fby__lookup_seal(t, err);
    fby__free(columns.at);
    if (status != FBY_OK) {
        fby_lookup_close(t);
        return status;
    }
    if (opts->has_fill_missing)
        fill_missing(t, opts->fill_missing);
    *out = t;
    return FBY_OK;
}

fby_status fby_lookup_open(fby_dataset *const *tables, size_t n_tables, const fby_lookup_opts *given, fby_lookup **out, fby_error *err)
{
    fby_lookup_opts opts;
    fby__account_scope scope;
    FBY__TRY(FBY__SIZED_IN(fby_lookup_opts, key, given, &opts, err));
    FBY__TRY(check_opts(tables, n_tables, &opts, err));
    FBY__TRY(fby__table_scope_begin(&scope, tables[0], opts.memory_bytes, err));
    return fby__table_scope_end(&scope, tables[0], open_lookup(tables, n_tables, &opts, &scope, out, err), err);
}

/* A part of the files' names is the same in all rows of a file: nothing needs to be read. false: some file has it otherwise. */
static bool is_constant(const fby_dataset *ds, const fby__dataset_column *c)
{
    for (uint64_t i = 0; i < fby_dataset_file_count(ds); i++) {
        fby__file_column origin;
        fby__dataset_file_column(ds, (uint32_t)i, c, &origin);
        if (origin.origin != FBY__ORIGIN_CONSTANT)
            return false;
    }
    return true;
}

static fby_status add_constants(const fby_dataset *ds, const fby__dataset_column *c, fby_lookup *to, fby_error *err)
{
    for (uint64_t i = 0; i < fby_dataset_file_count(ds); i++) {
        fby__file_column origin;
        fby_file_info file = {.size = sizeof file};
        uint32_t row;
        fby__dataset_file_column(ds, (uint32_t)i, c, &origin);
        FBY__TRY(fby_dataset_file(ds, i, &file, err));
        if (file.rows)
            FBY__TRY(fby__lookup_add_text(to, origin.constant, strlen(origin.constant), &row, err));
    }
    return FBY_OK;
}

static fby_status add_distinct(const fby__table_key *key, fby_lookup *to, fby__account_scope *scope, fby_error *err)
{
    fby_output outputs[FBY__KEY_OUTPUTS];
    reading r = {.key = *key, .to = to, .scope = scope, .n_tables = 1, .skip_missing = true};
    return read_rows(&r, outputs, fby__table_key_outputs(key, outputs), BATCH_ROWS, 0, err);
}

static fby_status find_distinct(fby_dataset *ds, const char *column, fby__account_scope *scope, fby_lookup **out, fby_error *err)
{
    fby__table_key key;
    fby__dataset_column c;
    fby_lookup *t;
    FBY__TRY(fby__table_key_find(ds, column, NULL, 0, &key, err));
    FBY__TRY(fby__dataset_resolve(ds, column, &c, err));
    FBY__TRY(fby__lookup_new(key.text, 1, NULL, 0, &t, err));
    fby_status status = FBY_OK;
    if (fby_dataset_rows(ds) > 0)
        status = key.text[0] && is_constant(ds, &c) ? add_constants(ds, &c, t, err) : add_distinct(&key, t, scope, err);
    if (status == FBY_OK)
        status = fby__lookup_seal(t, err);
    if (status != FBY_OK) {
        fby_lookup_close(t);
        return status;
    }
    *out = t;
    return FBY_OK;
}

fby_status fby_lookup_distinct(fby_dataset *ds, const char *column, fby_lookup **out, fby_error *err)
{
    fby__account_scope scope;
    if (!ds || !column)
        return fby__fail(err, FBY_E_ARG, "the distinct values of which column?");
    FBY__TRY(fby__table_scope_begin(&scope, ds, 0, err));
    return fby__table_scope_end(&scope, ds, find_distinct(ds, column, &scope, out, err), err);
}
