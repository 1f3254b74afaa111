/* Base64: the vectors of RFC 4648, with and without padding, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base64.h"

#include <string.h>

static void the_vectors_of_the_rfc_decode_with_and_without_padding(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {{"", ""},
                                           {"Zg==", "f"},
                                           {"Zm8=", "fo"},
                                           {"Zm9v", "foo"},
                                           {"Zm9vYg==", "foob"},
                                           {"Zm9vYmE=", "fooba"},
                                           {"Zm9vYmFy", "foobar"},
                                           {"+/+/", "\xfb\xff\xbf"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const uint8_t *text = (const uint8_t *)CASES[i][0];
        const size_t n = strlen(CASES[i][0]), plain = strcspn(CASES[i][0], "=");
        for (int padded = 0; padded < 2; padded++) {
            uint8_t out[16];
            size_t out_n = 99;
            assert_true(fby__base64_bytes(padded ? n : plain) <= sizeof out);
            assert_true(fby__base64_decode(text, padded ? n : plain, out, &out_n));
            assert_int_equal(out_n, strlen(CASES[i][1]));
            assert_memory_equal(out, CASES[i][1], out_n);
        }
    }
}

static void what_is_no_base64_is_refused(void **state)
{
    (void)state;
    static const char *const CASES[] = {"Z", "Zm9vY", "Zm 9", "Zm9v\n", "Z===", "====", "=m9v", "Zm-_", "Zg=v"};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        uint8_t out[16];
        size_t out_n;
        if (fby__base64_decode((const uint8_t *)CASES[i], strlen(CASES[i]), out, &out_n))
            fail_msg("'%s' was decoded", CASES[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_the_rfc_decode_with_and_without_padding),
        cmocka_unit_test(what_is_no_base64_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
