/* Dates and times as text: ISO 8601 as people write it. */
#ifndef FBY_BASE_ISO_TIME_H
#define FBY_BASE_ISO_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fby__iso_time {
    int64_t days;         /* since 1970-01-01, of the proleptic Gregorian calendar */
    bool has_time;        /* not a date alone */
    int64_t ns;           /* since midnight; 0 without a time */
    bool has_zone;        /* Z, or an offset from UTC */
    int64_t seconds_east; /* of UTC: to be subtracted */
} fby__iso_time;

/**
 * Read "2001-01-31", "2001-01-31T12:30", "2001-01-31 12:30:15.5+01:00": years 0001 to 9999, at most nine digits of a second. All n bytes
 * are used, or it is none: false, and *out is undefined.
 */
bool fby__iso_time_parse(const uint8_t *p, size_t n, fby__iso_time *out);

#endif
