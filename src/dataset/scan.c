/*
 * Reading the metadata of many files by several threads.
 *
 * Opening 10,000 small files waits on the disk or the network, not on the CPU, so there are more threads than CPUs; they
 * take files in order from one counter. A file whose stamp is the one in the index is not opened at all.
 * The first error by file order wins, whatever the timing: when file i fails, all files before it have been taken already
 * and are finished, the ones after it are given up.
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "base/condition.h"
#include "base/cpu.h"
#include "budget/allowance.h"
#include "dataset/dataset_impl.h"
#include "pool/pool.h"

#include <stdio.h>

#define RACY_NS INT64_C(2000000000)
#define END_BYTES 16
#define MAX_THREADS 256
#define PROGRESS_NS UINT64_C(100000000) /* from one word of progress to the next */
#define STEP_BYTES ((size_t)64 << 10)   /* of memory asked for at once: there may be many threads, and little of it */

typedef struct scan {
    /* set once */
    fby_dataset *ds;
    const fby__index *index;
    fby__account *account; /* borrowed */
    /* atomic: relaxed counters, results are published by joining the threads */
    _Atomic uint32_t next, done, first_failed;
    _Atomic uint32_t running; /* threads: the progress loop watches it */
    _Atomic bool any_waits;   /* files that did not fit beside those that others read */
    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t finished;
    size_t schemas_cap;
    uint32_t *table; /* open addressing by hash: schema + 1, 0 = free; a power of two long */
    size_t table_n;
    fby_status status; /* of the file first_failed */
    fby_error error;
} scan;

/* A name that says Parquet or HDF5: damaged content is then an error even in a directory walked for whatever it holds. */
static bool claims_format(const char *name)
{
    static const char *const SUFFIXES[] = {".parquet", ".parq",  ".pq",     ".h5",      ".hdf5", ".he5",
                                           ".nc4",     ".arrow", ".arrows", ".feather", ".ipc"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof SUFFIXES / sizeof *SUFFIXES; i++) {
        size_t m = strlen(SUFFIXES[i]);
        if (n > m && strcasecmp(name + n - m, SUFFIXES[i]) == 0)
            return true;
    }
    return false;
}

/*
 * CSV text is known by its name alone, and a README.csv beside Parquet files is not data. So in a directory walked for whatever it holds
 * such files count, all of them, only when no name there claims another format. (Named, or matched by a pattern, they always do.)
 */
static void count_csv(fby_dataset *ds)
{
    bool alone = true;
    for (uint32_t i = 0; i < ds->n_files && alone; i++)
        alone = !claims_format(ds->files[i].path);
    for (uint32_t i = 0; i < ds->n_files && alone; i++)
        ds->files[i].strict |= fby__csv_named(ds->files[i].path);
}

static fby_status read_file(fby__file *file, const fby__dataset_file *info, const fby__format_opts *opts, fby__table **out, fby_error *err)
{
    uint8_t head[END_BYTES], tail[END_BYTES];
    uint64_t size = fby__file_stamp_of(file)->size_bytes;
    size_t n = (size_t)fby__min_u64(size, END_BYTES);
    if (n)
        FBY__TRY(fby__file_read(file, 0, head, n, err));
    const fby__format_ops *ops = fby__format_of((fby__bytes){head, n}, (fby__bytes){NULL, 0}, NULL);
    if (!ops) { /* most files say at their beginning what they are */
        if (n)
            FBY__TRY(fby__file_read(file, size - n, tail, n, err));
        ops = fby__format_of((fby__bytes){head, n}, (fby__bytes){tail, n}, info->strict || claims_format(info->path) ? file : NULL);
    }
    if (ops && ops->may_read) {
        bool no_locks;
        FBY__TRY(ops->may_read(file, opts, &no_locks, err));
    }
    if (ops)
        return ops->open(file, opts, out, err);
    FBY__TRY(fby__cancel_check(err)); /* what could not be looked at is not known to be another file */
    bool known;
    const char *looks = fby__sniff((fby__bytes){head, n}, (fby__bytes){tail, n}, &known);
    if (!info->strict && !claims_format(info->path)) {
        *out = NULL;
        return FBY_OK;
    }
    if (size == 0)
        return fby__fail_at(err, FBY_E_FORMAT, 0, "'%s' is empty: 0 bytes are no Parquet, HDF5, NetCDF-4, Arrow or CSV file", info->path);
    return known
               ? fby__fail(err, FBY_E_UNSUPPORTED,
                           "'%s' is %s; only Parquet, HDF5, NetCDF-4, Arrow and CSV files can be opened, convert it", info->path, looks)
               : fby__fail_at(err, FBY_E_FORMAT, 0, "'%s' is no Parquet, HDF5, NetCDF-4, Arrow or CSV file: it looks like %s (%llu bytes)",
                              info->path, looks, (unsigned long long)size);
}

fby_status fby__scan_table(const fby__dataset_file *info, const fby__format_opts *opts, const fby__file_stamp *expect,
                           fby__file_stamp *out_stamp, fby__table **out, fby_error *err)
{
    fby__file *file;
    fby__format_opts own = *opts;
    own.reach.up = info->up;
    FBY__TRY(fby__file_open(info->path, expect, &file, err));
    *out_stamp = *fby__file_stamp_of(file);
    fby_status status = read_file(file, info, &own, out, err);
    fby__file_unref(file);
    return status;
}

static size_t slot_of(const scan *s, fby__hash128 hash)
{
    size_t slot = (size_t)fby__table_hash_u64(hash.lo) & (s->table_n - 1);
    while (s->table[slot] && !fby__hash_equal(s->ds->schemas[s->table[slot] - 1]->hash, hash))
        slot = (slot + 1) & (s->table_n - 1);
    return slot;
}

/* The number of a schema among the dataset's distinct ones. */
static fby_status intern_schema_locked(scan *s, fby__schema *schema, uint32_t *out, fby_error *err)
{
    fby_dataset *ds = s->ds;
    if (2 * ((size_t)ds->n_schemas + 1) > s->table_n) {
        size_t n = s->table_n ? 2 * s->table_n : 64;
        uint32_t *table = fby__calloc(n, sizeof *table);
        if (!table)
            return fby__fail_nomem(err, "schemas");
        fby__free(s->table);
        s->table = table;
        s->table_n = n;
        for (uint32_t i = 0; i < ds->n_schemas; i++)
            s->table[slot_of(s, ds->schemas[i]->hash)] = i + 1;
    }
    size_t slot = slot_of(s, schema->hash);
    if (!s->table[slot]) {
        if (fby__grow((void **)&ds->schemas, &s->schemas_cap, (size_t)ds->n_schemas + 1, sizeof *ds->schemas) != 0)
            return fby__fail_nomem(err, "schemas");
        ds->schemas[ds->n_schemas++] = fby__schema_ref(schema);
        s->table[slot] = ds->n_schemas;
    }
    *out = s->table[slot] - 1;
    return FBY_OK;
}

/* Move what a table says into the dataset: frozen, its group sizes, its schema by number. */
static fby_status keep_table(scan *s, fby__dataset_file *info, const fby__table *table, fby_error *err)
{
    fby__buf frozen = {0};
    fby__group_size *groups;
    const char *bytes;
    fby_status status = table->ops->freeze(table, &frozen, err);
    if (status != FBY_OK)
        goto done;
    pthread_mutex_lock(&s->lock);
    groups = fby__arena_alloc(&s->ds->arena, table->n_groups * sizeof *groups);
    bytes = fby__arena_copy(&s->ds->arena, frozen.data, frozen.n);
    status = groups && bytes ? intern_schema_locked(s, table->schema, &info->schema, err) : fby__fail_nomem(err, "file metadata");
    pthread_mutex_unlock(&s->lock);
    if (status != FBY_OK)
        goto done;
    for (uint32_t g = 0; g < table->n_groups; g++)
        groups[g] = (fby__group_size){table->groups[g].rows, table->groups[g].stored_bytes, table->groups[g].block_rows,
                                      table->groups[g].step_rows};
    info->ops = table->ops;
    info->n_groups = table->n_groups;
    info->groups = groups;
    info->frozen = (fby__bytes){(const uint8_t *)bytes, frozen.n};
done:
    fby__buf_fini(&frozen);
    return status;
}

static fby_status keep_sources(scan *s, fby__dataset_file *info, const fby__table *table, fby_error *err)
{
    pthread_mutex_lock(&s->lock);
    fby__source_file *sources = fby__arena_alloc(&s->ds->arena, table->n_sources * sizeof *sources);
    for (uint32_t i = 0; sources && i < table->n_sources; i++) {
        sources[i] = table->sources[i];
        sources[i].path = fby__arena_copy(&s->ds->arena, table->sources[i].path, strlen(table->sources[i].path));
        if (!sources[i].path)
            sources = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    info->sources = sources;
    info->n_sources = table->n_sources;
    return sources ? FBY_OK : fby__fail_nomem(err, "file metadata");
}

/* Are the files that values of an entry come from as they were? Not known is no, too: the call was cancelled. */
static bool same_sources(const fby__index_entry *entry)
{
    for (uint32_t i = 0; i < entry->n_sources; i++) {
        fby__file_stamp stamp;
        if (fby__cancelled())
            return false;
        bool there = fby__file_stat(entry->sources[i].path, &stamp, NULL) == FBY_OK;
        if (there == entry->sources[i].absent || (there && !fby__file_same(entry->sources[i].path, &stamp, &entry->sources[i].stamp)))
            return false;
    }
    return true;
}

static fby_status use_entry(scan *s, fby__dataset_file *info, const fby__index_entry *entry, fby_error *err)
{
    if (entry->ops) {
        pthread_mutex_lock(&s->lock);
        fby_status status = intern_schema_locked(s, s->index->schemas[entry->schema], &info->schema, err);
        pthread_mutex_unlock(&s->lock);
        FBY__TRY(status);
    }
    info->ops = entry->ops;
    info->n_groups = entry->n_groups;
    info->groups = entry->groups;
    info->frozen = entry->frozen;
    info->sources = entry->sources;
    info->n_sources = entry->n_sources;
    info->from_cache = true;
    return FBY_OK;
}

static fby_status scan_file(scan *s, fby__dataset_file *info, fby_error *err)
{
    FBY__TRY(fby__cancel_check(err));
    const fby__index_entry *entry = fby__index_find(s->index, info->name, (uint32_t)(info - s->ds->files)); /* both are sorted by name */
    if (entry && entry->ops == &fby__csv_ops && !info->strict)
        entry = NULL; /* it counted when it was alone */
    if (entry && (entry->ops || (!info->strict && !claims_format(info->path)))) {
        fby__file_stamp stamp;
        FBY__TRY(fby__file_stat(info->path, &stamp, err));
        if (fby__file_same(info->path, &stamp, &entry->stamp) && same_sources(entry)) {
            info->stamp = entry->stamp; /* what is kept of a data set under its stamps is found again where inodes come and go */
            return use_entry(s, info, entry, err);
        }
        FBY__TRY(fby__cancel_check(err));
    }
    int64_t now_ns = (int64_t)fby__clock_ns(CLOCK_REALTIME);
    fby__table *table;
    FBY__TRY(fby__scan_table(info, &s->ds->config.format, NULL, &info->stamp, &table, err));
    info->racy = info->stamp.mtime_ns > now_ns - RACY_NS;
    if (!table)
        return FBY_OK;
    fby_status status = keep_table(s, info, table, err);
    if (status == FBY_OK)
        status = keep_sources(s, info, table, err);
    info->racy |= table->unsettled;
    for (uint32_t i = 0; i < table->n_sources; i++)
        info->racy |= !table->sources[i].absent && table->sources[i].stamp.mtime_ns > now_ns - RACY_NS;
    fby__table_unref(table);
    return status;
}

static void failed(scan *s, uint32_t i, fby_status status, const fby_error *error)
{
    pthread_mutex_lock(&s->lock);
    if (i < atomic_load_explicit(&s->first_failed, memory_order_relaxed)) {
        s->status = status;
        s->error = *error;
        atomic_store_explicit(&s->first_failed, i, memory_order_relaxed);
    }
    pthread_mutex_unlock(&s->lock);
}

static void *scan_files(void *arg)
{
    scan *s = arg;
    fby__account_allowance own;
    fby__account_allowance_init(&own, s->account, STEP_BYTES);
    fby__allowance *before = fby__alloc_within(&own.allowance);
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (i >= s->ds->n_files || i > atomic_load_explicit(&s->first_failed, memory_order_relaxed))
            break;
        fby_error error;
        own.lacked_bytes = 0;
        fby_status status = scan_file(s, &s->ds->files[i], &error);
        atomic_fetch_add_explicit(&s->done, 1, memory_order_relaxed);
        if (status == FBY_E_NOMEM && own.lacked_bytes) {
            s->ds->files[i].waits = true;
            atomic_store_explicit(&s->any_waits, true, memory_order_relaxed);
        } else if (status != FBY_OK) {
            failed(s, i, status, &error);
        }
    }
    (void)fby__alloc_within(before);
    fby__account_allowance_shrink(&own);
    pthread_mutex_lock(&s->lock);
    atomic_fetch_sub_explicit(&s->running, 1, memory_order_relaxed);
    pthread_cond_signal(&s->finished);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Files that did not fit beside others, one at a time: so what opening needs at least does not depend on how many threads there are. */
static void scan_waiting(scan *s)
{
    for (uint32_t i = 0; i < s->ds->n_files && i < atomic_load_explicit(&s->first_failed, memory_order_relaxed); i++) {
        fby__dataset_file *info = &s->ds->files[i];
        if (!info->waits)
            continue;
        fby_error error;
        fby__account_allowance own;
        fby__account_allowance_init(&own, s->account, STEP_BYTES);
        fby__allowance *before = fby__alloc_within(&own.allowance);
        info->waits = false;
        fby_status status = scan_file(s, info, &error);
        (void)fby__alloc_within(before);
        fby__account_allowance_shrink(&own);
        if (status == FBY_E_NOMEM && own.lacked_bytes) {
            char what[400];
            (void)snprintf(what, sizeof what, "'%.360s': what opening it takes", info->path);
            status = fby__account_refuse(s->account, what, own.lacked_bytes, &error);
        }
        if (status != FBY_OK)
            failed(s, i, status, &error);
    }
}

/* Tell the caller how far it is, ten times a second, until the threads are done. No lock is held during the call. */
static void watch(scan *s, const fby_open_opts *opts)
{
    for (;;) {
        const uint64_t until = fby__now_ns() + PROGRESS_NS;
        pthread_mutex_lock(&s->lock);
        while (atomic_load_explicit(&s->running, memory_order_relaxed) > 0 && fby__cond_wait_until(&s->finished, &s->lock, until)) {
        }
        bool running = atomic_load_explicit(&s->running, memory_order_relaxed) > 0;
        pthread_mutex_unlock(&s->lock);
        if (!running)
            return;
        opts->progress(opts->progress_user, atomic_load_explicit(&s->done, memory_order_relaxed), s->ds->n_files, "reading metadata");
    }
}

static fby_status run_threads(scan *s, const fby_open_opts *opts, fby_error *err)
{
    int cpus = fby__cpu_count();
    int wanted = opts->n_threads > 0 ? opts->n_threads : 2 * cpus > 8 ? 2 * cpus : 8;
    if (wanted > MAX_THREADS)
        wanted = MAX_THREADS;
    /* A file that needs only a stat costs microseconds: a thread should have some of them to be worth its start. */
    uint32_t useful = s->index->n_entries >= s->ds->n_files ? s->ds->n_files / 256 + 1 : s->ds->n_files;
    if ((uint32_t)wanted > useful)
        wanted = (int)useful;
    bool watched = opts->progress && s->ds->n_files > 1;
    pthread_t threads[MAX_THREADS];
    int n = 0;
    /* The calling thread takes part, except where it has progress to tell. */
    for (int first = watched ? 0 : 1; first + n < wanted || (watched && n == 0); n++) {
        atomic_fetch_add_explicit(&s->running, 1, memory_order_relaxed);
        if (fby__thread_start(&threads[n], "forebay-open", n, FBY__STACK_OWN, scan_files, s, NULL) != FBY_OK) {
            atomic_fetch_sub_explicit(&s->running, 1, memory_order_relaxed);
            break; /* fewer will do */
        }
    }
    if (watched && n > 0) {
        watch(s, opts);
    } else {
        atomic_fetch_add_explicit(&s->running, 1, memory_order_relaxed);
        (void)scan_files(s);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (atomic_load_explicit(&s->any_waits, memory_order_relaxed))
        scan_waiting(s);
    if (atomic_load_explicit(&s->first_failed, memory_order_relaxed) == FBY__NONE)
        return FBY_OK;
    if (err)
        *err = s->error;
    return s->status;
}

/* Renumber the schemas by the first file that has each, so that nothing depends on which thread was first. */
static fby_status order_schemas(fby_dataset *ds, fby_error *err)
{
    uint32_t *number = fby__malloc(ds->n_schemas * sizeof *number);
    fby__schema **ordered = fby__calloc(ds->n_schemas, sizeof *ordered);
    ds->schema_file = fby__calloc(ds->n_schemas, sizeof *ds->schema_file);
    if (!number || !ordered || !ds->schema_file) {
        fby__free(number);
        fby__free(ordered);
        return fby__fail_nomem(err, "schemas");
    }
    for (uint32_t i = 0; i < ds->n_schemas; i++)
        number[i] = FBY__NONE;
    uint32_t n = 0;
    for (uint32_t i = 0; i < ds->n_files; i++) {
        fby__dataset_file *file = &ds->files[i];
        if (!file->ops)
            continue;
        if (number[file->schema] == FBY__NONE) {
            ordered[n] = ds->schemas[file->schema];
            ds->schema_file[n] = i;
            number[file->schema] = n++;
        }
        file->schema = number[file->schema];
    }
    for (uint32_t i = 0; i < n; i++)
        ds->schemas[i] = ordered[i]; /* every schema has a file, so n is n_schemas */
    fby__free(number);
    fby__free(ordered);
    return FBY_OK;
}

fby_status fby__scan(fby_dataset *ds, const fby__index *index, const fby_open_opts *opts, fby_error *err)
{
    scan s = {.ds = ds, .index = index, .account = fby__account_of_thread(), .first_failed = FBY__NONE};
    count_csv(ds);
    (void)fby__cond_init(&s.finished);
    pthread_mutex_init(&s.lock, NULL);
    fby_status status = run_threads(&s, opts, err);
    pthread_mutex_destroy(&s.lock);
    pthread_cond_destroy(&s.finished);
    fby__free(s.table);
    if (status == FBY_OK)
        status = order_schemas(ds, err);
    for (uint32_t i = 0; status == FBY_OK && i < ds->n_files; i++) {
        fby__dataset_file *file = &ds->files[i];
        for (uint32_t g = 0; g < file->n_groups; g++)
            if (!fby__add_u64_checked(file->rows, file->groups[g].rows, &file->rows) ||
                !fby__add_u64_checked(file->stored_bytes, file->groups[g].stored_bytes, &file->stored_bytes))
                return fby__fail(err, FBY_E_FORMAT, "'%s': the rows of its groups do not fit in 64 bits", file->path);
        uint64_t size = file->stamp.size_bytes;
        file->metadata_bytes = size > file->stored_bytes ? size - file->stored_bytes : 0;
        ds->stats.files_from_cache += file->ops && file->from_cache;
        if (!file->from_cache && file->ops)
            ds->stats.metadata_bytes_read += file->metadata_bytes;
    }
    return status;
}
