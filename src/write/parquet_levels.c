/*
 * Dremel levels of one leaf, made from the Arrow arrays on the way down to it.
 *
 * There is an entry for each level that will be written, and a list of runs of values. Each node on the way takes one step: a nullable one
 * decides for each entry that is still present whether it stays so, a list puts its elements in the place of each. An entry is present when
 * its definition level is the highest so far (`def`), and the runs hold the positions of the present ones, in order. So a column without
 * nulls and lists is one run, and no level is ever written down.
 *
 *     list<int32?>  [[7, null], [], null, [8]]          def  rep      runs (of the int32 array)
 *     entries                    7                       3    0        0 …
 *                                null                    2    1
 *                                []                      1    0
 *                                null                    0    0
 *                                8                       3    0        2 …
 */
#include "write/parquet_impl.h"

typedef struct steps {
    fby__pqw_levels *l;
    unsigned side; /* of l->own, that holds the state */
    bool has_def, has_rep;
    size_t n, n_runs;
    unsigned def, rep; /* the highest so far */
    fby_error *err;
} steps;

static fby__buf *def_of(const steps *s, unsigned side) { return &s->l->own[side].def; }

static fby_status add_run(fby__buf *runs, size_t *n_runs, int64_t first, int64_t n, fby_error *err)
{
    fby__pqw_run *run = (fby__pqw_run *)runs->data;
    if (*n_runs && run[*n_runs - 1].first + run[*n_runs - 1].n == first) {
        run[*n_runs - 1].n += n;
        return FBY_OK;
    }
    const size_t need = (*n_runs + 1) * sizeof *run;
    if (need > runs->cap && fby__grow((void **)&runs->data, &runs->cap, need, 1) != 0)
        return fby__fail_nomem(err, "levels of a Parquet column");
    ((fby__pqw_run *)runs->data)[(*n_runs)++] = (fby__pqw_run){first, n};
    return FBY_OK;
}

/* Bits [at, at + n), 1 ≤ n ≤ 64, of a bitmap: no byte beyond them is read. */
static uint64_t bits_at(const uint8_t *bitmap, int64_t at, unsigned n)
{
    const uint8_t *p = bitmap + at / 8;
    const unsigned shift = (unsigned)(at % 8), n_bytes = (shift + n + 7) / 8;
    uint64_t low = 0;
    memcpy(&low, p, n_bytes < 8 ? n_bytes : 8);
    low >>= shift;
    if (n_bytes > 8)
        low |= (uint64_t)p[8] << (64 - shift);
    return n == 64 ? low : low & (((uint64_t)1 << n) - 1);
}

/* ---- a nullable node ---- */

/* Up to 64 entries that are all present, the values [first, first + n). */
static fby_status sort_out(steps *s, uint8_t *def, uint64_t valid, int64_t first, unsigned n, fby__buf *runs, size_t *n_runs)
{
    const uint64_t all = n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1;
    if (valid == all) {
        memset(def, (int)(s->def + 1), n);
        return add_run(runs, n_runs, first, n, s->err);
    }
    for (unsigned i = 0; i < n; i++)
        def[i] = (uint8_t)(s->def + (valid >> i & 1));
    while (valid) {
        const unsigned skip = (unsigned)__builtin_ctzll(valid);
        const unsigned stretch = valid >> skip == UINT64_MAX >> skip ? 64 - skip : (unsigned)__builtin_ctzll(~(valid >> skip));
        FBY__TRY(add_run(runs, n_runs, first + skip, stretch, s->err));
        valid = skip + stretch == 64 ? 0 : valid >> (skip + stretch) << (skip + stretch);
    }
    return FBY_OK;
}

static fby_status drop_nulls(steps *s, const struct ArrowArray *array)
{
    const uint8_t *validity = array->n_buffers > 0 ? array->buffers[0] : NULL;
    const fby__pqw_run *run = (const fby__pqw_run *)s->l->own[s->side].runs.data;
    fby__buf *out = &s->l->own[!s->side].runs, *def_buf = def_of(s, s->side);
    const bool had_def = s->has_def;
    size_t at = 0, n_runs = 0;
    if (!had_def) {
        FBY__TRY(fby__pqw_room(def_buf, s->n, s->err));
        s->has_def = true;
    }
    uint8_t *def = def_buf->data;
    for (size_t r = 0; r < s->n_runs; r++)
        for (int64_t i = 0; i < run[r].n;) {
            unsigned n = run[r].n - i < 64 ? (unsigned)(run[r].n - i) : 64;
            if (had_def) { /* as many as are side by side among the entries too */
                while (def[at] != s->def)
                    at++;
                unsigned together = 1;
                while (together < n && def[at + together] == s->def)
                    together++;
                n = together;
            }
            FBY__TRY(sort_out(s, def + at, bits_at(validity, array->offset + run[r].first + i, n), run[r].first + i, n, out, &n_runs));
            at += n;
            i += n;
        }
    const fby__buf before = s->l->own[s->side].runs; /* levels were changed in place */
    s->l->own[s->side].runs = *out;
    *out = before;
    s->n_runs = n_runs;
    s->def++;
    return FBY_OK;
}

/* All that are present stay so: a level more, which needs no writing down as long as nothing is absent. */
static void keep_all(steps *s)
{
    uint8_t *def = s->has_def ? def_of(s, s->side)->data : NULL;
    for (size_t i = 0; def && i < s->n; i++)
        def[i] = (uint8_t)(def[i] + (def[i] == s->def));
    s->def++;
}

/* Nothing is present: the null type. */
static fby_status drop_all(steps *s)
{
    if (!s->has_def) {
        FBY__TRY(fby__pqw_room(def_of(s, s->side), s->n, s->err));
        memset(def_of(s, s->side)->data, (int)s->def, s->n);
        s->has_def = true;
    }
    s->n_runs = 0;
    s->def++;
    return FBY_OK;
}

static bool has_nulls(const steps *s, const struct ArrowArray *array)
{
    const uint8_t *validity = array->n_buffers > 0 ? array->buffers[0] : NULL;
    if (!validity || array->null_count == 0)
        return false;
    const fby__pqw_run *run = (const fby__pqw_run *)s->l->own[s->side].runs.data;
    for (size_t r = 0; r < s->n_runs; r++)
        for (int64_t i = 0; i < run[r].n; i += 64) {
            const unsigned n = run[r].n - i < 64 ? (unsigned)(run[r].n - i) : 64;
            if (bits_at(validity, array->offset + run[r].first + i, n) != (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1))
                return true;
        }
    return false;
}

/* ---- a list ---- */

static inline void bounds_of(const fby__arrow_format *format, const struct ArrowArray *array, int64_t at, int64_t *first, int64_t *n)
{
    at += array->offset;
    if (format->storage == FBY__ARROW_FIXED_LIST) {
        *n = format->field.list_size;
        *first = at * *n;
    } else if (format->storage == FBY__ARROW_LIST32) {
        const int32_t *offsets = array->buffers[1];
        *first = offsets[at];
        *n = offsets[at + 1] - *first;
    } else {
        const int64_t *offsets = array->buffers[1];
        *first = offsets[at];
        *n = offsets[at + 1] - *first;
    }
}

/* Entries that there will be: an element each, and one for what is empty or absent. */
static size_t count_entries(const steps *s, const fby__arrow_format *format, const struct ArrowArray *array)
{
    const fby__pqw_run *run = (const fby__pqw_run *)s->l->own[s->side].runs.data;
    size_t n = s->n;
    for (size_t r = 0; r < s->n_runs; r++)
        for (int64_t i = 0; i < run[r].n; i++) {
            int64_t first, n_elements;
            bounds_of(format, array, run[r].first + i, &first, &n_elements);
            n += n_elements > 1 ? (size_t)n_elements - 1 : 0;
        }
    return n;
}

static fby_status expand(steps *s, const fby__arrow_format *format, const struct ArrowArray *array)
{
    const size_t n_out = count_entries(s, format, array);
    const fby__pqw_run *run = (const fby__pqw_run *)s->l->own[s->side].runs.data;
    const uint8_t *def = s->has_def ? def_of(s, s->side)->data : NULL, *rep = s->has_rep ? s->l->own[s->side].rep.data : NULL;
    fby__buf *runs_out = &s->l->own[!s->side].runs;
    FBY__TRY(fby__pqw_room(def_of(s, !s->side), n_out, s->err));
    FBY__TRY(fby__pqw_room(&s->l->own[!s->side].rep, n_out, s->err));
    uint8_t *def_out = def_of(s, !s->side)->data, *rep_out = s->l->own[!s->side].rep.data;
    size_t at = 0, n_runs = 0, r = 0;
    int64_t in_run = 0;
    for (size_t i = 0; i < s->n; i++) {
        def_out[at] = def ? def[i] : (uint8_t)s->def;
        rep_out[at] = rep ? rep[i] : 0;
        if (def && def[i] != s->def) {
            at++;
            continue;
        }
        int64_t first, n;
        bounds_of(format, array, run[r].first + in_run, &first, &n);
        if (++in_run == run[r].n) {
            r++;
            in_run = 0;
        }
        if (n > 0) {
            memset(def_out + at, (int)(s->def + 1), (size_t)n);
            memset(rep_out + at + 1, (int)(s->rep + 1), (size_t)n - 1);
            FBY__TRY(add_run(runs_out, &n_runs, first, n, s->err));
        }
        at += n > 0 ? (size_t)n : 1;
    }
    s->side = !s->side;
    s->has_def = s->has_rep = true;
    s->n = n_out;
    s->n_runs = n_runs;
    s->def++;
    s->rep++;
    return FBY_OK;
}

/* ---- the way down ---- */

static fby_status begin(steps *s, int64_t n)
{
    s->n = (size_t)n;
    return n ? add_run(&s->l->own[0].runs, &s->n_runs, 0, n, s->err) : FBY_OK;
}

/* What a struct's children count from: its own offset is theirs too. */
static void shift_runs(steps *s, int64_t offset)
{
    fby__pqw_run *run = (fby__pqw_run *)s->l->own[s->side].runs.data;
    for (size_t r = 0; offset && r < s->n_runs; r++)
        run[r].first += offset;
}

static fby_status step(steps *s, const fby__pqw_node *node, const struct ArrowArray *array)
{
    const fby__arrow_storage storage = node->format.storage;
    if (storage == FBY__ARROW_NULL)
        return drop_all(s);
    const bool nulls = has_nulls(s, array);
    if (nulls && !node->nullable)
        return fby__fail(s->err, FBY_E_ARG, "it is declared without nulls, and holds some");
    if (nulls)
        FBY__TRY(drop_nulls(s, array));
    else if (node->nullable)
        keep_all(s);
    if (storage == FBY__ARROW_LIST32 || storage == FBY__ARROW_LIST64 || storage == FBY__ARROW_FIXED_LIST)
        return expand(s, &node->format, array);
    if (storage == FBY__ARROW_STRUCT)
        shift_runs(s, array->offset);
    return FBY_OK;
}

fby_status fby__pqw_levels_make(fby__pqw_levels *l, const fby__pqw_schema *schema, const fby__pqw_leaf *leaf,
                                const struct ArrowArray *batch, const struct ArrowArray **leaf_array, fby_error *err)
{
    steps s = {.l = l, .err = err};
    const struct ArrowArray *array = batch;
    FBY__TRY(begin(&s, batch->length));
    shift_runs(&s, batch->offset);
    for (uint32_t i = 0; i < leaf->n_path; i++) {
        const fby__pqw_node *node = &schema->nodes[leaf->path[i]];
        array = array->children[node->child];
        FBY__TRY(step(&s, node, array));
    }
    l->n = s.n;
    l->n_values = 0;
    l->runs = (const fby__pqw_run *)l->own[s.side].runs.data;
    l->n_runs = s.n_runs;
    for (size_t r = 0; r < l->n_runs; r++)
        l->n_values += (size_t)l->runs[r].n;
    l->def = s.has_def && l->n_values < l->n ? l->own[s.side].def.data : NULL;
    l->rep = s.has_rep ? l->own[s.side].rep.data : NULL;
    *leaf_array = array;
    return FBY_OK;
}

void fby__pqw_levels_fini(fby__pqw_levels *l)
{
    for (int i = 0; i < 2; i++) {
        fby__buf_fini(&l->own[i].def);
        fby__buf_fini(&l->own[i].rep);
        fby__buf_fini(&l->own[i].runs);
    }
    *l = (fby__pqw_levels){0};
}
