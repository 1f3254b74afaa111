/*
 * The module object: state, types, exceptions, constants. Multi-phase initialisation; everything of a module lives in its state.
 */
#include "module.h"

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot)
{
    *slot = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *slot ? PyModule_AddType(module, *slot) : -1;
}

/* libraries: what the library is built of, (name, version, license) each. */
static int add_libraries(PyObject *module)
{
    const char *name, *version, *license;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && fby_library_at(i, &name, &version, &license); i++) {
        PyObject *row = Py_BuildValue("(sss)", name, version, license);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    int rc = list ? PyModule_AddObjectRef(module, "libraries", list) : -1;
    Py_XDECREF(list);
    return rc;
}

static int module_exec(PyObject *module)
{
    fbpy_state *state = PyModule_GetState(module);
    /* Columns of Python buffers are given back through PyGILState, which knows the main interpreter alone. */
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "module forebay._forebay does not support loading in subinterpreters");
        return -1;
    }
    if (fbpy_errors_init(module, state) < 0 || PyModule_AddFunctions(module, fbpy_errors_functions) < 0 ||
        add_type(module, &fbpy_dataset_spec, &state->dataset_type) < 0 || add_type(module, &fbpy_samples_spec, &state->samples_type) < 0 ||
        PyModule_AddFunctions(module, fbpy_options_functions) < 0 || PyModule_AddFunctions(module, fbpy_samples_functions) < 0 ||
        PyModule_AddFunctions(module, fbpy_ops_functions) < 0 || PyModule_AddFunctions(module, fbpy_pack_functions) < 0 ||
        add_type(module, &fbpy_lookup_spec, &state->lookup_type) < 0 || PyModule_AddFunctions(module, fbpy_lookup_functions) < 0 ||
        add_type(module, &fbpy_pipeline_spec, &state->pipeline_type) < 0 || PyModule_AddFunctions(module, fbpy_pipeline_functions) < 0 ||
        PyModule_AddFunctions(module, fbpy_report_functions) < 0 || PyModule_AddFunctions(module, fbpy_trace_functions) < 0 ||
        add_type(module, &fbpy_loader_spec, &state->loader_type) < 0 || add_type(module, &fbpy_iterator_spec, &state->iterator_type) < 0 ||
        add_type(module, &fbpy_batch_spec, &state->batch_type) < 0 || add_type(module, &fbpy_tensor_spec, &state->tensor_type) < 0)
        return -1;
    if (!(state->name_core = PyUnicode_InternFromString("_core")))
        return -1;
    /* Two versions: of the headers this was compiled with, and of the library that was linked. */
    if (strcmp(fby_version(), FBY_VERSION_STRING) != 0) {
        PyErr_Format(PyExc_ImportError, "forebay's extension was compiled for version %s and linked with %s: build it again",
                     FBY_VERSION_STRING, fby_version());
        return -1;
    }
    if (PyModule_AddStringConstant(module, "version", FBY_VERSION_STRING) < 0 || add_libraries(module) < 0)
        return -1;

    PyObject *dtypes = PyTuple_New(FBY_DTYPE_COUNT - 1);
    if (!dtypes)
        return -1;
    for (int i = 1; i < FBY_DTYPE_COUNT; i++) {
        PyObject *name = PyUnicode_FromString(fby_dtype_name((fby_dtype)i));
        if (!name) {
            Py_DECREF(dtypes);
            return -1;
        }
        PyTuple_SET_ITEM(dtypes, i - 1, name);
    }
    int rc = PyModule_AddObjectRef(module, "dtypes", dtypes);
    Py_DECREF(dtypes);
    return rc;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    fbpy_state *state = PyModule_GetState(module);
    Py_VISIT(state->dataset_type);
    Py_VISIT(state->samples_type);
    Py_VISIT(state->lookup_type);
    Py_VISIT(state->pipeline_type);
    Py_VISIT(state->loader_type);
    Py_VISIT(state->iterator_type);
    Py_VISIT(state->batch_type);
    Py_VISIT(state->tensor_type);
    Py_VISIT(state->log);
    for (int i = 0; i < FBY_STATUS_COUNT; i++)
        Py_VISIT(state->errors[i]);
    for (size_t i = 0; i < FBPY_READ_ERRORS; i++)
        Py_VISIT(state->read_errors[i]);
    return 0;
}

static int module_clear(PyObject *module)
{
    fbpy_state *state = PyModule_GetState(module);
    Py_CLEAR(state->dataset_type);
    Py_CLEAR(state->samples_type);
    Py_CLEAR(state->lookup_type);
    Py_CLEAR(state->pipeline_type);
    Py_CLEAR(state->loader_type);
    Py_CLEAR(state->iterator_type);
    Py_CLEAR(state->batch_type);
    Py_CLEAR(state->tensor_type);
    if (state->log)
        fby_log_set(FBY_LOG_OFF, NULL, NULL);
    Py_CLEAR(state->log);
    for (int i = 0; i < FBY_STATUS_COUNT; i++)
        Py_CLEAR(state->errors[i]);
    for (size_t i = 0; i < FBPY_READ_ERRORS; i++)
        Py_CLEAR(state->read_errors[i]);
    Py_CLEAR(state->name_core);
    return 0;
}

static void module_free(void *module) { (void)module_clear(module); }

static PyModuleDef_Slot k_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static PyModuleDef k_module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "forebay._forebay",
    .m_doc = "The C API of libforebay as Python objects. Use the package forebay.",
    .m_size = sizeof(fbpy_state),
    .m_methods = fbpy_dataset_functions,
    .m_slots = k_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__forebay(void);
PyMODINIT_FUNC PyInit__forebay(void) { return PyModuleDef_Init(&k_module); }
