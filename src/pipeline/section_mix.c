/*
 * The section mix: sources, how often each comes, and where an epoch ends.
 *
 * A source is read as if it stood in a file of its own. What it says nothing of (samples, splits, outputs) is read once more from the root, and
 * tables that it lacks are looked for there (fby__find_lookup, fby__find_moments).
 */
#include "pipeline/pipeline_internal.h"

#include "base/alloc.h"
#include "options/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct mix_forms {
    const fby_node *sources, *weights, *stop;
} mix_forms;

static const fby__key mix_keys[] = {
    FBY__KEY("sources", FBY__WANT_NODE, mix_forms, sources),
    FBY__KEY("weights", FBY__WANT_NODE, mix_forms, weights),
    FBY__KEY("stop", FBY__WANT_NODE, mix_forms, stop),
    FBY__KEY_END,
};

static const fby__key source_keys[] = {
    FBY__KEY("data", FBY__WANT_NODE, fby__sections, data),
    FBY__KEY("samples", FBY__WANT_NODE, fby__sections, samples),
    FBY__KEY("splits", FBY__WANT_NODE, fby__sections, splits),
    FBY__KEY("lookups", FBY__WANT_NODE, fby__sections, lookups),
    FBY__KEY("moments", FBY__WANT_NODE, fby__sections, moments),
    FBY__KEY("outputs", FBY__WANT_NODE, fby__sections, outputs),
    FBY__KEY_END,
};

/* --- sources ------------------------------------------------------------------------------------------------------------------------------- */

static fby_status read_source(fby_pipeline *p, const fby__reading *r, const fby__sections *root, const char *name, const fby_node *node)
{
    char where[100];
    fby__sections s = {0};
    (void)snprintf(where, sizeof where, "source '%.80s'", name);
    if (node->kind == FBY_NODE_MAP)
        FBY__TRY(fby__read_map(r, node, where, source_keys, &s));
    else
        s.data = node; /* a path, or a list of them */
    s.samples = s.samples ? s.samples : root->samples;
    s.splits = s.splits ? s.splits : root->splits;
    s.outputs = s.outputs ? s.outputs : root->outputs;
    fby_pipeline *source = fby__calloc(1, sizeof *source);
    if (!source)
        return fby__read_nomem(r);
    p->mix.names[p->mix.n_sources] = name;
    p->mix.sources[p->mix.n_sources++] = source;
    source->mixture = p;
    source->root = node;
    source->needs_end = &source->needs;
    source->file = p->file;
    source->base_dir = p->base_dir;
    source->cache_dir = p->cache_dir;
    source->progress = p->progress;
    source->progress_user = p->progress_user;
    const fby__reading own = fby__reading_of(source, r->err);
    return fby__read_sections(source, &own, node, &s);
}

/* A loader is over one split of all sources, so they have splits of the same names. */
static fby_status check_splits(const fby_pipeline *p, const fby__reading *r, const fby_node *sources)
{
    const fby_pipeline *first = p->mix.sources[0];
    for (size_t i = 1; i < p->mix.n_sources; i++) {
        const fby_pipeline *source = p->mix.sources[i];
        for (size_t k = 0; k < first->n_splits || k < source->n_splits; k++) {
            const char *there = fby_pipeline_split(first, k), *here = fby_pipeline_split(source, k);
            const char *lost = there && !fby__has_split(source, there) ? there : here && !fby__has_split(first, here) ? here : NULL;
            if (lost)
                return fby__node_fail(r, sources->items[i],
                                      "source '%.60s': the split '%.60s' is of %s and not of %s: all sources have splits of the same names",
                                      p->mix.names[i], lost, lost == here ? "this source" : "the first",
                                      lost == here ? "the first" : "this source");
        }
    }
    return FBY_OK;
}

static fby_status read_sources(fby_pipeline *p, const fby__reading *r, const fby_node *node, const fby__sections *root)
{
    char found[80];
    if (node->kind != FBY_NODE_MAP || node->n == 0)
        return fby__node_fail(r, node, "mix: sources: a map of names to sources is expected, not %s",
                              node->kind == FBY_NODE_MAP ? "an empty one" : fby__node_text(node, found));
    if (node->n > FBY__MIX_MAX_SOURCES)
        return fby__node_fail(r, node, "mix: sources: %zu are above %d", node->n, FBY__MIX_MAX_SOURCES);
    p->mix.names = fby__reading_alloc(r, node->n, sizeof *p->mix.names);
    p->mix.sources = fby__reading_alloc(r, node->n, sizeof *p->mix.sources);
    if (!p->mix.names || !p->mix.sources)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < node->n; i++) {
        if (!*node->keys[i]->text)
            return fby__node_fail(r, node->keys[i], "mix: sources: a name is empty");
        FBY__TRY(read_source(p, r, root, node->keys[i]->text, node->items[i]));
    }
    return check_splits(p, r, node);
}

/* --- weights and stop ---------------------------------------------------------------------------------------------------------------------- */

/* A row of weights, and of each whether it is given. */
static fby_status read_weights(const fby_pipeline *p, const fby__reading *r, const fby_node *node, double *row)
{
    const size_t n = p->mix.n_sources;
    char found[80];
    double sum = 0;
    if (node->kind != FBY_NODE_MAP)
        return fby__node_fail(r, node,
                              "mix: weights: a map of all sources to numbers is expected, or a list of them, one for each epoch, not %s",
                              fby__node_text(node, found));
    fby__key *keys = fby__reading_alloc(r, n + 1, sizeof *keys);
    if (!keys)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        keys[i] = (fby__key){.name = p->mix.names[i], .want = FBY__WANT_DOUBLE, .at = i * sizeof *row, .also = FBY__NOWHERE};
    FBY__TRY(fby__read_map(r, node, "mix: weights", keys, row));
    for (size_t i = 0; i < n; i++) {
        const fby_node *given = fby__node_get(node, p->mix.names[i]);
        if (!given || given->kind == FBY_NODE_NULL)
            return fby__node_fail(r, node, "mix: weights: source '%.60s' is missing: name every source, 0 leaves one out", p->mix.names[i]);
        if (!(row[i] >= 0) || isinf(row[i]))
            return fby__node_fail(r, given, "mix: weights: a number from 0 on is expected, not %s", fby__node_text(given, found));
        sum += row[i];
    }
    return sum > 0 ? FBY_OK : fby__node_fail(r, node, "mix: weights: all are 0: at least one weight must be above 0");
}

static fby_status read_all_weights(fby_pipeline *p, const fby__reading *r, const fby_node *node)
{
    const bool list = node->kind == FBY_NODE_LIST;
    const size_t n = list ? node->n : 1;
    if (n == 0)
        return fby__node_fail(r, node, "mix: weights: the list is empty");
    double *rows = fby__reading_alloc(r, n, p->mix.n_sources * sizeof *rows);
    if (!rows)
        return FBY_E_NOMEM;
    for (size_t e = 0; e < n; e++)
        FBY__TRY(read_weights(p, r, list ? node->items[e] : node, rows + e * p->mix.n_sources));
    p->mix.weights = rows;
    p->mix.n_epochs = n;
    return FBY_OK;
}

static fby_status read_stop(fby_pipeline *p, const fby__reading *r, const fby_node *node)
{
    static const char *const words[] = {"first", "all", NULL};
    int i = 0;
    char found[80];
    if (node->kind == FBY_NODE_INT) {
        p->mix.stop = FBY_MIX_SAMPLES;
        return fby__read_u64(r, node, "mix: stop", 1, UINT64_MAX / 4, &p->mix.n_samples);
    }
    if (node->kind != FBY_NODE_TEXT)
        return fby__node_fail(r, node, "mix: stop: first, all or a number of samples is expected, not %s", fby__node_text(node, found));
    FBY__TRY(fby__read_choice(r, node, "mix: stop", words, &i));
    p->mix.stop = i == 0 ? FBY_MIX_FIRST : FBY_MIX_ALL;
    return FBY_OK;
}

fby_status fby__read_mix(fby_pipeline *p, const fby__reading *r, const fby__sections *root)
{
    mix_forms f = {0};
    if (root->data)
        return fby__node_fail(r, root->data, "data: a mixture has data by source: write mix: {sources: {name: {data: …}}}");
    FBY__TRY(fby__read_map(r, root->mix, "mix", mix_keys, &f));
    if (!f.sources)
        return fby__node_fail(r, root->mix, "mix: sources is missing: a map of names to sources, each with its data");
    if (root->lookups)
        FBY__TRY(fby__read_lookups(p, r, root->lookups));
    for (size_t i = 0; i < p->n_lookups; i++)
        if (p->lookups[i].distinct && p->lookups[i].source.n_sources == 0)
            return fby__node_fail(r, p->lookups[i].node, "lookup '%.60s': which data? Name paths, or keys, which all sources then share",
                                  p->lookups[i].name);
    if (root->moments)
        FBY__TRY(fby__read_moments(p, r, root->moments));
    FBY__TRY(read_sources(p, r, f.sources, root));
    FBY__TRY(fby__check_moments(p, r));
    if (f.weights)
        FBY__TRY(read_all_weights(p, r, f.weights));
    return f.stop ? read_stop(p, r, f.stop) : FBY_OK;
}

/* --- opening ------------------------------------------------------------------------------------------------------------------------------- */

/* A map has no order: outputs are taken as the first source has them. Other names are left to the loader, which says so. */
static fby_status put_in_order(const fby__reading *r, const fby_mix_source *first, fby_mix_source *source)
{
    if (source->n_outputs != first->n_outputs || source->n_outputs == 0)
        return FBY_OK;
    fby_output *outputs = fby__reading_alloc(r, source->n_outputs, sizeof *outputs);
    if (!outputs)
        return FBY_E_NOMEM;
    for (size_t i = 0, k; i < first->n_outputs; i++) {
        for (k = 0; k < source->n_outputs && strcmp(source->outputs[k].name, first->outputs[i].name) != 0; k++)
            ;
        if (k == source->n_outputs)
            return FBY_OK;
        outputs[i] = source->outputs[k];
    }
    source->outputs = outputs;
    return FBY_OK;
}

static fby_status open_sources(fby_pipeline *p, const char *split, bool outputs, fby_mix *out, fby_error *err)
{
    const fby__reading r = fby__reading_of(p, err);
    fby_mix_source *sources = fby__reading_alloc(&r, p->mix.n_sources, sizeof *sources);
    if (!sources)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < p->mix.n_sources; i++) {
        fby_loader_opts opts = {FBY_LOADER_SIZES};
        sources[i].name = p->mix.names[i];
        FBY__TRY(fby_pipeline_samples(p->mix.sources[i], split, &sources[i].samples, r.err));
        if (outputs)
            FBY__TRY(fby_pipeline_outputs(p->mix.sources[i], &opts, r.err));
        sources[i].outputs = opts.outputs;
        sources[i].n_outputs = opts.n_outputs;
        FBY__TRY(put_in_order(&r, &sources[0], &sources[i]));
    }
    *out = (fby_mix){.size = sizeof *out,
                     .source_size = sizeof *sources,
                     .sources = sources,
                     .n_sources = p->mix.n_sources,
                     .weights = p->mix.weights,
                     .n_epochs = p->mix.n_epochs,
                     .stop = p->mix.stop,
                     .n_samples = p->mix.n_samples};
    return FBY_OK;
}

fby_status fby__open_mix(fby_pipeline *p, const char *split, fby_mix *out, fby_error *err)
{
    return open_sources(p, split, true, out, err);
}

fby_status fby__mix_samples(fby_pipeline *p, const char *split, fby_mix *out, fby_error *err)
{
    return open_sources(p, split, false, out, err);
}

void fby__mix_fini(fby_pipeline *p)
{
    for (size_t i = 0; i < p->mix.n_sources; i++)
        fby_pipeline_close(p->mix.sources[i]);
}
