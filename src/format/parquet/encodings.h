/*
 * Bytes → values, below the column reader. Nothing here knows pages, files or panels.
 *
 *   encodings_bits.c   bit-packed integers; the RLE / bit-packed hybrid of levels, dictionary indices and booleans
 *   encodings_delta.c  DELTA_BINARY_PACKED and the two string encodings built on it
 *   encodings.c        PLAIN strings and booleans, BYTE_STREAM_SPLIT
 *
 * Inputs are hostile: no function reads outside the bytes it was given, or loops longer than the bytes or the count asked
 * for justify. SIMD variants are chosen by base/cpu.h; the scalar code is the reference under the same tests.
 * Messages do not say where: the reader adds file, row group, column and page.
 */
#ifndef FBY_FORMAT_PARQUET_ENCODINGS_H
#define FBY_FORMAT_PARQUET_ENCODINGS_H

#include "format/parquet/parquet.h"

/* ---- bit-packed integers, least significant bit first ---- */

/** n values of `width` bits (≤ 32) from bit 0 of src, which has n_src ≥ ⌈n·width/8⌉ readable bytes. Writes exactly n. */
void fby__unpack_u32(const uint8_t *src, size_t n_src, unsigned width, uint32_t *out, size_t n);
/** As above with width ≤ 64. */
void fby__unpack_u64(const uint8_t *src, size_t n_src, unsigned width, uint64_t *out, size_t n);
/** As above with width ≤ 8, into bytes: levels and booleans. */
void fby__unpack_u8(const uint8_t *src, size_t n_src, unsigned width, uint8_t *out, size_t n);

/* ---- RLE / bit-packed hybrid ---- */

typedef struct fby__hybrid {
    const uint8_t *p, *end; /* the next run's header */
    unsigned width;
    bool rle;              /* of the current run */
    uint32_t value;        /* rle: the value */
    const uint8_t *packed; /* else: the byte in which the next value starts, */
    unsigned packed_bit;   /* at this bit, 0 … 7 */
    uint64_t left;         /* values left in the current run */
} fby__hybrid;

/** Width ≤ 32. Width 0 yields zeros without end and reads nothing: writers differ in whether they store runs for it. */
void fby__hybrid_init(fby__hybrid *h, fby__bytes bytes, unsigned width);
/** Make `left` > 0; false at the end of the bytes or at a run that is not valid. */
bool fby__hybrid_run(fby__hybrid *h);
/** Each returns how many values there were: fewer than n at the end of the bytes. */
size_t fby__hybrid_u32(fby__hybrid *h, uint32_t *out, size_t n);
size_t fby__hybrid_u8(fby__hybrid *h, uint8_t *out, size_t n); /* width ≤ 8 */
size_t fby__hybrid_skip(fby__hybrid *h, size_t n);

/** Indices into a dictionary, looked up at once. */
typedef enum fby__gather_end { FBY__GATHER_OK, FBY__GATHER_SHORT, FBY__GATHER_RANGE } fby__gather_end;
/**
 * out[i] = dict[index i] for n values of elem_bytes each. dict has n_dict entries; an index beyond them ends with
 * FBY__GATHER_RANGE and *bad_index, bytes that end early with FBY__GATHER_SHORT.
 */
fby__gather_end fby__hybrid_gather(fby__hybrid *h, const void *dict, size_t n_dict, size_t elem_bytes, void *out, size_t n,
                                   uint32_t *bad_index);

/* ---- levels (levels.c) ---- */

typedef struct fby__levels {
    fby__hybrid runs;
    bool msb_first; /* the deprecated BIT_PACKED: packed from the most significant bit, no runs */
    const uint8_t *bits;
    uint64_t bit_at, bit_end;
    unsigned width;
    uint8_t max;
} fby__levels;

/** Levels of a page: 0 … max. For BIT_PACKED `bytes` is exactly the levels. */
void fby__levels_init(fby__levels *levels, fby__bytes bytes, unsigned max, bool msb_first);
/**
 * The next n levels. When all of them are `max`, *all_max is true and out may be untouched: O(1) when one run says so.
 * FBY_E_FORMAT: fewer levels than n; a level above max.
 */
fby_status fby__levels_next(fby__levels *levels, uint8_t *out, size_t n, bool *all_max, fby_error *err);
/** Bits that hold 0 … max. */
unsigned fby__levels_width(unsigned max);
/** How many of n levels equal `level`. */
size_t fby__levels_count(const uint8_t *levels, size_t n, uint8_t level);

/* ---- DELTA_BINARY_PACKED ---- */

typedef struct fby__delta {
    const uint8_t *p, *end;
    uint64_t per_block, per_mini, n_minis;
    uint64_t left;   /* values not delivered yet */
    uint64_t stored; /* deltas not unpacked yet */
    bool first;      /* the first value, which the header holds, is still to be delivered */
    uint64_t value;  /* the last one; arithmetic wraps modulo 2^64, and so modulo 2^32 */
    uint64_t min_delta;
    const uint8_t *widths;    /* of the current block's mini-blocks */
    uint64_t mini, mini_left; /* current mini-block, values of it not unpacked yet */
    const uint8_t *mini_p;    /* its next byte */
    unsigned n_ready, ready_at;
    uint64_t ready[32]; /* unpacked, not delivered */
} fby__delta;

fby_status fby__delta_init(fby__delta *d, fby__bytes bytes, fby_error *err);
/** The next n values, as 4- or 8-byte integers. FBY_E_FORMAT when there are fewer or the bytes end. */
fby_status fby__delta_next(fby__delta *d, void *out, size_t n, size_t elem_bytes, fby_error *err);
/** Where the encoded run ends, found without unpacking; for a run that nothing was read of. */
fby_status fby__delta_end(const fby__delta *d, const uint8_t **out_end, fby_error *err);

/* ---- strings ---- */

/** PLAIN: u32 length and bytes, n times, from *p; moves *p. */
fby_status fby__plain_strings(const uint8_t **p, const uint8_t *end, fby__pq_string *out, size_t n, fby_error *err);
fby_status fby__plain_strings_skip(const uint8_t **p, const uint8_t *end, size_t n, fby_error *err);

/** DELTA_LENGTH_BYTE_ARRAY: all lengths, then all bytes. */
typedef struct fby__delta_length {
    fby__delta lengths;
    const uint8_t *p, *end;
} fby__delta_length;
fby_status fby__delta_length_init(fby__delta_length *d, fby__bytes bytes, fby_error *err);
fby_status fby__delta_length_next(fby__delta_length *d, fby__pq_string *out, size_t n, fby_error *err);

/**
 * DELTA_BYTE_ARRAY: the length of the prefix shared with the value before, and the rest. A few bytes can stand for many:
 * values are rebuilt in an arena of a bounded size, so one call may give fewer than asked for.
 */
typedef struct fby__delta_strings {
    fby__delta prefixes;
    fby__delta_length suffixes;
    fby__buf last;  /* owned: the value before */
    fby__buf arena; /* owned: the values of the last call */
    unsigned n_ready, ready_at;
    struct {
        uint32_t prefix;
        fby__pq_string suffix;
    } ready[64];
} fby__delta_strings;
#define FBY__DELTA_STRINGS_ARENA ((size_t)1 << 20)
/** Keeps the buffers of an earlier use; zero-initialise before the first, fby__delta_strings_fini at the end. */
fby_status fby__delta_strings_init(fby__delta_strings *d, fby__bytes bytes, fby_error *err);
/** How many values, at least one and at most n > 0, the next call gives at once; n when no values are left at all. */
fby_status fby__delta_strings_room(fby__delta_strings *d, size_t n, size_t *out_n, fby_error *err);
/** 1 ≤ *out_n ≤ n values (n > 0), valid until the next call. */
fby_status fby__delta_strings_next(fby__delta_strings *d, fby__pq_string *out, size_t n, size_t *out_n, fby_error *err);
void fby__delta_strings_fini(fby__delta_strings *d);

/* ---- BYTE_STREAM_SPLIT ---- */

/** Values [first, first + n) of n_total: byte k of value i is src[k * n_total + i]. */
void fby__unsplit(const uint8_t *src, size_t n_total, size_t elem_bytes, size_t first, void *out, size_t n);

#endif
