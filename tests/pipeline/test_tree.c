/* YAML trees: what scalars are, places, limits, what is refused, and that what is written reads back. */
#include "base/alloc.h"
#include "pipeline/tree.h"
#include "support/temp_dir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static fby_tree *parse(const char *text)
{
    fby_tree *tree = NULL;
    fby_error err = {0};
    if (fby_tree_parse(text, strlen(text), "t.yaml", &tree, &err) != FBY_OK)
        fail_msg("%s: %s", text, err.message);
    return tree;
}

static void fails(const char *text, size_t n, fby_status code, const char *message)
{
    fby_tree *tree = NULL;
    fby_error err = {0};
    assert_int_equal(fby_tree_parse(text, n, "t.yaml", &tree, &err), code);
    assert_int_equal(err.code, code);
    assert_null(tree);
    if (!strstr(err.message, message))
        fail_msg("'%s' is not in '%s'", message, err.message);
}

static void scalars_are_what_the_core_schema_says(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fby_node_kind kind;
        double number;
    } cases[] = {
        {"[~]", FBY_NODE_NULL, 0},
        {"[null]", FBY_NODE_NULL, 0},
        {"[true]", FBY_NODE_BOOL, 1},
        {"[False]", FBY_NODE_BOOL, 0},
        {"[yes]", FBY_NODE_TEXT, 0},
        {"[on]", FBY_NODE_TEXT, 0},
        {"['true']", FBY_NODE_TEXT, 0},
        {"[17]", FBY_NODE_INT, 17},
        {"[-17]", FBY_NODE_INT, -17},
        {"[+5]", FBY_NODE_INT, 5},
        {"[0x1f]", FBY_NODE_INT, 31},
        {"[0o17]", FBY_NODE_INT, 15},
        {"[017]", FBY_NODE_INT, 17},
        {"[1e-6]", FBY_NODE_FLOAT, 1e-6},
        {"[1.]", FBY_NODE_FLOAT, 1},
        {"[.5]", FBY_NODE_FLOAT, 0.5},
        {"[1.5e3]", FBY_NODE_FLOAT, 1500},
        {"[-.inf]", FBY_NODE_FLOAT, -INFINITY},
        {"[1e]", FBY_NODE_TEXT, 0},
        {"[1.2.3]", FBY_NODE_TEXT, 0},
        {"[2000-01-01]", FBY_NODE_TEXT, 0},
        {"[\"1\"]", FBY_NODE_TEXT, 0},
        {"[9223372036854775807]", FBY_NODE_INT, 9223372036854775807.0},
        {"[9223372036854775808]", FBY_NODE_FLOAT, 9223372036854775808.0},
        {"[-9223372036854775808]", FBY_NODE_INT, -9223372036854775808.0},
        {"[.]", FBY_NODE_TEXT, 0},
        {"[-]", FBY_NODE_TEXT, 0},
        {"[8GiB]", FBY_NODE_TEXT, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].text, "[-]") == 0)
            continue; /* a lone dash in a flow list is no scalar to libyaml */
        fby_tree *tree = parse(cases[i].text);
        const fby_node *item = fby_tree_root(tree)->items[0];
        if (item->kind != cases[i].kind)
            fail_msg("%s is of kind %d", cases[i].text, (int)item->kind);
        if (item->kind == FBY_NODE_BOOL)
            assert_int_equal(item->boolean, cases[i].number != 0);
        else if (item->kind == FBY_NODE_INT || item->kind == FBY_NODE_FLOAT)
            assert_true(item->number == cases[i].number);
        fby_tree_close(tree);
    }
    fby_tree *tree = parse("[.nan]");
    assert_true(isnan(fby_tree_root(tree)->items[0]->number));
    fby_tree_close(tree);
}

static void every_node_knows_its_place(void **state)
{
    (void)state;
    fby_tree *tree = parse("a: 1\nbb:\n  - x\n  -  [y,\n   z]\n");
    const fby_node *root = fby_tree_root(tree), *list = fby__node_get(root, "bb");
    assert_int_equal(root->n, 2);
    assert_int_equal(root->keys[1]->line, 2);
    assert_int_equal(root->keys[1]->column, 1);
    assert_int_equal(root->items[0]->column, 4);
    assert_int_equal(list->items[0]->line, 3);
    assert_int_equal(list->items[0]->column, 5);
    assert_int_equal(list->items[1]->items[1]->line, 5);
    assert_int_equal(list->items[1]->items[1]->column, 4);
    assert_null(fby__node_get(root, "c"));
    fby_tree_close(tree);
}

static void aliases_are_followed_and_bounded(void **state)
{
    (void)state;
    fby_tree *tree = parse("a: &f [p, q]\nb: *f\n");
    const fby_node *root = fby_tree_root(tree);
    assert_ptr_equal(root->items[0], root->items[1]);
    fby_tree_close(tree);

    fails("a: &a [*a]", 10, FBY_E_UNSUPPORTED, "1:8: an alias to a value that it is part of");
    fails("a: *b", 5, FBY_E_FORMAT, "without an anchor");
    /* Nine levels of nine: a few lines that would be hundreds of millions of values. */
    char text[1024] = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 9; i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1, i - 1,
                       i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
        strcat(text, line);
    }
    fails(text, strlen(text), FBY_E_UNSUPPORTED, "more than a million values, aliases followed");
}

static void what_has_no_place_in_a_pipeline_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        fby_status code;
    } cases[] = {
        {"", "the file is empty", FBY_E_FORMAT},
        {"a: 1\nb: 2\na: 3\n", "t.yaml:3:1: the key 'a' is there twice; first in line 1", FBY_E_FORMAT},
        {"1: a\n'1': b\n", "the key '1' is there twice", FBY_E_FORMAT},
        {"a: !!str x\n", "1:4: tags", FBY_E_UNSUPPORTED},
        {"a: &x {b: 1}\nc: {<<: *x}\n", "2:5: merge keys", FBY_E_UNSUPPORTED},
        {"? [a]\n: b\n", "a key that is a list or a map", FBY_E_UNSUPPORTED},
        {"a: 1\n---\nb: 2\n", "a second document", FBY_E_UNSUPPORTED},
        {"a: [1, 2\nb: 3\n", "no valid YAML", FBY_E_FORMAT},
        {"a: \"x\\0y\"\n", "holds a NUL", FBY_E_UNSUPPORTED},
        {"a:\n\t- b\n", "2:1: no valid YAML", FBY_E_FORMAT},
        {"a: \xff\xfe\n", "t.yaml: byte 3", FBY_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fails(cases[i].text, strlen(cases[i].text), cases[i].code, cases[i].message);
    char deep[80];
    memset(deep, '[', sizeof deep);
    fails(deep, sizeof deep, FBY_E_UNSUPPORTED, "nested more than 32 deep");
    size_t n = FBY_TREE_MAX_BYTES + 1;
    char *large = calloc(n, 1);
    assert_non_null(large);
    fails(large, n, FBY_E_UNSUPPORTED, "more than 16 MiB");
    free(large);
}

static bool same(const fby_node *a, const fby_node *b)
{
    if (a->kind != b->kind || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same(a->items[i], b->items[i]) || (a->kind == FBY_NODE_MAP && strcmp(a->keys[i]->text, b->keys[i]->text) != 0))
            return false;
    if (a->kind == FBY_NODE_TEXT)
        return strcmp(a->text, b->text) == 0;
    if (a->kind == FBY_NODE_BOOL)
        return a->boolean == b->boolean;
    return a->kind == FBY_NODE_INT ? a->integer == b->integer
                                   : a->kind != FBY_NODE_FLOAT || memcmp(&a->number, &b->number, sizeof a->number) == 0;
}

static const char HARD[] =
    "texts: ['1', \"true\", 'null', '', ' x ', \"a\\nb\", 'yes', '~', 'a: b', '# c', '1e5', '.nan', '<<', 'é水', \"\\t\", '- x', '[a]']\n"
    "numbers: [0.1, 1e300, -2.5e-308, 5.0, 0.30000000000000004, .inf, -.inf, -0.0, 18446744073709551615, 7, -9223372036854775808]\n"
    "on: null\nnested: {a: {b: [{c: []}, {}, [[1], [2.5]]]}}\n'2': true\n";

static void what_is_written_reads_back(void **state)
{
    (void)state;
    fby_tree *tree = parse(HARD), *again = NULL;
    fby_error err = {0};
    if (fby_tree_write(fby_tree_root(tree), NULL, NULL, NULL, 0, "out.yaml", &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(fby_tree_read("out.yaml", &again, &err), FBY_OK);
    assert_true(same(fby_tree_root(tree), fby_tree_root(again)));
    fby_tree_close(again);
    fby_tree_close(tree);
    assert_int_equal(fby_tree_read("nothing.yaml", &again, &err), FBY_E_IO);
    assert_int_equal(fby_tree_read(".", &again, &err), FBY_E_ARG);
}

static void text_that_is_no_utf8_is_not_written(void **state)
{
    (void)state;
    fby_error err = {0};
    const fby_node text = {.kind = FBY_NODE_TEXT, .text = "\xff"};
    assert_int_equal(fby_tree_write(&text, NULL, NULL, NULL, 0, "out.yaml", &err), FBY_E_ARG);
    assert_int_not_equal(access("out.yaml", F_OK), 0); /* nor is anything left of the attempt */
    const fby_node fine = {.kind = FBY_NODE_TEXT, .text = "x"};
    assert_int_equal(fby_tree_write(&fine, NULL, NULL, NULL, 0, "no/such/dir.yaml", &err), FBY_E_IO);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        fby_tree *tree = NULL;
        fby_error err = {0};
        fby__alloc_fail_at(n);
        fby_status status = fby_tree_parse(HARD, sizeof HARD - 1, "t.yaml", &tree, &err);
        if (status == FBY_OK)
            status = fby_tree_write(fby_tree_root(tree), NULL, NULL, NULL, 0, "out.yaml", &err);
        fby__alloc_fail_at(0);
        fby_tree_close(tree);
        if (status == FBY_OK)
            break;
        assert_int_equal(status, FBY_E_NOMEM);
        assert_true(n < 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_what_the_core_schema_says),
        cmocka_unit_test(every_node_knows_its_place),
        cmocka_unit_test(aliases_are_followed_and_bounded),
        cmocka_unit_test(what_has_no_place_in_a_pipeline_is_refused_by_name),
        cmocka_unit_test_setup_teardown(what_is_written_reads_back, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(text_that_is_no_utf8_is_not_written, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
