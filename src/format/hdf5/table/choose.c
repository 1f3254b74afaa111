/*
 * Which data sets of a file are one table.
 *
 *     candidates   every data set that could be a column (candidates.c)
 *     tables       candidates of one length along the row axis (with `axes`: of the same leading dims)
 *     the table    the one that `table` names, else the one with most decoded bytes; ties go to the first path
 *
 * With `axes`, data sets of fewer dimensions that are the first of the table's join it: one stored value serves a run of rows.
 */
#include "format/hdf5/table/table_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define LISTED 6 /* tables that a message names */

/* ---- tables ---- */

/* Candidates that were sorted by their row dims: one run is one table. */
typedef struct found_table {
    size_t begin, end;
    uint64_t decoded_bytes;
    uint32_t largest; /* candidate */
} found_table;

typedef struct tables {
    const fby__h5_opening *o;
    uint32_t *order; /* owned: candidates with as many axes as wanted */
    size_t n;
    found_table *found; /* owned */
    size_t n_found;
} tables;

static int compare_dims(const fby__h5_candidate *a, const fby__h5_candidate *b)
{
    const uint64_t *x = a->object->space.dims + a->axis, *y = b->object->space.dims + b->axis;
    for (uint32_t i = 0; i < a->axes; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int compare_candidates(const void *x, const void *y, void *user)
{
    const fby__h5_candidate *all = user;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    int d = compare_dims(&all[a], &all[b]);
    return d ? d : (a > b) - (a < b);
}

static bool below(const char *path, const char *prefix, size_t n) { return n == 0 || (strncmp(path, prefix, n) == 0 && path[n] == '/'); }

static fby_status find_tables(const fby__h5_opening *o, const char *prefix, size_t prefix_n, tables *t, fby_error *err)
{
    uint32_t wanted = o->opts->axes > 1 ? (uint32_t)o->opts->axes : 1;
    *t = (tables){.o = o, .order = fby__malloc(o->n_candidates * sizeof *t->order)};
    t->found = fby__malloc(o->n_candidates * sizeof *t->found);
    if (!t->order || !t->found)
        return fby__fail_nomem(err, "the tables of a file");
    for (size_t i = 0; i < o->n_candidates; i++)
        if (o->candidates[i].axes == wanted && below(o->candidates[i].path, prefix, prefix_n))
            t->order[t->n++] = (uint32_t)i;
    qsort_r(t->order, t->n, sizeof *t->order, compare_candidates, o->candidates);
    for (size_t i = 0; i < t->n; i++) {
        const fby__h5_candidate *c = &o->candidates[t->order[i]];
        if (i == 0 || compare_dims(&o->candidates[t->order[i - 1]], c) != 0)
            t->found[t->n_found++] = (found_table){i, i, 0, t->order[i]};
        found_table *r = &t->found[t->n_found - 1];
        const fby__h5_candidate *most = &o->candidates[r->largest];
        if (c->decoded_bytes > most->decoded_bytes || (c->decoded_bytes == most->decoded_bytes && strcmp(c->path, most->path) < 0))
            r->largest = t->order[i];
        if (!fby__add_u64_checked(r->decoded_bytes, c->decoded_bytes, &r->decoded_bytes))
            r->decoded_bytes = UINT64_MAX;
        r->end = i + 1;
    }
    return FBY_OK;
}

static void tables_fini(tables *t)
{
    fby__free(t->order);
    fby__free(t->found);
}

/* Larger tables first; ties by path, so that the choice is a function of the file's content. */
static bool comes_before(const tables *t, const found_table *a, const found_table *b)
{
    if (a->decoded_bytes != b->decoded_bytes)
        return a->decoded_bytes > b->decoded_bytes;
    return strcmp(t->o->candidates[a->largest].path, t->o->candidates[b->largest].path) < 0;
}

static const found_table *largest_table(const tables *t, const found_table *after)
{
    const found_table *best = NULL;
    for (size_t i = 0; i < t->n_found; i++)
        if ((!best || comes_before(t, &t->found[i], best)) && (!after || comes_before(t, after, &t->found[i])))
            best = &t->found[i];
    return best;
}

/* "; its largest data set, 'x', has 2 axes (time, _)": of a file without a table along the axis that was asked for. */
static void describe_largest(fby__h5_opening *o, char *out, size_t n)
{
    uint64_t most = 0;
    fby__h5_candidate *largest = NULL;
    for (size_t i = 0; i < o->n_candidates; i++) {
        const fby__h5_space *space = &o->candidates[i].object->space;
        uint64_t elements = 1;
        for (uint32_t k = 0; k < space->rank; k++)
            elements = fby__h5_mul_capped(elements, space->dims[k]);
        if (!largest || elements > most) {
            largest = &o->candidates[i];
            most = elements;
        }
    }
    out[0] = 0;
    if (!largest || fby__h5_dims(o, largest, NULL) != FBY_OK)
        return;
    const uint32_t rank = largest->object->space.rank;
    int used = snprintf(out, n, "the largest data set, '%.100s', has %u ax%ss", largest->path + 1, rank, rank == 1 ? "i" : "e");
    bool named = false;
    for (uint32_t k = 0; k < rank; k++)
        named |= largest->dim_names[k] != NULL;
    for (uint32_t k = 0; used > 0 && (size_t)used < n && k < rank && named; k++)
        used += snprintf(out + used, n - (size_t)used, "%s%.60s%s", k ? ", " : " (", largest->dim_names[k] ? largest->dim_names[k] : "_",
                         k + 1 == rank ? ")" : "");
    if (!named && used > 0 && (size_t)used < n)
        (void)snprintf(out + used, n - (size_t)used, ", without names");
}

static fby_status fail_naming_tables(fby__h5_opening *o, const char *what, fby_error *err)
{
    tables t;
    fby_status st = find_tables(o, "", 0, &t, err);
    if (st == FBY_OK) {
        char text[600] = "";
        size_t n = 0, listed = 0;
        for (const found_table *r = largest_table(&t, NULL); r && listed < LISTED && n < sizeof text - 200;
             r = largest_table(&t, r), listed++) {
            const fby__h5_candidate *c = &o->candidates[r->largest];
            int k = snprintf(text + n, sizeof text - n, "%s'%.100s' (%zu data set%s of %llu rows)", listed ? ", " : "", c->path + 1,
                             r->end - r->begin, r->end - r->begin == 1 ? "" : "s", (unsigned long long)c->rows);
            n += k > 0 ? (size_t)k : 0;
        }
        if (!listed)
            describe_largest(o, text, sizeof text);
        st = fby__fail(err, FBY_E_SCHEMA, "%s; %s%s%s", what, listed ? "the tables of the file, by their largest data set: " : "", text,
                       listed < t.n_found ? ", …" : "");
    }
    tables_fini(&t);
    return st;
}

/* ---- the table that is named ---- */

typedef struct wanted {
    const fby__h5_candidate *set; /* a data set, or */
    const char *group;            /* a group's own path; "" = all. Arena or static */
    size_t group_n;
} wanted;

/* The own entry of what an entry leads to: names below a linked group are known by its own path. */
static const fby__h5_entry *own_entry(const fby__h5_opening *o, const fby__h5_entry *e)
{
    for (uint32_t i = 0; e->alias && i < o->tree.n; i++)
        if (!o->tree.entries[i].alias && o->tree.entries[i].object == e->object)
            return &o->tree.entries[i];
    return e;
}

static fby_status fail_passing(const fby__h5_opening *o, const struct fby__h5_left_out *left_out, fby_error *err)
{
    return fby__fail(err, FBY_E_IO, "%s: '%.200s': %.700s; put it there, or go without (missing_sources=\"fill\")", fby__file_path(o->file),
                     left_out->name, left_out->why);
}

/* Nothing of what was asked for is silently absent. */
static fby_status check_passing(const fby__h5_opening *o, fby_error *err)
{
    for (size_t i = 0; i < o->n_left_out; i++)
        if (o->left_out[i].passing && !o->left_out[i].elsewhere)
            return fail_passing(o, &o->left_out[i], err);
    return FBY_OK;
}

/* The path that a data set or group is known by; the name itself, with its slash, where it leads to nothing. NULL: no memory. */
static const char *own_path(fby__h5_opening *o, const char *name)
{
    const fby__h5_entry *e = fby__h5_tree_find(&o->tree, name);
    if (e && e->object)
        return own_entry(o, e)->path;
    const char *path = fby__h5_text(o, "/%s", name + strspn(name, "/"));
    const fby__h5_entry *seen = o->whole.n && path ? fby__h5_tree_find(&o->whole, path) : NULL;
    for (uint32_t i = 0; seen && seen->object && i < o->whole.n; i++) {
        const fby__h5_entry *other = &o->whole.entries[i];
        if (other->object != seen->object)
            continue;
        e = fby__h5_tree_find(&o->tree, other->path);
        if (e && e->object)
            return own_entry(o, e)->path;
        path = other->alias ? path : other->path;
    }
    return path;
}

static fby_status find_wanted(fby__h5_opening *o, wanted *out, fby_error *err)
{
    char what[400];
    const char *name = o->opts->table ? o->opts->table : "";
    while (*name == '/')
        name++;
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] == '/')
        n--;
    *out = (wanted){.group = ""};
    if (n == 0)
        return FBY_OK;
    const char *path = fby__h5_text(o, "/%.*s", (int)(n < 65536 ? n : 65536), name);
    if (!path || !(path = own_path(o, path)))
        return fby__fail_nomem(err, "the name of a table");
    const fby__h5_entry *e = fby__h5_tree_find(&o->tree, path);
    if (o->whole.n && (!e || !e->object))
        e = fby__h5_tree_find(&o->whole, path);
    if (e && e->object && e->object->kind == FBY__H5_GROUP) {
        out->group = path;
        out->group_n = path[1] ? strlen(path) : 0;
        return FBY_OK;
    }
    for (size_t i = 0; i < o->n_candidates && !out->set; i++)
        if (strcmp(o->candidates[i].path, path) == 0)
            out->set = &o->candidates[i];
    uint32_t axes = o->opts->axes > 1 ? (uint32_t)o->opts->axes : 1;
    if (out->set && out->set->axes == axes)
        return FBY_OK;
    for (size_t i = 0; i < o->n_left_out && !out->set; i++)
        if (strcmp(o->left_out[i].name, path + 1) == 0) {
            if (o->left_out[i].passing)
                return fail_passing(o, &o->left_out[i], err);
            (void)snprintf(what, sizeof what, "'%.100s' is left out: %.250s", name, o->left_out[i].why);
            return fail_naming_tables(o, what, err);
        }
    (void)snprintf(
        what, sizeof what,
        !e && !out->set ? "there is no data set or group '%.200s'" : "'%.200s' is no table: it has no such row axis, or no elements", name);
    return fail_naming_tables(o, what, err);
}

/* ---- choosing ---- */

/* Is a data set of fewer dims one value for a run of the table's rows? Not when its dimensions are known to be others. */
static fby_status joins_by_repeating(fby__h5_opening *o, fby__h5_candidate *c, const fby__h5_candidate *table, const char *const *names,
                                     bool *out, fby_error *err)
{
    const fby__h5_space *a = &c->object->space, *b = &table->object->space;
    *out = false;
    if (c->axes == 0 || c->axes >= table->axes || c->rows == 0)
        return FBY_OK;
    for (uint32_t i = 0; i < c->axes; i++)
        if (a->dims[i] != b->dims[i])
            return FBY_OK;
    FBY__TRY(fby__h5_dims(o, c, err));
    for (uint32_t i = 0; i < c->axes; i++)
        if (c->dim_names[i] && names[i] && strcmp(c->dim_names[i], names[i]) != 0)
            return FBY_OK;
    c->repeat = table->rows / c->rows;
    *out = true;
    return FBY_OK;
}

/* Names of the table's row dimensions, each from the first data set that has one. */
static fby_status row_names(fby__h5_opening *o, const tables *t, const found_table *r, const char **names, fby_error *err)
{
    uint32_t axes = o->candidates[r->largest].axes;
    memset(names, 0, axes * sizeof *names);
    for (size_t k = r->begin; axes > 1 && k < r->end; k++) {
        fby__h5_candidate *c = &o->candidates[t->order[k]];
        FBY__TRY(fby__h5_dims(o, c, err));
        for (uint32_t i = 0; i < axes; i++)
            names[i] = names[i] ? names[i] : c->dim_names[i];
    }
    return FBY_OK;
}

static fby_status list_sets(fby__h5_opening *o, const tables *t, const found_table *r, const wanted *w, fby__h5_choice *out, fby_error *err)
{
    const fby__h5_candidate *largest = &o->candidates[r->largest];
    const char *names[FBY__H5_MAX_RANK];
    FBY__TRY(row_names(o, t, r, names, err));
    out->sets = fby__arena_alloc(&o->arena, o->n_candidates * sizeof *out->sets);
    if (!out->sets)
        return fby__fail_nomem(err, "the columns of a table");
    size_t next = r->begin;
    for (size_t i = 0; i < o->n_candidates; i++) { /* the run is in the candidates' order */
        bool belongs = next < r->end && t->order[next] == i;
        if (belongs)
            next++;
        else if (below(o->candidates[i].path, w->group, w->group_n))
            FBY__TRY(joins_by_repeating(o, &o->candidates[i], largest, names, &belongs, err));
        if (belongs)
            out->sets[out->n++] = (uint32_t)i;
    }
    out->rows = largest->rows;
    out->name = largest->path;
    out->prefix = w->group_n + 1;
    return FBY_OK;
}

static fby_status list_others(fby__h5_opening *o, const found_table *chosen, fby__h5_choice *out, fby_error *err)
{
    tables all; /* those outside a named group too */
    fby_status st = find_tables(o, "", 0, &all, err);
    if (st == FBY_OK && !(out->others = fby__arena_alloc(&o->arena, FBY__H5_MAX_OTHERS * sizeof *out->others)))
        st = fby__fail_nomem(err, "the tables of a file");
    const found_table *r = st == FBY_OK ? largest_table(&all, NULL) : NULL;
    for (; r && out->n_others < FBY__H5_MAX_OTHERS; r = largest_table(&all, r)) {
        const fby__h5_candidate *c = &o->candidates[r->largest];
        if (compare_dims(c, &o->candidates[chosen->largest]) != 0)
            out->others[out->n_others++] = (struct fby__h5_other){c->path, c->rows, (uint32_t)(r->end - r->begin)};
    }
    tables_fini(&all);
    return st;
}

static fby_status choose(fby__h5_opening *o, const wanted *w, fby__h5_choice *out, fby_error *err)
{
    tables t;
    fby_status st = find_tables(o, w->group, w->group_n, &t, err);
    const found_table *r = st == FBY_OK ? largest_table(&t, NULL) : NULL;
    for (size_t i = 0; w->set && i < t.n_found; i++)
        if (compare_dims(&o->candidates[t.found[i].largest], w->set) == 0)
            r = &t.found[i];
    if (st == FBY_OK && !r) {
        char what[400];
        const fby__format_opts *opts = o->opts;
        if (w->group_n)
            (void)snprintf(what, sizeof what, "the group '%.200s' holds no table", w->group + 1);
        else if (opts->dimension)
            (void)snprintf(what, sizeof what, "no data set has a dimension '%.200s'", opts->dimension);
        else
            (void)snprintf(what, sizeof what, "no data set has %d axes",
                           opts->axes > 1    ? opts->axes
                           : opts->axis >= 0 ? opts->axis + 1
                                             : -opts->axis);
        st = fail_naming_tables(o, what, err);
    }
    if (st == FBY_OK)
        st = list_sets(o, &t, r, w, out, err);
    if (st == FBY_OK)
        st = list_others(o, r, out, err);
    tables_fini(&t);
    return st;
}

/* The one data set that was named, whatever its length; its column has its last name. */
static fby_status choose_single(fby__h5_opening *o, fby__h5_choice *out, fby_error *err)
{
    const char *name = o->opts->table;
    const char *path = own_path(o, name ? name : "");
    out->sets = path ? fby__arena_alloc(&o->arena, sizeof *out->sets) : NULL;
    if (!out->sets)
        return fby__fail_nomem(err, "the columns of a table");
    for (size_t i = 0; i < o->n_candidates; i++) {
        fby__h5_candidate *c = &o->candidates[i];
        if (strcmp(c->path, path) != 0)
            continue;
        FBY__TRY(fby__h5_find_rows(o, c, err));
        if (c->axes == 0)
            return fby__fail(err, FBY_E_SCHEMA, "'%.200s' has no such row axis, or no elements", path);
        out->sets[0] = (uint32_t)i;
        out->n = 1;
        out->rows = c->rows;
        out->name = c->path;
        out->prefix = (size_t)(strrchr(path, '/') - path) + 1;
        return FBY_OK;
    }
    for (size_t i = 0; i < o->n_left_out; i++)
        if (*path && strcmp(o->left_out[i].name, path + 1) == 0)
            return o->left_out[i].passing ? fail_passing(o, &o->left_out[i], err)
                                          : fby__fail(err, FBY_E_UNSUPPORTED, "'%.200s' cannot be read: %.500s", path, o->left_out[i].why);
    return fby__fail(err, FBY_E_SCHEMA, "there is no data set '%.200s' that can be read", name ? name : "");
}

/* What was left out while the file was looked at: of all of it, whatever is asked for. */
static void mark_elsewhere(fby__h5_opening *o, const wanted *w)
{
    for (size_t i = 0; i < o->n_left_out; i++)
        o->left_out[i].elsewhere = !w || (w->group_n && !below(o->left_out[i].name, w->group + 1, w->group_n - 1));
}

fby_status fby__h5_choose(fby__h5_opening *o, fby__h5_choice *out, fby_error *err)
{
    *out = (fby__h5_choice){0};
    wanted w;
    FBY__TRY(fby__h5_find_writer(o, err));
    FBY__TRY(fby__h5_find_candidates(o, err));
    if (o->opts->single) {
        mark_elsewhere(o, NULL);
        return choose_single(o, out, err);
    }
    if (o->n_candidates == 0)
        FBY__TRY(check_passing(o, err));
    if (o->n_candidates == 0 && o->n_left_out > 0)
        return fby__fail(err, FBY_E_UNSUPPORTED, "no data set has rows that can be read: '%.200s': %.500s", o->left_out[0].name,
                         o->left_out[0].why);
    if (o->n_candidates == 0)
        return fby__fail(err, FBY_E_SCHEMA, "no data set has rows");
    for (size_t i = 0; i < o->n_candidates; i++)
        FBY__TRY(fby__h5_find_rows(o, &o->candidates[i], err));
    FBY__TRY(find_wanted(o, &w, err));
    mark_elsewhere(o, &w);
    FBY__TRY(check_passing(o, err));
    return choose(o, &w, out, err);
}
