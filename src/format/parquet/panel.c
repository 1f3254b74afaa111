/*
 * Pages → dense panels: up to sixteen leaves at a time, tile by tile of rows.
 *
 *     page bytes ──► column tiles of the panel's dtype (all of them in the L2 cache) ──► fby__interleave ──► whole lines of rows
 *
 * A tile is as many rows as keep the tiles of all open leaves within TILE_BYTES; a dictionary then stays in the L1 cache
 * while its column's rows are looked up. Plain pages of the panel's own dtype are interleaved from where they lie.
 */
#include "format/parquet/panel_column.h"

#include "base/checked.h"

#define TILE_BYTES ((size_t)256 << 10)    /* of a core's L2 cache of 1 MiB: page bytes and the panel need room too */
#define SCRATCH_BYTES ((uint64_t)8 << 20) /* of decompressed pages in the open readers */

/* ---- one column's part of a tile ---- */

static void set_valid(const fby__pq_column *c, uint64_t row, const uint8_t *def, size_t n, bool there)
{
    fby__panel *panel = c->request->panel;
    if (!panel->valid)
        return;
    const size_t stride = panel->layout->n_columns;
    uint8_t *valid = panel->valid + (row - c->request->panel_row) * stride + c->asked->column;
    for (size_t i = 0; i < n; i++)
        valid[i * stride] = def ? def[i] == c->reader->leaf->max_def : there;
}

static fby_status nothing(fby__pq_column *c, uint64_t row, size_t n, fby_error *err)
{
    if (c->target->missing == FBY__MISSING_ERROR)
        return fby__pq_column_missing(c, row, err);
    const uint8_t none = 0;
    for (size_t i = 0; i < n; i++)
        fby__pq_expand(c->tile + i * c->elem_bytes, c->tile, &none, 1, 1, c->fill, c->elem_bytes);
    c->rows = c->tile;
    set_valid(c, row, NULL, n, false);
    return FBY_OK;
}

/* Rows [row, row + n) of a column as elements at c->rows. */
static fby_status next_rows(fby__pq_column *c, uint64_t row, size_t n, fby_error *err)
{
    if (c->from == FBY__PQ_FROM_NOTHING)
        return nothing(c, row, n, err);
    fby__pq_reader *r = c->reader;
    c->rows = c->tile;
    for (size_t done = 0; done < n;) {
        fby__pq_step s = {0};
        FBY__TRY(fby__pq_reader_levels(r, n - done, &s, err)); /* at least one level: the rows are in the group */
        uint8_t *dst = c->tile + done * c->elem_bytes;
        set_valid(c, row + done, s.def, s.n_levels, true);
        if (s.def) {
            if (c->target->missing == FBY__MISSING_ERROR) {
                size_t i = 0;
                while (s.def[i] == r->leaf->max_def)
                    i++;
                return fby__pq_column_missing(c, row + done + i, err);
            }
            FBY__TRY(fby__pq_mem_need(&c->scratch->work, s.n_values * c->elem_bytes, err));
            FBY__TRY(fby__pq_column_next(c, s.n_values, c->scratch->work.data, s.def, row + done, err));
            fby__pq_expand(dst, c->scratch->work.data, s.def, (uint8_t)r->leaf->max_def, s.n_levels, c->fill, c->elem_bytes);
        } else {
            const uint8_t *plain = NULL;
            if (s.n_levels == n && c->from == FBY__PQ_FROM_SAME)
                FBY__TRY(fby__pq_values_in_place(r, n, &plain, err));
            if (plain)
                c->rows = plain;
            else
                FBY__TRY(fby__pq_column_next(c, s.n_values, dst, NULL, row + done, err));
        }
        done += s.n_levels;
    }
    return FBY_OK;
}

/* ---- the batch of open columns ---- */

static void write_rows(const fby__decode *q, const fby__pq_column *columns, size_t n_columns, uint64_t row, size_t n)
{
    fby__panel *panel = q->panel;
    const size_t elem = fby_dtype_bytes(panel->layout->dtype), stride = panel->row_bytes;
    uint8_t *to = panel->data + (row - q->panel_row) * stride;
    for (size_t i = 0; i < n_columns;) {
        const fby__pq_column *c = &columns[i];
        uint8_t *dst = to + c->target->offset * elem;
        if (c->elem_bytes != elem) { /* a fixed binary: a run of elements a row */
            for (size_t k = 0; k < n; k++)
                memcpy(dst + k * stride, (const uint8_t *)c->rows + k * c->elem_bytes, c->elem_bytes);
            i++;
            continue;
        }
        const void *cols[FBY__PQ_MAX_READERS];
        size_t k = 0;
        while (i + k < n_columns && columns[i + k].elem_bytes == elem && columns[i + k].target->offset == c->target->offset + k) {
            cols[k] = columns[i + k].rows;
            k++;
        }
        fby__interleave(dst, stride, cols, k, n, elem);
        i += k;
    }
}

/* Tiles of a few rows still, when a fixed binary is thousands of bytes wide. */
static fby_status lay_out_tiles(fby__pq_column *columns, size_t n_columns, size_t *out_rows, fby_error *err)
{
    size_t row_bytes = 0;
    for (size_t i = 0; i < n_columns; i++)
        row_bytes += columns[i].elem_bytes;
    size_t rows = TILE_BYTES / row_bytes / 64 * 64;
    rows = rows > FBY__PQ_TILE_ROWS ? FBY__PQ_TILE_ROWS : rows < 1 ? 1 : rows;
    size_t bytes;
    if (!fby__mul_checked(rows, row_bytes, &bytes))
        return fby__fail_nomem(err, "column tiles");
    FBY__TRY(fby__pq_mem_need(&columns[0].scratch->tiles, bytes + 192 * n_columns, err));
    uint8_t *at = columns[0].scratch->tiles.data;
    for (size_t i = 0; i < n_columns; i++) {
        at += -(uintptr_t)at & 63;
        columns[i].tile = at;
        at += rows * columns[i].elem_bytes + 64;
    }
    *out_rows = rows;
    return FBY_OK;
}

static fby_status decode_batch(const fby__decode *q, fby__pq_column *columns, size_t n_columns, fby_error *err)
{
    size_t tile_rows = 0;
    FBY__TRY(lay_out_tiles(columns, n_columns, &tile_rows, err));
    for (uint64_t row = q->row_begin; row < q->row_end; row += tile_rows) {
        const size_t n = (size_t)fby__min_u64(tile_rows, q->row_end - row);
        for (size_t i = 0; i < n_columns; i++) {
            fby_status status = next_rows(&columns[i], row, n, err);
            if (status != FBY_OK)
                return fby__pq_column_fail(&columns[i], status, err);
        }
        write_rows(q, columns, n_columns, row, n);
    }
    for (size_t i = 0; i < n_columns; i++) /* and nothing may follow */
        if (columns[i].reader) {
            fby__pq_step s;
            fby_status status = fby__pq_reader_levels(columns[i].reader, 1, &s, err);
            if (status != FBY_OK)
                return fby__pq_column_fail(&columns[i], status, err);
        }
    return FBY_OK;
}

static fby_status decode_dense(const fby__decode *q, fby__scratch *scratch, fby_error *err)
{
    fby__pq_column columns[FBY__PQ_MAX_READERS];
    fby_status status = FBY_OK;
    for (uint32_t first = 0; first < q->n_columns && status == FBY_OK;) {
        size_t n = 0;
        uint64_t bytes = 0;
        while (status == FBY_OK && first + n < q->n_columns && n < FBY__PQ_MAX_READERS) {
            status = fby__pq_column_open(q, &q->columns[first + n], scratch, (int)n, &columns[n], err);
            if (status != FBY_OK)
                break;
            if (columns[n].reader && columns[n].reader->leaf->max_rep) {
                status = fby__pq_column_fail(&columns[n], fby__fail(err, FBY_E_SCHEMA, "a list cannot be a column of a dense tensor"), err);
                break;
            }
            bytes += columns[n].reader ? fby__pq_reader_estimate(columns[n].reader) : 0;
            if (n && bytes > SCRATCH_BYTES) {
                fby__pq_column_close(&columns[n]); /* opened again with the next batch */
                break;
            }
            n++;
        }
        if (status == FBY_OK)
            status = decode_batch(q, columns, n, err);
        for (size_t i = 0; i < n; i++)
            fby__pq_column_close(&columns[i]);
        first += (uint32_t)n;
    }
    return status;
}

fby_status fby__pq_decode_panel(const fby__decode *request, fby__scratch *scratch, fby_error *err)
{
    switch (request->panel->layout->kind) {
    case FBY__PANEL_DENSE: return decode_dense(request, scratch, err);
    case FBY__PANEL_RAGGED: return fby__pq_decode_ragged(request, scratch, err);
    default: return fby__pq_decode_bytes(request, scratch, err);
    }
}
