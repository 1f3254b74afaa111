/*
 * DLPack's C exchange API: how a framework makes a tensor of a DLManagedTensorVersioned without a capsule and without Python in between. A table
 * of functions that the framework keeps as a capsule, `torch.Tensor.__dlpack_c_exchange_api__` from PyTorch 2.10 on.
 *   https://github.com/dmlc/dlpack/blob/v1.3/include/dlpack/dlpack.h
 */
#ifndef FBPY_EXCHANGE_H
#define FBPY_EXCHANGE_H

#include "module.h"

#include <forebay/dlpack.h>

#define FBPY_EXCHANGE_CAPSULE "dlpack_exchange_api"

typedef struct fbpy_exchange_header {
    DLPackVersion version;                 /* of the table: another major version has another layout */
    struct fbpy_exchange_header *previous; /* an older table of the same framework, or NULL */
} fbpy_exchange_header;

/** The beginning of the table of version 1; what follows is not used here. */
typedef struct fbpy_exchange {
    fbpy_exchange_header header;
    int (*allocate)(void);       /* of other signatures: never called */
    int (*from_py_object)(void); /* likewise */
    /** Takes over `tensor`, also on failure; 0, or -1 with an exception. With the GIL. */
    int (*to_py_object)(DLManagedTensorVersioned *tensor, void **out_py_object);
} fbpy_exchange;

/** The table of version 1 in a capsule; NULL, without an exception, when it is none or has none. Lives as long as the framework. */
static inline const fbpy_exchange *fbpy_exchange_of(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, FBPY_EXCHANGE_CAPSULE))
        return NULL;
    const fbpy_exchange_header *header = PyCapsule_GetPointer(capsule, FBPY_EXCHANGE_CAPSULE);
    while (header && header->version.major != 1)
        header = header->previous;
    const fbpy_exchange *exchange = (const fbpy_exchange *)header;
    return exchange && exchange->to_py_object ? exchange : NULL;
}

#endif
