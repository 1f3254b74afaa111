/*
 * Worker threads that run tasks earliest deadline first.
 *
 * A task is embedded in its owner's struct, so submitting allocates nothing. Among runnable tasks the one with the
 * smallest (deadline, submission order) runs next. run() may submit more tasks, and may free or resubmit its own task
 * as the last thing it does: the pool does not touch a task after calling run().
 */
#ifndef FBY_POOL_POOL_H
#define FBY_POOL_POOL_H

#include "base/error.h"

#include <stddef.h>

#include <pthread.h>

typedef struct fby__pool fby__pool;

typedef struct fby__task {
    void (*run)(struct fby__task *task, int worker); /* worker in [0, n_threads) */
    uint64_t deadline;
    /* pool private */
    uint64_t order;
    struct fby__task *child, *sibling; /* of the pairing heap */
} fby__task;

/** What a thread may need of a stack: what the library's own code does, or, where it runs code of the program's, the system's default. */
typedef enum fby__stack { FBY__STACK_OWN, FBY__STACK_SYSTEM } fby__stack;

/** The struct of `type` that a task is embedded in as `member`. */
#define FBY__TASK_OWNER(task, type, member) ((type *)(void *)((char *)(task)-offsetof(type, member)))

/** Start n_threads ≥ 1 threads, named "forebay/N", all signals blocked (they belong to the user's threads). */
fby_status fby__pool_create(int n_threads, const char *name, fby__stack stack, fby__pool **out, fby_error *err);

/** Queue a task; wakes one idle worker. Cannot fail: the heap is linked through the tasks. Threads: any, workers included. */
void fby__pool_submit(fby__pool *pool, fby__task *task);

/** CPU time used by the workers so far, summed (CLOCK_THREAD_CPUTIME_ID of each), in ns. */
uint64_t fby__pool_cpu_ns(fby__pool *pool);

/**
 * Runs every task still queued, joins the threads, frees the pool. Not from a worker. NULL is fine.
 * In a child of fork() the threads do not exist: it does nothing there (the memory is the parent's, copied on write).
 */
void fby__pool_destroy(fby__pool *pool);

/**
 * Start one thread as all threads of the library are: named "name/index" (the name is cut so that the index fits in the
 * kernel's 15 characters), all signals blocked, under this thread's token (base/cancel.h). Join it. FBY_E_NOMEM when the system allows no
 * more threads.
 */
fby_status fby__thread_start(pthread_t *out, const char *name, int index, fby__stack stack, void *(*run)(void *), void *arg,
                             fby_error *err);

/**
 * Run what cannot be stopped, so that a cancelled call need not wait for its end. FBY_OK: run(work) has returned. FBY_E_CANCELLED: the work is
 * the caller's no more, and drop(work) is called when it has ended (at once, if it did not begin). It touches nothing but what it owns, and
 * allocates nothing that is accounted for. Where nothing can cancel the call, or the system has no thread left, it runs on this one.
 */
fby_status fby__thread_run(void (*run)(void *work), void (*drop)(void *work), void *work, fby_error *err);

#endif
