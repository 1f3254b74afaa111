/*
 * Moments of columns: a loader over the rows in file order reads and decodes them with all its threads, and the calling thread sums what
 * comes. Batches are cut by row numbers alone and merged in order, so neither threads nor budget change a bit of the result.
 *
 * By group: the rows of a batch are sorted by their groups, each group's values are brought together, and summed as one run.
 */
#include "tables/cover.h"
#include "tables/fit_pads.h"
#include "tables/fit_places.h"
#include "tables/table_keys.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/sized.h"
#include "budget/memory_limits.h"
#include "dataset/dataset.h"
#include "options/options.h"
#include "samples/samples.h"

#include <math.h>
#include <string.h>

#define MIB(x) ((double)(x) / (1u << 20))
#define BATCH_ROWS 16384u
#define BATCH_VALUES ((uint64_t)1 << 20) /* where a row holds many */

/* Rows [from, to) of a batch, for every column; what is read beside them comes behind. */
static fby_status add_rows(const fby_batch *batch, uint64_t from, uint64_t to, fby__moment_sums *m, size_t n_columns, fby__places *places,
                           fby_error *err)
{
    const size_t n = fby_batch_tensor_count(batch), n_places = places->n_each ? places->n_each : 1;
    const fby__moment_sums *end = m + n_columns * n_places;
    for (size_t i = 0; m < end; i++, m += n_places) {
        const fby_tensor *values = fby_batch_tensor(batch, i), *next = i + 1 < n ? fby_batch_tensor(batch, i + 1) : NULL;
        const double *at = values->data;
        if (places->n_each) {
            FBY__TRY(fby__places_add(places, values, from, to, m, err));
            continue;
        }
        if (next && next->output == values->output) { /* a list column: its offsets come next */
            const int64_t *offsets = next->data;
            fby__moments_add(m, at + offsets[from], (uint64_t)(offsets[to] - offsets[from]));
            i++;
            continue;
        }
        uint64_t width = 1;
        for (int32_t d = 1; d < values->ndim; d++)
            width *= (uint64_t)values->shape[d];
        fby__moments_add(m, at + from * width, (to - from) * width);
    }
    return FBY_OK;
}

/* ---- by group ---- */

/** Moments by group while they are gathered; and the rows of a batch, sorted. */
typedef struct groups {
    fby__account_scope *scope; /* borrowed: what they are kept in */
    fby__table_key key;
    fby_lookup *table; /* owned; keys alone: the group's number is its row */
    size_t n_columns;
    fby__moment_sums *moments; /* owned; n_columns a group */
    size_t cap_moments, n_moments;
    uint32_t *of_row; /* owned; BATCH_ROWS: the group of each row of an interval */
    uint32_t *sorted; /* owned; BATCH_ROWS: the interval's rows, those of a group side by side */
    uint32_t *local;  /* owned; of a group, its number among those of the interval; UINT32_MAX outside one */
    size_t cap_local, n_local;
    uint32_t *group; /* owned; BATCH_ROWS: of such a number, the group */
    uint32_t *begin; /* owned; BATCH_ROWS + 1: where its rows begin in `sorted` */
    double *values;  /* owned: one group's, of one column */
    size_t cap_values;
} groups;

static fby_status groups_init(groups *g, fby_dataset *ds, const char *by, size_t n_columns, fby_error *err)
{
    *g = (groups){.n_columns = n_columns};
    FBY__TRY(fby__table_key_find(ds, by, NULL, 0, &g->key, err));
    FBY__TRY(fby__lookup_new(g->key.text, 1, NULL, 0, &g->table, err));
    g->of_row = fby__calloc(BATCH_ROWS, sizeof *g->of_row);
    g->sorted = fby__calloc(BATCH_ROWS, sizeof *g->sorted);
    g->group = fby__calloc(BATCH_ROWS, sizeof *g->group);
    g->begin = fby__calloc(BATCH_ROWS + 1, sizeof *g->begin);
    return g->of_row && g->sorted && g->group && g->begin ? FBY_OK : fby__fail_nomem(err, "the groups");
}

static void groups_fini(groups *g)
{
    fby_lookup_close(g->table);
    fby__free(g->moments);
    fby__free(g->of_row);
    fby__free(g->sorted);
    fby__free(g->local);
    fby__free(g->group);
    fby__free(g->begin);
    fby__free(g->values);
}

/* Moments and a number for every group that the table has. */
static fby_status make_room(groups *g, fby_error *err)
{
    size_t n = fby_lookup_count(g->table), cells;
    if (!fby__mul_checked(n, g->n_columns, &cells) || fby__grow((void **)&g->moments, &g->cap_moments, cells, sizeof *g->moments) ||
        fby__grow((void **)&g->local, &g->cap_local, n, sizeof *g->local))
        return fby__fail_nomem(err, "the groups");
    memset(g->moments + g->n_moments, 0, (cells - g->n_moments) * sizeof *g->moments);
    memset(g->local + g->n_local, 0xff, (n - g->n_local) * sizeof *g->local);
    g->n_moments = cells;
    g->n_local = n;
    return FBY_OK;
}

/* Find the groups of rows [from, to), and sort the rows by them, stable; returns how many groups there are. */
static fby_status sort_rows(groups *g, const fby__batch_keys *keys, uint64_t first_row, uint64_t from, uint64_t to, uint32_t *out_n,
                            fby_error *err)
{
    uint32_t n = (uint32_t)(to - from), n_groups = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i && fby__table_key_repeats(&g->key, keys, from + i))
            g->of_row[i] = g->of_row[i - 1];
        else
            FBY__TRY(fby__table_key_add(&g->key, keys, from + i, first_row, g->table, &g->of_row[i], err));
    }
    FBY__TRY(make_room(g, err));
    memset(g->begin, 0, ((size_t)n + 1) * sizeof *g->begin);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *local = &g->local[g->of_row[i]];
        if (*local == UINT32_MAX) {
            g->group[n_groups] = g->of_row[i];
            *local = n_groups++;
        }
        g->begin[*local + 1]++;
    }
    for (uint32_t k = 0; k < n_groups; k++)
        g->begin[k + 1] += g->begin[k];
    for (uint32_t i = 0; i < n; i++) /* begin[k] is moved to the end of group k, which is where k + 1 begins */
        g->sorted[g->begin[g->local[g->of_row[i]]]++] = i;
    for (uint32_t k = n_groups; k > 0; k--)
        g->begin[k] = g->begin[k - 1];
    g->begin[0] = 0;
    for (uint32_t k = 0; k < n_groups; k++)
        g->local[g->group[k]] = UINT32_MAX;
    *out_n = n_groups;
    return FBY_OK;
}

/** Where one column's values of a row begin and end. */
typedef struct column_values {
    const double *at;
    const int64_t *offsets; /* of a list column; NULL: width a row */
    uint64_t width;
} column_values;

static uint64_t value_begin(const column_values *c, uint64_t row) { return c->offsets ? (uint64_t)c->offsets[row] : row * c->width; }

/* n rows of one group. */
static fby_status add_group(groups *g, const column_values *c, uint64_t from, const uint32_t *rows, uint32_t n, fby__moment_sums *m,
                            fby_error *err)
{
    uint64_t first = from + rows[0], last = from + rows[n - 1], total = 0;
    if (last - first + 1 == n) { /* they lie side by side: by file, or of sorted rows */
        fby__moments_add(m, c->at + value_begin(c, first), value_begin(c, last + 1) - value_begin(c, first));
        return FBY_OK;
    }
    for (uint32_t i = 0; i < n; i++)
        total += value_begin(c, from + rows[i] + 1) - value_begin(c, from + rows[i]);
    if (fby__grow((void **)&g->values, &g->cap_values, total, sizeof *g->values))
        return fby__fail_nomem(err, "the groups");
    double *to = g->values;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t begin = value_begin(c, from + rows[i]), end = value_begin(c, from + rows[i] + 1);
        if (end > begin)
            memcpy(to, c->at + begin, (end - begin) * sizeof *to);
        to += end - begin;
    }
    fby__moments_add(m, g->values, total);
    return FBY_OK;
}

/* Rows [from, to) of a batch, for every column and group. */
static fby_status add_grouped(groups *g, const fby_batch *batch, uint64_t first_row, uint64_t from, uint64_t to, fby_error *err)
{
    fby__batch_keys keys;
    uint32_t n_groups;
    fby__table_key_batch(&g->key, batch, &keys);
    FBY__TRY(sort_rows(g, &keys, first_row, from, to, &n_groups, err));
    size_t n = fby_batch_tensor_count(batch), column = 0;
    for (size_t i = keys.n_tensors; column < g->n_columns; i++, column++) {
        const fby_tensor *values = fby_batch_tensor(batch, i), *next = i + 1 < n ? fby_batch_tensor(batch, i + 1) : NULL;
        column_values c = {.at = values->data, .width = 1};
        if (next && next->output == values->output) { /* a list column: its offsets come next */
            c.offsets = next->data;
            i++;
        }
        for (int32_t d = 1; d < values->ndim; d++)
            c.width *= (uint64_t)values->shape[d];
        for (uint32_t k = 0; k < n_groups; k++)
            FBY__TRY(add_group(g, &c, from, g->sorted + g->begin[k], g->begin[k + 1] - g->begin[k],
                               &g->moments[(size_t)g->group[k] * g->n_columns + column], err));
    }
    return FBY_OK;
}

/* ---- all rows ---- */

/* m: one a column, or NULL where they are gathered by group. */
static fby_status add_covered(const fby_batch *batch, uint64_t first_row, fby__cover *c, fby__moment_sums *m, size_t n_columns, groups *g,
                              fby__places *places, fby_error *err)
{
    uint64_t end = first_row + fby_batch_size(batch);
    while (c->begin < c->end && c->begin < end) {
        uint64_t stop = fby__min_u64(c->end, end), begin = fby__max_u64(c->begin, first_row);
        if (m)
            FBY__TRY(add_rows(batch, begin - first_row, stop - first_row, m, n_columns, places, err));
        else
            FBY__TRY(add_grouped(g, batch, first_row, begin - first_row, stop - first_row, err));
        if (stop < c->end)
            break;
        FBY__TRY(fby__cover_next(c, err));
    }
    return FBY_OK;
}

static fby_status sum_batches(fby_loader *l, fby__cover *c, fby__pads *pads, fby__places *places, fby__moment_sums *m, groups *g,
                              fby_error *err)
{
    uint64_t row = 0;
    for (;;) {
        fby_batch *batch;
        FBY__TRY(fby__cancel_check(err));
        fby_status status = fby_loader_next(l, -1, &batch, err);
        if (status != FBY_OK)
            return status == FBY_END ? FBY_OK : status;
        fby__batch_keys keys = {0};
        if (g)
            fby__table_key_batch(&g->key, batch, &keys);
        status = fby__pads_leave_out(pads, batch, keys.n_tensors, row, err);
        if (status == FBY_OK)
            status = add_covered(batch, row, c, m, pads->opts->n_columns, g, places, err);
        row += fby_batch_size(batch);
        fby_batch_unref(batch);
        FBY__TRY(status);
    }
}

/* ---- what to read ---- */

static fby_status check_fit(const fby_dataset *ds, const fby_fit_opts *o, fby_error *err)
{
    if (o->n_columns == 0 || !o->columns)
        return fby__fail(err, FBY_E_ARG, "name at least one column to fit");
    if (o->has_pad && !isfinite(o->pad))
        return fby__fail(err, FBY_E_ARG, "pad=%g: a finite number is expected; NaN is missing without it", o->pad);
    if (o->n_ops > FBY_MAX_OPS || (o->n_ops && !o->ops))
        return fby__fail(err, FBY_E_ARG, "%zu operations: at most %d are possible", o->n_ops, FBY_MAX_OPS);
    if (o->samples && fby__samples_dataset(o->samples) != ds)
        return fby__fail(err, FBY_E_ARG, "the samples are of another data set than the one given");
    if (o->samples && fby__samples_are_drawn(o->samples))
        return fby__fail(err, FBY_E_ARG, "these samples are drawn anew in every epoch (each_epoch): fit those that they are drawn from");
    return FBY_OK;
}

/** The column with the widest rows, and where they are: for messages. */
typedef struct widest {
    uint64_t values;
    const char *column;
    uint32_t file;
} widest;

/* Values of a list in a row, by the metadata of each block: of the block with the longest ones. */
static fby_status list_width(const fby_dataset *ds, const fby__dataset_column *column, uint64_t *out, uint32_t *out_file, fby_error *err)
{
    for (uint32_t b = 0; b < fby__dataset_block_count(ds); b++) {
        const fby__block *block = fby__dataset_block(ds, b);
        fby__table *table;
        fby__file_column at;
        fby__leaf_bounds bounds;
        FBY__TRY(fby__cancel_check_at(b, err));
        fby__dataset_file_column(ds, block->file, column, &at);
        if (at.origin != FBY__ORIGIN_LEAF || block->row_end == block->row_begin)
            continue;
        FBY__TRY(fby__dataset_table(ds, block->file, &table, err));
        table->ops->leaf_bounds(table, block->group, block->row_begin, block->row_end, at.leaf, &bounds);
        fby__table_unref(table);
        const uint64_t width = fby__div_up_u64(bounds.n_values, block->row_end - block->row_begin);
        if (width > *out) {
            *out = width;
            *out_file = block->file;
        }
    }
    return FBY_OK;
}

/* Values of a column in a row, as schema and metadata say it. */
static fby_status width_of(const fby_dataset *ds, const char *path, uint64_t *out, uint32_t *out_file, fby_error *err)
{
    fby__dataset_column column;
    FBY__TRY(fby__dataset_resolve(ds, path, &column, err));
    uint64_t width = 1;
    if (column.field->kind == FBY_KIND_LIST)
        FBY__TRY(list_width(ds, &column, &width, out_file, err));
    for (const fby_field *f = column.field; f->kind == FBY_KIND_FIXED_LIST && f->n_children == 1; f = &f->children[0])
        width = fby__min_u64(width, BATCH_VALUES) * (f->list_size > 0 ? (uint64_t)f->list_size : 1);
    *out = width;
    return FBY_OK;
}

/* One output a column, so that its values lie side by side; ops: n_ops a column. */
static fby_status fill_outputs(const fby_dataset *ds, const fby_fit_opts *o, fby_output *outputs, fby_op *ops, uint64_t *out_batch_rows,
                               widest *w, fby_error *err)
{
    uint64_t total = 0;
    *w = (widest){0};
    for (size_t i = 0; i < o->n_columns; i++) {
        uint64_t width;
        uint32_t file = 0;
        FBY__TRY(width_of(ds, o->columns[i], &width, &file, err));
        if (width > w->values)
            *w = (widest){width, o->columns[i], file};
        total = fby__min_u64(total + width, BATCH_VALUES);
        for (size_t k = 0; k < o->n_ops; k++) {
            const fby_op *op = &o->ops[k];
            const size_t first = i * (op->n_each ? op->n_each : 1); /* of the column's parameters */
            ops[k] = *op;
            ops[k].a_each = op->a_each ? op->a_each + first : NULL;
            ops[k].b_each = op->b_each ? op->b_each + first : NULL;
        }
        outputs[i] = (fby_output){
            .name = o->columns[i], .columns = &o->columns[i], .n_columns = 1, .dtype = FBY_FLOAT64, .ops = ops, .n_ops = o->n_ops};
        ops += o->n_ops;
    }
    *out_batch_rows = fby__max_u64(1, fby__min_u64(BATCH_ROWS, BATCH_VALUES / total));
    return FBY_OK;
}

/* A loader's advice is of options that fit() has not: what it needs is what counts, and which column of which file it is for. */
static fby_status refuse(fby_dataset *ds, const fby_loader_opts *opts, const groups *g, const widest *w, fby_error *err)
{
    fby_loader *l;
    fby_report report = {.size = sizeof report};
    fby_loader_opts o = *opts;
    fby_error found = {.file_offset = -1};
    const char *path = fby__dataset_file_path(ds, w->file), *fewer = "";
    uint64_t needed[2], limit = opts->memory_bytes;
    if (g) {
        fby__account_stats all;
        fby__account_stats_of(g->scope->own.account, &all);
        limit = all.limit_bytes;
    }
    if (!limit) {
        fby__memory_limits now;
        fby__memory_limits_find("", &now);
        limit = fby__memory_most_bytes(&now, 0);
    }
    o.memory_bytes = (uint64_t)1 << 46; /* none of it is taken before a batch is asked for */
    for (int i = 0; i < 2; i++, o.n_threads = 1) {
        if (fby_loader_open(ds, &o, &l, &found) != FBY_OK)
            return FBY_E_BUDGET; /* as it is said already */
        (void)fby_loader_report(l, &report, NULL);
        fby_loader_close(l);
        needed[i] = report.budget_minimum_bytes;
    }
    if (needed[1] <= limit && needed[1] < needed[0])
        fewer = ", or lower threads to 1";
    else if (o.n_outputs > 1)
        fewer = ", or fit fewer columns at once";
    return fby__fail(
        err, FBY_E_BUDGET,
        "'%.300s': fitting column '%.100s' does not fit the memory budget of %llu bytes (%.1f MiB): raise memory to %llu bytes "
        "(%.1f MiB)%s",
        path ? path : "(memory)", w->column, (unsigned long long)limit, MIB(limit), (unsigned long long)needed[0], MIB(needed[0]), fewer);
}

/* outputs: room for those of the key before the columns', and of pads behind. m: NULL where they are gathered by group, in g. */
static fby_status fit(fby_dataset *ds, const fby_fit_opts *o, fby_output *outputs, fby_op *ops, fby__pads *pads, fby__places *places,
                      fby__moment_sums *m, groups *g, fby_error *err)
{
    const size_t before = g ? fby__table_key_outputs(&g->key, outputs) : 0;
    fby_loader_opts opts = {FBY_LOADER_SIZES,
                            .outputs = outputs,
                            .n_outputs = before + o->n_columns + fby__pads_outputs(pads, outputs + before + o->n_columns),
                            .shuffle = FBY_SHUFFLE_NONE,
                            .tail = FBY_TAIL_KEEP,
                            .memory_bytes = o->memory_bytes ? o->memory_bytes : fby__dataset_budget_bytes(ds),
                            .n_threads = o->n_threads};
    fby_loader *l;
    fby__cover c;
    widest w;
    FBY__TRY(fill_outputs(ds, o, outputs + before, ops, &opts.batch_size, &w, err));
    fby_status status = g ? fby__table_loader_open(g->scope, ds, &opts, &l, err) : fby_loader_open(ds, &opts, &l, err);
    if (status != FBY_OK)
        return status == FBY_E_BUDGET ? refuse(ds, &opts, g, &w, err) : status;
    status = fby__cover_begin(&c, o->samples, ds, err);
    if (status == FBY_OK)
        status = sum_batches(l, &c, pads, places, m, g, err);
    if (g)
        fby__table_loader_close(g->scope, l);
    else
        fby_loader_close(l);
    return status;
}

/* As fit(), with memory for what it needs. */
static fby_status fit_columns(fby_dataset *ds, const fby_fit_opts *o, fby__moment_sums *m, groups *g, fby_error *err)
{
    fby__pads pads;
    fby__places places;
    fby_output *outputs = fby__calloc(2 * o->n_columns + 1 + FBY__KEY_OUTPUTS, sizeof *outputs);
    fby_op *ops = fby__calloc(o->n_columns, (o->n_ops + 1) * sizeof *ops);
    const fby_status padded = fby__pads_init(&pads, ds, o, err);
    fby_status status = padded == FBY_OK ? fby__places_init(&places, ds, o, err) : padded;
    if (status == FBY_OK)
        status = outputs && ops ? fit(ds, o, outputs, ops, &pads, &places, m, g, err) : fby__fail_nomem(err, "the moments");
    fby__pads_fini(&pads);
    if (padded == FBY_OK)
        fby__places_fini(&places);
    fby__free(outputs);
    fby__free(ops);
    return status;
}

static fby_status fit_moments(fby_dataset *ds, const fby_fit_opts *opts, fby_moments *out, fby_error *err)
{
    size_t n;
    FBY__TRY(check_fit(ds, opts, err));
    if (!fby__mul_checked(opts->n_columns, opts->n_each ? opts->n_each : 1, &n))
        return fby__fail_nomem(err, "the moments");
    fby__moment_sums *m = fby__calloc(n, sizeof *m);
    fby_moments *finished = fby__calloc(n, sizeof *finished);
    fby_status status = m && finished ? fit_columns(ds, opts, m, NULL, err) : fby__fail_nomem(err, "the moments");
    for (size_t i = 0; status == FBY_OK && i < n; i++)
        fby__moments_finish(&m[i], &finished[i]);
    if (status == FBY_OK)
        status = fby__strided_out("fby_moments", "moments_size", finished, n, sizeof *finished, FBY__SIZE_UP_TO(fby_moments, max), out,
                                  opts->moments_size, err);
    fby__free(finished);
    fby__free(m);
    return status;
}

fby_status fby_fit_moments(fby_dataset *ds, const fby_fit_opts *opts, fby_moments *out, fby_error *err)
{
    fby__arena arena = {0};
    fby_fit_opts o;
    fby_status status = fby__fit_opts_in(opts, &o, &arena, err);
    if (status == FBY_OK)
        status = fit_moments(ds, &o, out, err);
    fby__arena_fini(&arena);
    return status;
}

/* ---- the table of moments by group ---- */

/* The names of its columns: "prcp.mean", …; owned, a NULL behind the last. */
static char **name_moments(const fby_fit_opts *o)
{
    static const char *const WHAT[FBY_GROUP_MOMENTS] = {"mean", "std", "count", "missing", "min", "max"};
    char **names = fby__calloc(o->n_columns + 1, FBY_GROUP_MOMENTS * sizeof *names);
    for (size_t i = 0; names && i < FBY_GROUP_MOMENTS * o->n_columns; i++)
        if (!(names[i] = fby__format("%s.%s", o->columns[i % o->n_columns], WHAT[i / o->n_columns])))
            break;
    return names;
}

static void free_names(char **names)
{
    for (size_t i = 0; names && names[i]; i++)
        fby__free(names[i]);
    fby__free(names);
}

static void put_moments(const groups *g, size_t group, double *row)
{
    for (size_t c = 0; c < g->n_columns; c++) {
        fby_moments m;
        fby__moments_finish(&g->moments[group * g->n_columns + c], &m);
        const double values[FBY_GROUP_MOMENTS] = {m.mean, m.std, (double)m.count, (double)m.n_missing, m.min, m.max};
        for (size_t k = 0; k < FBY_GROUP_MOMENTS; k++)
            row[k * g->n_columns + c] = values[k];
    }
}

static fby_status fill_table(const groups *g, fby_lookup *t, fby_error *err)
{
    size_t n = fby_lookup_count(g->table);
    for (size_t i = 0; i < n; i++) {
        int64_t number;
        const char *text;
        uint32_t row;
        FBY__TRY(fby_lookup_key(g->table, i, &number, &text, err));
        FBY__TRY(text ? fby__lookup_add_text(t, text, strlen(text), &row, err) : fby__lookup_add_number(t, number, &row, err));
        put_moments(g, i, fby__lookup_row(t, row));
    }
    return fby__lookup_seal(t, err);
}

static fby_status make_table(const groups *g, const fby_fit_opts *o, fby_lookup **out, fby_error *err)
{
    fby_lookup *t = NULL;
    size_t n = FBY_GROUP_MOMENTS * o->n_columns;
    char **names = name_moments(o);
    fby_status status = names && names[n - 1] ? fby__lookup_new(g->key.text, 1, (const char *const *)names, n, &t, err)
                                              : fby__fail_nomem(err, "the moments");
    if (status == FBY_OK)
        status = fill_table(g, t, err);
    free_names(names);
    if (status == FBY_OK)
        *out = t;
    else
        fby_lookup_close(t);
    return status;
}

static fby_status fit_groups(fby_dataset *ds, const fby_fit_opts *opts, const char *by, fby_lookup **out, fby_error *err)
{
    groups g;
    fby__account_scope scope;
    FBY__TRY(check_fit(ds, opts, err));
    if (!by)
        return fby__fail(err, FBY_E_ARG, "moments by group need the column of the key");
    if (opts->n_each)
        return fby__fail(err, FBY_E_ARG,
                         "moments by group are of whole columns, not of the places on an axis: fit the places without a key, or keep each "
                         "feature as a column of "
                         "its own");
    FBY__TRY(fby__table_scope_begin(&scope, ds, opts->memory_bytes, err));
    fby_status status = groups_init(&g, ds, by, opts->n_columns, err);
    g.scope = &scope;
    if (status == FBY_OK)
        status = fit_columns(ds, opts, NULL, &g, err);
    if (status == FBY_OK)
        status = make_table(&g, opts, out, err);
    groups_fini(&g);
    return fby__table_scope_end(&scope, ds, status, err);
}

fby_status fby_fit_groups(fby_dataset *ds, const fby_fit_opts *opts, const char *by, fby_lookup **out, fby_error *err)
{
    fby__arena arena = {0};
    fby_fit_opts o;
    fby_status status = fby__fit_opts_in(opts, &o, &arena, err);
    if (status == FBY_OK)
        status = fit_groups(ds, &o, by, out, err);
    fby__arena_fini(&arena);
    return status;
}
