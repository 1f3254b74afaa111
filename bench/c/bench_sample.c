/*
 * What is made of a sample as a whole, beside the least that its bytes cost. One core, everything in memory, one line a measurement.
 *
 *   bench_sample symmetric [P] [E]    matrices of P × P × E float32 from stored triangles; the ceiling is memset of the matrices and memcpy
 *                                     of as many bytes as have a value, and, stricter, one memcpy of whole matrices
 *   bench_sample group_channels                 512 groups of pulses (median 60, a heavy tail), 128 subgroups, 5 first rows of 3 features
 *   bench_sample window [stored]      512 windows of 365 rows of 15 float32 and 7 of one column, of the `stored` columns of a panel's rows (15);
 *                                     beside memcpy of as many bytes, from the same places to the same batches
 *   bench_sample augment [frames] [float16]   5,632 × 32 × frames float32, made of float16 if so, with a time mask and a frequency mask;
 *                                     beside the same without masks
 *
 * Destinations are batches out of four used in turn, as a loader's are. CPU time of the thread, medians of 31 runs
 * in turn with the ceiling's.
 */
#include "memory.h"

#include "base/clock.h"
#include "base/random.h"
#include "batch/batch.h"
#include "transform/transform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 31, BUFFERS = 4, BATCH_BYTES = 4 << 20 }; /* all buffers: more than a core's own caches */

static uint8_t *need(size_t bytes)
{
    uint8_t *p = map(bytes);
    if (!p) {
        (void)fprintf(stderr, "no memory\n");
        exit(1);
    }
    return p;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef void work_fn(void *context, int buffer);

static double seconds_of(work_fn *work, void *context, int buffer)
{
    const uint64_t begin = fby__thread_cpu_ns();
    work(context, buffer);
    return (double)(fby__thread_cpu_ns() - begin) * 1e-9;
}

static double median(double *x)
{
    qsort(x, RUNS, sizeof *x, by_value);
    return x[RUNS / 2];
}

/*
 * Work beside a ceiling, in turn, each in a buffer that the other filled two turns ago. Median seconds of both; the share, of the ceiling's
 * speed, is the median of neighbours'.
 */
typedef struct beside {
    double work, ceiling, share;
} beside;

static beside measure(work_fn *work, work_fn *ceiling, void *context)
{
    double ours[RUNS], theirs[RUNS], share[RUNS];
    for (int i = -2; i < RUNS; i++) {
        const double a = seconds_of(work, context, (i + 2) % BUFFERS), b = seconds_of(ceiling, context, (i + 2 + BUFFERS / 2) % BUFFERS);
        if (i >= 0)
            ours[i] = a, theirs[i] = b, share[i] = b / a;
    }
    return (beside){median(ours), median(theirs), median(share)};
}

/* A maker over some samples. */
typedef struct job {
    fby__maker *maker;
    fby__make_job job;
    uint8_t **dst[BUFFERS];
    /* for the ceilings */
    const uint8_t *source;
    uint8_t *out[BUFFERS];
    size_t bytes, each;
    const uint64_t *points;
} job;

static void run_maker(void *context, int buffer)
{
    job *j = context;
    fby_error err;
    j->job.dst = j->dst[buffer];
    if (fby__maker_run(j->maker, &j->job, &err) != FBY_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
}

static fby__maker *create(fby_make *make, fby__make_column *columns, uint32_t n_columns, uint64_t max_rows)
{
    static fby_field field = {.name = "x", .path = "x"};
    fby__make_spec spec = {
        .output = "out", .make = make, .columns = columns, .n_columns = n_columns, .max_rows = max_rows, .n_rows = max_rows};
    for (uint32_t i = 0; i < n_columns; i++)
        columns[i].field = &field;
    fby__maker *maker = NULL;
    fby__made made;
    fby_error err;
    if (fby__maker_create(&spec, &maker, &made, &err) != FBY_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return maker;
}

/* ---- symmetric ---- */

static void zero_and_copy(void *context, int buffer)
{
    job *j = context;
    for (uint64_t i = 0; i < j->job.n; i++) {
        const size_t filled = j->points[i] * (j->points[i] - 1) / 2 * j->each;
        memset(j->dst[buffer][i], 0, j->bytes);
        memcpy(j->dst[buffer][i], j->source + i * (j->bytes / 2), filled);
        memcpy(j->dst[buffer][i] + filled, j->source + i * (j->bytes / 2), filled);
    }
}

static void copy_whole(void *context, int buffer)
{
    job *j = context;
    memcpy(j->out[buffer], j->source, j->job.n * j->bytes);
}

static void symmetric(size_t size, size_t features)
{
    const size_t each = features * sizeof(float), pairs = size * (size - 1) / 2, bytes = size * size * each;
    const size_t n = bytes * 64 < BATCH_BYTES ? BATCH_BYTES / bytes : 64;
    fby_make make = {.kind = FBY_MAKE_SYMMETRIC, .symmetric = {.size = size}};
    fby__make_column columns[2] = {{.name = "edges",
                                    .width = (uint32_t)(pairs * features),
                                    .n_axes = 2,
                                    .axes = {(int64_t)pairs, (int64_t)features},
                                    .stored = FBY_FLOAT32,
                                    .dtype = FBY_FLOAT32},
                                   {.name = "n", .width = 1, .stored = FBY_INT32, .dtype = FBY_INT32}};
    job j = {.maker = create(&make, columns, 2, 1), .bytes = bytes, .each = each};
    uint8_t *source = need(n * bytes); /* more than there is, for the copy of whole matrices */
    uint64_t *one = (uint64_t *)(void *)need(n * 8), *points = (uint64_t *)(void *)need(n * 8);
    const uint8_t **from = (const uint8_t **)(void *)need(n * 8), **counts = (const uint8_t **)(void *)need(n * 8);
    for (int b = 0; b < BUFFERS; b++) {
        j.out[b] = need(n * bytes);
        j.dst[b] = (uint8_t **)(void *)need(n * 8);
    }
    const char *const names[2] = {"all_points", "half_to_all"};
    for (int mixed = 0; mixed < 2; mixed++) {
        fby__random r = {.key = 1};
        for (size_t i = 0; i < n; i++) {
            one[i] = 1;
            points[i] = mixed ? size / 2 + fby__random_below(&r, size / 2 + 1) : size;
            from[i] = source + i * (bytes / 2);
            counts[i] = (const uint8_t *)&points[i];
            for (int b = 0; b < BUFFERS; b++)
                j.dst[b][i] = j.out[b] + i * bytes;
        }
        const fby__make_view views[2] = {{.data = from}, {.data = counts}};
        j.job = (fby__make_job){.n = n, .n_rows = one, .id = one, .views = views};
        j.source = source;
        j.points = points;
        const beside parts = measure(run_maker, zero_and_copy, &j), whole = measure(run_maker, copy_whole, &j);
        const double gb = (double)(n * bytes) / 1e9;
        (void)printf("bench=symmetric size=%zu features=%zu points=%s made_gbps=%.2f memset_and_copy_gbps=%.2f memcpy_gbps=%.2f share=%.2f "
                     "share_of_memcpy=%.2f\n",
                     size, features, names[mixed], gb / parts.work, gb / parts.ceiling, gb / whole.ceiling, parts.share, whole.share);
    }
}

/* ---- group_channels ---- */

static void group_channels(void)
{
    enum { N = 512, D = 128, K = 5, FEATURES = 3, CHANNELS = 1 + K * FEATURES + 3 };
    static const fby_channel channels[] = {{FBY_CHANNEL_COUNT, 0},      {FBY_CHANNEL_FIRST_ROWS, 0}, {FBY_CHANNEL_FIRST_ROWS, 1},
                                           {FBY_CHANNEL_FIRST_ROWS, 2}, {FBY_CHANNEL_MIN, 0},        {FBY_CHANNEL_SUM, 1},
                                           {FBY_CHANNEL_STD, 0}};
    fby_make make = {
        .kind = FBY_MAKE_GROUP_CHANNELS,
        .group_channels = {.channels = channels, .n_channels = sizeof channels / sizeof *channels, .n_rows = K, .max_groups = D}};
    fby__make_column columns[2 + FEATURES];
    for (int c = 0; c < 2 + FEATURES; c++)
        columns[c] = (fby__make_column){.name = "x",
                                        .width = 1,
                                        .stored = c < 2 ? FBY_INT64 : FBY_FLOAT32,
                                        .dtype = c < 2 ? FBY_INT64 : FBY_FLOAT32,
                                        .computed = c >= 2};
    static uint64_t n_rows[N];
    uint64_t total = 0;
    fby__random r = {.key = 2};
    for (int i = 0; i < N; i++) { /* log-normal around 60, by the sum of twelve uniform numbers */
        double z = -6;
        for (int k = 0; k < 12; k++)
            z += (double)fby__random_below(&r, 1 << 20) / (1 << 20);
        n_rows[i] = (uint64_t)fmax(5, 60 * exp(1.1 * z));
        total += n_rows[i];
    }
    int64_t *key = (int64_t *)(void *)need(total * 8), *order = (int64_t *)(void *)need(total * 8);
    float *values = (float *)(void *)need(total * FEATURES * sizeof(float));
    static const uint8_t *at[2 + FEATURES][N];
    job j = {.maker = create(&make, columns, 2 + FEATURES, 0)};
    for (int b = 0; b < BUFFERS; b++) {
        j.out[b] = need((size_t)N * D * CHANNELS * sizeof(float));
        j.dst[b] = (uint8_t **)(void *)need(N * 8);
    }
    const char *const names[2] = {"sorted", "unsorted"};
    for (int unsorted = 0; unsorted < 2; unsorted++) {
        uint64_t row = 0;
        for (int i = 0; i < N; i++) {
            for (int c = 0; c < 2; c++)
                at[c][i] = (const uint8_t *)((c ? order : key) + row);
            for (int f = 0; f < FEATURES; f++)
                at[2 + f][i] = (const uint8_t *)(values + row * FEATURES + f);
            for (int b = 0; b < BUFFERS; b++)
                j.dst[b][i] = j.out[b] + (size_t)i * D * CHANNELS * sizeof(float);
            uint64_t sensors = 1 + n_rows[i] / 3;
            for (uint64_t k = 0, time = 9000; k < n_rows[i]; k++, row++) {
                key[row] = (int64_t)(fby__random_below(&r, sensors < 5160 ? sensors : 5160) * 7 % 5160);
                time += fby__random_below(&r, 30);
                order[row] = (int64_t)(unsorted ? 9000 + fby__random_below(&r, 6000) : time);
                for (int f = 0; f < FEATURES; f++)
                    values[row * FEATURES + (size_t)f] = (float)fby__random_below(&r, 1000) / 500;
            }
        }
        fby__make_scratch scratch = {0};
        fby__make_view views[2 + FEATURES];
        for (int c = 0; c < 2 + FEATURES; c++)
            views[c] = (fby__make_view){.data = at[c], .row_bytes = c < 2 ? 8 : FEATURES * sizeof(float)};
        j.job = (fby__make_job){.n = N, .n_rows = n_rows, .id = n_rows, .views = views, .scratch = &scratch};
        const double made = measure(run_maker, run_maker, &j).work;
        (void)printf("bench=group_channels rows=%s groups=%d pulses=%llu groups_per_s=%.0f ns_per_pulse=%.1f out_gbps=%.2f\n",
                     names[unsorted], N, (unsigned long long)total, N / made, made * 1e9 / (double)total,
                     (double)N * D * CHANNELS * 4 / made / 1e9);
        fby__make_scratch_fini(&scratch);
    }
}

/* ---- SpecAugment ---- */

enum { BATCH = 5632, MIN_BATCHES = 64 };

/* Cells in a shuffled order, each batch the next of them: the loader's last copy without masks, and with them. */
typedef struct augment_job {
    const uint8_t **row;
    uint64_t *id, n_batches, next; /* of each; the batch to come */
    size_t elements;
    fby_dtype stored; /* float32 is made of it */
    fby__afters *afters;
    uint8_t *out[BUFFERS];
} augment_job;

static void gather_some(augment_job *j, const uint8_t *const *row, uint64_t n, uint8_t *dst)
{
    size_t bad;
    if (j->stored == FBY_FLOAT32)
        fby__gather_rows(dst, &(fby__rows){.at = row, .n = n}, 0, j->elements * sizeof(float));
    else
        (void)fby__gather_convert(FBY_FLOAT32, dst, j->stored, &(fby__rows){.at = row, .n = n}, 0, j->elements,
                                  &bad); /* every value fits */
}

static void gather(void *context, int buffer)
{
    augment_job *j = context;
    gather_some(j, j->row + j->next++ % j->n_batches * BATCH, BATCH, j->out[buffer]);
}

/* Some samples at a time, as a loader does: they are still in the cache when they are masked. */
static void gather_and_augment(void *context, int buffer)
{
    augment_job *j = context;
    const size_t each = j->elements * sizeof(float), first = j->next++ % j->n_batches * BATCH;
    const uint8_t *const *row = j->row + first;
    const uint64_t *id = j->id + first;
    uint8_t *out = j->out[buffer];
    fby_error err;
    const uint64_t at_once = 196608 / each + 1;
    for (uint64_t i = 0; i < BATCH; i += at_once) {
        const uint64_t n = BATCH - i < at_once ? BATCH - i : at_once;
        gather_some(j, row + i, n, out + i * each);
        (void)fby__afters_run(j->afters, out + i * each, n, id + i, 1, NULL, &err); /* masks need no memory */
    }
}

static void augment(int64_t frames, fby_dtype stored)
{
    const uint32_t max_time = frames < 8 ? (uint32_t)frames : 8;
    const fby_after after = {.kind = FBY_AFTER_SPEC_AUGMENT,
                             .spec_augment = {.n_time = 1, .max_time = max_time, .n_freq = 1, .max_freq = 4}};
    fby__made made = {.of_sample = true, .dtype = FBY_FLOAT32, .ndim = 3, .shape = {1, 32, frames}};
    fby_error err;
    const size_t elements = 32 * (size_t)frames, each = elements * fby_dtype_bytes(stored);
    const uint64_t n_batches = MIN_BATCHES / (uint64_t)frames > 4 ? MIN_BATCHES / (uint64_t)frames : 4, cells = n_batches * BATCH;
    augment_job j = {.n_batches = n_batches, .elements = elements, .stored = stored};
    const uint8_t *panel = need(cells * each);
    if (fby__afters_create(&after, 1, "out", &made, 0, &j.afters, &err) != FBY_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    j.id = (uint64_t *)(void *)need(cells * sizeof *j.id);
    j.row = (const uint8_t **)(void *)need(cells * sizeof *j.row);
    fby__random r = {.key = 3};
    for (uint64_t i = 0; i < cells; i++) { /* a permutation, from the inside out */
        const uint64_t k = fby__random_below(&r, i + 1);
        j.id[i] = j.id[k];
        j.id[k] = i;
    }
    for (uint64_t i = 0; i < cells; i++)
        j.row[i] = panel + j.id[i] * each;
    for (int b = 0; b < BUFFERS; b++)
        j.out[b] = need(BATCH * elements * sizeof(float));
    const beside m = measure(gather_and_augment, gather, &j);
    (void)printf("bench=augment frames=%lld stored=%s samples_per_s=%.0f gather_samples_per_s=%.0f ns=%.2f ns_added=%.2f added=%.3f\n",
                 (long long)frames, fby_dtype_name(stored), BATCH / m.work, BATCH / m.ceiling, m.work * 1e9 / BATCH,
                 (m.work - m.ceiling) * 1e9 / BATCH, 1 / m.share - 1);
}

/* ---- windows ---- */

enum { WINDOWS = 512, INPUT_STEPS = 365, TARGET_STEPS = 7, INPUTS = 15 };

typedef struct window_job {
    const uint8_t *inputs[WINDOWS], *targets[WINDOWS]; /* where windows begin in the panels */
    size_t stored_bytes;                               /* of a row of the inputs' panel */
    uint8_t *out[BUFFERS];
    float sum;
} window_job;

static const size_t INPUT_BYTES = INPUT_STEPS * INPUTS * sizeof(float), TARGET_BYTES = TARGET_STEPS * sizeof(float);

/* What the loader does where an output takes whole rows of a panel, and where it takes some of their columns. */
static void assemble_windows(void *context, int buffer)
{
    window_job *j = context;
    if (j->stored_bytes == INPUTS * sizeof(float))
        fby__gather_rows(j->out[buffer], &(fby__rows){.at = j->inputs, .n = WINDOWS}, 0, INPUT_BYTES);
    else
        fby__gather_steps(j->out[buffer], j->inputs,
                          &(fby__steps){.step_bytes = INPUTS * sizeof(float), .row_bytes = j->stored_bytes, .n_steps = INPUT_STEPS},
                          WINDOWS);
    fby__gather_rows(j->out[buffer] + WINDOWS * INPUT_BYTES, &(fby__rows){.at = j->targets, .n = WINDOWS}, 0, TARGET_BYTES);
}

static void copy_windows(void *context, int buffer)
{
    window_job *j = context;
    for (size_t i = 0; i < WINDOWS; i++)
        memcpy(j->out[buffer] + i * INPUT_BYTES, j->inputs[i], INPUT_BYTES);
    for (size_t i = 0; i < WINDOWS; i++)
        memcpy(j->out[buffer] + WINDOWS * INPUT_BYTES + i * TARGET_BYTES, j->targets[i], TARGET_BYTES);
}

/* A consumer that reads each batch once. */
static void read_batch(window_job *j, int buffer)
{
    const float *x = (const float *)(const void *)j->out[buffer];
    float sums[16] = {0};
    for (size_t i = 0; i + 16 <= WINDOWS * INPUT_BYTES / sizeof *x; i += 16)
        for (size_t k = 0; k < 16; k++)
            sums[k] += x[i + k];
    j->sum += sums[0];
}

static void assemble_and_read(void *context, int buffer)
{
    assemble_windows(context, buffer);
    read_batch(context, buffer);
}

static void copy_and_read(void *context, int buffer)
{
    copy_windows(context, buffer);
    read_batch(context, buffer);
}

static void window(size_t stored)
{
    enum { ROWS = 1 << 20 }; /* 60 MB of inputs: more than the caches */
    window_job j = {.stored_bytes = stored * sizeof(float)};
    const uint8_t *inputs = need(ROWS * j.stored_bytes), *targets = need(ROWS * sizeof(float));
    fby__random r = {.key = 4};
    for (size_t i = 0; i < WINDOWS; i++) {
        const uint64_t row = fby__random_below(&r, ROWS - INPUT_STEPS - TARGET_STEPS);
        j.inputs[i] = inputs + row * j.stored_bytes;
        j.targets[i] = targets + (row + INPUT_STEPS) * sizeof(float);
    }
    for (int b = 0; b < BUFFERS; b++)
        j.out[b] = need(WINDOWS * (INPUT_BYTES + TARGET_BYTES));
    const beside alone = measure(assemble_windows, copy_windows, &j), read = measure(assemble_and_read, copy_and_read, &j);
    const double gb = WINDOWS * (double)(INPUT_BYTES + TARGET_BYTES) / 1e9;
    (void)printf("bench=window stored=%zu windows_per_s=%.0f made_gbps=%.2f memcpy_gbps=%.2f share=%.2f share_when_read_next=%.2f\n",
                 stored, WINDOWS / alone.work, gb / alone.work, gb / alone.ceiling, alone.share, read.share);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "symmetric") == 0)
        symmetric(argc > 2 ? strtoul(argv[2], NULL, 10) : 128, argc > 3 ? strtoul(argv[3], NULL, 10) : 4);
    else if (strcmp(what, "group_channels") == 0)
        group_channels();
    else if (strcmp(what, "window") == 0)
        window(argc > 2 ? strtoul(argv[2], NULL, 10) : INPUTS);
    else if (strcmp(what, "augment") == 0)
        augment(argc > 2 ? strtol(argv[2], NULL, 10) : 1, argc > 3 && strcmp(argv[3], "float16") == 0 ? FBY_FLOAT16 : FBY_FLOAT32);
    else
        return (void)fprintf(stderr,
                             "usage: bench_sample symmetric [P] [E] | group_channels | window [stored] | augment [frames] [float16]\n"),
               2;
    return 0;
}
