/* Rows of the pack in their new order, from buckets: a bucket, or as much of it as fits, is read from all scatter files, and stays while it is used. */
#include "base/cancel.h"
#include "base/checked.h"
#include "pack/pack_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOWHERE UINT32_MAX

typedef struct bucket_source {
    fby__pack_source base;
    const fby__pack *p;
    uint64_t first, end; /* destinations that are in memory: [first, end) */
    fby__batches batches;
    fby__row_run *runs; /* owned: end - first */
    size_t cap_runs;
    fby__row_run *chosen; /* owned: of a segment of which not all is wanted */
    size_t cap_chosen;
} bucket_source;

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a pack"); }

static fby_status damaged(const fby__pack *p, const fby__pack_scatter *c, fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "'%s/scatter-%u-%u' is damaged: remove '%s', and pack again", p->work, c->first_block,
                     c->last_block, p->work);
}

/* ---- a segment ---- */

static fby_status read_segment(const fby__pack *p, const fby__pack_scatter *c, const fby__pack_segment *segment, uint8_t **out,
                               fby_error *err)
{
    char *name = fby__pack_scatter_name(c->first_block, c->last_block), *path = name ? fby__format("%s/%s", p->work, name) : NULL;
    uint8_t *bytes = path ? fby__malloc((size_t)segment->bytes) : NULL;
    const int fd = bytes ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    fby_status status = !bytes ? no_memory(err) : fd < 0 ? fby__fail_errno(err, errno, "cannot open '%s'", path) : FBY_OK;
    for (uint64_t at = 0; status == FBY_OK && at < segment->bytes;) {
        if ((status = fby__cancel_check(err)) != FBY_OK)
            break;
        const ssize_t n = pread(fd, bytes + at, (size_t)fby__min_u64(segment->bytes - at, FBY__PACK_AT_ONCE), (off_t)(segment->at + at));
        if (n < 0 && errno != EINTR)
            status = fby__fail_errno(err, errno, "cannot read '%s'", path);
        else if (n == 0)
            status = damaged(p, c, err);
        at += n > 0 ? (uint64_t)n : 0;
    }
    if (status == FBY_OK && !fby__hash_equal(fby__hash(bytes, (size_t)segment->bytes), segment->hash))
        status = damaged(p, c, err);
    if (fd >= 0)
        (void)close(fd); /* it was only read */
    fby__free(name);
    fby__free(path);
    if (status == FBY_OK)
        *out = bytes;
    else
        fby__free(bytes);
    return status;
}

static uint64_t padded(uint64_t n) { return (n + 7) & ~UINT64_C(7); }

/* The segment's rows, and where they go in the bucket: both in its bytes, which hash as they were written. */
static fby_status parse_segment(const fby__pack *p, const uint8_t *bytes, const uint32_t **out_where, struct ArrowArray *out,
                                fby_error *err)
{
    const uint64_t rows = fby__load_u64(bytes), n_nodes = fby__load_u64(bytes + 8), n_buffers = fby__load_u64(bytes + 16);
    const uint8_t *nodes = bytes + 24 + padded(rows * sizeof **out_where);
    const uint8_t *sizes = nodes + n_nodes * sizeof(fby__arrow_flat_node), *at = sizes + n_buffers * sizeof(uint64_t);
    fby__bytes *buffers = fby__calloc((size_t)n_buffers, sizeof *buffers);
    if (!buffers)
        return no_memory(err);
    for (uint64_t i = 0; i < n_buffers; i++) {
        buffers[i] = (fby__bytes){at, (size_t)fby__load_u64(sizes + 8 * i)};
        at += padded(buffers[i].n);
    }
    *out_where = (const uint32_t *)(const void *)(bytes + 24);
    fby_status status = fby__arrow_flat_batch(&p->schema, (int64_t)rows, (const fby__arrow_flat_node *)(const void *)nodes, (size_t)n_nodes,
                                              buffers, (size_t)n_buffers, out, err);
    fby__free(buffers);
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
    for (size_t i = 0; i < s->p->n_scatters; i++) {
        const fby__pack_scatter *c = &s->p->scatters[i];
        uint8_t *bytes = NULL;
        const uint32_t *where = NULL;
        struct ArrowArray array;
        if (c->segments[bucket].rows == 0)
            continue;
        FBY__TRY(read_segment(s->p, c, &c->segments[bucket], &bytes, err));
        fby_status status = parse_segment(s->p, bytes, &where, &array, err);
        if (status != FBY_OK) {
            fby__free(bytes);
            return status;
        }
        FBY__TRY(add_rows(s, s->p->bucket_begin[bucket], where, &array, bytes, err));
    }
    return FBY_OK;
}

/* ---- what is in memory ---- */

/* The last bucket that begins at or before a destination. */
static uint32_t bucket_at(const fby__pack *p, uint64_t destination) { return fby__pack_bucket_of(&p->order, destination, p->n_buckets); }

static double bucket_row_bytes(const fby__pack *p, uint32_t bucket)
{
    uint64_t bytes = 0, rows = 0;
    for (size_t i = 0; i < p->n_scatters; i++) {
        bytes += p->scatters[i].segments[bucket].bytes;
        rows += p->scatters[i].segments[bucket].rows;
    }
    return (double)bytes / (double)(rows ? rows : 1) + sizeof(fby__row_run);
}

/* Destinations from `first` on, n at least: to the end of the bucket that holds the last of them, if there is room. */
static fby_status load(bucket_source *s, uint64_t first, uint64_t n, uint64_t end, fby_error *err)
{
    const fby__pack *p = s->p;
    const uint32_t begin = bucket_at(p, first), last = bucket_at(p, first + n - 1);
    const double room = (double)fby__pack_bucket_room(p), row = bucket_row_bytes(p, last);
    s->first = s->end = 0;
    fby__batches_fini(&s->batches);
    end = fby__min_u64(end, p->bucket_begin[last + 1]);
    if ((double)(end - first) * row > room)
        end = first + fby__max_u64(1, (uint64_t)(room / row) / n) * n;
    if ((double)(end - first) * row > 2 * room)
        return fby__fail(err, FBY_E_BUDGET,
                         "%llu rows of a batch take %.3g bytes, and a thread may have %.3g: ask for smaller batches, or raise memory",
                         (unsigned long long)n, (double)n * row, room);
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
            status = fby__fail(err, FBY_E_FORMAT, "files are missing in '%s': remove it, and pack again", p->work);
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
    fby__free(s->runs);
    fby__free(s->chosen);
    fby__free(s);
}

fby_status fby__pack_bucket_source(const fby__pack *p, fby__pack_source **out, fby_error *err)
{
    bucket_source *s = fby__calloc(1, sizeof *s);
    if (!s)
        return no_memory(err);
    s->base = (fby__pack_source){bucket_rows, bucket_free};
    s->p = p;
    *out = &s->base;
    return FBY_OK;
}
