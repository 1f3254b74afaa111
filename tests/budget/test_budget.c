/* The ledger: what is charged, what is kept, what is refused, and what the consumer takes with it. */
#include "budget/budget.h"
#include "budget/spares.h"

#include "base/alloc.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1u << 20)

static fby__account *open_account(uint64_t limit)
{
    fby__account *a;
    assert_int_equal(fby__account_open(limit, &a, NULL), FBY_OK);
    return a;
}

/* False: it does not fit now. */
static bool take(fby__account *a, size_t n, fby__slab *out)
{
    if (!fby__slab_reserve(a, n, out))
        return false;
    assert_int_equal(fby__slab_map(a, out, NULL), FBY_OK);
    return true;
}

static uint64_t charged(fby__account *a)
{
    fby__account_stats s;
    fby__account_stats_of(a, &s);
    return s.charged_bytes;
}

static void size_classes_waste_at_most_an_eighth(void **state)
{
    (void)state;
    size_t before = 0;
    for (size_t n = 4096; n < (size_t)1 << 33; n += n / 37 + 1) {
        size_t c = fby__slab_class_bytes(n);
        assert_true(c >= n);
        assert_true(c - n <= n / 8 + 4096);
        assert_true(c >= before);
        assert_int_equal(c % 4096, 0);
        assert_int_equal(fby__slab_class_bytes(c), c);
        before = c;
    }
}

static void a_slab_beyond_the_limit_is_refused_and_nothing_is_charged(void **state)
{
    (void)state;
    fby__account *a = open_account(4 * MIB);
    fby__slab one, two = {0};
    assert_true(take(a, 3 * MIB, &one));
    uint64_t before = charged(a);
    assert_false(take(a, 2 * MIB, &two));
    assert_int_equal(charged(a), before);
    assert_null(two.data);
    assert_true(fby__account_try_charge(a, MIB));
    assert_false(fby__account_try_charge(a, 1));
    fby__account_discharge(a, MIB);
    fby__slab_free(a, &one);
    fby__account_unref(a);
}

static void freed_slabs_are_taken_again_and_give_way_when_room_is_needed(void **state)
{
    (void)state;
    fby__account *a = open_account(8 * MIB);
    fby__slab s;
    assert_true(take(a, 3 * MIB, &s));
    uint8_t *was = s.data;
    memset(s.data, 1, s.bytes);
    fby__slab_free(a, &s);
    assert_null(s.data);
    assert_int_equal(charged(a), 3 * MIB);
    assert_true(take(a, 3 * MIB, &s));
    assert_ptr_equal(s.data, was);
    fby__slab_free(a, &s);
    assert_true(take(a, 7 * MIB, &s));
    assert_int_equal(charged(a), 7 * MIB);
    fby__slab_free(a, &s);
    fby__account_unref(a);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void memory_that_two_accounts_hold_is_charged_to_both_and_goes_with_the_last(void **state)
{
    (void)state;
    fby__account *a = open_account(8 * MIB), *b = open_account(4 * MIB);
    fby__account_set_slack(a, 8 * MIB);
    fby__slab s, idle;
    assert_true(take(a, 4 * MIB, &s));
    memset(s.data, 1, s.bytes);
    fby__slab_free(a, &s);
    assert_true(take(a, 2 * MIB, &s)); /* an idle one, larger than asked for */
    assert_int_equal(s.bytes, 4 * MIB);
    assert_true(take(b, MIB, &idle));
    memset(idle.data, 1, idle.bytes);
    fby__slab_free(b, &idle);
    assert_true(fby__account_reserve(b, s.bytes)); /* the idle slab gave way */
    assert_false(fby__account_reserve(b, 1));
    assert_false(fby__account_reserve(b, SIZE_MAX));
    fby__slab_detach(a, &s);
    assert_int_equal(charged(a), 4 * MIB);
    assert_int_equal(charged(b), 4 * MIB);
    assert_int_equal(fby__ledger_charged_bytes(), 8 * MIB);
    fby__account_discharge(a, s.bytes);
    fby__account_retire(a);
    fby__account_unref(a);
    assert_int_equal(fby__ledger_charged_bytes(), 4 * MIB);
    uint8_t *was = s.data;
    assert_int_equal(s.data[s.bytes - 1], 1);
    fby__slab_free(b, &s);
    assert_true(take(b, 4 * MIB, &s)); /* it is b's now */
    assert_ptr_equal(s.data, was);
    fby__slab_free(b, &s);
    fby__account_unref(b);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void a_slab_handed_out_leaves_the_budget_and_outlives_the_account_s_owner(void **state)
{
    (void)state;
    fby__account *a = open_account(4 * MIB);
    fby__account *held = fby__account_ref(a);
    fby__slab s;
    assert_int_equal(fby__values_slab_get(a, 4 * MIB, false, &s, NULL), FBY__GRANTED);
    assert_int_equal(charged(a), 4 * MIB);
    fby__values_slab_hand_out(a, &s);
    assert_int_equal(charged(a), 0);
    fby__account_retire(a);
    fby__account_unref(a);
    memset(s.data, 7, s.bytes);
    fby__values_slab_return(held, &s);
    fby__account_stats stats;
    fby__account_stats_of(held, &stats);
    assert_int_equal(stats.out_bytes, 0);
    assert_int_equal(stats.idle_bytes, 0);
    fby__account_unref(held);
}

static void values_of_batches_stay_mapped_in_the_room_set_aside(void **state)
{
    (void)state;
    fby__account *a = open_account(16 * MIB);
    fby__account_values(a, 8 * MIB);
    assert_int_equal(charged(a), 8 * MIB);
    fby__slab first, second;
    assert_int_equal(fby__values_slab_get(a, 3 * MIB, false, &first, NULL), FBY__GRANTED);
    assert_true(first.bytes >= 3 * MIB);
    uint8_t *was = first.data;
    fby__values_slab_hand_out(a, &first);
    fby__values_slab_return(a, &first);
    assert_null(first.data);
    assert_int_equal(fby__values_slab_get(a, 3 * MIB + MIB / 4, false, &first, NULL), FBY__GRANTED); /* a little more: the same memory */
    assert_ptr_equal(first.data, was);
    fby__values_slab_drop(a, &first);
    assert_int_equal(fby__values_slab_get(a, 2 * MIB, false, &first, NULL), FBY__GRANTED); /* less, down to half */
    assert_ptr_equal(first.data, was);
    assert_int_equal(charged(a), 8 * MIB);
    fby__slab block;
    assert_true(take(a, 8 * MIB, &block)); /* blocks have the rest, and no more */
    assert_false(take(a, 4096, &second));
    assert_int_equal(fby__values_slab_get(a, 7 * MIB, false, &second, NULL), FBY__NO_ROOM); /* nor do values beyond their room */
    assert_null(second.data);
    assert_int_equal(charged(a), 16 * MIB);
    fby__slab_free(a, &block);
    assert_int_equal(fby__values_slab_get(a, 7 * MIB, false, &second, NULL), FBY__GRANTED); /* beyond the room, and counted */
    const size_t beyond = first.bytes + second.bytes - 8 * MIB;
    assert_int_equal(charged(a), 8 * MIB + beyond); /* what was idle has given way */
    fby__values_slab_hand_out(a, &second);
    assert_int_equal(charged(a), 8 * MIB);
    fby__account_stats stats;
    fby__account_stats_of(a, &stats);
    assert_int_equal(stats.forced_bytes, 0);
    assert_int_equal(stats.out_bytes, second.bytes);
    assert_true(take(a, 8 * MIB, &block));
    fby__values_slab_return(a, &second); /* no room for it, and none in the budget */
    assert_null(second.data);
    assert_int_equal(charged(a), 16 * MIB);
    fby__values_slab_drop(a, &first);
    fby__slab_free(a, &block);
    fby__account_unref(a);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void values_of_exactly_their_classes_fit_as_far_as_the_limit(void **state)
{
    (void)state;
    fby__account *a = open_account(16 * MIB);
    fby__account_values(a, 4 * MIB);
    fby__slab idle, held, values[2];
    assert_true(take(a, 5 * MIB, &held));
    assert_true(take(a, 6 * MIB, &idle));
    fby__slab_free(a, &idle); /* gives way */
    assert_true(fby__values_fit(a, 11 * MIB));
    assert_false(fby__values_fit(a, 11 * MIB + 1));
    assert_int_equal(fby__values_limit_for(a, 12 * MIB), 17 * MIB);
    assert_int_equal(fby__values_slab_get(a, 8 * MIB, true, &values[0], NULL), FBY__GRANTED);
    assert_int_equal(fby__values_slab_get(a, 3 * MIB + 1, true, &values[1], NULL), FBY__NO_ROOM);
    assert_int_equal(fby__values_slab_get(a, 3 * MIB, true, &values[1], NULL), FBY__GRANTED);
    assert_int_equal(charged(a), 16 * MIB);
    assert_false(fby__values_fit(a, 1));
    fby__values_slab_drop(a, &values[0]);
    fby__values_slab_drop(a, &values[1]);
    fby__slab_free(a, &held);
    fby__account_unref(a);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void big_slabs_are_aligned_for_huge_pages_and_small_ones_for_pages(void **state)
{
    (void)state;
    fby__account *a = open_account(64 * MIB);
    fby__slab big, small;
    assert_true(take(a, 5 * MIB, &big));
    assert_true(take(a, 100, &small));
    assert_int_equal((uintptr_t)big.data % (2 * MIB), 0);
    assert_int_equal((uintptr_t)small.data % 4096, 0);
    fby__slab_free(a, &big);
    fby__slab_free(a, &small);
    fby__account_unref(a);
}

static void a_failing_allocation_is_reported_and_not_charged(void **state)
{
    (void)state;
    fby__account *a = open_account(64 * MIB);
    fby__slab s = {0};
    fby_error err;
    fby__alloc_fail_at(1);
    assert_true(fby__slab_reserve(a, MIB, &s));
    assert_int_equal(fby__slab_map(a, &s, &err), FBY_E_NOMEM);
    assert_int_equal(s.bytes, 0);
    assert_int_equal(charged(a), 0);
    assert_true(take(a, MIB, &s));
    fby__alloc_fail_at(1); /* the list of idle slabs cannot grow: the slab is unmapped instead */
    fby__slab_free(a, &s);
    fby__alloc_fail_at(0);
    assert_int_equal(charged(a), 0);
    fby__account_unref(a);
}

static void an_idle_slab_that_is_too_large_is_cut_once_the_slack_is_used_up(void **state)
{
    (void)state;
    fby__account *a = open_account(16 * MIB);
    fby__slab s;
    for (int i = 0; i < 2; i++) { /* first without slack, then with some */
        fby__account_set_slack(a, i ? MIB : 0);
        assert_true(take(a, 5 * MIB, &s));
        fby__slab_free(a, &s);
        uint64_t before = charged(a);
        assert_true(take(a, 4 * MIB, &s));
        assert_int_equal(s.bytes, (i ? 5 : 4) * MIB);
        assert_int_equal(charged(a), before - (i ? 0 : MIB));
        memset(s.data, 1, s.bytes);
        fby__slab_free(a, &s);
        fby__account_charge(a, 16 * MIB); /* idle slabs give way to it */
        assert_int_equal(charged(a), 16 * MIB);
        fby__account_discharge(a, 16 * MIB);
    }
    fby__account_unref(a);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

/* Half a block takes the place of a whole one rather than unmapping it: as far as the slack reaches, and up to four times the size. */
static void a_much_larger_idle_slab_is_taken_whole_within_the_slack(void **state)
{
    (void)state;
    fby__slab s, other;
    for (int i = 0; i < 3; i++) {
        fby__account *a = open_account(64 * MIB);
        fby__account_set_slack(a, (i == 1 ? 3 : 32) * MIB); /* second: too little slack; third: too large a slab */
        const size_t whole = (i == 2 ? 20 : 8) * MIB, half = 4 * MIB;
        assert_true(take(a, whole, &s));
        fby__slab_free(a, &s);
        assert_true(take(a, half, &s));
        assert_int_equal(s.bytes, i == 0 ? whole : half);
        assert_int_equal(charged(a), i == 0 ? whole : whole + half);
        assert_true(take(a, whole, &other)); /* the idle one, but for the first time */
        assert_int_equal(charged(a), i == 0 ? 2 * whole : whole + half);
        fby__slab_free(a, &s);
        fby__slab_free(a, &other);
        fby__account_unref(a);
    }
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void memory_that_was_charged_before_is_not_charged_twice(void **state)
{
    (void)state;
    fby__account *a = open_account(8 * MIB);
    fby__slab s = {0};
    fby__account_charge(a, 4 * MIB);
    fby__alloc_fail_at(1);
    assert_int_equal(fby__slab_alloc_charged(a, 4 * MIB, 4 * MIB, &s, NULL), FBY_E_NOMEM);
    assert_int_equal(charged(a), 4 * MIB);
    assert_int_equal(fby__slab_alloc_charged(a, 4 * MIB, 4 * MIB, &s, NULL), FBY_OK);
    fby__account_stats stats;
    fby__account_stats_of(a, &stats);
    assert_int_equal(stats.charged_bytes, 4 * MIB);
    assert_int_equal(stats.peak_bytes, 4 * MIB);
    fby__slab_free(a, &s);
    fby__account_unref(a);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void a_slab_that_is_only_reserved_is_charged_and_can_be_given_back(void **state)
{
    (void)state;
    fby__account *a = open_account(8 * MIB);
    fby__slab s;
    assert_true(fby__slab_reserve(a, 4 * MIB, &s));
    assert_null(s.data);
    assert_int_equal(charged(a), 4 * MIB);
    fby__slab_free(a, &s);
    assert_int_equal(s.bytes, 0);
    assert_int_equal(charged(a), 0);
    assert_true(take(a, 5 * MIB, &s));
    s.data[5 * MIB - 1] = 1;
    fby__slab_free(a, &s);
    assert_true(fby__slab_reserve(a, 4 * MIB, &s)); /* the idle one, which is still to be cut */
    assert_int_equal(charged(a), 4 * MIB);
    fby__slab_free(a, &s); /* whole again, and idle */
    assert_int_equal(charged(a), 5 * MIB);
    assert_true(fby__slab_reserve(a, 4 * MIB, &s));
    fby__account_charge(a, 4 * MIB); /* no room for the tail any more */
    fby__slab_free(a, &s);
    assert_int_equal(charged(a), 4 * MIB);
    fby__account_discharge(a, 4 * MIB);
    fby__account_unref(a);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void a_pool_is_filled_as_far_as_it_has_room(void **state)
{
    (void)state;
    fby__slab s, other;
    for (size_t bytes = 64u << 10; bytes <= 4 * MIB; bytes *= 64) {
        fby__account *a = open_account(64 * MIB);
        assert_int_equal(fby__account_pool(a, bytes, 5, NULL), FBY_OK);
        fby__alloc_fail_at(1);
        assert_int_equal(fby__pool_fill(a, 2, NULL), FBY_E_NOMEM);
        fby__alloc_fail_at(0);
        assert_int_equal(fby__pool_fill(a, 2, NULL), FBY_OK);
        assert_true(fby__pool_spares(a) >= 2);
        assert_int_equal(fby__pool_slab_get(a, &s, NULL), FBY_OK);
        assert_int_equal(fby__pool_slab_get(a, &other, NULL), FBY_OK);
        assert_int_equal(fby__pool_fill(a, 100, NULL), FBY_OK);
        assert_int_equal(fby__pool_spares(a), 3);
        fby__pool_slab_drop(a, &s);
        fby__pool_slab_drop(a, &other);
        assert_int_equal(fby__pool_spares(a), 5);
        fby__account_unref(a);
    }
}

typedef struct lent {
    fby__spares *from;
    fby__slab slab;
} lent;

static void *give_back(void *user)
{
    lent *l = user;
    fby__spares_give(l->from, &l->slab);
    return NULL;
}

static void give_back_elsewhere(fby__spares *s, const fby__slab *slab)
{
    pthread_t thread;
    lent l = {.from = s, .slab = *slab};
    assert_int_equal(pthread_create(&thread, NULL, give_back, &l), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static bool some_room(void *account, size_t bytes) { return fby__account_try_charge(account, bytes); }

static bool no_room(void *account, size_t bytes)
{
    (void)account, (void)bytes;
    return false;
}

static void a_thread_is_lent_the_spare_it_gave_back(void **state)
{
    (void)state;
    fby__account *a = open_account(64 * MIB);
    fby__spares s;
    assert_int_equal(fby__spares_open(&s, a, MIB, 3, NULL), FBY_OK);
    assert_int_equal(charged(a), 3 * MIB);
    fby__slab slab[3] = {0}, large = {0};
    for (int i = 0; i < 3; i++)
        assert_int_equal(fby__spares_get(&s, MIB, NULL, NULL, &slab[i], NULL), FBY__GRANTED);
    const uint8_t *own = slab[1].data, *newest = slab[2].data, *oldest = slab[0].data;
    give_back_elsewhere(&s, &slab[0]);
    fby__spares_give(&s, &slab[1]);
    give_back_elsewhere(&s, &slab[2]);
    memset(slab, 0, sizeof slab);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fby__spares_get(&s, MIB, NULL, NULL, &slab[i], NULL), FBY__GRANTED);
        assert_ptr_equal(slab[i].data, i == 0 ? own : i == 1 ? newest : oldest);
    }
    fby__spares_give(&s, &slab[0]);
    fby__spares_give(&s, &slab[1]);
    fby__spares_give(&s, &slab[2]);

    /* One that is large enough comes before one's own: that would have to grow. */
    assert_int_equal(fby__spares_get(&s, 2 * MIB, no_room, a, &large, NULL), FBY__NO_ROOM);
    assert_int_equal(fby__spares_get(&s, 2 * MIB, some_room, a, &large, NULL), FBY__GRANTED);
    assert_int_equal(charged(a), 4 * MIB);
    const uint8_t *grown = large.data;
    give_back_elsewhere(&s, &large);
    large = (fby__slab){0};
    assert_int_equal(fby__spares_get(&s, 2 * MIB, no_room, a, &large, NULL), FBY__GRANTED);
    assert_ptr_equal(large.data, grown);
    fby__spares_give(&s, &large);
    assert_true(fby__spares_shrink(&s));
    fby__spares_close(&s);
    fby__account_unref(a);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void *churn(void *user)
{
    fby__account *a = user;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < 2000; i++) {
        fby__slab s = {0};
        size_t n = (size_t)(rand_r(&seed) % (3 * MIB)) + 1;
        if (!take(a, n, &s))
            continue;
        s.data[0] = s.data[n - 1] = 1;
        fby__slab_free(a, &s);
    }
    return NULL;
}

static void *churn_values(void *user)
{
    fby__account *a = user;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < 2000; i++) {
        fby__slab s = {0};
        size_t n = (size_t)(rand_r(&seed) % (2 * MIB)) + 1;
        const fby__grant grant = fby__values_slab_get(a, n, i % 5 == 0, &s, NULL);
        assert_int_not_equal(grant, FBY__GRANT_FAILED);
        if (grant == FBY__NO_ROOM)
            continue;
        assert_true(s.bytes >= n);
        s.data[0] = s.data[n - 1] = 1;
        if (i % 3 == 0) {
            fby__values_slab_drop(a, &s);
            continue;
        }
        fby__values_slab_hand_out(a, &s);
        assert_int_equal(s.data[0], 1);
        fby__values_slab_return(a, &s);
    }
    return NULL;
}

static void threads_share_the_room_for_values(void **state)
{
    (void)state;
    fby__account *a = open_account(8 * MIB);
    fby__account_values(a, 6 * MIB);
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&t[i], NULL, churn_values, a), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    fby__account_stats s;
    fby__account_stats_of(a, &s);
    assert_int_equal(s.out_bytes, 0);
    assert_int_equal(s.forced_bytes, 0);
    assert_int_equal(s.charged_bytes - s.idle_bytes, 6 * MIB); /* nothing in use: the room alone, and what is idle */
    fby__account_unref(a);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void threads_never_charge_beyond_the_limit(void **state)
{
    (void)state;
    fby__account *a = open_account(8 * MIB);
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&t[i], NULL, churn, a), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    fby__account_stats s;
    fby__account_stats_of(a, &s);
    assert_true(s.peak_bytes <= 8 * MIB);
    assert_int_equal(s.forced_bytes, 0);
    assert_int_equal(s.out_bytes, 0);
    assert_int_equal(s.charged_bytes, s.idle_bytes);
    fby__account_unref(a);
}

static void what_accounts_may_still_take_is_promised_until_they_retire(void **state)
{
    (void)state;
    fby__account *a = open_account(8 * MIB), *b = open_account(4 * MIB);
    assert_int_equal(fby__ledger_promised_bytes(), 0);
    fby__account_promise(a, 100 * MIB);
    fby__account_promise(b, 1 * MIB);
    assert_int_equal(fby__ledger_promised_bytes(), 9 * MIB);
    fby__account_charge(a, 3 * MIB);
    assert_int_equal(fby__ledger_promised_bytes(), 6 * MIB);
    fby__account_discharge(a, 3 * MIB);
    fby__account_retire(a);
    assert_int_equal(fby__ledger_promised_bytes(), 1 * MIB);
    fby__account_unref(a);
    fby__account_unref(b);
    assert_int_equal(fby__ledger_promised_bytes(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_classes_waste_at_most_an_eighth),
        cmocka_unit_test(a_slab_beyond_the_limit_is_refused_and_nothing_is_charged),
        cmocka_unit_test(freed_slabs_are_taken_again_and_give_way_when_room_is_needed),
        cmocka_unit_test(memory_that_two_accounts_hold_is_charged_to_both_and_goes_with_the_last),
        cmocka_unit_test(a_slab_handed_out_leaves_the_budget_and_outlives_the_account_s_owner),
        cmocka_unit_test(big_slabs_are_aligned_for_huge_pages_and_small_ones_for_pages),
        cmocka_unit_test(a_failing_allocation_is_reported_and_not_charged),
        cmocka_unit_test(an_idle_slab_that_is_too_large_is_cut_once_the_slack_is_used_up),
        cmocka_unit_test(a_much_larger_idle_slab_is_taken_whole_within_the_slack),
        cmocka_unit_test(memory_that_was_charged_before_is_not_charged_twice),
        cmocka_unit_test(a_slab_that_is_only_reserved_is_charged_and_can_be_given_back),
        cmocka_unit_test(a_pool_is_filled_as_far_as_it_has_room),
        cmocka_unit_test(a_thread_is_lent_the_spare_it_gave_back),
        cmocka_unit_test(values_of_batches_stay_mapped_in_the_room_set_aside),
        cmocka_unit_test(values_of_exactly_their_classes_fit_as_far_as_the_limit),
        cmocka_unit_test(threads_share_the_room_for_values),
        cmocka_unit_test(threads_never_charge_beyond_the_limit),
        cmocka_unit_test(what_accounts_may_still_take_is_promised_until_they_retire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
