/*
 * libFuzzer target: arbitrary bytes as an HDF5 file, through everything that reads them (fuzz_file.h): parser, tree, chunk indexes,
 * filters, conventions; as rows, and as cells of two axes with values as stored. The helper program is kept out of it: libhdf5 is
 * known to crash on damaged files, which is why it runs elsewhere.
 */
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (setenv("FOREBAY_HDF5_HELPER", "none", 1) != 0 || write_file(data, size) != 0)
        return -1;
    fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1, .io = FBY_IO_THREADS};
    read_everything(&opts);
    opts.sample_axes = 2;
    opts.stored_values = true;
    read_everything(&opts);
    return 0;
}
