/* Makers of rows, and samples in memory for them whose rows lie apart, as those of a panel do. */
#ifndef TEST_MAKER_ROWS_H
#define TEST_MAKER_ROWS_H

#include "base/alloc.h"
#include "base/random.h"
#include "block/convert.h"
#include "support/test_seed.h"
#include "transform/transform.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_SAMPLES = 64, MAX_ROWS = 700, ROW_BYTES = 64, N_KEYS = 90 };

static inline uint64_t below(uint64_t n) { return fby__random_below(&random_state, n); }

/* ---- samples: rows of ROW_BYTES, of which columns take some ---- */

typedef struct samples {
    uint64_t n, n_rows[MAX_SAMPLES], id[MAX_SAMPLES];
    uint8_t *rows[MAX_SAMPLES];  /* owned */
    uint8_t *valid[MAX_SAMPLES]; /* owned; one flag a row */
} samples;

static inline void samples_init(samples *s, uint64_t n, uint64_t most_rows)
{
    *s = (samples){.n = n};
    for (uint64_t i = 0; i < n; i++) {
        s->n_rows[i] = most_rows == 1 ? 1 : below(most_rows + 1);
        s->rows[i] = calloc(s->n_rows[i] + 1, ROW_BYTES);
        s->valid[i] = calloc(s->n_rows[i] + 1, 1);
        memset(s->valid[i], 1, s->n_rows[i] + 1);
    }
}

static inline void samples_fini(samples *s)
{
    for (uint64_t i = 0; i < s->n; i++) {
        free(s->rows[i]);
        free(s->valid[i]);
    }
}

static inline uint8_t *cell(const samples *s, uint64_t i, uint64_t row, size_t at) { return s->rows[i] + row * ROW_BYTES + at; }

typedef struct view_memory {
    const uint8_t *data[MAX_SAMPLES], *valid[MAX_SAMPLES];
    uint64_t count[MAX_SAMPLES];
} view_memory;

static inline fby__make_view dense_view(const samples *s, size_t at, bool valid, view_memory *m)
{
    for (uint64_t i = 0; i < s->n; i++) {
        m->data[i] = s->rows[i] + at;
        m->valid[i] = s->valid[i];
    }
    return (fby__make_view){.data = m->data, .valid = valid ? m->valid : NULL, .row_bytes = ROW_BYTES, .valid_bytes = 1};
}

/* ---- makers ---- */

static const fby_field INT_FIELD = {.name = "k", .path = "k", .kind = FBY_KIND_INT, .dtype = FBY_INT64},
                       FLOAT_FIELD = {.name = "x", .path = "x", .kind = FBY_KIND_FLOAT, .dtype = FBY_FLOAT32},
                       DATE_FIELD = {.name = "d", .path = "d", .kind = FBY_KIND_DATE, .dtype = FBY_INT32},
                       TEXT_FIELD = {.name = "t", .path = "t", .kind = FBY_KIND_STRING};

static inline fby__make_column dense(const fby_field *field, fby_dtype dtype)
{
    return (fby__make_column){.name = field->name, .field = field, .kind = FBY__PANEL_DENSE, .width = 1, .stored = dtype, .dtype = dtype};
}

static inline fby__make_column text(void)
{
    return (fby__make_column){
        .name = "t", .field = &TEXT_FIELD, .kind = FBY__PANEL_BYTES, .width = 1, .stored = FBY_UINT8, .dtype = FBY_UINT8};
}

static inline fby__make_spec spec_of(const fby_make *make, fby__make_column *columns, uint32_t n, fby_sample_kind kind, uint64_t n_rows)
{
    return (fby__make_spec){.output = "out",
                            .make = make,
                            .columns = columns,
                            .n_columns = n,
                            .samples = kind,
                            .n_rows = n_rows,
                            .max_rows = n_rows ? n_rows : MAX_ROWS};
}

static inline fby__maker *maker_of(fby__make_spec *spec, fby__made *made)
{
    fby__maker *m = NULL;
    fby_error err = {0};
    if (fby__maker_create(spec, &m, made, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return m;
}

static inline void refused(fby__make_spec spec, fby_status status, const char *part)
{
    fby__maker *m = NULL;
    fby__made made;
    fby_error err = {0};
    assert_int_equal(fby__maker_create(&spec, &m, &made, &err), status);
    assert_null(m);
    if (!strstr(err.message, "output 'out'") || !strstr(err.message, part))
        fail_msg("'%s' lacks '%s'", err.message, part);
}

/* Results of one run; sample i's at out[i]. Odd addresses in steps of the dtype: nothing may rely on more. */
static inline fby_status run(const fby__maker *m, const fby__made *made, const samples *s, const fby__make_view *views, uint8_t **out,
                             uint64_t *bad, fby_error *err)
{
    size_t bytes = fby_dtype_bytes(made->dtype), result = bytes;
    for (int32_t i = 0; i < made->ndim; i++)
        result *= (size_t)made->shape[i];
    uint8_t *dst[MAX_SAMPLES];
    for (uint64_t i = 0; i < s->n; i++) {
        out[i] = calloc((made->of_sample ? 1 : s->n_rows[i]) * result + bytes + 1, 1);
        dst[i] = out[i] + bytes;
    }
    fby__make_scratch scratch = {0};
    fby__make_job r = {.n = s->n, .n_rows = s->n_rows, .id = s->id, .views = views, .dst = dst, .scratch = &scratch};
    fby_status status = fby__maker_run(m, &r, err);
    fby__make_scratch_fini(&scratch);
    if (bad)
        *bad = r.bad;
    for (uint64_t i = 0; i < s->n; i++)
        memmove(out[i], out[i] + bytes, (made->of_sample ? 1 : s->n_rows[i]) * result);
    return status;
}

static inline void free_all(uint8_t **out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        free(out[i]);
}

static inline void put_key(fby_dtype dtype, uint8_t *at, int64_t key)
{
    fby__scalar v;
    size_t bad;
    assert_int_equal(fby__convert(dtype, v.bytes, FBY_INT64, &key, 1, FBY__SCALE_NONE, &bad), FBY_OK);
    memcpy(at, v.bytes, fby_dtype_bytes(dtype));
}

#endif
