/*
 * Do folders hold the packs that their manifests describe? Files and rows are counted, by metadata alone: a file that was cut short, or is another
 * pack's of the same name, is a file as any other to its reader. What rows hold is compared by those who verify (src/pack/verify.c).
 */
#include "dataset/dataset_impl.h"

#include "base/cancel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINES = 1 << 20, LINES_AT_ONCE = 1 << 12 }; /* or parts of them: that are looked at, and between two looks at the token */

/* What a manifest says. */
typedef struct stated {
    uint64_t pack, rows, files, rows_per_file;
    bool by_key;
} stated;

fby_status fby__packs_note(fby__found *found, fby__arena *arena, const char *folder, bool whole, fby_error *err)
{
    fby__packed *p = fby__arena_alloc(arena, sizeof *p);
    char *manifest = fby__path_join(arena, folder, FBY__PACK_MANIFEST);
    if (!p || !manifest)
        return fby__fail_nomem(err, "paths");
    *p = (fby__packed){.next = found->packs, .whole = whole};
    found->packs = p;
    return fby__path_anchor(arena, manifest, &p->manifest, err);
}

/* A line as provenance.c writes members of the outermost object. */
static void read_number(const char *line, const char *name, uint64_t *out)
{
    const size_t n = strlen(name);
    char *end;
    if (strncmp(line, name, n) != 0 || line[n] < '0' || line[n] > '9')
        return;
    errno = 0;
    const unsigned long long number = strtoull(line + n, &end, 10);
    if (errno == 0 && strcmp(end, ",\n") == 0)
        *out = number;
}

/* Members come in the order of provenance.c: what follows these is not read. */
static fby_status read_members(FILE *f, stated *out, fby_error *err)
{
    char line[64];
    bool begins = true;
    for (int n = 0; n < MOST_LINES && !out->rows_per_file && fgets(line, sizeof line, f); n++) {
        if (n % LINES_AT_ONCE == 0)
            FBY__TRY(fby__cancel_check(err));
        if (begins) {
            read_number(line, "  \"pack\": ", &out->pack);
            read_number(line, "  \"rows\": ", &out->rows);
            read_number(line, "  \"files\": ", &out->files);
            read_number(line, "  \"rows_per_file\": ", &out->rows_per_file);
            out->by_key |= strncmp(line, "  \"by\": ", 8) == 0;
        }
        begins = strchr(line, '\n');
    }
    return FBY_OK;
}

static fby_status cannot_read(const char *path, fby_error *err)
{
    return fby__fail_errno(err, errno, "cannot read '%s', which says what the pack in its folder holds", path);
}

/* *out is zeros where there is no manifest, or none that is known. A link is not followed, and a pipe not waited for. */
static fby_status read_manifest(const char *path, stated *out, fby_error *err)
{
    struct stat st;
    *out = (stated){0};
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENXIO))
        return FBY_OK;
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    fby_status status = f ? FBY_OK : cannot_read(path, err);
    if (status == FBY_OK && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        status = read_members(f, out, err);
        if (status == FBY_OK && ferror(f))
            status = cannot_read(path, err);
    }
    if (f)
        (void)fclose(f); /* it was only read */
    else if (fd >= 0)
        (void)close(fd);
    if (out->pack != 1 || !out->files)
        *out = (stated){0};
    return status;
}

static bool is_of(const fby__packed *p, const fby__dataset_file *file)
{
    const size_t n = (size_t)(fby__path_base(file->path) - file->path);
    return strncmp(p->manifest, file->path, n) == 0 && strcmp(p->manifest + n, FBY__PACK_MANIFEST) == 0;
}

/* The first file with a number of rows that none of the pack has; by a key, whose values have files of their own, that may be any. */
static const fby__dataset_file *find_odd(const fby_dataset *ds, const fby__packed *p, const stated *s)
{
    const uint64_t last = s->rows - (s->files - 1) * s->rows_per_file;
    for (uint32_t i = 0; !s->by_key && i < ds->n_files; i++)
        if (is_of(p, &ds->files[i]) && ds->files[i].rows != s->rows_per_file && ds->files[i].rows != last)
            return &ds->files[i];
    return NULL;
}

static fby_status check(const fby_dataset *ds, const fby__packed *p, fby_error *err)
{
    stated s;
    char odd[300] = "";
    if (p->files == 0)
        return FBY_OK;
    FBY__TRY(read_manifest(p->manifest, &s, err));
    if (!s.rows_per_file || (p->files < s.files && !p->whole) || (p->files == s.files && p->rows == s.rows))
        return FBY_OK;
    const fby__dataset_file *file = p->files == s.files ? find_odd(ds, p, &s) : NULL;
    if (file)
        (void)snprintf(odd, sizeof odd, " ('%.200s' has %llu)", fby__path_base(file->path), (unsigned long long)file->rows);
    return fby__fail(err, FBY_E_FORMAT,
                     "'%.*s' does not hold the pack that its " FBY__PACK_MANIFEST
                     " describes, of %llu rows in %llu files: there are %llu rows in "
                     "%llu files%s. Restore them, or pack again; to open the files as they are, remove " FBY__PACK_MANIFEST,
                     (int)(fby__path_base(p->manifest) - p->manifest) - 1, p->manifest, (unsigned long long)s.rows,
                     (unsigned long long)s.files, (unsigned long long)p->rows, (unsigned long long)p->files, odd);
}

fby_status fby__packs_check(const fby_dataset *ds, fby__packed *packs, fby_error *err)
{
    const fby__format_opts *f = &ds->config.format;
    if (f->table || f->dimension || f->axis || f->axes > 1) /* rows are other ones than the pack's */
        return FBY_OK;
    fby__packed *at = packs; /* neighbours lie in one folder */
    for (uint32_t i = 0; packs && i < ds->n_files; i++) {
        if (!at || !is_of(at, &ds->files[i]))
            for (at = packs; at && !is_of(at, &ds->files[i]);)
                at = at->next;
        if (at && (at->whole || strncmp(fby__path_base(ds->files[i].path), "part-", 5) == 0)) { /* a pattern may name other files, too */
            at->files++;
            at->rows += ds->files[i].rows;
        }
    }
    for (at = packs; at; at = at->next)
        FBY__TRY(check(ds, at, err));
    return FBY_OK;
}
