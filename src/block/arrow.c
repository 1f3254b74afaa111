/*
 * Export of schemas through the Arrow C data interface, and ArrowArrays that own their buffers.
 *
 * One form a kind, always: strings, binaries and lists have 64-bit offsets ("U", "Z", "+L"), so that no chunk is too
 * large for its offsets. Maps exist with 32-bit offsets only; who fills them checks. Import is in arrow_import.c.
 *
 * Every node owns its own memory and nothing of its parent's: a consumer may move a child out and release the parent
 * first.
 */
#include "block/arrow.h"

#include <stdio.h>
#include <string.h>

/* ---- schema ---- */

static const char *const NUMBER_FORMATS[FBY_DTYPE_COUNT] = {
    [FBY_INT8] = "c",  [FBY_UINT8] = "C",  [FBY_INT16] = "s",   [FBY_UINT16] = "S",  [FBY_INT32] = "i",   [FBY_UINT32] = "I",
    [FBY_INT64] = "l", [FBY_UINT64] = "L", [FBY_FLOAT16] = "e", [FBY_FLOAT32] = "f", [FBY_FLOAT64] = "g",
};

static char unit_letter(fby_unit unit)
{
    switch (unit) {
    case FBY_UNIT_S: return 's';
    case FBY_UNIT_MS: return 'm';
    case FBY_UNIT_US: return 'u';
    case FBY_UNIT_NS: return 'n';
    case FBY_UNIT_NONE: break;
    }
    return 0;
}

/* The format string of a field; false when the kind has no Arrow type with these parameters. */
static bool format_text(const fby_field *field, char *out, size_t n)
{
    char unit = unit_letter(field->unit);
    int length = 0;
    switch (field->kind) {
    case FBY_KIND_NULL: length = snprintf(out, n, "n"); break;
    case FBY_KIND_BOOL: length = snprintf(out, n, "b"); break;
    case FBY_KIND_INT:
    case FBY_KIND_FLOAT:
        if ((unsigned)field->dtype >= FBY_DTYPE_COUNT || !NUMBER_FORMATS[field->dtype])
            return false;
        length = snprintf(out, n, "%s", NUMBER_FORMATS[field->dtype]);
        break;
    case FBY_KIND_DECIMAL:
        if (field->precision < 1 || field->precision > 76)
            return false;
        length = snprintf(out, n, field->precision > 38 ? "d:%d,%d,256" : "d:%d,%d", (int)field->precision, (int)field->scale);
        break;
    case FBY_KIND_DATE: length = snprintf(out, n, "tdD"); break;
    case FBY_KIND_TIME:
        if (!unit)
            return false;
        length = snprintf(out, n, "tt%c", unit);
        break;
    case FBY_KIND_TIMESTAMP:
        if (!unit)
            return false;
        length = snprintf(out, n, "ts%c:%s", unit, field->utc ? "UTC" : "");
        break;
    case FBY_KIND_DURATION:
        if (!unit)
            return false;
        length = snprintf(out, n, "tD%c", unit);
        break;
    case FBY_KIND_INTERVAL: length = snprintf(out, n, "w:12"); break;
    case FBY_KIND_STRING: length = snprintf(out, n, "U"); break;
    case FBY_KIND_BINARY: length = snprintf(out, n, "Z"); break;
    case FBY_KIND_FIXED_BINARY: length = snprintf(out, n, "w:%d", (int)field->byte_width); break;
    case FBY_KIND_LIST: length = snprintf(out, n, "+L"); break;
    case FBY_KIND_FIXED_LIST: length = snprintf(out, n, "+w:%d", (int)field->list_size); break;
    case FBY_KIND_STRUCT: length = snprintf(out, n, "+s"); break;
    case FBY_KIND_MAP: length = snprintf(out, n, fby__arrow_map_is_map(field) ? "+m" : "+L"); break;
    case FBY_KIND_COUNT: return false;
    }
    return length > 0 && (size_t)length < n;
}

static void schema_release(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        struct ArrowSchema *child = schema->children[i];
        if (child && child->release)
            child->release(child);
        fby__free(child);
    }
    fby__free(schema->children);
    fby__free(schema->private_data);
    *schema = (struct ArrowSchema){0};
}

static fby_status export_node(const fby_field *field, const char *name, bool nullable, struct ArrowSchema *out, fby_error *err)
{
    char format[64];
    if (!format_text(field, format, sizeof format)) {
        char type[128];
        (void)fby_field_type_text(field, type, sizeof type);
        return fby__fail(err, FBY_E_UNSUPPORTED, "column '%s': the type %s has no counterpart in Arrow", field->path, type);
    }

    size_t format_n = strlen(format) + 1, name_n = strlen(name) + 1;
    char *text = fby__malloc(format_n + name_n);
    if (!text)
        return fby__fail_nomem(err, "an Arrow schema");
    memcpy(text, format, format_n);
    memcpy(text + format_n, name, name_n);
    struct ArrowSchema node = {.format = text,
                               .name = text + format_n,
                               .flags = nullable ? ARROW_FLAG_NULLABLE : 0,
                               .release = schema_release,
                               .private_data = text};
    fby_status status = FBY_OK;
    if (field->n_children) {
        node.children = fby__calloc(field->n_children, sizeof *node.children);
        if (!node.children) {
            status = fby__fail_nomem(err, "an Arrow schema");
            goto fail;
        }
        node.n_children = field->n_children;
    }
    for (uint32_t i = 0; i < field->n_children; i++) {
        const fby_field *child = &field->children[i];
        struct ArrowSchema *slot = node.children[i] = fby__calloc(1, sizeof *slot);
        if (!slot) {
            status = fby__fail_nomem(err, "an Arrow schema");
            goto fail;
        }
        if (fby__arrow_map_is_map(field)) {
            /* Arrow allows neither a null entry nor a null key, whatever the file's schema says; readers check the
             * values. */
            status = export_node(child, child->name, false, slot, err);
            if (status == FBY_OK)
                slot->children[0]->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
        } else {
            status = export_node(child, child->name, child->nullable, slot, err);
        }
        if (status != FBY_OK)
            goto fail;
    }
    *out = node;
    return FBY_OK;

fail:
    schema_release(&node);
    return status;
}

fby_status fby__arrow_schema_export(const fby_field *field, const char *name, struct ArrowSchema *out, fby_error *err)
{
    return export_node(field, name ? name : field->name, field->nullable, out, err);
}

fby_status fby__arrow_schema_copy(const struct ArrowSchema *from, struct ArrowSchema *out, fby_error *err)
{
    const char *name = from->name ? from->name : "";
    const size_t format_n = strlen(from->format) + 1, name_n = strlen(name) + 1;
    struct ArrowSchema node = {.flags = from->flags, .release = schema_release};
    char *text = node.private_data = fby__malloc(format_n + name_n);
    if (!text)
        return fby__fail_nomem(err, "an Arrow schema");
    memcpy(text, from->format, format_n);
    memcpy(text + format_n, name, name_n);
    node.format = text;
    node.name = text + format_n;
    fby_status status = FBY_OK;
    if (from->n_children && !(node.children = fby__calloc((size_t)from->n_children, sizeof *node.children)))
        status = fby__fail_nomem(err, "an Arrow schema");
    node.n_children = node.children ? from->n_children : 0;
    for (int64_t i = 0; status == FBY_OK && i < node.n_children; i++) {
        node.children[i] = fby__calloc(1, sizeof *node.children[i]);
        status =
            node.children[i] ? fby__arrow_schema_copy(from->children[i], node.children[i], err) : fby__fail_nomem(err, "an Arrow schema");
    }
    if (status == FBY_OK)
        *out = node;
    else
        schema_release(&node);
    return status;
}

/* ---- arrays ---- */

static void array_release(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_buffers; i++)
        fby__free((void *)(uintptr_t)array->buffers[i]); /* ours: set_buffer took it without const */
    for (int64_t i = 0; i < array->n_children; i++) {
        struct ArrowArray *child = array->children[i];
        if (child && child->release)
            child->release(child);
        fby__free(child);
    }
    fby__free(array->buffers);
    fby__free(array->children);
    *array = (struct ArrowArray){0};
}

fby_status fby__arrow_array_create(int64_t n_buffers, int64_t n_children, struct ArrowArray *out, fby_error *err)
{
    struct ArrowArray array = {.release = array_release};
    if (n_buffers) {
        array.buffers = fby__calloc((size_t)n_buffers, sizeof *array.buffers);
        if (!array.buffers)
            goto fail;
        array.n_buffers = n_buffers;
    }
    if (n_children) {
        array.children = fby__calloc((size_t)n_children, sizeof *array.children);
        if (!array.children)
            goto fail;
        array.n_children = n_children;
    }
    for (int64_t i = 0; i < n_children; i++) {
        array.children[i] = fby__calloc(1, sizeof *array.children[i]);
        if (!array.children[i])
            goto fail;
    }
    *out = array;
    return FBY_OK;

fail:
    array_release(&array);
    return fby__fail_nomem(err, "an Arrow array");
}

void fby__arrow_array_set_buffer(struct ArrowArray *array, int64_t i, void *buffer)
{
    fby__free((void *)(uintptr_t)array->buffers[i]);
    array->buffers[i] = buffer;
}

void fby__arrow_type_text(const struct ArrowSchema *column, char *out, size_t n)
{
    struct ArrowSchema *child = (struct ArrowSchema *)(uintptr_t)column; /* which is only read */
    const struct ArrowSchema row = {.format = "+s", .n_children = 1, .children = &child};
    fby__schema *schema;
    if (fby__arrow_schema_import(&row, &schema, NULL) != FBY_OK) {
        (void)snprintf(out, n, "of Arrow type '%s'", column->format);
        return;
    }
    (void)fby_field_type_text(&schema->fields[0].children[0], out, n); /* one that is cut is still one */
    fby__schema_unref(schema);
}
