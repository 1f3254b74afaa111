/*
 * Pipelines: a file read and checked section by section, then data sets, samples, tables and loaders opened on demand and kept.
 *
 * Sections refer to each other upwards only, so they are read in one order: data, samples, splits, lookups, moments, outputs, loader.
 * A mixture has these of each source, but for the loader (section_mix.c).
 */
#include "pipeline/pipeline_internal.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/nearest.h"
#include "base/sized.h"

#include <stdio.h>
#include <string.h>

/* --- overrides: "loader.batch_size=64" --------------------------------------------------------------------------------------------------- */

/* A copy of a map in which the key at `path` has another value; keys that are not there are added. NULL with the error set. */
static const fby_node *replace(const fby__reading *r, const fby_node *map, const char *path, const fby_node *value)
{
    if (*path == 0)
        return value;
    static const fby_node empty = {.kind = FBY_NODE_MAP};
    if (!map || map->kind == FBY_NODE_NULL)
        map = &empty;
    if (map->kind != FBY_NODE_MAP) {
        (void)fby__fail(r->err, FBY_E_ARG, "%s: the override of '%.100s': what is above it is no map", r->file, path);
        return NULL;
    }
    /* A key may hold dots (an output is named as a column by its path): the longest key that fits. */
    size_t at = map->n, length = strcspn(path, ".");
    for (size_t i = 0; i < map->n; i++) {
        size_t n = strlen(map->keys[i]->text);
        if (strncmp(map->keys[i]->text, path, n) == 0 && (path[n] == 0 || path[n] == '.') && (at == map->n || n > length)) {
            at = i;
            length = n;
        }
    }
    size_t n = map->n + (at == map->n);
    fby_node *copy = fby__reading_alloc(r, 1, sizeof *copy), *key = fby__reading_alloc(r, 1, sizeof *key);
    const fby_node **items = fby__reading_alloc(r, n, sizeof *items), **keys = fby__reading_alloc(r, n, sizeof *keys);
    const char *name = fby__arena_copy(r->arena, path, length);
    if (!copy || !key || !items || !keys || !name) {
        (void)fby__read_nomem(r);
        return NULL;
    }
    for (size_t i = 0; i < map->n; i++) {
        items[i] = map->items[i];
        keys[i] = map->keys[i];
    }
    if (at == map->n) {
        *key = (fby_node){.kind = FBY_NODE_TEXT, .line = value->line, .column = value->column, .text = name};
        keys[at] = key;
    }
    items[at] = replace(r, at < map->n ? map->items[at] : NULL, path + length + (path[length] == '.'), value);
    *copy = *map;
    copy->n = n;
    copy->items = items;
    copy->keys = keys;
    return items[at] ? copy : NULL;
}

/* Values of overrides have no place in the file: messages say so instead. Their tree is not shared yet, so its nodes may be changed. */
static void forget_places(const fby_node *node)
{
    fby_node *mine = (fby_node *)(uintptr_t)node;
    if (mine->line == 0)
        return; /* an alias brought us here before */
    mine->line = mine->column = 0;
    for (size_t i = 0; i < node->n; i++) {
        forget_places(node->items[i]);
        if (node->kind == FBY_NODE_MAP)
            forget_places(node->keys[i]);
    }
}

static fby_status override(fby_pipeline *p, const fby__reading *r, const char *text)
{
    const char *equals = text ? strchr(text, '=') : NULL;
    if (!equals || equals == text)
        return fby__fail(r->err, FBY_E_ARG, "an override is a key and a value: loader.batch_size=64, not '%.100s'", text ? text : "");
    const char *path = fby__arena_copy(r->arena, text, (size_t)(equals - text));
    char name[160];
    (void)snprintf(name, sizeof name, "%.120s", text);
    if (!path)
        return fby__read_nomem(r);
    fby_tree **tree = &p->more_trees[p->n_more_trees];
    FBY__TRY(fby_tree_parse(equals + 1, strlen(equals + 1), name, tree, r->err));
    p->n_more_trees++;
    forget_places(fby_tree_root(*tree));
    const fby_node *root = replace(r, p->root, path, fby_tree_root(*tree));
    if (!root)
        return FBY_E_ARG;
    p->root = root;
    return FBY_OK;
}

/* --- the sections --------------------------------------------------------------------------------------------------------------------------- */

static const fby__key section_keys[] = {
    FBY__KEY("version", FBY__WANT_NODE, fby__sections, version), FBY__KEY("data", FBY__WANT_NODE, fby__sections, data),
    FBY__KEY("mix", FBY__WANT_NODE, fby__sections, mix),         FBY__KEY("samples", FBY__WANT_NODE, fby__sections, samples),
    FBY__KEY("splits", FBY__WANT_NODE, fby__sections, splits),   FBY__KEY("lookups", FBY__WANT_NODE, fby__sections, lookups),
    FBY__KEY("moments", FBY__WANT_NODE, fby__sections, moments), FBY__KEY("outputs", FBY__WANT_NODE, fby__sections, outputs),
    FBY__KEY("loader", FBY__WANT_NODE, fby__sections, loader),   FBY__KEY_END,
};

/* What people write beside the sections, and what is meant. */
static const struct {
    const char *key, *meant;
} other_words[] = {
    {"windows", "it is a form of samples: samples: {windows: {input: 365, output: 7}}"},
    {"groups", "it is a form of samples: samples: {groups: {key: event_id}}"},
    {"cells", "it is a form of samples: samples: {cells: {axes: 2}}"},
    {"rows", "it is a form of samples: samples: rows"},
    {"columns", "the section outputs names columns: outputs: {x: {columns: [a, b]}}"},
    {"features", "the section outputs names columns: outputs: {x: {columns: [a, b]}}"},
    {"weights", "it is a key of the section mix: mix: {sources: {…}, weights: {…}}"},
    {"stop", "it is a key of the section mix: mix: {sources: {…}, stop: all}"},
    {"sources", "it is a key of the section mix: mix: {sources: {a: {data: …}, b: {data: …}}}"},
    {"num_workers", "there are no worker processes: loader: {threads: 8} read and decode"},
};

/* The key of a section that is meant: exactly, or the nearest. */
static const char *option_like(fby_option_set set, const char *key, bool exactly)
{
    fby__near near = {.wanted = key};
    for (const fby_option *o = fby__option_table(set); o->name; o++) {
        if (!(o->flags & FBY_OPTION_IN_FILE))
            continue;
        if (strcmp(o->name, key) == 0)
            return o->name;
        if (!exactly)
            fby__near_offer(&near, o->name);
    }
    return near.n ? near.names[0] : NULL;
}

/*
 * What stands beside the sections and is none: a section misspelt is left to read_map(), which names the nearest; for a key of a section the
 * section is named, and for a misspelt one the key too.
 */
static fby_status check_level(const fby__reading *r, const fby_node *root)
{
    static const struct {
        const char *name;
        fby_option_set set;
    } SECTIONS[] = {{"loader", FBY_OPTIONS_LOADER}, {"data", FBY_OPTIONS_OPEN}};
    const char *names[sizeof section_keys / sizeof *section_keys];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        names[k] = section_keys[k].name;
    for (size_t i = 0; root->kind == FBY_NODE_MAP && i < root->n; i++) {
        const char *key = root->keys[i]->text;
        if (strcmp(key, "split") == 0 && root->items[i]->kind == FBY_NODE_TEXT) /* else the section splits is meant */
            return fby__node_fail(r, root->keys[i], "the file: 'split' is a key of the section loader: write loader: {split: …}");
        for (size_t k = 0; k < sizeof other_words / sizeof *other_words; k++)
            if (strcmp(other_words[k].key, key) == 0)
                return fby__node_fail(r, root->keys[i], "the file: unknown key '%s': %s", key, other_words[k].meant);
        if (fby__nearest(key, names))
            continue;
        for (int pass = 0; pass < 2; pass++) /* exact ones first */
            for (size_t k = 0; k < sizeof SECTIONS / sizeof *SECTIONS; k++) {
                const char *in = SECTIONS[k].name, *option = option_like(SECTIONS[k].set, key, pass == 0);
                if (option && pass == 0)
                    return fby__node_fail(r, root->keys[i], "the file: '%s' is a key of the section %s: write %s: {%s: …}", key, in, in,
                                          key);
                if (option)
                    return fby__node_fail(r, root->keys[i], "the file: unknown key '%s': did you mean '%s' of the section %s, %s: {%s: …}?",
                                          key, option, in, in, option);
            }
    }
    return FBY_OK;
}

fby_status fby__read_sections(fby_pipeline *p, const fby__reading *r, const fby_node *owner, const fby__sections *s)
{
    if (!s->data)
        return fby__node_fail(r, owner, "the section data is missing: data: {paths: …}");
    FBY__TRY(fby__read_data(p, r, s->data));
    p->samples.opts.size = sizeof p->samples.opts;
    if (s->samples)
        FBY__TRY(fby__read_samples(p, r, s->samples));
    if (p->samples.axes && p->data.opts.sample_axes > 1 && p->data.opts.sample_axes != p->samples.axes)
        return fby__node_fail(r, p->samples.node, "samples: cells over %d axes, and data: axes: %d", p->samples.axes,
                              p->data.opts.sample_axes);
    if (p->samples.axes)
        p->data.opts.sample_axes = p->samples.axes;
    if (s->splits)
        FBY__TRY(fby__read_splits(p, r, s->splits));
    if (s->lookups)
        FBY__TRY(fby__read_lookups(p, r, s->lookups));
    if (s->moments)
        FBY__TRY(fby__read_moments(p, r, s->moments));
    FBY__TRY(fby__check_moments(p, r));
    return s->outputs ? fby__read_outputs(p, r, s->outputs) : FBY_OK;
}

static fby_status read_file(fby_pipeline *p, const fby__reading *r)
{
    fby__sections s = {0};
    FBY__TRY(check_level(r, p->root));
    FBY__TRY(fby__read_map(r, p->root, "the file", section_keys, &s));
    if (s.version && !(s.version->kind == FBY_NODE_INT && s.version->integer == 1))
        return fby__node_fail(r, s.version, "version: 1 is the only one this library knows");
    FBY__TRY(s.mix ? fby__read_mix(p, r, &s) : fby__read_sections(p, r, p->root, &s));
    p->loader = (fby_loader_opts){FBY_LOADER_SIZES};
    return s.loader ? fby__read_loader(p, r, s.loader) : FBY_OK;
}

fby__reading fby__reading_of(fby_pipeline *p, fby_error *err)
{
    return (fby__reading){.arena = &p->arena, .file = p->file, .base_dir = p->base_dir, .err = err ? err : &p->spare};
}

static const char *directory_of(fby_pipeline *p, const char *path)
{
    const char *slash = strrchr(path, '/');
    return fby__arena_copy(&p->arena, path, slash ? (size_t)(slash - path) + (slash == path) : 0);
}

static fby_status keep_overrides(fby_pipeline *p, const fby__reading *r, const fby_pipeline_opts *o)
{
    const char **kept = fby__reading_alloc(r, o->n_overrides, sizeof *kept);
    if (!kept && o->n_overrides)
        return FBY_E_NOMEM;
    p->overrides = kept;
    for (size_t i = 0; i < o->n_overrides; i++) {
        FBY__TRY(override(p, r, o->overrides[i]));
        if (!(kept[i] = fby__arena_copy(&p->arena, o->overrides[i], strlen(o->overrides[i]))))
            return fby__read_nomem(r);
    }
    return FBY_OK;
}

/* path: NULL for a text. */
static fby_status open_text(const char *text, size_t n, const char *name, const char *path, const fby_pipeline_opts *o, fby_pipeline **out,
                            fby_error *err)
{
    fby_tree *tree = NULL;
    FBY__TRY(fby_tree_parse(text, n, name, &tree, err));
    fby_pipeline *p = fby__calloc(1, sizeof *p);
    if (!p) {
        fby_tree_close(tree);
        return fby__fail_nomem(err, "a pipeline");
    }
    p->tree = tree;
    p->root = fby_tree_root(tree);
    p->needs_end = &p->needs;
    p->progress = o->progress;
    p->progress_user = o->progress_user;
    p->text = fby__arena_copy(&p->arena, text, n);
    p->file = fby__arena_copy(&p->arena, name, strlen(name));
    p->base_dir = o->base_dir ? fby__arena_copy(&p->arena, o->base_dir, strlen(o->base_dir)) : directory_of(p, path ? path : "");
    if (o->cache_dir)
        p->cache_dir = fby__arena_copy(&p->arena, o->cache_dir, strlen(o->cache_dir));
    p->more_trees = fby__calloc(o->n_overrides + 1, sizeof *p->more_trees);
    fby__reading r = fby__reading_of(p, err);
    fby_status status =
        p->text && p->file && p->base_dir && p->more_trees && (p->cache_dir || !o->cache_dir) ? FBY_OK : fby__read_nomem(&r);
    if (status == FBY_OK)
        status = keep_overrides(p, &r, o);
    if (status == FBY_OK)
        status = read_file(p, &r);
    if (status != FBY_OK) {
        fby_pipeline_close(p);
        return status;
    }
    *out = p;
    return FBY_OK;
}

static fby_status take_opts(const fby_pipeline_opts *given, fby_pipeline_opts *out, fby_error *err)
{
    *out = (fby_pipeline_opts){.size = sizeof *out};
    return given ? FBY__SIZED_IN(fby_pipeline_opts, n_overrides, given, out, err) : FBY_OK;
}

fby_status fby_pipeline_open(const char *path, const fby_pipeline_opts *opts, fby_pipeline **out, fby_error *err)
{
    char *text = NULL;
    size_t n = 0;
    fby_pipeline_opts taken;
    if (!path || !out)
        return fby__fail(err, FBY_E_ARG, "a path and a pointer for the pipeline are needed");
    FBY__TRY(take_opts(opts, &taken, err));
    FBY__TRY(fby__tree_read_text(path, &text, &n, err));
    const fby_status status = open_text(text, n, path, path, &taken, out, err);
    fby__free(text);
    return status;
}

fby_status fby_pipeline_parse(const char *text, size_t n, const char *name, const fby_pipeline_opts *opts, fby_pipeline **out,
                              fby_error *err)
{
    fby_pipeline_opts taken;
    if (!out)
        return fby__fail(err, FBY_E_ARG, "a pointer for the pipeline is needed");
    FBY__TRY(take_opts(opts, &taken, err));
    return open_text(text, n, name, NULL, &taken, out, err);
}

void fby_pipeline_close(fby_pipeline *p)
{
    if (!p)
        return;
    fby__mix_fini(p);
    for (size_t i = 0; i < p->n_splits; i++)
        fby_samples_close(p->splits[i].samples);
    fby_samples_close(p->all);
    fby_dataset_close(p->opened);
    fby__tables_fini(p);
    for (size_t i = 0; i < p->n_more_trees; i++)
        fby_tree_close(p->more_trees[i]);
    fby__free(p->more_trees);
    fby_tree_close(p->tree);
    fby__arena_fini(&p->arena);
    fby__free(p);
}

const char *fby_pipeline_default_split(const fby_pipeline *p)
{
    return !p ? NULL : p->mixture ? p->mixture->loader_split : p->loader_split;
}

const fby_node *fby_pipeline_tree(const fby_pipeline *p) { return p ? p->root : NULL; }

const char *fby_pipeline_split(const fby_pipeline *p, size_t i)
{
    if (p && p->mix.n_sources)
        return fby_pipeline_split(p->mix.sources[0], i); /* all sources have those */
    return p && i < p->n_splits ? p->splits[i].name : NULL;
}

bool fby__has_split(const fby_pipeline *p, const char *name)
{
    const char *split;
    for (size_t i = 0; (split = fby_pipeline_split(p, i)); i++)
        if (strcmp(split, name) == 0)
            return true;
    return false;
}

fby_pipeline *fby_pipeline_source(fby_pipeline *p, size_t i, const char **out_name)
{
    if (!p || i >= p->mix.n_sources)
        return NULL;
    if (out_name)
        *out_name = p->mix.names[i];
    return p->mix.sources[i];
}

/* --- opening on demand -------------------------------------------------------------------------------------------------------------------------- */

static fby_status one_data_set(const fby_pipeline *p, const char *what, fby_error *err)
{
    return p->mix.n_sources == 0 ? FBY_OK
                                 : fby__fail(err, FBY_E_ARG,
                                             "%s: the file describes a mixture: each of its sources has %s of its own: ask for one "
                                             "of the sources, or name the files of one",
                                             p->file, what);
}

fby_status fby_pipeline_dataset(fby_pipeline *p, fby_dataset **out, fby_error *err)
{
    if (!p || !out)
        return fby__fail(err, FBY_E_ARG, "a pipeline and a pointer for the data set are needed");
    FBY__TRY(one_data_set(p, "data", err));
    fby__reading r = fby__reading_of(p, err);
    if (!p->opened)
        FBY__TRY(fby__open_source(p, &r, &p->data, "data", &p->opened));
    *out = p->opened;
    return FBY_OK;
}

static fby_status no_split(const fby_pipeline *p, const char *split, fby_error *err)
{
    char names[400] = "";
    const char *name;
    for (size_t i = 0, n = 0; (name = fby_pipeline_split(p, i)) && n < sizeof names - 1; i++) {
        int m = snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", name);
        n += m > 0 ? (size_t)m : 0;
    }
    if (!*names)
        return fby__fail(err, FBY_E_ARG, "%s: there is no split '%.60s': the file has no section splits", p->file, split);
    return fby__fail(err, FBY_E_ARG, "%s: there is no split '%.60s': there are %s", p->file, split, names);
}

fby_status fby_pipeline_samples(fby_pipeline *p, const char *split, fby_samples **out, fby_error *err)
{
    fby_dataset *ds = NULL;
    if (!p || !out)
        return fby__fail(err, FBY_E_ARG, "a pipeline and a pointer for the samples are needed");
    FBY__TRY(one_data_set(p, "samples", err));
    fby__reading r = fby__reading_of(p, err);
    fby__subset *chosen = NULL;
    for (size_t i = 0; split && i < p->n_splits; i++)
        if (strcmp(p->splits[i].name, split) == 0)
            chosen = &p->splits[i];
    if (split && !chosen)
        return no_split(p, split, err);
    FBY__TRY(fby_pipeline_dataset(p, &ds, err));
    if (!p->all)
        FBY__TRY(fby__open_samples(p, &r, ds));
    if (chosen && !chosen->is_open)
        FBY__TRY(fby__open_split(p, &r, chosen));
    *out = chosen ? chosen->samples : p->all;
    return FBY_OK;
}

/* The outputs into options of this version's layout. */
static fby_status take_outputs(fby_pipeline *p, fby_loader_opts *opts, fby_error *err)
{
    fby__reading r = fby__reading_of(p, err);
    FBY__TRY(fby__meet_needs(p, &r));
    opts->outputs = p->outputs;
    opts->n_outputs = p->n_outputs;
    return FBY_OK;
}

fby_status fby_pipeline_outputs(fby_pipeline *p, fby_loader_opts *out, fby_error *err)
{
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    if (!p)
        return fby__fail(err, FBY_E_ARG, "a pipeline is needed");
    FBY__TRY(one_data_set(p, "outputs", err));
    FBY__TRY(take_outputs(p, &opts, err));
    return FBY__SIZED_OUT(fby_loader_opts, batch_size, &opts, out, err);
}

fby_status fby_pipeline_choose_split(const fby_pipeline *p, const char *named, const char **out, fby_error *err)
{
    if (!p || !out)
        return fby__fail(err, FBY_E_ARG, "a pipeline and a pointer for the split are needed");
    const char *first = fby_pipeline_split(p, 0), *split = named ? named : fby_pipeline_default_split(p);
    if (!split && first) /* all samples would hold the test split as well: that must be meant */
        return fby__fail(err, FBY_E_ARG, "%s: which split? Name one ('%.60s'), or put split: %.60s into the section loader", p->file, first,
                         first);
    if (split && !fby__has_split(p, split))
        return no_split(p, split, err);
    *out = split;
    return FBY_OK;
}

static int put_note(fby__buf *b, const char *what, const char *value)
{
    return fby__buf_put(b, "# ", 2) | fby__buf_put(b, what, strlen(what)) | fby__buf_put(b, value, strlen(value)) |
           fby__buf_put(b, "\n", 1);
}

fby_status fby_pipeline_text(fby_pipeline *p, const char *split, const char **out, fby_error *err)
{
    if (!p || !out)
        return fby__fail(err, FBY_E_ARG, "a pipeline and a pointer for the text are needed");
    const fby_pipeline *file = p->mixture ? p->mixture : p;
    const char *usual = fby_pipeline_default_split(p);
    const bool other = split ? !usual || strcmp(split, usual) != 0 : usual != NULL;
    const size_t n = strlen(file->text);
    fby__buf b = {0};
    int failed = fby__buf_put(&b, file->text, n);
    if ((file->n_more_trees || other) && n && file->text[n - 1] != '\n')
        failed |= fby__buf_put(&b, "\n", 1);
    for (size_t i = 0; i < file->n_more_trees; i++)
        failed |= put_note(&b, "--set ", file->overrides[i]);
    if (other)
        failed |= split ? put_note(&b, "--split ", split) : put_note(&b, "all samples, of no split", "");
    const char *text = failed ? NULL : fby__arena_copy(&p->arena, (const char *)b.data, b.n);
    fby__buf_fini(&b);
    if (!text)
        return fby__fail_nomem(err, "the text of a pipeline");
    *out = text;
    return FBY_OK;
}

/* What the file says, in this version's layout. */
static fby_status loader_opts(fby_pipeline *p, const char *split, fby_loader_opts *out, fby_error *err)
{
    fby_loader_opts opts = p->loader;
    if (opts.batch_size == 0 && opts.batch_elements == 0)
        return p->loader_node ? fby__fail(err, FBY_E_ARG, "%s:%u:%u: loader: batch_size is missing", p->file, p->loader_node->line,
                                          p->loader_node->column)
                              : fby__fail(err, FBY_E_ARG, "%s: the section loader is missing: loader: {batch_size: …}", p->file);
    FBY__TRY(fby_pipeline_choose_split(p, split, &split, err));
    if (p->mix.n_sources == 0) { /* else samples and outputs are the sources' */
        FBY__TRY(fby_pipeline_samples(p, split, &opts.samples, err));
        FBY__TRY(take_outputs(p, &opts, err));
    }
    *out = opts;
    return FBY_OK;
}

fby_status fby_pipeline_mix(fby_pipeline *p, const char *split, fby_mix *out, fby_error *err)
{
    fby_mix mix = {.size = sizeof mix};
    if (!p || !out)
        return fby__fail(err, FBY_E_ARG, "a pipeline and a pointer for the mixture are needed");
    if (p->mix.n_sources == 0)
        return fby__fail(err, FBY_E_ARG, "%s: the file describes no mixture: it has no section mix", p->file);
    FBY__TRY(fby_pipeline_choose_split(p, split, &split, err));
    FBY__TRY(fby__open_mix(p, split, &mix, err));
    return FBY__SIZED_OUT(fby_mix, n_samples, &mix, out, err);
}

fby_status fby_pipeline_loader_opts(fby_pipeline *p, const char *split, fby_loader_opts *out, fby_error *err)
{
    fby_loader_opts opts;
    if (!p || !out)
        return fby__fail(err, FBY_E_ARG, "a pipeline and a pointer for the options are needed");
    FBY__TRY(loader_opts(p, split, &opts, err));
    return FBY__SIZED_OUT(fby_loader_opts, batch_size, &opts, out, err);
}

/* The pipeline whose outputs an error speaks of: the source that it names, if it names one. */
static const fby_pipeline *source_named(const fby_pipeline *p, const char *message)
{
    static const char lead[] = "source '";
    const char *named = strstr(message, lead);
    for (size_t i = 0; named && i < p->mix.n_sources; i++) {
        const size_t n = strlen(p->mix.names[i]);
        if (strncmp(named + sizeof lead - 1, p->mix.names[i], n) == 0 && named[sizeof lead - 1 + n] == '\'')
            return p->mix.sources[i];
    }
    return p->mix.n_sources ? p->mix.sources[0] : p;
}

fby_status fby_pipeline_locate(const fby_pipeline *p, fby_error *err)
{
    static const char lead[] = "output '";
    if (!err)
        return FBY_E_ARG;
    const char *named = p ? strstr(err->message, lead) : NULL;
    bool located = p && strncmp(err->message, p->file, strlen(p->file)) == 0;
    const fby_pipeline *of = named ? source_named(p, err->message) : NULL;
    for (size_t i = 0; of && !located && i < of->n_outputs; i++) {
        const char *name = of->outputs[i].name, *at = named + sizeof lead - 1;
        size_t n = strlen(name);
        if (strncmp(at, name, n) == 0 && at[n] == '\'') {
            fby__error_context(err, "%s:%u:%u", p->file, of->output_nodes[i]->line, of->output_nodes[i]->column);
            located = true;
        }
    }
    return err->code;
}

fby_status fby_pipeline_loader(fby_pipeline *p, const char *split, fby_loader **out, fby_error *err)
{
    fby_loader_opts opts;
    fby_dataset *ds = NULL;
    fby_mix mix = {.size = sizeof mix};
    if (!p || !out)
        return fby__fail(err, FBY_E_ARG, "a pipeline and a pointer for the loader are needed");
    FBY__TRY(loader_opts(p, split, &opts, err));
    FBY__TRY(p->mix.n_sources ? fby_pipeline_mix(p, split, &mix, err) : fby_pipeline_dataset(p, &ds, err));
    const fby_status status = ds ? fby_loader_open(ds, &opts, out, err) : fby_loader_open_mix(&mix, &opts, out, err);
    if (status != FBY_OK)
        (void)fby_pipeline_locate(p, err);
    return status;
}
