/*
 * Capsules of the Arrow PyCapsule interface (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).
 *
 * A capsule owns a heap copy of the struct. A consumer moves the content out and sets release to NULL; what it leaves, the
 * capsule's destructor releases.
 */
#include "module.h"

#define FBPY_CAPSULE(function, type, label)                                                                                                \
    static void function##_free(PyObject *capsule)                                                                                         \
    {                                                                                                                                      \
        struct type *held = PyCapsule_GetPointer(capsule, label);                                                                          \
        if (held && held->release)                                                                                                         \
            held->release(held);                                                                                                           \
        PyMem_RawFree(held);                                                                                                               \
    }                                                                                                                                      \
    PyObject *function(struct type *in)                                                                                                    \
    {                                                                                                                                      \
        struct type *held = PyMem_RawMalloc(sizeof *held);                                                                                 \
        PyObject *capsule = NULL;                                                                                                          \
        if (held) {                                                                                                                        \
            *held = *in;                                                                                                                   \
            capsule = PyCapsule_New(held, label, function##_free);                                                                         \
        } else {                                                                                                                           \
            PyErr_NoMemory();                                                                                                              \
        }                                                                                                                                  \
        if (!capsule) {                                                                                                                    \
            PyMem_RawFree(held);                                                                                                           \
            in->release(in);                                                                                                               \
        }                                                                                                                                  \
        return capsule;                                                                                                                    \
    }

FBPY_CAPSULE(fbpy_schema_capsule, ArrowSchema, "arrow_schema")
FBPY_CAPSULE(fbpy_array_capsule, ArrowArray, "arrow_array")
FBPY_CAPSULE(fbpy_stream_capsule, ArrowArrayStream, "arrow_array_stream")
