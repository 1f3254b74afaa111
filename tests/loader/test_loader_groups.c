/*
 * Groups through the loader: runs of a key that reach over blocks, packed with offsets, every one once (invariant 1), also when a batch's
 * pieces do not come at once.
 */
#include "support/arrow_build.h"
#include "support/loader_sizes.h"

#include <forebay/forebay.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* A stream of batches with columns `event` (int64, the key) and `value` (int32, the row number); groups of 1 to 9 rows. */
typedef struct source {
    uint64_t n_batches, rows_a_batch, row;
    int64_t event, left;
} source;

static int64_t length_of(int64_t event) { return 1 + event * 7 % 9; }

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    (void)stream;
    *out = arrow_field("+s", "", 0, 2);
    *out->children[0] = arrow_field("l", "event", 0, 0);
    *out->children[1] = arrow_field("i", "value", 0, 0);
    return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    source *s = stream->private_data;
    *out = (struct ArrowArray){0};
    if (s->n_batches == 0)
        return 0;
    s->n_batches--;
    int64_t *event = malloc(s->rows_a_batch * sizeof *event);
    int32_t *value = malloc(s->rows_a_batch * sizeof *value);
    for (uint64_t i = 0; i < s->rows_a_batch; i++) {
        if (s->left == 0)
            s->left = length_of(++s->event);
        s->left--;
        event[i] = s->event;
        value[i] = (int32_t)s->row++;
    }
    *out = arrow_array((int64_t)s->rows_a_batch, 1, 2);
    *out->children[0] = arrow_numbers((int64_t)s->rows_a_batch, event, NULL, 0);
    *out->children[1] = arrow_numbers((int64_t)s->rows_a_batch, value, NULL, 0);
    return 0;
}

static fby_dataset *dataset(uint64_t n_batches, uint64_t rows_a_batch)
{
    source *s = calloc(1, sizeof *s);
    *s = (source){.n_batches = n_batches, .rows_a_batch = rows_a_batch, .event = -1};
    struct ArrowArrayStream stream = {get_schema, get_next, arrow_no_error, arrow_free_stream, s};
    fby_dataset *ds = NULL;
    fby_error err = {0};
    if (fby_dataset_from_arrow(&stream, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static fby_samples *groups(fby_dataset *ds)
{
    fby_samples_opts opts = {.size = sizeof opts, .kind = FBY_SAMPLES_GROUPS, .key = "event"};
    fby_samples *s = NULL;
    fby_error err = {0};
    if (fby_samples_open(ds, &opts, &s, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return s;
}

/* Event e's rows: those of the events before it, then its own. The last one may be cut by the end of the data. */
static void check_groups(const fby_batch *b, char *seen, uint64_t n_groups)
{
    const int64_t *event = fby_batch_tensor(b, 0)->data, *index = fby_batch_tensor(b, 1)->data, *rows = fby_batch_tensor(b, 2)->data;
    const double *value = fby_batch_tensor(b, 3)->data;
    const int64_t *offsets = fby_batch_tensor(b, 4)->data;
    assert_int_equal(offsets[0], 0);
    for (uint64_t i = 0; i < fby_batch_size(b); i++) {
        int64_t first = 0;
        for (int64_t e = 0; e < event[i]; e++)
            first += length_of(e);
        assert_int_equal(event[i], index[i]);
        assert_in_range(event[i], 0, n_groups - 1);
        assert_int_equal(seen[event[i]]++, 0);
        assert_int_equal(offsets[i + 1] - offsets[i], rows[i]);
        assert_true(rows[i] == length_of(event[i]) || (uint64_t)event[i] == n_groups - 1);
        for (int64_t k = 0; k < rows[i]; k++)
            assert_true(value[offsets[i] + k] == (double)(first + k));
    }
}

static void run(fby_dataset *ds, fby_samples *samples, fby_loader_opts opts)
{
    static const char *EVENT[] = {"event"}, *VALUE[] = {"value"};
    static const fby_output OUTPUTS[] = {
        {.name = "event", .columns = EVENT, .n_columns = 1, .one_step = true},
        {.name = "index", .from = FBY_FROM_SAMPLE_INDEX},
        {.name = "rows", .from = FBY_FROM_N_ROWS},
        {.name = "value", .columns = VALUE, .n_columns = 1, .dtype = FBY_FLOAT64},
    };
    fby_loader *l = NULL;
    fby_error err = {0};
    fby_batch *b;
    fby_status status;
    uint64_t n = fby_samples_count(samples);
    set_sizes(&opts);
    opts.outputs = OUTPUTS;
    opts.n_outputs = sizeof OUTPUTS / sizeof *OUTPUTS;
    opts.samples = samples;
    if (fby_loader_open(ds, &opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    for (int epoch = 0; epoch < 2; epoch++) {
        char *seen = calloc(n, 1);
        while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
            check_groups(b, seen, n);
            fby_batch_unref(b);
        }
        assert_int_equal(status, FBY_END);
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(seen[i], 1);
        free(seen);
    }
    fby_loader_close(l);
}

static void groups_that_reach_over_blocks_come_whole_and_once(void **state)
{
    (void)state;
    static const uint64_t ROWS[] = {1, 2, 3, 10, 64, 1000};
    for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
        fby_dataset *ds = dataset(2000 / ROWS[r], ROWS[r]);
        fby_samples *samples = groups(ds);
        for (int shuffle = FBY_SHUFFLE_SUPERBATCH; shuffle <= FBY_SHUFFLE_NONE; shuffle++)
            run(ds, samples,
                (fby_loader_opts){
                    .shuffle = (fby_shuffle_kind)shuffle, .batch_size = 24, .superbatch_samples = 80, .seed = r, .n_threads = 2});
        fby_samples_close(samples);
        fby_dataset_close(ds);
    }
}

static void batches_whose_pieces_come_one_by_one_are_joined(void **state)
{
    (void)state;
    fby_dataset *ds = dataset(300, 7);
    fby_samples *samples = groups(ds);
    /* one thread, small superbatches, batches larger than a phase: pieces wait for one another */
    run(ds, samples, (fby_loader_opts){.batch_size = 64, .superbatch_samples = 64, .streams = 4, .seed = 1, .n_threads = 1});
    run(ds, samples, (fby_loader_opts){.batch_size = 128, .shuffle = FBY_SHUFFLE_BLOCK, .seed = 1, .n_threads = 3});
    fby_samples_close(samples);
    fby_dataset_close(ds);
}

static void groups_are_numbered_in_file_order(void **state)
{
    (void)state;
    fby_dataset *ds = dataset(500, 3);
    fby_samples *samples = groups(ds);
    uint64_t row, rows, at = 0;
    for (uint64_t i = 0; i < fby_samples_count(samples); i++) {
        assert_int_equal(fby_samples_get(samples, i, &row, &rows, NULL), FBY_OK);
        assert_int_equal(row, at);
        at += rows;
    }
    assert_int_equal(at, fby_dataset_rows(ds));
    assert_int_equal(fby_samples_max_rows(samples), 9);
    assert_int_equal(fby_samples_kind(samples), FBY_SAMPLES_GROUPS);
    fby_samples_close(samples);
    fby_dataset_close(ds);
}

static atomic_bool g_has_ended;

static void *cancel_until_it_ends(void *loader)
{
    while (!atomic_load(&g_has_ended)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        fby_loader_cancel(loader);
    }
    return NULL;
}

/* Batches by rows: the length of every sample is asked for, of this epoch and the next. */
static void beginning_an_epoch_ends_soon_when_the_loader_is_cancelled(void **state)
{
    (void)state;
    fby_dataset *ds = dataset(8, 1 << 21);
    fby_loader_opts opts = {.batch_elements = 1024, .shuffle = FBY_SHUFFLE_SUPERBATCH, .superbatch_blocks = 2, .n_threads = 1};
    fby_loader *l = NULL;
    fby_error err = {0};
    pthread_t canceller;
    set_sizes(&opts);
    if (fby_loader_open(ds, &opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(pthread_create(&canceller, NULL, cancel_until_it_ends, l), 0);
    assert_int_equal(fby_loader_begin(l, 5, &err), FBY_E_CANCELLED); /* before it had planned all: that is FBY_OK */
    atomic_store(&g_has_ended, true);
    assert_int_equal(pthread_join(canceller, NULL), 0);
    assert_int_equal(fby_loader_begin(l, 5, &err), FBY_OK); /* what was cancelled does not hold the next one up */
    fby_loader_close(l);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_that_reach_over_blocks_come_whole_and_once),
        cmocka_unit_test(batches_whose_pieces_come_one_by_one_are_joined),
        cmocka_unit_test(groups_are_numbered_in_file_order),
        cmocka_unit_test(beginning_an_epoch_ends_soon_when_the_loader_is_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
