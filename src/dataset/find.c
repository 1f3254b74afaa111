/*
 * From sources to a list of files: a path, a directory, a glob, a pattern, a list, a mapping.
 *
 * Order: a list keeps its own; what one source finds is sorted bytewise by relative name. Nothing here opens a data file.
 *
 * Names are relative to the dataset's root, so that a copy elsewhere has the same identity: the source's directory for one
 * source, "name/…" for a mapping, the deepest directory that holds all sources for a list (by the text of the paths).
 */
#include "base/sort.h"
#include "dataset/dataset_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef enum source_kind { SOURCE_FILE, SOURCE_DIRECTORY, SOURCE_PATTERN, SOURCE_SKIPPED } source_kind;

typedef struct source {
    source_kind kind;
    const char *root; /* the directory that names are relative to, "" = the working directory */
    fby__pattern pattern;
} source;

static fby_status fail_missing(fby_error *err, const char *fmt, const char *path, const char *more)
{
    fby_status status = fby__fail(err, FBY_E_IO, fmt, path, more);
    if (err)
        err->sys_errno = ENOENT;
    return status;
}

/* "no such file or directory", with what its directory does hold. */
static fby_status fail_absent(const char *path, fby__arena *arena, fby_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0)
        return fail_missing(err, "'%s' is a broken symbolic link%s", path, "");
    const char *base = fby__path_base(path);
    fby__found near_files = {0};
    fby__walk w = {.arena = arena, .found = &near_files, .id_name = FBY__NONE, .source_column = FBY__NONE};
    /* List the directory by the pattern "*": only to say what is there, so its own errors do not matter. */
    char text[400] = "";
    fby__pattern all = {
        .root = fby__arena_copy(arena, path, (size_t)(base - path)), .parts = &(fby__path_part){FBY__PATH_PART_MATCH, "?*"}, .n_parts = 1};
    w.pattern = &all;
    if (all.root && fby__walk_set_path(&w, all.root, NULL) == FBY_OK) {
        w.names_only = true;
        (void)fby__walk_pattern(&w, NULL);
        fby__near near = {.wanted = base};
        for (size_t i = 0; i < near_files.n_files; i++)
            fby__near_offer(&near, fby__path_base(near_files.files[i].path));
        if (near.n)
            fby__near_text(&near, text, sizeof text);
        else if (w.n_dirs && near_files.n_files)
            (void)snprintf(text, sizeof text, "; its directory holds %zu other names, such as '%.200s'", near_files.n_files,
                           fby__path_base(near_files.files[0].path));
        else
            (void)snprintf(text, sizeof text, w.n_dirs ? "; its directory is empty" : "; its directory does not exist either");
    }
    fby__buf_fini(&w.path);
    fby__found_fini(&near_files);
    return fail_missing(err, "no such file or directory: '%s'%s", path, text);
}

/* Letters and digits before "://": s3, https, abfss. */
static bool is_url(const char *path)
{
    const size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n > 1 && strncmp(path + n, "://", 3) == 0;
}

static fby_status fail_url(const char *path, fby_error *err)
{
    if (strncmp(path, "file://", 7) == 0)
        return fail_missing(err, "'%s' is a URL: write the path alone, '%s'", path, strchr(path + 7, '/') ? strchr(path + 7, '/') : "/");
    return fail_missing(err, "'%s' is a URL, and only files of a file system are read%s", path,
                        ": copy the files to a local disk first, or mount the store as a directory and open that");
}

static fby_status classify(const char *path, fby__arena *arena, bool has_ids, source *out, fby_error *err)
{
    *out = (source){0};
    struct stat st;
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) {
            out->kind = SOURCE_DIRECTORY;
            out->root = path;
            return FBY_OK;
        }
        /* Sockets and the like are refused with the right words when they are opened. */
        out->kind = SOURCE_FILE;
        size_t n = (size_t)(fby__path_base(path) - path);
        while (n > 1 && path[n - 1] == '/')
            n--;
        out->root = fby__arena_copy(arena, path, n);
        return out->root ? FBY_OK : fby__fail_nomem(err, "paths");
    }
    int error = errno;
    if (error != ENOENT && error != ENOTDIR && error != ENAMETOOLONG)
        return fby__fail_errno(err, error, "cannot open '%s'", path);
    if (is_url(path))
        return fail_url(path, err);
    if (fby__glob_has_wildcards(path)) {
        out->kind = SOURCE_PATTERN;
        FBY__TRY(fby__pattern_parse(path, arena, &out->pattern, err));
        out->root = out->pattern.root;
        return FBY_OK;
    }
    if (has_ids) { /* a listed file that is gone matters only when its id is wanted: the walk sees to that */
        out->kind = SOURCE_SKIPPED;
        return FBY_OK;
    }
    return fail_absent(path, arena, err);
}

static fby_status add_column(fby__found *found, const char *name, uint32_t *out, fby_error *err)
{
    for (uint32_t i = 0; i < found->n_columns; i++)
        if (strcmp(found->columns[i], name) == 0) {
            *out = i;
            return FBY_OK;
        }
    const char **columns = fby__realloc_array(found->columns, found->n_columns + 1, sizeof *columns);
    if (!columns)
        return fby__fail_nomem(err, "constant columns");
    found->columns = columns;
    columns[found->n_columns] = name;
    *out = found->n_columns++;
    return FBY_OK;
}

static int compare_ids(const void *a, const void *b) { return strcmp(((const fby__id *)a)->text, ((const fby__id *)b)->text); }

static fby_status sort_ids(const fby_open_opts *opts, fby__id **out, fby_error *err)
{
    fby__id *ids = fby__calloc(opts->n_ids, sizeof *ids);
    if (!ids)
        return fby__fail_nomem(err, "ids");
    for (size_t i = 0; i < opts->n_ids; i++) {
        ids[i].text = opts->ids[i];
        if (!ids[i].text) {
            fby__free(ids);
            return fby__fail(err, FBY_E_ARG, "id %zu is NULL", i);
        }
    }
    const fby_status status = fby__sort(ids, opts->n_ids, sizeof *ids, compare_ids, err);
    if (status == FBY_OK)
        *out = ids;
    else
        fby__free(ids);
    return status;
}

/* Count the ids that no file has, and name the first few. An id that is listed twice counts once. */
static void count_missing_ids(const fby__walk *w, fby__found *out)
{
    size_t n_named = 0, used = 0;
    for (size_t i = 0, j; i < w->n_ids; i = j) {
        bool found = false;
        const char *text = w->ids[i].text;
        for (j = i; j < w->n_ids && strcmp(w->ids[j].text, text) == 0; j++)
            found |= w->ids[j].used;
        out->n_ids++;
        if (found)
            continue;
        out->n_missing_ids++;
        if (n_named < 5 && used + strlen(text) + 8 < sizeof out->missing_ids) {
            used += (size_t)snprintf(out->missing_ids + used, sizeof out->missing_ids - used, "%s'%s'", n_named ? ", " : "", text);
            n_named++;
        }
    }
    if (n_named < out->n_missing_ids)
        (void)snprintf(out->missing_ids + used, sizeof out->missing_ids - used, ", …"); /* fits: see above */
}

static fby_status check_ids(const fby__walk *w, const fby_source *asked, size_t n_sources, fby_missing_ids missing, fby__found *out,
                            fby_error *err)
{
    count_missing_ids(w, out);
    const bool any = out->n_missing_ids < out->n_ids;
    if (out->n_missing_ids == 0 || (missing == FBY_MISSING_IDS_SKIP && any))
        return FBY_OK;
    char where[300], others[160] = "", hint[300] = "";
    if (n_sources == 1)
        (void)snprintf(where, sizeof where, "'%.250s'", asked->path);
    else
        (void)snprintf(where, sizeof where, "any of the %zu sources", n_sources);
    if (*w->other_id)
        (void)snprintf(others, sizeof others, "; others are there, such as '%s'", w->other_id);
    if (!any && w->pattern && w->pattern->n_names)
        (void)snprintf(hint, sizeof hint, "; no id matched at all: is {%.100s} the part of the pattern that they are (id_column)?",
                       w->pattern->names[w->id_name]);
    else if (!any)
        (void)snprintf(hint, sizeof hint,
                       "; no id matched at all: without a pattern, ids are names of files without extension; write a "
                       "pattern where they are another part of the path, such as 'data/{id}/values.parquet'");
    return fby__fail(err, FBY_E_SCHEMA, "no file in %s for %zu of the ids: %s%s%s", where, out->n_missing_ids, out->missing_ids, others,
                     hint);
}

static int compare_found(const void *a, const void *b)
{
    return strcmp(((const fby__found_file *)a)->name, ((const fby__found_file *)b)->name);
}

/* Sort what one source found, and drop what "**" reached twice. */
static fby_status sort_source(fby__found *found, size_t first, fby_error *err)
{
    size_t at = first + 1;
    while (at < found->n_files && compare_found(&found->files[at - 1], &found->files[at]) < 0)
        at++;
    if (at >= found->n_files)
        return FBY_OK; /* what one folder holds comes in order */
    FBY__TRY(fby__sort(found->files + first, found->n_files - first, sizeof *found->files, compare_found, err));
    size_t n = first + 1;
    for (size_t i = first + 1; i < found->n_files; i++)
        if (strcmp(found->files[i].name, found->files[n - 1].name) != 0)
            found->files[n++] = found->files[i];
    found->n_files = n;
    return FBY_OK;
}

static fby_status fail_nothing(const fby_source *asked, const source *src, const fby__walk *w, fby_error *err)
{
    const char *root = *src->root ? src->root : ".";
    char more[500];
    struct stat st;
    if (src->kind == SOURCE_DIRECTORY)
        (void)snprintf(more, sizeof more,
                       "; directories searched: %llu, names in them: %llu (those that begin with '.' or '_' do not count)",
                       (unsigned long long)w->n_dirs, (unsigned long long)w->n_seen);
    else if (stat(root, &st) != 0)
        (void)snprintf(more, sizeof more, "; there is no directory '%.300s'", root);
    else
        (void)snprintf(more, sizeof more, "; directories searched from '%.200s': %llu, names in them: %llu%s%s", root,
                       (unsigned long long)w->n_dirs, (unsigned long long)w->n_seen, w->n_sample ? ", such as " : "", w->sample);
    return fail_missing(err, src->kind == SOURCE_DIRECTORY ? "no files in the directory '%s'%s" : "no file matches '%s'%s", asked->path,
                        more);
}

static fby_status search(fby__walk *w, const fby_source *asked, const source *src, const fby_open_opts *opts, fby_error *err)
{
    size_t first = w->found->n_files;
    w->pattern = src->kind == SOURCE_PATTERN ? &src->pattern : NULL;
    w->id_name = FBY__NONE;
    if (w->ids && w->pattern && w->pattern->n_names)
        w->id_name = opts->id_column ? fby__pattern_name(w->pattern, opts->id_column, strlen(opts->id_column)) : w->pattern->n_names - 1;
    if (opts->id_column && w->ids && w->id_name == FBY__NONE)
        return fby__fail(err, FBY_E_ARG, "id_column '%s' is no {%s} of '%s'", opts->id_column, opts->id_column, asked->path);
    FBY__TRY(fby__walk_set_path(w, src->kind == SOURCE_FILE || src->kind == SOURCE_SKIPPED ? asked->path : src->root, err));
    w->root_n = src->kind == SOURCE_FILE ? (size_t)(fby__path_base(asked->path) - asked->path) : w->path.n;
    w->n_dirs = w->n_seen = w->n_sample = 0;
    w->sample[0] = 0;
    if (src->kind == SOURCE_FILE)
        return fby__walk_add(w, true, err);
    if (src->kind == SOURCE_SKIPPED) {
        const char *base = fby__path_base(asked->path);
        bool skip = opts->missing_ids == FBY_MISSING_IDS_SKIP;
        return fby__walk_has_id(w, base, fby__path_stem(base)) && !skip ? fail_absent(asked->path, w->arena, err) : FBY_OK;
    }
    FBY__TRY(w->pattern ? fby__walk_pattern(w, err) : fby__walk_directory(w, err));
    if (w->found->n_files == first && !w->ids)
        return fail_nothing(asked, src, w, err);
    FBY__TRY(sort_source(w->found, first, err));
    return FBY_OK;
}

/* Bytes of the deepest directory that two absolute paths share. */
static size_t common_directory(const char *a, size_t n, const char *b)
{
    size_t i = 0, last = 0;
    for (; i < n && a[i] == b[i] && a[i]; i++)
        if (a[i] == '/')
            last = i;
    bool a_ends = i == n, b_ends = !b[i];
    if (a_ends && (b_ends || b[i] == '/' || (n && a[n - 1] == '/')))
        return n;
    if (b_ends && a[i] == '/')
        return i;
    return last ? last : 1; /* "/" */
}

/* Names relative to the dataset's root, where there are several sources; before that they are relative to their source's. */
static fby_status name_files(const fby_source *asked, const source *sources, size_t n, fby__arena *arena, fby__found *found, fby_error *err)
{
    bool mapping = asked[0].name != NULL;
    for (size_t i = 0; i < found->n_files; i++)
        for (const char *p = found->files[i].name; (p = strchr(p, '/')) != NULL; p++)
            found->files[i].up++;
    if (n == 1 && !mapping)
        return FBY_OK;
    const char **prefix = fby__calloc(n, sizeof *prefix);
    fby_status status = FBY_OK;
    if (!prefix)
        return fby__fail_nomem(err, "paths");
    size_t common = SIZE_MAX;
    const char *shared = "";
    for (size_t i = 0; i < n; i++) {
        if (mapping) {
            prefix[i] = asked[i].name;
            continue;
        }
        if (i > 0 && sources[i].root && sources[i - 1].root && strcmp(sources[i].root, sources[i - 1].root) == 0) {
            prefix[i] = prefix[i - 1]; /* a list of files of one directory */
            continue;
        }
        if (!sources[i].root)
            continue;
        status = fby__path_absolute(arena, *sources[i].root ? sources[i].root : ".", &prefix[i], err);
        if (status != FBY_OK)
            goto done;
        if (common == SIZE_MAX) {
            shared = prefix[i];
            common = strlen(shared);
        } else {
            common = common_directory(shared, common, prefix[i]);
        }
    }
    for (size_t i = 0; i < found->n_files; i++) {
        fby__found_file *file = &found->files[i];
        const char *front = prefix[file->source];
        if (!mapping) {
            front += common;
            front += *front == '/';
        }
        if (!*front)
            continue;
        file->name = fby__path_join(arena, front, file->name);
        if (!file->name) {
            status = fby__fail_nomem(err, "paths");
            goto done;
        }
    }
done:
    fby__free(prefix);
    return status;
}

/* A key of what was asked for, not of what was found: a new file in a directory leaves the others' index entries valid. */
static fby_status make_key(const fby_source *asked, size_t n, const fby__id *ids, const fby_open_opts *opts, fby__arena *arena,
                           fby__found *found, fby_error *err)
{
    fby__hash128 key = fby__hash("forebay", 7);
    for (size_t i = 0; i < n; i++) {
        const char *path;
        FBY__TRY(fby__path_absolute(arena, asked[i].path, &path, err));
        key = fby__hash_more(key, path, strlen(path));
        key = fby__hash_more(key, asked[i].name ? asked[i].name : "", asked[i].name ? strlen(asked[i].name) + 1 : 0);
    }
    for (size_t i = 0; ids && i < opts->n_ids; i++)
        key = fby__hash_more(key, ids[i].text, strlen(ids[i].text));
    if (ids && opts->id_column)
        key = fby__hash_more(key, opts->id_column, strlen(opts->id_column));
    const char *texts[] = {opts->table ? opts->table : "", opts->dimension ? opts->dimension : ""};
    const int axes[] = {opts->sample_axis, opts->sample_axes, opts->single, opts->stored_values};
    for (int i = 0; i < 2; i++)
        key = fby__hash_more(key, texts[i], strlen(texts[i]) + 1);
    for (size_t i = 0; i < opts->n_external; i++)
        key = fby__hash_more(key, opts->external[i], strlen(opts->external[i]) + 1);
    found->key = fby__hash_more(key, axes, sizeof axes);
    return FBY_OK;
}

fby_status fby__find(const fby_source *asked, size_t n, const fby_open_opts *opts, fby__arena *arena, fby__found *out, fby_error *err)
{
    fby_status status;
    *out = (fby__found){0};
    if (!asked || n == 0)
        return fby__fail(err, FBY_E_ARG, "no source: give at least one path");
    for (size_t i = 0; i < n; i++) {
        if (!asked[i].path || !*asked[i].path)
            return fby__fail(err, FBY_E_ARG, "source %zu has no path", i);
        if (!asked[i].name != !asked[0].name)
            return fby__fail(err, FBY_E_ARG, "either all sources have a name (a mapping) or none has");
    }
    fby__walk w = {.arena = arena, .found = out, .source_column = FBY__NONE};
    source *sources = fby__calloc(n, sizeof *sources);
    if (!sources)
        return fby__fail_nomem(err, "sources");
    if (opts->ids) {
        w.n_ids = opts->n_ids;
        status = sort_ids(opts, &w.ids, err);
        if (status != FBY_OK)
            goto done;
    }
    if (asked[0].name) {
        status = add_column(out, opts->source_column ? opts->source_column : "source", &w.source_column, err);
        if (status != FBY_OK)
            goto done;
    }
    out->source_column = w.source_column;
    for (size_t i = 0; i < n; i++) {
        status = classify(asked[i].path, arena, w.ids != NULL, &sources[i], err);
        uint32_t column = FBY__NONE;
        for (uint32_t k = 0; status == FBY_OK && k < sources[i].pattern.n_names; k++) {
            status = add_column(out, sources[i].pattern.names[k], &column, err);
            if (status == FBY_OK && column == w.source_column)
                status = fby__fail(err, FBY_E_ARG, "'%s' is both a brace of '%s' and the column of the sources' names; set source_column",
                                   out->columns[column], asked[i].path);
        }
        if (status != FBY_OK)
            goto done;
    }
    for (size_t i = 0; i < n; i++) {
        w.source = (uint32_t)i;
        w.source_name = asked[i].name ? fby__arena_copy(arena, asked[i].name, strlen(asked[i].name)) : NULL;
        status = asked[i].name && !w.source_name ? fby__fail_nomem(err, "sources") : FBY_OK;
        for (uint32_t k = 0; status == FBY_OK && k < sources[i].pattern.n_names; k++)
            status = add_column(out, sources[i].pattern.names[k], &w.brace_column[k], err);
        if (status == FBY_OK)
            status = search(&w, &asked[i], &sources[i], opts, err);
        if (status != FBY_OK)
            goto done;
    }
    if (w.ids) {
        status = check_ids(&w, asked, n, opts->missing_ids, out, err);
        if (status != FBY_OK)
            goto done;
    }
    status = name_files(asked, sources, n, arena, out, err);
    for (size_t i = 0; status == FBY_OK && !w.ids && i < n; i++)
        if (sources[i].kind == SOURCE_DIRECTORY || sources[i].kind == SOURCE_PATTERN)
            status = fby__searched_add(out, arena, sources[i].root, sources[i].kind == SOURCE_PATTERN ? &sources[i].pattern : NULL, err);
    if (status == FBY_OK)
        status = make_key(asked, n, w.ids, opts, arena, out, err);
done:
    fby__free(sources);
    fby__free(w.ids);
    fby__buf_fini(&w.path);
    if (status != FBY_OK)
        fby__found_fini(out);
    return status;
}

void fby__found_fini(fby__found *found)
{
    fby__free(found->files);
    fby__free(found->columns);
    *found = (fby__found){0};
}
