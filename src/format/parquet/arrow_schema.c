/*
 * The Arrow schema that Arrow's writers keep beside Parquet's, under the key "ARROW:schema": it knows what Parquet has no type for. Of
 * that, durations matter here: pandas' timedelta64 and Arrow's duration are plain int64 columns in Parquet's own schema; and what is said of
 * single columns, which nothing else in the file has.
 *
 * It is base64 of an encapsulated IPC message whose header is a Schema, a FlatBuffer:
 *     0xffffffff   length i32   Message { header: Schema { fields: [Field { name, type, children … }] } }
 *   https://github.com/apache/arrow/blob/main/format/Schema.fbs, Message.fbs
 *   https://flatbuffers.dev/internals/
 *
 * Characters are decoded where a byte is asked for: of most files only that no int64 column is a duration, which is a few bytes a column.
 *
 * It is a hint. Whatever in it is out of bounds or does not fit Parquet's schema (a writer that copied the key from another file) says
 * nothing.
 */
#include "format/contents.h"
#include "format/ipc/ipc.h"
#include "format/parquet/meta.h"

enum { MESSAGE_HEADER_TYPE = 1, MESSAGE_HEADER = 2, SCHEMA_FIELDS = 1 };
enum { FIELD_NAME = 0, FIELD_TYPE_TYPE = 2, FIELD_TYPE = 3, FIELD_CHILDREN = 5, DURATION_UNIT = 0 };
enum { HEADER_SCHEMA = 1, TYPE_DURATION = 18 };

/**
 * A FlatBuffer in base64 (RFC 4648, section 4). Places in it are offsets from its beginning; 0, where the offset of the root stands, is
 * nowhere.
 */
typedef struct flat {
    const uint8_t *text;
    uint32_t begin, n; /* in bytes: where it begins in what the text decodes to, and how many there are */
    uint32_t left;     /* fields that may still be looked at: a damaged tree can name the same ones again and again */
} flat;

#define NO_DIGIT 64u /* found when a duration was: is_base64 */

static uint32_t digit_of(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26u;
    if (c >= '0' && c <= '9')
        return c - '0' + 52u;
    return c == '+' ? 62 : c == '/' ? 63 : NO_DIGIT;
}

/* at < n */
static uint8_t byte_at(const flat *f, uint32_t at)
{
    at += f->begin;
    const uint8_t *c = f->text + (size_t)at / 3 * 4 + at % 3;
    return (uint8_t)(digit_of(c[0]) << (2 + 2 * (at % 3)) | digit_of(c[1]) >> (4 - 2 * (at % 3)));
}

static uint32_t number_at(const flat *f, uint32_t at, uint32_t bytes)
{
    uint32_t v = 0;
    if (bytes > f->n || at > f->n - bytes)
        return 0;
    for (uint32_t i = 0; i < bytes; i++)
        v |= (uint32_t)byte_at(f, at + i) << 8 * i;
    return v;
}

static uint32_t u32_at(const flat *f, uint32_t at) { return number_at(f, at, 4); }
static uint16_t u16_at(const flat *f, uint32_t at) { return (uint16_t)number_at(f, at, 2); }

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
    return at ? byte_at(f, at) : 0;
}

static bool has_name(const flat *f, uint32_t field, const char *name, size_t n)
{
    const uint32_t text = follow(f, member(f, field, FIELD_NAME));
    bool same = text && u32_at(f, text) == n && n <= f->n - text - 4;
    for (uint32_t i = 0; same && i < n; i++)
        same = byte_at(f, text + 4 + i) == (uint8_t)name[i];
    return same;
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
    bool marked;
} cursor;

static void mark(cursor *c, uint32_t field, bool named);

/* list: of the Arrow fields, 0 when nothing is known of them */
static void mark_children(cursor *c, const fby__schema_element *parent, uint32_t list)
{
    const bool fits = list_length(c->f, list) == parent->n_children;
    /* levels that Parquet adds have names of their own */
    const bool named = parent->field.kind == FBY_KIND_STRUCT && !parent->hidden_in_path;
    for (uint32_t i = 0; i < parent->n_children; i++) {
        const bool may = c->at->n_children || (c->at->field.kind == FBY_KIND_INT && c->at->field.dtype == FBY_INT64);
        const uint32_t field = fits && may && c->f->left ? list_table(c->f, list, i) : 0;
        c->f->left -= field != 0;
        mark(c, field, named);
    }
}

/* Parquet's schema bounds the depth. named: the field's name is to be the element's. */
static void mark(cursor *c, uint32_t field, bool named)
{
    fby__schema_element *e = c->at++;
    if (e->n_children) {
        if (field && named && !has_name(c->f, field, e->name, e->name_n))
            field = 0;
        mark_children(c, e, follow(c->f, member(c->f, field, FIELD_CHILDREN)));
        return;
    }
    if (!field || type_of(c->f, field) != TYPE_DURATION || (named && !has_name(c->f, field, e->name, e->name_n)))
        return;
    const fby_unit unit = unit_of(c->f, field);
    if (unit == FBY_UNIT_NONE)
        return;
    e->field.kind = FBY_KIND_DURATION;
    e->field.unit = unit;
    c->marked = true;
}

/* The list of the schema's fields, 0 when there is none. */
static uint32_t fields_of(const flat *f)
{
    const uint32_t message = follow(f, member(f, u32_at(f, 0), MESSAGE_HEADER));
    const uint32_t type = member(f, u32_at(f, 0), MESSAGE_HEADER_TYPE);
    return type && byte_at(f, type) == HEADER_SCHEMA ? follow(f, member(f, message, SCHEMA_FIELDS)) : 0;
}

fby__bytes fby__pq_arrow_schema(fby__thrift *t, uint8_t type)
{
    static const char KEY[] = "ARROW:schema";
    fby__bytes found = {0};
    for (uint32_t n = fby__thrift_list(t, type, FBY__THRIFT_STRUCT); n > 0 && !t->fault; n--) {
        fby__thrift_field m = {0};
        fby__bytes key = {0}, value = {0};
        while (fby__thrift_next(t, &m)) {
            if (m.id == 1 && m.type == FBY__THRIFT_BINARY)
                key = fby__thrift_binary(t, m.type);
            else if (m.id == 2 && m.type == FBY__THRIFT_BINARY) /* old versions of fastparquet write numbers as well */
                value = fby__thrift_binary(t, m.type);
            else
                fby__thrift_skip(t, m.type);
        }
        if (key.n == sizeof KEY - 1 && memcmp(key.data, KEY, key.n) == 0)
            found = value;
    }
    return found;
}

static bool is_base64(const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (digit_of(text[i]) == NO_DIGIT)
            return false;
    return n % 4 != 1;
}

/* Characters, without those that fill up the last four. */
static size_t base64_length(fby__bytes base64)
{
    const size_t n = base64.n;
    return n == 0 || n % 4 || base64.data[n - 1] != '=' ? n : base64.data[n - 2] != '=' ? n - 1 : n - 2;
}

/* The message's header, where it stands in the text. */
static flat header_of(fby__bytes base64)
{
    const size_t n = base64_length(base64);
    flat f = {.text = base64.data, .n = n < INT32_MAX ? (uint32_t)(n * 3 / 4) : 0};
    f.begin = u32_at(&f, 0) == UINT32_MAX ? 8 : 4; /* before Arrow 0.15 without the first four bytes */
    f.n -= f.n < f.begin ? f.n : f.begin;
    f.left = f.n / 4;
    return f;
}

/* Are these the table's columns? */
static bool names_columns(fby__bytes base64, const fby_field *root)
{
    const flat f = header_of(base64);
    const uint32_t list = fields_of(&f);
    bool same = list_length(&f, list) == root->n_children;
    for (uint32_t i = 0; same && i < root->n_children; i++)
        same = has_name(&f, list_table(&f, list, i), root->children[i].name, strlen(root->children[i].name));
    return same;
}

fby_status fby__pq_contents_of_columns(fby__bytes base64, const fby_field *root, fby_contents *out, fby_error *err)
{
    const size_t n = base64_length(base64), before = out->n;
    const flat f = {.text = base64.data, .n = n < INT32_MAX && is_base64(base64.data, n) ? (uint32_t)(n * 3 / 4) : 0};
    uint8_t *message = fby__malloc((size_t)f.n + 1);
    if (!message)
        return fby__fail_nomem(err, "the contents of a file");
    for (uint32_t i = 0; i < f.n; i++)
        message[i] = byte_at(&f, i);
    const fby_status status = fby__ipc_contents_of_message((fby__bytes){message, f.n}, out, err);
    fby__free(message);
    if (status != FBY_OK || !names_columns(base64, root))
        out->n = before;
    if (status != FBY_E_FORMAT)
        return status;
    fby__error_clear(err);
    return fby__contents_note(out, "the Arrow schema among its metadata is damaged: what that says of columns is left out", err);
}

bool fby__pq_mark_durations(fby__bytes base64, fby__schema_element *tree)
{
    flat f = header_of(base64);
    cursor c = {.f = &f, .at = tree + 1};
    mark_children(&c, tree, fields_of(&f));
    return c.marked && is_base64(base64.data, base64_length(base64));
}
