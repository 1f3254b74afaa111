/*
 * Options from a mapping, and structs as dicts, by the library's own tables (<forebay/options.h>): names and words cross here, never places.
 * An option is given under its name; where a form fills it (superbatch= fills one of three fields), under its field's.
 */
#include "module.h"

#include <limits.h>

static const fby_option *find(fby_option_set set, const char *key)
{
    const fby_option *o;
    for (size_t i = 0; (o = fby_option_at(set, i)); i++)
        if (strcmp(o->form && o->type != FBY_OPTION_OTHER ? o->field : o->name, key) == 0)
            return o;
    return NULL;
}

/* Borrowed UTF-8 without a NUL in it; NULL with an exception. */
static const char *text_of(const fby_option *o, PyObject *value)
{
    Py_ssize_t n;
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: a str is expected, not %s", o->name, fbpy_type_name(value));
        return NULL;
    }
    const char *text = PyUnicode_AsUTF8AndSize(value, &n);
    if (text && strlen(text) != (size_t)n) {
        PyErr_Format(PyExc_ValueError, "%s: a text that holds a NUL", o->name);
        return NULL;
    }
    return text;
}

/* The name of a file, which need not be UTF-8; in the room. */
static const char *path_of(PyObject *value, fbpy_room *room)
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(value, &bytes))
        return NULL;
    size_t n = (size_t)PyBytes_GET_SIZE(bytes) + 1;
    char *copy = fbpy_room_take(room, n, 1);
    if (copy)
        memcpy(copy, PyBytes_AS_STRING(bytes), n);
    Py_DECREF(bytes);
    return copy;
}

static int parse_texts(const fby_option *o, PyObject *value, fbpy_room *room, char *opts)
{
    if (!PyTuple_Check(value)) { /* what keeps the texts as long as the dict lives */
        PyErr_Format(PyExc_TypeError, "%s: a tuple of str is expected, not %s", o->name, fbpy_type_name(value));
        return -1;
    }
    const size_t n = (size_t)PyTuple_GET_SIZE(value);
    const char **texts = fbpy_room_take(room, n + 1, sizeof *texts);
    bool ok = texts != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        PyObject *item = PyTuple_GET_ITEM(value, (Py_ssize_t)i);
        ok = (texts[i] = o->type == FBY_OPTION_PATHS ? path_of(item, room) : text_of(o, item)) != NULL;
    }
    if (!ok)
        return -1;
    *(const char *const **)(void *)(opts + o->offset) = texts;
    *(size_t *)(void *)(opts + o->also) = n;
    return 0;
}

static int out_of_range(const fby_option *o, PyObject *value, bool below, unsigned long long most)
{
    if (below)
        PyErr_Format(PyExc_ValueError, "%s=%S is out of range: it must be at least %lld", o->name, value, (long long)o->least);
    else
        PyErr_Format(PyExc_ValueError, "%s=%S is out of range: it must be at most %llu", o->name, value, most);
    return -1;
}

static int parse_number(const fby_option *o, PyObject *value, char *at)
{
    const bool is_signed = o->type == FBY_OPTION_INT || o->type == FBY_OPTION_I64;
    unsigned long long most = o->most;
    if (!most)
        most = o->type == FBY_OPTION_U32   ? UINT32_MAX
               : o->type == FBY_OPTION_INT ? INT_MAX
               : o->type == FBY_OPTION_U64 ? UINT64_MAX
                                           : INT64_MAX;
    PyObject *number = PyBool_Check(value) ? NULL : PyNumber_Index(value);
    if (!number) {
        if (PyBool_Check(value))
            PyErr_Format(PyExc_TypeError, "%s must be an integer, not %R", o->name, value);
        else if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "%s must be an integer, not %s", o->name, fbpy_type_name(value));
        return -1;
    }
    int overflow = 0, rc = 0;
    const long long low = PyLong_AsLongLongAndOverflow(number, &overflow);
    unsigned long long high = (unsigned long long)low;
    if (overflow < 0 || (overflow == 0 && low < (is_signed ? o->least : o->least > 0 ? o->least : 0)))
        rc = out_of_range(o, number, true, most);
    else if (overflow > 0 && (high = PyLong_AsUnsignedLongLong(number)) == (unsigned long long)-1 && PyErr_Occurred())
        PyErr_Clear(), rc = out_of_range(o, number, false, most);
    else if ((overflow > 0 || low > 0) && high > most)
        rc = out_of_range(o, number, false, most);
    else if (o->type == FBY_OPTION_U32)
        *(uint32_t *)(void *)at = (uint32_t)high;
    else if (o->type == FBY_OPTION_INT)
        *(int *)(void *)at = (int)low;
    else
        *(uint64_t *)(void *)at = high;
    Py_DECREF(number);
    return rc;
}

static int parse_choice(const fby_option *o, PyObject *value, char *at)
{
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;
    char words[400] = "";
    size_t n = 0;
    for (int i = 0; o->choices[i]; i++) {
        if (text && strcmp(o->choices[i], text) == 0) {
            memcpy(at, &i, sizeof i);
            return 0;
        }
        int m = PyOS_snprintf(words + n, sizeof words - n, "%s'%s'", i == 0 ? "" : o->choices[i + 1] ? ", " : " or ", o->choices[i]);
        n += m > 0 && n + (size_t)m < sizeof words ? (size_t)m : 0;
    }
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s=%R: use %s", o->name, value, words);
    return -1;
}

int fbpy_choice(fby_option_set set, PyObject *word)
{
    int place = 0;
    return parse_choice(fby_option_at(set, 0), word, (char *)&place) < 0 ? -1 : place;
}

/* Not by its truth: that of "no" is true. NumPy's bools are equal to Python's. */
static int parse_bool(const fby_option *o, PyObject *value, char *at)
{
    const int yes = PyObject_RichCompareBool(value, Py_True, Py_EQ), no = yes == 0 ? PyObject_RichCompareBool(value, Py_False, Py_EQ) : 0;
    if (yes == 1 || no == 1) {
        *(bool *)(void *)at = yes == 1;
        return 0;
    }
    PyErr_Clear(); /* of an array, which is neither */
    PyErr_Format(PyExc_TypeError, "%s must be True or False, not %R", o->name, value);
    return -1;
}

static int parse_double(const fby_option *o, PyObject *value, char *opts)
{
    const double number = PyFloat_AsDouble(value);
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "%s must be a number, not %s", o->name, fbpy_type_name(value));
        return -1;
    }
    if (o->least && !(number > 0)) {
        PyErr_Format(PyExc_ValueError, "%s=%S is out of range: it must be above 0", o->name, value);
        return -1;
    }
    *(double *)(void *)(opts + o->offset) = number;
    if (o->also)
        *(bool *)(void *)(opts + o->also) = true;
    return 0;
}

static int parse_one(const fby_option *o, PyObject *value, fbpy_room *room, char *opts)
{
    char *at = opts + o->offset;
    const char *text = NULL;
    switch (o->type) {
    case FBY_OPTION_BOOL: return parse_bool(o, value, at);
    case FBY_OPTION_U32:
    case FBY_OPTION_U64:
    case FBY_OPTION_INT:
    case FBY_OPTION_I64:
    case FBY_OPTION_BYTES: return parse_number(o, value, at);
    case FBY_OPTION_DOUBLE: return parse_double(o, value, opts);
    case FBY_OPTION_CHOICE: return parse_choice(o, value, at);
    case FBY_OPTION_TEXT: return (*(const char **)(void *)at = text_of(o, value)) ? 0 : -1;
    case FBY_OPTION_PATH: return (*(const char **)(void *)at = path_of(value, room)) ? 0 : -1;
    case FBY_OPTION_TEXTS:
    case FBY_OPTION_PATHS: return parse_texts(o, value, room, opts);
    case FBY_OPTION_CHARS:
        if (!(text = text_of(o, value)))
            return -1;
        if (strlen(text) < o->most) {
            memcpy(at, text, strlen(text) + 1);
            return 0;
        }
        PyErr_Format(PyExc_ValueError, "%s: a text of fewer than %llu bytes is expected", o->name, (unsigned long long)o->most);
        return -1;
    case FBY_OPTION_OTHER: break; /* the caller's */
    }
    return 0;
}

int fbpy_options_parse(fby_option_set set, PyObject *given, fbpy_room *room, void *opts)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(given, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
        const fby_option *o = name ? find(set, name) : NULL;
        if (!o && !PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "there is no option %R of %s", key, fby_option_set_name(set));
        if (!o || (value != Py_None && parse_one(o, value, room, opts) < 0))
            return -1;
    }
    return 0;
}

PyObject *fbpy_option_given(PyObject *given, const char *name)
{
    PyObject *value = PyDict_GetItemString(given, name);
    return value ? value : Py_None;
}

/* ---- the other way ---- */

static PyObject *decode(const char *text) { return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"); }

static PyObject *value_of(const fby_option *o, const char *at)
{
    uint32_t small;
    uint64_t large;
    switch (o->type) {
    case FBY_OPTION_BOOL: return PyBool_FromLong(*at);
    case FBY_OPTION_U32: memcpy(&small, at, sizeof small); return PyLong_FromUnsignedLong(small);
    case FBY_OPTION_INT: memcpy(&small, at, sizeof small); return PyLong_FromLong((int)small);
    case FBY_OPTION_U64:
    case FBY_OPTION_BYTES: memcpy(&large, at, sizeof large); return PyLong_FromUnsignedLongLong(large);
    case FBY_OPTION_I64: memcpy(&large, at, sizeof large); return PyLong_FromLongLong((long long)large);
    case FBY_OPTION_DOUBLE: return PyFloat_FromDouble(*(const double *)(const void *)at);
    case FBY_OPTION_CHOICE: memcpy(&small, at, sizeof small); return PyUnicode_FromString(o->choices[small]);
    case FBY_OPTION_TEXT:
    case FBY_OPTION_PATH: return *(const char *const *)(const void *)at ? decode(*(const char *const *)(const void *)at) : decode("");
    case FBY_OPTION_CHARS: return decode(at);
    case FBY_OPTION_TEXTS:
    case FBY_OPTION_PATHS:
    case FBY_OPTION_OTHER: break;
    }
    return NULL;
}

PyObject *fbpy_options_dict(fby_option_set set, const void *from)
{
    PyObject *dict = PyDict_New();
    const fby_option *o;
    for (size_t i = 0; dict && (o = fby_option_at(set, i)); i++) {
        if (o->type == FBY_OPTION_OTHER)
            continue; /* the caller's */
        PyObject *value = value_of(o, (const char *)from + o->offset);
        if (!value || PyDict_SetItemString(dict, o->name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *words_of(const fby_option *o)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && o->choices && o->choices[i]; i++) {
        PyObject *word = PyUnicode_FromString(o->choices[i]);
        if (!word || PyList_Append(list, word) < 0)
            Py_CLEAR(list);
        Py_XDECREF(word);
    }
    return list;
}

static PyObject *options(PyObject *module, PyObject *name)
{
    static const char *const TYPES[] = {"bool",   "u32",  "u64",  "int",   "i64",   "double", "bytes",
                                        "choice", "text", "path", "texts", "paths", "chars",  "other"};
    (void)module;
    const char *wanted = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    int set = 0;
    while (wanted && set < FBY_OPTION_SETS && strcmp(fby_option_set_name((fby_option_set)set), wanted) != 0)
        set++;
    if (!wanted || set == FBY_OPTION_SETS) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "there is no set of options %R", name);
        return NULL;
    }
    PyObject *list = PyList_New(0);
    const fby_option *o;
    for (size_t i = 0; list && (o = fby_option_at((fby_option_set)set, i)); i++) {
        PyObject *row =
            Py_BuildValue("{ss ss ss sO sO sO sO sL sK sN ss sz ss}", "name", o->name, "field", o->field, "type", TYPES[o->type], "in_file",
                          o->flags & FBY_OPTION_IN_FILE ? Py_True : Py_False, "in_python",
                          o->flags & FBY_OPTION_IN_PYTHON ? Py_True : Py_False, "order", o->flags & FBY_OPTION_ORDER ? Py_True : Py_False,
                          "later", o->flags & FBY_OPTION_LATER ? Py_True : Py_False, "least", (long long)o->least, "most",
                          (unsigned long long)o->most, "choices", words_of(o), "default", o->fallback, "form", o->form, "help", o->help);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* What is wrong with a text is a ValueError that begins with the option's name. */
static bool is_read(fby_status status, const char *name, const fby_error *err)
{
    if (status != FBY_OK)
        PyErr_Format(PyExc_ValueError, "%s=%s", name, err->message);
    return status == FBY_OK;
}

static PyObject *size_bytes(PyObject *module, PyObject *args)
{
    const char *text, *what;
    uint64_t bytes;
    fby_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &text, &what) || !is_read(fby_size_parse(text, &bytes, &err), what, &err))
        return NULL;
    return PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *quantity(PyObject *module, PyObject *args)
{
    const char *name, *text;
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    fby_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &name, &text) || !is_read(fby_loader_opts_parse(name, text, &opts, &err), name, &err))
        return NULL;
    PyObject *dict = PyDict_New();
    const fby_option *o;
    for (size_t i = 0; dict && (o = fby_option_at(FBY_OPTIONS_LOADER, i)); i++) {
        PyObject *value = strcmp(o->name, name) == 0 ? value_of(o, (const char *)&opts + o->offset) : NULL;
        if (value && PyObject_IsTrue(value) && PyDict_SetItemString(dict, o->field, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

PyMethodDef fbpy_options_functions[] = {
    {"options", options, METH_O, "options(name)\n--\n\nThe table of a set of options: a list of dicts."},
    {"size_bytes", size_bytes, METH_VARARGS, "size_bytes(text, what)\n--\n\nBytes of '8GiB'; messages begin with `what`."},
    {"quantity", quantity, METH_VARARGS,
     "quantity(name, text)\n--\n\nThe options of a loader that a text fills: memory, superbatch or part."},
    {NULL, NULL, 0, NULL},
};
