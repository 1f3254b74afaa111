/*
 * Objects, attributes and the tree, in the bytes that protocol.h lays down. What of an object cannot be read is left out of
 * the tree with libhdf5's words in its place; one bad object does not hide the others.
 */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int put_space(work *w, buffer *b, hid_t space)
{
    hsize_t dims[H5S_MAX_RANK], most[H5S_MAX_RANK];
    H5S_class_t class = H5Sget_simple_extent_type(space);
    int rank = class == H5S_SIMPLE ? H5Sget_simple_extent_dims(space, dims, most) : 0;
    if (class == H5S_NO_CLASS || rank < 0)
        return fail_h5(w, "a data space");
    uint64_t n = 1;
    for (int i = 0; i < rank; i++) /* the client does not take these: better this object alone is declined */
        if (most[i] < dims[i] || __builtin_mul_overflow(n, dims[i], &n))
            return fail(w, FBY__H5P_FORMAT, "a data space that cannot be");
    TRY(put_u8(w, b, class == H5S_NULL));
    TRY(put_u8(w, b, (unsigned)rank));
    for (int i = 0; i < rank; i++)
        TRY(put_u64(w, b, dims[i]));
    for (int i = 0; i < rank; i++)
        TRY(put_u64(w, b, most[i])); /* H5S_UNLIMITED is all ones, as in the file format */
    return 0;
}

/* ---- attributes ---- */

/* Variable-length strings become fixed ones, padded with NULs: as long as the longest. */
static int put_strings(work *w, buffer *b, hid_t attribute, hid_t type, hid_t space, uint64_t n)
{
    AUTO_ID memory = H5Tcopy(H5T_C_S1);
    H5T_cset_t charset = H5Tget_cset(type);
    if (memory < 0 || H5Tset_size(memory, H5T_VARIABLE) < 0 || H5Tset_cset(memory, charset) < 0)
        return fail_h5(w, "a type in memory");
    AUTO_FREE char **texts = calloc(n ? (size_t)n : 1, sizeof *texts);
    if (!texts)
        return fail_nomem(w);
    if (n && H5Aread(attribute, memory, texts) < 0)
        return fail_h5(w, "an attribute cannot be read");
    size_t longest = 1;
    for (uint64_t i = 0; i < n; i++)
        if (texts[i] && strlen(texts[i]) > longest)
            longest = strlen(texts[i]);
    bool fits = longest <= FBY__H5P_MAX_ATTRIBUTE / (n ? n : 1);
    int r = put_u8(w, b, FBY__H5P_CLASS_STRING) || put_u32(w, b, longest) || put_u8(w, b, 1) || put_u8(w, b, (unsigned)charset) ||
            put_space(w, b, space) || put_u32(w, b, fits ? longest * n : 0);
    AUTO_FREE char *padded = malloc(longest);
    if (!r && !padded)
        r = fail_nomem(w);
    for (uint64_t i = 0; i < n && !r && fits; i++) {
        memset(padded, 0, longest);
        if (texts[i])
            memcpy(padded, texts[i], strlen(texts[i]));
        r = put(w, b, padded, longest);
    }
    if (n)
        (void)H5Dvlen_reclaim(memory, space, H5P_DEFAULT, texts);
    return r ? -1 : 0;
}

static int put_attribute(work *w, buffer *b, hid_t attribute)
{
    AUTO_ID type = H5Aget_type(attribute);
    AUTO_ID space = H5Aget_space(attribute);
    if (type < 0 || space < 0)
        return fail_h5(w, "an attribute");
    bool null = H5Sget_simple_extent_type(space) == H5S_NULL;
    hssize_t points = null ? 0 : H5Sget_simple_extent_npoints(space);
    if (points < 0 || (uint64_t)points > FBY__H5P_MAX_ATTRIBUTE / sizeof(char *))
        return fail(w, FBY__H5P_UNSUPPORTED, "an attribute has too many elements");
    uint64_t n = (uint64_t)points;
    if (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) > 0)
        return put_strings(w, b, attribute, type, space, n);
    TRY(put_type(w, b, type, 0));
    TRY(put_space(w, b, space));
    if (has_variable_parts(type) != 0)
        return put_u32(w, b, 0); /* described, without values */
    AUTO_ID memory = -1;
    TRY(memory_type(w, type, 0, &memory));
    size_t bytes = H5Tget_size(memory);
    if (n > FBY__H5P_MAX_ATTRIBUTE / bytes)
        return put_u32(w, b, 0);
    AUTO_FREE uint8_t *data = calloc(n ? (size_t)n : 1, bytes);
    if (!data)
        return fail_nomem(w);
    if (n && H5Aread(attribute, memory, data) < 0)
        return fail_h5(w, "an attribute cannot be read");
    TRY(put_u32(w, b, n * bytes));
    return put(w, b, data, (size_t)n * bytes);
}

typedef struct attribute_walk {
    work *w;
    buffer *b;
    uint32_t n;
} attribute_walk;

static herr_t one_attribute(hid_t object, const char *name, const H5A_info_t *info, void *user)
{
    attribute_walk *walk = user;
    (void)info;
    progress(walk->w);
    size_t mark = walk->b->n;
    AUTO_ID attribute = H5Aopen(object, name, H5P_DEFAULT);
    int r = attribute < 0 ? fail_h5(walk->w, "an attribute cannot be opened") : put_text(walk->w, walk->b, name);
    r = r ? r : put_attribute(walk->w, walk->b, attribute);
    if (r == 0) {
        walk->n++;
        return 0;
    }
    if (walk->w->reply.status == FBY__H5P_NOMEM)
        return -1;
    walk->b->n = mark; /* this one cannot be told: the others can */
    walk->w->reply.status = FBY__H5P_OK;
    walk->w->reply.message[0] = 0;
    return 0;
}

static int put_attributes(work *w, buffer *b, hid_t object)
{
    attribute_walk walk = {w, b, 0};
    size_t mark = b->n;
    TRY(put_u32(w, b, 0));
    herr_t r = H5Aiterate2(object, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, one_attribute, &walk);
    if (r < 0 && w->reply.status == FBY__H5P_OK) { /* no order of creation is kept */
        (void)H5Eclear2(H5E_DEFAULT);
        b->n = mark + 4;
        walk.n = 0;
        r = H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, NULL, one_attribute, &walk);
    }
    if (r < 0)
        return w->reply.status != FBY__H5P_OK ? -1 : fail_h5(w, "the attributes cannot be listed");
    memcpy(b->data + mark, &walk.n, 4);
    return 0;
}

/* ---- objects ---- */

static int put_filters(work *w, buffer *b, hid_t dcpl)
{
    enum { MAX_VALUES = 256 }; /* what libhdf5 takes for a sensible limit */
    int n = H5Pget_nfilters(dcpl);
    if (n < 0)
        return fail_h5(w, "the filters");
    TRY(put_u32(w, b, (uint64_t)n));
    for (int i = 0; i < n; i++) {
        unsigned flags = 0, config, values[MAX_VALUES];
        size_t n_values = MAX_VALUES;
        char name[256] = "";
        H5Z_filter_t id = H5Pget_filter2(dcpl, (unsigned)i, &flags, &n_values, values, sizeof name, name, &config);
        if (id < 0)
            return fail_h5(w, "the filters");
        name[sizeof name - 1] = 0;
        n_values = n_values < MAX_VALUES ? n_values : MAX_VALUES;
        TRY(put_u16(w, b, (unsigned)id));
        TRY(put_u8(w, b, (flags & H5Z_FLAG_OPTIONAL) != 0));
        TRY(put_text(w, b, name));
        TRY(put_u32(w, b, n_values));
        for (size_t k = 0; k < n_values; k++)
            TRY(put_u32(w, b, values[k]));
    }
    return 0;
}

static int put_fill(work *w, buffer *b, hid_t dcpl, hid_t type)
{
    H5D_fill_value_t defined;
    if (has_variable_parts(type) != 0 || H5Pfill_value_defined(dcpl, &defined) < 0 || defined != H5D_FILL_VALUE_USER_DEFINED)
        return put_u32(w, b, 0);
    AUTO_ID memory = -1;
    TRY(memory_type(w, type, 0, &memory));
    size_t bytes = H5Tget_size(memory);
    AUTO_FREE uint8_t *fill = calloc(1, bytes);
    if (!fill)
        return fail_nomem(w);
    if (H5Pget_fill_value(dcpl, memory, fill) < 0)
        return fail_h5(w, "the fill value");
    TRY(put_u32(w, b, bytes));
    return put(w, b, fill, bytes);
}

static int put_dataset(work *w, buffer *b, hid_t dataset)
{
    TRY(refuse_endless(w, dataset));
    AUTO_ID type = H5Dget_type(dataset);
    AUTO_ID space = H5Dget_space(dataset);
    AUTO_ID dcpl = H5Dget_create_plist(dataset);
    if (type < 0 || space < 0 || dcpl < 0)
        return fail_h5(w, "the data set");
    TRY(put_type(w, b, type, 0));
    TRY(put_space(w, b, space));
    H5D_layout_t layout = H5Pget_layout(dcpl);
    TRY(put_u8(w, b,
               layout == H5D_COMPACT   ? FBY__H5P_COMPACT
               : layout == H5D_CHUNKED ? FBY__H5P_CHUNKED
               : layout == H5D_VIRTUAL ? FBY__H5P_VIRTUAL
                                       : FBY__H5P_CONTIGUOUS));
    TRY(put_u8(w, b, H5Pget_external_count(dcpl) > 0));
    if (layout == H5D_CHUNKED) {
        hsize_t chunk[H5S_MAX_RANK];
        int rank = H5Pget_chunk(dcpl, H5S_MAX_RANK, chunk);
        if (rank != H5Sget_simple_extent_ndims(space))
            return fail_h5(w, "the shape of chunks");
        for (int i = 0; i < rank; i++)
            TRY(put_u32(w, b, chunk[i]));
    }
    TRY(put_filters(w, b, dcpl));
    TRY(put_fill(w, b, dcpl, type));
    uint64_t promise = promise_of(w, dataset);
    if (!promise)
        return w->reply.status != FBY__H5P_OK ? -1 : fail_h5(w, "the data set");
    TRY(put_u64(w, b, promise));
    return w->request->op == FBY__H5P_OBJECT ? put_sources(w, b, dataset) : put_u32(w, b, 0);
}

static int put_object(work *w, buffer *b, hid_t object, const H5O_info_t *info)
{
    unsigned kind = info->type == H5O_TYPE_GROUP            ? FBY__H5P_KIND_GROUP
                    : info->type == H5O_TYPE_DATASET        ? FBY__H5P_KIND_DATASET
                    : info->type == H5O_TYPE_NAMED_DATATYPE ? FBY__H5P_KIND_NAMED_TYPE
                                                            : FBY__H5P_KIND_OTHER;
    TRY(put_u8(w, b, kind));
    TRY(put_u64(w, b, (uint64_t)info->addr));
    if (kind == FBY__H5P_KIND_DATASET)
        TRY(put_dataset(w, b, object));
    return put_attributes(w, b, object);
}

int do_object(work *w)
{
    hid_t file;
    H5O_info_t info;
    limit_memory(w, FBY__H5P_MAX_DESCRIPTION);
    TRY(file_of(w, &file));
    AUTO_ID object = open_object(file, w->object);
    if (object < 0 || H5Oget_info(object, &info) < 0)
        return fail_open(w, "the object");
    if (info.type == H5O_TYPE_DATASET) {
        try_sources(w, object);
        if (opens_refused())
            return fail_refused(w, "the data cannot be read");
    }
    buffer b = {0};
    int r = put_object(w, &b, object, &info) ? -1 : result_write(w, b.data, b.n, NULL, 0);
    free(b.data);
    return r;
}

/* ---- the tree ---- */

typedef struct seen {
    uint64_t file, address;
    uint32_t number; /* + 1; 0 = free */
} seen;

typedef struct tree {
    work *w;
    buffer objects, entries;
    uint32_t n_objects, n_entries;
    seen *table; /* owned: open addressing by file and address of the header */
    size_t table_n;
    /* Soft links are looked up when every hard link is known: where the number of the object goes into `entries`, and the path. */
    size_t *soft; /* owned */
    size_t n_soft, soft_cap;
} tree;

/* A file's number, the same however often it is opened; 0: not known. */
static uint64_t file_of_object(hid_t object)
{
    char name[FBY__H5P_MAX_PATH];
    struct stat st;
    ssize_t n = H5Fget_name(object, name, sizeof name);
    if (n <= 0 || (size_t)n >= sizeof name || stat(name, &st) != 0)
        return 0;
    return (uint64_t)st.st_ino * 0x9e3779b97f4a7c15u + (uint64_t)st.st_dev;
}

static seen *find_seen(tree *t, uint64_t file, uint64_t address)
{
    size_t i = (size_t)((address ^ file) * 0x9e3779b97f4a7c15u >> 20) & (t->table_n - 1);
    while (t->table[i].number && (t->table[i].address != address || t->table[i].file != file))
        i = (i + 1) & (t->table_n - 1);
    return &t->table[i];
}

static int remember(tree *t, uint64_t file, uint64_t address, uint32_t number)
{
    if (((size_t)t->n_objects + 1) * 2 > t->table_n) {
        seen *old = t->table;
        size_t old_n = t->table_n;
        t->table_n = old_n ? 2 * old_n : 1024;
        t->table = calloc(t->table_n, sizeof *t->table);
        if (!t->table) {
            t->table = old;
            t->table_n = old_n;
            return fail_nomem(t->w);
        }
        for (size_t i = 0; i < old_n; i++)
            if (old[i].number)
                *find_seen(t, old[i].file, old[i].address) = old[i];
        free(old);
    }
    *find_seen(t, file, address) = (seen){file, address, number + 1};
    return 0;
}

static int put_entry(tree *t, const char *path, uint32_t object, bool alias, const char *declined)
{
    if (t->n_entries >= FBY__H5P_MAX_ENTRIES)
        return fail(t->w, FBY__H5P_UNSUPPORTED, "the file has more than %u objects and links", FBY__H5P_MAX_ENTRIES);
    t->n_entries++;
    TRY(put_text(t->w, &t->entries, path));
    TRY(put_u32(t->w, &t->entries, object));
    TRY(put_u8(t->w, &t->entries, alias));
    return put_text(t->w, &t->entries, declined);
}

/* Forget the failure, keep its words for the entry. Without its root, which is the first, a tree is none. */
static int put_failed_entry(tree *t, const char *path)
{
    char text[sizeof t->w->reply.message];
    if (t->w->reply.status == FBY__H5P_NOMEM || t->n_entries == 0)
        return -1;
    memcpy(text, t->w->reply.message, sizeof text);
    t->w->reply.status = FBY__H5P_OK;
    t->w->reply.message[0] = 0;
    return put_entry(t, path, FBY__H5P_NO_OBJECT, false, text);
}

static int walk_group(tree *t, hid_t group, uint64_t file, char *path, size_t path_n, int depth);

static int walk_object(tree *t, hid_t object, uint64_t file, char *path, size_t path_n, int depth)
{
    H5O_info_t info;
    progress(t->w);
    if (object < 0 || H5Oget_info(object, &info) < 0) {
        (void)fail_open(t->w, "the object");
        return put_failed_entry(t, path);
    }
    if (t->table_n && find_seen(t, file, info.addr)->number)
        return put_entry(t, path, find_seen(t, file, info.addr)->number - 1, true, "");
    size_t mark = t->objects.n;
    if (info.type == H5O_TYPE_DATASET) {
        opens_forget();
        try_sources(t->w, object);
        if (opens_refused()) {
            (void)fail_refused(t->w, "the data cannot be read");
            return put_failed_entry(t, path);
        }
    }
    if (put_object(t->w, &t->objects, object, &info) != 0) {
        t->objects.n = mark;
        return put_failed_entry(t, path);
    }
    TRY(remember(t, file, info.addr, t->n_objects));
    TRY(put_entry(t, path, t->n_objects++, false, ""));
    return info.type == H5O_TYPE_GROUP ? walk_group(t, object, file, path, path_n, depth) : 0;
}

typedef struct group_walk {
    tree *t;
    uint64_t file; /* that the group lies in */
    char *path;    /* of FBY__H5P_MAX_OBJECT_PATH bytes */
    size_t path_n;
    int depth;
} group_walk;

static int put_soft(tree *t, const char *path)
{
    if (t->n_soft == t->soft_cap) {
        size_t cap = t->soft_cap ? 2 * t->soft_cap : 64;
        size_t *soft = realloc(t->soft, cap * sizeof *soft);
        if (!soft)
            return fail_nomem(t->w);
        t->soft = soft;
        t->soft_cap = cap;
    }
    t->soft[t->n_soft++] = t->entries.n;
    return put_entry(t, path, FBY__H5P_NO_OBJECT, true, "a link that leads to no object of this file");
}

static herr_t one_link(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
    const group_walk *g = user;
    size_t name_n = strlen(name), slash = g->path_n > 1;
    if (!name_n || strchr(name, '/')) /* nothing has such a path */
        return fail(g->t->w, FBY__H5P_FORMAT, "a link in the group '%.200s' has the name '%.200s', which no link may have", g->path, name);
    if (g->path_n + slash + name_n >= FBY__H5P_MAX_OBJECT_PATH)
        return fail(g->t->w, FBY__H5P_UNSUPPORTED, "the path of an object is longer than %u bytes", FBY__H5P_MAX_OBJECT_PATH);
    if (slash)
        g->path[g->path_n] = '/';
    memcpy(g->path + g->path_n + slash, name, name_n + 1);
    int r;
    if (info->type == H5L_TYPE_HARD || info->type == H5L_TYPE_EXTERNAL) {
        AUTO_ID object = open_object(group, name);
        uint64_t file = info->type == H5L_TYPE_HARD || object < 0 ? g->file : file_of_object(object);
        r = walk_object(g->t, object, file, g->path, g->path_n + slash + name_n, g->depth);
    } else if (info->type == H5L_TYPE_SOFT) {
        r = put_soft(g->t, g->path);
    } else {
        r = put_entry(g->t, g->path, FBY__H5P_NO_OBJECT, false, "a link of a kind of its own");
    }
    g->path[g->path_n] = 0;
    return r;
}

static int walk_group(tree *t, hid_t group, uint64_t file, char *path, size_t path_n, int depth)
{
    if (depth > FBY__H5P_MAX_GROUP_DEPTH)
        return fail(t->w, FBY__H5P_UNSUPPORTED, "groups are nested more than %d deep", FBY__H5P_MAX_GROUP_DEPTH);
    group_walk g = {t, file, path, path_n, depth + 1};
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, one_link, &g) >= 0)
        return 0;
    if (t->w->reply.status != FBY__H5P_OK)
        return -1;
    (void)fail_h5(t->w, "not all of the group '%.60s' can be listed", path);
    return path_n > 1 ? put_failed_entry(t, path) : -1; /* the root has one entry, which says that it is there */
}

static void resolve_soft(tree *t, hid_t file)
{
    char path[FBY__H5P_MAX_OBJECT_PATH + 1];
    for (size_t i = 0; i < t->n_soft; i++) {
        uint8_t *p = t->entries.data + t->soft[i];
        uint32_t n;
        progress(t->w);
        memcpy(&n, p, 4);
        memcpy(path, p + 4, n);
        path[n] = 0;
        AUTO_ID object = open_object(file, path);
        H5O_info_t info;
        uint64_t own = object < 0 ? 0 : file_of_object(object);
        if (object >= 0 && H5Oget_info(object, &info) >= 0 && find_seen(t, own, info.addr)->number) {
            /* The reason that put_soft left behind it counts only where there is no object. */
            uint32_t number = find_seen(t, own, info.addr)->number - 1;
            memcpy(p + 4 + n, &number, 4);
        }
        (void)H5Eclear2(H5E_DEFAULT);
    }
}

int do_tree(work *w)
{
    hid_t file;
    H5O_info_t info;
    limit_memory(w, 2 * FBY__H5P_MAX_DESCRIPTION);
    TRY(file_of(w, &file));
    AUTO_ID root = H5Oopen(file, "/", H5P_DEFAULT);
    if (root < 0 || H5Oget_info(root, &info) < 0)
        return fail_h5(w, "the root group cannot be opened");
    if (info.type != H5O_TYPE_GROUP)
        return fail(w, FBY__H5P_FORMAT, "the root group cannot be opened: it is none");
    tree t = {.w = w};
    char path[FBY__H5P_MAX_OBJECT_PATH + 1] = "/";
    int r = put_u32(w, &t.objects, 0) || put_u32(w, &t.entries, 0) || walk_object(&t, root, file_of_object(root), path, 1, 0) ? -1 : 0;
    if (r == 0) {
        resolve_soft(&t, file);
        memcpy(t.objects.data, &t.n_objects, 4);
        memcpy(t.entries.data, &t.n_entries, 4);
        r = result_write(w, t.objects.data, t.objects.n, t.entries.data, t.entries.n);
    }
    free(t.objects.data);
    free(t.entries.data);
    free(t.table);
    free(t.soft);
    return r;
}
