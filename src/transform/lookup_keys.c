/*
 * A maker's column of keys: which columns may be one, and finding many of them. Whole numbers are found as they are stored, with a loop for
 * each dtype; a number that is a fraction, or beyond int64, is no key of any table.
 */
#include "block/convert.h"
#include "transform/lookup_internal.h"
#include "transform/maker_internal.h"

#include "base/dtype.h"

#include <stdio.h>
#include <string.h>

static bool is_whole(fby_dtype d) { return d == FBY_BOOL || fby__dtype_is_signed(d) || fby__dtype_is_unsigned(d); }

static fby_status wrong_type(const fby__make_spec *spec, uint32_t column, const fby_lookup *table, fby_error *err)
{
    char what[420], keys[240];
    fby__lookup_describe(table, keys);
    (void)snprintf(what, sizeof what, "cannot be found in %s: its keys are %s; make both whole numbers, or both strings", keys,
                   table->text ? "strings" : "whole numbers");
    return fby__make_refuse_column(spec, column, what, err);
}

fby_status fby__key_create(fby__make_spec *spec, uint32_t column, const fby_lookup *table, fby__key *out, fby_error *err)
{
    fby__make_column *c = &spec->columns[column];
    *out = (fby__key){.table = table, .text = table->text};
    if (c->kind == FBY__PANEL_RAGGED)
        return fby__make_refuse_column(spec, column, "is no key: it varies in length; a key is one whole number or string a row", err);
    bool text = c->kind == FBY__PANEL_BYTES;
    if (!text && c->field->kind != FBY_KIND_INT && c->field->kind != FBY_KIND_BOOL && c->field->kind != FBY_KIND_FLOAT)
        return fby__make_refuse_column(spec, column, "is no key: keys are whole numbers or strings", err);
    if (text != table->text)
        return wrong_type(spec, column, table, err);
    c->want_valid = c->nullable;
    if (!text && c->computed)
        c->dtype = FBY_FLOAT64; /* whole numbers beyond 2^24 come through */
    else if (!text && !is_whole(c->dtype) && c->dtype != FBY_FLOAT64)
        c->dtype = FBY_FLOAT32;
    out->dtype = c->dtype;
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

bool fby__key_find_run(const fby__key *k, const uint8_t *keys, size_t stride, const uint8_t *valid, size_t valid_stride, uint32_t n,
                       uint32_t *rows)
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

fby_status fby__key_fail(const fby__key *k, const uint8_t *at, uint64_t n_bytes, const uint8_t *valid, fby_error *err)
{
    char key[72], keys[240];
    fby__lookup_describe(k->table, keys);
    if (valid && !*valid)
        return fby__fail(err, FBY_E_DATA, "the key is missing, and there is no default; keys are looked up in %s", keys);
    if (k->text)
        fby__lookup_quote(at, (size_t)n_bytes, key);
    else
        (void)fby__value_text(k->dtype, at, key, sizeof key);
    return fby__fail(err, FBY_E_DATA, "the key %s is not in %s; a default would stand in for it", key, keys);
}
