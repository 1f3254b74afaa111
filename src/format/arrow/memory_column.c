/* Finding a leaf in an Arrow array, and reading its elements in tiles: see memory_column.h. */
#include "format/arrow/memory_column.h"

#include "base/checked.h"

#include <math.h>

void fby__arrow_path_of(const fby__schema *schema, uint32_t leaf, fby__arrow_path *out)
{
    out->n = 0;
    for (uint32_t f = schema->leaves[leaf].field; f != 0; f = schema->nodes[f].parent)
        out->child[out->n++] = (uint32_t)(&schema->fields[f] - schema->fields[schema->nodes[f].parent].children);
    for (uint32_t i = 0, j = out->n; i + 1 < j; i++) {
        uint32_t swap = out->child[i];
        out->child[i] = out->child[--j];
        out->child[j] = swap;
    }
}

const uint8_t *fby__arrow_validity(const struct ArrowArray *array)
{
    return array->n_buffers > 0 && array->null_count != 0 ? array->buffers[0] : NULL;
}

fby_status fby__arrow_column_open(const struct ArrowSchema *schema, const struct ArrowArray *array, uint64_t begin,
                                  const fby__arrow_path *path, uint32_t depth, bool stop_at_fixed, fby__arrow_column *out, fby_error *err)
{
    out->n_masks = 0;
    out->per_row = 1;
    for (uint64_t first = begin;; depth++) {
        FBY__TRY(fby__arrow_format_parse(fby__arrow_value_schema(schema)->format, &out->format, err));
        first += (uint64_t)array->offset;
        if (fby__arrow_validity(array) && out->format.storage != FBY__ARROW_NULL)
            out->masks[out->n_masks++] = (fby__arrow_mask){fby__arrow_validity(array), first, out->per_row};
        bool fixed = out->format.storage == FBY__ARROW_FIXED_LIST && !stop_at_fixed;
        if (depth == path->n || (out->format.storage != FBY__ARROW_STRUCT && !fixed)) {
            out->schema = schema;
            out->array = array;
            out->depth = depth;
            out->first = first;
            return FBY_OK;
        }
        if (fixed) {
            uint64_t size = (uint64_t)out->format.field.list_size;
            if (!fby__mul_u64_checked(out->per_row, size, &out->per_row) || !fby__mul_u64_checked(first, size, &first))
                return fby__fail(err, FBY_E_UNSUPPORTED, "fixed-size lists with more than 2^64 elements");
        }
        uint32_t child = path->child[depth];
        schema = schema->children[child];
        array = array->children[child];
    }
}

bool fby__arrow_column_flags(const fby__arrow_column *column, uint64_t e, size_t n, uint8_t *flags)
{
    const struct ArrowArray *dictionary = column->array->dictionary;
    if (column->format.storage == FBY__ARROW_NULL) {
        memset(flags, 0, n);
        return n == 0;
    }
    memset(flags, 1, n);
    for (uint32_t m = 0; m < column->n_masks; m++) {
        const fby__arrow_mask *mask = &column->masks[m];
        uint64_t span = column->per_row / mask->per_row;
        if (span == 1)
            for (size_t i = 0; i < n; i++)
                flags[i] &= fby__arrow_bit(mask->bits, mask->first + e + i);
        else
            for (size_t i = 0; i < n; i++)
                flags[i] &= fby__arrow_bit(mask->bits, mask->first + (e + i) / span);
    }
    const uint8_t *entries = dictionary ? fby__arrow_validity(dictionary) : NULL;
    if (entries)
        for (size_t i = 0; i < n; i++) {
            uint64_t index;
            if (flags[i] && fby__arrow_column_index(column, e + i, &index, NULL) == FBY_OK) /* a bad one is told by fetch */
                flags[i] = fby__arrow_bit(entries, (uint64_t)dictionary->offset + index);
        }
    size_t there = 0;
    for (size_t i = 0; i < n; i++)
        there += flags[i];
    return there == n;
}

fby_status fby__arrow_column_index(const fby__arrow_column *column, uint64_t e, uint64_t *out, fby_error *err)
{
    const uint8_t *p = column->array->buffers[1];
    uint64_t i = column->first + e;
    uint64_t index = 0;
    switch (column->schema->format[0]) { /* sign extension turns a negative index into a huge one */
    case 'c': index = (uint64_t)(int8_t)p[i]; break;
    case 'C': index = p[i]; break;
    case 's': index = (uint64_t)(int16_t)fby__load_u16(p + 2 * i); break;
    case 'S': index = fby__load_u16(p + 2 * i); break;
    case 'i': index = (uint64_t)(int32_t)fby__load_u32(p + 4 * i); break;
    case 'I': index = fby__load_u32(p + 4 * i); break;
    default: index = fby__load_u64(p + 8 * i); break;
    }
    if (index >= (uint64_t)column->array->dictionary->length)
        return fby__fail(err, FBY_E_ARG, "dictionary index %lld is outside the dictionary of %lld values", (long long)index,
                         (long long)column->array->dictionary->length);
    *out = index;
    return FBY_OK;
}

/* ---- decimals ---- */

/* A decimal of 4 to 32 bytes; false when it lies outside int64 (*out_wide then has it as a floating-point number). */
static bool read_decimal(const uint8_t *value, uint32_t width, int64_t *out, long double *out_wide)
{
    if (width == 4) {
        *out = (int32_t)fby__load_u32(value);
        return true;
    }
    uint64_t limb[4] = {0};
    uint32_t n = width / 8;
    for (uint32_t i = 0; i < n; i++)
        limb[i] = fby__load_u64(value + 8 * i);
    uint64_t fill = (int64_t)limb[0] < 0 ? UINT64_MAX : 0;
    bool narrow = true;
    for (uint32_t i = 1; i < n; i++)
        narrow &= limb[i] == fill;
    *out = (int64_t)limb[0];
    if (narrow)
        return true;
    /* The magnitude, so that the low limbs do not cancel against the sign. */
    bool negative = (int64_t)limb[n - 1] < 0;
    uint64_t carry = negative;
    for (uint32_t i = 0; negative && i < n; i++) {
        limb[i] = ~limb[i] + carry;
        carry = carry && limb[i] == 0;
    }
    long double wide = 0;
    for (uint32_t i = n; i-- > 0;)
        wide = wide * 18446744073709551616.0L + (long double)limb[i];
    *out_wide = negative ? -wide : wide;
    return false;
}

/* n decimals as int64 with a power of ten, or, when one of them is too wide, as doubles with the power applied. */
static void decimals(const fby__arrow_format *format, const uint8_t *src, size_t n, uint8_t *dst, fby__arrow_values *out)
{
    int32_t scale = format->field.scale;
    int64_t narrow;
    long double wide;
    bool fit = true;
    for (size_t i = 0; i < n && fit; i++)
        fit = read_decimal(src + i * format->width, format->width, &narrow, &wide);
    /* In place where the tile was gathered into dst: a value never takes more room than the decimal it came from,
     * 4-byte ones apart. */
    for (size_t k = 0; k < n; k++) {
        size_t i = format->width < 8 ? n - 1 - k : k;
        bool is_narrow = read_decimal(src + i * format->width, format->width, &narrow, &wide);
        if (fit) {
            fby__store_u64(dst + 8 * i, (uint64_t)narrow);
        } else {
            long double v = is_narrow ? (long double)narrow : wide;
            double value = (double)(scale >= 0 ? v / powl(10.0L, scale) : v * powl(10.0L, -scale));
            memcpy(dst + 8 * i, &value, sizeof value);
        }
    }
    out->data = dst;
    out->dtype = fit ? FBY_INT64 : FBY_FLOAT64;
    out->scale = fit ? (fby__scale){1, 1, scale} : FBY__SCALE_NONE;
}

/* ---- tiles ---- */

/* Values of dictionary-encoded elements, missing ones zero, into work->values. */
static fby_status gather(const fby__arrow_column *column, uint64_t e, size_t n, fby__arrow_work *work, fby_error *err)
{
    const struct ArrowArray *dictionary = column->array->dictionary;
    const uint8_t *entries = dictionary->n_buffers > 1 ? dictionary->buffers[1] : NULL;
    size_t width = column->format.storage == FBY__ARROW_BITS ? 1 : column->format.width;
    for (size_t i = 0; i < n; i++) {
        uint64_t index = 0;
        if (work->flags[i])
            FBY__TRY(fby__arrow_column_index(column, e + i, &index, err));
        work->indices[i] = (int64_t)(index + (uint64_t)dictionary->offset);
    }
    uint8_t *dst = work->values;
    for (size_t i = 0; i < n; i++, dst += width) {
        if (!work->flags[i])
            memset(dst, 0, width);
        else if (column->format.storage == FBY__ARROW_BITS)
            *dst = fby__arrow_bit(entries, (uint64_t)work->indices[i]);
        else
            memcpy(dst, entries + (size_t)work->indices[i] * width, width);
    }
    return FBY_OK;
}

fby_status fby__arrow_column_fetch(const fby__arrow_column *column, uint64_t e, size_t n, fby__arrow_work *work, fby__arrow_values *out,
                                   fby_error *err)
{
    const fby__arrow_format *format = &column->format;
    out->all_there = fby__arrow_column_flags(column, e, n, work->flags);
    out->dtype = format->stored;
    out->scale = (fby__scale){1, format->unit_div, 0};
    out->data = work->values;
    if (format->storage == FBY__ARROW_NULL) {
        memset(work->values, 0, n);
        out->dtype = FBY_BOOL;
        return FBY_OK;
    }

    const uint8_t *src = column->array->buffers[1];
    if (column->array->dictionary) {
        FBY__TRY(gather(column, e, n, work, err));
        src = work->values;
    } else if (format->storage == FBY__ARROW_BITS) {
        for (size_t i = 0; i < n; i++)
            work->values[i] = work->flags[i] & fby__arrow_bit(src, column->first + e + i);
        src = work->values;
    } else {
        src += (column->first + e) * format->width;
        if (!out->all_there) { /* what lies under a null may be anything, also a value that does not fit */
            for (size_t i = 0; i < n; i++)
                if (work->flags[i])
                    memcpy(work->values + i * format->width, src + i * format->width, format->width);
                else
                    memset(work->values + i * format->width, 0, format->width);
            src = work->values;
        }
    }
    out->data = src;
    if (format->field.kind == FBY_KIND_DECIMAL)
        decimals(format, src, n, work->values, out);
    return FBY_OK;
}

fby__bytes fby__arrow_bytes_at(const fby__arrow_format *format, const struct ArrowArray *array, uint64_t i)
{
    if (format->storage == FBY__ARROW_FIXED)
        return (fby__bytes){(const uint8_t *)array->buffers[1] + i * format->width, format->width};
    if (format->storage == FBY__ARROW_VIEW) {
        const uint8_t *view = (const uint8_t *)array->buffers[1] + 16 * i;
        uint32_t n = fby__load_u32(view);
        if (n <= 12) /* short values lie in the view itself */
            return (fby__bytes){view + 4, n};
        return (fby__bytes){(const uint8_t *)array->buffers[2 + fby__load_u32(view + 8)] + fby__load_u32(view + 12), n};
    }
    bool wide = format->storage == FBY__ARROW_VAR64;
    uint64_t begin = fby__arrow_offset(array, wide, i), end = fby__arrow_offset(array, wide, i + 1);
    return (fby__bytes){(const uint8_t *)array->buffers[2] + begin, (size_t)(end - begin)};
}
