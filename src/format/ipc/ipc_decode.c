/*
 * The two sinks: record batches as panels and as Arrow. Arrays are made of what was read (ipc_array.c); format/arrow does the rest, as for
 * tables in memory: dtypes, missing values, interleaving, the one form that is exported.
 */
#include "base/checked.h"
#include "format/arrow/memory_column.h"
#include "format/ipc/ipc.h"

#include <string.h>

#define SCRATCH_BYTES ((uint64_t)16 << 20) /* what columns side by side may need; one alone has what it needs */
#define BY_LEAF 2                          /* the scratch's buffer; 0 and 1 are those of fby__arrow_panel */

/* To those who read a file, a damaged one is no mistake of theirs. */
static fby_status as_read(fby_status status, const fby__ipc_source *s, fby_error *err)
{
    if (status != FBY_E_ARG)
        return status;
    if (err) {
        err->code = FBY_E_FORMAT;
        err->file_offset = (int64_t)s->table->batches[s->group].at;
    }
    return FBY_E_FORMAT;
}

static void space_free(void *space)
{
    fby__ipc_space_fini(space);
    fby__free(space);
}

static size_t space_bytes(const void *space) { return ((const fby__ipc_space *)space)->bytes; }

/* The thread's own space, and a list of the schema's leaves without any that is wanted. */
static fby_status begin(fby__ipc_source *s, fby__scratch *scratch, fby_error *err)
{
    fby__buf *by_leaf = &scratch->buffers[BY_LEAF];
    const size_t n = s->table->base.schema->n_leaves;
    if (!s->space) {
        s->space = fby__scratch_state(scratch, sizeof *s->space, space_free, space_bytes);
        if (!s->space)
            return fby__fail_nomem(err, "decoding a record batch");
        fby__ipc_space_reset(s->space);
    }
    if (fby__grow((void **)&by_leaf->data, &by_leaf->cap, n * sizeof(void *), 1) != 0)
        return fby__fail_nomem(err, "decoding a record batch");
    s->scratch = scratch;
    s->by_leaf = (const fby__leaf_source **)(void *)by_leaf->data;
    memset((void *)s->by_leaf, 0, n * sizeof(void *));
    return FBY_OK;
}

/* ---- panels ---- */

static uint32_t column_of(const fby__ipc_table *table, uint32_t leaf)
{
    uint32_t node = table->leaf_nodes[leaf];
    while (table->nodes[node].parent != FBY__IPC_NONE)
        node = table->nodes[node].parent;
    return node;
}

static uint64_t cost_of(const fby__decode *q, uint32_t i)
{
    fby__leaf_bounds bounds;
    fby__ipc_leaf_bounds(q->table, q->group, q->row_begin, q->row_end, q->columns[i].source->leaf, &bounds);
    return bounds.scratch_bytes;
}

/* So many columns from `first` on as their scratch allows. */
static uint32_t fitting(const fby__decode *q, uint32_t first)
{
    uint32_t n = 1;
    for (uint64_t bytes = cost_of(q, first); first + n < q->n_columns; n++)
        if ((bytes += cost_of(q, first + n)) > SCRATCH_BYTES)
            break;
    return n;
}

static fby_status decode_columns(const fby__decode *q, const fby__ipc_source *s, struct ArrowArray **children, fby_error *err)
{
    const fby__ipc_table *table = s->table;
    const uint64_t rows = q->row_end - q->row_begin;
    const void *no_validity[1] = {NULL};
    const struct ArrowArray batch = {
        .length = (int64_t)rows, .n_buffers = 1, .buffers = no_validity, .n_children = table->schema.n_children, .children = children};
    for (uint32_t i = 0; i < q->n_columns; i++)
        s->by_leaf[q->columns[i].source->leaf] = q->columns[i].source;
    for (uint32_t i = 0; i < q->n_columns; i++) {
        const uint32_t leaf = q->columns[i].source->leaf, node = column_of(table, leaf);
        fby__arrow_path path;
        fby__arrow_path_of(table->base.schema, leaf, &path);
        if (!children[path.child[0]])
            FBY__TRY(fby__ipc_array(s, node, q->row_begin, q->row_end, &children[path.child[0]], err));
    }
    const fby__arrow_batch in_memory = {.schema = &table->schema, .array = &batch, .first_row = q->row_begin};
    fby_status status = fby__arrow_panel(q, &in_memory, s->scratch, err);
    for (uint32_t i = 0; i < q->n_columns; i++)
        s->by_leaf[q->columns[i].source->leaf] = NULL;
    return as_read(status, s, err);
}

fby_status fby__ipc_decode_panel(const fby__decode *q, fby__scratch *scratch, fby_error *err)
{
    const fby__ipc_table *table = fby__ipc(q->table);
    if (q->n_columns == 0 || q->row_begin == q->row_end)
        return FBY_OK;
    for (uint32_t first = 0, n; first < q->n_columns; first += n) {
        fby__ipc_source s = {.table = table, .file_name = q->file_name, .group = q->group};
        fby__decode some = *q;
        n = q->panel->layout->kind == FBY__PANEL_DENSE ? fitting(q, first) : q->n_columns;
        some.columns += first;
        some.n_columns = n;
        FBY__TRY(begin(&s, scratch, err));
        struct ArrowArray **children = fby__ipc_space_alloc(s.space, (size_t)table->schema.n_children * sizeof(struct ArrowArray *));
        if (!children)
            return fby__fail_nomem(err, "decoding a record batch");
        memset((void *)children, 0, (size_t)table->schema.n_children * sizeof(struct ArrowArray *));
        FBY__TRY(decode_columns(&some, &s, children, err));
    }
    return FBY_OK;
}

/* ---- Arrow ---- */

/* What exported arrays are made of: they hold references to it. */
typedef struct held {
    fby__table base;
    fby__ipc_space space;
} held;

static void held_destroy(fby__table *base)
{
    held *h = (held *)base;
    fby__ipc_space_fini(&h->space);
    fby__free(h);
}

static const fby__format_ops HELD = {.name = "record batch", .destroy = held_destroy};

fby_status fby__ipc_decode_arrow(const fby__arrow_request *q, fby__scratch *scratch, struct ArrowArray *out, fby_error *err)
{
    const fby__ipc_table *table = fby__ipc(q->table);
    const fby__schema_node *node = &q->table->schema->nodes[q->field];
    const fby_field *field = &q->table->schema->fields[q->field];
    held *h = fby__calloc(1, sizeof *h);
    if (!h)
        return fby__fail_nomem(err, "an Arrow column");
    h->base.ops = &HELD;
    h->base.refs = 1;
    struct ArrowArray *array = NULL;
    fby__ipc_source s = {.table = table, .file_name = q->file_name, .group = q->group, .space = &h->space, .copies = true};
    fby_status status = begin(&s, scratch, err);
    for (uint32_t i = 0; status == FBY_OK && i < node->n_leaves; i++)
        s.by_leaf[node->first_leaf + i] = &q->sources[i];
    if (status == FBY_OK)
        status = fby__ipc_array(&s, column_of(table, node->first_leaf), q->row_begin, q->row_end, &array, err);
    if (status == FBY_OK) {
        status = fby__arrow_export(&h->base, field, table->schema.children[field - q->table->schema->fields[0].children], array, out, err);
        if (status != FBY_OK) {
            fby__error_context(err, "'%s', message %u at byte %llu: column '%.150s'", q->file_name, table->batches[q->group].number,
                               (unsigned long long)table->batches[q->group].at, field->path);
            status = as_read(status, &s, err);
        }
    }
    fby__table_unref(&h->base);
    return status;
}
