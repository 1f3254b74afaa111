/* Parquet schemas made by hand: legacy lists and maps, annotations, and what is refused. */
#include "format/parquet_meta_tests.h"

/* Open a file of no row groups with this schema; its type as text, or the error. */
static fby__schema *schema_of(const spec *specs, size_t n, const char *want)
{
    writer w = {0};
    w_i32(&w, 1, 2);
    w_schema(&w, specs, n);
    w_i64(&w, 3, 0);
    w_list(&w, 4, FBY__THRIFT_STRUCT, 0);
    w_byte(&w, 0);
    fby__buf b = parquet_bytes((fby__bytes){0}, (fby__bytes){w.b.data, w.b.n});
    fby__table *t = NULL;
    fby_error err;
    fby_status st = open_bytes(b.data, b.n, &t, NULL, &err);
    fby__buf_fini(&w.b);
    fby__buf_fini(&b);
    if (st != FBY_OK) {
        assert_non_null(strstr(err.message, want));
        return NULL;
    }
    check_type(&t->schema->fields[0], want);
    fby__schema *s = fby__schema_ref(t->schema);
    fby__table_unref(t);
    return s;
}

#define R FBY__PQ_REQUIRED
#define O FBY__PQ_OPTIONAL
#define P FBY__PQ_REPEATED
#define LIST .converted = FBY__PQ_CONV_LIST + 1
#define MAP .converted = FBY__PQ_CONV_MAP + 1
#define I32 .type = FBY__PQ_INT32
#define G(n, r, children)                                                                                                                  \
    {                                                                                                                                      \
        .name = n, .repetition = r, .n_children = children                                                                                 \
    }

/* The examples of LogicalTypes.md, and what else is about. def and rep: of each leaf. */
static void every_legacy_shape_of_lists_and_maps_is_understood(void **state)
{
    (void)state;
    static const struct {
        const char *want;
        spec s[8];
        uint16_t def[2], rep[2];
    } cases[] = {
        {"struct<a: list<int32>>", {G("root", R, 1), {"a", O, 1, LIST}, G("list", P, 1), {"element", O, I32}}, {3}, {1}},
        {"struct<a: list<int32>>", /* logical type alone, other names */
         {G("root", R, 1), {"a", R, 1, .logical = FBY__PQ_LOGICAL_LIST}, G("bag", P, 1), {"item", R, I32}},
         {1},
         {1}},
        {"struct<a: list<int32>>", /* two levels: a repeated primitive */
         {G("root", R, 1), {"a", O, 1, LIST}, {"element", P, I32}},
         {2},
         {1}},
        {"struct<a: list<struct<str: int32, num: int32>>>", /* a repeated group of two */
         {G("root", R, 1), {"a", O, 1, LIST}, G("element", P, 2), {"str", R, I32}, {"num", O, I32}},
         {2, 3},
         {1, 1}},
        {"struct<a: list<struct<str: int32>>>", {G("root", R, 1), {"a", O, 1, LIST}, G("array", P, 1), {"str", R, I32}}, {2}, {1}},
        {"struct<a: list<struct<str: int32>>>", {G("root", R, 1), {"a", O, 1, LIST}, G("a_tuple", P, 1), {"str", R, I32}}, {2}, {1}},
        {"struct<a: list<int32>>", /* another list's tuple is none */
         {G("root", R, 1), {"a", O, 1, LIST}, G("b_tuple", P, 1), {"str", R, I32}},
         {2},
         {1}},
        {"struct<a: list<int32>>", /* repeated, no annotation */
         {G("root", R, 1), {"a", P, I32}},
         {1},
         {1}},
        {"struct<a: list<struct<x: int32, y: int32>>>", {G("root", R, 1), G("a", P, 2), {"x", R, I32}, {"y", O, I32}}, {1, 2}, {1, 1}},
        {"struct<a: list<list<int32>>>", /* two-level lists in each other: parquet-avro */
         {G("root", R, 1), {"a", O, 1, LIST}, {"array", P, 1, LIST}, {"array", P, I32}},
         {3},
         {2}},
        {"struct<a: list<struct<list: list<int32>>>>", /* the inner one without annotation */
         {G("root", R, 1), {"a", O, 1, LIST}, G("list", P, 1), {"list", P, I32}},
         {3},
         {2}},
        {"struct<a: list<list<int32>>>",
         {G("root", R, 1), {"a", O, 1, LIST}, G("list", P, 1), {"element", O, 1, LIST}, G("list", P, 1), {"element", O, I32}},
         {5},
         {2}},
        {"struct<a: map<int32, int32>>",
         {G("root", R, 1), {"a", O, 1, MAP}, G("key_value", P, 2), {"key", R, I32}, {"value", O, I32}},
         {2, 3},
         {1, 1}},
        {"struct<a: map<int32, int32>>", /* other names, the annotation on both */
         {G("root", R, 1), {"a", R, 1, MAP}, {"map", P, 2, .converted = FBY__PQ_CONV_MAP_KEY_VALUE + 1}, {"k", R, I32}, {"v", R, I32}},
         {1, 1},
         {1, 1}},
        {"struct<a: map<int32, int32>>", /* MAP_KEY_VALUE on the outer group */
         {G("root", R, 1), {"a", O, 1, .converted = FBY__PQ_CONV_MAP_KEY_VALUE + 1}, G("map", P, 2), {"key", R, I32}, {"value", O, I32}},
         {2, 3},
         {1, 1}},
        {"struct<a: list<struct<key: int32, value: int32>>>", /* an optional key, which Arrow's maps cannot have */
         {G("root", R, 1), {"a", O, 1, MAP}, G("key_value", P, 2), {"key", O, I32}, {"value", O, I32}},
         {3, 3},
         {1, 1}},
        {"struct<a: list<int32>>", /* a map without values */
         {G("root", R, 1), {"a", O, 1, MAP}, {"key_value", P, 1, .converted = FBY__PQ_CONV_MAP_KEY_VALUE + 1}, {"key", R, I32}},
         {2},
         {1}},
        {"struct<a: list<map<int32, int32>>>", /* a repeated map is an element */
         {G("root", R, 1),
          {"a", O, 1, LIST},
          {"element", P, 1, .logical = FBY__PQ_LOGICAL_MAP},
          G("key_value", P, 2),
          {"key", R, I32},
          {"value", R, I32}},
         {3, 3},
         {2, 2}},
        {"struct<a: struct<x: int32, y: int32>>", /* no list, whatever it says */
         {G("root", R, 1), {"a", O, 2, LIST}, {"x", O, I32}, {"y", R, I32}},
         {2, 1},
         {0, 0}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t n = 0;
        while (n < 8 && cases[i].s[n].name)
            n++;
        fby__schema *s = schema_of(cases[i].s, n, cases[i].want);
        assert_non_null(s);
        for (uint32_t leaf = 0; leaf < s->n_leaves; leaf++) {
            assert_int_equal(s->leaves[leaf].max_def, cases[i].def[leaf]);
            assert_int_equal(s->leaves[leaf].max_rep, cases[i].rep[leaf]);
        }
        fby__schema_unref(s);
    }
}

static void elements_of_legacy_lists_are_never_null(void **state)
{
    (void)state;
    static const spec specs[] = {G("root", R, 1), {"a", O, 1, LIST}, {"array", P, I32}};
    fby__schema *s = schema_of(specs, 3, "struct<a: list<int32>>");
    assert_non_null(s);
    const fby_field *a = &s->fields[1];
    assert_true(a->nullable);
    assert_false(a->children[0].nullable);
    assert_string_equal(a->children[0].path, "a");
    assert_int_equal(s->nodes[1].def_level, 1);
    assert_int_equal(s->nodes[1].list_def_level, 2);
    assert_int_equal(s->nodes[2].def_level, 2);
    fby__schema_unref(s);
}

static void annotations_say_what_values_mean(void **state)
{
    (void)state;
    static const struct {
        const char *want;
        spec s;
    } cases[] = {
        {"uint8", {I32, .converted = FBY__PQ_CONV_UINT_8 + 1}},
        {"int16", {I32, .converted = FBY__PQ_CONV_INT_16 + 1}},
        {"uint64", {.type = FBY__PQ_INT64, .converted = FBY__PQ_CONV_UINT_64 + 1}},
        {"uint16", {I32, .logical = FBY__PQ_LOGICAL_INTEGER, .bits = 16}},
        {"int8", {I32, .logical = FBY__PQ_LOGICAL_INTEGER, .bits = 8, .flag = true}},
        {"int32", {I32, .logical = FBY__PQ_LOGICAL_INTEGER, .bits = 12, .flag = true}},                          /* no such width */
        {"int64", {.type = FBY__PQ_INT64, .converted = FBY__PQ_CONV_UINT_8 + 1}},                                /* does not fit */
        {"uint32", {I32, .converted = FBY__PQ_CONV_INT_32 + 1, .logical = FBY__PQ_LOGICAL_INTEGER, .bits = 32}}, /* logical wins */
        {"timestamp[us, UTC]", {.type = FBY__PQ_INT64, .converted = FBY__PQ_CONV_TIMESTAMP_MICROS + 1}},
        {"timestamp[ms, UTC]", {.type = FBY__PQ_INT64, .converted = FBY__PQ_CONV_TIMESTAMP_MILLIS + 1}},
        {"timestamp[ns, UTC]", {.type = FBY__PQ_INT64, .logical = FBY__PQ_LOGICAL_TIMESTAMP, .unit = 3, .flag = true}},
        {"timestamp[ms]", {.type = FBY__PQ_INT64, .logical = FBY__PQ_LOGICAL_TIMESTAMP, .unit = 1}},
        {"time[ms]", {I32, .converted = FBY__PQ_CONV_TIME_MILLIS + 1}},
        {"time[us]", {.type = FBY__PQ_INT64, .logical = FBY__PQ_LOGICAL_TIME, .unit = 2, .flag = true}},
        {"date", {I32, .converted = FBY__PQ_CONV_DATE + 1}},
        {"decimal(5, 2)", {I32, .converted = FBY__PQ_CONV_DECIMAL + 1, .precision = 5, .scale = 2}},
        {"decimal(18, 18)", {.type = FBY__PQ_INT64, .logical = FBY__PQ_LOGICAL_DECIMAL, .precision = 18, .scale = 18}},
        {"decimal(40, 1)", {.type = FBY__PQ_FLBA, .type_length = 17, .logical = FBY__PQ_LOGICAL_DECIMAL, .precision = 40, .scale = 1}},
        {"decimal(40, 1)", {.type = FBY__PQ_BYTE_ARRAY, .logical = FBY__PQ_LOGICAL_DECIMAL, .precision = 40, .scale = 1}},
        {"int32", {I32, .converted = FBY__PQ_CONV_DECIMAL + 1, .precision = 2, .scale = 3}}, /* scale above precision */
        {"string", {.type = FBY__PQ_BYTE_ARRAY, .converted = FBY__PQ_CONV_UTF8 + 1}},
        {"string", {.type = FBY__PQ_BYTE_ARRAY, .logical = FBY__PQ_LOGICAL_JSON}},
        {"string", {.type = FBY__PQ_BYTE_ARRAY, .converted = FBY__PQ_CONV_ENUM + 1}},
        {"binary", {.type = FBY__PQ_BYTE_ARRAY, .logical = FBY__PQ_LOGICAL_BSON}},
        {"binary", {.type = FBY__PQ_BYTE_ARRAY, .logical = 17}}, /* geometry, to come */
        {"fixed_binary[16]", {.type = FBY__PQ_FLBA, .type_length = 16, .logical = FBY__PQ_LOGICAL_UUID}},
        {"float16", {.type = FBY__PQ_FLBA, .type_length = 2, .logical = FBY__PQ_LOGICAL_FLOAT16}},
        {"fixed_binary[4]", {.type = FBY__PQ_FLBA, .type_length = 4, .logical = FBY__PQ_LOGICAL_FLOAT16}},
        {"interval", {.type = FBY__PQ_FLBA, .type_length = 12, .converted = FBY__PQ_CONV_INTERVAL + 1}},
        {"null", {.type = FBY__PQ_BOOLEAN, .logical = FBY__PQ_LOGICAL_UNKNOWN}},
        {"bool", {.type = FBY__PQ_BOOLEAN}},
        {"float64", {.type = FBY__PQ_DOUBLE}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char want[64];
        spec specs[] = {ROOT_OF_ONE, cases[i].s};
        specs[1].name = "a";
        (void)snprintf(want, sizeof want, "struct<a: %s>", cases[i].want);
        fby__schema *s = schema_of(specs, 2, want);
        assert_non_null(s);
        fby__schema_unref(s);
    }
}

static void schemas_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const spec fixed[] = {G("root", R, 1), {"a", R, .type = FBY__PQ_FLBA}};
    assert_null(schema_of(fixed, 2, "'a' has fixed-length values of 0 bytes"));
    static const spec type[] = {G("root", R, 1), {"a", R, .type = 9}};
    assert_null(schema_of(type, 2, "'a' is a group without members or has an unknown type"));
    static const spec more[] = {{"root", .n_children = 2}, {"a", R, I32}};
    assert_null(schema_of(more, 2, "ends before"));
    static const spec less[] = {G("root", R, 1), {"a", R, I32}, {"b", R, I32}};
    assert_null(schema_of(less, 3, "ends after"));
    static const spec repetition[] = {G("root", R, 1), {"a", 3, I32}};
    assert_null(schema_of(repetition, 2, "neither required"));
    static const spec negative[] = {G("root", R, 1), G("a", R, -1)};
    assert_null(schema_of(negative, 2, "negative"));
    spec deep[FBY__MAX_LEVEL + 3];
    for (size_t i = 0; i < COUNT(deep); i++)
        deep[i] = (spec){"g", O, i + 1 < COUNT(deep), I32};
    assert_null(schema_of(deep, COUNT(deep), "deeper than"));
    for (size_t i = 1; i < 70; i++)
        deep[i].repetition = P; /* 70 repeated groups are 140 levels of ours */
    deep[70] = (spec){"x", R, I32};
    assert_null(schema_of(deep, 71, "deeper than"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_legacy_shape_of_lists_and_maps_is_understood),
        cmocka_unit_test(elements_of_legacy_lists_are_never_null),
        cmocka_unit_test(annotations_say_what_values_mean),
        cmocka_unit_test(schemas_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
