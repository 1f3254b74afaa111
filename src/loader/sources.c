/* The data sets that a loader's samples come from: one, or those of a mixture. */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/random.h"
#include "base/sized.h"
#include "options/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SOURCE_DOMAIN 0x6d6978u /* "mix" */

static fby_status set_samples(fby__loader_source *in, fby_samples *samples, fby_error *err)
{
    if (!samples)
        return fby__samples_rows(in->ds, &in->samples, err);
    if (fby__samples_dataset(samples) != in->ds)
        return fby__fail(err, FBY_E_ARG, "the samples are of another data set than the one given");
    in->samples = fby_samples_ref(samples);
    return FBY_OK;
}

static bool lies_in_files(const fby_dataset *ds) { return fby_dataset_file_count(ds) && fby__dataset_file_path(ds, 0); }

fby_status fby__loader_io_kind(const fby__loader_sources *sources, bool *out_any, fby__io_kind *out, fby_error *err)
{
    static const fby__io_kind KIND[] = {FBY__IO_AUTO, FBY__IO_THREADS, FBY__IO_URING, FBY__IO_MMAP, FBY__IO_NULL};
    const fby__loader_source *first = NULL;
    *out_any = false;
    for (uint32_t i = 0; i < sources->n; i++) {
        const fby__loader_source *in = &sources->at[i];
        if (!lies_in_files(in->ds))
            continue;
        const fby__io_kind kind = KIND[fby__dataset_io_engine(in->ds)];
        if (first && kind != *out)
            return fby__fail(err, FBY_E_ARG,
                             "source '%s': its files are read with io %s, and those of '%s' with %s: a mixture reads all files in one way, "
                             "so open its data sets with the same io",
                             in->name, fby__io_kind_name(kind), first->name, fby__io_kind_name(*out));
        first = in;
        *out_any = true;
        *out = kind;
    }
    return FBY_OK;
}

fby_status fby__loader_init_sources(fby_loader *l, const fby__asked_source *asked, uint32_t n, fby_error *err)
{
    uint64_t n_blocks = 0;
    l->sources.at = fby__calloc(n, sizeof *l->sources.at);
    l->schedule.sources = fby__calloc(n, sizeof *l->schedule.sources);
    if (!l->sources.at || !l->schedule.sources)
        return fby__fail_nomem(err, "a loader");
    for (uint32_t i = 0; i < n; i++) {
        fby__loader_source *in = &l->sources.at[i];
        *in = (fby__loader_source){.loader = l, .name = fby__strdup(asked[i].name), .ds = fby_dataset_ref(asked[i].ds)};
        l->sources.n = i + 1; /* from here on the destructor knows it */
        in->first_block = (uint32_t)n_blocks;
        in->n_blocks = fby__dataset_block_count(in->ds);
        n_blocks += in->n_blocks;
        if (!in->name)
            return fby__fail_nomem(err, "a loader");
        if (n_blocks > UINT32_MAX / 2)
            return fby__fail(err, FBY_E_UNSUPPORTED, "the sources of a mixture have more than 2^31 blocks");
        FBY__TRY(set_samples(in, asked[i].samples, err));
    }
    l->memory.n_blocks = (uint32_t)n_blocks;
    return FBY_OK;
}

fby_status fby__source_error(const fby__loader_source *in, fby_status status, fby_error *err)
{
    if (status != FBY_OK && in->loader->sources.n > 1)
        fby__error_context(err, "source '%s'", in->name);
    return status;
}

uint64_t fby__source_seed(const fby__loader_source *in)
{
    const fby_loader *l = in->loader;
    return l->sources.n == 1 ? l->config.seed : fby__random_u64(l->config.seed, (uint64_t)(in - l->sources.at), SOURCE_DOMAIN);
}

/* "(B, 3, 8)", as the outputs of a loader are printed; L is the length of the batch's longest sample. */
static const char *shape_text(const fby__batch_output *o, char out[static 200])
{
    static const char *const BEGIN[] = {[FBY_LAYOUT_RAGGED] = "packed (rows", [FBY_LAYOUT_PADDED] = "padded (B, L"};
    int n = snprintf(out, 200, "%s%s", o->bytes ? "strings " : "", fby__batch_output_varies(o) ? BEGIN[o->layout] : "(B");
    for (int32_t d = 0; d < o->ndim_inner; d++)
        n += snprintf(out + n, 200 - (size_t)n, ", %" PRId64, o->inner[d]);
    (void)snprintf(out + n, 200 - (size_t)n, ")");
    return out;
}

/* Is an output of another source like that of the first, which is named `of`? */
static fby_status check_alike(const char *of, const fby__batch_output *first, const fby__batch_output *o, fby_error *err)
{
    char here[200], there[200];
    const bool same_shape = o->layout == first->layout && o->ndim_inner == first->ndim_inner && o->bytes == first->bytes &&
                            memcmp(o->inner, first->inner, (size_t)o->ndim_inner * sizeof *o->inner) == 0;
    if (strcmp(o->name, first->name) != 0)
        return fby__fail(err, FBY_E_ARG, "output '%s' stands where source '%s' has '%s': all sources have the same outputs, in one order",
                         o->name, of, first->name);
    if (o->dtype != first->dtype)
        return fby__fail(err, FBY_E_ARG, "output '%s' is %s, and of source '%s' %s: say which dtype it should have", o->name,
                         fby_dtype_name(o->dtype), of, fby_dtype_name(first->dtype));
    if (!same_shape)
        return fby__fail(err, FBY_E_ARG, "output '%s' has another shape or layout than that of source '%s': %s, and there %s", o->name, of,
                         shape_text(o, here), shape_text(first, there));
    if (o->max_rows != first->max_rows || o->multiple_of != first->multiple_of || o->pad_to_max != first->pad_to_max ||
        o->want_lengths != first->want_lengths || o->text != first->text || memcmp(&o->pad, &first->pad, sizeof o->pad) != 0)
        return fby__fail(err, FBY_E_ARG, "output '%s' is padded or cut in another way than that of source '%s'", o->name, of);
    return FBY_OK;
}

static bool has_output(const fby__batch_shape *shape, const char *name)
{
    uint32_t i = 0;
    while (i < shape->n_outputs && strcmp(shape->outputs[i].name, name) != 0)
        i++;
    return i < shape->n_outputs;
}

/* The first output of `more` that `fewer` lacks. There is one: no name is given twice. */
static const char *lacking(const fby__batch_shape *more, const fby__batch_shape *fewer)
{
    uint32_t i = 0;
    while (has_output(fewer, more->outputs[i].name))
        i++;
    return more->outputs[i].name;
}

static fby_status check_shape(const char *of, const fby__batch_shape *first, const fby__batch_shape *shape, fby_error *err)
{
    const bool more = shape->n_outputs > first->n_outputs;
    if (shape->n_outputs != first->n_outputs)
        return fby__fail(err, FBY_E_ARG, "there are %u outputs, and source '%s' has %u: '%s' is only %s", shape->n_outputs, of,
                         first->n_outputs, more ? lacking(shape, first) : lacking(first, shape), more ? "here" : "there");
    for (uint32_t i = 0; i < first->n_outputs; i++)
        FBY__TRY(check_alike(of, &first->outputs[i], &shape->outputs[i], err));
    return FBY_OK;
}

/* They differ, and one of both has what it has because nothing was named. */
static fby_status nothing_named(const char *of, const fby__batch_shape *shape, const char *other, const fby__batch_shape *named,
                                fby_error *err)
{
    return fby__fail(err, FBY_E_ARG,
                     "no outputs are named for source '%s', which then has every column that can be a tensor, %u, and source '%s' has "
                     "outputs of its own, %u: name the same outputs for each",
                     of, shape->n_outputs, other, named->n_outputs);
}

fby_status fby__loader_resolve_all(fby_loader *l, const fby__asked_source *asked, fby_error *err)
{
    fby__batch_shape *first = NULL;
    fby_status status = FBY_OK;
    for (uint32_t i = 0; i < l->sources.n && status == FBY_OK; i++) {
        status = fby__loader_resolve(&l->sources.at[i], asked[i].opts, err);
        l->outputs.max_panels = (uint32_t)fby__max_u64(l->outputs.max_panels, l->sources.at[i].n_panels);
        if (status == FBY_OK && first) {
            const bool named = asked[i].opts->n_outputs > 0, first_named = asked[0].opts->n_outputs > 0;
            status = check_shape(l->sources.at[0].name, first, l->outputs.shape, err);
            if (status == FBY_E_ARG && first_named && !named)
                status = nothing_named(l->sources.at[i].name, l->outputs.shape, l->sources.at[0].name, first, err);
            else if (status == FBY_E_ARG && named && !first_named)
                status = nothing_named(l->sources.at[0].name, first, l->sources.at[i].name, l->outputs.shape, err);
        }
        status = fby__source_error(&l->sources.at[i], status, err);
        if (first) {
            fby__batch_shape_unref(l->outputs.shape);
            l->outputs.shape = first;
        }
        if (i + 1 < l->sources.n) {
            first = l->outputs.shape;
            l->outputs.shape = NULL;
        }
    }
    if (!l->outputs.shape)
        l->outputs.shape = first; /* the destructor's */
    return status;
}

static void source_fini(fby__loader_source *in)
{
    for (uint32_t i = 0; i < in->n_outputs; i++)
        fby__output_source_fini(&in->outputs[i]);
    fby__free(in->outputs);
    fby__free(in->columns);
    for (uint32_t i = 0; i < in->n_panels; i++) {
        fby__free(in->panels[i].column);
        fby__program_destroy(in->panels[i].program);
        fby__free(in->panels[i].layout.columns);
    }
    fby__free(in->panels);
    fby__free(in->capacity);
    fby__free(in->lengths);
    fby_samples_close(in->samples);
    fby_dataset_close(in->ds);
    fby__free(in->name);
}

void fby__loader_drop_sources(fby_loader *l)
{
    for (uint32_t i = 0; i < l->sources.n; i++) {
        fby__free(l->schedule.sources[i].outgrown);
        fby__free(l->schedule.sources[i].company);
        source_fini(&l->sources.at[i]);
    }
    fby__free(l->schedule.sources);
    fby__free(l->sources.at);
}

uint64_t fby__loader_samples(const fby__loader_sources *sources)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < sources->n; i++)
        n += fby_samples_count(sources->at[i].samples);
    return n;
}

uint64_t fby__loader_rows(const fby__loader_sources *sources)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < sources->n; i++)
        n += fby_dataset_rows(sources->at[i].ds);
    return n;
}

/* ---- mixtures ---- */

static fby_status open_mix(const fby_mix *mix, const fby_loader_opts *opts, fby__arena *arena, fby_loader **out, fby_error *err)
{
    fby_loader_opts plain; /* sized; outputs are still as far apart as the program has them */
    FBY__TRY(FBY__SIZED_IN(fby_loader_opts, batch_size, opts, &plain, err));
    fby__asked_source *asked = fby__arena_alloc(arena, mix->n_sources * sizeof *asked);
    fby_loader_opts *own = fby__arena_alloc(arena, mix->n_sources * sizeof *own);
    if (!asked || !own)
        return fby__fail_nomem(err, "the sources of a mixture");
    for (size_t i = 0; i < mix->n_sources; i++) {
        const fby_mix_source *source = &mix->sources[i];
        fby_loader_opts o = plain;
        o.samples = source->samples;
        if (source->outputs) {
            o.outputs = source->outputs;
            o.n_outputs = source->n_outputs;
        }
        FBY__TRY(fby__loader_opts_in(&o, &own[i], arena, err));
        fby_dataset *ds = (fby_dataset *)(uintptr_t)fby__samples_dataset(source->samples); /* a reference is taken */
        asked[i] = (fby__asked_source){source->name, ds, source->samples, &own[i]};
    }
    return fby__loader_open(asked, (uint32_t)mix->n_sources, mix, &own[0], (fby__memory_giver){0}, out, err);
}

fby_status fby_loader_open_mix(const fby_mix *mix, const fby_loader_opts *opts, fby_loader **out, fby_error *err)
{
    fby__arena arena = {0};
    fby_mix m;
    fby_status status = fby__mix_in(mix, &m, &arena, err);
    if (status == FBY_OK)
        status = open_mix(&m, opts, &arena, out, err);
    fby__arena_fini(&arena);
    return status;
}

size_t fby_loader_source_count(const fby_loader *l) { return l->sources.n; }

fby_status fby_loader_source(const fby_loader *l, size_t i, uint64_t epoch, fby_source_info *out, fby_error *err)
{
    fby__mix_counts c;
    if (i >= l->sources.n)
        return fby__fail(err, FBY_E_ARG, "source %zu asked for, but the loader has %u", i, l->sources.n);
    FBY__TRY(fby__plan_mix_counts(l->plan, epoch, (uint32_t)i, &c, err));
    const fby_source_info info = {
        .size = sizeof info, .name = l->sources.at[i].name, .n_samples = c.n_samples, .n_left = c.n_left, .n_passes = c.n_passes};
    return FBY__SIZED_OUT(fby_source_info, n_passes, &info, out, err);
}
