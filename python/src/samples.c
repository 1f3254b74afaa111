/* _forebay.Samples: an fby_samples. forebay/_samples.py makes it readable. */
#include "module.h"

typedef struct samples_object {
    PyObject_HEAD fby_samples *handle; /* owned */
} samples_object;

fby_samples *fbpy_samples_acquire(fbpy_state *state, PyObject *samples)
{
    if (!Py_IS_TYPE(samples, state->samples_type)) {
        PyErr_Format(PyExc_TypeError, "a _forebay.Samples is expected, not %s", fbpy_type_name(samples));
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

PyObject *fbpy_samples_new(fbpy_state *state, fby_samples *handle)
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

/* ---- what Python gives ---- */

/* A list of values: buffer of int64, tuple of str, or None = no values. */
typedef struct value_list {
    fby_values values;
    Py_buffer numbers;
    const char **texts;
} value_list;

static void value_list_fini(value_list *v)
{
    if (v->numbers.obj)
        PyBuffer_Release(&v->numbers);
    PyMem_Free(v->texts);
    *v = (value_list){0};
}

static int value_list_parse(PyObject *given, value_list *out)
{
    *out = (value_list){0};
    if (given == Py_None)
        return 0;
    if (!PyTuple_Check(given)) {
        if (PyObject_GetBuffer(given, &out->numbers, PyBUF_SIMPLE) < 0)
            return -1;
        out->values = (fby_values){.numbers = out->numbers.buf, .n = (size_t)out->numbers.len / sizeof(int64_t)};
        return 0;
    }
    size_t n = (size_t)PyTuple_GET_SIZE(given);
    if (!(out->texts = PyMem_Calloc(n + 1, sizeof *out->texts))) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        if (!(out->texts[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(given, (Py_ssize_t)i))))
            return -1;
    out->values = (fby_values){.texts = out->texts, .n = n};
    return 0;
}

/* None, an int, a float, or a date as a str, which is borrowed. */
static int bound_parse(PyObject *given, fby_bound *out)
{
    *out = (fby_bound){.given = given != Py_None, .is_real = PyFloat_Check(given)};
    if (out->is_real)
        out->real = PyFloat_AsDouble(given);
    else if (PyUnicode_Check(given))
        out->text = PyUnicode_AsUTF8(given);
    else if (out->given)
        out->number = PyLong_AsLongLong(given);
    return PyErr_Occurred() ? -1 : 0;
}

/* A buffer of n elements of float64 or of uint32, or nothing. */
static int numbers_parse(PyObject *given, Py_buffer *out, size_t n, size_t element_bytes)
{
    *out = (Py_buffer){0};
    if (given == Py_None)
        return 0;
    if (PyObject_GetBuffer(given, out, PyBUF_SIMPLE) < 0)
        return -1;
    if ((size_t)out->len == n * element_bytes)
        return 0;
    PyErr_Format(PyExc_ValueError, "%zd numbers for %zu", out->len / (Py_ssize_t)element_bytes, n);
    return -1;
}

static PyObject *finish(fbpy_state *state, fby_status status, fby_samples *handle, const fby_error *err)
{
    return status == FBY_OK ? fbpy_samples_new(state, handle) : fbpy_raise(state, status, err);
}

/* ---- opening ---- */

const char *const fbpy_sample_kinds[] = {[FBY_SAMPLES_ROWS] = "rows", [FBY_SAMPLES_WINDOWS] = "windows", [FBY_SAMPLES_GROUPS] = "groups"};

static PyObject *open_samples(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *dataset, *given, *table, *result = NULL;
    const char *kind;
    fby_samples_opts opts = {.size = sizeof opts};
    fbpy_room room = {0};
    fby_dataset *ds = NULL;
    fby_samples *handle = NULL;
    fby_error err = {.file_offset = -1};
    PyThreadState *thread = NULL;
    fbpy_progress progress = {.thread = &thread};
    fbpy_wait wait = {0};
    fby_status status;

    if (!PyArg_ParseTuple(args, "OsO!", &dataset, &kind, &PyDict_Type, &given))
        return NULL;
    while (opts.kind < FBY_SAMPLES_GROUPS && strcmp(fbpy_sample_kinds[opts.kind], kind) != 0)
        opts.kind++;
    if (fbpy_options_parse(opts.kind == FBY_SAMPLES_GROUPS ? FBY_OPTIONS_GROUPS : FBY_OPTIONS_WINDOWS, given, &room, &opts) < 0)
        goto done;
    if ((table = fbpy_option_given(given, "table")) != Py_None && !(opts.table = fbpy_dataset_acquire(state, table)))
        goto done;
    if (!(ds = fbpy_dataset_acquire(state, dataset)))
        goto done;
    opts.progress = fbpy_progress_of(given, &progress);
    opts.progress_user = &progress;
    while (fbpy_wait_call(&wait, &status)) {
        thread = PyEval_SaveThread();
        status = fby_samples_open(ds, &opts, &handle, &err);
        PyEval_RestoreThread(thread);
    }
    thread = PyEval_SaveThread();
    fby_dataset_close(ds);
    fby_dataset_close(opts.table);
    opts.table = NULL;
    PyEval_RestoreThread(thread);
    if (progress.failed) {
        if (status == FBY_OK)
            release(handle);
    } else if (status != FBY_OK) {
        fbpy_raise(state, status, &err);
    } else {
        result = fbpy_samples_new(state, handle);
    }
done:
    if (opts.table) {
        Py_BEGIN_ALLOW_THREADS fby_dataset_close(opts.table);
        Py_END_ALLOW_THREADS
    }
    fbpy_room_free(&room);
    return result;
}

PyMethodDef fbpy_samples_functions[] = {
    {"open_samples", open_samples, METH_VARARGS,
     "open_samples(dataset, kind, options)\n--\n\nThe samples of a dataset: rows, windows or groups."},
    {NULL, NULL, 0, NULL},
};

/* A dict of options; TypeError for anything else. */
static int parse(fby_option_set set, PyObject *given, fbpy_room *room, void *opts)
{
    if (PyDict_Check(given))
        return fbpy_options_parse(set, given, room, opts);
    PyErr_Format(PyExc_TypeError, "a dict of options is expected, not %s", fbpy_type_name(given));
    return -1;
}

static PyObject *samples_select(PyObject *op, PyObject *given)
{
    fbpy_state *state = fbpy_state_of(op);
    PyObject *table, *result = NULL;
    fby_select_opts opts = {.size = sizeof opts};
    fbpy_room room = {0};
    value_list list = {0};
    const fby_samples *self = ((samples_object *)op)->handle;
    fby_samples *handle = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    if (parse(FBY_OPTIONS_SELECT, given, &room, &opts) < 0 || value_list_parse(fbpy_option_given(given, "values"), &list) < 0 ||
        bound_parse(fbpy_option_given(given, "low"), &opts.low) < 0 || bound_parse(fbpy_option_given(given, "high"), &opts.high) < 0)
        goto done;
    if ((table = fbpy_option_given(given, "table")) != Py_None && !(opts.table = fbpy_dataset_acquire(state, table)))
        goto done;
    opts.values = list.values;
    FBPY_WAIT(status, fby_samples_select(self, &opts, &handle, &err));
    Py_BEGIN_ALLOW_THREADS fby_dataset_close(opts.table);
    Py_END_ALLOW_THREADS result = finish(state, status, handle, &err);
done:
    value_list_fini(&list);
    fbpy_room_free(&room);
    return result;
}

static PyObject *samples_limit(PyObject *op, PyObject *args)
{
    unsigned long long n, seed;
    int random;
    fby_samples *handle = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    if (!PyArg_ParseTuple(args, "KpK", &n, &random, &seed))
        return NULL;
    const fby_samples *self = ((samples_object *)op)->handle;
    FBPY_WAIT(status, fby_samples_limit(self, n, random, seed, &handle, &err));
    return finish(fbpy_state_of(op), status, handle, &err);
}

/* A buffer of uint64. */
static PyObject *samples_take(PyObject *op, PyObject *given)
{
    Py_buffer indices;
    fby_samples *handle = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    if (PyObject_GetBuffer(given, &indices, PyBUF_SIMPLE) < 0)
        return NULL;
    const fby_samples *self = ((samples_object *)op)->handle;
    FBPY_WAIT(status, fby_samples_take(self, indices.buf, (size_t)indices.len / sizeof(uint64_t), &handle, &err));
    PyBuffer_Release(&indices);
    return finish(fbpy_state_of(op), status, handle, &err);
}

/* splits: ((name, fraction, keys or None), …) */
static int splits_parse(PyObject *splits, fby_split *out, value_list *lists)
{
    for (Py_ssize_t p = 0; p < PyTuple_GET_SIZE(splits); p++) {
        PyObject *keys;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(splits, p), "sdO", &out[p].name, &out[p].fraction, &keys) ||
            value_list_parse(keys, &lists[p]) < 0)
            return -1;
        out[p].keys = lists[p].values;
    }
    return 0;
}

/* The handles as a tuple. Once there is no memory, the rest is released; wrap releases its own. */
static PyObject *wrap_all(fbpy_state *state, fby_samples **handles, size_t n)
{
    PyObject *result = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; i < n; i++) {
        if (!result) {
            release(handles[i]);
            continue;
        }
        PyObject *one = fbpy_samples_new(state, handles[i]);
        if (one)
            PyTuple_SET_ITEM(result, (Py_ssize_t)i, one);
        else
            Py_CLEAR(result);
    }
    return result;
}

static PyObject *samples_split(PyObject *op, PyObject *args)
{
    fbpy_state *state = fbpy_state_of(op);
    PyObject *given, *options, *result = NULL;
    fby_split_opts opts = {.size = sizeof opts};
    fbpy_room room = {0};
    fby_error err = {.file_offset = -1};
    fby_status status;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &given, &PyDict_Type, &options))
        return NULL;
    size_t n = (size_t)PyTuple_GET_SIZE(given);
    fby_split *splits = PyMem_Calloc(n + 1, sizeof *splits);
    value_list *lists = PyMem_Calloc(n + 1, sizeof *lists);
    fby_samples **handles = PyMem_Calloc(n + 1, sizeof *handles);
    if (!splits || !lists || !handles) {
        PyErr_NoMemory();
    } else if (parse(FBY_OPTIONS_SPLIT, options, &room, &opts) == 0 && splits_parse(given, splits, lists) == 0) {
        const fby_samples *self = ((samples_object *)op)->handle;
        FBPY_WAIT(status, fby_samples_split(self, &opts, splits, n, handles, &err));
        result = status == FBY_OK ? wrap_all(state, handles, n) : fbpy_raise(state, status, &err);
    }
    for (size_t p = 0; lists && p < n; p++)
        value_list_fini(&lists[p]);
    PyMem_Free(lists);
    PyMem_Free(splits);
    PyMem_Free(handles);
    fbpy_room_free(&room);
    return result;
}

static PyObject *samples_oversample(PyObject *op, PyObject *given)
{
    PyObject *result = NULL;
    fby_oversample_opts opts = {.size = sizeof opts};
    fbpy_room room = {0};
    value_list list = {0};
    Py_buffer numbers = {0};
    fby_samples *handle = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    if (parse(FBY_OPTIONS_OVERSAMPLE, given, &room, &opts) == 0 && value_list_parse(fbpy_option_given(given, "values"), &list) == 0 &&
        numbers_parse(fbpy_option_given(given, "factors"), &numbers, list.values.n, sizeof *opts.factors) == 0) {
        opts.values = list.values;
        opts.factors = numbers.buf;
        const fby_samples *self = ((samples_object *)op)->handle;
        FBPY_WAIT(status, fby_samples_oversample(self, &opts, &handle, &err));
        result = finish(fbpy_state_of(op), status, handle, &err);
    }
    if (numbers.obj)
        PyBuffer_Release(&numbers);
    value_list_fini(&list);
    fbpy_room_free(&room);
    return result;
}

static PyObject *samples_resample(PyObject *op, PyObject *given)
{
    PyObject *result = NULL;
    fby_resample_opts opts = {.size = sizeof opts};
    fbpy_room room = {0};
    value_list list = {0};
    Py_buffer each = {0}, by_class = {0};
    fby_samples *handle = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    const fby_samples *self = ((samples_object *)op)->handle;
    if (parse(FBY_OPTIONS_RESAMPLE, given, &room, &opts) == 0 && value_list_parse(fbpy_option_given(given, "values"), &list) == 0 &&
        numbers_parse(fbpy_option_given(given, "weights"), &each, (size_t)fby_samples_count(self), sizeof(double)) == 0 &&
        numbers_parse(fbpy_option_given(given, "class_weights"), &by_class, list.values.n, sizeof(double)) == 0) {
        opts.weights = each.buf;
        opts.values = list.values;
        opts.class_weights = by_class.buf;
        FBPY_WAIT(status, fby_samples_resample(self, &opts, &handle, &err));
        result = finish(fbpy_state_of(op), status, handle, &err);
    }
    if (each.obj)
        PyBuffer_Release(&each);
    if (by_class.obj)
        PyBuffer_Release(&by_class);
    value_list_fini(&list);
    fbpy_room_free(&room);
    return result;
}

static PyObject *samples_counts(PyObject *op, PyObject *unused)
{
    (void)unused;
    const fby_samples *self = ((samples_object *)op)->handle;
    return Py_BuildValue("KK", (unsigned long long)fby_samples_count(self), (unsigned long long)fby_samples_max_rows(self));
}

static PyObject *samples_notes(PyObject *op, PyObject *unused)
{
    (void)unused;
    const fby_samples *self = ((samples_object *)op)->handle;
    PyObject *notes = PyList_New(0);
    const char *text;
    for (size_t i = 0; notes && (text = fby_samples_note(self, i)); i++) {
        PyObject *note = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
        if (!note || PyList_Append(notes, note) < 0)
            Py_CLEAR(notes);
        Py_XDECREF(note);
    }
    return notes ? Py_BuildValue("NK", notes, (unsigned long long)fby_samples_files_dropped(self)) : NULL;
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
    {"split", samples_split, METH_VARARGS, "split(((name, fraction, keys), …), options)\n--\n\nParts that have nothing in common."},
    {"select", samples_select, METH_O, "select(options)\n--\n\nThose with certain values."},
    {"limit", samples_limit, METH_VARARGS, "limit(n, random, seed)\n--\n\nAt most n of them."},
    {"take", samples_take, METH_O, "take(indices)\n--\n\nThose that are listed."},
    {"oversample", samples_oversample, METH_O, "oversample(options)\n--\n\nEach as often as its class says."},
    {"resample", samples_resample, METH_O, "resample(options)\n--\n\nDrawn in proportion to weights."},
    {"notes", samples_notes, METH_NOARGS, "notes()\n--\n\n(sentences, files of which drop_missing leaves nothing)."},
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
