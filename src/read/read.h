/*
 * Reading blocks: located, fetched, decoded, and put where a sink says. Whoever reads rows of a data set does it here: the loader, the
 * scans that find samples (read/scan.h), the Arrow stream (arrow.c).
 *
 *     begin ─► reserve ─► locate ─► fetch ─► decode, in tasks ─► done
 *              the sink   format    engine,  pool, or the        the sink
 *                                   or here  calling thread
 *
 *   reader   what the reads of one owner share: data set, columns, panels, pool, engine, account
 *   read     rows of one block on their way; used again and again
 *   sink     where they go: asked for room, and told when rows are there (fby__sink)
 *
 *   1. A read belongs to one thread at a time, but for its tasks, which fill disjoint panels, rows or columns.
 *   2. done() is called exactly once for each begin(), on a thread of the pool, or on the thread that began, without a pool or where beginning
 *      failed: never on a thread of the engine.
 *   3. What is found too small while it is decoded is placed again by the sink, which asks the account: nothing here goes beyond it.
 */
#ifndef FBY_READ_READ_H
#define FBY_READ_READ_H

#include "budget/allowance.h"
#include "budget/spares.h"
#include "dataset/dataset.h"
#include "pool/pool.h"
#include "trace/trace.h"
#include "transform/transform.h"

#include <stdatomic.h>

/** A gap between two ranges up to this is read through by an engine: cheaper than a second read. */
#define FBY__READ_GAP_BYTES 8192u
/** A block is cut into at most this many tasks beyond one a panel. */
#define FBY__READ_TASKS 64u

typedef struct fby__read fby__read;
typedef struct fby__reader fby__reader;

/** A panel that is made of a block, and which columns fill it. */
typedef struct fby__read_panel {
    fby__panel_layout layout;
    uint32_t *column;      /* layout.n_columns indices into the reader's columns */
    fby__program *program; /* run over decoded rows; NULL = they stay as decoded */
    uint32_t variable;     /* RAGGED, BYTES: index among the variable panels; UINT32_MAX for DENSE */
    bool first_only;       /* of samples of several rows: no output takes other rows than first ones */
} fby__read_panel;

/** Where what is read goes. */
typedef struct fby__sink {
    /**
     * Before anything is read: place read->panels, which are to hold the rows [lo, hi). Those that it leaves without a layout are placed
     * when their turn comes.
     */
    fby_status (*reserve)(fby__read *read, fby_error *err);
    /** Place a panel so that it has this capacity (0 for dense ones): it is decoded next, or anew. FBY__NO_ROOM: the error says for what. */
    fby__grant (*place)(fby__read *read, uint32_t panel, uint64_t capacity, fby_error *err);
    /**
     * NULL, or: a panel that was placed by `place` is decoded; one that no column of the file fills is not placed. Without a pool, in the order of
     * panels, and none after one for which there was no room.
     */
    fby_status (*placed)(fby__read *read, uint32_t panel, fby_error *err);
    /** All is there, or it failed: read->lacks_room says whether with more room it would not have. The read may be begun again, or freed. */
    void (*done)(fby__read *read, const fby_error *error);
    /**
     * Where the reader says that the sink is asked: charge the account for so many bytes more than are reserved, for scratch or for what is read.
     * False: it has no room. Called on any thread of the pool, under no lock.
     */
    bool (*room)(fby__read *read, size_t bytes);
} fby__sink;

/** A thread's own. */
typedef struct fby__read_worker {
    fby__scratch scratch;
    fby__account_allowance own; /* charged: of the scratch, and of all that the thread allocates while it decodes */
    fby__read *read;            /* what it decodes last, as the next */
    bool lacks_room;            /* that did not fit the account */
} fby__read_worker;

/** What several reads share. The owner fills it, then calls fby__reader_open. All of it is borrowed, but for the last group. */
struct fby__reader {
    const fby_dataset *ds;
    const fby__dataset_column *columns;
    uint32_t n_columns;
    const fby__read_panel *panels;
    uint32_t n_panels;
    uint32_t max_segments;   /* row groups that one read reaches into; 0 = 1 */
    uint32_t n_helpers;      /* 0, or: threads of the pool, which helps the thread that begins and ends before it begins again */
    int n_workers;           /* threads that ever decode */
    fby__pool *pool;         /* decodes the tasks; NULL: the thread that begins, one after the other */
    fby__io *io;             /* NULL: the thread that begins reads, and waits */
    fby__account *account;   /* pays for what is read, scratch, and panels that grow */
    fby__chunk_store *store; /* NULL = none */
    fby__trace *trace;       /* NULL = none */
    /** NULL, or: the budget to name where so many bytes would do beside all that is charged now. Else that, and a little more. Under any lock. */
    uint64_t (*enough)(const fby__reader *reader, uint64_t least_bytes);
    bool asks_sink;           /* whether the account has room for what decoding allocates: the sink may make some. Else the account */
    const _Atomic bool *stop; /* NULL, or: true gives up what is not decoded yet */
    fby__spares *buffers;     /* to read into; NULL = each read takes what it needs, and gives it back */
    size_t reserved_bytes;    /* of a worker's scratch: charged before */
    struct fby__reader *shares_workers_of; /* NULL, or: an open reader whose workers, the same threads, keep the scratch of this one too */
    const struct fby__read_shape *shape;   /* NULL = panels */
    /* owned */
    fby__read_worker *workers; /* n_workers; those of `shares_workers_of`, where that is given */
    _Atomic uint32_t waits;    /* > 0: of the last reads, one had to wait for the storage. Relaxed */
    bool is_open;
};

fby_status fby__reader_open(fby__reader *reader, fby_error *err);
/** Give back what a worker keeps from read to read. Its thread's, between reads. True: it was more than is reserved. */
bool fby__reader_shrink(fby__reader *reader, int worker);
void fby__reader_close(fby__reader *reader); /* no read is under way. One that was never opened is fine */

/** Memory of one read, whatever it reads. The reader need not be open. */
size_t fby__read_memory_bytes(const fby__reader *reader);

/** Rows of one row group that a read needs: of its block's own, and of those after it that [lo, hi) reaches into. */
typedef struct fby__read_segment {
    uint32_t group;
    uint64_t row_begin, row_end; /* of the group */
    uint64_t panel_row;          /* of the panels: where row_begin goes */
} fby__read_segment;

/**
 * Rows [begin, end), counted from a block's first row, as rows of row groups: at most cap segments are written, their number is returned.
 * The first one is of the block's own group, and all of them are of its file.
 */
uint32_t fby__read_segments(const fby__table *table, const fby__block *block, uint64_t begin, uint64_t end, fby__read_segment *out,
                            uint32_t cap);

/** Some columns and rows of one read: decoded by one task. */
typedef struct fby__read_task {
    fby__task task;
    fby__read *read;
    uint32_t panel, first_column, n_columns; /* in Arrow: `panel` is the field */
    const fby__decode_column *decode;        /* those of the columns that are in the file */
    uint32_t n_decode;
    const fby__read_segment *segment;
    uint64_t row_begin, row_end; /* of the segment's group */
} fby__read_task;

struct fby__read {
    /* the owner's, before it begins */
    fby__reader *reader;
    const fby__sink *sink;
    uint32_t block;
    uint64_t lo, hi;    /* rows, counted from the block's first: may end beyond it */
    uint64_t deadline;  /* of what is decoded */
    bool by_itself;     /* nothing else is decoded: one task after the other, each with scratch of its own, and no more than it needs */
    fby__panel *panels; /* n_panels of the reader; filled by the sink */
    fby__file *mapped;  /* a reference, for the owner to take, when panels lie in the map of a file; else NULL */
    /* the owner's, when it is done */
    uint64_t bytes, decoded_bytes; /* asked for, also of one that failed; of the panels that were placed before it decoded */
    /* private */
    fby__task task;
    fby__file *file;             /* owned */
    fby__table *table;           /* owned */
    fby__slab io;                /* owned: bytes as read */
    fby__read_segment *segments; /* max_segments */
    uint32_t n_segments;
    fby__leaf_source *sources; /* one per leaf wanted; those of a segment follow one another */
    size_t n_sources, cap_sources;
    fby__file_column *origins;  /* n_columns of the reader */
    uint32_t *source_of;        /* n_columns: index into a segment's sources, UINT32_MAX = not in the file */
    fby__range_list *chunks;    /* max_segments: of the sources that lie in chunks */
    fby__range **order;         /* cap_ranges: ranges to read, by offset */
    fby__decode_column *decode; /* Σ panel columns, * max_segments */
    fby__io_request *requests;  /* cap_requests */
    size_t cap_ranges, cap_requests;
    fby__io_batch batch;
    fby__read_task *tasks;
    uint32_t n_tasks;
    _Atomic uint32_t next_task; /* relaxed: the next to be begun */
    uint32_t *in_place;         /* n_panels: the source whose rows are read to where they belong; UINT32_MAX = none, the panel is decoded */
    _Atomic uint32_t fetched;   /* acq_rel: who comes second, the end of the fetch or of its submission, goes on */
    _Atomic uint32_t pending;   /* acq_rel: the last task sees the others' panels */
    _Atomic uint32_t failed;    /* relaxed: an fby__read_failure */
    /* of the task whose failure is reported: under the lock while there are tasks */
    pthread_mutex_t lock;
    uint32_t failed_task;
    bool lacks_room; /* the account had no room for it */
    fby_error error;
};

/** The owner's fields are set afterwards, but for `reader`, which is open and stays where it is. */
fby_status fby__read_init(fby__read *read, fby__reader *reader, fby_error *err);
void fby__read_fini(fby__read *read); /* not under way; zeroed is fine */

enum { FBY__NO_WORKER = -1 };

/**
 * Read the rows. Blocks only where the reader has no engine, and where files have to be opened or pages located. worker: whose scratch is used
 * here; FBY__NO_WORKER on a thread that is none of the pool's, where the sink is asked for room: all but the beginning is left to the pool.
 */
void fby__read_begin(fby__read *read, int worker);

/** Does the storage let this reader wait? Then whoever begins reads should have nothing better to do. Threads: any. */
static inline bool fby__reader_waits(const fby__reader *reader) { return atomic_load_explicit(&reader->waits, memory_order_relaxed) > 0; }

/** Is column c of the reader in the block's file, and if not, which text does it have there? From reserve on. */
const fby__file_column *fby__read_origin(const fby__read *read, uint32_t column);

/**
 * FBY_E_BUDGET: what a column of a block (NULL: all of them) needs, maybe with those beside it, does not fit the account. With file, column,
 * both sizes and what to do. @held   of these bytes, what is charged already
 * @later  what columns behind this one are likely to need beside it: the memory that would do has room for it
 */
fby_status fby__read_refuse(const fby__reader *reader, uint32_t block, const char *column, bool and_others, uint64_t bytes, uint64_t held,
                            uint64_t later, fby_error *err);
/** The first column of a panel. */
const char *fby__read_panel_name(const fby__reader *reader, uint32_t panel);

#endif
