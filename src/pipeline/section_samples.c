/* The sections samples and splits: what a sample is, and which are kept apart; what chooses among them is in section_choices.c. */
#include "pipeline/pipeline_internal.h"

#include "base/alloc.h"
#include "base/duration.h"

#include <stdio.h>
#include <string.h>

/* --- what a sample is ---------------------------------------------------------------------------------------------------------------- */

typedef struct kind_forms {
    const fby_node *rows, *windows, *groups, *cells, *choices[5]; /* as they stand */
    fby_samples_opts opts;
    const char *const *keys; /* columns of the key, or "file" */
    size_t n_keys;
    const fby_node *step, *table;
    int axes, file_by;
} kind_forms;

static const char *const file_by_names[] = {"name", "position", NULL};

/* What chooses, in the order in which they are applied; of the samples and of a split. */
#define STEP_KEYS(type)                                                                                                                    \
    FBY__KEY("select", FBY__WANT_NODE, type, choices[0]), FBY__KEY("limit", FBY__WANT_NODE, type, choices[1]),                             \
        FBY__KEY("take", FBY__WANT_NODE, type, choices[2]), FBY__KEY("oversample", FBY__WANT_NODE, type, choices[3]),                      \
        FBY__KEY("resample", FBY__WANT_NODE, type, choices[4])

static const fby__key kind_keys[] = {
    FBY__KEY("rows", FBY__WANT_NODE, kind_forms, rows),
    FBY__KEY("windows", FBY__WANT_NODE, kind_forms, windows),
    FBY__KEY("groups", FBY__WANT_NODE, kind_forms, groups),
    FBY__KEY("cells", FBY__WANT_NODE, kind_forms, cells),
    STEP_KEYS(kind_forms),
    FBY__KEY_END,
};
static const fby__key window_keys[] = {
    FBY__KEY_LIST("by", kind_forms, keys, n_keys),
    FBY__KEY("step", FBY__WANT_NODE, kind_forms, step),
    FBY__KEY_END,
};
static const fby__key group_keys[] = {
    FBY__KEY_LIST("key", kind_forms, keys, n_keys),
    FBY__KEY("table", FBY__WANT_NODE, kind_forms, table),
    FBY__KEY_CHOICE("file_by", kind_forms, file_by, file_by_names),
    FBY__KEY_END,
};
static const fby__key cell_keys[] = {FBY__KEY_FROM("axes", FBY__WANT_INT, kind_forms, axes, 1), FBY__KEY_END};

/* The columns of the key, of which the first one may be all. */
static fby_status take_keys(const fby__reading *r, const fby_node *node, const char *what, kind_forms *forms)
{
    forms->opts.key = forms->n_keys ? forms->keys[0] : NULL;
    forms->opts.n_more_keys = forms->n_keys > 1 ? forms->n_keys - 1 : 0;
    forms->opts.more_keys = forms->n_keys > 1 ? forms->keys + 1 : NULL;
    if (forms->n_keys > 1 && forms->table)
        return fby__node_fail(r, node, "%s: with a table the key is one column of it", what);
    return forms->n_keys > FBY_MAX_KEYS ? fby__node_fail(r, node, "%s: a key has at most %d columns", what, FBY_MAX_KEYS) : FBY_OK;
}

static fby_status read_windows(const fby__reading *r, const fby_node *node, kind_forms *forms)
{
    fby__key keys[FBY__MAX_KEYS];
    FBY__TRY(
        fby__read_map(r, node, "windows", fby__option_keys(FBY_OPTIONS_WINDOWS, offsetof(kind_forms, opts), window_keys, keys), forms));
    forms->opts.kind = FBY_SAMPLES_WINDOWS;
    if (forms->n_keys != 1 || strcmp(forms->keys[0], "file") != 0)
        FBY__TRY(take_keys(r, node, "windows: by", forms));
    if (forms->step && !forms->opts.time)
        return fby__node_fail(r, forms->step, "windows: step needs time, the column that steps");
    if (forms->step && forms->step->kind == FBY_NODE_TEXT) {
        if (fby__duration_ns(forms->step->text) == 0)
            return fby__node_fail(r, forms->step,
                                  "windows: step: '%.40s' is no duration: write 1 day, 6 hours, 10 min, 30 s, 20 ms, us or ns, or a whole "
                                  "number in the column's own unit",
                                  forms->step->text);
        forms->opts.step_text = forms->step->text;
    } else if (forms->step) {
        uint64_t step = 0;
        FBY__TRY(fby__read_u64(r, forms->step, "windows: step", 1, INT64_MAX, &step));
        forms->opts.step = (int64_t)step;
    }
    if (forms->opts.input + forms->opts.output == 0)
        return fby__node_fail(r, node, "windows: input and output are both 0: a window has at least one row");
    return FBY_OK;
}

static fby_status read_groups(const fby__reading *r, const fby_node *node, kind_forms *forms, fby__samples_spec *out)
{
    fby__key keys[FBY__MAX_KEYS];
    if (node->kind == FBY_NODE_TEXT)
        forms->opts.key = node->text;
    else
        FBY__TRY(
            fby__read_map(r, node, "groups", fby__option_keys(FBY_OPTIONS_GROUPS, offsetof(kind_forms, opts), group_keys, keys), forms));
    if (forms->n_keys)
        FBY__TRY(take_keys(r, node, "groups: key", forms));
    forms->opts.kind = FBY_SAMPLES_GROUPS;
    forms->opts.file_by_position = forms->file_by;
    if (forms->table) {
        out->has_table = true;
        FBY__TRY(fby__read_source(r, forms->table, "groups: table", NULL, NULL, &out->table));
        if (out->table.n_sources == 0)
            return fby__node_fail(r, forms->table, "groups: table: paths is missing");
        if (!forms->opts.first || !forms->opts.last)
            return fby__node_fail(r, node, "groups: a table needs first and last, its columns of each group's first and last row");
    } else if (forms->opts.first || forms->opts.last || forms->opts.file || forms->opts.file_by_position) {
        return fby__node_fail(r, node, "groups: first, last and file are columns of a table, and none is given");
    } else if (!forms->opts.key && !forms->opts.rows) {
        return fby__node_fail(r, node,
                              "groups: key is missing: the column whose runs of equal values are the groups (or rows: how many each has)");
    }
    if (forms->opts.rows && (forms->opts.key || forms->table))
        return fby__node_fail(r, node, "groups: rows is in place of a key and of a table");
    return FBY_OK;
}

fby_status fby__read_samples(fby_pipeline *p, const fby__reading *r, const fby_node *node)
{
    kind_forms forms = {.opts = {.size = sizeof forms.opts}};
    fby__samples_spec *out = &p->samples;
    out->node = node;
    out->opts = forms.opts;
    if (node->kind == FBY_NODE_TEXT && strcmp(node->text, "rows") == 0)
        return FBY_OK;
    if (node->kind != FBY_NODE_MAP) {
        char found[80];
        return fby__node_fail(r, node, "samples: rows, or a map with windows, groups or cells is expected, not %s",
                              fby__node_text(node, found));
    }
    FBY__TRY(fby__read_map(r, node, "samples", kind_keys, &forms));
    if ((forms.windows != NULL) + (forms.groups != NULL) + (forms.cells != NULL) + (forms.rows != NULL) > 1)
        return fby__node_fail(r, node, "samples: rows, windows, groups or cells: one of them");
    if (forms.rows && !(forms.rows->kind == FBY_NODE_BOOL && forms.rows->boolean) &&
        !(forms.rows->kind == FBY_NODE_MAP && forms.rows->n == 0))
        return fby__node_fail(r, forms.rows, "samples: rows has no options: write rows: true");
    if (forms.windows) {
        FBY__TRY(read_windows(r, forms.windows, &forms));
    } else if (forms.groups) {
        FBY__TRY(read_groups(r, forms.groups, &forms, out));
    } else if (forms.cells) {
        FBY__TRY(fby__read_map(r, forms.cells, "cells", cell_keys, &forms));
        if (forms.axes == 0)
            return fby__node_fail(r, forms.cells, "cells: axes is missing: over how many leading axes samples run");
        out->axes = forms.axes;
    }
    out->opts = forms.opts;
    return fby__read_choices(r, node, &out->choices);
}

/* --- splits -------------------------------------------------------------------------------------------------------------------------- */

typedef struct split_forms {
    fby_pipeline *p;
    double fraction;
    const fby_node *keys, *choices[5];
} split_forms;

static const fby__key part_keys[] = {
    FBY__KEY("fraction", FBY__WANT_DOUBLE, split_forms, fraction),
    FBY__KEY("keys", FBY__WANT_NODE, split_forms, keys),
    STEP_KEYS(split_forms),
    FBY__KEY_END,
};

typedef struct how_forms {
    fby_split_opts opts;
    const char *by;
    int at, unknown;
} how_forms;

static const char *const at_names[] = {"window", "target", NULL};
static const fby__key how_keys[] = {
    FBY__KEY("by", FBY__WANT_TEXT, how_forms, by),
    FBY__KEY_CHOICE("at", how_forms, at, at_names),
    FBY__KEY_CHOICE("unknown", how_forms, unknown, fby__unknown_names),
    FBY__KEY_END,
};

static fby_status read_split(const fby__reading *r, const fby_node *name, const fby_node *node, fby__subset *out, double *io_sum)
{
    split_forms forms = {0};
    char where[120];
    (void)snprintf(where, sizeof where, "splits: %.80s", name->text);
    if (node->kind == FBY_NODE_MAP) {
        FBY__TRY(fby__read_map(r, node, where, part_keys, &forms));
        FBY__TRY(fby__read_choices(r, node, &out->choices));
    } else if (node->kind == FBY_NODE_LIST) {
        forms.keys = node;
    } else if (node->kind == FBY_NODE_INT || node->kind == FBY_NODE_FLOAT) {
        forms.fraction = node->number;
    } else {
        char found[80];
        return fby__node_fail(r, node, "%s: a fraction, a list of keys, or a map is expected, not %s", where, fby__node_text(node, found));
    }
    if ((forms.keys != NULL) == (forms.fraction != 0))
        return fby__node_fail(r, node, "%s: a fraction above 0, or a list of keys, is needed", where);
    *io_sum += forms.fraction;
    if (forms.keys)
        FBY__TRY(fby__read_values(r, forms.keys, where, &out->split.keys));
    else if (!(forms.fraction > 0) || *io_sum > 1 + 1e-9)
        return fby__node_fail(r, node, "%s: fractions are above 0 and together at most 1", where);
    out->node = node;
    out->name = out->split.name = name->text;
    out->split.fraction = forms.fraction;
    return FBY_OK;
}

/* A word, or a column's name. */
static fby_status read_by(fby_pipeline *p, const fby__reading *r, const fby_node *node, const how_forms *how, bool keys)
{
    static const char *const words[] = {"files", "time", "groups", "samples"};
    fby_split_opts *o = &p->split;
    *o = how->opts;
    o->size = sizeof *o;
    o->at_target = how->at;
    o->ignore_unknown = how->unknown;
    o->kind = keys ? FBY_SPLIT_KEYS : o->stratify ? FBY_SPLIT_SAMPLES : o->time ? FBY_SPLIT_TIME : FBY_SPLIT_FILES;
    if (how->by) {
        o->kind = FBY_SPLIT_KEYS;
        o->column = how->by;
    }
    for (int i = 0; how->by && i < 4; i++)
        if (strcmp(how->by, words[i]) == 0) {
            o->kind = (fby_split_kind)i;
            o->column = NULL;
        }
    if (keys && o->kind != FBY_SPLIT_KEYS)
        return fby__node_fail(r, node, "splits: lists of keys go with by: groups, or by: a column, and for every split");
    if (o->kind == FBY_SPLIT_TIME && !o->time && p->samples.opts.kind != FBY_SAMPLES_WINDOWS)
        return fby__node_fail(r, node, "splits: by: time of samples that are no windows needs time: the column of the time");
    return FBY_OK;
}

fby_status fby__read_splits(fby_pipeline *p, const fby__reading *r, const fby_node *node)
{
    char found[80];
    if (node->kind != FBY_NODE_MAP)
        return fby__node_fail(r, node, "splits: a map of names to fractions is expected, not %s", fby__node_text(node, found));
    if (!(p->splits = fby__reading_alloc(r, node->n, sizeof *p->splits)))
        return FBY_E_NOMEM;
    fby__key keys[FBY__MAX_KEYS];
    how_forms forms = {0};
    (void)fby__option_keys(FBY_OPTIONS_SPLIT, offsetof(how_forms, opts), how_keys, keys);
    double sum = 0;
    size_t n_listed = 0;
    for (size_t i = 0; i < node->n; i++) {
        bool how = false;
        for (const fby__key *k = keys; k->name && !how; k++)
            if ((how = strcmp(k->name, node->keys[i]->text) == 0) && node->items[i]->kind != FBY_NODE_NULL)
                FBY__TRY(fby__read_value(r, node->items[i], "splits", k, &forms));
        if (how)
            continue;
        fby__subset *subset = &p->splits[p->n_splits++];
        FBY__TRY(read_split(r, node->keys[i], node->items[i], subset, &sum));
        n_listed += subset->split.keys.n > 0;
    }
    if (p->n_splits == 0)
        return fby__node_fail(r, node, "splits: names and their fractions are missing: train: 0.8");
    if (n_listed > 0 && n_listed < p->n_splits)
        return fby__node_fail(r, node, "splits: lists of keys go with by: groups, or by: a column, and for every split");
    const fby_node *by = fby__node_get(node, "by");
    return read_by(p, r, by ? by : node, &forms, n_listed > 0);
}

/* --- opening ------------------------------------------------------------------------------------------------------------------------- */

fby_status fby__open_samples(fby_pipeline *p, const fby__reading *r, fby_dataset *ds)
{
    fby__samples_spec *s = &p->samples;
    fby_samples_opts opts = s->opts;
    fby_samples *samples = NULL;
    fby_dataset *table = NULL;
    opts.progress = p->progress;
    opts.progress_user = p->progress_user;
    if (s->has_table)
        FBY__TRY(fby__open_source(p, r, &s->table, "groups: table", &table));
    opts.table = table;
    fby_status status = fby_samples_open(ds, &opts, &samples, r->err);
    fby_dataset_close(table);
    if (status != FBY_OK)
        return fby__node_context(r, s->node, "samples");
    if ((status = fby__run_choices(p, r, s->choices, &samples)) != FBY_OK) {
        fby_samples_close(samples);
        return status;
    }
    p->all = samples;
    return FBY_OK;
}

/* All splits are made together; those that are there already stay. */
static fby_status make_splits(fby_pipeline *p, const fby__reading *r)
{
    size_t n = p->n_splits;
    fby_split *splits = fby__calloc(n, sizeof *splits);
    fby_samples **made = fby__calloc(n, sizeof *made);
    fby_status status = splits && made ? FBY_OK : fby__read_nomem(r);
    for (size_t i = 0; status == FBY_OK && i < n; i++)
        splits[i] = p->splits[i].split;
    if (status == FBY_OK && (status = fby_samples_split(p->all, &p->split, splits, n, made, r->err)) != FBY_OK)
        status = fby__node_context(r, p->splits[0].node, "splits");
    for (size_t i = 0; status == FBY_OK && i < n; i++)
        if (!p->splits[i].samples) {
            p->splits[i].samples = made[i];
            made[i] = NULL;
        }
    for (size_t i = 0; made && i < n; i++)
        fby_samples_close(made[i]);
    fby__free(made);
    fby__free(splits);
    return status;
}

fby_status fby__open_split(fby_pipeline *p, const fby__reading *r, fby__subset *subset)
{
    if (!subset->samples)
        FBY__TRY(make_splits(p, r));
    fby_status status = fby__run_choices(p, r, subset->choices, &subset->samples);
    subset->is_open = status == FBY_OK;
    if (status != FBY_OK) {
        fby_samples_close(subset->samples);
        subset->samples = NULL;
    }
    return status;
}
