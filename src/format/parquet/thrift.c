/* The Thrift compact protocol: see thrift.h. */
#include "format/parquet/thrift.h"

void fby__thrift_fail(fby__thrift *t, const char *fault)
{
    if (!t->fault) {
        t->fault = fault;
        t->fault_at = t->p;
    }
    t->p = t->end;
}

static void cut_short(fby__thrift *t)
{
    if (!t->fault)
        t->cut = true;
    fby__thrift_fail(t, "the metadata ends early");
}

static inline size_t left(const fby__thrift *t) { return (size_t)(t->end - t->p); }

static uint8_t next_byte(fby__thrift *t)
{
    if (t->p == t->end) {
        cut_short(t);
        return 0;
    }
    return *t->p++;
}

static void advance(fby__thrift *t, uint64_t n)
{
    if (n > left(t))
        cut_short(t);
    else
        t->p += n;
}

static uint64_t varint(fby__thrift *t)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (t->p == t->end) {
            cut_short(t);
            return 0;
        }
        uint8_t b = *t->p++;
        value |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return value;
    }
    fby__thrift_fail(t, "a number is longer than 64 bits");
    return 0;
}

static int64_t zigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

bool fby__thrift_next(fby__thrift *t, fby__thrift_field *field)
{
    uint8_t head = next_byte(t);
    if (t->fault || head == 0)
        return false;
    int64_t id = field->id + (head >> 4);
    if ((head >> 4) == 0)
        id = zigzag(varint(t));
    field->type = head & 15;
    if (id < INT16_MIN || id > INT16_MAX || field->type == 0 || field->type > FBY__THRIFT_UUID) {
        fby__thrift_fail(t, "a field has no valid number or type");
        return false;
    }
    field->id = (int16_t)id;
    return !t->fault;
}

/* Elements of lists and maps: as fields, but a bool takes a byte of its own. */
static void skip_value(fby__thrift *t, uint8_t type, unsigned depth, bool element)
{
    if (depth > FBY__THRIFT_MAX_DEPTH) {
        fby__thrift_fail(t, "the metadata is nested too deep");
        return;
    }
    switch (type) {
    case FBY__THRIFT_TRUE:
    case FBY__THRIFT_FALSE: advance(t, element); return;
    case FBY__THRIFT_I8: advance(t, 1); return;
    case FBY__THRIFT_I16:
    case FBY__THRIFT_I32:
    case FBY__THRIFT_I64:
        (void)varint(t); /* skipped: only its length matters */
        return;
    case FBY__THRIFT_DOUBLE: advance(t, 8); return;
    case FBY__THRIFT_UUID: advance(t, 16); return;
    case FBY__THRIFT_BINARY: advance(t, varint(t)); return;
    case FBY__THRIFT_LIST:
    case FBY__THRIFT_SET: {
        uint8_t head = next_byte(t);
        uint64_t n = head >> 4;
        if (n == 15)
            n = varint(t);
        if (n > left(t)) { /* every element takes a byte at least */
            cut_short(t);
            return;
        }
        for (; n > 0 && !t->fault; n--)
            skip_value(t, head & 15, depth + 1, true);
        return;
    }
    case FBY__THRIFT_MAP: {
        uint64_t n = varint(t);
        uint8_t types = n ? next_byte(t) : 0;
        if (n > left(t) / 2) {
            cut_short(t);
            return;
        }
        for (; n > 0 && !t->fault; n--) {
            skip_value(t, types >> 4, depth + 1, true);
            skip_value(t, types & 15, depth + 1, true);
        }
        return;
    }
    case FBY__THRIFT_STRUCT: {
        fby__thrift_field f = {0};
        while (fby__thrift_next(t, &f))
            skip_value(t, f.type, depth + 1, false);
        return;
    }
    default: fby__thrift_fail(t, "a value has an unknown type");
    }
}

void fby__thrift_skip(fby__thrift *t, uint8_t type) { skip_value(t, type, 0, false); }

int64_t fby__thrift_i64(fby__thrift *t, uint8_t type)
{
    if (type == FBY__THRIFT_I8)
        return (int8_t)next_byte(t);
    if (type < FBY__THRIFT_I16 || type > FBY__THRIFT_I64) {
        fby__thrift_fail(t, "a field is not the integer it should be");
        return 0;
    }
    return zigzag(varint(t));
}

int32_t fby__thrift_i32(fby__thrift *t, uint8_t type)
{
    int64_t v = fby__thrift_i64(t, type);
    if (v < INT32_MIN || v > INT32_MAX) {
        fby__thrift_fail(t, "a number does not fit 32 bits");
        return 0;
    }
    return (int32_t)v;
}

bool fby__thrift_bool(fby__thrift *t, uint8_t type)
{
    if (type != FBY__THRIFT_TRUE && type != FBY__THRIFT_FALSE)
        fby__thrift_fail(t, "a field is not the bool it should be");
    return type == FBY__THRIFT_TRUE;
}

fby__bytes fby__thrift_binary(fby__thrift *t, uint8_t type)
{
    if (type != FBY__THRIFT_BINARY) {
        fby__thrift_fail(t, "a field is not the text it should be");
        return (fby__bytes){0};
    }
    uint64_t n = varint(t);
    fby__bytes b = {t->p, (size_t)n};
    advance(t, n);
    return t->fault ? (fby__bytes){0} : b;
}

bool fby__thrift_struct(fby__thrift *t, uint8_t type)
{
    if (type != FBY__THRIFT_STRUCT)
        fby__thrift_fail(t, "a field is not the structure it should be");
    return type == FBY__THRIFT_STRUCT;
}

uint32_t fby__thrift_list(fby__thrift *t, uint8_t type, uint8_t element)
{
    if (type != FBY__THRIFT_LIST) {
        fby__thrift_fail(t, "a field is not the list it should be");
        return 0;
    }
    uint8_t head = next_byte(t);
    uint64_t n = head >> 4;
    if (n == 15)
        n = varint(t);
    if (t->fault || n == 0)
        return 0;
    if ((head & 15) != element) {
        fby__thrift_fail(t, "a list holds another type than it should");
        return 0;
    }
    if (n > left(t) || n > UINT32_MAX) {
        cut_short(t);
        return 0;
    }
    return (uint32_t)n;
}
