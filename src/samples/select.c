/* Choosing samples by the value of a column, of the data or of a side table. See fby_samples_select. */
#include "samples/values.h"

#include "base/alloc.h"
#include "base/sized.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- conditions ---- */

/* What is asked of a value: to be in a set, or between bounds. */
typedef struct condition {
    fby__value_set *set; /* borrowed; NULL = bounds */
    fby_bound low, high;
} condition;

/* Is a value below a bound? Whole numbers exactly; with fractions as float64. */
static bool is_below(const fby__value *v, const fby_bound *b)
{
    if (v->kind == FBY__VALUE_NUMBER && !b->is_real)
        return v->number < b->number;
    double x = v->kind == FBY__VALUE_NUMBER ? (double)v->number : v->real;
    return x < (b->is_real ? b->real : (double)b->number);
}

static bool satisfies(const condition *c, const fby__value *v)
{
    if (c->set)
        return fby__value_set_find(c->set, v) != FBY__NO_VALUE;
    if (v->kind != FBY__VALUE_NUMBER && v->kind != FBY__VALUE_FLOAT)
        return false;
    return !(c->low.given && is_below(v, &c->low)) && (!c->high.given || is_below(v, &c->high));
}

static fby_status set_bound(const fby_bound *given, const fby__value_type *type, fby_bound *out, fby_error *err)
{
    *out = *given;
    if (given->given && type->is_text)
        return fby__fail(err, FBY_E_ARG, "'%s' holds strings: they are listed, low and high are about numbers", type->name);
    if (given->is_real && !given->text && given->real != given->real)
        return fby__fail(err, FBY_E_ARG, "low or high is not a number");
    if (!given->given)
        return FBY_OK;
    if (!given->text)
        return fby__value_refuse_undated(type, err);
    out->is_real = false;
    return fby__value_dated(type, given->text, &out->number, err);
}

/* What the options ask of a value of such a column; `set` is filled where values are listed, and the caller's to free. */
static fby_status condition_init(condition *c, const fby_select_opts *o, const fby_values *values, const fby__value_type *type,
                                 fby__value_set *set, fby_error *err)
{
    *c = (condition){.set = values->n ? set : NULL};
    if (values->n)
        return fby__value_set_init(set, values, false, type, err);
    FBY__TRY(set_bound(&o->low, type, &c->low, err));
    return set_bound(&o->high, type, &c->high, err);
}

static fby_status check_options(const fby_select_opts *o, fby_error *err)
{
    bool bounds = o->low.given || o->high.given, listed = o->values.n > 0;
    if (bounds && listed)
        return fby__fail(err, FBY_E_ARG, "give values, or low and high, not both");
    if (!o->table && (o->table_key || o->table_column))
        return fby__fail(err, FBY_E_ARG, "table_key and table_column are columns of a side table: give the table");
    if (!bounds && !listed && (!o->table || o->table_column))
        return fby__fail(err, FBY_E_ARG, "say which: list values (at least one), or give low or high");
    if ((bounds || listed) && o->table && !o->table_column)
        return fby__fail(err, FBY_E_ARG, "name the column of the side table that the values are about");
    return FBY_OK;
}

/* ---- choosing ---- */

typedef struct selecting {
    condition condition;
    bool exclude;
    fby__sample_counts counts;
} selecting;

static fby_status choose_sample(void *user, uint32_t b, uint64_t i, const fby__value *value, fby_error *err)
{
    selecting *s = user;
    return fby__sample_counts_put(&s->counts, b, i, satisfies(&s->condition, value) != s->exclude, err);
}

static fby_status choose_block(void *user, uint32_t b, fby_error *err)
{
    return fby__sample_counts_close(&((selecting *)user)->counts, b, err);
}

static fby_status select_where(const fby__sample_values *v, const condition *c, const fby_select_opts *o, bool ignore_unknown,
                               fby_samples **out, fby_error *err)
{
    char what[120];
    selecting s = {.condition = *c, .exclude = o->exclude};
    fby_status status = fby__sample_counts_init(&s.counts, v->s, err);
    if (status == FBY_OK)
        status = fby__sample_values_visit(v,
                                          &(fby__value_visit){.n_threads = o->n_threads,
                                                              .progress = o->progress,
                                                              .progress_user = o->progress_user,
                                                              .user = &s,
                                                              .visit = choose_sample,
                                                              .block = choose_block},
                                          err);
    if (status == FBY_OK && c->set && !ignore_unknown)
        status = fby__value_set_check_seen(c->set, v, err);
    (void)snprintf(what, sizeof what, "'%.100s'", v->name);
    if (status == FBY_OK)
        status = fby__sample_counts_choose(&s.counts, what, "", out, err);
    fby__sample_counts_fini(&s.counts);
    return status;
}

/* `of`: the side table's column that the values are of; NULL: the caller gave them. */
static fby_status select_values(const fby_samples *samples, const fby_select_opts *o, const fby_values *values, const fby_field *of,
                                fby_samples **out, fby_error *err)
{
    fby__sample_values v;
    fby__value_set set = {0};
    condition c;
    FBY__TRY(fby__sample_values_init(&v, samples, o->column, err));
    fby__value_type type = fby__sample_values_type(&v);
    type.counts = of != NULL;
    if (of && (values->texts != NULL) != type.is_text)
        return fby__fail(err, FBY_E_ARG,
                         "the key '%s' is %s in the data, and %s in the side table: cast one of them; dtypes state the type of a "
                         "CSV file's column: %s as str",
                         type.name, type.is_text ? "text" : "a number", type.is_text ? "a number" : "text", type.name);
    if (of && fby__value_unit_ns(type.field) != fby__value_unit_ns(of))
        return fby__fail(
            err, FBY_E_ARG,
            "the key '%s' holds dates or times in the data or in the side table, and in the other numbers or another unit: cast "
            "one of them",
            type.name);
    fby_status status = condition_init(&c, o, values, &type, &set, err);
    if (status == FBY_OK)
        status = select_where(&v, &c, o, of || o->ignore_unknown, out, err);
    fby__value_set_fini(&set);
    return status;
}

/* ---- side tables ---- */

enum { KEY, WHERE };

/* Keys of the side table whose row satisfies the condition. */
typedef struct keys {
    condition condition;
    fby__value_set set; /* of the condition */
    fby__read_column columns[2];
    uint32_t role[2];
    uint32_t n_columns;
    /* under lock */
    pthread_mutex_t lock;
    int64_t *numbers; /* owned */
    size_t n, cap;
    fby__buf text; /* owned: NUL-terminated, one after the other */
    bool is_text;
} keys;

typedef struct keys_local {
    fby__buf in; /* one byte a row */
} keys_local;

static void keys_local_fini(void *local) { fby__buf_fini(&((keys_local *)local)->in); }

static fby_status mark_rows(keys *k, keys_local *w, const fby__scan_rows *rows, const fby__read_column *c, const fby__panel *panel,
                            const char *constant, fby_error *err)
{
    w->in.n = 0;
    if (fby__grow((void **)&w->in.data, &w->in.cap, (size_t)rows->n, 1) != 0)
        return fby__fail_nomem(err, "the side table");
    for (uint64_t r = 0; r < rows->n; r++) {
        fby__value v = c ? fby__value_at(c, panel, constant, r) : (fby__value){.kind = FBY__VALUE_MISSING};
        w->in.data[r] = !c || satisfies(&k->condition, &v);
    }
    return FBY_OK;
}

static fby_status add_key_locked(keys *k, const fby__value *v, fby_error *err)
{
    int64_t number = v->number;
    if (v->kind == FBY__VALUE_MISSING)
        return FBY_OK;
    if (v->kind == FBY__VALUE_FLOAT && !(v->real >= -9e15 && v->real <= 9e15 && (double)(int64_t)v->real == v->real))
        return fby__fail(err, FBY_E_DATA, "the side table's '%s' holds %g: a key is a whole number or a string",
                         k->columns[k->n_columns - 1].in.path, v->real);
    if (v->kind == FBY__VALUE_FLOAT)
        number = (int64_t)v->real;
    if (v->kind == FBY__VALUE_TEXT && memchr(v->text, 0, v->n))
        return FBY_OK; /* no key that can be compared holds a NUL */
    if (fby__grow((void **)&k->numbers, &k->cap, k->n + 1, sizeof *k->numbers) != 0)
        return fby__fail_nomem(err, "the side table");
    if (v->kind == FBY__VALUE_TEXT) {
        number = (int64_t)k->text.n;
        if (fby__buf_put(&k->text, v->text, v->n) != 0 || fby__buf_put(&k->text, "", 1) != 0)
            return fby__fail_nomem(err, "the side table");
    }
    k->numbers[k->n++] = number;
    return FBY_OK;
}

static fby_status visit_column(void *user, void *local, const fby__scan_rows *rows, uint32_t number, const fby__panel *panel,
                               const char *constant, fby_error *err)
{
    keys *k = user;
    keys_local *w = local;
    const fby__read_column *c = &k->columns[number];
    fby_status status = FBY_OK;
    if (k->role[number] == WHERE)
        return mark_rows(k, w, rows, c, panel, constant, err);
    if (number == 0)
        FBY__TRY(mark_rows(k, w, rows, NULL, NULL, NULL, err));
    pthread_mutex_lock(&k->lock);
    for (uint64_t r = 0; r < rows->n && status == FBY_OK; r++) {
        if (!w->in.data[r])
            continue;
        fby__value v = fby__value_at(c, panel, constant, r);
        status = add_key_locked(k, &v, err);
    }
    pthread_mutex_unlock(&k->lock);
    return status;
}

/* The columns of the table, and the condition on one of them. */
static fby_status add_table_columns(keys *k, const fby_select_opts *o, const char *key, fby_error *err)
{
    if (o->table_column) {
        fby__read_column *where = &k->columns[k->n_columns];
        FBY__TRY(fby__read_column_init(where, o->table, FBY__READ_VALUE, o->table_column, err));
        k->role[k->n_columns++] = WHERE;
        fby__value_type type = fby__read_column_type(where);
        FBY__TRY(condition_init(&k->condition, o, &o->values, &type, &k->set, err));
    }
    fby__read_column *column = &k->columns[k->n_columns];
    FBY__TRY(fby__read_column_init(column, o->table, FBY__READ_VALUE, key, err));
    k->role[k->n_columns++] = KEY;
    k->is_text = fby__read_column_is_text(column);
    return FBY_OK;
}

static fby_status read_keys(keys *k, const fby_select_opts *o, const char *key, fby_error *err)
{
    fby_status status = add_table_columns(k, o, key, err);
    if (status == FBY_OK)
        status = fby__read_columns(&(fby__column_reader){.ds = o->table,
                                                         .columns = k->columns,
                                                         .n_columns = k->n_columns,
                                                         .n_threads = o->n_threads,
                                                         .user = k,
                                                         .local_bytes = sizeof(keys_local),
                                                         .column = visit_column,
                                                         .fini = keys_local_fini},
                                   err);
    if (status != FBY_OK)
        fby__error_context(err, "the side table");
    else if (k->n == 0)
        return fby__fail(err, FBY_E_ARG, "the side table: no row of '%s' is as asked for", o->table_column ? o->table_column : key);
    return status;
}

static fby_status select_keys(const fby_samples *samples, const fby_select_opts *o, const keys *k, fby_samples **out, fby_error *err)
{
    fby_values values = {.numbers = k->numbers, .n = k->n};
    const char **texts = NULL;
    fby_select_opts by_key = *o;
    if (k->is_text) {
        texts = fby__calloc(k->n, sizeof *texts);
        if (!texts)
            return fby__fail_nomem(err, "the side table");
        for (size_t i = 0; i < k->n; i++)
            texts[i] = (const char *)k->text.data + k->numbers[i];
        values = (fby_values){.texts = texts, .n = k->n};
    }
    by_key.low = by_key.high = (fby_bound){0};
    fby_status status = select_values(samples, &by_key, &values, k->columns[k->n_columns - 1].in.field, out, err);
    fby__free((void *)texts);
    return status;
}

static fby_status select_by_table(const fby_samples *samples, const fby_select_opts *o, fby_samples **out, fby_error *err)
{
    const char *key = o->table_key ? o->table_key : o->column ? o->column : samples->base->key;
    keys k = {0};
    if (!key || (!o->column && samples->base->n_more_keys))
        return fby__fail(err, FBY_E_ARG, "name the column that holds the samples' keys, and that of the side table");
    pthread_mutex_init(&k.lock, NULL);
    fby_status status = read_keys(&k, o, key, err);
    if (status == FBY_OK)
        status = select_keys(samples, o, &k, out, err);
    fby__value_set_fini(&k.set);
    fby__free(k.numbers);
    fby__buf_fini(&k.text);
    pthread_mutex_destroy(&k.lock);
    return status;
}

/* All that the result depends on. */
static fby__choice_key key_of(const fby_samples *samples, const fby_select_opts *o)
{
    fby__choice_key k = fby__choice_key_of(samples, "select");
    const fby_bound *bounds[] = {&o->low, &o->high};
    const bool flags[] = {o->exclude, o->ignore_unknown};
    fby__choice_key_text(&k, o->column);
    fby__choice_key_values(&k, &o->values);
    for (int i = 0; i < 2; i++) {
        const bool how[] = {bounds[i]->given, bounds[i]->is_real};
        fby__choice_key_bytes(&k, how, sizeof how);
        fby__choice_key_bytes(&k, &bounds[i]->number, sizeof bounds[i]->number);
        fby__choice_key_bytes(&k, &bounds[i]->real, sizeof bounds[i]->real);
        fby__choice_key_text(&k, bounds[i]->text);
    }
    fby__choice_key_bytes(&k, flags, sizeof flags);
    fby__choice_key_table(&k, o->table);
    fby__choice_key_text(&k, o->table_key);
    fby__choice_key_text(&k, o->table_column);
    return k;
}

fby_status fby_samples_select(const fby_samples *samples, const fby_select_opts *given, fby_samples **out, fby_error *err)
{
    fby_select_opts full;
    const fby_select_opts *opts = &full;
    bool found;
    FBY__TRY(FBY__SIZED_IN(fby_select_opts, values, given, &full, err));
    FBY__TRY(check_options(opts, err));
    FBY__TRY(fby__samples_refuse_drawn(samples, "select", err));
    fby__choice_key key = key_of(samples, opts);
    FBY__TRY(fby__choice_load(&key, samples, out, &found, err));
    if (found)
        return FBY_OK;
    fby__account_scope scope;
    FBY__TRY(fby__samples_choosing_begin(&scope, samples, err));
    fby_status status =
        opts->table ? select_by_table(samples, opts, out, err) : select_values(samples, opts, &opts->values, NULL, out, err);
    FBY__TRY(fby__samples_choosing_end(&scope, samples, status, err));
    fby__choice_store(&key, *out);
    return FBY_OK;
}
