/*
 * Which samples have which key: runs of samples of a block with one value of a column. What parts of an epoch by keys are made of.
 *
 * Values are compared by 64-bit hashes. Two keys that share one (a chance of n² / 2^65 among n) count as one: every sample still has a key,
 * and two keys that are always drawn together harm no part.
 */
#include "samples/values.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"

#include <inttypes.h>
#include <string.h>

/* Samples of a block that follow one another with one hash. */
typedef struct hash_span {
    uint64_t hash, end;
} hash_span;

typedef struct block_hashes {
    _Atomic(uint64_t *) of_sample; /* owned, while the block is open: 0 = none yet; relaxed but where it is made: acq_rel */
    hash_span *spans;              /* owned, when it is closed */
    size_t n, cap;
} block_hashes;

typedef struct gathering {
    const fby__sample_values *values;
    block_hashes *blocks; /* owned: one a block */
    size_t limit;
    _Atomic size_t n; /* runs of all blocks; relaxed: read when the threads are joined, and to give up early */
} gathering;

/* Never 0. A real number that is whole hashes as that number does: 1 and 1.0 are one key. */
static uint64_t hash_of(const fby__value *v)
{
    uint64_t kind = v->kind;
    fby__hash128 h;
    if (v->kind == FBY__VALUE_TEXT) {
        h = fby__hash_more(fby__hash(&kind, sizeof kind), v->text, v->n);
    } else {
        double real = v->kind == FBY__VALUE_FLOAT ? v->real + 0.0 : 0; /* -0 is 0 */
        int64_t number = v->number;
        if (v->kind == FBY__VALUE_FLOAT && real >= -9e15 && real <= 9e15 && (double)(int64_t)real == real) {
            kind = FBY__VALUE_NUMBER;
            number = (int64_t)real;
        } else if (v->kind == FBY__VALUE_FLOAT) {
            memcpy(&number, &real, sizeof number);
        }
        const uint64_t both[] = {kind, (uint64_t)number};
        h = fby__hash(both, sizeof both);
    }
    return h.lo ? h.lo : 1;
}

static uint64_t *open_block(gathering *g, uint32_t b)
{
    _Atomic(uint64_t *) *at = &g->blocks[b].of_sample;
    uint64_t *none = NULL, *hashes = atomic_load_explicit(at, memory_order_acquire);
    if (hashes)
        return hashes;
    hashes = fby__calloc((size_t)fby__samples_of_block(g->values->s, b), sizeof *hashes);
    if (!hashes || atomic_compare_exchange_strong_explicit(at, &none, hashes, memory_order_acq_rel, memory_order_acquire))
        return hashes;
    fby__free(hashes); /* another thread was first */
    return none;
}

static fby_status no_key(const gathering *g, uint32_t b, uint64_t i, fby_error *err)
{
    const fby_samples *s = g->values->s;
    const fby__block *block = fby__dataset_block(s->base->ds, b);
    uint64_t row, rows;
    fby__samples_at(s, b, i, &row, &rows);
    const fby__file_row at = fby__dataset_file_row(s->base->ds, block->first_row + row);
    return fby__fail(err, FBY_E_DATA,
                     "%s: '%s' is missing in row %llu of the %s, where a sample begins: parts of an epoch by keys need the key of every "
                     "sample. Fill it, or leave such samples out (select)",
                     at.path, g->values->name, at.row, at.of);
}

static fby_status put_hash(void *user, uint32_t b, uint64_t i, const fby__value *value, fby_error *err)
{
    gathering *g = user;
    uint64_t *hashes = open_block(g, b);
    if (!hashes)
        return fby__fail_nomem(err, "the keys of the samples");
    if (value->kind == FBY__VALUE_MISSING)
        return no_key(g, b, i, err);
    hashes[i] = hash_of(value);
    return FBY_OK;
}

static fby_status close_block(void *user, uint32_t b, fby_error *err)
{
    gathering *g = user;
    block_hashes *block = &g->blocks[b];
    uint64_t *hashes = atomic_load_explicit(&block->of_sample, memory_order_acquire);
    const uint64_t n = fby__samples_of_block(g->values->s, b);
    fby_status status = hashes ? FBY_OK : no_key(g, b, 0, err);
    for (uint64_t i = 0; i < n && status == FBY_OK; i++) {
        if ((status = fby__cancel_check_at(i, err)) != FBY_OK)
            break;
        if (hashes[i] == 0) { /* a group that the index table does not have */
            status = no_key(g, b, i, err);
        } else if (block->n && block->spans[block->n - 1].hash == hashes[i]) {
            block->spans[block->n - 1].end = i + 1;
        } else if (fby__grow((void **)&block->spans, &block->cap, block->n + 1, sizeof *block->spans) != 0) {
            status = fby__fail_nomem(err, "the keys of the samples");
        } else {
            block->spans[block->n++] = (hash_span){hashes[i], i + 1};
        }
    }
    fby__free(hashes);
    atomic_store_explicit(&block->of_sample, NULL, memory_order_relaxed);
    const size_t before = atomic_fetch_add_explicit(&g->n, block->n, memory_order_relaxed);
    if (status == FBY_OK && before + block->n > g->limit)
        status = fby__fail(
            err, FBY_E_UNSUPPORTED,
            "the samples of each '%s' lie scattered: more than %zu runs of samples with one key. Sort the data by the key, name a "
            "coarser one, or make parts of files",
            g->values->name, g->limit);
    return status;
}

/* Keys are numbered as they appear; runs of all blocks, in order. */
static fby_status number_keys(const gathering *g, uint32_t n_blocks, fby__key_spans *out, fby_error *err)
{
    size_t n = atomic_load_explicit(&g->n, memory_order_relaxed), n_slots = 16, at = 0;
    fby_status status = FBY_OK;
    while (n_slots < 2 * n)
        n_slots *= 2;
    uint64_t *hash = fby__calloc(n_slots, sizeof *hash);
    uint32_t *key = fby__calloc(n_slots, sizeof *key);
    out->spans = fby__calloc(n, sizeof *out->spans);
    if (hash && key && out->spans)
        for (uint32_t b = 0; b < n_blocks; b++)
            for (size_t i = 0; i < g->blocks[b].n; i++) {
                if ((status = fby__cancel_check_at(at, err)) != FBY_OK)
                    goto done;
                const hash_span *span = &g->blocks[b].spans[i];
                size_t slot = (size_t)fby__table_hash_u64(span->hash) & (n_slots - 1);
                while (hash[slot] && hash[slot] != span->hash)
                    slot = (slot + 1) & (n_slots - 1);
                if (!hash[slot]) {
                    hash[slot] = span->hash;
                    key[slot] = out->n_keys++;
                }
                out->spans[at++] =
                    (fby__key_span){.block = b, .key = key[slot], .lo = i ? g->blocks[b].spans[i - 1].end : 0, .hi = span->end};
            }
    out->n = at;
    if (!hash || !key || !out->spans)
        status = fby__fail_nomem(err, "the keys of the samples");
done:
    fby__free(hash);
    fby__free(key);
    return status;
}

fby_status fby__samples_key_spans(const fby_samples *s, const char *column, size_t limit, int n_threads, fby__key_spans *out,
                                  fby_error *err)
{
    fby__sample_values values;
    const uint32_t n_blocks = fby__dataset_block_count(s->base->ds);
    FBY__TRY(fby__sample_values_init(&values, s, column, err));
    gathering g = {.values = &values, .limit = limit, .blocks = fby__calloc(n_blocks, sizeof *g.blocks)};
    const fby__value_visit visit = {.n_threads = n_threads, .user = &g, .visit = put_hash, .block = close_block};
    *out = (fby__key_spans){0};
    fby_status status = g.blocks ? fby__sample_values_visit(&values, &visit, err) : fby__fail_nomem(err, "the keys of the samples");
    if (status == FBY_OK)
        status = number_keys(&g, n_blocks, out, err);
    for (uint32_t b = 0; g.blocks && b < n_blocks; b++) {
        fby__free(atomic_load_explicit(&g.blocks[b].of_sample, memory_order_relaxed));
        fby__free(g.blocks[b].spans);
    }
    fby__free(g.blocks);
    if (status != FBY_OK)
        fby__key_spans_fini(out);
    return status;
}

void fby__key_spans_fini(fby__key_spans *spans)
{
    fby__free(spans->spans);
    *spans = (fby__key_spans){0};
}
