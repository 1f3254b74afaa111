/*
 * Diversity: a superbatch of as many samples, from more files.
 *
 * Every block is cut into slices of at most s consecutive samples, and the order is one of slices, no longer of blocks. What a batch can
 * have of files then depends on s alone, and s follows from what was asked for.
 *
 *   blocks            |       b0      |       b1      |   b2  |
 *   slices            | 0 | 1 | 2 | 3 | 0 | 1 | 2 | 3 | 0 | 1 |
 *   order             one slice of every block after the other: slice j of r stands at a random position of the j-th r-th of the epoch,
 *                     and which slice is the first is drawn for every block and epoch
 *   phases            of equal size, none above the limit, cut between slices; neighbouring slices that meet in one are read at once
 *
 * How many files a batch has. A superbatch has K = L / s slices, L samples in it, and file f with a share w_f of all samples has K w_f
 * of them, in the mean. Its slices are spread, so a Poisson law of that mean is on the safe side. Each live slice gives the batch of G
 * samples c = G / K of them in the mean. So f is in the batch with chance 1 - exp(-K w_f (1 - exp(-c))), which goes to the uniform
 * shuffle's 1 - exp(-G w_f) as s goes to 0. The floor is asked of the sum minus four standard deviations.
 */
#include "plan/plan_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/random.h"
#include "base/sort.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define MAX_READS 64 /* of the largest block: more and the disk does little else */
#define SURE 4.0     /* standard deviations: less than one batch in ten thousand has fewer files */

uint64_t fby__plan_slices_of(const fby__plan *plan, uint64_t samples)
{
    return plan->slice_samples ? fby__div_up_u64(samples, plan->slice_samples) : samples != 0;
}

/* ---- how large a slice may be ---- */

/* Files of a typical part, or all of them. */
typedef struct shares {
    uint64_t *samples; /* owned */
    uint32_t n;
    double total;
} shares;

/* With parts, as many files as the smallest part has, from small to large as all files are. */
static fby_status list_shares(const fby__plan *plan, shares *out, fby_error *err)
{
    uint64_t *samples = fby__calloc(plan->n_files, sizeof *samples);
    if (!samples)
        return fby__fail_nomem(err, "the files of a plan");
    for (uint32_t f = 0; f < plan->n_files; f++)
        samples[f] = plan->files[f].samples;
    const fby_status sorted = fby__sort(samples, plan->n_files, sizeof *samples, fby__compare_u64, err);
    if (sorted != FBY_OK) {
        fby__free(samples);
        return sorted;
    }
    uint32_t n = plan->n_files, first, end;
    for (uint32_t part = 0; plan->has_parts && part < plan->n_parts; part++) {
        fby__plan_part_range(plan, part, &first, &end);
        n = end - first < n ? end - first : n;
    }
    *out = (shares){.samples = samples, .n = n};
    for (uint32_t i = 0; i < n; i++) {
        samples[i] = samples[(uint64_t)i * plan->n_files / n]; /* at or after i: not yet overwritten */
        out->total += (double)samples[i];
    }
    return FBY_OK;
}

/*
 * Files that a batch is sure to have when `live` samples are mixed, in slices of s; 0 = every sample by itself: a uniform shuffle.
 *
 * The variance is that of independent files less what is known of their sum, K slices and G samples in all: as of balls thrown into cells,
 * to which it comes down where slices are few, and where they are small.
 */
static double files_in_batch(const fby__plan *plan, const shares *w, double live, double s)
{
    const double g = (double)plan->global_batch, k = s > 0 ? live / s : 0, c = s > 0 ? g / k : 0, hit = -expm1(-c);
    double mean = 0, variance = 0, missed = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const double share = (double)w->samples[i] / w->total;
        const double p = s > 0 ? -expm1(-k * share * hit) : -expm1(g * log1p(-fmin(share, 1 - 1e-12)));
        mean += p;
        variance += p * (1 - p);
        missed += share * (1 - p);
    }
    variance -= missed * missed * (s > 0 ? k * (hit * hit + c * exp(-2 * c)) : g);
    return mean - SURE * sqrt(fmax(0, variance));
}

/* Samples of a superbatch: the phases of a stream are of equal size. */
static double live_samples(const fby__plan *plan, const shares *w, uint64_t s)
{
    const double length = fmax(1, w->total / plan->streams);
    return plan->streams * length / ceil(length / (double)fby__plan_phase_aim(plan, s));
}

static fby_status slice_for(fby__plan *plan, const shares *w, uint64_t least, uint64_t most, uint32_t wanted, fby_error *err)
{
    const double sure = files_in_batch(plan, w, live_samples(plan, w, least), (double)least);
    if (sure < wanted)
        return fby__fail(err, FBY_E_ARG,
                         "%" PRIu32 " distinct files in every batch of %" PRIu64
                         " samples would need every block read more than %d times with "
                         "this superbatch: choose at most %.0f files, or a larger superbatch",
                         wanted, plan->global_batch, MAX_READS, fmax(1, floor(sure)));
    while (least < most) {
        const uint64_t middle = least + (most - least + 1) / 2;
        if (files_in_batch(plan, w, live_samples(plan, w, middle), (double)middle) >= wanted)
            least = middle;
        else
            most = middle - 1;
    }
    plan->slice_samples = least;
    return FBY_OK;
}

/* Can a batch have as many files at all? */
static fby_status check_files(const fby__plan *plan, const shares *w, uint32_t wanted, fby_error *err)
{
    if (wanted > w->n)
        return fby__fail(err, FBY_E_ARG, "%" PRIu32 " distinct files in every batch were asked for, but %s %" PRIu32 " files with samples",
                         wanted, plan->has_parts ? "the smallest part has" : "there are only", w->n);
    const double sure = files_in_batch(plan, w, 1, 0);
    if (sure < wanted)
        return fby__fail(err, FBY_E_ARG,
                         "%" PRIu32 " distinct files in every batch of %" PRIu64
                         " samples were asked for, but even a uniform shuffle of all "
                         "samples is sure of no more than %.0f: choose at most that, or a larger batch",
                         wanted, plan->global_batch, fmax(1, floor(sure)));
    return FBY_OK;
}

fby_status fby__plan_diversify(fby__plan *plan, const fby__plan_opts *o, fby_error *err)
{
    const uint32_t wanted = o->diversity_files, batches = o->max_superbatch_batches;
    if (!wanted && !batches)
        return FBY_OK;
    if (plan->shuffle == FBY__SHUFFLE_BLOCK || plan->shuffle == FBY__SHUFFLE_NONE)
        return fby__fail(err, FBY_E_ARG,
                         "distinct files in a batch and batches from a superbatch can be chosen with shuffle 'superbatch' alone");
    if (batches == 1)
        return fby__fail(err, FBY_E_ARG,
                         "at most one batch from a superbatch cannot be: a batch lies across the border of two; choose at least 2");
    shares w = {0};
    fby_status status = FBY_OK;
    if (wanted) {
        if (!plan->files)
            return fby__fail(err, FBY_E_ARG, "distinct files in a batch were asked for, but this data set has none");
        FBY__TRY(list_shares(plan, &w, err));
        status = check_files(plan, &w, wanted, err);
    }
    if (status == FBY_OK && plan->shuffle != FBY__SHUFFLE_FULL && !plan->whole_streams) { /* else everything is mixed with everything */
        if (batches && plan->stride <= (FBY__PLAN_MAX_SAMPLES - 1) / (batches - 1))
            plan->phase.limit = fby__min_u64(plan->phase.limit, (batches - 1) * plan->stride + 1); /* then it lies in `batches` of them */
        const uint64_t most = fby__min_u64(plan->largest, fby__max_u64(1, plan->phase.limit / 2));
        const uint64_t least = fby__min_u64(most, fby__div_up_u64(plan->largest, MAX_READS));
        plan->slice_samples = most;
        if (wanted)
            status = slice_for(plan, &w, least, most, wanted, err);
    }
    fby__free(w.samples);
    return status;
}

/* ---- the order of slices ---- */

typedef struct ordered {
    uint64_t position; /* in the epoch, of 2^64 */
    fby__plan_item slice;
} ordered;
_Static_assert(sizeof(ordered) <= FBY__PLAN_ORDERED_BYTES, "what is counted for a slice");

static int compare_positions(const void *pa, const void *pb)
{
    const ordered *a = pa, *b = pb;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    if (a->slice.block != b->slice.block)
        return a->slice.block < b->slice.block ? -1 : 1;
    return a->slice.lo < b->slice.lo ? -1 : a->slice.lo > b->slice.lo;
}

bool fby__epoch_order_slices(const fby__epoch *epoch, uint64_t key, fby__plan_item *out, uint32_t n)
{
    const fby__plan *plan = epoch->plan;
    ordered *all = fby__calloc(n, sizeof *all);
    if (!all)
        return false;
    uint32_t at = 0;
    for (uint32_t b = 0; b < plan->n_blocks; b++) {
        if (fby__cancelled_at(b)) {
            fby__free(all);
            return false;
        }
        const uint64_t count = epoch->counts[b], r = fby__plan_slices_of(plan, count);
        fby__random random = {.key = fby__random_u64(key, b, 0)};
        const uint64_t first = r ? fby__random_below(&random, r) : 0;
        for (uint64_t j = 0; j < r; j++) {
            const uint64_t i = (first + j) % r;
            all[at++] = (ordered){
                .position = (uint64_t)((((unsigned __int128)j << 64) | fby__random_next(&random)) / r),
                .slice = {.block = b,
                          .lo = (uint64_t)((unsigned __int128)i * count / r),
                          .hi = (uint64_t)((unsigned __int128)(i + 1) * count / r)},
            };
        }
    }
    const bool sorted = fby__sort(all, n, sizeof *all, compare_positions, NULL) == FBY_OK;
    for (uint32_t i = 0; sorted && i < n; i++)
        out[i] = all[i].slice;
    fby__free(all);
    return sorted;
}

static int compare_items(const void *pa, const void *pb)
{
    const fby__plan_item *a = pa, *b = pb;
    if (a->block != b->block)
        return a->block < b->block ? -1 : 1;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

bool fby__plan_merge_items(fby__plan_item *items, uint32_t *io_n)
{
    uint32_t last = 0;
    if (fby__sort(items, *io_n, sizeof *items, compare_items, NULL) != FBY_OK)
        return false;
    for (uint32_t i = 1; i < *io_n; i++) {
        if (items[i].block == items[last].block && items[i].lo == items[last].hi)
            items[last].hi = items[i].hi;
        else
            items[++last] = items[i];
    }
    *io_n = last + 1;
    return true;
}
