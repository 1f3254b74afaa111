/*
 * The tree of HDF5 files: what h5py finds in the golden files of tests/golden/hdf5_tree, in order and by name; files made by
 * hand with links that lead in circles; damaged files; failing allocations and reads.
 */
#include "format/h5_image.h"

#include "base/clock.h"

static const char *const GOLDEN[] = {"many_old", "many_new", "many_ordered", "links_old", "links_new", "attributes", "values"};

/* ---- golden files ---- */

static int compare_texts(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* As make_hdf5_tree_golden.py writes it. */
static char *describe(const fby__h5_entry *e)
{
    static const char *const kinds[] = {"group", "dataset", "type", "other"};
    if (!e->object || e->alias)
        return fby__format("%s %s", e->path, e->object ? "alias" : "none");
    const char *names[64];
    assert_in_range(e->object->n_attributes, 0, COUNT(names));
    for (uint32_t i = 0; i < e->object->n_attributes; i++)
        names[i] = e->object->attributes[i].name;
    qsort(names, e->object->n_attributes, sizeof *names, compare_texts);
    char *line = fby__format("%s %s", e->path, kinds[e->object->kind]);
    for (uint32_t i = 0; i < e->object->n_attributes; i++) {
        char *longer = fby__format("%s %s", line, names[i]);
        fby__free(line);
        line = longer;
    }
    return line;
}

static void golden_files_hold_what_h5py_finds(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(GOLDEN); i++) {
        fby__h5_tree t;
        fby__h5_file *f = open_golden_tree(GOLDEN[i], &t);
        char name[64];
        snprintf(name, sizeof name, "%s.txt", GOLDEN[i]);
        size_t n;
        char *wanted = (char *)read_golden(name, &n), *save = NULL;
        char **lines = fby__calloc(t.n, sizeof *lines);
        for (uint32_t k = 0; k < t.n; k++)
            lines[k] = describe(&t.entries[k]);
        qsort(lines, t.n, sizeof *lines, compare_texts);
        uint32_t at = 0;
        for (char *line = strtok_r(wanted, "\n", &save); line; line = strtok_r(NULL, "\n", &save), at++) {
            assert_in_range(at, 0, t.n - 1);
            assert_string_equal(lines[at], line);
        }
        assert_int_equal(at, t.n);
        for (uint32_t k = 0; k < t.n; k++)
            fby__free(lines[k]);
        fby__free(lines);
        fby__free(wanted);
        touch_tree(&t);
        fby__h5_file_close(f);
    }
}

static void names_of_a_group_come_in_order_and_groups_before_what_is_in_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(GOLDEN); i++) {
        fby__h5_tree t;
        fby__h5_file *f = open_golden_tree(GOLDEN[i], &t);
        assert_string_equal(t.entries[0].path, "/");
        for (uint32_t k = 1; k < t.n; k++) {
            char above[256];
            snprintf(above, sizeof above, "%s", t.entries[k].path);
            strrchr(above, '/')[0] = 0;
            const fby__h5_entry *group = fby__h5_tree_find(&t, above);
            assert_non_null(group);
            assert_true(group < &t.entries[k]);
        }
        if (strncmp(GOLDEN[i], "many", 4) == 0)
            for (uint32_t k = 2; k < t.n; k++)
                assert_true(strcmp(t.entries[k - 1].path, t.entries[k].path) < 0);
        fby__h5_file_close(f);
    }
}

static void paths_are_found_through_every_name_of_a_group(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fby__h5_tree t;
        fby__h5_file *f = open_golden_tree(i ? "links_new" : "links_old", &t);
        static const char *const same[] = {"/a/b/c/x",          "a/b/c/x",
                                           "a//b/./c/x/",       "z_other_group/c/x",
                                           "z_other_name",      "soft_absolute",
                                           "a/soft_of_soft",    "a/to_self/to_self/b/c/x",
                                           "chain12/c/x",       "a/b/c/zz_root/a/b/c/x",
                                           "/a/b/c/zz_up/b/c/x"};
        const fby__h5_object *x = fby__h5_tree_find(&t, "/a/b/c/x")->object;
        assert_int_equal(x->kind, FBY__H5_DATASET);
        for (size_t k = 0; k < COUNT(same); k++) {
            const fby__h5_entry *e = fby__h5_tree_find(&t, same[k]);
            assert_non_null(e);
            assert_ptr_equal(e->object, x);
        }
        static const char *const absent[] = {"/a/b/c/x/y", "b", "/a/../a", "external/x", "a/soft_dangling/z", "a/loop1/b", "aa"};
        for (size_t k = 0; k < COUNT(absent); k++)
            assert_null(fby__h5_tree_find(&t, absent[k]));
        assert_ptr_equal(fby__h5_tree_find(&t, "/"), t.entries);
        assert_ptr_equal(fby__h5_tree_find(&t, ""), t.entries);
        assert_null(fby__h5_attribute_find(x, "absent"));
        fby__h5_file_close(f);
    }
}

static void links_that_lead_nowhere_say_why(void **state)
{
    (void)state;
    static const struct {
        const char *path, *why;
    } wanted[] = {{"external", "a link to another file (other.h5:/x)"},
                  {"a/soft_dangling", "a soft link to nothing that is read"},
                  {"chain00", "a soft link that leads through too many others"},
                  {"a/loop2", "a soft link that leads through too many others"},
                  {"through_external", "a soft link to nothing that is read"}};
    fby__h5_tree t;
    fby__h5_file *f = open_golden_tree("links_new", &t);
    for (size_t i = 0; i < COUNT(wanted); i++) {
        const fby__h5_entry *e = fby__h5_tree_find(&t, wanted[i].path);
        assert_non_null(e);
        assert_null(e->object);
        assert_false(e->alias);
        assert_string_equal(e->declined, wanted[i].why);
    }
    fby__h5_file_close(f);
}

static void dense_attributes_come_in_order_of_creation(void **state)
{
    (void)state;
    fby__h5_tree t;
    fby__h5_file *f = open_golden_tree("attributes", &t);
    const fby__h5_object *ordered = fby__h5_tree_find(&t, "by_order")->object;
    assert_int_equal(ordered->n_attributes, 30);
    for (uint32_t i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof name, "attribute%u", i * 7 % 30);
        assert_string_equal(ordered->attributes[i].name, name);
        assert_int_equal(ordered->attributes[i].data.n, 2 * i);
        for (uint32_t k = 0; k < i; k++)
            assert_int_equal(fby__load_u16(ordered->attributes[i].data.data + 2 * (size_t)k), k);
    }
    const fby__h5_object *named = fby__h5_tree_find(&t, "by_name")->object;
    assert_int_equal(named->n_attributes, 32);
    const fby__h5_attribute *huge = fby__h5_attribute_find(named, "huge");
    assert_non_null(huge);
    assert_int_equal(huge->data.n, 5000);
    fby__h5_file_close(f);
}

static void a_group_that_is_not_read_does_not_hide_the_rest(void **state)
{
    (void)state;
    size_t n;
    uint8_t *data = read_golden("links_old.h5", &n);
    uint8_t *heap = memmem(data, n, "FRHP", 4);
    assert_non_null(heap);
    heap[7] = 12; /* a filtered heap: of the root's links, which include one to another file */
    fby__file *file = file_of(data, n);
    fby__h5_file *f = NULL;
    fby__h5_tree t;
    fby_error err;
    assert_int_equal(fby__h5_file_open(file, &f, &err), FBY_OK);
    assert_int_equal(fby__h5_tree_read(f, &t, &err), FBY_OK);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.entries[0].object->kind, FBY__H5_GROUP);
    assert_string_equal(t.entries[0].declined, "a fractal heap with filters");
    fby__h5_file_close(f);
    fby__file_unref(file);
    fby__free(data);
}

/* ---- files made by hand: groups of link messages ---- */

static size_t group_bytes(unsigned n_links, size_t name_bytes) { return 8 + 4 + 18 + n_links * (4 + 11 + name_bytes) + 4; }

/* A group whose links all have names of one length, at a place that group_bytes was asked for. */
static void put_group(image *im, uint64_t at, unsigned n_links, size_t name_bytes, const char *const *names, const uint64_t *to)
{
    const size_t body = group_bytes(n_links, name_bytes) - 12; /* messages */
    pen p = pen_at(im, at);
    p_text(&p, "OHDR");
    p_uint(&p, 2, 1);
    p_uint(&p, 1, 1); /* two bytes of size, no times, no order */
    p_uint(&p, body, 2);
    p_uint(&p, 2, 1); /* link info: nothing dense */
    p_uint(&p, 18, 2);
    p_uint(&p, 0, 3);
    p_uint(&p, NONE, 8);
    p_uint(&p, NONE, 8);
    for (unsigned i = 0; i < n_links; i++) {
        p_uint(&p, 6, 1);
        p_uint(&p, 11 + name_bytes, 2);
        p_uint(&p, 0, 1);
        p_uint(&p, 1, 1); /* version; a hard link with a name of less than 256 bytes */
        p_uint(&p, 0, 1);
        p_uint(&p, name_bytes, 1);
        p_bytes(&p, names[i], name_bytes);
        p_uint(&p, to[i], 8);
    }
    p_checksum(&p);
}

static fby__h5_file *open_tree(image *im, uint64_t root, fby__h5_tree *t, fby_status *out, fby_error *err)
{
    image_finish(im, root);
    fby__h5_file *f = open_image(im);
    *err = (fby_error){0};
    *out = fby__h5_tree_read(f, t, err);
    return f;
}

static const char *const ABC[] = {"a", "b", "c"};

static void circles_of_hard_links_end(void **state)
{
    (void)state;
    enum { N = 60 }; /* each group has the next one three times, and the last the first: 3^60 paths */
    image im;
    image_init(&im);
    uint64_t groups[N + 1];
    for (unsigned i = 0; i < N; i++)
        groups[i] = place(&im, group_bytes(3, 1));
    groups[N] = groups[0];
    for (unsigned i = 0; i < N; i++) {
        uint64_t to[3] = {groups[i + 1], groups[i + 1], groups[i + 1]};
        put_group(&im, groups[i], 3, 1, ABC, to);
    }
    fby__h5_tree t;
    fby_status status;
    fby_error err;
    fby__h5_file *f = open_tree(&im, groups[0], &t, &status, &err);
    if (status != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(t.n, 1 + 3 * N);
    unsigned aliases = 0;
    for (uint32_t i = 0; i < t.n; i++)
        aliases += t.entries[i].alias;
    assert_int_equal(aliases, 2 * N + 1);
    assert_ptr_equal(fby__h5_tree_find(&t, "c/b/a")->object, fby__h5_tree_find(&t, "a/a/a")->object);
    fby__h5_file_close(f);
    image_fini(&im);
}

static void groups_nested_too_deep_are_declined(void **state)
{
    (void)state;
    enum { N = 300 };
    image im;
    image_init(&im);
    uint64_t groups[N + 1];
    for (unsigned i = 0; i <= N; i++)
        groups[i] = place(&im, group_bytes(1, 1));
    for (unsigned i = 0; i <= N; i++)
        put_group(&im, groups[i], i < N, 1, ABC, &groups[i < N ? i + 1 : i]);
    fby__h5_tree t;
    fby_status status;
    fby_error err;
    fby__h5_file *f = open_tree(&im, groups[0], &t, &status, &err);
    assert_int_equal(status, FBY_OK);
    assert_int_equal(t.n, 257);
    assert_non_null(t.entries[255].object);
    assert_null(t.entries[256].object);
    assert_string_equal(t.entries[256].declined, "groups are nested too deep here");
    fby__h5_file_close(f);
    image_fini(&im);
}

static void links_with_impossible_names_or_addresses_are_errors(void **state)
{
    (void)state;
    static const char *const twice[] = {"same", "same"}, *const slash[] = {"a/bc", "same"}, *const fine[] = {"none", "same"};
    const char *const *names[] = {twice, slash, fine, fine, fine};
    for (unsigned i = 0; i < COUNT(names); i++) {
        image im;
        image_init(&im);
        uint64_t root = place(&im, group_bytes(2, 4)), leaf = place(&im, group_bytes(0, 0));
        put_group(&im, leaf, 0, 0, NULL, NULL);
        uint64_t first = i == 2 ? im.n + 100 : i == 3 ? NONE : i == 4 ? 8 : leaf;
        put_group(&im, root, 2, 4, names[i], (uint64_t[2]){first, leaf});
        fby__h5_tree t;
        fby_status status;
        fby_error err;
        fby__h5_file *f = open_tree(&im, root, &t, &status, &err);
        assert_int_equal(status, FBY_E_FORMAT);
        assert_non_null(strstr(err.message, i == 0 ? "/same" : i == 1 ? "a/bc" : "none"));
        fby__h5_file_close(f);
        image_fini(&im);
    }
}

/* ---- damage ---- */

static void a_b_tree_of_a_group_that_leads_in_circles_is_an_error(void **state)
{
    (void)state;
    size_t n;
    uint8_t *data = read_golden("many_old.h5", &n);
    const uint8_t *at = data, *root = NULL;
    while ((at = memmem(at, n - (size_t)(at - data), "TREE", 4)) != NULL) {
        if (at[5] == 1)
            root = at;
        at++;
    }
    assert_non_null(root);
    const uint64_t root_address = (uint64_t)(root - data), children = root_address + 24 + 8;
    const uint64_t first = fby__load_u64(data + children), second = fby__load_u64(data + children + 16);
    fby_error err;
    fby__store_u64(data + children, root_address); /* to itself: the level is wrong */
    assert_int_equal(try_tree(data, n, &err), FBY_E_FORMAT);
    fby__store_u64(data + children, second); /* the same names twice */
    assert_int_equal(try_tree(data, n, &err), FBY_E_FORMAT);
    fby__store_u64(data + children, first);
    /* Sixty thousand times the same leaf: more than the file. The root is moved to the end, where it has room. */
    uint8_t *large = fby__calloc(1, n + (2u << 20));
    memcpy(large, data, n);
    memcpy(large + n, data + root_address, 24);
    large[n + 6] = 0xff, large[n + 7] = 0xff;
    for (unsigned i = 0; i < 65535; i++)
        fby__store_u64(large + n + 32 + 16 * (size_t)i, first);
    for (uint8_t *p = large; p < large + n; p++) /* who names the old root: the superblock's and the header's symbol table */
        if (fby__load_u64(p) == root_address)
            fby__store_u64(p, n);
    uint64_t begin_ns = fby__now_ns();
    assert_int_equal(try_tree(large, n + (2u << 20), &err), FBY_E_FORMAT);
    assert_in_range(fby__now_ns() - begin_ns, 0, 10000000000u);
    fby__free(large);
    fby__free(data);
}

/* Any answer but a crash, a hang, or another kind of error. */
static void check_status(const char *name, size_t at, fby_status status, const fby_error *err)
{
    if (status != FBY_OK && status != FBY_E_FORMAT && status != FBY_E_UNSUPPORTED)
        fail_msg("%s, byte %zu: %s", name, at, err->message);
}

static void damaged_files_are_errors_or_other_trees(void **state)
{
    (void)state;
    static const uint8_t masks[] = {0x01, 0x80, 0xff};
    for (size_t i = 0; i < COUNT(GOLDEN); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.h5", GOLDEN[i]);
        size_t n;
        uint8_t *data = read_golden(name, &n);
        fby_error err;
        const size_t step = n / 2500 + 1;
        for (size_t at = 0; at < n; at += step) {
            const uint8_t mask = masks[at / step % COUNT(masks)];
            data[at] ^= mask;
            check_status(name, at, try_tree(data, n, &err), &err);
            data[at] ^= mask;
        }
        for (size_t at = 0; at < n; at += step * 8) /* the superblock says how long the file is */
            assert_int_equal(try_tree(data, at, &err), FBY_E_FORMAT);
        assert_int_equal(try_tree(data, n, &err), FBY_OK);
        fby__free(data);
    }
}

/* Cut without the superblock knowing: files of version 0 have no checksum on it. */
static void truncated_files_are_errors_in_every_structure(void **state)
{
    (void)state;
    static const char *const files[] = {"many_old.h5", "values.h5"};
    for (size_t i = 0; i < COUNT(files); i++) {
        size_t n;
        uint8_t *data = read_golden(files[i], &n);
        fby_error err;
        for (size_t at = 2048; at < n; at += 97) {
            fby__store_u64(data + 40, at); /* end of file */
            check_status(files[i], at, try_tree(data, at, &err), &err);
        }
        fby__free(data);
    }
}

static void failing_allocations_and_reads_are_errors(void **state)
{
    (void)state;
    static const char *const files[] = {"links_old.h5", "links_new.h5", "attributes.h5", "many_new.h5"};
    for (size_t i = 0; i < COUNT(files); i++) {
        size_t n;
        uint8_t *data = read_golden(files[i], &n);
        fby__file *file = file_of(data, n);
        for (int reads = 0; reads < 2; reads++) {
            fby_status status = FBY_E_INTERNAL;
            for (uint64_t at = 1; status != FBY_OK; at++) {
                fby_error err = {0};
                fby__h5_file *f = NULL;
                fby__h5_tree t;
                if (reads)
                    fby__io_set_fault(&(fby__io_fault){.fail_at = at});
                else
                    fby__alloc_fail_at(at);
                status = fby__h5_file_open(file, &f, &err);
                if (status == FBY_OK)
                    status = fby__h5_tree_read(f, &t, &err);
                fby__io_set_fault(&(fby__io_fault){0});
                fby__alloc_fail_at(0);
                if (status != FBY_OK)
                    assert_int_equal(status, reads ? FBY_E_IO : FBY_E_NOMEM);
                fby__h5_file_close(f);
            }
        }
        fby__file_unref(file);
        fby__free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_files_hold_what_h5py_finds),
        cmocka_unit_test(names_of_a_group_come_in_order_and_groups_before_what_is_in_them),
        cmocka_unit_test(paths_are_found_through_every_name_of_a_group),
        cmocka_unit_test(links_that_lead_nowhere_say_why),
        cmocka_unit_test(a_group_that_is_not_read_does_not_hide_the_rest),
        cmocka_unit_test(dense_attributes_come_in_order_of_creation),
        cmocka_unit_test(circles_of_hard_links_end),
        cmocka_unit_test(groups_nested_too_deep_are_declined),
        cmocka_unit_test(links_with_impossible_names_or_addresses_are_errors),
        cmocka_unit_test(a_b_tree_of_a_group_that_leads_in_circles_is_an_error),
        cmocka_unit_test(damaged_files_are_errors_or_other_trees),
        cmocka_unit_test(truncated_files_are_errors_in_every_structure),
        cmocka_unit_test(failing_allocations_and_reads_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
