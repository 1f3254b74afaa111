/*
 * Structs that cross the border of the library and may grow: a struct says its size, an array of them its stride.
 *
 * A program was compiled against a header of some version, the library is of another. Fields are only ever added behind the last one, so:
 *
 *   smaller    an older program: what it does not know is 0, which is the default of every option
 *   larger     a newer program: fine as long as it leaves what this library does not know at 0
 *   too small  below the fields that every version has had: no size at all, such as sizeof of a pointer
 */
#ifndef FBY_BASE_SIZED_H
#define FBY_BASE_SIZED_H

#include "base/arena.h"
#include "base/error.h"

#include <stddef.h>

/** Bytes of a struct up to a field, that one included. */
#define FBY__SIZE_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/** *to = what the caller's struct, whose first field is its size, says; to->size is then that of this library's. */
fby_status fby__sized_in(const char *type, const void *from, size_t least, void *to, size_t size, fby_error *err);
/** The other way: as much of `from` as the caller's struct has room for. Its size stays; what this library does not know is 0. */
fby_status fby__sized_out(const char *type, const void *from, size_t size, size_t least, void *to, fby_error *err);

/** FBY__SIZED_IN(fby_fit_opts, n_columns, opts, &o, err): n_columns is the last field of the first version. */
#define FBY__SIZED_IN(type, last, from, to, err)                                                                                           \
    ((void)sizeof((from) == (to)), fby__sized_in(#type, (from), FBY__SIZE_UP_TO(type, last), (to), sizeof(type), (err)))
#define FBY__SIZED_OUT(type, last, from, to, err)                                                                                          \
    ((void)sizeof((from) == (to)), fby__sized_out(#type, (from), sizeof(type), FBY__SIZE_UP_TO(type, last), (to), (err)))

/**
 * An array whose elements lie `stride` bytes apart, as one of this library's: `from` itself where they are alike, else a copy in the arena.
 *
 * @field  what messages call the stride: "op_size".
 * @least  bytes of an element that every version has had.
 */
fby_status fby__strided(const char *type, const char *field, const void *from, size_t n, size_t stride, size_t least, size_t size,
                        fby__arena *arena, const void **out, fby_error *err);
/** The other way: n elements into the caller's array. */
fby_status fby__strided_out(const char *type, const char *field, const void *from, size_t n, size_t size, size_t least, void *to,
                            size_t stride, fby_error *err);

#endif
