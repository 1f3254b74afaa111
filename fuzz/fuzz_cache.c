/*
 * libFuzzer target: files of the index cache that somebody changed: the index of a Parquet, an HDF5 and a CSV file, and the samples of
 * groups.
 *
 * An input is a list of patches of 11 bytes (which file, where, how many bytes, the bytes) of genuine cache files, whose stamps therefore
 * hold. The data set is then opened with them, and by some inputs read in every way. What was changed is believed: offsets and sizes that lie,
 * types and names that are another column's. Correct is any status.
 *
 * The cache's files are in memory (fuzz/CMakeLists.txt wraps fby__cache_read and fby__cache_write), each in memory of its own size, so that
 * AddressSanitizer sees the first byte beyond; few inputs go through files too, whose codes hold in builds for fuzzing (fby__checksum_holds).
 */
#include "fuzz_file.h"

#include "base/alloc.h"
#include "dataset/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MAX_IMAGES = 8, PATCH = 11, MAX_PATCHES = 64, SOURCES = 3, CODE = 16 };
enum { CACHE_MEMORY = 16 << 20 }; /* a forged index names as many blocks as fit */

typedef struct image {
    char path[512];
    const char *name; /* its last part */
    unsigned source;  /* whose it is */
    uint8_t *data;    /* with the code behind it */
    size_t n;
} image;

static char folder[64], cache[80], sources[SOURCES][160];
static image images[MAX_IMAGES];
static unsigned n_images;
static const image *forged;    /* NULL: the cache is in files */
static const uint8_t *changed; /* what it became: n bytes */

static int copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rbe"), *out = in ? fopen(to, "wbe") : NULL;
    char buffer[4096];
    size_t n, written = 0;
    while (out && (n = fread(buffer, 1, sizeof buffer, in)) > 0)
        written += fwrite(buffer, 1, n, out);
    if (in)
        (void)fclose(in); /* only read */
    return out && fclose(out) == 0 && written > 0 ? 0 : -1;
}

static int put_file(const char *to, const void *data, size_t n)
{
    FILE *out = fopen(to, "wbe");
    const bool whole = out && fwrite(data, 1, n, out) == n;
    return out && fclose(out) == 0 && whole ? 0 : -1;
}

static void clean_up(void)
{
    DIR *d = opendir(cache);
    for (struct dirent *e; d && (e = readdir(d));)
        (void)unlinkat(dirfd(d), e->d_name, 0); /* "." and ".." stay */
    if (d)
        (void)closedir(d);
    for (unsigned i = 0; i < SOURCES; i++)
        (void)unlink(sources[i]);
    (void)rmdir(cache);
    (void)rmdir(folder);
}

/*
 * The data set opened through the cache and read as columns and as rows, and its groups by the first column that can be a key.
 * @all     without it the data set is opened and described only
 * @groups  the groups are opened even then
 */
static void read_through_cache(const char *source, bool all, bool groups)
{
    fby_open_opts opts = {.size = sizeof opts, .cache_dir = cache, .n_threads = 1, .io = FBY_IO_THREADS, .memory_bytes = CACHE_MEMORY};
    fby_source from = {.path = source};
    fby_dataset *ds;
    if (fby_dataset_open(&from, 1, &opts, &ds, NULL) != FBY_OK)
        return;
    const fby_field *schema = fby_dataset_schema(ds);
    int left = MAX_CHUNKS;
    describe_leaves(ds, schema, 0, &left);
    if (all) {
        read_arrow(ds);
        read_batches(ds, NULL);
    }
    for (uint32_t i = 0; (all || groups) && i < schema->n_children; i++) {
        fby_samples_opts by_key = {.size = sizeof by_key, .kind = FBY_SAMPLES_GROUPS, .key = schema->children[i].path, .n_threads = 1};
        fby_samples *samples;
        if (fby_samples_open(ds, &by_key, &samples, NULL) != FBY_OK)
            continue;
        fby_loader_opts load = {FBY_LOADER_SIZES, .samples = samples, .batch_size = 8, .memory_bytes = 256u << 20, .n_threads = 1};
        fby_loader *loader;
        fby_batch *batch;
        if (all && fby_loader_open(ds, &load, &loader, NULL) == FBY_OK) {
            for (int k = 0; k < MAX_BATCHES && fby_loader_next(loader, -1, &batch, NULL) == FBY_OK; k++)
                fby_batch_unref(batch);
            fby_loader_close(loader);
        }
        fby_samples_close(samples);
        break;
    }
    fby_dataset_close(ds);
}

/* ---- the cache in memory ---- */

fby_status __real_fby__cache_read(const char *dir, const char *name, size_t least, fby__buf *out);
fby_status __wrap_fby__cache_read(const char *dir, const char *name, size_t least, fby__buf *out);
fby_status __real_fby__cache_write(const char *dir, const char *name, const fby__buf *image, fby_error *err);
fby_status __wrap_fby__cache_write(const char *dir, const char *name, const fby__buf *image, fby_error *err);

fby_status __wrap_fby__cache_read(const char *dir, const char *name, size_t least, fby__buf *out)
{
    if (!forged)
        return __real_fby__cache_read(dir, name, least, out);
    for (const image *m = images; m < images + n_images; m++) {
        if (strcmp(m->name, name) != 0 || m->n < least + CODE)
            continue;
        if (!(out->data = fby__malloc(m->n - CODE)))
            return FBY_E_NOMEM;
        out->n = out->cap = m->n - CODE;
        memcpy(out->data, m == forged ? changed : m->data, out->n);
        return FBY_OK;
    }
    return FBY_E_IO;
}

/* What was refused is not written anew: the next input finds all as it was. */
fby_status __wrap_fby__cache_write(const char *dir, const char *name, const fby__buf *bytes, fby_error *err)
{
    return forged ? FBY_OK : __real_fby__cache_write(dir, name, bytes, err);
}

/* ---- images ---- */

static bool is_known(const char *file)
{
    for (unsigned i = 0; i < n_images; i++)
        if (strcmp(images[i].path, file) == 0)
            return true;
    return false;
}

/* What reading a source left in the cache. */
static void read_images(unsigned source)
{
    DIR *d = opendir(cache);
    for (struct dirent *e; d && n_images < MAX_IMAGES && (e = readdir(d));) {
        image *m = &images[n_images];
        struct stat st;
        (void)snprintf(m->path, sizeof m->path, "%s/%s", cache, e->d_name);
        if (e->d_name[0] == '.' || is_known(m->path) || stat(m->path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
            continue;
        m->name = strrchr(m->path, '/') + 1;
        m->source = source;
        FILE *f = fopen(m->path, "rbe");
        m->n = (size_t)st.st_size;
        m->data = malloc(m->n);
        if (!f || !m->data || fread(m->data, 1, m->n, f) != m->n)
            abort();
        (void)fclose(f); /* only read */
        n_images++;
    }
    if (d)
        (void)closedir(d);
}

static int start(void)
{
    static const char CSV[] = "event,x,word\n1,0.5,a\n1,1.5,b\n2,,c\n2,2.25,\n2,3,e\n3,4,\"f\"\"g\"\n";
    (void)snprintf(folder, sizeof folder, "%s/forebay-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (setenv("FOREBAY_HDF5_HELPER", "/nonexistent", 1) != 0 || !mkdtemp(folder))
        return -1;
    (void)atexit(clean_up);
    (void)snprintf(cache, sizeof cache, "%s/cache", folder);
    (void)snprintf(sources[0], sizeof sources[0], "%s/groups.parquet", folder);
    (void)snprintf(sources[1], sizeof sources[1], "%s/table.h5", folder);
    (void)snprintf(sources[2], sizeof sources[2], "%s/table.csv", folder);
    if (copy_file(FUZZ_GOLDEN "/dataset/groups.parquet", sources[0]) != 0 ||
        copy_file(FUZZ_GOLDEN "/hdf5_table/user_block.h5", sources[1]) != 0 || put_file(sources[2], CSV, sizeof CSV - 1) != 0)
        return -1;
    (void)nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 100000000}, NULL); /* files just written get no entry in an index */
    for (unsigned i = 0; i < SOURCES; i++) {
        read_through_cache(sources[i], true, true);
        read_images(i);
    }
    return n_images >= SOURCES ? 0 : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t *bytes;
    if (folder[0] == 0 && start() != 0)
        abort(); /* no golden files, or nowhere to write: the target would test nothing */
    if (size < PATCH)
        return 0;
    pick(data, size);
    const unsigned which = data[0] % n_images;
    const image *m = &images[which];
    bytes = realloc(bytes, m->n);
    if (!bytes)
        return 0;
    memcpy(bytes, m->data, m->n);
    for (unsigned i = 0; i < MAX_PATCHES && size >= PATCH; i++, data += PATCH, size -= PATCH) {
        const size_t at = (data[1] | (size_t)data[2] << 8) % m->n, n = data[0] / MAX_IMAGES % 8 + 1;
        memcpy(bytes + at, data + 3, n < m->n - at ? n : m->n - at);
    }
    const bool groups = !strstr(m->name, ".fbyindex");
    changed = bytes;
    forged = m;
    read_through_cache(sources[m->source], is_for_all(), groups);
    forged = NULL;
    if (!is_for_all() || put_file(m->path, bytes, m->n) != 0)
        return 0;
    read_through_cache(sources[m->source], false, groups);
    for (unsigned i = 0; i < n_images; i++) /* what was refused was written anew: as it was, for the next input */
        if (images[i].source == m->source)
            (void)put_file(images[i].path, images[i].data, images[i].n);
    return 0;
}
