/*
 * Do the rows of one key lie together? A group, and a series, is a run of rows with one key: in data that are not sorted by it every row or so is a
 * run of its own, which is seldom meant. The first runs of every block are looked at.
 */
#include "samples/samples_impl.h"

#include <string.h>

enum { FEW_RUNS = 16 };

void fby__seen_begin(fby__seen_keys *seen) { memset(seen, 0, sizeof *seen); }

/* A hash stands for its key: two of 1,024 are alike once in 2^44 blocks, and then a run is counted wrongly. */
void fby__seen_run(fby__seen_keys *seen, const uint8_t *key, size_t n)
{
    const uint64_t hash = fby__hash(key, n).lo | 1; /* 0: free */
    size_t at = hash >> 32;
    if (seen->full)
        return;
    while (seen->slot[at % FBY__SEEN_SLOTS] && seen->slot[at % FBY__SEEN_SLOTS] != hash)
        at++;
    seen->found.again += seen->slot[at % FBY__SEEN_SLOTS] == hash;
    seen->slot[at % FBY__SEEN_SLOTS] = hash;
    seen->full = ++seen->found.runs == FBY__SEEN_SLOTS / 2;
}

void fby__scattered_add(fby__scattered *to, const fby__scattered *more)
{
    to->runs += more->runs;
    to->rows += more->rows;
    to->again += more->again;
}

/* More than half of the keys came before, and runs are of one row: long runs whose keys come again, as of states, are meant. */
fby_status fby__scattered_note(fby__sample_base *base, fby_error *err)
{
    const fby__scattered *s = &base->scattered;
    const bool groups = base->kind == FBY_SAMPLES_GROUPS;
    if (s->runs < FEW_RUNS || 2 * s->again < s->runs || s->rows > 2 * s->runs)
        return FBY_OK;
    return fby__notes_put(
        &base->notes, err,
        "rows with one value of '%s' do not lie together: of the first %llu %s of the blocks, %llu have a value that came "
        "before, and a %s is a run of rows with one value. Files sorted by '%s' have whole ones; 'forebay pack --by %s --shuffle "
        "none' gives each value files of its own, in this order",
        base->key, (unsigned long long)s->runs, groups ? "groups" : "series", (unsigned long long)s->again, groups ? "group" : "series",
        base->key, base->key);
}
