/* The generators against the vectors of Random123's kat_vectors (J. Salmon et al., the authors' own implementation). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

static void philox4x32_10_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, lo, hi;
        uint32_t v[4];
    } KNOWN[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {UINT64_C(0x299f31d0a4093822),
         UINT64_C(0x85a308d3243f6a88),
         UINT64_C(0x0370734413198a2e),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        const fby__philox r = fby__philox4x32(KNOWN[i].key, KNOWN[i].lo, KNOWN[i].hi);
        assert_memory_equal(r.v, KNOWN[i].v, sizeof r.v);
    }
}

static void philox2x32_7_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t key;
        uint64_t counter, value;
    } KNOWN[] = {
        {0, 0, UINT64_C(0xcd26be2a257a3673)},
        {UINT32_MAX, UINT64_MAX, UINT64_C(0x3dc9d239ab302c4d)},
        {0x13198a2e, UINT64_C(0x85a308d3243f6a88), UINT64_C(0xe4c770b3bedbbe6b)},
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        assert_true(fby__philox2x32(KNOWN[i].key, KNOWN[i].counter) == KNOWN[i].value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox4x32_10_gives_the_known_answers),
        cmocka_unit_test(philox2x32_7_gives_the_known_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
