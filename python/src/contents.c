/* What a file holds beyond its table: fby_contents as plain tuples and dicts, taken once; forebay/_contents.py makes them readable. */
#include "module.h"

static PyObject *text(const char *utf8)
{
    return utf8 ? PyUnicode_DecodeUTF8(utf8, (Py_ssize_t)strlen(utf8), "replace") : Py_NewRef(Py_None); /* names come from files */
}

static PyObject *dims(const uint64_t *shape, uint32_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (uint32_t i = 0; tuple && i < n; i++) {
        PyObject *item = PyLong_FromUnsignedLongLong(shape[i]);
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, item);
    }
    return tuple;
}

/* (type, dtype or None, shape, bytes of native numbers | list of str | list of bytes, where they are no UTF-8 | None) */
static PyObject *attribute_tuple(const fby_attribute *a)
{
    PyObject *value = NULL;
    if (a->strings) {
        value = PyList_New((Py_ssize_t)a->n);
        for (uint64_t i = 0; value && i < a->n; i++) {
            PyObject *item = a->utf8 ? text(a->strings[i]) : PyBytes_FromStringAndSize(a->strings[i], (Py_ssize_t)a->string_bytes[i]);
            if (!item)
                Py_CLEAR(value);
            else
                PyList_SET_ITEM(value, (Py_ssize_t)i, item);
        }
    } else if (a->data) {
        value = PyBytes_FromStringAndSize(a->data, (Py_ssize_t)(a->n * fby_dtype_bytes(a->dtype)));
    } else {
        value = Py_NewRef(Py_None);
    }
    if (!value)
        return NULL;
    return Py_BuildValue("NzNN", text(a->type), a->dtype == FBY_DTYPE_NONE ? NULL : fby_dtype_name(a->dtype), dims(a->shape, a->ndim),
                         value);
}

static PyObject *attributes_dict(const fby_object *object)
{
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict && i < object->n_attributes; i++) {
        PyObject *name = text(object->attributes[i].name), *value = name ? attribute_tuple(&object->attributes[i]) : NULL;
        if (!value || PyDict_SetItem(dict, name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *names(const fby_object *object)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)object->ndim);
    for (uint32_t i = 0; tuple && i < object->ndim; i++) {
        PyObject *item = text(object->dimensions[i]);
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, item);
    }
    return tuple;
}

static PyObject *object_dict(const fby_object *o)
{
    static const char *const KINDS[] = {"group", "array", "type", "link", "column"};
    bool array = o->kind == FBY_OBJECT_ARRAY;
    return Py_BuildValue("{s:N,s:s,s:N,s:N,s:z,s:N,s:N,s:z,s:N,s:z,s:N,s:K,s:K,s:K,s:K,s:O,s:N,s:N}", "path", text(o->path), "kind",
                         KINDS[o->kind], "attributes", attributes_dict(o), "type", array ? text(o->type) : text(NULL), "dtype",
                         o->dtype == FBY_DTYPE_NONE ? NULL : fby_dtype_name(o->dtype), "shape", dims(o->shape, o->ndim), "dimensions",
                         names(o), "layout", o->layout, "chunks", array && o->chunk_index ? dims(o->chunk, o->ndim) : text(NULL),
                         "chunk_index", o->chunk_index, "filters", text(o->filters ? o->filters : ""), "n_chunks",
                         (unsigned long long)o->n_chunks, "n_chunks_written", (unsigned long long)o->n_chunks_written, "stored_bytes",
                         (unsigned long long)o->stored_bytes, "decoded_bytes", (unsigned long long)o->decoded_bytes, "direct",
                         o->direct ? Py_True : Py_False, "why", text(o->why), "column", text(o->column));
}

PyObject *fbpy_contents(fbpy_state *state, fby_dataset *ds, unsigned long long file)
{
    fby_contents *contents = NULL;
    fby_error err = {.file_offset = -1};
    fby_status status;
    FBPY_WAIT(status, fby_contents_open(ds, file, &contents, &err));
    if (status != FBY_OK)
        return fbpy_raise(state, status, &err);
    PyObject *objects = PyList_New(0), *notes = PyList_New(0), *item;
    for (size_t i = 0; objects && i < fby_contents_count(contents); i++) {
        item = object_dict(fby_contents_object(contents, i));
        if (!item || PyList_Append(objects, item) < 0)
            Py_CLEAR(objects);
        Py_XDECREF(item);
    }
    const char *note;
    for (size_t i = 0; notes && (note = fby_contents_note(contents, i)); i++) {
        item = text(note);
        if (!item || PyList_Append(notes, item) < 0)
            Py_CLEAR(notes);
        Py_XDECREF(item);
    }
    fby_contents_close(contents);
    if (!objects || !notes) {
        Py_XDECREF(objects);
        Py_XDECREF(notes);
        return NULL;
    }
    return Py_BuildValue("NN", objects, notes);
}
