/* Starts of groups, packed: two bytes each in frames of 64. See samples_impl.h. */
#include "base/alloc.h"
#include "base/checked.h"
#include "samples/samples_impl.h"

fby_status fby__groups_pack(fby__block_groups *g, const uint32_t *begins, size_t n_begins, fby_error *err)
{
    uint32_t n = (uint32_t)n_begins + 1, n_frames = (n + FBY__FRAME_GROUPS - 1) / FBY__FRAME_GROUPS;
    size_t units = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint16_t *starts = pass ? (uint16_t *)(void *)(g->frames + n_frames) : NULL;
        units = pass ? 0 : units;
        for (uint32_t i = 0; i < n_frames; i++) {
            uint32_t from = i * FBY__FRAME_GROUPS, to = from + FBY__FRAME_GROUPS < n ? from + FBY__FRAME_GROUPS : n;
            uint32_t row = from ? begins[from - 1] : 0, last = to > 1 ? begins[to - 2] : 0;
            bool wide = last - row > UINT16_MAX;
            if (pass) {
                g->frames[i] = (fby__frame){row, (uint32_t)units | (wide ? FBY__FRAME_WIDE : 0)};
                for (uint32_t k = from; k < to; k++) {
                    uint32_t start = (k ? begins[k - 1] : 0) - row;
                    size_t at = units + (wide ? 2 * (k - from) : k - from);
                    starts[at] = (uint16_t)start;
                    if (wide)
                        starts[at + 1] = (uint16_t)(start >> 16);
                }
            }
            units += (wide ? 2 : 1) * (size_t)(to - from);
        }
        if (pass == 0) {
            g->bytes = n_frames * sizeof *g->frames + units * sizeof *g->starts;
            g->frames = fby__malloc(g->bytes);
            if (!g->frames)
                return fby__fail_nomem(err, "the groups");
        }
    }
    g->starts = (const uint16_t *)(const void *)(g->frames + n_frames);
    g->n = n;
    return FBY_OK;
}

static fby_status groups_of_block(fby__sample_base *base, uint32_t b, uint64_t n, fby_error *err)
{
    const fby_dataset *ds = base->ds;
    const fby__block *block = fby__dataset_block(ds, b);
    const fby__file_facts file = fby__dataset_facts(ds, block->file);
    uint64_t rows = block->row_end - block->row_begin, file_end = file.end_row - block->first_row,
             begun = (block->first_row - file.first_row) % n; /* rows before this block of the group that goes on in it */
    fby__block_groups *g = &base->groups[b];
    if (rows == 0)
        return FBY_OK;
    if (rows > FBY__MAX_GROUP_BLOCK_ROWS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a block of %llu rows is more than the sample index holds", (unsigned long long)rows);
    uint64_t start = n - begun, n_begins = start < rows ? fby__div_up_u64(rows - start, n) : 0;
    uint32_t *begins = fby__malloc((size_t)(n_begins + 1) * sizeof *begins);
    if (!begins)
        return fby__fail_nomem(err, "the groups");
    for (uint64_t i = 0; i < n_begins; i++)
        begins[i] = (uint32_t)(start + i * n);
    g->skip = begun != 0;
    g->last_end = fby__min_u64(file_end, (n_begins ? begins[n_begins - 1] : 0) + n);
    fby_status status = fby__groups_pack(g, begins, (size_t)n_begins, err);
    fby__free(begins);
    return status;
}

fby_status fby__groups_of_rows(fby__sample_base *base, uint64_t n, fby_error *err)
{
    uint32_t n_blocks = fby__dataset_block_count(base->ds);
    n = fby__min_u64(n, (uint64_t)INT64_MAX); /* more than any file has */
    base->groups = fby__calloc(n_blocks, sizeof *base->groups);
    if (!base->groups)
        return fby__fail_nomem(err, "the groups");
    for (uint32_t b = 0; b < n_blocks; b++)
        FBY__TRY(groups_of_block(base, b, n, err));
    return FBY_OK;
}
