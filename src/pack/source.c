/* Rows of a pack that is not shuffled, as the source has them: blocks in file order, released when the last of their rows was used. */
#include "base/checked.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

typedef struct file_source {
    fby__pack_source base;
    const fby__pack *p;
    fby__pack_reader *reader; /* owned */
    fby__batches batches;     /* of blocks [first_block, first_block + batches.n) */
    uint32_t first_block;
    fby__row_run *runs; /* owned */
    size_t cap_runs;
} file_source;

static uint64_t first_row(const file_source *s, uint32_t block) { return fby__pack_block_begin(s->p, block); }

static uint64_t end_row(const file_source *s, uint32_t block) { return fby__pack_block_begin(s->p, block + 1); }

/* The blocks that hold [first, first + n), and no others. */
static fby_status hold(file_source *s, uint64_t first, uint64_t n, fby_error *err)
{
    const uint32_t begin = fby__pack_block_of(s->p, first), last = fby__pack_block_of(s->p, first + n - 1);
    if (begin >= s->first_block && begin < s->first_block + s->batches.n) {
        fby__batches_drop(&s->batches, begin - s->first_block);
    } else {
        fby__batches_drop(&s->batches, s->batches.n);
    }
    s->first_block = begin;
    while (s->first_block + s->batches.n <= last) {
        struct ArrowArray array;
        const fby_status status = fby__pack_reader_block(s->reader, s->first_block + (uint32_t)s->batches.n, &array, err);
        s->base.lacks_memory = fby__pack_reader_lacks_room(s->reader);
        if (status != FBY_OK)
            return status;
        FBY__TRY(fby__batches_add(&s->batches, &array, NULL, err));
    }
    return FBY_OK;
}

static fby_status file_rows(fby__pack_source *base, uint64_t first, uint64_t n, uint64_t end, fby__pack_rows *out, fby_error *err)
{
    file_source *s = (file_source *)base;
    (void)end; /* blocks say how much is read at a time */
    FBY__TRY(hold(s, first, n, err));
    size_t n_runs = 0;
    for (uint32_t i = 0; i < s->batches.n; i++) {
        const uint32_t block = s->first_block + i;
        const uint64_t lo = fby__max_u64(first, first_row(s, block)), hi = fby__min_u64(first + n, end_row(s, block));
        if (lo >= hi)
            continue; /* a block without rows */
        if (fby__grow((void **)&s->runs, &s->cap_runs, n_runs + 1, sizeof *s->runs) != 0)
            return fby__fail_nomem(err, "a pack");
        s->runs[n_runs++] = (fby__row_run){i, (uint32_t)(hi - lo), lo - first_row(s, block)};
    }
    *out = (fby__pack_rows){(const struct ArrowArray *const *)s->batches.arrays, (uint32_t)s->batches.n, s->runs, n_runs};
    return FBY_OK;
}

static void file_free(fby__pack_source *base)
{
    file_source *s = (file_source *)base;
    fby__batches_fini(&s->batches);
    fby__pack_reader_close(s->reader);
    fby__free(s->runs);
    fby__free(s);
}

fby_status fby__pack_file_source(const fby__pack *p, uint64_t memory_bytes, fby__pack_source **out, fby_error *err)
{
    file_source *s = fby__calloc(1, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "a pack");
    s->base = (fby__pack_source){.rows = file_rows, .free = file_free};
    s->p = p;
    fby_status status = fby__pack_reader_open(p, memory_bytes / 4, &s->reader, err);
    if (status == FBY_OK)
        *out = &s->base;
    else
        file_free(&s->base);
    return status;
}
