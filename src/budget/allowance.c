/* What threads allocate, in an account. See allowance.h. */
#include "budget/allowance.h"

#include "base/checked.h"

#define STEP_BYTES ((size_t)64 << 10)     /* of a scope */
#define BESIDES_BYTES ((size_t)256 << 10) /* for what comes after the allocation that failed */
#define MIB(x) ((double)(x) / (1u << 20))

static fby__account_allowance *of(fby__allowance *allowance)
{
    return (fby__account_allowance *)(void *)((char *)allowance - offsetof(fby__account_allowance, allowance));
}

bool fby__account_allowance_more(fby__allowance *allowance, size_t bytes)
{
    fby__account_allowance *a = of(allowance);
    const size_t lacks = bytes - allowance->left, step = lacks > a->step_bytes ? lacks : a->step_bytes;
    const size_t got = fby__account_try_charge(a->account, step) ? step : fby__account_try_charge(a->account, lacks) ? lacks : 0;
    a->charged_bytes += got;
    allowance->left += got;
    if (!got) {
        fby__account_stats now;
        fby__account_stats_of(a->account, &now);
        a->lacked_bytes = lacks;
        a->at_lack.own = a->charged_bytes;
        a->at_lack.all = now.charged_bytes;
    }
    return got > 0;
}

void fby__account_allowance_init(fby__account_allowance *a, fby__account *account, size_t step_bytes)
{
    *a = (fby__account_allowance){.allowance.more = fby__account_allowance_more, .account = account, .step_bytes = step_bytes};
}

void fby__account_allowance_shrink(fby__account_allowance *a)
{
    /* What others allocated and this thread freed is left as well. */
    const size_t bytes = fby__min_u64(a->allowance.left, a->charged_bytes);
    fby__account_discharge(a->account, bytes);
    a->charged_bytes -= bytes;
    a->allowance.left = 0;
}

void fby__account_scope_begin(fby__account_scope *scope, fby__account *account)
{
    fby__account_allowance_init(&scope->own, account, STEP_BYTES);
    scope->done = 0;
    scope->before = fby__alloc_within(&scope->own.allowance);
}

/* What all of the work lacks beside what is charged now, if the rest of it takes as much as what is done. */
static uint64_t lacking(const fby__account_scope *scope)
{
    const fby__account_allowance *a = &scope->own;
    fby__account_stats now;
    fby__account_stats_of(a->account, &now);
    const double rest = scope->done > 0 ? (double)(a->at_lack.own + a->lacked_bytes) * (1 / scope->done - 1) : 0;
    const uint64_t freed = a->at_lack.all - fby__min_u64(a->at_lack.all, now.charged_bytes);
    return freed + a->lacked_bytes + (rest > 0 && rest < 1e18 ? (uint64_t)rest : 0);
}

fby_status fby__account_scope_end(fby__account_scope *scope, fby_status status, const char *what, fby_error *err)
{
    (void)fby__alloc_within(scope->before);
    fby__account_allowance_shrink(&scope->own);
    if (status == FBY_E_NOMEM && scope->own.lacked_bytes)
        status = fby__account_refuse(scope->own.account, what, lacking(scope), err);
    fby__account_retire(scope->own.account);
    fby__account_unref(scope->own.account);
    return status;
}

fby__account *fby__account_of_thread(void)
{
    fby__allowance *now = fby__alloc_within(NULL);
    (void)fby__alloc_within(now);
    return now && now->more == fby__account_allowance_more ? of(now)->account : NULL;
}

uint64_t fby__account_enough(uint64_t least) { return least + least / 32 + BESIDES_BYTES; }

fby_status fby__account_refuse(fby__account *account, const char *what, uint64_t bytes, fby_error *err)
{
    fby__account_stats now;
    fby__account_stats_of(account, &now);
    const uint64_t least = fby__max_u64(now.charged_bytes + bytes, now.limit_bytes);
    const uint64_t would_do = fby__account_enough(least);
    return fby__fail(err, FBY_E_BUDGET, "%s does not fit the memory budget of %llu bytes (%.1f MiB): raise memory to %llu bytes (%.1f MiB)",
                     what, (unsigned long long)now.limit_bytes, MIB(now.limit_bytes), (unsigned long long)would_do, MIB(would_do));
}
