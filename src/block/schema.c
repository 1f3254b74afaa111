/*
 * Schemas: built from elements in pre-order, laid out breadth first, looked up by path, serialised for the index cache.
 *
 *     pre-order (as files list them)   root  a  a.x  a.y  b        leaves are numbered in this order
 *     breadth first (fields[])         root  a  b    a.x  a.y      children of a node are contiguous
 *
 * It knows nothing of any format: levels and physical types are carried, not understood.
 * An element hidden in paths shares its parent's path *pointer*: that is how freezing knows it again.
 */
#include "block/schema.h"

#include "base/checked.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/utf8.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* One path, and all of them: a hostile file could name a group with megabytes and hang thousands of leaves below it. */
#define MAX_PATH_BYTES 65535u
#define MAX_TEXT_BYTES ((size_t)64 << 20)
#define MAX_ELEMENTS (1u << 20)

static const char *const KIND_NAMES[FBY_KIND_COUNT] = {"null",         "bool",      "int",        "float",    "decimal", "date",
                                                       "time",         "timestamp", "duration",   "interval", "string",  "binary",
                                                       "fixed_binary", "list",      "fixed_list", "struct",   "map"};

const char *fby_kind_name(fby_kind kind) { return (unsigned)kind < FBY_KIND_COUNT ? KIND_NAMES[kind] : "unknown"; }

const char *fby_unit_name(fby_unit unit)
{
    static const char *const names[] = {"", "s", "ms", "us", "ns"};
    return (unsigned)unit < sizeof names / sizeof *names ? names[unit] : "";
}

/* ---- types as text ---- */

typedef struct text_out {
    char *to;
    size_t cap, n; /* n: bytes the whole text has so far */
} text_out;

static void put_text(text_out *o, const char *s)
{
    size_t k = strlen(s);
    if (o->n < o->cap) {
        size_t room = o->cap - o->n;
        memcpy(o->to + o->n, s, k < room ? k : room);
    }
    o->n += k;
}

static void put_type(text_out *o, const fby_field *f)
{
    char num[64];
    switch (f->kind) {
    case FBY_KIND_BOOL:
    case FBY_KIND_INT:
    case FBY_KIND_FLOAT: put_text(o, fby_dtype_name(f->dtype)); return;
    case FBY_KIND_DECIMAL:
        (void)snprintf(num, sizeof num, "decimal(%d, %d)", (int)f->precision, (int)f->scale);
        put_text(o, num);
        return;
    case FBY_KIND_TIME:
    case FBY_KIND_TIMESTAMP:
    case FBY_KIND_DURATION:
        (void)snprintf(num, sizeof num, "%s[%s%s]", fby_kind_name(f->kind), fby_unit_name(f->unit),
                       f->utc && f->kind == FBY_KIND_TIMESTAMP ? ", UTC" : "");
        put_text(o, num);
        return;
    case FBY_KIND_FIXED_BINARY:
        (void)snprintf(num, sizeof num, "fixed_binary[%d]", (int)f->byte_width);
        put_text(o, num);
        return;
    case FBY_KIND_LIST:
    case FBY_KIND_FIXED_LIST:
        put_text(o, fby_kind_name(f->kind));
        put_text(o, "<");
        if (f->n_children)
            put_type(o, &f->children[0]);
        put_text(o, ">");
        if (f->kind == FBY_KIND_FIXED_LIST) {
            (void)snprintf(num, sizeof num, "[%d]", (int)f->list_size);
            put_text(o, num);
        }
        return;
    case FBY_KIND_MAP: {
        const fby_field *entries = f->n_children ? &f->children[0] : NULL;
        put_text(o, "map<");
        for (uint32_t i = 0; entries && i < entries->n_children; i++) {
            put_text(o, i ? ", " : "");
            put_type(o, &entries->children[i]);
        }
        put_text(o, ">");
        return;
    }
    case FBY_KIND_STRUCT:
        put_text(o, "struct<");
        for (uint32_t i = 0; i < f->n_children; i++) {
            put_text(o, i ? ", " : "");
            put_text(o, f->children[i].name);
            put_text(o, ": ");
            put_type(o, &f->children[i]);
        }
        put_text(o, ">");
        return;
    case FBY_KIND_NULL:
    case FBY_KIND_DATE:
    case FBY_KIND_INTERVAL:
    case FBY_KIND_STRING:
    case FBY_KIND_BINARY:
    case FBY_KIND_COUNT: break;
    }
    put_text(o, fby_kind_name(f->kind));
}

size_t fby_field_type_text(const fby_field *field, char *out, size_t n)
{
    text_out o = {.to = out, .cap = n ? n - 1 : 0};
    put_type(&o, field);
    if (n)
        out[o.n < n ? o.n : n - 1] = 0;
    return o.n;
}

/* ---- building ---- */

/* And no NUL, which would cut the C string. An empty text may be NULL. */
bool fby__schema_text_valid(const char *text, size_t n)
{
    return n == 0 || (!memchr(text, 0, n) && fby__utf8_valid((const uint8_t *)text, n));
}

/* Scratch of one fby__schema_create, one allocation; arrays by pre-order index unless they say otherwise. */
typedef struct build {
    uint32_t *parent; /* pre-order index of the parent */
    uint32_t *end;    /* one past the subtree */
    uint32_t *leaf;   /* leaves before this element */
    uint32_t *index;  /* breadth-first index */
    uint32_t *order;  /* by breadth-first index: pre-order index */
    uint32_t *path_n;
} build;

static int build_init(build *b, size_t n)
{
    uint32_t *all = fby__calloc(n, 6 * sizeof *all);
    if (!all)
        return -1;
    *b = (build){all, all + n, all + 2 * n, all + 3 * n, all + 4 * n, all + 5 * n};
    return 0;
}

/* Fill parent, end, leaf and path_n; count leaves and text; check the tree's shape. */
static fby_status walk(build *b, const fby__schema_element *e, size_t n, uint32_t *out_leaves, size_t *out_text, fby_error *err)
{
    uint32_t open[FBY__MAX_LEVEL + 1], left[FBY__MAX_LEVEL + 1]; /* ancestors that still wait for children */
    uint32_t depth = 0, leaves = 0;
    size_t text = 1; /* the root's "" */
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && depth == 0)
            return fby__fail(err, FBY_E_FORMAT, "the schema has %zu elements, but its tree ends after %u", n, i);
        b->parent[i] = i ? open[depth - 1] : 0;
        b->leaf[i] = leaves;
        if (!fby__schema_text_valid(e[i].name, e[i].name_n))
            return fby__fail(err, FBY_E_FORMAT, "the name of schema element %u is not valid UTF-8", i);
        size_t units_n = e[i].field.units ? strlen(e[i].field.units) : 0;
        if (units_n >= UINT16_MAX || !fby__schema_text_valid(e[i].field.units, units_n))
            return fby__fail(err, FBY_E_FORMAT, "the units of schema element %u are not valid UTF-8, or very long", i);
        size_t up = b->path_n[b->parent[i]];
        size_t path_n = i == 0 ? 0 : e[i].hidden_in_path ? up : up ? up + 1 + e[i].name_n : e[i].name_n;
        if (path_n > MAX_PATH_BYTES)
            return fby__fail(err, FBY_E_UNSUPPORTED, "schema element %u has a path of %zu bytes; %u is the limit", i, path_n,
                             MAX_PATH_BYTES);
        b->path_n[i] = (uint32_t)path_n;
        text += e[i].name_n + 1u + (e[i].hidden_in_path ? 0 : path_n + 1) + (units_n ? units_n + 1 : 0);
        if (text > MAX_TEXT_BYTES)
            return fby__fail(err, FBY_E_UNSUPPORTED, "the names and paths of the schema take more than %zu bytes", MAX_TEXT_BYTES);
        bool nested = i == 0 || e[i].field.kind == FBY_KIND_STRUCT || e[i].field.kind == FBY_KIND_LIST ||
                      e[i].field.kind == FBY_KIND_FIXED_LIST || e[i].field.kind == FBY_KIND_MAP;
        bool one = nested && i > 0 && e[i].field.kind != FBY_KIND_STRUCT;
        if ((!nested && e[i].n_children) || (one && e[i].n_children != 1))
            return fby__fail(err, FBY_E_FORMAT, "schema element %u is a %s with %u children", i, fby_kind_name(e[i].field.kind),
                             e[i].n_children);
        leaves += !nested;
        if (i > 0)
            left[depth - 1]--;
        if (e[i].n_children) {
            if (depth > FBY__MAX_LEVEL - 1)
                return fby__fail(err, FBY_E_UNSUPPORTED, "the schema is nested deeper than %d levels", FBY__MAX_LEVEL);
            open[depth] = i;
            left[depth++] = e[i].n_children;
        } else {
            b->end[i] = i + 1;
        }
        while (depth && left[depth - 1] == 0)
            b->end[open[--depth]] = i + 1;
    }
    if (depth)
        return fby__fail(err, FBY_E_FORMAT, "the schema ends before the children of element %u", open[depth - 1]);
    *out_leaves = leaves;
    *out_text = text;
    return FBY_OK;
}

static char *put_path(char *to, const char *up, uint32_t up_n, const fby__schema_element *e)
{
    if (up_n) {
        memcpy(to, up, up_n);
        to += up_n;
        *to++ = '.';
    }
    if (e->name_n)
        memcpy(to, e->name, e->name_n);
    to[e->name_n] = 0;
    return to + e->name_n + 1;
}

/* Lay the nodes out breadth first and fill everything but the lookup table and the hash. */
static void lay_out(fby__schema *s, build *b, const fby__schema_element *e)
{
    uint32_t n = s->n_fields, used = 1;
    b->order[0] = 0;
    for (uint32_t at = 0; at < n; at++) {
        uint32_t i = b->order[at];
        b->index[i] = at;
        s->fields[at] = e[i].field;
        s->fields[at].n_children = e[i].n_children;
        s->fields[at].children = e[i].n_children ? &s->fields[used] : NULL;
        for (uint32_t k = 0, child = i + 1; k < e[i].n_children; k++, child = b->end[child])
            b->order[used++] = child;
    }
    char *to = s->text;
    for (uint32_t i = 0; i < n; i++) { /* pre-order: a parent's path stands before its children's */
        fby_field *f = &s->fields[b->index[i]];
        uint32_t up_index = b->index[b->parent[i]];
        const fby_field *up = &s->fields[up_index];
        if (e[i].name_n)
            memcpy(to, e[i].name, e[i].name_n);
        to[e[i].name_n] = 0;
        f->name = to;
        to += e[i].name_n + 1;
        if (i == 0) {
            f->name = f->path = s->text; /* whatever the file calls its root */
            s->text[0] = 0;
        } else if (e[i].hidden_in_path) {
            f->path = up->path;
        } else {
            f->path = to;
            to = put_path(to, up->path, b->path_n[b->parent[i]], &e[i]);
        }
        const char *units = e[i].field.units;
        f->units = units && *units ? to : NULL;
        if (f->units) {
            size_t units_n = strlen(units) + 1;
            memcpy(to, units, units_n);
            to += units_n;
        }
        bool leaf = i > 0 && e[i].n_children == 0 && f->kind != FBY_KIND_STRUCT;
        uint32_t last = b->end[i] < n ? b->leaf[b->end[i]] : s->n_leaves;
        s->nodes[b->index[i]] =
            (fby__schema_node){up_index, b->leaf[i], last - b->leaf[i], e[i].def_level, e[i].rep_level, e[i].list_def_level};
        if (leaf)
            s->leaves[b->leaf[i]] = (fby__leaf){b->index[i], e[i].max_def, e[i].max_rep, e[i].physical, e[i].type_length};
    }
}

static uint32_t path_slot(const char *path, uint32_t mask) { return (uint32_t)fby__table_hash(path, strlen(path)) & mask; }

/* Breadth-first order: of two fields with one path, the outer and then the first one is found. */
static void fill_lookup(fby__schema *s)
{
    for (uint32_t i = 0; i < s->n_fields; i++) {
        if (i && s->fields[i].path == s->fields[s->nodes[i].parent].path)
            continue;
        uint32_t slot = path_slot(s->fields[i].path, s->lookup_mask);
        while (s->lookup[slot])
            slot = (slot + 1) & s->lookup_mask;
        s->lookup[slot] = i + 1;
    }
}

static fby_status put_records(const fby__schema *s, fby__buf *out, fby_error *err);

fby_status fby__schema_create(const fby__schema_element *elements, size_t n, fby__schema **out, fby_error *err)
{
    if (n == 0)
        return fby__fail(err, FBY_E_FORMAT, "the schema is empty");
    if (n > MAX_ELEMENTS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "the schema has %zu elements; %u is the limit", n, MAX_ELEMENTS);
    build b = {0};
    fby__buf records = {0};
    fby__schema *s = fby__calloc(1, sizeof *s);
    fby_status st;
    size_t text;
    uint32_t slots = 16;
    if (!s || build_init(&b, n) != 0)
        goto nomem;
    atomic_init(&s->refs, 1);
    st = walk(&b, elements, n, &s->n_leaves, &text, err);
    if (st != FBY_OK)
        goto fail;
    s->n_fields = (uint32_t)n;
    while (slots < 2 * n)
        slots *= 2;
    s->lookup_mask = slots - 1;
    s->fields = fby__calloc(n, sizeof *s->fields);
    s->nodes = fby__calloc(n, sizeof *s->nodes);
    s->leaves = fby__calloc(s->n_leaves, sizeof *s->leaves);
    s->lookup = fby__calloc(slots, sizeof *s->lookup);
    s->text = fby__malloc(text + elements[0].name_n + 1);
    if (!s->fields || !s->nodes || !s->leaves || !s->lookup || !s->text)
        goto nomem;
    lay_out(s, &b, elements);
    s->fields[0].kind = FBY_KIND_STRUCT;
    fill_lookup(s);
    st = put_records(s, &records, err);
    if (st != FBY_OK)
        goto fail;
    s->hash = fby__hash(records.data, records.n);
    fby__buf_fini(&records);
    fby__free(b.parent);
    *out = s;
    return FBY_OK;
nomem:
    st = fby__fail_nomem(err, "a schema");
fail:
    fby__buf_fini(&records);
    fby__free(b.parent);
    fby__schema_unref(s);
    return st;
}

fby__schema *fby__schema_ref(fby__schema *schema)
{
    atomic_fetch_add_explicit(&schema->refs, 1, memory_order_relaxed);
    return schema;
}

void fby__schema_unref(fby__schema *schema)
{
    /* acq_rel: the last owner sees what the others did before they let go; refs is 0 for a half-built schema. */
    if (!schema || atomic_fetch_sub_explicit(&schema->refs, 1, memory_order_acq_rel) > 1)
        return;
    fby__free(schema->fields);
    fby__free(schema->nodes);
    fby__free(schema->leaves);
    fby__free(schema->lookup);
    fby__free(schema->text);
    fby__free(schema);
}

/* ---- looking up ---- */

uint32_t fby__schema_find(const fby__schema *schema, const char *path)
{
    uint32_t slot = path_slot(path, schema->lookup_mask);
    for (; schema->lookup[slot]; slot = (slot + 1) & schema->lookup_mask)
        if (strcmp(schema->fields[schema->lookup[slot] - 1].path, path) == 0)
            return schema->lookup[slot] - 1;
    return UINT32_MAX;
}

uint32_t fby__schema_find_leaf(const fby__schema *schema, const char *path)
{
    uint32_t i = fby__schema_find(schema, path);
    if (i == UINT32_MAX)
        return FBY__NO_LEAF;
    const fby_field *f = &schema->fields[i];
    while (f->kind == FBY_KIND_LIST || f->kind == FBY_KIND_FIXED_LIST)
        f = f->children;
    if (f->kind == FBY_KIND_STRUCT || f->kind == FBY_KIND_MAP)
        return FBY__NO_LEAF;
    return schema->nodes[f - schema->fields].first_leaf;
}

/* ---- freezing ---- */

#define FROZEN_MAGIC 0x53594246u /* "FBYS" */
#define FROZEN_VERSION 2u

typedef struct frozen_head {
    uint32_t magic, version, n, reserved;
    uint64_t checksum; /* of the records */
} frozen_head;

/* Followed by name_n bytes, then units_n (0, or the text with its NUL). No padding: the bytes are hashed. */
typedef struct record {
    uint32_t name_n, n_children;
    uint8_t kind, dtype, unit, flags;
    int32_t precision, scale, byte_width, list_size;
    uint16_t def_level, rep_level, list_def_level, max_def, max_rep, units_n;
    int32_t physical, type_length;
} record;
_Static_assert(sizeof(record) == 48, "records have no padding");

enum { NULLABLE = 1, UTC = 2, HIDDEN = 4, ALL_FLAGS = 7 };

static int put_record(const fby__schema *s, uint32_t i, fby__buf *out)
{
    const fby_field *f = &s->fields[i];
    const fby__schema_node *node = &s->nodes[i];
    bool hidden = i && f->path == s->fields[node->parent].path;
    record r = {
        .name_n = (uint32_t)strlen(f->name),
        .n_children = f->n_children,
        .kind = (uint8_t)f->kind,
        .dtype = (uint8_t)f->dtype,
        .unit = (uint8_t)f->unit,
        .flags = (uint8_t)((f->nullable ? NULLABLE : 0) | (f->utc ? UTC : 0) | (hidden ? HIDDEN : 0)),
        .precision = f->precision,
        .scale = f->scale,
        .byte_width = f->byte_width,
        .list_size = f->list_size,
        .def_level = node->def_level,
        .rep_level = node->rep_level,
        .list_def_level = node->list_def_level,
        .units_n = (uint16_t)(f->units ? strlen(f->units) + 1 : 0),
    };
    if (node->n_leaves == 1 && s->leaves[node->first_leaf].field == i) {
        const fby__leaf *leaf = &s->leaves[node->first_leaf];
        r.max_def = leaf->max_def;
        r.max_rep = leaf->max_rep;
        r.physical = leaf->physical;
        r.type_length = leaf->type_length;
    }
    if (fby__buf_put(out, &r, sizeof r) != 0 || fby__buf_put(out, f->name, r.name_n) != 0 || fby__buf_put(out, f->units, r.units_n) != 0)
        return -1;
    for (uint32_t k = 0; k < f->n_children; k++) /* depth ≤ FBY__MAX_LEVEL */
        if (put_record(s, (uint32_t)(f->children - s->fields) + k, out) != 0)
            return -1;
    return 0;
}

static fby_status put_records(const fby__schema *s, fby__buf *out, fby_error *err)
{
    return put_record(s, 0, out) == 0 ? FBY_OK : fby__fail_nomem(err, "freezing a schema");
}

fby_status fby__schema_freeze(const fby__schema *schema, fby__buf *out, fby_error *err)
{
    fby__buf blob = {0};
    frozen_head head = {FROZEN_MAGIC, FROZEN_VERSION, schema->n_fields, 0, schema->hash.lo};
    fby_status st = FBY_OK;
    if (fby__buf_put(&blob, &head, sizeof head) != 0)
        st = fby__fail_nomem(err, "freezing a schema");
    if (st == FBY_OK)
        st = put_records(schema, &blob, err);
    if (st == FBY_OK && fby__buf_put(out, blob.data, blob.n) != 0)
        st = fby__fail_nomem(err, "freezing a schema");
    fby__buf_fini(&blob);
    return st;
}

static fby_status not_a_schema(fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "the stored schema is damaged or of another version");
}

bool fby__kind_is_number(fby_kind kind)
{
    switch (kind) {
    case FBY_KIND_BOOL:
    case FBY_KIND_INT:
    case FBY_KIND_FLOAT:
    case FBY_KIND_DATE:
    case FBY_KIND_TIME:
    case FBY_KIND_TIMESTAMP:
    case FBY_KIND_DURATION: return true;
    default: return false;
    }
}

fby_dtype fby__leaf_dtype(const fby_field *leaf)
{
    switch (leaf->kind) {
    case FBY_KIND_NULL: return FBY_FLOAT32;
    case FBY_KIND_DECIMAL: return FBY_FLOAT64;
    case FBY_KIND_FIXED_BINARY:
    case FBY_KIND_STRING:
    case FBY_KIND_BINARY: return FBY_UINT8;
    default: return fby__kind_is_number(leaf->kind) ? leaf->dtype : FBY_DTYPE_NONE;
    }
}

/* What is made of values of the kind relies on their dtype. */
static bool is_dtype_of(fby_kind kind, fby_dtype dtype)
{
    switch (kind) {
    case FBY_KIND_BOOL: return dtype == FBY_BOOL;
    case FBY_KIND_INT: return fby__dtype_is_signed(dtype) || fby__dtype_is_unsigned(dtype);
    case FBY_KIND_FLOAT: return fby__dtype_is_float(dtype);
    case FBY_KIND_DATE:
    case FBY_KIND_TIME:
    case FBY_KIND_TIMESTAMP:
    case FBY_KIND_DURATION: return fby__dtype_is_signed(dtype);
    default: return true;
    }
}

static bool read_record(fby__bytes *rest, fby__schema_element *e)
{
    record r;
    if (rest->n < sizeof r)
        return false;
    memcpy(&r, rest->data, sizeof r);
    if (r.name_n > rest->n - sizeof r || r.units_n > rest->n - sizeof r - r.name_n || r.kind >= FBY_KIND_COUNT ||
        r.dtype >= FBY_DTYPE_COUNT || !is_dtype_of((fby_kind)r.kind, (fby_dtype)r.dtype) || r.unit > FBY_UNIT_NS ||
        (r.flags & ~ALL_FLAGS) != 0)
        return false;
    const char *units = (const char *)rest->data + sizeof r + r.name_n;
    if (r.units_n && strnlen(units, r.units_n) != r.units_n - 1u)
        return false;
    *e = (fby__schema_element){
        .name = (const char *)rest->data + sizeof r,
        .name_n = r.name_n,
        .hidden_in_path = (r.flags & HIDDEN) != 0,
        .n_children = r.n_children,
        .field = {.kind = (fby_kind)r.kind,
                  .dtype = (fby_dtype)r.dtype,
                  .unit = (fby_unit)r.unit,
                  .nullable = (r.flags & NULLABLE) != 0,
                  .utc = (r.flags & UTC) != 0,
                  .precision = r.precision,
                  .scale = r.scale,
                  .byte_width = r.byte_width,
                  .list_size = r.list_size,
                  .units = r.units_n ? units : NULL},
        .def_level = r.def_level,
        .rep_level = r.rep_level,
        .list_def_level = r.list_def_level,
        .max_def = r.max_def,
        .max_rep = r.max_rep,
        .physical = r.physical,
        .type_length = r.type_length,
    };
    size_t used = sizeof r + r.name_n + r.units_n;
    rest->data += used;
    rest->n -= used;
    return true;
}

fby_status fby__schema_thaw(fby__bytes bytes, fby__schema **out, fby_error *err)
{
    frozen_head head;
    if (bytes.n < sizeof head)
        return not_a_schema(err);
    memcpy(&head, bytes.data, sizeof head);
    fby__bytes rest = {bytes.data + sizeof head, bytes.n - sizeof head};
    if (head.magic != FROZEN_MAGIC || head.version != FROZEN_VERSION || head.reserved != 0 || head.n == 0 ||
        head.n > rest.n / sizeof(record) || !fby__checksum_holds(head.checksum, fby__hash(rest.data, rest.n).lo))
        return not_a_schema(err);
    fby__schema_element *elements = fby__calloc(head.n, sizeof *elements);
    if (!elements)
        return fby__fail_nomem(err, "a stored schema");
    fby_status st = FBY_OK;
    for (uint32_t i = 0; st == FBY_OK && i < head.n; i++)
        if (!read_record(&rest, &elements[i]))
            st = not_a_schema(err);
    if (st == FBY_OK && rest.n != 0)
        st = not_a_schema(err);
    if (st == FBY_OK)
        st = fby__schema_create(elements, head.n, out, err);
    fby__free(elements);
    return st;
}

int64_t fby__field_axis(const fby_field *field, int32_t axis)
{
    int32_t n = 0;
    const fby_field *f = field;
    for (; f->kind == FBY_KIND_FIXED_LIST && f->n_children == 1; f = &f->children[0])
        n++;
    if (axis >= 0 || axis < -n)
        return -1;
    for (f = field, n += axis; n > 0; n--)
        f = &f->children[0];
    return f->list_size;
}
