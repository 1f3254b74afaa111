/*
 * Batches: named tensors that the consumer owns.
 *
 * A batch holds one reference to its memory, every exported DLPack or Arrow object another: the memory stays valid until
 * the last of them is gone, also after the loader and the data set are closed.
 *
 * Where a function says nothing else: Threads: any, as long as one of them holds the batch. Blocks: no. Errors: FBY_E_ARG (out of range), FBY_E_NOMEM.
 * What a pointer leads to belongs to the batch. Since: 0.1
 */
#ifndef FOREBAY_BATCH_H
#define FOREBAY_BATCH_H

#include <forebay/arrow.h>
#include <forebay/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FBY_MAX_DIMS 8

typedef struct fby_batch fby_batch;

/** How an output lies in memory. */
typedef enum fby_layout {
    FBY_LAYOUT_AUTO,   /* from the columns: lists and strings are packed, all else dense */
    FBY_LAYOUT_DENSE,  /* one tensor (B, …) */
    FBY_LAYOUT_RAGGED, /* packed: values (ΣL, …) and offsets (B + 1) int64; strings: values are bytes (uint8) */
    FBY_LAYOUT_PADDED  /* values (B, L, …) and a mask (B, L) of bool, true where there is a row, or lengths (B) int64 */
} fby_layout;

/** One tensor. Borrowed from the batch; C order, no strides; data is 64-byte aligned and writable. Frozen: no field is ever added. */
typedef struct fby_tensor {
    const char *output; /* name of the output it belongs to */
    const char *role;   /* "values"; "offsets" of a packed output; "mask" or "lengths" of a padded one */
    fby_dtype dtype;
    int32_t ndim;
    int64_t shape[FBY_MAX_DIMS];
    void *data;
    size_t bytes;
} fby_tensor;

FBY_API uint64_t fby_batch_size(const fby_batch *batch);       /* samples */
FBY_API uint64_t fby_batch_index(const fby_batch *batch);      /* position in the epoch, from 0 */
FBY_API uint64_t fby_batch_epoch(const fby_batch *batch);      /* which epoch it is of, from 0 */
FBY_API size_t fby_batch_tensor_count(const fby_batch *batch); /* of all outputs: some have several */
/** Tensor i, in the order of the outputs (a ragged output gives values, then offsets). NULL when out of range. */
FBY_API const fby_tensor *fby_batch_tensor(const fby_batch *batch, size_t i);

/** One more reference; returns its argument. Threads: any. Since: 0.1 */
FBY_API fby_batch *fby_batch_ref(fby_batch *batch);
/** Drop a reference. NULL is fine. Threads: any; dropping the last one gives the memory back to its loader, or unmaps it. */
FBY_API void fby_batch_unref(fby_batch *batch);

/**
 * Pin the memory of a batch where it is, with functions of the program such as cudaHostRegister(), so that a device can copy from it directly. Of
 * packed and padded outputs the offsets and lengths are pinned; values and masks are not.
 *
 * @pin    Pins `bytes` (whole pages) at `memory`, and returns 0 where it did. Memory stays pinned for the batches that are built in it later, so after
 *         the first few batches this is not called any more.
 * @unpin  Undoes that before the memory is unmapped, and returns 0 where it did; otherwise the memory stays mapped for good. Called on the thread
 *         that drops the last reference to a batch or closes the loader, also for batches that outlive their loader; never in a child of fork().
 * @user   Passed to both. Pass the same three for all batches of a loader. Neither function may call the library.
 *
 * A device may still be copying when the call that started the copy returns. Hold the batch until the copy is over: the memory is written to again
 * once the last reference is gone. Returns whether the memory is pinned. Threads: one at a time for a batch. Since: 0.2
 */
FBY_API bool fby_batch_pin(fby_batch *batch, int (*pin)(void *user, void *memory, size_t bytes), int (*unpin)(void *user, void *memory),
                           void *user);

struct DLManagedTensor;
struct DLManagedTensorVersioned;
/**
 * Export tensor i as a DLPack tensor (https://dmlc.github.io/dlpack): CPU memory that keeps the batch alive until the consumer
 * calls its deleter. One call gives one tensor; the legacy form and the versioned form (1.0).
 */
FBY_API fby_status fby_batch_dlpack(fby_batch *batch, size_t i, struct DLManagedTensor **out, fby_error *err);
FBY_API fby_status fby_batch_dlpack_versioned(fby_batch *batch, size_t i, struct DLManagedTensorVersioned **out, fby_error *err);

/**
 * Export the batch as one Arrow struct array (a record batch), zero copy, one field for each output: 1-d tensors as primitives,
 * (B, n) as fixed-size lists, ragged as large lists, strings as large binary or large utf8; bool tensors are copied to bits.
 * Both structs are owned by the caller; the array keeps the batch alive. bfloat16 has no Arrow type: FBY_E_UNSUPPORTED.
 */
FBY_API fby_status fby_batch_export_arrow(fby_batch *batch, struct ArrowSchema *out_schema, struct ArrowArray *out_array, fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
