/* Traces, spans and the log: fby_trace_begin(), fby_trace_end(), fby_span_end(), fby_log_set(). */
#include "loader.h"

static PyObject *trace_begin(PyObject *module, PyObject *args)
{
    unsigned long long events;
    fby_error err = {.file_offset = -1};
    if (!PyArg_ParseTuple(args, "O&", fbpy_as_u64, &events))
        return NULL;
    fby_status status = fby_trace_begin(events, &err);
    if (status != FBY_OK)
        return fbpy_raise(PyModule_GetState(module), status, &err);
    Py_RETURN_NONE;
}

static PyObject *trace_end(PyObject *module, PyObject *args)
{
    PyObject *path;
    fby_error err = {.file_offset = -1};
    fby_status status;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = fby_trace_end(PyBytes_AS_STRING(path), &err);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (status != FBY_OK)
        return fbpy_raise(PyModule_GetState(module), status, &err);
    Py_RETURN_NONE;
}

static PyObject *span_end(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    unsigned long long begun;
    if (!PyArg_ParseTuple(args, "sO&", &name, fbpy_as_u64, &begun))
        return NULL;
    fby_span_end(name, begun);
    Py_RETURN_NONE;
}

/* In calls of the library that have released the GIL, and in those that have not. */
static void on_log(void *user, fby_log_level level, const char *message)
{
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *result = PyObject_CallFunction(user, "is", (int)level, message);
    if (!result && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        fbpy_error_drop();
    else if (!result)
        PyErr_WriteUnraisable(user);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(held);
}

static PyObject *log_to(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    const char *least;
    PyObject *function;
    if (!PyArg_ParseTuple(args, "sO", &least, &function))
        return NULL;
    fby_log_set(fby_log_level_of(least), function == Py_None ? NULL : on_log, function);
    fbpy_replace(&state->log, Py_NewRef(function));
    Py_RETURN_NONE;
}

PyMethodDef fbpy_trace_functions[] = {
    {"trace_begin", trace_begin, METH_VARARGS, "trace_begin(events)\n--\n\nRecord from now on, so many events a thread (0: 65,536)."},
    {"trace_end", trace_end, METH_VARARGS, "trace_end(path)\n--\n\nEnd the recording and write it."},
    {"span_end", span_end, METH_VARARGS, "span_end(name, begun)\n--\n\nA span that began at time.perf_counter_ns() ends here."},
    {"log_to", log_to, METH_VARARGS,
     "log_to(least, function)\n--\n\nCall function(level, message) for messages from a level on; None: no more."},
    {NULL, NULL, 0, NULL},
};
