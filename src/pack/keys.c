/* The values of a key, found, kept in the plan's file, and used: see keys.h. */
#include "pack/keys.h"

#include "base/cancel.h"
#include "base/checked.h"
#include "block/arrow.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "the keys of a pack"); }

/* ---- a value as text ---- */

/* The key's column of one block. */
typedef struct key_column {
    fby__arrow_format format;
    const struct ArrowArray *array;
    const uint8_t *validity;
    uint64_t offset;
} key_column;

static fby_status check_type(const fby__pack *p, const struct ArrowSchema *schema, fby_error *err)
{
    fby__arrow_format f;
    FBY__TRY(fby__arrow_format_parse(schema->format, &f, err));
    const bool fits = (f.field.kind == FBY_KIND_INT && f.storage == FBY__ARROW_FIXED) ||
                      (f.field.kind == FBY_KIND_BOOL && f.storage == FBY__ARROW_BITS) ||
                      (f.field.kind == FBY_KIND_STRING && (f.storage == FBY__ARROW_VAR32 || f.storage == FBY__ARROW_VAR64));
    if (fits)
        return FBY_OK;
    char type[128];
    fby__arrow_type_text(schema, type, sizeof type);
    return fby__fail(err, FBY_E_UNSUPPORTED, "the key '%s' is %s: files are named by integers, texts and booleans", p->o->by, type);
}

static fby_status open_column(const struct ArrowSchema *schema, const struct ArrowArray *rows, int64_t i, key_column *out, fby_error *err)
{
    const struct ArrowArray *a = rows->children[i];
    FBY__TRY(fby__arrow_format_parse(schema->children[i]->format, &out->format, err));
    out->array = a;
    out->validity = a->null_count != 0 ? a->buffers[0] : NULL;
    out->offset = (uint64_t)(rows->offset + a->offset);
    return FBY_OK;
}

static int integer_text(const key_column *c, uint64_t i, char *out, size_t room)
{
    const uint8_t *at = (const uint8_t *)c->array->buffers[1] + i * c->format.width;
    switch (c->format.stored) {
    case FBY_INT8: return snprintf(out, room, "%d", *(const int8_t *)at);
    case FBY_INT16: return snprintf(out, room, "%d", (int16_t)fby__load_u16(at));
    case FBY_INT32: return snprintf(out, room, "%d", (int32_t)fby__load_u32(at));
    case FBY_INT64: return snprintf(out, room, "%lld", (long long)fby__load_u64(at));
    case FBY_UINT8: return snprintf(out, room, "%u", *at);
    case FBY_UINT16: return snprintf(out, room, "%u", fby__load_u16(at));
    case FBY_UINT32: return snprintf(out, room, "%u", fby__load_u32(at));
    default: return snprintf(out, room, "%llu", (unsigned long long)fby__load_u64(at));
    }
}

/* Borrowed from the block, or from `room`; data = NULL: a null. */
static fby__bytes text_of(const key_column *c, uint64_t row, char room[24])
{
    const uint64_t i = row + c->offset;
    if (c->validity && !fby__bit(c->validity, i))
        return (fby__bytes){NULL, 0};
    if (c->format.storage == FBY__ARROW_FIXED)
        return (fby__bytes){(const uint8_t *)room, (size_t)integer_text(c, i, room, 24)};
    if (c->format.storage == FBY__ARROW_BITS)
        return fby__bit(c->array->buffers[1], i) ? (fby__bytes){(const uint8_t *)"true", 4} : (fby__bytes){(const uint8_t *)"false", 5};
    return fby__text_at(c->array, c->format.storage == FBY__ARROW_VAR64, i);
}

/* As names of files have it; NULL: no memory. */
static char *name_of(const char *text)
{
    char *name = fby__malloc(3 * strlen(text) + 1), *to = name;
    for (const char *at = text; name && *at; at++) {
        const bool plain =
            (*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') || *at == '_' || *at == '.';
        to += plain ? (*to = *at, 1) : snprintf(to, 4, "%%%02X", (unsigned char)*at);
    }
    if (name)
        *to = 0;
    return name;
}

/* ---- values by their text ---- */

static uint32_t *slot_of(const fby__pack_keys *k, fby__bytes text)
{
    uint32_t at = (uint32_t)fby__table_hash(text.data, text.n) & (k->n_slots - 1);
    for (;; at = (at + 1) & (k->n_slots - 1)) {
        const uint32_t found = k->slots[at];
        if (!found || (strncmp(k->keys[found - 1].text, (const char *)text.data, text.n) == 0 && strlen(k->keys[found - 1].text) == text.n))
            return &k->slots[at];
    }
}

static fby_status index_values(fby__pack_keys *k, fby_error *err)
{
    fby__free(k->slots);
    k->n_slots = 64;
    while (k->n_slots < 4 * k->n)
        k->n_slots *= 2;
    k->slots = fby__calloc(k->n_slots, sizeof *k->slots);
    if (!k->slots)
        return no_memory(err);
    for (uint32_t i = 0; i < k->n; i++)
        *slot_of(k, (fby__bytes){(const uint8_t *)k->keys[i].text, strlen(k->keys[i].text)}) = i + 1;
    return FBY_OK;
}

/* A value that is new. Its name, and what follows from others, come when all are known. */
static fby_status add_value(fby__pack_keys *k, size_t *cap, fby__bytes text, fby_error *err)
{
    if (fby__grow((void **)&k->keys, cap, k->n + 1, sizeof *k->keys) != 0)
        return no_memory(err);
    char *copy = fby__strndup((const char *)text.data, text.n);
    if (!copy)
        return no_memory(err);
    k->keys[k->n++] = (fby__pack_key){.text = copy};
    return FBY_OK;
}

void fby__pack_keys_free(fby__pack_keys *k)
{
    if (!k)
        return;
    for (uint32_t i = 0; i < k->n; i++) {
        fby__free(k->keys[i].text);
        fby__free(k->keys[i].name);
    }
    fby__free(k->keys);
    fby__free(k->begin);
    fby__free(k->slots);
    fby__free(k);
}

/* ---- in the order of their files ---- */

static int compare_names(const void *a, const void *b, void *user)
{
    const fby__pack_keys *k = user;
    const char *x = k->keys[*(const uint32_t *)a].name, *y = k->keys[*(const uint32_t *)b].name;
    while (*x && *x == *y)
        x++, y++;
    return (*x ? (unsigned char)*x : '-') - (*y ? (unsigned char)*y : '-'); /* what follows the name in a file's */
}

/* Values and their counts, which are in the order of their discovery, sorted. */
static fby_status sort_values(fby__pack_keys *k, fby_error *err)
{
    uint32_t *order = fby__calloc((size_t)k->n + 1, sizeof *order);
    fby__pack_key *keys = fby__calloc((size_t)k->n + 1, sizeof *keys);
    uint64_t *row = fby__calloc((size_t)k->n + 1, sizeof *row);
    const bool there = order && keys && row;
    for (uint32_t i = 0; there && i < k->n; i++)
        order[i] = i;
    if (there)
        qsort_r(order, k->n, sizeof *order, compare_names, k);
    for (uint32_t i = 0; there && i < k->n; i++)
        keys[i] = k->keys[order[i]];
    for (uint32_t t = 0; there && t < k->n_cuts; t++) {
        uint64_t *begin = k->begin + (size_t)t * k->n;
        for (uint32_t i = 0; i < k->n; i++)
            row[i] = begin[order[i]];
        memcpy(begin, row, k->n * sizeof *row);
    }
    if (there) {
        fby__free(k->keys);
        k->keys = keys;
    } else {
        fby__free(keys);
    }
    fby__free(order);
    fby__free(row);
    return there ? FBY_OK : no_memory(err);
}

/* What follows of text and rows. */
static fby_status name_values(const fby__pack *p, fby__pack_keys *k, fby_error *err)
{
    for (uint32_t i = 0; i < k->n; i++) {
        fby__pack_key *key = &k->keys[i];
        key->seed = fby__plan_full_key(p->o->seed ^ fby__hash(key->text, strlen(key->text)).lo, 0);
        if (!(key->name = name_of(key->text)))
            return no_memory(err);
        if (strlen(key->name) > FBY__PACK_KEY_NAME)
            return fby__fail(err, FBY_E_UNSUPPORTED, "the key '%s': the value '%.60s…' is too long to name files: %u bytes are the most",
                             p->o->by, key->name, FBY__PACK_KEY_NAME);
    }
    return FBY_OK;
}

static void number_rows(const fby__pack *p, fby__pack_keys *k)
{
    uint64_t row = 0, file = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        k->keys[i].first_row = row;
        k->keys[i].first_file = file;
        row += k->keys[i].rows;
        file += fby__div_up_u64(k->keys[i].rows, p->rows_per_file);
    }
}

/* ---- a pass over the key ---- */

typedef struct scan {
    fby__pack *p;
    fby__pack_keys *keys;
    size_t cap;
    fby__pack_reader *reader; /* owned */
    uint64_t **before;        /* owned, and each: rows of the values known by then, before each task */
    uint32_t *n_before;       /* owned: how many those are */
    uint32_t n_begun;         /* tasks whose beginning was passed */
} scan;

static fby_status count_block(scan *s, const struct ArrowArray *rows, int64_t column, uint64_t first, fby_error *err)
{
    key_column c;
    char room[24];
    fby__pack_keys *k = s->keys;
    FBY__TRY(open_column(fby__pack_reader_schema(s->reader), rows, column, &c, err));
    for (uint64_t i = 0; i < (uint64_t)rows->length; i++) {
        FBY__TRY(fby__cancel_check_at(i, err));
        const fby__bytes text = text_of(&c, i, room);
        if (!text.data || memchr(text.data, 0, text.n))
            return fby__fail(err, FBY_E_DATA, "the key '%s' has %s in row %llu of the source: every row needs a value of it", s->p->o->by,
                             text.data ? "a text with a NUL" : "a null", (unsigned long long)(first + i));
        uint32_t *slot = slot_of(k, text);
        if (!*slot && k->n == FBY__PACK_KEYS)
            return fby__fail(err, FBY_E_UNSUPPORTED, "the key '%s' has more than %u values: a pack by it would have too many small files",
                             s->p->o->by, FBY__PACK_KEYS);
        if (!*slot) {
            FBY__TRY(add_value(k, &s->cap, text, err));
            *slot = k->n;
            k->keys[k->n - 1].rows = 1;
            if (2 * k->n > k->n_slots)
                FBY__TRY(index_values(k, err));
        } else {
            k->keys[*slot - 1].rows++;
        }
    }
    return FBY_OK;
}

/* Half as many tasks, each of two. */
static void coarsen(scan *s)
{
    const uint32_t n = s->n_begun;
    s->n_begun = (n + 1) / 2;
    for (uint32_t t = 0; t < n; t++) {
        if (t % 2) {
            fby__free(s->before[t]);
        } else {
            s->before[t / 2] = s->before[t];
            s->n_before[t / 2] = s->n_before[t];
        }
    }
    s->p->cuts.n /= 2;
}

static fby_status begin_tasks(scan *s, uint32_t block, fby_error *err)
{
    fby__pack *p = s->p;
    while (p->cuts.n > 1 && (uint64_t)p->cuts.n * s->keys->n > FBY__PACK_KEY_COUNTS)
        coarsen(s);
    while (s->n_begun < p->cuts.n && fby__pack_cut_begin(p, s->n_begun) <= block) {
        uint64_t *before = fby__calloc((size_t)s->keys->n + 1, sizeof *before);
        if (!before)
            return no_memory(err);
        for (uint32_t i = 0; i < s->keys->n; i++)
            before[i] = s->keys->keys[i].rows;
        s->n_before[s->n_begun] = s->keys->n;
        s->before[s->n_begun++] = before;
    }
    return FBY_OK;
}

static fby_status scan_blocks(scan *s, int64_t column, fby_error *err)
{
    fby__pack *p = s->p;
    FBY__TRY(index_values(s->keys, err));
    for (uint32_t b = 0; b < fby__pack_block_count(p); b++) {
        struct ArrowArray rows;
        FBY__TRY(fby__pack_tick(p, err));
        FBY__TRY(begin_tasks(s, b, err));
        FBY__TRY(fby__pack_reader_block(s->reader, b, &rows, err));
        const fby_status status = count_block(s, &rows, column, fby__pack_block_begin(p, b), err);
        rows.release(&rows);
        if (status != FBY_OK)
            return status;
    }
    return begin_tasks(s, UINT32_MAX, err);
}

static fby_status keep_counts(const scan *s, fby_error *err)
{
    fby__pack_keys *k = s->keys;
    k->n_cuts = s->p->cuts.n;
    k->begin = fby__calloc((size_t)k->n_cuts * k->n + 1, sizeof *k->begin);
    if (!k->begin)
        return no_memory(err);
    for (uint32_t t = 0; t < k->n_cuts; t++)
        memcpy(k->begin + (size_t)t * k->n, s->before[t], s->n_before[t] * sizeof *k->begin);
    return FBY_OK;
}

/* From rows the key alone is read; a pipeline makes all of its outputs. */
static fby_status scan_source(fby__pack *p, fby__pack_keys *k, fby_error *err)
{
    scan s = {.p = p, .keys = k};
    s.before = fby__calloc(p->cuts.n, sizeof *s.before);
    s.n_before = fby__calloc(p->cuts.n, sizeof *s.n_before);
    fby_status status = s.before && s.n_before ? FBY_OK : no_memory(err);
    if (status == FBY_OK)
        status = p->pipeline ? fby__pack_reader_open(p, p->memory_bytes / 4, &s.reader, err)
                             : fby__pack_reader_open_rows(p->ds, &p->o->by, 1, p->memory_bytes / 4, &s.reader, err);
    if (status == FBY_OK)
        status = scan_blocks(&s, p->pipeline ? k->column : 0, err);
    if (status == FBY_OK)
        status = keep_counts(&s, err);
    for (uint32_t t = 0; t < s.n_begun; t++)
        fby__free(s.before[t]);
    fby__free(s.before);
    fby__free(s.n_before);
    fby__pack_reader_close(s.reader);
    return status;
}

/* ---- in the plan's file ---- */

/* What the counts are of. */
static fby__hash128 origin(const fby__pack *p)
{
    const char *const texts[] = {fby_dataset_fingerprint(p->ds), p->o->by, p->pipeline ? fby__pack_pipeline_hash(p->pipeline) : "",
                                 p->pipeline ? fby__pack_pipeline_samples(p->pipeline) : ""};
    fby__hash128 h = fby__hash(NULL, 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        h = fby__hash_more(h, texts[i], strlen(texts[i]) + 1);
    return h;
}

fby_status fby__pack_keys_put(const fby__pack *p, fby__buf *out, fby_error *err)
{
    const fby__pack_keys *k = p->keys;
    const fby__hash128 of = origin(p);
    const uint64_t head[2] = {k->n, k->n_cuts};
    const size_t begin = out->n;
    int failed = fby__buf_put(out, &of, sizeof of) | fby__buf_put(out, head, sizeof head);
    for (uint32_t i = 0; i < k->n; i++)
        failed |= fby__buf_put(out, k->keys[i].text, strlen(k->keys[i].text) + 1) | fby__buf_put(out, &k->keys[i].rows, sizeof(uint64_t));
    failed |= fby__buf_put(out, k->begin, (size_t)k->n_cuts * k->n * sizeof *k->begin);
    const fby__hash128 h = failed ? of : fby__hash(out->data + begin, out->n - begin);
    failed |= fby__buf_put(out, &h, sizeof h);
    return failed ? no_memory(err) : FBY_OK;
}

/* n values, each a text, its NUL and its rows, which add up to the source's; *from is then what lies behind them. */
static fby_status parse_values(const fby__pack *p, uint64_t n, fby__bytes *from, fby__pack_keys *k, bool *out_ok, fby_error *err)
{
    size_t cap = 0;
    uint64_t left = p->rows;
    *out_ok = false;
    for (uint64_t i = 0; i < n; i++) {
        const char *text = fby__bytes_next_text(from);
        const uint8_t *number = text ? fby__bytes_next(from, sizeof(uint64_t)) : NULL;
        const uint64_t rows = number ? fby__load_u64(number) : 0;
        if (rows == 0 || rows > left)
            return FBY_OK;
        FBY__TRY(add_value(k, &cap, (fby__bytes){(const uint8_t *)text, strlen(text)}, err));
        k->keys[i].rows = rows;
        left -= rows;
    }
    *out_ok = left == 0;
    return FBY_OK;
}

/* None of a value's rows lie before the first task, no fewer before each next one, and never more than there are. */
static bool counts_fit(const fby__pack_keys *k)
{
    for (uint32_t t = 0; t < k->n_cuts; t++)
        for (uint32_t i = 0; i < k->n; i++) {
            const uint64_t *begin = &k->begin[(size_t)t * k->n + i];
            if (t == 0 ? *begin != 0 : *begin < begin[-(ptrdiff_t)k->n] || *begin > k->keys[i].rows)
                return false;
        }
    return true;
}

static fby_status parse(const fby__pack *p, fby__bytes from, fby__pack_keys *k, bool *out_ok, fby_error *err)
{
    const uint64_t n = fby__load_u64(from.data), n_cuts = fby__load_u64(from.data + 8);
    from = (fby__bytes){from.data + 16, from.n - 16};
    *out_ok = false;
    if (n > FBY__PACK_KEYS || n_cuts == 0 || n_cuts > fby__max_u64(1, fby__pack_block_count(p)))
        return FBY_OK;
    FBY__TRY(parse_values(p, n, &from, k, out_ok, err));
    *out_ok = *out_ok && from.n == n_cuts * n * sizeof *k->begin;
    if (!*out_ok)
        return FBY_OK;
    k->n_cuts = (uint32_t)n_cuts;
    k->begin = fby__malloc(from.n + 1);
    if (!k->begin)
        return no_memory(err);
    if (from.n)
        memcpy(k->begin, from.data, from.n);
    FBY__TRY(name_values(p, k, err));
    *out_ok = counts_fit(k);
    for (uint32_t i = 1; i < k->n; i++)
        *out_ok = *out_ok && compare_names(&(uint32_t){i - 1}, &i, k) < 0;
    number_rows(p, k);
    return index_values(k, err);
}

/* The hash finds what went wrong on a disk. Whoever may write there may write a hash, too: so all is looked at before it is believed. */
fby_status fby__pack_keys_read(fby__pack *p, fby__bytes from, bool *out_ok, fby_error *err)
{
    const fby__hash128 of = origin(p);
    *out_ok = from.n >= 3 * sizeof of && memcmp(from.data, &of, sizeof of) == 0 && fby__hash_follows(from.data, from.n - sizeof of);
    if (!*out_ok)
        return FBY_OK;
    fby__pack_keys *k = fby__calloc(1, sizeof *k);
    if (!k)
        return no_memory(err);
    k->column = p->keys ? p->keys->column : 0;
    const fby_status status = parse(p, (fby__bytes){from.data + sizeof of, from.n - 2 * sizeof of}, k, out_ok, err);
    if (status != FBY_OK || !*out_ok) {
        fby__pack_keys_free(k);
        return status;
    }
    fby__pack_keys_free(p->keys);
    p->keys = k;
    p->cuts.n = k->n_cuts;
    return FBY_OK;
}

/* ---- found ---- */

static fby_status find_column(const fby__pack *p, int64_t *out, fby_error *err)
{
    for (int64_t i = 0; i < p->schema.n_children; i++)
        if (strcmp(p->schema.children[i]->name, p->o->by) == 0) {
            *out = i;
            return check_type(p, p->schema.children[i], err);
        }
    return fby__fail(err, FBY_E_SCHEMA, "the key '%s': it is none of what is packed: name a column of the pack", p->o->by);
}

fby_status fby__pack_keys_find(fby__pack *p, fby_error *err)
{
    fby__buf tail = {0};
    bool ok = false;
    int64_t column = 0;
    FBY__TRY(find_column(p, &column, err));
    fby_status status = fby__pack_in_memory(p) ? FBY_OK : fby__pack_plan_keys(p, &tail, err);
    if (status == FBY_OK && tail.n)
        status = fby__pack_keys_read(p, (fby__bytes){tail.data, tail.n}, &ok, err);
    fby__buf_fini(&tail);
    if (status == FBY_OK && ok)
        p->keys->column = column;
    if (status != FBY_OK || ok)
        return status;
    p->keys = fby__calloc(1, sizeof *p->keys);
    if (!p->keys)
        return no_memory(err);
    p->keys->column = column;
    FBY__TRY(fby__pack_begin_doing(p, "reading the key", err));
    FBY__TRY(scan_source(p, p->keys, err));
    FBY__TRY(name_values(p, p->keys, err));
    FBY__TRY(sort_values(p->keys, err));
    number_rows(p, p->keys);
    return index_values(p->keys, err);
}

/* ---- used ---- */

fby_status fby__pack_keys_destinations(const fby__pack *p, const struct ArrowArray *rows, uint64_t *next, uint64_t *out, fby_error *err)
{
    key_column c;
    char room[24];
    const fby__pack_keys *k = p->keys;
    const uint64_t n = (uint64_t)rows->length;
    FBY__TRY(open_column(&p->schema, rows, k->column, &c, err));
    for (uint64_t i = 0; i < n; i++) {
        const fby__bytes text = text_of(&c, i, room);
        const uint32_t found = text.data ? *slot_of(k, text) : 0;
        if (!found || next[found - 1] >= k->keys[found - 1].rows)
            return fby__fail(err, FBY_E_CHANGED, "the key '%s' has other values than when it was counted: the source has changed",
                             p->o->by);
        const fby__pack_key *key = &k->keys[found - 1];
        uint64_t at = next[found - 1]++;
        if (p->order.shuffled)
            fby__permute_inverse_many(key->seed, key->rows, at, 1, &at);
        out[i] = key->first_row + at;
    }
    return FBY_OK;
}

/* The last key whose first file, or row, is at most `at`. */
static const fby__pack_key *key_at(const fby__pack_keys *k, uint64_t at, bool is_file)
{
    uint32_t lo = 0, hi = k->n;
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if ((is_file ? k->keys[middle].first_file : k->keys[middle].first_row) <= at)
            lo = middle;
        else
            hi = middle;
    }
    return &k->keys[lo];
}

const fby__pack_key *fby__pack_key_of_file(const fby__pack_keys *k, uint64_t file) { return key_at(k, file, true); }

const fby__pack_key *fby__pack_key_of_row(const fby__pack_keys *k, uint64_t destination) { return key_at(k, destination, false); }
