/*
 * Everything a file holds, for inspect, attributes and reading data sets by path: what h5dump -H -p would say, which path reads each data
 * set and why, and which layouts cannot be fast.
 */
#include "format/contents.h"
#include "base/checked.h"
#include "base/printable.h"
#include "format/hdf5/table/table_internal.h"

#include <stdarg.h>
#include <stdio.h>

#define TINY_CHUNK_BYTES 16384u /* below it a chunk costs more to find than to decode */
#define MANY_CHUNKS 1000u
#define HUGE_CHUNK_BYTES ((uint64_t)64 << 20) /* beyond it blocks are larger than a budget likes */
#define USELESS_RATIO 1.05

typedef struct lister {
    fby__h5_opening o;
    const fby__h5_table *table;
    uint32_t set; /* of the table: the one that is looked at first for a path */
    fby_contents *out;
    fby_error *err;
} lister;

static char *copy(lister *l, const char *text)
{
    char *p = fby__arena_copy(&l->out->arena, text, strlen(text));
    if (!p)
        (void)fby__fail_nomem(l->err, "the contents of a file"); /* the caller sees NULL */
    return p;
}

static fby_status note(lister *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static fby_status note(lister *l, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args); /* cut when longer: paths are bounded where they are printed */
    va_end(args);
    fby__make_printable(text, sizeof text, n >= (int)sizeof text);
    fby_contents *c = l->out;
    if (fby__grow((void **)&c->notes, &c->cap_notes, c->n_notes + 1, sizeof *c->notes) != 0)
        return fby__fail_nomem(l->err, "the contents of a file");
    c->notes[c->n_notes] = copy(l, text);
    return c->notes[c->n_notes++] ? FBY_OK : FBY_E_NOMEM;
}

/* ---- attributes ---- */

static bool is_text(const fby__h5_type *t) { return t->class == FBY__H5_STRING || (t->class == FBY__H5_VLEN && t->vlen_string); }

/* As they are: what is not UTF-8 (old files are in Latin-1, whatever they state) is for the reader to decode. */
static fby_status add_texts(lister *l, const fby__h5_attribute *a, fby_attribute *out)
{
    const char **texts = fby__arena_alloc(&l->out->arena, (size_t)out->n * sizeof *texts);
    uint64_t *bytes = fby__arena_alloc(&l->out->arena, (size_t)out->n * sizeof *bytes);
    if (!texts || !bytes)
        return fby__fail_nomem(l->err, "an attribute");
    /* Many elements may be one text of the file: memory for all of their copies is asked for first. */
    size_t all = 0;
    fby__bytes text;
    for (uint64_t i = 0; i < out->n; i++) {
        FBY__TRY(fby__h5_text_bytes(&l->o, a, i, &text, l->err));
        if (!fby__add_checked(all, text.n + 1, &all))
            return fby__fail_nomem(l->err, "an attribute");
        bytes[i] = text.n;
    }
    char *to = fby__arena_alloc(&l->out->arena, all);
    if (!to)
        return fby__fail_nomem(l->err, "an attribute");
    out->utf8 = true;
    for (uint64_t i = 0; i < out->n; i++, to += bytes[i - 1] + 1) {
        FBY__TRY(fby__h5_text_bytes(&l->o, a, i, &text, l->err));
        if (text.n != bytes[i])
            return fby__fail(l->err, FBY_E_CHANGED, "its texts changed while they were read");
        if (text.n)
            memcpy(to, text.data, text.n);
        to[text.n] = 0;
        texts[i] = to;
        out->utf8 &= fby__schema_text_valid(to, text.n);
    }
    out->strings = texts;
    out->string_bytes = bytes;
    return FBY_OK;
}

static fby_status add_attribute(lister *l, const fby__h5_attribute *a, fby_attribute *out)
{
    char type[200];
    uint64_t bytes;
    *out = (fby_attribute){.name = copy(l, a->name), .ndim = a->space.rank, .n = a->space.null ? 0 : a->space.n_elements};
    (void)fby__h5_type_text(a->type, type, sizeof type); /* cut short where it is long */
    out->type = copy(l, type);
    if (!out->name || !out->type)
        return FBY_E_NOMEM;
    memcpy(out->shape, a->space.dims, out->ndim * sizeof *out->shape);
    if (!fby__mul_u64_checked(out->n, a->type->bytes, &bytes) || a->data.n < bytes)
        out->n = 0; /* the helper program does not hand over values of every type */
    if (is_text(a->type))
        return add_texts(l, a, out);
    out->dtype = fby__h5_type_dtype(a->type);
    if (out->dtype == FBY_DTYPE_NONE)
        return FBY_OK;
    uint8_t *data = fby__arena_alloc(&l->out->arena, (size_t)out->n * fby_dtype_bytes(out->dtype));
    if (!data)
        return fby__fail_nomem(l->err, "an attribute");
    if (out->n)
        fby__h5_type_convert(a->type, a->data.data, a->type->bytes, (size_t)out->n, data);
    out->data = data;
    return FBY_OK;
}

static fby_status add_attributes(lister *l, const fby__h5_object *object, fby_object *out)
{
    fby_attribute *list = fby__arena_alloc(&l->out->arena, ((size_t)object->n_attributes + l->out->of_table) * sizeof *list);
    if (!list)
        return fby__fail_nomem(l->err, "attributes");
    for (uint32_t i = 0; i < object->n_attributes; i++)
        FBY__TRY(add_attribute(l, &object->attributes[i], &list[i]));
    out->attributes = list;
    out->n_attributes = object->n_attributes;
    uint64_t fill;
    if (!l->out->of_table || object->kind != FBY__H5_DATASET || !object->type || !fby__h5_default_fill(&l->o, object, object->type, &fill))
        return FBY_OK;
    /* What goes without saying in a file of NetCDF is said to whoever takes it elsewhere. */
    const void *data = fby__arena_copy(&l->out->arena, &fill, sizeof fill);
    list[out->n_attributes++] =
        (fby_attribute){.name = "_FillValue", .type = "", .dtype = fby__h5_type_dtype(object->type), .n = 1, .data = data};
    return data ? FBY_OK : fby__fail_nomem(l->err, "attributes");
}

/* ---- data sets ---- */

static const char *filters_text(lister *l, const fby__h5_object *object)
{
    char text[400] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < object->n_filters && n < sizeof text - 80; i++) {
        const fby__h5_filter *f = &object->filters[i];
        const char *name = fby__filter_name(f->id), *plus = i ? " + " : "";
        int k = !name ? snprintf(text + n, sizeof text - n, "%sfilter %u", plus, f->id)
                : f->id == FBY__FILTER_DEFLATE && f->n_values == 1
                    ? snprintf(text + n, sizeof text - n, "%s%s(%u)", plus, name, f->values[0])
                    : snprintf(text + n, sizeof text - n, "%s%s", plus, name);
        n += k > 0 ? (size_t)k : 0;
    }
    return copy(l, text);
}

static const char *column_of(lister *l, const char *path)
{
    const fby__schema *schema = l->table->base.schema;
    for (uint32_t i = 0, s = l->set; i < l->table->n_sets; i++, s = s + 1 < l->table->n_sets ? s + 1 : 0)
        for (uint32_t leaf = 0; strcmp(l->table->sets[s].path, path) == 0 && leaf < schema->n_leaves; leaf++)
            if (l->table->leaves[leaf].set == s) {
                uint32_t field = schema->leaves[leaf].field;
                while (schema->nodes[field].parent != 0)
                    field = schema->nodes[field].parent;
                return copy(l, schema->fields[field].name);
            }
    return NULL;
}

/* Why ours does not decode the chunks; NULL: it does. */
static fby_status check_chunks(lister *l, const fby__h5_object *object, fby_object *out, const char **out_why)
{
    fby__h5_chunks chunks = {0};
    fby_error err = {0};
    fby__filter filters[FBY__H5_MAX_FILTERS];
    for (uint32_t i = 0; i < object->n_filters; i++)
        filters[i] = (fby__filter){.id = object->filters[i].id,
                                   .optional = object->filters[i].optional,
                                   .n_values = object->filters[i].n_values,
                                   .values = object->filters[i].values};
    fby_status status = fby__filters_check(filters, object->n_filters, object->type->bytes, &err);
    if (status == FBY_OK)
        status = fby__h5_chunks_read(l->o.f, object, &chunks, &err);
    if (status == FBY_OK) {
        out->n_chunks_written = chunks.n;
        for (uint64_t i = 0; i < chunks.n; i++)
            out->stored_bytes += chunks.list[i].bytes;
        fby__h5_chunks_fini(&chunks);
        return FBY_OK;
    }
    if (status != FBY_E_UNSUPPORTED && l->err)
        *l->err = err;
    *out_why = status == FBY_E_UNSUPPORTED ? fby__h5_text(&l->o, "%s", err.message) : NULL;
    return status != FBY_E_UNSUPPORTED ? status : *out_why ? FBY_OK : fby__fail_nomem(l->err, "the contents of a file");
}

static fby_status add_names(lister *l, const char *path, const fby__h5_object *object, fby_object *out)
{
    fby__h5_candidate c = {.path = path, .object = object, .attributes = object};
    FBY__TRY(fby__h5_dims(&l->o, &c, l->err));
    for (uint32_t i = 0; i < out->ndim; i++)
        if (c.dim_names[i] && !(out->dimensions[i] = copy(l, c.dim_names[i])))
            return FBY_E_NOMEM;
    return FBY_OK;
}

/* Chunks of about a MiB, whole in the last axes, as h5repack takes them: "256x128". */
static const char *better_chunks(const fby_object *o, double element_bytes, char *out, size_t n)
{
    size_t used = 0;
    double bytes = element_bytes;
    for (uint32_t i = 0; i < o->ndim; i++)
        bytes *= (double)o->shape[i];
    for (uint32_t i = 0; i < o->ndim && used < n; i++) {
        double share = bytes > 1048576 ? 1048576 / bytes : 1, size = (double)o->shape[i] * share;
        uint64_t c = size < 1 ? 1 : (uint64_t)size;
        bytes *= (double)c / (double)o->shape[i];
        int k = snprintf(out + used, n - used, "%s%llu", i ? "x" : "", (unsigned long long)c);
        used += k > 0 ? (size_t)k : 0;
    }
    return out;
}

static fby_status layout_notes(lister *l, const fby_object *o)
{
    char chunks[32 * 21];
    uint64_t chunk_elements = 1, elements = 1;
    for (uint32_t i = 0; i < o->ndim; i++) {
        chunk_elements *= o->chunk[i];
        elements *= o->shape[i];
    }
    if (!o->chunk_index || elements == 0)
        return FBY_OK;
    uint64_t bytes = (uint64_t)((double)o->decoded_bytes / (double)elements * (double)chunk_elements);
    if (bytes < TINY_CHUNK_BYTES && o->n_chunks > MANY_CHUNKS)
        FBY__TRY(note(l,
                      "'%.200s' lies in %llu chunks of %llu bytes: neighbours are read together, but each costs its own search and call; "
                      "h5repack -l %.200s:CHUNK=%s makes it faster",
                      o->path, (unsigned long long)o->n_chunks, (unsigned long long)bytes, o->path + 1,
                      better_chunks(o, (double)o->decoded_bytes / (double)elements, chunks, sizeof chunks)));
    if (bytes > HUGE_CHUNK_BYTES)
        FBY__TRY(note(l,
                      "'%.200s': one chunk of %.0f MiB has to be decoded for any of its rows, so blocks and the smallest budget are as "
                      "large; h5repack -l %.200s:CHUNK=%s makes it smaller",
                      o->path, (double)bytes / (1 << 20), o->path + 1,
                      better_chunks(o, (double)o->decoded_bytes / (double)elements, chunks, sizeof chunks)));
    if (o->n_chunks_written && o->filters && *o->filters && (double)o->decoded_bytes < USELESS_RATIO * (double)o->stored_bytes &&
        o->n_chunks_written == o->n_chunks)
        FBY__TRY(note(l, "'%.200s': its filters (%.80s) save nothing and cost their time; h5repack -f %.200s:NONE leaves them out", o->path,
                      o->filters, o->path + 1));
    return FBY_OK;
}

static fby_status add_array(lister *l, const fby__h5_entry *e, const fby__h5_object *object, const char *why, fby_object *out)
{
    static const char *const LAYOUTS[] = {"compact", "contiguous", "chunked", "virtual"};
    static const char *const INDEXES[] = {"B-tree 1", "single chunk", "implicit", "fixed array", "extensible array", "B-tree 2"};
    char type[200];
    const fby__h5_space *space = &object->space;
    (void)fby__h5_type_text(object->type, type, sizeof type); /* cut short where it is long */
    out->kind = FBY_OBJECT_ARRAY;
    out->type = copy(l, type);
    out->dtype = fby__h5_type_dtype(object->type);
    out->ndim = space->rank;
    memcpy(out->shape, space->dims, space->rank * sizeof *out->shape);
    out->layout = object->external ? "external" : LAYOUTS[object->layout];
    out->filters = filters_text(l, object);
    out->decoded_bytes = space->null ? 0 : space->n_elements * object->type->bytes;
    if (!out->type || !out->filters)
        return FBY_E_NOMEM;
    FBY__TRY(add_names(l, e->path, object, out));
    if (!why && l->o.f)
        why = fby__h5_reason_of(&l->o, object);
    if (!why)
        why = fby__h5_foreign_reason(&l->o, object->type);
    if (object->layout == FBY__H5_CHUNKED) {
        out->chunk_index = INDEXES[object->index];
        out->n_chunks = 1;
        for (uint32_t i = 0; i < space->rank; i++) {
            out->chunk[i] = object->chunk[i];
            out->n_chunks *= object->chunk[i] ? fby__div_up_u64(space->dims[i], object->chunk[i]) : 1;
        }
        if (!why)
            FBY__TRY(check_chunks(l, object, out, &why));
    } else if (object->layout == FBY__H5_COMPACT) {
        out->stored_bytes = object->compact.n;
    } else if (object->data_address != FBY__H5_UNDEFINED) {
        out->stored_bytes = object->data_bytes;
    }
    out->direct = !why;
    out->why = why ? copy(l, why) : NULL;
    out->column = column_of(l, e->path);
    return why && !out->why ? FBY_E_NOMEM : layout_notes(l, out);
}

static fby_status add_entry(lister *l, const fby__h5_entry *e)
{
    fby_contents *c = l->out;
    if (fby__grow((void **)&c->objects, &c->cap, c->n + 1, sizeof *c->objects) != 0)
        return fby__fail_nomem(l->err, "the contents of a file");
    fby_object *out = &c->objects[c->n];
    const fby__h5_object *object = e->object;
    const char *why = e->declined;
    *out = (fby_object){.path = copy(l, e->path), .kind = FBY_OBJECT_LINK};
    if (!out->path)
        return FBY_E_NOMEM;
    c->n++;
    if (e->elsewhere) { /* what is behind it comes with the helper program's tree */
        const fby__h5_entry *seen = l->o.whole.n ? fby__h5_tree_find(&l->o.whole, e->path) : NULL;
        object = seen ? seen->object : NULL;
        if (!object && seen && seen->declined)
            why = seen->declined;
    } else if (!object) { /* perhaps libhdf5 knows it */
        fby_status status =
            fby__h5_helper_object(fby__file_path(l->o.file), e->path, why ? why : "it is not ours", &l->o.arena, &object, NULL);
        if (status == FBY_E_NOMEM)
            return fby__fail_nomem(l->err, "the contents of a file");
        if (status == FBY_E_CANCELLED)
            return fby__fail(l->err, status, "the call was cancelled");
        if (status != FBY_OK)
            object = NULL;
    }
    if (!object) {
        out->why = copy(l, why ? why : "it leads nowhere");
        return out->why ? FBY_OK : FBY_E_NOMEM;
    }
    FBY__TRY(add_attributes(l, object, out));
    if (l->out->of_table) {
        out->type = out->filters = "";
        out->kind = object->kind == FBY__H5_DATASET ? FBY_OBJECT_ARRAY : FBY_OBJECT_GROUP;
        out->column = object->kind == FBY__H5_DATASET ? column_of(l, l->table->sets[l->set].path) : NULL;
        return FBY_OK;
    }
    switch (object->kind) {
    case FBY__H5_GROUP: out->kind = FBY_OBJECT_GROUP; break;
    case FBY__H5_DATASET: return object->type ? add_array(l, e, object, why, out) : FBY_OK;
    default: out->kind = FBY_OBJECT_TYPE;
    }
    return FBY_OK;
}

static fby_status add_named(lister *l, const fby__h5_entry *e)
{
    const fby_status status = add_entry(l, e);
    if (status != FBY_OK && status != FBY_E_NOMEM)
        fby__error_context(l->err, "%s: '%.200s'", fby__file_path(l->o.file), e->path);
    return status;
}

/* Only the helper program lists it. */
static fby_status add_hidden(lister *l, fby__h5_entry e)
{
    if (e.object && !(e.declined = fby__h5_why_hidden(&l->o, &e)))
        return fby__fail_nomem(l->err, "the contents of a file");
    return add_entry(l, &e);
}

static fby_status add_all(lister *l)
{
    for (uint32_t i = 0; i < l->o.tree.n; i++) {
        const fby__h5_entry *e = &l->o.tree.entries[i];
        l->out->done = (double)i / l->o.tree.n;
        if (e->elsewhere || (e->object && e->object->kind == FBY__H5_GROUP && e->declined && l->o.f))
            FBY__TRY(fby__h5_read_whole(&l->o, l->err));
        FBY__TRY(add_named(l, e));
    }
    for (uint32_t i = 0; i < l->o.whole.n; i++)
        if (!fby__h5_tree_find(&l->o.tree, l->o.whole.entries[i].path))
            FBY__TRY(add_hidden(l, l->o.whole.entries[i]));
    return FBY_OK;
}

/* The root, and what the table's columns lie in. */
static fby_status add_table(lister *l)
{
    FBY__TRY(add_named(l, &l->o.tree.entries[0]));
    for (uint32_t s = 0; s < l->table->n_sets; s++) {
        const fby__h5_entry *e = fby__h5_tree_find(&l->o.tree, l->table->sets[s].path), *hidden = NULL;
        l->set = s;
        if (!e || e->elsewhere)
            FBY__TRY(fby__h5_read_whole(&l->o, l->err));
        if (e)
            FBY__TRY(add_named(l, e));
        else if (l->o.whole.n && (hidden = fby__h5_tree_find(&l->o.whole, l->table->sets[s].path)) != NULL)
            FBY__TRY(add_hidden(l, *hidden));
    }
    return FBY_OK;
}

fby_status fby__h5_contents(fby__file *file, const fby__table *table, fby_contents *out, fby_error *err)
{
    static const fby__format_opts DEFAULTS;
    lister l = {.o = {.file = file, .opts = &DEFAULTS}, .table = fby__h5_table_of(table), .out = out, .err = err};
    const fby__reach *before = fby__h5_helper_reach(&l.table->base.reach);
    fby_status status = fby__h5_read_tree(&l.o, err);
    if (status == FBY_OK)
        status = out->of_table ? add_table(&l) : add_all(&l);
    (void)fby__h5_helper_reach(before);
    fby__h5_global_fini(&l.o.heap);
    fby__free(l.o.candidates);
    fby__free(l.o.left_out);
    fby__h5_file_close(l.o.f);
    fby__arena_fini(&l.o.arena);
    return status;
}

/* ---- what is no column ---- */

/* Is `path` the name, or something inside of it? */
static bool names(const char *name, const char *path)
{
    size_t n = strlen(name);
    return strncmp(name, path, n) == 0 && (path[n] == 0 || path[n] == '.');
}

static bool is_here(const fby__h5_table *table, const char *path)
{
    for (uint32_t i = 0; i < table->n_sets; i++)
        if (strcmp(table->sets[i].path, path) == 0)
            return true;
    return false;
}

static bool put_elsewhere(const fby__h5_opening *o, const fby__h5_table *table, const char *path, char *out, size_t n)
{
    char whole[300];
    const fby__h5_entry *e = fby__h5_tree_find(&o->tree, path);
    for (int at = snprintf(whole, sizeof whole, "%.290s", path); !e && at > 0;) { /* "hits.t" is inside of "hits" */
        while (at > 0 && whole[at] != '.')
            at--;
        whole[at] = 0;
        e = at > 0 ? fby__h5_tree_find(&o->tree, whole) : NULL;
    }
    if (!e || is_here(table, e->path))
        return false;
    if (!e->object)
        (void)snprintf(out, n, "it is left out: %.300s", e->declined ? e->declined : "it leads nowhere");
    else if (e->object->kind != FBY__H5_DATASET)
        (void)snprintf(out, n, "it is a group: table=\"%.200s\" opens what is below it", e->path);
    else if (e->object->space.rank == 0)
        (void)snprintf(out, n, "it is a single value, which read(\"%.200s\") gives", e->path);
    else
        (void)snprintf(out, n,
                       "it has %llu rows and this table has %llu: it is in another table of the file, which table=\"%.200s\" opens; "
                       "read(\"%.200s\") gives all of it",
                       (unsigned long long)e->object->space.dims[0], (unsigned long long)table->base.n_rows, e->path, e->path);
    return true;
}

bool fby__h5_absent(const fby__table *base, fby__file *file, const char *path, char *out, size_t n)
{
    static const fby__format_opts DEFAULTS;
    const fby__h5_table *table = fby__h5_table_of(base);
    while (*path == '/')
        path++;
    for (uint32_t i = 0; i < table->n_left_out; i++)
        if (names(table->left_out[i].name, path)) {
            (void)snprintf(out, n, "it is left out: %.400s", table->left_out[i].why);
            return true;
        }
    fby__h5_opening o = {.file = file, .opts = &DEFAULTS};
    const fby__reach *before = fby__h5_helper_reach(&table->base.reach);
    bool found = *path && fby__h5_read_tree(&o, NULL) == FBY_OK && put_elsewhere(&o, table, path, out, n);
    (void)fby__h5_helper_reach(before);
    fby__h5_file_close(o.f);
    fby__arena_fini(&o.arena);
    return found;
}
