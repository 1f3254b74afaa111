/*
 * HDF5 files, written by libhdf5 in a helper program of its own (format/hdf5/client/output.h): a data set a column, whose first axis is the rows,
 * in chunks of a batch each; the metadata are attributes of the file.
 *
 *     bool                      an enum of FALSE and TRUE, as h5py has it
 *     integers, floats          themselves, little-endian
 *     text                      strings of variable length, UTF-8
 *     bytes of a fixed size     opaque values
 *     fixed-size lists of all   more axes
 *     but text
 *
 * The rest is refused by name, and so are values that HDF5 has no place for: nulls, and text with a NUL in it. A null among floats is NaN, as
 * whoever reads HDF5 expects it.
 */
#include "base/checked.h"
#include "base/dtype.h"
#include "block/arrow.h"
#include "block/arrow_flat.h"
#include "block/arrow_format.h"
#include "format/hdf5/client/output.h"
#include "write/write_impl.h"

#include <assert.h>
#include <string.h>

#define GZIP_LEVEL 4u /* as h5py has it */

typedef struct column {
    fby__arrow_format leaf; /* of the values, below the lists */
    uint64_t elements;      /* a row */
    fby__h5p_write set;     /* what the program is asked to make */
} column;

typedef struct hdf5_writer {
    fby__writer base;
    struct ArrowSchema schema;              /* a copy, owned */
    column *columns;                        /* owned: one a child of the schema */
    fby__h5_output *program;                /* owned */
    const fby__write_attribute *attributes; /* borrowed: of the options */
    size_t n_attributes;
    uint64_t rows;   /* so far */
    fby__buf values; /* what has to be laid out anew */
} hdf5_writer;

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "an HDF5 writer"); }

/* ---- columns ---- */

static fby_status refuse(const char *name, const char *why, fby_error *err)
{
    return fby__fail(err, FBY_E_UNSUPPORTED, "column '%s': %s", name, why);
}

/* Paths lead through groups: "a/b" is a data set of the group "a". */
static bool is_path(const char *name)
{
    for (const char *at = name;; at++) {
        const size_t n = strcspn(at, "/");
        if (n == 0 || (n == 1 && *at == '.'))
            return false;
        at += n;
        if (!*at)
            return true;
    }
}

static bool find_value(const fby__arrow_format *f, fby__h5p_write *set)
{
    set->value_bytes = f->width;
    switch (f->field.kind) {
    case FBY_KIND_BOOL:
        set->value = FBY__H5P_OF_BOOL;
        set->value_bytes = 1;
        return f->storage == FBY__ARROW_BITS;
    case FBY_KIND_INT: set->value = fby__dtype_is_signed(f->stored) ? FBY__H5P_OF_INT : FBY__H5P_OF_UINT; break;
    case FBY_KIND_FLOAT: set->value = FBY__H5P_OF_FLOAT; break;
    case FBY_KIND_FIXED_BINARY: set->value = FBY__H5P_OF_BYTES; break;
    case FBY_KIND_STRING:
        set->value = FBY__H5P_OF_TEXT;
        set->value_bytes = 0;
        return f->storage == FBY__ARROW_VAR32 || f->storage == FBY__ARROW_VAR64;
    default: return false;
    }
    return f->storage == FBY__ARROW_FIXED && f->width > 0;
}

static fby_status describe(const struct ArrowSchema *schema, const char *name, column *out, fby_error *err)
{
    const struct ArrowSchema *whole = schema;
    *out = (column){.elements = 1, .set = {.op = FBY__H5P_COLUMN, .rank = 1}};
    fby__h5p_write *set = &out->set;
    if (!is_path(name))
        return refuse(name, "HDF5 files have no data set of that name", err);
    if (schema->dictionary)
        return refuse(name, "dictionary-encoded columns are not written; decode the column", err);
    FBY__TRY(fby__arrow_format_parse(schema->format, &out->leaf, err));
    for (; out->leaf.storage == FBY__ARROW_FIXED_LIST; schema = schema->children[0]) {
        if (set->rank == FBY__H5P_MAX_RANK || out->leaf.field.list_size <= 0)
            return refuse(name, "HDF5 data sets have at most 32 axes, and none of no elements", err);
        set->dims[set->rank++] = (uint64_t)out->leaf.field.list_size;
        if (!fby__mul_u64_checked(out->elements, (uint64_t)out->leaf.field.list_size, &out->elements) || out->elements > INT32_MAX)
            return refuse(name, "its rows are too large", err);
        FBY__TRY(fby__arrow_format_parse(schema->children[0]->format, &out->leaf, err));
    }
    if (!find_value(&out->leaf, set) || (set->value == FBY__H5P_OF_TEXT && set->rank > 1)) {
        char type[128];
        fby__arrow_type_text(whole, type, sizeof type);
        return fby__fail(
            err, FBY_E_UNSUPPORTED,
            "column '%s' is %s: HDF5 files are written with numbers, text, bytes of a fixed size, and arrays of numbers or such bytes",
            name, type);
    }
    return FBY_OK;
}

/* "a/b" is below "a". */
static bool is_below(const char *path, const char *group)
{
    const size_t n = group ? strlen(group) : 0;
    return path && n > 0 && strncmp(path, group, n) == 0 && path[n] == '/';
}

static fby_status check(const struct ArrowSchema *schema, const fby__write_options *options, fby_error *err)
{
    if (options->codec && strcmp(options->codec, "none") != 0 && strcmp(options->codec, "gzip") != 0)
        return fby__fail(err, FBY_E_ARG, "HDF5 files are not written with codec '%.40s'; none and gzip are", options->codec);
    for (int64_t i = 0; i < schema->n_children; i++) {
        column unused;
        const char *name = schema->children[i]->name;
        FBY__TRY(describe(schema->children[i], name, &unused, err));
        for (int64_t k = 0; k < schema->n_children; k++)
            if (is_below(schema->children[k]->name, name))
                return refuse(name, "an HDF5 path is a data set or a group, and another column's name goes on from it", err);
    }
    return fby__h5_output_find(options->environment, err);
}

/* ---- values ---- */

/* A column's values of the batch: where they begin, below its lists. */
typedef struct span {
    const struct ArrowArray *array;
    uint64_t first, n;
} span;

static const uint8_t *validity_of(const struct ArrowArray *array) { return array->null_count != 0 ? array->buffers[0] : NULL; }

static fby_status check_no_nulls(const hdf5_writer *w, const span *s, uint64_t a_row, const struct ArrowSchema *schema, fby_error *err)
{
    const uint8_t *validity = validity_of(s->array);
    char type[128];
    for (uint64_t i = 0; validity && i < s->n; i++)
        if (!fby__bit(validity, s->first + i)) {
            fby__arrow_type_text(schema, type, sizeof type);
            return fby__fail(
                err, FBY_E_DATA,
                "column '%s' (%s), row %llu of the file that is written: HDF5 has no nulls but among floats, where they are NaN, "
                "and this is one. Leave the column out, or name it as an output, with fill_missing",
                schema->name, type, (unsigned long long)(w->rows + i / a_row));
        }
    return FBY_OK;
}

/* Floats, of which some are null. */
static fby_status put_floats(hdf5_writer *w, const column *c, const span *s, fby_error *err)
{
    const uint8_t *validity = validity_of(s->array);
    const size_t width = c->leaf.width;
    const uint64_t nan = fby__arrow_null_as_nan(c->leaf.width);
    if (fby__buf_put(&w->values, (const uint8_t *)s->array->buffers[1] + s->first * width, (size_t)s->n * width) != 0)
        return no_memory(err);
    for (uint64_t i = 0; i < s->n; i++)
        if (!fby__bit(validity, s->first + i))
            memcpy(w->values.data + i * width, &nan, width);
    return FBY_OK;
}

static fby_status put_texts(hdf5_writer *w, const column *c, const span *s, const char *name, fby_error *err)
{
    for (uint64_t i = s->first; i < s->first + s->n; i++) {
        const fby__bytes text = fby__text_at(s->array, c->leaf.storage == FBY__ARROW_VAR64, i);
        if (text.n && memchr(text.data, 0, text.n))
            return fby__fail(
                err, FBY_E_DATA,
                "column '%s', row %llu of the file that is written: a text in HDF5 ends at the first NUL, and this has one in it", name,
                (unsigned long long)(w->rows + i - s->first));
        if ((text.n && fby__buf_put(&w->values, text.data, text.n) != 0) || fby__buf_put(&w->values, "", 1) != 0)
            return no_memory(err);
    }
    return FBY_OK;
}

static fby_status put_bools(hdf5_writer *w, const span *s, fby_error *err)
{
    for (uint64_t i = s->first; i < s->first + s->n; i++) {
        const uint8_t value = fby__bit(s->array->buffers[1], i);
        if (fby__buf_put(&w->values, &value, 1) != 0)
            return no_memory(err);
    }
    return FBY_OK;
}

static fby_status write_column(hdf5_writer *w, uint32_t i, const struct ArrowArray *batch, fby_error *err)
{
    const column *c = &w->columns[i];
    const char *name = w->schema.children[i]->name;
    const uint64_t rows = (uint64_t)batch->length;
    span s = {batch->children[i], (uint64_t)(batch->offset + batch->children[i]->offset), rows};
    for (uint32_t axis = 1;; axis++) {
        if (axis < c->set.rank || c->set.value != FBY__H5P_OF_FLOAT)
            FBY__TRY(check_no_nulls(w, &s, s.n / rows, w->schema.children[i], err));
        if (axis == c->set.rank)
            break;
        const struct ArrowArray *child = s.array->children[0];
        s = (span){child, s.first * c->set.dims[axis] + (uint64_t)child->offset, s.n * c->set.dims[axis]};
    }
    w->values.n = 0;
    if (c->set.value == FBY__H5P_OF_TEXT)
        FBY__TRY(put_texts(w, c, &s, name, err));
    else if (c->set.value == FBY__H5P_OF_BOOL)
        FBY__TRY(put_bools(w, &s, err));
    else if (c->set.value == FBY__H5P_OF_FLOAT && validity_of(s.array))
        FBY__TRY(put_floats(w, c, &s, err));
    fby__bytes values = {w->values.data, w->values.n};
    if (w->values.n == 0)
        values = (fby__bytes){(const uint8_t *)s.array->buffers[1] + s.first * c->leaf.width, (size_t)(s.n * c->leaf.width)};
    fby__h5p_write q = {.op = FBY__H5P_ROWS, .column = i, .first = w->rows, .rows = rows};
    const fby_status status = fby__h5_output_ask(w->program, &q, values.data, values.n, err);
    if (status != FBY_OK)
        fby__error_context(err, "column '%s'", name);
    return status;
}

static fby_status hdf5_batch(fby__writer *base, const struct ArrowArray *batch, fby_error *err)
{
    hdf5_writer *w = (hdf5_writer *)base;
    for (uint32_t i = 0; batch->length > 0 && i < w->schema.n_children; i++)
        FBY__TRY(write_column(w, i, batch, err));
    w->rows += (uint64_t)batch->length;
    return FBY_OK;
}

/* ---- begin and end ---- */

static fby_status put_attribute(hdf5_writer *w, fby__h5p_write *q, const char *name, const void *value, size_t n, fby_error *err)
{
    q->op = FBY__H5P_ATTRIBUTE;
    w->values.n = 0;
    if (fby__buf_put(&w->values, name, strlen(name) + 1) != 0 || fby__buf_put(&w->values, value, n) != 0)
        return no_memory(err);
    return fby__h5_output_ask(w->program, q, w->values.data, w->values.n, err);
}

static fby_status put_text(hdf5_writer *w, uint32_t of, const char *name, const char *text, fby_error *err)
{
    fby__h5p_write q = {.column = of, .value = FBY__H5P_OF_TEXT};
    return put_attribute(w, &q, name, text, strlen(text) + 1, err);
}

static fby_status put_source_attribute(hdf5_writer *w, uint32_t of, const fby__write_attribute *a, fby_error *err)
{
    if (a->dtype == FBY_DTYPE_NONE)
        return put_text(w, of, a->name, a->text, err);
    fby__h5p_write q = {.column = of, .rank = !a->is_scalar, .dims = {a->n}, .value_bytes = (uint32_t)fby_dtype_bytes(a->dtype)};
    q.value = fby__dtype_is_float(a->dtype) ? FBY__H5P_OF_FLOAT : fby__dtype_is_signed(a->dtype) ? FBY__H5P_OF_INT : FBY__H5P_OF_UINT;
    return put_attribute(w, &q, a->name, a->data, (size_t)a->n * q.value_bytes, err);
}

static fby_status hdf5_end(fby__writer *base, const fby__key_value *metadata, size_t n, fby_error *err)
{
    hdf5_writer *w = (hdf5_writer *)base;
    for (size_t i = 0; i < n; i++)
        FBY__TRY(put_text(w, FBY__H5P_OF_FILE, metadata[i].key, metadata[i].value, err));
    uint32_t at = 0;
    int64_t field = 0; /* the column's */
    for (size_t i = 0; i < w->n_attributes; i++) {
        const fby__write_attribute *a = &w->attributes[i];
        while (field < a->field)
            field += fby__write_field_count(w->schema.children[at++]);
        FBY__TRY(put_source_attribute(w, a->field < 0 ? FBY__H5P_OF_FILE : at, a, err));
    }
    fby__h5p_write q = {.op = FBY__H5P_END};
    return fby__h5_output_ask(w->program, &q, NULL, 0, err);
}

static void hdf5_free(fby__writer *base)
{
    hdf5_writer *w = (hdf5_writer *)base;
    if (w->schema.release)
        w->schema.release(&w->schema);
    fby__h5_output_close(w->program);
    fby__buf_fini(&w->values);
    fby__free(w->columns);
    fby__free(w);
}

/* Chunks of a batch; text has its bytes elsewhere, so its chunks are not compressed: they hold offsets and lengths. */
static fby_status make_columns(hdf5_writer *w, const fby__write_options *o, fby_error *err)
{
    const bool gzip = o->codec && strcmp(o->codec, "gzip") == 0;
    w->columns = fby__calloc((size_t)w->schema.n_children + 1, sizeof *w->columns);
    if (!w->columns)
        return no_memory(err);
    for (int64_t i = 0; i < w->schema.n_children; i++) {
        column *c = &w->columns[i];
        const char *name = w->schema.children[i]->name;
        FBY__TRY(describe(w->schema.children[i], name, c, err));
        fby__h5p_write q = c->set;
        q.dims[0] = o->rows;
        q.chunk_rows = fby__min_u64(o->batch_rows, o->rows);
        q.level = gzip && q.chunk_rows && q.value != FBY__H5P_OF_TEXT ? o->level ? (uint32_t)o->level : GZIP_LEVEL : 0;
        const fby_status status = fby__h5_output_ask(w->program, &q, name, strlen(name) + 1, err);
        if (status != FBY_OK) {
            fby__error_context(err, "column '%s'", name);
            return status;
        }
    }
    return FBY_OK;
}

static fby_status hdf5_begin(const struct ArrowSchema *schema, const fby__write_options *options, fby__byte_sink sink, fby__writer **out,
                             fby_error *err)
{
    assert(options->file);
    FBY__TRY(check(schema, options, err));
    hdf5_writer *w = fby__calloc(1, sizeof *w);
    if (!w)
        return no_memory(err);
    w->base = (fby__writer){.ops = &fby__writer_hdf5, .sink = sink};
    w->attributes = options->attributes;
    w->n_attributes = options->n_attributes;
    fby_status status = fby__arrow_schema_copy(schema, &w->schema, err);
    if (status == FBY_OK)
        status = fby__h5_output_open(options->environment, *options->file, &w->program, err);
    if (status == FBY_OK)
        status = make_columns(w, options, err);
    if (status == FBY_OK)
        *out = &w->base;
    else
        hdf5_free(&w->base);
    return status;
}

const fby__writer_ops fby__writer_hdf5 = {
    .name = "hdf5", .check = check, .begin = hdf5_begin, .batch = hdf5_batch, .end = hdf5_end, .free = hdf5_free};
