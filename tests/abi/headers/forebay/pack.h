/*
 * Packing: a data set written anew, shuffled, in files of one size that every tool reads.
 *
 *     fby_pack_opts opts = {.size = sizeof opts, .seed = 7};
 *     fby_pack_info info = {.size = sizeof info};
 *     if (fby_pack(ds, "packed", &opts, &info, &err) != FBY_OK) …
 */
#ifndef FOREBAY_PACK_H
#define FOREBAY_PACK_H

#include <forebay/base.h>
#include <forebay/dataset.h>
#include <forebay/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The order of the rows in the pack. */
typedef enum fby_pack_shuffle {
    FBY_PACK_SHUFFLE_FULL, /* the order of the first epoch of a loader with shuffle FULL, this seed and one stream */
    FBY_PACK_SHUFFLE_NONE  /* the order of the source */
} fby_pack_shuffle;

typedef enum fby_pack_format {
    FBY_PACK_ARROW,   /* Arrow IPC files: rows are used in place */
    FBY_PACK_PARQUET, /* smaller, and read by more tools */
    FBY_PACK_HDF5     /* numbers, text and arrays of numbers, null only among floats, as NaN; by libhdf5, in the helper program */
} fby_pack_format;

typedef enum fby_pack_codec {
    FBY_PACK_CODEC_AUTO, /* none for Arrow and HDF5, zstd for Parquet */
    FBY_PACK_CODEC_NONE,
    FBY_PACK_CODEC_LZ4,
    FBY_PACK_CODEC_ZSTD,
    FBY_PACK_CODEC_SNAPPY, /* Parquet alone */
    FBY_PACK_CODEC_GZIP    /* HDF5 alone, behind a byte shuffle */
} fby_pack_codec;

/** What becomes of units and calendars that the source's files state differently; the numbers stay as they are. */
typedef enum fby_pack_units {
    FBY_PACK_UNITS_SAME, /* an error, with both files */
    FBY_PACK_UNITS_FIRST /* the pack has those of the first file: where one says "degC" and another "celsius". The note names the others */
} fby_pack_units;

/** Options of fby_pack. Set size; zero everything else for the defaults. */
typedef struct fby_pack_opts {
    size_t size; /* sizeof(fby_pack_opts) */
    fby_pack_shuffle shuffle;
    uint64_t seed;
    fby_pack_format format;
    fby_pack_codec codec;
    uint64_t batch_rows;        /* of a record batch, row group or chunk; 0 = about 4 MiB, at most 65,536 rows */
    uint64_t rows_per_file;     /* the last batch of a file has what is left; 0 = about 256 MiB, in whole batches */
    const char *const *columns; /* n_columns names of top-level columns; NULL = all */
    size_t n_columns;
    uint64_t memory_bytes; /* how much memory packing may take; 0 = half of what the process may. Changes no byte of the pack */
    int n_threads;         /* tasks at a time; 0 = the CPUs that the process may use. Changes no byte either */
    bool verify;           /* read source and pack again, and compare their rows: sums of a 128-bit hash of each row, whatever the order */
    bool dry_run;          /* say what would be done, and leave nothing behind: a batch is tried, and how fast the disk is */
    fby_progress_fn progress;
    void *progress_user;
    /*
     * NULL, or: pack what a loader with these outputs and samples delivers, in place of rows and columns. Each output becomes a column of its name;
     * arrays are fixed-size lists; what varies in length, padded or not, is a list. What would differ from epoch to epoch (random crops and masks,
     * draws of rows, samples drawn by weights) is FBY_E_UNSUPPORTED, with the output's name, and so is a transform. Only outputs and samples are
     * used; other options are ignored.
     */
    const fby_loader_opts *loader;
    const char *pipeline; /* with loader: NULL, or a text that is kept in the pack, to say how it was made: the pipeline file */
    /*
     * NULL, or a column, or with `loader` an output, of integers, booleans or text: each value has files of its own, part-VALUE-00000.arrow and so on,
     * and with a shuffle its rows are mixed only with each other. Every row needs a value, and the
     * column has at most 65,536 different ones.
     */
    const char *by;
    fby_pack_units units;
} fby_pack_opts;

/** What was done, or would be. */
typedef struct fby_pack_info {
    size_t size; /* set by the caller: sizeof(fby_pack_info) */
    uint64_t rows, files;
    uint64_t rows_per_file, batch_rows; /* as chosen */
    uint64_t source_bytes;              /* as stored */
    uint64_t decoded_bytes;             /* about, of the chosen columns in memory */
    uint64_t scratch_bytes;             /* about: what lies in the target folder meanwhile, besides the pack; 0 = nothing */
    uint64_t written_bytes;             /* of the pack's files; dry run: 0 */
    uint32_t passes;                    /* over the data: 1, or 2 where rows are scattered first */
    uint32_t buckets;                   /* that rows are scattered into */
    bool resumed; /* an earlier call had stopped, and this one finished its work; of a task: some or all of it was complete */
    bool verified;
    char contents[33];       /* of the source: 32 hex digits, as fby_loader_state has them */
    char rows_hash[33];      /* with verify: the sum */
    uint64_t expected_bytes; /* dry run: about, of the pack's files; else 0 */
    uint64_t expected_ns;    /* dry run: about, what packing takes; else, and where the folder cannot be written, 0 */
    uint64_t keys;           /* by a key: how many values it has; else 0 */
    /*
     * "", or what the pack lacks: columns that could not be read; metadata on which files differ, or which the pack's format has no place for; with
     * FBY_PACK_UNITS_FIRST, the units that other files state.
     */
    char note[600];
} fby_pack_info;

/**
 * Write a data set anew into a folder: part-00000.arrow and so on, then _pack.json, which says what it was made of. The bytes of the files
 * depend on the source, the options (but for those marked above) and the versions of the codecs.
 *
 * Until all of it is written nothing has its final name: the folder holds one hidden folder, .forebay-pack. If a call is stopped, by whatever, the
 * next one with the same source and options continues its work.
 *
 * @to    a folder that is not there, is empty, or holds what an unfinished pack of the same source and options left.
 * @opts  NULL = defaults. Borrowed for the call.
 * @out   [out] may be NULL.
 *
 * Errors: FBY_E_ARG (an option; a folder that holds something else, a pack that is finished, or one that another process is writing),
 * FBY_E_UNSUPPORTED (a column's type, by name; HDF5 without the helper program), FBY_E_CHANGED (the source is not what it was), FBY_E_BUDGET,
 * FBY_E_SCHEMA (no column `by`; a column that has other units in another file (units), or with stored_values another scale), FBY_E_FORMAT,
 * FBY_E_IO (err->sys_errno: ENOSPC), FBY_E_CANCELLED, FBY_E_NOMEM, FBY_E_DATA (what verify found; a null in HDF5, or as a key).
 * Threads: any. Blocks: yes. Callbacks: opts->progress, on the calling thread. Since: 0.2
 */
FBY_API fby_status fby_pack(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_pack_info *out, fby_error *err);

/* ---- by several processes ---- */

/** A pack is made by tasks. Those of one phase are independent of each other, and need all of the phases before. */
typedef enum fby_pack_phase {
    FBY_PACK_PLAN,    /* one task: how many of the others there are */
    FBY_PACK_SCATTER, /* a range of the source into a file of buckets; none without a shuffle or a key */
    FBY_PACK_WRITE,   /* files of the pack: those that begin in a bucket, or one */
    FBY_PACK_FINISH,  /* one task: the final names; with verify, once it has read again whatever no verify task has read */
    FBY_PACK_VERIFY   /* with verify, before finish: a range of the source and one of the pack's files, their rows hashed */
} fby_pack_phase;

/** "plan", "scatter", "write", "finish", "verify"; NULL for none of them. Threads: any. Blocks: no. Since: 0.2 */
FBY_API const char *fby_pack_phase_name(fby_pack_phase phase);

/** Task k of the n of a phase. Borrowed for the call that tells it. */
typedef struct fby_pack_task {
    size_t size; /* sizeof(fby_pack_task) of the library */
    fby_pack_phase phase;
    uint64_t k, n;
    uint64_t rows;                /* that it moves; of verify, that it hashes: of the source and of the pack */
    uint64_t bytes_in, bytes_out; /* about: that it reads, and writes before they are compressed */
    const char *const *inputs;    /* n_inputs paths of the source's files; in the target folder, names such as ".forebay-pack/scatter-*" */
    const char *const *outputs;   /* n_outputs names in the target folder */
    size_t n_inputs, n_outputs;
} fby_pack_task;

/** Called for each task. Returns whether it wants the next one. */
typedef bool (*fby_pack_task_fn)(void *user, const fby_pack_task *task);

/**
 * The tasks of a pack, phase after phase. How many there are depends on the source, the options and memory_bytes, here the memory of one task
 * (0 = 4 GiB), and on nothing of the machine; once the plan is written in `to`, on that.
 *
 * Errors: as fby_pack; FBY_E_UNSUPPORTED (a table in memory, which other processes do not have).
 * Threads: any. Blocks: yes. Callbacks: each, on the calling thread. Since: 0.2
 */
FBY_API fby_status fby_pack_tasks(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_pack_task_fn each, void *user,
                                  fby_error *err);

/**
 * Run one task; any number of them at a time, by processes that see the same source and the same folder. All are given the same options, and
 * write the bytes that fby_pack writes. A task that is complete does nothing; one that was stopped, whatever stopped it, is run again. A call
 * uses one thread, besides those that decode, and memory_bytes (0 = 4 GiB).
 *
 * @k    of plan and finish 0.
 * @out  [out] may be NULL: the pack; written_bytes and rows_hash of finish alone.
 *
 * Errors: as fby_pack; FBY_E_ARG (no such task; one that has to be run first, by name), FBY_E_UNSUPPORTED (as fby_pack_tasks).
 * Threads: any. Blocks: yes; finish waits for tasks that still run. Callbacks: opts->progress, on the calling thread. Since: 0.2
 */
FBY_API fby_status fby_pack_run_task(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_pack_phase phase, uint64_t k,
                                     fby_pack_info *out, fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
