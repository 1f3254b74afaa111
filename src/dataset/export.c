/*
 * The dataset as an Arrow stream: a struct array per block, in order; what pyarrow.table(ds), polars and DuckDB read.
 *
 * A block is read in few large reads, then its columns are decoded by several threads that live for that block only: nothing
 * waits between two calls, so a stream may be dropped at any time from any thread, and a forked child finds no missing threads.
 */
#include "block/arrow.h"
#include "dataset/dataset_impl.h"
#include "pool/pool.h"

#include "base/process.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>

#define MAX_THREADS 32
#define STORE_BYTES ((size_t)256 << 20)        /* of decoded chunks that reach over several blocks */
#define BYTES_PER_THREAD ((uint64_t)256 << 10) /* stored: below it a thread's start costs more than it saves */

typedef struct stream {
    fby_dataset *ds; /* a reference */
    pid_t pid;
    uint32_t n_columns;
    fby_field root;            /* children: `fields` */
    fby_field *fields;         /* owned: the chosen columns, side by side */
    uint32_t *numbers;         /* owned: their index in the joined schema */
    struct ArrowSchema schema; /* of the whole: what blocks are cast to */
    uint32_t next_block;
    int n_threads;
    fby__scratch *scratch;   /* owned, n_threads */
    fby__range_list ranges;  /* of the block at hand */
    fby__chunk_store *store; /* owned: chunks that the next blocks need too */
    fby_error error;
} stream;

/* One column of the block at hand. */
typedef struct column {
    const fby_field *field; /* of the file; NULL = it has none, or only nulls */
    size_t first_source;
} column;

typedef struct job {
    stream *s;
    fby__file *file;
    const fby__block *block;
    const fby__table *table;
    const column *columns;
    const fby__leaf_source *sources;
    struct ArrowArray *out; /* the struct array */
    _Atomic uint32_t next;  /* relaxed: columns are taken one by one, results are published by joining */
    _Atomic int next_worker;
    pthread_mutex_t lock; /* guards the rest */
    uint32_t failed;      /* the first column that failed */
    fby_status status;
    fby_error error;
} job;

static void stream_free(stream *s)
{
    if (!s)
        return;
    for (int i = 0; s->scratch && i < s->n_threads; i++)
        fby__scratch_fini(&s->scratch[i]);
    if (s->schema.release)
        s->schema.release(&s->schema);
    fby__range_list_fini(&s->ranges);
    fby__chunk_store_destroy(s->store);
    fby__free(s->scratch);
    fby__free(s->fields);
    fby__free(s->numbers);
    fby_dataset_close(s->ds);
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

static fby_status check_text(const job *j, const struct ArrowSchema *type, const struct ArrowArray *array, fby_error *err)
{
    int64_t bad = find_bad_text(type, array);
    char where[60] = "a value";
    if (bad < 0)
        return FBY_OK;
    if (array->n_children == 0)
        (void)snprintf(where, sizeof where, "row %llu", (unsigned long long)j->block->first_row + (unsigned long long)bad);
    return fby__fail(err, FBY_E_DATA, "%s is not UTF-8, which text in Arrow has to be: open with dtypes={\"%s\": \"bytes\"}", where,
                     type->name);
}

static fby_status decode_column(job *j, uint32_t i, fby__scratch *scratch, fby_error *err)
{
    stream *s = j->s;
    const fby_dataset *ds = s->ds;
    const fby__block *block = j->block;
    const fby__dataset_file *file = &ds->files[block->file];
    const struct ArrowSchema *to = s->schema.children[i];
    struct ArrowArray *out = j->out->children[i];
    int64_t rows = (int64_t)(block->row_end - block->row_begin);
    uint32_t number = s->numbers[i];
    if (number >= 1 && number <= ds->n_constants && file->constants[number - 1])
        return fby__cast_constant(to, file->constants[number - 1], rows, out, err);
    const fby_field *field = j->columns[i].field;
    if (!field)
        return fby__cast_nulls(to, rows, out, err);
    uint32_t index = (uint32_t)(field - j->table->schema->fields);
    fby__arrow_request request = {.table = j->table,
                                  .file = j->file,
                                  .file_name = file->path,
                                  .group = block->group,
                                  .row_begin = block->row_begin,
                                  .row_end = block->row_end,
                                  .field = index,
                                  .verify_crc = ds->verify_crc,
                                  .sources = &j->sources[j->columns[i].first_source]};
    FBY__TRY(j->table->ops->decode_arrow(&request, scratch, out, err));
    fby_status status = FBY_OK;
    if (!fby__join_same_type(field, &s->fields[i])) {
        struct ArrowSchema from;
        FBY__TRY(fby__arrow_schema_export(field, NULL, &from, err));
        status = fby__cast(&from, to, out, err);
        from.release(&from);
    }
    if (status == FBY_OK && !j->table->ops->retype) /* CSV text was looked at when the file was opened */
        status = check_text(j, to, out, err);
    if (status != FBY_OK)
        fby__error_context(err, "'%s', row group %u, column '%s'", file->path, block->group, field->path);
    return status;
}

static void *decode_columns(void *arg)
{
    job *j = arg;
    int worker = atomic_fetch_add_explicit(&j->next_worker, 1, memory_order_relaxed);
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (i >= j->s->n_columns)
            return NULL;
        fby_error error;
        fby_status status = decode_column(j, i, &j->s->scratch[worker], &error);
        if (status == FBY_OK)
            continue;
        pthread_mutex_lock(&j->lock);
        if (i < j->failed) {
            j->failed = i;
            j->status = status;
            j->error = error;
        }
        pthread_mutex_unlock(&j->lock);
        atomic_store_explicit(&j->next, j->s->n_columns, memory_order_relaxed); /* the others may as well stop */
        return NULL;
    }
}

static fby_status decode_all(job *j, fby_error *err)
{
    stream *s = j->s;
    pthread_t threads[MAX_THREADS];
    int wanted = s->n_threads, started = 0;
    if ((uint32_t)wanted > s->n_columns)
        wanted = (int)s->n_columns;
    if ((uint64_t)wanted > 1 + j->block->stored_bytes / BYTES_PER_THREAD)
        wanted = (int)(1 + j->block->stored_bytes / BYTES_PER_THREAD);
    j->failed = FBY__NONE;
    pthread_mutex_init(&j->lock, NULL);
    while (started + 1 < wanted && fby__thread_start(&threads[started], "forebay-arrow", started, decode_columns, j, NULL) == FBY_OK)
        started++; /* fewer will do */
    (void)decode_columns(j);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&j->lock);
    if (j->failed == FBY__NONE)
        return FBY_OK;
    if (err)
        *err = j->error;
    return j->status;
}

/* Which of the block's columns are in the file, and the leaves to read for them. */
static fby_status choose_leaves(const stream *s, const fby__schema *schema, column *columns, fby__leaf_source **out, size_t *out_n,
                                fby_error *err)
{
    uint32_t hint = 0;
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_columns; i++) {
        columns[i] = (column){.first_source = n};
        if (schema == s->ds->schema) { /* in memory: by number, for names may come twice */
            columns[i].field = &schema->fields[s->numbers[i]];
        } else if (s->numbers[i] > s->ds->n_constants) {
            columns[i].field = fby__join_child(&schema->fields[0], s->fields[i].name, &hint);
            if (columns[i].field && columns[i].field->kind == FBY_KIND_NULL && s->fields[i].kind != FBY_KIND_NULL)
                columns[i].field = NULL; /* nothing in there to read */
        }
        if (columns[i].field)
            n += schema->nodes[columns[i].field - schema->fields].n_leaves;
    }
    fby__leaf_source *sources = fby__calloc(n, sizeof *sources);
    if (!sources)
        return fby__fail_nomem(err, "an Arrow block");
    for (uint32_t i = 0; i < s->n_columns; i++) {
        const fby__node *node = columns[i].field ? &schema->nodes[columns[i].field - schema->fields] : NULL;
        for (uint32_t k = 0; node && k < node->n_leaves; k++)
            sources[columns[i].first_source + k].leaf = node->first_leaf + k;
    }
    *out = sources;
    *out_n = n;
    return FBY_OK;
}

static fby_status read_block(stream *s, uint32_t b, struct ArrowArray *out, fby_error *err)
{
    const fby__block *block = &s->ds->blocks[b];
    fby__table *table = NULL;
    fby__file *file = NULL;
    fby__leaf_source *sources = NULL;
    fby__fetch fetch = {0};
    size_t n_sources = 0;
    struct ArrowArray array = {0};
    column *columns = fby__calloc(s->n_columns, sizeof *columns);
    fby_status status = columns ? FBY_OK : fby__fail_nomem(err, "an Arrow block");
    if (status == FBY_OK)
        status = fby__arrow_array_create(1, s->n_columns, &array, err);
    if (status == FBY_OK)
        status = fby__dataset_table(s->ds, block->file, &table, err);
    if (status == FBY_OK)
        status = fby__dataset_open_file(s->ds, block->file, &file, err);
    if (status == FBY_OK)
        status = choose_leaves(s, table->schema, columns, &sources, &n_sources, err);
    if (status == FBY_OK && n_sources)
        status = fby__locate(&(fby__locate_request){.table = table,
                                                    .file = file,
                                                    .file_key = block->file,
                                                    .group = block->group,
                                                    .row_begin = block->row_begin,
                                                    .row_end = block->row_end,
                                                    .sources = sources,
                                                    .n = n_sources,
                                                    .list = &s->ranges,
                                                    .store = s->store},
                             err);
    if (status == FBY_OK)
        status = fby__fetch_sources(file, sources, n_sources, &fetch, err);
    if (status == FBY_OK) {
        job j = {.s = s, .file = file, .block = block, .table = table, .columns = columns, .sources = sources, .out = &array};
        status = decode_all(&j, err);
    }
    fby__fetch_fini(&fetch);
    fby__range_list_clear(&s->ranges);
    fby__free(sources);
    fby__free(columns);
    fby__file_unref(file);
    fby__table_unref(table);
    if (status != FBY_OK) {
        if (array.release)
            array.release(&array);
        return status;
    }
    array.length = (int64_t)(block->row_end - block->row_begin);
    *out = array;
    return FBY_OK;
}

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

static fby_status check_process(const fby_dataset *ds, pid_t pid, fby_error *err)
{
    if (ds->pid == fby__process_id() && (pid == 0 || pid == fby__process_id()))
        return FBY_OK;
    return fby__fail(err, FBY_E_STATE, "this dataset was opened before fork(); open it again in the child process");
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
    if (check_process(s->ds, s->pid, &s->error) != FBY_OK)
        return errno_of(&s->error);
    if (s->next_block == s->ds->n_blocks)
        return 0; /* a released array ends the stream */
    if (read_block(s, s->next_block, out, &s->error) != FBY_OK)
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
    stream_free(self->private_data);
    *self = (struct ArrowArrayStream){0};
}

/* ---- opening ---- */

static fby_status find_column(const fby_dataset *ds, const char *name, uint32_t *out, fby_error *err)
{
    const fby_field *root = &ds->schema->fields[0];
    if (!name)
        return fby__fail(err, FBY_E_ARG, "a column's name is NULL");
    for (uint32_t i = 0; i < root->n_children; i++)
        if (strcmp(root->children[i].name, name) == 0) {
            *out = (uint32_t)(&root->children[i] - ds->schema->fields);
            return FBY_OK;
        }
    uint32_t field = fby__schema_find(ds->schema, name);
    if (field != UINT32_MAX && field != 0) {
        while (ds->schema->nodes[field].parent != 0)
            field = ds->schema->nodes[field].parent;
        return fby__fail(err, FBY_E_SCHEMA, "'%s' is inside the column '%s'; an Arrow export takes whole columns", name,
                         ds->schema->fields[field].name);
    }
    fby__near near = {.wanted = name};
    for (uint32_t i = 0; i < root->n_children; i++)
        fby__near_offer(&near, root->children[i].name);
    return fby__dataset_no_column(ds, &near, root->n_children, err);
}

static fby_status choose_columns(stream *s, const char *const *names, size_t n, fby_error *err)
{
    const fby_field *root = &s->ds->schema->fields[0];
    bool all = !names;
    if (all)
        n = root->n_children;
    if (n >= UINT32_MAX)
        return fby__fail(err, FBY_E_ARG, "%zu columns are too many", n);
    s->fields = fby__calloc(n, sizeof *s->fields);
    s->numbers = fby__calloc(n, sizeof *s->numbers);
    if (!s->fields || !s->numbers)
        return fby__fail_nomem(err, "an Arrow stream");
    for (size_t i = 0; i < n; i++) {
        if (all)
            s->numbers[i] = (uint32_t)(&root->children[i] - s->ds->schema->fields);
        else
            FBY__TRY(find_column(s->ds, names[i], &s->numbers[i], err));
        FBY__TRY(fby__dataset_check_field(s->ds, s->numbers[i], true, err));
        s->fields[i] = s->ds->schema->fields[s->numbers[i]];
    }
    s->n_columns = (uint32_t)n;
    s->root = (fby_field){.name = "", .path = "", .kind = FBY_KIND_STRUCT, .n_children = s->n_columns, .children = s->fields};
    return FBY_OK;
}

fby_status fby_dataset_export_arrow(fby_dataset *ds, const char *const *columns, size_t n_columns, struct ArrowArrayStream *out,
                                    fby_error *err)
{
    fby__error_clear(err);
    if (!ds || !out || (!columns && n_columns))
        return fby__fail(err, FBY_E_ARG, "no %s", !ds ? "dataset" : !out ? "place for the stream" : "columns");
    FBY__TRY(check_process(ds, 0, err));
    stream *s = fby__calloc(1, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "an Arrow stream");
    s->ds = fby_dataset_ref(ds);
    s->pid = fby__process_id();
    fby_status status = choose_columns(s, columns, n_columns, err);
    if (status == FBY_OK)
        status = fby__arrow_schema_export(&s->root, "", &s->schema, err);
    if (status == FBY_OK)
        status = fby__chunk_store_create(STORE_BYTES, &s->store, err);
    if (status == FBY_OK) {
        int n = ds->n_threads < 1 ? 1 : ds->n_threads > MAX_THREADS ? MAX_THREADS : ds->n_threads;
        s->scratch = fby__calloc((size_t)n, sizeof *s->scratch);
        s->n_threads = s->scratch ? n : 0;
        status = s->scratch ? FBY_OK : fby__fail_nomem(err, "an Arrow stream");
    }
    if (status != FBY_OK) {
        stream_free(s);
        return status;
    }
    *out = (struct ArrowArrayStream){.get_schema = stream_get_schema,
                                     .get_next = stream_get_next,
                                     .get_last_error = stream_get_last_error,
                                     .release = stream_release,
                                     .private_data = s};
    return FBY_OK;
}
