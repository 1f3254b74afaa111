/*
 * A pipeline while it is read and after: what each section says, and what was opened for it.
 *
 *     pipeline.c          the file, overrides, opening on demand
 *     section_data.c      data, loader
 *     section_mix.c       mix: sources, each a pipeline of its own
 *     section_samples.c   samples, and splits of them
 *     section_choices.c   samples, splits: some of the samples, or some more than once
 *     section_tables.c    lookups, moments: read from files or fitted when an output needs them
 *     section_outputs.c   outputs: columns, steps, layouts, operations
 *     section_make.c      outputs: what is made of columns (forebay/make.h)
 *     section_class_map.c    outputs: maps of the class names that a file brings along
 *     describe.c          the other way: outputs as nodes
 *
 * Reading a section fills structs of the public API, whose memory is the arena. What needs data (a table's columns, fitted moments) is filled
 * in by the fby__tables_… calls when the outputs are asked for.
 */
#ifndef FBY_PIPELINE_PIPELINE_INTERNAL_H
#define FBY_PIPELINE_PIPELINE_INTERNAL_H

#include "pipeline/fields.h"
#include "pipeline/tree.h"

/** Where a data set comes from: the section data, and the tables. */
typedef struct fby__source_spec {
    const fby_node *node;
    const fby_source *sources;
    size_t n_sources;
    fby_open_opts opts;
} fby__source_spec;

/** Some of the samples, or some more than once: done in the order of the file. */
typedef enum fby__choice_kind {
    FBY__CHOICE_SELECT,
    FBY__CHOICE_LIMIT,
    FBY__CHOICE_TAKE,
    FBY__CHOICE_OVERSAMPLE,
    FBY__CHOICE_RESAMPLE
} fby__choice_kind;
typedef struct fby__sample_choice {
    struct fby__sample_choice *next;
    fby__choice_kind kind;
    const fby_node *node;
    fby_select_opts select;
    bool has_table; /* of select */
    fby__source_spec table;
    fby_oversample_opts oversample;
    fby_resample_opts resample;
    uint64_t *taken; /* numbers of samples */
    size_t n_taken;
    uint64_t limit, seed;
    double fraction; /* of limit; 0 = the count */
    bool random;
} fby__sample_choice;

typedef struct fby__subset {
    const fby_node *node;
    const char *name;
    fby_split split;
    fby__sample_choice *choices;
    fby_samples *samples; /* owned; NULL until some split is asked for */
    bool is_open;         /* the choices have been made */
} fby__subset;

typedef struct fby__samples_spec {
    const fby_node *node; /* NULL: rows */
    fby_samples_opts opts;
    int axes;       /* of cells: the data set is opened with so many; 0 = no cells */
    bool has_table; /* groups of an index table */
    fby__source_spec table;
    fby__sample_choice *choices;
} fby__samples_spec;

/** One of `lookups`. */
typedef struct fby__lookup_spec {
    const fby_node *node;
    const char *name;
    fby__source_spec source; /* each source is a table of its own */
    fby_lookup_opts opts;
    const char *distinct;        /* the values of this column, in place of opts.key */
    const fby_lookup_keys *keys; /* in the file itself: keys, columns, values */
    size_t n_key_columns, n_keys;
    const double *values;
    bool is_inline;
    fby_lookup *table; /* owned; NULL until it is needed */
} fby__lookup_spec;

/** One of `moments`. */
typedef struct fby__moments_spec {
    const fby_node *node;
    const char *name;
    const char *file; /* saved ones; NULL: fitted */
    fby_fit_opts opts;
    const char *by;       /* a group each; NULL = over all */
    const char *split;    /* fitted over; NULL = all samples */
    fby_moments *moments; /* arena: of opts.columns, of each opts.n_each or one; NULL until they are needed */
    fby_lookup *table;    /* owned: with `by` */
} fby__moments_spec;

/** What an output still needs when the tables are there. */
typedef enum fby__need_kind {
    FBY__NEED_COLUMNS,       /* a lookup's table and the places of its columns */
    FBY__NEED_POSITIONS,     /* a lookup's table for group_channels.positions */
    FBY__NEED_SCALES,        /* a lookup's table for standardize.moments, as it is */
    FBY__NEED_MOMENTS,       /* means and stds for an operation */
    FBY__NEED_GROUP_MOMENTS, /* a table of means and stds by key */
    FBY__NEED_CLASS_MAP,     /* a map of the class names that the first file's attribute holds */
    FBY__NEED_FEATURE_NAMES  /* places of the names that the first file's attribute holds */
} fby__need_kind;
typedef struct fby__need {
    struct fby__need *next;
    fby__need_kind kind;
    const fby_node *node; /* where messages point */
    const char *name;     /* of the lookup or moments; CLASS_MAP: of the attribute */
    const fby_output *output;
    fby_make *make;             /* all but MOMENTS */
    fby_op *op;                 /* MOMENTS */
    int64_t *places;            /* FEATURE_NAMES: of each name of `columns`, to be filled */
    const char *const *columns; /* COLUMNS: of the table; MOMENTS: the output's that the operation is of; FEATURE_NAMES: names */
    size_t n_columns;
    bool all_columns;        /* COLUMNS: those that the table has */
    const fby_node *classes; /* CLASS_MAP: what becomes of the names; NULL = their numbers */
    fby_lookup *table;       /* owned: GROUP_MOMENTS in the output's columns */
} fby__need;

/** The section mix. Each source is a pipeline over its own part of the tree. */
typedef struct fby__mix_spec {
    const char **names;
    fby_pipeline **sources; /* owned: n_sources; 0 = the file is of one data set */
    size_t n_sources;
    const double *weights; /* n_epochs rows of n_sources; NULL = the numbers of samples */
    size_t n_epochs;
    fby_mix_stop stop;
    uint64_t n_samples;
} fby__mix_spec;

/** The sections of a file; NULL: it is not there. */
typedef struct fby__sections {
    const fby_node *version, *data, *mix, *samples, *splits, *lookups, *moments, *outputs, *loader;
} fby__sections;

struct fby_pipeline {
    fby__arena arena;
    fby_tree *tree;        /* owned */
    fby_tree **more_trees; /* owned: values of overrides */
    size_t n_more_trees;
    const char *text;             /* as it was read */
    const char *const *overrides; /* n_more_trees, as they were given */
    const fby_node *root;
    const char *file, *base_dir, *cache_dir;
    fby_progress_fn progress;
    void *progress_user;

    fby__mix_spec mix;
    fby_pipeline *mixture; /* borrowed: of which this is a source; NULL = of none. It owns file, base_dir and cache_dir */
    fby__source_spec data;
    fby__samples_spec samples;
    fby_split_opts split;
    fby__subset *splits;
    size_t n_splits;
    fby__lookup_spec *lookups;
    size_t n_lookups;
    fby__moments_spec *moments;
    size_t n_moments;
    fby_output *outputs;
    const fby_node **output_nodes;
    size_t n_outputs;
    fby__need *needs, **needs_end;
    bool needs_met;
    const fby_node *loader_node;
    fby_loader_opts loader;
    const char *loader_split; /* what a loader is over when no split is named */

    fby_error spare;     /* for callers that take no error: context is added to what was said below */
    fby_dataset *opened; /* owned; NULL until it is asked for */
    fby_samples *all;    /* owned; NULL until it is asked for */
};

/* section_data.c */
fby_status fby__read_source(const fby__reading *r, const fby_node *node, const char *where, const fby__key *more, void *to,
                            fby__source_spec *out);
fby_status fby__read_data(fby_pipeline *p, const fby__reading *r, const fby_node *node);
fby_status fby__read_loader(fby_pipeline *p, const fby__reading *r, const fby_node *node);
/** Open what a source spec names, with the pipeline's cache and progress. */
fby_status fby__open_source(fby_pipeline *p, const fby__reading *r, const fby__source_spec *spec, const char *where, fby_dataset **out);

/* pipeline.c */
/** All sections of one data set, but for the loader. `owner`: the map that data should be in. */
fby_status fby__read_sections(fby_pipeline *p, const fby__reading *r, const fby_node *owner, const fby__sections *s);
fby__reading fby__reading_of(fby_pipeline *p, fby_error *err);
bool fby__has_split(const fby_pipeline *p, const char *name);

/* section_mix.c */
/** Sources read what stands in `root` where they say nothing themselves. */
fby_status fby__read_mix(fby_pipeline *p, const fby__reading *r, const fby__sections *root);
/** Open what the sources need for a split. The samples are borrowed from the pipeline, the rest is the arena's. */
fby_status fby__open_mix(fby_pipeline *p, const char *split, fby_mix *out, fby_error *err);
/** The same without outputs. */
fby_status fby__mix_samples(fby_pipeline *p, const char *split, fby_mix *out, fby_error *err);
void fby__mix_fini(fby_pipeline *p);

/* section_samples.c */
fby_status fby__read_samples(fby_pipeline *p, const fby__reading *r, const fby_node *node);
fby_status fby__read_splits(fby_pipeline *p, const fby__reading *r, const fby_node *node);
fby_status fby__open_samples(fby_pipeline *p, const fby__reading *r, fby_dataset *ds);   /* fills p->all */
fby_status fby__open_split(fby_pipeline *p, const fby__reading *r, fby__subset *subset); /* fills subset->samples; p->all is there */

/* section_choices.c */
extern const char *const fby__unknown_names[]; /* of `unknown`: keys that no sample has; 1: ignored */
/** One value, or a list of them: whole numbers or texts. */
fby_status fby__read_values(const fby__reading *r, const fby_node *node, const char *where, fby_values *out);
/** Takes those keys of a map that choose samples, in order; a select may be a list of selects. */
fby_status fby__read_choices(const fby__reading *r, const fby_node *map, fby__sample_choice **out);
/** All of them in order; *samples is replaced by what they give. */
fby_status fby__run_choices(fby_pipeline *p, const fby__reading *r, fby__sample_choice *choices, fby_samples **samples);

/* section_tables.c */
fby_status fby__read_lookups(fby_pipeline *p, const fby__reading *r, const fby_node *node);
fby_status fby__read_moments(fby_pipeline *p, const fby__reading *r, const fby_node *node);
/** Do they name splits that are there? Once those are read. */
fby_status fby__check_moments(const fby_pipeline *p, const fby__reading *r);
fby__lookup_spec *fby__find_lookup(fby_pipeline *p, const char *name);
fby__moments_spec *fby__find_moments(fby_pipeline *p, const char *name);
/** An error at `node`: there are none of that name, the nearest, and where a source's own would stand. */
fby_status fby__no_moments(const fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *what, const char *name);
/** Read and fit what outputs need, and put it into them. */
fby_status fby__meet_needs(fby_pipeline *p, const fby__reading *r);
void fby__tables_fini(fby_pipeline *p);

/* section_outputs.c */
fby_status fby__read_outputs(fby_pipeline *p, const fby__reading *r, const fby_node *node);
/** A list of operations; `columns`: what they are of, for those that have a number each. */
fby_status fby__read_ops(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *where, const fby_output *output,
                         const char *const *columns, size_t n_columns, const fby_op **out, size_t *out_n);
/** A new need at the end of the list; NULL with the error set. */
fby__need *fby__add_need(fby_pipeline *p, const fby__reading *r, fby__need need);

/* section_make.c */
/** `node` is what stands behind the make's name. */
fby_status fby__read_make(fby_pipeline *p, const fby__reading *r, const fby_node *node, fby_make_kind kind, const char *where,
                          fby_output *output);
fby_status fby__read_after(const fby__reading *r, const fby_node *node, const char *where, fby_output *output);

/* section_select.c */
fby_status fby__read_select(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *what, fby_make_select *out,
                            const fby_output *output);
/** Fill need->places from the attribute of the first file. */
fby_status fby__meet_feature_names(fby_pipeline *p, const fby__reading *r, const fby__need *need);

/* section_class_map.c */
/** Do the classes of a class map fit? FBY_E_ARG with their place. */
fby_status fby__check_classes(const fby__reading *r, const fby_node *classes, const char *what);
/** Read the attribute of the data set's first file, and fill need->make->map. */
fby_status fby__meet_class_map(fby_pipeline *p, const fby__reading *r, const fby__need *need);

/* describe.c */
typedef struct fby__describing {
    fby__reading r;
    const fby_lookup *const *tables; /* tables that have a name */
    const char *const *table_names;
    size_t n_tables;
    const fby_lookup **met; /* tables without one: n_met of them, in the arena */
    size_t n_met, cap_met;
} fby__describing;
/** Outputs as a map of their names; tables that have no name are gathered in d->met. */
fby_status fby__describe_outputs(fby__describing *d, const fby_output *outputs, size_t n, const fby_node **out);
/** The tables that were met, as a map like the section lookups. */
fby_status fby__describe_tables(fby__describing *d, const fby_node **out);

#define FBY__KEY(name, want, type, member)                                                                                                 \
    {                                                                                                                                      \
        name, want, offsetof(type, member), FBY__NOWHERE, 0, NULL, 0                                                                       \
    }
#define FBY__KEY_FROM(name, want, type, member, least)                                                                                     \
    {                                                                                                                                      \
        name, want, offsetof(type, member), FBY__NOWHERE, least, NULL, 0                                                                   \
    }
#define FBY__KEY_HAS(name, want, type, member, has)                                                                                        \
    {                                                                                                                                      \
        name, want, offsetof(type, member), offsetof(type, has), 0, NULL, 0                                                                \
    }
#define FBY__KEY_LIST(name, type, member, count)                                                                                           \
    {                                                                                                                                      \
        name, FBY__WANT_TEXTS, offsetof(type, member), offsetof(type, count), 0, NULL, 0                                                   \
    }
#define FBY__KEY_CHOICE(name, type, member, choices)                                                                                       \
    {                                                                                                                                      \
        name, FBY__WANT_CHOICE, offsetof(type, member), FBY__NOWHERE, 0, choices, 0                                                        \
    }
#define FBY__KEY_END                                                                                                                       \
    {                                                                                                                                      \
        NULL, FBY__WANT_NODE, 0, FBY__NOWHERE, 0, NULL, 0                                                                                  \
    }

#endif
