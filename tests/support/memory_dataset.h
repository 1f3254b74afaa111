/*
 * A dataset in memory for tests: columns `id` (int64, the row number), `x` (float32, id / 2), `narrow` (int16, id mod 1000),
 * `gap` (float64, null where id mod 7 = 3), `word` (utf8, "w<id>") and `hits` (list of int32: id mod 5 values, id, id + 1, …),
 * in record batches of given sizes. Written with nothing but the Arrow C data interface.
 */
#ifndef FBY_TESTS_MEMORY_DATASET_H
#define FBY_TESTS_MEMORY_DATASET_H

#include "support/arrow_build.h"

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

static int memory_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    (void)stream;
    *out = arrow_field("+s", "", ARROW_FLAG_NULLABLE, MEMORY_COLUMNS);
    *out->children[0] = arrow_field("l", "id", 0, 0);
    *out->children[1] = arrow_field("f", "x", ARROW_FLAG_NULLABLE, 0);
    *out->children[2] = arrow_field("s", "narrow", 0, 0);
    *out->children[3] = arrow_field("g", "gap", ARROW_FLAG_NULLABLE, 0);
    *out->children[4] = arrow_field("u", "word", ARROW_FLAG_NULLABLE, 0);
    *out->children[5] = arrow_field("+l", "hits", ARROW_FLAG_NULLABLE, 1);
    *out->children[5]->children[0] = arrow_field("i", "item", ARROW_FLAG_NULLABLE, 0);
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
    *out = arrow_array((int64_t)n, 1, MEMORY_COLUMNS);
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
    *out->children[0] = arrow_numbers((int64_t)n, id, NULL, 0);
    *out->children[1] = arrow_numbers((int64_t)n, x, NULL, 0);
    *out->children[2] = arrow_numbers((int64_t)n, narrow, NULL, 0);
    *out->children[3] = arrow_numbers((int64_t)n, gap, valid, nulls);
    *out->children[4] = arrow_array((int64_t)n, 3, 0);
    out->children[4]->buffers[1] = word_at;
    out->children[4]->buffers[2] = word;
    *out->children[5] = arrow_array((int64_t)n, 2, 1);
    out->children[5]->buffers[1] = hits_at;
    *out->children[5]->children[0] = arrow_numbers(values, hits, NULL, 0);
    return 0;
}

static void memory_release(struct ArrowArrayStream *stream)
{
    memory_source *src = stream->private_data;
    free(src->counts);
    arrow_free_stream(stream);
}

/** Open it: n record batches with these row counts. */
static inline fby_status memory_dataset_open(const uint64_t *counts, uint32_t n, fby_dataset **out, fby_error *err)
{
    memory_source *src = calloc(1, sizeof *src);
    src->counts = malloc(n * sizeof *counts + 1);
    memcpy(src->counts, counts, n * sizeof *counts);
    src->n = n;
    struct ArrowArrayStream stream = {memory_get_schema, memory_get_next, arrow_no_error, memory_release, src};
    return fby_dataset_from_arrow(&stream, out, err);
}

#endif
