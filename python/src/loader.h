/*
 * _forebay.Loader and _forebay.Iterator: what loader.c, iterator.c and transform.c share.
 *
 * One consumer at a time: `busy` is set (under the GIL) while it is inside the library with the GIL released. `users` counts it, and threads that
 * wait for a batch to transform or have one; a close() that comes while there are any only asks: it cancels the epoch, and the last of them
 * closes on its way out. Each begin() that does not follow starts a new generation; iterators of older ones refuse to go on.
 */
#ifndef FBPY_LOADER_H
#define FBPY_LOADER_H

#include "exchange.h"

#include <sys/types.h>

typedef enum fbpy_deliver_mode { FBPY_DELIVER_TENSOR, FBPY_DELIVER_NUMPY, FBPY_DELIVER_TORCH } fbpy_deliver_mode;

typedef struct fbpy_loader {
    PyObject_HEAD PyObject *weakrefs;
    fby_loader *handle;   /* owned; NULL once closed */
    bool busy;            /* the consumer is in a call that waits */
    unsigned users;       /* it, and threads that transform */
    bool close_requested; /* close when they come out */
    bool transforms;      /* what is delivered are objects, by transform_done() */
    bool exiting;         /* closed because the interpreter exits: a thread that still iterates ends without a word */
    uint64_t generation;
    unsigned long long epochs_begun; /* by begin(), or to go on with */
    bool taken;                      /* a batch, an error or the end of the epoch that began last */
    bool held;                       /* its iterator is alive */
    pid_t pid;                       /* of the process that opened it */
    /* set once by configure() */
    fbpy_deliver_mode mode;
    PyObject *convert;             /* numpy.ndarray, or torch's from_dlpack */
    const fbpy_exchange *exchange; /* torch: how tensors are made in place of `convert`; NULL when this torch has no such table */
    PyObject *dtypes;              /* NumPy: tuple of dtypes, one a tensor */
    PyObject *names;               /* tuple of str, one an output */
    PyObject *wrappers;            /* tuple, one an output: None for dense, else called with (values, offsets) */
    PyObject *container;           /* forebay.Batch (a dict), or a namedtuple class; NULL = tuple */
    bool as_dict;
    PyObject *profiler_runs, *profiler_enter; /* torch: is its profiler running? A range of it, entered. NULL without torch */
    int pinned_for;                           /* the GPU that memory of batches is pinned for; -1 = none. The consumer's */
} fbpy_loader;

/* loader.c */
/** Stops the threads; those that wait for the GIL get it meanwhile. Nothing where it is closed. */
void fbpy_loader_close_handle(fbpy_loader *self);
/** The exception for a loader that is closed; `text` when that was the program's doing. Returns NULL. */
PyObject *fbpy_loader_raise_closed(fbpy_loader *self, const char *text);
/** Its handle; NULL with an exception when it is closed, or another thread waits for a batch. */
fby_loader *fbpy_loader_usable(fbpy_loader *self);
/** The consumer's thread goes into the library, without the GIL; and is back: false with an exception when the loader was closed meanwhile. */
void fbpy_loader_enter(fbpy_loader *self);
bool fbpy_loader_leave(fbpy_loader *self);
/** One user less: the last one closes, if that was asked for. */
void fbpy_loader_unuse(fbpy_loader *self);
/** fby_loader_cancel of an open one. */
void fbpy_loader_cancel(fbpy_loader *self);
/** For "O&": an int of 64 bits without sign to an unsigned long long; unlike "K" it refuses what does not fit. 1; 0 with an exception. */
int fbpy_as_u64(PyObject *value, void *out);

/** An object that owns `handle` (also on failure: then it is closed). Joins threads only then. */
PyObject *fbpy_loader_of(PyTypeObject *type, fby_loader *handle, bool transforms);

/* pinned.c */
/** Loader.pin(device): memory of batches is pinned in place from now on, for a GPU by its number. False where that cannot be. */
PyObject *fbpy_loader_pin(PyObject *op, PyObject *number);
/** fby_batch_pin() for it, without the GIL. */
bool fbpy_batch_pin(fby_batch *batch, int device);

/* mix.c */
/** Loader.open_mix(…), a class method. */
PyObject *fbpy_loader_open_mix(PyObject *type, PyObject *args, PyObject *kwargs);
/** Loader.sources(epoch). */
PyObject *fbpy_loader_sources(PyObject *op, PyObject *epoch);

/* iterator.c */
/** Loader.begin(epoch, batch, follow): an Iterator; `follow`: None, and the one of the epoch before goes on with this one. */
PyObject *fbpy_loader_begin(PyObject *op, PyObject *args);
/** A batch as users get it; takes over `batch`. NULL with an exception. */
PyObject *fbpy_loader_deliver(fbpy_state *state, fbpy_loader *self, fby_batch *batch);

/* transform.c */
PyObject *fbpy_loader_transform_next(PyObject *op, PyObject *epochs_begun);
PyObject *fbpy_loader_transform_done(PyObject *op, PyObject *args);

#endif
