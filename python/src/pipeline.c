/*
 * _forebay.Pipeline: an fby_pipeline, and the writing of pipeline files. forebay/_pipeline.py makes it readable.
 *
 * A pipeline is used by one thread at a time. Calls that open something release the GIL: `busy` keeps others out meanwhile.
 */
#include "module.h"

typedef struct pipeline_object {
    PyObject_HEAD fby_pipeline *handle; /* owned, but of a source: then borrowed from the mixture's */
    struct pipeline_object *mixture;    /* owned: a reference; NULL where this is no source of one */
    bool busy;                          /* also for its sources: they share tables */
} pipeline_object;

/* --- trees ---------------------------------------------------------------------------------------------------------------- */

static PyObject *from_node(const fby_node *node)
{
    PyObject *result = NULL;
    switch (node->kind) {
    case FBY_NODE_NULL: Py_RETURN_NONE;
    case FBY_NODE_BOOL: return PyBool_FromLong(node->boolean);
    case FBY_NODE_INT: return PyLong_FromLongLong(node->integer);
    case FBY_NODE_FLOAT: /* a whole number beyond 64 bits with sign stays one */
        if (node->text && *node->text && strspn(node->text, "0123456789") == strlen(node->text))
            return PyLong_FromString(node->text, NULL, 10);
        return PyFloat_FromDouble(node->number);
    case FBY_NODE_TEXT: return PyUnicode_FromString(node->text);
    case FBY_NODE_LIST:
        result = PyList_New((Py_ssize_t)node->n);
        for (size_t i = 0; result && i < node->n; i++) {
            PyObject *item = from_node(node->items[i]);
            if (!item)
                Py_CLEAR(result);
            else
                PyList_SET_ITEM(result, (Py_ssize_t)i, item);
        }
        return result;
    case FBY_NODE_MAP:
        result = PyDict_New();
        for (size_t i = 0; result && i < node->n; i++) {
            PyObject *item = from_node(node->items[i]);
            if (!item || PyDict_SetItemString(result, node->keys[i]->text, item) < 0)
                Py_CLEAR(result);
            Py_XDECREF(item);
        }
        return result;
    }
    PyErr_SetString(PyExc_SystemError, "a node of unknown kind");
    return NULL;
}

static const fby_node *to_node(PyObject *value, fbpy_room *room);

/* @values  a list or a tuple.  @names  NULL, or a list of as many. */
static int fill_items(PyObject *values, PyObject *names, Py_ssize_t n, fbpy_room *room, fby_node *out)
{
    const fby_node **items = fbpy_room_take(room, (size_t)n + 1, sizeof *items),
                   **keys = items ? fbpy_room_take(room, (size_t)n + 1, sizeof *keys) : NULL;
    if (!keys)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = PyTuple_Check(values) ? PyTuple_GET_ITEM(values, i) : PyList_GET_ITEM(values, i),
                 *name = names ? PyList_GET_ITEM(names, i) : NULL;
        if (name && !PyUnicode_Check(name)) {
            PyErr_Format(PyExc_TypeError, "a key of a pipeline file is a str, not %s", fbpy_type_name(name));
            return -1;
        }
        if (!(items[i] = to_node(value, room)) || (name && !(keys[i] = to_node(name, room))))
            return -1;
    }
    out->n = (size_t)n;
    out->items = items;
    out->keys = keys;
    return 0;
}

/* Texts are borrowed from the str objects, which the value that is written keeps. */
static const fby_node *to_node(PyObject *value, fbpy_room *room)
{
    fby_node *node = fbpy_room_take(room, 1, sizeof *node);
    if (!node || Py_EnterRecursiveCall(" in a value for a pipeline file"))
        return NULL;
    int failed = 0;
    if (value == Py_None) {
        node->kind = FBY_NODE_NULL;
    } else if (PyBool_Check(value)) {
        node->kind = FBY_NODE_BOOL;
        node->boolean = value == Py_True;
    } else if (PyLong_Check(value)) {
        int above = 0;
        node->kind = FBY_NODE_INT;
        node->integer = PyLong_AsLongLongAndOverflow(value, &above);
        if (above > 0) { /* seeds */
            unsigned long long n = PyLong_AsUnsignedLongLong(value);
            char *text = PyErr_Occurred() ? NULL : fbpy_room_take(room, 24, 1);
            failed = text ? 0 : -1;
            if (text)
                (void)PyOS_snprintf(text, 24, "%llu", n);
            node->kind = FBY_NODE_FLOAT;
            node->number = (double)n;
            node->text = text;
        } else if (PyErr_Occurred() || above < 0) {
            failed = -1;
        }
    } else if (PyFloat_Check(value)) {
        node->kind = FBY_NODE_FLOAT;
        node->number = PyFloat_AsDouble(value);
    } else if (PyUnicode_Check(value)) {
        Py_ssize_t n = 0;
        node->kind = FBY_NODE_TEXT;
        node->text = PyUnicode_AsUTF8AndSize(value, &n);
        if (node->text && strlen(node->text) != (size_t)n)
            PyErr_SetString(PyExc_ValueError, "a text for a pipeline file cannot hold a NUL");
        failed = node->text && !PyErr_Occurred() ? 0 : -1;
    } else if (PyList_Check(value) || PyTuple_Check(value)) {
        node->kind = FBY_NODE_LIST;
        failed = fill_items(value, NULL, PyObject_Size(value), room, node);
    } else if (PyDict_Check(value)) {
        PyObject *names = PyDict_Keys(value), *values = names ? PyDict_Values(value) : NULL; /* the dict keeps what is in them */
        node->kind = FBY_NODE_MAP;
        failed = values ? fill_items(values, names, PyList_GET_SIZE(names), room, node) : -1;
        Py_XDECREF(values);
        Py_XDECREF(names);
    } else {
        PyErr_Format(PyExc_TypeError, "a pipeline file cannot hold a %s", fbpy_type_name(value));
        failed = -1;
    }
    Py_LeaveRecursiveCall();
    if (failed && !PyErr_Occurred())
        PyErr_SetString(PyExc_OverflowError, "a whole number below -2^63");
    return failed ? NULL : node;
}

/* --- life ------------------------------------------------------------------------------------------------------------------ */

static void pipeline_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    pipeline_object *self = (pipeline_object *)op;
    fby_pipeline *handle = self->mixture ? NULL : self->handle;
    Py_XDECREF((PyObject *)self->mixture);
    Py_BEGIN_ALLOW_THREADS fby_pipeline_close(handle);
    Py_END_ALLOW_THREADS PyObject_Free(op);
    Py_DECREF(type);
}

static PyObject *object_of(fbpy_state *state, fby_pipeline *handle, pipeline_object *mixture)
{
    pipeline_object *self = PyObject_New(pipeline_object, state->pipeline_type);
    if (self) {
        self->handle = handle;
        self->mixture = mixture;
        self->busy = false;
        Py_XINCREF((PyObject *)mixture);
    }
    return (PyObject *)self;
}

static PyObject *open_pipeline(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    const char *path, *cache_dir;
    PyObject *overrides;
    fbpy_room room = {0};
    fby_pipeline_opts opts = {.size = sizeof opts};
    fby_error err = {.file_offset = -1};
    fby_pipeline *handle = NULL;
    if (!PyArg_ParseTuple(args, "sO!z", &path, &PyTuple_Type, &overrides, &cache_dir))
        return NULL;
    const char **texts = fbpy_room_texts(&room, overrides, &opts.n_overrides);
    if (!texts) {
        fbpy_room_free(&room);
        return NULL;
    }
    opts.overrides = texts;
    opts.cache_dir = cache_dir;
    fby_status status;
    FBPY_WAIT(status, fby_pipeline_open(path, &opts, &handle, &err));
    fbpy_room_free(&room);
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    PyObject *self = object_of(state, handle, NULL);
    if (!self)
        fby_pipeline_close(handle);
    return self;
}

/* write_tree(path, root, rows of outputs or None, ((lookup, name), …)) */
static PyObject *write_tree(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    const char *path;
    PyObject *root, *rows, *named;
    fbpy_room room = {0};
    fby_error err = {.file_offset = -1};
    if (!PyArg_ParseTuple(args, "sO!OO!", &path, &PyDict_Type, &root, &rows, &PyTuple_Type, &named))
        return NULL;
    size_t n = rows == Py_None ? 0 : (size_t)PyList_Size(rows), n_tables = (size_t)PyTuple_GET_SIZE(named);
    fby_output *outputs = PyErr_Occurred() ? NULL : fbpy_room_take(&room, n + 1, sizeof *outputs);
    const fby_lookup **tables = outputs ? fbpy_room_take(&room, n_tables + 1, sizeof *tables) : NULL;
    const char **names = tables ? fbpy_room_take(&room, n_tables + 1, sizeof *names) : NULL;
    const fby_node *node = names ? to_node(root, &room) : NULL;
    for (size_t i = 0; node && i < n; i++)
        if (fbpy_output_parse(state, PyList_GET_ITEM(rows, (Py_ssize_t)i), &room, &outputs[i]) < 0)
            node = NULL;
    for (size_t i = 0; node && i < n_tables; i++) {
        PyObject *table;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(named, (Py_ssize_t)i), "Os", &table, &names[i]) ||
            !(tables[i] = fbpy_lookup_of(state, table, &room)))
            node = NULL;
    }
    fby_status status = FBY_OK;
    const fby_loader_opts opts = {FBY_LOADER_SIZES, .outputs = outputs, .n_outputs = n};
    if (node) {
        Py_BEGIN_ALLOW_THREADS status = fby_tree_write(node, n ? &opts : NULL, tables, names, n_tables, path, &err);
        Py_END_ALLOW_THREADS
    }
    fbpy_room_free(&room);
    if (!node)
        return NULL;
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    Py_RETURN_NONE;
}

PyMethodDef fbpy_pipeline_functions[] = {
    {"open_pipeline", open_pipeline, METH_VARARGS, "open_pipeline(path, overrides, cache_dir)\n--\n\nA checked pipeline file."},
    {"write_tree", write_tree, METH_VARARGS, "write_tree(path, root, rows, tables)\n--\n\nWrite plain values, and outputs, as YAML."},
    {NULL, NULL, 0, NULL},
};

/* --- what it holds ------------------------------------------------------------------------------------------------------------ */

static fby_pipeline *begin(PyObject *op)
{
    pipeline_object *self = (pipeline_object *)op, *first = self->mixture ? self->mixture : self;
    if (first->busy) {
        fbpy_raise_text(fbpy_state_of(op), FBY_E_STATE, "another thread is opening this pipeline");
        return NULL;
    }
    first->busy = true;
    return self->handle;
}

static void end(PyObject *op)
{
    pipeline_object *self = (pipeline_object *)op;
    (self->mixture ? self->mixture : self)->busy = false;
}

static PyObject *pipeline_dataset(PyObject *op, PyObject *unused)
{
    (void)unused;
    fby_error err = {.file_offset = -1};
    fby_dataset *ds = NULL;
    fby_status status;
    fby_pipeline *handle = begin(op);
    if (!handle)
        return NULL;
    FBPY_WAIT(status, fby_pipeline_dataset(handle, &ds, &err));
    end(op);
    return status == FBY_OK ? fbpy_dataset_new(fbpy_state_of(op), fby_dataset_ref(ds)) : fbpy_raise(fbpy_state_of(op), status, &err);
}

static PyObject *pipeline_samples(PyObject *op, PyObject *args)
{
    const char *split;
    fby_error err = {.file_offset = -1};
    fby_samples *samples = NULL;
    fby_status status;
    if (!PyArg_ParseTuple(args, "z", &split))
        return NULL;
    fby_pipeline *handle = begin(op);
    if (!handle)
        return NULL;
    FBPY_WAIT(status, fby_pipeline_samples(handle, split, &samples, &err));
    end(op);
    if (status != FBY_OK)
        return fbpy_raise(fbpy_state_of(op), status, &err);
    PyObject *core = fbpy_samples_new(fbpy_state_of(op), fby_samples_ref(samples));
    return core ? Py_BuildValue("Ns", core, fbpy_sample_kinds[fby_samples_kind(samples)]) : NULL;
}

/* "columns", "source", … */
static const char *from_word(fby_source_kind from)
{
    const fby_option *o;
    for (size_t i = 0; (o = fby_option_at(FBY_OPTIONS_OUTPUT, i)); i++)
        if (strcmp(o->field, "from") == 0)
            return o->choices[from];
    return "";
}

static PyObject *pipeline_outputs(PyObject *op, PyObject *unused)
{
    (void)unused;
    fby_error err = {.file_offset = -1};
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    fby_status status;
    fby_pipeline *handle = begin(op);
    if (!handle)
        return NULL;
    FBPY_WAIT(status, fby_pipeline_outputs(handle, &opts, &err));
    end(op);
    if (status != FBY_OK)
        return fbpy_raise(fbpy_state_of(op), status, &err);
    const fby_output *outputs = opts.outputs;
    PyObject *list = PyList_New((Py_ssize_t)opts.n_outputs);
    for (size_t i = 0; list && i < opts.n_outputs; i++) {
        PyObject *columns = PyTuple_New((Py_ssize_t)outputs[i].n_columns);
        for (size_t c = 0; columns && c < outputs[i].n_columns; c++) {
            PyObject *name = PyUnicode_FromString(outputs[i].columns[c]);
            if (!name)
                Py_CLEAR(columns);
            else
                PyTuple_SET_ITEM(columns, (Py_ssize_t)c, name);
        }
        PyObject *row = columns ? Py_BuildValue("ssN", outputs[i].name, from_word(outputs[i].from), columns) : NULL;
        if (!row)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    return list;
}

/* Output i; NULL with an exception set. They were asked for when its row was made: nothing is opened here. */
static const fby_output *output_at(PyObject *op, Py_ssize_t i)
{
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    fby_error err = {.file_offset = -1};
    fby_pipeline *handle = begin(op);
    if (!handle)
        return NULL;
    fby_status status = fby_pipeline_outputs(handle, &opts, &err);
    end(op);
    if (status == FBY_OK && i >= 0 && (size_t)i < opts.n_outputs)
        return &opts.outputs[i];
    if (status == FBY_OK)
        PyErr_SetString(PyExc_IndexError, "no such output of the pipeline");
    else
        fbpy_raise(fbpy_state_of(op), status, &err);
    return NULL;
}

int fbpy_pipeline_output(fbpy_state *state, PyObject *spec, fby_output *out)
{
    PyObject *core = PyDict_Check(spec) ? fbpy_option_given(spec, "pipeline") : Py_None;
    if (!Py_IS_TYPE(core, state->pipeline_type))
        return 0;
    const char *name = PyUnicode_AsUTF8(fbpy_option_given(spec, "name"));
    const Py_ssize_t i = name ? PyLong_AsSsize_t(fbpy_option_given(spec, "place")) : -1;
    const fby_output *output = PyErr_Occurred() ? NULL : output_at(core, i);
    if (!output)
        return -1;
    *out = *output;
    out->name = name;
    return 1;
}

/* The table whose keys an encoded output's values are places in. */
static PyObject *pipeline_keys(PyObject *op, PyObject *place)
{
    Py_ssize_t i = PyLong_AsSsize_t(place);
    const fby_output *output = i == -1 && PyErr_Occurred() ? NULL : output_at(op, i);
    if (!output)
        return NULL;
    if (!output->make || output->make->kind != FBY_MAKE_LOOKUP || output->make->lookup.n_columns)
        Py_RETURN_NONE;
    return fbpy_lookup_new(fbpy_state_of(op), fby_lookup_ref(output->make->lookup.table));
}

static PyObject *pipeline_tree(PyObject *op, PyObject *unused)
{
    (void)unused;
    return from_node(fby_pipeline_tree(((pipeline_object *)op)->handle));
}

static PyObject *pipeline_splits(PyObject *op, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    const char *name;
    for (size_t i = 0; list && (name = fby_pipeline_split(((pipeline_object *)op)->handle, i)); i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *pipeline_choose_split(PyObject *op, PyObject *named)
{
    fby_error err = {0};
    const char *split = named == Py_None ? NULL : PyUnicode_AsUTF8(named);
    if (PyErr_Occurred())
        return NULL;
    const fby_status status = fby_pipeline_choose_split(((pipeline_object *)op)->handle, split, &split, &err);
    return status == FBY_OK ? Py_BuildValue("z", split) : fbpy_raise(fbpy_state_of(op), status, &err);
}

static PyObject *pipeline_text(PyObject *op, PyObject *named)
{
    fby_error err = {0};
    const char *split = named == Py_None ? NULL : PyUnicode_AsUTF8(named), *text;
    fby_pipeline *handle = PyErr_Occurred() ? NULL : begin(op);
    if (!handle)
        return NULL;
    const fby_status status = fby_pipeline_text(handle, split, &text, &err);
    end(op);
    return status == FBY_OK ? Py_BuildValue("s", text) : fbpy_raise(fbpy_state_of(op), status, &err);
}

static PyObject *pipeline_sources(PyObject *op, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    fby_pipeline *handle = ((pipeline_object *)op)->handle, *source;
    const char *name;
    for (size_t i = 0; list && (source = fby_pipeline_source(handle, i, &name)); i++) {
        PyObject *core = object_of(fbpy_state_of(op), source, (pipeline_object *)op);
        PyObject *pair = core ? Py_BuildValue("sN", name, core) : NULL;
        if (!pair || PyList_Append(list, pair) < 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

/* The message of an error of a loader over its outputs, with the place in the file before it. */
static PyObject *pipeline_locate(PyObject *op, PyObject *message)
{
    fby_error err = {.code = FBY_E_ARG};
    const char *text = PyUnicode_AsUTF8(message);
    if (!text)
        return NULL;
    (void)PyOS_snprintf(err.message, sizeof err.message, "%s", text);
    (void)fby_pipeline_locate(((pipeline_object *)op)->handle, &err);
    return PyUnicode_DecodeUTF8(err.message, (Py_ssize_t)strlen(err.message), "replace");
}

static PyMethodDef k_methods[] = {
    {"dataset", pipeline_dataset, METH_NOARGS, "dataset()\n--\n\nThe data set."},
    {"samples", pipeline_samples, METH_VARARGS, "samples(split)\n--\n\n(Samples, kind) of a split, or of all."},
    {"outputs", pipeline_outputs, METH_NOARGS, "outputs()\n--\n\nA list of (name, from, columns); lookups are read and moments fitted."},
    {"keys", pipeline_keys, METH_O,
     "keys(i)\n--\n\nThe Lookup whose keys the values of output i are places in, where it is encoded; else None."},
    {"tree", pipeline_tree, METH_NOARGS, "tree()\n--\n\nThe file as plain values."},
    {"splits", pipeline_splits, METH_NOARGS, "splits()\n--\n\nNames of the splits."},
    {"text", pipeline_text, METH_O, "text(split)\n--\n\nThe file, and as comments what was changed of it, for a pack of the split."},
    {"choose_split", pipeline_choose_split, METH_O, "choose_split(named)\n--\n\nThe split that is meant; None for all samples."},
    {"sources", pipeline_sources, METH_NOARGS, "sources()\n--\n\nA list of (name, Pipeline), of a mixture."},
    {"locate", pipeline_locate, METH_O, "locate(message)\n--\n\nA loader's error message with the output's place in the file."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot k_slots[] = {
    {Py_tp_dealloc, pipeline_dealloc},
    {Py_tp_methods, k_methods},
    {Py_tp_doc, "A pipeline file."},
    {0, NULL},
};

PyType_Spec fbpy_pipeline_spec = {
    .name = "forebay._forebay.Pipeline",
    .basicsize = sizeof(pipeline_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = k_slots,
};
