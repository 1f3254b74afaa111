/*
 * The loader over a dataset in memory: every sample once (invariant 1), an order that depends on nothing but what it may
 * (invariant 2), and values that are what the outputs say.
 */
#include "support/fill_op.h"
#include "support/loader_sizes.h"
#include "support/memory_dataset.h"

#include <forebay/forebay.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct order {
    int64_t *id;
    uint64_t n;
    uint64_t n_batches;
} order;

static const char *ID[] = {"id"}, *X[] = {"x"}, *ALL[] = {"x", "narrow", "id"}, *GAP[] = {"gap"}, *WORD[] = {"word"}, *HITS[] = {"hits"};
static const char *NARROW[] = {"narrow"};

static fby_dataset *dataset(uint64_t *out_rows)
{
    uint64_t counts[60], rows = 0;
    for (int i = 0; i < 60; i++)
        rows += counts[i] = i == 7 ? 1 : i == 9 ? 0 : (uint64_t)(50 + 37 * i % 200);
    fby_dataset *ds = NULL;
    fby_error err = {0};
    if (memory_dataset_open(counts, 60, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(fby_dataset_rows(ds), rows);
    *out_rows = rows;
    return ds;
}

static fby_loader *loader(fby_dataset *ds, fby_loader_opts opts)
{
    fby_output id = {.name = "id", .columns = ID, .n_columns = 1};
    fby_loader *l = NULL;
    fby_error err = {0};
    set_sizes(&opts);
    if (!opts.outputs) {
        opts.outputs = &id;
        opts.n_outputs = 1;
    }
    if (!opts.batch_size)
        opts.batch_size = 64;
    if (fby_loader_open(ds, &opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

static const fby_tensor *tensor(const fby_batch *b, const char *output, const char *role)
{
    for (size_t i = 0; i < fby_batch_tensor_count(b); i++) {
        const fby_tensor *t = fby_batch_tensor(b, i);
        if (strcmp(t->output, output) == 0 && strcmp(t->role, role) == 0)
            return t;
    }
    fail_msg("no tensor %s %s", output, role);
    return NULL;
}

static order run_epoch(fby_loader *l, uint64_t epoch)
{
    order o = {0};
    fby_error err = {0};
    assert_int_equal(fby_loader_begin(l, epoch, &err), FBY_OK);
    o.id = malloc((fby_loader_sample_count(l) + 1) * sizeof *o.id);
    fby_batch *b;
    fby_status status;
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        assert_int_equal(fby_batch_index(b), o.n_batches);
        const fby_tensor *t = tensor(b, "id", "values");
        assert_int_equal(t->shape[0], fby_batch_size(b));
        memcpy(o.id + o.n, t->data, t->bytes);
        o.n += fby_batch_size(b);
        o.n_batches++;
        fby_batch_unref(b);
    }
    if (status != FBY_END)
        fail_msg("%s", err.message);
    assert_int_equal(o.n, fby_loader_sample_count(l));
    assert_int_equal(o.n_batches, fby_loader_batch_count(l));
    return o;
}

static void assert_permutation(const order *o, uint64_t rows)
{
    char *seen = calloc(rows, 1);
    assert_int_equal(o->n, rows);
    for (uint64_t i = 0; i < o->n; i++) {
        assert_in_range(o->id[i], 0, rows - 1);
        assert_int_equal(seen[o->id[i]], 0);
        seen[o->id[i]] = 1;
    }
    free(seen);
}

static void every_sample_comes_exactly_once_per_epoch_in_every_shuffle(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    const fby_shuffle_kind kinds[] = {FBY_SHUFFLE_SUPERBATCH, FBY_SHUFFLE_FULL, FBY_SHUFFLE_BLOCK, FBY_SHUFFLE_NONE};
    for (int k = 0; k < 4; k++)
        for (uint64_t sb = 0; sb < 3; sb++)
            for (uint64_t batch = 1; batch < 5000; batch = batch * 7 + 1) {
                if (kinds[k] != FBY_SHUFFLE_SUPERBATCH && sb)
                    continue;
                fby_loader *l =
                    loader(ds, (fby_loader_opts){.shuffle = kinds[k], .superbatch_samples = sb * 700, .batch_size = batch, .n_threads = 2});
                for (uint64_t e = 0; e < 2; e++) {
                    order o = run_epoch(l, e);
                    assert_permutation(&o, rows);
                    free(o.id);
                }
                fby_loader_close(l);
            }
    fby_dataset_close(ds);
}

static void without_shuffle_rows_come_in_file_order(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_loader *l = loader(ds, (fby_loader_opts){.shuffle = FBY_SHUFFLE_NONE, .batch_size = 100});
    order o = run_epoch(l, 0);
    for (uint64_t i = 0; i < rows; i++)
        assert_int_equal(o.id[i], i);
    free(o.id);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void the_order_ignores_threads_budget_prefetch_and_outputs(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_output more[] = {{.name = "id", .columns = ID, .n_columns = 1},
                         {.name = "all", .columns = ALL, .n_columns = 3, .dtype = FBY_FLOAT64},
                         {.name = "word", .columns = WORD, .n_columns = 1}};
    fby_loader *first = loader(ds, (fby_loader_opts){.superbatch_samples = 900, .seed = 5, .n_threads = 1});
    fby_report r = {.size = sizeof r};
    assert_int_equal(fby_loader_report(first, &r, NULL), FBY_OK);
    order expect = run_epoch(first, 3);
    const int threads[] = {1, 2, 8};
    for (int t = 0; t < 3; t++)
        for (int budget = 0; budget < 3; budget++)
            for (int outputs = 0; outputs < 2; outputs++) {
                fby_loader_opts opts = {
                    .superbatch_samples = 900, .seed = 5, .n_threads = threads[t], .prefetch_batches = 2u + (unsigned)(t * 3)};
                if (outputs) {
                    opts.outputs = more;
                    opts.n_outputs = 3;
                }
                fby_loader *l = loader(ds, opts);
                if (budget) { /* the smallest accepted budget, and a little more */
                    fby_report at = {.size = sizeof at};
                    assert_int_equal(fby_loader_report(l, &at, NULL), FBY_OK);
                    fby_loader_close(l);
                    opts.memory_bytes = at.budget_minimum_bytes + (budget == 2 ? 100000 : 0);
                    l = loader(ds, opts);
                }
                order o = run_epoch(l, 3);
                assert_int_equal(o.n, expect.n);
                assert_memory_equal(o.id, expect.id, o.n * sizeof *o.id);
                free(o.id);
                fby_loader_close(l);
            }
    order again = run_epoch(first, 3), other = run_epoch(first, 4);
    assert_memory_equal(again.id, expect.id, expect.n * sizeof *expect.id);
    assert_memory_not_equal(other.id, expect.id, expect.n * sizeof *expect.id);
    fby_loader *seed = loader(ds, (fby_loader_opts){.superbatch_samples = 900, .seed = 6});
    order s = run_epoch(seed, 3);
    assert_memory_not_equal(s.id, expect.id, expect.n * sizeof *expect.id);
    free(expect.id);
    free(again.id);
    free(other.id);
    free(s.id);
    fby_loader_close(seed);
    fby_loader_close(first);
    fby_dataset_close(ds);
}

static void a_budget_below_the_minimum_is_refused_with_both_figures(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_loader *l = loader(ds, (fby_loader_opts){.superbatch_samples = 6000});
    fby_report r = {.size = sizeof r};
    assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
    fby_loader_close(l);
    fby_output id = {.name = "id", .columns = ID, .n_columns = 1};
    fby_loader_opts opts = {FBY_LOADER_SIZES,
                            .outputs = &id,
                            .n_outputs = 1,
                            .batch_size = 64,
                            .superbatch_samples = 6000,
                            .memory_bytes = r.budget_minimum_bytes - 1};
    fby_error err = {0};
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_E_BUDGET);
    char minimum[32];
    (void)snprintf(minimum, sizeof minimum, "%llu", (unsigned long long)r.budget_minimum_bytes);
    assert_non_null(strstr(err.message, minimum));
    const char *at = strstr(err.message, "superbatch to at most ");
    assert_non_null(at);
    opts.superbatch_samples = strtoull(at + strlen("superbatch to at most "), NULL, 10);
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_OK);
    fby_loader_close(l);
    opts.superbatch_samples += 1;
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_E_BUDGET);
    fby_dataset_close(ds);
}

static void values_are_what_the_outputs_say(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_output outputs[] = {
        {.name = "id", .columns = ID, .n_columns = 1},
        {.name = "x", .columns = X, .n_columns = 1, .keep_axis = true, .dtype = FBY_FLOAT64},
        {.name = "all", .columns = ALL, .n_columns = 3},
        {.name = "wide", .columns = NARROW, .n_columns = 1, .dtype = FBY_FLOAT32},
        {.name = "gap", .columns = GAP, .n_columns = 1},
        {.name = "filled", .columns = GAP, .n_columns = 1, .ops = FILL(-5), .n_ops = 1},
        {.name = "absent", .from = FBY_FROM_IS_MISSING, .columns = GAP, .n_columns = 1},
        {.name = "row", .from = FBY_FROM_SAMPLE_INDEX},
        {.name = "word", .columns = WORD, .n_columns = 1},
        {.name = "hits", .columns = HITS, .n_columns = 1, .dtype = FBY_INT64},
    };
    for (uint64_t sb = 300; sb < 100000; sb *= 20) {
        fby_loader *l = loader(ds, (fby_loader_opts){.outputs = outputs, .n_outputs = 10, .superbatch_samples = sb, .batch_size = 96});
        fby_batch *b;
        fby_error err = {0};
        uint64_t seen = 0;
        fby_status status;
        while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
            uint64_t n = fby_batch_size(b);
            const int64_t *id = tensor(b, "id", "values")->data, *row = tensor(b, "row", "values")->data;
            const double *x = tensor(b, "x", "values")->data, *gap = tensor(b, "gap", "values")->data,
                         *filled = tensor(b, "filled", "values")->data;
            const float *all = tensor(b, "all", "values")->data, *wide = tensor(b, "wide", "values")->data;
            const uint8_t *absent = tensor(b, "absent", "values")->data;
            const char *word = tensor(b, "word", "values")->data;
            const int64_t *word_at = tensor(b, "word", "offsets")->data, *hits_at = tensor(b, "hits", "offsets")->data;
            const int64_t *hits = tensor(b, "hits", "values")->data;
            assert_int_equal(tensor(b, "x", "values")->ndim, 2);
            assert_int_equal(tensor(b, "all", "values")->shape[1], 3);
            assert_int_equal(tensor(b, "word", "offsets")->shape[0], n + 1);
            assert_int_equal(tensor(b, "hits", "values")->shape[0], hits_at[n]);
            for (uint64_t i = 0; i < n; i++) {
                int64_t k = id[i];
                assert_int_equal(row[i], k);
                assert_true(x[i] == (double)k / 2);
                assert_true(all[3 * i] == (float)k / 2 && all[3 * i + 1] == (float)(k % 1000) && all[3 * i + 2] == (float)k);
                assert_true(wide[i] == (float)(k % 1000));
                bool missing = k % 7 == 3;
                assert_int_equal(absent[i], missing);
                assert_true(missing ? isnan(gap[i]) : gap[i] == (double)k * 3);
                assert_true(filled[i] == (missing ? -5 : (double)k * 3));
                char text[32];
                int length = snprintf(text, sizeof text, "w%lld", (long long)k);
                assert_int_equal(word_at[i + 1] - word_at[i], length);
                assert_memory_equal(word + word_at[i], text, (size_t)length);
                assert_int_equal(hits_at[i + 1] - hits_at[i], k % 5);
                for (int64_t h = 0; h < k % 5; h++)
                    assert_int_equal(hits[hits_at[i] + h], k + h);
            }
            seen += n;
            fby_batch_unref(b);
        }
        if (status != FBY_END)
            fail_msg("%s", err.message);
        assert_int_equal(seen, rows);
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
}

static void more_panels_than_a_block_is_split_into_work(void **state)
{
    (void)state;
    enum { OUTPUTS = 150 };
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_output outputs[OUTPUTS];
    fby_op ops[OUTPUTS];
    char names[OUTPUTS][16];
    for (int i = 0; i < OUTPUTS; i++) { /* another fill value is another panel */
        (void)snprintf(names[i], sizeof names[i], "gap%d", i);
        ops[i] = (fby_op){.kind = FBY_OP_FILL_MISSING, .a = i};
        outputs[i] = (fby_output){.name = names[i], .columns = GAP, .n_columns = 1, .ops = &ops[i], .n_ops = 1};
    }
    fby_loader *l = loader(ds, (fby_loader_opts){.outputs = outputs, .n_outputs = OUTPUTS, .shuffle = FBY_SHUFFLE_NONE, .batch_size = 11});
    fby_batch *b;
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
    for (int i = 0; i < OUTPUTS; i++) {
        const double *gap = tensor(b, names[i], "values")->data;
        assert_true(gap[2] == 6 && gap[3] == i && gap[10] == i);
    }
    fby_batch_unref(b);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void a_batch_outlives_its_loader_and_dataset(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_loader *l = loader(ds, (fby_loader_opts){.shuffle = FBY_SHUFFLE_NONE, .batch_size = 500});
    fby_batch *held[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(fby_loader_next(l, -1, &held[i], NULL), FBY_OK);
    fby_loader_close(l);
    fby_dataset_close(ds);
    for (int i = 0; i < 4; i++) {
        const int64_t *id = tensor(held[i], "id", "values")->data;
        for (int k = 0; k < 500; k++)
            assert_int_equal(id[k], 500 * i + k);
        fby_batch_unref(held[i]);
    }
}

static void breaking_out_and_beginning_again_starts_from_the_first_batch(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_loader *l = loader(ds, (fby_loader_opts){.superbatch_samples = 600, .n_threads = 4});
    order expect = run_epoch(l, 1);
    for (int stop_after = 0; stop_after < 20; stop_after++) {
        assert_int_equal(fby_loader_begin(l, 1, NULL), FBY_OK);
        for (int i = 0; i < stop_after; i++) {
            fby_batch *b;
            assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
            assert_memory_equal(tensor(b, "id", "values")->data, expect.id + 64 * i, 64 * sizeof(int64_t));
            fby_batch_unref(b);
        }
    }
    order again = run_epoch(l, 1);
    assert_memory_equal(again.id, expect.id, expect.n * sizeof *expect.id);
    free(again.id);
    free(expect.id);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static uint64_t epochs_begun(fby_loader *l)
{
    fby_report report = {.size = sizeof report};
    assert_int_equal(fby_loader_report(l, &report, NULL), FBY_OK);
    return report.epochs_begun;
}

static void an_epoch_that_gave_no_batch_goes_on_when_it_is_begun_again(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_loader *l = loader(ds, (fby_loader_opts){.superbatch_samples = 600, .n_threads = 4});
    order expect = run_epoch(l, 1);
    const uint64_t begun = epochs_begun(l);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fby_loader_begin(l, 1, NULL), FBY_OK);
    assert_int_equal(epochs_begun(l), begun + 1);
    fby_batch *b;
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
    fby_batch_unref(b);
    assert_int_equal(fby_loader_begin_at(l, 1, 1, NULL), FBY_OK);
    assert_int_equal(epochs_begun(l), begun + 1);
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
    assert_memory_equal(tensor(b, "id", "values")->data, expect.id + 64, 64 * sizeof(int64_t));
    fby_batch_unref(b);
    fby_loader_cancel(l);
    assert_int_equal(fby_loader_begin_at(l, 1, 2, NULL), FBY_OK); /* what was cancelled does not go on */
    assert_int_equal(epochs_begun(l), begun + 2);
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
    assert_memory_equal(tensor(b, "id", "values")->data, expect.id + 128, 64 * sizeof(int64_t));
    fby_batch_unref(b);
    free(expect.id);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void cancel_wakes_the_consumer_and_a_new_epoch_works(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_loader *l = loader(ds, (fby_loader_opts){0});
    fby_batch *b;
    fby_error err;
    assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_OK);
    fby_batch_unref(b);
    fby_loader_cancel(l);
    assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_E_CANCELLED);
    order o = run_epoch(l, 0);
    assert_permutation(&o, rows);
    free(o.id);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void cancel_holds_before_the_first_batch_and_between_epochs(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    fby_loader *l = loader(ds, (fby_loader_opts){.batch_size = 512});
    fby_loader_state at = {.size = sizeof at};
    fby_batch *b;
    fby_error err;
    fby_status status;
    fby_loader_cancel(l);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_E_CANCELLED);
    assert_int_equal(fby_loader_begin(l, 0, &err), FBY_OK);
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK)
        fby_batch_unref(b);
    assert_int_equal(status, FBY_END);
    fby_loader_cancel(l);
    assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_E_CANCELLED);
    assert_int_equal(fby_loader_state_get(l, &at, &err), FBY_OK);
    assert_true(at.epoch == 1 && at.batch == 0);
    assert_int_equal(fby_loader_state_set(l, &at, &err), FBY_OK);
    assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_OK);
    assert_int_equal(fby_batch_epoch(b), 1);
    fby_batch_unref(b);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void outputs_that_cannot_be_are_refused_by_name(void **state)
{
    (void)state;
    uint64_t rows;
    fby_dataset *ds = dataset(&rows);
    const char *two[] = {"x", "word"}, *none[] = {"nowhere"};
    struct {
        fby_output output;
        fby_status status;
        const char *says;
    } cases[] = {
        {{.name = "a", .columns = none, .n_columns = 1}, FBY_E_SCHEMA, "nowhere"},
        {{.name = "a", .columns = two, .n_columns = 2}, FBY_E_ARG, "stacked"},
        {{.name = "a", .columns = WORD, .n_columns = 1, .layout = FBY_LAYOUT_DENSE}, FBY_E_UNSUPPORTED, "ragged"},
        {{.name = "a", .columns = X, .n_columns = 1, .layout = FBY_LAYOUT_RAGGED}, FBY_E_ARG, "ragged"},
        {{.name = "a", .columns = WORD, .n_columns = 1, .dtype = FBY_FLOAT32}, FBY_E_ARG, "bytes"},
        {{.name = "a"}, FBY_E_ARG, "no column"},
        {{.name = "", .columns = X, .n_columns = 1}, FBY_E_ARG, "no name"},
        {{.name = "a", .columns = NARROW, .n_columns = 1, .ops = FILL(1e9), .n_ops = 1}, FBY_E_ARG, "fill"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fby_loader_opts opts = {FBY_LOADER_SIZES, .outputs = &cases[i].output, .n_outputs = 1, .batch_size = 8};
        fby_loader *l = NULL;
        fby_error err = {0};
        assert_int_equal(fby_loader_open(ds, &opts, &l, &err), cases[i].status);
        if (!strstr(err.message, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
        assert_null(l);
    }
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_exactly_once_per_epoch_in_every_shuffle),
        cmocka_unit_test(without_shuffle_rows_come_in_file_order),
        cmocka_unit_test(the_order_ignores_threads_budget_prefetch_and_outputs),
        cmocka_unit_test(a_budget_below_the_minimum_is_refused_with_both_figures),
        cmocka_unit_test(values_are_what_the_outputs_say),
        cmocka_unit_test(more_panels_than_a_block_is_split_into_work),
        cmocka_unit_test(a_batch_outlives_its_loader_and_dataset),
        cmocka_unit_test(breaking_out_and_beginning_again_starts_from_the_first_batch),
        cmocka_unit_test(an_epoch_that_gave_no_batch_goes_on_when_it_is_begun_again),
        cmocka_unit_test(cancel_wakes_the_consumer_and_a_new_epoch_works),
        cmocka_unit_test(cancel_holds_before_the_first_batch_and_between_epochs),
        cmocka_unit_test(outputs_that_cannot_be_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
