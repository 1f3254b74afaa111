/*
 * Transforms in threads of the program's: each batch once, in order, one at a time, whatever the threads; results reach the consumer or are
 * released, each once, wherever an epoch is left. A test that hangs ends by alarm.
 */
#include "support/loader_fixture.h"
#include "support/test_seed.h"

#include "budget/budget.h"

#include <pthread.h>
#include <stdatomic.h>

enum { FILES = 6, HANG_SECONDS = 60, MAX_THREADS = 4 };

static void sleep_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    (void)nanosleep(&t, NULL);
}

/* What threads make of batches, and what became of it. */
typedef struct shop {
    fby_loader *loader;
    uint64_t epochs_begun;
    uint64_t delay_max_ns;
    uint64_t fail_at; /* UINT64_MAX: nothing fails */
    _Atomic uint64_t next, made, inside, overlaps, disorders;
    void (*release)(void *); /* NULL: drop */
    _Atomic bool held;       /* the thread that has a batch keeps it while this is set */
    bool once;               /* a thread ends after its batch: who closes does not wait for it to ask again */
    pthread_t thread[MAX_THREADS];
    int n_threads;
} shop;

static _Atomic int64_t g_results; /* that live */

typedef struct result {
    uint64_t index, n;
    fby_batch *batch;
} result;

static void drop(void *object)
{
    result *r = object;
    fby_batch_unref(r->batch);
    free(r);
    atomic_fetch_sub(&g_results, 1);
}

static void *work(void *user)
{
    shop *s = user;
    fby_batch *b;
    fby_error err = {0};
    fby__random random = {.key = (uint64_t)(uintptr_t)pthread_self()};
    while (fby_loader_transform_next(s->loader, s->epochs_begun, &b, &err) == FBY_OK) {
        if (atomic_fetch_add(&s->inside, 1) != 0)
            atomic_fetch_add(&s->overlaps, 1);
        if (atomic_fetch_add(&s->next, 1) != fby_batch_index(b))
            atomic_fetch_add(&s->disorders, 1);
        if (s->delay_max_ns)
            sleep_ns(fby__random_below(&random, s->delay_max_ns));
        while (atomic_load(&s->held))
            sleep_ns(100000);
        result *r = malloc(sizeof *r);
        assert_non_null(r);
        *r = (result){.index = fby_batch_index(b), .n = fby_batch_size(b), .batch = b};
        atomic_fetch_add(&g_results, 1);
        fby_error why = {.code = FBY_E_DATA, .file_offset = -1, .message = "no flow of basin 7"};
        atomic_fetch_sub(&s->inside, 1);
        atomic_fetch_add(&s->made, 1);
        const bool last = s->once;
        assert_int_equal(
            fby_loader_transform_done(s->loader, r, s->release ? s->release : drop, r->index == s->fail_at ? &why : NULL, &err), FBY_OK);
        if (last)
            break;
    }
    return NULL;
}

static void hire(shop *s, fby_loader *l, uint64_t first, int n_threads)
{
    s->loader = l;
    s->epochs_begun = fby_loader_epochs_begun(l);
    atomic_store(&s->next, first);
    s->n_threads = n_threads;
    for (int i = 0; i < n_threads; i++)
        assert_int_equal(pthread_create(&s->thread[i], NULL, work, s), 0);
}

static void dismiss(shop *s)
{
    for (int i = 0; i < s->n_threads; i++)
        assert_int_equal(pthread_join(s->thread[i], NULL), 0);
    s->n_threads = 0;
    assert_int_equal(atomic_load(&s->overlaps), 0);
    assert_int_equal(atomic_load(&s->disorders), 0);
}

static fby_dataset *open_files(void)
{
    put_files("data", FILES);
    return open_dataset("data", NULL);
}

static fby_loader *pulled(fby_dataset *ds, fby_loader_opts opts)
{
    opts.transform_pulled = true;
    opts.batch_size = opts.batch_size ? opts.batch_size : 8;
    return open_loader(ds, opts);
}

static fby_status take(fby_loader *l, uint64_t expect, fby_error *err)
{
    void *object = NULL;
    const fby_status status = fby_loader_next_result(l, -1, &object, err);
    if (status == FBY_OK) {
        const result *r = object;
        assert_int_equal(r->index, expect);
        check_batch(r->batch);
        drop(object);
    } else if (object) {
        drop(object);
    }
    return status;
}

static void results_come_once_each_in_order_from_any_number_of_threads(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        fby_loader *l = pulled(ds, (fby_loader_opts){.n_threads = threads,
                                                     .superbatch_samples = 100,
                                                     .prefetch_batches = 2 + (uint32_t)threads,
                                                     .transform_prefetch = (uint64_t)threads});
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            shop s = {.delay_max_ns = 200000, .fail_at = UINT64_MAX};
            fby_error err = {0};
            const uint64_t first = epoch == 1 ? 11 : 0;
            assert_int_equal(fby_loader_begin_at(l, epoch, first, &err), FBY_OK);
            const uint64_t begun = fby_loader_epochs_begun(l), n = fby_loader_batch_count(l);
            hire(&s, l, first, threads);
            assert_int_equal(fby_loader_begin_at(l, epoch, first, &err), FBY_OK); /* nothing was taken: it goes on, results included */
            assert_int_equal(fby_loader_epochs_begun(l), begun);
            for (uint64_t i = first; i < n; i++) {
                fby_loader_state where = {.size = sizeof where};
                assert_int_equal(fby_loader_state_get(l, &where, &err), FBY_OK);
                assert_int_equal(where.batch, i); /* the consumer's, not the threads' */
                assert_int_equal(take(l, i, &err), FBY_OK);
            }
            assert_int_equal(take(l, 0, &err), FBY_END);
            dismiss(&s);
            assert_int_equal(atomic_load(&s.made), n - first);
        }
        const fby_report r = report_of(l);
        assert_true(r.transform_ns > 0 && r.wait_ns > 0 && r.batches > 0 && r.bytes_delivered > 0);
        assert_int_equal(r.samples, 2 * 60 * FILES + (60 * FILES - 8 * 11));
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
    assert_int_equal(atomic_load(&g_results), 0);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void the_reach_is_transform_prefetch(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    for (uint64_t ahead = 0; ahead <= 12; ahead += 3) {
        fby_loader *l = pulled(ds, (fby_loader_opts){.transform_prefetch = ahead, .n_threads = 2});
        fby_error err = {0};
        shop s = {.fail_at = UINT64_MAX};
        const uint64_t reach = ahead ? ahead : 2;
        assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
        hire(&s, l, 0, 2);
        for (uint64_t taken = 0; taken + reach <= (ahead > 8 ? ahead : 8); taken++) { /* of those that are assembled at the beginning */
            while (atomic_load(&s.made) < taken + reach)
                sleep_ns(100000);
            sleep_ns(5000000);
            assert_int_equal(atomic_load(&s.made), taken + reach);
            assert_int_equal(take(l, taken, &err), FBY_OK);
        }
        fby_loader_cancel(l);
        dismiss(&s);
        assert_int_equal(atomic_load(&g_results), 0); /* those that waited, too, before anything else begins */
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
}

static void a_failure_comes_at_its_batch_with_what_the_thread_gave(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    fby_loader *l = pulled(ds, (fby_loader_opts){.n_threads = 2, .transform_prefetch = 4});
    fby_error err = {0};
    shop s = {.fail_at = 5};
    assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
    hire(&s, l, 0, 2);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(take(l, i, &err), FBY_OK);
    void *object = NULL;
    assert_int_equal(fby_loader_next_result(l, -1, &object, &err), FBY_E_DATA);
    assert_string_equal(err.message, "no flow of basin 7");
    assert_non_null(object);
    drop(object);
    assert_int_equal(take(l, 0, &err), FBY_E_STATE);
    dismiss(&s);
    assert_int_equal(atomic_load(&s.made), 6); /* nothing behind it */
    s = (shop){.fail_at = UINT64_MAX};
    assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
    hire(&s, l, 0, 1);
    for (uint64_t i = 0; i < fby_loader_batch_count(l); i++)
        assert_int_equal(take(l, i, &err), FBY_OK);
    assert_int_equal(take(l, 0, &err), FBY_END);
    dismiss(&s);
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_int_equal(atomic_load(&g_results), 0);
}

static void an_error_of_the_loader_ends_the_threads_before_it(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    put_files("data", FILES);
    FILE *f = fopen("data/f03.parquet", "r+b"); /* rows 180 to 239: batches of 8 from 22 on */
    assert_non_null(f);
    assert_int_equal(fseek(f, 4, SEEK_SET), 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(fputc(0xff, f), 0xff);
    assert_int_equal(fclose(f), 0);
    fby_dataset *ds = open_dataset("data", NULL);
    for (uint64_t ahead = 1; ahead <= 9; ahead += 4) {
        fby_loader *l = pulled(ds, (fby_loader_opts){.n_threads = 3, .shuffle = FBY_SHUFFLE_NONE, .transform_prefetch = ahead});
        fby_error err = {0};
        shop s = {.delay_max_ns = 100000, .fail_at = UINT64_MAX};
        assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
        hire(&s, l, 0, 2);
        for (uint64_t i = 0; i < 22; i++)
            assert_int_equal(take(l, i, &err), FBY_OK);
        assert_int_equal(take(l, 22, &err), FBY_E_FORMAT);
        dismiss(&s);
        assert_int_equal(atomic_load(&s.made), 22);
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void *release_soon(void *user)
{
    sleep_ns(20000000);
    atomic_store(&((shop *)user)->held, false);
    return NULL;
}

/* Who goes elsewhere waits for the batch that is out; a token ends that wait, and the next call waits again. */
static void beginning_going_elsewhere_and_closing_wait_for_the_batch_that_is_out(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    for (int how = 0; how < 3; how++) {
        fby_loader *l = pulled(ds, (fby_loader_opts){.n_threads = 2});
        fby_error err = {0};
        fby_loader_state where = {.size = sizeof where};
        shop s = {.fail_at = UINT64_MAX, .held = true, .once = how == 2};
        pthread_t id;
        assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
        assert_int_equal(fby_loader_state_get(l, &where, &err), FBY_OK);
        hire(&s, l, 0, how == 2 ? 1 : 2);
        while (atomic_load(&s.inside) == 0)
            sleep_ns(100000);
        if (how < 2) {
            fby_cancel *token = fby_cancel_create();
            fby_cancel *before = fby_cancel_use(token);
            fby_cancel_set(token);
            assert_int_equal(how == 0 ? fby_loader_begin(l, 1, &err) : fby_loader_state_set(l, &where, &err), FBY_E_CANCELLED);
            (void)fby_cancel_use(before);
            fby_cancel_destroy(token);
        }
        assert_int_equal(pthread_create(&id, NULL, release_soon, &s), 0);
        if (how == 0)
            assert_int_equal(fby_loader_begin(l, 1, &err), FBY_OK);
        else if (how == 1)
            assert_int_equal(fby_loader_state_set(l, &where, &err), FBY_OK);
        else
            fby_loader_close(l);
        assert_int_equal(atomic_load(&s.inside), 0);
        assert_int_equal(atomic_load(&g_results), 0); /* nobody took it */
        dismiss(&s);
        assert_int_equal(pthread_join(id, NULL), 0);
        if (how < 2)
            fby_loader_close(l);
    }
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void *cancel_soon(void *user)
{
    sleep_ns(300000);
    fby_loader_cancel(user);
    return NULL;
}

static void drop_slowly(void *object)
{
    sleep_ns(10000000);
    drop(object);
}

/* Else it would release those of the epoch that has begun meanwhile. */
static void beginning_waits_until_a_cancel_has_released_what_waited(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    fby_loader *l = pulled(ds, (fby_loader_opts){.n_threads = 2, .transform_prefetch = 4});
    fby_error err = {0};
    pthread_t canceller;
    shop s = {.fail_at = UINT64_MAX, .release = drop_slowly}, later = {.fail_at = UINT64_MAX};
    assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
    hire(&s, l, 0, 2);
    while (atomic_load(&s.made) < 4)
        sleep_ns(100000);
    assert_int_equal(pthread_create(&canceller, NULL, cancel_soon, l), 0);
    while (atomic_load(&g_results) == 4)
        sleep_ns(100000);
    assert_int_equal(fby_loader_begin(l, 1, &err), FBY_OK);
    assert_int_equal(atomic_load(&g_results), 0);
    hire(&later, l, 0, 2);
    for (uint64_t i = 0; i < fby_loader_batch_count(l); i++)
        assert_int_equal(take(l, i, &err), FBY_OK);
    assert_int_equal(take(l, 0, &err), FBY_END);
    assert_int_equal(pthread_join(canceller, NULL), 0);
    dismiss(&s);
    dismiss(&later);
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_int_equal(atomic_load(&g_results), 0);
}

static void epochs_left_at_any_moment_leave_nothing_behind(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    const uint64_t seed = test_seed();
    fby__random random = {.key = seed};
    for (int round = 0; round < 40; round++) {
        fby_loader *l = pulled(ds, (fby_loader_opts){.n_threads = 1 + round % 4,
                                                     .superbatch_samples = 100,
                                                     .prefetch_batches = 2 + (uint32_t)fby__random_below(&random, 7),
                                                     .transform_prefetch = 1 + fby__random_below(&random, 5)});
        shop shops[5] = {{0}};
        for (int e = 0; e < 5; e++) {
            fby_error err = {0};
            pthread_t canceller;
            const uint64_t n = fby_loader_batch_count(l), at = fby__random_below(&random, n), how = fby__random_below(&random, 4);
            shops[e] = (shop){.delay_max_ns = 100000, .fail_at = fby__random_below(&random, 3) ? UINT64_MAX : at + 3};
            assert_int_equal(fby_loader_begin_at(l, (uint64_t)e, at, &err), FBY_OK);
            hire(&shops[e], l, at, 1 + (int)fby__random_below(&random, MAX_THREADS));
            if (how == 1)
                assert_int_equal(pthread_create(&canceller, NULL, cancel_soon, l), 0);
            uint64_t i = at;
            for (uint64_t left = fby__random_below(&random, 12); left > 0 && take(l, i, &err) == FBY_OK; left--)
                i++;
            if (how == 1)
                assert_int_equal(pthread_join(canceller, NULL), 0);
            if (how == 2) {
                fby_loader_state where = {.size = sizeof where};
                assert_int_equal(fby_loader_state_get(l, &where, &err), FBY_OK);
                assert_int_equal(fby_loader_state_set(l, &where, &err), FBY_OK);
            }
        }
        fby_loader_cancel(l);
        for (int e = 0; e < 5; e++) /* none has waited for the one before to end */
            dismiss(&shops[e]);
        fby_loader_close(l);
        assert_int_equal(atomic_load(&g_results), 0);
    }
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static fby_status never(void *user, fby_batch *batch, fby_error *err)
{
    (void)user, (void)batch, (void)err;
    return FBY_E_INTERNAL;
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    fby_loader *l = NULL, *plain = open_loader(ds, (fby_loader_opts){.batch_size = 8});
    fby_error err = {0};
    fby_batch *b = NULL;
    void *object = NULL;
    fby_loader_opts opts = {.batch_size = 8, .transform_pulled = true, .transform = never};
    assert_int_equal(try_loader(ds, opts, &l, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "not both"));
    assert_int_equal(fby_loader_next_result(plain, 0, &object, &err), FBY_E_STATE);
    assert_non_null(strstr(err.message, "call fby_loader_next()"));
    assert_int_equal(fby_loader_transform_next(plain, 0, &b, &err), FBY_E_STATE);
    fby_loader_close(plain);

    l = pulled(ds, (fby_loader_opts){0});
    assert_int_equal(fby_loader_next(l, 0, &b, &err), FBY_E_STATE);
    assert_non_null(strstr(err.message, "fby_loader_next_result()"));
    assert_int_equal(fby_loader_next_result(l, 0, &object, &err), FBY_TIMEOUT); /* it begins an epoch; nobody transforms */
    assert_int_equal(fby_loader_transform_next(l, 77, &b, &err), FBY_END);      /* another epoch */
    result *r = calloc(1, sizeof *r);
    assert_non_null(r);
    atomic_fetch_add(&g_results, 1);
    assert_int_equal(fby_loader_transform_done(l, r, drop, NULL, &err), FBY_E_STATE);
    assert_int_equal(atomic_load(&g_results), 0);
    assert_null(b);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

/* A result need not be released, and may be none. */
static void results_may_be_the_batches_or_nothing(void **state)
{
    (void)state;
    (void)alarm(HANG_SECONDS);
    fby_dataset *ds = open_files();
    fby_loader *l = pulled(ds, (fby_loader_opts){0});
    fby_error err = {0};
    fby_batch *b = NULL;
    void *object = NULL;
    assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
    const uint64_t epoch = fby_loader_epochs_begun(l);
    assert_int_equal(fby_loader_transform_next(l, epoch, &b, &err), FBY_OK); /* this thread does both */
    assert_int_equal(fby_loader_transform_done(l, b, NULL, NULL, &err), FBY_OK);
    assert_int_equal(fby_loader_next_result(l, -1, &object, &err), FBY_OK);
    assert_ptr_equal(object, b);
    check_batch(object);
    fby_batch_unref(object);
    assert_int_equal(fby_loader_transform_next(l, epoch, &b, &err), FBY_OK);
    fby_batch_unref(b);
    assert_int_equal(fby_loader_transform_done(l, NULL, NULL, NULL, &err), FBY_OK);
    assert_int_equal(fby_loader_next_result(l, -1, &object, &err), FBY_OK);
    assert_null(object);
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(results_come_once_each_in_order_from_any_number_of_threads),
        TEST(the_reach_is_transform_prefetch),
        TEST(a_failure_comes_at_its_batch_with_what_the_thread_gave),
        TEST(an_error_of_the_loader_ends_the_threads_before_it),
        TEST(beginning_going_elsewhere_and_closing_wait_for_the_batch_that_is_out),
        TEST(beginning_waits_until_a_cancel_has_released_what_waited),
        TEST(epochs_left_at_any_moment_leave_nothing_behind),
        TEST(what_does_not_fit_is_refused),
        TEST(results_may_be_the_batches_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
