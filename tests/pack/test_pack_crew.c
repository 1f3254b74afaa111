/* When a phase is begun again with one thread: where its part of the memory was too small, whatever code the error has. */
#include "pack/pack_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { WORKERS = 3, TASKS = 6 };

static bool g_lacks_memory;         /* what fails */
static _Atomic uint32_t g_begun[2]; /* workers: of several, and alone */

static fby_status begin_worker(fby__pack *p, uint32_t n_workers, void **out, fby_error *err)
{
    static bool alone[2] = {false, true};
    (void)p, (void)err;
    g_begun[n_workers == 1]++;
    *out = &alone[n_workers == 1];
    return FBY_OK;
}

static fby_status run_task(void *worker, uint64_t k, fby_error *err)
{
    (void)k;
    return *(bool *)worker ? FBY_OK : fby__fail(err, FBY_E_BUDGET, "too small");
}

static bool worker_lacks_memory(const void *worker)
{
    (void)worker;
    return g_lacks_memory;
}

static void end_worker(void *worker) { (void)worker; }

static bool reads_source(const fby__pack *p)
{
    (void)p;
    return false;
}

static fby_status run_phase(bool lacks_memory)
{
    static const fby__pack_phase_ops phase = {"testing", begin_worker, run_task, worker_lacks_memory, end_worker, reads_source};
    const fby_pack_opts opts = {.size = sizeof opts};
    fby__pack p = {.o = &opts, .n_workers = WORKERS, .lock = -1};
    fby_error err = {0};
    g_lacks_memory = lacks_memory;
    g_begun[0] = g_begun[1] = 0;
    return fby__pack_crew_run(&p, &phase, 0, TASKS, &err);
}

static void one_thread_does_what_several_had_no_memory_for(void **state)
{
    (void)state;
    assert_int_equal(run_phase(true), FBY_OK);
    assert_int_equal(g_begun[0], WORKERS);
    assert_int_equal(g_begun[1], 1);
}

static void a_budget_that_no_thread_can_keep_ends_it(void **state)
{
    (void)state;
    assert_int_equal(run_phase(false), FBY_E_BUDGET);
    assert_int_equal(g_begun[0], WORKERS);
    assert_int_equal(g_begun[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_does_what_several_had_no_memory_for),
        cmocka_unit_test(a_budget_that_no_thread_can_keep_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
