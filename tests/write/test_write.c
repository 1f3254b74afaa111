/* What every format of written tables is asked alike. */
#include "write/write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_format_checks_without_options(void **state)
{
    (void)state;
    (void)setenv("FOREBAY_HDF5_HELPER", "none", 1);
    struct ArrowSchema number = {.format = "i", .name = "i"}, *children[] = {&number};
    const struct ArrowSchema table = {.format = "+s", .name = "", .n_children = 1, .children = children};
    for (int format = 0; format < FBY__WRITE_FORMAT_COUNT; format++) {
        fby_error err;
        const fby_status status = fby__writer_check((fby__write_format)format, &table, NULL, &err);
        if (format != FBY__WRITE_HDF5)
            assert_int_equal(status, FBY_OK);
        else /* the column is fine: what is missing is the program */
            assert_true(status == FBY_E_UNSUPPORTED && strstr(err.message, "FOREBAY_HDF5_HELPER"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_format_checks_without_options)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
