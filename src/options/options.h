/*
 * Options as they come from outside: structs of a program that may have been compiled against another version of the headers, made those of
 * this library before anything looks at them.
 */
#ifndef FBY_OPTIONS_OPTIONS_H
#define FBY_OPTIONS_OPTIONS_H

#include "base/arena.h"
#include "base/error.h"

#include <forebay/loader.h>

/**
 * A loader's options in this version's layout, outputs and what they point to included.
 *
 * @arena  for what had another layout; *to is valid as long as it and what `from` points to.
 */
fby_status fby__loader_opts_in(const fby_loader_opts *from, fby_loader_opts *to, fby__arena *arena, fby_error *err);
/** The same of a fit. */
fby_status fby__fit_opts_in(const fby_fit_opts *from, fby_fit_opts *to, fby__arena *arena, fby_error *err);

#endif
