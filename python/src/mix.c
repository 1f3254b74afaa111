/* Loaders and moments over mixtures, by name: what forebay/_mix.py describes. */
#include "loader.h"

/* The weights of source i, one an epoch, into their column of the rows. */
static int parse_weights(PyObject *given, size_t i, fby_mix *mix, double *rows)
{
    if (!PyTuple_Check(given) || (size_t)PyTuple_GET_SIZE(given) != mix->n_epochs) {
        PyErr_SetString(PyExc_ValueError, "weights of a source: a tuple, with as many numbers for each source");
        return -1;
    }
    for (size_t e = 0; e < mix->n_epochs; e++) {
        rows[e * mix->n_sources + i] = PyFloat_AsDouble(PyTuple_GET_ITEM(given, (Py_ssize_t)e));
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* A dict of name, samples and outputs; the samples are a reference of the caller's, also on failure. */
static int parse_source(fbpy_state *state, PyObject *given, fbpy_room *room, fby_mix_source *out)
{
    PyObject *name = fbpy_option_given(given, "name");
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "a source is named by a str");
        return -1;
    }
    if (!(out->name = PyUnicode_AsUTF8(name)) || !(out->samples = fbpy_samples_acquire(state, fbpy_option_given(given, "samples"))))
        return -1;
    return fbpy_outputs_parse(state, fbpy_option_given(given, "outputs"), room, &out->outputs, &out->n_outputs);
}

/* Sources and weights; `out` are those sources, zeroed. */
static int parse_mix(fbpy_state *state, PyObject *list, fbpy_room *room, fby_mix_source *out, fby_mix *mix)
{
    double *rows = NULL;
    for (size_t i = 0; i < mix->n_sources; i++) {
        PyObject *given = PyList_GET_ITEM(list, (Py_ssize_t)i);
        if (!PyDict_Check(given)) {
            PyErr_Format(PyExc_TypeError, "a source is a dict, not %s", fbpy_type_name(given));
            return -1;
        }
        if (parse_source(state, given, room, &out[i]) < 0)
            return -1;
        PyObject *weights = fbpy_option_given(given, "weights");
        if (i == 0 && PyTuple_Check(weights)) {
            mix->n_epochs = (size_t)PyTuple_GET_SIZE(weights);
            if (!(rows = fbpy_room_take(room, mix->n_epochs, mix->n_sources * sizeof *rows)))
                return -1;
            mix->weights = rows;
        }
        if (rows && parse_weights(weights, i, mix, rows) < 0)
            return -1;
    }
    return 0;
}

static int parse_stop(const char *word, fby_mix_stop *out)
{
    static const char *const WORDS[] = {[FBY_MIX_FIRST] = "first", [FBY_MIX_ALL] = "all", [FBY_MIX_SAMPLES] = "samples"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (strcmp(word, WORDS[i]) == 0) {
            *out = (fby_mix_stop)i;
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "stop '%s' is none", word);
    return -1;
}

static void close_samples(fby_mix_source *sources, size_t n)
{
    for (size_t i = 0; sources && i < n; i++)
        fby_samples_close(sources[i].samples); /* not the last reference: the list holds one */
}

/* fit_mix(sources, ops, places, options): what fit() gives, of a mixture. */
PyObject *fbpy_fit_mix(PyObject *module, PyObject *args)
{
    fbpy_state *state = PyModule_GetState(module);
    PyObject *list, *ops, *given, *result = NULL;
    unsigned long long places;
    fby_mix mix = {.size = sizeof mix, .source_size = sizeof(fby_mix_source)};
    fby_fit_opts opts = {FBY_FIT_SIZES};
    fby_mix_source *sources = NULL;
    fby_moments *moments = NULL;
    fby_error err = {.file_offset = -1};
    fbpy_room room = {0};
    size_t n;
    fby_status status;
    if (!PyArg_ParseTuple(args, "O!O!KO!", &PyList_Type, &list, &PyTuple_Type, &ops, &places, &PyDict_Type, &given))
        return NULL;
    mix.n_sources = (size_t)PyList_Size(list);
    if (fbpy_options_parse(FBY_OPTIONS_FIT, given, &room, &opts) < 0 ||
        fbpy_ops_parse(ops, opts.n_columns, &room, &opts.ops, &opts.n_ops) < 0 ||
        !(mix.sources = sources = fbpy_room_take(&room, mix.n_sources + 1, sizeof *sources)) ||
        parse_mix(state, list, &room, sources, &mix) < 0)
        goto done;
    opts.n_each = (size_t)places;
    n = opts.n_columns * (places ? opts.n_each : 1); /* fits: an array of so many places has been opened */
    if (!(moments = fbpy_room_take(&room, n + 1, sizeof *moments)))
        goto done;
    FBPY_WAIT(status, fby_fit_mix(&mix, &opts, moments, &err));
    result = status == FBY_OK ? fbpy_moments_list(moments, n) : fbpy_raise(state, status, &err);
done:
    close_samples(sources, mix.n_sources);
    fbpy_room_free(&room);
    return result;
}

PyObject *fbpy_loader_open_mix(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"sources", "stop", "n_samples", "options", NULL};
    fbpy_state *state = PyType_GetModuleState((PyTypeObject *)type);
    PyObject *list, *given, *self = NULL;
    const char *stop;
    unsigned long long n_samples;
    fby_mix mix = {.size = sizeof mix, .source_size = sizeof(fby_mix_source)};
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    fbpy_room room = {0};
    fby_mix_source *sources = NULL;
    fby_loader *handle = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$O!sO&O!", keywords, &PyList_Type, &list, &stop, fbpy_as_u64, &n_samples, &PyDict_Type,
                                     &given) ||
        parse_stop(stop, &mix.stop) < 0 || fbpy_options_parse(FBY_OPTIONS_LOADER, given, &room, &opts) < 0)
        goto done;
    mix.n_samples = n_samples;
    mix.n_sources = (size_t)PyList_GET_SIZE(list);
    if (!(mix.sources = sources = fbpy_room_take(&room, mix.n_sources, sizeof *sources)) ||
        parse_mix(state, list, &room, sources, &mix) < 0)
        goto done;
    FBPY_WAIT(status, fby_loader_open_mix(&mix, &opts, &handle, &err));
    self = status == FBY_OK ? fbpy_loader_of((PyTypeObject *)type, handle, opts.transform_pulled) : fbpy_raise(state, status, &err);
done:
    close_samples(sources, mix.n_sources);
    fbpy_room_free(&room);
    return self;
}

PyObject *fbpy_loader_sources(PyObject *op, PyObject *number)
{
    fbpy_state *state = fbpy_state_of(op);
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    unsigned long long epoch;
    if (!fbpy_as_u64(number, &epoch))
        return NULL;
    if (!handle)
        return fbpy_raise_text(state, FBY_E_STATE, "the loader is closed: make a new one");
    PyObject *result = PyList_New(0);
    for (size_t i = 0, n = fby_loader_source_count(handle); result && i < n; i++) {
        fby_source_info info = {.size = sizeof info};
        fby_error err = {.file_offset = -1};
        const fby_status status = fby_loader_source(handle, i, epoch, &info, &err);
        PyObject *one = status != FBY_OK
                            ? fbpy_raise(state, status, &err)
                            : Py_BuildValue("{s:s,s:K,s:K,s:K}", "name", info.name, "samples", (unsigned long long)info.n_samples, "left",
                                            (unsigned long long)info.n_left, "passes", (unsigned long long)info.n_passes);
        if (!one || PyList_Append(result, one) < 0)
            Py_CLEAR(result);
        Py_XDECREF(one);
    }
    return result;
}
