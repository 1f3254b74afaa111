/*
 * A reference for --save and --against: work of a loader's kind that never changes. Each unit unpacks a block of 12-bit indices, looks them
 * up in a dictionary, and gathers random rows of a table that no cache of a core holds.
 *
 * On a machine that does other things too it becomes slower when a loader does. Changing it makes what was saved worthless: SCHEMA in
 * bench_against.c then changes as well.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    VALUES = 65536, /* of a block */
    ENTRIES = 4096, /* of the dictionary: 12 bits */
    PACKED_BYTES = VALUES / 2 * 3,
    N_PACKED = 16, /* blocks */
    WIDTH = 64,    /* floats a row */
    ROWS = 131072, /* of the table: 32 MiB */
    BATCH_ROWS = VALUES / WIDTH
};

struct bench_reference {
    size_t n_threads;
    uint8_t *packed; /* N_PACKED blocks; owned, as all here */
    float *dictionary, *table;
    atomic_bool stop;
    atomic_uint_fast64_t units; /* relaxed: a count, read when the threads have ended */
};

/** The next number of a sequence (Steele's SplitMix64). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

bench_reference *bench_reference_create(size_t n_threads)
{
    bench_reference *r = cli_alloc(sizeof *r);
    uint64_t state = 1;
    r->n_threads = n_threads;
    r->packed = cli_alloc((size_t)N_PACKED * PACKED_BYTES);
    r->dictionary = cli_alloc(ENTRIES * sizeof *r->dictionary);
    r->table = cli_alloc((size_t)ROWS * WIDTH * sizeof *r->table);
    for (size_t i = 0; i < (size_t)N_PACKED * PACKED_BYTES; i++)
        r->packed[i] = (uint8_t)next_random(&state);
    for (size_t i = 0; i < ENTRIES; i++)
        r->dictionary[i] = (float)i;
    for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++)
        r->table[i] = (float)(i % 1024);
    return r;
}

void bench_reference_destroy(bench_reference *r)
{
    if (!r)
        return;
    free(r->packed);
    free(r->dictionary);
    free(r->table);
    free(r);
}

static void decode(const bench_reference *r, size_t block, float *out)
{
    const uint8_t *in = r->packed + block * PACKED_BYTES;
    for (size_t i = 0; i < VALUES; i += 2, in += 3) {
        out[i] = r->dictionary[(uint32_t)in[0] | (uint32_t)(in[1] & 15) << 8];
        out[i + 1] = r->dictionary[(uint32_t)in[1] >> 4 | (uint32_t)in[2] << 4];
    }
}

static void gather(const bench_reference *r, uint64_t *state, float *out)
{
    for (size_t i = 0; i < BATCH_ROWS; i++)
        memcpy(out + i * WIDTH, r->table + (next_random(state) % ROWS) * WIDTH, WIDTH * sizeof *out);
}

static void *work(void *arg)
{
    bench_reference *r = arg;
    float *block = cli_alloc(2 * VALUES * sizeof *block);
    uint64_t state = 2, n = 0;
    while (!atomic_load_explicit(&r->stop, memory_order_relaxed)) {
        decode(r, n % N_PACKED, block);
        gather(r, &state, block + VALUES);
        n++;
    }
    volatile float kept = block[state % (2 * VALUES)]; /* what nobody reads, nobody need compute */
    (void)kept;
    atomic_fetch_add_explicit(&r->units, n, memory_order_relaxed);
    free(block);
    return NULL;
}

bench_pace bench_reference_run(bench_reference *r, double seconds)
{
    pthread_t *threads = cli_alloc(r->n_threads * sizeof *threads);
    size_t started = 0;
    atomic_store(&r->stop, false);
    atomic_store(&r->units, 0);
    const double begin = cli_now(), cpu = bench_cpu_seconds();
    while (started < r->n_threads && pthread_create(&threads[started], NULL, work, r) == 0)
        started++;
    const struct timespec rest = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    (void)nanosleep(&rest, NULL); /* Ctrl-C ends it early: the time is measured */
    atomic_store(&r->stop, true);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL); /* they exist, and end */
    const double elapsed = cli_now() - begin, used = bench_cpu_seconds() - cpu, units = (double)atomic_load(&r->units);
    free(threads);
    return started == r->n_threads && used > 0 ? (bench_pace){units / elapsed, units / used} : (bench_pace){0};
}
