/*
 * What a budget has beyond the minimum, and who gets it: one sum, from which each in turn takes what it wants of what those before it left.
 *
 *   store    decoded chunks that reach beyond their block   a quarter at most
 *   depth    more than two batches in flight                half, or all that the others leave once they have what they want
 *   jobs     more than two blocks that are loaded at once   half, and an eighth of the budget: enough to hide the disk
 *   values   more lists and strings than one batch has      a quarter, beside all blocks where the budget holds them; all, where the budget
 *                                                           was made for everything
 *   rest     blocks that are kept for later, slabs that are larger than need be, and what takes more than metadata say
 *
 * So the sum of all is the budget, and what takes more than metadata say is given room, or refused with the budget whose rest has it.
 */
#include "loader/internal.h"

#include "base/checked.h"

#include <assert.h>
#include <math.h>

static uint64_t allot(uint64_t *left, uint64_t wanted, uint64_t most)
{
    const uint64_t bytes = fby__min_u64(wanted, most);
    *left -= bytes;
    return bytes;
}

static fby__shares shares_of(const fby__loader_memory *m, const fby__loader_config *config, uint64_t budget)
{
    uint64_t left = budget - fby__min_u64(budget, m->minimum_bytes);
    fby__shares s;
    s.store_bytes = allot(&left, m->wanted.store_bytes, left / 4);
    const uint64_t others = m->wanted.jobs_bytes + m->wanted.values_bytes + m->wanted.rest_bytes;
    s.depth_bytes = allot(&left, m->wanted.depth_bytes, fby__max_u64(left / 2, left - fby__min_u64(left, others)));
    s.jobs_bytes = allot(&left, m->wanted.jobs_bytes, fby__min_u64(left / 2, budget / 8));
    const uint64_t blocks = left < m->wanted.rest_bytes ? 0 : m->wanted.rest_bytes;
    s.values_bytes = allot(&left, m->wanted.values_bytes, (left - blocks) / (config->asked.memory_all ? 1 : 4));
    s.rest_bytes = left;
    return s;
}

/* Bytes of batches in flight beyond two. */
static uint64_t depth_bytes(const fby__loader_memory *m, uint32_t depth)
{
    return (depth - 2) * m->dense_batch_bytes + m->flight_bytes - m->least_flight_bytes;
}

static double live_rows(const fby__loader_source *in)
{
    const fby__block_costs *all = &in->costs;
    return fmin((double)(in->live_bytes + 2 * all->largest) * (double)all->rows / (double)fby__max_u64(all->bytes, 1), (double)all->rows);
}

/* So much goes to batches in flight, and so much is left. */
static bool gives(const fby__loader_memory *m, const fby__loader_config *config, uint64_t budget, uint64_t depth, uint64_t rest)
{
    const fby__shares s = shares_of(m, config, budget);
    return s.depth_bytes >= depth && s.rest_bytes >= rest;
}

static fby__delivery_fit fits(const fby__loader_memory *m, uint64_t budget, const fby__shares *s)
{
    return fby__preferred_delivery->fits ? fby__preferred_delivery->fits(m, budget, s) : (fby__delivery_fit){0};
}

/* All batches are in flight that were asked for, and there is room for two superbatches: of blocks, or of batches where rows go straight to them. */
static bool is_smooth(const fby__loader_memory *m, const fby__loader_config *config, uint64_t budget, uint64_t depth, uint64_t rest)
{
    const fby__shares s = shares_of(m, config, budget);
    const uint64_t window = fits(m, budget, &s).window;
    return gives(m, config, budget, depth, rest) && (window == 0 || window >= m->needs.smooth);
}

/* Is a budget enough? `depth` and `rest`: its bytes for batches in flight, and those that are to be left. */
typedef bool (*does_fn)(const fby__loader_memory *m, const fby__loader_config *config, uint64_t budget, uint64_t depth, uint64_t rest);

/* A budget from `lo` up that does, and one byte less does not; all do above some. */
static uint64_t least_budget(const fby__loader_memory *m, const fby__loader_config *config, does_fn does, uint64_t lo, uint64_t depth,
                             uint64_t rest)
{
    uint64_t hi = lo = fby__max_u64(lo, 1);
    for (; hi < (uint64_t)1 << 62 && !does(m, config, hi, depth, rest); hi *= 2)
        lo = hi + 1;
    while (lo < hi) {
        const uint64_t mid = lo + (hi - lo) / 2;
        if (does(m, config, mid, depth, rest))
            hi = mid;
        else
            lo = mid + 1;
    }
    return hi;
}

/* Beside the live superbatch and two blocks, room for the next one; beside all blocks there is no more to load. */
uint64_t fby__loader_smooth_budget(const fby__loader_memory *m, const fby__loader_config *config, uint64_t least)
{
    const uint64_t next = fby__min_u64(m->live_bytes, m->wanted.rest_bytes);
    return least_budget(m, config, is_smooth, least, m->wanted.depth_bytes, next);
}

void fby__loader_want(fby_loader *l)
{
    fby__loader_memory *m = &l->memory;
    const uint64_t listed = fby__loader_listed_values_bytes(l), job = fby__loader_job_bytes(m);
    for (uint32_t i = 0; i < l->sources.n; i++)
        l->sources.at[i].live_rows = live_rows(&l->sources.at[i]);
    m->wanted = (fby__shares){.store_bytes = m->shared_bytes,
                              .depth_bytes = depth_bytes(m, l->config.depth),
                              .jobs_bytes = (uint64_t)l->config.n_threads * 2 * job,
                              .values_bytes = listed - fby__min_u64(listed, m->least_values_bytes),
                              .rest_bytes = fby__loader_all_kept_bytes(l) - m->minimum_bytes};
    if (fby__preferred_delivery->needs)
        m->needs = fby__preferred_delivery->needs(l);
    m->smooth_bytes = fby__loader_smooth_budget(m, &l->config, m->minimum_bytes);
    assert(m->smooth_bytes <= fby__max_u64(m->everything_bytes, m->minimum_bytes));
}

void fby__loader_share(fby_loader *l)
{
    fby__loader_memory *m = &l->memory;
    const uint64_t job = fby__loader_job_bytes(m);
    m->shares = shares_of(m, &l->config, m->budget_bytes);
    const uint64_t next = m->budget_bytes > m->smooth_bytes ? fby__loader_smooth_budget(m, &l->config, m->budget_bytes) : 0;
    m->overlap_bytes = next > m->budget_bytes ? next : m->smooth_bytes;
    m->fit = fits(m, m->budget_bytes, &m->shares);
    while (l->config.depth > 2 && depth_bytes(m, l->config.depth) > m->shares.depth_bytes) {
        l->config.depth--;
        m->flight_bytes = fby__loader_flight_bytes(l, l->config.depth);
    }
    m->max_jobs = 2 + (uint32_t)(m->shares.jobs_bytes / fby__max_u64(job, 1));
    m->shares.rest_bytes += m->shares.depth_bytes - depth_bytes(m, l->config.depth) + m->shares.jobs_bytes - (m->max_jobs - 2) * job;
    m->max_batches = l->config.depth;
    l->engine.delivery = &fby__gathered_delivery;
    if (m->fit.window) {
        l->engine.delivery = fby__preferred_delivery;
        m->max_batches = (uint32_t)m->fit.window;
        m->max_jobs = (uint32_t)m->fit.jobs;
        l->config.depth = (uint32_t)fby__max_u64(l->config.depth, m->fit.ready);
    }
}

/* By how much the minimum would be larger, had metadata said of every block what those that outgrew it took for each row. */
static uint64_t grown_bytes(const fby__loader_sources *sources, const fby__loader_memory *m)
{
    double bytes = 0;
    for (uint32_t i = 0; i < sources->n; i++) {
        const fby__loader_source *in = &sources->at[i];
        const double beyond = atomic_load_explicit(&in->grown_row_bytes, memory_order_relaxed);
        bytes += beyond * (in->live_rows + FBY__MINIMUM_VALUES * (double)m->batch_samples);
    }
    return bytes < 0x1p62 ? (uint64_t)bytes : (uint64_t)1 << 62;
}

uint64_t fby__loader_budget_for(const fby_loader *l, uint64_t least)
{
    const uint64_t budget = l->memory.budget_bytes, rest = l->memory.shares.rest_bytes + least - fby__min_u64(least, budget);
    const uint64_t would_do = l->memory.fit.window ? fby__max_u64(least, budget) + l->memory.fit.more_bytes
                                                   : least_budget(&l->memory, &l->config, gives, fby__max_u64(least, budget), 0,
                                                                  fby__max_u64(rest, grown_bytes(&l->sources, &l->memory)));
    return fby__memory_enough(l->config.giver, fby__account_enough(would_do), fby__loader_sample_bytes(l));
}
