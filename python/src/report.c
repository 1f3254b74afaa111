/* Reports of loaders as dicts, by the tables of the library, and the budget of what is none. */
#include "module.h"

#include <forebay/loader.h>

#include <assert.h>

/* Takes both. */
static PyObject *append(PyObject *list, PyObject *value)
{
    if (!list || !value || PyList_Append(list, value) < 0)
        Py_CLEAR(list);
    Py_XDECREF(value);
    return list;
}

static PyObject *cures_of(const fby_report *r)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < r->n_cures; i++)
        list = append(list, fbpy_options_dict(FBY_OPTIONS_CURE, &r->cures[i]));
    return list;
}

static PyObject *epochs_of(fby_loader *loader, uint32_t n)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n; i++) {
        fby_epoch e = {.size = sizeof e};
        if (fby_loader_epoch(loader, i, &e, NULL) != FBY_OK)
            break; /* one was left without a batch meanwhile */
        list = append(list, fbpy_options_dict(FBY_OPTIONS_EPOCH, &e));
    }
    return list;
}

/* Takes the value. */
static int put(PyObject *dict, const char *name, PyObject *value)
{
    const int done = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return done;
}

static PyObject *waits_of(const fby_loader *loader)
{
    static_assert(FBY_WAITS_MOST <= 512, "two arrays on the stack");
    uint64_t ns[FBY_WAITS_MOST], counts[FBY_WAITS_MOST];
    PyObject *list = PyList_New(0);
    for (size_t i = 0, n = fby_loader_waits(loader, ns, counts, FBY_WAITS_MOST); list && i < n; i++)
        list = append(list, Py_BuildValue("(KK)", (unsigned long long)ns[i], (unsigned long long)counts[i]));
    return list;
}

static PyObject *sources_of(const fbpy_state *state, fby_loader *loader)
{
    const size_t n = fby_loader_source_count(loader);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && n > 1 && i < n; i++) {
        fby_source_report r = {.size = sizeof r};
        fby_error err = {.file_offset = -1};
        const fby_status status = fby_loader_source_report(loader, i, &r, &err);
        PyObject *one = status == FBY_OK ? fbpy_options_dict(FBY_OPTIONS_SOURCE_REPORT, &r) : fbpy_raise(state, status, &err);
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

PyObject *fbpy_report_dict(const fbpy_state *state, fby_loader *loader, const fby_report *r)
{
    PyObject *dict = fbpy_options_dict(FBY_OPTIONS_REPORT, r);
    if (dict && (put(dict, "cures", cures_of(r)) < 0 ||
                 (loader && (put(dict, "epochs", epochs_of(loader, r->n_epochs)) < 0 || put(dict, "waits", waits_of(loader)) < 0 ||
                             put(dict, "sources", sources_of(state, loader)) < 0))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *report_since(PyObject *module, PyObject *args)
{
    PyObject *now, *before, *dict = NULL;
    fby_report r = {.size = sizeof r}, earlier = {.size = sizeof earlier};
    fby_error err = {.file_offset = -1};
    fbpy_room room = {0};
    if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &now, &PyDict_Type, &before))
        return NULL;
    if (fbpy_options_parse(FBY_OPTIONS_REPORT, now, &room, &r) == 0 &&
        fbpy_options_parse(FBY_OPTIONS_REPORT, before, &room, &earlier) == 0) {
        const fby_status status = fby_report_since(&r, &earlier, &err);
        const fbpy_state *state = PyModule_GetState(module);
        dict = status == FBY_OK ? fbpy_report_dict(state, NULL, &r) : fbpy_raise(state, status, &err);
    }
    fbpy_room_free(&room);
    return dict;
}

static PyObject *memory_budget(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned int ranks;
    return PyArg_ParseTuple(args, "I", &ranks) ? PyLong_FromUnsignedLongLong(fby_memory_budget(ranks)) : NULL;
}

PyMethodDef fbpy_report_functions[] = {
    {"report_since", report_since, METH_VARARGS,
     "report_since(now, before)\n--\n\nA report as a dict, of what came after another, without its epochs."},
    {"memory_budget", memory_budget, METH_VARARGS,
     "memory_budget(ranks)\n--\n\nThe budget of what is not given one, of so many ranks of the host; 0: as many as their launcher says."},
    {NULL, NULL, 0, NULL},
};
