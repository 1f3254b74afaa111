/* Pulses of events, in memory. */
#ifndef TEST_SAMPLES_PULSES_H
#define TEST_SAMPLES_PULSES_H

#include "samples_fixture.h"

/* 40 rows in batches of 7: event 100 + row / 4, class event % 3, weight row, sometimes missing. */
enum { ROWS = 40, BATCH = 7 };
static int64_t EVENT[ROWS], CLASS[ROWS], WEIGHT[ROWS];

static inline fby_dataset *pulses(void)
{
    for (int i = 0; i < ROWS; i++) {
        EVENT[i] = 100 + i / 4;
        CLASS[i] = i / 4 % 3;
        WEIGHT[i] = i % 10 == 9 ? INT64_MIN : i;
    }
    return open_numbers((numbers){{"event", "class", "weight"}, {EVENT, CLASS, WEIGHT}, 3, ROWS, BATCH, 0, {NULL}});
}

static inline fby_samples *events(fby_dataset *ds)
{
    return open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_GROUPS, .key = "event"});
}

#endif
