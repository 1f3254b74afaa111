/*
 * Is a file being written? libhdf5 holds a lock of flock(2) on what it has open: a shared one to read, an exclusive one to write. What a
 * writer has in hand is in its memory and only partly in the file, and nothing in the file says so. So a shared lock is tried for at every
 * opening and given back at once: one that was kept would keep the user's next writer out.
 *
 * A writer that lets others read (SWMR) holds no lock; its file is marked, which the superblock says (file.c).
 */
#include "format/hdf5/table/table.h"

#include <errno.h>
#include <stdlib.h>

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

fby_status fby__h5_may_read(fby__file *file, const fby__format_opts *opts, bool *out_no_locks, fby_error *err)
{
    *out_no_locks = false;
    int error = opts->locks == FBY__LOCKS_IGNORED ? 0 : fby__file_probe_lock(file);
    if (error == 0)
        return FBY_OK;
    if (error == EWOULDBLOCK) {
        fby_status status =
            fby__fail(err, FBY_E_IO,
                      "'%s' is being written: it is open for writing, by another process or in this one, and what is in the "
                      "file may be half of it. Close it there or wait (HDF5_USE_FILE_LOCKING=FALSE reads it all the same)",
                      fby__file_path(file));
        if (err)
            err->sys_errno = error;
        return status;
    }
    *out_no_locks = true;
    if (opts->locks == FBY__LOCKS_REQUIRED)
        return fby__fail_errno(err, error, "cannot lock '%s', and HDF5_USE_FILE_LOCKING asks for it", fby__file_path(file));
    return FBY_OK;
}
