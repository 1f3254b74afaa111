/*
 * libFuzzer target: arbitrary bytes as a CSV file, plain or gzip, through everything that reads them (fuzz_table.h, fuzz_file.h): scanner,
 * types, inflating, both sinks. What is not text is known by its first bytes as another format, and read as that.
 */
#define FUZZ_SUFFIX ".csv"
#include "fuzz_file.h"

#include "fuzz_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (write_file(data, size) != 0)
        return -1;
    read_table(path, data, size, &fby__csv_ops, &(fby__format_opts){0});
    if (!is_for_all())
        return 0;
    fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1, .io = FBY_IO_THREADS, .memory_bytes = MEMORY};
    read_everything(&opts);
    return 0;
}
