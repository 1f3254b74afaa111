/* The keyed permutation: a bijection, the same in every variant, without bias, and the same for ever. */
#include "plan/chi_square.h"
#include "plan/permute_internal.h"
#include "plan/plan.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_bijection(const fby__permute_variant *variant, uint64_t key, uint64_t n)
{
    uint64_t *out = malloc(n * sizeof *out);
    uint8_t *seen = calloc(n, 1);
    assert_true(out && seen);
    variant->run(key, n, 0, (uint32_t)n, false, out);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(out[i] < n);
        assert_int_equal(seen[out[i]], 0);
        seen[out[i]] = 1;
    }
    uint64_t *back = malloc(n * sizeof *back);
    assert_non_null(back);
    variant->run(key, n, 0, (uint32_t)n, true, back);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(back[out[i]], i);
    free(back);
    free(out);
    free(seen);
}

static void every_small_size_is_a_bijection(void **state)
{
    (void)state;
    const fby__permute_variant *variant;
    for (uint32_t k = 0; (variant = fby__permute_variant_at(k)); k++) {
        if (!variant->supported()) {
            print_message("skipped: this CPU has no %s\n", variant->name);
            continue;
        }
        for (uint64_t n = 1; n <= 2000; n++)
            check_bijection(variant, n * 7919 + k, n);
        fby__random random = {.key = 11};
        for (int i = 0; i < 8; i++)
            check_bijection(variant, i, 1 + fby__random_below(&random, 400000));
        for (uint64_t n = 1 << 10; n <= 1 << 16; n <<= 2) { /* the best and the worst fit of a power of two */
            check_bijection(variant, n, n);
            check_bijection(variant, n, n + 1);
        }
    }
}

static void runs_of_any_place_length_and_variant_equal_single_values(void **state)
{
    (void)state;
    static uint64_t out[3000];
    fby__random random = {.key = 12};
    for (int round = 0; round < 300; round++) {
        uint64_t n = 1 + (fby__random_next(&random) >> (2 + fby__random_below(&random, 62)));
        uint64_t key = fby__random_next(&random), i = fby__random_below(&random, n);
        uint64_t room = n - i < 3000 ? n - i : 3000;
        uint32_t count = (uint32_t)(round % 3 ? fby__random_below(&random, room < 20 ? room + 1 : 20) : room);
        const fby__permute_variant *variant;
        for (uint32_t k = 0; k == 0 || (variant = fby__permute_variant_at(k - 1)); k++) {
            memset(out, 0xee, sizeof out);
            if (k == 0)
                fby__permute_many(key, n, i, count, out);
            else if (variant->supported())
                variant->run(key, n, i, count, false, out);
            else
                continue;
            for (uint32_t j = 0; j<count; j += count> 100 ? 7 : 1)
                assert_int_equal(out[j], fby__permute(key, n, i + j));
            if (count < 3000)
                assert_int_equal(out[count], 0xeeeeeeeeeeeeeeeeu); /* nothing past the end */
        }
    }
}

static void the_largest_size_stays_in_range_and_spreads_over_it(void **state)
{
    (void)state;
    const uint64_t n = (uint64_t)1 << 62;
    static uint64_t out[4096];
    uint32_t top[16] = {0}, low[16] = {0};
    fby__permute_many(3, n, n - 4096, 4096, out);
    for (int j = 0; j < 4096; j++) {
        assert_true(out[j] < n);
        top[out[j] >> 58]++;
        low[out[j] & 15]++;
    }
    assert_true(fabs(uniform_z(top, 16)) < Z_LIMIT);
    assert_true(fabs(uniform_z(low, 16)) < Z_LIMIT);
}

static void values_never_change_because_saved_states_depend_on_them(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, n, i, value;
    } table[] = {
        {0x0, 1u, 0u, 0u},
        {0x0, 2u, 0u, 0u},
        {0x0, 3u, 2u, 1u},
        {0x1, 10u, 0u, 3u},
        {0x1, 10u, 9u, 8u},
        {0x2a, 256u, 100u, 101u},
        {0x2a, 257u, 100u, 118u},
        {0x7, 5000u, 1234u, 3519u},
        {0x7, 262144u, 99999u, 211334u},
        {0x7, 262145u, 99999u, 63042u},
        {0x123456789abcdef0, 1000000007u, 5u, 603004327u},
        {0xffffffffffffffff, 1099511627776u, 549755813888u, 293422788571u},
        {0x9, 4611686018427387904u, 4611686018427387903u, 81039090941240066u},
    };
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++)
        assert_int_equal(fby__permute(table[k].key, table[k].n, table[k].i), table[k].value);
}

/* ---- bias ---- */

typedef void (*permutation)(uint64_t key, uint64_t n, uint64_t *out);

static void ours(uint64_t key, uint64_t n, uint64_t *out) { fby__permute_many(key, n, 0, (uint32_t)n, out); }

/* Every element is uniform, but neighbours stay neighbours. */
static void rotation(uint64_t key, uint64_t n, uint64_t *out)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = (i + fby__random_u64(key, 0, 0)) % n;
}

/* The classic mistake: swap with any element, not with one of the rest. */
static void careless_shuffle(uint64_t key, uint64_t n, uint64_t *out)
{
    fby__random random = {.key = key};
    for (uint64_t i = 0; i < n; i++)
        out[i] = i;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t j = fby__random_below(&random, n), t = out[i];
        out[i] = out[j];
        out[j] = t;
    }
}

/* Scores of the position of each element, and of ordered pairs of values at three pairs of places. */
static void scores(permutation permute, uint64_t n, uint32_t keys, double *out_position, double *out_pair)
{
    const uint64_t places[3][2] = {{0, 1}, {0, n - 1}, {n / 2 - 1, n / 2}};
    uint32_t *positions = calloc(n * n, sizeof *positions), *pairs = calloc(3 * n * n, sizeof *pairs);
    uint64_t *out = malloc(n * sizeof *out);
    assert_true(positions && pairs && out);
    for (uint32_t key = 0; key < keys; key++) {
        permute(fby__random_u64(77, key, n), n, out);
        for (uint64_t i = 0; i < n; i++)
            positions[i * n + out[i]]++;
        for (int p = 0; p < 3; p++)
            pairs[((uint64_t)p * n + out[places[p][0]]) * n + out[places[p][1]]]++;
    }
    *out_position = permutation_z(positions, n, n, keys);
    *out_pair = 0;
    for (int p = 0; p < 3 && n > 2; p++) {
        uint32_t *cells = pairs + (uint64_t)p * n * n;
        uint64_t k = 0;
        for (uint64_t i = 0; i < n * n; i++) { /* without the diagonal, which must be empty */
            if (i / n != i % n)
                cells[k++] = cells[i];
            else
                assert_int_equal(cells[i], 0);
        }
        double z = uniform_z(cells, k);
        *out_pair = fabs(z) > fabs(*out_pair) ? z : *out_pair;
    }
    free(positions);
    free(pairs);
    free(out);
}

static void positions_and_pairs_are_uniform_over_keys(void **state)
{
    (void)state;
    double worst_position = 0, worst_pair = 0;
    for (uint64_t n = 2; n <= 64; n++) {
        double position, pair;
        scores(ours, n, 2000 + (uint32_t)(8 * n * (n - 1)), &position, &pair);
        if (fabs(position) >= Z_LIMIT || fabs(pair) >= Z_LIMIT)
            fail_msg("n = %d: positions z = %.2f, pairs z = %.2f", (int)n, position, pair);
        worst_position = fmax(worst_position, fabs(position));
        worst_pair = fmax(worst_pair, fabs(pair));
    }
    print_message("largest |z| for n from 2 to 64: positions %.2f, pairs %.2f\n", worst_position, worst_pair);
}

static void sizes_around_the_change_of_rounds_are_uniform_too(void **state)
{
    (void)state;
    for (uint64_t n = 255; n <= 258; n++) {
        double position, pair;
        scores(ours, n, 20000, &position, &pair);
        if (fabs(position) >= Z_LIMIT || fabs(pair) >= Z_LIMIT)
            fail_msg("n = %d: positions z = %.2f, pairs z = %.2f", (int)n, position, pair);
    }
}

static void all_orders_of_few_elements_are_equally_likely(void **state)
{
    (void)state;
    for (uint64_t n = 2; n <= 6; n++) {
        uint32_t counts[720] = {0}, orders = 1;
        for (uint64_t i = 2; i <= n; i++)
            orders *= (uint32_t)i;
        for (uint32_t key = 0; key < 40 * orders + 2000; key++) {
            uint64_t out[6];
            fby__permute_many(fby__random_u64(78, key, 0), n, 0, (uint32_t)n, out);
            uint32_t code = 0; /* Lehmer code */
            for (uint64_t i = 0; i < n; i++) {
                uint32_t smaller = 0;
                for (uint64_t j = i + 1; j < n; j++)
                    smaller += out[j] < out[i];
                code = code * (uint32_t)(n - i) + smaller;
            }
            counts[code]++;
        }
        double z = uniform_z(counts, orders);
        if (fabs(z) >= Z_LIMIT)
            fail_msg("n = %d: z = %.2f", (int)n, z);
    }
}

static void a_biased_permutation_is_detected(void **state)
{
    (void)state;
    double position, pair;
    scores(rotation, 16, 4000, &position, &pair);
    assert_true(pair > Z_LIMIT);
    scores(careless_shuffle, 16, 4000, &position, &pair);
    assert_true(position > Z_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_size_is_a_bijection),
        cmocka_unit_test(runs_of_any_place_length_and_variant_equal_single_values),
        cmocka_unit_test(the_largest_size_stays_in_range_and_spreads_over_it),
        cmocka_unit_test(values_never_change_because_saved_states_depend_on_them),
        cmocka_unit_test(positions_and_pairs_are_uniform_over_keys),
        cmocka_unit_test(sizes_around_the_change_of_rounds_are_uniform_too),
        cmocka_unit_test(all_orders_of_few_elements_are_equally_likely),
        cmocka_unit_test(a_biased_permutation_is_detected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
