/* Blocks as panels: tasks fill them. How the work is cut, decoding, and what follows it while the rows are in the cache. */
#include "read/read_internal.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

#define SPLIT_BYTES (4u << 20) /* decoded: below it one task decodes a block */
#define SPLIT_ROWS 65536u      /* a row segment is no shorter: a page is decompressed once by each segment it touches */
#define TILE_COLUMNS 16u       /* decoders interleave this many columns at a time */

/* ---- cutting ---- */

static size_t most_tasks(const fby__reader *r) { return (size_t)r->n_panels * r->max_segments + FBY__READ_TASKS; }

/* The first row of task g of `tasks`, where the format likes to be cut. */
static uint64_t task_begin(uint64_t begin, uint64_t rows, uint64_t step, uint32_t g, uint32_t tasks)
{
    uint64_t row = begin + rows * g / tasks;
    return step && g > 0 && g < tasks ? fby__max_u64(row / step * step, begin) : row;
}

/*
 * Cut the work of one panel and segment: by groups of columns, then by rows, so that the threads share a large block. Where the format
 * names a step (HDF5: a row of chunks), columns have nothing in common and rows are cut at steps alone.
 */
static void cut_panel(fby__read *read, uint32_t panel, uint32_t segment, fby__decode_column *decode, size_t block_bytes)
{
    const fby__reader *r = read->reader;
    const fby__read_panel *wanted = &r->panels[panel];
    const fby__read_segment *seg = &read->segments[segment];
    const fby__leaf_source *sources = read->sources + segment * read->n_sources;
    uint64_t begin = seg->row_begin, rows = seg->row_end - seg->row_begin;
    if (wanted->layout.kind != FBY__PANEL_DENSE) { /* lists and strings are taken from first rows alone: those are the block's own */
        rows = fby__min_u64(rows, read->panels[panel].layout ? read->panels[panel].rows : rows);
        if (segment > 0)
            return;
    }
    uint64_t step = read->table ? read->table->groups[seg->group].step_rows : 0;
    uint32_t n = wanted->layout.n_columns, group = n, tasks = 1, tile = step ? 1 : TILE_COLUMNS;
    uint32_t room = FBY__READ_TASKS + segment * r->n_panels + panel + 1 - read->n_tasks; /* every later panel needs one */
    if (wanted->layout.kind == FBY__PANEL_DENSE && block_bytes > SPLIT_BYTES && r->pool && r->n_workers > 1 && room > 1) {
        uint32_t most = (uint32_t)r->n_workers * 2;
        most = most < room ? most : room;
        uint32_t tiles = (n + tile - 1) / tile, groups = tiles < most ? tiles : most;
        group = (tiles + groups - 1) / groups * tile;
        groups = (n + group - 1) / group;
        const uint64_t enough = rows / (step ? step : SPLIT_ROWS);
        tasks = (uint32_t)fby__max_u64(1, fby__min_u64(most / groups, enough));
    }
    for (uint32_t c = 0; c < n; c += group) {
        uint32_t cols = n - c < group ? n - c : group, n_decode = 0;
        for (uint32_t k = c; k < c + cols; k++) {
            const fby__file_column *origin = &read->origins[wanted->column[k]];
            if (origin->origin == FBY__ORIGIN_LEAF)
                decode[c + n_decode++] = (fby__decode_column){.source = &sources[read->source_of[wanted->column[k]]],
                                                              .column = k,
                                                              .unit_mul = origin->unit_mul,
                                                              .unit_div = origin->unit_div};
        }
        for (uint32_t g = 0; g < tasks; g++) {
            uint64_t first = task_begin(begin, rows, step, g, tasks), last = task_begin(begin, rows, step, g + 1, tasks);
            if (first < last)
                read->tasks[read->n_tasks++] = (fby__read_task){.read = read,
                                                                .panel = panel,
                                                                .first_column = c,
                                                                .n_columns = cols,
                                                                .decode = decode + c,
                                                                .n_decode = n_decode,
                                                                .segment = seg,
                                                                .row_begin = first,
                                                                .row_end = last};
        }
    }
}

/* Of the panels that are placed. */
static size_t placed_bytes(const fby__read *read)
{
    size_t total = 0, bytes;
    for (uint32_t i = 0; i < read->reader->n_panels; i++) {
        const fby__panel *p = &read->panels[i];
        if (p->layout && fby__panel_bytes(p->layout, read->hi - read->lo, p->capacity, &bytes, NULL) == FBY_OK)
            total += bytes;
    }
    return total;
}

static uint32_t cut(fby__read *read)
{
    const fby__reader *r = read->reader;
    const size_t bytes = placed_bytes(read);
    fby__decode_column *decode = read->decode;
    read->n_tasks = 0;
    for (uint32_t s = 0; s < read->n_segments; s++)
        for (uint32_t i = 0; i < r->n_panels; i++) {
            if (read->in_place[i] == UINT32_MAX)
                cut_panel(read, i, s, decode, bytes);
            decode += r->panels[i].layout.n_columns;
        }
    read->decoded_bytes = bytes;
    return read->n_tasks;
}

/* ---- decoding ---- */

static const char *path_of(const fby__read *read)
{
    const char *path = fby__dataset_file_path(read->reader->ds, fby__dataset_block(read->reader->ds, read->block)->file);
    return path ? path : "(memory)";
}

/* Columns that are not in the file: a constant of the pattern, or missing. */
static fby_status fill_column(const fby__read_task *task, uint32_t column, fby_error *err)
{
    const fby__read *read = task->read;
    const fby__read_panel *wanted = &read->reader->panels[task->panel];
    const fby__panel_column *c = &wanted->layout.columns[column];
    const fby__file_column *origin = &read->origins[wanted->column[column]];
    fby__panel *p = &read->panels[task->panel];
    uint64_t first = task->row_begin - task->segment->row_begin + task->segment->panel_row,
             last = first + (task->row_end - task->row_begin);
    bool present = origin->origin == FBY__ORIGIN_CONSTANT;
    if (!present && c->missing == FBY__MISSING_ERROR && wanted->layout.kind == FBY__PANEL_DENSE)
        return fby__fail(err, FBY_E_DATA,
                         "%s: column '%s' is not in this file, and its dtype %s has no missing value: give a fill "
                         "value",
                         path_of(read), c->path, fby_dtype_name(wanted->layout.dtype));
    for (uint64_t r = first; p->valid && r < last; r++)
        p->valid[r * wanted->layout.n_columns + column] = present;
    if (wanted->layout.kind == FBY__PANEL_DENSE) {
        size_t bytes = fby_dtype_bytes(wanted->layout.dtype);
        for (uint64_t r = first; r < last; r++)
            for (uint32_t k = 0; k < c->width; k++)
                memcpy(p->data + r * p->row_bytes + (c->offset + k) * bytes, c->fill.bytes, bytes);
        return FBY_OK;
    }
    p->used = present ? strlen(origin->constant) : 0;
    if (wanted->layout.kind == FBY__PANEL_RAGGED) {
        memset(p->offsets, 0, (size_t)(p->rows + 1) * sizeof *p->offsets);
        return FBY_OK;
    }
    memcpy(p->data, present ? origin->constant : "", (size_t)p->used);
    for (uint64_t r = 0; r < p->rows; r++)
        p->views[r] = (fby__view){0, p->used};
    return FBY_OK;
}

/* What the operations make of a finite value is finite, and the dtype would make infinity of it. */
static fby_status too_large(const fby__read_task *task, uint64_t row, fby_error *err)
{
    const fby__reader *r = task->read->reader;
    const fby__block *block = fby__dataset_block(r->ds, task->read->block);
    const fby__read_panel *wanted = &r->panels[task->panel];
    char text[FBY__BLOCK_TEXT_BYTES], where[40] = "";
    fby__dataset_block_text(r->ds, task->read->block, text);
    if (row != UINT64_MAX)
        (void)snprintf(where, sizeof where, ", row %llu", (unsigned long long)(block->first_row + row));
    return fby__fail(err, FBY_E_DATA, "%s%s: column '%s'%s: the result of its operations does not fit %s; choose a wider dtype", text,
                     where, r->columns[wanted->column[task->first_column]].path, task->n_columns > 1 ? " or one beside it" : "",
                     fby_dtype_name(wanted->layout.dtype));
}

/* What follows decoding, over what the task has just put into the panel, which is still in the cache: row operations, once it is noted what
 * was missing before them. */
static fby_status compute(const fby__read_task *task, fby_error *err)
{
    const fby__read_panel *wanted = &task->read->reader->panels[task->panel];
    const fby__panel_column *c = &wanted->layout.columns[task->first_column];
    fby__panel *p = &task->read->panels[task->panel];
    const uint64_t first = task->row_begin - task->segment->row_begin + task->segment->panel_row;
    const uint64_t rows = task->row_end - task->row_begin;
    size_t bytes = fby_dtype_bytes(wanted->layout.dtype);
    if (wanted->layout.marks_nan)
        fby__panel_mark_nan(p, first, rows, task->first_column, task->n_columns);
    if (!wanted->program)
        return FBY_OK;
    if (wanted->layout.kind != FBY__PANEL_DENSE) /* a list column: its values */
        return fby__program_run(wanted->program, wanted->layout.dtype, p->data, p->used, bytes, 0, 1, 1) < p->used
                   ? too_large(task, UINT64_MAX, err)
                   : FBY_OK;
    const uint64_t bad = fby__program_run(wanted->program, wanted->layout.dtype, p->data + first * p->row_bytes + c->offset * bytes, rows,
                                          p->row_bytes, task->first_column, task->n_columns, c->width);
    return bad < rows ? too_large(task, first + bad, err) : FBY_OK;
}

static fby_status decode_columns(const fby__read_task *task, fby__read_worker *w, fby_error *err)
{
    const fby__read *read = task->read;
    const fby__read_panel *wanted = &read->reader->panels[task->panel];
    for (uint32_t c = task->first_column; c < task->first_column + task->n_columns; c++)
        if (read->origins[wanted->column[c]].origin != FBY__ORIGIN_LEAF)
            FBY__TRY(fill_column(task, c, err));
    if (task->n_decode == 0)
        return FBY_OK;
    fby__panel *panel = &read->panels[task->panel], below = *panel;
    if (task->segment->panel_row) { /* dense: the rows of the segment and what follows, as a panel of their own */
        below.rows -= task->segment->panel_row;
        below.data += task->segment->panel_row * panel->row_bytes;
        below.valid = panel->valid ? panel->valid + task->segment->panel_row * wanted->layout.n_columns : NULL;
        panel = &below;
    }
    fby__decode request = {.table = read->table,
                           .file_name = path_of(read),
                           .group = task->segment->group,
                           .row_begin = task->row_begin,
                           .row_end = task->row_end,
                           .panel_row = task->segment->row_begin,
                           .panel = panel,
                           .columns = task->decode,
                           .n_columns = task->n_decode,
                           .verify_crc = fby__dataset_verify_crc(read->reader->ds),
                           .file = read->file};
    return read->table->ops->decode_panel(&request, &w->scratch, err);
}

static fby_status place(const fby__read_task *task, uint64_t capacity, fby__read_worker *w, fby_error *err)
{
    fby__allowance *before = fby__alloc_within(NULL); /* panels are the sink's, who pays for them */
    const fby__grant grant = task->read->sink->place(task->read, task->panel, capacity, err);
    (void)fby__alloc_within(before);
    w->lacks_room = grant == FBY__NO_ROOM;
    return grant == FBY__GRANTED ? FBY_OK : err->code;
}

/* A panel whose turn has come: with room for what metadata says. */
static fby_status place_now(const fby__read_task *task, fby__read_worker *w, fby_error *err)
{
    fby__read *read = task->read;
    uint64_t capacity = 0;
    if (read->reader->panels[task->panel].layout.kind != FBY__PANEL_DENSE) {
        fby__leaf_bounds bounds;
        read->table->ops->leaf_bounds(read->table, task->segment->group, task->row_begin, task->row_end, task->decode[0].source->leaf,
                                      &bounds);
        capacity = read->reader->panels[task->panel].layout.kind == FBY__PANEL_RAGGED ? bounds.n_values : bounds.uncompressed_bytes;
    }
    return place(task, capacity, w, err);
}

/* After one that found no room the others are decoded to know what they need: the rows are read again, and then all panels are told of, in order. */
static fby_status tell_placed(const fby__read_task *task, fby_error *err)
{
    fby__read *read = task->read;
    const bool goes_on = atomic_load_explicit(&read->failed, memory_order_relaxed) == FBY__READ_GOES_ON;
    return goes_on && read->sink->placed ? read->sink->placed(read, task->panel, err) : FBY_OK;
}

/*
 * Strings that expand (DELTA_BYTE_ARRAY stores what differs from the string before) have no bound in the metadata, and a part of a row group
 * may have more than its share: a panel that turns out too small is placed again, and decoded again.
 */
static fby_status decode(const fby__read_task *task, fby__read_worker *w, fby_error *err)
{
    fby__read *read = task->read;
    const fby__read_panel *wanted = &read->reader->panels[task->panel];
    fby__panel *p = &read->panels[task->panel];
    const bool late = !p->layout;
    fby_status status;
    if (late && task->n_decode == 0)
        return tell_placed(task, err);
    if (late)
        FBY__TRY(place_now(task, w, err));
    while ((status = decode_columns(task, w, err)) == FBY_OK && wanted->layout.kind != FBY__PANEL_DENSE && p->used > p->capacity)
        FBY__TRY(place(task, p->used, w, err));
    if (status == FBY_OK && (wanted->program || wanted->layout.marks_nan))
        status = compute(task, err);
    return status == FBY_OK && late ? tell_placed(task, err) : status;
}

static const char *name(const fby__read_task *task)
{
    const fby__reader *r = task->read->reader;
    return r->columns[r->panels[task->panel].column[task->first_column]].path;
}

const char *fby__read_panel_name(const fby__reader *r, uint32_t panel) { return r->columns[r->panels[panel].column[0]].path; }

const fby__read_shape fby__read_panels = {NULL, most_tasks, cut, decode, name};
