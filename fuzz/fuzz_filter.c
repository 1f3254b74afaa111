/*
 * libFuzzer target: arbitrary bytes as one stored chunk of an HDF5 data set with its filters, through the check and the undoing.
 * The input is a record of tests/golden/make_hdf5_filter_golden.py: u32 bytes of the chunk, u32 mask, u8 verify, u8 filters,
 * for each filter u16 id, u8 values, u32 values …; then the stored bytes.
 *
 * Correct is any status; a crash, a sanitizer's report, a hang or memory without bound is not. The state is kept from input to
 * input, as a loader keeps it from chunk to chunk.
 */
#include "codec/filter.h"

#include <stdlib.h>

enum { MAX_FILTERS = 6, MAX_VALUES = 12, MAX_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fby__filter_state state;
    uint32_t values[MAX_FILTERS][MAX_VALUES];
    fby__filter filters[MAX_FILTERS];
    if (size < 10)
        return 0;
    const size_t dst_n = fby__load_u32(data) % (MAX_BYTES + 1);
    const uint32_t mask = fby__load_u32(data + 4), n = data[9] % (MAX_FILTERS + 1);
    const bool verify = data[8] & 1;
    state.streaming = data[8] & 2; /* past the caches: other stores, the same bytes */
    data += 10;
    size -= 10;
    for (uint32_t i = 0; i < n; i++) {
        if (size < 3)
            return 0;
        const uint32_t n_values = data[2] % (MAX_VALUES + 1);
        if (size - 3 < 4 * n_values)
            return 0;
        memcpy(values[i], data + 3, 4 * n_values);
        filters[i] = (fby__filter){.id = fby__load_u16(data), .n_values = n_values, .values = values[i]};
        data += 3 + 4 * n_values;
        size -= 3 + 4 * n_values;
    }
    /* Exact memory, so that AddressSanitizer sees the first byte beyond. */
    uint8_t *src = malloc(size ? size : 1), *dst = malloc(dst_n ? dst_n : 1);
    if (src && dst) {
        memcpy(src, data, size);
        fby_error err;
        (void)fby__filters_check(filters, n, 4, &err); /* any status will do, here and below */
        (void)fby__filters_undo(&state, filters, n, mask, verify, (fby__bytes){src, size}, dst, dst_n, &err);
    }
    free(src);
    free(dst);
    return 0;
}
