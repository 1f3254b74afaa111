/*
 * Places of an array's axes, an item each:
 *
 *     select: [":", "1:7"]            all, and a range; with "..." in front the items are of the last axes
 *     select: [0, [2, 4]]             one place, and the axis goes; some places
 *     select: ["...", [pt, eta]]      by name, where the attribute feature_names of the column's data set, or of the file, has them
 */
#include "base/nearest.h"
#include "pipeline/pipeline_internal.h"

#include <forebay/contents.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ATTRIBUTE "feature_names"

/* A number of a slice, or none: what follows it in *text. */
static bool read_bound(const char **text, bool *out_given, int64_t *out)
{
    char *end;
    errno = 0;
    const long long number = strtoll(*text, &end, 10);
    *out_given = end != *text;
    *out = number;
    *text = end;
    return errno == 0;
}

/* "begin:end:step", as Python reads it. */
static bool read_slice(const char *text, fby_axis_places *out)
{
    bool has_begin, has_end, has_step = false;
    int64_t step = 1;
    if (!strchr(text, ':') || !read_bound(&text, &has_begin, &out->begin) || *text++ != ':' || !read_bound(&text, &has_end, &out->end))
        return false;
    if (*text == ':') {
        text++;
        if (!read_bound(&text, &has_step, &step) || (has_step && step < 1))
            return false;
    }
    out->step = has_step ? (uint64_t)step : 1;
    return *text == '\0' && (!has_end || out->end != 0);
}

/* Names stand for places that are known when the data are. */
static fby_status need_names(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *what, const fby_output *output,
                             fby_axis_places *out)
{
    fby__need need = {.kind = FBY__NEED_FEATURE_NAMES, .node = node, .name = ATTRIBUTE, .output = output};
    FBY__TRY(fby__read_texts(r, node, what, &need.columns, &need.n_columns));
    if (!(need.places = fby__reading_alloc(r, need.n_columns + 1, sizeof *need.places)))
        return FBY_E_NOMEM;
    out->places = need.places;
    out->n_places = need.n_columns;
    return fby__add_need(p, r, need) ? FBY_OK : FBY_E_NOMEM;
}

static fby_status read_places(const fby__reading *r, const fby_node *node, const char *what, fby_axis_places *out)
{
    const fby_node *const *items = node->kind == FBY_NODE_LIST ? node->items : &node;
    const size_t n = node->kind == FBY_NODE_LIST ? node->n : 1;
    int64_t *places = fby__reading_alloc(r, n, sizeof *places);
    if (!places)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        if (items[i]->kind != FBY_NODE_INT)
            return fby__node_fail(r, items[i], "%s: places of an axis are all whole numbers, or all names", what);
        places[i] = items[i]->integer;
    }
    out->places = places;
    out->n_places = n;
    return FBY_OK;
}

static fby_status read_axis(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *what, const fby_output *output,
                            fby_axis_places *out)
{
    if (node->kind == FBY_NODE_TEXT && strchr(node->text, ':'))
        return read_slice(node->text, out) ? FBY_OK
                                           : fby__node_fail(r, node,
                                                            "%s: '%.40s' is no range of places: \"begin:end\", \"begin:\", \":end\" "
                                                            "or \":\", with a step above 0 behind another colon, is expected",
                                                            what, node->text);
    if (node->kind != FBY_NODE_INT && node->kind != FBY_NODE_TEXT && (node->kind != FBY_NODE_LIST || node->n == 0))
        return fby__node_fail(r, node, "%s: of each axis a range such as \":7\", a place, a name, or a list of these is expected", what);
    out->drop_axis = node->kind != FBY_NODE_LIST;
    return (node->kind == FBY_NODE_LIST ? node->items[0] : node)->kind == FBY_NODE_TEXT ? need_names(p, r, node, what, output, out)
                                                                                        : read_places(r, node, what, out);
}

fby_status fby__read_select(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *what, fby_make_select *out,
                            const fby_output *output)
{
    if (node->kind != FBY_NODE_LIST || node->n == 0)
        return fby__node_fail(r, node, "%s: a list is expected, of places of each axis: [\":\", \":7\"]", what);
    out->of_last = node->items[0]->kind == FBY_NODE_TEXT && strcmp(node->items[0]->text, "...") == 0;
    out->n_axes = node->n - out->of_last;
    fby_axis_places *axes = fby__reading_alloc(r, out->n_axes + 1, sizeof *axes);
    if (!axes)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < out->n_axes; i++)
        FBY__TRY(read_axis(p, r, node->items[i + out->of_last], what, output, &axes[i]));
    out->axes = axes;
    return out->n_axes ? FBY_OK : fby__node_fail(r, node, "%s: places of at least one axis are expected", what);
}

/* ---- names ---- */

/* The attribute of the data set that a column shows, else of the file. */
static const fby_attribute *find_attribute(const fby_contents *contents, const char *column)
{
    for (size_t i = 0; i < fby_contents_count(contents); i++) {
        const fby_object *o = fby_contents_object(contents, i);
        const fby_attribute *found =
            o->column && strcmp(o->column, column) == 0 ? fby_contents_attribute(contents, o->path, ATTRIBUTE) : NULL;
        if (found)
            return found;
    }
    return fby_contents_attribute(contents, "/", ATTRIBUTE);
}

static fby_status find_places(const fby__reading *r, const fby__need *need, const char *const *names, size_t n)
{
    for (size_t i = 0; i < need->n_columns; i++) {
        size_t at = 0;
        while (at < n && strcmp(names[at], need->columns[i]) != 0)
            at++;
        if (at == n)
            return fby__node_fail(r, need->node, "output '%.60s': select: '%.60s' is none of the " ATTRIBUTE ": the first is '%.60s'",
                                  need->output->name, need->columns[i], n ? names[0] : "");
        need->places[i] = (int64_t)at;
    }
    return FBY_OK;
}

/* One text is a list as JSON. */
static fby_status find_in_json(const fby__reading *r, const fby__need *need, const char *text)
{
    fby_tree *tree = NULL;
    if (fby_tree_parse(text, strlen(text), ATTRIBUTE, &tree, r->err) != FBY_OK)
        return fby__node_context(r, need->node, "select");
    const fby_node *root = fby_tree_root(tree);
    const char **names = fby__reading_alloc(r, root->n + 1, sizeof *names);
    fby_status status = names ? FBY_OK : FBY_E_NOMEM;
    for (size_t i = 0; status == FBY_OK && i < root->n; i++)
        names[i] = root->kind == FBY_NODE_LIST && root->items[i]->kind == FBY_NODE_TEXT ? root->items[i]->text : "";
    if (status == FBY_OK)
        status = find_places(r, need, names, root->kind == FBY_NODE_LIST ? root->n : 0);
    fby_tree_close(tree);
    return status;
}

fby_status fby__meet_feature_names(fby_pipeline *p, const fby__reading *r, const fby__need *need)
{
    fby_dataset *ds = NULL;
    fby_contents *contents = NULL;
    fby_status status;
    FBY__TRY(fby_pipeline_dataset(p, &ds, r->err));
    if (fby_contents_open(ds, 0, &contents, r->err) != FBY_OK)
        return fby__node_context(r, need->node, "select");
    const fby_attribute *a = find_attribute(contents, need->output->columns[0]);
    if (!a || !a->strings || a->n == 0)
        status =
            fby__node_fail(r, need->node,
                           "output '%.60s': select: neither the data set of column '%.60s' nor the first file has an attribute " ATTRIBUTE
                           " with names: give places by number",
                           need->output->name, need->output->columns[0]);
    else if (a->ndim == 0 || a->n == 1)
        status = find_in_json(r, need, a->strings[0]);
    else
        status = find_places(r, need, a->strings, (size_t)a->n);
    fby_contents_close(contents);
    return status;
}
