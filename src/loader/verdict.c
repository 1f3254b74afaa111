/*
 * What limits, how sure that is, and the words for it. What would help is in cures.c.
 *
 * Warm-up is apart: the wait for an epoch's first batch is a latency, and a program's first step compiles and allocates. What is left is
 * the steady state; with too few batches or too little time of it nothing is said.
 */
#include "loader/verdict.h"

#include "base/checked.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LEAST_BATCHES 8
#define LEAST_SECONDS 0.05 /* of the steady state */
#define KEEPS_UP 0.05      /* waits less: what the consumer does is the limit */
#define WAITS 0.3          /* waits more: the loader is */
#define RESTS 0.3          /* of the time at most: what is no busier holds nobody up, whoever waits */
#define FIRSTS 0.2         /* of the time: first batches are the limit */
#define BUSY 0.7           /* of the time: as good as always, with the bursts that there are */
#define IDLE 0.8           /* waits more: it does next to nothing, */
#define BUSIEST 0.4 /* and what is so busy limits, though other programs may have had the CPUs or batches come too fast to be handed over */
#define HELD_UP 0.1 /* of the time without room in the budget */
#define FULL 0.85   /* of the CPUs: no more threads would run at once */

const char *fby_limit_name(fby_limit limit)
{
    static const char *const NAMES[] = {
#define NAME(name, text) text,
        FBY_LIMIT_LIST(NAME)
#undef NAME
    };
    return (unsigned)limit < FBY_LIMIT_COUNT ? NAMES[limit] : "?";
}

/* ---- shares ---- */

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }
static double share(uint64_t a, double b) { return fmin(1, ratio((double)a, b)); }
static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static void usage_of(const fby_report *r, fby__usage *u)
{
    const uint64_t wait = less(r->wait_ns, r->first_batches_ns), work = less(r->work_ns, r->first_step_ns);
    const double steady = (double)(wait + work + r->transfer_ns), all = steady + (double)r->first_batches_ns;
    const double threads = fmax(1, r->n_threads), cpus = fmax(1, r->n_cpus);
    const uint64_t stages = r->decompress_ns + r->decode_ns + r->assemble_ns;
    /* What is in the page cache is read by the workers themselves; and where others use the CPUs too, stages take longer than their CPU time. */
    const uint64_t read = fby__min_u64(less(r->worker_cpu_ns, stages), r->read_ns), busy = fby__max_u64(r->worker_cpu_ns, stages);
    *u = (fby__usage){.batches = less(r->batches, r->epochs_begun),
                      .seconds = 1e-9 * steady,
                      .wait = share(wait, steady),
                      .work = share(work, steady),
                      .transfer = share(r->transfer_ns, steady),
                      .next = fmin(share(r->consumer_cpu_ns, all), share(wait, steady)),
                      .first = share(r->first_batches_ns, all),
                      .transform = share(r->transform_ns, all),
                      .workers = share(busy, threads * all),
                      .storage = share(r->reading_ns, all),
                      .memory = share(r->memory_wait_ns, all),
                      .cpus = share(r->process_cpu_ns, cpus * all)};
    u->samples = (uint64_t)(ratio((double)r->samples, (double)r->batches) * (double)u->batches);
    /* What has no clock of its own: to find where a block's chunks and pages lie and to plan their reads, which is part of decoding it. */
    const uint64_t rest = less(busy - stages - read, r->transform_ns); /* one in C runs on a worker */
    const double part = ratio(u->workers, (double)busy);
    u->read = part * (double)read;
    u->decompress = part * (double)r->decompress_ns;
    u->decode = part * (double)(r->decode_ns + (r->blocks_read ? rest : 0));
    u->assemble = part * (double)(r->assemble_ns + (r->blocks_read ? 0 : rest));
}

/* ---- the rule ---- */

/* How far a share is beyond a border, of the way to the end. */
static double beyond(double value, double border, double end) { return fmin(1, fmax(0, (value - border) / (end - border))); }

static bool is_too_early(const fby__usage *u) { return u->batches < LEAST_BATCHES || u->seconds < LEAST_SECONDS; }

static double busiest_of_loader(const fby__usage *u) { return fmax(u->transform, fmax(u->workers, u->storage)); }

/* Something of the loader's is always at work: first batches then come late for the same reason as all others. */
static bool is_saturated(const fby__usage *u) { return busiest_of_loader(u) > BUSY; }

/* Epochs are short: more of the waiting is for their first batches than for all others. */
static bool waits_for_first_batches(const fby_report *r, const fby__usage *u)
{
    return r->epochs_begun > 1 && u->first > FIRSTS && u->first > u->wait * (1 - u->first) && !is_saturated(u);
}

/* There were times without room for more blocks, as many as the consumer then waited. */
static bool is_held_up(const fby__usage *u) { return !is_saturated(u) && u->memory > HELD_UP && u->memory > u->wait / 2; }

static bool has_spare_cpus(const fby_report *r, const fby__usage *u) { return r->n_threads < r->n_cpus && u->cpus < FULL; }

typedef struct stage {
    fby_limit limit;
    double share;
    const char *text;
} stage;

static stage largest_stage(const fby__usage *u)
{
    const stage stages[] = {{FBY_LIMIT_DECODE, u->decode, "decoding"},
                            {FBY_LIMIT_DECOMPRESS, u->decompress, "decompressing"},
                            {FBY_LIMIT_ASSEMBLE, u->assemble, "assembling batches"},
                            {FBY_LIMIT_STORAGE, u->read, "copying what is read"}};
    stage most = stages[0];
    for (size_t i = 1; i < sizeof stages / sizeof *stages; i++)
        most = stages[i].share > most.share ? stages[i] : most;
    return most;
}

/* The consumer waits, and something of the loader's is always busy; or nothing stands out. */
static fby_limit limit_of_loader(const fby_report *r, const fby__usage *u, double *clear)
{
    const stage most = largest_stage(u);
    const double busy = u->wait > IDLE ? BUSIEST : BUSY;
    if (u->workers > busy && u->workers > u->storage - 0.1) {
        *clear = beyond(u->workers, BUSY, 0.9);
        if (has_spare_cpus(r, u))
            return FBY_LIMIT_THREADS;
        *clear *= beyond(ratio(most.share, u->workers), 0.25, 0.6);
        return most.limit;
    }
    if (u->storage > busy) {
        *clear = beyond(u->storage, BUSY, 0.9);
        return FBY_LIMIT_STORAGE;
    }
    *clear = 0;
    return FBY_LIMIT_BALANCED;
}

/* The share of time spent waiting: of all time where first batches come late for the same reason as all others, else of the steady state. */
static double waiting(const fby_report *r, const fby__usage *u)
{
    return r->epochs_begun > 1 && is_saturated(u) ? u->first + (1 - u->first) * u->wait : u->wait;
}

/* What limits, and how clearly, 0 to 1. */
static fby_limit limit_of(const fby_report *r, const fby__usage *u, double *clear)
{
    *clear = 0;
    if (is_too_early(u))
        return FBY_LIMIT_TOO_EARLY;
    if (waits_for_first_batches(r, u)) {
        *clear = beyond(u->first, FIRSTS, 0.6);
        return FBY_LIMIT_FIRST_BATCH;
    }
    const fby_limit consumer = u->transfer > u->work ? FBY_LIMIT_TRANSFER : FBY_LIMIT_MODEL;
    if (waiting(r, u) < KEEPS_UP) {
        *clear = beyond(KEEPS_UP - u->wait, 0, KEEPS_UP) * beyond(fmax(u->work, u->transfer), 0.4, 0.7);
        return consumer;
    }
    if (u->transform > BUSY) {
        *clear = beyond(u->transform, BUSY, 0.9);
        return FBY_LIMIT_TRANSFORM;
    }
    if (is_held_up(u) && u->wait > 2 * KEEPS_UP) {
        *clear = beyond(u->memory, HELD_UP, 0.4) * beyond(u->wait, KEEPS_UP, WAITS);
        return FBY_LIMIT_MEMORY;
    }
    if (waiting(r, u) < WAITS) {
        if (busiest_of_loader(u) < RESTS && u->next < u->wait / 2) /* else it is handing over that takes the time */
            return consumer;
        *clear = 1 - fabs(u->wait - (KEEPS_UP + WAITS) / 2) / ((WAITS - KEEPS_UP) / 2);
        return FBY_LIMIT_BALANCED;
    }
    return limit_of_loader(r, u, clear);
}

/* ---- the words ---- */

static double percent(double value) { return 100 * value; }

int fby__decimals(double figure) { return figure >= 9.95 ? 0 : figure >= 0.995 ? 1 : figure >= 0.0995 ? 2 : 3; }

#define SAY(...) ((void)snprintf(r->verdict, sizeof r->verdict, __VA_ARGS__)) /* cut where it is too long */

static void say_too_early(fby_report *r, const fby__usage *u)
{
    if (r->batches)
        SAY("Too early to say what limits: %llu batches and %.2f s since the first, for which it waited %.1f ms. It takes %d batches and "
            "%.2f s at "
            "least.",
            (unsigned long long)u->batches, u->seconds, 1e-6 * ratio((double)r->first_batches_ns, (double)r->epochs_begun), LEAST_BATCHES,
            LEAST_SECONDS);
    else
        SAY("No batch was delivered yet.");
}

static void say(fby_report *r, const fby__usage *u)
{
    const double waited = percent(waiting(r, u));
    const stage most = largest_stage(u);
    switch (r->limit) {
    case FBY_LIMIT_TOO_EARLY: say_too_early(r, u); break;
    case FBY_LIMIT_FIRST_BATCH:
        SAY("The loader keeps up but for the beginning of an epoch: %.0f %% of the time went to first batches, %.1f ms each, and %.0f %% "
            "of the rest to waiting.",
            percent(u->first), 1e-6 * ratio((double)r->first_batches_ns, (double)r->epochs_begun), waited);
        break;
    case FBY_LIMIT_MODEL:
        if (waiting(r, u) >= KEEPS_UP)
            SAY("The program is the limit: the loader has little to do, its workers were %.0f %% busy. Still the consumer waited %.0f %% "
                "of the time: steps are uneven, or other programs have the CPUs. A larger prefetch evens that out.",
                percent(u->workers), waited);
        else
            SAY("The loader keeps up: the consumer waited %.1f %% of the time. What it does with the batches is the limit.", waited);
        break;
    case FBY_LIMIT_TRANSFER:
        SAY("Moving batches to the device is the limit: it takes %.0f %% of the consumer's time, its work %.0f %%, and it waited %.1f %%.",
            percent(u->transfer), percent(u->work), waited);
        break;
    case FBY_LIMIT_TRANSFORM:
        SAY("The transform is the limit: it runs one batch after the other, %.0f %% of the time, and the consumer waited %.0f %%. Do part "
            "of it as operations of outputs, which run in parallel, or make it faster.",
            percent(u->transform), waited);
        break;
    case FBY_LIMIT_THREADS:
        SAY("The threads are the limit: the consumer waited %.0f %% of the time while %u %s %.0f %% busy, most of it %s, and the process "
            "may use %u CPUs.",
            waited, r->n_threads, r->n_threads == 1 ? "worker was" : "workers were", percent(u->workers), most.text, r->n_cpus);
        break;
    case FBY_LIMIT_STORAGE:
        if (u->workers > BUSY)
            SAY("Copying what is read is the limit: the consumer waited %.0f %% of the time while %u workers were %.0f %% busy, most of "
                "it with that.",
                waited, r->n_threads, percent(u->workers));
        else
            SAY("Storage is the limit: the consumer waited %.0f %% of the time, something was being read %.0f %% of it, and the workers "
                "were %.0f %% busy.",
                waited, percent(u->storage), percent(u->workers));
        break;
    case FBY_LIMIT_MEMORY:
        SAY("The budget is the limit: the consumer waited %.0f %% of the time, and %.0f %% of it nothing could be loaded, because there "
            "was no room for more blocks before others were used up.",
            waited, percent(u->memory));
        break;
    case FBY_LIMIT_BALANCED:
        if (waiting(r, u) < WAITS)
            SAY("Loader and consumer are about equally fast: the consumer waited %.0f %% of the time. Most of what the loader does is %s.",
                waited, u->storage > u->workers ? "reading" : most.text);
        else
            SAY("Nothing stands out: the consumer waited %.0f %% of the time with workers %.0f %% busy. It takes batches as fast as they "
                "are handed over; larger ones would cost less.",
                waited, percent(u->workers));
        break;
    case FBY_LIMIT_DECOMPRESS:
    case FBY_LIMIT_DECODE:
    case FBY_LIMIT_ASSEMBLE:
    default:
        SAY("The CPUs are the limit: the consumer waited %.0f %% of the time while %u workers were %.0f %% busy, most of it (%.0f %%) %s.",
            waited, r->n_threads, percent(u->workers), percent(ratio(most.share, u->workers)), most.text);
    }
}

/* What was busy, the busiest first. */
static void give_reason(fby_report *r, const fby__usage *u)
{
    stage things[] = {{0, u->work, "the program"},    {0, u->transfer, "transfer"},   {0, u->transform, "the transform"},
                      {0, u->workers, "the workers"}, {0, u->storage, "the storage"}, {0, u->memory, "held up by the budget"}};
    size_t n = 0;
    for (size_t i = 1; i < sizeof things / sizeof *things; i++)
        for (size_t k = i; k > 0 && things[k].share > things[k - 1].share; k--) {
            const stage moved = things[k];
            things[k] = things[k - 1];
            things[k - 1] = moved;
        }
    n = (size_t)snprintf(r->reason, sizeof r->reason, "%llu batches in %.2f s of steady state; busy:", (unsigned long long)u->batches,
                         u->seconds);
    for (size_t i = 0; i < 3 && n < sizeof r->reason; i++)
        n += (size_t)snprintf(r->reason + n, sizeof r->reason - n, "%s %s %.0f %%", i ? "," : "", things[i].text, percent(things[i].share));
}

void fby__judge(fby_report *r)
{
    fby__usage u;
    double clear;
    usage_of(r, &u);
    r->limit = limit_of(r, &u, &clear);
    const double evidence = (double)u.batches / ((double)u.batches + 16) * (u.seconds / (u.seconds + 0.25));
    r->confidence = r->limit == FBY_LIMIT_TOO_EARLY ? 0 : evidence * (0.5 + 0.5 * clear);
    memset(r->cures, 0, sizeof r->cures);
    r->n_cures = 0;
    say(r, &u);
    give_reason(r, &u);
    if (r->limit == FBY_LIMIT_TOO_EARLY)
        return;
    fby__cures_of(r, &u);
    const size_t used = strlen(r->verdict);
    if (r->n_cures)
        (void)snprintf(r->verdict + used, sizeof r->verdict - used, " Cure: %s, %.*f times as many samples.", r->cures[0].change,
                       fby__decimals(r->cures[0].factor), r->cures[0].factor);
    else if (r->confidence < 0.3)
        (void)snprintf(r->verdict + used, sizeof r->verdict - used, " Not sure yet: %llu batches, %.2f s.", (unsigned long long)u.batches,
                       u.seconds);
}
