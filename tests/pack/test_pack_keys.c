/* A plan by a key whose hash holds, and whose counts were made up: it is damaged, and nothing beyond its bytes is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/files.h"
#include "support/temp_dir.h"

#include "base/bytes.h"
#include "base/hash.h"

#include <forebay/pack.h>

enum { ROWS = 100, HASH = sizeof(fby__hash128) };

/* What lies behind the text of the plan of values a and b, of 50 rows each, and of one scatter task. */
enum { N = 16, SCATTERS = 24, TEXT_A = 32, ROWS_A = 34, TEXT_B = 42, ROWS_B = 44, BEGIN_A = 52, BEGIN_B = 60, END = 68 };

static const fby_pack_opts OPTS = {.size = sizeof OPTS, .by = "k", .memory_bytes = (uint64_t)64 << 20};

static fby_dataset *open_rows(void)
{
    char path[600];
    fby_error err;
    fby_dataset *ds;
    (void)snprintf(path, sizeof path, "%s/rows.csv", g_dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f, "k,i\n");
    for (int i = 0; i < ROWS; i++)
        (void)fprintf(f, "%c,%d\n", "ab"[i % 2], i);
    assert_int_equal(fclose(f), 0);
    const fby_source source = {.path = path};
    const fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1};
    if (fby_dataset_open(&source, 1, &opts, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

typedef struct plan {
    fby_dataset *ds;
    char to[600], path[700];
    uint8_t *bytes, *tail; /* as they were written; behind its text and what the source says of itself */
    size_t head;
} plan;

static plan make_plan(void)
{
    plan p = {.ds = open_rows()};
    fby_error err;
    size_t n;
    (void)snprintf(p.to, sizeof p.to, "%s/out", g_dir);
    (void)snprintf(p.path, sizeof p.path, "%s/.forebay-pack/plan", p.to);
    if (fby_pack_run_task(p.ds, p.to, &OPTS, FBY_PACK_PLAN, 0, NULL, &err) != FBY_OK)
        fail_msg("%s", err.message);
    p.bytes = read_bytes(p.path, &n);
    p.tail = (uint8_t *)memchr(p.bytes, 0, n) + 1;
    p.tail += sizeof(uint64_t) + fby__load_u64(p.tail);
    p.head = (size_t)(p.tail - p.bytes);
    assert_int_equal(n - p.head, END + HASH);
    assert_memory_equal(p.tail + TEXT_A, "a", 2);
    assert_memory_equal(p.tail + TEXT_B, "b", 2);
    return p;
}

static void free_plan(plan *p)
{
    free(p->bytes);
    fby_dataset_close(p->ds);
}

/* The plan with n bytes behind its text, and with their hash. */
static fby_status scatter_with(const plan *p, const uint8_t *tail, size_t n, fby_error *err)
{
    const fby__hash128 hash = fby__hash(tail, n);
    FILE *f = fopen(p->path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p->bytes, 1, p->head, f), p->head);
    assert_int_equal(fwrite(tail, 1, n, f), n);
    assert_int_equal(fwrite(&hash, 1, sizeof hash, f), sizeof hash);
    assert_int_equal(fclose(f), 0);
    return fby_pack_run_task(p->ds, p->to, &OPTS, FBY_PACK_SCATTER, 0, NULL, err);
}

static void expect_damaged(const plan *p, const uint8_t *tail, size_t n, const char *what, uint64_t value)
{
    fby_error err = {0};
    const fby_status status = scatter_with(p, tail, n, &err);
    if (status != FBY_E_FORMAT || !strstr(err.message, "plan' is damaged"))
        fail_msg("%s %llu: %d, %s", what, (unsigned long long)value, (int)status, err.message);
}

static void no_number_is_believed(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        size_t at;
        uint64_t value;
    } forged[] = {
        {"values", N, 0},
        {"values", N, 1},
        {"values", N, 3},
        {"values", N, 5000},
        {"values", N, 65537},
        {"values", N, (UINT64_C(1) << 32) + 2},
        {"values", N, UINT64_MAX},
        {"tasks", SCATTERS, 0},
        {"tasks", SCATTERS, 2},
        {"tasks", SCATTERS, 1000000},
        {"tasks", SCATTERS, (UINT64_C(1) << 32) + 1},
        {"tasks", SCATTERS, (UINT64_C(1) << 60) + 1},
        {"rows", ROWS_A, 0},
        {"rows", ROWS_A, 49},
        {"rows", ROWS_A, 51},
        {"rows", ROWS_A, UINT64_MAX},
        {"rows", ROWS_B, 49},
        {"rows", ROWS_B, UINT64_MAX - 49},
        {"rows before the first task", BEGIN_A, 1},
        {"rows before the first task", BEGIN_A, 51},
        {"rows before the first task", BEGIN_B, UINT64_MAX},
    };
    plan p = make_plan();
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        uint8_t tail[END];
        memcpy(tail, p.tail, END);
        memcpy(tail + forged[i].at, &forged[i].value, sizeof forged[i].value);
        expect_damaged(&p, tail, END, forged[i].what, forged[i].value);
    }
    fby_error err;
    if (scatter_with(&p, p.tail, END, &err) != FBY_OK) /* as it was, it is fine */
        fail_msg("%s", err.message);
    free_plan(&p);
}

static void texts_end_where_the_bytes_do_and_are_in_order(void **state)
{
    (void)state;
    plan p = make_plan();
    for (size_t n = N; n <= END + 8; n++) {
        uint8_t tail[END + 8] = {0};
        memcpy(tail, p.tail, END);
        if (n != END)
            expect_damaged(&p, tail, n, "length", n);
    }
    uint8_t tail[END];
    memcpy(tail, p.tail, END);
    tail[TEXT_A] = 'b';
    expect_damaged(&p, tail, END, "twice the value b", 0);
    tail[TEXT_A] = 'c';
    expect_damaged(&p, tail, END, "out of order", 0);
    memset(tail + TEXT_A, 'x', END - TEXT_A);
    expect_damaged(&p, tail, END, "no NUL", 0);
    free_plan(&p);
}

static void replace(uint8_t *text, const char *from, const char *to)
{
    char *at = strstr((char *)text, from);
    assert_non_null(at);
    memcpy(at, to, strlen(to));
}

/* Values that the source does not have, or not as often, in a plan that fits, and whose text says the same. */
static void other_values_are_a_source_that_has_changed(void **state)
{
    (void)state;
    plan p = make_plan();
    fby_error err;
    p.tail[ROWS_A] = 40;
    p.tail[ROWS_B] = 60;
    replace(p.bytes, "\"a\", \"rows\": 50", "\"a\", \"rows\": 40");
    replace(p.bytes, "\"b\", \"rows\": 50", "\"b\", \"rows\": 60");
    assert_int_equal(scatter_with(&p, p.tail, END, &err), FBY_E_CHANGED);
    assert_non_null(strstr(err.message, "the key 'k' has other values"));
    p.tail[TEXT_B] = 'c';
    replace(p.bytes, "\"b\", \"rows\"", "\"c\", \"rows\"");
    assert_int_equal(scatter_with(&p, p.tail, END, &err), FBY_E_CHANGED);
    free_plan(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_number_is_believed, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(texts_end_where_the_bytes_do_and_are_in_order, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(other_values_are_a_source_that_has_changed, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
