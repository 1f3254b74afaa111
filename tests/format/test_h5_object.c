/*
 * Superblocks, views and objects: golden files of h5py (tests/golden/make_hdf5_golden.py, which says what is in them), damage
 * all over them, failing allocations and reads, and every object of the real files, where they are.
 * test_h5_messages.c has the headers that h5py does not write.
 */
#include "format/h5_image.h"

#include <glob.h>

static const char *const GOLDEN[] = {
    "objects_earliest",
    "objects_latest",
    "objects_earliest_user_block",
    "objects_latest_user_block",
    "types_earliest",
    "types_latest",
    "parts_earliest",
    "parts_latest",
    "committed_earliest",
    "committed_latest",
    "many_earliest",
    "dense",
    "track_order",
    "declined",
    "shared_heap",
    "swmr",
    "sizes_of_4",
    "family_earliest_0",
    "family_latest_0",
};

/* ---- golden files ---- */

typedef struct opened {
    fby__h5_file *f;
    fby__h5_tree tree;
} opened;

static fby__file *golden_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/hdf5/%s.h5", FBY_TEST_DATA, name);
    fby__file *file = NULL;
    fby_error err;
    if (fby__file_open(path, NULL, &file, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return file;
}

static opened open_golden(const char *name)
{
    opened o = {0};
    fby_error err;
    fby__file *file = golden_file(name);
    if (fby__h5_file_open(file, &o.f, &err) != FBY_OK || fby__h5_tree_read(o.f, &o.tree, &err) != FBY_OK)
        fail_msg("%s: %s", name, err.message);
    fby__file_unref(file);
    return o;
}

static const fby__h5_object *object_of(const opened *o, const char *path)
{
    const fby__h5_entry *e = fby__h5_tree_find(&o->tree, path);
    if (!e || !e->object)
        fail_msg("%s is not there", path);
    return e->object;
}

static void check_type(const fby__h5_type *type, const char *want)
{
    char text[256];
    assert_non_null(type);
    (void)fby__h5_type_text(type, text, sizeof text);
    assert_string_equal(text, want);
}

/* An attribute of one int64, float64 or int32: as float64. */
static double number(const fby__h5_attribute *a)
{
    assert_non_null(a);
    assert_int_equal(a->space.n_elements, 1);
    assert_int_equal(a->data.n, a->type->bytes);
    double d = 0;
    int64_t i = 0;
    switch (fby__h5_type_dtype(a->type)) {
    case FBY_FLOAT64: fby__h5_type_convert(a->type, a->data.data, 8, 1, &d); return d;
    case FBY_INT64: fby__h5_type_convert(a->type, a->data.data, 8, 1, &i); return (double)i;
    default: fail_msg("%s is neither int64 nor float64", a->name);
    }
    return 0;
}

static void each_kind_of_superblock_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned version, base, offset_bytes, leaf_k, internal_k, chunk_k, swmr;
    } want[] = {
        {"objects_earliest", 0, 0, 8, 4, 16, 32, 0},
        {"objects_earliest_user_block", 0, 512, 8, 4, 16, 32, 0},
        {"sizes_of_4", 2, 0, 4, 4, 16, 32, 0},
        {"objects_latest", 3, 0, 8, 4, 16, 32, 0},
        {"objects_latest_user_block", 3, 1024, 8, 4, 16, 32, 0},
        {"shared_heap", 3, 0, 8, 6, 20, 40, 0}, /* ranks from the superblock extension */
        {"swmr", 3, 0, 8, 4, 16, 32, 1},
    };
    for (size_t i = 0; i < COUNT(want); i++) {
        opened o = open_golden(want[i].name);
        assert_int_equal(o.f->version, want[i].version);
        assert_int_equal(o.f->base, want[i].base);
        assert_int_equal(o.f->offset_bytes, want[i].offset_bytes);
        assert_int_equal(o.f->length_bytes, want[i].offset_bytes);
        assert_int_equal(o.f->group_leaf_k, want[i].leaf_k);
        assert_int_equal(o.f->group_internal_k, want[i].internal_k);
        assert_int_equal(o.f->chunk_k, want[i].chunk_k);
        assert_int_equal(o.f->swmr, want[i].swmr);
        assert_int_equal(object_of(&o, "/")->kind, FBY__H5_GROUP);
        fby__h5_file_close(o.f);
    }
}

static void one_file_of_several_is_left_to_the_helper(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fby__file *file = golden_file(i ? "family_latest_0" : "family_earliest_0");
        fby__h5_file *f = NULL;
        fby_error err;
        assert_int_equal(fby__h5_file_open(file, &f, &err), FBY_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, "family driver"));
        assert_null(f);
        fby__file_unref(file);
    }
}

static void a_truncated_file_says_both_sizes(void **state)
{
    (void)state;
    static const char *const names[] = {"objects_earliest_user_block", "objects_latest"};
    static const char *const want[] = {"it has 16000 bytes of 16872", "it has 11000 bytes of 11457"};
    for (int i = 0; i < 2; i++) {
        fby__file *whole = golden_file(names[i]);
        uint8_t bytes[16000];
        const size_t n = i ? 11000 : 16000;
        fby_error err;
        assert_int_equal(fby__file_read(whole, 0, bytes, n, &err), FBY_OK);
        fby__file *file = file_of(bytes, n);
        fby__h5_file *f = NULL;
        assert_int_equal(fby__h5_file_open(file, &f, &err), FBY_E_FORMAT);
        assert_non_null(strstr(err.message, want[i]));
        assert_int_equal(err.file_offset, n);
        fby__file_unref(file);
        fby__file_unref(whole);
    }
}

static void layouts_and_filters_are_what_h5py_wrote(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool latest = i / 2;
        opened all = open_golden(GOLDEN[i % 2 * 2 + latest]);
        const fby__h5_object *o = object_of(&all, "scalar");
        assert_int_equal(o->kind, FBY__H5_DATASET);
        assert_int_equal(o->space.rank, 0);
        assert_int_equal(o->space.n_elements, 1);
        check_type(o->type, "float64");

        o = object_of(&all, "contiguous");
        assert_int_equal(o->layout, FBY__H5_CONTIGUOUS);
        assert_int_equal(o->space.rank, 2);
        assert_int_equal(o->space.dims[0], 3);
        assert_int_equal(o->space.max_dims[1], 4);
        assert_int_equal(o->data_bytes, 24);
        assert_int_equal(o->fill.n, 0);
        fby__bytes raw;
        fby_error err;
        assert_int_equal(fby__h5_view(all.f, o->data_address, 24, "data", &raw, &err), FBY_OK);
        for (uint16_t k = 0; k < 12; k++)
            assert_int_equal(fby__load_u16(raw.data + 2 * k), k);

        o = object_of(&all, "never_written");
        assert_int_equal(o->space.n_elements, 0);
        o = object_of(&all, "late");
        assert_true(o->data_address == FBY__H5_UNDEFINED);
        assert_int_equal(o->fill.n, 4);
        assert_memory_equal(o->fill.data, &(float){-1.5f}, 4);
        o = object_of(&all, "compact");
        assert_int_equal(o->layout, FBY__H5_COMPACT);
        assert_int_equal(o->compact.n, 8);
        assert_memory_equal(o->compact.data, "compact!", 8);

        o = object_of(&all, "chunked");
        assert_int_equal(o->layout, FBY__H5_CHUNKED);
        assert_int_equal(o->index, latest ? FBY__H5_INDEX_SINGLE : FBY__H5_INDEX_BTREE1);
        assert_int_equal(o->chunk[0], 4);
        assert_int_equal(o->chunk[1], 6);
        assert_int_equal(o->chunk_element_bytes, 4);
        assert_int_equal(o->n_filters, 3);
        static const uint16_t ids[] = {2, 1, 3}; /* shuffle, deflate, fletcher32 */
        for (int k = 0; k < 3; k++)
            assert_int_equal(o->filters[k].id, ids[k]);
        assert_int_equal(o->filters[0].values[0], 4);
        assert_int_equal(o->filters[1].n_values, 1);
        assert_int_equal(o->filters[1].values[0], 4);
        assert_true(o->filters[1].optional);
        assert_false(o->filters[2].optional);
        assert_string_equal(o->filters[1].name, latest ? "" : "deflate");
        if (latest)
            assert_in_range(o->single_bytes, 20, 100);
        assert_int_equal(o->single_mask, 0);

        o = object_of(&all, "growing");
        assert_int_equal(o->index, latest ? FBY__H5_INDEX_EXTENSIBLE : FBY__H5_INDEX_BTREE1);
        assert_true(o->space.max_dims[0] == FBY__H5_UNDEFINED);
        assert_int_equal(o->filters[0].id, 32000);
        assert_string_equal(o->filters[0].name, "lzf");
        if (latest) {
            static const uint8_t parameters[] = {32, 4, 4, 16, 10};
            assert_memory_equal(o->index_info, parameters, 5);
            assert_int_equal(object_of(&all, "fixed_array")->index, FBY__H5_INDEX_FIXED);
            assert_int_equal(object_of(&all, "fixed_array")->index_info[0], 10);
            assert_int_equal(object_of(&all, "btree2")->index, FBY__H5_INDEX_BTREE2);
            assert_int_equal(object_of(&all, "implicit")->index, FBY__H5_INDEX_IMPLICIT);
        }
        fby__h5_file_close(all.f);
    }
}

static void links_of_a_group_have_their_targets(void **state)
{
    (void)state;
    opened all = open_golden("objects_latest");
    const fby__h5_object *g = object_of(&all, "group");
    assert_int_equal(g->n_links, 4);
    for (uint32_t i = 0; i < g->n_links; i++) {
        const fby__h5_link *l = &g->links[i];
        if (strcmp(l->name, "soft") == 0) {
            assert_int_equal(l->kind, FBY__H5_SOFT);
            assert_string_equal(l->target, "/contiguous");
        } else if (strcmp(l->name, "external") == 0) {
            assert_int_equal(l->kind, FBY__H5_EXTERNAL);
            assert_string_equal(l->target, "other.h5:/x");
        } else {
            assert_int_equal(l->kind, FBY__H5_HARD);
            assert_int_equal(l->address, object_of(&all, strcmp(l->name, "hard") == 0 ? "contiguous" : "group/below")->address);
        }
    }
    fby__h5_file_close(all.f);
    all = open_golden("objects_earliest");
    g = object_of(&all, "group"); /* h5py writes link messages whenever there is an external link */
    assert_true(g->n_links == 4 || g->btree_address != FBY__H5_UNDEFINED);
    assert_true(object_of(&all, "/")->btree_address != FBY__H5_UNDEFINED);
    assert_true(object_of(&all, "/")->heap_address != FBY__H5_UNDEFINED);
    fby__h5_file_close(all.f);
}

static void attributes_come_by_name_or_in_order_of_creation(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        opened all = open_golden(GOLDEN[i]);
        const fby__h5_object *root = object_of(&all, "/");
        static const char *const names[] = {"a", "b", "empty", "title"};
        assert_int_equal(root->n_attributes, 4);
        for (uint32_t k = 0; k < 4; k++)
            assert_string_equal(root->attributes[k].name, names[k]);
        assert_true(number(&root->attributes[0]) == 1.5);
        assert_int_equal(root->attributes[1].space.rank, 2);
        assert_int_equal(root->attributes[1].space.dims[1], 3);
        assert_int_equal(root->attributes[1].data.data[20], 5);
        assert_true(root->attributes[2].space.null);
        assert_int_equal(root->attributes[2].data.n, 0);
        check_type(root->attributes[3].type, "vlen string (UTF-8)");
        fby__h5_file_close(all.f);
    }
    static const struct {
        const char *name;
        unsigned n, step;
    } want[] = {{"dense", 30, 1}, {"track_order", 20, 7}, {"many_earliest", 20, 1}};
    for (size_t i = 0; i < COUNT(want); i++) {
        opened all = open_golden(want[i].name);
        const fby__h5_object *root = object_of(&all, "/");
        assert_int_equal(root->n_attributes, want[i].n);
        for (unsigned k = 0; k < want[i].n; k++) {
            char name[32];
            snprintf(name, sizeof name, "attribute_%02u", k * want[i].step % want[i].n);
            assert_string_equal(root->attributes[k].name, name);
            if (i == 1)
                assert_true(number(&root->attributes[k]) == k);
        }
        if (i == 1) {
            const fby__h5_object *x = object_of(&all, "x"); /* tracked in the header itself */
            assert_int_equal(x->n_attributes, 3);
            assert_string_equal(x->attributes[0].name, "z");
            assert_string_equal(x->attributes[2].name, "a");
        }
        fby__h5_file_close(all.f);
    }
}

static void committed_types_are_followed_and_read_once(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        opened all = open_golden(i ? "committed_latest" : "committed_earliest");
        const fby__h5_object *point = object_of(&all, "point"), *real = object_of(&all, "real");
        assert_int_equal(point->kind, FBY__H5_NAMED_TYPE);
        check_type(object_of(&all, "points")->type, "compound {x: float64, y: float64}");
        const fby__h5_object *plain = object_of(&all, "plain");
        assert_int_equal(plain->n_attributes, 1);
        check_type(plain->attributes[0].type, "float32 (big-endian)");
        float unit[2];
        fby__h5_type_convert(plain->attributes[0].type, plain->attributes[0].data.data, 4, 2, unit);
        assert_true(unit[0] == 1 && unit[1] == 2);
        assert_string_equal(real->attributes[0].name, "note");
        fby__h5_object *again;
        fby_error err;
        assert_int_equal(fby__h5_object_parse(all.f, plain->address, &again, &err), FBY_OK);
        assert_ptr_equal(again->attributes[0].type, plain->attributes[0].type);
        fby__h5_file_close(all.f);
    }
}

static void what_is_not_ours_is_declined_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *file, *path, *reason;
    } want[] = {
        {"declined", "virtual", "it is a virtual data set"},
        {"declined", "external", "its data lies in external files"},
        {"declined", "fine", NULL},
        {"shared_heap", "a", "its attribute is in the file's shared message heap"},
        {"shared_heap", "b", "its dataspace is in the file's shared message heap"},
        {"shared_heap", "small", NULL},
    };
    for (size_t i = 0; i < COUNT(want); i++) {
        opened all = open_golden(want[i].file);
        const fby__h5_object *o = object_of(&all, want[i].path);
        assert_int_equal(o->kind, FBY__H5_DATASET);
        if (want[i].reason) {
            assert_non_null(o->declined);
            assert_string_equal(o->declined, want[i].reason);
        } else {
            assert_null(o->declined);
        }
        assert_int_equal(o->external, i == 1);
        fby__h5_file_close(all.f);
    }
}

/* ---- bytes ---- */

static void the_checksum_is_lookup3(void **state)
{
    (void)state; /* the values in lookup3.c's own comments */
    assert_int_equal(fby__h5_checksum((const uint8_t *)"", 0), 0xdeadbeef);
    assert_int_equal(fby__h5_checksum((const uint8_t *)"Four score and seven years ago", 30), 0x17770551);
}

static void views_lie_inside_of_the_file_and_repeat(void **state)
{
    (void)state;
    image im;
    image_init(&im);
    uint64_t at = place(&im, 200000);
    for (size_t i = 0; i < 200000; i++)
        im.data[at + i] = (uint8_t)(i * 7 + i / 256);
    image_finish(&im, at);
    fby__h5_file *f = open_image(&im);
    fby_error err;
    fby__bytes a, b;
    static const size_t sizes[] = {1, 100, 32768, 40000, 150000, 0};
    for (size_t k = 0; k < COUNT(sizes); k++)
        for (uint64_t begin = 0; begin + sizes[k] <= 200000; begin += 9973) {
            assert_int_equal(fby__h5_view(f, at + begin, sizes[k], "x", &a, &err), FBY_OK);
            assert_int_equal(a.n, sizes[k]);
            assert_memory_equal(a.data, im.data + at + begin, sizes[k]);
        }
    assert_int_equal(fby__h5_view(f, at, 100, "x", &a, &err), FBY_OK);
    const uint64_t viewed = f->bytes_viewed;
    assert_int_equal(fby__h5_view(f, at, 100, "x", &b, &err), FBY_OK);
    assert_ptr_equal(a.data, b.data);
    assert_int_equal(f->bytes_viewed, viewed);
    static const uint64_t beyond[][2] = {{0, 200049}, {200048, 1}, {NONE, 1}, {NONE - 4, 8}, {1, NONE}, {200049, 0}};
    for (size_t k = 0; k < COUNT(beyond); k++) {
        assert_int_equal(fby__h5_view(f, beyond[k][0], beyond[k][1], "a thing", &a, &err), FBY_E_FORMAT);
        assert_non_null(strstr(err.message, "goes beyond the end of the file"));
    }
    fby_status st = FBY_OK;
    for (uint64_t n = 100000; st == FBY_OK; n++) /* each another range */
        st = fby__h5_view(f, at, n, "x", &a, &err);
    assert_int_equal(st, FBY_E_FORMAT);
    assert_non_null(strstr(err.message, "overlaps or repeats"));
    assert_true(f->bytes_viewed < 16 * im.n + (2 << 20));
    fby__h5_file_close(f);
    image_fini(&im);
}

/* ---- damage, failures, real files ---- */

/* Everything that can be had of the file; a failure must say something. */
static fby_status use_all(fby__file *file, uint64_t end, fby_error *err)
{
    fby__h5_file *f = NULL;
    err->message[0] = 0;
    fby_status st = fby__h5_file_open(file, &f, err);
    if (st == FBY_OK) {
        fby__h5_object *root;
        fby__h5_tree tree;
        f->end = end < f->end ? end : f->end;
        st = fby__h5_object_parse(f, f->root_address, &root, err);
        if (st == FBY_OK)
            st = fby__h5_tree_read(f, &tree, err);
        for (uint32_t i = 0; st == FBY_OK && i < tree.n; i++) {
            const fby__h5_object *o = tree.entries[i].object;
            char text[64];
            if (o && o->type)
                (void)fby__h5_type_text(o->type, text, sizeof text);
            for (uint32_t k = 0; o && k < o->n_attributes; k++)
                assert_int_equal(o->attributes[k].data.n, o->attributes[k].space.n_elements * o->attributes[k].type->bytes);
        }
        fby__h5_file_close(f);
    }
    if (st != FBY_OK)
        assert_true(err->message[0] != 0);
    return st;
}

static void every_truncation_and_flipped_byte_is_survived(void **state)
{
    (void)state;
    size_t runs = 0, failed = 0;
    for (size_t i = 0; i < COUNT(GOLDEN); i++) {
        fby__file *whole = golden_file(GOLDEN[i]);
        const size_t n = (size_t)fby__file_stamp_of(whole)->size_bytes;
        uint8_t *bytes = malloc(n);
        fby_error err;
        assert_non_null(bytes);
        assert_int_equal(fby__file_read(whole, 0, bytes, n, &err), FBY_OK);
        const size_t step = 1 + n / 2500; /* at most 2,500 places a file; another phase for each */
        for (size_t at = i % step; at < n; at += step, runs += 2) {
            failed += use_all(whole, at, &err) != FBY_OK; /* as if the file ended there and the superblock did not know */
            bytes[at] ^= (uint8_t)(1u << at % 8 | 0x40);
            fby__file *file = file_of(bytes, n);
            failed += use_all(file, n, &err) != FBY_OK;
            fby__file_unref(file);
            bytes[at] ^= (uint8_t)(1u << at % 8 | 0x40);
        }
        for (size_t k = 0; k < n; k += 61) { /* the superblock knows */
            fby__file *file = file_of(bytes, k);
            const fby_status st = use_all(file, k, &err);
            assert_true(st == FBY_E_FORMAT || (st == FBY_E_UNSUPPORTED && strstr(GOLDEN[i], "family")) || strcmp(GOLDEN[i], "swmr") == 0);
            fby__file_unref(file);
        }
        free(bytes);
        fby__file_unref(whole);
    }
    print_message("%zu of %zu damaged files failed\n", failed, runs);
    assert_true(failed > 0 && failed < runs);
}

static void every_failing_allocation_and_read_is_reported(void **state)
{
    (void)state;
    size_t allocations = 0, reads = 0;
    for (size_t i = 0; i < COUNT(GOLDEN); i++) {
        if (strstr(GOLDEN[i], "family"))
            continue;
        fby__file *file = golden_file(GOLDEN[i]);
        for (int kind = 0; kind < 2; kind++) {
            fby_status st = FBY_E_NOMEM;
            for (uint64_t at = 1; st != FBY_OK; at++) {
                fby_error err;
                if (kind == 0)
                    fby__alloc_fail_at(at);
                else
                    fby__io_set_fault(&(fby__io_fault){.fail_at = at});
                st = use_all(file, UINT64_MAX, &err);
                fby__alloc_fail_at(0);
                fby__io_set_fault(&(fby__io_fault){0});
                if (st != FBY_OK)
                    assert_int_equal(st, kind == 0 ? FBY_E_NOMEM : FBY_E_IO);
                allocations += st == FBY_E_NOMEM;
                reads += st == FBY_E_IO;
            }
        }
        fby__file_unref(file);
    }
    print_message("%zu allocations and %zu reads failed in turn\n", allocations, reads);
    assert_true(allocations > 50 && reads >= COUNT(GOLDEN) - 2);
}

static void every_object_of_real_files_is_read(void **state)
{
    (void)state;
    static const char *const patterns[] = {"*/*.h5", "*/*.hdf5", "*/*.nc", "*/*.nc4"};
    size_t files = 0, objects = 0, attributes = 0;
    for (size_t i = 0; i < COUNT(patterns); i++) {
        char pattern[512];
        glob_t found = {0};
        snprintf(pattern, sizeof pattern, "%s/../shared/data/%s", FBY_SOURCE_DIR, patterns[i]);
        if (glob(pattern, 0, NULL, &found) != 0)
            found.gl_pathc = 0;
        for (size_t k = 0; k < found.gl_pathc; k++, files++) {
            fby__file *file = NULL;
            fby__h5_file *f = NULL;
            fby__h5_tree tree;
            fby_error err;
            if (fby__file_open(found.gl_pathv[k], NULL, &file, &err) != FBY_OK || fby__h5_file_open(file, &f, &err) != FBY_OK ||
                fby__h5_tree_read(f, &tree, &err) != FBY_OK)
                fail_msg("%s: %s", found.gl_pathv[k], err.message);
            for (uint32_t e = 0; e < tree.n; e++, objects++) {
                if (!tree.entries[e].object || tree.entries[e].declined)
                    fail_msg("%s: %s: %s", found.gl_pathv[k], tree.entries[e].path, tree.entries[e].declined);
                attributes += tree.entries[e].object->n_attributes;
            }
            fby__h5_file_close(f);
            fby__file_unref(file);
        }
        globfree(&found);
    }
    if (!files) {
        print_message("skipped: no files in ../shared/data\n");
        skip();
    }
    print_message("%zu files, %zu objects, %zu attributes\n", files, objects, attributes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_superblock_is_read),
        cmocka_unit_test(one_file_of_several_is_left_to_the_helper),
        cmocka_unit_test(a_truncated_file_says_both_sizes),
        cmocka_unit_test(layouts_and_filters_are_what_h5py_wrote),
        cmocka_unit_test(links_of_a_group_have_their_targets),
        cmocka_unit_test(attributes_come_by_name_or_in_order_of_creation),
        cmocka_unit_test(committed_types_are_followed_and_read_once),
        cmocka_unit_test(what_is_not_ours_is_declined_with_a_reason),
        cmocka_unit_test(the_checksum_is_lookup3),
        cmocka_unit_test(views_lie_inside_of_the_file_and_repeat),
        cmocka_unit_test(every_truncation_and_flipped_byte_is_survived),
        cmocka_unit_test(every_failing_allocation_and_read_is_reported),
        cmocka_unit_test(every_object_of_real_files_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
