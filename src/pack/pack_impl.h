/*
 * Between the files of a pack.
 *
 *     layout.c    options ─► batches, files, buckets
 *     provenance.c what the pack says of itself
 *     folder.c    the target folder: begun, gone on with, finished; files that appear whole
 *     scatter.c   pass 1: blocks of the source ─► scatter files, each with a segment a bucket
 *     bucket.c    a bucket's rows, read from all scatter files
 *     source.c    or, without a shuffle, rows as the source has them
 *     files.c     pass 2: rows in their new order ─► files of the pack
 *     verify.c    the sum of the hashes of all rows
 *     forecast.c  what a dry run expects
 *     pack.c      one after the other
 *
 *     to/part-00000.arrow …        the pack; appear at the end, one rename after the other
 *     to/_pack.json                what it was made of; appears last
 *     to/.forebay-pack/plan        the same text, and how many buckets there are: what another run has to agree with to go on
 *     to/.forebay-pack/scatter-B-E rows of blocks [B, E) of the source, by bucket
 *     to/.forebay-pack/part-…      files of the pack that are complete
 *     to/.forebay-pack/.lock       locked by the process that writes here
 *
 *   1. A name without ".new" is complete: files are written aside, synced and renamed.
 *   2. What is there is never written again; so whatever stopped a run, the next one does what is missing.
 */
#ifndef FBY_PACK_PACK_IMPL_H
#define FBY_PACK_PACK_IMPL_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "block/arrow_flat.h"
#include "block/arrow_take.h"
#include "pack/order.h"
#include "read/arrow.h"
#include "write/write.h"

#include <forebay/pack.h>

#include <stdatomic.h>

#include <pthread.h>

#define FBY__PACK_AT_ONCE ((size_t)4 << 20) /* bytes read and written between two looks at the token */
#define FBY__PACK_BUCKETS 65536u            /* at most */

enum { FBY__PACK_WORKERS = 32, FBY__PACK_METADATA = 9 };

/** Options as texts, for the metadata of files. */
typedef struct fby__pack_words {
    char seed[24], batch[24], rows_per_file[24];
    fby__buf columns; /* owned: the chosen ones, as JSON, with a NUL; empty: all */
} fby__pack_words;

typedef struct fby__pack {
    /* set once */
    fby_dataset *ds;        /* borrowed */
    const fby_pack_opts *o; /* borrowed */
    uint64_t memory_bytes;
    uint32_t n_workers;
    struct ArrowSchema schema; /* owned: of the chosen columns */
    fby__pack_order order;     /* its unit: rows of a file where a bucket holds whole files, else of a batch */
    uint64_t rows, batch_rows, rows_per_file, n_files;
    double row_bytes; /* about, decoded: of the source's first block */
    uint32_t n_buckets;
    uint64_t *bucket_begin;   /* owned: n_buckets + 1 destinations */
    bool whole_files;         /* buckets hold whole files: they are shared out, else files are */
    char *to, *work;          /* owned: the target folder, and the one in it */
    fby__buf plan;            /* the text of the manifest */
    fby__write_format format; /* as codec: of the writer */
    const char *codec, *extension;
    fby__pack_words words;
    char rows_hash[33]; /* of verify; "" = not yet */
    int lock;           /* file descriptor of the work folder's lock; -1 = none */
    bool resumed;
    struct fby__pack_scatter *scatters; /* owned: by first block, complete from pass 1 on */
    size_t n_scatters, cap_scatters;
    /* any thread */
    _Atomic uint64_t done; /* rows moved so far; relaxed: for progress alone */
    uint64_t total;
    const char *doing;
    uint64_t last_progress_ns; /* the calling thread's */
    _Atomic bool stop;         /* relaxed: another thread has failed */
} fby__pack;

/* ---- layout.c ---- */

/** schema, sizes, order; what is wrong with the options. */
fby_status fby__pack_layout(fby__pack *p, fby_error *err);
/** n_buckets, and what follows of it. 0: as many as the memory asks for. */
fby_status fby__pack_set_buckets(fby__pack *p, uint32_t n, fby_error *err);
/** Bytes of a bucket that a worker may hold. */
uint64_t fby__pack_bucket_room(const fby__pack *p);
/** "part-00007.arrow"; the caller's. */
char *fby__pack_file_name(const fby__pack *p, uint64_t file);

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

/* ---- folder.c ---- */

/** Make the folders, or take over what an unfinished run left: n_buckets, resumed. *out_finished: all that was missing was done here. */
fby_status fby__pack_folder_begin(fby__pack *p, bool *out_finished, fby_error *err);
/** All files, then the manifest, under their final names; then nothing else is left. */
fby_status fby__pack_folder_finish(fby__pack *p, fby_error *err);
/** Where a complete file of the pack is; the caller's. NULL = no memory. */
char *fby__pack_file_path(const fby__pack *p, uint64_t file);
/** Is this file of the pack complete? */
bool fby__pack_has_file(const fby__pack *p, uint64_t file);
/** Σ of the pack's files under their final names. */
uint64_t fby__pack_written_bytes(const fby__pack *p);

/** A file that is written aside: fby__pack_out_open, then write (a fby__byte_sink), then close, which renames it, or drop. */
typedef struct fby__pack_out {
    int fd;
    char *path, *aside; /* owned */
    uint8_t *buffer;    /* owned: small writes are joined */
    size_t n;
    uint64_t at; /* bytes so far */
} fby__pack_out;

fby_status fby__pack_out_open(const char *folder, const char *name, fby__pack_out *out, fby_error *err);
fby_status fby__pack_out_write(void *out, const void *bytes, size_t n, fby_error *err);
fby_status fby__pack_out_close(fby__pack_out *out, bool sync, fby_error *err); /* drops it on failure */
void fby__pack_out_drop(fby__pack_out *out);                                   /* closed, and zeroed with fd = -1, ones are fine */

/* ---- scatter.c ---- */

/** Of a bucket in a scatter file. */
typedef struct fby__pack_segment {
    uint64_t at, bytes, rows; /* in the file */
    fby__hash128 hash;
} fby__pack_segment;

typedef struct fby__pack_scatter {
    uint32_t first_block, last_block; /* [first, last) */
    fby__pack_segment *segments;      /* owned: n_buckets */
} fby__pack_scatter;

/** Rows of every block by bucket; what is there already stays. */
fby_status fby__pack_scatter_all(fby__pack *p, fby_error *err);
char *fby__pack_scatter_name(uint32_t first_block, uint32_t last_block);

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
} fby__pack_source;

fby_status fby__pack_bucket_source(const fby__pack *p, fby__pack_source **out, fby_error *err); /* bucket.c */
fby_status fby__pack_file_source(const fby__pack *p, fby__pack_source **out, fby_error *err);   /* source.c */

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

/* ---- files.c, verify.c, forecast.c, pack.c ---- */

fby_status fby__pack_write_all(fby__pack *p, fby_error *err);
/** Both sums, compared. text: of the sum. */
fby_status fby__pack_verify(fby__pack *p, char text[33], fby_error *err);
/** expected_bytes and expected_ns, once the rest is said. */
fby_status fby__pack_forecast(const fby__pack *p, fby_pack_info *out, fby_error *err);
/** A block of the source; where the reader's part of the memory is too small, an error that says of which memory it is a part. */
fby_status fby__pack_read(fby__arrow_reader *reader, uint32_t block, struct ArrowArray *out, fby_error *err);
/** From the calling thread, every now and then: progress; FBY_E_CANCELLED. */
fby_status fby__pack_tick(fby__pack *p, fby_error *err);

#endif
