/*
 * _forebay.Tensor (forebay.Tensor): one tensor of a batch for programs without NumPy and torch.
 *
 * It speaks the buffer protocol (writable) and DLPack, both without a copy. It owns a reference to the fby_batch, so it stays valid
 * after the loader, the dataset and the batch are gone; what consumers export from it does too.
 */
#include "module.h"

#include <forebay/dlpack.h>

#include <math.h>

typedef struct tensor_object {
    PyObject_HEAD fby_batch *batch; /* owned */
    const fby_tensor *tensor;       /* borrowed from batch */
    size_t index;
    Py_ssize_t shape[FBY_MAX_DIMS], strides[FBY_MAX_DIMS]; /* as the buffer protocol wants them; strides in bytes */
} tensor_object;

/* struct-module letters of the dtypes; bfloat16 has none. */
static const char *format_of(fby_dtype dtype)
{
    switch (dtype) {
    case FBY_BOOL: return "?";
    case FBY_INT8: return "b";
    case FBY_INT16: return "h";
    case FBY_INT32: return "i";
    case FBY_INT64: return "q";
    case FBY_UINT8: return "B";
    case FBY_UINT16: return "H";
    case FBY_UINT32: return "I";
    case FBY_UINT64: return "Q";
    case FBY_FLOAT16: return "e";
    case FBY_FLOAT32: return "f";
    case FBY_FLOAT64: return "d";
    default: return NULL;
    }
}

PyObject *fbpy_tensor_new(fbpy_state *state, fby_batch *batch, size_t i)
{
    tensor_object *self = PyObject_New(tensor_object, state->tensor_type);
    if (!self)
        return NULL;
    const fby_tensor *t = fby_batch_tensor(batch, i);
    self->batch = fby_batch_ref(batch);
    self->tensor = t;
    self->index = i;
    Py_ssize_t stride = (Py_ssize_t)fby_dtype_bytes(t->dtype);
    for (int d = t->ndim - 1; d >= 0; d--) {
        self->shape[d] = (Py_ssize_t)t->shape[d];
        self->strides[d] = stride;
        stride *= t->shape[d] ? (Py_ssize_t)t->shape[d] : 1;
    }
    return (PyObject *)self;
}

static void tensor_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    fby_batch_unref(((tensor_object *)op)->batch);
    PyObject_Free(op);
    Py_DECREF(type);
}

/* ---- buffer protocol ---- */

static int tensor_getbuffer(PyObject *op, Py_buffer *view, int flags)
{
    tensor_object *self = (tensor_object *)op;
    const fby_tensor *t = self->tensor;
    static char k_empty[8]; /* a tensor without elements may have no memory; a buffer must */
    const char *format = format_of(t->dtype);

    view->obj = NULL;
    if (t->ndim > 1 && (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
        PyErr_SetString(PyExc_BufferError, "a Tensor is in C order, not in Fortran order");
        return -1;
    }
    if (!format && (flags & PyBUF_FORMAT)) {
        PyErr_SetString(PyExc_BufferError,
                        "the buffer protocol has no bfloat16: take the tensor through DLPack (torch.from_dlpack), ask for "
                        "float32, or install ml_dtypes for NumPy");
        return -1;
    }
    view->buf = t->data ? t->data : k_empty;
    view->len = (Py_ssize_t)t->bytes;
    view->readonly = 0;
    view->internal = NULL;
    view->suboffsets = NULL;
    if (flags & PyBUF_ND) {
        view->itemsize = (Py_ssize_t)fby_dtype_bytes(t->dtype);
        view->ndim = t->ndim;
        view->shape = self->shape;
        view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
        view->format = flags & PyBUF_FORMAT ? (char *)format : NULL;
    } else { /* plain bytes, as PyBuffer_FillInfo describes them */
        view->itemsize = 1;
        view->ndim = 1;
        view->shape = NULL;
        view->strides = NULL;
        view->format = flags & PyBUF_FORMAT ? (char *)"B" : NULL;
    }
    view->obj = Py_NewRef(op);
    return 0;
}

/* ---- DLPack ---- */

static void legacy_capsule_free(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor")) /* a consumer renamed it and owns the tensor now */
        return;
    DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
    if (managed->deleter)
        managed->deleter(managed);
}

static void versioned_capsule_free(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return;
    DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->deleter)
        managed->deleter(managed);
}

PyObject *fbpy_dlpack_capsule(fbpy_state *state, fby_batch *batch, size_t i, bool versioned)
{
    fby_error err = {.file_offset = -1};
    PyObject *capsule;
    fby_status status;
    if (versioned) {
        DLManagedTensorVersioned *managed = NULL;
        status = fby_batch_dlpack_versioned(batch, i, &managed, &err);
        if (status != FBY_OK)
            return fbpy_raise(state, status, &err);
        if (!(capsule = PyCapsule_New(managed, "dltensor_versioned", versioned_capsule_free)))
            managed->deleter(managed);
    } else {
        DLManagedTensor *managed = NULL;
        status = fby_batch_dlpack(batch, i, &managed, &err);
        if (status != FBY_OK)
            return fbpy_raise(state, status, &err);
        if (!(capsule = PyCapsule_New(managed, "dltensor", legacy_capsule_free)))
            managed->deleter(managed);
    }
    return capsule;
}

static PyObject *tensor_dlpack(PyObject *op, PyObject *args, PyObject *kwargs)
{
    tensor_object *self = (tensor_object *)op;
    static char *keywords[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    long major = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", keywords, &stream, &max_version, &device, &copy))
        return NULL;
    if (stream != Py_None) {
        PyErr_SetString(PyExc_BufferError, "the tensor is in CPU memory: stream must be None");
        return NULL;
    }
    if (device != Py_None) {
        long type, id;
        if (!PyArg_ParseTuple(device, "ll;dl_device must be (device type, device id)", &type, &id))
            return NULL;
        if (type != kDLCPU) {
            PyErr_SetString(PyExc_BufferError, "the tensor is in CPU memory and is not copied to another device here: move it with the "
                                               "framework that takes it");
            return NULL;
        }
    }
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "a Tensor is exported without a copy only: copy it with the framework that takes it");
        return NULL;
    }
    if (max_version != Py_None) {
        long minor;
        if (!PyArg_ParseTuple(max_version, "ll;max_version must be (major, minor)", &major, &minor))
            return NULL;
    }
    return fbpy_dlpack_capsule(fbpy_state_of(op), self->batch, self->index, major >= 1);
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("ii", kDLCPU, 0);
}

/* ---- looking ---- */

static PyObject *tensor_shape(PyObject *op, void *unused)
{
    (void)unused;
    tensor_object *self = (tensor_object *)op;
    PyObject *shape = PyTuple_New(self->tensor->ndim);
    for (int d = 0; shape && d < self->tensor->ndim; d++) {
        PyObject *n = PyLong_FromSsize_t(self->shape[d]);
        if (!n)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, d, n);
    }
    return shape;
}

static PyObject *tensor_dtype(PyObject *op, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(fby_dtype_name(((tensor_object *)op)->tensor->dtype));
}

static PyObject *tensor_ndim(PyObject *op, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((tensor_object *)op)->tensor->ndim);
}

static PyObject *tensor_nbytes(PyObject *op, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((tensor_object *)op)->tensor->bytes);
}

/* IEEE 754 binary16; Python's own PyFloat_Unpack2 is public from 3.11 on. */
static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double value = exponent == 31 ? (fraction ? Py_NAN : Py_HUGE_VAL)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return h & 0x8000 ? -value : value;
}

static double bfloat_value(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static PyObject *item_object(fby_dtype dtype, const void *item)
{
    switch (dtype) {
    case FBY_BOOL: return PyBool_FromLong(*(const uint8_t *)item);
    case FBY_INT8: return PyLong_FromLong(*(const int8_t *)item);
    case FBY_INT16: return PyLong_FromLong(*(const int16_t *)item);
    case FBY_INT32: return PyLong_FromLong(*(const int32_t *)item);
    case FBY_INT64: return PyLong_FromLongLong(*(const int64_t *)item);
    case FBY_UINT8: return PyLong_FromLong(*(const uint8_t *)item);
    case FBY_UINT16: return PyLong_FromLong(*(const uint16_t *)item);
    case FBY_UINT32: return PyLong_FromUnsignedLong(*(const uint32_t *)item);
    case FBY_UINT64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)item);
    case FBY_FLOAT16: return PyFloat_FromDouble(half_value(*(const uint16_t *)item));
    case FBY_BFLOAT16: return PyFloat_FromDouble(bfloat_value(*(const uint16_t *)item));
    case FBY_FLOAT32: return PyFloat_FromDouble((double)*(const float *)item);
    default: return PyFloat_FromDouble(*(const double *)item);
    }
}

/* Nested lists of axes [dim, ndim) from `item` on. */
static PyObject *axis_list(const tensor_object *self, int dim, const uint8_t *item)
{
    if (dim == self->tensor->ndim)
        return item_object(self->tensor->dtype, item);
    PyObject *list = PyList_New(self->shape[dim]);
    for (Py_ssize_t i = 0; list && i < self->shape[dim]; i++) {
        PyObject *value = axis_list(self, dim + 1, item + i * self->strides[dim]);
        if (!value)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, value);
    }
    return list;
}

static PyObject *tensor_tolist(PyObject *op, PyObject *unused)
{
    (void)unused;
    tensor_object *self = (tensor_object *)op;
    return axis_list(self, 0, self->tensor->data);
}

static Py_ssize_t tensor_length(PyObject *op)
{
    tensor_object *self = (tensor_object *)op;
    if (self->tensor->ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of a tensor without dimensions");
        return -1;
    }
    return self->shape[0];
}

static PyObject *tensor_repr(PyObject *op)
{
    PyObject *shape = tensor_shape(op, NULL);
    PyObject *text =
        shape ? PyUnicode_FromFormat("<forebay.Tensor %s %S of output '%s'>", fby_dtype_name(((tensor_object *)op)->tensor->dtype), shape,
                                     ((tensor_object *)op)->tensor->output)
              : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyMethodDef k_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule: versioned when max_version is (1, 0) or later. No copy; writable."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "__dlpack_device__($self)\n--\n\n(1, 0): the CPU."},
    {"tolist", tensor_tolist, METH_NOARGS, "tolist($self)\n--\n\nThe values as nested lists of Python numbers."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef k_getset[] = {
    {"shape", tensor_shape, NULL, "Tuple of int; the batch is the first axis.", NULL},
    {"dtype", tensor_dtype, NULL, "Name of the element type as NumPy spells it, or 'bfloat16'.", NULL},
    {"ndim", tensor_ndim, NULL, "Number of axes.", NULL},
    {"nbytes", tensor_nbytes, NULL, "Bytes of all elements.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot k_slots[] = {
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_methods, k_methods},
    {Py_tp_getset, k_getset},
    {Py_tp_repr, tensor_repr},
    {Py_sq_length, tensor_length},
    {Py_bf_getbuffer, tensor_getbuffer},
    {Py_tp_doc, "One tensor of a batch: C order, writable, in CPU memory that it keeps alive.\n\n"
                "Take it with memoryview(t), numpy.asarray(t), or the from_dlpack of any framework; none of them copies."},
    {0, NULL},
};

PyType_Spec fbpy_tensor_spec = {
    .name = "forebay._forebay.Tensor",
    .basicsize = sizeof(tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = k_slots,
};
