/* Chunk indexes: every kind of them against what libhdf5 says, failing allocations and failing reads. */
#include "format/h5_golden_chunks.h"

static void check_chunks(const golden *g, const fby__h5_chunks *got)
{
    if (got->n != g->n)
        fail_msg("%s %s: %" PRIu64 " chunks, not %zu", g->file, g->name, got->n, g->n);
    for (size_t i = 0; i < g->n; i++) {
        const fby__h5_chunk *a = &got->list[i], *b = &g->chunks[i];
        if (a->number != b->number || a->offset != b->offset || a->bytes != b->bytes || a->mask != b->mask)
            fail_msg("%s %s, entry %zu: %" PRIu64 " at %" PRIu64 ", %u bytes, mask %u; expected %" PRIu64 " at %" PRIu64
                     ", %u bytes, mask %u",
                     g->file, g->name, i, a->number, a->offset, a->bytes, a->mask, b->number, b->offset, b->bytes, b->mask);
    }
}

static void every_kind_of_index_gives_the_chunks_that_libhdf5_finds(void **state)
{
    (void)state;
    unsigned kinds = 0;
    for (size_t i = 0; i < g_n_golden; i++) {
        const golden *g = &g_golden[i];
        opened o = open_golden(g);
        assert_int_equal(o.object.layout, FBY__H5_CHUNKED);
        assert_int_equal(o.object.index, g->index);
        kinds |= 1u << g->index;
        fby__h5_chunks chunks;
        fby_error err = {0};
        if (fby__h5_chunks_read(o.f, &o.object, &chunks, &err) != FBY_OK)
            fail_msg("%s %s: %s", g->file, g->name, err.message);
        check_chunks(g, &chunks);
        assert_int_equal(chunks.rank, o.object.space.rank);
        for (uint32_t k = 0; k < chunks.rank; k++)
            assert_int_equal(chunks.grid[k], (o.object.space.dims[k] + o.object.chunk[k] - 1) / o.object.chunk[k]);
        fby__h5_chunks_fini(&chunks);
        assert_null(chunks.list);
        fby__h5_file_close(o.f);
    }
    assert_int_equal(kinds, 63);
}

/* libhdf5 removes them when it shrinks a data set; a file may hold them all the same. */
static void chunks_outside_the_extent_are_left_out(void **state)
{
    (void)state;
    static const char *const sets[][2] = {{"btree1.h5", "edges"},
                                          {"implicit.h5", "with_room"},
                                          {"fixed.h5", "with_room"},
                                          {"extensible.h5", "axis2"},
                                          {"btree2.h5", "plain"}};
    for (size_t i = 0; i < COUNT(sets); i++) {
        const golden *g = find_golden(sets[i][0], sets[i][1]);
        opened o = open_golden(g);
        uint64_t old_grid[FBY__H5_MAX_RANK], n = 0;
        const uint32_t rank = o.object.space.rank;
        for (uint32_t k = 0; k < rank; k++) { /* one chunk less along each axis that has more than one */
            uint64_t dim = o.object.space.dims[k];
            old_grid[k] = (dim + o.object.chunk[k] - 1) / o.object.chunk[k];
            if (old_grid[k] > 1)
                o.object.space.dims[k] = (old_grid[k] - 1) * o.object.chunk[k];
        }
        fby__h5_chunks chunks;
        fby_error err = {0};
        assert_int_equal(fby__h5_chunks_read(o.f, &o.object, &chunks, &err), FBY_OK);
        for (size_t j = 0; j < g->n; j++) {
            uint64_t rest = g->chunks[j].number, number = 0, stride = 1;
            bool inside = true;
            for (uint32_t k = rank; k-- > 0; rest /= old_grid[k]) {
                uint64_t place = rest % old_grid[k];
                inside &= place < chunks.grid[k];
                number += place * stride;
                stride *= chunks.grid[k];
            }
            if (!inside)
                continue;
            assert_true(n < chunks.n);
            assert_int_equal(chunks.list[n].number, number);
            assert_int_equal(chunks.list[n++].offset, g->chunks[j].offset);
        }
        assert_int_equal(chunks.n, n);
        assert_true(n > 0 && n < g->n);
        fby__h5_chunks_fini(&chunks);
        fby__h5_file_close(o.f);
    }
}

static void failing_allocations_are_reported_and_leak_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < g_n_golden; i++) {
        fby_status status = FBY_E_NOMEM;
        for (uint64_t at = 1; status == FBY_E_NOMEM; at++) {
            assert_in_range(at, 1, 200);
            opened o = open_golden(&g_golden[i]);
            fby__h5_chunks chunks = {.n = 77};
            fby_error err = {0};
            fby__alloc_fail_at(at);
            status = fby__h5_chunks_read(o.f, &o.object, &chunks, &err);
            fby__alloc_fail_at(0);
            if (status == FBY_OK) {
                check_chunks(&g_golden[i], &chunks);
                fby__h5_chunks_fini(&chunks);
            } else {
                assert_int_equal(status, FBY_E_NOMEM);
                assert_int_equal(err.code, FBY_E_NOMEM);
                assert_int_equal(chunks.n, 77);
            }
            fby__h5_file_close(o.f);
        }
        assert_int_equal(status, FBY_OK);
    }
}

static void failing_reads_are_reported(void **state)
{
    (void)state;
    for (size_t i = 0; i < g_n_golden; i++) {
        fby_status status = FBY_E_IO;
        for (uint64_t at = 1; status == FBY_E_IO; at++) {
            assert_in_range(at, 1, 200);
            opened o = open_golden(&g_golden[i]);
            fby__h5_chunks chunks;
            fby_error err = {0};
            fby__io_set_fault(&(fby__io_fault){.fail_at = at});
            status = fby__h5_chunks_read(o.f, &o.object, &chunks, &err);
            fby__io_set_fault(&(fby__io_fault){0});
            if (status == FBY_OK)
                fby__h5_chunks_fini(&chunks);
            fby__h5_file_close(o.f);
        }
        assert_int_equal(status, FBY_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_index_gives_the_chunks_that_libhdf5_finds),
        cmocka_unit_test(chunks_outside_the_extent_are_left_out),
        cmocka_unit_test_setup_teardown(failing_allocations_are_reported_and_leak_nothing, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(failing_reads_are_reported, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, load_expected, free_expected);
}
