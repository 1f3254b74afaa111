/*
 * Opening an HDF5 file as a table: the chosen data sets become columns. Their types become fields and leaves in fields.c; here is
 * what is read of a file, where each data set's bytes are, and what is kept of it all.
 *
 * A data set that ours does not read is asked of the helper program; where that fails too, it is left out with the reason. The
 * opening fails when nothing remains, or when what ours does read is damaged.
 */
#include "base/checked.h"
#include "format/hdf5/table/table_internal.h"

#include <stdarg.h>
#include <stdio.h>

#define MAX_ROWS ((uint64_t)INT64_MAX)

const char *fby__h5_text(fby__h5_opening *o, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0)
        return NULL;
    if ((size_t)n < sizeof text)
        return fby__arena_copy(&o->arena, text, (size_t)n);
    char *longer = fby__arena_alloc(&o->arena, (size_t)n + 1);
    if (!longer)
        return NULL;
    va_start(args, fmt);
    (void)vsnprintf(longer, (size_t)n + 1, fmt, args); /* as long as before */
    va_end(args);
    return longer;
}

static const char *after(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

const char *fby__h5_reasons(fby__h5_opening *o, const char *ours, const char *path, const fby_error *helpers)
{
    return fby__h5_text(o, "%s; %s", ours, after(after(helpers->message, fby__file_path(o->file)), path));
}

/* Names are bytes in old files: a note is UTF-8. */
static const char *readable(fby__h5_opening *o, const char *name)
{
    size_t n = strlen(name);
    char *copy = fby__arena_copy(&o->arena, name, n);
    for (size_t i = 0; copy && i < n && !fby__schema_text_valid(name, n); i++)
        if ((uint8_t)copy[i] >= 0x80)
            copy[i] = '?';
    return copy;
}

fby_status fby__h5_helper_failed(fby__h5_opening *o, const fby_error *helpers, fby_error *err)
{
    o->unsettled = true;
    if (helpers->code == FBY_E_FORMAT || helpers->code == FBY_E_UNSUPPORTED || helpers->code == FBY_E_ARG) {
        fby_status st = fby__file_check(fby__file_path(o->file), fby__file_stamp_of(o->file), err);
        return st == FBY_E_NOMEM || st == FBY_E_CHANGED ? st : FBY_OK; /* cut short meanwhile, it looks damaged */
    }
    if (err)
        *err = *helpers;
    return helpers->code;
}

fby_status fby__h5_leave_out(fby__h5_opening *o, const char *name, const char *why, fby_error *err)
{
    if (o->n_left_out == FBY__H5_MAX_LEFT_OUT)
        return FBY_OK;
    if (fby__grow((void **)&o->left_out, &o->left_out_cap, o->n_left_out + 1, sizeof *o->left_out) != 0)
        return fby__fail_nomem(err, "a note");
    struct fby__h5_left_out note = {readable(o, name), fby__h5_text(o, "%s", why), false, false};
    if (!note.name || !note.why)
        return fby__fail_nomem(err, "a note");
    o->left_out[o->n_left_out++] = note;
    return FBY_OK;
}

void fby__h5_context(fby_error *err, const char *file_name, const fby__h5_set *set)
{
    if (file_name)
        fby__error_context(err, "%s: data set '%.200s'", file_name, set->path);
    else
        fby__error_context(err, "data set '%.200s'", set->path);
}

/* ---- data sets into columns ---- */

bool fby__h5_type_varies(const fby__h5_type *t)
{
    switch (t->class) {
    case FBY__H5_VLEN:
    case FBY__H5_REFERENCE: return true;
    case FBY__H5_ARRAY: return fby__h5_type_varies(t->base);
    case FBY__H5_COMPOUND:
        for (uint32_t i = 0; i < t->n_members; i++)
            if (fby__h5_type_varies(t->members[i].type))
                return true;
        return false;
    default: return false;
    }
}

/*
 * Does the type hold what only libhdf5 turns into a tensor's type, or into text? @references  do references count, @among_members  and
 * those among a compound's members? They would make the others slow.
 */
static bool is_foreign(const fby__h5_type *t, bool references, bool among_members, unsigned depth)
{
    switch (t->class) {
    case FBY__H5_INTEGER:
    case FBY__H5_FLOAT:
    case FBY__H5_BITFIELD:
    case FBY__H5_ENUM:
    case FBY__H5_TIME: return fby__h5_type_dtype(t) == FBY_DTYPE_NONE;
    case FBY__H5_REFERENCE: return references;
    case FBY__H5_ARRAY: return depth < FBY__H5_MAX_DEPTH && is_foreign(t->base, references, among_members, depth + 1);
    case FBY__H5_VLEN: return depth < FBY__H5_MAX_DEPTH && !t->vlen_string && is_foreign(t->base, references, among_members, depth + 1);
    case FBY__H5_COMPOUND:
        for (uint32_t i = 0; depth < FBY__H5_MAX_DEPTH && i < t->n_members; i++)
            if (is_foreign(t->members[i].type, among_members, among_members, depth + 1))
                return true;
        return false;
    default: return false;
    }
}

const char *fby__h5_foreign_reason(fby__h5_opening *o, const fby__h5_type *type)
{
    char text[200];
    if (!is_foreign(type, true, o->opts->single, 0))
        return NULL;
    (void)fby__h5_type_text(type, text, sizeof text); /* cut short where it is long */
    const char *why = fby__h5_text(o, "its type is %s", text);
    return why ? why : "its type is no tensor's";
}

static fby_status copy_filters(fby__h5_builder *b, const fby__h5_object *object, fby__h5_set *s)
{
    if (object->n_filters == 0)
        return FBY_OK;
    fby__filter *filters = fby__arena_alloc(&b->o->arena, object->n_filters * sizeof *filters);
    if (!filters)
        return fby__fail_nomem(b->err, "the filters of a data set");
    for (uint32_t i = 0; i < object->n_filters; i++) {
        const fby__h5_filter *f = &object->filters[i];
        filters[i] = (fby__filter){.id = f->id, .optional = f->optional, .n_values = f->n_values, .values = f->values};
    }
    s->n_filters = object->n_filters;
    s->filters = filters;
    return FBY_OK;
}

static fby_status fail_set(fby__h5_builder *b, const char *what)
{
    fby_status st = fby__fail(b->err, FBY_E_FORMAT, "%s", what);
    fby__error_context(b->err, "%s: data set '%.200s'", fby__file_path(b->o->file), b->c->path);
    return st;
}

/* The chunk list. *out_why: ours does not read this kind of index. */
static fby_status read_chunks(fby__h5_builder *b, const fby__h5_object *object, fby__h5_set *s, const char **out_why)
{
    fby__h5_chunks chunks = {0};
    fby_error err = {0};
    fby_status st = fby__h5_chunks_read(b->o->f, object, &chunks, &err);
    if (st == FBY_E_UNSUPPORTED) {
        *out_why = fby__h5_text(b->o, "%s", err.message);
        return *out_why ? FBY_OK : fby__fail_nomem(b->err, "a chunk index");
    }
    if (st != FBY_OK) {
        if (b->err)
            *b->err = err;
        fby__error_context(b->err, "%s: data set '%.200s'", fby__file_path(b->o->file), b->c->path);
        return st;
    }
    fby__h5_chunk *list = fby__arena_alloc(&b->o->arena, chunks.n * sizeof *list);
    if (list && chunks.n)
        memcpy(list, chunks.list, chunks.n * sizeof *list);
    s->chunks = list;
    s->n_chunks = chunks.n;
    for (uint64_t i = 0; i < chunks.n; i++)
        s->stored_bytes += chunks.list[i].bytes;
    fby__h5_chunks_fini(&chunks);
    return list ? FBY_OK : fby__fail_nomem(b->err, "a chunk index");
}

static fby_status set_grid(fby__h5_builder *b, const fby__h5_object *object, fby__h5_set *s)
{
    uint64_t all = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (object->chunk[i] == 0)
            return fail_set(b, "a chunk has no elements");
        s->chunk[i] = object->chunk[i];
        s->grid[i] = fby__div_up_u64(s->dims[i], s->chunk[i]);
        if (!fby__mul_u64_checked(all, s->grid[i], &all))
            return fail_set(b, "it has more chunks than can be counted");
    }
    return FBY_OK;
}

/* Where the bytes are, for ours. *out_why: ours cannot read them after all. */
static fby_status locate_bytes(fby__h5_builder *b, fby__h5_set *s, const char **out_why)
{
    const fby__h5_object *object = b->c->object;
    uint64_t bytes = object->type->bytes;
    for (uint32_t i = 0; i < s->rank; i++)
        if (!fby__mul_u64_checked(bytes, s->dims[i], &bytes))
            return fail_set(b, "it has more bytes than can be counted");
    if (object->fill.n && object->fill.n != object->type->bytes && object->type->class != FBY__H5_VLEN)
        return fail_set(b, "its fill value is of another size than its type");
    s->fill = object->fill.n == object->type->bytes ? object->fill : (fby__bytes){0};
    s->partial_edge_unfiltered = object->partial_edge_unfiltered;
    switch (object->layout) {
    case FBY__H5_COMPACT:
        if (object->compact.n != 0 && object->compact.n < bytes)
            return fail_set(b, "its compact data is cut short");
        s->compact = object->compact;
        s->stored_bytes = object->compact.n;
        return FBY_OK;
    case FBY__H5_CONTIGUOUS:
        s->data_offset = FBY__H5_UNDEFINED;
        if (object->data_address == FBY__H5_UNDEFINED || bytes == 0)
            return FBY_OK;
        if (!fby__add_u64_checked(b->o->f->base, object->data_address, &s->data_offset) || bytes > b->o->f->end ||
            s->data_offset > b->o->f->end - bytes)
            return fail_set(b, "its data goes beyond the end of the file");
        s->stored_bytes = bytes;
        return FBY_OK;
    default: break;
    }
    if (object->chunk_element_bytes != object->type->bytes)
        return fail_set(b, "its chunks are of elements of another size than its type");
    FBY__TRY(copy_filters(b, object, s));
    fby_error err = {0};
    fby_status st = fby__filters_check(s->filters, s->n_filters, object->type->bytes, &err);
    if (st != FBY_OK && st != FBY_E_NOMEM) {
        *out_why = fby__h5_text(b->o, "%s", err.message);
        return *out_why ? FBY_OK : fby__fail_nomem(b->err, "a data set");
    }
    if (st == FBY_E_NOMEM)
        return fby__fail_nomem(b->err, "a data set");
    FBY__TRY(set_grid(b, object, s));
    return read_chunks(b, object, s, out_why);
}

/* Ask the helper program what it would read. *out_why: it cannot either. */
static fby_status ask_helper(fby__h5_builder *b, fby__h5_candidate *c, const char **out_why)
{
    if (c->described)
        return FBY_OK;
    const fby__h5_object *seen = c->object;
    fby_error err = {0};
    fby_status st = fby__h5_helper_object(fby__file_path(b->o->file), c->path, c->why, &b->o->arena, &seen, &err);
    if (st != FBY_OK)
        FBY__TRY(fby__h5_helper_failed(b->o, &err, b->err));
    const fby__h5_space *a = &c->object->space;
    if (st == FBY_OK && b->o->opts->single && seen->kind == FBY__H5_DATASET && seen->space.rank == 0 && a->rank == 1)
        seen = fby__h5_as_row(b->o, seen);
    if (!seen)
        return fby__fail_nomem(b->err, "a data set");
    if (st != FBY_OK)
        *out_why = fby__h5_reasons(b->o, c->why, c->path, &err);
    else if (seen->kind != FBY__H5_DATASET || !seen->type || seen->space.null || seen->space.rank != a->rank ||
             memcmp(seen->space.dims, a->dims, a->rank * sizeof *a->dims) != 0)
        *out_why = "the helper program sees data of another shape";
    else
        c->object = seen;
    c->described = st == FBY_OK && !*out_why;
    return st == FBY_OK || *out_why ? FBY_OK : fby__fail_nomem(b->err, "a data set");
}

/* For the helper program: chunks only say where blocks are best cut. What is stored is not known: as much as is decoded. */
static fby_status set_by_helper(fby__h5_builder *b, fby__h5_set *s)
{
    const fby__h5_object *object = b->c->object;
    s->way = FBY__H5_HELPER;
    s->why = b->c->why;
    s->n_filters = 0;
    s->filters = NULL;
    s->n_chunks = 0;
    s->chunks = NULL;
    s->fill = s->compact = (fby__bytes){0};
    s->data_offset = FBY__H5_UNDEFINED;
    bool chunked = object->layout == FBY__H5_CHUNKED;
    for (uint32_t i = 0; i < s->rank; i++)
        chunked &= object->chunk[i] > 0;
    s->layout = chunked ? FBY__H5_CHUNKED : FBY__H5_CONTIGUOUS;
    s->stored_bytes = object->type->bytes;
    for (uint32_t i = 0; i < s->rank; i++)
        if (!fby__mul_u64_checked(s->stored_bytes, s->dims[i], &s->stored_bytes))
            return fail_set(b, "it has more bytes than can be counted");
    return chunked ? set_grid(b, object, s) : FBY_OK;
}

/* Missing: what is read then is the fill value, which nobody takes for data unless asked to. */
static fby_status check_source(const fby__h5_builder *b, const fby__h5_source *source)
{
    if (!source->missing || b->o->opts->fill_sources)
        return FBY_OK;
    return fby__fail(b->err, FBY_E_IO, "%s: data set '%.200s': %.500s; put it there, or ask for the fill value (missing_sources=\"fill\")",
                     fby__file_path(b->o->file), b->c->path, source->why);
}

/* The number of a file among the table's sources. `hint`: what it would be if this data set had the same as the last one. */
static fby_status number_of_source(fby__h5_builder *b, const fby__h5_source *source, size_t n_before, size_t hint, uint32_t *out)
{
    fby__h5_opening *o = b->o;
    const char *path = source->path;
    size_t i = hint < n_before && strcmp(o->sources[hint].path, path) == 0 ? hint : 0;
    while (i < n_before && strcmp(o->sources[i].path, path) != 0)
        i++;
    *out = (uint32_t)i;
    if (i < n_before)
        return FBY_OK;
    fby_error why = {0};
    fby__source_file s = {.path = path};
    fby_status st = fby__file_stat(path, &s.stamp, &why);
    if (st != FBY_OK && !source->missing && !source->later) { /* the program saw it */
        if (b->err)
            *b->err = why;
        fby__error_context(b->err, "%s: data set '%.200s'", fby__file_path(o->file), b->c->path);
        return st;
    }
    s.absent = st != FBY_OK;
    if (fby__grow((void **)&o->sources, &o->sources_cap, o->n_sources + 1, sizeof *o->sources) != 0)
        return fby__fail_nomem(b->err, "the sources of a data set");
    *out = (uint32_t)o->n_sources;
    o->sources[o->n_sources++] = s;
    return FBY_OK;
}

/* The program names each file once a data set: only those of data sets before are searched. */
static fby_status number_sources(fby__h5_builder *b, const fby__h5_object *object, fby__h5_set *s)
{
    s->promise = object->promise;
    uint32_t *numbers = fby__arena_alloc(&b->o->arena, object->n_sources * sizeof *numbers);
    const fby__h5_set *last = b->n_sets ? &b->sets[b->n_sets - 1] : NULL;
    size_t n_before = b->o->n_sources;
    if (!numbers)
        return fby__fail_nomem(b->err, "the sources of a data set");
    for (uint32_t i = 0; i < object->n_sources; i++) {
        const fby__h5_source *source = &object->sources[i];
        b->o->unsettled |= source->missing;
        FBY__TRY(check_source(b, source));
        FBY__TRY(number_of_source(b, source, n_before, last && i < last->n_sources ? last->sources[i] : 0, &numbers[i]));
    }
    s->sources = numbers;
    s->n_sources = object->n_sources;
    return FBY_OK;
}

static fby_status make_set(fby__h5_builder *b, fby__h5_candidate *c, fby__h5_set *s, const char **out_why)
{
    *s = (fby__h5_set){.path = c->path,
                       .rank = c->object->space.rank,
                       .axis = c->axis,
                       .axes = c->axes,
                       .repeat = c->repeat,
                       .row_elements = c->row_elements,
                       .layout = c->object->layout,
                       .data_offset = FBY__H5_UNDEFINED};
    memcpy(s->dims, c->object->space.dims, s->rank * sizeof *s->dims);
    FBY__TRY(fby__h5_dims(b->o, c, b->err));
    memcpy(s->dim_names, c->dim_names, s->rank * sizeof *s->dim_names);
    if (!c->why)
        c->why = fby__h5_foreign_reason(b->o, c->object->type);
    if (!c->why)
        FBY__TRY(locate_bytes(b, s, &c->why));
    b->by_helper = c->why != NULL;
    if (b->by_helper) {
        FBY__TRY(ask_helper(b, c, out_why));
        if (*out_why)
            return FBY_OK;
        FBY__TRY(set_by_helper(b, s));
        FBY__TRY(number_sources(b, c->object, s));
    }
    s->type = c->object->type;
    return FBY_OK;
}

static fby_status add_set(fby__h5_builder *b, fby__h5_candidate *c, size_t prefix)
{
    const char *why = NULL, *units, *row_names[FBY__H5_MAX_RANK];
    uint64_t row_dims[FBY__H5_MAX_RANK];
    fby__h5_set *s = &b->sets[b->n_sets];
    fby__h5_field_context at = {.name = fby__h5_column_name(b->o, c->path + prefix), .dims = row_dims, .dim_names = row_names};
    b->c = c;
    if (!(at.path = at.name))
        return fby__fail_nomem(b->err, "the name of a column");
    FBY__TRY(make_set(b, c, s, &why));
    for (uint32_t i = 0; i < s->rank; i++)
        if (i < s->axis || i >= s->axis + s->axes) {
            row_dims[at.n_dims] = s->dims[i];
            row_names[at.n_dims++] = s->dim_names[i];
        }
    size_t n = b->n, n_leaves = b->n_leaves;
    if (!why)
        FBY__TRY(fby__h5_add_value(b, &at, s->type, &why));
    if (why) {
        b->n = n;
        b->n_leaves = n_leaves;
        return fby__h5_leave_out(b->o, at.name, why, b->err);
    }
    FBY__TRY(fby__h5_attribute_text(b->o, fby__h5_attribute_find(c->attributes, "units"), &units, b->err));
    b->elements[n].field.units = units;
    b->elements[0].n_children++;
    b->n_sets++;
    return FBY_OK;
}

static fby_status add_sets(fby__h5_builder *b, const fby__h5_choice *choice)
{
    b->sets = fby__calloc(choice->n, sizeof *b->sets);
    if (!b->sets || !fby__h5_add_element(b, "", false, FBY_KIND_STRUCT))
        return fby__fail_nomem(b->err, "the columns of a file");
    for (uint32_t i = 0; i < choice->n; i++)
        FBY__TRY(add_set(b, &b->o->candidates[choice->sets[i]], choice->prefix));
    if (b->n_sets > 0)
        return FBY_OK;
    const struct fby__h5_left_out *first = &b->o->left_out[0];
    return fby__fail(b->err, FBY_E_UNSUPPORTED, "%s: none of the table's data sets can be read: '%.200s': %.400s",
                     fby__file_path(b->o->file), b->o->n_left_out ? first->name : "", b->o->n_left_out ? first->why : "");
}

/* ---- opening ---- */

/* What is not frozen. */
static fby_status give_sources(const fby__h5_opening *o, fby__h5_table *t, fby_error *err)
{
    fby__source_file *sources = fby__arena_alloc(&t->arena, o->n_sources * sizeof *sources);
    for (size_t i = 0; sources && i < o->n_sources; i++) {
        sources[i] = o->sources[i];
        sources[i].path = fby__arena_copy(&t->arena, o->sources[i].path, strlen(o->sources[i].path));
        if (!sources[i].path)
            sources = NULL;
    }
    t->base.sources = sources;
    t->base.unsettled = o->unsettled;
    t->base.reach.environment = o->opts->reach.environment;
    return sources ? FBY_OK : fby__fail_nomem(err, "the sources of a table");
}

/* Frozen and thawed, so that the table owns exactly what it needs and nothing of the opening lives on. */
static fby_status publish(fby__h5_builder *b, const fby__h5_choice *choice, fby__table **out)
{
    fby__h5_opening *o = b->o;
    fby__schema *schema;
    fby__table *made = NULL;
    FBY__TRY(fby__schema_create(b->elements, b->n, &schema, b->err));
    fby__h5_table table = {
        .base =
            {.ops = &fby__hdf5_ops, .schema = schema, .n_rows = choice->rows, .n_sources = (uint32_t)o->n_sources, .reach = o->opts->reach},
        .file_bytes = fby__file_stamp_of(o->file)->size_bytes,
        .address_base = o->f ? o->f->base : 0,
        .offset_bytes = o->f ? o->f->offset_bytes : 8,
        .length_bytes = o->f ? o->f->length_bytes : 8,
        .n_sets = b->n_sets,
        .sets = b->sets,
        .leaves = b->leaves,
        .name = choice->name,
        .n_others = choice->n_others,
        .others = choice->others,
        .n_left_out = (uint32_t)o->n_left_out,
        .left_out = o->left_out,
    };
    fby__buf frozen = {0};
    fby_status st = fby__h5_freeze(&table.base, &frozen, b->err);
    if (st == FBY_OK)
        st = fby__h5_thaw((fby__bytes){frozen.data, frozen.n}, schema, &made, b->err);
    if (st == FBY_E_FORMAT) /* only sizes of types can be wrong still */
        st = fby__fail(b->err, FBY_E_FORMAT, "%s: the sizes of a data set and its type contradict each other", fby__file_path(o->file));
    fby__buf_fini(&frozen);
    fby__schema_unref(schema);
    if (st == FBY_OK)
        st = give_sources(o, (fby__h5_table *)made, b->err);
    if (st == FBY_OK)
        *out = made;
    else
        fby__table_unref(made);
    return st;
}

/* The tree as ours sees it; what we cannot begin to read, as the helper program does. */
fby_status fby__h5_read_tree(fby__h5_opening *o, fby_error *err)
{
    fby_error why = {0};
    fby_status st = fby__h5_file_open(o->file, &o->f, &why);
    if (st == FBY_OK)
        st = fby__h5_tree_read(o->f, &o->tree, &why);
    if (st == FBY_E_FORMAT)
        fby__error_context(&why, "%s", fby__file_path(o->file));
    if (st == FBY_E_UNSUPPORTED) {
        fby__h5_file_close(o->f);
        o->f = NULL;
        char text[sizeof why.message];
        memcpy(text, why.message, sizeof text);
        st = fby__h5_helper_tree(NULL, fby__file_path(o->file), text, &o->arena, &o->tree, &why);
    }
    if (st != FBY_OK && err)
        *err = why;
    return st;
}

fby_status fby__h5_read_whole(fby__h5_opening *o, fby_error *err)
{
    fby_error why = {0};
    if (o->whole.n || o->whole_why)
        return FBY_OK;
    fby_status st = fby__h5_helper_tree(o->f, fby__file_path(o->file), "it lies in another file, or in a group that cannot be listed",
                                        &o->arena, &o->whole, &why);
    for (uint32_t i = 0; st == FBY_OK && i < o->whole.n; i++) {
        const fby__h5_entry *e = &o->whole.entries[i], *own = e->object ? fby__h5_tree_find(&o->tree, e->path) : NULL;
        if (own && own->object && !own->elsewhere)
            ((fby__h5_object *)(uintptr_t)e->object)->known = true; /* the opening's own memory */
    }
    if (st == FBY_OK)
        return FBY_OK;
    o->whole.n = 0;
    FBY__TRY(fby__h5_helper_failed(o, &why, err));
    o->whole_why = fby__h5_text(o, "%s", after(after(why.message, fby__file_path(o->file)), "/"));
    return o->whole_why ? FBY_OK : fby__fail_nomem(err, "the data sets of a file");
}

bool fby__h5_is_hidden(const fby__h5_opening *o, uint32_t i)
{
    const fby__h5_entry *e = &o->whole.entries[i];
    return !e->alias && e->object && !e->object->known;
}

static fby_status check_opts(const fby__format_opts *opts, fby_error *err)
{
    if (opts->axes < 0 || opts->axes > FBY__H5_MAX_RANK || opts->axis <= -FBY__H5_MAX_RANK || opts->axis >= FBY__H5_MAX_RANK)
        return fby__fail(err, FBY_E_ARG, "axis %d or axes %d is no axis of an HDF5 data set: they have up to %d", opts->axis, opts->axes,
                         FBY__H5_MAX_RANK);
    if (opts->axes > 1 && (opts->axis != 0 || opts->dimension))
        return fby__fail(err, FBY_E_ARG, "axes = %d means the leading axes: axis and dimension cannot be given with it", opts->axes);
    if (opts->dimension && opts->axis != 0)
        return fby__fail(err, FBY_E_ARG, "dimension '%.100s' and axis %d both say which axis runs over rows; give one", opts->dimension,
                         opts->axis);
    return FBY_OK;
}

fby_status fby__h5_table_open(fby__file *file, const fby__format_opts *opts, fby__table **out, fby_error *err)
{
    static const fby__format_opts DEFAULTS;
    fby__h5_opening o = {.file = file, .opts = opts ? opts : &DEFAULTS};
    fby__h5_builder b = {.o = &o, .err = err};
    fby__h5_choice choice;
    const fby__reach *before = fby__h5_helper_reach(&o.opts->reach);
    fby_status st = check_opts(o.opts, err);
    if (st == FBY_OK)
        st = fby__h5_read_tree(&o, err);
    if (st == FBY_OK) {
        st = fby__h5_choose(&o, &choice, err);
        if (st == FBY_E_SCHEMA || st == FBY_E_UNSUPPORTED)
            fby__error_context(err, "%s", fby__file_path(file));
    }
    if (st == FBY_OK && choice.rows > MAX_ROWS)
        st = fby__fail(err, FBY_E_UNSUPPORTED, "%s: data set '%.200s' has 2^63 rows or more", fby__file_path(file), choice.name);
    if (st == FBY_OK)
        st = add_sets(&b, &choice);
    if (st == FBY_OK)
        st = publish(&b, &choice, out);
    (void)fby__h5_helper_reach(before);
    fby__free(b.elements);
    fby__free(b.leaves);
    fby__free(b.sets);
    fby__free(o.candidates);
    fby__free(o.left_out);
    fby__free(o.sources);
    fby__h5_global_fini(&o.heap);
    fby__h5_file_close(o.f);
    fby__arena_fini(&o.arena);
    return st;
}

void fby__h5_destroy(fby__table *base)
{
    fby__h5_table *table = (fby__h5_table *)base;
    if (!table)
        return;
    fby__schema_unref(base->schema);
    fby__free(base->groups);
    fby__arena_fini(&table->arena);
    fby__free(table);
}
