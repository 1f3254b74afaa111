/* What is odd about a dataset, as sentences with numbers in them. Nothing here is an error: it is what a colleague would mention. */
#include "base/printable.h"
#include "dataset/dataset_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define MAX_SCHEMAS_ASKED 16u         /* for what their files leave out */
#define MAX_COLUMN_NOTES 8            /* of one sort: then "and N more columns" */
#define TINY_BLOCK_BYTES (64u << 10)  /* below it a block's read costs more in latency than in bytes */
#define HEAVY_FOOTER_BYTES (1u << 20) /* in all: less is not worth a word */
#define HUGE_GROUP_BYTES (1u << 30)

fby_status fby__notes_add(fby_dataset *ds, fby_error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const fby_status status = fby__notes_putv(&ds->notes, err, fmt, ap);
    va_end(ap);
    return status;
}

typedef unsigned long long ull;

static fby_status note_left_out(fby_dataset *ds, fby_error *err)
{
    if (ds->seen.n_unknown)
        FBY__TRY(fby__notes_add(ds, err, "%llu file%s left out because no reader knows the content, such as '%s'", (ull)ds->seen.n_unknown,
                                ds->seen.n_unknown == 1 ? " was" : "s were", ds->seen.unknown));
    if (ds->seen.n_special)
        FBY__TRY(fby__notes_add(ds, err, "%llu socket%s, fifos or devices were left out", (ull)ds->seen.n_special,
                                ds->seen.n_special == 1 ? "" : "s"));
    if (ds->seen.n_hard_links)
        FBY__TRY(fby__notes_add(ds, err, "%llu files are hard links to other files of the data set: their rows come more than once",
                                (ull)ds->seen.n_hard_links));
    uint32_t empty = 0;
    const char *example = "";
    for (uint32_t i = 0; i < ds->n_files; i++)
        if (ds->files[i].rows == 0 && empty++ == 0)
            example = ds->files[i].name;
    if (empty && !ds->memory_table)
        FBY__TRY(fby__notes_add(ds, err, "%u of %u files have no rows, such as '%s'", empty, ds->n_files, example));
    return FBY_OK;
}

/* Files that lack a top-level column, counted by schema. */
static uint64_t count_lacking(const fby_dataset *ds, const char *name, const uint64_t *files_of)
{
    uint64_t n = 0;
    uint32_t hint = 0;
    for (uint32_t s = 0; s < ds->n_schemas; s++)
        if (!fby__join_child(&ds->schemas[s]->fields[0], name, &hint))
            n += files_of[s];
    return n;
}

/* Columns that something is the matter with, in one note; and each of them as one that is left out. */
static fby_status note_list(fby_dataset *ds, const fby__column_list *list, const char *of_one, const char *of_several, const char *why,
                            fby_error *err)
{
    char names[MAX_COLUMN_NOTES * 70] = "";
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        FBY__TRY(fby__notes_put(&ds->left_out, err, "'%.200s': %s", list->at[i], why));
        if (i < MAX_COLUMN_NOTES)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s'%.60s'", i == 0 ? "" : ", ", list->at[i]);
    }
    if (list->n > MAX_COLUMN_NOTES)
        return fby__notes_add(ds, err, "the columns %s and %zu more %s", names, list->n - MAX_COLUMN_NOTES, of_several);
    return list->n ? fby__notes_add(ds, err, "the column%s %s %s", list->n == 1 ? "" : "s", names, list->n == 1 ? of_one : of_several)
                   : FBY_OK;
}

static fby_status note_columns(fby_dataset *ds, const uint64_t *files_of, fby_error *err)
{
    const fby__schema *schema = ds->schema;
    uint32_t n_missing = 0, n_conflicts = 0;
    for (uint32_t i = 1; i < schema->n_fields; i++) {
        const fby_field *field = &schema->fields[i];
        const fby__join *join = &ds->join[i];
        const char *a = join->missing == FBY__NONE ? "" : ds->files[ds->schema_file[join->missing]].name;
        if (join->missing != FBY__NONE && n_missing++ < MAX_COLUMN_NOTES) {
            if (schema->nodes[i].parent == 0) {
                uint64_t n = count_lacking(ds, field->name, files_of);
                FBY__TRY(fby__notes_add(ds, err, "%llu of %u files lack%s the column '%s', such as '%s'", (ull)n, ds->n_files,
                                        n == 1 ? "s" : "", field->path, a));
            } else {
                FBY__TRY(fby__notes_add(ds, err, "some files lack '%s', such as '%s'", field->path, a));
            }
        }
        if (join->conflict_a != FBY__NONE && n_conflicts++ < MAX_COLUMN_NOTES) {
            char x[120], y[120];
            (void)fby_field_type_text(join->type_a, x, sizeof x);
            (void)fby_field_type_text(join->type_b, y, sizeof y);
            FBY__TRY(fby__notes_add(ds, err, "the column '%s' cannot be used: it is %s in '%s' but %s in '%s'", field->path, x,
                                    ds->files[ds->schema_file[join->conflict_a]].name, y,
                                    ds->files[ds->schema_file[join->conflict_b]].name));
        }
    }
    if (n_missing > MAX_COLUMN_NOTES)
        FBY__TRY(fby__notes_add(ds, err, "%u more columns are missing in some files", n_missing - MAX_COLUMN_NOTES));
    if (n_conflicts > MAX_COLUMN_NOTES)
        FBY__TRY(fby__notes_add(ds, err, "%u more columns have types that do not join", n_conflicts - MAX_COLUMN_NOTES));
    FBY__TRY(note_list(ds, &ds->seen.hidden, "comes from the files' names; the column of that name inside the files is hidden",
                       "come from the files' names; the columns of those names inside the files are hidden",
                       "hidden by the column of that name that comes from the files' names", err));
    return note_list(ds, &ds->seen.duplicate, "is there twice in a file; the first one counts",
                     "are there twice in a file; the first ones count", "the second column of that name in a file", err);
}

static fby_status note_schemas(fby_dataset *ds, fby_error *err)
{
    uint64_t *files_of = fby__calloc(ds->n_schemas, sizeof *files_of);
    if (!files_of)
        return fby__fail_nomem(err, "notes");
    for (uint32_t i = 0; i < ds->n_files; i++)
        files_of[ds->files[i].schema]++;
    fby_status status = FBY_OK;
    if (ds->n_schemas > 1)
        status = fby__notes_add(ds, err, "the %u files have %u different schemas, joined by column name", ds->n_files, ds->n_schemas);
    if (status == FBY_OK)
        status = note_columns(ds, files_of, err);
    fby__free(files_of);
    FBY__TRY(status);
    uint32_t n_int96 = 0;
    const char *int96 = "";
    for (uint32_t s = 0; s < ds->n_schemas; s++) {
        const fby__schema *schema = ds->schemas[s];
        for (uint32_t i = 0; !ds->memory_table && i < schema->n_leaves; i++)
            if (schema->leaves[i].physical == 3 && strcmp(ds->files[ds->schema_file[s]].ops->name, "parquet") == 0 &&
                schema->fields[schema->leaves[i].field].kind == FBY_KIND_TIMESTAMP && n_int96++ == 0)
                int96 = schema->fields[schema->leaves[i].field].path;
    }
    if (n_int96)
        FBY__TRY(fby__notes_add(ds, err, "%u timestamp column%s stored as INT96 (deprecated), such as '%s'", n_int96,
                                n_int96 == 1 ? " is" : "s are", int96));
    return FBY_OK;
}

static fby_status note_sizes(fby_dataset *ds, fby_error *err)
{
    const char *groups_text = fby__dataset_groups_text(ds);
    uint64_t groups = 0, huge = 0, cut = 0, heavy = 0, metadata = 0, biggest = 0;
    const char *huge_name = "";
    for (uint32_t i = 0; i < ds->n_files; i++) {
        const fby__dataset_file *file = &ds->files[i];
        for (uint32_t g = 0; g < file->n_groups; g++) {
            uint64_t bytes = file->groups[g].stored_bytes;
            groups += file->groups[g].rows > 0;
            cut += bytes > FBY__BLOCK_STORED_BYTES && file->groups[g].rows > 1;
            huge += bytes > HUGE_GROUP_BYTES;
            if (bytes > HUGE_GROUP_BYTES && bytes > biggest) {
                biggest = bytes;
                huge_name = file->name;
            }
        }
        if (file->rows && file->metadata_bytes > file->stored_bytes) {
            heavy++;
            metadata += file->metadata_bytes;
        }
    }
    if (cut && groups_text)
        FBY__TRY(fby__notes_add(ds, err, "%llu of %llu %s are larger than %u MiB as stored and are cut into blocks of equal rows", (ull)cut,
                                (ull)groups, groups_text, FBY__BLOCK_STORED_BYTES >> 20));
    if (huge && groups_text)
        FBY__TRY(fby__notes_add(ds, err, "%llu %s are larger than 1 GiB as stored, the largest (%.1f GiB) in '%s'", (ull)huge, groups_text,
                                (double)biggest / (1u << 30), huge_name));
    if (groups > 16 && ds->stored_bytes / groups < TINY_BLOCK_BYTES)
        FBY__TRY(fby__notes_add(
            ds, err, "the %llu %s are small: %.1f KiB stored and %llu rows on average, so reading them is mostly latency", (ull)groups,
            groups_text ? groups_text : "files", (double)ds->stored_bytes / (double)groups / 1024, (ull)(ds->rows / groups)));
    if (heavy && metadata > HEAVY_FOOTER_BYTES)
        FBY__TRY(fby__notes_add(ds, err, "in %llu of %u files the metadata is larger than the data (%.1f MiB of metadata)", (ull)heavy,
                                ds->n_files, (double)metadata / (1u << 20)));
    return FBY_OK;
}

/* One that another file has too is told once. */
static fby_status add_left_out(fby_dataset *ds, uint32_t file, const char *name, const char *why, fby_error *err)
{
    char quoted[220];
    const int n = snprintf(quoted, sizeof quoted, "'%.200s'", name);
    fby__make_printable(quoted, sizeof quoted, n >= (int)sizeof quoted);
    for (size_t i = 0; i < ds->left_out.n; i++)
        if (strncmp(ds->left_out.text[i], quoted, strlen(quoted)) == 0)
            return FBY_OK;
    if (ds->n_files == 1)
        return fby__notes_put(&ds->left_out, err, "%s: %.1000s", quoted, why);
    return fby__notes_put(&ds->left_out, err, "%s of '%.120s': %.1000s", quoted, ds->files[file].name, why);
}

/* The first file of each schema: those that are alike lack the same. */
static fby_status list_left_out(fby_dataset *ds, fby_error *err)
{
    for (uint32_t s = 0; s < ds->n_schemas && s < MAX_SCHEMAS_ASKED; s++) {
        uint32_t file = ds->schema_file[s];
        const char *name, *why;
        fby__table *table = NULL;
        if (file >= ds->n_files || !ds->files[file].ops->left_out || fby__dataset_table(ds, file, &table, NULL) != FBY_OK)
            continue; /* who reads the file will be told */
        fby_status status = FBY_OK;
        for (uint32_t i = 0; status == FBY_OK && table->ops->left_out(table, i, &name, &why); i++)
            status = add_left_out(ds, file, name, why, err);
        fby__table_unref(table);
        FBY__TRY(status);
    }
    return FBY_OK;
}

/* What the first file's format says of its table; files of one dataset mostly have the same to say. */
static fby_status note_table(fby_dataset *ds, fby_error *err)
{
    if (ds->n_files == 0 || !ds->files[0].ops || !ds->files[0].ops->note)
        return FBY_OK;
    fby__table *table = NULL;
    fby_status status = fby__dataset_table(ds, 0, &table, err);
    char text[1200];
    for (uint32_t i = 0; status == FBY_OK && ds->files[0].ops->note(table, i, text, sizeof text); i++)
        status = ds->n_files == 1 ? fby__notes_add(ds, err, "%s", text) : fby__notes_add(ds, err, "'%.120s': %s", ds->files[0].name, text);
    fby__table_unref(table);
    return status == FBY_OK || status == FBY_E_NOMEM ? status : FBY_OK; /* who reads the file will be told */
}

/* Files read anew: can it be told whether somebody writes to them? One of them stands for all. */
static fby_status note_locks(fby_dataset *ds, fby_error *err)
{
    uint32_t i = 0;
    while (i < ds->n_files && (ds->files[i].from_cache || !ds->files[i].ops->may_read))
        i++;
    fby__file *file = NULL;
    if (i == ds->n_files || fby__file_open(ds->files[i].path, NULL, &file, NULL) != FBY_OK)
        return FBY_OK;
    bool no_locks = false;
    (void)ds->files[i].ops->may_read(file, &ds->config.format, &no_locks, NULL);
    fby__file_unref(file);
    return no_locks
               ? fby__notes_add(ds, err,
                                "the file system of '%s' has no locks: a file that is being written cannot be told from one that is whole",
                                ds->files[i].name)
               : FBY_OK;
}

/*
 * Where locks are to be ignored: files that a writer holds all the same, by the kernel's own list. No lock is touched, since it may be
 * just that which hangs (a file system whose server does not answer). Device numbers that stat() has otherwise (btrfs) are not found there.
 */
static fby_status note_written(fby_dataset *ds, fby_error *err)
{
    if (ds->config.format.locks != FBY__LOCKS_IGNORED)
        return FBY_OK;
    FILE *locks = fopen("/proc/locks", "re");
    char line[256];
    uint32_t n = 0, first = 0;
    while (locks && fgets(line, sizeof line, locks)) {
        unsigned major, minor;
        uint64_t inode;
        struct stat st;
        if (sscanf(line, "%*u: FLOCK %*s WRITE %*d %x:%x:%" SCNu64, &major, &minor, &inode) != 3)
            continue;
        for (uint32_t i = 0; i < ds->n_files; i++)
            if (ds->files[i].ops && ds->files[i].ops->may_read && ds->files[i].stamp.inode == inode && stat(ds->files[i].path, &st) == 0 &&
                st.st_dev == makedev(major, minor)) {
                first = n == 0 || i < first ? i : first;
                n++;
            }
    }
    if (locks)
        (void)fclose(locks); /* nothing was written */
    if (n == 0)
        return FBY_OK;
    return fby__notes_add(ds, err, "'%.120s'%s being written, and read all the same, as HDF5_USE_FILE_LOCKING says: rows may be half there",
                          ds->files[first].name, n == 1 ? " is" : " and others are");
}

fby_status fby__notes_make(fby_dataset *ds, fby_error *err)
{
    FBY__TRY(note_left_out(ds, err));
    FBY__TRY(note_schemas(ds, err));
    if (!ds->memory_table) {
        FBY__TRY(note_locks(ds, err));
        FBY__TRY(note_written(ds, err));
        FBY__TRY(note_table(ds, err));
        FBY__TRY(list_left_out(ds, err));
        FBY__TRY(fby__dtypes_note(ds, err));
        FBY__TRY(note_sizes(ds, err));
    }
    if (ds->rows == 0)
        FBY__TRY(fby__notes_add(ds, err, "the data set has no rows: a loader refuses it"));
    return FBY_OK;
}
