/* What tests of makers need: columns, a maker over them that must come or must be refused, and one run over some samples. */
#ifndef TESTS_TRANSFORM_SAMPLE_MAKERS_H
#define TESTS_TRANSFORM_SAMPLE_MAKERS_H

#include "base/alloc.h"
#include "transform/transform.h"

#include <stdio.h>
#include <string.h>

enum { MAX_COLUMNS = 16 };

/* Everything an output's maker is made of. Zero-initialise, then add columns. */
typedef struct fixture {
    fby_field fields[MAX_COLUMNS];
    fby__make_column columns[MAX_COLUMNS];
    fby__make_spec spec;
    fby_make make;
    fby__maker *maker;
    fby__made made;
    fby_error err;
} fixture;

/* A column of one value a row; axes may be set afterwards by with_axes. */
static inline fby__make_column *add_column(fixture *f, const char *name, fby_dtype stored)
{
    const uint32_t i = f->spec.n_columns++;
    const bool is_float = stored == FBY_FLOAT16 || stored == FBY_BFLOAT16 || stored == FBY_FLOAT32 || stored == FBY_FLOAT64;
    f->fields[i] = (fby_field){.name = name, .path = name, .kind = is_float ? FBY_KIND_FLOAT : FBY_KIND_INT, .dtype = stored};
    f->columns[i] = (fby__make_column){.name = name, .kind = FBY__PANEL_DENSE, .width = 1, .stored = stored, .dtype = stored};
    return &f->columns[i];
}

static inline void with_axes(fby__make_column *c, int64_t first, int64_t second)
{
    c->n_axes = second ? 2 : 1;
    c->axes[0] = first;
    c->axes[1] = second;
    c->width = (uint32_t)(first * (second ? second : 1));
}

static inline void finish_spec(fixture *f)
{
    for (uint32_t i = 0; i < f->spec.n_columns; i++)
        f->columns[i].field = &f->fields[i];
    f->spec.output = "out";
    f->spec.make = &f->make;
    f->spec.columns = f->columns;
    if (f->spec.max_rows == 0)
        f->spec.max_rows = f->spec.n_rows = 1;
}

static inline void must_create(fixture *f)
{
    finish_spec(f);
    if (fby__maker_create(&f->spec, &f->maker, &f->made, &f->err) != FBY_OK)
        fail_msg("%s", f->err.message);
}

static inline void must_refuse(fixture *f, fby_status status, const char *with)
{
    finish_spec(f);
    assert_int_equal(fby__maker_create(&f->spec, &f->maker, &f->made, &f->err), status);
    if (!strstr(f->err.message, "output 'out'") || !strstr(f->err.message, with))
        fail_msg("'%s' in: %s", with, f->err.message);
    assert_null(f->maker);
}

static inline void done_with(fixture *f) { fby__maker_destroy(f->maker); }

/* Creating fails cleanly wherever memory runs out: once for every allocation. */
static inline void must_survive_without_memory(fixture *f)
{
    finish_spec(f);
    fby__make_column columns[MAX_COLUMNS];
    memcpy(columns, f->columns, sizeof columns);
    for (uint64_t at = 1; at < 100; at++) {
        memcpy(f->columns, columns, sizeof columns);
        fby__alloc_fail_at(at);
        const fby_status status = fby__maker_create(&f->spec, &f->maker, &f->made, &f->err);
        fby__alloc_fail_at(0);
        if (status == FBY_OK) {
            assert_true(at > 1);
            return;
        }
        assert_int_equal(status, FBY_E_NOMEM);
    }
    fail_msg("still failing after 100 allocations");
}

#endif
