/*
 * Batches from the inside: the shape that all batches of a loader share, buffers, and the gathers that fill them.
 *
 * Memory of a batch: one slab for every dense tensor and the offsets (each 64-byte aligned) and, at its end, the batch itself,
 * so that a batch allocates nothing; and one slab for the values of each ragged output, whose size is known only when all its
 * samples are. A batch is written by the loader's workers, then handed out; from then on it belongs to the consumer and
 * leaves the budget.
 */
#ifndef FBY_BATCH_BATCH_H
#define FBY_BATCH_BATCH_H

#include "block/panel.h"
#include "budget/budget.h"

#include <forebay/batch.h>

#include <stdatomic.h>

/** One output of a batch. Its tensors: number `tensor` (values) and the next one (ragged: offsets; padded: mask or lengths). */
typedef struct fby__batch_output {
    char *name; /* owned */
    fby_dtype dtype;
    fby_layout layout;    /* DENSE, RAGGED or PADDED */
    uint64_t max_rows;    /* PADDED: the most rows a sample has when it is cut or padded to them; UINT64_MAX = no limit */
    uint64_t multiple_of; /* PADDED: ≥ 1 */
    bool pad_to_max;      /* PADDED */
    bool want_lengths;    /* PADDED: lengths, not a mask */
    fby__scalar pad;      /* PADDED: of dtype */
    bool bytes;           /* ragged: strings or binaries, not lists of uint8 */
    bool text;            /* bytes that are UTF-8 */
    int32_t ndim_inner;   /* axes after the batch axis */
    int64_t inner[FBY_MAX_DIMS - 1];
    size_t row_elements; /* Π inner */
    size_t row_bytes;
    uint32_t tensor;
} fby__batch_output;

/** Does its size depend on the samples of a batch? */
static inline bool fby__batch_output_varies(const fby__batch_output *o)
{
    return o->layout == FBY_LAYOUT_RAGGED || o->layout == FBY_LAYOUT_PADDED;
}

/** Shared by the loader and its batches, reference counted, immutable. */
typedef struct fby__batch_shape {
    _Atomic uint32_t refs;
    uint32_t n_outputs, n_tensors, n_ragged; /* n_ragged: outputs whose size varies */
    fby__batch_output *outputs;              /* owned */
} fby__batch_shape;

/** @outputs  n of them; names are copied; row_elements, row_bytes and tensor are computed here. */
fby_status fby__batch_shape_create(const fby__batch_output *outputs, uint32_t n, fby__batch_shape **out, fby_error *err);
void fby__batch_shape_unref(fby__batch_shape *shape);

/** Bytes of the dense slab for a batch of n samples, the batch's own included. */
size_t fby__batch_dense_bytes(const fby__batch_shape *shape, uint64_t n);

struct fby_batch {
    _Atomic uint32_t refs;
    bool handed_out;
    fby__batch_shape *shape; /* shared */
    fby__account *account;   /* shared */
    uint64_t size, index, epoch;
    fby__slab dense;     /* owned; of the account's pool. The rest lies at its end */
    fby_tensor *tensors; /* shape->n_tensors */
    fby__slab *ragged;   /* each owned: one per output that varies, in output order */
};

/**
 * A batch of n samples with its dense tensors placed; values that vary come later (fby__batch_place).
 * The dense slab comes from the account's pool, whose slabs hold fby__batch_dense_bytes of the largest batch.
 */
fby_status fby__batch_create(fby__batch_shape *shape, fby__account *account, uint64_t n, uint64_t index, uint64_t epoch, fby_batch **out,
                             fby_error *err);

/**
 * Where the lengths of an output that varies are gathered: batch size + 1 numbers, the samples' lengths from 1 on. For a ragged output they
 * become its offsets.
 */
int64_t *fby__batch_lengths(fby_batch *batch, uint32_t output);

/** All lengths are gathered: the bytes of the output's values. FBY_E_DATA: more than memory can hold. */
fby_status fby__batch_values_bytes(fby_batch *batch, uint32_t output, size_t *out_bytes, fby_error *err);
/** All lengths are gathered: get memory for the values (exact: as in fby__values_slab_get). */
fby__grant fby__batch_reserve(fby_batch *batch, uint32_t output, bool exact, fby_error *err);
/** Give back the memory of all values, of which none are placed. */
void fby__batch_give_back(fby_batch *batch);

/**
 * Reserved: set where the output's values go, and its shape. The lengths of a ragged output become its offsets, in place; those of a padded
 * one move one number forward, and its mask is filled.
 */
void fby__batch_place(fby_batch *batch, uint32_t output);

/** PADDED and placed: bytes from one sample's values to the next one's. */
size_t fby__batch_slot_bytes(const fby_batch *batch, uint32_t output);

/** PADDED and placed, all values written: fill the rest. lengths: where they were gathered. */
void fby__batch_pad(fby_batch *batch, uint32_t output, const int64_t *lengths);

/** The batch leaves the budget: the consumer owns it. */
void fby__batch_hand_out(fby_batch *batch);

/* ---- scatters (scatter.c) ---- */

/** Copies `bytes` from from[i] to to[i], i < n; NULL in `to`: nobody wants that row. No two overlap. */
void fby__scatter_rows(uint8_t *const *to, const uint8_t *const *from, size_t bytes, size_t n);

/* ---- gathers (gather.c) ---- */

/** Rows that a gather copies, and those of the gather after it, which it fetches meanwhile. */
typedef struct fby__rows {
    const uint8_t *const *at; /* n + n_next */
    size_t n, n_next;
    bool fetched; /* the first of them, by the gather before */
} fby__rows;

/** dst[i] = the row_bytes at rows->at[i] + offset, i < rows->n, one behind the other. */
void fby__gather_rows(uint8_t *dst, const fby__rows *rows, size_t offset, size_t row_bytes);

/** Some columns of several rows of each sample: n_steps times step_bytes, row_bytes apart. */
typedef struct fby__steps {
    size_t offset, step_bytes, row_bytes;
    uint64_t n_steps;
} fby__steps;

/** dst[i] = the steps of the sample whose first row is at rows[i], i < n, one behind the other. */
void fby__gather_steps(uint8_t *dst, const uint8_t *const *rows, const fby__steps *steps, size_t n);

/** As above with a conversion; *out_row is the sample that holds a value that does not fit. */
fby_status fby__gather_steps_convert(fby_dtype dst_dtype, uint8_t *dst, fby_dtype src_dtype, const uint8_t *const *rows,
                                     const fby__steps *steps, size_t n, size_t *out_row);

/**
 * As fby__gather_rows with a conversion: n rows of n_elements of src_dtype each, to dst_dtype. Returns FBY_E_DATA with *out_row on a value
 * that does not fit (cannot happen for widenings, which are what assembly does).
 */
fby_status fby__gather_convert(fby_dtype dst_dtype, uint8_t *dst, fby_dtype src_dtype, const fby__rows *rows, size_t offset,
                               size_t n_elements, size_t *out_row);

#endif
