/* The cache against a naive twin under random operations, and the rules of its state diagram. */
#include "cache/cache.h"

#include "base/alloc.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    fby__cache *cache;
    int n_made, n_full; /* entries whose data was made, and of these, that hold something */
} fixture;

static bool init_data(void *user, fby__block_panels *data)
{
    ((fixture *)user)->n_made++;
    return (data->panels = fby__calloc(1, sizeof *data->panels)) != NULL;
}

static void clear_data(void *user, fby__block_panels *data)
{
    ((fixture *)user)->n_full -= data->n_spans > 0;
    data->n_spans = 0;
}

static void fini_data(void *user, fby__block_panels *data)
{
    ((fixture *)user)->n_made--;
    fby__free(data->panels);
}

static void make(fixture *f, uint32_t max_entries)
{
    *f = (fixture){0};
    const fby__cache_owner owner = {init_data, clear_data, fini_data, f};
    assert_int_equal(fby__cache_create(max_entries, &owner, &f->cache, NULL), FBY_OK);
}

static void drop(fixture *f)
{
    fby__cache_destroy(f->cache);
    assert_int_equal(f->n_full, 0);
    assert_int_equal(f->n_made, 0);
}

static fby__cache_entry *add(fixture *f, uint32_t block, uint64_t next_use)
{
    fby__cache_entry *e = fby__cache_insert(f->cache, block, 0, 100);
    assert_non_null(e);
    e->data.n_spans = 1;
    f->n_full++;
    e->state = FBY__ENTRY_READY;
    fby__cache_unpin(f->cache, e, next_use);
    return e;
}

static void the_entry_needed_farthest_in_the_future_goes_first(void **state)
{
    (void)state;
    fixture f;
    make(&f, 8);
    add(&f, 1, 50);
    add(&f, 2, 90);
    add(&f, 3, FBY__NEVER);
    add(&f, 4, 10);
    assert_true(fby__cache_evict(f.cache, 0));
    assert_null(fby__cache_find(f.cache, 3, 0, 100, 0));
    assert_true(fby__cache_evict(f.cache, 0));
    assert_null(fby__cache_find(f.cache, 2, 0, 100, 0));
    assert_false(fby__cache_evict(f.cache, 50)); /* nothing is needed later than 50 */
    assert_non_null(fby__cache_find(f.cache, 1, 0, 100, 0));
    assert_int_equal(fby__cache_evictions(f.cache), 2);
    drop(&f);
}

static void pinned_and_loading_entries_are_never_evicted(void **state)
{
    (void)state;
    fixture f;
    make(&f, 4);
    fby__cache_entry *e = add(&f, 1, 5);
    fby__cache_pin(f.cache, e);
    fby__cache_entry *loading = fby__cache_insert(f.cache, 2, 0, 10);
    assert_non_null(loading);
    assert_false(fby__cache_evict(f.cache, 0));
    fby__cache_unpin(f.cache, e, 5);
    assert_true(fby__cache_evict(f.cache, 0));
    fby__cache_unpin(f.cache, loading, 1); /* never became ready: it goes */
    assert_int_equal(fby__cache_count(f.cache), 0);
    drop(&f);
}

static void an_entry_serves_the_ranges_it_covers(void **state)
{
    (void)state;
    fixture f;
    make(&f, 4);
    add(&f, 7, 1);
    assert_non_null(fby__cache_find(f.cache, 7, 20, 30, 0));
    assert_non_null(fby__cache_find(f.cache, 7, 0, 100, 0));
    assert_null(fby__cache_find(f.cache, 7, 0, 101, 0));
    assert_null(fby__cache_find(f.cache, 8, 0, 1, 0));
    drop(&f);
}

static void failed_entries_are_not_found_and_vanish_with_their_last_pin(void **state)
{
    (void)state;
    fixture f;
    make(&f, 4);
    fby__cache_entry *e = fby__cache_insert(f.cache, 3, 0, 10);
    e->state = FBY__ENTRY_FAILED;
    e->error = fby__calloc(1, sizeof *e->error);
    assert_null(fby__cache_find(f.cache, 3, 0, 10, 0));
    fby__cache_unpin(f.cache, e, 0);
    assert_int_equal(fby__cache_count(f.cache), 0);
    drop(&f);
}

static void a_full_cache_makes_room_or_says_no(void **state)
{
    (void)state;
    fixture f;
    make(&f, 2);
    add(&f, 1, 5);
    fby__cache_entry *b = add(&f, 2, 6);
    fby__cache_pin(f.cache, b);
    assert_non_null(fby__cache_insert(f.cache, 3, 0, 1)); /* evicts 1 */
    assert_null(fby__cache_find(f.cache, 1, 0, 100, 0));
    assert_null(fby__cache_insert(f.cache, 4, 0, 1));
    drop(&f);
}

static uint64_t reversed(void *user, const fby__cache_entry *e) { return *(uint64_t *)user - e->block; }

static void a_new_order_changes_who_goes_first(void **state)
{
    (void)state;
    fixture f;
    make(&f, 8);
    for (uint32_t b = 0; b < 5; b++)
        add(&f, b, 10 + b);
    uint64_t base = 1000;
    fby__cache_reorder(f.cache, reversed, &base);
    for (uint32_t b = 0; b < 5; b++) {
        assert_non_null(fby__cache_find(f.cache, b, 0, 1, 0));
        assert_true(fby__cache_evict(f.cache, 0));
        assert_null(fby__cache_find(f.cache, b, 0, 1, 0));
    }
    drop(&f);
}

/* A twin that keeps a plain list and searches it whole. */
typedef struct twin {
    bool used;
    uint32_t pins;
    uint64_t next_use;
    fby__cache_entry *entry;
} twin;

static void random_operations_equal_a_naive_twin(void **state)
{
    (void)state;
    enum { BLOCKS = 40, ENTRIES = 16 };
    fby__random rnd = {.key = 20260711};
    print_message("seed %llu\n", (unsigned long long)rnd.key);
    fixture f;
    make(&f, ENTRIES);
    twin t[BLOCKS] = {0};
    uint32_t used = 0;
    for (int step = 0; step < 200000; step++) {
        uint32_t b = (uint32_t)fby__random_below(&rnd, BLOCKS);
        uint64_t use = 1 + fby__random_below(&rnd, 1000000) * BLOCKS + b; /* distinct: the victim is unique */
        assert_int_equal(fby__cache_find(f.cache, b, 0, 100, 0) != NULL, t[b].used);
        switch (fby__random_below(&rnd, 4)) {
        case 0:
            if (!t[b].used && used < ENTRIES) {
                t[b] = (twin){true, 0, use, add(&f, b, use)};
                used++;
            }
            break;
        case 1:
            if (t[b].used) {
                fby__cache_pin(f.cache, t[b].entry);
                t[b].pins++;
            }
            break;
        case 2:
            if (t[b].pins) {
                fby__cache_unpin(f.cache, t[b].entry, use);
                if (--t[b].pins == 0)
                    t[b].next_use = use;
            }
            break;
        default: {
            uint32_t victim = BLOCKS;
            for (uint32_t i = 0; i < BLOCKS; i++)
                if (t[i].used && !t[i].pins && (victim == BLOCKS || t[i].next_use > t[victim].next_use))
                    victim = i;
            assert_int_equal(fby__cache_evict(f.cache, 0), victim != BLOCKS);
            if (victim != BLOCKS) {
                t[victim] = (twin){0};
                used--;
            }
        }
        }
        assert_int_equal(fby__cache_count(f.cache), used);
        assert_int_equal(f.n_full, used);
        assert_int_equal(f.n_made, used); /* what is not in use takes nothing */
    }
    drop(&f);
}

static void an_entry_that_cannot_be_made_leaves_nothing_behind(void **state)
{
    (void)state;
    fixture f;
    make(&f, 4);
    for (uint64_t n = 1; n <= 2; n++) { /* the entry, its data */
        fby__alloc_fail_at(n);
        assert_null(fby__cache_insert(f.cache, 1, 0, 1));
        fby__alloc_fail_at(0);
        assert_int_equal(f.n_made, 0);
    }
    add(&f, 1, 5);
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_entry_needed_farthest_in_the_future_goes_first),
        cmocka_unit_test(pinned_and_loading_entries_are_never_evicted),
        cmocka_unit_test(an_entry_serves_the_ranges_it_covers),
        cmocka_unit_test(failed_entries_are_not_found_and_vanish_with_their_last_pin),
        cmocka_unit_test(a_full_cache_makes_room_or_says_no),
        cmocka_unit_test(a_new_order_changes_who_goes_first),
        cmocka_unit_test(an_entry_that_cannot_be_made_leaves_nothing_behind),
        cmocka_unit_test(random_operations_equal_a_naive_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
