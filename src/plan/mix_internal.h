/*
 * Mixtures, private to src/plan: mix.c (proportions and ends), mix_deal.c (who has which slot), mix_epoch.c (an epoch, and what it answers),
 * mix_destinations.c (where samples go).
 */
#ifndef FBY_PLAN_MIX_INTERNAL_H
#define FBY_PLAN_MIX_INTERNAL_H

#include "plan/plan_internal.h"

#define FBY__MIX_SOURCES 1024u              /* at most, checked when the plan is made */
#define FBY__MIX_STEPS 1024u                /* so many slots are looked at one by one: further ones are faster counted anew */
#define FBY__MIX_PASSES ((uint64_t)1 << 16) /* of a source in an epoch: each has an order of its own, O(blocks) */

/** One row of weights, as integers. */
typedef struct fby__mix_weights {
    const uint64_t *each; /* n */
    uint64_t sum;         /* below 2^63 */
} fby__mix_weights;

struct fby__mix {
    uint32_t n;
    fby__plan **source;    /* owned: n; blocks of each count from 0 */
    char **name;           /* owned: n */
    uint32_t *first_block; /* owned: n + 1 */
    uint64_t *weights;     /* owned: n_epochs rows of n */
    uint32_t n_epochs;
    fby__mix_stop stop;
    uint64_t n_samples; /* FBY__MIX_SAMPLES */
    uint64_t *passes;   /* owned: the most that an epoch has of each source */
    uint64_t hash;
};
typedef struct fby__mix fby__mix;

/** A slot of a stream that the circle gives to a source beyond its quota. */
typedef struct fby__mix_moved {
    uint32_t stream, source;
    uint64_t slot;
} fby__mix_moved;

/** How an epoch's slots are dealt: which source has which. */
typedef struct fby__mix_deal {
    uint32_t n;              /* sources */
    uint64_t start;          /* on the circle */
    unsigned __int128 *upto; /* owned: of the circle, up to 2^64: where each source's part ends */
    uint64_t *quota;         /* owned: streams rows of n: slots of each source in each stream, all passes */
    uint64_t *quota_before;  /* owned: streams rows of n: Σ of the quotas of the sources before */
    fby__mix_moved *moved;   /* owned: by stream */
    uint32_t *first_moved;   /* owned: streams + 1 */
    uint32_t *first_source;  /* owned: streams: the first that has a quota */
    uint64_t *length;        /* owned: streams: slots */
    uint64_t *total;         /* owned: n: Σ of quota over streams */
} fby__mix_deal;

/** A walk along a stream's slots: those that the circle gives each source up to slot n. All zero: at the stream's beginning. */
typedef struct fby__mix_walk {
    uint64_t n, *circle; /* deal->n, borrowed */
} fby__mix_walk;

/** The batches that a phase reaches into, from its first one on. */
typedef struct fby__mix_reach {
    uint32_t n;
    uint64_t *begin; /* n + 1: slots that the source has in the stream before each batch */
    uint32_t *slot;  /* n: of the batch, where its slots begin */
} fby__mix_reach;

/** One pass of a source through its samples. */
typedef struct fby__mix_pass {
    fby__epoch *order; /* owned */
    uint32_t source;
    uint64_t *base;  /* owned: own streams: positions of the source's stream that passes before it have */
    uint64_t *used;  /* owned: own streams: positions that this one has */
    uint32_t *phase; /* owned: of the mixture, for each phase of the order; UINT32_MAX: no batch of this rank needs it */
} fby__mix_pass;

struct fby__mix_epoch {
    fby__mix_deal deal;
    fby__mix_pass *passes; /* owned: n_passes, by source */
    uint32_t n_passes;
    uint32_t *first_pass;                   /* owned: deal.n + 1 */
    uint32_t *pass_of_phase, *own_of_phase; /* owned: of each phase of the mixture, the pass and its number there */
    fby__mix_walk *walk;                    /* owned, with their circles: own streams: where fby__epoch_pieces_in_turn was */
    uint32_t n_phases;                      /* of the mixture */
    fby__mix_reach **reach;                 /* owned: of each phase; NULL unless somebody asks where its samples go */
};
typedef struct fby__mix_epoch fby__mix_epoch;

/* ---- mix.c ---- */

void fby__mix_destroy(fby__mix *mix); /* NULL is fine */
/** Samples of an epoch, over all ranks; tail DROP aside. */
fby_status fby__mix_length(const fby__plan *plan, uint64_t epoch, uint64_t *out, fby_error *err);
/** How many of n slots each source has: to the nearest, Σ = n, and never fewer when n grows. */
void fby__mix_apportion(fby__mix_weights w, uint32_t n_sources, uint64_t n, uint64_t *out);
fby__mix_weights fby__mix_weights_of(const fby__mix *mix, uint64_t epoch);
uint64_t fby__mix_item_limit(const fby__plan *plan);
uint64_t fby__mix_epoch_bytes(const fby__plan *plan);
uint64_t fby__mix_reads_of(const fby__plan *plan, uint32_t block);

/* ---- mix_deal.c ---- */

/** Slots of each source among the first n of a stream; beyond the stream's end, as they are filled up. out: deal->n of them. */
void fby__mix_slots(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint64_t n, uint64_t *out);
/** The same for one source. */
uint64_t fby__mix_slots_of(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint32_t source, uint64_t n);
fby_status fby__mix_deal_init(const fby__plan *plan, uint64_t epoch, fby__mix_deal *out, fby_error *err);
void fby__mix_deal_fini(fby__mix_deal *deal);

/** The same for slots in rising order, which is faster; it may go back, too. */
void fby__mix_walk_to(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint64_t n, fby__mix_walk *w, uint64_t *out);

/* ---- mix_destinations.c ---- */

/** The most batches that a phase of any epoch reaches into. */
uint64_t fby__mix_reach_limit(const fby__plan *plan);
bool fby__mix_has_destinations(const fby__plan *plan);
fby_status fby__mix_reach_begin(fby__epoch *epoch, uint32_t phase, fby_error *err);
void fby__mix_reach_end(fby__epoch *epoch, uint32_t phase);
void fby__mix_destinations(const fby__epoch *epoch, uint32_t phase, uint32_t item, uint64_t first, uint32_t n, fby__destination *out);

/* ---- mix_epoch.c ---- */

/** As fby__plan_making_bytes: the order of one pass after the other is made, then the phases of all of them are put in order. */
uint64_t fby__mix_making_bytes(const fby__plan *plan);
fby_status fby__mix_epoch_create(const fby__plan *plan, uint64_t number, fby__epoch **out, fby_error *err);
void fby__mix_epoch_destroy(fby__mix_epoch *mix); /* NULL is fine */
/** walk: where the streams' walks are, one each, and then will be; NULL: they begin anew. */
uint32_t fby__mix_pieces(const fby__epoch *epoch, uint64_t b, fby__mix_walk *walk, fby__plan_piece *out, uint32_t cap);
/** The piece that slot `slot` of stream s of batch b is of, of one sample. */
fby__plan_piece fby__mix_piece_at(const fby__epoch *epoch, uint32_t s, uint64_t b, uint64_t slot);
void fby__mix_resolve(const fby__epoch *epoch, uint32_t phase, uint64_t index, uint32_t n, uint32_t *out_item, uint64_t *out_sample);

#endif
