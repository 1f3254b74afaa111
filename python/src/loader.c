/*
 * _forebay.Loader: an fby_loader. What it shares with its iterators (iterator.c), and the rules that both keep, is loader.h.
 */
#include "loader.h"

#include <structmember.h>
#include <unistd.h>

/* ---- life ---- */

/* Joins threads: never with the GIL held, since they may need it to give Python buffers back. */
void fbpy_loader_close_handle(fbpy_loader *self)
{
    fby_loader *handle = self->handle;
    self->handle = NULL;
    self->close_requested = false;
    if (handle) {
        Py_BEGIN_ALLOW_THREADS fby_loader_close(handle);
        Py_END_ALLOW_THREADS
    }
}

static int loader_traverse(PyObject *op, visitproc visit, void *arg)
{
    fbpy_loader *self = (fbpy_loader *)op;
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(self->convert);
    Py_VISIT(self->dtypes);
    Py_VISIT(self->names);
    Py_VISIT(self->wrappers);
    Py_VISIT(self->container);
    return 0;
}

static int loader_clear(PyObject *op)
{
    fbpy_loader *self = (fbpy_loader *)op;
    Py_CLEAR(self->convert);
    Py_CLEAR(self->dtypes);
    Py_CLEAR(self->names);
    Py_CLEAR(self->wrappers);
    Py_CLEAR(self->container);
    return 0;
}

static void loader_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    if (((fbpy_loader *)op)->weakrefs)
        PyObject_ClearWeakRefs(op);
    fbpy_loader_close_handle((fbpy_loader *)op);
    (void)loader_clear(op);
    type->tp_free(op);
    Py_DECREF(type);
}

PyObject *fbpy_loader_raise_closed(fbpy_loader *self, const char *text)
{
    if (self->exiting) { /* threading lets a thread end by SystemExit without printing it */
        PyErr_SetNone(PyExc_SystemExit);
        return NULL;
    }
    return fbpy_raise_text(fbpy_state_of((PyObject *)self), FBY_E_STATE, text);
}

fby_loader *fbpy_loader_usable(fbpy_loader *self)
{
    fbpy_state *state = fbpy_state_of((PyObject *)self);
    if (!self->handle) {
        fbpy_loader_raise_closed(self, "the loader is closed: make a new one");
        return NULL;
    }
    if (self->busy) {
        fbpy_raise_text(state, FBY_E_STATE, "another thread is waiting for a batch of this loader: one consumer at a time");
        return NULL;
    }
    return self->handle;
}

/* ---- construction ---- */

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {
        "dataset",          "outputs",          "batch_size", "shuffle",    "tail",   "seed",    "superbatch_samples", "superbatch_blocks",
        "superbatch_bytes", "streams",          "rank",       "world_size", "memory", "threads", "prefetch",           "samples",
        "sampling",         "local_world_size", NULL};
    fbpy_state *state = PyType_GetModuleState(type);
    PyObject *dataset, *outputs, *chosen;
    int shuffle, tail, threads;
    unsigned long long batch_size, seed, samples, blocks, bytes, memory, elements, bucket;
    unsigned streams, rank, world_size, local_world_size = 0, prefetch, part_files, part_keys, n_parts, diversity_files, superbatch_batches;
    const char *part_key;
    fby_output *list = NULL;
    fbpy_room room = {0};
    fby_dataset *ds = NULL;
    fby_loader *handle = NULL;
    fby_error err = {.file_offset = -1};
    fbpy_loader *self = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOKiiKKKKIIIKiIO(IIIzIIKK)|I", keywords, &dataset, &outputs, &batch_size, &shuffle,
                                     &tail, &seed, &samples, &blocks, &bytes, &streams, &rank, &world_size, &memory, &threads, &prefetch,
                                     &chosen, &part_files, &part_keys, &n_parts, &part_key, &diversity_files, &superbatch_batches,
                                     &elements, &bucket, &local_world_size))
        return NULL;
    fby_loader_opts opts = {FBY_LOADER_SIZES,
                            .batch_size = batch_size,
                            .shuffle = (fby_shuffle_kind)shuffle,
                            .tail = (fby_tail_kind)tail,
                            .seed = seed,
                            .superbatch_samples = samples,
                            .superbatch_blocks = blocks,
                            .superbatch_bytes = bytes,
                            .streams = streams,
                            .rank = rank,
                            .world_size = world_size,
                            .local_world_size = local_world_size,
                            .memory_bytes = memory,
                            .n_threads = threads,
                            .prefetch_batches = prefetch,
                            .part_files = part_files,
                            .part_keys = part_keys,
                            .part_key = part_key,
                            .n_parts = n_parts,
                            .diversity_files = diversity_files,
                            .max_superbatch_batches = superbatch_batches,
                            .batch_elements = elements,
                            .bucket_samples = bucket};
    if (outputs != Py_None) {
        if (!PyList_Check(outputs)) {
            PyErr_SetString(PyExc_TypeError, "outputs must be a list or None");
            return NULL;
        }
        opts.n_outputs = (size_t)PyList_GET_SIZE(outputs);
        if (!(list = PyMem_Calloc(opts.n_outputs ? opts.n_outputs : 1, sizeof *list))) {
            PyErr_NoMemory();
            return NULL;
        }
        for (size_t i = 0; i < opts.n_outputs; i++)
            if (fbpy_output_parse(state, PyList_GET_ITEM(outputs, (Py_ssize_t)i), &room, &list[i]) < 0)
                goto done;
        opts.outputs = list;
    }
    if (chosen != Py_None && !(opts.samples = fbpy_samples_acquire(state, chosen)))
        goto done;
    if (!(ds = fbpy_dataset_acquire(state, dataset)))
        goto done;
    fby_status status;
    FBPY_WAIT(status, fby_loader_open(ds, &opts, &handle, &err));
    Py_BEGIN_ALLOW_THREADS fby_dataset_close(ds);
    fby_samples_close(opts.samples);
    opts.samples = NULL;
    Py_END_ALLOW_THREADS if (status != FBY_OK)
    {
        fbpy_raise(state, status, &err);
        goto done;
    }
    if (!(self = (fbpy_loader *)type->tp_alloc(type, 0))) { /* zeroed */
        Py_BEGIN_ALLOW_THREADS fby_loader_close(handle);
        Py_END_ALLOW_THREADS goto done;
    }
    self->handle = handle;
    self->pid = getpid();
done:
    fby_samples_close(opts.samples); /* not the last reference: `chosen` holds one */
    fbpy_room_free(&room);
    PyMem_Free(list);
    return (PyObject *)self;
}

static PyObject *loader_outputs(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_state *state = fbpy_state_of(op);
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    if (!handle)
        return fbpy_raise_text(state, FBY_E_STATE, "the loader is closed: make a new one");
    PyObject *result = PyList_New(0);
    for (size_t i = 0, n = fby_loader_output_count(handle); result && i < n; i++) {
        fby_output_info info = {.size = sizeof info};
        fby_error err = {.file_offset = -1};
        PyObject *shape = NULL, *row = NULL;
        fby_status status = fby_loader_output(handle, i, &info, &err);
        if (status != FBY_OK)
            fbpy_raise(state, status, &err);
        else
            shape = PyTuple_New(info.ndim);
        for (int d = 0; shape && d < info.ndim; d++) {
            PyObject *extent = PyLong_FromLongLong(info.shape[d]);
            if (!extent)
                Py_CLEAR(shape);
            else
                PyTuple_SET_ITEM(shape, d, extent);
        }
        if (shape)
            row = Py_BuildValue("ssNOOs(KK)", info.name, fby_dtype_name(info.dtype), shape,
                                info.layout == FBY_LAYOUT_RAGGED ? Py_True : Py_False, info.text ? Py_True : Py_False,
                                info.layout != FBY_LAYOUT_PADDED ? NULL
                                : info.want_lengths              ? "lengths"
                                                                 : "mask",
                                (unsigned long long)info.step_begin, (unsigned long long)info.step_end);
        if (!row || PyList_Append(result, row) < 0)
            Py_CLEAR(result);
        Py_XDECREF(row);
    }
    return result;
}

static PyObject *loader_notes(PyObject *op, PyObject *unused)
{
    (void)unused;
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    if (!handle)
        return fbpy_raise_text(fbpy_state_of(op), FBY_E_STATE, "the loader is closed: make a new one");
    PyObject *notes = PyList_New(0);
    const char *text;
    for (size_t i = 0; notes && (text = fby_loader_note(handle, i)); i++) {
        PyObject *note = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
        if (!note || PyList_Append(notes, note) < 0)
            Py_CLEAR(notes);
        Py_XDECREF(note);
    }
    return notes;
}

static PyObject *loader_configure(PyObject *op, PyObject *args)
{
    fbpy_loader *self = (fbpy_loader *)op;
    int mode, as_dict;
    PyObject *convert, *exchange, *dtypes, *names, *wrappers, *container;
    if (!PyArg_ParseTuple(args, "iOOO!O!O!Op", &mode, &convert, &exchange, &PyTuple_Type, &dtypes, &PyTuple_Type, &names, &PyTuple_Type,
                          &wrappers, &container, &as_dict))
        return NULL;
    size_t outputs = self->handle ? fby_loader_output_count(self->handle) : 0;
    Py_ssize_t tensors = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wrappers); i++)
        tensors += PyTuple_GET_ITEM(wrappers, i) == Py_None ? 1 : 2;
    if ((size_t)PyTuple_GET_SIZE(names) != outputs || (size_t)PyTuple_GET_SIZE(wrappers) != outputs ||
        (mode == FBPY_DELIVER_NUMPY && PyTuple_GET_SIZE(dtypes) != tensors)) {
        PyErr_SetString(PyExc_ValueError, "names, wrappers and dtypes do not match the outputs");
        return NULL;
    }
    self->mode = (fbpy_deliver_mode)mode;
    self->as_dict = as_dict != 0;
    Py_XSETREF(self->convert, Py_NewRef(convert));
    self->exchange = fbpy_exchange_of(exchange);
    Py_XSETREF(self->dtypes, Py_NewRef(dtypes));
    Py_XSETREF(self->names, Py_NewRef(names));
    Py_XSETREF(self->wrappers, Py_NewRef(wrappers));
    Py_XSETREF(self->container, container == Py_None ? NULL : Py_NewRef(container));
    Py_RETURN_NONE;
}

/* ---- state ---- */

int fbpy_as_u64(PyObject *value, void *out)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred())
        return 0;
    *(unsigned long long *)out = n;
    return 1;
}

static PyObject *loader_state(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_state *state = fbpy_state_of(op);
    fby_loader_state s = {.size = sizeof s};
    fby_error err = {.file_offset = -1};
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    if (!handle)
        return fbpy_loader_raise_closed((fbpy_loader *)op, "the loader is closed: take its state before close()");
    fby_status status = fby_loader_state_get(handle, &s, &err);
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    PyObject *files = PyBytes_FromStringAndSize((const char *)s.files, sizeof s.files);
    return files ? Py_BuildValue("{sI sI sI si si sK sK sK sK sK sK sK sK sK sK sN ss ss sI sI sI sI sK sK sI sK ss sK}", "version",
                                 s.version, "streams", s.streams, "world_size", s.world_size, "shuffle", (int)s.shuffle, "tail",
                                 (int)s.tail, "epoch", (unsigned long long)s.epoch, "batch", (unsigned long long)s.batch, "seed",
                                 (unsigned long long)s.seed, "global_batch", (unsigned long long)s.global_batch, "superbatch",
                                 (unsigned long long)s.superbatch_samples, "rows", (unsigned long long)s.n_rows, "files",
                                 (unsigned long long)s.n_files, "blocks", (unsigned long long)s.n_blocks, "samples",
                                 (unsigned long long)s.n_samples, "samples_hash", (unsigned long long)s.samples, "hashes", files,
                                 "identity", s.identity, "fingerprint", s.fingerprint, "part_files", s.part_files, "n_parts", s.n_parts,
                                 "diversity_files", s.diversity_files, "max_superbatch_batches", s.max_superbatch_batches, "batch_elements",
                                 (unsigned long long)s.batch_elements, "bucket_samples", (unsigned long long)s.bucket_samples, "part_keys",
                                 s.part_keys, "part_keys_hash", (unsigned long long)s.part_keys_hash, "contents", s.contents, "inodes",
                                 (unsigned long long)s.inodes)
                 : NULL;
}

static PyObject *loader_set_state(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"version",
                               "streams",
                               "world_size",
                               "shuffle",
                               "tail",
                               "epoch",
                               "batch",
                               "seed",
                               "global_batch",
                               "superbatch",
                               "rows",
                               "files",
                               "blocks",
                               "samples",
                               "samples_hash",
                               "hashes",
                               "identity",
                               "fingerprint",
                               "part_files",
                               "n_parts",
                               "diversity_files",
                               "max_superbatch_batches",
                               "batch_elements",
                               "bucket_samples",
                               "part_keys",
                               "part_keys_hash",
                               "contents",
                               "inodes",
                               NULL};
    fbpy_loader *self = (fbpy_loader *)op;
    fbpy_state *state = fbpy_state_of(op);
    fby_loader_state s = {.size = sizeof s};
    fby_error err = {.file_offset = -1};
    int shuffle, tail;
    unsigned version, streams, world_size;
    unsigned long long n[10], elements = 0, bucket = 0, keys_hash = 0, inodes = 0;
    const char *identity, *fingerprint, *hashes, *contents = "";
    Py_ssize_t n_hashes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IIIiiO&O&O&O&O&O&O&O&O&O&y#ss|IIIIO&O&IO&sO&", keywords, &version, &streams,
                                     &world_size, &shuffle, &tail, fbpy_as_u64, &n[0], fbpy_as_u64, &n[1], fbpy_as_u64, &n[2], fbpy_as_u64,
                                     &n[3], fbpy_as_u64, &n[4], fbpy_as_u64, &n[5], fbpy_as_u64, &n[6], fbpy_as_u64, &n[7], fbpy_as_u64,
                                     &n[8], fbpy_as_u64, &n[9], &hashes, &n_hashes, &identity, &fingerprint, &s.part_files, &s.n_parts,
                                     &s.diversity_files, &s.max_superbatch_batches, fbpy_as_u64, &elements, fbpy_as_u64, &bucket,
                                     &s.part_keys, fbpy_as_u64, &keys_hash, &contents, fbpy_as_u64, &inodes))
        return NULL;
    if ((size_t)n_hashes != sizeof s.files || strlen(identity) >= sizeof s.identity || strlen(fingerprint) >= sizeof s.fingerprint ||
        strlen(contents) >= sizeof s.contents) {
        PyErr_SetString(PyExc_ValueError, "the state is damaged: its hashes have another length");
        return NULL;
    }
    s.version = version;
    s.streams = streams;
    s.world_size = world_size;
    s.shuffle = (fby_shuffle_kind)shuffle;
    s.tail = (fby_tail_kind)tail;
    s.epoch = n[0];
    s.batch = n[1];
    s.seed = n[2];
    s.global_batch = n[3];
    s.superbatch_samples = n[4];
    s.n_rows = n[5];
    s.n_files = n[6];
    s.n_blocks = n[7];
    s.n_samples = n[8];
    s.samples = n[9];
    s.batch_elements = elements;
    s.bucket_samples = bucket;
    s.part_keys_hash = keys_hash;
    memcpy(s.files, hashes, sizeof s.files);
    memcpy(s.identity, identity, strlen(identity) + 1);
    memcpy(s.fingerprint, fingerprint, strlen(fingerprint) + 1);
    memcpy(s.contents, contents, strlen(contents) + 1);
    s.inodes = inodes;
    fby_loader *handle = fbpy_loader_usable(self);
    if (!handle)
        return NULL;
    fby_status status = fby_loader_state_set(handle, &s, &err);
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    self->generation++;
    Py_RETURN_NONE;
}

/* ---- looking ---- */

static PyObject *loader_counts(PyObject *op, PyObject *unused)
{
    (void)unused;
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    if (!handle)
        return fbpy_raise_text(fbpy_state_of(op), FBY_E_STATE, "the loader is closed: make a new one");
    return Py_BuildValue("KK", (unsigned long long)fby_loader_batch_count(handle), (unsigned long long)fby_loader_sample_count(handle));
}

/* (batches, samples) of any epoch. */
static PyObject *loader_count_of(PyObject *op, PyObject *number)
{
    fbpy_state *state = fbpy_state_of(op);
    fby_loader *handle = ((fbpy_loader *)op)->handle;
    unsigned long long epoch;
    uint64_t batches, samples;
    fby_error err = {.file_offset = -1};
    if (!fbpy_as_u64(number, &epoch))
        return NULL;
    if (!handle)
        return fbpy_raise_text(state, FBY_E_STATE, "the loader is closed: make a new one");
    fby_status status = fby_loader_count_of(handle, epoch, &batches, &samples, &err);
    return status == FBY_OK ? Py_BuildValue("KK", (unsigned long long)batches, (unsigned long long)samples)
                            : fbpy_raise(state, status, &err);
}

/* Adds "name": value to a dict and drops value; false with an exception. */
static bool put(PyObject *dict, const char *name, PyObject *value)
{
    bool ok = value && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    return ok;
}

static PyObject *loader_report(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_loader *self = (fbpy_loader *)op;
    fbpy_state *state = fbpy_state_of(op);
    fby_report r = {.size = sizeof r};
    fby_error err = {.file_offset = -1};
    if (!self->handle)
        return fbpy_raise_text(state, FBY_E_STATE, "the loader is closed: take its report before close()");
    fby_status status = fby_loader_report(self->handle, &r, &err);
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);

    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"epochs_begun", r.epochs_begun},
                  {"batches", r.batches},
                  {"samples", r.samples},
                  {"bytes_read", r.bytes_read},
                  {"bytes_decompressed", r.bytes_decompressed},
                  {"bytes_decoded", r.bytes_decoded},
                  {"bytes_delivered", r.bytes_delivered},
                  {"blocks_read", r.blocks_read},
                  {"blocks_from_cache", r.blocks_from_cache},
                  {"blocks_evicted", r.blocks_evicted},
                  {"elapsed_ns", r.elapsed_ns},
                  {"first_batch_ns", r.first_batch_ns},
                  {"read_ns", r.read_ns},
                  {"decompress_ns", r.decompress_ns},
                  {"decode_ns", r.decode_ns},
                  {"assemble_ns", r.assemble_ns},
                  {"transform_ns", r.transform_ns},
                  {"wait_ns", r.wait_ns},
                  {"work_ns", r.work_ns},
                  {"consumer_cpu_ns", r.consumer_cpu_ns},
                  {"worker_cpu_ns", r.worker_cpu_ns},
                  {"wait_p50_ns", r.wait_p50_ns},
                  {"wait_p95_ns", r.wait_p95_ns},
                  {"wait_p99_ns", r.wait_p99_ns},
                  {"wait_max_ns", r.wait_max_ns},
                  {"budget_bytes", r.budget_bytes},
                  {"budget_peak_bytes", r.budget_peak_bytes},
                  {"budget_minimum_bytes", r.budget_minimum_bytes},
                  {"batches_out", r.batches_out},
                  {"batches_out_bytes", r.batches_out_bytes},
                  {"superbatch_samples", r.superbatch_samples},
                  {"streams", r.streams},
                  {"threads", r.n_threads},
                  {"dropped", r.n_dropped},
                  {"wrapped", r.n_wrapped},
                  {"parts", r.n_parts},
                  {"slice_samples", r.slice_samples},
                  {"epoch_bytes", r.epoch_bytes},
                  {"files_per_batch_least", r.files_per_batch_least},
                  {"memory_available_bytes", r.memory_available_bytes},
                  {"memory_limit_bytes", r.memory_limit_bytes}};
    PyObject *dict = PyDict_New();
    bool ok = dict != NULL;
    for (size_t i = 0; ok && i < sizeof counts / sizeof *counts; i++)
        ok = put(dict, counts[i].name, PyLong_FromUnsignedLongLong(counts[i].value));
    ok = ok && put(dict, "same_block", PyFloat_FromDouble(r.same_block)) &&
         put(dict, "same_block_uniform", PyFloat_FromDouble(r.same_block_uniform)) &&
         put(dict, "entropy_bits", PyFloat_FromDouble(r.entropy_bits)) &&
         put(dict, "entropy_bits_uniform", PyFloat_FromDouble(r.entropy_bits_uniform)) &&
         put(dict, "reads_per_block", PyFloat_FromDouble(r.reads_per_block)) &&
         put(dict, "files_per_batch", PyFloat_FromDouble(r.files_per_batch)) &&
         put(dict, "files_per_batch_uniform", PyFloat_FromDouble(r.files_per_batch_uniform)) &&
         put(dict, "padding", PyFloat_FromDouble(r.padding)) && put(dict, "padding_unsorted", PyFloat_FromDouble(r.padding_unsorted)) &&
         put(dict, "io_engine", PyUnicode_FromString(r.io_engine ? r.io_engine : "")) &&
         put(dict, "memory_limit", PyUnicode_DecodeUTF8(r.memory_limit, (Py_ssize_t)strlen(r.memory_limit), "replace")) &&
         put(dict, "limit", PyUnicode_FromString(fby_limit_name(r.limit))) && put(dict, "confidence", PyFloat_FromDouble(r.confidence)) &&
         put(dict, "verdict", PyUnicode_DecodeUTF8(r.verdict, (Py_ssize_t)strlen(r.verdict), "replace")) &&
         put(dict, "mixing", PyUnicode_DecodeUTF8(r.mixing, (Py_ssize_t)strlen(r.mixing), "replace"));
    if (!ok)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *loader_cancel(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_loader *self = (fbpy_loader *)op;
    if (self->handle)
        fby_loader_cancel(self->handle);
    Py_RETURN_NONE;
}

static PyObject *loader_close(PyObject *op, PyObject *unused)
{
    (void)unused;
    fbpy_loader *self = (fbpy_loader *)op;
    if (self->handle && self->busy) {
        self->close_requested = true;
        fby_loader_cancel(self->handle);
    } else {
        fbpy_loader_close_handle(self);
    }
    Py_RETURN_NONE;
}

static PyObject *loader_close_at_exit(PyObject *op, PyObject *unused)
{
    ((fbpy_loader *)op)->exiting = true;
    return loader_close(op, unused);
}

static PyObject *loader_closed(PyObject *op, void *unused)
{
    (void)unused;
    fbpy_loader *self = (fbpy_loader *)op;
    return PyBool_FromLong(!self->handle || self->close_requested);
}

static PyMethodDef k_loader_methods[] = {
    {"outputs", loader_outputs, METH_NOARGS, "outputs()\n--\n\nA list of (name, dtype, shape, ragged, text, padded, steps)."},
    {"notes", loader_notes, METH_NOARGS, "notes()\n--\n\nWhat a colleague would ask about the outputs, as sentences."},
    {"configure", loader_configure, METH_VARARGS,
     "configure(mode, convert, exchange, dtypes, names, wrappers, container, as_dict)\n--\n\nHow batches are delivered; once, before "
     "begin()."},
    {"begin", fbpy_loader_begin, METH_VARARGS,
     "begin(epoch, batch, follow=False)\n--\n\nBegin an epoch at a batch; its Iterator. follow: the Iterator that there is goes on with "
     "it."},
    {"state", loader_state, METH_NOARGS, "state()\n--\n\nWhere the loader stands, as a dict."},
    {"set_state", (PyCFunction)(void (*)(void))loader_set_state, METH_VARARGS | METH_KEYWORDS,
     "set_state(**state)\n--\n\nCheck that the loader would go on where a state was taken; iterators are over then."},
    {"counts", loader_counts, METH_NOARGS, "counts()\n--\n\n(batches, samples) of the epoch under way or next."},
    {"count_of", loader_count_of, METH_O, "count_of(epoch)\n--\n\n(batches, samples) of an epoch."},
    {"report", loader_report, METH_NOARGS, "report()\n--\n\nWhere the time went, as a dict."},
    {"cancel", loader_cancel, METH_NOARGS, "cancel()\n--\n\nEnd the epoch; a waiting thread gets CancelledError."},
    {"close", loader_close, METH_NOARGS, "close()\n--\n\nStop the threads and free everything but batches still held."},
    {"close_at_exit", loader_close_at_exit, METH_NOARGS,
     "close_at_exit()\n--\n\nclose(), after which threads that iterate get SystemExit."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef k_loader_getset[] = {
    {"closed", loader_closed, NULL, "True after close().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef k_loader_members[] = {
    {"taken", T_BOOL, offsetof(fbpy_loader, taken), READONLY, "Was anything taken of the epoch that began last?"},
    {"held", T_BOOL, offsetof(fbpy_loader, held), READONLY, "Does its iterator live?"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(fbpy_loader, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot k_loader_slots[] = {
    {Py_tp_new, loader_new},           {Py_tp_dealloc, loader_dealloc},    {Py_tp_traverse, loader_traverse},
    {Py_tp_clear, loader_clear},       {Py_tp_methods, k_loader_methods},  {Py_tp_getset, k_loader_getset},
    {Py_tp_members, k_loader_members}, {Py_tp_doc, "An open fby_loader."}, {0, NULL},
};

PyType_Spec fbpy_loader_spec = {
    .name = "forebay._forebay.Loader",
    .basicsize = sizeof(fbpy_loader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = k_loader_slots,
};
