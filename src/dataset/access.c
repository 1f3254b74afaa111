/*
 * What others ask of an open dataset: counts, files, blocks, columns, tables. Everything is set once but the thawed tables.
 */
#include "budget/memory_limits.h"
#include "dataset/dataset_impl.h"

#include "base/process.h"
#include "base/sized.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define MAX_ASKED 4u /* files that are asked about a column that is not there: one of each schema */

/* ---- public ---- */

const fby_field *fby_dataset_schema(const fby_dataset *ds) { return &ds->schema->fields[0]; }
uint64_t fby_dataset_rows(const fby_dataset *ds) { return ds->rows; }
uint64_t fby_dataset_file_count(const fby_dataset *ds) { return ds->n_files; }
uint64_t fby_dataset_block_count(const fby_dataset *ds) { return ds->n_blocks; }
uint64_t fby_dataset_stored_bytes(const fby_dataset *ds) { return ds->stored_bytes; }
const char *fby_dataset_identity(const fby_dataset *ds) { return ds->identity; }
const char *fby_dataset_fingerprint(const fby_dataset *ds) { return ds->fingerprint; }
const char *fby__dataset_contents(const fby_dataset *ds) { return ds->contents; }
uint64_t fby__dataset_inodes(const fby_dataset *ds) { return ds->inodes; }

fby_status fby_dataset_open_stats(const fby_dataset *ds, fby_open_stats *out, fby_error *err)
{
    return FBY__SIZED_OUT(fby_open_stats, elapsed_ns, &ds->stats, out, err);
}

const char *fby_dataset_note(const fby_dataset *ds, size_t i) { return fby__notes_at(&ds->notes, i); }
const char *fby_dataset_left_out(const fby_dataset *ds, size_t i) { return fby__notes_at(&ds->left_out, i); }

fby_status fby_dataset_file(const fby_dataset *ds, uint64_t i, fby_file_info *out, fby_error *err)
{
    if (i >= ds->n_files)
        return fby__fail(err, FBY_E_ARG, "file %llu of a data set of %u files", (unsigned long long)i, ds->n_files);
    const fby__dataset_file *file = &ds->files[i];
    const fby_file_info info = {.path = file->path,
                                .name = file->name,
                                .format = file->ops->name,
                                .size_bytes = file->stamp.size_bytes,
                                .rows = file->rows,
                                .groups = file->n_groups,
                                .first_block = file->first_block,
                                .n_blocks = file->n_blocks,
                                .group_word = file->ops->group,
                                .groups_word = file->ops->groups};
    return FBY__SIZED_OUT(fby_file_info, n_blocks, &info, out, err);
}

fby_status fby_dataset_block(const fby_dataset *ds, uint64_t i, fby_block_info *out, fby_error *err)
{
    if (i >= ds->n_blocks)
        return fby__fail(err, FBY_E_ARG, "block %llu of a data set of %u blocks", (unsigned long long)i, ds->n_blocks);
    const fby__block *block = &ds->blocks[i];
    const fby_block_info info = {.file = block->file,
                                 .group = block->group,
                                 .row_begin = block->row_begin,
                                 .row_end = block->row_end,
                                 .first_row = block->first_row,
                                 .stored_bytes = block->stored_bytes};
    return FBY__SIZED_OUT(fby_block_info, stored_bytes, &info, out, err);
}

fby_status fby_dataset_chunk(const fby_dataset *ds, uint64_t file, uint32_t group, const char *column, bool read_pages, fby_chunk_info *out,
                             fby_error *err)
{
    fby_chunk_info info = {0};
    if (file >= ds->n_files || group >= ds->files[file].n_groups)
        return fby__fail(err, FBY_E_ARG, "there is no group %u of file %llu", group, (unsigned long long)file);
    if (!column)
        return fby__fail(err, FBY_E_ARG, "no column named");
    uint32_t leaf = fby__schema_find_leaf(ds->schemas[ds->files[file].schema], column);
    if (leaf == FBY__NO_LEAF)
        return fby__fail(err, FBY_E_SCHEMA, "'%s' has no column '%s'", ds->files[file].path, column);
    fby__table *table;
    fby__file *opened = NULL;
    FBY__TRY(fby__dataset_table(ds, (uint32_t)file, &table, err));
    fby_status status = read_pages ? fby__dataset_open_file(ds, (uint32_t)file, &opened, err) : FBY_OK;
    if (status == FBY_OK)
        status = table->ops->describe(table, opened, group, leaf, &info, err);
    fby__file_unref(opened);
    fby__table_unref(table);
    return status == FBY_OK ? FBY__SIZED_OUT(fby_chunk_info, has_crc, &info, out, err) : status;
}

/* ---- inside the library ---- */

uint32_t fby__dataset_block_count(const fby_dataset *ds) { return ds->n_blocks; }

const fby__block *fby__dataset_block(const fby_dataset *ds, uint32_t i)
{
    assert(i < ds->n_blocks);
    return &ds->blocks[i];
}

const char *fby__dataset_file_path(const fby_dataset *ds, uint32_t file) { return ds->files[file].path; }

void fby__dataset_block_text(const fby_dataset *ds, uint32_t number, char *out)
{
    const fby__block *block = &ds->blocks[number];
    const fby__dataset_file *file = &ds->files[block->file];
    const char *path = file->path ? file->path : "(memory)", *group = file->ops->group;
    uint64_t before = block->row_begin; /* rows of the file */
    for (uint32_t g = 0; !group && g < block->group; g++)
        before += file->groups[g].rows;
    if (group)
        (void)snprintf(out, FBY__BLOCK_TEXT_BYTES, "'%.300s', %s %u", path, group, block->group);
    else
        (void)snprintf(out, FBY__BLOCK_TEXT_BYTES, "'%.300s', rows %" PRIu64 " to %" PRIu64, path, before,
                       before + block->row_end - block->row_begin - 1);
}

const char *fby__dataset_groups_text(const fby_dataset *ds) { return ds->n_files && ds->files[0].ops ? ds->files[0].ops->groups : NULL; }

bool fby__dataset_unpacks(const fby_dataset *ds, uint32_t file)
{
    return ds->files[file].ops == &fby__hdf5_ops && !ds->config.format.stored_values;
}
bool fby__dataset_stored_values(const fby_dataset *ds) { return ds->config.format.stored_values; }
fby_io_engine fby__dataset_io_engine(const fby_dataset *ds) { return ds->config.io; }
const fby__h5_environment *fby__dataset_environment(const fby_dataset *ds) { return &ds->config.environment; }
bool fby__dataset_verify_crc(const fby_dataset *ds) { return ds->config.verify_crc; }
int fby__dataset_threads(const fby_dataset *ds) { return ds->config.n_threads; }

fby_status fby__dataset_check_process(const fby_dataset *ds, fby_error *err)
{
    if (ds->pid == fby__process_id())
        return FBY_OK;
    return fby__fail(err, FBY_E_STATE, "this data set was opened before fork(); open it again in the child process");
}

/*
 * What the files' metadata takes, whether it was read or came from the index: a loader's minimum is to be one number. Above what either
 * holds, by what an arena leaves unused.
 */
static size_t content_bytes(const fby_dataset *ds)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < ds->n_files && !ds->memory_table; i++) {
        const fby__dataset_file *file = &ds->files[i];
        bytes += strlen(file->path) + 2 * strlen(file->name) + file->n_groups * sizeof *file->groups + file->frozen.n + 128;
        for (uint32_t c = 0; c < ds->n_constants; c++)
            bytes += 16 + (file->constants[c] ? strlen(file->constants[c]) : 0);
    }
    return bytes + bytes / 8 + ((size_t)128 << 10);
}

void fby__dataset_measure(fby_dataset *ds)
{
    size_t held =
               ds->arena.total_bytes + ds->index.image.cap + ds->index.arena.total_bytes + ds->index.n_entries * sizeof *ds->index.entries,
           content = content_bytes(ds) + ds->n_files * sizeof *ds->index.entries;
    size_t bytes = sizeof *ds + (held > content ? held : content) + ds->n_files * sizeof *ds->files + ds->n_blocks * sizeof *ds->blocks;
    for (uint32_t i = 0; i <= ds->n_schemas; i++) {
        const fby__schema *s = i < ds->n_schemas ? ds->schemas[i] : ds->schema;
        bytes += s->n_fields * (sizeof *s->fields + sizeof *s->nodes + 32) + s->n_leaves * sizeof *s->leaves; /* 32: a name */
    }
    ds->memory_bytes = bytes + (ds->n_files < FBY__TABLE_SLOTS ? ds->n_files : FBY__TABLE_SLOTS) * ds->max_frozen_bytes;
}

size_t fby__dataset_memory_bytes(const fby_dataset *ds) { return ds->memory_bytes; }

uint64_t fby__dataset_budget_bytes(const fby_dataset *ds) { return ds->config.memory_bytes; }

fby_status fby__dataset_account(const fby_dataset *ds, fby__account **out, fby_error *err)
{
    FBY__TRY(fby__account_open_asked(ds->config.memory_bytes, out, err));
    fby__account_charge(*out, ds->memory_bytes);
    return FBY_OK;
}

static bool file_has(const fby_dataset *ds, uint32_t file, uint32_t field)
{
    if (field >= 1 && field <= ds->n_constants)
        return ds->files[file].constants[field - 1] != NULL;
    return fby__schema_find(ds->schemas[ds->files[file].schema], ds->schema->fields[field].path) != UINT32_MAX;
}

/* How many files lack the field, and the first that does. */
static uint32_t files_without(const fby_dataset *ds, uint32_t field, uint32_t *out_first)
{
    const uint32_t lacking = ds->join[field].missing;
    uint32_t n = 0;
    *out_first = lacking == FBY__NONE ? 0 : ds->schema_file[lacking];
    if (lacking == FBY__NONE && (field == 0 || field > ds->n_constants))
        return 0;
    for (uint32_t i = 0; i < ds->n_files; i++)
        if (!file_has(ds, i, field) && n++ == 0)
            *out_first = i;
    return n == 0 && lacking != FBY__NONE ? 1 : n;
}

/* One field alone: its types that do not join, or a file without it. */
static fby_status check_one(const fby_dataset *ds, uint32_t field, fby_error *err)
{
    const fby__join *join = &ds->join[field];
    const fby_field *f = &ds->schema->fields[field];
    if (join->conflict_a != FBY__NONE) {
        char a[120], b[120];
        (void)fby_field_type_text(join->type_a, a, sizeof a);
        (void)fby_field_type_text(join->type_b, b, sizeof b);
        bool open = fby__dtypes_open(ds, join->conflict_a) || fby__dtypes_open(ds, join->conflict_b);
        return fby__fail(err, FBY_E_SCHEMA, "column '%s' is %s in '%s' but %s in '%s'; no type holds both%s", f->path, a,
                         ds->files[ds->schema_file[join->conflict_a]].path, b, ds->files[ds->schema_file[join->conflict_b]].path,
                         open ? ": state its type in CSV files with dtypes" : "");
    }
    if (ds->config.missing_columns == FBY_MISSING_COLUMNS_FILL)
        return FBY_OK;
    uint32_t first;
    const uint32_t n = files_without(ds, field, &first);
    if (n == 0)
        return FBY_OK;
    return fby__fail(err, FBY_E_SCHEMA,
                     "column '%s' is missing in %u of %u files, such as '%s'; leave the column or the files out, or open with "
                     "missing_columns=\"fill\"",
                     f->path, n, ds->n_files, ds->files[first].path);
}

static fby_status check_below(const fby_dataset *ds, uint32_t field, fby_error *err)
{
    const fby_field *f = &ds->schema->fields[field];
    for (uint32_t i = 0; i < f->n_children; i++) {
        uint32_t child = (uint32_t)(&f->children[i] - ds->schema->fields);
        FBY__TRY(check_one(ds, child, err));
        FBY__TRY(check_below(ds, child, err));
    }
    return FBY_OK;
}

fby_status fby__dataset_check_field(const fby_dataset *ds, uint32_t field, bool deep, fby_error *err)
{
    for (uint32_t up = field; up != 0; up = ds->schema->nodes[up].parent)
        FBY__TRY(check_one(ds, up, err));
    return deep ? check_below(ds, field, err) : FBY_OK;
}

/* Why there is no column of that path, as fby__format_ops.absent says it of the first file that knows. */
static bool is_known_absent(const fby_dataset *ds, const char *path, char *out, size_t n)
{
    bool known = false;
    for (uint32_t s = 0; s < ds->n_schemas && s < MAX_ASKED && !ds->memory_table && !known; s++) {
        const fby__dataset_file *info = &ds->files[ds->schema_file[s]];
        fby__table *table = NULL;
        fby__file *file = NULL;
        if (info->ops->absent && fby__dataset_table(ds, ds->schema_file[s], &table, NULL) == FBY_OK &&
            fby__dataset_open_file(ds, ds->schema_file[s], &file, NULL) == FBY_OK)
            known = info->ops->absent(table, file, path, out, n);
        fby__file_unref(file);
        fby__table_unref(table);
    }
    return known;
}

/* No such column among n_columns, which were offered: why it is absent, or which are near. May read files. */
static fby_status fail_unknown(const fby_dataset *ds, const fby__near *near, uint32_t n_columns, fby_error *err)
{
    char text[600];
    if (is_known_absent(ds, near->wanted, text, sizeof text))
        return fby__fail(err, FBY_E_SCHEMA, "no column '%s': %s", near->wanted, text);
    fby__near_text(near, text, sizeof text);
    return fby__fail(err, FBY_E_SCHEMA, "no column '%s' among the data set's %u%s", near->wanted, n_columns, text);
}

/* One value a row, or one list of numbers: what an output can be made of, and so what is advised. */
static bool can_be_output(const fby__schema *schema, uint32_t field)
{
    fby_kind kind = schema->fields[field].kind;
    bool text = kind == FBY_KIND_STRING || kind == FBY_KIND_BINARY || kind == FBY_KIND_FIXED_BINARY;
    unsigned lists = 0, fixed = 0;
    for (uint32_t up = schema->nodes[field].parent; up != 0; up = schema->nodes[up].parent) {
        lists += schema->fields[up].kind == FBY_KIND_LIST || schema->fields[up].kind == FBY_KIND_MAP;
        fixed += schema->fields[up].kind == FBY_KIND_FIXED_LIST;
    }
    return lists + (fixed > 0) <= 1 && kind != FBY_KIND_INTERVAL && !(text && lists + fixed > 0);
}

static fby_status fail_no_column(const fby_dataset *ds, const char *path, fby_error *err)
{
    const fby__schema *schema = ds->schema;
    uint32_t field = fby__schema_find(schema, path);
    char text[400] = "";
    if (field != UINT32_MAX && *path) {
        const fby__schema_node *node = &schema->nodes[field];
        size_t used = 0;
        uint32_t n_named = 0;
        for (uint32_t i = 0; i < node->n_leaves && n_named <= 4 && used < sizeof text; i++) {
            uint32_t leaf = schema->leaves[node->first_leaf + i].field;
            if (!can_be_output(schema, leaf))
                continue;
            int n = n_named == 4 ? snprintf(text + used, sizeof text - used, ", …")
                                 : snprintf(text + used, sizeof text - used, "%s'%s'", n_named ? ", " : "", schema->fields[leaf].path);
            used += n > 0 ? (size_t)n : 0;
            n_named++;
        }
        const char *kind = fby_kind_name(schema->fields[field].kind);
        if (n_named == 0)
            return fby__fail(err, FBY_E_SCHEMA, "'%s' is a %s, not one column, and nothing in it can be an output: read it through Arrow",
                             path, kind);
        return fby__fail(err, FBY_E_SCHEMA, "'%s' is a %s, not one column; name %s%s", path, kind, n_named == 1 ? "" : "one of ", text);
    }
    fby__near near = {.wanted = path};
    for (uint32_t i = 0; i < schema->n_leaves; i++)
        fby__near_offer(&near, schema->fields[schema->leaves[i].field].path);
    return fail_unknown(ds, &near, schema->n_leaves, err);
}

fby_status fby__dataset_resolve(const fby_dataset *ds, const char *path, fby__dataset_column *out, fby_error *err)
{
    const fby__schema *schema = ds->schema;
    if (!path)
        return fby__fail(err, FBY_E_ARG, "no column named");
    uint32_t leaf = fby__schema_find_leaf(schema, path);
    if (leaf == FBY__NO_LEAF)
        return fail_no_column(ds, path, err);
    uint32_t at = schema->leaves[leaf].field;
    FBY__TRY(fby__dataset_check_field(ds, at, false, err));
    const fby_field *field = &schema->fields[at];
    for (uint32_t up = schema->nodes[at].parent; up != 0; up = schema->nodes[up].parent) {
        fby_kind kind = schema->fields[up].kind;
        if (kind == FBY_KIND_LIST || kind == FBY_KIND_MAP || kind == FBY_KIND_FIXED_LIST)
            field = &schema->fields[up]; /* the outermost: its children show how deep it goes */
    }
    *out = (fby__dataset_column){.path = schema->fields[at].path, .field = field, .leaf = &schema->fields[at], .id = leaf};
    return FBY_OK;
}

void fby__dataset_file_column(const fby_dataset *ds, uint32_t file, const fby__dataset_column *column, fby__file_column *out)
{
    const fby__dataset_file *info = &ds->files[file];
    *out = (fby__file_column){.origin = FBY__ORIGIN_MISSING, .unit_mul = 1, .unit_div = 1};
    if (column->id < ds->n_constants) {
        out->constant = info->constants[column->id];
        out->origin = out->constant ? FBY__ORIGIN_CONSTANT : FBY__ORIGIN_MISSING;
        return;
    }
    const fby__schema *schema = ds->schemas[info->schema];
    if (schema == ds->schema) { /* in memory: two columns may share a path, so go by number */
        out->leaf = column->id;
        out->origin = FBY__ORIGIN_LEAF;
        return;
    }
    uint32_t leaf = fby__schema_find_leaf(schema, column->path);
    if (leaf == FBY__NO_LEAF)
        return;
    const fby_field *field = &schema->fields[schema->leaves[leaf].field];
    if (field->kind == FBY_KIND_NULL && column->leaf->kind != FBY_KIND_NULL)
        return; /* nothing but nulls there, of whatever nesting: the same as missing, and allowed everywhere */
    for (int unit = (int)field->unit; field->unit != FBY_UNIT_NONE && unit < (int)column->leaf->unit; unit++)
        out->unit_mul *= 1000;
    out->leaf = leaf;
    out->origin = FBY__ORIGIN_LEAF;
}

fby_status fby__dataset_find_field(const fby_dataset *ds, const char *name, uint32_t *out, fby_error *err)
{
    const fby_field *root = &ds->schema->fields[0];
    if (!name)
        return fby__fail(err, FBY_E_ARG, "a column's name is NULL");
    for (uint32_t i = 0; i < root->n_children; i++)
        if (strcmp(root->children[i].name, name) == 0) {
            *out = (uint32_t)(&root->children[i] - ds->schema->fields);
            return FBY_OK;
        }
    uint32_t field = fby__schema_find(ds->schema, name);
    if (field != UINT32_MAX && field != 0) {
        while (ds->schema->nodes[field].parent != 0)
            field = ds->schema->nodes[field].parent;
        return fby__fail(err, FBY_E_SCHEMA, "'%s' is inside the column '%s'; an Arrow export takes whole columns", name,
                         ds->schema->fields[field].name);
    }
    fby__near near = {.wanted = name};
    for (uint32_t i = 0; i < root->n_children; i++)
        fby__near_offer(&near, root->children[i].name);
    return fail_unknown(ds, &near, root->n_children, err);
}

const fby_field *fby__dataset_file_field(const fby_dataset *ds, uint32_t file, const fby__schema *schema, uint32_t field, uint32_t *hint,
                                         const char **out_constant)
{
    *out_constant = field >= 1 && field <= ds->n_constants ? ds->files[file].constants[field - 1] : NULL;
    if (schema == ds->schema) /* in memory: by number, for names may come twice */
        return &schema->fields[field];
    if (field <= ds->n_constants)
        return NULL;
    const fby_field *found = fby__join_child(&schema->fields[0], ds->schema->fields[field].name, hint);
    const bool is_nothing = found && found->kind == FBY_KIND_NULL && ds->schema->fields[field].kind != FBY_KIND_NULL;
    return is_nothing ? NULL : found;
}

/* A table read anew, whose sources must be what they were. */
static bool same_sources(const fby__dataset_file *info, const fby__table *table)
{
    bool same = table->n_sources == info->n_sources;
    for (uint32_t i = 0; same && i < table->n_sources; i++) {
        const fby__source_file *a = &table->sources[i], *b = &info->sources[i];
        same = strcmp(a->path, b->path) == 0 && a->absent == b->absent && fby__file_same(a->path, &a->stamp, &b->stamp);
    }
    return same;
}

/* The blocks were cut by what the data set knows of the groups: the table must not be of others. */
static bool same_groups(const fby__dataset_file *info, const fby__table *table)
{
    bool same = table->n_groups == info->n_groups;
    for (uint32_t g = 0; same && g < table->n_groups; g++)
        same = table->groups[g].rows == info->groups[g].rows && table->groups[g].block_rows == info->groups[g].block_rows;
    return same;
}

/* Thaw a table; when that fails (an index of another build with the same version, or a forged one), its file still knows. */
static fby_status thaw(const fby_dataset *ds, const fby__dataset_file *info, fby__table **out, fby_error *err)
{
    fby_status status = info->ops->thaw(info->frozen, ds->schemas[info->schema], out, err);
    if (status == FBY_OK && (*out)->n_sources == info->n_sources && same_groups(info, *out)) {
        (*out)->sources = info->sources;
        (*out)->reach.environment = ds->config.format.reach.environment;
        return FBY_OK;
    }
    if (status == FBY_OK)
        fby__table_unref(*out);
    if (status == FBY_E_NOMEM)
        return status;
    fby__file_stamp stamp;
    fby__table *table = NULL;
    FBY__TRY(fby__scan_table(info, &ds->config.format, &info->stamp, &stamp, &table, err));
    bool same = table && fby__hash_equal(table->schema->hash, ds->schemas[info->schema]->hash) && same_groups(info, table) &&
                same_sources(info, table);
    if (!same) {
        fby__table_unref(table);
        return fby__fail(err, FBY_E_CHANGED, "'%s' is not the file that was indexed; open the data set again", info->path);
    }
    *out = table;
    return FBY_OK;
}

fby_status fby__dataset_table(const fby_dataset *const_ds, uint32_t file, fby__table **out, fby_error *err)
{
    fby_dataset *ds = (fby_dataset *)(uintptr_t)const_ds; /* the slots are a cache under their own lock */
    if (ds->memory_table) {
        *out = fby__table_ref(ds->memory_table);
        return FBY_OK;
    }
    uint32_t slot = file % FBY__TABLE_SLOTS;
    pthread_mutex_lock(&ds->recent.lock);
    fby__table *table =
        ds->recent.tables[slot].table && ds->recent.tables[slot].file == file ? fby__table_ref(ds->recent.tables[slot].table) : NULL;
    pthread_mutex_unlock(&ds->recent.lock);
    if (!table) {
        FBY__TRY(thaw(ds, &ds->files[file], &table, err));
        pthread_mutex_lock(&ds->recent.lock);
        fby__table *old = ds->recent.tables[slot].table;
        if (old && ds->recent.tables[slot].file == file) { /* another thread was faster: share its page index */
            fby__table *mine = table;
            table = fby__table_ref(old);
            old = mine;
        } else {
            ds->recent.tables[slot].table = fby__table_ref(table);
            ds->recent.tables[slot].file = file;
        }
        pthread_mutex_unlock(&ds->recent.lock);
        fby__table_unref(old);
    }
    *out = table;
    return FBY_OK;
}

/* The file that was indexed, if nobody writes to it. */
static fby_status open_again(const fby_dataset *ds, uint32_t file, fby__file **out, fby_error *err)
{
    const fby__dataset_file *info = &ds->files[file];
    fby_status status = fby__file_open(info->path, &info->stamp, out, err);
    bool no_locks;
    if (status == FBY_OK && info->ops->may_read)
        status = info->ops->may_read(*out, &ds->config.format, &no_locks, err);
    if (status != FBY_OK) {
        fby__file_unref(*out);
        *out = NULL;
    }
    return status;
}

/* A file that is read through a map: declared immutable, so an open one is still the one that was indexed. */
static fby_status open_mapped(fby_dataset *ds, uint32_t file, fby__file **out, fby_error *err)
{
    uint32_t slot = file % FBY__MAP_SLOTS;
    pthread_mutex_lock(&ds->recent.lock);
    if (ds->recent.maps[slot].opened && ds->recent.maps[slot].file == file)
        *out = fby__file_ref(ds->recent.maps[slot].opened);
    pthread_mutex_unlock(&ds->recent.lock);
    if (*out)
        return FBY_OK;
    FBY__TRY(open_again(ds, file, out, err));
    pthread_mutex_lock(&ds->recent.lock);
    fby__file *old = ds->recent.maps[slot].opened;
    ds->recent.maps[slot].opened = fby__file_ref(*out);
    ds->recent.maps[slot].file = file;
    pthread_mutex_unlock(&ds->recent.lock);
    fby__file_unref(old);
    return FBY_OK;
}

fby_status fby__dataset_open_file(const fby_dataset *const_ds, uint32_t file, fby__file **out, fby_error *err)
{
    fby_dataset *ds = (fby_dataset *)(uintptr_t)const_ds; /* the open files are a cache under their own lock */
    *out = NULL;
    if (ds->memory_table)
        return FBY_OK;
    if (ds->config.io == FBY_IO_MMAP)
        return open_mapped(ds, file, out, err);
    return open_again(ds, file, out, err);
}

/* ---- what samples ask ---- */

uint32_t fby__dataset_file_count(const fby_dataset *ds) { return ds->n_files; }

fby__file_facts fby__dataset_facts(const fby_dataset *ds, uint32_t file)
{
    const fby__dataset_file *f = &ds->files[file];
    const uint64_t first_row = f->n_blocks ? ds->blocks[f->first_block].first_row : 0;
    return (fby__file_facts){.path = f->path,
                             .name = f->name,
                             .constants = f->constants,
                             .rows = f->rows,
                             .first_row = first_row,
                             .end_row = f->n_blocks ? first_row + f->rows : 0};
}

fby__file_row fby__dataset_file_row(const fby_dataset *ds, uint64_t row)
{
    const fby__file_facts file = fby__dataset_facts(ds, fby__dataset_block(ds, fby__block_of_row(ds, row))->file);
    return (fby__file_row){file.path, row - file.first_row, ds->memory_table ? "data set" : "file"};
}

fby__constants fby__dataset_constants(const fby_dataset *ds)
{
    return (fby__constants){.names = ds->constants, .n = ds->n_constants, .source = ds->source_constant};
}

uint32_t fby__block_of_row(const fby_dataset *ds, uint64_t row)
{
    uint32_t lo = 0, hi = ds->n_blocks;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (ds->blocks[mid].first_row <= row)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

fby__hash128 fby__dataset_hash(fby__hash128 key, const fby_dataset *ds)
{
    const fby__format_opts *f = &ds->config.format;
    int numbers[] = {f->axis, f->axes, f->single, f->stored_values};
    key = fby__hash_more(key, &ds->stamps, sizeof ds->stamps);
    key = fby__hash_more(key, numbers, sizeof numbers);
    for (uint32_t i = 0; i < ds->n_files; i++)
        for (uint32_t c = 0; c < ds->n_constants; c++) {
            const char *text = ds->files[i].constants[c]; /* of the pattern: NULL = missing */
            key = fby__hash_more(key, text ? text : "", text ? strlen(text) + 1 : 0);
        }
    if (f->table)
        key = fby__hash_more(key, f->table, strlen(f->table) + 1);
    return f->dimension ? fby__hash_more(key, f->dimension, strlen(f->dimension) + 1) : key;
}

static bool has_racy(const fby_dataset *ds)
{
    for (uint32_t i = 0; i < ds->n_files; i++)
        if (ds->files[i].racy)
            return true;
    return false;
}

bool fby__dataset_is_settled(const fby_dataset *ds) { return ds->config.cache_dir && !has_racy(ds); }

bool fby__dataset_same(const fby_dataset *a, const fby_dataset *b)
{
    if (a == b)
        return true;
    const fby__hash128 key = {0};
    return a->n_files == b->n_files && a->n_files > 0 && a->files[0].path && b->files[0].path && a->inodes == b->inodes &&
           fby__dataset_block_count(a) == fby__dataset_block_count(b) && fby__dataset_verify_crc(a) == fby__dataset_verify_crc(b) &&
           !has_racy(a) && !has_racy(b) && fby__hash_equal(fby__dataset_hash(key, a), fby__dataset_hash(key, b));
}

const char *fby__dataset_cache_dir(const fby_dataset *ds) { return ds->config.cache_dir; }
