/*
 * The Arrow schema that Arrow's writers keep beside Parquet's, under the key "ARROW:schema": it knows what Parquet has no type for. Of that,
 * durations matter here: pandas' timedelta64 and Arrow's duration are plain int64 columns in Parquet's own schema.
 *
 * It is base64 of an encapsulated IPC message whose header is a Schema, a FlatBuffer:
 *     0xffffffff   length i32   Message { header: Schema { fields: [Field { name, type, children … }] } }
 *   https://github.com/apache/arrow/blob/main/format/Schema.fbs, Message.fbs
 *   https://flatbuffers.dev/internals/
 *
 * It is a hint. Whatever in it is out of bounds or does not fit Parquet's schema (a writer that copied the key from another file) says nothing.
 */
#include "format/parquet/meta.h"

#include "base/base64.h"

enum { MESSAGE_HEADER_TYPE = 1, MESSAGE_HEADER = 2, SCHEMA_FIELDS = 1 };
enum { FIELD_NAME = 0, FIELD_TYPE_TYPE = 2, FIELD_TYPE = 3, FIELD_CHILDREN = 5, DURATION_UNIT = 0 };
enum { HEADER_SCHEMA = 1, TYPE_DURATION = 18 };

/** A FlatBuffer. Places in it are offsets from its beginning; 0, where the offset of the root stands, is nowhere. */
typedef struct flat {
    const uint8_t *data;
    uint32_t n;
    uint32_t left; /* fields that may still be looked at: a damaged tree can name the same ones again and again */
} flat;

static uint32_t u32_at(const flat *f, uint32_t at) { return f->n >= 4 && at <= f->n - 4 ? fby__load_u32(f->data + at) : 0; }
static uint16_t u16_at(const flat *f, uint32_t at) { return f->n >= 2 && at <= f->n - 2 ? fby__load_u16(f->data + at) : 0; }

/* Where a member of a table stands; 0 when it is left out. */
static uint32_t member(const flat *f, uint32_t table, uint32_t id)
{
    const int64_t vtable = (int64_t)table - (int32_t)u32_at(f, table);
    if (table == 0 || vtable < 0 || vtable > f->n || u16_at(f, (uint32_t)vtable) < 4 + 2 * (id + 1))
        return 0;
    const uint16_t offset = u16_at(f, (uint32_t)vtable + 4 + 2 * id);
    return offset && offset < f->n - table ? table + offset : 0;
}

/* Where what an offset points to stands. */
static uint32_t follow(const flat *f, uint32_t at)
{
    const uint32_t offset = at ? u32_at(f, at) : 0;
    return offset && offset < f->n - at ? at + offset : 0;
}

static uint32_t list_length(const flat *f, uint32_t list)
{
    const uint32_t n = list ? u32_at(f, list) : 0;
    return n <= (f->n - list) / 4 ? n : 0;
}

static uint32_t list_table(const flat *f, uint32_t list, uint32_t i) { return follow(f, list + 4 + 4 * i); }

static uint8_t type_of(const flat *f, uint32_t field)
{
    const uint32_t at = member(f, field, FIELD_TYPE_TYPE);
    return at ? f->data[at] : 0;
}

static bool has_name(const flat *f, uint32_t field, const fby__schema_element *e)
{
    const uint32_t text = follow(f, member(f, field, FIELD_NAME));
    return text && u32_at(f, text) == e->name_n && e->name_n <= f->n - text - 4 && memcmp(f->data + text + 4, e->name, e->name_n) == 0;
}

/* TimeUnit: SECOND, MILLISECOND (the default), MICROSECOND, NANOSECOND. */
static fby_unit unit_of(const flat *f, uint32_t field)
{
    static const fby_unit UNITS[] = {FBY_UNIT_S, FBY_UNIT_MS, FBY_UNIT_US, FBY_UNIT_NS};
    const uint32_t at = member(f, follow(f, member(f, field, FIELD_TYPE)), DURATION_UNIT);
    const uint16_t unit = at ? u16_at(f, at) : 1;
    return unit < 4 ? UNITS[unit] : FBY_UNIT_NONE;
}

typedef struct cursor {
    flat *f;
    fby__schema_element *at; /* the next one, in pre-order */
} cursor;

static void mark(cursor *c, uint32_t field);

/* list: of the Arrow fields, 0 when nothing is known of them */
static void mark_children(cursor *c, const fby__schema_element *parent, uint32_t list)
{
    const bool fits = list_length(c->f, list) == parent->n_children;
    for (uint32_t i = 0; i < parent->n_children; i++) {
        uint32_t field = fits && c->f->left ? list_table(c->f, list, i) : 0;
        c->f->left -= field != 0;
        if (field && parent->field.kind == FBY_KIND_STRUCT && !parent->hidden_in_path && !has_name(c->f, field, c->at))
            field = 0; /* levels that Parquet adds have names of their own */
        mark(c, field);
    }
}

/* Parquet's schema bounds the depth. */
static void mark(cursor *c, uint32_t field)
{
    fby__schema_element *e = c->at++;
    if (e->n_children) {
        mark_children(c, e, follow(c->f, member(c->f, field, FIELD_CHILDREN)));
        return;
    }
    if (!field || e->field.kind != FBY_KIND_INT || e->field.dtype != FBY_INT64 || type_of(c->f, field) != TYPE_DURATION)
        return;
    const fby_unit unit = unit_of(c->f, field);
    if (unit == FBY_UNIT_NONE)
        return;
    e->field.kind = FBY_KIND_DURATION;
    e->field.unit = unit;
}

/* The list of the schema's fields, 0 when there is none. */
static uint32_t fields_of(const flat *f)
{
    const uint32_t message = follow(f, member(f, u32_at(f, 0), MESSAGE_HEADER));
    const uint32_t type = member(f, u32_at(f, 0), MESSAGE_HEADER_TYPE);
    return type && f->data[type] == HEADER_SCHEMA ? follow(f, member(f, message, SCHEMA_FIELDS)) : 0;
}

fby__bytes fby__pq_arrow_schema(fby__thrift *t, uint8_t type)
{
    static const char KEY[] = "ARROW:schema";
    fby__bytes found = {0};
    for (uint32_t n = fby__thrift_list(t, type, FBY__THRIFT_STRUCT); n > 0 && !t->fault; n--) {
        fby__thrift_field m = {0};
        fby__bytes key = {0}, value = {0};
        while (fby__thrift_next(t, &m)) {
            if (m.id == 1)
                key = fby__thrift_binary(t, m.type);
            else if (m.id == 2)
                value = fby__thrift_binary(t, m.type);
            else
                fby__thrift_skip(t, m.type);
        }
        if (key.n == sizeof KEY - 1 && memcmp(key.data, KEY, key.n) == 0)
            found = value;
    }
    return found;
}

fby_status fby__pq_mark_durations(fby__bytes base64, fby__schema_element *elements, fby_error *err)
{
    uint8_t *message = fby__malloc(fby__base64_bytes(base64.n));
    if (!message)
        return fby__fail_nomem(err, "the Arrow schema of a Parquet file");
    size_t n = 0;
    if (fby__base64_decode(base64.data, base64.n, message, &n) && n > 8 && n <= INT32_MAX) {
        const size_t begin = fby__load_u32(message) == UINT32_MAX ? 8 : 4; /* before Arrow 0.15 without the first four bytes */
        flat f = {.data = message + begin, .n = (uint32_t)(n - begin), .left = (uint32_t)(n / 4)};
        cursor c = {.f = &f, .at = elements + 1};
        mark_children(&c, elements, fields_of(&f));
    }
    fby__free(message);
    return FBY_OK;
}
