/*
 * Outputs as nodes: the way back of section_outputs.c and section_make.c. What is written reads back as the same fby_output, tables included;
 * tables that nobody gave a name are written out with their values.
 */
#include "pipeline/pipeline_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- making nodes: each is NULL when memory ran out, and what takes a NULL gives NULL -------------------------------------------------------- */

static fby_node *make_node(fby__describing *d, fby_node_kind kind)
{
    fby_node *n = fby__reading_alloc(&d->r, 1, sizeof *n);
    if (n)
        n->kind = kind;
    return n;
}

static const fby_node *a_bool(fby__describing *d, bool value)
{
    fby_node *n = make_node(d, FBY_NODE_BOOL);
    if (n)
        n->boolean = value;
    return n;
}

static const fby_node *an_int(fby__describing *d, int64_t value)
{
    fby_node *n = make_node(d, FBY_NODE_INT);
    if (n)
        n->integer = value;
    return n;
}

static const fby_node *a_count(fby__describing *d, uint64_t value) { return an_int(d, value > INT64_MAX ? INT64_MAX : (int64_t)value); }

static const fby_node *a_number(fby__describing *d, double value)
{
    fby_node *n = make_node(d, FBY_NODE_FLOAT);
    if (n)
        n->number = value;
    return n;
}

static const fby_node *a_text(fby__describing *d, const char *text)
{
    fby_node *n = make_node(d, FBY_NODE_TEXT);
    const char *copy = n ? fby__arena_copy(d->r.arena, text, strlen(text)) : NULL;
    if (!copy)
        return NULL;
    n->text = copy;
    return n;
}

/* A growing list or map; `failed` once memory ran out. */
typedef struct growing {
    fby__describing *d;
    const fby_node **items, **keys;
    size_t n, cap;
    bool failed;
} growing;

static void add(growing *g, const char *key, const fby_node *value)
{
    const fby_node *name = key && value ? a_text(g->d, key) : NULL;
    if (g->failed || !value || (key && !name)) {
        g->failed = true;
        return;
    }
    if (g->n == g->cap) { /* in the arena: the old ones stay there, at most as many again */
        size_t cap = g->cap ? g->cap * 2 : 8;
        const fby_node **items = fby__reading_alloc(&g->d->r, cap, sizeof *items), **keys = fby__reading_alloc(&g->d->r, cap, sizeof *keys);
        if (!items || !keys) {
            g->failed = true;
            return;
        }
        if (g->n) {
            memcpy(items, g->items, g->n * sizeof *items);
            memcpy(keys, g->keys, g->n * sizeof *keys);
        }
        g->items = items;
        g->keys = keys;
        g->cap = cap;
    }
    g->items[g->n] = value;
    g->keys[g->n++] = name;
}

static const fby_node *finish(growing *g, fby_node_kind kind)
{
    fby_node *n = g->failed ? NULL : make_node(g->d, kind);
    if (n) {
        n->n = g->n;
        n->items = g->items;
        n->keys = kind == FBY_NODE_MAP ? g->keys : NULL;
    }
    return n;
}

static const fby_node *a_list_of_texts(fby__describing *d, const char *const *texts, size_t n)
{
    growing g = {.d = d};
    for (size_t i = 0; i < n; i++)
        add(&g, NULL, a_text(d, texts[i]));
    return finish(&g, FBY_NODE_LIST);
}

static const fby_node *a_list_of_numbers(fby__describing *d, const double *numbers, size_t n)
{
    growing g = {.d = d};
    for (size_t i = 0; i < n; i++)
        add(&g, NULL, a_number(d, numbers[i]));
    return finish(&g, FBY_NODE_LIST);
}

static const fby_node *a_list_of_ints(fby__describing *d, const int64_t *numbers, size_t n)
{
    growing g = {.d = d};
    for (size_t i = 0; i < n; i++)
        add(&g, NULL, an_int(d, numbers[i]));
    return finish(&g, FBY_NODE_LIST);
}

static void add_text(growing *g, const char *key, const char *text)
{
    if (text)
        add(g, key, a_text(g->d, text));
}

static void add_number(growing *g, const char *key, double value, bool is_given)
{
    if (is_given)
        add(g, key, a_number(g->d, value));
}

/* A default that is a whole number; else 0, which every struct has where nothing was asked for. */
static int64_t usual(const fby_option *o)
{
    char *end = NULL;
    const long long number = strtoll(o->fallback, &end, 10);
    return *end ? 0 : number;
}

/* The options of a set that are written as their type is, without those that are at their default. What has a form is the caller's. */
static void add_options(growing *g, fby_option_set set, const void *from)
{
    for (const fby_option *o = fby__option_table(set); o->name; o++) {
        const char *at = (const char *)from + o->offset;
        uint64_t large = 0;
        uint32_t small = 0;
        int64_t whole = 0;
        double number = 0;
        const char *text = NULL;
        if (!(o->flags & FBY_OPTION_IN_FILE) || o->form)
            continue;
        switch (o->type) {
        case FBY_OPTION_BOOL:
            if (*(const bool *)at)
                add(g, o->name, a_bool(g->d, true));
            break;
        case FBY_OPTION_U32:
        case FBY_OPTION_INT:
        case FBY_OPTION_CHOICE:
            memcpy(&small, at, sizeof small);
            whole = o->type == FBY_OPTION_INT ? (int64_t)(int32_t)small : (int64_t)small;
            if (small && o->type == FBY_OPTION_CHOICE)
                add_text(g, o->name, o->choices[small]);
            else if (small && whole != usual(o))
                add(g, o->name, an_int(g->d, whole));
            break;
        case FBY_OPTION_U64:
            memcpy(&large, at, sizeof large);
            if (large && large != (uint64_t)usual(o))
                add(g, o->name, a_count(g->d, large));
            break;
        case FBY_OPTION_DOUBLE:
            memcpy(&number, at, sizeof number);
            add_number(g, o->name, number, o->also ? *((const bool *)from + o->also) : number != 0);
            break;
        case FBY_OPTION_TEXT:
            memcpy(&text, at, sizeof text);
            add_text(g, o->name, text);
            break;
        default: g->failed = true; break; /* no set of outputs has one */
        }
    }
}

static const fby_node *options_of(fby__describing *d, fby_option_set set, const void *from)
{
    growing g = {.d = d};
    add_options(&g, set, from);
    return finish(&g, FBY_NODE_MAP);
}

/* --- tables ------------------------------------------------------------------------------------------------------------------------------------ */

static const fby_node *name_of(fby__describing *d, const fby_lookup *table)
{
    char text[32];
    for (size_t i = 0; i < d->n_tables; i++)
        if (d->tables[i] == table)
            return a_text(d, d->table_names[i]);
    size_t at = 0;
    while (at < d->n_met && d->met[at] != table)
        at++;
    if (at == d->n_met) {
        if (d->n_met == d->cap_met) {
            size_t cap = d->cap_met ? d->cap_met * 2 : 8;
            const fby_lookup **met = fby__reading_alloc(&d->r, cap, sizeof *met);
            if (!met)
                return NULL;
            if (d->n_met)
                memcpy(met, d->met, d->n_met * sizeof *met);
            d->met = met;
            d->cap_met = cap;
        }
        d->met[d->n_met++] = table;
    }
    (void)snprintf(text, sizeof text, "table_%zu", at + 1);
    return a_text(d, text);
}

static const fby_node *a_table(fby__describing *d, const fby_lookup *t)
{
    growing g = {.d = d}, keys = {.d = d}, columns = {.d = d}, values = {.d = d};
    size_t n = fby_lookup_count(t), n_columns = fby_lookup_column_count(t);
    const size_t n_key = fby_lookup_key_column_count(t);
    for (size_t c = 0; c < n_columns; c++)
        add(&columns, NULL, a_text(d, fby_lookup_column(t, c)));
    for (size_t k = 0; k < n && !values.failed && !keys.failed; k++) {
        growing row = {.d = d}, key = {.d = d};
        for (size_t c = 0; c < n_key; c++) {
            int64_t number = 0;
            const char *text = NULL;
            if (fby_lookup_key_value(t, k, c, &number, &text, d->r.err) != FBY_OK)
                return NULL;
            add(&key, NULL, text ? a_text(d, text) : an_int(d, number));
        }
        for (size_t c = 0; c < n_columns; c++)
            add(&row, NULL, a_number(d, fby_lookup_value(t, k, c)));
        add(&keys, NULL, n_key > 1 ? finish(&key, FBY_NODE_LIST) : key.failed ? NULL : key.items[0]);
        add(&values, NULL, finish(&row, FBY_NODE_LIST));
    }
    add(&g, "keys", finish(&keys, FBY_NODE_LIST));
    if (n_columns) {
        add(&g, "columns", finish(&columns, FBY_NODE_LIST));
        add(&g, "values", finish(&values, FBY_NODE_LIST));
    }
    return finish(&g, FBY_NODE_MAP);
}

fby_status fby__describe_tables(fby__describing *d, const fby_node **out)
{
    growing g = {.d = d};
    char name[32];
    for (size_t i = 0; i < d->n_met; i++) {
        (void)snprintf(name, sizeof name, "table_%zu", i + 1);
        add(&g, name, a_table(d, d->met[i]));
    }
    return (*out = finish(&g, FBY_NODE_MAP)) ? FBY_OK : fby__read_nomem(&d->r);
}

/* --- operations ---------------------------------------------------------------------------------------------------------------------------------- */

static const fby_node *each(fby__describing *d, double value, const double *list, size_t n)
{
    return list ? a_list_of_numbers(d, list, n) : a_number(d, value);
}

static const fby_node *single(fby__describing *d, const char *key, const fby_node *value)
{
    growing g = {.d = d};
    add(&g, key, value);
    return finish(&g, FBY_NODE_MAP);
}

static bool is_all(double value, const double *list, size_t n, double wanted)
{
    for (size_t i = 0; i < (list ? n : 1); i++)
        if (!((list ? list[i] : value) == wanted))
            return false;
    return true;
}

static void add_axis(growing *g, const fby_op *op)
{
    if (op->n_each)
        add(g, "axis", an_int(g->d, op->axis));
}

/* name: value, or name: {value: …, axis: …}. */
static void add_value(growing *g, const char *name, const fby_node *value, const fby_op *op)
{
    growing parts = {.d = g->d};
    add(&parts, "value", value);
    add_axis(&parts, op);
    add(g, NULL, single(g->d, name, op->n_each ? finish(&parts, FBY_NODE_MAP) : value));
}

static void add_log(growing *g, const char *name, const fby_op *op, size_t n)
{
    growing parts = {.d = g->d};
    if (is_all(op->a, op->a_each, n, 0)) {
        add(g, NULL, a_text(g->d, name));
        return;
    }
    add(&parts, "eps", each(g->d, op->a, op->a_each, n));
    add_axis(&parts, op);
    add(g, NULL, single(g->d, name, finish(&parts, FBY_NODE_MAP)));
}

static const fby_node *describe_ops(fby__describing *d, const fby_op *ops, size_t n_ops, size_t n_columns)
{
    growing g = {.d = d};
    for (size_t i = 0; i < n_ops; i++) {
        const fby_op *op = &ops[i];
        const size_t n = n_columns * (op->n_each ? op->n_each : 1);
        growing parts = {.d = d};
        const fby_node *a = each(d, op->a, op->a_each, n), *b = each(d, op->b, op->b_each, n);
        switch (op->kind) {
        case FBY_OP_AFFINE: { /* x · a + b in float64 is these two, bit for bit */
            bool plain_a = is_all(op->a, op->a_each, n, 1), plain_b = is_all(op->b, op->b_each, n, 0);
            if (!plain_a || plain_b)
                add_value(&g, "scale", a, op);
            if (!plain_b)
                add_value(&g, "offset", b, op);
            break;
        }
        case FBY_OP_STANDARDIZE:
            add(&parts, "mean", a);
            add(&parts, "std", b);
            add_axis(&parts, op);
            add(&g, NULL, single(d, "standardize", finish(&parts, FBY_NODE_MAP)));
            break;
        case FBY_OP_CLIP:
            add(&parts, "low", a);
            add(&parts, "high", b);
            add_axis(&parts, op);
            add(&g, NULL, single(d, "clip", finish(&parts, FBY_NODE_MAP)));
            break;
        case FBY_OP_LOG: add_log(&g, "log", op, n); break;
        case FBY_OP_LOG10: add_log(&g, "log10", op, n); break;
        case FBY_OP_LOG1P: add(&g, NULL, a_text(d, "log1p")); break;
        case FBY_OP_FILL_NAN: add_value(&g, "fill_nan", a, op); break;
        case FBY_OP_FILL_MISSING: add_value(&g, "fill_missing", a, op); break;
        case FBY_OP_FILL_NULL: add_value(&g, "fill_null", a, op); break;
        }
    }
    return finish(&g, FBY_NODE_LIST);
}

/* --- what outputs are made of ------------------------------------------------------------------------------------------------------------------- */

static const fby_node *describe_ngrams(fby__describing *d, const fby_make_ngrams *m)
{
    growing g = {.d = d};
    add_options(&g, FBY_OPTIONS_NGRAMS, m);
    add(&g, "vocabulary", a_list_of_texts(d, m->vocabulary, m->n_vocabulary));
    return finish(&g, FBY_NODE_MAP);
}

/* A column of a channel: by name, or by its place where several have that name. */
static const fby_node *channel_column(fby__describing *d, const fby_output *o, uint32_t feature)
{
    const char *name = o->columns[feature + 2];
    char place[16];
    bool alone = true;
    for (size_t i = 2; i < o->n_columns; i++)
        alone &= i == (size_t)feature + 2 || strcmp(o->columns[i], name) != 0;
    (void)snprintf(place, sizeof place, "%u", feature);
    return a_text(d, alone ? name : place);
}

static const fby_node *describe_group_channels(fby__describing *d, const fby_make_group_channels *m, const fby_output *o)
{
    growing g = {.d = d}, channels = {.d = d};
    for (size_t i = 0; i < m->n_channels; i++) {
        const fby_channel *c = &m->channels[i];
        bool of_column = c->value != FBY_CHANNEL_COUNT && c->value != FBY_CHANNEL_KEY && (size_t)c->feature + 2 < o->n_columns;
        const char *word = fby__channel_words[c->value];
        add(&channels, NULL, of_column ? single(d, word, channel_column(d, o, c->feature)) : a_text(d, word));
    }
    if (m->n_channels)
        add(&g, "channels", finish(&channels, FBY_NODE_LIST));
    add_options(&g, FBY_OPTIONS_GROUP_CHANNELS, m);
    if (m->positions)
        add(&g, "positions", name_of(d, m->positions));
    return finish(&g, FBY_NODE_MAP);
}

/* A list of the table's columns, or one without its axis. */
static void add_lookup(growing *g, const fby_output *o)
{
    const fby_make_lookup *m = &o->make->lookup;
    growing columns = {.d = g->d};
    for (size_t i = 0; i < m->n_columns; i++)
        add(&columns, NULL, a_text(g->d, fby_lookup_column(m->table, m->columns[i])));
    add(g, "lookup", name_of(g->d, m->table));
    add(g, "on", o->n_columns > 1 ? a_list_of_texts(g->d, o->columns, o->n_columns) : a_text(g->d, o->columns[0]));
    if (m->n_columns == 1 && !m->keep_axis)
        add(g, "columns", columns.failed ? NULL : columns.items[0]);
    else if (m->n_columns)
        add(g, "columns", finish(&columns, FBY_NODE_LIST));
    else if (fby_lookup_column_count(m->table)) /* the place of the key */
        add(g, "columns", finish(&columns, FBY_NODE_LIST));
    add_number(g, "default", m->default_value, m->has_default);
}

/* ":", "1:7:2", a place, or a list of places. */
static const fby_node *describe_places(fby__describing *d, const fby_axis_places *a)
{
    char text[80], end[24] = "";
    if (a->places)
        return a->drop_axis ? an_int(d, a->places[0]) : a_list_of_ints(d, a->places, a->n_places);
    if (a->end)
        (void)snprintf(end, sizeof end, "%lld", (long long)a->end);
    (void)snprintf(text, sizeof text, "%lld:%s:%llu", (long long)a->begin, end, (unsigned long long)(a->step ? a->step : 1));
    return a_text(d, text);
}

static const fby_node *describe_select(fby__describing *d, const fby_make_select *m)
{
    growing g = {.d = d};
    if (m->of_last)
        add(&g, NULL, a_text(d, "..."));
    for (size_t i = 0; i < m->n_axes; i++)
        add(&g, NULL, describe_places(d, &m->axes[i]));
    return finish(&g, FBY_NODE_LIST);
}

static const fby_node *describe_map(fby__describing *d, const fby_make_map *m)
{
    growing g = {.d = d};
    add(&g, "values", m->texts ? a_list_of_texts(d, m->texts, m->n) : a_list_of_ints(d, m->numbers, m->n));
    add(&g, "to", a_list_of_numbers(d, m->to, m->n));
    add_options(&g, FBY_OPTIONS_MAP, m);
    return finish(&g, FBY_NODE_MAP);
}

static const fby_node *describe_standardize(fby__describing *d, const fby_make_standardize *m, const fby_output *o)
{
    growing g = {.d = d};
    add(&g, "table", name_of(d, m->moments));
    add_text(&g, "by", o->columns[o->n_columns - 1]);
    add_options(&g, FBY_OPTIONS_MAKE_STANDARDIZE, m);
    return finish(&g, FBY_NODE_MAP);
}

static const fby_node *describe_make(fby__describing *d, const fby_make *m, const fby_output *o)
{
    switch (m->kind) {
    case FBY_MAKE_BITS: return options_of(d, FBY_OPTIONS_BITS, &m->bits);
    case FBY_MAKE_ONE_HOT: return options_of(d, FBY_OPTIONS_ONE_HOT, &m->one_hot);
    case FBY_MAKE_MAP: return describe_map(d, &m->map);
    case FBY_MAKE_NGRAMS: return describe_ngrams(d, &m->ngrams);
    case FBY_MAKE_EXPRESSION: return a_text(d, m->expression.text);
    case FBY_MAKE_STANDARDIZE: return describe_standardize(d, &m->standardize, o);
    case FBY_MAKE_SYMMETRIC: return options_of(d, FBY_OPTIONS_SYMMETRIC, &m->symmetric);
    case FBY_MAKE_GROUP_CHANNELS: return describe_group_channels(d, &m->group_channels, o);
    case FBY_MAKE_CROP: return options_of(d, FBY_OPTIONS_CROP, &m->crop);
    case FBY_MAKE_SEQUENCE_MASK: return options_of(d, FBY_OPTIONS_SEQUENCE_MASK, &m->sequence_mask);
    case FBY_MAKE_SELECT: return describe_select(d, &m->select);
    case FBY_MAKE_NONE:
    case FBY_MAKE_LOOKUP:
    case FBY_MAKE_TIME: break; /* these are keys of the output itself */
    }
    return NULL;
}

static const fby_node *describe_after(fby__describing *d, const fby_after *after, size_t n)
{
    growing g = {.d = d};
    for (size_t i = 0; i < n; i++) {
        const char *word = fby__after_words[after[i].kind];
        const bool has_options = after[i].kind == FBY_AFTER_SPEC_AUGMENT;
        add(&g, NULL, has_options ? single(d, word, options_of(d, FBY_OPTIONS_SPEC_AUGMENT, &after[i].spec_augment)) : a_text(d, word));
    }
    return finish(&g, FBY_NODE_LIST);
}

/* --- outputs ---------------------------------------------------------------------------------------------------------------------------------------- */

/* The key of padded and ragged outputs, with their options, or true where all of them are at their default. */
static void add_layout_options(growing *g, const fby_output *o)
{
    const bool is_padded = o->layout == FBY_LAYOUT_PADDED;
    fby_output asked = *o;
    if (!o->max_rows) /* nothing is left out */
        asked.keep = FBY_KEEP_RANDOM;
    const fby_node *options = options_of(g->d, is_padded ? FBY_OPTIONS_PADDED : FBY_OPTIONS_RAGGED, &asked);
    if (is_padded || o->layout == FBY_LAYOUT_RAGGED || o->max_rows)
        add(g, is_padded ? "padded" : "ragged", options && options->n ? options : a_bool(g->d, true));
}

static void add_time(growing *g, const fby_make_time *m)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%s[%s]", m->is_duration ? "duration" : "timestamp", fby_unit_name(m->unit));
    add_text(g, "dtype", text);
}

/* A list of lists: a column may be there twice, as the order of subgroups and as a feature, with operations of its own. */
static void add_column_ops(growing *g, const fby_output *o)
{
    growing parts = {.d = g->d};
    for (size_t c = 0; c < o->n_columns; c++)
        add(&parts, NULL, describe_ops(g->d, o->column_ops[c], o->n_column_ops[c], 1));
    add(g, "column_ops", finish(&parts, FBY_NODE_LIST));
}

static const fby_node *describe_output(fby__describing *d, const fby_output *o)
{
    growing g = {.d = d};
    fby_output plain = *o;
    bool lookup = o->make && o->make->kind == FBY_MAKE_LOOKUP, grouped = o->make && o->make->kind == FBY_MAKE_STANDARDIZE;
    size_t n = o->n_columns - (grouped && o->n_columns > 0); /* the key stands under `by` */
    if (lookup)
        add_lookup(&g, o);
    else if (n)
        add(&g, "columns", n == 1 && !o->keep_axis ? a_text(d, o->columns[0]) : a_list_of_texts(d, o->columns, n));
    if (o->dtype != FBY_DTYPE_NONE && !(o->make && o->make->kind == FBY_MAKE_TIME))
        add_text(&g, "dtype", fby_dtype_name(o->dtype));
    add_number(&g, "value", o->value, o->from == FBY_FROM_LIT);
    if (o->one_step) {
        add(&g, "at", a_count(d, o->step_begin));
    } else if (o->step_end) {
        growing steps = {.d = d};
        add(&steps, NULL, a_count(d, o->step_begin));
        add(&steps, NULL, a_count(d, o->step_end));
        add(&g, "steps", finish(&steps, FBY_NODE_LIST));
    }
    if (o->n_ops)
        add(&g, "ops", describe_ops(d, o->ops, o->n_ops, o->n_columns));
    if (o->column_ops)
        add_column_ops(&g, o);
    if (o->make && o->make->kind == FBY_MAKE_TIME)
        add_time(&g, &o->make->time);
    else if (o->make && o->make->kind != FBY_MAKE_NONE && !lookup)
        add(&g, fby__make_words[o->make->kind], describe_make(d, o->make, o));
    if (o->n_reshape)
        add(&g, "reshape", a_list_of_ints(d, o->reshape, o->n_reshape));
    if (o->n_after)
        add(&g, "after", describe_after(d, o->after, o->n_after));
    add_layout_options(&g, o);
    plain.layout = o->layout == FBY_LAYOUT_DENSE ? o->layout : FBY_LAYOUT_AUTO; /* the others are keys of their own */
    add_options(&g, FBY_OPTIONS_OUTPUT, &plain);
    return finish(&g, FBY_NODE_MAP);
}

fby_status fby__describe_outputs(fby__describing *d, const fby_output *outputs, size_t n, const fby_node **out)
{
    growing g = {.d = d};
    for (size_t i = 0; i < n; i++)
        add(&g, outputs[i].name, describe_output(d, &outputs[i]));
    return (*out = finish(&g, FBY_NODE_MAP)) ? FBY_OK : fby__read_nomem(&d->r);
}
