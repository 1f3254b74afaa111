/* The Arrow C data interface: schemas out and in, arrays that own their buffers, and every allocation failing in turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "block/arrow.h"
#include "block/arrow_format.h"

static fby__schema_element element(const char *name, fby_kind kind, uint32_t n_children)
{
    return (fby__schema_element){
        .name = name, .name_n = (uint32_t)strlen(name), .n_children = n_children, .field = {.kind = kind, .nullable = true}};
}

static fby__schema *schema_of(const fby__schema_element *e, size_t n)
{
    fby__schema *schema = NULL;
    fby_error err;
    if (fby__schema_create(e, n, &schema, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return schema;
}

/* The format string a field of this kind is exported with. */
static void expect_format(fby_field field, const char *format)
{
    struct ArrowSchema out;
    fby_error err;
    field.name = field.path = "x";
    assert_int_equal(fby__arrow_schema_export(&field, NULL, &out, &err), FBY_OK);
    assert_string_equal(out.format, format);
    assert_string_equal(out.name, "x");
    assert_int_equal(out.flags, field.nullable ? ARROW_FLAG_NULLABLE : 0);
    out.release(&out);
    assert_null(out.release);
}

static void every_kind_is_exported_in_its_one_form(void **state)
{
    (void)state;
    static const struct {
        fby_dtype dtype;
        const char *format;
    } INTS[] = {{FBY_INT8, "c"},  {FBY_UINT8, "C"},  {FBY_INT16, "s"}, {FBY_UINT16, "S"},
                {FBY_INT32, "i"}, {FBY_UINT32, "I"}, {FBY_INT64, "l"}, {FBY_UINT64, "L"}};
    for (size_t i = 0; i < sizeof INTS / sizeof *INTS; i++)
        expect_format((fby_field){.kind = FBY_KIND_INT, .dtype = INTS[i].dtype}, INTS[i].format);
    expect_format((fby_field){.kind = FBY_KIND_FLOAT, .dtype = FBY_FLOAT16}, "e");
    expect_format((fby_field){.kind = FBY_KIND_FLOAT, .dtype = FBY_FLOAT32, .nullable = true}, "f");
    expect_format((fby_field){.kind = FBY_KIND_FLOAT, .dtype = FBY_FLOAT64}, "g");
    expect_format((fby_field){.kind = FBY_KIND_NULL, .nullable = true}, "n");
    expect_format((fby_field){.kind = FBY_KIND_BOOL, .dtype = FBY_BOOL}, "b");
    expect_format((fby_field){.kind = FBY_KIND_DECIMAL, .precision = 38, .scale = 2}, "d:38,2");
    expect_format((fby_field){.kind = FBY_KIND_DECIMAL, .precision = 39, .scale = -2}, "d:39,-2,256");
    expect_format((fby_field){.kind = FBY_KIND_DATE}, "tdD");
    expect_format((fby_field){.kind = FBY_KIND_TIME, .unit = FBY_UNIT_MS}, "ttm");
    expect_format((fby_field){.kind = FBY_KIND_TIME, .unit = FBY_UNIT_NS}, "ttn");
    expect_format((fby_field){.kind = FBY_KIND_TIMESTAMP, .unit = FBY_UNIT_US}, "tsu:");
    expect_format((fby_field){.kind = FBY_KIND_TIMESTAMP, .unit = FBY_UNIT_S, .utc = true}, "tss:UTC");
    expect_format((fby_field){.kind = FBY_KIND_DURATION, .unit = FBY_UNIT_MS}, "tDm");
    expect_format((fby_field){.kind = FBY_KIND_INTERVAL}, "w:12");
    expect_format((fby_field){.kind = FBY_KIND_STRING}, "U");
    expect_format((fby_field){.kind = FBY_KIND_BINARY}, "Z");
    expect_format((fby_field){.kind = FBY_KIND_FIXED_BINARY, .byte_width = 16}, "w:16");
}

static void a_type_without_counterpart_is_refused_by_name(void **state)
{
    (void)state;
    struct ArrowSchema out;
    fby_error err;
    fby_field wide = {.name = "v", .path = "s.v", .kind = FBY_KIND_DECIMAL, .precision = 77};
    assert_int_equal(fby__arrow_schema_export(&wide, NULL, &out, &err), FBY_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'s.v'"));
    fby_field bf16 = {.name = "b", .path = "b", .kind = FBY_KIND_FLOAT, .dtype = FBY_BFLOAT16};
    assert_int_equal(fby__arrow_schema_export(&bf16, NULL, &out, &err), FBY_E_UNSUPPORTED);
}

/* root { hits: list<struct<t: float32, n: int32>>, tags: map<string, binary>, v: fixed_list<int64>[3] } */
static fby__schema *nested_schema(void)
{
    fby__schema_element e[12];
    size_t n = 0;
    e[n++] = element("", FBY_KIND_STRUCT, 3);
    e[n++] = element("hits", FBY_KIND_LIST, 1);
    e[n++] = element("element", FBY_KIND_STRUCT, 2);
    e[n] = element("t", FBY_KIND_FLOAT, 0), e[n++].field.dtype = FBY_FLOAT32;
    e[n] = element("n", FBY_KIND_INT, 0), e[n].field.nullable = false, e[n++].field.dtype = FBY_INT32;
    e[n++] = element("tags", FBY_KIND_MAP, 1);
    e[n++] = element("key_value", FBY_KIND_STRUCT, 2);
    e[n++] = element("key", FBY_KIND_STRING, 0);
    e[n++] = element("value", FBY_KIND_BINARY, 0);
    e[n] = element("v", FBY_KIND_FIXED_LIST, 1), e[n++].field.list_size = 3;
    e[n] = element("item", FBY_KIND_INT, 0), e[n++].field.dtype = FBY_INT64;
    e[2].hidden_in_path = e[6].hidden_in_path = e[10].hidden_in_path = true;
    e[0].field.nullable = false;
    return schema_of(e, n);
}

static void nested_schemas_are_exported_with_64_bit_lists_and_plain_maps(void **state)
{
    (void)state;
    fby__schema *schema = nested_schema();
    struct ArrowSchema out;
    assert_int_equal(fby__arrow_schema_export(&schema->fields[0], NULL, &out, NULL), FBY_OK);
    assert_string_equal(out.format, "+s");
    assert_int_equal(out.flags, 0);
    assert_int_equal(out.n_children, 3);
    assert_string_equal(out.children[0]->format, "+L");
    assert_string_equal(out.children[0]->children[0]->children[1]->name, "n");
    assert_int_equal(out.children[0]->children[0]->children[1]->flags, 0);
    const struct ArrowSchema *map = out.children[1];
    assert_string_equal(map->format, "+m");
    assert_int_equal(map->children[0]->flags, 0); /* Arrow: entries and keys are never null, whatever the file says */
    assert_int_equal(map->children[0]->children[0]->flags, 0);
    assert_int_equal(map->children[0]->children[1]->flags, ARROW_FLAG_NULLABLE);
    assert_string_equal(out.children[2]->format, "+w:3");
    out.release(&out);
    fby__schema_unref(schema);
}

static void a_map_without_values_is_a_list(void **state)
{
    (void)state;
    fby__schema_element e[] = {element("", FBY_KIND_STRUCT, 1), element("m", FBY_KIND_MAP, 1), element("kv", FBY_KIND_STRUCT, 1),
                               element("key", FBY_KIND_STRING, 0)};
    fby__schema *schema = schema_of(e, 4);
    struct ArrowSchema out;
    assert_int_equal(fby__arrow_schema_export(&schema->fields[1], "renamed", &out, NULL), FBY_OK);
    assert_string_equal(out.format, "+L");
    assert_string_equal(out.name, "renamed");
    out.release(&out);
    fby__schema_unref(schema);
}

static void a_child_moved_out_outlives_its_parent(void **state)
{
    (void)state;
    fby__schema *schema = nested_schema();
    struct ArrowSchema out, child;
    assert_int_equal(fby__arrow_schema_export(&schema->fields[0], NULL, &out, NULL), FBY_OK);
    fby__schema_unref(schema);
    child = *out.children[0];
    out.children[0]->release = NULL;
    out.release(&out);
    assert_string_equal(child.name, "hits");
    assert_string_equal(child.children[0]->children[0]->format, "f");
    child.release(&child);

    struct ArrowArray array, moved;
    assert_int_equal(fby__arrow_array_create(1, 2, &array, NULL), FBY_OK);
    assert_null(array.children[1]->release);
    assert_int_equal(fby__arrow_array_create(2, 0, array.children[1], NULL), FBY_OK);
    int64_t *values = fby__malloc(8);
    *values = 42;
    fby__arrow_array_set_buffer(array.children[1], 1, values);
    moved = *array.children[1];
    array.children[1]->release = NULL;
    array.release(&array);
    assert_int_equal(*(const int64_t *)moved.buffers[1], 42);
    moved.release(&moved);
}

static void an_exported_schema_comes_back_the_same(void **state)
{
    (void)state;
    fby__schema *schema = nested_schema(), *back = NULL;
    struct ArrowSchema out;
    fby_error err;
    assert_int_equal(fby__arrow_schema_export(&schema->fields[0], NULL, &out, &err), FBY_OK);
    assert_int_equal(fby__arrow_schema_import(&out, &back, &err), FBY_OK);
    out.release(&out);
    assert_int_equal(back->n_fields, schema->n_fields);
    assert_int_equal(back->n_leaves, schema->n_leaves);
    for (uint32_t i = 0; i < schema->n_fields; i++) {
        assert_string_equal(back->fields[i].path, schema->fields[i].path);
        assert_int_equal(back->fields[i].kind, schema->fields[i].kind);
        assert_int_equal(back->fields[i].list_size, schema->fields[i].list_size);
    }
    assert_true(fby__schema_find_leaf(back, "hits.t") != FBY__NO_LEAF);
    assert_true(fby__schema_find_leaf(back, "tags.value") != FBY__NO_LEAF);
    fby__schema_unref(back);
    fby__schema_unref(schema);
}

/* ---- import of what others produce ---- */

static void keep(struct ArrowSchema *schema) { schema->release = NULL; }

/* A record batch of one column 'c'. */
static fby_status import_one(const char *format, struct ArrowSchema *child, struct ArrowSchema *dictionary, fby__schema **out,
                             fby_error *err)
{
    struct ArrowSchema *children[] = {child};
    struct ArrowSchema column = {.format = format,
                                 .name = "c",
                                 .flags = ARROW_FLAG_NULLABLE,
                                 .n_children = child ? 1 : 0,
                                 .children = children,
                                 .dictionary = dictionary,
                                 .release = keep};
    struct ArrowSchema *columns[] = {&column};
    struct ArrowSchema root = {.format = "+s", .name = "ignored", .n_children = 1, .children = columns, .release = keep};
    return fby__arrow_schema_import(&root, out, err);
}

static void forms_of_other_producers_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        fby_kind kind;
        fby_dtype dtype;
        fby_unit unit;
    } FORMS[] = {
        {"u", FBY_KIND_STRING, FBY_DTYPE_NONE, FBY_UNIT_NONE},
        {"vu", FBY_KIND_STRING, FBY_DTYPE_NONE, FBY_UNIT_NONE},
        {"z", FBY_KIND_BINARY, FBY_DTYPE_NONE, FBY_UNIT_NONE},
        {"vz", FBY_KIND_BINARY, FBY_DTYPE_NONE, FBY_UNIT_NONE},
        {"tdm", FBY_KIND_DATE, FBY_INT32, FBY_UNIT_NONE},
        {"tts", FBY_KIND_TIME, FBY_INT32, FBY_UNIT_S},
        {"ttu", FBY_KIND_TIME, FBY_INT64, FBY_UNIT_US},
        {"tsn:Europe/Berlin", FBY_KIND_TIMESTAMP, FBY_INT64, FBY_UNIT_NS},
        {"tDs", FBY_KIND_DURATION, FBY_INT64, FBY_UNIT_S},
        {"d:9,2,32", FBY_KIND_DECIMAL, FBY_FLOAT64, FBY_UNIT_NONE},
        {"d:60,-3,256", FBY_KIND_DECIMAL, FBY_FLOAT64, FBY_UNIT_NONE},
        {"w:5", FBY_KIND_FIXED_BINARY, FBY_DTYPE_NONE, FBY_UNIT_NONE},
        {"n", FBY_KIND_NULL, FBY_DTYPE_NONE, FBY_UNIT_NONE},
        {"b", FBY_KIND_BOOL, FBY_BOOL, FBY_UNIT_NONE},
        {"e", FBY_KIND_FLOAT, FBY_FLOAT16, FBY_UNIT_NONE},
        {"C", FBY_KIND_INT, FBY_UINT8, FBY_UNIT_NONE},
    };
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        fby__schema *schema = NULL;
        fby_error err;
        if (import_one(FORMS[i].format, NULL, NULL, &schema, &err) != FBY_OK)
            fail_msg("%s", err.message);
        const fby_field *f = &schema->fields[1];
        assert_int_equal(f->kind, FORMS[i].kind);
        assert_int_equal(f->dtype, FORMS[i].dtype);
        assert_int_equal(f->unit, FORMS[i].unit);
        assert_true(f->nullable);
        assert_true(f->utc == (strchr(FORMS[i].format, '/') != NULL));
        assert_string_equal(schema->fields[0].name, "");
        fby__schema_unref(schema);
    }
}

static void a_dictionary_encoded_column_has_the_type_of_its_values(void **state)
{
    (void)state;
    struct ArrowSchema values = {.format = "u", .name = "", .release = keep};
    fby__schema *schema = NULL;
    assert_int_equal(import_one("c", NULL, &values, &schema, NULL), FBY_OK);
    assert_int_equal(schema->fields[1].kind, FBY_KIND_STRING);
    fby__schema_unref(schema);
    fby_error err;
    assert_int_equal(import_one("g", NULL, &values, &schema, &err), FBY_E_ARG); /* indices are integers */
    struct ArrowSchema nested = {.format = "+s", .name = "", .release = keep};
    assert_int_equal(import_one("i", NULL, &nested, &schema, &err), FBY_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "column 'c'"));
}

static void what_cannot_be_read_is_refused_with_column_and_reason(void **state)
{
    (void)state;
    static const struct {
        const char *format, *says;
        fby_status status;
    } BAD[] = {
        {"+ud:0,1", "union", FBY_E_UNSUPPORTED},
        {"+us:0", "union", FBY_E_UNSUPPORTED},
        {"+r", "run-end", FBY_E_UNSUPPORTED},
        {"+vl", "list views", FBY_E_UNSUPPORTED},
        {"+vL", "list views", FBY_E_UNSUPPORTED},
        {"tin", "interval", FBY_E_UNSUPPORTED},
        {"", "no valid", FBY_E_ARG},
        {"q", "no valid", FBY_E_ARG},
        {"uu", "no valid", FBY_E_ARG},
        {"d:0,1", "no valid", FBY_E_ARG},
        {"d:77,1", "no valid", FBY_E_ARG},
        {"d:5", "no valid", FBY_E_ARG},
        {"d:5,1,100", "no valid", FBY_E_ARG},
        {"w:", "no valid", FBY_E_ARG},
        {"w:-1", "no valid", FBY_E_ARG},
        {"tsx:", "no valid", FBY_E_ARG},
        {"ts", "no valid", FBY_E_ARG},
        {"t", "no valid", FBY_E_ARG},
        {"+w:3x", "no valid", FBY_E_ARG},
        {"+l", "0 children", FBY_E_ARG},
        {"+s", "without fields", FBY_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        fby__schema *schema = NULL;
        fby_error err = {0};
        assert_int_equal(import_one(BAD[i].format, NULL, NULL, &schema, &err), BAD[i].status);
        assert_non_null(strstr(err.message, BAD[i].says));
        assert_non_null(strstr(err.message, "column 'c'"));
        assert_null(schema);
    }
    struct ArrowSchema leaf = {.format = "l", .name = "", .release = keep};
    fby__schema *schema;
    fby_error err;
    assert_int_equal(fby__arrow_schema_import(&leaf, &schema, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "record batches"));
    assert_int_equal(import_one("+m", &leaf, NULL, &schema, &err), FBY_E_ARG);
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    fby__schema *schema = nested_schema();
    unsigned points = 0;
    for (uint64_t at = 1;; at++) {
        struct ArrowSchema out;
        struct ArrowArray array;
        fby__schema *back = NULL;
        fby_error err;
        fby__alloc_fail_at(at);
        fby_status status = fby__arrow_schema_export(&schema->fields[0], NULL, &out, &err);
        if (status == FBY_OK) {
            status = fby__arrow_schema_import(&out, &back, &err);
            out.release(&out);
            if (status == FBY_OK)
                fby__schema_unref(back);
        }
        if (status == FBY_OK) {
            status = fby__arrow_array_create(2, 3, &array, &err);
            if (status == FBY_OK)
                array.release(&array);
        }
        fby__alloc_fail_at(0);
        if (status == FBY_OK)
            break;
        assert_int_equal(status, FBY_E_NOMEM);
        points++;
    }
    print_message("%u allocations failed in turn\n", points);
    assert_true(points > 30);
    fby__schema_unref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_exported_in_its_one_form),
        cmocka_unit_test(a_type_without_counterpart_is_refused_by_name),
        cmocka_unit_test(nested_schemas_are_exported_with_64_bit_lists_and_plain_maps),
        cmocka_unit_test(a_map_without_values_is_a_list),
        cmocka_unit_test(a_child_moved_out_outlives_its_parent),
        cmocka_unit_test(an_exported_schema_comes_back_the_same),
        cmocka_unit_test(forms_of_other_producers_are_understood),
        cmocka_unit_test(a_dictionary_encoded_column_has_the_type_of_its_values),
        cmocka_unit_test(what_cannot_be_read_is_refused_with_column_and_reason),
        cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
