/*
 * Values that are no numbers: fixed strings without their padding, opaque bytes, and what lies in the global heap.
 *
 * They are read as raw elements, some rows at a time, and then looked at one by one in row order. A part of variable length is
 * { u32 length, address of the collection, u32 index } (spec IV.A.2.d, VIII "global heap ID"), or what the helper program gives.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"
#include "base/hash.h"

#include <inttypes.h>

#define TILE_BYTES ((size_t)256 << 10)

bool fby__h5_leaf_is_bytes(const fby__h5_leaf *leaf)
{
    return leaf->value == FBY__H5_VALUE_FIXED_STRING || leaf->value == FBY__H5_VALUE_VLEN_STRING || leaf->value == FBY__H5_VALUE_OPAQUE ||
           leaf->value == FBY__H5_VALUE_REFERENCE;
}

void fby__h5_value_open_raw(fby__h5_value *v, const fby__h5_table *table, const fby__h5_leaf *leaf)
{
    fby__h5_value_open(v, leaf, FBY_DTYPE_NONE);
    v->src_bytes = v->dst_bytes = fby__h5_value_bytes(table, leaf);
}

/* ---- the global heap ---- */

/* The cache is of one file at a time, known by path and stamp: a descriptor's address may come again for another file. */
static void heap_of(fby__h5_state *state, fby__file *file)
{
    const char *path = fby__file_path(file);
    const fby__file_stamp *stamp = fby__file_stamp_of(file);
    fby__hash128 key = fby__hash(path, strlen(path));
    const uint64_t numbers[] = {stamp->size_bytes, (uint64_t)stamp->mtime_ns, (uint64_t)stamp->ctime_ns, stamp->inode};
    key = fby__hash_more(key, numbers, sizeof numbers);
    if (!fby__hash_equal(key, state->heap_file)) {
        fby__h5_global_fini(&state->heap);
        state->heap_file = key;
    }
}

fby_status fby__h5_vlen_of(const fby__h5_rows *r, const uint8_t *raw, size_t bytes, fby__bytes *out, uint64_t *out_n, fby_error *err)
{
    const fby__h5_table *table = r->job->table;
    if (r->set->way == FBY__H5_HELPER)
        return fby__h5_helper_vlen(&r->job->state->vlen, raw, bytes, out, out_n, err);
    const uint32_t n = fby__load_u32(raw);
    uint64_t address = 0, need;
    memcpy(&address, raw + 4, table->offset_bytes);
    const uint32_t index = fby__load_u32(raw + 4 + table->offset_bytes);
    *out = (fby__bytes){NULL, 0};
    *out_n = 0;
    if (n == 0 || (address == 0 && index == 0)) /* empty, or never written */
        return FBY_OK;
    if (!r->job->file)
        return fby__fail(err, FBY_E_INTERNAL, "there is no file to read from");
    FBY__TRY(fby__h5_global_get(&r->job->state->heap, r->job->file, table->address_base, table->offset_bytes, table->length_bytes, address,
                                index, out, err));
    if (!fby__mul_u64_checked(n, bytes, &need) || need > out->n)
        return fby__fail(err, FBY_E_FORMAT, "a value of %" PRIu32 " elements has %zu bytes in the global heap", n, out->n);
    out->n = (size_t)need;
    *out_n = n;
    return FBY_OK;
}

static size_t trimmed(const uint8_t *p, size_t n, uint8_t padding)
{
    if (padding == 0) { /* ends with the first NUL */
        const uint8_t *end = memchr(p, 0, n);
        return end ? (size_t)(end - p) : n;
    }
    const uint8_t pad = padding == 2 ? ' ' : 0;
    while (n > 0 && p[n - 1] == pad)
        n--;
    return n;
}

fby_status fby__h5_text_of(const fby__h5_rows *r, const fby__h5_type *type, const uint8_t *raw, fby__bytes *out, fby_error *err)
{
    const uint8_t *end;
    uint64_t n;
    switch (type->class) {
    case FBY__H5_STRING: *out = (fby__bytes){raw, trimmed(raw, type->bytes, type->padding)}; return FBY_OK;
    case FBY__H5_OPAQUE: *out = (fby__bytes){raw, type->bytes}; return FBY_OK;
    default:
        FBY__TRY(fby__h5_vlen_of(r, raw, 1, out, &n, err));
        end = out->n ? memchr(out->data, 0, out->n) : NULL; /* as C strings, which some writers store with their NUL */
        if (end)
            out->n = (size_t)(end - out->data);
        return FBY_OK;
    }
}

/* ---- in row order ---- */

fby_status fby__h5_each_raw(fby__h5_rows *r, const fby__h5_leaf *leaf, uint64_t begin, uint64_t end, fby__h5_raw_fn fn, void *user,
                            fby_error *err)
{
    fby__h5_target t = {.width = (size_t)r->set->row_elements * leaf->elements};
    fby__h5_value_open_raw(&t.value, r->job->table, leaf);
    size_t n;
    if (!fby__mul_checked(t.width, t.value.dst_bytes, &t.row_bytes))
        return fby__fail_nomem(err, "decoding HDF5");
    if (t.row_bytes == 0)
        return FBY_OK;
    if (r->job->file)
        heap_of(r->job->state, r->job->file);
    r->targets = &t;
    r->n_targets = 1;
    /* Where a chunk holds scattered rows, tiles of rows would decode each chunk many times. */
    const uint64_t tile = r->g.whole_rows ? fby__max_u64(TILE_BYTES / t.row_bytes, 1) : end - begin;
    fby_status status = FBY_OK;
    for (uint64_t row = begin, last; row < end && status == FBY_OK; row = last) {
        last = row + fby__min_u64(tile, end - row);
        if (!fby__mul_checked((size_t)(last - row), t.row_bytes, &n))
            status = fby__fail_nomem(err, "decoding HDF5");
        if (status == FBY_OK)
            status = fby__h5_need(&r->job->state->raw, n, err);
        if (status != FBY_OK)
            break;
        t.data = r->job->state->raw.data;
        r->row0 = row;
        status = fby__h5_rows_read(r, row, last, err);
        for (uint64_t i = row; i < last && status == FBY_OK; i++) {
            const bool same = t.width == 1 && i > row && i / r->set->repeat == (i - 1) / r->set->repeat;
            for (size_t k = 0; k < t.width && status == FBY_OK; k++)
                status = fn(user, t.data + (size_t)(i - row) * t.row_bytes + k * t.value.dst_bytes, i, same, err);
        }
    }
    r->n_targets = 0;
    r->targets = NULL;
    return status;
}

typedef struct bytes_fn {
    const fby__h5_rows *r;
    const fby__h5_leaf *leaf;
    fby__h5_string_fn fn;
    void *user;
} bytes_fn;

static fby_status each_value(void *user, const uint8_t *raw, uint64_t row, bool same, fby_error *err)
{
    const bytes_fn *b = user;
    fby__bytes text = {NULL, 0};
    fby_status status = same ? FBY_OK : fby__h5_text_of(b->r, b->leaf->type, raw, &text, err);
    if (status != FBY_OK) {
        fby__error_context(err, "row %" PRIu64, row);
        return fby__h5_rows_fail(b->r, status, err);
    }
    return b->fn(b->user, text, same, err);
}

fby_status fby__h5_each_bytes(fby__h5_rows *r, const fby__h5_leaf *leaf, uint64_t begin, uint64_t end, fby__h5_string_fn fn, void *user,
                              fby_error *err)
{
    bytes_fn b = {r, leaf, fn, user};
    return fby__h5_each_raw(r, leaf, begin, end, each_value, &b, err);
}
