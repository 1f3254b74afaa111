/*
 * A dataset in memory for tests: columns `id` (int64, the row number), `x` (float32, id / 2), `narrow` (int16, id mod 1000),
 * `gap` (float64, null where id mod 7 = 3), `word` (utf8, "w<id>") and `hits` (list of int32: id mod 5 values, id, id + 1, …),
 * in record batches of given sizes. Written with nothing but the Arrow C data interface.
 */
#ifndef FBY_TESTS_MEMORY_DATASET_H
#define FBY_TESTS_MEMORY_DATASET_H

#include <forebay/dataset.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_COLUMNS = 6 };

typedef struct memory_source {
    uint64_t *counts;
    uint32_t n, at;
    uint64_t row;
} memory_source;

static void memory_release_array(struct ArrowArray *a)
{
    for (int64_t i = 0; i < a->n_children; i++) {
        if (a->children[i]->release)
            a->children[i]->release(a->children[i]);
        free(a->children[i]);
    }
    free(a->children);
    for (int64_t i = 0; i < a->n_buffers; i++)
        free((void *)(uintptr_t)a->buffers[i]);
    free((void *)a->buffers);
    a->release = NULL;
}

static struct ArrowArray memory_array(int64_t n, int64_t n_buffers, int64_t n_children)
{
    struct ArrowArray a = {.length = n, .n_buffers = n_buffers, .n_children = n_children, .release = memory_release_array};
    a.buffers = calloc((size_t)n_buffers, sizeof *a.buffers);
    a.children = calloc((size_t)n_children + 1, sizeof *a.children);
    for (int64_t i = 0; i < n_children; i++)
        a.children[i] = calloc(1, sizeof **a.children);
    return a;
}

static void memory_release_schema(struct ArrowSchema *s)
{
    for (int64_t i = 0; i < s->n_children; i++) {
        if (s->children[i]->release)
            s->children[i]->release(s->children[i]);
        free(s->children[i]);
    }
    free(s->children);
    s->release = NULL;
}

static struct ArrowSchema memory_field(const char *format, const char *name, int64_t n_children)
{
    struct ArrowSchema s = {.format = format, .name = name, .flags = ARROW_FLAG_NULLABLE, .n_children = n_children,
                            .release = memory_release_schema};
    s.children = calloc((size_t)n_children + 1, sizeof *s.children);
    for (int64_t i = 0; i < n_children; i++)
        s.children[i] = calloc(1, sizeof **s.children);
    return s;
}

static int memory_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    (void)stream;
    *out = memory_field("+s", "", MEMORY_COLUMNS);
    *out->children[0] = memory_field("l", "id", 0);
    out->children[0]->flags = 0;
    *out->children[1] = memory_field("f", "x", 0);
    *out->children[2] = memory_field("s", "narrow", 0);
    out->children[2]->flags = 0;
    *out->children[3] = memory_field("g", "gap", 0);
    *out->children[4] = memory_field("u", "word", 0);
    *out->children[5] = memory_field("+l", "hits", 1);
    *out->children[5]->children[0] = memory_field("i", "item", 0);
    return 0;
}

static int memory_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    memory_source *src = stream->private_data;
    if (src->at == src->n) {
        *out = (struct ArrowArray){0};
        return 0;
    }
    size_t n = src->counts[src->at++];
    *out = memory_array((int64_t)n, 1, MEMORY_COLUMNS);
    int64_t *id = malloc(8 * n + 8);
    float *x = malloc(4 * n + 8);
    int16_t *narrow = malloc(2 * n + 8);
    double *gap = malloc(8 * n + 8);
    uint8_t *valid = calloc(n / 8 + 1, 1);
    int32_t *word_at = malloc(4 * n + 8), *hits_at = malloc(4 * n + 8);
    char *word = malloc(24 * n + 8);
    int32_t *hits = malloc(4 * 5 * n + 8);
    int32_t letters = 0, values = 0;
    int64_t nulls = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t row = src->row++;
        id[i] = (int64_t)row;
        x[i] = (float)row / 2;
        narrow[i] = (int16_t)(row % 1000);
        gap[i] = (double)row * 3;
        if (row % 7 == 3)
            nulls++;
        else
            valid[i / 8] |= (uint8_t)(1u << (i % 8));
        word_at[i] = letters;
        letters += sprintf(word + letters, "w%llu", (unsigned long long)row);
        hits_at[i] = values;
        for (uint64_t k = 0; k < row % 5; k++)
            hits[values++] = (int32_t)(row + k);
    }
    word_at[n] = letters;
    hits_at[n] = values;
    *out->children[0] = memory_array((int64_t)n, 2, 0);
    out->children[0]->buffers[1] = id;
    *out->children[1] = memory_array((int64_t)n, 2, 0);
    out->children[1]->buffers[1] = x;
    *out->children[2] = memory_array((int64_t)n, 2, 0);
    out->children[2]->buffers[1] = narrow;
    *out->children[3] = memory_array((int64_t)n, 2, 0);
    out->children[3]->buffers[0] = valid;
    out->children[3]->buffers[1] = gap;
    out->children[3]->null_count = nulls;
    *out->children[4] = memory_array((int64_t)n, 3, 0);
    out->children[4]->buffers[1] = word_at;
    out->children[4]->buffers[2] = word;
    *out->children[5] = memory_array((int64_t)n, 2, 1);
    out->children[5]->buffers[1] = hits_at;
    *out->children[5]->children[0] = memory_array(values, 2, 0);
    out->children[5]->children[0]->buffers[1] = hits;
    return 0;
}

static const char *memory_last_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return NULL;
}

static void memory_release(struct ArrowArrayStream *stream)
{
    memory_source *src = stream->private_data;
    free(src->counts);
    free(src);
    stream->release = NULL;
}

/** Open it: n record batches with these row counts. */
static fby_status memory_dataset_open(const uint64_t *counts, uint32_t n, fby_dataset **out, fby_error *err)
{
    memory_source *src = calloc(1, sizeof *src);
    src->counts = malloc(n * sizeof *counts + 1);
    memcpy(src->counts, counts, n * sizeof *counts);
    src->n = n;
    struct ArrowArrayStream stream = {memory_get_schema, memory_get_next, memory_last_error, memory_release, src};
    return fby_dataset_from_arrow(&stream, out, err);
}

#endif
