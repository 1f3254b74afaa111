/* Inside makers: what a kind provides, and what kinds share. */
#ifndef FBY_TRANSFORM_MAKER_INTERNAL_H
#define FBY_TRANSFORM_MAKER_INTERNAL_H

#include "transform/transform.h"

/** One kind of fby_make. */
typedef struct fby__maker_ops {
    /**
     * Check spec->make and spec->columns, set the columns' dtype and want_valid where the defaults will not do, fill *made, and
     * leave what run() needs in *out_state (owned; destroy() frees it, also after a failure).
     */
    fby_status (*create)(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err);
    void (*destroy)(void *state);
    fby_status (*run)(const void *state, fby__make_job *job, fby_error *err);
} fby__maker_ops;

/* make_bits.c, make_map.c (one-hot too), make_ngrams.c, make_expression.c */
extern const fby__maker_ops fby__maker_bits, fby__maker_one_hot, fby__maker_map, fby__maker_ngrams, fby__maker_expression;
/* make_sequence_mask.c, make_select.c, make_time.c */
extern const fby__maker_ops fby__maker_sequence_mask, fby__maker_select, fby__maker_time;
/* make_lookup.c */
extern const fby__maker_ops fby__maker_lookup, fby__maker_standardize;
/* make_symmetric.c, make_group_channels.c, make_crop.c */
extern const fby__maker_ops fby__maker_symmetric, fby__maker_group_channels, fby__maker_crop;

/** FBY_E_ARG "output 'x': a … takes n columns, not m" unless the output has between least and most columns. */
fby_status fby__make_expect_columns(const fby__make_spec *spec, const char *what, uint32_t least, uint32_t most, fby_error *err);

/** A message about a column, "output 'x': column 'c' of type t …": FBY_E_UNSUPPORTED. `what` goes on from the type. */
fby_status fby__make_refuse_column(const fby__make_spec *spec, uint32_t column, const char *what, fby_error *err);

/** The dtype that was asked for, if it is one that numbers can be written as; `otherwise` where none was. */
fby_dtype fby__make_dtype(const fby__make_spec *spec, fby_dtype otherwise);

/** FBY_E_DATA: values[i] does not fit in `wanted`. */
fby_status fby__make_fail_value(fby_dtype stored, const uint8_t *values, size_t i, fby_dtype wanted, fby_error *err);

#endif
