/* Some of the samples by their numbers: the first ones, a draw, or those that are listed. */
#include "samples/values.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/random.h"
#include "base/sort.h"

/* ---- limits ---- */

/* D. E. Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S: each of `left` samples is taken with chance wanted / left. */
static fby_status choose_some(fby__sample_counts *c, const fby_samples *s, uint64_t wanted, uint64_t seed, fby_error *err)
{
    fby__random draw = {.key = seed, .stream = 0x4c494d4954}; /* "LIMIT" */
    uint64_t left = fby_samples_count(s);
    for (uint32_t b = 0; b < fby__dataset_block_count(s->base->ds); b++) {
        uint64_t n = fby__samples_of_block(s, b);
        FBY__TRY(fby__cancel_check(err));
        for (uint64_t i = 0; i < n && wanted > 0; i++, left--) {
            if (fby__random_below(&draw, left) >= wanted)
                continue;
            FBY__TRY(fby__sample_counts_put(c, b, i, 1, err));
            wanted--;
        }
        if (n)
            FBY__TRY(fby__sample_counts_close(c, b, err));
    }
    return FBY_OK;
}

/* In the block where they end, only those that are chosen are counted: the rest of it may be far larger. */
static fby_status choose_first(fby__sample_counts *c, const fby_samples *s, uint64_t wanted, fby_error *err)
{
    for (uint32_t b = 0; b < fby__dataset_block_count(s->base->ds); b++) {
        const uint64_t n = fby__min_u64(fby__samples_of_block(s, b), wanted);
        const bool some = s->choice && s->choice->blocks[b].some;
        FBY__TRY(fby__cancel_check(err));
        wanted -= n;
        if (n == fby__samples_of_block(s, b) && !some)
            continue; /* all of it, as it was made */
        uint16_t *counts = fby__malloc((size_t)n * sizeof *counts);
        if (!counts)
            return fby__fail_nomem(err, "the chosen samples");
        for (uint64_t i = 0; i < n; i++)
            counts[i] = 1;
        fby_status status = fby__choice_set(c->choice, s, b, counts, n, err);
        fby__free(counts);
        FBY__TRY(status);
    }
    return FBY_OK;
}

fby_status fby_samples_limit(const fby_samples *samples, uint64_t n, bool random, uint64_t seed, fby_samples **out, fby_error *err)
{
    fby__sample_counts counts;
    fby__account_scope scope;
    if (n == 0)
        return fby__fail(err, FBY_E_ARG, "a limit of 0 leaves no sample");
    FBY__TRY(fby__samples_refuse_drawn(samples, "limit", err));
    FBY__TRY(fby__samples_choosing_begin(&scope, samples, err));
    fby_status status = fby__sample_counts_init(&counts, samples, err);
    if (status == FBY_OK)
        status = random ? choose_some(&counts, samples, n, seed, err) : choose_first(&counts, samples, n, err);
    if (status == FBY_OK)
        status = fby__sample_counts_choose(&counts, "the limit", "", out, err);
    fby__sample_counts_fini(&counts);
    return fby__samples_choosing_end(&scope, samples, status, err);
}

/* ---- listed ones ---- */

/* The list in order: itself, where it is, else a copy in *out_owned. */
static fby_status in_order(const fby_samples *s, const uint64_t *indices, size_t n, uint64_t **out_owned, fby_error *err)
{
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        FBY__TRY(fby__cancel_check_at(i, err));
        if (indices[i] >= fby_samples_count(s))
            return fby__fail(err, FBY_E_ARG, "index %llu, at place %zu of the list: there are %llu samples, numbered from 0",
                             (unsigned long long)indices[i], i, (unsigned long long)fby_samples_count(s));
        sorted &= i == 0 || indices[i - 1] <= indices[i];
    }
    if (sorted)
        return FBY_OK;
    if (!(*out_owned = fby__malloc(n * sizeof **out_owned)))
        return fby__fail_nomem(err, "the samples to take");
    for (size_t i = 0; i < n; i++) { /* in steps: pages that are new take longer than the sort's */
        FBY__TRY(fby__cancel_check_at(i, err));
        (*out_owned)[i] = indices[i];
    }
    return fby__sort(*out_owned, n, sizeof **out_owned, fby__compare_u64, err);
}

static fby_status choose_listed(fby__sample_counts *c, const fby_samples *s, const uint64_t *indices, size_t n, fby_error *err)
{
    const uint64_t *first = fby__samples_first(s);
    size_t at = 0;
    for (uint32_t b = 0; b < fby__dataset_block_count(s->base->ds); b++) {
        FBY__TRY(fby__cancel_check(err));
        if (fby__samples_of_block(s, b) == 0)
            continue;
        while (at < n && indices[at] < first[b + 1]) {
            size_t end = at + 1;
            while (end < n && indices[end] == indices[at])
                end++;
            if (end - at > UINT16_MAX)
                return fby__fail(err, FBY_E_ARG, "index %llu is listed %zu times: at most 65,535 are possible",
                                 (unsigned long long)indices[at], end - at);
            FBY__TRY(fby__sample_counts_put(c, b, indices[at] - first[b], (uint16_t)(end - at), err));
            at = end;
        }
        FBY__TRY(fby__sample_counts_close(c, b, err));
    }
    return FBY_OK;
}

fby_status fby_samples_take(const fby_samples *samples, const uint64_t *indices, size_t n, fby_samples **out, fby_error *err)
{
    fby__sample_counts counts = {0};
    fby__account_scope scope;
    uint64_t *sorted = NULL;
    FBY__TRY(fby__samples_refuse_drawn(samples, "take", err));
    if (n == 0 || !indices)
        return fby__fail(err, FBY_E_ARG, "no sample is listed: a list, slice or mask takes at least one of the %llu",
                         (unsigned long long)fby_samples_count(samples));
    FBY__TRY(fby__samples_choosing_begin(&scope, samples, err));
    fby_status status = fby__alloc_charge(n * sizeof *indices) ? FBY_OK : fby__fail_nomem(err, "the samples to take"); /* the list itself */
    if (status == FBY_OK)
        status = in_order(samples, indices, n, &sorted, err);
    if (status == FBY_OK)
        status = fby__sample_counts_init(&counts, samples, err);
    if (status == FBY_OK)
        status = choose_listed(&counts, samples, sorted ? sorted : indices, n, err);
    if (status == FBY_OK)
        status = fby__sample_counts_choose(&counts, "take", "", out, err);
    if (counts.s)
        fby__sample_counts_fini(&counts);
    fby__free(sorted);
    return fby__samples_choosing_end(&scope, samples, status, err);
}
