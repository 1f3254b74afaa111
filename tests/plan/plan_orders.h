/* What tests of an epoch's order share: epochs, whether every sample came, and one sequence over any number of ranks. */
#ifndef FBY_TESTS_PLAN_ORDERS_H
#define FBY_TESTS_PLAN_ORDERS_H

#include "base/random.h"
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static inline uint64_t below(fby__random *r, uint64_t n) { return fby__random_below(r, n); }

static inline fby__epoch *epoch_of(const fby__plan *plan, uint64_t number)
{
    fby__epoch *epoch = NULL;
    fby_error err;
    if (fby__epoch_create(plan, number, &epoch, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return epoch;
}

static inline fby__epoch *make_epoch(const uint64_t *counts, uint32_t n, const fby__plan_opts *o, uint64_t number, fby__plan **out_plan)
{
    fby_error err;
    fby__epoch *epoch = NULL;
    if (fby__plan_create(counts, n, o, out_plan, &err) != FBY_OK || fby__epoch_create(*out_plan, number, &epoch, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return epoch;
}

static inline void free_epoch(fby__epoch *epoch, fby__plan *plan)
{
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
}

/** How often samples came, over all ranks: beyond once, and not at all. Zero-initialise. */
typedef struct tally {
    uint64_t repeats, missing;
} tally;

static inline void tally_add(tally *t, const uint32_t *seen, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        t->repeats += seen[i] > 1 ? seen[i] - 1 : 0;
        t->missing += seen[i] == 0;
    }
}

/** Where sample k of a rank lies in the sequence of global batches: each rank has an equal run of every batch. */
static inline uint64_t global_place(uint64_t k, uint64_t batch, uint32_t rank, uint32_t world)
{
    const uint64_t share = batch / world;
    return k / share * batch + rank * share + k % share;
}

/** A plan of `user` for one rank. */
typedef fby__plan *(*plan_of_rank)(const void *user, uint32_t rank, uint32_t world);

/** 1, 2, 4 and 8 ranks have the same sequence of samples in an epoch of batches of one size: `most` samples at most. */
static inline void check_one_sequence(plan_of_rank plan_of, const void *user, uint64_t batch, uint64_t number, uint64_t most)
{
    typedef struct place {
        uint64_t sample;
        uint32_t block;
    } place;
    place *reference = calloc(most, sizeof *reference);
    assert_non_null(reference);
    for (uint32_t world = 1; world <= 8; world *= 2) {
        uint64_t n = 0;
        for (uint32_t rank = 0; rank < world; rank++) {
            fby__plan *plan = plan_of(user, rank, world);
            fby__epoch *epoch = epoch_of(plan, number);
            for (uint64_t k = 0; k < epoch->n_samples; k++, n++) {
                const uint64_t at = global_place(k, batch, rank, world);
                place here;
                fby__epoch_sample(epoch, k, &here.block, &here.sample);
                assert_true(at < most);
                if (world == 1)
                    reference[at] = here;
                assert_true(here.block == reference[at].block && here.sample == reference[at].sample);
            }
            fby__epoch_destroy(epoch);
            fby__plan_destroy(plan);
        }
        assert_true(n > 0);
    }
    free(reference);
}

#endif
