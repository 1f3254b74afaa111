/*
 * The last few files, kept open with the data set last read: opening again would parse metadata and decode chunks again.
 * A file is recognised by path, device, inode, size and times; what changed is opened anew.
 */
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_SLOTS = 4 };

/* Chunks are decoded into libhdf5's cache when they fit in it: rows of one chunk may come with many requests. */
#define CACHE_LEAST ((size_t)8 << 20)
#define CACHE_MOST ((size_t)256 << 20)

/* What a writer is changing has a wrong checksum for a moment: it is read again after 1 ns, 2 ns, 4 ns, …, some 20 ms in all here. */
#define SWMR_ATTEMPTS 25u

#define CPU_SECONDS 100000u                /* of one request: by then its client has long given it up */
#define MEMORY_BESIDES ((uint64_t)4 << 30) /* address space for the program, libhdf5 and its caches */

typedef struct stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified, changed;
} stamp;

typedef struct slot {
    char *path, *object; /* owned; NULL: free; no data set open */
    stamp stamp;
    hid_t file, dataset;
    uint64_t promise; /* of the data set */
    bool keep;        /* false: other files or a writer stand behind it, whose changes would not be seen */
    uint64_t used;    /* when, counted in requests */
} slot;

static slot g_slots[N_SLOTS];
static uint64_t g_clock;

static bool stamp_equal(const stamp *a, const stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified.tv_sec == b->modified.tv_sec &&
           a->modified.tv_nsec == b->modified.tv_nsec && a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static void dataset_close(slot *s)
{
    if (!s->object)
        return;
    (void)H5Dclose(s->dataset); /* read only: nothing is lost by a failure */
    free(s->object);
    s->object = NULL;
}

/* Whatever a failure left open would keep the file open, and with it what libhdf5 knew of it. */
static void objects_close(hid_t file)
{
    hid_t ids[16];
    for (ssize_t n = 1; n > 0;) {
        n = H5Fget_obj_ids(file, H5F_OBJ_DATASET | H5F_OBJ_GROUP | H5F_OBJ_DATATYPE | H5F_OBJ_ATTR | H5F_OBJ_LOCAL,
                           sizeof ids / sizeof *ids, ids);
        bool closed = false;
        for (ssize_t i = 0; i < n; i++)
            closed |= H5Idec_ref(ids[i]) >= 0;
        if (!closed)
            return;
    }
}

static void slot_close(slot *s)
{
    if (!s->path)
        return;
    dataset_close(s);
    objects_close(s->file);
    (void)H5Fclose(s->file); /* as above */
    free(s->path);
    *s = (slot){0};
}

void files_settle(void)
{
    for (unsigned i = 0; i < N_SLOTS; i++)
        if (g_slots[i].path && !g_slots[i].keep)
            slot_close(&g_slots[i]);
}

static int slot_of(work *w, slot **out)
{
    struct stat st;
    if (stat(w->path, &st) != 0) {
        w->reply.sys_errno = errno;
        return fail(w, FBY__H5P_IO, "the file cannot be opened");
    }
    stamp now = {st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim};
    slot *s = NULL, *victim = &g_slots[0];
    /* libhdf5 shares what it knows of an inode between all that have it open: an old view of it has to go first. */
    for (unsigned i = 0; i < N_SLOTS; i++) {
        slot *each = &g_slots[i];
        if (!each->path)
            continue;
        bool same_file = each->stamp.device == now.device && each->stamp.inode == now.inode;
        if ((same_file || strcmp(each->path, w->path) == 0) && !stamp_equal(&each->stamp, &now))
            slot_close(each);
        else if (strcmp(each->path, w->path) == 0)
            s = each;
    }
    g_clock++;
    if (s) {
        s->used = g_clock;
        *out = s;
        return 0;
    }
    for (unsigned i = 0; i < N_SLOTS; i++)
        if (!g_slots[i].path || (victim->path && g_slots[i].used < victim->used))
            victim = &g_slots[i];
    slot_close(victim);
    AUTO_ID fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (fapl < 0 || H5Pset_fclose_degree(fapl, H5F_CLOSE_WEAK) < 0) /* as links to other files, and back to this one, want it */
        return fail_h5(w, "no file access list");
    bool keep = true;
    hid_t file = H5Fopen(w->path, H5F_ACC_RDONLY, fapl);
    if (file < 0) {
        /* A file that is, or was when its writer died, open for writing. */
        char text[600];
        int sys_errno = h5_words(text, sizeof text);
        keep = false;
        if (H5Pset_metadata_read_attempts(fapl, SWMR_ATTEMPTS) < 0)
            return fail_h5(w, "no file access list");
        file = H5Fopen(w->path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, fapl);
        (void)H5Eclear2(H5E_DEFAULT);
        if (file < 0) {
            w->reply.sys_errno = sys_errno;
            return fail(w, sys_errno ? FBY__H5P_IO : FBY__H5P_FORMAT, "the file cannot be opened: %s", text);
        }
    }
    char *path = strdup(w->path);
    if (!path) {
        (void)H5Fclose(file);
        return fail_nomem(w);
    }
    *victim = (slot){.path = path, .stamp = now, .file = file, .dataset = -1, .keep = keep, .used = g_clock};
    *out = victim;
    return 0;
}

int file_of(work *w, hid_t *out)
{
    slot *s;
    TRY(slot_of(w, &s));
    *out = s->file;
    return 0;
}

/* ---- links to other files ---- */

enum { MAX_LINKS = 32 }; /* what libhdf5 follows, and more */

static char g_refused[FBY__H5P_MAX_PATH]; /* the file that was not opened, "" = none */
static passed_link g_passed[MAX_LINKS];
static unsigned g_n_passed;

unsigned links_passed(void) { return g_n_passed; }
const passed_link *link_passed(unsigned i) { return &g_passed[i]; }

static bool is_special(const char *folder, size_t folder_n, const char *name)
{
    char full[2 * FBY__H5P_MAX_PATH];
    struct stat st;
    int n = snprintf(full, sizeof full, "%.*s%s", (int)folder_n, folder, name);
    return n > 0 && (size_t)n < sizeof full && stat(full, &st) == 0 && !S_ISREG(st.st_mode);
}

/* libhdf5 takes the first of these places that opens: none may be one that never does. */
static herr_t check_link(const char *parent, const char *group, const char *file, const char *object, unsigned *flags, hid_t fapl,
                         void *unused)
{
    (void)group, (void)object, (void)flags, (void)fapl, (void)unused;
    const char *slash = strrchr(parent, '/'), *last = strrchr(file, '/'), *prefix = getenv("HDF5_EXT_PREFIX");
    size_t folder_n = slash ? (size_t)(slash - parent) + 1 : 0;
    last = last ? last + 1 : file;
    bool special = is_special("", 0, file) || is_special(parent, folder_n, file) || is_special(parent, folder_n, last);
    for (const char *p = prefix; p && *p && !special;) { /* folders, with a colon between them */
        char folder[FBY__H5P_MAX_PATH];
        size_t n = strcspn(p, ":");
        int k = snprintf(folder, sizeof folder, "%.*s/", (int)n, p);
        special = k > 0 && (size_t)k < sizeof folder && (is_special(folder, (size_t)k, file) || is_special(folder, (size_t)k, last));
        p += n + (p[n] == ':');
    }
    if (special)
        (void)snprintf(g_refused, sizeof g_refused, "%s", file);
    passed_link *passed = &g_passed[g_n_passed];
    if (parent[0] == '/' && g_n_passed < MAX_LINKS && strlen(parent) < sizeof passed->from && strlen(file) < sizeof passed->file) {
        strcpy(passed->from, parent);
        strcpy(passed->file, file);
        g_n_passed++;
    }
    return special ? -1 : 0;
}

hid_t open_object(hid_t from, const char *path)
{
    static hid_t lapl = -1; /* for good: to close it would empty the error stack */
    g_refused[0] = 0;
    opens_forget();
    g_n_passed = 0;
    if (lapl < 0 && ((lapl = H5Pcreate(H5P_LINK_ACCESS)) < 0 || H5Pset_elink_cb(lapl, check_link, NULL) < 0))
        return -1;
    return H5Oopen(from, path, lapl);
}

int fail_open(work *w, const char *what)
{
    char text[100];
    (void)snprintf(text, sizeof text, "%.60s cannot be opened", what);
    if (opens_refused())
        return fail_refused(w, text);
    if (!g_refused[0] && out_of_descriptors()) /* behind a link to another file, libhdf5 does not say so */
        return fail_descriptors(w);
    if (!g_refused[0]) {
        (void)fail_h5(w, "%s cannot be opened", what);
        if (g_n_passed > 0 && w->reply.status == FBY__H5P_FORMAT) { /* behind a link to another file, which may come, or be mended */
            w->reply.status = FBY__H5P_IO;
            w->reply.sys_errno = ENOLINK;
        }
        return -1;
    }
    (void)H5Eclear2(H5E_DEFAULT);
    return fail(w, FBY__H5P_FORMAT, "%s cannot be opened: it is behind a link to '%.300s', which is no regular file", what, g_refused);
}

/* Does the object lie in another file than the one it was opened through? */
static bool is_elsewhere(hid_t file, hid_t object)
{
    H5O_info_t root, info;
    return H5Oget_info(object, &info) < 0 || H5Oget_info(file, &root) < 0 || info.fileno != root.fileno;
}

/* ---- data sets ---- */

bool externals_are_beside(const work *w, hid_t dcpl)
{
    char name[FBY__H5P_MAX_PATH], full[2 * FBY__H5P_MAX_PATH];
    const char *slash = strrchr(w->path, '/');
    name[0] = 0;
    if (!slash || H5Pget_external(dcpl, 0, sizeof name, name, NULL, NULL) < 0)
        return false;
    name[sizeof name - 1] = 0;
    if (name[0] == '/' || !name[0])
        return false;
    (void)snprintf(full, sizeof full, "%.*s/%s", (int)(slash - w->path), w->path, name);
    return access(full, F_OK) == 0;
}

int missing_filter(work *w, hid_t dataset)
{
    AUTO_ID dcpl = H5Dget_create_plist(dataset);
    int n = dcpl < 0 ? 0 : H5Pget_nfilters(dcpl);
    for (int i = 0; i < n; i++) {
        unsigned flags = 0, config;
        size_t n_values = 0;
        char name[100] = "";
        H5Z_filter_t id = H5Pget_filter2(dcpl, (unsigned)i, &flags, &n_values, NULL, sizeof name, name, &config);
        name[sizeof name - 1] = 0;
        if (id < 0 || H5Zfilter_avail(id) > 0)
            continue;
        (void)H5Eclear2(H5E_DEFAULT); /* of the search for a plugin */
        w->reply.sys_errno = ENOPKG;
        (void)fail(
            w, FBY__H5P_IO, /* it may come */
            "libhdf5 has no filter %d%s%s%s: HDF5_PLUGIN_PATH can name a folder that holds its plugin; with FOREBAY_HDF5_HELPER=none, "
            "what needs the program is left out",
            (int)id, *name ? " (" : "", name, *name ? ")" : "");
        return i;
    }
    return -1;
}

/*
 * A missing filter is no failure where every chunk went without it: most writers set them as optional. The first chunk that is stored
 * speaks for all; where it does not tell, the read will.
 */
int need_filters(work *w, hid_t dataset)
{
#if H5_VERSION_GE(1, 10, 5)
    const fby__h5p_reply before = w->reply;
    unsigned mask = 0;
    hsize_t offset[H5S_MAX_RANK], bytes = 0;
    haddr_t address = HADDR_UNDEF;
    int missing = missing_filter(w, dataset);
    if (missing < 0)
        return 0;
    AUTO_ID space = H5Dget_space(dataset);
    if (H5Dget_storage_size(dataset) > 0 && space >= 0 && H5Dget_chunk_info(dataset, space, 0, offset, &mask, &address, &bytes) >= 0 &&
        !(mask >> missing & 1))
        return -1;
    (void)H5Eclear2(H5E_DEFAULT);
    w->reply = before;
#else
    (void)w, (void)dataset;
#endif
    return 0;
}

uint64_t promise_of(work *w, hid_t dataset)
{
    AUTO_ID type = H5Dget_type(dataset);
    AUTO_ID space = H5Dget_space(dataset);
    hsize_t dims[H5S_MAX_RANK];
    buffer b = {0};
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    bool fine = type >= 0 && rank >= 0 && H5Sget_simple_extent_dims(space, dims, NULL) >= 0 && put_type(w, &b, type, 0) == 0 &&
                put(w, &b, dims, (size_t)rank * sizeof *dims) == 0;
    for (size_t i = 0; i < b.n; i++)
        hash = (hash ^ b.data[i]) * 0x100000001b3u;
    free(b.data);
    return !fine ? 0 : hash ? hash : 1;
}

static int keep_promise(work *w, const slot *s)
{
    if (!w->request->promise || w->request->promise == s->promise)
        return 0;
    return fail(w, FBY__H5P_CHANGED, "its type or its shape is another than when the file was opened; open the data set again");
}

int dataset_of(work *w, hid_t *out)
{
    slot *s;
    TRY(slot_of(w, &s));
    if (s->object && strcmp(s->object, w->object) == 0) {
        *out = s->dataset;
        return keep_promise(w, s);
    }
    dataset_close(s);
    hid_t dataset = open_object(s->file, w->object);
    if (dataset < 0)
        return fail_open(w, "the data set");
    if (H5Iget_type(dataset) != H5I_DATASET) {
        close_id(&dataset);
        return fail(w, FBY__H5P_FORMAT, "the data set cannot be opened: it is none");
    }
    if (refuse_endless(w, dataset) != 0) {
        close_id(&dataset);
        return -1;
    }
    AUTO_ID dcpl = H5Dget_create_plist(dataset);
    AUTO_ID dapl = H5Pcreate(H5P_DATASET_ACCESS);
    AUTO_ID type = H5Dget_type(dataset);
    if (dcpl < 0 || dapl < 0 || type < 0) {
        (void)H5Dclose(dataset);
        return fail_h5(w, "the data set cannot be opened");
    }
    bool again = false;
    H5D_layout_t layout = H5Pget_layout(dcpl);
    if (layout == H5D_VIRTUAL || H5Pget_external_count(dcpl) > 0 || is_elsewhere(s->file, dataset))
        s->keep = false;
    if (H5Pget_external_count(dcpl) > 0 && externals_are_beside(w, dcpl))
        again = H5Pset_efile_prefix(dapl, "${ORIGIN}") >= 0;
    if (layout == H5D_CHUNKED) {
        hsize_t chunk[H5S_MAX_RANK];
        int rank = H5Pget_chunk(dcpl, H5S_MAX_RANK, chunk);
        double bytes = (double)H5Tget_size(type);
        for (int i = 0; i < rank; i++)
            bytes *= (double)chunk[i];
        const uint64_t half = w->request->memory_bytes / 2, most = half < CACHE_MOST ? half : CACHE_MOST;
        const uint64_t wanted = bytes * 4 < (double)most ? (uint64_t)(bytes * 4) : most;
        const size_t cache = wanted > CACHE_LEAST ? (size_t)wanted : CACHE_LEAST;
        for (unsigned i = 0; cache > CACHE_LEAST && i < N_SLOTS; i++) /* of large ones there is one at a time */
            dataset_close(&g_slots[i]);
        again |= H5Pset_chunk_cache(dapl, 1009, cache, 1.0) >= 0;
    }
    if (again) {
        (void)H5Dclose(dataset);
        dataset = H5Dopen2(s->file, w->object, dapl); /* its links were gone through before */
        if (dataset < 0)
            return fail_h5(w, "the data set cannot be opened");
    }
    s->dataset = dataset;
    s->promise = promise_of(w, dataset); /* of a type that cannot be told: 0, which nobody was promised */
    w->reply.status = FBY__H5P_OK;
    s->object = strdup(w->object);
    if (!s->object) {
        (void)H5Dclose(dataset);
        return fail_nomem(w);
    }
    *out = dataset;
    return keep_promise(w, s);
}

static uint64_t g_own_bytes; /* private memory of the program as it starts; 0 = not known, and then there is no such limit */

void own_memory(int statm)
{
    char text[200];
    unsigned long data;
    const ssize_t n = statm < 0 ? -1 : read(statm, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    if (sscanf(text, "%*u %*u %*u %*u %*u %lu", &data) == 1)
        g_own_bytes = (uint64_t)data * (uint64_t)sysconf(_SC_PAGESIZE);
    if (statm >= 0)
        (void)close(statm);
}

void limit_memory(const work *w, uint64_t bytes)
{
#if !defined(FBY_HELPER_SANITIZED) /* sanitizers reserve terabytes of addresses */
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0)
        return;
    uint64_t want = bytes > (UINT64_MAX - MEMORY_BESIDES) / 4 ? UINT64_MAX : 4 * bytes + MEMORY_BESIDES;
    limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
    (void)setrlimit(RLIMIT_AS, &limit); /* below the hard limit: always allowed */
    if (g_own_bytes && getrlimit(RLIMIT_DATA, &limit) == 0) {
        want = g_own_bytes + FBY__H5P_MEMORY + w->request->memory_bytes;
        limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
        (void)setrlimit(RLIMIT_DATA, &limit); /* as above */
    }
#else
    (void)w;
#endif
    /* Shared memory counts as a file: the result, and no more. The time is what the client would wait, at most. */
    struct rusage used;
    struct rlimit file, time;
    if (getrlimit(RLIMIT_FSIZE, &file) == 0) {
        file.rlim_cur = bytes < file.rlim_max ? bytes : file.rlim_max;
        (void)setrlimit(RLIMIT_FSIZE, &file); /* as above, both */
    }
    if (getrusage(RUSAGE_SELF, &used) == 0 && getrlimit(RLIMIT_CPU, &time) == 0) {
        rlim_t until = (rlim_t)used.ru_utime.tv_sec + (rlim_t)used.ru_stime.tv_sec + CPU_SECONDS;
        time.rlim_cur = until < time.rlim_max ? until : time.rlim_max;
        (void)setrlimit(RLIMIT_CPU, &time);
    }
}
