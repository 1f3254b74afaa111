/*
 * Walking directories: all files below one, or those that match a pattern.
 *
 * Names are taken in sorted order, so that the first error is the same on every file system. With ids, files that are not
 * listed are neither opened nor stat'ed: a name is enough to leave them out, and where the pattern's rest is fixed the
 * paths are built without listing a directory at all.
 */
#include "dataset/dataset_impl.h"

#include "base/cancel.h"
#include "base/sort.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct name {
    union {
        size_t offset;    /* in listing.text, while it grows */
        const char *text; /* borrowed from there */
    };
    unsigned char type; /* DT_… */
} name;

typedef struct listing {
    fby__buf text;
    name *names;
    size_t n, cap;
    dev_t dev;
    ino_t ino;
} listing;

static void listing_fini(listing *l)
{
    fby__buf_fini(&l->text);
    fby__free(l->names);
}

static int compare_names(const void *a, const void *b) { return strcmp(((const name *)a)->text, ((const name *)b)->text); }

static const char *path_text(const fby__walk *w) { return w->path.n ? (const char *)w->path.data : "."; }

static fby_status put_path(fby__walk *w, const char *text, size_t n, fby_error *err)
{
    if (fby__buf_put(&w->path, text, n) != 0 || fby__buf_put(&w->path, "", 1) != 0)
        return fby__fail_nomem(err, "paths");
    w->path.n--;
    return FBY_OK;
}

fby_status fby__walk_set_path(fby__walk *w, const char *path, fby_error *err)
{
    w->path.n = 0;
    return put_path(w, path, strlen(path), err);
}

static fby_status push(fby__walk *w, const char *text, fby_error *err)
{
    if (w->path.n && w->path.data[w->path.n - 1] != '/')
        FBY__TRY(put_path(w, "/", 1, err));
    return put_path(w, text, strlen(text), err);
}

static void pop(fby__walk *w, size_t n)
{
    w->path.n = n;
    if (w->path.data)
        w->path.data[n] = 0;
}

/* The names of the directory at w->path, sorted. An absent one is an empty listing: nothing matches there. */
static fby_status list(fby__walk *w, listing *out, fby_error *err)
{
    fby_status status = FBY_OK;
    *out = (listing){0};
    FBY__TRY(fby__cancel_check(err));
    DIR *dir = opendir(path_text(w));
    if (!dir) {
        if (errno == ENOENT || errno == ENOTDIR)
            return FBY_OK;
        return fby__fail_errno(err, errno, "cannot read the directory '%s'", path_text(w));
    }
    struct stat st;
    if (fstat(dirfd(dir), &st) != 0) {
        status = fby__fail_errno(err, errno, "cannot read the directory '%s'", path_text(w));
        goto done;
    }
    out->dev = st.st_dev;
    out->ino = st.st_ino;
    for (unsigned i = 0; i < w->depth; i++)
        if (w->above[i].dev == st.st_dev && w->above[i].ino == st.st_ino) {
            status = fby__fail(err, FBY_E_IO, "directory loop: '%s' is '%.*s' again; remove the symbolic link or name the directories",
                               path_text(w), w->above[i].path_n ? (int)w->above[i].path_n : 1,
                               w->above[i].path_n ? (const char *)w->path.data : ".");
            goto done;
        }
    w->n_dirs++;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno)
                status = fby__fail_errno(err, errno, "cannot read the directory '%s'", path_text(w));
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (fby__grow((void **)&out->names, &out->cap, out->n + 1, sizeof *out->names) != 0 ||
            (out->names[out->n] = (name){.offset = out->text.n, .type = entry->d_type},
             fby__buf_put(&out->text, entry->d_name, strlen(entry->d_name) + 1)) != 0) {
            status = fby__fail_nomem(err, "directory listing");
            break;
        }
        if ((status = fby__cancel_check_at(++out->n, err)) != FBY_OK)
            break;
    }
    w->n_seen += out->n;
    for (size_t i = 0; i < out->n; i++)
        out->names[i].text = (const char *)out->text.data + out->names[i].offset;
    if (status == FBY_OK)
        status = fby__sort(out->names, out->n, sizeof *out->names, compare_names, err);
done:
    (void)closedir(dir); /* read only: nothing can be lost */
    if (status != FBY_OK) {
        listing_fini(out);
        *out = (listing){0};
    }
    return status;
}

/* List the directory at w->path and be inside it until leave(). */
static fby_status enter(fby__walk *w, listing *out, fby_error *err)
{
    FBY__TRY(list(w, out, err));
    if (w->depth == sizeof w->above / sizeof *w->above) {
        listing_fini(out);
        return fby__fail(err, FBY_E_IO, "'%s' is more than %u directories deep", path_text(w), w->depth);
    }
    w->above[w->depth].dev = out->dev;
    w->above[w->depth].ino = out->ino;
    w->above[w->depth++].path_n = w->path.n;
    return FBY_OK;
}

static void leave(fby__walk *w, listing *l)
{
    w->depth--;
    listing_fini(l);
}

static void remember(fby__walk *w, const char *text)
{
    size_t used = strlen(w->sample);
    if (w->n_sample < 4 && used + strlen(text) + 5 < sizeof w->sample) {
        (void)snprintf(w->sample + used, sizeof w->sample - used, "%s'%s'", w->n_sample ? ", " : "", text);
        w->n_sample++;
    }
}

static int compare_id(const void *key, const void *id)
{
    const fby__capture *wanted = key;
    const char *text = ((const fby__id *)id)->text;
    int order = strncmp(wanted->text, text, wanted->n);
    return order ? order : text[wanted->n] ? -1 : 0;
}

static fby__id *find_id(fby__walk *w, const char *text, size_t n)
{
    fby__capture wanted = {text, n};
    fby__id *found = bsearch(&wanted, w->ids, w->n_ids, sizeof *w->ids, compare_id);
    if (!found && !*w->other_id)
        (void)snprintf(w->other_id, sizeof w->other_id, "%.*s", (int)(n < sizeof w->other_id ? n : sizeof w->other_id - 1), text);
    return found;
}

bool fby__walk_has_id(fby__walk *w, const char *id, size_t n) { return !w->ids || find_id(w, id, n); }

fby_status fby__walk_add(fby__walk *w, bool strict, fby_error *err)
{
    FBY__TRY(fby__cancel_check_at(w->found->n_files, err));
    const char *base = fby__path_base(path_text(w));
    fby__capture id = w->id_name == FBY__NONE ? (fby__capture){base, fby__path_stem(base)} : w->captures[w->id_name];
    if (w->ids) {
        fby__id *listed = find_id(w, id.text, id.n);
        if (!listed)
            return FBY_OK;
        listed->used = true;
    }
    fby__found *found = w->found;
    if (found->n_files == UINT32_MAX - 1)
        return fby__fail(err, FBY_E_UNSUPPORTED, "more than %u files", UINT32_MAX - 1);
    if (fby__grow((void **)&found->files, &found->cap, found->n_files + 1, sizeof *found->files) != 0)
        return fby__fail_nomem(err, "list of files");
    fby__found_file *file = &found->files[found->n_files];
    *file = (fby__found_file){.source = w->source, .strict = strict};
    FBY__TRY(fby__path_anchor(w->arena, path_text(w), &file->path, err));
    file->name = file->path + strlen(file->path) - (w->path.n - w->root_n);
    file->name += *file->name == '/';
    if (found->n_columns) {
        file->constants = fby__arena_alloc(w->arena, found->n_columns * sizeof *file->constants);
        if (!file->constants)
            return fby__fail_nomem(err, "list of files");
        for (uint32_t i = 0; i < found->n_columns; i++)
            file->constants[i] = i == w->source_column ? w->source_name : NULL;
        for (uint32_t i = 0; w->pattern && i < w->pattern->n_names; i++) {
            const char *text = fby__arena_copy(w->arena, w->captures[i].text, w->captures[i].n);
            if (!text)
                return fby__fail_nomem(err, "list of files");
            file->constants[w->brace_column[i]] = text;
        }
    }
    found->n_files++;
    return FBY_OK;
}

/* What stands at w->path: DT_REG, DT_DIR, DT_UNKNOWN for anything else, DT_WHT for nothing. Links are followed. */
static fby_status type_of(fby__walk *w, unsigned char *out, fby_error *err)
{
    struct stat st;
    FBY__TRY(fby__cancel_check(err));
    if (stat(path_text(w), &st) == 0) {
        *out = S_ISREG(st.st_mode) ? DT_REG : S_ISDIR(st.st_mode) ? DT_DIR : DT_UNKNOWN;
        return FBY_OK;
    }
    int error = errno;
    struct stat link;
    if ((error == ENOENT || error == ENOTDIR) && lstat(path_text(w), &link) != 0) {
        *out = DT_WHT;
        return FBY_OK;
    }
    if (error == ENOENT) {
        char target[500];
        ssize_t n = readlink(path_text(w), target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        fby_status status = fby__fail(err, FBY_E_IO, "'%s' is a broken symbolic link to '%s'", path_text(w), target);
        if (err)
            err->sys_errno = ENOENT;
        return status;
    }
    return fby__fail_errno(err, error, "'%s'", path_text(w));
}

/* The type readdir gave, or the real one where it gave none or a link. */
static fby_status resolve_type(fby__walk *w, unsigned char *type, fby_error *err)
{
    return *type == DT_UNKNOWN || *type == DT_LNK ? type_of(w, type, err) : FBY_OK;
}

/* A name of the directory at w->path: does a pack lie there? whole: its files are taken, whatever they are called. */
static fby_status look_for_pack(fby__walk *w, const char *text, bool whole, fby_error *err)
{
    return strcmp(text, FBY__PACK_MANIFEST) == 0 ? fby__packs_note(w->found, w->arena, path_text(w), whole && !w->ids, err) : FBY_OK;
}

/* A file that a directory or "*" brought up: regular ones are added, what is no file or directory is counted. */
static fby_status add_typed(fby__walk *w, unsigned char type, bool strict, fby_error *err)
{
    if (type == DT_DIR)
        return fby__walk_directory(w, err);
    if (type == DT_REG)
        return fby__walk_add(w, strict, err);
    if (type != DT_WHT) /* DT_WHT: gone since it was listed */
        w->found->n_special++;
    return FBY_OK;
}

fby_status fby__walk_directory(fby__walk *w, fby_error *err)
{
    listing l;
    FBY__TRY(enter(w, &l, err));
    const size_t n = w->path.n;
    fby_status status = FBY_OK;
    for (size_t i = 0; i < l.n && status == FBY_OK; i++) {
        const char *text = l.names[i].text;
        unsigned char type = l.names[i].type;
        status = look_for_pack(w, text, true, err);
        if (fby__is_hidden(text))
            continue;
        /* A regular file whose stem is no wanted id needs no look at all. */
        if (type == DT_REG && w->id_name == FBY__NONE && !fby__walk_has_id(w, text, fby__path_stem(text)))
            continue;
        status = push(w, text, err);
        if (status == FBY_OK)
            status = resolve_type(w, &type, err);
        if (status == FBY_OK)
            status = add_typed(w, type, false, err);
        pop(w, n);
    }
    leave(w, &l);
    return status;
}

static fby_status walk_part(fby__walk *w, uint32_t part, fby_error *err);

/* What is at w->path after the last part of the pattern. */
static fby_status walk_end(fby__walk *w, unsigned char type, fby_error *err)
{
    if (w->names_only)
        return fby__walk_add(w, false, err);
    FBY__TRY(resolve_type(w, &type, err));
    const fby__path_part *last = &w->pattern->parts[w->pattern->n_parts - 1];
    bool strict = last->kind != FBY__PATH_PART_ANY_DEPTH && strcmp(last->text, "*") != 0;
    return add_typed(w, type, strict, err);
}

/* Every id in turn, where the part is fixed but for the id itself; *out_done says whether that could be done. */
static fby_status walk_ids(fby__walk *w, uint32_t part, bool *out_done, fby_error *err)
{
    const fby__pattern *pattern = w->pattern;
    *out_done = false;
    if (!w->ids || w->id_name == FBY__NONE || w->captures[w->id_name].text)
        return FBY_OK;
    for (uint32_t i = 0; i < pattern->n_names; i++) /* below a directory that was listed, listing costs less than trying */
        if (w->captures[i].text)
            return FBY_OK;
    fby_status status = FBY_OK;
    size_t n = w->path.n;
    fby__buf text = {0};
    for (size_t i = 0; i < w->n_ids && status == FBY_OK; i++) {
        w->captures[w->id_name] = (fby__capture){w->ids[i].text, strlen(w->ids[i].text)};
        text.n = 0;
        int built = fby__path_part_build(pattern, pattern->parts[part].text, w->captures, &text);
        if (built > 0)
            break;
        if (built < 0 || fby__buf_put(&text, "", 1) != 0) {
            status = fby__fail_nomem(err, "paths");
            break;
        }
        *out_done = true;
        /* An id is text for one name: with a slash in it, or as "..", it cannot name a file of the pattern. */
        if (!w->ids[i].text[0] || strchr(w->ids[i].text, '/') || strcmp((char *)text.data, "..") == 0)
            continue;
        status = push(w, (const char *)text.data, err);
        if (status == FBY_OK)
            status = part + 1 == pattern->n_parts ? walk_end(w, DT_UNKNOWN, err) : walk_part(w, part + 1, err);
        pop(w, n);
    }
    w->captures[w->id_name] = (fby__capture){0};
    fby__buf_fini(&text);
    return status;
}

static fby_status walk_match(fby__walk *w, uint32_t part, fby_error *err)
{
    const fby__pattern *pattern = w->pattern;
    bool done;
    FBY__TRY(walk_ids(w, part, &done, err));
    if (done)
        return FBY_OK;
    listing l;
    FBY__TRY(enter(w, &l, err));
    const size_t n = w->path.n;
    const bool last = part + 1 == pattern->n_parts;
    fby__capture saved[FBY__MAX_BRACES];
    memcpy(saved, w->captures, sizeof saved);
    fby_status status = FBY_OK;
    for (size_t i = 0; i < l.n && status == FBY_OK; i++) {
        const char *text = l.names[i].text;
        unsigned char type = l.names[i].type;
        if (!last && type == DT_REG)
            continue;
        status = look_for_pack(w, text, false, err);
        if (status != FBY_OK || !fby__path_part_match(pattern, pattern->parts[part].text, text, w->captures)) {
            memcpy(w->captures, saved, sizeof saved);
            remember(w, text);
            continue;
        }
        const fby__capture *id = w->id_name == FBY__NONE ? NULL : &w->captures[w->id_name];
        bool wanted = !id || !id->text || fby__walk_has_id(w, id->text, id->n);
        if (wanted) {
            status = push(w, text, err);
            if (status == FBY_OK)
                status = last ? walk_end(w, type, err) : walk_part(w, part + 1, err);
            pop(w, n);
        }
        memcpy(w->captures, saved, sizeof saved);
    }
    leave(w, &l);
    return status;
}

static fby_status walk_any_depth(fby__walk *w, uint32_t part, fby_error *err)
{
    if (part + 1 == w->pattern->n_parts)
        return fby__walk_directory(w, err);
    FBY__TRY(walk_part(w, part + 1, err)); /* no directory at all */
    listing l;
    FBY__TRY(enter(w, &l, err));
    const size_t n = w->path.n;
    fby_status status = FBY_OK;
    for (size_t i = 0; i < l.n && status == FBY_OK; i++) {
        unsigned char type = l.names[i].type;
        if (fby__is_hidden(l.names[i].text) || type == DT_REG)
            continue;
        status = push(w, l.names[i].text, err);
        if (status == FBY_OK)
            status = resolve_type(w, &type, err);
        if (status == FBY_OK && type == DT_DIR)
            status = walk_any_depth(w, part, err);
        pop(w, n);
    }
    leave(w, &l);
    return status;
}

static fby_status walk_part(fby__walk *w, uint32_t part, fby_error *err)
{
    switch (w->pattern->parts[part].kind) {
    case FBY__PATH_PART_ANY_DEPTH: return walk_any_depth(w, part, err);
    case FBY__PATH_PART_MATCH: return walk_match(w, part, err);
    case FBY__PATH_PART_FIXED: break;
    }
    size_t n = w->path.n;
    fby_status status = push(w, w->pattern->parts[part].text, err);
    if (status == FBY_OK)
        status = part + 1 == w->pattern->n_parts ? walk_end(w, DT_UNKNOWN, err) : walk_part(w, part + 1, err);
    pop(w, n);
    return status;
}

fby_status fby__walk_pattern(fby__walk *w, fby_error *err) { return walk_part(w, 0, err); }
