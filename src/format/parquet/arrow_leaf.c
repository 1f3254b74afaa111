/*
 * Runs of one leaf → the buffers of an Arrow array.
 *
 * Nothing is allocated by what the footer says: buffers grow as values come, so a file that claims 10^12 rows costs
 * nothing until it delivers them. Null slots are zero. Strings are not checked to be UTF-8 here (dataset/export.c does
 * so).
 */
#include "format/parquet/arrow_leaf.h"

#include "base/checked.h"
#include "block/arrow.h"

#include <sys/mman.h>

/* Make room for n more bytes; the buffer's length is unchanged. */
static fby_status reserve(fby__buf *buf, size_t n, fby_error *err)
{
    size_t need;
    if (!fby__add_checked(buf->n, n, &need) || fby__grow((void **)&buf->data, &buf->cap, need, 1) != 0)
        return fby__fail_nomem(err, "an Arrow column");
    return FBY_OK;
}

/*
 * First room for n elements of `size` bytes, so that most columns never move: what the metadata promises, but at most
 * eight times the chunk's bytes, which are in memory and therefore real. Exact, so that nothing is left over at the
 * end.
 */
static fby_status reserve_first(fby__buf *buf, uint64_t n, size_t size, uint64_t source_bytes, fby_error *err)
{
    uint64_t want;
    if (!fby__mul_u64_checked(n, size, &want) || want / 8 > source_bytes)
        want = source_bytes > UINT64_MAX / 8 ? source_bytes : source_bytes * 8;
    if (want == 0)
        return FBY_OK;
    buf->data = want > SIZE_MAX ? NULL : fby__malloc((size_t)want);
    if (!buf->data)
        return fby__fail_nomem(err, "an Arrow column");
    buf->cap = (size_t)want;
#ifdef MADV_HUGEPAGE
    /* Touched for the first time below, which huge pages make far cheaper. Where the kernel declines, nothing is lost. */
    const uintptr_t huge = (uintptr_t)2 << 20;
    uintptr_t begin = ((uintptr_t)buf->data + huge - 1) & ~(huge - 1), end = ((uintptr_t)buf->data + buf->cap) & ~(huge - 1);
    if (want >= 2 * huge && begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#endif
    return FBY_OK;
}

void fby__pq_arrow_put_bits(uint8_t *bits, uint64_t at, const uint8_t *flags, size_t n)
{
    size_t i = 0;
    if (n == 0) /* of nothing there may be no bits, and nothing can be added to NULL */
        return;
    for (; i < n && (at & 7); i++, at++)
        bits[at >> 3] |= (uint8_t)(flags[i] << (at & 7));
    uint8_t *out = bits + (at >> 3);
    for (; i + 8 <= n; i += 8) /* eight bytes of 0/1 → eight bits, by one multiplication */
        *out++ = (uint8_t)((fby__load_u64(flags + i) * UINT64_C(0x0102040810204080)) >> 56);
    if (i < n) {
        uint8_t last = 0;
        for (unsigned bit = 0; i < n; i++, bit++)
            last |= (uint8_t)(flags[i] << bit);
        *out = last;
    }
}

static size_t bitmap_bytes(uint64_t n_bits) { return (size_t)(n_bits / 8 + (n_bits % 8 != 0)); }

/* Note which of the next n slots are there; all_present: flags are not looked at. */
static fby_status append_validity(fby__pq_arrow_leaf *leaf, const uint8_t *flags, size_t n, bool all_present, fby_error *err)
{
    fby__buf *bits = &leaf->validity;
    if (all_present && !leaf->null_count)
        return FBY_OK;
    size_t bytes = bitmap_bytes(leaf->n + n);
    FBY__TRY(reserve(bits, bytes - bits->n, err));
    if (!leaf->null_count) { /* the first null: all before were there */
        size_t before = bitmap_bytes(leaf->n);
        memset(bits->data, 0xff, before);
        if (leaf->n & 7)
            bits->data[before - 1] = (uint8_t)((1u << (leaf->n & 7)) - 1);
    }
    bits->n = bytes;
    if (!all_present) {
        fby__pq_arrow_put_bits(bits->data, leaf->n, flags, n);
        return FBY_OK;
    }
    uint8_t ones[256];
    memset(ones, 1, sizeof ones);
    for (size_t i = 0; i < n; i += sizeof ones)
        fby__pq_arrow_put_bits(bits->data, leaf->n + i, ones, n - i < sizeof ones ? n - i : sizeof ones);
    return FBY_OK;
}

/* ---- values ---- */

/* A big-endian two's complement number of `have` bytes as `want` little-endian bytes; false when it does not fit. */
static bool put_decimal(uint8_t *dst, size_t want, const uint8_t *src, size_t have)
{
    if (have == 0)
        return false;
    uint8_t fill = src[0] & 0x80 ? 0xff : 0;
    for (; have > want; src++, have--)
        if (src[0] != fill)
            return false;
    if ((src[0] & 0x80) != (fill & 0x80))
        return false;
    for (size_t i = 0; i < have; i++)
        dst[i] = src[have - 1 - i];
    memset(dst + have, fill, want - have);
    return true;
}

static fby_status decimal_too_long(size_t n, fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "a decimal value of %zu bytes does not fit the column's precision", n);
}

/* The dense values of a run as Arrow values: as they are, or converted into the work space. */
static fby_status convert_run(const fby__pq_arrow_leaf *leaf, const fby__pq_span *run, const uint8_t **out, fby_error *err)
{
    uint8_t *work = leaf->work + FBY__PQ_ARROW_RUN;
    const uint8_t *src = run->fixed;
    size_t n = run->n_values;
    *out = work;
    switch (leaf->how) {
    case FBY__PQ_ARROW_NARROW: /* little-endian: the low bytes are the value */
        if (leaf->width == 1)
            for (size_t i = 0; i < n; i++)
                work[i] = src[4 * i];
        else
            for (size_t i = 0; i < n; i++)
                memcpy(work + 2 * i, src + 4 * i, 2);
        return FBY_OK;
    case FBY__PQ_ARROW_INT96:
        for (size_t i = 0; i < n; i++) { /* Julian day 2440588 is 1970-01-01; wraps outside int64 nanoseconds, as Arrow does */
            uint64_t day = (uint64_t)fby__load_u32(src + 12 * i + 8) - UINT64_C(2440588);
            fby__store_u64(work + 8 * i, day * UINT64_C(86400000000000) + fby__load_u64(src + 12 * i));
        }
        return FBY_OK;
    case FBY__PQ_ARROW_DECIMAL_INT:
        for (size_t i = 0; i < n; i++) {
            int64_t v = leaf->stored_width == 4 ? (int32_t)fby__load_u32(src + 4 * i) : (int64_t)fby__load_u64(src + 8 * i);
            fby__store_u64(work + leaf->width * i, (uint64_t)v);
            memset(work + leaf->width * i + 8, v < 0 ? 0xff : 0, leaf->width - 8);
        }
        return FBY_OK;
    case FBY__PQ_ARROW_DECIMAL_FIXED:
        for (size_t i = 0; i < n; i++)
            if (!put_decimal(work + leaf->width * i, leaf->width, src + leaf->stored_width * i, leaf->stored_width))
                return decimal_too_long(leaf->stored_width, err);
        return FBY_OK;
    case FBY__PQ_ARROW_DECIMAL_BYTES:
        for (size_t i = 0; i < n; i++)
            if (!put_decimal(work + leaf->width * i, leaf->width, run->strings[i].data, run->strings[i].n))
                return decimal_too_long(run->strings[i].n, err);
        return FBY_OK;
    default: *out = src; return FBY_OK;
    }
}

#define SPREAD(bytes)                                                                                                                      \
    for (size_t i = 0, j = 0; i < n; i++, dst += (bytes)) {                                                                                \
        if (flags[i])                                                                                                                      \
            memcpy(dst, src + (bytes)*j++, (bytes));                                                                                       \
        else                                                                                                                               \
            memset(dst, 0, (bytes));                                                                                                       \
    }

/* Dense values to their slots; zeros where a value is missing. */
static void spread(uint8_t *dst, const uint8_t *src, const uint8_t *flags, size_t n, size_t width)
{
    switch (width) {
    case 1: SPREAD(1u) break;
    case 2: SPREAD(2u) break;
    case 4: SPREAD(4u) break;
    case 8: SPREAD(8u) break;
    case 16: SPREAD(16u) break;
    default: SPREAD(width) break;
    }
}

static fby_status append_bits(fby__pq_arrow_leaf *leaf, const fby__pq_span *run, const uint8_t *flags, size_t n, bool all, fby_error *err)
{
    const uint8_t *src = run->fixed;
    uint8_t *slots = leaf->work + FBY__PQ_ARROW_RUN;
    size_t bytes = bitmap_bytes(leaf->n + n);
    FBY__TRY(reserve(&leaf->values, bytes - leaf->values.n, err));
    if (!all)
        spread(slots, src, flags, n, 1);
    fby__pq_arrow_put_bits(leaf->values.data, leaf->n, all ? src : slots, n);
    leaf->values.n = bytes;
    return FBY_OK;
}

static fby_status append_fixed(fby__pq_arrow_leaf *leaf, const fby__pq_span *run, const uint8_t *flags, size_t n, bool all, fby_error *err)
{
    size_t bytes;
    const uint8_t *src;
    if (!fby__mul_checked(n, leaf->width, &bytes))
        return fby__fail_nomem(err, "an Arrow column");
    FBY__TRY(reserve(&leaf->values, bytes, err));
    FBY__TRY(convert_run(leaf, run, &src, err));
    uint8_t *dst = leaf->values.data + leaf->values.n;
    if (!bytes)
        return FBY_OK; /* fixed binaries of width 0 */
    if (all)
        memcpy(dst, src, bytes);
    else
        spread(dst, src, flags, n, leaf->width);
    leaf->values.n += bytes;
    return FBY_OK;
}

static fby_status append_strings(fby__pq_arrow_leaf *leaf, const fby__pq_span *run, const uint8_t *flags, size_t n, bool all,
                                 fby_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < run->n_values; i++)
        bytes += run->strings[i].n; /* at most 8,192 × 4 GiB */
    FBY__TRY(reserve(&leaf->values, bytes, err));
    FBY__TRY(reserve(&leaf->offsets, n * sizeof(int64_t), err));
    uint8_t *data = leaf->values.data, *offsets = leaf->offsets.data + leaf->offsets.n;
    size_t at = leaf->values.n, j = 0;
    for (size_t i = 0; i < n; i++, offsets += sizeof(int64_t)) {
        if (all || flags[i]) {
            const fby__pq_string *s = &run->strings[j++];
            if (s->n)
                memcpy(data + at, s->data, s->n);
            at += s->n;
        }
        fby__store_u64(offsets, at);
    }
    leaf->values.n = at;
    leaf->offsets.n += n * sizeof(int64_t);
    return FBY_OK;
}

/* ---- levels ---- */

/*
 * An entry that continues a list (rep > 0) must be an element of that list, after an element of it: otherwise the
 * levels describe no tree, and offsets and lengths of the arrays would disagree.
 */
static fby_status check_lists(const fby__pq_arrow_leaf *leaf, const fby__pq_span *run, fby_error *err)
{
    if (!run->def)
        return FBY_OK; /* every value is there, hence every element */
    unsigned before = leaf->n_levels ? leaf->def.data[leaf->def.n - 1] : 0;
    for (size_t i = 0; i < run->n_levels; i++) {
        unsigned need = leaf->element_def[run->rep[i]];
        if (run->rep[i] && (run->def[i] < need || before < need))
            return fby__fail(err, FBY_E_FORMAT, "repetition level %u continues a list that is empty or missing (definition levels %u, %u)",
                             run->rep[i], before, run->def[i]);
        before = run->def[i];
    }
    return FBY_OK;
}

static fby_status append_levels(fby__pq_arrow_leaf *leaf, const fby__pq_span *run, fby_error *err)
{
    size_t n = run->n_levels;
    if (leaf->max_rep)
        FBY__TRY(check_lists(leaf, run, err));
    FBY__TRY(reserve(&leaf->def, n, err));
    if (run->def)
        memcpy(leaf->def.data + leaf->def.n, run->def, n);
    else
        memset(leaf->def.data + leaf->def.n, leaf->max_def, n);
    leaf->def.n += n;
    if (leaf->max_rep) {
        FBY__TRY(reserve(&leaf->rep, n, err));
        memcpy(leaf->rep.data + leaf->rep.n, run->rep, n);
        leaf->rep.n += n;
    }
    return FBY_OK;
}

static fby_status append_run(fby__pq_arrow_leaf *leaf, const fby__pq_span *run, fby_error *err)
{
    uint8_t *flags = leaf->work;
    size_t n = run->n_levels, present = n;
    if (run->def) {
        n = present = 0;
        if (leaf->slot_def == 0) {
            n = run->n_levels;
            for (size_t i = 0; i < n; i++)
                flags[i] = run->def[i] == leaf->max_def;
        } else {
            for (size_t i = 0; i < run->n_levels; i++) { /* an empty list has an entry, but no slot */
                flags[n] = run->def[i] == leaf->max_def;
                n += run->def[i] >= leaf->slot_def;
            }
        }
        for (size_t i = 0; i < n; i++)
            present += flags[i];
    }
    if (present != run->n_values)
        return fby__fail(err, FBY_E_INTERNAL, "%zu values for %zu present levels", run->n_values, present);
    if (leaf->keep_levels)
        FBY__TRY(append_levels(leaf, run, err));
    leaf->n_levels += run->n_levels;

    bool all = present == n;
    FBY__TRY(append_validity(leaf, flags, n, all, err));
    switch (leaf->how) {
    case FBY__PQ_ARROW_MISSING:
        if (present)
            return fby__fail(err, FBY_E_FORMAT, "a column declared to hold only nulls has values");
        break;
    case FBY__PQ_ARROW_BITS: FBY__TRY(append_bits(leaf, run, flags, n, all, err)); break;
    case FBY__PQ_ARROW_STRINGS: FBY__TRY(append_strings(leaf, run, flags, n, all, err)); break;
    default: FBY__TRY(append_fixed(leaf, run, flags, n, all, err)); break;
    }
    leaf->n += n;
    leaf->null_count += n - present;
    return FBY_OK;
}

/* ---- the leaf ---- */

/* How the stored type becomes the kind's Arrow type; false when it cannot. */
static bool choose(fby__pq_arrow_leaf *leaf, const fby_field *field, const fby__leaf *stored)
{
    static const uint32_t WIDTHS[] = {
        [FBY__PQ_BOOLEAN] = 1, [FBY__PQ_INT32] = 4, [FBY__PQ_INT64] = 8, [FBY__PQ_INT96] = 12, [FBY__PQ_FLOAT] = 4, [FBY__PQ_DOUBLE] = 8};
    int32_t physical = stored->physical;
    bool is_int = physical == FBY__PQ_INT32 || physical == FBY__PQ_INT64;
    leaf->stored_width = physical == FBY__PQ_FLBA ? (uint32_t)stored->type_length : physical == FBY__PQ_BYTE_ARRAY ? 0 : WIDTHS[physical];
    leaf->how = FBY__PQ_ARROW_COPY;
    leaf->width = leaf->stored_width;
    switch (field->kind) {
    case FBY_KIND_NULL:
        leaf->how = FBY__PQ_ARROW_MISSING;
        leaf->width = 0;
        return true;
    case FBY_KIND_BOOL:
        leaf->how = FBY__PQ_ARROW_BITS;
        leaf->width = 0;
        return physical == FBY__PQ_BOOLEAN;
    case FBY_KIND_DECIMAL:
        leaf->width = field->precision > 38 ? 32 : 16;
        leaf->how = is_int                           ? FBY__PQ_ARROW_DECIMAL_INT
                    : physical == FBY__PQ_BYTE_ARRAY ? FBY__PQ_ARROW_DECIMAL_BYTES
                                                     : FBY__PQ_ARROW_DECIMAL_FIXED;
        return is_int || physical == FBY__PQ_BYTE_ARRAY || physical == FBY__PQ_FLBA;
    case FBY_KIND_STRING:
    case FBY_KIND_BINARY:
        leaf->how = FBY__PQ_ARROW_STRINGS;
        leaf->width = 0;
        return physical == FBY__PQ_BYTE_ARRAY;
    case FBY_KIND_INTERVAL: return physical == FBY__PQ_FLBA && leaf->width == 12;
    case FBY_KIND_FIXED_BINARY: return physical == FBY__PQ_FLBA && leaf->width == (uint32_t)field->byte_width;
    case FBY_KIND_TIMESTAMP:
        if (physical == FBY__PQ_INT96) {
            leaf->how = FBY__PQ_ARROW_INT96;
            leaf->width = 8;
            return field->unit == FBY_UNIT_NS;
        }
        return physical == FBY__PQ_INT64;
    case FBY_KIND_FLOAT:
        return leaf->width == fby_dtype_bytes(field->dtype) &&
               (physical == FBY__PQ_FLOAT || physical == FBY__PQ_DOUBLE || (physical == FBY__PQ_FLBA && leaf->width == 2));
    case FBY_KIND_INT:
    case FBY_KIND_DATE:
    case FBY_KIND_TIME:
    case FBY_KIND_DURATION: {
        uint32_t want = (uint32_t)fby_dtype_bytes(field->dtype);
        if (physical == FBY__PQ_INT32 && (want == 1 || want == 2)) {
            leaf->how = FBY__PQ_ARROW_NARROW;
            leaf->width = want;
            return true;
        }
        return is_int && want == leaf->width;
    }
    default: return false;
    }
}

/* The nearest list above (or at) a field, by its levels; fills element_def for every list on the way up. */
static void note_lists(fby__pq_arrow_leaf *leaf, const fby__schema *schema, uint32_t field)
{
    leaf->slot_def = 0;
    for (uint32_t f = field; f != 0; f = schema->nodes[f].parent) {
        if (schema->fields[f].kind != FBY_KIND_LIST && schema->fields[f].kind != FBY_KIND_MAP)
            continue;
        const fby__schema_node *node = &schema->nodes[f];
        leaf->element_def[node->rep_level] = (uint8_t)node->list_def_level;
        if (leaf->slot_def < node->list_def_level)
            leaf->slot_def = node->list_def_level;
    }
}

static fby_status reserve_leaf(fby__pq_arrow_leaf *leaf, const fby__table *table, uint32_t group, uint64_t rows,
                               const fby__leaf_source *source, fby_error *err)
{
    const fby__pq_chunk *chunk = fby__pq_chunk_of(table, group, source->leaf);
    uint64_t all = table->groups[group].rows, bytes = source->range[0].n + source->range[1].n;
    double share = all ? (double)rows / (double)all : 0;
    uint64_t levels = leaf->max_rep ? (uint64_t)((double)chunk->n_values * share) : rows;
    if (leaf->keep_levels)
        FBY__TRY(reserve_first(&leaf->def, levels, 1, bytes, err));
    if (leaf->keep_levels && leaf->max_rep)
        FBY__TRY(reserve_first(&leaf->rep, levels, 1, bytes, err));
    if (leaf->how != FBY__PQ_ARROW_STRINGS)
        return reserve_first(&leaf->values, levels, leaf->width, bytes, err);
    FBY__TRY(reserve_first(&leaf->offsets, levels < UINT64_MAX ? levels + 1 : levels, sizeof(int64_t), bytes, err));
    return reserve_first(&leaf->values, (uint64_t)((double)chunk->uncompressed_bytes * share), 1, bytes, err);
}

fby_status fby__pq_arrow_leaf_read(fby__pq_arrow_leaf *leaf, const fby__table *table, const char *file_name, uint32_t group,
                                   uint64_t row_begin, uint64_t row_end, const fby__leaf_source *source, bool keep_levels, bool verify_crc,
                                   fby__scratch *scratch, fby_error *err)
{
    const fby__leaf *stored = &table->schema->leaves[source->leaf];
    const fby_field *field = &table->schema->fields[stored->field];
    fby_status status;
    leaf->max_def = stored->max_def;
    leaf->max_rep = stored->max_rep;
    leaf->keep_levels = keep_levels;
    note_lists(leaf, table->schema, stored->field);
    if (!choose(leaf, field, stored)) {
        char type[128];
        (void)fby_field_type_text(field, type, sizeof type);
        status = fby__fail(err, FBY_E_UNSUPPORTED, "values of physical type %d cannot be read as %s", (int)stored->physical, type);
        fby__pq_context(err, table, file_name, group, source->leaf);
        return status;
    }
    uint32_t work_width = leaf->width ? leaf->width : 1;
    size_t work_bytes;
    if (leaf->how == FBY__PQ_ARROW_COPY)
        work_width = 0; /* never converted: long fixed binaries take no work space */
    if (!fby__mul_checked(FBY__PQ_ARROW_RUN, (size_t)work_width + 1, &work_bytes) || !(leaf->work = fby__malloc(work_bytes)))
        return fby__fail_nomem(err, "an Arrow column");
    FBY__TRY(reserve_leaf(leaf, table, group, row_end - row_begin, source, err));
    if (leaf->how == FBY__PQ_ARROW_STRINGS) {
        const int64_t zero = 0;
        if (fby__buf_put(&leaf->offsets, &zero, sizeof zero) != 0)
            return fby__fail_nomem(err, "an Arrow column");
    }

    fby__pq_reader *reader = NULL;
    status = fby__pq_reader_open(table, file_name, group, source, row_begin, row_end, verify_crc, scratch, 0, &reader, err);
    while (status == FBY_OK) {
        fby__pq_span run;
        status = fby__pq_reader_next(reader, FBY__PQ_ARROW_RUN, &run, err);
        if (status != FBY_OK || run.n_levels == 0)
            break;
        status = append_run(leaf, &run, err);
        if (status != FBY_OK)
            fby__pq_context(err, table, file_name, group, source->leaf);
    }
    fby__pq_reader_close(reader);
    fby__free(leaf->work);
    leaf->work = NULL;
    return status;
}

/* A buffer, cut to its contents; never NULL unless out of memory. */
static void *detach_buffer(fby__buf *buf)
{
    void *data = buf->data;
    if (!data)
        data = fby__malloc(0); /* consumers dislike NULL, even for no bytes */
    else if (buf->cap - buf->n > buf->cap / 8) {
        void *smaller = fby__realloc(data, buf->n);
        data = smaller ? smaller : data;
    }
    *buf = (fby__buf){0};
    return data;
}

fby_status fby__pq_arrow_leaf_finish(fby__pq_arrow_leaf *leaf, struct ArrowArray *out, fby_error *err)
{
    int64_t n_buffers = leaf->how == FBY__PQ_ARROW_MISSING ? 0 : leaf->how == FBY__PQ_ARROW_STRINGS ? 3 : 2;
    FBY__TRY(fby__arrow_array_create(n_buffers, 0, out, err));
    out->length = (int64_t)leaf->n;
    out->null_count = (int64_t)leaf->null_count;
    if (n_buffers == 0)
        return FBY_OK;
    if (leaf->null_count)
        fby__arrow_array_set_buffer(out, 0, detach_buffer(&leaf->validity));
    if (n_buffers == 3)
        fby__arrow_array_set_buffer(out, 1, detach_buffer(&leaf->offsets));
    fby__arrow_array_set_buffer(out, n_buffers - 1, detach_buffer(&leaf->values));
    for (int64_t i = leaf->null_count ? 0 : 1; i < n_buffers; i++)
        if (!out->buffers[i]) {
            out->release(out);
            return fby__fail_nomem(err, "an Arrow column");
        }
    return FBY_OK;
}

void fby__pq_arrow_leaf_drop_levels(fby__pq_arrow_leaf *leaf)
{
    fby__buf_fini(&leaf->def);
    fby__buf_fini(&leaf->rep);
}

void fby__pq_arrow_leaf_fini(fby__pq_arrow_leaf *leaf)
{
    fby__pq_arrow_leaf_drop_levels(leaf);
    fby__buf_fini(&leaf->validity);
    fby__buf_fini(&leaf->values);
    fby__buf_fini(&leaf->offsets);
    fby__free(leaf->work);
    leaf->work = NULL;
}
