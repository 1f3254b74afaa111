/* Fractal heaps of HDF5, made by hand with more levels than a small real file has, and damaged; failing allocations. */
#include "format/h5_image.h"

/*
 * Two blocks a row; rows of 64, 64 and 128 bytes are direct, those of 256, 512 and 1024 indirect (of 2, 3 and 4 rows), so
 * that the root's row of 1024 has indirect blocks with an indirect row in them.
 */
#define WIDTH 2u
#define START 64u
#define MAX_DIRECT 128u
#define ROOT_ROWS 6u
#define HEAP_BITS 16u
#define OFFSET_BYTES 2u /* of 16 bits */
#define LENGTH_BYTES 1u /* the less of 7 bits' and that of the largest object */
#define DIRECT_HEAD_BYTES (5u + 8 + OFFSET_BYTES + 4)
#define HEAP_HEADER_BYTES (26u + 3 * 8 + 12 * 8)

typedef struct heap_image {
    image im;
    uint64_t header, root, huge_tree;
    uint16_t id_bytes, filter_bytes;
    struct {
        uint64_t offset, address; /* in the heap, in the file */
        size_t n;
    } blocks[64];
    unsigned n_blocks;
} heap_image;

static uint64_t row_bytes(unsigned row) { return row ? (uint64_t)START << (row - 1) : START; }

static void finish_direct(image *im, uint64_t at, size_t n)
{
    pen p = pen_at(im, at + DIRECT_HEAD_BYTES - 4);
    p_uint(&p, 0, 4);
    uint32_t sum = fby__h5_checksum(im->data + at, n);
    p = pen_at(im, at + DIRECT_HEAD_BYTES - 4);
    p_uint(&p, sum, 4);
}

static void put_block_head(pen *p, heap_image *h, const char *signature, uint64_t offset)
{
    p_text(p, signature);
    p_uint(p, 0, 1);
    p_uint(p, h->header, 8);
    p_uint(p, offset, OFFSET_BYTES);
}

/* A direct block full of bytes that say where they are. */
static uint64_t make_direct(heap_image *h, uint64_t offset, size_t n)
{
    uint64_t at = place(&h->im, n);
    pen p = pen_at(&h->im, at);
    put_block_head(&p, h, "FHDB", offset);
    p_uint(&p, 0, 4);
    for (size_t i = DIRECT_HEAD_BYTES; i < n; i++)
        p_uint(&p, (offset + i) * 7 % 251, 1);
    finish_direct(&h->im, at, n);
    h->blocks[h->n_blocks].offset = offset;
    h->blocks[h->n_blocks].address = at;
    h->blocks[h->n_blocks++].n = n;
    return at;
}

static size_t indirect_bytes(unsigned rows) { return 5 + 8 + OFFSET_BYTES + rows * WIDTH * 8 + 4; }

static uint64_t make_indirect(heap_image *h, uint64_t offset, unsigned rows)
{
    uint64_t children[ROOT_ROWS * WIDTH], inner = offset;
    for (unsigned i = 0; i < rows * WIDTH; i++) {
        uint64_t n = row_bytes(i / WIDTH);
        unsigned child_rows = 0;
        for (uint64_t left = n / (START * WIDTH); n > MAX_DIRECT && left; left /= 2)
            child_rows++;
        children[i] = child_rows ? make_indirect(h, inner, child_rows) : make_direct(h, inner, (size_t)n);
        inner += n;
    }
    uint64_t at = place(&h->im, indirect_bytes(rows));
    pen p = pen_at(&h->im, at);
    put_block_head(&p, h, "FHIB", offset);
    for (unsigned i = 0; i < rows * WIDTH; i++)
        p_uint(&p, children[i], 8);
    p_checksum(&p);
    return at;
}

static void put_heap_header(heap_image *h, unsigned root_rows)
{
    pen p = pen_at(&h->im, h->header);
    p_text(&p, "FRHP");
    p_uint(&p, 0, 1);
    p_uint(&p, h->id_bytes, 2);
    p_uint(&p, h->filter_bytes, 2);
    p_uint(&p, 2, 1);   /* direct blocks have checksums */
    p_uint(&p, 100, 4); /* largest managed object */
    p_uint(&p, 9, 8);
    p_uint(&p, h->huge_tree, 8);
    p_uint(&p, 0, 8);
    p_uint(&p, NONE, 8);
    p_uint(&p, 0, 64);
    p_uint(&p, WIDTH, 2);
    p_uint(&p, START, 8);
    p_uint(&p, MAX_DIRECT, 8);
    p_uint(&p, HEAP_BITS, 2);
    p_uint(&p, 1, 2);
    p_uint(&p, h->root, 8);
    p_uint(&p, root_rows, 2);
    p_checksum(&p);
    assert_int_equal(p.at - p.begin, HEAP_HEADER_BYTES);
}

static heap_image make_heap(uint16_t id_bytes)
{
    heap_image h = {.id_bytes = id_bytes, .huge_tree = NONE};
    image_init(&h.im);
    h.header = place(&h.im, HEAP_HEADER_BYTES);
    h.root = make_indirect(&h, 0, ROOT_ROWS);
    put_heap_header(&h, ROOT_ROWS);
    image_finish(&h.im, h.header);
    return h;
}

static fby_status get_object(fby__h5_heap *heap, uint64_t offset, uint64_t n, fby__bytes *out, fby_error *err)
{
    uint8_t id[40] = {0};
    memcpy(id + 1, &offset, OFFSET_BYTES);
    id[1 + OFFSET_BYTES] = (uint8_t)n;
    uint64_t address;
    return fby__h5_heap_get(heap, id, fby__h5_heap_id_bytes(heap), out, &address, err);
}

static fby__h5_heap *open_heap(fby__h5_file *f, uint64_t address)
{
    fby__h5_heap *heap = NULL;
    fby_error err;
    if (fby__h5_heap_open(f, address, &heap, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return heap;
}

static void objects_are_found_in_every_block_of_a_heap(void **state)
{
    (void)state;
    heap_image h = make_heap(7);
    assert_int_equal(h.n_blocks, 6 + 2 * 4 + 2 * 6 + 2 * (6 + 2 * 4));
    fby__h5_file *f = open_image(&h.im);
    fby__h5_heap *heap = open_heap(f, h.header);
    assert_int_equal(fby__h5_heap_id_bytes(heap), 7);
    fby_error err;
    for (unsigned i = 0; i < h.n_blocks; i++) {
        const uint64_t first = h.blocks[i].offset + DIRECT_HEAD_BYTES, end = h.blocks[i].offset + h.blocks[i].n;
        for (uint64_t at = first; at < end; at += 5) {
            uint64_t n = at + 5 < end ? 5 : end - at;
            fby__bytes got;
            if (get_object(heap, at, n, &got, &err) != FBY_OK)
                fail_msg("%s", err.message);
            assert_int_equal(got.n, n);
            for (uint64_t k = 0; k < n; k++)
                assert_int_equal(got.data[k], (at + k) * 7 % 251);
        }
        fby__bytes got;
        assert_int_equal(get_object(heap, first - 1, 4, &got, &err), FBY_E_FORMAT); /* begins in the block's header */
        assert_int_equal(get_object(heap, end - 3, 4, &got, &err), FBY_E_FORMAT);   /* ends in the next block */
    }
    fby__bytes got;
    assert_int_equal(get_object(heap, 64u << ROOT_ROWS, 1, &got, &err), FBY_E_FORMAT);
    assert_int_equal(get_object(heap, 65535, 1, &got, &err), FBY_E_FORMAT);
    fby__h5_file_close(f);
    image_fini(&h.im);
}

static void a_heap_of_one_block_has_it_as_its_root(void **state)
{
    (void)state;
    heap_image h = {.id_bytes = 8, .huge_tree = NONE};
    image_init(&h.im);
    h.header = place(&h.im, HEAP_HEADER_BYTES);
    h.root = make_direct(&h, 0, START);
    put_heap_header(&h, 0);
    image_finish(&h.im, h.header);
    fby__h5_file *f = open_image(&h.im);
    fby__h5_heap *heap = open_heap(f, h.header);
    fby__bytes got;
    fby_error err;
    assert_int_equal(get_object(heap, 40, 10, &got, &err), FBY_OK);
    assert_int_equal(got.data[9], 49 * 7 % 251);
    assert_int_equal(get_object(heap, 64, 1, &got, &err), FBY_E_FORMAT);
    fby__h5_file_close(f);
    h.root = NONE; /* nothing was ever put in */
    put_heap_header(&h, 0);
    f = open_image(&h.im);
    assert_int_equal(get_object(open_heap(f, h.header), 40, 10, &got, &err), FBY_E_FORMAT);
    fby__h5_file_close(f);
    image_fini(&h.im);
}

static void tiny_objects_lie_in_their_id(void **state)
{
    (void)state;
    static const struct {
        uint16_t id_bytes;
        uint8_t id[3];
        size_t n, at;
    } cases[] = {{7, {0x20 | 3}, 4, 1}, {18, {0x20 | 15}, 16, 1}, {40, {0x20, 19}, 20, 2}, {19, {0x20, 16}, 17, 2}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        heap_image h = make_heap(cases[i].id_bytes);
        fby__h5_file *f = open_image(&h.im);
        fby__h5_heap *heap = open_heap(f, h.header);
        uint8_t id[40];
        for (unsigned k = 0; k < sizeof id; k++)
            id[k] = (uint8_t)k;
        memcpy(id, cases[i].id, cases[i].at);
        fby__bytes got;
        uint64_t address;
        fby_error err;
        assert_int_equal(fby__h5_heap_get(heap, id, h.id_bytes, &got, &address, &err), FBY_OK);
        assert_int_equal(got.n, cases[i].n);
        assert_memory_equal(got.data, id + cases[i].at, got.n);
        id[0] = 0x20 | 15; /* 16 bytes or thousands */
        fby_status status = fby__h5_heap_get(heap, id, h.id_bytes, &got, &address, &err);
        assert_int_equal(status, h.id_bytes == 18 ? FBY_OK : FBY_E_FORMAT);
        fby__h5_file_close(f);
        image_fini(&h.im);
    }
}

static void huge_objects_are_found_by_their_address_or_their_number(void **state)
{
    (void)state;
    static const char far_away[] = "far from the blocks";
    heap_image h = make_heap(8);
    uint64_t object = place(&h.im, sizeof far_away), leaf = place(&h.im, NODE_BYTES);
    h.huge_tree = place(&h.im, TREE_HEADER_BYTES);
    memcpy(h.im.data + object, far_away, sizeof far_away);
    pen p = pen_at(&h.im, leaf);
    p_text(&p, "BTLF");
    p_uint(&p, 0, 1);
    p_uint(&p, 1, 1);
    for (uint64_t id = 5; id < 7; id++) { /* address, length, number */
        p_uint(&p, object, 8);
        p_uint(&p, sizeof far_away - id, 8);
        p_uint(&p, id, 8);
    }
    p_checksum(&p);
    put_tree_header(&h.im, h.huge_tree, 1, 0, leaf, 2, 2);
    p = pen_at(&h.im, h.huge_tree + 10);
    p_uint(&p, 24, 2); /* bytes of a record */
    p = pen_at(&h.im, h.huge_tree);
    p.at += TREE_HEADER_BYTES - 4;
    p_checksum(&p);
    put_heap_header(&h, ROOT_ROWS);
    image_finish(&h.im, h.header);
    fby__h5_file *f = open_image(&h.im);
    fby__h5_heap *heap = open_heap(f, h.header);
    uint8_t id[17] = {0x10, 6};
    fby__bytes got;
    uint64_t address;
    fby_error err;
    if (fby__h5_heap_get(heap, id, 8, &got, &address, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(got.n, sizeof far_away - 6);
    assert_memory_equal(got.data, far_away, got.n);
    assert_int_equal(address, object);
    id[1] = 7;
    assert_int_equal(fby__h5_heap_get(heap, id, 8, &got, &address, &err), FBY_E_FORMAT);
    fby__h5_file_close(f);

    h.id_bytes = 17; /* room for address and length: no tree */
    h.huge_tree = NONE;
    put_heap_header(&h, ROOT_ROWS);
    f = open_image(&h.im);
    heap = open_heap(f, h.header);
    memcpy(id + 1, &object, 8);
    memcpy(id + 9, &(uint64_t){3}, 8);
    assert_int_equal(fby__h5_heap_get(heap, id, 17, &got, &address, &err), FBY_OK);
    assert_memory_equal(got.data, "far", 3);
    memcpy(id + 9, &(uint64_t){1u << 30}, 8);
    assert_int_equal(fby__h5_heap_get(heap, id, 17, &got, &address, &err), FBY_E_FORMAT);
    fby__h5_file_close(f);
    image_fini(&h.im);
}

static void what_ours_does_not_read_in_heaps_is_unsupported(void **state)
{
    (void)state;
    heap_image h = make_heap(7);
    fby__h5_file *f = open_image(&h.im);
    fby__h5_heap *heap = open_heap(f, h.header);
    fby__bytes got;
    uint64_t address;
    fby_error err;
    uint8_t id[7] = {0x40};
    assert_int_equal(fby__h5_heap_get(heap, id, 7, &got, &address, &err), FBY_E_UNSUPPORTED);
    id[0] = 0x30;
    assert_int_equal(fby__h5_heap_get(heap, id, 7, &got, &address, &err), FBY_E_FORMAT);
    assert_int_equal(fby__h5_heap_get(heap, id, 6, &got, &address, &err), FBY_E_FORMAT);
    fby__h5_file_close(f);
    h.filter_bytes = 20;
    put_heap_header(&h, ROOT_ROWS);
    f = open_image(&h.im);
    assert_int_equal(fby__h5_heap_open(f, h.header, &heap, &err), FBY_E_UNSUPPORTED);
    assert_string_equal(err.message, "a fractal heap with filters");
    fby__h5_file_close(f);
    image_fini(&h.im);
}

/* All objects of the heap, as far as they can be had. */
static fby_status get_all(const heap_image *h, fby_error *err)
{
    fby__h5_file *f = open_image(&h->im);
    fby__h5_heap *heap;
    fby_status status = fby__h5_heap_open(f, h->header, &heap, err);
    for (unsigned i = 0; status == FBY_OK && i < h->n_blocks; i++) {
        fby__bytes got = {0};
        const uint64_t at = h->blocks[i].offset + DIRECT_HEAD_BYTES;
        status = get_object(heap, at, 8, &got, err);
        for (uint64_t k = 0; k < got.n; k++)
            assert_int_equal(got.data[k], (at + k) * 7 % 251);
    }
    fby__h5_file_close(f);
    return status;
}

static void every_changed_byte_of_a_heap_is_noticed(void **state)
{
    (void)state;
    heap_image h = make_heap(7);
    fby_error err;
    assert_int_equal(get_all(&h, &err), FBY_OK);
    size_t unnoticed = 0;
    for (size_t at = SUPERBLOCK_BYTES; at < h.im.n; at++) {
        h.im.data[at] ^= 0x22;
        unnoticed += get_all(&h, &err) == FBY_OK;
        h.im.data[at] ^= 0x22;
    }
    assert_in_range(unnoticed, 0, 8 * (h.n_blocks + 10u)); /* padding between structures */
    image_fini(&h.im);
}

static void heaps_that_lead_in_circles_or_state_impossible_sizes_are_errors(void **state)
{
    (void)state;
    fby_error err;
    static const struct {
        size_t at;
        uint64_t v;
        unsigned n;
    } header[] = {
        {5, 1, 2},    {110, 3, 2}, {110, 0, 2}, {110, 0x8000, 2}, {112, 63, 8}, {112, 0, 8}, {120, 32, 8}, {120, (uint64_t)1 << 40, 8},
        {128, 65, 2}, {128, 0, 2}, {128, 6, 2}, {140, 60000, 2},  {140, 12, 2}};
    for (size_t i = 0; i < COUNT(header); i++) {
        heap_image h = make_heap(7);
        amend(&h.im, h.header, HEAP_HEADER_BYTES, header[i].at, header[i].v, header[i].n);
        assert_int_equal(get_all(&h, &err), FBY_E_FORMAT);
        image_fini(&h.im);
    }
    for (unsigned child = 0; child < ROOT_ROWS * WIDTH; child++) { /* a child that is the root, or its neighbour */
        heap_image h = make_heap(7);
        const size_t at = 5 + 8 + OFFSET_BYTES + child * 8;
        uint64_t neighbour = fby__load_u64(h.im.data + h.root + (child ? at - 8 : at + 8));
        amend(&h.im, h.root, indirect_bytes(ROOT_ROWS), at, h.root, 8);
        assert_int_equal(get_all(&h, &err), FBY_E_FORMAT);
        amend(&h.im, h.root, indirect_bytes(ROOT_ROWS), at, neighbour, 8);
        assert_int_equal(get_all(&h, &err), FBY_E_FORMAT);
        amend(&h.im, h.root, indirect_bytes(ROOT_ROWS), at, NONE, 8);
        assert_int_equal(get_all(&h, &err), FBY_E_FORMAT);
        image_fini(&h.im);
    }
}

static void a_heap_survives_failing_allocations(void **state)
{
    (void)state;
    heap_image h = make_heap(7);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        fby__h5_file *f = open_image(&h.im);
        fby__h5_heap *heap = NULL;
        fby_error err;
        fby__alloc_fail_at(n);
        uint64_t before = fby__alloc_count();
        fby_status status = fby__h5_heap_open(f, h.header, &heap, &err);
        for (unsigned i = 0; status == FBY_OK && i < h.n_blocks; i++) {
            fby__bytes got;
            status = get_object(heap, h.blocks[i].offset + DIRECT_HEAD_BYTES, 1, &got, &err);
        }
        done = fby__alloc_count() - before < n;
        fby__alloc_fail_at(0);
        assert_int_equal(status, done ? FBY_OK : FBY_E_NOMEM);
        fby__h5_file_close(f);
    }
    image_fini(&h.im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_found_in_every_block_of_a_heap),
        cmocka_unit_test(a_heap_of_one_block_has_it_as_its_root),
        cmocka_unit_test(tiny_objects_lie_in_their_id),
        cmocka_unit_test(huge_objects_are_found_by_their_address_or_their_number),
        cmocka_unit_test(what_ours_does_not_read_in_heaps_is_unsupported),
        cmocka_unit_test(every_changed_byte_of_a_heap_is_noticed),
        cmocka_unit_test(heaps_that_lead_in_circles_or_state_impossible_sizes_are_errors),
        cmocka_unit_test(a_heap_survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
