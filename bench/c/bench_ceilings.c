/*
 * What this machine can do at best, with nothing of the library in the way.
 *
 *   bench_ceilings copy   [-j threads] [-r run_bytes] [-m working_set_MB]   copies of consecutive runs
 *   bench_ceilings gather [-j threads] [-r row_bytes] [-m working_set_MB]   copies of rows chosen at random
 *   bench_ceilings gather [-j threads] [-r row_bytes] FILE                  the same of a file that is mapped, from the page cache when warm
 *   bench_ceilings read   [-j threads] FILE…                                pread of whole files, from the page cache when warm
 *
 * Each thread has a working set of its own, but for a FILE; the destination is a batch of 1,024 rows out of eight that are used in turn, as a
 * loader's are, or 1 MiB for reads. The random rows of `gather` are drawn before the clock starts, and prefetched four ahead:
 * without that the copy waits for one miss after the other. One line of key=value pairs on stdout.
 */
#include "memory.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH_ROWS = 1024, BATCHES = 8, READ_BYTES = 1 << 20, AHEAD = 4 };
static const uint64_t RUN_NS = 700000000;

typedef enum mode { COPY, GATHER, READ } mode;

typedef struct thread {
    pthread_t id;
    mode mode;
    size_t row_bytes, set_bytes;
    char **files;
    int n_files, first_file, step;
    pthread_barrier_t *start;
    /* results */
    uint64_t bytes, ns;
    int failed;
} thread;

static void copy_rows(thread *t, const uint8_t *set, uint8_t *out, const uint32_t *order, size_t n_rows)
{
    size_t row = t->row_bytes, at = 0, batch = 0;
    uint64_t begin = fby__now_ns();
    do {
        uint8_t *dst = out + batch * BATCH_ROWS * row;
        if (at + BATCH_ROWS + AHEAD > n_rows)
            at = 0;
        if (t->mode == COPY) {
            for (size_t i = 0; i < BATCH_ROWS; i++)
                memcpy(dst + i * row, set + (at + i) * row, row);
        } else {
            for (size_t i = 0; i < BATCH_ROWS; i++) {
                const uint8_t *ahead = set + order[at + i + AHEAD] * row;
                for (size_t k = 0; k < row; k += 64)
                    __builtin_prefetch(ahead + k);
                memcpy(dst + i * row, set + order[at + i] * row, row);
            }
        }
        __asm__ volatile("" ::: "memory");
        at += BATCH_ROWS;
        batch = (batch + 1) % BATCHES;
        t->bytes += BATCH_ROWS * row;
        t->ns = fby__now_ns() - begin;
    } while (t->ns < RUN_NS);
}

static void read_files(thread *t, uint8_t *buffer)
{
    uint64_t begin = fby__now_ns();
    do {
        for (int i = t->first_file; i < t->n_files && !t->failed; i += t->step) {
            int fd = open(t->files[i], O_RDONLY | O_CLOEXEC);
            ssize_t n = 0;
            off_t at = 0;
            while (fd >= 0 && (n = pread(fd, buffer, READ_BYTES, at)) > 0)
                at += n;
            t->failed = fd < 0 || n < 0;
            t->bytes += (uint64_t)at;
            if (fd >= 0)
                (void)close(fd);
        }
        t->ns = fby__now_ns() - begin;
    } while (t->ns < RUN_NS && !t->failed);
}

/* NULL when it cannot be mapped. Pages are there before any clock starts, as far as they are in the page cache. */
static const uint8_t *map_file(const char *path, size_t *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const uint8_t *p = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        *bytes = (size_t)st.st_size;
        p = mmap(NULL, *bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    }
    if (fd >= 0)
        (void)close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static void *run(void *argument)
{
    thread *t = argument;
    if (t->mode == READ) {
        uint8_t *buffer = map(READ_BYTES);
        t->failed = !buffer;
        (void)pthread_barrier_wait(t->start);
        if (buffer)
            read_files(t, buffer);
        return NULL;
    }
    const uint8_t *set =
        t->n_files ? map_file(t->files[0], &t->set_bytes) : map(fby__max_u64(t->set_bytes, t->row_bytes * (BATCH_ROWS + AHEAD)));
    size_t n_order = t->set_bytes / t->row_bytes; /* whole rows */
    uint8_t *out = map(BATCHES * BATCH_ROWS * t->row_bytes);
    uint32_t *order = calloc(n_order, sizeof *order);
    t->failed = !set || !out || !order || n_order < BATCH_ROWS + AHEAD;
    if (!t->failed) {
        fby__random random = {.key = 1, .stream = (uint64_t)t->first_file};
        for (size_t i = 0; i < n_order; i++)
            order[i] = (uint32_t)fby__random_below(&random, n_order);
    }
    (void)pthread_barrier_wait(t->start);
    if (!t->failed)
        copy_rows(t, set, out, order, n_order);
    free(order);
    return NULL; /* the process ends: the mappings go with it */
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: bench_ceilings copy|gather|read [-j threads] [-r row_bytes] [-m working_set_MB] [FILE…]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"copy", "gather", "read"};
    int n = 1;
    size_t row = 256, set_mb = 64;
    mode what = COPY;
    if (argc < 2)
        return usage();
    while (what <= READ && strcmp(argv[1], names[what]) != 0)
        what++;
    optind = 2;
    for (int opt; (opt = getopt(argc, argv, "j:r:m:")) != -1;) {
        switch (opt) {
        case 'j': n = atoi(optarg); break;
        case 'r': row = strtoul(optarg, NULL, 10); break;
        case 'm': set_mb = strtoul(optarg, NULL, 10); break;
        default: return usage();
        }
    }
    if (what > READ || n < 1 || n > 256 || row == 0 || (what == READ && optind == argc))
        return usage();

    thread *threads = calloc((size_t)n, sizeof *threads);
    pthread_barrier_t start;
    if (!threads || pthread_barrier_init(&start, NULL, (unsigned)n) != 0)
        return 1;
    for (int i = 0; i < n; i++) {
        threads[i] = (thread){.mode = what,
                              .row_bytes = row,
                              .set_bytes = set_mb << 20,
                              .files = argv + optind,
                              .n_files = argc - optind,
                              .first_file = i,
                              .step = n,
                              .start = &start};
        if (pthread_create(&threads[i].id, NULL, run, &threads[i]) != 0)
            return 1;
    }
    double per_second = 0;
    int failed = 0;
    for (int i = 0; i < n; i++) {
        (void)pthread_join(threads[i].id, NULL);
        failed |= threads[i].failed;
        per_second += threads[i].ns ? (double)threads[i].bytes * 1e9 / (double)threads[i].ns : 0;
    }
    free(threads);
    if (failed)
        return 1;
    printf("what=%s threads=%d row_bytes=%zu gb_per_s=%.3f mrows_per_s=%.3f\n", names[what], n, row, per_second * 1e-9,
           per_second / (double)row * 1e-6);
    return 0;
}
