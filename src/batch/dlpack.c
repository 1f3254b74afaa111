/* DLPack views of a batch's tensors: CPU, writable, each with a reference to the batch. */
#include "batch/batch.h"

#include "base/alloc.h"

#include <forebay/dlpack.h>

#include <string.h>

/* One allocation holds either form, the shape it points to, and the batch it keeps alive. */
typedef struct export
{
    union {
        DLManagedTensor legacy;
        DLManagedTensorVersioned versioned;
    } managed;
    fby_batch *batch;
    int64_t shape[FBY_MAX_DIMS];
}
export;

static DLDataType dtype_of(fby_dtype dtype)
{
    uint8_t bits = (uint8_t)(8 * fby_dtype_bytes(dtype));
    switch (dtype) {
    case FBY_BOOL: return (DLDataType){kDLBool, 8, 1};
    case FBY_INT8:
    case FBY_INT16:
    case FBY_INT32:
    case FBY_INT64: return (DLDataType){kDLInt, bits, 1};
    case FBY_BFLOAT16: return (DLDataType){kDLBfloat, 16, 1};
    case FBY_FLOAT16:
    case FBY_FLOAT32:
    case FBY_FLOAT64: return (DLDataType){kDLFloat, bits, 1};
    default: return (DLDataType){kDLUInt, bits, 1};
    }
}

static void release(export *e)
{
    fby_batch_unref(e->batch);
    fby__free(e);
}

static void delete_legacy(DLManagedTensor *self) { release(self->manager_ctx); }
static void delete_versioned(DLManagedTensorVersioned *self) { release(self->manager_ctx); }

static fby_status export_tensor(fby_batch *batch, size_t i, export **out, DLTensor *tensor, fby_error *err)
{
    const fby_tensor *t = fby_batch_tensor(batch, i);
    if (!t)
        return fby__fail(err, FBY_E_ARG, "tensor %zu asked for, but the batch has %zu", i, fby_batch_tensor_count(batch));
    export *e = fby__calloc(1, sizeof *e);
    if (!e)
        return fby__fail_nomem(err, "a DLPack tensor");
    e->batch = fby_batch_ref(batch);
    memcpy(e->shape, t->shape, sizeof e->shape);
    *tensor = (DLTensor){.data = t->data, .device = {kDLCPU, 0}, .ndim = t->ndim, .dtype = dtype_of(t->dtype), .shape = e->shape};
    *out = e;
    return FBY_OK;
}

fby_status fby_batch_dlpack(fby_batch *batch, size_t i, struct DLManagedTensor **out, fby_error *err)
{
    export *e = NULL;
    DLTensor tensor = {0};
    FBY__TRY(export_tensor(batch, i, &e, &tensor, err));
    e->managed.legacy = (DLManagedTensor){.dl_tensor = tensor, .manager_ctx = e, .deleter = delete_legacy};
    *out = &e->managed.legacy;
    return FBY_OK;
}

fby_status fby_batch_dlpack_versioned(fby_batch *batch, size_t i, struct DLManagedTensorVersioned **out, fby_error *err)
{
    export *e = NULL;
    DLTensor tensor = {0};
    FBY__TRY(export_tensor(batch, i, &e, &tensor, err));
    e->managed.versioned = (DLManagedTensorVersioned){
        .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, .manager_ctx = e, .deleter = delete_versioned, .dl_tensor = tensor};
    *out = &e->managed.versioned;
    return FBY_OK;
}
