/*
 * libFuzzer target: arbitrary bytes as a Parquet file, through everything that reads them (fuzz_file.h).
 *
 * With libFuzzer, half of the mutations change the footer or one stretch of pages alone and make the file whole again: its length and
 * magic, without which nothing of a footer is read, are then right.
 */
#include "fuzz_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (write_file(data, size) != 0)
        return -1;
    read_everything(
        &(fby_open_opts){.size = sizeof(fby_open_opts), .cache_dir = "", .n_threads = 1, .io = FBY_IO_THREADS, .verify_crc = true});
    return 0;
}

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { TAIL = 8, HEAD = 4, STRETCH = 64 };

static size_t footer_bytes(const uint8_t *data, size_t size)
{
    uint32_t n = 0;
    if (size < HEAD + TAIL || memcmp(data + size - 4, "PAR1", 4) != 0)
        return 0;
    memcpy(&n, data + size - TAIL, sizeof n);
    return n <= size - HEAD - TAIL ? n : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const size_t n = footer_bytes(data, size);
    if (n == 0 || seed % 2 == 0 || max_size < size)
        return LLVMFuzzerMutate(data, size, max_size);
    const size_t footer_at = size - TAIL - n;
    if (seed % 4 == 1 && footer_at > HEAD) { /* pages: in place, so that every offset in the footer stays true */
        const size_t room = footer_at - HEAD, m = room < STRETCH ? room : STRETCH;
        (void)LLVMFuzzerMutate(data + HEAD + seed / 4 % (room - m + 1), m, m); /* a shorter result leaves old bytes behind it */
        return size;
    }
    uint8_t tail[TAIL];
    memcpy(tail + 4, "PAR1", 4);
    const uint32_t grown = (uint32_t)LLVMFuzzerMutate(data + footer_at, n, max_size - footer_at - TAIL);
    memcpy(tail, &grown, sizeof grown);
    memcpy(data + footer_at + grown, tail, TAIL);
    return footer_at + grown + TAIL;
}
#endif
