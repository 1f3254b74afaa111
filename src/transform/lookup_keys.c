/*
 * A maker's columns of keys: which columns may be one, and finding many of them. Whole numbers are found as they are stored, with a loop
 * for each dtype; a number that is a fraction, or beyond int64, is no key of any table.
 */
#include "block/convert.h"
#include "transform/lookup_internal.h"
#include "transform/maker_internal.h"

#include "base/dtype.h"

#include <stdio.h>
#include <string.h>

static bool is_whole(fby_dtype d) { return d == FBY_BOOL || fby__dtype_is_signed(d) || fby__dtype_is_unsigned(d); }

static fby_status wrong_type(const fby__make_spec *spec, uint32_t column, const fby_lookup *table, const fby_lookup *of, fby_error *err)
{
    char what[FBY__LOOKUP_CHARS + 400], keys[FBY__LOOKUP_CHARS], subject[40] = "its keys are";
    fby__lookup_describe(of, keys);
    if (of != table)
        (void)snprintf(subject, sizeof subject, "column %u of its key holds", column + 1);
    (void)snprintf(
        what, sizeof what,
        "cannot be found in %s: %s %s; make both whole numbers, or both strings%s (dtypes of the table read that column of a CSV file "
        "as %s)",
        keys, subject, table->text ? "strings" : "whole numbers",
        of == table ? "" : ", and name the columns in the order of the table's key", table->text ? "int64" : "str");
    return fby__make_refuse_column(spec, column, what, err);
}

/* table: of the column's own keys; of: what messages show. */
static fby_status key_create(fby__make_spec *spec, uint32_t column, const fby_lookup *table, const fby_lookup *of, fby__key *out,
                             fby_error *err)
{
    fby__make_column *c = &spec->columns[column];
    *out = (fby__key){.table = table, .text = table->text};
    if (c->kind == FBY__PANEL_RAGGED)
        return fby__make_refuse_column(spec, column, "is no key: it varies in length; a key is one whole number or string a row", err);
    bool text = c->kind == FBY__PANEL_BYTES;
    if (!text && c->field->kind != FBY_KIND_INT && c->field->kind != FBY_KIND_BOOL && c->field->kind != FBY_KIND_FLOAT)
        return fby__make_refuse_column(spec, column, "is no key: keys are whole numbers or strings", err);
    if (text != table->text)
        return wrong_type(spec, column, table, of, err);
    c->want_valid = c->nullable;
    if (!text && c->computed)
        c->dtype = FBY_FLOAT64; /* whole numbers beyond 2^24 come through */
    else if (!text && !is_whole(c->dtype) && c->dtype != FBY_FLOAT64)
        c->dtype = FBY_FLOAT32;
    out->dtype = c->dtype;
    return FBY_OK;
}

fby_status fby__key_create(fby__make_spec *spec, uint32_t column, const fby_lookup *table, fby__key *out, fby_error *err)
{
    if (table->key_columns)
        return fby__fail(err, FBY_E_ARG, "output '%s': the key of the table has %zu columns, and a table with a key of one is needed here",
                         spec->output, table->n_key_columns);
    return key_create(spec, column, table, table, out, err);
}

fby_status fby__keys_create(fby__make_spec *spec, const fby_lookup *table, fby__keys *out, fby_error *err)
{
    *out = (fby__keys){.table = table, .n = spec->n_columns, .text = true};
    for (uint32_t i = 0; i < out->n; i++) {
        if (spec->columns[i].kind == FBY__PANEL_DENSE && spec->columns[i].n_axes > 0)
            return fby__make_refuse_column(spec, i,
                                           "cannot be part of a key of several columns: it is an array, and such a key is one whole number "
                                           "or string a row of each column; arrays of keys can be looked up by a key of one column",
                                           err);
        FBY__TRY(key_create(spec, i, table->key_columns[i], table, &out->column[i], err));
        out->text &= out->column[i].text;
    }
    return FBY_OK;
}

/* ---- finding ---- */

static inline uint32_t row_of_signed(const fby_lookup *t, int64_t key) { return fby__lookup_number(t, key); }

static inline uint32_t row_of_unsigned(const fby_lookup *t, uint64_t key)
{
    return key <= INT64_MAX ? fby__lookup_number(t, (int64_t)key) : FBY__LOOKUP_NONE;
}

static inline uint32_t row_of_float(const fby_lookup *t, double key)
{
    if (!(key >= -0x1p63 && key < 0x1p63) || (double)(int64_t)key != key) /* NaN too */
        return FBY__LOOKUP_NONE;
    return fby__lookup_number(t, (int64_t)key);
}

/* X(dtype, C type, how its values are found) */
#define KEY_TYPES(X)                                                                                                                       \
    X(FBY_BOOL, uint8_t, row_of_unsigned)                                                                                                  \
    X(FBY_INT8, int8_t, row_of_signed)                                                                                                     \
    X(FBY_INT16, int16_t, row_of_signed)                                                                                                   \
    X(FBY_INT32, int32_t, row_of_signed)                                                                                                   \
    X(FBY_INT64, int64_t, row_of_signed)                                                                                                   \
    X(FBY_UINT8, uint8_t, row_of_unsigned)                                                                                                 \
    X(FBY_UINT16, uint16_t, row_of_unsigned)                                                                                               \
    X(FBY_UINT32, uint32_t, row_of_unsigned)                                                                                               \
    X(FBY_UINT64, uint64_t, row_of_unsigned)                                                                                               \
    X(FBY_FLOAT32, float, row_of_float)                                                                                                    \
    X(FBY_FLOAT64, double, row_of_float)

/* The loop of one dtype: AT is where value i lies. Values of panels are aligned, those of other memory need not be. */
#define FIND(type, find, AT)                                                                                                               \
    for (uint32_t i = 0; i < n; i++) {                                                                                                     \
        type key;                                                                                                                          \
        memcpy(&key, (AT), sizeof key);                                                                                                    \
        rows[i] = find(k->table, key);                                                                                                     \
        none |= rows[i] == FBY__LOOKUP_NONE;                                                                                               \
    }

bool fby__key_find_rows(const fby__key *k, const uint8_t *keys, size_t stride, const uint8_t *valid, size_t valid_stride, uint32_t n,
                        uint32_t *restrict rows)
{
    bool none = false;
    switch (k->dtype) {
#define CASE(dtype, type, find)                                                                                                            \
    case dtype: FIND(type, find, keys + i * stride) break;
        KEY_TYPES(CASE)
#undef CASE
    default: break; /* fby__key_create lets no other pass */
    }
    for (uint32_t i = 0; valid && i < n; i++)
        if (!valid[i * valid_stride]) {
            rows[i] = FBY__LOOKUP_NONE;
            none = true;
        }
    return none;
}

static bool find_texts(const fby__key *k, const uint8_t *const *texts, const uint64_t *count, uint32_t n, uint32_t *rows)
{
    bool none = false;
    for (uint32_t i = 0; i < n; i++) {
        /* the part of a file's name is one and the same string for all of its samples */
        if (i > 0 && texts[i] == texts[i - 1] && count[i] == count[i - 1])
            rows[i] = rows[i - 1];
        else
            rows[i] = fby__lookup_text(k->table, texts[i], (size_t)count[i]);
        none |= rows[i] == FBY__LOOKUP_NONE;
    }
    return none;
}

bool fby__key_find_first(const fby__key *k, const fby__make_view *v, uint64_t first, uint32_t n, uint32_t *rows)
{
    const uint8_t *const *at = v->data + first;
    bool none = false;
    if (k->text) {
        none = find_texts(k, at, v->count + first, n, rows);
    } else {
        switch (k->dtype) {
#define CASE(dtype, type, find)                                                                                                            \
    case dtype: FIND(type, find, at[i]) break;
            KEY_TYPES(CASE)
#undef CASE
        default: break;
        }
    }
    for (uint32_t i = 0; v->valid && i < n; i++)
        if (!*v->valid[first + i]) {
            rows[i] = FBY__LOOKUP_NONE;
            none = true;
        }
    return none;
}

static void value_text(const fby__key *k, const uint8_t *at, uint64_t n_bytes, char out[FBY__LOOKUP_VALUE_CHARS])
{
    if (k->text)
        fby__lookup_quote(at, (size_t)n_bytes, out);
    else
        (void)fby__value_text(k->dtype, at, out, FBY__LOOKUP_VALUE_CHARS);
}

fby_status fby__key_fail(const fby__key *k, const uint8_t *at, uint64_t n_bytes, const uint8_t *valid, fby_error *err)
{
    char key[FBY__LOOKUP_VALUE_CHARS], keys[FBY__LOOKUP_CHARS];
    fby__lookup_describe(k->table, keys);
    if (valid && !*valid)
        return fby__fail(err, FBY_E_DATA, "the key is missing, and there is no default; keys are looked up in %s", keys);
    value_text(k, at, n_bytes, key);
    return fby__fail(err, FBY_E_DATA, "the key %s is not in %s; a default would stand in for it", key, keys);
}

/* ---- keys of several columns ---- */

/* rows: what the columns before `column` were found as; indices: what this one's values were. */
static bool join(const fby_lookup *t, size_t column, const uint32_t *indices, uint32_t n, uint32_t *rows)
{
    bool none = false;
    for (uint32_t i = 0; i < n; i++) {
        bool both = rows[i] != FBY__LOOKUP_NONE && indices[i] != FBY__LOOKUP_NONE;
        rows[i] = both ? fby__lookup_pair(t, column, rows[i], indices[i]) : FBY__LOOKUP_NONE;
        none |= rows[i] == FBY__LOOKUP_NONE;
    }
    return none;
}

bool fby__keys_find_first(const fby__keys *k, const fby__make_view *views, uint64_t first, uint32_t n, uint32_t *rows)
{
    uint32_t indices[FBY__KEY_TILE];
    bool none = fby__key_find_first(&k->column[0], &views[0], first, n, rows);
    for (uint32_t c = 1; c < k->n; c++) {
        (void)fby__key_find_first(&k->column[c], &views[c], first, n, indices); /* join sees what is not there */
        none = join(k->table, c, indices, n, rows);
    }
    return none;
}

static void find_column(const fby__key *k, const fby__make_view *v, uint64_t sample, uint64_t row, uint32_t n, uint32_t *indices)
{
    if (!k->text) {
        const uint8_t *valid = v->valid ? v->valid[sample] + row * v->valid_bytes : NULL;
        (void)fby__key_find_rows(k, v->data[sample] + row * v->row_bytes, v->row_bytes, valid, v->valid_bytes, n, indices);
        return;
    }
    (void)fby__key_find_first(k, v, sample, 1, indices);
    for (uint32_t i = 1; i < n; i++)
        indices[i] = indices[0];
}

bool fby__keys_find_rows(const fby__keys *k, const fby__make_view *views, uint64_t sample, uint64_t row, uint32_t n, uint32_t *rows)
{
    uint32_t indices[FBY__KEY_TILE];
    bool none = false;
    find_column(&k->column[0], &views[0], sample, row, n, rows);
    for (uint32_t c = 1; c < k->n; c++) {
        find_column(&k->column[c], &views[c], sample, row, n, indices);
        none = join(k->table, c, indices, n, rows);
    }
    return none;
}

fby_status fby__keys_fail(const fby__keys *k, const fby__make_view *views, uint64_t sample, uint64_t row, fby_error *err)
{
    char values[FBY_MAX_KEYS][FBY__LOOKUP_VALUE_CHARS], key[FBY__LOOKUP_KEY_CHARS], keys[FBY__LOOKUP_CHARS];
    bool missing = false;
    for (uint32_t c = 0; c < k->n; c++) {
        const fby__make_view *v = &views[c];
        const uint64_t at = k->column[c].text ? 0 : row;
        if (v->valid && !v->valid[sample][at * v->valid_bytes]) {
            memcpy(values[c], "missing", sizeof "missing");
            missing = true;
        } else {
            value_text(&k->column[c], v->data[sample] + at * v->row_bytes, v->count ? v->count[sample] : 0, values[c]);
        }
    }
    fby__lookup_join_texts(values, k->n, key);
    fby__lookup_describe(k->table, keys);
    if (missing)
        return fby__fail(err, FBY_E_DATA, "the key %s is missing a value, and there is no default; keys are looked up in %s", key, keys);
    return fby__fail(err, FBY_E_DATA, "the key %s is not in %s; a default would stand in for it", key, keys);
}
