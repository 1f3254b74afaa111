/* Which process this is: objects made before a fork refuse to work in the child (invariant 9), and ask at every call. */
#ifndef FBY_BASE_PROCESS_H
#define FBY_BASE_PROCESS_H

#include <sys/types.h>

/**
 * As getpid(), which is a system call: 0.1 to 0.2 µs on a virtual machine, and there were two or three a batch. Any thread. A child of a bare
 * clone() is not seen.
 */
pid_t fby__process_id(void);

#endif
