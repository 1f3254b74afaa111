/*
 * Arithmetic expressions over columns: a text to postfix code, and the code over blocks of values, in float64 or, of whole numbers, int64.
 *
 *   expression_parse.c   text → code: recursive descent
 *   expression_run.c     code over blocks
 *   expression_whole.c   the same in int64
 *
 *   a / (b + 1)   ──►   a  b  1  +  /
 */
#ifndef FBY_TRANSFORM_EXPRESSION_H
#define FBY_TRANSFORM_EXPRESSION_H

#include "base/error.h"

enum {
    FBY__EXPR_BLOCK = 256,      /* values at a time: 2 KiB each operand */
    FBY__EXPR_MAX_OPERANDS = 64 /* on the stack */
};

/* Instructions, by the number of operands that they take from the stack. X(enum, name of the function, or NULL) */
#define FBY__EXPR_UNARY(X)                                                                                                                 \
    X(NEGATE, NULL)                                                                                                                        \
    X(NOT, NULL)                                                                                                                           \
    X(ABS, "abs")                                                                                                                          \
    X(SQRT, "sqrt")                                                                                                                        \
    X(EXP, "exp")                                                                                                                          \
    X(LOG, "log")                                                                                                                          \
    X(LOG10, "log10")                                                                                                                      \
    X(LOG1P, "log1p") X(SIN, "sin") X(COS, "cos") X(TAN, "tan") X(FLOOR, "floor") X(CEIL, "ceil") X(ROUND, "round") X(ISNAN, "isnan")
#define FBY__EXPR_BINARY(X)                                                                                                                \
    X(ADD, NULL)                                                                                                                           \
    X(SUBTRACT, NULL)                                                                                                                      \
    X(MULTIPLY, NULL)                                                                                                                      \
    X(DIVIDE, NULL)                                                                                                                        \
    X(FLOOR_DIVIDE, NULL)                                                                                                                  \
    X(MODULO, NULL)                                                                                                                        \
    X(POWER, NULL)                                                                                                                         \
    X(LESS, NULL)                                                                                                                          \
    X(LESS_EQUAL, NULL)                                                                                                                    \
    X(GREATER, NULL)                                                                                                                       \
    X(GREATER_EQUAL, NULL) X(EQUAL, NULL) X(NOT_EQUAL, NULL) X(AND, NULL) X(OR, NULL) X(ATAN2, "atan2") X(MIN, "min") X(MAX, "max")

typedef enum fby__expr_op {
    FBY__EXPR_NUMBER,
    FBY__EXPR_COLUMN,
    FBY__EXPR_WHERE, /* condition, value if it is not 0, value if it is */
#define FBY__EXPR_ENUM(id, name) FBY__EXPR_##id,
    FBY__EXPR_UNARY(FBY__EXPR_ENUM) FBY__EXPR_BINARY(FBY__EXPR_ENUM)
#undef FBY__EXPR_ENUM
} fby__expr_op;

/** Operands that an operation takes from the stack; a column is put there as it is. */
static inline size_t fby__expr_operands(fby__expr_op op)
{
    return op == FBY__EXPR_NUMBER ? 0 : op == FBY__EXPR_WHERE ? 3 : op < FBY__EXPR_ADD ? 1 : 2;
}

typedef struct fby__instruction {
    fby__expr_op op;
    uint32_t column; /* COLUMN */
    double number;   /* NUMBER */
    int64_t whole;   /* NUMBER: the same, when it is_whole: digits alone that int64 holds */
    bool is_whole;
} fby__instruction;

/** Immutable once parsed; fby__expression_fini. */
typedef struct fby__expression {
    fby__instruction *instructions; /* owned */
    size_t n_instructions, cap;
    uint32_t depth; /* operands on the stack at most */
} fby__expression;

/**
 * Parse text over columns of these names, all of which must occur.
 * FBY_E_ARG with the position (bytes, from 1) and what was expected there; FBY_E_NOMEM.
 */
fby_status fby__expression_parse(const char *text, const char *const *columns, uint32_t n_columns, fby__expression *out, fby_error *err);
void fby__expression_fini(fby__expression *e);

/** How many doubles of memory fby__expression_run needs. */
size_t fby__expression_scratch(const fby__expression *e);

/** Compute n ≤ FBY__EXPR_BLOCK values; columns[i] has as many. Returns them, in scratch or in one of the columns. */
const double *fby__expression_run(const fby__expression *e, const double *const *columns, size_t n, double *scratch);

/** Can it be computed in whole numbers where its columns are: only + − * // %, signs, abs, min, max, and whole numbers? */
bool fby__expression_is_whole(const fby__expression *e);

/**
 * The same for such an expression. there[k] is 0 for a value that is missing; its result means nothing.
 * NULL when the k-th value, *out_bad, has no result: *out_what says why ("divides by 0"), static.
 */
const int64_t *fby__expression_run_whole(const fby__expression *e, const int64_t *const *columns, const uint8_t *there, size_t n,
                                         int64_t *scratch, size_t *out_bad, const char **out_what);

#endif
