/* Choices, in the sections samples and splits: some of the samples, or some more than once. */
#include "pipeline/pipeline_internal.h"

#include "base/iso_time.h"

#include <math.h>
#include <string.h>

/* --- values to compare with ------------------------------------------------------------------------------------------------------- */

fby_status fby__read_values(const fby__reading *r, const fby_node *node, const char *where, fby_values *out)
{
    const fby_node *const *items = node->kind == FBY_NODE_LIST ? node->items : &node;
    size_t n = node->kind == FBY_NODE_LIST ? node->n : 1;
    char found[80];
    if (n == 0)
        return fby__node_fail(r, node, "%s: at least one value is needed", where);
    bool texts = items[0]->kind == FBY_NODE_TEXT;
    const char **text = texts ? fby__reading_alloc(r, n, sizeof *text) : NULL;
    int64_t *number = texts ? NULL : fby__reading_alloc(r, n, sizeof *number);
    if (!text && !number)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const fby_node *item = items[i];
        bool whole = item->kind == FBY_NODE_INT || item->kind == FBY_NODE_BOOL;
        if (texts ? item->kind != FBY_NODE_TEXT : !whole)
            return fby__node_fail(r, item, "%s: whole numbers or texts are expected, all of one kind, not %s", where,
                                  fby__node_text(item, found));
        if (texts)
            text[i] = item->text;
        else
            number[i] = item->kind == FBY_NODE_BOOL ? item->boolean : item->integer;
    }
    *out = (fby_values){.texts = text, .numbers = number, .n = n};
    return FBY_OK;
}

static fby_status read_bound(const fby__reading *r, const fby_node *node, const char *where, fby_bound *out)
{
    if (!node)
        return FBY_OK;
    out->given = true;
    if (node->kind == FBY_NODE_TEXT) { /* which column it is of, and whether that holds dates, is seen when the samples are opened */
        fby__iso_time t;
        out->text = node->text;
        if (fby__iso_time_parse((const uint8_t *)node->text, strlen(node->text), &t))
            return FBY_OK;
        return fby__node_fail(r, node, "%s: a number, or a date (2001-01-31, 2001-01-31T12:30) is expected, not the text '%.60s'", where,
                              node->text);
    }
    out->is_real = node->kind != FBY_NODE_INT;
    out->number = node->kind == FBY_NODE_INT ? node->integer : 0;
    return fby__read_double(r, node, where, &out->real);
}

/* --- choices: some of the samples, or some more than once ------------------------------------------------------------------------------ */

typedef struct choice_forms {
    fby__sample_choice *choice;
    const fby_node *values, *low, *high, *table, *factors, *weights, *class_weights, *n;
    fby_select_opts select;
    fby_oversample_opts oversample;
    fby_resample_opts resample;
    double fraction;
    bool random;
    int unknown; /* 1: ignored */
    uint64_t seed;
} choice_forms;

const char *const fby__unknown_names[] = {"error", "ignore", NULL};

static const fby__key select_keys[] = {
    FBY__KEY("values", FBY__WANT_NODE, choice_forms, values), FBY__KEY("low", FBY__WANT_NODE, choice_forms, low),
    FBY__KEY("high", FBY__WANT_NODE, choice_forms, high),     FBY__KEY_CHOICE("unknown", choice_forms, unknown, fby__unknown_names),
    FBY__KEY("table", FBY__WANT_NODE, choice_forms, table),   FBY__KEY_END,
};
static const fby__key limit_keys[] = {
    FBY__KEY("n", FBY__WANT_NODE, choice_forms, n),
    FBY__KEY("fraction", FBY__WANT_DOUBLE, choice_forms, fraction),
    FBY__KEY("random", FBY__WANT_BOOL, choice_forms, random),
    FBY__KEY("seed", FBY__WANT_U64, choice_forms, seed),
    FBY__KEY_END,
};
static const fby__key oversample_keys[] = {
    FBY__KEY("values", FBY__WANT_NODE, choice_forms, values),
    FBY__KEY("factors", FBY__WANT_NODE, choice_forms, factors),
    FBY__KEY_CHOICE("unknown", choice_forms, unknown, fby__unknown_names),
    FBY__KEY_END,
};
static const fby__key resample_keys[] = {
    FBY__KEY("values", FBY__WANT_NODE, choice_forms, values),
    FBY__KEY("class_weights", FBY__WANT_NODE, choice_forms, class_weights),
    FBY__KEY_END,
};

static fby_status read_select(const fby__reading *r, const fby_node *node, fby__sample_choice *choice)
{
    choice_forms forms = {.select = {.size = sizeof forms.select}};
    fby__key keys[FBY__MAX_KEYS];
    FBY__TRY(
        fby__read_map(r, node, "select", fby__option_keys(FBY_OPTIONS_SELECT, offsetof(choice_forms, select), select_keys, keys), &forms));
    forms.select.ignore_unknown = forms.unknown;
    if (forms.values)
        FBY__TRY(fby__read_values(r, forms.values, "select: values", &forms.select.values));
    FBY__TRY(read_bound(r, forms.low, "select: low", &forms.select.low));
    FBY__TRY(read_bound(r, forms.high, "select: high", &forms.select.high));
    if (forms.values && (forms.low || forms.high))
        return fby__node_fail(r, node, "select: values or bounds (low, high) are given, not both");
    if (!forms.values && !forms.low && !forms.high && !forms.table)
        return fby__node_fail(r, node, "select: values, or low and high, or a table say what is chosen");
    if (forms.table) {
        choice->has_table = true;
        FBY__TRY(fby__read_source(r, forms.table, "select: table", NULL, NULL, &choice->table));
        if (choice->table.n_sources == 0)
            return fby__node_fail(r, forms.table, "select: table: paths is missing");
    }
    choice->select = forms.select;
    return FBY_OK;
}

static fby_status read_limit(const fby__reading *r, const fby_node *node, fby__sample_choice *choice)
{
    choice_forms forms = {0};
    const fby_node *n = node;
    if (node->kind == FBY_NODE_MAP) {
        FBY__TRY(fby__read_map(r, node, "limit", limit_keys, &forms));
        n = forms.n;
        if ((n != NULL) == (forms.fraction != 0))
            return fby__node_fail(r, node, "limit: one of n and fraction is needed");
    } else if (node->kind == FBY_NODE_FLOAT) {
        forms.fraction = node->number;
        n = NULL;
    }
    if (n)
        FBY__TRY(fby__read_u64(r, n, "limit: n", 1, UINT64_MAX, &choice->limit));
    else if (!(forms.fraction > 0 && forms.fraction <= 1))
        return fby__node_fail(r, node, "limit: a fraction is above 0 and at most 1");
    choice->fraction = forms.fraction;
    choice->random = forms.random;
    choice->seed = forms.seed;
    return FBY_OK;
}

static fby_status read_oversample(const fby__reading *r, const fby_node *node, fby__sample_choice *choice)
{
    choice_forms forms = {.oversample = {.size = sizeof forms.oversample}};
    fby__key keys[FBY__MAX_KEYS];
    FBY__TRY(fby__read_map(r, node, "oversample",
                           fby__option_keys(FBY_OPTIONS_OVERSAMPLE, offsetof(choice_forms, oversample), oversample_keys, keys), &forms));
    if (!forms.values || !forms.factors)
        return fby__node_fail(r, node, "oversample: values (classes) and factors (how often each) are needed");
    forms.oversample.ignore_unknown = forms.unknown;
    FBY__TRY(fby__read_values(r, forms.values, "oversample: values", &forms.oversample.values));
    const fby_node *const *items = forms.factors->kind == FBY_NODE_LIST ? forms.factors->items : &forms.factors;
    size_t n = forms.factors->kind == FBY_NODE_LIST ? forms.factors->n : 1;
    if (n != forms.oversample.values.n)
        return fby__node_fail(r, forms.factors, "oversample: %zu factors for %zu values", n, forms.oversample.values.n);
    uint32_t *factors = fby__reading_alloc(r, n, sizeof *factors);
    for (size_t i = 0; factors && i < n; i++) {
        uint64_t factor = 0;
        FBY__TRY(fby__read_u64(r, items[i], "oversample: factors", 0, 65535, &factor));
        factors[i] = (uint32_t)factor;
    }
    forms.oversample.factors = factors;
    choice->oversample = forms.oversample;
    return factors ? FBY_OK : FBY_E_NOMEM;
}

static fby_status read_resample(const fby__reading *r, const fby_node *node, fby__sample_choice *choice)
{
    choice_forms forms = {.resample = {.size = sizeof forms.resample}};
    size_t n = 0;
    fby__key keys[FBY__MAX_KEYS];
    FBY__TRY(fby__read_map(r, node, "resample",
                           fby__option_keys(FBY_OPTIONS_RESAMPLE, offsetof(choice_forms, resample), resample_keys, keys), &forms));
    if ((forms.values != NULL) != (forms.class_weights != NULL))
        return fby__node_fail(r, node,
                              "resample: values (classes) and class_weights go together; without them the column holds the weights");
    if (forms.values) {
        FBY__TRY(fby__read_values(r, forms.values, "resample: values", &forms.resample.values));
        FBY__TRY(fby__read_doubles(r, forms.class_weights, "resample: class_weights", &forms.resample.class_weights, &n));
        if (n != forms.resample.values.n)
            return fby__node_fail(r, forms.class_weights, "resample: %zu class_weights for %zu values", n, forms.resample.values.n);
    }
    choice->resample = forms.resample;
    return FBY_OK;
}

static fby_status read_take(const fby__reading *r, const fby_node *node, fby__sample_choice *choice)
{
    if (node->kind != FBY_NODE_LIST || node->n == 0)
        return fby__node_fail(r, node, "take: a list of the numbers of samples is expected, such as [0, 5, 7]");
    choice->n_taken = node->n;
    if (!(choice->taken = fby__reading_alloc(r, node->n, sizeof *choice->taken)))
        return FBY_E_NOMEM;
    for (size_t i = 0; i < node->n; i++)
        FBY__TRY(fby__read_u64(r, node->items[i], "take", 0, INT64_MAX, &choice->taken[i]));
    return FBY_OK;
}

static const char *const choice_names[] = {"select", "limit", "take", "oversample", "resample", NULL};

static int choice_of(const char *name)
{
    for (int i = 0; choice_names[i]; i++)
        if (strcmp(choice_names[i], name) == 0)
            return i;
    return -1;
}

fby_status fby__read_choices(const fby__reading *r, const fby_node *map, fby__sample_choice **out)
{
    for (size_t i = 0; i < map->n; i++) {
        const fby_node *value = map->items[i];
        int kind = choice_of(map->keys[i]->text);
        if (kind < 0 || value->kind == FBY_NODE_NULL)
            continue;
        bool several = kind == FBY__CHOICE_SELECT && value->kind == FBY_NODE_LIST;
        for (size_t k = 0; k < (several ? value->n : 1); k++) {
            const fby_node *node = several ? value->items[k] : value;
            fby__sample_choice *choice = fby__reading_alloc(r, 1, sizeof *choice);
            if (!choice)
                return FBY_E_NOMEM;
            choice->kind = (fby__choice_kind)kind;
            choice->node = node;
            switch (choice->kind) {
            case FBY__CHOICE_SELECT: FBY__TRY(read_select(r, node, choice)); break;
            case FBY__CHOICE_LIMIT: FBY__TRY(read_limit(r, node, choice)); break;
            case FBY__CHOICE_TAKE: FBY__TRY(read_take(r, node, choice)); break;
            case FBY__CHOICE_OVERSAMPLE: FBY__TRY(read_oversample(r, node, choice)); break;
            case FBY__CHOICE_RESAMPLE: FBY__TRY(read_resample(r, node, choice)); break;
            }
            *out = choice;
            out = &choice->next;
        }
    }
    return FBY_OK;
}

/* --- running ------------------------------------------------------------------------------------------------------------------------- */

static fby_status run_choice(fby_pipeline *p, const fby__reading *r, fby__sample_choice *choice, fby_samples *from, fby_samples **out)
{
    fby_status status = FBY_OK;
    fby_dataset *table = NULL;
    switch (choice->kind) {
    case FBY__CHOICE_SELECT: {
        fby_select_opts opts = choice->select;
        if (choice->has_table)
            FBY__TRY(fby__open_source(p, r, &choice->table, "select: table", &table));
        opts.table = table;
        opts.progress = p->progress;
        opts.progress_user = p->progress_user;
        status = fby_samples_select(from, &opts, out, r->err);
        break;
    }
    case FBY__CHOICE_LIMIT: {
        uint64_t n = choice->limit;
        if (choice->fraction > 0) {
            n = (uint64_t)rint((double)fby_samples_count(from) *
                               choice->fraction); /* half to even, as Samples.limit() of the Python package */
            n = n ? n : 1;
        }
        status = fby_samples_limit(from, n, choice->random, choice->seed, out, r->err);
        break;
    }
    case FBY__CHOICE_TAKE: status = fby_samples_take(from, choice->taken, choice->n_taken, out, r->err); break;
    case FBY__CHOICE_OVERSAMPLE: status = fby_samples_oversample(from, &choice->oversample, out, r->err); break;
    case FBY__CHOICE_RESAMPLE: status = fby_samples_resample(from, &choice->resample, out, r->err); break;
    }
    fby_dataset_close(table);
    return status == FBY_OK ? FBY_OK : fby__node_context(r, choice->node, choice_names[choice->kind]);
}

fby_status fby__run_choices(fby_pipeline *p, const fby__reading *r, fby__sample_choice *choices, fby_samples **samples)
{
    for (; choices; choices = choices->next) {
        fby_samples *next = NULL;
        FBY__TRY(run_choice(p, r, choices, *samples, &next));
        fby_samples_close(*samples);
        *samples = next;
    }
    return FBY_OK;
}
