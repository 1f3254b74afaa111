/*
 * Reading YAML: libyaml's events into a tree of nodes with their places. libyaml allocates for itself while it parses; what stays is ours.
 *
 * Nothing is recursive here: open lists and maps are a stack of fixed height, which is also the limit of nesting.
 */
#include "pipeline/tree.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

/* A node, and what only reading needs: how much it is once aliases are followed. */
typedef struct counted_node {
    fby_node node; /* first: a counted_node is found from its node */
    uint32_t weight, height;
} counted_node;

typedef struct open_node {
    counted_node *made;
    const fby_node **items, **keys; /* owned: growing; copied into the arena when it is closed */
    size_t cap_items, cap_keys, n_items, n_keys;
} open_node;

typedef struct anchor {
    const char *name; /* arena */
    const counted_node *node;
    bool open;
} anchor;

typedef struct builder {
    fby_tree *tree;
    fby_error *err;
    open_node stack[FBY_TREE_MAX_DEPTH];
    size_t depth;
    anchor anchors[FBY_TREE_MAX_ANCHORS];
    size_t n_anchors, n_nodes;
    const counted_node *root;
} builder;

/* --- scalars ---------------------------------------------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static void resolve_int(const char *text, const char *digits, int base, fby_node *out)
{
    errno = 0;
    long long value = strtoll(digits, NULL, base);
    bool fits = errno == 0;
    if (fits && *text == '-' && digits != text)
        value = -value;
    out->kind = fits ? FBY_NODE_INT : FBY_NODE_FLOAT;
    out->integer = fits ? value : 0;
    out->number = fits ? (double)value : fby__strtod(text, NULL);
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_number(const char *s, bool *out_whole)
{
    size_t before = 0, after = 0;
    *out_whole = true;
    if (*s == '-' || *s == '+')
        s++;
    for (; isdigit((unsigned char)*s); s++)
        before++;
    if (*s == '.') {
        *out_whole = false;
        for (s++; isdigit((unsigned char)*s); s++)
            after++;
    }
    if (before + after == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        *out_whole = false;
        s++;
        if (*s == '-' || *s == '+')
            s++;
        if (!isdigit((unsigned char)*s))
            return false;
        while (isdigit((unsigned char)*s))
            s++;
    }
    return *s == 0;
}

void fby__tree_resolve(const char *text, fby_node *out)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL}, *const trues[] = {"true", "True", "TRUE", NULL},
                             *const falses[] = {"false", "False", "FALSE", NULL}, *const nans[] = {".nan", ".NaN", ".NAN", NULL},
                             *const infinities[] = {".inf", ".Inf", ".INF", NULL};
    out->kind = FBY_NODE_TEXT;
    bool whole;
    const char *unsigned_part = text + (*text == '-' || *text == '+');
    if (is_one_of(text, nulls)) {
        out->kind = FBY_NODE_NULL;
    } else if (is_one_of(text, trues) || is_one_of(text, falses)) {
        out->kind = FBY_NODE_BOOL;
        out->boolean = is_one_of(text, trues);
    } else if (is_one_of(text, nans) || is_one_of(unsigned_part, infinities)) {
        out->kind = FBY_NODE_FLOAT;
        out->number = is_one_of(text, nans) ? NAN : *text == '-' ? -INFINITY : INFINITY;
    } else if (is_number(text, &whole)) {
        if (whole) {
            resolve_int(text, text, 10, out);
        } else {
            out->kind = FBY_NODE_FLOAT;
            out->number = fby__strtod(text, NULL);
        }
    } else if (text[0] == '0' && (text[1] == 'x' || text[1] == 'o') && text[2]) {
        size_t digits = strspn(text + 2, text[1] == 'x' ? "0123456789abcdefABCDEF" : "01234567");
        if (text[2 + digits] == 0)
            resolve_int(text, text + 2, text[1] == 'x' ? 16 : 8, out);
    }
}

/* --- building ----------------------------------------------------------------------------------------------------------------- */

static fby_status fail_at(const builder *b, const yaml_mark_t *mark, fby_status code, const char *what)
{
    return fby__fail_at(b->err, code, mark->index, "%s:%zu:%zu: %s", b->tree->name, mark->line + 1, mark->column + 1, what);
}

static fby_status nomem(const builder *b) { return fby__fail_nomem(b->err, "a tree of values"); }

static fby_status new_node(builder *b, const yaml_mark_t *mark, fby_node_kind kind, counted_node **out)
{
    if (++b->n_nodes > FBY_TREE_MAX_NODES)
        return fail_at(b, mark, FBY_E_UNSUPPORTED, "more than a million values");
    counted_node *n = fby__arena_alloc(&b->tree->arena, sizeof *n);
    if (!n)
        return nomem(b);
    *n = (counted_node){
        .node = {.kind = kind, .line = (uint32_t)mark->line + 1, .column = (uint32_t)mark->column + 1}, .weight = 1, .height = 1};
    *out = n;
    return FBY_OK;
}

static fby_status remember(builder *b, const yaml_mark_t *mark, const yaml_char_t *name, const counted_node *node, bool is_open)
{
    if (!name)
        return FBY_OK;
    if (b->n_anchors == FBY_TREE_MAX_ANCHORS)
        return fail_at(b, mark, FBY_E_UNSUPPORTED, "more than 100 anchors");
    const char *copy = fby__arena_copy(&b->tree->arena, name, strlen((const char *)name));
    if (!copy)
        return nomem(b);
    b->anchors[b->n_anchors++] = (anchor){.name = copy, .node = node, .open = is_open};
    return FBY_OK;
}

static int by_text(const void *a, const void *b)
{
    const fby_node *const *x = a, *const *y = b;
    return strcmp((*x)->text, (*y)->text);
}

/* A key that comes twice is found by sorting: maps of values may have very many keys. */
static fby_status check_keys(const builder *b, const open_node *top)
{
    if (top->n_keys < 2)
        return FBY_OK;
    const fby_node **sorted = fby__malloc(top->n_keys * sizeof *sorted);
    if (!sorted)
        return nomem(b);
    memcpy(sorted, top->keys, top->n_keys * sizeof *sorted);
    qsort(sorted, top->n_keys, sizeof *sorted, by_text);
    fby_status status = FBY_OK;
    for (size_t i = 1; i < top->n_keys && status == FBY_OK; i++) {
        const fby_node *one = sorted[i - 1], *two = sorted[i];
        if (strcmp(one->text, two->text) != 0)
            continue;
        bool later = two->line > one->line || (two->line == one->line && two->column > one->column);
        const fby_node *first = later ? one : two, *second = later ? two : one;
        status = fby__fail(b->err, FBY_E_FORMAT, "%s:%u:%u: the key '%.200s' is there twice; first in line %u", b->tree->name, second->line,
                           second->column, second->text, first->line);
    }
    fby__free(sorted);
    return status;
}

/* Put a finished value where it belongs: as the root, an item, a key or a key's value. */
static fby_status add(builder *b, const yaml_mark_t *mark, const counted_node *node)
{
    if (b->depth == 0) {
        b->root = node;
        return FBY_OK;
    }
    open_node *top = &b->stack[b->depth - 1];
    bool is_key = top->made->node.kind == FBY_NODE_MAP && top->n_keys == top->n_items;
    if (is_key) {
        if (node->node.kind == FBY_NODE_LIST || node->node.kind == FBY_NODE_MAP)
            return fail_at(b, mark, FBY_E_UNSUPPORTED, "a key that is a list or a map; keys are texts");
        if (strcmp(node->node.text, "<<") == 0)
            return fail_at(b, mark, FBY_E_UNSUPPORTED,
                           "merge keys (<<) are not used here: write the keys out, or refer to whole values with *name");
        if (fby__grow((void **)&top->keys, &top->cap_keys, top->n_keys + 1, sizeof *top->keys) != 0)
            return nomem(b);
        /* A key is a text whatever it looks like: 1 and "1" are one key. */
        counted_node *key = fby__arena_alloc(&b->tree->arena, sizeof *key);
        if (!key)
            return nomem(b);
        *key = *node;
        key->node.kind = FBY_NODE_TEXT;
        top->keys[top->n_keys++] = &key->node;
        return FBY_OK;
    }
    if (fby__grow((void **)&top->items, &top->cap_items, top->n_items + 1, sizeof *top->items) != 0)
        return nomem(b);
    top->items[top->n_items++] = &node->node;
    counted_node *made = top->made;
    if (node->weight > FBY_TREE_MAX_NODES - made->weight)
        return fail_at(b, mark, FBY_E_UNSUPPORTED, "more than a million values, aliases followed");
    made->weight += node->weight;
    made->height = made->height > node->height ? made->height : node->height + 1;
    if (b->depth + node->height > FBY_TREE_MAX_DEPTH)
        return fail_at(b, mark, FBY_E_UNSUPPORTED, "nested more than 32 deep");
    return FBY_OK;
}

static fby_status check_tag(const builder *b, const yaml_mark_t *mark, const yaml_char_t *tag)
{
    if (tag && strcmp((const char *)tag, "!") != 0)
        return fail_at(b, mark, FBY_E_UNSUPPORTED, "tags (!…) are not used here");
    return FBY_OK;
}

static fby_status on_scalar(builder *b, const yaml_event_t *event)
{
    const yaml_mark_t *mark = &event->start_mark;
    const char *value = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;
    counted_node *node = NULL;
    FBY__TRY(check_tag(b, mark, event->data.scalar.tag));
    FBY__TRY(new_node(b, mark, FBY_NODE_TEXT, &node));
    if (memchr(value, 0, n))
        return fail_at(b, mark, FBY_E_UNSUPPORTED, "a text that holds a NUL");
    if (!(node->node.text = fby__arena_copy(&b->tree->arena, value, n)))
        return nomem(b);
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag)
        fby__tree_resolve(node->node.text, &node->node);
    FBY__TRY(remember(b, mark, event->data.scalar.anchor, node, false));
    return add(b, mark, node);
}

static fby_status on_begin(builder *b, const yaml_event_t *event, fby_node_kind kind, const yaml_char_t *name, const yaml_char_t *tag)
{
    const yaml_mark_t *mark = &event->start_mark;
    counted_node *node = NULL;
    FBY__TRY(check_tag(b, mark, tag));
    if (b->depth == FBY_TREE_MAX_DEPTH)
        return fail_at(b, mark, FBY_E_UNSUPPORTED, "nested more than 32 deep");
    FBY__TRY(new_node(b, mark, kind, &node));
    FBY__TRY(remember(b, mark, name, node, true));
    b->stack[b->depth++] = (open_node){.made = node};
    return FBY_OK;
}

static const fby_node *const *keep(const builder *b, const fby_node **list, size_t n)
{
    return (const fby_node *const *)fby__arena_copy(&b->tree->arena, list ? (const void *)list : "", n * sizeof *list);
}

static fby_status on_end(builder *b, const yaml_event_t *event)
{
    open_node *top = &b->stack[b->depth - 1];
    counted_node *node = top->made;
    FBY__TRY(check_keys(b, top));
    node->node.n = top->n_items;
    node->node.items = keep(b, top->items, top->n_items);
    node->node.keys = keep(b, top->keys, top->n_keys);
    if (!node->node.items || !node->node.keys)
        return nomem(b);
    fby__free(top->items);
    fby__free(top->keys);
    b->depth--;
    for (size_t i = 0; i < b->n_anchors; i++)
        if (b->anchors[i].node == node)
            b->anchors[i].open = false;
    return add(b, &event->start_mark, node);
}

static fby_status on_alias(builder *b, const yaml_event_t *event)
{
    const yaml_mark_t *mark = &event->start_mark;
    for (size_t i = b->n_anchors; i-- > 0;) { /* the last of a name counts */
        if (strcmp(b->anchors[i].name, (const char *)event->data.alias.anchor) != 0)
            continue;
        if (b->anchors[i].open)
            return fail_at(b, mark, FBY_E_UNSUPPORTED, "an alias to a value that it is part of");
        return add(b, mark, b->anchors[i].node);
    }
    return fail_at(b, mark, FBY_E_FORMAT, "an alias without an anchor of that name before it");
}

static fby_status on_event(builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT: return on_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_begin(b, event, FBY_NODE_LIST, event->data.sequence_start.anchor, event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT: return on_begin(b, event, FBY_NODE_MAP, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return on_end(b, event);
    case YAML_ALIAS_EVENT: return on_alias(b, event);
    case YAML_DOCUMENT_START_EVENT:
        return b->root ? fail_at(b, &event->start_mark, FBY_E_UNSUPPORTED, "a second document; one is read") : FBY_OK;
    default: return FBY_OK;
    }
}

static fby_status parser_error(const builder *b, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return nomem(b);
    if (parser->error == YAML_READER_ERROR)
        return fby__fail_at(b->err, FBY_E_FORMAT, parser->problem_offset, "%s: byte %zu: %s: this is no YAML, which is text", b->tree->name,
                            parser->problem_offset, parser->problem ? parser->problem : "no text");
    /* libyaml's own words, which are short: "while parsing a block mapping" "did not find expected key". */
    return fby__fail_at(b->err, FBY_E_FORMAT, parser->problem_mark.index, "%s:%zu:%zu: no valid YAML: %s%s%s", b->tree->name,
                        parser->problem_mark.line + 1, parser->problem_mark.column + 1, parser->context ? parser->context : "",
                        parser->context ? ", " : "", parser->problem ? parser->problem : "unknown");
}

static fby_status build(builder *b, const char *text, size_t n)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return nomem(b);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    fby_status status = FBY_OK;
    for (bool end = false; !end && status == FBY_OK;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = parser_error(b, &parser);
        } else {
            end = event.type == YAML_STREAM_END_EVENT;
            status = on_event(b, &event);
            yaml_event_delete(&event);
        }
    }
    yaml_parser_delete(&parser);
    while (b->depth > 0) { /* left open by an error */
        open_node *top = &b->stack[--b->depth];
        fby__free(top->items);
        fby__free(top->keys);
    }
    return status;
}

fby_status fby_tree_parse(const char *text, size_t n, const char *name, fby_tree **out, fby_error *err)
{
    if ((!text && n) || !name || !out)
        return fby__fail(err, FBY_E_ARG, "a text, its name and a pointer for the tree are needed");
    if (n > FBY_TREE_MAX_BYTES)
        return fby__fail(err, FBY_E_UNSUPPORTED, "%s: more than 16 MiB of YAML", name);
    fby_tree *tree = fby__calloc(1, sizeof *tree);
    builder *b = fby__calloc(1, sizeof *b);
    fby_status status = FBY_E_NOMEM;
    if (!tree || !b || !(tree->name = fby__arena_copy(&tree->arena, name, strlen(name)))) {
        (void)fby__fail_nomem(err, "a tree of values");
        goto done;
    }
    b->tree = tree;
    b->err = err;
    if ((status = build(b, text ? text : "", n)) != FBY_OK)
        goto done;
    if (!b->root) {
        status = fby__fail(err, FBY_E_FORMAT, "%s: the file is empty", name);
        goto done;
    }
    tree->root = &b->root->node;
    *out = tree;
    tree = NULL;
done:
    fby__free(b);
    fby_tree_close(tree);
    return status;
}

static fby_status read_all(int fd, const char *path, char **out, size_t *out_n, fby_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fby__fail_errno(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return fby__fail(err, FBY_E_ARG, "%s: no regular file", path);
    if ((uint64_t)st.st_size > FBY_TREE_MAX_BYTES)
        return fby__fail(err, FBY_E_UNSUPPORTED, "%s: more than 16 MiB of YAML", path);
    size_t n = 0, size = (size_t)st.st_size;
    char *text = fby__malloc(size + 1);
    if (!text)
        return fby__fail_nomem(err, "a YAML file");
    while (n < size) {
        ssize_t got = read(fd, text + n, size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            fby_status status = fby__fail_errno(err, errno, "%s", path);
            fby__free(text);
            return status;
        }
        if (got == 0)
            break; /* shorter than a moment ago: what is there is parsed */
        n += (size_t)got;
    }
    text[n] = 0;
    *out = text;
    *out_n = n;
    return FBY_OK;
}

fby_status fby__tree_read_text(const char *path, char **out, size_t *out_n, fby_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer is refused, not waited for */
    if (fd < 0)
        return fby__fail_errno(err, errno, "%s", path);
    const fby_status status = read_all(fd, path, out, out_n, err);
    (void)close(fd); /* only read */
    return status;
}

fby_status fby_tree_read(const char *path, fby_tree **out, fby_error *err)
{
    if (!path || !out)
        return fby__fail(err, FBY_E_ARG, "a path and a pointer for the tree are needed");
    char *text = NULL;
    size_t n = 0;
    FBY__TRY(fby__tree_read_text(path, &text, &n, err));
    const fby_status status = fby_tree_parse(text, n, path, out, err);
    fby__free(text);
    return status;
}

const fby_node *fby_tree_root(const fby_tree *tree) { return tree ? tree->root : NULL; }

void fby_tree_close(fby_tree *tree)
{
    if (!tree)
        return;
    fby__arena_fini(&tree->arena);
    fby__free(tree);
}

const fby_node *fby__node_get(const fby_node *map, const char *key)
{
    for (size_t i = 0; map && map->kind == FBY_NODE_MAP && i < map->n; i++)
        if (strcmp(map->keys[i]->text, key) == 0)
            return map->items[i];
    return NULL;
}
