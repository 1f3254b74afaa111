/*
 * Rows of a group, grouped once more by a key: each subgroup one row of channels.
 *
 *   rows       key   7 3 7 9 3 7          order     rows by order value: a b c d e f (as they lie, where they are sorted)
 *              row   a b c d e f          numbers   0 1 0 2 1 0: subgroups by first appearance
 *                                         positions 0 0 1 0 1 2: of a row in its subgroup
 *   result     position | channels…       row 0: key 7 (a c f), row 1: key 3 (b e), row 2: key 9 (d), then the pad up to max_groups
 *
 * Rows mostly lie in order, then one pass numbers them, and what comes after the last subgroup that fits is not looked at. Otherwise they
 * are sorted first, by radix where they are many.
 *
 * Everything is computed in float64: a column without operations comes as it is stored, so that sums and deviations of large integers
 * lose nothing; one with operations comes as float32, or as float64 where that is needed or the output is that.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "block/prefetch.h"
#include "transform/group_channels_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MAX_CHANNELS 65536u
#define MAX_VALUES (UINT64_C(1) << 31) /* of a result */
#define KEY 0u
#define ORDER 1u
#define FIRST_FEATURE 2u

/* ---- opening ---- */

/* Channels as they were asked for → blocks, and what must be known of every feature. */
static fby_status add_channels(const fby__make_spec *spec, fby__group_channels *p, fby_error *err)
{
    const fby_make_group_channels *asked = &spec->make->group_channels;
    const uint32_t n_features = spec->n_columns - FIRST_FEATURE;
    uint64_t at = p->positions.n_columns;
    for (size_t i = 0, n; i < asked->n_channels; i += n) {
        const fby_channel *c = &asked->channels[i];
        const bool is_rows = c->value == FBY_CHANNEL_FIRST_ROWS;
        n = 1;
        while (is_rows && i + n < asked->n_channels && c[n].value == FBY_CHANNEL_FIRST_ROWS)
            n++;
        for (size_t k = 0; k < n; k++) {
            if ((unsigned)c[k].value > FBY_CHANNEL_KEY)
                return fby__fail(err, FBY_E_ARG, "output '%s': group_channels: channel %zu is of an unknown kind", spec->output, i + k);
            if (c[k].value != FBY_CHANNEL_COUNT && c[k].value != FBY_CHANNEL_KEY && c[k].feature >= n_features)
                return fby__fail(err, FBY_E_ARG, "output '%s': group_channels: channel %zu is of feature %u: the output has %u",
                                 spec->output, i + k, c[k].feature, n_features);
            p->channels[i + k] = (fby__made_channel){.value = c[k].value, .feature = c[k].feature, .at = (uint32_t)at, .step = (uint32_t)n};
            if (c[k].value != FBY_CHANNEL_COUNT && c[k].value != FBY_CHANNEL_KEY)
                p->uses[c[k].feature] |= 1u << c[k].value;
        }
        at += is_rows ? n * asked->n_rows : 1;
        if (at > MAX_CHANNELS)
            return fby__fail(err, FBY_E_ARG, "output '%s': group_channels: more than %u channels", spec->output, MAX_CHANNELS);
        if (is_rows && asked->n_rows == 0)
            return fby__fail(err, FBY_E_ARG, "output '%s': group_channels: the first 0 rows of a feature", spec->output);
    }
    p->n_channels = (uint32_t)asked->n_channels;
    p->row_values = (uint32_t)at;
    return FBY_OK;
}

static fby_status check_columns(fby__make_spec *spec, fby_dtype dtype, fby_error *err)
{
    for (uint32_t i = 0; i < spec->n_columns; i++) {
        fby__make_column *c = &spec->columns[i];
        if (c->kind != FBY__PANEL_DENSE || c->width != 1)
            return fby__make_refuse_column(spec, i, "cannot be packed: one number a row is expected", err);
        if (i == KEY) {
            if (fby__dtype_is_float(c->dtype))
                return fby__make_refuse_column(spec, i, "is no key: whole numbers are expected", err);
            c->dtype = FBY_INT64;
            c->want_valid = c->nullable;
        } else if (i == ORDER) {
            c->dtype = fby__dtype_is_float(c->dtype) ? FBY_FLOAT64 : FBY_INT64;
            c->want_valid = c->nullable;
        } else if (c->computed) {
            c->dtype = dtype == FBY_FLOAT64 ? FBY_FLOAT64 : c->dtype;
        } else if (c->nullable && !fby__dtype_is_float(c->dtype)) {
            c->dtype = FBY_FLOAT64; /* which can say that a value is missing */
        }
    }
    return FBY_OK;
}

static fby_status prepare(fby__make_spec *spec, fby__group_channels *p, fby__made *made, fby_error *err)
{
    const fby_make_group_channels *asked = &spec->make->group_channels;
    FBY__TRY(fby__make_expect_columns(spec, "group_channels", FIRST_FEATURE, UINT32_MAX, err));
    const fby_dtype dtype = fby__make_dtype(spec, asked->mask ? FBY_BOOL : FBY_FLOAT32);
    if (asked->mask ? dtype != FBY_BOOL : !fby__dtype_is_float(dtype))
        return fby__fail(err, FBY_E_ARG, "output '%s': group_channels: %s gives %s, not %s", spec->output,
                         asked->mask ? "the mask" : "a subgroup", asked->mask ? "bool" : "floats", fby_dtype_name(dtype));
    if (asked->max_groups == 0)
        return fby__fail(err, FBY_E_ARG, "output '%s': group_channels: at most 0 groups a sample", spec->output);
    FBY__TRY(check_columns(spec, dtype, err));
    *made = (fby__made){.of_sample = true, .dtype = dtype, .ndim = 1, .shape = {asked->max_groups}};
    p->is_mask = asked->mask;
    p->dtype = dtype;
    p->max_groups = asked->max_groups;
    p->n_rows = asked->n_rows;
    p->pad = asked->pad;
    p->order_dtype = spec->columns[ORDER].dtype;
    if (p->is_mask)
        return FBY_OK;
    if (asked->n_channels > MAX_CHANNELS)
        return fby__fail(err, FBY_E_ARG, "output '%s': group_channels: more than %u channels", spec->output, MAX_CHANNELS);
    p->n_features = spec->n_columns - FIRST_FEATURE;
    p->dtypes = fby__calloc(p->n_features + 1, sizeof *p->dtypes);
    p->uses = fby__calloc(p->n_features + 1, sizeof *p->uses);
    p->channels = fby__calloc(asked->n_channels + 1, sizeof *p->channels);
    if (!p->dtypes || !p->uses || !p->channels)
        return fby__fail_nomem(err, "channels");
    for (uint32_t i = 0; i < p->n_features; i++)
        p->dtypes[i] = spec->columns[FIRST_FEATURE + i].dtype;
    if (asked->positions) {
        fby_status status = fby__channel_positions_init(&p->positions, asked->positions, err);
        if (status != FBY_OK) {
            fby__error_context(err, "output '%s', column '%s'", spec->output, spec->columns[KEY].name);
            return status;
        }
    }
    FBY__TRY(add_channels(spec, p, err));
    if (p->row_values == 0)
        return fby__fail(err, FBY_E_ARG, "output '%s': group_channels: no channels: name features, aggregates, a count or positions",
                         spec->output);
    if ((uint64_t)p->row_values * p->max_groups > MAX_VALUES)
        return fby__fail(err, FBY_E_ARG,
                         "output '%s': group_channels: %u subgroups of %u channels, and a sample has at most %" PRIu64
                         " values: lower max_groups or "
                         "first_rows",
                         spec->output, p->max_groups, p->row_values, MAX_VALUES);
    made->ndim = 2;
    made->shape[1] = p->row_values;
    made->memory_bytes = p->positions.memory_bytes;
    return FBY_OK;
}

static void destroy_group_channels(void *state)
{
    fby__group_channels *p = state;
    if (!p)
        return;
    fby__channel_positions_fini(&p->positions);
    fby__free(p->dtypes);
    fby__free(p->uses);
    fby__free(p->channels);
    fby__free(p);
}

static fby_status create_group_channels(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    fby__group_channels *p = fby__calloc(1, sizeof *p);
    if (!p)
        return fby__fail_nomem(err, "channels");
    *out_state = p;
    return prepare(spec, p, made, err);
}

/* ---- running ---- */

/* Column values of all rows → float64, one behind the other. */
static void widen(double *to, fby_dtype dtype, const uint8_t *from, size_t stride, uint64_t n)
{
#define WIDEN(T, expr)                                                                                                                     \
    for (uint64_t i = 0; i < n; i++, from += stride) {                                                                                     \
        T v;                                                                                                                               \
        memcpy(&v, from, sizeof v);                                                                                                        \
        to[i] = (double)(expr);                                                                                                            \
    }
    switch (dtype) {
    case FBY_BOOL:
    case FBY_UINT8: WIDEN(uint8_t, v) break;
    case FBY_INT8: WIDEN(int8_t, v) break;
    case FBY_INT16: WIDEN(int16_t, v) break;
    case FBY_UINT16: WIDEN(uint16_t, v) break;
    case FBY_INT32: WIDEN(int32_t, v) break;
    case FBY_UINT32: WIDEN(uint32_t, v) break;
    case FBY_INT64: WIDEN(int64_t, v) break;
    case FBY_UINT64: WIDEN(uint64_t, v) break;
    case FBY_FLOAT16: WIDEN(uint16_t, fby__float16_to_float(v)) break;
    case FBY_BFLOAT16: WIDEN(uint16_t, fby__bfloat16_to_float(v)) break;
    case FBY_FLOAT32: WIDEN(float, v) break;
    default: WIDEN(double, v) break;
    }
#undef WIDEN
}

/* A value to a result of float32, or of float64 (16-bit results are made from that). */
static inline __attribute__((always_inline)) void put(uint8_t *out, size_t at, double value, bool is_float32)
{
    if (is_float32) {
        const float v = (float)value;
        memcpy(out + at * sizeof v, &v, sizeof v);
    } else {
        memcpy(out + at * sizeof value, &value, sizeof value);
    }
}

static bool has_nan(const fby__group_rows *g, const double *value)
{
    bool found = false;
    for (uint64_t i = 0; i < g->n; i++)
        found |= value[g->row[i]] != value[g->row[i]];
    return found;
}

/* As NumPy has it: NaN is the least and the greatest. Values seldom are, so the loop that need not look for it is apart. */
static inline __attribute__((always_inline)) void find_extremes(const fby__group_rows *g, const double *value, double *out, bool is_min)
{
    for (uint32_t k = 0; k < g->n_groups; k++)
        out[k] = is_min ? (double)INFINITY : -(double)INFINITY;
    for (uint64_t i = 0; i < g->n; i++) {
        double *at = &out[g->group[i]];
        const double v = value[g->row[i]];
        *at = (is_min ? v < *at : v > *at) ? v : *at;
    }
    if (has_nan(g, value))
        for (uint64_t i = 0; i < g->n; i++)
            if (value[g->row[i]] != value[g->row[i]])
                out[g->group[i]] = value[g->row[i]];
}

/* Values of a feature that are one number a subgroup: to out, one each; other is room for as many. */
static void find_aggregate(const fby__group_rows *g, fby_channel_value what, const double *value, double *out, double *other)
{
    const uint32_t n_groups = g->n_groups;
    if (what == FBY_CHANNEL_MIN) {
        find_extremes(g, value, out, true);
        return;
    }
    if (what == FBY_CHANNEL_MAX) {
        find_extremes(g, value, out, false);
        return;
    }
    memset(out, 0, n_groups * sizeof *out);
    for (uint64_t i = 0; i < g->n; i++)
        out[g->group[i]] += value[g->row[i]];
    if (what == FBY_CHANNEL_SUM)
        return;
    for (uint32_t k = 0; k < n_groups; k++)
        out[k] /= (double)g->size[k];
    if (what == FBY_CHANNEL_MEAN)
        return;
    memset(other, 0, n_groups * sizeof *other);
    for (uint64_t i = 0; i < g->n; i++) {
        const double d = value[g->row[i]] - out[g->group[i]];
        other[g->group[i]] += d * d;
    }
    for (uint32_t k = 0; k < n_groups; k++)
        out[k] = sqrt(other[k] / (double)g->size[k]);
}

/* Which of the rows are among the first of their subgroup: indices in row, group and position. */
static uint64_t find_first_rows(const fby__group_channels *p, const fby__group_rows *g, uint32_t *out)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < g->n; i++) {
        out[n] = (uint32_t)i;
        n += g->position[i] < p->n_rows;
    }
    return n;
}

/* Channels of a block: n_channels of them from c on. */
static inline __attribute__((always_inline)) void put_first_rows(const fby__group_channels *p, const fby__made_channel *c,
                                                                 const fby__group_rows *g, const uint32_t *first, uint64_t n_first,
                                                                 const double *values, uint64_t n_rows, uint8_t *out, bool is_float32)
{
    const uint32_t n_channels = c->step;
    for (uint64_t i = 0; i < n_first; i++) {
        const uint32_t k = first[i];
        const size_t at = (size_t)g->group[k] * p->row_values + c->at + (size_t)g->position[k] * n_channels;
        const double *value = values + g->row[k];
        for (uint32_t f = 0; f < n_channels; f++)
            put(out, at + f, value[c[f].feature * n_rows], is_float32);
    }
}

static inline __attribute__((always_inline)) void put_channels(const fby__group_channels *p, const fby__group_rows *g, const double *values,
                                                               uint64_t n_rows, double *sum, double *other, uint8_t *out, bool is_float32)
{
    uint32_t *first = g->sorted[0]; /* done with */
    uint64_t n_first = 0;
    for (uint32_t i = 0; i < p->n_channels; i++) {
        const fby__made_channel *c = &p->channels[i];
        if (c->value == FBY_CHANNEL_FIRST_ROWS) {
            if (n_first == 0)
                n_first = find_first_rows(p, g, first);
            put_first_rows(p, c, g, first, n_first, values, n_rows, out, is_float32);
            i += c->step - 1;
            continue;
        }
        const bool is_count = c->value == FBY_CHANNEL_COUNT, is_key = c->value == FBY_CHANNEL_KEY;
        if (!is_count && !is_key)
            find_aggregate(g, c->value, values + c->feature * n_rows, sum, other);
        for (uint32_t k = 0; k < g->n_groups; k++)
            put(out, (size_t)k * p->row_values + c->at, is_count ? (double)g->size[k] : is_key ? (double)g->key[k] : sum[k], is_float32);
    }
}

/* Fills all with the pad, then puts positions. */
static inline __attribute__((always_inline)) fby_status put_positions(const fby__group_channels *p, const fby__group_rows *g, uint8_t *out,
                                                                      bool is_float32, fby_error *err)
{
    const size_t n = (size_t)p->max_groups * p->row_values;
    for (size_t i = 0; i < n; i++)
        put(out, i, p->pad, is_float32);
    for (uint32_t k = 0; p->positions.n_columns && k < g->n_groups; k++) {
        const double *at = fby__channel_positions_find(&p->positions, g->key[k]);
        if (!at)
            return fby__fail(err, FBY_E_DATA, "key %" PRId64 " is not in the table of positions", g->key[k]);
        for (uint32_t c = 0; c < p->positions.n_columns; c++)
            put(out, (size_t)k * p->row_values + c, at[c], is_float32);
    }
    return FBY_OK;
}

static fby_status put_group(const fby__group_channels *p, const fby__group_rows *g, const double *values, uint64_t n_rows, double *sum,
                            double *other, uint8_t *out, bool is_float32, fby_error *err)
{
    if (is_float32) {
        FBY__TRY(put_positions(p, g, out, true, err));
        put_channels(p, g, values, n_rows, sum, other, out, true);
    } else {
        FBY__TRY(put_positions(p, g, out, false, err));
        put_channels(p, g, values, n_rows, sum, other, out, false);
    }
    return FBY_OK;
}

/* A number that the dtype does not hold: of a channel, or the pad. */
static fby_status fail_value(const fby__group_channels *p, const fby__group_rows *g, const double *made, size_t bad, fby_error *err)
{
    const size_t subgroup = bad / p->row_values;
    const fby_status status = fby__make_fail_value(FBY_FLOAT64, (const uint8_t *)made, bad, p->dtype, err);
    if (subgroup < g->n_groups)
        fby__error_context(err, "channel %zu of the subgroup with key %" PRId64, bad % p->row_values, g->key[subgroup]);
    return status;
}

static bool has_infinity(const uint8_t *floats, size_t n)
{
    unsigned found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, floats + i * sizeof bits, sizeof bits);
        found |= (bits & 0x7fffffff) == 0x7f800000;
    }
    return found;
}

/* A result of float32 in which there is infinity: once more in float64, which tells what was infinite from what became so. */
static fby_status check_infinity(const fby__group_channels *p, const fby__group_rows *g, const double *values, uint64_t n_rows, double *sum,
                                 double *other, size_t n_out, uint8_t *dst, fby_error *err)
{
    size_t bad;
    double *wide = fby__malloc(n_out * sizeof *wide);
    if (!wide)
        return fby__fail_nomem(err, "packing a group");
    fby_status status = put_group(p, g, values, n_rows, sum, other, (uint8_t *)wide, false, err);
    if (status == FBY_OK && fby__convert(FBY_FLOAT32, dst, FBY_FLOAT64, wide, n_out, FBY__SCALE_NONE, &bad) != FBY_OK)
        status = fail_value(p, g, wide, bad, err);
    fby__free(wide);
    return status;
}

static fby_status group_sample(const fby__group_channels *p, fby__make_job *job, uint64_t sample, fby_error *err)
{
    const uint64_t n = job->n_rows[sample];
    const bool converts = p->dtype == FBY_FLOAT16 || p->dtype == FBY_BFLOAT16;
    const size_t n_out = (size_t)p->max_groups * p->row_values;
    /* Values, two numbers a subgroup, the result where it is converted; and what grouping needs. */
    const uint64_t n_doubles = n * p->n_features + 2 * (n < p->max_groups ? n : p->max_groups) + (converts ? n_out : 0);
    if (n >= UINT32_MAX || n_doubles > SIZE_MAX / 16)
        return fby__fail(err, FBY_E_DATA, "a group of %" PRIu64 " rows", n);
    double *doubles = fby__make_scratch_get(job->scratch, (size_t)n_doubles * sizeof *doubles + fby__group_rows_bytes((uint32_t)n));
    if (!doubles)
        return fby__fail_nomem(err, "packing a group");
    fby__group_rows g;
    fby__group_rows_lay_out(&g, (uint32_t)n, (uint8_t *)(doubles + n_doubles));
    FBY__TRY(fby__group_rows_order(p, job, sample, &g, err));
    uint8_t *dst = job->dst[sample];
    if (p->is_mask) {
        memset(dst, 1, g.n_groups);
        memset(dst + g.n_groups, 0, p->max_groups - g.n_groups);
        return FBY_OK;
    }
    for (uint32_t f = 0; f < p->n_features; f++) {
        const fby__make_view *v = &job->views[FIRST_FEATURE + f];
        if (p->uses[f])
            widen(doubles + f * n, p->dtypes[f], v->data[sample], v->row_bytes, n);
    }
    double *sum = doubles + n * p->n_features, *other = sum + (n < p->max_groups ? n : p->max_groups);
    double *made = other + (n < p->max_groups ? n : p->max_groups);
    FBY__TRY(put_group(p, &g, doubles, n, sum, other, converts ? (uint8_t *)made : dst, p->dtype == FBY_FLOAT32, err));
    if (p->dtype == FBY_FLOAT32 && has_infinity(dst, n_out))
        return check_infinity(p, &g, doubles, n, sum, other, n_out, dst, err);
    size_t bad;
    if (converts && fby__convert(p->dtype, dst, FBY_FLOAT64, made, n_out, FBY__SCALE_NONE, &bad) != FBY_OK)
        return fail_value(p, &g, made, bad, err);
    return FBY_OK;
}

/*
 * In a shuffled epoch the rows of the next sample can lie anywhere in memory. Columns of one panel lie in the same rows, which are fetched
 * once, unless they are longer than a line: most of them would not be read.
 */
static void fetch_ahead(const fby__group_channels *p, const fby__make_job *job, uint64_t sample)
{
    uintptr_t before = 0;
    for (uint32_t k = 0; k < FIRST_FEATURE + p->n_features; k++) {
        if (k >= FIRST_FEATURE ? !p->uses[k - FIRST_FEATURE] : k == ORDER && p->is_mask)
            continue;
        const fby__make_view *v = &job->views[k];
        const uintptr_t at = (uintptr_t)v->data[sample];
        if (v->row_bytes <= FBY__LINE_BYTES && (at > before ? at - before : before - at) >= v->row_bytes)
            fby__prefetch_values(v->data[sample], job->n_rows[sample] * v->row_bytes);
        if (v->valid)
            fby__prefetch_values(v->valid[sample], job->n_rows[sample] * v->valid_bytes);
        before = at;
    }
}

static fby_status run_group_channels(const void *state, fby__make_job *job, fby_error *err)
{
    for (uint64_t i = 0; i < job->n; i++) {
        if (i + 1 < job->n)
            fetch_ahead(state, job, i + 1);
        fby_status status = group_sample(state, job, i, err);
        if (status != FBY_OK) {
            job->bad = i;
            return status;
        }
    }
    return FBY_OK;
}

const fby__maker_ops fby__maker_group_channels = {create_group_channels, destroy_group_channels, run_group_channels};
