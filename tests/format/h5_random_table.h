/* Tables made by a random walk over shapes, types, layouts, filters and conventions. */
#ifndef FBY_TESTS_H5_RANDOM_TABLE_H
#define FBY_TESTS_H5_RANDOM_TABLE_H

#include "format/h5_model.h"

/* ---- random tables ---- */

static void random_shape(model_set *s, const uint64_t *row_dims, uint32_t axes, fby__random *rng)
{
    s->set.axes = axes;
    s->set.repeat = 1;
    if (axes > 1 && pick(rng, 3) == 0) { /* broadcast: fewer axes than the table's cells */
        s->set.axes = 1 + pick(rng, axes - 1);
        for (uint32_t a = s->set.axes; a < axes; a++)
            s->set.repeat *= row_dims[a];
    }
    s->set.rank = s->set.axes + pick(rng, MAX_AXES - s->set.axes + 1);
    if (axes == 1 && pick(rng, 3) == 0)
        s->set.axis = pick(rng, s->set.rank);
    if (s->set.repeat > 1 && s->set.rank > s->set.axes)
        s->set.rank = s->set.axes; /* lower rank: all its axes run over rows */
    for (uint32_t a = 0; a < s->set.rank; a++) {
        const bool over_rows = a >= s->set.axis && a < s->set.axis + s->set.axes;
        s->set.dims[a] = over_rows ? row_dims[a - s->set.axis] : 1 + pick(rng, row_dims[0] > 60 ? 3 : pick(rng, 12) == 0 ? 70 : 5);
        s->set.chunk[a] = 1 + pick(rng, (unsigned)s->set.dims[a] + 1);
        if (pick(rng, 3) == 0)
            s->set.chunk[a] = (uint32_t)s->set.dims[a];
    }
}

static void random_set(model *m, model_set *s, const uint64_t *row_dims, uint32_t axes, fby__random *rng)
{
    *s = (model_set){.seed = (uint32_t)fby__random_next(rng)};
    random_shape(s, row_dims, axes, rng);
    if (pick(rng, 4) == 0) {
        members(s, 1 + pick(rng, MAX_MEMBERS), rng);
    } else {
        simple_member(s, EVERY_DTYPE[pick(rng, COUNT(EVERY_DTYPE))], pick(rng, 4) == 0);
        s->n_missing = pick(rng, 3) == 0 ? 1 + pick(rng, 2) : 0;
        s->scaled = pick(rng, 6) == 0;
    }
    s->fill = pick(rng, 2);
    static const fby__h5_layout LAYOUTS[] = {FBY__H5_CHUNKED, FBY__H5_CHUNKED, FBY__H5_CHUNKED, FBY__H5_CONTIGUOUS, FBY__H5_COMPACT};
    s->set.layout = LAYOUTS[pick(rng, COUNT(LAYOUTS))];
    s->shuffle_bytes = s->type.bytes;
    const unsigned filters = pick(rng, 4);
    if (filters & 1)
        s->filter[s->set.n_filters++] = (fby__filter){.id = FBY__FILTER_SHUFFLE, .n_values = 1, .values = &s->shuffle_bytes};
    if (filters & 2)
        s->filter[s->set.n_filters++] = (fby__filter){.id = FBY__FILTER_DEFLATE};
    s->set.partial_edge_unfiltered = pick(rng, 6) == 0;
    store(m, s, pick(rng, 3) == 0, rng);
}

static inline uint64_t random_table(model *m, fby__random *rng)
{
    *m = (model){.n_sets = 1 + pick(rng, pick(rng, 4) == 0 ? MAX_SETS : 3)};
    uint64_t row_dims[3], rows = 1;
    const uint32_t axes = 1 + (pick(rng, 3) == 0 ? 1 + pick(rng, 2) : 0);
    for (uint32_t a = 0; a < axes; a++)
        rows *= row_dims[a] = 1 + pick(rng, axes == 1 ? (pick(rng, 4) == 0 ? 3000 : 60) : 9);
    for (uint32_t i = 0; i < m->n_sets; i++)
        random_set(m, &m->sets[i], row_dims, axes, rng);
    finish_table(m, rows, 0);
    return rows;
}

#endif
