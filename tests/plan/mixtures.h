/* Mixtures at random: sources, weights and options of every kind. */
#ifndef FBY_TESTS_MIXTURES_H
#define FBY_TESTS_MIXTURES_H

#include "plan/mix_internal.h"
#include "plan/plan_orders.h"

#include <string.h>

#define MAX_SOURCES 5
#define MAX_BLOCKS 12

typedef struct mixture {
    uint64_t counts[MAX_SOURCES][MAX_BLOCKS];
    uint32_t files[MAX_SOURCES][MAX_BLOCKS];
    double weights[3 * MAX_SOURCES];
    fby__mix_source sources[MAX_SOURCES];
    uint64_t sizes[MAX_SOURCES];
    fby__mix_opts mix;
    fby__plan_opts opts;
} mixture;

static const char *const NAMES[MAX_SOURCES] = {"a", "b", "c", "d", "e"};

static inline void random_mixture(fby__random *r, mixture *m)
{
    static const uint32_t worlds[] = {1, 1, 2, 4}, streams[] = {1, 2, 4, 8, 8, 16};
    memset(m, 0, sizeof *m);
    m->mix.n_sources = 1 + (uint32_t)below(r, MAX_SOURCES);
    for (uint32_t i = 0; i < m->mix.n_sources; i++) {
        const uint32_t n = 1 + (uint32_t)below(r, MAX_BLOCKS);
        const uint64_t most = 1 + below(r, 2 + below(r, 120));
        for (uint32_t b = 0; b < n; b++) {
            m->counts[i][b] = below(r, most + 1);
            m->files[i][b] = b / 2;
        }
        m->counts[i][below(r, n)] += 1;
        for (uint32_t b = 0; b < n; b++)
            m->sizes[i] += m->counts[i][b];
        m->sources[i] = (fby__mix_source){NAMES[i], m->counts[i], n, m->files[i]};
    }
    m->mix.sources = m->sources;
    m->mix.n_epochs = 1 + (uint32_t)below(r, 3);
    for (uint32_t k = 0; k < m->mix.n_epochs * m->mix.n_sources; k++)
        m->weights[k] = below(r, 2) ? (double)(1 + below(r, 9)) : 0.05 + (double)below(r, 1000) / 1000;
    m->mix.weights = below(r, 3) ? m->weights : NULL;
    m->mix.stop = (fby__mix_stop)below(r, 3);
    m->mix.n_samples = m->mix.stop == FBY__MIX_SAMPLES ? 1 + below(r, 1500) : 0;
    m->opts = (fby__plan_opts){.shuffle = (fby__shuffle)below(r, 4),
                               .tail = (fby__tail)below(r, 3),
                               .seed = fby__random_next(r),
                               .superbatch_samples = 1 + below(r, 400),
                               .streams = streams[below(r, 6)],
                               .no_warmup = below(r, 3) == 0,
                               .world_size = worlds[below(r, 4)]};
    m->opts.global_batch = m->opts.world_size * (1 + below(r, below(r, 2) ? 3 : 24));
}

static inline fby_status try_plan(const mixture *m, uint32_t rank, uint32_t world, fby__plan **out, fby_error *err)
{
    fby__plan_opts o = m->opts;
    o.rank = rank;
    o.world_size = world;
    return fby__plan_create_mix(&m->mix, &o, out, err);
}

#endif
