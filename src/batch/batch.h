/*
 * Batches from the inside: the shape that all batches of a loader share, buffers, and the gathers that fill them.
 *
 * Memory of a batch: one slab for every dense tensor and the offsets (each 64-byte aligned) and, at its end, the batch itself,
 * so that a batch allocates nothing; and one slab for the values of each ragged output, whose size is known only when all its
 * samples are. A batch is written by the loader's workers, then
 * handed out; from then on it belongs to the consumer and leaves the budget.
 */
#ifndef FBY_BATCH_BATCH_H
#define FBY_BATCH_BATCH_H

#include "block/panel.h"
#include "budget/budget.h"

#include <forebay/batch.h>

#include <stdatomic.h>

/** One output of a batch: its tensors lie at tensor (values) and, when ragged, tensor + 1 (offsets). */
typedef struct fby__batch_output {
    char *name;          /* owned */
    fby_dtype dtype;
    fby_layout layout;   /* DENSE or RAGGED */
    bool bytes;          /* ragged: strings or binaries, not lists of uint8 */
    bool text;           /* bytes that are UTF-8 */
    int32_t ndim_inner;  /* axes after the batch axis */
    int64_t inner[FBY_MAX_DIMS - 1];
    size_t row_elements; /* Π inner */
    size_t row_bytes;
    uint32_t tensor;
} fby__batch_output;

/** Shared by the loader and its batches, reference counted, immutable. */
typedef struct fby__batch_shape {
    _Atomic uint32_t refs;
    uint32_t n_outputs, n_tensors, n_ragged;
    fby__batch_output *outputs; /* owned */
} fby__batch_shape;

/** outputs: n of them; names copied, row_elements, row_bytes and tensor computed here. */
fby_status fby__batch_shape_create(const fby__batch_output *outputs, uint32_t n, fby__batch_shape **out, fby_error *err);
fby__batch_shape *fby__batch_shape_ref(fby__batch_shape *shape);
void fby__batch_shape_unref(fby__batch_shape *shape);

/** Bytes of the dense slab for a batch of n samples, the batch's own included. */
size_t fby__batch_dense_bytes(const fby__batch_shape *shape, uint64_t n);

struct fby_batch {
    _Atomic uint32_t refs;
    bool handed_out;
    fby__batch_shape *shape; /* shared */
    fby__account *account;   /* shared */
    uint64_t size, index, epoch;
    fby__slab dense;         /* owned; of the account's pool. The rest lies at its end */
    fby_tensor *tensors;     /* shape->n_tensors */
    fby__slab *ragged;       /* each owned: one per ragged output, in output order */
};

/**
 * A batch of n samples with its dense tensors placed; ragged values come later (fby__batch_ragged).
 * The dense slab comes from the account's pool, whose slabs hold fby__batch_dense_bytes of the largest batch.
 */
fby_status fby__batch_create(fby__batch_shape *shape, fby__account *account, uint64_t n, uint64_t index, uint64_t epoch,
                             fby_batch **out, fby_error *err);

/** Give ragged output o room for n_values rows of values and set its shape. The offsets tensor is the caller's to fill. */
fby_status fby__batch_ragged(fby_batch *batch, uint32_t output, uint64_t n_values, fby_error *err);

/** The batch leaves the budget: the consumer owns it. */
void fby__batch_hand_out(fby_batch *batch);

/* ---- gathers (gather.c) ---- */

/** dst[i] = the row_bytes at rows[i] + offset, i < n, packed. */
void fby__gather_rows(uint8_t *dst, const uint8_t *const *rows, size_t offset, size_t row_bytes, size_t n);

/** A piece of several rows of each sample: n_steps pieces of piece_bytes, the rows of one sample row_bytes apart. Packed. */
typedef struct fby__steps {
    size_t offset, piece_bytes, row_bytes;
    uint64_t n_steps;
} fby__steps;

/** dst[i] = the pieces of the sample whose first row is at rows[i], i < n. */
void fby__gather_steps(uint8_t *dst, const uint8_t *const *rows, const fby__steps *steps, size_t n);

/** As above with a conversion; *out_row is the sample that holds a value that does not fit. */
fby_status fby__gather_steps_convert(fby_dtype dst_dtype, uint8_t *dst, fby_dtype src_dtype, const uint8_t *const *rows,
                                     const fby__steps *steps, size_t n, size_t *out_row);

/**
 * As fby__gather_rows with a conversion: n rows of n_elements of src_dtype each, to dst_dtype. Returns FBY_E_DATA with *out_row on a value
 * that does not fit (cannot happen for widenings, which are what assembly does).
 */
fby_status fby__gather_convert(fby_dtype dst_dtype, uint8_t *dst, fby_dtype src_dtype, const uint8_t *const *rows,
                               size_t offset, size_t n_elements, size_t n, size_t *out_row);

#endif
