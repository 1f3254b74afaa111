/*
 * The thread of a transform (python/forebay/_transform.py) and the library: batches go to it, what it makes of them comes back. The rest is the
 * library's: whose turn it is, how far ahead of the program, when the epoch is over.
 */
#include "loader.h"

/* Drops a result that nobody wants any more: on any thread of Python's, with or without the GIL. */
static void drop(void *result)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)result);
    PyGILState_Release(gil);
}

PyObject *fbpy_loader_transform_next(PyObject *op, PyObject *epochs_begun)
{
    fbpy_loader *self = (fbpy_loader *)op;
    unsigned long long epoch;
    fby_batch *batch = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    if (!fbpy_as_u64(epochs_begun, &epoch))
        return NULL;
    fby_loader *handle = self->handle;
    if (!handle || self->close_requested)
        Py_RETURN_NONE;
    self->users++; /* until transform_done(), where there is a batch */
    Py_BEGIN_ALLOW_THREADS status = fby_loader_transform_next(handle, epoch, &batch, &err);
    Py_END_ALLOW_THREADS if (status == FBY_OK) return fbpy_loader_deliver(fbpy_state_of(op), self, batch);
    fbpy_loader_unuse(self);
    Py_RETURN_NONE;
}

PyObject *fbpy_loader_transform_done(PyObject *op, PyObject *args)
{
    fbpy_loader *self = (fbpy_loader *)op;
    PyObject *result;
    int failed;
    fby_error err = {.file_offset = -1};
    const fby_error why = {.code = FBY_E_ARG, .file_offset = -1, .message = "the transform raised an exception"};
    if (!PyArg_ParseTuple(args, "Op", &result, &failed))
        return NULL;
    if (self->handle && self->users) { /* it waits for nothing: the GIL is kept */
        (void)fby_loader_transform_done(self->handle, Py_NewRef(result), drop, failed ? &why : NULL, &err);
        fbpy_loader_unuse(self);
    }
    Py_RETURN_NONE;
}
