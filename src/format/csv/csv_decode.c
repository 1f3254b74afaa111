/*
 * The text of a group → its columns: panels and Arrow arrays.
 *
 *   text + cells   read (or inflated) and scanned for every call, in the thread's scratch; or once a block in the chunk store, where the
 *                  export keeps one: [text][cells, row-major], filled by the first column that is decoded
 *   column         cells converted to Arrow buffers
 *   panel          what tables in memory do with such buffers (format/arrow): dtypes, missing values, interleaving
 *
 * Metadata said how many records there are and what type each column has. A file that says otherwise now was changed.
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "block/arrow.h"
#include "block/convert.h"
#include "format/arrow/memory_column.h"
#include "format/csv/csv.h"

/* The scratch's buffers: 0 and 1 are those of fby__arrow_decode_panel. */
enum { TEXT = 2, STORED = 3, CELLS = 4, COLUMN = 5, HEADS = 6 };

/* A group's text and cells, and who they are for. */
typedef struct source {
    const fby__csv_table *table;
    const char *file_name;
    fby__file *file;
    uint32_t group;
    const uint8_t *text;
    const fby__csv_cell *cells; /* [row * n_leaves + leaf] */
} source;

static fby_status changed(const source *s, fby_error *err, const char *what)
{
    return fby__fail(err, FBY_E_CHANGED, "'%s' is not the file that was opened: %s; open the data set again", s->file_name, what);
}

static fby_status make_room(fby__buf *b, uint64_t n, fby_error *err)
{
    if (n >= SIZE_MAX || fby__grow((void **)&b->data, &b->cap, (size_t)n + 1, 1) != 0)
        return fby__fail_nomem(err, "decoding CSV text");
    return FBY_OK;
}

static uint64_t cell_bytes(const fby__csv_table *table, uint32_t group)
{
    return table->base.groups[group].rows * table->base.schema->n_leaves * sizeof(fby__csv_cell);
}

/* ---- text ---- */

static fby_status read_text(source *s, fby__scratch *scratch, fby_error *err)
{
    const fby__csv_table *table = s->table;
    const fby__csv_position *position = &table->positions[s->group];
    fby__buf *text = &scratch->buffers[TEXT], *stored = &scratch->buffers[STORED];
    if (!s->file)
        return fby__fail(err, FBY_E_INTERNAL, "a CSV file is decoded without the file");
    if (!table->gzip) {
        FBY__TRY(make_room(text, position->n, err));
        s->text = text->data;
        return fby__file_read(s->file, position->offset, text->data, (size_t)position->n, err);
    }
    FBY__TRY(make_room(text, table->text_bytes, err));
    FBY__TRY(make_room(stored, table->file_bytes, err));
    FBY__TRY(fby__file_read(s->file, 0, stored->data, (size_t)table->file_bytes, err));
    stored->n = (size_t)table->file_bytes;
    text->n = 0;
    fby_status status = fby__csv_gunzip(stored, (size_t)table->text_bytes, text, err);
    if (status == FBY_E_UNSUPPORTED || (status == FBY_OK && text->n != table->text_bytes))
        return changed(s, err, "it inflates to another size");
    s->text = text->data + position->offset;
    if (status == FBY_OK)
        scratch->decompressed_bytes += table->text_bytes;
    else
        fby__error_context(err, "'%s'", s->file_name);
    return status;
}

static fby_status find_cells(const source *s, const uint8_t *text, fby__csv_cell *cells, fby_error *err)
{
    const fby__csv_position *position = &s->table->positions[s->group];
    uint64_t rows = s->table->base.groups[s->group].rows;
    uint32_t n = s->table->base.schema->n_leaves;
    fby__csv_scanner scanner;
    fby__csv_scanner_init(&scanner, s->table->delimiter, position->line);
    size_t at = 0;
    for (uint64_t row = 0; row < rows; row++) {
        if (row % FBY__CSV_ASK_RECORDS == 0)
            FBY__TRY(fby__cancel_check(err));
        if (fby__csv_next(&scanner, text, (size_t)position->n, &at, true, cells + row * n, n) != FBY__CSV_RECORD || scanner.n_fields != n)
            return changed(s, err, "its records are others");
    }
    return FBY_OK;
}

static fby_status load(source *s, const fby__leaf_source *leaf, fby__scratch *scratch, fby_error *err)
{
    const fby__csv_position *position = &s->table->positions[s->group];
    fby__shared_chunk *shared = leaf->n_chunks ? leaf->chunks[0].shared : NULL;
    size_t cells_at = (size_t)fby__align_up_u64(position->n, 8);
    if (!shared || fby__shared_chunk_begin(shared)) {
        fby__buf *own = &scratch->buffers[CELLS];
        uint8_t *data = shared ? fby__shared_chunk_data(shared) : NULL;
        fby_status status = read_text(s, scratch, err);
        if (status == FBY_OK && !shared)
            status = make_room(own, cell_bytes(s->table, s->group), err);
        if (status == FBY_OK)
            status = find_cells(s, s->text, (fby__csv_cell *)(void *)(shared ? data + cells_at : own->data), err);
        if (status == FBY_OK && shared)
            memcpy(data, s->text, (size_t)position->n);
        if (shared)
            fby__shared_chunk_filled(shared, status == FBY_OK);
        FBY__TRY(status);
        s->cells = (const fby__csv_cell *)(const void *)own->data;
    }
    if (shared) {
        s->text = fby__shared_chunk_data(shared);
        s->cells = (const fby__csv_cell *)(const void *)(s->text + cells_at);
    }
    return FBY_OK;
}

fby_status fby__csv_locate(const fby__locate_request *q, fby_error *err)
{
    const fby__csv_table *table = fby__csv(q->table);
    uint64_t bytes = fby__align_up_u64(table->positions[q->group].n, 8) + cell_bytes(table, q->group);
    for (size_t i = 0; i < q->n; i++) {
        q->sources[i] = (fby__leaf_source){.leaf = q->sources[i].leaf, .n_rows = table->base.groups[q->group].rows};
        fby__shared_chunk *shared =
            q->store && bytes < SIZE_MAX / 2 ? fby__chunk_store_get(q->store, q->file_key, FBY__NO_LEAF, q->group, (size_t)bytes) : NULL;
        if (!shared)
            continue;
        q->sources[i].first_chunk = q->list->n;
        q->sources[i].n_chunks = 1;
        fby_status status = fby__range_list_add(q->list, &(fby__range){.shared = shared}, err);
        if (status != FBY_OK) {
            fby__shared_chunk_unref(shared);
            return status;
        }
    }
    return FBY_OK;
}

/* ---- columns ---- */

/* The Arrow buffers of a column: validity, values or offsets, text. */
typedef struct column {
    uint8_t *validity, *values, *text;
    uint64_t nulls;
} column;

static uint64_t value_bytes(const fby_field *field, uint64_t rows)
{
    switch (field->kind) {
    case FBY_KIND_NULL: return 0;
    case FBY_KIND_BOOL: return fby__div_up_u64(rows, 8);
    case FBY_KIND_DATE: return 4 * rows;
    case FBY_KIND_STRING: return 8 * (rows + 1);
    case FBY_KIND_INT:
    case FBY_KIND_FLOAT: return fby_dtype_bytes(field->dtype) * rows;
    default: return 8 * rows;
    }
}

static uint64_t validity_bytes(uint64_t rows) { return fby__align_up_u64(fby__div_up_u64(rows, 8), 8); }

uint64_t fby__csv_column_bytes(const fby_field *field, uint64_t rows, uint64_t text)
{
    return validity_bytes(rows) + fby__align_up_u64(value_bytes(field, rows), 8) + (field->kind == FBY_KIND_STRING ? text : 0);
}

/* A cell as the user said it: any way of writing the number will do. */
static bool put_said(const fby_field *field, const uint8_t *p, uint32_t n, uint64_t row, column *out)
{
    size_t bytes = fby_dtype_bytes(field->dtype), bad;
    uint64_t integer = 0;
    int64_t truth;
    double number;
    if (field->kind == FBY_KIND_BOOL) {
        if (fby__csv_classify(p, n, &truth) == FBY__CSV_BOOL)
            integer = (uint64_t)truth;
        else if (!fby__csv_integer(p, n, FBY_UINT8, &integer) || integer > 1)
            return false;
        out->values[row >> 3] |= (uint8_t)(integer << (row & 7));
        return true;
    }
    if (field->kind == FBY_KIND_FLOAT)
        return fby__csv_double(p, n, &number) &&
               fby__convert(field->dtype, out->values + bytes * row, FBY_FLOAT64, &number, 1, FBY__SCALE_NONE, &bad) == FBY_OK;
    bool good = fby__csv_integer(p, n, field->dtype, &integer);
    memcpy(out->values + bytes * row, &integer, bytes); /* little-endian: its lowest bytes */
    return good;
}

static bool put_value(const fby_field *field, fby__csv_cell cell, const uint8_t *p, uint64_t row, column *out)
{
    int64_t value = 0;
    double number;
    if (cell.n_flags & FBY__CSV_DOUBLED)
        return false;
    if (field->kind == FBY_KIND_FLOAT) {
        bool good = fby__csv_double(p, fby__csv_cell_n(cell), &number);
        memcpy(out->values + 8 * row, &number, sizeof number);
        return good;
    }
    fby__csv_class class = fby__csv_classify(p, fby__csv_cell_n(cell), &value);
    switch (field->kind) {
    case FBY_KIND_BOOL:
        out->values[row >> 3] |= (uint8_t)((value == 1 && class == FBY__CSV_BOOL) << (row & 7));
        return class == FBY__CSV_BOOL;
    case FBY_KIND_INT: fby__store_u64(out->values + 8 * row, (uint64_t)value); return class == FBY__CSV_INT || class == FBY__CSV_LONG;
    case FBY_KIND_DATE: fby__store_u32(out->values + 4 * row, (uint32_t)(int32_t)value); return class == FBY__CSV_DATE;
    case FBY_KIND_TIMESTAMP:
        if (class == FBY__CSV_DATE && !field->utc) { /* midnight */
            value *= INT64_C(86400000000);
            class = FBY__CSV_LOCAL;
        }
        fby__store_u64(out->values + 8 * row, (uint64_t)value);
        return class == (field->utc ? FBY__CSV_UTC : FBY__CSV_LOCAL);
    default: return false;
    }
}

/* A value that is not what the user said: which, and on which line. */
static fby_status does_not_fit(const source *s, uint32_t leaf, uint64_t row, fby_error *err)
{
    const fby__schema *schema = s->table->base.schema;
    const fby_field *field = &schema->fields[schema->leaves[leaf].field];
    fby__csv_cell cell = s->cells[row * schema->n_leaves + leaf];
    fby__csv_scanner scanner;
    size_t at = 0;
    fby__csv_scanner_init(&scanner, s->table->delimiter, s->table->positions[s->group].line);
    for (uint64_t i = 0; i <= row; i++)
        (void)fby__csv_next(&scanner, s->text, (size_t)s->table->positions[s->group].n, &at, true, NULL, 0); /* as before: for the line */
    uint32_t n = fby__csv_cell_n(cell), shown = n < 60 ? n : 60;
    while (shown < n && shown > 0 && (s->text[cell.at + shown] & 0xc0) == 0x80) /* not inside a character */
        shown--;
    return fby__fail(err, FBY_E_DATA, "'%s', line %llu: column '%s' is '%.*s'%s, which does not fit in %s, the type it was said to have",
                     s->file_name, (unsigned long long)scanner.line, field->path, (int)shown, (const char *)s->text + cell.at,
                     shown < n ? "…" : "", fby_dtype_name(field->dtype));
}

/* Rows [begin, end) of a leaf into buffers of zeros, `room` bytes of text among them. */
static fby_status convert(const source *s, uint32_t leaf, uint64_t begin, uint64_t end, uint64_t room, column *out, fby_error *err)
{
    const fby__schema *schema = s->table->base.schema;
    const fby_field *field = &schema->fields[schema->leaves[leaf].field];
    bool said = schema->leaves[leaf].physical == FBY__CSV_SAID;
    uint64_t used = 0;
    for (uint64_t row = begin, i = 0; row < end; row++, i++) {
        if (i % FBY__CSV_ASK_RECORDS == 0)
            FBY__TRY(fby__cancel_check(err));
        fby__csv_cell cell = s->cells[row * schema->n_leaves + leaf];
        bool there = fby__csv_cell_n(cell) || (cell.n_flags & FBY__CSV_QUOTED), good = true;
        if (!there) {
            out->nulls++;
        } else if (field->kind == FBY_KIND_STRING) {
            good = fby__csv_cell_n(cell) <= room - used;
            used += good ? fby__csv_copy(s->text, cell, out->text + used) : 0;
        } else if (said) {
            good = !(cell.n_flags & FBY__CSV_DOUBLED) && put_said(field, s->text + cell.at, fby__csv_cell_n(cell), i, out);
        } else {
            good = put_value(field, cell, s->text + cell.at, i, out);
        }
        if (!good && said && field->kind != FBY_KIND_STRING)
            return does_not_fit(s, leaf, row, err);
        if (!good)
            return changed(s, err, "a column has values of another type");
        if (field->kind == FBY_KIND_STRING)
            fby__store_u64(out->values + 8 * (i + 1), used);
        if (field->kind != FBY_KIND_NULL)
            out->validity[i >> 3] |= (uint8_t)(there << (i & 7));
    }
    return FBY_OK;
}

/* ---- panels ---- */

fby_status fby__csv_decode_panel(const fby__decode *q, fby__scratch *scratch, fby_error *err)
{
    const fby__csv_table *table = fby__csv(q->table);
    const fby__schema *schema = q->table->schema;
    uint64_t rows = q->row_end - q->row_begin;
    source s = {.table = table, .file_name = q->file_name, .file = q->file, .group = q->group};
    if (q->n_columns == 0 || rows == 0)
        return FBY_OK;
    FBY__TRY(load(&s, q->columns[0].source, scratch, err));

    /* A table in memory of one batch, the group, of which one column at a time is there. */
    size_t heads_bytes =
        ((size_t)q->group + 1) * (sizeof(fby__group) + sizeof(struct ArrowArray)) + schema->n_leaves * sizeof(struct ArrowArray *);
    fby__buf *heads = &scratch->buffers[HEADS], *memory = &scratch->buffers[COLUMN];
    FBY__TRY(make_room(heads, heads_bytes, err));
    fby__group *groups = (fby__group *)(void *)heads->data;
    struct ArrowArray *batches = (struct ArrowArray *)(void *)(groups + q->group + 1);
    struct ArrowArray **children = (struct ArrowArray **)(void *)(batches + q->group + 1);
    groups[q->group] = table->base.groups[q->group];
    groups[q->group].first_row += q->row_begin;
    const void *no_validity[1] = {NULL};
    batches[q->group] = (struct ArrowArray){
        .length = (int64_t)rows, .n_buffers = 1, .buffers = no_validity, .n_children = schema->n_leaves, .children = children};
    const fby__arrow_memory in_memory = {.base = {.ops = q->table->ops,
                                                  .schema = q->table->schema,
                                                  .n_groups = q->table->n_groups,
                                                  .groups = groups,
                                                  .n_rows = q->table->n_rows},
                                         .schema = table->arrow,
                                         .batches = batches};
    fby__panel below = *q->panel, *panel = q->panel;
    if (q->row_begin > q->panel_row) { /* dense: the rows from there on as a panel of their own */
        uint64_t skip = q->row_begin - q->panel_row;
        below.rows -= skip;
        below.data += skip * below.row_bytes;
        below.valid = below.valid ? below.valid + skip * below.layout->n_columns : NULL;
        panel = &below;
    }
    for (uint32_t i = 0; i < q->n_columns; i++) {
        uint32_t leaf = q->columns[i].source->leaf;
        const fby_field *field = &schema->fields[schema->leaves[leaf].field];
        uint64_t room = table->stats[(size_t)q->group * schema->n_leaves + leaf].bytes;
        uint64_t bytes = fby__csv_column_bytes(field, rows, room);
        FBY__TRY(make_room(memory, bytes, err));
        column c = {.validity = memory->data, .values = memory->data + validity_bytes(rows)};
        c.text = c.values + fby__align_up_u64(value_bytes(field, rows), 8);
        memset(memory->data, 0, (size_t)(c.text - c.validity));
        FBY__TRY(convert(&s, leaf, q->row_begin, q->row_end, room, &c, err));
        const void *buffers[3] = {c.validity, c.values, c.text};
        struct ArrowArray array = {.length = (int64_t)rows,
                                   .null_count = (int64_t)c.nulls,
                                   .buffers = buffers,
                                   .n_buffers = field->kind == FBY_KIND_NULL     ? 0
                                                : field->kind == FBY_KIND_STRING ? 3
                                                                                 : 2};
        children[&schema->fields[schema->leaves[leaf].field] - schema->fields[0].children] = &array;
        fby__decode one = *q;
        one.table = &in_memory.base;
        one.row_begin = one.panel_row = 0;
        one.row_end = rows;
        one.panel = panel;
        one.columns = &q->columns[i];
        one.n_columns = 1;
        FBY__TRY(fby__arrow_decode_panel(&one, scratch, err));
    }
    return FBY_OK;
}

/* ---- Arrow ---- */

/* A buffer of zeros that the array owns; never NULL. */
static uint8_t *add_buffer(struct ArrowArray *array, int64_t i, uint64_t n)
{
    uint8_t *p = n < SIZE_MAX ? fby__calloc((size_t)n + 1, 1) : NULL;
    if (p)
        fby__arrow_array_set_buffer(array, i, p);
    return p;
}

fby_status fby__csv_decode_arrow(const fby__arrow_request *q, fby__scratch *scratch, struct ArrowArray *out, fby_error *err)
{
    const fby__csv_table *table = fby__csv(q->table);
    const fby__schema *schema = q->table->schema;
    const fby_field *field = &schema->fields[q->field];
    uint32_t leaf = schema->nodes[q->field].first_leaf;
    uint64_t rows = q->row_end - q->row_begin, room = table->stats[(size_t)q->group * schema->n_leaves + leaf].bytes;
    source s = {.table = table, .file_name = q->file_name, .file = q->file, .group = q->group};
    FBY__TRY(load(&s, &q->sources[0], scratch, err));
    bool text = field->kind == FBY_KIND_STRING, null = field->kind == FBY_KIND_NULL;
    struct ArrowArray array;
    FBY__TRY(fby__arrow_array_create(null ? 0 : text ? 3 : 2, 0, &array, err));
    column c = {0};
    fby_status status = FBY_OK;
    if (!null && (!(c.validity = add_buffer(&array, 0, validity_bytes(rows))) ||
                  !(c.values = add_buffer(&array, 1, value_bytes(field, rows))) || (text && !(c.text = add_buffer(&array, 2, room)))))
        status = fby__fail_nomem(err, "an Arrow column");
    if (status == FBY_OK)
        status = convert(&s, leaf, q->row_begin, q->row_end, room, &c, err);
    if (status != FBY_OK) {
        array.release(&array);
        return status;
    }
    array.length = (int64_t)rows;
    array.null_count = (int64_t)c.nulls;
    *out = array;
    return FBY_OK;
}
