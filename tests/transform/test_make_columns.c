/* Places of axes, masks of counts and times in a unit, over rows in memory, against indexing and 128-bit arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "block/simd_variants.h"
#include "transform/sample_makers.h"

enum { ROWS = 7 };

/* One sample of n rows that lie row_bytes apart. */
static fby_status run(fixture *f, const void *rows, size_t row_bytes, const uint8_t *valid, uint64_t n, void *dst, uint64_t *out_bad)
{
    const uint8_t *data = rows;
    uint8_t *to = dst;
    const uint64_t id = 0;
    fby__make_scratch scratch = {0};
    fby__make_view view = {.data = &data, .valid = valid ? &valid : NULL, .row_bytes = row_bytes, .valid_bytes = 1};
    fby__make_job job = {.n = 1, .n_rows = &n, .id = &id, .views = &view, .dst = &to, .scratch = &scratch};
    const fby_status status = fby__maker_run(f->maker, &job, &f->err);
    if (out_bad)
        *out_bad = job.bad;
    fby__make_scratch_fini(&scratch);
    return status;
}

static void places_are_those_of_indexing(void **state)
{
    (void)state;
    static const int64_t LISTED[] = {4, -5, 2, 2}, ONE[] = {-1};
    static const fby_axis_places AXES[][2] = {
        {{0}, {.end = 3}},
        {{.begin = 1, .end = -1}, {.begin = -4, .step = 2}},
        {{.places = ONE, .n_places = 1}, {.places = LISTED, .n_places = 4}},
        {{.begin = -99, .end = 99}, {.begin = 4, .end = 5}},
    };
    static const int64_t WANTED[][2][6] = {
        {{0, 1, 2, 3, -1}, {0, 1, 2, -1}}, {{1, 2, -1}, {1, 3, -1}}, {{3, -1}, {4, 0, 2, 2, -1}}, {{0, 1, 2, 3, -1}, {4, -1}}};
    for (size_t t = 0; t < sizeof AXES / sizeof *AXES; t++)
        for (int widens = 0; widens < 2; widens++) {
            fixture f = {.make = {.kind = FBY_MAKE_SELECT, .select = {.axes = AXES[t], .n_axes = 2}},
                         .spec = {.n_rows = ROWS, .max_rows = ROWS}};
            f.spec.dtype = widens ? FBY_FLOAT64 : FBY_DTYPE_NONE;
            with_axes(add_column(&f, "x", FBY_FLOAT32), 4, 5);
            must_create(&f);
            float rows[ROWS * 21], out[ROWS * 20];
            double wide[ROWS * 20];
            for (size_t i = 0; i < ROWS * 21; i++) /* a value behind each row that is not its own */
                rows[i] = (float)i;
            assert_int_equal(run(&f, rows, 21 * sizeof *rows, NULL, ROWS, widens ? (void *)wide : (void *)out, NULL), FBY_OK);
            size_t at = 0;
            for (size_t r = 0; r < ROWS; r++)
                for (const int64_t *i = WANTED[t][0]; *i >= 0; i++)
                    for (const int64_t *k = WANTED[t][1]; *k >= 0; k++, at++)
                        assert_true((widens ? wide[at] : (double)out[at]) == (double)(r * 21 + (size_t)*i * 5 + (size_t)*k));
            assert_int_equal(f.made.ndim, 2);
            assert_int_equal(at, (size_t)f.made.shape[0] * (size_t)f.made.shape[1] * ROWS);
            done_with(&f);
        }
}

static void one_place_takes_its_axis_away(void **state)
{
    (void)state;
    static const int64_t PLACE[] = {2};
    const fby_axis_places last = {.places = PLACE, .n_places = 1, .drop_axis = true};
    fixture f = {.make = {.kind = FBY_MAKE_SELECT, .select = {.axes = &last, .n_axes = 1, .of_last = true}}};
    with_axes(add_column(&f, "x", FBY_INT16), 3, 4);
    must_create(&f);
    const int16_t x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    int16_t out[3];
    assert_int_equal(run(&f, x, sizeof x, NULL, 1, out, NULL), FBY_OK);
    assert_true(f.made.ndim == 1 && f.made.shape[0] == 3 && out[0] == 2 && out[1] == 6 && out[2] == 10);
    done_with(&f);
}

static void selections_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const int64_t FAR[] = {5}, TWO[] = {0, 1};
    static const struct {
        fby_axis_places axis;
        size_t n_axes;
        const char *with;
    } CASES[] = {{{.places = FAR, .n_places = 1}, 1, "there is no place 5 on axis 0 of column 'x': it has 4"},
                 {{.begin = 4}, 1, "no place is taken of axis 0"},
                 {{.begin = 2, .end = 2}, 1, "no place is taken"},
                 {{.places = TWO, .n_places = 2, .drop_axis = true}, 1, "an axis goes when one place of it is taken, not 2"},
                 {{0}, 3, "places of 3 axes, and a row of column 'x' has 2"},
                 {{0}, 0, "places of 0 axes"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const fby_axis_places axes[3] = {CASES[i].axis};
        fixture f = {.make = {.kind = FBY_MAKE_SELECT, .select = {.axes = axes, .n_axes = CASES[i].n_axes}}};
        with_axes(add_column(&f, "x", FBY_FLOAT32), 4, 5);
        must_refuse(&f, FBY_E_ARG, CASES[i].with);
    }
    const fby_axis_places all = {0};
    fixture f = {.make = {.kind = FBY_MAKE_SELECT, .select = {.axes = &all, .n_axes = 1}}};
    (void)add_column(&f, "x", FBY_FLOAT32);
    must_refuse(&f, FBY_E_UNSUPPORTED, "has no axes to select from");
}

static void a_missing_integer_is_not_selected(void **state)
{
    (void)state;
    const fby_axis_places some = {.end = 1};
    fixture f = {.make = {.kind = FBY_MAKE_SELECT, .select = {.axes = &some, .n_axes = 1}}, .spec = {.n_rows = 2, .max_rows = 2}};
    fby__make_column *c = add_column(&f, "x", FBY_INT32);
    with_axes(c, 2, 0);
    c->nullable = true;
    must_create(&f);
    assert_true(c->want_valid);
    const int32_t x[4] = {1, 2, 3, 4};
    int32_t out[2];
    assert_int_equal(run(&f, x, 8, (const uint8_t[]){1, 1}, 2, out, NULL), FBY_OK);
    assert_true(out[0] == 1 && out[1] == 3);
    assert_int_equal(run(&f, x, 8, (const uint8_t[]){1, 0}, 2, out, NULL), FBY_E_DATA);
    done_with(&f);
}

static void counts_are_masks(void **state)
{
    (void)state;
    for (int clips = 0; clips < 2; clips++) {
        fixture f = {.make = {.kind = FBY_MAKE_SEQUENCE_MASK, .sequence_mask = {.size = 4, .clip_count = clips}},
                     .spec = {.n_rows = 3, .max_rows = 3}};
        (void)add_column(&f, "n", FBY_UINT8);
        must_create(&f);
        uint8_t out[12];
        const int64_t counts[] = {0, 3, 4}, beyond[] = {1, 9, 2}, negative[] = {1, -1, 2};
        assert_int_equal(run(&f, counts, 8, NULL, 3, out, NULL), FBY_OK);
        assert_memory_equal(out, ((const uint8_t[]){0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}), 12);
        assert_int_equal(run(&f, beyond, 8, NULL, 3, out, NULL), clips ? FBY_OK : FBY_E_DATA);
        if (clips)
            assert_memory_equal(out + 4, ((const uint8_t[]){1, 1, 1, 1, 1, 1, 0, 0}), 8);
        assert_int_equal(run(&f, negative, 8, NULL, 3, out, NULL), FBY_E_DATA);
        done_with(&f);
    }
    fixture none = {.make = {.kind = FBY_MAKE_SEQUENCE_MASK}};
    (void)add_column(&none, "n", FBY_INT32);
    must_refuse(&none, FBY_E_ARG, "a mask of 0 places");
    fixture real = {.make = {.kind = FBY_MAKE_SEQUENCE_MASK, .sequence_mask = {.size = 4}}};
    (void)add_column(&real, "n", FBY_FLOAT32);
    must_refuse(&real, FBY_E_UNSUPPORTED, "is no count");
}

static void times_are_exact_in_every_unit(void **state)
{
    (void)state;
    static const int64_t NS[] = {[FBY_UNIT_S] = 1000000000, [FBY_UNIT_MS] = 1000000, [FBY_UNIT_US] = 1000, [FBY_UNIT_NS] = 1};
    const int64_t times[] = {0, 1, -1, 999, -999, INT64_C(1700000000123456789), INT64_C(-1700000000123456789), INT64_MAX, INT64_MIN};
    for (fby_unit from = FBY_UNIT_S; from <= FBY_UNIT_NS; from++)
        for (fby_unit to = FBY_UNIT_S; to <= FBY_UNIT_NS; to++) {
            fixture f = {.make = {.kind = FBY_MAKE_TIME, .time = {.unit = to}}};
            (void)add_column(&f, "t", FBY_INT64);
            f.fields[0].kind = FBY_KIND_TIMESTAMP;
            f.fields[0].unit = from;
            must_create(&f);
            assert_int_equal(f.made.dtype, FBY_INT64);
            for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
                const __int128 exact = (__int128)times[i] * NS[from];
                const __int128 want = exact / NS[to] - (exact % NS[to] < 0);
                int64_t out = 0;
                const bool fits = want >= INT64_MIN && want <= INT64_MAX;
                assert_int_equal(run(&f, &times[i], 8, NULL, 1, &out, NULL), fits ? FBY_OK : FBY_E_DATA);
                if (fits)
                    assert_true(out == (int64_t)want);
            }
            done_with(&f);
        }
}

static void times_that_cannot_be_are_refused(void **state)
{
    (void)state;
#define REFUSED(status, with, time_, kind_, ...)                                                                                           \
    do {                                                                                                                                   \
        fixture f = {.make = {.kind = FBY_MAKE_TIME, .time = time_}};                                                                      \
        fby__make_column *c = add_column(&f, "t", FBY_INT64);                                                                              \
        f.fields[0].kind = kind_;                                                                                                          \
        f.fields[0].unit = FBY_UNIT_S;                                                                                                     \
        __VA_ARGS__;                                                                                                                       \
        (void)c;                                                                                                                           \
        must_refuse(&f, status, with);                                                                                                     \
    } while (0)
#define TIME(...) ((fby_make_time){__VA_ARGS__})
    REFUSED(FBY_E_ARG, "the unit s, ms, us or ns", TIME(0), FBY_KIND_DATE, (void)0);
    REFUSED(FBY_E_UNSUPPORTED, "holds no times", TIME(.unit = FBY_UNIT_S), FBY_KIND_INT, (void)0);
    REFUSED(FBY_E_UNSUPPORTED, "is no duration", TIME(.unit = FBY_UNIT_S, .is_duration = true), FBY_KIND_TIMESTAMP, (void)0);
    REFUSED(FBY_E_UNSUPPORTED, "is no timestamp", TIME(.unit = FBY_UNIT_S), FBY_KIND_DURATION, (void)0);
    REFUSED(FBY_E_UNSUPPORTED, "holds lists of times", TIME(.unit = FBY_UNIT_S), FBY_KIND_TIMESTAMP, c->kind = FBY__PANEL_RAGGED);
    REFUSED(FBY_E_UNSUPPORTED, "computed with", TIME(.unit = FBY_UNIT_S), FBY_KIND_TIMESTAMP, c->computed = true);
    REFUSED(FBY_E_ARG, "are int64, not float32", TIME(.unit = FBY_UNIT_S), FBY_KIND_TIMESTAMP, f.spec.dtype = FBY_FLOAT32);
}

static void creating_fails_cleanly_without_memory(void **state)
{
    (void)state;
    const fby_axis_places some = {.step = 2};
    fixture select = {.make = {.kind = FBY_MAKE_SELECT, .select = {.axes = &some, .n_axes = 1}}};
    fixture time = {.make = {.kind = FBY_MAKE_TIME, .time = {.unit = FBY_UNIT_NS}}};
    fixture mask = {.make = {.kind = FBY_MAKE_SEQUENCE_MASK, .sequence_mask = {.size = 9}}};
    with_axes(add_column(&select, "x", FBY_FLOAT32), 9, 4);
    (void)add_column(&time, "t", FBY_INT32);
    time.fields[0].kind = FBY_KIND_DATE;
    (void)add_column(&mask, "n", FBY_INT64);
    must_survive_without_memory(&select);
    must_survive_without_memory(&time);
    must_survive_without_memory(&mask);
    done_with(&select);
    done_with(&time);
    done_with(&mask);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(places_are_those_of_indexing),
    cmocka_unit_test(one_place_takes_its_axis_away),
    cmocka_unit_test(selections_that_cannot_be_are_refused),
    cmocka_unit_test(a_missing_integer_is_not_selected),
    cmocka_unit_test(counts_are_masks),
    cmocka_unit_test(times_are_exact_in_every_unit),
    cmocka_unit_test(times_that_cannot_be_are_refused),
    cmocka_unit_test(creating_fails_cleanly_without_memory),
};
SIMD_MAIN(TESTS)
