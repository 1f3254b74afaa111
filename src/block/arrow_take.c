/*
 * Rows gathered: see arrow_take.h.
 *
 * Runs go down the tree with the rows: a struct hands its own to its children, a list makes runs of its elements. Below a null nothing is
 * looked at: there a run is of no batch (NOWHERE) and stands for values that are 0 or empty.
 */
#include "block/arrow_take.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/cancel.h"
#include "block/arrow.h"
#include "block/arrow_flat.h"

#define NOWHERE UINT32_MAX
#define AHEAD 32                       /* runs whose first value is fetched into the caches before its turn */
#define RUNS_AT_ONCE ((size_t)1 << 18) /* between two looks at the token */

/* A node of all batches. */
typedef struct source {
    const struct ArrowSchema *schema;
    const struct ArrowArray **arrays; /* n */
    int64_t *shift;                   /* n: what is added to a run's rows, the array's own offset included */
    const uint8_t **validity;         /* n; NULL = no nulls */
    uint32_t n;
    bool nulls; /* some of them have a validity */
} source;

typedef struct run_list {
    fby__row_run *runs; /* owned */
    size_t n, cap;
} run_list;

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "rows of a record batch"); }

static int add_run(run_list *list, fby__row_run run)
{
    if (run.n == 0)
        return 0;
    if (fby__grow((void **)&list->runs, &list->cap, list->n + 1, sizeof run) != 0)
        return -1;
    list->runs[list->n++] = run;
    return 0;
}

/* As add_run of so many elements, which may be more than a run holds. */
static int add_long_run(run_list *list, uint32_t batch, uint64_t begin, uint64_t n)
{
    for (uint32_t part; n; begin += part, n -= part) {
        part = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
        if (add_run(list, (fby__row_run){batch, part, begin}) != 0)
            return -1;
    }
    return 0;
}

static uint64_t count_rows(const fby__row_run *runs, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += runs[i].n;
    return sum;
}

static bool is_null(const source *s, const fby__row_run *run, uint64_t i)
{
    return run->batch == NOWHERE ||
           (s->validity[run->batch] && !fby__bit(s->validity[run->batch], run->begin + i + (uint64_t)s->shift[run->batch]));
}

static uint64_t row_of(const source *s, const fby__row_run *run) { return run->begin + (uint64_t)s->shift[run->batch]; }

/* ---- validity ---- */

/* Values under a null parent are said to be there: they are 0, and a column without nulls stays one. */
static fby_status take_validity(const source *s, const fby__row_run *runs, size_t n_runs, uint64_t rows, struct ArrowArray *out,
                                fby_error *err)
{
    out->null_count = 0;
    if (!s->nulls || rows == 0)
        return FBY_OK;
    uint8_t *bits = fby__calloc((size_t)(rows + 7) / 8, 1);
    if (!bits)
        return no_memory(err);
    uint64_t at = 0;
    for (size_t r = 0; r < n_runs; at += runs[r].n, r++) {
        const uint8_t *validity = runs[r].batch == NOWHERE ? NULL : s->validity[runs[r].batch];
        if (validity && runs[r].n > 8) {
            fby__bits_copy(validity, row_of(s, &runs[r]), runs[r].n, bits, at);
            continue;
        }
        for (uint64_t i = 0; i < runs[r].n; i++) {
            const bool valid = !validity || fby__bit(validity, row_of(s, &runs[r]) + i);
            bits[(at + i) / 8] = (uint8_t)(bits[(at + i) / 8] | valid << (at + i) % 8);
        }
    }
    out->null_count = (int64_t)(rows - fby__bits_count(bits, 0, rows));
    if (out->null_count)
        fby__arrow_array_set_buffer(out, 0, bits);
    else
        fby__free(bits);
    return FBY_OK;
}

/* ---- values ---- */

/* values: of each batch, where its first row's value lies. `width` is a constant where it is called: a row is then one load and one store. */
static inline __attribute__((always_inline)) uint8_t *copy_runs(const uint8_t *const *values, const fby__row_run *runs, size_t n_runs,
                                                                size_t width, uint8_t *to)
{
    for (size_t r = 0; r < n_runs; r++) {
        const size_t n = runs[r].n * width;
        if (r + AHEAD < n_runs && runs[r + AHEAD].batch != NOWHERE)
            __builtin_prefetch(values[runs[r + AHEAD].batch] + runs[r + AHEAD].begin * width);
        if (runs[r].batch == NOWHERE)
            memset(to, 0, n);
        else if (runs[r].n == 1)
            memcpy(to, values[runs[r].batch] + runs[r].begin * width, width);
        else
            memcpy(to, values[runs[r].batch] + runs[r].begin * width, n);
        to += n;
    }
    return to;
}

static uint8_t *copy_fixed(const uint8_t *const *values, const fby__row_run *runs, size_t n_runs, size_t width, uint8_t *to)
{
    switch (width) {
    case 1: return copy_runs(values, runs, n_runs, 1, to);
    case 2: return copy_runs(values, runs, n_runs, 2, to);
    case 4: return copy_runs(values, runs, n_runs, 4, to);
    case 8: return copy_runs(values, runs, n_runs, 8, to);
    default: return copy_runs(values, runs, n_runs, width, to);
    }
}

static fby_status take_fixed(const source *s, const fby__row_run *runs, size_t n_runs, uint64_t rows, size_t width, struct ArrowArray *out,
                             fby_error *err)
{
    uint8_t *to = fby__malloc((size_t)rows * width);
    const uint8_t **values = fby__malloc(s->n * sizeof *values);
    if (!to || !values) {
        fby__free(to);
        fby__free(values);
        return no_memory(err);
    }
    fby__arrow_array_set_buffer(out, 1, to);
    for (uint32_t i = 0; i < s->n; i++) {
        values[i] = s->arrays[i]->buffers[1];
        if (values[i]) /* not of a batch without rows */
            values[i] += (size_t)s->shift[i] * width;
    }
    fby_status status = FBY_OK;
    uint8_t *at = to;
    for (size_t r = 0; status == FBY_OK && r < n_runs; r += RUNS_AT_ONCE) {
        status = fby__cancel_check(err);
        at = copy_fixed(values, runs + r, n_runs - r < RUNS_AT_ONCE ? n_runs - r : RUNS_AT_ONCE, width, at);
    }
    fby__free(values);
    const uint8_t *valid = status == FBY_OK && out->null_count ? out->buffers[0] : NULL;
    for (uint64_t i = 0; valid && i < rows; i++)
        if (!fby__bit(valid, i))
            memset(to + i * width, 0, width);
    return status;
}

static fby_status take_bits(const source *s, const fby__row_run *runs, size_t n_runs, uint64_t rows, struct ArrowArray *out, fby_error *err)
{
    uint8_t *to = fby__calloc((size_t)(rows + 7) / 8, 1);
    if (!to)
        return no_memory(err);
    uint64_t at = 0;
    for (size_t r = 0; r < n_runs; at += runs[r].n, r++)
        for (uint64_t i = 0; runs[r].batch != NOWHERE && i < runs[r].n; i++)
            to[(at + i) / 8] =
                (uint8_t)(to[(at + i) / 8] | fby__bit(s->arrays[runs[r].batch]->buffers[1], row_of(s, &runs[r]) + i) << (at + i) % 8);
    const uint8_t *valid = out->null_count ? out->buffers[0] : NULL;
    for (uint64_t i = 0; valid && i < (rows + 7) / 8; i++)
        to[i] &= valid[i];
    fby__arrow_array_set_buffer(out, 1, to);
    return FBY_OK;
}

static uint64_t offset_at(const void *offsets, bool wide, uint64_t i)
{
    return wide ? (uint64_t)((const int64_t *)offsets)[i] : (uint64_t)((const int32_t *)offsets)[i];
}

/* Offsets of what comes out, and the runs of what lies between them: bytes or elements. */
static fby_status take_offsets(const source *s, const fby__row_run *runs, size_t n_runs, uint64_t rows, bool wide, run_list *below,
                               struct ArrowArray *out, fby_error *err)
{
    void *offsets = fby__malloc((size_t)(rows + 1) * (wide ? 8 : 4));
    if (!offsets)
        return no_memory(err);
    fby__arrow_array_set_buffer(out, 1, offsets);
    uint64_t sum = 0, at = 0;
    if (wide)
        ((int64_t *)offsets)[0] = 0;
    else
        ((int32_t *)offsets)[0] = 0;
    for (size_t r = 0; r < n_runs; r++) {
        if (r % RUNS_AT_ONCE == 0)
            FBY__TRY(fby__cancel_check(err));
        const bool nowhere = runs[r].batch == NOWHERE;
        const void *from = nowhere ? NULL : s->arrays[runs[r].batch]->buffers[1];
        const uint64_t row = nowhere ? 0 : row_of(s, &runs[r]);
        for (uint64_t i = 0; i < runs[r].n; i++) {
            if (!nowhere && !is_null(s, &runs[r], i)) {
                const uint64_t begin = offset_at(from, wide, row + i), n = offset_at(from, wide, row + i + 1) - begin;
                /* Neighbours in a row are one run. */
                fby__row_run *last = below->n ? &below->runs[below->n - 1] : NULL;
                if (last && last->batch == runs[r].batch && last->begin + last->n == begin && n <= UINT32_MAX - last->n)
                    last->n += (uint32_t)n;
                else if (add_long_run(below, runs[r].batch, begin, n) != 0)
                    return no_memory(err);
                sum += n;
            }
            at++;
            if (wide)
                ((int64_t *)offsets)[at] = (int64_t)sum;
            else if (sum > INT32_MAX)
                return fby__fail(err, FBY_E_DATA, "more than 2^31 - 1 elements in one record batch: ask for fewer rows in a batch");
            else
                ((int32_t *)offsets)[at] = (int32_t)sum;
        }
    }
    return FBY_OK;
}

static fby_status take_bytes(const source *s, const run_list *below, struct ArrowArray *out, fby_error *err)
{
    const uint64_t n = count_rows(below->runs, below->n);
    uint8_t *to = fby__malloc((size_t)n);
    if (!to)
        return no_memory(err);
    fby__arrow_array_set_buffer(out, 2, to);
    for (size_t r = 0; r < below->n; to += below->runs[r].n, r++) {
        if (r % RUNS_AT_ONCE == 0)
            FBY__TRY(fby__cancel_check(err));
        memcpy(to, (const uint8_t *)s->arrays[below->runs[r].batch]->buffers[2] + below->runs[r].begin, below->runs[r].n);
    }
    return FBY_OK;
}

/* ---- the tree ---- */

static fby_status take_node(const struct ArrowSchema *schema, const source *parent, int64_t child, const int64_t *shift,
                            const fby__row_run *runs, size_t n_runs, struct ArrowArray *out, fby_error *err);

static fby_status take_children(const source *s, const int64_t *shift, const fby__row_run *runs, size_t n_runs, struct ArrowArray *out,
                                fby_error *err)
{
    for (int64_t i = 0; i < s->schema->n_children; i++)
        FBY__TRY(take_node(s->schema->children[i], s, i, shift, runs, n_runs, out->children[i], err));
    return FBY_OK;
}

/* The runs with those rows that are null as runs of no batch; each row as `times` elements. */
static fby_status below_nulls(const source *s, const fby__row_run *runs, size_t n_runs, uint64_t times, run_list *out, fby_error *err)
{
    for (size_t r = 0; r < n_runs; r++) {
        const bool nowhere = runs[r].batch == NOWHERE;
        const uint64_t row = nowhere ? 0 : row_of(s, &runs[r]);
        for (uint64_t i = 0, n; i < runs[r].n; i += n) {
            const bool null = is_null(s, &runs[r], i);
            for (n = 1; i + n < runs[r].n && is_null(s, &runs[r], i + n) == null; n++)
                ;
            if (add_long_run(out, null ? NOWHERE : runs[r].batch, null ? 0 : (row + i) * times, n * times) != 0)
                return no_memory(err);
        }
    }
    return FBY_OK;
}

static fby_status take_values(const source *s, const fby__arrow_format *format, const fby__row_run *runs, size_t n_runs, uint64_t rows,
                              run_list *below, struct ArrowArray *out, fby_error *err)
{
    const bool wide = format->storage == FBY__ARROW_VAR64 || format->storage == FBY__ARROW_LIST64;
    switch (format->storage) {
    case FBY__ARROW_NULL: out->null_count = (int64_t)rows; return FBY_OK;
    case FBY__ARROW_BITS: return take_bits(s, runs, n_runs, rows, out, err);
    case FBY__ARROW_FIXED: return take_fixed(s, runs, n_runs, rows, format->width, out, err);
    case FBY__ARROW_VAR32:
    case FBY__ARROW_VAR64: FBY__TRY(take_offsets(s, runs, n_runs, rows, wide, below, out, err)); return take_bytes(s, below, out, err);
    case FBY__ARROW_LIST32:
    case FBY__ARROW_LIST64:
        FBY__TRY(take_offsets(s, runs, n_runs, rows, wide, below, out, err));
        return take_children(s, NULL, below->runs, below->n, out, err);
    case FBY__ARROW_FIXED_LIST:
        FBY__TRY(below_nulls(s, runs, n_runs, (uint64_t)format->field.list_size, below, err));
        return take_children(s, NULL, below->runs, below->n, out, err);
    case FBY__ARROW_STRUCT:
        if (out->null_count == 0)
            return take_children(s, s->shift, runs, n_runs, out, err);
        FBY__TRY(below_nulls(s, runs, n_runs, 1, below, err));
        return take_children(s, NULL, below->runs, below->n, out, err);
    case FBY__ARROW_VIEW: break;
    }
    return fby__fail(err, FBY_E_INTERNAL, "'%s' was not checked", s->schema->format);
}

static fby_status take_node(const struct ArrowSchema *schema, const source *parent, int64_t child, const int64_t *shift,
                            const fby__row_run *runs, size_t n_runs, struct ArrowArray *out, fby_error *err)
{
    fby__arrow_format format;
    FBY__TRY(fby__arrow_format_parse(schema->format, &format, err));
    const uint32_t n = parent->n;
    char *room = fby__calloc(n ? n : 1, sizeof(void *) + sizeof(int64_t) + sizeof(void *));
    if (!room)
        return no_memory(err);
    source s = {.schema = schema, .n = n};
    s.arrays = (const struct ArrowArray **)(void *)room;
    s.validity = (const uint8_t **)(void *)(s.arrays + n);
    s.shift = (int64_t *)(void *)(s.validity + n);
    for (uint32_t i = 0; i < n; i++) {
        const struct ArrowArray *a = s.arrays[i] = parent->arrays[i]->children[child];
        s.shift[i] = (shift ? shift[i] : 0) + a->offset;
        s.validity[i] = format.storage != FBY__ARROW_NULL && a->null_count != 0 && a->n_buffers > 0 ? a->buffers[0] : NULL;
        s.nulls |= s.validity[i] != NULL;
    }
    const uint64_t rows = count_rows(runs, n_runs);
    struct ArrowArray array = {0};
    run_list below = {0};
    fby_status status = fby__arrow_array_create(fby__arrow_fixed_buffers(format.storage), schema->n_children, &array, err);
    array.length = (int64_t)rows;
    if (status == FBY_OK)
        status = take_validity(&s, runs, n_runs, rows, &array, err);
    if (status == FBY_OK)
        status = take_values(&s, &format, runs, n_runs, rows, &below, &array, err);
    if (status == FBY_OK)
        *out = array;
    else if (array.release)
        array.release(&array);
    fby__free(below.runs);
    fby__free(room);
    return status;
}

/* ---- record batches ---- */

fby_status fby__arrow_take(const struct ArrowSchema *schema, const struct ArrowArray *const *batches, uint32_t n_batches,
                           const fby__row_run *runs, size_t n_runs, struct ArrowArray *out, fby_error *err)
{
    struct ArrowArray array;
    source root = {.schema = schema, .n = n_batches, .arrays = (const struct ArrowArray **)(uintptr_t)batches}; /* which is not written */
    FBY__TRY(fby__arrow_array_create(1, schema->n_children, &array, err));
    array.length = (int64_t)count_rows(runs, n_runs);
    root.shift = fby__calloc(n_batches ? n_batches : 1, sizeof *root.shift);
    fby_status status = root.shift ? FBY_OK : no_memory(err);
    for (uint32_t k = 0; root.shift && k < n_batches; k++)
        root.shift[k] = batches[k]->offset;
    for (int64_t i = 0; status == FBY_OK && i < schema->n_children; i++)
        status = take_node(schema->children[i], &root, i, root.shift, runs, n_runs, array.children[i], err);
    fby__free(root.shift);
    if (status == FBY_OK)
        *out = array;
    else
        array.release(&array);
    return status;
}
