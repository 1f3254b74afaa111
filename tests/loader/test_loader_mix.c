/*
 * Mixtures through the loader: rows of Parquet files, rows in memory and windows, in one order. Every value is that of the source read alone;
 * batches are the same for any number of threads, ranks and budgets, and after a resume (invariants 1 to 4).
 */
#include "support/loader_fixture.h"
#include "support/memory_dataset.h"

enum { N_SOURCES = 3, MOST = 4000, PART = 64 };

static const char *GAP[] = {"gap"};

/* What a sample holds, of any source. */
typedef struct value {
    int64_t id;
    float v;
    uint8_t word[PART];
    int64_t n_word, hits[8], n_hits;
} value;

static value alone[N_SOURCES][MOST];
static uint64_t n_alone[N_SOURCES];

#define COMMON(column)                                                                                                                     \
    {.name = "source", .from = FBY_FROM_SOURCE}, {.name = "row", .from = FBY_FROM_SAMPLE_INDEX},                                           \
        {.name = "id", .columns = ID, .n_columns = 1, .one_step = true},                                                                   \
        {.name = "v", .columns = column, .n_columns = 1, .dtype = FBY_FLOAT32, .one_step = true},                                          \
        {.name = "word", .columns = WORD, .n_columns = 1, .one_step = true},                                                               \
    {                                                                                                                                      \
        .name = "hits", .columns = HITS, .n_columns = 1, .dtype = FBY_INT64, .one_step = true                                              \
    }
static const fby_output OF_X[] = {COMMON(X)}, OF_GAP[] = {COMMON(GAP)};
enum { N_COMMON = sizeof OF_X / sizeof *OF_X };

typedef struct fixture {
    fby_dataset *ds[N_SOURCES];
    fby_samples *samples[N_SOURCES];
    fby_mix_source sources[N_SOURCES];
    fby_mix mix;
} fixture;

static fixture F;

static fby_samples *samples_of(fby_dataset *ds, fby_samples_opts opts)
{
    fby_samples *s = NULL;
    fby_error err = {0};
    opts.size = sizeof opts;
    if (fby_samples_open(ds, &opts, &s, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return s;
}

static fby_dataset *in_memory(uint32_t n, uint64_t each)
{
    uint64_t counts[64];
    fby_dataset *ds = NULL;
    fby_error err = {0};
    for (uint32_t i = 0; i < n; i++)
        counts[i] = i % 5 == 4 ? 0 : each + 3 * i;
    if (memory_dataset_open(counts, n, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static void take_values(const fby_batch *b, uint64_t i, value *out)
{
    const int64_t *word = find_tensor(b, "word", "offsets")->data, *hits = find_tensor(b, "hits", "offsets")->data;
    memset(out, 0, sizeof *out);
    out->id = ((const int64_t *)values_of(b, "id"))[i];
    out->v = ((const float *)values_of(b, "v"))[i];
    out->v = isnan(out->v) ? -1 : out->v;
    out->n_word = word[i + 1] - word[i];
    out->n_hits = hits[i + 1] - hits[i];
    assert_true(out->n_word < PART && out->n_hits <= 8);
    memcpy(out->word, (const uint8_t *)values_of(b, "word") + word[i], (size_t)out->n_word);
    memcpy(out->hits, (const int64_t *)values_of(b, "hits") + hits[i], (size_t)out->n_hits * sizeof *out->hits);
}

/* Every sample of a source, read by a loader over it alone, in file order. */
static void read_alone(uint32_t i)
{
    fby_error err = {0};
    fby_batch *b;
    fby_loader *l = open_loader(
        F.ds[i],
        (fby_loader_opts){.outputs = F.sources[i].outputs, .n_outputs = N_COMMON, .samples = F.samples[i], .shuffle = FBY_SHUFFLE_NONE});
    while (fby_loader_next(l, -1, &b, &err) == FBY_OK) {
        for (uint64_t k = 0; k < fby_batch_size(b); k++) {
            assert_int_equal(((const int64_t *)values_of(b, "source"))[k], 0);
            take_values(b, k, &alone[i][n_alone[i]++]);
        }
        fby_batch_unref(b);
    }
    assert_int_equal(n_alone[i], fby_samples_count(F.samples[i]));
    fby_loader_close(l);
}

static int set_up(void **state)
{
    if (setup_dir(state) != 0)
        return -1;
    put_files("data", 12);
    F.ds[0] = open_dataset("data", NULL);
    F.ds[1] = in_memory(30, 11);
    F.ds[2] = in_memory(12, 29);
    F.samples[0] = samples_of(F.ds[0], (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    F.samples[1] = samples_of(F.ds[1], (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    F.samples[2] = samples_of(F.ds[2], (fby_samples_opts){.kind = FBY_SAMPLES_WINDOWS, .input = 7, .output = 2});
    static const char *const names[] = {"files", "memory", "windows"};
    for (uint32_t i = 0; i < N_SOURCES; i++) {
        F.sources[i] = (fby_mix_source){names[i], F.samples[i], i == 1 ? OF_GAP : OF_X, N_COMMON};
        read_alone(i);
    }
    F.mix = (fby_mix){
        .size = sizeof F.mix, .source_size = sizeof *F.sources, .sources = F.sources, .n_sources = N_SOURCES, .stop = FBY_MIX_ALL};
    return 0;
}

static int tear_down(void **state)
{
    for (uint32_t i = 0; i < N_SOURCES; i++) {
        fby_samples_close(F.samples[i]);
        fby_dataset_close(F.ds[i]);
    }
    return teardown_dir(state);
}

static fby_status try_mix(const fby_mix *mix, fby_loader_opts opts, fby_loader **out, fby_error *err)
{
    set_sizes(&opts);
    opts.batch_size = opts.batch_size ? opts.batch_size : 16;
    opts.n_threads = opts.n_threads ? opts.n_threads : 2;
    return fby_loader_open_mix(mix, &opts, out, err);
}

static fby_loader *open_mix(const fby_mix *mix, fby_loader_opts opts)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    if (try_mix(mix, opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

/* Batches up to the epoch's end: their samples as source << 32 | row. Values are compared with those of the source alone. Owned: free(). */
static uint64_t *rest_of_epoch(fby_loader *l, uint64_t *out_n)
{
    uint64_t n = 0, *ids = malloc((fby_loader_sample_count(l) + 1) * sizeof *ids);
    fby_error err = {0};
    fby_batch *b;
    fby_status status;
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        const int64_t *source = values_of(b, "source"), *row = values_of(b, "row");
        for (uint64_t i = 0; i < fby_batch_size(b); i++) {
            value v;
            take_values(b, i, &v);
            assert_in_range(source[i], 0, N_SOURCES - 1);
            assert_true((uint64_t)row[i] < n_alone[source[i]]);
            assert_memory_equal(&v, &alone[source[i]][row[i]], sizeof v);
            ids[n++] = (uint64_t)source[i] << 32 | (uint64_t)row[i];
        }
        fby_batch_unref(b);
    }
    if (status != FBY_END)
        fail_msg("%s", err.message);
    *out_n = n;
    return ids;
}

static uint64_t *epoch_of(fby_loader *l, uint64_t epoch, uint64_t *out_n)
{
    fby_error err = {0};
    if (fby_loader_begin(l, epoch, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return rest_of_epoch(l, out_n);
}

static void every_sample_comes_once_with_the_values_that_its_source_has_alone(void **state)
{
    (void)state;
    static const fby_loader_opts WAYS[] = {{.superbatch_samples = 200, .n_threads = 1},
                                           {.superbatch_samples = 200, .n_threads = 4},
                                           {.shuffle = FBY_SHUFFLE_FULL},
                                           {.shuffle = FBY_SHUFFLE_BLOCK},
                                           {.shuffle = FBY_SHUFFLE_NONE},
                                           {.superbatch_samples = 64, .batch_size = 7, .streams = 3}};
    for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
        fby_loader *l = open_mix(&F.mix, WAYS[w]);
        for (uint64_t e = 0; e < 2; e++) {
            uint64_t n, seen[N_SOURCES][MOST] = {{0}}, *ids = epoch_of(l, e, &n);
            for (uint64_t k = 0; k < n; k++)
                seen[ids[k] >> 32][ids[k] & UINT32_MAX]++;
            for (uint32_t i = 0; i < N_SOURCES; i++)
                for (uint64_t k = 0; k < n_alone[i]; k++)
                    assert_int_equal(seen[i][k], 1);
            assert_int_equal(n, n_alone[0] + n_alone[1] + n_alone[2]);
            free(ids);
        }
        fby_loader_close(l);
    }
}

static void sources_come_as_their_weights_say_in_every_batch_and_are_drawn_anew(void **state)
{
    (void)state;
    const double weights[] = {1, 6, 1, 3, 1, 0};
    fby_mix mix = F.mix;
    mix.weights = weights;
    mix.n_epochs = 2;
    mix.stop = FBY_MIX_SAMPLES;
    mix.n_samples = 3200;
    fby_loader *l = open_mix(&mix, (fby_loader_opts){.superbatch_samples = 200, .batch_size = 64});
    assert_int_equal(fby_loader_source_count(l), N_SOURCES);
    for (uint64_t e = 0; e < 3; e++) {
        const double *w = weights + (e ? N_SOURCES : 0), sum = w[0] + w[1] + w[2];
        uint64_t n, *ids = epoch_of(l, e, &n), total[N_SOURCES] = {0};
        assert_int_equal(n, 3200);
        for (uint64_t b = 0; b < n / 64; b++) {
            double count[N_SOURCES] = {0};
            for (uint64_t k = b * 64; k < (b + 1) * 64; k++) {
                count[ids[k] >> 32]++;
                total[ids[k] >> 32]++;
            }
            for (uint32_t i = 0; i < N_SOURCES; i++)
                assert_true(fabs(count[i] - 64 * w[i] / sum) < 5);
        }
        for (uint32_t i = 0; i < N_SOURCES; i++) {
            fby_source_info info = {.size = sizeof info};
            assert_int_equal(fby_loader_source(l, i, e, &info, NULL), FBY_OK);
            assert_string_equal(info.name, F.sources[i].name);
            assert_int_equal(info.n_samples, total[i]);
            assert_int_equal(total[i], (uint64_t)(3200 * w[i] / sum));
            assert_int_equal(info.n_passes, (total[i] + n_alone[i] - 1) / n_alone[i]);
        }
        free(ids);
    }
    fby_loader_close(l);
}

static void ranks_share_the_batches_of_one(void **state)
{
    (void)state;
    uint64_t n, *one;
    fby_mix mix = F.mix;
    const double weights[] = {2, 1, 1};
    mix.weights = weights;
    mix.n_epochs = 1;
    mix.stop = FBY_MIX_FIRST;
    fby_loader *l = open_mix(&mix, (fby_loader_opts){.superbatch_samples = 150, .batch_size = 32, .tail = FBY_TAIL_WRAP, .seed = 5});
    one = epoch_of(l, 1, &n);
    fby_loader_close(l);
    for (uint32_t world = 2; world <= 4; world *= 2)
        for (uint32_t rank = 0; rank < world; rank++) {
            const uint64_t share = 32 / world;
            uint64_t own;
            l = open_mix(
                &mix,
                (fby_loader_opts){
                    .superbatch_samples = 150, .batch_size = share, .rank = rank, .world_size = world, .tail = FBY_TAIL_WRAP, .seed = 5});
            uint64_t *ids = epoch_of(l, 1, &own);
            assert_int_equal(own, n / world);
            for (uint64_t k = 0; k < own; k++)
                assert_int_equal(ids[k], one[k / share * 32 + rank * share + k % share]);
            free(ids);
            fby_loader_close(l);
        }
    free(one);
}

static void an_epoch_goes_on_where_it_was_left_with_other_threads_and_memory(void **state)
{
    (void)state;
    const fby_loader_opts opts = {.superbatch_samples = 150, .seed = 3};
    fby__random random = {.key = 11};
    fby_loader *l = open_mix(&F.mix, opts);
    const uint64_t least = report_of(l).budget_minimum_bytes, n_batches = fby_loader_batch_count(l);
    uint64_t n, *all = epoch_of(l, 2, &n);
    for (int round = 0; round < 20; round++) {
        const uint64_t at = fby__random_below(&random, n_batches + 1);
        fby_loader_opts other = opts;
        fby_loader_state state_at = {.size = sizeof state_at};
        fby_error err = {0};
        fby_batch *b;
        uint64_t left, before = 0;
        assert_int_equal(fby_loader_begin_at(l, 2, at ? at - 1 : 0, &err), FBY_OK);
        if (at) {
            assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_OK);
            fby_batch_unref(b);
        }
        before = at * 16 < n ? at * 16 : n;
        assert_int_equal(fby_loader_state_get(l, &state_at, &err), FBY_OK);
        other.n_threads = 1 + round % 4;
        other.memory_bytes = round % 2 ? 2 * least : 0;
        fby_loader *resumed = open_mix(&F.mix, other);
        if (fby_loader_state_set(resumed, &state_at, &err) != FBY_OK)
            fail_msg("%s", err.message);
        uint64_t *ids = rest_of_epoch(resumed, &left);
        assert_int_equal(left, n - before);
        assert_memory_equal(ids, all + before, left * sizeof *ids);
        free(ids);
        fby_loader_close(resumed);
    }
    free(all);
    fby_loader_close(l);
}

static void a_state_of_another_mixture_is_refused_by_name(void **state)
{
    (void)state;
    const double weights[] = {2, 1, 1};
    fby_mix mix = F.mix;
    fby_mix_source sources[N_SOURCES];
    fby_loader_state s = {.size = sizeof s};
    fby_error err = {0};
    fby_loader *l = open_mix(&F.mix, (fby_loader_opts){.superbatch_samples = 150}), *other;
    assert_int_equal(fby_loader_state_get(l, &s, &err), FBY_OK);
    mix.weights = weights;
    mix.n_epochs = 1;
    other = open_mix(&mix, (fby_loader_opts){.superbatch_samples = 150});
    assert_int_equal(fby_loader_state_set(other, &s, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "a mixture of other weights, or with another stop"));
    fby_loader_close(other);
    mix = F.mix;
    memcpy(sources, F.sources, sizeof sources);
    mix.sources = sources;
    fby_dataset *ds = in_memory(30, 12);
    sources[1].samples = samples_of(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    other = open_mix(&mix, (fby_loader_opts){.superbatch_samples = 150});
    assert_int_equal(fby_loader_state_set(other, &s, &err), FBY_E_CHANGED);
    assert_non_null(strstr(err.message, "source 'memory'"));
    fby_loader_close(other);
    fby_samples_close(sources[1].samples);
    fby_dataset_close(ds);
    fby_loader_close(l);
}

static void refused(const fby_mix *mix, fby_loader_opts opts, fby_status status, const char *what)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    assert_int_equal(try_mix(mix, opts, &l, &err), status);
    assert_null(l);
    if (!strstr(err.message, what))
        fail_msg("'%s' is not in '%s'", what, err.message);
}

static void what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    const double weights[] = {1, -1, 1};
    fby_mix mix = F.mix;
    fby_mix_source sources[N_SOURCES];
    fby_output outputs[N_COMMON];
    memcpy(sources, F.sources, sizeof sources);
    memcpy(outputs, OF_X, sizeof outputs);
    mix.sources = sources;
    refused(&mix, (fby_loader_opts){.n_parts = 2}, FBY_E_UNSUPPORTED, "a mixture has no parts");
    refused(&mix, (fby_loader_opts){.batch_elements = 50}, FBY_E_UNSUPPORTED, "a mixture has no batches by rows");
    refused(&mix, (fby_loader_opts){.memory_bytes = 100000}, FBY_E_BUDGET, "needs at least");
    sources[2].outputs = outputs;
    outputs[3].dtype = FBY_FLOAT64;
    refused(&mix, (fby_loader_opts){.seed = 1}, FBY_E_ARG, "source 'windows': output 'v' is float64, and of source 'files' float32");
    outputs[3].dtype = FBY_FLOAT32;
    outputs[3].name = "w";
    refused(&mix, (fby_loader_opts){.seed = 1}, FBY_E_ARG, "source 'windows': output 'w' stands where source 'files' has 'v'");
    sources[2].n_outputs = 2;
    refused(&mix, (fby_loader_opts){.seed = 1}, FBY_E_ARG,
            "source 'windows': there are 2 outputs, and source 'files' has 6: 'id' is only there");
    memcpy(sources, F.sources, sizeof sources);
    sources[1].outputs = (const fby_output[]){{.name = "v", .columns = (const char *[]){"nothing"}, .n_columns = 1}};
    sources[1].n_outputs = 1;
    refused(&mix, (fby_loader_opts){.seed = 1}, FBY_E_SCHEMA, "source 'memory'");
    memcpy(sources, F.sources, sizeof sources);
    sources[1].name = "files";
    refused(&mix, (fby_loader_opts){.seed = 1}, FBY_E_ARG, "two sources are named 'files'");
    sources[1].name = "memory";
    mix.weights = weights;
    mix.n_epochs = 1;
    refused(&mix, (fby_loader_opts){.seed = 1}, FBY_E_ARG, "the weight of source 'memory' is -1");
}

/* Only files that are declared immutable may be mapped: no source's engine reads the files of another. */
static void sources_that_are_read_in_different_ways_are_refused(void **state)
{
    (void)state;
    fby_mix mix = F.mix;
    fby_mix_source sources[] = {F.sources[0], F.sources[0]};
    fby_dataset *mapped = open_dataset("data", &(fby_open_opts){.size = sizeof(fby_open_opts), .io = FBY_IO_MMAP, .immutable = true});
    fby_samples *samples = samples_of(mapped, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    mix.sources = sources;
    mix.n_sources = 2;
    sources[1].name = "mapped";
    sources[1].samples = samples;
    refused(&mix, (fby_loader_opts){.seed = 1}, FBY_E_ARG,
            "source 'mapped': its files are read with io mmap, and those of 'files' with auto");
    sources[0].samples = samples;
    fby_loader *l = open_mix(&mix, (fby_loader_opts){.seed = 1});
    assert_string_equal(report_of(l).io_engine, "mmap");
    fby_loader_close(l);
    fby_samples_close(samples);
    fby_dataset_close(mapped);
}

static void notes_say_of_which_source_they_are(void **state)
{
    (void)state;
    const fby_output stacked = {.name = "stacked", .columns = (const char *[]){"id", "x"}, .n_columns = 2, .one_step = true};
    fby_mix_source sources[N_SOURCES];
    fby_mix mix = F.mix;
    memcpy(sources, F.sources, sizeof sources);
    mix.sources = sources;
    for (uint32_t i = 0; i < N_SOURCES; i++) {
        sources[i].outputs = &stacked;
        sources[i].n_outputs = 1;
    }
    fby_loader *l = open_mix(&mix, (fby_loader_opts){.seed = 1});
    for (uint32_t i = 0; i < N_SOURCES; i++) {
        char start[80];
        (void)snprintf(start, sizeof start, "source '%s': output 'stacked' stacks columns", sources[i].name);
        assert_non_null(fby_loader_note(l, i));
        assert_memory_equal(fby_loader_note(l, i), start, strlen(start));
    }
    fby_loader_close(l);
}

typedef struct trials {
    uint32_t n, fails_at;
} trials;

static fby_status count_trials(void *user, fby_batch *b, fby_error *err)
{
    trials *t = user;
    (void)err;
    return fby_batch_epoch(b) == FBY_EPOCH_TRIAL && ++t->n == t->fails_at ? FBY_E_SCHEMA : FBY_OK;
}

static void a_transform_is_tried_on_every_source(void **state)
{
    (void)state;
    trials t = {0};
    fby_loader *l = open_mix(&F.mix, (fby_loader_opts){.transform = count_trials, .transform_user = &t});
    assert_int_equal(t.n, N_SOURCES);
    fby_loader_close(l);
    t = (trials){.fails_at = 2};
    refused(&F.mix, (fby_loader_opts){.transform = count_trials, .transform_user = &t}, FBY_E_SCHEMA, "source 'memory': transform of");
}

/* With strings and lists, and nothing to spare. */
static void the_least_budget_is_enough(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3) {
        fby_loader_opts opts = {.superbatch_samples = 150, .seed = 8, .n_threads = threads};
        uint64_t n, own;
        fby_loader *l = open_mix(&F.mix, opts);
        uint64_t *all = epoch_of(l, 0, &n);
        opts.memory_bytes = report_of(l).budget_minimum_bytes;
        fby_loader_close(l);
        l = open_mix(&F.mix, opts);
        for (int again = 0; again < 2; again++) {
            uint64_t *ids = epoch_of(l, 0, &own);
            assert_int_equal(own, n);
            assert_memory_equal(ids, all, n * sizeof *ids);
            free(ids);
        }
        assert_true(report_of(l).budget_peak_bytes <= opts.memory_bytes);
        fby_loader_close(l);
        opts.memory_bytes--;
        refused(&F.mix, opts, FBY_E_BUDGET, "needs at least");
        free(all);
    }
}

static void an_error_of_reading_names_the_source(void **state)
{
    (void)state;
    fby_mix mix = F.mix;
    fby_mix_source sources[N_SOURCES];
    fby_error err = {0};
    fby_batch *b;
    fby_status status;
    put_files("broken", 3);
    fby_dataset *ds = open_dataset("broken", NULL);
    fby_samples *samples = samples_of(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    memcpy(sources, F.sources, sizeof sources);
    sources[0].samples = samples;
    mix.sources = sources;
    fby_loader *l = open_mix(&mix, (fby_loader_opts){.superbatch_samples = 150});
    assert_int_equal(truncate("broken/f01.parquet", 100), 0);
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK)
        fby_batch_unref(b);
    assert_int_equal(status, FBY_E_CHANGED);
    assert_non_null(strstr(err.message, "source 'files'"));
    assert_non_null(strstr(err.message, "broken/f01.parquet"));
    fby_loader_close(l);
    fby_samples_close(samples);
    fby_dataset_close(ds);
}

static void a_failing_allocation_while_opening_is_an_error(void **state)
{
    (void)state;
    for (uint64_t at = 1;; at++) {
        fby_loader *l = NULL;
        fby_error err = {0};
        fby__alloc_fail_at(at);
        const fby_status status = try_mix(&F.mix, (fby_loader_opts){.superbatch_samples = 150, .n_threads = 1}, &l, &err);
        fby__alloc_fail_at(0);
        fby_loader_close(l);
        if (status == FBY_OK) {
            assert_true(at > 100);
            return;
        }
        assert_int_equal(status, FBY_E_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_once_with_the_values_that_its_source_has_alone),
        cmocka_unit_test(sources_come_as_their_weights_say_in_every_batch_and_are_drawn_anew),
        cmocka_unit_test(ranks_share_the_batches_of_one),
        cmocka_unit_test(an_epoch_goes_on_where_it_was_left_with_other_threads_and_memory),
        cmocka_unit_test(a_state_of_another_mixture_is_refused_by_name),
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(sources_that_are_read_in_different_ways_are_refused),
        cmocka_unit_test(notes_say_of_which_source_they_are),
        cmocka_unit_test(a_transform_is_tried_on_every_source),
        cmocka_unit_test(the_least_budget_is_enough),
        cmocka_unit_test(an_error_of_reading_names_the_source),
        cmocka_unit_test(a_failing_allocation_while_opening_is_an_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
