/* pack(): a data set written anew, and the tasks it is made by. forebay/_pack.py makes them readable. */
#include "module.h"

/* by_key: without one, there is no number of its values. */
static PyObject *info_dict(const fby_pack_info *info, bool by_key)
{
    PyObject *bytes = info->expected_bytes ? PyLong_FromUnsignedLongLong(info->expected_bytes) : Py_NewRef(Py_None);
    PyObject *seconds = info->expected_ns ? PyFloat_FromDouble(1e-9 * (double)info->expected_ns) : Py_NewRef(Py_None);
    PyObject *keys = by_key ? PyLong_FromUnsignedLongLong(info->keys) : Py_NewRef(Py_None);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:I,s:O,s:s,s:z,s:N,s:N,s:N,s:z}", "rows", (unsigned long long)info->rows,
                         "files", (unsigned long long)info->files, "rows_per_file", (unsigned long long)info->rows_per_file, "batch",
                         (unsigned long long)info->batch_rows, "source_bytes", (unsigned long long)info->source_bytes, "decoded_bytes",
                         (unsigned long long)info->decoded_bytes, "scratch_bytes", (unsigned long long)info->scratch_bytes, "written_bytes",
                         (unsigned long long)info->written_bytes, "passes", (unsigned)info->passes, "buckets", (unsigned)info->buckets,
                         "resumed", info->resumed ? Py_True : Py_False, "source_contents", info->contents, "rows_hash",
                         info->verified ? info->rows_hash : NULL, "expected_bytes", bytes, "expected_seconds", seconds, "keys", keys,
                         "note", *info->note ? info->note : NULL);
}

/* What a call about a pack is given. */
typedef struct call {
    fby_dataset *ds; /* owned, as all */
    PyObject *path;
    fbpy_room room;
    fby_pack_opts opts;
    fby_loader_opts loader; /* its samples are owned */
    PyThreadState *thread;
    fbpy_progress progress;
} call;

/* None, or (outputs, samples, text): what is packed in place of rows. */
static int take_pipeline(call *c, fbpy_state *state, PyObject *pipeline)
{
    PyObject *outputs, *samples;
    if (pipeline == Py_None)
        return 0;
    c->loader = (fby_loader_opts){FBY_LOADER_SIZES};
    c->opts.loader = &c->loader;
    if (!PyArg_ParseTuple(pipeline, "OOz", &outputs, &samples, &c->opts.pipeline) ||
        fbpy_outputs_parse(state, outputs, &c->room, &c->loader.outputs, &c->loader.n_outputs) < 0)
        return -1;
    return samples == Py_None || (c->loader.samples = fbpy_samples_acquire(state, samples)) ? 0 : -1;
}

static int begin(call *c, fbpy_state *state, PyObject *dataset, PyObject *given, PyObject *pipeline)
{
    c->progress.thread = &c->thread;
    c->opts.size = sizeof c->opts;
    if (fbpy_options_parse(FBY_OPTIONS_PACK, given, &c->room, &c->opts) < 0 || !(c->ds = fbpy_dataset_acquire(state, dataset)) ||
        take_pipeline(c, state, pipeline) < 0)
        return -1;
    c->opts.progress = fbpy_progress_of(given, &c->progress);
    c->opts.progress_user = &c->progress;
    return 0;
}

static void end(call *c)
{
    Py_XDECREF(c->path);
    /* Never with the GIL held: the last reference to a dataset may give Python buffers back. */
    Py_BEGIN_ALLOW_THREADS fby_samples_close(c->loader.samples);
    fby_dataset_close(c->ds);
    Py_END_ALLOW_THREADS fbpy_room_free(&c->room);
}

/* task: of a phase; NULL = all of them. */
static PyObject *run(fbpy_state *state, call *c, const char *task, unsigned long long k)
{
    fby_pack_info info = {.size = sizeof info};
    fby_error err = {.file_offset = -1};
    fby_status status;
    int phase = 0;
    fbpy_wait wait = {0};
    while (task && phase < FBY_PACK_VERIFY && strcmp(task, fby_pack_phase_name((fby_pack_phase)phase)) != 0)
        phase++;
    while (fbpy_wait_call(&wait, &status)) {
        c->thread = PyEval_SaveThread();
        status = task ? fby_pack_run_task(c->ds, PyBytes_AS_STRING(c->path), &c->opts, (fby_pack_phase)phase, k, &info, &err)
                      : fby_pack(c->ds, PyBytes_AS_STRING(c->path), &c->opts, &info, &err);
        PyEval_RestoreThread(c->thread);
    }
    if (c->progress.failed)
        return NULL;
    return status == FBY_OK ? info_dict(&info, c->opts.by) : fbpy_raise(state, status, &err);
}

static PyObject *pack(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *dataset, *given, *pipeline, *result = NULL;
    call c = {.ds = NULL};
    if (!PyArg_ParseTuple(args, "OO&O!O", &dataset, PyUnicode_FSConverter, &c.path, &PyDict_Type, &given, &pipeline))
        return NULL;
    if (begin(&c, state, dataset, given, pipeline) == 0)
        result = run(state, &c, NULL, 0);
    end(&c);
    return result;
}

static PyObject *pack_task(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *dataset, *given, *pipeline, *result = NULL;
    const char *task;
    unsigned long long k;
    call c = {.ds = NULL};
    if (!PyArg_ParseTuple(args, "OO&O!OsK", &dataset, PyUnicode_FSConverter, &c.path, &PyDict_Type, &given, &pipeline, &task, &k))
        return NULL;
    if (begin(&c, state, dataset, given, pipeline) == 0)
        result = run(state, &c, task, k);
    end(&c);
    return result;
}

/* ---- the list ---- */

typedef struct listing {
    call *c;
    PyObject *list;
} listing;

static PyObject *names_tuple(const char *const *names, size_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *name = PyUnicode_DecodeFSDefault(names[i]);
        if (!name || PyTuple_SetItem(tuple, (Py_ssize_t)i, name) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static bool add_task(void *user, const fby_pack_task *t)
{
    listing *l = user;
    PyEval_RestoreThread(l->c->thread);
    PyObject *inputs = names_tuple(t->inputs, t->n_inputs), *outputs = inputs ? names_tuple(t->outputs, t->n_outputs) : NULL;
    PyObject *one = NULL;
    if (outputs)
        one = Py_BuildValue("{s:s,s:K,s:K,s:K,s:K,s:K,s:O,s:O}", "phase", fby_pack_phase_name(t->phase), "k", (unsigned long long)t->k, "n",
                            (unsigned long long)t->n, "rows", (unsigned long long)t->rows, "bytes_in", (unsigned long long)t->bytes_in,
                            "bytes_out", (unsigned long long)t->bytes_out, "inputs", inputs, "outputs", outputs);
    const bool more = one && PyList_Append(l->list, one) == 0;
    Py_XDECREF(one);
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    l->c->thread = PyEval_SaveThread();
    return more;
}

static PyObject *pack_tasks(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *dataset, *given, *pipeline;
    fby_error err = {.file_offset = -1};
    call c = {.ds = NULL};
    listing l = {.c = &c};
    if (!PyArg_ParseTuple(args, "OO&O!O", &dataset, PyUnicode_FSConverter, &c.path, &PyDict_Type, &given, &pipeline))
        return NULL;
    if (begin(&c, state, dataset, given, pipeline) == 0 && (l.list = PyList_New(0))) {
        c.thread = PyEval_SaveThread();
        const fby_status status = fby_pack_tasks(c.ds, PyBytes_AS_STRING(c.path), &c.opts, add_task, &l, &err);
        PyEval_RestoreThread(c.thread);
        if (status != FBY_OK || PyErr_Occurred())
            Py_CLEAR(l.list);
        if (status != FBY_OK)
            (void)fbpy_raise(state, status, &err); /* NULL, always */
    }
    end(&c);
    return l.list;
}

static PyObject *pack_phases(PyObject *module, PyObject *none)
{
    const char *name;
    PyObject *list = PyList_New(0);
    (void)module, (void)none;
    for (int i = 0; list && (name = fby_pack_phase_name((fby_pack_phase)i)); i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

PyMethodDef fbpy_pack_functions[] = {
    {"pack", pack, METH_VARARGS, "pack(dataset, path, options, pipeline)\n--\n\nA dict of what was done."},
    {"pack_tasks", pack_tasks, METH_VARARGS, "pack_tasks(dataset, path, options, pipeline)\n--\n\nDicts with the fields of PackTask."},
    {"pack_phases", pack_phases, METH_NOARGS, "pack_phases()\n--\n\nTheir names; tasks come in the order that phases run in."},
    {"pack_task", pack_task, METH_VARARGS, "pack_task(dataset, path, options, pipeline, phase, k)\n--\n\nA dict of the pack."},
    {NULL, NULL, 0, NULL},
};
