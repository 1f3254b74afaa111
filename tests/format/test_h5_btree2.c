/* B-trees 2 of HDF5, made by hand with more levels than a small real file has, and damaged. */
#include "format/h5_image.h"

/*
 * Leaves hold (64-10)/12 = 4 records. A pointer to a leaf has 8+1 bytes, so an internal node has (54-9)/21 = 2 records and 3
 * children; above, a pointer has one more byte: (54-10)/22 = 2 records. Totals stay below 256 up to level 4.
 */
static unsigned pointer_bytes(unsigned child_level) { return child_level ? 10 : 9; }

typedef struct subtree {
    uint64_t address;
    unsigned n, total;
} subtree;

static void p_record(pen *p, uint64_t *next)
{
    p_uint(p, *next, 8);
    p_uint(p, *next * 3, 4);
    ++*next;
}

/* A full tree of a level, its records numbered in order from *next. */
static subtree make_node(image *im, unsigned level, uint8_t type, uint64_t *next)
{
    subtree s = {place(im, NODE_BYTES), level ? 2 : 4, 0};
    subtree children[3] = {{0}};
    uint64_t numbers[4];
    for (unsigned i = 0; i <= s.n; i++) {
        if (level)
            children[i] = make_node(im, level - 1, type, next);
        if (i < s.n)
            numbers[i] = (*next)++;
        s.total += level ? children[i].total : 0;
    }
    s.total += s.n;
    pen p = pen_at(im, s.address);
    p_text(&p, level ? "BTIN" : "BTLF");
    p_uint(&p, 0, 1);
    p_uint(&p, type, 1);
    for (unsigned i = 0; i < s.n; i++)
        p_record(&p, &numbers[i]);
    for (unsigned i = 0; level && i <= s.n; i++) {
        p_uint(&p, children[i].address, 8);
        p_uint(&p, children[i].n, 1);
        p_uint(&p, children[i].total, pointer_bytes(level - 1) - 9);
    }
    p_checksum(&p);
    return s;
}

static uint64_t make_tree(image *im, unsigned depth, uint8_t type, subtree *out)
{
    uint64_t next = 0, header = place(im, TREE_HEADER_BYTES);
    *out = make_node(im, depth, type, &next);
    assert_int_equal(next, out->total);
    put_tree_header(im, header, type, depth, out->address, out->n, out->total);
    return header;
}

typedef struct seen {
    uint64_t n, stop_at;
} seen;

static fby_status see_record(void *user, const uint8_t *record, fby_error *err)
{
    seen *s = user;
    assert_int_equal(fby__load_u64(record), s->n);
    assert_int_equal(fby__load_u32(record + 8), s->n * 3);
    s->n++;
    return s->n == s->stop_at ? fby__fail(err, FBY_E_CANCELLED, "enough") : FBY_OK;
}

static fby_status walk_image(const image *im, uint64_t header, uint8_t type, seen *s, fby_error *err)
{
    fby__h5_file *f = open_image(im);
    uint16_t record_bytes = 0;
    *s = (seen){.stop_at = s->stop_at};
    fby_status status = fby__h5_btree2_walk(f, header, type, &record_bytes, see_record, s, err);
    if (status == FBY_OK)
        assert_int_equal(record_bytes, RECORD_BYTES);
    fby__h5_file_close(f);
    return status;
}

static void a_tree_gives_its_records_in_order_at_any_depth(void **state)
{
    (void)state;
    for (unsigned depth = 0; depth <= 3; depth++) {
        image im;
        image_init(&im);
        subtree t;
        uint64_t header = make_tree(&im, depth, 5, &t);
        image_finish(&im, header);
        seen s = {0};
        fby_error err;
        if (walk_image(&im, header, 5, &s, &err) != FBY_OK)
            fail_msg("%s", err.message);
        assert_int_equal(s.n, t.total);
        s.stop_at = t.total / 2 + 1;
        assert_int_equal(walk_image(&im, header, 5, &s, &err), FBY_E_CANCELLED);
        assert_int_equal(s.n, s.stop_at);
        assert_int_equal(walk_image(&im, header, 8, &s, &err), FBY_E_FORMAT); /* not the type that was asked for */
        image_fini(&im);
    }
}

static void an_empty_tree_has_no_records(void **state)
{
    (void)state;
    image im;
    image_init(&im);
    uint64_t header = place(&im, TREE_HEADER_BYTES);
    put_tree_header(&im, header, 5, 0, NONE, 0, 0);
    image_finish(&im, header);
    seen s = {0};
    fby_error err;
    assert_int_equal(walk_image(&im, header, 5, &s, &err), FBY_OK);
    assert_int_equal(s.n, 0);
    put_tree_header(&im, header, 5, 0, NONE, 0, 3);
    assert_int_equal(walk_image(&im, header, 5, &s, &err), FBY_E_FORMAT);
    image_fini(&im);
}

static void every_changed_byte_of_a_tree_is_noticed(void **state)
{
    (void)state;
    image im;
    image_init(&im);
    subtree t;
    uint64_t header = make_tree(&im, 2, 5, &t);
    image_finish(&im, header);
    size_t noticed = 0, used = 0;
    for (size_t at = SUPERBLOCK_BYTES; at < im.n; at++) {
        im.data[at] ^= 0x41;
        seen s = {0};
        fby_error err;
        fby_status status = walk_image(&im, header, 5, &s, &err);
        im.data[at] ^= 0x41;
        assert_true(status == FBY_OK || status == FBY_E_FORMAT || status == FBY_E_UNSUPPORTED);
        noticed += status != FBY_OK;
        used += status == FBY_OK && s.n == t.total;
    }
    assert_int_equal(noticed + used, im.n - SUPERBLOCK_BYTES);
    /* Not noticed: the unused ends of nodes, up to 8 bytes each, and padding. 13 nodes. */
    assert_in_range(used, 0, 13 * 12);
    image_fini(&im);
}

static void trees_that_lead_in_circles_or_lie_about_counts_are_errors(void **state)
{
    (void)state;
    const size_t level1_bytes = 6 + 2 * 12 + 3 * 9 + 4, level2_bytes = 6 + 2 * 12 + 3 * 10 + 4, child = 6 + 2 * 12;
    for (int kind = 0; kind < 7; kind++) {
        image im;
        image_init(&im);
        subtree t;
        uint64_t header = make_tree(&im, 2, 5, &t), first = fby__load_u64(im.data + t.address + child);
        switch (kind) {
        case 0: /* to itself */ amend(&im, t.address, level2_bytes, child, t.address, 8); break;
        case 1: /* a child with no records */ amend(&im, t.address, level2_bytes, child + 8, 0, 1); break;
        case 2: /* more below than there is */ amend(&im, t.address, level2_bytes, child + 9, 200, 1); break;
        case 3: /* a leaf with fewer than it should */ amend(&im, first, level1_bytes, child + 8, 3, 1); break;
        case 4: /* levels that do not fit 64 bits */ put_tree_header(&im, header, 5, 60, t.address, t.n, t.total); break;
        case 5: /* a total that the file cannot hold */ put_tree_header(&im, header, 5, 2, t.address, t.n, 1u << 30); break;
        default: /* a root larger than a node */ put_tree_header(&im, header, 5, 2, t.address, 3, t.total);
        }
        image_finish(&im, header);
        seen s = {0};
        fby_error err;
        assert_int_equal(walk_image(&im, header, 5, &s, &err), FBY_E_FORMAT);
        image_fini(&im);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_gives_its_records_in_order_at_any_depth),
        cmocka_unit_test(an_empty_tree_has_no_records),
        cmocka_unit_test(every_changed_byte_of_a_tree_is_noticed),
        cmocka_unit_test(trees_that_lead_in_circles_or_lie_about_counts_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
