/*
 * _forebay.Loader: an fby_loader. What it shares with its iterators (iterator.c), and the rules that both keep, is loader.h.
 */
#include "loader.h"

#include <structmember.h>
#include <unistd.h>

/* ---- life ---- */

/* Joins threads: never with the GIL held, since they may need it to give Python buffers back. */
void fbpy_loader_close_handle(fbpy_loader *self)
{
    fby_loader *handle = self->handle;
    self->handle = NULL;
    self->close_requested = false;
    if (handle) {
        Py_BEGIN_ALLOW_THREADS fby_loader_close(handle);
        Py_END_ALLOW_THREADS
    }
}

static int loader_traverse(PyObject *op, visitproc visit, void *arg)
{
    fbpy_loader *self = (fbpy_loader *)op;
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(self->convert);
    Py_VISIT(self->dtypes);
    Py_VISIT(self->names);
    Py_VISIT(self->wrappers);
    Py_VISIT(self->container);
    Py_VISIT(self->profiler_runs);
    Py_VISIT(self->profiler_enter);
    return 0;
}

static int loader_clear(PyObject *op)
{
    fbpy_loader *self = (fbpy_loader *)op;
    Py_CLEAR(self->convert);
    Py_CLEAR(self->dtypes);
    Py_CLEAR(self->names);
    Py_CLEAR(self->wrappers);
    Py_CLEAR(self->container);
    Py_CLEAR(self->profiler_runs);
    Py_CLEAR(self->profiler_enter);
    return 0;
}

static void loader_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    if (((fbpy_loader *)op)->weakrefs)
        PyObject_ClearWeakRefs(op);
    fbpy_loader_close_handle((fbpy_loader *)op);
    (void)loader_clear(op);
    PyObject_GC_Del(op);
    Py_DECREF(type);
}

PyObject *fbpy_loader_raise_closed(fbpy_loader *self, const char *text)
{
    if (self->exiting) { /* threading lets a thread end by SystemExit without printing it */
        PyErr_SetNone(PyExc_SystemExit);
        return NULL;
    }
    return fbpy_raise_text(fbpy_state_of((PyObject *)self), FBY_E_STATE, text);
}

fby_loader *fbpy_loader_usable(fbpy_loader *self)
{
    fbpy_state *state = fbpy_state_of((PyObject *)self);
    if (!self->handle || self->close_requested) {
        fbpy_loader_raise_closed(self, "the loader is closed: make a new one");
        return NULL;
    }
    if (self->busy) {
        fbpy_raise_text(state, FBY_E_STATE, "another thread is waiting for a batch of this loader: one consumer at a time");
        return NULL;
    }
    return self->handle;
}

void fbpy_loader_unuse(fbpy_loader *self)
{
    if (--self->users == 0 && self->close_requested)
        fbpy_loader_close_handle(self);
}

void fbpy_loader_cancel(fbpy_loader *self)
{
    self->users++; /* results go, and with them whatever they hold: code of the program's, which may close this loader */
    fby_loader_cancel(self->handle);
    fbpy_loader_unuse(self);
}

void fbpy_loader_enter(fbpy_loader *self)
{
    self->busy = true;
    self->users++;
}

bool fbpy_loader_leave(fbpy_loader *self)
{
    const bool closed = self->close_requested;
    self->busy = false;
    fbpy_loader_unuse(self);
    if (closed && !PyErr_Occurred())
        fbpy_loader_raise_closed(self, "the loader was closed while this thread waited for a batch");
    return !closed;
}

/* ---- construction ---- */

PyObject *fbpy_loader_of(PyTypeObject *type, fby_loader *handle, bool transforms)
{
    fbpy_loader *self = (fbpy_loader *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (!self) {
        Py_BEGIN_ALLOW_THREADS fby_loader_close(handle);
        Py_END_ALLOW_THREADS return NULL;
    }
    self->handle = handle;
    self->transforms = transforms;
    self->pid = getpid();
    self->pinned_for = -1;
    return (PyObject *)self;
}

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"dataset", "outputs", "samples", "options", NULL};
    fbpy_state *state = PyType_GetModuleState(type);
    PyObject *dataset, *outputs, *chosen, *given, *self = NULL;
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    fbpy_room room = {0};
    fby_dataset *ds = NULL;
    fby_loader *handle = NULL;
    fby_error err = {.file_offset = -1};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO!", keywords, &dataset, &outputs, &chosen, &PyDict_Type, &given) ||
        fbpy_options_parse(FBY_OPTIONS_LOADER, given, &room, &opts) < 0 ||
        fbpy_outputs_parse(state, outputs, &room, &opts.outputs, &opts.n_outputs) < 0)
        goto done;
    if (chosen != Py_None && !(opts.samples = fbpy_samples_acquire(state, chosen)))
        goto done;
    if (!(ds = fbpy_dataset_acquire(state, dataset)))
        goto done;
    fby_status status;
    FBPY_WAIT(status, fby_loader_open(ds, &opts, &handle, &err));
    Py_BEGIN_ALLOW_THREADS fby_dataset_close(ds);
    fby_samples_close(opts.samples);
    opts.samples = NULL;
    Py_END_ALLOW_THREADS self = status == FBY_OK ? fbpy_loader_of(type, handle, opts.transform_pulled) : fbpy_raise(state, status, &err);
done:
    fby_samples_close(opts.samples); /* not the last reference: `chosen` holds one */
    fbpy_room_free(&room);
    return self;
}

static PyObject *loader_outputs(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_state *state = fbpy_state_of(op);
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    if (!handle)
        return fbpy_raise_text(state, FBY_E_STATE, "the loader is closed: make a new one");
    PyObject *result = PyList_New(0);
    for (size_t i = 0, n = fby_loader_output_count(handle); result && i < n; i++) {
        fby_output_info info = {.size = sizeof info};
        fby_error err = {.file_offset = -1};
        PyObject *shape = NULL, *row = NULL;
        fby_status status = fby_loader_output(handle, i, &info, &err);
        if (status != FBY_OK)
            fbpy_raise(state, status, &err);
        else
            shape = PyTuple_New(info.ndim);
        for (int d = 0; shape && d < info.ndim; d++) {
            PyObject *extent = PyLong_FromLongLong(info.shape[d]);
            if (!extent)
                Py_CLEAR(shape);
            else
                PyTuple_SET_ITEM(shape, d, extent);
        }
        if (shape)
            row = Py_BuildValue("ssNOOs(KK)", info.name, fby_dtype_name(info.dtype), shape,
                                info.layout == FBY_LAYOUT_RAGGED ? Py_True : Py_False, info.text ? Py_True : Py_False,
                                info.layout != FBY_LAYOUT_PADDED ? NULL
                                : info.want_lengths              ? "lengths"
                                                                 : "mask",
                                (unsigned long long)info.step_begin, (unsigned long long)info.step_end);
        if (!row || PyList_Append(result, row) < 0)
            Py_CLEAR(result);
        Py_XDECREF(row);
    }
    return result;
}

static PyObject *loader_notes(PyObject *op, PyObject *unused)
{
    (void)unused;
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    if (!handle)
        return fbpy_raise_text(fbpy_state_of(op), FBY_E_STATE, "the loader is closed: make a new one");
    PyObject *notes = PyList_New(0);
    const char *text;
    for (size_t i = 0; notes && (text = fby_loader_note(handle, i)); i++) {
        PyObject *note = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
        if (!note || PyList_Append(notes, note) < 0)
            Py_CLEAR(notes);
        Py_XDECREF(note);
    }
    return notes;
}

/* What `framework` asks for; -1 with an exception set. */
static int mode_of(const char *framework)
{
    static const char *const WORDS[] = {[FBPY_DELIVER_TENSOR] = "buffer", [FBPY_DELIVER_NUMPY] = "numpy", [FBPY_DELIVER_TORCH] = "torch"};
    for (int mode = 0; mode <= FBPY_DELIVER_TORCH; mode++)
        if (strcmp(WORDS[mode], framework) == 0)
            return mode;
    PyErr_Format(PyExc_ValueError, "framework='%s': use 'buffer', 'numpy' or 'torch'", framework);
    return -1;
}

static PyObject *loader_configure(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"framework", "convert", "exchange",      "dtypes",         "names", "wrappers",
                               "container", "as_dict", "profiler_runs", "profiler_enter", NULL};
    fbpy_loader *self = (fbpy_loader *)op;
    const char *framework;
    int as_dict;
    PyObject *convert, *exchange, *dtypes, *names, *wrappers, *container, *runs, *enter;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$sOOO!O!O!OpOO", keywords, &framework, &convert, &exchange, &PyTuple_Type, &dtypes,
                                     &PyTuple_Type, &names, &PyTuple_Type, &wrappers, &container, &as_dict, &runs, &enter))
        return NULL;
    const int mode = mode_of(framework);
    if (mode < 0)
        return NULL;
    size_t outputs = self->handle ? fby_loader_output_count(self->handle) : 0;
    Py_ssize_t tensors = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wrappers); i++)
        tensors += PyTuple_GET_ITEM(wrappers, i) == Py_None ? 1 : 2;
    if ((size_t)PyTuple_GET_SIZE(names) != outputs || (size_t)PyTuple_GET_SIZE(wrappers) != outputs ||
        (mode == FBPY_DELIVER_NUMPY && PyTuple_GET_SIZE(dtypes) != tensors)) {
        PyErr_SetString(PyExc_ValueError, "names, wrappers and dtypes do not match the outputs");
        return NULL;
    }
    self->mode = (fbpy_deliver_mode)mode;
    self->as_dict = as_dict != 0;
    fbpy_replace(&self->convert, Py_NewRef(convert));
    self->exchange = fbpy_exchange_of(exchange);
    fbpy_replace(&self->dtypes, Py_NewRef(dtypes));
    fbpy_replace(&self->names, Py_NewRef(names));
    fbpy_replace(&self->wrappers, Py_NewRef(wrappers));
    fbpy_replace(&self->container, container == Py_None ? NULL : Py_NewRef(container));
    fbpy_replace(&self->profiler_runs, runs == Py_None ? NULL : Py_NewRef(runs));
    fbpy_replace(&self->profiler_enter, enter == Py_None ? NULL : Py_NewRef(enter));
    Py_RETURN_NONE;
}

/* ---- state ---- */

int fbpy_as_u64(PyObject *value, void *out)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred())
        return 0;
    *(unsigned long long *)out = n;
    return 1;
}

static PyObject *loader_state(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_state *state = fbpy_state_of(op);
    fby_loader_state s = {.size = sizeof s};
    fby_error err = {.file_offset = -1};
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    if (!handle)
        return fbpy_loader_raise_closed((fbpy_loader *)op, "the loader is closed: take its state before close()");
    fby_status status = fby_loader_state_get(handle, &s, &err);
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    PyObject *files = PyBytes_FromStringAndSize((const char *)s.files, sizeof s.files);
    PyObject *dict = files ? fbpy_options_dict(FBY_OPTIONS_STATE, &s) : NULL;
    if (dict && PyDict_SetItemString(dict, "hashes", files) < 0)
        Py_CLEAR(dict);
    Py_XDECREF(files);
    return dict;
}

static PyObject *loader_set_state(PyObject *op, PyObject *given)
{
    fbpy_loader *self = (fbpy_loader *)op;
    fbpy_state *state = fbpy_state_of(op);
    fby_loader_state s = {.size = sizeof s};
    fby_error err = {.file_offset = -1};
    fbpy_room room = {0}; /* stays empty: a state points to nothing */
    PyObject *hashes = PyDict_Check(given) ? fbpy_option_given(given, "hashes") : NULL;
    if (!hashes || !PyBytes_Check(hashes) || (size_t)PyBytes_GET_SIZE(hashes) != sizeof s.files) {
        PyErr_SetString(PyExc_ValueError, "the state is damaged: its hashes have another length");
        return NULL;
    }
    memcpy(s.files, PyBytes_AS_STRING(hashes), sizeof s.files);
    if (fbpy_options_parse(FBY_OPTIONS_STATE, given, &room, &s) < 0)
        return NULL;
    fby_loader *handle = fbpy_loader_usable(self);
    if (!handle)
        return NULL;
    fby_status status;
    fbpy_loader_enter(self);
    FBPY_WAIT(status, fby_loader_state_set(handle, &s, &err));
    if (!fbpy_loader_leave(self))
        return NULL;
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    self->generation++;
    Py_RETURN_NONE;
}

/* ---- looking ---- */

static PyObject *loader_counts(PyObject *op, PyObject *unused)
{
    (void)unused;
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    if (!handle)
        return fbpy_raise_text(fbpy_state_of(op), FBY_E_STATE, "the loader is closed: make a new one");
    return Py_BuildValue("KK", (unsigned long long)fby_loader_batch_count(handle), (unsigned long long)fby_loader_sample_count(handle));
}

/* (batches, samples) of any epoch. */
static PyObject *loader_count_of(PyObject *op, PyObject *number)
{
    fbpy_state *state = fbpy_state_of(op);
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    unsigned long long epoch;
    uint64_t batches, samples;
    fby_error err = {.file_offset = -1};
    if (!fbpy_as_u64(number, &epoch))
        return NULL;
    if (!handle)
        return fbpy_raise_text(state, FBY_E_STATE, "the loader is closed: make a new one");
    fby_status status = fby_loader_count_of(handle, epoch, &batches, &samples, &err);
    return status == FBY_OK ? Py_BuildValue("KK", (unsigned long long)batches, (unsigned long long)samples)
                            : fbpy_raise(state, status, &err);
}

static PyObject *loader_report(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_loader *self = (fbpy_loader *)op;
    fbpy_state *state = fbpy_state_of(op);
    fby_report r = {.size = sizeof r};
    fby_error err = {.file_offset = -1};
    if (!self->handle)
        return fbpy_raise_text(state, FBY_E_STATE, "the loader is closed: take its report before close()");
    fby_status status = fby_loader_report(self->handle, &r, &err);
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    return fbpy_report_dict(state, self->handle, &r);
}

static PyObject *loader_transferred(PyObject *op, PyObject *number)
{
    fbpy_loader *self = (fbpy_loader *)op;
    unsigned long long ns;
    if (!fbpy_as_u64(number, &ns))
        return NULL;
    if (self->handle)
        fby_loader_transferred(self->handle, ns);
    Py_RETURN_NONE;
}

static PyObject *loader_cancel(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_loader *self = (fbpy_loader *)op;
    if (self->handle)
        fbpy_loader_cancel(self);
    Py_RETURN_NONE;
}

static PyObject *loader_close(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_loader *self = (fbpy_loader *)op;
    if (self->handle && self->users) {
        self->close_requested = true;
        fbpy_loader_cancel(self);
    } else {
        fbpy_loader_close_handle(self);
    }
    Py_RETURN_NONE;
}

static PyObject *loader_close_at_exit(PyObject *op, PyObject *unused)
{
    ((fbpy_loader *)op)->exiting = true;
    return loader_close(op, unused);
}

static PyObject *loader_closed(PyObject *op, void *unused)
{
    (void)unused;
    fbpy_loader *self = (fbpy_loader *)op;
    return PyBool_FromLong(!self->handle || self->close_requested);
}

static PyMethodDef k_loader_methods[] = {
    {"open_mix", (PyCFunction)(void (*)(void))fbpy_loader_open_mix, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "open_mix(*, sources, stop, n_samples, options)\n--\n\nA loader over a mixture; sources are dicts of name, samples, outputs and "
     "weights."},
    {"sources", fbpy_loader_sources, METH_O, "sources(epoch)\n--\n\nWhat an epoch has of each source, a list of dicts."},
    {"outputs", loader_outputs, METH_NOARGS, "outputs()\n--\n\nA list of (name, dtype, shape, ragged, text, padded, steps)."},
    {"notes", loader_notes, METH_NOARGS, "notes()\n--\n\nWhat a colleague would ask about the outputs, as sentences."},
    {"configure", (PyCFunction)(void (*)(void))loader_configure, METH_VARARGS | METH_KEYWORDS,
     "configure(*, framework, convert, exchange, dtypes, names, wrappers, container, as_dict, profiler_runs, profiler_enter)\n--\n\nHow "
     "batches "
     "are delivered; once, before begin()."},
    {"begin", fbpy_loader_begin, METH_VARARGS,
     "begin(epoch, batch, follow=False)\n--\n\nBegin an epoch at a batch; its Iterator. follow: the Iterator that there is goes on with "
     "it."},
    {"transform_next", fbpy_loader_transform_next, METH_O,
     "transform_next(epochs_begun)\n--\n\nThe batch whose turn it is, for the transform; None when the epoch that began as this one is "
     "over."},
    {"transform_done", fbpy_loader_transform_done, METH_VARARGS,
     "transform_done(result, failed)\n--\n\nWhat was made of it, or the exception."},
    {"state", loader_state, METH_NOARGS, "state()\n--\n\nWhere the loader stands, as a dict."},
    {"set_state", loader_set_state, METH_O,
     "set_state(state)\n--\n\nCheck that the loader would go on where a state was taken; iterators are over then."},
    {"counts", loader_counts, METH_NOARGS, "counts()\n--\n\n(batches, samples) of the epoch under way or next."},
    {"count_of", loader_count_of, METH_O, "count_of(epoch)\n--\n\n(batches, samples) of an epoch."},
    {"pin", fbpy_loader_pin, METH_O,
     "pin(device)\n--\n\nFrom now on memory of batches is pinned in place for a GPU; False where that cannot be."},
    {"transferred", loader_transferred, METH_O,
     "transferred(ns)\n--\n\nSo much of the time since the last batch went to moving it to a device."},
    {"report", loader_report, METH_NOARGS, "report()\n--\n\nWhere the time went, as a dict."},
    {"cancel", loader_cancel, METH_NOARGS, "cancel()\n--\n\nEnd the epoch; a waiting thread gets CancelledError."},
    {"close", loader_close, METH_NOARGS, "close()\n--\n\nStop the threads and free everything but batches still held."},
    {"close_at_exit", loader_close_at_exit, METH_NOARGS,
     "close_at_exit()\n--\n\nclose(), after which threads that iterate get SystemExit."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef k_loader_getset[] = {
    {"closed", loader_closed, NULL, "True after close().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef k_loader_members[] = {
    {"taken", T_BOOL, offsetof(fbpy_loader, taken), READONLY, "Was anything taken of the epoch that began last?"},
    {"held", T_BOOL, offsetof(fbpy_loader, held), READONLY, "Does its iterator live?"},
    {"epochs_begun", T_ULONGLONG, offsetof(fbpy_loader, epochs_begun), READONLY, "The number of the one that runs, for transform_next()."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(fbpy_loader, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot k_loader_slots[] = {
    {Py_tp_new, loader_new},           {Py_tp_dealloc, loader_dealloc},    {Py_tp_traverse, loader_traverse},
    {Py_tp_clear, loader_clear},       {Py_tp_methods, k_loader_methods},  {Py_tp_getset, k_loader_getset},
    {Py_tp_members, k_loader_members}, {Py_tp_doc, "An open fby_loader."}, {0, NULL},
};

PyType_Spec fbpy_loader_spec = {
    .name = "forebay._forebay.Loader",
    .basicsize = sizeof(fbpy_loader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = k_loader_slots,
};
