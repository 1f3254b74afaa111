/* Makes of a sample as a whole, and operations in place: what forebay/_make_sample.py writes as tuples. */
#include "module.h"

#include <string.h>

/* A number that may be None. */
static int parse_optional(PyObject *value, bool *has, double *out)
{
    if (value == Py_None)
        return 0;
    *has = true;
    *out = PyFloat_AsDouble(value);
    return PyErr_Occurred() ? -1 : 0;
}

/* (size, count_is_pairs, pad or None, n_features, clip_count) */
static int parse_symmetric(PyObject *params, fby_make_symmetric *out)
{
    unsigned long long size, n_features;
    int count_is_pairs, clip_count;
    PyObject *pad;
    if (!PyArg_ParseTuple(params, "KpOKp", &size, &count_is_pairs, &pad, &n_features, &clip_count))
        return -1;
    *out =
        (fby_make_symmetric){.size = size, .count_is_pairs = count_is_pairs != 0, .n_features = n_features, .clip_count = clip_count != 0};
    return parse_optional(pad, &out->has_pad, &out->pad);
}

/* (length, begin; None: drawn) */
static int parse_crop(PyObject *params, fby_make_crop *out)
{
    unsigned long long length;
    PyObject *begin;
    if (!PyArg_ParseTuple(params, "KO", &length, &begin))
        return -1;
    *out = (fby_make_crop){.length = length, .random = begin == Py_None};
    if (!out->random)
        out->begin = PyLong_AsUnsignedLongLong(begin);
    return PyErr_Occurred() ? -1 : 0;
}

/* (size, clip_count) */
static int parse_sequence_mask(PyObject *params, fby_make_sequence_mask *out)
{
    unsigned long long size;
    int clip_count;
    if (!PyArg_ParseTuple(params, "Kp", &size, &clip_count))
        return -1;
    *out = (fby_make_sequence_mask){.size = size, .clip_count = clip_count != 0};
    return 0;
}

/* (of_last, ((begin, end, step, places or None, whether the axis goes), …)) */
static int parse_select(PyObject *params, fbpy_room *room, fby_make_select *out)
{
    PyObject *items;
    int of_last;
    if (!PyArg_ParseTuple(params, "pO!", &of_last, &PyTuple_Type, &items))
        return -1;
    out->of_last = of_last != 0;
    out->n_axes = (size_t)PyTuple_GET_SIZE(items);
    fby_axis_places *axes = fbpy_room_take(room, out->n_axes + 1, sizeof *axes);
    for (size_t i = 0; axes && i < out->n_axes; i++) {
        long long begin, end, step;
        PyObject *places;
        int drop_axis;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(items, (Py_ssize_t)i), "LLLOp", &begin, &end, &step, &places, &drop_axis))
            return -1;
        axes[i] = (fby_axis_places){.begin = begin, .end = end, .step = (uint64_t)step, .drop_axis = drop_axis != 0};
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

/* (whether of durations, the unit) */
static int parse_time(PyObject *params, fby_make_time *out)
{
    const char *word;
    int is_duration;
    if (!PyArg_ParseTuple(params, "ps", &is_duration, &word))
        return -1;
    out->is_duration = is_duration != 0;
    for (fby_unit unit = FBY_UNIT_S; unit <= FBY_UNIT_NS; unit++)
        if (strcmp(fby_unit_name(unit), word) == 0)
            out->unit = unit;
    return 0;
}

/* (((value, feature), …), first_rows, max_groups, pad, positions or None, mask) */
static int parse_group_channels(fbpy_state *state, PyObject *params, fbpy_room *room, fby_make_group_channels *out)
{
    PyObject *channels, *positions;
    unsigned int n_rows, max_groups;
    int mask;
    if (!PyArg_ParseTuple(params, "O!IIdOp", &PyTuple_Type, &channels, &n_rows, &max_groups, &out->pad, &positions, &mask))
        return -1;
    out->n_rows = n_rows;
    out->max_groups = max_groups;
    out->mask = mask != 0;
    out->n_channels = (size_t)PyTuple_GET_SIZE(channels);
    fby_channel *list = fbpy_room_take(room, out->n_channels + 1, sizeof *list);
    for (size_t i = 0; list && i < out->n_channels; i++) {
        PyObject *word;
        int value;
        unsigned int feature;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(channels, (Py_ssize_t)i), "OI", &word, &feature) ||
            (value = fbpy_choice(FBY_OPTIONS_CHANNEL, word)) < 0)
            return -1;
        list[i] = (fby_channel){.value = (fby_channel_value)value, .feature = feature};
    }
    out->channels = list;
    if (list && positions != Py_None && !(out->positions = fbpy_lookup_of(state, positions, room)))
        return -1;
    return list ? 0 : -1;
}

int fbpy_make_sample_parse(fbpy_state *state, PyObject *params, fbpy_room *room, fby_make *make)
{
    switch (make->kind) {
    case FBY_MAKE_SYMMETRIC: return parse_symmetric(params, &make->symmetric);
    case FBY_MAKE_CROP: return parse_crop(params, &make->crop);
    case FBY_MAKE_SEQUENCE_MASK: return parse_sequence_mask(params, &make->sequence_mask);
    case FBY_MAKE_SELECT: return parse_select(params, room, &make->select);
    case FBY_MAKE_TIME: return parse_time(params, &make->time);
    default: return parse_group_channels(state, params, room, &make->group_channels);
    }
}

/* (kind's word), of spec_augment then time_masks, max_time, freq_masks, max_freq, time_axis, freq_axis, value */
int fbpy_after_parse(PyObject *spec, fby_after *after)
{
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) < 1) {
        PyErr_SetString(PyExc_TypeError, "after: a tuple that begins with its kind is expected");
        return -1;
    }
    const int kind = fbpy_choice(FBY_OPTIONS_AFTER, PyTuple_GET_ITEM(spec, 0));
    if (kind < 0)
        return -1;
    *after = (fby_after){.kind = (fby_after_kind)kind};
    if (after->kind != FBY_AFTER_SPEC_AUGMENT)
        return 0;
    fby_after_spec_augment *s = &after->spec_augment;
    PyObject *unused;
    int time_axis, freq_axis;
    unsigned int n_time, max_time, n_freq, max_freq;
    if (!PyArg_ParseTuple(spec, "OIIIIiid", &unused, &n_time, &max_time, &n_freq, &max_freq, &time_axis, &freq_axis, &s->value))
        return -1;
    s->n_time = n_time;
    s->max_time = max_time;
    s->n_freq = n_freq;
    s->max_freq = max_freq;
    s->time_axis = time_axis;
    s->freq_axis = freq_axis;
    return 0;
}
