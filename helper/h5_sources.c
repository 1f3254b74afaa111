/*
 * The other files that a data set's values come from: files that links lead through, external raw data, the sources of virtual data
 * sets and what these come from in turn. libhdf5 gives the fill value, without a word, for whatever of them is not there; the
 * client is told, and asks its user.
 *
 * libhdf5 does not say where it finds a file. The places are looked at here in the order in which it does (H5F_prefix_open_file,
 * H5D__build_file_prefix).
 */
#include "server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEPTH 8 /* virtual data sets of virtual data sets */
#define MAX_PATH (2 * (int)FBY__H5P_MAX_PATH)

typedef struct found {
    char *path; /* owned */
    unsigned state;
    char *why; /* owned; NULL: none */
} found;

typedef struct sources {
    work *w;
    bool for_read; /* that failed: a filter that is missing counts wherever it is */
    found *list;   /* owned */
    size_t n, cap;
    uint32_t *table; /* owned: open addressing by path, numbers + 1 */
    size_t table_n;
} sources;

static size_t slot(const sources *s, const char *path)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *p = path; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 0x100000001b3u;
    size_t i = (size_t)(hash >> 16) & (s->table_n - 1);
    while (s->table[i] && strcmp(s->list[s->table[i] - 1].path, path) != 0)
        i = (i + 1) & (s->table_n - 1);
    return i;
}

static int grow(sources *s)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        found *list = realloc(s->list, cap * sizeof *list);
        if (!list)
            return fail_nomem(s->w);
        s->list = list;
        s->cap = cap;
    }
    if (2 * (s->n + 1) > s->table_n) {
        size_t n = s->table_n ? 2 * s->table_n : 64;
        uint32_t *table = calloc(n, sizeof *table);
        if (!table)
            return fail_nomem(s->w);
        free(s->table);
        s->table = table;
        s->table_n = n;
        for (size_t i = 0; i < s->n; i++)
            s->table[slot(s, s->list[i].path)] = (uint32_t)i + 1;
    }
    return 0;
}

/* Adds a file, each once, with the first reason given (`why`). The request's own file is left out where it is there. */
static int add(sources *s, const char *path, unsigned state, const char *why)
{
    if (strcmp(path, s->w->path) == 0 && state == FBY__H5P_SOURCE_THERE)
        return 0;
    if (s->n >= FBY__H5P_MAX_SOURCES)
        return fail(s->w, FBY__H5P_UNSUPPORTED, "its values come from more than %u files", FBY__H5P_MAX_SOURCES);
    TRY(grow(s));
    size_t at = slot(s, path);
    found *f = s->table[at] ? &s->list[s->table[at] - 1] : NULL;
    if (!f) {
        f = &s->list[s->n];
        *f = (found){.path = strdup(path), .state = state};
        if (!f->path)
            return fail_nomem(s->w);
        s->table[at] = (uint32_t)++s->n;
    }
    if (state == FBY__H5P_SOURCE_MISSING)
        f->state = state;
    if (why && !f->why && !(f->why = strdup(why)))
        return fail_nomem(s->w);
    return 0;
}

static int __attribute__((format(printf, 3, 4))) add_missing(sources *s, const char *path, const char *fmt, ...)
{
    char why[800];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof why, fmt, ap); /* a cut reason is still a reason */
    va_end(ap);
    return add(s, path, FBY__H5P_SOURCE_MISSING, why);
}

/* ---- where libhdf5 looks ---- */

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* dir (n bytes, with or without its last slash) and a name, made absolute. */
static bool join(char *out, const char *dir, size_t n, const char *name)
{
    char here[FBY__H5P_MAX_PATH] = "";
    bool relative = n ? dir[0] != '/' : name[0] != '/';
    if (relative && !getcwd(here, sizeof here))
        return false;
    int k = snprintf(out, MAX_PATH, "%s%s%.*s%s%s", here, relative ? "/" : "", (int)n, dir, n && dir[n - 1] != '/' ? "/" : "", name);
    return k > 0 && k < MAX_PATH;
}

static size_t folder_n(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* 1: it is there; 0: it is not, and if it ever is, it will be taken; -1: a failure. `fits`: its name is none that is too long. */
static int try_place(sources *s, bool fits, const char *place)
{
    if (!fits)
        return 0;
    return is_file(place) ? 1 : add(s, place, FBY__H5P_SOURCE_LATER, NULL);
}

/*
 * A file that the file `from` names, by a link or as a source of a virtual data set. 1: it is *out; 0: nowhere, and *out is where it should most
 * likely be; -1: a failure. The places before it, where it is not, are added.
 */
static int find_linked(sources *s, const char *from, const char *name, const char *prefixes, char *out)
{
    char real[FBY__H5P_MAX_PATH];
    int r;
    if (name[0] == '/') {
        if ((r = try_place(s, snprintf(out, MAX_PATH, "%s", name) < MAX_PATH, out)) != 0)
            return r;
        name = strrchr(name, '/') + 1;
    }
    for (const char *p = prefixes; p && *p;) {
        size_t n = strcspn(p, ":");
        if ((r = try_place(s, n && join(out, p, n, name), out)) != 0)
            return r;
        p += n + (p[n] == ':');
    }
    if ((r = try_place(s, join(out, from, folder_n(from), name), out)) != 0)
        return r;
    if ((r = try_place(s, join(out, "", 0, name), out)) != 0)
        return r;
    if (realpath(from, real) && (r = try_place(s, join(out, real, folder_n(real), name), out)) != 0)
        return r;
    (void)join(out, from, folder_n(from), name);
    return 0;
}

/* ---- external raw data ---- */

static bool find_raw(const work *w, hid_t dcpl, const char *from, const char *name, char *out)
{
    static const char ORIGIN[] = "${ORIGIN}";
    const char *prefix = getenv("HDF5_EXTFILE_PREFIX");
    if (name[0] == '/')
        return snprintf(out, MAX_PATH, "%s", name) < MAX_PATH;
    if (prefix && strncmp(prefix, ORIGIN, sizeof ORIGIN - 1) == 0) {
        char dir[MAX_PATH];
        const char *rest = prefix + sizeof ORIGIN - 1;
        int n = snprintf(dir, sizeof dir, "%.*s%s", (int)folder_n(from), from, rest + (*rest == '/'));
        return n > 0 && n < MAX_PATH && join(out, dir, (size_t)n, name);
    }
    if (prefix && *prefix && strcmp(prefix, ".") != 0)
        return join(out, prefix, strlen(prefix), name);
    return externals_are_beside(w, dcpl) ? join(out, from, folder_n(from), name) : join(out, "", 0, name);
}

/* It counts as passed over where the raw data lies in the working directory: if it ever is there, it will be taken. */
static int add_place_beside(sources *s, const char *name)
{
    char path[MAX_PATH];
    const char *prefix = getenv("HDF5_EXTFILE_PREFIX");
    if (name[0] == '/' || (prefix && *prefix && strcmp(prefix, ".") != 0) || !join(path, s->w->path, folder_n(s->w->path), name) ||
        access(path, F_OK) == 0)
        return 0;
    return add(s, path, FBY__H5P_SOURCE_LATER, NULL);
}

static int add_raw(sources *s, hid_t dataset, hid_t dcpl, const char *from)
{
    AUTO_ID type = H5Dget_type(dataset);
    AUTO_ID space = H5Dget_space(dataset);
    hssize_t points = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    int n = H5Pget_external_count(dcpl);
    if (type < 0 || points < 0 || n < 0)
        return fail_h5(s->w, "the external files");
    uint64_t left;
    if (__builtin_mul_overflow((uint64_t)points, H5Tget_size(type), &left))
        left = UINT64_MAX;
    for (int i = 0; i < n; i++) {
        char name[FBY__H5P_MAX_PATH], path[MAX_PATH];
        off_t offset;
        hsize_t bytes;
        struct stat st;
        progress(s->w);
        if (H5Pget_external(dcpl, (unsigned)i, sizeof name, name, &offset, &bytes) < 0)
            return fail_h5(s->w, "the external files");
        name[sizeof name - 1] = 0;
        uint64_t need = bytes < left ? bytes : left, have = 0;
        left -= need;
        if (!find_raw(s->w, dcpl, from, name, path))
            return fail(s->w, FBY__H5P_UNSUPPORTED, "the name of an external file is too long");
        TRY(add_place_beside(s, name));
        if (stat(path, &st) != 0) {
            TRY(add_missing(s, path, "its external file '%.250s' is not there (%.400s)", name, path));
            continue;
        }
        if (S_ISREG(st.st_mode) && offset >= 0 && st.st_size > offset) /* a file may say any offset */
            have = (uint64_t)(st.st_size - offset);
        TRY(have < need ? add_missing(s, path, "its external file '%.250s' is too short for it (%.400s)", name, path)
                        : add(s, path, FBY__H5P_SOURCE_THERE, NULL));
    }
    return 0;
}

/* ---- virtual data sets ---- */

static int add_dataset(sources *s, hid_t dataset, const char *from, int depth);

/* A name of libhdf5's that is asked for twice: how long, then the text. Owned; NULL: no memory, or it does not say. */
static char *mapping_text(ssize_t (*get)(hid_t, size_t, char *, size_t), hid_t dcpl, size_t i)
{
    ssize_t n = get(dcpl, i, NULL, 0);
    char *text = n < 0 || n >= FBY__H5P_MAX_OBJECT_PATH ? NULL : malloc((size_t)n + 1);
    if (text && get(dcpl, i, text, (size_t)n + 1) < 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* "f-%b.h5": %b is the block's number, %% a percent sign. True: there is a %b in it. */
static bool numbered(const char *name, unsigned long long block, char *out)
{
    bool any = false;
    size_t n = 0;
    for (const char *p = name; *p && n < (size_t)MAX_PATH - 24; p++) {
        if (p[0] == '%' && p[1] == 'b') {
            n += (size_t)snprintf(out + n, 24, "%llu", block);
            any = true;
            p++;
        } else {
            out[n++] = *p;
            p += p[0] == '%' && p[1] == '%';
        }
    }
    out[n] = 0;
    return any;
}

/* The file that has a virtual data set. */
typedef struct home {
    const char *path;
    hid_t file; /* borrowed */
    int depth;
} home;

/* One source: *out_there says whether libhdf5 will have values from it. `later`: it need not be there. */
static int add_source(sources *s, const home *h, const char *file, const char *object, bool later, bool *out_there)
{
    char path[MAX_PATH];
    bool own = strcmp(file, ".") == 0;
    unsigned absent = later ? FBY__H5P_SOURCE_LATER : FBY__H5P_SOURCE_MISSING;
    *out_there = false;
    const int located = own ? 1 : find_linked(s, h->path, file, getenv("HDF5_VDS_PREFIX"), path);
    if (own)
        (void)snprintf(path, sizeof path, "%s", h->path);
    if (located < 0)
        return -1;
    if (!located)
        return later ? add(s, path, absent, NULL) : add_missing(s, path, "its source file '%.250s' is not there (%.400s)", file, path);
    AUTO_ID fapl = H5Pcreate(H5P_FILE_ACCESS);
    AUTO_ID opened = own || fapl < 0 || H5Pset_fclose_degree(fapl, H5F_CLOSE_WEAK) < 0 ? -1 : H5Fopen(path, H5F_ACC_RDONLY, fapl);
    hid_t file_id = own ? h->file : opened;
    AUTO_ID dataset = file_id < 0 ? -1 : open_object(file_id, object);
    if (dataset >= 0 && H5Iget_type(dataset) == H5I_DATASET) {
        *out_there = true;
        TRY(add(s, path, FBY__H5P_SOURCE_THERE, NULL));
        return add_dataset(s, dataset, path, h->depth + 1);
    }
    (void)H5Eclear2(H5E_DEFAULT);
    if (out_of_descriptors())
        return fail_descriptors(s->w);
    if (later)
        return add(s, path, absent, NULL);
    return file_id < 0 ? add_missing(s, path, "its source file '%.250s' cannot be opened (%.400s)", file, path)
                       : add_missing(s, path, "its source file '%.250s' has no data set '%.300s'", file, object);
}

/*
 * A mapping without end whose number is in a folder's name: where the folder is not there, libhdf5 looks for the file beside the one that names it,
 * finds the same one for every number, and never comes to an end.
 */
static bool is_endless(const char *file, const char *object)
{
    char text[MAX_PATH];
    const char *slash = strrchr(file, '/');
    if (!slash || numbered(slash, 0, text))
        return false;
    return numbered(file, 0, text) && strlen(object) < (size_t)MAX_PATH - 24 && !numbered(object, 0, text);
}

static bool is_unlimited(hid_t space)
{
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_ndims(space);
    if (rank <= 0 || H5Sget_select_type(space) != H5S_SEL_HYPERSLABS || H5Sis_regular_hyperslab(space) <= 0 ||
        H5Sget_regular_hyperslab(space, start, stride, count, block) < 0)
        return false;
    for (int i = 0; i < rank; i++)
        if (count[i] == H5S_UNLIMITED || block[i] == H5S_UNLIMITED)
            return true;
    return false;
}

static int add_mapping(sources *s, hid_t dcpl, size_t i, const home *h)
{
    AUTO_FREE char *file = mapping_text(H5Pget_virtual_filename, dcpl, i);
    AUTO_FREE char *object = mapping_text(H5Pget_virtual_dsetname, dcpl, i);
    AUTO_FREE char *names = malloc(2 * (size_t)MAX_PATH);
    AUTO_ID space = H5Pget_virtual_vspace(dcpl, i);
    bool there;
    if (!file || !object || !names || space < 0)
        return fail_h5(s->w, "the sources of a virtual data set");
    if (!is_unlimited(space) || !(numbered(file, 0, names) || numbered(object, 0, names + MAX_PATH)))
        return add_source(s, h, file, object, false, &there);
    for (unsigned long long block = 0;; block++) { /* as many as there are: the first gap ends them */
        (void)numbered(file, block, names);
        (void)numbered(object, block, names + MAX_PATH);
        progress(s->w);
        TRY(add_source(s, h, names, names + MAX_PATH, true, &there));
        if (!there)
            return 0;
    }
}

int refuse_endless(work *w, hid_t dataset)
{
    AUTO_ID dcpl = H5Dget_create_plist(dataset);
    size_t n = 0;
    if (dcpl < 0 || H5Pget_layout(dcpl) != H5D_VIRTUAL || H5Pget_virtual_count(dcpl, &n) < 0)
        return 0; /* what is wrong with it is said where it is read */
    for (size_t i = 0; i < n; i++) {
        AUTO_FREE char *file = mapping_text(H5Pget_virtual_filename, dcpl, i);
        AUTO_FREE char *object = mapping_text(H5Pget_virtual_dsetname, dcpl, i);
        AUTO_ID space = H5Pget_virtual_vspace(dcpl, i);
        progress(w);
        if (file && object && space >= 0 && is_unlimited(space) && is_endless(file, object))
            return fail(
                w, FBY__H5P_UNSUPPORTED,
                "its source files '%.300s' have their number in a folder's name, which libhdf5 would count without an end; put it in "
                "the file's name",
                file);
    }
    return 0;
}

/* ---- all of it ---- */

/* What is asked for by name is asked for to be read: said now, not when the first batch needs it. */
static int check_filters(const sources *s, hid_t dataset, const char *path, int depth)
{
    char text[sizeof s->w->reply.message];
    if (s->for_read ? missing_filter(s->w, dataset) < 0 : need_filters(s->w, dataset) == 0)
        return 0;
    memcpy(text, s->w->reply.message, sizeof text);
    return depth ? fail(s->w, s->w->reply.status, "its source file '%.300s': %.600s", path, text) : -1;
}

static int add_dataset(sources *s, hid_t dataset, const char *from, int depth)
{
    char own[FBY__H5P_MAX_PATH];
    AUTO_ID dcpl = H5Dget_create_plist(dataset);
    size_t n = 0;
    if (dcpl < 0)
        return fail_h5(s->w, "the data set");
    for (unsigned i = 0; i < links_passed(); i++) { /* kept by open_object: of this data set */
        const passed_link *link = link_passed(i);
        char place[MAX_PATH];
        TRY(add(s, link->from, FBY__H5P_SOURCE_THERE, NULL));
        if (find_linked(s, link->from, link->file, getenv("HDF5_EXT_PREFIX"), place) < 0)
            return -1;
    }
    ssize_t own_n = H5Fget_name(dataset, own, sizeof own);
    if (own_n > 0 && (size_t)own_n < sizeof own && own[0] == '/') {
        TRY(add(s, own, FBY__H5P_SOURCE_THERE, NULL)); /* what a link led to */
        from = own;
    }
    if (depth > MAX_DEPTH)
        return fail(s->w, FBY__H5P_UNSUPPORTED, "virtual data sets are made of each other more than %d deep", MAX_DEPTH);
    TRY(check_filters(s, dataset, from, depth));
    if (H5Pget_external_count(dcpl) > 0)
        return add_raw(s, dataset, dcpl, from);
    if (H5Pget_layout(dcpl) != H5D_VIRTUAL)
        return 0;
    AUTO_ID file = H5Iget_file_id(dataset);
    const home h = {from, file, depth};
    if (file < 0 || H5Pget_virtual_count(dcpl, &n) < 0)
        return fail_h5(s->w, "the sources of a virtual data set");
    for (size_t i = 0; i < n; i++) {
        progress(s->w);
        TRY(add_mapping(s, dcpl, i, &h));
    }
    return 0;
}

static int put_list(const sources *s, buffer *b)
{
    TRY(put_u32(s->w, b, s->n));
    for (size_t i = 0; i < s->n; i++) {
        TRY(put_text(s->w, b, s->list[i].path));
        TRY(put_u8(s->w, b, s->list[i].state));
        TRY(put_text(s->w, b, s->list[i].why ? s->list[i].why : ""));
    }
    return 0;
}

static void sources_fini(sources *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->list[i].path);
        free(s->list[i].why);
    }
    free(s->list);
    free(s->table);
}

int put_sources(work *w, buffer *b, hid_t dataset)
{
    sources s = {.w = w};
    int r = add_dataset(&s, dataset, w->path, 0) ? -1 : put_list(&s, b);
    sources_fini(&s);
    return r;
}

int fail_read(work *w, hid_t dataset)
{
    sources s = {.w = w, .for_read = true};
    (void)fail_h5(w, "the data cannot be read");
    if (opens_refused() || allocation_failed()) /* then this is why */
        return -1;
    const fby__h5p_reply words = w->reply;
    w->reply.sys_errno = 0;
    (void)add_dataset(&s, dataset, w->path, 0);
    sources_fini(&s);
    if (w->reply.sys_errno != ENOPKG)
        w->reply = words;
    opens_forget(); /* what this way of looking at them was refused */
    return -1;
}
