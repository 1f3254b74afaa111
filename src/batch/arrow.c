/*
 * A batch as one Arrow record batch, zero copy but for bool tensors (Arrow packs bits): every array of the tree holds a
 * reference to the batch, so children may be moved out and outlive their parent as the specification allows.
 */
#include "batch/batch.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/** What an exported array owns. Its buffers point into the batch, or to `bits`. */
typedef struct owner {
    fby_batch *batch;
    void *bits; /* owned: a packed bool buffer, or NULL */
    const void *buffers[3];
} owner;

static void release_array(struct ArrowArray *a)
{
    for (int64_t i = 0; i < a->n_children; i++)
        if (a->children[i]) {
            if (a->children[i]->release)
                a->children[i]->release(a->children[i]);
            fby__free(a->children[i]);
        }
    fby__free(a->children);
    owner *o = a->private_data;
    if (o) {
        fby_batch_unref(o->batch);
        fby__free(o->bits);
        fby__free(o);
    }
    a->release = NULL;
}

static void release_schema(struct ArrowSchema *s)
{
    for (int64_t i = 0; i < s->n_children; i++)
        if (s->children[i]) {
            if (s->children[i]->release)
                s->children[i]->release(s->children[i]);
            fby__free(s->children[i]);
        }
    fby__free(s->children);
    fby__free((void *)(uintptr_t)s->format);
    fby__free((void *)(uintptr_t)s->name);
    s->release = NULL;
}

static fby_status new_array(fby_batch *batch, int64_t length, int64_t n_buffers, int64_t n_children, struct ArrowArray *a, fby_error *err)
{
    *a = (struct ArrowArray){.length = length, .n_buffers = n_buffers, .n_children = n_children, .release = release_array};
    owner *o = fby__calloc(1, sizeof *o);
    a->private_data = o;
    a->children = fby__calloc((size_t)n_children, sizeof *a->children);
    bool ok = o && a->children;
    if (o) {
        o->batch = fby_batch_ref(batch);
        a->buffers = o->buffers;
    }
    for (int64_t i = 0; ok && i < n_children; i++)
        ok = (a->children[i] = fby__calloc(1, sizeof **a->children)) != NULL;
    if (ok)
        return FBY_OK;
    if (!a->children)
        a->n_children = 0;
    release_array(a);
    return fby__fail_nomem(err, "an Arrow array");
}

static fby_status new_schema(const char *format, const char *name, int64_t n_children, struct ArrowSchema *s, fby_error *err)
{
    *s = (struct ArrowSchema){.n_children = n_children, .release = release_schema};
    s->format = fby__strdup(format);
    s->name = fby__strdup(name);
    s->children = fby__calloc((size_t)n_children, sizeof *s->children);
    bool ok = s->format && s->name && s->children;
    for (int64_t i = 0; ok && i < n_children; i++)
        ok = (s->children[i] = fby__calloc(1, sizeof **s->children)) != NULL;
    if (ok)
        return FBY_OK;
    if (!s->children)
        s->n_children = 0;
    release_schema(s);
    return fby__fail_nomem(err, "an Arrow schema");
}

static const char *format_of(fby_dtype dtype)
{
    switch (dtype) {
    case FBY_BOOL: return "b";
    case FBY_INT8: return "c";
    case FBY_INT16: return "s";
    case FBY_INT32: return "i";
    case FBY_INT64: return "l";
    case FBY_UINT8: return "C";
    case FBY_UINT16: return "S";
    case FBY_UINT32: return "I";
    case FBY_UINT64: return "L";
    case FBY_FLOAT16: return "e";
    case FBY_FLOAT32: return "f";
    case FBY_FLOAT64: return "g";
    default: return NULL;
    }
}

/* The values of a tensor as a primitive array of n elements. */
static fby_status primitive(fby_batch *batch, const fby_tensor *t, int64_t n, struct ArrowArray *a, fby_error *err)
{
    FBY__TRY(new_array(batch, n, 2, 0, a, err));
    owner *o = a->private_data;
    o->buffers[1] = t->data;
    if (t->dtype != FBY_BOOL)
        return FBY_OK;
    uint8_t *bits = o->bits = fby__calloc(((size_t)n + 7) / 8, 1);
    if (!bits) {
        release_array(a);
        return fby__fail_nomem(err, "an Arrow array");
    }
    for (int64_t i = 0; i < n; i++)
        bits[i / 8] |= (uint8_t)(((const uint8_t *)t->data)[i] << (i % 8));
    o->buffers[1] = bits;
    return FBY_OK;
}

/* Fixed-size lists around a primitive: axes d, d + 1, … of the tensor, `n` lists at this level. */
static fby_status nest(fby_batch *batch, const fby_tensor *t, int32_t d, int64_t n, const char *name, struct ArrowSchema *s,
                       struct ArrowArray *a, fby_error *err)
{
    if (d == t->ndim) {
        FBY__TRY(new_schema(format_of(t->dtype), name, 0, s, err));
        fby_status status = primitive(batch, t, n, a, err);
        if (status != FBY_OK)
            s->release(s);
        return status;
    }
    char format[32];
    (void)snprintf(format, sizeof format, "+w:%lld", (long long)t->shape[d]);
    FBY__TRY(new_schema(format, name, 1, s, err));
    fby_status status = new_array(batch, n, 1, 1, a, err);
    if (status == FBY_OK && (status = nest(batch, t, d + 1, n * t->shape[d], "item", s->children[0], a->children[0], err)) != FBY_OK)
        a->release(a);
    if (status != FBY_OK)
        s->release(s);
    return status;
}

static fby_status ragged(fby_batch *batch, const fby__batch_output *o, struct ArrowSchema *s, struct ArrowArray *a, fby_error *err)
{
    const fby_tensor *values = &batch->tensors[o->tensor], *offsets = values + 1;
    bool bytes = o->bytes; /* what is not UTF-8 is binary in Arrow, which promises as much of its strings */
    bool text = o->text && bytes && fby__utf8_all_valid(values->data, offsets->data, batch->size);
    FBY__TRY(new_schema(bytes ? (text ? "U" : "Z") : "+L", o->name, bytes ? 0 : 1, s, err));
    fby_status status = new_array(batch, (int64_t)batch->size, bytes ? 3 : 2, bytes ? 0 : 1, a, err);
    if (status == FBY_OK) {
        owner *own = a->private_data;
        own->buffers[1] = offsets->data;
        own->buffers[2] = bytes ? values->data : NULL;
        if (!bytes && (status = nest(batch, values, 1, values->shape[0], "item", s->children[0], a->children[0], err)) != FBY_OK)
            a->release(a);
    }
    if (status != FBY_OK)
        s->release(s);
    return status;
}

fby_status fby_batch_export_arrow(fby_batch *batch, struct ArrowSchema *out_schema, struct ArrowArray *out_array, fby_error *err)
{
    const fby__batch_shape *shape = batch->shape;
    for (uint32_t i = 0; i < shape->n_outputs; i++)
        if (!format_of(shape->outputs[i].dtype))
            return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': Arrow has no type for %s; ask for float32", shape->outputs[i].name,
                             fby_dtype_name(shape->outputs[i].dtype));
    struct ArrowSchema schema;
    struct ArrowArray array;
    FBY__TRY(new_schema("+s", "", shape->n_outputs, &schema, err));
    fby_status status = new_array(batch, (int64_t)batch->size, 1, shape->n_outputs, &array, err);
    for (uint32_t i = 0; status == FBY_OK && i < shape->n_outputs; i++) {
        const fby__batch_output *o = &shape->outputs[i];
        if (o->layout == FBY_LAYOUT_RAGGED)
            status = ragged(batch, o, schema.children[i], array.children[i], err);
        else
            status = nest(batch, &batch->tensors[o->tensor], 1, (int64_t)batch->size, o->name, schema.children[i], array.children[i], err);
        if (status != FBY_OK)
            array.release(&array);
    }
    if (status != FBY_OK) {
        schema.release(&schema);
        return status;
    }
    *out_schema = schema;
    *out_array = array;
    return FBY_OK;
}
