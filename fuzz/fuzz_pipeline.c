/*
 * libFuzzer target: arbitrary bytes as a pipeline file, read and checked without opening any data. What reads well is described and read
 * again: writing must not fail on what reading took.
 */
#include "pipeline/pipeline_internal.h"

#include <stdlib.h>

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
    return 0;
}
