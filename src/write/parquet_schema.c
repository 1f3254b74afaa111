/*
 * Arrow schema → Parquet's.
 *
 *     list, large list, fixed-size list   optional group a (LIST) { repeated group list { optional T element; } }
 *     map                                 optional group a (MAP) { repeated group key_value { required K key; optional V value; } }
 *     struct                              optional group a { … }
 *
 * Physical and logical types are those that most readers know, which are those that pyarrow writes, but for decimals of up to 18 digits: they
 * are integers, which everybody reads too, and faster. Parquet has no seconds: times and timestamps in seconds become milliseconds. Durations
 * have no type: they are int64, and the Arrow schema beside Parquet's (parquet_writer.c) says what they mean.
 */
#include "write/parquet_impl.h"

#include <assert.h>
#include <stdio.h>

/* ---- leaves ---- */

static void set_leaf(fby__pqw_leaf *l, int32_t physical, uint32_t value_bytes, fby__pqw_from from, fby__pqw_order order)
{
    l->physical = physical;
    l->value_bytes = value_bytes;
    l->from = from;
    l->order = order;
}

static void set_integer(fby__pqw_leaf *l, fby_dtype dtype)
{
    switch (dtype) {
    case FBY_INT8: set_leaf(l, FBY__PQ_INT32, 4, FBY__PQW_I8, FBY__PQW_ORDER_I32); break;
    case FBY_UINT8: set_leaf(l, FBY__PQ_INT32, 4, FBY__PQW_U8, FBY__PQW_ORDER_U32); break;
    case FBY_INT16: set_leaf(l, FBY__PQ_INT32, 4, FBY__PQW_I16, FBY__PQW_ORDER_I32); break;
    case FBY_UINT16: set_leaf(l, FBY__PQ_INT32, 4, FBY__PQW_U16, FBY__PQW_ORDER_U32); break;
    case FBY_INT32: set_leaf(l, FBY__PQ_INT32, 4, FBY__PQW_COPY, FBY__PQW_ORDER_I32); break;
    case FBY_UINT32: set_leaf(l, FBY__PQ_INT32, 4, FBY__PQW_COPY, FBY__PQW_ORDER_U32); break;
    case FBY_UINT64: set_leaf(l, FBY__PQ_INT64, 8, FBY__PQW_COPY, FBY__PQW_ORDER_U64); break;
    default: set_leaf(l, FBY__PQ_INT64, 8, FBY__PQW_COPY, FBY__PQW_ORDER_I64);
    }
}

static void set_float(fby__pqw_leaf *l, fby_dtype dtype)
{
    if (dtype == FBY_FLOAT16)
        set_leaf(l, FBY__PQ_FLBA, 2, FBY__PQW_COPY, FBY__PQW_ORDER_F16);
    else if (dtype == FBY_FLOAT32)
        set_leaf(l, FBY__PQ_FLOAT, 4, FBY__PQW_COPY, FBY__PQW_ORDER_F32);
    else
        set_leaf(l, FBY__PQ_DOUBLE, 8, FBY__PQW_COPY, FBY__PQW_ORDER_F64);
}

/* Bytes of a big-endian integer that holds so many digits and a sign. 30103 / 100000 is just above log10(2): right up to 76 digits. */
static uint32_t decimal_bytes(int32_t digits)
{
    uint32_t n = 1;
    while ((8 * n - 1) * 30103 / 100000 < (uint32_t)digits)
        n++;
    return n;
}

static fby_status set_decimal(fby__pqw_leaf *l, const fby__arrow_format *format, fby_error *err)
{
    const int32_t digits = format->field.precision;
    if (format->field.scale < 0 || format->field.scale > digits)
        return fby__fail(err, FBY_E_UNSUPPORTED, "Parquet has no decimals of %d digits, %d of them behind the point; cast the column",
                         digits, format->field.scale);
    if (digits <= 9)
        set_leaf(l, FBY__PQ_INT32, 4, format->width == 4 ? FBY__PQW_COPY : FBY__PQW_NARROW, FBY__PQW_ORDER_I32);
    else if (digits <= 18)
        set_leaf(l, FBY__PQ_INT64, 8, format->width == 8 ? FBY__PQW_COPY : FBY__PQW_NARROW, FBY__PQW_ORDER_I64);
    else
        set_leaf(l, FBY__PQ_FLBA, decimal_bytes(digits), FBY__PQW_REVERSE, FBY__PQW_ORDER_BIG_ENDIAN);
    if (l->value_bytes > format->width)
        return fby__fail(err, FBY_E_ARG, "a decimal of %u bits has no %d digits", 8 * format->width, digits);
    return FBY_OK;
}

static fby_status set_type(fby__pqw_leaf *l, const fby__arrow_format *format, fby_error *err)
{
    const fby_field *field = &format->field;
    l->arrow_bytes = format->width;
    switch (field->kind) {
    case FBY_KIND_NULL: set_leaf(l, FBY__PQ_INT32, 4, FBY__PQW_NOTHING, FBY__PQW_UNORDERED); return FBY_OK;
    case FBY_KIND_BOOL: set_leaf(l, FBY__PQ_BOOLEAN, 1, FBY__PQW_BITS, FBY__PQW_ORDER_BOOL); return FBY_OK;
    case FBY_KIND_INT: set_integer(l, format->stored); return FBY_OK;
    case FBY_KIND_FLOAT: set_float(l, format->stored); return FBY_OK;
    case FBY_KIND_DECIMAL: return set_decimal(l, format, err);
    case FBY_KIND_DATE:
        set_leaf(l, FBY__PQ_INT32, 4, format->unit_div == 1 ? FBY__PQW_COPY : FBY__PQW_DAYS, FBY__PQW_ORDER_I32);
        return FBY_OK;
    case FBY_KIND_TIME:
        if (format->width == 4)
            set_leaf(l, FBY__PQ_INT32, 4, field->unit == FBY_UNIT_S ? FBY__PQW_SECONDS_32 : FBY__PQW_COPY, FBY__PQW_ORDER_I32);
        else
            set_leaf(l, FBY__PQ_INT64, 8, FBY__PQW_COPY, FBY__PQW_ORDER_I64);
        return FBY_OK;
    case FBY_KIND_TIMESTAMP:
        set_leaf(l, FBY__PQ_INT64, 8, field->unit == FBY_UNIT_S ? FBY__PQW_SECONDS_64 : FBY__PQW_COPY, FBY__PQW_ORDER_I64);
        return FBY_OK;
    case FBY_KIND_DURATION: set_leaf(l, FBY__PQ_INT64, 8, FBY__PQW_COPY, FBY__PQW_ORDER_I64); return FBY_OK;
    case FBY_KIND_STRING:
    case FBY_KIND_BINARY: set_leaf(l, FBY__PQ_BYTE_ARRAY, 0, FBY__PQW_STRINGS, FBY__PQW_ORDER_BYTES); return FBY_OK;
    case FBY_KIND_FIXED_BINARY:
        if (format->width == 0)
            return fby__fail(err, FBY_E_UNSUPPORTED, "Parquet has no binaries of a fixed size of 0 bytes; leave the column out");
        set_leaf(l, FBY__PQ_FLBA, format->width, FBY__PQW_COPY, FBY__PQW_ORDER_BYTES);
        return FBY_OK;
    default: return fby__fail(err, FBY_E_UNSUPPORTED, "Parquet has no counterpart of this type");
    }
}

/* ---- the tree ---- */

typedef struct importer {
    fby__pqw_schema *schema;
    size_t node_cap, leaf_cap;
    uint32_t path[FBY__MAX_LEVEL + 1];
} importer;

static bool is_list(fby__arrow_storage storage)
{
    return storage == FBY__ARROW_LIST32 || storage == FBY__ARROW_LIST64 || storage == FBY__ARROW_FIXED_LIST;
}

static fby_status in_path(const importer *im, unsigned depth, fby_status status, fby_error *err)
{
    fby__pqw_leaf at = {.path = (uint32_t *)im->path, .n_path = depth};
    return fby__pqw_in_column(im->schema, &at, status, err);
}

static fby_status add_leaf(importer *im, unsigned depth, fby_error *err)
{
    fby__pqw_schema *s = im->schema;
    if (fby__grow((void **)&s->leaves, &im->leaf_cap, s->n_leaves + 1, sizeof *s->leaves) != 0)
        return fby__fail_nomem(err, "a Parquet schema");
    fby__pqw_leaf *l = &s->leaves[s->n_leaves++];
    *l = (fby__pqw_leaf){.path = fby__malloc(depth * sizeof *l->path), .n_path = depth};
    if (!l->path)
        return fby__fail_nomem(err, "a Parquet schema");
    memcpy(l->path, im->path, depth * sizeof *l->path);
    for (unsigned i = 0; i < depth; i++) {
        const fby__pqw_node *node = &s->nodes[l->path[i]];
        l->max_def += node->nullable + is_list(node->format.storage);
        l->max_rep += is_list(node->format.storage);
    }
    fby_status status = set_type(l, &s->nodes[l->path[depth - 1]].format, err);
    return status == FBY_OK ? FBY_OK : in_path(im, depth, status, err);
}

/* depth: of the nodes above, the root apart */
static fby_status add_node(importer *im, const struct ArrowSchema *in, uint32_t parent, uint32_t child, unsigned depth, fby_error *err)
{
    fby__pqw_schema *s = im->schema;
    if (depth == FBY__MAX_LEVEL)
        return in_path(im, 1, fby__fail(err, FBY_E_UNSUPPORTED, "nested more than %d levels deep", FBY__MAX_LEVEL), err);
    if (fby__grow((void **)&s->nodes, &im->node_cap, s->n_nodes + 1, sizeof *s->nodes) != 0)
        return fby__fail_nomem(err, "a Parquet schema");
    const uint32_t at = im->path[depth] = s->n_nodes++;
    fby__pqw_node *node = &s->nodes[at];
    *node = (fby__pqw_node){.parent = parent, .child = child, .name = fby__strdup(in->name ? in->name : "")};
    if (!node->name)
        return fby__fail_nomem(err, "a Parquet schema");
    fby_status status = fby__arrow_format_parse(in->format, &node->format, err);
    if (status == FBY_OK && in->dictionary)
        status = fby__fail(err, FBY_E_UNSUPPORTED, "dictionary-encoded columns are not written; decode the column");
    if (status == FBY_OK && node->format.storage == FBY__ARROW_STRUCT && in->n_children == 0)
        status = fby__fail(err, FBY_E_UNSUPPORTED, "Parquet has no structs without fields; leave it out");
    if (status != FBY_OK)
        return in_path(im, depth + 1, status, err);
    const fby_kind above = s->nodes[parent].format.field.kind;
    node->is_map_entries = parent && above == FBY_KIND_MAP;
    const bool is_key = node->child == 0 && s->nodes[parent].is_map_entries;
    node->nullable = ((in->flags & ARROW_FLAG_NULLABLE) || node->format.storage == FBY__ARROW_NULL) && !node->is_map_entries && !is_key;
    node->n_children = (uint32_t)in->n_children;
    if (in->n_children == 0)
        return add_leaf(im, depth + 1, err);
    for (int64_t i = 0; i < in->n_children; i++)
        FBY__TRY(add_node(im, in->children[i], at, (uint32_t)i, depth + 1, err));
    return FBY_OK;
}

fby_status fby__pqw_schema_init(const struct ArrowSchema *in, fby__pqw_schema *out, fby_error *err)
{
    importer im = {.schema = out};
    *out = (fby__pqw_schema){.n_nodes = 1};
    if (fby__grow((void **)&out->nodes, &im.node_cap, 1, sizeof *out->nodes) != 0)
        return fby__fail_nomem(err, "a Parquet schema");
    out->nodes[0] = (fby__pqw_node){.format = {.storage = FBY__ARROW_STRUCT, .field = {.kind = FBY_KIND_STRUCT}},
                                    .n_children = (uint32_t)in->n_children};
    for (int64_t i = 0; i < in->n_children; i++)
        FBY__TRY(add_node(&im, in->children[i], 0, (uint32_t)i, 0, err));
    return FBY_OK;
}

void fby__pqw_schema_fini(fby__pqw_schema *schema)
{
    for (uint32_t i = 0; schema->nodes && i < schema->n_nodes; i++)
        fby__free(schema->nodes[i].name);
    for (uint32_t i = 0; i < schema->n_leaves; i++)
        fby__free(schema->leaves[i].path);
    fby__free(schema->nodes);
    fby__free(schema->leaves);
    *schema = (fby__pqw_schema){0};
}

fby_status fby__pqw_in_column(const fby__pqw_schema *schema, const fby__pqw_leaf *leaf, fby_status status, fby_error *err)
{
    char path[256];
    size_t used = 0;
    path[0] = 0;
    for (uint32_t i = 0; i < leaf->n_path && used < sizeof path; i++)
        used += (size_t)snprintf(path + used, sizeof path - used, "%s%s", i ? "." : "", schema->nodes[leaf->path[i]].name);
    fby__error_context(err, "column '%s'", path);
    return status;
}

/* ---- schema elements ---- */

static void put_name(fby__thrift_out *t, int16_t id, const char *name) { fby__thrift_put_binary(t, id, name, strlen(name)); }

/* The name that a node has in the file: what is below a list or map has one of its own. */
static const char *name_of(const fby__pqw_schema *s, const fby__pqw_node *node)
{
    if (node->is_map_entries)
        return "key_value";
    if (node->parent && s->nodes[node->parent].is_map_entries)
        return node->child == 0 ? "key" : "value";
    return node->parent && is_list(s->nodes[node->parent].format.storage) ? "element" : node->name;
}

static void put_time(fby__thrift_out *t, int16_t logical, const fby_field *field)
{
    fby__thrift_put_struct(t, logical);
    fby__thrift_put_bool(t, 1, field->utc);
    fby__thrift_put_struct(t, 2);
    fby__thrift_put_struct(t, field->unit == FBY_UNIT_NS ? 3 : field->unit == FBY_UNIT_US ? 2 : 1); /* seconds are milliseconds here */
    fby__thrift_close(t);
    fby__thrift_close(t);
    fby__thrift_close(t);
}

static void put_annotation(fby__thrift_out *t, int converted, int16_t logical)
{
    if (converted != FBY__PQ_CONV_NONE)
        fby__thrift_put_i32(t, 6, converted);
    fby__thrift_put_struct(t, 10);
    fby__thrift_put_struct(t, logical);
    fby__thrift_close(t);
    fby__thrift_close(t);
}

/* Fields 6 … 10 of a SchemaElement: what the value means. ConvertedType beside LogicalType, for old readers, where it says the same. */
static void put_meaning(fby__thrift_out *t, const fby__arrow_format *format)
{
    const fby_field *field = &format->field;
    const uint32_t bits = 8 * format->width;
    switch (field->kind) {
    case FBY_KIND_NULL: put_annotation(t, FBY__PQ_CONV_NONE, FBY__PQ_LOGICAL_UNKNOWN); break;
    case FBY_KIND_STRING: put_annotation(t, FBY__PQ_CONV_UTF8, FBY__PQ_LOGICAL_STRING); break;
    case FBY_KIND_DATE: put_annotation(t, FBY__PQ_CONV_DATE, FBY__PQ_LOGICAL_DATE); break;
    case FBY_KIND_FLOAT:
        if (format->stored == FBY_FLOAT16)
            put_annotation(t, FBY__PQ_CONV_NONE, FBY__PQ_LOGICAL_FLOAT16);
        break;
    case FBY_KIND_INT: {
        const bool is_signed = format->stored <= FBY_INT64 && format->stored >= FBY_INT8;
        if (is_signed && bits >= 32)
            break; /* what the physical type says */
        const int size = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
        fby__thrift_put_i32(t, 6, (is_signed ? FBY__PQ_CONV_INT_8 : FBY__PQ_CONV_UINT_8) + size);
        fby__thrift_put_struct(t, 10);
        fby__thrift_put_struct(t, FBY__PQ_LOGICAL_INTEGER);
        fby__thrift_put_i8(t, 1, (int8_t)bits);
        fby__thrift_put_bool(t, 2, is_signed);
        fby__thrift_close(t);
        fby__thrift_close(t);
        break;
    }
    case FBY_KIND_DECIMAL:
        fby__thrift_put_i32(t, 6, FBY__PQ_CONV_DECIMAL);
        fby__thrift_put_i32(t, 7, field->scale);
        fby__thrift_put_i32(t, 8, field->precision);
        fby__thrift_put_struct(t, 10);
        fby__thrift_put_struct(t, FBY__PQ_LOGICAL_DECIMAL);
        fby__thrift_put_i32(t, 1, field->scale);
        fby__thrift_put_i32(t, 2, field->precision);
        fby__thrift_close(t);
        fby__thrift_close(t);
        break;
    case FBY_KIND_TIME:
    case FBY_KIND_TIMESTAMP: {
        const bool is_time = field->kind == FBY_KIND_TIME;
        if (field->utc && field->unit != FBY_UNIT_NS) /* converted types are instants; there is none of nanoseconds */
            fby__thrift_put_i32(t, 6,
                                field->unit == FBY_UNIT_US ? (is_time ? FBY__PQ_CONV_TIME_MICROS : FBY__PQ_CONV_TIMESTAMP_MICROS)
                                                           : (is_time ? FBY__PQ_CONV_TIME_MILLIS : FBY__PQ_CONV_TIMESTAMP_MILLIS));
        fby__thrift_put_struct(t, 10);
        put_time(t, is_time ? FBY__PQ_LOGICAL_TIME : FBY__PQ_LOGICAL_TIMESTAMP, field);
        fby__thrift_close(t);
        break;
    }
    default: break;
    }
}

static void put_group(fby__thrift_out *t, const char *name, int32_t repetition, uint32_t n_children, int converted, int16_t logical)
{
    fby__thrift_open(t);
    fby__thrift_put_i32(t, 3, repetition);
    put_name(t, 4, name);
    fby__thrift_put_i32(t, 5, (int32_t)n_children);
    if (logical != FBY__PQ_LOGICAL_NONE)
        put_annotation(t, converted, logical);
    fby__thrift_close(t);
}

static void put_node(const fby__pqw_schema *s, const fby__pqw_node *node, const fby__pqw_leaf *leaf, fby__thrift_out *t)
{
    const char *name = name_of(s, node);
    const int32_t repetition = node->is_map_entries ? FBY__PQ_REPEATED : node->nullable ? FBY__PQ_OPTIONAL : FBY__PQ_REQUIRED;
    if (node->format.field.kind == FBY_KIND_MAP) {
        put_group(t, name, repetition, 1, FBY__PQ_CONV_MAP, FBY__PQ_LOGICAL_MAP); /* its entries are the repeated group */
    } else if (is_list(node->format.storage)) {
        put_group(t, name, repetition, 1, FBY__PQ_CONV_LIST, FBY__PQ_LOGICAL_LIST);
        put_group(t, "list", FBY__PQ_REPEATED, 1, FBY__PQ_CONV_NONE, FBY__PQ_LOGICAL_NONE);
    } else if (node->n_children) {
        put_group(t, name, repetition, node->n_children, FBY__PQ_CONV_NONE, FBY__PQ_LOGICAL_NONE);
    } else {
        fby__thrift_open(t);
        fby__thrift_put_i32(t, 1, leaf->physical);
        if (leaf->physical == FBY__PQ_FLBA)
            fby__thrift_put_i32(t, 2, (int32_t)leaf->value_bytes);
        fby__thrift_put_i32(t, 3, repetition);
        put_name(t, 4, name);
        put_meaning(t, &node->format);
        fby__thrift_close(t);
    }
}

void fby__pqw_put_schema(const fby__pqw_schema *s, fby__thrift_out *t)
{
    uint32_t n = s->n_nodes, leaf = 0;
    for (uint32_t i = 1; i < s->n_nodes; i++) /* lists have a group more */
        n += is_list(s->nodes[i].format.storage) && s->nodes[i].format.field.kind != FBY_KIND_MAP;
    fby__thrift_put_list(t, 2, FBY__THRIFT_STRUCT, n);
    fby__thrift_open(t);
    put_name(t, 4, "schema");
    fby__thrift_put_i32(t, 5, (int32_t)s->nodes[0].n_children);
    fby__thrift_close(t);
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        put_node(s, &s->nodes[i], &s->leaves[leaf], t);
        leaf += s->nodes[i].n_children == 0;
    }
    assert(leaf == s->n_leaves);
}

void fby__pqw_put_path(const fby__pqw_schema *s, const fby__pqw_leaf *leaf, fby__thrift_out *t)
{
    uint32_t n = leaf->n_path;
    for (uint32_t i = 0; i < leaf->n_path; i++) {
        const fby__pqw_node *node = &s->nodes[leaf->path[i]];
        n += is_list(node->format.storage) && node->format.field.kind != FBY_KIND_MAP;
    }
    fby__thrift_put_list(t, 3, FBY__THRIFT_BINARY, n);
    for (uint32_t i = 0; i < leaf->n_path; i++) {
        const fby__pqw_node *node = &s->nodes[leaf->path[i]];
        const char *name = name_of(s, node);
        fby__thrift_put_bytes(t, name, strlen(name));
        if (is_list(node->format.storage) && node->format.field.kind != FBY_KIND_MAP)
            fby__thrift_put_bytes(t, "list", 4);
    }
}
