/*
 * What threads allocate (base/alloc.h), in an account: asked of it in steps, and refused when it has no room.
 *
 *     allowance   a thread's, for as long as its owner says
 *     scope       a call's: what the calling thread allocates between begin and end, in an account of its own. What it calls finds that
 *                 account (fby__account_of_thread) and gives it to its threads.
 */
#ifndef FBY_BUDGET_ALLOWANCE_H
#define FBY_BUDGET_ALLOWANCE_H

#include "base/alloc.h"
#include "budget/budget.h"

typedef struct fby__account_allowance {
    fby__allowance allowance;
    fby__account *account; /* borrowed */
    size_t step_bytes;     /* asked for at once, while there is room */
    size_t charged_bytes;  /* of the account: of what was allocated, and of what is left */
    size_t lacked_bytes;   /* the account said no: what there was no room for; 0 = it never did */
    struct {
        uint64_t own, all;
    } at_lack; /* what this allowance and the whole account had charged then: by the time of the message much of it is freed */
} fby__account_allowance;

void fby__account_allowance_init(fby__account_allowance *a, fby__account *account, size_t step_bytes);
/** Its `more`, for those who look further. */
bool fby__account_allowance_more(fby__allowance *allowance, size_t bytes);
/** Give back what is left. What was allocated stays charged. */
void fby__account_allowance_shrink(fby__account_allowance *a);

typedef struct fby__account_scope {
    fby__account_allowance own;
    fby__allowance *before;
    double done; /* the owner's: how much of the work is done, of 1; so much memory is then expected of the rest. 0 = not known */
} fby__account_scope;

/** @account  moved in: retired and let go when the scope ends. */
void fby__account_scope_begin(fby__account_scope *scope, fby__account *account);
/** Returns `status`; FBY_E_BUDGET where it is FBY_E_NOMEM since the account had no room: `what` needs more. Then scope->own.account is gone. */
fby_status fby__account_scope_end(fby__account_scope *scope, fby_status status, const char *what, fby_error *err);
/** The account of the innermost scope or allowance of this thread; NULL = none. Borrowed. */
fby__account *fby__account_of_thread(void);

/** The budget to name where so many bytes are needed at least: a little more, for what comes after. */
uint64_t fby__account_enough(uint64_t least_bytes);
/**
 * Whoever gives a reader or a loader a part of some memory: what a message names as enough is then what `enough` makes of the bytes that would do for
 * reading, and of about how many a row, or a sample, has. Called on any thread that reads.
 */
typedef struct fby__memory_giver {
    uint64_t (*enough)(const void *user, uint64_t bytes, double row_bytes); /* NULL = nobody: the memory is the reader's own */
    const void *user;
} fby__memory_giver;
static inline uint64_t fby__memory_enough(fby__memory_giver giver, uint64_t bytes, double row_bytes)
{
    return giver.enough ? giver.enough(giver.user, bytes, row_bytes) : bytes;
}
/** FBY_E_BUDGET: `what`, for which the account lacks so many bytes. With its limit, and the one that would do. */
fby_status fby__account_refuse(fby__account *account, const char *what, uint64_t bytes, fby_error *err);

#endif
