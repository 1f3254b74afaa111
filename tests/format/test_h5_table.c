/*
 * HDF5 files as tables: golden files of h5py and netCDF4 (tests/golden/make_hdf5_table_golden.py), the costs of rows against
 * a count of chunk by chunk, freezing, failing allocations and reads, damage, and real files where they are.
 * The helper program is taken away, so that what needs it is left out.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "format/hdf5/table/table_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define GOLDEN FBY_TEST_DATA "/golden/hdf5_table/"

static const char *const GOLDEN_FILES[] = {"tables.h5", "types.h5",     "cells.h5",      "station.nc",
                                           "blocks.h5", "elsewhere.h5", "user_block.h5", "empty.h5"};
#define N_GOLDEN (sizeof GOLDEN_FILES / sizeof *GOLDEN_FILES)

static void hide_helper(void) { (void)setenv("FOREBAY_HDF5_HELPER", "none", 1); }

static fby__table *open_path(const char *path, const fby__format_opts *opts)
{
    fby__file *file;
    fby__table *t = NULL;
    fby_error err = {0};
    assert_int_equal(fby__file_open(path, NULL, &file, &err), FBY_OK);
    if (fby__h5_table_open(file, opts, &t, &err) != FBY_OK)
        fail_msg("%s: %s", path, err.message);
    fby__file_unref(file);
    return t;
}

static fby__table *open_golden(const char *name, fby__format_opts opts)
{
    char path[512];
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    return open_path(path, &opts);
}

/* The message of an opening that fails, in a static buffer. */
static const char *refusal(const char *name, fby__format_opts opts, fby_status want)
{
    static fby_error err;
    char path[512];
    fby__file *file;
    fby__table *t = NULL;
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    assert_int_equal(fby__file_open(path, NULL, &file, NULL), FBY_OK);
    assert_int_equal(fby__h5_table_open(file, &opts, &t, &err), want);
    assert_null(t);
    fby__file_unref(file);
    return err.message;
}

static const fby_field *field_of(const fby__table *t, const char *path)
{
    uint32_t i = fby__schema_find(t->schema, path);
    if (i == UINT32_MAX)
        fail_msg("there is no '%s'", path);
    return &t->schema->fields[i];
}

static const fby__h5_leaf *leaf_of(const fby__table *t, const char *path)
{
    uint32_t i = fby__schema_find_leaf(t->schema, path);
    if (i == FBY__NO_LEAF)
        fail_msg("there is no leaf '%s'", path);
    return &fby__h5_table_of(t)->leaves[i];
}

static const fby__h5_set *set_of(const fby__table *t, const char *path) { return &fby__h5_table_of(t)->sets[leaf_of(t, path)->set]; }

static void check_type(const fby__table *t, const char *path, const char *want)
{
    char text[256];
    (void)fby_field_type_text(field_of(t, path), text, sizeof text);
    assert_string_equal(text, want);
}

/* Names of the top-level fields, joined by spaces. */
static void check_columns(const fby__table *t, const char *want)
{
    char text[512] = "";
    const fby_field *root = t->schema->fields;
    for (uint32_t i = 0; i < root->n_children; i++) {
        (void)strcat(text, i ? " " : "");
        (void)strcat(text, root->children[i].name);
    }
    assert_string_equal(text, want);
}

static const char *why_left_out(const fby__table *t, const char *name)
{
    const fby__h5_table *h = fby__h5_table_of(t);
    for (uint32_t i = 0; i < h->n_left_out; i++)
        if (strcmp(h->left_out[i].name, name) == 0)
            return h->left_out[i].why;
    fail_msg("'%s' is not left out", name);
    return NULL;
}

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
        assert_int_equal(t->n_sources, 1);
        assert_true(t->sources[0].absent);
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

/* ---- blocks and bounds ---- */

static void blocks_are_whole_chunks_of_the_largest_set_and_of_a_worthwhile_size(void **state)
{
    (void)state;
    fby__table *t = open_golden("blocks.h5", (fby__format_opts){0});
    /* 10 chunks of 1,000 rows have 1 MiB of x, label, plain and whole; ten times that would meet label's chunks too, which is too many. */
    assert_int_equal(t->groups[0].step_rows, 1000);
    assert_int_equal(t->groups[0].block_rows, 10000);
    fby__table_unref(t);
    t = open_golden("blocks.h5", (fby__format_opts){.table = "tiny"});
    assert_int_equal(t->groups[0].step_rows, 1);
    assert_int_equal(t->groups[0].block_rows, 20000); /* 400 KB: chunks of 20 bytes are read together */
    fby__table_unref(t);
    t = open_golden("tables.h5", (fby__format_opts){0});
    assert_int_equal(t->groups[0].step_rows, 0); /* the largest set lies in one piece */
    assert_int_equal(t->groups[0].block_rows, 100);
    fby__table_unref(t);
}

/* A table of our own making: sets with chunks, no file. */
typedef struct made {
    fby__h5_table table;
    fby__h5_set sets[2];
    fby__h5_type type;
    fby__h5_chunk chunks[2][4096];
    fby__h5_leaf leaves[2];
} made;

static void make_set(made *m, uint32_t k, uint32_t rank, const uint64_t *dims, const uint32_t *chunk, uint32_t axis, uint32_t axes,
                     uint64_t repeat, unsigned every)
{
    fby__h5_set *s = &m->sets[k];
    m->type = (fby__h5_type){.class = FBY__H5_INTEGER, .bytes = 4};
    *s = (fby__h5_set){.rank = rank,
                       .axis = axis,
                       .axes = axes,
                       .repeat = repeat,
                       .row_elements = 1,
                       .type = &m->type,
                       .layout = FBY__H5_CHUNKED,
                       .chunks = m->chunks[k]};
    uint64_t all = 1;
    for (uint32_t i = 0; i < rank; i++) {
        s->dims[i] = dims[i];
        s->chunk[i] = chunk[i];
        s->grid[i] = (dims[i] + chunk[i] - 1) / chunk[i];
        all *= s->grid[i];
        if (i < axis || i >= axis + axes)
            s->row_elements *= dims[i];
    }
    for (uint64_t n = 0; n < all; n += every) {
        m->chunks[k][s->n_chunks] = (fby__h5_chunk){.number = n, .bytes = (uint32_t)(n * 7 % 13 + 1)};
        s->stored_bytes += m->chunks[k][s->n_chunks++].bytes;
    }
    m->leaves[k] = (fby__h5_leaf){.set = k, .type = &m->type, .elements = 1};
    m->table.sets = m->sets;
    m->table.leaves = m->leaves;
    m->table.n_sets = k + 1;
}

/* Which chunks hold a value of the rows, one value at a time; and of those, which hold one of other rows. */
static void count_by_hand(const fby__h5_set *s, uint64_t rows, uint64_t begin, uint64_t end, uint64_t *stored, uint64_t *n,
                          uint64_t *shared)
{
    static uint8_t in[4096], out[4096];
    uint64_t all = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        all *= s->dims[i];
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    for (uint64_t v = 0; v < all; v++) {
        uint64_t at[FBY__H5_MAX_RANK], rest = v, number = 0, row = 0;
        for (uint32_t i = s->rank; i-- > 0; rest /= s->dims[i])
            at[i] = rest % s->dims[i];
        for (uint32_t i = 0; i < s->rank; i++) {
            number = number * s->grid[i] + at[i] / s->chunk[i];
            if (i >= s->axis && i < s->axis + s->axes)
                row = row * s->dims[i] + at[i];
        }
        for (uint64_t r = row * s->repeat; r < (row + 1) * s->repeat && r < rows; r++)
            *(r >= begin && r < end ? &in[number] : &out[number]) = 1;
    }
    *stored = *n = *shared = 0;
    for (uint64_t k = 0; k < s->n_chunks; k++)
        if (in[s->chunks[k].number]) {
            *stored += s->chunks[k].bytes;
            ++*n;
            *shared += out[s->chunks[k].number];
        }
}

static void bounds_count_the_chunks_that_rows_touch(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank, axis, axes;
        uint64_t dims[4], repeat;
        uint32_t chunk[4];
    } want[] = {{1, 0, 1, {50}, 1, {7}},
                {2, 0, 1, {30, 11}, 1, {4, 3}},
                {2, 1, 1, {11, 30}, 1, {3, 4}},
                {3, 1, 1, {5, 30, 6}, 1, {2, 7, 4}},
                {3, 0, 3, {4, 6, 5}, 1, {1, 3, 5}},
                {3, 0, 2, {6, 5, 4}, 1, {2, 2, 3}},
                {2, 0, 2, {6, 4}, 5, {1, 2}},
                {1, 0, 1, {9}, 6, {2}},
                {3, 0, 3, {4, 6, 5}, 1, {1, 4, 5}},
                {3, 0, 3, {4, 6, 5}, 1, {1, 1, 2}}};
    made *m = calloc(1, sizeof *m);
    for (size_t w = 0; w < sizeof want / sizeof *want; w++)
        for (unsigned every = 1; every < 4; every++) {
            make_set(m, 0, want[w].rank, want[w].dims, want[w].chunk, want[w].axis, want[w].axes, want[w].repeat, every);
            const fby__h5_set *s = m->sets;
            uint64_t rows = s->repeat, chunk_bytes = 4, step = fby__h5_set_step(s);
            for (uint32_t i = 0; i < s->rank; i++) {
                chunk_bytes *= s->chunk[i];
                rows *= i >= s->axis && i < s->axis + s->axes ? s->dims[i] : 1;
            }
            m->table.base.n_rows = rows;
            for (uint64_t begin = 0; begin < rows; begin++)
                for (uint64_t end = begin + 1; end <= rows; end++) {
                    uint64_t stored, n, shared;
                    fby__leaf_bounds b;
                    fby__h5_leaf_bounds(&m->table.base, 0, begin, end, 0, &b);
                    count_by_hand(s, rows, begin, end, &stored, &n, &shared);
                    assert_int_equal(b.n_values, (end - begin) * s->row_elements);
                    bool exact = s->axes == 1 || (begin % step == 0 && (end % step == 0 || end == rows));
                    if (exact && (s->axes == 1 || end - begin <= step)) {
                        assert_int_equal(b.compressed_bytes, stored);
                        assert_int_equal(b.uncompressed_bytes, n * chunk_bytes);
                    }
                    assert_true(b.compressed_bytes >= stored && b.uncompressed_bytes >= n * chunk_bytes);
                    assert_true(b.shared_bytes >= shared * chunk_bytes && b.shared_bytes <= b.uncompressed_bytes);
                    if (begin % step == 0 && (end % step == 0 || end == rows))
                        assert_int_equal(b.shared_bytes, 0); /* no chunk crosses a step: that is what a step is */
                    assert_int_equal(b.scratch_bytes, chunk_bytes);
                }
        }
    free(m);
}

static void a_block_grows_to_meet_the_chunks_of_other_sets(void **state)
{
    (void)state;
    made *m = calloc(1, sizeof *m);
    const uint64_t dims[2] = {1000000, 8};
    make_set(m, 0, 2, dims, (uint32_t[]){1000, 8}, 0, 1, 1, 4096);
    make_set(m, 1, 1, dims, (uint32_t[]){10000}, 0, 1, 1, 4096);
    m->table.base.n_rows = 1000000;
    fby__group g;
    fby__h5_cut(&m->table, &g); /* 36 bytes a row: 30 chunks make 1 MiB, which meets 10,000 already */
    assert_int_equal(g.step_rows, 1000);
    assert_int_equal(g.block_rows, 30000);
    make_set(m, 1, 1, dims, (uint32_t[]){40000}, 0, 1, 1, 4096);
    m->table.n_sets = 2;
    fby__h5_cut(&m->table, &g);
    assert_int_equal(g.block_rows, 120000);
    make_set(m, 1, 1, dims, (uint32_t[]){700000}, 0, 1, 1, 4096);
    fby__h5_cut(&m->table, &g);
    assert_int_equal(g.block_rows, 30000); /* nothing within eight times */
    m->sets[0].stored_bytes = (uint64_t)1000 << 30;
    fby__h5_cut(&m->table, &g);
    assert_int_equal(g.block_rows, 1000); /* a chunk row of a gigabyte: one is a block */
    free(m);
}

static void inspect_is_told_filters_and_chunks(void **state)
{
    (void)state;
    fby__table *t = open_golden("tables.h5", (fby__format_opts){0});
    fby_chunk_info info = {.size = sizeof info};
    fby_error err;
    assert_int_equal(fby__h5_describe(t, NULL, 0, fby__schema_find_leaf(t->schema, "events/x"), &info, &err), FBY_OK);
    const char *codec = info.codec;
    assert_int_equal(info.n_pages, 10);
    assert_int_equal(info.n_values, 100);
    assert_int_equal(info.uncompressed_bytes, 400);
    assert_int_equal(info.compressed_bytes, set_of(t, "events/x")->stored_bytes);
    assert_int_equal(fby__h5_describe(t, NULL, 0, fby__schema_find_leaf(t->schema, "events/id"), &info, &err), FBY_OK);
    assert_true(info.has_crc);
    assert_string_equal(info.codec, "fletcher32");
    assert_int_equal(fby__h5_describe(t, NULL, 0, fby__schema_find_leaf(t->schema, "events/flag"), &info, &err), FBY_OK);
    assert_string_equal(info.codec, "none");
    assert_int_equal(info.n_pages, 1);
    assert_int_equal(fby__h5_describe(t, NULL, 1, 0, &info, &err), FBY_E_ARG);
    fby__table_unref(t);
    assert_string_equal(codec, "shuffle+deflate"); /* outlives the table */
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

/* ---- freezing ---- */

static fby__buf frozen_of(const fby__table *t)
{
    fby__buf blob = {0};
    assert_int_equal(fby__h5_freeze(t, &blob, NULL), FBY_OK);
    return blob;
}

static void a_frozen_table_thaws_to_an_equal_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GOLDEN; i++)
        for (int axes = 0; axes < 4; axes += 3) {
            if (axes && strcmp(GOLDEN_FILES[i], "cells.h5") != 0)
                continue;
            fby__table *t = open_golden(GOLDEN_FILES[i], (fby__format_opts){.axes = axes}), *again = NULL;
            fby__buf schema_blob = {0}, blob = frozen_of(t);
            fby__schema *schema;
            assert_int_equal(fby__schema_freeze(t->schema, &schema_blob, NULL), FBY_OK);
            assert_int_equal(fby__schema_thaw((fby__bytes){schema_blob.data, schema_blob.n}, &schema, NULL), FBY_OK);
            assert_true(fby__hash_equal(schema->hash, t->schema->hash));
            for (uint32_t k = 0; k < schema->n_fields; k++) {
                const char *a = schema->fields[k].units, *b = t->schema->fields[k].units;
                assert_true(a == b || strcmp(a, b) == 0);
            }
            assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, blob.n}, schema, &again, NULL), FBY_OK);
            fby__schema_unref(schema);
            fby__buf second = frozen_of(again);
            assert_int_equal(second.n, blob.n);
            assert_memory_equal(second.data, blob.data, blob.n);
            assert_memory_equal(again->groups, t->groups, sizeof *t->groups);
            fby__buf_fini(&second);
            fby__buf_fini(&blob);
            fby__buf_fini(&schema_blob);
            fby__table_unref(again);
            fby__table_unref(t);
        }
}

static void a_damaged_frozen_table_is_refused(void **state)
{
    (void)state;
    fby__table *t = open_golden("station.nc", (fby__format_opts){0}), *again = NULL;
    fby__table *other = open_golden("tables.h5", (fby__format_opts){0});
    fby__buf blob = frozen_of(t);
    for (size_t i = 0; i < blob.n; i++) {
        blob.data[i] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, NULL), FBY_E_FORMAT);
        blob.data[i] ^= (uint8_t)(1u << i % 8);
    }
    for (size_t n = 0; n < blob.n; n++)
        assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, n}, t->schema, &again, NULL), FBY_E_FORMAT);
    assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, blob.n}, other->schema, &again, NULL), FBY_E_FORMAT);
    fby__buf_fini(&blob);
    fby__table_unref(other);
    fby__table_unref(t);
}

/* The checksum set right again after each change: what is wrong then has to be found by itself, or to do no harm. */
static void a_forged_frozen_table_never_points_outside_its_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        fby__table *t = open_golden(GOLDEN_FILES[i], (fby__format_opts){0});
        fby__buf blob = frozen_of(t);
        for (size_t at = 24; at < blob.n; at++) {
            uint8_t before = blob.data[at];
            for (int k = 0; k < 2; k++) {
                fby__table *again = NULL;
                blob.data[at] = k ? (uint8_t)(before ^ 1) : 0xff;
                fby__hash128 h = fby__hash_more(fby__hash(blob.data, 16), blob.data + 24, blob.n - 24);
                memcpy(blob.data + 16, &h.lo, 8);
                fby_status st = fby__h5_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, NULL);
                assert_true(st == FBY_OK || st == FBY_E_FORMAT || st == FBY_E_NOMEM);
                if (st != FBY_OK)
                    continue;
                const fby__h5_table *g = fby__h5_table_of(again);
                for (uint32_t s = 0; s < g->n_sets; s++)
                    for (uint64_t c = 0; c < g->sets[s].n_chunks; c++)
                        assert_true(g->sets[s].chunks[c].offset + g->sets[s].chunks[c].bytes <= g->file_bytes);
                assert_true(*(const uint8_t *)&g->leaves[0].scaled <= 1); /* a bool */
                fby__table_unref(again);
            }
            blob.data[at] = before;
        }
        fby__buf_fini(&blob);
        fby__table_unref(t);
    }
}

/* ---- failures ---- */

static fby_status open_freeze_thaw(const char *path, fby_error *err)
{
    fby__file *file = NULL;
    fby__table *t = NULL, *again = NULL;
    fby__buf blob = {0};
    fby_status st = fby__file_open(path, NULL, &file, err);
    if (st == FBY_OK)
        st = fby__h5_table_open(file, &(fby__format_opts){0}, &t, err);
    if (st == FBY_OK)
        st = fby__h5_freeze(t, &blob, err);
    if (st == FBY_OK)
        st = fby__h5_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, err);
    fby__alloc_fail_at(0);
    fby__io_set_fault(&(fby__io_fault){0});
    fby__buf_fini(&blob);
    fby__table_unref(again);
    fby__table_unref(t);
    fby__file_unref(file);
    return st;
}

static void a_failing_allocation_or_read_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GOLDEN; i++)
        for (int kind = 0; kind < 2; kind++) {
            char path[512];
            fby_status st = FBY_E_INTERNAL;
            unsigned failed = 0;
            (void)snprintf(path, sizeof path, GOLDEN "%s", GOLDEN_FILES[i]);
            for (uint64_t at = 1; st != FBY_OK; at++) {
                fby_error err = {0};
                if (kind == 0)
                    fby__alloc_fail_at(at);
                else
                    fby__io_set_fault(&(fby__io_fault){.fail_at = at});
                st = open_freeze_thaw(path, &err);
                if (st == FBY_OK)
                    break;
                if (st != (kind == 0 ? FBY_E_NOMEM : FBY_E_IO))
                    fail_msg("%s, %s %llu: %s", path, kind ? "read" : "allocation", (unsigned long long)at, err.message);
                failed++;
            }
            assert_true(failed > (kind == 0 ? 8 : 0));
        }
}

/* Each byte of the small files turned round, a few of each 64 in the larger ones: a table or an error, no crash. */
static void a_damaged_file_is_an_error_or_a_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GOLDEN; i++) {
        char path[512], copy[64];
        fby_error err = {0};
        (void)snprintf(path, sizeof path, GOLDEN "%s", GOLDEN_FILES[i]);
        fby__file *file;
        assert_int_equal(fby__file_open(path, NULL, &file, &err), FBY_OK);
        size_t n = (size_t)fby__file_stamp_of(file)->size_bytes, step = n / 1500 + 1;
        int fd = memfd_create("damaged", 0);
        uint8_t *bytes = fd >= 0 && ftruncate(fd, (off_t)n) == 0 ? mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        assert_true(bytes != MAP_FAILED);
        assert_int_equal(fby__file_read(file, 0, bytes, n, &err), FBY_OK);
        (void)snprintf(copy, sizeof copy, "/proc/self/fd/%d", fd);
        for (size_t at = 0; at < n; at += step) {
            uint8_t before = bytes[at];
            bytes[at] = (uint8_t)(at % 3 == 0 ? 0xff : at % 3 == 1 ? before ^ 1 : before + 3);
            fby_status st = open_freeze_thaw(copy, &err);
            if (st != FBY_OK && st != FBY_E_FORMAT && st != FBY_E_UNSUPPORTED && st != FBY_E_SCHEMA && st != FBY_E_NOMEM)
                fail_msg("%s, byte %zu: %s", path, at, err.message);
            bytes[at] = before;
        }
        (void)munmap(bytes, n);
        (void)close(fd);
        fby__file_unref(file);
    }
}

/* ---- real files ---- */

static void real_files_have_the_tables_that_h5py_shows(void **state)
{
    (void)state;
    static const struct {
        const char *file, *name, *table, *dimension;
        uint64_t rows;
        uint32_t leaves;
    } want[] = {{"acoustic/decimated_optodas.hdf5", "/data", NULL, NULL, 5000, 1},
                {"acoustic/febus_2.h5", "/fa1-24090193/Source1/Zone1/PSD [dB re 1 nStrain|sqrt(Hz)]", NULL, NULL, 1, 2},
                {"acoustic/neubrex_dts_forge.h5", "/data", NULL, NULL, 458, 3},
                {"acoustic/neubrex_dts_forge.h5", "/depth", "depth", NULL, 6183, 1},
                {"acoustic/prodml_fbe_1.h5", "/Acquisition/Processed/Fbe[0]/FbeData[0]", NULL, NULL, 453, 6},
                {"acoustic/terra15_v5_test_file.hdf5", "/data_product/data", NULL, NULL, 2060, 3},
                {"acoustic/xdas_netcdf.nc", "/__values__", NULL, NULL, 300, 1},
                {"hydrology/ngen_gauge_01073000_forcing.nc", "/Time", NULL, NULL, 5, 10},
                {"hydrology/ngen_gauge_01073000_forcing.nc", "/Time", NULL, "time", 720, 9},
                {"hydrology/rapid_qout_sandbox.nc4", "/Qout", NULL, NULL, 80, 1},
                {"jets/spanet_full_hadronic_ttbar.h5", "/INPUTS/Source/btag", NULL, NULL, 10000, 12},
                {"jets/spanet_full_hadronic_ttbar.h5", "/TARGETS/t1/b", "TARGETS", NULL, 10000, 6},
                {"neutrino/liquido_electrons.h5", "/HitData", NULL, NULL, 121096, 1},
                {"neutrino/liquido_electrons.h5", "/SiPMIDxyz", "SiPMIDxyz", NULL, 12860, 4}};
    unsigned absent = 0;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, FBY_SOURCE_DIR "/../shared/data/%s", want[i].file);
        if (access(path, R_OK) != 0) {
            absent++;
            continue;
        }
        fby__table *t = open_path(path, &(fby__format_opts){.table = want[i].table, .dimension = want[i].dimension});
        const fby__h5_table *h = fby__h5_table_of(t);
        assert_string_equal(h->name, want[i].name);
        assert_int_equal(t->n_rows, want[i].rows);
        assert_int_equal(t->schema->n_leaves, want[i].leaves);
        assert_int_equal(h->n_left_out, 0);
        /* Blocks add up: each stored byte belongs to a block, those of chunks across a border to two or more. */
        uint64_t stored = 0, block = t->groups[0].block_rows;
        for (uint64_t at = 0; at < t->n_rows; at += block)
            for (uint32_t leaf = 0; leaf < t->schema->n_leaves; leaf++) {
                fby__leaf_bounds b;
                fby__h5_leaf_bounds(t, 0, at, at + block < t->n_rows ? at + block : t->n_rows, leaf, &b);
                stored += b.compressed_bytes;
            }
        assert_true(stored >= t->groups[0].stored_bytes || h->sets[0].layout == FBY__H5_CHUNKED);
        fby__table_unref(t);
    }
    if (absent == sizeof want / sizeof *want) {
        print_message("skipped: no real files at " FBY_SOURCE_DIR "/../shared/data\n");
        skip();
    }
}

static void thawing_a_thousand_tables_takes_a_moment(void **state)
{
    (void)state;
    fby__table *t = open_golden("tables.h5", (fby__format_opts){0});
    fby__buf blob = frozen_of(t);
    uint64_t begin = fby__clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < 1000; i++) {
        fby__table *again = NULL;
        assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, NULL), FBY_OK);
        fby__table_unref(again);
    }
    double seconds = (double)(fby__clock_ns(CLOCK_MONOTONIC) - begin) / 1e9;
    print_message("1,000 tables of %zu bytes: %.4f s\n", blob.n, seconds);
    assert_true(seconds < 5); /* sanitizers and a busy machine: 0.005 s without */
    fby__buf_fini(&blob);
    fby__table_unref(t);
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
        cmocka_unit_test(blocks_are_whole_chunks_of_the_largest_set_and_of_a_worthwhile_size),
        cmocka_unit_test(bounds_count_the_chunks_that_rows_touch),
        cmocka_unit_test(a_block_grows_to_meet_the_chunks_of_other_sets),
        cmocka_unit_test(inspect_is_told_filters_and_chunks),
        cmocka_unit_test(a_file_behind_a_user_block_is_found_and_its_offsets_are_absolute),
        cmocka_unit_test(a_frozen_table_thaws_to_an_equal_one),
        cmocka_unit_test(a_damaged_frozen_table_is_refused),
        cmocka_unit_test(a_forged_frozen_table_never_points_outside_its_file),
        cmocka_unit_test(a_failing_allocation_or_read_is_an_error_and_leaks_nothing),
        cmocka_unit_test(a_damaged_file_is_an_error_or_a_table),
        cmocka_unit_test(real_files_have_the_tables_that_h5py_shows),
        cmocka_unit_test(thawing_a_thousand_tables_takes_a_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
