/* Channels of subgroups: make_group_channels.c makes them of rows that make_group_channels_rows.c has ordered and numbered. */
#ifndef FBY_TRANSFORM_GROUP_CHANNELS_INTERNAL_H
#define FBY_TRANSFORM_GROUP_CHANNELS_INTERNAL_H

#include "block/convert.h"
#include "transform/maker_internal.h"

/** A table of positions, by key: open addressing over a power of two of slots, at most half of them taken. */
typedef struct fby__channel_positions {
    uint32_t n_columns; /* 0: no table, and nothing else holds */
    uint32_t mask;      /* slots − 1 */
    uint32_t *slots;    /* owned; a row + 1, or 0 */
    int64_t *keys;      /* owned; of rows */
    double *values;     /* owned; rows × n_columns */
    size_t memory_bytes;
} fby__channel_positions;

typedef struct fby__made_channel {
    fby_channel_value value;
    uint32_t feature;
    uint32_t at;   /* in a row of the result; FIRST_ROWS: where its block begins */
    uint32_t step; /* FIRST_ROWS: channels of that block, side by side; else 1 */
} fby__made_channel;

typedef struct fby__group_channels {
    bool is_mask;
    fby_dtype dtype, order_dtype; /* order_dtype: INT64 or FLOAT64 */
    uint32_t max_groups, n_rows, row_values;
    uint32_t n_features, n_channels;
    double pad;
    fby_dtype *dtypes;           /* owned; of features */
    uint32_t *uses;              /* owned; of features: a bit for each fby_channel_value made of it */
    fby__made_channel *channels; /* owned */
    fby__channel_positions positions;
} fby__group_channels;

/** The rows of a sample that are in its first subgroups, by order value. The arrays lie in a thread's scratch. */
typedef struct fby__group_rows {
    uint64_t n; /* rows */
    uint32_t n_groups;
    uint32_t *row;      /* n: where it lies in the sample */
    uint32_t *group;    /* n: its subgroup */
    uint32_t *position; /* n: which row of its subgroup, from 0 */
    uint32_t *size;     /* n_groups: rows */
    int64_t *key;       /* n_groups */
    /* while grouping */
    uint64_t *order[2]; /* order values as unsigned numbers that compare alike; two arrays, for sorting */
    uint32_t *sorted[2];
    uint32_t *least;       /* of a subgroup: the index in the sorted rows of its least order value */
    uint32_t *slots, mask; /* of the table from key to subgroup */
} fby__group_rows;

/** Bytes of scratch for n rows; lay_out() divides it among the arrays. */
size_t fby__group_rows_bytes(uint32_t n);
void fby__group_rows_lay_out(fby__group_rows *g, uint32_t n, uint8_t *scratch);

/** Put the rows of a sample in order and number its subgroups. FBY_E_DATA: a missing key. */
fby_status fby__group_rows_order(const fby__group_channels *p, const fby__make_job *job, uint64_t sample, fby__group_rows *g,
                                 fby_error *err);

/** Copy a table with whole numbers as keys. FBY_E_ARG, FBY_E_NOMEM. */
fby_status fby__channel_positions_init(fby__channel_positions *t, const fby_lookup *table, fby_error *err);
void fby__channel_positions_fini(fby__channel_positions *t);
/** The values of a key, or NULL. */
const double *fby__channel_positions_find(const fby__channel_positions *t, int64_t key);

#endif
