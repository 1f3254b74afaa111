/* Pipeline files: what is refused and where, what they open, and that a loader of one gives what a loader by hand gives. */
#include "pipeline/pipeline.h"
#include "pipeline/pipeline_internal.h"
#include "support/loader_fixture.h"

static fby_pipeline *parse(const char *text)
{
    fby_pipeline *p = NULL;
    fby_error err = {0};
    if (fby_pipeline_parse(text, strlen(text), "p.yaml", NULL, &p, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return p;
}

static void fails(const char *text, const char *message)
{
    fby_pipeline *p = NULL;
    fby_error err = {0};
    assert_int_equal(fby_pipeline_parse(text, strlen(text), "p.yaml", NULL, &p, &err), FBY_E_ARG);
    assert_null(p);
    if (!strstr(err.message, message))
        fail_msg("'%s' is not in '%s'", message, err.message);
}

static void what_does_not_fit_is_said_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[a]", "p.yaml:1:1: the file: a map of options is expected, not a list"},
        {"outputs: {x: a}", "the section data is missing"},
        {"dat: x\n", "p.yaml:1:1: the file: unknown key 'dat': did you mean 'data'?"},
        {"data: x\nzzzzzzz: 1\n", "p.yaml:2:1: the file: unknown key 'zzzzzzz': there are version, data, mix, samples"},
        {"data: x\nversion: 2\n", "p.yaml:2:10: version: 1 is the only one"},
        {"data: {ids: [a]}\n", "p.yaml:1:7: data: paths is missing"},
        {"data: {paths: [1]}\n", "p.yaml:1:16: data: paths: a path is expected, not 1"},
        {"data: {paths: x, io: mmap}\n", "io: mmap needs immutable: true"},
        {"data: {paths: x, io: fast}\n", "p.yaml:1:22: data: io: unknown word 'fast': there are auto, threads"},
        {"data: x\nbatch_size: 8\n", "p.yaml:2:1: the file: 'batch_size' is a key of the section loader: write loader: {batch_size: …}"},
        {"data: x\nsuperbatch: 8\n", "p.yaml:2:1: the file: 'superbatch' is a key of the section loader"},
        {"data: x\nsplit: {train: 0.8}\n", "unknown key 'split': did you mean 'splits'?"},
        {"data: x\nsplit: train\n", "p.yaml:2:1: the file: 'split' is a key of the section loader: write loader: {split: …}"},
        {"data: x\nbatchsize: 8\n",
         "p.yaml:2:1: the file: unknown key 'batchsize': did you mean 'batch_size' of the section loader, loader: {batch"},
        {"data: x\nsuffle: true\n", "did you mean 'shuffle' of the section loader"},
        {"data: x\nmising_columns: fill\n", "did you mean 'missing_columns' of the section data"},
        {"data: x\nnum_workers: 4\n", "unknown key 'num_workers': there are no worker processes: loader: {threads: 8}"},
        {"data: x\nwindows: {input: 3}\n", "unknown key 'windows': it is a form of samples: samples: {windows: {input"},
        {"data: x\ncolumns: [a]\n", "unknown key 'columns': the section outputs names columns"},
        {"data: x\nweights: {a: 1}\n", "unknown key 'weights': it is a key of the section mix"},
        {"missing_columns: fill\ndata: x\n", "p.yaml:1:1: the file: 'missing_columns' is a key of the section data: write data: {missing_"},
        {"data: {paths: x, mising_columns: fill}\n", "p.yaml:1:18: data: unknown key 'mising_columns': did you mean 'missing_columns'?"},
        {"data: {paths: x, missing_columns: yes}\n", "data: missing_columns: unknown word 'yes': there are error, fill"},
        {"data: {paths: x, immutable: yes}\n", "data: immutable: true or false is expected, not the text 'yes'"},
        {"data: {paths: x, fill_missing: true}\n", "p.yaml:1:18: data: unknown key 'fill_missing': there are paths"},
        {"data: x\nlookups: {a: {paths: y, key: k, fill: 0}}\n", "unknown key 'fill'"},
        {"data: x\noutputs: {x: {columns: a, fill: 0}}\n", "p.yaml:2:27: output 'x': unknown key 'fill'"},
        {"data: x\noutputs: {x: {from: missing, columns: a}}\n", "unknown word 'missing': did you mean 'is_missing'?"},
        {"data: x\noutputs: {x: {columns: a, value: 1}}\n", "value is of literals alone"},
        {"data: {paths: x, threads: 0}\n", "data: threads: 0 is below 1"},
        {"data: x\nsamples: cols\n", "p.yaml:2:10: samples: rows, or a map"},
        {"data: x\nsamples: {windows: {input: 3}, groups: k}\n", "rows, windows, groups or cells: one of them"},
        {"data: x\nsamples: {windows: {stride: 2}}\n", "input and output are both 0"},
        {"data: x\nsamples: {windows: {input: 2, step: 1}}\n", "step needs time"},
        {"data: x\nsamples: {windows: {input: 2, time: t, step: 1 fortnight}}\n",
         "p.yaml:2:46: windows: step: '1 fortnight' is no duration"},
        {"data: x\nsamples: {groups: {}}\n", "key is missing"},
        {"data: x\nsamples: {groups: {first: a}}\n", "columns of a table, and none is given"},
        {"data: x\nsamples: {select: {values: [1, a]}}\n", "p.yaml:2:32: select: values: whole numbers or texts are expected"},
        {"data: x\nsamples: {limit: 1.5}\n", "a fraction is above 0 and at most 1"},
        {"data: x\nsamples: {oversample: {values: [1], factors: [2, 3]}}\n", "2 factors for 1 values"},
        {"data: x\nsplits: {train: 0.7, val: 0.4}\n", "p.yaml:2:27: splits: val: fractions are above 0 and together at most 1"},
        {"data: x\nsplits: {train: [a], val: 0.4}\n", "lists of keys go with by: groups"},
        {"data: x\nsplits: {train: 0.4, by: time}\n", "by: time of samples that are no windows needs time"},
        {"data: x\nsplits: {by: files}\n", "names and their fractions are missing"},
        {"data: x\nlookups: {a: {paths: y}}\n", "p.yaml:2:14: lookup 'a': key is missing"},
        {"data: x\nlookups: {a: {keys: [1], columns: [u], values: [[1, 2]]}}\n", "values: 2 numbers for 1 columns"},
        {"data: x\nmoments: {m: {columns: [a], split: train}}\n", "p.yaml:2:36: moments 'm': there is no split 'train'"},
        {"data: x\noutputs: {}\n", "outputs: a map of names to columns is expected, not an empty one"},
        {"data: x\noutputs: {x: 3}\n", "p.yaml:2:14: output 'x': a column, a list of columns, or a map"},
        {"data: x\noutputs: {x: {dtype: float32}}\n", "output 'x': columns is missing"},
        {"data: x\noutputs: {x: {from: sample_index, columns: a}}\n", "it is of no columns"},
        {"data: x\noutputs: {x: {from: lit}}\n", "a literal needs value"},
        {"data: x\noutputs: {x: {columns: a, dtype: float31}}\n", "unknown word 'float31': did you mean 'float32'?"},
        {"data: x\noutputs: {x: {columns: a, steps: [5, 5]}}\n", "p.yaml:2:38: output 'x': steps: 5 is below 6"},
        {"data: x\noutputs: {x: {columns: a, steps: [0, 5], at: 1}}\n", "steps, at and first exclude each other"},
        {"data: x\noutputs: {x: {columns: a, ops: [clop: 1]}}\n", "p.yaml:2:33: output 'x': unknown word 'clop': did you mean 'clip'?"},
        {"data: x\noutputs: {x: {columns: [a, b], ops: [scale: [1, 2, 3]]}}\n", "3 numbers for 2 columns"},
        {"data: x\noutputs: {x: {columns: a, ops: [log: -1]}}\n", "eps is a number above 0"},
        {"data: x\noutputs: {x: {columns: a, ops: [{clip: [1, 2], log: 1}]}}\n", "and there are 2: begin each with '- '"},
        {"data: x\nmoments: {mm: {columns: [a]}}\noutputs: {x: {columns: a, ops: [standardize: m]}}\n",
         "there are no moments 'm': did you mean 'mm'?"},
        {"data: x\noutputs: {x: {lookup: t, on: a}}\n", "p.yaml:2:23: output 'x': there is no lookup 't'"},
        {"data: x\noutputs: {x: {columns: a, on: b}}\n", "no lookup is named"},
        {"data: x\noutputs: {x: {columns: a, bits: 8, one_hot: 3}}\n", "made in two ways at once"},
        {"data: x\noutputs: {x: {columns: a, bits: {n: 0}}}\n", "n: 0 is below 1"},
        {"data: x\noutputs: {x: {columns: a, ngrams: {n: 2, vocabulary: [ab, c]}}}\n", "'c' of the vocabulary has not 2 characters"},
        {"data: x\noutputs: {x: {columns: [k, t], group_channels: {channels: [min: q], max_groups: 3}}}\n",
         "'q' is none of the output's columns"},
        {"data: x\noutputs: {x: {columns: a, after: [channel_last]}}\n", "did you mean 'channels_last'?"},
        {"data: x\noutputs: {x: {columns: a, padded: {to_max: true}}}\n", "to_max needs max_rows"},
        {"data: x\noutputs: {x: {columns: a, padded: true, ragged: {max_rows: 3}}}\n", "ragged and padded exclude each other"},
        {"data: x\noutputs: {x: {columns: a, layout: dense, ragged: true}}\n", "output 'x': ragged, and another layout"},
        {"data: x\noutputs: {x: {columns: a, ragged: {max_rows: 0}}}\n", "max_rows: 0 is below 1"},
        {"data: x\noutputs: {x: {columns: a, ragged: {max_rows: 3, keep: last}}}\n", "unknown word 'last': there are random, first"},
        {"data: x\noutputs: {x: {columns: a, ragged: {pad: 3}}}\n", "unknown key 'pad'"},
        {"data: x\nloader: {batch_size: 0}\n", "p.yaml:2:22: loader: batch_size: 0 is below 1"},
        {"data: x\nloader: {batch_size: -3}\n", "-3 is below 1"},
        {"data: x\nloader: {batch_size: 1, slow_next_share: 0.0}\n", "loader: slow_next_share: 0 is not above 0"},
        {"data: x\nloader: {batch_size: 3, memory: 8G}\n", "ambiguous: write '8GiB' (1024-based) or '8GB'"},
        {"data: x\nloader: {batch_size: 3, superbatch: 1.5 blocks}\n", "a whole number of blocks"},
        {"data: x\nloader: {batch_size: 3, shuffle: some}\n", "p.yaml:2:34: loader: shuffle: unknown word 'some': did you mean 'none'?"},
        {"data: x\nsamples: {select: {column: t, low: 2001-02-29}}\n", "p.yaml:2:36: select: low: a number, or a date (2001-01-31, "},
        {"data: x\noutputs: {x: {columns: a, map: {class_map: 3}}}\n", "p.yaml:2:44: output 'x': map: class_map: the name of an attribute"},
        {"data: x\noutputs: {x: {columns: a, map: {class_map: true, classes: [b]}}}\n", "output 'x': map: classes: a map is expected"},
        {"data: x\nloader: {batch_size: 3, part: 1/0}\n", "loader: part: '1/0': write '1000 files'"},
        {"data: x\nloader: {batch_size: 3, part_key: basin}\n", "p.yaml:2:35: loader: part_key names the keys that parts are made of"},
        {"data: x\nloader: {batch_size: 3, rank: 2}\n", "rank 2 is not below world_size, which is 1"},
        {"data: x\nloader: {batch_size: 3, local_world_size: 2}\n", "local_world_size 2 is above world_size, which is 1"},
        {"data: x\nloader: {batch_size: 3, seed: 18446744073709551616}\n", "too large"},
        {"data: x\nmix: {sources: {a: x}}\n", "p.yaml:1:7: data: a mixture has data by source"},
        {"mix: {weights: {a: 1}}\n", "p.yaml:1:6: mix: sources is missing"},
        {"mix: {sorces: {a: x}}\n", "p.yaml:1:7: mix: unknown key 'sorces': did you mean 'sources'?"},
        {"mix: {sources: [a]}\n", "p.yaml:1:16: mix: sources: a map of names to sources is expected, not a list"},
        {"mix: {sources: {}}\n", "mix: sources: a map of names to sources is expected, not an empty one"},
        {"mix:\n  sources:\n    a: {samples: rows}\n", "p.yaml:3:8: the section data is missing"},
        {"mix:\n  sources:\n    a: {data: x, outptus: {}}\n", "p.yaml:3:18: source 'a': unknown key 'outptus': did you mean 'outputs'?"},
        {"mix: {sources: {a: x, model: y}, weights: {a: 1, modle: 1}}\n",
         "p.yaml:1:50: mix: weights: unknown key 'modle': did you mean 'model'?"},
        {"mix: {sources: {a: x, b: y}, weights: {a: 1}}\n", "p.yaml:1:39: mix: weights: source 'b' is missing: name every source"},
        {"mix: {sources: {a: x, b: y}, weights: {a: 1, b: -1}}\n", "p.yaml:1:49: mix: weights: a number from 0 on is expected, not -1"},
        {"mix: {sources: {a: x, b: y}, weights: {a: 0, b: 0}}\n", "mix: weights: all are 0"},
        {"mix: {sources: {a: x}, weights: 1}\n", "p.yaml:1:33: mix: weights: a map of all sources to numbers is expected"},
        {"mix: {sources: {a: x}, weights: []}\n", "mix: weights: the list is empty"},
        {"mix: {sources: {a: x}, stop: last}\n", "p.yaml:1:30: mix: stop: unknown word 'last': there are first, all"},
        {"mix: {sources: {a: x}, stop: 0}\n", "mix: stop: 0 is below 1"},
        {"mix: {sources: {a: x}, stop: 1.5}\n", "mix: stop: first, all or a number of samples is expected, not 1.5"},
        {"mix:\n  sources:\n    a: {data: x, splits: {train: 0.5}}\n    b: {data: y}\n",
         "p.yaml:4:8: source 'b': the split 'train' is of the first and not of this source"},
        {"mix: {sources: {a: x}}\nmoments: {m: {columns: [v], by: k}}\n",
         "moments 'm': by a key they are of one data set: write them into the "
         "section moments of every source whose outputs use them (mix: {sources: {a: {moments: …}}})"},
        {"mix: {sources: {a: {data: x, moments: {m: {columns: [v], by: k}}}, b: y}}\noutputs: {x: {columns: v, standardize: m}}\n",
         "output 'x': there are no moments 'm' of source 'b' (mix: {sources: {b: {moments: …}}}), nor of the file"},
        {"mix: {sources: {a: x}}\nmoments: {m: {columns: [v], split: train}}\n", "moments 'm': there is no split 'train'"},
        {"mix: {sources: {a: x}}\nlookups: {t: {distinct: k}}\n", "p.yaml:2:14: lookup 't': which data?"},
        {"mix: {sources: {a: x}}\nloader: {batch_size: 3, split: train}\n", "loader: there is no split 'train'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fails(cases[i].text, cases[i].message);
}

static void options_say_what_the_file_says(void **state)
{
    (void)state;
    fby_pipeline *p = parse("data: {paths: {a: x, b: /y}, axis: time, axes: 2}\n"
                            "samples: {windows: {input: 3, output: 1, by: gauge_id}}\n"
                            "splits: {train: 0.7, val: 0.2, test: 0.1, by: time}\n"
                            "loader: {batch_size: 7, seed: 18446744073709551615, shuffle: false, superbatch: 50 blocks, memory: 1.5GiB, "
                            "tail: wrap, part: 30 files}\n");
    assert_int_equal(p->data.n_sources, 2);
    assert_string_equal(p->data.sources[0].name, "a");
    assert_string_equal(p->data.sources[1].path, "/y");
    assert_string_equal(p->data.opts.dimension, "time");
    assert_int_equal(p->data.opts.sample_axes, 2);
    assert_string_equal(p->samples.opts.key, "gauge_id");
    assert_true(p->split.kind == FBY_SPLIT_TIME && p->splits[2].split.fraction == 0.1);
    assert_string_equal(fby_pipeline_split(p, 2), "test");
    assert_null(fby_pipeline_split(p, 3));
    assert_true(p->loader.seed == UINT64_MAX);
    assert_int_equal(p->loader.shuffle, FBY_SHUFFLE_NONE);
    assert_int_equal(p->loader.superbatch_blocks, 50);
    assert_true(p->loader.memory_bytes == 3ull << 29);
    assert_int_equal(p->loader.tail, FBY_TAIL_WRAP);
    assert_int_equal(p->loader.part_files, 30);
    fby_pipeline_close(p);
}

static void a_mixture_has_a_pipeline_for_each_source(void **state)
{
    (void)state;
    fby_pipeline *p = parse("mix:\n"
                            "  sources:\n"
                            "    a: {data: x, samples: {windows: {input: 3}}}\n"
                            "    b: {data: [y, z], outputs: {v: w}}\n"
                            "  weights: [{a: 3, b: 1}, {b: 2, a: 0}]\n"
                            "  stop: 500\n"
                            "samples: {limit: 0.5}\n"
                            "splits: {train: 0.7, test: 0.3}\n"
                            "outputs: {v: u}\n"
                            "loader: {batch_size: 7, split: test}\n");
    const char *name = NULL;
    fby_dataset *ds = NULL;
    fby_samples *samples = NULL;
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    fby_error err = {0};
    const fby_pipeline *a = fby_pipeline_source(p, 0, &name), *b = fby_pipeline_source(p, 1, NULL);
    assert_string_equal(name, "a");
    assert_null(fby_pipeline_source(p, 2, NULL));
    assert_int_equal(a->samples.opts.kind, FBY_SAMPLES_WINDOWS);
    assert_null(a->samples.choices); /* its own section samples, not that of the file */
    assert_non_null(b->samples.choices);
    assert_int_equal(b->data.n_sources, 2);
    assert_string_equal(a->outputs[0].columns[0], "u");
    assert_string_equal(b->outputs[0].columns[0], "w");
    assert_string_equal(fby_pipeline_split(p, 1), "test");
    const double weights[] = {3, 1, 0, 2};
    assert_int_equal(p->mix.n_epochs, 2);
    assert_memory_equal(p->mix.weights, weights, sizeof weights);
    assert_true(p->mix.stop == FBY_MIX_SAMPLES && p->mix.n_samples == 500);
    assert_int_equal(fby_pipeline_dataset(p, &ds, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "p.yaml: the file describes a mixture: each of its sources has data of its own"));
    assert_int_equal(fby_pipeline_samples(p, NULL, &samples, &err), FBY_E_ARG);
    assert_int_equal(fby_pipeline_outputs(p, &opts, &err), FBY_E_ARG);
    fby_pipeline_close(p);
}

static void overrides_take_the_place_of_what_is_there(void **state)
{
    (void)state;
    static const char text[] = "data: x\noutputs: {a.b: c}\nloader: {batch_size: 7}\n";
    const char *good[] = {"loader.batch_size=64", "loader.shuffle=full", "outputs.a.b=[c, d]", "samples.windows={input: 3}"};
    fby_pipeline_opts opts = {.size = sizeof opts, .overrides = good, .n_overrides = 4, .base_dir = "/base"};
    fby_pipeline *p = NULL;
    fby_error err = {0};
    assert_int_equal(fby_pipeline_parse(text, sizeof text - 1, "p.yaml", &opts, &p, &err), FBY_OK);
    assert_int_equal(p->loader.batch_size, 64);
    assert_int_equal(p->loader.shuffle, FBY_SHUFFLE_FULL);
    assert_int_equal(p->n_outputs, 1);
    assert_int_equal(p->outputs[0].n_columns, 2);
    assert_int_equal(p->samples.opts.input, 3);
    assert_string_equal(p->data.sources[0].path, "/base/x");
    fby_pipeline_close(p);
    static const struct {
        const char *text, *message;
    } bad[] = {{"loader", "loader.batch_size=64"},
               {"loader.batch_size=x", "p.yaml, a value in place of the file's: loader: batch_size: a whole number"},
               {"loader.batch_size.x=1", "is no map"},
               {"loader.batchsize=1", "did you mean 'batch_size'?"},
               {"loader.seed=[", "loader.seed=["}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        opts.overrides = &bad[i].text;
        opts.n_overrides = 1;
        assert_int_not_equal(fby_pipeline_parse(text, sizeof text - 1, "p.yaml", &opts, &p, &err), FBY_OK);
        if (!strstr(err.message, bad[i].message))
            fail_msg("'%s' is not in '%s'", bad[i].message, err.message);
    }
}

/* --- over files: tests/golden/loader, copied into the working directory ------------------------------------------------------------- */

/* What a pack keeps: the file, and as comments what was changed of it. */
static void the_text_is_the_file_and_what_was_changed_of_it(void **state)
{
    (void)state;
    static const char file[] = "data: x\nsplits: {a: 0.5, b: 0.5}\nloader: {batch_size: 7, split: a}";
    const char *const overrides[] = {"loader.batch_size=8", "data=y"};
    static const struct {
        const char *split, *more;
        size_t n_overrides;
    } cases[] = {
        {"a", "", 0},
        {"b", "\n# --split b\n", 0},
        {NULL, "\n# all samples, of no split\n", 0},
        {"a", "\n# --set loader.batch_size=8\n# --set data=y\n", 2},
        {"b", "\n# --set loader.batch_size=8\n# --split b\n", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fby_pipeline_opts opts = {.size = sizeof opts, .overrides = overrides, .n_overrides = cases[i].n_overrides};
        fby_pipeline *p = NULL;
        const char *text = NULL;
        char want[300];
        assert_int_equal(fby_pipeline_parse(file, sizeof file - 1, "p.yaml", &opts, &p, NULL), FBY_OK);
        assert_int_equal(fby_pipeline_text(p, cases[i].split, &text, NULL), FBY_OK);
        (void)snprintf(want, sizeof want, "%s%s", file, cases[i].more);
        assert_string_equal(text, want);
        fby_pipeline_close(p);
    }
    fby_pipeline *p = parse("mix: {sources: {a: x, b: y}}\n");
    const char *text = NULL;
    assert_int_equal(fby_pipeline_text(fby_pipeline_source(p, 1, NULL), NULL, &text, NULL), FBY_OK);
    assert_string_equal(text, "mix: {sources: {a: x, b: y}}\n");
    fby_pipeline_close(p);
    fby_error err = {0};
    assert_int_equal(fby_pipeline_open(NULL, NULL, &p, &err), FBY_E_ARG);
}

static void write_text(const char *path, const char *text) { write_bytes(path, text, strlen(text)); }

static void put_data(void)
{
    for (int i = 0; i < 3; i++) {
        char path[64];
        assert_true(mkdir("data", 0777) == 0 || errno == EEXIST);
        (void)snprintf(path, sizeof path, "data/%s.parquet", GOLDEN[i]);
        put_golden(path, GOLDEN[i]);
    }
}

static fby_pipeline *open_file(const char *text)
{
    fby_pipeline_opts opts = {.size = sizeof opts, .cache_dir = ""};
    fby_pipeline *p = NULL;
    fby_error err = {0};
    write_text("p.yaml", text);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/p.yaml", g_dir); /* data are found beside it, wherever the program runs */
    if (fby_pipeline_open(path, &opts, &p, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return p;
}

static void equal_epochs(fby_loader *a, fby_loader *b)
{
    fby_error err = {0};
    uint64_t n = 0;
    for (;; n++) {
        fby_batch *x = NULL, *y = NULL;
        fby_status s = fby_loader_next(a, -1, &x, &err), t = fby_loader_next(b, -1, &y, &err);
        if (s != t || (s != FBY_OK && s != FBY_END))
            fail_msg("%s", err.message);
        if (s == FBY_END)
            break;
        assert_int_equal(fby_batch_tensor_count(x), fby_batch_tensor_count(y));
        for (size_t i = 0; i < fby_batch_tensor_count(x); i++) {
            const fby_tensor *u = fby_batch_tensor(x, i), *v = fby_batch_tensor(y, i);
            assert_string_equal(u->output, v->output);
            assert_int_equal(u->bytes, v->bytes);
            assert_memory_equal(u->data, v->data, u->bytes);
        }
        fby_batch_unref(x);
        fby_batch_unref(y);
    }
    assert_true(n > 1);
}

static void a_loader_of_a_file_gives_what_one_by_hand_gives(void **state)
{
    (void)state;
    put_data();
    fby_pipeline *p = open_file("data: data/*.parquet\n"
                                "splits: {train: 0.67, rest: 0.33, seed: 5}\n"
                                "moments: {m: {columns: [id, x], split: train}}\n"
                                "outputs:\n"
                                "  xn: {columns: [x, n], dtype: float64, ops: [fill_missing: -1]}\n"
                                "  gone: {from: is_missing, columns: x}\n"
                                "  s: {columns: [id, x], ops: [standardize: m, clip: [-1, 1]], dtype: float32}\n"
                                "  word: word\n"
                                "  row: {from: row_index}\n"
                                "loader: {batch_size: 64, seed: 3, memory: 64MiB}\n");
    fby_loader *loader = NULL, *by_hand = NULL;
    fby_samples *train = NULL, *all = NULL, *mine = NULL;
    fby_dataset *ds = NULL;
    fby_error err = {0};
    if (fby_pipeline_loader(p, "train", &loader, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(fby_pipeline_dataset(p, &ds, &err), FBY_OK);
    assert_int_equal(fby_pipeline_samples(p, NULL, &all, &err), FBY_OK);
    assert_int_equal(fby_pipeline_samples(p, "train", &train, &err), FBY_OK);
    const fby_split_opts split = {.size = sizeof split, .seed = 5};
    assert_int_equal(fby_samples_split(all, &split, &(fby_split){.fraction = 0.67}, 1, &mine, &err), FBY_OK);
    assert_true(fby_samples_count(mine) < fby_samples_count(all));

    static const char *const IDX[] = {"id", "x"};
    fby_moments m[2];
    fby_fit_opts fit = {FBY_FIT_SIZES, .columns = IDX, .n_columns = 2, .samples = mine};
    assert_int_equal(fby_fit_moments(ds, &fit, m, &err), FBY_OK);
    double mean[] = {m[0].mean, m[1].mean}, std[] = {m[0].std, m[1].std};
    fby_op ops[] = {{.kind = FBY_OP_STANDARDIZE, .a_each = mean, .b_each = std}, {.kind = FBY_OP_CLIP, .a = -1, .b = 1}};
    fby_output outputs[] = {{.name = "xn", .columns = XN, .n_columns = 2, .dtype = FBY_FLOAT64, .ops = FILL(-1), .n_ops = 1},
                            {.name = "gone", .from = FBY_FROM_IS_MISSING, .columns = X, .n_columns = 1},
                            {.name = "s", .columns = IDX, .n_columns = 2, .dtype = FBY_FLOAT32, .ops = ops, .n_ops = 2},
                            {.name = "word", .columns = WORD, .n_columns = 1},
                            {.name = "row", .from = FBY_FROM_ROW_INDEX}};
    fby_loader_opts opts = {FBY_LOADER_SIZES, .outputs = outputs,       .n_outputs = 5, .batch_size = 64,
                            .seed = 3,        .memory_bytes = 64 << 20, .samples = mine};
    if (fby_loader_open(ds, &opts, &by_hand, &err) != FBY_OK)
        fail_msg("%s", err.message);
    fby_pipeline_close(p); /* what was taken from it stays */
    equal_epochs(loader, by_hand);
    fby_loader_close(loader);
    fby_loader_close(by_hand);
    fby_samples_close(mine);
}

static void errors_of_the_data_name_the_place_in_the_file(void **state)
{
    (void)state;
    put_data();
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"data: nowhere/*.parquet\nloader: {batch_size: 4}\n", "p.yaml:1:7: data: "},
        {"data: data\noutputs: {ok: id, x: idd}\nloader: {batch_size: 4}\n", "p.yaml:2:19: output 'x'"},
        {"data: data\nsamples: {windows: {input: 100000000}}\nloader: {batch_size: 4}\n", "p.yaml:2:10: samples: "},
        {"data: data\nsamples: {select: {column: idd, values: [1]}}\nloader: {batch_size: 4}\n", "p.yaml:2:19: select: "},
        {"data: data\nmoments: {m: {columns: [idd]}}\noutputs: {x: {columns: idd, ops: [standardize: m]}}\nloader: {batch_size: 4}\n",
         "p.yaml:2:14: moments 'm': "},
        {"data: data\nlookups: {t: {paths: t.csv, key: nokey}}\noutputs: {x: {lookup: t, on: id}}\nloader: {batch_size: 4}\n",
         "p.yaml:2:14: lookup 't': "},
        {"data: data\nlookups: {t: {paths: t.csv, key: k}}\noutputs: {x: {lookup: t, on: id, columns: w}}\nloader: {batch_size: 4}\n",
         "p.yaml:3:23: output 'x': the lookup 't' has no column 'w'"},
        {"data: data\n", "p.yaml: the section loader is missing"},
        {"data: data\nloader: {seed: 1}\n", "p.yaml:2:9: loader: batch_size is missing"},
    };
    write_text("t.csv", "k,v\n1,2.5\n2,3.5\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fby_pipeline *p = open_file(cases[i].text);
        fby_loader *loader = NULL;
        fby_error err = {0};
        assert_int_not_equal(fby_pipeline_loader(p, NULL, &loader, &err), FBY_OK);
        if (!strstr(err.message, cases[i].message))
            fail_msg("'%s' is not in '%s'", cases[i].message, err.message);
        assert_int_equal(fby_pipeline_loader(p, "no", &loader, &err), FBY_E_ARG);
        assert_int_not_equal(fby_pipeline_loader(p, NULL, &loader, NULL), FBY_OK); /* and again, without an error */
        fby_pipeline_close(p);
    }
}

/* Every kind of output that waits for nothing. */
static const char KINDS[] =
    "data: data\n"
    "lookups: {small: {keys: [1, 2, 3], columns: [u, v], values: [[0.5, 1], [.nan, 2], [3, 4.25]]}, named: {keys: [a, b]},\n"
    "  pair: {keys: [[a, 1], [b, -2]], columns: [u], values: [[1], [2]]}}\n"
    "outputs:\n"
    "  a: {columns: [x], steps: [0, 3], ops: [scale: 2, offset: [1.5], clip: {low: 0}, log10: {eps: 1e-6}, log1p, log, fill_nan: 0, "
    "fill_missing: [3]]}\n"
    "  b: {columns: x, at: 2, dtype: bfloat16, ops: {fill_null: -1}}\n"
    "  c: {lookup: small, on: n, columns: v, default: -1}\n"
    "  d: {lookup: small, on: n, columns: [v, u]}\n"
    "  e: {lookup: small, on: n}\n"
    "  f: {lookup: named, on: word}\n"
    "  f2: {lookup: small, on: n, columns: []}\n"
    "  g: {columns: bits, bits: {n: 64, encoding: packed_little}}\n"
    "  h: {columns: n, one_hot: {n_classes: 4, ignore_unknown: true}}\n"
    "  i: {columns: n, map: {values: [1, 5], to: [0, 2.5], default: 7}}\n"
    "  j: {columns: word, map: [w1, w2]}\n"
    "  k: {columns: [word, n], ngrams: {n: 2, vocabulary: {products: [[ab, 'é1'], [\"01\", \"01\"]]}, lower: true, strip: true, separator: "
    "' ', "
    "delete: './', drop_spaces: true, missing: ''}}\n"
    "  l: {columns: [x, n], expression: x + log10(n)}\n"
    "  m: {columns: [x, n], standardize: {table: small, by: id, keep_unknown: true, fill_nan: 0}}\n"
    "  n: {columns: [pairs, count], symmetric: {size: 8, count_is_pairs: true}}\n"
    "  o: {columns: [id, t, t, q], group_channels: {channels: [count, key, first_rows: t, first_rows: q, std: q], first_rows: 3, "
    "max_groups: 8, pad: "
    "-1, "
    "positions: small}, column_ops: [[], [], [scale: 2], [log1p]]}\n"
    "  p: {columns: h, crop: {length: 5, random: true}}\n"
    "  q: {columns: h, padded: {max_rows: 64, multiple_of: 8, to_max: true, lengths: true, pad: -2}, optional: true}\n"
    "  r: {columns: h, ragged: {max_rows: 9}}\n"
    "  s: {columns: m, reshape: [-1, 3], after: [channels_last, forward_fill, {spec_augment: {time_masks: 2, max_time: 4, freq_masks: 1, "
    "max_freq: 3, value: -1}}]}\n"
    "  t: {from: segment_ids}\n"
    "  u: {from: lit, value: 2.5, dtype: float16}\n"
    "  v: {from: is_missing, columns: [x, n]}\n"
    "  vn: {from: is_null, columns: [x, n]}\n"
    "  w: {lookup: pair, on: [word, n], columns: u}\n"
    "loader: {batch_size: 4}\n";

static void save(fby_pipeline *p, const char *path)
{
    fby_loader_opts outputs = {FBY_LOADER_SIZES};
    fby_error err = {0};
    if (fby_pipeline_outputs(p, &outputs, &err) != FBY_OK ||
        fby_tree_write(fby_pipeline_tree(p), &outputs, NULL, NULL, 0, path, &err) != FBY_OK)
        fail_msg("%s", err.message);
}

static void outputs_that_are_written_read_back(void **state)
{
    (void)state;
    fby_pipeline *p = parse(KINDS), *again = NULL;
    fby_error err = {0};
    save(p, "one.yaml");
    if (fby_pipeline_open("one.yaml", NULL, &again, &err) != FBY_OK)
        fail_msg("%s", err.message);
    save(again, "two.yaml");
    size_t n, m;
    uint8_t *one = read_bytes("one.yaml", &n), *two = read_bytes("two.yaml", &m);
    assert_int_equal(n, m);
    assert_memory_equal(one, two, n);
    free(one);
    free(two);
    assert_int_equal(p->n_outputs, again->n_outputs);
    for (size_t i = 0; i < p->n_outputs; i++) {
        const fby_output *a = &p->outputs[i], *b = &again->outputs[i];
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->n_columns, b->n_columns);
        for (size_t c = 0; c < a->n_columns; c++)
            assert_string_equal(a->columns[c], b->columns[c]);
        assert_int_equal(a->keep_axis, b->keep_axis);
        assert_int_equal(a->one_step, b->one_step);
        assert_int_equal(a->layout, b->layout);
        assert_int_equal(a->from, b->from);
        assert_int_equal(a->make ? (int)a->make->kind : 0, b->make ? (int)b->make->kind : 0);
        assert_true(a->pad == b->pad && a->value == b->value && a->max_rows == b->max_rows);
    }
    /* Grams of a product, the last alphabet changing fastest. */
    const fby_make_ngrams *g = &p->outputs[11].make->ngrams;
    assert_int_equal(g->n_vocabulary, 8);
    assert_string_equal(g->vocabulary[0], "aé");
    assert_string_equal(g->vocabulary[3], "b1");
    assert_string_equal(g->vocabulary[6], "10");
    const fby_make_lookup *d = &p->outputs[3].make->lookup;
    assert_int_equal(d->columns[0], 1);
    assert_int_equal(d->columns[1], 0);
    assert_true(isnan(fby_lookup_value(d->table, 1, 0)));
    const fby_output *w = &again->outputs[again->n_outputs - 1];
    assert_string_equal(w->columns[1], "n");
    assert_int_equal(
        fby_lookup_find_keys(w->make->lookup.table, (fby_lookup_keys[]){{.texts = (const char *[]){"b"}}, {.numbers = (int64_t[]){-2}}}, 0),
        1);
    fby_pipeline_close(again);
    fby_pipeline_close(p);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        fby_pipeline *p = NULL;
        fby_loader_opts outputs = {FBY_LOADER_SIZES};
        fby_error err = {0};
        const char *overrides[] = {"loader.seed=3"};
        fby_pipeline_opts opts = {.size = sizeof opts, .overrides = overrides, .n_overrides = 1, .cache_dir = "c", .base_dir = "b"};
        fby__alloc_fail_at(n);
        fby_status status = fby_pipeline_parse(KINDS, sizeof KINDS - 1, "p.yaml", &opts, &p, &err);
        if (status == FBY_OK)
            status = fby_pipeline_outputs(p, &outputs, &err);
        if (status == FBY_OK)
            status = fby_tree_write(fby_pipeline_tree(p), &outputs, NULL, NULL, 0, "out.yaml", &err);
        char *text = NULL;
        if (status == FBY_OK)
            status = fby__outputs_text(outputs.outputs, outputs.n_outputs, &text, &err);
        fby__alloc_fail_at(0);
        assert_int_equal(status == FBY_OK, text != NULL);
        fby__free(text);
        fby_pipeline_close(p);
        if (status == FBY_OK)
            break;
        assert_int_equal(status, FBY_E_NOMEM);
        assert_true(n < 100000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_said_with_its_place),
        cmocka_unit_test(options_say_what_the_file_says),
        cmocka_unit_test(a_mixture_has_a_pipeline_for_each_source),
        cmocka_unit_test(overrides_take_the_place_of_what_is_there),
        cmocka_unit_test(the_text_is_the_file_and_what_was_changed_of_it),
        cmocka_unit_test_setup_teardown(a_loader_of_a_file_gives_what_one_by_hand_gives, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(errors_of_the_data_name_the_place_in_the_file, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(outputs_that_are_written_read_back, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
