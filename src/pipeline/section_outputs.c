/* The section outputs: columns, steps, layouts and operations of each; section_make.c has what is made of columns. */
#include "pipeline/pipeline_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

fby__need *fby__add_need(fby_pipeline *p, const fby__reading *r, fby__need need)
{
    fby__need *made = fby__reading_alloc(r, 1, sizeof *made);
    if (!made)
        return NULL;
    *made = need;
    *p->needs_end = made;
    p->needs_end = &made->next;
    return made;
}

/* --- operations ----------------------------------------------------------------------------------------------------------------------- */

static const char *const op_names[] = {"scale", "offset",   "standardize",  "clip",      "log", "log10",
                                       "log1p", "fill_nan", "fill_missing", "fill_null", NULL};
enum { SCALE, OFFSET, STANDARDIZE, CLIP, LOG, LOG10, LOG1P, FILL_NAN, FILL_MISSING };

/* The keys of an operation's numbers, when it is written as a map. */
typedef struct op_forms {
    const fby_node *value, *low, *high, *mean, *std, *eps;
    int axis;
} op_forms;

#define AXIS_KEY FBY__KEY_FROM("axis", FBY__WANT_INT, op_forms, axis, -FBY_MAX_DIMS)
static const fby__key value_keys[] = {FBY__KEY("value", FBY__WANT_NODE, op_forms, value), AXIS_KEY, FBY__KEY_END};
static const fby__key clip_keys[] = {FBY__KEY("low", FBY__WANT_NODE, op_forms, low), FBY__KEY("high", FBY__WANT_NODE, op_forms, high),
                                     AXIS_KEY, FBY__KEY_END};
static const fby__key scales_keys[] = {FBY__KEY("mean", FBY__WANT_NODE, op_forms, mean), FBY__KEY("std", FBY__WANT_NODE, op_forms, std),
                                       AXIS_KEY, FBY__KEY_END};
static const fby__key log_keys[] = {FBY__KEY("eps", FBY__WANT_NODE, op_forms, eps), AXIS_KEY, FBY__KEY_END};

static fby_status read_op_map(const fby__reading *r, const fby_node *node, const char *what, const fby__key *keys, op_forms *f, fby_op *op)
{
    FBY__TRY(fby__read_map(r, node, what, keys, f));
    if (fby__node_get(node, "axis") && f->axis >= 0)
        return fby__node_fail(r, node, "%s: axis: the axes of a row's value are counted from the end: -1 is the last", what);
    op->axis = f->axis;
    return FBY_OK;
}

/* A number, or a list of one for each column; with an axis, of one for each of its places, of all columns alike or of each. */
static fby_status read_each(const fby__reading *r, const fby_node *node, const char *what, size_t n_columns, fby_op *op, double *out,
                            const double **out_each)
{
    size_t n = 0;
    if (node->kind != FBY_NODE_LIST)
        return fby__read_double(r, node, what, out);
    FBY__TRY(fby__read_doubles(r, node, what, out_each, &n));
    if (!op->axis && n != n_columns)
        return fby__node_fail(r, node, "%s: %zu numbers for %zu columns", what, n, n_columns);
    if (!op->axis)
        return FBY_OK;
    if (n == 0 || n % n_columns != 0 || (op->n_each && op->n_each != n / n_columns))
        return fby__node_fail(r, node, "%s: %zu numbers: one for each place of the axis is expected, of each of %zu columns", what, n,
                              n_columns);
    op->n_each = n / n_columns;
    return FBY_OK;
}

/* A value that may be {value: …, axis: …}. */
static fby_status read_value(const fby__reading *r, const fby_node *node, const char *what, size_t n_columns, fby_op *op, double *out,
                             const double **out_each)
{
    op_forms f = {.value = node};
    if (node->kind == FBY_NODE_MAP) {
        f.value = NULL;
        FBY__TRY(read_op_map(r, node, what, value_keys, &f, op));
        if (!f.value)
            return fby__node_fail(r, node, "%s: value is missing", what);
    }
    return read_each(r, f.value, what, n_columns, op, out, out_each);
}

/* [low, high], null being no limit; or {low: …, high: …} with a number for each column. */
static fby_status read_clip(const fby__reading *r, const fby_node *node, const char *what, size_t n_columns, fby_op *op)
{
    op_forms f = {0};
    op->a = -INFINITY;
    op->b = INFINITY;
    if (node->kind == FBY_NODE_LIST && node->n == 2) {
        f.low = node->items[0];
        f.high = node->items[1];
    } else {
        if (node->kind != FBY_NODE_MAP)
            return fby__node_fail(r, node, "%s: [low, high], or low and high by name, are expected", what);
        FBY__TRY(read_op_map(r, node, what, clip_keys, &f, op));
    }
    if (f.low && f.low->kind != FBY_NODE_NULL)
        FBY__TRY(read_each(r, f.low, what, n_columns, op, &op->a, &op->a_each));
    if (f.high && f.high->kind != FBY_NODE_NULL)
        FBY__TRY(read_each(r, f.high, what, n_columns, op, &op->b, &op->b_each));
    return FBY_OK;
}

/* The name of moments, or {mean: …, std: …}. */
static fby_status read_standardize(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *what, const fby_output *output,
                                   const char *const *columns, size_t n_columns, fby_op *op)
{
    if (node->kind == FBY_NODE_MAP) {
        op_forms f = {0};
        FBY__TRY(read_op_map(r, node, what, scales_keys, &f, op));
        if (!f.mean || !f.std)
            return fby__node_fail(r, node, "%s: mean and std are needed, or the name of one of the moments", what);
        FBY__TRY(read_each(r, f.mean, what, n_columns, op, &op->a, &op->a_each));
        return read_each(r, f.std, what, n_columns, op, &op->b, &op->b_each);
    }
    if (node->kind != FBY_NODE_TEXT)
        return fby__node_fail(r, node, "%s: the name of one of the moments, or {mean: …, std: …}, is expected", what);
    const fby__moments_spec *moments = fby__find_moments(p, node->text);
    if (!moments)
        return fby__no_moments(p, r, node, what, node->text);
    if (moments->by)
        return fby__node_fail(r, node,
                              "%s: the moments '%.60s' are of groups (by: %.60s): give them as the output's own key: standardize: %.60s",
                              what, node->text, moments->by, node->text);
    fby__need need = {.kind = FBY__NEED_MOMENTS,
                      .node = node,
                      .name = node->text,
                      .output = output,
                      .op = op,
                      .columns = columns,
                      .n_columns = n_columns};
    return fby__add_need(p, r, need) ? FBY_OK : FBY_E_NOMEM;
}

static fby_status read_log(const fby__reading *r, const fby_node *node, const char *what, size_t n_columns, fby_op *op)
{
    op_forms f = {.eps = node};
    if (node && node->kind == FBY_NODE_MAP) {
        f.eps = NULL;
        FBY__TRY(read_op_map(r, node, what, log_keys, &f, op));
    }
    if (!f.eps)
        return FBY_OK;
    FBY__TRY(read_each(r, f.eps, what, n_columns, op, &op->a, &op->a_each));
    for (size_t i = 0; i < (op->a_each ? n_columns * (op->n_each ? op->n_each : 1) : 1); i++)
        if (!((op->a_each ? op->a_each[i] : op->a) > 0))
            return fby__node_fail(r, f.eps, "%s: eps is a number above 0; without it there is no floor", what);
    return FBY_OK;
}

static fby_status read_op(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *where, const fby_output *output,
                          const char *const *columns, size_t n_columns, fby_op *op)
{
    const char *name = NULL;
    const fby_node *value = NULL, *key = node;
    char what[160];
    FBY__TRY(fby__read_single(r, node, where, &name, &value));
    (void)snprintf(what, sizeof what, "%.100s: %.40s", where, name);
    int kind = 0;
    if (node->kind == FBY_NODE_MAP)
        key = node->keys[0];
    FBY__TRY(fby__read_choice(r, key, where, op_names, &kind));
    if (!value && kind != LOG && kind != LOG10 && kind != LOG1P)
        return fby__node_fail(r, node, "%s: its value is missing", what);
    if (value && kind == LOG1P)
        return fby__node_fail(r, value, "%s: takes no value", what);
    switch (kind) {
    case SCALE: op->kind = FBY_OP_AFFINE; return read_value(r, value, what, n_columns, op, &op->a, &op->a_each);
    case OFFSET:
        op->kind = FBY_OP_AFFINE;
        op->a = 1;
        return read_value(r, value, what, n_columns, op, &op->b, &op->b_each);
    case STANDARDIZE: op->kind = FBY_OP_STANDARDIZE; return read_standardize(p, r, value, what, output, columns, n_columns, op);
    case CLIP: op->kind = FBY_OP_CLIP; return read_clip(r, value, what, n_columns, op);
    case LOG: op->kind = FBY_OP_LOG; return read_log(r, value, what, n_columns, op);
    case LOG10: op->kind = FBY_OP_LOG10; return read_log(r, value, what, n_columns, op);
    case LOG1P: op->kind = FBY_OP_LOG1P; return FBY_OK;
    default:
        op->kind = kind == FILL_NAN ? FBY_OP_FILL_NAN : kind == FILL_MISSING ? FBY_OP_FILL_MISSING : FBY_OP_FILL_NULL;
        return read_value(r, value, what, n_columns, op, &op->a, &op->a_each);
    }
}

fby_status fby__read_ops(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *where, const fby_output *output,
                         const char *const *columns, size_t n_columns, const fby_op **out, size_t *out_n)
{
    const fby_node *const *items = node->kind == FBY_NODE_LIST ? node->items : &node;
    size_t n = node->kind == FBY_NODE_LIST ? node->n : 1;
    if (n > FBY_MAX_OPS)
        return fby__node_fail(r, node, "%s: %zu operations; there may be %d", where, n, FBY_MAX_OPS);
    fby_op *ops = fby__reading_alloc(r, n, sizeof *ops);
    if (!ops)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        FBY__TRY(read_op(p, r, items[i], where, output, columns, n_columns, &ops[i]));
    *out = ops;
    *out_n = n;
    return FBY_OK;
}

/* {column: [operations], …}: those of columns that are not named are none. Or a list of as many lists: a column may be there twice. */
static fby_status read_column_ops(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *where, fby_output *output)
{
    bool list = node->kind == FBY_NODE_LIST;
    if (list ? node->n != output->n_columns : node->kind != FBY_NODE_MAP)
        return fby__node_fail(r, node, "%s: column_ops: a map of columns to operations, or a list of them for each column, is expected",
                              where);
    const fby_op **ops = fby__reading_alloc(r, output->n_columns, sizeof *ops);
    size_t *n_ops = fby__reading_alloc(r, output->n_columns, sizeof *n_ops);
    if (!ops || !n_ops)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < node->n; i++) {
        bool found = false;
        for (size_t c = 0; c < output->n_columns; c++) {
            if (list ? c != i : strcmp(output->columns[c], node->keys[i]->text) != 0)
                continue;
            found = true;
            FBY__TRY(fby__read_ops(p, r, node->items[i], where, output, &output->columns[c], 1, &ops[c], &n_ops[c]));
        }
        if (!found)
            return fby__node_fail(r, node->keys[i], "%s: column_ops: '%.60s' is none of its columns", where, node->keys[i]->text);
    }
    output->column_ops = ops;
    output->n_column_ops = n_ops;
    return FBY_OK;
}

/* --- one output --------------------------------------------------------------------------------------------------------------------------- */

typedef struct output_forms {
    fby_output o;
    const fby_node *columns, *dtype, *steps, *at, *ops, *column_ops, *reshape, *after, *ragged, *padded;
    const fby_node *makes[FBY__N_MAKES]; /* by fby_make_kind: what stands under its word; a dtype makes times */
    bool first, has_value;
    const char *lookup;
    const char *const *on;
    size_t n_on;
    double fallback;
    bool has_default;
} output_forms;

/* Those of the options' table, and what is made of columns by the makes' words. */
static const fby__key *output_keys(fby__key room[FBY__MAX_KEYS])
{
    static const fby__key forms[] = {
        FBY__KEY("columns", FBY__WANT_NODE, output_forms, columns),
        FBY__KEY("dtype", FBY__WANT_NODE, output_forms, dtype),
        FBY__KEY_HAS("value", FBY__WANT_DOUBLE, output_forms, o.value, has_value),
        FBY__KEY("steps", FBY__WANT_NODE, output_forms, steps),
        FBY__KEY("at", FBY__WANT_NODE, output_forms, at),
        FBY__KEY("first", FBY__WANT_BOOL, output_forms, first),
        FBY__KEY("ops", FBY__WANT_NODE, output_forms, ops),
        FBY__KEY("column_ops", FBY__WANT_NODE, output_forms, column_ops),
        FBY__KEY("ragged", FBY__WANT_NODE, output_forms, ragged),
        FBY__KEY("padded", FBY__WANT_NODE, output_forms, padded),
        FBY__KEY("reshape", FBY__WANT_NODE, output_forms, reshape),
        FBY__KEY("after", FBY__WANT_NODE, output_forms, after),
        FBY__KEY_LIST("on", output_forms, on, n_on),
        FBY__KEY_HAS("default", FBY__WANT_DOUBLE, output_forms, fallback, has_default),
    };
    enum { N_FORMS = sizeof forms / sizeof *forms };
    fby__key more[N_FORMS + FBY__N_MAKES] = {{0}};
    memcpy(more, forms, sizeof forms);
    size_t n = N_FORMS;
    for (size_t kind = FBY_MAKE_NONE + 1; kind < FBY__N_MAKES; kind++) {
        const size_t at = offsetof(output_forms, makes) + kind * sizeof(const fby_node *);
        if (kind != FBY_MAKE_TIME)
            more[n++] = (fby__key){.name = fby__make_words[kind], .want = FBY__WANT_NODE, .at = at, .also = FBY__NOWHERE};
    }
    return fby__option_keys(FBY_OPTIONS_OUTPUT, offsetof(output_forms, o), more, room);
}

/* timestamp[ns], duration[s]. */
static bool is_time(const char *text, fby_make_time *out)
{
    static const char *const KINDS[] = {"timestamp", "duration"};
    for (int k = 0; k < 2; k++)
        for (fby_unit unit = FBY_UNIT_S; unit <= FBY_UNIT_NS; unit++) {
            char word[24];
            (void)snprintf(word, sizeof word, "%s[%s]", KINDS[k], fby_unit_name(unit));
            if (strcmp(word, text) == 0) {
                *out = (fby_make_time){.is_duration = k == 1, .unit = unit};
                return true;
            }
        }
    return false;
}

/* A dtype; or a time in a unit, which is made. */
static fby_status read_dtype(const fby__reading *r, const char *where, output_forms *f, bool *out_time)
{
    static const fby__key key = FBY__KEY("dtype", FBY__WANT_DTYPE, output_forms, o.dtype);
    fby_make_time time;
    *out_time = f->dtype && f->dtype->kind == FBY_NODE_TEXT && is_time(f->dtype->text, &time);
    if (!*out_time)
        return f->dtype ? fby__read_value(r, f->dtype, where, &key, f) : FBY_OK;
    fby_make *make = fby__reading_alloc(r, 1, sizeof *make);
    if (!make)
        return FBY_E_NOMEM;
    *make = (fby_make){.kind = FBY_MAKE_TIME, .time = time};
    f->o.make = make;
    return FBY_OK;
}

static fby_status read_columns(const fby__reading *r, const fby_node *node, const char *where, fby_output *o)
{
    o->keep_axis = node->kind == FBY_NODE_LIST;
    char what[160];
    (void)snprintf(what, sizeof what, "%.100s: columns", where);
    FBY__TRY(fby__read_texts(r, node, what, &o->columns, &o->n_columns));
    if (o->n_columns == 0)
        return fby__node_fail(r, node, "%s: columns: at least one is needed", where);
    return FBY_OK;
}

static fby_status read_steps(const fby__reading *r, const output_forms *f, const char *where, fby_output *o)
{
    if ((f->steps != NULL) + (f->at != NULL) + f->first > 1)
        return fby__node_fail(r, f->steps ? f->steps : f->at, "%s: steps, at and first exclude each other", where);
    if (f->steps) {
        char what[160];
        (void)snprintf(what, sizeof what, "%.100s: steps", where);
        if (f->steps->kind != FBY_NODE_LIST || f->steps->n != 2)
            return fby__node_fail(r, f->steps, "%s: [begin, end] is expected, rows of a window from begin up to, not with, end", what);
        FBY__TRY(fby__read_u64(r, f->steps->items[0], what, 0, INT64_MAX, &o->step_begin));
        FBY__TRY(fby__read_u64(r, f->steps->items[1], what, o->step_begin + 1, INT64_MAX, &o->step_end));
    }
    o->one_step = f->at || f->first;
    if (f->at)
        FBY__TRY(fby__read_u64(r, f->at, where, 0, INT64_MAX, &o->step_begin));
    return FBY_OK;
}

static fby_status read_reshape(const fby__reading *r, const fby_node *node, const char *where, fby_output *o)
{
    if (node->kind != FBY_NODE_LIST || node->n == 0)
        return fby__node_fail(r, node, "%s: reshape: a list of axes is expected, such as [128, 8] or [-1, 3]", where);
    int64_t *axes = fby__reading_alloc(r, node->n, sizeof *axes);
    if (!axes)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < node->n; i++) {
        if (node->items[i]->kind != FBY_NODE_INT || (node->items[i]->integer < 1 && node->items[i]->integer != -1))
            return fby__node_fail(r, node->items[i], "%s: reshape: an axis is a whole number above 0, one of them may be -1", where);
        axes[i] = node->items[i]->integer;
    }
    o->reshape = axes;
    o->n_reshape = node->n;
    return FBY_OK;
}

/* A name of the section lookups. */
static fby_status need_lookup(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *where, output_forms *f)
{
    fby_make *make = fby__reading_alloc(r, 1, sizeof *make);
    if (!make)
        return FBY_E_NOMEM;
    if (!fby__find_lookup(p, f->lookup))
        return fby__node_fail(r, node, "%s: there is no lookup '%.60s' in the section lookups", where, f->lookup);
    fby__need need = {
        .kind = FBY__NEED_COLUMNS, .node = node, .name = f->lookup, .output = &f->o, .make = make, .all_columns = !f->columns};
    if (f->columns) {
        make->lookup.keep_axis = f->columns->kind == FBY_NODE_LIST;
        FBY__TRY(fby__read_texts(r, f->columns, where, &need.columns, &need.n_columns));
    }
    f->o.columns = f->on;
    f->o.n_columns = f->n_on;
    make->kind = FBY_MAKE_LOOKUP;
    make->lookup.has_default = f->has_default;
    make->lookup.default_value = f->fallback;
    f->o.make = make;
    return fby__add_need(p, r, need) ? FBY_OK : FBY_E_NOMEM;
}

typedef struct standardize_forms {
    const char *moments, *table, *by;
    fby_make_standardize m;
} standardize_forms;

static const fby__key standardize_keys[] = {
    FBY__KEY("moments", FBY__WANT_TEXT, standardize_forms, moments),
    FBY__KEY("table", FBY__WANT_TEXT, standardize_forms, table),
    FBY__KEY("by", FBY__WANT_TEXT, standardize_forms, by),
    FBY__KEY_END,
};

/*
 * By moments of groups, or by a lookup that has for each column its mean, then for each its std. The output's columns, then the key; the table
 * of moments is brought into the columns' order when it is there.
 */
static fby_status need_group_moments(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *where, output_forms *f)
{
    standardize_forms s = {.moments = node->kind == FBY_NODE_TEXT ? node->text : NULL};
    fby__key keys[FBY__MAX_KEYS];
    if (!s.moments)
        FBY__TRY(fby__read_map(r, node, where,
                               fby__option_keys(FBY_OPTIONS_MAKE_STANDARDIZE, offsetof(standardize_forms, m), standardize_keys, keys), &s));
    const fby__moments_spec *moments = s.moments ? fby__find_moments(p, s.moments) : NULL;
    if ((s.moments != NULL) == (s.table != NULL))
        return fby__node_fail(r, node, "%s: standardize: one of moments and table is needed", where);
    if (s.table && (!fby__find_lookup(p, s.table) || !s.by))
        return fby__node_fail(r, node,
                              s.by ? "%s: there is no lookup '%.60s' in the section lookups"
                                   : "%s: by is missing: the column whose value is looked up in '%.60s'",
                              where, s.table);
    if (s.moments && !moments)
        return fby__no_moments(p, r, node, where, s.moments);
    if (moments && !moments->by)
        return fby__node_fail(r, node,
                              "%s: the moments '%.60s' are of no groups: standardize with them among the ops: ops: [standardize: %.60s]",
                              where, s.moments, s.moments);
    fby_make *make = fby__reading_alloc(r, 1, sizeof *make);
    const char **columns = fby__reading_alloc(r, f->o.n_columns + 1, sizeof *columns);
    if (!make || !columns)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < f->o.n_columns; i++)
        columns[i] = f->o.columns[i];
    columns[f->o.n_columns] = s.by || !moments ? s.by : moments->by;
    make->kind = FBY_MAKE_STANDARDIZE;
    make->standardize = s.m;
    fby__need need = {.kind = moments ? FBY__NEED_GROUP_MOMENTS : FBY__NEED_SCALES,
                      .node = node,
                      .name = moments ? s.moments : s.table,
                      .make = make,
                      .columns = columns,
                      .n_columns = f->o.n_columns};
    f->o.columns = columns;
    f->o.n_columns++;
    f->o.make = make;
    return fby__add_need(p, r, need) ? FBY_OK : FBY_E_NOMEM;
}

static bool takes_columns(fby_source_kind from) { return from == FBY_FROM_COLUMNS || fby_source_is_mask(from); }

/* The makes' words for a message: "bits, one_hot, …". */
static const char *list_makes(char buffer[200])
{
    size_t n = 0;
    for (int kind = FBY_MAKE_NONE + 1; kind < FBY__N_MAKES; kind++)
        if (kind != FBY_MAKE_TIME)
            n += (size_t)snprintf(buffer + n, 200 - n, "%s%s", n ? ", " : "", fby__make_words[kind]);
    return buffer;
}

static fby_status read_made(fby_pipeline *p, const fby__reading *r, const fby_node *node, const char *where, output_forms *f)
{
    bool is_made_time = false;
    FBY__TRY(read_dtype(r, where, f, &is_made_time));
    int n = is_made_time;
    fby_make_kind kind = FBY_MAKE_NONE;
    for (int i = 0; i < FBY__N_MAKES; i++) {
        if (f->makes[i]) {
            n++;
            kind = (fby_make_kind)i;
        }
    }
    if (n > 1) {
        char words[200];
        return fby__node_fail(r, node, "%s: it is made in two ways at once: one of %s and a dtype of times is possible", where,
                              list_makes(words));
    }
    if (f->on && !f->lookup)
        return fby__node_fail(r, node, "%s: on is the column of a lookup's key, and no lookup is named", where);
    if (f->has_default && !f->lookup)
        return fby__node_fail(r, node, "%s: default is for keys that a lookup has not, and no lookup is named", where);
    if (f->lookup && f->n_on == 0)
        return fby__node_fail(r, node, "%s: on is missing: the column whose value is looked up in '%.60s'", where, f->lookup);
    switch (kind) {
    case FBY_MAKE_NONE: return FBY_OK;
    case FBY_MAKE_LOOKUP: return need_lookup(p, r, f->makes[kind], where, f);
    case FBY_MAKE_STANDARDIZE: return need_group_moments(p, r, f->makes[kind], where, f);
    default: return fby__read_make(p, r, f->makes[kind], kind, where, &f->o);
    }
}

/* ragged and padded: true, or a map. */
static fby_status read_layout(const fby__reading *r, const char *where, output_forms *f)
{
    if (f->ragged && f->padded)
        return fby__node_fail(r, f->padded, "%s: ragged and padded exclude each other", where);
    const fby_node *node = f->ragged ? f->ragged : f->padded;
    if (!node)
        return FBY_OK;
    const fby_layout layout = f->ragged ? FBY_LAYOUT_RAGGED : FBY_LAYOUT_PADDED;
    if (f->o.layout != FBY_LAYOUT_AUTO && f->o.layout != layout)
        return fby__node_fail(r, node, "%s: %s, and another layout", where, fby__layout_words[layout]);
    fby__key keys[FBY__MAX_KEYS];
    if (node->kind != FBY_NODE_BOOL || !node->boolean)
        FBY__TRY(
            fby__read_map(r, node, where, fby__option_keys(f->ragged ? FBY_OPTIONS_RAGGED : FBY_OPTIONS_PADDED, 0, NULL, keys), &f->o));
    if (f->o.pad_to_max && !f->o.max_rows)
        return fby__node_fail(r, node, "%s: to_max needs max_rows, the length", where);
    f->o.layout = layout;
    return FBY_OK;
}

static fby_status read_output(fby_pipeline *p, const fby__reading *r, const fby_node *name, const fby_node *node, fby_output *out)
{
    output_forms f = {.o.name = name->text};
    char where[120];
    (void)snprintf(where, sizeof where, "output '%.80s'", name->text);
    if (node->kind == FBY_NODE_TEXT || node->kind == FBY_NODE_LIST) { /* a column, or a list of them */
        FBY__TRY(read_columns(r, node, where, &f.o));
        *out = f.o;
        return FBY_OK;
    }
    if (node->kind != FBY_NODE_MAP) {
        char found[80];
        return fby__node_fail(r, node, "%s: a column, a list of columns, or a map is expected, not %s", where, fby__node_text(node, found));
    }
    static const fby__key name_of_lookup = FBY__KEY("lookup", FBY__WANT_TEXT, output_forms, lookup);
    fby__key keys[FBY__MAX_KEYS];
    FBY__TRY(fby__read_map(r, node, where, output_keys(keys), &f));
    if (f.makes[FBY_MAKE_LOOKUP])
        FBY__TRY(fby__read_value(r, f.makes[FBY_MAKE_LOOKUP], where, &name_of_lookup, &f));
    bool own_columns = f.columns && !f.lookup;
    if (own_columns)
        FBY__TRY(read_columns(r, f.columns, where, &f.o));
    if (takes_columns(f.o.from) ? !own_columns && !f.lookup : f.columns != NULL)
        return fby__node_fail(
            r, node, takes_columns(f.o.from) ? "%s: columns is missing" : "%s: it is of no columns: from says what it holds", where);
    if ((f.o.from == FBY_FROM_LIT) != f.has_value)
        return fby__node_fail(r, node, f.has_value ? "%s: value is of literals alone (from: lit)" : "%s: a literal needs value", where);
    FBY__TRY(read_steps(r, &f, where, &f.o));
    FBY__TRY(read_made(p, r, node, where, &f));
    FBY__TRY(read_layout(r, where, &f));
    if (f.ops && f.column_ops)
        return fby__node_fail(r, f.ops, "%s: ops are of all columns, column_ops of each: give one of them", where);
    *out = f.o;
    for (fby__need *need = p->needs; need; need = need->next)
        if (need->output == &f.o)
            need->output = out;
    if (f.ops)
        FBY__TRY(fby__read_ops(p, r, f.ops, where, out, out->columns, out->n_columns, &out->ops, &out->n_ops));
    if (f.column_ops)
        FBY__TRY(read_column_ops(p, r, f.column_ops, where, out));
    if (f.reshape)
        FBY__TRY(read_reshape(r, f.reshape, where, out));
    return f.after ? fby__read_after(r, f.after, where, out) : FBY_OK;
}

fby_status fby__read_outputs(fby_pipeline *p, const fby__reading *r, const fby_node *node)
{
    char found[80];
    if (node->kind != FBY_NODE_MAP || node->n == 0)
        return fby__node_fail(r, node, "outputs: a map of names to columns is expected, not %s",
                              node->kind == FBY_NODE_MAP ? "an empty one" : fby__node_text(node, found));
    p->outputs = fby__reading_alloc(r, node->n, sizeof *p->outputs);
    p->output_nodes = fby__reading_alloc(r, node->n, sizeof *p->output_nodes);
    if (!p->outputs || !p->output_nodes)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < node->n; i++) {
        p->output_nodes[i] = node->keys[i];
        FBY__TRY(read_output(p, r, node->keys[i], node->items[i], &p->outputs[i]));
    }
    p->n_outputs = node->n;
    return FBY_OK;
}
