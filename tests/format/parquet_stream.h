/*
 * Column chunks written page by page for the reader's tests, honest or not: the table around them says what the test says, and
 * the bytes end where their allocation ends. Values are int32 unless a test brings its own bytes.
 */
#ifndef TESTS_FORMAT_PARQUET_STREAM_H
#define TESTS_FORMAT_PARQUET_STREAM_H

#include "format/parquet_meta_tests.h"

#include <libdeflate.h>

#define STREAM_OFFSET 1000 /* where the chunk pretends to lie in the file */

/** One column chunk while it grows. Zero-initialise, say what the column is, put pages, stream_fini. */
typedef struct stream {
    int physical, type_length, codec; /* FBY__PQ_INT32 */
    unsigned max_def, max_rep;        /* 0 and 0, 1 and 0, or 3 and 1: an optional list of optional elements */
    fby_field field;                  /* of the leaf; kind FBY_KIND_INT, int32 when zero */
    uint64_t rows, n_values;          /* as the metadata says; n_values 0 = as the pages say */
    fby__buf bytes;
    uint64_t uncompressed, levels; /* of the pages so far */
    fby__buf owned[128];           /* by the test's helpers */
    size_t n_owned;
    /* made by stream_open */
    fby__table *table;
    uint8_t *tight;
    fby__leaf_source source;
    fby__scratch scratch;
    fby_error err;
    bool verify_crc;
} stream;

static inline fby__bytes keep(stream *s, fby__buf b)
{
    assert_in_range(s->n_owned, 0, 127);
    s->owned[s->n_owned++] = b;
    return (fby__bytes){b.data, b.n};
}

static inline void put(fby__buf *b, const void *p, size_t n) { assert_int_equal(fby__buf_put(b, p, n), 0); }
static inline void put_byte(fby__buf *b, unsigned v) { put(b, &(uint8_t){(uint8_t)v}, 1); }
static inline void put_number(fby__buf *b, uint64_t v) /* varint */
{
    for (; v >= 0x80; v >>= 7)
        put_byte(b, (unsigned)v | 0x80);
    put_byte(b, (unsigned)v);
}

/** PLAIN int32 first, first + 1, … */
static inline fby__bytes ints(stream *s, int32_t first, size_t n)
{
    fby__buf b = {0};
    for (size_t i = 0; i < n; i++)
        put(&b, &(int32_t){first + (int32_t)i}, 4);
    return keep(s, b);
}

/** Digits as one bit-packed run of the hybrid, "0110" → levels or indices. */
static inline fby__bytes packed(stream *s, const char *digits, unsigned width)
{
    size_t n = strlen(digits), groups = (n + 7) / 8;
    fby__buf b = {0};
    put_number(&b, groups << 1 | 1);
    size_t begin = b.n;
    for (size_t i = 0; i < groups * width; i++)
        put_byte(&b, 0);
    for (size_t i = 0; i < n * width; i++)
        b.data[begin + i / 8] |= (uint8_t)(((unsigned)(digits[i / width] - '0') >> i % width & 1) << i % 8);
    return keep(s, b);
}

/** One run of the hybrid: n times value, of at most 8 bits. */
static inline fby__bytes run_of(stream *s, uint64_t n, unsigned value)
{
    fby__buf b = {0};
    put_number(&b, n << 1);
    put_byte(&b, value);
    return keep(s, b);
}

/** Dictionary indices: their width, then the runs. */
static inline fby__bytes indices(stream *s, const char *digits, unsigned width)
{
    fby__buf b = {0};
    put_byte(&b, width);
    fby__bytes p = packed(s, digits, width);
    put(&b, p.data, p.n);
    return keep(s, b);
}

/** Snappy, literals only. */
static inline fby__bytes snappy(stream *s, fby__bytes in)
{
    fby__buf b = {0};
    put_number(&b, in.n);
    for (size_t at = 0; at < in.n;) {
        size_t k = in.n - at < 60 ? in.n - at : 60;
        put_byte(&b, (unsigned)(k - 1) << 2);
        put(&b, in.data + at, k);
        at += k;
    }
    return keep(s, b);
}

/** Snappy, one literal, as the compressor writes bytes that do not compress. */
static inline fby__bytes one_literal(stream *s, fby__bytes in)
{
    fby__buf b = {0};
    put_number(&b, in.n);
    const unsigned extra = in.n <= 60 ? 0 : in.n <= 1u << 8 ? 1 : in.n <= 1u << 16 ? 2 : 3;
    put_byte(&b, (extra ? 59 + extra : (unsigned)in.n - 1) << 2);
    for (unsigned i = 0; i < extra; i++)
        put_byte(&b, (unsigned)((in.n - 1) >> (8 * i)) & 0xff);
    put(&b, in.data, in.n);
    return keep(s, b);
}

typedef struct page {
    int type; /* FBY__PQ_DATA_PAGE */
    int32_t n, n_nulls, n_rows;
    int encoding, level_encoding; /* PLAIN; RLE when 0 */
    fby__bytes rep, def, values;  /* data NULL: none. v1 adds the length prefixes */
    bool crc, bad_crc;
    bool not_compressed; /* v2: header says so (the bytes are compressed when the chunk has a codec and raw is false) */
    bool raw;            /* store the bytes as they are, whatever the codec */
    int32_t claim;       /* another uncompressed size, when not 0 */
} page;

static inline void put_page(stream *s, page p)
{
    fby__buf levels = {0}, body = {0};
    const bool v2 = p.type == FBY__PQ_DATA_PAGE_V2, msb_first = p.level_encoding == FBY__PQ_BIT_PACKED;
    const fby__bytes parts[] = {p.rep, p.def};
    for (int i = 0; i < 2; i++)
        if (parts[i].data) {
            if (!v2 && !msb_first)
                put(&levels, &(uint32_t){(uint32_t)parts[i].n}, 4);
            put(&levels, parts[i].data, parts[i].n);
        }
    if (!v2)
        put(&body, levels.data, levels.n);
    put(&body, p.values.data, p.values.n);
    const size_t plain = body.n;
    fby__bytes stored = keep(s, body);
    if (s->codec == FBY__CODEC_SNAPPY && !p.raw)
        stored = snappy(s, stored);
    if (v2) {
        put(&levels, stored.data, stored.n);
        stored = keep(s, levels);
    } else {
        fby__buf_fini(&levels);
    }
    const int64_t uncompressed = p.claim ? p.claim : (int64_t)(plain + (v2 ? p.rep.n + p.def.n : 0));
    writer w = {0};
    w_open(&w);
    w_i32(&w, 1, p.type);
    w_i32(&w, 2, uncompressed);
    w_i32(&w, 3, (int64_t)stored.n);
    if (p.crc)
        w_i32(&w, 4, (int32_t)(libdeflate_crc32(0, stored.data, stored.n) ^ (p.bad_crc ? 1u : 0u)));
    if (v2) {
        w_struct(&w, 8);
        w_i32(&w, 1, p.n);
        w_i32(&w, 2, p.n_nulls);
        w_i32(&w, 3, p.n_rows);
        w_i32(&w, 4, p.encoding);
        w_i32(&w, 5, (int64_t)p.def.n);
        w_i32(&w, 6, (int64_t)p.rep.n);
        if (p.not_compressed)
            w_bool(&w, 7, false);
        w_close(&w);
    } else if (p.type == FBY__PQ_DATA_PAGE) {
        w_struct(&w, 5);
        w_i32(&w, 1, p.n);
        w_i32(&w, 2, p.encoding);
        w_i32(&w, 3, p.level_encoding ? p.level_encoding : FBY__PQ_RLE);
        w_i32(&w, 4, p.level_encoding ? p.level_encoding : FBY__PQ_RLE);
        w_close(&w);
    } else if (p.type == FBY__PQ_DICTIONARY_PAGE) {
        w_struct(&w, 7);
        w_i32(&w, 1, p.n);
        w_i32(&w, 2, p.encoding);
        w_close(&w);
    }
    w_close(&w);
    put(&s->bytes, w.b.data, w.b.n);
    s->uncompressed += w.b.n + (uint64_t)uncompressed;
    fby__buf_fini(&w.b);
    if (stored.n)
        put(&s->bytes, stored.data, stored.n);
    if (p.type == FBY__PQ_DATA_PAGE || v2)
        s->levels += (uint64_t)p.n;
}

/** v1 page of required int32 first … first + n - 1 */
static inline void put_ints(stream *s, int32_t first, int32_t n) { put_page(s, (page){.n = n, .values = ints(s, first, (size_t)n)}); }

static inline void stream_close(stream *s)
{
    fby__table_unref(s->table);
    s->table = NULL;
    free(s->tight);
    s->tight = NULL;
}

static inline void stream_fini(stream *s)
{
    stream_close(s);
    for (size_t i = 0; i < s->n_owned; i++)
        fby__buf_fini(&s->owned[i]);
    fby__buf_fini(&s->bytes);
    fby__scratch_fini(&s->scratch);
}

/** The table and the source over the bytes so far. */
static inline void stream_open(stream *s)
{
    stream_close(s);
    fby__schema_element e[3] = {{.name = "schema", .name_n = 6, .n_children = 1, .field = {.kind = FBY_KIND_STRUCT}}};
    size_t n = 1;
    if (s->max_rep)
        e[n++] = (fby__schema_element){.name = "x",
                                       .name_n = 1,
                                       .n_children = 1,
                                       .field = {.kind = FBY_KIND_LIST, .nullable = true},
                                       .def_level = 1,
                                       .rep_level = 1,
                                       .list_def_level = 2};
    fby_field f = s->field;
    if (f.kind == FBY_KIND_NULL && s->physical == FBY__PQ_INT32 && f.dtype == FBY_DTYPE_NONE) {
        f.kind = FBY_KIND_INT;
        f.dtype = FBY_INT32;
    }
    f.nullable = s->max_def > 0;
    e[n++] = (fby__schema_element){.name = s->max_rep ? "element" : "x",
                                   .name_n = s->max_rep ? 7 : 1,
                                   .hidden_in_path = s->max_rep,
                                   .field = f,
                                   .def_level = (uint16_t)s->max_def,
                                   .rep_level = (uint16_t)s->max_rep,
                                   .max_def = (uint16_t)s->max_def,
                                   .max_rep = (uint16_t)s->max_rep,
                                   .physical = s->physical,
                                   .type_length = s->type_length};
    fby__schema *schema = NULL;
    fby__pq_table *t = NULL;
    check_ok(fby__schema_create(e, n, &schema, &s->err), &s->err);
    check_ok(fby__pq_table_create(schema, 1, 1u << 20, &t, &s->err), &s->err);
    fby__schema_unref(schema);
    t->base.groups[0] = (fby__group){.rows = s->rows, .first_row = 700};
    t->chunks[0] = (fby__pq_chunk){.data_offset = STREAM_OFFSET,
                                   .compressed_bytes = s->bytes.n,
                                   .uncompressed_bytes = s->uncompressed,
                                   .n_values = s->n_values ? s->n_values : s->levels,
                                   .null_count = -1,
                                   .codec = (uint8_t)s->codec};
    s->table = &t->base;
    s->tight = malloc(s->bytes.n ? s->bytes.n : 1);
    assert_non_null(s->tight);
    if (s->bytes.n)
        memcpy(s->tight, s->bytes.data, s->bytes.n);
    s->source = (fby__leaf_source){
        .leaf = 0, .range = {{.offset = STREAM_OFFSET, .data = s->tight}, {.offset = STREAM_OFFSET, .n = s->bytes.n, .data = s->tight}}};
}

/**
 * Rows [begin, end) of an int32 column as text: values, '.' for a null; of lists "|" before each row, N for a null list, E for an
 * empty one, '.' for a null element. NULL on failure, s->err says why.
 */
static inline const char *read_text(stream *s, uint64_t begin, uint64_t end, size_t max_levels)
{
    static char text[1 << 16];
    size_t at = 0;
    fby__pq_reader *r = NULL;
    fby_status st = fby__pq_reader_open(s->table, "x.parquet", 0, &s->source, begin, end, s->verify_crc, &s->scratch, 3, &r, &s->err);
    while (st == FBY_OK) {
        fby__pq_span run;
        st = fby__pq_reader_next(r, max_levels, &run, &s->err);
        if (st != FBY_OK || run.n_levels == 0)
            break;
        assert_in_range(run.n_levels, 1, max_levels);
        const uint8_t *value = run.fixed;
        for (size_t i = 0; i < run.n_levels; i++) {
            unsigned def = run.def ? run.def[i] : s->max_def;
            if (run.rep && run.rep[i] == 0)
                at += (size_t)snprintf(text + at, sizeof text - at, "|");
            if (def == s->max_def) {
                at += (size_t)snprintf(text + at, sizeof text - at, "%d ", (int32_t)fby__load_u32(value));
                value += 4;
            } else {
                at += (size_t)snprintf(text + at, sizeof text - at, "%s ", s->max_rep ? (const char *[]){"N", "E", "."}[def] : ".");
            }
        }
        assert_ptr_equal(value, (const uint8_t *)run.fixed + 4 * run.n_values);
    }
    fby__pq_reader_close(r);
    text[at ? at - (text[at - 1] == ' ') : 0] = 0;
    return st == FBY_OK ? text : NULL;
}

/** Opens, reads all rows in pieces of 3 and in one, wants the same text both times. */
static inline void check_text(stream *s, const char *want)
{
    stream_open(s);
    for (int i = 0; i < 2; i++) {
        const char *got = read_text(s, 0, s->rows, i ? 3 : 5000);
        if (!got)
            fail_msg("%s", s->err.message);
        assert_string_equal(got, want);
    }
}

/** Reading all rows fails with a message that names file, row group, column and these words. */
static inline void check_refused(stream *s, const char *words)
{
    stream_open(s);
    const char *got = read_text(s, 0, s->rows, 5000);
    if (got)
        fail_msg("read as \"%s\"", got);
    if (!strstr(s->err.message, words) || !strstr(s->err.message, "x.parquet") || !strstr(s->err.message, "'x'") ||
        !strstr(s->err.message, "row group 0"))
        fail_msg("the message is: %s", s->err.message);
    assert_int_equal(s->err.code, FBY_E_FORMAT);
    assert_true(s->err.file_offset >= STREAM_OFFSET);
}

#endif
