/*
 * Postfix code over blocks of values. Each operand on the stack is a block in the cache: a column's own, or one of scratch, where slot i is
 * that of the i-th operand. A result takes the slot of its first operand.
 */
#include "transform/expression.h"

#include <math.h>

enum { BLOCK = FBY__EXPR_BLOCK };

size_t fby__expression_scratch(const fby__expression *e) { return (size_t)e->depth * BLOCK; }

/* As Python and NumPy: the sign of b, and b · floor(a / b) + result = a. */
static double modulo(double a, double b)
{
    double m = fmod(a, b);
    if (b == 0 || m != m)
        return m;
    if (m == 0)
        return copysign(0, b);
    return (b < 0) != (m < 0) ? m + b : m;
}

/* As Python and NumPy: a less the remainder, divided, which is a whole number but for rounding; by 0 as a / b. */
static double floor_divide(double a, double b)
{
    const double m = fmod(a, b), q = (a - m) / b - (m != 0 && (b < 0) != (m < 0)), down = floor(q);
    if (b == 0)
        return a / b;
    return q == 0 ? copysign(0, a / b) : q - down > 0.5 ? down + 1 : down;
}

/* NaN in either gives NaN. */
static double least(double a, double b) { return a < b || a != a ? a : b; }
static double greatest(double a, double b) { return a > b || a != a ? a : b; }

#define UNARY(id, value)                                                                                                                   \
    case FBY__EXPR_##id:                                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                                                   \
            const double x = a[i];                                                                                                         \
            out[i] = (value);                                                                                                              \
        }                                                                                                                                  \
        return;
#define BINARY(id, value)                                                                                                                  \
    case FBY__EXPR_##id:                                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                                                   \
            const double x = a[i], y = b[i];                                                                                               \
            out[i] = (value);                                                                                                              \
        }                                                                                                                                  \
        return;

static void run_unary(fby__expr_op op, const double *a, size_t n, double *out)
{
    switch (op) {
        UNARY(NEGATE, -x)
        UNARY(NOT, (double)(x == 0))
        UNARY(ABS, fabs(x))
        UNARY(SQRT, sqrt(x))
        UNARY(EXP, exp(x))
        UNARY(LOG, log(x))
        UNARY(LOG10, log10(x))
        UNARY(LOG1P, log1p(x))
        UNARY(SIN, sin(x))
        UNARY(COS, cos(x))
        UNARY(TAN, tan(x))
        UNARY(FLOOR, floor(x))
        UNARY(CEIL, ceil(x))
        UNARY(ROUND, rint(x))
        UNARY(ISNAN, (double)(x != x))
    default: return;
    }
}

static void run_binary(fby__expr_op op, const double *a, const double *b, size_t n, double *out)
{
    switch (op) {
        BINARY(ADD, x + y)
        BINARY(SUBTRACT, x - y)
        BINARY(MULTIPLY, x * y)
        BINARY(DIVIDE, x / y)
        BINARY(FLOOR_DIVIDE, floor_divide(x, y))
        BINARY(MODULO, modulo(x, y))
        BINARY(POWER, pow(x, y))
        BINARY(LESS, (double)(x < y))
        BINARY(LESS_EQUAL, (double)(x <= y))
        BINARY(GREATER, (double)(x > y))
        BINARY(GREATER_EQUAL, (double)(x >= y))
        BINARY(EQUAL, (double)(x == y))
        BINARY(NOT_EQUAL, (double)(x != y))
        BINARY(AND, (double)((x != 0) & (y != 0)))
        BINARY(OR, (double)((x != 0) | (y != 0)))
        BINARY(ATAN2, atan2(x, y))
        BINARY(MIN, least(x, y))
        BINARY(MAX, greatest(x, y))
    default: return;
    }
}

const double *fby__expression_run(const fby__expression *e, const double *const *columns, size_t n, double *scratch)
{
    const double *stack[FBY__EXPR_MAX_OPERANDS] = {0};
    size_t top = 0;
    for (size_t i = 0; i < e->n_instructions; i++) {
        const fby__instruction *s = &e->instructions[i];
        if (s->op == FBY__EXPR_COLUMN) {
            stack[top++] = columns[s->column];
            continue;
        }
        const size_t n_operands = fby__expr_operands(s->op);
        top -= n_operands;
        double *out = scratch + top * BLOCK;
        const double *a = stack[top], *b = stack[top + (n_operands > 1)], *c = stack[top + 2 * (n_operands > 2)];
        if (n_operands == 0)
            for (size_t k = 0; k < n; k++)
                out[k] = s->number;
        else if (n_operands == 1)
            run_unary(s->op, a, n, out);
        else if (n_operands == 2)
            run_binary(s->op, a, b, n, out);
        else
            for (size_t k = 0; k < n; k++)
                out[k] = a[k] != 0 ? b[k] : c[k];
        stack[top++] = out;
    }
    return stack[0];
}
