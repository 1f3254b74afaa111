/*
 * Windows through the loader: every one once (invariant 1), over blocks that are shorter than a window, an order that depends on nothing
 * but what it may (invariant 2), the budget (invariant 4), and constructors that survive any failing allocation.
 */
#include "base/alloc.h"
#include "support/loader_sizes.h"
#include "support/memory_dataset.h"

#include <forebay/forebay.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *ID[] = {"id"}, *XN[] = {"x", "narrow"}, *GAP[] = {"gap"}, *WORD[] = {"word"};

enum { INPUT = 30, OUTPUT = 10, LENGTH = INPUT + OUTPUT };

static const fby_output OUTPUTS[] = {
    {.name = "index", .from = FBY_FROM_SAMPLE_INDEX},
    {.name = "row", .from = FBY_FROM_ROW_INDEX},
    {.name = "id", .columns = ID, .n_columns = 1},
    {.name = "x", .columns = XN, .n_columns = 2, .step_begin = 0, .step_end = INPUT},
    {.name = "y", .columns = ID, .n_columns = 1, .dtype = FBY_FLOAT64, .step_begin = INPUT, .step_end = LENGTH},
    {.name = "gone", .from = FBY_FROM_IS_MISSING, .columns = GAP, .n_columns = 1},
    {.name = "word", .columns = WORD, .n_columns = 1, .one_step = true},
    {.name = "last", .columns = ID, .n_columns = 1, .one_step = true, .step_begin = LENGTH - 1},
};
enum { N_OUTPUTS = sizeof OUTPUTS / sizeof *OUTPUTS };

static fby_dataset *dataset(void)
{
    uint64_t counts[40];
    fby_dataset *ds = NULL;
    fby_error err = {0};
    for (int i = 0; i < 40; i++)
        counts[i] = i == 7 ? 1 : i == 9 ? 0 : (uint64_t)(5 + 17 * i % 90);
    if (memory_dataset_open(counts, 40, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static fby_samples *windows(fby_dataset *ds, fby_samples_opts opts)
{
    fby_samples *s = NULL;
    fby_error err = {0};
    opts.size = sizeof opts;
    opts.kind = FBY_SAMPLES_WINDOWS;
    opts.input = opts.input ? opts.input : INPUT;
    opts.output = OUTPUT;
    if (fby_samples_open(ds, &opts, &s, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return s;
}

static fby_status try_loader(fby_dataset *ds, fby_samples *samples, fby_loader_opts opts, fby_loader **out, fby_error *err)
{
    set_sizes(&opts);
    opts.outputs = OUTPUTS;
    opts.n_outputs = N_OUTPUTS;
    opts.samples = samples;
    opts.batch_size = opts.batch_size ? opts.batch_size : 32;
    opts.n_threads = opts.n_threads ? opts.n_threads : 2;
    return fby_loader_open(ds, &opts, out, err);
}

static fby_loader *loader(fby_dataset *ds, fby_samples *samples, fby_loader_opts opts)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    if (try_loader(ds, samples, opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

static const void *values(const fby_batch *b, const char *output, const char *role)
{
    for (size_t i = 0; i < fby_batch_tensor_count(b); i++) {
        const fby_tensor *t = fby_batch_tensor(b, i);
        if (strcmp(t->output, output) == 0 && strcmp(t->role, role) == 0)
            return t->data;
    }
    return NULL;
}

static void check_window(const fby_batch *b, uint64_t i)
{
    uint64_t row = (uint64_t)((const int64_t *)values(b, "row", "values"))[i];
    const int64_t *id = (const int64_t *)values(b, "id", "values") + i * LENGTH, *word_at = values(b, "word", "offsets");
    const float *x = (const float *)values(b, "x", "values") + i * INPUT * 2;
    const double *y = (const double *)values(b, "y", "values") + i * OUTPUT;
    const uint8_t *gone = (const uint8_t *)values(b, "gone", "values") + i * LENGTH;
    char word[24];
    for (uint64_t k = 0; k < LENGTH; k++) {
        assert_int_equal(id[k], row + k);
        assert_int_equal(gone[k], (row + k) % 7 == 3);
        if (k < INPUT) {
            assert_true(x[2 * k] == (float)(row + k) / 2);
            assert_true(x[2 * k + 1] == (float)((row + k) % 1000));
        } else {
            assert_true(y[k - INPUT] == (double)(row + k));
        }
    }
    int n = snprintf(word, sizeof word, "w%llu", (unsigned long long)row);
    assert_int_equal(word_at[i + 1] - word_at[i], n);
    assert_memory_equal((const char *)values(b, "word", "values") + word_at[i], word, n);
    assert_int_equal(((const int64_t *)values(b, "last", "values"))[i], row + LENGTH - 1);
}

/* The windows of an epoch in order of delivery, values checked. Owned by the caller: free(). */
static int64_t *epoch_of(fby_loader *l, uint64_t epoch, uint64_t *out_n)
{
    fby_error err = {0};
    fby_batch *b;
    fby_status status;
    int64_t *index = calloc(fby_loader_sample_count(l) + 1, sizeof *index);
    uint64_t n = 0;
    assert_int_equal(fby_loader_begin(l, epoch, &err), FBY_OK);
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        memcpy(index + n, values(b, "index", "values"), fby_batch_size(b) * sizeof *index);
        for (uint64_t i = 0; i < fby_batch_size(b); i++)
            check_window(b, i);
        n += fby_batch_size(b);
        fby_batch_unref(b);
    }
    if (status != FBY_END)
        fail_msg("%s", err.message);
    *out_n = n;
    return index;
}

static void assert_once_each(const int64_t *index, uint64_t n, uint64_t expect)
{
    char *seen = calloc(expect + 1, 1);
    assert_int_equal(n, expect);
    for (uint64_t i = 0; i < n; i++) {
        assert_in_range(index[i], 0, expect - 1);
        assert_int_equal(seen[index[i]]++, 0);
    }
    free(seen);
}

static void every_window_comes_once_whatever_the_shuffle(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *samples = windows(ds, (fby_samples_opts){.stride = 1});
    assert_int_equal(fby_samples_count(samples), fby_dataset_rows(ds) - LENGTH + 1);
    for (int shuffle = FBY_SHUFFLE_SUPERBATCH; shuffle <= FBY_SHUFFLE_NONE; shuffle++) {
        fby_loader *l = loader(ds, samples, (fby_loader_opts){.shuffle = (fby_shuffle_kind)shuffle, .superbatch_samples = 300, .seed = 5});
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            uint64_t n;
            int64_t *index = epoch_of(l, epoch, &n);
            assert_once_each(index, n, fby_samples_count(samples));
            free(index);
        }
        fby_loader_close(l);
    }
    fby_samples_close(samples);
    fby_dataset_close(ds);
}

static void the_order_depends_on_neither_threads_nor_budget(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *samples = windows(ds, (fby_samples_opts){.stride = 3});
    fby_loader *a = loader(ds, samples, (fby_loader_opts){.superbatch_samples = 100, .seed = 9, .n_threads = 1});
    fby_loader *b = loader(ds, samples, (fby_loader_opts){.superbatch_samples = 100, .seed = 9, .n_threads = 4, .memory_bytes = 1u << 30});
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint64_t n_a, n_b;
        int64_t *x = epoch_of(a, epoch, &n_a), *y = epoch_of(b, epoch, &n_b);
        assert_int_equal(n_a, n_b);
        assert_memory_equal(x, y, n_a * sizeof *x);
        free(x);
        free(y);
    }
    fby_loader_close(a);
    fby_loader_close(b);
    fby_samples_close(samples);
    fby_dataset_close(ds);
}

static void the_smallest_budget_holds_what_windows_reach_beyond_their_blocks(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *samples = windows(ds, (fby_samples_opts){.input = INPUT});
    fby_loader *l = NULL;
    fby_error err = {0};
    uint64_t n;
    assert_int_equal(try_loader(ds, samples, (fby_loader_opts){.memory_bytes = 1, .superbatch_samples = 200}, &l, &err), FBY_E_BUDGET);
    const char *at = strstr(err.message, "at least ");
    assert_non_null(at);
    l = loader(ds, samples, (fby_loader_opts){.memory_bytes = strtoull(at + 9, NULL, 10), .superbatch_samples = 200});
    int64_t *index = epoch_of(l, 0, &n);
    assert_once_each(index, n, fby_samples_count(samples));
    free(index);
    fby_loader_close(l);
    fby_samples_close(samples);
    fby_dataset_close(ds);
}

static void a_time_that_does_not_go_on_and_missing_values_leave_windows_out(void **state)
{
    (void)state;
    static const char *const DROP[] = {"gap"};
    fby_dataset *ds = dataset();
    /* id goes on everywhere, narrow falls back to 0 every 1,000 rows, gap is missing in every 7th */
    fby_samples *by_id = windows(ds, (fby_samples_opts){.time = "id", .step = 1, .n_threads = 3});
    assert_int_equal(fby_samples_count(by_id), fby_dataset_rows(ds) - LENGTH + 1);
    fby_samples_close(by_id);
    fby_samples *narrow = windows(ds, (fby_samples_opts){.time = "narrow", .n_threads = 3});
    uint64_t expect = 0, row, rows, left = fby_dataset_rows(ds);
    for (; left > 0; left -= left < 1000 ? left : 1000)
        expect += left < 1000 ? (left >= LENGTH ? left - LENGTH + 1 : 0) : 1000 - LENGTH + 1;
    assert_int_equal(fby_samples_count(narrow), expect);
    for (uint64_t i = 0; i < expect; i++) {
        assert_int_equal(fby_samples_get(narrow, i, &row, &rows, NULL), FBY_OK);
        assert_int_equal(rows, LENGTH);
        assert_int_equal(row / 1000, (row + LENGTH - 1) / 1000);
    }
    assert_int_equal(fby_samples_get(narrow, expect, &row, &rows, NULL), FBY_E_ARG);
    fby_samples_close(narrow);
    fby_samples *s = NULL;
    fby_error err = {0};
    fby_samples_opts opts = {.size = sizeof opts, .kind = FBY_SAMPLES_WINDOWS, .input = 7, .drop_missing = DROP, .n_drop_missing = 1};
    assert_int_equal(fby_samples_open(ds, &opts, &s, &err), FBY_E_ARG); /* no 7 rows in a row */
    assert_non_null(strstr(err.message, "no window of 7 rows"));
    opts.input = 6;
    assert_int_equal(fby_samples_open(ds, &opts, &s, &err), FBY_OK);
    assert_int_equal(fby_samples_get(s, 0, &row, &rows, NULL), FBY_OK);
    assert_int_equal(row, 4);
    fby_samples_close(s);
    fby_dataset_close(ds);
}

static void samples_of_another_dataset_and_of_no_known_kind_are_refused(void **state)
{
    (void)state;
    fby_dataset *ds = dataset(), *other = dataset();
    fby_samples *samples = windows(ds, (fby_samples_opts){.stride = 1}), *s = NULL;
    fby_loader *l = NULL;
    fby_error err = {0};
    assert_int_equal(try_loader(other, samples, (fby_loader_opts){.seed = 0}, &l, &err), FBY_E_ARG);
    fby_samples_opts opts = {.size = sizeof opts, .kind = (fby_sample_kind)9};
    assert_int_equal(fby_samples_open(ds, &opts, &s, &err), FBY_E_ARG);
    opts = (fby_samples_opts){.size = 3};
    assert_int_equal(fby_samples_open(ds, &opts, &s, &err), FBY_E_ARG);
    opts = (fby_samples_opts){.size = sizeof opts, .kind = FBY_SAMPLES_WINDOWS, .input = UINT64_MAX, .output = 2};
    assert_int_equal(fby_samples_open(ds, &opts, &s, &err), FBY_E_ARG);
    opts = (fby_samples_opts){.size = sizeof opts, .kind = FBY_SAMPLES_WINDOWS, .input = 2, .stride = UINT64_MAX};
    assert_int_equal(fby_samples_open(ds, &opts, &s, &err), FBY_OK); /* one window at the beginning */
    assert_int_equal(fby_samples_count(s), 1);
    fby_samples_close(s);
    fby_samples_close(samples);
    fby_dataset_close(ds);
    fby_dataset_close(other);
}

/* One attempt to open samples, split them and open a loader over them; true when all of it worked. */
static bool attempt(fby_dataset *ds, bool groups)
{
    static const char *const DROP[] = {"gap", "x"};
    static const fby_output FIRST = {.name = "id", .columns = ID, .n_columns = 1, .one_step = true};
    fby_samples_opts opts = {.size = sizeof opts,
                             .kind = FBY_SAMPLES_WINDOWS,
                             .input = 2,
                             .output = 1,
                             .key = "word",
                             .time = "id",
                             .drop_missing = DROP,
                             .n_drop_missing = 2,
                             .n_threads = 1};
    if (groups)
        opts = (fby_samples_opts){.size = sizeof opts, .kind = FBY_SAMPLES_GROUPS, .key = "word", .n_threads = 1};
    else
        opts.key = NULL;
    fby_samples *samples = NULL, *part = NULL;
    fby_loader *l = NULL;
    fby_error err = {0};
    const fby_split_opts split = {.size = sizeof split, .kind = groups ? FBY_SPLIT_FILES : FBY_SPLIT_TIME, .seed = 7};
    bool ok = fby_samples_open(ds, &opts, &samples, &err) == FBY_OK &&
              fby_samples_split(samples, &split, &(fby_split){.fraction = 1}, 1, &part, &err) == FBY_OK;
    if (ok) {
        fby_loader_opts loader_opts = {FBY_LOADER_SIZES, .outputs = &FIRST, .n_outputs = 1,
                                       .batch_size = 8,  .n_threads = 1,    .samples = part};
        ok = fby_loader_open(ds, &loader_opts, &l, &err) == FBY_OK;
    }
    if (!ok && err.code != FBY_E_NOMEM)
        fail_msg("%s", err.message);
    fby_loader_close(l);
    fby_samples_close(part);
    fby_samples_close(samples);
    return ok;
}

static void any_failing_allocation_is_out_of_memory_and_nothing_leaks(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    for (int groups = 0; groups < 2; groups++) {
        bool ok = false;
        for (uint64_t n = 1; !ok; n += n < 200 ? 1 : 7) {
            fby__alloc_fail_at(n);
            ok = attempt(ds, groups != 0);
        }
        fby__alloc_fail_at(0);
    }
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_window_comes_once_whatever_the_shuffle),
        cmocka_unit_test(the_order_depends_on_neither_threads_nor_budget),
        cmocka_unit_test(the_smallest_budget_holds_what_windows_reach_beyond_their_blocks),
        cmocka_unit_test(a_time_that_does_not_go_on_and_missing_values_leave_windows_out),
        cmocka_unit_test(samples_of_another_dataset_and_of_no_known_kind_are_refused),
        cmocka_unit_test(any_failing_allocation_is_out_of_memory_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
