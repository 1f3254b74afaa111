/*
 * Pages larger than metadata say, at budgets from the stated minimum up, on several threads: every row comes, or the block is refused by name;
 * nothing goes beyond the account, and what came once comes always. Batches of long groups, whose sizes are known, come at the minimum.
 */
#include "support/arrow_build.h"
#include "support/loader_fixture.h"

#include "loader/internal.h"
#include "write/write.h"

#define MIB ((uint64_t)1 << 20)
#ifdef SANITIZED
enum { N_MORE = 1 };
#else
enum { N_MORE = 3 };
#endif
enum { GROUPS = 3, ROWS = 200000, N_ROWS = ROWS * GROUPS }; /* pages of 12 MB */

/* Rows so wide that large pages have few of them; those of 64 bytes go straight to batches. */
enum { N_COLUMNS = 2 };
static const struct column {
    const char *name, *format;
    size_t bytes;
} COLUMNS[N_COLUMNS] = {{"narrow", "w:60", 60}, {"wide", "w:64", 64}};

static fby_status to_file(void *ctx, const void *bytes, size_t n, fby_error *err)
{
    (void)err;
    return fwrite(bytes, 1, n, ctx) == n ? FBY_OK : FBY_E_IO;
}

typedef struct writing {
    FILE *file;
    fby__writer *w;
} writing;

/* Takes the schema. */
static writing begin_file(const char *path, struct ArrowSchema *schema)
{
    writing to = {.file = fopen(path, "wb")};
    fby_error err;
    const fby__write_options options = {.codec = "zstd", .page_bytes = 64 * MIB};
    assert_non_null(to.file);
    assert_int_equal(fby__writer_begin(FBY__WRITE_PARQUET, schema, &options, (fby__byte_sink){to_file, to.file}, &to.w, &err), FBY_OK);
    schema->release(schema);
    return to;
}

/* A row group. Takes the batch. */
static void put_batch(writing *to, struct ArrowArray *batch)
{
    fby_error err;
    assert_int_equal(fby__writer_batch(to->w, batch, &err), FBY_OK);
    batch->release(batch);
}

static void end_file(writing *to)
{
    fby_error err;
    assert_int_equal(fby__writer_end(to->w, NULL, 0, &err), FBY_OK);
    fby__writer_free(to->w);
    assert_int_equal(fclose(to->file), 0);
}

static struct ArrowArray numbers(uint32_t first, size_t bytes)
{
    uint8_t *values = calloc(ROWS, bytes);
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint32_t row = first + i;
        memcpy(values + i * bytes, &row, sizeof row);
        memcpy(values + (i + 1) * bytes - sizeof row, &row, sizeof row);
    }
    return arrow_numbers(ROWS, values, NULL, 0);
}

/* Every column begins and ends with the row's number, and has a page a row group. */
static void put_large_pages(const char *path)
{
    struct ArrowSchema schema = arrow_field("+s", "", 0, N_COLUMNS);
    for (int c = 0; c < N_COLUMNS; c++)
        *schema.children[c] = arrow_field(COLUMNS[c].format, COLUMNS[c].name, 0, 0);
    writing to = begin_file(path, &schema);
    for (uint32_t g = 0; g < GROUPS; g++) {
        struct ArrowArray batch = arrow_array(ROWS, 1, N_COLUMNS);
        for (int c = 0; c < N_COLUMNS; c++)
            *batch.children[c] = numbers(g * ROWS, COLUMNS[c].bytes);
        put_batch(&to, &batch);
    }
    end_file(&to);
}

/* The epoch's rows; 0: a block was refused. */
static uint64_t rows_of_epoch(fby_loader *l, uint64_t epoch, bool *seen)
{
    fby_error err = {0};
    fby_batch *b = NULL;
    fby_status status = fby_loader_begin(l, epoch, &err);
    uint64_t n = 0, wrong = 0;
    memset(seen, 0, N_ROWS);
    while (status == FBY_OK && (status = fby_loader_next(l, 120 * (int64_t)1000000000, &b, &err)) == FBY_OK) {
        const uint8_t *x = fby_batch_tensor(b, 0)->data;
        const uint64_t bytes = fby_batch_tensor(b, 0)->bytes / fby_batch_size(b);
        for (uint64_t i = 0; i < fby_batch_size(b); i++, n++) {
            uint32_t row, last;
            memcpy(&row, x + i * bytes, sizeof row);
            memcpy(&last, x + (i + 1) * bytes - sizeof last, sizeof last);
            if (row < N_ROWS && row == last && !seen[row])
                seen[row] = true;
            else
                wrong++;
        }
        fby_batch_unref(b);
        b = NULL;
    }
    assert_int_equal(wrong, 0);
    if (status == FBY_END)
        return n;
    if (status != FBY_E_BUDGET)
        fail_msg("%s: %s", fby_status_name(status), err.message);
    assert_non_null(strstr(err.message, "large.parquet', row group"));
    assert_non_null(strstr(err.message, "raise memory to"));
    return 0;
}

static fby_loader *open_within(fby_dataset *ds, bool wide, int threads, uint64_t memory)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    const fby_output output = {.name = "x", .columns = &(const char *){COLUMNS[wide].name}, .n_columns = 1};
    const fby_loader_opts opts = {.outputs = &output,
                                  .n_outputs = 1,
                                  .batch_size = 1 << 11,
                                  .superbatch_blocks = 2,
                                  .streams = 1,
                                  .memory_bytes = memory,
                                  .n_threads = threads};
    if (try_loader(ds, opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

static void pages_beyond_their_reservation_fit_the_account_or_are_refused(void **state)
{
    (void)state;
    static const uint64_t MORE[] = {0, 4 * MIB, 512 * MIB};
    static const int THREADS[] = {1, 2, 8};
    static bool seen[N_ROWS];
    put_large_pages("large.parquet");
    fby_dataset *ds = open_dataset("large.parquet", NULL);
    for (int wide = 0; wide < 2; wide++)
        for (int t = wide; t < 3 - wide; t++) {
            fby_loader *l = open_within(ds, wide, THREADS[t], 4096 * MIB);
            const uint64_t least = l->memory.minimum_bytes;
            fby_loader_close(l);
            for (int m = 0; m < N_MORE; m++) {
                uint64_t first = 0;
                for (uint64_t epoch = 0; epoch < 3; epoch++) {
                    if (epoch < 2) /* the third with what the second has left */
                        l = open_within(ds, wide, THREADS[t], least + MORE[m]);
                    const uint64_t n = rows_of_epoch(l, epoch / 2, seen);
                    fby__account_stats stats;
                    fby__account_stats_of(l->engine.account, &stats);
                    assert_true(stats.peak_bytes <= least + MORE[m]);
                    assert_int_equal(stats.forced_bytes, 0);
                    assert_true(n == 0 || n == N_ROWS);
                    if (epoch == 0)
                        first = n;
                    assert_int_equal(n, first);
                    if (epoch != 1)
                        fby_loader_close(l);
                }
                assert_true(m < 2 || first == N_ROWS);
            }
        }
    fby_dataset_close(ds);
}

/* ---- groups that are neighbours ---- */

enum { N_EVENTS = 40, EVENT_ROWS = 20000, EVENT_BYTES = 64 };

/* Events of as many rows, each a row group: column x is full of the event's number. */
static void put_long_events(const char *path)
{
    struct ArrowSchema schema = arrow_field("+s", "", 0, 2);
    *schema.children[0] = arrow_field("i", "event", 0, 0);
    *schema.children[1] = arrow_field("w:64", "x", 0, 0);
    writing to = begin_file(path, &schema);
    for (int32_t e = 0; e < N_EVENTS; e++) {
        struct ArrowArray batch = arrow_array(EVENT_ROWS, 1, 2);
        int32_t *event = malloc(EVENT_ROWS * sizeof *event);
        uint8_t *x = malloc((size_t)EVENT_ROWS * EVENT_BYTES);
        for (int i = 0; i < EVENT_ROWS; i++)
            event[i] = e;
        memset(x, e, (size_t)EVENT_ROWS * EVENT_BYTES);
        *batch.children[0] = arrow_numbers(EVENT_ROWS, event, NULL, 0);
        *batch.children[1] = arrow_numbers(EVENT_ROWS, x, NULL, 0);
        put_batch(&to, &batch);
    }
    end_file(&to);
}

static void a_batch_of_the_longest_neighbours_fits_the_stated_minimum(void **state)
{
    (void)state;
    static const uint64_t BATCH[] = {1, 8, 16, 24, 39, 64};
    static const fby_shuffle_kind SHUFFLE[] = {FBY_SHUFFLE_NONE, FBY_SHUFFLE_BLOCK};
    const fby_output output = {.name = "x", .columns = &(const char *){"x"}, .n_columns = 1};
    fby_error err = {0};
    fby_samples *s = NULL;
    put_long_events("long.parquet");
    fby_dataset *ds = open_dataset("long.parquet", NULL);
    const fby_samples_opts events = {.size = sizeof events, .kind = FBY_SAMPLES_GROUPS, .key = "event"};
    assert_int_equal(fby_samples_open(ds, &events, &s, &err), FBY_OK);
    for (size_t i = 0; i < 2 * sizeof BATCH / sizeof *BATCH; i++) {
        fby_loader_opts opts = {.outputs = &output,
                                .n_outputs = 1,
                                .samples = s,
                                .batch_size = BATCH[i / 2],
                                .shuffle = SHUFFLE[i % 2],
                                .streams = 2,
                                .memory_bytes = 4096 * MIB};
        fby_loader *l = open_loader(ds, opts);
        opts.memory_bytes = l->memory.minimum_bytes;
        fby_loader_close(l);
        l = open_loader(ds, opts);
        bool seen[N_EVENTS] = {false};
        fby_batch *b = NULL;
        fby_status status = fby_loader_begin(l, 0, &err);
        for (; status == FBY_OK && (status = fby_loader_next(l, -1, &b, &err)) == FBY_OK; fby_batch_unref(b)) {
            const uint8_t *x = values_of(b, "x");
            for (uint64_t k = 0; k < fby_batch_size(b); k++, x += (size_t)EVENT_ROWS * EVENT_BYTES) {
                assert_true(*x < N_EVENTS && !seen[*x] && x[(size_t)EVENT_ROWS * EVENT_BYTES - 1] == *x);
                seen[*x] = true;
            }
        }
        if (status != FBY_END)
            fail_msg("batch_size %llu: %s", (unsigned long long)opts.batch_size, err.message);
        for (int e = 0; e < N_EVENTS; e++)
            assert_true(seen[e]);
        fby__account_stats stats;
        fby__account_stats_of(l->engine.account, &stats);
        assert_true(stats.peak_bytes <= opts.memory_bytes);
        assert_int_equal(stats.forced_bytes, 0);
        fby_loader_close(l);
    }
    fby_samples_close(s);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_beyond_their_reservation_fit_the_account_or_are_refused, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_batch_of_the_longest_neighbours_fits_the_stated_minimum, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
