/* What limits, from made-up measurements: warm-up apart, too early, each limit with how sure it is, and what would help by how much. */
#include "loader/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define GIB (UINT64_C(1) << 30)

/* 4 threads of 4 CPUs, an epoch; each test changes what it is about. */
static fby_report judged(fby_report r)
{
    r.size = sizeof r;
    r.epochs_begun = r.epochs_begun ? r.epochs_begun : 1;
    r.n_threads = r.n_threads ? r.n_threads : 4;
    r.n_cpus = r.n_cpus ? r.n_cpus : 4;
    r.samples = r.samples ? r.samples : 100 * r.batches;
    fby__judge(&r);
    assert_true(r.confidence >= 0 && r.confidence <= 1 && strlen(r.verdict) > 10 && strlen(r.verdict) + 1 < sizeof r.verdict);
    assert_true(strlen(r.reason) > 10 && strlen(r.reason) + 1 < sizeof r.reason);
    for (uint32_t i = 0; i < r.n_cures; i++)
        assert_true(r.cures[i].factor >= 1.1 && r.cures[i].samples_per_second > 0 && r.cures[i].change[0] && r.cures[i].why[0] &&
                    (i == 0 || r.cures[i].factor <= r.cures[i - 1].factor));
    return r;
}

static fby_report assert_limit(fby_report f, fby_limit limit, const char *says)
{
    const fby_report r = judged(f);
    if (r.limit != limit || !strstr(r.verdict, says))
        fail_msg("%s (%.2f, %s): %s", fby_limit_name(r.limit), r.confidence, r.reason, r.verdict);
    return r;
}

static void assert_cure(const fby_report *r, uint32_t i, const char *change, double factor)
{
    if (i >= r->n_cures || strcmp(r->cures[i].change, change) != 0 || r->cures[i].factor < 0.99 * factor ||
        r->cures[i].factor > 1.01 * factor)
        fail_msg("cure %u of %u: '%s' × %.3f, not '%s' × %.3f", i, r->n_cures, i < r->n_cures ? r->cures[i].change : "",
                 i < r->n_cures ? r->cures[i].factor : 0, change, factor);
}

static void little_was_seen(void **state)
{
    (void)state;
    assert_limit((fby_report){0}, FBY_LIMIT_TOO_EARLY, "No batch");
    assert_limit((fby_report){.batches = 5, .wait_ns = 2 * S, .work_ns = 2 * S}, FBY_LIMIT_TOO_EARLY, "Too early");
    assert_limit((fby_report){.batches = 500, .wait_ns = 3 * MS, .work_ns = 4 * MS}, FBY_LIMIT_TOO_EARLY, "Too early");
    /* a long first wait and a first step that compiles are no steady state */
    assert_limit((fby_report){.batches = 9, .wait_ns = S, .first_batches_ns = S - MS, .work_ns = 5 * S, .first_step_ns = 5 * S - MS},
                 FBY_LIMIT_TOO_EARLY, "Too early");
    assert_true(judged((fby_report){.batches = 3, .work_ns = S}).confidence == 0);
}

static void the_first_batch_is_no_waiting(void **state)
{
    (void)state;
    const fby_report run = {.batches = 400, .wait_ns = 900 * MS, .first_batches_ns = 890 * MS, .work_ns = S, .worker_cpu_ns = 200 * MS};
    assert_limit(run, FBY_LIMIT_MODEL, "keeps up");
    fby_report epochs = run; /* of many epochs it is what the time goes to */
    epochs.epochs_begun = 20;
    const fby_report r = assert_limit(epochs, FBY_LIMIT_FIRST_BATCH, "44.5 ms each");
    assert_cure(&r, 0, "epochs of 4 times as many batches", 1 / (1 - 0.75 * 890 / 1900.));
    fby_report compiled = run; /* a first step of 10 s does not hide that the rest waits */
    compiled.wait_ns = 2 * S;
    compiled.first_batches_ns = MS;
    compiled.work_ns = 11 * S;
    compiled.first_step_ns = 10 * S;
    assert_true(judged(compiled).limit != FBY_LIMIT_MODEL);
}

/* The consumer waits 8 of 10 s. */
#define WAITS .batches = 1001, .wait_ns = 8 * S + MS, .work_ns = 2 * S, .first_batches_ns = MS

static void the_storage_limits(void **state)
{
    (void)state;
    const fby_report r = assert_limit((fby_report){WAITS, .reading_ns = 9500 * MS, .read_ns = 60 * S, .decode_ns = 2 * S,
                                                   .assemble_ns = 2 * S, .worker_cpu_ns = 4 * S, .blocks_read = 100, .budget_bytes = GIB,
                                                   .keep_all_bytes = 3 * GIB, .memory_available_bytes = 8 * GIB},
                                      FBY_LIMIT_STORAGE, "95 % of it");
    assert_cure(&r, 0, "memory=3.0GiB", 0.95 / 0.2); /* the program is next, with 2 of 10 s */
    assert_int_equal(r.n_cures, 1);
    assert_true(r.confidence > 0.9);
}

static bool offers(const fby_report *r, const char *change)
{
    for (uint32_t i = 0; i < r->n_cures; i++)
        if (strstr(r->cures[i].change, change))
            return true;
    return false;
}

static void the_workers_limit_by_what_they_do_most(void **state)
{
    (void)state;
    fby_report f = {
        WAITS, .worker_cpu_ns = 38 * S, .process_cpu_ns = 39 * S, .decompress_ns = 30 * S, .decode_ns = 6 * S, .assemble_ns = 2 * S};
    f.bytes_decompressed = 10000000000;
    fby_report r = assert_limit(f, FBY_LIMIT_DECOMPRESS, "decompressing");
    /* 30 s become 5 s at 2 GB/s: 13 of 40 thread seconds; of the CPUs 14 */
    assert_cure(&r, 0, "forebay pack PATH --to DIR --shuffle none --codec lz4", 39. / 14);
    fby_report small = {WAITS,          .worker_cpu_ns = 38 * S, .process_cpu_ns = 39 * S, .decode_ns = 6 * S, .assemble_ns = 8 * S,
                        .samples = 1000};
    assert_limit(small, FBY_LIMIT_ASSEMBLE, "(84 %) assembling"); /* what has no clock of its own is, of blocks that are read, decoding */
    small.blocks_read = 1000, small.budget_bytes = GIB, small.keep_all_bytes = 2 * GIB, small.memory_available_bytes = 8 * GIB;
    r = assert_limit(small, FBY_LIMIT_DECODE, "(79 %) decoding");
    assert_cure(&r, 0, "memory=2.0GiB", 39. / 9); /* of the CPUs 30 s are saved; assembling stays */
    f.decode_ns = 31 * S;
    assert_limit(f, FBY_LIMIT_DECODE, "decoding");
    f.assemble_ns = 32 * S;
    f.decompress_ns = f.decode_ns = S;
    f.padding = f.padding_unsorted = 0.85; /* if samples were padded */
    r = assert_limit(f, FBY_LIMIT_ASSEMBLE, "assembling");
    assert_false(offers(&r, "bucket_samples"));
    f.n_padded = 1;
    r = assert_limit(f, FBY_LIMIT_ASSEMBLE, "assembling");
    assert_true(offers(&r, "bucket_samples"));
    f.padding = 0.04; /* it has buckets */
    r = assert_limit(f, FBY_LIMIT_ASSEMBLE, "assembling");
    assert_false(offers(&r, "bucket_samples"));
}

static void uncompressed_files_in_the_page_cache_are_copied(void **state)
{
    (void)state;
    assert_limit(
        (fby_report){WAITS, .worker_cpu_ns = 39 * S, .read_ns = 30 * S, .reading_ns = 9 * S, .decode_ns = 5 * S, .assemble_ns = 3 * S},
        FBY_LIMIT_STORAGE, "Copying");
}

static void more_threads_help_where_there_are_cpus(void **state)
{
    (void)state;
    fby_report f = {WAITS, .n_threads = 1, .worker_cpu_ns = 9500 * MS, .process_cpu_ns = 10 * S, .decode_ns = 9 * S};
    const fby_report r = assert_limit(f, FBY_LIMIT_THREADS, "4 CPUs");
    assert_cure(&r, 0, "threads=4", 0.95 / 0.25); /* the CPUs are next: 10 of 40 s */
    f.process_cpu_ns = 39 * S;                    /* the program itself uses the others */
    const fby_report full = assert_limit(f, FBY_LIMIT_DECODE, "decoding");
    assert_int_equal(full.n_cures, 0);
}

static void a_transform_limits_alone(void **state)
{
    (void)state;
    fby_report f = {WAITS, .transform_ns = 9500 * MS, .worker_cpu_ns = 16 * S};
    const fby_report r = assert_limit(f, FBY_LIMIT_TRANSFORM, "The transform is the limit");
    assert_cure(&r, 0, "a transform of 4.0 ms a batch instead of 9.5", 0.95 / 0.4);
    /* one that took 0.4 ms of 1.5 s, beside a first batch that took most of it, limits nothing */
    const fby_report shortly = {
        .batches = 30, .wait_ns = 900 * MS, .first_batches_ns = 890 * MS, .work_ns = 600 * MS, .transform_ns = 400000};
    assert_limit(shortly, FBY_LIMIT_MODEL, "keeps up");
}

static void transfer_is_told_from_work(void **state)
{
    (void)state;
    fby_report f = {.batches = 1001, .wait_ns = 100 * MS, .work_ns = 2 * S, .transfer_ns = 8 * S, .worker_cpu_ns = 4 * S};
    const fby_report r = assert_limit(f, FBY_LIMIT_TRANSFER, "Moving batches");
    assert_cure(&r, 0, "move batches to the device in transform=", 10. / 8);
    f.work_ns = 9 * S;
    assert_limit(f, FBY_LIMIT_MODEL, "keeps up");
}

static void the_budget_holds_up(void **state)
{
    (void)state;
    fby_report f = {.batches = 1001,
                    .wait_ns = 5 * S,
                    .work_ns = 5 * S,
                    .worker_cpu_ns = 20 * S,
                    .decode_ns = 19 * S,
                    .memory_wait_ns = 4 * S,
                    .superbatch_samples = 1000,
                    .budget_bytes = GIB,
                    .overlap_bytes = 2 * GIB,
                    .memory_available_bytes = 2 * GIB};
    fby_report r = assert_limit(f, FBY_LIMIT_MEMORY, "budget is the limit");
    assert_cure(&r, 0, "superbatch=500", 0.9 / 0.5);
    f.memory_available_bytes = 4 * GIB;
    r = judged(f);
    assert_cure(&r, 0, "memory=2.0GiB", 0.9 / 0.5);
    assert_cure(&r, 1, "superbatch=500", 0.9 / 0.5);
    f.memory_wait_ns = 0;
    r = assert_limit(f, FBY_LIMIT_BALANCED, "as fast as they are handed over");
}

/* Epochs whose first batch comes late because of a slow disk are no matter of first batches. */
static void what_is_always_busy_limits_first_batches_too(void **state)
{
    (void)state;
    fby_report f = {.batches = 1000, .epochs_begun = 10, .wait_ns = 6 * S, .first_batches_ns = 5 * S, .work_ns = 4 * S};
    assert_limit(f, FBY_LIMIT_FIRST_BATCH, "500.0 ms each");
    f.reading_ns = 9 * S;
    assert_limit(f, FBY_LIMIT_STORAGE, "90 % of it");
}

/* Other programs have the CPUs too, or batches are small: the workers are not always busy, and nothing else is busier. */
static void the_busiest_limits_a_program_that_does_nothing(void **state)
{
    (void)state;
    fby_report f = {.batches = 10000, .wait_ns = 10 * S, .worker_cpu_ns = 20 * S, .assemble_ns = 15 * S, .decode_ns = 5 * S};
    assert_true(assert_limit(f, FBY_LIMIT_ASSEMBLE, "assembling").confidence < 0.6);
    f.worker_cpu_ns = f.assemble_ns = f.decode_ns = S;
    assert_limit(f, FBY_LIMIT_BALANCED, "Nothing stands out");
}

static void neither_limits(void **state)
{
    (void)state;
    fby_report f = {.batches = 1000, .wait_ns = 300 * MS, .work_ns = 2 * S, .decode_ns = 4 * S};
    assert_limit(f, FBY_LIMIT_BALANCED, "equally fast");
    f.decode_ns = S / 2; /* 5 % of the threads' time: it is not the loader that it waits for */
    assert_true(assert_limit(f, FBY_LIMIT_MODEL, "workers were 5 % busy").confidence < 0.5);
    f.decode_ns = 4 * S;
    f.wait_ns = 20 * MS;
    const fby_report r = assert_limit(f, FBY_LIMIT_MODEL, "keeps up");
    assert_int_equal(r.n_cures, 0);
}

static void more_seen_is_surer(void **state)
{
    (void)state;
    double before = 0;
    for (uint64_t n = 10; n <= 100000; n *= 10) {
        const fby_report r = judged((fby_report){.batches = n, .work_ns = n * 10 * MS});
        assert_true(r.limit == FBY_LIMIT_MODEL && r.confidence > before);
        assert_true((strstr(r.verdict, "Not sure yet") != NULL) == (r.confidence < 0.3));
        before = r.confidence;
    }
    assert_true(before > 0.95);
}

/* After a cold first epoch the numbers are those of the epochs that follow. */
static void what_came_after_a_report_is_judged_alone(void **state)
{
    (void)state;
    const fby_report cold = {.size = sizeof cold,
                             .n_threads = 4,
                             .n_cpus = 4,
                             .epochs_begun = 1,
                             .batches = 1000,
                             .samples = 100000,
                             .elapsed_ns = 10 * S,
                             .wait_ns = 8 * S,
                             .work_ns = 2 * S,
                             .reading_ns = 9500 * MS,
                             .read_ns = 20 * S,
                             .n_wrapped = 3};
    fby_report r = cold, whole = cold;
    r.epochs_begun = 2;
    r.batches += 1000;
    r.samples += 100000;
    r.elapsed_ns += 2 * S;
    r.work_ns += 2 * S;
    whole = r;
    assert_int_equal(fby_report_judge(&whole, NULL), FBY_OK);
    assert_int_equal(whole.limit, FBY_LIMIT_STORAGE);
    assert_int_equal(fby_report_since(&r, &cold, NULL), FBY_OK);
    assert_int_equal(r.limit, FBY_LIMIT_MODEL);
    assert_true(r.batches == 1000 && r.samples == 100000 && r.elapsed_ns == 2 * S && r.wait_ns == 0 && r.reading_ns == 0 &&
                r.n_wrapped == 3);

    fby_error err = {0};
    fby_report early = {.size = sizeof early};
    assert_int_equal(fby_report_since(&early, &cold, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "later than the other"));
    fby_report no_size = {0};
    assert_int_equal(fby_report_judge(&no_size, &err), FBY_E_ARG);
}

static void names_are_words(void **state)
{
    (void)state;
    assert_string_equal(fby_limit_name(FBY_LIMIT_TOO_EARLY), "too_early");
    assert_string_equal(fby_limit_name(FBY_LIMIT_BALANCED), "balanced");
    assert_string_equal(fby_limit_name(FBY_LIMIT_COUNT), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_was_seen),
        cmocka_unit_test(the_first_batch_is_no_waiting),
        cmocka_unit_test(the_storage_limits),
        cmocka_unit_test(the_workers_limit_by_what_they_do_most),
        cmocka_unit_test(uncompressed_files_in_the_page_cache_are_copied),
        cmocka_unit_test(more_threads_help_where_there_are_cpus),
        cmocka_unit_test(a_transform_limits_alone),
        cmocka_unit_test(transfer_is_told_from_work),
        cmocka_unit_test(the_budget_holds_up),
        cmocka_unit_test(what_is_always_busy_limits_first_batches_too),
        cmocka_unit_test(the_busiest_limits_a_program_that_does_nothing),
        cmocka_unit_test(neither_limits),
        cmocka_unit_test(more_seen_is_surer),
        cmocka_unit_test(what_came_after_a_report_is_judged_alone),
        cmocka_unit_test(names_are_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
