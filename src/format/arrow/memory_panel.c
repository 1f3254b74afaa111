/*
 * Batches in memory → panels: the three kinds. Values are converted by the same rules as those of files
 * (block/convert.h).
 *
 * A null list is an empty list, a null string an empty one; `valid` tells them from those that are there. A row of
 * several elements (fixed-size lists) is valid when all its elements are.
 */
#include "format/arrow/memory_column.h"

#include "base/checked.h"
#include "base/dtype.h"

/* Columns of width 1 that stand side by side are interleaved together, this many at once: their tiles stay in the L2
 * cache. */
#define SIDE_BY_SIDE 32

/* What every step needs; the work space lies in the thread's scratch. */
typedef struct request {
    const fby__decode *r;
    const struct ArrowArray *batch;
    const struct ArrowSchema *schema;
    uint64_t begin; /* row of the batch that row_begin is */
    fby__arrow_work *work;
    uint8_t *tiles; /* SIDE_BY_SIDE × FBY__ARROW_TILE × 8 bytes of converted values */
} request;

typedef struct dense_column {
    fby__arrow_column column;
    const fby__panel_column *target;
    fby__scale scale; /* of time units */
    uint32_t index;   /* in the layout */
} dense_column;

static fby_status in_column(const request *q, const fby__panel_column *target, fby_status status, fby_error *err)
{
    fby__error_context(err, "%s: batch %u, column '%s'", q->r->file_name, q->r->group, target->path);
    return status;
}

static fby_status no_value(const request *q, const fby__panel_column *target, uint64_t row, fby_error *err)
{
    fby_status status = fby__fail(err, FBY_E_DATA, "row %llu is null, and " FBY__NULL_ADVICE, (unsigned long long)row);
    return in_column(q, target, status, err);
}

/* A row of the request as a row of the table, for messages. */
static uint64_t table_row(const request *q, uint64_t row) { return q->r->table->groups[q->r->group].first_row + q->r->row_begin + row; }

/* The row of an element, for messages. Dense: e counts from row_begin. Ragged: e is the position among the panel's
 * values. */
static uint64_t row_of(const request *q, uint64_t e, uint64_t per_row)
{
    const fby__panel *panel = q->r->panel;
    if (panel->layout->kind == FBY__PANEL_DENSE)
        return table_row(q, e / per_row);
    uint64_t row = 0;
    while (row + 1 < panel->rows && panel->offsets[row + 1] <= e)
        row++;
    return table_row(q, row);
}

/*
 * n ≤ FBY__ARROW_TILE elements from e, converted to the panel's dtype at dst; flags of what is there in work->flags.
 * `at` is what row_of() knows element e as.
 */
static fby_status convert_tile(const request *q, const fby__arrow_column *column, const fby__panel_column *target, fby__scale unit,
                               uint64_t e, size_t n, uint64_t at, uint64_t per_row, uint8_t *dst, bool *out_all, fby_error *err)
{
    fby_dtype dtype = q->r->panel->layout->dtype;
    size_t width = fby_dtype_bytes(dtype), bad = 0;
    fby__arrow_values values;
    fby_status status = fby__arrow_column_fetch(column, e, n, q->work, &values, err);
    if (status != FBY_OK)
        return in_column(q, target, status, err);
    fby__scale scale = values.scale;
    if (unit.mul != 1 || unit.div != 1)
        scale = (fby__scale){unit.mul, unit.div * scale.div, scale.pow10};
    if (scale.pow10 && !fby__dtype_is_float(dtype)) {
        status = fby__convert(FBY_FLOAT64, q->work->indices, values.dtype, values.data, n, scale, &bad);
        values.data = q->work->indices; /* eight bytes an element: free for use once the values are gathered */
        values.dtype = FBY_FLOAT64;
        scale = FBY__SCALE_NONE;
    }
    if (status == FBY_OK)
        status = fby__convert(dtype, dst, values.dtype, values.data, n, scale, &bad);
    if (status != FBY_OK) {
        char text[64];
        (void)fby__value_text(values.dtype, (const uint8_t *)values.data + bad * fby_dtype_bytes(values.dtype), text, sizeof text);
        status = fby__fail(err, status, "the value %s in row %llu does not fit %s: %s", text,
                           (unsigned long long)row_of(q, at + bad, per_row), fby_dtype_name(dtype), fby__value_advice(text, dtype));
        return in_column(q, target, status, err);
    }
    *out_all = values.all_there;
    if (values.all_there)
        return FBY_OK;
    for (size_t i = 0; i < n; i++) {
        if (q->work->flags[i])
            continue;
        if (target->missing == FBY__MISSING_ERROR)
            return no_value(q, target, row_of(q, at + i, per_row), err);
        memcpy(dst + i * width, target->fill.bytes, width);
    }
    return FBY_OK;
}

/* ---- dense ---- */

static uint8_t *valid_at(const fby__panel *panel, uint64_t row, uint32_t column)
{
    return panel->valid + row * panel->layout->n_columns + column;
}

/* A tile of rows of k columns of one element each that stand side by side. */
static fby_status dense_narrow(const request *q, const dense_column *columns, uint32_t k, uint64_t row, size_t n, fby_error *err)
{
    const fby__panel *panel = q->r->panel;
    size_t width = fby_dtype_bytes(panel->layout->dtype);
    uint64_t at = q->r->row_begin - q->r->panel_row + row;
    const void *tiles[SIDE_BY_SIDE];
    for (uint32_t c = 0; c < k; c++) {
        uint8_t *tile = q->tiles + (size_t)c * FBY__ARROW_TILE * 8;
        bool all;
        FBY__TRY(convert_tile(q, &columns[c].column, columns[c].target, columns[c].scale, row, n, row, 1, tile, &all, err));
        for (size_t i = 0; panel->valid && i < n; i++)
            *valid_at(panel, at + i, columns[c].index) = q->work->flags[i];
        tiles[c] = tile;
    }
    fby__interleave(panel->data + at * panel->row_bytes + columns[0].target->offset * width, panel->row_bytes, tiles, k, n, width);
    return FBY_OK;
}

/* All rows of a column of several elements. */
static fby_status dense_wide(const request *q, const dense_column *c, uint64_t rows, fby_error *err)
{
    const fby__panel *panel = q->r->panel;
    size_t width = fby_dtype_bytes(panel->layout->dtype);
    uint64_t first_row = q->r->row_begin - q->r->panel_row, per_row = c->column.per_row, n = rows * per_row;
    if (panel->valid)
        for (uint64_t r = 0; r < rows; r++)
            *valid_at(panel, first_row + r, c->index) = 1;
    for (uint64_t e = 0; e < n;) {
        size_t tile = (size_t)fby__min_u64(n - e, FBY__ARROW_TILE);
        bool all;
        FBY__TRY(convert_tile(q, &c->column, c->target, c->scale, e, tile, e, per_row, q->tiles, &all, err));
        for (size_t i = 0; i < tile;) { /* the tile's part of each row */
            uint64_t row = (e + i) / per_row, in_row = (e + i) % per_row;
            size_t run = (size_t)fby__min_u64(per_row - in_row, tile - i);
            memcpy(panel->data + (first_row + row) * panel->row_bytes + (c->target->offset + in_row) * width, q->tiles + i * width,
                   run * width);
            for (size_t k = 0; panel->valid && !all && k < run; k++)
                *valid_at(panel, first_row + row, c->index) &= q->work->flags[i + k];
            i += run;
        }
        e += tile;
    }
    return FBY_OK;
}

/* Fixed binaries as bytes: rows of uint8. */
static fby_status dense_binary(const request *q, const dense_column *c, uint64_t rows, fby_error *err)
{
    const fby__panel *panel = q->r->panel;
    const struct ArrowArray *dictionary = c->column.array->dictionary;
    const struct ArrowArray *values = dictionary ? dictionary : c->column.array;
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t at = q->r->row_begin - q->r->panel_row + r, i = c->column.first + r;
        uint8_t *dst = panel->data + at * panel->row_bytes + c->target->offset, there;
        (void)fby__arrow_column_flags(&c->column, r, 1, &there);
        if (there && dictionary) {
            fby_status status = fby__arrow_column_index(&c->column, r, &i, err);
            if (status != FBY_OK)
                return in_column(q, c->target, status, err);
            i += (uint64_t)dictionary->offset;
        }
        if (panel->valid)
            *valid_at(panel, at, c->index) = there;
        if (there)
            memcpy(dst, fby__arrow_bytes_at(&c->column.format, values, i).data, c->target->width);
        else if (c->target->missing == FBY__MISSING_ERROR)
            return no_value(q, c->target, table_row(q, r), err);
        else
            memset(dst, c->target->fill.bytes[0], c->target->width);
    }
    return FBY_OK;
}

static bool is_binary(const dense_column *c) { return c->column.format.field.kind == FBY_KIND_FIXED_BINARY; }

static fby_status open_dense(const request *q, const fby__decode_column *from, dense_column *out, fby_error *err)
{
    const fby__panel_layout *layout = q->r->panel->layout;
    fby__arrow_path path;
    fby__arrow_path_of(q->r->table->schema, from->source->leaf, &path);
    out->target = &layout->columns[from->column];
    out->index = from->column;
    fby_status status = fby__arrow_column_open(q->schema, q->batch, q->begin, &path, 0, false, &out->column, err);
    const fby__arrow_format *format = &out->column.format;
    uint64_t elements = out->column.per_row;
    if (status == FBY_OK && is_binary(out) && layout->dtype == FBY_UINT8 && elements == 1)
        elements = format->width;
    else if (status == FBY_OK &&
             (out->column.depth != path.n || (format->field.dtype == FBY_DTYPE_NONE && format->field.kind != FBY_KIND_NULL)))
        status = fby__fail(err, FBY_E_UNSUPPORTED, "a column of kind %s has no fixed number of numbers a row",
                           fby_kind_name(format->field.kind));
    if (status == FBY_OK && elements != out->target->width)
        status =
            fby__fail(err, FBY_E_SCHEMA, "%llu elements a row where %u are expected", (unsigned long long)elements, out->target->width);
    if (status != FBY_OK)
        return in_column(q, out->target, status, err);
    fby_kind kind = format->field.kind;
    bool timed = kind == FBY_KIND_TIME || kind == FBY_KIND_TIMESTAMP || kind == FBY_KIND_DURATION;
    out->scale = timed ? (fby__scale){from->unit_mul, from->unit_div, 0} : FBY__SCALE_NONE;
    return FBY_OK;
}

static fby_status decode_dense(const request *q, fby_error *err)
{
    uint64_t rows = q->r->row_end - q->r->row_begin;
    uint32_t n = q->r->n_columns;
    dense_column *columns = fby__malloc(sizeof *columns * (n ? n : 1));
    fby_status status = FBY_OK;
    if (!columns)
        return fby__fail_nomem(err, "decoding a batch");
    for (uint32_t c = 0; c < n && status == FBY_OK; c++)
        status = open_dense(q, &q->r->columns[c], &columns[c], err);
    for (uint32_t c = 0, k; c < n && status == FBY_OK; c += k) {
        k = 1;
        if (is_binary(&columns[c])) {
            status = dense_binary(q, &columns[c], rows, err);
            continue;
        }
        if (columns[c].column.per_row != 1) {
            status = dense_wide(q, &columns[c], rows, err);
            continue;
        }
        while (k < SIDE_BY_SIDE && c + k < n && columns[c + k].column.per_row == 1 && !is_binary(&columns[c + k]) &&
               columns[c + k].target->offset == columns[c].target->offset + k)
            k++;
        for (uint64_t row = 0; row < rows && status == FBY_OK; row += FBY__ARROW_TILE)
            status = dense_narrow(q, columns + c, k, row, (size_t)fby__min_u64(rows - row, FBY__ARROW_TILE), err);
    }
    fby__free(columns);
    return status;
}

/* ---- ragged ---- */

/* Elements [begin, end) of the list's child to the end of the panel's values; where there is no room they are only counted. */
static fby_status append_elements(const request *q, const fby__arrow_column *elements, fby__scale unit, uint64_t begin, uint64_t end,
                                  fby_error *err)
{
    fby__panel *panel = q->r->panel;
    const fby__panel_column *target = &panel->layout->columns[0];
    size_t width = fby_dtype_bytes(panel->layout->dtype);
    if (panel->used > panel->capacity || end - begin > panel->capacity - panel->used) {
        panel->used += end - begin;
        return FBY_OK;
    }
    for (uint64_t e = begin; e < end;) {
        size_t n = (size_t)fby__min_u64(end - e, FBY__ARROW_TILE);
        bool all;
        FBY__TRY(convert_tile(q, elements, target, unit, e, n, panel->used, 1, panel->data + panel->used * width, &all, err));
        if (panel->element_valid)
            memcpy(panel->element_valid + panel->used, q->work->flags, n);
        panel->used += n;
        e += n;
    }
    return FBY_OK;
}

static fby_status open_ragged(const request *q, fby__arrow_column *list, fby__arrow_column *elements, fby__scale *out_unit, fby_error *err)
{
    const fby__decode_column *from = &q->r->columns[0];
    fby__arrow_path path;
    fby__arrow_path_of(q->r->table->schema, from->source->leaf, &path);
    FBY__TRY(fby__arrow_column_open(q->schema, q->batch, q->begin, &path, 0, true, list, err));
    if (list->depth == path.n)
        return fby__fail(err, FBY_E_SCHEMA, "it is no list");
    FBY__TRY(fby__arrow_column_open(list->schema->children[0], list->array->children[0], 0, &path, list->depth + 1, false, elements, err));
    const fby_field *field = &elements->format.field;
    if (elements->depth != path.n || (field->dtype == FBY_DTYPE_NONE && field->kind != FBY_KIND_NULL))
        return fby__fail(err, FBY_E_UNSUPPORTED, "a list of %s has no numbers side by side", fby_kind_name(field->kind));
    bool timed = field->kind == FBY_KIND_TIME || field->kind == FBY_KIND_TIMESTAMP || field->kind == FBY_KIND_DURATION;
    *out_unit = timed ? (fby__scale){from->unit_mul, from->unit_div, 0} : FBY__SCALE_NONE;
    return FBY_OK;
}

/* The extent of list i (offset included) in the child. */
static void extent(const fby__arrow_column *list, uint64_t i, uint64_t *begin, uint64_t *end)
{
    if (list->format.storage == FBY__ARROW_FIXED_LIST) {
        *begin = i * (uint64_t)list->format.field.list_size;
        *end = *begin + (uint64_t)list->format.field.list_size;
    } else {
        bool wide = list->format.storage == FBY__ARROW_LIST64;
        *begin = fby__arrow_offset(list->array, wide, i);
        *end = fby__arrow_offset(list->array, wide, i + 1);
    }
}

static fby_status decode_ragged(const request *q, fby__arrow_column *columns, fby_error *err)
{
    fby__panel *panel = q->r->panel;
    const fby__panel_column *target = &panel->layout->columns[0];
    fby__arrow_column *list = &columns[0], *elements = &columns[1];
    fby__scale unit = FBY__SCALE_NONE;
    fby_status status = open_ragged(q, list, elements, &unit, err);
    if (status != FBY_OK)
        return in_column(q, target, status, err);

    uint64_t rows = q->r->row_end - q->r->row_begin, child_length = (uint64_t)list->array->children[0]->length;
    const uint64_t item = elements->per_row; /* numbers of an element, which may be an array */
    uint64_t begin = 0, end = 0;             /* lists that lie one behind the other are converted as one */
    panel->used = 0;
    panel->offsets[0] = 0;
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t from, to;
        uint8_t there;
        (void)fby__arrow_column_flags(list, r, 1, &there);
        extent(list, list->first + r, &from, &to);
        if (from > to || to > child_length)
            return in_column(
                q, target, fby__fail(err, FBY_E_ARG, "the list offsets of row %llu are not in order", (unsigned long long)table_row(q, r)),
                err);
        if (panel->valid)
            panel->valid[r] = there;
        if (!there)
            from = to = end; /* what lies under a null list is not part of the data */
        if (from != end && from != to) {
            FBY__TRY(append_elements(q, elements, unit, begin * item, end * item, err));
            begin = from;
        }
        if (from != to)
            end = to;
        panel->offsets[r + 1] = panel->used + (end - begin) * item;
    }
    return append_elements(q, elements, unit, begin * item, end * item, err);
}

/* ---- bytes ---- */

/* Where there is no room they are only counted. */
static fby__view put_bytes(const request *q, fby__bytes bytes)
{
    fby__panel *panel = q->r->panel;
    if (bytes.n && panel->used <= panel->capacity && bytes.n <= panel->capacity - panel->used)
        memcpy(panel->data + panel->used, bytes.data, bytes.n);
    panel->used += bytes.n;
    return (fby__view){panel->used - bytes.n, bytes.n};
}

/* seen: for each dictionary entry where it lies in the arena (n = UINT64_MAX: not yet), NULL without a dictionary. */
static fby_status fill_bytes(const request *q, const fby__arrow_column *column, fby__view *seen, fby_error *err)
{
    fby__panel *panel = q->r->panel;
    const fby__panel_column *target = &panel->layout->columns[0];
    const struct ArrowArray *dictionary = column->array->dictionary;
    uint64_t rows = q->r->row_end - q->r->row_begin;
    panel->used = 0;
    for (uint64_t r = 0; r < rows; r++) {
        uint8_t there;
        (void)fby__arrow_column_flags(column, r, 1, &there);
        if (panel->valid)
            panel->valid[r] = there;
        panel->views[r] = (fby__view){0, 0};
        if (!there) {
            if (target->missing == FBY__MISSING_ERROR)
                return no_value(q, target, table_row(q, r), err);
            continue;
        }
        if (!seen) {
            panel->views[r] = put_bytes(q, fby__arrow_bytes_at(&column->format, column->array, column->first + r));
            continue;
        }
        uint64_t index;
        fby_status status = fby__arrow_column_index(column, r, &index, err);
        if (status != FBY_OK)
            return in_column(q, target, status, err);
        if (seen[index].n == UINT64_MAX)
            seen[index] = put_bytes(q, fby__arrow_bytes_at(&column->format, dictionary, (uint64_t)dictionary->offset + index));
        panel->views[r] = seen[index];
    }
    return FBY_OK;
}

static fby_status decode_bytes(const request *q, fby__arrow_column *column, fby_error *err)
{
    const fby__panel_column *target = &q->r->panel->layout->columns[0];
    fby__arrow_path path;
    fby__arrow_path_of(q->r->table->schema, q->r->columns[0].source->leaf, &path);
    fby_status status = fby__arrow_column_open(q->schema, q->batch, q->begin, &path, 0, true, column, err);
    fby_kind kind = column->format.field.kind;
    if (status == FBY_OK && (column->depth != path.n || (kind != FBY_KIND_STRING && kind != FBY_KIND_BINARY &&
                                                         kind != FBY_KIND_FIXED_BINARY && kind != FBY_KIND_NULL)))
        status = fby__fail(err, FBY_E_SCHEMA, "a column of kind %s is no string or binary", fby_kind_name(kind));
    if (status != FBY_OK)
        return in_column(q, target, status, err);

    fby__view *seen = NULL;
    if (column->array->dictionary) {
        size_t n = (size_t)column->array->dictionary->length, bytes;
        if (!fby__mul_checked(n, sizeof *seen, &bytes) || !(seen = fby__malloc(bytes)))
            return fby__fail_nomem(err, "decoding a dictionary");
        memset(seen, 0xff, bytes);
    }
    status = fill_bytes(q, column, seen, err);
    fby__free(seen);
    return status;
}

/* ---- the call ---- */

fby_status fby__arrow_panel(const fby__decode *r, const fby__arrow_batch *batch, fby__scratch *scratch, fby_error *err)
{
    /* buffers[0]: work space and tiles; buffers[1]: columns of ragged and bytes panels (too large for a thread's stack)
     */
    const size_t work_bytes = sizeof(fby__arrow_work) + (size_t)SIDE_BY_SIDE * FBY__ARROW_TILE * 8 + 64;
    fby__buf *work = &scratch->buffers[0], *columns = &scratch->buffers[1];
    if (fby__grow((void **)&work->data, &work->cap, work_bytes, 1) != 0 ||
        fby__grow((void **)&columns->data, &columns->cap, 2 * sizeof(fby__arrow_column), 1) != 0)
        return fby__fail_nomem(err, "decoding a batch");
    uintptr_t aligned = ((uintptr_t)work->data + 63) & ~(uintptr_t)63;
    request q = {.r = r,
                 .batch = batch->array,
                 .schema = batch->schema,
                 .begin = r->row_begin - batch->first_row,
                 .work = (fby__arrow_work *)aligned,
                 .tiles = (uint8_t *)(aligned + sizeof(fby__arrow_work))};
    switch (r->panel->layout->kind) {
    case FBY__PANEL_DENSE: return decode_dense(&q, err);
    case FBY__PANEL_RAGGED: return decode_ragged(&q, (fby__arrow_column *)(void *)columns->data, err);
    case FBY__PANEL_BYTES: return decode_bytes(&q, (fby__arrow_column *)(void *)columns->data, err);
    }
    return fby__fail(err, FBY_E_INTERNAL, "unknown kind of panel");
}

fby_status fby__arrow_decode_panel(const fby__decode *r, fby__scratch *scratch, fby_error *err)
{
    const fby__arrow_memory *memory = fby__arrow_memory_of(r->table);
    const fby__arrow_batch batch = {.schema = &memory->schema, .array = &memory->batches[r->group]};
    return fby__arrow_panel(r, &batch, scratch, err);
}
