/*
 * Maps of the class names that a file brings along: an attribute of the first file's root group, JSON or texts, as fb.class_map() of the Python
 * package reads it.
 *
 *     {"none": 0, "drip": 1}, {"0": "none", "1": "drip"}, ["none", "drip"]      a name and its number
 *     classes: {quiet: [none], leak: [drip, burst]}                             names merged, numbered in their order
 *     classes: {none: 0, drip: 1, burst: 1}                                     numbers for names
 */
#include "base/nearest.h"
#include "pipeline/pipeline_internal.h"
#include "transform/lookup.h"

#include <forebay/contents.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Class names and their numbers; both in the arena. A file may have very many of them. */
typedef struct class_map {
    const char **names;
    int64_t *numbers;
    size_t n;
    fby_lookup *by_name; /* owned: their places */
} class_map;

fby_status fby__check_classes(const fby__reading *r, const fby_node *classes, const char *what)
{
    if (classes->kind != FBY_NODE_MAP || classes->n == 0)
        return fby__node_fail(r, classes, "%s: classes: a map is expected, of new classes to lists of names, or of names to numbers", what);
    for (size_t i = 0; i < classes->n; i++) {
        const fby_node *value = classes->items[i];
        if (value->kind == FBY_NODE_INT)
            continue;
        if (value->kind != FBY_NODE_LIST)
            return fby__node_fail(r, value, "%s: classes: %.60s: a list of names, or a whole number is expected", what,
                                  classes->keys[i]->text);
        for (size_t k = 0; k < value->n; k++)
            if (value->items[k]->kind != FBY_NODE_TEXT)
                return fby__node_fail(r, value->items[k], "%s: classes: %.60s: names are texts", what, classes->keys[i]->text);
    }
    return FBY_OK;
}

static fby_status add_class(const fby__reading *r, const fby__need *need, class_map *l, const char *name, int64_t number)
{
    uint32_t at;
    FBY__TRY(fby__lookup_add_text(l->by_name, name, strlen(name), &at, r->err));
    if (at < l->n)
        return l->numbers[at] == number ? FBY_OK
                                        : fby__node_fail(r, need->node, "output '%.60s': the attribute %.60s names '%.60s' twice",
                                                         need->output->name, need->name, name);
    if (!(l->names[l->n] = fby__arena_copy(r->arena, name, strlen(name))))
        return fby__read_nomem(r);
    l->numbers[l->n++] = number;
    return FBY_OK;
}

static bool whole_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *text != 0 && *end == 0 && errno == 0;
}

static fby_status make_room(const fby__reading *r, size_t n, class_map *l)
{
    l->names = fby__reading_alloc(r, n, sizeof *l->names);
    l->numbers = fby__reading_alloc(r, n, sizeof *l->numbers);
    const bool text = true;
    return l->names && l->numbers ? fby__lookup_new(&text, 1, NULL, 0, &l->by_name, r->err) : FBY_E_NOMEM;
}

/* One name and number of a map: {name: number}, or {number: name}. */
static fby_status add_pair(const fby__reading *r, const fby__need *need, class_map *l, const char *key, const fby_node *value)
{
    int64_t number;
    if (value->kind == FBY_NODE_INT)
        return add_class(r, need, l, key, value->integer);
    if (value->kind == FBY_NODE_TEXT && whole_number(key, &number))
        return add_class(r, need, l, value->text, number);
    return fby__node_fail(r, need->node, "output '%.60s': the attribute %.60s: neither '%.60s' nor what stands beside it is a class number",
                          need->output->name, need->name, key);
}

static fby_status read_json(const fby__reading *r, const fby__need *need, const char *text, class_map *l)
{
    fby_tree *tree = NULL;
    fby_status status = fby_tree_parse(text, strlen(text), need->name, &tree, r->err);
    if (status != FBY_OK)
        return fby__node_context(r, need->node, "class_map: the attribute is no JSON");
    const fby_node *root = fby_tree_root(tree);
    if (root->kind != FBY_NODE_MAP && root->kind != FBY_NODE_LIST)
        status = fby__node_fail(r, need->node, "output '%.60s': the attribute %.60s holds no mapping of names and numbers",
                                need->output->name, need->name);
    if (status == FBY_OK)
        status = make_room(r, root->n, l);
    for (size_t i = 0; status == FBY_OK && i < root->n; i++) {
        const fby_node *item = root->items[i];
        if (root->kind == FBY_NODE_MAP)
            status = add_pair(r, need, l, root->keys[i]->text, item);
        else if (item->kind == FBY_NODE_TEXT)
            status = add_class(r, need, l, item->text, (int64_t)i);
        else
            status = fby__node_fail(r, need->node, "output '%.60s': the attribute %.60s is a list of something else than names",
                                    need->output->name, need->name);
    }
    fby_tree_close(tree);
    return status;
}

static fby_status read_attribute(const fby__reading *r, const fby__need *need, const fby_contents *contents, class_map *l)
{
    const fby_attribute *a = fby_contents_attribute(contents, "/", need->name);
    if (!a) {
        const fby_object *root = fby_contents_object(contents, 0);
        const char *names[64] = {NULL};
        for (uint32_t i = 0; root && i < root->n_attributes && i < 63; i++)
            names[i] = root->attributes[i].name;
        const char *near = fby__nearest(need->name, names);
        if (near || !names[0])
            return fby__node_fail(r, need->node, "output '%.60s': the first file has no attribute '%.60s'%s%s%s", need->output->name,
                                  need->name, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
        return fby__node_fail(r, need->node, "output '%.60s': the first file has no attribute '%.60s'; its first is '%s'",
                              need->output->name, need->name, names[0]);
    }
    if (!a->strings || a->n == 0)
        return fby__node_fail(r, need->node, "output '%.60s': the attribute '%.60s' is %.60s: JSON, or a list of names, is expected",
                              need->output->name, need->name, a->type);
    if (a->ndim == 0 || a->n == 1)
        return read_json(r, need, a->strings[0], l);
    FBY__TRY(make_room(r, (size_t)a->n, l));
    for (uint64_t i = 0; i < a->n; i++)
        FBY__TRY(add_class(r, need, l, a->strings[i], (int64_t)i));
    return FBY_OK;
}

/* Names as they are: text → number. */
static fby_status map_names(const fby__reading *r, const class_map *l, fby_make_map *m)
{
    double *to = fby__reading_alloc(r, l->n, sizeof *to);
    if (!to)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < l->n; i++)
        to[i] = (double)l->numbers[i];
    m->texts = l->names;
    m->to = to;
    m->n = l->n;
    return FBY_OK;
}

/* Classes made of names: the file's number → the class. */
static fby_status map_classes(const fby__reading *r, const fby__need *need, const class_map *l, fby_make_map *m)
{
    int64_t *numbers = fby__reading_alloc(r, l->n, sizeof *numbers);
    double *to = fby__reading_alloc(r, l->n, sizeof *to);
    size_t n = 0;
    if (!numbers || !to)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < need->classes->n; i++) {
        const fby_node *value = need->classes->items[i], *key = need->classes->keys[i];
        bool merged = value->kind == FBY_NODE_LIST;
        double target = merged ? (double)i : (double)value->integer;
        for (size_t k = 0; k < (merged ? value->n : 1); k++) {
            const fby_node *name = merged ? value->items[k] : key;
            const int64_t at = fby_lookup_find_text(l->by_name, name->text, strlen(name->text));
            size_t before = 0;
            if (at < 0)
                return fby__node_fail(
                    r, name, "output '%.60s': map: classes: the data have no class '%.60s' (attribute %.60s): the first is '%.60s'",
                    need->output->name, name->text, need->name, l->n ? l->names[0] : "");
            while (before < n && numbers[before] != l->numbers[at])
                before++;
            if (before < n && to[before] != target)
                return fby__node_fail(r, name, "output '%.60s': map: classes: '%.60s' is merged into two", need->output->name, name->text);
            if (before < n)
                continue;
            numbers[n] = l->numbers[at];
            to[n++] = target;
        }
    }
    m->numbers = numbers;
    m->to = to;
    m->n = n;
    return FBY_OK;
}

fby_status fby__meet_class_map(fby_pipeline *p, const fby__reading *r, const fby__need *need)
{
    fby_dataset *ds = NULL;
    fby_contents *contents = NULL;
    class_map found = {0};
    FBY__TRY(fby_pipeline_dataset(p, &ds, r->err));
    if (fby_contents_open(ds, 0, &contents, r->err) != FBY_OK)
        return fby__node_context(r, need->node, "class_map");
    fby_status status = read_attribute(r, need, contents, &found);
    fby_contents_close(contents);
    if (status == FBY_OK && found.n == 0)
        status = fby__node_fail(r, need->node, "output '%.60s': the attribute %.60s names no class", need->output->name, need->name);
    if (status == FBY_OK)
        status = need->classes ? map_classes(r, need, &found, &need->make->map) : map_names(r, &found, &need->make->map);
    fby_lookup_close(found.by_name);
    return status;
}
