/*
 * What would help, and by how much.
 *
 * A cure changes shares of the time: the threads' load becomes smaller, the storage's vanishes. What is then the busiest limits, and batches
 * come as much faster as it has room. Every cure is tried against every report, so what limits next is seen too; those without a gain go.
 */
#include "loader/verdict.h"

#include "base/checked.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define LEAST_GAIN 1.1
#define GOOD 0.9            /* what is held up could be so busy */
#define FAST_CODEC 2e9      /* bytes a second that a core decompresses of LZ4, Snappy or fast Zstandard, at least */
#define FROM_MEMORY 5e9     /* bytes a second that a core gathers of blocks that are no longer in its caches, */
#define ANYWHERE 100        /* and as many bytes more takes each sample, which it has to wait for */
#define LITTLE_PADDING 0.05 /* what length buckets leave */
#define FILL 0.06           /* of what gathering a row costs, filling one up */
#define ROOM 0.9            /* of the memory that was available */
#define LONGER 4            /* epochs, so many times */

static double of_consumer(const fby__usage *u) { return u->work + u->transfer + u->next; }

/* The share of what is busiest. */
static double busiest(const fby__usage *u) { return fmax(fmax(fmax(of_consumer(u), u->transform), fmax(u->workers, u->storage)), u->cpus); }

/* So many times as fast when `now` becomes `then`, whose busiest is then as busy as that of now; more, where it was held up. */
static double gain(const fby_report *r, const fby__usage *now, const fby__usage *then)
{
    const double busy = busiest(now);
    return (r->limit == FBY_LIMIT_MEMORY ? fmax(busy, GOOD) : busy) / fmax(busiest(then), 1e-3);
}

static void propose(fby_report *r, const fby__usage *u, double factor, const char *why, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Those with the larger gain come first; of equal ones, the first that was proposed. */
static void propose(fby_report *r, const fby__usage *u, double factor, const char *why, const char *format, ...)
{
    uint32_t i = r->n_cures;
    if (factor < LEAST_GAIN)
        return;
    while (i > 0 && r->cures[i - 1].factor < factor)
        i--;
    if (i == FBY_CURES_MAX)
        return;
    if (r->n_cures < FBY_CURES_MAX)
        r->n_cures++;
    for (uint32_t k = r->n_cures - 1; k > i; k--)
        r->cures[k] = r->cures[k - 1];
    fby_cure *cure = &r->cures[i];
    *cure = (fby_cure){.factor = factor, .samples_per_second = u->seconds > 0 ? factor * (double)u->samples / u->seconds : 0};
    (void)snprintf(cure->why, sizeof cure->why, "%s", why);
    va_list values;
    va_start(values, format);
    (void)vsnprintf(cure->change, sizeof cure->change, format, values);
    va_end(values);
}

/* A size as options take it, rounded up. */
static void size_text(uint64_t bytes, char text[24])
{
    const bool large = bytes >= 1u << 30;
    const double unit = large ? 1 << 30 : 1 << 20;
    (void)snprintf(text, 24, "%.*f%s", large ? 1 : 0, large ? ceil((double)bytes / unit * 10) / 10 : ceil((double)bytes / unit),
                   large ? "GiB" : "MiB");
}

static bool has_memory(const fby_report *r, uint64_t bytes)
{
    return bytes > r->budget_bytes && (double)bytes <= ROOM * (double)r->memory_available_bytes;
}

/* The share of the threads' time in which they do something to `bytes` at `rate` bytes a second each. */
static double share_at(const fby_report *r, const fby__usage *u, uint64_t bytes, double rate)
{
    const double all = u->seconds / fmax(1e-9, 1 - u->first);
    return (double)bytes / rate / (fmax(1, r->n_threads) * fmax(all, 1e-9));
}

/* ---- the cures ---- */

static void keep_all(fby_report *r, const fby__usage *u)
{
    char size[24];
    fby__usage then = *u;
    if (!r->keep_all_bytes || !r->blocks_read || !has_memory(r, r->keep_all_bytes))
        return;
    /* A block that was just decoded is gathered from the caches; one of many that stay, from memory. */
    then.workers = fmin(u->workers, fmax(u->assemble, share_at(r, u, r->bytes_delivered + ANYWHERE * r->samples, FROM_MEMORY)));
    then.cpus -= fmin(then.cpus, (u->workers - then.workers) * fmax(1, r->n_threads) / fmax(1, r->n_cpus));
    then.storage = 0;
    size_text(r->keep_all_bytes, size);
    const double first = r->limit == FBY_LIMIT_FIRST_BATCH ? 1 / (1 - u->first) : 0;
    propose(r, u, fmax(first, gain(r, u, &then)),
            "All blocks then stay decoded: from the second epoch on nothing is read or decoded any more.", "memory=%s", size);
}

static void overlap(fby_report *r, const fby__usage *u)
{
    char size[24];
    if (r->limit != FBY_LIMIT_MEMORY || r->overlap_bytes <= r->budget_bytes)
        return;
    if (has_memory(r, r->overlap_bytes)) {
        size_text(r->overlap_bytes, size);
        propose(r, u, gain(r, u, u), "The next superbatch is then loaded while this one is used up.", "memory=%s", size);
    }
    const double less = (double)r->budget_bytes / (double)r->overlap_bytes;
    propose(r, u, gain(r, u, u),
            "Two of them then fit into the budget: the next is loaded while this one is used up. Fewer samples are mixed.",
            "superbatch=%.0f", floor(less * (double)r->superbatch_samples));
}

static void more_threads(fby_report *r, const fby__usage *u)
{
    fby__usage then = *u;
    if (r->n_threads >= r->n_cpus || r->limit == FBY_LIMIT_MEMORY)
        return;
    then.workers *= fmax(1, r->n_threads) / (double)r->n_cpus;
    propose(r, u, gain(r, u, &then), "The process may use more CPUs than it has threads, and those are busy.", "threads=%u", r->n_cpus);
}

static void faster_codec(fby_report *r, const fby__usage *u)
{
    fby__usage then = *u;
    const double saved = u->decompress - fmin(u->decompress, share_at(r, u, r->bytes_decompressed, FAST_CODEC));
    if (saved < 0.1)
        return;
    then.workers -= saved;
    then.cpus -= fmin(then.cpus, saved * fmax(1, r->n_threads) / fmax(1, r->n_cpus));
    propose(r, u, gain(r, u, &then),
            "Decompressing is most of the work. Files written with LZ4 take more room, and are read faster. Where windows have series, add "
            "--by with their column.",
            "forebay pack PATH --to DIR --shuffle none --codec lz4");
}

static void length_buckets(fby_report *r, const fby__usage *u)
{
    fby__usage then = *u;
    if (!r->n_padded || r->padding <= LITTLE_PADDING || r->padding < r->padding_unsorted - LITTLE_PADDING) /* it has buckets */
        return;
    const double real = 1 - r->padding, saved = u->assemble * (1 - real * (1 + LITTLE_PADDING) / (real + FILL * r->padding));
    if (saved < 0.1)
        return;
    then.workers -= saved;
    then.cpus -= fmin(then.cpus, saved * fmax(1, r->n_threads) / fmax(1, r->n_cpus));
    propose(r, u, gain(r, u, &then), "Samples of about one length then make a batch, and little of it is padding.", "bucket_samples=%llu",
            (unsigned long long)(r->batches ? 50 * (r->samples / r->batches) : 0));
}

static void faster_transform(fby_report *r, const fby__usage *u)
{
    fby__usage then = *u;
    then.transform = 0;
    const double factor = gain(r, u, &then), now = r->batches ? 1e-6 * (double)r->transform_ns / (double)r->batches : 0,
                 faster = now / fmax(factor, 1);
    if (r->limit == FBY_LIMIT_TRANSFORM)
        propose(r, u, factor, "It is then as fast as all else. What operations of outputs can do runs in parallel.",
                "a transform of %.*f ms a batch instead of %.*f", fby__decimals(faster), faster, fby__decimals(now), now);
}

static void transfer_beside(fby_report *r, const fby__usage *u)
{
    fby__usage then = *u;
    then.transform += u->transfer;
    then.transfer = 0;
    if (u->transfer > 0)
        propose(r, u, gain(r, u, &then), "A transform runs beside the program: one batch is moved while the program works on another.",
                "move batches to the device in transform=");
}

static void longer_epochs(fby_report *r, const fby__usage *u)
{
    if (r->limit == FBY_LIMIT_FIRST_BATCH)
        propose(r, u, 1 / (1 - u->first + u->first / LONGER), "There are then fewer first batches to wait for.",
                "epochs of %d times as many batches", LONGER);
}

void fby__cures_of(fby_report *r, const fby__usage *u)
{
    static void (*const CURES[])(fby_report *, const fby__usage *) = {keep_all,       overlap,          more_threads,    faster_codec,
                                                                      length_buckets, faster_transform, transfer_beside, longer_epochs};
    r->n_cures = 0;
    for (size_t i = 0; i < sizeof CURES / sizeof *CURES; i++)
        CURES[i](r, u);
}
