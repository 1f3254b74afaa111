/* An Arrow schema as the flatbuffer tables of Schema.fbs: what format/ipc/ipc_schema.c reads. */
#include "block/arrow_flat.h"
#include "format/ipc/ipc_types.h"
#include "write/arrow_file.h"

#include <stdio.h>

/* A type as a member of the union and the fields of its table; text: of the last field, an offset. */
typedef struct type {
    int member;
    fby__fb_field fields[3];
    uint32_t n;
    const char *text;
} type;

static type simple(int member) { return (type){.member = member}; }
static type with(int member, fby__fb_field a) { return (type){.member = member, .fields = {a}, .n = 1}; }
static type with2(int member, fby__fb_field a, fby__fb_field b) { return (type){.member = member, .fields = {a, b}, .n = 2}; }

static int unit_of(char letter) { return letter == 's' ? 0 : letter == 'm' ? 1 : letter == 'u' ? 2 : 3; }

static type time_type(const char *format)
{
    const int unit = unit_of(format[2]);
    if (format[1] == 'd')
        return with(TYPE_DATE, FBY__FB_I16(format[2] == 'D' ? 0 : 1));
    if (format[1] == 't')
        return with2(TYPE_TIME, FBY__FB_I16(unit), FBY__FB_I32(unit < 2 ? 32 : 64));
    if (format[1] == 'D')
        return with(TYPE_DURATION, FBY__FB_I16(unit));
    type out = with2(TYPE_TIMESTAMP, FBY__FB_I16(unit), format[4] ? FBY__FB_OFFSET : FBY__FB_NONE);
    out.text = format[4] ? format + 4 : NULL;
    return out;
}

/* The schema was checked by its writer, so its formats are known ones. */
static type type_of(const struct ArrowSchema *schema)
{
    const char *f = schema->format;
    int a = 0, b = 0, bits = 128;
    switch (f[0]) {
    case 'n': return simple(TYPE_NULL);
    case 'b': return simple(TYPE_BOOL);
    case 'c': return with2(TYPE_INT, FBY__FB_I32(8), FBY__FB_I8(1));
    case 'C': return with2(TYPE_INT, FBY__FB_I32(8), FBY__FB_I8(0));
    case 's': return with2(TYPE_INT, FBY__FB_I32(16), FBY__FB_I8(1));
    case 'S': return with2(TYPE_INT, FBY__FB_I32(16), FBY__FB_I8(0));
    case 'i': return with2(TYPE_INT, FBY__FB_I32(32), FBY__FB_I8(1));
    case 'I': return with2(TYPE_INT, FBY__FB_I32(32), FBY__FB_I8(0));
    case 'l': return with2(TYPE_INT, FBY__FB_I32(64), FBY__FB_I8(1));
    case 'L': return with2(TYPE_INT, FBY__FB_I32(64), FBY__FB_I8(0));
    case 'e': return with(TYPE_FLOAT, FBY__FB_I16(0));
    case 'f': return with(TYPE_FLOAT, FBY__FB_I16(1));
    case 'g': return with(TYPE_FLOAT, FBY__FB_I16(2));
    case 'u': return simple(TYPE_UTF8);
    case 'U': return simple(TYPE_LARGE_UTF8);
    case 'z': return simple(TYPE_BINARY);
    case 'Z': return simple(TYPE_LARGE_BINARY);
    case 'w': (void)sscanf(f, "w:%d", &a); return with(TYPE_FIXED_BINARY, FBY__FB_I32(a));
    case 'd':
        (void)sscanf(f, "d:%d,%d,%d", &a, &b, &bits);
        return (type){.member = TYPE_DECIMAL, .fields = {FBY__FB_I32(a), FBY__FB_I32(b), FBY__FB_I32(bits)}, .n = 3};
    case 't': return time_type(f);
    case 'v': return simple(f[1] == 'u' ? TYPE_UTF8_VIEW : TYPE_BINARY_VIEW);
    default: break;
    }
    switch (f[1]) {
    case 's': return simple(TYPE_STRUCT);
    case 'l': return simple(TYPE_LIST);
    case 'L': return simple(TYPE_LARGE_LIST);
    case 'm': return with(TYPE_MAP, FBY__FB_I8((schema->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0));
    default: (void)sscanf(f, "+w:%d", &a); return with(TYPE_FIXED_LIST, FBY__FB_I32(a));
    }
}

enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_TYPE, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN, FIELD_CUSTOM, FIELD_FIELDS };

/* Attributes of a field, or of the file. */
typedef struct said {
    const fby__write_attribute *first;
    uint32_t n;
} said;

/* Fields are put in pre-order, as attributes come. */
typedef struct walk {
    const fby__write_options *options;
    size_t at; /* the next attribute */
    int64_t field;
} walk;

static said next_said(walk *f)
{
    const fby__write_options *o = f->options;
    said s = {.first = o->n_attributes ? &o->attributes[f->at] : NULL};
    for (; f->at < o->n_attributes && o->attributes[f->at].field == f->field; f->at++)
        s.n++;
    f->field++;
    return s;
}

static void put_pairs(fby__fb *b, uint32_t link, const said *s)
{
    uint32_t pair[2], at = fby__fb_vector(b, link, s->n, 4, 4);
    for (uint32_t i = 0; i < s->n; i++, at += 4) {
        fby__fb_table(b, at, (fby__fb_field[]){FBY__FB_OFFSET, FBY__FB_OFFSET}, 2, pair);
        fby__fb_string(b, pair[0], s->first[i].name);
        fby__fb_string(b, pair[1], s->first[i].text);
    }
}

static void put_field(fby__fb *b, uint32_t link, const struct ArrowSchema *schema, walk *f)
{
    const type t = type_of(schema);
    const said s = next_said(f);
    uint32_t slots[FIELD_FIELDS], type_slots[3];
    const fby__fb_field fields[FIELD_FIELDS] = {[FIELD_NAME] = FBY__FB_OFFSET,
                                                [FIELD_NULLABLE] = FBY__FB_I8((schema->flags & ARROW_FLAG_NULLABLE) != 0),
                                                [FIELD_TYPE_TYPE] = FBY__FB_I8(t.member),
                                                [FIELD_TYPE] = FBY__FB_OFFSET,
                                                [FIELD_CHILDREN] = FBY__FB_OFFSET,
                                                [FIELD_CUSTOM] = s.n ? FBY__FB_OFFSET : FBY__FB_NONE};
    fby__fb_table(b, link, fields, FIELD_FIELDS, slots);
    fby__fb_string(b, slots[FIELD_NAME], schema->name ? schema->name : "");
    fby__fb_table(b, slots[FIELD_TYPE], t.fields, t.n, type_slots);
    if (t.text)
        fby__fb_string(b, type_slots[t.n - 1], t.text);
    const uint32_t children = fby__fb_vector(b, slots[FIELD_CHILDREN], (uint32_t)schema->n_children, 4, 4);
    for (int64_t i = 0; i < schema->n_children; i++)
        put_field(b, children + 4 * (uint32_t)i, schema->children[i], f);
    if (s.n)
        put_pairs(b, slots[FIELD_CUSTOM], &s);
}

void fby__arrow_put_schema(fby__fb *b, uint32_t link, const struct ArrowSchema *schema, const fby__write_options *options)
{
    uint32_t slots[3];
    walk f = {.options = options, .field = -1};
    const said file = next_said(&f);
    const fby__fb_field custom = file.n ? FBY__FB_OFFSET : FBY__FB_NONE;
    fby__fb_table(b, link, (fby__fb_field[]){FBY__FB_I16(0), FBY__FB_OFFSET, custom}, 3, slots); /* little-endian, fields */
    const uint32_t columns = fby__fb_vector(b, slots[1], (uint32_t)schema->n_children, 4, 4);
    for (int64_t i = 0; i < schema->n_children; i++)
        put_field(b, columns + 4 * (uint32_t)i, schema->children[i], &f);
    if (file.n)
        put_pairs(b, slots[2], &file);
}
