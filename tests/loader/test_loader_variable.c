/*
 * Batches by rows and length buckets through the loader, over groups of very unlike length: every group once and whole, limits kept, file
 * order kept without shuffle, the same for any threads and budget, resume at every batch, ranks of equal length, other world sizes refused.
 */
#include "support/arrow_build.h"
#include "support/loader_sizes.h"

#include <forebay/forebay.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GROUPS = 900, BLOCK_ROWS = 230, LIMIT = 40, ELEMENTS = 120 };

/* Mostly short, one in thirty long: some longer than a batch's rows. */
static int64_t length_of(int64_t event) { return 1 + event * 7 % 9 + (event % 30 == 11 ? event % 160 : 0); }

static int64_t rows_before(int64_t event)
{
    int64_t n = 0;
    for (int64_t e = 0; e < event; e++)
        n += length_of(e);
    return n;
}

/* ---- a stream of batches with columns `event` (the key) and `row` ---- */

typedef struct source {
    int64_t event, left, row, rows; /* rows: of all */
} source;

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    (void)stream;
    *out = arrow_field("+s", "", 0, 2);
    *out->children[0] = arrow_field("l", "event", 0, 0);
    *out->children[1] = arrow_field("l", "row", 0, 0);
    return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    source *s = stream->private_data;
    *out = (struct ArrowArray){0};
    const int64_t n = s->rows - s->row < BLOCK_ROWS ? s->rows - s->row : BLOCK_ROWS;
    if (n == 0)
        return 0;
    int64_t *event = malloc((size_t)n * sizeof *event), *row = malloc((size_t)n * sizeof *row);
    for (int64_t i = 0; i < n; i++) {
        if (s->left == 0)
            s->left = length_of(++s->event);
        s->left--;
        event[i] = s->event;
        row[i] = s->row++;
    }
    *out = arrow_array(n, 1, 2);
    *out->children[0] = arrow_numbers(n, event, NULL, 0);
    *out->children[1] = arrow_numbers(n, row, NULL, 0);
    return 0;
}

static fby_dataset *dataset(void)
{
    source *s = calloc(1, sizeof *s);
    *s = (source){.event = -1, .rows = rows_before(GROUPS)};
    struct ArrowArrayStream stream = {get_schema, get_next, arrow_no_error, arrow_free_stream, s};
    fby_dataset *ds = NULL;
    assert_int_equal(fby_dataset_from_arrow(&stream, &ds, NULL), FBY_OK);
    return ds;
}

static fby_samples *groups(fby_dataset *ds)
{
    const fby_samples_opts opts = {.size = sizeof opts, .kind = FBY_SAMPLES_GROUPS, .key = "event"};
    fby_samples *s = NULL;
    assert_int_equal(fby_samples_open(ds, &opts, &s, NULL), FBY_OK);
    assert_int_equal(fby_samples_count(s), GROUPS);
    return s;
}

static fby_status try_loader(fby_dataset *ds, fby_samples *s, fby_loader_opts opts, fby_loader **out, fby_error *err)
{
    static const char *row[] = {"row"};
    static const fby_output outputs[] = {{.name = "event", .from = FBY_FROM_SAMPLE_INDEX},
                                         {.name = "n", .from = FBY_FROM_N_ROWS},
                                         {.name = "row", .columns = row, .n_columns = 1}};
    set_sizes(&opts);
    opts.outputs = outputs;
    opts.n_outputs = 3;
    opts.samples = s;
    opts.superbatch_samples = opts.superbatch_samples ? opts.superbatch_samples : 300;
    opts.n_threads = opts.n_threads ? opts.n_threads : 2;
    return fby_loader_open(ds, &opts, out, err);
}

static fby_loader *open_loader(fby_dataset *ds, fby_samples *s, fby_loader_opts opts)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    if (try_loader(ds, s, opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

/* ---- an epoch ---- */

typedef struct epoch_seen {
    int64_t event[4 * GROUPS];
    uint64_t begin[2 * GROUPS]; /* of batch k in event */
    uint64_t n, n_batches;
} epoch_seen;

/* A batch's groups, whole, in its order. */
static void note(const fby_batch *b, epoch_seen *e)
{
    const int64_t *event = fby_batch_tensor(b, 0)->data, *rows = fby_batch_tensor(b, 1)->data, *row = fby_batch_tensor(b, 2)->data;
    const int64_t *offsets = fby_batch_tensor(b, 3)->data;
    e->begin[e->n_batches++] = e->n;
    for (uint64_t i = 0; i < fby_batch_size(b); i++) {
        assert_in_range(event[i], 0, GROUPS - 1);
        assert_int_equal(rows[i], length_of(event[i]));
        assert_int_equal(offsets[i + 1] - offsets[i], rows[i]);
        for (int64_t k = 0, first = rows_before(event[i]); k < rows[i]; k++)
            assert_int_equal(row[offsets[i] + k], first + k);
        e->event[e->n++] = event[i];
    }
    e->begin[e->n_batches] = e->n;
}

static epoch_seen *run_epoch(fby_loader *l, uint64_t epoch, uint64_t from)
{
    epoch_seen *e = calloc(1, sizeof *e);
    fby_error err = {0};
    fby_batch *b;
    fby_status status;
    assert_int_equal(fby_loader_begin_at(l, epoch, from, &err), FBY_OK);
    const uint64_t batches = fby_loader_batch_count(l), samples = fby_loader_sample_count(l);
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        assert_int_equal(fby_batch_index(b), from + e->n_batches);
        note(b, e);
        fby_batch_unref(b);
    }
    if (status != FBY_END)
        fail_msg("%s", err.message);
    assert_int_equal(from + e->n_batches, batches);
    if (from == 0)
        assert_int_equal(e->n, samples);
    return e;
}

static void check_limits(const epoch_seen *e, uint64_t limit, bool greedy)
{
    for (uint64_t k = 0; k < e->n_batches; k++) {
        int64_t rows = 0;
        const uint64_t n = e->begin[k + 1] - e->begin[k];
        for (uint64_t i = e->begin[k]; i < e->begin[k + 1]; i++)
            rows += length_of(e->event[i]);
        assert_true(n >= 1 && n <= limit && (n == 1 || rows <= ELEMENTS));
        if (greedy && k + 1 < e->n_batches)
            assert_true(n == limit || rows + length_of(e->event[e->begin[k + 1]]) > ELEMENTS);
    }
}

static void check_once(const epoch_seen *e)
{
    char seen[GROUPS] = {0};
    assert_int_equal(e->n, GROUPS);
    for (uint64_t i = 0; i < e->n; i++)
        assert_int_equal(seen[e->event[i]]++, 0);
}

static const fby_loader_opts KINDS[] = {
    {.batch_elements = ELEMENTS},
    {.batch_elements = ELEMENTS, .shuffle = FBY_SHUFFLE_NONE},
    {.batch_elements = ELEMENTS, .batch_size = 9},
    {.batch_elements = ELEMENTS, .bucket_samples = 100},
    {.batch_size = 16, .bucket_samples = 64},
    {.batch_size = 16, .bucket_samples = 300, .shuffle = FBY_SHUFFLE_FULL},
};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

static void every_group_comes_once_within_the_limits_and_threads_and_budget_change_nothing(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *s = groups(ds);
    for (int kind = 0; kind < N_KINDS; kind++) {
        epoch_seen *expect = NULL;
        for (int threads = 1; threads <= 4; threads *= 2)
            for (int tight = 0; tight < 2; tight++) {
                fby_loader_opts opts = KINDS[kind];
                opts.seed = 7;
                opts.n_threads = threads;
                fby_loader *l = open_loader(ds, s, opts);
                if (tight) {
                    fby_report r = {.size = sizeof r};
                    assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
                    opts.memory_bytes = r.budget_minimum_bytes;
                    fby_loader_close(l);
                    l = open_loader(ds, s, opts);
                }
                for (uint64_t e = 0; e < 2; e++) {
                    epoch_seen *got = run_epoch(l, e, 0);
                    check_once(got);
                    if (opts.batch_elements)
                        check_limits(got, opts.batch_size ? opts.batch_size : ELEMENTS, !opts.bucket_samples);
                    for (uint64_t i = 1; opts.shuffle == FBY_SHUFFLE_NONE && i < GROUPS; i++)
                        assert_int_equal(got->event[i], i);
                    if (e == 0 && !expect) {
                        expect = got;
                        continue;
                    }
                    if (e == 0)
                        assert_memory_equal(got, expect, sizeof *got);
                    free(got);
                }
                fby_output_info info = {.size = sizeof info};
                assert_int_equal(fby_loader_output(l, 0, &info, NULL), FBY_OK);
                assert_int_equal(info.shape[0], opts.batch_elements ? -1 : 16);
                fby_loader_close(l);
            }
        free(expect);
    }
    fby_samples_close(s);
    fby_dataset_close(ds);
}

static void an_epoch_resumed_at_any_batch_goes_on_exactly(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *s = groups(ds);
    for (int kind = 0; kind < N_KINDS; kind++) {
        fby_loader_opts opts = KINDS[kind];
        fby_loader *l = open_loader(ds, s, opts);
        epoch_seen *whole = run_epoch(l, 3, 0);
        opts.n_threads = 3;
        opts.prefetch_batches = 3;
        fby_loader *other = open_loader(ds, s, opts);
        for (uint64_t k = 0; k <= whole->n_batches; k += 1 + k % 5) {
            fby_loader_state st = {.size = sizeof st};
            assert_int_equal(fby_loader_begin_at(l, 3, k, NULL), FBY_OK);
            assert_int_equal(fby_loader_state_get(l, &st, NULL), FBY_OK);
            assert_int_equal(fby_loader_state_set(other, &st, NULL), FBY_OK);
            assert_int_equal(fby_loader_batch_count(other), whole->n_batches);
            epoch_seen *rest = run_epoch(other, st.epoch, st.batch);
            assert_int_equal(rest->n_batches, whole->n_batches - k);
            assert_int_equal(rest->n, whole->n - whole->begin[k]);
            assert_memory_equal(rest->event, whole->event + whole->begin[k], rest->n * sizeof *rest->event);
            free(rest);
        }
        free(whole);
        fby_loader_close(l);
        fby_loader_close(other);
    }
    fby_samples_close(s);
    fby_dataset_close(ds);
}

static void ranks_have_as_many_batches_and_every_group_between_them(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *s = groups(ds);
    for (int kind = 0; kind < N_KINDS; kind++)
        for (uint32_t world = 2; world <= 3; world++)
            for (int drop = 0; drop < 2; drop++) {
                uint32_t seen[GROUPS] = {0};
                uint64_t batches = 0, repeats = 0, missing = 0;
                fby_report r = {.size = sizeof r};
                for (uint32_t rank = 0; rank < world; rank++) {
                    fby_loader_opts opts = KINDS[kind];
                    opts.rank = rank;
                    opts.world_size = world;
                    opts.tail = drop ? FBY_TAIL_DROP : FBY_TAIL_AUTO;
                    fby_loader *l = open_loader(ds, s, opts);
                    fby_loader_begin(l, 2, NULL);
                    assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK); /* counts of the epoch under way */
                    epoch_seen *e = run_epoch(l, 2, 0);
                    batches = rank ? batches : e->n_batches;
                    assert_int_equal(e->n_batches, batches);
                    for (uint64_t i = 0; i < e->n; i++)
                        seen[e->event[i]]++;
                    free(e);
                    fby_loader_close(l);
                }
                for (int g = 0; g < GROUPS; g++) {
                    repeats += seen[g] > 1 ? seen[g] - 1 : 0;
                    missing += seen[g] == 0;
                }
                assert_int_equal(repeats, r.n_wrapped);
                assert_int_equal(missing, r.n_dropped);
                assert_true(drop ? repeats == 0 : missing == 0);
            }
    fby_samples_close(s);
    fby_dataset_close(ds);
}

static void a_state_of_another_world_size_or_other_batches_is_refused_with_both(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *s = groups(ds);
    const fby_loader_opts saved = {.batch_elements = ELEMENTS, .world_size = 2};
    const struct {
        fby_loader_opts opts;
        const char *text;
    } cases[] = {{{.batch_elements = ELEMENTS, .world_size = 1}, "saved on 2 ranks, this loader is one of 1"},
                 {{.batch_elements = 99, .world_size = 2}, "120, this loader has 99"},
                 {{.batch_elements = ELEMENTS, .bucket_samples = 50, .world_size = 2}, "0, this loader has 50"}};
    fby_loader *l = open_loader(ds, s, saved);
    fby_loader_state st = {.size = sizeof st};
    assert_int_equal(fby_loader_state_get(l, &st, NULL), FBY_OK);
    for (int i = 0; i < 3; i++) {
        fby_error err = {0};
        fby_loader *other = open_loader(ds, s, cases[i].opts);
        assert_int_equal(fby_loader_state_set(other, &st, &err), FBY_E_ARG);
        if (!strstr(err.message, cases[i].text))
            fail_msg("%s", err.message);
        fby_loader_close(other);
    }
    fby_loader_close(l);
    fby_samples_close(s);
    fby_dataset_close(ds);
}

static void the_report_says_what_padding_wastes_with_and_without_buckets(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_samples *s = groups(ds);
    fby_loader *l = open_loader(ds, s, (fby_loader_opts){.batch_size = 16, .bucket_samples = 300, .superbatch_samples = 500});
    fby_report r = {.size = sizeof r};
    assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
    assert_true(r.padding > 0 && r.padding < 0.8 * r.padding_unsorted && r.padding_unsorted < 1);
    assert_non_null(strstr(r.mixing, "without length buckets"));
    fby_loader_close(l);
    l = open_loader(ds, s, (fby_loader_opts){.batch_size = 16});
    assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
    assert_true(r.padding > 0.3 && r.padding == r.padding_unsorted && !strstr(r.mixing, "padding"));
    fby_loader_close(l);

    fby_error err = {0};
    fby_samples *rows = NULL;
    const fby_samples_opts opts = {.size = sizeof opts, .kind = FBY_SAMPLES_WINDOWS, .input = 3};
    assert_int_equal(fby_samples_open(ds, &opts, &rows, NULL), FBY_OK);
    assert_int_equal(try_loader(ds, rows, (fby_loader_opts){.batch_size = 16, .bucket_samples = 64}, &l, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "one length (windows)"));
    assert_int_equal(try_loader(ds, s, (fby_loader_opts){0}, &l, &err), FBY_E_ARG); /* neither samples nor rows a batch */
    fby_samples_close(rows);
    fby_samples_close(s);
    fby_dataset_close(ds);
}

/* Of epoch 0, from the lengths as they are delivered, with `least` as the least length of a batch. */
static double padding_of(fby_loader *l, int64_t most, int64_t least)
{
    fby_batch *b;
    double padded = 0, rows = 0;
    while (fby_loader_next(l, -1, &b, NULL) == FBY_OK) {
        const int64_t *n = fby_batch_tensor(b, 0)->data;
        int64_t longest = least;
        for (uint64_t i = 0; i < fby_batch_size(b); i++) {
            const int64_t kept = n[i] < most ? n[i] : most;
            longest = kept > longest ? kept : longest;
            rows += (double)kept;
        }
        padded += (double)longest * (double)fby_batch_size(b);
        fby_batch_unref(b);
    }
    return (padded - rows) / padded;
}

static void padding_is_that_of_the_outputs_that_are_padded(void **state)
{
    (void)state;
    static const char *row[] = {"row"};
    fby_dataset *ds = dataset();
    fby_samples *s = groups(ds);
    fby_report r = {.size = sizeof r};
    for (int pad_to_max = 0; pad_to_max < 2; pad_to_max++)
        for (uint64_t bucket = 0; bucket < 200; bucket += 128) {
            const fby_output outputs[] = {
                {.name = "n", .from = FBY_FROM_N_ROWS},
                {.name = "row", .columns = row, .n_columns = 1, .layout = FBY_LAYOUT_PADDED, .max_rows = 6, .pad_to_max = pad_to_max}};
            const fby_loader_opts opts = {FBY_LOADER_SIZES,
                                          .outputs = outputs,
                                          .n_outputs = 2,
                                          .samples = s,
                                          .batch_size = (GROUPS + 63) / 64, /* as many as are measured */
                                          .bucket_samples = bucket,
                                          .n_threads = 2};
            fby_loader *l = NULL;
            assert_int_equal(fby_loader_open(ds, &opts, &l, NULL), FBY_OK);
            assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
            const double expect = padding_of(l, 6, pad_to_max ? 6 : 0);
            if (fabs(r.padding - expect) > 1e-9)
                fail_msg("padding is %f, the report says %f", expect, r.padding);
            fby_loader_close(l);
        }
    fby_samples_close(s);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_group_comes_once_within_the_limits_and_threads_and_budget_change_nothing),
        cmocka_unit_test(an_epoch_resumed_at_any_batch_goes_on_exactly),
        cmocka_unit_test(ranks_have_as_many_batches_and_every_group_between_them),
        cmocka_unit_test(a_state_of_another_world_size_or_other_batches_is_refused_with_both),
        cmocka_unit_test(the_report_says_what_padding_wastes_with_and_without_buckets),
        cmocka_unit_test(padding_is_that_of_the_outputs_that_are_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
