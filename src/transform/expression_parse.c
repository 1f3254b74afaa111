/*
 * Expressions to postfix code, by recursive descent; a rule a function, what binds loosest first:
 *
 *   choice      condition [ "?" choice ":" choice ]
 *   condition   all { "or" all }
 *   all         negation { "and" negation }
 *   negation    "not" negation | comparison
 *   comparison  sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
 *   sum         product { ("+" | "-") product }
 *   product     signed { ("*" | "/" | "//" | "%") signed }
 *   signed      ("-" | "+") signed | power
 *   power       value [ ("^" | "**") signed ]              so −a^2 is −(a^2), and a^−2, a^b^c = a^(b^c) are fine
 *   value       number | name | name "(" choice { "," choice } ")" | "(" choice ")"
 *
 * A name is letters, digits, "_" and what is not ASCII, with dots inside, no digit first; or anything in backquotes.
 */
#include "transform/expression.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT_BYTES = 1 << 16, MAX_NESTING = 100, MAX_DIGITS = 40 };

typedef struct parser {
    const char *text;
    size_t at; /* of the next token: spaces are behind us */
    const char *const *columns;
    uint32_t n_columns;
    bool *is_used; /* owned: which columns occurred */
    uint32_t nesting, operands;
    fby__expression *out;
    fby_error *err;
} parser;

typedef struct function {
    const char *name;
    fby__expr_op op;
    uint32_t least, most; /* operands */
} function;

static const function FUNCTIONS[] = {
#define ROW(id, text) {text, FBY__EXPR_##id, 1, 1},
    FBY__EXPR_UNARY(ROW)
#undef ROW
#define ROW(id, text) {text, FBY__EXPR_##id, 2, 2},
        FBY__EXPR_BINARY(ROW)
#undef ROW
            {"where", FBY__EXPR_WHERE, 3, 3},
};

static fby_status parse_choice(parser *p);
static fby_status parse_signed(parser *p);

/* ---- tokens ---- */

static fby_status fail_at(const parser *p, size_t at, const char *what)
{
    return fby__fail(p->err, FBY_E_ARG, "the expression at position %zu: %s", at + 1, what);
}

/* "… is expected, not 'x'" */
static fby_status expected(const parser *p, const char *what)
{
    char text[160];
    const char *rest = p->text + p->at;
    if (!*rest)
        (void)snprintf(text, sizeof text, "%s is expected, not the end", what);
    else
        (void)snprintf(text, sizeof text, "%s is expected, not '%.20s'", what, rest);
    return fail_at(p, p->at, text);
}

static void skip_spaces(parser *p)
{
    while (p->text[p->at] && strchr(" \t\r\n", p->text[p->at]))
        p->at++;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 128; }
static bool is_in_name(char c) { return begins_name(c) || is_digit(c); }

/* The length of a name from here on; 0 = there is none. */
static size_t name_length(const char *s)
{
    if (!begins_name(*s))
        return 0;
    size_t n = 1;
    while (is_in_name(s[n]) || (s[n] == '.' && is_in_name(s[n + 1])))
        n++;
    return n;
}

/* Go past an operator, if it is next. */
static bool accept_token(parser *p, const char *token)
{
    const size_t n = strlen(token);
    if (strncmp(p->text + p->at, token, n) != 0)
        return false;
    p->at += n;
    skip_spaces(p);
    return true;
}

static bool accept_word(parser *p, const char *word) { return name_length(p->text + p->at) == strlen(word) && accept_token(p, word); }

/* ---- code ---- */

static fby_status emit(parser *p, fby__instruction step, uint32_t n_operands)
{
    fby__expression *e = p->out;
    if (fby__grow((void **)&e->instructions, &e->cap, e->n_instructions + 1, sizeof *e->instructions) < 0)
        return fby__fail_nomem(p->err, "an expression");
    e->instructions[e->n_instructions++] = step;
    p->operands = p->operands + 1 - n_operands;
    if (p->operands > FBY__EXPR_MAX_OPERANDS)
        return fail_at(p, p->at, "too many operands are open: make it two outputs, or open fewer brackets");
    e->depth = p->operands > e->depth ? p->operands : e->depth;
    return FBY_OK;
}

static fby_status emit_op(parser *p, fby__expr_op op, uint32_t n_operands) { return emit(p, (fby__instruction){.op = op}, n_operands); }

static fby_status nest(parser *p, fby_status (*rule)(parser *))
{
    if (p->nesting == MAX_NESTING)
        return fail_at(p, p->at, "it is nested too deeply");
    p->nesting++;
    const fby_status status = rule(p);
    p->nesting--;
    return status;
}

/* ---- values ---- */

/* Digits, point, exponent; read without the point, so that no locale comes in. */
static fby_status parse_number(parser *p)
{
    char digits[MAX_DIGITS + 32];
    size_t n = 0, start = p->at;
    long behind = 0, exponent = 0;
    bool point = false;
    for (;; p->at++) {
        const char c = p->text[p->at];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(c))
            break;
        if (n == MAX_DIGITS)
            return fail_at(p, start, "a number of too many digits");
        digits[n++] = c;
        behind += point;
    }
    const char *s = p->text + p->at;
    const size_t sign = s[0] == 'e' || s[0] == 'E' ? (size_t)(1 + (s[1] == '+' || s[1] == '-')) : 0;
    if (n && sign && is_digit(s[sign])) {
        char *end;
        exponent = strtol(s + 1, &end, 10);
        p->at += (size_t)(end - s);
    }
    if (n == 0 || is_in_name(p->text[p->at]) || p->text[p->at] == '.')
        return fail_at(p, start, "this is no number");
    exponent = exponent < -9999 ? -9999 : exponent > 9999 ? 9999 : exponent;
    fby__instruction number = {.op = FBY__EXPR_NUMBER, .is_whole = !point && !(sign && is_digit(s[sign]))};
    for (size_t i = 0; number.is_whole && i < n; i++)
        number.is_whole = !__builtin_mul_overflow(number.whole, (int64_t)10, &number.whole) &&
                          !__builtin_add_overflow(number.whole, (int64_t)(digits[i] - '0'), &number.whole);
    (void)snprintf(digits + n, sizeof digits - n, "e%ld", exponent - behind);
    skip_spaces(p);
    number.number = strtod(digits, NULL);
    return emit(p, number, 0);
}

static fby_status parse_arguments(parser *p, const function *f, size_t start)
{
    const bool repeats = f->op == FBY__EXPR_MIN || f->op == FBY__EXPR_MAX;
    uint32_t n = 0;
    do {
        FBY__TRY(nest(p, parse_choice));
        n++;
        if (repeats && n > 1) /* min(a, b, c) = min(min(a, b), c) */
            FBY__TRY(emit_op(p, f->op, 2));
        if (!repeats && n > f->most)
            break;
    } while (accept_token(p, ","));
    if (n < f->least || (n > f->most && !repeats)) {
        char text[80];
        (void)snprintf(text, sizeof text, "%s() takes %u value%s%s, not %s", f->name, f->least, f->least == 1 ? "" : "s",
                       repeats ? " or more" : "", n > f->most ? "more" : "fewer");
        return fail_at(p, start, text);
    }
    if (!accept_token(p, ")"))
        return expected(p, "',' or ')'");
    return repeats ? FBY_OK : emit_op(p, f->op, n);
}

static fby_status parse_function(parser *p, size_t n)
{
    const size_t start = p->at;
    const char *name = p->text + start;
    const function *f = NULL;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS && !f; i++)
        if (FUNCTIONS[i].name && strlen(FUNCTIONS[i].name) == n && strncmp(name, FUNCTIONS[i].name, n) == 0)
            f = &FUNCTIONS[i];
    if (!f)
        return fail_at(p, start,
                       "there is no such function; there are abs, sqrt, exp, log, log10, log1p, sin, cos, tan, atan2, floor, ceil, round, "
                       "isnan, min, max, where");
    p->at += n;
    skip_spaces(p);
    (void)accept_token(p, "("); /* it is there: why this is a function */
    return parse_arguments(p, f, start);
}

static fby_status emit_column(parser *p, const char *name, size_t n, size_t start)
{
    for (uint32_t i = 0; i < p->n_columns; i++)
        if (strlen(p->columns[i]) == n && memcmp(p->columns[i], name, n) == 0) {
            p->is_used[i] = true;
            return emit(p, (fby__instruction){.op = FBY__EXPR_COLUMN, .column = i}, 0);
        }
    char text[200];
    (void)snprintf(text, sizeof text, "'%.*s' is none of the output's columns", (int)(n < 120 ? n : 120), name);
    return fail_at(p, start, text);
}

static fby_status parse_quoted(parser *p)
{
    const size_t start = p->at;
    const char *name = p->text + start + 1, *end = strchr(name, '`');
    if (!end || end == name)
        return fail_at(p, start, end ? "a name is expected between the backquotes" : "this backquote has no other");
    p->at += (size_t)(end - name) + 2;
    skip_spaces(p);
    return emit_column(p, name, (size_t)(end - name), start);
}

static fby_status parse_name(parser *p)
{
    static const struct {
        const char *name;
        double value;
    } CONSTANTS[] = {{"pi", 3.14159265358979323846}, {"nan", (double)NAN}, {"inf", (double)INFINITY}};
    const size_t start = p->at, n = name_length(p->text + start);
    size_t next = start + n;
    while (p->text[next] && strchr(" \t\r\n", p->text[next]))
        next++;
    if (p->text[next] == '(')
        return parse_function(p, n);
    p->at = next;
    for (size_t i = 0; i < sizeof CONSTANTS / sizeof *CONSTANTS; i++)
        if (strlen(CONSTANTS[i].name) == n && strncmp(p->text + start, CONSTANTS[i].name, n) == 0)
            return emit(p, (fby__instruction){.op = FBY__EXPR_NUMBER, .number = CONSTANTS[i].value}, 0);
    return emit_column(p, p->text + start, n, start);
}

static bool is_keyword(const parser *p)
{
    static const char *const WORDS[] = {"and", "or", "not"};
    const size_t n = name_length(p->text + p->at);
    for (size_t i = 0; i < 3; i++)
        if (strlen(WORDS[i]) == n && strncmp(p->text + p->at, WORDS[i], n) == 0)
            return true;
    return false;
}

static fby_status parse_value(parser *p)
{
    const char c = p->text[p->at];
    if (is_digit(c) || c == '.')
        return parse_number(p);
    if (c == '`')
        return parse_quoted(p);
    if (begins_name(c) && !is_keyword(p))
        return parse_name(p);
    if (!accept_token(p, "("))
        return expected(p, "a number, a column, a function or '('");
    FBY__TRY(nest(p, parse_choice));
    return accept_token(p, ")") ? FBY_OK : expected(p, "')' or an operator");
}

/* ---- operators ---- */

static fby_status parse_power(parser *p)
{
    FBY__TRY(parse_value(p));
    if (!accept_token(p, "**") && !accept_token(p, "^"))
        return FBY_OK;
    FBY__TRY(nest(p, parse_signed));
    return emit_op(p, FBY__EXPR_POWER, 2);
}

static fby_status parse_signed(parser *p)
{
    if (accept_token(p, "+"))
        return nest(p, parse_signed);
    if (!accept_token(p, "-"))
        return parse_power(p);
    FBY__TRY(nest(p, parse_signed));
    return emit_op(p, FBY__EXPR_NEGATE, 1);
}

static fby_status parse_product(parser *p)
{
    FBY__TRY(parse_signed(p));
    for (;;) {
        const fby__expr_op op = accept_token(p, "*")    ? FBY__EXPR_MULTIPLY
                                : accept_token(p, "//") ? FBY__EXPR_FLOOR_DIVIDE
                                : accept_token(p, "/")  ? FBY__EXPR_DIVIDE
                                : accept_token(p, "%")  ? FBY__EXPR_MODULO
                                                        : FBY__EXPR_NUMBER;
        if (op == FBY__EXPR_NUMBER)
            return FBY_OK;
        FBY__TRY(parse_signed(p));
        FBY__TRY(emit_op(p, op, 2));
    }
}

static fby_status parse_sum(parser *p)
{
    FBY__TRY(parse_product(p));
    for (;;) {
        const fby__expr_op op = accept_token(p, "+") ? FBY__EXPR_ADD : accept_token(p, "-") ? FBY__EXPR_SUBTRACT : FBY__EXPR_NUMBER;
        if (op == FBY__EXPR_NUMBER)
            return FBY_OK;
        FBY__TRY(parse_product(p));
        FBY__TRY(emit_op(p, op, 2));
    }
}

static fby__expr_op accept_comparison(parser *p)
{
    static const struct {
        const char *token;
        fby__expr_op op;
    } TOKENS[] = {{"<=", FBY__EXPR_LESS_EQUAL}, {">=", FBY__EXPR_GREATER_EQUAL}, {"==", FBY__EXPR_EQUAL},
                  {"!=", FBY__EXPR_NOT_EQUAL},  {"<", FBY__EXPR_LESS},           {">", FBY__EXPR_GREATER}};
    for (size_t i = 0; i < sizeof TOKENS / sizeof *TOKENS; i++)
        if (accept_token(p, TOKENS[i].token))
            return TOKENS[i].op;
    return FBY__EXPR_NUMBER;
}

static fby_status parse_comparison(parser *p)
{
    FBY__TRY(parse_sum(p));
    const fby__expr_op op = accept_comparison(p);
    if (op == FBY__EXPR_NUMBER)
        return FBY_OK;
    FBY__TRY(parse_sum(p));
    FBY__TRY(emit_op(p, op, 2));
    const size_t at = p->at;
    if (accept_comparison(p) != FBY__EXPR_NUMBER)
        return fail_at(p, at, "comparisons do not chain: write 'a < b and b < c'");
    return FBY_OK;
}

static fby_status parse_negation(parser *p)
{
    if (!accept_word(p, "not"))
        return parse_comparison(p);
    FBY__TRY(nest(p, parse_negation));
    return emit_op(p, FBY__EXPR_NOT, 1);
}

static fby_status parse_all(parser *p)
{
    FBY__TRY(parse_negation(p));
    while (accept_word(p, "and")) {
        FBY__TRY(parse_negation(p));
        FBY__TRY(emit_op(p, FBY__EXPR_AND, 2));
    }
    return FBY_OK;
}

static fby_status parse_condition(parser *p)
{
    FBY__TRY(parse_all(p));
    while (accept_word(p, "or")) {
        FBY__TRY(parse_all(p));
        FBY__TRY(emit_op(p, FBY__EXPR_OR, 2));
    }
    return FBY_OK;
}

static fby_status parse_choice(parser *p)
{
    FBY__TRY(parse_condition(p));
    if (!accept_token(p, "?"))
        return FBY_OK;
    FBY__TRY(nest(p, parse_choice));
    if (!accept_token(p, ":"))
        return expected(p, "':'");
    FBY__TRY(nest(p, parse_choice));
    return emit_op(p, FBY__EXPR_WHERE, 3);
}

static fby_status parse_all_of_it(parser *p)
{
    skip_spaces(p);
    FBY__TRY(parse_choice(p));
    if (p->text[p->at])
        return expected(p, "an operator or the end");
    for (uint32_t i = 0; i < p->n_columns; i++)
        if (!p->is_used[i])
            return fby__fail(p->err, FBY_E_ARG, "the expression does not use column '%s'", p->columns[i]);
    return FBY_OK;
}

fby_status fby__expression_parse(const char *text, const char *const *columns, uint32_t n_columns, fby__expression *out, fby_error *err)
{
    if (!text || strnlen(text, MAX_TEXT_BYTES + 1) > MAX_TEXT_BYTES)
        return fby__fail(err, FBY_E_ARG, text ? "an expression of more than %d bytes" : "an expression has no text", MAX_TEXT_BYTES);
    fby__expression e = {0};
    parser p = {.text = text, .columns = columns, .n_columns = n_columns, .out = &e, .err = err};
    if (!(p.is_used = fby__calloc(n_columns ? n_columns : 1, sizeof *p.is_used)))
        return fby__fail_nomem(err, "an expression");
    const fby_status status = parse_all_of_it(&p);
    fby__free(p.is_used);
    if (status == FBY_OK)
        *out = e;
    else
        fby__expression_fini(&e);
    return status;
}

void fby__expression_fini(fby__expression *e)
{
    fby__free(e->instructions);
    *e = (fby__expression){0};
}
