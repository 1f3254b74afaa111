/*
 * Faults for tests: the n-th operation fails, reads come up short, reads take a random time.
 *
 * Always compiled in: one relaxed increment an operation costs nothing beside a system call, and what is tested is what
 * runs. All variables are relaxed atomics: they are statistics and settings, no data is published through them.
 */
#include "io/io_impl.h"

#include "base/random.h"

#include <errno.h>
#include <time.h>

static _Atomic uint64_t g_ops, g_reads;
static _Atomic uint64_t g_fail_at, g_short_every, g_delay_max_ns, g_delay_min_ns, g_seed;

static uint64_t get(_Atomic uint64_t *v) { return atomic_load_explicit(v, memory_order_relaxed); }
static void set(_Atomic uint64_t *v, uint64_t value) { atomic_store_explicit(v, value, memory_order_relaxed); }

void fby__io_set_fault(const fby__io_fault *fault)
{
    set(&g_fail_at, fault->fail_at);
    set(&g_short_every, fault->short_every);
    set(&g_delay_max_ns, fault->delay_max_ns);
    set(&g_delay_min_ns, fault->delay_min_ns);
    set(&g_seed, fault->seed);
    set(&g_ops, 0);
    set(&g_reads, 0);
}

uint64_t fby__io_fault_count(void) { return get(&g_ops); }

bool fby__io_fault_alters_reads(void) { return get(&g_delay_max_ns) != 0 || get(&g_short_every) != 0; }

int fby__io_fault_op(void)
{
    uint64_t op = atomic_fetch_add_explicit(&g_ops, 1, memory_order_relaxed) + 1;
    return op == get(&g_fail_at) ? EIO : 0;
}

int fby__io_fault_read(size_t *n, uint64_t *delay_ns)
{
    *delay_ns = 0;
    int error = fby__io_fault_op();
    uint64_t short_every = get(&g_short_every), delay_max_ns = get(&g_delay_max_ns), delay_min_ns = get(&g_delay_min_ns);
    if (error || (!short_every && !delay_max_ns))
        return error;
    uint64_t read = atomic_fetch_add_explicit(&g_reads, 1, memory_order_relaxed) + 1;
    if (short_every && read % short_every == 0 && *n > 1)
        *n = 1 + fby__random_u64(get(&g_seed), read, 1) % (*n - 1);
    if (delay_max_ns > delay_min_ns)
        *delay_ns = delay_min_ns + fby__random_u64(get(&g_seed), read, 2) % (delay_max_ns - delay_min_ns);
    return 0;
}

void fby__io_sleep(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (ns && nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}
