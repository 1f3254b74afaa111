/* Names near to a wanted one: the distance against its definition without a table, which names are offered, in which order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/nearest.h"
#include "base/random.h"
#include "support/test_seed.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

/* What is left of both, by trying every edit of the first byte. */
static unsigned by_definition(const char *a, const char *b)
{
    if (!*a || !*b)
        return (unsigned)(strlen(a) + strlen(b));
    const int x = tolower((unsigned char)a[0]), y = tolower((unsigned char)b[0]);
    if (x == y)
        return by_definition(a + 1, b + 1); /* nothing is gained by an edit where both agree */
    unsigned best = by_definition(a + 1, b + 1), other = by_definition(a + 1, b);
    best = other < best ? other : best;
    other = by_definition(a, b + 1);
    best = other < best ? other : best;
    if (a[1] && b[1] && x == tolower((unsigned char)b[1]) && tolower((unsigned char)a[1]) == y) {
        other = by_definition(a + 2, b + 2);
        best = other < best ? other : best;
    }
    return best + 1;
}

static void random_word(fby__random *r, char *out)
{
    static const char letters[] = "aAbBc_";
    const uint64_t n = fby__random_below(r, 8);
    for (uint64_t i = 0; i < n; i++)
        out[i] = letters[fby__random_below(r, sizeof letters - 1)];
    out[n] = 0;
}

static void the_distance_is_its_definition(void **state)
{
    (void)state;
    fby__random random = {.key = test_seed()};
    unsigned distances[9] = {0};
    for (int round = 0; round < 20000; round++) {
        char a[8], b[8];
        random_word(&random, a);
        random_word(&random, b);
        const unsigned d = fby__edit_distance(a, b);
        if (d != by_definition(a, b) || d != fby__edit_distance(b, a))
            fail_msg("'%s' to '%s': %u, there and back %u and %u", a, b, by_definition(a, b), d, fby__edit_distance(b, a));
        distances[d]++;
    }
    for (int d = 0; d < 7; d++)
        assert_true(distances[d] > 0);
}

static void words_beyond_the_limit_are_near_to_nothing(void **state)
{
    (void)state;
    char a[FBY__NEAREST_MAX_BYTES + 2] = {0}, b[FBY__NEAREST_MAX_BYTES + 2] = {0};
    memset(a, 'x', FBY__NEAREST_MAX_BYTES);
    memset(b, 'x', FBY__NEAREST_MAX_BYTES);
    b[0] = 'y';
    assert_int_equal(fby__edit_distance(a, b), 1);
    b[FBY__NEAREST_MAX_BYTES] = 'x';
    assert_int_equal(fby__edit_distance(a, b), UINT_MAX);
    assert_int_equal(fby__edit_distance(b, a), UINT_MAX);
    assert_int_equal(fby__edit_distance(b, b), UINT_MAX);
}

static void the_three_nearest_are_offered_in_order(void **state)
{
    (void)state;
    static const char *const names[] = {"preciptation_", "tempreature", "temperture", "Temperature", "temperature_", "t", NULL};
    fby__near near = {.wanted = "temperature"};
    for (int i = 0; names[i]; i++)
        fby__near_offer(&near, names[i]);
    char text[100], cut[20];
    fby__near_text(&near, text, sizeof text);
    assert_string_equal(text, "; did you mean 'Temperature', 'tempreature', 'temperture'?");
    fby__near_text(&near, cut, sizeof cut);
    assert_string_equal(cut, "; did you mean 'Tem");
    near = (fby__near){.wanted = "flow"};
    fby__near_offer(&near, "temperature");
    fby__near_text(&near, text, sizeof text);
    assert_string_equal(text, "");
}

static void a_third_of_the_word_may_be_mistyped(void **state)
{
    (void)state;
    static const char *const names[] = {"seed", "rows", "x", "batch_size", NULL};
    static const struct {
        const char *word, *near;
    } cases[] = {{"sede", "seed"}, {"se", NULL}, {"seedsed", "seed"}, {"seedsees", NULL},          {"rwo", NULL},   {"rosw", "rows"},
                 {"y", "x"},       {"yy", NULL}, {"", NULL},          {"Batchsize", "batch_size"}, {"ROWS", "rows"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *near = fby__nearest(cases[i].word, names);
        if (!near != !cases[i].near || (near && strcmp(near, cases[i].near) != 0))
            fail_msg("'%s': '%s' instead of '%s'", cases[i].word, near ? near : "none", cases[i].near ? cases[i].near : "none");
    }
}

static void names_that_hold_the_word_come_behind_those_that_are_misspelt(void **state)
{
    (void)state;
    fby__near near = {.wanted = "flow"};
    static const char *const names[] = {"streamFLOW", "date", "flwo", "flow_rate"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        fby__near_offer(&near, names[i]);
    assert_int_equal(near.n, 3);
    assert_string_equal(near.names[0], "flwo");
    assert_string_equal(near.names[1], "streamFLOW");
    assert_string_equal(near.names[2], "flow_rate");
    fby__near two = {.wanted = "id"}; /* of two letters, too many names */
    fby__near_offer(&two, "gauge_id");
    assert_int_equal(two.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_distance_is_its_definition),
        cmocka_unit_test(words_beyond_the_limit_are_near_to_nothing),
        cmocka_unit_test(the_three_nearest_are_offered_in_order),
        cmocka_unit_test(names_that_hold_the_word_come_behind_those_that_are_misspelt),
        cmocka_unit_test(a_third_of_the_word_may_be_mistyped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
