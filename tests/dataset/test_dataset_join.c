/* Many schemas as one: widening, conflicts, missing columns; and what the Arrow export makes of them. */
#include "dataset/dataset_fixture.h"

static void put_pair(void)
{
    put_file("d/a.parquet", "narrow");
    put_file("d/b.parquet", "wide");
}

static const fby_open_opts FILL = {.cache_dir = "", .missing_columns = FBY_MISSING_COLUMNS_FILL};

typedef struct exported {
    struct ArrowSchema schema;
    struct ArrowArray blocks[4];
    int n;
} exported;

static exported export_columns(fby_dataset *ds, const char *const *names, size_t n)
{
    exported e = {0};
    struct ArrowArrayStream stream;
    fby_error err;
    if (fby_dataset_export_arrow(ds, names, n, &stream, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(stream.get_schema(&stream, &e.schema), 0);
    for (;;) {
        struct ArrowArray block;
        if (stream.get_next(&stream, &block) != 0)
            fail_msg("%s", stream.get_last_error(&stream));
        if (!block.release)
            break;
        assert_in_range(e.n, 0, 3);
        e.blocks[e.n++] = block;
    }
    stream.release(&stream);
    return e;
}

static void exported_fini(exported *e)
{
    e->schema.release(&e->schema);
    for (int i = 0; i < e->n; i++)
        e->blocks[i].release(&e->blocks[i]);
}

static bool valid(const struct ArrowArray *a, int i)
{
    const uint8_t *bits = a->buffers[0];
    return !bits || (bits[i / 8] >> (i % 8) & 1);
}

#define VALUE(type, array, i) (((const type *)(array)->buffers[1])[i])

static void expect_text(const struct ArrowArray *a, int i, const char *text)
{
    int64_t begin = VALUE(int64_t, a, i), end = VALUE(int64_t, a, i + 1);
    assert_int_equal(end - begin, strlen(text));
    assert_memory_equal((const char *)a->buffers[2] + begin, text, strlen(text));
}

static void columns_are_widened_value_by_value(void **state)
{
    (void)state;
    put_pair();
    fby_dataset *ds = open_path("d", &FILL);
    static const char *const NAMES[] = {"i", "f", "g", "n", "s", "t", "d", "st", "l", "u", "w", "only", "extra", "id"};
    static const char *const FORMATS[] = {"l", "f", "g", "+L", "Z", "tsu:", "d:30,3", "+s", "+L", "s", "Z", "l", "g", "i"};
    exported e = export_columns(ds, NAMES, 14);
    assert_int_equal(e.n, 2);
    for (int i = 0; i < 14; i++) {
        assert_string_equal(e.schema.children[i]->name, NAMES[i]);
        assert_string_equal(e.schema.children[i]->format, FORMATS[i]);
    }
    struct ArrowArray **a = e.blocks[0].children, **b = e.blocks[1].children;
    assert_true(VALUE(int64_t, a[0], 0) == 1 && !valid(a[0], 1) && VALUE(int64_t, b[0], 1) == 4);
    assert_true(VALUE(float, a[1], 1) == 2.0f && VALUE(float, b[1], 0) == 1.5f && !valid(b[1], 1));
    assert_true(VALUE(double, a[2], 1) == 2.0 && VALUE(double, b[2], 1) == 2.5);
    assert_true(!valid(a[3], 0) && !valid(a[3], 1) && a[3]->children[0]->length == 0 && VALUE(int64_t, b[3], 1) == 1);
    expect_text(a[4], 1, "b");
    expect_text(b[4], 0, "c");
    assert_true(VALUE(int64_t, a[5], 0) == 1000000 && !valid(a[5], 1) && VALUE(int64_t, b[5], 0) == 1000);
    assert_true(VALUE(__int128, a[6], 0) == 1500 && !valid(a[6], 1) && VALUE(__int128, b[6], 0) == -2125);
    assert_int_equal(a[7]->n_children, 3);
    assert_true(VALUE(int32_t, a[7]->children[0], 0) == 1 && !valid(a[7], 1) && !valid(b[7]->children[0], 0));
    expect_text(a[7]->children[1], 0, "x");
    expect_text(b[7]->children[1], 0, "y");
    assert_true(!valid(a[7]->children[2], 0) && VALUE(double, b[7]->children[2], 0) == 2.5);
    assert_true(VALUE(int64_t, a[8]->children[0], 1) == 2 && VALUE(int64_t, b[8]->children[0], 0) == 1);
    assert_true(VALUE(int16_t, a[9], 0) == 255 && VALUE(int16_t, b[9], 0) == -1);
    expect_text(a[10], 0, "abc");
    expect_text(b[10], 0, "z");
    assert_true(VALUE(int64_t, a[11], 1) == 8 && !valid(b[11], 0) && b[11]->null_count == 2);
    assert_true(!valid(a[12], 1) && VALUE(double, b[12], 1) == 2.0);
    assert_true(VALUE(int32_t, a[13], 0) == 1 && VALUE(int32_t, b[13], 1) == 4);
    exported_fini(&e);
    fby_dataset_close(ds);
}

static void expect_refused(fby_dataset *ds, const char *column, const char *a, const char *b)
{
    fby__dataset_column resolved;
    struct ArrowArrayStream stream;
    fby_error err;
    assert_int_equal(fby_dataset_export_arrow(ds, &column, 1, &stream, &err), FBY_E_SCHEMA);
    if (!strstr(err.message, a) || !strstr(err.message, b))
        fail_msg("expected \"%s\" and \"%s\" in: %s", a, b, err.message);
    assert_int_equal(fby__dataset_resolve(ds, column, &resolved, &err), FBY_E_SCHEMA);
    if (!strstr(err.message, a) || !strstr(err.message, b))
        fail_msg("expected \"%s\" and \"%s\" in: %s", a, b, err.message);
}

static void types_that_do_not_join_are_refused_only_when_used(void **state)
{
    (void)state;
    put_pair();
    fby_dataset *ds = open_path("d", &FILL);
    expect_note(ds, "the column 'c' cannot be used");
    expect_refused(ds, "c", "/d/a.parquet' but string", "/d/b.parquet'");
    expect_refused(ds, "big", "uint64", "/d/b.parquet'");
    expect_refused(ds, "day", "date", "timestamp[us]");
    expect_refused(ds, "z", "timestamp[us, UTC]", "timestamp[us] in");
    fby_error err;
    struct ArrowArrayStream stream;
    assert_int_equal(fby_dataset_export_arrow(ds, NULL, 0, &stream, &err), FBY_E_SCHEMA);
    fby_dataset_close(ds);
}

static void a_missing_column_names_its_file_unless_it_is_filled(void **state)
{
    (void)state;
    put_pair();
    fby_dataset *ds = open_path("d", NULL);
    expect_note(ds, "1 of 2 files lacks the column 'only', such as 'b.parquet'");
    expect_note(ds, "2 different schemas");
    expect_refused(ds, "only", "missing", "/d/b.parquet'");
    expect_refused(ds, "extra", "missing", "/d/a.parquet'");
    fby__dataset_column column;
    fby_error err;
    assert_int_equal(fby__dataset_resolve(ds, "st.a", &column, &err), FBY_E_SCHEMA);
    assert_non_null(strstr(err.message, "/d/b.parquet'"));
    assert_int_equal(fby__dataset_resolve(ds, "st.b", &column, &err), FBY_OK); /* its siblings do not matter */
    fby_dataset_close(ds);
}

static void columns_are_resolved_to_leaves_of_each_file(void **state)
{
    (void)state;
    put_pair();
    fby_dataset *ds = open_path("d/{gauge}.parquet", NULL);
    fby__dataset_column column;
    fby__file_column origin;
    fby_error err;
    assert_int_equal(fby__dataset_resolve(ds, "t", &column, NULL), FBY_OK);
    fby__dataset_file_column(ds, 0, &column, &origin);
    assert_true(origin.origin == FBY__ORIGIN_LEAF && origin.unit_mul == 1000 && origin.unit_div == 1);
    fby__dataset_file_column(ds, 1, &column, &origin);
    assert_true(origin.origin == FBY__ORIGIN_LEAF && origin.unit_mul == 1);
    assert_int_equal(column.leaf->unit, FBY_UNIT_US);

    assert_int_equal(fby__dataset_resolve(ds, "l", &column, NULL), FBY_OK);
    assert_int_equal(column.field->kind, FBY_KIND_LIST);
    assert_int_equal(column.leaf->dtype, FBY_INT64);

    /* Null throughout in one file: missing there, and no error. */
    assert_int_equal(fby__dataset_resolve(ds, "n", &column, NULL), FBY_OK);
    fby__dataset_file_column(ds, 0, &column, &origin);
    assert_int_equal(origin.origin, FBY__ORIGIN_MISSING);
    fby__dataset_file_column(ds, 1, &column, &origin);
    assert_int_equal(origin.origin, FBY__ORIGIN_LEAF);

    assert_int_equal(fby__dataset_resolve(ds, "gauge", &column, NULL), FBY_OK);
    assert_int_equal(column.id, 0);
    fby__dataset_file_column(ds, 1, &column, &origin);
    assert_string_equal(origin.constant, "b");
    assert_int_equal(column.field->kind, FBY_KIND_STRING);

    assert_int_equal(fby__dataset_resolve(ds, "st", &column, &err), FBY_E_SCHEMA);
    assert_non_null(strstr(err.message, "'st.a'"));
    assert_int_equal(fby__dataset_resolve(ds, "gauges", &column, &err), FBY_E_SCHEMA);
    assert_non_null(strstr(err.message, "did you mean 'gauge'"));
    fby_dataset_close(ds);
}

static void a_part_of_the_name_hides_a_column_of_the_file(void **state)
{
    (void)state;
    put_file("d/seven.parquet", "plain");
    fby_dataset *ds = open_path("d/{x}.parquet", NULL);
    expect_note(ds, "the column 'x' comes from the files' names");
    exported e = export_columns(ds, NULL, 0);
    assert_int_equal(e.schema.n_children, 2);
    expect_text(e.blocks[0].children[0], 2, "seven");
    assert_string_equal(e.schema.children[1]->name, "y");
    exported_fini(&e);
    fby_dataset_close(ds);
}

static void the_joined_schema_does_not_depend_on_threads(void **state)
{
    (void)state;
    char path[100], first[33] = "";
    for (int i = 0; i < 60; i++) {
        static const char *const KINDS[] = {"plain", "groups", "narrow", "wide", "empty"};
        (void)snprintf(path, sizeof path, "d/%02d.parquet", i);
        put_file(path, KINDS[(i * 7 + i / 11) % 5]);
    }
    for (int i = 0; i < 20; i++) {
        fby_dataset *ds = open_path("d", &(fby_open_opts){.cache_dir = "", .n_threads = 1 + i % 9});
        if (!*first)
            strcpy(first, fby_dataset_fingerprint(ds));
        assert_string_equal(fby_dataset_fingerprint(ds), first);
        fby_dataset_close(ds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)
        TEST(columns_are_widened_value_by_value),
        TEST(types_that_do_not_join_are_refused_only_when_used),
        TEST(a_missing_column_names_its_file_unless_it_is_filled),
        TEST(columns_are_resolved_to_leaves_of_each_file),
        TEST(a_part_of_the_name_hides_a_column_of_the_file),
        TEST(the_joined_schema_does_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
