/*
 * One table from fby_status to exceptions. Every exception is a forebay.Error; where Python has a type that programs already
 * catch for the same fault (ValueError, KeyError, OSError), it is one of those too.
 *
 * Attributes of every instance: status ("FBY_E_IO"), file_offset (int or None), and of ReadError what OSError has.
 */
#include "module.h"

#include <errno.h>
#include <stdio.h>

typedef struct error_row {
    fby_status status;
    const char *name;
    PyObject *const *also; /* second base; NULL = none */
    const char *doc;
} error_row;

/* Kinds of FBY_E_IO that Python has a name for. */
typedef struct read_error_row {
    int sys_errno;
    const char *name;
    PyObject *const *also;
    const char *doc;
} read_error_row;

static const read_error_row k_read_errors[FBPY_READ_ERRORS] = {
    {ENOENT, "forebay.FileMissingError", &PyExc_FileNotFoundError, "A file or directory is not there."},
    {EACCES, "forebay.FileForbiddenError", &PyExc_PermissionError, "A file may not be read by this user."},
    {EWOULDBLOCK, "forebay.FileLockedError", &PyExc_BlockingIOError, "A file is open for writing elsewhere."},
};

static const error_row k_errors[] = {
    {FBY_E_ARG, "forebay.ArgumentError", &PyExc_ValueError, "An argument is invalid, or two do not go together."},
    {FBY_E_NOMEM, "forebay.NoMemoryError", &PyExc_MemoryError, "The system has no memory left for this."},
    {FBY_E_IO, "forebay.ReadError", &PyExc_OSError, "The operating system refused to read a file; errno says why."},
    {FBY_E_FORMAT, "forebay.FormatError", &PyExc_ValueError, "A file is damaged or is not what its name says; file_offset says where."},
    {FBY_E_UNSUPPORTED, "forebay.UnsupportedError", &PyExc_NotImplementedError,
     "A file or column uses something that Forebay does not read."},
    {FBY_E_SCHEMA, "forebay.SchemaError", &PyExc_KeyError, "A column is not there, or files disagree about its type."},
    {FBY_E_DATA, "forebay.DataError", &PyExc_ValueError,
     "A value cannot be represented in the output's dtype; fill it or choose another dtype."},
    {FBY_E_BUDGET, "forebay.BudgetError", &PyExc_MemoryError,
     "The memory budget is too small; the message has the smallest that would do."},
    {FBY_E_CHANGED, "forebay.ChangedError", NULL, "A file changed since the dataset was opened."},
    {FBY_E_STATE, "forebay.StateError", &PyExc_RuntimeError, "The object cannot do this now: it is closed, in use, or from before a fork."},
    {FBY_E_CANCELLED, "forebay.CancelledError", NULL, "The epoch was cancelled."},
    {FBY_E_INTERNAL, "forebay.InternalError", &PyExc_RuntimeError, "A fault in Forebay: please report it with the message."},
};

/* The exception becomes module.Name and, when `slot` is given, stays in it. */
static PyObject *add_error(PyObject *module, const char *name, const char *doc, PyObject *base, PyObject *also, PyObject **slot)
{
    PyObject *bases = also ? PyTuple_Pack(2, base, also) : PyTuple_Pack(1, base);
    if (!bases)
        return NULL;
    PyObject *type = PyErr_NewExceptionWithDoc(name, doc, bases, NULL);
    Py_DECREF(bases);
    if (!type)
        return NULL;
    if (PyModule_AddObjectRef(module, strrchr(name, '.') + 1, type) < 0) {
        Py_DECREF(type);
        return NULL;
    }
    *slot = type;
    return type;
}

int fbpy_errors_init(PyObject *module, fbpy_state *state)
{
    PyObject *base = add_error(module, "forebay.Error", "Base of all of Forebay's errors.", PyExc_Exception, NULL, &state->errors[FBY_OK]);
    if (!base)
        return -1;
    for (size_t i = 0; i < sizeof k_errors / sizeof *k_errors; i++) {
        const error_row *row = &k_errors[i];
        if (!add_error(module, row->name, row->doc, base, row->also ? *row->also : NULL, &state->errors[row->status]))
            return -1;
    }
    for (size_t i = 0; i < FBPY_READ_ERRORS; i++) {
        const read_error_row *row = &k_read_errors[i];
        if (!add_error(module, row->name, row->doc, state->errors[FBY_E_IO], *row->also, &state->read_errors[i]))
            return -1;
    }
    /* A KeyError shows its argument's repr: for a key that is right, for a sentence not. */
    PyObject *plain = PyObject_GetAttrString(PyExc_Exception, "__str__");
    int rc = plain ? PyObject_SetAttrString(state->errors[FBY_E_SCHEMA], "__str__", plain) : -1;
    Py_XDECREF(plain);
    return rc;
}

static PyObject *read_error(const fbpy_state *state, int sys_errno)
{
    if (sys_errno == EPERM)
        sys_errno = EACCES;
    for (size_t i = 0; i < FBPY_READ_ERRORS; i++)
        if (sys_errno == k_read_errors[i].sys_errno)
            return state->read_errors[i];
    return state->errors[FBY_E_IO];
}

PyObject *fbpy_raise(const fbpy_state *state, fby_status status, const fby_error *err)
{
    PyObject *type = status >= FBY_E_ARG && status < FBY_STATUS_COUNT ? state->errors[status] : NULL;
    const char *message = err->message[0] ? err->message : fby_status_text(status);
    PyObject *text, *exc = NULL, *value = NULL;

    if (status == FBY_E_CANCELLED && PyErr_Occurred()) /* KeyboardInterrupt is what cancelled it */
        return NULL;
    if (!(text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace")))
        return NULL;
    if (!type)
        type = state->errors[FBY_E_INTERNAL];
    if (status == FBY_E_IO)
        type = read_error(state, err->sys_errno);
    if (status == FBY_E_IO && err->sys_errno)
        exc = PyObject_CallFunction(type, "iO", err->sys_errno, text);
    else
        exc = PyObject_CallFunctionObjArgs(type, text, NULL);
    if (!exc)
        goto done;
    value = PyUnicode_FromString(fby_status_name(status));
    if (!value || PyObject_SetAttrString(exc, "status", value) < 0)
        goto done;
    Py_DECREF(value);
    value = err->file_offset >= 0 && status != FBY_E_ARG ? PyLong_FromLongLong(err->file_offset) : Py_NewRef(Py_None);
    if (!value || PyObject_SetAttrString(exc, "file_offset", value) < 0)
        goto done;
    PyErr_SetObject(type, exc);
done:
    Py_XDECREF(value);
    Py_XDECREF(exc);
    Py_DECREF(text);
    return NULL;
}

const char *fbpy_type_name(PyObject *object)
{
    static char name[100];
    PyObject *text = PyType_GetName(Py_TYPE(object));
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    if (!utf8)
        PyErr_Clear(); /* the message that asks says enough without it */
    (void)snprintf(name, sizeof name, "%s", utf8 ? utf8 : "an object of another type");
    Py_XDECREF(text);
    return name;
}

PyObject *fbpy_raise_text(const fbpy_state *state, fby_status status, const char *text)
{
    fby_error err = {.code = status, .file_offset = -1};
    PyOS_snprintf(err.message, sizeof err.message, "%s", text);
    return fbpy_raise(state, status, &err);
}

static PyObject *printable(PyObject *module, PyObject *text)
{
    (void)module;
    if (!PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "a text is a str, not %.100s", fbpy_type_name(text));
        return NULL;
    }
    PyObject *utf8 =
        PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"); /* names of files may hold surrogates: no UTF-8, so escaped */
    if (!utf8)
        return NULL;
    const char *s = PyBytes_AS_STRING(utf8);
    size_t n = (size_t)PyBytes_GET_SIZE(utf8), bytes = fby_printable(s, n, NULL, 0);
    PyObject *result = NULL;
    char *safe = bytes == n ? NULL : PyMem_Malloc(bytes + 1);
    if (bytes == n) { /* an escape is longer than what it stands for */
        result = Py_NewRef(text);
    } else if (safe) {
        (void)fby_printable(s, n, safe, bytes + 1); /* fits */
        result = PyUnicode_DecodeUTF8(safe, (Py_ssize_t)bytes, "replace");
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(safe);
    Py_DECREF(utf8);
    return result;
}

PyMethodDef fbpy_errors_functions[] = {
    {"printable", printable, METH_O, "printable(text)\n--\n\nText from a file, safe for a terminal: control characters as escapes."},
    {NULL, NULL, 0, NULL},
};
