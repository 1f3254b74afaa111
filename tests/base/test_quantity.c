/* Sizes, and options that are written as quantities: what is read, and what is refused with what to write instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <forebay/loader.h>
#include <forebay/options.h>

#include <string.h>

static void sizes_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"8GiB", (uint64_t)8 << 30},
                {"512 MB", 512000000},
                {"1.5GiB", (uint64_t)3 << 29},
                {"0.7GB", 700000000},
                {"100b", 100},
                {"64kib", 65536},
                {" 2 TB ", 2000000000000},
                {"1_000 MB", 1000000000},
                {"1.9999999999999999999999KB", 1999},
                {"1234567890123456789 B", 1234567890123456789u},
                {"8191PiB", (uint64_t)8191 << 50}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 0;
        assert_int_equal(fby_size_parse(good[i].text, &bytes, NULL), FBY_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    static const char *const bad[][2] = {{"8G", "write '8GiB' (1024-based) or '8GB' (1000-based)"},
                                         {"1.5k", "write '1.5KiB'"},
                                         {"8", "'8MiB' or '8GiB'"},
                                         {"", "not a size"},
                                         {"lots", "such as '8GiB'"},
                                         {"-8GiB", "not a size"},
                                         {"8GiB extra", "not a size"},
                                         {"8.GiB", "is not a unit"},
                                         {"8 XB", "'XB' is not a unit"},
                                         {"8 GiBs", "'GiBs' is not a unit"},
                                         {"0GiB", "out of range"},
                                         {"0.5B", "out of range"},
                                         {"8192PiB", "out of range"},
                                         {"9223372036854775808B", "out of range"},
                                         {"99999999999999999999999999999GiB", "out of range"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 77;
        fby_error err;
        assert_int_equal(fby_size_parse(bad[i][0], &bytes, &err), FBY_E_ARG);
        if (!strstr(err.message, bad[i][1]))
            fail_msg("'%s': %s", bad[i][0], err.message);
        assert_int_equal(bytes, 77);
    }
}

static void options_of_a_loader_are_read_into_their_fields(void **state)
{
    (void)state;
    fby_loader_opts o = {FBY_LOADER_SIZES};
    assert_int_equal(fby_loader_opts_parse("memory", "2GiB", &o, NULL), FBY_OK);
    assert_int_equal(fby_loader_opts_parse("memory", "12.5 %", &o, NULL), FBY_OK);
    assert_int_equal(fby_loader_opts_parse("memory", "all", &o, NULL), FBY_OK);
    assert_int_equal(fby_loader_opts_parse("superbatch", "50 blocks", &o, NULL), FBY_OK);
    assert_int_equal(fby_loader_opts_parse("superbatch", "1 sample", &o, NULL), FBY_OK);
    assert_int_equal(fby_loader_opts_parse("superbatch", "256MiB", &o, NULL), FBY_OK);
    assert_int_equal(fby_loader_opts_parse("part", "1_000 files", &o, NULL), FBY_OK);
    assert_int_equal(fby_loader_opts_parse("part", "1 key", &o, NULL), FBY_OK);
    assert_int_equal(fby_loader_opts_parse("part", "1/10", &o, NULL), FBY_OK);
    assert_int_equal(o.memory_bytes, (uint64_t)2 << 30);
    assert_true(o.memory_fraction == 0.125 && o.memory_all);
    assert_int_equal(o.superbatch_blocks, 50);
    assert_int_equal(o.superbatch_samples, 1);
    assert_int_equal(o.superbatch_bytes, 256 << 20);
    assert_int_equal(o.part_files, 1000);
    assert_int_equal(o.part_keys, 1);
    assert_int_equal(o.n_parts, 10);
    static const char *const bad[][3] = {{"memory", "0%", "above 0% and at most 100%"},
                                         {"memory", "100.1%", "at most 100%"},
                                         {"memory", "5GiB%", "above 0%"},
                                         {"memory", "8G", "ambiguous"},
                                         {"superbatch", "50", "write '50 blocks'"},
                                         {"superbatch", "1.5 blocks", "a whole number of blocks"},
                                         {"superbatch", "0 samples", "at least 1"},
                                         {"superbatch", "50 rows", "'rows' is not a unit: write '50 blocks', '100000 samples'"},
                                         {"part", "1/0", "'1/10' for a tenth"},
                                         {"part", "2/3", "1000 files"},
                                         {"part", "1/3 files", "1000 files"},
                                         {"part", "1.5 files", "1000 files"},
                                         {"part", "5000000000 keys", "1000 files"},
                                         {"seed", "7", "no option 'seed'"}};
    const fby_loader_opts before = o;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fby_error err;
        assert_int_equal(fby_loader_opts_parse(bad[i][0], bad[i][1], &o, &err), FBY_E_ARG);
        if (!strstr(err.message, bad[i][2]))
            fail_msg("%s=%s: %s", bad[i][0], bad[i][1], err.message);
    }
    assert_memory_equal(&o, &before, sizeof o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_are_read_as_people_write_them),
                                       cmocka_unit_test(options_of_a_loader_are_read_into_their_fields)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
