/*
 * Types of columns whose files do not say them (CSV, TSV): as the user says them (fby_open_opts.dtypes), and as text where another file
 * has text (join.c). Either way the schemas change and the files' metadata does not: it is how their text is read. So the index cache
 * knows nothing of it.
 */
#include "dataset/dataset_impl.h"

#include "base/dtype.h"

bool fby__dtypes_open(const fby_dataset *ds, uint32_t schema)
{
    const fby__format_ops *ops = ds->files[ds->schema_file[schema]].ops;
    return ops && ops->retype;
}

/* ---- as the user says ---- */

/* Bytes are text that nobody looks into: of every file that has text. */
static bool is_bytes(const fby_column_dtype *said) { return strcmp(said->dtype, "bytes") == 0 || strcmp(said->dtype, "binary") == 0; }

static fby_status parse_type(const fby_column_dtype *said, fby_field *out, fby_error *err)
{
    *out = (fby_field){.kind = FBY_KIND_STRING};
    if (strcmp(said->dtype, "str") == 0 || strcmp(said->dtype, "string") == 0 || is_bytes(said))
        return FBY_OK;
    out->dtype = fby_dtype_from_name(said->dtype);
    if (out->dtype == FBY_DTYPE_NONE || out->dtype == FBY_BFLOAT16)
        return fby__fail(
            err, FBY_E_ARG,
            "dtypes: '%.60s' is said to be '%.60s'; use str, bytes, bool, int8 to int64, uint8 to uint64, float16, float32 or float64",
            said->column, said->dtype);
    out->kind = out->dtype == FBY_BOOL ? FBY_KIND_BOOL : fby__dtype_is_float(out->dtype) ? FBY_KIND_FLOAT : FBY_KIND_INT;
    return FBY_OK;
}

static fby_status parse_all(const fby_open_opts *opts, fby_field *types, fby_error *err)
{
    for (size_t i = 0; i < opts->n_dtypes; i++) {
        const fby_column_dtype *said = &opts->dtypes[i];
        if (!said->column || !said->dtype)
            return fby__fail(err, FBY_E_ARG, "dtypes: entry %zu lacks its column or its dtype", i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(opts->dtypes[k].column, said->column) == 0)
                return fby__fail(err, FBY_E_ARG, "dtypes: '%.200s' is said twice", said->column);
        FBY__TRY(parse_type(said, &types[i], err));
    }
    return FBY_OK;
}

static fby_status replace(fby_dataset *ds, uint32_t s, const fby_field *const *types, bool said, fby_error *err)
{
    fby__schema *schema;
    FBY__TRY(ds->files[ds->schema_file[s]].ops->retype(ds->schemas[s], types, said, &schema, err));
    fby__schema_unref(ds->schemas[s]);
    ds->schemas[s] = schema;
    return FBY_OK;
}

/* A column that is said, but in no file that leaves it open. */
static fby_status not_there(const fby_dataset *ds, const char *column, fby_error *err)
{
    fby__near near = {.wanted = column};
    for (uint32_t s = 0; s < ds->n_schemas; s++) {
        const fby_field *root = &ds->schemas[s]->fields[0];
        for (uint32_t i = 0; i < root->n_children; i++) {
            if (strcmp(root->children[i].name, column) == 0)
                return fby__fail(err, FBY_E_SCHEMA,
                                 "dtypes: '%.200s' has its type from the file, '%s': dtypes is for CSV and TSV, which do not say any, and "
                                 "makes bytes of text; .cast() "
                                 "and dtype= convert what is delivered",
                                 column, ds->files[ds->schema_file[s]].path);
            fby__near_offer(&near, root->children[i].name);
        }
    }
    char text[300];
    fby__near_text(&near, text, sizeof text);
    return fby__fail(err, FBY_E_SCHEMA, "dtypes: there is no column '%.200s'%s", column, text);
}

static bool has_text(const fby_field *root, const char *column)
{
    for (uint32_t i = 0; i < root->n_children; i++)
        if (strcmp(root->children[i].name, column) == 0)
            return root->children[i].kind == FBY_KIND_STRING || root->children[i].kind == FBY_KIND_BINARY;
    return false;
}

/* The columns that are said to be bytes, for the join. */
static fby_status keep_bytes(fby_dataset *ds, const fby_open_opts *opts, fby_error *err)
{
    ds->bytes = fby__arena_alloc(&ds->arena, opts->n_dtypes * sizeof *ds->bytes);
    if (!ds->bytes)
        return fby__fail_nomem(err, "dtypes");
    for (size_t k = 0; k < opts->n_dtypes; k++) {
        const char *column = opts->dtypes[k].column;
        if (!is_bytes(&opts->dtypes[k]))
            continue;
        if (!(ds->bytes[ds->n_bytes] = fby__arena_copy(&ds->arena, column, strlen(column))))
            return fby__fail_nomem(err, "dtypes");
        ds->n_bytes++;
    }
    return FBY_OK;
}

fby_status fby__dtypes_apply(fby_dataset *ds, const fby_open_opts *opts, fby_error *err)
{
    if (opts->n_dtypes == 0)
        return FBY_OK;
    fby_field *said = fby__calloc(opts->n_dtypes, sizeof *said);
    bool *used = fby__calloc(opts->n_dtypes, sizeof *used);
    const fby_field **types = NULL;
    size_t cap = 0;
    fby_status status = said && used ? parse_all(opts, said, err) : fby__fail_nomem(err, "dtypes");
    for (uint32_t s = 0; s < ds->n_schemas && status == FBY_OK; s++) {
        const fby_field *root = &ds->schemas[s]->fields[0];
        bool any = false;
        for (size_t k = 0; k < opts->n_dtypes; k++)
            used[k] |= is_bytes(&opts->dtypes[k]) && has_text(root, opts->dtypes[k].column);
        if (!fby__dtypes_open(ds, s))
            continue;
        if (fby__grow((void **)&types, &cap, root->n_children, sizeof *types) != 0) {
            status = fby__fail_nomem(err, "dtypes");
            break;
        }
        for (uint32_t i = 0; i < root->n_children; i++) {
            types[i] = NULL;
            for (size_t k = 0; k < opts->n_dtypes; k++)
                if (strcmp(opts->dtypes[k].column, root->children[i].name) == 0) {
                    types[i] = &said[k];
                    any = used[k] = true;
                }
        }
        if (any)
            status = replace(ds, s, types, true, err);
    }
    for (size_t k = 0; k < opts->n_dtypes && status == FBY_OK; k++)
        if (!used[k])
            status = not_there(ds, opts->dtypes[k].column, err);
    if (status == FBY_OK)
        status = keep_bytes(ds, opts, err);
    fby__free(types);
    fby__free(used);
    fby__free(said);
    return status;
}

/* ---- as other files have it ---- */

static bool becomes_text(const fby_dataset *ds, const fby_field *field)
{
    uint32_t joined = fby__schema_find(ds->schema, field->name);
    if (joined == UINT32_MAX || ds->join[joined].conflict_a != FBY__NONE)
        return false;
    fby_kind kind = ds->schema->fields[joined].kind;
    return (kind == FBY_KIND_STRING || kind == FBY_KIND_BINARY) && field->kind != FBY_KIND_STRING && field->kind != FBY_KIND_NULL;
}

static fby_status keep_found(fby_dataset *ds, fby_error *err)
{
    if (ds->found_schemas)
        return FBY_OK;
    ds->found_schemas = fby__calloc(ds->n_schemas, sizeof *ds->found_schemas);
    if (!ds->found_schemas)
        return fby__fail_nomem(err, "schemas");
    for (uint32_t s = 0; s < ds->n_schemas; s++)
        ds->found_schemas[s] = fby__schema_ref(ds->schemas[s]);
    return FBY_OK;
}

fby_status fby__dtypes_join(fby_dataset *ds, fby_error *err)
{
    static const fby_field TEXT = {.kind = FBY_KIND_STRING};
    const fby_field **types = NULL;
    size_t cap = 0;
    fby_status status = FBY_OK;
    for (uint32_t s = 0; s < ds->n_schemas && status == FBY_OK; s++) {
        const fby_field *root = &ds->schemas[s]->fields[0];
        bool any = false;
        if (!fby__dtypes_open(ds, s))
            continue;
        if (fby__grow((void **)&types, &cap, root->n_children, sizeof *types) != 0) {
            status = fby__fail_nomem(err, "schemas");
            break;
        }
        for (uint32_t i = 0; i < root->n_children; i++) {
            types[i] = becomes_text(ds, &root->children[i]) ? &TEXT : NULL;
            any |= types[i] != NULL;
        }
        if (any)
            status = keep_found(ds, err);
        if (any && status == FBY_OK)
            status = replace(ds, s, types, false, err);
    }
    fby__free(types);
    return status;
}

/* ---- what to say of it ---- */

/* The files that leave a joined column's type open: the first of each sort. */
typedef struct sorts {
    uint32_t text, number, kept; /* text; a number that is read as text; text of numbers. File numbers, FBY__NONE = there is none */
    uint64_t line;               /* in `kept` */
    bool wide;                   /* some file's numbers need float64 */
} sorts;

static fby_status sort_schema(fby_dataset *ds, uint32_t s, sorts *all, fby_error *err)
{
    uint32_t file = ds->schema_file[s];
    const fby_field *root = &ds->schemas[s]->fields[0];
    fby__table *table = NULL;
    for (uint32_t i = 0; i < root->n_children; i++) {
        uint32_t joined = fby__schema_find(ds->schema, root->children[i].name);
        const fby_field *found = ds->found_schemas ? &ds->found_schemas[s]->fields[0].children[i] : &root->children[i];
        if (joined == UINT32_MAX || root->children[i].kind != FBY_KIND_STRING)
            continue;
        sorts *column = &all[joined];
        uint64_t line = 0;
        fby_dtype dtype = FBY_DTYPE_NONE;
        if (found->kind == FBY_KIND_STRING) {
            if (!table)
                FBY__TRY(fby__dataset_table(ds, file, &table, err));
            line = table->ops->number_text(table, i, &dtype);
        }
        column->wide |= dtype == FBY_FLOAT64 || found->kind == FBY_KIND_FLOAT;
        uint32_t *first = line ? &column->kept : found->kind == FBY_KIND_STRING ? &column->text : &column->number;
        if (*first == FBY__NONE) {
            *first = file;
            column->line = line ? line : column->line;
        }
    }
    fby__table_unref(table);
    return FBY_OK;
}

fby_status fby__dtypes_note(fby_dataset *ds, fby_error *err)
{
    const unsigned most = 8; /* notes: then "and so on" */
    unsigned n = 0;
    sorts *all = fby__malloc(ds->schema->n_fields * sizeof *all);
    fby_status status = all ? FBY_OK : fby__fail_nomem(err, "notes");
    for (uint32_t i = 0; all && i < ds->schema->n_fields; i++)
        all[i] = (sorts){FBY__NONE, FBY__NONE, FBY__NONE, 0, false};
    for (uint32_t s = 0; s < ds->n_schemas && status == FBY_OK; s++)
        if (fby__dtypes_open(ds, s))
            status = sort_schema(ds, s, all, err);
    for (uint32_t i = 1; i < ds->schema->n_fields && status == FBY_OK; i++) {
        const sorts *c = &all[i];
        const char *name = ds->schema->fields[i].path;
        bool kept = c->kept != FBY__NONE && c->text == FBY__NONE, mixed = c->text != FBY__NONE && c->number != FBY__NONE;
        if ((!kept && !mixed) || n++ >= most)
            continue;
        if (kept)
            status = fby__notes_add(
                ds, err,
                "the column '%s' is text, because a number would lose leading zeros, plus signs or digits of its values, or be infinite: "
                "see '%s', line %llu; dtypes={\"%s\": \"%s\"} makes it a number",
                name, ds->files[c->kept].name, (unsigned long long)c->line, name, c->wide ? "float64" : "int64");
        else
            status = fby__notes_add(ds, err, "the column '%s' is text in all files, because it is in '%s'; it could be numbers in '%s'",
                                    name, ds->files[c->text].name, ds->files[c->number].name);
    }
    if (n > most && status == FBY_OK)
        status = fby__notes_add(ds, err, "%u more columns of numbers are text", n - most);
    fby__free(all);
    return status;
}
