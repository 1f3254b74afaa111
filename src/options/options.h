/*
 * Options as they come from outside: structs of a program that may have been compiled against another version of the headers, made those of
 * this library before anything looks at them.
 */
#ifndef FBY_OPTIONS_OPTIONS_H
#define FBY_OPTIONS_OPTIONS_H

#include "base/arena.h"
#include "base/error.h"

#include <forebay/loader.h>
#include <forebay/mix.h>
#include <forebay/options.h>

/** The words of the enums; NULL-terminated. */
extern const char *const fby__shuffle_words[];
extern const char *const fby__tail_words[];
extern const char *const fby__from_words[];
extern const char *const fby__layout_words[];
extern const char *const fby__make_words[];
enum { FBY__N_MAKES = FBY_MAKE_TIME + 1 }; /* kinds, "none" included: the last one's number and 1 */
extern const char *const fby__encoding_words[];
extern const char *const fby__channel_words[];
extern const char *const fby__after_words[];
extern const char *const fby__keep_words[];
extern const char *const fby__pack_format_words[];
extern const char *const fby__pack_codec_words[];

/** The rows of a set; the one behind the last has no name. */
const fby_option *fby__option_table(fby_option_set set);

/**
 * A loader's options in this version's layout, outputs and what they point to included.
 *
 * @arena  for what had another layout; *to is valid as long as it and what `from` points to.
 */
fby_status fby__loader_opts_in(const fby_loader_opts *from, fby_loader_opts *to, fby__arena *arena, fby_error *err);
/** The same of a fit. */
fby_status fby__fit_opts_in(const fby_fit_opts *from, fby_fit_opts *to, fby__arena *arena, fby_error *err);
enum { FBY__MIX_MAX_SOURCES = 1024 };
/** A mixture: its sources have names, no two alike, and samples. Their outputs are as they were. */
fby_status fby__mix_in(const fby_mix *from, fby_mix *to, fby__arena *arena, fby_error *err);

/** What a state says was asked for: the fields that options and states have under one name and type. The others stay as they are. */
void fby__state_asked(const fby_loader_opts *opts, fby_loader_state *out);

/** Bytes of a field of this type; 0 of those that only the struct knows. */
size_t fby__option_bytes(const fby_option *o);

#endif
