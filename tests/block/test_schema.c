/* Schemas: layout, lookup, type names, freezing. Against a naive twin on random trees, and with every allocation
 * failing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"
#include "block/schema.h"
#include "support/test_seed.h"

static fby__schema_element element(const char *name, fby_kind kind, uint32_t n_children)
{
    return (fby__schema_element){.name = name, .name_n = (uint32_t)strlen(name), .n_children = n_children, .field = {.kind = kind}};
}

static fby__schema_element number(const char *name, fby_dtype dtype)
{
    fby__schema_element e = element(name, FBY_KIND_INT, 0);
    e.field.dtype = dtype;
    return e;
}

static fby__schema_element hidden(fby__schema_element e)
{
    e.hidden_in_path = true;
    return e;
}

/* root { id, hits: list<int16>, pulses: list<struct<time, dom>>, tags: map<string, int64>, last } */
static size_t sample_elements(fby__schema_element *e)
{
    size_t n = 0;
    e[n++] = element("schema", FBY_KIND_STRUCT, 5);
    e[n++] = number("id", FBY_INT32);
    e[n++] = element("hits", FBY_KIND_LIST, 1);
    e[n++] = hidden(number("element", FBY_INT16));
    e[n++] = element("pulses", FBY_KIND_LIST, 1);
    e[n++] = hidden(element("element", FBY_KIND_STRUCT, 2));
    e[n++] = number("time", FBY_INT64);
    e[n++] = number("dom", FBY_UINT8);
    e[n++] = element("tags", FBY_KIND_MAP, 1);
    e[n++] = hidden(element("key_value", FBY_KIND_STRUCT, 2));
    e[n++] = element("key", FBY_KIND_STRING, 0);
    e[n++] = number("value", FBY_INT64);
    e[n++] = number("last", FBY_INT8);
    for (size_t i = 0; i < n; i++) {
        e[i].def_level = (uint16_t)(i % 4);
        e[i].rep_level = (uint16_t)(i % 2);
        e[i].max_def = (uint16_t)i;
        e[i].physical = (int32_t)i % 8;
        e[i].field.nullable = i % 3 == 0;
    }
    return n;
}

static fby__schema *sample(void)
{
    fby__schema_element e[16];
    fby__schema *s = NULL;
    fby_error err;
    assert_int_equal(fby__schema_create(e, sample_elements(e), &s, &err), FBY_OK);
    return s;
}

static void children_are_contiguous_and_leaves_are_in_file_order(void **state)
{
    (void)state;
    static const char *const leaves[] = {"id", "element", "time", "dom", "key", "value", "last"};
    fby__schema *s = sample();
    assert_int_equal(s->n_fields, 13);
    assert_int_equal(s->n_leaves, 7);
    for (uint32_t i = 0; i < 7; i++) {
        const fby_field *f = &s->fields[s->leaves[i].field];
        assert_string_equal(f->name, leaves[i]);
        assert_int_equal(s->nodes[s->leaves[i].field].first_leaf, i);
        assert_int_equal(s->nodes[s->leaves[i].field].n_leaves, 1);
    }
    assert_string_equal(s->fields[0].name, "");
    assert_int_equal(s->nodes[0].n_leaves, 7);
    for (uint32_t i = 0; i < s->n_fields; i++)
        for (uint32_t k = 0; k < s->fields[i].n_children; k++)
            assert_int_equal(s->nodes[&s->fields[i].children[k] - s->fields].parent, i);
    const fby_field *pulses = &s->fields[fby__schema_find(s, "pulses")];
    const fby__schema_node *node = &s->nodes[pulses - s->fields];
    assert_int_equal(node->first_leaf, 2);
    assert_int_equal(node->n_leaves, 2);
    fby__schema_unref(s);
}

static void list_levels_add_no_part_to_paths(void **state)
{
    (void)state;
    fby__schema *s = sample();
    assert_string_equal(s->fields[s->leaves[2].field].path, "pulses.time");
    assert_string_equal(s->fields[s->leaves[4].field].path, "tags.key");
    assert_int_equal(s->fields[fby__schema_find(s, "hits")].kind, FBY_KIND_LIST);
    assert_int_equal(s->fields[fby__schema_find(s, "pulses")].kind, FBY_KIND_LIST);
    assert_int_equal(fby__schema_find(s, ""), 0);
    assert_int_equal(fby__schema_find(s, "pulses.element"), UINT32_MAX);
    assert_int_equal(fby__schema_find(s, "nothing"), UINT32_MAX);
    fby__schema_unref(s);
}

static void a_list_of_a_primitive_is_found_as_its_leaf(void **state)
{
    (void)state;
    fby__schema *s = sample();
    assert_int_equal(fby__schema_find_leaf(s, "hits"), 1);
    assert_int_equal(fby__schema_find_leaf(s, "pulses.dom"), 3);
    assert_int_equal(fby__schema_find_leaf(s, "last"), 6);
    assert_int_equal(fby__schema_find_leaf(s, "pulses"), FBY__NO_LEAF);
    assert_int_equal(fby__schema_find_leaf(s, "tags"), FBY__NO_LEAF);
    assert_int_equal(fby__schema_find_leaf(s, ""), FBY__NO_LEAF);
    assert_int_equal(fby__schema_find_leaf(s, "x"), FBY__NO_LEAF);
    fby__schema_unref(s);
}

static void of_two_leaves_with_one_path_the_first_is_found(void **state)
{
    (void)state;
    fby__schema_element e[] = {element("", FBY_KIND_STRUCT, 4),  number("a", FBY_INT8),  number("a", FBY_INT64),
                               element("b", FBY_KIND_STRUCT, 1), number("c", FBY_INT16), number("b.c", FBY_INT32)};
    fby__schema *s;
    fby_error err;
    assert_int_equal(fby__schema_create(e, 6, &s, &err), FBY_OK);
    assert_int_equal(s->n_leaves, 4);
    assert_int_equal(fby__schema_find_leaf(s, "a"), 0);
    /* "b.c" at the top stands above b's c. */
    assert_int_equal(s->fields[fby__schema_find(s, "b.c")].dtype, FBY_INT32);
    fby__schema_unref(s);
}

static void check_text(const fby_field *f, const char *want)
{
    char text[256];
    assert_int_equal(fby_field_type_text(f, text, sizeof text), strlen(want));
    assert_string_equal(text, want);
}

static void types_are_written_as_users_read_them(void **state)
{
    (void)state;
    fby__schema *s = sample();
    check_text(&s->fields[0], "struct<id: int32, hits: list<int16>, pulses: list<struct<time: int64, dom: uint8>>, "
                              "tags: map<string, int64>, last: int8>");
    fby__schema_unref(s);
    check_text(&(fby_field){.kind = FBY_KIND_TIMESTAMP, .unit = FBY_UNIT_US, .utc = true}, "timestamp[us, UTC]");
    check_text(&(fby_field){.kind = FBY_KIND_TIMESTAMP, .unit = FBY_UNIT_NS}, "timestamp[ns]");
    check_text(&(fby_field){.kind = FBY_KIND_TIME, .unit = FBY_UNIT_MS, .utc = true}, "time[ms]");
    check_text(&(fby_field){.kind = FBY_KIND_DECIMAL, .precision = 9, .scale = 2}, "decimal(9, 2)");
    check_text(&(fby_field){.kind = FBY_KIND_FIXED_BINARY, .byte_width = 16}, "fixed_binary[16]");
    check_text(&(fby_field){.kind = FBY_KIND_FLOAT, .dtype = FBY_FLOAT16}, "float16");
    check_text(&(fby_field){.kind = FBY_KIND_DATE, .dtype = FBY_INT32}, "date");
    fby_field item = {.kind = FBY_KIND_FLOAT, .dtype = FBY_FLOAT32};
    check_text(&(fby_field){.kind = FBY_KIND_FIXED_LIST, .list_size = 3, .n_children = 1, .children = &item}, "fixed_list<float32>[3]");
}

static void type_text_is_cut_at_the_buffer_and_tells_its_length(void **state)
{
    (void)state;
    fby_field f = {.kind = FBY_KIND_DECIMAL, .precision = 10, .scale = 3};
    char text[8];
    memset(text, 'x', sizeof text);
    assert_int_equal(fby_field_type_text(&f, text, sizeof text), strlen("decimal(10, 3)"));
    assert_string_equal(text, "decimal");
    assert_int_equal(fby_field_type_text(&f, text, 1), strlen("decimal(10, 3)"));
    assert_string_equal(text, "");
    assert_int_equal(fby_field_type_text(&f, NULL, 0), strlen("decimal(10, 3)"));
    assert_string_equal(fby_kind_name((fby_kind)99), "unknown");
    assert_string_equal(fby_unit_name((fby_unit)99), "");
    assert_string_equal(fby_unit_name(FBY_UNIT_NS), "ns");
}

static void a_frozen_schema_thaws_to_an_equal_one(void **state)
{
    (void)state;
    fby__schema *s = sample(), *t;
    fby__buf blob = {0};
    fby_error err;
    assert_int_equal(fby__buf_put(&blob, "before", 6), 0); /* it appends */
    assert_int_equal(fby__schema_freeze(s, &blob, &err), FBY_OK);
    assert_int_equal(fby__schema_thaw((fby__bytes){blob.data + 6, blob.n - 6}, &t, &err), FBY_OK);
    assert_true(fby__hash_equal(s->hash, t->hash));
    assert_int_equal(t->n_fields, s->n_fields);
    assert_memory_equal(t->nodes, s->nodes, s->n_fields * sizeof *s->nodes);
    assert_memory_equal(t->leaves, s->leaves, s->n_leaves * sizeof *s->leaves);
    for (uint32_t i = 0; i < s->n_fields; i++) {
        assert_string_equal(t->fields[i].name, s->fields[i].name);
        assert_string_equal(t->fields[i].path, s->fields[i].path);
        assert_int_equal(t->fields[i].nullable, s->fields[i].nullable);
        assert_int_equal(t->fields[i].dtype, s->fields[i].dtype);
    }
    fby__schema_unref(s);
    fby__schema_unref(t);
    fby__buf_fini(&blob);
}

static void the_hash_tells_schemas_apart(void **state)
{
    (void)state;
    fby__schema_element e[16];
    size_t n = sample_elements(e);
    fby__schema *s = sample(), *t;
    e[1].field.nullable = !e[1].field.nullable;
    assert_int_equal(fby__schema_create(e, n, &t, NULL), FBY_OK);
    assert_false(fby__hash_equal(s->hash, t->hash));
    fby__schema_unref(s);
    fby__schema_unref(t);
}

static void damaged_blobs_are_refused_whatever_bit_is_wrong(void **state)
{
    (void)state;
    fby__schema *s = sample(), *t;
    fby__buf blob = {0};
    fby_error err;
    assert_int_equal(fby__schema_freeze(s, &blob, &err), FBY_OK);
    for (size_t i = 0; i < blob.n * 8; i++) {
        blob.data[i / 8] ^= (uint8_t)(1u << (i % 8));
        assert_int_equal(fby__schema_thaw((fby__bytes){blob.data, blob.n}, &t, &err), FBY_E_FORMAT);
        blob.data[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    for (size_t n = 0; n < blob.n; n++) {
        uint8_t *copy = malloc(n ? n : 1); /* its own block: a read past the end is seen */
        memcpy(copy, blob.data, n);
        assert_int_equal(fby__schema_thaw((fby__bytes){copy, n}, &t, &err), FBY_E_FORMAT);
        free(copy);
    }
    fby__schema_unref(s);
    fby__buf_fini(&blob);
}

/* In an index that somebody made, whatever its codes. */
static void a_stored_number_without_a_dtype_of_numbers_is_refused(void **state)
{
    (void)state;
    static const struct {
        fby_kind kind;
        fby_dtype right, wrong;
    } CASES[] = {{FBY_KIND_INT, FBY_UINT8, FBY_DTYPE_NONE}, {FBY_KIND_INT, FBY_INT64, FBY_FLOAT64},
                 {FBY_KIND_FLOAT, FBY_BFLOAT16, FBY_INT32}, {FBY_KIND_FLOAT, FBY_FLOAT64, FBY_DTYPE_NONE},
                 {FBY_KIND_BOOL, FBY_BOOL, FBY_UINT8},      {FBY_KIND_TIMESTAMP, FBY_INT64, FBY_DTYPE_NONE},
                 {FBY_KIND_DATE, FBY_INT32, FBY_DTYPE_NONE}};
    for (size_t i = 0; i < 2 * sizeof CASES / sizeof *CASES; i++) {
        const fby_field field = {.kind = CASES[i / 2].kind, .dtype = i % 2 ? CASES[i / 2].wrong : CASES[i / 2].right};
        const fby__schema_element e[] = {{.name = "", .n_children = 1, .field = {.kind = FBY_KIND_STRUCT}},
                                         {.name = "x", .name_n = 1, .field = field}};
        fby__schema *s, *t;
        fby__buf blob = {0};
        assert_int_equal(fby__schema_create(e, 2, &s, NULL), FBY_OK);
        assert_int_equal(fby__schema_freeze(s, &blob, NULL), FBY_OK);
        assert_int_equal(fby__schema_thaw((fby__bytes){blob.data, blob.n}, &t, NULL), i % 2 ? FBY_E_FORMAT : FBY_OK);
        if (i % 2 == 0)
            fby__schema_unref(t);
        fby__schema_unref(s);
        fby__buf_fini(&blob);
    }
}

/* Names that would share a 64th of the slots of a table whose hash everybody knows. */
static void names_that_were_chosen_lie_apart(void **state)
{
    enum { N = 8000, SLOTS = 16384, TEXT = 12 };
    (void)state;
    fby__schema_element *e = calloc(N + 1, sizeof *e);
    char *text = malloc(N * TEXT);
    e[0] = element("", FBY_KIND_STRUCT, N);
    size_t n = 0, longest = 0, run = 0;
    for (unsigned i = 0; n < N; i++) {
        char *name = text + n * TEXT;
        (void)snprintf(name, TEXT, "c%u", i);
        if (fby__hash(name, strlen(name)).lo % SLOTS < SLOTS / 64)
            e[++n] = number(name, FBY_INT32);
    }
    fby__schema *s;
    assert_int_equal(fby__schema_create(e, N + 1, &s, NULL), FBY_OK);
    assert_int_equal(s->lookup_mask, SLOTS - 1);
    for (uint32_t i = 0; i < SLOTS; i++) {
        run = s->lookup[i] ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    assert_true(longest < 500); /* at random: some 60 */
    for (size_t i = 0; i < N; i++)
        assert_int_equal(fby__schema_find(s, text + i * TEXT), i + 1);
    fby__schema_unref(s);
    free(text);
    free(e);
}

static void refuse(const fby__schema_element *e, size_t n, fby_status want, const char *word)
{
    fby__schema *s = NULL;
    fby_error err;
    assert_int_equal(fby__schema_create(e, n, &s, &err), want);
    assert_non_null(strstr(err.message, word));
    assert_null(s);
}

static void trees_that_do_not_add_up_are_refused(void **state)
{
    (void)state;
    fby__schema_element two[] = {element("", FBY_KIND_STRUCT, 1), number("a", FBY_INT8), number("b", FBY_INT8)};
    refuse(two, 3, FBY_E_FORMAT, "ends after");
    refuse(two, 1, FBY_E_FORMAT, "ends before");
    refuse(two, 0, FBY_E_FORMAT, "empty");
    fby__schema_element list[] = {element("", FBY_KIND_STRUCT, 1), element("a", FBY_KIND_LIST, 2), number("b", FBY_INT8),
                                  number("c", FBY_INT8)};
    refuse(list, 4, FBY_E_FORMAT, "2 children");
    fby__schema_element leaf[] = {element("", FBY_KIND_STRUCT, 1), element("a", FBY_KIND_INT, 1), number("b", FBY_INT8)};
    refuse(leaf, 3, FBY_E_FORMAT, "1 children");
}

static void nesting_deeper_than_the_limit_is_refused(void **state)
{
    (void)state;
    fby__schema_element e[FBY__MAX_LEVEL + 3];
    for (size_t depth = FBY__MAX_LEVEL - 1; depth <= FBY__MAX_LEVEL + 1; depth++) {
        fby__schema *s;
        for (size_t i = 0; i < depth; i++)
            e[i] = element("g", FBY_KIND_STRUCT, 1);
        e[depth] = number("x", FBY_INT8);
        if (depth <= FBY__MAX_LEVEL) {
            assert_int_equal(fby__schema_create(e, depth + 1, &s, NULL), FBY_OK);
            fby__schema_unref(s);
        } else {
            refuse(e, depth + 1, FBY_E_UNSUPPORTED, "deeper");
        }
    }
}

static void names_that_are_not_text_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        uint32_t n;
        bool good;
    } names[] = {{"gr\xc3\xbcn", 5, true},
                 {"\xe2\x82\xac", 3, true},
                 {"\xf0\x9f\x8c\x8a", 4, true},
                 {"", 0, true},
                 {"a\0b", 3, false},
                 {"\xff", 1, false},
                 {"\xc3", 1, false},
                 {"\xc0\x80", 2, false},
                 {"\xe0\x80\x80", 3, false},
                 {"\xed\xa0\x80", 3, false},
                 {"\xf4\x90\x80\x80", 4, false},
                 {"\xf0\x80\x80\x80", 4, false},
                 {"\xe2\x28\xa1", 3, false},
                 {"\x80", 1, false}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fby__schema_element e[] = {element("", FBY_KIND_STRUCT, 1), number("", FBY_INT8)};
        char *exact = malloc(names[i].n + 1u);
        memcpy(exact, names[i].bytes, names[i].n);
        e[1].name = exact;
        e[1].name_n = names[i].n;
        fby__schema *s = NULL;
        if (names[i].good)
            assert_int_equal(fby__schema_create(e, 2, &s, NULL), FBY_OK);
        else
            refuse(e, 2, FBY_E_FORMAT, "UTF-8");
        fby__schema_unref(s);
        free(exact);
    }
}

static void long_names_cannot_multiply_into_gigabytes_of_paths(void **state)
{
    (void)state;
    enum { LEAVES = 2000 };
    size_t n = 60000;
    char *name = malloc(n);
    memset(name, 'n', n);
    fby__schema_element *e = calloc(LEAVES + 2, sizeof *e);
    e[0] = element("", FBY_KIND_STRUCT, 1);
    e[1] = element("", FBY_KIND_STRUCT, LEAVES);
    e[1].name = name;
    e[1].name_n = (uint32_t)n;
    for (size_t i = 0; i < LEAVES; i++)
        e[i + 2] = number("x", FBY_INT8);
    refuse(e, LEAVES + 2, FBY_E_UNSUPPORTED, "more than");
    e[1].n_children = 1;
    e[2].name = name;
    e[2].name_n = (uint32_t)n;
    refuse(e, 3, FBY_E_UNSUPPORTED, "limit");
    free(e);
    free(name);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    fby__schema_element e[16];
    size_t n = sample_elements(e), points = 0;
    fby_status st = FBY_E_NOMEM;
    for (uint64_t at = 1; st == FBY_E_NOMEM; at++) {
        fby__schema *s = NULL, *t = NULL;
        fby__buf blob = {0};
        fby_error err;
        fby__alloc_fail_at(at);
        st = fby__schema_create(e, n, &s, &err);
        if (st == FBY_OK)
            st = fby__schema_freeze(s, &blob, &err);
        if (st == FBY_OK)
            st = fby__schema_thaw((fby__bytes){blob.data, blob.n}, &t, &err);
        fby__alloc_fail_at(0);
        points += st == FBY_E_NOMEM;
        fby__schema_unref(s);
        fby__schema_unref(t);
        fby__buf_fini(&blob);
    }
    assert_int_equal(st, FBY_OK);
    assert_true(points > 10);
    print_message("%zu allocations failed in turn\n", points);
}

/* ---- random trees against a naive twin ---- */

enum { MOST = 400 };
static char random_names[MOST][4];

static size_t grow_tree(fby__random *r, fby__schema_element *e, size_t n, uint32_t depth, fby_kind kind, const char *name)
{
    size_t at = n++;
    e[at] = element(name, kind, 0);
    bool leaf = kind == FBY_KIND_INT;
    uint32_t children = leaf ? 0 : kind == FBY_KIND_LIST ? 1 : 1 + (uint32_t)fby__random_below(r, 4);
    for (uint32_t k = 0; k < children; k++) {
        if (n + 20 > MOST && kind == FBY_KIND_STRUCT && k > 0) {
            children = k;
            break;
        }
        char *child = random_names[n]; /* few letters: many equal paths */
        (void)snprintf(child, 4, "%c", 'a' + (int)fby__random_below(r, 3));
        uint64_t pick = depth > 5 || n + 20 > MOST ? 0 : fby__random_below(r, 4);
        size_t child_at = n;
        n = grow_tree(r, e, n, depth + 1, pick < 2 ? FBY_KIND_INT : pick == 2 ? FBY_KIND_LIST : FBY_KIND_STRUCT, child);
        e[child_at].hidden_in_path = kind == FBY_KIND_LIST;
    }
    e[at].n_children = children;
    return n;
}

static void naive_path(const fby__schema *s, uint32_t i, char *out, size_t n)
{
    uint32_t up = s->nodes[i].parent;
    if (i == 0) {
        out[0] = 0;
        return;
    }
    naive_path(s, up, out, n);
    if (s->fields[up].kind == FBY_KIND_LIST)
        return;
    size_t used = strlen(out);
    (void)snprintf(out + used, n - used, "%s%s", used ? "." : "", s->fields[i].name);
}

static void random_schemas_find_what_a_naive_search_finds(void **state)
{
    (void)state;
    fby__random r = {.key = test_seed()};
    static fby__schema_element e[MOST * 2];
    static char paths[MOST * 2][256];
    for (int round = 0; round < 200; round++) {
        size_t n = grow_tree(&r, e, 0, 0, FBY_KIND_STRUCT, "root");
        fby__schema *s;
        fby_error err;
        assert_int_equal(fby__schema_create(e, n, &s, &err), FBY_OK);
        for (uint32_t i = 0; i < n; i++) {
            naive_path(s, i, paths[i], sizeof paths[i]);
            assert_string_equal(s->fields[i].path, paths[i]);
        }
        uint32_t leaf = 0;
        for (size_t i = 1; i < n; i++) /* pre-order */
            if (e[i].n_children == 0)
                assert_string_equal(s->fields[s->leaves[leaf++].field].name, e[i].name);
        assert_int_equal(leaf, s->n_leaves);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t first = 0;
            while (strcmp(paths[first], paths[i]) != 0)
                first++;
            assert_int_equal(fby__schema_find(s, paths[i]), first);
        }
        fby__schema_unref(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_are_contiguous_and_leaves_are_in_file_order),
        cmocka_unit_test(list_levels_add_no_part_to_paths),
        cmocka_unit_test(a_list_of_a_primitive_is_found_as_its_leaf),
        cmocka_unit_test(of_two_leaves_with_one_path_the_first_is_found),
        cmocka_unit_test(types_are_written_as_users_read_them),
        cmocka_unit_test(type_text_is_cut_at_the_buffer_and_tells_its_length),
        cmocka_unit_test(a_frozen_schema_thaws_to_an_equal_one),
        cmocka_unit_test(a_stored_number_without_a_dtype_of_numbers_is_refused),
        cmocka_unit_test(names_that_were_chosen_lie_apart),
        cmocka_unit_test(the_hash_tells_schemas_apart),
        cmocka_unit_test(damaged_blobs_are_refused_whatever_bit_is_wrong),
        cmocka_unit_test(trees_that_do_not_add_up_are_refused),
        cmocka_unit_test(nesting_deeper_than_the_limit_is_refused),
        cmocka_unit_test(names_that_are_not_text_are_refused),
        cmocka_unit_test(long_names_cannot_multiply_into_gigabytes_of_paths),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(random_schemas_find_what_a_naive_search_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
