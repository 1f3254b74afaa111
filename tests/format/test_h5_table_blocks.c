/* Blocks of HDF5 tables: how they are cut, and what rows cost, against a count of chunk by chunk. */
#include "format/h5_golden_tables.h"

/* ---- blocks and bounds ---- */

static void blocks_are_whole_chunks_of_the_largest_set_and_of_a_worthwhile_size(void **state)
{
    (void)state;
    fby__table *t = open_golden("blocks.h5", (fby__format_opts){0});
    /* 10 chunks of 1,000 rows have 1 MiB of x, label, plain and whole; ten times that would meet label's chunks too, which is too many. */
    assert_int_equal(t->groups[0].step_rows, 1000);
    assert_int_equal(t->groups[0].block_rows, 10000);
    fby__table_unref(t);
    t = open_golden("blocks.h5", (fby__format_opts){.table = "tiny"});
    assert_int_equal(t->groups[0].step_rows, 1);
    assert_int_equal(t->groups[0].block_rows, 20000); /* 400 KB: chunks of 20 bytes are read together */
    fby__table_unref(t);
    t = open_golden("tables.h5", (fby__format_opts){0});
    assert_int_equal(t->groups[0].step_rows, 0); /* the largest set lies in one piece */
    assert_int_equal(t->groups[0].block_rows, 100);
    fby__table_unref(t);
}

/* A table of our own making: sets with chunks, no file. */
typedef struct made {
    fby__h5_table table;
    fby__h5_set sets[2];
    fby__h5_type type;
    fby__h5_chunk chunks[2][4096];
    fby__h5_leaf leaves[2];
} made;

static void make_set(made *m, uint32_t k, uint32_t rank, const uint64_t *dims, const uint32_t *chunk, uint32_t axis, uint32_t axes,
                     uint64_t repeat, unsigned every)
{
    fby__h5_set *s = &m->sets[k];
    m->type = (fby__h5_type){.class = FBY__H5_INTEGER, .bytes = 4};
    *s = (fby__h5_set){.rank = rank,
                       .axis = axis,
                       .axes = axes,
                       .repeat = repeat,
                       .row_elements = 1,
                       .type = &m->type,
                       .layout = FBY__H5_CHUNKED,
                       .chunks = m->chunks[k]};
    uint64_t all = 1;
    for (uint32_t i = 0; i < rank; i++) {
        s->dims[i] = dims[i];
        s->chunk[i] = chunk[i];
        s->grid[i] = (dims[i] + chunk[i] - 1) / chunk[i];
        all *= s->grid[i];
        if (i < axis || i >= axis + axes)
            s->row_elements *= dims[i];
    }
    for (uint64_t n = 0; n < all; n += every) {
        m->chunks[k][s->n_chunks] = (fby__h5_chunk){.number = n, .bytes = (uint32_t)(n * 7 % 13 + 1)};
        s->stored_bytes += m->chunks[k][s->n_chunks++].bytes;
    }
    m->leaves[k] = (fby__h5_leaf){.set = k, .type = &m->type, .elements = 1};
    m->table.sets = m->sets;
    m->table.leaves = m->leaves;
    m->table.n_sets = k + 1;
}

/* Which chunks hold a value of the rows, one value at a time; and of those, which hold one of other rows. */
static void count_by_hand(const fby__h5_set *s, uint64_t rows, uint64_t begin, uint64_t end, uint64_t *stored, uint64_t *n,
                          uint64_t *shared)
{
    static uint8_t in[4096], out[4096];
    uint64_t all = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        all *= s->dims[i];
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    for (uint64_t v = 0; v < all; v++) {
        uint64_t at[FBY__H5_MAX_RANK], rest = v, number = 0, row = 0;
        for (uint32_t i = s->rank; i-- > 0; rest /= s->dims[i])
            at[i] = rest % s->dims[i];
        for (uint32_t i = 0; i < s->rank; i++) {
            number = number * s->grid[i] + at[i] / s->chunk[i];
            if (i >= s->axis && i < s->axis + s->axes)
                row = row * s->dims[i] + at[i];
        }
        for (uint64_t r = row * s->repeat; r < (row + 1) * s->repeat && r < rows; r++)
            *(r >= begin && r < end ? &in[number] : &out[number]) = 1;
    }
    *stored = *n = *shared = 0;
    for (uint64_t k = 0; k < s->n_chunks; k++)
        if (in[s->chunks[k].number]) {
            *stored += s->chunks[k].bytes;
            ++*n;
            *shared += out[s->chunks[k].number];
        }
}

static void bounds_count_the_chunks_that_rows_touch(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank, axis, axes;
        uint64_t dims[4], repeat;
        uint32_t chunk[4];
    } want[] = {{1, 0, 1, {50}, 1, {7}},
                {2, 0, 1, {30, 11}, 1, {4, 3}},
                {2, 1, 1, {11, 30}, 1, {3, 4}},
                {3, 1, 1, {5, 30, 6}, 1, {2, 7, 4}},
                {3, 0, 3, {4, 6, 5}, 1, {1, 3, 5}},
                {3, 0, 2, {6, 5, 4}, 1, {2, 2, 3}},
                {2, 0, 2, {6, 4}, 5, {1, 2}},
                {1, 0, 1, {9}, 6, {2}},
                {3, 0, 3, {4, 6, 5}, 1, {1, 4, 5}},
                {3, 0, 3, {4, 6, 5}, 1, {1, 1, 2}}};
    made *m = calloc(1, sizeof *m);
    for (size_t w = 0; w < sizeof want / sizeof *want; w++)
        for (unsigned every = 1; every < 4; every++) {
            make_set(m, 0, want[w].rank, want[w].dims, want[w].chunk, want[w].axis, want[w].axes, want[w].repeat, every);
            const fby__h5_set *s = m->sets;
            uint64_t rows = s->repeat, chunk_bytes = 4, step = fby__h5_set_step(s);
            for (uint32_t i = 0; i < s->rank; i++) {
                chunk_bytes *= s->chunk[i];
                rows *= i >= s->axis && i < s->axis + s->axes ? s->dims[i] : 1;
            }
            m->table.base.n_rows = rows;
            for (uint64_t begin = 0; begin < rows; begin++)
                for (uint64_t end = begin + 1; end <= rows; end++) {
                    uint64_t stored, n, shared;
                    fby__leaf_bounds b;
                    fby__h5_leaf_bounds(&m->table.base, 0, begin, end, 0, &b);
                    count_by_hand(s, rows, begin, end, &stored, &n, &shared);
                    assert_int_equal(b.n_values, (end - begin) * s->row_elements);
                    bool exact = s->axes == 1 || (begin % step == 0 && (end % step == 0 || end == rows));
                    if (exact && (s->axes == 1 || end - begin <= step)) {
                        assert_int_equal(b.compressed_bytes, stored);
                        assert_int_equal(b.uncompressed_bytes, n * chunk_bytes);
                    }
                    assert_true(b.compressed_bytes >= stored && b.uncompressed_bytes >= n * chunk_bytes);
                    assert_true(b.shared_bytes >= shared * chunk_bytes);
                    assert_true(b.shared_bytes <= b.uncompressed_bytes / chunk_bytes * fby__chunk_store_bytes(chunk_bytes));
                    if (begin % step == 0 && (end % step == 0 || end == rows))
                        assert_int_equal(b.shared_bytes, 0); /* no chunk crosses a step: that is what a step is */
                    assert_int_equal(b.scratch_bytes, chunk_bytes);
                }
        }
    free(m);
}

static void a_block_grows_to_meet_the_chunks_of_other_sets(void **state)
{
    (void)state;
    made *m = calloc(1, sizeof *m);
    const uint64_t dims[2] = {1000000, 8};
    make_set(m, 0, 2, dims, (uint32_t[]){1000, 8}, 0, 1, 1, 4096);
    make_set(m, 1, 1, dims, (uint32_t[]){10000}, 0, 1, 1, 4096);
    m->table.base.n_rows = 1000000;
    fby__group g;
    fby__h5_cut(&m->table, &g); /* 36 bytes a row: 30 chunks make 1 MiB, which meets 10,000 already */
    assert_int_equal(g.step_rows, 1000);
    assert_int_equal(g.block_rows, 30000);
    make_set(m, 1, 1, dims, (uint32_t[]){40000}, 0, 1, 1, 4096);
    m->table.n_sets = 2;
    fby__h5_cut(&m->table, &g);
    assert_int_equal(g.block_rows, 120000);
    make_set(m, 1, 1, dims, (uint32_t[]){700000}, 0, 1, 1, 4096);
    fby__h5_cut(&m->table, &g);
    assert_int_equal(g.block_rows, 30000); /* nothing within eight times */
    m->sets[0].stored_bytes = (uint64_t)1000 << 30;
    fby__h5_cut(&m->table, &g);
    assert_int_equal(g.block_rows, 1000); /* a chunk row of a gigabyte: one is a block */
    free(m);
}

static void inspect_is_told_filters_and_chunks(void **state)
{
    (void)state;
    fby__table *t = open_golden("tables.h5", (fby__format_opts){0});
    fby_chunk_info info = {.size = sizeof info};
    fby_error err;
    assert_int_equal(fby__h5_describe(t, NULL, 0, fby__schema_find_leaf(t->schema, "events/x"), &info, &err), FBY_OK);
    const char *codec = info.codec;
    assert_int_equal(info.n_pages, 10);
    assert_int_equal(info.n_values, 100);
    assert_int_equal(info.uncompressed_bytes, 400);
    assert_int_equal(info.compressed_bytes, set_of(t, "events/x")->stored_bytes);
    assert_int_equal(fby__h5_describe(t, NULL, 0, fby__schema_find_leaf(t->schema, "events/id"), &info, &err), FBY_OK);
    assert_true(info.has_crc);
    assert_string_equal(info.codec, "fletcher32");
    assert_int_equal(fby__h5_describe(t, NULL, 0, fby__schema_find_leaf(t->schema, "events/flag"), &info, &err), FBY_OK);
    assert_string_equal(info.codec, "none");
    assert_int_equal(info.n_pages, 1);
    assert_int_equal(fby__h5_describe(t, NULL, 1, 0, &info, &err), FBY_E_ARG);
    fby__table_unref(t);
    assert_string_equal(codec, "shuffle+deflate"); /* outlives the table */
}

int main(void)
{
    hide_helper();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_whole_chunks_of_the_largest_set_and_of_a_worthwhile_size),
        cmocka_unit_test(bounds_count_the_chunks_that_rows_touch),
        cmocka_unit_test(a_block_grows_to_meet_the_chunks_of_other_sets),
        cmocka_unit_test(inspect_is_told_filters_and_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
