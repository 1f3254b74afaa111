/*
 * Opening a dataset: find the files, read their metadata, store the index, join the schemas, cut the blocks, name it.
 *
 * Identity is what the order of an epoch depends on: relative names, rows per block, the joined schema. It survives a copy to
 * another folder. Contents add sizes and the metadata itself: what two copies have in common. The fingerprint adds times. Stamps add what
 * only this machine's files have, ctimes and inodes: what is kept of a data set on disk is named by them.
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/process.h"
#include "base/sized.h"
#include "base/sort.h"
#include "budget/allowance.h"
#include "budget/memory_limits.h"
#include "dataset/dataset_impl.h"
#include "format/arrow/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MAX_FOLDERS_BYTES 60000u /* of the names in external, together */

fby_dataset *fby_dataset_ref(fby_dataset *ds)
{
    atomic_fetch_add_explicit(&ds->refs, 1, memory_order_relaxed);
    return ds;
}

void fby_dataset_close(fby_dataset *ds)
{
    /* acq_rel: whoever frees sees what the others did before they let go. */
    if (!ds || atomic_fetch_sub_explicit(&ds->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < FBY__TABLE_SLOTS; i++)
        fby__table_unref(ds->recent.tables[i].table);
    for (size_t i = 0; i < FBY__MAP_SLOTS; i++)
        fby__file_unref(ds->recent.maps[i].opened);
    fby__table_unref(ds->memory_table);
    for (uint32_t i = 0; i < ds->n_schemas; i++)
        fby__schema_unref(ds->schemas[i]);
    for (uint32_t i = 0; ds->found_schemas && i < ds->n_schemas; i++)
        fby__schema_unref(ds->found_schemas[i]);
    if (ds->schema)
        fby__schema_unref(ds->schema);
    fby__notes_fini(&ds->notes);
    fby__notes_fini(&ds->left_out);
    fby__free((void *)ds->seen.hidden.at);
    fby__free((void *)ds->seen.duplicate.at);
    fby__free(ds->schemas);
    fby__free(ds->found_schemas);
    fby__free(ds->schema_file);
    fby__free(ds->join);
    fby__free(ds->blocks);
    fby__free(ds->files);
    fby__index_fini(&ds->index);
    fby__arena_fini(&ds->arena);
    pthread_mutex_destroy(&ds->recent.lock);
    fby__free(ds);
}

static fby_dataset *create(fby_error *err)
{
    fby_dataset *ds = fby__calloc(1, sizeof *ds);
    if (!ds) {
        (void)fby__fail_nomem(err, "data set"); /* the caller returns the code */
        return NULL;
    }
    atomic_init(&ds->refs, 1);
    ds->pid = fby__process_id();
    pthread_mutex_init(&ds->recent.lock, NULL);
    if (fby__h5_environment_read(&ds->arena, &ds->config.environment, err) == FBY_OK)
        return ds;
    fby_dataset_close(ds);
    return NULL;
}

/* ---- blocks ---- */

static uint64_t blocks_of(const fby__group_size *group)
{
    if (group->rows == 0)
        return 0;
    if (group->block_rows)
        return fby__div_up_u64(group->rows, group->block_rows);
    uint64_t n_blocks = fby__div_up_u64(group->stored_bytes, FBY__BLOCK_STORED_BYTES);
    return n_blocks < 1 ? 1 : fby__min_u64(n_blocks, group->rows);
}

/* ⌊n·i/n_blocks⌋, exact for any n. */
static uint64_t cut(uint64_t n, uint64_t i, uint64_t n_blocks) { return (uint64_t)((unsigned __int128)n * i / n_blocks); }

/* The first row of block i: the format's own cuts, or equal parts. */
static uint64_t cut_rows(const fby__group_size *group, uint64_t i, uint64_t n_blocks)
{
    return group->block_rows ? fby__min_u64(i * group->block_rows, group->rows) : cut(group->rows, i, n_blocks);
}

static fby_status make_blocks(fby_dataset *ds, fby_error *err)
{
    uint64_t n = 0;
    for (uint32_t f = 0; f < ds->n_files; f++)
        for (uint32_t g = 0; g < ds->files[f].n_groups; g++)
            if (!fby__add_u64_checked(n, blocks_of(&ds->files[f].groups[g]), &n) || n >= UINT32_MAX)
                return fby__fail(err, FBY_E_UNSUPPORTED, "more than %u blocks, at '%s'", UINT32_MAX - 1, ds->files[f].path);
    ds->blocks = fby__calloc((size_t)n, sizeof *ds->blocks);
    if (!ds->blocks)
        return fby__fail_nomem(err, "list of blocks");
    for (uint32_t f = 0; f < ds->n_files; f++) {
        fby__dataset_file *file = &ds->files[f];
        file->first_block = ds->n_blocks;
        for (uint32_t g = 0; g < file->n_groups; g++) {
            const fby__group_size *group = &file->groups[g];
            uint64_t n_blocks = blocks_of(group);
            for (uint64_t i = 0; i < n_blocks; i++) {
                fby__block *block = &ds->blocks[ds->n_blocks++];
                *block = (fby__block){.file = f,
                                      .group = g,
                                      .row_begin = cut_rows(group, i, n_blocks),
                                      .row_end = cut_rows(group, i + 1, n_blocks),
                                      .first_row = ds->rows,
                                      .stored_bytes = cut(group->stored_bytes, i + 1, n_blocks) - cut(group->stored_bytes, i, n_blocks)};
                if (!fby__add_u64_checked(ds->rows, block->row_end - block->row_begin, &ds->rows) ||
                    !fby__add_u64_checked(ds->stored_bytes, block->stored_bytes, &ds->stored_bytes))
                    return fby__fail(err, FBY_E_FORMAT, "'%s': more rows than fit in 64 bits", file->path);
            }
        }
        file->n_blocks = ds->n_blocks - file->first_block;
    }
    return FBY_OK;
}

/* ---- names of the whole ---- */

/* A file that values of another come from, as that one. False: no memory. */
static bool put_source(const fby__source_file *s, fby__buf *content, fby__buf *times, fby__buf *stamps)
{
    const uint64_t there[] = {!s->absent, s->stamp.size_bytes};
    return fby__buf_put(content, there, sizeof there) == 0 && fby__buf_put(times, &s->stamp.mtime_ns, sizeof s->stamp.mtime_ns) == 0 &&
           fby__buf_put(stamps, &s->stamp.inode, sizeof s->stamp.inode) == 0 &&
           fby__buf_put(stamps, &s->stamp.ctime_ns, sizeof s->stamp.ctime_ns) == 0;
}

static fby_status make_identity(fby_dataset *ds, fby_error *err)
{
    fby__buf names = {0}, content = {0}, times = {0}, stamps = {0};
    fby__hash128 hash;
    fby_status status = FBY_E_NOMEM;
    for (uint32_t f = 0; f < ds->n_files; f++) {
        const fby__dataset_file *file = &ds->files[f];
        if (fby__buf_put(&names, file->name, strlen(file->name) + 1) != 0 ||
            fby__buf_put(&names, &file->n_blocks, sizeof file->n_blocks) != 0)
            goto done;
        for (uint64_t b = file->first_block; b < file->first_block + file->n_blocks; b++) {
            uint64_t rows = ds->blocks[b].row_end - ds->blocks[b].row_begin;
            if (fby__buf_put(&names, &rows, sizeof rows) != 0)
                goto done;
        }
        const fby__file_stamp *stamp = &file->stamp;
        fby__hash128 hashes[] = {fby__hash(file->frozen.data, file->frozen.n), ds->schemas[file->schema]->hash};
        if (fby__buf_put(&content, &stamp->size_bytes, sizeof stamp->size_bytes) != 0 ||
            fby__buf_put(&content, hashes, sizeof hashes) != 0 || fby__buf_put(&times, &stamp->mtime_ns, sizeof stamp->mtime_ns) != 0 ||
            fby__buf_put(&stamps, &stamp->inode, sizeof stamp->inode) != 0 ||
            fby__buf_put(&stamps, &stamp->ctime_ns, sizeof stamp->ctime_ns) != 0)
            goto done;
        ds->inodes = fby__hash_more((fby__hash128){ds->inodes, 0}, &stamp->inode, sizeof stamp->inode).lo;
        for (uint32_t i = 0; i < file->n_sources; i++)
            if (!put_source(&file->sources[i], &content, &times, &stamps))
                goto done;
    }
    hash = fby__hash(names.data, names.n);
    hash = fby__hash_more(hash, &ds->schema->hash, sizeof ds->schema->hash);
    fby__hash_text(hash, ds->identity);
    hash = fby__hash_more(hash, content.data, content.n);
    fby__hash_text(hash, ds->contents);
    hash = fby__hash_more(hash, times.data, times.n);
    fby__hash_text(hash, ds->fingerprint);
    ds->stamps = fby__hash_more(hash, stamps.data, stamps.n);
    status = FBY_OK;
done:
    fby__buf_fini(&names);
    fby__buf_fini(&content);
    fby__buf_fini(&times);
    fby__buf_fini(&stamps);
    return status == FBY_OK ? FBY_OK : fby__fail_nomem(err, "identity of the data set");
}

/* ---- from files ---- */

static fby_status copy_opts(const fby_open_opts *from, fby_open_opts *to, fby_error *err)
{
    *to = (fby_open_opts){.size = sizeof *to};
    if (!from)
        return FBY_OK;
    FBY__TRY(FBY__SIZED_IN(fby_open_opts, n_ids, from, to, err));
    if ((unsigned)to->missing_columns > FBY_MISSING_COLUMNS_FILL)
        return fby__fail(err, FBY_E_ARG, "unknown value of missing_columns: error or fill");
    if ((unsigned)to->io > FBY_IO_NULL)
        return fby__fail(err, FBY_E_ARG, "there is no I/O engine %d", (int)to->io);
    if ((unsigned)to->missing_sources > FBY_MISSING_SOURCES_FILL)
        return fby__fail(err, FBY_E_ARG, "unknown value of missing_sources: error or fill");
    if (to->io == FBY_IO_MMAP && !to->immutable)
        return fby__fail(err, FBY_E_ARG,
                         "mmap is only for files that do not change (a mapped file that shrinks kills the "
                         "process): set immutable, or use another engine");
    if (to->n_external && !to->external)
        return fby__fail(err, FBY_E_ARG, "n_external is %zu, but external is NULL", to->n_external);
    if (to->n_ids && !to->ids)
        return fby__fail(err, FBY_E_ARG, "n_ids is %zu, but ids is NULL", to->n_ids);
    if (to->n_dtypes && !to->dtypes)
        return fby__fail(err, FBY_E_ARG, "n_dtypes is %zu, but dtypes is NULL", to->n_dtypes);
    return FBY_OK;
}

static fby_status copy_text(fby_dataset *ds, const char *text, const char **out, fby_error *err)
{
    *out = text ? fby__arena_copy(&ds->arena, text, strlen(text)) : NULL;
    return text && !*out ? fby__fail_nomem(err, "the options") : FBY_OK;
}

/* A folder that is not there would allow nothing, without a word. */
static fby_status check_folder(const char *said, const char *path, fby_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fby__fail_errno(err, errno, "external: the folder '%s' cannot be used; give folders that are there, or the word anywhere",
                               said);
    if (!S_ISDIR(st.st_mode))
        return fby__fail(err, FBY_E_ARG, "external: '%s' is no folder; give the one that it lies in", said);
    return FBY_OK;
}

static fby_status set_reach(fby_dataset *ds, const fby_open_opts *o, fby_error *err)
{
    fby__buf folders = {0};
    fby_status status = FBY_OK;
    for (size_t i = 0; i < o->n_external && status == FBY_OK; i++) {
        const char *path = o->external[i];
        if (!path || !*path)
            status = fby__fail(err, FBY_E_ARG, "external: a folder has no name");
        else if (strcmp(path, "anywhere") == 0)
            ds->config.format.reach.anywhere = true;
        else if ((status = fby__path_absolute(&ds->arena, path, &path, err)) == FBY_OK &&
                 (status = check_folder(o->external[i], path, err)) == FBY_OK && fby__buf_put(&folders, path, strlen(path) + 1) != 0)
            status = fby__fail_nomem(err, "the options");
    }
    if (status == FBY_OK && folders.n > MAX_FOLDERS_BYTES)
        status = fby__fail(err, FBY_E_ARG, "external: %zu folders are too many", o->n_external);
    if (status == FBY_OK && folders.n > 0) {
        ds->config.format.reach.folders_bytes = (uint32_t)folders.n;
        ds->config.format.reach.folders = fby__arena_copy(&ds->arena, folders.data, folders.n);
        if (!ds->config.format.reach.folders)
            status = fby__fail_nomem(err, "the options");
    }
    fby__buf_fini(&folders);
    return status;
}

/* What formats are told: kept, for a table may have to be read again. */
static fby_status set_format_opts(fby_dataset *ds, const fby_open_opts *o, fby_error *err)
{
    if (o->sample_axis < 0 || o->sample_axes < 0)
        return fby__fail(err, FBY_E_ARG, "an axis cannot be negative");
    if (o->sample_axes > 1 && (o->sample_axis || o->dimension))
        return fby__fail(err, FBY_E_ARG, "cells run over the leading axes: sample_axes cannot be combined with sample_axis or dimension");
    if (o->single && !o->table)
        return fby__fail(err, FBY_E_ARG, "single needs the path of a data set in table");
    if (o->sample_axis && o->dimension)
        return fby__fail(err, FBY_E_ARG, "both sample_axis and dimension say which axis runs over rows: give one of them");
    ds->config.format = (fby__format_opts){.axis = o->sample_axis,
                                           .axes = o->sample_axes,
                                           .single = o->single,
                                           .stored_values = o->stored_values,
                                           .fill_sources = o->missing_sources == FBY_MISSING_SOURCES_FILL,
                                           .locks = fby__h5_lock_check(),
                                           .reach.environment = &ds->config.environment};
    FBY__TRY(set_reach(ds, o, err));
    FBY__TRY(copy_text(ds, o->table, &ds->config.format.table, err));
    return copy_text(ds, o->dimension, &ds->config.format.dimension, err);
}

static fby_status list_files(fby_dataset *ds, const fby__found *found, fby_error *err)
{
    ds->files = fby__calloc(found->n_files, sizeof *ds->files);
    ds->constants = fby__arena_alloc(&ds->arena, found->n_columns * sizeof *ds->constants);
    if (!ds->files || !ds->constants)
        return fby__fail_nomem(err, "list of files");
    ds->n_files = (uint32_t)found->n_files;
    ds->searched = found->searched;
    for (uint32_t i = 0; i < ds->n_files; i++)
        ds->files[i] = (fby__dataset_file){.path = found->files[i].path,
                                           .name = found->files[i].name,
                                           .constants = found->files[i].constants,
                                           .up = found->files[i].up,
                                           .strict = found->files[i].strict};
    ds->n_constants = found->n_columns;
    ds->source_constant = found->source_column;
    for (uint32_t i = 0; i < found->n_columns; i++) {
        ds->constants[i] = fby__arena_copy(&ds->arena, found->columns[i], strlen(found->columns[i]));
        if (!ds->constants[i])
            return fby__fail_nomem(err, "constant columns");
    }
    ds->seen.n_special = found->n_special;
    if (found->n_missing_ids) /* skipped: find.c refuses them otherwise */
        FBY__TRY(fby__notes_add(ds, err, "%zu of %zu ids have no file and were skipped: %s", found->n_missing_ids, found->n_ids,
                                found->missing_ids));
    return FBY_OK;
}

static bool index_is_stale(const fby_dataset *ds)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < ds->n_files; i++) {
        if (!ds->files[i].racy && !ds->files[i].from_cache)
            return true;
        n += !ds->files[i].racy;
    }
    return n != ds->index.n_entries;
}

/* Leave out what no reader knows; all of it: say what the first one looks like. */
static fby_status drop_unknown(fby_dataset *ds, fby_error *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < ds->n_files; i++) {
        fby__dataset_file *file = &ds->files[i];
        if (!file->ops) {
            if (ds->seen.n_unknown++ == 0)
                ds->seen.unknown = file->name;
            continue;
        }
        if (n == 0 || file->schema >= ds->seen.n_schemas) {
            ds->schema_file[file->schema] = n;
            ds->seen.n_schemas = file->schema + 1;
        }
        ds->files[n++] = *file;
    }
    if (n == 0 && ds->n_files > 0) {
        fby__dataset_file first = ds->files[0];
        first.strict = true;
        fby__table *table = NULL;
        fby_status status = fby__scan_table(&first, &ds->config.format, NULL, &first.stamp, &table, err);
        fby__table_unref(table);
        fby__error_context(err, "none of the %u files found is one that a reader knows; the first", ds->n_files);
        return status != FBY_OK ? status : fby__fail(err, FBY_E_CHANGED, "'%s' changed while it was opened", first.path);
    }
    ds->n_files = n;
    return FBY_OK;
}

static int compare_stamps(const void *a, const void *b)
{
    const fby__file_stamp *x = &(*(const fby__dataset_file *const *)a)->stamp, *y = &(*(const fby__dataset_file *const *)b)->stamp;
    if (x->inode != y->inode)
        return x->inode < y->inode ? -1 : 1;
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes < y->size_bytes ? -1 : 1;
    return x->mtime_ns < y->mtime_ns ? -1 : x->mtime_ns > y->mtime_ns;
}

typedef struct real_path {
    char *path; /* of realpath(3), so freed with free() */
    const fby__dataset_file *file;
} real_path;

static int compare_paths(const void *a, const void *b)
{
    const real_path *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order ? order : x->file < y->file ? -1 : x->file > y->file;
}

/* Files with one inode, size and time: an error when two have one real path, counted as hard links when not. */
static fby_status check_same(fby_dataset *ds, const fby__dataset_file *const *same, size_t n, fby_error *err)
{
    fby_status status = FBY_OK;
    real_path *paths = fby__calloc(n, sizeof *paths);
    if (!paths)
        return fby__fail_nomem(err, "paths");
    size_t known = 0;
    for (size_t i = 0; i < n && (status = fby__cancel_check(err)) == FBY_OK; i++) {
        char *path = realpath(same[i]->path, NULL);
        if (path) /* else it is gone since: reading it will say so */
            paths[known++] = (real_path){path, same[i]};
    }
    if (status == FBY_OK)
        status = fby__sort(paths, known, sizeof *paths, compare_paths, err);
    for (size_t i = 1; i < known && status == FBY_OK; i++) {
        struct stat a, b;
        if (strcmp(paths[i - 1].path, paths[i].path) == 0) {
            status = fby__fail(err, FBY_E_ARG, "'%s' and '%s' are the same file: its rows would come twice an epoch; name it once",
                               paths[i - 1].file->path, paths[i].file->path);
            break;
        }
        ds->seen.n_hard_links += stat(paths[i - 1].path, &a) == 0 && stat(paths[i].path, &b) == 0 && a.st_dev == b.st_dev;
    }
    for (size_t i = 0; i < known; i++)
        free(paths[i].path);
    fby__free(paths);
    return status;
}

static fby_status check_duplicates(fby_dataset *ds, fby_error *err)
{
    const fby__dataset_file **order = fby__calloc(ds->n_files, sizeof *order);
    if (!order)
        return fby__fail_nomem(err, "list of files");
    for (uint32_t i = 0; i < ds->n_files; i++)
        order[i] = &ds->files[i];
    fby_status status = fby__sort((void *)order, ds->n_files, sizeof *order, compare_stamps, err);
    for (uint32_t i = 0, end; i < ds->n_files && status == FBY_OK; i = end) {
        for (end = i + 1; end < ds->n_files && compare_stamps(&order[i], &order[end]) == 0; end++)
            ;
        if (end - i > 1)
            status = check_same(ds, order + i, end - i, err);
    }
    fby__free(order);
    return status;
}

/* What says which part of a file is the table is about files that hold more than one. */
static fby_status check_tables(const fby_dataset *ds, fby_error *err)
{
    const fby__format_opts *f = &ds->config.format;
    const char *word = f->table ? "table" : f->dimension || f->axis ? "axis" : f->axes > 1 ? "axes (cells)" : f->single ? "single" : NULL;
    for (uint32_t i = 0; i < ds->n_files; i++)
        if (!word || ds->files[i].ops == &fby__hdf5_ops)
            return FBY_OK;
    if (!word || ds->n_files == 0)
        return FBY_OK;
    return fby__fail(err, FBY_E_ARG, "%s: that is about the data sets of HDF5 and NetCDF-4 files, and '%s' is %s: it has one table of rows",
                     word, ds->files[0].path, ds->files[0].ops->name);
}

static fby_status open_files(fby_dataset *ds, const fby_source *sources, size_t n, const fby_open_opts *opts, fby_error *err)
{
    fby__found found = {0};
    const char *cache_dir;
    FBY__TRY(fby__index_dir(opts->cache_dir, &ds->arena, &cache_dir, err));
    const char *refusal = cache_dir ? fby__cache_refusal(cache_dir) : NULL;
    if (refusal) {
        FBY__TRY(fby__notes_add(ds, err, "the cache folder '%s' is not used: %s", cache_dir, refusal));
        cache_dir = NULL;
    }
    ds->config.cache_dir = cache_dir;
    FBY__TRY(fby__find(sources, n, opts, &ds->arena, &found, err));
    const fby__h5_environment *e = &ds->config.environment;
    const fby__hash128 key =
        e->prefix_bytes ? fby__hash_more(found.key, e->variables, e->prefix_bytes) : found.key; /* names the index cache */
    fby__packed *packs = found.packs;
    fby_status status = list_files(ds, &found, err);
    fby__found_fini(&found);
    FBY__TRY(status);
    FBY__TRY(fby__index_load(cache_dir, key, &ds->index, err));
    if (ds->index.foreign)
        FBY__TRY(fby__notes_add(ds, err, "an index in the cache folder '%s' was not used: " FBY__CACHE_FOREIGN, cache_dir));
    FBY__TRY(fby__scan(ds, &ds->index, opts, err));
    if (cache_dir && index_is_stale(ds)) {
        fby_error why;
        status = fby__index_store(cache_dir, key, ds, &why);
        if (status == FBY_E_NOMEM)
            return fby__fail_nomem(err, "index cache");
        ds->stats.cache_written = status == FBY_OK;
        if (status != FBY_OK)
            FBY__TRY(fby__notes_add(ds, err, "the index cache could not be written, so the next opening reads all metadata again: %s",
                                    why.message));
    }
    FBY__TRY(drop_unknown(ds, err));
    FBY__TRY(check_tables(ds, err));
    FBY__TRY(check_duplicates(ds, err));
    return fby__packs_check(ds, packs, err);
}

static fby_status finish(fby_dataset *ds, fby_error *err)
{
    FBY__TRY(make_blocks(ds, err));
    FBY__TRY(make_identity(ds, err));
    for (uint32_t i = 0; i < ds->n_files; i++)
        if (ds->files[i].frozen.n > ds->max_frozen_bytes)
            ds->max_frozen_bytes = ds->files[i].frozen.n;
    ds->stats.files = ds->n_files;
    fby__dataset_measure(ds);
    return fby__notes_make(ds, err);
}

/* What every way to open ends with: the data set, its files and schema made with this status, is the caller's or gone. */
static fby_status publish(fby_dataset *ds, fby_status status, uint64_t begin_ns, fby_dataset **out, fby_error *err)
{
    if (status == FBY_OK)
        status = finish(ds, err);
    if (status != FBY_OK) {
        fby_dataset_close(ds);
        return status;
    }
    ds->stats.elapsed_ns = fby__now_ns() - begin_ns;
    *out = ds;
    return FBY_OK;
}

static fby_status open_within(const fby_source *sources, size_t n_sources, const fby_open_opts *o, uint64_t begin_ns, fby_dataset **out,
                              fby_error *err)
{
    fby_dataset *ds = create(err);
    if (!ds)
        return FBY_E_NOMEM;
    ds->config.io = o->io;
    ds->config.verify_crc = o->verify_crc;
    ds->config.missing_columns = o->missing_columns;
    ds->config.n_threads = fby__cpu_count();
    ds->config.memory_bytes = o->memory_bytes;
    fby_status status = set_format_opts(ds, o, err);
    if (status == FBY_OK)
        status = open_files(ds, sources, n_sources, o, err);
    if (status == FBY_OK)
        status = fby__dtypes_apply(ds, o, err);
    if (status == FBY_OK)
        status = fby__join_schemas(ds, err);
    if (status == FBY_OK)
        status = fby__dtypes_join(ds, err);
    return publish(ds, status, begin_ns, out, err);
}

fby_status fby_dataset_open(const fby_source *sources, size_t n_sources, const fby_open_opts *opts, fby_dataset **out, fby_error *err)
{
    fby__error_clear(err);
    const uint64_t begin = fby__now_ns();
    fby_open_opts o;
    fby__account *account;
    fby__account_scope scope;
    FBY__TRY(copy_opts(opts, &o, err));
    FBY__TRY(fby__account_open_asked(o.memory_bytes, &account, err));
    fby__account_scope_begin(&scope, account);
    return fby__account_scope_end(&scope, open_within(sources, n_sources, &o, begin, out, err), "what is known of the files", err);
}

/* ---- from memory ---- */

static fby_status list_table(fby_dataset *ds, fby_error *err)
{
    fby__table *table = ds->memory_table;
    fby__group_size *groups = fby__arena_alloc(&ds->arena, table->n_groups * sizeof *groups);
    ds->files = fby__calloc(1, sizeof *ds->files);
    ds->schemas = fby__calloc(1, sizeof *ds->schemas);
    ds->schema_file = fby__calloc(1, sizeof *ds->schema_file);
    ds->join = fby__calloc(table->schema->n_fields, sizeof *ds->join);
    if (!groups || !ds->files || !ds->schemas || !ds->schema_file || !ds->join)
        return fby__fail_nomem(err, "data set in memory");
    for (uint32_t i = 0; i < table->schema->n_fields; i++)
        ds->join[i] = (fby__join){.conflict_a = FBY__NONE, .conflict_b = FBY__NONE, .missing = FBY__NONE};
    ds->schemas[ds->n_schemas++] = fby__schema_ref(table->schema);
    ds->schema = fby__schema_ref(table->schema);
    fby__dataset_file *file = &ds->files[ds->n_files++];
    *file = (fby__dataset_file){.path = "(in memory)", .name = "", .ops = table->ops, .n_groups = table->n_groups, .groups = groups};
    for (uint32_t g = 0; g < table->n_groups; g++) {
        groups[g] = (fby__group_size){table->groups[g].rows, table->groups[g].stored_bytes, table->groups[g].block_rows,
                                      table->groups[g].step_rows};
        if (!fby__add_u64_checked(file->rows, groups[g].rows, &file->rows) ||
            !fby__add_u64_checked(file->stored_bytes, groups[g].stored_bytes, &file->stored_bytes))
            return fby__fail(err, FBY_E_ARG, "the rows of the stream do not fit in 64 bits");
    }
    return FBY_OK;
}

fby_status fby_dataset_from_arrow(struct ArrowArrayStream *stream, fby_dataset **out, fby_error *err)
{
    fby__error_clear(err);
    uint64_t begin = fby__now_ns();
    fby_dataset *ds = create(err);
    if (!ds) {
        if (stream && stream->release)
            stream->release(stream);
        return FBY_E_NOMEM;
    }
    ds->config.n_threads = fby__cpu_count();
    fby_status status = stream ? fby__arrow_table_create(stream, &ds->memory_table, err) : fby__fail(err, FBY_E_ARG, "no stream");
    if (status == FBY_OK)
        status = list_table(ds, err);
    return publish(ds, status, begin, out, err);
}
