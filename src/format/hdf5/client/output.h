/*
 * An HDF5 file written by libhdf5, in a helper program that is started for this one file and ends with it (helper/h5_write.c). It gets the file as an
 * open descriptor and the values over a socket, and can open nothing. What the columns mean is the writer's: src/write/hdf5_writer.c.
 *
 * Threads: an output is used by one at a time; several of them are several programs. Blocks: yes. A call that is cancelled (base/cancel.h),
 * or gets no answer in time, ends the program.
 */
#ifndef FBY_FORMAT_HDF5_CLIENT_OUTPUT_H
#define FBY_FORMAT_HDF5_CLIENT_OUTPUT_H

#include "base/error.h"
#include "format/format.h"
#include "format/hdf5/client/protocol.h"

typedef struct fby__h5_output fby__h5_output;

/** Is there a program to write with? As fby__h5_output_open says it is not. environment: NULL = as it is now. */
fby_status fby__h5_output_find(const fby__h5_environment *environment, fby_error *err);
/**
 * @file  an empty one, open for reading and writing; the program has a descriptor of its own.
 *
 * FBY_E_UNSUPPORTED where there is no helper program; FBY_E_IO, naming it, where it does not start (or not in time).
 */
fby_status fby__h5_output_open(const fby__h5_environment *environment, int file, fby__h5_output **out, fby_error *err);
/**
 * Send a request and wait for its answer. magic, version and bytes are set here.
 *
 * FBY_E_UNSUPPORTED, with libhdf5's words: a column that it does not make; FBY_E_IO (err->sys_errno: ENOSPC, EFBIG), FBY_E_CANCELLED, FBY_E_NOMEM.
 */
fby_status fby__h5_output_ask(fby__h5_output *o, fby__h5p_write *q, const void *bytes, size_t n, fby_error *err);
/** Also in the middle of a file, which is then of no use. NULL is fine. */
void fby__h5_output_close(fby__h5_output *o);

#endif
