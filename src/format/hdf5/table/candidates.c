/*
 * What in a file could be a column of its table: data sets with a row axis and at least one element a row. NetCDF's pure dimensions are none,
 * nor is what neither we nor libhdf5 can read, which is noted by name. Which of them are one table: choose.c.
 */
#include "format/hdf5/table/table_internal.h"

#include <errno.h>

const fby__h5_object *fby__h5_as_row(fby__h5_opening *o, const fby__h5_object *scalar)
{
    fby__h5_object *row = fby__arena_alloc(&o->arena, sizeof *row);
    if (!row)
        return NULL;
    *row = *scalar;
    row->space.rank = 1;
    row->space.dims[0] = 1;
    return row;
}

static fby_status add_candidate(fby__h5_opening *o, const char *path, const fby__h5_object *object, const fby__h5_object *attributes,
                                const char *why, bool described, fby_error *err)
{
    if (object->kind != FBY__H5_DATASET || !object->type || object->space.null || (object->space.rank == 0 && !o->opts->single) ||
        (fby__h5_is_pure_dimension(attributes) && !o->opts->single))
        return FBY_OK;
    bool declines;
    FBY__TRY(fby__h5_writer_declines(o, path, object, attributes, &declines, err));
    if (declines)
        return FBY_OK;
    if (object->space.rank == 0) { /* alone in its table it is one row */
        object = fby__h5_as_row(o, object);
        if (!object)
            return fby__fail_nomem(err, "the data sets of a file");
    }
    if (object->type->bytes == 0)
        return fby__h5_leave_out(o, path + 1, "its type has no bytes", err);
    if (fby__grow((void **)&o->candidates, &o->candidates_cap, o->n_candidates + 1, sizeof *o->candidates) != 0)
        return fby__fail_nomem(err, "the data sets of a file");
    o->candidates[o->n_candidates++] =
        (fby__h5_candidate){.path = path, .object = object, .attributes = attributes, .why = why, .described = described, .repeat = 1};
    return FBY_OK;
}

const char *fby__h5_reason_of(const fby__h5_opening *o, const fby__h5_object *object)
{
    if (o->f && o->f->swmr)
        return "the file is marked as open for writing (if its writer died, h5clear -s removes the mark)";
    if (object->declined)
        return object->declined;
    if (object->external)
        return "its data lies in external files";
    if (object->layout == FBY__H5_VIRTUAL)
        return "it is a virtual data set";
    if (object->layout == FBY__H5_CHUNKED && fby__h5_chunk_decoded_bytes(object) == 0)
        return "its chunks are 4 GiB or larger";
    return NULL;
}

/* The helper program got to a link to another file, and it led nowhere. */
static bool is_behind_nothing(const fby_error *helpers) { return helpers->code == FBY_E_IO && helpers->sys_errno == ENOLINK; }

static fby_status leave_out(fby__h5_opening *o, const char *name, const char *why, bool is_passing, fby_error *err)
{
    const size_t before = o->n_left_out;
    FBY__TRY(fby__h5_leave_out(o, name, why, err));
    if (o->n_left_out > before)
        o->left_out[before].passing = is_passing && !o->opts->fill_sources;
    return FBY_OK;
}

/* What ours cannot parse: perhaps libhdf5 can. A failure is a note. */
static fby_status add_unparsed(fby__h5_opening *o, const fby__h5_entry *e, fby_error *err)
{
    const fby__h5_object *object;
    fby_error why = {0};
    fby_status st = fby__h5_helper_object(fby__file_path(o->file), e->path, e->declined, &o->arena, &object, &why);
    if (st == FBY_OK)
        return add_candidate(o, e->path, object, object, e->declined, true, err);
    o->unsettled = true;
    if (!is_behind_nothing(&why))
        FBY__TRY(fby__h5_helper_failed(o, &why, err));
    const char *text = fby__h5_reasons(o, e->declined, e->path, &why);
    return text ? leave_out(o, e->path + 1, text, is_behind_nothing(&why), err) : fby__fail_nomem(err, "the data sets of a file");
}

/* A link to another file that led to nothing, or a group whose links neither reads. */
static fby_status leave_out_whole(fby__h5_opening *o, const fby__h5_entry *e, fby_error *err)
{
    const fby__h5_entry *seen = o->whole.n ? fby__h5_tree_find(&o->whole, e->path) : NULL;
    if (o->whole.n && (!seen || seen->object))
        return FBY_OK;
    o->unsettled = true; /* the other file may come, or be mended */
    const char *text = fby__h5_text(o, "%s; %s", e->declined, seen && seen->declined ? seen->declined : o->whole_why ? o->whole_why : "");
    if (!text)
        return fby__fail_nomem(err, "the data sets of a file");
    fby_error error = {0};
    const fby__h5_object *object;
    if (e->elsewhere && o->whole.n) /* nowhere, or to where it may not: the tree does not tell */
        (void)fby__h5_helper_object(fby__file_path(o->file), e->path, e->declined, &o->arena, &object, &error);
    if (error.code == FBY_E_NOMEM || error.code == FBY_E_CANCELLED)
        return fby__fail(err, error.code, "%s", error.message);
    return leave_out(o, e->path[1] ? e->path + 1 : "/", text, is_behind_nothing(&error), err);
}

const char *fby__h5_why_hidden(fby__h5_opening *o, const fby__h5_entry *hidden)
{
    size_t n = strlen(hidden->path);
    char *up = fby__arena_copy(&o->arena, hidden->path, n);
    while (up && n > 0) {
        const fby__h5_entry *e = fby__h5_tree_find(&o->tree, up);
        if (e && e->declined)
            return e->declined;
        while (n > 0 && up[--n] != '/')
            continue;
        up[n] = 0;
    }
    return up ? hidden->object->declined : NULL;
}

/* Behind links to other files, and in groups that ours cannot list: the data sets that only libhdf5 sees. */
static fby_status add_hidden(fby__h5_opening *o, fby_error *err)
{
    for (uint32_t i = 0; i < o->whole.n; i++) {
        const fby__h5_entry *e = &o->whole.entries[i];
        if (!fby__h5_is_hidden(o, i))
            continue;
        const char *why = fby__h5_why_hidden(o, e);
        if (!why)
            return fby__fail_nomem(err, "the data sets of a file");
        FBY__TRY(add_candidate(o, e->path, e->object, e->object, why, false, err));
    }
    return FBY_OK;
}

fby_status fby__h5_find_candidates(fby__h5_opening *o, fby_error *err)
{
    for (uint32_t i = 0; i < o->tree.n; i++)
        if (o->tree.entries[i].elsewhere)
            FBY__TRY(fby__h5_read_whole(o, err)); /* before soft links that lead through it */
    for (uint32_t i = 0; i < o->tree.n; i++) {
        const fby__h5_entry *e = &o->tree.entries[i];
        if (e->alias)
            continue;
        if (e->elsewhere || (e->object && e->object->kind == FBY__H5_GROUP && e->declined && o->f)) {
            FBY__TRY(fby__h5_read_whole(o, err));
            FBY__TRY(leave_out_whole(o, e, err));
        } else if (!e->object) {
            const fby__h5_entry *seen = o->whole.n ? fby__h5_tree_find(&o->whole, e->path) : NULL;
            if (!seen || !seen->alias) /* the other name's turn comes */
                FBY__TRY(add_unparsed(o, e, err));
        } else if (e->object->kind == FBY__H5_DATASET) {
            const char *why = o->f ? fby__h5_reason_of(o, e->object) : e->declined; /* the tree is the helper program's */
            FBY__TRY(add_candidate(o, e->path, e->object, e->object, why, false, err));
        }
    }
    return add_hidden(o, err);
}

/* ---- rows ---- */

fby_status fby__h5_find_rows(fby__h5_opening *o, fby__h5_candidate *c, fby_error *err)
{
    const fby__h5_space *space = &c->object->space;
    const fby__format_opts *opts = o->opts;
    uint32_t wanted = opts->axes > 1 ? (uint32_t)opts->axes : 1;
    c->axes = 0;
    if (opts->dimension) {
        FBY__TRY(fby__h5_dims(o, c, err));
        c->axis = 0;
        while (c->axis < space->rank && (!c->dim_names[c->axis] || strcmp(c->dim_names[c->axis], opts->dimension) != 0))
            c->axis++;
    } else {
        c->axis = opts->axis >= 0 ? (uint32_t)opts->axis : space->rank - (uint32_t)-opts->axis; /* wraps where there are too few */
    }
    if (c->axis >= space->rank)
        return FBY_OK;
    c->axes = wanted < space->rank ? wanted : space->rank;
    c->rows = c->row_elements = 1;
    for (uint32_t i = 0; i < space->rank; i++) {
        uint64_t *product = i >= c->axis && i < c->axis + c->axes ? &c->rows : &c->row_elements;
        *product = fby__h5_mul_capped(*product, space->dims[i]);
    }
    c->decoded_bytes = fby__h5_mul_capped(fby__h5_mul_capped(c->rows, c->row_elements), c->object->type->bytes);
    if (c->row_elements == 0)
        c->axes = 0;
    return FBY_OK;
}
