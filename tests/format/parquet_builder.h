/* Parquet footers and page headers made by hand: a Thrift compact writer, and temporary files that hold them. */
#ifndef TESTS_FORMAT_PARQUET_BUILDER_H
#define TESTS_FORMAT_PARQUET_BUILDER_H

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "format/parquet/meta.h"
#include "format/parquet/thrift.h"

/* ---- Thrift ---- */

typedef struct writer {
    fby__buf b;
    int last[32]; /* field number before, by depth */
    int depth;
} writer;

static inline void w_byte(writer *w, unsigned v)
{
    uint8_t byte = (uint8_t)v;
    if (fby__buf_put(&w->b, &byte, 1) != 0)
        abort();
}

static inline void w_varint(writer *w, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        w_byte(w, (unsigned)(v & 0x7f) | 0x80);
    w_byte(w, (unsigned)v);
}

static inline void w_zigzag(writer *w, int64_t v) { w_varint(w, (uint64_t)v << 1 ^ (uint64_t)(v >> 63)); }

static inline void w_field(writer *w, int id, unsigned type)
{
    int delta = id - w->last[w->depth];
    if (delta > 0 && delta < 16) {
        w_byte(w, (unsigned)delta << 4 | type);
    } else {
        w_byte(w, type);
        w_zigzag(w, id);
    }
    w->last[w->depth] = id;
}

static inline void w_i32(writer *w, int id, int64_t v)
{
    w_field(w, id, FBY__THRIFT_I32);
    w_zigzag(w, v);
}
static inline void w_i64(writer *w, int id, int64_t v)
{
    w_field(w, id, FBY__THRIFT_I64);
    w_zigzag(w, v);
}
static inline void w_bool(writer *w, int id, bool v) { w_field(w, id, v ? FBY__THRIFT_TRUE : FBY__THRIFT_FALSE); }

static inline void w_text(writer *w, int id, const char *s)
{
    w_field(w, id, FBY__THRIFT_BINARY);
    w_varint(w, strlen(s));
    if (fby__buf_put(&w->b, s, strlen(s)) != 0)
        abort();
}

/* A struct as a field, or (w_open) as an element of a list or the outermost. */
static inline void w_open(writer *w) { w->last[++w->depth] = 0; }
static inline void w_struct(writer *w, int id)
{
    w_field(w, id, FBY__THRIFT_STRUCT);
    w_open(w);
}
static inline void w_close(writer *w)
{
    w_byte(w, 0);
    w->depth--;
}

static inline void w_list(writer *w, int id, unsigned element, size_t n)
{
    w_field(w, id, FBY__THRIFT_LIST);
    if (n < 15) {
        w_byte(w, (unsigned)n << 4 | element);
    } else {
        w_byte(w, 0xf0 | element);
        w_varint(w, n);
    }
}

/* ---- Parquet ---- */

/** One schema element; zero means absent, so type, converted and children are stated plus one where zero is a value. */
typedef struct spec {
    const char *name;
    int repetition; /* FBY__PQ_REQUIRED … */
    int n_children; /* 0 = a leaf */
    int type;       /* of leaves */
    int converted;  /* FBY__PQ_CONV_… + 1; 0 = none */
    int logical;    /* FBY__PQ_LOGICAL_… */
    int type_length, scale, precision;
    int unit; /* 1 ms, 2 us, 3 ns */
    int bits;
    bool flag; /* isAdjustedToUTC or isSigned */
} spec;

static inline void w_element(writer *w, const spec *s, bool root)
{
    w_open(w);
    if (!s->n_children && !root)
        w_i32(w, 1, s->type);
    if (s->type_length)
        w_i32(w, 2, s->type_length);
    if (!root)
        w_i32(w, 3, s->repetition);
    w_text(w, 4, s->name);
    if (s->n_children)
        w_i32(w, 5, s->n_children);
    if (s->converted)
        w_i32(w, 6, s->converted - 1);
    if (s->precision && !s->logical) {
        w_i32(w, 7, s->scale);
        w_i32(w, 8, s->precision);
    }
    if (s->logical) {
        w_struct(w, 10);
        w_struct(w, s->logical);
        if (s->logical == FBY__PQ_LOGICAL_DECIMAL) {
            w_i32(w, 1, s->scale);
            w_i32(w, 2, s->precision);
        } else if (s->logical == FBY__PQ_LOGICAL_INTEGER) {
            w_field(w, 1, FBY__THRIFT_I8);
            w_byte(w, (unsigned)s->bits);
            w_bool(w, 2, s->flag);
        } else if (s->unit) {
            w_bool(w, 1, s->flag);
            w_struct(w, 2);
            w_struct(w, s->unit);
            w_close(w);
            w_close(w);
        }
        w_close(w);
        w_close(w);
    }
    w_close(w);
}

static inline void w_schema(writer *w, const spec *specs, size_t n)
{
    w_list(w, 2, FBY__THRIFT_STRUCT, n);
    for (size_t i = 0; i < n; i++)
        w_element(w, &specs[i], i == 0);
}

/** A column chunk for a row group's list. Negative dictionary = absent. */
typedef struct chunk_spec {
    int type, codec;
    int64_t n_values, uncompressed, compressed, data, dictionary;
    const char *file_path;
    bool encrypted;
    int encoding;
} chunk_spec;

static inline void w_chunk(writer *w, const chunk_spec *c)
{
    w_open(w);
    if (c->file_path)
        w_text(w, 1, c->file_path);
    w_i64(w, 2, 0);
    w_struct(w, 3);
    w_i32(w, 1, c->type);
    w_list(w, 2, FBY__THRIFT_I32, 1);
    w_zigzag(w, c->encoding);
    w_list(w, 3, FBY__THRIFT_BINARY, 0);
    w_i32(w, 4, c->codec);
    w_i64(w, 5, c->n_values);
    w_i64(w, 6, c->uncompressed);
    w_i64(w, 7, c->compressed);
    w_i64(w, 9, c->data);
    if (c->dictionary >= 0)
        w_i64(w, 11, c->dictionary);
    w_close(w);
    if (c->encrypted) {
        w_struct(w, 8);
        w_close(w);
    }
    w_close(w);
}

/** A data page header (v1) with its body's size; nothing follows. */
static inline void w_page_v1(writer *w, int32_t n_values, int32_t bytes)
{
    w_open(w);
    w_i32(w, 1, FBY__PQ_DATA_PAGE);
    w_i32(w, 2, bytes);
    w_i32(w, 3, bytes);
    w_struct(w, 5);
    w_i32(w, 1, n_values);
    w_i32(w, 2, FBY__PQ_PLAIN);
    w_i32(w, 3, FBY__PQ_RLE);
    w_i32(w, 4, FBY__PQ_RLE);
    w_close(w);
    w_close(w);
}

static inline void w_page_v2(writer *w, int32_t n_values, int32_t n_rows, int32_t bytes)
{
    w_open(w);
    w_i32(w, 1, FBY__PQ_DATA_PAGE_V2);
    w_i32(w, 2, bytes);
    w_i32(w, 3, bytes);
    w_struct(w, 8);
    w_i32(w, 1, n_values);
    w_i32(w, 2, 0);
    w_i32(w, 3, n_rows);
    w_i32(w, 4, FBY__PQ_PLAIN);
    w_i32(w, 5, 0);
    w_i32(w, 6, 0);
    w_close(w);
    w_close(w);
}

static inline void w_dictionary(writer *w, int32_t n_values, int32_t bytes)
{
    w_open(w);
    w_i32(w, 1, FBY__PQ_DICTIONARY_PAGE);
    w_i32(w, 2, bytes);
    w_i32(w, 3, bytes);
    w_struct(w, 7);
    w_i32(w, 1, n_values);
    w_i32(w, 2, FBY__PQ_PLAIN);
    w_close(w);
    w_close(w);
}

/* ---- files in memory ---- */

typedef struct memory_file {
    int fd;
    char path[32];
} memory_file;

static inline memory_file memory_file_of(const void *bytes, size_t n)
{
    memory_file m = {.fd = memfd_create("test.parquet", MFD_CLOEXEC)};
    if (m.fd < 0 || ftruncate(m.fd, (off_t)n) != 0 || pwrite(m.fd, bytes, n, 0) != (ssize_t)n)
        abort();
    (void)snprintf(m.path, sizeof m.path, "/proc/self/fd/%d", m.fd);
    return m;
}

/** PAR1, the body, the footer, its length, PAR1. */
static inline fby__buf parquet_bytes(fby__bytes body, fby__bytes footer)
{
    fby__buf out = {0};
    uint32_t n = (uint32_t)footer.n;
    if (fby__buf_put(&out, "PAR1", 4) || fby__buf_put(&out, body.data, body.n) || fby__buf_put(&out, footer.data, footer.n) ||
        fby__buf_put(&out, &n, 4) || fby__buf_put(&out, "PAR1", 4))
        abort();
    return out;
}

/** Open bytes as a Parquet file. The file is closed again; *out_file (may be NULL) keeps it. */
static inline fby_status open_bytes(const void *bytes, size_t n, fby__table **out, fby__file **out_file, fby_error *err)
{
    memory_file m = memory_file_of(bytes, n);
    fby__file *file = NULL;
    fby_status st = fby__file_open(m.path, NULL, &file, err);
    if (st == FBY_OK)
        st = fby__pq_open(file, out, err);
    (void)close(m.fd);
    if (st == FBY_OK && out_file)
        *out_file = file;
    else
        fby__file_unref(file);
    return st;
}

#endif
