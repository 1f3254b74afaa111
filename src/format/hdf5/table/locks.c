/*
 * Is a file being written? libhdf5 holds a lock of flock(2) on what it has open: a shared one to read, an exclusive one to write. What a
 * writer has in hand is in its memory and only partly in the file, and nothing in the file says so. So a shared lock is tried for at every
 * opening and given back at once: one that was kept would keep the user's next writer out.
 *
 * A writer that lets others read (SWMR) holds no lock; its file is marked, which the superblock says (file.c). So does that of any writer of
 * version 3 of the format (libver "latest", "v110"), and libhdf5 then refuses the file whatever is said about locks.
 */
#include "format/hdf5/table/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_USER_BLOCK ((uint64_t)64 << 10)

/* As libhdf5 reads it: any other value is none. */
fby__lock_check fby__h5_lock_check(void)
{
    const char *text = getenv("HDF5_USE_FILE_LOCKING");
    if (text && (strcmp(text, "FALSE") == 0 || strcmp(text, "0") == 0))
        return FBY__LOCKS_IGNORED;
    if (text && (strcmp(text, "TRUE") == 0 || strcmp(text, "1") == 0))
        return FBY__LOCKS_REQUIRED;
    return FBY__LOCKS_TRIED;
}

/* Does the superblock say that the file is open for writing? What cannot be read does not. */
static bool is_marked(fby__file *file)
{
    static const uint8_t SIGNATURE[9] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n', 3};
    for (uint64_t at = 0; at <= MAX_USER_BLOCK; at = at ? 2 * at : 512) {
        uint8_t head[12]; /* signature, version, bytes of offsets, of lengths, flags */
        if (fby__file_read(file, at, head, sizeof head, NULL) != FBY_OK)
            return false;
        if (memcmp(head, SIGNATURE, sizeof SIGNATURE) == 0)
            return head[11] & 5;
    }
    return false;
}

fby_status fby__h5_may_read(fby__file *file, const fby__format_opts *opts, bool *out_no_locks, fby_error *err)
{
    *out_no_locks = false;
    int error = opts->locks == FBY__LOCKS_IGNORED ? 0 : fby__file_probe_lock(file);
    if (error == 0)
        return FBY_OK;
    if (error == EWOULDBLOCK) {
        fby_status status = fby__fail(
            err, FBY_E_IO,
            "'%s' is being written: it is open for writing, by another process or in this one, and what is in the "
            "file may be half of it. Close it there or wait (%s)",
            fby__file_path(file),
            is_marked(file) ? "HDF5_USE_FILE_LOCKING=FALSE does not help: the file is marked as open, too, as libver='latest' does; of a "
                              "writer that died, h5clear -s removes the mark"
                            : "HDF5_USE_FILE_LOCKING=FALSE reads it all the same");
        if (err)
            err->sys_errno = error;
        return status;
    }
    *out_no_locks = true;
    if (opts->locks == FBY__LOCKS_REQUIRED)
        return fby__fail_errno(err, error, "cannot lock '%s', and HDF5_USE_FILE_LOCKING asks for it", fby__file_path(file));
    return FBY_OK;
}
