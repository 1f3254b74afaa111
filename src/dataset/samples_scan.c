/*
 * The scan that finds series, groups and missing values: it reads the columns that say so, once, and nothing else.
 *
 * Blocks are scanned by several threads, each on its own: the first row of a block counts as a beginning. Then the blocks of each file are
 * put together in order: where a block's first row goes on with the last row of the block before, it is no beginning after all.
 *
 *     flags      one byte a row: does something begin here, is something missing here
 *     windows    rows where a series begins, intervals of missing rows
 *     groups     rows where a group begins, packed in frames at once: there may be 200,000 in a block
 */
#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "dataset/dataset_impl.h"
#include "dataset/samples_impl.h"
#include "pool/pool.h"

#include <string.h>

#define MAX_THREADS 64
#define PIECE_ROWS ((uint64_t)1 << 20) /* decoded at once by a thread */
#define PROGRESS_NS 100000000u

enum { BEGINS = 1, MISSING = 2 };

typedef enum column_role { ROLE_KEY, ROLE_TIME, ROLE_DROP } column_role;

typedef struct column {
    column_role role;
    fby__dataset_column in;
    fby__panel_column panel_column;
    fby__panel_layout layout;
} column;

/* What the next row is compared with. */
typedef struct edge {
    bool any, key_null, time_null;
    fby__buf key;
    int64_t time;
    double time_float;
} edge;

typedef struct interval {
    uint32_t begin, end;
} interval;

/* What the scan found in one block; rows are the block's. */
typedef struct found {
    uint32_t *begins; /* owned: row 0 is not listed */
    size_t n_begins, cap_begins;
    interval *missing; /* owned: in order, apart from one another */
    size_t n_missing, cap_missing;
    edge first, last;
} found;

typedef struct scan {
    /* set once */
    fby__sample_base *base;
    const fby_samples_opts *opts;
    column *columns; /* owned */
    uint32_t n_columns, n_blocks;
    found *found; /* owned: one a block, each written by the thread that took it */
    uint64_t began_ns;
    /* relaxed: results are published by joining the threads */
    _Atomic uint32_t next, done, first_failed;
    /* under lock */
    pthread_mutex_t lock;
    fby_status status; /* of the block first_failed */
    fby_error error;
} scan;

/* A thread's own memory. */
typedef struct worker {
    scan *s;
    fby__scratch scratch;
    fby__range_list ranges;
    fby__leaf_source *sources; /* n_columns */
    fby__file_column *places;  /* n_columns */
    fby__buf memory, flags;
    edge first, last; /* of the block: rows seen so far */
} worker;

/* ---- columns ---- */

static fby_status cannot_be(const column *c, const char *what, fby_error *err)
{
    char type[160];
    (void)fby_field_type_text(c->in.field, type, sizeof type);
    return fby__fail(err, FBY_E_UNSUPPORTED, "column '%s' of type %s cannot be %s", c->in.path, type, what);
}

static bool is_float(fby_dtype d) { return d == FBY_FLOAT16 || d == FBY_BFLOAT16 || d == FBY_FLOAT32 || d == FBY_FLOAT64; }

/* The panel that a column is decoded to: as stored; times as int64, or float64 when they have fractions. */
static fby_status choose_layout(column *c, fby_error *err)
{
    static const char *const WHAT[] = {"a key", "a time", "looked through for missing values"};
    const fby_field *leaf = c->in.leaf, *at = c->in.field;
    uint64_t width = 1;
    for (; at->kind == FBY_KIND_FIXED_LIST && at->n_children == 1 && c->role == ROLE_DROP; at = &at->children[0])
        width *= at->list_size > 0 ? (uint64_t)at->list_size : 0;
    fby_dtype dtype = leaf->dtype;
    fby__panel_kind kind = FBY__PANEL_DENSE;
    switch (leaf->kind) {
    case FBY_KIND_FLOAT:
    case FBY_KIND_INT:
    case FBY_KIND_DATE:
    case FBY_KIND_TIME:
    case FBY_KIND_TIMESTAMP:
    case FBY_KIND_DURATION:
        if (c->role == ROLE_TIME)
            dtype = leaf->kind == FBY_KIND_FLOAT ? FBY_FLOAT64 : FBY_INT64;
        break;
    case FBY_KIND_DECIMAL: dtype = FBY_FLOAT64; break;
    case FBY_KIND_NULL: dtype = FBY_FLOAT32; break;
    case FBY_KIND_BOOL: break;
    case FBY_KIND_FIXED_BINARY:
        dtype = FBY_UINT8;
        width *= (uint64_t)leaf->byte_width;
        break;
    case FBY_KIND_STRING:
    case FBY_KIND_BINARY:
        dtype = FBY_UINT8;
        kind = FBY__PANEL_BYTES;
        break;
    default: return cannot_be(c, WHAT[c->role], err);
    }
    bool time_fits = leaf->kind != FBY_KIND_BOOL && leaf->kind != FBY_KIND_DECIMAL && leaf->kind != FBY_KIND_FIXED_BINARY;
    if (at != leaf || width == 0 || width > 1u << 20 || (kind == FBY__PANEL_BYTES && width > 1) ||
        (c->role == ROLE_TIME && (!time_fits || kind != FBY__PANEL_DENSE)) || (c->role == ROLE_KEY && leaf->kind == FBY_KIND_DECIMAL))
        return cannot_be(c, WHAT[c->role], err);
    c->panel_column = (fby__panel_column){.path = c->in.path, .width = (uint32_t)width, .missing = FBY__MISSING_FILL};
    c->layout = (fby__panel_layout){
        .kind = kind, .dtype = dtype, .n_columns = 1, .width = (uint32_t)width, .want_valid = true, .columns = &c->panel_column};
    return FBY_OK;
}

static fby_status add_column(scan *s, column_role role, const char *path, fby_error *err)
{
    column *c = &s->columns[s->n_columns];
    *c = (column){.role = role};
    FBY__TRY(fby__dataset_resolve(s->base->ds, path, &c->in, err));
    FBY__TRY(choose_layout(c, err));
    s->n_columns++;
    return FBY_OK;
}

static fby_status add_columns(scan *s, fby_error *err)
{
    const fby_samples_opts *o = s->opts;
    s->columns = fby__calloc(2 + o->n_drop_missing, sizeof *s->columns);
    if (!s->columns)
        return fby__fail_nomem(err, "the samples");
    if (o->key)
        FBY__TRY(add_column(s, ROLE_KEY, o->key, err));
    if (o->time)
        FBY__TRY(add_column(s, ROLE_TIME, o->time, err));
    for (size_t i = 0; i < o->n_drop_missing; i++)
        FBY__TRY(add_column(s, ROLE_DROP, o->drop_missing[i], err));
    return FBY_OK;
}

/* ---- flags of the rows of one piece ---- */

static fby_status keep_key(edge *e, const uint8_t *key, size_t n, bool null, fby_error *err)
{
    e->key_null = null;
    e->key.n = 0;
    return null || fby__buf_put(&e->key, key, n) == 0 ? FBY_OK : fby__fail_nomem(err, "the samples");
}

static const uint8_t *key_of(const fby__panel *p, uint64_t r, size_t *n)
{
    *n = p->views ? (size_t)p->views[r].n : p->row_bytes;
    return p->views ? p->data + p->views[r].offset : p->data + r * p->row_bytes;
}

static fby_status key_flags(worker *w, const fby__panel *p, uint8_t *flags, fby_error *err)
{
    edge *last = &w->last;
    size_t n;
    if (!last->any) {
        const uint8_t *first = key_of(p, 0, &n);
        FBY__TRY(keep_key(&w->first, first, n, !p->valid[0], err));
    }
    const uint8_t *before = last->any && !last->key_null ? last->key.data : NULL;
    size_t n_before = last->key.n;
    bool null_before = last->key_null, any = last->any;
    for (uint64_t r = 0; r < p->rows; r++) {
        const uint8_t *key = key_of(p, r, &n);
        bool null = !p->valid[r];
        bool same = any && null == null_before && (null || (n == n_before && memcmp(key, before, n) == 0));
        flags[r] |= (uint8_t)((same ? 0 : BEGINS) | (null ? MISSING : 0));
        before = key;
        n_before = n;
        null_before = null;
        any = true;
    }
    return keep_key(last, before, n_before, null_before, err);
}

/* Whole numbers: the difference may overflow, and is then no step. */
static void time_flags(worker *w, const fby__panel *p, int64_t step, uint8_t *flags)
{
    edge *last = &w->last;
    const int64_t *time = (const int64_t *)(const void *)p->data;
    if (!last->any) {
        w->first.time = time[0];
        w->first.time_null = !p->valid[0];
    }
    for (uint64_t r = 0; r < p->rows; r++) {
        int64_t rise;
        bool null = !p->valid[r], known = last->any && !last->time_null && !null;
        bool goes_on = known && (step ? !__builtin_sub_overflow(time[r], last->time, &rise) && rise == step : time[r] > last->time);
        flags[r] |= (uint8_t)((goes_on ? 0 : BEGINS) | (null ? MISSING : 0));
        last->any = true;
        last->time_null = null;
        last->time = time[r];
    }
}

static void time_flags_float(worker *w, const fby__panel *p, int64_t step, uint8_t *flags)
{
    edge *last = &w->last;
    const double *time = (const double *)(const void *)p->data;
    if (!last->any) {
        w->first.time_float = time[0];
        w->first.time_null = !p->valid[0] || time[0] != time[0];
    }
    for (uint64_t r = 0; r < p->rows; r++) {
        bool null = !p->valid[r] || time[r] != time[r], known = last->any && !last->time_null && !null;
        bool goes_on = known && (step ? time[r] - last->time_float == (double)step : time[r] > last->time_float);
        flags[r] |= (uint8_t)((goes_on ? 0 : BEGINS) | (null ? MISSING : 0));
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

static void missing_flags(const column *c, const fby__panel *p, uint8_t *flags)
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

static fby_status flag_column(worker *w, const column *c, const fby__panel *p, uint8_t *flags, fby_error *err)
{
    switch (c->role) {
    case ROLE_KEY: return key_flags(w, p, flags, err);
    case ROLE_TIME: (is_float(c->layout.dtype) ? time_flags_float : time_flags)(w, p, w->s->opts->step, flags); break;
    case ROLE_DROP: missing_flags(c, p, flags); break;
    }
    return FBY_OK;
}

/* ---- reading ---- */

/* A column that is not in the file: the same text in every row, or missing in every row. */
static fby_status flag_constant(worker *w, const column *c, const fby__file_column *place, uint64_t rows, uint8_t *flags, fby_error *err)
{
    bool null = place->place == FBY__PLACE_MISSING, begins = !w->last.any;
    if (c->role == ROLE_TIME && !null)
        return cannot_be(c, "a time: it is part of the path", err);
    for (uint64_t r = 0; null && r < rows; r++)
        flags[r] |= MISSING;
    if (c->role == ROLE_KEY && begins)
        flags[0] |= BEGINS;
    if (c->role == ROLE_KEY)
        w->first.key_null = w->last.key_null = null;
    if (c->role == ROLE_TIME)
        w->first.time_null = w->last.time_null = true;
    return FBY_OK;
}

static int room(fby__buf *b, size_t n)
{
    b->n = 0;
    return fby__grow((void **)&b->data, &b->cap, n, 1);
}

/* Decode one column of rows of a block, then flag them. */
static fby_status scan_column(worker *w, const column *c, const fby__decode *request, uint64_t rows, uint64_t capacity, uint8_t *flags,
                              fby_error *err)
{
    fby__panel panel;
    fby__decode d = *request;
    fby_status status;
    do {
        size_t bytes;
        FBY__TRY(fby__panel_bytes(&c->layout, rows, capacity, &bytes, err));
        if (room(&w->memory, bytes + 64) != 0)
            return fby__fail_nomem(err, "the columns of the samples");
        uint8_t *at = (uint8_t *)(uintptr_t)fby__align_up_u64((uintptr_t)w->memory.data, 64);
        fby__panel_place(&c->layout, rows, capacity, at, &panel);
        d.panel = &panel;
        status = d.table->ops->decode_panel(&d, &w->scratch, err);
        capacity = capacity * 4 + 4096; /* strings that expand: more room */
    } while (status == FBY_E_BUDGET && capacity < SIZE_MAX / 16);
    FBY__TRY(status);
    return flag_column(w, c, &panel, flags, err);
}

static fby_status scan_piece(worker *w, const fby__block *block, fby__table *table, fby__file *file, uint64_t begin, uint64_t end,
                             fby_error *err)
{
    scan *s = w->s;
    const fby_dataset *ds = s->base->ds;
    const char *path = fby__dataset_file_path(ds, block->file);
    fby__fetch fetch = {0};
    uint64_t rows = end - begin;
    size_t n = 0;
    if (room(&w->flags, (size_t)rows) != 0)
        return fby__fail_nomem(err, "the samples");
    memset(w->flags.data, 0, (size_t)rows);
    for (uint32_t c = 0; c < s->n_columns; c++) {
        fby__dataset_file_column(ds, block->file, &s->columns[c].in, &w->places[c]);
        if (w->places[c].place == FBY__PLACE_LEAF)
            w->sources[n++] = (fby__leaf_source){.leaf = w->places[c].leaf};
    }
    fby_status status = FBY_OK;
    if (n)
        status = fby__locate(&(fby__locate_request){.table = table,
                                                    .file = file,
                                                    .file_key = block->file,
                                                    .group = block->group,
                                                    .row_begin = begin,
                                                    .row_end = end,
                                                    .sources = w->sources,
                                                    .n = n,
                                                    .list = &w->ranges},
                             err);
    if (status == FBY_OK)
        status = fby__fetch_sources(file, w->sources, n, &fetch, err);
    size_t at = 0;
    bool any = w->last.any;
    for (uint32_t c = 0; c < s->n_columns && status == FBY_OK; c++) {
        const fby__file_column *place = &w->places[c];
        w->last.any = any; /* every column compares with the same row */
        if (place->place != FBY__PLACE_LEAF) {
            status = flag_constant(w, &s->columns[c], place, rows, w->flags.data, err);
            continue;
        }
        fby__decode_column one = {.source = &w->sources[at++], .unit_mul = place->unit_mul, .unit_div = place->unit_div};
        fby__leaf_bounds bounds;
        table->ops->leaf_bounds(table, block->group, begin, end, place->leaf, &bounds);
        fby__decode request = {.table = table,
                               .file_name = path ? path : "(memory)",
                               .group = block->group,
                               .row_begin = begin,
                               .row_end = end,
                               .panel_row = begin,
                               .columns = &one,
                               .n_columns = 1,
                               .verify_crc = fby__dataset_verify_crc(ds),
                               .file = file};
        bool bytes = s->columns[c].layout.kind == FBY__PANEL_BYTES;
        status = scan_column(w, &s->columns[c], &request, rows, bytes ? bounds.uncompressed_bytes : 0, w->flags.data, err);
    }
    w->last.any = true;
    fby__fetch_fini(&fetch);
    fby__range_list_clear(&w->ranges);
    return status;
}

/* ---- what a block holds ---- */

static fby_status no_key(const scan *s, const fby__block *block, uint64_t row, fby_error *err)
{
    const char *path = fby__dataset_file_path(s->base->ds, block->file);
    return fby__fail(err, FBY_E_DATA, "%s: the key '%s' is missing in row %llu of the data set: a row without a key is in no group",
                     path ? path : "(memory)", s->opts->key, (unsigned long long)(block->first_row + row));
}

/* The flags of a piece that begins at row `first` of the block, as lists. */
static fby_status collect(worker *w, const fby__block *block, uint64_t first, uint64_t rows, found *f, fby_error *err)
{
    const uint8_t *flags = w->flags.data;
    bool groups = w->s->base->kind == FBY_SAMPLES_GROUPS;
    for (uint64_t r = 0; r < rows; r++) {
        uint32_t row = (uint32_t)(first + r);
        if (!flags[r])
            continue;
        if ((flags[r] & BEGINS) && row > 0) {
            if (fby__grow((void **)&f->begins, &f->cap_begins, f->n_begins + 1, sizeof *f->begins) != 0)
                return fby__fail_nomem(err, "the samples");
            f->begins[f->n_begins++] = row;
        }
        if (!(flags[r] & MISSING))
            continue;
        if (groups)
            return no_key(w->s, block, row, err);
        if (f->n_missing && f->missing[f->n_missing - 1].end == row) {
            f->missing[f->n_missing - 1].end++;
            continue;
        }
        if (fby__grow((void **)&f->missing, &f->cap_missing, f->n_missing + 1, sizeof *f->missing) != 0)
            return fby__fail_nomem(err, "the samples");
        f->missing[f->n_missing++] = (interval){row, row + 1};
    }
    return FBY_OK;
}

/* The starts of a block's groups, packed. */
static fby_status pack_groups(const found *f, fby__block_groups *g, fby_error *err)
{
    uint32_t n = (uint32_t)f->n_begins + 1, n_frames = (n + FBY__FRAME_GROUPS - 1) / FBY__FRAME_GROUPS;
    size_t units = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint16_t *starts = pass ? (uint16_t *)(void *)(g->frames + n_frames) : NULL;
        units = pass ? 0 : units;
        for (uint32_t i = 0; i < n_frames; i++) {
            uint32_t from = i * FBY__FRAME_GROUPS, to = from + FBY__FRAME_GROUPS < n ? from + FBY__FRAME_GROUPS : n;
            uint32_t row = from ? f->begins[from - 1] : 0, last = to > 1 ? f->begins[to - 2] : 0;
            bool wide = last - row > UINT16_MAX;
            if (pass) {
                g->frames[i] = (fby__frame){row, (uint32_t)units | (wide ? FBY__FRAME_WIDE : 0)};
                for (uint32_t k = from; k < to; k++) {
                    uint32_t start = (k ? f->begins[k - 1] : 0) - row;
                    size_t at = units + (wide ? 2 * (k - from) : k - from);
                    starts[at] = (uint16_t)start;
                    if (wide)
                        starts[at + 1] = (uint16_t)(start >> 16);
                }
            }
            units += (wide ? 2 : 1) * (size_t)(to - from);
        }
        if (pass == 0) {
            g->bytes = n_frames * sizeof *g->frames + units * sizeof *g->starts;
            g->frames = fby__malloc(g->bytes);
            if (!g->frames)
                return fby__fail_nomem(err, "the groups");
        }
    }
    g->starts = (const uint16_t *)(const void *)(g->frames + n_frames);
    g->n = n;
    return FBY_OK;
}

static fby_status scan_rows(worker *w, const fby__block *block, fby__table *table, fby__file *file, found *f, fby_error *err)
{
    uint64_t rows = block->row_end - block->row_begin;
    w->first.any = w->last.any = false;
    for (uint64_t row = 0; row < rows; row += PIECE_ROWS) {
        uint64_t n = fby__min_u64(PIECE_ROWS, rows - row);
        FBY__TRY(scan_piece(w, block, table, file, block->row_begin + row, block->row_begin + row + n, err));
        FBY__TRY(collect(w, block, row, n, f, err));
    }
    f->first = w->first; /* with their keys */
    f->last = w->last;
    w->first = w->last = (edge){0};
    return FBY_OK;
}

static fby_status scan_block(worker *w, uint32_t b, fby_error *err)
{
    scan *s = w->s;
    const fby_dataset *ds = s->base->ds;
    const fby__block *block = fby__dataset_block(ds, b);
    found *f = &s->found[b];
    fby__table *table = NULL;
    fby__file *file = NULL;
    if (block->row_end == block->row_begin)
        return FBY_OK;
    if (block->row_end - block->row_begin > FBY__MAX_GROUP_BLOCK_ROWS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a row group of %llu rows is more than the sample index holds",
                         (unsigned long long)(block->row_end - block->row_begin));
    fby_status status = fby__dataset_table(ds, block->file, &table, err);
    if (status == FBY_OK)
        status = fby__dataset_open_file(ds, block->file, &file, err);
    if (status == FBY_OK)
        status = scan_rows(w, block, table, file, f, err);
    fby__file_unref(file);
    fby__table_unref(table);
    if (status == FBY_OK && s->base->kind == FBY_SAMPLES_GROUPS) {
        status = pack_groups(f, &s->base->groups[b], err);
        fby__free(f->begins);
        f->begins = NULL;
        f->cap_begins = 0;
    }
    return status;
}

/* ---- threads ---- */

static fby_status worker_init(worker *w, scan *s, fby_error *err)
{
    *w = (worker){.s = s};
    w->sources = fby__calloc(s->n_columns, sizeof *w->sources);
    w->places = fby__calloc(s->n_columns, sizeof *w->places);
    return w->sources && w->places ? FBY_OK : fby__fail_nomem(err, "the samples");
}

static void worker_fini(worker *w)
{
    fby__scratch_fini(&w->scratch);
    fby__range_list_fini(&w->ranges);
    fby__free(w->sources);
    fby__free(w->places);
    fby__buf_fini(&w->memory);
    fby__buf_fini(&w->flags);
    fby__buf_fini(&w->first.key);
    fby__buf_fini(&w->last.key);
}

static void scan_failed(scan *s, uint32_t b, fby_status status, const fby_error *error)
{
    pthread_mutex_lock(&s->lock);
    if (b < atomic_load_explicit(&s->first_failed, memory_order_relaxed)) {
        s->status = status;
        s->error = *error;
        atomic_store_explicit(&s->first_failed, b, memory_order_relaxed);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Blocks one after the other; the calling thread also says how far it is. The first error by block order wins. */
static void scan_blocks(scan *s, bool tells)
{
    worker w;
    fby_error error = {.file_offset = -1};
    uint64_t told = s->began_ns;
    fby_status status = worker_init(&w, s, &error);
    if (status != FBY_OK)
        scan_failed(s, 0, status, &error);
    for (; status == FBY_OK;) {
        uint32_t b = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (b >= s->n_blocks || b > atomic_load_explicit(&s->first_failed, memory_order_relaxed))
            break;
        status = scan_block(&w, b, &error);
        if (status != FBY_OK)
            scan_failed(s, b, status, &error);
        atomic_fetch_add_explicit(&s->done, 1, memory_order_relaxed);
        if (tells && fby__now_ns() - told >= PROGRESS_NS) {
            told = fby__now_ns();
            s->opts->progress(s->opts->progress_user, atomic_load_explicit(&s->done, memory_order_relaxed), s->n_blocks, "finding samples");
        }
    }
    worker_fini(&w);
}

static void *scan_thread(void *arg)
{
    scan_blocks(arg, false);
    return NULL;
}

static fby_status run_threads(scan *s, fby_error *err)
{
    int wanted = s->opts->n_threads > 0 ? s->opts->n_threads : fby__cpu_count(), n = 0;
    pthread_t threads[MAX_THREADS];
    wanted = wanted > MAX_THREADS ? MAX_THREADS : wanted;
    wanted = (uint32_t)wanted > s->n_blocks ? (int)s->n_blocks : wanted;
    while (n + 1 < wanted && fby__thread_start(&threads[n], "forebay-scan", n, scan_thread, s, NULL) == FBY_OK)
        n++; /* fewer will do */
    scan_blocks(s, s->opts->progress != NULL);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (atomic_load_explicit(&s->first_failed, memory_order_relaxed) == FBY__NONE)
        return FBY_OK;
    if (err)
        *err = s->error;
    return s->status;
}

/* ---- blocks to files ---- */

/* Does a block's first row go on with what the row before it holds? */
static bool goes_on(const scan *s, const edge *before, const edge *first)
{
    if (s->opts->key && (before->key_null != first->key_null || before->key.n != first->key.n ||
                         (first->key.n && memcmp(before->key.data, first->key.data, first->key.n) != 0)))
        return false;
    if (!s->opts->time)
        return true;
    const column *c = &s->columns[s->opts->key ? 1 : 0];
    int64_t step = s->opts->step, rise;
    if (before->time_null || first->time_null)
        return false;
    if (is_float(c->layout.dtype))
        return step ? first->time_float - before->time_float == (double)step : first->time_float > before->time_float;
    return step ? !__builtin_sub_overflow(first->time, before->time, &rise) && rise == step : first->time > before->time;
}

/* The series that is being put together. */
typedef struct joining {
    fby__sample_base *base;
    uint64_t series, stretch; /* where both began */
    size_t first;             /* of the series' stretches */
} joining;

static fby_status end_stretch(joining *j, uint64_t row, uint64_t next, fby_error *err)
{
    if (row > j->stretch)
        FBY__TRY(fby__stretches_add(j->base, &(fby__stretch){.begin = j->stretch, .end = row, .series_begin = j->series}, err));
    j->stretch = fby__max_u64(j->stretch, next);
    return FBY_OK;
}

static fby_status end_series(joining *j, uint64_t row, fby_error *err)
{
    FBY__TRY(end_stretch(j, row, row, err));
    for (size_t i = j->first; i < j->base->n_stretches; i++)
        j->base->stretches[i].series_end = row;
    j->base->longest_series = fby__max_u64(j->base->longest_series, row - j->series);
    j->first = j->base->n_stretches;
    j->series = row;
    return FBY_OK;
}

/* What begins and what is missing in a block, merged by row. */
static fby_status join_block(joining *j, const found *f, const fby__block *block, fby_error *err)
{
    size_t b = 0, m = 0;
    while (b < f->n_begins || m < f->n_missing) {
        if (m == f->n_missing || (b < f->n_begins && f->begins[b] <= f->missing[m].begin)) {
            FBY__TRY(end_series(j, block->first_row + f->begins[b], err));
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
        if (!before || block->file != file || !goes_on(s, before, &f->first))
            FBY__TRY(end_series(&j, block->first_row, err));
        FBY__TRY(join_block(&j, f, block, err));
        before = &f->last;
        file = block->file;
    }
    return end_series(&j, fby_dataset_rows(s->base->ds), err);
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
        groups[b].skip = before && block->file == file && goes_on(s, before, &s->found[b].first);
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
        fby__buf_fini(&s->found[b].first.key);
        fby__buf_fini(&s->found[b].last.key);
    }
    fby__free(s->found);
    fby__free(s->columns);
    pthread_mutex_destroy(&s->lock);
}

fby_status fby__samples_scan(fby__sample_base *base, const fby_samples_opts *opts, fby_error *err)
{
    scan s = {
        .base = base, .opts = opts, .n_blocks = fby__dataset_block_count(base->ds), .first_failed = FBY__NONE, .began_ns = fby__now_ns()};
    pthread_mutex_init(&s.lock, NULL);
    fby_status status = add_columns(&s, err);
    if (status == FBY_OK && !(s.found = fby__calloc(s.n_blocks, sizeof *s.found)))
        status = fby__fail_nomem(err, "the samples");
    if (status == FBY_OK && base->kind == FBY_SAMPLES_GROUPS && !(base->groups = fby__calloc(s.n_blocks, sizeof *base->groups)))
        status = fby__fail_nomem(err, "the groups");
    if (status == FBY_OK)
        status = run_threads(&s, err);
    if (status == FBY_OK && base->kind == FBY_SAMPLES_GROUPS)
        join_groups(&s);
    else if (status == FBY_OK)
        status = join_windows(&s, err);
    scan_fini(&s);
    return status;
}
