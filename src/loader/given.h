/* A loader whose memory is a part of somebody's. */
#ifndef FBY_LOADER_GIVEN_H
#define FBY_LOADER_GIVEN_H

#include "budget/allowance.h"

#include <forebay/loader.h>

/** As fby_loader_open(): where opts->memory_bytes do not do, messages name what the giver makes of those that would. */
fby_status fby__loader_open_given(fby_dataset *ds, const fby_loader_opts *opts, fby__memory_giver giver, fby_loader **out, fby_error *err);

#endif
