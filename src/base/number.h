/* Numbers as text. */
#ifndef FBY_BASE_NUMBER_H
#define FBY_BASE_NUMBER_H

/** strtod in the C locale: a program's own may have a decimal comma. `end` may be NULL. */
double fby__strtod(const char *text, char **end);

#endif
