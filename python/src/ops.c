/* Row operations from Python values, and fit(): moments of a dataset's columns. forebay/_fit.py makes them readable. */
#include "module.h"

/* a or b of an operation: a number, or a tuple of n of them, which goes to `room`. */
static int parse_parameter(PyObject *value, size_t n, fbpy_room *room, double *number, const double **out_each)
{
    if (!PyTuple_Check(value)) {
        *number = PyFloat_AsDouble(value);
        return PyErr_Occurred() ? -1 : 0;
    }
    if ((size_t)PyTuple_GET_SIZE(value) != n) {
        PyErr_Format(PyExc_ValueError, "%zd numbers for an operation that takes %zu", PyTuple_GET_SIZE(value), n);
        return -1;
    }
    double *each = fbpy_room_take(room, n, sizeof *each);
    for (size_t i = 0; each && i < n; i++) {
        each[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(value, (Py_ssize_t)i));
        if (PyErr_Occurred())
            return -1;
    }
    *out_each = each;
    return each ? 0 : -1;
}

/* (kind, a, b, None), or with a number for each of so many places on an axis (kind, a, b, (axis, places)). */
static int parse_op(PyObject *spec, size_t n_columns, fbpy_room *room, fby_op *op)
{
    PyObject *kind, *a, *b, *axis;
    unsigned long long places = 0;
    int place;
    if (!PyArg_ParseTuple(spec, "OOOO", &kind, &a, &b, &axis) || (place = fbpy_choice(FBY_OPTIONS_OP, kind)) < 0)
        return -1;
    if (axis != Py_None && !PyArg_ParseTuple(axis, "iK", &op->axis, &places))
        return -1;
    op->kind = (fby_op_kind)place;
    op->n_each = (size_t)places;
    if (places && n_columns > SIZE_MAX / places) {
        PyErr_NoMemory();
        return -1;
    }
    const size_t n = n_columns * (places ? (size_t)places : 1);
    return parse_parameter(a, n, room, &op->a, &op->a_each) < 0 ? -1 : parse_parameter(b, n, room, &op->b, &op->b_each);
}

int fbpy_ops_parse(PyObject *ops, size_t n_columns, fbpy_room *room, const fby_op **out, size_t *out_n)
{
    size_t n = (size_t)PyTuple_GET_SIZE(ops);
    if (n == 0)
        return 0;
    if (n > FBY_MAX_OPS) {
        PyErr_Format(PyExc_ValueError, "%zu operations on one output: at most %d are possible", n, FBY_MAX_OPS);
        return -1;
    }
    fby_op *list = fbpy_room_take(room, n, sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        if (parse_op(PyTuple_GET_ITEM(ops, (Py_ssize_t)i), n_columns, room, &list[i]) < 0)
            return -1;
    *out = list;
    *out_n = n;
    return list ? 0 : -1;
}

PyObject *fbpy_moments_list(const fby_moments *m, size_t n)
{
    PyObject *result = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; result && i < n; i++) {
        PyObject *row = Py_BuildValue("KKdddd", (unsigned long long)m[i].count, (unsigned long long)m[i].n_missing, m[i].mean, m[i].std,
                                      m[i].min, m[i].max);
        if (row)
            PyList_SET_ITEM(result, (Py_ssize_t)i, row);
        else
            Py_CLEAR(result);
    }
    return result;
}

static PyObject *fit(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *dataset, *ops, *chosen, *given, *result = NULL;
    const char *by;
    unsigned long long places; /* on the axis; 0 = whole columns */
    size_t n = 0;
    if (!PyArg_ParseTuple(args, "OO!OzKO!", &dataset, &PyTuple_Type, &ops, &chosen, &by, &places, &PyDict_Type, &given))
        return NULL;
    fby_fit_opts opts = {FBY_FIT_SIZES};
    fby_dataset *ds = NULL;
    fby_lookup *table = NULL;
    fby_moments *moments = NULL;
    fby_error err = {.file_offset = -1};
    fbpy_room room = {0};
    if (fbpy_options_parse(FBY_OPTIONS_FIT, given, &room, &opts) < 0 ||
        fbpy_ops_parse(ops, opts.n_columns, &room, &opts.ops, &opts.n_ops) < 0)
        goto done;
    opts.n_each = (size_t)places;
    n = opts.n_columns * (places ? opts.n_each : 1); /* fits: an array of so many places has been opened */
    if (!(moments = fbpy_room_take(&room, n + 1, sizeof *moments)))
        goto done;
    if (chosen != Py_None && !(opts.samples = fbpy_samples_acquire(state, chosen)))
        goto done;
    if (!(ds = fbpy_dataset_acquire(state, dataset)))
        goto done;
    fby_status status;
    FBPY_WAIT(status, by ? fby_fit_groups(ds, &opts, by, &table, &err) : fby_fit_moments(ds, &opts, moments, &err));
    if (status != FBY_OK)
        result = fbpy_raise(state, status, &err);
    else
        result = by ? fbpy_lookup_new(state, table) : fbpy_moments_list(moments, n);
done:
    /* Never with the GIL held: the last reference to a dataset may give Python buffers back. */
    Py_BEGIN_ALLOW_THREADS fby_dataset_close(ds);
    fby_samples_close(opts.samples);
    Py_END_ALLOW_THREADS fbpy_room_free(&room);
    return result;
}

PyMethodDef fbpy_ops_functions[] = {
    {"fit_mix", fbpy_fit_mix, METH_VARARGS,
     "fit_mix(sources, ops, places, options)\n--\n\n"
     "The same over a mixture: dicts of name, samples, outputs (None) and weights, as of Loader.open_mix."},
    {"fit", fit, METH_VARARGS,
     "fit(dataset, ops, samples, by, places, options)\n--\n\n"
     "A list of (count, missing, mean, std, min, max), one a column, or one for each place of each; by group, a Lookup."},
    {NULL, NULL, 0, NULL},
};
