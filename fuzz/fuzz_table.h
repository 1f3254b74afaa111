/*
 * A reader by itself: a file's metadata as a table, there and back through the index cache's form, and its columns decoded as Arrow and as
 * panels. Without data set, loader and threads an input takes a tenth of the time, so this is what most inputs of libFuzzer get; which of
 * them go through the public API as well (fuzz_file.h) follows from their bytes. The replay takes every input through both.
 *
 * Each range that is read lies in memory of exactly its size, so that AddressSanitizer sees the first byte beyond.
 */
#ifndef FUZZ_FUZZ_TABLE_H
#define FUZZ_FUZZ_TABLE_H

#include "base/alloc.h"
#include "format/format.h"

#include <stdlib.h>

enum { MAX_GROUPS = 4, MAX_FIELDS = 16, MAX_ROWS = 4096, MAX_LEAVES = 64, MAX_PANEL = 1 << 22, KEPT_SCRATCH = 1 << 20 };
enum { TABLE_MEMORY = 8 << 20 }; /* budgets bound it in the library; here it bounds the time that fill values take */

static fby__scratch scratch; /* kept from input to input, as a loader keeps it from block to block */

static bool no_more(fby__allowance *allowance, size_t bytes)
{
    (void)allowance, (void)bytes;
    return false;
}

static void free_ranges(fby__leaf_source *sources, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 2 + sources[i].n_chunks; k++)
            free((void *)(uintptr_t)fby__source_range(&sources[i], k)->data);
}

static fby_status read_ranges(fby__file *file, fby__leaf_source *sources, size_t n, fby_error *err)
{
    const uint64_t size = fby__file_stamp_of(file)->size_bytes;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 2 + sources[i].n_chunks; k++) {
            fby__range *range = fby__source_range(&sources[i], k);
            if (range->n == 0)
                continue;
            if (range->n > size || range->offset > size - range->n)
                return fby__fail(err, FBY_E_FORMAT, "beyond the end of the file");
            uint8_t *data = malloc((size_t)range->n);
            if (!data)
                return fby__fail_nomem(err, "a range");
            range->data = data;
            FBY__TRY(fby__file_read(file, range->offset, data, (size_t)range->n, err));
        }
    return FBY_OK;
}

/* The panel that a loader would decode a column to; false: none. */
static bool choose_layout(const fby_field *field, fby__panel_layout *out)
{
    const fby_field *at = field;
    uint64_t width = 1;
    out->kind = FBY__PANEL_DENSE;
    for (; at->kind == FBY_KIND_FIXED_LIST && at->n_children == 1; at = &at->children[0])
        width *= at->list_size > 0 && at->list_size < MAX_PANEL ? (uint64_t)at->list_size : 0;
    if (at == field && at->kind == FBY_KIND_LIST && at->n_children == 1) {
        out->kind = FBY__PANEL_RAGGED;
        at = &at->children[0];
    }
    out->dtype = fby__leaf_dtype(at);
    const bool fixed = at->kind == FBY_KIND_FIXED_BINARY, bytes = at->kind == FBY_KIND_STRING || at->kind == FBY_KIND_BINARY;
    if (out->dtype == FBY_DTYPE_NONE || ((fixed || bytes) && at != field) || (fixed && at->byte_width > MAX_PANEL))
        return false;
    if (fixed)
        width = (uint64_t)at->byte_width;
    if (bytes)
        out->kind = FBY__PANEL_BYTES;
    out->width = (uint32_t)width;
    return width > 0 && width < MAX_PANEL;
}

/* What whoever takes rows from a panel relies on. */
static void check_panel(const fby__panel *p)
{
    for (uint64_t row = 0; p->views && row < p->rows; row++)
        if ((!p->valid || p->valid[row]) && (p->views[row].offset > p->used || p->views[row].n > p->used - p->views[row].offset))
            abort();
    for (uint64_t row = 0; p->offsets && row < p->rows; row++)
        if (p->offsets[row] > p->offsets[row + 1] || p->offsets[row + 1] > p->used)
            abort();
}

static void read_panel(const fby__arrow_request *q, const fby_field *field)
{
    fby__panel_column column = {.path = field->path, .missing = picked % 5 ? FBY__MISSING_FILL : FBY__MISSING_ERROR};
    fby__panel_layout layout = {.n_columns = 1, .want_valid = picked % 3, .columns = &column};
    if (!choose_layout(field, &layout))
        return;
    layout.elements_valid = layout.kind == FBY__PANEL_RAGGED && picked % 2;
    column.width = layout.width;
    fby__decode_column decode = {.source = q->sources, .unit_mul = 1, .unit_div = 1};
    fby__leaf_bounds bounds;
    fby__panel panel;
    q->table->ops->leaf_bounds(q->table, q->group, q->row_begin, q->row_end, q->sources[0].leaf, &bounds);
    uint64_t capacity = layout.kind == FBY__PANEL_RAGGED  ? bounds.n_values
                        : layout.kind == FBY__PANEL_BYTES ? bounds.uncompressed_bytes
                                                          : 0;
    for (bool again = true; again;) {
        size_t bytes;
        void *memory;
        fby_error err;
        if (fby__panel_bytes(&layout, q->row_end - q->row_begin, capacity, &bytes, &err) != FBY_OK || bytes > MAX_PANEL ||
            posix_memalign(&memory, 64, bytes) != 0)
            return;
        fby__panel_place(&layout, q->row_end - q->row_begin, capacity, memory, &panel);
        const fby__decode request = {.table = q->table,
                                     .file_name = q->file_name,
                                     .group = q->group,
                                     .row_begin = q->row_begin,
                                     .row_end = q->row_end,
                                     .panel_row = q->row_begin,
                                     .panel = &panel,
                                     .columns = &decode,
                                     .n_columns = 1,
                                     .verify_crc = q->verify_crc,
                                     .file = q->file};
        again = false;
        if (q->table->ops->decode_panel(&request, &scratch, &err) == FBY_OK) {
            again = layout.kind != FBY__PANEL_DENSE && panel.used > capacity;
            if (!again)
                check_panel(&panel);
            capacity = panel.used;
        }
        free(memory);
    }
}

/* Some rows of a field of the root: located, read, and decoded in both ways. */
static void read_field(const fby__table *table, fby__file *file, uint32_t group, const fby_field *field, uint64_t begin, uint64_t end)
{
    const fby__schema_node *node = &table->schema->nodes[field - table->schema->fields];
    fby__leaf_source sources[MAX_LEAVES] = {0};
    fby__range_list list = {0};
    fby_error err;
    fby_chunk_info info = {.size = sizeof info};
    if (node->n_leaves > MAX_LEAVES)
        return;
    for (uint32_t i = 0; i < node->n_leaves; i++)
        sources[i].leaf = node->first_leaf + i;
    if (node->n_leaves)
        (void)table->ops->describe(table, file, group, node->first_leaf, &info, &err); /* any status will do */
    const fby__locate_request where = {.table = table,
                                       .file = file,
                                       .group = group,
                                       .row_begin = begin,
                                       .row_end = end,
                                       .sources = sources,
                                       .n = node->n_leaves,
                                       .list = &list};
    if (fby__locate(&where, &err) == FBY_OK) {
        const fby__arrow_request q = {.table = table,
                                      .file = file,
                                      .file_name = fby__file_path(file),
                                      .group = group,
                                      .row_begin = begin,
                                      .row_end = end,
                                      .field = (uint32_t)(field - table->schema->fields),
                                      .verify_crc = picked % 2,
                                      .sources = sources};
        if (read_ranges(file, sources, node->n_leaves, &err) == FBY_OK) {
            struct ArrowArray array = {0};
            if (table->ops->decode_arrow(&q, &scratch, &array, &err) == FBY_OK && array.release)
                array.release(&array);
            if (node->n_leaves == 1)
                read_panel(&q, field);
        }
        free_ranges(sources, node->n_leaves);
    }
    fby__range_list_fini(&list);
}

/* As the index cache keeps it. What was written there is read again, or there is no memory. */
static void freeze_and_thaw(fby__table *table)
{
    fby__buf frozen = {0};
    fby__table *again = NULL;
    fby_error err;
    if (table->ops->freeze && table->ops->freeze(table, &frozen, &err) == FBY_OK) {
        const fby_status status = table->ops->thaw((fby__bytes){frozen.data, frozen.n}, table->schema, &again, &err);
        if (status == FBY_OK)
            fby__table_unref(again);
        else if (status != FBY_E_NOMEM)
            abort();
    }
    fby__buf_fini(&frozen);
}

/* Is it the reader's own, by its first and last bytes or by looking? No reader is asked to open another one's. */
static bool is_own(const fby__format_ops *ops, fby__file *file, const uint8_t *data, size_t size)
{
    const size_t n = size < 16 ? size : 16;
    return ops->bid((fby__bytes){data, n}, (fby__bytes){data + size - n, n}) > 0 || (ops->probe && ops->probe(file));
}

/* The input, which is the file of that name, as a reader sees it. */
static inline void read_table(const char *name, const uint8_t *data, size_t size, const fby__format_ops *ops, const fby__format_opts *opts)
{
    fby__allowance allowance = {.left = TABLE_MEMORY, .more = no_more}, *before = fby__alloc_within(&allowance);
    fby__file *file;
    fby__table *table;
    fby_error err;
    if (fby__file_open(name, NULL, &file, &err) == FBY_OK) {
        if (is_own(ops, file, data, size) && ops->open(file, opts, &table, &err) == FBY_OK) {
            const fby_field *root = &table->schema->fields[0];
            if (picked % 4 == 0)
                freeze_and_thaw(table);
            for (uint32_t g = 0; g < table->n_groups && g < MAX_GROUPS; g++) {
                const fby__group *group = &table->groups[g];
                const uint64_t block = group->block_rows && group->block_rows < group->rows ? group->block_rows : group->rows;
                const uint64_t end = block < MAX_ROWS ? block : MAX_ROWS, begin = picked % 8 ? 0 : end / 3;
                for (uint32_t i = 0; i < root->n_children && i < MAX_FIELDS && begin < end; i++)
                    read_field(table, file, g, &root->children[i], begin, end);
            }
            fby__table_unref(table);
        }
        fby__file_unref(file);
    }
    if (fby__scratch_bytes(&scratch) > KEPT_SCRATCH)
        fby__scratch_fini(&scratch);
    (void)fby__alloc_within(before);
}

#endif
