/*
 * Operations → passes.
 *
 * Affine passes keep a centre that is subtracted first: a mean that is large beside the spread then costs no digits. Fusing a second
 * affine operation changes factor and offset alone.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "transform/program_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Where float32's rounding of an input, 2^-24 of it, stays invisible: of a standardised value at most 2^-14 standard deviations. */
#define MAX_MEAN_IN_STDS 1024.0
#define SANE_MAX 1e30 /* within float32's range with room to spare */
#define SANE_MIN 1e-30

static const char *const NAMES[] = {"affine", "standardize", "clip", "log", "log10", "log1p", "fill_nan", "fill_missing", "fill_null"};

static uint32_t places_of(const fby_op *op) { return op->n_each ? (uint32_t)op->n_each : 1; }

/* Of column c, and of place k of the axis that an operation names. */
static double param_a(const fby_op *op, uint32_t c, uint32_t k) { return op->a_each ? op->a_each[(size_t)c * places_of(op) + k] : op->a; }
static double param_b(const fby_op *op, uint32_t c, uint32_t k) { return op->b_each ? op->b_each[(size_t)c * places_of(op) + k] : op->b; }

/* NULL, or what is wrong with an operation's parameters for a column. */
static const char *fault_of(const fby_op *op, double a, double b)
{
    switch (op->kind) {
    case FBY_OP_AFFINE: return isfinite(a) && isfinite(b) ? NULL : "factor and offset must be finite";
    case FBY_OP_STANDARDIZE:
        return !isfinite(a) || !isfinite(b)   ? "mean and standard deviation must be finite"
               : !(b > 0) || !isfinite(1 / b) ? "the standard deviation must be above 0; leave a constant column out"
                                              : NULL;
    case FBY_OP_CLIP: return a <= b ? NULL : "the lower limit must not be above the upper one"; /* nor NaN */
    case FBY_OP_LOG:
    case FBY_OP_LOG10: return a >= 0 && isfinite(a) ? NULL : "the floor must be a number above 0, or 0 for none";
    case FBY_OP_FILL_NAN:
    case FBY_OP_FILL_MISSING:
    case FBY_OP_FILL_NULL: return isnan(a) ? "NaN is what is missing in floats without it: give a number" : NULL;
    case FBY_OP_LOG1P: break;
    }
    return NULL;
}

static fby_status check_axis(const fby_op *op, const char *column, fby__value_axes axes, fby_error *err)
{
    if (op->n_each == 0)
        return FBY_OK;
    if (op->kind == FBY_OP_FILL_NULL)
        return fby__fail(err, FBY_E_ARG,
                         "column '%s', operation fill_null: it takes one number a column, not one for each place of an axis", column);
    if (op->axis >= 0 || op->axis < -axes.n)
        return fby__fail(err, FBY_E_ARG,
                         "column '%s', operation %s: axis %d: a row's value has %d ax%s, which are counted from the end: -1 is the last",
                         column, NAMES[op->kind], op->axis, axes.n, axes.n == 1 ? "is" : "es");
    const int64_t size = axes.sizes[axes.n + op->axis];
    if ((uint64_t)size != op->n_each)
        return fby__fail(err, FBY_E_ARG, "column '%s', operation %s: %zu numbers for an axis of %" PRId64 " places (axis %d)", column,
                         NAMES[op->kind], op->n_each, size, op->axis);
    return FBY_OK;
}

static fby_status check(const fby_op *op, const char *const *columns, uint32_t n_columns, fby__value_axes axes, fby_error *err)
{
    if ((unsigned)op->kind > FBY_OP_FILL_NULL)
        return fby__fail(err, FBY_E_ARG, "an operation of an unknown kind");
    FBY__TRY(check_axis(op, columns[0], axes, err));
    for (uint32_t c = 0; c < n_columns; c++)
        for (uint32_t k = 0; k < places_of(op); k++) {
            const double a = param_a(op, c, k), b = param_b(op, c, k);
            const char *fault = fault_of(op, a, b);
            char place[32] = "";
            if (fault && op->n_each)
                (void)snprintf(place, sizeof place, ", place %u", k);
            if (fault)
                return fby__fail(err, FBY_E_ARG, "column '%s', operation %s(%g, %g)%s: %s", columns[c], NAMES[op->kind], a, b, place,
                                 fault);
        }
    return FBY_OK;
}

static bool fills_columns(const fby_op *op) { return (op->kind == FBY_OP_FILL_MISSING || op->kind == FBY_OP_FILL_NULL) && !op->n_each; }

size_t fby__leading_fills(const fby_op *ops, size_t n_ops)
{
    size_t n = 0;
    while (n < n_ops && fills_columns(&ops[n]))
        n++;
    return n;
}

bool fby__null_fill(const fby_op *ops, size_t n_ops, uint32_t column, double *out)
{
    if (fby__leading_fills(ops, n_ops) == 0)
        return false;
    *out = param_a(&ops[0], column, 0);
    return true;
}

/* ---- passes ---- */

/** A program while it is made. */
typedef struct making {
    fby__program *program;
    fby__value_axes axes;
    double *next; /* where the next pass has its parameters */
} making;

/* The elements at one position of the axis that an operation names. */
static uint32_t inner_of(const fby_op *op, fby__value_axes axes)
{
    uint32_t inner = 1;
    for (int32_t d = axes.n + op->axis + 1; op->n_each && d < axes.n; d++)
        inner *= (uint32_t)axes.sizes[d];
    return inner ? inner : 1;
}

static fby__pass *add_pass(making *m, fby__pass_kind kind, const fby_op *op)
{
    fby__program *p = m->program;
    fby__pass *s = &p->passes[p->n_passes++];
    *s = (fby__pass){.kind = kind, .n_places = places_of(op), .inner = inner_of(op, m->axes)};
    for (uint32_t i = 0; i < fby__pass_params(kind); i++) {
        s->param[i] = m->next;
        m->next += (size_t)p->n_columns * s->n_places;
    }
    return s;
}

/* Every parameter of a pass: column c, place k, and where it lies. */
#define EACH_PARAM(p, s, c, k, at)                                                                                                         \
    for (uint32_t c = 0; c < (p)->n_columns; c++)                                                                                          \
        for (size_t k = 0, at = (size_t)c * (s)->n_places; k < (s)->n_places; k++, at++)

static void add_affine(making *m, const fby_op *op)
{
    fby__program *p = m->program;
    fby__pass *before = p->n_passes ? &p->passes[p->n_passes - 1] : NULL;
    const bool fuses =
        before && before->kind == FBY__PASS_AFFINE && before->n_places == places_of(op) && before->inner == inner_of(op, m->axes);
    const bool standardizes = op->kind == FBY_OP_STANDARDIZE;
    fby__pass *s = fuses ? before : add_pass(m, FBY__PASS_AFFINE, op);
    EACH_PARAM(p, s, c, k, at)
    {
        const double a = param_a(op, c, (uint32_t)k), b = param_b(op, c, (uint32_t)k);
        const double centre = standardizes ? a : 0, factor = standardizes ? 1 / b : a, offset = standardizes ? 0 : b;
        if (fuses) {
            s->param[2][at] = (s->param[2][at] - centre) * factor + offset;
            s->param[1][at] *= factor;
        } else {
            s->param[0][at] = centre;
            s->param[1][at] = factor;
            s->param[2][at] = offset;
        }
    }
}

static void add_clip(making *m, const fby_op *op, bool is_floor)
{
    fby__pass *s = add_pass(m, FBY__PASS_CLIP, op);
    EACH_PARAM(m->program, s, c, k, at)
    {
        const double a = param_a(op, c, (uint32_t)k);
        s->param[0][at] = is_floor && a == 0 ? -(double)INFINITY : a;
        s->param[1][at] = is_floor ? (double)INFINITY : param_b(op, c, (uint32_t)k);
    }
}

/* Before other steps what is NaN is what was missing. */
static void add_fill(making *m, const fby_op *op)
{
    const bool looks_back = op->kind == FBY_OP_FILL_MISSING && m->program->n_passes > 0;
    fby__pass *s = add_pass(m, looks_back ? FBY__PASS_FILL_MISSING : FBY__PASS_FILL_NAN, op);
    EACH_PARAM(m->program, s, c, k, at)
    s->param[0][at] = param_a(op, c, (uint32_t)k);
    m->program->looks_back |= looks_back;
}

static void add(making *m, const fby_op *op)
{
    static const fby__pass_kind LOG[] = {[FBY_OP_LOG] = FBY__PASS_LOG, [FBY_OP_LOG10] = FBY__PASS_LOG10, [FBY_OP_LOG1P] = FBY__PASS_LOG1P};
    switch (op->kind) {
    case FBY_OP_AFFINE:
    case FBY_OP_STANDARDIZE: add_affine(m, op); return;
    case FBY_OP_CLIP: add_clip(m, op, false); return;
    case FBY_OP_FILL_NULL: return; /* done by the decoder, which alone knows */
    case FBY_OP_FILL_NAN:
    case FBY_OP_FILL_MISSING: add_fill(m, op); return;
    case FBY_OP_LOG:
    case FBY_OP_LOG10:
        if (op->a_each || op->a != 0)
            add_clip(m, op, true);
        break;
    case FBY_OP_LOG1P: break;
    }
    (void)add_pass(m, LOG[op->kind], &(fby_op){.kind = op->kind});
}

static void notice_uniform(fby__program *p)
{
    for (uint32_t i = 0; i < p->n_passes; i++) {
        fby__pass *s = &p->passes[i];
        s->uniform = true;
        for (uint32_t k = 0; k < fby__pass_params(s->kind); k++)
            for (size_t at = 1; at < (size_t)p->n_columns * s->n_places; at++)
                s->uniform &= s->param[k][at] == s->param[k][0] || (isnan(s->param[k][at]) && isnan(s->param[k][0]));
    }
}

/* ---- in which dtype values may wait ---- */

static bool is_sane(double x) { return fabs(x) >= SANE_MIN && fabs(x) <= SANE_MAX; }

/*
 * A stored value that became float32 is off by up to 2^-24 of itself. Scaling and limits leave it at that; once values are standardised
 * around a mean that is not too far away they are off by little beside their spread, whatever follows. A plain offset may leave nothing
 * but the rounding (seconds since 1970), so may a logarithm of what float32 cannot hold.
 */
static bool may_narrow(const fby_op *ops, size_t n_ops, uint32_t c, bool is_float)
{
    for (size_t i = 0; i < n_ops; i++) {
        bool scales = true, standardizes = true; /* at every place */
        for (uint32_t k = 0; k < places_of(&ops[i]); k++) {
            const double a = param_a(&ops[i], c, k), b = param_b(&ops[i], c, k);
            scales &= b == 0 && is_sane(a);
            standardizes &= is_sane(b) && fabs(a) <= SANE_MAX && fabs(a / b) <= MAX_MEAN_IN_STDS;
        }
        switch (ops[i].kind) {
        case FBY_OP_AFFINE:
            if (!scales)
                return false;
            break;
        case FBY_OP_STANDARDIZE: return standardizes;
        case FBY_OP_LOG:
        case FBY_OP_LOG10:
        case FBY_OP_LOG1P: return !is_float;
        case FBY_OP_CLIP:
        case FBY_OP_FILL_NAN:
        case FBY_OP_FILL_MISSING:
        case FBY_OP_FILL_NULL: break;
        }
    }
    return true;
}

static bool is_exact_float32(fby_dtype d)
{
    return d == FBY_FLOAT16 || d == FBY_BFLOAT16 || d == FBY_FLOAT32 || d == FBY_BOOL || d == FBY_INT8 || d == FBY_INT16 ||
           d == FBY_UINT8 || d == FBY_UINT16;
}

fby_dtype fby__program_dtype(const fby__program *p, uint32_t column, fby_dtype from, fby_dtype to)
{
    bool is_byte = from == FBY_BOOL || from == FBY_INT8 || from == FBY_UINT8; /* eight bits of significance: every float has them */
    if (from == to || is_byte || to == FBY_FLOAT64)
        return to;
    if (is_exact_float32(from))
        return FBY_FLOAT32;
    return (from == FBY_FLOAT64 ? p->narrow_float : p->narrow_int)[column] ? FBY_FLOAT32 : FBY_FLOAT64;
}

/* ---- life ---- */

/* Doubles of parameters: an operation is at most two passes. */
static bool count_params(const fby_op *ops, size_t n_ops, uint32_t n_columns, size_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_ops; i++)
        n += 2 * FBY__PASS_PARAMS * (size_t)places_of(&ops[i]); /* at most FBY_MAX_OPS numbers of 32 bits */
    return fby__mul_checked(n, n_columns, out);
}

fby_status fby__program_create(const fby_op *ops, size_t n_ops, const char *const *columns, uint32_t n_columns, fby__value_axes axes,
                               fby__program **out, fby_error *err)
{
    *out = NULL;
    if (n_ops == 0)
        return FBY_OK;
    if (!ops || n_ops > FBY_MAX_OPS)
        return fby__fail(err, FBY_E_ARG, "%zu operations: at most %d are possible", n_ops, FBY_MAX_OPS);
    for (size_t i = 0; i < n_ops; i++) {
        FBY__TRY(check(&ops[i], columns, n_columns, axes, err));
        if (ops[i].kind == FBY_OP_FILL_NULL && i >= fby__leading_fills(ops, n_ops))
            return fby__fail(err, FBY_E_ARG, "column '%s', operation fill_null: nulls are filled before anything is computed: put it first",
                             columns[0]);
    }
    size_t n_params, bytes;
    fby__program *p = fby__calloc(1, sizeof *p);
    if (!p || !count_params(ops, n_ops, n_columns, &n_params) || !fby__mul_checked(n_params, sizeof *p->params, &bytes) ||
        !(p->params = fby__calloc(1, bytes + 2 * (size_t)n_columns * sizeof *p->narrow_int))) {
        fby__program_destroy(p);
        return fby__fail_nomem(err, "the operations");
    }
    p->n_columns = n_columns;
    p->narrow_int = (bool *)(p->params + n_params);
    p->narrow_float = p->narrow_int + n_columns;
    making m = {.program = p, .axes = axes, .next = p->params};
    for (size_t i = 0; i < n_ops; i++)
        add(&m, &ops[i]);
    if (p->n_passes == 0) {
        fby__program_destroy(p);
        return FBY_OK;
    }
    notice_uniform(p);
    for (uint32_t c = 0; c < n_columns; c++) {
        p->narrow_int[c] = may_narrow(ops, n_ops, c, false);
        p->narrow_float[c] = may_narrow(ops, n_ops, c, true);
    }
    *out = p;
    return FBY_OK;
}

void fby__program_destroy(fby__program *p)
{
    if (!p)
        return;
    fby__free(p->params);
    fby__free(p);
}

bool fby__program_same(const fby__program *a, uint32_t at, const fby__program *b)
{
    if (!a || !b)
        return a == b;
    if (a->n_passes != b->n_passes || at > a->n_columns || b->n_columns > a->n_columns - at)
        return false;
    for (uint32_t i = 0; i < a->n_passes; i++) {
        const fby__pass *x = &a->passes[i], *y = &b->passes[i];
        if (x->kind != y->kind || x->n_places != y->n_places || x->inner != y->inner)
            return false;
        for (uint32_t k = 0; k < fby__pass_params(x->kind); k++)
            if (memcmp(x->param[k] + (size_t)at * x->n_places, y->param[k], (size_t)b->n_columns * y->n_places * sizeof(double)) != 0)
                return false;
    }
    return true;
}
