/* Starts of groups, packed: two bytes each in frames of 64. See samples_impl.h. */
#include "dataset/samples_impl.h"

#include "base/alloc.h"

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
