/*
 * Pass 1 of a shuffle: blocks of the source, in file order, gathered in memory until there are enough of them; then their rows are written,
 * bucket after bucket, to one file.
 *
 *     scatter-12-19      segment of bucket 0 │ segment of bucket 1 │ … │ index: n_buckets segments │ its hash
 *     segment            u64 rows, nodes, buffers │ u32 a row: destination in the bucket │ nodes │ u64 a buffer: bytes │ buffers
 *
 * Everything begins at multiples of 8 bytes; numbers are as this machine has them. A file of many segments instead of a file a bucket: what
 * was written is never touched again, few files are open at a time, and a run that is stopped loses one file at most.
 *
 * The files are not synced: a hash stands behind every segment, and an index that is not whole is no file.
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROW_BYTES                                                                                                                          \
    48u /* of what is kept of a row while it is staged: its destination, its place, its run; arrays that grow have room to spare */

/* Blocks at hand, and where their rows go. */
typedef struct stage {
    fby__pack *p;
    uint32_t first_block, last_block; /* [first, last) */
    fby__batches batches;
    uint64_t rows, bytes;
    uint32_t *bucket; /* owned, as all: of each row */
    uint64_t *destination;
    size_t cap_bucket, cap_destination;
    fby__row_run *runs; /* rows, by bucket */
    uint32_t *where;    /* destinations in their bucket, in the same order */
    uint64_t *begin;    /* n_buckets + 1: of each bucket's rows */
    size_t cap_runs, cap_where;
    fby__arrow_flat flat;
    fby__buf segment;
} stage;

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a pack"); }

/* ---- batches ---- */

fby_status fby__batches_add(fby__batches *b, struct ArrowArray *array, void *memory, fby_error *err)
{
    struct ArrowArray *own = NULL;
    size_t cap = b->cap;
    if (fby__grow((void **)&b->arrays, &cap, b->n + 1, sizeof *b->arrays) == 0 &&
        fby__grow((void **)&b->memory, &b->cap, b->n + 1, sizeof *b->memory) == 0)
        own = fby__malloc(sizeof *own);
    if (!own) {
        array->release(array);
        fby__free(memory);
        return no_memory(err);
    }
    *own = *array;
    b->arrays[b->n] = own;
    b->memory[b->n++] = memory;
    return FBY_OK;
}

void fby__batches_drop(fby__batches *b, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        b->arrays[i]->release(b->arrays[i]);
        fby__free(b->arrays[i]);
        fby__free(b->memory[i]);
    }
    b->n -= n;
    memmove(b->arrays, b->arrays + n, b->n * sizeof *b->arrays);
    memmove(b->memory, b->memory + n, b->n * sizeof *b->memory);
}

void fby__batches_fini(fby__batches *b)
{
    fby__batches_drop(b, b->n);
    fby__free(b->arrays);
    fby__free(b->memory);
    *b = (fby__batches){0};
}

/* ---- where rows go ---- */

/* The bucket of a destination: as fby__pack_bucket_of, which divides by 128 bits. */
static uint32_t bucket_of(const fby__pack *p, uint64_t destination)
{
    uint64_t k = (uint64_t)((double)destination / (double)p->rows * p->n_buckets);
    k = fby__min_u64(k, p->n_buckets - 1);
    while (destination < p->bucket_begin[k])
        k--;
    while (destination >= p->bucket_begin[k + 1])
        k++;
    return (uint32_t)k;
}

static fby_status add_block(stage *s, uint32_t block, struct ArrowArray *array, fby_error *err)
{
    const fby__pack *p = s->p;
    const uint64_t n = (uint64_t)array->length, first = fby__dataset_block(p->ds, block)->first_row;
    fby_status status = fby__arrow_flat_of(&p->schema, array, 0, array->length, true, &s->flat, err);
    const uint64_t bytes = fby__arrow_flat_bytes(&s->flat);
    if (status == FBY_OK && (n > UINT32_MAX || fby__grow((void **)&s->bucket, &s->cap_bucket, s->rows + n, sizeof *s->bucket) != 0 ||
                             fby__grow((void **)&s->destination, &s->cap_destination, s->rows + n, sizeof *s->destination) != 0))
        status = no_memory(err);
    if (status != FBY_OK) {
        array->release(array);
        return status;
    }
    fby__pack_destinations(&p->order, first, (uint32_t)n, s->destination + s->rows);
    for (uint64_t i = s->rows; i < s->rows + n; i++)
        s->bucket[i] = bucket_of(p, s->destination[i]);
    s->rows += n;
    s->bytes += bytes + n * ROW_BYTES;
    return fby__batches_add(&s->batches, array, NULL, err);
}

/* Rows by bucket, in each in the order of the source. */
static fby_status sort_rows(stage *s, fby_error *err)
{
    const uint32_t n = s->p->n_buckets;
    if (fby__grow((void **)&s->runs, &s->cap_runs, s->rows, sizeof *s->runs) != 0 ||
        fby__grow((void **)&s->where, &s->cap_where, s->rows, sizeof *s->where) != 0)
        return no_memory(err);
    memset(s->begin, 0, ((size_t)n + 1) * sizeof *s->begin);
    for (uint64_t i = 0; i < s->rows; i++)
        s->begin[s->bucket[i] + 1]++;
    for (uint32_t k = 0; k < n; k++)
        s->begin[k + 1] += s->begin[k];
    uint64_t i = 0;
    for (size_t b = 0; b < s->batches.n; b++) {
        FBY__TRY(fby__cancel_check(err));
        for (uint64_t row = 0; row < (uint64_t)s->batches.arrays[b]->length; row++, i++) {
            const uint64_t at = s->begin[s->bucket[i]]++;
            s->runs[at] = (fby__row_run){(uint32_t)b, 1, row};
            s->where[at] = (uint32_t)(s->destination[i] - s->p->bucket_begin[s->bucket[i]]);
        }
    }
    memmove(s->begin + 1, s->begin, n * sizeof *s->begin); /* each has moved on to where the next begins */
    s->begin[0] = 0;
    return FBY_OK;
}

/* ---- a file ---- */

char *fby__pack_scatter_name(uint32_t first_block, uint32_t last_block) { return fby__format("scatter-%u-%u", first_block, last_block); }

static int put_padded(fby__buf *b, const void *bytes, size_t n)
{
    static const uint8_t zeros[8] = {0};
    return fby__buf_put(b, bytes, n) | fby__buf_put(b, zeros, (8 - n % 8) % 8);
}

/* Rows of one bucket into s->segment. */
static fby_status make_segment(stage *s, uint32_t bucket, fby_error *err)
{
    const uint64_t begin = s->begin[bucket], rows = s->begin[bucket + 1] - begin;
    struct ArrowArray array;
    s->segment.n = 0;
    if (rows == 0)
        return FBY_OK;
    FBY__TRY(fby__arrow_take(&s->p->schema, (const struct ArrowArray *const *)s->batches.arrays, (uint32_t)s->batches.n, s->runs + begin,
                             (size_t)rows, &array, err));
    fby_status status = fby__arrow_flat_of(&s->p->schema, &array, 0, array.length, true, &s->flat, err);
    const uint64_t head[3] = {rows, s->flat.n_nodes, s->flat.n_buffers};
    int failed = 0;
    if (status == FBY_OK) {
        failed |= put_padded(&s->segment, head, sizeof head);
        failed |= put_padded(&s->segment, s->where + begin, (size_t)rows * sizeof *s->where);
        failed |= put_padded(&s->segment, s->flat.nodes, s->flat.n_nodes * sizeof *s->flat.nodes);
        for (size_t i = 0; i < s->flat.n_buffers; i++) {
            const uint64_t n = s->flat.buffers[i].n;
            failed |= fby__buf_put(&s->segment, &n, sizeof n);
        }
        for (size_t i = 0; i < s->flat.n_buffers && status == FBY_OK; i++) {
            failed |= put_padded(&s->segment, s->flat.buffers[i].data, s->flat.buffers[i].n);
            status = fby__cancel_check(err);
        }
    }
    array.release(&array);
    return failed ? no_memory(err) : status;
}

static fby_status write_segments(stage *s, fby__pack_out *out, fby__pack_segment *segments, fby_error *err)
{
    const size_t index_bytes = s->p->n_buckets * sizeof *segments;
    for (uint32_t k = 0; k < s->p->n_buckets; k++) {
        FBY__TRY(fby__cancel_check(err));
        FBY__TRY(make_segment(s, k, err));
        segments[k] = (fby__pack_segment){out->at, s->segment.n, s->begin[k + 1] - s->begin[k], fby__hash(s->segment.data, s->segment.n)};
        if (s->segment.n)
            FBY__TRY(fby__pack_out_write(out, s->segment.data, s->segment.n, err));
        atomic_fetch_add_explicit(&s->p->done, segments[k].rows, memory_order_relaxed);
        FBY__TRY(fby__pack_tick(s->p, err));
    }
    const fby__hash128 hash = fby__hash(segments, index_bytes);
    FBY__TRY(fby__pack_out_write(out, segments, index_bytes, err));
    return fby__pack_out_write(out, &hash, sizeof hash, err);
}

static fby_status keep_scatter(fby__pack *p, uint32_t first, uint32_t last, fby__pack_segment *segments, fby_error *err)
{
    if (fby__grow((void **)&p->scatters, &p->cap_scatters, p->n_scatters + 1, sizeof *p->scatters) != 0) {
        fby__free(segments);
        return no_memory(err);
    }
    size_t at = p->n_scatters++;
    for (; at > 0 && p->scatters[at - 1].first_block > first; at--)
        p->scatters[at] = p->scatters[at - 1];
    p->scatters[at] = (fby__pack_scatter){first, last, segments};
    return FBY_OK;
}

static void clear(stage *s)
{
    fby__batches_drop(&s->batches, s->batches.n);
    s->rows = s->bytes = 0;
}

/* What is staged becomes a file. */
static fby_status flush(stage *s, fby_error *err)
{
    fby__pack_out out = {.fd = -1};
    fby__pack_segment *segments = fby__calloc(s->p->n_buckets, sizeof *segments);
    char *name = fby__pack_scatter_name(s->first_block, s->last_block);
    fby_status status = segments && name ? sort_rows(s, err) : no_memory(err);
    if (status == FBY_OK)
        status = fby__pack_out_open(s->p->work, name, &out, err);
    if (status == FBY_OK)
        status = write_segments(s, &out, segments, err);
    if (status == FBY_OK)
        status = fby__pack_out_close(&out, false, err);
    else
        fby__pack_out_drop(&out);
    fby__free(name);
    clear(s);
    if (status == FBY_OK)
        return keep_scatter(s->p, s->first_block, s->last_block, segments, err);
    fby__free(segments);
    return status;
}

/* ---- those that are there ---- */

/* Its index, whole; else *out stays NULL. */
static fby_status read_index(const fby__pack *p, const char *name, fby__pack_segment **out, fby_error *err)
{
    char *path = fby__format("%s/%s", p->work, name);
    const size_t n = p->n_buckets * sizeof **out;
    fby__pack_segment *segments = fby__malloc(n + sizeof(fby__hash128));
    fby_status status = path && segments ? FBY_OK : no_memory(err);
    struct stat st;
    const int fd = status == FBY_OK ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    const ssize_t all = (ssize_t)(n + sizeof(fby__hash128));
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= all && pread(fd, segments, (size_t)all, st.st_size - all) == all &&
        fby__hash_follows((const uint8_t *)segments, n)) {
        *out = segments;
        segments = NULL;
    }
    if (fd >= 0)
        (void)close(fd); /* it was only read */
    fby__free(segments);
    fby__free(path);
    return status;
}

static fby_status find_scatters(fby__pack *p, fby_error *err)
{
    fby_status status = FBY_OK;
    const uint32_t n_blocks = fby__dataset_block_count(p->ds);
    DIR *d = opendir(p->work);
    if (!d)
        return fby__fail_errno(err, errno, "cannot open the folder '%s'", p->work);
    for (struct dirent *e; status == FBY_OK && (e = readdir(d));) {
        unsigned first, last;
        int end = 0;
        fby__pack_segment *segments = NULL;
        if (sscanf(e->d_name, "scatter-%u-%u%n", &first, &last, &end) < 2 || e->d_name[end])
            continue;
        if (first < last && last <= n_blocks)
            status = read_index(p, e->d_name, &segments, err);
        if (segments)
            status = keep_scatter(p, first, last, segments, err);
    }
    (void)closedir(d);
    return status;
}

/* ---- all ---- */

/* Blocks [first, last), of which nothing is there yet. */
static fby_status scatter_blocks(stage *s, fby__arrow_reader *reader, uint32_t first, uint32_t last, fby_error *err)
{
    s->first_block = first;
    for (uint32_t b = first; b < last; b++) {
        struct ArrowArray array;
        FBY__TRY(fby__cancel_check(err));
        FBY__TRY(fby__pack_read(reader, b, &array, err));
        FBY__TRY(add_block(s, b, &array, err));
        FBY__TRY(fby__pack_tick(s->p, err));
        s->last_block = b + 1;
        if (s->bytes >= s->p->memory_bytes / 4 || b + 1 == last) {
            FBY__TRY(flush(s, err));
            s->first_block = b + 1;
        }
    }
    return FBY_OK;
}

static fby_status scatter_missing(stage *s, fby__arrow_reader *reader, fby_error *err)
{
    fby__pack *p = s->p;
    const uint32_t n_blocks = fby__dataset_block_count(p->ds);
    uint32_t at = 0;
    while (at < n_blocks) {
        /* Those that lie behind each other cover blocks up to `at`; the next one begins where the gap ends. */
        uint32_t end = n_blocks;
        bool covered = false;
        for (size_t i = 0; i < p->n_scatters && !covered; i++) {
            const fby__pack_scatter *c = &p->scatters[i];
            covered = c->first_block == at;
            if (covered)
                at = c->last_block;
            else if (c->first_block > at && c->first_block < end)
                end = c->first_block;
        }
        if (!covered) {
            FBY__TRY(scatter_blocks(s, reader, at, end, err));
            at = end;
        }
    }
    return FBY_OK;
}

fby_status fby__pack_scatter_all(fby__pack *p, fby_error *err)
{
    stage s = {.p = p};
    fby__arrow_reader *reader = NULL;
    FBY__TRY(find_scatters(p, err));
    for (size_t i = 0; i < p->n_scatters; i++)
        for (uint32_t k = 0; k < p->n_buckets; k++)
            atomic_fetch_add_explicit(&p->done, p->scatters[i].segments[k].rows, memory_order_relaxed);
    s.begin = fby__calloc((size_t)p->n_buckets + 1, sizeof *s.begin);
    fby_status status =
        s.begin ? fby__arrow_reader_open(p->ds, p->o->columns, p->o->n_columns, p->memory_bytes / 4, &reader, err) : no_memory(err);
    if (status == FBY_OK)
        status = scatter_missing(&s, reader, err);
    fby__arrow_reader_close(reader);
    fby__batches_fini(&s.batches);
    fby__free(s.bucket);
    fby__free(s.destination);
    fby__free(s.runs);
    fby__free(s.where);
    fby__free(s.begin);
    fby__arrow_flat_fini(&s.flat);
    fby__buf_fini(&s.segment);
    return status;
}
