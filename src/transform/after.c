/*
 * What is done in place to values that lie in a batch: a list of operations, each with the shape that the one before it leaves.
 *
 * SpecAugment is in after_spec_augment.c; the axis that goes last or first and the fill along the first are here.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "block/convert.h"
#include "transform/after_internal.h"

#include <inttypes.h>
#include <string.h>

#define TILE 64u /* rows and columns that are transposed together: 16 KiB of float32 */

typedef struct after_op {
    fby_after_kind kind;
    union {
        fby__spec_augment spec_augment;
        struct {
            size_t n_first, n_rest; /* an axis, and the elements at one position of it; CHANNELS_FIRST: all others, and the last */
        };
    };
} after_op;

struct fby__afters {
    size_t n_ops, element_bytes, result_bytes;
    fby_dtype dtype;
    after_op ops[];
};

/* ---- creating ---- */

static bool moves_axis(fby_after_kind kind) { return kind == FBY_AFTER_CHANNELS_LAST || kind == FBY_AFTER_CHANNELS_FIRST; }

static fby_status split_first_axis(after_op *op, const char *output, const char *what, const fby__made *made, fby_error *err)
{
    const int32_t least = op->kind == FBY_AFTER_FORWARD_FILL ? 1 : 2;
    if (made->ndim < least)
        return fby__fail(err, FBY_E_ARG, "output '%s': %s: a sample's value has %d ax%s, at least %d needed", output, what, made->ndim,
                         made->ndim == 1 ? "is" : "es", least);
    op->n_first = (size_t)made->shape[0];
    op->n_rest = 1;
    for (int32_t d = 1; d < made->ndim; d++)
        op->n_rest *= (size_t)made->shape[d]; /* fits: the whole result does */
    return FBY_OK;
}

static fby_status move_axis(after_op *op, const char *output, fby__made *made, fby_error *err)
{
    int64_t *const shape = made->shape;
    const size_t others = (size_t)(made->ndim > 1 ? made->ndim - 1 : 0) * sizeof *shape;
    if (op->kind == FBY_AFTER_CHANNELS_LAST) {
        FBY__TRY(split_first_axis(op, output, "channels last", made, err));
        memmove(shape, shape + 1, others);
        shape[made->ndim - 1] = (int64_t)op->n_first;
        return FBY_OK;
    }
    FBY__TRY(split_first_axis(op, output, "channels first", made, err));
    const int64_t last = shape[made->ndim - 1];
    op->n_first = (size_t)last ? op->n_first * op->n_rest / (size_t)last : 0; /* what is transposed is (others, last) */
    op->n_rest = (size_t)last;
    memmove(shape + 1, shape, others);
    shape[0] = last;
    return FBY_OK;
}

static fby_status init_op(after_op *op, const fby_after *after, size_t index, const char *output, fby__made *made, uint64_t seed,
                          fby_error *err)
{
    op->kind = after->kind;
    switch (after->kind) {
    case FBY_AFTER_SPEC_AUGMENT: return fby__spec_augment_init(&op->spec_augment, &after->spec_augment, output, made, seed, index, err);
    case FBY_AFTER_CHANNELS_LAST:
    case FBY_AFTER_CHANNELS_FIRST: return move_axis(op, output, made, err);
    case FBY_AFTER_FORWARD_FILL:
        if (!fby__dtype_is_float(made->dtype))
            return fby__fail(err, FBY_E_ARG, "output '%s': forward fill: %s has no NaN to fill; ask for a float dtype", output,
                             fby_dtype_name(made->dtype));
        return split_first_axis(op, output, "forward fill", made, err);
    }
    return fby__fail(err, FBY_E_ARG, "output '%s': unknown operation on the batch", output);
}

fby_status fby__afters_create(const fby_after *after, size_t n, const char *output, fby__made *made, uint64_t seed, fby__afters **out,
                              fby_error *err)
{
    *out = NULL;
    if (n == 0)
        return FBY_OK;
    if (!after || n > FBY_MAX_OPS)
        return fby__fail(err, FBY_E_ARG, "output '%s': %zu operations on the batch: at most %d are possible", output, n, FBY_MAX_OPS);
    size_t bytes = fby_dtype_bytes(made->dtype);
    for (int32_t d = 0; d < made->ndim; d++)
        if (made->shape[d] < 0 || !fby__mul_checked(bytes, (size_t)made->shape[d], &bytes))
            return fby__fail(err, FBY_E_ARG, "output '%s': a sample's value is too large", output);
    fby__afters *a = fby__calloc(1, sizeof *a + n * sizeof *a->ops);
    if (!a)
        return fby__fail_nomem(err, "the operations on a batch");
    a->n_ops = n;
    a->dtype = made->dtype;
    a->element_bytes = fby_dtype_bytes(made->dtype);
    a->result_bytes = bytes;
    fby__made shape = *made;
    for (size_t i = 0; i < n; i++) {
        fby_status status = init_op(&a->ops[i], &after[i], i, output, &shape, seed, err);
        if (status != FBY_OK) {
            fby__afters_destroy(a);
            return status;
        }
        if (moves_axis(a->ops[i].kind) && shape.scratch_bytes < bytes)
            shape.scratch_bytes = bytes;
    }
    *made = shape;
    *out = a;
    return FBY_OK;
}

void fby__afters_destroy(fby__afters *a) { fby__free(a); }

/* ---- channels last or first ---- */

/* (n_first, n_rest) elements at `from` → (n_rest, n_first) at `to`. */
static void transpose(uint8_t *to, const uint8_t *from, size_t n_first, size_t n_rest, size_t element_bytes)
{
    const void *columns[TILE];
    const size_t row_bytes = n_first * element_bytes;
    for (size_t c = 0; c < n_first; c += TILE) {
        const size_t n_columns = n_first - c < TILE ? n_first - c : TILE;
        for (size_t r = 0; r < n_rest; r += TILE) {
            for (size_t k = 0; k < n_columns; k++)
                columns[k] = from + ((c + k) * n_rest + r) * element_bytes;
            fby__interleave(to + r * row_bytes + c * element_bytes, row_bytes, columns, n_columns, n_rest - r < TILE ? n_rest - r : TILE,
                            element_bytes);
        }
    }
}

static fby_status transpose_each(const fby__afters *a, const after_op *op, uint8_t *dst, uint64_t n, fby__make_scratch *scratch,
                                 fby_error *err)
{
    if (op->n_first <= 1 || op->n_rest <= 1)
        return FBY_OK;
    uint8_t *copy = fby__make_scratch_get(scratch, a->result_bytes);
    if (!copy)
        return fby__fail_nomem(err, "moving channels");
    for (uint64_t i = 0; i < n; i++, dst += a->result_bytes) {
        memcpy(copy, dst, a->result_bytes);
        transpose(dst, copy, op->n_first, op->n_rest, a->element_bytes);
    }
    return FBY_OK;
}

/* ---- forward fill ---- */

/* By bits: a NaN is what lies above infinity once the sign is gone. Steps follow one another; the elements of a step are independent. */
#define FORWARD_FILL(name, T, infinity)                                                                                                    \
    static void name(uint8_t *values, size_t n_steps, size_t n)                                                                            \
    {                                                                                                                                      \
        typedef T any __attribute__((aligned(1), may_alias));                                                                              \
        const T magnitude = (T)((T) ~(T)0 >> 1);                                                                                           \
        for (size_t t = 1; t < n_steps; t++) {                                                                                             \
            any *now = (any *)values + t * n;                                                                                              \
            const any *before = now - n;                                                                                                   \
            for (size_t e = 0; e < n; e++)                                                                                                 \
                now[e] = (T)(now[e] & magnitude) > (infinity) ? before[e] : now[e];                                                        \
        }                                                                                                                                  \
    }
FORWARD_FILL(fill_float16, uint16_t, UINT16_C(0x7c00))
FORWARD_FILL(fill_bfloat16, uint16_t, UINT16_C(0x7f80))
FORWARD_FILL(fill_float32, uint32_t, UINT32_C(0x7f800000))
FORWARD_FILL(fill_float64, uint64_t, UINT64_C(0x7ff0000000000000))

static void forward_fill(const fby__afters *a, const after_op *op, uint8_t *dst, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++, dst += a->result_bytes) {
        switch (a->dtype) {
        case FBY_FLOAT16: fill_float16(dst, op->n_first, op->n_rest); break;
        case FBY_BFLOAT16: fill_bfloat16(dst, op->n_first, op->n_rest); break;
        case FBY_FLOAT32: fill_float32(dst, op->n_first, op->n_rest); break;
        default: fill_float64(dst, op->n_first, op->n_rest); break;
        }
    }
}

/* ---- running ---- */

fby_status fby__afters_run(const fby__afters *a, uint8_t *dst, uint64_t n, const uint64_t *id, uint64_t epoch, fby__make_scratch *scratch,
                           fby_error *err)
{
    for (size_t i = 0; a && i < a->n_ops; i++) {
        const after_op *op = &a->ops[i];
        switch (op->kind) {
        case FBY_AFTER_SPEC_AUGMENT: fby__spec_augment_run(&op->spec_augment, dst, n, id, epoch); break;
        case FBY_AFTER_CHANNELS_LAST:
        case FBY_AFTER_CHANNELS_FIRST: FBY__TRY(transpose_each(a, op, dst, n, scratch, err)); break;
        case FBY_AFTER_FORWARD_FILL: forward_fill(a, op, dst, n); break;
        }
    }
    return FBY_OK;
}
