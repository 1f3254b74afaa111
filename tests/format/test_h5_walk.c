/* Walks over the chunks of HDF5 data sets: those that are not stored are taken together, and none is left out or comes twice. */
#include "base/checked.h"
#include "base/random.h"
#include "format/hdf5/values/decode_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const fby__h5_type BYTE = {.class = FBY__H5_INTEGER, .bytes = 1};

static uint64_t below(fby__random *rng, uint64_t n) { return fby__random_below(rng, n); }

static fby__h5_set set_of(uint32_t rank, const uint64_t *dims, const uint32_t *chunk, uint32_t axis, uint32_t axes)
{
    fby__h5_set s = {.way = FBY__H5_DIRECT,
                     .type = &BYTE,
                     .rank = rank,
                     .axis = axis,
                     .axes = axes,
                     .repeat = 1,
                     .row_elements = 1,
                     .layout = FBY__H5_CHUNKED};
    for (uint32_t a = 0; a < rank; a++) {
        s.dims[a] = dims[a];
        s.chunk[a] = chunk[a];
        s.row_elements *= a < axis || a >= axis + axes ? dims[a] : 1;
    }
    return s;
}

/* How many of the set's chunks are stored, by their numbers in order; walks them all and returns how many steps that took. */
static uint64_t walk(const fby__h5_geometry *g, uint64_t begin, uint64_t end, const uint64_t *stored, size_t n_stored, uint64_t *elements,
                     uint64_t *n_found, uint8_t *seen)
{
    fby__h5_walk w;
    uint64_t steps = 0, last = 0;
    *elements = *n_found = 0;
    fby__h5_walk_begin(&w, g, begin, end);
    for (; fby__h5_walk_next(&w); steps++) {
        size_t next = 0;
        assert_true(steps == 0 || w.number > last); /* they rise */
        last = w.number;
        while (next < n_stored && stored[next] < w.number)
            next++;
        if (next < n_stored && stored[next] == w.number)
            (*n_found)++;
        else
            fby__h5_walk_absent(&w, next < n_stored ? stored[next] : UINT64_MAX);
        uint64_t others = 1;
        for (uint32_t a = 0; a < g->rank; a++)
            others *= a < g->row_first || a >= g->row_end ? fby__h5_walk_extent(&w, a) : 1;
        for (fby__h5_span span = {0}; fby__h5_span_next(&w, &span);) {
            *elements += span.n * others;
            for (uint64_t i = span.index; seen && i < span.index + span.n; i++)
                seen[i] = 1;
        }
    }
    return steps;
}

static void every_element_comes_once_whatever_is_stored(void **state)
{
    (void)state;
    fby__random rng = {.key = 71};
    for (int turn = 0; turn < 3000; turn++) {
        const uint32_t rank = 1 + (uint32_t)below(&rng, 4), axes = 1 + (uint32_t)below(&rng, rank),
                       axis = axes == 1 ? (uint32_t)below(&rng, rank) : 0;
        uint64_t dims[4], stored[4096], all = 1;
        uint32_t chunk[4];
        for (uint32_t a = 0; a < rank; a++) {
            dims[a] = 1 + below(&rng, 8);
            chunk[a] = 1 + (uint32_t)below(&rng, dims[a]);
            all *= fby__div_up_u64(dims[a], chunk[a]);
        }
        const fby__h5_set s = set_of(rank, dims, chunk, axis, axes);
        fby__h5_geometry g;
        assert_int_equal(fby__h5_geometry_open(&s, &g, NULL), FBY_OK);
        const uint64_t begin = below(&rng, g.indices), end = begin + 1 + below(&rng, g.indices - begin), every = below(&rng, 5);
        size_t n = 0;
        for (uint64_t i = 0; i < all; i++)
            if (every && below(&rng, every) == 0)
                stored[n++] = i;
        uint64_t all_stored[4096], elements, found, plain_elements, plain_found;
        for (uint64_t i = 0; i < all; i++)
            all_stored[i] = i;
        uint8_t seen[4096] = {0};
        const uint64_t steps = walk(&g, begin, end, stored, n, &elements, &found, seen);
        const uint64_t plain = walk(&g, begin, end, all_stored, all, &plain_elements, &plain_found, NULL);
        assert_int_equal(elements, (end - begin) * s.row_elements);
        assert_int_equal(elements, plain_elements);
        assert_true(steps <= plain && found <= n && plain_found == plain);
        for (uint64_t i = 0; i < g.indices; i++)
            assert_int_equal(seen[i], i >= begin && i < end);
        uint64_t wanted = 0; /* none that is stored and wanted is passed over */
        fby__h5_walk w;
        fby__h5_walk_begin(&w, &g, begin, end);
        for (size_t k = 0; fby__h5_walk_next(&w);) {
            while (k < n && stored[k] < w.number)
                k++;
            wanted += k < n && stored[k] == w.number;
        }
        assert_int_equal(found, wanted);
    }
}

static void chunks_that_are_not_stored_take_a_step_for_a_few_million_elements(void **state)
{
    (void)state;
    static const uint64_t SQUARE[] = {1 << 16, 1 << 16}, LINE[] = {(uint64_t)1 << 32}, CELLS[] = {4, (uint64_t)1 << 30};
    static const uint32_t ONES[] = {1, 1};
    static const uint64_t STORED[] = {12345, 77777777, ((uint64_t)1 << 32) - 5};
    const fby__h5_set sets[] = {set_of(2, SQUARE, ONES, 0, 1), set_of(2, SQUARE, ONES, 1, 1), set_of(1, LINE, ONES, 0, 1),
                                set_of(2, CELLS, ONES, 0, 2)};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        fby__h5_geometry g;
        uint64_t elements, found;
        assert_int_equal(fby__h5_geometry_open(&sets[i], &g, NULL), FBY_OK);
        const uint64_t steps = walk(&g, 0, g.indices, STORED, 3, &elements, &found, NULL);
        assert_int_equal(elements, (uint64_t)1 << 32);
        assert_int_equal(found, 3);
        assert_true(steps <= 2 * ((uint64_t)1 << 32) / FBY__H5_ABSENT_ELEMENTS + 64);
    }
}

static void rows_over_several_axes_begin_anywhere_in_a_few_steps(void **state)
{
    (void)state;
    static const uint64_t CELLS[] = {4, (uint64_t)1 << 30};
    static const uint32_t BY_ROW[] = {1, 1}, BY_TWO[] = {2, 1};
    for (int two = 0; two < 2; two++) {
        const fby__h5_set s = set_of(2, CELLS, two ? BY_TWO : BY_ROW, 0, 2);
        const uint64_t middle = ((uint64_t)1 << 30) + 700000000;
        fby__h5_geometry g;
        uint64_t elements, found;
        assert_int_equal(fby__h5_geometry_open(&s, &g, NULL), FBY_OK);
        const uint64_t steps = walk(&g, middle, middle + 1000, NULL, 0, &elements, &found, NULL);
        assert_int_equal(elements, 1000);
        assert_true(steps <= 4);
        fby__h5_walk w; /* and where all are stored, no more than hold a row */
        uint64_t n = 0;
        for (fby__h5_walk_begin(&w, &g, middle - 500000000, middle - 500000000 + 10); fby__h5_walk_next(&w);)
            n++;
        assert_int_equal(n, 10);
        n = 0;
        for (fby__h5_walk_begin(&w, &g, ((uint64_t)1 << 30) - 3, ((uint64_t)1 << 30) + 3); fby__h5_walk_next(&w);)
            n++; /* at the end of one row and the beginning of the next */
        assert_int_equal(n, 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_comes_once_whatever_is_stored),
        cmocka_unit_test(chunks_that_are_not_stored_take_a_step_for_a_few_million_elements),
        cmocka_unit_test(rows_over_several_axes_begin_anywhere_in_a_few_steps),
    };
    return cmocka_run_group_tests_name("h5_walk", tests, NULL, NULL);
}
