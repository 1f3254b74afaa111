/*
 * Columns of Python buffers as an Arrow stream: how a dict of arrays becomes a dataset, without an Arrow library and without copies.
 *
 * The stream cuts the rows into blocks by moving the buffers' pointers, so that every array has offset 0; rows_per_block is a
 * multiple of 8 so that the cut falls on a byte of the bit buffers. Every array of a block holds a reference to one `columns_source`, whose
 * last reference gives the Python buffers back. That may happen on any thread, hence PyGILState_Ensure there.
 *
 *   column (n, 3, 4) float32  →  fixed_size_list[3] → fixed_size_list[4] → float32      (dims = 3, 4)
 *   column of strings         →  large_utf8: offsets int64 (n + 1), data
 */
#include "module.h"

#include <stdlib.h>

#include <errno.h>
#include <stdatomic.h>

#define MAX_DIMS 7

typedef struct column {
    char *name, *format; /* owned */
    int n_dims;
    int64_t dims[MAX_DIMS];
    int64_t inner;                     /* elements a row: the product of dims */
    int64_t item_bytes;                /* 0 = bits */
    Py_buffer data, offsets, validity; /* obj NULL = absent */
} column;

typedef struct columns_source {
    atomic_size_t refs;
    int64_t rows, rows_per_block, next_row; /* next_row: the stream's alone */
    size_t n_columns;
    column columns[];
} columns_source;

static void source_unref(columns_source *source)
{
    /* acq_rel: the last one sees what the others did with the buffers before it gives them back. */
    if (atomic_fetch_sub_explicit(&source->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* After the interpreter is gone the buffers' owners are too: what is left of them is the process's to free. */
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    for (size_t i = 0; i < source->n_columns; i++) {
        column *c = &source->columns[i];
        PyBuffer_Release(&c->data);
        PyBuffer_Release(&c->offsets);
        PyBuffer_Release(&c->validity);
        free(c->name);
        free(c->format);
    }
    PyGILState_Release(gil);
    free(source);
}

static void source_ref(columns_source *source) { atomic_fetch_add_explicit(&source->refs, 1, memory_order_relaxed); }

/* ---- schema ---- */

typedef struct schema_node {
    char *name, *format;           /* owned */
    struct ArrowSchema **children; /* owned, each by malloc */
} schema_node;

static void schema_release(struct ArrowSchema *schema)
{
    schema_node *node = schema->private_data;
    for (int64_t i = 0; i < schema->n_children; i++) {
        struct ArrowSchema *child = node->children[i];
        if (child && child->release)
            child->release(child);
        free(child);
    }
    free(node->children);
    free(node->name);
    free(node->format);
    free(node);
    schema->release = NULL;
}

static char *copy_text(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

/* A node with n_children children that are allocated and not yet filled (release NULL). 0 or ENOMEM. */
static int schema_create(struct ArrowSchema *out, const char *format, const char *name, int64_t n_children, int64_t flags)
{
    schema_node *node = calloc(1, sizeof *node);
    *out = (struct ArrowSchema){0};
    if (!node)
        return ENOMEM;
    *out = (struct ArrowSchema){.flags = flags, .release = schema_release, .private_data = node};
    node->format = copy_text(format);
    node->name = copy_text(name);
    node->children = calloc(n_children ? (size_t)n_children : 1, sizeof *node->children);
    if (!node->format || !node->name || !node->children)
        goto fail;
    out->n_children = n_children;
    for (int64_t i = 0; i < n_children; i++)
        if (!(node->children[i] = calloc(1, sizeof **node->children)))
            goto fail;
    out->format = node->format;
    out->name = node->name;
    out->children = node->children;
    return 0;
fail:
    schema_release(out);
    return ENOMEM;
}

static int column_schema(const column *c, int dim, struct ArrowSchema *out)
{
    /* Only the innermost values of masked arrays are ever null. */
    int64_t nullable = c->validity.obj ? ARROW_FLAG_NULLABLE : 0;
    const char *name = dim ? "item" : c->name;
    if (dim == c->n_dims)
        return schema_create(out, c->format, name, 0, nullable);
    char format[32];
    PyOS_snprintf(format, sizeof format, "+w:%lld", (long long)c->dims[dim]);
    int rc = schema_create(out, format, name, 1, 0);
    if (rc == 0 && (rc = column_schema(c, dim + 1, out->children[0])) != 0)
        out->release(out);
    return rc;
}

static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    columns_source *source = stream->private_data;
    int rc = schema_create(out, "+s", "", (int64_t)source->n_columns, 0);
    for (size_t i = 0; rc == 0 && i < source->n_columns; i++)
        if ((rc = column_schema(&source->columns[i], 0, out->children[i])) != 0)
            out->release(out);
    return rc;
}

/* ---- arrays ---- */

typedef struct array_node {
    columns_source *source; /* shared */
    const void *buffers[3];
    struct ArrowArray **children; /* owned, each by malloc */
} array_node;

static void array_release(struct ArrowArray *array)
{
    array_node *node = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        struct ArrowArray *child = node->children[i];
        if (child && child->release)
            child->release(child);
        free(child);
    }
    free(node->children);
    source_unref(node->source);
    free(node);
    array->release = NULL;
}

static int array_create(columns_source *source, struct ArrowArray *out, int64_t length, int64_t n_buffers, int64_t n_children)
{
    array_node *node = calloc(1, sizeof *node);
    *out = (struct ArrowArray){0};
    if (!node)
        return ENOMEM;
    node->source = source;
    source_ref(source);
    *out = (struct ArrowArray){
        .length = length, .n_buffers = n_buffers, .buffers = node->buffers, .release = array_release, .private_data = node};
    if (!(node->children = calloc(n_children ? (size_t)n_children : 1, sizeof *node->children)))
        goto fail;
    out->n_children = n_children;
    out->children = node->children;
    for (int64_t i = 0; i < n_children; i++)
        if (!(node->children[i] = calloc(1, sizeof **node->children)))
            goto fail;
    return 0;
fail:
    array_release(out);
    return ENOMEM;
}

/* Rows [row, row + length / (dims before dim)) of a column, from list level `dim` down; `length` counts items of that level. */
static int column_array(columns_source *source, const column *c, int dim, int64_t row, int64_t length, struct ArrowArray *out)
{
    int rc;
    if (dim < c->n_dims) {
        if ((rc = array_create(source, out, length, 1, 1)) != 0)
            return rc;
        if ((rc = column_array(source, c, dim + 1, row, length * c->dims[dim], out->children[0])) != 0)
            out->release(out);
        return rc;
    }
    if ((rc = array_create(source, out, length, c->offsets.obj ? 3 : 2, 0)) != 0)
        return rc;
    array_node *node = out->private_data;
    int64_t first = row * c->inner; /* in elements; a multiple of 8 */
    if (c->validity.obj) {
        node->buffers[0] = (const char *)c->validity.buf + first / 8;
        out->null_count = -1;
    }
    if (c->offsets.obj) {
        node->buffers[1] = (const int64_t *)c->offsets.buf + first;
        node->buffers[2] = c->data.buf;
    } else {
        node->buffers[1] = (const char *)c->data.buf + (c->item_bytes ? first * c->item_bytes : first / 8);
    }
    return 0;
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    columns_source *source = stream->private_data;
    int64_t row = source->next_row, rows = source->rows - row;
    if (rows > source->rows_per_block)
        rows = source->rows_per_block;
    if (rows <= 0) {
        *out = (struct ArrowArray){0};
        return 0;
    }
    int rc = array_create(source, out, rows, 1, (int64_t)source->n_columns);
    for (size_t i = 0; rc == 0 && i < source->n_columns; i++)
        if ((rc = column_array(source, &source->columns[i], 0, row, rows, out->children[i])) != 0)
            out->release(out);
    if (rc == 0)
        source->next_row += rows;
    return rc;
}

static const char *stream_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return "out of memory";
}

static void stream_release(struct ArrowArrayStream *stream)
{
    source_unref(stream->private_data);
    stream->release = NULL;
}

/* ---- from Python ---- */

/* Bytes that `elements` elements (bits when item_bytes is 0) take, or -1 when that does not fit. */
static int64_t elements_bytes(int64_t elements, int64_t item_bytes)
{
    if (item_bytes == 0)
        return elements / 8 + (elements % 8 != 0);
    return elements > INT64_MAX / item_bytes ? -1 : elements * item_bytes;
}

static int64_t item_bytes_of(const char *format)
{
    switch (format[0]) {
    case 'b': return 0;
    case 'c':
    case 'C': return 1;
    case 's':
    case 'S':
    case 'e': return 2;
    case 'i':
    case 'I':
    case 'f': return 4;
    case 't': return format[1] == 'd' && format[2] == 'D' ? 4 : 8;
    default: return 8;
    }
}

static int get_buffer(PyObject *value, Py_buffer *out, int64_t need, const char *name, const char *what)
{
    if (value == Py_None)
        return 0;
    if (PyObject_GetBuffer(value, out, PyBUF_C_CONTIGUOUS) < 0)
        return -1;
    if (out->len < need) {
        PyErr_Format(PyExc_ValueError, "column '%s': its %s has %zd bytes where %lld are needed", name, what, out->len, (long long)need);
        return -1;
    }
    return 0;
}

static int column_init(column *c, PyObject *spec, int64_t rows)
{
    const char *name, *format;
    PyObject *dims, *data, *offsets, *validity;
    if (!PyArg_ParseTuple(spec, "ssO!OOO", &name, &format, &PyTuple_Type, &dims, &data, &offsets, &validity))
        return -1;
    if (PyTuple_GET_SIZE(dims) > MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "column '%s' has %zd dimensions; at most %d are possible", name, PyTuple_GET_SIZE(dims) + 1,
                     MAX_DIMS + 1);
        return -1;
    }
    c->name = copy_text(name);
    c->format = copy_text(format);
    if (!c->name || !c->format) {
        PyErr_NoMemory();
        return -1;
    }
    c->n_dims = (int)PyTuple_GET_SIZE(dims);
    c->inner = 1;
    for (int i = 0; i < c->n_dims; i++) {
        c->dims[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(dims, i));
        if (PyErr_Occurred())
            return -1;
        if (c->dims[i] < 0 || c->dims[i] > INT32_MAX || (c->dims[i] && c->inner > INT64_MAX / c->dims[i])) {
            PyErr_Format(PyExc_ValueError, "column '%s': dimension %d is too large", name, i + 1);
            return -1;
        }
        c->inner *= c->dims[i];
    }
    c->item_bytes = item_bytes_of(format);
    int64_t elements = c->inner && rows > INT64_MAX / 8 / c->inner ? -1 : rows * c->inner;
    int64_t bytes = elements < 0 ? -1 : elements_bytes(elements, c->item_bytes);
    if (bytes < 0) {
        PyErr_Format(PyExc_ValueError, "column '%s' is too large", name);
        return -1;
    }
    if (offsets == Py_None)
        return get_buffer(data, &c->data, bytes, name, "data") < 0 ||
                       get_buffer(validity, &c->validity, elements_bytes(elements, 0), name, "validity") < 0
                   ? -1
                   : 0;
    if (get_buffer(data, &c->data, 0, name, "data") < 0 || get_buffer(offsets, &c->offsets, (elements + 1) * 8, name, "offsets") < 0 ||
        get_buffer(validity, &c->validity, elements_bytes(elements, 0), name, "validity") < 0)
        return -1;
    const int64_t *o = c->offsets.buf;
    for (int64_t i = 0; i <= elements; i++) {
        if (o[i] < (i ? o[i - 1] : 0) || o[i] > c->data.len) {
            PyErr_Format(PyExc_ValueError, "column '%s': offset %lld is out of order or past the data", name, (long long)i);
            return -1;
        }
    }
    return 0;
}

int fbpy_columns_stream(PyObject *columns, int64_t rows, int64_t rows_per_block, struct ArrowArrayStream *out)
{
    size_t n = (size_t)PyList_GET_SIZE(columns);
    if (rows < 0 || rows_per_block < 8 || rows_per_block % 8) {
        PyErr_SetString(PyExc_ValueError, "rows must not be negative; rows_per_block must be a positive multiple of 8");
        return -1;
    }
    columns_source *source = calloc(1, sizeof *source + n * sizeof *source->columns);
    if (!source) {
        PyErr_NoMemory();
        return -1;
    }
    atomic_init(&source->refs, 1);
    source->rows = rows;
    source->rows_per_block = rows_per_block;
    source->n_columns = n;
    for (size_t i = 0; i < n; i++) {
        if (column_init(&source->columns[i], PyList_GET_ITEM(columns, (Py_ssize_t)i), rows) < 0) {
            source_unref(source);
            return -1;
        }
    }
    *out = (struct ArrowArrayStream){.get_schema = stream_schema,
                                     .get_next = stream_next,
                                     .get_last_error = stream_error,
                                     .release = stream_release,
                                     .private_data = source};
    return 0;
}
