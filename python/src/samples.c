/* _forebay.Samples: an fby_samples. forebay/_samples.py makes it readable. */
#include "module.h"

typedef struct samples_object {
    PyObject_HEAD fby_samples *handle; /* owned */
} samples_object;

fby_samples *fbpy_samples_acquire(fbpy_state *state, PyObject *samples)
{
    if (!Py_IS_TYPE(samples, state->samples_type)) {
        PyErr_Format(PyExc_TypeError, "a _forebay.Samples is expected, not %s", Py_TYPE(samples)->tp_name);
        return NULL;
    }
    return fby_samples_ref(((samples_object *)samples)->handle);
}

/* The last reference may close the dataset, which may give Python buffers back: never with the GIL held. */
static void release(fby_samples *handle)
{
    Py_BEGIN_ALLOW_THREADS fby_samples_close(handle);
    Py_END_ALLOW_THREADS
}

static PyObject *wrap(fbpy_state *state, fby_samples *handle)
{
    samples_object *self = PyObject_New(samples_object, state->samples_type);
    if (!self) {
        release(handle);
        return NULL;
    }
    self->handle = handle;
    return (PyObject *)self;
}

static void samples_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    release(((samples_object *)op)->handle);
    PyObject_Free(op);
    Py_DECREF(type);
}

static PyObject *open_samples(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *dataset, *drop, *callback, *result = NULL;
    int kind;
    unsigned long long input, output, stride;
    long long step;
    fby_samples_opts opts = {.size = sizeof opts};
    fby_dataset *ds = NULL;
    fby_samples *handle = NULL;
    fby_error err = {.file_offset = -1};
    PyThreadState *thread = NULL;
    fbpy_progress progress = {.thread = &thread};
    const char **names;
    fby_status status;

    if (!PyArg_ParseTuple(args, "OiKKKzzLO!iO", &dataset, &kind, &input, &output, &stride, &opts.key, &opts.time, &step, &PyTuple_Type,
                          &drop, &opts.n_threads, &callback))
        return NULL;
    opts.kind = (fby_sample_kind)kind;
    opts.input = input;
    opts.output = output;
    opts.stride = stride;
    opts.step = step;
    opts.n_drop_missing = (size_t)PyTuple_GET_SIZE(drop);
    if (!(names = PyMem_Calloc(opts.n_drop_missing + 1, sizeof *names)))
        return PyErr_NoMemory();
    opts.drop_missing = names;
    for (size_t i = 0; i < opts.n_drop_missing; i++)
        if (!(names[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(drop, (Py_ssize_t)i))))
            goto done;
    if (!(ds = fbpy_dataset_acquire(state, dataset)))
        goto done;
    if (callback != Py_None) {
        progress.callback = callback;
        opts.progress = fbpy_progress_call;
        opts.progress_user = &progress;
    }
    thread = PyEval_SaveThread();
    status = fby_samples_open(ds, &opts, &handle, &err);
    fby_dataset_close(ds);
    PyEval_RestoreThread(thread);
    if (progress.failed) {
        if (status == FBY_OK)
            release(handle);
    } else if (status != FBY_OK) {
        fbpy_raise(state, status, &err);
    } else {
        result = wrap(state, handle);
    }
done:
    PyMem_Free(names);
    return result;
}

PyMethodDef fbpy_samples_functions[] = {
    {"open_samples", open_samples, METH_VARARGS,
     "open_samples(dataset, kind, input, output, stride, key, time, step, drop_missing, threads, progress)\n--\n\n"
     "The samples of a dataset."},
    {NULL, NULL, 0, NULL},
};

static PyObject *samples_split(PyObject *op, PyObject *args)
{
    fbpy_state *state = fbpy_state_of(op);
    int kind;
    double from, to;
    unsigned long long seed;
    fby_samples *handle = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    if (!PyArg_ParseTuple(args, "iddK", &kind, &from, &to, &seed))
        return NULL;
    const fby_samples *self = ((samples_object *)op)->handle;
    Py_BEGIN_ALLOW_THREADS status = fby_samples_split(self, (fby_split_kind)kind, from, to, seed, &handle, &err);
    Py_END_ALLOW_THREADS return status == FBY_OK ? wrap(state, handle) : fbpy_raise(state, status, &err);
}

static PyObject *samples_counts(PyObject *op, PyObject *unused)
{
    (void)unused;
    const fby_samples *self = ((samples_object *)op)->handle;
    return Py_BuildValue("KK", (unsigned long long)fby_samples_count(self), (unsigned long long)fby_samples_max_rows(self));
}

static PyObject *samples_get(PyObject *op, PyObject *args)
{
    unsigned long long i;
    uint64_t row, rows;
    fby_error err = {.file_offset = -1};
    if (!PyArg_ParseTuple(args, "K", &i))
        return NULL;
    fby_status status = fby_samples_get(((samples_object *)op)->handle, i, &row, &rows, &err);
    return status == FBY_OK ? Py_BuildValue("KK", (unsigned long long)row, (unsigned long long)rows)
                            : fbpy_raise(fbpy_state_of(op), status, &err);
}

static PyMethodDef k_methods[] = {
    {"split", samples_split, METH_VARARGS, "split(kind, from, to, seed)\n--\n\nA part of them."},
    {"counts", samples_counts, METH_NOARGS, "counts()\n--\n\n(samples, rows of the longest one)."},
    {"get", samples_get, METH_VARARGS, "get(i)\n--\n\n(first row in the dataset, rows) of sample i."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot k_slots[] = {
    {Py_tp_dealloc, samples_dealloc},
    {Py_tp_methods, k_methods},
    {Py_tp_doc, "An fby_samples."},
    {0, NULL},
};

PyType_Spec fbpy_samples_spec = {
    .name = "forebay._forebay.Samples",
    .basicsize = sizeof(samples_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = k_slots,
};
