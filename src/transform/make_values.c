/* Values of a job, packed into a block and put back: see make_values.h. */
#include "transform/make_values.h"

#include "base/checked.h"
#include "block/panel.h"

#include <string.h>

/* n elements that lie `stride` apart, packed. A constant size makes each copy one move. */
static inline __attribute__((always_inline)) void pick(uint8_t *to, const uint8_t *from, size_t stride, size_t bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * bytes, from + i * stride, bytes);
}

/* Values of one element a row: every row's first. Most samples are of one row. */
static inline __attribute__((always_inline)) size_t next_scalars(const fby__make_job *job, const fby__make_view *v, size_t bytes,
                                                                 fby__make_cursor *at, size_t n, uint8_t *packed)
{
    uint64_t sample = at->sample, row = at->row;
    size_t got = 0;
    while (got < n && sample < job->n) {
        const uint64_t left = job->n_rows[sample] - row;
        const size_t k = (size_t)fby__min_u64(left, n - got);
        if (k == 1)
            memcpy(packed + got * bytes, v->data[sample] + row * v->row_bytes, bytes);
        else
            pick(packed + got * bytes, v->data[sample] + row * v->row_bytes, v->row_bytes, bytes, k);
        got += k;
        sample += k == left;
        row = k == left ? 0 : row + k;
    }
    *at = (fby__make_cursor){.sample = sample, .row = row};
    return got;
}

static size_t next_arrays(const fby__make_job *job, const fby__make_view *v, size_t bytes, uint32_t width, fby__make_cursor *at, size_t n,
                          uint8_t *packed)
{
    size_t got = 0;
    while (got < n && at->sample < job->n) {
        if (at->row == job->n_rows[at->sample]) {
            *at = (fby__make_cursor){.sample = at->sample + 1};
            continue;
        }
        const size_t left = width - at->element, k = left < n - got ? left : n - got;
        memcpy(packed + got * bytes, v->data[at->sample] + at->row * v->row_bytes + at->element * bytes, k * bytes);
        got += k;
        at->element += (uint32_t)k;
        if (at->element == width) {
            at->element = 0;
            at->row++;
        }
    }
    return got;
}

size_t fby__make_next(const fby__make_job *job, const fby__make_view *view, size_t bytes, uint32_t width, fby__make_cursor *cursor,
                      size_t n, void *packed)
{
    if (width != 1)
        return next_arrays(job, view, bytes, width, cursor, n, packed);
    switch (bytes) {
    case 1: return next_scalars(job, view, 1, cursor, n, packed);
    case 2: return next_scalars(job, view, 2, cursor, n, packed);
    case 4: return next_scalars(job, view, 4, cursor, n, packed);
    default: return next_scalars(job, view, 8, cursor, n, packed);
    }
}

/* To the next value: the cursor is at one, or at the end of a row or sample. */
static inline void settle(const fby__make_job *job, uint32_t width, fby__make_cursor *cursor)
{
    if (cursor->element == width) {
        cursor->element = 0;
        cursor->row++;
    }
    while (cursor->row == job->n_rows[cursor->sample]) {
        cursor->row = 0;
        cursor->sample++;
    }
}

void fby__make_next_valid(const fby__make_job *job, const fby__make_view *view, uint32_t width, fby__make_cursor cursor, size_t n,
                          uint8_t *packed)
{
    for (size_t i = 0; i < n; i++) {
        settle(job, width, &cursor);
        packed[i] = view->valid[cursor.sample][cursor.row * view->valid_bytes];
        cursor.element++;
    }
}

uint8_t *fby__make_next_result(const fby__make_job *job, size_t bytes, uint32_t width, fby__make_cursor *cursor)
{
    settle(job, width, cursor);
    return job->dst[cursor->sample] + (cursor->row * width + cursor->element++) * bytes;
}

/* Results of one element a row. */
static inline __attribute__((always_inline)) void put_scalars(const fby__make_job *job, size_t bytes, fby__make_cursor *cursor, size_t n,
                                                              const uint8_t *from)
{
    uint64_t sample = cursor->sample, row = cursor->row;
    while (n > 0) {
        const uint64_t left = job->n_rows[sample] - row;
        const size_t k = (size_t)fby__min_u64(left, n);
        if (k == 1)
            memcpy(job->dst[sample] + row * bytes, from, bytes);
        else
            memcpy(job->dst[sample] + row * bytes, from, k * bytes);
        from += k * bytes;
        n -= k;
        sample += k == left;
        row = k == left ? 0 : row + k;
    }
    *cursor = (fby__make_cursor){.sample = sample, .row = row};
}

static void put_arrays(const fby__make_job *job, size_t bytes, uint32_t width, fby__make_cursor *cursor, size_t n, const uint8_t *from)
{
    while (n > 0) {
        settle(job, width, cursor);
        const uint64_t done = cursor->row * width + cursor->element, left = job->n_rows[cursor->sample] * width - done;
        const size_t k = (size_t)fby__min_u64(left, n);
        memcpy(job->dst[cursor->sample] + done * bytes, from, k * bytes);
        cursor->row = (done + k) / width;
        cursor->element = (uint32_t)((done + k) % width);
        from += k * bytes;
        n -= k;
    }
}

void fby__make_put(const fby__make_job *job, size_t bytes, uint32_t width, fby__make_cursor *cursor, size_t n, const void *packed)
{
    if (width != 1) {
        put_arrays(job, bytes, width, cursor, n, packed);
        return;
    }
    switch (bytes) {
    case 1: put_scalars(job, 1, cursor, n, packed); break;
    case 2: put_scalars(job, 2, cursor, n, packed); break;
    case 4: put_scalars(job, 4, cursor, n, packed); break;
    default: put_scalars(job, 8, cursor, n, packed); break;
    }
}

uint64_t fby__make_sample_of(const fby__make_job *job, uint32_t width, fby__make_cursor cursor, size_t n)
{
    settle(job, width, &cursor);
    for (uint64_t left = n + cursor.row * width + cursor.element; cursor.sample + 1 < job->n; cursor.sample++) {
        const uint64_t here = job->n_rows[cursor.sample] * width;
        if (left < here)
            break;
        left -= here;
    }
    return cursor.sample;
}

uint64_t fby__make_one(fby_dtype dtype)
{
    fby__scalar one;
    (void)fby__scalar_set(dtype, 1, &one); /* 1 is a value of every dtype */
    return one.u64;
}
