/* Record batches by hand: a stream of arrays over borrowed buffers that counts what is alive, its table, and rows decoded from that. */
#ifndef FBY_TESTS_ARROW_PRODUCER_H
#define FBY_TESTS_ARROW_PRODUCER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "block/arrow.h"
#include "format/arrow/memory.h"

enum { MAX_COLUMNS = 16, MAX_BATCHES = 4 };

static unsigned g_live_arrays, g_live_streams;

static inline void array_done(struct ArrowArray *a)
{
    for (int64_t i = 0; i < a->n_children; i++)
        if (a->children[i]->release)
            a->children[i]->release(a->children[i]);
    if (a->dictionary && a->dictionary->release)
        a->dictionary->release(a->dictionary);
    a->release = NULL;
    g_live_arrays--;
}

static inline void schema_done(struct ArrowSchema *s) { s->release = NULL; }

/* An array over borrowed buffers; its storage is the caller's. */
static inline struct ArrowArray array(int64_t length, int64_t null_count, int64_t offset, int64_t n_buffers, const void **buffers)
{
    g_live_arrays++;
    return (struct ArrowArray){
        .length = length, .null_count = null_count, .offset = offset, .n_buffers = n_buffers, .buffers = buffers, .release = array_done};
}

typedef struct producer {
    struct ArrowSchema schemas[MAX_COLUMNS], *schema_pointers[MAX_COLUMNS];
    struct ArrowArray *columns[MAX_BATCHES][MAX_COLUMNS];
    int64_t rows[MAX_BATCHES], offsets[MAX_BATCHES];
    const void *no_validity[1];
    int64_t n_columns, n_batches, next;
    int fail_schema, fail_next; /* errno to return */
    const char *message;
} producer;

static inline int give_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    producer *p = stream->private_data;
    if (p->fail_schema)
        return p->fail_schema;
    for (int64_t i = 0; i < p->n_columns; i++)
        p->schema_pointers[i] = &p->schemas[i];
    *out = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = p->n_columns, .children = p->schema_pointers, .release = schema_done};
    return 0;
}

static inline int give_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    producer *p = stream->private_data;
    if (p->next == p->n_batches) {
        *out = (struct ArrowArray){0};
        return p->fail_next;
    }
    int64_t b = p->next++;
    *out = array(p->rows[b], 0, p->offsets[b], 1, p->no_validity);
    out->n_children = p->n_columns;
    out->children = p->columns[b];
    return 0;
}

static inline const char *give_message(struct ArrowArrayStream *stream) { return ((producer *)stream->private_data)->message; }

static inline void stream_done(struct ArrowArrayStream *stream)
{
    producer *p = stream->private_data;
    for (; p->next < p->n_batches; p->next++) /* what nobody asked for */
        for (int64_t c = 0; c < p->n_columns; c++)
            if (p->columns[p->next][c]->release)
                p->columns[p->next][c]->release(p->columns[p->next][c]);
    stream->release = NULL;
    g_live_streams--;
}

static inline struct ArrowArrayStream stream_of(producer *p)
{
    g_live_streams++;
    p->next = 0;
    return (struct ArrowArrayStream){give_schema, give_next, give_message, stream_done, p};
}

static inline void add_column(producer *p, const char *name, const char *format, struct ArrowArray *a)
{
    p->schemas[p->n_columns] = (struct ArrowSchema){.format = format, .name = name, .flags = ARROW_FLAG_NULLABLE, .release = schema_done};
    p->columns[0][p->n_columns++] = a;
    p->n_batches = 1;
}

static inline fby__table *table_of(producer *p)
{
    struct ArrowArrayStream stream = stream_of(p);
    fby__table *table = NULL;
    fby_error err;
    if (fby__arrow_table_create(&stream, &table, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_null(stream.release);
    assert_int_equal(g_live_streams, 0);
    return table;
}

static inline void drop(fby__table *table)
{
    fby__table_unref(table);
    assert_int_equal(g_live_arrays, 0);
}

/* ---- decoding ---- */

typedef struct decoded {
    fby__panel_column columns[MAX_COLUMNS];
    fby__panel_layout layout;
    fby__panel panel;
    void *memory;
    fby_error err;
} decoded;

static inline fby_status decode(fby__table *table, fby__panel_kind kind, fby_dtype dtype, uint64_t begin, uint64_t end,
                                const char *const *paths, const uint32_t *widths, uint32_t n, fby__missing missing, double fill, decoded *d)
{
    fby__leaf_source sources[MAX_COLUMNS];
    fby__decode_column columns[MAX_COLUMNS];
    *d = (decoded){
        .layout = {.kind = kind, .dtype = dtype, .n_columns = n, .want_valid = true, .elements_valid = kind == FBY__PANEL_RAGGED}};
    d->layout.columns = d->columns;
    uint64_t capacity = 0;
    for (uint32_t i = 0; i < n; i++) {
        sources[i] = (fby__leaf_source){.leaf = fby__schema_find_leaf(table->schema, paths[i])};
        assert_true(sources[i].leaf != FBY__NO_LEAF);
        d->columns[i] =
            (fby__panel_column){.path = paths[i], .offset = d->layout.width, .width = widths ? widths[i] : 1, .missing = missing};
        assert_true(fby__scalar_set(dtype, fill, &d->columns[i].fill));
        d->layout.width += d->columns[i].width;
        columns[i] = (fby__decode_column){&sources[i], i, 1, 1};
        fby__leaf_bounds bounds;
        table->ops->leaf_bounds(table, 0, begin, end, sources[i].leaf, &bounds);
        capacity = kind == FBY__PANEL_RAGGED ? bounds.n_values : bounds.uncompressed_bytes;
    }
    fby__range_list list = {0};
    fby__locate_request locate = {.table = table, .row_begin = begin, .row_end = end, .sources = sources, .n = n, .list = &list};
    assert_int_equal(fby__locate(&locate, &d->err), FBY_OK);
    fby__range_list_fini(&list);
    size_t bytes;
    assert_int_equal(fby__panel_bytes(&d->layout, end - begin, capacity, &bytes, &d->err), FBY_OK);
    d->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    fby__panel_place(&d->layout, end - begin, capacity, d->memory, &d->panel);
    fby__decode request = {.table = table,
                           .file_name = "frame",
                           .row_begin = begin,
                           .row_end = end,
                           .panel_row = begin,
                           .panel = &d->panel,
                           .columns = columns,
                           .n_columns = n};
    fby__scratch scratch = {0};
    fby_status status = table->ops->decode_panel(&request, &scratch, &d->err);
    fby__scratch_fini(&scratch);
    return status;
}

static inline fby_status export_rows(fby__table *table, uint32_t column, uint64_t begin, uint64_t end, struct ArrowArray *out,
                                     fby_error *err)
{
    fby__scratch scratch = {0};
    uint32_t field = (uint32_t)(&table->schema->fields[0].children[column] - table->schema->fields);
    fby__arrow_request request = {.table = table, .file_name = "frame", .row_begin = begin, .row_end = end, .field = field};
    return table->ops->decode_arrow(&request, &scratch, out, err);
}

#endif
