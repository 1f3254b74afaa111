/*
 * _forebay.Batch: the fby_batch behind a forebay.Batch. Gives its position and its Arrow form; the tensors are in the dict.
 */
#include "module.h"

typedef struct batch_object {
    PyObject_HEAD fby_batch *handle; /* owned */
} batch_object;

PyObject *fbpy_batch_new(fbpy_state *state, fby_batch *batch)
{
    batch_object *self = PyObject_New(batch_object, state->batch_type);
    if (!self) {
        fby_batch_unref(batch);
        return NULL;
    }
    self->handle = batch;
    return (PyObject *)self;
}

static void batch_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    fby_batch_unref(((batch_object *)op)->handle);
    PyObject_Free(op);
    Py_DECREF(type);
}

static PyObject *batch_arrow(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"requested_schema", NULL};
    PyObject *requested = Py_None; /* a wish that consumers must not rely on: they cast */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:__arrow_c_array__", keywords, &requested))
        return NULL;
    fbpy_state *state = fbpy_state_of(op);
    struct ArrowSchema schema;
    struct ArrowArray array;
    fby_error err = {.file_offset = -1};
    fby_status status = fby_batch_export_arrow(((batch_object *)op)->handle, &schema, &array, &err);
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    PyObject *first = fbpy_schema_capsule(&schema);
    if (!first) {
        array.release(&array);
        return NULL;
    }
    PyObject *second = fbpy_array_capsule(&array);
    if (!second) {
        Py_DECREF(first);
        return NULL;
    }
    return Py_BuildValue("NN", first, second);
}

static PyObject *batch_tensors(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_state *state = fbpy_state_of(op);
    fby_batch *handle = ((batch_object *)op)->handle;
    PyObject *list = PyList_New(0);
    for (size_t i = 0, n = fby_batch_tensor_count(handle); list && i < n; i++) {
        PyObject *tensor = fbpy_tensor_new(state, handle, i);
        if (!tensor || PyList_Append(list, tensor) < 0)
            Py_CLEAR(list);
        Py_XDECREF(tensor);
    }
    return list;
}

static PyObject *batch_size(PyObject *op, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(fby_batch_size(((batch_object *)op)->handle));
}

static PyObject *batch_index(PyObject *op, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(fby_batch_index(((batch_object *)op)->handle));
}

static PyObject *batch_epoch(PyObject *op, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(fby_batch_epoch(((batch_object *)op)->handle));
}

static PyMethodDef k_methods[] = {
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))batch_arrow, METH_VARARGS | METH_KEYWORDS,
     "__arrow_c_array__($self, requested_schema=None)\n--\n\n"
     "(arrow_schema capsule, arrow_array capsule), without a copy where Arrow has the layout."},
    {"tensors", batch_tensors, METH_NOARGS, "tensors()\n--\n\nThe tensors as a list of Tensor."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef k_getset[] = {
    {"size", batch_size, NULL, "Samples.", NULL},
    {"index", batch_index, NULL, "Position in the epoch, from 0.", NULL},
    {"epoch", batch_epoch, NULL, "Epoch, from 0.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot k_slots[] = {
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_methods, k_methods},
    {Py_tp_getset, k_getset},
    {Py_tp_doc, "One batch as an Arrow record batch: pyarrow.record_batch(batch.arrow)."},
    {0, NULL},
};

PyType_Spec fbpy_batch_spec = {
    .name = "forebay._forebay.Batch",
    .basicsize = sizeof(batch_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = k_slots,
};
