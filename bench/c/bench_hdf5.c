/*
 * What reading an HDF5 data set could cost at best: its stages, each alone with all threads busy, libraries called directly.
 *
 *   bench_hdf5 read|decode|gather [-j threads] [-f filter,filter…] [-e element_bytes] [-s seconds] -r row_bytes -c chunk_bytes -l LIST FILE
 *
 * LIST has a line "offset bytes" for every stored chunk. `read` reads whole chunks with pread (page cache warm: say so, it is the caller's
 * to see to), `decode` undoes the filters of chunks held in memory, `gather` copies random rows of a decoded superbatch of 256 MB
 * into one of eight batches of 512 rows, prefetched four ahead. Filters as written: "shuffle,deflate", "lzf", "zstd", "blosc", "bitshuffle",
 * or none. One line of key=value pairs on stdout.
 *
 * decode calls libdeflate, LZF, Zstandard and Blosc themselves; shuffle and bitshuffle have no library, so those are this tree's.
 */
#include "memory.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "codec/filter.h"

#include <blosc.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <lzf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

enum { BATCH_ROWS = 512, BATCHES = 8, AHEAD = 4, MAX_THREADS = 64, MAX_FILTERS = 4 };
static const size_t SUPERBATCH_BYTES = (size_t)256 << 20;

typedef struct stored {
    uint64_t offset;
    size_t n;
    uint8_t *bytes;
} stored;

static struct {
    const char *mode, *file;
    char filters[MAX_FILTERS][16];
    size_t n_filters, element, row_bytes, chunk_bytes, n_chunks;
    stored *chunks;
    int fd, threads;
    uint64_t run_ns;
} job;

typedef struct worker {
    pthread_t id;
    int number;
    uint64_t bytes, ns, cpu_ns; /* decoded bytes, whatever the stage: rates are comparable */
    bool failed;
    uint8_t *sink;
} worker;

static pthread_barrier_t start_line;

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0 ? (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec : 0;
}

/* All at once, everything touched before. */
static uint64_t start(worker *w)
{
    (void)pthread_barrier_wait(&start_line);
    w->cpu_ns = thread_cpu_ns();
    return fby__now_ns();
}

/* One filter undone by its library; bytes written, 0 = failed. */
static size_t undo(const char *filter, struct libdeflate_decompressor *inflater, fby__filter_state *state, const uint8_t *src, size_t n,
                   uint8_t *dst, size_t room)
{
    size_t got = 0;
    if (strcmp(filter, "deflate") == 0)
        return libdeflate_zlib_decompress(inflater, src, n, dst, room, &got) == LIBDEFLATE_SUCCESS ? got : 0;
    if (strcmp(filter, "lzf") == 0)
        return lzf_decompress(src, (unsigned)n, dst, (unsigned)room);
    if (strcmp(filter, "zstd") == 0) {
        got = ZSTD_decompress(dst, room, src, n);
        return ZSTD_isError(got) ? 0 : got;
    }
    if (strcmp(filter, "blosc") == 0) {
        int done = blosc_decompress_ctx(src, dst, room, 1);
        return done < 0 ? 0 : (size_t)done;
    }
    if (strcmp(filter, "shuffle") == 0) {
        fby__unshuffle(src, dst, n, job.element, false);
        return n;
    }
    if (strcmp(filter, "bitshuffle") == 0) {
        const uint32_t values[] = {0, 4, (uint32_t)job.element, 0, 2};
        const fby__filter f = {.id = FBY__FILTER_BITSHUFFLE, .n_values = 5, .values = values};
        return fby__filters_undo(state, &f, 1, 0, false, (fby__bytes){src, n}, dst, room, NULL) == FBY_OK ? room : 0;
    }
    return 0;
}

static bool decode(const stored *c, struct libdeflate_decompressor *inflater, fby__filter_state *state, uint8_t *scratch[2], uint8_t *out)
{
    const uint8_t *at = c->bytes;
    size_t n = c->n;
    for (size_t i = job.n_filters; i-- > 0;) {
        uint8_t *to = i == 0 ? out : scratch[i & 1];
        n = undo(job.filters[i], inflater, state, at, n, to, job.chunk_bytes);
        at = to;
    }
    return n == job.chunk_bytes;
}

static void stage_decode(worker *w)
{
    struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
    fby__filter_state state = {0};
    uint8_t *scratch[2] = {map(job.chunk_bytes), map(job.chunk_bytes)}, *out = map(job.chunk_bytes);
    w->failed = !inflater || !scratch[0] || !scratch[1] || !out;
    uint64_t begin = start(w);
    for (size_t i = (size_t)w->number; !w->failed && w->ns < job.run_ns; i = (i + (size_t)job.threads) % job.n_chunks) {
        w->failed = !decode(&job.chunks[i], inflater, &state, scratch, out);
        w->bytes += job.chunk_bytes;
        w->ns = fby__now_ns() - begin;
    }
    fby__filter_state_fini(&state);
    libdeflate_free_decompressor(inflater);
}

static void stage_read(worker *w)
{
    size_t room = 0;
    for (size_t i = 0; i < job.n_chunks; i++)
        room = fby__max_u64(room, job.chunks[i].n);
    uint8_t *buffer = map(room);
    w->failed = !buffer;
    uint64_t begin = start(w);
    for (size_t i = (size_t)w->number; !w->failed && w->ns < job.run_ns; i = (i + (size_t)job.threads) % job.n_chunks) {
        w->failed = pread(job.fd, buffer, job.chunks[i].n, (off_t)job.chunks[i].offset) != (ssize_t)job.chunks[i].n;
        w->bytes += job.chunk_bytes;
        w->ns = fby__now_ns() - begin;
    }
}

static void stage_gather(worker *w)
{
    size_t row = job.row_bytes, n_rows = SUPERBATCH_BYTES / row, at = 0, batch = 0;
    uint8_t *set = map(n_rows * row), *out = map(BATCHES * BATCH_ROWS * row);
    uint32_t *order = calloc(n_rows, sizeof *order);
    w->failed = !set || !out || !order;
    fby__random random = {.key = 1, .stream = (uint64_t)w->number};
    for (size_t i = 0; !w->failed && i < n_rows; i++)
        order[i] = (uint32_t)fby__random_below(&random, n_rows);
    uint64_t begin = start(w);
    while (!w->failed && w->ns < job.run_ns) {
        uint8_t *dst = out + batch * BATCH_ROWS * row;
        if (at + BATCH_ROWS + AHEAD > n_rows)
            at = 0;
        for (size_t i = 0; i < BATCH_ROWS; i++) {
            const uint8_t *ahead = set + order[at + i + AHEAD] * row;
            for (size_t k = 0; k < row && k < 512; k += 64)
                __builtin_prefetch(ahead + k);
            memcpy(dst + i * row, set + order[at + i] * row, row);
        }
        __asm__ volatile("" ::: "memory");
        at += BATCH_ROWS;
        batch = (batch + 1) % BATCHES;
        w->bytes += BATCH_ROWS * row;
        w->ns = fby__now_ns() - begin;
    }
    free(order);
}

static void *run(void *argument)
{
    worker *w = argument;
    if (strcmp(job.mode, "decode") == 0)
        stage_decode(w);
    else if (strcmp(job.mode, "read") == 0)
        stage_read(w);
    else
        stage_gather(w);
    w->cpu_ns = thread_cpu_ns() - w->cpu_ns;
    return NULL;
}

static bool load_chunks(const char *list)
{
    FILE *f = fopen(list, "re");
    unsigned long long offset, n;
    bool ok = f != NULL;
    while (ok && fscanf(f, "%llu %llu", &offset, &n) == 2) {
        stored *grown = realloc(job.chunks, (job.n_chunks + 1) * sizeof *grown);
        ok = grown != NULL;
        if (!ok)
            break;
        job.chunks = grown;
        stored *c = &job.chunks[job.n_chunks++];
        *c = (stored){.offset = offset, .n = (size_t)n, .bytes = malloc((size_t)n)};
        ok = c->bytes && pread(job.fd, c->bytes, c->n, (off_t)offset) == (ssize_t)n;
    }
    if (f)
        (void)fclose(f); /* read only */
    return ok && job.n_chunks;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_hdf5 read|decode|gather [-j threads] [-f filters] [-e element] [-s seconds] -r row_bytes -c chunk_bytes "
                    "-l LIST FILE\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *list = NULL;
    char *filters = NULL;
    int option;
    if (argc < 2)
        return usage();
    job.mode = argv[1];
    job.threads = 1;
    job.run_ns = 800000000;
    optind = 2;
    while ((option = getopt(argc, argv, "j:f:e:s:r:c:l:")) != -1)
        switch (option) {
        case 'j': job.threads = atoi(optarg); break;
        case 'f': filters = optarg; break;
        case 'e': job.element = strtoul(optarg, NULL, 10); break;
        case 's': job.run_ns = (uint64_t)(atof(optarg) * 1e9); break;
        case 'r': job.row_bytes = strtoul(optarg, NULL, 10); break;
        case 'c': job.chunk_bytes = strtoul(optarg, NULL, 10); break;
        case 'l': list = optarg; break;
        default: return usage();
        }
    if (optind + 1 != argc || !list || !job.row_bytes || !job.chunk_bytes || job.threads < 1 || job.threads > MAX_THREADS)
        return usage();
    for (char *name = filters ? strtok(filters, ",") : NULL; name && job.n_filters < MAX_FILTERS; name = strtok(NULL, ","))
        (void)snprintf(job.filters[job.n_filters++], sizeof job.filters[0], "%s", name);
    job.file = argv[optind];
    job.fd = open(job.file, O_RDONLY | O_CLOEXEC);
    if (job.fd < 0 || !load_chunks(list)) {
        fprintf(stderr, "bench_hdf5: cannot read the chunks of %s\n", job.file);
        return 1;
    }
    worker workers[MAX_THREADS] = {0};
    (void)pthread_barrier_init(&start_line, NULL, (unsigned)job.threads);
    for (int i = 0; i < job.threads; i++) {
        workers[i].number = i;
        if (pthread_create(&workers[i].id, NULL, run, &workers[i]) != 0)
            return 1;
    }
    double rate = 0, cpu_ns = 0, rows = 0;
    for (int i = 0; i < job.threads; i++) {
        (void)pthread_join(workers[i].id, NULL);
        if (workers[i].failed) {
            fprintf(stderr, "bench_hdf5: %s failed\n", job.mode);
            return 1;
        }
        rate += (double)workers[i].bytes / (double)workers[i].ns;
        rows += (double)workers[i].bytes / (double)job.row_bytes;
        cpu_ns += (double)workers[i].cpu_ns;
    }
    printf("stage=%s threads=%d gb_per_s=%.4f rows_per_s=%.1f cpu_us_per_row=%.4f\n", job.mode, job.threads, rate,
           rate * 1e9 / (double)job.row_bytes, cpu_ns / 1000 / rows);
    return 0;
}
