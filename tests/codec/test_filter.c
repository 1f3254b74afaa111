/*
 * HDF5's filters against chunks that libhdf5 and its plugins wrote, against everything that can be wrong with a chunk, and the
 * unshuffling against a plain one, for every SIMD variant. All buffers end where a page begins that nobody may touch.
 */
#include "codec/filter.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/random.h"
#include "block/simd_variants.h"
#include "codec/filter_case.h"
#include "codec/filter_impl.h"

#define GOLDEN FBY_TEST_DATA "/golden/hdf5_filter"
#define SEED 20240612

static filter_cases g_all;
static fby__filter_state g_state;

/* ---- helpers ---- */

static fby_status undo_case(const filter_case *c, fby__bytes stored, bool verify, uint8_t *dst, size_t dst_n, fby_error *err)
{
    fby__error_clear(err);
    return fby__filters_undo(&g_state, c->filters, c->n_filters, c->mask, verify, stored, dst, dst_n, err);
}

static bool uses(const filter_case *c, uint16_t id)
{
    for (uint32_t i = 0; i < c->n_filters; i++)
        if (c->filters[i].id == id && !(c->mask >> i & 1))
            return true;
    return false;
}

static void fill_random(uint8_t *p, size_t n)
{
    fby__random random = {.key = SEED, .stream = n};
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)fby__random_below(&random, 256);
}

/* A pipeline of one or two filters. */
static fby_status undo_with(uint32_t n, const fby__filter *filters, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    fby__error_clear(err);
    return fby__filters_undo(&g_state, filters, n, 0, true, src, dst, dst_n, err);
}

/* ---- chunks as libhdf5 writes them ---- */

static void every_golden_chunk_gives_its_bytes(void **state)
{
    (void)state;
    fby_error err;
    assert_true(g_all.n > 300);
    for (size_t i = 0; i < g_all.n; i++) {
        const filter_case *c = &g_all.cases[i];
        const uint8_t *stored = guarded_copy(c->stored.data, c->stored.n);
        uint8_t *dst = guarded_alloc(c->expected.n);
        for (int verify = 0; verify < 2; verify++) {
            memset(dst, 0xA5, c->expected.n);
            fby_status status = fby__filters_check(c->filters, c->n_filters, 4, &err);
            if (status == FBY_OK)
                status = undo_case(c, (fby__bytes){stored, c->stored.n}, verify, dst, c->expected.n, &err);
            if (status != FBY_OK)
                fail_msg("%s: %s", c->name, err.message);
            if (memcmp(dst, c->expected.data, c->expected.n) != 0)
                fail_msg("%s: other bytes", c->name);
        }
        guarded_free(stored, c->stored.n);
        guarded_free(dst, c->expected.n);
    }
    print_message("%zu chunks\n", g_all.n);
}

static void a_chunk_of_another_size_is_refused(void **state)
{
    (void)state;
    fby_error err;
    for (size_t i = 0; i < g_all.n; i++) {
        const filter_case *c = &g_all.cases[i];
        const size_t sizes[] = {0, 1, c->expected.n / 2, c->expected.n - 1, c->expected.n + 1, 2 * c->expected.n + 70000};
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            if (sizes[s] == c->expected.n)
                continue;
            uint8_t *dst = guarded_alloc(sizes[s]);
            assert_int_equal(undo_case(c, c->stored, false, sizes[s] ? dst : NULL, sizes[s], &err), FBY_E_FORMAT);
            assert_true(err.message[0] != 0);
            guarded_free(dst, sizes[s]);
        }
    }
}

static void a_chunk_cut_at_any_byte_never_crashes_and_is_mostly_refused(void **state)
{
    (void)state;
    fby_error err;
    size_t accepted = 0, cuts = 0;
    for (size_t i = 0; i < g_all.n; i++) {
        const filter_case *c = &g_all.cases[i];
        uint8_t *dst = guarded_alloc(c->expected.n);
        for (size_t cut = 0; cut < c->stored.n; cut += c->stored.n < 1500 ? 1 : 13) {
            const uint8_t *stored = guarded_copy(c->stored.data, cut);
            fby_status status = undo_case(c, (fby__bytes){stored, cut}, true, dst, c->expected.n, &err);
            cuts++;
            if (status == FBY_OK) {
                /* Only a byte that carries nothing: fill bits of szip. */
                accepted++;
                assert_memory_equal(dst, c->expected.data, c->expected.n);
            } else {
                assert_int_equal(status, FBY_E_FORMAT);
            }
            guarded_free(stored, cut);
        }
        guarded_free(dst, c->expected.n);
    }
    print_message("%zu of %zu cut chunks were whole\n", accepted, cuts);
}

static void a_damaged_chunk_never_crashes_or_writes_outside(void **state)
{
    (void)state;
    fby_error err;
    for (size_t i = 0; i < g_all.n; i++) {
        const filter_case *c = &g_all.cases[i];
        uint8_t *stored = guarded_copy(c->stored.data, c->stored.n), *dst = guarded_alloc(c->expected.n);
        for (size_t at = 0; at < c->stored.n; at += c->stored.n < 1000 || at < 64 ? 1 : 7) {
            static const uint8_t FLIPS[] = {0x01, 0x80, 0xff};
            for (size_t f = 0; f < sizeof FLIPS; f++) {
                stored[at] ^= FLIPS[f];
                fby_status status = undo_case(c, (fby__bytes){stored, c->stored.n}, true, dst, c->expected.n, &err);
                /* The sum over the stored bytes sees every change of one of them; over what comes out of a codec it may not. */
                if (c->filters[c->n_filters - 1].id == FBY__FILTER_FLETCHER32 && !(c->mask >> (c->n_filters - 1) & 1))
                    assert_int_equal(status, FBY_E_FORMAT);
                else
                    assert_true(status == FBY_OK || status == FBY_E_FORMAT || status == FBY_E_UNSUPPORTED);
                stored[at] ^= FLIPS[f];
            }
        }
        guarded_free(stored, c->stored.n);
        guarded_free(dst, c->expected.n);
    }
}

static void damaged_parameters_never_crash(void **state)
{
    (void)state;
    fby_error err;
    static const uint32_t VALUES[] = {0, 1, 2, 3, 7, 8, 16, 33, 64, 255, 4096, 65535, 1u << 20, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < g_all.n; i += 3) {
        filter_case c = g_all.cases[i];
        uint8_t *dst = guarded_alloc(c.expected.n);
        for (uint32_t f = 0; f < c.n_filters; f++) {
            c.filters[f].values = c.values[f];
            const uint32_t n_values = c.filters[f].n_values;
            for (uint32_t v = 0; v < n_values; v++)
                for (size_t k = 0; k < sizeof VALUES / sizeof VALUES[0]; k++) {
                    const uint32_t before = c.values[f][v];
                    c.values[f][v] = VALUES[k];
                    (void)fby__filters_check(c.filters, c.n_filters, 4, &err); /* any status will do */
                    (void)undo_case(&c, c.stored, true, dst, c.expected.n, &err);
                    c.values[f][v] = before;
                }
            for (uint32_t fewer = 0; fewer < n_values; fewer++) {
                c.filters[f].n_values = fewer;
                (void)fby__filters_check(c.filters, c.n_filters, 4, &err);
                (void)undo_case(&c, c.stored, true, dst, c.expected.n, &err);
            }
            c.filters[f].n_values = n_values;
        }
        guarded_free(dst, c.expected.n);
    }
}

static void every_failing_allocation_is_reported_and_the_state_stays_usable(void **state)
{
    (void)state;
    fby_error err;
    uint64_t injected = 0;
    for (size_t i = 0; i < g_all.n; i++) {
        const filter_case *c = &g_all.cases[i];
        uint8_t *dst = malloc(c->expected.n);
        for (uint64_t at = 1;; at++) {
            fby__filter_state fresh = {0};
            const uint64_t before = fby__alloc_count();
            fby__alloc_fail_at(at);
            fby_status status = fby__filters_undo(&fresh, c->filters, c->n_filters, c->mask, true, c->stored, dst, c->expected.n, &err);
            const bool hit = fby__alloc_count() - before >= at;
            fby__alloc_fail_at(0);
            assert_int_equal(status, hit ? FBY_E_NOMEM : FBY_OK);
            injected += hit;
            assert_int_equal(fby__filters_undo(&fresh, c->filters, c->n_filters, c->mask, true, c->stored, dst, c->expected.n, &err),
                             FBY_OK);
            assert_memory_equal(dst, c->expected.data, c->expected.n);
            fby__filter_state_fini(&fresh);
            assert_int_equal(fby__filter_state_bytes(&fresh), 0);
            fby__filter_state_fini(&fresh); /* a released state is an empty one */
            if (!hit)
                break;
        }
        free(dst);
    }
    print_message("%llu allocations failed in turn\n", (unsigned long long)injected);
    assert_true(injected > 300);
}

static void a_second_chunk_allocates_nothing_outside_blosc_and_szip(void **state)
{
    (void)state;
    fby_error err;
    for (size_t i = 0; i < g_all.n; i++) {
        const filter_case *c = &g_all.cases[i];
        if (uses(c, FBY__FILTER_BLOSC) || uses(c, FBY__FILTER_SZIP))
            continue; /* these libraries take memory for each chunk */
        uint8_t *dst = malloc(c->expected.n);
        assert_int_equal(undo_case(c, c->stored, true, dst, c->expected.n, &err), FBY_OK);
        const uint64_t before = fby__alloc_count();
        assert_int_equal(undo_case(c, c->stored, true, dst, c->expected.n, &err), FBY_OK);
        assert_int_equal(fby__alloc_count(), before);
        free(dst);
    }
    assert_true(fby__filter_state_bytes(&g_state) > 0);
    assert_true(g_state.decompress_ns > 0);
}

/* ---- single filters ---- */

static void fletcher32_is_verified_only_when_asked(void **state)
{
    (void)state;
    fby_error err;
    const fby__filter filter = {.id = FBY__FILTER_FLETCHER32};
    uint8_t stored[9] = {1, 2, 3, 4, 5, 0, 0, 0, 0}, dst[5];
    fby_status status = fby__filters_undo(&g_state, &filter, 1, 0, true, (fby__bytes){stored, 9}, dst, 5, &err);
    assert_int_equal(status, FBY_E_FORMAT);
    assert_non_null(strstr(err.message, "fletcher32"));
    assert_int_equal(fby__filters_undo(&g_state, &filter, 1, 0, false, (fby__bytes){stored, 9}, dst, 5, &err), FBY_OK);
    assert_memory_equal(dst, stored, 5);
    for (size_t n = 0; n < 4; n++)
        assert_int_equal(fby__filters_undo(&g_state, &filter, 1, 0, false, (fby__bytes){stored, n}, dst, 0, &err), FBY_E_FORMAT);
}

/* Word by word with exact sums: the definition. */
static uint32_t plain_fletcher32(const uint8_t *p, size_t n)
{
    uint64_t sum1 = 0, sum2 = 0;
    bool zeros = true;
    for (size_t i = 0; i < n; i += 2) {
        const uint64_t word = (uint64_t)p[i] << 8 | (i + 1 < n ? p[i + 1] : 0);
        zeros &= word == 0;
        sum1 = (sum1 + word) % 65535;
        sum2 = (sum2 + sum1) % 65535;
    }
    sum1 = sum1 || zeros ? sum1 : 65535;
    sum2 = sum2 || zeros ? sum2 : 65535;
    return (uint32_t)(sum2 << 16 | sum1);
}

static void fletcher32_fits_its_definition_at_every_length(void **state)
{
    (void)state;
    enum { MAX = 5000 };
    static uint8_t data[MAX];
    for (int kind = 0; kind < 3; kind++) {
        fill_random(data, MAX);
        if (kind > 0)
            memset(data, kind == 1 ? 0xff : 0, MAX);
        for (size_t n = 0; n < MAX; n += n < 1100 ? 1 : 97) {
            const uint8_t *copy = guarded_copy(data, n);
            const uint32_t sum = plain_fletcher32(data, n);
            assert_true(fby__fletcher32_fits(copy, n, sum));
            assert_false(fby__fletcher32_fits(copy, n, sum ^ 0x10));
            assert_false(fby__fletcher32_fits(copy, n, sum ^ 0x100000));
            guarded_free(copy, n);
        }
    }
}

static void stated_sizes_beyond_reason_are_refused_before_memory_is_taken(void **state)
{
    (void)state;
    fby_error err;
    uint8_t dst[64];
    const uint32_t four = 4, bits[] = {0, 5, 4, 0, 2}, szip[] = {32, 16, 8, 64};
    const fby__filter deflate = {.id = FBY__FILTER_DEFLATE}, shuffle = {.id = FBY__FILTER_SHUFFLE, .n_values = 1, .values = &four};
    const fby__filter LIARS[] = {
        {.id = FBY__FILTER_LZ4},
        {.id = FBY__FILTER_BITSHUFFLE, .n_values = 5, .values = bits},
        {.id = FBY__FILTER_SZIP, .n_values = 4, .values = szip},
        {.id = FBY__FILTER_ZSTD},
    };
    static const uint8_t STREAMS[][16] = {
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0x20, 0},
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8, 0, 0, 0x20, 0},
        {0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4},
        {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof LIARS / sizeof LIARS[0]; i++) {
        const fby__bytes src = {STREAMS[i], sizeof STREAMS[i]};
        const fby__filter lower[2] = {deflate, shuffle};
        for (int k = 0; k < 2; k++) {
            const fby__filter pair[2] = {lower[k], LIARS[i]};
            fby__filter_state fresh = {0};
            assert_int_equal(fby__filters_undo(&fresh, pair, 2, 0, true, src, dst, sizeof dst, &err), FBY_E_FORMAT);
            assert_true(fby__filter_state_bytes(&fresh) < 300000);
            fby__filter_state_fini(&fresh);
        }
        assert_int_equal(undo_with(1, &LIARS[i], src, dst, sizeof dst, &err), FBY_E_FORMAT);
        assert_non_null(strstr(err.message, fby__filter_name(LIARS[i].id)));
    }
}

static void bytes_after_a_whole_stream_are_ignored(void **state)
{
    (void)state;
    fby_error err;
    for (size_t i = 0; i < g_all.n; i++) {
        const filter_case *c = &g_all.cases[i];
        const uint16_t id = c->filters[c->n_filters - 1].id;
        if (c->mask || (id != FBY__FILTER_DEFLATE && id != FBY__FILTER_LZ4 && id != FBY__FILTER_BLOSC && id != FBY__FILTER_SZIP))
            continue;
        uint8_t *stored = malloc(c->stored.n + 3), *dst = malloc(c->expected.n);
        memcpy(stored, c->stored.data, c->stored.n);
        memset(stored + c->stored.n, 0x5a, 3);
        assert_int_equal(undo_case(c, (fby__bytes){stored, c->stored.n + 3}, true, dst, c->expected.n, &err), FBY_OK);
        assert_memory_equal(dst, c->expected.data, c->expected.n);
        free(stored);
        free(dst);
    }
}

static void no_filters_and_skipped_filters_are_a_copy(void **state)
{
    (void)state;
    fby_error err;
    const uint8_t src[3] = {1, 2, 3};
    uint8_t dst[3] = {0};
    const fby__filter unknown = {.id = 999};
    assert_int_equal(undo_with(0, NULL, (fby__bytes){src, 3}, dst, 3, &err), FBY_OK);
    assert_memory_equal(dst, src, 3);
    memset(dst, 0, 3);
    assert_int_equal(fby__filters_undo(&g_state, &unknown, 1, 1, true, (fby__bytes){src, 3}, dst, 3, &err), FBY_OK);
    assert_memory_equal(dst, src, 3);
    assert_int_equal(undo_with(0, NULL, (fby__bytes){src, 3}, dst, 2, &err), FBY_E_FORMAT);
    assert_int_equal(undo_with(0, NULL, (fby__bytes){NULL, 0}, NULL, 0, &err), FBY_OK);
    assert_int_equal(undo_with(1, &unknown, (fby__bytes){src, 3}, dst, 3, &err), FBY_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "999"));
}

static void unsupported_filters_are_named_by_the_check(void **state)
{
    (void)state;
    fby_error err;
    static const struct {
        uint16_t id;
        const char *name;
    } GONE[] = {{FBY__FILTER_NBIT, "nbit"},
                {FBY__FILTER_SCALEOFFSET, "scaleoffset"},
                {FBY__FILTER_ZFP, "zfp"},
                {FBY__FILTER_BLOSC2, "blosc2"},
                {4242, "4242"}};
    for (size_t i = 0; i < sizeof GONE / sizeof GONE[0]; i++) {
        const fby__filter filters[2] = {{.id = FBY__FILTER_DEFLATE}, {.id = GONE[i].id, .optional = true}};
        assert_int_equal(fby__filters_check(filters, 2, 4, &err), FBY_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, GONE[i].name));
    }
    assert_null(fby__filter_name(4242));
    assert_string_equal(fby__filter_name(FBY__FILTER_BITSHUFFLE), "bitshuffle");

    const uint32_t bits[] = {0, 5, 4, 0, 9}, blosc[] = {2, 2, 4, 100, 5, 1, 77}, szip[] = {32, 0, 8, 64}, odd[] = {0, 5, 4, 12};
    const fby__filter bad[] = {
        {.id = FBY__FILTER_BITSHUFFLE, .n_values = 5, .values = bits},
        {.id = FBY__FILTER_BLOSC, .n_values = 7, .values = blosc},
        {.id = FBY__FILTER_SZIP, .n_values = 4, .values = szip},
        {.id = FBY__FILTER_BITSHUFFLE, .n_values = 4, .values = odd},
        {.id = FBY__FILTER_SHUFFLE},
    };
    static const fby_status STATUS[] = {FBY_E_UNSUPPORTED, FBY_E_UNSUPPORTED, FBY_E_FORMAT, FBY_E_FORMAT, FBY_E_FORMAT};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(fby__filters_check(&bad[i], 1, 4, &err), STATUS[i]);
        assert_non_null(strstr(err.message, fby__filter_name(bad[i].id)));
    }
    static fby__filter many[33];
    for (size_t i = 0; i < 33; i++)
        many[i].id = FBY__FILTER_FLETCHER32;
    assert_int_equal(fby__filters_check(many, 33, 4, &err), FBY_E_FORMAT);
    assert_int_equal(undo_with(33, many, (fby__bytes){(const uint8_t *)"", 1}, NULL, 0, &err), FBY_E_FORMAT);
    assert_int_equal(fby__filters_check(many, 32, 4, &err), FBY_OK);
}

/* ---- unshuffling against the definition ---- */

static void unshuffle_puts_every_byte_where_it_belongs(void **state)
{
    (void)state;
    static const size_t SIZES[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,   10,  11,  12,  13,  15,
                                   16, 17, 20, 24, 27, 32, 40, 63, 64, 100, 255, 256, 300, 1000};
    static const size_t COUNTS[] = {0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 95, 127, 200, 1023, 1100};
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++)
        for (size_t k = 0; k < sizeof COUNTS / sizeof COUNTS[0]; k++)
            for (size_t rest = 0; rest < 3; rest++) {
                const size_t element = SIZES[s], count = COUNTS[k], n = element * count + (rest < element ? rest : 0);
                uint8_t *src = guarded_alloc(n), *dst = guarded_alloc(n);
                fill_random(src, n);
                memset(dst, 0xA5, n);
                fby__unshuffle(src, dst, n, element, false);
                for (size_t i = 0; i < count; i++)
                    for (size_t b = 0; b < element; b++)
                        if (dst[i * element + b] != src[b * count + i])
                            fail_msg("byte %zu of element %zu of %zu x %zu", b, i, count, element);
                assert_memory_equal(dst + count * element, src + count * element, n - count * element);
                guarded_free(src, n);
                guarded_free(dst, n);
            }
}

/* Past the caches: only an aligned destination is written that way, so the memory behind it is looked at instead of guarded. */
static void streaming_changes_nothing_but_the_way_to_memory(void **state)
{
    (void)state;
    enum { BEHIND = 64 };
    static const size_t SIZES[] = {1, 2, 3, 4, 8, 12, 16, 40}, COUNTS[] = {1, 31, 32, 33, 64, 200, 1023, 4096};
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++)
        for (size_t k = 0; k < sizeof COUNTS / sizeof COUNTS[0]; k++)
            for (size_t shift = 0; shift < 2; shift++) {
                const size_t element = SIZES[s], count = COUNTS[k], n = element * count + (element > 2), whole = count / 8 * 8;
                uint8_t *src = malloc(n), *expected = malloc(n), *memory = aligned_alloc(64, (n + BEHIND + 128) / 64 * 64),
                        *dst = memory + shift;
                fill_random(src, n);
                memset(dst, 0xA5, n + BEHIND);
                fby__unshuffle(src, expected, n, element, false);
                fby__unshuffle(src, dst, n, element, true);
                assert_memory_equal(dst, expected, n);
                fby__bit_unshuffle(src, expected, whole, element, false);
                fby__bit_unshuffle(src, dst, whole, element, true);
                assert_memory_equal(dst, expected, whole * element);
                for (size_t i = 0; i < BEHIND; i++)
                    assert_int_equal(dst[n + i], 0xA5);
                free(src);
                free(expected);
                free(memory);
            }
}

static void pipelines_say_how_many_buffers_they_take(void **state)
{
    (void)state;
    static const struct {
        uint16_t ids[3];
        uint32_t n, buffers;
    } WANT[] = {{{0}, 0, 0},
                {{FBY__FILTER_DEFLATE}, 1, 0},
                {{FBY__FILTER_SHUFFLE, FBY__FILTER_DEFLATE}, 2, 1},
                {{FBY__FILTER_SHUFFLE, FBY__FILTER_DEFLATE, FBY__FILTER_FLETCHER32}, 3, 1},
                {{FBY__FILTER_FLETCHER32, FBY__FILTER_SHUFFLE, FBY__FILTER_DEFLATE}, 3, 2}, /* what the sum is cut off is copied */
                {{FBY__FILTER_SHUFFLE, FBY__FILTER_SHUFFLE, FBY__FILTER_ZSTD}, 3, 2},
                {{FBY__FILTER_BLOSC}, 1, 1},                     /* its own */
                {{FBY__FILTER_LZF, FBY__FILTER_DEFLATE}, 2, 2}}; /* how much lies between is not known */
    for (size_t w = 0; w < sizeof WANT / sizeof *WANT; w++) {
        fby__filter filters[3];
        for (uint32_t i = 0; i < 3; i++)
            filters[i] = (fby__filter){.id = WANT[w].ids[i]};
        assert_int_equal(fby__filters_buffers(filters, WANT[w].n), WANT[w].buffers);
    }
}

static void bit_unshuffle_puts_every_bit_where_it_belongs(void **state)
{
    (void)state;
    static const size_t SIZES[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 33, 64, 65, 100, 256, 511, 2048, 2049, 4000};
    static const size_t COUNTS[] = {8, 16, 24, 32, 40, 128, 248, 256, 264, 512, 1000, 2048, 4096 + 8};
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++)
        for (size_t k = 0; k < sizeof COUNTS / sizeof COUNTS[0]; k++) {
            const size_t element = SIZES[s], count = COUNTS[k], n = element * count;
            if (n > 300000)
                continue;
            uint8_t *src = guarded_alloc(n), *dst = guarded_alloc(n), *plain = calloc(n, 1);
            fill_random(src, n);
            memset(dst, 0xA5, n);
            fby__bit_unshuffle(src, dst, count, element, false);
            for (size_t row = 0; row < 8 * element; row++)
                for (size_t i = 0; i < count; i++)
                    plain[i * element + row / 8] |= (uint8_t)((src[row * (count / 8) + i / 8] >> (i % 8) & 1) << (row % 8));
            if (memcmp(plain, dst, n) != 0)
                fail_msg("%zu x %zu", count, element);
            free(plain);
            guarded_free(src, n);
            guarded_free(dst, n);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_chunk_gives_its_bytes),
        cmocka_unit_test(a_chunk_of_another_size_is_refused),
        cmocka_unit_test(a_chunk_cut_at_any_byte_never_crashes_and_is_mostly_refused),
        cmocka_unit_test(a_damaged_chunk_never_crashes_or_writes_outside),
        cmocka_unit_test(damaged_parameters_never_crash),
        cmocka_unit_test(every_failing_allocation_is_reported_and_the_state_stays_usable),
        cmocka_unit_test(a_second_chunk_allocates_nothing_outside_blosc_and_szip),
        cmocka_unit_test(fletcher32_is_verified_only_when_asked),
        cmocka_unit_test(fletcher32_fits_its_definition_at_every_length),
        cmocka_unit_test(stated_sizes_beyond_reason_are_refused_before_memory_is_taken),
        cmocka_unit_test(bytes_after_a_whole_stream_are_ignored),
        cmocka_unit_test(no_filters_and_skipped_filters_are_a_copy),
        cmocka_unit_test(unsupported_filters_are_named_by_the_check),
        cmocka_unit_test(unshuffle_puts_every_byte_where_it_belongs),
        cmocka_unit_test(streaming_changes_nothing_but_the_way_to_memory),
        cmocka_unit_test(pipelines_say_how_many_buffers_they_take),
        cmocka_unit_test(bit_unshuffle_puts_every_bit_where_it_belongs),
    };
    g_all = load_filter_cases(GOLDEN);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fby__filter_state_fini(&g_state);
    free(g_all.file);
    free(g_all.data);
    free(g_all.cases);
    if (!getenv("FOREBAY_SIMD"))
        failed += run_variant("avx2") + run_variant("scalar");
    return failed;
}
