/*
 * Loaders: an epoch of shuffled batches from a data set, inside a memory budget.
 *
 *     fby_output x = {.name = "x", .columns = (const char *[]){"prcp", "tmax"}, .n_columns = 2, .dtype = FBY_FLOAT32};
 *     fby_loader_opts opts = {FBY_LOADER_SIZES, .outputs = &x, .n_outputs = 1, .batch_size = 512};
 *     fby_loader *loader;
 *     fby_loader_open(ds, &opts, &loader, &err);
 *     fby_batch *batch;
 *     while (fby_loader_next(loader, -1, &batch, &err) == FBY_OK) {
 *         … fby_batch_tensor(batch, 0)->data …
 *         fby_batch_unref(batch);
 *     }
 *     fby_loader_close(loader);
 *
 * Where a function says nothing else: Threads: any, until the loader is closed. Blocks: no. Errors: FBY_E_ARG, FBY_E_NOMEM, FBY_E_STATE (in a forked
 * child). What a pointer leads to belongs to the loader. Since: 0.1
 */
#ifndef FOREBAY_LOADER_H
#define FOREBAY_LOADER_H

#include <forebay/batch.h>
#include <forebay/dataset.h>
#include <forebay/make.h>
#include <forebay/samples.h>
#include <forebay/transform.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fby_loader fby_loader;

/** What an output holds. */
typedef enum fby_source_kind {
    FBY_FROM_COLUMNS,    /* the columns' values */
    FBY_FROM_IS_MISSING, /* bool: where the value is missing (null, or stored as NaN), one flag per row and column: (B) or (B, n). An array is
                            missing when any of its elements is, a list or string when it is null as a whole */
    FBY_FROM_IS_NULL,    /* bool: where the file marks the value as null; in NetCDF: _FillValue, missing_value, outside valid_range */
    FBY_FROM_SAMPLE_INDEX, /* int64, (B): the sample's number in file order; of rows, the row number in the data set. No columns */
    FBY_FROM_ROW_INDEX,    /* int64, (B): the row number in the data set of the sample's first row. No columns */
    FBY_FROM_N_ROWS,       /* int64, (B): how many rows the sample has. No columns */
    FBY_FROM_SEGMENT_IDS,  /* int64, packed, of groups: for every row, which sample of the batch it belongs to, from 0. No columns */
    FBY_FROM_LIT,          /* `value` for every sample, (B), in dtype (float32 by default). No columns */
    FBY_FROM_IS_REPEAT,    /* bool, (B): whether the sample fills up the last batch (FBY_TAIL_WRAP), having come already. No columns */
    FBY_FROM_SOURCE        /* int64, (B): which source of a mixture the sample is of (mix.h), from 0. No columns */
} fby_source_kind;

/** Does such an output say which values are there? */
static inline bool fby_source_is_mask(fby_source_kind from) { return from == FBY_FROM_IS_MISSING || from == FBY_FROM_IS_NULL; }

/** Which rows are kept of a sample that is longer than max_rows. */
typedef enum fby_keep_kind {
    FBY_KEEP_RANDOM, /* a random subset in their order, drawn for sample and epoch, the same in all outputs with one max_rows */
    FBY_KEEP_FIRST   /* the first ones */
} fby_keep_kind;

/**
 * One output: a tensor (or a packed ragged pair) of every batch. Borrowed for the call that takes it.
 *
 * A row gives its values, (B, …); a window those of its rows, (B, steps, …); a group those of its rows, packed, (ΣL, …) and offsets.
 * With one_step, all three give those of one row of the sample, (B, …); strings and lists always need it where samples have several
 * rows.
 */
typedef struct fby_output {
    const char *name;
    fby_source_kind from;
    const char *const *columns; /* dotted paths, in the order they are stacked */
    size_t n_columns;
    bool keep_axis;  /* with one column: shape (B, 1) instead of (B). Several columns always have their axis */
    fby_dtype dtype; /* FBY_DTYPE_NONE: the columns' own when they agree, else float32 */
    fby_layout layout;
    double value;                  /* FBY_FROM_LIT */
    bool one_step;                 /* only row step_begin of the sample (0 = its first); for groups, strings and lists it must be 0 */
    uint64_t step_begin, step_end; /* windows: rows [begin, end) of the sample; both 0 = all */
    const fby_op *ops; /* n_ops row operations, done in this order. Missing values that none of them fills are NaN in float outputs and
                          FBY_E_DATA in others. What computes gives floats: by default in the columns' own dtype when they agree on a
                          floating one, else float32. With `make`: done to every column before */
    size_t n_ops;
    const fby_make *make;            /* NULL = the values as they are */
    const fby_op *const *column_ops; /* with `make`: NULL, or operations of each column, n_column_ops[i] of column i, in place of ops */
    const size_t *n_column_ops;
    const fby_after *after; /* n_after of them, in place, in this order, when a batch is built; dense outputs alone */
    size_t n_after;
    const int64_t *reshape; /* NULL, or n_reshape axes that a value of one row (or of one sample, where it is made of that) has
                                         instead of its own: as many elements; one axis may be -1 */
    size_t n_reshape;
    bool optional;        /* leave the output out when a column is not in the data set, such as a label at inference */
    uint64_t max_rows;    /* RAGGED, PADDED: longer samples (or lists) are cut to so many rows, see keep; 0 = not at all */
    uint64_t multiple_of; /* PADDED: the length is a multiple of it; 0 = 1 */
    bool pad_to_max;      /* PADDED: the length is max_rows always, else the longest of the batch */
    bool want_lengths;    /* PADDED: lengths (B) beside the values instead of a mask (B, L) */
    double pad;           /* PADDED: where there is no row */
    fby_keep_kind keep;   /* with max_rows */
} fby_output;

typedef enum fby_shuffle_kind {
    FBY_SHUFFLE_SUPERBATCH, /* blocks permuted over the data set, samples permuted within superbatches (default) */
    FBY_SHUFFLE_FULL,       /* one uniform permutation of all samples; the budget must hold the decoded data */
    FBY_SHUFFLE_BLOCK,      /* blocks permuted, rows in order */
    FBY_SHUFFLE_NONE        /* file order */
} fby_shuffle_kind;

typedef enum fby_tail_kind {
    FBY_TAIL_AUTO, /* keep at world size 1, wrap at more */
    FBY_TAIL_KEEP, /* a last, shorter batch */
    FBY_TAIL_DROP, /* whole batches only */
    FBY_TAIL_WRAP, /* the last batch is filled with repeats (at most global batch − 1, counted; FBY_FROM_IS_REPEAT marks them) */
    /*
     * every sample once over all ranks: the last batch is shorter, and some ranks have one batch fewer (with batch_elements, several) or
     * none at all. What all ranks do together after every batch (averaging gradients, any collective) would wait for ever for ranks that
     * have no batch left
     */
    FBY_TAIL_UNEVEN
} fby_tail_kind;

#define FBY_EPOCH_TRIAL UINT64_MAX /* the epoch of a batch that is only tried: see fby_transform_fn */

/**
 * Code of the application's, run on every batch after it is assembled and before it is handed out. It may change the values of the
 * tensors in place; not their shapes, nor offsets, masks and lengths, which say what the shapes are. For tensors of other shapes,
 * compute them from the batch that fby_loader_next() gave.
 *
 * @user    transform_user of the options.
 * @batch   borrowed for the call: keep no reference, pointer or export of it. fby_batch_epoch() and fby_batch_index() say which one it
 *          is: all that randomness should depend on, so that an epoch that is resumed gives the same values.
 * @err     [out] never NULL; on failure write a message, and sys_errno where there is one.
 *
 * Returns FBY_OK, or an error (FBY_E_…): fby_loader_next() returns it in place of this batch, with "transform of batch 7, epoch 0: "
 * before the message; the batches before it are delivered, the epoch is then over.
 * Threads: the loader's; a call may be on another thread than the one before it, which has ended by then and whose writes are seen. One
 * call at a time, strictly in the order of the batches, each once an epoch: from the first, or the one that fby_loader_begin_at() names.
 * It runs ahead of the consumer, by transform_prefetch at most, and not for batches that the program will not get any more.
 * Blocks: as long as it likes; fby_loader_begin(), fby_loader_state_set() and fby_loader_close() wait for a call that runs (the first two until
 * their token is set: FBY_E_CANCELLED), fby_loader_cancel() does not.
 * It must call no function of this loader, nor of another one that waits for this one.
 *
 * The trial: fby_loader_open() calls it once, on the thread that opens and before any epoch, with the first samples in file order (as many
 * as a batch has); fby_batch_epoch() of that batch is FBY_EPOCH_TRIAL. It is thrown away; order and state do not change. So a transform
 * that never works is refused when the loader is opened, not when the first batch is due. fby_loader_opts.transform_unchecked leaves
 * it out. Since: 0.2
 */
typedef fby_status (*fby_transform_fn)(void *user, fby_batch *batch, fby_error *err);

/** The sizes of the structs, as this header has them: fby_loader_opts opts = {FBY_LOADER_SIZES, .batch_size = 512}; */
#define FBY_LOADER_SIZES                                                                                                                   \
    .size = sizeof(fby_loader_opts), .output_size = sizeof(fby_output), .op_size = sizeof(fby_op), .make_size = sizeof(fby_make),          \
    .after_size = sizeof(fby_after)

/** Options of fby_loader_open. Set the sizes (FBY_LOADER_SIZES); zero everything else for the defaults. */
typedef struct fby_loader_opts {
    size_t size; /* sizeof(fby_loader_opts) */
    /* Where there are any: sizeof(fby_output), and of what outputs point to */
    size_t output_size, op_size, make_size, after_size;
    const fby_output *outputs; /* NULL and 0: one output per column that can be one, under the column's name */
    size_t n_outputs;
    uint64_t batch_size; /* samples in a batch of this rank; ≥ 1. With batch_elements: at most so many, 0 = 65,536 */
    fby_shuffle_kind shuffle;
    fby_tail_kind tail;
    uint64_t seed;
    /* the superbatch: at most one of the three; all 0 = 512 MiB stored, at least 8 blocks */
    uint64_t superbatch_samples, superbatch_blocks, superbatch_bytes; /* bytes: as stored, all columns */
    uint32_t streams;                                                 /* 0 = 8 */
    uint32_t rank, world_size;                                        /* world_size 0 = 1 */
    uint64_t memory_bytes;      /* the budget; 0 = two superbatches, at most half of the memory available now to this loader */
    int n_threads;              /* 0 = the CPUs this process may use */
    uint32_t prefetch_batches;  /* finished batches kept ready; 0 = 8 */
    fby_samples *samples;       /* of the same data set; borrowed, the loader holds a reference. NULL = its rows */
    fby_transform_fn transform; /* code of yours, run on every batch before it is handed out; NULL = none */
    void *transform_user;       /* given to it; borrowed until fby_loader_close() returns */
    bool transform_unchecked;   /* do not try it when the loader is opened: it is first called in the first epoch */
    /*
     * Parts: an epoch is one part of the files. Either part_files of them are a part, or the files are dealt into n_parts; at most one of the
     * two; both 0 = an epoch is all files. Every file comes once before the parts are drawn anew; the last part has what is left. By default the
     * superbatch is then the whole part.
     */
    uint32_t part_files, n_parts;
    /*
     * Parts by key: as parts of files, but what stays together are the samples with one value of a column, wherever they lie: basins inside one
     * large file. Either part_keys keys are a part, or, with part_key, the keys are dealt into n_parts. The column is read once, when the
     * loader is opened; a sample without a key is an error. In each block, the rows of the part's keys are read together; data that are sorted
     * by the key are read fastest.
     */
    uint32_t part_keys;
    const char *part_key; /* the column, of the sample's first row; NULL with part_keys = the key of the samples (fby_select_opts.column) */
    /*
     * Diversity, with shuffle SUPERBATCH: at least so many distinct files in every whole batch over all ranks (less than one batch in ten
     * thousand has fewer), and at most so many batches in a row from one superbatch (≥ 2). Blocks are then cut into slices, as large as that
     * allows, and each is read by itself: fby_report.reads_per_block says how often a block is read in an epoch. 0 = no such limit.
     */
    uint32_t diversity_files, max_superbatch_batches;
    /*
     * Batches of so many rows: whole samples (groups, windows) up to batch_elements rows in all, at least one sample, in the order that the
     * shuffle gives. 0 = batches of batch_size samples. Length buckets, of shuffles SUPERBATCH and FULL and samples that differ in length:
     * so many samples are sorted by length together, and batches are cut from them and permuted, so that padding wastes little; 0 = none.
     * With either, streams are ranks: another world size gives another order, and a state can be resumed with the same one only. With
     * batch_elements the beginning of an epoch looks at every sample.
     */
    uint64_t batch_elements, bucket_samples;
    /*
     * Ranks on this host, this one included: they share its memory, and a default budget is at most half of one rank's share. 0 = as
     * many as their launcher says (LOCAL_WORLD_SIZE, or what Open MPI, MVAPICH, MPICH, Intel MPI and Slurm set); where none does, world_size: all
     * of them are here.
     */
    uint32_t local_world_size;
    /*
     * In place of memory_bytes: a fraction, above 0 and at most 1, of what is available to this loader when it is opened; or as much as it
     * takes to hold everything, so that every block is decoded once: where that is not available, FBY_E_BUDGET says how much it would be. What
     * lists and strings take is then read from the data, once, while the loader is opened. At most one of the three.
     */
    double memory_fraction;
    bool memory_all;
    /*
     * With SUPERBATCH: all superbatches of an epoch have the same size, and its first batch waits until the whole first one is there. Otherwise
     * the first three are an eighth, a quarter and a half of a superbatch, so that the first batch comes early.
     */
    bool no_warmup;
    /*
     * When fby_loader_next() has waited so many milliseconds, the log (log.h) gets a warning with what the batch waits for; never for the first
     * batch of an epoch. 0 = 50.
     */
    uint64_t slow_next_ms;
    /*
     * How many batches the transform runs ahead of the consumer; a smaller prefetch_batches is raised to it. 0 = prefetch_batches; with
     * transform_pulled 2, since its results do not count in the budget.
     */
    uint64_t transform_prefetch;
    bool transform_pulled; /* batches are transformed by threads of the program's: fby_loader_transform_next(). Not with `transform` */
    /*
     * In place of slow_next_ms: a share, above 0, of the mean step, the program's time between two batches (the very first left out). Until 8
     * steps have been seen it is 50 ms. Not with slow_next_ms.
     */
    double slow_next_share;
} fby_loader_opts;

/**
 * An option that is written as a quantity, into the fields that it fills: "memory" ("8GiB", "70%" of what is available, "all"), "superbatch"
 * ("50 blocks", "100000 samples", "256MiB") or "part" ("1000 files", "1000 keys", "1/10").
 *
 * FBY_E_ARG says what to write. *opts is untouched on failure. Threads: any. Blocks: no. Since: 0.2
 */
FBY_API fby_status fby_loader_opts_parse(const char *name, const char *text, fby_loader_opts *opts, fby_error *err);

/**
 * Open a loader: resolves outputs, plans, checks the budget. Starts threads; before the first epoch begins it reads no data but the column
 * of the keys that parts are made of, and the first samples in file order to try a transform on.
 *
 * @ds    borrowed; the loader holds a reference.
 * @out   [out] owned by the caller: fby_loader_close().
 * Errors: FBY_E_ARG (options that do not fit, the message names both), FBY_E_SCHEMA (unknown column, a column missing in
 * a file), FBY_E_UNSUPPORTED (a type that cannot be a tensor, named), FBY_E_BUDGET (the smallest budget that would do and the
 * largest superbatch that would fit), FBY_E_NOMEM, FBY_E_STATE; what the transform returned when it was tried, or what reading for it gave.
 * Threads: any. Blocks: on reading keys of parts, and samples for the transform. Callbacks: the transform, when it is tried. Since: 0.1
 */
FBY_API fby_status fby_loader_open(fby_dataset *ds, const fby_loader_opts *opts, fby_loader **out, fby_error *err);

/**
 * Stops the threads, and frees everything but batches still held. NULL is fine. Threads: one, while no other uses the loader.
 * Blocks: until the threads have ended; a transform that runs is waited for.
 */
FBY_API void fby_loader_close(fby_loader *loader);

/**
 * Begin an epoch: what was under way is cancelled, and prefetching starts. Without this call fby_loader_next begins epoch 0, and after
 * FBY_END the next one. Where this very epoch is under way and has given no batch yet, it goes on, and nothing is read again.
 *
 * An earlier fby_loader_cancel no longer counts. One while this function runs does: FBY_E_CANCELLED, here or in place of the next batch.
 *
 * Threads: the consumer's. Blocks: until what was under way has stopped; reads that have begun and a transform that runs are waited for.
 */
FBY_API fby_status fby_loader_begin(fby_loader *loader, uint64_t epoch, fby_error *err);

/**
 * The next batch of the epoch, in order.
 *
 * @timeout_ns  how long to wait; -1 = as long as it takes; 0 = not at all.
 * @out         [out] owned by the caller: fby_batch_unref(). Untouched unless FBY_OK.
 * FBY_OK; FBY_END at the end of the epoch; FBY_TIMEOUT; an error at the batch it belongs to (the epoch is then over: begin
 * again); FBY_E_STATE in a child process after fork; FBY_E_CANCELLED when fby_loader_cancel was called.
 * Threads: one consumer at a time. Blocks: up to the timeout; where it begins an epoch, also as fby_loader_begin.
 */
FBY_API fby_status fby_loader_next(fby_loader *loader, int64_t timeout_ns, fby_batch **out, fby_error *err);

/**
 * A transform in threads of the program's, for languages whose code cannot run on the loader's, and for results that are no batches
 * (fby_loader_opts.transform_pulled). As with fby_transform_fn, batches come one at a time, in order, and ahead of the consumer by transform_prefetch at
 * most; fby_batch_epoch() and fby_batch_index() say which one it is, and the report has the time:
 *
 *     epoch = fby_loader_epochs_begun(loader);                           a thread for each epoch, started when it has begun
 *     while (fby_loader_transform_next(loader, epoch, &batch, &err) == FBY_OK)
 *         fby_loader_transform_done(loader, made_of(batch), drop, NULL, &err);
 *
 *     while (fby_loader_next_result(loader, -1, &result, &err) == FBY_OK)     the consumer
 *         …
 *
 * fby_loader_transform_next() gives the batch whose turn it is, when those before it are done and the consumer is near enough; it waits until then.
 *
 * @epochs_begun  the number of the epoch that the thread serves: of another one it gets none.
 * @out           [out] owned by the caller, as a batch of fby_loader_next(): it has left the budget. Untouched unless FBY_OK.
 *
 * FBY_OK; FBY_END when nothing more is wanted of that epoch (all of it was transformed, it failed, was cancelled, or another one begins).
 * Threads: any number of them; each batch is given once, and none before the one before it is done. All of them end before fby_loader_close() is
 * called: fby_loader_cancel() makes them. Blocks: yes. Since: 0.2
 */
FBY_API fby_status fby_loader_transform_next(fby_loader *loader, uint64_t epochs_begun, fby_batch **out, fby_error *err);

/**
 * The batch that fby_loader_transform_next() gave is transformed. Each one must be done: fby_loader_begin(), fby_loader_state_set() and
 * fby_loader_close() wait for it, and for releases.
 *
 * @result   what the consumer gets; may be NULL, or that very batch. Taken over, whatever is returned.
 * @release  NULL, or called with a result that nobody will take: by fby_loader_cancel(), by whoever begins, goes elsewhere or closes, or at once
 *           when the epoch is over. On the thread that does so, under no lock of the library's; it must call no function of this loader.
 * @failed   NULL, or why there is none: the epoch is over at this batch, where the consumer gets this error, and `result` with it. Copied.
 *
 * FBY_OK; FBY_E_STATE when no batch was given. Threads: any. Blocks: no. Since: 0.2
 */
FBY_API fby_status fby_loader_transform_done(fby_loader *loader, void *result, void (*release)(void *result), const fby_error *failed,
                                             fby_error *err);

/**
 * fby_loader_next() of such a loader: gives what was made of the next batch. *out is owned by the caller; NULL where there is none, as with errors that
 * are not the transform's own. Errors, threads, blocking: as fby_loader_next(). Since: 0.2
 */
FBY_API fby_status fby_loader_next_result(fby_loader *loader, int64_t timeout_ns, void **out, fby_error *err);

/** How many epochs were begun: another number when one begins, the same when one that has begun goes on. Threads: any. Since: 0.2 */
FBY_API uint64_t fby_loader_epochs_begun(const fby_loader *loader);

/**
 * Make a waiting or the next fby_loader_next return FBY_E_CANCELLED, also before the first epoch and between two; the epoch is over, and
 * every further call returns the same until fby_loader_begin, fby_loader_begin_at or fby_loader_state_set says where to go on.
 * Threads: any.
 */
FBY_API void fby_loader_cancel(fby_loader *loader);

/** Exact counts for the epoch under way, else for the next one. Epochs differ only where they are parts. Threads: any. */
FBY_API uint64_t fby_loader_batch_count(const fby_loader *loader);
FBY_API uint64_t fby_loader_sample_count(const fby_loader *loader); /* that this rank delivers */

/**
 * Batches and samples (of this rank) of any epoch; either may be NULL. With batch_elements, the batches of
 * an epoch that is neither under way nor next have to be cut for it, which looks at every sample. Errors: FBY_E_NOMEM; FBY_E_ARG when tail
 * DROP leaves it no batch.
 * Threads: any. Since: 0.2
 */
FBY_API fby_status fby_loader_count_of(fby_loader *loader, uint64_t epoch, uint64_t *out_batches, uint64_t *out_samples, fby_error *err);

/** One output as it will be delivered. Strings borrowed from the loader. */
typedef struct fby_output_info {
    size_t size; /* set by the caller: sizeof(fby_output_info) */
    const char *name;
    fby_dtype dtype;
    fby_layout layout; /* DENSE, RAGGED or PADDED */
    bool text;         /* ragged bytes that are UTF-8 strings */
    bool want_lengths; /* padded: lengths beside the values, not a mask */
    int32_t ndim;      /* of a dense batch, the batch axis included */
    /* shape[0] is the batch size, -1 with batch_elements; ragged: values' shape with -1 first; padded: -1 second, unless all are padded to
     * one length */
    int64_t shape[FBY_MAX_DIMS];
    uint64_t step_begin, step_end; /* which steps of a window its values come from; 0 and 0 where it has none */
} fby_output_info;
FBY_API size_t fby_loader_output_count(const fby_loader *loader);
FBY_API fby_status fby_loader_output(const fby_loader *loader, size_t i, fby_output_info *out, fby_error *err);

/**
 * What a colleague would ask about the outputs, as sentences for people: such as one that takes whole windows, and so holds the very steps
 * that another output takes as the target. Borrowed from the loader; NULL past the last. Threads: any. Since: 0.2
 */
FBY_API const char *fby_loader_note(const fby_loader *loader, size_t i);

/** What limits a run. X(name, word). */
#define FBY_LIMIT_LIST(X)                                                                                                                  \
    X(TOO_EARLY, "too_early")   /* too few batches, or too little time, since the first one */                                             \
    X(STORAGE, "storage")       /* reading */                                                                                              \
    X(DECOMPRESS, "decompress") /* CPU, most of it there; as the next two */                                                               \
    X(DECODE, "decode")                                                                                                                    \
    X(ASSEMBLE, "assemble")                                                                                                                \
    X(TRANSFORM, "transform")     /* the application's own */                                                                              \
    X(TRANSFER, "transfer")       /* to a device */                                                                                        \
    X(MODEL, "model")             /* what the program does with the batches */                                                             \
    X(MEMORY, "memory")           /* the budget */                                                                                         \
    X(THREADS, "threads")         /* all are busy, and there are more CPUs */                                                              \
    X(FIRST_BATCH, "first_batch") /* epochs are short compared with the time to their first batch */                                       \
    X(BALANCED, "balanced")       /* nothing stands out */

typedef enum fby_limit {
#define FBY_LIMIT_ENUM(name, word) FBY_LIMIT_##name,
    FBY_LIMIT_LIST(FBY_LIMIT_ENUM)
#undef FBY_LIMIT_ENUM
        FBY_LIMIT_COUNT
} fby_limit;

/** The word of a limit: "storage". Static. Since: 0.2 */
FBY_API const char *fby_limit_name(fby_limit limit);

/** One thing to change, and what that should give. Frozen: no field is ever added. */
typedef struct fby_cure {
    char change[120];          /* what to change: "memory=3.2GiB" */
    char why[240];             /* a sentence */
    double samples_per_second; /* expected, in the steady state */
    double factor;             /* that over what was measured */
} fby_cure;
#define FBY_CURES_MAX 4

/** Where the time went. Times in ns, summed over threads; taken while running, so fields may be a moment apart. */
typedef struct fby_report {
    size_t size; /* set by the caller: sizeof(fby_report) */
    uint64_t epochs_begun, batches, samples;
    uint64_t bytes_read, bytes_decompressed, bytes_decoded, bytes_delivered;
    uint64_t blocks_read, blocks_from_cache, blocks_evicted; /* from the cache: decoded before, by this loader or another of the process */
    uint64_t elapsed_ns;                                     /* since the first epoch began */
    uint64_t first_batch_ns;                                 /* from the beginning of the last epoch to its first batch */
    uint64_t read_ns, decompress_ns, decode_ns, assemble_ns; /* decode without decompress */
    uint64_t transform_ns;                                   /* inside the application's transform */
    uint64_t wait_ns;                                        /* the consumer inside fby_loader_next */
    uint64_t work_ns;                                        /* the consumer between two calls */
    uint64_t consumer_cpu_ns;                                /* CPU time of the consumer's thread inside fby_loader_next */
    uint64_t worker_cpu_ns;
    uint64_t wait_p50_ns, wait_p95_ns, wait_p99_ns, wait_max_ns;
    uint64_t budget_bytes, budget_peak_bytes, budget_minimum_bytes, batches_out, batches_out_bytes;
    uint64_t superbatch_samples;
    uint32_t streams, n_threads;
    uint64_t n_dropped, n_wrapped; /* of the epoch under way or next */
    uint32_t n_parts;              /* epochs until every file, or key, came once */
    uint64_t slice_samples;        /* blocks are cut into equal slices of at most so many samples; 0 = not at all */
    double reads_per_block;        /* in an epoch, over all ranks: an upper bound, averaged over the blocks that have samples */
    uint64_t epoch_bytes;          /* stored bytes read in it over all ranks, at most; with parts, until every file came once */
    double files_per_batch,
        files_per_batch_uniform;    /* mixing: distinct files in a batch of this rank, on average; 0 where there are no files */
    uint64_t files_per_batch_least; /* of the whole batches that were measured */
    double padding,
        padding_unsorted; /* share of the rows of padded outputs that is padding, after max_rows: as it is, and as it would be without
                             length buckets. Without padded outputs: as if samples were padded to the longest of their batch; 0 where
                             all have one length */
    double same_block, same_block_uniform;     /* mixing: chance that two samples of a batch come from one block */
    double entropy_bits, entropy_bits_uniform; /* mixing: entropy of a batch over blocks */
    const char *io_engine;                     /* static */
    char verdict[320];                         /* one or two sentences: what limits, and what to do */
    char mixing[320];                          /* one line about the shuffle's mixing */
    /*
     * When the loader was opened: what the machine, control groups (v1 and v2, those above them too) and RLIMIT_AS and RLIMIT_DATA left;
     * the smallest of these limits, and which it is ("cgroup v2 /job/memory.max 300 MiB"). A budget_bytes beyond memory_limit_bytes was
     * asked for by name, and the process may be killed before it is reached.
     */
    uint64_t memory_available_bytes, memory_limit_bytes;
    char memory_limit[256];
    /*
     * What `verdict` says, as data: what fby_report_judge makes of the numbers. As soon as enough has been seen of later epochs, they alone are
     * judged: the first finds cold caches. Waits for first batches, the program's first step and the time between epochs are kept apart.
     */
    fby_limit limit;
    double confidence;         /* 0 to 1: how much was seen, and how clearly it says so; 0 of TOO_EARLY */
    char reason[240];          /* why it is as sure as that */
    uint32_t n_cures;          /* how many cures are filled in, the one with the largest gain first */
    uint32_t n_epochs;         /* how many epochs fby_loader_epoch knows: the latest ones, the one under way included */
    uint32_t n_cpus;           /* that the process may use */
    uint64_t transfer_ns;      /* of the consumer: moving batches to a device, as fby_loader_transferred was told. Not in work_ns */
    uint64_t gap_ns;           /* between the end of an epoch and the beginning of the next: validation, checkpoints. Not in work_ns */
    uint64_t first_batches_ns; /* of wait_ns: for the first batch of each epoch */
    uint64_t first_step_ns;    /* of work_ns: with the very first batch, when a program compiles and allocates */
    uint64_t reading_ns;       /* time during which some file was being opened or read; read_ns adds up all reads */
    uint64_t memory_wait_ns;   /* time in which no block could be loaded for want of budget, and none was being loaded */
    uint64_t process_cpu_ns;   /* CPU time of the whole process since the first epoch began */
    /*
     * The smallest budget with which the next superbatch loads while the batches of this one are taken. Where budget_bytes is more than that and still
     * does not give it (outputs that are wider than what is stored), the next larger budget that does.
     */
    uint64_t overlap_bytes;
    uint64_t keep_all_bytes; /* a budget with which every block stays decoded: nothing is read twice. 0 = there is none */
    fby_cure cures[FBY_CURES_MAX];
    uint32_t n_padded; /* outputs that are padded to the longest sample of their batch */
    uint64_t n_blocks; /* that have samples: those of the split, where there are splits */
} fby_report;
FBY_API fby_status fby_loader_report(fby_loader *loader, fby_report *out, fby_error *err);

/**
 * Make `report` cover only what happened after `before`, an earlier report of the same loader: counts and times become differences, and it is
 * judged anew. Quantiles and figures of the plan stay as they are. FBY_E_ARG when `before` is not earlier. Threads: any; pure. Since: 0.2
 */
FBY_API fby_status fby_report_since(fby_report *report, const fby_report *before, fby_error *err);

/**
 * Fill limit, confidence, reason, verdict and cures from a report's other fields: for a program that has changed them. Pure.
 * Threads: any. Since: 0.2
 */
FBY_API fby_status fby_report_judge(fby_report *report, fby_error *err);

/** One epoch. Counts and times are of the time from its beginning to its end, reading ahead for the next epoch included. */
typedef struct fby_epoch {
    size_t size; /* set by the caller: sizeof(fby_epoch) */
    uint64_t epoch;
    bool ended; /* its last batch was taken, and the end seen */
    fby_limit limit;
    uint64_t batches, samples;
    uint64_t elapsed_ns, first_batch_ns, wait_ns, work_ns, transfer_ns;
    uint64_t gap_ns; /* from the end of the epoch before it */
    uint64_t bytes_read, bytes_decompressed, bytes_decoded, bytes_delivered;
    uint64_t blocks_read, blocks_from_cache, blocks_evicted;
    uint64_t reading_ns, read_ns, decompress_ns, decode_ns, assemble_ns, transform_ns; /* as in fby_report */
    uint64_t memory_wait_ns, worker_cpu_ns, consumer_cpu_ns;
} fby_epoch;

#define FBY_EPOCHS_KEPT 128

/**
 * Epoch i of fby_report.n_epochs, oldest first; the latest FBY_EPOCHS_KEPT are known. FBY_E_ARG past the last. Threads: any.
 * Since: 0.2
 */
FBY_API fby_status fby_loader_epoch(fby_loader *loader, size_t i, fby_epoch *out, fby_error *err);

#define FBY_WAITS_MOST 512 /* ranges of fby_loader_waits() */

/**
 * How long the consumer waited for batches so far: the middles of ranges of durations, each within 6.25 % of all in it, and how many waits
 * fell into each; empty ones are left out.
 *
 * @out_ns, @out_counts  [out] up to `room` of them.
 *
 * Returns how many there are, at most FBY_WAITS_MOST. Threads: any. Since: 0.2
 */
FBY_API size_t fby_loader_waits(const fby_loader *loader, uint64_t *out_ns, uint64_t *out_counts, size_t room);

/**
 * Say how much of the time since the last fby_loader_next went into moving its batch to a device: the report then tells it apart from the
 * program's work. Threads: the consumer's. Since: 0.2
 */
FBY_API void fby_loader_transferred(fby_loader *loader, uint64_t ns);

/**
 * Begin an epoch at its batch `batch`, from 0: as if the batches before it had been taken, without reading them. Until the consumer
 * has it, no more is read than the superbatch it lies in. With the number of batches: an epoch that is at its end. Where that batch comes next anyway,
 * nothing is begun or read again.
 * Errors: those of fby_loader_begin; FBY_E_ARG when the epoch has fewer batches. Threads, blocking: as fby_loader_begin. Since: 0.2
 */
FBY_API fby_status fby_loader_begin_at(fby_loader *loader, uint64_t epoch, uint64_t batch, fby_error *err);

#define FBY_STATE_VERSION 2 /* raised when a newer library would go on with another order */
#define FBY_STATE_FILES 32

/**
 * Where a loader stands: what is needed to go on in another process, and to see whether that loader would go on with the same
 * batches. Plain numbers and text, to be saved as the program likes. Threads, budget, prefetching and outputs are not in it.
 */
typedef struct fby_loader_state {
    size_t size;      /* set by the caller: sizeof(fby_loader_state) */
    uint32_t version; /* FBY_STATE_VERSION */
    uint32_t streams; /* in effect */
    uint32_t world_size;
    fby_shuffle_kind shuffle; /* in effect: SUPERBATCH is FULL when the data set is no larger than one */
    fby_tail_kind tail;       /* in effect: never AUTO */
    uint64_t epoch, batch;    /* the batch that comes next; batches that were prefetched but not taken do not count */
    uint64_t seed, global_batch, superbatch_samples;
    uint64_t n_rows, n_files, n_blocks;
    uint64_t n_samples, samples;     /* samples: a hash of how many each block has */
    uint64_t files[FBY_STATE_FILES]; /* hashes of runs of files: run i is files [i n/k, (i+1) n/k) with k = min(n, FBY_STATE_FILES) */
    char identity[33], fingerprint[33];
    uint32_t part_files, n_parts;                     /* parts of an epoch as they were asked for; 0 and 0: none, or by keys */
    uint32_t diversity_files, max_superbatch_batches; /* as asked for */
    uint64_t batch_elements, bucket_samples;
    uint32_t part_keys;      /* as asked for */
    uint64_t part_keys_hash; /* of parts by key, which samples have which; else 0 */
    char contents[33];       /* as fingerprint, without the files' times; "" = not known: the times decide */
    uint64_t inodes;         /* a hash of the files' inodes */
    bool no_warmup;          /* as asked for */
    uint64_t mix;            /* of a mixture, a hash of weights and stop; else 0. Names and files are then those of all sources */
} fby_loader_state;

/** Where the loader stands. After FBY_END: at the beginning of the next epoch. Threads: the consumer's. Since: 0.2 */
FBY_API fby_status fby_loader_state_get(fby_loader *loader, fby_loader_state *out, fby_error *err);

/**
 * Go on where a state was taken: the next fby_loader_next gives that batch, bit for bit what the loader it was taken from would have
 * given, with any number of threads, any budget, and any world size that divides the streams with the same global batch (with
 * batch_elements or bucket_samples, the same world size).
 *
 * FBY_E_CHANGED: another data set, or files that changed since; the message says what and where.
 * FBY_E_ARG: a seed, shuffle, superbatch, number of streams, parts, diversity, batch_elements, buckets, tail or global batch that differs
 * (the message has both); a state that is damaged or of a newer library. The loader is then as it was.
 * Threads: the consumer's. Reads no data. Since: 0.2
 */
FBY_API fby_status fby_loader_state_set(fby_loader *loader, const fby_loader_state *state, fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
