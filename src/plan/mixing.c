/*
 * How well an epoch's batches mix blocks, measured on the order itself, beside what a uniform shuffle of all samples
 * gives. A batch is this rank's share of a step. No sample is read.
 */
#include "plan/mix_internal.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <math.h>

#define CHUNK 1024

/* Samples of each block in a batch, and the blocks that have any. */
typedef struct tally {
    uint32_t *file_seen; /* n_files: 1 + the batch that had it last; NULL when files are unknown */
    uint32_t *counts;    /* n_blocks, zero between batches */
    uint32_t *touched;   /* n_blocks */
    uint32_t n_touched;
    fby__pool_scratch *pool; /* owned; NULL where the plan has no pools */
    const fby__padding *paddings;
    uint32_t n_paddings;
    struct {
        uint64_t rows, longest;
    } * of_padding;         /* owned: n_paddings, of the batch */
    double padded, padding; /* of all batches and paddings */
    struct of_source {
        uint64_t samples, files; /* of all batches */
        uint64_t here;           /* samples of the batch */
        double padded, rows;     /* of all batches and paddings, with and without padding */
    } * of_source;               /* owned: one a source */
} tally;

static void tally_lengths(const uint32_t *length, uint32_t n, tally *t, struct of_source *source)
{
    for (uint32_t k = 0; k < t->n_paddings; k++)
        for (uint32_t j = 0; j < n; j++) {
            const uint64_t kept = fby__min_u64(length[j], t->paddings[k].most);
            t->of_padding[k].rows += kept;
            source->rows += (double)kept;
            t->of_padding[k].longest = fby__max_u64(t->of_padding[k].longest, kept);
        }
}

static void tally_piece(const fby__epoch *epoch, const fby__plan_piece *piece, tally *t)
{
    const fby__plan_item *items = epoch->phases[piece->phase].items;
    uint32_t item[CHUNK], length[CHUNK];
    uint64_t sample[CHUNK];
    struct of_source *source = &t->of_source[fby__epoch_source(epoch, piece->phase)];
    source->here += piece->n;
    for (uint32_t done = 0; done < piece->n && !fby__cancelled_at(done);) {
        uint32_t n = piece->n - done < CHUNK ? piece->n - done : CHUNK;
        if (!fby__epoch_resolve_in(epoch, piece->phase, piece->index + done, n, t->pool, item, sample))
            return; /* cancelled, which the caller asks */
        if (epoch->plan->lengths.of) {
            fby__epoch_lengths(epoch, piece->phase, item, sample, n, length);
            tally_lengths(length, n, t, source);
        }
        for (uint32_t j = 0; j < n; j++) {
            uint32_t block = items[item[j]].block;
            if (t->counts[block]++ == 0)
                t->touched[t->n_touched++] = block;
        }
        done += n;
    }
}

static uint32_t source_of(const fby__plan *plan, uint32_t block)
{
    uint32_t lo = 0, hi = fby__plan_sources(plan);
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        *(fby__plan_source_first(plan, middle) <= block ? &lo : &hi) = middle;
    }
    return lo;
}

/* Distinct files of the batch that the tally holds; `mark` is another one for every batch. */
static uint64_t tally_files(const fby__epoch *epoch, const tally *t, uint32_t mark)
{
    uint64_t n = 0;
    for (uint32_t i = 0; t->file_seen && i < t->n_touched; i++) {
        uint32_t *seen = &t->file_seen[epoch->plan->file_of[t->touched[i]]];
        n += *seen != mark;
        t->of_source[source_of(epoch->plan, t->touched[i])].files += *seen != mark;
        *seen = mark;
    }
    return n;
}

/* Adds the chance that two of the batch's m samples share a block, and its entropy over blocks; empties the tally. */
static void tally_read(tally *t, uint32_t n_sources, double m, double *same, double *entropy)
{
    for (uint32_t i = 0; i < t->n_touched; i++) {
        double k = t->counts[t->touched[i]];
        if (m > 1)
            *same += k * (k - 1) / (m * (m - 1));
        *entropy += k / m * log2(m / k);
        t->counts[t->touched[i]] = 0;
    }
    t->n_touched = 0;
    for (uint32_t k = 0; k < t->n_paddings && t->of_padding[k].longest; k++) {
        const fby__padding *p = &t->paddings[k];
        const double length = (double)(fby__div_up_u64(fby__max_u64(t->of_padding[k].longest, p->least), p->multiple_of) * p->multiple_of);
        t->padded += m * length;
        t->padding += m * length - (double)t->of_padding[k].rows;
        for (uint32_t i = 0; i < n_sources; i++)
            t->of_source[i].padded += (double)t->of_source[i].here * length;
        t->of_padding[k].rows = t->of_padding[k].longest = 0;
    }
    for (uint32_t i = 0; i < n_sources; i++) {
        t->of_source[i].samples += t->of_source[i].here;
        t->of_source[i].here = 0;
    }
}

/*
 * E[k log2 k] where k of the m samples of a batch, drawn from n without replacement, come from a block of c: the
 * weights of the hypergeometric distribution by its recurrence, outwards from the mode. Unnormalised, so that no
 * factorial of n, which may be 2^62, is needed.
 */
static double expected_k_log_k(double n, double c, double m)
{
    const double least = m + c > n ? m + c - n : 0, most = c < m ? c : m;
    double mode = floor((m + 1) * (c + 1) / (n + 2));
    mode = mode < least ? least : mode > most ? most : mode;
    double total = 1, sum = mode > 1 ? mode * log2(mode) : 0;
    double weight = 1;
    for (double k = mode; k < most && weight > 1e-18; k++) {
        weight *= (c - k) * (m - k) / ((k + 1) * (n - c - m + k + 1));
        total += weight;
        sum += weight * (k + 1) * log2(k + 1);
    }
    weight = 1;
    for (double k = mode; k > least && weight > 1e-18; k--) {
        weight *= k * (n - c - m + k) / ((c - k + 1) * (m - k + 1));
        total += weight;
        sum += k > 2 ? weight * (k - 1) * log2(k - 1) : 0;
    }
    return sum / total;
}

/* What a batch of m of n samples drawn at random would have, in closed form. */
typedef struct uniform {
    double pairs; /* of samples, that are of one block */
    double k_log_k, files;
} uniform;

static uniform draw_at_random(const fby__plan *plan, const uint64_t *counts, double n, double m)
{
    uniform u = {0};
    double seen_count = 0, seen = 0, same = 0;
    for (uint32_t b = 0; b < plan->n_blocks; b++) {
        const double c = (double)counts[b];
        if (c == 0)
            continue;
        same += c / n * (c - 1);
        if (c != seen_count) { /* most blocks are as large as the one before */
            seen_count = c;
            seen = expected_k_log_k(n, c, m);
        }
        u.k_log_k += seen;
    }
    for (uint32_t f = 0; f < plan->n_files; f++) { /* as if drawn with replacement: a little less than without */
        const fby__plan_unit *file = &plan->files[f];
        double c = 0;
        for (uint32_t b = file->first; b < file->end; b++)
            c += (double)counts[b];
        if (c > 0)
            u.files += c < n ? -expm1(m * log1p(-c / n)) : 1;
    }
    u.pairs = n > 1 ? m * (m - 1) * same / (n - 1) : 0;
    return u;
}

/* In a mixture, each source's part of the batch is drawn from the source. */
static void uniform_mixing(const fby__epoch *epoch, uint64_t batch, fby__mixing *out)
{
    const fby__plan *plan = epoch->plan;
    const double n = (double)epoch->n_available,
                 m = (double)fby__min_u64(batch, epoch->n_available); /* wrapped batches may repeat samples */
    uniform all = {0};
    for (uint32_t i = 0; i < fby__plan_sources(plan); i++) {
        const fby__plan *source = fby__plan_source(plan, i);
        const double has = plan->mix ? (double)source->n : n, part = plan->mix ? (double)epoch->mix->deal.total[i] / n : 1;
        if (part == 0)
            continue;
        const uniform u = draw_at_random(source, plan->mix ? source->counts : epoch->counts, has, fmin(m * part, has));
        all.pairs += u.pairs;
        all.k_log_k += u.k_log_k;
        all.files += u.files;
    }
    out->same_block_uniform = m > 1 ? all.pairs / (m * (m - 1)) : 0;
    out->entropy_bits_uniform = fmax(0, log2(m) - all.k_log_k / m);
    out->files_uniform = plan->n_files ? all.files : 0;
}

fby_status fby__plan_mixing(const fby__epoch *epoch, uint64_t max_batches, const fby__padding *paddings, uint32_t n_paddings,
                            fby__mixing *out, fby__source_mixing *out_sources, fby_error *err)
{
    static const fby__padding longest = {.most = UINT64_MAX, .multiple_of = 1};
    if (max_batches == 0)
        return fby__fail(err, FBY_E_ARG, "mixing is measured on at least one batch");
    fby_status status = FBY_OK;
    const uint32_t n_blocks = epoch->plan->n_blocks, n_sources = fby__plan_sources(epoch->plan);
    fby__mixing mixing = {.batches_sampled = fby__min_u64(max_batches, epoch->n_batches)};
    double pairs_in = 0; /* batches that have pairs */
    tally t = {.counts = fby__calloc(n_blocks, sizeof *t.counts),
               .touched = fby__calloc(n_blocks, sizeof *t.touched),
               .paddings = n_paddings ? paddings : &longest,
               .n_paddings = n_paddings ? n_paddings : 1};
    t.of_padding = fby__calloc(t.n_paddings, sizeof *t.of_padding);
    t.of_source = fby__calloc(n_sources, sizeof *t.of_source);
    fby__plan_piece *pieces = fby__calloc(epoch->max_pieces, sizeof *pieces);
    if (epoch->plan->files)
        t.file_seen = fby__calloc(epoch->plan->n_files, sizeof *t.file_seen);
    if (!t.counts || !t.touched || !t.of_padding || !t.of_source || !pieces || (epoch->plan->files && !t.file_seen)) {
        status = fby__fail_nomem(err, "mixing of an epoch");
        goto done;
    }
    if (epoch->plan->pool_samples && (status = fby__pool_scratch_create(epoch->plan, &t.pool, err)) != FBY_OK)
        goto done;
    for (uint64_t i = 0; i < mixing.batches_sampled && !fby__cancelled(); i++) {
        uint64_t b = (uint64_t)((unsigned __int128)i * epoch->n_batches / mixing.batches_sampled);
        double m = (double)fby__epoch_batch_size(epoch, b);
        uint32_t n_pieces = fby__epoch_pieces(epoch, b, pieces, epoch->max_pieces);
        for (uint32_t p = 0; p < n_pieces; p++)
            tally_piece(epoch, &pieces[p], &t);
        const uint64_t files = tally_files(epoch, &t, (uint32_t)i + 1);
        mixing.files += (double)files;
        if (b + 1 < epoch->n_batches || epoch->n_batches == 1)
            mixing.files_least = i == 0 ? files : fby__min_u64(files, mixing.files_least);
        tally_read(&t, n_sources, m, &mixing.same_block, &mixing.entropy_bits);
        pairs_in += m > 1;
    }
    if ((status = fby__cancel_check(err)) != FBY_OK) /* else the last one may have been cut short */
        goto done;
    if (pairs_in > 0)
        mixing.same_block /= pairs_in;
    if (mixing.batches_sampled > 0) { /* a rank may have none */
        mixing.entropy_bits /= (double)mixing.batches_sampled;
        mixing.padding = t.padded > 0 ? t.padding / t.padded : 0;
        mixing.files /= (double)mixing.batches_sampled;
        uniform_mixing(epoch, fby__epoch_batch_size(epoch, 0), &mixing);
    }
    *out = mixing;
    for (uint32_t i = 0; out_sources && i < n_sources; i++) {
        const struct of_source *s = &t.of_source[i];
        const double n = fmax(1, (double)mixing.batches_sampled);
        out_sources[i] = (fby__source_mixing){
            .samples = (double)s->samples / n, .files = (double)s->files / n, .padding = s->padded > 0 ? 1 - s->rows / s->padded : 0};
    }
done:
    fby__pool_scratch_destroy(t.pool);
    fby__free(t.file_seen);
    fby__free(t.of_padding);
    fby__free(t.of_source);
    fby__free(t.counts);
    fby__free(t.touched);
    fby__free(pieces);
    return status;
}
