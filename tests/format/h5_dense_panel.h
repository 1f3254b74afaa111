/* Dense panels of HDF5 tables made by hand (h5_model.h), decoded and compared with their naive twin. */
#ifndef FBY_TEST_H5_DENSE_PANEL_H
#define FBY_TEST_H5_DENSE_PANEL_H

#include "format/h5_random_table.h"

#include "format/hdf5/client/helper.h"
#include "format/hdf5/client/helper_internal.h"

#include <math.h>
#include <pthread.h>

/* ---- dense panels and the twin ---- */

typedef struct dense {
    fby__panel_layout layout;
    fby__panel_column columns[MAX_SETS * MAX_MEMBERS];
    fby__decode_column asked[MAX_SETS * MAX_MEMBERS];
    uint32_t leaves[MAX_SETS * MAX_MEMBERS];
    fby__panel panel;
    void *memory;
    uint64_t first_row;
} dense;

static inline uint64_t width_of(const model *m, uint32_t leaf)
{
    return m->table.sets[m->leaves[leaf].set].row_elements * m->leaves[leaf].elements;
}

/* Columns for the leaves, in order; sometimes with room between that nobody decodes into. */
static inline void dense_layout(const model *m, dense *d, fby_dtype dtype, bool want_valid, fby__random *rng)
{
    uint32_t width = 0;
    d->layout = (fby__panel_layout){.kind = FBY__PANEL_DENSE, .dtype = dtype, .want_valid = want_valid, .columns = d->columns};
    for (uint32_t leaf = 0; leaf < m->n_leaves; leaf++) {
        if (rng && m->n_leaves > 1 && leaf > 0 && pick(rng, 6) == 0)
            continue; /* not asked for */
        if (rng && pick(rng, 6) == 0)
            width += pick(rng, 3);
        const uint32_t c = d->layout.n_columns++;
        d->columns[c] =
            (fby__panel_column){.path = "x", .offset = width, .width = (uint32_t)width_of(m, leaf), .missing = FBY__MISSING_FILL};
        assert_true(fby__scalar_set(dtype, 55, &d->columns[c].fill));
        d->leaves[c] = leaf;
        width += d->columns[c].width;
    }
    d->layout.width = width ? width : 1;
}

static inline void dense_place(dense *d, uint64_t begin, uint64_t end)
{
    size_t bytes;
    assert_int_equal(fby__panel_bytes(&d->layout, end - begin, 0, &bytes, NULL), FBY_OK);
    d->memory = aligned_alloc(64, bytes ? bytes : 64);
    assert_non_null(d->memory);
    memset(d->memory, 0x5A, bytes ? bytes : 64);
    fby__panel_place(&d->layout, end - begin, 0, d->memory, &d->panel);
    d->first_row = begin;
}

/* Columns [c0, c1) of rows [begin, end): one call. */
static inline fby_status dense_decode(model *m, dense *d, fby__scratch *scratch, uint64_t begin, uint64_t end, uint32_t c0, uint32_t c1,
                                      fby_error *err)
{
    for (uint32_t c = c0; c < c1; c++)
        d->asked[c] = (fby__decode_column){.source = &m->sources[c], .column = c, .unit_mul = 1, .unit_div = 1};
    fby__decode q = {.table = &m->table.base,
                     .file_name = "x.h5",
                     .row_begin = begin,
                     .row_end = end,
                     .panel_row = d->first_row,
                     .panel = &d->panel,
                     .columns = d->asked + c0,
                     .n_columns = c1 - c0,
                     .verify_crc = true};
    return fby__h5_decode_panel(&q, scratch, err);
}

static inline bool same_element(const dense *d, uint64_t row, uint64_t element, double want)
{
    const size_t bytes = fby_dtype_bytes(d->layout.dtype);
    uint8_t value[8];
    size_t bad;
    if (fby__convert(d->layout.dtype, value, FBY_FLOAT64, &want, 1, FBY__SCALE_NONE, &bad) != FBY_OK)
        return false;
    return memcmp(d->panel.data + (row - d->first_row) * d->panel.row_bytes + element * bytes, value, bytes) == 0;
}

static inline void check_dense(const model *m, const dense *d, uint64_t begin, uint64_t end, uint64_t seed)
{
    for (uint32_t c = 0; c < d->layout.n_columns; c++) {
        const fby__h5_leaf *leaf = &m->leaves[d->leaves[c]];
        const model_set *s = &m->sets[leaf->set];
        for (uint64_t row = begin; row < end; row++) {
            bool all = true;
            for (uint64_t e = 0; e < d->columns[c].width; e++) {
                double want;
                const bool there = twin_value(s, m->leaf_member[d->leaves[c]], row, e, &want);
                all &= there;
                if (!same_element(d, row, d->columns[c].offset + e, there ? want : 55))
                    fail_msg("seed %llu: column %u (set %u), row %llu, element %llu is not %g", (unsigned long long)seed, c, leaf->set,
                             (unsigned long long)row, (unsigned long long)e, there ? want : 55);
            }
            if (d->panel.valid && d->panel.valid[(row - d->first_row) * d->layout.n_columns + c] != all)
                fail_msg("seed %llu: column %u, row %llu: validity is not %d", (unsigned long long)seed, c, (unsigned long long)row, all);
        }
    }
    for (uint64_t row = begin; row < end; row++) /* between the columns nothing is written */
        for (uint32_t e = 0, c = 0; e < d->layout.width; e++) {
            while (c < d->layout.n_columns && e >= d->columns[c].offset + d->columns[c].width)
                c++;
            const uint8_t *at = d->panel.data + (row - d->first_row) * d->panel.row_bytes + e * fby_dtype_bytes(d->layout.dtype);
            if ((c == d->layout.n_columns || e < d->columns[c].offset) && *at != 0x5A)
                fail_msg("seed %llu: row %llu, element %u is no column's and was written", (unsigned long long)seed,
                         (unsigned long long)row, e);
        }
}

/* ---- chosen tables ---- */

static const uint32_t FOUR = 4;

/* A column of its own: n values in chunks (0: contiguous), shuffled and deflated. */
static inline void narrow_set(model *m, model_set *s, fby_dtype dtype, uint64_t rows, uint32_t chunk, fby__random *rng)
{
    *s = (model_set){.seed = (uint32_t)fby__random_next(rng)};
    s->set.rank = s->set.axes = 1;
    s->set.repeat = 1;
    s->set.dims[0] = rows;
    s->set.chunk[0] = chunk;
    s->set.layout = chunk ? FBY__H5_CHUNKED : FBY__H5_CONTIGUOUS;
    simple_member(s, dtype, false);
    s->shuffle_bytes = FOUR;
    s->filter[0] = (fby__filter){.id = FBY__FILTER_SHUFFLE, .n_values = 1, .values = &s->shuffle_bytes};
    s->filter[1] = (fby__filter){.id = FBY__FILTER_DEFLATE};
    s->set.n_filters = chunk ? 2 : 0;
    store(m, s, false, rng);
}

/* Rows × 3 × 4 numbers in chunks of `chunk` rows. */
static inline void cube_set(model *m, model_set *s, fby_dtype dtype, uint64_t rows, uint32_t chunk, fby__random *rng)
{
    *s = (model_set){.seed = (uint32_t)fby__random_next(rng)};
    s->set.rank = 3;
    s->set.axes = 1;
    s->set.repeat = 1;
    memcpy(s->set.dims, (uint64_t[3]){rows, 3, 4}, sizeof(uint64_t[3]));
    memcpy(s->set.chunk, (uint32_t[3]){chunk, 3, 4}, sizeof(uint32_t[3]));
    s->set.layout = FBY__H5_CHUNKED;
    simple_member(s, dtype, false);
    s->filter[0] = (fby__filter){.id = FBY__FILTER_DEFLATE};
    s->set.n_filters = 1;
    store(m, s, false, rng);
}

/* Bytes that filters give when each chunk is decoded once. */
static inline uint64_t filtered_bytes(const fby__h5_set *s)
{
    uint64_t n = 0, bytes = s->type->bytes;
    for (uint32_t a = 0; a < s->rank; a++)
        bytes *= s->chunk[a];
    for (uint64_t i = 0; i < s->n_chunks; i++)
        n += (s->chunks[i].mask & ((1u << s->n_filters) - 1)) != (1u << s->n_filters) - 1;
    return n * bytes;
}

#endif
