/*
 * Layouts of programs that keep Python objects in HDF5: hickle, PyTables, pandas.
 *
 *   hickle     /data is an array, or a group with an array for each key of a dict ('"x"', quotes and all) or item of a list ("data0", …);
 *              what hickle knows no form for is pickled, as bytes. /hickle_types_table says what is what, for hickle alone
 *   PyTables   arrays and tables of records as others write them; indexes of tables lie in groups "_i_…", and are no data
 *   pandas     by PyTables: "fixed" frames keep columns of one type side by side in blocks and pickle strings; "table" frames do too, in
 *              fields "values_block_…", but for columns that were named as data columns
 *
 * Arrays and tables are read as they are. What has lost its columns' names, or is pickled, is left out with the lines that convert it, but
 * for a data set that `table` names.
 */
#include "format/hdf5/table/table_internal.h"

#include <stdlib.h>
#include <string.h>

#define TYPES_TABLE "/hickle_types_table"

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static const char *file_name(const fby__h5_opening *o)
{
    const char *path = fby__file_path(o->file), *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Bytes of a file's name before its extension. */
static int stem(const char *name)
{
    const char *dot = strrchr(name, '.');
    return (int)(dot && dot != name ? (size_t)(dot - name) : strlen(name));
}

/* Is it what the user asked for by its own name? */
static bool is_named(const fby__h5_opening *o, const char *path)
{
    const char *name = o->opts->table ? o->opts->table : "";
    while (*name == '/')
        name++;
    return *name && strcmp(name, path + 1) == 0;
}

static fby_status text_of(fby__h5_opening *o, const fby__h5_object *object, const char *attribute, const char **out, fby_error *err)
{
    *out = NULL;
    return object ? fby__h5_attribute_text(o, fby__h5_attribute_find(object, attribute), out, err) : FBY_OK;
}

/* ---- whose file it is ---- */

/* Items of a list, one object each: rows, or columns? Columns are arrays of one length. */
static bool holds_rows(const fby__h5_opening *o)
{
    const fby__h5_object *first = NULL;
    if (!fby__h5_tree_find(&o->tree, "/data/data0"))
        return false;
    for (uint32_t i = 0; i < o->tree.n; i++) {
        const fby__h5_entry *e = &o->tree.entries[i];
        if (!begins(e->path, "/data/data"))
            continue;
        const fby__h5_object *object = e->object;
        if (!object || object->kind != FBY__H5_DATASET || object->space.rank == 0)
            return true;
        first = first ? first : object;
        if (object->space.dims[0] != first->space.dims[0])
            return true;
    }
    return false;
}

fby_status fby__h5_find_writer(fby__h5_opening *o, fby_error *err)
{
    const fby__h5_object *root = o->tree.n ? o->tree.entries[0].object : NULL;
    const char *class;
    if (!root || o->opts->single)
        return FBY_OK;
    FBY__TRY(text_of(o, root, "CLASS", &class, err));
    if (fby__h5_attribute_find(root, "HICKLE_VERSION") || (class && strcmp(class, "hickle") == 0)) {
        o->writer = FBY__H5_BY_HICKLE;
        o->holds_rows = holds_rows(o);
    } else if (fby__h5_attribute_find(root, "PYTABLES_FORMAT_VERSION")) {
        o->writer = FBY__H5_BY_PYTABLES;
    }
    return FBY_OK;
}

/* ---- hickle ---- */

static fby_status is_pickled(fby__h5_opening *o, const fby__h5_object *object, const fby__h5_object *attributes, bool *out, fby_error *err)
{
    const char *text;
    FBY__TRY(text_of(o, attributes, "base_type", &text, err)); /* version 4 */
    if (!text)
        FBY__TRY(text_of(o, attributes, "type", &text, err)); /* version 3; in 5 it is a reference */
    const bool untyped = !fby__h5_attribute_find(attributes, "base_type") && !fby__h5_attribute_find(attributes, "type");
    *out = (text && strcmp(text, "pickle") == 0) ||
           (untyped && object->type && object->type->class == FBY__H5_INTEGER && object->type->bytes == 1 && object->space.rank == 1);
    return FBY_OK;
}

static fby_status decline_hickle(fby__h5_opening *o, const char *path, const fby__h5_object *object, const fby__h5_object *attributes,
                                 bool *out, fby_error *err)
{
    const char *file = file_name(o), *why;
    if (begins(path, TYPES_TABLE))
        return *out = true, FBY_OK;
    if (o->holds_rows && begins(path, "/data/")) {
        *out = true;
        if (o->n_left_out)
            return FBY_OK;
        why = fby__h5_text(o,
                           "hickle wrote a list, with objects of their own for its items; convert the file once, in Python: "
                           "rows = hickle.load('%s'); pandas.DataFrame(rows).to_parquet('%.*s.parquet')",
                           file, stem(file), file);
        return why ? fby__h5_leave_out(o, "data", why, err) : fby__fail_nomem(err, "a note");
    }
    FBY__TRY(is_pickled(o, object, attributes, out, err));
    if (!*out)
        return FBY_OK;
    why = fby__h5_text(o,
                       "hickle pickled it, as what it has no form for (a DataFrame); convert the file once, in Python: "
                       "df = hickle.load('%s'); df.to_parquet('%.*s.parquet')",
                       file, stem(file), file);
    return why ? fby__h5_leave_out(o, path + 1, why, err) : fby__fail_nomem(err, "a note");
}

const char *fby__h5_column_name(fby__h5_opening *o, const char *name)
{
    if (o->writer != FBY__H5_BY_HICKLE || (!begins(name, "data/") && !strchr(name, '"')))
        return name;
    name += begins(name, "data/") ? strlen("data/") : 0;
    char *copy = fby__arena_copy(&o->arena, name, strlen(name)), *to = copy;
    for (const char *at = copy; copy && *at; at++) {
        const bool opens = *at == '"' && (at == copy || at[-1] == '/'), closes = *at == '"' && (at[1] == '/' || !at[1]);
        if (!opens && !closes)
            *to++ = *at;
    }
    if (copy)
        *to = '\0';
    return copy && !*copy ? name : copy;
}

/* ---- PyTables and pandas ---- */

/* The group that an object lies in. */
static const fby__h5_object *parent_of(fby__h5_opening *o, const char *path, int *out_n, fby_error *err, fby_status *out_status)
{
    const char *slash = strrchr(path, '/');
    *out_n = (int)(slash - path);
    const char *text = fby__h5_text(o, "%.*s", *out_n ? *out_n : 1, path);
    *out_status = text ? FBY_OK : fby__fail_nomem(err, "the name of a group");
    const fby__h5_entry *e = text ? fby__h5_tree_find(&o->tree, text) : NULL;
    return e ? e->object : NULL;
}

static bool has_blocks(const fby__h5_type *type)
{
    for (uint32_t i = 0; type && type->class == FBY__H5_COMPOUND && i < type->n_members; i++)
        if (begins(type->members[i].name, "values_block_"))
            return true;
    return false;
}

static fby_status decline_pytables(fby__h5_opening *o, const char *path, const fby__h5_object *object, const fby__h5_object *attributes,
                                   bool *out, fby_error *err)
{
    const char *kind, *atom, *how = NULL, *file = file_name(o);
    int n;
    fby_status status;
    if (strstr(path, "/_i_") || strstr(path, "/_p_")) /* indexes, and what PyTables keeps for itself */
        return *out = true, FBY_OK;
    FBY__TRY(text_of(o, attributes, "PSEUDOATOM", &atom, err));
    const fby__h5_object *parent = parent_of(o, path, &n, err, &status);
    FBY__TRY(status);
    FBY__TRY(text_of(o, parent, "pandas_type", &kind, err));
    if (kind && strcmp(kind, "frame") == 0)
        how = "fixed') keeps columns side by side in blocks, and pickles strings";
    else if (kind && has_blocks(object->type))
        how = "table') keeps columns side by side in blocks, but for data_columns";
    *out = how || (atom && strcmp(atom, "object") == 0);
    if (!*out)
        return FBY_OK;
    if (kind && strcmp(kind, "frame") == 0 && !strstr(path, "/axis0")) /* one note for all of it */
        return FBY_OK;
    const char *why =
        how ? fby__h5_text(o,
                           "pandas' to_hdf(format='%s; convert the file once, in Python: "
                           "df = pandas.read_hdf('%s', '%.*s'); df.to_parquet('%.*s.parquet')",
                           how, file, n > 1 ? n - 1 : 1, n > 1 ? path + 1 : "/", stem(file), file)
            : fby__h5_text(o,
                           "PyTables pickled its rows; convert the file once, in Python: "
                           "rows = tables.open_file('%s').get_node('%s')[:]; pandas.DataFrame(rows).to_parquet('%.*s.parquet')",
                           file, path, stem(file), file);
    return why ? fby__h5_leave_out(o, path + 1, why, err) : fby__fail_nomem(err, "a note");
}

fby_status fby__h5_writer_declines(fby__h5_opening *o, const char *path, const fby__h5_object *object, const fby__h5_object *attributes,
                                   bool *out, fby_error *err)
{
    *out = false;
    if (o->writer == FBY__H5_BY_OTHERS || is_named(o, path))
        return FBY_OK;
    return o->writer == FBY__H5_BY_HICKLE ? decline_hickle(o, path, object, attributes, out, err)
                                          : decline_pytables(o, path, object, attributes, out, err);
}
