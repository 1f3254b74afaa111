/*
 * forebay bench --save FILE, --against FILE: is it slower than it was? Runs of the loader and of the reference (bench_reference.c) alternate, and
 * what is saved and compared is their ratio: other programs, and a machine that is faster today than it was, change both.
 *
 * Verdicts need an interval: that of the ratio of two middles, by the bootstrap. While the margin lies inside of it, more runs follow, and so
 * they do while what is saved differs from itself by half the margin or more: every later verdict has its uncertainty.
 *
 * The middle is the mean of the middle half (interquartile mean): where another program runs half of the time, ratios lie about two values, and
 * a median jumps from one to the other. Neighbouring runs have a run of the reference in common, so they are drawn in pairs.
 */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA 1
#define REFERENCE_SECONDS 0.3        /* or what a run of the loader takes, when that is less */
#define LEAST_REFERENCE_SECONDS 0.05 /* a thread may have to wait for a core */
enum {
    MOST = 10, /* times the runs asked for, while a verdict or what is saved is open */
    FEW = 5,   /* runs say nothing of their spread */
    RESAMPLES = 2000,
    WARM_UP = 256 /* batches of each run that do not count, without --warmup */
};

/* A loader can become slower in two ways: it takes longer, or it takes more CPU, which other programs do not hide. */
enum { WALL, CPU, MEASURES };
static const char *const RATIOS[MEASURES] = {"ratios", "cpu_ratios"}, *const AGAINST[MEASURES] = {"wall", "cpu"};

typedef struct sample {
    double *ratios; /* owned: samples a unit of the reference, one a run */
    size_t n;
} sample;

typedef struct verdict {
    double ratio, low, high; /* of now to then; 95 % */
} verdict;

/** One of n, the same in every run of the program. */
static size_t draw(uint64_t *state, size_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)((*state >> 33) % n);
}

/** The mean of the middle half of values, which become sorted. */
static double middle(double *values, size_t n)
{
    const size_t cut = n / 4;
    double sum = 0;
    (void)bench_median(values, n); /* sorts them */
    for (size_t i = cut; i < n - cut; i++)
        sum += values[i];
    return sum / (double)(n - 2 * cut);
}

static double middle_drawn(const sample *s, uint64_t *state, double *space)
{
    for (size_t i = 0, at = 0; i < s->n; i++) {
        at = i % 2 ? (at + 1) % s->n : draw(state, s->n);
        space[i] = s->ratios[at];
    }
    return middle(space, s->n);
}

static double middle_of(const sample *s, double *space)
{
    memcpy(space, s->ratios, s->n * sizeof *space);
    return middle(space, s->n);
}

static verdict judge(const sample *base, const sample *now)
{
    double *space = cli_alloc((base->n + now->n) * sizeof *space), *drawn = cli_alloc(RESAMPLES * sizeof *drawn);
    uint64_t state = 1;
    verdict v = {.ratio = middle_of(now, space) / middle_of(base, space)};
    for (size_t i = 0; i < RESAMPLES; i++)
        drawn[i] = middle_drawn(now, &state, space) / middle_drawn(base, &state, space);
    (void)bench_median(drawn, RESAMPLES); /* sorts them */
    v.low = drawn[RESAMPLES / 40];
    v.high = drawn[RESAMPLES - 1 - RESAMPLES / 40];
    free(space);
    free(drawn);
    return v;
}

/* --- what was saved --------------------------------------------------------------------------------------------------------------- */

static int wrong(const char *path, const char *why) { return cli_error(CLI_FAILED, "forebay bench … --save FILE", "%s %s", path, why); }

static int read_ratios(const char *path, const json_t *list, sample *out)
{
    if (json_array_size(list) == 0)
        return wrong(path, "is not what --save wrote");
    out->ratios = cli_alloc(json_array_size(list) * sizeof *out->ratios);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const double ratio = json_number_value(json_array_get(list, i));
        if (!(ratio > 0 && isfinite(ratio)))
            return wrong(path, "is not what --save wrote");
        out->ratios[out->n++] = ratio;
    }
    return CLI_CONTINUE;
}

static int read_base(const char *path, json_t **out, sample then[MEASURES])
{
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error);
    if (!file && access(path, R_OK) != 0)
        return cli_error(CLI_FAILED, NULL, "cannot read %s: %s", path, strerror(errno));
    *out = file;
    const json_t *saved = json_object_get(file, "saved");
    int code = CLI_CONTINUE;
    if (!json_is_object(saved))
        return wrong(path, "is not what --save wrote");
    if (json_integer_value(json_object_get(saved, "schema")) != SCHEMA)
        return wrong(path, "was measured with another reference: save it anew");
    for (size_t m = 0; m < MEASURES && code == CLI_CONTINUE; m++)
        code = read_ratios(path, json_object_get(saved, RATIOS[m]), &then[m]);
    return code;
}

/** Another size of batch, another data set: what is compared must be the same. The step (--work) may have changed: it counts. */
static int check_same(const char *path, const json_t *base, const json_t *now)
{
    static const char *const PARTS[] = {"options", "dataset", "outputs"};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        json_t *then = json_object_get(base, PARTS[i]), *here = json_object_get(now, PARTS[i]);
        const char *key;
        json_t *value;
        if (!json_is_object(then) && !json_equal(then, here))
            return cli_error(CLI_FAILED, "save a new one", "bench: %s of %s are others than these", PARTS[i], path);
        json_object_foreach(here, key, value)
        {
            json_t *other = json_object_get(then, key);
            if (strcmp(key, "work_seconds") == 0 || strcmp(key, "fingerprint") == 0 || json_equal(other, value))
                continue;
            char *was = other ? json_dumps(other, JSON_ENCODE_ANY) : NULL, *is = json_dumps(value, JSON_ENCODE_ANY);
            const int code = cli_error(CLI_FAILED, "measure the same, or save a new one", "bench: %s was %s in %s, and is %s", key,
                                       was ? was : "not there", path, is ? is : "?");
            free(was);
            free(is);
            return code;
        }
    }
    return CLI_CONTINUE;
}

/* --- the runs ---------------------------------------------------------------------------------------------------------------------- */

typedef struct session {
    sample now[MEASURES];
    size_t most;                /* runs */
    double *rates, *references; /* owned: of each run */
    json_t *result;             /* owned: the last run's, for people and files */
    bench_reference *reference;
    bench_pace pace; /* of the reference, measured last */
} session;

/** The loader, then the reference; what a run is compared with is the reference before and after it. */
static int run_once(const cli_data *data, const bench_load *load, const bench_options *o, session *s)
{
    bench_result r = {0};
    fby_loader *loader = NULL;
    const bool asked = o->seconds > 0 || o->epochs || o->batches;
    const bench_limits limits = {o->seconds > 0 ? o->seconds : asked ? 0 : o->quick ? 0.5 : 1, o->epochs, o->batches};
    const double seconds = limits.seconds > 0 ? fmax(LEAST_REFERENCE_SECONDS, fmin(REFERENCE_SECONDS, limits.seconds)) : REFERENCE_SECONDS;
    bench_options warm = *o;
    warm.warmup =
        o->warmup ? o->warmup : WARM_UP; /* memory that is touched for the first time costs what the host of a machine makes it cost */
    const int code = bench_measure(data, load, &warm, limits, &r, &loader);
    if (code == CLI_CONTINUE && !s->reference) { /* this one was a warm-up: it says how many threads there are */
        s->reference = bench_reference_create(r.report.n_threads ? r.report.n_threads : 1);
        s->pace = bench_reference_run(s->reference, seconds);
        s->result = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "command", "bench", "forebay", fby_version(), "options",
                              bench_options_json(load, o, &r.report), "dataset", bench_dataset_json(data), "outputs",
                              bench_outputs_json(loader), "report", cli_report_json(&r.report, loader));
    } else if (code == CLI_CONTINUE) {
        const size_t run = s->now[WALL].n;
        cli_progress("run %s of at most %s", cli_count(run + 1), cli_count(s->most));
        const bench_pace before = s->pace, after = bench_reference_run(s->reference, seconds);
        cli_progress_end();
        s->pace = after;
        if (!bench_interrupted()) { /* else this run is not whole */
            s->rates[run] = bench_rate(&r);
            s->references[run] = (before.wall + after.wall) / 2;
            s->now[WALL].ratios[s->now[WALL].n++] = bench_rate(&r) / ((before.wall + after.wall) / 2);
            s->now[CPU].ratios[s->now[CPU].n++] = (double)r.samples / r.cpu_seconds / ((before.cpu + after.cpu) / 2);
            json_object_set_new(s->result, "report", cli_report_json(&r.report, loader));
        }
    }
    fby_loader_close(loader);
    free(r.times);
    if (code == CLI_CONTINUE && s->pace.wall <= 0)
        return cli_error(CLI_FAILED, NULL, "bench: the threads of the reference could not be started");
    return code == CLI_CONTINUE && bench_interrupted() ? CLI_INTERRUPTED : code;
}

static void add_saved(session *s)
{
    const size_t n = s->now[WALL].n;
    const double rate = bench_median(s->rates, n), reference = bench_median(s->references, n);
    json_t *saved = json_pack("{s:i, s:f}", "schema", SCHEMA, "reference_per_second", reference);
    for (size_t m = 0; m < MEASURES; m++) {
        json_t *ratios = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(ratios, json_real(s->now[m].ratios[i]));
        json_object_set_new(saved, RATIOS[m], ratios);
    }
    json_object_set_new(s->result, "samples_per_second", json_real(rate));
    json_object_set_new(s->result, "saved", saved);
}

/* With several measures, the worst counts. */
typedef enum outcome { HOLDS, UNDECIDED, SLOWER } outcome;

static outcome outcome_of(const bench_options *o, const verdict *v)
{
    return v->high < 1 - o->margin ? SLOWER : v->low <= 1 - o->margin ? UNDECIDED : HOLDS;
}

/** All measures: v is room for them. */
static outcome judge_all(const bench_options *o, const session *s, const sample then[MEASURES], verdict v[MEASURES])
{
    outcome worst = HOLDS;
    for (size_t m = 0; m < MEASURES; m++) {
        v[m] = judge(&then[m], &s->now[m]);
        const outcome of = outcome_of(o, &v[m]);
        worst = of > worst ? of : worst;
    }
    return worst;
}

/** Could what is saved differ from itself by half the margin or more? *by: by how much. */
static bool is_vague(const bench_options *o, const session *s, double *by)
{
    *by = s->now[WALL].n < FEW ? 1 : 0;
    for (size_t m = 0; o->save && m < MEASURES; m++)
        *by = fmax(*by, 1 - judge(&s->now[m], &s->now[m]).low);
    return o->save && *by >= o->margin / 2;
}

static void print(const bench_options *o, const session *s, const json_t *base, const verdict v[MEASURES])
{
    static const char *const WORDS[MEASURES] = {"as fast", "as many samples a CPU second"};
    static const char *const OUTCOMES[] = {"holds:    ", "undecided:", "slower:   "};
    const char *const colours[] = {cli_green, "", cli_red};
    double by;
    const double *rates = s->rates; /* sorted */
    const size_t n = s->now[WALL].n;
    printf("  %s%s samples/s%s   median of %s runs, %s to %s, in turn with the reference (%s units/s)\n", cli_bold,
           cli_rate(json_real_value(json_object_get(s->result, "samples_per_second"))), cli_plain, cli_count(n), cli_rate(rates[0]),
           cli_rate(rates[n - 1]), cli_rate(json_real_value(json_object_get(json_object_get(s->result, "saved"), "reference_per_second"))));
    for (size_t m = 0; base && m < MEASURES; m++) {
        const outcome of = outcome_of(o, &v[m]);
        printf("  %s%s%s %.3f times %s as in %s, a unit of the reference (95 %%: %.3f to %.3f)\n", colours[of], OUTCOMES[of], cli_plain,
               v[m].ratio, WORDS[m], cli_printable(o->against), v[m].low, v[m].high);
    }
    if (is_vague(o, s, &by))
        printf("  vague: %s differs from itself by %.1f %%, more than half of --margin %.3g%%; save it on a quieter machine, or with more "
               "--runs\n",
               cli_printable(o->save), 100 * by, 100 * o->margin);
}

/** CLI_OK, CLI_FAILED when it is slower, or the code of an error that was printed. */
static int finish(const bench_options *o, session *s, const json_t *base, const sample then[MEASURES], const cli_data *data,
                  char *const *paths, size_t n_paths)
{
    verdict v[MEASURES] = {{0}};
    outcome worst = HOLDS;
    add_saved(s);
    if (base) {
        json_t *against = json_pack("{s:f}", "margin", o->margin);
        worst = judge_all(o, s, then, v);
        for (size_t m = 0; m < MEASURES; m++)
            json_object_set_new(against, AGAINST[m], json_pack("{s:f, s:f, s:f}", "ratio", v[m].ratio, "low", v[m].low, "high", v[m].high));
        json_object_set_new(against, "slower", json_boolean(worst == SLOWER));
        json_object_set_new(against, "undecided", json_boolean(worst == UNDECIDED));
        json_object_set_new(s->result, "against", against);
    }
    if (o->save && json_dump_file(s->result, o->save, JSON_INDENT(2)) != 0)
        return cli_error(CLI_FAILED, NULL, "cannot write %s: %s", o->save, strerror(errno));
    int code = o->html ? cli_page_write(s->result, o->html) : CLI_OK;
    if (code == CLI_OK && o->source.json) {
        code = cli_print_json(json_incref(s->result), 9);
    } else if (code == CLI_OK) {
        bench_print_dataset(data, paths, n_paths);
        print(o, s, base, v);
    }
    return code == CLI_OK && worst == SLOWER ? CLI_FAILED : code;
}

int bench_against(const cli_data *data, const bench_load *load, const bench_options *o, char *const *paths, size_t n_paths)
{
    const size_t runs = o->runs ? o->runs : 10;
    session s = {.most = MOST * runs};
    s.rates = cli_alloc(s.most * sizeof *s.rates);
    s.references = cli_alloc(s.most * sizeof *s.references);
    for (size_t m = 0; m < MEASURES; m++)
        s.now[m].ratios = cli_alloc(s.most * sizeof(double));
    json_t *base = NULL;
    sample then[MEASURES] = {{0}};
    int code = o->against ? read_base(o->against, &base, then) : CLI_CONTINUE;
    if (code == CLI_CONTINUE && (code = run_once(data, load, o, &s)) == CLI_CONTINUE && base)
        code = check_same(o->against, base, s.result);
    size_t look = runs; /* now and then: every look is a chance to see what is not there */
    for (size_t i = 0; i < s.most && code == CLI_CONTINUE; i++) {
        verdict v[MEASURES];
        double by;
        if (i == look && !(base && judge_all(o, &s, then, v) == UNDECIDED) && !is_vague(o, &s, &by))
            break;
        look += i == look ? look / 4 + 1 : 0;
        code = run_once(data, load, o, &s);
    }
    const bool interrupted = code == CLI_INTERRUPTED;
    if (code == CLI_CONTINUE || (interrupted && s.now[WALL].n >= runs))
        code = finish(o, &s, base, then, data, paths, n_paths);
    code = interrupted && code == CLI_OK ? CLI_INTERRUPTED : code;
    for (size_t m = 0; m < MEASURES; m++) {
        free(s.now[m].ratios);
        free(then[m].ratios);
    }
    free(s.rates);
    free(s.references);
    json_decref(s.result);
    json_decref(base);
    bench_reference_destroy(s.reference);
    return code;
}
