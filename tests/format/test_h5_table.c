/*
 * HDF5 files as tables: which data sets, their types, axes and NetCDF's conventions. The helper program is taken away, so that what needs it is left
 * out.
 */
#include "format/h5_golden_tables.h"

/* ---- which data sets ---- */

static void the_largest_table_is_the_default_and_its_columns_are_all_data_sets_of_that_length(void **state)
{
    (void)state;
    fby__table *t = open_golden("tables.h5", (fby__format_opts){0});
    const fby__h5_table *h = fby__h5_table_of(t);
    check_columns(t, "events/flag events/id events/image events/x hits/deep/w");
    assert_int_equal(t->n_rows, 100);
    assert_int_equal(t->n_groups, 1);
    assert_int_equal(t->groups[0].rows, 100);
    assert_string_equal(h->name, "/events/image");
    assert_int_equal(h->n_others, 4);
    assert_string_equal(h->others[0].name, "/hits/e");
    assert_int_equal(h->others[0].rows, 7);
    assert_int_equal(h->others[0].n_sets, 2);
    check_type(t, "events/flag", "bool");
    check_type(t, "events/id", "int64");
    check_type(t, "events/image", "fixed_list<fixed_list<float64>[4]>[3]");
    assert_string_equal(field_of(t, "events/image")->children[0].name, "item");
    assert_string_equal(field_of(t, "events/image")->children[0].children[0].name, "column");
    assert_string_equal(field_of(t, "events/x")->units, "GeV");
    assert_null(field_of(t, "events/id")->units);
    assert_true(leaf_of(t, "events/id")->type->big_endian);
    assert_int_equal(set_of(t, "events/x")->n_chunks, 10);
    uint64_t stored = 0;
    for (uint32_t i = 0; i < h->n_sets; i++)
        stored += h->sets[i].stored_bytes;
    assert_int_equal(t->groups[0].stored_bytes, stored);
    fby__table_unref(t);
}

static void a_table_is_named_by_a_data_set_a_group_or_a_link(void **state)
{
    (void)state;
    static const struct {
        const char *table, *columns;
        uint64_t rows;
    } want[] = {{"hits/t", "hits/e hits/t", 7},
                {"/hits", "deep/w", 100},
                {"hits/deep/", "w", 100},
                {"soft", "deep/w", 100},
                {"linked/x", "events/flag events/id events/image events/x hits/deep/w", 100},
                {"linked", "flag id image x", 100},
                {"hits/deep/pair", "hits/deep/pair", 3},
                {"/", "events/flag events/id events/image events/x hits/deep/w", 100},
                {"none", "none", 0}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        fby__table *t = open_golden("tables.h5", (fby__format_opts){.table = want[i].table});
        check_columns(t, want[i].columns);
        assert_int_equal(t->n_rows, want[i].rows);
        fby__table_unref(t);
    }
}

static void a_table_that_is_not_there_is_refused_with_those_that_are(void **state)
{
    (void)state;
    const char *m = refusal("tables.h5", (fby__format_opts){.table = "nix"}, FBY_E_SCHEMA);
    assert_non_null(strstr(m, "there is no data set or group 'nix'"));
    assert_non_null(strstr(m, "'events/image' (5 data sets of 100 rows), 'hits/e' (2 data sets of 7 rows)"));
    m = refusal("tables.h5", (fby__format_opts){.table = "scalar"}, FBY_E_SCHEMA);
    assert_non_null(strstr(m, "'scalar' is no table"));
    m = refusal("tables.h5", (fby__format_opts){.dimension = "time"}, FBY_E_SCHEMA);
    assert_non_null(strstr(m, "no data set has a dimension 'time'"));
    m = refusal("nothing.h5", (fby__format_opts){0}, FBY_E_SCHEMA);
    assert_non_null(strstr(m, "nothing.h5: no data set has rows"));
    (void)refusal("tables.h5", (fby__format_opts){.axes = 2, .axis = 1}, FBY_E_ARG);
    (void)refusal("tables.h5", (fby__format_opts){.dimension = "x", .axis = 1}, FBY_E_ARG);
    (void)refusal("tables.h5", (fby__format_opts){.axes = 33}, FBY_E_ARG);
    (void)refusal("tables.h5", (fby__format_opts){.axis = INT32_MIN}, FBY_E_ARG);
}

static void a_file_without_rows_is_a_table_of_no_rows(void **state)
{
    (void)state;
    fby__table *t = open_golden("empty.h5", (fby__format_opts){0});
    check_columns(t, "a b");
    assert_int_equal(t->n_rows, 0);
    assert_int_equal(t->groups[0].rows, 0);
    fby__table_unref(t);
}

/* ---- types ---- */

static void every_type_has_its_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *path, *type;
        fby_dtype dtype;
        int value;
        uint32_t offset, elements;
    } want[] = {{"array", "fixed_list<int32>[2]", FBY_INT32, FBY__H5_VALUE_NUMBER, 0, 1},
                {"bits", "uint16", FBY_UINT16, FBY__H5_VALUE_NUMBER, 0, 1},
                {"enum", "int16", FBY_INT16, FBY__H5_VALUE_NUMBER, 0, 1},
                {"half", "float16", FBY_FLOAT16, FBY__H5_VALUE_NUMBER, 0, 1},
                {"complex.i", "float32", FBY_FLOAT32, FBY__H5_VALUE_NUMBER, 4, 1},
                {"lists", "list<float64>", FBY_FLOAT64, FBY__H5_VALUE_VLEN_LIST, 0, 1},
                {"nested.id", "uint32", FBY_UINT32, FBY__H5_VALUE_NUMBER, 0, 1},
                {"nested.in.a", "int16", FBY_INT16, FBY__H5_VALUE_NUMBER, 4, 1},
                {"nested.in.b", "fixed_list<fixed_list<float64>[3]>[2]", FBY_FLOAT64, FBY__H5_VALUE_NUMBER, 6, 6},
                {"nested.s", "string", FBY_DTYPE_NONE, FBY__H5_VALUE_FIXED_STRING, 54, 1},
                {"opaque", "fixed_binary[7]", FBY_DTYPE_NONE, FBY__H5_VALUE_OPAQUE, 0, 1},
                {"packed", "fixed_list<fixed_list<int16>[5]>[4]", FBY_INT16, FBY__H5_VALUE_NUMBER, 0, 20},
                {"text", "string", FBY_DTYPE_NONE, FBY__H5_VALUE_FIXED_STRING, 0, 1},
                {"words", "string", FBY_DTYPE_NONE, FBY__H5_VALUE_VLEN_STRING, 0, 1},
                {"caf\xc3\xa9", "int8", FBY_INT8, FBY__H5_VALUE_NUMBER, 0, 1}};
    fby__table *t = open_golden("types.h5", (fby__format_opts){0});
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const fby__h5_leaf *l = leaf_of(t, want[i].path);
        check_type(t, want[i].path, want[i].type);
        assert_int_equal(l->stored, want[i].dtype);
        assert_int_equal(l->dtype, want[i].dtype);
        assert_int_equal(l->value, want[i].value);
        assert_int_equal(l->offset, want[i].offset);
        assert_int_equal(l->elements, want[i].elements);
    }
    check_type(t, "complex", "struct<r: float32, i: float32>");
    check_type(t, "nested.in", "struct<a: int16, b: fixed_list<fixed_list<float64>[3]>[2]>");
    check_type(t, "nested.ins", "fixed_list<struct<a: int16, b: fixed_list<fixed_list<float64>[3]>[2]>>[2]");
    const fby__h5_leaf *l = leaf_of(t, "nested.ins.b"); /* 12 of 8 bytes, 2 arrays of 6, 50 bytes apart */
    assert_int_equal(l->elements, 12);
    assert_int_equal(l->n_strides, 1);
    assert_int_equal(l->strides[0].n, 2);
    assert_int_equal(l->strides[0].stride, 50);
    check_type(t, "records", "list<struct<a: int32>>");
    l = leaf_of(t, "records.a");
    assert_int_equal(l->value, FBY__H5_VALUE_NESTED);
    assert_int_equal(l->levels, 2);
    assert_int_equal(l->dtype, FBY_DTYPE_NONE);
    fby__table_unref(t);
}

static void what_is_no_column_is_left_out_with_the_reason(void **state)
{
    (void)state;
    fby__table *t = open_golden("types.h5", (fby__format_opts){0});
    assert_non_null(strstr(why_left_out(t, "long"), "its type is float128"));
    assert_non_null(strstr(why_left_out(t, "long"), "FOREBAY_HDF5_HELPER"));
    assert_non_null(strstr(why_left_out(t, "time"), "its type is time"));
    assert_non_null(strstr(why_left_out(t, "ref"), "its type is object reference"));
    assert_non_null(strstr(why_left_out(t, "nested.r"), "read(\"/nested\") gives it"));
    assert_string_equal(why_left_out(t, "caf?"), "its name is not valid UTF-8");
    fby__table_unref(t);
    t = open_golden("elsewhere.h5", (fby__format_opts){0});
    check_columns(t, "here");
    assert_non_null(strstr(why_left_out(t, "external"), "external files"));
    assert_non_null(strstr(why_left_out(t, "virtual"), "virtual"));
    assert_non_null(strstr(why_left_out(t, "scaled"), "scaleoffset"));
    fby__table_unref(t);
    const char *m = refusal("only_virtual.h5", (fby__format_opts){0}, FBY_E_UNSUPPORTED);
    assert_non_null(strstr(m, "none of the table's data sets can be read: 'virtual': it is a virtual data set"));
}

static void what_only_libhdf5_reads_is_a_column_where_the_helper_program_is(void **state)
{
    (void)state;
    (void)unsetenv("FOREBAY_HDF5_HELPER");
    fby__table *t = open_golden("types.h5", (fby__format_opts){0}), *again = NULL;
    bool there = fby__schema_find(t->schema, "long") != UINT32_MAX;
    if (there) {
        assert_int_equal(set_of(t, "long")->way, FBY__H5_HELPER);
        assert_non_null(strstr(set_of(t, "long")->why, "its type is float128"));
        assert_int_equal(leaf_of(t, "long")->dtype, FBY_FLOAT64);
        assert_int_equal(leaf_of(t, "ref")->value, FBY__H5_VALUE_REFERENCE);
        check_type(t, "ref", "string");
        assert_int_equal(set_of(t, "half")->way, FBY__H5_DIRECT);
        fby__leaf_bounds b;
        fby__h5_leaf_bounds(t, 0, 1, 4, fby__schema_find_leaf(t->schema, "long"), &b);
        assert_int_equal(b.compressed_bytes, 24);
        fby__buf blob = {0};
        assert_int_equal(fby__h5_freeze(t, &blob, NULL), FBY_OK);
        assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, NULL), FBY_OK);
        assert_string_equal(set_of(again, "long")->why, set_of(t, "long")->why);
        fby__table_unref(again);
        fby__buf_fini(&blob);
        fby__table_unref(t);
        const char *m = refusal("only_virtual.h5", (fby__format_opts){0}, FBY_E_IO);
        assert_non_null(strstr(m, "is not there"));
        assert_non_null(strstr(m, "missing_sources"));
        t = open_golden("only_virtual.h5", (fby__format_opts){.fill_sources = true});
        assert_int_equal(set_of(t, "virtual")->way, FBY__H5_HELPER);
        assert_true(t->unsettled);
        assert_int_equal(t->n_sources, 2); /* where it may come: beside the file, and in the working directory */
        assert_true(t->sources[0].absent && t->sources[1].absent);
    }
    fby__table_unref(t);
    fby__h5_helper_stop();
    hide_helper();
    if (!there) {
        print_message("skipped: the helper program was not built (libhdf5 was not found)\n");
        skip();
    }
}

/* ---- axes ---- */

static void leading_axes_together_run_over_cells_and_lower_ranks_are_repeated(void **state)
{
    (void)state;
    fby__table *t = open_golden("cells.h5", (fby__format_opts){.axes = 3});
    check_columns(t, "t ty v w"); /* 'four' is of another dimension, 'y' not the first one */
    assert_int_equal(t->n_rows, 72);
    check_type(t, "v", "float32");
    check_type(t, "w", "fixed_list<int16>[5]");
    assert_int_equal(set_of(t, "v")->repeat, 1);
    assert_int_equal(set_of(t, "v")->axes, 3);
    assert_int_equal(set_of(t, "ty")->repeat, 6);
    assert_int_equal(set_of(t, "ty")->axes, 2);
    assert_int_equal(set_of(t, "t")->repeat, 18);
    assert_int_equal(set_of(t, "w")->row_elements, 5);
    assert_int_equal(fby__h5_set_step(set_of(t, "v")), 18); /* chunks of (1, 3, 6) */
    assert_int_equal(fby__h5_set_step(set_of(t, "w")), 36); /* chunks of (2, 2, 4, 5) */
    uint64_t begin, end;
    fby__h5_indices(set_of(t, "ty"), 5, 13, &begin, &end);
    assert_int_equal(begin, 0);
    assert_int_equal(end, 3);
    fby__table_unref(t);
    (void)refusal("cells.h5", (fby__format_opts){.axes = 5}, FBY_E_SCHEMA);
    (void)refusal("cells.h5", (fby__format_opts){.axes = 3, .table = "t"}, FBY_E_SCHEMA);
}

static void rows_run_along_the_axis_or_the_dimension_that_is_named(void **state)
{
    (void)state;
    fby__table *t = open_golden("station.nc", (fby__format_opts){.dimension = "time"});
    check_columns(t, "byte flow t2m time");
    assert_int_equal(t->n_rows, 5);
    assert_int_equal(set_of(t, "t2m")->axis, 1);
    assert_int_equal(set_of(t, "t2m")->row_elements, 3);
    assert_int_equal(set_of(t, "flow")->axis, 0);
    check_type(t, "t2m", "fixed_list<float32>[3]");
    assert_string_equal(field_of(t, "t2m")->children[0].name, "station");
    fby__table_unref(t);
    t = open_golden("station.nc", (fby__format_opts){.table = "t2m", .axis = 1});
    check_columns(t, "t2m");
    assert_int_equal(t->n_rows, 5);
    fby__table_unref(t);
    t = open_golden("station.nc", (fby__format_opts){.table = "t2m", .axis = -1});
    assert_int_equal(set_of(t, "t2m")->axis, 1);
    fby__table_unref(t);
    t = open_golden("station.nc", (fby__format_opts){.table = "station"});
    check_columns(t, "name station t2m");                                /* 'nv' is a dimension and no variable */
    assert_string_equal(field_of(t, "station")->children[0].name, "nv"); /* by _Netcdf4Coordinates alone */
    assert_string_equal(set_of(t, "station")->dim_names[0], "station");
    assert_string_equal(field_of(t, "t2m")->children[0].name, "time");
    fby__table_unref(t);
}

/* ---- NetCDF conventions ---- */

static void missing_values_and_packing_are_known_unless_values_are_wanted_as_stored(void **state)
{
    (void)state;
    fby__table *t = open_golden("station.nc", (fby__format_opts){.dimension = "time"});
    const fby__h5_leaf *l = leaf_of(t, "t2m");
    assert_int_equal(l->stored, FBY_INT16);
    assert_int_equal(l->dtype, FBY_FLOAT32);
    assert_true(l->scaled);
    assert_true(l->scale_factor == (double)0.01f && l->add_offset == (double)273.15f);
    assert_int_equal(l->n_missing, 2);
    assert_int_equal(l->missing[0], (uint16_t)INT16_MIN); /* _FillValue, again in missing_value */
    assert_int_equal(l->missing[1], (uint16_t)-999);
    assert_string_equal(field_of(t, "t2m")->units, "K");
    assert_true(t->schema->fields[t->schema->leaves[fby__schema_find_leaf(t->schema, "t2m")].field].nullable);
    l = leaf_of(t, "flow");
    float f[2];
    memcpy(&f[0], &l->missing[0], sizeof *f);
    memcpy(&f[1], &l->missing[1], sizeof *f);
    assert_int_equal(l->n_missing, 2);
    assert_true(isnan(f[0]) && f[1] == -9999.0f);
    assert_false(l->scaled);
    l = leaf_of(t, "byte");
    assert_int_equal(l->stored, FBY_UINT8);
    assert_int_equal(l->missing[0], 255);
    assert_string_equal(field_of(t, "time")->units, "days since 1970-01-01");
    assert_true(field_of(t, "time")->nullable); /* where it was never written it holds NetCDF's default fill value */
    fby__table_unref(t);

    t = open_golden("station.nc", (fby__format_opts){.dimension = "time", .stored_values = true});
    l = leaf_of(t, "t2m");
    assert_int_equal(l->dtype, FBY_INT16);
    assert_int_equal(l->n_missing, 0);
    assert_false(l->scaled);
    assert_int_equal(leaf_of(t, "byte")->stored, FBY_INT8);
    assert_string_equal(field_of(t, "t2m")->units, "K");
    fby__table_unref(t);

    t = open_golden("station.nc", (fby__format_opts){.table = "wide"});
    assert_int_equal(leaf_of(t, "wide")->dtype, FBY_FLOAT64);   /* int32 times float32 */
    assert_int_equal(leaf_of(t, "double")->dtype, FBY_FLOAT64); /* one attribute is float64 */
    assert_false(leaf_of(t, "one")->scaled);
    assert_int_equal(leaf_of(t, "odd")->n_missing, 0); /* −1 is no uint8 */
    assert_string_equal(field_of(t, "odd")->units, "\xc2\xb0"
                                                   "C");
    assert_non_null(strstr(why_left_out(t, "many"), "more than 8 values"));
    fby__table_unref(t);
    t = open_golden("station.nc", (fby__format_opts){.table = "wide", .stored_values = true});
    assert_int_equal(leaf_of(t, "many")->n_missing, 0);
    fby__table_unref(t);
}

/* ---- knowing the format ---- */

static void a_file_behind_a_user_block_is_found_and_its_offsets_are_absolute(void **state)
{
    (void)state;
    fby__file *file;
    assert_int_equal(fby__file_open(GOLDEN "user_block.h5", NULL, &file, NULL), FBY_OK);
    assert_true(fby__h5_probe(file));
    float values[10];
    fby__table *t = open_golden("user_block.h5", (fby__format_opts){0});
    assert_int_equal(fby__h5_table_of(t)->address_base, 1024);
    const fby__h5_set *s = set_of(t, "x");
    assert_int_equal(s->n_chunks, 5);
    assert_int_equal(fby__file_read(file, s->chunks[2].offset, values, sizeof values, NULL), FBY_OK);
    assert_true(values[0] == 20.0f && values[9] == 29.0f);
    int16_t y[50];
    assert_int_equal(fby__file_read(file, set_of(t, "y")->data_offset, y, sizeof y, NULL), FBY_OK);
    assert_int_equal(y[49], 49);
    fby__table_unref(t);
    fby__file_unref(file);
    assert_int_equal(fby__file_open(GOLDEN "tables.h5", NULL, &file, NULL), FBY_OK);
    assert_false(fby__h5_probe(file));
    fby__file_unref(file);
    assert_int_equal(fby__hdf5_ops.bid((fby__bytes){(const uint8_t *)"\x89HDF\r\n\x1a\n", 8}, (fby__bytes){0}), 100);
    assert_int_equal(fby__hdf5_ops.bid((fby__bytes){(const uint8_t *)"\x89HDF\r\n\x1a", 7}, (fby__bytes){0}), 0);
}

int main(void)
{
    hide_helper();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_table_is_the_default_and_its_columns_are_all_data_sets_of_that_length),
        cmocka_unit_test(a_table_is_named_by_a_data_set_a_group_or_a_link),
        cmocka_unit_test(a_table_that_is_not_there_is_refused_with_those_that_are),
        cmocka_unit_test(a_file_without_rows_is_a_table_of_no_rows),
        cmocka_unit_test(every_type_has_its_meaning),
        cmocka_unit_test(what_is_no_column_is_left_out_with_the_reason),
        cmocka_unit_test(what_only_libhdf5_reads_is_a_column_where_the_helper_program_is),
        cmocka_unit_test(leading_axes_together_run_over_cells_and_lower_ranks_are_repeated),
        cmocka_unit_test(rows_run_along_the_axis_or_the_dimension_that_is_named),
        cmocka_unit_test(missing_values_and_packing_are_known_unless_values_are_wanted_as_stored),
        cmocka_unit_test(a_file_behind_a_user_block_is_found_and_its_offsets_are_absolute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
