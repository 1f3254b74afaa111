/*
 * forebay advise: what is to be expected, from the costs of a sample. Pure functions.
 *
 * A rank delivers as fast as the slowest of its threads, its share of the storage, and the program's work. Blocks that the budget keeps
 * decoded cost neither reading nor decoding after the first epoch; reads that fit into what memory is left are answered by the page cache.
 */
#include "advise.h"

#include <math.h>
#include <string.h>

#define BUSY 0.95       /* of their time the threads work, at best */
#define MOST_MEMORY 0.7 /* of all of it, for budgets */
#define PAGE_CACHE 0.8  /* of what is left */

static double clamp(double value) { return fmin(1, fmax(0, value)); }
static double over(double a, double b) { return b > 0 ? a / b : INFINITY; }

uint64_t advise_budget(const advise_costs *c, const advise_machine *m, double times)
{
    const double most = MOST_MEMORY * (double)m->memory_bytes / fmax(1, m->ranks);
    double budget = times * (double)c->keep_all_bytes;
    if (budget > most || budget <= 0) /* what does not fit as a whole is better left to the page cache, which holds it compressed */
        budget = fmin((double)c->overlap_bytes, most);
    const double mib = 1 << 20;
    return (uint64_t)fmin(ceil(budget / mib), floor(most / mib)) << 20;
}

/*
 * The first epoch, where a sample takes so long to be read. Nothing is assembled before the first superbatch is there, and nothing is read any more
 * while the last one is assembled; what is read first is decoded after it, which shows where there are hardly more blocks than threads.
 */
static double first_seconds(const advise_costs *c, const advise_machine *m, double samples, double storage)
{
    const double threads = BUSY * m->threads, alone = fmin((double)c->superbatch_samples / fmax(1, m->ranks), samples);
    const double decode = (c->decompress_cpu + c->decode_cpu) / threads, load = c->read_cpu / threads + decode;
    const double assemble = c->assemble_cpu / threads, work = m->work_seconds / fmax(1, (double)c->batch_samples);
    return fmin(samples, m->threads * c->block_samples) * fmin(decode, storage) + alone * fmax(load, storage) +
           (samples - alone) * fmax(fmax(load + assemble, storage), work) + alone * fmax(assemble, work);
}

/* What its costs do not show, such as waiting at its beginning and its end: what the first epoch took, the rest of it added by its costs, beyond `cached`. */
static double unseen_seconds(const advise_costs *c, const advise_machine *m, double cached)
{
    const double samples = (double)c->samples, load = c->read_cpu + c->decompress_cpu + c->decode_cpu;
    const double rest = ((samples - c->run_decoded) * load + (samples - c->run_delivered) * c->assemble_cpu) / (BUSY * m->threads);
    return c->run_seconds > 0 ? (c->run_seconds + rest) / fmax(1, m->ranks) - cached : 0;
}

static void expect_first(const advise_costs *c, const advise_machine *m, double times, advise_expected *e)
{
    const double ranks = fmax(1, m->ranks), samples = times * (double)c->samples / ranks;
    const double storage = c->stored_bytes > 0 ? over(c->stored_bytes * ranks, m->first_bytes_per_second) : 0;
    advise_costs cold = *c;
    cold.read_cpu = fmax(c->read_cpu, c->stored_bytes * m->storage_cpu_per_byte);
    const double cached = first_seconds(c, m, samples, 0), unseen = times == 1 ? unseen_seconds(c, m, cached) : 0;
    e->first_cached_rate = over(samples, cached + unseen);
    const bool ran = times == 1 && c->cold_seconds > 0;
    const double seconds = ran ? c->cold_seconds : fmax(samples * storage, first_seconds(&cold, m, samples, storage) + unseen);
    e->first_rate = over(samples, fmax(seconds, cached + unseen));
}

advise_expected advise_expect(const advise_costs *c, const advise_machine *m, double times)
{
    advise_expected e = {.budget_bytes = advise_budget(c, m, times)};
    const double ranks = fmax(1, m->ranks), budget = (double)e.budget_bytes;
    const double stored = times * (double)c->samples * c->stored_bytes, all = times * (double)c->keep_all_bytes;
    const double load = c->read_cpu + c->decompress_cpu + c->decode_cpu;
    e.kept = all <= budget ? 1 : clamp((budget - (double)c->overlap_bytes) / fmax(1, all));
    e.fits = e.budget_bytes > 0 && budget >= (double)c->least_bytes;
    const double left = PAGE_CACHE * ((double)m->memory_bytes - ranks * budget), read = (1 - e.kept) * stored;
    e.page_cache = read > 0 ? (left >= read ? 1 : 0) : 1; /* a cache that is swept through answers nothing when it is too small */
    e.cpu = over(BUSY * m->threads, (1 - e.kept) * load + c->assemble_cpu);
    e.storage = over(m->storage_bytes_per_second / ranks, (1 - e.kept) * (1 - e.page_cache) * c->stored_bytes);
    e.work = over((double)c->batch_samples, m->work_seconds);
    e.rate = fmin(e.cpu, fmin(e.storage, e.work));
    expect_first(c, m, times, &e);
    e.epoch_seconds = over(times * (double)c->samples / ranks, e.rate);
    const double parts[] = {(1 - e.kept) * c->decompress_cpu, (1 - e.kept) * c->decode_cpu, c->assemble_cpu};
    static const fby_limit limits[] = {FBY_LIMIT_DECOMPRESS, FBY_LIMIT_DECODE, FBY_LIMIT_ASSEMBLE};
    size_t most = 0;
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        most = parts[i] > parts[most] ? i : most;
    e.limit = fby_limit_name(e.rate >= e.work ? FBY_LIMIT_MODEL : e.rate >= e.storage ? FBY_LIMIT_STORAGE : limits[most]);
    return e;
}

advise_expected advise_expect_packed(const advise_costs *c, const advise_machine *m, bool outputs)
{
    advise_costs packed = *c;
    packed.decompress_cpu = packed.decode_cpu = 0;
    packed.decoded_bytes = outputs ? c->delivered_bytes : c->decoded_bytes; /* a row is written with each window that it lies in */
    packed.read_cpu = c->stored_bytes > 0 ? c->read_cpu * fmax(1, packed.decoded_bytes / c->stored_bytes) : c->read_cpu;
    packed.stored_bytes = packed.decoded_bytes;
    if (outputs && c->decoded_bytes > 0)
        packed.keep_all_bytes = (uint64_t)((double)c->keep_all_bytes * packed.decoded_bytes / c->decoded_bytes);
    packed.run_seconds = packed.cold_seconds = 0;
    return advise_expect(&packed, m, 1);
}
