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
 *               stream are smaller and grow (1/8, 1/4, 1/2 of a full one), so that the first batch comes early. The one after those
 *               is (S - s)/S of a full one in stream s, so that the streams' borders spread over a superbatch. Without warm-up
 *               the first phase of every stream is a full one, and the next is that one.
 *               When N ≤ superbatch_samples: as FULL (with parts, see there).
 *   FULL        one permutation of all N samples; every stream has one phase, which holds all blocks.
 *   BLOCK       blocks permuted, rows in order; a phase is one item.
 *   NONE        file order. Batch b is samples [b*G, (b+1)*G); one stream, a phase is one item. With R ranks, rank r takes
 *               slots [r*G/R, (r+1)*G/R) of every batch, so that every rank reads nearly every block.
 *
 * Tails, when N is no multiple of G:
 *   KEEP        the last batch is shorter: what is left of each stream. With several ranks, some may have one batch fewer than others, and
 *               a rank that nothing is left for has none at all.
 *   DROP        floor(N/G) batches; the rest is left out and counted.
 *   WRAP        the last batch is filled up: each stream repeats the first elements of its own last phase (again and again if
 *               that is shorter than what is missing), so that no rank reads another block. At most G - 1 repeats, counted.
 *
 * Parts: an epoch may be a part of the files instead of all of them. Epoch e is part e mod P of sweep e / P. The files that have samples
 * are permuted once a sweep (with NONE they keep their order) and dealt into P parts, so that every file comes exactly once a sweep,
 * however the counts divide. All of the above then holds with N the samples of the part, with one exception: where the largest part that
 * could come is no larger than the superbatch, SUPERBATCH stays what it is and every stream is one phase, in every epoch. A batch is then
 * drawn from the whole part, and each rank reads only the blocks of its own streams; with FULL every rank would read the whole part.
 *
 * Parts by key: the same with keys in place of files. The samples of a key lie in spans, in one block or in many. An epoch has, of each
 * block, the spans of its part, in order; each is an item. Neither a phase's border nor a permutation of blocks separates the spans of one
 * block (a stream's border may).
 *
 * Diversity: with a floor on the files in a batch, or a cap on the batches from one superbatch, blocks are cut into slices, and slices are
 * permuted instead of blocks (slices.c). All phases are then about equal in size, the first one too, and never above the limit.
 *
 * Draws: where samples are drawn anew in every epoch, items count the epoch's draws from a block instead of its samples. Resolving turns
 * draws into samples, some of which then come more than once. Not with parts or diversity.
 *
 * Batches by rows: whole samples up to so many rows in all, at least one (table.c). Length buckets: batches of samples of similar length
 * (bucket.c). With either, streams are ranks (S = R), so the order depends on the world size.
 *
 * Mixtures: an epoch draws on several sources, each with blocks, an order and streams of its own, in stated proportions (mix.c). Blocks are
 * numbered through all sources. Not with parts, diversity, draws, batches by rows or length buckets.
 *
 * A block cut by a stream border has an item in both streams. Blocks without samples appear nowhere. Phases that give this
 * rank no sample (the dropped tail; with NONE, blocks that lie in other ranks' slots) are not listed.
 *
 * Permutations are keyed (seed, epoch): blocks by Fisher–Yates over Philox, samples by a Feistel network with cycle
 * walking, so that the sample at any position can be computed alone, in O(1), without a table. Files likewise, keyed (seed, sweep).
 *
 * Memory is O(blocks); the sample at any position costs O(log blocks).
 */
#ifndef FBY_PLAN_PLAN_H
#define FBY_PLAN_PLAN_H

#include "base/error.h"

#include <stdbool.h>

typedef enum fby__shuffle { FBY__SHUFFLE_SUPERBATCH, FBY__SHUFFLE_FULL, FBY__SHUFFLE_BLOCK, FBY__SHUFFLE_NONE } fby__shuffle;
typedef enum fby__tail { FBY__TAIL_KEEP, FBY__TAIL_DROP, FBY__TAIL_WRAP } fby__tail;

/**
 * How many rows n samples have, each given with its block; 2^32 - 1 stands for more. A pure function: the plan calls it whenever it wants
 * to, from any thread.
 */
typedef void (*fby__lengths_fn)(const void *user, const uint32_t *block, const uint64_t *sample, uint32_t n, uint32_t *out);

/**
 * Samples that are drawn anew in every epoch: an epoch's draws are numbered from 0, block by block. `counts` says how many draws each block
 * has in an epoch. `drawn` turns draws, each given with its block, into samples of that block, in place; within a block their order is
 * rising. Pure functions.
 */
typedef struct fby__plan_draws {
    uint64_t n; /* draws in every epoch */
    void (*counts)(const void *user, uint64_t epoch, uint64_t *out);
    void (*drawn)(const void *user, uint64_t epoch, const uint32_t *block, uint64_t *io_sample, uint32_t n);
    const void *user;      /* borrowed for the plan's life */
    const uint64_t *least; /* of each block, no fewer; borrowed for the call. NULL = unknown */
} fby__plan_draws;

/** Samples [lo, hi) of a block, lo < hi, that have the same key. */
typedef struct fby__plan_span {
    uint32_t block, key;
    uint64_t lo, hi;
} fby__plan_span;

typedef struct fby__plan_opts {
    fby__shuffle shuffle;
    fby__tail tail;
    uint64_t seed;
    uint64_t global_batch;           /* G ≥ 1: samples a step over all ranks */
    uint64_t superbatch_samples;     /* over all streams; ≥ 1 */
    uint32_t streams;                /* wanted S; the plan uses gcd(S, G) and says so */
    uint32_t rank, world_size;       /* world_size divides the streams used and G (shuffle NONE: divides G) */
    const uint32_t *files;           /* the file of each block, rising; borrowed for the call; NULL = unknown: no parts then */
    uint32_t part_files;             /* files a part, the last part has the rest; 0 = no parts, or by n_parts */
    const fby__plan_span *spans;     /* NULL = parts are of files; else of keys: all samples, by block and lo; borrowed for the call */
    uint32_t n_spans, n_keys;        /* keys are numbered from 0, in the order that NONE visits them; each has a span */
    uint32_t part_keys;              /* with spans, instead of part_files: keys a part */
    uint32_t n_parts;                /* instead of part_files or part_keys: so many parts, as equal as can be; 0 = no parts */
    uint32_t diversity_files;        /* with SUPERBATCH: at least so many files in every whole batch over all ranks; 0 = as it comes */
    uint32_t max_superbatch_batches; /* with SUPERBATCH: no more batches in a row from one superbatch, ≥ 2; 0 = as it comes */
    bool no_warmup;                  /* with SUPERBATCH: the first phases are full ones */
    uint64_t batch_elements;  /* at most so many rows in a batch of a rank; global_batch / world_size is then the most samples. 0 = any */
    uint64_t elements;        /* rows of all samples, at most; 0 = unknown */
    uint64_t bucket_samples;  /* with SUPERBATCH and FULL: samples that are sorted by length together; 0 = none */
    fby__plan_draws draws;    /* n = 0: none. Else a block's count is the most draws that it can have */
    fby__lengths_fn lengths;  /* NULL = unknown: no batch_elements, no buckets then */
    const void *lengths_user; /* borrowed for the plan's life */
} fby__plan_opts;

/** Where the epoch of a mixture ends. */
typedef enum fby__mix_stop {
    FBY__MIX_FIRST,  /* where the first source has no sample left */
    FBY__MIX_ALL,    /* when every sample of every source came; sources that end before are drawn anew */
    FBY__MIX_SAMPLES /* after n_samples; sources that end before are drawn anew */
} fby__mix_stop;

/** One source of a mixture: its blocks. Borrowed for the call. */
typedef struct fby__mix_source {
    const char *name;
    const uint64_t *counts; /* samples of each block, n_blocks of them; Σ > 0 */
    uint32_t n_blocks;
    const uint32_t *files; /* the file of each block, rising; NULL = unknown */
} fby__mix_source;

typedef struct fby__mix_opts {
    const fby__mix_source *sources;
    uint32_t n_sources;
    const double *weights; /* n_epochs rows of n_sources, ≥ 0 and finite, not all 0; the last row holds on. NULL = the sources' sizes */
    uint32_t n_epochs;
    fby__mix_stop stop;
    uint64_t n_samples; /* FBY__MIX_SAMPLES */
} fby__mix_opts;

/** Options and counts of a plan; immutable after creation, shared by its epochs. */
typedef struct fby__plan fby__plan;

typedef struct fby__plan_item {
    uint32_t block;
    uint64_t lo, hi; /* samples of the block, lo < hi */
    uint64_t start;  /* samples of the phase before this item */
} fby__plan_item;

typedef struct fby__plan_phase {
    uint32_t stream;
    uint64_t begin, end;         /* positions in the stream, begin < end */
    const fby__plan_item *items; /* borrowed from the epoch */
    uint32_t n_items;
    uint64_t n_samples;               /* Σ (hi - lo): end - begin, except for FULL, where every phase holds all N */
    uint64_t perm_offset;             /* position begin of the stream is element perm_offset of the phase's permutation */
    uint64_t first_batch, last_batch; /* the batches that take samples from this phase; schedule order is by first_batch */
    /* private */
    const uint32_t *guide; /* borrowed from the epoch: the item that holds sample k << guide_shift */
    uint32_t guide_shift;
} fby__plan_phase;

/** How much an epoch has. */
typedef struct fby__epoch_counts {
    uint64_t n_available; /* N: samples of the part, or of all blocks */
    uint64_t n_batches;   /* of this rank; the same on every rank unless TAIL_KEEP */
    uint64_t n_samples;   /* that this rank delivers, wrapped repeats included */
    uint64_t n_wrapped;   /* repeats, over all ranks */
    uint64_t n_dropped;   /* samples left out by TAIL_DROP, over all ranks */
} fby__epoch_counts;

/** One epoch's order for one rank: its streams' phases, in schedule order (first_batch, then stream). */
typedef struct fby__epoch {
    uint64_t epoch;
    uint64_t n_available, n_batches, n_samples, n_wrapped, n_dropped; /* as in fby__epoch_counts */
    uint32_t n_phases;
    fby__plan_phase *phases;
    /* private */
    const fby__plan *plan;
    const uint64_t *counts; /* samples of each block in this part: the plan's, or own_counts */
    uint64_t *own_counts;
    uint64_t *draws_before; /* of each block, where samples are drawn; else NULL */
    fby__plan_item *spans;  /* n_spans: with parts by key, those of this part, by block and lo; NULL = blocks are whole */
    uint32_t n_spans;
    uint32_t n_nonzero;
    fby__plan_item *items;
    uint64_t sample_key;
    uint32_t n_streams;      /* owned by this rank */
    uint32_t *stream_phases; /* phases of stream s: indices stream_phases[stream_start[s] .. stream_start[s+1]) by position */
    uint32_t *stream_start;
    uint64_t *stream_length;
    uint32_t *guides;
    uint64_t *batch_begin; /* batches by rows: positions in the rank's stream; NULL for batches of one size */
    uint32_t *batch_n;
    uint64_t cap_batches;
    uint32_t max_pieces;
    const uint64_t *borders;    /* where streams are cut, streams + 1 of them; borrowed while the epoch is built. NULL = equal */
    struct fby__mix_epoch *mix; /* owned: of a mixture, whose phases are those of its sources' orders; else NULL */
} fby__epoch;

/** Consecutive slots of one batch that come from consecutive positions of one phase. */
typedef struct fby__plan_piece {
    uint32_t phase; /* index into epoch->phases */
    uint32_t n;     /* samples */
    bool repeats;   /* with TAIL_WRAP: they came already, and fill the batch up */
    uint64_t slot;  /* first slot in the rank's batch */
    uint64_t index; /* first element of the phase's permutation domain: perm_offset + position - begin */
} fby__plan_piece;

/**
 * @counts  samples of each block, n_blocks of them (zeros allowed, Σ > 0); copied.
 * FBY_E_ARG with the reason for options that do not fit each other.
 */
fby_status fby__plan_create(const uint64_t *counts, uint32_t n_blocks, const fby__plan_opts *opts, fby__plan **out, fby_error *err);
void fby__plan_destroy(fby__plan *plan);

/** The plan of a mixture. Of `opts`, files, parts, diversity, draws and lengths are not used, and refused where they ask for something. */
fby_status fby__plan_create_mix(const fby__mix_opts *mix, const fby__plan_opts *opts, fby__plan **out, fby_error *err);
uint32_t fby__plan_sources(const fby__plan *plan);                         /* 1 where it is no mixture */
const fby__plan *fby__plan_source(const fby__plan *plan, uint32_t source); /* the source's own order, blocks from 0; or the plan itself */
uint32_t fby__plan_source_first(const fby__plan *plan, uint32_t source);   /* its first block; of n_sources: the number of blocks */
uint64_t fby__plan_mix_hash(const fby__plan *plan);                        /* of weights and stop, never 0; 0 where it is no mixture */

/** About the most that an epoch's orders of a mixture's sources take, the first of each source aside: 0 where none begins anew. */
uint64_t fby__plan_anew_bytes(const fby__plan *plan);

/** What an epoch of a mixture has of a source. */
typedef struct fby__mix_counts {
    uint64_t n_samples; /* over all ranks, wrapped ones aside */
    uint64_t n_left;    /* of the source that do not come in this epoch */
    uint64_t n_passes;  /* how often it is begun: 2 = its first samples come twice */
} fby__mix_counts;
fby_status fby__plan_mix_counts(const fby__plan *plan, uint64_t epoch, uint32_t source, fby__mix_counts *out, fby_error *err);

uint32_t fby__plan_streams(const fby__plan *plan);       /* S used: gcd(streams, G); 1 for NONE */
uint32_t fby__plan_own_streams(const fby__plan *plan);   /* how many of them are this rank's; 1 for NONE */
bool fby__plan_whole_streams(const fby__plan *plan);     /* parts no larger than the superbatch: a phase is all of its stream */
bool fby__plan_part_is_all(const fby__plan *plan);       /* parts of more files than there are were asked for: there is one */
double fby__plan_growth_share(const fby__plan *plan);    /* share of an epoch in first phases, which mix over fewer blocks; about */
uint64_t fby__plan_batch_limit(const fby__plan *plan);   /* no batch of a rank has more samples */
uint64_t fby__plan_batches_limit(const fby__plan *plan); /* of an epoch; one more with uneven tails. UINT64_MAX for batches by rows */
uint64_t fby__plan_phase_limit(const fby__plan *plan);   /* no phase has more samples, unless it is one block; FULL: N */
fby__shuffle fby__plan_shuffle(const fby__plan *plan);   /* in effect: SUPERBATCH becomes FULL when N is small, unless there are parts */
fby__tail fby__plan_tail(const fby__plan *plan);
uint64_t fby__plan_seed(const fby__plan *plan);
uint64_t fby__plan_global_batch(const fby__plan *plan);
uint32_t fby__plan_world_size(const fby__plan *plan);
uint64_t fby__plan_samples(const fby__plan *plan);      /* of all blocks */
uint64_t fby__plan_part_samples(const fby__plan *plan); /* no epoch has more: N, or what the largest part could have */
uint32_t fby__plan_parts(const fby__plan *plan);        /* P; 1 without parts */
uint32_t fby__plan_part_units(const fby__plan *plan);   /* files or keys of the largest part; 0 without parts */
/** With parts by key: the spans of all keys, those of a key side by side; else NULL. Borrowed from the plan. */
const fby__plan_span *fby__plan_spans(const fby__plan *plan, uint32_t *out_n);
uint64_t fby__plan_slice_samples(const fby__plan *plan); /* blocks are cut into equal slices of at most so many samples; 0 = not at all */
uint64_t fby__plan_slices_of(const fby__plan *plan, uint64_t samples); /* of a block with so many samples; 1 without slices */
/** How often a block is loaded in an epoch or, with parts, in a sweep; stream borders come on top. */
uint64_t fby__plan_reads_of(const fby__plan *plan, uint32_t block);
uint64_t fby__plan_item_limit(const fby__plan *plan);  /* no epoch has more items over all ranks, FULL aside */
uint64_t fby__plan_counts_hash(const fby__plan *plan); /* of the samples per block: with the options, all that the order depends on */
/** … and, with parts by key, on this: a hash of which samples have which key, never 0. 0 without. */
uint64_t fby__plan_spans_hash(const fby__plan *plan);

/** Without building the epoch: O(1), with parts O(files of a part). Batches by rows: the epoch is built, O(samples). */
fby_status fby__plan_count(const fby__plan *plan, uint64_t epoch, fby__epoch_counts *out, fby_error *err);

/** Build an epoch; O(blocks), batches by rows O(samples). The plan must outlive it. */
fby_status fby__epoch_create(const fby__plan *plan, uint64_t epoch, fby__epoch **out, fby_error *err);
void fby__epoch_destroy(fby__epoch *epoch);

/** The key of FULL's permutation in an epoch: position k holds sample fby__permute(key, N, k), counted over all blocks in file order. */
uint64_t fby__plan_full_key(uint64_t seed, uint64_t epoch);

/** Samples in this rank's batch b. */
uint64_t fby__epoch_batch_size(const fby__epoch *epoch, uint64_t b);

/**
 * The pieces of this rank's batch b, by slot. Writes at most cap, returns how many there are: at most
 * fby__epoch_max_pieces(epoch) for any batch.
 */
uint32_t fby__epoch_pieces(const fby__epoch *epoch, uint64_t b, fby__plan_piece *out, uint32_t cap);
/** The same, faster for whoever asks for batch after batch: of a mixture the epoch keeps where it was. One thread at a time. */
uint32_t fby__epoch_pieces_in_turn(fby__epoch *epoch, uint64_t b, fby__plan_piece *out, uint32_t cap);
uint32_t fby__epoch_max_pieces(const fby__epoch *epoch);

/**
 * The samples of permutation elements [index, index + n) of a phase, in that order.
 * out_item[i] indexes phase->items, out_sample[i] is the sample within the block (lo ≤ sample < hi).
 * Bulk on purpose: the Feistel rounds vectorise. Not for plans with length buckets.
 */
void fby__epoch_resolve(const fby__epoch *epoch, uint32_t phase, uint64_t index, uint32_t n, uint32_t *out_item, uint64_t *out_sample);

/** With parts by key: the spans of a block that are in the epoch, of all streams, in order. */
const fby__plan_item *fby__epoch_block_spans(const fby__epoch *epoch, uint32_t block, uint32_t *out_n);

/** The source that a phase is of; 0 where the plan is no mixture. */
uint32_t fby__epoch_source(const fby__epoch *epoch, uint32_t phase);

/** The samples of the block that an item's [lo, hi) stands for: where samples are drawn, lo and hi count draws. */
void fby__epoch_item_samples(const fby__epoch *epoch, const fby__plan_item *item, uint64_t *out_lo, uint64_t *out_hi);

/** Room to sort one pool of samples by length; it keeps the last pool. One thread at a time. */
typedef struct fby__pool_scratch fby__pool_scratch;
fby_status fby__pool_scratch_create(const fby__plan *plan, fby__pool_scratch **out, fby_error *err);
void fby__pool_scratch_destroy(fby__pool_scratch *scratch); /* NULL is fine */
bool fby__plan_has_pools(const fby__plan *plan);            /* length buckets: resolving needs a scratch */
size_t fby__plan_pool_bytes(const fby__plan *plan);         /* of such a scratch */

/** As fby__epoch_resolve, for any plan. `scratch` may be NULL where the plan has no pools. False: cancelled while a pool was sorted. */
bool fby__epoch_resolve_in(const fby__epoch *epoch, uint32_t phase, uint64_t index, uint32_t n, fby__pool_scratch *scratch,
                           uint32_t *out_item, uint64_t *out_sample);

/**
 * The k-th sample that this rank delivers in the epoch: (block, sample in block). O(log), batches by rows O(batches). For tests and plan
 * printing. Not for plans with length buckets.
 */
void fby__epoch_sample(const fby__epoch *epoch, uint64_t k, uint32_t *out_block, uint64_t *out_sample);

/** Where a sample goes: a batch of this rank and its slot. */
typedef struct fby__destination {
    uint32_t batch; /* counted from the phase's first_batch; FBY__NOWHERE: no batch takes it */
    uint32_t slot;
} fby__destination;
#define FBY__NOWHERE UINT32_MAX

/**
 * The other way round: where samples [lo + first, lo + first + n) of an item of a phase go. In bulk and as fast as fby__epoch_resolve.
 * Only for epochs that have destinations. Where the last batch is wrapped, a sample may have two: that batch's pieces say where its samples
 * go, and here all of it counts as nowhere.
 */
void fby__epoch_destinations(const fby__epoch *epoch, uint32_t phase, uint32_t item, uint64_t first, uint32_t n, fby__destination *out);
/**
 * Before a phase is asked, and when it no longer is: a mixture keeps a table of its batches meanwhile. Begun twice is begun once; an epoch that is
 * destroyed ends all. Not while others ask of the same phase.
 */
fby_status fby__epoch_destinations_begin(fby__epoch *epoch, uint32_t phase, fby_error *err);
void fby__epoch_destinations_end(fby__epoch *epoch, uint32_t phase);
/**
 * Do its epochs have destinations? Not with FULL, batches by rows, length buckets, or samples that are drawn anew in every epoch; a mixture has none
 * with NONE either, nor with a source that is FULL.
 */
bool fby__plan_has_destinations(const fby__plan *plan);
/**
 * What an epoch takes, at most; passes of a mixture's sources but the first are in fby__plan_anew_bytes.
 */
uint64_t fby__plan_epoch_bytes(const fby__plan *plan);
/**
 * What an epoch takes in addition while it is made: the blocks of all ranks; for batches by rows, which are counted on every rank, the orders of all
 * of them; for a mixture, the list of the phases of all passes.
 */
uint64_t fby__plan_making_bytes(const fby__plan *plan);
/** The most batches that a phase of any epoch reaches into, where epochs have destinations. */
uint64_t fby__plan_reach_limit(const fby__plan *plan);

/** How well a batch mixes blocks, against a uniform shuffle of all samples. */
typedef struct fby__mixing {
    double same_block, same_block_uniform;     /* chance that two samples of a batch come from one block */
    double entropy_bits, entropy_bits_uniform; /* mean entropy of a batch over blocks */
    double files, files_uniform;               /* mean number of distinct files in a batch; 0 where files are unknown */
    uint64_t files_least;                      /* least in any whole batch measured, the last one aside */
    double padding;                            /* share of all rows that padding adds; 0 where lengths are unknown */
    uint64_t batches_sampled;
} fby__mixing;

/** The same for one source of a mixture; without a mixture, for all samples. */
typedef struct fby__source_mixing {
    double samples, files; /* of a batch, on average */
    double padding;
} fby__source_mixing;

/** How samples that differ in length are padded: cut to `most`; the longest of a batch is raised to `least` and to a multiple. */
typedef struct fby__padding {
    uint64_t most, least, multiple_of; /* UINT64_MAX, 0 and 1: to the longest of the batch */
} fby__padding;

/**
 * Measured on up to max_batches batches of the epoch, evenly spread (deterministic); uniform values in closed form or sampled. Padding is
 * that of all `paddings` together; without any, that of padding to the longest of each batch.
 *
 * @out_sources  [out] NULL, or one for each source: fby__plan_sources(plan).
 */
fby_status fby__plan_mixing(const fby__epoch *epoch, uint64_t max_batches, const fby__padding *paddings, uint32_t n_paddings,
                            fby__mixing *out, fby__source_mixing *out_sources, fby_error *err);

/* ---- the permutation, for tests ---- */

/** π(i) of the keyed permutation of [0, n), i < n, n ≥ 1. */
uint64_t fby__permute(uint64_t key, uint64_t n, uint64_t i);
/** out[j] = π(i + j), j < count. */
void fby__permute_many(uint64_t key, uint64_t n, uint64_t i, uint32_t count, uint64_t *out);
/** π(out[j]) = i + j, j < count. */
void fby__permute_inverse_many(uint64_t key, uint64_t n, uint64_t i, uint32_t count, uint64_t *out);

#endif
