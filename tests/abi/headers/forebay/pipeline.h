/*
 * Pipeline files: data, samples, splits, tables, outputs and loader in one YAML file that C, the command and Python read alike.
 *
 *     fby_pipeline *pipeline;
 *     if (fby_pipeline_open("basins.yaml", NULL, &pipeline, &err) != FBY_OK) …   // "basins.yaml:12:5: output 'x': unknown key …"
 *     fby_loader *train;
 *     fby_pipeline_loader(pipeline, "train", &train, &err);
 *     …
 *     fby_loader_close(train);
 *     fby_pipeline_close(pipeline);
 *
 * docs/pipelines.md has every key. The words are those of the option structs here and of the Python package.
 *
 * Where a function says nothing else: Threads: any, one at a time for each tree and pipeline. Blocks: no. Errors: FBY_E_ARG, FBY_E_NOMEM. What a
 * pointer leads to belongs to the tree or pipeline. Since: 0.2
 */
#ifndef FOREBAY_PIPELINE_H
#define FOREBAY_PIPELINE_H

#include <forebay/dataset.h>
#include <forebay/loader.h>
#include <forebay/mix.h>
#include <forebay/samples.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- trees: what a YAML file holds, before anything is made of it ----------------------------------------------------------- */

typedef enum fby_node_kind {
    FBY_NODE_NULL,
    FBY_NODE_BOOL,
    FBY_NODE_INT,   /* fits int64_t */
    FBY_NODE_FLOAT, /* also .inf, .nan and whole numbers beyond int64_t */
    FBY_NODE_TEXT,
    FBY_NODE_LIST,
    FBY_NODE_MAP /* keys are texts, each once, in the order of the file */
} fby_node_kind;

/**
 * One value of a tree. Scalars by YAML 1.2's core schema. Nodes of a read tree live as long as it; a program may build its own.
 * Frozen: no field is ever added.
 */
typedef struct fby_node {
    fby_node_kind kind;
    uint32_t line, column; /* where it begins, from 1; 0 in a tree that a program built */
    bool boolean;
    int64_t integer;
    double number;                       /* FLOAT, and INT as the nearest double */
    const char *text;                    /* TEXT; of scalars that were read, also as they are written */
    size_t n;                            /* LIST, MAP: how many */
    const struct fby_node *const *items; /* LIST: the values; MAP: the values of the keys */
    const struct fby_node *const *keys;  /* MAP: n nodes of kind TEXT */
} fby_node;

typedef struct fby_tree fby_tree;

/**
 * Read a YAML (or JSON) file as a tree.
 *
 * One document; keys are texts; anchors and aliases are resolved, tags and merge keys ("<<") are refused. At most 16 MiB, a million values
 * once aliases are followed, 32 levels.
 *
 * @out  [out] owned by the caller: fby_tree_close().
 * Errors: FBY_E_IO, FBY_E_FORMAT ("file:line:column: what is wrong"), FBY_E_UNSUPPORTED, FBY_E_NOMEM. Threads: any. Blocks: on the file.
 * Since: 0.2
 */
FBY_API fby_status fby_tree_read(const char *path, fby_tree **out, fby_error *err);
/** The same for n bytes of text; messages call it `name`. Blocks: no. Errors: as fby_tree_read, but for FBY_E_IO. */
FBY_API fby_status fby_tree_parse(const char *text, size_t n, const char *name, fby_tree **out, fby_error *err);
/** The root: borrowed, valid until fby_tree_close. */
FBY_API const fby_node *fby_tree_root(const fby_tree *tree);
FBY_API void fby_tree_close(fby_tree *tree); /* NULL is fine */

/**
 * Write a tree as YAML that fby_tree_read reads back to the same values: to a temporary name beside `path`, then renamed.
 *
 * @loader   NULL, or options of a loader whose outputs are described under the root's key "outputs", in place of what it may hold. Tables
 *           that they look into go under "lookups" with all their values, by a number, unless `tables` names them.
 * @tables   NULL, or n_tables tables that the root's "lookups" have under table_names[i].
 * Errors: FBY_E_ARG (a text that is no UTF-8, nested too deep, an unknown kind), FBY_E_IO, FBY_E_NOMEM. Threads: any. Blocks: on the file.
 * Since: 0.2
 */
FBY_API fby_status fby_tree_write(const fby_node *root, const fby_loader_opts *loader, const fby_lookup *const *tables,
                                  const char *const *table_names, size_t n_tables, const char *path, fby_error *err);

/* --- pipelines -------------------------------------------------------------------------------------------------------------- */

/** A checked pipeline file, and what was opened for it so far. One thread at a time; what it hands out may be used by any. */
typedef struct fby_pipeline fby_pipeline;

/** Options of fby_pipeline_open. Set size; zero everything else for the defaults. */
typedef struct fby_pipeline_opts {
    size_t size;                  /* sizeof(fby_pipeline_opts) */
    const char *const *overrides; /* "loader.batch_size=64": a key by its path and a value as in the file, in place of the file's. Copied */
    size_t n_overrides;
    const char *base_dir;  /* what the paths in it are relative to; NULL = the file's directory, or for a text the working directory */
    const char *cache_dir; /* for data sets that name none: as in fby_open_opts; "" = no cache, not even for those that name one. Copied */
    fby_progress_fn progress; /* called while data sets and samples are opened, on the calling thread */
    void *progress_user;
} fby_pipeline_opts;

/**
 * Read a pipeline file and check all that can be checked without the data: keys, types, ranges, names that refer to each other. Opens no
 * data: the calls below do, when they are asked for it, and keep what they opened.
 *
 * @out  [out] owned by the caller: fby_pipeline_close().
 * Errors: those of fby_tree_read; FBY_E_ARG for what does not fit, with file, line, column, and the nearest key that there is.
 * Threads: any. Blocks: on reading the file. Since: 0.2
 */
FBY_API fby_status fby_pipeline_open(const char *path, const fby_pipeline_opts *opts, fby_pipeline **out, fby_error *err);
/** The same for n bytes of text; messages call it `name`. Blocks: no. Ownership, errors: as fby_pipeline_open, but for FBY_E_IO. */
FBY_API fby_status fby_pipeline_parse(const char *text, size_t n, const char *name, const fby_pipeline_opts *opts, fby_pipeline **out,
                                      fby_error *err);
FBY_API void fby_pipeline_close(fby_pipeline *pipeline); /* NULL is fine; loaders and samples taken from it stay valid */

/** The file as a tree, overrides applied. Borrowed, valid until the pipeline is closed. */
FBY_API const fby_node *fby_pipeline_tree(const fby_pipeline *pipeline);

/** Names of the splits in order; borrowed; NULL past the last. */
FBY_API const char *fby_pipeline_split(const fby_pipeline *pipeline, size_t i);
/** The split that the section loader names, of a source that of its mixture; borrowed; NULL when it names none. */
FBY_API const char *fby_pipeline_default_split(const fby_pipeline *pipeline);
/**
 * Which split is meant: what loaders and packs of the file take.
 *
 * @named  a name of `splits`; NULL = the one that the section loader names, all samples where there are no splits.
 * @out    [out] its name, borrowed from the pipeline or from the caller; NULL = all samples.
 * Errors: FBY_E_ARG for a split that is not there, and where there are splits and none is named.
 * Blocks: no. Callbacks: none. Since: 0.2
 */
FBY_API fby_status fby_pipeline_choose_split(const fby_pipeline *pipeline, const char *named, const char **out, fby_error *err);
/**
 * The text of the file, followed by what was changed of it, as comments: the overrides, and a split other than the one that the section loader
 * names. This is what a pack keeps to say how it was made (fby_pack_opts.pipeline). A source gives the text of its mixture.
 *
 * @split  as fby_pipeline_choose_split() gives it; NULL = all samples.
 * @out    [out] borrowed from the pipeline.
 * Errors: FBY_E_ARG, FBY_E_NOMEM. Blocks: no. Callbacks: none. Since: 0.2
 */
FBY_API fby_status fby_pipeline_text(fby_pipeline *pipeline, const char *split, const char **out, fby_error *err);

/**
 * Source i of a file that describes a mixture: a pipeline of its own, with data, samples, splits and outputs, but no loader. Borrowed from the
 * pipeline; NULL past the last, and for a file that describes no mixture.
 *
 * @out_name  [out] may be NULL; its name, borrowed.
 */
FBY_API fby_pipeline *fby_pipeline_source(fby_pipeline *pipeline, size_t i, const char **out_name);
/**
 * The mixture, as fby_loader_open_mix() takes it: sources with samples and outputs, weights, and where an epoch ends. All of it points into the
 * pipeline.
 *
 * @split  of every source; NULL means what it does in fby_pipeline_loader_opts().
 * @out    [out] its size is set by the caller: fby_mix mix = {.size = sizeof mix}.
 * Errors: those of fby_pipeline_samples and fby_pipeline_outputs; FBY_E_ARG for a file that describes no mixture. Blocks: while it opens.
 */
FBY_API fby_status fby_pipeline_mix(fby_pipeline *pipeline, const char *split, fby_mix *out, fby_error *err);

/**
 * What the file describes: opened by the first call, borrowed from the pipeline (take a reference to keep it).
 *
 * @split  a name of `splits`; NULL = all samples.
 * Errors: those of fby_dataset_open and fby_samples_open, with the place in the file; FBY_E_ARG for a split that is not there, and for a
 * mixture, whose sources have these.
 * Blocks: while it opens. Callbacks: opts->progress. Since: 0.2
 */
FBY_API fby_status fby_pipeline_dataset(fby_pipeline *pipeline, fby_dataset **out, fby_error *err);
FBY_API fby_status fby_pipeline_samples(fby_pipeline *pipeline, const char *split, fby_samples **out, fby_error *err);

/**
 * The outputs, ready for fby_loader_open: reads the lookups and fits the moments they need. Borrowed from the pipeline, and so is all they
 * point to. Where the file describes none their number is 0, and a loader takes every
 * column that can be a tensor.
 *
 * @out  [out] options that hold the outputs, their number and sizes, and nothing else. Its own size is set by the caller (FBY_LOADER_SIZES);
 *       the next output begins out->output_size bytes behind one.
 * Errors: those of the sections lookups and moments. Blocks: while it reads. Since: 0.2
 */
FBY_API fby_status fby_pipeline_outputs(fby_pipeline *pipeline, fby_loader_opts *out, fby_error *err);

/**
 * Options of a loader as the file says them, outputs and samples included (those of a mixture are its sources'). They point into the pipeline:
 * use them before it is closed.
 *
 * @split  a name of `splits`; NULL = the one that the section loader names, all samples where there are no splits; else FBY_E_ARG.
 * @out    [out] its size is set by the caller: fby_loader_opts opts = {FBY_LOADER_SIZES}.
 * Errors: those of fby_pipeline_samples and fby_pipeline_outputs. Blocks: while it opens and reads what was not asked for before.
 */
FBY_API fby_status fby_pipeline_loader_opts(fby_pipeline *pipeline, const char *split, fby_loader_opts *out, fby_error *err);

/**
 * A loader over a split; NULL as above. Owned by the caller: fby_loader_close().
 * Errors: also those of fby_loader_open; where they name an output, with its place in the file. Blocks: as fby_pipeline_loader_opts.
 */
FBY_API fby_status fby_pipeline_loader(fby_pipeline *pipeline, const char *split, fby_loader **out, fby_error *err);

/**
 * Put the place in the file before the message of an error that names one of its outputs ("output 'x': …"), as fby_pipeline_loader does: for
 * callers of fby_loader_open with these options. Returns err->code.
 */
FBY_API fby_status fby_pipeline_locate(const fby_pipeline *pipeline, fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
