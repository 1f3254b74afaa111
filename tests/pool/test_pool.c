/* The pool: order, nothing lost, nothing run twice, whoever submits and whenever it is destroyed. */
#include "pool/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/random.h"
#include "pool/task_heap.h"

#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEED 7340

/* cmocka's asserts jump, which only the test's own thread may do. */
static void check(bool ok)
{
    if (!ok)
        abort();
}

static fby__pool *make_pool(int n_threads)
{
    fby__pool *pool;
    fby_error err;
    if (fby__pool_create(n_threads, "forebay", FBY__STACK_OWN, &pool, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return pool;
}

/* A task that holds a worker until it is let go. */
typedef struct gate {
    fby__task task;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool entered, open;
} gate;

static void run_gate(fby__task *task, int worker)
{
    (void)worker;
    gate *g = (gate *)task;
    pthread_mutex_lock(&g->lock);
    g->entered = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void gate_close(gate *g, fby__pool *pool)
{
    *g = (gate){.task = {.run = run_gate}};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    fby__pool_submit(pool, &g->task);
    pthread_mutex_lock(&g->lock);
    while (!g->entered)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void gate_open(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* ---- the heap against a naive twin ---- */

static void the_heap_pops_in_the_order_of_a_sorted_list(void **state)
{
    (void)state;
    enum { N = 400 };
    static fby__task tasks[N];
    fby__task *queued[N], *root = NULL;
    fby__random r = {.key = SEED};
    size_t n = 0, n_free = N;
    fby__task *spare[N];
    uint64_t order = 0;
    print_message("seed %d\n", SEED);
    for (size_t i = 0; i < N; i++)
        spare[i] = &tasks[i];
    for (int step = 0; step < 200000; step++) {
        bool push = n == 0 || (n_free > 0 && fby__random_below(&r, 100) < (uint64_t)(step / 1000 % 2 ? 40 : 60));
        if (push) {
            fby__task *t = spare[--n_free];
            t->deadline = fby__random_below(&r, 1 + (uint64_t)step % 300);
            t->order = order++;
            fby__task_heap_push(&root, t);
            queued[n++] = t;
        } else {
            size_t best = 0;
            for (size_t i = 1; i < n; i++)
                if (queued[i]->deadline < queued[best]->deadline ||
                    (queued[i]->deadline == queued[best]->deadline && queued[i]->order < queued[best]->order))
                    best = i;
            fby__task *t = fby__task_heap_pop(&root);
            assert_ptr_equal(t, queued[best]);
            queued[best] = queued[--n];
            spare[n_free++] = t;
        }
    }
}

/* ---- order ---- */

typedef struct numbered {
    fby__task task;
    int number;
    int *log;
    int *n_log;
} numbered;

static void run_numbered(fby__task *task, int worker)
{
    numbered *t = (numbered *)task;
    check(worker == 0);
    t->log[(*t->n_log)++] = t->number;
}

static void one_thread_runs_the_earliest_deadline_first_and_ties_in_order(void **state)
{
    (void)state;
    enum { N = 2000 };
    static numbered tasks[N];
    static int log[N];
    int n_log = 0;
    fby__random r = {.key = SEED, .stream = 1};
    fby__pool *pool = make_pool(1);
    gate g;
    gate_close(&g, pool);
    for (int i = 0; i < N; i++) {
        tasks[i] =
            (numbered){.task = {.run = run_numbered, .deadline = fby__random_below(&r, 50)}, .number = i, .log = log, .n_log = &n_log};
        fby__pool_submit(pool, &tasks[i].task);
    }
    gate_open(&g);
    fby__pool_destroy(pool);
    assert_int_equal(n_log, N);
    for (int i = 1; i < N; i++) {
        const numbered *a = &tasks[log[i - 1]], *b = &tasks[log[i]];
        assert_true(a->task.deadline < b->task.deadline || (a->task.deadline == b->task.deadline && a->number < b->number));
    }
}

/* ---- stress ---- */

typedef struct tree {
    fby__task task;
    fby__pool *pool;
    _Atomic uint64_t *n_run;
    int depth;
} tree;

static void run_tree(fby__task *task, int worker)
{
    tree *t = (tree *)task;
    check(worker >= 0 && worker < 8);
    for (int i = 0; i < 3 && t->depth > 0; i++) {
        tree *child = malloc(sizeof *child);
        *child = *t;
        child->task = (fby__task){.run = run_tree, .deadline = (uint64_t)(t->depth * 7 + i) % 5};
        child->depth = t->depth - 1;
        fby__pool_submit(t->pool, &child->task);
    }
    atomic_fetch_add(t->n_run, 1);
    free(t); /* the pool does not look at it any more */
}

static void *submit_trees(void *arg)
{
    tree *seed = arg;
    for (int i = 0; i < 20; i++) {
        tree *t = malloc(sizeof *t);
        *t = *seed;
        fby__pool_submit(t->pool, &t->task);
    }
    return NULL;
}

static void tasks_that_submit_tasks_all_run_once_on_eight_threads(void **state)
{
    (void)state;
    _Atomic uint64_t n_run = 0;
    fby__pool *pool = make_pool(8);
    tree seed = {.task = {.run = run_tree}, .pool = pool, .n_run = &n_run, .depth = 5};
    pthread_t submitters[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&submitters[i], NULL, submit_trees, &seed), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(submitters[i], NULL);
    fby__pool_destroy(pool); /* most are still queued, and make more */
    assert_int_equal(atomic_load(&n_run), 4 * 20 * (1 + 3 + 9 + 27 + 81 + 243));
}

typedef struct again {
    fby__task task;
    fby__pool *pool;
    int left; /* handed from run to run: no atomic */
    _Atomic int *n_ended;
} again;

static void run_again(fby__task *task, int worker)
{
    (void)worker;
    again *t = (again *)task;
    if (--t->left > 0)
        fby__pool_submit(t->pool, task);
    else
        atomic_fetch_add(t->n_ended, 1);
}

static void a_task_may_submit_itself_as_the_last_thing_it_does(void **state)
{
    (void)state;
    enum { N = 16 };
    again tasks[N];
    _Atomic int n_ended = 0;
    fby__pool *pool = make_pool(4);
    for (int i = 0; i < N; i++) {
        tasks[i] = (again){.task = {.run = run_again}, .pool = pool, .left = 1000 + i, .n_ended = &n_ended};
        fby__pool_submit(pool, &tasks[i].task);
    }
    fby__pool_destroy(pool);
    assert_int_equal(atomic_load(&n_ended), N);
}

typedef struct ping {
    fby__task task;
    sem_t ran;
} ping;

static void run_ping(fby__task *task, int worker)
{
    (void)worker;
    check(sem_post(&((ping *)task)->ran) == 0);
}

static void a_sleeping_pool_wakes_for_every_single_task(void **state)
{
    (void)state;
    fby__pool *pool = make_pool(3);
    ping p = {.task = {.run = run_ping}};
    assert_int_equal(sem_init(&p.ran, 0, 0), 0);
    /* A lost wake-up waits for ever, and the time-out of the test tells. */
    for (int i = 0; i < 20000; i++) {
        fby__pool_submit(pool, &p.task);
        while (sem_wait(&p.ran) != 0) {
        }
    }
    fby__pool_destroy(pool);
    sem_destroy(&p.ran);
}

/* ---- threads ---- */

typedef struct look {
    fby__task task;
    char name[16];
    sigset_t blocked;
    sem_t ran;
} look;

static void run_look(fby__task *task, int worker)
{
    (void)worker;
    look *l = (look *)task;
    check(pthread_getname_np(pthread_self(), l->name, sizeof l->name) == 0);
    check(pthread_sigmask(SIG_BLOCK, NULL, &l->blocked) == 0);
    check(sem_post(&l->ran) == 0);
}

static void look_around(const char *name, look *l)
{
    fby__pool *pool;
    fby_error err;
    assert_int_equal(fby__pool_create(1, name, FBY__STACK_OWN, &pool, &err), FBY_OK);
    *l = (look){.task = {.run = run_look}};
    assert_int_equal(sem_init(&l->ran, 0, 0), 0);
    fby__pool_submit(pool, &l->task);
    fby__pool_destroy(pool);
    sem_destroy(&l->ran);
}

static void workers_carry_the_pools_name_and_leave_signals_to_the_user(void **state)
{
    (void)state;
    look l;
    sigset_t before, after;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    look_around("forebay", &l);
    assert_string_equal(l.name, "forebay/0");
    assert_true(sigismember(&l.blocked, SIGINT) && sigismember(&l.blocked, SIGTERM) && sigismember(&l.blocked, SIGCHLD));
    look_around("a-name-that-is-too-long", &l);
    assert_string_equal(l.name, "a-name-that-i/0");
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

static void run_spin(fby__task *task, int worker)
{
    (void)worker;
    uint64_t until = fby__thread_cpu_ns() + 20000000;
    while (fby__thread_cpu_ns() < until) {
    }
    check(sem_post(&((ping *)task)->ran) == 0);
}

typedef struct sized {
    fby__task task;
    size_t bytes;
} sized;

static void run_measure(fby__task *task, int worker)
{
    (void)worker;
    sized *s = (sized *)task;
    pthread_attr_t attr;
    check(pthread_getattr_np(pthread_self(), &attr) == 0 && pthread_attr_getstacksize(&attr, &s->bytes) == 0);
    (void)pthread_attr_destroy(&attr);
}

static size_t stack_of(fby__stack stack)
{
    fby__pool *pool;
    fby_error err;
    sized s = {.task = {.run = run_measure}};
    assert_int_equal(fby__pool_create(1, "forebay", stack, &pool, &err), FBY_OK);
    fby__pool_submit(pool, &s.task);
    fby__pool_destroy(pool);
    return s.bytes;
}

static void code_of_the_programs_has_the_stack_of_the_system(void **state)
{
    (void)state;
    pthread_attr_t attr;
    size_t default_bytes;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_getstacksize(&attr, &default_bytes), 0);
    (void)pthread_attr_destroy(&attr);
    const size_t guards = 1u << 16;
    assert_true(stack_of(FBY__STACK_SYSTEM) + guards >= default_bytes);
    assert_true(stack_of(FBY__STACK_OWN) <= 1u << 20 && stack_of(FBY__STACK_OWN) + guards >= 1u << 20);
}

static void cpu_time_counts_work_and_not_sleep(void **state)
{
    (void)state;
    fby__pool *pool = make_pool(2);
    ping p = {.task = {.run = run_spin}};
    assert_int_equal(sem_init(&p.ran, 0, 0), 0);
    usleep(50000);
    uint64_t idle = fby__pool_cpu_ns(pool);
    assert_true(idle < 40000000);
    fby__pool_submit(pool, &p.task);
    while (sem_wait(&p.ran) != 0) {
    }
    assert_true(fby__pool_cpu_ns(pool) - idle >= 20000000);
    fby__pool_destroy(pool);
    sem_destroy(&p.ran);
}

/* ---- errors ---- */

static void a_pool_without_threads_is_refused(void **state)
{
    (void)state;
    fby__pool *pool = NULL;
    fby_error err;
    assert_int_equal(fby__pool_create(0, "forebay", FBY__STACK_OWN, &pool, &err), FBY_E_ARG);
    assert_int_equal(fby__pool_create(-3, "forebay", FBY__STACK_OWN, &pool, NULL), FBY_E_ARG);
    assert_null(pool);
    fby__pool_destroy(NULL);
}

static void every_failing_allocation_of_create_is_reported(void **state)
{
    (void)state;
    uint64_t injected = 0;
    for (uint64_t at = 1;; at++) {
        fby__pool *pool = NULL;
        fby_error err;
        uint64_t before = fby__alloc_count();
        fby__alloc_fail_at(at);
        fby_status status = fby__pool_create(2, "forebay", FBY__STACK_OWN, &pool, &err);
        bool hit = fby__alloc_count() - before >= at;
        fby__alloc_fail_at(0);
        assert_int_equal(status, hit ? FBY_E_NOMEM : FBY_OK);
        assert_true((pool != NULL) == !hit);
        fby__pool_destroy(pool);
        if (!hit)
            break;
        injected++;
    }
    print_message("%llu allocations failed in turn\n", (unsigned long long)injected);
    assert_true(injected >= 2);
}

/* Work that takes as long as it is told to, and says what became of it. */
typedef struct errand {
    unsigned sleep_ms;
    _Atomic int ran, dropped;
} errand;

static void run_errand(void *work)
{
    errand *e = work;
    (void)usleep(e->sleep_ms * 1000);
    atomic_fetch_add(&e->ran, 1);
}

static void drop_errand(void *work) { atomic_fetch_add(&((errand *)work)->dropped, 1); }

static void *cancel_soon(void *token)
{
    (void)usleep(20000);
    fby_cancel_set(token);
    return NULL;
}

static void work_that_is_abandoned_is_dropped_when_it_ends(void **state)
{
    (void)state;
    errand plain = {0}, waited_for = {.sleep_ms = 5}, abandoned = {.sleep_ms = 400}, late = {0};
    fby_error err;
    assert_int_equal(fby__thread_run(run_errand, drop_errand, &plain, &err), FBY_OK); /* nothing can cancel it: on this thread */
    fby_cancel *token = fby_cancel_create(), *before = fby_cancel_use(token);
    assert_int_equal(fby__thread_run(run_errand, drop_errand, &waited_for, &err), FBY_OK);
    assert_true(plain.ran == 1 && waited_for.ran == 1 && plain.dropped == 0 && waited_for.dropped == 0);

    pthread_t thread;
    const uint64_t began = fby__now_ns();
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, token), 0);
    assert_int_equal(fby__thread_run(run_errand, drop_errand, &abandoned, &err), FBY_E_CANCELLED);
    assert_true(fby__now_ns() - began < UINT64_C(300000000));
    assert_true(abandoned.dropped == 0);
    assert_int_equal(fby__thread_run(run_errand, drop_errand, &late, &err), FBY_E_CANCELLED);
    assert_true(late.ran == 0 && late.dropped == 1);
    while (abandoned.dropped == 0)
        (void)usleep(1000);
    assert_true(abandoned.ran == 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)fby_cancel_use(before);
    fby_cancel_destroy(token);
}

static void destroying_in_a_forked_child_returns_at_once(void **state)
{
    (void)state;
    fby__pool *pool = make_pool(2);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20); /* a hang kills the child, which the parent sees */
        fby__pool_destroy(pool);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fby__pool_destroy(pool);
}

/* Bytes of address space that this process has mapped. */
static size_t mapped_bytes(void)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    check(f && fscanf(f, "%llu", &pages) == 1);
    (void)fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Each thread's whole stack is mapped, whatever it touches: 64 of the system's default would be 512 MiB. */
static void many_threads_fit_a_small_address_space(void **state)
{
    (void)state;
    enum { N = 64, ROOM = 192 << 20 };
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fby__pool *pool = NULL;
        const struct rlimit limit = {mapped_bytes() + ROOM, RLIM_INFINITY};
        const bool made = setrlimit(RLIMIT_AS, &limit) == 0 && fby__pool_create(N, "forebay", FBY__STACK_OWN, &pool, NULL) == FBY_OK;
        fby__pool_destroy(pool);
        _exit(!made);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heap_pops_in_the_order_of_a_sorted_list),
        cmocka_unit_test(one_thread_runs_the_earliest_deadline_first_and_ties_in_order),
        cmocka_unit_test(tasks_that_submit_tasks_all_run_once_on_eight_threads),
        cmocka_unit_test(a_task_may_submit_itself_as_the_last_thing_it_does),
        cmocka_unit_test(a_sleeping_pool_wakes_for_every_single_task),
        cmocka_unit_test(workers_carry_the_pools_name_and_leave_signals_to_the_user),
        cmocka_unit_test(code_of_the_programs_has_the_stack_of_the_system),
        cmocka_unit_test(cpu_time_counts_work_and_not_sleep),
        cmocka_unit_test(a_pool_without_threads_is_refused),
        cmocka_unit_test(every_failing_allocation_of_create_is_reported),
        cmocka_unit_test(work_that_is_abandoned_is_dropped_when_it_ends),
        cmocka_unit_test(destroying_in_a_forked_child_returns_at_once),
        cmocka_unit_test(many_threads_fit_a_small_address_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
