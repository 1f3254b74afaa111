/*
 * libFuzzer target: arbitrary bytes as an Arrow IPC file or stream, through everything that reads them (fuzz_table.h, fuzz_file.h):
 * flatbuffers, footers and messages, dictionaries, compressed buffers, offsets and views, both sinks.
 */
#define FUZZ_SUFFIX ".arrow"
#include "fuzz_file.h"

#include "fuzz_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (write_file(data, size) != 0)
        return -1;
    read_table(path, data, size, &fby__ipc_ops, &(fby__format_opts){0});
    if (!is_for_all())
        return 0;
    fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1, .io = FBY_IO_THREADS, .memory_bytes = MEMORY};
    read_everything(&opts);
    return 0;
}
