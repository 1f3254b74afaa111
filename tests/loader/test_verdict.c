/* What limits, from made-up measurements: warm-up apart, too early, and each limit with how sure it is. */
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

static fby_report judged(fby__facts f)
{
    fby_report r = {.size = sizeof r};
    f.epochs = f.epochs ? f.epochs : 1;
    f.n_threads = f.n_threads ? f.n_threads : 4;
    f.n_cpus = f.n_cpus ? f.n_cpus : 4;
    fby__verdict(&f, &r);
    assert_true(r.confidence >= 0 && r.confidence <= 1 && strlen(r.verdict) > 10 && strlen(r.verdict) + 1 < sizeof r.verdict);
    return r;
}

static void assert_limit(fby__facts f, fby_limit limit, const char *says)
{
    const fby_report r = judged(f);
    if (r.limit != limit || !strstr(r.verdict, says))
        fail_msg("%s (%.2f): %s", fby_limit_name(r.limit), r.confidence, r.verdict);
}

static void little_was_seen(void **state)
{
    (void)state;
    assert_limit((fby__facts){0}, FBY_LIMIT_TOO_EARLY, "No batch");
    assert_limit((fby__facts){.batches = 5, .wait_ns = 2 * S, .work_ns = 2 * S}, FBY_LIMIT_TOO_EARLY, "Too early");
    assert_limit((fby__facts){.batches = 500, .wait_ns = 3 * MS, .work_ns = 4 * MS}, FBY_LIMIT_TOO_EARLY, "Too early");
    /* a long first wait and a first step that compiles are no steady state */
    assert_limit((fby__facts){.batches = 9, .wait_ns = S, .first_waits_ns = S - MS, .work_ns = 5 * S, .first_work_ns = 5 * S - MS},
                 FBY_LIMIT_TOO_EARLY, "Too early");
    assert_true(judged((fby__facts){.batches = 3, .work_ns = S}).confidence == 0);
}

static void the_first_batch_is_no_waiting(void **state)
{
    (void)state;
    const fby__facts run = {.batches = 400, .wait_ns = 900 * MS, .first_waits_ns = 890 * MS, .work_ns = S, .worker_cpu_ns = 200 * MS};
    assert_limit(run, FBY_LIMIT_MODEL, "keeps up");
    fby__facts epochs = run; /* of many epochs it is what the time goes to */
    epochs.epochs = 20;
    assert_limit(epochs, FBY_LIMIT_FIRST_BATCH, "44.5 ms each");
    fby__facts compiled = run; /* a first step of 10 s does not hide that the rest waits */
    compiled.wait_ns = 2 * S;
    compiled.first_waits_ns = MS;
    compiled.work_ns = 11 * S;
    compiled.first_work_ns = 10 * S;
    assert_true(judged(compiled).limit != FBY_LIMIT_MODEL);
}

static void each_limit_by_its_signs(void **state)
{
    (void)state;
    const fby__facts waits = {.batches = 1000, .wait_ns = 8 * S, .work_ns = 2 * S, .first_waits_ns = MS};
    fby__facts f = waits;
    f.transform_ns = S / 2500; /* 0.4 ms */
    f.read_ns = 5 * S;
    f.decode_ns = S;
    assert_limit(f, FBY_LIMIT_STORAGE, "reading took longest");
    f.transform_ns = 9 * S;
    assert_limit(f, FBY_LIMIT_TRANSFORM, "Your transform is the limit");
    f = waits;
    f.worker_cpu_ns = 38 * S;
    f.decompress_ns = 30 * S;
    f.decode_ns = 8 * S;
    assert_limit(f, FBY_LIMIT_DECOMPRESS, "decompressing");
    f.n_cpus = 16;
    assert_limit(f, FBY_LIMIT_THREADS, "16 CPUs");
    f = waits;
    f.decode_ns = 2 * S;
    f.rereads = true;
    assert_limit(f, FBY_LIMIT_MEMORY, "Budget-bound");
    f.rereads = false;
    assert_limit(f, FBY_LIMIT_BALANCED, "as fast as they are handed over");
    f.wait_ns = 300 * MS;
    f.work_ns = 2 * S; /* 87 % work: not "as fast as they are handed over" */
    assert_limit(f, FBY_LIMIT_BALANCED, "equally fast");
    f.wait_ns = 20 * MS;
    assert_limit(f, FBY_LIMIT_MODEL, "keeps up");
}

static void more_seen_is_surer(void **state)
{
    (void)state;
    double before = 0;
    for (uint64_t n = 10; n <= 100000; n *= 10) {
        const fby_report r = judged((fby__facts){.batches = n, .work_ns = n * 10 * MS});
        assert_true(r.limit == FBY_LIMIT_MODEL && r.confidence > before);
        assert_true((strstr(r.verdict, "Not sure yet") != NULL) == (r.confidence < 0.3));
        before = r.confidence;
    }
    assert_true(before > 0.95);
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
        cmocka_unit_test(little_was_seen),         cmocka_unit_test(the_first_batch_is_no_waiting),
        cmocka_unit_test(each_limit_by_its_signs), cmocka_unit_test(more_seen_is_surer),
        cmocka_unit_test(names_are_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
