/*
 * forebay advise: where the files lie, and how fast they are read from there. The page cache is asked to forget what is read before it is
 * read, so that the device answers; a virtual disk may still have it in its host's memory, and files in memory stay there.
 */
#include "advise.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { READERS = 8, LEAST_READ = 1 << 14, MOST_READ = 1 << 20, MOST_READS = 1024 };
#define MOST_SECONDS 1.5
#define LEAST_BYTES ((uint64_t)4 << 20) /* of files with fewer, the time is that of opening and of the first answers */

/* ---- its name ---- */

static const struct {
    unsigned long magic;
    const char *kind;
} FILE_SYSTEMS[] = {{0x6969, "NFS"},        {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"},
                    {0x00C36400, "CephFS"}, {0xFF534D42, "SMB"},    {0xFE534D42, "SMB"},  {0x517B, "SMB"},
                    {0x01021994, "tmpfs"},  {0x858458F6, "ramfs"},  {0x65735546, "FUSE"}, {0x73717368, "squashfs"}};
enum { NINE_P = 0x01021997 };

static bool is_wsl(void)
{
    char text[256] = "";
    FILE *f = fopen("/proc/version", "re");
    if (f) {
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        (void)fclose(f); /* only read */
    }
    return strcasestr(text, "microsoft") != NULL;
}

/** Below /sys/dev/block, the folder of the disk that a partition is on, or of the disk itself. */
static bool disk_folder(dev_t device, char out[PATH_MAX])
{
    char link[64], file[PATH_MAX + 32];
    (void)snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(device), minor(device));
    if (!realpath(link, out))
        return false;
    (void)snprintf(file, sizeof file, "%s/partition", out);
    char *end = access(file, F_OK) == 0 ? strrchr(out, '/') : NULL;
    if (end)
        *end = 0;
    return true;
}

static void name_device(dev_t device, advise_storage *out)
{
    char folder[PATH_MAX], file[PATH_MAX + 32], rotational = '0';
    out->kind = "unknown";
    if (!disk_folder(device, folder))
        return;
    const char *name = strrchr(folder, '/') + 1;
    (void)snprintf(out->device, sizeof out->device, "%.60s", name);
    (void)snprintf(file, sizeof file, "%s/queue/rotational", folder);
    FILE *f = fopen(file, "re");
    if (f) {
        rotational = (char)fgetc(f);
        (void)fclose(f); /* only read */
    }
    out->kind = strncmp(name, "nvme", 4) == 0                               ? "NVMe"
                : strstr(folder, "/virtio") || strncmp(name, "xvd", 3) == 0 ? "virtual disk"
                : rotational == '1'                                         ? "disk"
                : strstr(folder, "/ata")                                    ? "SATA SSD"
                                                                            : "SSD";
}

static void name_storage(const char *path, advise_storage *out)
{
    struct statfs fs;
    struct stat st;
    out->kind = "unknown";
    if (statfs(path, &fs) != 0 || stat(path, &st) != 0)
        return;
    const unsigned long magic = (unsigned long)fs.f_type & 0xFFFFFFFFu;
    for (size_t i = 0; i < sizeof FILE_SYSTEMS / sizeof *FILE_SYSTEMS; i++)
        if (FILE_SYSTEMS[i].magic == magic) {
            out->kind = FILE_SYSTEMS[i].kind;
            return;
        }
    if (magic == NINE_P)
        out->kind = is_wsl() ? "WSL (a Windows drive)" : "9p";
    else
        name_device(st.st_dev, out);
}

/* ---- its speed ---- */

typedef struct reads {
    char **paths;
    uint64_t *offsets;
    size_t n, read_bytes;
    double until;
    _Atomic size_t next;
    _Atomic uint64_t bytes, ns;
    _Atomic int error;            /* an errno */
    _Atomic(const char *) failed; /* of which file; set before it */
} reads;

static void fail(reads *r, size_t i)
{
    const int error = errno;
    r->failed = r->paths[i];
    r->error = error;
}

static void read_one(reads *r, size_t i, char *buffer)
{
    const int fd = open(r->paths[i], O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fail(r, i);
        return;
    }
    (void)posix_fadvise(fd, (off_t)r->offsets[i], (off_t)r->read_bytes, POSIX_FADV_DONTNEED);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    const double began = cli_now();
    const ssize_t n = pread(fd, buffer, r->read_bytes, (off_t)r->offsets[i]);
    if (n < 0)
        fail(r, i);
    else {
        r->bytes += (uint64_t)n;
        r->ns += (uint64_t)(1e9 * (cli_now() - began));
    }
    (void)close(fd);
}

static void *reader(void *context)
{
    reads *r = context;
    char *buffer = cli_alloc(r->read_bytes);
    for (size_t i; (i = r->next++) < r->n && cli_now() < r->until && !r->error;)
        read_one(r, i, buffer);
    free(buffer);
    return NULL;
}

/** Places spread over all files, in an order that no read-ahead follows. */
static int choose_reads(const fby_dataset *ds, reads *r)
{
    const uint64_t n_files = fby_dataset_file_count(ds);
    uint64_t all = 0;
    fby_error err = {0};
    for (uint64_t f = 0; f < n_files; f++) {
        fby_file_info file = {.size = sizeof file};
        if (fby_dataset_file(ds, f, &file, &err) != FBY_OK)
            return cli_library_error(&err);
        all += (file.size_bytes + r->read_bytes - 1) / r->read_bytes;
    }
    const uint64_t every = all / MOST_READS + 1;
    uint64_t at = 0;
    r->paths = cli_alloc((all / every + 1) * sizeof *r->paths);
    r->offsets = cli_alloc((all / every + 1) * sizeof *r->offsets);
    for (uint64_t f = 0; f < n_files; f++) {
        fby_file_info file = {.size = sizeof file};
        (void)fby_dataset_file(ds, f, &file, NULL); /* as above */
        for (uint64_t offset = 0; file.path && offset < file.size_bytes; offset += r->read_bytes, at++)
            if (at % every == 0) {
                r->paths[r->n] = (char *)(uintptr_t)file.path;
                r->offsets[r->n++] = offset;
            }
    }
    uint64_t seed = 1;
    for (size_t i = r->n; i > 1; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const size_t k = (size_t)((seed >> 33) % i);
        char *path = r->paths[i - 1];
        const uint64_t offset = r->offsets[i - 1];
        r->paths[i - 1] = r->paths[k], r->offsets[i - 1] = r->offsets[k];
        r->paths[k] = path, r->offsets[k] = offset;
    }
    return CLI_CONTINUE;
}

int advise_storage_measure(const fby_dataset *ds, uint64_t read_bytes, advise_storage *out)
{
    reads r = {.read_bytes = read_bytes < LEAST_READ ? LEAST_READ : read_bytes > MOST_READ ? MOST_READ : read_bytes};
    *out = (advise_storage){.kind = "memory", .read_bytes = r.read_bytes};
    pthread_t threads[READERS];
    size_t n_threads = 0;
    int code = choose_reads(ds, &r);
    if (code == CLI_CONTINUE && r.n) {
        name_storage(r.paths[0], out);
        cli_progress("reading from %s", out->kind);
        const double began = cli_now(), cpu = bench_cpu_seconds();
        r.until = began + MOST_SECONDS;
        while (n_threads < READERS && pthread_create(&threads[n_threads], NULL, reader, &r) == 0)
            n_threads++;
        if (n_threads == 0)
            (void)reader(&r);
        for (size_t i = 0; i < n_threads; i++)
            (void)pthread_join(threads[i], NULL); /* of threads that were started: cannot fail */
        const double seconds = cli_now() - began;
        const size_t done = r.next < r.n ? r.next : r.n;
        out->bytes_read = r.bytes;
        out->cpu_per_byte = r.bytes ? (bench_cpu_seconds() - cpu) / (double)r.bytes : 0;
        out->first_bytes_per_second = seconds > 0 ? (double)r.bytes / seconds : 0;
        out->bytes_per_second = r.n * r.read_bytes < LEAST_BYTES ? INFINITY : out->first_bytes_per_second;
        out->read_seconds = done ? 1e-9 * (double)r.ns / (double)done : 0;
        cli_progress_end();
        if (r.error)
            code = cli_error(CLI_FAILED, NULL, "%s: %s", r.failed, strerror(r.error));
    }
    free(r.paths);
    free(r.offsets);
    return code;
}
