/*
 * libFuzzer target: arbitrary bytes as a pipeline file. What reads well is described and read again: writing must not fail on what reading
 * took. Then it is opened over the golden data sets, and batches are taken. Files that name a path with a folder in it are only read: an
 * input is not to wander over the machine.
 */
#include "pipeline/pipeline_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BATCHES = 4 };

/* A loader of the default split over the golden data, within bounds. */
static void load(const char *text, size_t n)
{
    static const char *const BOUNDS[] = {"loader.threads=1", "loader.memory=64MiB"};
    const fby_pipeline_opts opts = {
        .size = sizeof opts, .base_dir = FUZZ_GOLDEN "/dataset", .cache_dir = "", .overrides = BOUNDS, .n_overrides = 2};
    fby_pipeline *p;
    fby_loader *loader;
    fby_batch *batch;
    if (memchr(text, '/', n) || memchr(text, '~', n) || memchr(text, '$', n) || memmem(text, n, "..", 2) ||
        memmem(text, n, "cache_dir", 9) || fby_pipeline_parse(text, n, "fuzz.yaml", &opts, &p, NULL) != FBY_OK)
        return;
    if (fby_pipeline_loader(p, NULL, &loader, NULL) == FBY_OK) {
        for (int i = 0; i < MAX_BATCHES && fby_loader_next(loader, -1, &batch, NULL) == FBY_OK; i++)
            fby_batch_unref(batch);
        fby_loader_close(loader);
    }
    fby_pipeline_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fby_pipeline *p = NULL;
    fby_error err = {0};
    if (fby_pipeline_parse((const char *)data, size, "fuzz.yaml", NULL, &p, &err) != FBY_OK)
        return 0;
    bool tables = p->n_lookups > 0; /* outputs that wait for a table cannot be described yet */
    for (size_t i = 0; i < p->n_outputs; i++)
        tables |= p->outputs[i].make && (p->outputs[i].make->kind == FBY_MAKE_LOOKUP || p->outputs[i].make->kind == FBY_MAKE_STANDARDIZE);
    fby__arena arena = {0};
    fby__describing d = {.r = {.arena = &arena, .file = "fuzz.yaml", .base_dir = "", .err = &err}};
    const fby_node *outputs = NULL;
    if (!tables && fby__describe_outputs(&d, p->outputs, p->n_outputs, &outputs) != FBY_OK)
        abort();
    fby__arena_fini(&arena);
    fby_pipeline_close(p);
    load((const char *)data, size);
    return 0;
}
