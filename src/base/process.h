/* Which process this is: objects made before a fork refuse to work in the child (invariant 9), and ask at every call. */
#ifndef FBY_BASE_PROCESS_H
#define FBY_BASE_PROCESS_H

#include <sys/types.h>

/** As getpid(), without its system call: every call of the library asks. Any thread. A child of a bare clone() is not seen. */
pid_t fby__process_id(void);

#endif
