/*
 * An HDF5 file written by libhdf5, in a helper program that is started for this one file and ends with it (helper/h5_write.c). It gets the file as an
 * open descriptor and the values over a socket, and can open nothing. What the columns mean is the writer's: src/write/hdf5_writer.c.
 *
 * Threads: a writer is used by one at a time; several of them are several programs. Blocks: yes. A call that is cancelled (base/cancel.h) ends the
 * program.
 */
#ifndef FBY_FORMAT_HDF5_CLIENT_WRITER_H
#define FBY_FORMAT_HDF5_CLIENT_WRITER_H

#include "base/error.h"
#include "format/hdf5/client/protocol.h"

typedef struct fby__h5_writer fby__h5_writer;

/** Is there a program to write with? As fby__h5_writer_open says it is not. */
fby_status fby__h5_writer_find(fby_error *err);
/**
 * @file  an empty one, open for reading and writing; the program has a descriptor of its own.
 *
 * FBY_E_UNSUPPORTED where there is no helper program; FBY_E_IO where it does not start.
 */
fby_status fby__h5_writer_open(int file, fby__h5_writer **out, fby_error *err);
/**
 * Send a request and wait for its answer. magic, version and bytes are set here.
 *
 * FBY_E_UNSUPPORTED, with libhdf5's words: a column that it does not make; FBY_E_IO (err->sys_errno: ENOSPC, EFBIG), FBY_E_CANCELLED, FBY_E_NOMEM.
 */
fby_status fby__h5_writer_ask(fby__h5_writer *w, fby__h5p_write *q, const void *bytes, size_t n, fby_error *err);
/** Also in the middle of a file, which is then of no use. NULL is fine. */
void fby__h5_writer_close(fby__h5_writer *w);

#endif
