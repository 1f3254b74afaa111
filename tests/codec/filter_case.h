/*
 * The cases of tests/golden/hdf5_filter, as make_hdf5_filter_golden.py describes them: a pipeline, a stored chunk, and what it
 * holds. Filters and bytes point into the file's contents.
 */
#ifndef TESTS_CODEC_FILTER_CASE_H
#define TESTS_CODEC_FILTER_CASE_H

#include "codec/filter.h"

#include <stdio.h>
#include <stdlib.h>

enum { CASE_FILTERS = 8, CASE_VALUES = 16 };

typedef struct filter_case {
    char name[80];
    fby__filter filters[CASE_FILTERS];
    uint32_t values[CASE_FILTERS][CASE_VALUES];
    uint32_t n_filters, mask;
    bool verify;
    fby__bytes stored, expected;
} filter_case;

typedef struct filter_cases {
    uint8_t *file, *data;
    filter_case *cases;
    size_t n;
} filter_cases;

static inline uint8_t *read_whole(const char *path, size_t *out_n)
{
    FILE *f = fopen(path, "rbe");
    uint8_t *data = NULL;
    *out_n = 0;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        const long n = ftell(f);
        rewind(f);
        data = malloc(n > 0 ? (size_t)n : 1);
        *out_n = data ? fread(data, 1, (size_t)n, f) : 0;
    }
    if (f)
        (void)fclose(f); /* only read */
    return data;
}

/* One record; the test data are as long as they say. */
static inline void parse_record(filter_case *c, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;
    c->expected.n = fby__load_u32(p);
    c->mask = fby__load_u32(p + 4);
    c->verify = p[8] != 0;
    c->n_filters = p[9];
    p += 10;
    for (uint32_t i = 0; i < c->n_filters && i < CASE_FILTERS; i++) {
        const uint32_t n_values = p[2];
        c->filters[i] = (fby__filter){.id = fby__load_u16(p), .n_values = n_values, .values = c->values[i]};
        memcpy(c->values[i], p + 3, (n_values < CASE_VALUES ? n_values : CASE_VALUES) * sizeof(uint32_t));
        p += 3 + 4 * n_values;
    }
    c->stored = (fby__bytes){p, (size_t)(end - p)};
}

/** All cases; n = 0 when the files are missing. The process keeps them to its end. */
static inline filter_cases load_filter_cases(const char *folder)
{
    char path[512];
    size_t file_n, data_n;
    filter_cases all = {0};
    (void)snprintf(path, sizeof path, "%s/cases.bin", folder);
    all.file = read_whole(path, &file_n);
    (void)snprintf(path, sizeof path, "%s/data.bin", folder);
    all.data = read_whole(path, &data_n);
    if (!all.file || !all.data)
        return all;
    for (size_t at = 0; at < file_n;) {
        filter_case *grown = realloc(all.cases, (all.n + 1) * sizeof *grown);
        if (!grown)
            abort();
        all.cases = grown;
        filter_case *c = &all.cases[all.n++];
        *c = (filter_case){0};
        const uint32_t name_n = fby__load_u32(all.file + at);
        (void)snprintf(c->name, sizeof c->name, "%.*s", (int)name_n, (const char *)all.file + at + 4);
        at += 4 + name_n;
        c->expected.data = all.data + fby__load_u32(all.file + at);
        const uint32_t record_n = fby__load_u32(all.file + at + 4);
        parse_record(c, all.file + at + 8, record_n);
        at += 8 + record_n;
    }
    for (size_t i = 0; i < all.n; i++) /* where the array has come to rest */
        for (uint32_t k = 0; k < all.cases[i].n_filters; k++)
            all.cases[i].filters[k].values = all.cases[i].values[k];
    return all;
}

#endif
