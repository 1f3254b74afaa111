/* Text that others wrote, made safe to print, in place: for messages and notes. fby_printable() of <forebay/base.h> is the rule. */
#ifndef FBY_BASE_PRINTABLE_H
#define FBY_BASE_PRINTABLE_H

#include <forebay/base.h>

enum { FBY__PRINTABLE_ROOM = 2048 }; /* of the longest text that may be given */

/**
 * Make the text in a buffer of `room` bytes (FBY__PRINTABLE_ROOM at most) printable as fby_printable() does, cut where it grows beyond it.
 * `cut`: the text may end inside a character, which goes.
 */
void fby__make_printable(char *text, size_t room, bool cut);

#endif
