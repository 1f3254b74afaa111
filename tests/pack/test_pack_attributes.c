/* What a source says of itself, in the plan of a pack: other tasks take it from there, and of what was made up nothing beyond its bytes is read. */
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
#include "write/write.h"

#include <forebay/contents.h>
#include <forebay/pack.h>

enum { ROWS = 100, HASH = sizeof(fby__hash128) };

/* What lies behind the number of bytes: the file's title "T", and of the column x units "K" and the levels 1 and 2. */
enum { N = 0, NOTE = 8, TITLE = 9, TITLE_TEXT = TITLE + 32, UNITS = TITLE_TEXT + 8, UNITS_TEXT = UNITS + 32, LEVELS = UNITS_TEXT + 8 };
enum { COLUMN = 0, DTYPE = 8, NUMBERS = 16, SCALAR = 24 }; /* of each of them */
enum { LEVELS_TEXT = LEVELS + 32, DATA = LEVELS_TEXT + 14, END = DATA + 4 };

static const fby_pack_opts OPTS = {.size = sizeof OPTS, .memory_bytes = (uint64_t)64 << 20};

static fby_status put(void *file, const void *bytes, size_t n, fby_error *err)
{
    (void)err;
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    return FBY_OK;
}

/* Only HDF5 has numbers, which this test need not have: the plan is given them. */
static fby_dataset *open_rows(void)
{
    static const fby__write_attribute SAID[] = {{.field = -1, .name = "title", .text = "T"}, {.field = 0, .name = "units", .text = "K"}};
    const fby__write_options options = {.attributes = SAID, .n_attributes = 2};
    struct ArrowSchema x = {.format = "l", .name = "x"}, *children[] = {&x};
    const struct ArrowSchema table = {.format = "+s", .name = "", .n_children = 1, .children = children};
    int64_t values[ROWS];
    const void *buffers[] = {NULL, values};
    struct ArrowArray column = {.length = ROWS, .n_buffers = 2, .buffers = buffers}, *columns[] = {&column};
    const void *none[] = {NULL};
    const struct ArrowArray batch = {.length = ROWS, .n_buffers = 1, .buffers = none, .n_children = 1, .children = columns};
    char path[600];
    fby_error err;
    fby__writer *w;
    fby_dataset *ds;
    for (int i = 0; i < ROWS; i++)
        values[i] = i;
    (void)snprintf(path, sizeof path, "%s/rows.arrow", g_dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fby__writer_begin(FBY__WRITE_ARROW, &table, &options, (fby__byte_sink){put, f}, &w, &err), FBY_OK);
    assert_int_equal(fby__writer_batch(w, &batch, &err), FBY_OK);
    assert_int_equal(fby__writer_end(w, NULL, 0, &err), FBY_OK);
    fby__writer_free(w);
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
    uint8_t *bytes;
    size_t head;       /* of the text */
    uint8_t said[END]; /* as it is, and with the levels */
} plan;

static void put_u64(uint8_t *at, uint64_t value) { fby__store_u64(at, value); }

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
    p.head = (size_t)((uint8_t *)memchr(p.bytes, 0, n) - p.bytes) + 1;
    assert_int_equal(n - p.head, sizeof(uint64_t) + LEVELS + HASH);
    assert_int_equal(fby__load_u64(p.bytes + p.head), LEVELS + HASH);
    memcpy(p.said, p.bytes + p.head + sizeof(uint64_t), LEVELS);
    assert_memory_equal(p.said + TITLE_TEXT, "title\0T", 8);
    assert_memory_equal(p.said + UNITS_TEXT, "units\0K", 8);
    put_u64(p.said + N, 3);
    put_u64(p.said + LEVELS + COLUMN, 0);
    put_u64(p.said + LEVELS + DTYPE, FBY_INT16);
    put_u64(p.said + LEVELS + NUMBERS, 2);
    put_u64(p.said + LEVELS + SCALAR, 0);
    memcpy(p.said + LEVELS_TEXT, "levels\0[1, 2]", 14);
    memcpy(p.said + DATA, (int16_t[]){1, 2}, 4);
    return p;
}

static void free_plan(plan *p)
{
    free(p->bytes);
    fby_dataset_close(p->ds);
}

/* The first task of a phase, with a plan that has n bytes of what the source says, and their hash. */
static fby_status run_with(const plan *p, const uint8_t *said, size_t n, fby_pack_phase phase, fby_error *err)
{
    const fby__hash128 hash = fby__hash(said, n);
    const uint64_t bytes = n + sizeof hash;
    FILE *f = fopen(p->path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p->bytes, 1, p->head, f), p->head);
    assert_int_equal(fwrite(&bytes, 1, sizeof bytes, f), sizeof bytes);
    assert_int_equal(fwrite(said, 1, n, f), n);
    assert_int_equal(fwrite(&hash, 1, sizeof hash, f), sizeof hash);
    assert_int_equal(fclose(f), 0);
    return fby_pack_run_task(p->ds, p->to, &OPTS, phase, 0, NULL, err);
}

static void expect_damaged(const plan *p, const uint8_t *said, size_t n, const char *what, uint64_t value)
{
    fby_error err = {0};
    const fby_status status = run_with(p, said, n, FBY_PACK_SCATTER, &err);
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
        {"attributes", N, 0},
        {"attributes", N, 2},
        {"attributes", N, 4},
        {"attributes", N, UINT64_MAX},
        {"column", TITLE + COLUMN, (uint64_t)-2},
        {"column", TITLE + COLUMN, 0x8000000000000000u},
        {"column", UNITS + COLUMN, 1},
        {"column", UNITS + COLUMN, UINT64_C(1) << 32},
        {"column", LEVELS + COLUMN, (uint64_t)-1},
        {"dtype", LEVELS + DTYPE, FBY_BOOL},
        {"dtype", LEVELS + DTYPE, FBY_FLOAT16},
        {"dtype", LEVELS + DTYPE, FBY_FLOAT64},
        {"dtype", LEVELS + DTYPE, FBY_DTYPE_NONE},
        {"dtype", LEVELS + DTYPE, FBY_DTYPE_COUNT},
        {"dtype", LEVELS + DTYPE, (UINT64_C(1) << 32) + FBY_INT16},
        {"numbers", LEVELS + NUMBERS, 0},
        {"numbers", LEVELS + NUMBERS, 1},
        {"numbers", LEVELS + NUMBERS, 3},
        {"numbers", LEVELS + NUMBERS, 1025},
        {"numbers", LEVELS + NUMBERS, UINT64_MAX / 2 + 2},
        {"texts", UNITS + NUMBERS, 2},
        {"one", LEVELS + SCALAR, 1},
        {"one", LEVELS + SCALAR, 2},
    };
    plan p = make_plan();
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        uint8_t said[END];
        memcpy(said, p.said, END);
        put_u64(said + forged[i].at, forged[i].value);
        expect_damaged(&p, said, END, forged[i].what, forged[i].value);
    }
    fby_error err;
    if (run_with(&p, p.said, END, FBY_PACK_SCATTER, &err) != FBY_OK) /* as it was, it is fine */
        fail_msg("%s", err.message);
    free_plan(&p);
}

static void texts_are_texts_and_end_where_the_bytes_do(void **state)
{
    (void)state;
    static const size_t TEXTS[] = {NOTE, TITLE_TEXT, TITLE_TEXT + 6, UNITS_TEXT, UNITS_TEXT + 6};
    plan p = make_plan();
    uint8_t said[END + 8] = {0};
    for (size_t n = 0; n <= END + 8; n++) {
        memcpy(said, p.said, END);
        if (n != END)
            expect_damaged(&p, said, n, "length", n);
    }
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        memcpy(said, p.said, END);
        said[TEXTS[i]] = 0xff;
        expect_damaged(&p, said, END, "no UTF-8 at", TEXTS[i]);
    }
    memcpy(said, p.said, END);
    said[TITLE_TEXT] = 0;
    expect_damaged(&p, said, END, "no name", 0);
    free_plan(&p);
}

static void the_number_of_bytes_is_not_believed(void **state)
{
    (void)state;
    plan p = make_plan();
    fby_error err;
    for (uint64_t n = 0; n < 3; n++) {
        const uint64_t claimed = n == 0 ? UINT64_MAX : n == 1 ? LEVELS + HASH + 1 : LEVELS + HASH - 1;
        put_u64(p.bytes + p.head, claimed);
        FILE *f = fopen(p.path, "wb");
        assert_non_null(f);
        const size_t bytes = p.head + sizeof(uint64_t) + LEVELS + HASH;
        assert_int_equal(fwrite(p.bytes, 1, bytes, f), bytes);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(fby_pack_run_task(p.ds, p.to, &OPTS, FBY_PACK_SCATTER, 0, NULL, &err), FBY_E_FORMAT);
    }
    free_plan(&p);
}

/* A file of the source is not looked at again for what the plan has. */
static void other_tasks_have_it_from_the_plan(void **state)
{
    (void)state;
    plan p = make_plan();
    fby_error err;
    char part[800];
    p.said[UNITS_TEXT + 6] = 'C';
    for (fby_pack_phase phase = FBY_PACK_SCATTER; phase <= FBY_PACK_WRITE; phase++)
        if (run_with(&p, p.said, END, phase, &err) != FBY_OK)
            fail_msg("%s", err.message);
    (void)snprintf(part, sizeof part, "%s/.forebay-pack/part-00000.arrow", p.to);
    const fby_source source = {.path = part};
    const fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1};
    fby_dataset *ds;
    fby_contents *c;
    assert_int_equal(fby_dataset_open(&source, 1, &opts, &ds, &err), FBY_OK);
    assert_int_equal(fby_contents_open(ds, 0, &c, &err), FBY_OK);
    assert_string_equal(fby_contents_attribute(c, "/", "title")->strings[0], "T");
    assert_string_equal(fby_contents_attribute(c, "x", "units")->strings[0], "C");
    assert_string_equal(fby_contents_attribute(c, "x", "levels")->strings[0], "[1, 2]");
    fby_contents_close(c);
    fby_dataset_close(ds);
    free_plan(&p);
}

/* So that two runs whose texts differ cannot mix in one pack: the plan does not have it either. */
static void the_text_of_a_pipeline_is_of_no_pack_of_rows(void **state)
{
    (void)state;
    fby_dataset *rows = open_rows(), *ds;
    fby_pack_opts with_text = OPTS;
    fby_error err;
    fby_contents *c;
    char to[600], part[700];
    with_text.pipeline = "of no outputs";
    (void)snprintf(to, sizeof to, "%s/out", g_dir);
    (void)snprintf(part, sizeof part, "%s/part-00000.arrow", to);
    if (fby_pack(rows, to, &with_text, NULL, &err) != FBY_OK)
        fail_msg("%s", err.message);
    const fby_source source = {.path = part};
    const fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1};
    assert_int_equal(fby_dataset_open(&source, 1, &opts, &ds, &err), FBY_OK);
    assert_int_equal(fby_contents_open(ds, 0, &c, &err), FBY_OK);
    assert_non_null(fby_contents_attribute(c, "/", "forebay.batch"));
    assert_null(fby_contents_attribute(c, "/", "forebay.pipeline"));
    fby_contents_close(c);
    fby_dataset_close(ds);
    fby_dataset_close(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_number_is_believed, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(texts_are_texts_and_end_where_the_bytes_do, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(the_number_of_bytes_is_not_believed, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(other_tasks_have_it_from_the_plan, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(the_text_of_a_pipeline_is_of_no_pack_of_rows, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
