/* Structs of older and newer programs: what is served, what is refused, and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/sized.h"

#include <string.h>

typedef struct first_opts { /* of the first version */
    size_t size;
    uint64_t needed;
    uint32_t more;
} first_opts;

typedef struct opts { /* of this one */
    size_t size;
    uint64_t needed;
    uint32_t more;
    uint64_t added;
} opts;

typedef struct later_opts { /* of the next one */
    opts now;
    uint64_t unknown;
} later_opts;

static void an_older_struct_has_zeros_behind_it(void **state)
{
    (void)state;
    struct {
        first_opts first;
        uint64_t next; /* another variable of the program: nobody's option */
    } given = {{sizeof given.first, 7, 8}, 99};
    opts taken;
    memset(&taken, 0xff, sizeof taken);
    assert_int_equal(fby__sized_in("opts", &given, FBY__SIZE_UP_TO(opts, needed), &taken, sizeof taken, NULL), FBY_OK);
    assert_int_equal(taken.size, sizeof taken);
    assert_int_equal(taken.needed, 7);
    assert_int_equal(taken.more, 8);
    assert_int_equal(taken.added, 0);
}

static void a_newer_struct_is_taken_while_what_is_new_is_zero(void **state)
{
    (void)state;
    later_opts given = {{sizeof given, 1, 2, 3}, 0};
    opts taken;
    fby_error err = {0};
    assert_int_equal(FBY__SIZED_IN(opts, needed, &given.now, &taken, &err), FBY_OK);
    assert_int_equal(taken.added, 3);
    assert_int_equal(taken.size, sizeof taken);
    given.unknown = 1;
    assert_int_equal(FBY__SIZED_IN(opts, needed, &given.now, &taken, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "sets fields of opts that this library, "));
    assert_non_null(strstr(err.message, "older than the program's header"));
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const size_t wrong[] = {0, 1, sizeof(void *), FBY__SIZE_UP_TO(opts, needed) - 1, sizeof(opts) + 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        opts given = {.size = wrong[i], .needed = 5}, taken = {.needed = 4};
        fby_error err = {0};
        assert_int_equal(FBY__SIZED_IN(opts, needed, &given, &taken, &err), FBY_E_ARG);
        assert_non_null(strstr(err.message, "opts.size is "));
        assert_non_null(strstr(err.message, "set it to sizeof(opts), 32 in this version"));
        assert_int_equal(taken.needed, 4);
        assert_int_equal(FBY__SIZED_OUT(opts, needed, &taken, &given, &err), FBY_E_ARG);
        assert_int_equal(given.needed, 5);
    }
    opts taken;
    const opts *none = NULL;
    assert_int_equal(FBY__SIZED_IN(opts, needed, none, &taken, NULL), FBY_E_ARG);
}

static void what_is_handed_out_fits_the_caller(void **state)
{
    (void)state;
    const opts from = {sizeof from, 1, 2, 3};
    struct {
        first_opts first;
        uint64_t next;
    } older = {{.size = sizeof older.first}, 99};
    assert_int_equal(fby__sized_out("opts", &from, sizeof from, FBY__SIZE_UP_TO(opts, needed), &older, NULL), FBY_OK);
    assert_int_equal(older.first.size, sizeof older.first);
    assert_int_equal(older.first.more, 2);
    assert_int_equal(older.next, 99);
    later_opts newer = {.now.size = sizeof newer, .unknown = 99};
    assert_int_equal(FBY__SIZED_OUT(opts, needed, &from, &newer.now, NULL), FBY_OK);
    assert_int_equal(newer.now.size, sizeof newer);
    assert_int_equal(newer.now.added, 3);
    assert_int_equal(newer.unknown, 0);
}

static void arrays_are_walked_by_their_stride(void **state)
{
    (void)state;
    fby__arena arena = {0};
    const void *taken;
    fby_error err = {0};
    const first_opts older[] = {{0, 1, 2}, {0, 3, 4}};
    assert_int_equal(fby__strided("opts", "opts_size", older, 2, sizeof *older, sizeof *older, sizeof(opts), &arena, &taken, &err), FBY_OK);
    const opts *of = taken;
    assert_int_equal(of[1].needed, 3);
    assert_int_equal(of[1].more, 4);
    assert_int_equal(of[1].added, 0);

    later_opts newer[] = {{{0, 1, 2, 3}, 0}, {{0, 4, 5, 6}, 0}};
    assert_int_equal(fby__strided("opts", "opts_size", newer, 2, sizeof *newer, sizeof *older, sizeof(opts), &arena, &taken, &err), FBY_OK);
    assert_int_equal(((const opts *)taken)[1].added, 6);
    newer[1].unknown = 1;
    assert_int_equal(fby__strided("opts", "opts_size", newer, 2, sizeof *newer, sizeof *older, sizeof(opts), &arena, &taken, &err),
                     FBY_E_ARG);

    const opts same[] = {{0, 1, 2, 3}};
    assert_int_equal(fby__strided("opts", "opts_size", same, 1, sizeof *same, sizeof *older, sizeof(opts), &arena, &taken, &err), FBY_OK);
    assert_ptr_equal(taken, same); /* nothing is copied */
    assert_int_equal(fby__strided("opts", "opts_size", same, 1, 0, sizeof *older, sizeof(opts), &arena, &taken, &err), FBY_E_ARG);
    assert_string_equal(err.message, "opts_size is 0: set it to sizeof(opts), 32 in this version");
    assert_int_equal(fby__strided("opts", "opts_size", NULL, 0, 0, sizeof *older, sizeof(opts), &arena, &taken, &err), FBY_OK);

    first_opts out[2] = {{0}};
    const opts from[] = {{0, 1, 2, 3}, {0, 4, 5, 6}};
    assert_int_equal(fby__strided_out("opts", "opts_size", from, 2, sizeof *from, sizeof *older, out, sizeof *out, &err), FBY_OK);
    assert_int_equal(out[1].needed, 4);
    assert_int_equal(out[1].more, 5);
    fby__arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_struct_has_zeros_behind_it), cmocka_unit_test(a_newer_struct_is_taken_while_what_is_new_is_zero),
        cmocka_unit_test(what_is_no_size_is_refused),          cmocka_unit_test(what_is_handed_out_fits_the_caller),
        cmocka_unit_test(arrays_are_walked_by_their_stride),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
