/* An fby_output from what forebay/_outputs.py makes of the user's words. */
#include "module.h"

/* ---- room: memory that lives until the loader has been opened ---- */

void *fbpy_room_take(fbpy_room *room, size_t n, size_t size)
{
    if (size && n > (size_t)PY_SSIZE_T_MAX / size - sizeof(void *)) {
        PyErr_NoMemory();
        return NULL;
    }
    fbpy_room_block *block = PyMem_Calloc(1, sizeof *block + n * size);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    block->next = room->first;
    room->first = block;
    return block + 1;
}

fby_lookup *fbpy_room_keep(fbpy_room *room, fby_lookup *table)
{
    fbpy_room_block *block = fbpy_room_take(room, 0, 0);
    if (!block) {
        fby_lookup_close(table);
        return NULL;
    }
    room->first->table = table;
    return table;
}

void fbpy_room_free(fbpy_room *room)
{
    for (fbpy_room_block *next, *block = room->first; block; block = next) {
        next = block->next;
        fby_lookup_close(block->table);
        PyMem_Free(block);
    }
    room->first = NULL;
}

const char **fbpy_room_texts(fbpy_room *room, PyObject *tuple, size_t *out_n)
{
    if (!PyTuple_Check(tuple)) {
        PyErr_Format(PyExc_TypeError, "a tuple of str is expected, not %s", fbpy_type_name(tuple));
        return NULL;
    }
    size_t n = (size_t)PyTuple_GET_SIZE(tuple);
    const char **texts = fbpy_room_take(room, n + 1, sizeof *texts);
    for (size_t i = 0; texts && i < n; i++)
        if (!(texts[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, (Py_ssize_t)i))))
            return NULL;
    *out_n = n;
    return texts;
}

static int parse_column_ops(PyObject *list, fbpy_room *room, fby_output *out)
{
    if (list == Py_None)
        return 0;
    if (!PyTuple_Check(list) || (size_t)PyTuple_GET_SIZE(list) != out->n_columns) {
        PyErr_Format(PyExc_ValueError, "output '%s': operations of each column: as many as there are columns", out->name);
        return -1;
    }
    const fby_op **ops = fbpy_room_take(room, out->n_columns, sizeof *ops);
    size_t *n = ops ? fbpy_room_take(room, out->n_columns, sizeof *n) : NULL;
    if (!n)
        return -1;
    for (size_t i = 0; i < out->n_columns; i++)
        if (fbpy_ops_parse(PyTuple_GET_ITEM(list, (Py_ssize_t)i), 1, room, &ops[i], &n[i]) < 0)
            return -1;
    out->column_ops = ops;
    out->n_column_ops = n;
    return 0;
}

static int parse_after(PyObject *list, fbpy_room *room, fby_output *out)
{
    out->n_after = (size_t)PyTuple_GET_SIZE(list);
    fby_after *after = fbpy_room_take(room, out->n_after, sizeof *after);
    for (size_t i = 0; after && i < out->n_after; i++)
        if (fbpy_after_parse(PyTuple_GET_ITEM(list, (Py_ssize_t)i), room, &after[i]) < 0)
            return -1;
    out->after = after;
    return after ? 0 : -1;
}

static int parse_axes(PyObject *list, fbpy_room *room, fby_output *out)
{
    out->n_reshape = (size_t)PyTuple_GET_SIZE(list);
    int64_t *axes = fbpy_room_take(room, out->n_reshape, sizeof *axes);
    for (size_t i = 0; axes && i < out->n_reshape; i++) {
        axes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(list, (Py_ssize_t)i));
        if (PyErr_Occurred())
            return -1;
    }
    out->reshape = axes;
    return axes ? 0 : -1;
}

static int parse_layout(fby_option_set set, PyObject *given, fbpy_room *room, fby_output *out)
{
    return given == Py_None ? 0 : fbpy_options_parse(set, given, room, out);
}

/* A dict of the output's options, with tuples for ops, make, column_ops, after and reshape; dicts for ragged and padded; or of name,
 * pipeline and place. */
int fbpy_output_parse(fbpy_state *state, PyObject *spec, fbpy_room *room, fby_output *out)
{
    int of_pipeline = fbpy_pipeline_output(state, spec, out);
    if (of_pipeline)
        return of_pipeline > 0 ? 0 : -1;
    if (!PyDict_Check(spec)) {
        PyErr_Format(PyExc_TypeError, "an output is a dict, not %s", fbpy_type_name(spec));
        return -1;
    }
    PyObject *ops = fbpy_option_given(spec, "ops"), *make = fbpy_option_given(spec, "make"), *after = fbpy_option_given(spec, "after"),
             *axes = fbpy_option_given(spec, "reshape");
    if (!PyTuple_Check(ops) || !PyTuple_Check(after) || !PyTuple_Check(axes)) {
        PyErr_SetString(PyExc_TypeError, "ops, after and reshape of an output are tuples");
        return -1;
    }
    if (fbpy_options_parse(FBY_OPTIONS_OUTPUT, spec, room, out) < 0 ||
        parse_layout(FBY_OPTIONS_RAGGED, fbpy_option_given(spec, "ragged"), room, out) < 0 ||
        parse_layout(FBY_OPTIONS_PADDED, fbpy_option_given(spec, "padded"), room, out) < 0 ||
        fbpy_ops_parse(ops, out->n_columns, room, &out->ops, &out->n_ops) < 0 ||
        parse_column_ops(fbpy_option_given(spec, "column_ops"), room, out) < 0 || parse_after(after, room, out) < 0 ||
        parse_axes(axes, room, out) < 0)
        return -1;
    if (make == Py_None)
        return 0;
    fby_make *made = fbpy_room_take(room, 1, sizeof *made);
    out->make = made;
    return made ? fbpy_make_parse(state, make, room, made) : -1;
}

int fbpy_outputs_parse(fbpy_state *state, PyObject *specs, fbpy_room *room, const fby_output **out, size_t *out_n)
{
    if (specs == Py_None)
        return 0;
    if (!PyList_Check(specs)) {
        PyErr_SetString(PyExc_TypeError, "outputs must be a list or None");
        return -1;
    }
    const size_t n = (size_t)PyList_GET_SIZE(specs);
    fby_output *list = fbpy_room_take(room, n, sizeof *list);
    if (!list)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (fbpy_output_parse(state, PyList_GET_ITEM(specs, (Py_ssize_t)i), room, &list[i]) < 0)
            return -1;
    *out = list;
    *out_n = n;
    return 0;
}
