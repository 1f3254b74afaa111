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
#define MOST_OCCUPIED 128u                 /* adjacent slots that a number finds occupied: of millions of random ones, some find 80 */
#define FILLING_STRIDE ((uint64_t)1 << 32) /* of pairs, until it is known how many values the columns have */
#define DIRECT_SLACK 4096u                 /* a direct table may be so much larger than four times the keys */

static size_t text_bytes(const fby_lookup *t, uint32_t row) { return t->starts[row + 1] - t->starts[row] - 1; }

static size_t slot_of_text(const fby_lookup *t, const void *key, size_t n_bytes)
{
    return (size_t)fby__table_hash(key, n_bytes) & (t->n_slots - 1);
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

/* Of a row whose key begins to be looked for at a slot. false: there are so many others that numbers are to be mixed. */
static bool insert(fby_lookup *t, size_t at, size_t row)
{
    size_t occupied = 0;
    for (; t->slots[at] != FBY__LOOKUP_NONE; at = (at + 1) & (t->n_slots - 1))
        occupied++;
    t->slots[at] = (uint32_t)row;
    return occupied <= MOST_OCCUPIED || t->text || t->mixed;
}

static void insert_all(fby_lookup *t)
{
    memset(t->slots, 0xff, t->n_slots * sizeof *t->slots); /* FBY__LOOKUP_NONE */
    for (size_t row = 0; row < t->n_keys; row++) {
        const size_t at = t->text ? slot_of_text(t, t->texts + t->starts[row], text_bytes(t, (uint32_t)row))
                                  : fby__lookup_slot_of_number(t, t->numbers[row]);
        if (!insert(t, at, row)) {
            t->mixed = true;
            insert_all(t); /* and no further: then all are in it */
            return;
        }
    }
}

static fby_status make_slots(fby_lookup *t, size_t n_slots, fby_error *err)
{
    uint32_t *slots = fby__realloc_array(NULL, n_slots, sizeof *slots);
    if (!slots)
        return no_memory(err);
    fby__free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    insert_all(t);
    return FBY_OK;
}

static fby_status new_table(const bool *text_keys, size_t n_key_columns, const char *const *columns, size_t n_columns, fby_lookup **out,
                            fby_error *err)
{
    fby_lookup *t = *out = fby__calloc(1, sizeof *t);
    if (!t)
        return no_memory(err);
    atomic_init(&t->refs, 1);
    t->text = n_key_columns == 1 && text_keys[0];
    t->n_key_columns = n_key_columns;
    t->pair_stride = FILLING_STRIDE;
    FBY__TRY(copy_columns(t, columns, n_columns, err));
    FBY__TRY(make_slots(t, FIRST_SLOTS, err));
    if (t->text && !(t->starts = fby__calloc(1, sizeof *t->starts)))
        return no_memory(err);
    t->cap_starts = t->text;
    return FBY_OK;
}

/* A table for each column of the key, and those that join all but the last of them. */
static fby_status new_key_columns(fby_lookup *t, const bool *text_keys, fby_error *err)
{
    const bool text = false;
    if (!(t->key_columns = fby__calloc(t->n_key_columns, sizeof *t->key_columns)) ||
        !(t->joins = fby__calloc(t->n_key_columns, sizeof *t->joins)))
        return no_memory(err);
    for (size_t i = 0; i < t->n_key_columns; i++) {
        FBY__TRY(new_table(&text_keys[i], 1, NULL, 0, &t->key_columns[i], err));
        if (i + 2 < t->n_key_columns)
            FBY__TRY(new_table(&text, 1, NULL, 0, &t->joins[i], err));
    }
    return FBY_OK;
}

fby_status fby__lookup_new(const bool *text_keys, size_t n_key_columns, const char *const *columns, size_t n_columns, fby_lookup **out,
                           fby_error *err)
{
    fby_lookup *t;
    fby_status status = new_table(text_keys, n_key_columns, columns, n_columns, &t, err);
    if (status == FBY_OK && n_key_columns > 1)
        status = new_key_columns(t, text_keys, err);
    if (status != FBY_OK) {
        fby_lookup_close(t);
        return status;
    }
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
    const bool ok = insert(t, at, t->n_keys);
    for (size_t c = 0; c < t->n_columns; c++)
        t->values[t->n_keys * t->n_columns + c] = (double)NAN;
    t->n_keys++;
    if (!ok) {
        t->mixed = true;
        insert_all(t);
    }
}

fby_status fby__lookup_add_number(fby_lookup *t, int64_t key, uint32_t *out_row, fby_error *err)
{
    if ((*out_row = fby__lookup_number(t, key)) != FBY__LOOKUP_NONE)
        return FBY_OK;
    FBY__TRY(make_room(t, 0, err));
    *out_row = (uint32_t)t->n_keys;
    t->numbers[t->n_keys] = key;
    add_row(t, fby__lookup_slot_of_number(t, key));
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

static fby_status add_one(fby_lookup *t, const fby__lookup_key *key, uint32_t *out_row, fby_error *err)
{
    return t->text ? fby__lookup_add_text(t, key->text, key->n_bytes, out_row, err) : fby__lookup_add_number(t, key->number, out_row, err);
}

fby_status fby__lookup_add(fby_lookup *t, const fby__lookup_key *key, uint32_t *out_row, fby_error *err)
{
    uint32_t found = 0, index;
    if (!t->key_columns)
        return add_one(t, key, out_row, err);
    for (size_t i = 0; i < t->n_key_columns; i++) {
        FBY__TRY(add_one(t->key_columns[i], &key[i], &index, err));
        if (i == 0) {
            found = index;
            continue;
        }
        fby_lookup *join = i + 1 == t->n_key_columns ? t : t->joins[i - 1];
        FBY__TRY(fby__lookup_add_number(join, (int64_t)(found * FILLING_STRIDE + index), &found, err));
    }
    *out_row = found;
    return FBY_OK;
}

double *fby__lookup_row(fby_lookup *t, uint32_t row) { return t->values + (size_t)row * t->n_columns; }

static fby_status seal_numbers(fby_lookup *t, fby_error *err)
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

/*
 * The pairs of a join, numbered without gaps between: few columns' values often lie so close together that they are found without hashing.
 */
static fby_status seal_pairs(fby_lookup *join, const fby_lookup *last, fby_error *err)
{
    join->pair_stride = last->n_keys;
    for (size_t row = 0; row < join->n_keys; row++) {
        uint64_t pair = (uint64_t)join->numbers[row];
        join->numbers[row] = (int64_t)(pair / FILLING_STRIDE * join->pair_stride + pair % FILLING_STRIDE);
    }
    FBY__TRY(seal_numbers(join, err));
    return join->direct ? FBY_OK : make_slots(join, join->n_slots, err);
}

fby_status fby__lookup_seal(fby_lookup *t, fby_error *err)
{
    if (!t->key_columns)
        return seal_numbers(t, err);
    for (size_t i = 0; i < t->n_key_columns; i++) {
        FBY__TRY(seal_numbers(t->key_columns[i], err));
        if (i > 0)
            FBY__TRY(seal_pairs(i + 1 == t->n_key_columns ? t : t->joins[i - 1], t->key_columns[i], err));
    }
    return FBY_OK;
}

/* Which of its column's values a row's key has in every column. */
static void indices_of(const fby_lookup *t, uint32_t row, uint32_t indices[FBY_MAX_KEYS])
{
    const fby_lookup *join = t;
    for (size_t i = t->n_key_columns - 1; i > 0; i--) {
        const uint64_t pair = (uint64_t)join->numbers[row];
        indices[i] = (uint32_t)(pair % join->pair_stride);
        row = (uint32_t)(pair / join->pair_stride);
        join = i > 1 ? t->joins[i - 2] : NULL;
    }
    indices[0] = row;
}

/* ---- messages ---- */

void fby__lookup_quote(const void *key, size_t n_bytes, char out[FBY__LOOKUP_VALUE_CHARS])
{
    size_t n = n_bytes < 60 ? n_bytes : 60;
    (void)snprintf(out, FBY__LOOKUP_VALUE_CHARS, n < n_bytes ? "'%.*s…'" : "'%.*s'", (int)n, n ? (const char *)key : "");
}

static void value_text(const fby_lookup *t, uint32_t row, char out[FBY__LOOKUP_VALUE_CHARS])
{
    if (t->text)
        fby__lookup_quote(t->texts + t->starts[row], text_bytes(t, row), out);
    else
        (void)snprintf(out, FBY__LOOKUP_VALUE_CHARS, "%lld", (long long)t->numbers[row]);
}

void fby__lookup_join_texts(char (*values)[FBY__LOOKUP_VALUE_CHARS], size_t n, char out[FBY__LOOKUP_KEY_CHARS])
{
    const size_t room = FBY__LOOKUP_KEY_CHARS - sizeof "…)";
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = strlen(values[i]) + (i > 0) + 1;
        if (at + bytes > room) {
            memcpy(out + at, "…)", sizeof "…)");
            return;
        }
        (void)snprintf(out + at, bytes + 1, "%s%s", i == 0 ? "(" : ", ", values[i]);
        at += bytes;
    }
    memcpy(out + at, ")", sizeof ")");
}

void fby__lookup_key_text(const fby_lookup *t, uint32_t row, char out[FBY__LOOKUP_KEY_CHARS])
{
    uint32_t indices[FBY_MAX_KEYS];
    char values[FBY_MAX_KEYS][FBY__LOOKUP_VALUE_CHARS];
    if (!t->key_columns) {
        value_text(t, row, out);
        return;
    }
    indices_of(t, row, indices);
    for (size_t i = 0; i < t->n_key_columns; i++)
        value_text(t->key_columns[i], indices[i], values[i]);
    fby__lookup_join_texts(values, t->n_key_columns, out);
}

void fby__lookup_describe(const fby_lookup *t, char out[FBY__LOOKUP_CHARS])
{
    char a[FBY__LOOKUP_KEY_CHARS], b[FBY__LOOKUP_KEY_CHARS];
    if (t->n_keys == 0) {
        (void)snprintf(out, FBY__LOOKUP_CHARS, "a table without keys");
    } else if (t->direct && !t->key_columns) {
        (void)snprintf(out, FBY__LOOKUP_CHARS, "a table of %zu keys, %lld to %lld", t->n_keys, (long long)t->first,
                       (long long)((uint64_t)t->first + t->n_direct - 1));
    } else {
        fby__lookup_key_text(t, 0, a);
        fby__lookup_key_text(t, (uint32_t)(t->n_keys - 1), b);
        (void)snprintf(out, FBY__LOOKUP_CHARS, t->n_keys == 1 ? "a table of %zu key, %s" : "a table of %zu keys, from %s to %s", t->n_keys,
                       a, b);
    }
}

/* ---- public ---- */

static fby__lookup_key value_at(const fby_lookup_keys *key, size_t i)
{
    const char *text = key->texts ? key->texts[i] : NULL;
    return (fby__lookup_key){.text = text, .n_bytes = text ? strlen(text) : 0, .number = key->texts ? 0 : key->numbers[i]};
}

/* A key that comes twice, in rows i and j. */
static fby_status fail_twice(fby_lookup *t, uint32_t i, size_t j, fby_error *err)
{
    char key[FBY__LOOKUP_KEY_CHARS];
    fby__lookup_key_text(t, i, key);
    return fby__fail(err, FBY_E_DATA, "the key %s comes twice, in rows %u and %zu of the table", key, i, j);
}

static fby_status fill(fby_lookup *t, const fby_lookup_keys *key, size_t n_keys, const double *values, fby_error *err)
{
    for (size_t i = 0; i < n_keys; i++) {
        fby__lookup_key value[FBY_MAX_KEYS];
        uint32_t row;
        for (size_t c = 0; c < t->n_key_columns; c++) {
            value[c] = value_at(&key[c], i);
            if (key[c].texts && !value[c].text)
                return fby__fail(err, FBY_E_ARG, "key %zu is NULL", i);
        }
        FBY__TRY(fby__lookup_add(t, value, &row, err));
        if (row != i)
            return fail_twice(t, row, i, err);
        if (t->n_columns)
            memcpy(fby__lookup_row(t, row), values + i * t->n_columns, t->n_columns * sizeof *values);
    }
    return fby__lookup_seal(t, err);
}

fby_status fby_lookup_create(const int64_t *numbers, const char *const *texts, size_t n_keys, const char *const *columns, size_t n_columns,
                             const double *values, fby_lookup **out, fby_error *err)
{
    return fby_lookup_create_keys(&(fby_lookup_keys){numbers, texts}, 1, n_keys, columns, n_columns, values, out, err);
}

fby_status fby_lookup_create_keys(const fby_lookup_keys *key, size_t n_key_columns, size_t n_keys, const char *const *columns,
                                  size_t n_columns, const double *values, fby_lookup **out, fby_error *err)
{
    size_t cells;
    bool text[FBY_MAX_KEYS];
    if (n_key_columns == 0 || n_key_columns > FBY_MAX_KEYS)
        return fby__fail(err, FBY_E_ARG, "the key of a lookup table has 1 to %d columns, not %zu", FBY_MAX_KEYS, n_key_columns);
    for (size_t i = 0; i < n_key_columns; i++) {
        if (!key[i].numbers == !key[i].texts)
            return fby__fail(err, FBY_E_ARG, "a lookup table takes keys that are numbers or keys that are texts: one of the two");
        text[i] = key[i].texts != NULL;
    }
    if (n_columns && (!columns || (n_keys && !values)))
        return fby__fail(err, FBY_E_ARG, "a lookup table with columns needs their names and values");
    if (!fby__mul_checked(n_keys, n_columns, &cells))
        return no_memory(err);
    fby_lookup *t;
    FBY__TRY(fby__lookup_new(text, n_key_columns, columns, n_columns, &t, err));
    fby_status status = fill(t, key, n_keys, values, err);
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
    for (size_t i = 0; table->key_columns && i < table->n_key_columns; i++)
        fby_lookup_close(table->key_columns[i]);
    for (size_t i = 0; table->joins && i < table->n_key_columns; i++)
        fby_lookup_close(table->joins[i]);
    for (size_t i = 0; i < table->n_columns; i++)
        fby__free(table->columns[i]);
    fby__free(table->key_columns);
    fby__free(table->joins);
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
size_t fby_lookup_key_column_count(const fby_lookup *table) { return table->n_key_columns; }

bool fby_lookup_key_is_text(const fby_lookup *table, size_t column)
{
    return column < table->n_key_columns && (table->key_columns ? table->key_columns[column]->text : table->text);
}

fby_status fby_lookup_key_value(const fby_lookup *table, size_t i, size_t column, int64_t *out_number, const char **out_text,
                                fby_error *err)
{
    uint32_t indices[FBY_MAX_KEYS];
    if (!table->key_columns && column == 0)
        return fby_lookup_key(table, i, out_number, out_text, err);
    if (i >= table->n_keys)
        return fby__fail(err, FBY_E_ARG, "there is no key %zu: the table has %zu", i, table->n_keys);
    if (column >= table->n_key_columns)
        return fby__fail(err, FBY_E_ARG, "there is no column %zu of the key: it has %zu", column, table->n_key_columns);
    indices_of(table, (uint32_t)i, indices);
    return fby_lookup_key(table->key_columns[column], indices[column], out_number, out_text, err);
}

fby_status fby_lookup_key(const fby_lookup *table, size_t i, int64_t *out_number, const char **out_text, fby_error *err)
{
    if (i >= table->n_keys)
        return fby__fail(err, FBY_E_ARG, "there is no key %zu: the table has %zu", i, table->n_keys);
    if (table->key_columns)
        return fby__fail(err, FBY_E_ARG, "the table's key has %zu columns: it is asked for column by column", table->n_key_columns);
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
    return table->text || table->key_columns ? -1 : row_or_none(fby__lookup_number(table, key));
}

int64_t fby_lookup_find_text(const fby_lookup *table, const char *key, size_t n_bytes)
{
    return table->text ? row_or_none(fby__lookup_text(table, key, n_bytes)) : -1;
}

static int64_t find_value(const fby_lookup *table, const fby__lookup_key *key)
{
    return table->text ? fby_lookup_find_text(table, key->text, key->n_bytes) : fby_lookup_find_number(table, key->number);
}

int64_t fby_lookup_find_keys(const fby_lookup *table, const fby_lookup_keys *key, size_t i)
{
    int64_t found = -1;
    for (size_t c = 0; c < table->n_key_columns; c++) {
        const fby__lookup_key value = value_at(&key[c], i);
        if (fby_lookup_key_is_text(table, c) != (value.text != NULL))
            return -1;
        int64_t index = find_value(table->key_columns ? table->key_columns[c] : table, &value);
        if (index < 0)
            return -1;
        found = c == 0 ? index : row_or_none(fby__lookup_pair(table, c, (uint32_t)found, (uint32_t)index));
        if (found < 0)
            return -1;
    }
    return found;
}
