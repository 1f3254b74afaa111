/*
 * Row operations through the loader, over files of every codec and I/O engine and over record batches in memory, against the C library's
 * functions; which outputs share a panel; moments of columns, over all rows and over those of samples; failures.
 */
#include "support/loader_fixture.h"
#include "support/memory_dataset.h"

#include "loader/internal.h"

static const double MEAN[] = {10, 500}, STD[] = {4, 20}, FACTOR[] = {2, 0.5};

static const fby_op STANDARD[] = {{.kind = FBY_OP_STANDARDIZE, .a_each = MEAN, .b_each = STD}},
                    FILLED[] = {{.kind = FBY_OP_FILL_MISSING}, {.kind = FBY_OP_STANDARDIZE, .a_each = MEAN, .b_each = STD}},
                    SECOND[] = {{.kind = FBY_OP_STANDARDIZE, .a = 500, .b = 20}},
                    CHAIN[] = {{.kind = FBY_OP_FILL_MISSING, .a = 100},
                               {.kind = FBY_OP_AFFINE, .a = 3, .b = -1},
                               {.kind = FBY_OP_LOG10, .a = 0.5},
                               {.kind = FBY_OP_CLIP, .a = 0, .b = 1.25}},
                    COUNT[] = {{.kind = FBY_OP_LOG1P}}, MASKED[] = {{.kind = FBY_OP_FILL_NAN, .a = -7}},
                    TWICE[] = {{.kind = FBY_OP_AFFINE, .a_each = FACTOR}};

static const fby_output COMPUTED[] = {
    {.name = "id", .columns = ID, .n_columns = 1},
    {.name = "xn", .columns = XN, .n_columns = 2, .ops = STANDARD, .n_ops = 1},
    {.name = "n", .columns = N, .n_columns = 1, .dtype = FBY_FLOAT32, .ops = SECOND, .n_ops = 1},
    {.name = "chain", .columns = XN, .n_columns = 2, .dtype = FBY_FLOAT64, .ops = CHAIN, .n_ops = 4},
    {.name = "half", .columns = X, .n_columns = 1, .dtype = FBY_FLOAT16, .ops = MASKED, .n_ops = 1},
    {.name = "hits", .columns = HITS, .n_columns = 1, .ops = COUNT, .n_ops = 1},
    {.name = "x", .columns = X, .n_columns = 1},
    {.name = "gone", .from = FBY_FROM_IS_MISSING, .columns = X, .n_columns = 1},
};
enum { N_COMPUTED = sizeof COMPUTED / sizeof *COMPUTED };

static bool near(double got, double expect, double digits)
{
    return isnan(expect) ? isnan(got) : fabs(got - expect) <= digits * (1 + fabs(expect));
}

static double chain_of(double v)
{
    v = log10(fmax(3 * v - 1, 0.5));
    return fmin(fmax(v, 0), 1.25);
}

static double half_of(uint16_t h)
{
    double fraction = (h & 1023) + (h >> 10 & 31 ? 1024 : 0), v = ldexp(fraction, (h >> 10 & 31 ? h >> 10 & 31 : 1) - 25);
    return h & 0x8000 ? -v : v;
}

/* Golden rows: x = id / 2, missing where id mod 7 = 3; n = id mod 1000; hits as wrong_value() of the fixture says. */
static void check_computed(const fby_batch *b)
{
    const int64_t *id = values_of(b, "id"), *at = find_tensor(b, "hits", "offsets")->data;
    const float *xn = values_of(b, "xn"), *n = values_of(b, "n"), *hits = values_of(b, "hits"), *plain = values_of(b, "x");
    const double *chain = values_of(b, "chain");
    const uint16_t *half = values_of(b, "half");
    const uint8_t *gone = values_of(b, "gone");
    for (uint64_t i = 0; i < fby_batch_size(b); i++) {
        int64_t k = id[i];
        bool missing = k % 7 == 3;
        double x = missing ? (double)NAN : (double)k / 2, m = (double)(k % 1000);
        assert_true(near((double)xn[2 * i], (x - 10) / 4, 1e-6) && near((double)xn[2 * i + 1], (m - 500) / 20, 1e-6));
        assert_true(n[i] == xn[2 * i + 1]);
        assert_true(near(chain[2 * i], chain_of(missing ? 100 : x), 1e-14) && near(chain[2 * i + 1], chain_of(m), 1e-14));
        assert_true(near(half_of(half[i]), missing ? -7 : x, 1e-3));
        assert_true(missing ? isnan(plain[i]) : plain[i] == (float)x); /* not computed with */
        assert_int_equal(gone[i], missing);
        for (int64_t j = at[i]; j < at[i + 1]; j++)
            assert_true(near((double)hits[j], log1p((double)(k + j - at[i])), 1e-6));
    }
}

static uint64_t run_epoch(fby_loader *l, uint64_t epoch)
{
    fby_batch *b;
    fby_error err = {0};
    fby_status status;
    uint64_t rows = 0;
    assert_int_equal(fby_loader_begin(l, epoch, &err), FBY_OK);
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        check_computed(b);
        rows += fby_batch_size(b);
        fby_batch_unref(b);
    }
    if (status != FBY_END)
        fail_msg("%s", err.message);
    return rows;
}

static void values_are_computed_once_with_every_engine_codec_and_number_of_threads(void **state)
{
    (void)state;
    put_files("data", 12);
    const fby_io_engine engines[] = {FBY_IO_AUTO, FBY_IO_THREADS, FBY_IO_MMAP};
    for (int e = 0; e < 3; e++)
        for (int threads = 1; threads <= 8; threads = threads * 3 - 1) {
            fby_dataset *ds = open_dataset("data", &(fby_open_opts){.cache_dir = "", .io = engines[e], .immutable = true});
            fby_loader *l =
                open_loader(ds, (fby_loader_opts){.outputs = COMPUTED, .n_outputs = N_COMPUTED, .n_threads = threads, .seed = 5});
            for (uint64_t epoch = 0; epoch < 2; epoch++)
                assert_int_equal(run_epoch(l, epoch), fby_dataset_rows(ds));
            assert_true(report_of(l).blocks_from_cache > 0); /* what was computed stays so */
            fby_loader_close(l);
            fby_dataset_close(ds);
        }
}

static void outputs_share_a_panel_only_when_they_compute_the_same(void **state)
{
    (void)state;
    put_files("data", 2);
    fby_dataset *ds = open_dataset("data", NULL);
    const fby_output outputs[] = {
        {.name = "both", .columns = XN, .n_columns = 2, .dtype = FBY_FLOAT32, .ops = STANDARD, .n_ops = 1},
        {.name = "again", .columns = XN, .n_columns = 2, .dtype = FBY_FLOAT32, .ops = STANDARD, .n_ops = 1},
        {.name = "second", .columns = N, .n_columns = 1, .dtype = FBY_FLOAT32, .ops = SECOND, .n_ops = 1},
        {.name = "gone", .from = FBY_FROM_IS_MISSING, .columns = XN, .n_columns = 2},
        {.name = "twice", .columns = XN, .n_columns = 2, .dtype = FBY_FLOAT32, .ops = TWICE, .n_ops = 1},
        {.name = "raw", .columns = XN, .n_columns = 2, .dtype = FBY_FLOAT32},
        {.name = "filled", .columns = XN, .n_columns = 2, .dtype = FBY_FLOAT32, .ops = FILLED, .n_ops = 2},
    };
    fby_loader *l = open_loader(ds, (fby_loader_opts){.outputs = outputs, .n_outputs = 7});
    assert_int_equal(l->sources.at[0].n_panels, 4);
    for (int i = 1; i < 4; i++)
        assert_int_equal(l->sources.at[0].outputs[i].panel, l->sources.at[0].outputs[0].panel);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void nulls_are_filled_before_they_are_computed_with(void **state)
{
    (void)state;
    uint64_t counts[] = {100, 1, 50};
    fby_dataset *ds = NULL;
    fby_error err = {0};
    assert_int_equal(memory_dataset_open(counts, 3, &ds, &err), FBY_OK);
    const char *gap[] = {"gap"}, *narrow[] = {"narrow", "id"};
    const fby_op log[] = {{.kind = FBY_OP_FILL_MISSING, .a = 1e6}, {.kind = FBY_OP_LOG1P}},
                 shift[] = {{.kind = FBY_OP_AFFINE, .a = 1, .b = -25}};
    const fby_output outputs[] = {{.name = "id", .columns = ID, .n_columns = 1},
                                  {.name = "gap", .columns = gap, .n_columns = 1, .dtype = FBY_FLOAT32, .ops = log, .n_ops = 2},
                                  {.name = "narrow", .columns = narrow, .n_columns = 2, .ops = shift, .n_ops = 1}};
    fby_loader *l = open_loader(ds, (fby_loader_opts){.outputs = outputs, .n_outputs = 3, .seed = 3});
    fby_batch *b;
    while (fby_loader_next(l, -1, &b, &err) == FBY_OK) {
        const int64_t *id = values_of(b, "id");
        const float *g = values_of(b, "gap"), *n = values_of(b, "narrow");
        assert_int_equal(find_tensor(b, "narrow", "values")->dtype, FBY_FLOAT32);
        for (uint64_t i = 0; i < fby_batch_size(b); i++) {
            assert_true(near((double)g[i], log1p(id[i] % 7 == 3 ? 1e6 : (double)id[i] * 3), 1e-6));
            assert_true(n[2 * i] == (float)(id[i] - 25) && n[2 * i + 1] == (float)(id[i] - 25));
        }
        fby_batch_unref(b);
    }
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void moments_are_the_same_for_every_number_of_threads_and_count_the_rows_of_samples_once(void **state)
{
    (void)state;
    uint64_t counts[] = {20000, 1, 30000, 777};
    fby_dataset *ds = NULL;
    fby_samples *windows = NULL;
    fby_error err = {0};
    assert_int_equal(memory_dataset_open(counts, 4, &ds, &err), FBY_OK);
    const uint64_t rows = 50778;
    const char *columns[] = {"x", "narrow", "gap", "hits"};
    const fby_samples_opts every = {.size = sizeof every, .kind = FBY_SAMPLES_WINDOWS, .input = 3, .stride = 4};
    assert_int_equal(fby_samples_open(ds, &every, &windows, &err), FBY_OK);
    for (int part = 0; part < 2; part++) {
        fby_moments first[4], m[4];
        for (int threads = 1; threads <= 8; threads *= 2) {
            fby_fit_opts opts = {FBY_FIT_SIZES, .columns = columns, .n_columns = 4, .n_threads = threads, .samples = part ? windows : NULL};
            if (fby_fit_moments(ds, &opts, m, &err) != FBY_OK)
                fail_msg("%s", err.message);
            if (threads == 1)
                memcpy(first, m, sizeof m);
            assert_memory_equal(first, m, sizeof m);
        }
        uint64_t n = 0, there = 0, hits = 0;
        long double sum = 0, square = 0, gaps = 0;
        for (uint64_t r = 0; r < rows; r++) {
            if (part && (r % 4 == 3 || r - r % 4 + 3 > rows))
                continue;
            n++;
            sum += (long double)r / 2;
            square += (long double)r * r / 4;
            hits += r % 5;
            there += r % 7 != 3;
            gaps += r % 7 != 3 ? (long double)r * 3 : 0;
        }
        double mean = (double)(sum / n), std = (double)sqrtl(square / n - (sum / n) * (sum / n));
        assert_int_equal(m[0].count, n);
        assert_true(near(m[0].mean, mean, 1e-13) && near(m[0].std, std, 1e-10) && m[0].min == 0);
        assert_int_equal(m[1].count, n);
        assert_true(m[1].min == 0 && m[1].max == (part ? 998 : 999));
        assert_int_equal(m[2].count, there);
        assert_int_equal(m[2].n_missing, n - there);
        assert_true(near(m[2].mean, (double)(gaps / there), 1e-13));
        assert_int_equal(m[3].count, hits);
    }
    fby_samples_close(windows);
    fby_dataset_close(ds);
}

static void expect_refusal(fby_dataset *ds, fby_output output, fby_status code, const char *text)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    output.name = "out";
    assert_int_equal(try_loader(ds, (fby_loader_opts){.outputs = &output, .n_outputs = 1}, &l, &err), code);
    if (!strstr(err.message, text) || !strstr(err.message, "output 'out'"))
        fail_msg("'%s' does not have '%s'", err.message, text);
}

static void what_cannot_be_computed_is_refused_when_the_loader_is_opened(void **state)
{
    (void)state;
    put_files("data", 2);
    fby_dataset *ds = open_dataset("data", NULL), *other = open_dataset("data", NULL);
    const fby_op flat[] = {{.kind = FBY_OP_STANDARDIZE, .a = 1}};
    expect_refusal(ds, (fby_output){.columns = X, .n_columns = 1, .ops = flat, .n_ops = 1}, FBY_E_ARG,
                   "column 'x', operation standardize(1, 0)");
    expect_refusal(ds, (fby_output){.columns = X, .n_columns = 1, .ops = COUNT, .n_ops = 1, .dtype = FBY_INT32}, FBY_E_ARG, "not int32");
    expect_refusal(ds, (fby_output){.columns = WORD, .n_columns = 1, .ops = COUNT, .n_ops = 1}, FBY_E_ARG, "holds strings");
    expect_refusal(ds, (fby_output){.columns = X, .n_columns = 1, .ops = COUNT, .n_ops = 99}, FBY_E_ARG, "at most 16");
    expect_refusal(ds, (fby_output){.columns = X, .n_columns = 1, .n_ops = 1}, FBY_E_ARG, "at most 16");
    expect_refusal(ds, (fby_output){.from = FBY_FROM_SAMPLE_INDEX, .ops = COUNT, .n_ops = 1}, FBY_E_ARG, "values of columns");
    expect_refusal(ds, (fby_output){.from = FBY_FROM_IS_MISSING, .columns = X, .n_columns = 1, .ops = COUNT, .n_ops = 1}, FBY_E_ARG,
                   "values of columns");
    fby_moments m;
    fby_samples *elsewhere = NULL;
    assert_int_equal(fby_samples_open(other, &(fby_samples_opts){.size = sizeof(fby_samples_opts)}, &elsewhere, NULL), FBY_OK);
    fby_fit_opts fit = {FBY_FIT_SIZES, .columns = X, .n_columns = 1, .samples = elsewhere};
    assert_int_equal(fby_fit_moments(ds, &fit, &m, NULL), FBY_E_ARG);
    assert_int_equal(fby_fit_moments(ds, &(fby_fit_opts){0}, &m, NULL), FBY_E_ARG);
    assert_int_equal(fby_fit_moments(ds, &(fby_fit_opts){FBY_FIT_SIZES}, &m, NULL), FBY_E_ARG);
    assert_int_equal(fby_fit_moments(ds, &(fby_fit_opts){FBY_FIT_SIZES, .columns = X, .n_columns = 1, .n_ops = 17, .ops = COUNT}, &m, NULL),
                     FBY_E_ARG);
    assert_int_equal(fby_fit_moments(ds, &(fby_fit_opts){FBY_FIT_SIZES, .columns = WORD, .n_columns = 1}, &m, NULL), FBY_E_ARG);
    fby_samples_close(elsewhere);
    fby_dataset_close(other);
    fby_dataset_close(ds);
}

static void a_fit_with_allocations_failing_in_turn_is_right_or_says_so(void **state)
{
    (void)state;
    uint64_t counts[] = {64, 64};
    fby_dataset *ds = NULL;
    fby_error err = {0};
    assert_int_equal(memory_dataset_open(counts, 2, &ds, &err), FBY_OK);
    const char *columns[] = {"x", "gap"};
    fby_fit_opts opts = {FBY_FIT_SIZES, .columns = columns, .n_columns = 2, .ops = TWICE, .n_ops = 1, .n_threads = 1};
    fby_moments right[2], m[2];
    uint64_t before = fby__alloc_count();
    assert_int_equal(fby_fit_moments(ds, &opts, right, &err), FBY_OK);
    uint64_t total = fby__alloc_count() - before, refused = 0;
    for (uint64_t n = 1; n <= total; n++) {
        fby__alloc_fail_at(n);
        fby_status status = fby_fit_moments(ds, &opts, m, &err);
        fby__alloc_fail_at(0);
        if (status == FBY_OK)
            assert_memory_equal(m, right, sizeof m);
        else if (status != FBY_E_NOMEM)
            fail_msg("allocation %llu: %s", (unsigned long long)n, err.message);
        refused += status != FBY_OK;
    }
    print_message("%llu allocations failed in turn, %llu of these runs ended in an error\n", (unsigned long long)total,
                  (unsigned long long)refused);
    assert_true(refused > 0);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_are_computed_once_with_every_engine_codec_and_number_of_threads, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(outputs_share_a_panel_only_when_they_compute_the_same, setup_dir, teardown_dir),
        cmocka_unit_test(nulls_are_filled_before_they_are_computed_with),
        cmocka_unit_test(moments_are_the_same_for_every_number_of_threads_and_count_the_rows_of_samples_once),
        cmocka_unit_test_setup_teardown(what_cannot_be_computed_is_refused_when_the_loader_is_opened, setup_dir, teardown_dir),
        cmocka_unit_test(a_fit_with_allocations_failing_in_turn_is_right_or_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
