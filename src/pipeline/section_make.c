/* What outputs are made of (forebay/make.h), and what is done to them in place, from the keys of an output. */
#include "pipeline/pipeline_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- of a row ---------------------------------------------------------------------------------------------------------------------------- */

/* 1024, true for the defaults, or a map. */
static fby_status read_count_or_map(const fby__reading *r, const fby_node *node, const char *what, fby_option_set set, void *to)
{
    fby__key room[FBY__MAX_KEYS];
    const fby__key *keys = fby__option_keys(set, 0, NULL, room);
    if (node->kind == FBY_NODE_INT)
        return fby__read_value(r, node, what, &keys[0], to);
    if (node->kind == FBY_NODE_BOOL && node->boolean)
        return FBY_OK;
    return fby__read_map(r, node, what, keys, to);
}

/* The values are those of an attribute of the data: filled in when that is read. */
static fby_status need_class_map(fby_pipeline *p, const fby__reading *r, const fby_node *attribute, const fby_node *classes,
                                 const char *what, fby_make *make, const fby_output *output)
{
    bool by_default = attribute->kind == FBY_NODE_BOOL && attribute->boolean;
    if (!by_default && attribute->kind != FBY_NODE_TEXT)
        return fby__node_fail(r, attribute, "%s: class_map: the name of an attribute is expected, or true for labels_json", what);
    if (classes)
        FBY__TRY(fby__check_classes(r, classes, what));
    fby__need need = {.kind = FBY__NEED_CLASS_MAP,
                      .node = attribute,
                      .name = by_default ? "labels_json" : attribute->text,
                      .output = output,
                      .make = make,
                      .classes = classes};
    return fby__add_need(p, r, need) ? FBY_OK : FBY_E_NOMEM;
}

static fby_status read_mapping(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *what, fby_make *make,
                               const fby_output *output)
{
    struct mapping {
        const fby_node *values, *to, *class_map, *classes;
        fby_make_map m;
    } f = {0};
    fby_make_map *m = &make->map;
    static const fby__key keys[] = {
        FBY__KEY("values", FBY__WANT_NODE, struct mapping, values),
        FBY__KEY("to", FBY__WANT_NODE, struct mapping, to),
        FBY__KEY("class_map", FBY__WANT_NODE, struct mapping, class_map),
        FBY__KEY("classes", FBY__WANT_NODE, struct mapping, classes),
        FBY__KEY_HAS("default", FBY__WANT_DOUBLE, struct mapping, m.default_to, m.has_default),
        FBY__KEY_END,
    };
    if (node->kind == FBY_NODE_LIST)
        f.values = node; /* a value's place is what it is mapped to */
    else
        FBY__TRY(fby__read_map(r, node, what, keys, &f));
    if (f.class_map && (f.values || f.to))
        return fby__node_fail(r, node, "%s: class_map is read from the data, values and to are written here: give one of them", what);
    if (f.classes && !f.class_map)
        return fby__node_fail(r, f.classes, "%s: classes are made of the names of class_map: class_map: labels_json", what);
    if (f.class_map) {
        *m = f.m;
        return need_class_map(p, r, f.class_map, f.classes, what, make, output);
    }
    if (!f.values || f.values->kind != FBY_NODE_LIST || f.values->n == 0)
        return fby__node_fail(r, node, "%s: values is missing: a list of the texts or whole numbers that are mapped", what);
    *m = f.m;
    m->n = f.values->n;
    if (f.values->items[0]->kind == FBY_NODE_TEXT) {
        FBY__TRY(fby__read_texts(r, f.values, what, &m->texts, &m->n));
    } else {
        int64_t *numbers = fby__reading_alloc(r, m->n, sizeof *numbers);
        if (!numbers)
            return FBY_E_NOMEM;
        for (size_t i = 0; i < m->n; i++) {
            if (f.values->items[i]->kind != FBY_NODE_INT)
                return fby__node_fail(r, f.values->items[i], "%s: values: all are texts or all are whole numbers", what);
            numbers[i] = f.values->items[i]->integer;
        }
        m->numbers = numbers;
    }
    if (f.to) {
        size_t n = 0;
        FBY__TRY(fby__read_doubles(r, f.to, what, &m->to, &n));
        if (n != m->n)
            return fby__node_fail(r, f.to, "%s: %zu values are mapped to %zu numbers", what, m->n, n);
        return FBY_OK;
    }
    double *to = fby__reading_alloc(r, m->n, sizeof *to);
    for (size_t i = 0; to && i < m->n; i++)
        to[i] = (double)i;
    m->to = to;
    return to ? FBY_OK : FBY_E_NOMEM;
}

/* --- n-grams: the vocabulary as a list, or as products of alphabets ------------------------------------------------------------------------- */

enum { MAX_VOCABULARY = 1 << 20, MAX_GRAM = 8 };

/* Bytes of the code point that begins here: texts of a tree are valid UTF-8. */
static size_t code_point(const char *s)
{
    unsigned char c = (unsigned char)*s;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

static size_t code_points(const char *s)
{
    size_t n = 0;
    for (; *s; s += code_point(s))
        n++;
    return n;
}

/* All grams of one character of each alphabet, the last one changing fastest. */
static fby_status add_product(const fby__reading *r, const fby_node *node, const char *what, const char **out, size_t *n)
{
    const char *const *alphabets;
    size_t n_alphabets = 0, counts[MAX_GRAM], at[MAX_GRAM] = {0}, total = 1;
    FBY__TRY(fby__read_texts(r, node, what, &alphabets, &n_alphabets));
    if (n_alphabets == 0 || n_alphabets > MAX_GRAM)
        return fby__node_fail(r, node, "%s: a product is of 1 to %d alphabets", what, MAX_GRAM);
    for (size_t i = 0; i < n_alphabets; i++) {
        counts[i] = code_points(alphabets[i]);
        if (counts[i] == 0 || counts[i] > MAX_VOCABULARY || total * counts[i] > MAX_VOCABULARY - *n)
            return fby__node_fail(r, node, "%s: a vocabulary of more than a million grams, or an empty alphabet", what);
        total *= counts[i];
    }
    for (size_t k = 0; out && k < total; k++) {
        char gram[4 * MAX_GRAM + 1];
        size_t bytes = 0;
        for (size_t i = 0; i < n_alphabets; i++) {
            const char *c = alphabets[i];
            for (size_t skip = at[i]; skip > 0; skip--)
                c += code_point(c);
            memcpy(gram + bytes, c, code_point(c));
            bytes += code_point(c);
        }
        if (!(out[*n + k] = fby__arena_copy(r->arena, gram, bytes)))
            return fby__read_nomem(r);
        for (size_t i = n_alphabets; i-- > 0 && ++at[i] == counts[i];)
            at[i] = 0;
    }
    *n += total;
    return FBY_OK;
}

static fby_status read_vocabulary(const fby__reading *r, const fby_node *node, const char *what, fby_make_ngrams *g)
{
    struct vocabulary {
        const fby_node *products;
    } f = {0};
    static const fby__key keys[] = {FBY__KEY("products", FBY__WANT_NODE, struct vocabulary, products), FBY__KEY_END};
    if (node->kind != FBY_NODE_MAP)
        return fby__read_texts(r, node, what, &g->vocabulary, &g->n_vocabulary);
    FBY__TRY(fby__read_map(r, node, what, keys, &f));
    if (!f.products || f.products->kind != FBY_NODE_LIST)
        return fby__node_fail(r, node, "%s: vocabulary: a list of grams, or products: a list of lists of alphabets, is expected", what);
    const char **grams = NULL;
    for (int fill = 0; fill < 2; fill++) { /* first how many */
        size_t n = 0;
        for (size_t i = 0; i < f.products->n; i++)
            FBY__TRY(add_product(r, f.products->items[i], what, grams, &n));
        g->n_vocabulary = n;
        if (!fill && !(grams = fby__reading_alloc(r, n, sizeof *grams)))
            return FBY_E_NOMEM;
    }
    g->vocabulary = grams;
    return FBY_OK;
}

static fby_status read_ngrams(const fby__reading *r, const fby_node *node, const char *what, fby_make_ngrams *g)
{
    struct ngrams {
        fby_make_ngrams g;
        const fby_node *vocabulary;
    } f = {.g.n = 2};
    static const fby__key vocabulary[] = {FBY__KEY("vocabulary", FBY__WANT_NODE, struct ngrams, vocabulary), FBY__KEY_END};
    fby__key keys[FBY__MAX_KEYS];
    FBY__TRY(fby__read_map(r, node, what, fby__option_keys(FBY_OPTIONS_NGRAMS, offsetof(struct ngrams, g), vocabulary, keys), &f));
    if (!f.vocabulary)
        return fby__node_fail(r, node, "%s: vocabulary is missing: the grams, whose places are those of the output", what);
    *g = f.g;
    FBY__TRY(read_vocabulary(r, f.vocabulary, what, g));
    for (size_t i = 0; i < g->n_vocabulary; i++)
        if (code_points(g->vocabulary[i]) != g->n)
            return fby__node_fail(r, f.vocabulary, "%s: '%.40s' of the vocabulary has not %u characters", what, g->vocabulary[i], g->n);
    return FBY_OK;
}

/* --- of a sample ------------------------------------------------------------------------------------------------------------------------------ */

/* count, key, or {min: column}: the column by name, or by its place from 0, among those after key and order. A name must be one column's alone. */
static fby_status read_channel(const fby__reading *r, const fby_node *node, const char *what, const fby_output *o, fby_channel *out)
{
    const char *name = NULL;
    const fby_node *value = NULL;
    int kind = 0;
    FBY__TRY(fby__read_single(r, node, what, &name, &value));
    FBY__TRY(fby__read_choice(r, node->kind == FBY_NODE_MAP ? node->keys[0] : node, what, fby__channel_words, &kind));
    out->value = (fby_channel_value)kind;
    bool takes = kind != FBY_CHANNEL_COUNT && kind != FBY_CHANNEL_KEY;
    if (takes != (value != NULL))
        return fby__node_fail(r, node, takes ? "%s: %s: the column is missing" : "%s: %s is of no column", what, name);
    if (!value)
        return FBY_OK;
    if (value->kind != FBY_NODE_TEXT)
        return fby__node_fail(r, value, "%s: %s: a column's name or place is expected", what, name);
    size_t found = 0;
    for (size_t i = 2; i < o->n_columns; i++)
        if (strcmp(o->columns[i], value->text) == 0) {
            if (found++ > 0)
                return fby__node_fail(
                    r, value,
                    "%s: %s: column '%.60s' is there more than once: give its place among the columns after key and order, "
                    "from 0",
                    what, name, value->text);
            out->feature = (uint32_t)(i - 2);
        }
    if (found)
        return FBY_OK;
    char *end;
    errno = 0;
    unsigned long long place = strtoull(value->text, &end, 10);
    if (value->text[0] >= '0' && value->text[0] <= '9' && *end == '\0' && errno == 0 && place + 2 < o->n_columns) {
        out->feature = (uint32_t)place;
        return FBY_OK;
    }
    return fby__node_fail(r, value, "%s: %s: '%.60s' is none of the output's columns after key and order", what, name, value->text);
}

static fby_status read_group_channels(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *what, fby_make *make,
                                      const fby_output *o)
{
    struct forms {
        fby_make_group_channels m;
        const fby_node *channels, *positions;
    } f = {0};
    static const fby__key nodes[] = {
        FBY__KEY("channels", FBY__WANT_NODE, struct forms, channels),
        FBY__KEY("positions", FBY__WANT_NODE, struct forms, positions),
        FBY__KEY_END,
    };
    fby__key keys[FBY__MAX_KEYS];
    FBY__TRY(fby__read_map(r, node, what, fby__option_keys(FBY_OPTIONS_GROUP_CHANNELS, offsetof(struct forms, m), nodes, keys), &f));
    if (o->n_columns < 2)
        return fby__node_fail(r, node, "%s: its columns are a key, an order, and features", what);
    if (f.channels) {
        const fby_node *const *items = f.channels->kind == FBY_NODE_LIST ? f.channels->items : &f.channels;
        size_t n = f.channels->kind == FBY_NODE_LIST ? f.channels->n : 1;
        fby_channel *channels = fby__reading_alloc(r, n, sizeof *channels);
        if (!channels)
            return FBY_E_NOMEM;
        for (size_t i = 0; i < n; i++)
            FBY__TRY(read_channel(r, items[i], what, o, &channels[i]));
        f.m.channels = channels;
        f.m.n_channels = n;
    }
    if (f.m.max_groups == 0)
        return fby__node_fail(r, node, "%s: max_groups is missing: how many subgroups the output has room for", what);
    make->group_channels = f.m;
    if (!f.positions)
        return FBY_OK;
    if (f.positions->kind != FBY_NODE_TEXT || !fby__find_lookup(p, f.positions->text))
        return fby__node_fail(r, f.positions, "%s: positions: the name of one of the lookups is expected", what);
    fby__need need = {.kind = FBY__NEED_POSITIONS, .node = f.positions, .name = f.positions->text, .make = make};
    return fby__add_need(p, r, need) ? FBY_OK : FBY_E_NOMEM;
}

fby_status fby__read_make(fby_pipeline *p, const fby__reading *r, const fby_node *node, fby_make_kind kind, const char *where,
                          fby_output *output)
{
    fby_make *make = fby__reading_alloc(r, 1, sizeof *make);
    char what[160];
    if (!make)
        return FBY_E_NOMEM;
    make->kind = kind;
    output->make = make;
    (void)snprintf(what, sizeof what, "%.100s: %s", where, fby__make_words[kind]);
    switch (kind) {
    case FBY_MAKE_BITS: return read_count_or_map(r, node, what, FBY_OPTIONS_BITS, &make->bits);
    case FBY_MAKE_ONE_HOT: return read_count_or_map(r, node, what, FBY_OPTIONS_ONE_HOT, &make->one_hot);
    case FBY_MAKE_MAP: return read_mapping(p, r, node, what, make, output);
    case FBY_MAKE_NGRAMS: return read_ngrams(r, node, what, &make->ngrams);
    case FBY_MAKE_EXPRESSION: {
        static const fby__key text = FBY__KEY("text", FBY__WANT_TEXT, fby_make_expression, text);
        return fby__read_value(r, node, what, &text, &make->expression);
    }
    case FBY_MAKE_SYMMETRIC: return read_count_or_map(r, node, what, FBY_OPTIONS_SYMMETRIC, &make->symmetric);
    case FBY_MAKE_GROUP_CHANNELS: return read_group_channels(p, r, node, what, make, output);
    case FBY_MAKE_SELECT: return fby__read_select(p, r, node, what, &make->select, output);
    case FBY_MAKE_SEQUENCE_MASK:
        FBY__TRY(read_count_or_map(r, node, what, FBY_OPTIONS_SEQUENCE_MASK, &make->sequence_mask));
        return make->sequence_mask.size ? FBY_OK : fby__node_fail(r, node, "%s: size is missing", what);
    default: break;
    }
    FBY__TRY(read_count_or_map(r, node, what, FBY_OPTIONS_CROP, &make->crop));
    return make->crop.length ? FBY_OK : fby__node_fail(r, node, "%s: length is missing", what);
}

/* --- in place --------------------------------------------------------------------------------------------------------------------------------- */

fby_status fby__read_after(const fby__reading *r, const fby_node *node, const char *where, fby_output *output)
{
    const fby_node *const *items = node->kind == FBY_NODE_LIST ? node->items : &node;
    size_t n = node->kind == FBY_NODE_LIST ? node->n : 1;
    fby_after *after = fby__reading_alloc(r, n, sizeof *after);
    if (!after)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *name = NULL;
        const fby_node *value = NULL;
        fby__key keys[FBY__MAX_KEYS];
        int kind = 0;
        FBY__TRY(fby__read_single(r, items[i], where, &name, &value));
        FBY__TRY(fby__read_choice(r, items[i]->kind == FBY_NODE_MAP ? items[i]->keys[0] : items[i], where, fby__after_words, &kind));
        after[i].kind = (fby_after_kind)kind;
        if (kind != FBY_AFTER_SPEC_AUGMENT && value)
            return fby__node_fail(r, value, "%s: %s takes no options", where, name);
        if (kind == FBY_AFTER_SPEC_AUGMENT && !value)
            return fby__node_fail(r, items[i], "%s: spec_augment: its options are missing: how many masks, how wide", where);
        if (value)
            FBY__TRY(fby__read_map(r, value, where, fby__option_keys(FBY_OPTIONS_SPEC_AUGMENT, 0, NULL, keys), &after[i].spec_augment));
    }
    output->after = after;
    output->n_after = n;
    return FBY_OK;
}
