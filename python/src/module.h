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
#include <string.h>

#include <forebay/forebay.h>

#include <signal.h>
#include <stdbool.h>

/*
 * One extension serves every Python from 3.11 on: it is built for the stable ABI (Py_LIMITED_API), which has functions in place of the macros
 * that look into objects. Here they are called with the right type and an index that is there, so they cannot fail either.
 */
#ifdef Py_LIMITED_API
#define PyTuple_GET_SIZE(o) PyTuple_Size(o)
#define PyTuple_GET_ITEM(o, i) PyTuple_GetItem((o), (i))
#define PyTuple_SET_ITEM(o, i, v) ((void)PyTuple_SetItem((o), (i), (v)))
#define PyList_GET_SIZE(o) PyList_Size(o)
#define PyList_GET_ITEM(o, i) PyList_GetItem((o), (i))
#define PyList_SET_ITEM(o, i, v) ((void)PyList_SetItem((o), (i), (v)))
#define PyBytes_GET_SIZE(o) PyBytes_Size(o)
#define PyBytes_AS_STRING(o) PyBytes_AsString(o)
#define PyUnicode_AsUTF8(o) PyUnicode_AsUTF8AndSize((o), NULL)
#endif

enum { FBPY_READ_ERRORS = 3 }; /* exceptions of FBY_E_IO that have a name of their own */

/** Everything that belongs to one imported module. */
typedef struct fbpy_state {
    PyTypeObject *dataset_type, *samples_type, *lookup_type, *pipeline_type, *loader_type, *iterator_type, *batch_type, *tensor_type;
    PyObject *errors[FBY_STATUS_COUNT];      /* exception type of a status; NULL for those that are not errors */
    PyObject *read_errors[FBPY_READ_ERRORS]; /* of FBY_E_IO, by errno */
    PyObject *log;                           /* what the library's log calls, or None; NULL before the first */
    PyObject *name_core;                     /* "_core", interned: where a forebay.Batch keeps its batch, a forebay.Lookup its table */
} fbpy_state;

/** The state of the module that made a (final) type. */
static inline fbpy_state *fbpy_state_of(PyObject *self) { return PyType_GetModuleState(Py_TYPE(self)); }

/** Put a new reference (or NULL) where another one was. */
static inline void fbpy_replace(PyObject **at, PyObject *value)
{
    PyObject *before = *at;
    *at = value;
    Py_XDECREF(before);
}

/* errors.c */
/** What an object's type is called, for one message: the next call overwrites it. Needs the GIL. */
const char *fbpy_type_name(PyObject *object);
int fbpy_errors_init(PyObject *module, fbpy_state *state);
extern PyMethodDef fbpy_errors_functions[];
/** Set the exception for a failed call; always returns NULL. */
PyObject *fbpy_raise(const fbpy_state *state, fby_status status, const fby_error *err);
/** The same for a fault found here. */
PyObject *fbpy_raise_text(const fbpy_state *state, fby_status status, const char *text);

/* trace.c */
extern PyMethodDef fbpy_trace_functions[]; /* trace_begin, trace_end, span_end, log_to */

/* interrupt.c */
/** A call of the library that may wait for long, so that Ctrl-C ends it. */
typedef struct fbpy_wait {
    fby_cancel *token, *outer, *before;
    bool begun;
    bool heard; /* Ctrl-C comes here */
    bool installed;
} fbpy_wait;
void fbpy_wait_begin(fbpy_wait *wait); /* with or without the GIL */
void fbpy_wait_end(fbpy_wait *wait);
/**
 * `while (fbpy_wait_call(&wait, &status)) status = …`, from a zeroed wait: the call is made, and made anew when it was ended by a signal whose
 * handler raised nothing. Where one has raised, status is FBY_E_CANCELLED and the exception is set; it may then not have been made at all. GIL.
 */
bool fbpy_wait_call(fbpy_wait *wait, fby_status *status);
/** PyErr_Clear() for what comes from Python code, in which Ctrl-C may have come: that is for the program, which gets it when it runs on. */
void fbpy_error_drop(void);
/** Is SIGINT's handler Python's own, which raises KeyboardInterrupt? -1 with an exception. */
int fbpy_sigint_raises(void);
/** Python code that a call runs has raised: the call is to end. */
void fbpy_wait_stop(void);
/** status = call, without the GIL; an exception may be set when it is FBY_E_CANCELLED, which fbpy_raise() leaves alone. */
#define FBPY_WAIT(status, call)                                                                                                            \
    do {                                                                                                                                   \
        fbpy_wait wait_ = {0};                                                                                                             \
        while (fbpy_wait_call(&wait_, &(status))) {                                                                                        \
            Py_BEGIN_ALLOW_THREADS(status) = (call);                                                                                       \
            Py_END_ALLOW_THREADS                                                                                                           \
        }                                                                                                                                  \
    } while (0)

/* dataset.c */
extern PyType_Spec fbpy_dataset_spec;
extern PyMethodDef fbpy_dataset_functions[]; /* open_files, open_arrow, open_columns */
/** The handle of a Dataset with a reference of its own, or NULL with an exception (closed, or not a Dataset). */
fby_dataset *fbpy_dataset_acquire(fbpy_state *state, PyObject *dataset);

/** A Dataset that owns `ds` (also on failure: then it is dropped). */
PyObject *fbpy_dataset_new(fbpy_state *state, fby_dataset *ds);

/** What a call with progress needs: the GIL is taken for the callback. */
typedef struct fbpy_progress {
    PyObject *callback; /* borrowed */
    PyThreadState **thread;
    bool failed; /* the callback raised: its exception is set, it is not called again */
} fbpy_progress;
/** The function of the options, given by name, that calls what progress= is; NULL where that is None. */
fby_progress_fn fbpy_progress_of(PyObject *given, fbpy_progress *progress);

/* samples.c */
extern PyType_Spec fbpy_samples_spec;
extern PyMethodDef fbpy_samples_functions[]; /* open_samples */
/** A Samples that owns `samples` (also on failure: then they are dropped). */
PyObject *fbpy_samples_new(fbpy_state *state, fby_samples *samples);
/** "rows", "windows", "groups": by fby_sample_kind. */
extern const char *const fbpy_sample_kinds[];
/** The handle of a Samples with a reference of its own, or NULL with an exception. */
fby_samples *fbpy_samples_acquire(fbpy_state *state, PyObject *samples);

/* output.c: memory that what is described to the library lives in, until the call that takes it is over. Zero-initialise. */
typedef struct fbpy_room_block {
    struct fbpy_room_block *next;
    fby_lookup *table; /* owned, or NULL */
} fbpy_room_block;
typedef struct fbpy_room {
    fbpy_room_block *first;
} fbpy_room;
/** Zeroed memory; NULL with an exception. */
void *fbpy_room_take(fbpy_room *room, size_t n, size_t size);
/** Let the room own a reference to a table; returns it, or NULL with an exception (then it is dropped). */
fby_lookup *fbpy_room_keep(fbpy_room *room, fby_lookup *table);
/** The texts of a tuple of str, which keeps them. NULL with an exception. */
const char **fbpy_room_texts(fbpy_room *room, PyObject *tuple, size_t *out_n);
void fbpy_room_free(fbpy_room *room);

/* options.c */
extern PyMethodDef fbpy_options_functions[]; /* options */
/**
 * A dict of options into their struct, by the table of the set: 0, or -1 with an exception. None is as if not given; options of type OTHER are
 * the caller's (fbpy_option_given). Texts are the dict's, the rest is in the room.
 */
int fbpy_options_parse(fby_option_set set, PyObject *given, fbpy_room *room, void *opts);
/** Borrowed; None where it is not given. */
PyObject *fbpy_option_given(PyObject *given, const char *name);
/** The place of a word among the choices of a field; -1 with an exception. */
int fbpy_choice(fby_option_set set, PyObject *word);
/** A struct as a dict, words for enums, without fields of type OTHER. NULL with an exception. */
PyObject *fbpy_options_dict(fby_option_set set, const void *from);

/* report.c */
extern PyMethodDef fbpy_report_functions[]; /* report_since */
/** A report with its cures and the loader's epochs; of no loader (NULL) without those. NULL with an exception. */
PyObject *fbpy_report_dict(const fbpy_state *state, fby_loader *loader, const fby_report *r);

/* lookup.c */
extern PyType_Spec fbpy_lookup_spec;
extern PyMethodDef fbpy_lookup_functions[]; /* open_lookup, make_lookup, distinct */
/** A Lookup that owns `table` (also on failure: then it is dropped). */
PyObject *fbpy_lookup_new(fbpy_state *state, fby_lookup *table);
/** A reference to the table of a forebay.Lookup, kept in `room`; NULL with an exception. */
fby_lookup *fbpy_lookup_of(fbpy_state *state, PyObject *value, fbpy_room *room);

/* ops.c */
extern PyMethodDef fbpy_ops_functions[];                  /* fit, fit_mix */
PyObject *fbpy_fit_mix(PyObject *module, PyObject *args); /* mix.c */
/** A list of (count, missing, mean, std, min, max). */
PyObject *fbpy_moments_list(const fby_moments *m, size_t n);
/* pack.c */
extern PyMethodDef fbpy_pack_functions[];
/** Operations from ((kind's word, a, b), …), a and b a number each or a tuple of one a column; memory from `room`. 0, or -1 with an exception. */
int fbpy_ops_parse(PyObject *ops, size_t n_columns, fbpy_room *room, const fby_op **out, size_t *out_n);

/* output.c, make.c: all of them 0, or -1 with an exception; memory from `room` */
int fbpy_output_parse(fbpy_state *state, PyObject *spec, fbpy_room *room, fby_output *out);
/** A list of outputs; None sets nothing. */
int fbpy_outputs_parse(fbpy_state *state, PyObject *specs, fbpy_room *room, const fby_output **out, size_t *out_n);
/** (kind, options by name) of a make, and of an operation in place. */
int fbpy_make_parse(fbpy_state *state, PyObject *spec, fbpy_room *room, fby_make *make);
int fbpy_after_parse(PyObject *spec, fbpy_room *room, fby_after *after);

/* pipeline.c */
extern PyType_Spec fbpy_pipeline_spec;
extern PyMethodDef fbpy_pipeline_functions[]; /* open_pipeline, write_tree */
/** The output of a row (name, from, columns, pipeline, place), borrowed from the pipeline: 1; 0 for other rows; -1 with an exception. */
int fbpy_pipeline_output(fbpy_state *state, PyObject *spec, fby_output *out);

/* contents.c */
/** ([object as dict, …], [note, …]) of file i, or NULL with an exception. Releases the GIL. */
PyObject *fbpy_contents(fbpy_state *state, fby_dataset *ds, unsigned long long file);

/* loader.c, iterator.c */
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
/** Make a stream one that Ctrl-C ends while it waits. 0; -1 with an exception, and the stream released. */
int fbpy_stream_wait(struct ArrowArrayStream *stream);
/**
 * The record batches of a stream of ours as a list of (name, format, length, validity or None, (buffer, …), (child, …)), buffers as bytes.
 * The stream is released. NULL with an exception on failure. Releases the GIL while it reads.
 */
PyObject *fbpy_stream_nodes(const fbpy_state *state, struct ArrowArrayStream *stream);

/* columns.c */
/** An Arrow stream over columns of Python buffers: see open_columns. 0, or -1 with an exception. */
int fbpy_columns_stream(PyObject *columns, int64_t rows, int64_t rows_per_block, struct ArrowArrayStream *out);

#endif
