/*
 * Between the files of a pack. It is a graph of tasks: the tasks of a phase are independent of each other, each is a function of the plan, its
 * phase and its number, reads files that are named and writes files that are named.
 *
 *     layout.c    options ─► batches, files, tasks
 *     input.c     what is packed: the rows of a data set, or samples as a loader gives them
 *     keys.c      by a key: its values, each of which has files of its own
 *     provenance.c what the pack says of itself
 *     attributes.c what the source says of itself and its columns
 *     differences.c where its files do not say the same
 *     graph.c     the phases: which tasks there are, what they read and write, and each of them run
 *                 plan ─► scatter ─► write ─► verify ─► finish
 *     crew.c      tasks of a phase, several at a time, by threads
 *     folder.c    the target folder: begun, gone on with, finished
 *     agreed.c    what all that work in it agree on: the plan's file, the lock
 *     out.c       files that appear whole
 *     scatter.c   scatter: a range of the source's blocks ─► a file with a segment a bucket
 *     files.c     write: rows in their new order ─► files of the pack
 *     bucket.c    a bucket's rows, read from all scatter files
 *     source.c    or, without a shuffle, rows as the source has them
 *     verify.c    verify: the sums of the hashes of all rows
 *     forecast.c  what a dry run expects
 *     pack.c      all tasks in one process
 *
 *     to/part-00000.arrow …        the pack; appear at the end, one rename after the other
 *     to/_pack.json                what it was made of; appears last
 *     to/.forebay-pack/plan        about the same text, how many tasks there are, what the source says of itself, by a key its values and counts:
 *                                  what another run has to agree with to go on
 *     to/.forebay-pack/scatter-K   rows of the K-th range of blocks of the source, by bucket
 *     to/.forebay-pack/verify-K    sums of the K-th range of rows, of a verify task that was run by itself
 *     to/.forebay-pack/part-…      files of the pack that are complete
 *     to/.forebay-pack/.lock       locked by whoever writes here: by a process that packs all of it, or by those that run tasks, together
 *
 *   1. A name without ".new" is complete: files are written aside, locked meanwhile, synced and renamed.
 *   2. What is complete is not written again; so whatever stopped a run, the next one does what is missing, and a task may run twice.
 *   3. How many tasks there are is decided once, by whoever writes the plan, and changes no byte of the pack.
 */
#ifndef FBY_PACK_PACK_IMPL_H
#define FBY_PACK_PACK_IMPL_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "block/arrow_flat.h"
#include "block/arrow_take.h"
#include "dataset/dataset.h"
#include "io/io.h"
#include "pack/input.h"
#include "pack/keys.h"
#include "pack/order.h"
#include "write/write.h"

#include <forebay/contents.h>
#include <forebay/pack.h>

#include <stdatomic.h>

#include <pthread.h>
#include <sys/stat.h>

#define FBY__PACK_AT_ONCE ((size_t)4 << 20) /* bytes read and written between two looks at the token */
#define FBY__PACK_NEW ".new"                /* how names of files end that are not complete */

enum { FBY__PACK_WORKERS = 32, FBY__PACK_METADATA = 14 };

/** What a verify task has found; without padding, for it is written to a file. */
typedef struct fby__pack_sum {
    fby__hash128 made_of; /* of what it was made: it holds as long as this does */
    fby__hash128 of_source, of_pack;
    uint64_t rows;  /* of the pack */
    uint64_t known; /* 1: this is set */
} fby__pack_sum;

#define FBY__PACK_ATTRIBUTES_BYTES ((uint32_t)64 << 20) /* in the plan, at most */

/** What the source says of itself and its columns. */
typedef struct fby__pack_attributes {
    bool known;
    /* owned: of the file, then of one field after the other. Until all is compared n is 0 where it cannot be written */
    fby__write_attribute *list;
    size_t n, cap;
    fby__arena memory;                       /* what the list points to */
    char note[600];                          /* what was left out; "" = nothing. For one file, what it could not even say */
    struct fby__pack_comparison *comparison; /* borrowed, while files are compared: differences.c */
} fby__pack_attributes;

/** Options as texts, for the metadata of files. */
typedef struct fby__pack_words {
    char seed[24], batch[24], rows_per_file[24];
    fby__buf columns; /* owned: the chosen ones, as JSON, with a NUL; empty: all */
} fby__pack_words;

/** Where the source may be cut. */
typedef struct fby__pack_cuts {
    uint32_t n;
    uint32_t *of_scatter; /* owned: of each scatter task, the cut it begins at; then n */
} fby__pack_cuts;

/** Which files a write task writes. */
typedef struct fby__pack_writes {
    bool are_buckets; /* those that begin in its bucket (by a key, one may go on in others); else one file */
    uint32_t n;       /* of buckets: those in which files begin */
    uint64_t *first;  /* owned: n + 1 files, the first of each of them, then n_files */
} fby__pack_writes;

typedef struct fby__pack {
    /* set once */
    fby_dataset *ds;              /* borrowed */
    const fby_pack_opts *o;       /* borrowed */
    fby__pack_pipeline *pipeline; /* owned: what is packed in place of rows, which are then its samples; NULL = rows */
    bool by_tasks;                /* this process runs one of the tasks, and others run others */
    uint64_t memory_bytes;
    uint32_t n_workers;
    struct ArrowSchema schema; /* owned: of the chosen columns */
    fby__pack_order order;     /* its unit: rows of a file where a bucket holds whole files, else of a batch */
    fby__pack_keys *keys;      /* owned; NULL = not by a key */
    bool scattered;            /* in two passes: shuffled, or by a key */
    uint64_t rows, batch_rows, rows_per_file, n_files;
    double row_bytes;               /* about, decoded: of the source's first block */
    uint32_t n_buckets, n_scatters; /* n_scatters: ranges between two cuts that have rows; 1 without rows */
    fby__pack_cuts cuts;
    uint64_t *bucket_begin; /* owned: n_buckets + 1 destinations */
    fby__pack_writes writes;
    char *to, *work;          /* owned: the target folder, and the one in it */
    fby__buf plan;            /* the text of the manifest */
    fby__write_format format; /* as codec: of the writer */
    const char *codec, *extension;
    fby__pack_words words;
    fby__pack_attributes attributes;
    fby__file_stamp plan_stamp; /* of the plan's file that was read; zeroed before */
    fby__pack_sum *sums;        /* owned: one a verify task; NULL = not yet. Each is the thread's that runs the task */
    char rows_hash[33];         /* of verify; "" = not yet */
    uint64_t written_bytes;     /* of the files under their final names; 0 = not yet */
    int lock;                   /* file descriptor of the work folder's lock; -1 = none */
    bool resumed;               /* a pack as a whole: one was begun; a task: some of it was complete, as its one thread finds */
    /* any thread */
    _Atomic uint64_t group_chunks; /* of a row group of Parquet; 0: not known yet, or of another format. Relaxed: messages estimate by it */
    _Atomic uint64_t done;         /* rows moved so far; relaxed: for progress alone */
    uint64_t total;
    const char *doing;
    uint64_t last_progress_ns; /* the calling thread's */
    _Atomic bool stop;         /* relaxed: another thread has failed */
} fby__pack;

/* ---- layout.c ---- */

/** schema, sizes, order; what is wrong with the options. */
fby_status fby__pack_layout(fby__pack *p, fby_error *err);
/** n_buckets, and what follows of it. */
fby_status fby__pack_cut(fby__pack *p, uint32_t n_buckets, fby_error *err);
/** The source: its cuts, and what follows of them. */
fby_status fby__pack_cut_source(fby__pack *p, uint32_t n_cuts, fby_error *err);
/** The block at which cut k of the source lies; of k = cuts.n, the number of blocks. Between two cuts there may be none. */
uint32_t fby__pack_cut_begin(const fby__pack *p, uint32_t k);
/** The first block of scatter task k; of k = n_scatters, the number of blocks. */
uint32_t fby__pack_scatter_begin(const fby__pack *p, uint32_t k);
uint64_t fby__pack_scatter_rows(const fby__pack *p, uint32_t k); /* of its blocks */
/** The bucket that holds a destination. */
uint32_t fby__pack_bucket_at(const fby__pack *p, uint64_t destination);
/** The first destination of a file; of n_files, where the last one ends. */
uint64_t fby__pack_file_begin(const fby__pack *p, uint64_t file);
/** The files [*out_first, *out_last) of write task k. */
void fby__pack_write_files(const fby__pack *p, uint64_t k, uint64_t *out_first, uint64_t *out_last);
/** Memory that would do for rows of about so many bytes, beside what reading the source takes, as far as that is known. */
uint64_t fby__pack_enough(const fby__pack *p, double row_bytes);
/** How many files of the pack may be open together for what their metadata take; at least 1. */
uint64_t fby__pack_files_at_once(const fby__pack *p);
/** A name that needs no memory: without, a file that is there would not be. */
typedef struct fby__pack_name {
    char text[FBY__PACK_KEY_NAME + 56];
} fby__pack_name;
/** "part-00007.arrow", by a key "part-VALUE-00007.arrow". */
fby__pack_name fby__pack_file_name(const fby__pack *p, uint64_t file);

/* ---- provenance.c ---- */

/** p->words, once the layout is known. */
fby_status fby__pack_say(fby__pack *p, fby_error *err);
/**
 * p->plan: the text of the plan, or, with what only this run knows (where the source lay, the hash of its rows), of the manifest. The plan is a
 * function of the source and the options that the pack's bytes depend on.
 */
fby_status fby__pack_describe(fby__pack *p, bool manifest, fby_error *err);
/** What every file of the pack says of itself; how many. Borrowed from the pack. */
size_t fby__pack_metadata(const fby__pack *p, fby__key_value out[FBY__PACK_METADATA]);

/** How a file of so many rows is written, into *file. */
static inline fby__write_options fby__pack_write_options(const fby__pack *p, const int *file, uint64_t rows, uint64_t batch_rows)
{
    return (fby__write_options){.attributes = p->attributes.list,
                                .n_attributes = p->attributes.n,
                                .codec = p->codec,
                                .file = file,
                                .rows = rows,
                                .batch_rows = batch_rows,
                                .environment = fby__dataset_environment(p->ds)};
}

/* ---- attributes.c ---- */

/**
 * p->attributes, from the files of the source, once the layout is known; if they are known, nothing is done. FBY_E_SCHEMA: numbers of a column
 * mean one thing in a file and another in the next.
 */
fby_status fby__pack_attributes_find(fby__pack *p, fby_error *err);
/** Attributes of one file that still hold for the pack, added behind what *out has. */
fby_status fby__pack_attributes_of_file(const fby__pack *p, uint32_t file, fby__pack_attributes *out, fby_error *err);
/** For the plan's file, with their number of bytes before them. */
fby_status fby__pack_attributes_put(const fby__pack *p, fby__buf *out, fby_error *err);
/** From there, without that number: damaged, *out_ok is false. */
fby_status fby__pack_attributes_read(fby__pack *p, fby__bytes from, bool *out_ok, fby_error *err);
void fby__pack_attributes_fini(fby__pack_attributes *a);
/** A copy of it, with so many bytes of numbers, behind the others. */
fby_status fby__pack_attributes_add(fby__pack_attributes *all, fby__write_attribute one, size_t bytes, fby_error *err);
/** The path of a field of the pack, of a file's contents. Nonzero: no memory, or no such field. */
int fby__pack_field_path(const fby__pack *p, int64_t field, fby__buf *out);
/** Does it say how numbers are stored: _FillValue, scale_factor? */
bool fby__pack_is_encoding(const char *name);

/* ---- differences.c ---- */

/** Drops from p->attributes, the first file's, what cannot be written or not all others say too. The errors of fby__pack_attributes_find. */
fby_status fby__pack_differences_drop(fby__pack *p, fby_error *err);

/* ---- folder.c ---- */

/** What is in the target folder. */
typedef enum fby__pack_state {
    FBY__PACK_NOTHING,    /* or files that no pack has written: refused */
    FBY__PACK_UNFINISHED, /* there is a plan */
    FBY__PACK_UNTIDY,     /* all of it has its final name, and what it took is still there */
    FBY__PACK_FINISHED
} fby__pack_state;

/** FBY_E_ARG: the folder holds something else, or the work folder is none. */
fby_status fby__pack_look(const fby__pack *p, fby__pack_state *out, fby_error *err);
/** What was found there is this pack, and none of the files is of anything else; its numbers are read. FBY_E_CHANGED, FBY_E_ARG, FBY_E_FORMAT. */
fby_status fby__pack_adopt(fby__pack *p, fby__pack_state state, fby_error *err);
/** Would begin() refuse the folder? FBY_E_ARG; nothing is made or removed. */
fby_status fby__pack_folder_check(fby__pack *p, fby_error *err);
/**
 * Make the folders, or adopt what an unfinished run left: the number of tasks, resumed. From now on no other process works in it.
 * *out_finished: all that was missing was done here.
 */
fby_status fby__pack_folder_begin(fby__pack *p, bool *out_finished, fby_error *err);
fby_status fby__pack_make_folders(const fby__pack *p, fby_error *err);
/**
 * Removes what was to become the file of that name (NULL: files [first, last) of the pack) when what wrote it was killed; what another run writes
 * is locked, and stays. Lists the work folder.
 */
void fby__pack_remove_left(const fby__pack *p, const char *name, uint64_t first, uint64_t last);
/** Removes what a pack that has its final names took. */
void fby__pack_folder_tidy(const fby__pack *p);
/** All files, then the manifest, under their final names; then nothing else is left. */
fby_status fby__pack_folder_finish(fby__pack *p, fby_error *err);
/** What has the name of a file of the pack is one, as files under their names are complete: no link, folder or pipe, and not empty. */
static inline bool fby__pack_is_whole(const struct stat *st) { return S_ISREG(st->st_mode) && st->st_size > 0; }
/** Where a complete file of the pack is; the caller's. NULL = no memory. */
char *fby__pack_file_path(const fby__pack *p, uint64_t file);
/** Is this file of the pack complete? */
bool fby__pack_has_file(const fby__pack *p, uint64_t file);
/** Σ of the pack's files under their final names. */
uint64_t fby__pack_written_bytes(const fby__pack *p);
/** In memory there is nothing to tell one table from another by. */
bool fby__pack_in_memory(const fby__pack *p);

/* ---- agreed.c ---- */

#define FBY__PACK_PLAN "plan"
#define FBY__PACK_LOCK ".lock"

/** Write the plan's file; where there is one already, it stays. */
fby_status fby__pack_plan_write(fby__pack *p, fby_error *err);
/** What the plan's file has of the key; nothing where there is no such file, or none in it. */
fby_status fby__pack_plan_keys(const fby__pack *p, fby__buf *out, fby_error *err);
/** Take its numbers over, unless they are already. FBY_E_CHANGED, FBY_E_ARG: it is of another source, or has other options. */
fby_status fby__pack_plan_read(fby__pack *p, fby_error *err);
/** Is the finished pack that is there this one? The same errors. */
fby_status fby__pack_manifest_compare(fby__pack *p, fby_error *err);

typedef enum fby__pack_hold {
    FBY__PACK_ALONE,    /* refused while anyone else works there */
    FBY__PACK_TOGETHER, /* beside others that hold it so */
    FBY__PACK_LAST      /* alone, when all others have ended: waits */
} fby__pack_hold;
/** Holds the work folder until p->lock is closed. */
fby_status fby__pack_lock(fby__pack *p, fby__pack_hold hold, fby_error *err);

/* ---- out.c ---- */

/** A file that is written aside: fby__pack_out_open, then write (a fby__byte_sink), then close, which renames it, or drop. */
typedef struct fby__pack_out {
    int fd;
    char *path, *aside; /* owned */
    uint8_t *buffer;    /* owned: small writes are joined */
    size_t n;
    uint64_t at;    /* bytes so far */
    ino_t replaces; /* 0, or set once this is open: a file whose contents are not whole, which loses the name to this one */
} fby__pack_out;

fby_status fby__pack_out_open(const char *folder, const char *name, fby__pack_out *out, fby_error *err);
fby_status fby__pack_out_write(void *out, const void *bytes, size_t n, fby_error *err);
fby_status fby__pack_out_close(fby__pack_out *out, bool sync, fby_error *err); /* drops it on failure */
/** What a failed write to it is called: with the path, and where the disk is full with how much is free. */
fby_status fby__pack_out_fail(const fby__pack_out *out, int sys_errno, fby_error *err);
void fby__pack_out_drop(fby__pack_out *out); /* closed, and zeroed with fd = -1, ones are fine */

/* ---- phases ---- */

/** How the tasks of a phase are run: by workers, each of one thread, which keep what is of use for the next task. */
typedef struct fby__pack_phase_ops {
    const char *doing;
    fby_status (*begin)(fby__pack *p, uint32_t n_workers, void **out_worker, fby_error *err); /* n_workers: that share the memory */
    fby_status (*run)(void *worker, uint64_t k, fby_error *err);                              /* done: what is complete is not done again */
    bool (*lacks_memory)(const void *worker); /* run has failed, and with all of the memory might not have */
    void (*end)(void *worker);
    bool (*reads_source)(const fby__pack *p); /* blocks of it have to fit a worker's part of the memory */
} fby__pack_phase_ops;

extern const fby__pack_phase_ops fby__pack_scatter_phase, fby__pack_write_phase; /* scatter.c, files.c */

uint64_t fby__pack_scatter_count(const fby__pack *p); /* layout.c: 0 without a shuffle or a key */
uint64_t fby__pack_write_count(const fby__pack *p);
/** Tasks [first, last) of a phase, by threads; progress and cancelling are the calling thread's. */
fby_status fby__pack_crew_run(fby__pack *p, const fby__pack_phase_ops *phase, uint64_t first, uint64_t last, fby_error *err);
/** By a worker, every now and then: FBY_E_CANCELLED. */
fby_status fby__pack_go_on(const fby__pack *p, fby_error *err);
static inline void fby__pack_count(fby__pack *p, uint64_t rows) { atomic_fetch_add_explicit(&p->done, rows, memory_order_relaxed); }

/* ---- scatter.c ---- */

/** A bucket's rows of one round in a scatter file. */
typedef struct fby__pack_segment {
    uint64_t at, bytes, rows; /* in the file */
    fby__hash128 hash;
} fby__pack_segment;

/** How a scatter file ends, behind `rounds` times `buckets` segments. */
typedef struct fby__pack_scatter_end {
    uint64_t rounds, buckets;
    fby__hash128 hash; /* of the segments and of the numbers before it */
} fby__pack_scatter_end;

char *fby__pack_scatter_name(uint64_t k);

/* ---- where rows come from in pass 2 ---- */

/** Rows of record batches in memory. */
typedef struct fby__pack_rows {
    const struct ArrowArray *const *batches;
    uint32_t n_batches;
    const fby__row_run *runs;
    size_t n_runs;
} fby__pack_rows;

/** One of a worker's own. */
typedef struct fby__pack_source {
    /** Destinations [first, first + n), of one file; those that are asked for next go up to `end`. *out is valid until the next call. */
    fby_status (*rows)(struct fby__pack_source *s, uint64_t first, uint64_t n, uint64_t end, fby__pack_rows *out, fby_error *err);
    void (*free)(struct fby__pack_source *s);
    bool lacks_memory; /* rows has failed, and with more memory might not have */
} fby__pack_source;

/* memory_bytes: of this worker. bucket.c, source.c */
fby_status fby__pack_bucket_source(const fby__pack *p, uint64_t memory_bytes, fby__pack_source **out, fby_error *err);
fby_status fby__pack_file_source(const fby__pack *p, uint64_t memory_bytes, fby__pack_source **out, fby_error *err);

/** Record batches that are kept together, and released together. Zero-initialise. */
typedef struct fby__batches {
    struct ArrowArray **arrays; /* owned */
    void **memory;              /* owned: what array i lies in; NULL = it owns what it has */
    size_t n, cap;
} fby__batches;
/** Moves both in, also on failure. */
fby_status fby__batches_add(fby__batches *b, struct ArrowArray *array, void *memory, fby_error *err);
void fby__batches_drop(fby__batches *b, size_t n); /* the first n */
void fby__batches_fini(fby__batches *b);

/* ---- graph.c, verify.c, forecast.c, pack.c ---- */

/** What every call checks first; *out: opts of this version. */
fby_status fby__pack_check_call(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_pack_opts *out, fby_error *err);
/** The folder, the layout, the words; then fby__pack_fini, also on failure. opts is of this version. */
fby_status fby__pack_init(fby__pack *p, fby_dataset *ds, const char *to, const fby_pack_opts *opts, bool by_tasks, fby_error *err);
void fby__pack_fini(fby__pack *p);
/** What is known of it by now. */
void fby__pack_inform(const fby__pack *p, fby_pack_info *info);
/** What is left when all files are written: verified, if asked for, then under their final names. */
fby_status fby__pack_end(fby__pack *p, bool finished, fby_error *err);
/** What is done from now on is said at once. */
fby_status fby__pack_begin_doing(fby__pack *p, const char *doing, fby_error *err);
/** Verify tasks [first, last). */
fby_status fby__pack_verify_run(fby__pack *p, uint64_t first, uint64_t last, fby_error *err);
uint64_t fby__pack_verify_count(const fby__pack *p); /* how many there are: 0 without verify */
char *fby__pack_verify_name(uint64_t k);             /* of the file with the sum of one; the caller's */
/** The files [*out_first, *out_last) of the pack that verify task k sums. */
void fby__pack_verify_files(const fby__pack *p, uint64_t k, uint64_t *out_first, uint64_t *out_last);
/** Both sums, compared, of tasks that were run and those that were not. text: of the sum. */
fby_status fby__pack_verify(fby__pack *p, char text[33], fby_error *err);
/** expected_bytes and expected_ns, once the rest is said. */
fby_status fby__pack_forecast(const fby__pack *p, fby_pack_info *out, fby_error *err);
/** From the calling thread, every now and then: progress; FBY_E_CANCELLED. */
fby_status fby__pack_tick(fby__pack *p, fby_error *err);

#endif
