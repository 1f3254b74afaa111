/*
 * The index cache: the metadata of a dataset's files in one file, so that opening them again reads no footer.
 *
 * <cache dir>/<key>.fbyindex, little-endian, every record padded to 8 bytes so that group sizes are used in place:
 *
 *   header    "FBYINDEX", version u32, schemas u32, entries u32, 0 u32, bytes of all this u64
 *   schema    bytes u64, a frozen schema
 *   entry     size u64, mtime_ns i64, ctime_ns i64, inode u64, frozen bytes u64, schema u32, groups u32, name bytes u32, sources u32,
 *             format char[8], name and NUL, groups × (rows, stored bytes, block rows, step rows: u64), sources, the frozen table
 *   source    size u64, mtime_ns i64, ctime_ns i64, inode u64, path bytes u32, absent u32, path and NUL
 *
 * Entries are sorted by name. The file is kept and believed as cache_file.c says; all lengths are checked all the same.
 * Files that were written less than two seconds before they were read get no entry: a further write within the clock's
 * granularity could leave the stamp as it is (git calls such entries "racily clean").
 */
#include "base/checked.h"
#include "base/sort.h"
#include "dataset/dataset_impl.h"

#include <stdio.h>
#include <stdlib.h>

#define INDEX_VERSION 6u
#define SUFFIX ".fbyindex"

typedef struct header {
    char magic[8];
    uint32_t version, n_schemas, n_entries, zero;
    uint64_t n_bytes;
} header;

typedef struct entry_head {
    uint64_t size_bytes;
    int64_t mtime_ns, ctime_ns;
    uint64_t inode, frozen_bytes;
    uint32_t schema, n_groups, name_n, n_sources;
    char format[8];
} entry_head;

typedef struct source_head {
    uint64_t size_bytes;
    int64_t mtime_ns, ctime_ns;
    uint64_t inode;
    uint32_t path_n, absent;
} source_head;

_Static_assert(sizeof(header) == 32 && sizeof(entry_head) == 64 && sizeof(source_head) == 40, "the layout on disk");

fby_status fby__index_dir(const char *wanted, fby__arena *arena, const char **out, fby_error *err)
{
    const char *base = wanted, *below = "";
    if (!base) {
        const char *forebay = getenv("FOREBAY_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
        if (forebay && *forebay) {
            base = forebay;
        } else if (xdg && *xdg == '/') { /* its specification: a relative one is ignored */
            base = xdg;
            below = "forebay";
        } else {
            base = getenv("HOME");
            below = ".cache/forebay";
        }
    }
    *out = NULL;
    if (!base || !*base)
        return FBY_OK;
    FBY__TRY(fby__path_anchor(arena, base, out, err)); /* samples are written to it later, maybe from elsewhere */
    if (*below)
        *out = fby__path_join(arena, *out, below);
    return *out ? FBY_OK : fby__fail_nomem(err, "index cache");
}

fby_status fby_index_cache(const char *cache_dir, char *out, size_t room, const char **out_refusal, fby_error *err)
{
    fby__arena arena = {0};
    const char *dir = NULL;
    const fby_status status = fby__index_dir(cache_dir, &arena, &dir, err);
    *out_refusal = status == FBY_OK && dir ? fby__cache_refusal(dir) : NULL;
    (void)snprintf(out, room, "%s", dir ? dir : ""); /* cut to fit, as the header says */
    fby__arena_fini(&arena);
    return status;
}

static void file_name(char out[64], fby__hash128 key)
{
    char text[33];
    fby__hash_text(key, text);
    (void)snprintf(out, 64, "%s" SUFFIX, text);
}

/* ---- loading ---- */

/* FBY_E_FORMAT: damaged. */
static fby_status parse_sources(fby__bytes *cursor, fby__arena *arena, uint32_t n, const fby__source_file **out)
{
    if (n > cursor->n / sizeof(source_head))
        return FBY_E_FORMAT;
    fby__source_file *sources = fby__arena_alloc(arena, n * sizeof *sources);
    if (!sources)
        return FBY_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *p = fby__bytes_next_padded(cursor, sizeof(source_head));
        source_head head;
        if (!p)
            return FBY_E_FORMAT;
        memcpy(&head, p, sizeof head);
        const char *path = (const char *)fby__bytes_next_padded(cursor, (uint64_t)head.path_n + 1);
        if (!path || path[head.path_n] || strlen(path) != head.path_n || head.absent > 1)
            return FBY_E_FORMAT;
        const fby__file_stamp stamp = {
            .size_bytes = head.size_bytes, .mtime_ns = head.mtime_ns, .ctime_ns = head.ctime_ns, .inode = head.inode};
        sources[i] = (fby__source_file){path, stamp, head.absent};
    }
    *out = sources;
    return FBY_OK;
}

static fby_status parse_entry(fby__bytes *cursor, fby__arena *arena, fby__index_entry *out, uint32_t n_schemas, const char *previous)
{
    const uint8_t *p = fby__bytes_next_padded(cursor, sizeof(entry_head));
    entry_head head;
    if (!p)
        return FBY_E_FORMAT;
    memcpy(&head, p, sizeof head);
    const fby__source_file *sources = NULL;
    const char *name = (const char *)fby__bytes_next_padded(cursor, (uint64_t)head.name_n + 1);
    const uint8_t *groups = fby__bytes_next_padded(cursor, (uint64_t)head.n_groups * sizeof(fby__group_size));
    if (groups)
        FBY__TRY(parse_sources(cursor, arena, head.n_sources, &sources));
    const uint8_t *frozen = fby__bytes_next_padded(cursor, head.frozen_bytes);
    if (!name || !groups || !frozen || name[head.name_n] || strlen(name) != head.name_n || head.format[7])
        return FBY_E_FORMAT;
    if (previous && strcmp(previous, name) > 0)
        return FBY_E_FORMAT;
    *out = (fby__index_entry){
        .name = name,
        .stamp = {.size_bytes = head.size_bytes, .mtime_ns = head.mtime_ns, .ctime_ns = head.ctime_ns, .inode = head.inode},
        .ops = head.format[0] ? fby__format_by_name(head.format) : NULL,
        .schema = head.schema,
        .n_groups = head.n_groups,
        .n_sources = head.n_sources,
        .sources = sources,
        .groups = (const fby__group_size *)(const void *)groups, /* aligned: see the layout */
        .frozen = {frozen, (size_t)head.frozen_bytes}};
    return (head.format[0] ? out->ops && head.schema < n_schemas : head.n_groups == 0) ? FBY_OK : FBY_E_FORMAT;
}

static fby_status parse(fby__index *index)
{
    fby__bytes cursor = {index->image.data, index->image.n};
    header head;
    memcpy(&head, fby__bytes_next_padded(&cursor, sizeof head), sizeof head);
    if (memcmp(head.magic, "FBYINDEX", 8) != 0 || head.version != INDEX_VERSION || head.n_bytes != index->image.n ||
        head.n_entries > cursor.n / sizeof(entry_head) || head.n_schemas > cursor.n / 8)
        return FBY_E_FORMAT;
    index->schemas = fby__calloc(head.n_schemas, sizeof *index->schemas);
    index->entries = fby__calloc(head.n_entries, sizeof *index->entries);
    if (!index->schemas || !index->entries)
        return FBY_E_NOMEM;
    for (; index->n_schemas < head.n_schemas; index->n_schemas++) {
        const uint8_t *n = fby__bytes_next_padded(&cursor, 8);
        const uint8_t *frozen = n ? fby__bytes_next_padded(&cursor, fby__load_u64(n)) : NULL;
        if (!frozen)
            return FBY_E_FORMAT;
        FBY__TRY(fby__schema_thaw((fby__bytes){frozen, (size_t)fby__load_u64(n)}, &index->schemas[index->n_schemas], NULL));
    }
    for (; index->n_entries < head.n_entries; index->n_entries++)
        FBY__TRY(parse_entry(&cursor, &index->arena, &index->entries[index->n_entries], index->n_schemas,
                             index->n_entries ? index->entries[index->n_entries - 1].name : NULL));
    return cursor.n == 0 ? FBY_OK : FBY_E_FORMAT;
}

fby_status fby__index_load(const char *dir, fby__hash128 key, fby__index *out, fby_error *err)
{
    *out = (fby__index){0};
    if (!dir)
        return FBY_OK;
    char name[64];
    file_name(name, key);
    fby_status status = fby__cache_read(dir, name, sizeof(header), &out->image);
    if (status == FBY_OK)
        status = parse(out);
    if (status == FBY_OK)
        return FBY_OK;
    fby__index_fini(out);
    out->foreign = status == FBY_E_STATE;
    return status == FBY_E_NOMEM ? fby__fail_nomem(err, "index cache") : FBY_OK;
}

const fby__index_entry *fby__index_find(const fby__index *index, const char *name, uint32_t guess)
{
    if (guess < index->n_entries && strcmp(index->entries[guess].name, name) == 0)
        return &index->entries[guess];
    size_t low = 0, high = index->n_entries;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(index->entries[middle].name, name);
        if (order == 0)
            return &index->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

void fby__index_fini(fby__index *index)
{
    for (uint32_t i = 0; i < index->n_schemas; i++)
        fby__schema_unref(index->schemas[i]);
    fby__free(index->schemas);
    fby__free(index->entries);
    fby__arena_fini(&index->arena);
    fby__buf_fini(&index->image);
    *index = (fby__index){0};
}

/* ---- storing ---- */

static int put(fby__buf *out, const void *p, size_t n)
{
    static const uint8_t ZERO[8] = {0};
    if (fby__buf_put(out, p, n) != 0)
        return -1;
    return fby__buf_put(out, ZERO, (size_t)(fby__align_up_u64(n, 8) - n));
}

static int put_source(fby__buf *out, const fby__source_file *source)
{
    const fby__file_stamp *stamp = &source->stamp;
    source_head head = {.size_bytes = stamp->size_bytes,
                        .mtime_ns = stamp->mtime_ns,
                        .ctime_ns = stamp->ctime_ns,
                        .inode = stamp->inode,
                        .path_n = (uint32_t)strlen(source->path),
                        .absent = source->absent};
    return put(out, &head, sizeof head) != 0 ? -1 : put(out, source->path, (size_t)head.path_n + 1);
}

static int put_entry(fby__buf *out, const fby__dataset_file *file)
{
    entry_head head = {.size_bytes = file->stamp.size_bytes,
                       .mtime_ns = file->stamp.mtime_ns,
                       .ctime_ns = file->stamp.ctime_ns,
                       .inode = file->stamp.inode,
                       .frozen_bytes = file->frozen.n,
                       .schema = file->ops ? file->schema : 0,
                       .n_groups = file->n_groups,
                       .name_n = (uint32_t)strlen(file->name),
                       .n_sources = file->n_sources};
    if (file->ops)
        memcpy(head.format, file->ops->name, strnlen(file->ops->name, 7));
    if (put(out, &head, sizeof head) != 0 || put(out, file->name, (size_t)head.name_n + 1) != 0 ||
        put(out, file->groups, file->n_groups * sizeof *file->groups) != 0)
        return -1;
    for (uint32_t i = 0; i < file->n_sources; i++)
        if (put_source(out, &file->sources[i]) != 0)
            return -1;
    return put(out, file->frozen.data, file->frozen.n);
}

static int compare_files(const void *a, const void *b)
{
    return strcmp((*(const fby__dataset_file *const *)a)->name, (*(const fby__dataset_file *const *)b)->name);
}

static fby_status make_image(const fby_dataset *ds, fby__buf *out, fby_error *err)
{
    fby_status status = FBY_E_NOMEM;
    fby__buf schema = {0};
    const fby__dataset_file **order = fby__calloc(ds->n_files, sizeof *order);
    uint32_t n = 0;
    header head = {.magic = {'F', 'B', 'Y', 'I', 'N', 'D', 'E', 'X'}, .version = INDEX_VERSION, .n_schemas = ds->n_schemas};
    if (!order || fby__buf_put(out, &head, sizeof head) != 0)
        goto done;
    for (uint32_t i = 0; i < ds->n_schemas; i++) {
        schema.n = 0;
        status = fby__schema_freeze(ds->schemas[i], &schema, err);
        if (status != FBY_OK)
            goto done;
        uint64_t bytes = schema.n;
        status = FBY_E_NOMEM;
        if (put(out, &bytes, sizeof bytes) != 0 || put(out, schema.data, schema.n) != 0)
            goto done;
    }
    for (uint32_t i = 0; i < ds->n_files; i++)
        if (!ds->files[i].racy)
            order[n++] = &ds->files[i];
    if ((status = fby__sort((void *)order, n, sizeof *order, compare_files, err)) != FBY_OK)
        goto done;
    status = FBY_E_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        if (put_entry(out, order[i]) != 0)
            goto done;
    head.n_entries = n;
    head.n_bytes = out->n;
    memcpy(out->data, &head, sizeof head);
    status = FBY_OK;
done:
    fby__free(order);
    fby__buf_fini(&schema);
    return status == FBY_E_NOMEM ? fby__fail_nomem(err, "index cache") : status;
}

fby_status fby__index_store(const char *dir, fby__hash128 key, const fby_dataset *ds, fby_error *err)
{
    char name[64];
    fby__buf image = {0};
    file_name(name, key);
    fby_status status = make_image(ds, &image, err);
    if (status == FBY_OK)
        status = fby__cache_write(dir, name, &image, err);
    fby__buf_fini(&image);
    return status;
}
