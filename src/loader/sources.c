/* The data sets that a loader's samples come from: one, or those of a mixture. */
#include "loader/internal.h"

#include "base/alloc.h"

static fby_status take_samples(fby__loader_source *in, fby_samples *samples, fby_error *err)
{
    if (!samples)
        return fby__samples_rows(in->ds, &in->samples, err);
    if (fby__samples_dataset(samples) != in->ds)
        return fby__fail(err, FBY_E_ARG, "the samples are of another data set than the one given");
    in->samples = fby_samples_ref(samples);
    return FBY_OK;
}

fby_status fby__loader_take_source(fby_loader *l, fby_dataset *ds, fby_samples *samples, fby_error *err)
{
    if (!(l->sources = fby__calloc(1, sizeof *l->sources)))
        return fby__fail_nomem(err, "a loader");
    l->n_sources = 1;
    l->sources[0] = (fby__loader_source){.loader = l, .ds = fby_dataset_ref(ds), .n_blocks = fby__dataset_block_count(ds)};
    l->memory.n_blocks = l->sources[0].n_blocks;
    return take_samples(&l->sources[0], samples, err);
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
}

void fby__loader_drop_sources(fby_loader *l)
{
    for (uint32_t i = 0; i < l->n_sources; i++)
        source_fini(&l->sources[i]);
    fby__free(l->sources);
}

uint64_t fby__loader_samples(const fby_loader *l)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < l->n_sources; i++)
        n += fby_samples_count(l->sources[i].samples);
    return n;
}

uint64_t fby__loader_rows(const fby_loader *l)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < l->n_sources; i++)
        n += fby_dataset_rows(l->sources[i].ds);
    return n;
}
