/* A plan's inside, and the domains that keep its random numbers apart. */
#ifndef FBY_PLAN_PLAN_INTERNAL_H
#define FBY_PLAN_PLAN_INTERNAL_H

#include "plan/plan.h"

#include "base/cancel.h"

#define FBY__PLAN_MAX_SAMPLES ((uint64_t)1 << 62) /* what the permutation reaches; leaves room for position + batch */
#define FBY__PLAN_MAX_BATCH ((uint64_t)1 << 31)   /* a piece counts its samples in 32 bits */
#define FBY__PLAN_MAX_STREAMS ((uint32_t)1 << 20)

#define FBY__PLAN_GROWTH_STEPS 3u /* the first phases of a stream hold at most 1/8, 1/4, 1/2 of a full one */

/* Second counter of Philox under the user's seed; the first is the epoch. Saved states depend on these numbers. */
#define FBY__PLAN_DOMAIN_BLOCKS 1u
#define FBY__PLAN_DOMAIN_SAMPLES 2u
#define FBY__PLAN_BUCKETS 0x6275636bu /* third counter, under an epoch's key, beyond any stream: spans and batches of a pool */
#define FBY__PLAN_DOMAIN_PARTS 3u     /* the epoch is then the number of the sweep */
#define FBY__PLAN_DOMAIN_MIX 4u       /* where a mixture's epoch begins on the circle */
#define FBY__PLAN_DOMAIN_SOURCES 5u   /* seeds of a mixture's sources; the epoch is then the number of the source */

/** A file or a key that has samples. */
typedef struct fby__plan_unit {
    uint64_t samples;
    uint32_t first, end; /* of a file: blocks; of a key: spans */
} fby__plan_unit;

/*
 * A stream of `length` positions gives `share` of them to this rank in batch b: [b*stride + offset, … + share).
 * With streams, stride = share = G/S and offset = 0. With NONE there is one stream, stride = G, share = G/R, offset =
 * r*G/R.
 */
struct fby__plan {
    uint64_t *counts; /* owned, n_blocks */
    uint32_t n_blocks;
    uint32_t n_nonzero; /* blocks with samples */
    uint64_t largest;   /* samples of the largest block */
    uint64_t n;         /* samples in all */
    uint64_t seed;
    fby__shuffle shuffle; /* in effect */
    fby__tail tail;
    uint64_t global_batch; /* G */
    struct {
        uint64_t limit; /* samples */
        bool no_warmup; /* the first ones are full ones */
    } phase;
    fby__plan_unit *files; /* owned, n_files; NULL when files were not told */
    uint32_t *file_of;     /* owned, n_blocks: index in files; any where the file has no samples; NULL as files */
    fby__plan_span *spans; /* owned, by_key.n_spans, by key: with parts by key; else NULL */
    fby__plan_unit *keys;  /* owned, n_units: with parts by key; else NULL */
    struct {
        uint32_t *of_block; /* owned, n_blocks: how many spans each block has */
        uint64_t hash;      /* of the spans, never 0 */
        uint32_t n_spans;
    } by_key; /* with parts by key; else zeroed */
    bool has_parts;
    bool part_is_all;        /* a part was asked to have more files than there are */
    bool whole_streams;      /* with SUPERBATCH: a phase is all of its stream */
    uint64_t slice_samples;  /* 0: blocks are whole */
    uint64_t batch_elements; /* 0: batches of one size */
    uint64_t pool_samples;   /* 0: no length buckets */
    fby__plan_draws draws;   /* n = 0: none */
    struct {
        fby__lengths_fn of; /* NULL: unknown */
        const void *user;   /* borrowed */
        uint64_t total;     /* at most; UINT64_MAX: unknown */
    } lengths;
    uint64_t n_slices; /* of all blocks; n_nonzero when they are whole */
    uint32_t n_files, n_parts;
    const fby__plan_unit *units;  /* what parts are made of: files, or keys */
    uint32_t n_units, part_units; /* part_units 0: as many parts as asked for */
    struct {
        uint64_t rank, part;        /* of FULL and spans, those of a part alone */
    } items;                        /* no rank, no part has more: blocks or slices of them, or spans; those that streams cut aside */
    uint64_t part_most, part_least; /* samples of the largest and the smallest part that could come; N without parts */
    uint32_t streams;               /* S */
    uint32_t world_size;
    uint32_t first_stream, n_streams; /* of this rank */
    uint64_t stride, offset, share;
    struct fby__mix *mix; /* owned: of a mixture; else NULL */
};

/** Bytes of an epoch, whatever it has: itself, and what stands in front of its arrays. */
#define FBY__PLAN_EPOCH_BYTES (sizeof(fby__epoch) + 512)

/** Bytes of a slice, while slices are put in order. */
#define FBY__PLAN_ORDERED_BYTES (sizeof(uint64_t) + sizeof(fby__plan_item))

/** Where stream s begins in the order of n samples; s = S gives n. */
static inline uint64_t fby__plan_stream_begin(const fby__plan *plan, uint64_t n, uint32_t s)
{
    return (uint64_t)((unsigned __int128)s * n / plan->streams);
}

/** Where stream s of an epoch begins: equal cuts, or as a mixture cuts its sources. */
static inline uint64_t fby__epoch_stream_begin(const fby__epoch *epoch, uint32_t s)
{
    return epoch->borders ? epoch->borders[s] : fby__plan_stream_begin(epoch->plan, epoch->n_available, s);
}

/** Positions [*first, *end) of the sweep's order of files or keys: those of the epoch's part. */
void fby__plan_part_range(const fby__plan *plan, uint64_t epoch, uint32_t *first, uint32_t *end);
/** The file or key at a position of the sweep's order. */
const fby__plan_unit *fby__plan_part_unit(const fby__plan *plan, uint64_t epoch, uint32_t position);
/** What a step has failed for that fails when there is no memory, or when the call is cancelled. */
fby_status fby__plan_fail(const char *what, fby_error *err);
/** Sets slice_samples and phase_limit from what was asked for; called when everything else is derived. */
fby_status fby__plan_diversify(fby__plan *plan, const fby__plan_opts *o, fby_error *err);
/** How many samples phases aim at, with slices of s samples, so that none is above the limit. */
static inline uint64_t fby__plan_phase_aim(const fby__plan *plan, uint64_t s)
{
    return plan->phase.limit > s + 1 ? plan->phase.limit - s : 1;
}
/** The slices of an epoch's blocks, n of them, in their order. False when out of memory, or cancelled. */
bool fby__epoch_order_slices(const fby__epoch *epoch, uint64_t key, fby__plan_item *out, uint32_t n);
/** Sorts items by block and joins those that follow one another: *io_n are left. False when cancelled: then they are all there, in some order. */
bool fby__plan_merge_items(fby__plan_item *items, uint32_t *io_n);
/** An epoch of a plan with batches by rows, up to its phases and guides. */
fby_status fby__epoch_create_uncut(const fby__plan *plan, uint64_t number, const uint64_t *borders, fby__epoch **out, fby_error *err);
/** Lists each stream's phases by position, which they are sorted by within a stream. */
void fby__epoch_list_phases(fby__epoch *epoch);
/** The phase of the rank's stream s that holds a position: an index into epoch->stream_phases. */
uint32_t fby__epoch_find_phase(const fby__epoch *epoch, uint32_t s, uint64_t position);
/** S of the options, and this rank's share of them: what plans and mixtures have in common. */
void fby__plan_share_streams(fby__plan *plan, const fby__plan_opts *o);
/** Which blocks are of which files. */
fby_status fby__plan_list_files(fby__plan *plan, const uint32_t *files, fby_error *err);
fby_status fby__plan_check_opts(const fby__plan_opts *o, fby_error *err);
/** No epoch has more for this rank. Not of mixtures. */
uint64_t fby__plan_most_phases(const fby__plan *plan);
/** Cuts its batches, which are as many on every rank, and finds the phases that each takes samples from. */
fby_status fby__epoch_cut_batches(fby__epoch *own, uint32_t rank, fby_error *err);
/** The key of a phase's permutation: it names the phase by what is the same for every rank and schedule. Not for FULL. */
uint64_t fby__epoch_phase_key(const fby__epoch *epoch, const fby__plan_phase *phase);
/** The most samples that a phase of any epoch has. */
uint64_t fby__plan_phase_samples(const fby__plan *plan);
/** The slot of batch b where the samples of the rank's stream s begin. */
uint32_t fby__epoch_slot_of_stream(const fby__epoch *epoch, uint32_t s, uint64_t b);
/** Positions [*lo, *hi) of the rank's stream s that batch b takes; *hi may lie beyond the stream's end only for WRAP. */
void fby__epoch_window(const fby__epoch *epoch, uint32_t s, uint64_t b, uint64_t *lo, uint64_t *hi);
void fby__epoch_resolve_permuted(const fby__epoch *epoch, uint32_t phase, uint64_t index, uint32_t n, uint32_t *out_item,
                                 uint64_t *out_sample);
/** False when cancelled. */
bool fby__epoch_resolve_pooled(const fby__epoch *epoch, uint32_t phase, uint64_t index, uint32_t n, fby__pool_scratch *scratch,
                               uint32_t *out_item, uint64_t *out_sample);
void fby__epoch_lengths(const fby__epoch *epoch, uint32_t phase, const uint32_t *item, const uint64_t *sample, uint32_t n, uint32_t *out);
static inline fby__epoch_counts fby__epoch_counts_of(const fby__epoch *e)
{
    return (fby__epoch_counts){e->n_available, e->n_batches, e->n_samples, e->n_wrapped, e->n_dropped};
}
/** Counts that follow from the number of samples of an epoch, where batches are of one size. */
fby__epoch_counts fby__plan_counts_of(const fby__plan *plan, uint64_t n);

#endif
