/*
 * How fast are HDF5's filters undone? Each is timed on one thread with everything in memory, next to the bare call that does the
 * same work without Forebay: the library's decompressor, or memcpy where there is none.
 *
 *   bench_filter [-k chunk_KiB] [-n repeats]
 *
 * The chunk (256 KiB unless told: it stays in the second-level cache) holds a random walk in integers of the size that the filter
 * works on. One line of key=value pairs for each filter: median and best of the repeats, in MB of undone bytes a second, and the
 * share of the bare call that is reached. For a pipeline of codec and shuffle the bare call is the codec alone.
 */
#include "base/clock.h"
#include "base/random.h"
#include "codec/filter.h"

#include <blosc.h>
#include <libaec.h>
#include <libdeflate.h>
#include <lz4.h>
#include <lzf.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

enum { MAX_REPEATS = 1000, BITSHUFFLE_BLOCK_BYTES = 8192 };
static const uint64_t SLICE_NS = 4000000; /* of one repeat: many calls, so that the clock does not count */

typedef struct job {
    const char *name;
    fby__filter filters[2];
    uint32_t n_filters;
    uint32_t values[2][8];
    size_t n; /* undone bytes */
    uint8_t *plain, *stored, *out;
    size_t stored_n;
    void (*bare)(struct job *job);
    fby__filter_state *state;
    struct libdeflate_decompressor *inflate;
    ZSTD_DCtx *zstd;
} job;

static void check(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "bench_filter: %s\n", what);
    exit(1);
}

/* ---- encoders ---- */

static void walk(uint8_t *to, size_t n, size_t element)
{
    fby__random random = {.key = 7, .stream = element};
    int64_t value = 1000;
    for (size_t at = 0; at + element <= n; at += element) {
        value += (int64_t)fby__random_below(&random, 41) - 20;
        const int64_t words[2] = {value, 0};
        memcpy(to + at, words, element < sizeof words ? element : sizeof words);
    }
}

static void shuffle(const uint8_t *from, uint8_t *to, size_t n, size_t element)
{
    for (size_t k = 0; k < element; k++)
        for (size_t i = 0; i < n / element; i++)
            to[k * (n / element) + i] = from[i * element + k];
}

static void bit_shuffle(const uint8_t *from, uint8_t *to, size_t count, size_t element)
{
    memset(to, 0, count * element);
    for (size_t row = 0; row < 8 * element; row++)
        for (size_t i = 0; i < count; i++)
            to[row * (count / 8) + i / 8] |= (uint8_t)((from[i * element + row / 8] >> (row % 8) & 1) << (i % 8));
}

/* Blocks of bitshuffle, each compressed (codec 2 lz4, 3 zstd, with the header) or not (0). */
static size_t bitshuffle_encode(const job *j, size_t element, uint32_t codec)
{
    uint8_t block[BITSHUFFLE_BLOCK_BYTES], *to = j->stored;
    if (codec) {
        fby__store_u64(to, __builtin_bswap64(j->n));
        fby__store_u32(to + 8, __builtin_bswap32(sizeof block));
        to += 12;
    }
    for (size_t at = 0; at < j->n; at += sizeof block) {
        bit_shuffle(j->plain + at, codec ? block : to, sizeof block / element, element);
        if (!codec) {
            to += sizeof block;
            continue;
        }
        const int room = LZ4_COMPRESSBOUND(BITSHUFFLE_BLOCK_BYTES);
        const size_t n = codec == 2 ? (size_t)LZ4_compress_default((char *)block, (char *)to + 4, BITSHUFFLE_BLOCK_BYTES, room)
                                    : ZSTD_compress(to + 4, (size_t)room, block, sizeof block, 3);
        fby__store_u32(to, __builtin_bswap32((uint32_t)n));
        to += 4 + n;
    }
    return (size_t)(to - j->stored);
}

/* ---- bare calls ---- */

static void bare_copy(job *j) { memcpy(j->out, j->plain, j->n); }

static void bare_deflate(job *j)
{
    check(libdeflate_zlib_decompress(j->inflate, j->stored, j->stored_n, j->out, j->n, NULL) == LIBDEFLATE_SUCCESS, "libdeflate");
}

static void bare_lz4(job *j)
{
    check(LZ4_decompress_safe((char *)j->stored + 16, (char *)j->out, (int)(j->stored_n - 16), (int)j->n) == (int)j->n, "lz4");
}

static void bare_zstd(job *j) { check(ZSTD_decompressDCtx(j->zstd, j->out, j->n, j->stored, j->stored_n) == j->n, "zstd"); }

static void bare_lzf(job *j) { check(lzf_decompress(j->stored, (unsigned)j->stored_n, j->out, (unsigned)j->n) == j->n, "lzf"); }

static void bare_blosc(job *j) { check(blosc_decompress_ctx(j->stored, j->out, j->n, 1) == (int)j->n, "blosc"); }

static void bare_blocks(job *j)
{
    const uint8_t *p = j->stored + 12;
    for (size_t at = 0; at < j->n; at += BITSHUFFLE_BLOCK_BYTES) {
        const size_t stored = fby__load_be32(p);
        if (j->values[0][4] == 2)
            check(LZ4_decompress_safe((const char *)p + 4, (char *)j->out + at, (int)stored, BITSHUFFLE_BLOCK_BYTES) > 0, "lz4");
        else
            check(!ZSTD_isError(ZSTD_decompressDCtx(j->zstd, j->out + at, BITSHUFFLE_BLOCK_BYTES, p + 4, stored)), "zstd");
        p += 4 + stored;
    }
}

static struct aec_stream szip_stream(void)
{
    return (struct aec_stream){.bits_per_sample = 8, .block_size = 16, .rsi = 64, .flags = AEC_DATA_PREPROCESS};
}

static void bare_szip(job *j)
{
    struct aec_stream s = szip_stream();
    s.next_in = j->stored + 4;
    s.avail_in = j->stored_n - 4;
    s.next_out = j->out;
    s.avail_out = j->n;
    check(aec_buffer_decode(&s) == AEC_OK, "libaec");
}

/* ---- jobs ---- */

static void add_filter(job *j, uint16_t id, uint32_t n_values, const uint32_t *values)
{
    if (n_values)
        memcpy(j->values[j->n_filters], values, n_values * sizeof *values);
    j->filters[j->n_filters] = (fby__filter){.id = id, .n_values = n_values, .values = j->values[j->n_filters]};
    j->n_filters++;
}

static void encode_codec(job *j, uint16_t id, const uint8_t *from)
{
    const size_t room = 2 * j->n + 4096;
    switch (id) {
    case FBY__FILTER_DEFLATE: {
        struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
        check(c != NULL, "memory");
        j->stored_n = libdeflate_zlib_compress(c, from, j->n, j->stored, room);
        libdeflate_free_compressor(c);
        j->bare = bare_deflate;
        break;
    }
    case FBY__FILTER_LZ4:
        j->stored_n = (size_t)LZ4_compress_default((const char *)from, (char *)j->stored + 16, (int)j->n, (int)room - 16);
        fby__store_u64(j->stored, __builtin_bswap64(j->n));
        fby__store_u32(j->stored + 8, __builtin_bswap32((uint32_t)j->n));
        fby__store_u32(j->stored + 12, __builtin_bswap32((uint32_t)j->stored_n));
        j->stored_n += 16;
        j->bare = bare_lz4;
        break;
    case FBY__FILTER_ZSTD:
        j->stored_n = ZSTD_compress(j->stored, room, from, j->n, 3);
        j->bare = bare_zstd;
        break;
    case FBY__FILTER_LZF:
        j->stored_n = lzf_compress(from, (unsigned)j->n, j->stored, (unsigned)room);
        j->bare = bare_lzf;
        break;
    default:
        j->stored_n = (size_t)blosc_compress_ctx(5, BLOSC_SHUFFLE, 4, j->n, from, j->stored, room, "lz4", 0, 1);
        j->bare = bare_blosc;
        break;
    }
    check(j->stored_n > 0 && j->stored_n < room, "the chunk cannot be encoded");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void undo(job *j)
{
    fby_error err;
    if (fby__filters_undo(j->state, j->filters, j->n_filters, 0, true, (fby__bytes){j->stored, j->stored_n}, j->out, j->n, &err) != FBY_OK)
        check(false, err.message);
}

/* Rates of the repeats, sorted. */
static void measure(job *j, void (*call)(job *), int repeats, double *mbps)
{
    call(j);
    for (int i = 0; i < repeats; i++) {
        const uint64_t begin = fby__now_ns();
        uint64_t ns, calls = 0;
        do {
            call(j);
            __asm__ volatile("" ::: "memory");
            calls++;
            ns = fby__now_ns() - begin;
        } while (ns < SLICE_NS);
        mbps[i] = (double)(calls * j->n) * 1e3 / (double)ns;
    }
    qsort(mbps, (size_t)repeats, sizeof *mbps, by_value);
}

static void report(job *j, int repeats)
{
    static double filter[MAX_REPEATS], bare[MAX_REPEATS];
    measure(j, j->bare, repeats, bare);
    measure(j, undo, repeats, filter);
    check(memcmp(j->out, j->plain, j->n) == 0, "other bytes came out");
    const double median = filter[repeats / 2], bare_median = bare[repeats / 2];
    printf("filter=%s bytes=%zu stored=%zu mbps=%.0f best_mbps=%.0f bare_mbps=%.0f share=%.2f\n", j->name, j->n, j->stored_n, median,
           filter[repeats - 1], bare_median, median / bare_median);
    j->n_filters = 0;
}

int main(int argc, char **argv)
{
    long kib = 256, repeats = 51;
    for (int option; (option = getopt(argc, argv, "k:n:")) != -1;) {
        if (option != 'k' && option != 'n')
            return 2;
        *(option == 'k' ? &kib : &repeats) = strtol(optarg, NULL, 10);
    }
    check(kib >= 8 && kib <= 1 << 20 && kib % 8 == 0 && repeats > 0 && repeats <= MAX_REPEATS, "-k a multiple of 8, -n 1 … 1000");
    fby__filter_state state = {0};
    job j = {.n = (size_t)kib << 10, .state = &state, .inflate = libdeflate_alloc_decompressor(), .zstd = ZSTD_createDCtx()};
    uint8_t *shuffled = malloc(j.n);
    j.plain = calloc(j.n, 1);
    j.stored = malloc(2 * j.n + 8192);
    j.out = malloc(j.n);
    check(j.plain && j.stored && j.out && shuffled && j.inflate && j.zstd, "memory");
    char name[64];
    j.name = name;

    static const uint32_t ELEMENTS[] = {2, 3, 4, 8, 12, 16};
    for (size_t i = 0; i < sizeof ELEMENTS / sizeof ELEMENTS[0]; i++) {
        walk(j.plain, j.n, ELEMENTS[i]);
        const size_t whole = j.n - j.n % ELEMENTS[i];
        memcpy(j.stored, j.plain, j.n);
        shuffle(j.plain, j.stored, whole, ELEMENTS[i]);
        j.stored_n = j.n;
        j.bare = bare_copy;
        add_filter(&j, FBY__FILTER_SHUFFLE, 1, &ELEMENTS[i]);
        (void)snprintf(name, sizeof name, "shuffle_%u", ELEMENTS[i]);
        report(&j, (int)repeats);
    }
    for (uint32_t element = 1; element <= 16; element *= 2)
        for (uint32_t codec = 0; codec <= 3; codec += codec ? 1 : 2) {
            const uint32_t values[] = {0, 4, element, 0, codec};
            static const char *const NAME[] = {"none", "", "lz4", "zstd"};
            walk(j.plain, j.n, element);
            j.stored_n = bitshuffle_encode(&j, element, codec);
            j.bare = codec ? bare_blocks : bare_copy;
            add_filter(&j, FBY__FILTER_BITSHUFFLE, 5, values);
            (void)snprintf(name, sizeof name, "bitshuffle_%s_%u", NAME[codec], element);
            report(&j, (int)repeats);
        }
    const uint32_t four = 4;
    walk(j.plain, j.n, four);
    shuffle(j.plain, shuffled, j.n, four);
    static const uint16_t CODECS[] = {FBY__FILTER_DEFLATE, FBY__FILTER_LZ4, FBY__FILTER_ZSTD, FBY__FILTER_LZF, FBY__FILTER_BLOSC};
    for (size_t i = 0; i < sizeof CODECS / sizeof CODECS[0]; i++)
        for (int with_shuffle = 0; with_shuffle < (CODECS[i] == FBY__FILTER_BLOSC ? 1 : 2); with_shuffle++) {
            encode_codec(&j, CODECS[i], with_shuffle ? shuffled : j.plain);
            if (with_shuffle)
                add_filter(&j, FBY__FILTER_SHUFFLE, 1, &four);
            add_filter(&j, CODECS[i], 0, NULL);
            (void)snprintf(name, sizeof name, "%s%s", with_shuffle ? "shuffle_4+" : "", fby__filter_name(CODECS[i]));
            report(&j, (int)repeats);
        }
    /* 32-bit pixels are coded as shuffled bytes. */
    const uint32_t szip[] = {32, 16, 32, 1024};
    struct aec_stream s = szip_stream();
    s.next_in = shuffled;
    s.avail_in = j.n;
    s.next_out = j.stored + 4;
    s.avail_out = 2 * j.n;
    check(aec_buffer_encode(&s) == AEC_OK, "libaec");
    fby__store_u32(j.stored, (uint32_t)j.n);
    j.stored_n = 4 + s.total_out;
    j.bare = bare_szip;
    add_filter(&j, FBY__FILTER_SZIP, 4, szip);
    (void)snprintf(name, sizeof name, "szip_32");
    report(&j, (int)repeats);

    /* Zeros: their sum is known. */
    memset(j.plain, 0, j.n);
    memset(j.stored, 0, j.n + 4);
    j.stored_n = j.n + 4;
    j.bare = bare_copy;
    add_filter(&j, FBY__FILTER_FLETCHER32, 0, NULL);
    (void)snprintf(name, sizeof name, "fletcher32");
    report(&j, (int)repeats);

    libdeflate_free_decompressor(j.inflate);
    (void)ZSTD_freeDCtx(j.zstd); /* documented to return 0 */
    fby__filter_state_fini(&state);
    free(j.plain);
    free(j.stored);
    free(j.out);
    free(shuffled);
    return 0;
}
