/*
 * Scatter tasks, of a shuffle: a range of the source's blocks, in file order, gathered in memory until there are enough of them; then their rows
 * are written, bucket after bucket. That is a round; a task's file has one, or more where memory is less than the plan had in mind.
 *
 *     scatter-00012      round 0: bucket 0 │ bucket 1 │ … │ round 1: bucket 0 │ … │ index: a segment a bucket and round │ its end
 *     segment            u64 rows, nodes, buffers │ u32 a row: destination in the bucket │ nodes │ u64 a buffer: bytes │ buffers
 *
 * Everything begins at multiples of 8 bytes; numbers are as the machine has them. A file of many segments instead of a file a bucket: what
 * was written is never touched again, few files are open at a time, and a task that is stopped loses one file.
 *
 * A hash stands behind every segment, and an index that is not whole is no file: one process that packs alone does not sync them.
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROW_BYTES                                                                                                                          \
    48u /* of what is kept of a row while it is staged: its destination, its position, its run; arrays that grow have room to spare */

#define TAKEN_PART 4u /* one in so many of the rows that are staged is taken at a time, which is held beside them meanwhile */

/* Blocks at hand, and where their rows go. */
typedef struct stage {
    fby__pack *p;
    uint64_t round_bytes;     /* so many are a round */
    fby__pack_reader *reader; /* owned */
    fby__batches batches;
    uint64_t rows, bytes;
    uint32_t *bucket; /* owned, as all: of each row */
    uint64_t *destination;
    size_t cap_bucket, cap_destination;
    uint64_t *next;     /* by a key: rows of each value so far */
    fby__row_run *runs; /* rows, by bucket */
    uint32_t *where;    /* destinations in their bucket, in the same order */
    uint64_t *begin;    /* n_buckets + 1: of each bucket's rows */
    size_t cap_runs, cap_where;
    fby__arrow_flat flat;
    fby__buf segment;
    fby__buf index; /* of the file that is being written: segments */
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

/* The bucket of a destination: as fby__pack_bucket_at, from a guess that is near. */
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
    const uint64_t n = (uint64_t)array->length, first = fby__pack_block_begin(p, block);
    fby_status status = fby__arrow_flat_of(&p->schema, array, 0, array->length, true, &s->flat, err);
    const uint64_t bytes = fby__arrow_flat_bytes(&s->flat);
    if (status == FBY_OK && (n > UINT32_MAX || fby__grow((void **)&s->bucket, &s->cap_bucket, s->rows + n, sizeof *s->bucket) != 0 ||
                             fby__grow((void **)&s->destination, &s->cap_destination, s->rows + n, sizeof *s->destination) != 0))
        status = no_memory(err);
    if (status != FBY_OK) {
        array->release(array);
        return status;
    }
    if (p->keys)
        status = fby__pack_keys_destinations(p, array, s->next, s->destination + s->rows, err);
    else
        fby__pack_destinations(&p->order, first, (uint32_t)n, s->destination + s->rows);
    if (status != FBY_OK) {
        array->release(array);
        return status;
    }
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

char *fby__pack_scatter_name(uint64_t k) { return fby__format("scatter-%05llu", (unsigned long long)k); }

static int put_padded(fby__buf *b, const void *bytes, size_t n)
{
    static const uint8_t zeros[8] = {0};
    return fby__buf_put(b, bytes, n) | fby__buf_put(b, zeros, (8 - n % 8) % 8);
}

/* The end of the buckets whose rows are taken together: a part of what is staged, but one bucket at least. */
static uint32_t taken_end(const stage *s, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < s->p->n_buckets && s->begin[end + 1] - s->begin[first] <= s->rows / TAKEN_PART)
        end++;
    return end;
}

/* Rows [at, at + rows) of those that were taken, a bucket's, into s->segment. */
static fby_status make_segment(stage *s, const struct ArrowArray *taken, uint64_t at, uint64_t rows, const uint32_t *where, fby_error *err)
{
    s->segment.n = 0;
    if (rows == 0)
        return FBY_OK;
    FBY__TRY(fby__arrow_flat_of(&s->p->schema, taken, (int64_t)at, (int64_t)rows, true, &s->flat, err));
    const uint64_t head[3] = {rows, s->flat.n_nodes, s->flat.n_buffers};
    int failed = put_padded(&s->segment, head, sizeof head);
    failed |= put_padded(&s->segment, where, (size_t)rows * sizeof *where);
    failed |= put_padded(&s->segment, s->flat.nodes, s->flat.n_nodes * sizeof *s->flat.nodes);
    for (size_t i = 0; i < s->flat.n_buffers; i++) {
        const uint64_t n = s->flat.buffers[i].n;
        failed |= fby__buf_put(&s->segment, &n, sizeof n);
    }
    for (size_t i = 0; i < s->flat.n_buffers; i++) {
        failed |= put_padded(&s->segment, s->flat.buffers[i].data, s->flat.buffers[i].n);
        FBY__TRY(fby__cancel_check(err));
    }
    return failed ? no_memory(err) : FBY_OK;
}

static fby_status write_segment(stage *s, uint32_t bucket, const struct ArrowArray *taken, uint64_t at, fby__pack_out *out, fby_error *err)
{
    const uint64_t begin = s->begin[bucket], rows = s->begin[bucket + 1] - begin;
    FBY__TRY(fby__pack_go_on(s->p, err));
    FBY__TRY(make_segment(s, taken, at, rows, s->where + begin, err));
    const fby__pack_segment segment = {out->at, s->segment.n, rows, fby__hash(s->segment.data, s->segment.n)};
    if (fby__buf_put(&s->index, &segment, sizeof segment) != 0)
        return no_memory(err);
    return s->segment.n ? fby__pack_out_write(out, s->segment.data, s->segment.n, err) : FBY_OK;
}

/*
 * Writes many buckets at once, column by column: a column of what is staged stays in the core's caches while its values go to all of them. Bucket by
 * bucket, every value would be fetched with a line of its neighbours, and these again for the other buckets.
 */
static fby_status write_buckets(stage *s, uint32_t first, uint32_t end, fby__pack_out *out, fby_error *err)
{
    const uint64_t begin = s->begin[first];
    struct ArrowArray taken;
    FBY__TRY(fby__arrow_take(&s->p->schema, (const struct ArrowArray *const *)s->batches.arrays, (uint32_t)s->batches.n, s->runs + begin,
                             (size_t)(s->begin[end] - begin), &taken, err));
    fby_status status = FBY_OK;
    for (uint32_t k = first; status == FBY_OK && k < end; k++)
        status = write_segment(s, k, &taken, s->begin[k] - begin, out, err);
    taken.release(&taken);
    return status;
}

static void clear(stage *s)
{
    fby__batches_drop(&s->batches, s->batches.n);
    s->rows = s->bytes = 0;
}

/* What is staged becomes a round of the file. */
static fby_status write_round(stage *s, fby__pack_out *out, fby_error *err)
{
    FBY__TRY(sort_rows(s, err));
    for (uint32_t k = 0, end; k < s->p->n_buckets; k = end) {
        end = taken_end(s, k);
        FBY__TRY(write_buckets(s, k, end, out, err));
    }
    clear(s);
    return FBY_OK;
}

static fby_status write_index(stage *s, fby__pack_out *out, fby_error *err)
{
    const uint64_t buckets = s->p->n_buckets, numbers[2] = {s->index.n / sizeof(fby__pack_segment) / buckets, buckets};
    if (fby__buf_put(&s->index, numbers, sizeof numbers) != 0)
        return no_memory(err);
    const fby__hash128 hash = fby__hash(s->index.data, s->index.n);
    FBY__TRY(fby__pack_out_write(out, s->index.data, s->index.n, err));
    return fby__pack_out_write(out, &hash, sizeof hash, err);
}

static fby_status write_blocks(stage *s, fby__pack_out *out, uint32_t first, uint32_t last, fby_error *err)
{
    for (uint32_t b = first; b < last; b++) {
        struct ArrowArray array;
        FBY__TRY(fby__pack_go_on(s->p, err));
        FBY__TRY(fby__pack_reader_block(s->reader, b, &array, err));
        const uint64_t rows = (uint64_t)array.length;
        FBY__TRY(add_block(s, b, &array, err));
        if (s->bytes >= s->round_bytes || b + 1 == last)
            FBY__TRY(write_round(s, out, err));
        fby__pack_count(s->p, rows);
    }
    return write_index(s, out, err);
}

/* ---- one that is there ---- */

/* Whole, as its index says; else *out_there is false, and *out_broken the inode of what is there. */
static fby_status look(const fby__pack *p, const char *path, bool *out_there, ino_t *out_broken, fby_error *err)
{
    struct stat st = {0};
    fby__pack_scatter_end end;
    uint8_t *index = NULL;
    uint64_t n = 0;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    fby_status status = FBY_OK;
    *out_there = false;
    *out_broken = 0;
    if (fd >= 0 && fstat(fd, &st) == 0)
        *out_broken = st.st_ino;
    if (fd >= 0 && st.st_size >= (off_t)sizeof end && pread(fd, &end, sizeof end, st.st_size - (off_t)sizeof end) == (ssize_t)sizeof end &&
        end.buckets == p->n_buckets && end.rounds <= (uint64_t)st.st_size / sizeof(fby__pack_segment) / end.buckets)
        n = end.rounds * end.buckets * sizeof(fby__pack_segment) + sizeof end;
    if (n && n <= (uint64_t)st.st_size) {
        index = fby__malloc((size_t)n);
        if (!index)
            status = no_memory(err);
        else
            *out_there = pread(fd, index, (size_t)n, st.st_size - (off_t)n) == (ssize_t)n &&
                         fby__hash_follows(index, (size_t)n - sizeof(fby__hash128));
    }
    if (fd >= 0)
        (void)close(fd); /* it was only read */
    fby__free(index);
    return status;
}

/* ---- a task ---- */

/* replaces: a file that was there and is not whole. It keeps its name until this one takes it: what another process finishes meanwhile stays. */
static fby_status make_file(stage *s, const char *name, ino_t replaces, uint64_t k, fby_error *err)
{
    const fby__pack_keys *keys = s->p->keys;
    const uint32_t first = fby__pack_scatter_begin(s->p, (uint32_t)k), last = fby__pack_scatter_begin(s->p, (uint32_t)k + 1);
    fby__pack_out out;
    s->index.n = 0;
    if (keys)
        memcpy(s->next, keys->begin + (size_t)s->p->cuts.of_scatter[k] * keys->n, keys->n * sizeof *s->next);
    FBY__TRY(fby__pack_out_open(s->p->work, name, &out, err));
    out.replaces = replaces;
    const fby_status status = write_blocks(s, &out, first, last, err);
    if (status == FBY_OK)
        return fby__pack_out_close(&out, s->p->by_tasks, err); /* what one machine has written another one reads */
    fby__pack_out_drop(&out);
    clear(s);
    return status;
}

static fby_status scatter_task(void *worker, uint64_t k, fby_error *err)
{
    stage *s = worker;
    fby__pack *p = s->p;
    bool there = false;
    ino_t broken = 0;
    char *name = fby__pack_scatter_name(k), *path = name ? fby__format("%s/%s", p->work, name) : NULL;
    fby_status status = path ? look(p, path, &there, &broken, err) : no_memory(err);
    if (there) {
        p->resumed |= p->by_tasks;
        fby__pack_count(p, fby__pack_scatter_rows(p, (uint32_t)k));
    } else if (status == FBY_OK) {
        status = make_file(s, name, broken, k, err);
    }
    fby__free(path);
    fby__free(name);
    return status;
}

static void end_stage(void *worker)
{
    stage *s = worker;
    fby__pack_reader_close(s->reader);
    fby__batches_fini(&s->batches);
    fby__free(s->bucket);
    fby__free(s->destination);
    fby__free(s->runs);
    fby__free(s->where);
    fby__free(s->begin);
    fby__free(s->next);
    fby__arrow_flat_fini(&s->flat);
    fby__buf_fini(&s->segment);
    fby__buf_fini(&s->index);
    fby__free(s);
}

static fby_status begin_stage(fby__pack *p, uint32_t n_workers, void **out, fby_error *err)
{
    stage *s = fby__calloc(1, sizeof *s);
    if (!s)
        return no_memory(err);
    s->p = p;
    s->round_bytes = p->memory_bytes / 4 / n_workers;
    s->begin = fby__calloc((size_t)p->n_buckets + 1, sizeof *s->begin);
    s->next = p->keys ? fby__calloc((size_t)p->keys->n + 1, sizeof *s->next) : NULL;
    const fby_status status =
        s->begin && (s->next || !p->keys) ? fby__pack_reader_open(p, s->round_bytes, &s->reader, err) : no_memory(err);
    if (status == FBY_OK)
        *out = s;
    else
        end_stage(s);
    return status;
}

static bool stage_lacks_memory(const void *worker) { return fby__pack_reader_lacks_room(((const stage *)worker)->reader); }

static bool reads_source(const fby__pack *p)
{
    (void)p;
    return true;
}

const fby__pack_phase_ops fby__pack_scatter_phase = {"scattering", begin_stage, scatter_task, stage_lacks_memory, end_stage, reads_source};
