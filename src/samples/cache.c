/*
 * The sample index on disk: what a scan found, so that it is not done again while the files and the options are the same. And choices of
 * samples: what a step (select, oversample, resample, split by keys) chose after it had read a column.
 *
 * <cache dir>/<key>.fbysamples, little-endian, every part padded to 8 bytes. The key is a hash of the files' stamps and of the options,
 * so a changed file or option is another key; the file is otherwise kept and believed as dataset/cache_file.c says.
 *
 *   header     "FBYSAMPL", version u32, kind u32, the key (2 × u64), stretches u64, longest stretch u64, longest series u64, blocks u64,
 *              windows with missing values: all u64, left out u64, files without others u32, the first of them u32; runs of a key that were
 *              looked at: all, their rows, those whose key came before: u64 each
 *   windows    the stretches: 4 × u64 each
 *   groups     for each block: starts u32, skip u32, last end u64, bytes u64; its frames and starts
 *
 * <cache dir>/<key>.fbychoice, the same way. The key is a hash of the samples that were chosen from and of what the step was asked for.
 *
 *   header     "FBYCHOIC", version u32, blocks u32, the key (2 × u64)
 *   choice     for each block: entries u64, some u32, low bits u32, begin of high and of low parts u32, words u32, 0; its words
 */
#include "base/checked.h"
#include "samples/samples_impl.h"

#include <stdio.h>
#include <string.h>

#define CACHE_VERSION 6u
#define CHOICE_VERSION 4u
#define MIN_SAMPLES 4096u /* reading a column for fewer, in fewer than MIN_BLOCKS, takes no longer than writing what came out */
#define MIN_BLOCKS 64u
#define MAX_BYTES ((size_t)1 << 30) /* larger indexes are found anew */

typedef struct header {
    char magic[8];
    uint32_t version, kind;
    fby__hash128 key;
    uint64_t n_stretches, longest_stretch, longest_series, n_blocks;
    fby__dropped dropped;
    fby__scattered scattered;
} header;

typedef struct group_head {
    uint32_t n, skip;
    uint64_t last_end, bytes;
} group_head;

_Static_assert(sizeof(header) == 112 && sizeof(group_head) == 24 && sizeof(fby__stretch) == 48, "the layout on disk");

static const char MAGIC[8] = {'F', 'B', 'Y', 'S', 'A', 'M', 'P', 'L'};

static fby__hash128 key_of(const fby__sample_base *base) { return fby__dataset_hash(base->hash, base->ds); }

static void file_name(char out[64], fby__hash128 key, const char *kind)
{
    char text[33];
    fby__hash_text(key, text);
    (void)snprintf(out, 64, "%s.%s", text, kind);
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
    memcpy(base->stretches, fby__bytes_next_padded(cursor, n * sizeof *base->stretches), (size_t)n * sizeof *base->stretches);
    base->n_stretches = base->cap_stretches = (size_t)n;
    for (uint64_t i = 0; i < n; i++) {
        const fby__stretch *t = &base->stretches[i];
        if (t->begin < at || t->end <= t->begin || t->series_begin > t->begin || t->series_end < t->end ||
            t->whole_begin > t->series_begin || t->whole_end < t->series_end || t->whole_end > rows)
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
    uint64_t file_end = fby__dataset_facts(base->ds, block->file).end_row - block->first_row;
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
        const uint8_t *p = fby__bytes_next_padded(cursor, sizeof head), *data;
        if (!p)
            return FBY_E_FORMAT;
        memcpy(&head, p, sizeof head);
        if (!(data = fby__bytes_next_padded(cursor, head.bytes)))
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
    fby__bytes cursor = {image->data, image->n};
    header head;
    memcpy(&head, image->data, sizeof head);
    if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 || head.version != CACHE_VERSION || head.kind != (uint32_t)base->kind ||
        !fby__hash_equal(head.key, key) || head.n_blocks != fby__dataset_block_count(base->ds) ||
        (head.dropped.files && head.dropped.first_file >= fby__dataset_file_count(base->ds)))
        return FBY_E_FORMAT;
    base->dropped = head.dropped;
    base->scattered = head.scattered;
    (void)fby__bytes_next_padded(&cursor, sizeof head); /* it is there: the image is as long as that */
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
    if (!fby__dataset_cache_dir(base->ds))
        return FBY_OK;
    fby__hash128 key = key_of(base);
    file_name(name, key, "fbysamples");
    fby_status status = fby__cache_read(fby__dataset_cache_dir(base->ds), name, sizeof(header), &image);
    if (status == FBY_OK)
        status = parse(base, &image, key);
    fby__buf_fini(&image);
    *out_found = status == FBY_OK;
    if (status != FBY_OK)
        fby__sample_base_clear(base);
    if (status == FBY_E_STATE)
        return fby__notes_put(&base->notes, err, "a sample index in the cache folder '%s' was not used: " FBY__CACHE_FOREIGN,
                              fby__dataset_cache_dir(base->ds));
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
                   .n_blocks = fby__dataset_block_count(base->ds),
                   .dropped = base->dropped,
                   .scattered = base->scattered};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    if (put(out, &head, sizeof head) != 0 || put(out, base->stretches, base->n_stretches * sizeof *base->stretches) != 0)
        return -1;
    for (uint32_t b = 0; base->groups && b < head.n_blocks; b++) {
        const fby__block_groups *g = &base->groups[b];
        group_head group = {g->n, g->skip, g->last_end, g->bytes};
        if (put(out, &group, sizeof group) != 0 || put(out, g->frames, g->bytes) != 0)
            return -1;
    }
    return 0;
}

static bool is_worth_it(const fby__sample_base *base)
{
    size_t bytes = base->n_stretches * sizeof *base->stretches;
    for (uint32_t b = 0; base->groups && b < fby__dataset_block_count(base->ds); b++)
        bytes += base->groups[b].bytes;
    return bytes <= MAX_BYTES && fby__dataset_is_settled(base->ds);
}

void fby__samples_store(const fby__sample_base *base)
{
    fby__buf image = {0};
    char name[64];
    if (!is_worth_it(base))
        return;
    fby__hash128 key = key_of(base);
    file_name(name, key, "fbysamples");
    if (make_image(base, key, &image) == 0)
        (void)fby__cache_write(fby__dataset_cache_dir(base->ds), name, &image,
                               NULL); /* without it the next scan takes as long as this one */
    fby__buf_fini(&image);
}

/* ---- choices ---- */

typedef struct choice_header {
    char magic[8];
    uint32_t version, n_blocks;
    fby__hash128 key;
} choice_header;

typedef struct chosen_head {
    uint64_t n;
    uint32_t some, low_bits, high_at, low_at, n_words, zero;
} chosen_head;

_Static_assert(sizeof(choice_header) == 32 && sizeof(chosen_head) == 32, "the layout on disk");

static const char CHOICE_MAGIC[8] = {'F', 'B', 'Y', 'C', 'H', 'O', 'I', 'C'};

void fby__choice_key_bytes(fby__choice_key *k, const void *p, size_t n)
{
    uint64_t head = n; /* so that two texts are not one */
    k->hash = fby__hash_more(k->hash, &head, sizeof head);
    if (n)
        k->hash = fby__hash_more(k->hash, p, n);
}

void fby__choice_key_text(fby__choice_key *k, const char *text) { fby__choice_key_bytes(k, text, text ? strlen(text) + 1 : 0); }

void fby__choice_key_values(fby__choice_key *k, const fby_values *values)
{
    fby__choice_key_bytes(k, &values->n, sizeof values->n);
    fby__choice_key_bytes(k, values->numbers, values->numbers ? values->n * sizeof *values->numbers : 0);
    for (size_t i = 0; values->texts && i < values->n; i++)
        fby__choice_key_text(k, values->texts[i]);
}

void fby__choice_key_table(fby__choice_key *k, const fby_dataset *table)
{
    if (!table)
        return;
    k->usable &= fby__dataset_is_settled(table);
    fby__hash128 of = fby__dataset_hash((fby__hash128){0}, table);
    fby__choice_key_bytes(k, &of, sizeof of);
}

fby__choice_key fby__choice_key_of(const fby_samples *s, const char *step)
{
    const fby_dataset *ds = s->base->ds;
    fby__choice_key k = {
        .usable = fby__dataset_is_settled(ds) && (fby_samples_count(s) >= MIN_SAMPLES || fby__dataset_block_count(ds) >= MIN_BLOCKS),
        .hash = key_of(s->base),
    };
    fby__choice_key_text(&k, s->identity);
    fby__choice_key_table(&k, s->base->table.ds);
    fby__choice_key_text(&k, step);
    return k;
}

/* The samples without a choice: what its numbers are of. */
static fby_status view_of(const fby_samples *s, fby_samples **out, fby_error *err)
{
    fby__sample_view view = fby__samples_view(s);
    return fby__samples_create(s->base, &view, NULL, out, err);
}

/* Does the list hold n numbers that never fall, below `below`, found from the positions that it says? */
static bool list_holds(const fby__chosen *c, uint64_t below)
{
    const uint64_t *high = c->words + c->high_at;
    uint64_t i = 0, before = 0, n_low = fby__div_up_u64(c->n * c->low_bits, 64) + 1;
    if (c->low_bits > 32 || c->high_at != fby__div_up_u64(fby__div_up_u64(c->n, FBY__CHOSEN_STEP), 2) || c->low_at < c->high_at ||
        c->low_at > c->n_words || c->n_words - c->low_at < n_low)
        return false;
    for (uint64_t w = 0; w < c->low_at - c->high_at; w++)
        for (uint64_t word = high[w]; word; word &= word - 1, i++) {
            uint64_t position = w * 64 + (uint32_t)__builtin_ctzll(word);
            if (i >= c->n || position < i ||
                (i % FBY__CHOSEN_STEP == 0 &&
                 (c->words[i / FBY__CHOSEN_STEP / 2] >> (i / FBY__CHOSEN_STEP % 2 * 32) & UINT32_MAX) != position))
                return false;
            uint64_t value = (position - i) << c->low_bits | fby__chosen_low_part(c, i);
            if (value < before || value >= below)
                return false;
            before = value;
        }
    return i == c->n;
}

static fby_status load_chosen(fby__chosen *c, uint64_t below, fby__bytes *cursor)
{
    chosen_head head;
    const uint8_t *p = fby__bytes_next_padded(cursor, sizeof head), *words;
    if (!p)
        return FBY_E_FORMAT;
    memcpy(&head, p, sizeof head);
    if (head.some > 1 || (!head.some && (head.n || head.n_words)) || !head.n != !head.n_words || head.n > FBY__MAX_CHOSEN ||
        !(words = fby__bytes_next_padded(cursor, (uint64_t)head.n_words * sizeof *c->words)))
        return FBY_E_FORMAT;
    *c = (fby__chosen){.some = head.some};
    if (head.n == 0)
        return FBY_OK;
    if (!(c->words = fby__malloc((size_t)head.n_words * sizeof *c->words)))
        return FBY_E_NOMEM;
    memcpy(c->words, words, (size_t)head.n_words * sizeof *c->words);
    c->n = head.n;
    c->n_words = head.n_words;
    c->high_at = head.high_at;
    c->low_at = head.low_at;
    c->low_bits = head.low_bits;
    return list_holds(c, below) ? FBY_OK : FBY_E_FORMAT;
}

static fby_status parse_choice(const fby__buf *image, fby__hash128 key, const fby_samples *view, fby__choice *choice)
{
    fby__bytes cursor = {image->data, image->n};
    choice_header head;
    memcpy(&head, image->data, sizeof head);
    if (memcmp(head.magic, CHOICE_MAGIC, sizeof CHOICE_MAGIC) != 0 || head.version != CHOICE_VERSION || head.n_blocks != choice->n_blocks ||
        !fby__hash_equal(head.key, key))
        return FBY_E_FORMAT;
    (void)fby__bytes_next_padded(&cursor, sizeof head); /* it is there: the image is as long as that */
    for (uint32_t b = 0; b < choice->n_blocks; b++)
        FBY__TRY(load_chosen(&choice->blocks[b], fby__samples_of_block(view, b), &cursor));
    return cursor.n == 0 ? FBY_OK : FBY_E_FORMAT;
}

/* Other threads may choose of the same samples: the first one's note stays. */
static fby_status note_foreign_choice(fby__sample_base *base, fby_error *err)
{
    char *none = NULL;
    fby__notes one = {0};
    fby_status status = fby__notes_put(&one, err, "a choice of samples in the cache folder '%s' was not used: " FBY__CACHE_FOREIGN,
                                       fby__dataset_cache_dir(base->ds));
    if (status == FBY_OK &&
        atomic_compare_exchange_strong_explicit(&base->choice_note, &none, one.text[0], memory_order_acq_rel, memory_order_acquire))
        one.n = 0;
    fby__notes_fini(&one);
    return status;
}

fby_status fby__choice_load(const fby__choice_key *k, const fby_samples *s, fby_samples **out, bool *out_found, fby_error *err)
{
    fby__buf image = {0};
    fby_samples *view = NULL, *chosen = NULL;
    char name[64];
    *out_found = false;
    if (!k->usable)
        return FBY_OK;
    file_name(name, k->hash, "fbychoice");
    fby_status status = fby__cache_read(fby__dataset_cache_dir(s->base->ds), name, sizeof(choice_header), &image);
    if (status == FBY_OK && s->choice)
        status = view_of(s, &view, err);
    fby__choice *choice = status == FBY_OK ? fby__choice_create(fby__dataset_block_count(s->base->ds)) : NULL;
    if (status == FBY_OK)
        status = choice ? parse_choice(&image, k->hash, view ? view : s, choice) : FBY_E_NOMEM;
    if (status == FBY_OK)
        status = fby__samples_choose(s, choice, &chosen, err); /* takes the choice */
    else
        fby__choice_unref(choice);
    fby_samples_close(view);
    fby__buf_fini(&image);
    if (status == FBY_OK && fby_samples_count(chosen) == 0) { /* never stored */
        fby_samples_close(chosen);
        return FBY_OK;
    }
    if (status == FBY_OK) {
        *out = chosen;
        *out_found = true;
    }
    if (status == FBY_E_STATE)
        return note_foreign_choice(s->base, err);
    return status == FBY_E_NOMEM ? fby__fail_nomem(err, "the samples") : FBY_OK;
}

void fby__choice_store(const fby__choice_key *k, const fby_samples *chosen)
{
    static const fby__chosen ALL;
    const fby__choice *choice = chosen->choice;
    choice_header head = {.version = CHOICE_VERSION, .n_blocks = fby__dataset_block_count(chosen->base->ds), .key = k->hash};
    fby__buf image = {0};
    char name[64];
    if (!k->usable || (choice && fby__choice_memory_bytes(choice) > MAX_BYTES))
        return;
    memcpy(head.magic, CHOICE_MAGIC, sizeof CHOICE_MAGIC);
    int failed = put(&image, &head, sizeof head);
    for (uint32_t b = 0; !failed && b < head.n_blocks; b++) {
        const fby__chosen *c = choice ? &choice->blocks[b] : &ALL;
        chosen_head one = {
            .n = c->n, .some = c->some, .low_bits = c->low_bits, .high_at = c->high_at, .low_at = c->low_at, .n_words = c->n_words};
        failed = put(&image, &one, sizeof one) != 0 || put(&image, c->words, c->n_words * sizeof *c->words) != 0;
    }
    file_name(name, k->hash, "fbychoice");
    if (!failed)
        (void)fby__cache_write(fby__dataset_cache_dir(chosen->base->ds), name, &image, NULL); /* without it the column is read again */
    fby__buf_fini(&image);
}
