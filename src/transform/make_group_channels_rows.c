/*
 * The rows of a group, in order and numbered by subgroup; and positions by key.
 *
 * Tables from key to number are open addressing with one probe after the other. What a file holds must not be able to make long runs of
 * taken slots, so keys are mixed with where the table lies, which no file knows; numbers are given by order of rows, so it does not show.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "transform/group_channels_internal.h"

#include <forebay/lookup.h>
#include <inttypes.h>
#include <string.h>

#define INSERTION_MAX 32u /* rows: beyond, radix is the faster */

/* A power of two that leaves half of the slots free. */
static uint32_t slots_for(uint32_t n)
{
    uint32_t slots = 16;
    while (slots < UINT32_C(1) << 31 && slots < 2 * (uint64_t)n)
        slots *= 2;
    return slots;
}

static inline uint32_t slot_of(int64_t key, const void *table, uint32_t mask)
{
    const uint64_t x = ((uint64_t)key ^ (uint64_t)(uintptr_t)table) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32 ^ x >> 43) & mask;
}

/* ---- scratch ---- */

size_t fby__group_rows_bytes(uint32_t n)
{
    return (size_t)n * (3 * sizeof(uint64_t) + 7 * sizeof(uint32_t)) + slots_for(n) * sizeof(uint32_t);
}

void fby__group_rows_lay_out(fby__group_rows *g, uint32_t n, uint8_t *scratch)
{
    *g = (fby__group_rows){.order = {(uint64_t *)(void *)scratch}, .mask = slots_for(n) - 1};
    g->order[1] = g->order[0] + n;
    g->key = (int64_t *)(g->order[1] + n);
    g->row = (uint32_t *)(g->key + n);
    g->group = g->row + n;
    g->position = g->group + n;
    g->size = g->position + n;
    g->sorted[0] = g->size + n;
    g->sorted[1] = g->sorted[0] + n;
    g->least = g->sorted[1] + n;
    g->slots = g->least + n;
}

/* ---- sorting ---- */

static void insertion_sort(uint64_t *value, uint32_t *item, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const uint64_t v = value[i];
        const uint32_t it = item[i];
        uint32_t k = i;
        for (; k > 0 && value[k - 1] > v; k--) {
            value[k] = value[k - 1];
            item[k] = item[k - 1];
        }
        value[k] = v;
        item[k] = it;
    }
}

/* Stable. Bytes that are the same in all values are passed over. Leaves the result in value[0] and item[0]. */
static void sort(uint64_t *value[2], uint32_t *item[2], uint32_t n)
{
    if (n <= INSERTION_MAX) {
        insertion_sort(value[0], item[0], n);
        return;
    }
    uint64_t differs = 0;
    for (uint32_t i = 1; i < n; i++)
        differs |= value[0][i] ^ value[0][0];
    for (unsigned shift = 0; shift < 64; shift += 8) {
        if (!(differs >> shift & 255))
            continue;
        uint32_t at[256] = {0};
        for (uint32_t i = 0; i < n; i++)
            at[value[0][i] >> shift & 255]++;
        for (uint32_t b = 0, before = 0; b < 256; b++) {
            const uint32_t count = at[b];
            at[b] = before;
            before += count;
        }
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t to = at[value[0][i] >> shift & 255]++;
            value[1][to] = value[0][i];
            item[1][to] = item[0][i];
        }
        uint64_t *v = value[0];
        uint32_t *it = item[0];
        value[0] = value[1], value[1] = v;
        item[0] = item[1], item[1] = it;
    }
}

/* ---- order values ---- */

/* Numbers that compare as the values do: -0 is 0; NaN and missing values come last. */
static inline uint64_t rank_int(int64_t v) { return (uint64_t)v ^ UINT64_C(1) << 63; }

static inline uint64_t rank_float(double v)
{
    uint64_t u;
    v += 0.0; /* -0 becomes 0 */
    memcpy(&u, &v, sizeof u);
    return v != v ? UINT64_MAX : u >> 63 ? ~u : u | UINT64_C(1) << 63;
}

/* Are the rows in order already? */
static bool read_order(const fby__group_channels *p, const fby__make_view *v, uint64_t sample, uint32_t n, uint64_t *out)
{
    const uint8_t *at = v->data[sample], *valid = v->valid ? v->valid[sample] : NULL;
    bool in_order = true;
    uint64_t before = 0;
    for (uint32_t i = 0; i < n; i++, at += v->row_bytes) {
        uint64_t rank;
        if (p->order_dtype == FBY_INT64) {
            int64_t x;
            memcpy(&x, at, sizeof x);
            rank = rank_int(x);
        } else {
            double x;
            memcpy(&x, at, sizeof x);
            rank = rank_float(x);
        }
        if (valid && !valid[i * v->valid_bytes])
            rank = UINT64_MAX;
        in_order &= before <= rank;
        out[i] = before = rank;
    }
    return in_order;
}

/* ---- numbering ---- */

/* Rows in the order of `rows` (NULL: as they lie): subgroups get numbers as they appear, rows of those from `limit` on are left out. */
static void number(fby__group_rows *g, const fby__make_view *keys, uint64_t sample, const uint32_t *rows, uint32_t n, uint32_t limit)
{
    const uint8_t *at = keys->data[sample];
    const size_t stride = keys->row_bytes;
    uint32_t *slots = g->slots, mask = g->mask, n_kept = 0, n_groups = 0;
    memset(slots, 0, ((size_t)mask + 1) * sizeof *slots);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t row = rows ? rows[i] : i;
        int64_t key;
        memcpy(&key, at + row * stride, sizeof key);
        uint32_t s = slot_of(key, slots, mask);
        while (slots[s] && g->key[slots[s] - 1] != key)
            s = (s + 1) & mask;
        if (!slots[s]) {
            if (n_groups == limit)
                continue;
            g->key[n_groups] = key;
            g->size[n_groups] = 0;
            g->least[n_groups] = i;
            slots[s] = ++n_groups;
        }
        const uint32_t k = slots[s] - 1;
        g->row[n_kept] = row;
        g->group[n_kept] = k;
        g->position[n_kept++] = g->size[k]++;
    }
    g->n = n_kept;
    g->n_groups = n_groups;
}

/*
 * All subgroups are numbered by their least row. Those that share its value go by the row where they first appear, which may be a later
 * one; then what is beyond the limit goes. The order values, in order[0] by sorted row, are used up.
 */
static void settle_ties(fby__group_rows *g, uint32_t n, uint32_t limit)
{
    const uint32_t n_groups = g->n_groups;
    uint32_t *first = g->sorted[1], *item = g->sorted[0]; /* item: the sorted rows, which g->row has by now */
    memset(first, 0xff, n_groups * sizeof *first);
    for (uint32_t i = 0; i < n; i++)
        if (g->row[i] < first[g->group[i]])
            first[g->group[i]] = g->row[i];
    uint64_t *value = g->order[1], before = 0;
    bool in_order = true;
    for (uint32_t k = 0, rank = 0; k < n_groups; k++) {
        rank += k && g->order[0][g->least[k]] != g->order[0][g->least[k - 1]];
        value[k] = (uint64_t)rank << 32 | first[k];
        item[k] = k;
        in_order &= before <= value[k];
        before = value[k];
    }
    if (in_order && n_groups <= limit)
        return;
    uint64_t *values[2] = {value, g->order[0]};
    uint32_t *items[2] = {item, first};
    sort(values, items, n_groups);
    /* Numbers, sizes and keys move; rows of what is left out go. */
    uint32_t *new_number = items[1], *sizes = g->least;
    int64_t *keys = (int64_t *)(void *)values[1];
    for (uint32_t k = 0; k < n_groups; k++) {
        new_number[items[0][k]] = k;
        sizes[k] = g->size[items[0][k]];
        keys[k] = g->key[items[0][k]];
    }
    g->n_groups = n_groups < limit ? n_groups : limit;
    memcpy(g->size, sizes, g->n_groups * sizeof *sizes);
    memcpy(g->key, keys, g->n_groups * sizeof *keys);
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t k = new_number[g->group[i]];
        if (k >= limit)
            continue;
        g->row[n_kept] = g->row[i];
        g->position[n_kept] = g->position[i];
        g->group[n_kept++] = k;
    }
    g->n = n_kept;
}

fby_status fby__group_rows_order(const fby__group_channels *p, const fby__make_job *job, uint64_t sample, fby__group_rows *g,
                                 fby_error *err)
{
    const fby__make_view *keys = &job->views[0];
    const uint32_t n = (uint32_t)job->n_rows[sample];
    for (uint32_t i = 0; keys->valid && i < n; i++)
        if (!keys->valid[sample][i * keys->valid_bytes])
            return fby__fail(err, FBY_E_DATA, "the key is missing in row %" PRIu32 " of the group", i);
    if (p->is_mask || read_order(p, &job->views[1], sample, n, g->order[0])) {
        number(g, keys, sample, NULL, n, p->max_groups);
        return FBY_OK;
    }
    for (uint32_t i = 0; i < n; i++)
        g->sorted[0][i] = i;
    sort(g->order, g->sorted, n);
    number(g, keys, sample, g->sorted[0], n, UINT32_MAX);
    settle_ties(g, n, p->max_groups);
    return FBY_OK;
}

/* ---- positions ---- */

fby_status fby__channel_positions_init(fby__channel_positions *t, const fby_lookup *table, fby_error *err)
{
    const size_t n = fby_lookup_count(table), n_columns = fby_lookup_column_count(table);
    if (fby_lookup_key_column_count(table) > 1)
        return fby__fail(err, FBY_E_ARG, "the key of the table of positions has %zu columns, and a table with a key of one is needed here",
                         fby_lookup_key_column_count(table));
    if (fby_lookup_has_text_keys(table))
        return fby__fail(err, FBY_E_ARG, "the table of positions has strings as keys, and the key is a whole number");
    if (n_columns == 0 || n_columns > UINT16_MAX || n >= UINT32_C(1) << 30)
        return fby__fail(err, FBY_E_ARG, "a table of positions with %zu rows and %zu columns of numbers", n, n_columns);
    const uint32_t slots = slots_for((uint32_t)n);
    size_t n_values;
    if (!fby__mul_checked(n, n_columns, &n_values))
        return fby__fail_nomem(err, "a table of positions");
    t->slots = fby__calloc(slots, sizeof *t->slots);
    t->keys = fby__calloc(n + 1, sizeof *t->keys);
    t->values = fby__calloc(n_values + 1, sizeof *t->values);
    if (!t->slots || !t->keys || !t->values)
        return fby__fail_nomem(err, "a table of positions");
    t->n_columns = (uint32_t)n_columns;
    t->mask = slots - 1;
    t->memory_bytes = slots * sizeof *t->slots + n * sizeof *t->keys + n_values * sizeof *t->values;
    for (size_t i = 0; i < n; i++) {
        const char *text;
        FBY__TRY(fby_lookup_key(table, i, &t->keys[i], &text, err));
        for (size_t c = 0; c < n_columns; c++)
            t->values[i * n_columns + c] = fby_lookup_value(table, i, c);
        uint32_t s = slot_of(t->keys[i], t->slots, t->mask);
        while (t->slots[s])
            s = (s + 1) & t->mask;
        t->slots[s] = (uint32_t)i + 1;
    }
    return FBY_OK;
}

void fby__channel_positions_fini(fby__channel_positions *t)
{
    fby__free(t->slots);
    fby__free(t->keys);
    fby__free(t->values);
    *t = (fby__channel_positions){0};
}

const double *fby__channel_positions_find(const fby__channel_positions *t, int64_t key)
{
    for (uint32_t s = slot_of(key, t->slots, t->mask); t->slots[s]; s = (s + 1) & t->mask)
        if (t->keys[t->slots[s] - 1] == key)
            return t->values + (size_t)(t->slots[s] - 1) * t->n_columns;
    return NULL;
}
