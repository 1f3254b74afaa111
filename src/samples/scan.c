/*
 * The scan that finds series, groups and missing values: it reads the columns that say so, once, and nothing else (columns.c).
 *
 * Blocks are scanned by several threads, each on its own: the first row of a block counts as a beginning. Then the blocks of each file are
 * put together in order: where a block's first row goes on with the last row of the block before, it is no beginning after all.
 *
 *     flags      one byte a row: does something begin here, is something missing here
 *     windows    rows where a series begins, intervals of missing rows
 *     groups     rows where a group begins, packed in frames at once: there may be 200,000 in a block
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "samples/columns.h"
#include "samples/samples_impl.h"

#include "base/alloc.h"
#include "base/dtype.h"

#include <string.h>

/* BREAKS: the time does not go on, and the key may. ALONE: nor does it in any of the rows that this one stands for, after the first. */
enum { BEGINS = 1, MISSING = 2, BREAKS = 4, ALONE = 8 };

#define BREAK_ONLY 0x80000000u /* of found.begins: the key goes on */

/* What the row after it, or before it, in another block is compared with. */
typedef struct edge {
    bool any, time_null;
    fby__buf key; /* of each column: whether it is missing, how long it is, its bytes */
    int64_t time;
    double time_float;
    double rise; /* of a block's first edge: from its first row to the second; 0 = not known */
} edge;

typedef struct interval {
    uint32_t begin, end;
} interval;

/* What the scan found in one block; rows are the block's. */
typedef struct found {
    uint32_t *begins; /* owned: row 0 is not listed; with BREAK_ONLY where it is no more than a break in the time */
    size_t n_begins, cap_begins;
    interval *missing; /* owned: in order, apart from one another */
    size_t n_missing, cap_missing;
    interval *alone; /* owned: in order; the time does not go on in any of these rows */
    size_t n_alone, cap_alone;
    edge first, last;
    fby__scattered scattered;
} found;

typedef struct scan {
    /* set once */
    fby__sample_base *base;
    const fby_samples_opts *opts;
    fby__read_column *columns; /* owned: those of the key, the time, those that are looked through */
    uint32_t n_columns, n_keys, n_blocks;
    found *found; /* owned: one a block, each written by the thread that took it */
} scan;

/* A thread's own memory. */
typedef struct local {
    fby__buf flags;
    edge first, last; /* of the block: rows seen so far */
    struct {
        bool null;
        fby__buf bytes;
    } keys[FBY_MAX_KEYS]; /* of the last row seen */
    fby__seen_keys *seen; /* owned: of the block, where the key is one column */
} local;

/* ---- columns ---- */

static fby_status add_column(scan *s, fby__read_as as, const char *path, fby_error *err)
{
    FBY__TRY(fby__read_column_init(&s->columns[s->n_columns], s->base->ds, as, path, err));
    s->n_columns++;
    return FBY_OK;
}

static fby_status add_columns(scan *s, fby_error *err)
{
    const fby_samples_opts *o = s->opts;
    s->columns = fby__calloc(2 + o->n_more_keys + o->n_drop_missing, sizeof *s->columns);
    if (!s->columns)
        return fby__fail_nomem(err, "the samples");
    if (o->key)
        FBY__TRY(add_column(s, FBY__READ_KEY, o->key, err));
    for (size_t i = 0; i < o->n_more_keys; i++)
        FBY__TRY(add_column(s, FBY__READ_KEY, o->more_keys[i], err));
    s->n_keys = s->n_columns;
    if (o->time)
        FBY__TRY(add_column(s, FBY__READ_TIME, o->time, err));
    for (size_t i = 0; i < o->n_drop_missing; i++)
        FBY__TRY(add_column(s, FBY__READ_DROP, o->drop_missing[i], err));
    return FBY_OK;
}

/* ---- flags of rows handed over at once ---- */

/* One more column of an edge's key. */
static fby_status keep_key(edge *e, const uint8_t *key, size_t n, bool null, fby_error *err)
{
    const uint64_t head[] = {null, null ? 0 : n};
    bool kept = fby__buf_put(&e->key, head, sizeof head) == 0 && fby__buf_put(&e->key, key, (size_t)head[1]) == 0;
    return kept ? FBY_OK : fby__fail_nomem(err, "the samples");
}

/* The bits of a float without its sign, and those of infinity: above it is NaN. */
static uint64_t magnitude(fby_dtype dtype, const uint8_t *at, uint64_t *out_infinity)
{
    uint64_t bits = 0;
    size_t width = fby_dtype_bytes(dtype);
    memcpy(&bits, at, width);
    *out_infinity = dtype == FBY_FLOAT16    ? 0x7c00
                    : dtype == FBY_BFLOAT16 ? 0x7f80
                    : dtype == FBY_FLOAT32  ? 0x7f800000
                                            : UINT64_C(0x7ff0000000000000);
    return bits & (UINT64_MAX >> (65 - 8 * width));
}

/* The key of a row; false = missing: null or NaN. Keys are equal as values are, so -0 is 0. */
static bool key_of(const fby__read_column *c, const fby__panel *p, uint64_t r, const uint8_t **out, size_t *n)
{
    static const uint8_t ZERO[8];
    *out = p->views ? p->data + p->views[r].offset : p->data + r * p->row_bytes;
    *n = p->views ? (size_t)p->views[r].n : p->row_bytes;
    if (p->valid[r] && !p->views && fby__dtype_is_float(c->layout.dtype)) {
        uint64_t infinity, bits = magnitude(c->layout.dtype, *out, &infinity);
        if (!bits)
            *out = ZERO;
        return bits <= infinity;
    }
    return p->valid[r];
}

static fby_status key_flags(local *w, const fby__read_column *c, uint32_t number, const fby__panel *p, uint64_t times, uint8_t *flags,
                            fby_error *err)
{
    fby__buf *last = &w->keys[number].bytes;
    const uint8_t *key, *before = last->data;
    size_t n, n_before = last->n;
    bool null_before = w->keys[number].null, any = w->last.any;
    if (!any) {
        bool null = !key_of(c, p, 0, &key, &n);
        FBY__TRY(keep_key(&w->first, key, n, null, err));
    }
    for (uint64_t r = 0; r < p->rows; r++) {
        bool null = !key_of(c, p, r, &key, &n);
        bool same = any && null == null_before && (null || (n == n_before && memcmp(key, before, n) == 0));
        flags[r] |= (uint8_t)((same ? 0 : BEGINS) | (null ? MISSING : 0));
        if (w->seen && !same && !null)
            fby__seen_run(w->seen, key, n);
        if (w->seen && !w->seen->full)
            w->seen->found.rows += times;
        before = key;
        n_before = n;
        null_before = null;
        any = true;
    }
    w->keys[number].null = null_before;
    last->n = 0;
    if (!null_before && fby__buf_put(last, before, n_before) != 0)
        return fby__fail_nomem(err, "the samples");
    return keep_key(&w->last, before, n_before, null_before, err);
}

/* Whole numbers: the difference may overflow, and is then no step. */
static void time_flags(local *w, const fby__panel *p, int64_t step, uint8_t *flags)
{
    edge *last = &w->last;
    const int64_t *time = (const int64_t *)(const void *)p->data;
    if (!last->any) {
        w->first.time = time[0];
        w->first.time_null = !p->valid[0];
        w->first.rise = p->rows > 1 && p->valid[0] && p->valid[1] ? (double)time[1] - (double)time[0] : 0;
    }
    for (uint64_t r = 0; r < p->rows; r++) {
        int64_t rise;
        bool null = !p->valid[r], known = last->any && !last->time_null && !null;
        bool goes_on = known && (step ? !__builtin_sub_overflow(time[r], last->time, &rise) && rise == step : time[r] > last->time);
        flags[r] |= (uint8_t)((goes_on ? 0 : BREAKS) | (null ? MISSING : 0));
        last->any = true;
        last->time_null = null;
        last->time = time[r];
    }
}

static void time_flags_float(local *w, const fby__panel *p, int64_t step, uint8_t *flags)
{
    edge *last = &w->last;
    const double *time = (const double *)(const void *)p->data;
    if (!last->any) {
        w->first.time_float = time[0];
        w->first.time_null = !p->valid[0] || time[0] != time[0];
        w->first.rise = p->rows > 1 && p->valid[0] && p->valid[1] && time[1] - time[0] == time[1] - time[0] ? time[1] - time[0] : 0;
    }
    for (uint64_t r = 0; r < p->rows; r++) {
        bool null = !p->valid[r] || time[r] != time[r], known = last->any && !last->time_null && !null;
        bool goes_on = known && (step ? time[r] - last->time_float == (double)step : time[r] > last->time_float);
        flags[r] |= (uint8_t)((goes_on ? 0 : BREAKS) | (null ? MISSING : 0));
        last->any = true;
        last->time_null = null;
        last->time_float = time[r];
    }
}

/* Is it NaN? By the bits: exponent all ones, something below it. */
#define NAN_FLAGS(type, infinity)                                                                                                          \
    do {                                                                                                                                   \
        const type *x = (const type *)(const void *)p->data;                                                                               \
        for (uint64_t r = 0; r < p->rows; r++)                                                                                             \
            for (uint32_t k = 0; k < width; k++)                                                                                           \
                if ((type)(x[r * width + k] & ((type)-1 >> 1)) > (type)infinity)                                                           \
                    flags[r] |= MISSING;                                                                                                   \
    } while (0)

static void missing_flags(const fby__read_column *c, const fby__panel *p, uint8_t *flags)
{
    uint32_t width = c->layout.width;
    for (uint64_t r = 0; r < p->rows; r++)
        flags[r] |= p->valid[r] ? 0 : MISSING;
    switch (c->layout.dtype) {
    case FBY_FLOAT16: NAN_FLAGS(uint16_t, 0x7c00); break;
    case FBY_BFLOAT16: NAN_FLAGS(uint16_t, 0x7f80); break;
    case FBY_FLOAT32: NAN_FLAGS(uint32_t, 0x7f800000); break;
    case FBY_FLOAT64: NAN_FLAGS(uint64_t, 0x7ff0000000000000); break;
    default: break;
    }
}

/* A column that is not in the file: the same text in every row, or missing in every row. */
static fby_status flag_constant(local *w, const fby__read_column *c, const char *constant, uint64_t rows, uint8_t *flags, fby_error *err)
{
    bool null = !constant, begins = !w->last.any;
    if (c->as == FBY__READ_TIME && !null)
        return fby__read_column_refuse(c, "a time: it is part of the path", err);
    for (uint64_t r = 0; null && r < rows; r++)
        flags[r] |= MISSING;
    if (c->as == FBY__READ_KEY && begins)
        flags[0] |= BEGINS;
    if (c->as == FBY__READ_KEY && begins)
        FBY__TRY(keep_key(&w->first, NULL, 0, null, err));
    if (c->as == FBY__READ_KEY)
        FBY__TRY(keep_key(&w->last, NULL, 0, null, err));
    if (c->as == FBY__READ_TIME)
        w->first.time_null = w->last.time_null = true;
    return FBY_OK;
}

static fby_status flag_column(void *user, void *memory, const fby__scan_rows *rows, uint32_t number, const fby__panel *p,
                              const char *constant, fby_error *err)
{
    const scan *s = user;
    const fby__read_column *c = &s->columns[number];
    local *w = memory;
    if (number == 0) {
        w->flags.n = 0;
        if (fby__grow((void **)&w->flags.data, &w->flags.cap, (size_t)rows->n, 1) != 0)
            return fby__fail_nomem(err, "the samples");
        memset(w->flags.data, 0, (size_t)rows->n);
    }
    if (number == 0)
        w->last.key.n = 0;
    if (number == 0 && rows->first) {
        w->first.any = w->last.any = false;
        w->first.key.n = 0;
        if (s->n_keys == 1 && !w->seen && !(w->seen = fby__malloc(sizeof *w->seen)))
            return fby__fail_nomem(err, "the samples");
        if (w->seen)
            fby__seen_begin(w->seen);
    }
    w->last.any = !rows->first; /* every column compares with the same row */
    if (!p)
        return flag_constant(w, c, constant, rows->n, w->flags.data, err);
    switch (c->as) {
    case FBY__READ_KEY: return key_flags(w, c, number, p, rows->times, w->flags.data, err);
    case FBY__READ_TIME:
        (fby__dtype_is_float(c->layout.dtype) ? time_flags_float : time_flags)(w, p, s->opts->step, w->flags.data);
        w->flags.data[0] |= rows->times > 1 ? ALONE : 0; /* no time goes on from the same one */
        break;
    default: missing_flags(c, p, w->flags.data); break;
    }
    return FBY_OK;
}

/* ---- what a block holds ---- */

static fby_status no_key(const scan *s, const fby__block *block, uint64_t row, fby_error *err)
{
    const fby__file_row at = fby__dataset_file_row(s->base->ds, block->first_row + row);
    return fby__fail(err, FBY_E_DATA, "%s: the key '%s'%s is missing in row %llu of the %s: a row without a key is in no group", at.path,
                     s->opts->key, s->n_keys > 1 ? ", or another column of it," : "", at.row, at.of);
}

/* The flags of the rows as lists. */
static fby_status collect(void *user, void *memory, const fby__scan_rows *rows, fby_error *err)
{
    const scan *s = user;
    const uint8_t *flags = ((local *)memory)->flags.data;
    found *f = &s->found[rows->block_number];
    bool groups = s->base->kind == FBY_SAMPLES_GROUPS;
    for (uint64_t r = 0; r < rows->n; r++) {
        uint32_t row = (uint32_t)(rows->row + r);
        if (!flags[r])
            continue;
        if ((flags[r] & (BEGINS | BREAKS)) && row > 0) {
            if (row >= BREAK_ONLY)
                return fby__fail(err, FBY_E_UNSUPPORTED, "a block of more than %u rows cannot be cut into series", BREAK_ONLY);
            if (fby__grow((void **)&f->begins, &f->cap_begins, f->n_begins + 1, sizeof *f->begins) != 0)
                return fby__fail_nomem(err, "the samples");
            f->begins[f->n_begins++] = row | (flags[r] & BEGINS ? 0 : BREAK_ONLY);
        }
        if (flags[r] & ALONE) {
            if (fby__grow((void **)&f->alone, &f->cap_alone, f->n_alone + 1, sizeof *f->alone) != 0)
                return fby__fail_nomem(err, "the samples");
            f->alone[f->n_alone++] = (interval){row + 1, row + (uint32_t)rows->times};
        }
        if (!(flags[r] & MISSING))
            continue;
        if (groups)
            return no_key(s, rows->block, row, err);
        if (f->n_missing && f->missing[f->n_missing - 1].end == row) {
            f->missing[f->n_missing - 1].end += (uint32_t)rows->times;
            continue;
        }
        if (fby__grow((void **)&f->missing, &f->cap_missing, f->n_missing + 1, sizeof *f->missing) != 0)
            return fby__fail_nomem(err, "the samples");
        f->missing[f->n_missing++] = (interval){row, row + (uint32_t)rows->times};
    }
    return FBY_OK;
}

static fby_status end_block(void *user, void *memory, uint32_t b, fby_error *err)
{
    const scan *s = user;
    local *w = memory;
    found *f = &s->found[b];
    f->first = w->first; /* with their keys */
    f->last = w->last;
    w->first = w->last = (edge){0};
    if (w->seen)
        f->scattered = w->seen->found;
    if (s->base->kind != FBY_SAMPLES_GROUPS)
        return FBY_OK;
    fby_status status = fby__groups_pack(&s->base->groups[b], f->begins, f->n_begins, err);
    fby__free(f->begins);
    f->begins = NULL;
    f->cap_begins = 0;
    return status;
}

static void local_fini(void *memory)
{
    local *w = memory;
    fby__free(w->seen);
    fby__buf_fini(&w->flags);
    fby__buf_fini(&w->first.key);
    fby__buf_fini(&w->last.key);
    for (uint32_t i = 0; i < FBY_MAX_KEYS; i++)
        fby__buf_fini(&w->keys[i].bytes);
}

/* ---- blocks to files ---- */

/* Does a block's first row have the key of the row before it? */
static bool same_key(const edge *before, const edge *first)
{
    return before->key.n == first->key.n && (!first->key.n || memcmp(before->key.data, first->key.data, first->key.n) == 0);
}

/* Does the time go on as it should? */
static bool time_goes_on(const scan *s, const edge *before, const edge *first)
{
    if (!s->opts->time)
        return true;
    const fby__read_column *c = &s->columns[s->n_keys];
    int64_t step = s->opts->step, rise;
    if (before->time_null || first->time_null)
        return false;
    if (fby__dtype_is_float(c->layout.dtype))
        return step ? first->time_float - before->time_float == (double)step : first->time_float > before->time_float;
    return step ? !__builtin_sub_overflow(first->time, before->time, &rise) && rise == step : first->time > before->time;
}

/* The series that is being put together, and the file or key that it is part of. */
typedef struct joining {
    fby__sample_base *base;
    uint64_t whole, series, stretch; /* where each began */
    size_t first_of_whole, first;    /* of their stretches */
    fby__dropped in_file;            /* of the file's series so far */
} joining;

static fby_status end_stretch(joining *j, uint64_t row, uint64_t next, fby_error *err)
{
    if (row > j->stretch)
        FBY__TRY(fby__stretches_add(
            j->base, &(fby__stretch){.begin = j->stretch, .end = row, .series_begin = j->series, .whole_begin = j->whole}, err));
    j->stretch = fby__max_u64(j->stretch, next);
    return FBY_OK;
}

static fby_status end_series(joining *j, uint64_t row, fby_error *err)
{
    FBY__TRY(end_stretch(j, row, row, err));
    for (size_t i = j->first; i < j->base->n_stretches; i++)
        j->base->stretches[i].series_end = row;
    fby__dropped_count(j->base, j->first, j->series, row, &j->in_file);
    j->base->longest_series = fby__max_u64(j->base->longest_series, row - j->series);
    j->first = j->base->n_stretches;
    j->series = row;
    return FBY_OK;
}

/* The end of a file, or of a key's rows: that of a series too. */
static fby_status end_whole(joining *j, uint64_t row, fby_error *err)
{
    FBY__TRY(end_series(j, row, err));
    for (size_t i = j->first_of_whole; i < j->base->n_stretches; i++)
        j->base->stretches[i].whole_end = row;
    j->first_of_whole = j->base->n_stretches;
    j->whole = row;
    return FBY_OK;
}

/* The end of a file's rows, or of the data set's. */
static fby_status end_file(joining *j, uint64_t row, uint32_t file, fby_error *err)
{
    FBY__TRY(end_whole(j, row, err));
    fby__dropped *all = &j->base->dropped;
    all->all += j->in_file.all;
    all->out += j->in_file.out;
    if (j->in_file.out && j->in_file.out == j->in_file.all && all->files++ == 0)
        all->first_file = file;
    j->in_file = (fby__dropped){0};
    return FBY_OK;
}

/* Each of these rows begins a series of its own; those that give no window are not gone through one by one. */
static fby_status end_each(joining *j, uint64_t begin, uint64_t end, fby_error *err)
{
    fby__sample_base *base = j->base;
    const bool missing = j->stretch >= end, listed = base->length == 1 && !missing;
    const uint64_t stop = listed ? end : fby__min_u64(begin + 2, end);
    if (listed && fby__grow((void **)&base->stretches, &base->cap_stretches, base->n_stretches + (size_t)(end - begin),
                            sizeof *base->stretches) != 0) /* before the work: an extent is only a claim */
        return fby__fail_nomem(err, "the windows");
    for (uint64_t row = begin; row < stop; row++)
        FBY__TRY(end_series(j, row, err));
    if (base->length == 1) {
        j->in_file.all += end - stop;
        j->in_file.out += end - stop;
    }
    j->series = end - 1;
    j->stretch = fby__max_u64(j->stretch, end - 1);
    return FBY_OK;
}

/* What begins and what is missing in a block, merged by row. */
static fby_status join_block(joining *j, const found *f, const fby__block *block, fby_error *err)
{
    size_t b = 0, m = 0, a = 0;
    while (b < f->n_begins || m < f->n_missing || a < f->n_alone) {
        FBY__TRY(fby__cancel_check_at(b + m + a, err));
        uint32_t row = b < f->n_begins ? f->begins[b] & ~BREAK_ONLY : UINT32_MAX;
        const uint32_t missing = m < f->n_missing ? f->missing[m].begin : UINT32_MAX;
        if (a < f->n_alone && f->alone[a].begin < fby__min_u64(row, missing)) {
            FBY__TRY(end_each(j, block->first_row + f->alone[a].begin, block->first_row + f->alone[a].end, err));
            a++;
        } else if (b < f->n_begins && row <= missing) {
            FBY__TRY((f->begins[b] & BREAK_ONLY ? end_series : end_whole)(j, block->first_row + row, err));
            b++;
        } else {
            FBY__TRY(end_stretch(j, block->first_row + f->missing[m].begin, block->first_row + f->missing[m].end, err));
            m++;
        }
    }
    return FBY_OK;
}

static fby_status join_windows(scan *s, fby_error *err)
{
    joining j = {.base = s->base};
    const edge *before = NULL;
    uint32_t file = FBY__NONE;
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        const fby__block *block = fby__dataset_block(s->base->ds, b);
        const found *f = &s->found[b];
        if (block->row_end == block->row_begin)
            continue;
        if (s->base->first_rise == 0)
            s->base->first_rise = f->first.rise;
        if (before && block->file != file)
            FBY__TRY(end_file(&j, block->first_row, file, err));
        else if (!before || !same_key(before, &f->first))
            FBY__TRY(end_whole(&j, block->first_row, err));
        else if (!time_goes_on(s, before, &f->first))
            FBY__TRY(end_series(&j, block->first_row, err));
        FBY__TRY(join_block(&j, f, block, err));
        before = &f->last;
        file = block->file;
    }
    FBY__TRY(end_file(&j, fby_dataset_rows(s->base->ds), file, err));
    if (s->opts->n_drop_missing == 0) /* keys and times may be missing too */
        s->base->dropped = (fby__dropped){0};
    return FBY_OK;
}

static void join_groups(scan *s)
{
    const edge *before = NULL;
    uint32_t file = FBY__NONE, open = FBY__NONE; /* the block in which the last group begins */
    fby__block_groups *groups = s->base->groups;
    const fby_dataset *ds = s->base->ds;
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        const fby__block *block = fby__dataset_block(ds, b);
        if (block->row_end == block->row_begin)
            continue;
        groups[b].skip = before && block->file == file && same_key(before, &s->found[b].first);
        if (open != FBY__NONE && groups[b].n > groups[b].skip) {
            uint64_t end = block->first_row + fby__group_start(&groups[b], groups[b].skip);
            groups[open].last_end = end - fby__dataset_block(ds, open)->first_row;
        }
        if (groups[b].n > groups[b].skip)
            open = b;
        before = &s->found[b].last;
        file = block->file;
    }
    if (open != FBY__NONE)
        groups[open].last_end = fby_dataset_rows(ds) - fby__dataset_block(ds, open)->first_row;
}

static void scan_fini(scan *s)
{
    for (uint32_t b = 0; s->found && b < s->n_blocks; b++) {
        fby__free(s->found[b].begins);
        fby__free(s->found[b].missing);
        fby__free(s->found[b].alone);
        fby__buf_fini(&s->found[b].first.key);
        fby__buf_fini(&s->found[b].last.key);
    }
    fby__free(s->found);
    fby__free(s->columns);
}

fby_status fby__samples_scan(fby__sample_base *base, const fby_samples_opts *opts, fby_error *err)
{
    scan s = {.base = base, .opts = opts, .n_blocks = fby__dataset_block_count(base->ds)};
    fby_status status = add_columns(&s, err);
    if (status == FBY_OK && !(s.found = fby__calloc(s.n_blocks, sizeof *s.found)))
        status = fby__fail_nomem(err, "the samples");
    if (status == FBY_OK && base->kind == FBY_SAMPLES_GROUPS && !(base->groups = fby__calloc(s.n_blocks, sizeof *base->groups)))
        status = fby__fail_nomem(err, "the groups");
    if (status == FBY_OK)
        status = fby__read_columns(&(fby__column_reader){.ds = base->ds,
                                                         .columns = s.columns,
                                                         .n_columns = s.n_columns,
                                                         .n_threads = opts->n_threads,
                                                         .progress = opts->progress,
                                                         .progress_user = opts->progress_user,
                                                         .user = &s,
                                                         .folds = true,
                                                         .local_bytes = sizeof(local),
                                                         .column = flag_column,
                                                         .rows = collect,
                                                         .block = end_block,
                                                         .fini = local_fini},
                                   err);
    if (status == FBY_OK && base->kind == FBY_SAMPLES_GROUPS)
        join_groups(&s);
    else if (status == FBY_OK)
        status = join_windows(&s, err);
    for (uint32_t b = 0; status == FBY_OK && b < s.n_blocks; b++)
        fby__scattered_add(&base->scattered, &s.found[b].scattered);
    scan_fini(&s);
    return status;
}
