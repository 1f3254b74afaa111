/* _forebay.Lookup: an fby_lookup; the functions that make one; and what an output says of it. forebay/_lookup.py makes it readable. */
#include "module.h"

typedef struct lookup_object {
    PyObject_HEAD fby_lookup *handle; /* owned */
} lookup_object;

PyObject *fbpy_lookup_new(fbpy_state *state, fby_lookup *table)
{
    lookup_object *self = PyObject_New(lookup_object, state->lookup_type);
    if (!self) {
        fby_lookup_close(table);
        return NULL;
    }
    self->handle = table;
    return (PyObject *)self;
}

static void lookup_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    fby_lookup_close(((lookup_object *)op)->handle);
    PyObject_Free(op);
    Py_DECREF(type);
}

static Py_ssize_t lookup_length(PyObject *op) { return (Py_ssize_t)fby_lookup_count(((lookup_object *)op)->handle); }

/* What a key has for one column: 1 with *text or *number; 0 when no table has such a one; -1 with an exception. */
static int parse_key_value(PyObject *value, const char **text, int64_t *number)
{
    if (PyUnicode_Check(value)) {
        Py_ssize_t n;
        *text = PyUnicode_AsUTF8AndSize(value, &n);
        return !*text ? -1 : strlen(*text) == (size_t)n;
    }
    PyObject *whole = PyNumber_Index(value);
    if (!whole)
        return -1;
    int overflow;
    *number = PyLong_AsLongLongAndOverflow(whole, &overflow);
    Py_DECREF(whole);
    return *number == -1 && PyErr_Occurred() ? -1 : !overflow;
}

static PyObject *lookup_find(PyObject *op, PyObject *key)
{
    const fby_lookup *table = ((lookup_object *)op)->handle;
    const size_t n = fby_lookup_key_column_count(table);
    const char *text[FBY_MAX_KEYS] = {NULL};
    int64_t number[FBY_MAX_KEYS];
    fby_lookup_keys columns[FBY_MAX_KEYS];
    if (n > 1 && (!PyTuple_Check(key) || (size_t)PyTuple_GET_SIZE(key) != n)) {
        PyErr_Format(PyExc_TypeError, "a key of this table is a tuple of %zu", n);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        int rc = parse_key_value(n > 1 ? PyTuple_GET_ITEM(key, (Py_ssize_t)i) : key, &text[i], &number[i]);
        if (rc <= 0)
            return rc < 0 ? NULL : PyLong_FromLong(-1);
        columns[i] = text[i] ? (fby_lookup_keys){.texts = &text[i]} : (fby_lookup_keys){.numbers = &number[i]};
    }
    return PyLong_FromLongLong(fby_lookup_find_keys(table, columns, 0));
}

/* What key i has for a column of the key. */
static PyObject *key_value(const fby_lookup *table, size_t i, size_t column)
{
    int64_t number;
    const char *text;
    (void)fby_lookup_key_value(table, i, column, &number, &text, NULL); /* both are in range */
    return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace") : PyLong_FromLongLong(number);
}

static PyObject *key_tuple(const fby_lookup *table, size_t i)
{
    const size_t n = fby_lookup_key_column_count(table);
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t c = 0; tuple && c < n; c++) {
        PyObject *value = key_value(table, i, c);
        if (value)
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)c, value);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *lookup_keys(PyObject *op, PyObject *unused)
{
    (void)unused;
    const fby_lookup *table = ((lookup_object *)op)->handle;
    size_t n = fby_lookup_count(table);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *key = fby_lookup_key_column_count(table) > 1 ? key_tuple(table, i) : key_value(table, i, 0);
        if (key)
            PyList_SET_ITEM(list, (Py_ssize_t)i, key);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *lookup_columns(PyObject *op, PyObject *unused)
{
    (void)unused;
    const fby_lookup *table = ((lookup_object *)op)->handle;
    size_t n = fby_lookup_column_count(table);
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *name = PyUnicode_FromString(fby_lookup_column(table, i));
        if (name)
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, name);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *lookup_row(PyObject *op, PyObject *arg)
{
    const fby_lookup *table = ((lookup_object *)op)->handle;
    size_t row = PyLong_AsSize_t(arg), n = fby_lookup_column_count(table);
    if (PyErr_Occurred())
        return NULL;
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *value = PyFloat_FromDouble(fby_lookup_value(table, row, i));
        if (value)
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, value);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *lookup_values(PyObject *op, PyObject *unused)
{
    (void)unused;
    const fby_lookup *table = ((lookup_object *)op)->handle;
    size_t rows = fby_lookup_count(table), n = fby_lookup_column_count(table);
    if (n && rows > (size_t)PY_SSIZE_T_MAX / sizeof(double) / n)
        return PyErr_NoMemory();
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(rows * n * sizeof(double)));
    char *to = bytes ? PyBytes_AS_STRING(bytes) : NULL;
    for (size_t row = 0; bytes && row < rows; row++)
        for (size_t i = 0; i < n; i++, to += sizeof(double)) {
            double value = fby_lookup_value(table, row, i);
            memcpy(to, &value, sizeof value);
        }
    return bytes;
}

static PyObject *lookup_is_text(PyObject *op, void *unused)
{
    (void)unused;
    const fby_lookup *table = ((lookup_object *)op)->handle;
    const size_t n = fby_lookup_key_column_count(table);
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, PyBool_FromLong(fby_lookup_key_is_text(table, i)));
    return tuple;
}

static PyMethodDef k_methods[] = {
    {"find", lookup_find, METH_O, "find(key)\n--\n\nThe row of a key, of several columns a tuple; -1 when it is not there."},
    {"keys", lookup_keys, METH_NOARGS, "keys()\n--\n\nA list of str or int, of several columns of tuples."},
    {"columns", lookup_columns, METH_NOARGS, "columns()\n--\n\nA tuple of str."},
    {"row", lookup_row, METH_O, "row(i)\n--\n\nThe values of a row, a tuple of float."},
    {"values", lookup_values, METH_NOARGS, "values()\n--\n\nAll values, row after row, as bytes of float64."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef k_getset[] = {
    {"text", lookup_is_text, NULL, "Of each column of the key: are its values strings, not whole numbers?", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot k_slots[] = {
    {Py_tp_dealloc, lookup_dealloc},
    {Py_tp_methods, k_methods},
    {Py_tp_getset, k_getset},
    {Py_sq_length, lookup_length},
    {Py_tp_doc, "A table of numbers by key. Use forebay.Lookup."},
    {0, NULL},
};

PyType_Spec fbpy_lookup_spec = {
    .name = "forebay._forebay.Lookup",
    .basicsize = sizeof(lookup_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = k_slots,
};

/* ---- making one ---- */

static PyObject *open_lookup(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *tables, *given, *result = NULL;
    fby_lookup_opts opts = {.size = sizeof opts};
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &tables, &PyDict_Type, &given))
        return NULL;
    size_t n = (size_t)PyTuple_GET_SIZE(tables), n_open = 0;
    fby_lookup *table = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    fbpy_room room = {0};
    fby_dataset **ds = PyMem_Calloc(n + 1, sizeof *ds);
    if (!ds)
        return PyErr_NoMemory();
    for (; n_open < n; n_open++)
        if (!(ds[n_open] = fbpy_dataset_acquire(state, PyTuple_GET_ITEM(tables, (Py_ssize_t)n_open))))
            goto done;
    if (fbpy_options_parse(FBY_OPTIONS_LOOKUP, given, &room, &opts) < 0)
        goto done;
    FBPY_WAIT(status, fby_lookup_open(ds, n, &opts, &table, &err));
    result = status == FBY_OK ? fbpy_lookup_new(state, table) : fbpy_raise(state, status, &err);
done:
    /* Never with the GIL held: the last reference to a dataset may give Python buffers back. */
    Py_BEGIN_ALLOW_THREADS for (size_t i = 0; i < n_open; i++) fby_dataset_close(ds[i]);
    Py_END_ALLOW_THREADS fbpy_room_free(&room);
    PyMem_Free(ds);
    return result;
}

/* A column of the key: a tuple of str, or a buffer of int64, which is copied to where it is aligned. */
static int parse_key_column(PyObject *values, fbpy_room *room, fby_lookup_keys *out, size_t *n)
{
    Py_buffer buffer;
    if (PyTuple_Check(values))
        return (out->texts = fbpy_room_texts(room, values, n)) ? 0 : -1;
    if (PyObject_GetBuffer(values, &buffer, PyBUF_SIMPLE) < 0)
        return -1;
    *n = (size_t)buffer.len / sizeof(int64_t);
    int64_t *numbers = fbpy_room_take(room, *n + 1, sizeof *numbers);
    if (numbers && *n)
        memcpy(numbers, buffer.buf, *n * sizeof *numbers);
    out->numbers = numbers;
    PyBuffer_Release(&buffer);
    return numbers ? 0 : -1;
}

/* keys: one entry a column of the key. */
static int parse_keys(PyObject *keys, fbpy_room *room, fby_lookup_keys out[FBY_MAX_KEYS], size_t *out_n)
{
    const size_t n_key = (size_t)PyTuple_GET_SIZE(keys);
    for (size_t i = 0; i < n_key && i < FBY_MAX_KEYS; i++) {
        size_t n;
        if (parse_key_column(PyTuple_GET_ITEM(keys, (Py_ssize_t)i), room, &out[i], &n) < 0)
            return -1;
        if (i > 0 && n != *out_n) {
            PyErr_Format(PyExc_ValueError, "the columns of the key differ in length: %zu and %zu", *out_n, n);
            return -1;
        }
        *out_n = n;
    }
    return 0;
}

static PyObject *make_lookup(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *keys, *columns, *result = NULL;
    Py_buffer values;
    if (!PyArg_ParseTuple(args, "O!O!y*", &PyTuple_Type, &keys, &PyTuple_Type, &columns, &values))
        return NULL;
    fbpy_room room = {0};
    fby_lookup *table = NULL;
    fby_error err = {.file_offset = -1};
    fby_lookup_keys key[FBY_MAX_KEYS] = {{0}};
    size_t n_keys = 0, n_columns, bytes;
    fby_status status;
    double *aligned;
    const char **names = fbpy_room_texts(&room, columns, &n_columns);
    if (!names || parse_keys(keys, &room, key, &n_keys) < 0)
        goto done;
    if (__builtin_mul_overflow(n_keys, n_columns, &bytes) || __builtin_mul_overflow(bytes, sizeof(double), &bytes) ||
        bytes != (size_t)values.len) {
        PyErr_Format(PyExc_ValueError, "%zd bytes of values for %zu keys and %zu columns", values.len, n_keys, n_columns);
        goto done;
    }
    if (!(aligned = fbpy_room_take(&room, bytes / sizeof *aligned + 1, sizeof *aligned)))
        goto done;
    memcpy(aligned, values.buf, bytes);
    status = fby_lookup_create_keys(key, (size_t)PyTuple_GET_SIZE(keys), n_keys, names, n_columns, aligned, &table, &err);
    result = status == FBY_OK ? fbpy_lookup_new(state, table) : fbpy_raise(state, status, &err);
done:
    PyBuffer_Release(&values);
    fbpy_room_free(&room);
    return result;
}

static PyObject *distinct(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *dataset;
    const char *column;
    if (!PyArg_ParseTuple(args, "Os", &dataset, &column))
        return NULL;
    fby_dataset *ds = fbpy_dataset_acquire(state, dataset);
    if (!ds)
        return NULL;
    fby_lookup *table = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    FBPY_WAIT(status, fby_lookup_distinct(ds, column, &table, &err));
    Py_BEGIN_ALLOW_THREADS fby_dataset_close(ds);
    Py_END_ALLOW_THREADS return status == FBY_OK ? fbpy_lookup_new(state, table) : fbpy_raise(state, status, &err);
}

PyMethodDef fbpy_lookup_functions[] = {
    {"open_lookup", open_lookup, METH_VARARGS, "open_lookup(datasets, key, columns, fill_missing, first_wins, threads)\n--\n\nA Lookup."},
    {"make_lookup", make_lookup, METH_VARARGS,
     "make_lookup(keys, columns, values)\n--\n\nA Lookup of a tuple of str or a buffer of int64 for each column of the key, and float64 "
     "row after row."},
    {"distinct", distinct, METH_VARARGS, "distinct(dataset, column)\n--\n\nThe distinct values of a column as a Lookup without columns."},
    {NULL, NULL, 0, NULL},
};

/* ---- outputs ---- */

/* A reference to the table of a forebay.Lookup, kept in `room`. */
fby_lookup *fbpy_lookup_of(fbpy_state *state, PyObject *value, fbpy_room *room)
{
    PyObject *core = PyObject_GetAttr(value, state->name_core);
    if (!core)
        return NULL;
    fby_lookup *table = NULL;
    if (Py_IS_TYPE(core, state->lookup_type))
        table = fbpy_room_keep(room, fby_lookup_ref(((lookup_object *)core)->handle));
    else
        PyErr_Format(PyExc_TypeError, "a forebay.Lookup is expected, not %s", fbpy_type_name(value));
    Py_DECREF(core);
    return table;
}
