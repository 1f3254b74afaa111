/*
 * What is packed: the rows of a data set, block after block, or the samples of a pipeline, as a loader delivers them in file order.
 *
 * For a pipeline, a block is a batch of the loader: so many samples that neighbours are decoded together. A batch is known by its number alone, so
 * that a task begins where it likes. What an output is decides its column: a number a sample is a number, an array a fixed-size list an axis, what
 * varies in length a list, text a string.
 */
#include "pack/input.h"

#include "base/checked.h"
#include "block/arrow.h"
#include "dataset/dataset.h"
#include "loader/given.h"
#include "options/options.h"
#include "pack/pack_impl.h"
#include "pipeline/pipeline.h"
#include "read/arrow.h"
#include "samples/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((double)(1 << 20))
#define FIRST_BLOCK 64u /* samples of the batch that is measured */
#define MAX_BLOCK UINT64_C(65536)
#define LARGER_BATCHES (UINT64_C(32) << 20) /* bytes of a pack's memory that they take beyond the first, at most */
#define SURE 1.25                           /* times what metadata say of a sample: those that are measured may have more */
#define WAIT_NS INT64_C(100000000)
#define NO_SLOW_WAITS UINT64_C(1000000000) /* milliseconds: that a pack waits for what it reads is no news */

struct fby__pack_pipeline {
    fby_loader_opts opts; /* outputs and samples: the arena's and the caller's */
    fby__arena arena;     /* owned */
    char *text;           /* owned: the outputs as they were given, as YAML */
    char hash[33];        /* of that */
    uint64_t block_samples;
    fby_dataset *ds; /* borrowed */
};

struct fby__pack_reader {
    const fby__pack *p;
    fby__arrow_reader *rows; /* owned; NULL = of a pipeline, which has the rest */
    fby_loader *loader;      /* owned */
    struct ArrowSchema schema;
    uint64_t shares; /* the reader has one of so many shares of the memory that its user states */
    bool measured;   /* the loader's batches are of as many samples as they will be */
    uint32_t next;   /* the batch that the loader gives next; UINT32_MAX = it has to be told */
};

/* ---- what depends on more than the sample ---- */

static fby_status refuse(const fby_output *o, const char *why, fby_error *err)
{
    return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': %s", o->name ? o->name : "", why);
}

static bool may_draw_rows(const fby_output *o, const fby_samples *samples)
{
    const bool of_lists = !samples || fby_samples_kind(samples) == FBY_SAMPLES_ROWS || o->one_step;
    return o->max_rows && o->keep == FBY_KEEP_RANDOM && (of_lists || fby_samples_max_rows(samples) > o->max_rows);
}

static fby_status check_output(const fby_output *o, const fby_samples *samples, fby_error *err)
{
    switch (o->from) {
    case FBY_FROM_SEGMENT_IDS:
    case FBY_FROM_IS_REPEAT:
    case FBY_FROM_SOURCE: return refuse(o, "it is of a batch, not of a sample, and a pack has no batches: leave it out", err);
    default: break;
    }
    if (o->make && o->make->kind == FBY_MAKE_CROP && o->make->crop.random)
        return refuse(o, "a random crop is drawn anew in every epoch, and a pack holds one: crop when training, or from a fixed place",
                      err);
    for (size_t i = 0; i < o->n_after; i++)
        if (o->after[i].kind == FBY_AFTER_SPEC_AUGMENT)
            return refuse(o, "spec_augment masks anew in every epoch, and a pack holds one: do it when training", err);
    if (may_draw_rows(o, samples))
        return refuse(
            o, "of longer samples max_rows draws other rows in every epoch, and a pack holds one: keep the first ones (keep=\"first\")",
            err);
    return FBY_OK;
}

/* What padding adds is not packed: a loader of the pack pads again. */
static void unpad(fby_output *o)
{
    if (o->layout != FBY_LAYOUT_PADDED)
        return;
    o->layout = FBY_LAYOUT_RAGGED;
    o->multiple_of = 0;
    o->pad_to_max = o->want_lengths = false;
    o->pad = 0;
}

static fby_status copy_outputs(fby__pack_pipeline *l, const fby_loader_opts *o, fby_error *err)
{
    fby_output *own = fby__arena_alloc(&l->arena, (o->n_outputs + 1) * sizeof *own);
    if (!own)
        return fby__fail_nomem(err, "a pack");
    for (size_t i = 0; i < o->n_outputs; i++) {
        FBY__TRY(check_output(&o->outputs[i], o->samples, err));
        own[i] = o->outputs[i];
        unpad(&own[i]);
    }
    l->opts.outputs = own;
    l->opts.n_outputs = o->n_outputs;
    return FBY_OK;
}

fby_status fby__pack_pipeline_open(fby_dataset *ds, const fby_loader_opts *given, fby__pack_pipeline **out, fby_error *err)
{
    fby_loader_opts o = {FBY_LOADER_SIZES};
    fby__pack_pipeline *l = fby__calloc(1, sizeof *l);
    if (!l)
        return fby__fail_nomem(err, "a pack");
    l->ds = ds;
    l->block_samples = FIRST_BLOCK;
    fby_status status = fby__loader_opts_in(given, &o, &l->arena, err);
    l->opts = (fby_loader_opts){FBY_LOADER_SIZES, .samples = o.samples,   .shuffle = FBY_SHUFFLE_NONE, .tail = FBY_TAIL_KEEP,
                                .streams = 1,     .superbatch_blocks = 1, .prefetch_batches = 2,       .slow_next_ms = NO_SLOW_WAITS};
    if (status == FBY_OK && (o.transform || o.transform_pulled))
        status = fby__fail(err, FBY_E_UNSUPPORTED, "a transform of the program's own is not packed: only outputs are");
    if (status == FBY_OK && o.n_outputs == 0)
        status = fby__fail(err, FBY_E_ARG, "no outputs: name what of each sample is packed");
    if (status == FBY_OK && o.samples && fby__samples_dataset(o.samples) != ds)
        status = fby__fail(err, FBY_E_ARG, "the samples are of another data set than the one that is packed");
    if (status == FBY_OK && o.samples && fby__samples_are_drawn(o.samples))
        status = fby__fail(err, FBY_E_UNSUPPORTED,
                           "samples that are drawn by weights come anew in every epoch, and a pack holds one: pack all of "
                           "them, and draw when training");
    if (status == FBY_OK)
        status = copy_outputs(l, &o, err);
    if (status == FBY_OK)
        status = fby__outputs_text(o.outputs, o.n_outputs, &l->text, err);
    if (status == FBY_OK)
        fby__hash_text(fby__hash(l->text, strlen(l->text)), l->hash);
    if (status == FBY_OK)
        *out = l;
    else
        fby__pack_pipeline_close(l);
    return status;
}

void fby__pack_pipeline_close(fby__pack_pipeline *l)
{
    if (!l)
        return;
    fby__arena_fini(&l->arena);
    fby__free(l->text);
    fby__free(l);
}

const char *fby__pack_pipeline_text(const fby__pack_pipeline *l) { return l->text; }
const char *fby__pack_pipeline_hash(const fby__pack_pipeline *l) { return l->hash; }

const char *fby__pack_pipeline_samples(const fby__pack_pipeline *l)
{
    return l->opts.samples ? fby__samples_identity(l->opts.samples) : fby_dataset_identity(l->ds);
}

void fby__pack_pipeline_measured(fby__pack_pipeline *l, double sample_bytes)
{
    l->block_samples = 1;
    while (l->block_samples < MAX_BLOCK && 2 * (double)l->block_samples * sample_bytes <= BLOCK_BYTES)
        l->block_samples *= 2;
}

/* ---- blocks ---- */

uint64_t fby__pack_row_count(const fby__pack *p)
{
    return p->pipeline && p->pipeline->opts.samples ? fby_samples_count(p->pipeline->opts.samples) : fby_dataset_rows(p->ds);
}

uint32_t fby__pack_block_count(const fby__pack *p)
{
    return p->pipeline ? (uint32_t)fby__div_up_u64(p->rows, p->pipeline->block_samples) : fby__dataset_block_count(p->ds);
}

uint64_t fby__pack_block_begin(const fby__pack *p, uint32_t block)
{
    if (p->pipeline)
        return fby__min_u64(block * p->pipeline->block_samples, p->rows);
    return block < fby__dataset_block_count(p->ds) ? fby__dataset_block(p->ds, block)->first_row : p->rows;
}

uint32_t fby__pack_block_of(const fby__pack *p, uint64_t row)
{
    return p->pipeline ? (uint32_t)(row / p->pipeline->block_samples) : fby__block_of_row(p->ds, row);
}

/* The last block of the data set whose first sample comes at or before this one, and has any. */
static uint32_t source_block_of_sample(const fby__pack *p, uint64_t sample)
{
    const uint64_t *first = fby__samples_first(p->pipeline->opts.samples);
    uint32_t lo = 0, hi = fby__dataset_block_count(p->ds);
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (first[middle] <= sample)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

uint32_t fby__pack_source_block_of(const fby__pack *p, uint64_t row)
{
    return p->pipeline && p->pipeline->opts.samples ? source_block_of_sample(p, row) : fby__block_of_row(p->ds, row);
}

/* ---- a batch ---- */

/* How values are stored, all the way down. */
static bool same_formats(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    bool same = strcmp(a->format, b->format) == 0 && a->n_children == b->n_children;
    for (int64_t i = 0; same && i < a->n_children; i++)
        same = same_formats(a->children[i], b->children[i]);
    return same;
}

static fby_status check_columns(const struct ArrowSchema *expected, const struct ArrowSchema *found, fby_error *err)
{
    for (int64_t i = 0; i < expected->n_children; i++)
        if (!same_formats(expected->children[i], found->children[i])) /* of one loader, text that is none is all that differs */
            return fby__fail(
                err, FBY_E_DATA,
                "output '%s': a text is not UTF-8, which text in files has to be: state the type of its column with dtypes, as bytes",
                expected->children[i]->name);
    return FBY_OK;
}

static fby_status next_batch(fby__pack_reader *r, uint32_t block, fby_batch **out, fby_error *err)
{
    if (r->next != block)
        FBY__TRY(fby_loader_begin_at(r->loader, 0, block, err));
    r->next = UINT32_MAX;
    fby_status status = FBY_TIMEOUT;
    while (status == FBY_TIMEOUT) {
        FBY__TRY(fby__pack_go_on(r->p, err));
        status = fby_loader_next(r->loader, WAIT_NS, out, err);
    }
    if (status == FBY_END)
        status = fby__fail(err, FBY_E_INTERNAL, "the pipeline ends early");
    if (status == FBY_OK)
        r->next = block + 1;
    return status;
}

static fby_status read_batch(fby__pack_reader *r, uint32_t block, struct ArrowSchema *out_schema, struct ArrowArray *out, fby_error *err)
{
    fby_batch *batch = NULL;
    FBY__TRY(next_batch(r, block, &batch, err));
    const fby_status status = fby_batch_export_arrow(batch, out_schema, out, err);
    fby_batch_unref(batch);
    return status;
}

/* Whether an output is text is what the loader says, whatever the first batch holds. */
static fby_status settle_texts(fby__pack_reader *r, fby_error *err)
{
    for (size_t i = 0; i < fby_loader_output_count(r->loader); i++) {
        fby_output_info info = {.size = sizeof info};
        FBY__TRY(fby_loader_output(r->loader, i, &info, err));
        char *format = (char *)(uintptr_t)r->schema.children[i]->format; /* ours: a copy */
        if (info.text && strcmp(format, "Z") == 0)
            format[0] = 'U';
    }
    return FBY_OK;
}

static fby_status find_schema(fby__pack_reader *r, fby_error *err)
{
    struct ArrowSchema schema;
    struct ArrowArray array;
    if (r->p->schema.release)
        return fby__arrow_schema_copy(&r->p->schema, &r->schema, err);
    FBY__TRY(read_batch(r, 0, &schema, &array, err));
    array.release(&array);
    fby_status status = fby__arrow_schema_copy(&schema, &r->schema, err);
    schema.release(&schema);
    return status == FBY_OK ? settle_texts(r, err) : status;
}

/* ---- the reader ---- */

/*
 * A reader knows its share alone; what is raised is the memory of the pack, to what is enough for the rest of it, too. Rows that were measured may be larger
 * than metadata say: texts in dictionaries.
 */
static uint64_t enough(const void *user, uint64_t bytes, double row_bytes)
{
    const fby__pack_reader *r = user;
    const double measured = r->p->row_bytes, more = row_bytes > 0 ? fmax(1, measured / row_bytes) : 1;
    return fby__max_u64((uint64_t)((double)r->shares * (double)bytes * more), fby__pack_enough(r->p, fmax(measured, row_bytes)));
}

/* The first loader has batches of few samples: those of the others take some MiB more. */
static uint64_t enough_for_samples(const void *user, uint64_t bytes, double sample_bytes)
{
    const fby__pack_reader *r = user;
    return fby__max_u64(r->shares * bytes + (r->measured ? 0 : LARGER_BATCHES), fby__pack_enough(r->p, SURE * sample_bytes));
}

static fby_status in_memory_of_pack(const fby__pack_reader *r, fby_status status, fby_error *err)
{
    if (status == FBY_E_BUDGET && err && r->shares > 1)
        fby__error_context(err, "a pack reads with one part in %llu of its memory", (unsigned long long)r->shares);
    return status;
}

static fby_status open_pipeline(fby__pack_reader *r, uint64_t memory_bytes, fby_error *err)
{
    const fby__pack *p = r->p;
    fby_loader_opts opts = p->pipeline->opts;
    if (p->rows == 0)
        return fby__fail(err, FBY_E_ARG, "there are no samples to pack");
    opts.batch_size = p->pipeline->block_samples;
    opts.memory_bytes = memory_bytes;
    r->measured = p->row_bytes > 0;
    FBY__TRY(fby__loader_open_given(p->ds, &opts, (fby__memory_giver){enough_for_samples, r}, &r->loader, err));
    return find_schema(r, err);
}

uint64_t fby__pack_reader_enough(const fby__pack_reader *r)
{
    return r->rows ? fby__arrow_reader_enough(r->rows) : fby__pack_enough(r->p, r->p->row_bytes);
}

static fby_status reader_new(fby__pack_reader **out, fby_error *err)
{
    *out = fby__calloc(1, sizeof **out);
    if (!*out)
        return fby__fail_nomem(err, "a pack");
    (*out)->next = UINT32_MAX;
    return FBY_OK;
}

static fby_status opened(fby__pack_reader *r, fby_status status, fby__pack_reader **out, fby_error *err)
{
    status = in_memory_of_pack(r, status, err);
    if (status == FBY_OK)
        *out = r;
    else
        fby__pack_reader_close(r);
    return status;
}

fby_status fby__pack_reader_open(const fby__pack *p, uint64_t memory_bytes, fby__pack_reader **out, fby_error *err)
{
    fby__pack_reader *r;
    FBY__TRY(reader_new(&r, err));
    r->p = p;
    r->shares = fby__div_up_u64(p->memory_bytes, fby__max_u64(memory_bytes, 1));
    const fby_status status = p->pipeline ? open_pipeline(r, memory_bytes, err)
                                          : fby__arrow_reader_open(p->ds, p->o->columns, p->o->n_columns, memory_bytes, &r->rows, err);
    if (r->rows)
        fby__arrow_reader_set_giver(r->rows, (fby__memory_giver){enough, r});
    return opened(r, status, out, err);
}

fby_status fby__pack_reader_open_rows(fby_dataset *ds, const char *const *columns, size_t n, uint64_t memory_bytes, fby__pack_reader **out,
                                      fby_error *err)
{
    fby__pack_reader *r;
    FBY__TRY(reader_new(&r, err));
    return opened(r, fby__arrow_reader_open(ds, columns, n, memory_bytes, &r->rows, err), out, err);
}

void fby__pack_reader_close(fby__pack_reader *r)
{
    if (!r)
        return;
    fby__arrow_reader_close(r->rows);
    fby_loader_close(r->loader);
    if (r->schema.release)
        r->schema.release(&r->schema);
    fby__free(r);
}

const struct ArrowSchema *fby__pack_reader_schema(const fby__pack_reader *r)
{
    return r->rows ? fby__arrow_reader_schema(r->rows) : &r->schema;
}

fby_status fby__pack_reader_block(fby__pack_reader *r, uint32_t block, struct ArrowArray *out, fby_error *err)
{
    struct ArrowSchema schema;
    fby_status status = r->rows ? fby__arrow_reader_block(r->rows, block, out, err) : read_batch(r, block, &schema, out, err);
    if (status != FBY_OK || r->rows)
        return in_memory_of_pack(r, status, err);
    status = check_columns(&r->schema, &schema, err);
    schema.release(&schema);
    if (status != FBY_OK)
        out->release(out);
    return status;
}

bool fby__pack_reader_lacks_room(const fby__pack_reader *r) { return r->rows && fby__arrow_reader_lacks_room(r->rows); }
