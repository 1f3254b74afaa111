/*
 * What the values of batches take where samples differ in length: groups, packed or padded. Their rows are known when a loader is opened,
 * so that the batches in flight count in its minimum (memory.c) before one is built.
 *
 *   in flight   `depth` batches, and of those that workers finish at once a second time: values whose pieces came one by one are joined
 *
 * How many rows n samples in flight have at most:
 *   file order      the most that n neighbours have: such a batch comes
 *   shuffled        n m + t, m the mean of the densest superbatch that could come, and t what the sum of n draws exceeds its mean by in less
 *                   than one of 10^9 cases (Bernstein's inequality, which holds for draws without replacement too; the variance is at most m
 *                   times the longest). The n longest samples of all in one batch would be sure, but no order reaches them, and where few
 *                   samples are very long they would need memory that no batch takes
 *   never more than n times the longest, nor than there are; in file order and by blocks, what is there a second time comes on top of that
 */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/sort.h"

#include <math.h>

#define EXACT_SAMPLES ((uint64_t)1 << 18) /* up to so many, neighbours are looked at one by one; else block by block */
#define SURE 20.7                         /* ln 10^9 */
#define PIECES_A_STREAM 3                 /* of a batch, usually at most */
#define LEAST_STRING_BYTES 32.0           /* of a string, on average */
#define ROUNDED 1.27                      /* an eighth more is taken for later batches, and a slab's class is an eighth larger at most */

/* ---- rows ---- */

static uint64_t block_rows(const fby__loader_source *in, uint32_t b)
{
    const fby__block_cost *c = &in->cost[b];
    uint64_t most;
    return fby__mul_u64_checked(c->samples, fby_samples_max_rows(in->samples), &most) ? fby__min_u64(c->row_end - c->row_begin, most)
                                                                                      : c->row_end - c->row_begin;
}

/* Rows of a sample in the mean, in the densest superbatch that could come. */
static double densest_mean(fby__loader_source *in)
{
    fby__density *d = fby__calloc(in->n_blocks, sizeof *d);
    uint64_t most = 0, rows = 0, samples = 0;
    uint32_t n = 0;
    for (uint32_t b = 0; d && b < in->n_blocks; b++) {
        if (in->cost[b].samples)
            d[n++] = (fby__density){fby__max_u64(in->cost[b].least, 1), block_rows(in, b)};
        most = fby__max_u64(most, in->cost[b].most);
    }
    if (!d) {
        in->no_memory = true;
        return (double)fby_samples_max_rows(in->samples);
    }
    (void)fby__sort(d, n, sizeof *d, fby__densest_first, NULL); /* cancelled: fby__loader_budget asks */
    const uint64_t all = fby_samples_count(in->samples);
    uint64_t room = fby__plan_own_streams(in->loader->plan);
    if (fby__plan_shuffle(fby__source_plan(in)) == FBY__SHUFFLE_FULL ||
        !fby__mul_u64_checked(room, fby__max_u64(fby__plan_phase_limit(fby__source_plan(in)), most), &room))
        room = all;
    for (uint32_t i = 0; i < n && samples < room; i++) {
        samples += d[i].samples;
        rows += d[i].amount;
    }
    fby__free(d);
    return (double)rows / (double)fby__max_u64(samples, 1);
}

/* The most rows that n neighbours have. With many samples an upper bound: the rows of the blocks that n neighbours may lie in. */
static uint64_t neighbours(const fby__loader_source *in, uint64_t n)
{
    const bool exact = fby_samples_count(in->samples) <= EXACT_SAMPLES;
    uint64_t rows = 0, most = 0, held = 0, row, n_rows;
    uint32_t first = 0; /* of the window, and what of this block has left it */
    uint64_t left_first = 0;
    for (uint32_t b = 0; b < in->n_blocks; b++) {
        const uint64_t count = in->cost[b].samples;
        for (uint64_t i = 0; exact && i < count; i++) {
            fby__samples_at(in->samples, b, i, &row, &n_rows);
            rows += n_rows;
            for (held++; held > n; held--) {
                for (; left_first == in->cost[first].samples; left_first = 0)
                    first++;
                fby__samples_at(in->samples, first, left_first++, &row, &n_rows);
                rows -= n_rows;
            }
            most = fby__max_u64(most, rows);
        }
        if (exact)
            continue;
        rows += block_rows(in, b);
        held += count;
        most = fby__max_u64(most, rows);
        for (; first < b && held - in->cost[first].samples + 1 >= n;
             first++) { /* n neighbours that begin there end before the next block */
            held -= in->cost[first].samples;
            rows -= block_rows(in, first);
        }
    }
    return most;
}

static double most_drawn(uint64_t n, double mean, double longest)
{
    const double third = longest * SURE / 3, sum = (double)n * mean;
    return fmin(sum + third + sqrt(third * third + 2 * sum * longest * SURE), (double)n * longest);
}

static uint64_t drawn(const fby__loader_source *in, uint64_t n)
{
    const double most = most_drawn(n, in->densest_rows, (double)fby_samples_max_rows(in->samples));
    return most < 0x1p62 ? (uint64_t)most : (uint64_t)1 << 62;
}

/* At most in so many batches that follow one another. */
static uint64_t rows_in_a_row(const fby__loader_source *in, uint64_t batches)
{
    const fby_loader *l = in->loader;
    const uint64_t longest = fby_samples_max_rows(in->samples), streams = fby__plan_own_streams(l->plan);
    uint64_t n, most, rows = UINT64_MAX;
    if (l->config.asked.batch_elements) /* a single sample may have more */
        return fby__mul_u64_checked(batches, fby__max_u64(l->config.asked.batch_elements, longest), &most) ? most : UINT64_MAX;
    if (!fby__mul_u64_checked(batches, l->memory.batch_samples, &n) || !fby__mul_u64_checked(n, longest, &most))
        return UINT64_MAX;
    switch (fby__plan_shuffle(fby__source_plan(in))) {
    case FBY__SHUFFLE_NONE: /* of several ranks, each batch is a run of its own */
        rows = fby__plan_world_size(l->plan) == 1 ? neighbours(in, n) : batches * neighbours(in, l->memory.batch_samples);
        break;
    case FBY__SHUFFLE_BLOCK: rows = streams * neighbours(in, n / streams + 1); break;
    case FBY__SHUFFLE_FULL:
    case FBY__SHUFFLE_SUPERBATCH:
        rows = drawn(in, fby__max_u64(n, l->config.asked.bucket_samples));
        break; /* the longest of a bucket come together */
    }
    return fby__min_u64(rows, most);
}

/*
 * At most in so many batches, of which some are there twice while their pieces are joined. Those are counted apart where samples come in the
 * order of the data: what follows one another is never more than all there is, but a copy is there beside it.
 */
static uint64_t rows_of(const fby__loader_source *in, uint64_t batches, uint64_t twice)
{
    const fby__shuffle shuffle = fby__plan_shuffle(fby__source_plan(in));
    uint64_t copies, all;
    if (shuffle != FBY__SHUFFLE_NONE && shuffle != FBY__SHUFFLE_BLOCK)
        return rows_in_a_row(in, batches + twice);
    twice = fby__min_u64(twice, fby__div_up_u64(fby_samples_count(in->samples), fby__max_u64(in->loader->memory.batch_samples, 1)));
    return fby__mul_u64_checked(twice, rows_in_a_row(in, 1), &copies) && fby__add_u64_checked(copies, rows_in_a_row(in, batches), &all)
               ? all
               : UINT64_MAX;
}

/* ---- bytes ---- */

static bool is_known(const fby__loader_source *in, uint32_t i)
{
    return fby__batch_output_varies(&in->loader->outputs.shape->outputs[i]) && in->outputs[i].rows == FBY__ROWS_ALL &&
           !in->outputs[i].of_sample;
}

/* Elements along the padded axis, over all samples of so many batches. */
static double padded_rows(const fby__loader_source *in, const fby__batch_output *o, uint64_t batches, uint64_t rows)
{
    const fby_loader *l = in->loader;
    const uint64_t longest = fby__min_u64(fby_samples_max_rows(in->samples), o->max_rows);
    const uint64_t length = fby__div_up_u64(o->pad_to_max ? o->max_rows : longest, o->multiple_of) * o->multiple_of;
    const double all = (double)batches * (double)l->memory.batch_samples * (double)length;
    /* Half of a batch by rows is reckoned as padding: the longest sample seldom comes with as many of one row as there could be. */
    return l->config.asked.batch_elements && !o->pad_to_max ? fmin(all, 2 * (double)rows) : all;
}

static uint64_t flight_bytes(fby__loader_source *in, uint32_t depth)
{
    fby_loader *l = in->loader;
    const uint64_t twice = fby__min_u64((uint64_t)l->config.n_threads, depth), batches = depth + twice;
    uint64_t rows = 0;
    double bytes = 0;
    for (uint32_t i = 0; i < l->outputs.shape->n_outputs; i++) {
        const fby__batch_output *o = &l->outputs.shape->outputs[i];
        if (!is_known(in, i))
            continue;
        if (in->densest_rows == 0)
            in->densest_rows = densest_mean(in);
        rows = rows ? rows : rows_of(in, depth, twice);
        const double cut = (double)batches * (double)l->memory.batch_samples * (double)in->outputs[i].max_rows;
        bytes += o->layout == FBY_LAYOUT_PADDED ? padded_rows(in, o, batches, rows) * (double)(o->row_bytes + !o->want_lengths)
                                                : fmin((double)rows, cut) * (double)o->row_bytes;
    }
    bytes *= ROUNDED;
    return bytes < 0x1p62 ? (uint64_t)bytes : (uint64_t)1 << 62;
}

/* Bytes of an element, with its mask. */
static double element_bytes(const fby__batch_output *o)
{
    return (double)(o->row_bytes + (o->layout == FBY_LAYOUT_PADDED && !o->want_lengths));
}

/* Rows of a sample that are delivered, or elements of a list, on average. */
static double mean_length(const fby__loader_source *in, const fby__output_source *s, const fby__batch_output *o)
{
    const fby__read_panel *p = s->from < FBY_FROM_SAMPLE_INDEX && !s->maker ? &in->panels[s->panel] : NULL;
    const bool lists = p && p->variable != UINT32_MAX && s->rows != FBY__ROWS_ALL;
    double samples = 0, length = 0;
    for (uint32_t b = 0; b < in->n_blocks; b++) {
        const fby__block_cost *c = &in->cost[b];
        const uint64_t rows = c->thin.rows ? c->thin.rows : c->row_end - c->row_begin;
        samples += lists ? (double)rows : (double)c->samples;
        length += c->samples == 0 ? 0 : lists ? (double)fby__loader_capacity(in, b, p) / (double)s->item_elements : (double)rows;
    }
    const bool padded = o->layout == FBY_LAYOUT_PADDED;
    const double mean = length / (samples > 0 ? samples : 1);
    const double most = (double)(padded ? fby__min_u64(s->max_rows, o->max_rows) : s->max_rows);
    const double longest = padded ? 2 * mean : mean; /* of a batch */
    return (padded && o->pad_to_max) || longest > most ? most : longest;
}

/* Bytes of a sample in an output that varies. Metadata says little of strings in dictionaries. */
static double mean_bytes(const fby__loader_source *in, uint32_t i)
{
    const fby__batch_output *o = &in->loader->outputs.shape->outputs[i];
    const double mean = mean_length(in, &in->outputs[i], o);
    return element_bytes(o) * (element_bytes(o) > 1 ? mean : fmax(mean, LEAST_STRING_BYTES));
}

/* The lengths of what an output delivers, where they were measured. */
static const fby__lengths *lengths_of(const fby__loader_source *in, const fby__output_source *s)
{
    const fby__read_panel *p = s->from < FBY_FROM_SAMPLE_INDEX && !s->maker ? &in->panels[s->panel] : NULL;
    return in->lengths && p && p->variable != UINT32_MAX && s->rows != FBY__ROWS_ALL ? &in->lengths[p->variable] : NULL;
}

/* The most elements of n samples, as in flight at once: neighbours may be the longest, but there are no more than all. */
static double most_elements(const fby__loader_source *in, const fby__output_source *s, const fby__batch_output *o, uint64_t n)
{
    const fby__lengths *lengths = lengths_of(in, s);
    const bool padded = o->layout == FBY_LAYOUT_PADDED;
    const double most = (double)(padded ? fby__min_u64(s->max_rows, o->max_rows) : s->max_rows);
    const double item = (double)s->item_elements; /* numbers were counted */
    const double longest = fmin((double)lengths->longest / item, most), mean = fmin(lengths->densest / item, most);
    if (padded)
        return (double)n *
               (o->pad_to_max ? (double)o->max_rows : (double)(fby__div_up_u64((uint64_t)longest, o->multiple_of) * o->multiple_of));
    const fby__shuffle shuffle = fby__plan_shuffle(fby__source_plan(in));
    if (shuffle == FBY__SHUFFLE_FULL || shuffle == FBY__SHUFFLE_SUPERBATCH)
        return most_drawn(n, mean, longest);
    return fmin((double)n * longest, fmax((double)lengths->sum / item, most_drawn(n, mean, longest)));
}

/* A batch is there twice for a moment where its pieces came one by one; and the memory of each piece is whole pages. */
static uint64_t least_values_bytes(fby__loader_source *in)
{
    fby_loader *l = in->loader;
    const uint64_t pieces = fby__min_u64(l->memory.batch_samples, PIECES_A_STREAM * (uint64_t)fby__plan_own_streams(l->plan)) + 1;
    bool is_set = in->listed_sample_bytes > 0;
    for (uint32_t i = 0; i < l->outputs.shape->n_outputs && !is_set; i++) {
        const fby__batch_output *o = &l->outputs.shape->outputs[i];
        if (!fby__batch_output_varies(o) || is_known(in, i))
            continue;
        in->listed_sample_bytes += mean_bytes(in, i);
    }
    const double bytes = FBY__MINIMUM_VALUES * (double)l->memory.batch_samples * in->listed_sample_bytes +
                         (double)l->outputs.shape->n_ragged * (double)pieces * (double)fby__slab_class_bytes(1);
    return bytes < 0x1p62 ? (uint64_t)bytes : (uint64_t)1 << 62;
}

/* Bytes of the lists and strings of all batches that there are at once. */
static uint64_t listed_values_bytes(const fby__loader_source *in)
{
    const fby_loader *l = in->loader;
    const uint64_t depth = l->config.depth, joined = fby__min_u64((uint64_t)l->config.n_threads, depth);
    const double average =
        1.25 * (double)l->memory.batch_samples * (double)(depth + FBY__SPARE_BATCHES) * (l->config.asked.memory_all ? 2 : 1);
    double bytes = 0;
    for (uint32_t i = 0; i < l->outputs.shape->n_outputs; i++) {
        const fby__batch_output *o = &l->outputs.shape->outputs[i];
        const fby__output_source *s = &in->outputs[i];
        if (!fby__batch_output_varies(o) || is_known(in, i))
            continue;
        bytes += element_bytes(o) *
                 (lengths_of(in, s) ? ROUNDED * most_elements(in, s, o, l->memory.batch_samples * (depth + FBY__SPARE_BATCHES + joined))
                                    : average * mean_length(in, s, o));
    }
    return bytes < 0x1p62 ? (uint64_t)bytes : (uint64_t)1 << 62;
}

static double sample_bytes(const fby__loader_source *in)
{
    const fby__batch_shape *shape = in->loader->outputs.shape;
    double bytes = 0;
    for (uint32_t i = 0; i < shape->n_outputs; i++)
        bytes += fby__batch_output_varies(&shape->outputs[i]) ? (double)sizeof(int64_t) + mean_bytes(in, i)
                                                              : (double)shape->outputs[i].row_bytes;
    return bytes;
}

/* With several sources, the most that batches would take if all of their samples were of one. */
uint64_t fby__loader_flight_bytes(fby_loader *l, uint32_t depth)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < l->sources.n; i++)
        most = fby__max_u64(most, flight_bytes(&l->sources.at[i], depth));
    return most;
}

uint64_t fby__loader_least_values_bytes(fby_loader *l)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < l->sources.n; i++)
        most = fby__max_u64(most, least_values_bytes(&l->sources.at[i]));
    return most;
}

uint64_t fby__loader_listed_values_bytes(const fby_loader *l)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < l->sources.n; i++)
        most = fby__max_u64(most, listed_values_bytes(&l->sources.at[i]));
    return most;
}

double fby__loader_sample_bytes(const fby_loader *l)
{
    double most = 0;
    for (uint32_t i = 0; i < l->sources.n; i++)
        most = fmax(most, sample_bytes(&l->sources.at[i]));
    return most;
}
