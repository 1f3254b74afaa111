/* Gathers of rows and of pieces of rows, of every size, beside one copy a row; memory ends where a page does that nobody may touch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "batch/batch.h"
#include "block/convert.h"
#include "block/simd_variants.h"

enum { ROWS = 40, SAMPLES = 7, STEPS = 5 };

static fby__random random_state = {.key = 11};

static uint8_t *random_bytes(size_t n)
{
    uint8_t *p = guarded_alloc(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)fby__random_next(&random_state);
    return p;
}

static void rows_of_every_size_arrive_whole(void **state)
{
    (void)state;
    static const size_t WIDE[] = {255, 256, 1000, 2048, 4096, 4100, 21900};
    for (size_t k = 0; k < 200 + sizeof WIDE / sizeof *WIDE; k++) {
        const size_t row = k < 200 ? k + 1 : WIDE[k - 200];
        uint8_t *panel = random_bytes(ROWS * row), *dst = guarded_alloc(SAMPLES * row);
        const uint8_t *rows[SAMPLES];
        for (size_t i = 0; i < SAMPLES; i++)
            rows[i] =
                i == 3 ? rows[2] + (rows[2] < panel + (ROWS - 1) * row ? row : 0) : panel + fby__random_below(&random_state, ROWS) * row;
        const size_t n = 1 + fby__random_below(&random_state, SAMPLES - 1); /* in two gathers, the first of which fetches for the other */
        fby__gather_rows(dst, &(fby__rows){.at = rows, .n = n, .n_next = SAMPLES - n}, 0, row);
        fby__gather_rows(dst + n * row, &(fby__rows){.at = rows + n, .n = SAMPLES - n, .fetched = true}, 0, row);
        for (size_t i = 0; i < SAMPLES; i++)
            assert_memory_equal(dst + i * row, rows[i], row);
        guarded_free(panel, ROWS * row);
        guarded_free(dst, SAMPLES * row);
    }
}

/* By fby__convert, a row at a time: of every dtype, where a row becomes lines of float32 and where it does not. */
static void rows_of_every_dtype_become_float32(void **state)
{
    (void)state;
    static const size_t ELEMENTS[] = {1, 7, 16, 32, 33, 128, 512, 1024, 4096, 5000};
    for (fby_dtype stored = FBY_BOOL; stored < FBY_DTYPE_COUNT; stored++)
        for (size_t k = 0; k < sizeof ELEMENTS / sizeof *ELEMENTS; k++) {
            const size_t n = ELEMENTS[k], row = n * fby_dtype_bytes(stored) + 3;
            uint8_t *panel = random_bytes(ROWS * row), *dst = guarded_alloc(SAMPLES * n * sizeof(float));
            float *expect = malloc(n * sizeof *expect);
            const uint8_t *rows[SAMPLES];
            for (size_t i = 0; stored == FBY_BOOL && i < ROWS * row; i++)
                panel[i] &= 1;
            for (size_t i = 0; stored == FBY_FLOAT64 && i < ROWS * n; i++) { /* exponents of float32, and now and then an infinity */
                uint8_t *top = panel + i / n * row + 3 + i % n * 8 + 7;
                *top = (uint8_t)((*top & 0x80) | (0x38 + *top % 15));
                if (i % 1000 == 999)
                    memcpy(top - 7, &(double){INFINITY}, 8);
            }
            for (size_t i = 0; i < SAMPLES; i++)
                rows[i] = panel + (i == SAMPLES - 1 ? ROWS - 1 : fby__random_below(&random_state, ROWS - 1)) * row;
            size_t bad;
            const fby__rows first = {.at = rows, .n = SAMPLES / 3, .n_next = SAMPLES - SAMPLES / 3},
                            others = {.at = rows + first.n, .n = first.n_next, .fetched = true};
            assert_int_equal(fby__gather_convert(FBY_FLOAT32, dst, stored, &first, 3, n, &bad), FBY_OK);
            assert_int_equal(fby__gather_convert(FBY_FLOAT32, dst + first.n * n * sizeof(float), stored, &others, 3, n, &bad), FBY_OK);
            for (size_t i = 0; i < SAMPLES; i++) {
                assert_int_equal(fby__convert(FBY_FLOAT32, expect, stored, rows[i] + 3, n, FBY__SCALE_NONE, &bad), FBY_OK);
                assert_memory_equal(dst + i * n * sizeof(float), expect, n * sizeof(float));
            }
            if (stored == FBY_FLOAT64) {
                memcpy(panel + (ROWS - 1) * row + 3 + n / 2 * 8, &(double){-1e39}, 8);
                assert_int_equal(fby__gather_convert(FBY_FLOAT32, dst, stored, &(fby__rows){.at = rows, .n = SAMPLES}, 3, n, &bad),
                                 FBY_E_DATA);
                assert_int_equal(bad, SAMPLES - 1);
            }
            free(expect);
            guarded_free(panel, ROWS * row);
            guarded_free(dst, SAMPLES * n * sizeof(float));
        }
}

static void pieces_of_every_size_arrive_whole(void **state)
{
    (void)state;
    for (size_t piece = 1; piece <= 200; piece++) {
        const size_t before = fby__random_below(&random_state, 3), row = before + piece + fby__random_below(&random_state, 2),
                     n = piece * STEPS;
        uint8_t *panel = random_bytes(ROWS * row), *dst = guarded_alloc(SAMPLES * n);
        const uint8_t *rows[SAMPLES];
        for (size_t i = 0; i < SAMPLES; i++) /* the last ends where the panel does */
            rows[i] = panel + (i == SAMPLES - 1 ? ROWS - STEPS : fby__random_below(&random_state, ROWS - STEPS)) * row;
        fby__gather_steps(dst, rows, &(fby__steps){.offset = before, .step_bytes = piece, .row_bytes = row, .n_steps = STEPS}, SAMPLES);
        for (size_t i = 0; i < SAMPLES; i++)
            for (size_t s = 0; s < STEPS; s++)
                assert_memory_equal(dst + i * n + s * piece, rows[i] + s * row + before, piece);
        guarded_free(panel, ROWS * row);
        guarded_free(dst, SAMPLES * n);
    }
}

/* Row sizes about whole lines, memory that begins at a line and memory that does not, rows that nobody wants, and nothing beside them. */
static void scattered_rows_of_every_size_arrive_where_they_should(void **state)
{
    (void)state;
    enum { SLOTS = SAMPLES * 3 };
    for (size_t row = 1; row <= 700; row += row % 64 < 62 ? 9 : 1) {
        for (size_t off_line = 0; off_line < 2; off_line++) {
            uint8_t *panel = random_bytes(ROWS * row), *all = aligned_alloc(64, SLOTS * row / 64 * 64 + 128), *dst = all + 5 * off_line;
            uint8_t *expected = malloc(SLOTS * row), *to[SAMPLES];
            const uint8_t *from[SAMPLES];
            assert_true(all && expected);
            memset(dst, 0xa5, SLOTS * row);
            memset(expected, 0xa5, SLOTS * row);
            for (size_t i = 0; i < SAMPLES; i++) {
                const size_t slot = 3 * i + fby__random_below(&random_state, 3);
                from[i] = panel + fby__random_below(&random_state, ROWS) * row;
                to[i] = fby__random_below(&random_state, 4) ? dst + slot * row : NULL;
                if (to[i])
                    memcpy(expected + slot * row, from[i], row);
            }
            fby__scatter_rows(to, from, row, SAMPLES);
            assert_memory_equal(dst, expected, SLOTS * row);
            guarded_free(panel, ROWS * row);
            free(all);
            free(expected);
        }
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(rows_of_every_size_arrive_whole),
    cmocka_unit_test(rows_of_every_dtype_become_float32),
    cmocka_unit_test(pieces_of_every_size_arrive_whole),
    cmocka_unit_test(scattered_rows_of_every_size_arrive_where_they_should),
};

SIMD_MAIN(TESTS)
