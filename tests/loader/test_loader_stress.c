/*
 * Loaders under random treatment, for ThreadSanitizer and AddressSanitizer: several at once over one data set, begun,
 * cancelled and closed at any moment, batches held beyond the depth, given back by other threads and after the loader is gone,
 * a fork in the middle. What is delivered is right all the while.
 */
#include "support/loader_fixture.h"
#include "support/test_seed.h"

#include "base/clock.h"
#include "budget/budget.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { CONSUMERS = 4, PARKED = 64, HANG_SECONDS = 120 };

/* Batches on their way to be given back by somebody else. */
static struct {
    pthread_mutex_t lock;
    fby_batch *batch[PARKED];
} g_park = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Put a batch (or NULL) in a place of the park; what lay there is now the caller's. */
static fby_batch *park(uint64_t place, fby_batch *b)
{
    pthread_mutex_lock(&g_park.lock);
    fby_batch *was = g_park.batch[place % PARKED];
    g_park.batch[place % PARKED] = b;
    pthread_mutex_unlock(&g_park.lock);
    return was;
}

static void empty_park(void)
{
    for (uint64_t i = 0; i < PARKED; i++)
        fby_batch_unref(park(i, NULL));
}

typedef struct consumer {
    pthread_t id;
    fby_dataset *ds; /* shared */
    uint64_t seed;
    uint64_t until_ns;
    uint64_t batches, epochs, loaders;
    char wrong[300];
} consumer;

/* cmocka's asserts belong to the main thread: the others say what was wrong. */
static bool good_batch(consumer *c, const fby_batch *b)
{
    for (uint64_t i = 0; i < fby_batch_size(b); i++) {
        const char *wrong = wrong_value(b, i);
        if (wrong) {
            (void)snprintf(c->wrong, sizeof c->wrong, "batch %llu of epoch %llu, sample %llu: %s is wrong",
                           (unsigned long long)fby_batch_index(b), (unsigned long long)fby_batch_epoch(b), (unsigned long long)i, wrong);
            return false;
        }
    }
    return true;
}

static fby_loader *random_loader(consumer *c, fby__random *random)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    fby_loader_opts opts = {.seed = c->seed,
                            .batch_size = 1 + fby__random_below(random, 90),
                            .superbatch_samples = 1 + fby__random_below(random, 400),
                            .n_threads = 1 + (int)fby__random_below(random, 3),
                            .prefetch_batches = 2 + (uint32_t)fby__random_below(random, 4),
                            .shuffle = (fby_shuffle_kind)fby__random_below(random, 4)};
    if (try_loader(c->ds, opts, &l, &err) != FBY_OK) {
        (void)snprintf(c->wrong, sizeof c->wrong, "%.290s", err.message);
        return NULL;
    }
    return l;
}

/* One epoch, left at a random moment. */
static bool random_epoch(consumer *c, fby_loader *l, fby__random *random)
{
    fby_error err = {0};
    fby_status status = fby_loader_begin(l, fby__random_below(random, 5), &err);
    bool cancelled = false;
    for (uint64_t left = fby__random_below(random, 40); status == FBY_OK && left > 0; left--) {
        fby_batch *b = NULL;
        status = fby_loader_next(l, left % 5 == 0 ? 100000 : -1, &b, &err);
        if (status == FBY_TIMEOUT) {
            status = FBY_OK;
            continue;
        }
        if (status != FBY_OK)
            break;
        c->batches++;
        if (!good_batch(c, b)) {
            fby_batch_unref(b);
            return false;
        }
        if (fby__random_below(random, 3) == 0)
            b = park(fby__random_next(random), b); /* somebody else's batch comes back */
        fby_batch_unref(b);
        if (fby__random_below(random, 30) == 0) {
            fby_loader_cancel(l);
            cancelled = true;
        }
        if (left % 16 == 0) {
            fby_report r = {.size = sizeof r};
            (void)fby_loader_report(l, &r, NULL); /* reads what the threads write */
        }
    }
    c->epochs++;
    if (status == FBY_OK || status == FBY_END || (cancelled && status == FBY_E_CANCELLED))
        return true;
    (void)snprintf(c->wrong, sizeof c->wrong, "%s: %.250s", fby_status_name(status), err.message);
    return false;
}

static void *consume(void *user)
{
    consumer *c = user;
    fby__random random = {.key = c->seed};
    while (!c->wrong[0] && fby__now_ns() < c->until_ns) {
        fby_loader *l = random_loader(c, &random);
        for (uint64_t n = fby__random_below(&random, 5); l && n > 0 && random_epoch(c, l, &random); n--) {
        }
        fby_loader_close(l);
        c->loaders++;
    }
    return NULL;
}

static void run_consumers(uint64_t seed, const fby_open_opts *opts, uint64_t seconds)
{
    fby_dataset *ds = open_dataset("data", opts);
    consumer c[CONSUMERS];
    memset(c, 0, sizeof c);
    (void)alarm(HANG_SECONDS);
    for (uint64_t i = 0; i < CONSUMERS; i++) {
        c[i].ds = ds;
        c[i].seed = seed + i;
        c[i].until_ns = fby__now_ns() + seconds * 1000000000u;
        assert_int_equal(pthread_create(&c[i].id, NULL, consume, &c[i]), 0);
    }
    uint64_t batches = 0, epochs = 0, loaders = 0;
    for (int i = 0; i < CONSUMERS; i++) {
        assert_int_equal(pthread_join(c[i].id, NULL), 0);
        batches += c[i].batches;
        epochs += c[i].epochs;
        loaders += c[i].loaders;
    }
    (void)alarm(0);
    fby_dataset_close(ds);
    for (uint64_t i = 0; i < PARKED; i++) { /* they outlive their loaders and the data set */
        fby_batch *b = park(i, NULL);
        if (b)
            check_batch(b);
        fby_batch_unref(b);
    }
    for (int i = 0; i < CONSUMERS; i++)
        if (c[i].wrong[0])
            fail_msg("%s", c[i].wrong);
    print_message("%llu loaders, %llu epochs, %llu batches\n", (unsigned long long)loaders, (unsigned long long)epochs,
                  (unsigned long long)batches);
    assert_true(batches > 0);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void loaders_over_one_dataset_live_side_by_side_and_end_at_any_moment(void **state)
{
    (void)state;
    put_files("data", 12);
    uint64_t seed = test_seed();
    run_consumers(seed, &(fby_open_opts){.cache_dir = "", .io = FBY_IO_THREADS}, 2);
    run_consumers(seed, NULL, 2);
}

static void random_delays_of_the_disk_change_nothing(void **state)
{
    (void)state;
    put_files("data", 12);
    uint64_t seed = test_seed();
    fby__io_set_fault(&(fby__io_fault){.delay_max_ns = 2000000, .short_every = 3, .seed = seed});
    run_consumers(seed, &(fby_open_opts){.cache_dir = "", .io = FBY_IO_THREADS}, 2);
    run_consumers(seed, NULL, 2);
}

static void *cancel_now_and_then(void *user)
{
    fby_loader *l = user;
    for (int i = 0; i < 200; i++) {
        struct timespec t = {0, 100000 + i * 20000}; /* from less than an epoch's beginning takes to some batches */
        (void)nanosleep(&t, NULL);
        fby_loader_cancel(l);
    }
    return NULL;
}

static void another_thread_may_cancel_at_any_moment(void **state)
{
    (void)state;
    put_files("data", 12);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(ds, (fby_loader_opts){.superbatch_samples = 100});
    pthread_t id;
    fby_error err = {0};
    fby_batch *b;
    uint64_t cancelled = 0, delivered = 0;
    (void)alarm(HANG_SECONDS);
    assert_int_equal(pthread_create(&id, NULL, cancel_now_and_then, l), 0);
    for (int i = 0; i < 2000 && cancelled < 100; i++) {
        fby_status status = fby_loader_next(l, -1, &b, &err);
        if (status == FBY_OK) {
            check_batch(b);
            fby_batch_unref(b);
            delivered++;
        } else if (status == FBY_E_CANCELLED) {
            cancelled++;
            status = fby_loader_begin(l, cancelled, &err);
            assert_true(status == FBY_OK || status == FBY_E_CANCELLED); /* while it planned: the next one begins it */
        } else {
            assert_int_equal(status, FBY_END);
        }
    }
    assert_int_equal(pthread_join(id, NULL), 0);
    (void)alarm(0);
    print_message("%llu batches, cancelled %llu times\n", (unsigned long long)delivered, (unsigned long long)cancelled);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

typedef struct counter {
    pthread_t id;
    fby_loader *loader;   /* borrowed */
    _Atomic uint64_t ask; /* 0: end */
    uint64_t expect, wrong, asked;
} counter;

static void *count_epochs(void *user)
{
    counter *c = user;
    for (uint64_t e; (e = atomic_load(&c->ask)) > 0; c->asked++) {
        uint64_t batches = 0, samples = 0;
        const fby_status status = fby_loader_count_of(c->loader, e - 1 + c->asked % 3, &batches, &samples, NULL);
        c->wrong += status != FBY_OK || samples != c->expect || fby_loader_batch_count(c->loader) != batches;
    }
    return NULL;
}

static void another_thread_may_count_while_epochs_begin(void **state)
{
    (void)state;
    put_files("data", 6);
    fby_dataset *ds = open_dataset("data", NULL);
    counter c = {.loader = open_loader(ds, (fby_loader_opts){.batch_size = 8, .superbatch_samples = 100})};
    fby_error err = {0};
    c.expect = fby_loader_sample_count(c.loader);
    atomic_init(&c.ask, 1);
    assert_int_equal(pthread_create(&c.id, NULL, count_epochs, &c), 0);
    for (uint64_t i = 0; i < 200; i++) {
        fby_batch *b = NULL;
        assert_int_equal(fby_loader_begin(c.loader, i, &err), FBY_OK);
        atomic_store(&c.ask, i + 1);
        assert_int_equal(fby_loader_next(c.loader, -1, &b, &err), FBY_OK);
        fby_batch_unref(b);
    }
    atomic_store(&c.ask, 0);
    assert_int_equal(pthread_join(c.id, NULL), 0);
    assert_int_equal(c.wrong, 0);
    assert_true(c.asked > 0);
    fby_loader_close(c.loader);
    fby_dataset_close(ds);
}

static void batches_held_beyond_the_depth_do_not_stop_the_loader(void **state)
{
    (void)state;
    enum { HELD = 40 };
    put_files("data", 12);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(ds, (fby_loader_opts){.batch_size = 8, .prefetch_batches = 2});
    uint64_t minimum = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    l = open_loader(ds, (fby_loader_opts){.batch_size = 8, .prefetch_batches = 2, .memory_bytes = minimum});
    fby_batch *held[HELD];
    fby_error err = {0};
    (void)alarm(HANG_SECONDS);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < HELD; i++)
            assert_int_equal(fby_loader_next(l, -1, &held[i], &err), FBY_OK);
        for (int i = 0; i < HELD; i++) {
            check_batch(held[i]);
            fby_batch_unref(held[i]);
        }
    }
    (void)alarm(0);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

/* What a child finds: 0, or which of its calls was not as promised. */
static int in_the_child(fby_loader *l, fby_dataset *ds, fby_batch *b)
{
    fby_error err = {0};
    fby_batch *none = NULL;
    fby_report r = {.size = sizeof r};
    (void)alarm(20);
    if (fby_loader_next(l, -1, &none, &err) != FBY_E_STATE || !strstr(err.message, "fork"))
        return 1;
    if (fby_loader_begin(l, 0, &err) != FBY_E_STATE)
        return 2;
    if (fby_loader_report(l, &r, &err) != FBY_E_STATE)
        return 3;
    fby_loader_cancel(l);
    if (fby_loader_sample_count(l) == 0 || fby_loader_output_count(l) != N_OUTPUTS)
        return 4;
    for (uint64_t i = 0; i < fby_batch_size(b); i++)
        if (wrong_value(b, i))
            return 5;
    fby_batch_unref(b);
    fby_loader_close(l);
    fby_dataset_close(ds);
    return 0;
}

static void after_a_fork_the_child_gets_clear_errors_and_the_parent_goes_on(void **state)
{
    (void)state;
    put_files("data", 12);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(ds, (fby_loader_opts){.batch_size = 8, .superbatch_samples = 100});
    fby_error err = {0};
    for (uint64_t i = 0; i < 25; i++) {
        fby_batch *b = NULL;
        for (uint64_t k = 0; k <= i % 7; k++) {
            fby_batch_unref(b);
            b = NULL;
            fby_status status = fby_loader_next(l, -1, &b, &err);
            if (status == FBY_END)
                status = fby_loader_next(l, -1, &b, &err);
            assert_int_equal(status, FBY_OK);
        }
        pid_t child = fork(); /* the workers are in the middle of something */
        assert_true(child >= 0);
        if (child == 0)
            _exit(in_the_child(l, ds, b));
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("the child ended with %s %d", WIFEXITED(status) ? "status" : "signal",
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        check_batch(b);
        fby_batch_unref(b);
    }
    uint64_t n;
    int64_t *rows = epoch_rows(l, 9, &n);
    assert_once_each(rows, n, fby_dataset_rows(ds));
    free(rows);
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void closing_right_after_beginning_waits_for_little(void **state)
{
    (void)state;
    put_files("data", 20);
    fby_dataset *ds = open_dataset("data", NULL);
    fby__io_set_fault(&(fby__io_fault){.delay_max_ns = 3000000, .seed = 1});
    (void)alarm(HANG_SECONDS);
    for (int i = 0; i < 30; i++) {
        fby_loader *l = open_loader(ds, (fby_loader_opts){0});
        fby_error err = {0};
        if (i % 3)
            assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
        if (i % 3 == 2)
            assert_int_equal(fby_loader_begin(l, 1, &err), FBY_OK);
        fby_loader_close(l);
    }
    (void)alarm(0);
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static int teardown_park(void **state)
{
    empty_park();
    return teardown_dir(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_park)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(loaders_over_one_dataset_live_side_by_side_and_end_at_any_moment),
        TEST(random_delays_of_the_disk_change_nothing),
        TEST(another_thread_may_cancel_at_any_moment),
        TEST(another_thread_may_count_while_epochs_begin),
        TEST(batches_held_beyond_the_depth_do_not_stop_the_loader),
        TEST(after_a_fork_the_child_gets_clear_errors_and_the_parent_goes_on),
        TEST(closing_right_after_beginning_waits_for_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
