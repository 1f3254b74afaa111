/* pack(): a data set written anew. forebay/_pack.py makes it readable. */
#include "module.h"

static PyObject *info_dict(const fby_pack_info *info)
{
    PyObject *bytes = info->expected_bytes ? PyLong_FromUnsignedLongLong(info->expected_bytes) : Py_NewRef(Py_None);
    PyObject *seconds = info->expected_ns ? PyFloat_FromDouble(1e-9 * (double)info->expected_ns) : Py_NewRef(Py_None);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:I,s:O,s:s,s:z,s:N,s:N}", "rows", (unsigned long long)info->rows, "files",
                         (unsigned long long)info->files, "rows_per_file", (unsigned long long)info->rows_per_file, "batch",
                         (unsigned long long)info->batch_rows, "source_bytes", (unsigned long long)info->source_bytes, "decoded_bytes",
                         (unsigned long long)info->decoded_bytes, "scratch_bytes", (unsigned long long)info->scratch_bytes, "written_bytes",
                         (unsigned long long)info->written_bytes, "passes", (unsigned)info->passes, "buckets", (unsigned)info->buckets,
                         "resumed", info->resumed ? Py_True : Py_False, "source_contents", info->contents, "rows_hash",
                         info->verified ? info->rows_hash : NULL, "expected_bytes", bytes, "expected_seconds", seconds);
}

static PyObject *pack(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *dataset, *path = NULL, *given, *result = NULL;
    fby_pack_opts opts = {.size = sizeof opts};
    fby_pack_info info = {.size = sizeof info};
    fby_error err = {.file_offset = -1};
    fbpy_room room = {0};
    fby_dataset *ds = NULL;
    PyThreadState *thread = NULL;
    fbpy_progress progress = {.thread = &thread};
    fby_status status;

    if (!PyArg_ParseTuple(args, "OO&O!", &dataset, PyUnicode_FSConverter, &path, &PyDict_Type, &given))
        return NULL;
    if (fbpy_options_parse(FBY_OPTIONS_PACK, given, &room, &opts) < 0 || !(ds = fbpy_dataset_acquire(state, dataset)))
        goto done;
    opts.progress = fbpy_progress_of(given, &progress);
    opts.progress_user = &progress;
    fbpy_wait wait;
    fbpy_wait_begin(&wait);
    do {
        thread = PyEval_SaveThread();
        status = fby_pack(ds, PyBytes_AS_STRING(path), &opts, &info, &err);
        PyEval_RestoreThread(thread);
    } while (!progress.failed && fbpy_wait_again(&wait, status));
    fbpy_wait_end(&wait);
    if (!progress.failed)
        result = status == FBY_OK ? info_dict(&info) : fbpy_raise(state, status, &err);
done:
    Py_XDECREF(path);
    /* Never with the GIL held: the last reference to a dataset may give Python buffers back. */
    Py_BEGIN_ALLOW_THREADS fby_dataset_close(ds);
    Py_END_ALLOW_THREADS fbpy_room_free(&room);
    return result;
}

PyMethodDef fbpy_pack_functions[] = {
    {"pack", pack, METH_VARARGS, "pack(dataset, path, options)\n--\n\nA dict of what was done."},
    {NULL, NULL, 0, NULL},
};
