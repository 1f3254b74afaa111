/*
 * What all that work on one pack agree on: its plan, which the first of them writes, and who may write.
 *
 *     plan    buckets 12
 *             scatters 40               at most: ranges of the source that have no rows are no tasks
 *             { "pack": 1, …            the manifest's text: source and options
 *             NUL, attributes           what the source says of itself: attributes.c
 *             values of the key         by a key alone: keys.c
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN = 200 }; /* bytes of a line that a message shows */

#define HASH_LINE "  \"rows_hash\": "

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a pack"); }

static fby_status fail_damaged(const char *path, fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "'%s' is damaged, or of another version: remove the folder it lies in, and pack again", path);
}

/* ---- texts ---- */

/* What may be behind the text. */
static uint64_t most_behind(const fby__pack *p)
{
    const uint64_t keys = p->o->by ? FBY__PACK_KEYS * (3 * (uint64_t)FBY__PACK_KEY_NAME) + FBY__PACK_KEY_COUNTS * sizeof(uint64_t) : 0;
    return sizeof(uint64_t) + FBY__PACK_ATTRIBUTES_BYTES + keys;
}

/* No more than tells it from ours. A link is not followed, and a pipe not waited for. */
static fby_status read_plan(const fby__pack *p, const char *path, fby__buf *out, fby_error *err)
{
    uint8_t part[4096];
    ssize_t n = 0;
    fby_status status = FBY_OK;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fby__fail_errno(err, errno, "cannot open '%s'", path);
    while (status == FBY_OK && out->n <= p->plan.n + most_behind(p) + sizeof part &&
           ((n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0 && fby__buf_put(out, part, (size_t)n) != 0)
            status = no_memory(err);
    if (n < 0)
        status = fby__fail_errno(err, errno, "cannot read '%s'", path);
    (void)close(fd); /* it was only read */
    return status;
}

/* The first line in which the two texts differ, in each. */
static void first_difference(const char *a, const char *b, const char **out_a, const char **out_b)
{
    const char *line_a = a, *line_b = b;
    while (*a && *a == *b) {
        if (*a++ == '\n')
            line_a = a, line_b = b + 1;
        b++;
    }
    while (*line_a == ' ')
        line_a++;
    while (*line_b == ' ')
        line_b++;
    *out_a = line_a;
    *out_b = line_b;
}

static size_t line_length(const char *line)
{
    size_t n = strcspn(line, "\n");
    return n > 0 && line[n - 1] == ',' ? n - 1 : n;
}

static size_t at_character(const char *line, size_t i)
{
    while (i > 0 && ((uint8_t)line[i] & 0xC0) == 0x80)
        i--;
    return i;
}

/* A member, whose value, where it is long, begins shortly before byte `differs`. */
static void quote_line(const char *line, size_t differs, char out[SHOWN])
{
    const size_t n = line_length(line), name = strcspn(line, ":") + 2;
    size_t begin = n < SHOWN - 8 || differs < name + 40 ? 0 : at_character(line, differs - 30), end = n;
    const size_t room = SHOWN - 10 - (begin ? name : 0);
    if (end - begin > room)
        end = at_character(line, begin + room);
    (void)snprintf(out, SHOWN, "%.*s%s%.*s%s", begin ? (int)name : 0, line, begin ? "…" : "", (int)(end - begin), line + begin,
                   end < n ? "…" : "");
}

/* What the pack that wrote `line` has in place of a member that only the other has. */
static const char *has_instead_of(const char *line, const char *other)
{
    static const char *const kinds[][2] = {{"\"outputs\"", "whole rows"},
                                           {"\"pipeline\"", "no pipeline file"},
                                           {"\"by\"", "no key"},
                                           {"\"units\"", "only units that are the same"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i][0]);
        if (strncmp(other, kinds[i][0], n) == 0 && strncmp(line, kinds[i][0], n) != 0)
            return kinds[i][1];
    }
    return NULL;
}

/* The manifest's text as another run wrote it, and ours. folder: what is to be removed if they differ. */
static fby_status compare(fby__pack *p, const char *kind, const char *folder, const char *theirs, fby_error *err)
{
    const char *a, *b;
    if (fby__buf_put(&p->plan, "", 1) != 0)
        return no_memory(err);
    p->plan.n--;
    if (strcmp(theirs, (const char *)p->plan.data) == 0)
        return FBY_OK;
    first_difference(theirs, (const char *)p->plan.data, &a, &b);
    const bool source = strncmp(a, "\"source_", 8) == 0, samples = strncmp(a, "\"samples_", 9) == 0;
    size_t differs = 0;
    while (a[differs] && a[differs] == b[differs])
        differs++;
    const char *lacks_a = has_instead_of(a, b), *lacks_b = has_instead_of(b, a);
    char shown_a[SHOWN], shown_b[SHOWN];
    quote_line(a, differs, shown_a);
    quote_line(b, differs, shown_b);
    return fby__fail(err, source ? FBY_E_CHANGED : FBY_E_ARG,
                     "'%s' holds %s pack %s: it has %s, and this one %s. Remove '%s' to begin anew", p->to, kind,
                     source    ? "of a source that has changed"
                     : samples ? "of other samples (windows, groups, a selection or a split)"
                               : "with other options",
                     lacks_a ? lacks_a : shown_a, lacks_b ? lacks_b : shown_b, folder);
}

static fby_status read_text(const fby__pack *p, const char *folder, const char *name, fby__buf *out, char **out_path, fby_error *err)
{
    *out_path = fby__format("%s/%s", folder, name);
    fby_status status = *out_path ? read_plan(p, *out_path, out, err) : no_memory(err);
    if (status == FBY_OK && fby__buf_put(out, "", 1) != 0)
        status = no_memory(err);
    return status;
}

/* What lies behind the text's NUL. */
typedef struct tail {
    bool ok; /* false: there is less than there should be, and the rest is empty */
    fby__bytes attributes, keys;
} tail;

/* None of these bytes is the NUL that read_text adds. */
static tail tail_of(const fby__buf *found)
{
    const uint8_t *nul = memchr(found->data, 0, found->n), *end = found->data + found->n - 1;
    if (nul >= end || (size_t)(end - nul) < 1 + sizeof(uint64_t))
        return (tail){.ok = false};
    const uint8_t *begin = nul + 1 + sizeof(uint64_t);
    const uint64_t n = fby__load_u64(nul + 1);
    if (n > (size_t)(end - begin))
        return (tail){.ok = false};
    return (tail){true, {begin, n}, {begin + n, (size_t)(end - begin) - n}};
}

fby_status fby__pack_plan_keys(const fby__pack *p, fby__buf *out, fby_error *err)
{
    fby__buf found = {0};
    char *path;
    fby_status status = read_text(p, p->work, FBY__PACK_PLAN, &found, &path, NULL);
    if (status == FBY_OK) {
        const fby__bytes keys = tail_of(&found).keys;
        status = fby__buf_put(out, keys.data, keys.n) == 0 ? FBY_OK : no_memory(err);
    } else {
        status = FBY_OK; /* there is none; where that is wrong, it is said when the plan is written, or read */
    }
    fby__buf_fini(&found);
    fby__free(path);
    return status;
}

/* The counts of the plan, which are for its number of tasks. */
static fby_status read_keys(fby__pack *p, const fby__buf *found, const char *path, unsigned cuts, fby_error *err)
{
    bool ok = false;
    const fby_status status = fby__pack_keys_read(p, tail_of(found).keys, &ok, err);
    if (status == FBY_OK && (!ok || p->keys->n_cuts != cuts))
        return fail_damaged(path, err);
    return status;
}

static fby_status read_attributes(fby__pack *p, const fby__buf *found, const char *path, fby_error *err)
{
    const tail behind = tail_of(found);
    bool ok = false;
    const fby_status status = behind.ok ? fby__pack_attributes_read(p, behind.attributes, &ok, err) : FBY_OK;
    return status == FBY_OK && !ok ? fail_damaged(path, err) : status;
}

static fby_status adopt_plan(fby__pack *p, fby_error *err)
{
    fby__buf found = {0};
    char *path;
    unsigned buckets = 0, cuts = 0;
    int head = 0;
    fby_status status = read_text(p, p->work, FBY__PACK_PLAN, &found, &path, err);
    if (status == FBY_OK) {
        const char *text = (const char *)found.data;
        if (sscanf(text, "buckets %u\nscatters %u\n%n", &buckets, &cuts, &head) < 2 || head == 0 || buckets == 0 ||
            buckets > FBY__PACK_BUCKETS || cuts == 0)
            status = fail_damaged(path, err);
        else
            status = compare(p, "an unfinished", p->work, text + head, err);
        if (status == FBY_OK && cuts > fby__max_u64(1, fby__pack_block_count(p))) /* another source may have more blocks */
            status = fail_damaged(path, err);
        if (status == FBY_OK)
            status = read_attributes(p, &found, path, err);
        if (status == FBY_OK && p->keys && !fby__pack_in_memory(p))
            status = read_keys(p, &found, path, cuts, err);
        else if (p->keys) /* of another table, maybe: it is begun anew, with this one's counts */
            cuts = p->keys->n_cuts;
    }
    if (status == FBY_OK)
        status = fby__pack_cut(p, buckets, err);
    if (status == FBY_OK)
        status = fby__pack_cut_source(p, cuts, err);
    fby__buf_fini(&found);
    fby__free(path);
    return status;
}

/* With many keys it has many MB. The stamp is older than what is read, so that no file is taken for one that was; all of it has to be the same,
 * the inode on every file system: reading once too often does no harm. */
fby_status fby__pack_plan_read(fby__pack *p, fby_error *err)
{
    fby__file_stamp is = {0};
    char *path = fby__format("%s/" FBY__PACK_PLAN, p->work);
    if (!path)
        return no_memory(err);
    const bool there = fby__file_stat(path, &is, NULL) == FBY_OK; /* else reading it says why */
    fby__free(path);
    if (there && memcmp(&is, &p->plan_stamp, sizeof is) == 0)
        return FBY_OK;
    FBY__TRY(adopt_plan(p, err));
    p->plan_stamp = is;
    return FBY_OK;
}

/* What a run that verified has found; "" where none did. */
static void find_hash(const char *text, char out[33])
{
    const char *at = strstr(text, HASH_LINE);
    if (!at || sscanf(at + sizeof HASH_LINE - 1, "\"%32[0-9a-f]\"", out) != 1)
        out[0] = 0;
}

/* Lines of the manifest that the plan does not have: what only one run knows. */
static void drop_lines(char *text, const char *begin)
{
    char *line = strstr(text, begin);
    const char *end = line ? strchr(line, '\n') : NULL;
    if (end)
        memmove(line, end + 1, strlen(end + 1) + 1);
}

fby_status fby__pack_manifest_compare(fby__pack *p, fby_error *err)
{
    fby__buf found = {0};
    char *path;
    fby_status status = read_text(p, p->to, FBY__PACK_MANIFEST, &found, &path, err);
    if (status == FBY_OK) {
        drop_lines((char *)found.data, "  \"source_root\": ");
        find_hash((const char *)found.data, p->rows_hash);
        drop_lines((char *)found.data, HASH_LINE);
        status = compare(p, "a finished", p->to, (const char *)found.data, err);
    }
    fby__buf_fini(&found);
    fby__free(path);
    return status;
}

static fby_status write_tail(const fby__pack *p, fby__pack_out *out, fby_error *err)
{
    fby__buf behind = {0};
    fby_status status = fby__buf_put(&behind, "", 1) == 0 ? fby__pack_attributes_put(p, &behind, err) : no_memory(err);
    if (status == FBY_OK && p->keys)
        status = fby__pack_keys_put(p, &behind, err);
    if (status == FBY_OK)
        status = fby__pack_out_write(out, behind.data, behind.n, err);
    fby__buf_fini(&behind);
    return status;
}

fby_status fby__pack_plan_write(fby__pack *p, fby_error *err)
{
    char line[64];
    fby__pack_out out;
    FBY__TRY(fby__pack_attributes_find(p, err));
    FBY__TRY(fby__pack_out_open(p->work, FBY__PACK_PLAN, &out, err));
    const int n = snprintf(line, sizeof line, "buckets %u\nscatters %u\n", p->n_buckets, p->cuts.n);
    fby_status status = fby__pack_out_write(&out, line, (size_t)n, err);
    if (status == FBY_OK)
        status = fby__pack_out_write(&out, p->plan.data, p->plan.n, err);
    if (status == FBY_OK)
        status = write_tail(p, &out, err);
    if (status == FBY_OK)
        return fby__pack_out_close(&out, true, err);
    fby__pack_out_drop(&out);
    return status;
}

/* ---- the lock ---- */

/* Until it is ours, where others are waited for; they may take as long as they like. */
static fby_status wait_for_lock(int fd, fby__pack_hold hold, bool *out_held, fby_error *err)
{
    const int how = hold == FBY__PACK_TOGETHER ? LOCK_SH : LOCK_EX;
    for (;;) {
        *out_held = flock(fd, how | LOCK_NB) == 0 || errno != EWOULDBLOCK; /* a file system without locks has none */
        if (*out_held || hold != FBY__PACK_LAST)
            return FBY_OK;
        FBY__TRY(fby__cancel_check(err));
        (void)poll(NULL, 0, FBY__CANCEL_SLICE_MS); /* too early is early */
    }
}

/*
 * It is a file of its own, which is never replaced: one that is renamed over leaves two processes with a lock each. A lock that is not the
 * folder's any more is somebody's who has tidied up.
 */
fby_status fby__pack_lock(fby__pack *p, fby__pack_hold hold, fby_error *err)
{
    struct stat locked, there;
    bool held = false;
    char *path = fby__format("%s/" FBY__PACK_LOCK, p->work);
    if (!path)
        return no_memory(err);
    fby_status status = FBY_OK;
    p->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (p->lock < 0 && errno != ENOENT)
        status = fby__fail_errno(err, errno, "cannot open '%s'", path);
    else if (p->lock >= 0)
        status = wait_for_lock(p->lock, hold, &held, err);
    if (status == FBY_OK && (!held || fstat(p->lock, &locked) != 0 || lstat(path, &there) != 0 || locked.st_ino != there.st_ino))
        status = fby__fail(err, FBY_E_ARG, "'%s' is being packed by another process", p->to);
    fby__free(path);
    return status;
}
