/*
 * A box of elements → rows of memory. Three ways, by how the box lies:
 *
 *     rows follow each other, elements too      one copy or conversion, or one a row
 *     rows are closest together in the source   a transposition: runs along rows are interleaved, 64 columns at a time
 *     one value a row                           the same with one column
 *
 * Strides of 0 are allowed: the fill value of a chunk that was never written.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"

enum {
    TILE_VALUES = 2048, /* converted before they are scattered: 16 KiB, the L1 cache has 32 at least */
    TILE_ROWS = 256     /* of 64 columns of 8 bytes: 128 KiB, in the L2 cache */
};

/* ---- missing values ---- */

/* Flags of n values, `per_row` a row, from element `first` of the rows that begin at `row`, `step` rows apart. */
static void mark(const fby__h5_rows *r, fby__h5_target *t, uint64_t row, uint64_t step, uint64_t first, size_t per_row,
                 const uint8_t *flags, size_t n)
{
    const uint8_t *next = flags;
    while ((next = memchr(next, 0, n - (size_t)(next - flags)))) {
        const size_t i = (size_t)(next++ - flags);
        const uint64_t at = row + i / per_row * step - r->row0;
        if (t->valid)
            t->valid[at * t->valid_step] = 0;
        if (t->present)
            t->present[at * t->width + first + i % per_row] = 0;
        if (next == flags + n)
            return;
    }
}

/* n values, `stride` bytes apart, to dense ones at dst. The other figures are as in mark(). */
static fby_status convert(const fby__h5_rows *r, fby__h5_target *t, const uint8_t *src, size_t stride, size_t n, uint8_t *dst, uint64_t row,
                          uint64_t step, uint64_t first, size_t per_row, fby_error *err)
{
    const fby__h5_value *v = &t->value;
    uint8_t flags[TILE_VALUES];
    fby__h5_bad bad;
    /* Whole rows at a time, or some values of one: what mark() counts on. */
    const size_t tile = per_row < TILE_VALUES ? TILE_VALUES / per_row * per_row : TILE_VALUES;
    for (size_t done = 0, k; done < n; done += k) {
        const uint64_t at_row = row + done / per_row * step, at = first + done % per_row;
        k = per_row < TILE_VALUES ? tile : (size_t)fby__min_u64(tile, per_row - done % per_row);
        k = k < n - done ? k : n - done;
        const bool noted = fby__h5_leaf_can_miss(v->leaf) && (t->valid || t->present);
        fby_status status = fby__h5_value_convert(v, src + done * stride, stride, k, dst + done * v->dst_bytes, noted ? flags : NULL, &bad);
        if (status != FBY_OK)
            return fby__h5_value_fail(r, t, at_row + bad.at / per_row * step, &bad, err);
        if (noted)
            mark(r, t, at_row, step, at, per_row, flags, k);
    }
    return FBY_OK;
}

/* ---- rows of runs ---- */

/* n values, `stride` bytes apart, to addresses dst_step apart: a compound's members, fill values, columns. */
static void copy_spaced(const uint8_t *src, size_t stride, size_t n, uint8_t *dst, size_t dst_step, size_t bytes)
{
#define COPY(k)                                                                                                                            \
    for (size_t i = 0; i < n; i++)                                                                                                         \
        memcpy(dst + i * dst_step, src + i * stride, k);
    switch (bytes) {
    case 1: COPY(1) break;
    case 2: COPY(2) break;
    case 4: COPY(4) break;
    case 8: COPY(8) break;
    default: COPY(bytes)
    }
#undef COPY
}

/* n rows of `per_row` values `stride` bytes apart; rows are row_stride apart in src and dst_step in dst. Same bytes on both sides. */
static void copy_rows(const fby__h5_value *v, const uint8_t *src, size_t row_stride, size_t stride, size_t per_row, size_t n, uint8_t *dst,
                      size_t dst_step)
{
    const size_t bytes = v->dst_bytes, packed_row = per_row * bytes;
    if (row_stride == packed_row && dst_step == packed_row && (stride == bytes || per_row == 1)) {
        memcpy(dst, src, n * packed_row);
        return;
    }
    if (per_row == 1) {
        copy_spaced(src, row_stride, n, dst, dst_step, bytes);
        return;
    }
    if (stride != bytes) {
        for (size_t i = 0; i < n; i++)
            copy_spaced(src + i * row_stride, stride, per_row, dst + i * dst_step, bytes, bytes);
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(dst + i * dst_step, src + i * row_stride, packed_row);
}

/* As above, converted. row: of the table, `step` apart; first: element of the row. */
static fby_status convert_rows(const fby__h5_rows *r, fby__h5_target *t, const uint8_t *src, size_t row_stride, size_t stride,
                               size_t per_row, size_t n, uint8_t *dst, size_t dst_step, uint64_t row, uint64_t step, uint64_t first,
                               fby_error *err)
{
    const size_t bytes = t->value.dst_bytes, packed_row = per_row * bytes;
    if (row_stride == per_row * stride && dst_step == packed_row)
        return convert(r, t, src, stride, n * per_row, dst, row, step, first, per_row, err);
    if (row_stride != per_row * stride || per_row > TILE_VALUES / 4) {
        for (size_t i = 0; i < n; i++)
            FBY__TRY(convert(r, t, src + i * row_stride, stride, per_row, dst + i * dst_step, row + i * step, step, first, per_row, err));
        return FBY_OK;
    }
    uint8_t tile[TILE_VALUES * 8];
    const size_t tile_rows = TILE_VALUES / per_row;
    for (size_t done = 0, k; done < n; done += k) {
        k = n - done < tile_rows ? n - done : tile_rows;
        FBY__TRY(convert(r, t, src + done * row_stride, stride, k * per_row, tile, row + done * step, step, first, per_row, err));
        for (size_t i = 0; i < k; i++)
            memcpy(dst + (done + i) * dst_step, tile + i * packed_row, packed_row);
    }
    return FBY_OK;
}

/* ---- columns ---- */

fby_status fby__h5_columns_put(fby__h5_rows *r, fby__h5_target *t, const uint8_t *const *cols, size_t n_cols, size_t row_stride,
                               uint64_t index, uint64_t n, uint64_t first, fby_error *err)
{
    const fby__h5_value *v = &t->value;
    const uint64_t repeat = r->set->repeat;
    uint64_t row = index * repeat;
    if (row < r->begin) { /* cut: the first row asked for is not the first of its index */
        const uint64_t rest = n - 1;
        uint64_t keep = r->begin; /* put as a single row of its own */
        const uint8_t *next[FBY__H5_COLUMNS];
        uint8_t *dst = fby__h5_target_row(r, t, keep) + first * v->dst_bytes;
        for (size_t c = 0; c < n_cols; c++) {
            if (v->copy)
                memcpy(dst + c * v->dst_bytes, cols[c], v->dst_bytes);
            else
                FBY__TRY(convert(r, t, cols[c], row_stride, 1, dst + c * v->dst_bytes, keep, 1, first + c, 1, err));
            next[c] = cols[c] + (rest ? row_stride : 0);
        }
        return rest ? fby__h5_columns_put(r, t, next, n_cols, row_stride, index + 1, rest, first, err) : FBY_OK;
    }
    const size_t bytes = v->dst_bytes, dst_step = (size_t)repeat * t->row_bytes;
    uint8_t *dst = fby__h5_target_row(r, t, row) + first * bytes;
    if (n_cols == 1 && dst_step == bytes && v->copy) { /* one value after the other on the other side too */
        copy_rows(v, cols[0], row_stride, bytes, 1, (size_t)n, dst, dst_step);
        return FBY_OK;
    }
    if (n_cols == 1 && dst_step == bytes)
        return convert(r, t, cols[0], row_stride, (size_t)n, dst, row, repeat, first, 1, err);
    if (v->copy && bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
        for (size_t c = 0; c < n_cols; c++)
            copy_rows(v, cols[c], row_stride, bytes, 1, (size_t)n, dst + c * bytes, dst_step);
        return FBY_OK;
    }
    const bool in_place = v->copy && row_stride == bytes;
    if (!in_place)
        FBY__TRY(fby__h5_need(&r->job->state->tiles, (size_t)FBY__H5_COLUMNS * TILE_ROWS * 8, err));
    for (uint64_t done = 0, k; done < n; done += k) {
        k = fby__min_u64(n - done, TILE_ROWS);
        const void *from[FBY__H5_COLUMNS];
        for (size_t c = 0; c < n_cols; c++) {
            const uint8_t *src = cols[c] + (size_t)done * row_stride;
            from[c] = src;
            if (in_place)
                continue;
            uint8_t *tile = r->job->state->tiles.data + c * TILE_ROWS * 8;
            from[c] = tile;
            if (v->copy)
                copy_rows(v, src, row_stride, bytes, 1, (size_t)k, tile, bytes);
            else
                FBY__TRY(convert(r, t, src, row_stride, (size_t)k, tile, row + done * repeat, repeat, first + c, 1, err));
        }
        fby__interleave(dst + (size_t)done * dst_step, dst_step, from, n_cols, (size_t)k, bytes);
    }
    return FBY_OK;
}

/* ---- boxes ---- */

/* The elements of a row as few axes as can be, the innermost last; an array type's values are one more. */
static void simplify(const fby__h5_value *v, const fby__h5_box *in, fby__h5_box *out)
{
    *out = *in;
    out->src = in->src + v->offset;
    out->first = in->first * v->leaf->elements;
    out->n_axes = 0;
    uint64_t below = v->leaf->elements; /* values of an element under one place of the axis before */
    for (uint32_t i = 0; i <= in->n_axes + v->leaf->n_strides; i++) {
        uint64_t n = below, step = 1;
        size_t stride = v->src_bytes;
        if (i < in->n_axes) {
            n = in->axes[i].n;
            step = in->axes[i].step * below;
            stride = in->axes[i].stride;
        } else if (i < in->n_axes + v->leaf->n_strides) { /* an array of compounds */
            n = v->leaf->strides[i - in->n_axes].n;
            stride = v->leaf->strides[i - in->n_axes].stride;
            below /= n;
            step = below;
        }
        if (n == 1)
            continue;
        const uint32_t last = out->n_axes - 1;
        if (out->n_axes && out->axes[last].stride == n * stride && out->axes[last].step == n * step) {
            out->axes[last].n *= n;
            out->axes[last].stride = stride;
            out->axes[last].step = step;
            continue;
        }
        out->axes[out->n_axes].n = n;
        out->axes[out->n_axes].stride = stride;
        out->axes[out->n_axes++].step = step;
    }
}

/* The next place of all axes but the last `inner` ones; false after the last. */
static bool advance(const fby__h5_box *b, uint32_t inner, uint64_t *at, const uint8_t **src, uint64_t *element)
{
    for (uint32_t a = b->n_axes - inner; a-- > 0;) {
        *src += b->axes[a].stride;
        *element += b->axes[a].step;
        if (++at[a] < b->axes[a].n)
            return true;
        *src -= b->axes[a].n * b->axes[a].stride;
        *element -= b->axes[a].n * b->axes[a].step;
        at[a] = 0;
    }
    return false;
}

/* Columns side by side in a row are gathered and interleaved. */
static fby_status put_transposed(fby__h5_rows *r, fby__h5_target *t, const fby__h5_box *b, fby_error *err)
{
    uint64_t at[FBY__H5_MAX_AXES] = {0}, element = b->first, first = element;
    const uint8_t *src = b->src, *cols[FBY__H5_COLUMNS];
    size_t n = 0;
    for (bool more = true; more;) {
        if (n == FBY__H5_COLUMNS || (n && element != first + n)) {
            FBY__TRY(fby__h5_columns_put(r, t, cols, n, b->row_stride, b->index, b->n, first, err));
            n = 0;
        }
        if (n == 0)
            first = element;
        cols[n++] = src;
        more = advance(b, 0, at, &src, &element);
    }
    return fby__h5_columns_put(r, t, cols, n, b->row_stride, b->index, b->n, first, err);
}

/* Runs along the last axis; a few rows at a time where there are more axes, so that both sides stay in the cache. */
static fby_status put_rows(fby__h5_rows *r, fby__h5_target *t, const fby__h5_box *b, uint64_t row, fby_error *err)
{
    const fby__h5_value *v = &t->value;
    const size_t per_row = (size_t)b->axes[b->n_axes - 1].n, stride = b->axes[b->n_axes - 1].stride;
    const uint64_t repeat = r->set->repeat, step = b->n_axes == 1 ? b->n : 16;
    const size_t dst_step = (size_t)repeat * t->row_bytes;
    for (uint64_t done = 0, k; done < b->n; done += k) {
        k = fby__min_u64(step, b->n - done);
        uint64_t at[FBY__H5_MAX_AXES] = {0}, element = b->first;
        const uint8_t *src = b->src + (size_t)done * b->row_stride;
        const uint64_t at_row = row + done * repeat;
        do {
            uint8_t *dst = fby__h5_target_row(r, t, at_row) + element * v->dst_bytes;
            if (v->copy)
                copy_rows(v, src, b->row_stride, stride, per_row, (size_t)k, dst, dst_step);
            else
                FBY__TRY(convert_rows(r, t, src, b->row_stride, stride, per_row, (size_t)k, dst, dst_step, at_row, repeat, element, err));
        } while (advance(b, 1, at, &src, &element));
    }
    return FBY_OK;
}

fby_status fby__h5_box_put(fby__h5_rows *r, fby__h5_target *t, const fby__h5_box *box, fby_error *err)
{
    fby__h5_box b;
    simplify(&t->value, box, &b);
    if (b.n_axes == 0) {
        const uint8_t *column = b.src;
        return fby__h5_columns_put(r, t, &column, 1, b.row_stride, b.index, b.n, b.first, err);
    }
    if (b.row_stride < b.axes[b.n_axes - 1].stride || b.axes[b.n_axes - 1].step != 1)
        return put_transposed(r, t, &b, err);
    uint64_t row = b.index * r->set->repeat;
    if (row < r->begin) { /* cut: as in fby__h5_columns_put */
        fby__h5_box one = b;
        one.n = 1;
        FBY__TRY(put_rows(r, t, &one, r->begin, err));
        if (b.n == 1)
            return FBY_OK;
        b.src += b.row_stride;
        b.index++;
        b.n--;
        row = b.index * r->set->repeat;
    }
    return put_rows(r, t, &b, row, err);
}

void fby__h5_spread(const fby__h5_rows *r, const fby__h5_target *t)
{
    const uint64_t repeat = r->set->repeat;
    const size_t bytes = t->width * t->value.dst_bytes;
    for (uint64_t row = r->begin; row < r->end;) {
        const uint64_t next = fby__min_u64((row / repeat + 1) * repeat, r->end);
        const uint8_t *from = fby__h5_target_row(r, t, row);
        const uint64_t from_at = row - r->row0;
        for (uint64_t i = row + 1; i < next; i++) {
            const uint64_t at = i - r->row0;
            switch (bytes) { /* labels: one number */
            case 4: memcpy(t->data + (size_t)at * t->row_bytes, from, 4); break;
            case 8: memcpy(t->data + (size_t)at * t->row_bytes, from, 8); break;
            default: memcpy(t->data + (size_t)at * t->row_bytes, from, bytes);
            }
            if (t->valid)
                t->valid[at * t->valid_step] = t->valid[from_at * t->valid_step];
            if (t->present)
                memcpy(t->present + at * t->width, t->present + from_at * t->width, t->width);
        }
        row = next;
    }
}
