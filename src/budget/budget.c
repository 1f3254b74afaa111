/* Accounts and slabs. One mutex an account; the process-wide ledger is one atomic sum. */
#include "budget/budget_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/process.h"

#include <string.h>

static _Atomic uint64_t g_charged;  /* relaxed: a sum for reports; each account's own figure is under its lock */
static _Atomic uint64_t g_promised; /* relaxed: the same */

uint64_t fby__ledger_charged_bytes(void) { return atomic_load_explicit(&g_charged, memory_order_relaxed); }

uint64_t fby__ledger_promised_bytes(void)
{
    const uint64_t promised = atomic_load_explicit(&g_promised, memory_order_relaxed), charged = fby__ledger_charged_bytes();
    return promised > charged ? promised - charged : 0;
}

size_t fby__slab_class_bytes(size_t n)
{
    /* Eight classes a power of two: at most 12.5 % is lost, and blocks of nearly one size share a class. */
    if (n <= FBY__PAGE_BYTES)
        return FBY__PAGE_BYTES;
    if (n > SIZE_MAX / 4)
        return SIZE_MAX; /* refused by every limit and by mmap */
    unsigned log2 = 63u - (unsigned)__builtin_clzll(n - 1);
    size_t step = (size_t)1 << (log2 > 3 ? log2 - 3 : 0);
    size_t align = step > FBY__PAGE_BYTES ? step : FBY__PAGE_BYTES;
    return fby__align_up_u64(n, align);
}

fby_status fby__account_open(uint64_t limit_bytes, fby__account **out, fby_error *err)
{
    fby__account *a = fby__calloc(1, sizeof *a);
    if (!a)
        return fby__fail_nomem(err, "a budget account");
    atomic_init(&a->refs, 1);
    a->limit = limit_bytes;
    a->pid = fby__process_id();
    if (pthread_mutex_init(&a->lock, NULL) != 0) {
        fby__free(a);
        return fby__fail_nomem(err, "a budget account's lock");
    }
    *out = a;
    return FBY_OK;
}

fby__account *fby__account_ref(fby__account *a)
{
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void fby__account_set_slack(fby__account *a, uint64_t bytes)
{
    pthread_mutex_lock(&a->lock);
    a->slack = bytes;
    pthread_mutex_unlock(&a->lock);
}

void fby__account_promise(fby__account *a, uint64_t bytes)
{
    pthread_mutex_lock(&a->lock);
    a->promised = fby__min_u64(bytes, a->limit);
    atomic_fetch_add_explicit(&g_promised, a->promised, memory_order_relaxed);
    pthread_mutex_unlock(&a->lock);
}

static void charge_locked(fby__account *a, uint64_t bytes)
{
    a->charged += bytes;
    a->peak = fby__max_u64(a->peak, a->charged);
    if (a->charged > a->limit)
        a->forced = fby__max_u64(a->forced, a->charged - a->limit);
    atomic_fetch_add_explicit(&g_charged, bytes, memory_order_relaxed);
}

static void discharge_locked(fby__account *a, uint64_t bytes)
{
    a->charged -= bytes;
    atomic_fetch_sub_explicit(&g_charged, bytes, memory_order_relaxed);
}

void fby__slab_unmap(const fby__account *a, const fby__slab *slab)
{
    if (slab->pinned && a->pool.pinner.unpin(a->pool.pinner.user, slab->data) != 0)
        return;                            /* stays mapped: else the device would take what is mapped there next for this */
    (void)munmap(slab->data, slab->bytes); /* a valid mapping: cannot fail */
}

void fby__slab_leave_locked(fby__account *a, const fby__slab *slab)
{
    gone *g = (gone *)(void *)slab->data;
    *g = (gone){.next = a->gone, .bytes = slab->bytes, .pinned = slab->pinned};
    a->gone = g;
    atomic_store_explicit(&a->has_gone, true, memory_order_relaxed);
}

void fby__account_trim(fby__account *a)
{
    if (!atomic_load_explicit(&a->has_gone, memory_order_relaxed))
        return;
    pthread_mutex_lock(&a->lock);
    gone *g = a->gone;
    a->gone = NULL;
    atomic_store_explicit(&a->has_gone, false, memory_order_relaxed);
    pthread_mutex_unlock(&a->lock);
    while (g) {
        gone *next = g->next;
        fby__slab_unmap(a, &(fby__slab){.data = (uint8_t *)g, .bytes = g->bytes, .pinned = g->pinned});
        g = next;
    }
}

static void drop_idle_locked(fby__account *a)
{
    const fby__slab *slab = &a->idle[--a->n_idle];
    a->idle_bytes -= slab->bytes;
    discharge_locked(a, slab->bytes);
    fby__slab_leave_locked(a, slab);
}

/* Idle slabs go until so many bytes more may be charged, or none is left. */
static void make_room_locked(fby__account *a, uint64_t bytes)
{
    while (a->n_idle && a->charged + bytes > a->limit)
        drop_idle_locked(a);
}

static void drop_spare_values_locked(fby__account *a)
{
    const fby__slab *slab = &a->values.spare[--a->values.n_spare];
    a->values.spare_bytes -= slab->bytes;
    fby__slab_leave_locked(a, slab);
}

static void unmap_all(const fby__account *a, fby__slab *slabs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fby__slab_unmap(a, &slabs[i]);
    fby__free(slabs);
}

void fby__account_retire(fby__account *a)
{
    pthread_mutex_lock(&a->lock);
    a->retired = true;
    atomic_fetch_sub_explicit(&g_promised, a->promised, memory_order_relaxed);
    a->promised = 0;
    fby__slab *idle = a->idle, *pool = a->pool.spare, *values = a->values.spare;
    const size_t n_idle = a->n_idle, n_pool = a->pool.n_spare, n_values = a->values.n_spare;
    discharge_locked(a, a->idle_bytes);
    a->idle = a->pool.spare = a->values.spare = NULL;
    a->n_idle = a->cap_idle = a->values.n_spare = a->values.cap_spare = a->pool.n_spare = 0;
    a->idle_bytes = a->values.spare_bytes = 0;
    pthread_mutex_unlock(&a->lock);
    unmap_all(a, idle, n_idle);
    unmap_all(a, pool, n_pool);
    unmap_all(a, values, n_values);
    fby__account_trim(a);
}

void fby__account_unref(fby__account *a)
{
    /* release: our writes to the account happen before the last holder's free; acquire there pairs with it. */
    if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1)
        return;
    fby__account_retire(a);
    atomic_fetch_sub_explicit(&g_charged, a->charged, memory_order_relaxed);
    (void)pthread_mutex_destroy(&a->lock);
    fby__free(a);
}

void *fby__slab_memory(size_t bytes)
{
    if (fby__alloc_should_fail())
        return NULL;
    if (bytes < FBY__HUGE_BYTES) {
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return p == MAP_FAILED ? NULL : p;
    }
    size_t padded;
    if (!fby__add_checked(bytes, FBY__HUGE_BYTES, &padded))
        return NULL;
    uint8_t *p = mmap(NULL, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    uint8_t *aligned = (uint8_t *)fby__align_up_u64((uintptr_t)p, FBY__HUGE_BYTES);
    if (aligned > p)
        (void)munmap(p, (size_t)(aligned - p));
    size_t tail = (size_t)(p + padded - (aligned + bytes));
    if (tail)
        (void)munmap(aligned + bytes, tail);
    (void)madvise(aligned, bytes, MADV_HUGEPAGE); /* advice: a kernel without huge pages serves small ones */
    return aligned;
}

/*
 * An idle slab of this class or the next larger one: up to a quarter, and up to four times as far as there is slack. A block of which
 * half is needed then takes a whole one's place: memory that is unmapped for it, and mapped and zeroed for the next, costs more than
 * decoding does.
 */
static bool reuse_idle_locked(fby__account *a, size_t bytes, fby__slab *out)
{
    const uint64_t slack = a->slack > a->extra ? a->slack - a->extra : 0;
    const uint64_t more = fby__max_u64(bytes / 4, fby__min_u64(slack, bytes < SIZE_MAX / 4 ? 3 * bytes : 0));
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < a->n_idle; i++) {
        size_t have = a->idle[i].bytes;
        if (have >= bytes && have - bytes <= more && (best == SIZE_MAX || have < a->idle[best].bytes))
            best = i;
    }
    if (best == SIZE_MAX)
        return false;
    *out = a->idle[best];
    a->idle[best] = a->idle[--a->n_idle];
    a->idle_bytes -= out->bytes;
    size_t extra = out->bytes - bytes;
    if (extra > 0 && a->extra + extra > a->slack) {
        discharge_locked(a, extra);
        out->bytes = bytes;
        out->tail_bytes = extra;
        extra = 0;
    }
    out->extra_bytes = extra;
    a->extra += extra;
    return true;
}

/* What was too much of an idle slab goes. */
static void cut_tail(fby__slab *slab)
{
    if (slab->tail_bytes)
        (void)munmap(slab->data + slab->bytes, slab->tail_bytes); /* the end of a valid mapping: cannot fail */
    slab->tail_bytes = 0;
}

bool fby__slab_reserve(fby__account *a, size_t n, fby__slab *out)
{
    const size_t bytes = fby__slab_class_bytes(n);
    bool fits = true;
    pthread_mutex_lock(&a->lock);
    if (!reuse_idle_locked(a, bytes, out)) {
        make_room_locked(a, bytes);
        fits = bytes <= a->limit && a->charged + bytes <= a->limit;
        if (fits) {
            charge_locked(a, bytes);
            *out = (fby__slab){.bytes = bytes};
        }
    }
    pthread_mutex_unlock(&a->lock);
    return fits;
}

fby_status fby__slab_map(fby__account *a, fby__slab *slab, fby_error *err)
{
    if (slab->bytes == 0)
        return FBY_OK;
    fby__account_trim(a);
    cut_tail(slab);
    if (slab->data || (slab->data = fby__slab_memory(slab->bytes)))
        return FBY_OK;
    const size_t bytes = slab->bytes;
    fby__slab_free(a, slab);
    return fby__fail(err, FBY_E_NOMEM, "out of memory: the system refused %zu bytes for sample data", bytes);
}

fby_status fby__slab_alloc_charged(fby__account *a, size_t n, size_t charged, fby__slab *out, fby_error *err)
{
    size_t bytes = fby__slab_class_bytes(n);
    void *p = fby__slab_memory(bytes);
    if (!p)
        return fby__fail(err, FBY_E_NOMEM, "out of memory: the system refused %zu bytes to read into", bytes);
    pthread_mutex_lock(&a->lock);
    discharge_locked(a, charged);
    make_room_locked(a, bytes);
    charge_locked(a, bytes);
    pthread_mutex_unlock(&a->lock);
    fby__account_trim(a);
    *out = (fby__slab){.data = p, .bytes = bytes};
    return FBY_OK;
}

/* The slab is not in use any more. */
static void end_use_locked(fby__account *a, fby__slab *slab)
{
    a->extra -= slab->extra_bytes;
    slab->extra_bytes = 0;
}

/* Keep an idle slab, already charged; false when there is no room on the list. */
static bool keep_idle_locked(fby__account *a, const fby__slab *slab)
{
    if (a->retired || fby__grow((void **)&a->idle, &a->cap_idle, a->n_idle + 1, sizeof *a->idle) != 0)
        return false;
    a->idle[a->n_idle++] = *slab;
    a->idle_bytes += slab->bytes;
    return true;
}

void fby__slab_free(fby__account *a, fby__slab *slab)
{
    if (slab->bytes == 0)
        return;
    pthread_mutex_lock(&a->lock);
    end_use_locked(a, slab);
    if (slab->data && a->charged + slab->tail_bytes <= a->limit) { /* whole again */
        charge_locked(a, slab->tail_bytes);
        slab->bytes += slab->tail_bytes;
        slab->tail_bytes = 0;
    }
    if (!slab->data || slab->tail_bytes || a->charged > a->limit || !keep_idle_locked(a, slab)) {
        discharge_locked(a, slab->bytes);
        slab->bytes += slab->tail_bytes;
        if (slab->data)
            fby__slab_leave_locked(a, slab);
    }
    pthread_mutex_unlock(&a->lock);
    *slab = (fby__slab){0};
}

void fby__slab_detach(fby__account *a, fby__slab *slab)
{
    pthread_mutex_lock(&a->lock);
    end_use_locked(a, slab);
    pthread_mutex_unlock(&a->lock);
}

bool fby__slab_return_in_child(const fby__account *a, fby__slab *slab)
{
    if (a->pid == fby__process_id())
        return false;
    (void)munmap(slab->data, slab->bytes); /* a valid mapping: cannot fail. No device knows this process */
    *slab = (fby__slab){0};
    return true;
}

/* ---- values of batches ---- */

void fby__account_values(fby__account *a, uint64_t bytes)
{
    a->values.room = bytes;
    fby__account_charge(a, (size_t)bytes);
}

/* What so many bytes more would be charged beyond the room. */
static uint64_t values_beyond_locked(const fby__account *a, uint64_t bytes)
{
    const uint64_t used = a->values.room > a->values.in_use ? a->values.room - a->values.in_use : 0;
    return bytes > used ? bytes - used : 0;
}

static bool use_values_locked(fby__account *a, uint64_t bytes)
{
    const uint64_t more = values_beyond_locked(a, bytes);
    make_room_locked(a, more);
    if (more > 0 && (more > a->limit || a->charged > a->limit - more))
        return false;
    charge_locked(a, more);
    a->values.over += more;
    a->values.in_use += bytes;
    return true;
}

static void end_values_locked(fby__account *a, uint64_t bytes)
{
    a->values.in_use -= bytes;
    const uint64_t over = a->values.in_use > a->values.room ? a->values.in_use - a->values.room : 0;
    discharge_locked(a, a->values.over - over);
    a->values.over = over;
}

bool fby__values_fit(fby__account *a, uint64_t bytes)
{
    pthread_mutex_lock(&a->lock);
    const uint64_t more = values_beyond_locked(a, bytes);
    const bool fits = more == 0 || (more <= a->limit && a->charged - a->idle_bytes <= a->limit - more);
    pthread_mutex_unlock(&a->lock);
    return fits;
}

uint64_t fby__values_limit_for(fby__account *a, uint64_t bytes)
{
    pthread_mutex_lock(&a->lock);
    const uint64_t limit = a->charged - a->idle_bytes + values_beyond_locked(a, bytes);
    pthread_mutex_unlock(&a->lock);
    return limit;
}

/* The smallest spare that holds n bytes, and not much more than twice as many. */
static bool reuse_spare_values_locked(fby__account *a, size_t n, fby__slab *out)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < a->values.n_spare; i++) {
        const size_t have = a->values.spare[i].bytes;
        if (have >= n && have / 2 <= n + FBY__PAGE_BYTES && (best == SIZE_MAX || have < a->values.spare[best].bytes))
            best = i;
    }
    if (best == SIZE_MAX)
        return false;
    *out = a->values.spare[best];
    a->values.spare[best] = a->values.spare[--a->values.n_spare];
    a->values.spare_bytes -= out->bytes;
    return true;
}

/* One that was used before, in use again. */
static bool reuse_values_locked(fby__account *a, size_t n, size_t bytes, fby__slab *out)
{
    if (!reuse_spare_values_locked(a, n, out)) {
        if (!reuse_idle_locked(a, bytes, out))
            return false;
        end_use_locked(a, out);
        discharge_locked(a, out->bytes);
    }
    if (use_values_locked(a, out->bytes))
        return true;
    out->bytes += out->tail_bytes;
    fby__slab_leave_locked(a, out);
    *out = (fby__slab){0};
    return false;
}

fby__grant fby__values_slab_get(fby__account *a, size_t n, bool exact, fby__slab *out, fby_error *err)
{
    /* An eighth more than is needed: the next batches, a little larger or smaller, can use it too. */
    const size_t least = fby__slab_class_bytes(n), ample = a->values.room && !exact ? fby__slab_class_bytes(n + n / 8) : least;
    *out = (fby__slab){0};
    pthread_mutex_lock(&a->lock);
    bool fits = !exact && reuse_values_locked(a, n, ample, out);
    if (!fits) {
        while (a->values.n_spare && a->values.in_use + a->values.spare_bytes + ample > a->values.room)
            drop_spare_values_locked(a);
        out->bytes = use_values_locked(a, ample) ? ample : use_values_locked(a, least) ? least : 0;
        fits = out->bytes > 0;
    }
    while (fits && a->values.n_spare && a->values.in_use + a->values.spare_bytes > a->values.room)
        drop_spare_values_locked(a);
    pthread_mutex_unlock(&a->lock);
    fby__account_trim(a);
    if (!fits)
        return FBY__NO_ROOM;
    cut_tail(out);
    if (out->data || (out->data = fby__slab_memory(out->bytes)))
        return FBY__GRANTED;
    pthread_mutex_lock(&a->lock);
    end_values_locked(a, out->bytes);
    pthread_mutex_unlock(&a->lock);
    (void)fby__fail(err, FBY_E_NOMEM, "out of memory: the system refused %zu bytes for the values of a batch", out->bytes);
    *out = (fby__slab){0};
    return FBY__GRANT_FAILED;
}

/* Keep a slab that is not in use any more, in the room or idle; else it is the caller's to unmap. */
static bool keep_values_locked(fby__account *a, const fby__slab *slab)
{
    if (a->retired)
        return false;
    if (a->values.in_use + a->values.spare_bytes + slab->bytes <= a->values.room &&
        fby__grow((void **)&a->values.spare, &a->values.cap_spare, a->values.n_spare + 1, sizeof *slab) == 0) {
        a->values.spare[a->values.n_spare++] = *slab;
        a->values.spare_bytes += slab->bytes;
        return true;
    }
    if (a->charged + slab->bytes > a->limit || !keep_idle_locked(a, slab))
        return false;
    charge_locked(a, slab->bytes);
    return true;
}

void fby__values_slab_drop(fby__account *a, fby__slab *slab)
{
    if (!slab->data)
        return;
    pthread_mutex_lock(&a->lock);
    end_values_locked(a, slab->bytes);
    if (!keep_values_locked(a, slab))
        fby__slab_leave_locked(a, slab);
    pthread_mutex_unlock(&a->lock);
    *slab = (fby__slab){0};
}

void fby__values_slab_hand_out(fby__account *a, const fby__slab *slab)
{
    if (!slab->data)
        return;
    pthread_mutex_lock(&a->lock);
    end_values_locked(a, slab->bytes);
    a->out_bytes += slab->bytes;
    pthread_mutex_unlock(&a->lock);
}

void fby__values_slab_return(fby__account *a, fby__slab *slab)
{
    if (!slab->data || fby__slab_return_in_child(a, slab))
        return;
    pthread_mutex_lock(&a->lock);
    a->out_bytes -= slab->bytes;
    const bool kept = keep_values_locked(a, slab);
    pthread_mutex_unlock(&a->lock);
    if (!kept)
        fby__slab_unmap(a, slab);
    *slab = (fby__slab){0};
}

void fby__account_charge(fby__account *a, size_t bytes)
{
    pthread_mutex_lock(&a->lock);
    make_room_locked(a, bytes);
    charge_locked(a, bytes);
    pthread_mutex_unlock(&a->lock);
    fby__account_trim(a);
}

void fby__account_charge_again(fby__account *a, size_t bytes)
{
    pthread_mutex_lock(&a->lock);
    charge_locked(a, bytes);
    pthread_mutex_unlock(&a->lock);
}

bool fby__account_reserve(fby__account *a, size_t bytes)
{
    pthread_mutex_lock(&a->lock);
    make_room_locked(a, bytes);
    const bool fits = bytes <= a->limit && a->charged <= a->limit - bytes;
    if (fits)
        charge_locked(a, bytes);
    pthread_mutex_unlock(&a->lock);
    return fits;
}

bool fby__account_try_charge(fby__account *a, size_t bytes)
{
    const bool fits = fby__account_reserve(a, bytes);
    fby__account_trim(a);
    return fits;
}

void fby__account_discharge(fby__account *a, size_t bytes)
{
    pthread_mutex_lock(&a->lock);
    discharge_locked(a, bytes);
    pthread_mutex_unlock(&a->lock);
}

void fby__account_stats_of(fby__account *a, fby__account_stats *out)
{
    pthread_mutex_lock(&a->lock);
    *out = (fby__account_stats){.limit_bytes = a->limit,
                                .charged_bytes = a->charged,
                                .peak_bytes = a->peak,
                                .idle_bytes = a->idle_bytes,
                                .out_bytes = a->out_bytes,
                                .out_count = a->out_count,
                                .forced_bytes = a->forced};
    pthread_mutex_unlock(&a->lock);
}
