/*
 * Blocks of an HDF5 table, and what one column of some rows costs: all from the chunk list.
 *
 * A set's chunks lie in a grid over all its axes. Along the row axes they come in layers: the rows between two borders that no chunk
 * crosses. With one row axis a layer is `chunk` rows; with several (cells) it is a run along the first axis whose chunk is
 * longer than 1, all later axes included:
 *
 *     dims (100, 64, 64), axes 3:  chunk (1, 64, 64) → 4,096 rows    (1, 16, 64) → 1,024    (10, 16, 16) → 40,960
 */
#include "base/checked.h"
#include "format/hdf5/table/table_internal.h"

#include <pthread.h>
#include <stdio.h>

#define MAX_BLOCKS ((uint64_t)1 << 22)    /* of a file: 4 TiB in blocks of 1 MiB */
#define MAX_UNWRITTEN ((uint64_t)1 << 12) /* of a file, for rows that nothing was written of */
#define MAX_ELSEWHERE ((uint64_t)1 << 16) /* of a set that the helper reads: what is written of it, and where, is not known */
#define MIN_DECODED ((uint64_t)1 << 20)   /* of a block: less is not worth a task, a request and an entry of the cache */
#define MAX_STORED ((uint64_t)64 << 20)   /* of a block, unless one layer has more */
#define MAX_ALIGNED ((uint64_t)8 << 20)   /* stored bytes to which a block grows so that the chunks of all sets end with it */
#define MAX_ALIGNED_TIMES 8u

/* The row axis on which layers are counted. */
static uint32_t layer_axis(const fby__h5_set *s)
{
    uint32_t last = s->axis + s->axes - 1, i = s->axis;
    while (i < last && s->chunk[i] == 1)
        i++;
    /* A border at the end of the axis, where the last chunk is cut off, must be a border of a layer too. */
    if (i > s->axis && s->dims[i] % s->chunk[i] != 0)
        i--;
    return i;
}

static uint64_t add_capped(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

uint64_t fby__h5_set_step(const fby__h5_set *set)
{
    if (set->layout != FBY__H5_CHUNKED)
        return 0;
    uint32_t i = layer_axis(set);
    uint64_t step = fby__h5_mul_capped(set->chunk[i], set->repeat);
    while (++i < set->axis + set->axes)
        step = fby__h5_mul_capped(step, set->dims[i]);
    return step;
}

/* Chunks of one layer. */
static uint64_t layer_chunks(const fby__h5_set *s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        if (i < s->axis || i > layer_axis(s))
            n = fby__h5_mul_capped(n, s->grid[i]);
    return n;
}

static uint64_t chunk_bytes(const fby__h5_set *s)
{
    uint64_t n = s->type->bytes;
    for (uint32_t i = 0; i < s->rank; i++)
        n = fby__h5_mul_capped(n, s->chunk[i]);
    return n;
}

/* The result and what is converted to it, a chunk between its filters and those that are kept. */
uint64_t fby__h5_helper_bytes(const fby__h5_set *s, uint64_t slab_bytes)
{
    return add_capped(fby__h5_mul_capped(slab_bytes, 2), s->layout == FBY__H5_CHUNKED ? fby__h5_mul_capped(chunk_bytes(s), 4) : 0);
}

static uint64_t decoded_bytes(const fby__h5_set *s, uint64_t rows)
{
    return fby__h5_mul_capped(fby__h5_mul_capped(fby__div_up_u64(rows, s->repeat), s->row_elements), s->type->bytes);
}

/* ---- cutting ---- */

typedef struct sums {
    uint64_t rows, decoded, stored; /* the whole table's */
} sums;

static uint64_t share(uint64_t whole, uint64_t rows, uint64_t all_rows) { return (uint64_t)((unsigned __int128)whole * rows / all_rows); }

/* Does every other set's layer end where a block of so many rows does? Sets of one layer have no border to meet. */
static bool meets_all(const fby__h5_table *t, uint64_t block, uint64_t rows)
{
    for (uint32_t i = 0; i < t->n_sets; i++) {
        uint64_t step = fby__h5_set_step(&t->sets[i]);
        if (step > 0 && step < rows && block % step != 0)
            return false;
    }
    return true;
}

static uint64_t block_rows(const fby__h5_table *t, const sums *s, uint64_t unit)
{
    /* Rows of MIN_DECODED, rounded up to whole units: at least one of each. */
    uint64_t enough = s->decoded > MIN_DECODED ? share(s->rows, MIN_DECODED, s->decoded) : s->rows;
    uint64_t block = fby__h5_mul_capped(fby__div_up_u64(enough > 0 ? enough : 1, unit), unit);
    if (block >= s->rows)
        block = s->rows;
    if (share(s->stored, block, s->rows) > MAX_STORED)
        block = fby__max_u64(share(s->rows, MAX_STORED, s->stored) / unit, 1) * unit;
    for (uint64_t k = 1; k <= MAX_ALIGNED_TIMES; k++) {
        uint64_t more = fby__h5_mul_capped(block, k);
        if (k > 1 && (more >= s->rows || share(s->stored, more, s->rows) > MAX_ALIGNED))
            break;
        if (meets_all(t, more, s->rows))
            return more;
    }
    return block;
}

/*
 * An extent is only a claim: 2^50 rows that were never written would be a list of blocks larger than memory. Blocks are no more than
 * the file can have: a layer has a chunk at least, a contiguous set its bytes.
 */
static uint64_t most_blocks(const fby__h5_table *t)
{
    uint64_t most = MAX_UNWRITTEN;
    for (uint32_t i = 0; i < t->n_sets; i++) {
        const fby__h5_set *s = &t->sets[i];
        const uint64_t n = s->way == FBY__H5_HELPER ? MAX_ELSEWHERE : fby__max_u64(s->n_chunks, s->stored_bytes / MIN_DECODED);
        most = fby__min_u64(most + fby__min_u64(n, MAX_BLOCKS), MAX_BLOCKS);
    }
    return most;
}

void fby__h5_cut(const fby__h5_table *table, fby__group *out)
{
    sums s = {table->base.n_rows, 0, 0};
    const fby__h5_set *largest = NULL;
    uint64_t most = 0;
    for (uint32_t i = 0; i < table->n_sets; i++) {
        const fby__h5_set *set = &table->sets[i];
        uint64_t bytes = decoded_bytes(set, s.rows);
        if (!fby__add_u64_checked(s.decoded, bytes, &s.decoded))
            s.decoded = UINT64_MAX;
        if (!fby__add_u64_checked(s.stored, set->stored_bytes, &s.stored))
            s.stored = UINT64_MAX;
        if (!largest || bytes > most) {
            largest = set;
            most = bytes;
        }
    }
    *out = (fby__group){.rows = s.rows, .stored_bytes = s.stored};
    if (s.rows == 0 || !largest)
        return;
    uint64_t step = fby__h5_set_step(largest);
    step = step < s.rows ? step : 0; /* one layer: there is no border inside */
    out->block_rows = block_rows(table, &s, step ? step : 1);
    out->step_rows = step;
    const uint64_t n_blocks = most_blocks(table);
    if (s.rows / out->block_rows >= n_blocks)
        out->block_rows = fby__div_up_u64(s.rows, n_blocks);
}

/* ---- one leaf in some rows ---- */

/* The touched box of the grid of chunks, first and last along each axis. Upper bound where rows begin or end inside a layer of cells. */
static void touched_box(const fby__h5_set *s, uint64_t begin, uint64_t end, uint64_t *lo, uint64_t *hi)
{
    uint64_t first, last, inner = 1;
    fby__h5_indices(s, begin, end, &first, &last);
    last--; /* end > begin */
    for (uint32_t i = 0; i < s->rank; i++) {
        lo[i] = 0;
        hi[i] = s->grid[i] - 1;
    }
    for (uint32_t i = s->axis + 1; i < s->axis + s->axes; i++)
        inner *= s->dims[i]; /* at most the table's rows */
    for (uint32_t i = s->axis; i < s->axis + s->axes; i++) {
        uint64_t a = first / inner, b = last / inner;
        lo[i] = a / s->chunk[i];
        hi[i] = b / s->chunk[i];
        if (a != b)
            break; /* later axes run through their ends */
        first %= inner;
        last %= inner;
        inner /= i + 1 < s->axis + s->axes ? s->dims[i + 1] : 1;
    }
}

typedef struct touched {
    uint64_t n, stored;
} touched;

static size_t lower_bound(const fby__h5_set *s, uint64_t number)
{
    size_t lo = 0, hi = s->n_chunks;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->chunks[mid].number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool inside(const fby__h5_set *s, uint64_t number, const uint64_t *lo, const uint64_t *hi)
{
    for (uint32_t i = s->rank; i-- > 0;) {
        uint64_t at = number % s->grid[i];
        number /= s->grid[i];
        if (at < lo[i] || at > hi[i])
            return false;
    }
    return true;
}

/*
 * Sum over the box's chunks. Chunks of the box follow each other in the list in runs: one run for each place along the axes before
 * the last one that the box cuts. When there are more runs than chunks, the list is walked instead.
 */
static touched sum_box(const fby__h5_set *s, const uint64_t *lo, const uint64_t *hi)
{
    touched t = {0, 0};
    uint32_t cut = s->rank; /* axes from here on are whole */
    uint64_t whole = 1, runs = 1;
    while (cut > 0 && lo[cut - 1] == 0 && hi[cut - 1] == s->grid[cut - 1] - 1)
        whole *= s->grid[--cut];
    for (uint32_t i = 0; i + 1 < cut; i++)
        runs = fby__h5_mul_capped(runs, hi[i] - lo[i] + 1);
    if (runs > s->n_chunks) {
        for (uint64_t k = 0; k < s->n_chunks; k++)
            if (inside(s, s->chunks[k].number, lo, hi)) {
                t.n++;
                t.stored += s->chunks[k].bytes;
            }
        return t;
    }
    uint64_t at[FBY__H5_MAX_RANK] = {0};
    for (uint32_t i = 0; i + 1 < cut; i++)
        at[i] = lo[i];
    for (uint64_t run = 0; run < runs; run++) {
        uint64_t number = 0, last = 0;
        if (cut > 0) {
            for (uint32_t i = 0; i + 1 < cut; i++)
                number = number * s->grid[i] + at[i];
            last = (number * s->grid[cut - 1] + hi[cut - 1]) * whole + (whole - 1);
            number = (number * s->grid[cut - 1] + lo[cut - 1]) * whole;
        } else {
            last = whole - 1;
        }
        for (size_t k = lower_bound(s, number); k < s->n_chunks && s->chunks[k].number <= last; k++) {
            t.n++;
            t.stored += s->chunks[k].bytes;
        }
        for (uint32_t i = cut; i-- > 1;) { /* the next place, last axis first */
            if (++at[i - 1] <= hi[i - 1])
                break;
            at[i - 1] = lo[i - 1];
        }
    }
    return t;
}

/* Chunks of the layers that hold rows of [begin, end) and others. */
static uint64_t shared_chunks(const fby__h5_set *s, uint64_t begin, uint64_t end, uint64_t rows)
{
    uint64_t step = fby__h5_set_step(s);
    bool front = begin % step != 0, back = end % step != 0 && end != rows;
    uint64_t layers = begin / step == (end - 1) / step ? (front || back) : (uint64_t)front + back;
    return fby__h5_mul_capped(layers, layer_chunks(s));
}

void fby__h5_leaf_bounds(const fby__table *base, uint32_t group, uint64_t row_begin, uint64_t row_end, uint32_t leaf, fby__leaf_bounds *out)
{
    (void)group; /* there is one */
    const fby__h5_table *table = fby__h5_table_of(base);
    const fby__h5_leaf *l = &table->leaves[leaf];
    const fby__h5_set *s = &table->sets[l->set];
    *out = (fby__leaf_bounds){0};
    if (row_begin >= row_end)
        return;
    uint64_t rows = row_end - row_begin;
    bool heap = l->value == FBY__H5_VALUE_VLEN_STRING || l->value == FBY__H5_VALUE_VLEN_LIST || l->value == FBY__H5_VALUE_NESTED;
    out->n_values = fby__h5_mul_capped(fby__h5_mul_capped(rows, s->row_elements), l->elements);
    uint64_t first, last;
    fby__h5_indices(s, row_begin, row_end, &first, &last);
    uint64_t bytes = fby__h5_mul_capped(fby__h5_mul_capped(last - first, s->row_elements), s->type->bytes);
    out->uncompressed_bytes = bytes;
    if (s->way == FBY__H5_HELPER) {
        const uint64_t row = fby__h5_mul_capped(s->row_elements, s->type->bytes);
        const uint64_t slab = fby__min_u64(bytes, fby__max_u64(FBY__H5_SLAB_BYTES, row));
        out->compressed_bytes = bytes;
        out->scratch_bytes = add_capped(slab, fby__h5_helper_bytes(s, slab));
    } else if (s->layout == FBY__H5_CONTIGUOUS) {
        out->one_value = s->data_offset == FBY__H5_UNDEFINED;
        out->compressed_bytes = out->one_value ? 0 : bytes;
    } else if (s->layout == FBY__H5_CHUNKED) {
        uint64_t lo[FBY__H5_MAX_RANK], hi[FBY__H5_MAX_RANK], chunk = chunk_bytes(s);
        touched_box(s, row_begin, row_end, lo, hi);
        touched t = sum_box(s, lo, hi);
        out->one_value = t.n == 0;
        out->compressed_bytes = t.stored;
        out->uncompressed_bytes = fby__h5_mul_capped(t.n, chunk);
        out->scratch_bytes = fby__h5_mul_capped(chunk, 1 + fby__filters_buffers(s->filters, s->n_filters));
        out->shared_bytes = fby__h5_mul_capped(fby__min_u64(shared_chunks(s, row_begin, row_end, base->n_rows), t.n),
                                               chunk < SIZE_MAX / 4 ? fby__chunk_store_bytes((size_t)chunk) : chunk);
    }
    if (heap)
        out->scratch_bytes += fby__min_u64(FBY__H5_GLOBAL_CACHE_BYTES, table->file_bytes);
}

/* ---- for people ---- */

/*
 * fby_chunk_info.codec is static text, and the table may be gone when it is read; so the pipelines met in this process are kept for
 * good. There are few: beyond MAX_TEXTS the text says only that there are several filters.
 */
#define MAX_TEXTS 64
static struct {
    pthread_mutex_t lock; /* guards the rest */
    unsigned n;
    char text[MAX_TEXTS][128];
} pipelines = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *keep_text(const char *text)
{
    const char *kept = "several filters";
    pthread_mutex_lock(&pipelines.lock);
    unsigned i = 0;
    while (i < pipelines.n && strcmp(pipelines.text[i], text) != 0)
        i++;
    if (i < MAX_TEXTS) {
        if (i == pipelines.n) {
            memcpy(pipelines.text[i], text, strlen(text) + 1);
            pipelines.n++;
        }
        kept = pipelines.text[i];
    }
    pthread_mutex_unlock(&pipelines.lock);
    return kept;
}

/* "shuffle+deflate": as they were applied. */
static const char *pipeline_text(const fby__h5_set *s)
{
    char text[sizeof *pipelines.text] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_filters; i++) {
        const char *name = fby__filter_name(s->filters[i].id);
        char number[24];
        (void)snprintf(number, sizeof number, "filter %u", s->filters[i].id);
        int k = snprintf(text + n, sizeof text - n, "%s%s", i ? "+" : "", name ? name : number);
        if (k < 0 || (size_t)k >= sizeof text - n)
            return "several filters";
        n += (size_t)k;
    }
    return n ? keep_text(text) : "none";
}

fby_status fby__h5_describe(const fby__table *base, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out, fby_error *err)
{
    (void)file; /* the table knows all there is */
    if (group >= base->n_groups || leaf >= base->schema->n_leaves)
        return fby__fail(err, FBY_E_ARG, "group %u or leaf %u does not exist", group, leaf);
    const fby__h5_table *table = fby__h5_table_of(base);
    const fby__h5_leaf *l = &table->leaves[leaf];
    const fby__h5_set *s = &table->sets[l->set];
    /* A member's share of its compound, so that the leaves of a table add up to what is stored. */
    uint64_t part = fby__h5_leaf_bytes(table, l);
    *out = (fby_chunk_info){
        .codec = pipeline_text(s),
        .n_values = fby__h5_mul_capped(fby__h5_mul_capped(base->n_rows, s->row_elements), l->elements),
        .compressed_bytes = share(s->stored_bytes, part, s->type->bytes),
        .uncompressed_bytes = share(decoded_bytes(s, base->n_rows), part, s->type->bytes),
        .n_pages = s->layout == FBY__H5_CHUNKED && s->way == FBY__H5_DIRECT ? (int64_t)s->n_chunks : 1,
        .n_dictionary_values = -1,
        .null_count = fby__h5_leaf_can_miss(l) ? -1 : 0,
    };
    for (uint32_t i = 0; i < s->n_filters; i++)
        out->has_crc |= s->filters[i].id == FBY__FILTER_FLETCHER32;
    return FBY_OK;
}
