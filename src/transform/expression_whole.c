/*
 * Postfix code over blocks of int64, for expressions of whole numbers alone: every step is checked, and nothing passes through a float.
 * A value that is missing takes no part: what becomes of it is no error, and no result.
 */
#include "transform/expression.h"

enum { BLOCK = FBY__EXPR_BLOCK };

bool fby__expression_is_whole(const fby__expression *e)
{
    for (size_t i = 0; i < e->n_instructions; i++) {
        const fby__instruction *s = &e->instructions[i];
        switch (s->op) {
        case FBY__EXPR_COLUMN:
        case FBY__EXPR_NEGATE:
        case FBY__EXPR_ABS:
        case FBY__EXPR_ADD:
        case FBY__EXPR_SUBTRACT:
        case FBY__EXPR_MULTIPLY:
        case FBY__EXPR_FLOOR_DIVIDE:
        case FBY__EXPR_MODULO:
        case FBY__EXPR_MIN:
        case FBY__EXPR_MAX: break;
        case FBY__EXPR_NUMBER:
            if (!s->is_whole)
                return false;
            break;
        default: return false;
        }
    }
    return true;
}

/* As Python: rounded down, and the remainder has the sign of b. b is not 0, and not −1 with the least number. */
static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static int64_t modulo(int64_t a, int64_t b)
{
    const int64_t m = a % b;
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

/* NULL, or what is wrong. */
static const char *compute(fby__expr_op op, int64_t a, int64_t b, int64_t *out)
{
    static const char OVERFLOWS[] = "is beyond int64";
    switch (op) {
    case FBY__EXPR_NEGATE: return __builtin_sub_overflow((int64_t)0, a, out) ? OVERFLOWS : NULL;
    case FBY__EXPR_ABS: *out = a; return a < 0 && __builtin_sub_overflow((int64_t)0, a, out) ? OVERFLOWS : NULL;
    case FBY__EXPR_ADD: return __builtin_add_overflow(a, b, out) ? OVERFLOWS : NULL;
    case FBY__EXPR_SUBTRACT: return __builtin_sub_overflow(a, b, out) ? OVERFLOWS : NULL;
    case FBY__EXPR_MULTIPLY: return __builtin_mul_overflow(a, b, out) ? OVERFLOWS : NULL;
    case FBY__EXPR_FLOOR_DIVIDE:
    case FBY__EXPR_MODULO:
        *out = 0;
        if (b == 0)
            return "divides by 0";
        if (b == -1)
            return op == FBY__EXPR_FLOOR_DIVIDE && __builtin_sub_overflow((int64_t)0, a, out) ? OVERFLOWS : NULL;
        *out = op == FBY__EXPR_MODULO ? modulo(a, b) : floor_divide(a, b);
        return NULL;
    case FBY__EXPR_MIN: *out = a < b ? a : b; return NULL;
    default: *out = a > b ? a : b; return NULL; /* MAX */
    }
}

const int64_t *fby__expression_run_whole(const fby__expression *e, const int64_t *const *columns, const uint8_t *there, size_t n,
                                         int64_t *scratch, size_t *out_bad, const char **out_what)
{
    const int64_t *stack[FBY__EXPR_MAX_OPERANDS] = {0};
    size_t top = 0;
    for (size_t i = 0; i < e->n_instructions; i++) {
        const fby__instruction *s = &e->instructions[i];
        if (s->op == FBY__EXPR_COLUMN) {
            stack[top++] = columns[s->column];
            continue;
        }
        const size_t n_operands = fby__expr_operands(s->op);
        top -= n_operands;
        int64_t *out = scratch + top * BLOCK;
        const int64_t *a = stack[top], *b = stack[top + (n_operands > 1)];
        for (size_t k = 0; k < n; k++) {
            const char *what = NULL;
            if (n_operands == 0)
                out[k] = s->whole;
            else
                what = compute(s->op, a[k], b[k], &out[k]);
            if (what && there[k]) {
                *out_bad = k;
                *out_what = what;
                return NULL;
            }
        }
        stack[top++] = out;
    }
    return stack[0];
}
