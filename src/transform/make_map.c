/*
 * One-hot and maps: whole numbers, or strings, to a class's column or to a number.
 *
 * Numbers close together are found in a table, others and strings by open addressing, at most half full. What a value is mapped to lies
 * there as an element of the output's dtype already.
 */
#include "transform/maker_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/hash.h"
#include "block/convert.h"
#include "block/panel.h"
#include "transform/make_values.h"

#include <math.h>
#include <string.h>

#define MAX_CLASSES ((uint64_t)1 << 24)
#define MAX_ENTRIES ((size_t)1 << 28)

/* ---- whole numbers ---- */

/** A column of whole numbers: what both kinds read. */
typedef struct whole_column {
    fby_dtype dtype;
    size_t bytes;
    uint32_t width;
    bool want_valid;
} whole_column;

/** Values of a block: whole numbers, and which of them are such; a missing one is none. */
typedef struct whole_block {
    uint8_t stored[FBY__MAKE_BLOCK * 8];
    uint8_t is_whole[FBY__MAKE_BLOCK];
    int64_t value[FBY__MAKE_BLOCK];
    size_t n;
    fby__make_cursor cursor; /* of the first */
} whole_block;

static fby_status use_whole_column(fby__make_spec *spec, const char *what, whole_column *out, fby_error *err)
{
    fby__make_column *c = &spec->columns[0];
    if (c->kind != FBY__PANEL_DENSE || c->field->kind == FBY_KIND_FIXED_BINARY || c->field->kind == FBY_KIND_DECIMAL)
        return fby__make_refuse_column(spec, 0, what, err);
    c->want_valid = c->nullable;
    *out = (whole_column){.dtype = c->dtype, .bytes = fby_dtype_bytes(c->dtype), .width = c->width, .want_valid = c->want_valid};
    return FBY_OK;
}

static void find_whole_floats(const double *x, whole_block *b)
{
    for (size_t i = 0; i < b->n; i++) {
        b->is_whole[i] = x[i] == floor(x[i]) && x[i] >= -0x1p63 && x[i] < 0x1p63;
        b->value[i] = b->is_whole[i] ? (int64_t)x[i] : 0;
    }
}

static bool next_whole(const whole_column *c, const fby__make_job *job, fby__make_cursor *cursor, whole_block *b)
{
    b->cursor = *cursor;
    b->n = fby__make_next(job, &job->views[0], c->bytes, c->width, cursor, FBY__MAKE_BLOCK, b->stored);
    size_t bad;
    if (c->dtype >= FBY_FLOAT16) {
        double x[FBY__MAKE_BLOCK];
        (void)fby__convert(FBY_FLOAT64, x, c->dtype, b->stored, b->n, FBY__SCALE_NONE, &bad); /* every float is one */
        find_whole_floats(x, b);
    } else if (c->dtype == FBY_UINT64) {
        memcpy(b->value, b->stored, b->n * 8);
        for (size_t i = 0; i < b->n; i++)
            b->is_whole[i] = b->value[i] >= 0; /* larger ones are no class */
    } else {
        (void)fby__convert(FBY_INT64, b->value, c->dtype, b->stored, b->n, FBY__SCALE_NONE, &bad); /* every narrower integer is one */
        memset(b->is_whole, 1, b->n);
    }
    if (c->want_valid && b->n) {
        uint8_t valid[FBY__MAKE_BLOCK];
        fby__make_next_valid(job, &job->views[0], c->width, b->cursor, b->n, valid);
        for (size_t i = 0; i < b->n; i++)
            b->is_whole[i] &= valid[i] != 0;
    }
    return b->n > 0;
}

static fby_status refuse_number(const whole_column *c, fby__make_job *job, const whole_block *b, size_t i, const char *what, fby_error *err)
{
    job->bad = fby__make_sample_of(job, c->width, b->cursor, i);
    uint8_t valid[FBY__MAKE_BLOCK] = {0};
    if (c->want_valid)
        fby__make_next_valid(job, &job->views[0], c->width, b->cursor, i + 1, valid);
    if (c->want_valid && !valid[i])
        return fby__fail(err, FBY_E_DATA, "a missing value %s", what);
    char text[64];
    (void)fby__value_text(c->dtype, b->stored + i * c->bytes, text, sizeof text);
    return fby__fail(err, FBY_E_DATA, "the value %s %s", text, what);
}

/* ---- one-hot ---- */

typedef struct one_hot {
    whole_column column;
    uint64_t n_classes;
    size_t element_bytes, result_bytes;
    uint64_t one;
    bool ignore_unknown;
} one_hot;

static fby_status create_one_hot(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    const fby_make_one_hot *asked = &spec->make->one_hot;
    FBY__TRY(fby__make_expect_columns(spec, "one-hot", 1, 1, err));
    whole_column column;
    FBY__TRY(use_whole_column(spec, "holds no class numbers: whole numbers do; strings become numbers by a map", &column, err));
    if (asked->n_classes == 0 || asked->n_classes > MAX_CLASSES)
        return fby__fail(err, FBY_E_ARG, "output '%s': one-hot of %llu classes: 1 to %llu are possible", spec->output,
                         (unsigned long long)asked->n_classes, (unsigned long long)MAX_CLASSES);
    if (spec->columns[0].n_axes >= FBY_MAX_DIMS - 1)
        return fby__make_refuse_column(spec, 0, "has too many axes for one more", err);
    one_hot *o = fby__calloc(1, sizeof *o);
    if (!o)
        return fby__fail_nomem(err, "an output of classes");
    *out_state = o;
    const fby_dtype dtype = fby__make_dtype(spec, FBY_FLOAT32);
    *o = (one_hot){.column = column,
                   .n_classes = asked->n_classes,
                   .element_bytes = fby_dtype_bytes(dtype),
                   .one = fby__make_one(dtype),
                   .ignore_unknown = asked->ignore_unknown};
    o->result_bytes = (size_t)o->n_classes * o->element_bytes;
    *made = (fby__made){.dtype = dtype, .ndim = spec->columns[0].n_axes + 1, .memory_bytes = sizeof *o};
    memcpy(made->shape, spec->columns[0].axes, (size_t)spec->columns[0].n_axes * sizeof *made->shape);
    made->shape[made->ndim - 1] = (int64_t)o->n_classes;
    return FBY_OK;
}

static void destroy_one_hot(void *state) { fby__free(state); }

/* Where the results of a block go, zeroed: at once where they follow one another, as in a batch. */
static void zero_results(const fby__make_job *job, const one_hot *o, size_t n, fby__make_cursor *cursor, uint8_t **to)
{
    bool is_run = true;
    for (size_t i = 0; i < n; i++) {
        to[i] = fby__make_next_result(job, o->result_bytes, o->column.width, cursor);
        is_run &= i == 0 || to[i] == to[i - 1] + o->result_bytes;
    }
    if (is_run)
        memset(to[0], 0, n * o->result_bytes);
    else
        for (size_t i = 0; i < n; i++)
            memset(to[i], 0, o->result_bytes);
}

static inline __attribute__((always_inline)) fby_status set_ones(const one_hot *o, fby__make_job *job, const whole_block *b,
                                                                 uint8_t *const *to, const size_t bytes, fby_error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->is_whole[i] && (uint64_t)b->value[i] < o->n_classes)
            memcpy(to[i] + (uint64_t)b->value[i] * bytes, &o->one, bytes);
        else if (!o->ignore_unknown)
            return refuse_number(&o->column, job, b, i, "is none of the classes", err);
    }
    return FBY_OK;
}

static fby_status run_one_hot(const void *state, fby__make_job *job, fby_error *err)
{
    const one_hot *o = state;
    whole_block b;
    uint8_t *to[FBY__MAKE_BLOCK];
    for (fby__make_cursor in = {0}, out = {0}; next_whole(&o->column, job, &in, &b);) {
        zero_results(job, o, b.n, &out, to);
        switch (o->element_bytes) {
        case 1: FBY__TRY(set_ones(o, job, &b, to, 1, err)); break;
        case 2: FBY__TRY(set_ones(o, job, &b, to, 2, err)); break;
        case 4: FBY__TRY(set_ones(o, job, &b, to, 4, err)); break;
        default: FBY__TRY(set_ones(o, job, &b, to, 8, err)); break;
        }
    }
    return FBY_OK;
}

const fby__maker_ops fby__maker_one_hot = {create_one_hot, destroy_one_hot, run_one_hot};

/* ---- map: what becomes of a value ---- */

#define NOT_THERE UINT32_MAX

/** A slot of the hash table. */
typedef struct map_slot {
    uint64_t key;   /* the number, or the string's hash */
    uint32_t entry; /* NOT_THERE = free */
} map_slot;

typedef struct value_map {
    whole_column column; /* of numbers */
    bool is_text, want_valid, has_default;
    size_t element_bytes;
    uint64_t *to; /* owned: n_entries elements, then the default */
    uint32_t n_entries;
    char *texts;        /* owned: of strings, one behind the other */
    size_t *text_begin; /* owned: n_entries + 1 */
    uint32_t *near;     /* owned: entry of near_begin + i, for numbers close together; else NULL */
    int64_t near_begin;
    uint64_t n_near;
    map_slot *slots; /* owned */
    uint64_t slot_mask;
} value_map;

static void destroy_map(void *state)
{
    value_map *m = state;
    if (!m)
        return;
    fby__free(m->to);
    fby__free(m->texts);
    fby__free(m->text_begin);
    fby__free(m->near);
    fby__free(m->slots);
    fby__free(m);
}

static uint64_t hash_number(uint64_t x)
{
    x = (x ^ x >> 32) * FBY__GOLDEN;
    return x ^ x >> 32;
}

/* The slot with this key and text, or the free one where it belongs. */
static map_slot *find_slot(const value_map *m, uint64_t key, const char *text, size_t n)
{
    for (uint64_t at = m->is_text ? key : hash_number(key);; at++) {
        map_slot *s = &m->slots[at & m->slot_mask];
        if (s->entry == NOT_THERE)
            return s;
        if (s->key != key)
            continue;
        if (!m->is_text)
            return s;
        const size_t *begin = m->text_begin + s->entry;
        if (begin[1] - begin[0] == n && memcmp(m->texts + begin[0], text, n) == 0)
            return s;
    }
}

static uint32_t entry_of_number(const value_map *m, int64_t x)
{
    if (m->near) {
        const uint64_t at = (uint64_t)x - (uint64_t)m->near_begin;
        return at < m->n_near ? m->near[at] : NOT_THERE;
    }
    return find_slot(m, (uint64_t)x, NULL, 0)->entry;
}

static uint32_t entry_of_text(const value_map *m, const uint8_t *text, size_t n)
{
    return find_slot(m, fby__table_hash(text, n), (const char *)text, n)->entry;
}

/* ---- map: creation ---- */

static bool is_whole_number(double x) { return x == floor(x) && fabs(x) < 0x1p63; }

static fby_dtype choose_dtype(const fby__make_spec *spec)
{
    const fby_make_map *a = &spec->make->map;
    bool whole = !a->has_default || is_whole_number(a->default_to);
    for (size_t i = 0; i < a->n; i++)
        whole &= is_whole_number(a->to[i]);
    return fby__make_dtype(spec, whole ? FBY_INT64 : FBY_FLOAT32);
}

/* A target as an element; whole numbers stay what they are. */
static fby_status set_target(const fby__make_spec *spec, fby_dtype dtype, double to, uint64_t *out, fby_error *err)
{
    fby__scalar value;
    if ((dtype < FBY_FLOAT16 && !is_whole_number(to)) || !fby__scalar_set(dtype, to, &value))
        return fby__fail(err, FBY_E_ARG, "output '%s': a value is mapped to %g, which is no %s", spec->output, to, fby_dtype_name(dtype));
    *out = value.u64;
    return FBY_OK;
}

static fby_status copy_texts(value_map *m, const fby_make_map *a, fby_error *err)
{
    size_t total = 0;
    if (!(m->text_begin = fby__calloc(a->n + 1, sizeof *m->text_begin)))
        return fby__fail_nomem(err, "a map");
    for (size_t i = 0; i < a->n; i++) {
        if (!fby__add_checked(total, strlen(a->texts[i]), &total))
            return fby__fail_nomem(err, "a map");
        m->text_begin[i + 1] = total;
    }
    if (!(m->texts = fby__malloc(total)))
        return fby__fail_nomem(err, "a map");
    for (size_t i = 0; i < a->n; i++)
        memcpy(m->texts + m->text_begin[i], a->texts[i], m->text_begin[i + 1] - m->text_begin[i]);
    return FBY_OK;
}

/* Room for n numbers: a table from the least to the greatest when that has few gaps. */
static bool make_near(value_map *m, const fby_make_map *a)
{
    int64_t least = a->n ? a->numbers[0] : 0, greatest = least;
    for (size_t i = 0; i < a->n; i++) {
        least = a->numbers[i] < least ? a->numbers[i] : least;
        greatest = a->numbers[i] > greatest ? a->numbers[i] : greatest;
    }
    const uint64_t span = (uint64_t)greatest - (uint64_t)least;
    if (span / 8 > a->n + 512)
        return true;
    m->near_begin = least;
    m->n_near = span + 1;
    if (!(m->near = fby__malloc((size_t)m->n_near * sizeof *m->near)))
        return false;
    memset(m->near, 0xff, (size_t)m->n_near * sizeof *m->near);
    return true;
}

static bool make_slots(value_map *m, size_t n)
{
    uint64_t count = 16;
    while (count < 2 * (uint64_t)n + 1)
        count *= 2;
    if (!(m->slots = fby__malloc((size_t)count * sizeof *m->slots)))
        return false;
    m->slot_mask = count - 1;
    for (uint64_t i = 0; i < count; i++)
        m->slots[i] = (map_slot){.entry = NOT_THERE};
    return true;
}

static fby_status refuse_twice(const fby__make_spec *spec, size_t i, fby_error *err)
{
    const fby_make_map *a = &spec->make->map;
    if (a->texts)
        return fby__fail(err, FBY_E_ARG, "output '%s': '%.100s' is mapped to two numbers", spec->output, a->texts[i]);
    return fby__fail(err, FBY_E_ARG, "output '%s': %lld is mapped to two numbers", spec->output, (long long)a->numbers[i]);
}

static fby_status add_entries(const fby__make_spec *spec, value_map *m, fby_error *err)
{
    const fby_make_map *a = &spec->make->map;
    for (size_t i = 0; i < a->n; i++) {
        uint32_t *entry;
        if (m->near) {
            entry = &m->near[(uint64_t)a->numbers[i] - (uint64_t)m->near_begin];
        } else {
            const size_t n = a->texts ? strlen(a->texts[i]) : 0;
            const uint64_t key = a->texts ? fby__table_hash(a->texts[i], n) : (uint64_t)a->numbers[i];
            map_slot *s = find_slot(m, key, a->texts ? a->texts[i] : NULL, n);
            s->key = key;
            entry = &s->entry;
        }
        if (*entry != NOT_THERE && m->to[*entry] != m->to[i])
            return refuse_twice(spec, i, err);
        *entry = (uint32_t)i;
    }
    return FBY_OK;
}

static fby_status fill_map(fby__make_spec *spec, value_map *m, fby_dtype dtype, fby_error *err)
{
    const fby_make_map *a = &spec->make->map;
    m->n_entries = (uint32_t)a->n;
    m->has_default = a->has_default;
    m->element_bytes = fby_dtype_bytes(dtype);
    if (!(m->to = fby__calloc(a->n + 1, sizeof *m->to)))
        return fby__fail_nomem(err, "a map");
    for (size_t i = 0; i < a->n; i++)
        FBY__TRY(set_target(spec, dtype, a->to[i], &m->to[i], err));
    if (a->has_default)
        FBY__TRY(set_target(spec, dtype, a->default_to, &m->to[a->n], err));
    if (m->is_text)
        FBY__TRY(copy_texts(m, a, err));
    else if (!make_near(m, a))
        return fby__fail_nomem(err, "a map");
    if (!m->near && !make_slots(m, a->n))
        return fby__fail_nomem(err, "a map");
    return add_entries(spec, m, err);
}

/* The column fits the keys: strings or whole numbers. */
static fby_status check_keys(fby__make_spec *spec, value_map *m, fby_error *err)
{
    const fby_make_map *a = &spec->make->map;
    if (a->n > MAX_ENTRIES || (a->n && !a->to) || (a->texts && a->numbers) || (!a->texts && !a->numbers && a->n))
        return fby__fail(err, FBY_E_ARG, "output '%s': a map takes texts or numbers, and what each is mapped to", spec->output);
    fby__make_column *c = &spec->columns[0];
    m->is_text = c->kind == FBY__PANEL_BYTES;
    if (m->is_text ? a->numbers != NULL : a->texts != NULL)
        return fby__make_refuse_column(
            spec, 0, m->is_text ? "is mapped from numbers: give the strings" : "is mapped from strings: give the whole numbers", err);
    if (!m->is_text)
        return use_whole_column(spec, "cannot be mapped: whole numbers and strings can", &m->column, err);
    if (spec->max_rows > 1)
        return fby__make_refuse_column(spec, 0,
                                       "varies in length from row to row, and a sample has several rows: take that of its first row", err);
    m->want_valid = c->want_valid = c->nullable;
    return FBY_OK;
}

static fby_status create_map(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    FBY__TRY(fby__make_expect_columns(spec, "a map", 1, 1, err));
    value_map *m = fby__calloc(1, sizeof *m);
    if (!m)
        return fby__fail_nomem(err, "a map");
    *out_state = m;
    FBY__TRY(check_keys(spec, m, err));
    const fby_dtype dtype = choose_dtype(spec);
    FBY__TRY(fill_map(spec, m, dtype, err));
    const fby__make_column *c = &spec->columns[0];
    *made = (fby__made){.dtype = dtype, .ndim = m->is_text ? 0 : c->n_axes};
    memcpy(made->shape, c->axes, (size_t)made->ndim * sizeof *made->shape);
    if (spec->keep_axis && made->ndim == 0)
        made->shape[made->ndim++] = 1;
    made->memory_bytes = sizeof *m + ((size_t)m->n_entries + 1) * sizeof *m->to + (size_t)m->n_near * sizeof *m->near +
                         (m->slots ? (size_t)(m->slot_mask + 1) * sizeof *m->slots : 0) +
                         (m->is_text ? m->text_begin[m->n_entries] + ((size_t)m->n_entries + 1) * sizeof *m->text_begin : 0);
    return FBY_OK;
}

/* ---- map: running ---- */

static fby_status run_texts(const value_map *m, fby__make_job *job, fby_error *err)
{
    const fby__make_view *v = &job->views[0];
    for (uint64_t s = 0; s < job->n; s++) {
        if (job->n_rows[s] == 0)
            continue;
        const bool is_there = !m->want_valid || v->valid[s][0];
        uint32_t entry = is_there ? entry_of_text(m, v->data[s], (size_t)v->count[s]) : NOT_THERE;
        if (entry == NOT_THERE) {
            if (!m->has_default) {
                job->bad = s;
                if (!is_there)
                    return fby__fail(err, FBY_E_DATA, "a missing value is not in the map, which has no default");
                return fby__fail(err, FBY_E_DATA, "'%.*s' is not in the map, which has no default", (int)fby__min_u64(v->count[s], 100),
                                 (const char *)v->data[s]);
            }
            entry = m->n_entries;
        }
        memcpy(job->dst[s], &m->to[entry], m->element_bytes);
    }
    return FBY_OK;
}

static fby_status run_numbers(const value_map *m, fby__make_job *job, fby_error *err)
{
    whole_block b;
    uint8_t packed[FBY__MAKE_BLOCK * 8];
    for (fby__make_cursor in = {0}, out = {0}; next_whole(&m->column, job, &in, &b);) {
        for (size_t i = 0; i < b.n; i++) {
            uint32_t entry = b.is_whole[i] ? entry_of_number(m, b.value[i]) : NOT_THERE;
            if (entry == NOT_THERE) {
                if (!m->has_default)
                    return refuse_number(&m->column, job, &b, i, "is not in the map, which has no default", err);
                entry = m->n_entries;
            }
            memcpy(packed + i * m->element_bytes, &m->to[entry], 8); /* the rest is written over, or past the last one: there is room */
        }
        fby__make_put(job, m->element_bytes, m->column.width, &out, b.n, packed);
    }
    return FBY_OK;
}

static fby_status run_map(const void *state, fby__make_job *job, fby_error *err)
{
    const value_map *m = state;
    return m->is_text ? run_texts(m, job, err) : run_numbers(m, job, err);
}

const fby__maker_ops fby__maker_map = {create_map, destroy_map, run_map};
