/*
 * Resume: where a loader stands, and whether another one may go on there (invariant 3).
 *
 * The order is a function of the dataset's identity and the sampling options, so a state holds no samples: an epoch, the next
 * batch, and what the order depends on, to be compared. A state comes from outside and is not trusted.
 *
 *   compared                     refused with
 *   dataset, file by file        FBY_E_CHANGED, which file or among which files
 *   samples of every block       FBY_E_ARG, both numbers
 *   shuffle, parts, tail, global FBY_E_ARG, both values
 *   batch; all other options of
 *   the order, by their table
 *   world size                   nothing: it divides the streams, or the loader would not be open. A tail that is kept by one
 *                                rank, and wrapped or uneven on several, is the same order up to the last batch
 */
#include "loader/internal.h"

#include "base/hash.h"
#include "base/sized.h"
#include "options/options.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static fby_shuffle_kind shuffle_of(const fby__plan *plan)
{
    switch (fby__plan_shuffle(plan)) {
    case FBY__SHUFFLE_FULL: return FBY_SHUFFLE_FULL;
    case FBY__SHUFFLE_BLOCK: return FBY_SHUFFLE_BLOCK;
    case FBY__SHUFFLE_NONE: return FBY_SHUFFLE_NONE;
    case FBY__SHUFFLE_SUPERBATCH: break;
    }
    return FBY_SHUFFLE_SUPERBATCH;
}

static fby_tail_kind tail_of(const fby__plan *plan)
{
    switch (fby__plan_tail(plan)) {
    case FBY__TAIL_DROP: return FBY_TAIL_DROP;
    case FBY__TAIL_WRAP: return FBY_TAIL_WRAP;
    case FBY__TAIL_KEEP: break;
    }
    return fby__plan_world_size(plan) > 1 ? FBY_TAIL_UNEVEN : FBY_TAIL_KEEP;
}

/* ---- runs of files ---- */

static uint32_t run_count(uint64_t n_files) { return n_files < FBY_STATE_FILES ? (uint32_t)n_files : FBY_STATE_FILES; }

static uint32_t run_begin(uint64_t n_files, uint32_t run) { return (uint32_t)(n_files * run / run_count(n_files)); }

static uint64_t hash_run(const fby_dataset *ds, uint32_t begin, uint32_t end)
{
    fby__hash128 hash = {0};
    for (uint32_t f = begin; f < end; f++) {
        int64_t mtime_ns;
        uint64_t file = fby__dataset_file_hash(ds, f, &mtime_ns);
        hash = fby__hash_more(hash, &file, sizeof file);
    }
    return hash.lo;
}

/* "file 'a'", or "one of the 12 files from 'a' to 'b' (the one written last is 'c', …)". */
static void name_run(const fby_dataset *ds, uint32_t begin, uint32_t end, char *out, size_t n)
{
    fby_file_info first = {.size = sizeof first}, last = first, newest = first;
    uint32_t newest_file = begin;
    int64_t newest_ns = INT64_MIN, mtime_ns;
    for (uint32_t f = begin; f < end; f++) {
        (void)fby__dataset_file_hash(ds, f, &mtime_ns);
        if (mtime_ns > newest_ns) {
            newest_ns = mtime_ns;
            newest_file = f;
        }
    }
    /* indices below the count: cannot fail */
    (void)fby_dataset_file(ds, begin, &first, NULL);
    (void)fby_dataset_file(ds, end - 1, &last, NULL);
    (void)fby_dataset_file(ds, newest_file, &newest, NULL);
    char when[32] = "";
    time_t seconds = (time_t)(newest_ns / 1000000000);
    struct tm tm;
    if (gmtime_r(&seconds, &tm))
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &tm);
    if (end - begin == 1)
        (void)snprintf(out, n, "'%.200s' (now %llu bytes, written %s)", first.name, (unsigned long long)first.size_bytes, when);
    else
        (void)snprintf(out, n, "one of the %u files from '%.120s' to '%.120s' (written last: '%.120s', %s)", end - begin, first.name,
                       last.name, newest.name, when);
}

static void hash_text(fby__hash128 h, char out[33])
{
    (void)snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

/* Hashes a source's name, and what it is. */
static uint64_t hash_source(const fby__loader_source *in)
{
    const char *texts[] = {in->name, fby_dataset_identity(in->ds), fby__dataset_contents(in->ds)};
    fby__hash128 h = {0};
    for (int i = 0; i < 3; i++)
        h = fby__hash_more(h, texts[i], strlen(texts[i]) + 1);
    return h.lo;
}

/* The first source of a mixture that differs; "" where none of the first ones does. */
static void name_source(const fby__loader_sources *sources, const fby_loader_state *s, char *out, size_t n)
{
    for (uint32_t i = 0; i < sources->n && i < FBY_STATE_FILES && !out[0]; i++)
        if (hash_source(&sources->at[i]) != s->files[i])
            (void)snprintf(out, n, "source '%.200s'", sources->at[i].name);
}

/* The first run that differs, in words; "" when none does or the files are not as many. */
static void name_difference(const fby__loader_sources *sources, const fby_loader_state *s, char *out, size_t n)
{
    const fby__loader_source *in = &sources->at[0];
    uint64_t n_files = fby_dataset_file_count(in->ds);
    uint32_t more = 0;
    out[0] = 0;
    if (sources->n > 1) {
        name_source(sources, s, out, n);
        return;
    }
    for (uint32_t i = 0; s->n_files == n_files && i < run_count(n_files); i++) {
        uint32_t begin = run_begin(n_files, i), end = run_begin(n_files, i + 1);
        if (hash_run(in->ds, begin, end) == s->files[i])
            continue;
        if (!out[0])
            name_run(in->ds, begin, end, out, n);
        else
            more++;
    }
    size_t used = strlen(out);
    if (more)
        (void)snprintf(out + used, n - used, ", and in %u more places", more);
}

/* Which samples of which blocks: how many each block has, and what they are unless they are plain rows. */
static uint64_t samples_hash(const fby__loader_sources *sources, const fby__plan *plan)
{
    uint64_t hash = fby__plan_counts_hash(plan);
    for (uint32_t i = 0; i < sources->n; i++) {
        const fby__loader_source *in = &sources->at[i];
        const char *identity = fby__samples_identity(in->samples);
        if (strcmp(identity, fby_dataset_identity(in->ds)) != 0)
            hash = fby__hash_more(fby__hash(&hash, sizeof hash), identity, strlen(identity)).lo;
    }
    return hash;
}

/* What a state calls the data: for a mixture, hashes of what its sources are called. */
static void name_data(const fby__loader_sources *sources, fby_loader_state *s)
{
    fby__hash128 identity = {0}, fingerprint = {0}, contents = {0}, inodes = {0};
    for (uint32_t i = 0; i < sources->n; i++) {
        const fby__loader_source *in = &sources->at[i];
        const uint64_t inode = fby__dataset_inodes(in->ds);
        s->n_rows += fby_dataset_rows(in->ds);
        s->n_files += fby_dataset_file_count(in->ds);
        s->n_blocks += fby_dataset_block_count(in->ds);
        s->inodes = inode;
        memcpy(s->identity, fby_dataset_identity(in->ds), sizeof s->identity);
        memcpy(s->fingerprint, fby_dataset_fingerprint(in->ds), sizeof s->fingerprint);
        memcpy(s->contents, fby__dataset_contents(in->ds), sizeof s->contents);
        identity = fby__hash_more(fby__hash_more(identity, in->name, strlen(in->name) + 1), s->identity, sizeof s->identity);
        fingerprint = fby__hash_more(fingerprint, s->fingerprint, sizeof s->fingerprint);
        contents = fby__hash_more(contents, s->contents, sizeof s->contents);
        inodes = fby__hash_more(inodes, &inode, sizeof inode);
    }
    if (sources->n == 1) {
        const fby_dataset *ds = sources->at[0].ds;
        for (uint32_t i = 0; i < run_count(s->n_files); i++)
            s->files[i] = hash_run(ds, run_begin(s->n_files, i), run_begin(s->n_files, i + 1));
        return;
    }
    hash_text(identity, s->identity);
    hash_text(fingerprint, s->fingerprint);
    hash_text(contents, s->contents);
    s->inodes = inodes.lo;
    for (uint32_t i = 0; i < sources->n && i < FBY_STATE_FILES; i++)
        s->files[i] = hash_source(&sources->at[i]);
}

/* ---- get ---- */

/* Where the loader stands, in this version's layout. */
static fby_loader_state state_of(fby_loader *l)
{
    fby_loader_state s = {
        .size = sizeof s,
        .version = FBY_STATE_VERSION,
        .streams = fby__plan_streams(l->plan),
        .world_size = fby__plan_world_size(l->plan),
        .shuffle = shuffle_of(l->plan),
        .tail = tail_of(l->plan),
        .epoch = l->consumer.began ? l->consumer.next_epoch - 1 : l->consumer.next_epoch,
        .batch = l->consumer.began ? atomic_load_explicit(&l->consumer.handed, memory_order_relaxed) : l->consumer.next_batch,
        .seed = fby__plan_seed(l->plan),
        .global_batch = fby__plan_global_batch(l->plan),
        .superbatch_samples = l->config.superbatch_samples,
        .n_samples = fby__plan_samples(l->plan),
        .samples = samples_hash(&l->sources, l->plan),
        .part_keys_hash = fby__plan_spans_hash(l->plan),
        .mix = fby__plan_mix_hash(l->plan),
    };
    name_data(&l->sources, &s);
    fby__state_asked(&l->config.asked, &s);
    return s;
}

fby_status fby_loader_state_get(fby_loader *l, fby_loader_state *out, fby_error *err)
{
    FBY__TRY(fby__loader_check_process(l, err));
    const fby_loader_state s = state_of(l);
    return FBY__SIZED_OUT(fby_loader_state, fingerprint, &s, out, err);
}

/* ---- set ---- */

/*
 * Files that are elsewhere, or were restored, have times of their own; what they hold decides: sizes and metadata. The same files with
 * other times were written to.
 */
static bool is_copy(const fby_loader_state *now, const fby_loader_state *s)
{
    return strcmp(s->contents, now->contents) == 0 && s->inodes != now->inodes;
}

static fby_status check_dataset(const fby__loader_sources *sources, const fby_loader_state *s, fby_error *err)
{
    char where[700];
    fby_loader_state now = {0};
    name_data(sources, &now);
    const uint64_t rows = now.n_rows, files = now.n_files, blocks = now.n_blocks;
    if (strcmp(s->fingerprint, now.fingerprint) == 0 || is_copy(&now, s))
        return FBY_OK;
    name_difference(sources, s, where, sizeof where);
    if (strcmp(s->identity, now.identity) == 0)
        return fby__fail(err, FBY_E_CHANGED,
                         "the files changed since the state was saved (names, rows and schema are the same; sizes, "
                         "times or metadata are not)%s%s. Restore them, or begin the epoch anew",
                         where[0] ? ": " : "", where);
    if (s->n_files != files || s->n_rows != rows || s->n_blocks != blocks)
        return fby__fail(err, FBY_E_CHANGED,
                         "the state was saved over another data set: %llu files, %llu rows, %llu blocks; this one has "
                         "%llu files, %llu rows, %llu blocks%s%s",
                         (unsigned long long)s->n_files, (unsigned long long)s->n_rows, (unsigned long long)s->n_blocks,
                         (unsigned long long)files, (unsigned long long)rows, (unsigned long long)blocks,
                         where[0] ? "; the first difference is in " : "", where);
    return fby__fail(err, FBY_E_CHANGED,
                     "the state was saved over another data set: as many files, rows and blocks, but other names, another "
                     "order of the files, other rows per block or another schema%s%s",
                     where[0] ? "; the first difference is in " : "", where);
}

/* What is a number that has to be the same: the rows of the state's table that belong to the order. */
static fby_status check_numbers(const fby_loader_state *now, const fby_loader_state *s, fby_error *err)
{
    for (const fby_option *o = fby__option_table(FBY_OPTIONS_STATE); o->name; o++) {
        uint64_t is = 0, was = 0;
        if (!(o->flags & FBY_OPTION_ORDER) || ((o->flags & FBY_OPTION_OF_SUPERBATCH) && now->shuffle != FBY_SHUFFLE_SUPERBATCH))
            continue;
        memcpy(&is, (const char *)now + o->offset, fby__option_bytes(o)); /* little-endian: u32 are the low bytes */
        memcpy(&was, (const char *)s + o->offset, fby__option_bytes(o));
        if (is != was)
            return fby__fail(err, FBY_E_ARG, "the state was saved with %s %llu, this loader has %llu: the order would be another", o->help,
                             (unsigned long long)was, (unsigned long long)is);
    }
    return FBY_OK;
}

static fby_status check_mix(const fby_loader_state *now, const fby_loader_state *s, fby_error *err)
{
    if (s->mix == now->mix)
        return FBY_OK;
    if (s->mix && now->mix)
        return fby__fail(err, FBY_E_ARG,
                         "the state was saved with a mixture of other weights, or with another stop: the order would be another");
    return fby__fail(err, FBY_E_ARG, "the state was saved over %s, this loader is over %s: the order would be another",
                     s->mix ? "a mixture" : "one data set", s->mix ? "one data set" : "a mixture");
}

static fby_status check_global_batch(const fby__plan *plan, const fby__loader_config *config, const fby_loader_state *s, fby_error *err)
{
    uint64_t now = fby__plan_global_batch(plan), world = fby__plan_world_size(plan);
    if (s->global_batch == now)
        return FBY_OK;
    char advice[120];
    if (s->global_batch % world == 0)
        (void)snprintf(advice, sizeof advice, "set batch_size to %llu", (unsigned long long)(s->global_batch / world));
    else
        (void)snprintf(advice, sizeof advice, "choose a number of ranks that divides %llu", (unsigned long long)s->global_batch);
    return fby__fail(err, FBY_E_ARG,
                     "the state was saved with a global batch of %llu samples (%llu on each of %u ranks), this loader has %llu "
                     "(%llu on each of %llu): %s",
                     (unsigned long long)s->global_batch, (unsigned long long)(s->global_batch / s->world_size), s->world_size,
                     (unsigned long long)now, (unsigned long long)config->batch_size, (unsigned long long)world, advice);
}

static const char *parts_text(uint32_t part_files, uint32_t part_keys, uint32_t n_parts, bool by_key, char *out, size_t n)
{
    if (part_files)
        (void)snprintf(out, n, "parts of %u files", part_files);
    else if (part_keys)
        (void)snprintf(out, n, "parts of %u keys", part_keys);
    else if (n_parts)
        (void)snprintf(out, n, "%u parts%s", n_parts, by_key ? " by key" : "");
    else
        (void)snprintf(out, n, "no parts");
    return out;
}

static fby_status check_parts(const fby__plan *plan, const fby__loader_config *config, const fby_loader_state *s, fby_error *err)
{
    char saved[40], now[40];
    const uint64_t hash = fby__plan_spans_hash(plan);
    if (s->part_files != config->asked.part_files || s->part_keys != config->asked.part_keys || s->n_parts != config->asked.n_parts ||
        !s->part_keys_hash != !hash)
        return fby__fail(err, FBY_E_ARG, "the state was saved with epochs of %s, this loader has %s: the order would be another",
                         parts_text(s->part_files, s->part_keys, s->n_parts, s->part_keys_hash != 0, saved, sizeof saved),
                         parts_text(config->asked.part_files, config->asked.part_keys, config->asked.n_parts, hash != 0, now, sizeof now));
    if (s->part_keys_hash != hash)
        return fby__fail(
            err, FBY_E_ARG,
            "the state was saved with parts by other keys (another part_key, or other values in it): the order would be another");
    return FBY_OK;
}

/* Batches by rows and length buckets are cut from the ranks' own streams. */
static fby_status check_ranks(const fby__plan *plan, const fby_loader_state *s, fby_error *err)
{
    const uint32_t world = fby__plan_world_size(plan);
    if ((!s->batch_elements && !s->bucket_samples) || s->world_size == world)
        return FBY_OK;
    return fby__fail(
        err, FBY_E_ARG,
        "the state was saved on %u ranks, this loader is one of %u: batches by rows and length buckets are cut for each rank by "
        "itself, so the order would be another. Go on with %u ranks",
        s->world_size, world, s->world_size);
}

static fby_status check_options(fby_loader *l, const fby_loader_state *s, fby_error *err)
{
    const fby_loader_state now = state_of(l);
    if (s->samples != now.samples)
        return fby__fail(err, FBY_E_ARG,
                         "the state was saved over %llu samples cut from the same files in another way (rows, windows, groups, a split); "
                         "this loader has %llu: make the samples as they were",
                         (unsigned long long)s->n_samples, (unsigned long long)now.n_samples);
    FBY__TRY(check_ranks(l->plan, s, err));
    FBY__TRY(check_parts(l->plan, &l->config, s, err));
    if (s->shuffle != now.shuffle)
        return fby__fail(err, FBY_E_ARG,
                         "the state was saved with shuffle '%s', this loader has '%s' in effect: the order would be another",
                         fby__shuffle_words[s->shuffle], fby__shuffle_words[now.shuffle]);
    FBY__TRY(check_mix(&now, s, err));
    if (s->batch_elements == now.batch_elements) /* before what follows from it, such as the streams in effect */
        FBY__TRY(check_global_batch(l->plan, &l->config, s, err));
    FBY__TRY(check_numbers(&now, s, err));
    bool drops = (s->tail == FBY_TAIL_DROP) != (now.tail == FBY_TAIL_DROP);
    if (drops || (s->tail != now.tail && s->world_size == fby__plan_world_size(l->plan)))
        return fby__fail(err, FBY_E_ARG, "the state was saved with tail '%s', this loader has '%s': the last batch would be another",
                         fby__tail_words[s->tail], fby__tail_words[now.tail]);
    fby__epoch_counts counts;
    FBY__TRY(fby__loader_count(&l->schedule, l->plan, s->epoch, &counts, err));
    /* of a rank that has more batches: one, or with batches by rows any number */
    const uint64_t more = s->tail != FBY_TAIL_UNEVEN ? 0 : s->batch_elements ? s->batch : 1;
    if (s->batch > counts.n_batches + more)
        return fby__fail(err, FBY_E_ARG, "the state says that batch %llu comes next, but an epoch has %llu", (unsigned long long)s->batch,
                         (unsigned long long)counts.n_batches);
    return FBY_OK;
}

fby_status fby_loader_state_set(fby_loader *l, const fby_loader_state *state, fby_error *err)
{
    fby_loader_state full;
    const fby_loader_state *s = &full;
    FBY__TRY(FBY__SIZED_IN(fby_loader_state, fingerprint, state, &full, err));
    FBY__TRY(fby__loader_check_process(l, err));
    if (s->version != FBY_STATE_VERSION)
        return fby__fail(
            err, FBY_E_ARG,
            "the state is of version %u, this library (%s) goes on from version %d, whose order is another one: finish the epoch "
            "with the library that wrote it, or begin the next epoch without the state",
            s->version, fby_version(), FBY_STATE_VERSION);
    if ((unsigned)s->shuffle > FBY_SHUFFLE_NONE || (unsigned)s->tail > FBY_TAIL_UNEVEN || s->tail == FBY_TAIL_AUTO || s->world_size == 0 ||
        !memchr(s->identity, 0, sizeof s->identity) || !memchr(s->fingerprint, 0, sizeof s->fingerprint) ||
        !memchr(s->contents, 0, sizeof s->contents))
        return fby__fail(err, FBY_E_ARG, "the state is damaged: its shuffle, tail, world size or names are none");
    FBY__TRY(check_dataset(&l->sources, s, err));
    FBY__TRY(check_options(l, s, err));
    FBY__TRY(fby__loader_show(l, s->epoch, err));
    FBY__TRY(fby__transform_stop(&l->queue, l->config.depth, true, err));
    fby__loader_uncancel(&l->queue);
    const uint64_t n_batches = fby_loader_batch_count(l);
    l->consumer.next_epoch = s->epoch;
    l->consumer.next_batch = s->batch < n_batches ? s->batch : n_batches;
    l->consumer.began = false;
    return FBY_OK;
}
