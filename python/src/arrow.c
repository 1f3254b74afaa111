/*
 * Capsules of the Arrow PyCapsule interface (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html), and a
 * stream of ours as plain bytes, for what NumPy is to have without pyarrow.
 *
 * A capsule owns a heap copy of the struct. A consumer moves the content out and sets release to NULL; what it leaves, the
 * capsule's destructor releases.
 */
#include "module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FBPY_CAPSULE(function, type, label)                                                                                                \
    static void function##_free(PyObject *capsule)                                                                                         \
    {                                                                                                                                      \
        struct type *held = PyCapsule_GetPointer(capsule, label);                                                                          \
        if (held && held->release)                                                                                                         \
            held->release(held);                                                                                                           \
        free(held);                                                                                                                        \
    }                                                                                                                                      \
    PyObject *function(struct type *in)                                                                                                    \
    {                                                                                                                                      \
        struct type *held = malloc(sizeof *held);                                                                                          \
        PyObject *capsule = NULL;                                                                                                          \
        if (held) {                                                                                                                        \
            *held = *in;                                                                                                                   \
            capsule = PyCapsule_New(held, label, function##_free);                                                                         \
        } else {                                                                                                                           \
            PyErr_NoMemory();                                                                                                              \
        }                                                                                                                                  \
        if (!capsule) {                                                                                                                    \
            free(held);                                                                                                                    \
            in->release(in);                                                                                                               \
        }                                                                                                                                  \
        return capsule;                                                                                                                    \
    }

FBPY_CAPSULE(fbpy_schema_capsule, ArrowSchema, "arrow_schema")
FBPY_CAPSULE(fbpy_array_capsule, ArrowArray, "arrow_array")
FBPY_CAPSULE(fbpy_stream_capsule, ArrowArrayStream, "arrow_array_stream")

/* ---- streams that Ctrl-C ends ---- */

static int waiting_get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct ArrowArrayStream *inner = self->private_data;
    return inner->get_schema(inner, out);
}

/* Called by pyarrow and others, who hold the GIL or do not: KeyboardInterrupt comes when they are back in Python. */
static int waiting_get_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct ArrowArrayStream *inner = self->private_data;
    fbpy_wait wait;
    fbpy_wait_begin(&wait);
    int code = inner->get_next(inner, out);
    fbpy_wait_end(&wait);
    return code;
}

static const char *waiting_get_last_error(struct ArrowArrayStream *self)
{
    struct ArrowArrayStream *inner = self->private_data;
    return inner->get_last_error(inner);
}

static void waiting_release(struct ArrowArrayStream *self)
{
    struct ArrowArrayStream *inner = self->private_data;
    inner->release(inner);
    free(inner);
    *self = (struct ArrowArrayStream){0};
}

int fbpy_stream_wait(struct ArrowArrayStream *stream)
{
    struct ArrowArrayStream *inner = malloc(sizeof *inner);
    if (!inner) {
        stream->release(stream);
        PyErr_NoMemory();
        return -1;
    }
    *inner = *stream;
    *stream = (struct ArrowArrayStream){.get_schema = waiting_get_schema,
                                        .get_next = waiting_get_next,
                                        .get_last_error = waiting_get_last_error,
                                        .release = waiting_release,
                                        .private_data = inner};
    return 0;
}

/* ---- as bytes ---- */

/* Buffer i; n < 0, or a buffer that is not there: None. */
static PyObject *bytes_of(const struct ArrowArray *array, int64_t i, int64_t n)
{
    const char *p = i < array->n_buffers ? array->buffers[i] : NULL;
    if (n < 0 || (!p && n > 0))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(n > 0 ? p : "", (Py_ssize_t)n);
}

/* Bytes of a value of the formats that fby_dataset_export_arrow gives; 0: not a format of fixed width. */
static int64_t width_of(const char *format)
{
    if (strncmp(format, "w:", 2) == 0)
        return strtoll(format + 2, NULL, 10);
    if (format[0] == 't')
        return format[1] == 'd' && format[2] == 'D' ? 4 : format[1] == 't' && (format[2] == 's' || format[2] == 'm') ? 4 : 8;
    if (format[0] == 'd')
        return strcmp(strrchr(format, ',') ? strrchr(format, ',') : "", ",256") == 0 ? 32 : 16;
    return strchr("cC", format[0]) ? 1 : strchr("sSe", format[0]) ? 2 : strchr("iIf", format[0]) ? 4 : strchr("lLg", format[0]) ? 8 : 0;
}

/* (name, format, length, validity or None, (buffer, …), (child, …)). Arrays of ours begin at 0. */
static PyObject *node_of(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    const char *format = schema->format;
    const int64_t n = array->length, bits = n / 8 + (n % 8 != 0);
    PyObject *children = NULL, *buffers = NULL, *validity = NULL, *result = NULL;
    if (array->offset != 0 || array->n_children != schema->n_children) {
        PyErr_SetString(PyExc_SystemError, "an Arrow array that is not as forebay exports them");
        return NULL;
    }
    if (!(validity = bytes_of(array, 0, array->null_count && array->n_buffers ? bits : -1)) || !(children = PyTuple_New(array->n_children)))
        goto done;
    for (int64_t i = 0; i < array->n_children; i++) {
        PyObject *child = node_of(schema->children[i], array->children[i]);
        if (!child)
            goto done;
        PyTuple_SET_ITEM(children, (Py_ssize_t)i, child);
    }
    if (strcmp(format, "U") == 0 || strcmp(format, "Z") == 0) {
        const int64_t *offsets = array->buffers[1];
        buffers = Py_BuildValue("(NN)", bytes_of(array, 1, 8 * (n + 1)), bytes_of(array, 2, offsets ? offsets[n] : 0));
    } else if (strcmp(format, "+L") == 0 || strcmp(format, "+m") == 0) {
        buffers = Py_BuildValue("(N)", bytes_of(array, 1, format[1] == 'L' ? 8 * (n + 1) : 4 * (n + 1)));
    } else if (format[0] == '+' || format[0] == 'n') {
        buffers = PyTuple_New(0);
    } else {
        buffers = Py_BuildValue("(N)", bytes_of(array, 1, format[0] == 'b' ? bits : n * width_of(format)));
    }
    if (buffers)
        result = Py_BuildValue("(ssLOOO)", schema->name ? schema->name : "", format, (long long)n, validity, buffers, children);
done:
    Py_XDECREF(validity);
    Py_XDECREF(buffers);
    Py_XDECREF(children);
    return result;
}

PyObject *fbpy_stream_nodes(const fbpy_state *state, struct ArrowArrayStream *stream)
{
    struct ArrowSchema schema = {0};
    PyObject *result = NULL, *list = PyList_New(0);
    fby_status status;
    int code = list ? stream->get_schema(stream, &schema) : 0;
    while (list && code == 0) {
        struct ArrowArray array = {0};
        code = ECANCELED; /* before it is asked for the first time */
        FBPY_WAIT(status, (code = stream->get_next(stream, &array)) == ECANCELED ? FBY_E_CANCELLED : FBY_OK);
        if (code == 0 && !array.release) {
            result = Py_NewRef(list);
            break;
        }
        if (code != 0)
            break;
        PyObject *node = node_of(&schema, &array);
        array.release(&array);
        int appended = node ? PyList_Append(list, node) : -1;
        Py_XDECREF(node);
        if (appended < 0)
            break;
    }
    if (code != 0) {
        const char *text = stream->get_last_error(stream);
        fbpy_raise_text(state,
                        code == ENOMEM      ? FBY_E_NOMEM
                        : code == ECANCELED ? FBY_E_CANCELLED
                                            : FBY_E_FORMAT,
                        text ? text : "the rows cannot be read");
    }
    if (schema.release)
        schema.release(&schema);
    stream->release(stream);
    Py_XDECREF(list);
    return result;
}
