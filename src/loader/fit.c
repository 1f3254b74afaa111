/*
 * Moments of columns: a loader over the rows in file order reads and decodes them with all its threads, and the calling thread sums what
 * comes. Batches are cut by row numbers alone and merged in order, so neither threads nor budget change a bit of the result.
 */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"

#define BATCH_ROWS 16384u
#define BATCH_VALUES ((uint64_t)4 << 20) /* where a row holds many */

/** The rows that lie in samples, as intervals in order. */
typedef struct cover {
    const fby_samples *samples; /* borrowed; NULL = all rows */
    const fby_dataset *ds;
    uint32_t block;             /* the next sample: block, and number in it */
    uint64_t i;
    uint64_t begin, end;        /* the interval at hand; begin = end: there are no more */
} cover;

/* The next sample's rows; false when there is none. Of plain rows, a block's at once. */
static bool next_sample(cover *c, uint64_t *begin, uint64_t *end)
{
    uint32_t n_blocks = fby__dataset_block_count(c->ds);
    uint64_t n = 0;
    while (c->block < n_blocks && c->i >= (n = fby__samples_of_block(c->samples, c->block))) {
        c->block++;
        c->i = 0;
    }
    if (c->block == n_blocks)
        return false;
    uint64_t row, rows, first = fby__dataset_block(c->ds, c->block)->first_row;
    fby__samples_at(c->samples, c->block, c->i, &row, &rows);
    bool plain = fby_samples_kind(c->samples) == FBY_SAMPLES_ROWS;
    *begin = first + row;
    *end = *begin + (plain ? n : rows);
    c->i = plain ? n : c->i + 1;
    return true;
}

/* Samples in a row that touch or overlap make one interval. */
static void next_interval(cover *c)
{
    if (!c->samples) {
        c->begin = c->end;
        return;
    }
    cover ahead = *c;
    uint64_t begin, end;
    if (!next_sample(&ahead, &begin, &end)) {
        c->begin = c->end;
        return;
    }
    ahead.begin = begin;
    ahead.end = end;
    for (;;) {
        *c = ahead;
        if (!next_sample(&ahead, &begin, &end) || begin > c->end)
            return; /* c stands before that sample */
        ahead.end = fby__max_u64(c->end, end);
    }
}

static void cover_begin(cover *c, const fby_samples *samples, const fby_dataset *ds)
{
    *c = (cover){.samples = samples, .ds = ds};
    if (samples)
        next_interval(c);
    else
        c->end = fby_dataset_rows(ds);
}

/* Rows [from, to) of a batch, for every column. */
static void add_rows(const fby_batch *batch, uint64_t from, uint64_t to, fby__moments *m)
{
    size_t n = fby_batch_tensor_count(batch);
    for (size_t i = 0; i < n; i++, m++) {
        const fby_tensor *values = fby_batch_tensor(batch, i), *next = i + 1 < n ? fby_batch_tensor(batch, i + 1) : NULL;
        const double *at = values->data;
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
}

static fby_status sum_batches(fby_loader *l, cover *c, fby__moments *m, fby_error *err)
{
    uint64_t row = 0;
    for (;;) {
        fby_batch *batch;
        fby_status status = fby_loader_next(l, -1, &batch, err);
        if (status != FBY_OK)
            return status == FBY_END ? FBY_OK : status;
        uint64_t end = row + fby_batch_size(batch);
        while (c->begin < c->end && c->begin < end) {
            uint64_t stop = fby__min_u64(c->end, end);
            add_rows(batch, fby__max_u64(c->begin, row) - row, stop - row, m);
            if (stop < c->end)
                break;
            next_interval(c);
        }
        row = end;
        fby_batch_unref(batch);
    }
}

/* ---- what to read ---- */

static fby_status check_fit(const fby_dataset *ds, const fby_fit_opts *o, fby_error *err)
{
    if (!o || o->size != sizeof *o)
        return fby__fail(err, FBY_E_ARG, "fby_fit_opts.size is not sizeof(fby_fit_opts): set it, and build against the header of this "
                         "library version");
    if (o->n_columns == 0 || !o->columns)
        return fby__fail(err, FBY_E_ARG, "name at least one column to fit");
    if (o->n_ops > FBY_MAX_OPS || (o->n_ops && !o->ops))
        return fby__fail(err, FBY_E_ARG, "%zu operations: at most %d are possible", o->n_ops, FBY_MAX_OPS);
    if (o->samples && fby__samples_dataset(o->samples) != ds)
        return fby__fail(err, FBY_E_ARG, "the samples are of another dataset than the one given");
    return FBY_OK;
}

/* Values of a column in a row, as far as the schema says it. */
static fby_status width_of(const fby_dataset *ds, const char *path, uint64_t *out, fby_error *err)
{
    fby__dataset_column column;
    FBY__TRY(fby__dataset_resolve(ds, path, &column, err));
    uint64_t width = 1;
    for (const fby_field *f = column.field; f->kind == FBY_KIND_FIXED_LIST && f->n_children == 1; f = &f->children[0])
        width = fby__min_u64(width, BATCH_VALUES) * (f->list_size > 0 ? (uint64_t)f->list_size : 1);
    *out = width;
    return FBY_OK;
}

/* One output a column, so that its values lie side by side; ops: n_ops a column. */
static fby_status fill_outputs(const fby_dataset *ds, const fby_fit_opts *o, fby_output *outputs, fby_op *ops, uint64_t *out_batch_rows,
                               fby_error *err)
{
    uint64_t total = 0;
    for (size_t i = 0; i < o->n_columns; i++) {
        uint64_t width;
        FBY__TRY(width_of(ds, o->columns[i], &width, err));
        total = fby__min_u64(total + width, BATCH_VALUES);
        for (size_t k = 0; k < o->n_ops; k++) {
            const fby_op *op = &o->ops[k];
            ops[k] = (fby_op){.kind = op->kind, .a = op->a_each ? op->a_each[i] : op->a, .b = op->b_each ? op->b_each[i] : op->b};
        }
        outputs[i] = (fby_output){.name = o->columns[i], .columns = &o->columns[i], .n_columns = 1, .dtype = FBY_FLOAT64,
                                  .has_fill = o->has_fill, .fill = o->fill, .ops = ops, .n_ops = o->n_ops};
        ops += o->n_ops;
    }
    *out_batch_rows = fby__max_u64(1, fby__min_u64(BATCH_ROWS, BATCH_VALUES / total));
    return FBY_OK;
}

static fby_status fit(fby_dataset *ds, const fby_fit_opts *o, fby_output *outputs, fby_op *ops, fby__moments *m, fby_error *err)
{
    fby_loader_opts opts = {.size = sizeof opts, .outputs = outputs, .n_outputs = o->n_columns, .shuffle = FBY_SHUFFLE_NONE,
                            .tail = FBY_TAIL_KEEP, .memory_bytes = o->memory_bytes, .n_threads = o->n_threads};
    fby_loader *l;
    cover c;
    FBY__TRY(fill_outputs(ds, o, outputs, ops, &opts.batch_size, err));
    FBY__TRY(fby_loader_open(ds, &opts, &l, err));
    cover_begin(&c, o->samples, ds);
    fby_status status = sum_batches(l, &c, m, err);
    fby_loader_close(l);
    return status;
}

fby_status fby_fit_moments(fby_dataset *ds, const fby_fit_opts *opts, fby_moments *out, fby_error *err)
{
    FBY__TRY(check_fit(ds, opts, err));
    fby_output *outputs = fby__calloc(opts->n_columns, sizeof *outputs);
    fby_op *ops = fby__calloc(opts->n_columns, (opts->n_ops + 1) * sizeof *ops);
    fby__moments *m = fby__calloc(opts->n_columns, sizeof *m);
    fby_status status = outputs && ops && m ? fit(ds, opts, outputs, ops, m, err) : fby__fail_nomem(err, "the moments");
    for (size_t i = 0; status == FBY_OK && i < opts->n_columns; i++)
        fby__moments_finish(&m[i], &out[i]);
    fby__free(outputs);
    fby__free(ops);
    fby__free(m);
    return status;
}
