/*
 * Operations → steps.
 *
 * Affine steps keep a centre that is subtracted first: a mean that is large beside the spread then costs no digits. Fusing a second
 * affine operation changes factor and offset alone.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "transform/program_internal.h"

#include <math.h>
#include <string.h>

/* Where float32's rounding of an input, 2^-24 of it, stays invisible: of a standardised value at most 2^-14 standard deviations. */
#define MAX_MEAN_IN_STDS 1024.0
#define SANE_MAX 1e30 /* within float32's range with room to spare */
#define SANE_MIN 1e-30

static const char *const NAMES[] = {"affine", "standardize", "clip", "log", "log10", "log1p", "fill_nan", "fill_missing", "fill_null"};

static double param_a(const fby_op *op, uint32_t c) { return op->a_each ? op->a_each[c] : op->a; }
static double param_b(const fby_op *op, uint32_t c) { return op->b_each ? op->b_each[c] : op->b; }

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
    default: return NULL;
    }
}

static fby_status check(const fby_op *op, const char *const *columns, uint32_t n_columns, fby_error *err)
{
    if ((unsigned)op->kind > FBY_OP_FILL_NULL)
        return fby__fail(err, FBY_E_ARG, "an operation of an unknown kind");
    for (uint32_t c = 0; c < n_columns; c++) {
        double a = param_a(op, c), b = param_b(op, c);
        const char *fault = fault_of(op, a, b);
        if (fault)
            return fby__fail(err, FBY_E_ARG, "column '%s', operation %s(%g, %g): %s", columns[c], NAMES[op->kind], a, b, fault);
    }
    return FBY_OK;
}

size_t fby__leading_fills(const fby_op *ops, size_t n_ops)
{
    size_t n = 0;
    while (n < n_ops && (ops[n].kind == FBY_OP_FILL_MISSING || ops[n].kind == FBY_OP_FILL_NULL))
        n++;
    return n;
}

bool fby__null_fill(const fby_op *ops, size_t n_ops, uint32_t column, double *out)
{
    if (fby__leading_fills(ops, n_ops) == 0)
        return false;
    *out = param_a(&ops[0], column);
    return true;
}

/* ---- steps ---- */

static fby__pass *add_pass(fby__program *p, fby__pass_kind kind)
{
    fby__pass *s = &p->passes[p->n_passes];
    s->kind = kind;
    for (uint32_t i = 0; i < fby__pass_params(kind); i++)
        s->param[i] = p->params + ((size_t)p->n_passes * FBY__PASS_PARAMS + i) * p->n_columns;
    p->n_passes++;
    return s;
}

static void add_affine(fby__program *p, const fby_op *op)
{
    fby__pass *before = p->n_passes ? &p->passes[p->n_passes - 1] : NULL;
    bool fuses = before && before->kind == FBY__PASS_AFFINE, standardizes = op->kind == FBY_OP_STANDARDIZE;
    fby__pass *s = fuses ? before : add_pass(p, FBY__PASS_AFFINE);
    for (uint32_t c = 0; c < p->n_columns; c++) {
        double a = param_a(op, c), b = param_b(op, c);
        double centre = standardizes ? a : 0, factor = standardizes ? 1 / b : a, offset = standardizes ? 0 : b;
        if (fuses) {
            s->param[2][c] = (s->param[2][c] - centre) * factor + offset;
            s->param[1][c] *= factor;
        } else {
            s->param[0][c] = centre;
            s->param[1][c] = factor;
            s->param[2][c] = offset;
        }
    }
}

static void add_clip(fby__program *p, const fby_op *op, bool is_floor)
{
    fby__pass *s = add_pass(p, FBY__PASS_CLIP);
    for (uint32_t c = 0; c < p->n_columns; c++) {
        double a = param_a(op, c);
        s->param[0][c] = is_floor && a == 0 ? -(double)INFINITY : a;
        s->param[1][c] = is_floor ? (double)INFINITY : param_b(op, c);
    }
}

/* Before other steps what is NaN is what was missing. */
static void add_fill(fby__program *p, const fby_op *op)
{
    const bool looks_back = op->kind == FBY_OP_FILL_MISSING && p->n_passes > 0;
    fby__pass *s = add_pass(p, looks_back ? FBY__PASS_FILL_MISSING : FBY__PASS_FILL_NAN);
    for (uint32_t c = 0; c < p->n_columns; c++)
        s->param[0][c] = param_a(op, c);
    p->looks_back |= looks_back;
}

static void add(fby__program *p, const fby_op *op)
{
    static const fby__pass_kind LOG[] = {[FBY_OP_LOG] = FBY__PASS_LOG, [FBY_OP_LOG10] = FBY__PASS_LOG10, [FBY_OP_LOG1P] = FBY__PASS_LOG1P};
    switch (op->kind) {
    case FBY_OP_AFFINE:
    case FBY_OP_STANDARDIZE: add_affine(p, op); return;
    case FBY_OP_CLIP: add_clip(p, op, false); return;
    case FBY_OP_FILL_NULL: return; /* done by the decoder, which alone knows */
    case FBY_OP_FILL_NAN:
    case FBY_OP_FILL_MISSING: add_fill(p, op); return;
    case FBY_OP_LOG:
    case FBY_OP_LOG10:
        if (op->a_each || op->a != 0)
            add_clip(p, op, true);
        break;
    case FBY_OP_LOG1P: break;
    }
    (void)add_pass(p, LOG[op->kind]);
}

static void notice_uniform(fby__program *p)
{
    for (uint32_t i = 0; i < p->n_passes; i++) {
        fby__pass *s = &p->passes[i];
        s->uniform = true;
        for (uint32_t k = 0; k < fby__pass_params(s->kind); k++)
            for (uint32_t c = 1; c < p->n_columns; c++)
                s->uniform &= s->param[k][c] == s->param[k][0] || (isnan(s->param[k][c]) && isnan(s->param[k][0]));
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
        double a = param_a(&ops[i], c), b = param_b(&ops[i], c);
        switch (ops[i].kind) {
        case FBY_OP_AFFINE:
            if (b != 0 || !is_sane(a))
                return false;
            break;
        case FBY_OP_STANDARDIZE: return is_sane(b) && fabs(a) <= SANE_MAX && fabs(a / b) <= MAX_MEAN_IN_STDS;
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

fby_status fby__program_create(const fby_op *ops, size_t n_ops, const char *const *columns, uint32_t n_columns, fby__program **out,
                               fby_error *err)
{
    *out = NULL;
    if (n_ops == 0)
        return FBY_OK;
    if (!ops || n_ops > FBY_MAX_OPS)
        return fby__fail(err, FBY_E_ARG, "%zu operations: at most %d are possible", n_ops, FBY_MAX_OPS);
    for (size_t i = 0; i < n_ops; i++) {
        FBY__TRY(check(&ops[i], columns, n_columns, err));
        if (ops[i].kind == FBY_OP_FILL_NULL && i >= fby__leading_fills(ops, n_ops))
            return fby__fail(err, FBY_E_ARG, "column '%s', operation fill_null: nulls are filled before anything is computed: put it first",
                             columns[0]);
    }
    fby__program *p = fby__calloc(1, sizeof *p);
    size_t each = 2 * n_ops * FBY__PASS_PARAMS * sizeof *p->params + 2 * sizeof *p->narrow_int;
    if (!p || !(p->params = fby__calloc(n_columns, each))) {
        fby__program_destroy(p);
        return fby__fail_nomem(err, "the operations");
    }
    p->n_columns = n_columns;
    p->narrow_int = (bool *)(p->params + 2 * n_ops * FBY__PASS_PARAMS * n_columns);
    p->narrow_float = p->narrow_int + n_columns;
    for (size_t i = 0; i < n_ops; i++)
        add(p, &ops[i]);
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
        if (a->passes[i].kind != b->passes[i].kind)
            return false;
        for (uint32_t k = 0; k < fby__pass_params(a->passes[i].kind); k++)
            if (memcmp(a->passes[i].param[k] + at, b->passes[i].param[k], b->n_columns * sizeof(double)) != 0)
                return false;
    }
    return true;
}
