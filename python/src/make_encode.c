/* What is made of a row, from _make_encode.py's words: bits, one-hot, maps, n-grams, expressions. */
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

/* (n_bits, encoding) */
static int parse_bits(PyObject *params, fby_make_bits *out)
{
    unsigned long long n_bits;
    PyObject *word;
    int encoding;
    if (!PyArg_ParseTuple(params, "KO", &n_bits, &word) || (encoding = fbpy_choice(FBY_OPTIONS_BITS, word)) < 0)
        return -1;
    *out = (fby_make_bits){.n_bits = n_bits, .encoding = (fby_bits_encoding)encoding};
    return 0;
}

/* (n_classes, ignore_unknown) */
static int parse_one_hot(PyObject *params, fby_make_one_hot *out)
{
    unsigned long long n_classes;
    int ignore;
    if (!PyArg_ParseTuple(params, "Kp", &n_classes, &ignore))
        return -1;
    *out = (fby_make_one_hot){.n_classes = n_classes, .ignore_unknown = ignore != 0};
    return 0;
}

/* (texts or int64s as bytes, float64s as bytes, default or None) */
static int parse_map(PyObject *params, fbpy_room *room, fby_make_map *out)
{
    PyObject *keys, *to, *otherwise;
    size_t n_keys;
    if (!PyArg_ParseTuple(params, "OOO", &keys, &to, &otherwise))
        return -1;
    if (PyTuple_Check(keys))
        out->texts = fbpy_room_texts(room, keys, &n_keys);
    else
        out->numbers = numbers(keys, room, &n_keys);
    if ((!out->texts && !out->numbers) || !(out->to = numbers(to, room, &out->n)))
        return -1;
    if (out->n != n_keys) {
        PyErr_Format(PyExc_ValueError, "a map of %zu values to %zu", n_keys, out->n);
        return -1;
    }
    if (otherwise == Py_None)
        return 0;
    out->has_default = true;
    out->default_to = PyFloat_AsDouble(otherwise);
    return PyErr_Occurred() ? -1 : 0;
}

/* (n, vocabulary, separator, delete, lower, strip, drop_spaces, missing or None): the texts live in the tuple */
static int parse_ngrams(PyObject *params, fbpy_room *room, fby_make_ngrams *out)
{
    unsigned n;
    PyObject *vocabulary;
    int lower, strip, drop_spaces;
    if (!PyArg_ParseTuple(params, "IOsspppz", &n, &vocabulary, &out->separator, &out->delete_chars, &lower, &strip, &drop_spaces,
                          &out->missing))
        return -1;
    out->n = n;
    out->lower = lower != 0;
    out->strip = strip != 0;
    out->drop_spaces = drop_spaces != 0;
    out->vocabulary = fbpy_room_texts(room, vocabulary, &out->n_vocabulary);
    return out->vocabulary ? 0 : -1;
}

int fbpy_make_encode_parse(PyObject *params, fbpy_room *room, fby_make *make)
{
    switch (make->kind) {
    case FBY_MAKE_BITS: return parse_bits(params, &make->bits);
    case FBY_MAKE_ONE_HOT: return parse_one_hot(params, &make->one_hot);
    case FBY_MAKE_MAP: return parse_map(params, room, &make->map);
    case FBY_MAKE_NGRAMS: return parse_ngrams(params, room, &make->ngrams);
    default: return PyArg_ParseTuple(params, "s", &make->expression.text) ? 0 : -1;
    }
}
