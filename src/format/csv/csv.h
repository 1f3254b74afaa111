/*
 * CSV and TSV files, plain or gzip, as tables (RFC 4180, with the liberties that real files allow themselves).
 *
 *   csv_scanner.c  text → records of cells (where each field lies)
 *   csv_values.c   cells → numbers, dates, bools; what a cell could be
 *   csv_open.c     the one pass over a file: dialect, names, types, where the groups begin
 *   csv_table.c    metadata in memory and in the index cache
 *   csv_decode.c   the text of a group → panels and Arrow arrays
 *   csv_gzip.c     gzip of unknown size
 *   csv_ops.c      the format's vtable, and how a file is known
 *
 * The text stays in the file. A group is consecutive records, at most FBY__CSV_GROUP_ROWS of them and about FBY__CSV_GROUP_BYTES of
 * text, and a block is a group: decoding reads its text, finds the cells and converts the columns that are wanted, so that memory does
 * not grow with the file. A gzip file cannot be read from the middle: each block inflates it from the beginning, which is why such
 * files have few groups and a limit.
 *
 * The dialect. The first record names the columns. The delimiter is a tab for *.tsv, else the one of , ; tab | that the first line has
 * most of. A record ends with \n, \r\n or \r; empty lines do not count. A field in quotes may hold delimiters, line breaks and doubled
 * quotes; a quote inside a field without them is a character. An empty field is missing, "" is an empty string. Every record has as many
 * fields as the first. Text is UTF-8, a byte order mark at the front is skipped, '#' is a character.
 *
 * The type of a column follows from all its cells (fby__csv_type), unless somebody says it (fby__csv_retype). Numbers that a number type
 * would not keep as they are written, such as 007, make the column text: they are mostly identifiers.
 */
#ifndef FBY_FORMAT_CSV_H
#define FBY_FORMAT_CSV_H

#include "format/format.h"

#define FBY__CSV_GROUP_ROWS 65536u
#define FBY__CSV_ASK_RECORDS 1024u               /* so often is asked whether the call is cancelled */
#define FBY__CSV_GROUP_BYTES ((size_t)4 << 20)   /* of text: a group ends at the first record beyond */
#define FBY__CSV_RECORD_BYTES ((size_t)64 << 20) /* a longer record means a quote that was never closed */
#define FBY__CSV_GZIP_BYTES ((size_t)1 << 30)    /* of inflated text, and of a gzip file; cells count in 30 bits */
#define FBY__CSV_GZIP_GROUPS 16u                 /* about so many: each block inflates the whole file */
#define FBY__CSV_MAX_COLUMNS 65536u

/* ---- csv_scanner.c ---- */

#define FBY__CSV_QUOTED (UINT32_C(1) << 31)
#define FBY__CSV_DOUBLED (UINT32_C(1) << 30) /* has doubled quotes inside */

/** A field: where it lies in the text, quotes left out. */
typedef struct fby__csv_cell {
    uint32_t at;
    uint32_t n_flags; /* bytes, and the flags above */
} fby__csv_cell;
static inline uint32_t fby__csv_cell_n(fby__csv_cell c) { return c.n_flags & (FBY__CSV_DOUBLED - 1); }

typedef enum fby__csv_result {
    FBY__CSV_RECORD,
    FBY__CSV_END,         /* no record follows */
    FBY__CSV_MORE,        /* the text ends inside the record */
    FBY__CSV_AFTER_QUOTE, /* something follows a closing quote */
    FBY__CSV_OPEN_QUOTE   /* the text ends inside quotes */
} fby__csv_result;

typedef struct fby__csv_scanner {
    uint8_t delimiter;
    bool stop[256];     /* ends a field without quotes */
    uint32_t n_fields;  /* of the record found last */
    uint64_t line;      /* where it begins; of a failure: the line that it concerns */
    uint64_t next_line; /* that `at` is on; 1 at the beginning */
} fby__csv_scanner;

void fby__csv_scanner_init(fby__csv_scanner *s, uint8_t delimiter, uint64_t line);
/**
 * The record at text[*at …): its cells (the first `cap` of them) and, in s, its number of fields. *at moves behind it, or, when it is
 * no record, to its beginning. @last: the text ends where the file ends. n < 2^30.
 */
fby__csv_result fby__csv_next(fby__csv_scanner *s, const uint8_t *text, size_t n, size_t *at, bool last, fby__csv_cell *cells,
                              uint32_t cap);
/** The delimiter of a header line. */
uint8_t fby__csv_sniff(const uint8_t *text, size_t n);
/** A cell's bytes without the doubling of quotes, to dst (room for fby__csv_cell_n); how many they are. */
size_t fby__csv_copy(const uint8_t *text, fby__csv_cell cell, uint8_t *dst);

/* ---- csv_values.c ---- */

/** What a cell can be. A column's type follows from all that its cells are. */
typedef enum fby__csv_class {
    FBY__CSV_NULL = 0,
    FBY__CSV_BOOL = 1,
    FBY__CSV_INT = 2,
    FBY__CSV_BIG = 4, /* an integer beyond int64 */
    FBY__CSV_FLOAT = 8,
    FBY__CSV_DATE = 16,
    FBY__CSV_LOCAL = 32, /* a timestamp without a time zone */
    FBY__CSV_UTC = 64,   /* one with its offset from UTC */
    FBY__CSV_STRING = 128,
    FBY__CSV_LONG = 256,                                     /* an integer that float64 does not hold exactly, within int64 */
    FBY__CSV_PADDED = 512,                                   /* a whole number with a leading zero or a plus sign: 007, +1 */
    FBY__CSV_PADDED_FLOAT = FBY__CSV_PADDED | FBY__CSV_FLOAT /* another number so written: 00.5, +1e5 */
} fby__csv_class;
#define FBY__CSV_NUMBERS ((unsigned)(FBY__CSV_INT | FBY__CSV_BIG | FBY__CSV_FLOAT | FBY__CSV_LONG | FBY__CSV_PADDED))

/** Where the type of a column is from: `physical` of its leaf. */
typedef enum fby__csv_origin {
    FBY__CSV_FOUND = 100,   /* in the cells; apart from Parquet's codes, so that files of the two formats share no schema */
    FBY__CSV_INT_TEXT,      /* text of integers that int64 would hold, though not as they are written */
    FBY__CSV_NUMBER_TEXT,   /* text of numbers that float64 would hold, though not as they are written */
    FBY__CSV_SAID,          /* by whoever opened the data set */
    FBY__CSV_TEXT_ELSEWHERE /* text, because it is in another file */
} fby__csv_origin;

/** The class of a cell without doubled quotes; *out its value: 0/1, an integer, days, or µs since 1970. (FLOAT, BIG: fby__csv_double.) */
fby__csv_class fby__csv_classify(const uint8_t *p, size_t n, int64_t *out);
/** The nearest double of a cell of FBY__CSV_NUMBERS; false for others. */
bool fby__csv_double(const uint8_t *p, size_t n, double *out);
/** A cell as any integer dtype, however it is written; false when it is none, or does not fit. *out has the dtype's bytes, in front. */
bool fby__csv_integer(const uint8_t *p, size_t n, fby_dtype dtype, uint64_t *out);
/** kind, dtype, unit and utc of a column whose cells have these classes together; where the type is from. */
fby__csv_origin fby__csv_type(unsigned classes, fby_field *out);

/* ---- csv_gzip.c ---- */

/**
 * All members of a gzip stream to the end of *out; FBY_E_FORMAT, FBY_E_UNSUPPORTED when they hold more than limit bytes, FBY_E_NOMEM.
 * FBY_E_CANCELLED: both buffers are empty, since their memory may still be used for a while.
 */
fby_status fby__csv_gunzip(fby__buf *src, size_t limit, fby__buf *out, fby_error *err);

/* ---- csv_table.c ---- */

/** What a group has of a column. */
typedef struct fby__csv_stat {
    uint64_t bytes; /* of text */
    uint64_t nulls;
} fby__csv_stat;

typedef struct fby__csv_position {
    uint64_t offset, n; /* of the group's text: in the file, or in what it inflates to */
    uint64_t line;      /* that it begins on */
} fby__csv_position;

typedef struct fby__csv_table {
    fby__table base;
    uint8_t delimiter;
    bool gzip;
    bool numbers_for_names; /* the first line holds nothing but numbers */
    uint64_t file_bytes, text_bytes;
    struct ArrowSchema arrow;     /* owned: of the whole table */
    fby__csv_position *positions; /* owned, n_groups */
    fby__csv_stat *stats;         /* owned, [group * n_leaves + leaf] */
    uint64_t *lines;              /* owned, n_leaves: of the first number that a number type would not keep as it is written; 0 = none */
} fby__csv_table;

static inline const fby__csv_table *fby__csv(const fby__table *table) { return (const fby__csv_table *)table; }

/** A table over `schema` (a new reference) without groups: the caller fills positions, stats and base.groups. */
fby_status fby__csv_table_create(fby__schema *schema, fby__csv_table **out, fby_error *err);
/** Sum up what the groups say; false when it cannot be. */
bool fby__csv_table_sum(fby__csv_table *table);
void fby__csv_destroy(fby__table *table);
fby_status fby__csv_freeze(const fby__table *table, fby__buf *out, fby_error *err);
fby_status fby__csv_thaw(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err);
/** The schema with other types: see fby__format_ops.retype. */
fby_status fby__csv_retype(const fby__schema *schema, const fby_field *const *types, bool said, fby__schema **out, fby_error *err);
/** See fby__format_ops.number_text. */
uint64_t fby__csv_number_text(const fby__table *table, uint32_t leaf, fby_dtype *out);
void fby__csv_leaf_bounds(const fby__table *table, uint32_t group, uint64_t row_begin, uint64_t row_end, uint32_t leaf,
                          fby__leaf_bounds *out);
fby_status fby__csv_describe(const fby__table *table, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out, fby_error *err);

/* ---- csv_open.c ---- */

fby_status fby__csv_open(fby__file *file, const fby__format_opts *opts, fby__table **out, fby_error *err);

/* ---- csv_decode.c ---- */

fby_status fby__csv_locate(const fby__locate_request *q, fby_error *err);
fby_status fby__csv_decode_panel(const fby__decode *request, fby__scratch *scratch, fby_error *err);
fby_status fby__csv_decode_arrow(const fby__arrow_request *request, fby__scratch *scratch, struct ArrowArray *out, fby_error *err);
/** Bytes of a decoded column of so many rows, `text` bytes of strings among them. */
uint64_t fby__csv_column_bytes(const fby_field *field, uint64_t rows, uint64_t text);

#endif
