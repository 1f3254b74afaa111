/*
 * Columns that samples are found by: as what a column is read, and the values in a panel of it. Reading them is read/scan.h.
 */
#ifndef FBY_SAMPLES_COLUMNS_H
#define FBY_SAMPLES_COLUMNS_H

#include "read/scan.h"

/** What a column is read as: it decides which types will do, and the dtype of the panel. */
typedef enum fby__read_as {
    FBY__READ_KEY,  /* compared byte for byte: as stored */
    FBY__READ_TIME, /* int64, or float64 when it has fractions */
    FBY__READ_DROP, /* looked through for missing values: as stored, several values a row too */
    FBY__READ_VALUE /* compared with what a caller gives: int64 (uint64 stays), float64, bool, bytes */
} fby__read_as;

/** FBY_E_SCHEMA: no such column. FBY_E_UNSUPPORTED: a type that will not do, named. */
fby_status fby__read_column_init(fby__read_column *c, const fby_dataset *ds, fby__read_as as, const char *path, fby_error *err);
/** Are its values text: strings, or bytes of one length? */
bool fby__read_column_is_text(const fby__read_column *c);
/** "column 'x' of type list<…> cannot be …", FBY_E_UNSUPPORTED. */
fby_status fby__read_column_refuse(const fby__read_column *c, const char *what, fby_error *err);

/** A value of a row. */
typedef enum fby__value_kind { FBY__VALUE_MISSING, FBY__VALUE_NUMBER, FBY__VALUE_FLOAT, FBY__VALUE_TEXT } fby__value_kind;
typedef struct fby__value {
    fby__value_kind kind;
    int64_t number;
    double real;
    const uint8_t *text; /* borrowed from the panel */
    size_t n;
} fby__value;

/** The value in a row of a panel of a column read as FBY__READ_VALUE. NaN is missing, as everywhere. */
fby__value fby__value_at(const fby__read_column *c, const fby__panel *panel, const char *constant, uint64_t row);
/** 'text', 12 or 0.5: for messages. */
void fby__value_print(const fby__value *v, char *out, size_t n);

#endif
