/*
 * The sample index on disk: what a scan found, so that it is not done again while the files and the options are the same.
 *
 * <cache dir>/<key>.fbysamples, little-endian, every part padded to 8 bytes. The key is a hash of the dataset's fingerprint and of the
 * options, so a changed file or option is another key; the file is otherwise kept and believed as the index cache is (index.c).
 *
 *   header     "FBYSAMPL", version u32, kind u32, the key (2 × u64), stretches u64, longest stretch u64, longest series u64, blocks u64
 *   windows    the stretches: 4 × u64 each
 *   groups     for each block: starts u32, skip u32, last end u64, bytes u64; its frames and starts
 *   checksum   XXH3-128 of everything before it
 */
#include "base/checked.h"
#include "dataset/dataset_impl.h"
#include "dataset/samples_impl.h"

#include <stdio.h>
#include <string.h>

#define CACHE_VERSION 2u
#define MAX_BYTES ((size_t)1 << 30) /* larger indexes are found anew */

typedef struct header {
    char magic[8];
    uint32_t version, kind;
    fby__hash128 key;
    uint64_t n_stretches, longest_stretch, longest_series, n_blocks;
} header;

typedef struct group_head {
    uint32_t n, skip;
    uint64_t last_end, bytes;
} group_head;

_Static_assert(sizeof(header) == 64 && sizeof(group_head) == 24 && sizeof(fby__stretch) == 48, "the layout on disk");

static const char MAGIC[8] = {'F', 'B', 'Y', 'S', 'A', 'M', 'P', 'L'};

static fby__hash128 key_of(const fby__sample_base *base)
{
    const fby_dataset *ds = base->ds;
    const fby__format_opts *f = &ds->format;
    int numbers[] = {f->axis, f->axes, f->single, f->stored_values};
    fby__hash128 key = fby__hash_more(base->hash, ds->fingerprint, sizeof ds->fingerprint);
    key = fby__hash_more(key, numbers, sizeof numbers);
    if (f->table)
        key = fby__hash_more(key, f->table, strlen(f->table) + 1);
    return f->dimension ? fby__hash_more(key, f->dimension, strlen(f->dimension) + 1) : key;
}

static void file_name(char out[64], fby__hash128 key)
{
    char text[33];
    fby__hash_text(key, text);
    (void)snprintf(out, 64, "%s.fbysamples", text);
}

/* Take n bytes (padded to 8) from the cursor; NULL when they are not there. */
static const uint8_t *take(fby__bytes *cursor, uint64_t n)
{
    if (n > cursor->n || fby__align_up_u64(n, 8) > cursor->n)
        return NULL;
    const uint8_t *p = cursor->data;
    cursor->data += fby__align_up_u64(n, 8);
    cursor->n -= (size_t)fby__align_up_u64(n, 8);
    return p;
}

/* ---- loading ---- */

static fby_status load_stretches(fby__sample_base *base, uint64_t n, fby__bytes *cursor)
{
    uint64_t at = 0, rows = fby_dataset_rows(base->ds);
    if (n > cursor->n / sizeof *base->stretches)
        return FBY_E_FORMAT;
    base->stretches = fby__calloc((size_t)n, sizeof *base->stretches);
    if (!base->stretches)
        return FBY_E_NOMEM;
    memcpy(base->stretches, take(cursor, n * sizeof *base->stretches), (size_t)n * sizeof *base->stretches);
    base->n_stretches = base->cap_stretches = (size_t)n;
    for (uint64_t i = 0; i < n; i++) {
        const fby__stretch *t = &base->stretches[i];
        if (t->begin < at || t->end <= t->begin || t->series_begin > t->begin || t->series_end < t->end || t->whole_begin > t->series_begin || t->whole_end < t->series_end ||
            t->whole_end > rows)
            return FBY_E_FORMAT;
        at = t->end;
    }
    return FBY_OK;
}

/* Do the starts of a block rise, within its rows, and does its last group end within its file? */
static bool groups_hold(const fby__sample_base *base, uint32_t b)
{
    const fby__block_groups *g = &base->groups[b];
    const fby__block *block = fby__dataset_block(base->ds, b);
    uint64_t n_frames = fby__div_up_u64(g->n, FBY__FRAME_GROUPS), rows = block->row_end - block->row_begin, before = 0;
    if (g->n == 0)
        return g->skip == 0 && g->bytes == 0;
    if (g->skip > 1 || n_frames * sizeof *g->frames > g->bytes)
        return false;
    size_t room = (g->bytes - (size_t)n_frames * sizeof *g->frames) / sizeof *g->starts;
    for (uint64_t i = 0; i < g->n; i++) {
        const fby__frame *f = &g->frames[i / FBY__FRAME_GROUPS];
        size_t at = f->at & ~FBY__FRAME_WIDE, k = (size_t)(i % FBY__FRAME_GROUPS) + 1;
        if (at + (f->at & FBY__FRAME_WIDE ? 2 * k : k) > room)
            return false;
        uint64_t start = fby__group_start(g, i);
        if (start >= rows || (i == 0 ? start != 0 : start <= before))
            return false;
        before = start;
    }
    const fby__dataset_file *file = &base->ds->files[block->file];
    const fby__block *last = fby__dataset_block(base->ds, (uint32_t)(file->first_block + file->n_blocks - 1));
    uint64_t file_end = last->first_row + (last->row_end - last->row_begin) - block->first_row;
    return g->n == g->skip || (g->last_end > before && g->last_end <= file_end);
}

static fby_status load_groups(fby__sample_base *base, fby__bytes *cursor)
{
    uint32_t n_blocks = fby__dataset_block_count(base->ds);
    base->groups = fby__calloc(n_blocks, sizeof *base->groups);
    if (!base->groups)
        return FBY_E_NOMEM;
    for (uint32_t b = 0; b < n_blocks; b++) {
        fby__block_groups *g = &base->groups[b];
        group_head head;
        const uint8_t *p = take(cursor, sizeof head), *data;
        if (!p)
            return FBY_E_FORMAT;
        memcpy(&head, p, sizeof head);
        if (!(data = take(cursor, head.bytes)))
            return FBY_E_FORMAT;
        *g = (fby__block_groups){.n = head.n, .skip = head.skip, .last_end = head.last_end, .bytes = (size_t)head.bytes};
        if (head.n && !(g->frames = fby__malloc(g->bytes)))
            return FBY_E_NOMEM;
        if (head.n) {
            memcpy(g->frames, data, g->bytes);
            g->starts = (const uint16_t *)(const void *)(g->frames + fby__div_up_u64(head.n, FBY__FRAME_GROUPS));
        }
        if (!groups_hold(base, b))
            return FBY_E_FORMAT;
    }
    return FBY_OK;
}

static fby_status parse(fby__sample_base *base, const fby__buf *image, fby__hash128 key)
{
    fby__bytes cursor = {image->data, image->n - 16};
    fby__hash128 sum = fby__hash(cursor.data, cursor.n);
    header head;
    memcpy(&head, image->data, sizeof head);
    if (memcmp(image->data + cursor.n, &sum, sizeof sum) != 0 || memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 ||
        head.version != CACHE_VERSION || head.kind != (uint32_t)base->kind || !fby__hash_equal(head.key, key) ||
        head.n_blocks != fby__dataset_block_count(base->ds))
        return FBY_E_FORMAT;
    (void)take(&cursor, sizeof head); /* it is there: the image is as long as that */
    base->longest_stretch = head.longest_stretch;
    base->longest_series = head.longest_series;
    FBY__TRY(base->kind == FBY_SAMPLES_GROUPS ? load_groups(base, &cursor) : load_stretches(base, head.n_stretches, &cursor));
    return cursor.n == 0 ? FBY_OK : FBY_E_FORMAT;
}

fby_status fby__samples_load(fby__sample_base *base, bool *out_found, fby_error *err)
{
    fby__buf image = {0};
    char name[64];
    *out_found = false;
    if (!base->ds->cache_dir)
        return FBY_OK;
    fby__hash128 key = key_of(base);
    file_name(name, key);
    fby_status status = fby__cache_read(base->ds->cache_dir, name, sizeof(header) + 16, &image);
    if (status == FBY_OK)
        status = parse(base, &image, key);
    fby__buf_fini(&image);
    *out_found = status == FBY_OK;
    if (status != FBY_OK)
        fby__sample_base_clear(base);
    return status == FBY_E_NOMEM ? fby__fail_nomem(err, "the samples") : FBY_OK;
}

/* ---- storing ---- */

static int put(fby__buf *out, const void *p, size_t n)
{
    static const uint8_t ZERO[8] = {0};
    return fby__buf_put(out, p, n) != 0 ? -1 : fby__buf_put(out, ZERO, (size_t)(fby__align_up_u64(n, 8) - n));
}

static int make_image(const fby__sample_base *base, fby__hash128 key, fby__buf *out)
{
    header head = {.version = CACHE_VERSION,
                   .kind = (uint32_t)base->kind,
                   .key = key,
                   .n_stretches = base->n_stretches,
                   .longest_stretch = base->longest_stretch,
                   .longest_series = base->longest_series,
                   .n_blocks = fby__dataset_block_count(base->ds)};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    if (put(out, &head, sizeof head) != 0 || put(out, base->stretches, base->n_stretches * sizeof *base->stretches) != 0)
        return -1;
    for (uint32_t b = 0; base->groups && b < head.n_blocks; b++) {
        const fby__block_groups *g = &base->groups[b];
        group_head group = {g->n, g->skip, g->last_end, g->bytes};
        if (put(out, &group, sizeof group) != 0 || put(out, g->frames, g->bytes) != 0)
            return -1;
    }
    fby__hash128 sum = fby__hash(out->data, out->n);
    return fby__buf_put(out, &sum, sizeof sum);
}

static bool is_worth_it(const fby__sample_base *base)
{
    size_t bytes = base->n_stretches * sizeof *base->stretches;
    for (uint32_t b = 0; base->groups && b < fby__dataset_block_count(base->ds); b++)
        bytes += base->groups[b].bytes;
    for (uint32_t i = 0; i < base->ds->n_files; i++)
        if (base->ds->files[i].racy)
            return false;
    return bytes <= MAX_BYTES;
}

void fby__samples_store(const fby__sample_base *base)
{
    fby__buf image = {0};
    char name[64];
    if (!base->ds->cache_dir || !is_worth_it(base))
        return;
    fby__hash128 key = key_of(base);
    file_name(name, key);
    if (make_image(base, key, &image) == 0)
        (void)fby__cache_write(base->ds->cache_dir, name, &image, NULL); /* without it the next scan takes as long as this one */
    fby__buf_fini(&image);
}
