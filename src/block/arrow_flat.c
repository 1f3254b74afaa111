/* Arrow arrays as a list of buffers: see arrow_flat.h. */
#include "block/arrow_flat.h"

#include "base/checked.h"
#include "base/error.h"
#include "block/arrow.h"

/* ---- bits ---- */

uint64_t fby__bits_count(const uint8_t *bits, uint64_t begin, uint64_t n)
{
    uint64_t sum = 0, i = begin, end = begin + n;
    for (; i < end && i % 8; i++)
        sum += fby__bit(bits, i);
    for (; i + 64 <= end; i += 64)
        sum += (uint64_t)__builtin_popcountll(fby__load_u64(bits + i / 8));
    for (; i < end; i++)
        sum += fby__bit(bits, i);
    return sum;
}

void fby__bits_copy(const uint8_t *bits, uint64_t begin, uint64_t n, uint8_t *out, uint64_t out_begin)
{
    uint64_t i = 0;
    if (out_begin % 8 == 0) {
        const unsigned shift = begin % 8;
        const uint8_t *from = bits + begin / 8;
        uint8_t *to = out + out_begin / 8;
        for (; i + 8 <= n; i += 8)
            to[i / 8] = (uint8_t)(shift ? from[i / 8] >> shift | from[i / 8 + 1] << (8 - shift) : from[i / 8]);
        if (i < n)
            to[i / 8] = 0;
    }
    for (; i < n; i++) {
        const uint64_t a = begin + i, b = out_begin + i;
        out[b / 8] = (uint8_t)(out[b / 8] | fby__bit(bits, a) << b % 8);
    }
}

/* ---- types ---- */

static fby_status check_node(const struct ArrowSchema *schema, const char *column, fby_error *err)
{
    fby__arrow_format format;
    if (schema->dictionary)
        return fby__fail(err, FBY_E_UNSUPPORTED, "column '%s': dictionaries are not written", column);
    fby_status status = fby__arrow_format_parse(schema->format, &format, err);
    if (status == FBY_OK && format.storage == FBY__ARROW_VIEW)
        status = fby__fail(err, FBY_E_UNSUPPORTED, "views ('%s') are not written", schema->format);
    if (status != FBY_OK)
        fby__error_context(err, "column '%s'", column);
    for (int64_t i = 0; status == FBY_OK && i < schema->n_children; i++)
        status = check_node(schema->children[i], column, err);
    return status;
}

fby_status fby__arrow_flat_check(const struct ArrowSchema *schema, fby_error *err)
{
    for (int64_t i = 0; i < schema->n_children; i++)
        FBY__TRY(check_node(schema->children[i], schema->children[i]->name ? schema->children[i]->name : "", err));
    return FBY_OK;
}

/* ---- there ---- */

static int add_buffer(fby__arrow_flat *f, const void *p, uint64_t n)
{
    if (fby__grow((void **)&f->buffers, &f->cap_buffers, f->n_buffers + 1, sizeof *f->buffers) != 0)
        return -1;
    f->buffers[f->n_buffers++] = (fby__bytes){p, (size_t)n};
    return 0;
}

/* n bits from `begin` on, as they lie where they begin with a byte. Bits behind the last are whatever the array has there: not of ours. */
static int add_bits(fby__arrow_flat *f, const uint8_t *bits, uint64_t begin, uint64_t n)
{
    const uint64_t bytes = (n + 7) / 8;
    if (bytes == 0)
        return add_buffer(f, NULL, 0);
    if (begin % 8 == 0 && (n % 8 == 0 || bits[(begin + n) / 8] >> (begin + n) % 8 == 0))
        return add_buffer(f, bits + begin / 8, bytes);
    uint8_t *made = fby__arena_alloc(&f->made, (size_t)bytes);
    if (!made)
        return -1;
    fby__bits_copy(bits, begin, n, made, 0);
    return add_buffer(f, made, bytes);
}

/* n + 1 offsets from `begin` on, counted from the first; where they begin and end. */
static int add_offsets(fby__arrow_flat *f, const void *offsets, unsigned width, uint64_t begin, uint64_t n, uint64_t *out_first,
                       uint64_t *out_count)
{
    *out_first = *out_count = 0;
    if (n == 0) {
        static const uint64_t none = 0;
        return add_buffer(f, &none, width);
    }
    if (width == 4) {
        const int32_t *from = (const int32_t *)offsets + begin;
        *out_first = (uint64_t)from[0];
        *out_count = (uint64_t)(from[n] - from[0]);
        if (from[0] == 0)
            return add_buffer(f, from, (n + 1) * 4);
        int32_t *made = fby__arena_alloc(&f->made, (size_t)(n + 1) * 4);
        for (uint64_t i = 0; made && i <= n; i++)
            made[i] = from[i] - from[0];
        return made ? add_buffer(f, made, (n + 1) * 4) : -1;
    }
    const int64_t *from = (const int64_t *)offsets + begin;
    *out_first = (uint64_t)from[0];
    *out_count = (uint64_t)(from[n] - from[0]);
    if (from[0] == 0)
        return add_buffer(f, from, (n + 1) * 8);
    int64_t *made = fby__arena_alloc(&f->made, (size_t)(n + 1) * 8);
    for (uint64_t i = 0; made && i <= n; i++)
        made[i] = from[i] - from[0];
    return made ? add_buffer(f, made, (n + 1) * 8) : -1;
}

/* Rows [begin, begin + n) as the array's own numbers have them, its offset not counted. */
static int flatten(fby__arrow_flat *f, const struct ArrowSchema *schema, const struct ArrowArray *array, uint64_t begin, uint64_t n,
                   bool is_batch)
{
    fby__arrow_format format;
    if (fby__arrow_format_parse(schema->format, &format, NULL) != FBY_OK)
        return -1;
    const uint64_t at = begin + (uint64_t)array->offset;
    const uint8_t *validity = array->n_buffers > 0 && format.storage != FBY__ARROW_NULL ? array->buffers[0] : NULL;
    if (!is_batch) {
        uint64_t nulls = format.storage == FBY__ARROW_NULL ? n : 0;
        if (validity && array->null_count != 0)
            nulls = n - fby__bits_count(validity, at, n);
        if (fby__grow((void **)&f->nodes, &f->cap_nodes, f->n_nodes + 1, sizeof *f->nodes) != 0)
            return -1;
        f->nodes[f->n_nodes++] = (fby__arrow_flat_node){n, nulls};
        if (format.storage != FBY__ARROW_NULL && (nulls ? add_bits(f, validity, at, n) : add_buffer(f, NULL, 0)) != 0)
            return -1;
    }
    uint64_t first = at, count = n;
    switch (format.storage) {
    case FBY__ARROW_NULL: break;
    case FBY__ARROW_BITS: return add_bits(f, array->buffers[1], at, n);
    case FBY__ARROW_FIXED: return add_buffer(f, n ? (const uint8_t *)array->buffers[1] + at * format.width : NULL, n * format.width);
    case FBY__ARROW_VAR32:
    case FBY__ARROW_VAR64:
        if (add_offsets(f, array->buffers[1], format.storage == FBY__ARROW_VAR32 ? 4 : 8, at, n, &first, &count) != 0)
            return -1;
        return add_buffer(f, count ? (const uint8_t *)array->buffers[2] + first : NULL, count);
    case FBY__ARROW_LIST32:
    case FBY__ARROW_LIST64:
        if (add_offsets(f, array->buffers[1], format.storage == FBY__ARROW_LIST32 ? 4 : 8, at, n, &first, &count) != 0)
            return -1;
        break;
    case FBY__ARROW_FIXED_LIST:
        first = at * (uint64_t)format.field.list_size;
        count = n * (uint64_t)format.field.list_size;
        break;
    case FBY__ARROW_STRUCT: break;
    case FBY__ARROW_VIEW: return -1; /* fby__arrow_flat_check refused it */
    }
    for (int64_t i = 0; i < schema->n_children; i++)
        if (flatten(f, schema->children[i], array->children[i], first, count, false) != 0)
            return -1;
    return 0;
}

fby_status fby__arrow_flat_of(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t begin, int64_t n, bool is_batch,
                              fby__arrow_flat *out, fby_error *err)
{
    out->n_nodes = out->n_buffers = 0;
    fby__arena_fini(&out->made);
    return flatten(out, schema, array, (uint64_t)begin, (uint64_t)n, is_batch) == 0 ? FBY_OK : fby__fail_nomem(err, "a record batch");
}

uint64_t fby__arrow_flat_bytes(const fby__arrow_flat *flat)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < flat->n_buffers; i++)
        sum += flat->buffers[i].n;
    return sum;
}

void fby__arrow_flat_fini(fby__arrow_flat *flat)
{
    fby__free(flat->nodes);
    fby__free(flat->buffers);
    fby__arena_fini(&flat->made);
    *flat = (fby__arrow_flat){0};
}

/* ---- and back ---- */

static void borrowed_release(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i]->release)
            array->children[i]->release(array->children[i]);
        fby__free(array->children[i]);
    }
    fby__free(array->buffers);
    fby__free(array->children);
    *array = (struct ArrowArray){0};
}

/* What is left of the lists. */
typedef struct reading {
    const fby__arrow_flat_node *node, *last_node;
    const fby__bytes *buffer, *last_buffer;
    fby_error *err;
} reading;

static fby_status fail_shape(fby_error *err) { return fby__fail(err, FBY_E_FORMAT, "a record batch's buffers do not fit its columns"); }

/* Are n + 1 offsets as flatten() writes them: from 0 on, in order? Then *out_last is what they lead to. */
static bool offsets_hold(const fby__bytes *offsets, bool wide, uint64_t n, uint64_t *out_last)
{
    const uint64_t width = wide ? 8 : 4;
    int64_t last = 0;
    if (offsets->n / width != n + 1 || offsets->n % width)
        return false;
    for (uint64_t i = 0; i <= n; i++) {
        const int64_t at = wide ? ((const int64_t *)(const void *)offsets->data)[i] : ((const int32_t *)(const void *)offsets->data)[i];
        if (at < last || (i == 0 && at != 0))
            return false;
        last = at;
    }
    *out_last = (uint64_t)last;
    return true;
}

/* Does a node of n elements have the buffers that flatten() gives it? *out_below: how many elements each of its children has. */
static bool buffers_fit(const fby__arrow_format *format, const fby__bytes *buffers, uint64_t n, uint64_t nulls, uint64_t *out_below)
{
    const bool wide = format->storage == FBY__ARROW_VAR64 || format->storage == FBY__ARROW_LIST64;
    *out_below = n;
    if (format->storage == FBY__ARROW_NULL)
        return nulls == n;
    if (n > INT64_MAX - 7 || nulls > n || buffers[0].n != (nulls ? (n + 7) / 8 : 0))
        return false;
    switch (format->storage) {
    case FBY__ARROW_BITS: return buffers[1].n == (n + 7) / 8;
    case FBY__ARROW_FIXED:
        return format->width ? buffers[1].n / format->width == n && buffers[1].n % format->width == 0 : buffers[1].n == 0;
    case FBY__ARROW_VAR32:
    case FBY__ARROW_VAR64: return offsets_hold(&buffers[1], wide, n, out_below) && buffers[2].n == *out_below;
    case FBY__ARROW_LIST32:
    case FBY__ARROW_LIST64: return offsets_hold(&buffers[1], wide, n, out_below);
    case FBY__ARROW_FIXED_LIST: return fby__mul_u64_checked(n, (uint64_t)format->field.list_size, out_below);
    default: return format->storage == FBY__ARROW_STRUCT;
    }
}

/* n elements; the batch itself has no node. */
static fby_status read_node(reading *r, const struct ArrowSchema *schema, uint64_t n, bool is_batch, struct ArrowArray *out)
{
    fby__arrow_format format;
    uint64_t below = n;
    FBY__TRY(fby__arrow_format_parse(schema->format, &format, r->err));
    const uint32_t n_buffers = fby__arrow_fixed_buffers(format.storage);
    FBY__TRY(fby__arrow_array_create(n_buffers, schema->n_children, out, r->err));
    out->release = borrowed_release;
    out->length = (int64_t)n;
    if (!is_batch) {
        if (r->node == r->last_node || r->node->n != n || (size_t)(r->last_buffer - r->buffer) < n_buffers ||
            !buffers_fit(&format, r->buffer, n, r->node->nulls, &below))
            return fail_shape(r->err);
        out->null_count = (int64_t)r->node->nulls;
        r->node++;
        for (uint32_t i = 0; i < n_buffers; i++, r->buffer++)
            out->buffers[i] = i == 0 && out->null_count == 0 ? NULL : r->buffer->data;
    }
    for (int64_t i = 0; i < schema->n_children; i++)
        FBY__TRY(read_node(r, schema->children[i], below, false, out->children[i]));
    return FBY_OK;
}

fby_status fby__arrow_flat_batch(const struct ArrowSchema *schema, uint64_t rows, const fby__arrow_flat_node *nodes, size_t n_nodes,
                                 const fby__bytes *buffers, size_t n_buffers, struct ArrowArray *out, fby_error *err)
{
    reading r = {nodes, nodes + n_nodes, buffers, buffers + n_buffers, err};
    struct ArrowArray array = {0};
    fby_status status = read_node(&r, schema, rows, true, &array);
    if (status == FBY_OK && (r.node != r.last_node || r.buffer != r.last_buffer))
        status = fail_shape(err);
    if (status == FBY_OK)
        *out = array;
    else if (array.release)
        array.release(&array);
    return status;
}
