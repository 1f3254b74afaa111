/*
 * Do two data sets have the same rows, in whatever order? Each row is hashed, and the hashes are added up, as numbers of 128 bits: a sum that
 * no order changes, and that no missing, doubled or changed row leaves as it was.
 *
 * A row is hashed as a text of its values that is the same wherever they lay: nulls are told apart from values, lists and strings say how long
 * they are; values under a null are not looked at. Times are seconds and nanoseconds, since a format that lacks a unit stores them in another.
 */
#include "base/cancel.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <string.h>

/* A node of a block, its format parsed once. */
typedef struct node {
    fby__arrow_format format;
    const struct ArrowArray *array;
    const uint8_t *validity;
    int64_t per_second; /* of times and timestamps, the unit; else 0 */
    uint32_t n_children;
    const struct node *children; /* those behind it in the list */
} node;

typedef struct node_list {
    node *nodes; /* owned */
    size_t n, cap;
} node_list;

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "the hash of rows"); }

static bool bit(const uint8_t *bits, uint64_t i) { return bits[i / 8] >> i % 8 & 1; }

static uint64_t count_nodes(const struct ArrowSchema *schema)
{
    uint64_t n = 1;
    for (int64_t i = 0; i < schema->n_children; i++)
        n += count_nodes(schema->children[i]);
    return n;
}

static int64_t per_second(const fby_field *field)
{
    static const int64_t units[] = {[FBY_UNIT_S] = 1, [FBY_UNIT_MS] = 1000, [FBY_UNIT_US] = 1000000, [FBY_UNIT_NS] = 1000000000};
    return field->kind == FBY_KIND_TIME || field->kind == FBY_KIND_TIMESTAMP ? units[field->unit] : 0;
}

/* Children of one node follow one another; the list has room for all. */
static fby_status list_nodes(const struct ArrowSchema *schema, const struct ArrowArray *array, node *at, node_list *list, fby_error *err)
{
    FBY__TRY(fby__arrow_format_parse(schema->format, &at->format, err));
    at->array = array;
    at->validity = at->format.storage != FBY__ARROW_NULL && array->null_count != 0 && array->n_buffers > 0 ? array->buffers[0] : NULL;
    at->per_second = per_second(&at->format.field);
    at->n_children = (uint32_t)schema->n_children;
    node *children = &list->nodes[list->n];
    at->children = children;
    list->n += at->n_children;
    for (uint32_t i = 0; i < at->n_children; i++)
        FBY__TRY(list_nodes(schema->children[i], array->children[i], &children[i], list, err));
    return FBY_OK;
}

static int put_u64(fby__buf *b, uint64_t v) { return fby__buf_put(b, &v, sizeof v); }

static int put_time(fby__buf *b, const node *n, uint64_t i)
{
    const void *values = n->array->buffers[1];
    const int64_t v = n->format.width == 4 ? ((const int32_t *)values)[i] : ((const int64_t *)values)[i];
    int64_t seconds = v / n->per_second, rest = v % n->per_second;
    if (rest < 0) {
        seconds--;
        rest += n->per_second;
    }
    return put_u64(b, (uint64_t)seconds) | put_u64(b, (uint64_t)(rest * (1000000000 / n->per_second)));
}

static int put_value(fby__buf *b, const node *n, uint64_t row);

static int put_elements(fby__buf *b, const node *n, uint64_t first, uint64_t count)
{
    int failed = 0;
    for (uint64_t i = 0; !failed && i < count; i++)
        failed = put_value(b, &n->children[0], first + i);
    return failed;
}

static int put_value(fby__buf *b, const node *n, uint64_t row)
{
    const struct ArrowArray *a = n->array;
    const uint64_t i = row + (uint64_t)a->offset;
    if (n->format.storage == FBY__ARROW_NULL || (n->validity && !bit(n->validity, i)))
        return fby__buf_put(b, "\0", 1);
    uint8_t there = 1;
    if (fby__buf_put(b, &there, 1) != 0)
        return -1;
    uint64_t first = 0, count = 0;
    switch (n->format.storage) {
    case FBY__ARROW_BITS: there = bit(a->buffers[1], i); return fby__buf_put(b, &there, 1);
    case FBY__ARROW_FIXED:
        if (n->per_second)
            return put_time(b, n, i);
        return fby__buf_put(b, (const uint8_t *)a->buffers[1] + i * n->format.width, n->format.width);
    case FBY__ARROW_VAR32:
    case FBY__ARROW_LIST32:
        first = (uint64_t)((const int32_t *)a->buffers[1])[i];
        count = (uint64_t)((const int32_t *)a->buffers[1])[i + 1] - first;
        break;
    case FBY__ARROW_VAR64:
    case FBY__ARROW_LIST64:
        first = (uint64_t)((const int64_t *)a->buffers[1])[i];
        count = (uint64_t)((const int64_t *)a->buffers[1])[i + 1] - first;
        break;
    case FBY__ARROW_FIXED_LIST:
        count = (uint64_t)n->format.field.list_size;
        first = i * count;
        break;
    default:
        for (uint32_t c = 0; c < n->n_children; c++)
            if (put_value(b, &n->children[c], i) != 0)
                return -1;
        return 0;
    }
    if (put_u64(b, count) != 0)
        return -1;
    if (n->format.storage == FBY__ARROW_VAR32 || n->format.storage == FBY__ARROW_VAR64)
        return count ? fby__buf_put(b, (const uint8_t *)a->buffers[2] + first, (size_t)count) : 0;
    return put_elements(b, n, first, count);
}

static fby_status add_block(const struct ArrowSchema *schema, const struct ArrowArray *array, fby__hash128 *sum, fby_error *err)
{
    node root;
    fby__buf row = {0};
    node_list list = {.cap = (size_t)count_nodes(schema)};
    list.nodes = fby__calloc(list.cap, sizeof *list.nodes);
    fby_status status = list.nodes ? list_nodes(schema, array, &root, &list, err) : no_memory(err);
    root.validity = NULL;
    for (uint64_t i = 0; status == FBY_OK && i < (uint64_t)array->length; i++) {
        row.n = 0;
        if (put_value(&row, &root, i) != 0)
            status = no_memory(err);
        const fby__hash128 h = fby__hash(row.data, row.n);
        sum->hi += h.hi + __builtin_add_overflow(sum->lo, h.lo, &sum->lo);
    }
    fby__buf_fini(&row);
    fby__free(list.nodes);
    return status;
}

/* ---- data sets ---- */

/* Of all blocks of the reader, which is closed. */
static fby_status sum_rows(fby__pack *p, fby__pack_reader *reader, uint32_t n_blocks, fby__hash128 *out, fby_error *err)
{
    fby_status status = FBY_OK;
    for (uint32_t b = 0; status == FBY_OK && b < n_blocks; b++) {
        struct ArrowArray array;
        status = fby__cancel_check(err);
        if (status == FBY_OK)
            status = fby__pack_reader_block(reader, b, &array, err);
        if (status != FBY_OK)
            break;
        status = add_block(fby__pack_reader_schema(reader), &array, out, err);
        atomic_fetch_add_explicit(&p->done, (uint64_t)array.length, memory_order_relaxed);
        array.release(&array);
        if (status == FBY_OK)
            status = fby__pack_tick(p, err);
    }
    fby__pack_reader_close(reader);
    return status;
}

/* Nothing else holds memory by now. */
static fby_status sum_source(fby__pack *p, fby__hash128 *out, fby_error *err)
{
    fby__pack_reader *reader;
    if (p->rows == 0)
        return FBY_OK;
    FBY__TRY(fby__pack_reader_open(p, p->memory_bytes, &reader, err));
    return sum_rows(p, reader, fby__pack_block_count(p), out, err);
}

static fby_status sum_pack(fby__pack *p, fby_dataset *packed, fby__hash128 *out, fby_error *err)
{
    fby__pack_reader *reader;
    if (fby_dataset_rows(packed) == 0)
        return FBY_OK;
    FBY__TRY(fby__pack_reader_open_rows(packed, p->memory_bytes, &reader, err));
    return sum_rows(p, reader, fby__dataset_block_count(packed), out, err);
}

/* The files of the pack, wherever they are by now. */
static fby_status open_pack(const fby__pack *p, fby_dataset **out, fby_error *err)
{
    const fby_open_opts opts = {.size = sizeof opts, .cache_dir = ""};
    fby_source *sources = fby__calloc((size_t)p->n_files, sizeof *sources);
    fby_status status = sources ? FBY_OK : no_memory(err);
    for (uint64_t i = 0; status == FBY_OK && i < p->n_files; i++)
        if (!(sources[i].path = fby__pack_file_path(p, i)))
            status = no_memory(err);
    if (status == FBY_OK)
        status = fby_dataset_open(sources, (size_t)p->n_files, &opts, out, err);
    for (uint64_t i = 0; sources && i < p->n_files; i++)
        fby__free((char *)(uintptr_t)sources[i].path); /* ours */
    fby__free(sources);
    return status;
}

fby_status fby__pack_verify(fby__pack *p, char text[33], fby_error *err)
{
    fby_dataset *packed = NULL;
    fby__hash128 of_source = {0, 0}, of_pack = {0, 0};
    FBY__TRY(sum_source(p, &of_source, err));
    fby_status status = open_pack(p, &packed, err);
    if (status == FBY_OK)
        status = sum_pack(p, packed, &of_pack, err);
    if (status == FBY_OK && (fby_dataset_rows(packed) != p->rows || !fby__hash_equal(of_source, of_pack)))
        status =
            fby__fail(err, FBY_E_DATA,
                      "'%s' does not hold the rows of its source: %llu of %llu rows, and their hashes differ. Disk, memory or this program "
                      "is at fault: remove it, and pack again",
                      p->work, (unsigned long long)fby_dataset_rows(packed), (unsigned long long)p->rows);
    fby_dataset_close(packed);
    fby__hash_text(of_pack, text);
    return status;
}
