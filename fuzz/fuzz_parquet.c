/* libFuzzer target: arbitrary bytes as a Parquet file, through everything that reads them (fuzz_file.h). */
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (write_file(data, size) != 0)
        return -1;
    read_everything(&(fby_open_opts){.size = sizeof(fby_open_opts), .cache_dir = "", .n_threads = 1, .io = FBY_IO_THREADS});
    return 0;
}
