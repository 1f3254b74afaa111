/*
 * The sections lookups and moments: tables that outputs look into, and moments that they are standardised with. Read or fitted once, when
 * outputs are asked for, and only those that an output names.
 */
#include "pipeline/pipeline_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/nearest.h"
#include "block/schema.h"
#include "dataset/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- reading the sections --------------------------------------------------------------------------------------------------------------- */

typedef struct lookup_forms {
    fby__lookup_spec *l;
    fby_lookup_opts opts;
    const char *const *key;
    size_t n_key;
    const char *distinct;
    const fby_node *keys, *values;
} lookup_forms;

static const fby__key lookup_keys[] = {
    FBY__KEY_LIST("key", lookup_forms, key, n_key),
    FBY__KEY("distinct", FBY__WANT_TEXT, lookup_forms, distinct),
    FBY__KEY("keys", FBY__WANT_NODE, lookup_forms, keys),
    FBY__KEY("values", FBY__WANT_NODE, lookup_forms, values),
    FBY__KEY_END,
};

/* What keys have for one column of the key: column c of their lists, or themselves where there is one. */
static fby_status read_key_column(const fby__reading *r, const fby_node *keys, size_t c, const char *where, fby_lookup_keys *out)
{
    const char **texts = NULL;
    int64_t *numbers = NULL;
    for (size_t i = 0; i < keys->n; i++) {
        const fby_node *key = keys->items[i], *value = key->kind == FBY_NODE_LIST ? key->items[c] : key;
        if (i == 0 && value->kind == FBY_NODE_TEXT)
            texts = fby__reading_alloc(r, keys->n, sizeof *texts);
        else if (i == 0)
            numbers = fby__reading_alloc(r, keys->n, sizeof *numbers);
        if (!texts && !numbers)
            return FBY_E_NOMEM;
        if (value->kind != (texts ? FBY_NODE_TEXT : FBY_NODE_INT))
            return fby__node_fail(r, value, "%s: keys: all are texts or all are whole numbers%s", where,
                                  key->kind == FBY_NODE_LIST ? ", in each column of the key" : "");
        if (texts)
            texts[i] = value->text;
        else
            numbers[i] = value->integer;
    }
    *out = (fby_lookup_keys){.numbers = numbers, .texts = texts};
    return FBY_OK;
}

static fby_status read_inline_keys(const fby__reading *r, const fby_node *keys, const char *where, fby__lookup_spec *out)
{
    if (keys->kind != FBY_NODE_LIST || keys->n == 0)
        return fby__node_fail(r, keys, "%s: keys: a list of whole numbers or texts is expected, or of lists of them", where);
    const bool lists = keys->items[0]->kind == FBY_NODE_LIST;
    const size_t n = lists ? keys->items[0]->n : 1;
    if (n == 0 || n > FBY_MAX_KEYS)
        return fby__node_fail(r, keys->items[0], "%s: keys: a key has 1 to %d columns, not %zu", where, FBY_MAX_KEYS, n);
    for (size_t i = 0; i < keys->n; i++)
        if ((keys->items[i]->kind == FBY_NODE_LIST) != lists || (lists && keys->items[i]->n != n))
            return fby__node_fail(r, keys->items[i], "%s: keys: all have as many columns as the first one", where);
    fby_lookup_keys *columns = fby__reading_alloc(r, n, sizeof *columns);
    if (!columns)
        return FBY_E_NOMEM;
    for (size_t c = 0; c < n; c++)
        FBY__TRY(read_key_column(r, keys, c, where, &columns[c]));
    out->is_inline = true;
    out->keys = columns;
    out->n_key_columns = n;
    out->n_keys = keys->n;
    return FBY_OK;
}

/* A table in the file itself: keys, columns, and a list of values for each key. */
static fby_status read_inline(const fby__reading *r, const char *where, const lookup_forms *f, fby__lookup_spec *out)
{
    size_t n_columns = f->opts.n_columns, n;
    const fby_node *keys = f->keys;
    FBY__TRY(read_inline_keys(r, keys, where, out));
    if (!f->values)
        return n_columns == 0 ? FBY_OK : fby__node_fail(r, keys, "%s: values is missing: a list of numbers for each key", where);
    if (f->values->kind != FBY_NODE_LIST || f->values->n != keys->n)
        return fby__node_fail(r, f->values, "%s: values: a list of numbers for each of the %zu keys is expected", where, keys->n);
    double *values = fby__mul_checked(keys->n, n_columns, &n) ? fby__reading_alloc(r, n, sizeof *values) : NULL;
    if (!values)
        return fby__read_nomem(r);
    for (size_t i = 0; i < keys->n; i++) {
        const double *row = NULL;
        FBY__TRY(fby__read_doubles(r, f->values->items[i], where, &row, &n));
        if (n != n_columns)
            return fby__node_fail(r, f->values->items[i], "%s: values: %zu numbers for %zu columns", where, n, n_columns);
        if (n)
            memcpy(values + i * n_columns, row, n * sizeof *row);
    }
    out->values = values;
    return FBY_OK;
}

static fby_status read_lookup(const fby__reading *r, const fby_node *name, const fby_node *node, fby__lookup_spec *out)
{
    lookup_forms f = {.opts.size = sizeof f.opts};
    char where[120];
    (void)snprintf(where, sizeof where, "lookup '%.80s'", name->text);
    out->node = node;
    out->name = name->text;
    if (node->kind != FBY_NODE_MAP)
        return fby__node_fail(r, node, "%s: a map with paths and key is expected", where);
    fby__key keys[FBY__MAX_KEYS];
    (void)fby__option_keys(FBY_OPTIONS_LOOKUP, offsetof(lookup_forms, opts), lookup_keys, keys); /* keys itself */
    FBY__TRY(fby__read_source(r, node, where, keys, &f, &out->source));
    f.opts.n_threads = out->source.opts.n_threads;
    if (f.n_key > FBY_MAX_KEYS)
        return fby__node_fail(r, fby__node_get(node, "key"), "%s: a key has at most %d columns", where, FBY_MAX_KEYS);
    f.opts.key = f.n_key ? f.key[0] : NULL;
    f.opts.more_keys = f.n_key > 1 ? f.key + 1 : NULL;
    f.opts.n_more_keys = f.n_key > 1 ? f.n_key - 1 : 0;
    out->opts = f.opts;
    out->distinct = f.distinct;
    if (f.keys) {
        if (out->source.n_sources || f.opts.key || f.distinct)
            return fby__node_fail(r, node, "%s: keys are of a table in this file, which has no paths, key or distinct", where);
        return read_inline(r, where, &f, out);
    }
    if (out->source.n_sources == 0 && !f.distinct)
        return fby__node_fail(r, node, "%s: paths is missing: the table's files, or keys and values in this file", where);
    if ((f.opts.key != NULL) == (f.distinct != NULL))
        return fby__node_fail(
            r, node, "%s: key is missing: the column by which rows are found (or distinct: a column whose values are numbered)", where);
    if (f.distinct && (f.opts.n_columns || f.opts.has_fill_missing || f.opts.first_wins))
        return fby__node_fail(r, node, "%s: distinct values have no columns", where);
    return FBY_OK;
}

fby_status fby__read_lookups(fby_pipeline *p, const fby__reading *r, const fby_node *node)
{
    if (node->kind != FBY_NODE_MAP)
        return fby__node_fail(r, node, "lookups: a map of names to tables is expected");
    if (!(p->lookups = fby__reading_alloc(r, node->n, sizeof *p->lookups)))
        return FBY_E_NOMEM;
    for (; p->n_lookups < node->n; p->n_lookups++)
        FBY__TRY(read_lookup(r, node->keys[p->n_lookups], node->items[p->n_lookups], &p->lookups[p->n_lookups]));
    return FBY_OK;
}

typedef struct moments_forms {
    fby_fit_opts opts;
    const char *file, *by, *split;
    const fby_node *ops;
} moments_forms;

static const fby__key moments_keys[] = {
    FBY__KEY("split", FBY__WANT_TEXT, moments_forms, split),
    FBY__KEY("by", FBY__WANT_TEXT, moments_forms, by),
    FBY__KEY("ops", FBY__WANT_NODE, moments_forms, ops),
    FBY__KEY("file", FBY__WANT_PATH, moments_forms, file),
    FBY__KEY_END,
};

static fby_status read_moments(fby_pipeline *p, const fby__reading *r, const fby_node *name, const fby_node *node, fby__moments_spec *out)
{
    moments_forms f = {.opts = {FBY_FIT_SIZES}};
    char where[120];
    (void)snprintf(where, sizeof where, "moments '%.80s'", name->text);
    out->node = node;
    out->name = name->text;
    if (node->kind == FBY_NODE_TEXT) /* a saved file's path */
        return (out->file = fby__read_path(r, node->text)) ? FBY_OK : FBY_E_NOMEM;
    fby__key keys[FBY__MAX_KEYS];
    FBY__TRY(fby__read_map(r, node, where, fby__option_keys(FBY_OPTIONS_FIT, offsetof(moments_forms, opts), moments_keys, keys), &f));
    if ((f.file != NULL) == (f.opts.n_columns > 0))
        return fby__node_fail(r, node, "%s: columns, over which they are fitted, or file, where they were saved, is needed", where);
    if (f.file && (f.split || f.by || f.ops || f.opts.has_pad || f.opts.count))
        return fby__node_fail(r, node, "%s: saved moments are what they are: split, by, ops, pad and count are of fitted ones", where);
    if (fby__node_get(node, "axis") && (f.opts.axis == 0 || f.file))
        return fby__node_fail(r, node, f.file ? "%s: saved moments have their axis" : "%s: axis: count from the end: -1 is the last",
                              where);
    if (f.ops)
        FBY__TRY(fby__read_ops(p, r, f.ops, where, NULL, f.opts.columns, f.opts.n_columns, &f.opts.ops, &f.opts.n_ops));
    out->opts = f.opts;
    out->file = f.file;
    out->by = f.by;
    out->split = f.split;
    return FBY_OK;
}

fby_status fby__read_moments(fby_pipeline *p, const fby__reading *r, const fby_node *node)
{
    if (node->kind != FBY_NODE_MAP)
        return fby__node_fail(r, node, "moments: a map of names to what is fitted is expected");
    fby__moments_spec *moments = fby__reading_alloc(r, node->n, sizeof *moments);
    if (!moments)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < node->n; i++)
        FBY__TRY(read_moments(p, r, node->keys[i], node->items[i], &moments[i]));
    p->moments = moments;
    p->n_moments = node->n;
    return FBY_OK;
}

fby_status fby__check_moments(const fby_pipeline *p, const fby__reading *r)
{
    for (size_t i = 0; i < p->n_moments; i++) {
        const fby__moments_spec *m = &p->moments[i];
        if (m->split && !fby__has_split(p, m->split))
            return fby__node_fail(r, fby__node_get(m->node, "split"), "moments '%.80s': there is no split '%.60s' in the section splits",
                                  m->name, m->split);
        if (m->by && p->mix.n_sources)
            return fby__node_fail(r, fby__node_get(m->node, "by"),
                                  "moments '%.80s': by a key they are of one data set: write them into the section moments of every source "
                                  "whose outputs use them (mix: {sources: {%.60s: {moments: …}}})",
                                  m->name, p->mix.names[0]);
    }
    return FBY_OK;
}

fby__lookup_spec *fby__find_lookup(fby_pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n_lookups; i++)
        if (strcmp(p->lookups[i].name, name) == 0)
            return &p->lookups[i];
    return p->mixture ? fby__find_lookup(p->mixture, name) : NULL;
}

fby__moments_spec *fby__find_moments(fby_pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n_moments; i++)
        if (strcmp(p->moments[i].name, name) == 0)
            return &p->moments[i];
    return p->mixture ? fby__find_moments(p->mixture, name) : NULL;
}

fby_status fby__no_moments(const fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *what, const char *name)
{
    fby__near near = {.wanted = name};
    size_t own = 0;
    for (const fby_pipeline *in = p; in; in = in->mixture)
        for (size_t i = 0; i < in->n_moments; i++)
            fby__near_offer(&near, in->moments[i].name);
    if (near.n)
        return fby__node_fail(r, node, "%s: there are no moments '%.60s': did you mean '%s'?", what, name, near.names[0]);
    if (!p->mixture)
        return fby__node_fail(r, node, "%s: there are no moments '%.60s' in the section moments", what, name);
    while (p->mixture->mix.sources[own] != p)
        own++;
    return fby__node_fail(r, node,
                          "%s: there are no moments '%.60s' of source '%.60s' (mix: {sources: {%.60s: {moments: …}}}), nor of the file",
                          what, name, p->mixture->mix.names[own], p->mixture->mix.names[own]);
}

/* --- opening tables ------------------------------------------------------------------------------------------------------------------------ */

static fby_status open_lookup(fby_pipeline *p, const fby__reading *r, fby__lookup_spec *l)
{
    char where[120];
    (void)snprintf(where, sizeof where, "lookup '%.80s'", l->name);
    fby_status status;
    if (l->table)
        return FBY_OK;
    if (l->is_inline) {
        status =
            fby_lookup_create_keys(l->keys, l->n_key_columns, l->n_keys, l->opts.columns, l->opts.n_columns, l->values, &l->table, r->err);
        return status == FBY_OK ? FBY_OK : fby__node_context(r, l->node, where);
    }
    size_t n = l->distinct ? 1 : l->source.n_sources, opened = 0;
    fby_dataset **tables = fby__calloc(n, sizeof *tables);
    status = tables ? FBY_OK : fby__read_nomem(r);
    if (status == FBY_OK && l->source.n_sources == 0) { /* the values of the data set itself */
        fby_dataset *own = NULL;
        status = fby_pipeline_dataset(p, &own, r->err);
        if (status == FBY_OK)
            tables[opened++] = fby_dataset_ref(own);
    }
    for (; status == FBY_OK && opened < n; opened += status == FBY_OK) {
        fby__source_spec one = l->source;
        if (!l->distinct) { /* each path is a table of its own, joined on the key */
            one.sources = &l->source.sources[opened];
            one.n_sources = 1;
        }
        status = fby__open_source(p, r, &one, where, &tables[opened]);
    }
    if (status == FBY_OK) {
        status = l->distinct ? fby_lookup_distinct(tables[0], l->distinct, &l->table, r->err)
                             : fby_lookup_open(tables, n, &l->opts, &l->table, r->err);
        if (status != FBY_OK)
            status = fby__node_context(r, l->node, where);
    }
    for (size_t i = 0; i < opened; i++)
        fby_dataset_close(tables[i]);
    fby__free(tables);
    return status;
}

/* --- moments --------------------------------------------------------------------------------------------------------------------------------- */

static double number_or_nan(const fby_node *node)
{
    return node && (node->kind == FBY_NODE_INT || node->kind == FBY_NODE_FLOAT) ? node->number : NAN;
}

/* A number of a column's moments, or of a place of them. */
static const fby_node *saved_number(const fby_node *one, const char *name, const size_t *place)
{
    const fby_node *found = fby__node_get(one, name);
    return place && found && found->kind == FBY_NODE_LIST && *place < found->n ? found->items[*place] : place ? NULL : found;
}

static fby_moments saved_moments(const fby_node *one, const size_t *place)
{
    const fby_node *n = saved_number(one, "n", place);
    return (fby_moments){.count = n && n->kind == FBY_NODE_INT && n->integer > 0 ? (uint64_t)n->integer : 0,
                         .mean = number_or_nan(saved_number(one, "mean", place)),
                         .std = number_or_nan(saved_number(one, "std", place))};
}

/* The axis whose places each have moments, and how many there are: of all columns alike. False for a file that is damaged. */
static bool find_places(const fby_node *root, const fby_node *columns, fby__moments_spec *m, size_t *out_each)
{
    const fby_node *axis = fby__node_get(root, "axis");
    if (!axis)
        return true;
    const fby_node *first = columns->n ? fby__node_get(columns->items[0], "n") : NULL;
    if (axis->kind != FBY_NODE_INT || axis->integer >= 0 || axis->integer < -FBY_MAX_DIMS || !first || first->kind != FBY_NODE_LIST)
        return false;
    for (size_t i = 0; i < columns->n; i++) {
        const fby_node *n = fby__node_get(columns->items[i], "n");
        if (!n || n->kind != FBY_NODE_LIST || n->n != first->n)
            return false;
    }
    m->opts.axis = (int32_t)axis->integer;
    m->opts.n_each = *out_each = first->n;
    return first->n > 0;
}

/* What Moments.to_dict() of the Python package gives, as JSON or YAML. */
static fby_status load_moments(const fby__reading *r, fby__moments_spec *m)
{
    fby_tree *tree = NULL;
    const char **names = NULL;
    fby_moments *moments = NULL;
    fby_status status = fby_tree_read(m->file, &tree, r->err);
    if (status != FBY_OK)
        return fby__node_context(r, m->node, "moments");
    const fby_node *root = fby_tree_root(tree), *version = fby__node_get(root, "version"), *columns = fby__node_get(root, "columns");
    size_t each = 1;
    if (!version || version->kind != FBY_NODE_INT || version->integer < 1 || version->integer > 2 || !columns ||
        columns->kind != FBY_NODE_MAP || !find_places(root, columns, m, &each)) {
        status = fby__node_fail(r, m->node, "moments '%.80s': %.200s holds no moments of version 1 or 2", m->name, m->file);
        goto done;
    }
    names = fby__reading_alloc(r, columns->n, sizeof *names);
    moments = fby__reading_alloc(r, columns->n * each, sizeof *moments);
    status = FBY_E_NOMEM;
    if (!names || !moments)
        goto done;
    for (size_t i = 0; i < columns->n; i++) {
        for (size_t k = 0; k < each; k++)
            moments[i * each + k] = saved_moments(columns->items[i], m->opts.n_each ? &k : NULL);
        if (!(names[i] = fby__arena_copy(r->arena, columns->keys[i]->text, strlen(columns->keys[i]->text)))) {
            (void)fby__read_nomem(r);
            goto done;
        }
    }
    m->opts.columns = names;
    m->opts.n_columns = columns->n;
    m->moments = moments;
    status = FBY_OK;
done:
    fby_tree_close(tree);
    return status;
}

/* The places of the axis that the moments name, as the first column has them. */
static fby_status count_places(const fby__reading *r, fby__moments_spec *m, const fby_dataset *ds)
{
    fby__dataset_column column;
    int64_t size = 0;
    if (m->opts.axis && fby__dataset_resolve(ds, m->opts.columns[0], &column, NULL) == FBY_OK) /* else fitting says so */
        size = fby__field_axis(column.field, m->opts.axis);
    if (size < 0 || (m->opts.axis && m->by))
        return fby__node_fail(
            r, m->node, "moments '%.80s': axis %d: %s", m->name, m->opts.axis,
            size < 0 ? "count the axes of an array in a row from the end, -1 is the last"
                     : "moments by group are of whole columns, not of the places on an axis: fit the places without a key, or keep each "
                       "feature as a column of its own");
    m->opts.n_each = (size_t)size;
    return FBY_OK;
}

static bool is_of(const fby_pipeline *p, const fby__moments_spec *m) { return m >= p->moments && m < p->moments + p->n_moments; }

static fby_status fit_moments(fby_pipeline *p, const fby__reading *reading, fby__moments_spec *m)
{
    char where[120];
    fby_dataset *ds = NULL;
    fby_mix mix = {.size = sizeof mix};
    fby_fit_opts opts = m->opts;
    (void)snprintf(where, sizeof where, "moments '%.80s'", m->name);
    if (m->moments || m->table)
        return FBY_OK;
    if (!is_of(p, m)) /* the mixture's: over all sources, and for all of them */
        p = p->mixture;
    const fby__reading own = fby__reading_of(p, reading->err), *r = &own;
    if (m->file)
        return load_moments(r, m);
    if (p->mix.n_sources)
        FBY__TRY(fby__mix_samples(p, m->split, &mix, r->err));
    FBY__TRY(fby_pipeline_dataset(p->mix.n_sources ? p->mix.sources[0] : p, &ds, r->err));
    if (!p->mix.n_sources)
        FBY__TRY(fby_pipeline_samples(p, m->split, &opts.samples, r->err));
    if (m->by) {
        if (fby_fit_groups(ds, &opts, m->by, &m->table, r->err) != FBY_OK)
            return fby__node_context(r, m->node, where);
        return FBY_OK;
    }
    FBY__TRY(count_places(r, m, ds));
    opts.n_each = m->opts.n_each;
    fby_moments *moments = fby__reading_alloc(r, opts.n_columns * (opts.n_each ? opts.n_each : 1), sizeof *moments);
    if (!moments)
        return FBY_E_NOMEM;
    if ((p->mix.n_sources ? fby_fit_mix(&mix, &opts, moments, r->err) : fby_fit_moments(ds, &opts, moments, r->err)) != FBY_OK)
        return fby__node_context(r, m->node, where);
    m->moments = moments;
    return FBY_OK;
}

/* --- into the outputs -------------------------------------------------------------------------------------------------------------------------- */

static size_t index_of(const char *name, const char *const *names, size_t n)
{
    size_t i = 0;
    while (i < n && strcmp(names[i], name) != 0)
        i++;
    return i;
}

static fby_status meet_columns(const fby__reading *r, const fby__need *need, fby_lookup *table)
{
    size_t n = need->n_columns, all = fby_lookup_column_count(table);
    need->make->lookup.table = table;
    if (need->output->n_columns != fby_lookup_key_column_count(table))
        return fby__node_fail(r, need->node, "output '%.60s': on: %zu column%s for the key of the lookup '%.60s', which has %zu",
                              need->output->name, need->output->n_columns, need->output->n_columns == 1 ? "" : "s", need->name,
                              fby_lookup_key_column_count(table));
    if (need->all_columns) { /* of a table without values: the place of the key, as where columns is empty */
        n = all;
        need->make->lookup.keep_axis = true;
    }
    size_t *places = fby__reading_alloc(r, n, sizeof *places);
    if (!places)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t at = need->all_columns ? i : 0;
        while (!need->all_columns && at < all && strcmp(fby_lookup_column(table, at), need->columns[i]) != 0)
            at++;
        places[i] = at;
        if (at == all)
            return fby__node_fail(r, need->node, "output '%.60s': the lookup '%.60s' has no column '%.80s'", need->output->name, need->name,
                                  need->columns[i]);
    }
    need->make->lookup.columns = n ? places : NULL;
    need->make->lookup.n_columns = n;
    return FBY_OK;
}

static fby_status meet_moments(const fby__reading *r, const fby__need *need, const fby__moments_spec *m)
{
    const size_t each = m->opts.n_each ? m->opts.n_each : 1, n = need->n_columns * each;
    double *mean = fby__reading_alloc(r, n, sizeof *mean), *std = fby__reading_alloc(r, n, sizeof *std);
    if (!mean || !std)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *column = need->columns[i / each];
        const size_t at = index_of(column, m->opts.columns, m->opts.n_columns);
        if (at == m->opts.n_columns)
            return fby__node_fail(r, need->node, "the moments '%.60s' are not of the column '%.80s'", need->name, column);
        const fby_moments *found = &m->moments[at * each + i % each];
        if (found->count == 0)
            return fby__node_fail(r, need->node, "the moments '%.60s': the column '%.80s' had no values%s", need->name, column,
                                  m->opts.n_each ? " at one of the places" : "");
        mean[i] = found->mean;
        std[i] = found->std == 0 ? 1 : found->std; /* a column whose values are all the same becomes 0 */
    }
    need->op->a_each = mean;
    need->op->b_each = std;
    need->op->n_each = m->opts.n_each;
    need->op->axis = m->opts.axis;
    return FBY_OK;
}

/* The table of a fit by group in the output's columns: of each its mean, then of each its std. */
static fby_status meet_group_moments(const fby__reading *r, fby__need *need, const fby__moments_spec *m)
{
    size_t n = need->n_columns, n_keys = fby_lookup_count(m->table), cells;
    fby_status status = FBY_E_NOMEM;
    bool texts = fby_lookup_has_text_keys(m->table), fits = fby__mul_checked(n_keys, 2 * n, &cells);
    int64_t *numbers = fby__calloc(n_keys + 1, sizeof *numbers);
    const char **text = fby__calloc(n_keys + 1, sizeof *text);
    double *values = fits ? fby__calloc(cells + 1, sizeof *values) : NULL;
    const char **names = fby__reading_alloc(r, 2 * n, sizeof *names);
    if (!numbers || !text || !values || !names) {
        (void)fby__read_nomem(r);
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = index_of(need->columns[i], m->opts.columns, m->opts.n_columns);
        if (at == m->opts.n_columns) {
            status = fby__node_fail(r, need->node, "the moments '%.60s' are not of the column '%.80s'", need->name, need->columns[i]);
            goto done;
        }
        for (size_t k = 0; k < n_keys; k++) {
            double std = fby_lookup_value(m->table, k, m->opts.n_columns + at);
            values[k * 2 * n + i] = fby_lookup_value(m->table, k, at);
            values[k * 2 * n + n + i] = std == 0 ? 1 : std;
        }
        names[i] = fby_lookup_column(m->table, at);
        names[n + i] = fby_lookup_column(m->table, m->opts.n_columns + at);
    }
    for (size_t k = 0; k < n_keys; k++)
        if ((status = fby_lookup_key(m->table, k, &numbers[k], &text[k], r->err)) != FBY_OK)
            goto done;
    status = fby_lookup_create(texts ? NULL : numbers, texts ? text : NULL, n_keys, names, 2 * n, values, &need->table, r->err);
    need->make->standardize.moments = need->table;
done:
    fby__free(numbers);
    fby__free(text);
    fby__free(values);
    return status;
}

fby_status fby__meet_needs(fby_pipeline *p, const fby__reading *r)
{
    for (fby__need *need = p->needs; need && !p->needs_met; need = need->next) {
        if (need->kind == FBY__NEED_CLASS_MAP || need->kind == FBY__NEED_FEATURE_NAMES) {
            FBY__TRY((need->kind == FBY__NEED_CLASS_MAP ? fby__meet_class_map : fby__meet_feature_names)(p, r, need));
            continue;
        }
        if (need->kind != FBY__NEED_MOMENTS && need->kind != FBY__NEED_GROUP_MOMENTS) {
            fby__lookup_spec *l = fby__find_lookup(p, need->name);
            FBY__TRY(open_lookup(p, r, l));
            if (need->kind == FBY__NEED_POSITIONS)
                need->make->group_channels.positions = l->table;
            else if (need->kind == FBY__NEED_SCALES)
                need->make->standardize.moments = l->table;
            else
                FBY__TRY(meet_columns(r, need, l->table));
            continue;
        }
        fby__moments_spec *m = fby__find_moments(p, need->name);
        FBY__TRY(fit_moments(p, r, m));
        if (need->kind == FBY__NEED_MOMENTS)
            FBY__TRY(meet_moments(r, need, m));
        else if (!need->table)
            FBY__TRY(meet_group_moments(r, need, m));
    }
    p->needs_met = true;
    return FBY_OK;
}

void fby__tables_fini(fby_pipeline *p)
{
    for (fby__need *need = p->needs; need; need = need->next)
        fby_lookup_close(need->table);
    for (size_t i = 0; i < p->n_lookups; i++)
        fby_lookup_close(p->lookups[i].table);
    for (size_t i = 0; i < p->n_moments; i++)
        fby_lookup_close(p->moments[i].table);
}
