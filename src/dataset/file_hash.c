/* One file's part of identity and fingerprint: lets a loader say which file is not the one that a state was saved over. */
#include "dataset/dataset_impl.h"

#include <string.h>

uint64_t fby__dataset_file_hash(const fby_dataset *ds, uint32_t i, int64_t *out_mtime_ns)
{
    const fby__dataset_file *file = &ds->files[i];
    const uint64_t seen[] = {file->rows, file->n_blocks, file->stamp.size_bytes, (uint64_t)file->stamp.mtime_ns};
    fby__hash128 hash = fby__hash(file->name, strlen(file->name) + 1);
    hash = fby__hash_more(hash, seen, sizeof seen);
    hash = fby__hash_more(hash, file->frozen.data, file->frozen.n);
    *out_mtime_ns = file->stamp.mtime_ns;
    return hash.lo;
}
