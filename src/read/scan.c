/* Reading a few columns once, by several threads. See scan.h. */
#include "read/scan.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu.h"

#include <stdio.h>

#define MAX_THREADS 64
#define AT_ONCE_ROWS ((uint64_t)1 << 20) /* decoded at once by a thread */
#define MAX_BLOCK_ROWS (1u << 30)
#define ALIGNMENT 64u /* of panels */
#define PROGRESS_NS 100000000u
#define KEPT_STEP_BYTES ((size_t)64 << 10)

typedef struct scanning {
    /* set once */
    const fby__column_reader *r;
    fby__reader reader;
    fby__dataset_column *columns; /* owned, as all below */
    fby__read_panel *panels;
    uint32_t *numbers; /* 0, 1, …: panel i is of column i */
    fby__account *account;
    bool owns_account; /* nobody gave one */
    uint32_t n_blocks;
    uint64_t began_ns;
    /* relaxed: results are published by joining the threads */
    _Atomic uint32_t next, done, first_failed;
    struct job *jobs; /* owned: n_jobs */
    int n_jobs;
    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t parked;                      /* n_working fell */
    int n_working;                              /* threads that hold memory */
    uint64_t kept_bytes, kept_limit, rows_seen; /* of all hooks; kept_limit is set once */
    fby_status status;                          /* of the block first_failed */
    fby_error error;
} scanning;

/* What a thread reads with. */
typedef struct job {
    fby__read read;
    fby__task task;
    scanning *s;
    int worker;
    fby__panel *panels; /* owned: one of the columns at a time is placed */
    fby__buf memory;    /* where it lies, in the account */
    void *local;        /* owned */
    fby__scan_rows rows;
    uint32_t n_handed;           /* columns of these rows that were handed over */
    fby__account_allowance kept; /* of what the hooks keep: it stays charged */
    bool waits;                  /* under lock: for memory that others hold */
    fby_status status;
    bool lacks_room; /* with more of it, the rows would have been read */
    fby_error error;
} job;

/* ---- the sink: each column is handed over as soon as it is decoded ---- */

static fby_status reserve(fby__read *read, fby_error *err)
{
    (void)err;
    for (uint32_t c = 0; c < read->reader->n_panels; c++)
        read->panels[c] = (fby__panel){0};
    return FBY_OK;
}

static void no_memory(job *j)
{
    fby__account_discharge(j->s->account, j->memory.cap);
    fby__buf_fini(&j->memory);
}

static fby__grant more_memory(job *j, uint32_t column, size_t bytes, fby_error *err)
{
    no_memory(j);
    if (!fby__account_try_charge(j->s->account, bytes)) {
        (void)fby__read_refuse(&j->s->reader, j->read.block, j->s->columns[column].path, false, bytes, 0, 0,
                               err); /* NO_ROOM says it failed */
        return FBY__NO_ROOM;
    }
    j->memory.data = fby__malloc(bytes);
    j->memory.cap = bytes; /* charged, whether it is there or not */
    if (j->memory.data)
        return FBY__GRANTED;
    (void)fby__fail_nomem(err, "the columns of the samples"); /* GRANT_FAILED says it failed */
    return FBY__GRANT_FAILED;
}

static fby__grant place(fby__read *read, uint32_t c, uint64_t capacity, fby_error *err)
{
    job *j = FBY__TASK_OWNER(read, job, read);
    const fby__panel_layout *layout = &read->reader->panels[c].layout;
    size_t bytes;
    if (fby__panel_bytes(layout, j->rows.n, capacity, &bytes, err) != FBY_OK)
        return FBY__GRANT_FAILED;
    const fby__grant grant = bytes + ALIGNMENT > j->memory.cap ? more_memory(j, c, bytes + ALIGNMENT, err) : FBY__GRANTED;
    if (grant != FBY__GRANTED)
        return grant;
    uint8_t *at = (uint8_t *)(uintptr_t)fby__align_up_u64((uintptr_t)j->memory.data, ALIGNMENT);
    fby__panel_place(layout, j->rows.n, capacity, at, &read->panels[c]);
    return FBY__GRANTED;
}

/*
 * What hooks keep stays charged. While other threads hold memory that they will give back, it may go past the account, as long as all that is
 * kept would fit by itself: a hook cannot be called again, and what is decoded next waits for room.
 */
static bool keep(fby__allowance *allowance, size_t bytes)
{
    job *j = FBY__TASK_OWNER(allowance, job, kept.allowance);
    scanning *s = j->s;
    const size_t before = j->kept.charged_bytes, lacks = bytes - allowance->left;
    bool fits = fby__account_allowance_more(allowance, bytes);
    pthread_mutex_lock(&s->lock);
    if (!fits && s->n_working > 1 && s->kept_bytes + lacks <= s->kept_limit) {
        fby__account_charge(s->account, lacks);
        j->kept.charged_bytes += lacks;
        j->kept.lacked_bytes = 0;
        allowance->left += lacks;
        fits = true;
    }
    s->kept_bytes += j->kept.charged_bytes - before;
    pthread_mutex_unlock(&s->lock);
    return fits;
}

static fby__allowance *begin_hook(job *j)
{
    j->kept.lacked_bytes = 0;
    return fby__alloc_within(&j->kept.allowance);
}

/* How much more a scan needs that has found so much in so many of its rows. */
static uint64_t expected_bytes(scanning *s, const job *j)
{
    pthread_mutex_lock(&s->lock);
    const double kept = (double)(s->kept_bytes + j->kept.lacked_bytes),
                 seen = (double)fby__max_u64(s->rows_seen, j->rows.n * j->rows.times);
    pthread_mutex_unlock(&s->lock);
    const double all = (double)fby__max_u64(fby_dataset_rows(s->r->ds), 1), more = kept * (all / seen - 1);
    return j->kept.lacked_bytes + (more > 0 && more < 1e18 ? (uint64_t)more : 0);
}

static fby_status refuse_kept(job *j, uint64_t bytes, fby_error *err)
{
    char text[FBY__BLOCK_TEXT_BYTES], what[FBY__BLOCK_TEXT_BYTES + 40];
    fby__dataset_block_text(j->s->r->ds, j->rows.block_number, text);
    (void)snprintf(what, sizeof what, "%s: what is found in all files", text);
    return fby__account_refuse(j->s->account, what, bytes, err);
}

static fby_status end_hook(job *j, fby__allowance *before, fby_status status, fby_error *err)
{
    (void)fby__alloc_within(before);
    if (status != FBY_E_NOMEM || !j->kept.lacked_bytes)
        return status;
    return refuse_kept(j, expected_bytes(j->s, j), err);
}

static fby_status placed(fby__read *read, uint32_t c, fby_error *err)
{
    job *j = FBY__TASK_OWNER(read, job, read);
    const fby__column_reader *r = j->s->r;
    const fby__file_column *at = fby__read_origin(read, c);
    if (c < j->n_handed) /* the rows are read again */
        return FBY_OK;
    j->n_handed = c + 1;
    const fby__panel *panel = at->origin == FBY__ORIGIN_LEAF ? &read->panels[c] : NULL;
    const char *constant = at->origin == FBY__ORIGIN_CONSTANT ? at->constant : NULL;
    fby__allowance *before = begin_hook(j);
    return end_hook(j, before, r->column(r->user, j->local, &j->rows, c, panel, constant, err), err);
}

static void done(fby__read *read, const fby_error *error)
{
    job *j = FBY__TASK_OWNER(read, job, read);
    j->status = error ? error->code : FBY_OK;
    j->lacks_room = error && read->lacks_room;
    if (error)
        j->error = *error;
}

static const fby__sink SINK = {.reserve = reserve, .place = place, .placed = placed, .done = done};

/* ---- memory that others hold ---- */

/* Is the job's block the first of those that wait? */
static bool is_next(const job *j)
{
    for (int i = 0; i < j->s->n_jobs; i++)
        if (j->s->jobs[i].waits && j->s->jobs[i].rows.block_number < j->rows.block_number)
            return false;
    return true;
}

/*
 * There is no room beside what the other threads hold: give back what this one does, and go on when the others have ended or wait as well.
 * From then on one thread works at a time. So what a scan needs at least does not depend on how many threads there are. False: this one is
 * alone already.
 */
static bool wait_for_room(job *j)
{
    scanning *s = j->s;
    no_memory(j);
    fby__reader_shrink(&s->reader, j->worker);
    pthread_mutex_lock(&s->lock);
    const bool others = s->n_working > 1;
    if (others) {
        s->n_working--;
        j->waits = true;
        pthread_cond_broadcast(&s->parked);
        while (s->n_working > 0 || !is_next(j))
            pthread_cond_wait(&s->parked, &s->lock);
        j->waits = false;
        s->n_working++;
    }
    pthread_mutex_unlock(&s->lock);
    return others;
}

static void leave(scanning *s)
{
    pthread_mutex_lock(&s->lock);
    s->n_working--;
    pthread_cond_broadcast(&s->parked);
    pthread_mutex_unlock(&s->lock);
}

/* ---- blocks ---- */

/* A block does not fit beside what was found: all that will be found says more about what would do. */
static fby_status refuse_beside_kept(job *j, fby_error *err)
{
    j->kept.lacked_bytes = 0;
    const uint64_t more = expected_bytes(j->s, j);
    return more == 0 ? j->status : refuse_kept(j, more, err);
}

/*
 * Has every column one value in these rows, by metadata alone? An extent is only a claim: of 2^40 rows that nobody wrote, decoding and looking
 * through the fill values would take hours.
 */
static bool is_one_row(const job *j, const fby__block *block, uint64_t begin, uint64_t end)
{
    const fby__column_reader *r = j->s->r;
    fby__table *table;
    if (!r->folds || fby__dataset_table(r->ds, block->file, &table, NULL) != FBY_OK) /* reading says why */
        return false;
    bool one = true;
    for (uint32_t c = 0; c < r->n_columns && one; c++) {
        fby__file_column at;
        fby__leaf_bounds bounds;
        fby__dataset_file_column(r->ds, block->file, &r->columns[c].in, &at);
        if (at.origin != FBY__ORIGIN_LEAF)
            continue;
        table->ops->leaf_bounds(table, block->group, block->row_begin + begin, block->row_begin + end, at.leaf, &bounds);
        one = bounds.one_value;
    }
    fby__table_unref(table);
    return one;
}

static fby_status read_rows(job *j, fby_error *err)
{
    bool was_alone = false; /* with nothing of its own from rows before */
    j->read.block = j->rows.block_number;
    j->read.lo = j->rows.row;
    j->read.hi = j->rows.row + j->rows.n;
    j->n_handed = 0;
    fby__read_begin(&j->read, j->worker);
    while (j->lacks_room && !was_alone) {
        was_alone = !wait_for_room(j);
        fby__read_begin(&j->read, j->worker);
    }
    if (j->status == FBY_OK)
        return FBY_OK;
    *err = j->error;
    return j->lacks_room ? refuse_beside_kept(j, err) : j->status;
}

static fby_status read_block(job *j, uint32_t b, fby_error *err)
{
    const fby__column_reader *r = j->s->r;
    const fby__block *block = fby__dataset_block(r->ds, b);
    uint64_t begin = 0, end = block->row_end - block->row_begin;
    if (end == 0 || (r->wanted && !r->wanted(r->user, b, &begin, &end)))
        return FBY_OK;
    if (end > MAX_BLOCK_ROWS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a block of %llu rows is more than the sample index holds",
                         (unsigned long long)(block->row_end - block->row_begin));
    const bool folded = is_one_row(j, block, begin, end);
    for (uint64_t row = begin, n; row < end; row += n) {
        n = folded ? end - row : fby__min_u64(AT_ONCE_ROWS, end - row);
        const bool one = folded || (n < end - begin && is_one_row(j, block, row, row + n));
        j->rows = (fby__scan_rows){b, block, row, one ? 1 : n, one ? n : 1, row == begin};
        FBY__TRY(read_rows(j, err));
        fby__allowance *before = begin_hook(j);
        FBY__TRY(end_hook(j, before, r->rows ? r->rows(r->user, j->local, &j->rows, err) : FBY_OK, err));
        pthread_mutex_lock(&j->s->lock);
        j->s->rows_seen += n;
        pthread_mutex_unlock(&j->s->lock);
    }
    fby__allowance *before = begin_hook(j);
    return end_hook(j, before, r->block ? r->block(r->user, j->local, b, err) : FBY_OK, err);
}

static fby_status job_init(job *j, fby_error *err)
{
    const fby__column_reader *r = j->s->r;
    fby__account_allowance_init(&j->kept, j->s->account, KEPT_STEP_BYTES);
    j->kept.allowance.more = keep;
    FBY__TRY(fby__read_init(&j->read, &j->s->reader, err));
    j->panels = fby__calloc(r->n_columns, sizeof *j->panels);
    j->local = fby__calloc(1, r->local_bytes);
    j->read.sink = &SINK;
    j->read.panels = j->panels;
    return j->panels && j->local ? FBY_OK : fby__fail_nomem(err, "the samples");
}

static void job_fini(job *j)
{
    fby__allowance *before = fby__alloc_within(&j->kept.allowance);
    if (j->local && j->s->r->fini)
        j->s->r->fini(j->local);
    fby__free(j->local);
    (void)fby__alloc_within(before);
    fby__account_allowance_shrink(&j->kept);
    fby__free(j->panels);
    no_memory(j);
    fby__read_fini(&j->read);
}

static void failed(scanning *s, uint32_t b, fby_status status, const fby_error *error)
{
    pthread_mutex_lock(&s->lock);
    if (b < atomic_load_explicit(&s->first_failed, memory_order_relaxed)) {
        s->status = status;
        s->error = *error;
        atomic_store_explicit(&s->first_failed, b, memory_order_relaxed);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Blocks one after the other; the calling thread also says how far it is. */
static void read_blocks(job *j, bool tells)
{
    scanning *s = j->s;
    const fby__column_reader *r = s->r;
    fby_error error = {.file_offset = -1};
    uint64_t told = s->began_ns;
    fby_status status = job_init(j, &error);
    if (status != FBY_OK)
        failed(s, 0, status, &error);
    while (status == FBY_OK) {
        uint32_t b = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (b >= s->n_blocks || b > atomic_load_explicit(&s->first_failed, memory_order_relaxed))
            break;
        status = read_block(j, b, &error);
        if (status != FBY_OK)
            failed(s, b, status, &error);
        atomic_fetch_add_explicit(&s->done, 1, memory_order_relaxed);
        if (tells && fby__now_ns() - told >= PROGRESS_NS) {
            told = fby__now_ns();
            r->progress(r->progress_user, atomic_load_explicit(&s->done, memory_order_relaxed), s->n_blocks, "finding samples");
        }
    }
    job_fini(j);
    fby__reader_shrink(&s->reader, j->worker);
    leave(s);
}

static void read_task(fby__task *task, int worker)
{
    (void)worker;
    read_blocks(FBY__TASK_OWNER(task, job, task), false);
}

/* ---- threads ---- */

static fby_status open_reader(scanning *s, int n_workers, fby_error *err)
{
    const fby__column_reader *r = s->r;
    s->columns = fby__calloc(r->n_columns, sizeof *s->columns);
    s->panels = fby__calloc(r->n_columns, sizeof *s->panels);
    s->numbers = fby__calloc(r->n_columns, sizeof *s->numbers);
    if (!s->columns || !s->panels || !s->numbers)
        return fby__fail_nomem(err, "the samples");
    for (uint32_t c = 0; c < r->n_columns; c++) {
        s->numbers[c] = c;
        s->columns[c] = r->columns[c].in;
        s->panels[c] = (fby__read_panel){.layout = r->columns[c].layout, .column = &s->numbers[c]};
    }
    fby__account *given = r->account ? r->account : fby__account_of_thread();
    s->owns_account = !given;
    if (given)
        s->account = fby__account_ref(given);
    else
        FBY__TRY(fby__dataset_account(r->ds, &s->account, err));
    fby__account_stats now;
    fby__account_stats_of(s->account, &now);
    s->kept_limit = now.limit_bytes - fby__min_u64(now.charged_bytes, now.limit_bytes);
    s->reader = (fby__reader){.ds = r->ds,
                              .columns = s->columns,
                              .n_columns = r->n_columns,
                              .panels = s->panels,
                              .n_panels = r->n_columns,
                              .n_workers = n_workers,
                              .account = s->account};
    return fby__reader_open(&s->reader, err);
}

static void run(scanning *s)
{
    fby__pool *pool = NULL;
    if (s->n_jobs > 1 && fby__pool_create(s->n_jobs - 1, "forebay-scan", FBY__STACK_OWN, &pool, NULL) != FBY_OK)
        s->n_jobs = 1; /* this thread alone will do */
    s->n_working = s->n_jobs;
    for (int i = 0; i < s->n_jobs; i++) {
        s->jobs[i].s = s;
        s->jobs[i].worker = i;
        s->jobs[i].task.run = read_task;
    }
    for (int i = 1; i < s->n_jobs; i++)
        fby__pool_submit(pool, &s->jobs[i].task);
    fby__allowance *before = fby__alloc_within(NULL); /* what is read has its own, in the same account */
    read_blocks(&s->jobs[0], s->r->progress != NULL);
    (void)fby__alloc_within(before);
    fby__pool_destroy(pool);
}

fby_status fby__read_columns(const fby__column_reader *r, fby_error *err)
{
    scanning s = {.r = r, .n_blocks = fby__dataset_block_count(r->ds), .first_failed = FBY__NONE, .began_ns = fby__now_ns()};
    int n = r->n_threads > 0 ? r->n_threads : fby__cpu_count();
    n = n > MAX_THREADS ? MAX_THREADS : n;
    n = (uint32_t)n > s.n_blocks ? (int)s.n_blocks : n;
    n = n < 1 ? 1 : n;
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.parked, NULL);
    s.n_jobs = n;
    s.jobs = fby__calloc((size_t)n, sizeof *s.jobs);
    fby_status status = s.jobs ? open_reader(&s, n, err) : fby__fail_nomem(err, "the samples");
    if (status == FBY_OK)
        run(&s);
    if (status == FBY_OK && atomic_load_explicit(&s.first_failed, memory_order_relaxed) != FBY__NONE) {
        status = s.status;
        if (err)
            *err = s.error;
    }
    fby__reader_close(&s.reader);
    if (s.owns_account && s.account)
        fby__account_retire(s.account);
    fby__account_unref(s.account);
    fby__free(s.jobs);
    fby__free(s.columns);
    fby__free(s.panels);
    fby__free(s.numbers);
    pthread_cond_destroy(&s.parked);
    pthread_mutex_destroy(&s.lock);
    return status;
}
