/*
 * The order of an epoch: a pure function of sample counts per block and options. No I/O, no clock, no threads.
 *
 * The words (ARCHITECTURE.md has the picture):
 *   order      the N samples of an epoch, cut at floor(s*N/S) into S streams
 *   stream     one cut; a rank owns whole streams
 *   phase      the part of a stream whose samples are mixed with each other: a superbatch's share of one stream
 *   item       (block, lo, hi): samples [lo, hi) of a block that a phase holds
 *   batch      G = global_batch samples: G/S from each stream in stream order; a rank's batch is its streams' share
 *
 * Shuffles:
 *   SUPERBATCH  blocks permuted, concatenated, cut into streams, each stream cut at block borders into phases of at most
 *               superbatch_samples / S samples (at least one item), samples of a phase permuted. The first phases of every
 *               stream are smaller and grow (1/8, 1/4, 1/2 of a full one), so that the first batch comes early.
 *               When N ≤ superbatch_samples: as FULL.
 *   FULL        one permutation of all N samples; every stream has one phase, which holds all blocks.
 *   BLOCK       blocks permuted, rows in order; a phase is one item.
 *   NONE        file order. Batch b is samples [b*G, (b+1)*G); one stream, a phase is one item. Of R ranks, rank r takes
 *               slots [r*G/R, (r+1)*G/R) of every batch, so that every rank reads nearly every block.
 *
 * Tails, when N is no multiple of G:
 *   KEEP        the last batch is shorter: what is left of each stream.
 *   DROP        floor(N/G) batches, the rest is left out and counted.
 *   WRAP        the last batch is filled up: each stream repeats the first elements of its own last phase (again and again if
 *               that is shorter than what is missing), so that no rank reads another block. At most G - 1 repeats, counted.
 *
 * A block cut by a stream border has an item in both streams. Blocks without samples appear nowhere. Phases that give this
 * rank no sample (the dropped tail; with NONE, blocks that lie in other ranks' slots) are not listed.
 *
 * Permutations are keyed (seed, epoch): blocks by Fisher–Yates over Philox, samples by a Feistel network with cycle
 * walking, so that any position can be computed alone, in O(1), without a table.
 *
 * Memory is O(blocks); the sample at any position costs O(log blocks).
 */
#ifndef FBY_PLAN_PLAN_H
#define FBY_PLAN_PLAN_H

#include "base/error.h"

typedef enum fby__shuffle { FBY__SHUFFLE_SUPERBATCH, FBY__SHUFFLE_FULL, FBY__SHUFFLE_BLOCK, FBY__SHUFFLE_NONE } fby__shuffle;
typedef enum fby__tail { FBY__TAIL_KEEP, FBY__TAIL_DROP, FBY__TAIL_WRAP } fby__tail;

typedef struct fby__plan_opts {
    fby__shuffle shuffle;
    fby__tail tail;              /* KEEP only at world_size 1 */
    uint64_t seed;
    uint64_t global_batch;       /* G ≥ 1: samples a step over all ranks */
    uint64_t superbatch_samples; /* over all streams; ≥ 1 */
    uint32_t streams;            /* wanted S; the plan uses gcd(S, G) and says so */
    uint32_t rank, world_size;   /* world_size divides the streams used and G (shuffle NONE: divides G) */
} fby__plan_opts;

/** Options and counts of a plan; immutable after creation, shared by its epochs. */
typedef struct fby__plan fby__plan;

typedef struct fby__plan_item {
    uint32_t block;
    uint64_t lo, hi;    /* samples of the block, lo < hi */
    uint64_t start;     /* samples of the phase before this item */
} fby__plan_item;

typedef struct fby__plan_phase {
    uint32_t stream;
    uint64_t begin, end;        /* positions in the stream, begin < end */
    const fby__plan_item *items;/* borrowed from the epoch */
    uint32_t n_items;
    uint64_t n_samples;         /* Σ (hi - lo): end - begin, except for FULL, where every phase holds all N */
    uint64_t perm_offset;       /* position begin of the stream is element perm_offset of the phase's permutation */
    uint64_t first_batch, last_batch; /* the batches that take samples from this phase; schedule order is by first_batch */
    /* private */
    const uint32_t *guide;      /* borrowed from the epoch: the item that holds sample k << guide_shift */
    uint32_t guide_shift;
} fby__plan_phase;

/** One epoch's order for one rank: its streams' phases, in schedule order (first_batch, then stream). */
typedef struct fby__epoch {
    uint64_t epoch;
    uint64_t n_batches;   /* of this rank; the same on every rank */
    uint64_t n_samples;   /* this rank delivers, wrapped repeats included */
    uint64_t n_wrapped;   /* repeats, over all ranks */
    uint64_t n_dropped;   /* samples left out by TAIL_DROP, over all ranks */
    uint32_t n_phases;
    fby__plan_phase *phases;
    /* private */
    const fby__plan *plan;
    fby__plan_item *items;
    uint64_t sample_key;
    uint32_t n_streams;   /* owned by this rank */
    uint32_t *stream_phases; /* phases of stream s: indices stream_phases[stream_start[s] .. stream_start[s+1]) by position */
    uint32_t *stream_start;
    uint64_t *stream_length;
    uint32_t *guides;
    uint32_t max_pieces;
} fby__epoch;

/** A run of consecutive slots of one batch that come from consecutive positions of one phase. */
typedef struct fby__plan_piece {
    uint32_t phase;      /* index into epoch->phases */
    uint32_t n;          /* samples */
    uint64_t slot;       /* first slot in the rank's batch */
    uint64_t index;      /* first element of the phase's permutation domain: perm_offset + position - begin */
} fby__plan_piece;

/**
 * @counts  samples of each block, n_blocks of them (zeros allowed, Σ > 0); copied.
 * FBY_E_ARG with the reason for options that do not fit each other.
 */
fby_status fby__plan_create(const uint64_t *counts, uint32_t n_blocks, const fby__plan_opts *opts, fby__plan **out,
                            fby_error *err);
void fby__plan_destroy(fby__plan *plan);

uint32_t fby__plan_streams(const fby__plan *plan);        /* S used: gcd(streams, G); 1 for NONE */
uint64_t fby__plan_batch_count(const fby__plan *plan);    /* of any epoch */
uint64_t fby__plan_phase_limit(const fby__plan *plan);    /* no phase holds more samples, unless it is one item; FULL: N */
fby__shuffle fby__plan_shuffle(const fby__plan *plan);    /* in effect: SUPERBATCH becomes FULL when N is small */
fby__tail fby__plan_tail(const fby__plan *plan);
uint64_t fby__plan_seed(const fby__plan *plan);
uint64_t fby__plan_global_batch(const fby__plan *plan);
uint32_t fby__plan_world_size(const fby__plan *plan);
uint64_t fby__plan_samples(const fby__plan *plan);        /* N */
uint64_t fby__plan_counts_hash(const fby__plan *plan);    /* of the samples per block: with the options, all that the order depends on */

/** Build an epoch; O(blocks). The plan must outlive it. */
fby_status fby__epoch_create(const fby__plan *plan, uint64_t epoch, fby__epoch **out, fby_error *err);
void fby__epoch_destroy(fby__epoch *epoch);

/** Samples in this rank's batch b. */
uint64_t fby__epoch_batch_size(const fby__epoch *epoch, uint64_t b);

/**
 * The pieces of this rank's batch b, by slot. Writes at most cap, returns how many there are: at most
 * fby__epoch_max_pieces(epoch) for any batch.
 */
uint32_t fby__epoch_pieces(const fby__epoch *epoch, uint64_t b, fby__plan_piece *out, uint32_t cap);
uint32_t fby__epoch_max_pieces(const fby__epoch *epoch);

/**
 * The samples of permutation elements [index, index + n) of a phase, in that order.
 * out_item[i] indexes phase->items, out_sample[i] is the sample within the block (lo ≤ sample < hi).
 * Bulk on purpose: the Feistel rounds vectorise.
 */
void fby__epoch_resolve(const fby__epoch *epoch, uint32_t phase, uint64_t index, uint32_t n, uint32_t *out_item,
                        uint64_t *out_sample);

/** The k-th sample that this rank delivers in the epoch: (block, sample in block). O(log). For tests, resume and plan printing. */
void fby__epoch_sample(const fby__epoch *epoch, uint64_t k, uint32_t *out_block, uint64_t *out_sample);

/** How well a batch mixes blocks, against a uniform shuffle of all samples. */
typedef struct fby__mixing {
    double same_block, same_block_uniform;   /* chance that two samples of a batch come from one block */
    double entropy_bits, entropy_bits_uniform; /* mean entropy of a batch over blocks */
    uint64_t batches_sampled;
} fby__mixing;

/** Measured on up to max_batches batches of the epoch, evenly spread (deterministic); uniform values in closed form or sampled. */
fby_status fby__plan_mixing(const fby__epoch *epoch, uint64_t max_batches, fby__mixing *out, fby_error *err);

/* ---- the permutation, for tests ---- */

/** π(i) of the keyed permutation of [0, n), i < n, n ≥ 1. */
uint64_t fby__permute(uint64_t key, uint64_t n, uint64_t i);
/** out[j] = π(i + j), j < count. */
void fby__permute_run(uint64_t key, uint64_t n, uint64_t i, uint32_t count, uint64_t *out);

#endif
