/* Programs of other versions: a loader, a report and a state for structs that are shorter or longer than this library's. */
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "support/loader_sizes.h"
#include "support/memory_dataset.h"

#include <forebay/forebay.h>

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const uint64_t COUNTS[] = {40, 50};
static const char *const X[] = {"x"}, *const XID[] = {"x", "id"};

/* Elements of a newer program: what this library knows, and a field behind it. */
typedef struct later_op {
    fby_op now;
    uint64_t unknown;
} later_op;
typedef struct later_output {
    fby_output now;
    uint64_t unknown;
} later_output;
typedef struct later_make {
    fby_make now;
    uint64_t unknown;
} later_make;
typedef struct later_after {
    fby_after now;
    uint64_t unknown;
} later_after;
typedef struct later_opts {
    fby_loader_opts now;
    uint64_t unknown;
} later_opts;

static fby_dataset *dataset(void)
{
    fby_dataset *ds = NULL;
    fby_error err = {0};
    if (memory_dataset_open(COUNTS, 2, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static fby_batch *first_batch(fby_dataset *ds, const fby_loader_opts *opts)
{
    fby_loader *l = NULL;
    fby_batch *b = NULL;
    fby_error err = {0};
    if (fby_loader_open(ds, opts, &l, &err) != FBY_OK || fby_loader_next(l, -1, &b, &err) != FBY_OK)
        fail_msg("%s", err.message);
    fby_loader_close(l);
    return b;
}

static void a_newer_program_gets_the_same_batches(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    later_op twice[] = {{.now = {.kind = FBY_OP_AFFINE, .a = 2}}, {.now = {.kind = FBY_OP_AFFINE, .a = 1, .b = 1}}};
    later_op half[] = {{.now = {.kind = FBY_OP_AFFINE, .a = 0.5}}, {.now = {.kind = FBY_OP_AFFINE, .a = 1, .b = 1}}};
    later_make sum = {.now = {.kind = FBY_MAKE_EXPRESSION, .expression = {.text = "x + id"}}};
    later_after last[] = {{.now = {.kind = FBY_AFTER_CHANNELS_LAST}}, {.now = {.kind = FBY_AFTER_CHANNELS_LAST}}};
    const fby_op *each[] = {&twice[0].now, &half[0].now};
    const size_t n_each[] = {2, 2};
    static const int64_t SHAPE[] = {1, 2};
    later_output outputs[] = {
        {.now = {.name = "x", .columns = X, .n_columns = 1, .ops = &twice[0].now, .n_ops = 2}},
        {.now = {.name = "sum", .columns = XID, .n_columns = 2, .make = &sum.now, .column_ops = each, .n_column_ops = n_each}},
        {.now = {.name = "turned",
                 .columns = XID,
                 .n_columns = 2,
                 .dtype = FBY_FLOAT32,
                 .reshape = SHAPE,
                 .n_reshape = 2,
                 .after = &last[0].now,
                 .n_after = 2}},
    };
    later_opts opts = {.now = {.size = sizeof opts,
                               .output_size = sizeof *outputs,
                               .op_size = sizeof *twice,
                               .make_size = sizeof sum,
                               .after_size = sizeof *last,
                               .outputs = &outputs[0].now,
                               .n_outputs = 3,
                               .batch_size = 90,
                               .shuffle = FBY_SHUFFLE_NONE}};
    fby_batch *b = first_batch(ds, &opts.now);
    const float *x = fby_batch_tensor(b, 0)->data, *sums = fby_batch_tensor(b, 1)->data, *turned = fby_batch_tensor(b, 2)->data;
    for (uint64_t i = 0; i < fby_batch_size(b); i++) {
        assert_float_equal(x[i], (float)i + 1, 0);
        assert_float_equal(sums[i], (float)i + 1 + ((float)i / 2 + 1), 0);
        assert_float_equal(turned[2 * i], (float)i / 2, 0);
        assert_float_equal(turned[2 * i + 1], (float)i, 0);
    }
    fby_batch_unref(b);

    uint64_t *const unknown[] = {&opts.unknown, &outputs[2].unknown, &twice[1].unknown, &half[1].unknown, &sum.unknown, &last[1].unknown};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        fby_loader *l = NULL;
        fby_error err = {0};
        *unknown[i] = 1;
        assert_int_equal(fby_loader_open(ds, &opts.now, &l, &err), FBY_E_ARG);
        assert_non_null(strstr(err.message, "older than the program's header"));
        *unknown[i] = 0;
    }
    for (uint64_t n = 1;; n++) { /* nor is anything lost when memory runs out on the way */
        fby_loader *l = NULL;
        fby_error err = {0};
        fby__alloc_fail_at(n);
        const fby_status status = fby_loader_open(ds, &opts.now, &l, &err);
        fby__alloc_fail_at(0);
        fby_loader_close(l);
        if (status == FBY_OK)
            break;
        assert_int_equal(status, FBY_E_NOMEM);
    }
    fby_dataset_close(ds);
}

typedef struct later_mix {
    fby_mix now;
    uint64_t unknown;
} later_mix;
typedef struct later_source {
    fby_mix_source now;
    uint64_t unknown;
} later_source;

static fby_samples *rows_of(fby_dataset *ds)
{
    const fby_samples_opts opts = {.size = sizeof opts};
    fby_samples *samples = NULL;
    assert_int_equal(fby_samples_open(ds, &opts, &samples, NULL), FBY_OK);
    return samples;
}

static void mixture_refused(const fby_mix *mix, const fby_loader_opts *opts, const char *what)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    assert_int_equal(fby_loader_open_mix(mix, opts, &l, &err), FBY_E_ARG);
    if (!strstr(err.message, what))
        fail_msg("'%s' is not in '%s'", what, err.message);
}

static uint64_t mixed_samples(const fby_mix *mix, const fby_loader_opts *opts)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    if (fby_loader_open_mix(mix, opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    const uint64_t n = fby_loader_sample_count(l);
    fby_loader_close(l);
    return n;
}

static void a_newer_program_mixes(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *samples = rows_of(ds);
    later_op half[] = {{.now = {.kind = FBY_OP_AFFINE, .a = 0.5}}};
    later_output x[] = {{.now = {.name = "x", .columns = X, .n_columns = 1}}},
                 own[] = {{.now = {.name = "x", .columns = X, .n_columns = 1, .ops = &half[0].now, .n_ops = 1}}};
    later_source sources[] = {{.now = {.name = "a", .samples = samples}},
                              {.now = {.name = "b", .samples = samples, .outputs = &own[0].now, .n_outputs = 1}}};
    later_mix mix = {
        .now = {.size = sizeof mix, .source_size = sizeof *sources, .sources = &sources[0].now, .n_sources = 2, .stop = FBY_MIX_ALL}};
    later_opts opts = {.now = {.size = sizeof opts,
                               .output_size = sizeof *x,
                               .op_size = sizeof *half,
                               .make_size = sizeof(fby_make),
                               .after_size = sizeof(fby_after),
                               .outputs = &x[0].now,
                               .n_outputs = 1,
                               .batch_size = 8}};
    uint64_t *const unknown[] = {&opts.unknown, &x[0].unknown, &own[0].unknown, &half[0].unknown, &mix.unknown, &sources[1].unknown};
    assert_int_equal(mixed_samples(&mix.now, &opts.now), 180);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        *unknown[i] = 1;
        mixture_refused(&mix.now, &opts.now, "older than the program's header");
        *unknown[i] = 0;
    }
    fby_samples_close(samples);
    fby_dataset_close(ds);
}

static void an_older_program_mixes(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *samples = rows_of(ds);
    const fby_mix_source sources[] = {{.name = "a", .samples = samples}, {.name = "b", .samples = samples}};
    const fby_mix mix = {.size = sizeof mix, .source_size = sizeof *sources, .sources = sources, .n_sources = 2, .stop = FBY_MIX_ALL};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = offsetof(fby_loader_opts, seed);
    const fby_loader_opts opts = {.size = size, .batch_size = 8};
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0); /* beyond its struct nothing can be read */
    void *const at = pages + page - size;
    memcpy(at, &opts, size);
    assert_int_equal(mixed_samples(&mix, at), 180);
    assert_int_equal(munmap(pages, 2 * page), 0);
    fby_samples_close(samples);
    fby_dataset_close(ds);
}

static void sizes_of_a_mixture_that_are_not_set_are_named(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *samples = rows_of(ds);
    const fby_mix_source sources[] = {{.name = "a", .samples = samples}};
    fby_loader_opts opts = {FBY_LOADER_SIZES, .batch_size = 8};
    fby_mix mix = {.size = sizeof mix, .source_size = sizeof *sources, .sources = sources, .n_sources = 1};
    mixture_refused(NULL, &opts, "fby_mix is needed");
    mixture_refused(&mix, NULL, "fby_loader_opts is needed");
    mix.size = 8;
    mixture_refused(&mix, &opts, "fby_mix.size is 8: set it to sizeof(fby_mix)");
    mix.size = sizeof mix;
    mix.source_size = 0;
    mixture_refused(&mix, &opts, "source_size is 0: set it to sizeof(fby_mix_source)");
    mix.source_size = sizeof *sources;
    mix.sources = NULL;
    mixture_refused(&mix, &opts, "sources is NULL");
    mix.sources = sources;
    opts.size = 8;
    mixture_refused(&mix, &opts, "fby_loader_opts.size is 8: set it to sizeof(fby_loader_opts)");
    fby_samples_close(samples);
    fby_dataset_close(ds);
}

static void an_older_program_sets_fewer_options(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader_opts opts = {.size = offsetof(fby_loader_opts, seed), .batch_size = 90, .shuffle = FBY_SHUFFLE_NONE};
    memset((char *)&opts + opts.size, 0xff, sizeof opts - opts.size); /* beyond its struct: whatever lies there */
    fby_batch *b = first_batch(ds, &opts);
    assert_int_equal(fby_batch_size(b), 90);
    fby_batch_unref(b);
    fby_dataset_close(ds);
}

static void sizes_that_are_not_set_are_named(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    const fby_op op = {.kind = FBY_OP_LOG1P};
    const fby_output x = {.name = "x", .columns = X, .n_columns = 1, .ops = &op, .n_ops = 1};
    fby_loader *l = NULL;
    fby_error err = {0};
    fby_loader_opts opts = {.size = sizeof(void *), .outputs = &x, .n_outputs = 1, .batch_size = 8};
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "fby_loader_opts.size is 8: set it to sizeof(fby_loader_opts)"));
    opts.size = sizeof opts;
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "output_size is 0: set it to sizeof(fby_output)"));
    opts.output_size = sizeof x;
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "op_size is 0: set it to sizeof(fby_op)"));
    assert_int_equal(fby_loader_open(ds, NULL, &l, &err), FBY_E_ARG);
    fby_dataset_close(ds);
}

static void reports_and_states_fit_the_program(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader *l = NULL;
    fby_error err = {0};
    const fby_loader_opts opts = {FBY_LOADER_SIZES, .batch_size = 16, .superbatch_samples = 20};
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_OK);
    struct {
        fby_report now;
        uint64_t unknown;
    } report;
    memset(&report, 0xff, sizeof report);
    report.now.size = sizeof report;
    assert_int_equal(fby_loader_report(l, &report.now, &err), FBY_OK);
    assert_int_equal(report.now.size, sizeof report);
    assert_int_equal(report.now.streams, 8);
    assert_int_equal(report.unknown, 0);
    report.unknown = 99;
    report.now.size = offsetof(fby_report, streams) & ~(sizeof(void *) - 1);
    report.now.streams = 77;
    assert_int_equal(fby_loader_report(l, &report.now, &err), FBY_OK);
    assert_int_equal(report.now.streams, 77); /* not its own */

    fby_loader_state whole = {.size = sizeof whole}, shorter = {.size = offsetof(fby_loader_state, part_keys_hash), .part_keys_hash = 77};
    assert_int_equal(fby_loader_state_get(l, &whole, &err), FBY_OK);
    assert_int_equal(fby_loader_state_get(l, &shorter, &err), FBY_OK);
    assert_int_equal(shorter.part_keys_hash, 77);
    assert_int_equal(fby_loader_state_set(l, &whole, &err), FBY_OK);
    assert_int_equal(fby_loader_state_set(l, &shorter, &err), FBY_OK); /* what it lacks is as it is without: no parts */
    shorter.size = sizeof shorter - 3;                                 /* a field would be cut in two */
    assert_int_equal(fby_loader_state_get(l, &shorter, &err), FBY_E_ARG);
    shorter.size = sizeof(void *);
    assert_int_equal(fby_loader_state_get(l, &shorter, &err), FBY_E_ARG);
    assert_int_equal(fby_loader_state_set(l, &shorter, &err), FBY_E_ARG);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void moments_fit_the_program(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_error err = {0};
    struct {
        fby_moments now;
        uint64_t unknown;
    } m[2] = {{.unknown = 9}, {.unknown = 9}};
    fby_fit_opts opts = {FBY_FIT_SIZES, .columns = XID, .n_columns = 2};
    opts.moments_size = sizeof *m;
    assert_int_equal(fby_fit_moments(ds, &opts, &m[0].now, &err), FBY_OK);
    assert_float_equal(m[1].now.max, 89, 0);
    assert_int_equal(m[1].unknown, 0);
    opts.moments_size = 0;
    assert_int_equal(fby_fit_moments(ds, &opts, &m[0].now, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "moments_size"));
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newer_program_gets_the_same_batches),
        cmocka_unit_test(an_older_program_sets_fewer_options),
        cmocka_unit_test(a_newer_program_mixes),
        cmocka_unit_test(an_older_program_mixes),
        cmocka_unit_test(sizes_of_a_mixture_that_are_not_set_are_named),
        cmocka_unit_test(sizes_that_are_not_set_are_named),
        cmocka_unit_test(reports_and_states_fit_the_program),
        cmocka_unit_test(moments_fit_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
