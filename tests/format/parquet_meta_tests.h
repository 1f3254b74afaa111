/* Shared by the Parquet metadata tests: golden files, checks that show the message, a file of one column made by hand.
 */
#ifndef TESTS_FORMAT_PARQUET_META_TESTS_H
#define TESTS_FORMAT_PARQUET_META_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/parquet_builder.h"

#define GOLDEN FBY_SOURCE_DIR "/tests/golden/parquet/"
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const GOLDEN_FILES[] = {"flat_v1_two_groups.parquet",
                                           "pages_v1.parquet",
                                           "pages_v1_offset_index.parquet",
                                           "nested_v2.parquet",
                                           "nested_v1.parquet",
                                           "every_type.parquet",
                                           "int96.parquet",
                                           "no_rows.parquet"};

static inline fby__buf read_golden(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    fby__buf b = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t part[1024];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        assert_int_equal(fby__buf_put(&b, part, n), 0);
    assert_int_equal(fclose(f), 0);
    return b;
}

static inline void check_ok(fby_status st, const fby_error *err)
{
    if (st != FBY_OK)
        fail_msg("%s: %s", fby_status_name(st), err->message);
}

static inline fby__table *open_golden(const char *name, fby__file **out_file)
{
    fby__buf b = read_golden(name);
    fby__table *t = NULL;
    fby_error err;
    check_ok(open_bytes(b.data, b.n, &t, out_file, &err), &err);
    fby__buf_fini(&b);
    return t;
}

static inline void check_type(const fby_field *f, const char *want)
{
    char text[1024];
    (void)fby_field_type_text(f, text, sizeof text);
    assert_string_equal(text, want);
}

static const spec ROOT_OF_ONE = {.name = "schema", .n_children = 1};

static inline fby__buf one_column_file(const spec *leaf, const chunk_spec *chunk, int64_t rows, fby__bytes body)
{
    writer w = {0};
    spec specs[] = {ROOT_OF_ONE, *leaf};
    w_i32(&w, 1, 2);
    w_schema(&w, specs, 2);
    w_i64(&w, 3, 99); /* wrong on purpose: the row groups count */
    w_list(&w, 4, FBY__THRIFT_STRUCT, 1);
    w_open(&w);
    w_list(&w, 1, FBY__THRIFT_STRUCT, 1);
    w_chunk(&w, chunk);
    w_i64(&w, 2, 0);
    w_i64(&w, 3, rows);
    w_close(&w);
    w_byte(&w, 0);
    fby__buf out = parquet_bytes(body, (fby__bytes){w.b.data, w.b.n});
    fby__buf_fini(&w.b);
    return out;
}

static const spec INT32_LEAF = {.name = "a", .type = FBY__PQ_INT32};

#endif
