/*
 * Made outputs: what a maker reads of each sample, and where its results go, some hundred samples at a time.
 *
 * Rows that were drawn of a longer sample (max_rows) are copied together first; such a sample is a job of its own.
 */
#include "loader/assemble_internal.h"

#include "base/alloc.h"

#include <string.h>

#define TILE 256u /* samples a job: their addresses stay in the L1 cache */

/** One input's values for a job. */
typedef struct input_arrays {
    const uint8_t *data[TILE];
    const uint8_t *valid[TILE];
    uint64_t count[TILE];
} input_arrays;

struct fby__made_arrays {
    uint64_t n_rows[TILE];
    uint64_t id[TILE];
    uint8_t *dst[TILE];
    fby__make_view *views; /* max_inputs; behind the inputs */
    input_arrays inputs[]; /* max_inputs */
};

size_t fby__made_arrays_bytes(const fby__loader_outputs *outputs)
{
    return outputs->max_inputs ? sizeof(struct fby__made_arrays) + outputs->max_inputs * (sizeof(input_arrays) + sizeof(fby__make_view))
                               : 0;
}

fby_status fby__made_arrays_create(const fby__loader_outputs *outputs, struct fby__made_arrays **out, fby_error *err)
{
    *out = NULL;
    if (outputs->max_inputs == 0)
        return FBY_OK;
    struct fby__made_arrays *a = fby__malloc(fby__made_arrays_bytes(outputs));
    if (!a)
        return fby__fail_nomem(err, "the workers");
    a->views = (fby__make_view *)(void *)(a->inputs + outputs->max_inputs);
    *out = a;
    return FBY_OK;
}

void fby__made_arrays_destroy(struct fby__made_arrays *a) { fby__free(a); }

/* Where slot i's values of an input begin, and how many rows are taken. */
static void view_of(const fby__fill *f, uint32_t input, uint64_t slot, uint32_t at)
{
    const fby__output_source *in = &f->s->inputs[input];
    const fby__panel *p = &f->w->entry[slot]->data.panels[in->panel];
    uint64_t row = fby__fill_row(f, slot, in->panel) + in->step;
    input_arrays *a = &f->w->made->inputs[input];
    if (p->offsets) {
        a->data[at] = p->data + p->offsets[row] * fby_dtype_bytes(in->panel_dtype);
        a->count[at] = p->offsets[row + 1] - p->offsets[row];
    } else if (p->views) {
        a->data[at] = p->data + p->views[row].offset;
        a->count[at] = p->views[row].n;
    } else {
        a->data[at] = p->data + row * p->row_bytes + in->offset;
    }
    a->valid[at] = in->want_valid ? p->valid + row * p->layout->n_columns + in->first_column : NULL;
}

static void set_views(const fby__fill *f, uint64_t slot)
{
    struct fby__made_arrays *a = f->w->made;
    for (uint32_t k = 0; k < f->s->n_inputs; k++) {
        const fby__output_source *in = &f->s->inputs[k];
        const fby__panel *p = &f->w->entry[slot]->data.panels[in->panel];
        bool varies = p->offsets || p->views;
        a->views[k] = (fby__make_view){.data = a->inputs[k].data,
                                       .count = varies ? a->inputs[k].count : NULL,
                                       .valid = in->want_valid ? a->inputs[k].valid : NULL,
                                       .row_bytes = p->row_bytes,
                                       .valid_bytes = in->want_valid ? p->layout->n_columns : 0};
    }
}

/* Rows of the panels that differ in length count as one: it is the sample's first that is read. */
static fby_status compact(const fby__fill *f, const fby__picked *rows, fby_error *err)
{
    struct fby__made_arrays *a = f->w->made;
    size_t bytes = 0;
    for (uint32_t k = 0; k < f->s->n_inputs; k++)
        bytes +=
            a->views[k].count
                ? 0
                : ((size_t)rows->n * (f->s->inputs[k].row_elements * fby_dtype_bytes(f->s->inputs[k].panel_dtype) + 1) + 63) & ~(size_t)63;
    uint8_t *at = fby__make_scratch_get(&f->w->scratch_rows, bytes + 1);
    if (!at)
        return fby__fail_nomem(err, "the rows of a sample");
    for (uint32_t k = 0; k < f->s->n_inputs; k++) {
        fby__make_view *v = &a->views[k];
        if (v->count)
            continue;
        size_t item = f->s->inputs[k].row_elements * fby_dtype_bytes(f->s->inputs[k].panel_dtype);
        const uint8_t *src = v->data[0], *valid = v->valid ? v->valid[0] : NULL;
        for (uint64_t i = 0; i < rows->n; i++)
            memcpy(at + i * item, src + rows->index[i] * v->row_bytes, item);
        uint8_t *flags = at + rows->n * item;
        for (uint64_t i = 0; valid && i < rows->n; i++)
            flags[i] = valid[rows->index[i] * v->valid_bytes];
        a->inputs[k].data[0] = at;
        a->inputs[k].valid[0] = valid ? flags : NULL;
        v->row_bytes = item;
        v->valid_bytes = valid ? 1 : 0;
        at += ((size_t)rows->n * (item + 1) + 63) & ~(size_t)63;
    }
    return FBY_OK;
}

static fby_status run_tile(const fby__fill *f, uint64_t slot, uint32_t n, fby_error *err)
{
    struct fby__made_arrays *a = f->w->made;
    fby__make_job job = {
        .n = n, .n_rows = a->n_rows, .id = a->id, .epoch = f->b->epoch, .views = a->views, .dst = a->dst, .scratch = &f->w->scratch_made};
    fby_status status = n ? fby__maker_run(f->s->maker, &job, err) : FBY_OK;
    return status == FBY_OK ? FBY_OK : fby__fill_row_error(f, slot + job.bad, status, err);
}

fby_status fby__fill_made(const fby__fill *f, uint64_t slot, uint64_t n, size_t stride_bytes, uint8_t *dst, fby_error *err)
{
    struct fby__made_arrays *a = f->w->made;
    const fby__output_source *s = f->s;
    uint32_t filled = 0;
    set_views(f, slot);
    for (uint64_t i = slot; i < slot + n; i++) {
        uint64_t rows = s->rows == FBY__ROWS_ALL ? f->w->n_rows[i] : s->n_steps;
        fby__picked picked = {.n = rows};
        if (rows > s->max_rows)
            FBY__TRY(fby__pick_rows(f, i, rows, &picked, err));
        if (filled == TILE || picked.index) {
            FBY__TRY(run_tile(f, i - filled, filled, err));
            filled = 0;
        }
        for (uint32_t k = 0; k < s->n_inputs; k++)
            view_of(f, k, i, filled);
        a->n_rows[filled] = picked.n;
        a->id[filled] = fby__fill_sample(f, i);
        a->dst[filled] = dst;
        dst += stride_bytes ? stride_bytes : (s->of_sample ? 1 : picked.n) * f->o->row_bytes;
        filled++;
        if (picked.index) {
            FBY__TRY(compact(f, &picked, err));
            FBY__TRY(run_tile(f, i, 1, err));
            set_views(f, slot);
            filled = 0;
        }
    }
    return run_tile(f, slot + n - filled, filled, err);
}
