/*
 * Made outputs: not simply the values of columns, but made of them when a batch is built. What grows in the making (bits, one-hot,
 * n-grams), what needs a table beside the data (lookups, maps), or a sample as a whole (symmetric matrices, channels of subgroups).
 *
 *     fby_make make = {.kind = FBY_MAKE_BITS, .bits = {.n_bits = 1024, .encoding = FBY_BITS_TEXT}};
 *     const char *column = "bloomfilter";
 *     fby_output bits = {.name = "bits", .columns = &column, .n_columns = 1, .make = &make};
 *
 * Where samples have several rows, what is made *of a row* gives one result for each of them: (B, steps, …) for windows, packed or padded for
 * groups; with one_step, for that row alone. What is made *of a sample* gives one result for it: (B, …).
 *
 * Everything here is borrowed for the call that takes it; of lookups a reference is kept. What the types can tell is checked when the loader
 * is opened; a value of which nothing can be made is FBY_E_DATA, naming output, row and value.
 */
#ifndef FOREBAY_MAKE_H
#define FOREBAY_MAKE_H

#include <forebay/lookup.h>
#include <forebay/transform.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What an output is made of and how. "In:" are the output's columns, in their order. */
typedef enum fby_make_kind {
    FBY_MAKE_NONE,
    /* of a row */
    FBY_MAKE_BITS,    /* In: one column of bits. Out: n_bits of 0 and 1 */
    FBY_MAKE_ONE_HOT, /* In: one column of whole numbers. Out: n_classes, 1 at the value's place */
    FBY_MAKE_MAP,     /* In: one column of whole numbers or strings. Out: one number: what the value is mapped to */
    FBY_MAKE_NGRAMS,  /* In: any columns, joined as text. Out: 1 for each entry of a vocabulary that occurs (strings: of the first row) */
    FBY_MAKE_LOOKUP,  /* In: the columns of the key, mostly one. Out: the values beside it in a table */
    FBY_MAKE_EXPRESSION,  /* In: columns of numbers. Out: one number computed from them; of integers by + - * // % alone an integer */
    FBY_MAKE_STANDARDIZE, /* In: columns of numbers, then a key. Out: (x − mean) / std, with the key's own moments from a table */
    /* of a sample */
    FBY_MAKE_SYMMETRIC,      /* In: one column (pairs…, E) or (pairs), and perhaps one of counts. Out: (P, P, E) or (P, P) */
    FBY_MAKE_GROUP_CHANNELS, /* In: of groups: a key, an order, features. Out: (D, channels): rows grouped once more inside the sample */
    FBY_MAKE_CROP,           /* In: one column, or several, of arrays or of windows. Out: a run of `length` along the first axis */
    /* of a row */
    FBY_MAKE_SEQUENCE_MASK, /* In: one column of counts. Out: bool (size), true at the first so many places */
    FBY_MAKE_SELECT,        /* In: one column of arrays. Out: some places of its axes */
    FBY_MAKE_TIME           /* In: one column of dates, timestamps or durations. Out: int64, in a unit */
} fby_make_kind;

typedef enum fby_bits_encoding {
    FBY_BITS_AUTO,          /* strings: TEXT; bytes and uint8 arrays: PACKED */
    FBY_BITS_TEXT,          /* characters '0' and '1', one for each bit */
    FBY_BITS_PACKED,        /* bytes of eight bits, the first bit the highest, as numpy.packbits gives them */
    FBY_BITS_PACKED_LITTLE, /* bytes of eight bits, the first bit the lowest (bitorder="little") */
    FBY_BITS_BASE64         /* such packed bytes as base64 text (RFC 4648 section 4, padded or not) */
} fby_bits_encoding;

typedef struct fby_make_bits {
    uint64_t n_bits; /* of every value; 0 = what the column's type says (arrays of bytes), else an error at open */
    fby_bits_encoding encoding;
} fby_make_bits;

typedef struct fby_make_one_hot {
    uint64_t n_classes;
    bool ignore_unknown; /* values outside [0, n_classes) give zeros; otherwise they are an error */
} fby_make_one_hot;

/** One of texts and numbers is given: n values that the column may have, and what each is mapped to. Several may map to one. */
typedef struct fby_make_map {
    const char *const *texts;
    const int64_t *numbers;
    const double *to;
    size_t n;
    bool has_default; /* for other and missing values; otherwise they are an error */
    double default_to;
} fby_make_map;

/**
 * Columns are made text as pandas' astype(str) does (a missing value is "nan", "None", "NaT" or "<NA>" there, by type), joined with the
 * separator, changed, and cut into grams of `n` code points; each gram that is in the vocabulary sets its place to 1.
 */
typedef struct fby_make_ngrams {
    uint32_t n;                    /* 2: bigrams */
    const char *const *vocabulary; /* n_vocabulary grams: places in the output */
    size_t n_vocabulary;
    const char *separator;    /* NULL: nothing */
    const char *delete_chars; /* NULL, or UTF-8 characters that are left out */
    bool lower, strip;        /* strip: white space at both ends, after deleting */
    bool drop_spaces;         /* grams that hold a space are no grams; otherwise they are looked up as any other */
    const char *missing;      /* the text of a missing value; NULL: by type, as pandas writes it; "": no text */
} fby_make_ngrams;

/**
 * Where samples have several rows and the key several columns, strings of the key are those of the sample's first row, for all of its rows. For
 * groups that were found by these very columns (or more) all rows of a sample have the same key: one value for each sample, unless FBY_LAYOUT_RAGGED
 * or _PADDED asks for one for each row.
 */
typedef struct fby_make_lookup {
    fby_lookup *table;     /* its key has as many columns as the output, in this order, of the same type each: whole numbers or strings */
    const size_t *columns; /* of the table, in the order they are stacked; NULL and 0: the place of the key in the table (int64) */
    size_t n_columns;
    bool keep_axis;   /* one column: shape (1) instead of () */
    bool has_default; /* for keys that are not in the table, and missing ones; otherwise an error */
    double default_value;
} fby_make_lookup;

/** Numbers, column names (a dotted or odd one in backquotes), + − * / ^ ( ), comparisons, and functions: docs/operations.md lists them. */
typedef struct fby_make_expression {
    const char *text; /* its columns must be the output's; all of them must occur */
} fby_make_expression;

typedef struct fby_make_standardize {
    fby_lookup *moments; /* by key: for each column but the key its mean, then for each its std; or what fby_fit_groups gave for these
                            columns. A std of 0 or NaN counts as 1; a mean that is missing makes NaN */
    bool has_default;    /* values whose key is not in the table stay as they are; otherwise an error */
    bool has_fill_nan;   /* what is NaN afterwards becomes fill_nan; 0 stands for the group's mean */
    double fill_nan;
} fby_make_standardize;

/**
 * A p × p symmetric matrix, of whose upper triangle without the diagonal the column holds the n = p(p−1)/2 pairs, row by row, before any padding.
 * p comes from the second column (a count of points, or of pairs), or from where the pad value begins. Diagonal and rows from p on are 0.
 */
typedef struct fby_make_symmetric {
    uint64_t size;       /* P; 0 = the largest whose pairs fit the column */
    bool count_is_pairs; /* the second column counts pairs */
    bool has_pad;        /* without a second column: pairs end where all E values, as stored, before any operation, are this one */
    double pad;
    uint64_t n_features; /* E, where the column is flat; 0 = its last axis when it has two, else none */
    bool clip_count;     /* a count that is beyond the matrix means all of it; otherwise it is an error */
} fby_make_symmetric;

typedef enum fby_channel_value {
    FBY_CHANNEL_FIRST_ROWS, /* the first n_rows rows of the feature, in order, then the pad */
    FBY_CHANNEL_MIN,
    FBY_CHANNEL_MAX,
    FBY_CHANNEL_SUM,
    FBY_CHANNEL_MEAN,
    FBY_CHANNEL_STD,   /* std: divided by count */
    FBY_CHANNEL_COUNT, /* rows of the subgroup; no feature */
    FBY_CHANNEL_KEY    /* the subgroup's key; no feature */
} fby_channel_value;

/** A channel of what FBY_MAKE_GROUP_CHANNELS makes. Frozen: no field is ever added. */
typedef struct fby_channel {
    fby_channel_value value;
    uint32_t feature; /* among the output's columns after key and order, from 0 */
} fby_channel;

/**
 * Rows of a group, grouped once more by a key: each subgroup gives one row of channels. Subgroups come in the order of their least order
 * value, ties by first appearance; rows inside one by order value, ties as they lie. The K first rows of several features are
 * interleaved: FIRST_ROWS channels that follow one another form a block (row 0 of each, then row 1 of each, …).
 */
typedef struct fby_make_group_channels {
    const fby_channel *channels;
    size_t n_channels;
    uint32_t n_rows;             /* K of FIRST_ROWS */
    uint32_t max_groups;         /* D: of more subgroups the first D are kept */
    double pad;                  /* where there is no subgroup or row */
    const fby_lookup *positions; /* NULL, or a table by the key whose columns come first in every row of channels */
    bool mask;                   /* instead: bool (D), true where there is a subgroup */
} fby_make_group_channels;

typedef struct fby_make_crop {
    uint64_t length;
    bool random; /* where it begins is drawn for sample and epoch; otherwise `begin` */
    uint64_t begin;
} fby_make_crop;

typedef struct fby_make_sequence_mask {
    uint64_t size;
    bool clip_count; /* a larger count means all places; otherwise it is an error */
} fby_make_sequence_mask;

/**
 * Places of one axis: all; or every step-th from begin up to, not with, end; or those that are listed. Numbers below 0 count from its end.
 * Frozen: no field is ever added.
 */
typedef struct fby_axis_places {
    int64_t begin, end;    /* a range that reaches beyond the axis ends with it. end = 0: the axis's end */
    uint64_t step;         /* 0 = 1 */
    const int64_t *places; /* NULL, or n_places of them, which must be there, in any order */
    size_t n_places;
    bool drop_axis; /* with one place: without this axis */
} fby_axis_places;

typedef struct fby_make_select {
    const fby_axis_places *axes; /* of the first n_axes axes of a row's value; of others all places are taken */
    size_t n_axes;
    bool of_last; /* of the last n_axes axes instead */
} fby_make_select;

/** Exact: computed in integers. Where the unit is coarser than the column's, times are rounded down. FBY_E_DATA: one that int64 cannot hold, or missing. */
typedef struct fby_make_time {
    bool is_duration; /* of durations; otherwise of dates and timestamps, since 1970-01-01T00:00 (UTC where the column is) */
    fby_unit unit;
} fby_make_time;

typedef struct fby_make {
    fby_make_kind kind;
    union {
        fby_make_bits bits;
        fby_make_one_hot one_hot;
        fby_make_map map;
        fby_make_ngrams ngrams;
        fby_make_lookup lookup;
        fby_make_expression expression;
        fby_make_standardize standardize;
        fby_make_symmetric symmetric;
        fby_make_group_channels group_channels;
        fby_make_crop crop;
        fby_make_sequence_mask sequence_mask;
        fby_make_select select;
        fby_make_time time;
        uint64_t room[16]; /* no kind is larger. They do not grow: what lies behind the named one need not be zero */
    };
} fby_make;

/** What is done in place to a dense output's values when its batch is built, whatever they were made of. */
typedef enum fby_after_kind {
    FBY_AFTER_SPEC_AUGMENT,  /* masks over time and frequency */
    FBY_AFTER_CHANNELS_LAST, /* the axis after the batch's goes last: (B, C, H, W) to (B, H, W, C) */
    FBY_AFTER_FORWARD_FILL,  /* along the axis after the batch's, of windows: NaN becomes the value before it; before the first, it stays.
                                Not after an operation that fills: there would be nothing left to do */
    FBY_AFTER_CHANNELS_FIRST /* the last axis goes behind the batch's: (B, H, W, C) to (B, C, H, W) */
} fby_after_kind;

/** SpecAugment (Park et al. 2019, section 2): each mask has a width drawn from [0, max_width] and then a place, for sample and epoch. */
typedef struct fby_after_spec_augment {
    uint32_t n_time, n_freq;      /* masks */
    uint32_t max_time, max_freq;  /* widths */
    int32_t time_axis, freq_axis; /* of the output, the batch axis 0; negative ones count from the end. 0: −1, and −2 */
    double value;
} fby_after_spec_augment;

typedef struct fby_after {
    fby_after_kind kind;
    union {
        fby_after_spec_augment spec_augment;
        uint64_t room[8]; /* as in fby_make */
    };
} fby_after;

#ifdef __cplusplus
}
#endif
#endif
