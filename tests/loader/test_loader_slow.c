/* What the log hears of a loader: waits that take long with what they were for, first batches never, epochs that end. */
#include "support/loader_fixture.h"

#include <time.h>

enum { FILES = 12, STEPS_SEEN = 9 };

typedef struct heard {
    int warnings, infos;
    char warning[1200], info[1200];
} heard;

static void hear(void *user, fby_log_level level, const char *message)
{
    heard *h = user;
    const bool warns = level == FBY_LOG_WARNING;
    *(warns ? &h->warnings : &h->infos) += 1;
    (void)snprintf(warns ? h->warning : h->info, sizeof h->info, "%s", message);
}

static fby_status sleeps(void *user, fby_batch *b, fby_error *err)
{
    (void)err;
    const struct timespec t = {.tv_nsec = 60000000};
    if (fby_batch_index(b) % 4 == *(uint64_t *)user)
        (void)nanosleep(&t, NULL);
    return FBY_OK;
}

static void run(fby_loader *l, int64_t timeout_ns)
{
    fby_batch *b;
    fby_error err;
    for (fby_status status; (status = fby_loader_next(l, timeout_ns, &b, &err)) != FBY_END;) {
        if (status == FBY_TIMEOUT)
            continue;
        assert_int_equal(status, FBY_OK);
        fby_batch_unref(b);
    }
}

static heard run_with(fby_loader_opts opts, int64_t timeout_ns, int epochs)
{
    heard h = {0};
    put_files("data", FILES);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(ds, opts);
    fby_log_set(FBY_LOG_INFO, hear, &h);
    for (int i = 0; i < epochs; i++)
        run(l, timeout_ns);
    fby_log_set(FBY_LOG_OFF, NULL, NULL);
    fby_loader_close(l);
    fby_dataset_close(ds);
    return h;
}

static void a_wait_that_takes_long_is_said_once_with_its_cause_however_it_waits(void **state)
{
    (void)state;
    const int64_t timeouts[] = {-1, 3000000, 1000000000};
    uint64_t slow = 2;
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        const heard h =
            run_with((fby_loader_opts){.batch_size = 32, .slow_next_ms = 20, .transform = sleeps, .transform_user = &slow}, timeouts[i], 1);
        assert_int_equal(h.warnings, 1); /* of several, within ten seconds */
        assert_non_null(strstr(h.warning, "for batch 2 of epoch 0, for the transform"));
    }
}

/* Steps of 4 ms beside a transform of 60 ms: far above a tenth of a step, and below 100 of them. */
static void the_limit_may_be_a_share_of_the_mean_step(void **state)
{
    (void)state;
    const double shares[] = {0.1, 100};
    uint64_t slow = 3;
    for (size_t i = 0; i < 2; i++) {
        heard h = {0};
        put_files("data", FILES);
        fby_dataset *ds = open_dataset("data", NULL);
        fby_loader *l = open_loader(ds, (fby_loader_opts){.batch_size = 8,
                                                          .slow_next_share = shares[i],
                                                          .shuffle = FBY_SHUFFLE_NONE,
                                                          .prefetch_batches = 1,
                                                          .transform = sleeps,
                                                          .transform_user = &slow});
        fby_batch *b;
        fby_error err;
        for (int n = 0; fby_loader_next(l, -1, &b, &err) == FBY_OK; n++) {
            if (n == STEPS_SEEN)
                fby_log_set(FBY_LOG_INFO, hear, &h);
            fby_batch_unref(b);
            (void)nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
        }
        fby_log_set(FBY_LOG_OFF, NULL, NULL);
        assert_int_equal(h.warnings, i == 0);
        fby_loader_close(l);
        fby_dataset_close(ds);
    }
}

static void a_share_is_above_0_and_no_limit_beside_another(void **state)
{
    (void)state;
    const fby_loader_opts wrong[] = {{.batch_size = 8, .slow_next_share = -1},
                                     {.batch_size = 8, .slow_next_share = NAN},
                                     {.batch_size = 8, .slow_next_share = 0.1, .slow_next_ms = 5}};
    put_files("data", FILES);
    fby_dataset *ds = open_dataset("data", NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fby_error err;
        fby_loader *l = NULL;
        assert_int_equal(try_loader(ds, wrong[i], &l, &err), FBY_E_ARG);
        assert_non_null(strstr(err.message, "slow_next_share"));
    }
    fby_dataset_close(ds);
}

/* From the third batch on each read takes so much longer than the limit that what is met at the limit is a read, on a busy machine too. */
static void a_slow_file_is_named(void **state)
{
    (void)state;
    heard h = {0};
    put_files("data", FILES);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(
        ds, (fby_loader_opts){.batch_size = 32, .slow_next_ms = 300, .shuffle = FBY_SHUFFLE_NONE, .n_threads = 1, .prefetch_batches = 1});
    fby_log_set(FBY_LOG_WARNING, hear, &h);
    fby_batch *b;
    fby_error err;
    for (int n = 0; !h.warnings && fby_loader_next(l, -1, &b, &err) == FBY_OK; n++) {
        if (n == 2)
            fby__io_set_fault(&(fby__io_fault){.delay_min_ns = 1500000000, .delay_max_ns = 1500000001});
        fby_batch_unref(b);
    }
    fby__io_set_fault(&(fby__io_fault){0});
    fby_log_set(FBY_LOG_OFF, NULL, NULL);
    if (!strstr(h.warning, "for reading '") || !strstr(h.warning, ".parquet', row group "))
        fail_msg("%d warnings: %s", h.warnings, h.warning);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void first_batches_and_waits_below_the_limit_are_not_said(void **state)
{
    (void)state;
    uint64_t slow = 0;
    const heard first =
        run_with((fby_loader_opts){.batch_size = 4096, .slow_next_ms = 20, .transform = sleeps, .transform_user = &slow}, -1, 3);
    assert_int_equal(first.warnings, 0);
    slow = 2;
    const heard below =
        run_with((fby_loader_opts){.batch_size = 32, .slow_next_ms = UINT64_MAX, .transform = sleeps, .transform_user = &slow}, -1, 1);
    assert_int_equal(below.warnings, 0);
}

static void an_epoch_that_ends_is_said(void **state)
{
    (void)state;
    const heard h = run_with((fby_loader_opts){.batch_size = 32}, -1, 2);
    assert_int_equal(h.infos, 2);
    assert_non_null(strstr(h.info, "epoch 1: "));
    assert_non_null(strstr(h.info, "limit: "));
}

static void nothing_is_said_without_a_function_and_levels_have_names(void **state)
{
    (void)state;
    heard h = {0};
    fby_log_set(FBY_LOG_WARNING, hear, &h);
    fby_log_set(FBY_LOG_DEBUG, NULL, NULL);
    (void)run_with((fby_loader_opts){.batch_size = 32}, -1, 1);
    assert_int_equal(h.infos + h.warnings, 0);
    assert_int_equal(fby_log_level_of("info"), FBY_LOG_INFO);
    assert_int_equal(fby_log_level_of("loud"), FBY_LOG_OFF);
}

static void waits_are_counted(void **state)
{
    (void)state;
    put_files("data", FILES);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(ds, (fby_loader_opts){.batch_size = 32});
    uint64_t ns[FBY_WAITS_MOST], counts[FBY_WAITS_MOST], sum = 0;
    assert_int_equal(fby_loader_waits(l, ns, counts, FBY_WAITS_MOST), 0);
    run(l, -1);
    const size_t n = fby_loader_waits(l, ns, counts, FBY_WAITS_MOST);
    assert_in_range(n, 1, FBY_WAITS_MOST);
    for (size_t i = 0; i < n; i++) {
        sum += counts[i];
        assert_true(i == 0 || ns[i] > ns[i - 1]);
    }
    assert_int_equal(sum, report_of(l).batches);
    assert_int_equal(fby_loader_waits(l, ns, counts, 0), n);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void a_wait_in_slices_is_one_wait(void **state)
{
    (void)state;
    put_files("data", FILES);
    fby_dataset *ds = open_dataset("data", NULL);
    uint64_t slow = 2;
    fby_loader *l = open_loader(ds, (fby_loader_opts){.batch_size = 32, .transform = sleeps, .transform_user = &slow});
    run(l, 3000000);
    const fby_report r = report_of(l);
    assert_true(r.wait_max_ns > 30000000 && r.wait_max_ns <= r.wait_ns);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_wait_that_takes_long_is_said_once_with_its_cause_however_it_waits, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(the_limit_may_be_a_share_of_the_mean_step, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_share_is_above_0_and_no_limit_beside_another, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_slow_file_is_named, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(first_batches_and_waits_below_the_limit_are_not_said, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(an_epoch_that_ends_is_said, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(nothing_is_said_without_a_function_and_levels_have_names, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(waits_are_counted, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_wait_in_slices_is_one_wait, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
