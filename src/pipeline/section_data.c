/* The sections data and loader: where files are, and how batches are taken from them. */
#include "pipeline/pipeline_internal.h"

#include <stdio.h>
#include <string.h>

/* --- data ----------------------------------------------------------------------------------------------------------------------- */

typedef struct source_forms {
    fby_open_opts opts;
    const fby_node *paths, *axis, *dtypes;
} source_forms;

static const fby__key source_keys[] = {
    FBY__KEY("paths", FBY__WANT_NODE, source_forms, paths),
    FBY__KEY("axis", FBY__WANT_NODE, source_forms, axis),
    FBY__KEY("dtypes", FBY__WANT_NODE, source_forms, dtypes),
    FBY__KEY_END,
};

static fby_status add_sources(const fby__reading *r, const fby_node *node, const char *where, fby__source_spec *out)
{
    bool list = node->kind == FBY_NODE_LIST || node->kind == FBY_NODE_MAP;
    const bool named = node->kind == FBY_NODE_MAP;
    size_t n = list ? node->n : 1, total = 0;
    for (size_t i = 0; i < n; i++)
        total += named && node->items[i]->kind == FBY_NODE_LIST ? node->items[i]->n : 1;
    if (total == 0)
        return fby__node_fail(r, node, "%s: paths: at least one is needed", where);
    fby_source *sources = fby__reading_alloc(r, total, sizeof *sources);
    if (!sources)
        return FBY_E_NOMEM;
    out->n_sources = 0;
    for (size_t i = 0; i < n; i++) {
        const fby_node *item = list ? node->items[i] : node;
        const bool several = named && item->kind == FBY_NODE_LIST;
        for (size_t k = 0; k < (several ? item->n : 1); k++) {
            const fby_node *path = several ? item->items[k] : item;
            fby_source *s = &sources[out->n_sources++];
            char found[80];
            if (path->kind != FBY_NODE_TEXT)
                return fby__node_fail(r, path, "%s: paths: a path is expected, not %s", where, fby__node_text(path, found));
            if (!(s->path = fby__read_path(r, path->text)))
                return FBY_E_NOMEM;
            s->name = named ? node->keys[i]->text : NULL;
        }
    }
    out->sources = sources;
    return FBY_OK;
}

/* The axis that runs over rows: a number or a dimension's name. */
static fby_status read_axis(const fby__reading *r, const fby_node *node, const char *where, fby_open_opts *opts)
{
    static const fby__key number = FBY__KEY("axis", FBY__WANT_INT, fby_open_opts, sample_axis),
                          name = FBY__KEY("axis", FBY__WANT_TEXT, fby_open_opts, dimension);
    return fby__read_value(r, node, where, node->kind == FBY_NODE_TEXT ? &name : &number, opts);
}

/* A map of columns to dtypes. The names are checked at the open, which knows the columns, too. */
static fby_status read_dtypes(const fby__reading *r, const fby_node *node, const char *where, fby_open_opts *opts)
{
    char found[80];
    if (node->kind != FBY_NODE_MAP)
        return fby__node_fail(r, node, "%s: dtypes: a map of columns to dtypes is expected, not %s", where, fby__node_text(node, found));
    fby_column_dtype *dtypes = fby__reading_alloc(r, node->n ? node->n : 1, sizeof *dtypes);
    if (!dtypes)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < node->n; i++) {
        const fby_node *item = node->items[i];
        if (item->kind != FBY_NODE_TEXT)
            return fby__node_fail(r, item, "%s: dtypes: str, int64, float32 or another dtype is expected, not %s", where,
                                  fby__node_text(item, found));
        dtypes[i] = (fby_column_dtype){node->keys[i]->text, item->text};
    }
    opts->dtypes = dtypes;
    opts->n_dtypes = node->n;
    return FBY_OK;
}

static const fby__key *key_of(const fby__key *keys, const char *name)
{
    while (keys && keys->name && strcmp(keys->name, name) != 0)
        keys++;
    return keys && keys->name ? keys : NULL;
}

fby_status fby__read_source(const fby__reading *r, const fby_node *node, const char *where, const fby__key *more, void *to,
                            fby__source_spec *out)
{
    *out = (fby__source_spec){.node = node, .opts = {.size = sizeof out->opts}};
    if (node->kind != FBY_NODE_MAP)
        return add_sources(r, node, where, out);
    source_forms forms = {.opts = out->opts};
    fby__key room[FBY__MAX_KEYS], all[FBY__MAX_KEYS];
    const fby__key *own = fby__option_keys(FBY_OPTIONS_OPEN, offsetof(source_forms, opts), source_keys, room);
    size_t n = 0; /* all keys there are, for messages that name the nearest */
    for (const fby__key *k = own; k->name && n < FBY__MAX_KEYS - 1; k++)
        all[n++] = *k;
    for (const fby__key *k = more; k && k->name && n < FBY__MAX_KEYS - 1; k++)
        all[n++] = *k;
    all[n] = (fby__key)FBY__KEY_END;
    for (size_t i = 0; i < node->n; i++) {
        const char *name = node->keys[i]->text;
        const fby_node one = {
            .kind = FBY_NODE_MAP, .line = node->line, .column = node->column, .n = 1, .items = &node->items[i], .keys = &node->keys[i]};
        if (key_of(more, name))
            FBY__TRY(fby__read_map(r, &one, where, more, to));
        else
            FBY__TRY(fby__read_map(r, &one, where, key_of(own, name) ? own : all, &forms));
    }
    out->opts = forms.opts;
    if (forms.axis)
        FBY__TRY(read_axis(r, forms.axis, where, &out->opts));
    if (forms.dtypes)
        FBY__TRY(read_dtypes(r, forms.dtypes, where, &out->opts));
    return forms.paths ? add_sources(r, forms.paths, where, out) : FBY_OK;
}

fby_status fby__read_data(fby_pipeline *p, const fby__reading *r, const fby_node *node)
{
    FBY__TRY(fby__read_source(r, node, "data", NULL, NULL, &p->data));
    if (p->data.n_sources == 0)
        return fby__node_fail(r, node,
                              "data: paths is missing: a file, a directory, a glob, a pattern, a list of them, or a map of names to them");
    if (p->data.opts.io == FBY_IO_MMAP && !p->data.opts.immutable)
        return fby__node_fail(r, node, "data: io: mmap needs immutable: true, files that nobody writes to while they are read");
    return FBY_OK;
}

fby_status fby__open_source(fby_pipeline *p, const fby__reading *r, const fby__source_spec *spec, const char *where, fby_dataset **out)
{
    fby_open_opts opts = spec->opts;
    if (!opts.cache_dir || (p->cache_dir && !*p->cache_dir))
        opts.cache_dir = p->cache_dir;
    opts.progress = p->progress;
    opts.progress_user = p->progress_user;
    if (fby_dataset_open(spec->sources, spec->n_sources, &opts, out, r->err) != FBY_OK)
        return fby__node_context(r, spec->node, where);
    return FBY_OK;
}

/* --- loader ----------------------------------------------------------------------------------------------------------------------- */

typedef struct loader_forms {
    fby_loader_opts opts;
    const fby_node *shuffle, *superbatch, *memory, *part;
    bool warmup;
    const char *split;
} loader_forms;

static const fby__key loader_keys[] = {
    FBY__KEY("shuffle", FBY__WANT_NODE, loader_forms, shuffle),
    FBY__KEY("superbatch", FBY__WANT_NODE, loader_forms, superbatch),
    FBY__KEY("warmup", FBY__WANT_BOOL, loader_forms, warmup),
    FBY__KEY("memory", FBY__WANT_NODE, loader_forms, memory),
    FBY__KEY("part", FBY__WANT_NODE, loader_forms, part),
    FBY__KEY("split", FBY__WANT_TEXT, loader_forms, split),
    FBY__KEY_END,
};

static fby_status read_shuffle(const fby__reading *r, const fby_node *node, fby_shuffle_kind *out)
{
    int i = 0;
    if (node->kind == FBY_NODE_BOOL) {
        *out = node->boolean ? FBY_SHUFFLE_SUPERBATCH : FBY_SHUFFLE_NONE;
        return FBY_OK;
    }
    if (node->kind != FBY_NODE_TEXT) {
        char found[80];
        return fby__node_fail(r, node, "loader: shuffle: true, false, superbatch, full, block or none is expected, not %s",
                              fby__node_text(node, found));
    }
    FBY__TRY(fby__read_choice(r, node, "loader: shuffle", fby__shuffle_words, &i));
    *out = (fby_shuffle_kind)i;
    return FBY_OK;
}

/* As fby_loader_opts_parse() reads it, or a whole number into `plain`. */
static fby_status read_quantity(const fby__reading *r, const fby_node *node, const char *name, uint64_t *plain, fby_loader_opts *opts)
{
    char what[40], found[80];
    fby_error why;
    (void)snprintf(what, sizeof what, "loader: %s", name);
    if (plain && node->kind == FBY_NODE_INT)
        return fby__read_u64(r, node, what, 1, INT64_MAX, plain);
    const char *text = node->kind == FBY_NODE_TEXT ? node->text : fby__node_text(node, found);
    return fby_loader_opts_parse(name, text, opts, &why) == FBY_OK ? FBY_OK : fby__node_fail(r, node, "%s: %s", what, why.message);
}

fby_status fby__read_loader(fby_pipeline *p, const fby__reading *r, const fby_node *node)
{
    loader_forms forms = {.opts = {FBY_LOADER_SIZES}, .warmup = true};
    p->loader_node = node;
    fby__key keys[FBY__MAX_KEYS];
    FBY__TRY(
        fby__read_map(r, node, "loader", fby__option_keys(FBY_OPTIONS_LOADER, offsetof(loader_forms, opts), loader_keys, keys), &forms));
    if (forms.shuffle)
        FBY__TRY(read_shuffle(r, forms.shuffle, &forms.opts.shuffle));
    if (forms.superbatch)
        FBY__TRY(read_quantity(r, forms.superbatch, "superbatch", &forms.opts.superbatch_samples, &forms.opts));
    forms.opts.no_warmup = !forms.warmup;
    if (forms.memory)
        FBY__TRY(read_quantity(r, forms.memory, "memory", &forms.opts.memory_bytes, &forms.opts));
    if (forms.part)
        FBY__TRY(read_quantity(r, forms.part, "part", NULL, &forms.opts));
    if (forms.opts.part_key && (!forms.part || forms.opts.part_files))
        return fby__node_fail(r, fby__node_get(node, "part_key"),
                              "loader: part_key names the keys that parts are made of: write part: 1000 keys, or 1/10");
    if (forms.opts.rank >= (forms.opts.world_size ? forms.opts.world_size : 1))
        return fby__node_fail(r, node, "loader: rank %u is not below world_size, which is %u", forms.opts.rank,
                              forms.opts.world_size ? forms.opts.world_size : 1);
    if (forms.opts.local_world_size > (forms.opts.world_size ? forms.opts.world_size : 1))
        return fby__node_fail(r, fby__node_get(node, "local_world_size"), "loader: local_world_size %u is above world_size, which is %u",
                              forms.opts.local_world_size, forms.opts.world_size ? forms.opts.world_size : 1);
    if (forms.split && !fby__has_split(p, forms.split))
        return fby__node_fail(r, fby__node_get(node, "split"), "loader: there is no split '%.60s' in the section splits", forms.split);
    p->loader_split = forms.split;
    p->loader = forms.opts;
    return FBY_OK;
}
