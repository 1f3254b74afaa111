/*
 * forebay._forebay: what the files of the extension share.
 *
 * The extension is thin: it takes Python values apart, releases the GIL, calls <forebay/…> and maps fby_status to an exception.
 * What users see (argument names, defaults, printing) is Python, in python/forebay. Rules that every file here keeps:
 *
 * 1. The GIL is released around every call that may block, and is never taken while a lock of ours is held (there are none).
 * 2. An object's handle is only touched with the GIL held; a call that releases it holds its own reference or marks the object busy.
 * 3. Memory handed out (tensors, capsules) owns a reference to its fby_batch or fby_dataset, never to a Python object of ours.
 */
#ifndef FBPY_MODULE_H
#define FBPY_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <forebay/forebay.h>

/** Everything that belongs to one imported module. */
typedef struct fbpy_state {
    PyTypeObject *dataset_type, *samples_type, *loader_type, *iterator_type, *batch_type, *tensor_type;
    PyObject *errors[FBY_STATUS_COUNT];         /* exception type of a status; NULL for those that are not errors */
    PyObject *error_missing, *error_permission; /* FBY_E_IO with ENOENT, EACCES */
    PyObject *name_core;                        /* "_core", interned: where a forebay.Batch keeps its batch */
} fbpy_state;

/** The state of the module that made a (final) type. */
static inline fbpy_state *fbpy_state_of(PyObject *self) { return PyType_GetModuleState(Py_TYPE(self)); }

/* errors.c */
int fbpy_errors_init(PyObject *module, fbpy_state *state);
/** Set the exception for a failed call; always returns NULL. */
PyObject *fbpy_raise(const fbpy_state *state, fby_status status, const fby_error *err);
/** The same for a fault found here. */
PyObject *fbpy_raise_text(const fbpy_state *state, fby_status status, const char *text);

/* dataset.c */
extern PyType_Spec fbpy_dataset_spec;
extern PyMethodDef fbpy_dataset_functions[]; /* open_files, open_arrow, open_columns */
/** The handle of a Dataset with a reference of its own, or NULL with an exception (closed, or not a Dataset). */
fby_dataset *fbpy_dataset_acquire(fbpy_state *state, PyObject *dataset);

/** What a call with progress needs: the GIL is taken for the callback. */
typedef struct fbpy_progress {
    PyObject *callback; /* borrowed */
    PyThreadState **thread;
    bool failed; /* the callback raised: its exception is set, it is not called again */
} fbpy_progress;
void fbpy_progress_call(void *user, uint64_t done, uint64_t total, const char *what);

/* samples.c */
extern PyType_Spec fbpy_samples_spec;
extern PyMethodDef fbpy_samples_functions[]; /* open_samples */
/** The handle of a Samples with a reference of its own, or NULL with an exception. */
fby_samples *fbpy_samples_acquire(fbpy_state *state, PyObject *samples);

/* ops.c */
extern PyMethodDef fbpy_ops_functions[]; /* fit */
/**
 * Operations from ((kind, a, b), …), a and b a number each or a tuple of one a column. *out is one piece of memory, parameters included:
 * PyMem_Free, also on failure. 0, or -1 with an exception.
 */
int fbpy_ops_parse(PyObject *ops, size_t n_columns, const fby_op **out, size_t *out_n);

/* contents.c */
/** ([object as dict, …], [note, …]) of file i, or NULL with an exception. Releases the GIL. */
PyObject *fbpy_contents(fbpy_state *state, fby_dataset *ds, unsigned long long file);

/* loader.c */
extern PyType_Spec fbpy_loader_spec, fbpy_iterator_spec;

/* batch.c */
extern PyType_Spec fbpy_batch_spec;
/** A Batch that owns `batch` (also on failure: then it is dropped). */
PyObject *fbpy_batch_new(fbpy_state *state, fby_batch *batch);

/* tensor.c */
extern PyType_Spec fbpy_tensor_spec;
/** Tensor i of a batch; takes a reference of its own. */
PyObject *fbpy_tensor_new(fbpy_state *state, fby_batch *batch, size_t i);
/** Tensor i of a batch as a DLPack capsule, legacy or versioned. */
PyObject *fbpy_dlpack_capsule(fbpy_state *state, fby_batch *batch, size_t i, bool versioned);

/* arrow.c */
/** Capsules of the Arrow PyCapsule interface: *in is moved into them. NULL with an exception on failure, and *in released. */
PyObject *fbpy_schema_capsule(struct ArrowSchema *in);
PyObject *fbpy_array_capsule(struct ArrowArray *in);
PyObject *fbpy_stream_capsule(struct ArrowArrayStream *in);

/* columns.c */
/** An Arrow stream over columns of Python buffers: see open_columns. 0, or -1 with an exception. */
int fbpy_columns_stream(PyObject *columns, int64_t rows, int64_t rows_per_block, struct ArrowArrayStream *out);

#endif
