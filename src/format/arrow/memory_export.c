/*
 * Rows of a batch in memory → an ArrowArray of the form that fby__arrow_schema_export promises.
 *
 * Where the producer's buffers already have that form they are lent, not copied: each exported node holds a reference
 * to the table, so any child may be moved out and outlive all others. What differs is converted: 32-bit offsets to 64
 * bits, views and dictionaries to plain values, date64 to days, decimals to 128 or 256 bits. List offsets are rebased
 * (8 bytes a row), so that only the elements of the rows asked for are converted. Exported arrays have offset 0;
 * validity bitmaps that do not begin at a byte are shifted.
 */
#include "format/arrow/memory_column.h"

#include "base/checked.h"
#include "block/arrow.h"

typedef struct export_node {
    fby__table *table; /* shared: one reference a node */
    void *owned[3];    /* buffers made here, or NULL */
    const void *buffers[3];
    struct ArrowArray *children[]; /* n_children pointers, then the arrays */
} export_node;

static void node_release(struct ArrowArray *array)
{
    export_node *node = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release)
            array->children[i]->release(array->children[i]);
    for (int i = 0; i < 3; i++)
        fby__free(node->owned[i]);
    fby__table_unref(node->table);
    fby__free(node);
    *array = (struct ArrowArray){0};
}

static fby_status node_create(const fby__table *table, int64_t n_buffers, uint32_t n_children, uint64_t length, struct ArrowArray *out,
                              fby_error *err)
{
    size_t pointers = sizeof(struct ArrowArray *) * n_children, arrays = sizeof(struct ArrowArray) * n_children;
    export_node *node = fby__calloc(1, sizeof *node + pointers + arrays);
    if (!node)
        return fby__fail_nomem(err, "an Arrow array");
    uint8_t *first = (uint8_t *)node->children + pointers;
    for (uint32_t i = 0; i < n_children; i++)
        node->children[i] = (struct ArrowArray *)(void *)(first + i * sizeof(struct ArrowArray));
    node->table = fby__table_ref((fby__table *)(uintptr_t)table); /* the count is atomic; nothing else is written */
    *out = (struct ArrowArray){.length = (int64_t)length,
                               .n_buffers = n_buffers,
                               .n_children = n_children,
                               .buffers = node->buffers,
                               .children = node->children,
                               .release = node_release,
                               .private_data = node};
    return FBY_OK;
}

/* Make buffer i, owned by the array. */
static void *own(struct ArrowArray *array, int i, uint64_t n, size_t size)
{
    export_node *node = array->private_data;
    size_t bytes;
    if (n > SIZE_MAX || !fby__mul_checked((size_t)n, size, &bytes))
        return NULL;
    node->buffers[i] = node->owned[i] = fby__malloc(bytes);
    return node->owned[i];
}

static void lend(struct ArrowArray *array, int i, const void *buffer)
{
    export_node *node = array->private_data;
    node->buffers[i] = buffer;
}

/* Bits [first, first + n) as a buffer that begins with the first of them. */
static fby_status put_bits(struct ArrowArray *out, int i, const uint8_t *bits, uint64_t first, uint64_t n, fby_error *err)
{
    if (first % 8 == 0 || n == 0) {
        lend(out, i, bits ? bits + first / 8 : NULL);
        return FBY_OK;
    }
    uint8_t *to = own(out, i, n / 8 + 1, 1);
    if (!to)
        return fby__fail_nomem(err, "an Arrow bitmap");
    const uint8_t *from = bits + first / 8;
    unsigned shift = first % 8;
    uint64_t last = (first + n - 1) / 8 - first / 8; /* the last byte that may be read */
    for (uint64_t b = 0; b < (n + 7) / 8; b++)
        to[b] = (uint8_t)(from[b] >> shift | (b < last ? from[b + 1] << (8 - shift) : 0));
    return FBY_OK;
}

static uint64_t count_bits(const uint8_t *bits, uint64_t n)
{
    uint64_t count = 0, i = 0;
    for (; i + 64 <= n; i += 64)
        count += (uint64_t)__builtin_popcountll(fby__load_u64(bits + i / 8));
    for (; i < n; i++)
        count += fby__arrow_bit(bits, i);
    return count;
}

static fby_status put_validity(struct ArrowArray *out, const struct ArrowArray *in, uint64_t first, uint64_t n, fby_error *err)
{
    const uint8_t *bits = fby__arrow_validity(in);
    if (!bits || n == 0)
        return FBY_OK;
    FBY__TRY(put_bits(out, 0, bits, first, n, err));
    out->null_count = (int64_t)(n - count_bits(out->buffers[0], n));
    if (!out->null_count)
        lend(out, 0, NULL); /* a shifted copy stays owned until the release */
    return FBY_OK;
}

/* ---- values that must be converted ---- */

/* Which values to take: `first` + i, or what the indices say (null where flags say so). */
typedef struct selection {
    const fby__arrow_column *column; /* with a dictionary; else NULL */
    const uint8_t *flags;            /* of a dictionary-encoded column, else NULL */
    const struct ArrowArray *values;
    uint64_t first, n;
} selection;

/* Position of value i in the buffers of `values`; false where it is null. */
static bool position(const selection *s, uint64_t i, uint64_t *out)
{
    if (!s->column) {
        *out = s->first + i;
        return fby__arrow_bit(fby__arrow_validity(s->values), *out);
    }
    uint64_t index = 0;
    if (!s->flags[i] || fby__arrow_column_index(s->column, i, &index, NULL) != FBY_OK) /* checked before */
        return false;
    *out = (uint64_t)s->values->offset + index;
    return true;
}

static fby_status copy_strings(struct ArrowArray *out, const fby__arrow_format *format, const selection *s, fby_error *err)
{
    uint64_t total = 0, p;
    uint8_t *offsets = own(out, 1, s->n + 1, 8);
    if (!offsets)
        return fby__fail_nomem(err, "an Arrow column");
    for (uint64_t i = 0; i < s->n; i++) {
        fby__store_u64(offsets + 8 * i, total);
        if (position(s, i, &p))
            total += fby__arrow_bytes_at(format, s->values, p).n;
    }
    fby__store_u64(offsets + 8 * s->n, total);
    uint8_t *data = own(out, 2, total, 1);
    if (!data)
        return fby__fail_nomem(err, "an Arrow column");
    for (uint64_t i = 0; i < s->n; i++)
        if (position(s, i, &p)) {
            fby__bytes bytes = fby__arrow_bytes_at(format, s->values, p);
            if (bytes.n)
                memcpy(data + fby__load_u64(offsets + 8 * i), bytes.data, bytes.n);
        }
    return FBY_OK;
}

static fby_status copy_bools(struct ArrowArray *out, const selection *s, fby_error *err)
{
    uint8_t *bits = own(out, 1, s->n / 8 + 1, 1);
    if (!bits)
        return fby__fail_nomem(err, "an Arrow column");
    memset(bits, 0, (size_t)(s->n / 8 + 1));
    for (uint64_t i = 0, p; i < s->n; i++)
        if (position(s, i, &p) && fby__arrow_bit(s->values->buffers[1], p))
            bits[i / 8] |= (uint8_t)(1u << (i % 8));
    return FBY_OK;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Bytes of a value in the exported form. */
static uint32_t exported_width(const fby__arrow_format *format)
{
    if (format->field.kind == FBY_KIND_DECIMAL)
        return format->field.precision > 38 ? 32 : 16;
    if (format->field.kind == FBY_KIND_DATE)
        return 4;
    return format->width;
}

static fby_status copy_fixed(struct ArrowArray *out, const fby__arrow_format *format, const selection *s, fby_error *err)
{
    uint32_t width = exported_width(format), have = format->width;
    const uint8_t *values = s->values->buffers[1];
    uint8_t *dst = own(out, 1, s->n, width);
    if (!dst)
        return fby__fail_nomem(err, "an Arrow column");
    for (uint64_t i = 0, p; i < s->n; i++, dst += width) {
        if (!position(s, i, &p)) {
            memset(dst, 0, width);
            continue;
        }
        const uint8_t *src = values + p * have;
        if (format->unit_div != 1) {
            fby__store_u32(dst, (uint32_t)floor_div((int64_t)fby__load_u64(src), format->unit_div));
            continue;
        }
        uint32_t n = have < width ? have : width; /* little-endian; a wider decimal of 38 digits or fewer is sign in its upper half */
        memcpy(dst, src, n);
        if (width > n)
            memset(dst + n, src[have - 1] & 0x80 ? 0xff : 0, width - n);
    }
    return FBY_OK;
}

/* ---- nodes ---- */

static fby_status export_array(const fby__table *table, const fby_field *field, const struct ArrowSchema *schema,
                               const struct ArrowArray *in, uint64_t begin, uint64_t n, struct ArrowArray *out, fby_error *err);

/* Validity of dictionary-encoded values: null where the index is, or where the dictionary's entry is. */
static fby_status put_flags(struct ArrowArray *out, const uint8_t *flags, uint64_t n, fby_error *err)
{
    uint8_t *bits = own(out, 0, n / 8 + 1, 1);
    if (!bits)
        return fby__fail_nomem(err, "an Arrow bitmap");
    memset(bits, 0, (size_t)(n / 8 + 1));
    for (uint64_t i = 0; i < n; i++) {
        bits[i / 8] |= (uint8_t)(flags[i] << (i % 8));
        out->null_count += !flags[i];
    }
    return FBY_OK;
}

static fby_status copy_dictionary(const fby__arrow_column *column, uint8_t *flags, struct ArrowArray *out, fby_error *err)
{
    uint64_t n = (uint64_t)out->length, index;
    bool all = fby__arrow_column_flags(column, 0, (size_t)n, flags);
    for (uint64_t i = 0; i < n; i++)
        if (flags[i])
            FBY__TRY(fby__arrow_column_index(column, i, &index, err));
    if (!all)
        FBY__TRY(put_flags(out, flags, n, err));
    selection s = {column, flags, column->array->dictionary, 0, n};
    if (column->format.storage == FBY__ARROW_FIXED)
        return copy_fixed(out, &column->format, &s, err);
    if (column->format.storage == FBY__ARROW_BITS)
        return copy_bools(out, &s, err);
    return copy_strings(out, &column->format, &s, err);
}

static fby_status export_dictionary(const struct ArrowSchema *schema, const struct ArrowArray *in, uint64_t begin, struct ArrowArray *out,
                                    fby_error *err)
{
    fby__arrow_path none = {0};
    fby__arrow_column *column = fby__malloc(sizeof *column);
    uint8_t *flags = fby__malloc((size_t)out->length);
    fby_status status =
        column && flags ? fby__arrow_column_open(schema, in, begin, &none, 0, true, column, err) : fby__fail_nomem(err, "an Arrow column");
    if (status == FBY_OK)
        status = copy_dictionary(column, flags, out, err);
    fby__free(flags);
    fby__free(column);
    return status;
}

static fby_status export_list(const fby__table *table, const fby_field *field, const struct ArrowSchema *schema, bool wide,
                              const struct ArrowArray *in, uint64_t first, struct ArrowArray *out, fby_error *err)
{
    uint64_t n = (uint64_t)out->length;
    uint64_t begin = fby__arrow_offset(in, wide, n ? first : 0), end = fby__arrow_offset(in, wide, n ? first + n : 0);
    bool narrow = fby__arrow_map_is_map(field);
    uint8_t *offsets = own(out, 1, n + 1, narrow ? 4 : 8);
    if (!offsets)
        return fby__fail_nomem(err, "an Arrow list");
    for (uint64_t i = 0; i <= n; i++) {
        uint64_t offset = n ? fby__arrow_offset(in, wide, first + i) - begin : 0;
        if (narrow) /* came with 32 bits, and rebasing makes it smaller */
            fby__store_u32(offsets + 4 * i, (uint32_t)offset);
        else
            fby__store_u64(offsets + 8 * i, offset);
    }
    return export_array(table, &field->children[0], schema->children[0], in->children[0], begin, end - begin, out->children[0], err);
}

static fby_status export_plain(const fby__table *table, const fby_field *field, const struct ArrowSchema *schema,
                               const fby__arrow_format *format, const struct ArrowArray *in, uint64_t first, struct ArrowArray *out,
                               fby_error *err)
{
    uint64_t n = (uint64_t)out->length;
    selection s = {NULL, NULL, in, first, n};
    FBY__TRY(put_validity(out, in, first, n, err));
    switch (format->storage) {
    case FBY__ARROW_NULL: out->null_count = out->length; return FBY_OK;
    case FBY__ARROW_BITS: return put_bits(out, 1, in->buffers[1], first, n, err);
    case FBY__ARROW_FIXED:
        if (format->unit_div != 1 || exported_width(format) != format->width)
            return copy_fixed(out, format, &s, err);
        lend(out, 1, n ? (const uint8_t *)in->buffers[1] + first * format->width : in->buffers[1]);
        return FBY_OK;
    case FBY__ARROW_VIEW: return copy_strings(out, format, &s, err);
    case FBY__ARROW_VAR32:
    case FBY__ARROW_VAR64:
        lend(out, 2, in->buffers[2]);
        if (format->storage == FBY__ARROW_VAR64 && in->buffers[1]) {
            lend(out, 1, (const uint8_t *)in->buffers[1] + 8 * first);
        } else {
            uint8_t *offsets = own(out, 1, n + 1, 8);
            if (!offsets)
                return fby__fail_nomem(err, "an Arrow column");
            for (uint64_t i = 0; i <= n; i++)
                fby__store_u64(offsets + 8 * i, fby__arrow_offset(in, false, first + i));
        }
        return FBY_OK;
    case FBY__ARROW_LIST32:
    case FBY__ARROW_LIST64: return export_list(table, field, schema, format->storage == FBY__ARROW_LIST64, in, first, out, err);
    case FBY__ARROW_FIXED_LIST: {
        uint64_t size = (uint64_t)format->field.list_size;
        return export_array(table, &field->children[0], schema->children[0], in->children[0], first * size, n * size, out->children[0],
                            err);
    }
    case FBY__ARROW_STRUCT:
        for (uint32_t c = 0; c < field->n_children; c++)
            FBY__TRY(export_array(table, &field->children[c], schema->children[c], in->children[c], first, n, out->children[c], err));
        return FBY_OK;
    }
    return fby__fail(err, FBY_E_INTERNAL, "unknown Arrow storage");
}

/* Values [begin, begin + n) of an array, counted before its own offset. On failure *out is released. */
static fby_status export_array(const fby__table *table, const fby_field *field, const struct ArrowSchema *schema,
                               const struct ArrowArray *in, uint64_t begin, uint64_t n, struct ArrowArray *out, fby_error *err)
{
    static const int64_t N_BUFFERS[] = {
        [FBY__ARROW_NULL] = 0, [FBY__ARROW_BITS] = 2,   [FBY__ARROW_FIXED] = 2,  [FBY__ARROW_VAR32] = 3,      [FBY__ARROW_VAR64] = 3,
        [FBY__ARROW_VIEW] = 3, [FBY__ARROW_LIST32] = 2, [FBY__ARROW_LIST64] = 2, [FBY__ARROW_FIXED_LIST] = 1, [FBY__ARROW_STRUCT] = 1,
    };
    fby__arrow_format format;
    FBY__TRY(fby__arrow_format_parse(fby__arrow_value_schema(schema)->format, &format, err));
    FBY__TRY(node_create(table, N_BUFFERS[format.storage], field->n_children, n, out, err));
    uint64_t first = begin + (uint64_t)in->offset;
    fby_status status = in->dictionary && format.storage != FBY__ARROW_NULL
                            ? export_dictionary(schema, in, begin, out, err)
                            : export_plain(table, field, schema, &format, in, first, out, err);
    if (status != FBY_OK)
        out->release(out);
    return status;
}

fby_status fby__arrow_export(const fby__table *owner, const fby_field *field, const struct ArrowSchema *schema, const struct ArrowArray *in,
                             struct ArrowArray *out, fby_error *err)
{
    struct ArrowArray array = {0};
    FBY__TRY(export_array(owner, field, schema, in, 0, (uint64_t)in->length, &array, err));
    *out = array;
    return FBY_OK;
}

fby_status fby__arrow_decode_arrow(const fby__arrow_request *q, fby__scratch *scratch, struct ArrowArray *out, fby_error *err)
{
    (void)scratch; /* nothing was read */
    const fby__arrow_memory *memory = fby__arrow_memory_of(q->table);
    const struct ArrowArray *batch = &memory->batches[q->group];
    const fby_field *fields = q->table->schema->fields, *field = &fields[q->field];
    size_t child = (size_t)(field - fields[0].children);
    struct ArrowArray array = {0};
    fby_status status = export_array(q->table, field, memory->schema.children[child], batch->children[child],
                                     q->row_begin + (uint64_t)batch->offset, q->row_end - q->row_begin, &array, err);
    if (status != FBY_OK) {
        fby__error_context(err, "%s: batch %u, column '%s'", q->file_name, q->group, field->path);
        return status;
    }
    *out = array;
    return FBY_OK;
}
