/*
 * What the source says of itself and of its columns, and a pack says as well: key-value metadata of Parquet and Arrow files and of their fields,
 * attributes of HDF5 and NetCDF-4. It is what all files of the source say alike: differences.c compares them.
 *
 * Left out is what does not hold of the pack: how values were encoded, where they are written decoded, and types of Arrow extensions, which are
 * written as what they are stored as; which data sets belong together, which program wrote the file, what a pack says of its own source, lists of
 * columns where the pack has others, and what is of the first of several files alone. For samples, whose outputs are made anew, nothing holds.
 *
 * The files of the source are read by whoever makes the plan, which keeps what was found; other tasks have it from there.
 */
#include "block/convert.h"
#include "block/schema.h"
#include "dataset/dataset.h"
#include "format/contents.h"
#include "pack/pack_impl.h"

#include <stdio.h>
#include <string.h>

#define MOST_NUMBERS 1024u

static const char *const ENCODING[] = {"_FillValue", "missing_value", "scale_factor", "add_offset",
                                       "_Unsigned",  "valid_min",     "valid_max",    "valid_range"};
static const char *const OF_THE_FORMAT[] = {"CLASS",
                                            "NAME",
                                            "DIMENSION_LIST",
                                            "DIMENSION_LABELS",
                                            "REFERENCE_LIST",
                                            "_NCProperties",
                                            "ARROW:schema",
                                            "PARQUET:field_id",
                                            "ARROW:extension:name",
                                            "ARROW:extension:metadata",
                                            "PYTABLES_FORMAT_VERSION",
                                            "HICKLE_VERSION"};
static const char *const OF_ALL_COLUMNS[] = {
    "pandas",      "geo", "huggingface",   "org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema",
    "avro.schema", "r",   "iceberg.schema"};
static const char *const OF_A_FILE[] = {"geo"}; /* with the box around its rows */

#define IS_ONE_OF(name, names) is_one_of((name), (names), sizeof(names) / sizeof *(names))

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a pack's attributes"); }

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool begins_with(const char *text, const char *begin) { return strncmp(text, begin, strlen(begin)) == 0; }

/* ---- of one file ---- */

static bool is_number(fby_dtype dtype)
{
    return dtype != FBY_DTYPE_NONE && dtype != FBY_BOOL && dtype != FBY_FLOAT16 && dtype != FBY_BFLOAT16 && fby_dtype_bytes(dtype);
}

/* Does the reader undo what attributes say of how numbers are packed? Not inside of compounds and of lists of anything but numbers. c: NULL = the file. */
static bool is_unpacked(const fby__pack *p, uint32_t file, const struct ArrowSchema *c)
{
    while (c && begins_with(c->format, "+w"))
        c = c->children[0];
    if (c && begins_with(c->format, "+L"))
        c = c->children[0];
    return fby__dataset_unpacks(p->ds, file) && (!c || c->format[0] != '+');
}

bool fby__pack_is_encoding(const char *name) { return IS_ONE_OF(name, ENCODING); }

/* A file as the pack sees it. */
typedef struct said_by {
    const fby__pack *p;
    uint32_t file;
    bool same_columns; /* it has the pack's columns and no others, in their order: not those of its path */
} said_by;

static bool lists_columns(const fby_attribute *a) { return a->strings && IS_ONE_OF(a->name, OF_ALL_COLUMNS); }

/* Looked at where it matters. */
static fby_status compare_columns(said_by *s, const fby_object *root, fby_error *err)
{
    bool matters = false;
    for (uint32_t i = 0; i < root->n_attributes; i++)
        matters |= lists_columns(&root->attributes[i]);
    if (!matters)
        return FBY_OK;
    fby__table *table;
    FBY__TRY(fby__dataset_table(s->p->ds, s->file, &table, err));
    const struct ArrowSchema *schema = &s->p->schema;
    const fby_field *row = &table->schema->fields[0];
    s->same_columns = row->n_children == schema->n_children;
    for (uint32_t i = 0; s->same_columns && i < row->n_children; i++)
        s->same_columns = strcmp(row->children[i].name, schema->children[i]->name) == 0;
    fby__table_unref(table);
    return FBY_OK;
}

/* An attribute of the file, not of a column. */
static bool is_out_of_date(const said_by *s, const fby_attribute *a)
{
    return (!s->same_columns && lists_columns(a)) || (fby__dataset_file_count(s->p->ds) > 1 && IS_ONE_OF(a->name, OF_A_FILE));
}

/* In metadata of Arrow and Parquet _Unsigned is a text as any other; among attributes it would change the numbers. */
static bool would_unpack(const fby__pack *p, const fby_object *o, const fby_attribute *a)
{
    return p->format == FBY__WRITE_HDF5 && o->kind == FBY_OBJECT_COLUMN && strcmp(a->name, "_Unsigned") == 0;
}

static bool holds(const said_by *s, const fby_object *o, int64_t field, bool unpacked, const fby_attribute *a)
{
    return !begins_with(a->name, "forebay.") && !begins_with(a->name, "_Netcdf4") && !IS_ONE_OF(a->name, OF_THE_FORMAT) &&
           !(unpacked && IS_ONE_OF(a->name, ENCODING)) && !(field < 0 && is_out_of_date(s, a)) && !would_unpack(s->p, o, a);
}

static int put_number(fby__buf *b, fby_dtype dtype, const void *value)
{
    char text[40];
    return fby__buf_put(b, text, fby__value_text(dtype, value, text, sizeof text));
}

/* NULL: no memory. */
static const char *text_of(fby__arena *memory, const fby_attribute *a)
{
    fby__buf b = {0};
    int failed = a->ndim ? fby__buf_put(&b, "[", 1) : 0;
    for (uint64_t i = 0; i < a->n; i++)
        failed |= (i ? fby__buf_put(&b, ", ", 2) : 0) | put_number(&b, a->dtype, (const uint8_t *)a->data + i * fby_dtype_bytes(a->dtype));
    failed |= a->ndim ? fby__buf_put(&b, "]", 1) : 0;
    const char *text = failed ? NULL : fby__arena_copy(memory, b.data, b.n);
    fby__buf_fini(&b);
    return text;
}

fby_status fby__pack_attributes_add(fby__pack_attributes *all, fby__write_attribute one, size_t bytes, fby_error *err)
{
    one.name = fby__arena_copy(&all->memory, one.name, strlen(one.name));
    one.text = one.text ? fby__arena_copy(&all->memory, one.text, strlen(one.text)) : NULL;
    one.data = bytes ? fby__arena_copy(&all->memory, one.data, bytes) : NULL;
    if (!one.name || !one.text || (bytes && !one.data) || fby__grow((void **)&all->list, &all->cap, all->n + 1, sizeof one) != 0)
        return no_memory(err);
    all->list[all->n++] = one;
    return FBY_OK;
}

/* What cannot be written is there to be compared, with a text's bytes, and to be counted. */
static fby_status add_attribute(const fby_attribute *a, int64_t field, bool storable, fby__pack_attributes *out, fby_error *err)
{
    const bool named = storable && *a->name && fby__schema_text_valid(a->name, strlen(a->name)), is_text = a->strings && a->n == 1;
    fby__write_attribute one = {.field = field, .name = a->name, .text = is_text ? a->strings[0] : "", .is_scalar = a->ndim == 0};
    size_t bytes = 0;
    if (named && is_text && a->utf8) {
        one.n = 1;
    } else if (named && a->data && is_number(a->dtype) && a->ndim <= 1 && a->n && a->n <= MOST_NUMBERS) {
        one.text = text_of(&out->memory, a);
        one.dtype = a->dtype;
        one.data = a->data;
        one.n = a->n;
        bytes = (size_t)a->n * fby_dtype_bytes(a->dtype);
    }
    return fby__pack_attributes_add(out, one, bytes, err);
}

/* inside: of a field in a column, which HDF5 cannot hold. schema: NULL = of the file. */
static fby_status add_object(const said_by *s, const fby_object *o, const struct ArrowSchema *schema, int64_t field, bool inside,
                             fby__pack_attributes *out, fby_error *err)
{
    const bool unpacked = is_unpacked(s->p, s->file, schema), storable = !inside || s->p->format != FBY__WRITE_HDF5;
    for (uint32_t i = 0; i < o->n_attributes; i++)
        if (holds(s, o, field, unpacked, &o->attributes[i]))
            FBY__TRY(add_attribute(&o->attributes[i], field, storable, out, err));
    return FBY_OK;
}

/* What the file says about one column and the fields inside of it. */
typedef struct column_said {
    const said_by *s;
    const fby_contents *c;
    size_t begin, end; /* its objects */
    fby__buf path;     /* owned: of the field at hand, as contents have it */
    size_t column_n;   /* of it, the column's name */
} column_said;

/* They follow each other. *at: near where they are, as columns come in much the same order; then behind them. */
static void find_column(column_said *w, const char *name, size_t *at)
{
    const size_t n = fby_contents_count(w->c);
    w->begin = w->end = 0;
    for (size_t i = 0; i < n && w->end == 0; i++) {
        const size_t k = (*at + i) % n;
        const fby_object *o = fby_contents_object(w->c, k);
        if (o->column && strcmp(o->column, name) == 0) {
            w->begin = k;
            w->end = *at = k + 1;
        }
    }
    for (const fby_object *o; w->end && (o = fby_contents_object(w->c, w->end)) && o->column && strcmp(o->column, name) == 0;)
        *at = ++w->end;
}

static const fby_object *find_object(const column_said *w)
{
    for (size_t i = w->begin; i < w->end; i++) {
        const fby_object *o = fby_contents_object(w->c, i);
        if (o->kind != FBY_OBJECT_COLUMN)
            return w->path.n == w->column_n ? o : NULL; /* whatever its path, it is the column */
        if (strlen(o->path + 1) == w->path.n && memcmp(o->path + 1, w->path.data, w->path.n) == 0)
            return o;
    }
    return NULL;
}

static int put_step(fby__buf *path, fby__contents_level level, const struct ArrowSchema *schema, int64_t i)
{
    const char *name = schema->children[i]->name ? schema->children[i]->name : "";
    return fby__contents_step(path, level, (uint32_t)i, (fby__bytes){(const uint8_t *)name, strlen(name)});
}

static fby_status add_field(column_said *w, const struct ArrowSchema *schema, fby__contents_level in, int64_t *io_field,
                            fby__pack_attributes *out, fby_error *err)
{
    const fby_object *o = find_object(w);
    const size_t path_n = w->path.n;
    if (o)
        FBY__TRY(add_object(w->s, o, schema, *io_field, path_n != w->column_n, out, err));
    ++*io_field;
    const fby__contents_level level = fby__contents_level_of(schema->format, in);
    for (int64_t i = 0; i < schema->n_children; i++) {
        w->path.n = path_n;
        if (put_step(&w->path, level, schema, i) != 0)
            return no_memory(err);
        FBY__TRY(add_field(w, schema->children[i], level, io_field, out, err));
    }
    w->path.n = path_n;
    return FBY_OK;
}

static fby_status add_columns(const said_by *s, const fby_contents *c, fby__pack_attributes *out, fby_error *err)
{
    column_said w = {.s = s, .c = c};
    size_t at = 0;
    int64_t field = 0;
    fby_status status = FBY_OK;
    for (int64_t i = 0; status == FBY_OK && i < s->p->schema.n_children; i++) {
        const struct ArrowSchema *column = s->p->schema.children[i];
        find_column(&w, column->name, &at);
        w.path.n = 0;
        w.column_n = strlen(column->name);
        if (w.begin == w.end)
            field += fby__write_field_count(column);
        else if (w.column_n && fby__buf_put(&w.path, column->name, w.column_n) != 0)
            status = no_memory(err);
        else
            status = add_field(&w, column, FBY__LEVEL_STRUCT, &field, out, err);
    }
    fby__buf_fini(&w.path);
    return status;
}

/* The path, which leads to schema, goes on to the field that is *io_left fields behind it. 1: there; 0: not in here; -1: no memory. */
static int extend_path(const struct ArrowSchema *schema, fby__contents_level in, int64_t *io_left, fby__buf *path)
{
    const fby__contents_level level = fby__contents_level_of(schema->format, in);
    const size_t path_n = path->n;
    int found = (*io_left)-- == 0;
    for (int64_t i = 0; found == 0 && i < schema->n_children; i++) {
        path->n = path_n;
        found = put_step(path, level, schema, i) != 0 ? -1 : 0;
        if (found == 0)
            found = extend_path(schema->children[i], level, io_left, path);
    }
    return found;
}

int fby__pack_field_path(const fby__pack *p, int64_t field, fby__buf *out)
{
    int found = 0;
    for (int64_t i = 0; found == 0 && i < p->schema.n_children; i++) {
        const char *name = p->schema.children[i]->name;
        out->n = 0;
        found = fby__buf_put(out, name, strlen(name) + 1) != 0 ? -1 : 0; /* with its NUL, for a name may be empty */
        out->n -= found == 0;
        if (found == 0)
            found = extend_path(p->schema.children[i], FBY__LEVEL_STRUCT, &field, out);
    }
    return found == 1 ? 0 : -1;
}

fby_status fby__pack_attributes_of_file(const fby__pack *p, uint32_t file, fby__pack_attributes *out, fby_error *err)
{
    fby_contents *c = NULL;
    fby_error found = {.file_offset = -1};
    const char *name = fby__dataset_facts(p->ds, file).name;
    fby_status status = fby__dataset_said(p->ds, file, &c, &found);
    if (status == FBY_E_FORMAT) /* rows may be whole: packing names what it needs */
        (void)snprintf(out->note, sizeof out->note, "what '%.120s' says of itself is left out: %.300s", name, found.message);
    if (status == FBY_E_FORMAT || status == FBY_E_UNSUPPORTED) /* the latter: CSV says nothing */
        return FBY_OK;
    if (status != FBY_OK && err)
        *err = found;
    said_by s = {.p = p, .file = file};
    if (status == FBY_OK)
        status = compare_columns(&s, fby_contents_object(c, 0), err);
    if (status == FBY_OK)
        status = add_object(&s, fby_contents_object(c, 0), NULL, -1, false, out, err);
    if (status == FBY_OK)
        status = add_columns(&s, c, out, err);
    const char *note = status == FBY_OK ? fby_contents_note(c, 0) : NULL;
    if (note)
        (void)snprintf(out->note, sizeof out->note, "'%.120s': %s", name, note);
    fby_contents_close(c);
    return status;
}

fby_status fby__pack_attributes_find(fby__pack *p, fby_error *err)
{
    fby__pack_attributes *a = &p->attributes;
    if (!a->known && !p->pipeline && fby__dataset_file_count(p->ds) && !fby__pack_in_memory(p)) {
        FBY__TRY(fby__pack_attributes_of_file(p, 0, a, err));
        FBY__TRY(fby__pack_differences_drop(p, err));
    }
    a->known = true;
    return FBY_OK;
}

void fby__pack_attributes_fini(fby__pack_attributes *a)
{
    fby__arena_fini(&a->memory);
    fby__free(a->list);
    *a = (fby__pack_attributes){0};
}

/* ---- in the plan's file ---- */

/*
 *     bytes of what follows          u64
 *     how many attributes            u64
 *     what was left out              text; texts end with a NUL
 *     each: field, dtype, numbers    u64, u64, u64
 *           is it one number         u64
 *           name, text               texts
 *           the numbers
 *     hash                           of all that lies before it, but for the first number
 */

static int put_text(fby__buf *b, const char *text) { return fby__buf_put(b, text, strlen(text) + 1); }

fby_status fby__pack_attributes_put(const fby__pack *p, fby__buf *out, fby_error *err)
{
    const fby__pack_attributes *all = &p->attributes;
    uint64_t n = all->n;
    const size_t begin = out->n + sizeof n;
    int failed = fby__buf_put(out, &n, sizeof n) | fby__buf_put(out, &n, sizeof n) | put_text(out, all->note);
    for (size_t i = 0; i < all->n && !failed; i++) {
        const fby__write_attribute *a = &all->list[i];
        const uint64_t numbers[] = {(uint64_t)a->field, (uint64_t)a->dtype, a->n, a->is_scalar};
        failed = fby__buf_put(out, numbers, sizeof numbers) | put_text(out, a->name) | put_text(out, a->text);
        if (!failed && a->dtype != FBY_DTYPE_NONE)
            failed = fby__buf_put(out, a->data, (size_t)a->n * fby_dtype_bytes(a->dtype));
    }
    if (failed)
        return no_memory(err);
    const fby__hash128 h = fby__hash(out->data + begin, out->n - begin);
    if (fby__buf_put(out, &h, sizeof h) != 0)
        return no_memory(err);
    n = out->n - begin;
    memcpy(out->data + begin - sizeof n, &n, sizeof n);
    return n <= FBY__PACK_ATTRIBUTES_BYTES
               ? FBY_OK
               : fby__fail(err, FBY_E_UNSUPPORTED,
                           "what '%s' says of itself and its columns takes %llu bytes, and every file of the pack "
                           "would have them: %u are the most. Pack its columns as outputs, which leave it out",
                           fby__dataset_file_path(p->ds, 0), (unsigned long long)n, FBY__PACK_ATTRIBUTES_BYTES);
}

static bool parse_number(fby__bytes *from, uint64_t *out)
{
    const uint8_t *at = fby__bytes_next(from, sizeof *out);
    if (at)
        *out = fby__load_u64(at);
    return at;
}

static bool parse_text(fby__bytes *from, const char **out)
{
    *out = fby__bytes_next_text(from);
    return *out && fby__schema_text_valid(*out, strlen(*out));
}

/* Behind the one before it, and of a kind that a source's may be of. */
static bool parse_one(int64_t n_fields, fby__bytes *from, int64_t *field, fby__write_attribute *out, size_t *out_bytes)
{
    uint64_t of, dtype, scalar;
    if (!parse_number(from, &of) || !parse_number(from, &dtype) || !parse_number(from, &out->n) || !parse_number(from, &scalar) ||
        !parse_text(from, &out->name) || !parse_text(from, &out->text))
        return false;
    out->field = (int64_t)of;
    out->dtype = (fby_dtype)dtype;
    out->is_scalar = scalar != 0;
    const bool text = dtype == FBY_DTYPE_NONE, number = !text && dtype <= FBY_FLOAT64 && is_number(out->dtype);
    const bool fits = out->field >= *field && out->field < n_fields && *out->name && out->n >= 1 && out->n <= MOST_NUMBERS && scalar <= 1 &&
                      (out->n == 1 || (number && !scalar)) && (text || number);
    *field = out->field;
    *out_bytes = number ? (size_t)out->n * fby_dtype_bytes(out->dtype) : 0;
    return fits && (out->data = fby__bytes_next(from, *out_bytes));
}

/* The hash finds what went wrong on a disk. Whoever may write there may write a hash, too: so all is looked at before it is believed. */
fby_status fby__pack_attributes_read(fby__pack *p, fby__bytes from, bool *out_ok, fby_error *err)
{
    fby__pack_attributes all = {.known = true};
    const size_t hash = sizeof(fby__hash128);
    const char *note = "";
    uint64_t n = 0;
    int64_t field = -1;
    const int64_t n_fields = fby__write_field_count(&p->schema) - 1;
    *out_ok = from.n >= hash && fby__hash_follows(from.data, from.n - hash);
    from.n -= *out_ok ? hash : 0;
    *out_ok = *out_ok && parse_number(&from, &n) && parse_text(&from, &note) && strlen(note) < sizeof all.note;
    fby_status status = FBY_OK;
    for (uint64_t i = 0; status == FBY_OK && *out_ok && i < n; i++) {
        fby__write_attribute one = {.n = 0};
        size_t bytes = 0;
        *out_ok = parse_one(n_fields, &from, &field, &one, &bytes);
        if (*out_ok)
            status = fby__pack_attributes_add(&all, one, bytes, err);
    }
    *out_ok = *out_ok && from.n == 0;
    if (status == FBY_OK && *out_ok) {
        memcpy(all.note, note, strlen(note) + 1);
        fby__pack_attributes_fini(&p->attributes);
        p->attributes = all;
    } else {
        fby__pack_attributes_fini(&all);
    }
    return status;
}
