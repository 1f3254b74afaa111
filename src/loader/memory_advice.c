/* What would fit into a budget that is too small: a smaller superbatch, fewer threads and streams, smaller batches, by memory.c's sums. */
#include "loader/internal.h"

#include "base/cancel.h"
#include "base/checked.h"

#include <stdio.h>
#include <string.h>

#define MIB(x) ((double)(x) / (1u << 20))

/* A loader that is being refused, with other options. */
typedef struct trial {
    fby_loader *l;
    fby_loader_opts opts;
    uint64_t limit;
    struct fby__weights *w;
} trial;

/* What is tried needs at least so many bytes, with a superbatch of so many samples; UINT64_MAX: it cannot be, or cancelled. */
static uint64_t trial_minimum(trial *t, uint64_t samples)
{
    fby_loader *l = t->l;
    fby__plan *own = l->plan;
    const fby_status status = fby__cancelled() ? FBY_E_CANCELLED : fby__loader_plan(l, &t->opts, samples, &l->plan, NULL);
    if (status != FBY_OK) {
        l->plan = own;
        l->sources.at[0].no_memory |= status == FBY_E_NOMEM;
        return UINT64_MAX;
    }
    for (uint32_t i = 0; i < l->sources.n; i++)
        l->sources.at[i].densest_rows = 0;
    l->memory.least_flight_bytes = fby__loader_flight_bytes(l, 2);
    l->memory.least_values_bytes = fby__loader_least_values_bytes(l);
    const uint64_t minimum = fby__loader_minimum(l, l->plan, t->w);
    fby__plan_destroy(l->plan);
    l->plan = own;
    return minimum;
}

static bool trial_fits(trial *t, uint64_t samples) { return trial_minimum(t, samples) <= t->limit; }

/* The largest superbatch, in samples, whose minimum is within the limit; 0 when none is: the smallest is tried first. Full has none of its own. */
static uint64_t largest_superbatch(trial *t)
{
    const fby_shuffle_kind asked = t->opts.shuffle;
    if (asked == FBY_SHUFFLE_BLOCK || asked == FBY_SHUFFLE_NONE)
        return 0;
    t->opts.shuffle = FBY_SHUFFLE_SUPERBATCH;
    uint64_t lo = trial_fits(t, 1), hi = lo ? fby__loader_samples(&t->l->sources) : 0;
    for (int step = 0; step < 40 && lo < hi; step++) {
        const uint64_t mid = lo + (hi - lo + 1) / 2;
        if (trial_fits(t, mid))
            lo = mid;
        else
            hi = mid - 1;
    }
    t->opts.shuffle = asked;
    return lo;
}

/* The largest number of threads with which the plan fits as it is; 0 when it does not with one. */
static int most_threads(trial *t)
{
    fby_loader *l = t->l;
    const int asked = l->config.n_threads;
    int lo = 0, hi = asked - 1;
    while (lo < hi) {
        l->config.n_threads = lo + (hi - lo + 1) / 2;
        if (trial_fits(t, l->config.superbatch_samples))
            lo = l->config.n_threads;
        else
            hi = l->config.n_threads - 1;
    }
    l->config.n_threads = asked;
    return lo;
}

/* The largest superbatch that fits; UINT64_MAX where the order has none and fits; 0: it does not. */
static uint64_t fitting_superbatch(trial *t)
{
    const uint64_t largest = largest_superbatch(t);
    return largest ? largest : trial_fits(t, t->l->config.superbatch_samples) ? UINT64_MAX : 0;
}

/* What comes before the advice to lower the superbatch: one permutation of everything does not have any. */
static const char *of_full(const trial *t) { return t->opts.shuffle == FBY_SHUFFLE_FULL ? "choose shuffle superbatch and " : ""; }

/* The floor on files goes: how that is said. */
static void leave_diversity(trial *t, char *out, size_t n)
{
    if (t->opts.diversity_files)
        (void)snprintf(out, n, "leave out diversity_files (now %u), which keeps blocks of so many files in memory",
                       (unsigned)t->opts.diversity_files);
    t->opts.diversity_files = 0;
}

/* Where no superbatch fits, nor fewer threads: one thread, then one stream a rank as well, then smaller batches, until something does. */
static void advise_all(trial *t, char *out, size_t n)
{
    fby_loader *l = t->l;
    char threads[24] = "", streams[32] = "", batch[48] = "", superbatch[64] = "", diversity[120] = "";
    leave_diversity(t, diversity, sizeof diversity);
    if (l->config.n_threads > 1)
        (void)snprintf(threads, sizeof threads, ", threads to 1");
    l->config.n_threads = 1;
    uint64_t largest = fitting_superbatch(t);
    if (!largest && fby__plan_own_streams(l->plan) > 1) {
        t->opts.streams = fby__plan_world_size(l->plan);
        (void)snprintf(streams, sizeof streams, ", streams to %u", t->opts.streams);
        largest = fitting_superbatch(t);
    }
    l->config.batch_size =
        fby__min_u64(l->config.batch_size, l->memory.batch_samples); /* there are no more, and a smaller one changes nothing */
    while (!largest && l->config.batch_size > 1 && !t->opts.batch_elements) {
        l->config.batch_size /= 2;
        l->memory.batch_samples = fby__min_u64(l->memory.batch_samples, l->config.batch_size);
        l->memory.dense_batch_bytes = fby__pool_slab_bytes(fby__batch_dense_bytes(l->outputs.shape, l->memory.batch_samples));
        (void)snprintf(batch, sizeof batch, ", batch_size to %llu", (unsigned long long)l->config.batch_size);
        largest = fitting_superbatch(t);
    }
    if (largest && largest != UINT64_MAX)
        (void)snprintf(superbatch, sizeof superbatch, ", superbatch to at most %llu samples", (unsigned long long)largest);
    if (largest)
        (void)snprintf(out, n, ", or %s%s%slower, together%s%s%s%s", diversity, *diversity ? ", and " : "", *superbatch ? of_full(t) : "",
                       threads, streams, batch, superbatch);
    else
        (void)snprintf(out, n,
                       "; one thread, one stream and the smallest batches still need more: read fewer columns, or write files with "
                       "smaller row groups or chunks, of which two are in memory at least");
}

fby_status fby__loader_refuse_budget(fby_loader *l, const fby_loader_opts *opts, uint64_t limit, uint64_t minimum, struct fby__weights *w,
                                     fby_error *err)
{
    const uint64_t anew = fby__loader_anew_bytes(l->plan);
    if (anew > minimum / 2)
        return fby__fail(
            err, FBY_E_BUDGET,
            "a memory budget of %llu bytes (%.1f MiB) is too small: this plan needs at least %llu bytes (%.1f MiB), of which "
            "%.1f MiB are the orders of sources that an epoch begins anew, again and again. Give small sources smaller weights, "
            "end epochs sooner by stop, or raise memory",
            (unsigned long long)limit, MIB(limit), (unsigned long long)minimum, MIB(minimum), MIB(anew));
    if (l->config.giver.enough) {
        const uint64_t enough = fby__memory_enough(l->config.giver, minimum, fby__loader_sample_bytes(l));
        return fby__fail(
            err, FBY_E_BUDGET,
            "a memory budget of %llu bytes (%.1f MiB) is too small: this plan needs at least %llu bytes (%.1f MiB): raise memory to "
            "%llu bytes (%.1f MiB)",
            (unsigned long long)limit, MIB(limit), (unsigned long long)minimum, MIB(minimum), (unsigned long long)enough, MIB(enough));
    }
    trial t = {.l = l, .opts = *opts, .limit = limit, .w = w};
    char advice[480] = "", diversity[120] = "";
    int used = 0;
    const uint64_t asked = l->config.superbatch_samples, samples = largest_superbatch(&t);
    if (samples && opts->shuffle == FBY_SHUFFLE_FULL)
        used = snprintf(advice, sizeof advice, ", or %slower superbatch to at most %llu samples", of_full(&t), (unsigned long long)samples);
    else if (samples)
        used = snprintf(advice, sizeof advice, ", or lower superbatch to at most %llu samples (now %llu)", (unsigned long long)samples,
                        (unsigned long long)fby__min_u64(asked, fby__loader_samples(&l->sources)));
    const int threads = most_threads(&t);
    if (threads)
        (void)snprintf(advice + used, sizeof advice - (size_t)used, ", or lower threads to at most %d (now %d)", threads,
                       l->config.n_threads);
    if (samples || threads)
        used += (int)strlen(advice + used);
    else
        advise_all(&t, advice, sizeof advice);
    if (opts->diversity_files && used) {
        leave_diversity(&t, diversity, sizeof diversity);
        const uint64_t largest = largest_superbatch(&t);
        if (largest > samples && largest < fby__min_u64(asked, fby__loader_samples(&l->sources)))
            (void)snprintf(advice + used, sizeof advice - (size_t)used, ", or %s, and lower superbatch to at most %llu samples", diversity,
                           (unsigned long long)largest);
        else if (largest > samples)
            (void)snprintf(advice + used, sizeof advice - (size_t)used, ", or %s", diversity);
    }
    return fby__fail(err, FBY_E_BUDGET,
                     "a memory budget of %llu bytes (%.1f MiB) is too small: this plan needs at least %llu "
                     "bytes (%.1f MiB). Raise memory%s",
                     (unsigned long long)limit, MIB(limit), (unsigned long long)minimum, MIB(minimum), advice);
}
