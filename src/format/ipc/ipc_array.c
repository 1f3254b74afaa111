/*
 * Bytes of a batch → arrays of the C data interface, as format/arrow decodes them: buffers where they were read, decompressed, or copied.
 *
 * Whatever a body says is checked here, for the elements that are asked for: that offsets of lists and strings rise and stay inside of what
 * they point to, and that views do. (Dictionary indices are checked where they are used.) Offsets are written anew, counted from the first
 * element that was asked for, since of what is below only those elements may have been read.
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "base/clock.h"
#include "format/arrow/memory_column.h"
#include "format/ipc/ipc.h"

#include <string.h>

/* A block is as large as those before it: an array of few rows, which keeps its space, takes little, and of a thousand columns there are as many. */
#define FIRST_BYTES ((size_t)512)
#define BLOCK_BYTES ((size_t)64 << 10)

/* ---- memory ---- */

typedef struct fby__ipc_block {
    struct fby__ipc_block *next;
    size_t used, bytes;
    uint8_t data[];
} fby__ipc_block;

static uint8_t *carve(fby__ipc_block *block, size_t n)
{
    const size_t at = block->used + (size_t)(-(uintptr_t)(block->data + block->used) & 63);
    if (at > block->bytes || n > block->bytes - at)
        return NULL;
    block->used = at + n;
    return block->data + at;
}

void *fby__ipc_space_alloc(fby__ipc_space *space, size_t n)
{
    uint8_t *p = space->blocks ? carve(space->blocks, n) : NULL;
    size_t bytes = (size_t)fby__max_u64(n, fby__min_u64(fby__max_u64(space->bytes, FIRST_BYTES), BLOCK_BYTES));
    bytes = bytes > space->next ? bytes : space->next;
    if (p || bytes > SIZE_MAX / 2)
        return p;
    fby__ipc_block *block = fby__malloc(sizeof *block + bytes + 64);
    if (!block)
        return NULL;
    *block = (fby__ipc_block){.next = space->blocks, .bytes = bytes + 64};
    space->blocks = block;
    space->bytes += bytes + 64;
    space->next = 0;
    return carve(block, n);
}

void fby__ipc_space_fini(fby__ipc_space *space)
{
    for (fby__ipc_block *block = space->blocks, *next; block; block = next) {
        next = block->next;
        fby__free(block);
    }
    *space = (fby__ipc_space){0};
}

void fby__ipc_space_reset(fby__ipc_space *space)
{
    const size_t bytes = space->bytes;
    if (space->blocks && space->blocks->next) {
        fby__ipc_space_fini(space);
        space->next = bytes;
    } else if (space->blocks) {
        space->blocks->used = 0;
    }
}

/* ---- buffers ---- */

/* What was read of a buffer. */
typedef struct stored {
    const uint8_t *data; /* never NULL */
    uint64_t n;
    uint64_t first;  /* element; of bytes: byte */
    bool is_scratch; /* lies in the space */
} stored;

/* An array under construction: of a node of a batch, or of a dictionary's batch. */
typedef struct building {
    const fby__ipc_source *s;
    const fby__ipc_batch *batch;
    const fby__arrow_format *format;
    const fby__ipc_length *length;
    const fby__ipc_buffer *buffers;
    uint32_t n_buffers;
    const fby__range *ranges; /* of the buffers; NULL: rows as stored */
    const char *column;
} building;

static const uint8_t NOTHING[64]; /* where there are no bytes */

static fby_status damaged(const building *b, fby_error *err, const char *what)
{
    return fby__ipc_damaged(b->s->file_name, b->batch->number, b->batch->at, err, "column '%.150s': %s", b->column, what);
}

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "decoding a record batch"); }

static fby_status decompress(const building *b, const fby__range *range, uint8_t *dst, uint64_t n, fby_error *err)
{
    FBY__TRY(fby__cancel_check(err));
    const uint64_t begin = fby__now_ns();
    fby_status status = fby__codec_decompress(&b->s->scratch->codec, (fby__codec_id)b->batch->codec,
                                              (fby__bytes){range->data + FBY__IPC_LENGTH_BYTES, (size_t)range->n - FBY__IPC_LENGTH_BYTES},
                                              dst, (size_t)n, err);
    b->s->scratch->decompress_ns += fby__now_ns() - begin;
    b->s->scratch->decompressed_bytes += n;
    if (status == FBY_E_FORMAT) {
        fby__error_context(err, "'%s', message %u at byte %llu: column '%.150s'", b->s->file_name, b->batch->number,
                           (unsigned long long)b->batch->at, b->column);
        if (err)
            err->file_offset = (int64_t)range->offset;
    }
    return status;
}

/* The bytes of compressed buffer k: where they were read when they are as they are, else in `into`, or in the space. */
static fby_status inflate(const building *b, uint32_t k, uint8_t *into, const uint8_t **out, bool *out_is_scratch, fby_error *err)
{
    const fby__range *range = &b->ranges[k];
    const uint64_t plain = b->buffers[k].plain;
    if (range->n < FBY__IPC_LENGTH_BYTES || !range->data)
        return damaged(b, err, "a buffer is too short");
    const int64_t says = (int64_t)fby__load_u64(range->data);
    if (says == -1) {
        if (range->n - FBY__IPC_LENGTH_BYTES < plain)
            return damaged(b, err, "a buffer is too short");
        *out = range->data + FBY__IPC_LENGTH_BYTES;
        *out_is_scratch = false;
        return FBY_OK;
    }
    /* Where the length follows from the rows, writers pad it to 64 bytes. */
    const bool fits = k > 1 ? says >= 0 && (uint64_t)says == plain : says >= 0 && (uint64_t)says >= plain && (uint64_t)says <= plain + 128;
    if (!fits)
        return damaged(b, err, "a compressed buffer does not hold as much as it should");
    uint8_t *dst = into && (uint64_t)says == plain ? into : fby__ipc_space_alloc(b->s->space, (size_t)says);
    if (!dst)
        return no_memory(err);
    *out = dst;
    *out_is_scratch = dst != into;
    return decompress(b, range, dst, (uint64_t)says, err);
}

/* The same through the store, for whoever needs it next. */
static fby_status inflate_shared(const building *b, uint32_t k, stored *out, fby_error *err)
{
    fby__shared_chunk *shared = b->ranges[k].shared;
    if (fby__shared_chunk_begin(shared)) {
        uint8_t *data = fby__shared_chunk_data(shared);
        const uint8_t *from = data;
        bool is_scratch;
        fby_status status = inflate(b, k, data, &from, &is_scratch, err);
        if (status == FBY_OK && from != data)
            memcpy(data, from, (size_t)b->buffers[k].plain);
        fby__shared_chunk_filled(shared, status == FBY_OK);
        FBY__TRY(status);
    }
    out->data = fby__shared_chunk_data(shared);
    return FBY_OK;
}

static fby_status get(const building *b, uint32_t k, stored *out, fby_error *err)
{
    const fby__range *range = &b->ranges[k];
    *out = (stored){.data = NOTHING, .first = range->tag};
    if (b->batch->codec == FBY__CODEC_NONE) {
        out->n = range->n;
        out->data = range->n ? range->data : NOTHING;
        return FBY_OK;
    }
    out->first = 0;
    if (b->buffers[k].plain == 0 || b->buffers[k].n == 0)
        return FBY_OK;
    out->n = b->buffers[k].plain;
    return range->shared ? inflate_shared(b, k, out, err) : inflate(b, k, NULL, &out->data, &out->is_scratch, err);
}

/* Elements [begin, end) of so many bits each of what was read; begin is at a byte. Copied, where what was read does not stay. */
static fby_status use(const building *b, const stored *p, uint64_t begin, uint64_t end, uint64_t bits, const void **out, fby_error *err)
{
    *out = NOTHING;
    if (begin >= end || bits == 0)
        return FBY_OK;
    if (begin < p->first || (end - p->first) > UINT64_MAX / bits || fby__div_up_u64((end - p->first) * bits, 8) > p->n)
        return damaged(b, err, "it refers to values that are not there");
    const uint64_t from = (begin - p->first) * bits / 8, to = fby__div_up_u64((end - p->first) * bits, 8);
    *out = p->data + from;
    if (!b->s->copies || p->is_scratch)
        return FBY_OK;
    uint8_t *copy = fby__ipc_space_alloc(b->s->space, (size_t)(to - from));
    if (!copy)
        return no_memory(err);
    memcpy(copy, p->data + from, (size_t)(to - from));
    *out = copy;
    return FBY_OK;
}

/* ---- arrays ---- */

static struct ArrowArray *new_array(const building *b, uint32_t n_children, fby_error *err)
{
    const size_t pointers = ((size_t)b->n_buffers + n_children) * sizeof(void *);
    struct ArrowArray *array = fby__ipc_space_alloc(b->s->space, sizeof *array + pointers);
    if (!array) {
        (void)no_memory(err);
        return NULL;
    }
    memset(array, 0, sizeof *array + pointers);
    array->n_buffers = b->n_buffers;
    array->buffers = (const void **)(array + 1);
    array->n_children = n_children;
    array->children = (struct ArrowArray **)(void *)(array->buffers + b->n_buffers);
    return array;
}

/* Offsets of elements [begin, end), counted from the first one, behind `lead` entries that nobody looks at; where they begin and end. */
static fby_status put_offsets(const building *b, const stored *p, bool wide, uint64_t begin, uint64_t end, uint64_t lead, uint64_t most,
                              const void **out, uint64_t *out_first, uint64_t *out_last, fby_error *err)
{
    const size_t width = wide ? 8 : 4;
    const uint64_t n = end - begin;
    size_t bytes;
    if (n > SIZE_MAX / 16 || !fby__mul_checked((size_t)(lead + n + 1), width, &bytes))
        return no_memory(err);
    uint8_t *to = fby__ipc_space_alloc(b->s->space, bytes);
    if (!to)
        return no_memory(err);
    *out = to;
    *out_first = *out_last = 0;
    memset(to, 0, (size_t)(lead + (n == 0)) * width);
    if (n == 0)
        return FBY_OK;
    if (begin < p->first || (end + 1 - p->first) > p->n / width)
        return damaged(b, err, "its offsets are not there");
    const uint8_t *from = p->data + (begin - p->first) * width;
    const uint64_t first = wide ? fby__load_u64(from) : fby__load_u32(from);
    uint64_t last = first;
    bool rises = true;
    to += lead * width;
    for (uint64_t i = 0; i <= n; i++) {
        const uint64_t at = wide ? fby__load_u64(from + 8 * i) : fby__load_u32(from + 4 * i);
        rises &= at >= last;
        last = at;
        if (wide)
            fby__store_u64(to + 8 * i, at - first);
        else
            fby__store_u32(to + 4 * i, (uint32_t)(at - first));
    }
    if (!rises || last > most)
        return damaged(b, err, "its offsets are not in order");
    *out_first = first;
    *out_last = last;
    return FBY_OK;
}

/* Does what views [begin, end) point to lie in their buffers? Those of nulls may hold anything. */
static fby_status check_views(const building *b, const struct ArrowArray *array, const uint64_t *sizes, fby_error *err)
{
    const uint8_t *views = array->buffers[1], *validity = array->buffers[0];
    for (uint64_t i = (uint64_t)array->offset; i < (uint64_t)array->offset + (uint64_t)array->length; i++) {
        const uint32_t n = fby__load_u32(views + 16 * i);
        if (n <= 12 || (validity && !fby__arrow_bit(validity, i)))
            continue;
        const uint32_t buffer = fby__load_u32(views + 16 * i + 8), at = fby__load_u32(views + 16 * i + 12);
        if (n > INT32_MAX || buffer >= b->n_buffers - 2 || at > sizes[buffer] || n > sizes[buffer] - at)
            return damaged(b, err, "a view points outside of its buffer");
    }
    return FBY_OK;
}

static fby_status put_views(const building *b, struct ArrowArray *array, uint64_t base, uint64_t end, fby_error *err)
{
    stored p;
    uint64_t *sizes = fby__ipc_space_alloc(b->s->space, (size_t)b->n_buffers * sizeof *sizes);
    if (!sizes)
        return no_memory(err);
    FBY__TRY(get(b, 1, &p, err));
    FBY__TRY(use(b, &p, base, end, 128, &array->buffers[1], err));
    for (uint32_t k = 2; k < b->n_buffers; k++) {
        FBY__TRY(get(b, k, &p, err));
        sizes[k - 2] = p.n;
        FBY__TRY(use(b, &p, 0, p.n, 8, &array->buffers[k], err));
    }
    return check_views(b, array, sizes, err);
}

/* The buffers of elements [begin, end), from `base` on; of what is below: *below_begin, *below_end. */
static fby_status put_buffers(const building *b, struct ArrowArray *array, uint64_t base, uint64_t begin, uint64_t end, uint64_t most_below,
                              uint64_t *below_begin, uint64_t *below_end, fby_error *err)
{
    const fby__arrow_format *format = b->format;
    const bool wide = format->storage == FBY__ARROW_LIST64 || format->storage == FBY__ARROW_VAR64;
    stored p;
    if (b->n_buffers > 0 && b->length->nulls) {
        FBY__TRY(get(b, 0, &p, err));
        FBY__TRY(use(b, &p, base, end, 1, &array->buffers[0], err));
        array->null_count = -1; /* of these elements it is not known */
    }
    switch (format->storage) {
    case FBY__ARROW_BITS:
    case FBY__ARROW_FIXED:
        FBY__TRY(get(b, 1, &p, err));
        return use(b, &p, base, end, format->storage == FBY__ARROW_BITS ? 1 : 8 * (uint64_t)format->width, &array->buffers[1], err);
    case FBY__ARROW_VIEW: return put_views(b, array, base, end, err);
    case FBY__ARROW_LIST32:
    case FBY__ARROW_LIST64:
        FBY__TRY(get(b, 1, &p, err));
        return put_offsets(b, &p, wide, begin, end, begin - base, most_below, &array->buffers[1], below_begin, below_end, err);
    case FBY__ARROW_VAR32:
    case FBY__ARROW_VAR64:
        FBY__TRY(get(b, 1, &p, err));
        FBY__TRY(put_offsets(b, &p, wide, begin, end, begin - base, b->buffers[2].plain, &array->buffers[1], below_begin, below_end, err));
        FBY__TRY(get(b, 2, &p, err));
        return use(b, &p, *below_begin, *below_end, 8, &array->buffers[2], err);
    case FBY__ARROW_FIXED_LIST:
        *below_begin = base * (uint64_t)format->field.list_size;
        *below_end = end * (uint64_t)format->field.list_size;
        return FBY_OK;
    default:
        *below_begin = base;
        *below_end = end;
        return FBY_OK;
    }
}

/* ---- dictionaries ---- */

/* Bits, or values of so many bytes, of several arrays one behind the other. */
static const void *join_bits(const building *b, struct ArrowArray *const *arrays, uint32_t n, int k, uint64_t total)
{
    uint8_t *bits = fby__ipc_space_alloc(b->s->space, (size_t)(total / 8 + 1));
    uint64_t to = 0;
    if (!bits)
        return NULL;
    memset(bits, 0, (size_t)(total / 8 + 1));
    for (uint32_t i = 0; i < n; i++)
        for (int64_t e = 0; e < arrays[i]->length; e++, to++)
            bits[to / 8] |= (uint8_t)(fby__arrow_bit(arrays[i]->buffers[k], (uint64_t)e) << (to % 8));
    return bits;
}

static const void *join_fixed(const building *b, struct ArrowArray *const *arrays, uint32_t n, uint64_t width, uint64_t total)
{
    uint8_t *values = fby__ipc_space_alloc(b->s->space, (size_t)(total * width));
    uint64_t at = 0;
    for (uint32_t i = 0; values && i < n; at += (uint64_t)arrays[i]->length, i++)
        memcpy(values + at * width, arrays[i]->buffers[1], (size_t)((uint64_t)arrays[i]->length * width));
    return values;
}

static fby_status join_strings(const building *b, struct ArrowArray *const *arrays, uint32_t n, uint64_t total, struct ArrowArray *out,
                               fby_error *err)
{
    const bool wide = b->format->storage == FBY__ARROW_VAR64;
    uint64_t bytes = 0, at = 0, row = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += fby__arrow_offset(arrays[i], wide, (uint64_t)arrays[i]->length);
    if (!wide && bytes > INT32_MAX)
        return fby__fail(err, FBY_E_UNSUPPORTED, "'%s': column '%.150s': a dictionary of more than 2 GiB in parts", b->s->file_name,
                         b->column);
    uint8_t *offsets = fby__ipc_space_alloc(b->s->space, (size_t)(total + 1) * (wide ? 8 : 4));
    uint8_t *text = fby__ipc_space_alloc(b->s->space, (size_t)bytes);
    if (!offsets || !text)
        return no_memory(err);
    memset(offsets, 0, wide ? 8 : 4);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t length = (uint64_t)arrays[i]->length, size = fby__arrow_offset(arrays[i], wide, length);
        for (uint64_t e = 0; e <= length; e++) {
            const uint64_t offset = at + fby__arrow_offset(arrays[i], wide, e);
            if (wide)
                fby__store_u64(offsets + 8 * (row + e), offset);
            else
                fby__store_u32(offsets + 4 * (row + e), (uint32_t)offset);
        }
        memcpy(text + at, arrays[i]->buffers[2], (size_t)size);
        row += length;
        at += size;
    }
    out->buffers[1] = offsets;
    out->buffers[2] = text;
    return FBY_OK;
}

/* `out` has room for all the buffers. */
static fby_status join_views(const building *b, struct ArrowArray *const *arrays, uint32_t n, uint64_t total, struct ArrowArray *out,
                             fby_error *err)
{
    uint8_t *views = fby__ipc_space_alloc(b->s->space, (size_t)(total * 16));
    uint32_t before = 0;
    if (!views)
        return no_memory(err);
    out->buffers[1] = views;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t length = (uint64_t)arrays[i]->length;
        memcpy(views, arrays[i]->buffers[1], (size_t)(16 * length));
        for (uint64_t e = 0; e < length; e++, views += 16)
            if (fby__load_u32(views) > 12)
                fby__store_u32(views + 8, fby__load_u32(views + 8) + before);
        for (int64_t k = 2; k < arrays[i]->n_buffers; k++)
            out->buffers[2 + before++] = arrays[i]->buffers[k];
    }
    return FBY_OK;
}

/* Batches of a dictionary, the oldest one first, as one array. */
static fby_status join(building *b, struct ArrowArray *const *arrays, uint32_t n, struct ArrowArray **out, fby_error *err)
{
    uint64_t total = 0;
    bool nulls = false;
    b->n_buffers = fby__arrow_fixed_buffers(b->format->storage);
    for (uint32_t i = 0; i < n; i++) {
        total += (uint64_t)arrays[i]->length;
        nulls |= arrays[i]->null_count != 0;
        b->n_buffers += arrays[i]->n_buffers > 2 && b->format->storage == FBY__ARROW_VIEW ? (uint32_t)arrays[i]->n_buffers - 2 : 0;
    }
    struct ArrowArray *array = *out = new_array(b, 0, err);
    if (!array)
        return FBY_E_NOMEM;
    array->length = (int64_t)total;
    if (total > SIZE_MAX / 32)
        return no_memory(err);
    if (nulls) {
        array->null_count = -1;
        if (!(array->buffers[0] = join_bits(b, arrays, n, 0, total)))
            return no_memory(err);
    }
    switch (b->format->storage) {
    case FBY__ARROW_NULL: return FBY_OK;
    case FBY__ARROW_VAR32:
    case FBY__ARROW_VAR64: return join_strings(b, arrays, n, total, array, err);
    case FBY__ARROW_VIEW: return join_views(b, arrays, n, total, array, err);
    case FBY__ARROW_BITS: array->buffers[1] = join_bits(b, arrays, n, 1, total); break;
    default: array->buffers[1] = join_fixed(b, arrays, n, b->format->width, total); break;
    }
    return array->buffers[1] ? FBY_OK : no_memory(err);
}

/* The dictionary of a node in its group; `ranges` of its batches, the newest one first. */
static fby_status dictionary_of(const building *of, uint32_t number, const fby__range *ranges, struct ArrowArray **out, fby_error *err)
{
    const fby__ipc_source *s = of->s;
    const fby__ipc_table *table = s->table;
    const fby__ipc_dictionary *dictionary = &table->dictionaries[number];
    const uint32_t newest = table->last[((size_t)s->group + 1) * table->n_dictionaries + number];
    uint32_t n = 0;
    building b = {.s = s, .batch = of->batch, .format = &dictionary->format, .column = of->column};
    for (uint32_t i = newest; i != FBY__IPC_NONE; i = table->dictionary_batches[i].before)
        n++;
    struct ArrowArray **arrays = fby__ipc_space_alloc(s->space, (n ? n : 1) * sizeof(struct ArrowArray *));
    if (!arrays)
        return no_memory(err);
    for (uint32_t i = newest, k = n; i != FBY__IPC_NONE; i = table->dictionary_batches[i].before) {
        uint64_t first = 0, last = 0;
        b.batch = &table->dictionary_batches[i];
        b.length = fby__ipc_length_of(table, b.batch, 0);
        b.buffers = fby__ipc_buffers(table, b.batch, 0, &b.n_buffers);
        b.ranges = ranges;
        struct ArrowArray *array = arrays[--k] = new_array(&b, 0, err);
        if (!array)
            return FBY_E_NOMEM;
        array->length = (int64_t)b.length->n;
        FBY__TRY(put_buffers(&b, array, 0, 0, b.length->n, 0, &first, &last, err));
        ranges += b.n_buffers;
    }
    if (n != 1)
        return join(&b, arrays, n, out, err);
    *out = arrays[0];
    return FBY_OK;
}

/* ---- nodes ---- */

/* The first leaf below a node that is wanted; NULL: none is. */
static const fby__leaf_source *wanted_below(const fby__ipc_source *s, const fby__ipc_node *node)
{
    for (uint32_t i = node->first_leaf; i < node->first_leaf + node->n_leaves; i++)
        if (s->by_leaf[i])
            return s->by_leaf[i];
    return NULL;
}

/* A leaf whose rows were read as they are stored. */
static fby_status use_rows(const building *b, const fby__leaf_source *source, struct ArrowArray *array, uint64_t begin, uint64_t end,
                           fby_error *err)
{
    const uint64_t width = b->format->width, per_row = source->n_rows ? source->range[1].n / width / source->n_rows : 0;
    const stored p = {
        .data = source->range[1].n ? source->range[1].data : NOTHING, .n = source->range[1].n, .first = source->first_row * per_row};
    return use(b, &p, begin, end, 8 * width, &array->buffers[1], err);
}

/* `above`: ranges of the nodes above this one. */
static fby_status build(const fby__ipc_source *s, uint32_t number, size_t above, uint64_t begin, uint64_t end, struct ArrowArray **out,
                        fby_error *err)
{
    const fby__ipc_table *table = s->table;
    const fby__ipc_node *node = &table->nodes[number];
    const fby__ipc_batch *batch = &table->batches[s->group];
    const fby__leaf_source *source = wanted_below(s, node);
    const bool is_list = node->format.storage == FBY__ARROW_LIST32 || node->format.storage == FBY__ARROW_LIST64;
    building b = {.s = s,
                  .batch = batch,
                  .format = &node->format,
                  .length = fby__ipc_length_of(table, batch, number),
                  .ranges = source->rows_as_stored || !source->chunks ? NULL : source->chunks + above, /* arrays of nulls have no buffer */
                  .column = table->base.schema->fields[table->base.schema->leaves[source->leaf].field].path};
    b.buffers = fby__ipc_buffers(table, batch, number, &b.n_buffers);
    if (begin > end || end > b.length->n)
        return damaged(&b, err, "it refers to values that are not there");
    struct ArrowArray *array = *out = new_array(&b, (uint32_t)node->schema->n_children, err);
    if (!array)
        return FBY_E_NOMEM;
    const uint64_t base = fby__ipc_base(node, b.length, begin);
    uint64_t below_begin = 0, below_end = 0;
    array->offset = (int64_t)(begin - base);
    array->length = (int64_t)(end - begin);
    if (source->rows_as_stored && node->n_below == 1)
        return use_rows(&b, source, array, begin, end, err);
    FBY__TRY(put_buffers(&b, array, base, begin, end, is_list ? fby__ipc_length_of(table, batch, number + 1)->n : 0, &below_begin,
                         &below_end, err));
    if (node->dictionary != FBY__IPC_NONE)
        return dictionary_of(&b, node->dictionary, b.ranges + b.n_buffers, &array->dictionary, err);
    for (uint32_t i = number + 1, c = 0; i < number + node->n_below; i += table->nodes[i].n_below, c++)
        if (wanted_below(s, &table->nodes[i]))
            FBY__TRY(build(s, i, above + b.n_buffers, below_begin, below_end, &array->children[c], err));
    return FBY_OK;
}

fby_status fby__ipc_array(const fby__ipc_source *s, uint32_t node, uint64_t begin, uint64_t end, struct ArrowArray **out, fby_error *err)
{
    return build(s, node, 0, begin, end, out, err);
}
