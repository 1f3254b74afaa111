/* Options of a loader that come without sizes get this version's. */
#ifndef TESTS_LOADER_SIZES_H
#define TESTS_LOADER_SIZES_H

#include <forebay/loader.h>

#include <string.h>

static inline void set_sizes(fby_loader_opts *opts)
{
    const fby_loader_opts sizes = {FBY_LOADER_SIZES};
    memcpy(opts, &sizes, offsetof(fby_loader_opts, outputs));
}

#endif
