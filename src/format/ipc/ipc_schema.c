/*
 * The schema of an IPC file: flatbuffer tables (Schema.fbs) → the C data interface, whose import (block/arrow_import.c) then decides what is
 * supported and what is refused, as for tables in memory; and the nodes by which batches list lengths and buffers.
 */
#include "block/arrow.h"
#include "format/contents.h"
#include "format/ipc/ipc.h"
#include "format/ipc/ipc_types.h"

#include <string.h>

/* Slots of the tables in Schema.fbs, Message.fbs and File.fbs; a union takes two, the first for its type. */
enum { FOOTER_VERSION, FOOTER_SCHEMA, FOOTER_CUSTOM = 4 };
enum { MESSAGE_VERSION, MESSAGE_HEADER_TYPE, MESSAGE_HEADER };
enum { HEADER_SCHEMA = 1 };
enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS, SCHEMA_CUSTOM };
enum { PAIR_KEY, PAIR_VALUE };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_TYPE, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN, FIELD_CUSTOM };
enum { DICTIONARY_ID, DICTIONARY_INDEX, DICTIONARY_ORDERED, DICTIONARY_KIND };

typedef struct reading {
    fby__flatbuffer *flat;
    uint32_t n_fields; /* so far */
    int64_t *ids;      /* owned: of dictionaries, in the order of their fields */
    size_t n_ids, cap_ids;
} reading;

static fby_status damaged(fby_error *err, const char *what) { return fby__fail(err, FBY_E_FORMAT, "the schema is damaged: %s", what); }

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "an Arrow schema"); }

/* ---- types as format strings ---- */

static const char *integer_format(fby__flatbuffer *b, const fby__flat_table *t)
{
    bool is_signed = fby__flat_int(b, t, 1, 1, 0) != 0;
    switch (fby__flat_int(b, t, 0, 4, 0)) {
    case 8: return is_signed ? "c" : "C";
    case 16: return is_signed ? "s" : "S";
    case 32: return is_signed ? "i" : "I";
    case 64: return is_signed ? "l" : "L";
    default: return NULL;
    }
}

/* A letter for seconds to nanoseconds; '?' is no unit, which the import reports. */
static char unit_letter(fby__flatbuffer *b, const fby__flat_table *t, int64_t absent)
{
    int64_t unit = fby__flat_int(b, t, 0, 2, absent);
    return unit >= 0 && unit < 4 ? "smun"[unit] : '?';
}

/* The Arrow format of a type without parameters; else NULL. */
static const char *simple_format(fby__ipc_type kind)
{
    static const char *const SIMPLE[] = {
        [TYPE_NULL] = "n",        [TYPE_BINARY] = "z",       [TYPE_UTF8] = "u",
        [TYPE_BOOL] = "b",        [TYPE_LIST] = "+l",        [TYPE_STRUCT] = "+s",
        [TYPE_MAP] = "+m",        [TYPE_LARGE_BINARY] = "Z", [TYPE_LARGE_UTF8] = "U",
        [TYPE_LARGE_LIST] = "+L", [TYPE_RUN_END] = "+r",     [TYPE_BINARY_VIEW] = "vz",
        [TYPE_UTF8_VIEW] = "vu",  [TYPE_LIST_VIEW] = "+vl",  [TYPE_LARGE_LIST_VIEW] = "+vL",
    };
    return (unsigned)kind < sizeof SIMPLE / sizeof *SIMPLE ? SIMPLE[kind] : NULL;
}

/* fby__malloc'd; NULL: out of memory, or no such type (*out_known). What is out of range is left to the import. */
static char *format_of(fby__flatbuffer *b, fby__ipc_type kind, const fby__flat_table *t, bool *out_known)
{
    const char *fixed = simple_format(kind);
    *out_known = true;
    if (kind == TYPE_INT) {
        fixed = integer_format(b, t);
    } else if (kind == TYPE_FLOAT) {
        int64_t precision = fby__flat_int(b, t, 0, 2, 0);
        fixed = precision == 0 ? "e" : precision == 1 ? "f" : precision == 2 ? "g" : NULL;
    } else if (kind == TYPE_DATE) {
        fixed = fby__flat_int(b, t, 0, 2, 1) == 0 ? "tdD" : "tdm";
    } else if (kind == TYPE_UNION) {
        fixed = fby__flat_int(b, t, 0, 2, 0) == 0 ? "+us:" : "+ud:";
    } else if (kind == TYPE_INTERVAL) {
        int64_t unit = fby__flat_int(b, t, 0, 2, 0);
        fixed = unit == 0 ? "tiM" : unit == 1 ? "tiD" : "tin";
    }
    if (fixed)
        return fby__strdup(fixed);
    switch (kind) {
    case TYPE_DECIMAL:
        return fby__format("d:%d,%d,%d", (int)fby__flat_int(b, t, 0, 4, 0), (int)fby__flat_int(b, t, 1, 4, 0),
                           (int)fby__flat_int(b, t, 2, 4, 128));
    case TYPE_TIME: return fby__format("tt%c", unit_letter(b, t, 1));
    case TYPE_DURATION: return fby__format("tD%c", unit_letter(b, t, 1));
    case TYPE_TIMESTAMP: /* a zone's name does not matter: what is stored is in UTC */
        return fby__format("ts%c:%s", unit_letter(b, t, 0), fby__flat_string(b, t, 1).n ? "UTC" : "");
    case TYPE_FIXED_BINARY: return fby__format("w:%d", (int)fby__flat_int(b, t, 0, 4, 0));
    case TYPE_FIXED_LIST: return fby__format("+w:%d", (int)fby__flat_int(b, t, 0, 4, 0));
    default: *out_known = false; return NULL;
    }
}

/* ---- the tree ---- */

static void schema_release(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i] && schema->children[i]->release)
            schema->children[i]->release(schema->children[i]);
        fby__free(schema->children[i]);
    }
    if (schema->dictionary && schema->dictionary->release)
        schema->dictionary->release(schema->dictionary);
    fby__free(schema->dictionary);
    fby__free(schema->children);
    fby__free((void *)(uintptr_t)schema->format); /* ours: allocated */
    fby__free((void *)(uintptr_t)schema->name);
    *schema = (struct ArrowSchema){0};
}

static fby_status read_field(reading *r, const fby__flat_table *field, uint32_t depth, struct ArrowSchema *out, fby_error *err);

static fby_status read_children(reading *r, const fby__flat_vector *fields, uint32_t depth, struct ArrowSchema *out, fby_error *err)
{
    if (depth > FBY__MAX_LEVEL)
        return fby__fail(err, FBY_E_UNSUPPORTED, "columns nested more than %d levels deep", FBY__MAX_LEVEL);
    if (fields->n > r->flat->n / 8 - r->n_fields) /* a field takes more */
        return damaged(err, "it names more fields than it has room for");
    r->n_fields += fields->n;
    out->children = fby__calloc(fields->n, sizeof(struct ArrowSchema *));
    if (!out->children)
        return no_memory(err);
    for (uint32_t i = 0; i < fields->n; i++) {
        struct ArrowSchema *child = out->children[i] = fby__calloc(1, sizeof *child);
        if (!child)
            return no_memory(err);
        out->n_children = i + 1;
        fby__flat_table field = fby__flat_element(r->flat, fields, i);
        FBY__TRY(read_field(r, &field, depth, child, err));
    }
    return FBY_OK;
}

/* The column's values become the dictionary's type, its indices the column's. */
static fby_status read_dictionary(reading *r, const fby__flat_table *dictionary, struct ArrowSchema *out, fby_error *err)
{
    fby__flat_table index = fby__flat_table_in(r->flat, dictionary, DICTIONARY_INDEX);
    const char *format = index.at ? integer_format(r->flat, &index) : "i";
    if (fby__flat_int(r->flat, dictionary, DICTIONARY_KIND, 2, 0) != 0 || !format)
        return damaged(err, "a dictionary of unknown kind");
    struct ArrowSchema *values = fby__calloc(1, sizeof *values);
    char *indices = fby__strdup(format);
    if (!values || !indices || fby__grow((void **)&r->ids, &r->cap_ids, r->n_ids + 1, sizeof *r->ids) != 0) {
        fby__free(values);
        fby__free(indices);
        return no_memory(err);
    }
    r->ids[r->n_ids++] = fby__flat_int(r->flat, dictionary, DICTIONARY_ID, 8, 0);
    *values = (struct ArrowSchema){.format = out->format,
                                   .flags = ARROW_FLAG_NULLABLE,
                                   .n_children = out->n_children,
                                   .children = out->children,
                                   .release = schema_release};
    out->format = indices;
    out->children = NULL;
    out->n_children = 0;
    out->dictionary = values;
    return FBY_OK;
}

static fby_status read_field(reading *r, const fby__flat_table *field, uint32_t depth, struct ArrowSchema *out, fby_error *err)
{
    fby__flatbuffer *b = r->flat;
    out->release = schema_release;
    fby__bytes name = fby__flat_string(b, field, FIELD_NAME);
    fby__flat_table kind = fby__flat_table_in(b, field, FIELD_TYPE), dictionary = fby__flat_table_in(b, field, FIELD_DICTIONARY);
    fby__flat_vector children = fby__flat_vector_in(b, field, FIELD_CHILDREN, 4);
    bool known;
    fby__ipc_type code = (fby__ipc_type)fby__flat_int(b, field, FIELD_TYPE_TYPE, 1, 0);
    char *format = format_of(b, code, &kind, &known);
    out->format = format;
    if (b->damaged || kind.at == 0)
        return damaged(err, "a position lies outside of it");
    if (name.n && memchr(name.data, 0, name.n))
        return damaged(err, "a column's name has a NUL in it");
    out->name = fby__strndup(name.n ? (const char *)name.data : "", name.n);
    if (!out->name)
        return no_memory(err);
    if (!known)
        return fby__fail(err, FBY_E_UNSUPPORTED, "column '%.200s' has the Arrow type number %d, which this version does not know",
                         out->name, (int)code);
    if (!format)
        return no_memory(err);
    out->flags = fby__flat_int(b, field, FIELD_NULLABLE, 1, 0) ? ARROW_FLAG_NULLABLE : 0;
    if (children.n)
        FBY__TRY(read_children(r, &children, depth + 1, out, err));
    return dictionary.at ? read_dictionary(r, &dictionary, out, err) : FBY_OK;
}

static fby_status read_tree(fby__ipc_table *table, reading *r, fby_error *err)
{
    fby__flatbuffer *b = r->flat;
    fby__flat_table root = fby__flat_root(b);
    fby__flat_table schema = fby__flat_table_in(b, &root, table->is_stream ? MESSAGE_HEADER : FOOTER_SCHEMA);
    int64_t version = fby__flat_int(b, &root, table->is_stream ? MESSAGE_VERSION : FOOTER_VERSION, 2, 0);
    int64_t endianness = fby__flat_int(b, &schema, SCHEMA_ENDIANNESS, 2, 0);
    fby__flat_vector fields = fby__flat_vector_in(b, &schema, SCHEMA_FIELDS, 4);
    if (b->damaged || schema.at == 0)
        return damaged(err, "a position lies outside of it");
    if (version < 3 || version > 4) /* V4, V5: since 2017 */
        return fby__fail(err, FBY_E_UNSUPPORTED, "version %d of Arrow's metadata; versions 4 and 5 are supported", (int)version + 1);
    if (endianness != 0)
        return fby__fail(err, FBY_E_UNSUPPORTED, "it is big-endian; write it anew on a little-endian machine (pyarrow.ipc reads either)");
    table->schema.release = schema_release;
    table->schema.format = fby__strdup("+s");
    if (!table->schema.format)
        return no_memory(err);
    return read_children(r, &fields, 0, &table->schema, err);
}

/* ---- nodes ---- */

static uint32_t count_nodes(const struct ArrowSchema *schema)
{
    uint32_t n = 0;
    for (int64_t i = 0; i < schema->n_children; i++)
        n += 1 + count_nodes(schema->children[i]);
    return n;
}

/* The dictionary of this id, which several columns may share. */
static fby_status find_dictionary(fby__ipc_table *table, int64_t id, const struct ArrowSchema *values, uint32_t *out, fby_error *err)
{
    for (uint32_t i = 0; i < table->n_dictionaries; i++)
        if (table->dictionaries[i].id == id) {
            *out = i;
            return strcmp(table->dictionaries[i].schema->format, values->format) == 0
                       ? FBY_OK
                       : damaged(err, "columns of different types share a dictionary");
        }
    fby__ipc_dictionary *d = &table->dictionaries[ *out = table->n_dictionaries++];
    *d = (fby__ipc_dictionary){.id = id, .schema = values};
    return fby__arrow_format_parse(values->format, &d->format, err);
}

static fby_status add_nodes(fby__ipc_table *table, const struct ArrowSchema *schema, uint32_t parent, const int64_t **ids,
                            uint32_t *io_leaf, fby_error *err)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *child = schema->children[i];
        uint32_t number = table->n_nodes++;
        fby__ipc_node *node = &table->nodes[number];
        *node = (fby__ipc_node){.schema = child,
                                .parent = parent,
                                .first_leaf = *io_leaf,
                                .first_buffer = table->n_fixed_buffers,
                                .first_view = table->n_views,
                                .dictionary = FBY__IPC_NONE};
        FBY__TRY(fby__arrow_format_parse(child->format, &node->format, err));
        if (child->dictionary)
            FBY__TRY(find_dictionary(table, *(*ids)++, child->dictionary, &node->dictionary, err));
        table->n_fixed_buffers += fby__arrow_fixed_buffers(node->format.storage);
        table->n_views += node->format.storage == FBY__ARROW_VIEW;
        if (child->n_children == 0)
            table->leaf_nodes[(*io_leaf)++] = number;
        FBY__TRY(add_nodes(table, child, number, ids, io_leaf, err));
        node->n_below = table->n_nodes - number;
        node->n_leaves = *io_leaf - node->first_leaf;
    }
    return FBY_OK;
}

static fby_status make_nodes(fby__ipc_table *table, const reading *r, fby_error *err)
{
    uint32_t n = count_nodes(&table->schema), leaf = 0;
    const int64_t *ids = r->ids;
    table->nodes = fby__calloc(n, sizeof *table->nodes);
    table->leaf_nodes = fby__calloc(table->base.schema->n_leaves, sizeof *table->leaf_nodes);
    table->dictionaries = fby__calloc(r->n_ids, sizeof *table->dictionaries);
    if (!table->nodes || !table->leaf_nodes || !table->dictionaries)
        return no_memory(err);
    return add_nodes(table, &table->schema, FBY__IPC_NONE, &ids, &leaf, err);
}

fby_status fby__ipc_schema_read(fby__ipc_table *table, fby_error *err)
{
    fby__flatbuffer flat = fby__flatbuffer_of((fby__bytes){table->metadata.data, table->metadata.n});
    reading r = {.flat = &flat};
    fby_status status = read_tree(table, &r, err);
    if (status == FBY_OK) {
        status = fby__arrow_schema_import(&table->schema, &table->base.schema, err);
        if (status == FBY_E_ARG) { /* to the import a schema is an argument */
            status = FBY_E_FORMAT;
            if (err)
                err->code = status;
        }
    }
    if (status == FBY_OK)
        status = make_nodes(table, &r, err);
    fby__free(r.ids);
    return status;
}

/* ---- key-value metadata ---- */

#define MOST_COPIED ((uint64_t)64 << 20) /* as much as a schema's paths */
#define PAIR_BYTES 16u                   /* at least, besides its texts: where it is listed, itself, and the lengths of the texts */

/* Elements may share their bytes, and writers do not do it. */
static bool are_too_many(const fby__flatbuffer *b, uint64_t *io_bytes, uint64_t more)
{
    *io_bytes += more;
    return b->damaged || *io_bytes > b->n;
}

static fby_status add_pairs(fby__flatbuffer *b, const fby__flat_vector *pairs, uint64_t *io_bytes, fby_contents *out, fby_error *err)
{
    for (uint32_t i = 0; i < pairs->n; i++) {
        const fby__flat_table pair = fby__flat_element(b, pairs, i);
        const fby__bytes key = fby__flat_string(b, &pair, PAIR_KEY), value = fby__flat_string(b, &pair, PAIR_VALUE);
        if (are_too_many(b, io_bytes, key.n + value.n))
            return damaged(err, "a position lies outside of it");
        FBY__TRY(fby__contents_add_text(out, key, value, err));
    }
    return FBY_OK;
}

/* The columns, and what lies in them, field after field. */
typedef struct visit {
    fby__flatbuffer *flat;
    uint64_t *io_bytes;
    fby_contents *out;
    fby__buf path;     /* owned: of the field */
    size_t column_n;   /* of it, the column's name */
    uint32_t n_fields; /* so far */
    uint64_t n_copied; /* bytes of names and paths */
} visit;

/* Adds a field that has metadata of its own. */
static fby_status add_field(visit *v, const fby__flat_table *field, fby_error *err)
{
    const fby__flat_vector pairs = fby__flat_vector_in(v->flat, field, FIELD_CUSTOM, 4);
    if (are_too_many(v->flat, v->io_bytes, (uint64_t)pairs.n * PAIR_BYTES))
        return damaged(err, "a position lies outside of it");
    if (pairs.n == 0)
        return FBY_OK;
    v->n_copied += v->path.n;
    FBY__TRY(fby__contents_begin_field(v->out, (fby__bytes){v->path.data, v->path.n}, v->column_n, pairs.n, err));
    return add_pairs(v->flat, &pairs, v->io_bytes, v->out, err);
}

/* Those that lie in a field, or in the schema, with those in them. */
static fby_status add_fields(visit *v, const fby__flat_vector *fields, fby__contents_level level, uint32_t depth, fby_error *err)
{
    fby__flatbuffer *b = v->flat;
    if (b->damaged || fields->n > b->n / 8 - v->n_fields) /* a field takes more */
        return damaged(err, "a position lies outside of it");
    if (depth > FBY__MAX_LEVEL)
        return damaged(err, "its columns are nested too deep");
    v->n_fields += fields->n;
    const size_t path_n = v->path.n;
    for (uint32_t i = 0; i < fields->n; i++) {
        const fby__flat_table field = fby__flat_element(b, fields, i);
        const fby__bytes name = fby__flat_string(b, &field, FIELD_NAME);
        const fby__flat_vector below = fby__flat_vector_in(b, &field, FIELD_CHILDREN, 4);
        const char *format = simple_format((fby__ipc_type)fby__flat_int(b, &field, FIELD_TYPE_TYPE, 1, 0));
        v->n_copied += name.n;
        if (b->damaged || v->n_copied > MOST_COPIED)
            return damaged(err, b->damaged ? "a position lies outside of it" : "its names are too long");
        v->path.n = path_n;
        const bool of_schema = depth == 0;
        if (of_schema ? name.n && fby__buf_put(&v->path, name.data, name.n) : fby__contents_step(&v->path, level, i, name))
            return no_memory(err);
        v->column_n = of_schema ? v->path.n : v->column_n;
        FBY__TRY(add_field(v, &field, err));
        FBY__TRY(add_fields(v, &below, fby__contents_level_of(format ? format : "+w", level), depth + 1, err));
    }
    v->path.n = path_n;
    return FBY_OK;
}

/* Behind what is there. One that has too many is left out: the others, and the file's, are as readable. */
static fby_status add_columns(fby__flatbuffer *b, const fby__flat_table *schema, uint64_t *io_bytes, fby_contents *out, fby_error *err)
{
    visit v = {.flat = b, .io_bytes = io_bytes, .out = out};
    const fby__flat_vector fields = fby__flat_vector_in(b, schema, SCHEMA_FIELDS, 4);
    const fby_status status = add_fields(&v, &fields, FBY__LEVEL_STRUCT, 0, err);
    fby__buf_fini(&v.path);
    return status;
}

fby_status fby__ipc_contents_of_message(fby__bytes message, fby_contents *out, fby_error *err)
{
    const size_t begin =
        message.n >= 4 && fby__load_u32(message.data) == UINT32_MAX ? 8 : 4; /* before Arrow 0.15 without the first four bytes */
    if (message.n <= begin)
        return damaged(err, "it ends too early");
    fby__flatbuffer b = fby__flatbuffer_of((fby__bytes){message.data + begin, message.n - begin});
    const fby__flat_table root = fby__flat_root(&b), schema = fby__flat_table_in(&b, &root, MESSAGE_HEADER);
    uint64_t bytes = 0;
    if (fby__flat_int(&b, &root, MESSAGE_HEADER_TYPE, 1, 0) != HEADER_SCHEMA)
        return damaged(err, "it is another message");
    return add_columns(&b, &schema, &bytes, out, err);
}

fby_status fby__ipc_contents(fby__file *file, const fby__table *base, fby_contents *out, fby_error *err)
{
    const fby__ipc_table *table = fby__ipc(base);
    fby__flatbuffer b = fby__flatbuffer_of((fby__bytes){table->metadata.data, table->metadata.n});
    const fby__flat_table root = fby__flat_root(&b);
    const fby__flat_table schema = fby__flat_table_in(&b, &root, table->is_stream ? MESSAGE_HEADER : FOOTER_SCHEMA);
    const fby__flat_vector none = {0}, of_file = table->is_stream ? none : fby__flat_vector_in(&b, &root, FOOTER_CUSTOM, 4),
                           of_schema = fby__flat_vector_in(&b, &schema, SCHEMA_CUSTOM, 4);
    uint64_t bytes = 0;
    fby_status status = b.damaged ? damaged(err, "a position lies outside of it") : FBY_OK;
    if (status == FBY_OK)
        status = fby__contents_begin(out, (size_t)of_file.n + of_schema.n, err);
    if (status == FBY_OK)
        status = add_pairs(&b, &of_file, &bytes, out, err);
    if (status == FBY_OK)
        status = add_pairs(&b, &of_schema, &bytes, out, err);
    if (status == FBY_OK)
        status = add_columns(&b, &schema, &bytes, out, err);
    if (status != FBY_OK)
        fby__error_context(err, "'%s'", fby__file_path(file));
    return status;
}
