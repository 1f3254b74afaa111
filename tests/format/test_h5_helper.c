/*
 * The helper program's answers: values and descriptions of the files of tests/golden/make_hdf5_helper_golden.py, against what that
 * script wrote; and descriptions that make no sense, taken apart. How the program fails as a process: test_h5_helper_process.c.
 */
#include "format/h5_helper_tests.h"

#include "support/temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* ---- values ---- */

static void what_only_libhdf5_decodes_is_read(void **state)
{
    (void)state;
    int32_t i32[40];
    double f64[40];
    int16_t i16[40];
    read_line(GOLDEN("types.h5"), "/filters/scale_offset_int", 0, 40, FBY_INT32, i32, sizeof i32);
    read_line(GOLDEN("types.h5"), "/filters/scale_offset_float", 0, 40, FBY_FLOAT64, f64, sizeof f64);
    read_line(GOLDEN("types.h5"), "/filters/nbit", 0, 40, FBY_INT16, i16, sizeof i16);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(i32[i], 1000 + i);
        assert_true(f64[i] == i * 0.25);
        assert_int_equal(i16[i], i * 50 - 1000);
    }
    read_line(GOLDEN("types.h5"), "/filters/nbit", 7, 5, FBY_DTYPE_NONE, i16, 10);
    assert_int_equal(i16[4], 11 * 50 - 1000);
}

static void virtual_data_sets_gather_their_files(void **state)
{
    (void)state;
    int32_t v[5][2];
    fby_error err;
    check_ok(
        fby__h5_helper_read(GOLDEN("virtual.h5"), "/all", 0, 2, (uint64_t[]){2, 1}, (uint64_t[]){5, 2}, FBY_DTYPE_NONE, v, sizeof v, &err),
        &err);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 2; k++)
            assert_int_equal(v[i][k], (i + 2) % 4 * 5 + k + 1 + 100 * ((i + 2) / 4));
    check_ok(fby__h5_helper_read(GOLDEN("virtual.h5"), "/all", 0, 2, (uint64_t[]){7, 4}, (uint64_t[]){2, 1}, FBY_INT32, v, 8, &err), &err);
    assert_int_equal(v[0][0], 119);
    assert_int_equal(v[0][1], -1); /* mapped from nowhere: the fill value */
}

static void external_data_lies_beside_the_file(void **state)
{
    (void)state;
    float v[20];
    read_line(GOLDEN("external.h5"), "x", 0, 20, FBY_FLOAT32, v, sizeof v);
    for (int i = 0; i < 20; i++)
        assert_true(v[i] == (float)(7 * i));
}

static void numbers_become_the_dtype_wanted(void **state)
{
    (void)state;
    const char *path = GOLDEN("types.h5");
    fby_error err;
    int16_t be[2][3];
    check_ok(
        fby__h5_helper_read(path, "/numbers/int16_be", 0, 2, (uint64_t[]){6, 1}, (uint64_t[]){2, 3}, FBY_DTYPE_NONE, be, sizeof be, &err),
        &err);
    for (int i = 0; i < 6; i++)
        assert_int_equal(be[i / 3][i % 3], ((i / 3 + 6) * 5 + i % 3 + 1) * 100 - 500);
    uint16_t half[40], bits[40], enums[40];
    float as_float[40], vectors[120];
    uint8_t flag[40];
    read_line(path, "/numbers/float16", 0, 40, FBY_DTYPE_NONE, half, sizeof half);
    read_line(path, "/numbers/float16", 0, 40, FBY_FLOAT32, as_float, sizeof as_float);
    read_line(path, "/numbers/bits", 0, 40, FBY_UINT16, bits, sizeof bits);
    read_line(path, "/numbers/flag", 0, 40, FBY_BOOL, flag, sizeof flag);
    read_line(path, "/numbers/color", 0, 40, FBY_DTYPE_NONE, enums, sizeof enums);
    read_line(path, "/numbers/vectors", 0, 40, FBY_FLOAT32, vectors, sizeof vectors);
    assert_int_equal(half[1], 0x3800);  /* 0.5 */
    assert_int_equal(half[39], 0x4ce0); /* 19.5 */
    for (int i = 0; i < 40; i++) {
        assert_true(as_float[i] == (float)i * 0.5f);
        assert_int_equal(bits[i], 3 * i);
        assert_int_equal(flag[i], i % 3 == 0);
        assert_int_equal(enums[i], i % 4); /* 3 has no name and stays what it is */
    }
    for (int i = 0; i < 120; i++)
        assert_true(vectors[i] == (float)i * 0.5f);
    double bits_f64[40], scalar = 0;
    read_line(path, "/numbers/bits", 0, 40, FBY_FLOAT64, bits_f64, sizeof bits_f64);
    assert_true(bits_f64[39] == 117.0);
    read_line(path, "/numbers/float16", 0, 40, FBY_BFLOAT16, half, sizeof half);
    assert_int_equal(half[1], 0x3f00); /* 0.5 */
    check_ok(fby__h5_helper_read(path, "/numbers/scalar", 0, 0, NULL, NULL, FBY_FLOAT64, &scalar, 8, &err), &err);
    assert_true(scalar == 2.5);
    int32_t unwritten[6];
    read_line(path, "/numbers/unwritten", 0, 6, FBY_INT32, unwritten, sizeof unwritten);
    assert_int_equal(unwritten[5], -7);
    check_ok(fby__h5_helper_read(path, "/numbers/none", 0, 2, (uint64_t[]){0, 0}, (uint64_t[]){0, 3}, FBY_FLOAT32, NULL, 0, &err), &err);
}

static void compounds_come_packed_and_native(void **state)
{
    (void)state;
    uint8_t v[4][13];
    read_line(GOLDEN("types.h5"), "/compound", 3, 4, FBY_DTYPE_NONE, v, sizeof v);
    for (int i = 0; i < 4; i++) {
        int16_t a;
        double b;
        char c[4] = {0};
        memcpy(&a, v[i], 2);
        memcpy(&b, v[i] + 2, 8);
        memcpy(c, v[i] + 10, 3);
        assert_int_equal(a, i);
        assert_true(b == (i + 3) * 1.5);
        assert_string_equal(c, ((char[]){'x', (char)('3' + i), 0}));
    }
}

/* Parts of variable length, one an element. */
static void check_texts(const char *object, uint32_t rank, const uint64_t *start, const uint64_t *count, size_t n,
                        const char *const *wanted)
{
    uint8_t parts[64 * FBY__H5_HELPER_VLEN_BYTES];
    fby__buf heap = {0};
    fby_error err;
    assert_int_equal(fby__buf_put(&heap, "before", 6), 0); /* places count from what is there */
    check_ok(fby__h5_helper_read_values(GOLDEN("types.h5"), object, 0, rank, start, count, parts, n * FBY__H5_HELPER_VLEN_BYTES, 1100,
                                        &heap, &err),
             &err);
    assert_memory_equal(heap.data, "before", 6);
    for (size_t i = 0; i < n; i++) {
        fby__bytes text;
        uint64_t length;
        check_ok(fby__h5_helper_vlen(&heap, parts + i * FBY__H5_HELPER_VLEN_BYTES, 1, &text, &length, &err), &err);
        assert_int_equal(text.n, length);
        assert_int_equal(text.n, strlen(wanted[i]));
        if (*wanted[i])
            assert_memory_equal(text.data, wanted[i], text.n);
    }
    fby__buf_fini(&heap);
}

static void strings_and_references_are_read_as_text(void **state)
{
    (void)state;
    check_texts("/text/variable", 1, (uint64_t[]){2}, (uint64_t[]){3}, 3, (const char *[]){"éé2", "ééé3", "4"});
    check_texts("/references", 1, (uint64_t[]){0}, (uint64_t[]){4}, 4, (const char *[]){"/numbers/again", "/text", "", "/compound"});
    check_texts("/regions", 1, (uint64_t[]){0}, (uint64_t[]){2}, 2, (const char *[]){"/numbers/int16_be", ""});
    check_texts("/text/variable", 1, (uint64_t[]){12}, (uint64_t[]){0}, 0, NULL);
}

static void sequences_come_as_their_elements(void **state)
{
    (void)state;
    uint8_t parts[5 * FBY__H5_HELPER_VLEN_BYTES];
    fby__buf heap = {0};
    fby_error err;
    check_ok(fby__h5_helper_read_values(GOLDEN("types.h5"), "/sequences", 0, 1, (uint64_t[]){0}, (uint64_t[]){5}, parts, sizeof parts, 1000,
                                        &heap, &err),
             &err);
    for (uint64_t k = 0; k < 5; k++) {
        fby__bytes b;
        uint64_t n;
        check_ok(fby__h5_helper_vlen(&heap, parts + k * FBY__H5_HELPER_VLEN_BYTES, 8, &b, &n, &err), &err);
        assert_int_equal(n, k);
        for (uint64_t j = 0; j < k; j++) {
            float v;
            memcpy(&v, b.data + 8 * j + 4, 4);
            assert_int_equal(fby__load_u32(b.data + 8 * j), k);
            assert_true(v == (float)j * 0.5f);
        }
    }
    fby__buf_fini(&heap);
}

/* The program is not trusted: a part that reaches beyond the heap is an error. */
static void parts_outside_of_the_heap_are_refused(void **state)
{
    (void)state;
    fby__buf heap = {.data = (uint8_t *)"0123456789", .n = 10};
    static const struct {
        uint32_t n;
        uint64_t at;
        size_t bytes;
        bool fine;
    } CASES[] = {{2, 0, 5, true},  {10, 0, 1, true},  {0, 99, 1, true},          {1, 9, 1, true},
                 {3, 0, 5, false}, {1, 10, 1, false}, {2, UINT64_MAX, 1, false}, {UINT32_MAX, 0, SIZE_MAX, false}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint8_t part[FBY__H5_HELPER_VLEN_BYTES] = {0};
        fby__bytes b;
        uint64_t n;
        fby_error err;
        memcpy(part, &CASES[i].n, 4);
        memcpy(part + 4, &CASES[i].at, 8);
        if (!CASES[i].fine) {
            check_fails(fby__h5_helper_vlen(&heap, part, CASES[i].bytes, &b, &n, &err), FBY_E_FORMAT, &err, "make no sense");
            continue;
        }
        check_ok(fby__h5_helper_vlen(&heap, part, CASES[i].bytes, &b, &n, &err), &err);
        assert_int_equal(n, CASES[i].n);
        assert_int_equal(b.n, CASES[i].n * CASES[i].bytes);
    }
}

/* ---- refusals ---- */

static void refusals_say_what_and_where(void **state)
{
    (void)state;
    const char *path = GOLDEN("types.h5");
    uint8_t dst[4096];
    uint64_t zero[2] = {0}, n[2] = {40, 1};
    fby__buf b = {0};
    fby_error err;
#define READ(object, rank, dtype, bytes) fby__h5_helper_read(path, object, 0, rank, zero, n, dtype, dst, bytes, &err)
    check_fails(READ("/numbers/float16", 1, FBY_FLOAT32, 159), FBY_E_ARG, &err, "types.h5: /numbers/float16: ");
    check_fails(READ("/numbers/float16", 2, FBY_FLOAT32, 160), FBY_E_ARG, &err, "1 dimensions, not 2");
    check_fails(READ("/compound", 1, FBY_DTYPE_NONE, 520), FBY_E_ARG, &err, "elements 0 to 40 of dimension 0 are wanted, it has 10");
    check_fails(READ("/numbers/nothing", 0, FBY_FLOAT32, 0), FBY_E_ARG, &err, "no elements");
    n[0] = 5;
    check_fails(READ("/compound", 1, FBY_FLOAT32, 20), FBY_E_UNSUPPORTED, &err, "no numbers");
    check_fails(READ("/sequences", 1, FBY_DTYPE_NONE, 80), FBY_E_UNSUPPORTED, &err, "variable length");
    check_fails(READ("/gone", 1, FBY_DTYPE_NONE, 80), FBY_E_FORMAT, &err, "libhdf5: ");
    check_fails(READ("/text", 1, FBY_DTYPE_NONE, 80), FBY_E_FORMAT, &err, "cannot be opened");
    check_fails(fby__h5_helper_read_values(path, "/text/variable", 0, 1, zero, n, dst, 80, 92, &b, &err), FBY_E_UNSUPPORTED, &err,
                "92 bytes");
    check_fails(fby__h5_helper_read_values(path, "/text/variable", 0, 1, zero, n, dst, 64, 64, &b, &err), FBY_E_UNSUPPORTED, &err,
                "64 bytes");
    assert_int_equal(b.n, 0);
    path = GOLDEN("plugin.h5");
    check_fails(READ("/x", 1, FBY_FLOAT32, 20), FBY_E_IO, &err, "no filter 32024");
    path = GOLDEN("gone.h5");
    check_fails(READ("/x", 1, FBY_FLOAT32, 20), FBY_E_IO, &err, "No such file");
    assert_int_equal(err.sys_errno, ENOENT);
    path = GOLDEN("external_a.bin");
    check_fails(READ("/x", 1, FBY_FLOAT32, 20), FBY_E_FORMAT, &err, "file signature not found");
#undef READ
    fby__buf_fini(&b);
}

/* ---- descriptions ---- */

static const fby__h5_attribute *attribute(const fby__h5_object *o, const char *name)
{
    for (uint32_t i = 0; i < o->n_attributes; i++)
        if (strcmp(o->attributes[i].name, name) == 0)
            return &o->attributes[i];
    fail_msg("no attribute %s", name);
    return NULL;
}

static void an_object_is_described(void **state)
{
    (void)state;
    const char *path = GOLDEN("types.h5");
    fby__arena arena = {0};
    const fby__h5_object *o;
    fby_error err;
    check_ok(fby__h5_helper_object(path, "/numbers/float16", "of a test", &arena, &o, &err), &err);
    assert_int_equal(o->kind, FBY__H5_DATASET);
    assert_int_equal(o->type->class, FBY__H5_FLOAT);
    assert_int_equal(o->type->bytes, 2);
    assert_int_equal(o->type->exponent_bits, 5);
    assert_int_equal(o->type->exponent_bias, 15);
    assert_string_equal(o->declined, "of a test");
    assert_int_equal(o->n_attributes, 6);
    const fby__h5_attribute *a = attribute(o, "units");
    assert_int_equal(a->type->class, FBY__H5_STRING);
    assert_int_equal(a->type->padding, 1);
    assert_int_equal(a->data.n, 3);
    assert_memory_equal(a->data.data, "m/s", 3);
    a = attribute(o, "words");
    assert_int_equal(a->type->bytes, 5);
    assert_memory_equal(a->data.data, "one\0\0\0\0\0\0\0three", 15);
    a = attribute(o, "range");
    assert_false(a->type->big_endian);
    assert_memory_equal(a->data.data, ((float[]){-1.5f, 4.0f}), 8);
    a = attribute(o, "color");
    assert_int_equal(a->type->class, FBY__H5_ENUM);
    assert_int_equal(a->type->n_members, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(*a->type->members[i].value, *a->type->members[i].name == 'r' ? 0 : *a->type->members[i].name == 'g' ? 1 : 2);
    assert_memory_equal(a->data.data, "\2\1", 2);
    a = attribute(o, "points_at");
    assert_int_equal(a->type->class, FBY__H5_REFERENCE);
    assert_int_equal(a->data.n, 0);
    assert_true(attribute(o, "empty")->space.null);

    check_ok(fby__h5_helper_object(path, "/numbers/unwritten", "", &arena, &o, &err), &err);
    assert_int_equal(o->layout, FBY__H5_CHUNKED);
    assert_int_equal(o->chunk[0], 4);
    assert_int_equal((int32_t)fby__load_u32(o->fill.data), -7);
    check_ok(fby__h5_helper_object(path, "/numbers/none", "", &arena, &o, &err), &err);
    assert_int_equal(o->space.n_elements, 0);
    assert_true(o->space.max_dims[0] == FBY__H5_UNDEFINED);
    check_ok(fby__h5_helper_object(path, "/compound", "", &arena, &o, &err), &err);
    assert_int_equal(o->type->bytes, 13);
    assert_int_equal(o->type->members[2].offset, 10);
    assert_string_equal(o->type->members[2].name, "c");
    check_ok(fby__h5_helper_object(path, "/sequences", "", &arena, &o, &err), &err);
    assert_int_equal(o->type->class, FBY__H5_VLEN);
    assert_int_equal(o->type->base->n_members, 2);
    check_ok(fby__h5_helper_object(path, "/text/variable", "", &arena, &o, &err), &err);
    assert_true(o->type->vlen_string);
    assert_int_equal(o->type->charset, 1);
    check_ok(fby__h5_helper_object(path, "/filters/nbit", "", &arena, &o, &err), &err);
    assert_int_equal(o->n_filters, 1);
    assert_int_equal(o->filters[0].id, 5);
    assert_int_equal(o->type->bit_precision, 16); /* native: whole */
    check_ok(fby__h5_helper_object(GOLDEN("external.h5"), "/x", "", &arena, &o, &err), &err);
    assert_true(o->external);
    check_ok(fby__h5_helper_object(GOLDEN("virtual.h5"), "/all", "", &arena, &o, &err), &err);
    assert_int_equal(o->layout, FBY__H5_VIRTUAL);
    fby__arena_fini(&arena);
}

static void the_tree_has_every_object_once(void **state)
{
    (void)state;
    fby__arena arena = {0};
    fby__h5_tree tree;
    fby_error err;
    check_ok(fby__h5_helper_tree(NULL, GOLDEN("types.h5"), "of a test", &arena, &tree, &err), &err);
    assert_string_equal(tree.entries[0].path, "/");
    const fby__h5_entry *e = fby__h5_tree_find(&tree, "/numbers/flag"), *again = fby__h5_tree_find(&tree, "/numbers/again");
    assert_non_null(e);
    assert_non_null(again);
    assert_ptr_equal(e->object, again->object); /* "again" is first by name: the other is the alias */
    assert_true(e->alias);
    assert_false(again->alias);
    assert_string_equal(e->declined, "of a test");
    e = fby__h5_tree_find(&tree, "/numbers/up");
    assert_ptr_equal(e->object, tree.entries[0].object);
    assert_true(e->alias);
    e = fby__h5_tree_find(&tree, "/a_soft");
    assert_true(e->alias);
    assert_ptr_equal(e->object, fby__h5_tree_find(&tree, "text/fixed")->object);
    assert_ptr_equal(fby__h5_tree_find(&tree, "/numbers/up/numbers/up/text/fixed")->object, e->object);
    e = fby__h5_tree_find(&tree, "/b_soft");
    assert_null(e->object);
    assert_non_null(strstr(e->declined, "leads to no object"));
    assert_non_null(strstr(fby__h5_tree_find(&tree, "/other")->declined, "object 'part' doesn't exist")); /* in another file */
    assert_int_equal(fby__h5_tree_find(&tree, "/named")->object->kind, FBY__H5_NAMED_TYPE);
    assert_null(fby__h5_tree_find(&tree, "/numbers/gone"));
    assert_int_equal(tree.entries[0].object->n_attributes, 1);
    for (uint32_t i = 0; i < tree.n; i++)
        if (!tree.entries[i].object && strcmp(tree.entries[i].path, "/b_soft") != 0 && strcmp(tree.entries[i].path, "/other") != 0)
            fail_msg("%s: %s", tree.entries[i].path, tree.entries[i].declined);
    fby__arena_fini(&arena);
}

static void an_allocation_that_fails_leaves_nothing_behind(void **state)
{
    (void)state;
    for (uint64_t at = 1;; at++) {
        fby__arena arena = {0};
        fby__h5_tree tree;
        fby_error err;
        fby__alloc_fail_at(at);
        fby_status r = fby__h5_helper_tree(NULL, GOLDEN("types.h5"), "", &arena, &tree, &err);
        uint8_t parts[5 * FBY__H5_HELPER_VLEN_BYTES];
        fby__buf b = {0};
        if (r == FBY_OK)
            r = fby__h5_helper_read_values(GOLDEN("types.h5"), "/sequences", 0, 1, (uint64_t[]){0}, (uint64_t[]){5}, parts, sizeof parts,
                                           1000, &b, &err);
        fby__alloc_fail_at(0);
        fby__buf_fini(&b);
        fby__arena_fini(&arena);
        if (r == FBY_OK) {
            assert_true(at > 3);
            return;
        }
        assert_int_equal(r, FBY_E_NOMEM);
    }
}

/* The bytes of a real description. */
static fby__bytes description(void)
{
    fby__h5_ask ask = {.path = GOLDEN("types.h5"), .object = "/", .op = FBY__H5P_TREE, .most = 1 << 20};
    fby_error err;
    int fd;
    uint64_t n;
    check_ok(fby__h5_helper_ask(&ask, &fd, &n, &err), &err);
    uint8_t *p = malloc((size_t)n);
    check_ok(fby__h5_helper_fetch(fd, 0, p, (size_t)n, &err), &err);
    (void)close(fd);
    return (fby__bytes){p, (size_t)n};
}

static fby_status parse(const uint8_t *p, size_t n)
{
    fby__arena arena = {0};
    fby__h5_tree tree;
    fby_error err;
    uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees what is read behind the end */
    memcpy(exact, p, n);
    fby_status r = fby__h5_helper_parse_tree((fby__bytes){exact, n}, "", &arena, &tree, &err);
    if (r == FBY_OK)
        for (uint32_t i = 0; i < tree.n; i++)
            (void)fby__h5_tree_find(&tree, tree.entries[i].path);
    free(exact);
    fby__arena_fini(&arena);
    return r;
}

static void descriptions_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    fby__bytes b = description();
    uint8_t *p = (uint8_t *)(uintptr_t)b.data;
    assert_int_equal(parse(p, b.n), FBY_OK);
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(parse(p, n), FBY_E_FORMAT);
    for (size_t i = 0; i < b.n; i++) {
        uint8_t old = p[i];
        for (unsigned k = 0; k < 3; k++) {
            p[i] = (uint8_t)(k == 0 ? 0xff : k == 1 ? old + 1 : old ^ 0x80);
            fby_status r = parse(p, b.n);
            assert_true(r == FBY_OK || r == FBY_E_FORMAT);
        }
        p[i] = old;
    }
    free(p);
}

/* ---- files that change ---- */

static void copy_file(const char *from, const char *to)
{
    uint8_t bytes[64 << 10];
    FILE *f = fopen(from, "rb"), *g = fopen(to, "wb");
    assert_non_null(f);
    assert_non_null(g);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_int_equal(fwrite(bytes, 1, n, g), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(fclose(g), 0);
}

static void a_file_that_changed_is_opened_anew(void **state)
{
    (void)state;
    int32_t v;
    fby_error err;
    for (int i = 0; i < 6; i++) { /* a relative path: from where this process is now, not where the program was started */
        copy_file(i % 2 ? GOLDEN("part_1.h5") : GOLDEN("part_0.h5"), "x.h5");
        check_ok(fby__h5_helper_read("x.h5", "/x", 0, 2, (uint64_t[]){1, 1}, (uint64_t[]){1, 1}, FBY_INT32, &v, 4, &err), &err);
        assert_int_equal(v, 6 + 100 * (i % 2));
    }
}

/* libhdf5 takes it for one that is being written, and waits for it to become right. */
static void a_superblock_with_a_wrong_checksum_is_refused_at_once(void **state)
{
    (void)state;
    fby__arena arena = {0};
    fby__h5_tree tree;
    fby_error err;
    copy_file(FBY_SOURCE_DIR "/tests/golden/hdf5/dense.h5", "x.h5");
    const int fd = open("x.h5", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "\xff\xff", 2, 44), 2);
    assert_int_equal(close(fd), 0);
    fby__h5_helper_set_timeout(20000);
    check_fails(fby__h5_helper_tree(NULL, "x.h5", "", &arena, &tree, &err), FBY_E_FORMAT, &err, "checksum");
    fby__h5_helper_set_timeout(0);
    fby__arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_only_libhdf5_decodes_is_read),
        cmocka_unit_test(virtual_data_sets_gather_their_files),
        cmocka_unit_test(external_data_lies_beside_the_file),
        cmocka_unit_test(numbers_become_the_dtype_wanted),
        cmocka_unit_test(compounds_come_packed_and_native),
        cmocka_unit_test(strings_and_references_are_read_as_text),
        cmocka_unit_test(parts_outside_of_the_heap_are_refused),
        cmocka_unit_test(sequences_come_as_their_elements),
        cmocka_unit_test(refusals_say_what_and_where),
        cmocka_unit_test(an_object_is_described),
        cmocka_unit_test(the_tree_has_every_object_once),
        cmocka_unit_test(an_allocation_that_fails_leaves_nothing_behind),
        cmocka_unit_test(descriptions_that_make_no_sense_are_refused),
        cmocka_unit_test_setup_teardown(a_file_that_changed_is_opened_anew, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_superblock_with_a_wrong_checksum_is_refused_at_once, setup_dir, teardown_dir),
    };
    if (no_helper_program("test_h5_helper"))
        return 77;
    (void)setenv("HDF5_PLUGIN_PATH", "/nonexistent", 1); /* plugin.h5: what this machine has must not matter */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fby__h5_helper_stop();
    return failed;
}
