/*
 * The dataset as an Arrow stream: a struct array per block, in order; what pyarrow.table(ds), polars and DuckDB read.
 *
 * A block is read in few large reads, then its columns are decoded by several threads that live for that block only: nothing
 * waits between two calls, so a stream may be dropped at any time from any thread, and a forked child finds no missing threads.
 */
#include "read/arrow.h"
#include "read/read_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/utf8.h"
#include "block/arrow.h"
#include "budget/memory_limits.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_THREADS 32
#define STORE_BYTES ((size_t)256 << 20)        /* of decoded chunks that reach over several blocks: at most, and a quarter of the budget */
#define LEAF_BYTES 1024.0                      /* about, of a column beside its values: arrays, buffers' ends, what is noted to read it */
#define BYTES_PER_THREAD ((uint64_t)256 << 10) /* stored: below it a thread's start costs more than it saves */

/* A column in the block at hand. */
typedef struct column {
    const fby_field *field; /* of the file; NULL = it has none, or only nulls */
    const char *constant;   /* or the same text in every row */
    size_t first_source;
} column;

/* What metadata say of the blocks: bytes to read the one at hand, and the largest, and of a decoded row. */
typedef struct estimate {
    bool known;
    uint32_t block;
    double own, most, row_bytes;
} estimate;

typedef struct fby__arrow_reader {
    fby_dataset *ds; /* a reference */
    uint32_t n_columns;
    fby_field root;            /* children: `fields` */
    fby_field *fields;         /* owned: the chosen columns, side by side */
    uint32_t *numbers;         /* owned: their index in the joined schema */
    struct ArrowSchema schema; /* of the whole: what blocks are cast to */
    uint32_t next_block;
    int n_threads;
    fby__account *account; /* owned */
    fby__memory_giver giver;
    pthread_mutex_t lock; /* guards the next: tasks that lack room make it */
    estimate estimate;
    fby__reader reader;
    fby__read read;          /* of the block at hand, as all below */
    column *columns;         /* owned */
    struct ArrowArray array; /* the struct array */
    fby_status status;
    fby_error error;
} stream;

void fby__arrow_reader_close(stream *s)
{
    if (!s)
        return;
    if (s->schema.release)
        s->schema.release(&s->schema);
    fby__chunk_store_destroy(s->reader.store);
    fby__read_fini(&s->read);
    fby__reader_close(&s->reader);
    if (s->account)
        fby__account_retire(s->account);
    fby__account_unref(s->account);
    fby__free(s->columns);
    fby__free(s->fields);
    fby__free(s->numbers);
    fby_dataset_close(s->ds);
    pthread_mutex_destroy(&s->lock);
    fby__free(s);
}

/* The first of the strings that is not UTF-8, in this column or below it; -1 when all are. Strings of Arrow promise as much. */
static int64_t find_bad_text(const struct ArrowSchema *type, const struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_children; i++)
        if (find_bad_text(type->children[i], array->children[i]) >= 0)
            return 0;
    if (strcmp(type->format, "U") != 0 || array->length == 0)
        return -1;
    const int64_t *offsets = array->buffers[1];
    const uint8_t *data = array->buffers[2];
    if (fby__utf8_all_valid(data, offsets, (uint64_t)array->length))
        return -1;
    int64_t i = 0;
    while (i < array->length - 1 && fby__utf8_valid(data + offsets[i], (size_t)(offsets[i + 1] - offsets[i])))
        i++;
    return i;
}

static fby_status check_text(const fby__block *block, const struct ArrowSchema *type, const struct ArrowArray *array, fby_error *err)
{
    int64_t bad = find_bad_text(type, array);
    char where[60] = "a value";
    if (bad < 0)
        return FBY_OK;
    if (array->n_children == 0)
        (void)snprintf(where, sizeof where, "row %llu", (unsigned long long)block->first_row + (unsigned long long)bad);
    return fby__fail(err, FBY_E_DATA, "%s is not UTF-8, which text in Arrow has to be: open with dtypes={\"%s\": \"bytes\"}", where,
                     type->name);
}

/* ---- what the reader asks ---- */

static stream *stream_of(const fby__read *read) { return FBY__TASK_OWNER(read->reader, stream, reader); }

/* Which of the columns are in the block's file, and the leaves to read for them. */
static fby_status choose(fby__read *read, fby_error *err)
{
    stream *s = stream_of(read);
    const uint32_t file = fby__dataset_block(s->ds, read->block)->file;
    uint32_t hint = 0;
    size_t n = 0;
    fby__leaf_source *sources;
    FBY__TRY(fby__read_open_table(read, err));
    const fby__schema *schema = read->table->schema;
    for (uint32_t i = 0; i < s->n_columns; i++) {
        s->columns[i] = (column){.first_source = n};
        s->columns[i].field = fby__dataset_file_field(s->ds, file, schema, s->numbers[i], &hint, &s->columns[i].constant);
        if (s->columns[i].field)
            n += schema->nodes[s->columns[i].field - schema->fields].n_leaves;
    }
    FBY__TRY(fby__read_want(read, n, &sources, err));
    for (uint32_t i = 0; i < s->n_columns; i++) {
        const fby__schema_node *node = s->columns[i].field ? &schema->nodes[s->columns[i].field - schema->fields] : NULL;
        for (uint32_t k = 0; node && k < node->n_leaves; k++)
            sources[s->columns[i].first_source + k] = (fby__leaf_source){.leaf = node->first_leaf + k};
    }
    return FBY_OK;
}

static size_t most_tasks(const fby__reader *reader) { return FBY__TASK_OWNER(reader, const stream, reader)->n_columns; }

/* A task a column; and now that their bytes are there, threads to decode them. */
static uint32_t cut(fby__read *read)
{
    stream *s = stream_of(read);
    const uint64_t stored = fby__dataset_block(s->ds, read->block)->stored_bytes;
    const uint64_t threads = fby__min_u64((uint64_t)s->n_threads, fby__min_u64(s->n_columns, 1 + stored / BYTES_PER_THREAD));
    for (uint32_t i = 0; i < s->n_columns; i++)
        read->tasks[i] = (fby__read_task){.read = read, .panel = i};
    if (threads > 1 && fby__pool_create((int)threads - 1, "forebay-arrow", FBY__STACK_OWN, &s->reader.pool, NULL) == FBY_OK)
        s->reader.n_helpers = (uint32_t)threads - 1; /* else the calling thread alone will do */
    return s->n_columns;
}

static fby_status decode(const fby__read_task *task, fby__read_worker *w, fby_error *err)
{
    const fby__read *read = task->read;
    stream *s = stream_of(read);
    const column *c = &s->columns[task->panel];
    const fby__block *block = fby__dataset_block(s->ds, read->block);
    const struct ArrowSchema *to = s->schema.children[task->panel];
    struct ArrowArray *out = s->array.children[task->panel];
    const int64_t rows = (int64_t)(block->row_end - block->row_begin);
    if (c->constant)
        return fby__cast_constant(to, c->constant, rows, out, err);
    if (!c->field)
        return fby__cast_nulls(to, rows, out, err);
    fby__arrow_request request = {.table = read->table,
                                  .file = read->file,
                                  .file_name = fby__dataset_file_path(s->ds, block->file),
                                  .group = block->group,
                                  .row_begin = block->row_begin,
                                  .row_end = block->row_end,
                                  .field = (uint32_t)(c->field - read->table->schema->fields),
                                  .verify_crc = fby__dataset_verify_crc(s->ds),
                                  .sources = &read->sources[c->first_source]};
    FBY__TRY(read->table->ops->decode_arrow(&request, &w->scratch, out, err));
    fby_status status = FBY_OK;
    if (!fby__join_same_type(c->field, &s->fields[task->panel])) {
        struct ArrowSchema from;
        FBY__TRY(fby__arrow_schema_export(c->field, NULL, &from, err));
        status = fby__cast(&from, to, out, err);
        from.release(&from);
    }
    if (status == FBY_OK && !read->table->ops->retype) /* CSV text was looked at when the file was opened */
        status = check_text(block, to, out, err);
    if (status != FBY_OK) {
        char text[FBY__BLOCK_TEXT_BYTES];
        fby__dataset_block_text(s->ds, read->block, text);
        fby__error_context(err, "%s, column '%s'", text, c->field->path);
    }
    return status;
}

static const char *name(const fby__read_task *task) { return stream_of(task->read)->fields[task->panel].path; }

static const fby__read_shape FIELDS = {choose, most_tasks, cut, decode, name};

/* ---- how much memory would do ---- */

/*
 * A block for which there is no room says what was missing up to the column where that was found. What all of them need, and the next blocks,
 * is told from metadata, so that whoever raises the memory does so once.
 */
typedef struct need {
    double stored, decoded, beside, scratch; /* bytes: scratch of one thread */
    bool is_shared;                          /* chunks are kept for other blocks */
} need;

/* Bytes of a value in an array; 0 for text, which may have any number. */
static uint32_t value_bytes(const fby_field *f)
{
    switch (f->kind) {
    case FBY_KIND_STRING:
    case FBY_KIND_BINARY: return 0;
    case FBY_KIND_DECIMAL: return f->precision > 38 ? 32 : 16;
    case FBY_KIND_FIXED_BINARY:
    case FBY_KIND_INTERVAL: return (uint32_t)f->byte_width;
    default: return (uint32_t)fby_dtype_bytes(f->dtype);
    }
}

static void add_leaf(const fby__table *table, const fby__block *block, uint32_t leaf, need *out)
{
    fby__leaf_bounds at;
    const fby__schema *schema = table->schema;
    const uint32_t field = schema->leaves[leaf].field, width = value_bytes(&schema->fields[field]);
    table->ops->leaf_bounds(table, block->group, block->row_begin, block->row_end, leaf, &at);
    const double n = (double)at.n_values, rows = (double)(block->row_end - block->row_begin);
    out->stored += (double)at.compressed_bytes;
    out->beside += LEAF_BYTES;
    out->decoded += n / 8 + (width ? n * width : (double)at.uncompressed_bytes + 8 * n);
    if (schema->leaves[leaf].max_rep)
        out->decoded += 2 * n; /* levels */
    for (uint32_t up = schema->nodes[field].parent; up != 0; up = schema->nodes[up].parent)
        if (schema->fields[up].kind == FBY_KIND_LIST || schema->fields[up].kind == FBY_KIND_MAP)
            out->decoded += 8 * (schema->nodes[up].parent ? n : rows); /* offsets */
    out->scratch = fmax(out->scratch, (double)at.scratch_bytes);
    out->is_shared |= at.shared_bytes > 0;
}

/* *row_bytes: decoded. */
static double block_bytes(const stream *s, uint32_t b, double *row_bytes)
{
    const fby__block *block = fby__dataset_block(s->ds, b);
    fby__table *table;
    const char *constant;
    need sum = {0};
    uint32_t hint = 0;
    *row_bytes = 0;
    if (fby__dataset_table(s->ds, block->file, &table, NULL) != FBY_OK)
        return 0; /* reading it says so */
    for (uint32_t i = 0; i < s->n_columns; i++) {
        const fby_field *field = fby__dataset_file_field(s->ds, block->file, table->schema, s->numbers[i], &hint, &constant);
        const fby__schema_node *node = field ? &table->schema->nodes[field - table->schema->fields] : NULL;
        for (uint32_t k = 0; node && k < node->n_leaves; k++)
            add_leaf(table, block, node->first_leaf + k, &sum);
    }
    fby__table_unref(table);
    *row_bytes = sum.decoded / (double)(block->row_end - block->row_begin);
    const double threads = fmin(fmin(s->n_threads, s->n_columns), 1 + sum.stored / BYTES_PER_THREAD);
    const double all = sum.stored + sum.decoded + sum.beside + threads * (sum.scratch + FBY__READ_STEP_BYTES);
    return sum.is_shared ? all + fmin(all / 3, STORE_BYTES) : all;
}

/* Estimates from the blocks that are largest in the file and in rows, and from the one at hand. */
static estimate make_estimate(const stream *s)
{
    const fby__block *all = fby__dataset_block(s->ds, 0), *stored = all, *rows = all;
    estimate e = {.known = true, .block = s->read.block};
    for (uint32_t b = 0; b < fby__dataset_block_count(s->ds); b++) {
        stored = all[b].stored_bytes > stored->stored_bytes ? &all[b] : stored;
        rows = all[b].row_end - all[b].row_begin > rows->row_end - rows->row_begin ? &all[b] : rows;
    }
    e.most = e.own = block_bytes(s, e.block, &e.row_bytes);
    for (int i = 0; i < 2; i++) {
        double row = 0;
        e.most = fmax(e.most, block_bytes(s, (uint32_t)((i ? rows : stored) - all), &row));
        e.row_bytes = fmax(e.row_bytes, row);
    }
    return e;
}

/* Once a block, for each of its columns may lack room. Where one needs more than metadata say, so may the others. */
static uint64_t enough_of(stream *s, uint64_t least_bytes)
{
    pthread_mutex_lock(&s->lock);
    estimate e = s->estimate;
    pthread_mutex_unlock(&s->lock);
    if (!e.known || e.block != s->read.block) {
        e = make_estimate(s);
        pthread_mutex_lock(&s->lock);
        s->estimate = e;
        pthread_mutex_unlock(&s->lock);
    }
    const double most = e.most * (e.own > 0 ? fmax(1, (double)least_bytes / e.own) : 1);
    const uint64_t bytes = fby__account_enough(fby__max_u64(least_bytes, most < 0x1p62 ? (uint64_t)most : 0));
    return fby__memory_enough(s->giver, bytes, e.row_bytes);
}

static uint64_t enough(const fby__reader *reader, uint64_t least_bytes)
{
    return enough_of(FBY__TASK_OWNER(reader, stream, reader), least_bytes);
}

uint64_t fby__arrow_reader_enough(stream *s) { return enough_of(s, 0); }

void fby__arrow_reader_set_giver(stream *s, fby__memory_giver giver) { s->giver = giver; }

/* ---- the sink: one struct array a block ---- */

static fby_status reserve(fby__read *read, fby_error *err)
{
    return fby__arrow_array_create(1, stream_of(read)->n_columns, &stream_of(read)->array, err);
}

static void done(fby__read *read, const fby_error *error)
{
    stream *s = stream_of(read);
    s->status = error ? error->code : FBY_OK;
    if (error)
        s->error = *error;
}

static const fby__sink SINK = {.reserve = reserve, .done = done};

fby_status fby__arrow_reader_block(stream *s, uint32_t b, struct ArrowArray *out, fby_error *err)
{
    const fby__block *block = fby__dataset_block(s->ds, b);
    FBY__TRY(fby__dataset_check_process(s->ds, err));
    s->read.block = b;
    s->read.lo = 0;
    s->read.hi = block->row_end - block->row_begin;
    s->array = (struct ArrowArray){0};
    fby__read_begin(&s->read, s->n_threads - 1);
    fby__pool_destroy(s->reader.pool); /* which waits for the columns */
    s->reader.pool = NULL;
    s->reader.n_helpers = 0;
    if (s->status != FBY_OK) {
        if (s->array.release)
            s->array.release(&s->array);
        if (err)
            *err = s->error;
        return s->status;
    }
    s->array.length = (int64_t)s->read.hi;
    *out = s->array;
    return FBY_OK;
}

bool fby__arrow_reader_lacks_room(const stream *s) { return s->status != FBY_OK && s->read.lacks_room; }

const struct ArrowSchema *fby__arrow_reader_schema(const stream *s) { return &s->schema; }

/* ---- the stream's callbacks ---- */

static int errno_of(const fby_error *error)
{
    switch (error->code) {
    case FBY_E_NOMEM: return ENOMEM;
    case FBY_E_UNSUPPORTED: return ENOSYS;
    case FBY_E_CANCELLED: return ECANCELED;
    case FBY_E_IO: return error->sys_errno > 0 ? error->sys_errno : EIO;
    case FBY_E_FORMAT:
    case FBY_E_CHANGED: return EIO;
    default: return EINVAL;
    }
}

static int stream_get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    stream *s = self->private_data;
    fby__error_clear(&s->error);
    return fby__arrow_schema_export(&s->root, "", out, &s->error) == FBY_OK ? 0 : errno_of(&s->error);
}

static int stream_get_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    stream *s = self->private_data;
    fby__error_clear(&s->error);
    *out = (struct ArrowArray){0};
    if (fby__dataset_check_process(s->ds, &s->error) != FBY_OK)
        return errno_of(&s->error);
    if (s->next_block == fby__dataset_block_count(s->ds))
        return 0; /* a released array ends the stream */
    if (fby__arrow_reader_block(s, s->next_block, out, &s->error) != FBY_OK)
        return errno_of(&s->error);
    s->next_block++;
    return 0;
}

static const char *stream_get_last_error(struct ArrowArrayStream *self)
{
    stream *s = self->private_data;
    return s->error.code != FBY_OK ? s->error.message : NULL;
}

static void stream_release(struct ArrowArrayStream *self)
{
    fby__arrow_reader_close(self->private_data);
    *self = (struct ArrowArrayStream){0};
}

/* ---- opening ---- */

static fby_status choose_columns(stream *s, const char *const *names, size_t n, fby_error *err)
{
    const fby_field *root = fby_dataset_schema(s->ds);
    const bool all = !names;
    if (all)
        n = root->n_children;
    if (n >= UINT32_MAX)
        return fby__fail(err, FBY_E_ARG, "%zu columns are too many", n);
    s->fields = fby__calloc(n, sizeof *s->fields);
    s->numbers = fby__calloc(n, sizeof *s->numbers);
    s->columns = fby__calloc(n, sizeof *s->columns);
    if (!s->fields || !s->numbers || !s->columns)
        return fby__fail_nomem(err, "an Arrow stream");
    for (size_t i = 0; i < n; i++) {
        if (all)
            s->numbers[i] = (uint32_t)(&root->children[i] - root);
        else
            FBY__TRY(fby__dataset_find_field(s->ds, names[i], &s->numbers[i], err));
        FBY__TRY(fby__dataset_check_field(s->ds, s->numbers[i], true, err));
        s->fields[i] = root[s->numbers[i]];
    }
    s->n_columns = (uint32_t)n;
    s->root = (fby_field){.name = "", .path = "", .kind = FBY_KIND_STRUCT, .n_children = s->n_columns, .children = s->fields};
    return FBY_OK;
}

static fby_status open_reader(stream *s, uint64_t memory_bytes, fby_error *err)
{
    const int n = fby__dataset_threads(s->ds);
    s->n_threads = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
    FBY__TRY(memory_bytes ? fby__account_open_asked(memory_bytes, &s->account, err) : fby__dataset_account(s->ds, &s->account, err));
    fby__account_stats has;
    fby__account_stats_of(s->account, &has);
    s->reader = (fby__reader){.ds = s->ds, .n_workers = s->n_threads, .account = s->account, .enough = enough, .shape = &FIELDS};
    FBY__TRY(fby__chunk_store_create((size_t)fby__min_u64(STORE_BYTES, has.limit_bytes / 4), s->account, &s->reader.store, err));
    FBY__TRY(fby__reader_open(&s->reader, err));
    FBY__TRY(fby__read_init(&s->read, &s->reader, err));
    s->read.sink = &SINK;
    return FBY_OK;
}

fby_status fby__arrow_reader_open(fby_dataset *ds, const char *const *columns, size_t n, uint64_t memory_bytes, fby__arrow_reader **out,
                                  fby_error *err)
{
    FBY__TRY(fby__dataset_check_process(ds, err));
    stream *s = fby__calloc(1, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "an Arrow stream");
    pthread_mutex_init(&s->lock, NULL);
    s->ds = fby_dataset_ref(ds);
    fby_status status = choose_columns(s, columns, n, err);
    if (status == FBY_OK)
        status = fby__arrow_schema_export(&s->root, "", &s->schema, err);
    if (status == FBY_OK)
        status = open_reader(s, memory_bytes, err);
    if (status == FBY_OK)
        *out = s;
    else
        fby__arrow_reader_close(s);
    return status;
}

fby_status fby_dataset_export_arrow(fby_dataset *ds, const char *const *columns, size_t n_columns, struct ArrowArrayStream *out,
                                    fby_error *err)
{
    fby__error_clear(err);
    if (!ds || !out || (!columns && n_columns))
        return fby__fail(err, FBY_E_ARG, "no %s", !ds ? "data set" : !out ? "pointer for the stream" : "columns");
    stream *s;
    FBY__TRY(fby__arrow_reader_open(ds, columns, n_columns, 0, &s, err));
    *out = (struct ArrowArrayStream){.get_schema = stream_get_schema,
                                     .get_next = stream_get_next,
                                     .get_last_error = stream_get_last_error,
                                     .release = stream_release,
                                     .private_data = s};
    return FBY_OK;
}
