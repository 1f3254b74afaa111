/*
 * _forebay.Iterator: one epoch of a loader, and how its batches become what users get.
 *
 * Waiting happens in slices of 50 ms, between which signals are looked at: Ctrl-C interrupts a wait of any length.
 */
#include "loader.h"

#include <unistd.h>

#define WAIT_SLICE_NS 50000000

typedef struct iterator_object {
    PyObject_HEAD fbpy_loader *loader; /* owned */
    uint64_t generation;
    bool done;
} iterator_object;

/* ---- delivering ---- */

static PyObject *deliver_tensor(fbpy_state *state, fbpy_loader *self, fby_batch *batch, size_t i)
{
    if (self->mode == FBPY_DELIVER_TORCH && self->exchange) {
        DLManagedTensorVersioned *managed = NULL;
        void *tensor = NULL;
        fby_error err = {.file_offset = -1};
        const fby_status status = fby_batch_dlpack_versioned(batch, i, &managed, &err);
        if (status != FBY_OK)
            return fbpy_raise(state, status, &err);
        return self->exchange->to_py_object(managed, &tensor) == 0 ? tensor : NULL;
    }
    if (self->mode == FBPY_DELIVER_TORCH) {
        PyObject *capsule = fbpy_dlpack_capsule(state, batch, i, false);
        PyObject *tensor = capsule ? PyObject_CallFunctionObjArgs(self->convert, capsule, NULL) : NULL;
        Py_XDECREF(capsule);
        return tensor;
    }
    PyObject *tensor = fbpy_tensor_new(state, batch, i);
    if (!tensor || self->mode == FBPY_DELIVER_TENSOR)
        return tensor;
    /* numpy.ndarray(shape, dtype, buffer): no copy, writable, and no parsing of a format string. */
    const fby_tensor *t = fby_batch_tensor(batch, i);
    PyObject *array = NULL, *shape = PyTuple_New(t->ndim);
    for (int d = 0; shape && d < t->ndim; d++) {
        PyObject *extent = PyLong_FromLongLong(t->shape[d]);
        if (!extent)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, d, extent);
    }
    if (shape) {
        array = PyObject_CallFunctionObjArgs(self->convert, shape, PyTuple_GET_ITEM(self->dtypes, (Py_ssize_t)i), tensor, NULL);
    }
    Py_XDECREF(shape);
    Py_DECREF(tensor);
    return array;
}

/* Value of output o, whose first tensor is *i; moves *i past its tensors. */
static PyObject *deliver_output(fbpy_state *state, fbpy_loader *self, fby_batch *batch, Py_ssize_t o, size_t *i)
{
    PyObject *wrapper = PyTuple_GET_ITEM(self->wrappers, o);
    PyObject *values = deliver_tensor(state, self, batch, (*i)++);
    if (!values || wrapper == Py_None)
        return values;
    PyObject *offsets = deliver_tensor(state, self, batch, (*i)++), *result = NULL;
    if (offsets) {
        result = PyObject_CallFunctionObjArgs(wrapper, values, offsets, NULL);
        Py_DECREF(offsets);
    }
    Py_DECREF(values);
    return result;
}

PyObject *fbpy_loader_deliver(fbpy_state *state, fbpy_loader *self, fby_batch *batch)
{
    Py_ssize_t n = PyTuple_GET_SIZE(self->names);
    PyObject *result = NULL, *values = NULL;
    size_t tensor = 0;

    if (self->as_dict) {
        if (!(result = PyObject_CallNoArgs(self->container)))
            goto fail;
        for (Py_ssize_t o = 0; o < n; o++) {
            PyObject *value = deliver_output(state, self, batch, o, &tensor);
            int rc = value ? PyDict_SetItem(result, PyTuple_GET_ITEM(self->names, o), value) : -1;
            Py_XDECREF(value);
            if (rc < 0)
                goto fail;
        }
        PyObject *core = fbpy_batch_new(state, batch);
        batch = NULL;
        int rc = core ? PyObject_SetAttr(result, state->name_core, core) : -1;
        Py_XDECREF(core);
        if (rc < 0)
            goto fail;
        return result;
    }
    if (!(values = PyTuple_New(n)))
        goto fail;
    for (Py_ssize_t o = 0; o < n; o++) {
        PyObject *value = deliver_output(state, self, batch, o, &tensor);
        if (!value)
            goto fail;
        PyTuple_SET_ITEM(values, o, value);
    }
    fby_batch_unref(batch);
    if (!self->container)
        return values;
    result = PyObject_CallObject(self->container, values);
    Py_DECREF(values);
    return result;
fail:
    fby_batch_unref(batch);
    Py_XDECREF(values);
    Py_XDECREF(result);
    return NULL;
}

/* ---- one epoch ---- */

PyObject *fbpy_loader_begin(PyObject *op, PyObject *args)
{
    fbpy_loader *self = (fbpy_loader *)op;
    fbpy_state *state = fbpy_state_of(op);
    unsigned long long epoch, batch;
    int follow = 0;
    fby_error err = {.file_offset = -1};
    if (!PyArg_ParseTuple(args, "O&O&|p", fbpy_as_u64, &epoch, fbpy_as_u64, &batch, &follow))
        return NULL;
    fby_loader *handle = fbpy_loader_usable(self);
    if (!handle)
        return NULL;
    if (!self->names)
        return fbpy_raise_text(state, FBY_E_STATE, "configure() comes first");
    iterator_object *iterator = NULL;
    if (!follow) {
        iterator = (iterator_object *)PyType_GenericAlloc(state->iterator_type, 0);
        if (!iterator)
            return NULL;
        iterator->done = true; /* until the epoch has begun: dealloc then leaves the loader alone */
        iterator->loader = (fbpy_loader *)Py_NewRef(op);
        self->generation++; /* older iterators are over from here on, also when begin fails */
    }
    fbpy_loader_enter(self);
    fby_status status;
    FBPY_WAIT(status, fby_loader_begin_at(handle, epoch, batch, &err));
    if (status != FBY_OK)
        fbpy_loader_cancel(self); /* no iterator is left that would */
    if (!fbpy_loader_leave(self) || status != FBY_OK) {
        Py_XDECREF((PyObject *)iterator);
        return PyErr_Occurred() ? NULL : fbpy_raise(state, status, &err);
    }
    self->taken = false;
    self->epochs_begun = fby_loader_epochs_begun(handle);
    if (follow)
        Py_RETURN_NONE;
    self->held = true;
    iterator->generation = self->generation;
    iterator->done = false;
    return (PyObject *)iterator;
}

/* A range of torch's profiler while that runs; else NULL, with an exception when it failed. */
static PyObject *profiler_range(const fbpy_loader *loader)
{
    PyObject *runs = loader->profiler_runs ? PyObject_CallNoArgs(loader->profiler_runs) : NULL, *range = NULL;
    if (runs == Py_True)
        range = PyObject_CallNoArgs(loader->profiler_enter);
    Py_XDECREF(runs);
    return range;
}

static int leave_range(PyObject *range)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback); /* of the batch: it goes before one of the profiler */
    PyObject *result = PyObject_CallMethod(range, "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (type && !result)
        fbpy_error_drop();
    Py_DECREF(range);
    Py_XDECREF(result);
    if (type)
        PyErr_Restore(type, value, traceback);
    return result ? 0 : -1;
}

static PyObject *next_batch(PyObject *op)
{
    iterator_object *self = (iterator_object *)op;
    fbpy_loader *loader = self->loader;
    fbpy_state *state = fbpy_state_of(op);
    fby_error err = {.file_offset = -1};
    fby_batch *batch = NULL;
    void *result = NULL; /* or the exception of a transform */
    fby_status status;

    if (self->generation != loader->generation)
        return fbpy_raise_text(state, FBY_E_STATE,
                               "this iterator is over: iter() was called again on its loader, or a state was loaded into it. One loader "
                               "runs one epoch at a time; "
                               "make a second loader to iterate twice at once");
    fby_loader *handle = fbpy_loader_usable(loader);
    if (!handle)
        return NULL;
    fbpy_loader_enter(loader);
    do {
        Py_BEGIN_ALLOW_THREADS status = loader->transforms ? fby_loader_next_result(handle, WAIT_SLICE_NS, &result, &err)
                                                           : fby_loader_next(handle, WAIT_SLICE_NS, &batch, &err);
        if (batch && loader->pinned_for >= 0 && !fbpy_batch_pin(batch, loader->pinned_for))
            loader->pinned_for = -1; /* copies of it then take another way */
        Py_END_ALLOW_THREADS
    } while (status == FBY_TIMEOUT && !loader->close_requested && PyErr_CheckSignals() == 0);
    const bool open = fbpy_loader_leave(loader);
    if (open && status == FBY_TIMEOUT) /* a signal's handler has raised */
        return NULL;
    loader->taken = true;
    self->done = !open || status != FBY_OK;
    if (open && status == FBY_OK)
        return loader->transforms ? result : fbpy_loader_deliver(state, loader, batch);
    if (open && result) /* what a transform raised */
        PyErr_SetObject((PyObject *)Py_TYPE((PyObject *)result), result);
    else if (open && status != FBY_END)
        fbpy_raise(state, status, &err);
    fby_batch_unref(batch);
    Py_XDECREF((PyObject *)result);
    return NULL;
}

static PyObject *iterator_next(PyObject *op)
{
    if (((iterator_object *)op)->done) /* one that the collector has cleared, too: it has no loader */
        return NULL;
    PyObject *range = profiler_range(((iterator_object *)op)->loader);
    if (!range)
        return PyErr_Occurred() ? NULL : next_batch(op);
    PyObject *batch = next_batch(op);
    if (leave_range(range) < 0)
        Py_CLEAR(batch);
    return batch;
}

static int iterator_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(((iterator_object *)op)->loader);
    return 0;
}

/*
 * An epoch left early (break, an exception) is cancelled, so that nothing more is read or transformed for it. Not in a forked child: there is
 * nothing to cancel there, and a thread that the child does not have may hold the lock.
 */
static int iterator_clear(PyObject *op)
{
    iterator_object *self = (iterator_object *)op;
    fbpy_loader *loader = self->loader;
    const bool left = loader && !self->done && self->generation == loader->generation;
    self->loader = NULL;
    self->done = true;
    if (left) {
        loader->held = false;
        if (loader->handle && loader->pid == getpid())
            fbpy_loader_cancel(loader);
    }
    Py_XDECREF((PyObject *)loader);
    return 0;
}

static void iterator_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    (void)iterator_clear(op);
    PyObject_GC_Del(op);
    Py_DECREF(type);
}

static PyObject *iterator_length_hint(PyObject *op, PyObject *unused)
{
    (void)unused;
    iterator_object *self = (iterator_object *)op;
    fby_loader *handle = self->done ? NULL : self->loader->handle;
    return PyLong_FromUnsignedLongLong(handle ? fby_loader_batch_count(handle) : 0);
}

static PyMethodDef k_iterator_methods[] = {
    {"__length_hint__", iterator_length_hint, METH_NOARGS, "Batches of the epoch."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot k_iterator_slots[] = {
    {Py_tp_dealloc, iterator_dealloc},     {Py_tp_traverse, iterator_traverse},
    {Py_tp_clear, iterator_clear},         {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, iterator_next},       {Py_tp_methods, k_iterator_methods},
    {Py_tp_doc, "One epoch of a loader."}, {0, NULL},
};

PyType_Spec fbpy_iterator_spec = {
    .name = "forebay._forebay.Iterator",
    .basicsize = sizeof(iterator_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = k_iterator_slots,
};
