/*
 * HDF5 → dense panels.
 *
 * A column of several values a row is read by itself, its chunks straight into the panel where they fit. Columns of one value a
 * row (events tables have dozens, each a data set of its own) are read side by side, a tile of rows at a time, and interleaved,
 * so that a row's cache lines are written once; each keeps its decoded chunk until the tiles have passed it.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"

#include <inttypes.h>

enum { MAX_TOGETHER = 64 };
#define TOGETHER_BYTES ((size_t)8 << 20) /* of decoded chunks kept at once */
#define TILE_BYTES ((size_t)128 << 10)   /* of a tile over all columns read together: half of it is the panel's rows in the L2 cache */

static fby_status column_fail(const fby__h5_rows *r, const char *path, fby_status status, fby_error *err)
{
    fby__error_context(err, "column '%s'", path);
    return fby__h5_rows_fail(r, status, err);
}

/* How a column's values get to where they belong in the panel. */
static fby_status open_target(const fby__decode *q, const fby__decode_column *asked, const fby__h5_rows *r, fby__h5_target *t,
                              fby_error *err)
{
    const fby__h5_table *table = r->job->table;
    const fby__h5_leaf *leaf = &table->leaves[asked->source->leaf];
    const fby__panel_layout *layout = q->panel->layout;
    const fby__panel_column *column = &layout->columns[asked->column];
    const size_t bytes = fby_dtype_bytes(layout->dtype);
    const uint64_t values = r->set->row_elements * leaf->elements;
    uint64_t width = values;
    *t = (fby__h5_target){.path = column->path, .width = (size_t)values, .row_bytes = q->panel->row_bytes};
    if (leaf->value == FBY__H5_VALUE_NUMBER) {
        fby__h5_value_open(&t->value, leaf, layout->dtype);
        t->value.missing = column->missing;
        t->value.fill = column->fill;
        if (asked->unit_mul != asked->unit_div)
            t->value.unit = (fby__scale){asked->unit_mul, asked->unit_div, 0};
        fby__h5_value_source(&t->value, leaf->type, leaf->offset);
    } else if (leaf->value == FBY__H5_VALUE_OPAQUE && layout->dtype == FBY_UINT8) {
        fby__h5_value_open_raw(&t->value, table, leaf);
        width = values * leaf->type->bytes;
    } else {
        return column_fail(r, column->path, fby__fail(err, FBY_E_SCHEMA, "it has no fixed number of numbers a row"), err);
    }
    if (width != column->width) {
        fby_status status = fby__fail(err, FBY_E_SCHEMA, "%" PRIu64 " elements a row where %u are expected", width, column->width);
        return column_fail(r, column->path, status, err);
    }
    t->data = q->panel->data + column->offset * bytes;
    if (q->panel->valid) {
        t->valid = q->panel->valid + asked->column;
        t->valid_step = layout->n_columns;
    }
    return FBY_OK;
}

/* ---- one data set ---- */

/* Columns of one data set that follow each other: a compound's members. */
static fby_status decode_set(const fby__decode *q, const fby__h5_job *job, const fby__decode_column *columns, uint32_t n, fby_error *err)
{
    fby__h5_target targets[MAX_TOGETHER];
    fby__h5_rows r;
    FBY__TRY(fby__h5_rows_open(&r, job, columns[0].source, err));
    for (uint32_t i = 0; i < n; i++)
        FBY__TRY(open_target(q, &columns[i], &r, &targets[i], err));
    r.targets = targets;
    r.n_targets = n;
    r.row0 = job->first_row + q->panel_row;
    return fby__h5_rows_read(&r, job->first_row + q->row_begin, job->first_row + q->row_end, err);
}

/* ---- several, one value a row each ---- */

typedef struct together {
    uint32_t n_columns, n_sets;
    fby__h5_rows sets[MAX_TOGETHER];
    fby__h5_target targets[MAX_TOGETHER]; /* by set */
    uint32_t order[MAX_TOGETHER];         /* of each column: its target */
    size_t rooms;                         /* bytes of decoded chunks */
} together;

static const fby__h5_set *set_of(const fby__h5_job *job, const fby__decode_column *column)
{
    return &job->table->sets[job->table->leaves[column->source->leaf].set];
}

static bool is_narrow(const fby__decode *q, const fby__h5_job *job, const fby__decode_column *column)
{
    const fby__h5_leaf *leaf = &job->table->leaves[column->source->leaf];
    const fby__h5_set *set = set_of(job, column);
    return leaf->value == FBY__H5_VALUE_NUMBER && set->way == FBY__H5_DIRECT && set->row_elements == 1 && leaf->elements == 1 &&
           q->panel->layout->columns[column->column].width == 1;
}

/* As many narrow columns from `first` as may be read together; their sets are opened. */
static fby_status gather(const fby__decode *q, const fby__h5_job *job, uint32_t first, together *g, fby_error *err)
{
    const fby__panel_layout *layout = q->panel->layout;
    uint8_t set_of_column[MAX_TOGETHER];
    g->n_columns = g->n_sets = 0;
    g->rooms = 0;
    for (uint32_t c = first; c < q->n_columns && g->n_columns < MAX_TOGETHER && is_narrow(q, job, &q->columns[c]); c++) {
        if (c > first && layout->columns[q->columns[c].column].offset != layout->columns[q->columns[c - 1].column].offset + 1)
            break;
        uint32_t s = 0;
        while (s < g->n_sets && g->sets[s].set != set_of(job, &q->columns[c]))
            s++;
        if (s == g->n_sets) {
            FBY__TRY(fby__h5_rows_open(&g->sets[s], job, q->columns[c].source, err));
            const size_t room = (size_t)fby__align_up_u64(fby__h5_rows_room(&g->sets[s]), 64);
            if (!g->sets[s].g.whole_rows || (g->n_sets && room > TOGETHER_BYTES - fby__min_u64(g->rooms, TOGETHER_BYTES)))
                break;
            g->rooms += room;
            g->n_sets++;
        }
        set_of_column[g->n_columns++] = (uint8_t)s;
    }
    uint32_t t = 0;
    for (uint32_t s = 0; s < g->n_sets; s++) {
        g->sets[s].targets = &g->targets[t];
        for (uint32_t k = 0; k < g->n_columns; k++)
            if (set_of_column[k] == s) {
                FBY__TRY(open_target(q, &q->columns[first + k], &g->sets[s], &g->targets[t], err));
                g->order[k] = t++;
                g->sets[s].n_targets++;
            }
    }
    return FBY_OK;
}

static fby_status decode_together(const fby__decode *q, const fby__h5_job *job, uint32_t first, together *g, fby_error *err)
{
    const size_t bytes = fby_dtype_bytes(q->panel->layout->dtype);
    const size_t tile_rows = TILE_BYTES / (g->n_columns * bytes);
    const uint64_t begin = job->first_row + q->row_begin, end = job->first_row + q->row_end, panel_row = job->first_row + q->panel_row;
    const void *cols[MAX_TOGETHER];
    uint8_t *valid[MAX_TOGETHER];
    FBY__TRY(fby__h5_need(&job->state->chunks, g->rooms + 64, err));
    FBY__TRY(fby__h5_need(&job->state->narrow, g->n_columns * (tile_rows * bytes + 64), err));
    uint8_t *room = job->state->chunks.data;
    for (uint32_t s = 0; s < g->n_sets; s++) {
        const size_t n = fby__h5_rows_room(&g->sets[s]);
        g->sets[s].room = n ? room : NULL;
        room += fby__align_up_u64(n, 64);
    }
    for (uint32_t k = 0; k < g->n_columns; k++) {
        fby__h5_target *t = &g->targets[k];
        t->data = job->state->narrow.data + k * (tile_rows * bytes + 64);
        t->row_bytes = bytes;
        valid[k] = t->valid;
    }
    for (uint32_t k = 0; k < g->n_columns; k++)
        cols[k] = g->targets[g->order[k]].data;
    uint8_t *dst = q->panel->data + q->panel->layout->columns[q->columns[first].column].offset * bytes;
    for (uint64_t row = begin, n; row < end; row += n) {
        n = fby__min_u64(tile_rows, end - row);
        for (uint32_t k = 0; k < g->n_columns; k++)
            if (valid[k])
                g->targets[k].valid = valid[k] + (size_t)(row - panel_row) * g->targets[k].valid_step;
        for (uint32_t s = 0; s < g->n_sets; s++) {
            g->sets[s].row0 = row;
            FBY__TRY(fby__h5_rows_read(&g->sets[s], row, row + n, err));
        }
        fby__interleave(dst + (size_t)(row - panel_row) * q->panel->row_bytes, q->panel->row_bytes, cols, g->n_columns, (size_t)n, bytes);
    }
    return FBY_OK;
}

static fby_status decode_dense(const fby__decode *q, const fby__h5_job *job, fby_error *err)
{
    together *g = NULL;
    fby_status status = FBY_OK;
    for (uint32_t c = 0, n; c < q->n_columns && status == FBY_OK; c += n) {
        n = 1;
        if (is_narrow(q, job, &q->columns[c]) && q->panel->layout->n_columns > 1) {
            FBY__TRY(fby__h5_need(&job->state->together, sizeof(together), err));
            g = (together *)(void *)job->state->together.data;
            status = gather(q, job, c, g, err);
            if (status == FBY_OK && g->n_columns > 0) {
                n = g->n_columns;
                status = decode_together(q, job, c, g, err);
                continue;
            }
            if (status != FBY_OK)
                break;
        }
        while (n < MAX_TOGETHER && c + n < q->n_columns && set_of(job, &q->columns[c + n]) == set_of(job, &q->columns[c]))
            n++;
        status = decode_set(q, job, &q->columns[c], n, err);
    }
    return status;
}

fby_status fby__h5_decode_panel(const fby__decode *q, fby__scratch *scratch, fby_error *err)
{
    fby__h5_job job = {.table = fby__h5_table_of(q->table),
                       .file = q->file,
                       .file_name = q->file_name,
                       .first_row = q->table->groups[q->group].first_row,
                       .verify = q->verify_crc,
                       .scratch = scratch};
    FBY__TRY(fby__h5_state_of(scratch, &job.state, err));
    switch (q->panel->layout->kind) {
    case FBY__PANEL_DENSE: return decode_dense(q, &job, err);
    case FBY__PANEL_RAGGED: return fby__h5_decode_ragged(q, &job, err);
    default: return fby__h5_decode_bytes(q, &job, err);
    }
}
