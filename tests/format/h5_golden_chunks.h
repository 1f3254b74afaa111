/* Chunk indexes: golden files of h5py with every kind of index, and what libhdf5 says of them (tests/golden/hdf5_chunks). */
#ifndef FBY_TEST_H5_GOLDEN_CHUNKS_H
#define FBY_TEST_H5_GOLDEN_CHUNKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/hdf5/metadata/hdf5.h"
#include "support/temp_dir.h"

#include <fcntl.h>
#include <inttypes.h>

#define GOLDEN FBY_TEST_DATA "/golden/hdf5_chunks/"
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- golden files ---- */

typedef struct golden {
    char file[64], name[64];
    uint64_t address;
    unsigned index;
    size_t n;
    fby__h5_chunk *chunks;
} golden;

static golden *g_golden;
static size_t g_n_golden;

static inline int load_expected(void **state)
{
    (void)state;
    FILE *f = fopen(GOLDEN "expected.txt", "r");
    golden d;
    if (!f)
        return -1;
    while (fscanf(f, " dataset %63s %63s %" SCNu64 " %u %zu", d.file, d.name, &d.address, &d.index, &d.n) == 5) {
        d.chunks = calloc(d.n + 1, sizeof *d.chunks);
        for (size_t i = 0; i < d.n; i++) {
            fby__h5_chunk *c = &d.chunks[i];
            if (fscanf(f, "%" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu32, &c->number, &c->offset, &c->bytes, &c->mask) != 4)
                return -1;
        }
        g_golden = realloc(g_golden, (g_n_golden + 1) * sizeof *g_golden);
        g_golden[g_n_golden++] = d;
    }
    int end = fgetc(f);
    fclose(f);
    return end == EOF && g_n_golden ? 0 : -1;
}

static inline int free_expected(void **state)
{
    (void)state;
    for (size_t i = 0; i < g_n_golden; i++)
        free(g_golden[i].chunks);
    free(g_golden);
    return 0;
}

static inline const golden *find_golden(const char *file, const char *name)
{
    for (size_t i = 0; i < g_n_golden; i++) {
        if (strcmp(g_golden[i].file, file) == 0 && strcmp(g_golden[i].name, name) == 0)
            return &g_golden[i];
    }
    fail_msg("no golden data set %s of %s", name, file);
    return &g_golden[0]; /* not reached */
}

/* A data set of an open file, and a copy of its description that a test may change. */
typedef struct opened {
    fby__h5_file *f;
    fby__h5_object object;
} opened;

static inline fby_status try_open(opened *o, const char *path, uint64_t address, fby_error *err)
{
    fby__file *file = NULL;
    fby__h5_object *object = NULL;
    o->f = NULL;
    fby_status status = fby__file_open(path, NULL, &file, err);
    if (status == FBY_OK)
        status = fby__h5_file_open(file, &o->f, err);
    fby__file_unref(file);
    if (status == FBY_OK)
        status = fby__h5_object_parse(o->f, address, &object, err);
    if (status == FBY_OK)
        o->object = *object;
    return status;
}

static inline opened open_at(const char *path, uint64_t address)
{
    opened o;
    fby_error err = {0};
    if (try_open(&o, path, address, &err) != FBY_OK)
        fail_msg("%s: %s", path, err.message);
    return o;
}

static inline opened open_golden(const golden *g)
{
    char path[256];
    snprintf(path, sizeof path, GOLDEN "%s", g->file);
    return open_at(path, g->address);
}

#endif
