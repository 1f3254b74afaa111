/*
 * Parquet's schema elements → fby__schema.
 *
 * What a leaf means comes from LogicalType, else ConvertedType, else the physical type; an annotation that does not fit
 * its physical type is ignored, as the specification asks of readers that do not know one.
 *
 * Durations are known from the Arrow schema alone, where the file keeps one (arrow_schema.c).
 *
 * Lists and maps: the groups that only carry repetition vanish; a list has one child, the element, a map one child, the
 * struct of key and value. All the legacy shapes of LogicalTypes.md ("Backward-compatibility rules") are read:
 *
 *     optional group a (LIST) { repeated group list { optional int32 element; } }       list<int32?>
 *     optional group a (LIST) { repeated int32 element; }                               list<int32>
 *     optional group a (LIST) { repeated group element { int32 x; int32 y; } }          list<struct<x, y>>
 *     optional group a (LIST) { repeated group array { int32 x; } }                     list<struct<x>>
 *     optional group a (LIST) { repeated group a_tuple { int32 x; } }                   list<struct<x>>
 *     repeated int32 a;                                                                 list<int32>, never null
 */
#include "format/parquet/meta.h"

#include "base/checked.h"

static const fby_field STRUCT_FIELD = {.kind = FBY_KIND_STRUCT};

/* ---- leaves ---- */

static fby_field plain_field(fby_kind kind, fby_dtype dtype) { return (fby_field){.kind = kind, .dtype = dtype}; }

static fby_field time_field(fby_kind kind, fby_dtype dtype, fby_unit unit, bool utc)
{
    return (fby_field){.kind = kind, .dtype = dtype, .unit = unit, .utc = utc};
}

static fby_field physical_field(const fby__pq_element *e)
{
    switch (e->type) {
    case FBY__PQ_BOOLEAN: return plain_field(FBY_KIND_BOOL, FBY_BOOL);
    case FBY__PQ_INT32: return plain_field(FBY_KIND_INT, FBY_INT32);
    case FBY__PQ_INT64: return plain_field(FBY_KIND_INT, FBY_INT64);
    case FBY__PQ_INT96: return time_field(FBY_KIND_TIMESTAMP, FBY_INT64, FBY_UNIT_NS, false);
    case FBY__PQ_FLOAT: return plain_field(FBY_KIND_FLOAT, FBY_FLOAT32);
    case FBY__PQ_DOUBLE: return plain_field(FBY_KIND_FLOAT, FBY_FLOAT64);
    case FBY__PQ_FLBA: return (fby_field){.kind = FBY_KIND_FIXED_BINARY, .byte_width = e->type_length};
    default: return plain_field(FBY_KIND_BINARY, FBY_DTYPE_NONE);
    }
}

static bool int_field(const fby__pq_element *e, int bits, bool is_signed, fby_field *out)
{
    static const fby_dtype dtypes[2][4] = {{FBY_UINT8, FBY_UINT16, FBY_UINT32, FBY_UINT64}, {FBY_INT8, FBY_INT16, FBY_INT32, FBY_INT64}};
    int i = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : -1;
    if (i < 0 || e->type != (bits == 64 ? FBY__PQ_INT64 : FBY__PQ_INT32))
        return false;
    *out = plain_field(FBY_KIND_INT, dtypes[is_signed][i]);
    return true;
}

static bool decimal_field(const fby__pq_element *e, fby_field *out)
{
    /* 76 digits is what Arrow's widest decimal holds. */
    bool typed = e->type == FBY__PQ_INT32 || e->type == FBY__PQ_INT64 || e->type == FBY__PQ_BYTE_ARRAY ||
                 (e->type == FBY__PQ_FLBA && e->type_length <= 32);
    if (!typed || e->precision < 1 || e->precision > 76 || e->scale < 0 || e->scale > e->precision)
        return false;
    *out = (fby_field){.kind = FBY_KIND_DECIMAL,
                       .dtype = FBY_FLOAT64,
                       .precision = e->precision,
                       .scale = e->scale,
                       .byte_width = e->type == FBY__PQ_FLBA ? e->type_length : 0};
    return true;
}

static bool time_of_day_field(const fby__pq_element *e, fby_unit unit, bool utc, fby_field *out)
{
    bool ms = unit == FBY_UNIT_MS;
    if (unit < FBY_UNIT_MS || e->type != (ms ? FBY__PQ_INT32 : FBY__PQ_INT64))
        return false;
    *out = time_field(FBY_KIND_TIME, ms ? FBY_INT32 : FBY_INT64, unit, utc);
    return true;
}

static bool timestamp_field(const fby__pq_element *e, fby_unit unit, bool utc, fby_field *out)
{
    if (unit < FBY_UNIT_MS || e->type != FBY__PQ_INT64)
        return false;
    *out = time_field(FBY_KIND_TIMESTAMP, FBY_INT64, unit, utc);
    return true;
}

static bool bytes_field(const fby__pq_element *e, fby_kind kind, fby_field *out)
{
    *out = plain_field(kind, FBY_DTYPE_NONE);
    return e->type == FBY__PQ_BYTE_ARRAY;
}

static bool fixed_field(const fby__pq_element *e, int32_t n, fby_field field, fby_field *out)
{
    *out = field;
    return e->type == FBY__PQ_FLBA && e->type_length == n;
}

static bool date_field(const fby__pq_element *e, fby_field *out)
{
    *out = plain_field(FBY_KIND_DATE, FBY_INT32);
    return e->type == FBY__PQ_INT32;
}

/* False: no logical type, an unknown one, or one that does not fit. */
static bool logical_field(const fby__pq_element *e, fby_field *out)
{
    switch (e->logical) {
    case FBY__PQ_LOGICAL_STRING:
    case FBY__PQ_LOGICAL_ENUM:
    case FBY__PQ_LOGICAL_JSON: return bytes_field(e, FBY_KIND_STRING, out);
    case FBY__PQ_LOGICAL_BSON: return bytes_field(e, FBY_KIND_BINARY, out);
    case FBY__PQ_LOGICAL_DECIMAL: return decimal_field(e, out);
    case FBY__PQ_LOGICAL_DATE: return date_field(e, out);
    case FBY__PQ_LOGICAL_TIME: return time_of_day_field(e, e->unit, e->utc, out);
    case FBY__PQ_LOGICAL_TIMESTAMP: return timestamp_field(e, e->unit, e->utc, out);
    case FBY__PQ_LOGICAL_INTEGER: return int_field(e, e->bits, e->is_signed, out);
    case FBY__PQ_LOGICAL_UNKNOWN: *out = plain_field(FBY_KIND_NULL, FBY_DTYPE_NONE); return true;
    case FBY__PQ_LOGICAL_UUID: return fixed_field(e, 16, (fby_field){.kind = FBY_KIND_FIXED_BINARY, .byte_width = 16}, out);
    case FBY__PQ_LOGICAL_FLOAT16: return fixed_field(e, 2, plain_field(FBY_KIND_FLOAT, FBY_FLOAT16), out);
    default: return false;
    }
}

static bool converted_field(const fby__pq_element *e, fby_field *out)
{
    switch (e->converted) {
    case FBY__PQ_CONV_UTF8:
    case FBY__PQ_CONV_ENUM:
    case FBY__PQ_CONV_JSON: return bytes_field(e, FBY_KIND_STRING, out);
    case FBY__PQ_CONV_BSON: return bytes_field(e, FBY_KIND_BINARY, out);
    case FBY__PQ_CONV_DECIMAL: return decimal_field(e, out);
    case FBY__PQ_CONV_DATE: return date_field(e, out);
    /* "Backward compatibility" of LogicalTypes.md: converted times are adjusted to UTC; pyarrow reads them so too. */
    case FBY__PQ_CONV_TIME_MILLIS: return time_of_day_field(e, FBY_UNIT_MS, true, out);
    case FBY__PQ_CONV_TIME_MICROS: return time_of_day_field(e, FBY_UNIT_US, true, out);
    case FBY__PQ_CONV_TIMESTAMP_MILLIS: return timestamp_field(e, FBY_UNIT_MS, true, out);
    case FBY__PQ_CONV_TIMESTAMP_MICROS: return timestamp_field(e, FBY_UNIT_US, true, out);
    case FBY__PQ_CONV_UINT_8:
    case FBY__PQ_CONV_UINT_16:
    case FBY__PQ_CONV_UINT_32:
    case FBY__PQ_CONV_UINT_64: return int_field(e, 8 << (e->converted - FBY__PQ_CONV_UINT_8), false, out);
    case FBY__PQ_CONV_INT_8:
    case FBY__PQ_CONV_INT_16:
    case FBY__PQ_CONV_INT_32:
    case FBY__PQ_CONV_INT_64: return int_field(e, 8 << (e->converted - FBY__PQ_CONV_INT_8), true, out);
    case FBY__PQ_CONV_INTERVAL: return fixed_field(e, 12, (fby_field){.kind = FBY_KIND_INTERVAL, .byte_width = 12}, out);
    default: return false;
    }
}

/* ---- the tree ---- */

typedef struct builder {
    const fby__pq_element *in;
    uint32_t n, at; /* at: the next element */
    fby__schema_element *out;
    uint32_t n_out;
    fby_error *err;
} builder;

/** What surrounds a node: the levels above it, and how it got there. */
typedef struct context {
    uint16_t def, rep;
    bool hidden; /* a level of a list or map: no part of the path */
    bool nullable;
} context;

static bool is_group(const builder *b, uint32_t i) { return i == 0 || b->in[i].n_children > 0; }

static fby__schema_element *emit(builder *b, const fby__pq_element *e, context at, fby_field field, uint32_t n_children)
{
    fby__schema_element *o = &b->out[b->n_out++];
    *o = (fby__schema_element){.name = e->name,
                               .name_n = e->name_n,
                               .hidden_in_path = at.hidden,
                               .n_children = n_children,
                               .field = field,
                               .def_level = at.def,
                               .rep_level = at.rep};
    o->field.nullable = at.nullable;
    return o;
}

/* A list or map in this context: returns that of its elements. */
static context emit_repeated(builder *b, const fby__pq_element *e, context at, fby_kind kind)
{
    at.rep++;
    emit(b, e, at, plain_field(kind, FBY_DTYPE_NONE), 1)->list_def_level = (uint16_t)(at.def + 1);
    return (context){.def = (uint16_t)(at.def + 1), .rep = at.rep, .hidden = true};
}

static fby_status emit_leaf(builder *b, const fby__pq_element *e, context at)
{
    if (e->type < FBY__PQ_BOOLEAN || e->type > FBY__PQ_FLBA)
        return fby__fail(b->err, FBY_E_UNSUPPORTED, "column '%.*s' is a group without members or has an unknown type", (int)e->name_n,
                         e->name);
    if (e->type == FBY__PQ_FLBA && e->type_length <= 0)
        return fby__fail(b->err, FBY_E_FORMAT, "column '%.*s' has fixed-length values of %d bytes", (int)e->name_n, e->name,
                         (int)e->type_length);
    fby_field field;
    if (!logical_field(e, &field) && !converted_field(e, &field))
        field = physical_field(e);
    fby__schema_element *o = emit(b, e, at, field, 0);
    o->max_def = at.def;
    o->max_rep = at.rep;
    o->physical = e->type;
    o->type_length = e->type == FBY__PQ_FLBA ? e->type_length : 0;
    return FBY_OK;
}

static bool annotated_map(const fby__pq_element *e)
{
    /* MAP_KEY_VALUE on the outer group: a writers' error that the specification asks readers to accept. */
    return e->logical == FBY__PQ_LOGICAL_MAP || e->converted == FBY__PQ_CONV_MAP || e->converted == FBY__PQ_CONV_MAP_KEY_VALUE;
}

static bool annotated_list(const fby__pq_element *e) { return e->logical == FBY__PQ_LOGICAL_LIST || e->converted == FBY__PQ_CONV_LIST; }

static bool has_name(const fby__pq_element *e, const char *prefix, size_t prefix_n, const char *rest)
{
    size_t rest_n = strlen(rest);
    return e->name_n == prefix_n + rest_n && (prefix_n == 0 || memcmp(e->name, prefix, prefix_n) == 0) &&
           memcmp(e->name + prefix_n, rest, rest_n) == 0;
}

/* Is the repeated child of a list its element (two levels), or a group that only repeats its one child (three)? */
static bool child_is_element(const builder *b, const fby__pq_element *list, uint32_t child)
{
    const fby__pq_element *c = &b->in[child];
    return c->n_children != 1 || b->in[child + 1].repetition == FBY__PQ_REPEATED || has_name(c, "", 0, "array") ||
           has_name(c, list->name, list->name_n, "_tuple") || annotated_list(c) ||
           (annotated_map(c) && c->converted != FBY__PQ_CONV_MAP_KEY_VALUE);
}

static fby_status build_element(builder *b, context at);

/* One element, its repetition already dealt with. */
static fby_status build_value(builder *b, context at)
{
    uint32_t i = b->at++;
    const fby__pq_element *e = &b->in[i];
    if (!is_group(b, i))
        return emit_leaf(b, e, at);
    bool repeats = i > 0 && e->n_children == 1 && b->in[i + 1].repetition == FBY__PQ_REPEATED;
    bool map = repeats && annotated_map(e);
    if (map && b->in[i + 1].n_children == 2 && b->in[i + 2].repetition == FBY__PQ_REQUIRED) {
        context entries = emit_repeated(b, e, at, FBY_KIND_MAP);
        emit(b, &b->in[b->at++], entries, STRUCT_FIELD, 2);
        context inner = {.def = entries.def, .rep = entries.rep};
        FBY__TRY(build_element(b, inner));
        return build_element(b, inner);
    }
    if (map || (repeats && annotated_list(e))) { /* a map without values is a set; Arrow's maps have no optional keys */
        context element = emit_repeated(b, e, at, FBY_KIND_LIST);
        if (child_is_element(b, e, i + 1))
            return build_value(b, element);
        b->at++;
        return build_element(b, element);
    }
    emit(b, e, at, STRUCT_FIELD, e->n_children);
    context inner = {.def = at.def, .rep = at.rep};
    for (uint32_t k = 0; k < e->n_children; k++)
        FBY__TRY(build_element(b, inner));
    return FBY_OK;
}

/* One element with its repetition. `at` is where its parent leaves it: nullable is set here. */
static fby_status build_element(builder *b, context at)
{
    const fby__pq_element *e = &b->in[b->at];
    if (e->repetition == FBY__PQ_REPEATED) /* not within a list: a list of its own, never null itself */
        return build_value(b, emit_repeated(b, e, at, FBY_KIND_LIST));
    at.nullable = e->repetition == FBY__PQ_OPTIONAL;
    at.def = (uint16_t)(at.def + at.nullable);
    return build_value(b, at);
}

/* Counts of children must add up and nesting must be bounded before the tree is walked by recursion. */
static fby_status check_tree(const fby__pq_element *in, uint32_t n, fby_error *err)
{
    uint32_t left[FBY__MAX_LEVEL + 1], depth = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && depth == 0)
            return fby__fail(err, FBY_E_FORMAT, "the schema has %u elements, but its tree ends after %u", n, i);
        if (i > 0)
            left[depth - 1]--;
        if (in[i].n_children) {
            if (depth == FBY__MAX_LEVEL)
                return fby__fail(err, FBY_E_UNSUPPORTED, "the schema is nested deeper than %d levels", FBY__MAX_LEVEL);
            left[depth++] = in[i].n_children;
        }
        while (depth && left[depth - 1] == 0)
            depth--;
    }
    return depth ? fby__fail(err, FBY_E_FORMAT, "the schema ends before its last group is complete") : FBY_OK;
}

fby_status fby__pq_schema_tree(const fby__pq_element *elements, uint32_t n, fby__schema_element **out, uint32_t *out_n, fby_error *err)
{
    if (n == 0)
        return fby__fail(err, FBY_E_FORMAT, "the schema is empty");
    FBY__TRY(check_tree(elements, n, err));
    builder b = {.in = elements, .n = n, .err = err};
    b.out = fby__calloc(n, 2 * sizeof *b.out); /* at most two for one: a repeated field is a list and its element */
    if (!b.out)
        return fby__fail_nomem(err, "a schema");
    const fby_status st = build_value(&b, (context){0}); /* the root's repetition means nothing */
    if (st != FBY_OK) {
        fby__free(b.out);
        return st;
    }
    *out = b.out;
    *out_n = b.n_out;
    return FBY_OK;
}
