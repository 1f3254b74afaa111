/*
 * Parquet's encodings against naive twins: values are written bit by bit as Encodings.md says, then read in pieces of random
 * length. Inputs end where a page begins that must not be touched. Every SIMD variant.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "block/simd_variants.h"
#include "format/parquet/encodings.h"
#include "support/test_seed.h"

static uint64_t below(uint64_t n) { return fby__random_below(&random_state, n); }
static uint64_t bits(unsigned width) { return width == 0 ? 0 : fby__random_next(&random_state) >> (64 - width); }

/* ---- writers ---- */

typedef struct bit_writer {
    uint8_t *data;
    size_t at; /* bit */
} bit_writer;

static void put_bits(bit_writer *w, uint64_t v, unsigned width)
{
    for (unsigned b = 0; b < width; b++, w->at++)
        w->data[w->at >> 3] |= (uint8_t)((v >> b & 1) << (w->at & 7));
}

static size_t put_varint(uint8_t *p, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return n;
}

static uint64_t zigzag(uint64_t v) { return v << 1 ^ (0 - (v >> 63)); }

/* Random runs of both kinds; returns the bytes used. */
static size_t write_hybrid(uint8_t *out, const uint32_t *values, size_t n, unsigned width)
{
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        size_t run = 1;
        while (i + run < n && values[i + run] == values[i])
            run++;
        if (run >= 8 || (run > 1 && below(4) == 0)) {
            at += put_varint(out + at, (uint64_t)run << 1);
            for (unsigned b = 0; b < (width + 7) / 8; b++)
                out[at++] = (uint8_t)(values[i] >> (8 * b));
            i += run;
        } else {
            size_t groups = 1 + below(70), k = groups * 8 < n - i ? groups * 8 : n - i;
            groups = (k + 7) / 8;
            at += put_varint(out + at, groups << 1 | 1);
            memset(out + at, 0, groups * width);
            bit_writer w = {.data = out + at};
            for (size_t j = 0; j < k; j++)
                put_bits(&w, values[i + j], width);
            at += groups * width;
            i += k;
            if (k % 8) /* padding values exist only in the last run */
                assert_int_equal(i, n);
        }
    }
    return at;
}

static void random_values(uint32_t *v, size_t n, unsigned width)
{
    for (size_t i = 0; i < n;) {
        uint32_t x = (uint32_t)bits(width);
        size_t run = below(3) ? 1 : 1 + below(100);
        for (; run && i < n; run--)
            v[i++] = x;
    }
}

/* DELTA_BINARY_PACKED with random block shapes; 32-bit arithmetic when bits32. Unused widths are garbage. */
static size_t write_delta(uint8_t *out, const uint64_t *values, size_t n, bool bits32)
{
    static const size_t SHAPES[][2] = {{128, 4}, {128, 1}, {256, 2}, {64, 2}, {512, 4}};
    const size_t *shape = SHAPES[below(5)];
    const size_t per_block = shape[0], minis = shape[1], per_mini = per_block / minis;
    const uint64_t mask = bits32 ? UINT32_MAX : UINT64_MAX;
    size_t at = put_varint(out, per_block);
    at += put_varint(out + at, minis);
    at += put_varint(out + at, n);
    at += put_varint(out + at, n ? zigzag(bits32 ? (uint64_t)(int64_t)(int32_t)values[0] : values[0]) : 0);
    for (size_t i = 1; i < n; i += per_block) {
        /* any minimum is allowed: the difference wraps */
        uint64_t min = bits32 ? (uint64_t)(int64_t)(int32_t)bits(32) : fby__random_next(&random_state);
        if (below(2))
            min = bits32 ? (uint64_t)(int64_t)(int32_t)(values[i] - values[i - 1]) : values[i] - values[i - 1];
        at += put_varint(out + at, zigzag(min));
        uint8_t *widths = out + at;
        at += minis;
        for (size_t m = 0; m < minis; m++) {
            size_t first = i + m * per_mini;
            if (first >= n) {
                widths[m] = (uint8_t)bits(8); /* unused: garbage */
                continue;
            }
            uint64_t all = 0;
            for (size_t j = first; j < n && j < first + per_mini; j++)
                all |= (values[j] - values[j - 1] - min) & mask;
            unsigned width = 0;
            for (; width < 64 && all >> width; width++)
                ;
            widths[m] = (uint8_t)width;
            memset(out + at, 0, per_mini / 8 * width);
            bit_writer w = {.data = out + at};
            for (size_t j = first; j < n && j < first + per_mini; j++)
                put_bits(&w, (values[j] - values[j - 1] - min) & mask, width);
            at += per_mini / 8 * width;
        }
    }
    return at;
}

/* ---- bits ---- */

static void unpacks_every_width_and_length_without_reading_beyond_the_bytes(void **state)
{
    (void)state;
    for (unsigned width = 0; width <= 64; width++)
        for (int round = 0; round < 12; round++) {
            size_t n = round < 3 ? (size_t)round : (size_t)below(300), bytes = (n * width + 7) / 8;
            uint64_t v[300], got64[300];
            uint8_t packed[300 * 8 + 8] = {0};
            bit_writer w = {.data = packed};
            for (size_t i = 0; i < n; i++)
                put_bits(&w, v[i] = bits(width), width);
            uint8_t *p = guarded_copy(packed, bytes);
            fby__unpack_u64(p, bytes, width, got64, n);
            assert_memory_equal(got64, v, n * sizeof *v);
            uint32_t got32[301];
            got32[n] = 0x5eed5eed;
            if (width <= 32) {
                fby__unpack_u32(p, bytes, width, got32, n);
                for (size_t i = 0; i < n; i++)
                    assert_int_equal(got32[i], v[i]);
            }
            assert_int_equal(got32[n], 0x5eed5eed);
            uint8_t got8[301];
            got8[n] = 0xaa;
            if (width <= 8) {
                fby__unpack_u8(p, bytes, width, got8, n);
                for (size_t i = 0; i < n; i++)
                    assert_int_equal(got8[i], v[i]);
            }
            assert_int_equal(got8[n], 0xaa);
            guarded_free(p, bytes);
        }
}

static void reads_runs_of_both_kinds_in_pieces_of_any_length(void **state)
{
    (void)state;
    enum { N = 3000 };
    uint32_t *v = malloc(N * sizeof *v), *got = malloc(N * sizeof *got);
    uint8_t *out = malloc(N * 8), *got8 = malloc(N);
    for (unsigned width = 1; width <= 32; width++)
        for (int round = 0; round < 4; round++) {
            random_values(v, N, width);
            size_t bytes = write_hybrid(out, v, N, width);
            uint8_t *p = guarded_copy(out, bytes);
            fby__hybrid h, h8;
            fby__hybrid_init(&h, (fby__bytes){p, bytes}, width);
            fby__hybrid_init(&h8, (fby__bytes){p, bytes}, width);
            for (size_t i = 0; i < N;) {
                size_t k = 1 + below(below(2) ? 20 : 900);
                k = k < N - i ? k : N - i;
                if (below(5) == 0) {
                    assert_int_equal(fby__hybrid_skip(&h, k), k);
                    memcpy(got + i, v + i, k * sizeof *v);
                } else {
                    assert_int_equal(fby__hybrid_u32(&h, got + i, k), k);
                }
                if (width <= 8)
                    assert_int_equal(fby__hybrid_u8(&h8, got8 + i, k), k);
                i += k;
            }
            for (size_t i = 0; i < N; i++) {
                assert_int_equal(got[i], v[i]);
                if (width <= 8)
                    assert_int_equal(got8[i], v[i]);
            }
            guarded_free(p, bytes);
        }
    free(v);
    free(got);
    free(out);
    free(got8);
}

static void looks_entries_up_for_every_element_size(void **state)
{
    (void)state;
    enum { N = 2000 };
    static const size_t SIZES[] = {1, 2, 4, 8, 5, 12, 16};
    uint32_t *v = malloc(N * sizeof *v);
    uint8_t *out = malloc(N * 8), *dict = malloc((1 << 12) * 16), *got = malloc(N * 16 + 64);
    for (unsigned width = 1; width <= 12; width++)
        for (size_t s = 0; s < 7; s++) {
            const size_t n_dict = (size_t)1 << width, elem = SIZES[s];
            for (size_t i = 0; i < n_dict * elem; i++)
                dict[i] = (uint8_t)bits(8);
            random_values(v, N, width);
            size_t bytes = write_hybrid(out, v, N, width);
            uint8_t *p = guarded_copy(out, bytes), *d = guarded_copy(dict, n_dict * elem);
            fby__hybrid h;
            fby__hybrid_init(&h, (fby__bytes){p, bytes}, width);
            uint32_t bad = 0;
            for (size_t i = 0; i < N;) {
                size_t k = 1 + below(300);
                k = k < N - i ? k : N - i;
                assert_int_equal(fby__hybrid_gather(&h, d, n_dict, elem, got + i * elem, k, &bad), FBY__GATHER_OK);
                i += k;
            }
            for (size_t i = 0; i < N; i++)
                assert_memory_equal(got + i * elem, dict + v[i] * elem, elem);
            uint32_t top = 0;
            for (size_t i = 0; i < N; i++)
                top = v[i] > top ? v[i] : top;
            fby__hybrid_init(&h, (fby__bytes){p, bytes}, width);
            assert_int_equal(fby__hybrid_gather(&h, d, top, elem, got, N, &bad), FBY__GATHER_RANGE);
            assert_true(bad >= top);
            fby__hybrid_init(&h, (fby__bytes){p, bytes}, width);
            assert_int_equal(fby__hybrid_gather(&h, d, n_dict, elem, got, N, &bad), FBY__GATHER_OK);
            assert_int_equal(fby__hybrid_gather(&h, d, n_dict, elem, got, 9, &bad) != FBY__GATHER_RANGE, 1); /* padding, then short */
            guarded_free(p, bytes);
            guarded_free(d, n_dict * elem);
        }
    free(v);
    free(out);
    free(dict);
    free(got);
}

static void runs_that_are_not_valid_end_the_values(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[8];
        size_t n;
        unsigned width;
    } BAD[] = {
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, 8, 3}, /* a header without an end */
        {{0x80}, 1, 3},                                           /* a cut header */
        {{0x08}, 1, 3},                                           /* a run without its value */
        {{0x08, 0x08}, 2, 3},                                     /* a value of more than three bits */
        {{0x00, 0x01, 0x00, 0x01}, 4, 1},                         /* runs of nothing */
        {{0x03}, 1, 1},                                           /* a group without its bytes */
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        uint8_t *p = guarded_copy(BAD[i].bytes, BAD[i].n);
        fby__hybrid h;
        uint32_t v[8];
        fby__hybrid_init(&h, (fby__bytes){p, BAD[i].n}, BAD[i].width);
        assert_int_equal(fby__hybrid_u32(&h, v, 8), 0);
        guarded_free(p, BAD[i].n);
    }
}

static void width_zero_is_zeros_without_bytes(void **state)
{
    (void)state;
    fby__hybrid h;
    uint32_t v[100], bad;
    memset(v, 0xff, sizeof v);
    fby__hybrid_init(&h, (fby__bytes){(const uint8_t *)"", 0}, 0);
    assert_int_equal(fby__hybrid_u32(&h, v, 100), 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(v[i], 0);
    float entry = 7.5f, got[3];
    assert_int_equal(fby__hybrid_gather(&h, &entry, 1, 4, got, 3, &bad), FBY__GATHER_OK);
    assert_true(got[0] == 7.5f && got[2] == 7.5f);
    assert_int_equal(fby__hybrid_gather(&h, &entry, 0, 4, got, 3, &bad), FBY__GATHER_RANGE);
}

/* ---- levels ---- */

static void levels_of_one_run_cost_no_bytes_and_others_are_checked(void **state)
{
    (void)state;
    uint8_t one_run[8], out[64];
    size_t n = put_varint(one_run, 1000 << 1);
    one_run[n++] = 1;
    fby__levels l;
    bool all;
    memset(out, 0x55, sizeof out);
    fby__levels_init(&l, (fby__bytes){one_run, n}, 1, false);
    assert_int_equal(fby__levels_next(&l, out, 990, &all, NULL), FBY_OK); /* more than out has room for: nothing is written */
    assert_true(all);
    assert_int_equal(out[0], 0x55);
    assert_int_equal(fby__levels_next(&l, out, 11, &all, NULL), FBY_E_FORMAT); /* ten are left */

    uint8_t too_high[] = {0x08, 3}; /* four levels of 3 where 2 is the most */
    fby__levels_init(&l, (fby__bytes){too_high, 2}, 2, false);
    assert_int_equal(fby__levels_next(&l, out, 4, &all, NULL), FBY_E_FORMAT);

    /* BIT_PACKED: from the most significant bit */
    uint8_t msb[] = {0x1b, 0x40}; /* 0 1 2 3 | 1 */
    fby__levels_init(&l, (fby__bytes){msb, 2}, 3, true);
    assert_int_equal(fby__levels_next(&l, out, 5, &all, NULL), FBY_OK);
    assert_memory_equal(out, ((uint8_t[]){0, 1, 2, 3, 1}), 5);
    assert_int_equal(fby__levels_next(&l, out, 4, &all, NULL), FBY_E_FORMAT);
}

static void counts_levels(void **state)
{
    (void)state;
    uint8_t v[2000];
    for (size_t n = 0; n < 2000; n += 1 + below(90)) {
        size_t twos = 0;
        for (size_t i = 0; i < n; i++)
            twos += (v[i] = (uint8_t)below(3)) == 2;
        assert_int_equal(fby__levels_count(v, n, 2), twos);
    }
}

/* ---- deltas ---- */

static void deltas_wrap_around_in_32_and_64_bits(void **state)
{
    (void)state;
    enum { N = 2000 };
    uint64_t *v = malloc(N * sizeof *v), *got = malloc(N * sizeof *got);
    uint8_t *out = malloc(N * 24 + 1000);
    for (int round = 0; round < 200; round++) {
        const bool bits32 = round & 1;
        const size_t n = round < 10 ? (size_t)round / 2 : below(N);
        const unsigned range = (unsigned)below(bits32 ? 33 : 65);
        for (size_t i = 0; i < n; i++)
            v[i] = bits(range) + (bits32 ? 0x7fffff00u : 0x7fffffffffffff00u);
        size_t bytes = write_delta(out, v, n, bits32), elem = bits32 ? 4 : 8;
        uint8_t *p = guarded_copy(out, bytes);
        fby__delta d = {0};
        assert_int_equal(fby__delta_init(&d, (fby__bytes){p, bytes}, NULL), FBY_OK);
        const uint8_t *end = NULL;
        assert_int_equal(fby__delta_end(&d, &end, NULL), FBY_OK);
        assert_ptr_equal(end, p + bytes);
        for (size_t i = 0; i < n;) {
            size_t k = 1 + below(100);
            k = k < n - i ? k : n - i;
            assert_int_equal(fby__delta_next(&d, (uint8_t *)got + i * elem, k, elem, NULL), FBY_OK);
            i += k;
        }
        for (size_t i = 0; i < n; i++)
            assert_true(bits32 ? ((uint32_t *)got)[i] == (uint32_t)v[i] : got[i] == v[i]);
        assert_int_equal(fby__delta_next(&d, got, 1, elem, NULL), FBY_E_FORMAT); /* one too many */
        for (size_t cut = 0; cut < bytes; cut += 1 + bytes / 40) {               /* cut anywhere */
            uint8_t *c = guarded_copy(p, cut);
            fby__delta e = {0};
            if (fby__delta_init(&e, (fby__bytes){c, cut}, NULL) == FBY_OK && n)
                (void)fby__delta_next(&e, got, n, elem, NULL); /* an error, or the cut bytes were padding */
            guarded_free(c, cut);
        }
        guarded_free(p, bytes);
    }
    free(v);
    free(got);
    free(out);
}

static void delta_headers_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const uint64_t BAD[][3] = {{0, 4, 5},
                                      {128, 0, 5},
                                      {128, 3, 5},
                                      {100, 1, 5},
                                      {UINT64_MAX, 1, 5},
                                      {128, 4, UINT64_MAX},
                                      {UINT64_C(1) << 40, UINT64_C(1) << 35, 5}};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        uint8_t b[64];
        size_t n = put_varint(b, BAD[i][0]);
        n += put_varint(b + n, BAD[i][1]);
        n += put_varint(b + n, BAD[i][2]);
        n += put_varint(b + n, 2);
        fby__delta d = {0};
        assert_int_equal(fby__delta_init(&d, (fby__bytes){b, n}, NULL), FBY_E_FORMAT);
    }
    uint8_t wide[64] = {0x80, 1, 4, 5, 2, 0, 65, 0, 0, 0}; /* a used mini-block of 65 bits */
    fby__delta d = {0};
    int64_t v[5];
    assert_int_equal(fby__delta_init(&d, (fby__bytes){wide, sizeof wide}, NULL), FBY_OK);
    assert_int_equal(fby__delta_next(&d, v, 5, 8, NULL), FBY_E_FORMAT);
}

/* ---- strings ---- */

enum { N_STRINGS = 500 };

static size_t random_strings(char text[N_STRINGS][40], uint32_t len[N_STRINGS])
{
    size_t n = 1 + below(N_STRINGS);
    for (size_t i = 0; i < n; i++) {
        len[i] = (uint32_t)below(40);
        uint32_t keep = i ? (uint32_t)below((len[i] < len[i - 1] ? len[i] : len[i - 1]) + 1) : 0;
        if (keep)
            memcpy(text[i], text[i - 1], keep);
        for (uint32_t k = keep; k < len[i]; k++)
            text[i][k] = (char)('a' + below(3));
    }
    return n;
}

static void assert_strings(const fby__pq_string *got, char text[][40], const uint32_t *len, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(got[i].n, len[i]);
        assert_memory_equal(got[i].data, text[i], len[i]);
    }
}

static void delta_strings_are_rebuilt(void **state)
{
    (void)state;
    static char text[N_STRINGS][40];
    static uint32_t len[N_STRINGS];
    static uint64_t prefix[N_STRINGS], suffix[N_STRINGS];
    static uint8_t out[N_STRINGS * 80 + 4096];
    fby__delta_strings d = {0};
    for (int round = 0; round < 100; round++) {
        size_t n = random_strings(text, len), bytes;
        for (size_t i = 0; i < n; i++) {
            uint32_t common = 0;
            while (i && common < len[i] && common < len[i - 1] && text[i][common] == text[i - 1][common])
                common++;
            prefix[i] = common;
            suffix[i] = len[i] - common;
        }
        bytes = write_delta(out, prefix, n, true);
        size_t suffixes = bytes;
        bytes += write_delta(out + bytes, suffix, n, true);
        for (size_t i = 0; i < n; i++) {
            memcpy(out + bytes, text[i] + prefix[i], suffix[i]);
            bytes += suffix[i];
        }
        uint8_t *p = guarded_copy(out, bytes);
        assert_int_equal(fby__delta_strings_init(&d, (fby__bytes){p, bytes}, NULL), FBY_OK);
        for (size_t i = 0; i < n;) {
            fby__pq_string got[N_STRINGS];
            size_t want = 1 + below(n - i), room = 0, k = 0;
            assert_int_equal(fby__delta_strings_room(&d, want, &room, NULL), FBY_OK);
            assert_in_range(room, 1, want);
            assert_int_equal(fby__delta_strings_next(&d, got, room, &k, NULL), FBY_OK);
            assert_int_equal(k, room);
            assert_strings(got, text + i, len + i, k);
            i += k;
        }
        fby__pq_string more;
        size_t k;
        assert_int_equal(fby__delta_strings_next(&d, &more, 1, &k, NULL), FBY_E_FORMAT);

        /* the suffixes alone are DELTA_LENGTH_BYTE_ARRAY */
        fby__delta_length l = {0};
        fby__pq_string got[N_STRINGS];
        assert_int_equal(fby__delta_length_init(&l, (fby__bytes){p + suffixes, bytes - suffixes}, NULL), FBY_OK);
        assert_int_equal(fby__delta_length_next(&l, got, n, NULL), FBY_OK);
        for (size_t i = 0; i < n; i++)
            assert_memory_equal(got[i].data, text[i] + prefix[i], suffix[i]);
        guarded_free(p, bytes);
    }
    fby__delta_strings_fini(&d);
}

static void a_prefix_longer_than_the_string_before_is_refused(void **state)
{
    (void)state;
    uint64_t prefix[2] = {0, 5}, suffix[2] = {4, 1};
    uint8_t out[2000] = {0};
    size_t n = write_delta(out, prefix, 2, true);
    n += write_delta(out + n, suffix, 2, true);
    fby__delta_strings d = {0};
    fby__pq_string got[2];
    size_t k;
    fby_error err;
    assert_int_equal(fby__delta_strings_init(&d, (fby__bytes){out, n + 5}, NULL), FBY_OK);
    assert_int_equal(fby__delta_strings_next(&d, got, 2, &k, &err), FBY_E_FORMAT);
    assert_non_null(strstr(err.message, "prefix of 5 bytes"));
    fby__delta_strings_fini(&d);
}

static void a_few_bytes_that_stand_for_many_come_in_bounded_pieces(void **state)
{
    (void)state;
    enum { BIG = 1 << 20, N = 100 };
    uint64_t prefix[N] = {0}, suffix[N] = {BIG};
    for (int i = 1; i < N; i++)
        prefix[i] = BIG;
    uint8_t *out = calloc(1, BIG + 4096);
    assert_non_null(out);
    size_t n = write_delta(out, prefix, N, true);
    n += write_delta(out + n, suffix, N, true);
    memset(out + n, 'x', BIG);
    fby__delta_strings d = {0};
    fby__pq_string got[N];
    assert_int_equal(fby__delta_strings_init(&d, (fby__bytes){out, n + BIG}, NULL), FBY_OK);
    for (size_t done = 0, k; done < N; done += k) {
        assert_int_equal(fby__delta_strings_next(&d, got, N - done, &k, NULL), FBY_OK);
        assert_int_equal(k, 1);
        assert_int_equal(got[0].n, BIG);
        assert_int_equal(got[0].data[BIG - 1], 'x');
    }
    assert_true(d.arena.cap <= 4 * BIG);
    fby__delta_strings_fini(&d);
    free(out);
}

static void plain_strings_that_reach_beyond_the_page_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[] = {2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0, 9, 0, 0, 0, 'c'};
    const uint8_t *p = bytes;
    fby__pq_string got[2];
    assert_int_equal(fby__plain_strings(&p, bytes + sizeof bytes, got, 2, NULL), FBY_OK);
    assert_int_equal(got[0].n, 2);
    assert_int_equal(got[1].n, 0);
    assert_int_equal(fby__plain_strings(&p, bytes + sizeof bytes, got, 1, NULL), FBY_E_FORMAT);
    p = bytes + 12;
    assert_int_equal(fby__plain_strings(&p, bytes + sizeof bytes, got, 1, NULL), FBY_E_FORMAT); /* not even a length */
}

/* ---- BYTE_STREAM_SPLIT ---- */

static void joins_split_streams_of_every_element_size(void **state)
{
    (void)state;
    for (size_t elem = 1; elem <= 17; elem++)
        for (int round = 0; round < 10; round++) {
            size_t n = 1 + below(200);
            uint8_t *v = malloc(n * elem), *split = malloc(n * elem), *got = malloc(n * elem);
            for (size_t i = 0; i < n * elem; i++)
                v[i] = (uint8_t)bits(8);
            for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < elem; k++)
                    split[k * n + i] = v[i * elem + k];
            for (size_t i = 0; i < n;) {
                size_t k = 1 + below(n - i);
                fby__unsplit(split, n, elem, i, got + i * elem, k);
                i += k;
            }
            assert_memory_equal(got, v, n * elem);
            free(v);
            free(split);
            free(got);
        }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup(unpacks_every_width_and_length_without_reading_beyond_the_bytes, seed_random),
    cmocka_unit_test_setup(reads_runs_of_both_kinds_in_pieces_of_any_length, seed_random),
    cmocka_unit_test_setup(looks_entries_up_for_every_element_size, seed_random),
    cmocka_unit_test(runs_that_are_not_valid_end_the_values),
    cmocka_unit_test(width_zero_is_zeros_without_bytes),
    cmocka_unit_test(levels_of_one_run_cost_no_bytes_and_others_are_checked),
    cmocka_unit_test_setup(counts_levels, seed_random),
    cmocka_unit_test_setup(deltas_wrap_around_in_32_and_64_bits, seed_random),
    cmocka_unit_test(delta_headers_that_make_no_sense_are_refused),
    cmocka_unit_test_setup(delta_strings_are_rebuilt, seed_random),
    cmocka_unit_test_setup(a_prefix_longer_than_the_string_before_is_refused, seed_random),
    cmocka_unit_test_setup(a_few_bytes_that_stand_for_many_come_in_bounded_pieces, seed_random),
    cmocka_unit_test(plain_strings_that_reach_beyond_the_page_are_refused),
    cmocka_unit_test_setup(joins_split_streams_of_every_element_size, seed_random),
};
SIMD_MAIN(TESTS)
