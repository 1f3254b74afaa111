/*
 * Rows of the pack in their new order, from buckets: a bucket, or as much of it as fits, is read from all scatter files, and stays while it is used.
 *
 * Whoever may write to the folder may write a scatter file whose hashes hold. So hashes find what went wrong on a disk, and every number is
 * compared with the plan, the schema and the size of the file before it is used.
 */
#include "base/checked.h"
#include "pack/pack_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOWHERE UINT32_MAX
#define HEAD_BYTES (3 * sizeof(uint64_t)) /* of a segment: rows, nodes, buffers */

/* A segment of the bucket, and the scatter file that has it. */
typedef struct found_segment {
    uint32_t scatter;
    fby__pack_segment segment;
} found_segment;

typedef struct bucket_source {
    fby__pack_source base;
    const fby__pack *p;
    uint64_t room;           /* bytes of rows that may be in memory */
    uint32_t segments_of;    /* the bucket whose segments these are; NOWHERE = of none */
    found_segment *segments; /* owned */
    size_t n_segments, cap_segments;
    uint64_t first, end; /* destinations that are in memory: [first, end) */
    fby__batches batches;
    fby__row_run *runs; /* owned: end - first */
    size_t cap_runs;
    fby__row_run *chosen; /* owned: of a segment of which not all is wanted */
    size_t cap_chosen;
} bucket_source;

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a pack"); }

static fby_status damaged(const char *path, fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "'%s' is damaged: remove it, and pack again", path);
}

static fby_status fail_missing(const fby__pack *p, fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "the files in '%s' do not hold all rows: remove it, and pack again", p->work);
}

/* ---- where a bucket's rows are ---- */

static fby_status open_scatter(const fby__pack *p, uint32_t k, char **out_path, int *out_fd, fby_error *err)
{
    char *name = fby__pack_scatter_name(k);
    *out_fd = -1;
    *out_path = name ? fby__format("%s/%s", p->work, name) : NULL;
    fby__free(name);
    if (!*out_path)
        return no_memory(err);
    *out_fd = open(*out_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*out_fd >= 0)
        return FBY_OK;
    return errno == ENOENT ? fby__fail(err, FBY_E_ARG, "'%s' is not there: run task scatter:%u first", *out_path, k)
                           : fby__fail_errno(err, errno, "cannot open '%s'", *out_path);
}

static bool read_whole(int fd, void *out, size_t n, uint64_t at) { return pread(fd, out, n, (off_t)at) == (ssize_t)n; }

/* The bucket's segments in one file: one a round. *rows_left: of the bucket, that no file has had so far. */
static fby_status list_segments_of(bucket_source *s, uint32_t k, int fd, const char *path, uint32_t bucket, uint64_t *rows_left,
                                   fby_error *err)
{
    struct stat st;
    fby__pack_scatter_end end;
    const uint64_t one = sizeof(fby__pack_segment);
    if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof end || !read_whole(fd, &end, sizeof end, (uint64_t)st.st_size - sizeof end) ||
        end.buckets != s->p->n_buckets || end.rounds > ((uint64_t)st.st_size - sizeof end) / one / end.buckets)
        return damaged(path, err);
    const uint64_t index = (uint64_t)st.st_size - sizeof end - end.rounds * end.buckets * one;
    uint64_t left = index; /* no byte is in two segments */
    for (uint64_t round = 0; round < end.rounds; round++) {
        found_segment found = {.scatter = k};
        const fby__pack_segment *segment = &found.segment;
        if (!read_whole(fd, &found.segment, one, index + (round * end.buckets + bucket) * one) || segment->at > index ||
            segment->bytes > index - segment->at || segment->bytes > left || segment->rows > *rows_left ||
            (segment->rows && segment->bytes < HEAD_BYTES))
            return damaged(path, err);
        left -= segment->bytes;
        *rows_left -= segment->rows;
        if (segment->rows == 0)
            continue;
        if (fby__grow((void **)&s->segments, &s->cap_segments, s->n_segments + 1, sizeof *s->segments) != 0)
            return no_memory(err);
        s->segments[s->n_segments++] = found;
    }
    return FBY_OK;
}

static fby_status list_segments(bucket_source *s, uint32_t bucket, fby_error *err)
{
    fby_status status = FBY_OK;
    uint64_t rows_left = s->p->bucket_begin[bucket + 1] - s->p->bucket_begin[bucket];
    if (s->segments_of == bucket)
        return FBY_OK;
    s->segments_of = NOWHERE;
    s->n_segments = 0;
    for (uint32_t k = 0; status == FBY_OK && k < s->p->n_scatters; k++) {
        char *path;
        int fd;
        status = open_scatter(s->p, k, &path, &fd, err);
        if (status == FBY_OK)
            status = list_segments_of(s, k, fd, path, bucket, &rows_left, err);
        if (fd >= 0)
            (void)close(fd); /* it was only read */
        fby__free(path);
    }
    if (status == FBY_OK && rows_left)
        status = fail_missing(s->p, err);
    if (status == FBY_OK)
        s->segments_of = bucket;
    return status;
}

/* ---- a segment ---- */

static fby_status read_bytes(const fby__pack *p, int fd, const char *path, const fby__pack_segment *segment, uint8_t *out, fby_error *err)
{
    for (uint64_t at = 0; at < segment->bytes;) {
        FBY__TRY(fby__pack_go_on(p, err));
        const ssize_t n = pread(fd, out + at, (size_t)fby__min_u64(segment->bytes - at, FBY__PACK_AT_ONCE), (off_t)(segment->at + at));
        if (n < 0 && errno != EINTR)
            return fby__fail_errno(err, errno, "cannot read '%s'", path);
        if (n == 0)
            return damaged(path, err);
        at += n > 0 ? (uint64_t)n : 0;
    }
    return fby__hash_equal(fby__hash(out, (size_t)segment->bytes), segment->hash) ? FBY_OK : damaged(path, err);
}

/* *out_path is the caller's, also on failure. */
static fby_status read_segment(const fby__pack *p, const found_segment *from, uint8_t **out, char **out_path, fby_error *err)
{
    int fd;
    uint8_t *bytes = NULL;
    fby_status status = open_scatter(p, from->scatter, out_path, &fd, err);
    if (status == FBY_OK && !(bytes = fby__malloc((size_t)from->segment.bytes)))
        status = no_memory(err);
    if (status == FBY_OK)
        status = read_bytes(p, fd, *out_path, &from->segment, bytes, err);
    if (fd >= 0)
        (void)close(fd); /* it was only read */
    if (status == FBY_OK)
        *out = bytes;
    else
        fby__free(bytes);
    return status;
}

/* `count` times `each` bytes and their padding, of what is left. */
static bool next_bytes(fby__bytes *left, uint64_t count, uint64_t each, const uint8_t **out)
{
    uint64_t n;
    if (!fby__mul_u64_checked(count, each, &n))
        return false;
    *out = fby__bytes_next_padded(left, n);
    return *out || n == 0;
}

/* n buffers, whose sizes come before them. */
static bool next_buffers(fby__bytes *left, uint64_t n, fby__bytes *out)
{
    const uint8_t *sizes;
    if (!next_bytes(left, n, sizeof(uint64_t), &sizes))
        return false;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t size = fby__load_u64(sizes + 8 * i);
        if (!next_bytes(left, size, 1, &out[i].data))
            return false;
        out[i].n = (size_t)size;
    }
    return left->n == 0;
}

static bool all_below(const uint32_t *where, uint64_t n, uint64_t most)
{
    bool below = true;
    for (uint64_t i = 0; i < n; i++)
        below &= where[i] < most;
    return below;
}

/* The segment's rows, and where they go in the bucket: both in its bytes. FBY_E_FORMAT, without a message: they are not as scatter.c writes them. */
static fby_status parse_segment(const fby__pack *p, const uint8_t *bytes, const fby__pack_segment *segment, uint32_t bucket,
                                const uint32_t **out_where, struct ArrowArray *out, fby_error *err)
{
    const uint64_t rows = fby__load_u64(bytes), n_nodes = fby__load_u64(bytes + 8), n_buffers = fby__load_u64(bytes + 16);
    fby__bytes left = {bytes + HEAD_BYTES, (size_t)segment->bytes - HEAD_BYTES};
    const uint8_t *where, *nodes;
    if (rows != segment->rows || !next_bytes(&left, rows, sizeof **out_where, &where) ||
        !all_below((const uint32_t *)(const void *)where, rows, p->bucket_begin[bucket + 1] - p->bucket_begin[bucket]) ||
        !next_bytes(&left, n_nodes, sizeof(fby__arrow_flat_node), &nodes) || n_buffers > left.n / sizeof(uint64_t))
        return FBY_E_FORMAT;
    fby__bytes *buffers = fby__calloc((size_t)n_buffers + 1, sizeof *buffers);
    if (!buffers)
        return no_memory(err);
    *out_where = (const uint32_t *)(const void *)where;
    fby_status status = next_buffers(&left, n_buffers, buffers) ? FBY_OK : FBY_E_FORMAT;
    if (status == FBY_OK)
        status = fby__arrow_flat_batch(&p->schema, rows, (const fby__arrow_flat_node *)(const void *)nodes, (size_t)n_nodes, buffers,
                                       (size_t)n_buffers, out, err);
    fby__free(buffers);
    return status;
}

static fby_status load_segment(const fby__pack *p, const found_segment *from, uint32_t bucket, uint8_t **out_bytes,
                               const uint32_t **out_where, struct ArrowArray *out, fby_error *err)
{
    char *path;
    fby_status status = read_segment(p, from, out_bytes, &path, err);
    if (status == FBY_OK) {
        status = parse_segment(p, *out_bytes, &from->segment, bucket, out_where, out, err);
        if (status == FBY_E_FORMAT)
            status = damaged(path, err);
        if (status != FBY_OK)
            fby__free(*out_bytes);
    }
    fby__free(path);
    return status;
}

/* Rows that go to [s->first, s->end), of a segment of the bucket that begins at `begin`. Takes both over. */
static fby_status add_rows(bucket_source *s, uint64_t begin, const uint32_t *where, struct ArrowArray *array, uint8_t *bytes,
                           fby_error *err)
{
    const uint64_t rows = (uint64_t)array->length;
    uint64_t n = 0;
    for (uint64_t i = 0; i < rows; i++)
        n += begin + where[i] - s->first < s->end - s->first;
    const uint32_t batch = (uint32_t)s->batches.n;
    if (n == rows) {
        for (uint64_t i = 0; i < rows; i++)
            s->runs[begin + where[i] - s->first] = (fby__row_run){batch, 1, i};
        return fby__batches_add(&s->batches, array, bytes, err);
    }
    struct ArrowArray taken = {0};
    const struct ArrowArray *from = array;
    fby_status status = fby__grow((void **)&s->chosen, &s->cap_chosen, n + 1, sizeof *s->chosen) == 0 ? FBY_OK : no_memory(err);
    for (uint64_t i = 0, at = 0; status == FBY_OK && i < rows; i++)
        if (begin + where[i] - s->first < s->end - s->first) {
            s->chosen[at] = (fby__row_run){0, 1, i};
            s->runs[begin + where[i] - s->first] = (fby__row_run){batch, 1, at++};
        }
    if (status == FBY_OK && n)
        status = fby__arrow_take(&s->p->schema, &from, 1, s->chosen, (size_t)n, &taken, err);
    array->release(array);
    fby__free(bytes);
    return status == FBY_OK && n ? fby__batches_add(&s->batches, &taken, NULL, err) : status;
}

static fby_status load_bucket(bucket_source *s, uint32_t bucket, fby_error *err)
{
    FBY__TRY(list_segments(s, bucket, err));
    for (size_t i = 0; i < s->n_segments; i++) {
        uint8_t *bytes = NULL;
        const uint32_t *where = NULL;
        struct ArrowArray array;
        FBY__TRY(load_segment(s->p, &s->segments[i], bucket, &bytes, &where, &array, err));
        FBY__TRY(add_rows(s, s->p->bucket_begin[bucket], where, &array, bytes, err));
    }
    return FBY_OK;
}

/* ---- what is in memory ---- */

static fby_status bucket_row_bytes(bucket_source *s, uint32_t bucket, double *out, fby_error *err)
{
    uint64_t bytes = 0, rows = 0;
    FBY__TRY(list_segments(s, bucket, err));
    for (size_t i = 0; i < s->n_segments; i++) {
        bytes += s->segments[i].segment.bytes;
        rows += s->segments[i].segment.rows;
    }
    *out = (double)bytes / (double)(rows ? rows : 1) + sizeof(fby__row_run);
    return FBY_OK;
}

/* Destinations from `first` on, n at least: to the end of the bucket that holds the last of them, if there is room. */
static fby_status load(bucket_source *s, uint64_t first, uint64_t n, uint64_t end, fby_error *err)
{
    const fby__pack *p = s->p;
    const uint32_t begin = fby__pack_bucket_at(p, first), last = fby__pack_bucket_at(p, first + n - 1);
    const double room = (double)s->room;
    double row;
    s->first = s->end = 0;
    fby__batches_fini(&s->batches);
    FBY__TRY(bucket_row_bytes(s, last, &row, err));
    end = fby__min_u64(end, p->bucket_begin[last + 1]);
    if ((double)(end - first) * row > room)
        end = first + fby__max_u64(1, (uint64_t)(room / row) / n) * n;
    s->base.lacks_memory = (double)(end - first) * row > 2 * room;
    if (s->base.lacks_memory)
        return fby__fail(err, FBY_E_BUDGET,
                         "%llu rows of a batch take %.0f bytes, and may take %.0f: lower batch, or raise memory to %.0f bytes",
                         (unsigned long long)n, (double)n * row, 2 * room, 1.05 * (double)n * row);
    if (fby__grow((void **)&s->runs, &s->cap_runs, end - first, sizeof *s->runs) != 0)
        return no_memory(err);
    for (uint64_t i = 0; i < end - first; i++)
        s->runs[i].batch = NOWHERE;
    s->first = first;
    s->end = end;
    fby_status status = FBY_OK;
    for (uint32_t k = begin; status == FBY_OK && k <= last; k++)
        status = load_bucket(s, k, err);
    for (uint64_t i = 0; status == FBY_OK && i < end - first; i++)
        if (s->runs[i].batch == NOWHERE)
            status = fail_missing(p, err);
    if (status != FBY_OK)
        s->first = s->end = 0;
    return status;
}

static fby_status bucket_rows(fby__pack_source *base, uint64_t first, uint64_t n, uint64_t end, fby__pack_rows *out, fby_error *err)
{
    bucket_source *s = (bucket_source *)base;
    if (first < s->first || first + n > s->end)
        FBY__TRY(load(s, first, n, fby__max_u64(end, first + n), err));
    *out = (fby__pack_rows){.batches = (const struct ArrowArray *const *)s->batches.arrays,
                            .n_batches = (uint32_t)s->batches.n,
                            .runs = s->runs + (first - s->first),
                            .n_runs = (size_t)n};
    return FBY_OK;
}

static void bucket_free(fby__pack_source *base)
{
    bucket_source *s = (bucket_source *)base;
    fby__batches_fini(&s->batches);
    fby__free(s->segments);
    fby__free(s->runs);
    fby__free(s->chosen);
    fby__free(s);
}

fby_status fby__pack_bucket_source(const fby__pack *p, uint64_t memory_bytes, fby__pack_source **out, fby_error *err)
{
    bucket_source *s = fby__calloc(1, sizeof *s);
    if (!s)
        return no_memory(err);
    s->base = (fby__pack_source){.rows = bucket_rows, .free = bucket_free};
    s->p = p;
    s->room = memory_bytes / 2; /* what is read meanwhile and what is written have the other half */
    s->segments_of = NOWHERE;
    *out = &s->base;
    return FBY_OK;
}
