/*
 * _forebay.Dataset: an fby_dataset, and the functions that open one.
 *
 * Everything comes out as plain tuples and dicts; forebay/_dataset.py makes them readable.
 */
#include "module.h"

typedef struct dataset_object {
    PyObject_HEAD fby_dataset *handle; /* owned; NULL once closed */
} dataset_object;

fby_dataset *fbpy_dataset_acquire(fbpy_state *state, PyObject *dataset)
{
    if (!Py_IS_TYPE(dataset, state->dataset_type)) {
        PyErr_Format(PyExc_TypeError, "a _forebay.Dataset is expected, not %s", fbpy_type_name(dataset));
        return NULL;
    }
    dataset_object *self = (dataset_object *)dataset;
    if (!self->handle) {
        fbpy_raise_text(state, FBY_E_STATE, "the dataset is closed: open it again with forebay.open()");
        return NULL;
    }
    return fby_dataset_ref(self->handle);
}

/* The last reference may unmap files and give Python buffers back (which takes the GIL): never with the GIL held. */
static void dataset_release(fby_dataset *handle)
{
    Py_BEGIN_ALLOW_THREADS fby_dataset_close(handle);
    Py_END_ALLOW_THREADS
}

PyObject *fbpy_dataset_new(fbpy_state *state, fby_dataset *handle)
{
    dataset_object *self = PyObject_New(dataset_object, state->dataset_type);
    if (!self) {
        dataset_release(handle);
        return NULL;
    }
    self->handle = handle;
    return (PyObject *)self;
}

static void dataset_dealloc(PyObject *op)
{
    dataset_object *self = (dataset_object *)op;
    PyTypeObject *type = Py_TYPE(op);
    fby_dataset *handle = self->handle;
    self->handle = NULL;
    if (handle)
        dataset_release(handle);
    PyObject_Free(op);
    Py_DECREF(type);
}

/* ---- opening ---- */

static void call_progress(void *user, uint64_t done, uint64_t total, const char *what)
{
    fbpy_progress *progress = user;
    if (progress->failed)
        return;
    PyEval_RestoreThread(*progress->thread);
    PyObject *result = PyObject_CallFunction(progress->callback, "KKs", (unsigned long long)done, (unsigned long long)total, what);
    if (!result || PyErr_CheckSignals() < 0) {
        progress->failed = true;
        fbpy_wait_stop();
    }
    Py_XDECREF(result);
    *progress->thread = PyEval_SaveThread();
}

fby_progress_fn fbpy_progress_of(PyObject *given, fbpy_progress *progress)
{
    progress->callback = fbpy_option_given(given, "progress");
    return progress->callback == Py_None ? NULL : call_progress;
}

/* Borrowed UTF-8 of a str or NULL for None; 0 or -1. */
static int optional_text(PyObject *value, const char **out)
{
    *out = NULL;
    if (value == Py_None)
        return 0;
    Py_ssize_t n;
    if (!(*out = PyUnicode_AsUTF8AndSize(value, &n)))
        return -1;
    if (strlen(*out) != (size_t)n) {
        PyErr_SetString(PyExc_ValueError, "embedded null character");
        return -1;
    }
    return 0;
}

/* [(column, dtype), …] */
static int dtypes_parse(PyObject *given, fbpy_room *room, fby_open_opts *opts)
{
    if (given == Py_None)
        return 0;
    if (!PyList_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "dtypes: a list of (column, dtype) is expected");
        return -1;
    }
    opts->n_dtypes = (size_t)PyList_GET_SIZE(given);
    fby_column_dtype *list = fbpy_room_take(room, opts->n_dtypes + 1, sizeof *list);
    for (size_t i = 0; list && i < opts->n_dtypes; i++) {
        PyObject *column, *dtype;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(given, (Py_ssize_t)i), "UU", &column, &dtype) || optional_text(column, &list[i].column) < 0 ||
            optional_text(dtype, &list[i].dtype) < 0)
            return -1;
    }
    opts->dtypes = list;
    return list ? 0 : -1;
}

static fby_source *sources_parse(PyObject *sources, fbpy_room *room)
{
    const size_t n = (size_t)PyList_GET_SIZE(sources);
    fby_source *list = fbpy_room_take(room, n + 1, sizeof *list);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *name, *path;
        char *text;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(sources, (Py_ssize_t)i), "OO", &name, &path) || optional_text(name, &list[i].name) < 0 ||
            PyBytes_AsStringAndSize(path, &text, NULL) < 0)
            return NULL;
        list[i].path = text;
    }
    return list;
}

static PyObject *open_files(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *sources, *given, *result = NULL;
    fby_open_opts opts = {.size = sizeof opts};
    fbpy_room room = {0};
    fby_dataset *handle = NULL;
    fby_error err = {.file_offset = -1};
    PyThreadState *thread = NULL;
    fbpy_progress progress = {.thread = &thread};
    fbpy_wait wait = {0};
    fby_status status;

    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &sources, &PyDict_Type, &given))
        return NULL;
    fby_source *list = sources_parse(sources, &room);
    if (!list || fbpy_options_parse(FBY_OPTIONS_OPEN, given, &room, &opts) < 0 ||
        dtypes_parse(fbpy_option_given(given, "dtypes"), &room, &opts) < 0)
        goto done;
    opts.progress = fbpy_progress_of(given, &progress);
    opts.progress_user = &progress;
    while (fbpy_wait_call(&wait, &status)) {
        thread = PyEval_SaveThread();
        status = fby_dataset_open(list, (size_t)PyList_GET_SIZE(sources), &opts, &handle, &err);
        PyEval_RestoreThread(thread);
    }
    if (progress.failed) {
        if (status == FBY_OK)
            dataset_release(handle); /* files: nothing of Python's hangs on it that could touch the exception */
    } else if (status != FBY_OK) {
        fbpy_raise(state, status, &err);
    } else {
        result = fbpy_dataset_new(state, handle);
    }
done:
    fbpy_room_free(&room);
    return result;
}

static PyObject *from_stream(fbpy_state *state, struct ArrowArrayStream *stream)
{
    fby_error err = {.file_offset = -1};
    fby_dataset *handle = NULL;
    fby_status status;
    fbpy_wait wait = {0};
    const int raises = fbpy_sigint_raises();
    if (raises > 0) /* what was read is lost, and cannot be read again: only where nothing is to go on */
        fbpy_wait_begin(&wait);
    if (raises < 0 || PyErr_CheckSignals() < 0) {
        fbpy_wait_end(&wait);
        stream->release(stream);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = fby_dataset_from_arrow(stream, &handle, &err);
    Py_END_ALLOW_THREADS if (status == FBY_E_CANCELLED)(void) PyErr_CheckSignals();
    fbpy_wait_end(&wait);
    if (PyErr_Occurred()) { /* a producer written in Python may leave its exception behind */
        if (status == FBY_OK)
            fbpy_error_drop();
        else
            return NULL;
    }
    return status == FBY_OK ? fbpy_dataset_new(state, handle) : fbpy_raise(state, status, &err);
}

static PyObject *open_arrow(PyObject *module, PyObject *capsule)
{
    fbpy_state *state = PyModule_GetState(module);
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (!stream)
        return NULL;
    if (!stream->release)
        return fbpy_raise_text(state, FBY_E_ARG, "the Arrow stream was already consumed");
    return from_stream(state, stream);
}

static PyObject *open_columns(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *columns;
    long long rows, rows_per_block;
    struct ArrowArrayStream stream;
    if (!PyArg_ParseTuple(args, "O!LL", &PyList_Type, &columns, &rows, &rows_per_block) ||
        fbpy_columns_stream(columns, rows, rows_per_block, &stream) < 0)
        return NULL;
    return from_stream(state, &stream);
}

PyMethodDef fbpy_dataset_functions[] = {
    {"open_files", open_files, METH_VARARGS,
     "open_files(sources, options)\n--\n\n"
     "Open files: sources is a list of (name or None, path as bytes), options a dict; its dtypes a list of (column, dtype's name)."},
    {"open_arrow", open_arrow, METH_O,
     "open_arrow(capsule)\n--\n\nA dataset in memory from an arrow_array_stream capsule, which is consumed."},
    {"open_columns", open_columns, METH_VARARGS,
     "open_columns(columns, rows, rows_per_block)\n--\n\n"
     "A dataset in memory from buffers: columns is a list of (name, Arrow format, fixed list sizes, data, offsets or None,\n"
     "validity bits or None). bool data are bits; the buffers are not copied."},
    {NULL, NULL, 0, NULL},
};

/* ---- looking ---- */

static PyObject *text_or_none(const char *text) { return text ? PyUnicode_FromString(text) : Py_NewRef(Py_None); }

static PyObject *field_dict(const fby_field *field)
{
    char type_text[512];
    PyObject *children = PyTuple_New((Py_ssize_t)field->n_children);
    if (!children)
        return NULL;
    for (uint32_t i = 0; i < field->n_children; i++) {
        PyObject *child = field_dict(&field->children[i]);
        if (!child) {
            Py_DECREF(children);
            return NULL;
        }
        PyTuple_SET_ITEM(children, (Py_ssize_t)i, child);
    }
    (void)fby_field_type_text(field, type_text, sizeof type_text); /* cut when longer: it is for people */
    const char *unit = fby_unit_name(field->unit);
    /* Truncation may have cut a UTF-8 sequence, and names come from files: replace what does not decode. */
    return Py_BuildValue("{s:N,s:N,s:s,s:N,s:N,s:z,s:O,s:O,s:i,s:i,s:i,s:i,s:z,s:N}", "name",
                         PyUnicode_DecodeUTF8(field->name, (Py_ssize_t)strlen(field->name), "replace"), "path",
                         PyUnicode_DecodeUTF8(field->path, (Py_ssize_t)strlen(field->path), "replace"), "kind", fby_kind_name(field->kind),
                         "type", PyUnicode_DecodeUTF8(type_text, (Py_ssize_t)strlen(type_text), "replace"), "dtype",
                         field->dtype == FBY_DTYPE_NONE ? text_or_none(NULL) : PyUnicode_FromString(fby_dtype_name(field->dtype)), "unit",
                         unit[0] ? unit : NULL, "nullable", field->nullable ? Py_True : Py_False, "utc", field->utc ? Py_True : Py_False,
                         "precision", (int)field->precision, "scale", (int)field->scale, "byte_width", (int)field->byte_width, "list_size",
                         (int)field->list_size, "units", field->units, "children", children);
}

static PyObject *dataset_schema(PyObject *self, PyObject *unused)
{
    (void)unused;
    fby_dataset *ds = fbpy_dataset_acquire(fbpy_state_of(self), self);
    if (!ds)
        return NULL;
    PyObject *result = field_dict(fby_dataset_schema(ds));
    dataset_release(ds);
    return result;
}

static PyObject *dataset_info(PyObject *self, PyObject *unused)
{
    (void)unused;
    fby_dataset *ds = fbpy_dataset_acquire(fbpy_state_of(self), self);
    if (!ds)
        return NULL;
    fby_open_stats stats = {.size = sizeof stats};
    (void)fby_dataset_open_stats(ds, &stats, NULL); /* the size is right: cannot fail */
    PyObject *result =
        Py_BuildValue("{s:K,s:K,s:K,s:K,s:s,s:s,s:K,s:K,s:K,s:O}", "rows", (unsigned long long)fby_dataset_rows(ds), "files",
                      (unsigned long long)fby_dataset_file_count(ds), "blocks", (unsigned long long)fby_dataset_block_count(ds),
                      "stored_bytes", (unsigned long long)fby_dataset_stored_bytes(ds), "identity", fby_dataset_identity(ds), "fingerprint",
                      fby_dataset_fingerprint(ds), "files_from_cache", (unsigned long long)stats.files_from_cache, "metadata_bytes_read",
                      (unsigned long long)stats.metadata_bytes_read, "open_ns", (unsigned long long)stats.elapsed_ns, "cache_written",
                      stats.cache_written ? Py_True : Py_False);
    dataset_release(ds);
    return result;
}

static PyObject *dataset_file(PyObject *self, PyObject *args)
{
    fbpy_state *state = fbpy_state_of(self);
    unsigned long long i;
    fby_file_info info = {.size = sizeof info};
    fby_error err = {.file_offset = -1};
    if (!PyArg_ParseTuple(args, "K", &i))
        return NULL;
    fby_dataset *ds = fbpy_dataset_acquire(state, self);
    if (!ds)
        return NULL;
    fby_status status = fby_dataset_file(ds, i, &info, &err);
    PyObject *result = NULL;
    if (status != FBY_OK)
        fbpy_raise(state, status, &err);
    else
        result = Py_BuildValue("{s:N,s:N,s:s,s:K,s:K,s:I,s:K,s:K,s:z,s:z}", "path",
                               info.path ? PyUnicode_DecodeFSDefault(info.path) : text_or_none(NULL), "name",
                               info.name ? PyUnicode_DecodeFSDefault(info.name) : text_or_none(NULL), "format", info.format, "size_bytes",
                               (unsigned long long)info.size_bytes, "rows", (unsigned long long)info.rows, "groups", (unsigned)info.groups,
                               "first_block", (unsigned long long)info.first_block, "n_blocks", (unsigned long long)info.n_blocks,
                               "group_word", info.group_word, "groups_word", info.groups_word);
    dataset_release(ds);
    return result;
}

static PyObject *dataset_block(PyObject *self, PyObject *args)
{
    fbpy_state *state = fbpy_state_of(self);
    unsigned long long i;
    fby_block_info info = {.size = sizeof info};
    fby_error err = {.file_offset = -1};
    if (!PyArg_ParseTuple(args, "K", &i))
        return NULL;
    fby_dataset *ds = fbpy_dataset_acquire(state, self);
    if (!ds)
        return NULL;
    fby_status status = fby_dataset_block(ds, i, &info, &err);
    dataset_release(ds);
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    return Py_BuildValue("{s:K,s:I,s:K,s:K,s:K,s:K}", "file", (unsigned long long)info.file, "group", (unsigned)info.group, "row_begin",
                         (unsigned long long)info.row_begin, "row_end", (unsigned long long)info.row_end, "first_row",
                         (unsigned long long)info.first_row, "stored_bytes", (unsigned long long)info.stored_bytes);
}

static PyObject *encoding_names(uint64_t bits)
{
    PyObject *names = PyList_New(0);
    for (unsigned bit = 0; names && bit < 64; bit++) {
        if (!(bits >> bit & 1))
            continue;
        PyObject *name = PyUnicode_FromString(fby_encoding_name(bit));
        if (!name || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *dataset_chunk(PyObject *self, PyObject *args)
{
    fbpy_state *state = fbpy_state_of(self);
    unsigned long long file;
    unsigned group;
    const char *column;
    int read_pages;
    fby_chunk_info info = {.size = sizeof info};
    fby_error err = {.file_offset = -1};
    if (!PyArg_ParseTuple(args, "KIsp", &file, &group, &column, &read_pages))
        return NULL;
    fby_dataset *ds = fbpy_dataset_acquire(state, self);
    if (!ds)
        return NULL;
    fby_status status;
    FBPY_WAIT(status, fby_dataset_chunk(ds, file, group, column, read_pages != 0, &info, &err));
    Py_BEGIN_ALLOW_THREADS fby_dataset_close(ds);
    Py_END_ALLOW_THREADS if (status != FBY_OK) return fbpy_raise(state, status, &err);
    return Py_BuildValue("{s:z,s:N,s:K,s:K,s:K,s:L,s:L,s:L,s:i,s:O,s:O}", "codec", info.codec, "encodings", encoding_names(info.encodings),
                         "n_values", (unsigned long long)info.n_values, "compressed_bytes", (unsigned long long)info.compressed_bytes,
                         "uncompressed_bytes", (unsigned long long)info.uncompressed_bytes, "n_pages", (long long)info.n_pages,
                         "n_dictionary_values", (long long)info.n_dictionary_values, "null_count", (long long)info.null_count,
                         "page_version", (int)info.page_version, "has_offset_index", info.has_offset_index ? Py_True : Py_False, "has_crc",
                         info.has_crc ? Py_True : Py_False);
}

static PyObject *dataset_contents(PyObject *self, PyObject *args)
{
    fbpy_state *state = fbpy_state_of(self);
    unsigned long long file;
    if (!PyArg_ParseTuple(args, "K", &file))
        return NULL;
    fby_dataset *ds = fbpy_dataset_acquire(state, self);
    if (!ds)
        return NULL;
    PyObject *result = fbpy_contents(state, ds, file);
    dataset_release(ds);
    return result;
}

static PyObject *sentences(PyObject *self, const char *(*get)(const fby_dataset *, size_t))
{
    fby_dataset *ds = fbpy_dataset_acquire(fbpy_state_of(self), self);
    if (!ds)
        return NULL;
    PyObject *notes = PyList_New(0);
    const char *text;
    for (size_t i = 0; notes && (text = get(ds, i)); i++) {
        PyObject *note = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
        if (!note || PyList_Append(notes, note) < 0)
            Py_CLEAR(notes);
        Py_XDECREF(note);
    }
    dataset_release(ds);
    return notes;
}

static PyObject *dataset_notes(PyObject *self, PyObject *unused)
{
    (void)unused;
    return sentences(self, fby_dataset_note);
}

static PyObject *dataset_left_out(PyObject *self, PyObject *unused)
{
    (void)unused;
    return sentences(self, fby_dataset_left_out);
}

/* ---- Arrow ---- */

static int export_stream(PyObject *self, PyObject *columns, struct ArrowArrayStream *out)
{
    fbpy_state *state = fbpy_state_of(self);
    const char **names = NULL;
    size_t n = 0;
    fby_dataset *ds = NULL;
    fby_error err = {.file_offset = -1};
    int rc = -1;
    if (columns != Py_None) {
        n = (size_t)PyList_Size(columns);
        if (PyErr_Occurred())
            return -1;
        if (!(names = PyMem_Calloc(n ? n : 1, sizeof *names))) {
            PyErr_NoMemory();
            return -1;
        }
        for (size_t i = 0; i < n; i++)
            if (!(names[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(columns, (Py_ssize_t)i))))
                goto done;
    }
    if (!(ds = fbpy_dataset_acquire(state, self)))
        goto done;
    fby_status status;
    FBPY_WAIT(status, fby_dataset_export_arrow(ds, names, n, out, &err));
    Py_BEGIN_ALLOW_THREADS fby_dataset_close(ds);
    Py_END_ALLOW_THREADS if (status == FBY_OK) rc = 0;
    else fbpy_raise(state, status, &err);
done:
    PyMem_Free(names);
    return rc;
}

static PyObject *dataset_export_stream(PyObject *self, PyObject *columns)
{
    struct ArrowArrayStream stream;
    return export_stream(self, columns, &stream) < 0 || fbpy_stream_wait(&stream) < 0 ? NULL : fbpy_stream_capsule(&stream);
}

static PyObject *dataset_export_nodes(PyObject *self, PyObject *columns)
{
    struct ArrowArrayStream stream;
    return export_stream(self, columns, &stream) < 0 ? NULL : fbpy_stream_nodes(fbpy_state_of(self), &stream);
}

static PyObject *dataset_export_schema(PyObject *self, PyObject *columns)
{
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    if (export_stream(self, columns, &stream) < 0)
        return NULL;
    PyObject *result = NULL;
    if (stream.get_schema(&stream, &schema) == 0) {
        result = fbpy_schema_capsule(&schema);
    } else {
        const char *text = stream.get_last_error(&stream);
        fbpy_raise_text(fbpy_state_of(self), FBY_E_SCHEMA, text ? text : "the schema cannot be exported");
    }
    stream.release(&stream);
    return result;
}

static PyObject *dataset_close(PyObject *op, PyObject *unused)
{
    (void)unused;
    dataset_object *self = (dataset_object *)op;
    fby_dataset *handle = self->handle;
    self->handle = NULL;
    if (handle)
        dataset_release(handle);
    Py_RETURN_NONE;
}

static PyObject *dataset_closed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!((dataset_object *)self)->handle);
}

static PyMethodDef k_methods[] = {
    {"schema", dataset_schema, METH_NOARGS, "schema()\n--\n\nThe root field as nested tuples."},
    {"info", dataset_info, METH_NOARGS, "info()\n--\n\nCounts, sizes, identity and how the open went, as a dict."},
    {"file", dataset_file, METH_VARARGS,
     "file(i)\n--\n\n(path, name, format, size_bytes, rows, groups, first_block, n_blocks, group_word, groups_word)"},
    {"block", dataset_block, METH_VARARGS, "block(i)\n--\n\n(file, group, row_begin, row_end, first_row, stored_bytes)"},
    {"chunk", dataset_chunk, METH_VARARGS,
     "chunk(file, group, column, read_pages)\n--\n\n(codec, encodings, n_values, compressed_bytes, uncompressed_bytes, n_pages,\n"
     "n_dictionary_values, null_count, page_version, has_offset_index, has_crc)"},
    {"contents", dataset_contents, METH_VARARGS, "contents(file)\n--\n\nWhat an HDF5 file holds: (objects as dicts, notes)."},
    {"notes", dataset_notes, METH_NOARGS, "notes()\n--\n\nWhat is odd, as sentences."},
    {"left_out", dataset_left_out, METH_NOARGS, "left_out()\n--\n\nColumns that the files should have and do not, with the reason."},
    {"export_stream", dataset_export_stream, METH_O,
     "export_stream(columns)\n--\n\nAn arrow_array_stream capsule of a list of columns, or None for all."},
    {"export_nodes", dataset_export_nodes, METH_O,
     "export_nodes(columns)\n--\n\nThe same as bytes: a list of batches (name, format, length, validity, buffers, children)."},
    {"export_schema", dataset_export_schema, METH_O, "export_schema(columns)\n--\n\nAn arrow_schema capsule."},
    {"close", dataset_close, METH_NOARGS, "close()\n--\n\nGive the dataset up; loaders and streams over it stay valid."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef k_getset[] = {
    {"closed", dataset_closed, NULL, "True after close().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot k_slots[] = {
    {Py_tp_dealloc, dataset_dealloc},
    {Py_tp_methods, k_methods},
    {Py_tp_getset, k_getset},
    {Py_tp_doc, "An open fby_dataset; made by open_files, open_arrow and open_columns."},
    {0, NULL},
};

PyType_Spec fbpy_dataset_spec = {
    .name = "forebay._forebay.Dataset",
    .basicsize = sizeof(dataset_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = k_slots,
};
