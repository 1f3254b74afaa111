/* What outputs are made of, from names to values: the library's tables read what is plain (options.c), and here is the rest. */
#include "module.h"

#include <string.h>

/* An array of 8-byte numbers that came as bytes. */
static const void *numbers(PyObject *bytes, fbpy_room *room, size_t *out_n)
{
    if (!PyBytes_Check(bytes) || PyBytes_GET_SIZE(bytes) % 8 != 0) {
        PyErr_SetString(PyExc_TypeError, "an array of 8-byte numbers is expected, as bytes");
        return NULL;
    }
    const size_t n = (size_t)PyBytes_GET_SIZE(bytes) / 8;
    void *copy = fbpy_room_take(room, n + 1, 8);
    if (copy)
        memcpy(copy, PyBytes_AS_STRING(bytes), n * 8);
    *out_n = n;
    return copy;
}

static int parse_map(PyObject *given, fbpy_room *room, fby_make_map *out)
{
    PyObject *values = fbpy_option_given(given, "values");
    size_t n = 0;
    if (PyTuple_Check(values))
        out->texts = fbpy_room_texts(room, values, &n);
    else
        out->numbers = numbers(values, room, &n);
    if ((!out->texts && !out->numbers) || !(out->to = numbers(fbpy_option_given(given, "to"), room, &out->n)))
        return -1;
    if (out->n == n)
        return 0;
    PyErr_Format(PyExc_ValueError, "a map of %zu values to %zu", n, out->n);
    return -1;
}

static int parse_lookup(fbpy_state *state, PyObject *given, fbpy_room *room, fby_make_lookup *out)
{
    PyObject *columns = fbpy_option_given(given, "columns");
    out->n_columns = (size_t)PyTuple_Size(columns);
    size_t *list = PyErr_Occurred() ? NULL : fbpy_room_take(room, out->n_columns + 1, sizeof *list);
    for (size_t i = 0; list && i < out->n_columns; i++) {
        list[i] = PyLong_AsSize_t(PyTuple_GET_ITEM(columns, (Py_ssize_t)i));
        if (PyErr_Occurred())
            return -1;
    }
    out->columns = list;
    return list && (out->table = fbpy_lookup_of(state, fbpy_option_given(given, "table"), room)) ? 0 : -1;
}

/* axes: a tuple of dicts of begin, end, step, places (or None) and drop_axis */
static int parse_select(PyObject *given, fbpy_room *room, fby_make_select *out)
{
    PyObject *items = fbpy_option_given(given, "axes");
    out->n_axes = (size_t)PyTuple_Size(items);
    fby_axis_places *axes = PyErr_Occurred() ? NULL : fbpy_room_take(room, out->n_axes + 1, sizeof *axes);
    for (size_t i = 0; axes && i < out->n_axes; i++) {
        PyObject *axis = PyTuple_GET_ITEM(items, (Py_ssize_t)i), *places = fbpy_option_given(axis, "places");
        axes[i] = (fby_axis_places){.begin = PyLong_AsLongLong(fbpy_option_given(axis, "begin")),
                                    .end = PyLong_AsLongLong(fbpy_option_given(axis, "end")),
                                    .step = PyLong_AsUnsignedLongLong(fbpy_option_given(axis, "step")),
                                    .drop_axis = fbpy_option_given(axis, "drop_axis") == Py_True};
        if (PyErr_Occurred())
            return -1;
        if (places == Py_None)
            continue;
        axes[i].n_places = (size_t)PySequence_Size(places);
        int64_t *numbers = PyErr_Occurred() ? NULL : fbpy_room_take(room, axes[i].n_places + 1, sizeof *numbers);
        for (size_t k = 0; numbers && k < axes[i].n_places; k++) {
            numbers[k] = PyLong_AsLongLong(PyTuple_GET_ITEM(places, (Py_ssize_t)k));
            if (PyErr_Occurred())
                return -1;
        }
        if (!(axes[i].places = numbers))
            return -1;
    }
    out->axes = axes;
    return axes ? 0 : -1;
}

/* channels: a tuple of dicts of value and feature */
static int parse_group_channels(fbpy_state *state, PyObject *given, fbpy_room *room, fby_make_group_channels *out)
{
    PyObject *channels = fbpy_option_given(given, "channels"), *positions = fbpy_option_given(given, "positions");
    out->n_channels = (size_t)PyTuple_Size(channels);
    fby_channel *list = PyErr_Occurred() ? NULL : fbpy_room_take(room, out->n_channels + 1, sizeof *list);
    for (size_t i = 0; list && i < out->n_channels; i++) {
        PyObject *channel = PyTuple_GET_ITEM(channels, (Py_ssize_t)i);
        const unsigned long feature = PyLong_AsUnsignedLong(fbpy_option_given(channel, "feature"));
        const int value = PyErr_Occurred() ? -1 : fbpy_choice(FBY_OPTIONS_CHANNEL, fbpy_option_given(channel, "value"));
        if (value < 0)
            return -1;
        list[i] = (fby_channel){.value = (fby_channel_value)value, .feature = (uint32_t)feature};
    }
    out->channels = list;
    if (list && positions != Py_None && !(out->positions = fbpy_lookup_of(state, positions, room)))
        return -1;
    return list ? 0 : -1;
}

/* (kind, {name: value}) */
int fbpy_make_parse(fbpy_state *state, PyObject *spec, fbpy_room *room, fby_make *make)
{
    static const fby_option_set SETS[] = {
        [FBY_MAKE_BITS] = FBY_OPTIONS_BITS,
        [FBY_MAKE_ONE_HOT] = FBY_OPTIONS_ONE_HOT,
        [FBY_MAKE_MAP] = FBY_OPTIONS_MAP,
        [FBY_MAKE_NGRAMS] = FBY_OPTIONS_NGRAMS,
        [FBY_MAKE_LOOKUP] = FBY_OPTIONS_MAKE_LOOKUP,
        [FBY_MAKE_EXPRESSION] = FBY_OPTIONS_EXPRESSION,
        [FBY_MAKE_STANDARDIZE] = FBY_OPTIONS_MAKE_STANDARDIZE,
        [FBY_MAKE_SYMMETRIC] = FBY_OPTIONS_SYMMETRIC,
        [FBY_MAKE_GROUP_CHANNELS] = FBY_OPTIONS_GROUP_CHANNELS,
        [FBY_MAKE_CROP] = FBY_OPTIONS_CROP,
        [FBY_MAKE_SEQUENCE_MASK] = FBY_OPTIONS_SEQUENCE_MASK,
        [FBY_MAKE_SELECT] = FBY_OPTIONS_AXES,
        [FBY_MAKE_TIME] = FBY_OPTIONS_TIME,
    };
    PyObject *word, *given;
    int kind;
    if (!PyArg_ParseTuple(spec, "OO!", &word, &PyDict_Type, &given) || (kind = fbpy_choice(FBY_OPTIONS_MAKE, word)) < 0)
        return -1;
    make->kind = (fby_make_kind)kind;
    if (kind == FBY_MAKE_NONE || fbpy_options_parse(SETS[kind], given, room, &make->bits) < 0) /* all structs of the union begin there */
        return -1;
    switch (make->kind) {
    case FBY_MAKE_MAP: return parse_map(given, room, &make->map);
    case FBY_MAKE_LOOKUP: return parse_lookup(state, given, room, &make->lookup);
    case FBY_MAKE_STANDARDIZE:
        return (make->standardize.moments = fbpy_lookup_of(state, fbpy_option_given(given, "moments"), room)) ? 0 : -1;
    case FBY_MAKE_SELECT: return parse_select(given, room, &make->select);
    case FBY_MAKE_GROUP_CHANNELS: return parse_group_channels(state, given, room, &make->group_channels);
    default: return 0;
    }
}

/* (kind, {name: value}) */
int fbpy_after_parse(PyObject *spec, fbpy_room *room, fby_after *after)
{
    PyObject *word, *given;
    int kind;
    if (!PyArg_ParseTuple(spec, "OO!", &word, &PyDict_Type, &given) || (kind = fbpy_choice(FBY_OPTIONS_AFTER, word)) < 0)
        return -1;
    after->kind = (fby_after_kind)kind;
    return kind == FBY_AFTER_SPEC_AUGMENT ? fbpy_options_parse(FBY_OPTIONS_SPEC_AUGMENT, given, room, &after->spec_augment) : 0;
}
