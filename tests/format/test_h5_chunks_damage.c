/* Chunk indexes that are damaged: each structure, with its checksum made good again, and trees and data sets made by hand. */
#include "format/h5_golden_chunks.h"

/* ---- damage: a copy of a golden file, changed in memory and written anew ---- */

typedef struct image {
    uint8_t *data;
    size_t n;
    const golden *g;
    fby__h5_object object; /* of the file before the change; no pointers into it are used */
} image;

static image load(const char *file, const char *name)
{
    image im = {.g = find_golden(file, name)};
    char path[256];
    snprintf(path, sizeof path, GOLDEN "%s", file);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    im.n = (size_t)ftell(f);
    rewind(f);
    im.data = malloc(im.n);
    assert_int_equal(fread(im.data, 1, im.n, f), im.n);
    fclose(f);
    opened o = open_golden(im.g);
    im.object = o.object;
    fby__h5_file_close(o.f);
    return im;
}

static void save(const image *im)
{
    int fd = open("damaged.h5", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, im->data, im->n), (ssize_t)im->n);
    close(fd);
}

/* Room at the end of the image, zeroed. */
static uint64_t append(image *im, size_t n)
{
    uint64_t at = im->n;
    im->data = realloc(im->data, im->n + n);
    memset(im->data + im->n, 0, n);
    im->n += n;
    return at;
}

static uint64_t get(const image *im, uint64_t at) { return fby__load_u64(im->data + at); }
static void put(image *im, uint64_t at, uint64_t v) { fby__store_u64(im->data + at, v); }
static void sign(image *im, uint64_t at, size_t n) { fby__store_u32(im->data + at + n, fby__h5_checksum(im->data + at, n)); }

/* The index of the (perhaps changed) object in the (perhaps changed) file. The message must hold `text` where it fails. */
static fby_status read_changed(const image *im, const fby__h5_object *change, const char *text)
{
    save(im);
    opened o = open_at("damaged.h5", im->g->address);
    fby__h5_object object = o.object;
    if (change) {
        object = *change;
        object.type = o.object.type;
        object.filters = o.object.filters;
    }
    fby__h5_chunks chunks = {0};
    fby_error err = {0};
    fby_status status = fby__h5_chunks_read(o.f, &object, &chunks, &err);
    if (status == FBY_OK) {
        for (uint64_t i = 0; i < chunks.n; i++) {
            assert_true(chunks.list[i].offset + chunks.list[i].bytes <= im->n);
            assert_true(i == 0 || chunks.list[i - 1].number < chunks.list[i].number);
        }
        fby__h5_chunks_fini(&chunks);
    } else {
        assert_int_equal(err.code, status);
        if (text && !strstr(err.message, text))
            fail_msg("\"%s\" is not in \"%s\"", text, err.message);
    }
    fby__h5_file_close(o.f);
    return status;
}

static void expect_damage(const image *im, const char *text) { assert_int_equal(read_changed(im, NULL, text), FBY_E_FORMAT); }

/* Where the structures of the newer indexes are in files with 8-byte addresses, and how long they are before their checksum. */
typedef struct block {
    uint64_t at;
    size_t n;
} block;

static block fixed_header(const image *im) { return (block){im->object.data_address, 24}; }
static block extensible_header(const image *im) { return (block){im->object.data_address, 68}; }
static uint64_t fixed_block(const image *im) { return get(im, im->object.data_address + 16); }

/* Index block of 4 elements, 6 data blocks, and one super block for each of 29 - 4. */
static block index_block(const image *im)
{
    uint8_t entry = im->data[im->object.data_address + 6];
    return (block){get(im, im->object.data_address + 60), 14 + 4u * entry + (6 + 25) * 8u};
}

static void a_block_with_a_wrong_checksum_is_refused(void **state)
{
    (void)state;
    image im = load("fixed.h5", "paged");
    const uint64_t at[] = {fixed_header(&im).at + 24, fixed_block(&im) + 15, fixed_block(&im) + 14 + 1 + 4 + 8 * 1024 + 1};
    for (size_t i = 0; i < COUNT(at); i++) {
        im.data[at[i]] ^= 1;
        expect_damage(&im, "checksum");
        im.data[at[i]] ^= 1;
    }
    free(im.data);
    im = load("extensible.h5", "paged");
    const block b = index_block(&im);
    im.data[b.at + 20] ^= 1;
    expect_damage(&im, "checksum");
    free(im.data);
    im = load("btree2.h5", "plain");
    im.data[im.object.data_address + 8] ^= 1;
    expect_damage(&im, NULL);
    free(im.data);
}

static void chunks_beyond_the_end_of_the_file_are_refused(void **state)
{
    (void)state;
    const uint64_t far[] = {1u << 30, UINT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < COUNT(far); i++) {
        image im = load("btree1.h5", "plain");
        put(&im, im.object.data_address + 24 + 24, far[i]); /* child 0 of the root, which is a leaf */
        expect_damage(&im, "beyond the end");
        free(im.data);
        im = load("fixed.h5", "plain");
        put(&im, fixed_block(&im) + 14, far[i]);
        sign(&im, fixed_block(&im), 14 + 9 * 8);
        expect_damage(&im, "beyond the end");
        free(im.data);
        im = load("extensible.h5", "plain");
        put(&im, index_block(&im).at + 14, far[i]);
        sign(&im, index_block(&im).at, index_block(&im).n);
        expect_damage(&im, "beyond the end");
        free(im.data);
        im = load("implicit.h5", "plain");
        fby__h5_object o = im.object;
        o.data_address = far[i];
        assert_int_equal(read_changed(&im, &o, "beyond the end"), FBY_E_FORMAT);
        free(im.data);
        im = load("single.h5", "plain");
        o = im.object;
        o.data_address = far[i];
        assert_int_equal(read_changed(&im, &o, "beyond the end"), FBY_E_FORMAT);
        free(im.data);
    }
}

static void chunks_that_share_bytes_are_refused(void **state)
{
    (void)state;
    image im = load("fixed.h5", "plain");
    uint64_t at = fixed_block(&im);
    put(&im, at + 14 + 3 * 8, get(&im, at + 14 + 6 * 8) + 1);
    sign(&im, at, 14 + 9 * 8);
    expect_damage(&im, "chunks 6 and 3 share bytes");
    free(im.data);
    im = load("btree1.h5", "plain"); /* entries of 24 bytes and an address: the same place in the grid twice */
    memcpy(im.data + im.object.data_address + 24 + 32, im.data + im.object.data_address + 24, 24);
    expect_damage(&im, "chunk 0 is in the index twice");
    memcpy(im.data + im.object.data_address + 24 + 32, im.data + im.object.data_address + 24, 32);
    expect_damage(&im, "chunk 0 is in the index twice");
    free(im.data);
}

static void stored_sizes_must_make_sense(void **state)
{
    (void)state;
    image im = load("btree1.h5", "plain");
    im.data[im.object.data_address + 24]++;
    expect_damage(&im, "expected without filters");
    free(im.data);
    im = load("btree1.h5", "edges");
    fby__store_u32(im.data + im.object.data_address + 24, 0);
    expect_damage(&im, "stored size of 0");
    fby__store_u32(im.data + im.object.data_address + 24, UINT32_MAX);
    expect_damage(&im, "beyond the end");
    free(im.data);
    im = load("single.h5", "filtered");
    fby__h5_object o = im.object;
    o.single_bytes = (uint64_t)1 << 32;
    assert_int_equal(read_changed(&im, &o, "stored size"), FBY_E_FORMAT);
    o.single_bytes = 0;
    assert_int_equal(read_changed(&im, &o, "stored size"), FBY_E_FORMAT);
    o = im.object;
    o.space.dims[0] = o.space.max_dims[0] = 101;
    assert_int_equal(read_changed(&im, &o, "2 chunks"), FBY_E_FORMAT);
    free(im.data);
}

static void impossible_data_sets_are_refused(void **state)
{
    (void)state;
    image im = load("btree1.h5", "plain");
    fby__h5_object o = im.object;
    o.chunk[0] = 0;
    assert_int_equal(read_changed(&im, &o, "no elements"), FBY_E_FORMAT);
    o = im.object;
    o.chunk_element_bytes = 0;
    assert_int_equal(read_changed(&im, &o, "elements"), FBY_E_FORMAT);
    o.chunk_element_bytes = 3;
    assert_int_equal(read_changed(&im, &o, "elements"), FBY_E_FORMAT);
    o = im.object;
    o.space.rank = 0;
    assert_int_equal(read_changed(&im, &o, "rank"), FBY_E_FORMAT);
    o.space.rank = 33;
    assert_int_equal(read_changed(&im, &o, "rank"), FBY_E_FORMAT);
    o = im.object;
    o.space.max_dims[0] = 9;
    assert_int_equal(read_changed(&im, &o, "largest extent"), FBY_E_FORMAT);
    o = im.object;
    o.chunk[0] = UINT32_MAX;
    assert_int_equal(fby__h5_chunk_decoded_bytes(&o), 0);
    assert_int_equal(read_changed(&im, &o, "4 GiB"), FBY_E_UNSUPPORTED);
    o = im.object;
    o.space.rank = 3;
    for (int i = 0; i < 3; i++) {
        o.space.dims[i] = o.space.max_dims[i] = (uint64_t)1 << 40;
        o.chunk[i] = 1;
    }
    assert_int_equal(read_changed(&im, &o, "64 bits"), FBY_E_FORMAT);
    free(im.data);
    im = load("implicit.h5", "plain"); /* numbers that would take years to walk */
    o = im.object;
    o.space.dims[0] = o.space.max_dims[0] = (uint64_t)1 << 50;
    assert_int_equal(read_changed(&im, &o, "more than the file"), FBY_E_FORMAT);
    o.space.dims[0] = 10;
    assert_int_equal(read_changed(&im, &o, NULL), FBY_OK); /* room to grow comes last: no chunk moves */
    o = im.object;
    o.n_filters = 1;
    assert_int_equal(read_changed(&im, &o, "filters"), FBY_E_FORMAT);
    free(im.data);
    im = load("extensible.h5", "plain");
    o = im.object;
    o.space.max_dims[0] = 50;
    assert_int_equal(read_changed(&im, &o, "unlimited"), FBY_E_FORMAT);
    o.space.max_dims[0] = FBY__H5_UNDEFINED;
    o.space.dims[0] = (uint64_t)1 << 60; /* grew without a chunk being written */
    assert_int_equal(read_changed(&im, &o, NULL), FBY_OK);
    free(im.data);
}

/* ---- B-trees 1 made by hand ---- */

/* A node for rank 1: n entries, the children given. Returns its address. */
static uint64_t add_node(image *im, unsigned level, unsigned n, const uint64_t *children)
{
    uint64_t at = append(im, 24 + n * (size_t)32);
    memcpy(im->data + at, "TREE\1", 5);
    im->data[at + 5] = (uint8_t)level;
    im->data[at + 6] = (uint8_t)n;
    for (unsigned i = 0; i < n; i++)
        put(im, at + 24 + 32 * i + 24, children[i]);
    return at;
}

static void trees_that_share_nodes_or_go_in_circles_end(void **state)
{
    (void)state;
    image im = load("btree1.h5", "plain");
    uint64_t children[2] = {0};
    fby__h5_object o = im.object;
    o.data_address = add_node(&im, 0, 0, children); /* an empty leaf is no error */
    assert_int_equal(read_changed(&im, &o, NULL), FBY_OK);
    children[0] = children[1] = o.data_address;
    for (unsigned level = 1; level <= FBY__H5_MAX_DEPTH; level++)
        children[0] = children[1] = add_node(&im, level, 2, children); /* 2^32 paths */
    o.data_address = children[0];
    assert_int_equal(read_changed(&im, &o, "larger than the file"), FBY_E_FORMAT);
    o.data_address = add_node(&im, FBY__H5_MAX_DEPTH + 1, 1, children);
    assert_int_equal(read_changed(&im, &o, "too many levels"), FBY_E_FORMAT);
    o.data_address = add_node(&im, 1, 1, children);
    put(&im, o.data_address + 24 + 24, o.data_address);
    assert_int_equal(read_changed(&im, &o, "another level"), FBY_E_FORMAT);
    put(&im, o.data_address + 24 + 24, UINT64_MAX);
    assert_int_equal(read_changed(&im, &o, "without an address"), FBY_E_FORMAT);
    put(&im, o.data_address + 24 + 24, im.n - 10);
    assert_int_equal(read_changed(&im, &o, "beyond the end"), FBY_E_FORMAT);
    im.data[o.data_address + 4] = 0;
    assert_int_equal(read_changed(&im, &o, "not of a chunk index"), FBY_E_FORMAT);
    im.data[o.data_address] = 'X';
    assert_int_equal(read_changed(&im, &o, "TREE"), FBY_E_FORMAT);
    free(im.data);
    im = load("btree1.h5", "plain");
    fby__store_u32(im.data + im.object.data_address + 6, UINT16_MAX); /* entries */
    expect_damage(&im, NULL);
    free(im.data);
    im = load("btree1.h5", "plain");
    im.data[im.object.data_address + 24 + 8] = 1; /* offset of the first chunk */
    expect_damage(&im, "inside a chunk");
    im.data[im.object.data_address + 24 + 8] = 0;
    im.data[im.object.data_address + 24 + 16] = 1;
    expect_damage(&im, "inside an element");
    free(im.data);
}

/* ---- arrays, signed anew ---- */

static void blocks_of_other_arrays_are_refused(void **state)
{
    (void)state;
    image im = load("fixed.h5", "plain");
    uint64_t at = fixed_block(&im);
    put(&im, at + 6, 12345); /* the header it belongs to */
    sign(&im, at, 14 + 9 * 8);
    expect_damage(&im, "another array");
    free(im.data);
    im = load("fixed.h5", "plain");
    const block h = fixed_header(&im);
    static const struct {
        size_t at;
        uint8_t value;
        const char *text;
        fby_status status;
    } changes[] = {{0, 'X', "signature", FBY_E_FORMAT},    {4, 1, "version 1", FBY_E_UNSUPPORTED}, {5, 1, "client", FBY_E_FORMAT},
                   {6, 9, "elements", FBY_E_FORMAT},       {7, 33, "2^33", FBY_E_FORMAT},          {8, 10, "10 elements", FBY_E_FORMAT},
                   {20, 1, "beyond the end", FBY_E_FORMAT}};
    for (size_t i = 0; i < COUNT(changes); i++) {
        uint8_t old = im.data[h.at + changes[i].at];
        im.data[h.at + changes[i].at] = changes[i].value;
        sign(&im, h.at, h.n);
        assert_int_equal(read_changed(&im, NULL, changes[i].text), changes[i].status);
        im.data[h.at + changes[i].at] = old;
    }
    put(&im, h.at + 16, UINT64_MAX); /* nothing allocated */
    sign(&im, h.at, h.n);
    assert_int_equal(read_changed(&im, NULL, NULL), FBY_OK);
    free(im.data);
}

/* Every byte of a block in turn, to a few values, signed: any answer is fine, but one is given. */
static void change_every_byte(image *im, block b)
{
    static const uint8_t values[] = {0, 1, 0x7f, 0xff};
    save(im);
    int fd = open("damaged.h5", O_RDWR);
    assert_true(fd >= 0);
    for (size_t i = 0; i < b.n; i++) {
        uint8_t old = im->data[b.at + i];
        for (size_t k = 0; k <= COUNT(values); k++) {
            im->data[b.at + i] = k < COUNT(values) ? values[k] : old;
            sign(im, b.at, b.n);
            assert_int_equal(pwrite(fd, im->data + b.at, b.n + 4, (off_t)b.at), (ssize_t)(b.n + 4));
            opened o = open_at("damaged.h5", im->g->address);
            fby__h5_chunks chunks = {0};
            fby_error err = {0};
            fby_status status = fby__h5_chunks_read(o.f, &o.object, &chunks, &err);
            if (status == FBY_OK)
                fby__h5_chunks_fini(&chunks);
            else if (status != FBY_E_UNSUPPORTED)
                assert_int_equal(status, FBY_E_FORMAT);
            if (k == COUNT(values))
                assert_int_equal(status, FBY_OK);
            fby__h5_file_close(o.f);
        }
    }
    close(fd);
}

static void signed_damage_to_any_byte_of_an_array_is_survived(void **state)
{
    (void)state;
    image im = load("fixed.h5", "filtered");
    change_every_byte(&im, fixed_header(&im));
    change_every_byte(&im, (block){fixed_block(&im), 14 + 9 * (size_t)im.data[im.object.data_address + 6]});
    free(im.data);
    im = load("fixed.h5", "paged_filtered");
    change_every_byte(&im, fixed_header(&im));
    change_every_byte(&im, (block){fixed_block(&im), 15});
    free(im.data);
    static const char *const names[] = {"paged", "super_blocks", "axis2"};
    for (size_t i = 0; i < COUNT(names); i++) {
        im = load("extensible.h5", names[i]);
        change_every_byte(&im, extensible_header(&im));
        change_every_byte(&im, index_block(&im));
        free(im.data);
    }
    im = load("extensible.h5", "super_blocks"); /* positions 9000 and 19,999: super blocks 9 and 10 of 16 and 32 data blocks */
    uint64_t pointers = index_block(&im).at + 14 + 4 * 8 + 6 * 8, super = get(&im, pointers + 8 * (9 - 4));
    assert_memory_equal(im.data + super, "EASB", 4);
    change_every_byte(&im, (block){super, 14 + 4 + 16 * 8});
    free(im.data);
    im = load("extensible.h5", "paged"); /* super block 13: 64 data blocks of 2 pages, a byte of bits each */
    pointers = index_block(&im).at + 14 + 4 * 8 + 6 * 8, super = get(&im, pointers + 8 * (13 - 4));
    assert_memory_equal(im.data + super, "EASB", 4);
    change_every_byte(&im, (block){super, 14 + 4 + 64 + 64 * 8});
    free(im.data);
}

static void damage_to_any_byte_of_an_old_tree_is_survived(void **state)
{
    (void)state;
    static const char *const names[] = {"edges", "levels", "sparse"};
    for (size_t i = 0; i < COUNT(names); i++) {
        image im = load("btree1.h5", names[i]);
        save(&im);
        int fd = open("damaged.h5", O_RDWR);
        assert_true(fd >= 0);
        for (size_t k = 0; k < 24 + 4 * 40; k++) {
            for (int bit = 0; bit < 8; bit++) {
                uint64_t at = im.object.data_address + k;
                uint8_t changed = im.data[at] ^ (uint8_t)(1u << bit);
                assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
                opened o = open_at("damaged.h5", im.g->address);
                fby__h5_chunks chunks = {0};
                fby_error err = {0};
                fby_status status = fby__h5_chunks_read(o.f, &o.object, &chunks, &err);
                if (status == FBY_OK)
                    fby__h5_chunks_fini(&chunks);
                else
                    assert_int_equal(status, FBY_E_FORMAT);
                fby__h5_file_close(o.f);
            }
            assert_int_equal(pwrite(fd, im.data + im.object.data_address + k, 1, (off_t)(im.object.data_address + k)), 1);
        }
        close(fd);
        free(im.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_block_with_a_wrong_checksum_is_refused, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(chunks_beyond_the_end_of_the_file_are_refused, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(chunks_that_share_bytes_are_refused, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(stored_sizes_must_make_sense, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(impossible_data_sets_are_refused, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(trees_that_share_nodes_or_go_in_circles_end, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(blocks_of_other_arrays_are_refused, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(signed_damage_to_any_byte_of_an_array_is_survived, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(damage_to_any_byte_of_an_old_tree_is_survived, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, load_expected, free_expected);
}
