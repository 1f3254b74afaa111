/*
 * A maker over a few columns in memory, without files or a loader: columns, samples of some rows each, results. Of a few samples, memory that
 * is read and written ends where a page does that nobody may touch.
 */
#ifndef TESTS_TRANSFORM_ENCODE_FIXTURE_H
#define TESTS_TRANSFORM_ENCODE_FIXTURE_H

#include "base/alloc.h"
#include "base/random.h"
#include "block/convert.h"
#include "transform/transform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "block/simd_variants.h"

enum { FIXTURE_COLUMNS = 8, FIXTURE_SAMPLES = 4096, FIXTURE_GUARDED = 64 };

typedef struct fixture {
    fby_make make;
    fby_dtype dtype; /* asked for */
    bool keep_axis;
    uint64_t max_rows;                /* 0 = 1 */
    uint64_t n;                       /* samples */
    uint64_t n_rows[FIXTURE_SAMPLES]; /* 0 in all = 1 */
    uint32_t n_columns;
    fby_field field[FIXTURE_COLUMNS];
    fby__make_column column[FIXTURE_COLUMNS];
    const uint8_t *data[FIXTURE_COLUMNS][FIXTURE_SAMPLES];
    uint64_t count[FIXTURE_COLUMNS][FIXTURE_SAMPLES];
    const uint8_t *valid[FIXTURE_COLUMNS][FIXTURE_SAMPLES];
    size_t row_bytes[FIXTURE_COLUMNS];
    /* what comes out */
    fby__made made;
    uint8_t *result[FIXTURE_SAMPLES];
    uint64_t bad;
    fby_error err;
} fixture;

/* Memory of one sample. Of many samples it is plain: a mapping each takes the kernel long. */
static inline uint8_t *fixture_alloc(const fixture *f, size_t n)
{
    uint8_t *p = f->n <= FIXTURE_GUARDED ? guarded_alloc(n) : malloc(n ? n : 1);
    assert_non_null(p);
    return p;
}

static inline const uint8_t *fixture_copy(const fixture *f, const void *from, size_t n)
{
    uint8_t *p = fixture_alloc(f, n);
    if (n)
        memcpy(p, from, n);
    return p;
}

static inline void fixture_release(const fixture *f, const uint8_t *p, size_t n)
{
    if (f->n <= FIXTURE_GUARDED)
        guarded_free(p, n);
    else
        free((void *)(uintptr_t)p);
}

static inline fixture *fixture_new(fby_make make)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->make = make;
    f->n = 1;
    return f;
}

static inline uint32_t fixture_add(fixture *f, const char *name, fby__panel_kind panel, fby_kind kind, fby_dtype dtype, uint32_t width)
{
    const uint32_t i = f->n_columns++;
    f->field[i] = (fby_field){.name = name, .path = name, .kind = kind, .dtype = dtype};
    f->column[i] = (fby__make_column){.name = name,
                                      .field = &f->field[i],
                                      .kind = panel,
                                      .width = width,
                                      .n_axes = width > 1,
                                      .axes = {width},
                                      .stored = dtype,
                                      .dtype = dtype};
    f->row_bytes[i] = width * fby_dtype_bytes(dtype);
    return i;
}

/* A string a sample, NULL = missing. */
static inline void fixture_strings(fixture *f, const char *name, fby_kind kind, const char *const *texts, uint64_t n)
{
    static const uint8_t flags[] = {0, 1};
    const uint32_t i = fixture_add(f, name, FBY__PANEL_BYTES, kind, FBY_UINT8, 1);
    f->n = n;
    for (uint64_t s = 0; s < n; s++) {
        f->count[i][s] = texts[s] ? strlen(texts[s]) : 0;
        f->data[i][s] = fixture_copy(f, texts[s] ? texts[s] : "", (size_t)f->count[i][s]);
        f->valid[i][s] = &flags[texts[s] != NULL];
        f->column[i].nullable |= !texts[s];
    }
}

/* A row a sample, from an array of them. */
static inline void fixture_values(fixture *f, const char *name, fby_kind kind, fby_dtype dtype, uint32_t width, const void *values,
                                  uint64_t n)
{
    const uint32_t i = fixture_add(f, name, FBY__PANEL_DENSE, kind, dtype, width);
    f->n = n;
    for (uint64_t s = 0; s < n; s++)
        f->data[i][s] = fixture_copy(f, (const uint8_t *)values + s * f->row_bytes[i], f->row_bytes[i]);
}

static inline fby_status fixture_create(fixture *f, fby__maker **out)
{
    for (uint64_t s = 0; s < f->n; s++)
        f->n_rows[s] += f->max_rows == 0;
    f->max_rows += f->max_rows == 0;
    fby__make_spec spec = {.output = "x",
                           .make = &f->make,
                           .dtype = f->dtype,
                           .keep_axis = f->keep_axis,
                           .columns = f->column,
                           .n_columns = f->n_columns,
                           .n_rows = f->max_rows,
                           .max_rows = f->max_rows};
    *out = NULL;
    return fby__maker_create(&spec, out, &f->made, &f->err);
}

static inline size_t fixture_result_bytes(const fixture *f)
{
    size_t bytes = fby_dtype_bytes(f->made.dtype);
    for (int32_t i = 0; i < f->made.ndim; i++)
        bytes *= (size_t)f->made.shape[i];
    return bytes;
}

/* Create, run, destroy. */
static inline fby_status fixture_run(fixture *f)
{
    fby__maker *m;
    fby_status status = fixture_create(f, &m);
    if (status != FBY_OK)
        return status;
    fby__make_scratch scratch = {0};
    fby__make_view views[FIXTURE_COLUMNS];
    for (uint32_t i = 0; i < f->n_columns; i++)
        views[i] = (fby__make_view){.data = f->data[i],
                                    .count = f->column[i].kind == FBY__PANEL_DENSE ? NULL : f->count[i],
                                    .valid = f->column[i].want_valid ? f->valid[i] : NULL,
                                    .row_bytes = f->row_bytes[i],
                                    .valid_bytes = 1};
    for (uint64_t s = 0; s < f->n; s++) {
        f->result[s] = fixture_alloc(f, (size_t)f->n_rows[s] * fixture_result_bytes(f));
        memset(f->result[s], 0xa5, (size_t)f->n_rows[s] * fixture_result_bytes(f));
    }
    fby__make_job run = {.n = f->n, .n_rows = f->n_rows, .views = views, .dst = f->result, .scratch = &scratch, .bad = UINT64_MAX};
    status = fby__maker_run(m, &run, &f->err);
    f->bad = run.bad;
    fby__make_scratch_fini(&scratch);
    fby__maker_destroy(m);
    return status;
}

/* Element i of a sample's result. */
static inline double fixture_element(const fixture *f, uint64_t sample, size_t i)
{
    double x = 0;
    size_t bad;
    (void)fby__convert(FBY_FLOAT64, &x, f->made.dtype, f->result[sample] + i * fby_dtype_bytes(f->made.dtype), 1, FBY__SCALE_NONE, &bad);
    return x;
}

static inline void fixture_free(fixture *f)
{
    for (uint64_t s = 0; s < f->n; s++) {
        for (uint32_t i = 0; i < f->n_columns; i++)
            if (f->data[i][s])
                fixture_release(f, f->data[i][s],
                                f->column[i].kind == FBY__PANEL_DENSE ? f->row_bytes[i] * (f->n_rows[s] ? f->n_rows[s] : 1)
                                                                      : f->count[i][s]);
        if (f->result[s])
            fixture_release(f, f->result[s], (size_t)f->n_rows[s] * fixture_result_bytes(f));
    }
    free(f);
}

/* The run's message, when it fails as it should. */
static inline const char *fixture_failure(fixture *f, fby_status expect)
{
    static char message[sizeof f->err.message];
    assert_int_equal(fixture_run(f), expect);
    (void)snprintf(message, sizeof message, "%s", f->err.message);
    fixture_free(f);
    return message;
}

#define assert_contains(text, part)                                                                                                        \
    do {                                                                                                                                   \
        const char *assert_text = (text);                                                                                                  \
        if (!strstr(assert_text, part))                                                                                                    \
            fail_msg("'%s' does not say '%s'", assert_text, part);                                                                         \
    } while (0)

/* Every allocation of a constructor fails in turn; nothing is lost, and at last it succeeds. `make` gives a fixture. */
static inline void fixture_fail_allocations(fixture *(*make)(void))
{
    for (uint64_t at = 1;; at++) {
        fixture *f = make();
        fby__maker *m = NULL;
        fby__alloc_fail_at(at);
        const fby_status status = fixture_create(f, &m);
        fby__alloc_fail_at(0);
        fby__maker_destroy(m);
        fixture_free(f);
        if (status == FBY_OK) {
            assert_true(at > 1);
            return;
        }
        assert_int_equal(status, FBY_E_NOMEM);
        assert_true(at < 1000);
    }
}

#endif
