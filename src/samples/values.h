/*
 * The value of a column that each sample has: that of its first row, read from the data; from the index table that the samples came from;
 * or, for windows whose series are files, what names the file.
 */
#ifndef FBY_SAMPLES_VALUES_H
#define FBY_SAMPLES_VALUES_H

#include "samples/columns.h"
#include "samples/samples_impl.h"

typedef enum fby__value_source {
    FBY__VALUES_DATA,  /* the column in the sample's first row */
    FBY__VALUES_TABLE, /* the column in the group's row of the index table */
    FBY__VALUES_FILE   /* what names the file: see fby__file_label */
} fby__value_source;

/** A column, resolved. */
typedef struct fby__sample_values {
    const fby_samples *s; /* borrowed */
    fby__value_source source;
    fby__read_column column; /* DATA, TABLE */
    const char *name;        /* for messages; borrowed */
    bool is_text;
    const uint8_t *shared_names; /* FILE: borrowed, see fby__file_names_shared */
} fby__sample_values;

/** How to read it, and who gets it. */
typedef struct fby__value_visit {
    int n_threads;
    fby_progress_fn progress;
    void *progress_user;
    void *user;
    /** The value of sample i of a block. On any thread; each sample once; those of a block may come from several threads, in any order. */
    fby_status (*visit)(void *user, uint32_t block, uint64_t i, const fby__value *value, fby_error *err);
    fby_status (*block)(void *user, uint32_t block, fby_error *err); /* a block that has samples is through; may be NULL */
} fby__value_visit;

/**
 * NULL: the key of the samples. FBY_E_ARG: rows have no key. FBY_E_SCHEMA, FBY_E_UNSUPPORTED: no such column, or one that has no single value.
 * The values borrow s and the column's name, and do not move.
 */
fby_status fby__sample_values_init(fby__sample_values *v, const fby_samples *s, const char *column, fby_error *err);
fby_status fby__sample_values_visit(const fby__sample_values *v, const fby__value_visit *visit, fby_error *err);

/** How often each sample is to come, gathered sample by sample and packed block by block: two bytes a sample while a block is open. */
typedef struct fby__sample_counts {
    const fby_samples *s;        /* borrowed */
    fby__choice *choice;         /* owned */
    _Atomic(uint16_t *) *blocks; /* owned, each too; relaxed but where one is made: acq_rel, it is zeroed before others see it */
} fby__sample_counts;
fby_status fby__sample_counts_init(fby__sample_counts *c, const fby_samples *s, fby_error *err);
void fby__sample_counts_fini(fby__sample_counts *c);
/** Sample i of block b is to come so often; one that is not put is left out. Any thread. FBY_E_NOMEM. */
fby_status fby__sample_counts_put(fby__sample_counts *c, uint32_t b, uint64_t i, uint16_t count, fby_error *err);
/** All of block b has been put. For each block that has samples, before they are chosen. */
fby_status fby__sample_counts_close(fby__sample_counts *c, uint32_t b, fby_error *err);
/** The samples as often as counted. FBY_E_ARG when that is none at all: `what` says of what, and `why`, behind it, why or what to do. */
fby_status fby__sample_counts_choose(fby__sample_counts *c, const char *what, const char *why, fby_samples **out, fby_error *err);

/* ---- lists of values that a caller gives ---- */

#define FBY__FILTER_BITS 4u

/** A set: value → its index in the list. */
typedef struct fby__value_set {
    fby_values given;         /* borrowed; what the column holds: dates and times that were given as text are the numbers of `dated` */
    int64_t *dated;           /* owned */
    const char *const *dates; /* borrowed: those texts, for messages; NULL: what is given is what the column holds */
    uint32_t *slots;          /* owned: index + 1, 0 = free; open addressing */
    uint64_t *filter;         /* owned: FBY__FILTER_BITS a slot; a bit that is not set: no value hashes there */
    size_t n_slots;
    _Atomic bool *seen; /* owned: one a value; relaxed, read when the threads are joined */
} fby__value_set;

#define FBY__NO_VALUE SIZE_MAX

/** What a column's values are, for those that a caller gives to be compared with them. */
typedef struct fby__value_type {
    const char *name;       /* for messages */
    const fby_field *field; /* borrowed; NULL: what names a file */
    bool is_text;
    bool counts; /* numbers are taken of dates and times too: they come from a column, not from a person */
} fby__value_type;
fby__value_type fby__sample_values_type(const fby__sample_values *v);
fby__value_type fby__read_column_type(const fby__read_column *c);

/** Nanoseconds of the unit in which a column's dates or times count since 1970; 0: it holds none. NULL: 0. */
int64_t fby__value_unit_ns(const fby_field *field);
/** A text as the number that a column of dates or times holds. FBY_E_ARG: it is none, or no whole number of the column's units. */
fby_status fby__value_dated(const fby__value_type *type, const char *text, int64_t *out, fby_error *err);
/** FBY_E_ARG where the column holds dates or times: a bare number is none, a year would be so many days after 1970. */
fby_status fby__value_refuse_undated(const fby__value_type *type, fby_error *err);

/**
 * FBY_E_ARG: both or none of numbers and texts, a value twice when `unique`, values that such a column does not hold (strings of a column of
 * numbers; texts that are no dates, or bare numbers, of a column of dates). The set is zeroed before; it borrows what is given.
 */
fby_status fby__value_set_init(fby__value_set *set, const fby_values *given, bool unique, const fby__value_type *type, fby_error *err);
void fby__value_set_fini(fby__value_set *set);
/** Where a value is in the list, FBY__NO_VALUE when it is not; marks it as seen. */
size_t fby__value_set_find(fby__value_set *set, const fby__value *value);
/** FBY_E_ARG with the first ones and their number when values were never seen. */
fby_status fby__value_set_check_seen(const fby__value_set *set, const fby__sample_values *v, fby_error *err);

#endif
