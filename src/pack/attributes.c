/*
 * What the source says of itself and of its columns, and a pack says as well: key-value metadata of Parquet and Arrow files, attributes of HDF5
 * and NetCDF-4. Of the source's first file: the others are taken to say the same.
 *
 * Left out is what does not hold of the pack: how values were encoded (they are written decoded), which data sets belong together, which program
 * wrote the file, what a pack says of its own source, lists of columns where some were chosen, and what is of the first of several files alone. Of
 * samples, whose outputs are made anew, nothing holds.
 */
#include "block/convert.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <string.h>

#define MOST_NUMBERS 1024u

static const char *const ENCODING[] = {"_FillValue",
                                       "missing_value",
                                       "scale_factor",
                                       "add_offset",
                                       "_Unsigned",
                                       "valid_min",
                                       "valid_max",
                                       "valid_range",
                                       "CLASS",
                                       "NAME",
                                       "_NCProperties",
                                       "ARROW:schema",
                                       "PYTABLES_FORMAT_VERSION",
                                       "HICKLE_VERSION"};
static const char *const OF_ALL_COLUMNS[] = {
    "pandas", "geo", "huggingface", "org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema", "avro.schema"};
static const char *const OF_A_FILE[] = {"geo"}; /* with the box around its rows */

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a pack's attributes"); }

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool begins_with(const char *text, const char *begin) { return strncmp(text, begin, strlen(begin)) == 0; }

static bool holds(const fby__pack *p, const fby_attribute *a)
{
    const bool is_text = a->strings && a->n == 1 && a->utf8;
    const bool is_number = a->data && a->dtype != FBY_DTYPE_NONE && a->dtype != FBY_BOOL && a->dtype != FBY_FLOAT16 &&
                           a->dtype != FBY_BFLOAT16 && a->ndim <= 1 && a->n && a->n <= MOST_NUMBERS;
    return *a->name && (is_text || is_number) && !begins_with(a->name, "forebay.") && !begins_with(a->name, "_Netcdf4") &&
           !is_one_of(a->name, ENCODING, sizeof ENCODING / sizeof *ENCODING) &&
           !(p->o->n_columns && is_one_of(a->name, OF_ALL_COLUMNS, sizeof OF_ALL_COLUMNS / sizeof *OF_ALL_COLUMNS)) &&
           !(fby__dataset_file_count(p->ds) > 1 && is_one_of(a->name, OF_A_FILE, sizeof OF_A_FILE / sizeof *OF_A_FILE));
}

static int put_number(fby__buf *b, const fby_attribute *a, uint64_t i)
{
    char text[40];
    return fby__buf_put(b, text, fby__value_text(a->dtype, (const uint8_t *)a->data + i * fby_dtype_bytes(a->dtype), text, sizeof text));
}

/* NULL: no memory. */
static const char *text_of(fby__arena *texts, const fby_attribute *a)
{
    fby__buf b = {0};
    int failed = a->ndim ? fby__buf_put(&b, "[", 1) : 0;
    for (uint64_t i = 0; i < a->n; i++)
        failed |= (i ? fby__buf_put(&b, ", ", 2) : 0) | put_number(&b, a, i);
    failed |= a->ndim ? fby__buf_put(&b, "]", 1) : 0;
    char *text = failed ? NULL : fby__arena_alloc(texts, b.n + 1);
    if (text) {
        memcpy(text, b.data, b.n);
        text[b.n] = 0;
    }
    fby__buf_fini(&b);
    return text;
}

static fby_status add(fby__pack *p, int64_t column, const fby_object *o, fby_error *err)
{
    fby__pack_attributes *all = &p->attributes;
    for (uint32_t i = 0; i < o->n_attributes; i++) {
        const fby_attribute *a = &o->attributes[i];
        if (!holds(p, a))
            continue;
        fby__write_attribute one = {.column = column, .name = a->name, .text = a->strings ? a->strings[0] : text_of(&all->texts, a)};
        one.dtype = a->strings ? FBY_DTYPE_NONE : a->dtype;
        one.data = a->data;
        one.n = a->n;
        one.is_scalar = a->ndim == 0;
        if (!one.text || fby__grow((void **)&all->list, &all->cap, all->n + 1, sizeof one) != 0)
            return no_memory(err);
        all->list[all->n++] = one;
    }
    return FBY_OK;
}

static const fby_object *object_of(const fby_contents *c, const char *column)
{
    for (size_t i = 1; i < fby_contents_count(c); i++) {
        const fby_object *o = fby_contents_object(c, i);
        if (o->column && strcmp(o->column, column) == 0)
            return o;
    }
    return NULL;
}

fby_status fby__pack_attributes_find(fby__pack *p, fby_error *err)
{
    fby_contents *c = NULL;
    if (p->pipeline || fby__dataset_file_count(p->ds) == 0 || fby__pack_in_memory(p))
        return FBY_OK;
    const fby_status status = fby_contents_open(p->ds, 0, &c, err);
    if (status == FBY_E_UNSUPPORTED || status == FBY_E_FORMAT) { /* CSV says nothing; of what is damaged, packing names what it needs */
        fby__error_clear(err);
        return FBY_OK;
    }
    FBY__TRY(status);
    p->attributes.contents = c;
    FBY__TRY(add(p, -1, fby_contents_object(c, 0), err));
    for (int64_t i = 0; i < p->schema.n_children; i++) {
        const fby_object *o = object_of(c, p->schema.children[i]->name);
        if (o)
            FBY__TRY(add(p, i, o, err));
    }
    return FBY_OK;
}

void fby__pack_attributes_fini(fby__pack_attributes *a)
{
    fby_contents_close(a->contents);
    fby__arena_fini(&a->texts);
    fby__free(a->list);
    *a = (fby__pack_attributes){0};
}
