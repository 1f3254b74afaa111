/* What comes from files is printed: nothing of it may reach a terminal that the terminal would obey. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/printable.h"

#include <stdio.h>
#include <string.h>

static void assert_shown(const char *text, const char *shown)
{
    char out[256];
    assert_int_equal(fby_printable(text, strlen(text), out, sizeof out), strlen(shown));
    assert_string_equal(out, shown);
    assert_int_equal(fby_printable(shown, strlen(shown), out, sizeof out), strlen(shown)); /* a second time changes nothing */
    assert_string_equal(out, shown);
}

static void text_stays_and_controls_are_escaped(void **state)
{
    (void)state;
    assert_shown("", "");
    assert_shown("plain, ä, 漢字, 🌊, a\\b", "plain, ä, 漢字, 🌊, a\\b");
    assert_shown("a\033[31mb\a\177", "a\\x1b[31mb\\x07\\x7f");
    assert_shown("a\tb\r\n", "a\\tb\\r\\n");
    assert_shown("\xc2\x9b"
                 "31m",
                 "\\x9b31m"); /* C1: the one-character form of ESC [ */
    assert_shown("cod\xe2\x80\xae"
                 "exe",
                 "cod\\u202eexe");
    assert_shown("\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8", "\\u2066\\u200f\\u061c\\u2028");
    assert_shown("\xff\xc3(\xed\xa0\x80\xc0\x80", "\\xff\\xc3(\\xed\\xa0\\x80\\xc0\\x80"); /* no UTF-8, a surrogate, an overlong form */
}

static void every_byte_alone_is_printable_afterwards(void **state)
{
    (void)state;
    for (int b = 0; b < 256; b++) {
        char text = (char)b, out[16];
        size_t n = fby_printable(&text, 1, out, sizeof out);
        assert_int_equal(n, strlen(out));
        for (size_t i = 0; i < n; i++)
            assert_in_range((unsigned char)out[i], ' ', '~');
    }
}

static void what_does_not_fit_is_cut_between_characters(void **state)
{
    (void)state;
    static const char text[] = "aä\033";
    for (size_t room = 0; room <= 8; room++) {
        char out[9] = "########";
        assert_int_equal(fby_printable(text, 4, room ? out : NULL, room), 7);
        assert_string_equal(out, room == 0 ? "########" : room < 2 ? "" : room < 4 ? "a" : room < 8 ? "aä" : "aä\\x1b");
    }
}

static void messages_and_their_contexts_are_printable(void **state)
{
    (void)state;
    fby_error err = {0};
    assert_int_equal(fby__fail(&err, FBY_E_DATA, "column '%s'", "\033]0;x\a"), FBY_E_DATA);
    fby__error_context(&err, "file '%s'", "a\nb");
    assert_string_equal(err.message, "file 'a\\nb': column '\\x1b]0;x\\x07'");
    assert_int_equal(fby__fail_errno(&err, 2, "%s", "\033c"), FBY_E_IO);
    assert_string_equal(err.message, "\\x1bc: No such file or directory");
}

static void a_long_message_is_cut_and_still_text(void **state)
{
    (void)state;
    char name[2000];
    for (size_t lead = 0; lead < 4; lead++) {
        memset(name, 'a', lead);
        for (size_t i = lead; i + 2 < sizeof name; i += 2)
            memcpy(name + i, "ä", 2);
        name[sizeof name - 2 - lead % 2] = 0;
        fby_error err = {0};
        (void)fby__fail(&err, FBY_E_DATA, "%s", name);
        size_t n = strlen(err.message);
        assert_true(n >= sizeof err.message - 2);
        assert_int_equal(fby_printable(err.message, n, NULL, 0), n);
        fby__error_context(&err, "b");
        n = strlen(err.message);
        assert_true(n >= sizeof err.message - 2);
        assert_int_equal(fby_printable(err.message, n, NULL, 0), n);
        memset(name, '\033', sizeof name - 1);
        (void)fby__fail(&err, FBY_E_DATA, "%s", name);
        assert_int_equal(strlen(err.message), (sizeof err.message - 1) / 4 * 4);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_stays_and_controls_are_escaped),         cmocka_unit_test(every_byte_alone_is_printable_afterwards),
        cmocka_unit_test(what_does_not_fit_is_cut_between_characters), cmocka_unit_test(messages_and_their_contexts_are_printable),
        cmocka_unit_test(a_long_message_is_cut_and_still_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
