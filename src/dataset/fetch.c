/*
 * The bytes of some leaves of a block, for the Arrow export: ranges that are near one another are one read.
 *
 * A gap of up to 64 KiB is read along: at 1 GB/s it costs 64 µs, less than another read from a disk or over a network.
 * One read is at most 64 MiB plus one range, so that an allocation does not depend on how far apart two columns are.
 */
#include "base/checked.h"
#include "dataset/dataset_impl.h"

#include <stdlib.h>

#define MAX_GAP_BYTES ((uint64_t)64 << 10)
#define MAX_READ_BYTES ((uint64_t)64 << 20)

typedef struct range {
    uint64_t begin, end;
    const uint8_t **data;
} range;

static int compare_ranges(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static fby_status read_run(fby__file *file, const range *ranges, size_t n, uint64_t end, fby__fetch *out, fby_error *err)
{
    uint64_t begin = ranges[0].begin;
    uint8_t *buffer = fby__malloc((size_t)(end - begin));
    if (!buffer)
        return fby__fail_nomem(err, "column data");
    out->buffers[out->n_buffers++] = buffer;
    FBY__TRY(fby__file_read(file, begin, buffer, (size_t)(end - begin), err));
    for (size_t i = 0; i < n; i++)
        *ranges[i].data = buffer + (ranges[i].begin - begin);
    return FBY_OK;
}

fby_status fby__fetch_sources(fby__file *file, fby__leaf_source *sources, size_t n, fby__fetch *out, fby_error *err)
{
    *out = (fby__fetch){0};
    size_t most = 2 * n;
    for (size_t i = 0; i < n; i++)
        most += sources[i].n_pieces;
    range *ranges = fby__calloc(most, sizeof *ranges);
    out->buffers = fby__calloc(most, sizeof *out->buffers);
    fby_status status = ranges && out->buffers ? FBY_OK : fby__fail_nomem(err, "column data");
    size_t n_ranges = 0;
    uint64_t size = file ? fby__file_stamp_of(file)->size_bytes : 0;
    for (size_t i = 0; i < n && status == FBY_OK; i++)
        for (size_t k = 0; k < 2 + sources[i].n_pieces && status == FBY_OK; k++) {
            fby__range *r = fby__source_range(&sources[i], k);
            uint64_t begin = r->offset, end;
            if (r->n == 0)
                continue;
            if (!fby__add_u64_checked(begin, r->n, &end) || end > size)
                status = fby__fail_at(err, FBY_E_FORMAT, begin, "'%s': column data goes beyond the end of the file (%llu bytes)",
                                      file ? fby__file_path(file) : "(in memory)", (unsigned long long)size);
            else
                ranges[n_ranges++] = (range){begin, end, &r->data};
        }
    if (status == FBY_OK && n_ranges > 1)
        qsort(ranges, n_ranges, sizeof *ranges, compare_ranges);
    for (size_t i = 0, next; status == FBY_OK && i < n_ranges; i = next) {
        uint64_t end = ranges[i].end;
        for (next = i + 1; next < n_ranges && ranges[next].begin <= end + MAX_GAP_BYTES && end - ranges[i].begin < MAX_READ_BYTES; next++)
            end = fby__max_u64(end, ranges[next].end);
        status = read_run(file, &ranges[i], next - i, end, out, err);
    }
    fby__free(ranges);
    if (status != FBY_OK)
        fby__fetch_fini(out);
    return status;
}

void fby__fetch_fini(fby__fetch *fetch)
{
    for (size_t i = 0; i < fetch->n_buffers; i++)
        fby__free(fetch->buffers[i]);
    fby__free(fetch->buffers);
    *fetch = (fby__fetch){0};
}
