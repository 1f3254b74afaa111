/* Data of every kind, and streams of every codec: as its own library writes them, and as ours does. */
#ifndef FBY_TESTS_CODEC_STREAMS_H
#define FBY_TESTS_CODEC_STREAMS_H

#include "base/random.h"
#include "codec/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <libdeflate.h>
#include <lz4.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <zstd.h>

#define SEED 20240611

static inline void put(fby__buf *b, const void *p, size_t n) { assert_int_equal(fby__buf_put(b, p, n), 0); }

static inline void put_be32(fby__buf *b, size_t v)
{
    uint32_t be = __builtin_bswap32((uint32_t)v);
    put(b, &be, 4);
}

static inline uint8_t *room(size_t n)
{
    uint8_t *p = malloc(n ? n : 1);
    assert_non_null(p);
    return p;
}

static inline void put_snappy(fby__buf *b, const uint8_t *p, size_t n)
{
    size_t out_n = snappy_max_compressed_length(n);
    uint8_t *out = room(out_n);
    assert_int_equal(snappy_compress((const char *)p, n, (char *)out, &out_n), SNAPPY_OK);
    put(b, out, out_n);
    free(out);
}

static inline void put_deflate(fby__buf *b, const uint8_t *p, size_t n, bool zlib)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    size_t cap = n + n / 8 + 1000;
    uint8_t *out = room(cap);
    size_t out_n = (zlib ? libdeflate_zlib_compress : libdeflate_gzip_compress)(c, p, n, out, cap);
    assert_true(out_n > 0);
    put(b, out, out_n);
    free(out);
    libdeflate_free_compressor(c);
}

static inline void put_gzip(fby__buf *b, const uint8_t *p, size_t n) { put_deflate(b, p, n, false); }
static inline void put_zlib(fby__buf *b, const uint8_t *p, size_t n) { put_deflate(b, p, n, true); }

static inline void put_zstd(fby__buf *b, const uint8_t *p, size_t n)
{
    size_t cap = ZSTD_compressBound(n);
    uint8_t *out = room(cap);
    size_t out_n = ZSTD_compress(out, cap, p, n, 3);
    assert_false(ZSTD_isError(out_n));
    put(b, out, out_n);
    free(out);
}

static inline void put_lz4_block(fby__buf *b, const uint8_t *p, size_t n)
{
    int cap = LZ4_compressBound((int)n);
    uint8_t *out = room((size_t)cap);
    int out_n = LZ4_compress_default((const char *)p, (char *)out, (int)n, cap);
    assert_true(out_n > 0);
    put(b, out, (size_t)out_n);
    free(out);
}

static inline void put_lz4_chunk(fby__buf *b, const uint8_t *p, size_t n)
{
    fby__buf block = {0};
    put_lz4_block(&block, p, n);
    put_be32(b, block.n);
    put(b, block.data, block.n);
    fby__buf_fini(&block);
}

static inline void put_lz4_hadoop(fby__buf *b, const uint8_t *p, size_t n)
{
    put_be32(b, n);
    put_lz4_chunk(b, p, n);
}

static inline void put_lz4_frame(fby__buf *b, const uint8_t *p, size_t n)
{
    LZ4F_preferences_t prefs = {.frameInfo = {.contentChecksumFlag = LZ4F_contentChecksumEnabled}};
    size_t cap = LZ4F_compressFrameBound(n, &prefs);
    uint8_t *out = room(cap);
    size_t out_n = LZ4F_compressFrame(out, cap, p, n, &prefs);
    assert_false(LZ4F_isError(out_n));
    put(b, out, out_n);
    free(out);
}

static inline void put_none(fby__buf *b, const uint8_t *p, size_t n) { put(b, p, n); }

/* The library links Brotli's decoder only; its encoder is looked up, and without it the golden streams remain. */
static int (*g_brotli)(int, int, int, size_t, const uint8_t *, size_t *, uint8_t *);

static inline void put_brotli(fby__buf *b, const uint8_t *p, size_t n)
{
    size_t out_n = n + n / 8 + 1000;
    uint8_t *out = room(out_n);
    assert_int_equal(g_brotli(5, 22, 0, n, p, &out_n, out), 1);
    put(b, out, out_n);
    free(out);
}

/* What the library itself writes. */
static inline void put_written(fby__buf *b, fby__codec_id id, const uint8_t *p, size_t n)
{
    fby_error err;
    fby__codec_state state = {0};
    if (fby__codec_compress(&state, id, 0, (fby__bytes){p, n}, b, &err) != FBY_OK)
        fail_msg("%s", err.message);
    fby__codec_state_fini(&state);
}

static inline void write_snappy(fby__buf *b, const uint8_t *p, size_t n) { put_written(b, FBY__CODEC_SNAPPY, p, n); }
static inline void write_zstd(fby__buf *b, const uint8_t *p, size_t n) { put_written(b, FBY__CODEC_ZSTD, p, n); }
static inline void write_lz4_raw(fby__buf *b, const uint8_t *p, size_t n) { put_written(b, FBY__CODEC_LZ4_RAW, p, n); }
static inline void write_lz4_frame(fby__buf *b, const uint8_t *p, size_t n) { put_written(b, FBY__CODEC_LZ4_FRAME, p, n); }

typedef struct maker {
    const char *name;
    fby__codec_id id;
    void (*put)(fby__buf *, const uint8_t *, size_t);
} maker;

static const maker MAKERS[] = {
    {"uncompressed", FBY__CODEC_NONE, put_none},
    {"snappy", FBY__CODEC_SNAPPY, put_snappy},
    {"gzip", FBY__CODEC_GZIP, put_gzip},
    {"zlib", FBY__CODEC_GZIP, put_zlib},
    {"zstd", FBY__CODEC_ZSTD, put_zstd},
    {"lz4 raw", FBY__CODEC_LZ4_RAW, put_lz4_block},
    {"lz4 hadoop", FBY__CODEC_LZ4, put_lz4_hadoop},
    {"lz4 as a raw block", FBY__CODEC_LZ4, put_lz4_block},
    {"lz4 frame", FBY__CODEC_LZ4, put_lz4_frame},
    {"lz4 frame alone", FBY__CODEC_LZ4_FRAME, put_lz4_frame},
    {"brotli", FBY__CODEC_BROTLI, put_brotli},
    {"snappy, written here", FBY__CODEC_SNAPPY, write_snappy},
    {"zstd, written here", FBY__CODEC_ZSTD, write_zstd},
    {"lz4 raw, written here", FBY__CODEC_LZ4_RAW, write_lz4_raw},
    {"lz4 frame, written here", FBY__CODEC_LZ4_FRAME, write_lz4_frame},
};
#define N_MAKERS (sizeof MAKERS / sizeof MAKERS[0])

static inline bool can_make(const maker *m) { return m->id != FBY__CODEC_BROTLI || g_brotli; }

/* 0: zeros, 1: noise, 2: like a column of slowly changing numbers, 3: text. */
static inline uint8_t *make_data(int kind, size_t n)
{
    uint8_t *p = room(n + 8);
    fby__random r = {.key = SEED, .stream = (uint64_t)kind};
    for (size_t i = 0; i < n; i++)
        p[i] = kind == 0   ? 0
               : kind == 1 ? (uint8_t)fby__random_next(&r)
               : kind == 2 ? (uint8_t)(i % 8 < 6 ? 0 : i / 64)
                           : (uint8_t) "the pool upstream of a turbine "[(i + (i / 97) * (i / 131)) % 31];
    return p;
}

#endif
