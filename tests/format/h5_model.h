/*
 * HDF5 tables made by hand, and a naive twin of them.
 *
 * A value is a function of its data set, its element's number, and its place in the element: the twin computes it, and the same
 * function writes the chunks, with every filter, edge and gap that the format allows. The ranges that are located are copied one
 * by one into memory of exactly their size, so that the sanitizers see every byte too many.
 */
#ifndef FBY_TESTS_H5_MODEL_H
#define FBY_TESTS_H5_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <libdeflate.h>

#include "base/random.h"
#include "block/convert.h"
#include "format/hdf5/table/table.h"

enum { MAX_SETS = 12, MAX_MEMBERS = 4, MAX_AXES = 4 };

#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef struct model_member {
    fby_dtype dtype;
    bool big;
    uint32_t elements; /* array type */
    uint32_t offset;
    fby__h5_type type;
} model_member;

typedef struct model_set {
    fby__h5_set set;
    fby__h5_type type, array; /* of the element; compounds: class and size alone */
    uint32_t n_members;
    model_member member[MAX_MEMBERS];
    uint32_t seed;
    bool fill, scaled;
    uint32_t n_missing;
    const uint8_t *raw; /* elements as stored, where they are no numbers; the twin does not know them */
    bool *written;      /* by chunk number; contiguous, compact: [0] */
    fby__filter filter[3];
    uint32_t shuffle_bytes;
} model_set;

typedef struct model {
    fby__h5_table table;
    fby__group group;
    uint32_t n_sets;
    model_set sets[MAX_SETS];
    fby__h5_set set_list[MAX_SETS];
    fby__h5_leaf leaves[MAX_SETS * MAX_MEMBERS];
    uint32_t leaf_member[MAX_SETS * MAX_MEMBERS];
    uint32_t n_leaves;
    fby__buf file;
    /* what was located */
    fby__range_list list;
    fby__leaf_source sources[MAX_SETS * MAX_MEMBERS];
    size_t n_sources;
    void **copies;
    size_t n_copies;
    fby__scratch scratch;
    fby_error err;
} model;

static inline void check_ok(fby_status status, const fby_error *err)
{
    if (status != FBY_OK)
        fail_msg("%s: %s", fby_status_name(status), err->message);
}

static inline unsigned pick(fby__random *rng, unsigned n) { return (unsigned)fby__random_below(rng, n); }

/* ---- values ---- */

enum { MISSING_VALUE = 99, FILL_VALUE = 77 };

/* What is stored: 0 to 100, so that it is exact in every dtype. Bools: 0 and 1. */
static inline int stored_value(const model_set *s, uint32_t member, uint64_t element, uint32_t k)
{
    uint64_t h = element * 2654435761u + s->seed * 40503u + member * 977u + k * 131u;
    h ^= h >> 13;
    return (int)(s->member[member].dtype == FBY_BOOL ? h % 2 : h % 101);
}

static inline void put_number(uint8_t *dst, fby_dtype dtype, bool big, int value)
{
    const size_t n = fby_dtype_bytes(dtype);
    uint8_t bytes[8];
    size_t bad;
    assert_int_equal(fby__convert(dtype, bytes, FBY_INT32, &value, 1, FBY__SCALE_NONE, &bad), FBY_OK);
    for (size_t i = 0; i < n; i++)
        dst[i] = bytes[big ? n - 1 - i : i];
}

static inline void put_element(const model_set *s, uint64_t element, bool fill, uint8_t *dst)
{
    const uint32_t bytes = s->set.type->bytes;
    if (s->raw) {
        memcpy(dst, s->raw + element * bytes, bytes);
        return;
    }
    memset(dst, 0xEE, bytes); /* between members */
    for (uint32_t m = 0; m < s->n_members; m++)
        for (uint32_t k = 0; k < s->member[m].elements; k++) {
            const model_member *member = &s->member[m];
            int value = fill ? (member->dtype == FBY_BOOL ? 1 : FILL_VALUE) : stored_value(s, m, element, k);
            put_number(dst + member->offset + k * fby_dtype_bytes(member->dtype), member->dtype, member->big, value);
        }
}

/* Is the element in what was written? */
static inline bool is_written(const model_set *s, const uint64_t *at)
{
    uint64_t number = 0;
    for (uint32_t a = 0; s->set.layout == FBY__H5_CHUNKED && a < s->set.rank; a++)
        number = number * s->set.grid[a] + at[a] / s->set.chunk[a];
    return s->written[number];
}

/* The value of a row; e counts the values of a row. False: it is missing. */
static inline bool twin_value(const model_set *s, uint32_t member, uint64_t row, uint64_t e, double *out)
{
    const fby__h5_set *set = &s->set;
    uint64_t at[MAX_AXES], index = row / set->repeat, element = e / s->member[member].elements, linear = 0;
    for (uint32_t a = set->rank; a-- > 0;) {
        uint64_t *rest = a >= set->axis && a < set->axis + set->axes ? &index : &element;
        at[a] = *rest % set->dims[a];
        *rest /= set->dims[a];
    }
    for (uint32_t a = 0; a < set->rank; a++)
        linear = linear * set->dims[a] + at[a];
    const bool is_bool = s->member[member].dtype == FBY_BOOL;
    int value = !is_written(s, at) ? (s->fill ? is_bool ? 1 : FILL_VALUE : 0)
                                   : stored_value(s, member, linear, (uint32_t)(e % s->member[member].elements));
    *out = s->scaled ? value * 0.5 + 3 : value;
    return !((s->n_missing > 0 && value == MISSING_VALUE) || (s->n_missing > 1 && value == FILL_VALUE));
}

/* ---- types ---- */

static inline fby__h5_type number_type(fby_dtype dtype, bool big)
{
    static const fby__h5_type FALSE_TYPE = {.class = FBY__H5_INTEGER, .bytes = 1, .is_signed = true, .bit_precision = 8};
    static const uint8_t VALUES[2] = {0, 1};
    static const fby__h5_member BOOLS[2] = {{.name = "FALSE", .value = VALUES}, {.name = "TRUE", .value = VALUES + 1}};
    const uint32_t bytes = (uint32_t)fby_dtype_bytes(dtype);
    if (dtype == FBY_BOOL)
        return (fby__h5_type){.class = FBY__H5_ENUM, .bytes = 1, .base = &FALSE_TYPE, .n_members = 2, .members = BOOLS};
    fby__h5_type t = {.class = FBY__H5_INTEGER, .bytes = bytes, .big_endian = big, .bit_precision = (uint16_t)(8 * bytes)};
    t.is_signed = dtype >= FBY_INT8 && dtype <= FBY_INT64;
    if (dtype >= FBY_FLOAT16) {
        const uint8_t exponent = dtype == FBY_FLOAT16 ? 5 : dtype == FBY_FLOAT64 ? 11 : 8;
        t.class = FBY__H5_FLOAT;
        t.exponent_bits = exponent;
        t.mantissa_bits = t.exponent_at = (uint8_t)(8 * bytes - 1 - exponent);
        t.exponent_bias = (1u << (exponent - 1)) - 1;
        t.sign_at = (uint8_t)(8 * bytes - 1);
        t.normalisation = 2;
    }
    return t;
}

static const fby_dtype EVERY_DTYPE[] = {FBY_INT8,   FBY_INT16,  FBY_INT32,   FBY_INT64,    FBY_UINT8,   FBY_UINT16,
                                        FBY_UINT32, FBY_UINT64, FBY_FLOAT16, FBY_BFLOAT16, FBY_FLOAT32, FBY_FLOAT64};

/* ---- storing ---- */

static inline void deflated(fby__buf *out, const uint8_t *data, size_t n)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    size_t bound = libdeflate_zlib_compress_bound(c, n);
    out->data = fby__malloc(bound);
    out->cap = bound;
    out->n = libdeflate_zlib_compress(c, data, n, out->data, bound);
    libdeflate_free_compressor(c);
    assert_true(out->n > 0);
}

static inline void shuffled(fby__buf *out, const uint8_t *data, size_t n, size_t element)
{
    const size_t count = n / element;
    out->data = fby__malloc(n ? n : 1);
    out->n = out->cap = n;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < element; k++)
            out->data[k * count + i] = data[i * element + k];
    memcpy(out->data + count * element, data + count * element, n - count * element);
}

/* The filters that the mask does not skip, in order; the result replaces *data. */
static inline void apply_filters(const model_set *s, uint32_t mask, fby__buf *data)
{
    for (uint32_t i = 0; i < s->set.n_filters; i++) {
        if (mask >> i & 1)
            continue;
        fby__buf out = {0};
        if (s->filter[i].id == FBY__FILTER_SHUFFLE)
            shuffled(&out, data->data, data->n, s->shuffle_bytes);
        else
            deflated(&out, data->data, data->n);
        fby__buf_fini(data);
        *data = out;
    }
}

static inline void put(fby__buf *b, const void *p, size_t n)
{
    if (fby__buf_put(b, p, n) != 0)
        abort();
}

/* All elements of a box of `extent` at `start`, row-major; what lies outside of the data set is garbage. */
static inline void put_box(const model_set *s, const uint64_t *start, const uint64_t *extent, fby__buf *out)
{
    uint64_t n = 1;
    for (uint32_t a = 0; a < s->set.rank; a++)
        n *= extent[a];
    uint8_t element[256];
    assert_in_range(s->set.type->bytes, 1, sizeof element);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at[MAX_AXES], rest = i, linear = 0;
        bool inside = true;
        for (uint32_t a = s->set.rank; a-- > 0; rest /= extent[a]) {
            at[a] = start[a] + rest % extent[a];
            inside &= at[a] < s->set.dims[a];
        }
        for (uint32_t a = 0; a < s->set.rank; a++)
            linear = linear * s->set.dims[a] + at[a];
        if (inside)
            put_element(s, linear, false, element);
        else
            memset(element, 0xAB, s->set.type->bytes);
        put(out, element, s->set.type->bytes);
    }
}

static inline void put_gap(fby__buf *file, fby__random *rng)
{
    static const uint8_t GAP[16] = {0xCD};
    put(file, GAP, pick(rng, 16));
}

static inline void store_chunks(model *m, model_set *s, bool holes, fby__random *rng)
{
    uint64_t n = 1;
    for (uint32_t a = 0; a < s->set.rank; a++)
        n *= s->set.grid[a] = (s->set.dims[a] + s->set.chunk[a] - 1) / s->set.chunk[a];
    fby__h5_chunk *chunks = fby__calloc(n, sizeof *chunks);
    s->written = fby__calloc(n, sizeof *s->written);
    const uint32_t common_mask = pick(rng, 4) == 0 ? pick(rng, 4) : 0;
    for (uint64_t number = 0; number < n; number++) {
        if (holes && pick(rng, 4) == 0)
            continue;
        uint64_t start[MAX_AXES], extent[MAX_AXES], rest = number;
        bool edge = false;
        for (uint32_t a = s->set.rank; a-- > 0; rest /= s->set.grid[a]) {
            start[a] = rest % s->set.grid[a] * s->set.chunk[a];
            extent[a] = s->set.chunk[a];
            edge |= start[a] + extent[a] > s->set.dims[a];
        }
        fby__buf data = {0};
        put_box(s, start, extent, &data);
        const uint32_t mask = pick(rng, 3) == 0 ? common_mask : 0;
        if (!(edge && s->set.partial_edge_unfiltered))
            apply_filters(s, mask, &data);
        put_gap(&m->file, rng);
        s->written[number] = true;
        chunks[s->set.n_chunks++] = (fby__h5_chunk){
            .number = number, .offset = m->file.n, .bytes = (uint32_t)data.n, .mask = edge && s->set.partial_edge_unfiltered ? 0 : mask};
        put(&m->file, data.data, data.n);
        fby__buf_fini(&data);
    }
    s->set.chunks = chunks;
}

static inline void store(model *m, model_set *s, bool holes, fby__random *rng)
{
    s->set.filters = s->filter;
    if (s->fill) {
        uint8_t *fill = fby__malloc(s->set.type->bytes);
        put_element(s, 0, true, fill);
        s->set.fill = (fby__bytes){fill, s->set.type->bytes};
    }
    s->set.data_offset = FBY__H5_UNDEFINED;
    if (s->set.layout == FBY__H5_CHUNKED) {
        store_chunks(m, s, holes, rng);
        return;
    }
    const uint64_t origin[MAX_AXES] = {0};
    fby__buf data = {0};
    put_box(s, origin, s->set.dims, &data);
    s->written = fby__calloc(1, sizeof *s->written);
    s->written[0] = !(holes && pick(rng, 4) == 0);
    if (s->set.layout == FBY__H5_COMPACT) {
        if (s->written[0])
            s->set.compact = (fby__bytes){data.data, data.n};
        else
            fby__buf_fini(&data);
        return;
    }
    put_gap(&m->file, rng);
    if (s->written[0])
        s->set.data_offset = m->file.n;
    put(&m->file, data.data, data.n);
    fby__buf_fini(&data);
}

/* ---- tables ---- */

/* One number an element, in a set whose shape is filled. */
static inline void simple_member(model_set *s, fby_dtype dtype, bool big)
{
    s->n_members = 1;
    s->member[0] = (model_member){.dtype = dtype, .big = big, .elements = 1, .type = number_type(dtype, big)};
    s->type = s->member[0].type;
    s->set.type = &s->type;
}

/* A compound of several, with gaps between; or one array. */
static inline void members(model_set *s, uint32_t n, fby__random *rng)
{
    uint32_t at = pick(rng, 3);
    s->n_members = n;
    for (uint32_t i = 0; i < n; i++) {
        const fby_dtype dtype = pick(rng, 8) == 0 ? FBY_BOOL : EVERY_DTYPE[pick(rng, COUNT(EVERY_DTYPE))];
        const bool big = pick(rng, 3) == 0;
        s->member[i] = (model_member){
            .dtype = dtype, .big = big, .elements = pick(rng, 3) == 0 ? 3 : 1, .offset = at, .type = number_type(dtype, big)};
        at += s->member[i].elements * s->member[i].type.bytes + pick(rng, 3);
    }
    s->type = (fby__h5_type){.class = FBY__H5_COMPOUND, .bytes = at};
    s->set.type = &s->type;
}

/* Sets are complete: lists, leaves, row counts. Called last; the model does not move any more. */
static inline void finish_table(model *m, uint64_t rows, uint64_t block_rows)
{
    m->n_leaves = 0;
    for (uint32_t i = 0; i < m->n_sets; i++) {
        model_set *s = &m->sets[i];
        s->set.path = "/a";
        s->set.row_elements = 1;
        for (uint32_t a = 0; a < s->set.rank; a++)
            if (a < s->set.axis || a >= s->set.axis + s->set.axes)
                s->set.row_elements *= s->set.dims[a];
        m->set_list[i] = s->set;
        for (uint32_t k = 0; k < s->n_members; k++) {
            const model_member *member = &s->member[k];
            fby__h5_leaf *leaf = &m->leaves[m->n_leaves];
            m->leaf_member[m->n_leaves++] = k;
            *leaf = (fby__h5_leaf){.set = i,
                                   .offset = member->offset,
                                   .type = &member->type,
                                   .elements = member->elements,
                                   .stored = member->dtype,
                                   .dtype = s->scaled ? FBY_FLOAT64 : member->dtype,
                                   .value = FBY__H5_VALUE_NUMBER,
                                   .n_missing = s->n_missing,
                                   .scaled = s->scaled,
                                   .scale_factor = 0.5,
                                   .add_offset = 3};
            for (uint32_t j = 0; j < s->n_missing; j++) {
                uint8_t bytes[8] = {0};
                put_number(bytes, member->dtype, false, j ? FILL_VALUE : MISSING_VALUE);
                memcpy(&leaf->missing[j], bytes, 8);
            }
        }
    }
    m->group = (fby__group){.rows = rows, .block_rows = block_rows};
    m->table = (fby__h5_table){.base = {.ops = &fby__hdf5_ops, .n_groups = 1, .groups = &m->group, .n_rows = rows},
                               .file_bytes = m->file.n,
                               .offset_bytes = 8,
                               .length_bytes = 8,
                               .n_sets = m->n_sets,
                               .sets = m->set_list,
                               .leaves = m->leaves};
}

static inline void let_go(model *m)
{
    fby__range_list_clear(&m->list);
    for (size_t i = 0; i < m->n_copies; i++)
        free(m->copies[i]);
    m->n_copies = 0;
}

static inline void model_fini(model *m)
{
    let_go(m);
    free(m->copies);
    fby__range_list_fini(&m->list);
    fby__scratch_fini(&m->scratch);
    for (uint32_t i = 0; i < m->n_sets; i++) {
        fby__free(m->sets[i].written);
        fby__free((void *)(uintptr_t)m->sets[i].set.chunks);
        fby__free((void *)(uintptr_t)m->sets[i].set.fill.data);
        fby__free((void *)(uintptr_t)m->sets[i].set.compact.data);
    }
    fby__buf_fini(&m->file);
}

/* A set of rank 1 whose elements are given as stored; returns its leaf, after finish_table. */
static inline void raw_set(model *m, model_set *s, const fby__h5_type *type, const uint8_t *raw, uint64_t rows, uint32_t chunk,
                           fby__random *rng)
{
    *s = (model_set){.raw = raw};
    s->set.type = type;
    s->set.rank = s->set.axes = 1;
    s->set.repeat = 1;
    s->set.dims[0] = rows;
    s->set.chunk[0] = chunk;
    s->set.layout = chunk ? FBY__H5_CHUNKED : FBY__H5_CONTIGUOUS;
    s->filter[0] = (fby__filter){.id = FBY__FILTER_DEFLATE};
    s->set.n_filters = chunk ? 1 : 0;
    store(m, s, false, rng);
}

static inline void add_leaf(model *m, uint32_t set, const fby__h5_type *type, int value)
{
    m->leaves[m->n_leaves++] = (fby__h5_leaf){
        .set = set, .type = type, .elements = 1, .stored = fby__h5_type_dtype(type), .dtype = fby__h5_type_dtype(type), .value = value};
}

/* ---- reading ---- */

static inline void read_range(model *m, fby__range *range)
{
    if (range->n == 0)
        return;
    assert_true(range->offset + range->n <= m->file.n);
    uint8_t *copy = malloc(range->n);
    assert_non_null(copy);
    memcpy(copy, m->file.data + range->offset, range->n);
    m->copies = realloc(m->copies, (m->n_copies + 1) * sizeof *m->copies);
    assert_non_null(m->copies);
    m->copies[m->n_copies++] = copy;
    range->data = copy;
}

/* Locate rows of some leaves and "read" what was located. */
static inline fby_status locate(model *m, const uint32_t *leaves, size_t n, uint64_t begin, uint64_t end, fby__chunk_store *chunk_store)
{
    let_go(m);
    m->n_sources = n;
    for (size_t i = 0; i < n; i++)
        m->sources[i] = (fby__leaf_source){.leaf = leaves[i]};
    fby__locate_request q = {.table = &m->table.base,
                             .file_key = 7,
                             .row_begin = begin,
                             .row_end = end,
                             .sources = m->sources,
                             .n = n,
                             .list = &m->list,
                             .store = chunk_store};
    fby_status status = fby__locate(&q, &m->err);
    for (size_t i = 0; status == FBY_OK && i < m->list.n; i++)
        read_range(m, &m->list.at[i]);
    for (size_t i = 0; status == FBY_OK && i < n; i++)
        read_range(m, &m->sources[i].range[1]);
    return status;
}

static inline void check_fails(model *m, fby_status status, fby_status code, const char *words)
{
    if (status != code || !strstr(m->err.message, words) || !strstr(m->err.message, "x.h5: data set '/a'"))
        fail_msg("%s, not %s: %s", fby_status_name(status), fby_status_name(code), status ? m->err.message : "");
}

#endif
