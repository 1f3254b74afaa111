/* A column of counts, as makers read it. */
#ifndef FBY_TRANSFORM_MAKE_COUNT_H
#define FBY_TRANSFORM_MAKE_COUNT_H

#include "transform/maker_internal.h"

/** Ask for column `column` as int64, with its missing values. FBY_E_UNSUPPORTED: it is no whole number a row. */
fby_status fby__make_use_count(fby__make_spec *spec, uint32_t column, fby_error *err);

/** The count of a row of a sample. FBY_E_DATA: it is missing, or negative. */
fby_status fby__make_count_at(const fby__make_view *view, uint64_t sample, uint64_t row, uint64_t *out, fby_error *err);

#endif
