/*
 * Tables found by a key: filling, finding, and what <forebay/lookup.h> says of their contents. Reading them from files is the loader's.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/hash.h"
#include "transform/lookup_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIRST_SLOTS 16u
#define DIRECT_SLACK 4096u /* a direct table may be so much larger than four times the keys */

static size_t text_bytes(const fby_lookup *t, uint32_t row) { return t->starts[row + 1] - t->starts[row] - 1; }

static size_t slot_of_text(const fby_lookup *t, const void *key, size_t n_bytes)
{
    return (size_t)fby__hash(key, n_bytes).lo & (t->n_slots - 1);
}

uint32_t fby__lookup_text(const fby_lookup *t, const void *key, size_t n_bytes)
{
    for (size_t at = slot_of_text(t, key, n_bytes);; at = (at + 1) & (t->n_slots - 1)) {
        uint32_t row = t->slots[at];
        if (row == FBY__LOOKUP_NONE)
            return row;
        if (text_bytes(t, row) == n_bytes && (n_bytes == 0 || memcmp(t->texts + t->starts[row], key, n_bytes) == 0))
            return row;
    }
}

/* ---- filling ---- */

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a lookup table"); }

static fby_status copy_columns(fby_lookup *t, const char *const *columns, size_t n, fby_error *err)
{
    if (!(t->columns = fby__calloc(n + 1, sizeof *t->columns)))
        return no_memory(err);
    for (; t->n_columns < n; t->n_columns++) {
        for (size_t i = 0; i < t->n_columns; i++)
            if (strcmp(columns[i], columns[t->n_columns]) == 0)
                return fby__fail(err, FBY_E_ARG, "the table's column '%s' is named twice", columns[i]);
        if (!(t->columns[t->n_columns] = fby__strdup(columns[t->n_columns])))
            return no_memory(err);
    }
    return FBY_OK;
}

static fby_status make_slots(fby_lookup *t, size_t n_slots, fby_error *err)
{
    uint32_t *slots = fby__realloc_array(NULL, n_slots, sizeof *slots);
    if (!slots)
        return no_memory(err);
    memset(slots, 0xff, n_slots * sizeof *slots);
    fby__free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    for (size_t row = 0; row < t->n_keys; row++) {
        size_t at = t->text ? slot_of_text(t, t->texts + t->starts[row], text_bytes(t, (uint32_t)row))
                            : fby__lookup_hash_number(t->numbers[row]) & (n_slots - 1);
        while (slots[at] != FBY__LOOKUP_NONE)
            at = (at + 1) & (n_slots - 1);
        slots[at] = (uint32_t)row;
    }
    return FBY_OK;
}

fby_status fby__lookup_new(bool text_keys, const char *const *columns, size_t n_columns, fby_lookup **out, fby_error *err)
{
    fby_lookup *t = fby__calloc(1, sizeof *t);
    if (!t)
        return no_memory(err);
    atomic_init(&t->refs, 1);
    t->text = text_keys;
    fby_status status = copy_columns(t, columns, n_columns, err);
    if (status == FBY_OK)
        status = make_slots(t, FIRST_SLOTS, err);
    if (status == FBY_OK && text_keys && !(t->starts = fby__calloc(1, sizeof *t->starts)))
        status = no_memory(err);
    if (status != FBY_OK) {
        fby_lookup_close(t);
        return status;
    }
    t->cap_starts = text_keys;
    *out = t;
    return FBY_OK;
}

/* Room for one more key, of n_bytes when it is text. What is there stays as it is when there is none. */
static fby_status make_room(fby_lookup *t, size_t n_bytes, fby_error *err)
{
    if (t->n_keys >= FBY__LOOKUP_MAX_KEYS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a lookup table has at most %zu keys", FBY__LOOKUP_MAX_KEYS);
    size_t cells, bytes;
    if (!fby__mul_checked(t->n_keys + 1, t->n_columns, &cells) || fby__grow((void **)&t->values, &t->cap_values, cells, sizeof *t->values))
        return no_memory(err);
    if (!t->text) {
        if (fby__grow((void **)&t->numbers, &t->cap_numbers, t->n_keys + 1, sizeof *t->numbers))
            return no_memory(err);
    } else if (fby__grow((void **)&t->starts, &t->cap_starts, t->n_keys + 2, sizeof *t->starts) ||
               !fby__add_checked(t->starts[t->n_keys], n_bytes + 1, &bytes) || fby__grow((void **)&t->texts, &t->cap_texts, bytes, 1))
        return no_memory(err);
    return 2 * (t->n_keys + 1) > t->n_slots ? make_slots(t, 2 * t->n_slots, err) : FBY_OK;
}

static void add_row(fby_lookup *t, size_t at)
{
    while (t->slots[at] != FBY__LOOKUP_NONE)
        at = (at + 1) & (t->n_slots - 1);
    t->slots[at] = (uint32_t)t->n_keys;
    for (size_t c = 0; c < t->n_columns; c++)
        t->values[t->n_keys * t->n_columns + c] = (double)NAN;
    t->n_keys++;
}

fby_status fby__lookup_add_number(fby_lookup *t, int64_t key, uint32_t *out_row, fby_error *err)
{
    if ((*out_row = fby__lookup_number(t, key)) != FBY__LOOKUP_NONE)
        return FBY_OK;
    FBY__TRY(make_room(t, 0, err));
    *out_row = (uint32_t)t->n_keys;
    t->numbers[t->n_keys] = key;
    add_row(t, fby__lookup_hash_number(key) & (t->n_slots - 1));
    return FBY_OK;
}

fby_status fby__lookup_add_text(fby_lookup *t, const void *key, size_t n_bytes, uint32_t *out_row, fby_error *err)
{
    if ((*out_row = fby__lookup_text(t, key, n_bytes)) != FBY__LOOKUP_NONE)
        return FBY_OK;
    if (n_bytes && memchr(key, 0, n_bytes))
        return fby__fail(err, FBY_E_DATA, "a key of %zu bytes holds a NUL byte, which names cannot", n_bytes);
    FBY__TRY(make_room(t, n_bytes, err));
    *out_row = (uint32_t)t->n_keys;
    char *at = t->texts + t->starts[t->n_keys];
    if (n_bytes)
        memcpy(at, key, n_bytes);
    at[n_bytes] = 0;
    t->starts[t->n_keys + 1] = t->starts[t->n_keys] + n_bytes + 1;
    add_row(t, slot_of_text(t, key, n_bytes));
    return FBY_OK;
}

double *fby__lookup_row(fby_lookup *t, uint32_t row) { return t->values + (size_t)row * t->n_columns; }

fby_status fby__lookup_seal(fby_lookup *t, fby_error *err)
{
    if (t->text || t->n_keys == 0)
        return FBY_OK;
    int64_t least = t->numbers[0], greatest = least;
    for (size_t i = 1; i < t->n_keys; i++) {
        least = t->numbers[i] < least ? t->numbers[i] : least;
        greatest = t->numbers[i] > greatest ? t->numbers[i] : greatest;
    }
    uint64_t span = (uint64_t)greatest - (uint64_t)least; /* one less than the keys between them, so that it cannot overflow */
    if (span >= 4 * (uint64_t)t->n_keys + DIRECT_SLACK)
        return FBY_OK;
    uint32_t *direct = fby__realloc_array(NULL, (size_t)span + 1, sizeof *direct);
    if (!direct)
        return no_memory(err);
    memset(direct, 0xff, ((size_t)span + 1) * sizeof *direct);
    for (size_t i = 0; i < t->n_keys; i++)
        direct[(uint64_t)t->numbers[i] - (uint64_t)least] = (uint32_t)i;
    t->first = least;
    t->n_direct = span + 1;
    t->direct = direct;
    fby__free(t->slots);
    t->slots = NULL;
    t->n_slots = 0;
    return FBY_OK;
}

/* ---- messages ---- */

void fby__lookup_quote(const void *key, size_t n_bytes, char out[72])
{
    size_t n = n_bytes < 60 ? n_bytes : 60;
    (void)snprintf(out, 72, n < n_bytes ? "'%.*s…'" : "'%.*s'", (int)n, n ? (const char *)key : "");
}

void fby__lookup_key_text(const fby_lookup *t, uint32_t row, char out[72])
{
    if (t->text)
        fby__lookup_quote(t->texts + t->starts[row], text_bytes(t, row), out);
    else
        (void)snprintf(out, 72, "%lld", (long long)t->numbers[row]);
}

void fby__lookup_describe(const fby_lookup *t, char out[240])
{
    char a[72], b[72];
    if (t->n_keys == 0) {
        (void)snprintf(out, 240, "a table without keys");
    } else if (t->direct) {
        (void)snprintf(out, 240, "a table of %zu keys, %lld to %lld", t->n_keys, (long long)t->first,
                       (long long)((uint64_t)t->first + t->n_direct - 1));
    } else {
        fby__lookup_key_text(t, 0, a);
        fby__lookup_key_text(t, (uint32_t)(t->n_keys - 1), b);
        (void)snprintf(out, 240, t->n_keys == 1 ? "a table of %zu key, %s" : "a table of %zu keys, from %s to %s", t->n_keys, a, b);
    }
}

/* ---- public ---- */

static fby_status fill(fby_lookup *t, const int64_t *numbers, const char *const *texts, size_t n_keys, const double *values, fby_error *err)
{
    for (size_t i = 0; i < n_keys; i++) {
        uint32_t row;
        if (texts && !texts[i])
            return fby__fail(err, FBY_E_ARG, "key %zu is NULL", i);
        FBY__TRY(texts ? fby__lookup_add_text(t, texts[i], strlen(texts[i]), &row, err) : fby__lookup_add_number(t, numbers[i], &row, err));
        if (row != i) {
            char key[72];
            fby__lookup_key_text(t, row, key);
            return fby__fail(err, FBY_E_DATA, "the key %s comes twice, in rows %u and %zu of the table", key, row, i);
        }
        if (t->n_columns)
            memcpy(fby__lookup_row(t, row), values + i * t->n_columns, t->n_columns * sizeof *values);
    }
    return fby__lookup_seal(t, err);
}

fby_status fby_lookup_create(const int64_t *numbers, const char *const *texts, size_t n_keys, const char *const *columns, size_t n_columns,
                             const double *values, fby_lookup **out, fby_error *err)
{
    size_t cells;
    if (!numbers == !texts)
        return fby__fail(err, FBY_E_ARG, "a lookup table takes keys that are numbers or keys that are texts: one of the two");
    if (n_columns && (!columns || (n_keys && !values)))
        return fby__fail(err, FBY_E_ARG, "a lookup table with columns needs their names and values");
    if (!fby__mul_checked(n_keys, n_columns, &cells))
        return no_memory(err);
    fby_lookup *t;
    FBY__TRY(fby__lookup_new(texts != NULL, columns, n_columns, &t, err));
    fby_status status = fill(t, numbers, texts, n_keys, values, err);
    if (status != FBY_OK) {
        fby_lookup_close(t);
        return status;
    }
    *out = t;
    return FBY_OK;
}

fby_lookup *fby_lookup_ref(fby_lookup *table)
{
    atomic_fetch_add_explicit(&table->refs, 1, memory_order_relaxed);
    return table;
}

void fby_lookup_close(fby_lookup *table)
{
    if (!table || atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < table->n_columns; i++)
        fby__free(table->columns[i]);
    fby__free(table->columns);
    fby__free(table->values);
    fby__free(table->numbers);
    fby__free(table->texts);
    fby__free(table->starts);
    fby__free(table->direct);
    fby__free(table->slots);
    fby__free(table);
}

size_t fby_lookup_count(const fby_lookup *table) { return table->n_keys; }
size_t fby_lookup_column_count(const fby_lookup *table) { return table->n_columns; }
const char *fby_lookup_column(const fby_lookup *table, size_t i) { return i < table->n_columns ? table->columns[i] : NULL; }
bool fby_lookup_has_text_keys(const fby_lookup *table) { return table->text; }

fby_status fby_lookup_key(const fby_lookup *table, size_t i, int64_t *out_number, const char **out_text, fby_error *err)
{
    if (i >= table->n_keys)
        return fby__fail(err, FBY_E_ARG, "there is no key %zu: the table has %zu", i, table->n_keys);
    if (out_number)
        *out_number = table->text ? 0 : table->numbers[i];
    if (out_text)
        *out_text = table->text ? table->texts + table->starts[i] : NULL;
    return FBY_OK;
}

double fby_lookup_value(const fby_lookup *table, size_t row, size_t column)
{
    return row < table->n_keys && column < table->n_columns ? table->values[row * table->n_columns + column] : (double)NAN;
}

static int64_t row_or_none(uint32_t row) { return row == FBY__LOOKUP_NONE ? -1 : (int64_t)row; }

int64_t fby_lookup_find_number(const fby_lookup *table, int64_t key)
{
    return table->text ? -1 : row_or_none(fby__lookup_number(table, key));
}

int64_t fby_lookup_find_text(const fby_lookup *table, const char *key, size_t n_bytes)
{
    return table->text ? row_or_none(fby__lookup_text(table, key, n_bytes)) : -1;
}
