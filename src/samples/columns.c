/* Reading a few columns once, by several threads. See columns.h. */
#include "samples/columns.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "pool/pool.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_THREADS 64
#define PIECE_ROWS ((uint64_t)1 << 20) /* decoded at once by a thread */
#define MAX_BLOCK_ROWS (1u << 30)
#define PROGRESS_NS 100000000u

typedef struct reading {
    /* set once */
    const fby__column_reader *r;
    uint32_t n_blocks;
    uint64_t began_ns;
    /* relaxed: results are published by joining the threads */
    _Atomic uint32_t next, done, first_failed;
    /* under lock */
    pthread_mutex_t lock;
    fby_status status; /* of the block first_failed */
    fby_error error;
} reading;

/* A thread's own memory. */
typedef struct worker {
    const fby__column_reader *r;
    fby__scratch scratch;
    fby__range_list ranges;
    fby__leaf_source *sources; /* n_columns */
    fby__file_column *places;  /* n_columns */
    fby__buf memory;
    void *local;
} worker;

/* ---- columns ---- */

fby_status fby__read_column_refuse(const fby__read_column *c, const char *what, fby_error *err)
{
    char type[160];
    (void)fby_field_type_text(c->in.field, type, sizeof type);
    bool dates = c->as == FBY__READ_TIME && c->in.leaf->kind == FBY_KIND_STRING;
    return fby__fail(err, FBY_E_UNSUPPORTED, "column '%s' of type %s cannot be %s%s", c->in.path, type, what,
                     dates ? ": times are dates, timestamps or numbers; store the text as such (in pandas: pd.to_datetime)" : "");
}

/* The dtype of numbers and times. */
static fby_dtype number_dtype(fby__read_as as, const fby_field *leaf)
{
    if (as == FBY__READ_TIME)
        return leaf->kind == FBY_KIND_FLOAT ? FBY_FLOAT64 : FBY_INT64;
    if (as == FBY__READ_VALUE && leaf->dtype != FBY_UINT64)
        return leaf->kind == FBY_KIND_FLOAT ? FBY_FLOAT64 : FBY_INT64;
    return leaf->dtype;
}

/* The panel that a column is decoded to. */
static fby_status choose_layout(fby__read_column *c, fby_error *err)
{
    static const char *const WHAT[] = {"a key", "a time", "looked through for missing values", "compared with a value"};
    const fby_field *leaf = c->in.leaf, *at = c->in.field;
    uint64_t width = 1;
    for (; at->kind == FBY_KIND_FIXED_LIST && at->n_children == 1 && c->as == FBY__READ_DROP; at = &at->children[0])
        width *= at->list_size > 0 ? (uint64_t)at->list_size : 0;
    fby_dtype dtype = leaf->dtype;
    fby__panel_kind kind = FBY__PANEL_DENSE;
    switch (leaf->kind) {
    case FBY_KIND_FLOAT:
    case FBY_KIND_INT:
    case FBY_KIND_DATE:
    case FBY_KIND_TIME:
    case FBY_KIND_TIMESTAMP:
    case FBY_KIND_DURATION: dtype = number_dtype(c->as, leaf); break;
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
    default: return fby__read_column_refuse(c, WHAT[c->as], err);
    }
    bool time_fits = leaf->kind != FBY_KIND_BOOL && leaf->kind != FBY_KIND_DECIMAL && leaf->kind != FBY_KIND_FIXED_BINARY;
    if (at != leaf || width == 0 || width > 1u << 20 || (kind == FBY__PANEL_BYTES && width > 1) ||
        (c->as == FBY__READ_TIME && (!time_fits || kind != FBY__PANEL_DENSE)) || (c->as == FBY__READ_KEY && leaf->kind == FBY_KIND_DECIMAL))
        return fby__read_column_refuse(c, WHAT[c->as], err);
    c->panel_column = (fby__panel_column){.path = c->in.path, .width = (uint32_t)width, .missing = FBY__MISSING_FILL};
    c->layout = (fby__panel_layout){
        .kind = kind, .dtype = dtype, .n_columns = 1, .width = (uint32_t)width, .want_valid = true, .columns = &c->panel_column};
    return FBY_OK;
}

fby_status fby__read_column_init(fby__read_column *c, const fby_dataset *ds, fby__read_as as, const char *path, fby_error *err)
{
    *c = (fby__read_column){.as = as};
    FBY__TRY(fby__dataset_resolve(ds, path, &c->in, err));
    return choose_layout(c, err);
}

/* ---- values ---- */

static fby__value real_value(double x)
{
    return x == x ? (fby__value){.kind = FBY__VALUE_FLOAT, .real = x} : (fby__value){.kind = FBY__VALUE_MISSING};
}

bool fby__read_column_is_text(const fby__read_column *c)
{
    return c->layout.kind == FBY__PANEL_BYTES || c->in.leaf->kind == FBY_KIND_FIXED_BINARY;
}

fby__value fby__value_at(const fby__read_column *c, const fby__panel *panel, const char *constant, uint64_t row)
{
    if (!panel)
        return (fby__value){constant ? FBY__VALUE_TEXT : FBY__VALUE_MISSING, .text = (const uint8_t *)constant,
                            .n = constant ? strlen(constant) : 0};
    if (!panel->valid[row])
        return (fby__value){.kind = FBY__VALUE_MISSING};
    if (panel->views)
        return (fby__value){FBY__VALUE_TEXT, .text = panel->data + panel->views[row].offset, .n = (size_t)panel->views[row].n};
    const uint8_t *at = panel->data + row * panel->row_bytes;
    if (c->in.leaf->kind == FBY_KIND_FIXED_BINARY)
        return (fby__value){FBY__VALUE_TEXT, .text = at, .n = panel->row_bytes};
    union {
        int64_t number;
        uint64_t big;
        double real;
    } x = {0};
    switch (c->layout.dtype) {
    case FBY_FLOAT64: memcpy(&x, at, 8); return real_value(x.real);
    case FBY_UINT64:
        memcpy(&x, at, 8);
        return x.big <= INT64_MAX ? (fby__value){FBY__VALUE_NUMBER, .number = x.number} : real_value((double)x.big);
    case FBY_INT64: memcpy(&x, at, 8); return (fby__value){FBY__VALUE_NUMBER, .number = x.number};
    case FBY_BOOL: return (fby__value){FBY__VALUE_NUMBER, .number = *at != 0};
    default: return (fby__value){.kind = FBY__VALUE_MISSING}; /* a column of nulls */
    }
}

void fby__value_print(const fby__value *v, char *out, size_t n)
{
    switch (v->kind) {
    case FBY__VALUE_MISSING: (void)snprintf(out, n, "(missing)"); break;
    case FBY__VALUE_NUMBER: (void)snprintf(out, n, "%lld", (long long)v->number); break;
    case FBY__VALUE_FLOAT: (void)snprintf(out, n, "%.17g", v->real); break;
    case FBY__VALUE_TEXT: (void)snprintf(out, n, "'%.*s'", (int)fby__min_u64(v->n, 80), (const char *)v->text); break;
    }
}

/* ---- reading a piece ---- */

static int room(fby__buf *b, size_t n)
{
    b->n = 0;
    return fby__grow((void **)&b->data, &b->cap, n, 1);
}

/* Decode one column of a piece, then hand it over. */
static fby_status decode_column(worker *w, const fby__read_piece *piece, uint32_t c, const fby__decode *request, uint64_t capacity,
                                fby_error *err)
{
    const fby__read_column *column = &w->r->columns[c];
    fby__panel panel;
    fby__decode d = *request;
    fby_status status;
    do {
        size_t bytes;
        FBY__TRY(fby__panel_bytes(&column->layout, piece->rows, capacity, &bytes, err));
        if (room(&w->memory, bytes + 64) != 0)
            return fby__fail_nomem(err, "the columns of the samples");
        uint8_t *at = (uint8_t *)(uintptr_t)fby__align_up_u64((uintptr_t)w->memory.data, 64);
        fby__panel_place(&column->layout, piece->rows, capacity, at, &panel);
        d.panel = &panel;
        status = d.table->ops->decode_panel(&d, &w->scratch, err);
        capacity = capacity * 4 + 4096; /* strings that expand: more room */
    } while (status == FBY_E_BUDGET && capacity < SIZE_MAX / 16);
    FBY__TRY(status);
    return w->r->column(w->r->user, w->local, piece, c, &panel, NULL, err);
}

static fby_status read_piece(worker *w, const fby__read_piece *piece, fby__table *table, fby__file *file, fby_error *err)
{
    const fby__column_reader *r = w->r;
    const fby__block *block = piece->block;
    const char *path = fby__dataset_file_path(r->ds, block->file);
    uint64_t begin = block->row_begin + piece->row, end = begin + piece->rows;
    fby__fetch fetch = {0};
    size_t n = 0, at = 0;
    for (uint32_t c = 0; c < r->n_columns; c++) {
        fby__dataset_file_column(r->ds, block->file, &r->columns[c].in, &w->places[c]);
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
    for (uint32_t c = 0; c < r->n_columns && status == FBY_OK; c++) {
        const fby__file_column *place = &w->places[c];
        if (place->place != FBY__PLACE_LEAF) {
            status = r->column(r->user, w->local, piece, c, NULL, place->place == FBY__PLACE_CONSTANT ? place->constant : NULL, err);
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
                               .verify_crc = fby__dataset_verify_crc(r->ds),
                               .file = file};
        bool bytes = r->columns[c].layout.kind == FBY__PANEL_BYTES;
        status = decode_column(w, piece, c, &request, bytes ? bounds.uncompressed_bytes : 0, err);
    }
    fby__fetch_fini(&fetch);
    fby__range_list_clear(&w->ranges);
    return status;
}

static fby_status read_pieces(worker *w, uint32_t b, const fby__block *block, uint64_t begin, uint64_t end, fby_error *err)
{
    fby__table *table = NULL;
    fby__file *file = NULL;
    fby_status status = fby__dataset_table(w->r->ds, block->file, &table, err);
    if (status == FBY_OK)
        status = fby__dataset_open_file(w->r->ds, block->file, &file, err);
    for (uint64_t row = begin; row < end && status == FBY_OK; row += PIECE_ROWS) {
        fby__read_piece piece = {b, block, row, fby__min_u64(PIECE_ROWS, end - row), row == begin};
        status = read_piece(w, &piece, table, file, err);
        if (status == FBY_OK && w->r->piece)
            status = w->r->piece(w->r->user, w->local, &piece, err);
    }
    fby__file_unref(file);
    fby__table_unref(table);
    return status;
}

static fby_status read_block(worker *w, uint32_t b, fby_error *err)
{
    const fby__column_reader *r = w->r;
    const fby__block *block = fby__dataset_block(r->ds, b);
    uint64_t begin = 0, end = block->row_end - block->row_begin;
    if (end == 0 || (r->rows && !r->rows(r->user, b, &begin, &end)))
        return FBY_OK;
    if (end > MAX_BLOCK_ROWS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a row group of %llu rows is more than the sample index holds",
                         (unsigned long long)(block->row_end - block->row_begin));
    FBY__TRY(read_pieces(w, b, block, begin, end, err));
    return r->block ? r->block(r->user, w->local, b, err) : FBY_OK;
}

/* ---- threads ---- */

static fby_status worker_init(worker *w, const fby__column_reader *r, fby_error *err)
{
    *w = (worker){.r = r};
    w->sources = fby__calloc(r->n_columns, sizeof *w->sources);
    w->places = fby__calloc(r->n_columns, sizeof *w->places);
    w->local = fby__calloc(1, r->local_bytes);
    return w->sources && w->places && w->local ? FBY_OK : fby__fail_nomem(err, "the samples");
}

static void worker_fini(worker *w)
{
    if (w->local && w->r->fini)
        w->r->fini(w->local);
    fby__free(w->local);
    fby__scratch_fini(&w->scratch);
    fby__range_list_fini(&w->ranges);
    fby__free(w->sources);
    fby__free(w->places);
    fby__buf_fini(&w->memory);
}

static void reading_failed(reading *s, uint32_t b, fby_status status, const fby_error *error)
{
    pthread_mutex_lock(&s->lock);
    if (b < atomic_load_explicit(&s->first_failed, memory_order_relaxed)) {
        s->status = status;
        s->error = *error;
        atomic_store_explicit(&s->first_failed, b, memory_order_relaxed);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Blocks one after the other; the calling thread also says how far it is. */
static void read_blocks(reading *s, bool tells)
{
    const fby__column_reader *r = s->r;
    worker w;
    fby_error error = {.file_offset = -1};
    uint64_t told = s->began_ns;
    fby_status status = worker_init(&w, r, &error);
    if (status != FBY_OK)
        reading_failed(s, 0, status, &error);
    for (; status == FBY_OK;) {
        uint32_t b = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (b >= s->n_blocks || b > atomic_load_explicit(&s->first_failed, memory_order_relaxed))
            break;
        status = read_block(&w, b, &error);
        if (status != FBY_OK)
            reading_failed(s, b, status, &error);
        atomic_fetch_add_explicit(&s->done, 1, memory_order_relaxed);
        if (tells && fby__now_ns() - told >= PROGRESS_NS) {
            told = fby__now_ns();
            r->progress(r->progress_user, atomic_load_explicit(&s->done, memory_order_relaxed), s->n_blocks, "finding samples");
        }
    }
    worker_fini(&w);
}

static void *read_thread(void *arg)
{
    read_blocks(arg, false);
    return NULL;
}

fby_status fby__read_columns(const fby__column_reader *r, fby_error *err)
{
    reading s = {.r = r, .n_blocks = fby__dataset_block_count(r->ds), .first_failed = FBY__NONE, .began_ns = fby__now_ns()};
    int wanted = r->n_threads > 0 ? r->n_threads : fby__cpu_count(), n = 0;
    pthread_t threads[MAX_THREADS];
    pthread_mutex_init(&s.lock, NULL);
    wanted = wanted > MAX_THREADS ? MAX_THREADS : wanted;
    wanted = (uint32_t)wanted > s.n_blocks ? (int)s.n_blocks : wanted;
    while (n + 1 < wanted && fby__thread_start(&threads[n], "forebay-scan", n, read_thread, &s, NULL) == FBY_OK)
        n++; /* fewer will do */
    read_blocks(&s, r->progress != NULL);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&s.lock);
    if (atomic_load_explicit(&s.first_failed, memory_order_relaxed) == FBY__NONE)
        return FBY_OK;
    if (err)
        *err = s.error;
    return s.status;
}
