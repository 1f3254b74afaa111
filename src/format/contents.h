/* What fby_contents holds (include/forebay/contents.h), for the format that fills it and the dataset that hands it out. */
#ifndef FBY_FORMAT_CONTENTS_H
#define FBY_FORMAT_CONTENTS_H

#include "base/arena.h"

#include <forebay/contents.h>

struct fby_contents {
    fby__arena arena;    /* everything pointed to */
    fby_object *objects; /* owned */
    size_t n, cap;
    const char **notes; /* owned */
    size_t n_notes, cap_notes;
};

#endif
