/*
 * What is made of values when a batch is built, one thread: bits, one-hot, maps, n-grams, expressions, run on samples of one row each.
 *
 *     bench_encode [-s SAMPLES] [-n REPEATS] [-m MIB] [-c CASE]
 *
 * Beside each, in turn with it, ceilings for as many bytes of results at the same place: vector stores, the widest that the CPU has, and
 * memset. They differ where batches lie in the L3 cache: the processor's own string stores, which memset is there, write lines
 * without reading them first, which no loop that computes what it stores can. A line a case:
 *
 *     case=bits_packed ring_mib=… samples_per_s=… spread=… mbps=… store_mbps=… share=… memset_mbps=… share_of_memset=…
 *         read_store_mbps=… share_of_read_store=…
 *
 * The last two are vector stores of nothing that is computed too, but with the bytes of the rows read in between, as many a store as a
 * result takes; 0 where results are no whole multiple of the rows.
 *
 * Figures are medians of the repeats, shares those of the ratios of neighbours; spread is (largest − smallest) ÷ median. A repeat is as many
 * batches as take 20 ms of the thread's time; batches go round in MIB of results at least: 16, more than a core's own caches, or more
 * than the L3 cache. CASE is the beginning of the names of those wanted. Rows lie in memory in another order than samples take them.
 */
#include "base/clock.h"
#include "base/random.h"
#include "transform/transform.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_REPEATS = 1000, SLICE_NS = 20000000, CLOCK_BYTES = 1 << 20, MAX_COLUMNS = 4, TEXT_BYTES = 16 };

static void check(bool fine, const char *what)
{
    if (!fine) {
        (void)fprintf(stderr, "bench_encode: %s\n", what);
        exit(1);
    }
}

/** One output over samples that are made up. */
typedef struct encode_case {
    const char *name;
    fby_make make;
    uint32_t n_columns;
    fby_field field[MAX_COLUMNS];
    fby__make_column column[MAX_COLUMNS];
    uint8_t *data[MAX_COLUMNS]; /* of every sample, row_bytes apart */
    size_t row_bytes[MAX_COLUMNS];
    uint64_t count[MAX_COLUMNS]; /* bytes of a string */
} encode_case;

static size_t ring_bytes = 16 << 20;
static const char *wanted = "";

typedef struct encode_bench {
    uint64_t samples, n_batches;
    int repeats;
    uint8_t *results;
    size_t result_bytes;
    const fby__maker *maker;
    fby__make_job *jobs;  /* n_batches */
    const uint8_t **rows; /* of the first column */
    size_t row_bytes;
    uint8_t seen;
} encode_bench;

static uint64_t next(void)
{
    static fby__random r = {.key = 1};
    return fby__random_next(&r);
}

static void add_column(encode_case *c, fby__panel_kind kind, fby_kind meaning, fby_dtype dtype, uint32_t width, size_t row_bytes,
                       uint64_t samples)
{
    const uint32_t i = c->n_columns++;
    static const char *const NAMES[MAX_COLUMNS] = {"a", "b", "c", "d"};
    c->field[i] = (fby_field){.name = NAMES[i], .path = NAMES[i], .kind = meaning, .dtype = dtype};
    c->column[i] = (fby__make_column){.name = NAMES[i],
                                      .field = &c->field[i],
                                      .kind = kind,
                                      .width = width,
                                      .n_axes = width > 1,
                                      .axes = {width},
                                      .stored = dtype,
                                      .dtype = dtype};
    c->row_bytes[i] = row_bytes;
    c->count[i] = row_bytes;
    c->data[i] = malloc(samples * row_bytes);
    check(c->data[i] != NULL, "memory");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median; the figures are in order afterwards. */
static double middle(double *figures, int n)
{
    qsort(figures, (size_t)n, sizeof *figures, by_value);
    return figures[n / 2];
}

static void make_batch(encode_bench *b, uint64_t k)
{
    fby_error err;
    check(fby__maker_run(b->maker, &b->jobs[k], &err) == FBY_OK, "a job failed");
}

static void set_batch(encode_bench *b, uint64_t k)
{
    memset(b->results + k * b->samples * b->result_bytes, 1 + (int)(k & 1), b->samples * b->result_bytes);
}

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
store(uint8_t *to, size_t bytes, int value)
{
    typedef uint8_t line __attribute__((vector_size(64)));
    const line filled = (line){0} + (uint8_t)value;
    size_t at = 0;
    for (; at + sizeof filled <= bytes; at += sizeof filled)
        memcpy(to + at, &filled, sizeof filled);
    memcpy(to + at, &filled, bytes - at);
}

static void store_batch(encode_bench *b, uint64_t k)
{
    store(b->results + k * b->samples * b->result_bytes, b->samples * b->result_bytes, 1 + (int)(k & 1));
}

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static uint8_t
store_and_read(uint8_t *to, const uint8_t *from, size_t bytes, size_t times, int value)
{
    typedef uint8_t line __attribute__((vector_size(64)));
    const line filled = (line){0} + (uint8_t)value;
    line seen = filled, x;
    for (size_t at = 0; at + sizeof x <= bytes; at += sizeof x, to += times * sizeof x) {
        memcpy(&x, from + at, sizeof x);
        seen |= x;
        for (size_t k = 0; k < times; k++)
            memcpy(to + k * sizeof filled, &filled, sizeof filled);
    }
    return seen[0];
}

static void read_store_batch(encode_bench *b, uint64_t k)
{
    for (uint64_t s = 0; s < b->samples; s++) {
        for (size_t at = 0; s + 1 < b->samples && at < b->row_bytes; at += 64)
            __builtin_prefetch(b->rows[s + 1] + at);
        b->seen |= store_and_read(b->results + (k * b->samples + s) * b->result_bytes, b->rows[s], b->row_bytes,
                                  b->result_bytes / b->row_bytes, 1 + (int)(k & 1));
    }
}

/* Samples a second. */
static double rate_of(encode_bench *b, void (*call)(encode_bench *, uint64_t))
{
    const uint64_t begin = fby__thread_cpu_ns();
    uint64_t ns, batches = 0;
    do { /* the clock of a thread costs as much as a batch of a few kilobytes */
        for (uint64_t done = 0; done < CLOCK_BYTES; done += b->samples * b->result_bytes)
            call(b, batches++ % b->n_batches);
        ns = fby__thread_cpu_ns() - begin;
    } while (ns < SLICE_NS);
    return (double)(batches * b->samples) * 1e9 / (double)ns;
}

static void report(encode_case *c, uint64_t samples, int repeats)
{
    static double rate[MAX_REPEATS], store_rate[MAX_REPEATS], share[MAX_REPEATS], memset_rate[MAX_REPEATS], share_of_memset[MAX_REPEATS],
        read_rate[MAX_REPEATS], share_of_read[MAX_REPEATS];
    if (strncmp(c->name, wanted, strlen(wanted)) != 0)
        return;
    fby__make_spec spec = {
        .output = c->name, .make = &c->make, .columns = c->column, .n_columns = c->n_columns, .n_rows = 1, .max_rows = 1};
    fby__maker *maker = NULL;
    fby__made made;
    fby_error err;
    if (fby__maker_create(&spec, &maker, &made, &err) != FBY_OK)
        check(false, err.message);
    encode_bench b = {.samples = samples, .repeats = repeats, .maker = maker, .result_bytes = fby_dtype_bytes(made.dtype)};
    for (int32_t i = 0; i < made.ndim; i++)
        b.result_bytes *= (size_t)made.shape[i];
    b.n_batches = 1 + ring_bytes / (samples * b.result_bytes);
    const uint64_t total = b.n_batches * samples;
    b.results = map(total * b.result_bytes);
    b.jobs = calloc(b.n_batches, sizeof *b.jobs);
    uint64_t *n_rows = calloc(samples, sizeof *n_rows), *id = calloc(samples, sizeof *id);
    uint8_t **dst = calloc(total, sizeof *dst);
    const uint8_t **data = calloc(samples * MAX_COLUMNS, sizeof *data);
    uint64_t *count = calloc(samples * MAX_COLUMNS, sizeof *count);
    fby__make_view views[MAX_COLUMNS];
    fby__make_scratch scratch = {0};
    check(b.results && b.jobs && n_rows && id && dst && data && count, "memory");
    for (uint64_t s = 0; s < samples; s++) {
        n_rows[s] = 1;
        const uint64_t from = next() % samples; /* shuffled */
        for (uint32_t i = 0; i < c->n_columns; i++) {
            data[i * samples + s] = c->data[i] + from * c->row_bytes[i];
            count[i * samples + s] = c->count[i];
        }
    }
    for (uint32_t i = 0; i < c->n_columns; i++)
        views[i] = (fby__make_view){.data = data + i * samples,
                                    .count = c->column[i].kind == FBY__PANEL_DENSE ? NULL : count + i * samples,
                                    .row_bytes = c->row_bytes[i]};
    for (uint64_t s = 0; s < total; s++)
        dst[s] = b.results + s * b.result_bytes;
    for (uint64_t k = 0; k < b.n_batches; k++)
        b.jobs[k] =
            (fby__make_job){.n = samples, .n_rows = n_rows, .id = id, .views = views, .dst = dst + k * samples, .scratch = &scratch};
    b.rows = data;
    b.row_bytes = c->row_bytes[0];
    const bool reads = b.row_bytes % 64 == 0 && b.result_bytes % b.row_bytes == 0;
    (void)rate_of(&b, make_batch);
    for (int i = 0; i < repeats; i++) {
        rate[i] = rate_of(&b, make_batch);
        store_rate[i] = rate_of(&b, store_batch);
        memset_rate[i] = rate_of(&b, set_batch);
        share[i] = rate[i] / store_rate[i];
        share_of_memset[i] = rate[i] / memset_rate[i];
        read_rate[i] = reads ? rate_of(&b, read_store_batch) : 0;
        share_of_read[i] = reads ? rate[i] / read_rate[i] : 0;
    }
    const double mega = (double)b.result_bytes / 1e6, median = middle(rate, repeats);
    printf("case=%s ring_mib=%zu samples_per_s=%.0f spread=%.2f mbps=%.0f store_mbps=%.0f share=%.4f memset_mbps=%.0f share_of_memset=%.4f "
           "read_store_mbps=%.0f share_of_read_store=%.4f\n",
           c->name, ring_bytes >> 20, median, (rate[repeats - 1] - rate[0]) / median, median * mega, middle(store_rate, repeats) * mega,
           middle(share, repeats), middle(memset_rate, repeats) * mega, middle(share_of_memset, repeats), middle(read_rate, repeats) * mega,
           middle(share_of_read, repeats));
    check(!reads || b.seen != 0, "nothing was read");
    fby__maker_destroy(maker);
    fby__make_scratch_fini(&scratch);
    free(b.jobs);
    free(n_rows);
    free(id);
    free(dst);
    free((void *)data);
    free(count);
    for (uint32_t i = 0; i < c->n_columns; i++)
        free(c->data[i]);
}

/* ---- cases ---- */

static void bits(uint64_t samples, int repeats)
{
    static const struct {
        const char *name;
        fby_bits_encoding encoding;
        size_t row_bytes;
    } CASES[] = {{"bits_packed", FBY_BITS_PACKED, 128}, {"bits_text", FBY_BITS_TEXT, 1024}, {"bits_base64", FBY_BITS_BASE64, 172}};
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        encode_case c = {.name = CASES[k].name, .make = {.kind = FBY_MAKE_BITS, .bits = {.n_bits = 1024, .encoding = CASES[k].encoding}}};
        const size_t n = CASES[k].row_bytes;
        if (CASES[k].encoding == FBY_BITS_PACKED)
            add_column(&c, FBY__PANEL_DENSE, FBY_KIND_FIXED_BINARY, FBY_UINT8, (uint32_t)n, n, samples);
        else
            add_column(&c, FBY__PANEL_BYTES, FBY_KIND_STRING, FBY_UINT8, 1, n, samples);
        for (uint64_t i = 0; i < samples * n; i++)
            c.data[0][i] = (uint8_t)(CASES[k].encoding == FBY_BITS_PACKED ? next()
                                     : CASES[k].encoding == FBY_BITS_TEXT ? '0' + (next() & 1)
                                     : i % n == n - 1                     ? '='
                                                                          : 'a' + next() % 26);
        report(&c, samples, repeats);
    }
}

static void classes(uint64_t samples, int repeats)
{
    encode_case c = {.name = "one_hot_8", .make = {.kind = FBY_MAKE_ONE_HOT, .one_hot = {.n_classes = 8}}};
    add_column(&c, FBY__PANEL_DENSE, FBY_KIND_INT, FBY_INT16, 1, sizeof(int16_t), samples);
    for (uint64_t i = 0; i < samples; i++)
        ((int16_t *)(void *)c.data[0])[i] = (int16_t)(next() % 8);
    report(&c, samples, repeats);
}

static void maps(uint64_t samples, int repeats)
{
    enum { KEYS = 1000 };
    static char text[KEYS][TEXT_BYTES];
    static const char *texts[KEYS];
    static int64_t near[KEYS], far[KEYS];
    static double to[KEYS];
    for (int64_t i = 0; i < KEYS; i++) {
        (void)snprintf(text[i], sizeof text[i], "class %09d", (int)i);
        texts[i] = text[i];
        near[i] = i;
        far[i] = i * 1000003;
        to[i] = (double)(i % 7);
    }
    for (int k = 0; k < 3; k++) {
        encode_case c = {.name = k == 0   ? "map_near"
                                 : k == 1 ? "map_far"
                                          : "map_text",
                         .make = {.kind = FBY_MAKE_MAP, .map = {.to = to, .n = KEYS}}};
        c.make.map.texts = k == 2 ? texts : NULL;
        c.make.map.numbers = k == 0 ? near : k == 1 ? far : NULL;
        if (k == 2)
            add_column(&c, FBY__PANEL_BYTES, FBY_KIND_STRING, FBY_UINT8, 1, TEXT_BYTES - 1, samples);
        else
            add_column(&c, FBY__PANEL_DENSE, FBY_KIND_INT, FBY_INT64, 1, sizeof(int64_t), samples);
        for (uint64_t i = 0; i < samples; i++) {
            const uint64_t key = next() % KEYS;
            memcpy(c.data[0] + i * c.row_bytes[0], k == 2 ? (const void *)text[key] : k == 1 ? &far[key] : &near[key], c.row_bytes[0]);
        }
        report(&c, samples, repeats);
    }
}

/* First name, surname, date, town; 1,296 two-grams of letters and digits. */
static void grams(uint64_t samples, int repeats)
{
    static const char CHARS[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static char room[36 * 36][3];
    static const char *vocabulary[36 * 36];
    for (size_t i = 0; i < 36 * 36; i++) {
        room[i][0] = CHARS[i / 36];
        room[i][1] = CHARS[i % 36];
        vocabulary[i] = room[i];
    }
    encode_case c = {.name = "ngrams_4_columns",
                     .make = {.kind = FBY_MAKE_NGRAMS,
                              .ngrams = {.n = 2,
                                         .vocabulary = vocabulary,
                                         .n_vocabulary = 36 * 36,
                                         .lower = true,
                                         .strip = true,
                                         .delete_chars = "\" . /",
                                         .drop_spaces = true}}};
    static const size_t BYTES[MAX_COLUMNS] = {7, 9, 10, 8};
    for (size_t k = 0; k < MAX_COLUMNS; k++) {
        add_column(&c, FBY__PANEL_BYTES, FBY_KIND_STRING, FBY_UINT8, 1, BYTES[k], samples);
        for (uint64_t i = 0; i < samples * BYTES[k]; i++)
            c.data[k][i] =
                (uint8_t)(k == 2 ? (i % 10 == 4 || i % 10 == 7 ? '-' : '0' + next() % 10) : (i % BYTES[k] ? 'a' : 'A') + next() % 26);
    }
    report(&c, samples, repeats);
}

static void expressions(uint64_t samples, int repeats)
{
    encode_case c = {.name = "expression", .make = {.kind = FBY_MAKE_EXPRESSION, .expression = {.text = "(a - b) / (c + 1) * 2"}}};
    for (int k = 0; k < 3; k++) {
        add_column(&c, FBY__PANEL_DENSE, FBY_KIND_FLOAT, FBY_FLOAT32, 1, sizeof(float), samples);
        for (uint64_t i = 0; i < samples; i++)
            ((float *)(void *)c.data[k])[i] = (float)(next() % 1000);
    }
    report(&c, samples, repeats);
}

int main(int argc, char **argv)
{
    long samples = 512, repeats = 5, mib = 16;
    for (int option; (option = getopt(argc, argv, "s:n:m:c:")) != -1;) {
        if (option == '?')
            return 2;
        if (option == 'c')
            wanted = optarg;
        else
            *(option == 's' ? &samples : option == 'n' ? &repeats : &mib) = strtol(optarg, NULL, 10);
    }
    check(samples > 0 && samples <= 1 << 20 && repeats > 0 && repeats <= MAX_REPEATS && mib > 0 && mib <= 4096,
          "-s 1 … 1048576, -n 1 … 1000, -m 1 … 4096");
    ring_bytes = (size_t)mib << 20;
    bits((uint64_t)samples, (int)repeats);
    grams((uint64_t)samples, (int)repeats);
    classes((uint64_t)samples, (int)repeats);
    maps((uint64_t)samples, (int)repeats);
    expressions((uint64_t)samples, (int)repeats);
    return 0;
}
