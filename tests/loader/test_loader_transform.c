/*
 * The user's transform: one call at a time, in the order of the batches, whatever the threads and however long a call takes; errors at
 * their batch; cancelling, beginning anew and closing while one runs. A test that hangs ends by alarm.
 */
#include "support/loader_fixture.h"
#include "support/test_seed.h"

#include "budget/budget.h"

#include <pthread.h>
#include <stdatomic.h>

enum { FILES = 6, HANG_SECONDS = 60, ADDED = 1000 };

/* What a transform does, and what it saw. The loader gives one call's writes to the next; the test reads atomics alone while it runs. */
typedef struct probe {
    _Atomic uint64_t calls, inside, overlaps;
    uint64_t next, epoch; /* expected of the next call */
    bool disordered;
    uint64_t delay_max_ns;
    fby__random random;
    bool fails, holds;
    uint64_t fail_at; /* batch, with fail_with and fail_message */
    fby_status fail_with;
    const char *fail_message;
    uint64_t hold_at; /* batch whose call waits until it is let go */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held, let_go;
} probe;

#define PROBE(...)                                                                                                                         \
    {                                                                                                                                      \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, __VA_ARGS__                                                \
    }

static void sleep_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    (void)nanosleep(&t, NULL);
}

static void hold(probe *p)
{
    pthread_mutex_lock(&p->lock);
    p->held = true;
    pthread_cond_broadcast(&p->changed);
    while (!p->let_go)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void wait_until_held(probe *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->held)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void let_go(probe *p)
{
    pthread_mutex_lock(&p->lock);
    p->let_go = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Adds ADDED to every value of "n". */
static fby_status transform(void *user, fby_batch *b, fby_error *err)
{
    probe *p = user;
    if (atomic_fetch_add(&p->inside, 1) != 0)
        atomic_fetch_add(&p->overlaps, 1);
    p->disordered |= fby_batch_index(b) != p->next || fby_batch_epoch(b) != p->epoch;
    p->next++;
    if (p->delay_max_ns)
        sleep_ns(fby__random_below(&p->random, p->delay_max_ns));
    if (p->holds && fby_batch_index(b) == p->hold_at)
        hold(p);
    fby_status status = FBY_OK;
    if (p->fails && fby_batch_index(b) == p->fail_at) {
        if (p->fail_message)
            (void)snprintf(err->message, sizeof err->message, "%s", p->fail_message);
        status = p->fail_with;
    } else {
        const fby_tensor *t = find_tensor(b, "n", "values");
        for (uint64_t i = 0; i < fby_batch_size(b); i++)
            ((float *)t->data)[i] += ADDED;
    }
    atomic_fetch_sub(&p->inside, 1);
    atomic_fetch_add(&p->calls, 1);
    return status;
}

static void undo(const fby_batch *b)
{
    float *n = (float *)(uintptr_t)values_of(b, "n");
    for (uint64_t i = 0; i < fby_batch_size(b); i++)
        n[i] -= ADDED;
    check_batch(b);
}

static fby_dataset *open_files(void)
{
    put_files("data", FILES);
    return open_dataset("data", NULL);
}

static fby_loader *transforming(fby_dataset *ds, probe *p, fby_loader_opts opts)
{
    opts.transform = transform;
    opts.transform_user = p;
    opts.transform_unchecked = true; /* calls are counted from the first epoch's */
    opts.batch_size = opts.batch_size ? opts.batch_size : 8;
    return open_loader(ds, opts);
}

/* Takes batches until something else comes; every one transformed once. Returns what came. */
static fby_status drain(fby_loader *l, uint64_t *out_n, fby_error *err)
{
    fby_batch *b;
    fby_status status;
    while ((status = fby_loader_next(l, -1, &b, err)) == FBY_OK) {
        undo(b);
        fby_batch_unref(b);
        ++*out_n;
    }
    return status;
}

static void batches_are_transformed_once_each_in_order_by_any_number_of_threads(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    for (int threads = 1; threads <= 8; threads++) {
        probe p = PROBE(.delay_max_ns = 300000, .random = {.key = (uint64_t)threads});
        fby_loader *l = transforming(
            ds, &p,
            (fby_loader_opts){.n_threads = threads, .superbatch_samples = 100, .seed = 3, .prefetch_batches = 2 + (uint32_t)threads % 4});
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint64_t n = 0;
            fby_error err = {0};
            p.next = 0;
            p.epoch = epoch;
            if (drain(l, &n, &err) != FBY_END)
                fail_msg("%s", err.message);
            assert_int_equal(n, fby_loader_batch_count(l));
            assert_int_equal(p.next, n);
        }
        assert_false(p.disordered);
        assert_int_equal(atomic_load(&p.overlaps), 0);
        assert_true(report_of(l).transform_ns > 0);
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void an_error_comes_at_its_batch_and_names_the_transform(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    static const struct {
        fby_status status, expect;
        const char *message, *text;
    } CASES[] = {
        {FBY_E_DATA, FBY_E_DATA, "no flow of basin 7", "transform of batch 5, epoch 2: no flow of basin 7"},
        {FBY_E_IO, FBY_E_IO, NULL, "transform of batch 5, epoch 2: it returned FBY_E_IO without a message"},
        {FBY_TIMEOUT, FBY_E_ARG, NULL, "transform of batch 5, epoch 2: it returned 2: return FBY_OK, or an error"},
        {FBY_STATUS_COUNT, FBY_E_ARG, "x", "it returned"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        probe p = PROBE(.epoch = 2, .fails = true, .fail_at = 5, .fail_with = CASES[i].status, .fail_message = CASES[i].message);
        fby_loader *l = transforming(ds, &p, (fby_loader_opts){.n_threads = 3});
        fby_error err = {0};
        uint64_t n = 0;
        assert_int_equal(fby_loader_begin(l, 2, &err), FBY_OK);
        fby_status status = drain(l, &n, &err);
        assert_int_equal(status, CASES[i].expect);
        assert_int_equal(err.code, CASES[i].expect);
        assert_non_null(strstr(err.message, CASES[i].text));
        assert_int_equal(n, 5);
        fby_batch *b;
        assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_E_STATE);
        fby_loader_state where = {.size = sizeof where};
        assert_int_equal(fby_loader_state_get(l, &where, &err), FBY_OK);
        assert_int_equal(where.batch, 5);

        p.fails = false; /* no call runs: nothing is transformed behind an error */
        assert_int_equal(p.next, 6);
        p.next = 0;
        p.epoch = 3;
        n = 0;
        assert_int_equal(fby_loader_begin(l, 3, &err), FBY_OK);
        assert_int_equal(drain(l, &n, &err), FBY_END);
        assert_int_equal(n, fby_loader_batch_count(l));
        assert_false(p.disordered);
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
}

static void a_batch_that_cannot_be_read_ends_the_calls_before_it(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    put_files("data", FILES);
    FILE *f = fopen("data/f03.parquet", "r+b"); /* rows 180 to 239: batches of 8 from 22 on; its pages, not its footer */
    assert_non_null(f);
    assert_int_equal(fseek(f, 4, SEEK_SET), 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(fputc(0xff, f), 0xff);
    assert_int_equal(fclose(f), 0);
    fby_dataset *ds = open_dataset("data", NULL);
    for (int threads = 1; threads <= 4; threads++)
        for (uint32_t depth = 2; depth <= 8; depth += 3) {
            probe p = PROBE(.delay_max_ns = 200000);
            fby_loader *l =
                transforming(ds, &p, (fby_loader_opts){.n_threads = threads, .shuffle = FBY_SHUFFLE_NONE, .prefetch_batches = depth});
            fby_error err = {0};
            uint64_t n = 0;
            assert_int_equal(drain(l, &n, &err), FBY_E_FORMAT);
            assert_int_equal(n, 22);
            sleep_ns(2000000); /* for what might still be called */
            assert_int_equal(atomic_load(&p.calls), 22);
            assert_null(strstr(err.message, "transform"));
            fby_loader_close(l);
            assert_false(p.disordered);
        }
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void it_runs_ahead_of_the_consumer_as_far_as_it_was_asked(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    for (uint64_t asked = 0; asked <= 7; asked++) {
        probe p = PROBE();
        fby_loader *l = transforming(ds, &p, (fby_loader_opts){.prefetch_batches = 5, .transform_prefetch = asked});
        const uint64_t reach = asked ? asked : 5;
        fby_error err = {0};
        fby_batch *b;
        assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
        for (uint64_t taken = 0; taken + reach <= (asked > 5 ? asked : 5); taken++) { /* of those that are assembled at the beginning */
            while (atomic_load(&p.calls) < taken + reach)
                sleep_ns(100000);
            sleep_ns(5000000);
            assert_int_equal(atomic_load(&p.calls), taken + reach);
            assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_OK);
            undo(b);
            fby_batch_unref(b);
        }
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
}

static void an_epoch_that_is_resumed_is_transformed_from_there(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    probe p = PROBE(.next = 11, .epoch = 4);
    fby_loader *l = transforming(ds, &p, (fby_loader_opts){.n_threads = 3});
    fby_error err = {0};
    uint64_t n = 0;
    assert_int_equal(fby_loader_begin_at(l, 4, 11, &err), FBY_OK);
    assert_int_equal(drain(l, &n, &err), FBY_END);
    assert_int_equal(n, fby_loader_batch_count(l) - 11);
    assert_false(p.disordered);
    assert_int_equal(atomic_load(&p.calls), n);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void cancelling_does_not_wait_for_a_call_and_no_other_follows(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    probe p = PROBE(.holds = true, .hold_at = 3);
    fby_loader *l = transforming(ds, &p, (fby_loader_opts){.n_threads = 2});
    fby_error err = {0};
    assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
    wait_until_held(&p);
    fby_loader_cancel(l);
    fby_batch *b;
    assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_E_CANCELLED);
    let_go(&p);
    fby_loader_close(l);
    assert_int_equal(atomic_load(&p.calls), 4);
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void *let_go_soon(void *user)
{
    sleep_ns(20000000);
    let_go(user);
    return NULL;
}

static void closing_and_beginning_wait_for_the_call_that_runs(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    for (int begin = 0; begin < 2; begin++) {
        probe p = PROBE(.holds = true, .hold_at = 2);
        fby_loader *l = transforming(ds, &p, (fby_loader_opts){.n_threads = 3});
        fby_error err = {0};
        pthread_t id;
        assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
        wait_until_held(&p);
        assert_int_equal(pthread_create(&id, NULL, let_go_soon, &p), 0);
        if (begin) {
            assert_int_equal(fby_loader_begin_at(l, 0, 3, &err), FBY_OK); /* the probe sees 0, 1, 2, and then 3, … */
            uint64_t n = 0;
            assert_int_equal(drain(l, &n, &err), FBY_END);
            assert_int_equal(n, fby_loader_batch_count(l) - 3);
        }
        fby_loader_close(l);
        assert_int_equal(atomic_load(&p.inside), 0);
        assert_false(p.disordered);
        assert_int_equal(pthread_join(id, NULL), 0);
    }
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void epochs_left_at_any_moment_leave_nothing_behind(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    const uint64_t seed = test_seed();
    fby__random random = {.key = seed};
    for (int round = 0; round < 40; round++) {
        probe p = PROBE(.delay_max_ns = 100000, .random = {.key = seed, .stream = 1});
        fby_loader *l = transforming(ds, &p,
                                     (fby_loader_opts){.n_threads = 1 + round % 8,
                                                       .superbatch_samples = 100,
                                                       .prefetch_batches = 2 + (uint32_t)fby__random_below(&random, 7)});
        for (int epoch = 0; epoch < 4; epoch++) {
            fby_error err = {0};
            uint64_t at = fby__random_below(&random, fby_loader_batch_count(l));
            /* The calls of the epoch before end when the next one begins: where the probe expects it, is set by a loader at rest. */
            fby_loader_cancel(l);
            assert_int_equal(fby_loader_begin_at(l, 0, fby_loader_batch_count(l), &err), FBY_OK);
            p.next = at;
            p.epoch = (uint64_t)epoch;
            assert_int_equal(fby_loader_begin_at(l, (uint64_t)epoch, at, &err), FBY_OK);
            for (uint64_t left = fby__random_below(&random, 20); left > 0; left--) {
                fby_batch *b = NULL;
                fby_status status = fby_loader_next(l, -1, &b, &err);
                if (status != FBY_OK)
                    break;
                undo(b);
                fby_batch_unref(b);
            }
        }
        fby_loader_close(l);
        assert_false(p.disordered);
        assert_int_equal(atomic_load(&p.overlaps), 0);
    }
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

/* The trial, and the epochs that follow. */
typedef struct trial {
    uint64_t trials, calls;
    int64_t rows[8]; /* of the batch it was tried on */
    uint64_t n;
    fby_status with;
    const char *message;
} trial;

static fby_status trying(void *user, fby_batch *b, fby_error *err)
{
    trial *t = user;
    if (fby_batch_epoch(b) != FBY_EPOCH_TRIAL) {
        t->calls++;
        return FBY_OK;
    }
    t->trials++;
    t->n = fby_batch_size(b);
    assert_true(t->n <= 8);
    memcpy(t->rows, values_of(b, "row"), t->n * sizeof *t->rows);
    check_batch(b);
    if (t->message)
        (void)snprintf(err->message, sizeof err->message, "%s", t->message);
    return t->with;
}

static void a_transform_is_tried_on_the_first_samples_when_the_loader_is_opened(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    const fby_loader_opts cases[] = {{.seed = 3},
                                     {.seed = 3, .rank = 1, .world_size = 2, .streams = 2, .part_files = 2, .tail = FBY_TAIL_WRAP},
                                     {.seed = 3, .part_keys = 9, .part_key = "id", .shuffle = FBY_SHUFFLE_FULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trial t = {0};
        fby_loader_opts opts = cases[i], plain = cases[i];
        opts.batch_size = plain.batch_size = 8;
        opts.transform = trying;
        opts.transform_user = &t;
        fby_loader *l = open_loader(ds, opts), *other = open_loader(ds, plain);
        assert_true(t.trials == 1 && t.calls == 0 && t.n == 8);
        for (int k = 0; k < 8; k++)
            assert_int_equal(t.rows[k], k); /* in file order, whatever the order and the part of the epochs are */
        fby_loader_state s = {.size = sizeof s};
        assert_int_equal(fby_loader_state_get(l, &s, NULL), FBY_OK);
        assert_true(s.epoch == 0 && s.batch == 0);
        fby_batch *a, *b;
        while (fby_loader_next(other, -1, &b, NULL) == FBY_OK) { /* the order is as it was */
            assert_int_equal(fby_loader_next(l, -1, &a, NULL), FBY_OK);
            assert_int_equal(fby_batch_size(a), fby_batch_size(b));
            assert_memory_equal(values_of(a, "row"), values_of(b, "row"), fby_batch_size(a) * sizeof(int64_t));
            fby_batch_unref(a);
            fby_batch_unref(b);
        }
        assert_true(t.trials == 1 && t.calls == fby_loader_batch_count(other));
        fby_loader_close(l);
        fby_loader_close(other);
    }
    trial t = {0};
    fby_loader *l =
        open_loader(ds, (fby_loader_opts){.batch_size = 8, .transform = trying, .transform_user = &t, .transform_unchecked = true});
    assert_int_equal(t.trials, 0);
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void a_transform_that_never_works_is_refused_when_the_loader_is_opened(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    trial cases[] = {{.with = FBY_E_DATA, .message = "no column 'z' here"}, {.with = FBY_E_ARG}, {.with = (fby_status)77}};
    static const char *const TEXTS[] = {": no column 'z' here", "it returned FBY_E_ARG without a message", "it returned 77"};
    for (int i = 0; i < 3; i++) {
        fby_loader *l = NULL;
        fby_error err = {0};
        const fby_loader_opts opts = {.batch_size = 8, .transform = trying, .transform_user = &cases[i]};
        assert_int_equal(try_loader(ds, opts, &l, &err), i == 0 ? FBY_E_DATA : FBY_E_ARG);
        assert_null(l);
        if (!strstr(err.message, "transform of the first samples in file order") || !strstr(err.message, TEXTS[i]))
            fail_msg("%s", err.message);
        assert_int_equal(cases[i].trials, 1);
    }
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void a_transform_that_takes_all_the_time_is_the_verdict(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    probe p = PROBE(.delay_max_ns = 20000000); /* 10 ms a batch: more than reading takes on a machine that does much else */
    fby_loader *l = transforming(ds, &p, (fby_loader_opts){0});
    fby_error err = {0};
    uint64_t n = 0;
    assert_int_equal(drain(l, &n, &err), FBY_END);
    fby_report r = report_of(l);
    assert_true(r.transform_ns > 0 && r.transform_ns <= r.elapsed_ns);
    if (!strstr(r.verdict, "transform"))
        fail_msg("%s", r.verdict);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_transform_is_tried_on_the_first_samples_when_the_loader_is_opened),
        TEST(a_transform_that_never_works_is_refused_when_the_loader_is_opened),
        TEST(batches_are_transformed_once_each_in_order_by_any_number_of_threads),
        TEST(an_error_comes_at_its_batch_and_names_the_transform),
        TEST(a_batch_that_cannot_be_read_ends_the_calls_before_it),
        TEST(it_runs_ahead_of_the_consumer_as_far_as_it_was_asked),
        TEST(an_epoch_that_is_resumed_is_transformed_from_there),
        TEST(cancelling_does_not_wait_for_a_call_and_no_other_follows),
        TEST(closing_and_beginning_wait_for_the_call_that_runs),
        TEST(epochs_left_at_any_moment_leave_nothing_behind),
        TEST(a_transform_that_takes_all_the_time_is_the_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
