/* Batches: shape, buffers, ownership. */
#include "batch/batch.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <string.h>

#define ALIGN 64u

fby_status fby__batch_shape_create(const fby__batch_output *outputs, uint32_t n, fby__batch_shape **out, fby_error *err)
{
    fby__batch_shape *s = fby__calloc(1, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "the outputs");
    atomic_init(&s->refs, 1);
    s->outputs = fby__calloc(n, sizeof *s->outputs);
    if (!s->outputs)
        goto fail;
    s->n_outputs = n;
    for (uint32_t i = 0; i < n; i++) {
        fby__batch_output *o = &s->outputs[i];
        *o = outputs[i];
        o->name = fby__strdup(outputs[i].name);
        if (!o->name)
            goto fail;
        o->row_elements = 1;
        for (int32_t d = 0; d < o->ndim_inner; d++)
            o->row_elements *= (size_t)o->inner[d];
        o->row_bytes = o->row_elements * fby_dtype_bytes(o->dtype);
        o->tensor = s->n_tensors;
        s->n_tensors += fby__batch_output_varies(o) ? 2 : 1;
        s->n_ragged += fby__batch_output_varies(o);
    }
    *out = s;
    return FBY_OK;
fail:
    fby__batch_shape_unref(s);
    return fby__fail_nomem(err, "the outputs");
}

void fby__batch_shape_unref(fby__batch_shape *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; s->outputs && i < s->n_outputs; i++)
        fby__free(s->outputs[i].name);
    fby__free(s->outputs);
    fby__free(s);
}

/* Bytes of one output in the dense slab: the values, or the offsets or lengths of one that varies. */
static size_t dense_bytes_of(const fby__batch_output *o, uint64_t n)
{
    size_t bytes = fby__batch_output_varies(o) ? (size_t)(n + 1) * sizeof(int64_t) : (size_t)n * o->row_bytes;
    return fby__align_up_u64(bytes, ALIGN);
}

/* The batch, its tensors and its ragged slabs, at the end of the dense slab: the first tensor begins at a page. */
static size_t own_bytes(const fby__batch_shape *s)
{
    return fby__align_up_u64(sizeof(fby_batch) + s->n_tensors * sizeof(fby_tensor) + s->n_ragged * sizeof(fby__slab), ALIGN);
}

size_t fby__batch_dense_bytes(const fby__batch_shape *s, uint64_t n)
{
    size_t total = own_bytes(s);
    for (uint32_t i = 0; i < s->n_outputs; i++)
        total += dense_bytes_of(&s->outputs[i], n);
    return total;
}

static void set_shape(fby_tensor *t, const fby__batch_output *o, uint64_t rows)
{
    t->ndim = 1 + o->ndim_inner;
    t->shape[0] = (int64_t)rows;
    for (int32_t d = 0; d < o->ndim_inner; d++)
        t->shape[1 + d] = o->inner[d];
    t->bytes = (size_t)rows * o->row_bytes;
}

fby_status fby__batch_create(fby__batch_shape *shape, fby__account *account, uint64_t n, uint64_t index, uint64_t epoch, fby_batch **out,
                             fby_error *err)
{
    fby__slab dense;
    FBY__TRY(fby__pool_slab_get(account, &dense, err));
    fby_batch *b = (fby_batch *)(void *)(dense.data + dense.bytes - own_bytes(shape));
    memset(b, 0, own_bytes(shape));
    atomic_init(&b->refs, 1);
    atomic_fetch_add_explicit(&shape->refs, 1, memory_order_relaxed);
    b->shape = shape;
    b->account = fby__account_ref(account);
    b->size = n;
    b->index = index;
    b->epoch = epoch;
    b->dense = dense;
    b->tensors = (fby_tensor *)(b + 1);
    b->ragged = (fby__slab *)(b->tensors + shape->n_tensors);
    uint8_t *at = b->dense.data;
    for (uint32_t i = 0; i < shape->n_outputs; i++) {
        const fby__batch_output *o = &shape->outputs[i];
        fby_tensor *t = &b->tensors[o->tensor];
        *t = (fby_tensor){.output = o->name, .role = "values", .dtype = o->dtype, .data = at};
        set_shape(t, o, fby__batch_output_varies(o) ? 0 : n);
        if (o->layout == FBY_LAYOUT_RAGGED)
            t[1] = (fby_tensor){.output = o->name,
                                .role = "offsets",
                                .dtype = FBY_INT64,
                                .ndim = 1,
                                .shape = {(int64_t)n + 1},
                                .data = at,
                                .bytes = (size_t)(n + 1) * sizeof(int64_t)};
        else if (o->layout == FBY_LAYOUT_PADDED)
            t[1] = (fby_tensor){.output = o->name,
                                .role = "lengths",
                                .dtype = FBY_INT64,
                                .ndim = 1,
                                .shape = {(int64_t)n},
                                .data = at,
                                .bytes = (size_t)n * sizeof(int64_t)};
        at += dense_bytes_of(o, n);
    }
    *out = b;
    return FBY_OK;
}

/* Which of the ragged slabs belongs to an output. */
static fby__slab *ragged_slab(fby_batch *b, uint32_t output)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < output; i++)
        k += fby__batch_output_varies(&b->shape->outputs[i]);
    return &b->ragged[k];
}

int64_t *fby__batch_lengths(fby_batch *b, uint32_t output) { return b->tensors[b->shape->outputs[output].tensor + 1].data; }

/* The length of all samples of a batch. */
static uint64_t padded_length(const fby_batch *b, const fby__batch_output *o, const int64_t *lengths)
{
    uint64_t longest = o->pad_to_max ? o->max_rows : 0;
    for (uint64_t i = 0; i < b->size; i++)
        longest = (uint64_t)lengths[i] > longest ? (uint64_t)lengths[i] : longest;
    return (longest + o->multiple_of - 1) / o->multiple_of * o->multiple_of;
}

fby_status fby__batch_values_bytes(fby_batch *b, uint32_t output, size_t *out, fby_error *err)
{
    const fby__batch_output *o = &b->shape->outputs[output];
    const int64_t *lengths = fby__batch_lengths(b, output) + 1;
    const bool padded = o->layout == FBY_LAYOUT_PADDED;
    uint64_t n = 0;
    for (uint64_t i = 0; i < b->size && !padded; i++)
        n += (uint64_t)lengths[i];
    if (padded && !fby__mul_u64_checked(padded_length(b, o, lengths), b->size, &n))
        n = UINT64_MAX; /* refused below */
    size_t bytes;
    if (!fby__mul_checked(n, o->row_bytes, &bytes) || bytes > SIZE_MAX / 4)
        return fby__fail(err, FBY_E_DATA, "output '%s': a batch of %llu values does not fit in memory", o->name, (unsigned long long)n);
    *out = fby__align_up_u64(bytes, ALIGN) + (padded && !o->want_lengths ? n : 0);
    return FBY_OK;
}

fby__grant fby__batch_reserve(fby_batch *b, uint32_t output, bool exact, fby_error *err)
{
    size_t bytes;
    if (fby__batch_values_bytes(b, output, &bytes, err) != FBY_OK)
        return FBY__GRANT_FAILED;
    return fby__values_slab_get(b->account, bytes, exact, ragged_slab(b, output), err);
}

void fby__batch_give_back(fby_batch *b)
{
    for (uint32_t i = 0; i < b->shape->n_ragged; i++)
        fby__values_slab_drop(b->account, &b->ragged[i]);
}

static void place_ragged(fby_batch *b, uint32_t output)
{
    const fby__batch_output *o = &b->shape->outputs[output];
    int64_t *offsets = fby__batch_lengths(b, output);
    offsets[0] = 0;
    for (uint64_t i = 0; i < b->size; i++)
        offsets[i + 1] += offsets[i];
    set_shape(&b->tensors[o->tensor], o, (uint64_t)offsets[b->size]);
}

static void place_padded(fby_batch *b, uint32_t output)
{
    const fby__batch_output *o = &b->shape->outputs[output];
    int64_t *lengths = fby__batch_lengths(b, output);
    memmove(lengths, lengths + 1, b->size * sizeof *lengths);
    const uint64_t length = padded_length(b, o, lengths), n = length * b->size; /* checked when it was reserved */
    fby_tensor *t = &b->tensors[o->tensor];
    set_shape(t, o, b->size);
    for (int32_t d = t->ndim; d > 1; d--)
        t->shape[d] = t->shape[d - 1];
    t->ndim++;
    t->shape[1] = (int64_t)length;
    t->bytes = n * o->row_bytes;
    if (o->want_lengths)
        return;
    uint8_t *mask = (uint8_t *)t->data + fby__align_up_u64(t->bytes, ALIGN);
    for (uint64_t i = 0; i < b->size; i++) {
        memset(mask + i * length, 1, (size_t)lengths[i]);
        memset(mask + i * length + lengths[i], 0, length - (uint64_t)lengths[i]);
    }
    t[1] = (fby_tensor){.output = o->name,
                        .role = "mask",
                        .dtype = FBY_BOOL,
                        .ndim = 2,
                        .shape = {(int64_t)b->size, (int64_t)length},
                        .data = mask,
                        .bytes = n};
}

void fby__batch_place(fby_batch *b, uint32_t output)
{
    const fby__batch_output *o = &b->shape->outputs[output];
    b->tensors[o->tensor].data = ragged_slab(b, output)->data;
    (o->layout == FBY_LAYOUT_PADDED ? place_padded : place_ragged)(b, output);
}

size_t fby__batch_slot_bytes(const fby_batch *b, uint32_t output)
{
    const fby__batch_output *o = &b->shape->outputs[output];
    return (size_t)b->tensors[o->tensor].shape[1] * o->row_bytes;
}

static void fill(uint8_t *dst, const fby__scalar *value, size_t element, size_t n)
{
    static const fby__scalar ZERO;
    if (memcmp(value, &ZERO, element) == 0) {
        memset(dst, 0, n * element);
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(dst + i * element, value, element);
}

void fby__batch_pad(fby_batch *b, uint32_t output, const int64_t *lengths)
{
    const fby__batch_output *o = &b->shape->outputs[output];
    uint8_t *at = b->tensors[o->tensor].data;
    size_t slot = fby__batch_slot_bytes(b, output), element = fby_dtype_bytes(o->dtype);
    for (uint64_t i = 0; i < b->size; i++, at += slot) {
        size_t used = (size_t)lengths[i] * o->row_bytes;
        fill(at + used, &o->pad, element, (slot - used) / element);
    }
}

void fby__batch_hand_out(fby_batch *b)
{
    b->handed_out = true;
    fby__pool_slab_hand_out(b->account, &b->dense);
    for (uint32_t i = 0; i < b->shape->n_ragged; i++)
        fby__values_slab_hand_out(b->account, &b->ragged[i]);
}

fby_batch *fby_batch_ref(fby_batch *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void fby_batch_unref(fby_batch *b)
{
    /* acq_rel: the last holder sees every write of the others before it frees. */
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    fby__batch_shape *shape = b->shape;
    fby__account *account = b->account;
    fby__slab dense = b->dense; /* the batch lies in it */
    bool handed_out = b->handed_out;
    for (uint32_t i = 0; i < shape->n_ragged; i++)
        (handed_out ? fby__values_slab_return : fby__values_slab_drop)(account, &b->ragged[i]);
    (handed_out ? fby__pool_slab_return : fby__pool_slab_drop)(account, &dense);
    fby__batch_shape_unref(shape);
    fby__account_unref(account);
}

bool fby_batch_pin(fby_batch *b, int (*pin)(void *user, void *memory, size_t bytes), int (*unpin)(void *user, void *memory), void *user)
{
    return fby__pool_slab_pin(b->account, &b->dense, &(fby__pinner){pin, unpin, user});
}

uint64_t fby_batch_size(const fby_batch *b) { return b->size; }
uint64_t fby_batch_index(const fby_batch *b) { return b->index; }
uint64_t fby_batch_epoch(const fby_batch *b) { return b->epoch; }
size_t fby_batch_tensor_count(const fby_batch *b) { return b->shape->n_tensors; }

const fby_tensor *fby_batch_tensor(const fby_batch *b, size_t i) { return i < b->shape->n_tensors ? &b->tensors[i] : NULL; }
