/* SipHash against values of OpenSSL's (`openssl mac -macopt size:16 SIPHASH`), whose first are those of its authors' vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/siphash.h"

static void siphash_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint8_t code[16];
    } KNOWN[] = {
        {0, {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93}},
        {1, {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}},
        {7, {0xa1, 0xf1, 0xeb, 0xbe, 0xd8, 0xdb, 0xc1, 0x53, 0xc0, 0xb8, 0x4a, 0xa6, 0x1f, 0xf0, 0x82, 0x39}},
        {8, {0x3b, 0x62, 0xa9, 0xba, 0x62, 0x58, 0xf5, 0x61, 0x0f, 0x83, 0xe2, 0x64, 0xf3, 0x14, 0x97, 0xb4}},
        {15, {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9}},
        {16, {0x6e, 0xe2, 0xa4, 0xca, 0x67, 0xb0, 0x54, 0xbb, 0xfd, 0x33, 0x15, 0xbf, 0x85, 0x23, 0x05, 0x77}},
        {63, {0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a, 0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f, 0xbd, 0x7c}},
    };
    fby__siphash_key key;
    uint8_t bytes[64];
    for (uint8_t i = 0; i < sizeof bytes; i++)
        bytes[i] = i;
    memcpy(key.bytes, bytes, sizeof key.bytes);
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        const fby__hash128 code = fby__siphash(&key, bytes, KNOWN[i].n);
        assert_memory_equal(&code, KNOWN[i].code, sizeof code);
    }
}

static void siphash_of_another_key_and_a_long_text(void **state)
{
    (void)state;
    static const uint8_t CODE[16] = {0x9a, 0x60, 0x92, 0x40, 0x1e, 0x7e, 0x7e, 0x91, 0x16, 0x06, 0x89, 0xb3, 0x1a, 0x17, 0x12, 0xaa};
    fby__siphash_key key;
    uint8_t bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 % 251);
    for (uint8_t i = 0; i < sizeof key.bytes; i++)
        key.bytes[i] = (uint8_t)((0xf - i) * 0x11);
    const fby__hash128 code = fby__siphash(&key, bytes, sizeof bytes);
    assert_memory_equal(&code, CODE, sizeof code);
}

/* By its definition, from the bytes of each lane put together. */
static void lanes_are_siphashes_of_their_own(void **state)
{
    (void)state;
    static const size_t SIZES[] = {0, 1, 31, 32, 33, 63, 64, 8000, 8191};
    uint8_t bytes[8192], lane[sizeof bytes / 4], codes[4 * 16 + 32];
    const fby__siphash_key key = {{1, 2, 3, 4, 5, 6, 7, 8, 9}};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i >> 3);
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
        const size_t n = SIZES[s], n_blocks = n / 32;
        for (uint8_t i = 0; i < 4; i++) {
            fby__siphash_key own;
            fby__hash128 code = fby__siphash(&key, &i, 1);
            memcpy(own.bytes, &code, sizeof own.bytes);
            for (size_t b = 0; b < n_blocks; b++)
                memcpy(lane + 8 * b, bytes + 32 * b + 8 * i, 8);
            code = fby__siphash(&own, lane, 8 * n_blocks);
            memcpy(codes + 16 * i, &code, 16);
        }
        memcpy(codes + 64, bytes + 32 * n_blocks, n % 32);
        assert_true(fby__hash_equal(fby__siphash_lanes(&key, bytes, n), fby__siphash(&key, codes, 64 + n % 32)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash_gives_the_known_answers),
        cmocka_unit_test(siphash_of_another_key_and_a_long_text),
        cmocka_unit_test(lanes_are_siphashes_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
