/*
 * What a pack looks like: a function of the source and the options, but for the number of tasks, which no byte shows. That follows from the memory
 * of a task; in a process that runs all tasks from its threads as well.
 */
#include "base/checked.h"
#include "base/cpu.h"
#include "base/sort.h"
#include "block/arrow.h"
#include "dataset/dataset.h"
#include "options/options.h"
#include "pack/pack_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCH_BYTES ((double)(4 << 20))
#define FILE_BYTES ((double)(256 << 20))
#define MAX_BATCH_ROWS UINT64_C(65536)
#define FILE_CHUNKS UINT64_C(32768)           /* of a Parquet file: all that its footer says of them is kept until it is written */
#define CHUNK_BYTES UINT64_C(256)             /* which is about so much of each; the footer's text and how buffers grow included */
#define METADATA_BYTES ((uint64_t)16 << 20)   /* that files in the making may have beside a quarter of the memory */
#define LEAST_ROOM_BYTES ((uint64_t)16 << 20) /* of a bucket: rather than have less, fewer threads run */
#define LEAST_MEMORY_BYTES ((uint64_t)16 << 20)
#define TASK_MEMORY_BYTES ((uint64_t)4 << 30) /* of a task, if nothing is said: the same on every machine */
#define MAX_FILES UINT64_C(10000000)

static const struct {
    fby__write_format format;
    fby_pack_codec codec; /* what auto is */
} FORMATS[] = {[FBY_PACK_ARROW] = {FBY__WRITE_ARROW, FBY_PACK_CODEC_NONE},
               [FBY_PACK_PARQUET] = {FBY__WRITE_PARQUET, FBY_PACK_CODEC_ZSTD},
               [FBY_PACK_HDF5] = {FBY__WRITE_HDF5, FBY_PACK_CODEC_NONE}};

/* ---- sizes ---- */

static fby_status array_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array, uint64_t *out, fby_error *err)
{
    fby__arrow_flat flat = {0};
    fby_status status = fby__arrow_flat_of(schema, array, 0, array->length, true, &flat, err);
    *out = fby__arrow_flat_bytes(&flat);
    fby__arrow_flat_fini(&flat);
    return status;
}

/* Bytes a row of the first block that has any: the same for every run over this source. */
static fby_status measure(fby__pack *p, fby__pack_reader *reader, fby_error *err)
{
    for (uint32_t b = 0; b < fby__pack_block_count(p); b++) {
        const uint64_t rows = fby__pack_block_begin(p, b + 1) - fby__pack_block_begin(p, b);
        if (rows == 0)
            continue;
        struct ArrowArray array;
        uint64_t bytes;
        FBY__TRY(fby__pack_reader_block(reader, b, &array, err));
        fby_status status = array_bytes(&p->schema, &array, &bytes, err);
        array.release(&array);
        p->row_bytes = (double)bytes / (double)rows;
        if (p->pipeline)
            fby__pack_pipeline_measured(p->pipeline, p->row_bytes);
        return status;
    }
    return FBY_OK;
}

static uint64_t power_of_two_below(double n)
{
    uint64_t p = 1;
    while ((double)p * 2 <= n)
        p *= 2;
    return p;
}

static void count_chunks(fby__pack *p)
{
    uint64_t n = 0;
    for (int64_t i = 0; p->format == FBY__WRITE_PARQUET && i < p->schema.n_children; i++)
        n += (uint64_t)fby__write_field_count(p->schema.children[i]);
    atomic_store_explicit(&p->group_chunks, n, memory_order_relaxed);
}

static uint64_t group_chunks(const fby__pack *p) { return atomic_load_explicit(&p->group_chunks, memory_order_relaxed); }

static uint64_t default_rows_per_file(const fby__pack *p, double row_bytes, uint64_t batch_rows)
{
    const uint64_t batches = 1 + (uint64_t)(FILE_BYTES / (row_bytes * (double)batch_rows)), chunks = group_chunks(p);
    return batch_rows * (chunks ? fby__max_u64(1, fby__min_u64(batches, FILE_CHUNKS / chunks)) : batches);
}

/* For rows of so many bytes. */
static void choose_sizes(const fby__pack *p, double row_bytes, uint64_t *batch_rows, uint64_t *rows_per_file)
{
    const fby_pack_opts *o = p->o;
    const double row = row_bytes > 0.125 ? row_bytes : 0.125;
    *batch_rows = o->batch_rows;
    if (!*batch_rows) {
        *batch_rows = fby__min_u64(power_of_two_below(BATCH_BYTES / row), MAX_BATCH_ROWS);
        if (o->rows_per_file) /* batches of one size */
            *batch_rows = fby__div_up_u64(o->rows_per_file, fby__div_up_u64(o->rows_per_file, *batch_rows));
    }
    *rows_per_file = o->rows_per_file ? o->rows_per_file : default_rows_per_file(p, row, *batch_rows);
}

/* Row groups of a file. */
static uint64_t file_groups(const fby__pack *p, uint64_t batch_rows, uint64_t rows_per_file)
{
    return fby__div_up_u64(fby__min_u64(p->rows, rows_per_file), batch_rows);
}

uint64_t fby__pack_files_at_once(const fby__pack *p)
{
    const uint64_t chunks = group_chunks(p) * file_groups(p, p->batch_rows, p->rows_per_file);
    return chunks ? fby__max_u64(1, FILE_CHUNKS / chunks) : UINT64_MAX;
}

/* ---- memory that would do ---- */

/* A batch of a bucket, whose rows lie there with their positions. */
static double batch_bytes(const fby__pack *p, double row_bytes, uint64_t batch_rows, uint64_t rows_per_file)
{
    const bool scattered = p->o->shuffle == FBY_PACK_SHUFFLE_FULL || p->o->by;
    const uint64_t rows = fby__min_u64(p->rows, fby__min_u64(batch_rows, rows_per_file));
    return scattered ? (double)rows * (row_bytes + FBY__PACK_BUCKET_ROW_BYTES) : 0;
}

uint64_t fby__pack_enough(const fby__pack *p, double row_bytes)
{
    uint64_t batch_rows, rows_per_file;
    choose_sizes(p, row_bytes, &batch_rows, &rows_per_file);
    const double metadata = (double)group_chunks(p) * (double)file_groups(p, batch_rows, rows_per_file) * CHUNK_BYTES;
    const double batch = batch_bytes(p, row_bytes, batch_rows, rows_per_file), task = fby__pack_task_bytes_for(p->rows, row_bytes);
    const double most = fmax(fmax(4 * (metadata - METADATA_BYTES), 1.05 * batch), fmax(task, LEAST_MEMORY_BYTES));
    return most < 0x1p62 ? (uint64_t)most : UINT64_C(1) << 62;
}

static fby_status refuse(const fby__pack *p, const fby__pack_reader *reader, const char *what, fby_error *err)
{
    const uint64_t bytes = fby__pack_reader_enough(reader);
    return fby__fail(err, FBY_E_BUDGET, "%s raise memory from %llu to %llu bytes (%.1f MiB)", what, (unsigned long long)p->memory_bytes,
                     (unsigned long long)bytes, (double)bytes / (1 << 20));
}

static fby_status check_batch(const fby__pack *p, const fby__pack_reader *reader, fby_error *err)
{
    char what[160];
    const double bytes = batch_bytes(p, p->row_bytes, p->batch_rows, p->rows_per_file);
    if (p->batch_rows > INT32_MAX)
        return fby__fail(err, FBY_E_ARG, "batch of %llu rows: at most 2^31 - 1 fit", (unsigned long long)p->batch_rows);
    if (bytes <= (double)p->memory_bytes)
        return FBY_OK;
    (void)snprintf(what, sizeof what, "a batch of %llu rows takes about %.0f MiB; lower batch, or",
                   (unsigned long long)fby__min_u64(p->batch_rows, p->rows), bytes / (1 << 20));
    return refuse(p, reader, what, err);
}

/* Each worker writes a file, whose metadata grow with it. */
static fby_status leave_room_for_metadata(fby__pack *p, const fby__pack_reader *reader, fby_error *err)
{
    char what[300];
    const uint64_t groups = file_groups(p, p->batch_rows, p->rows_per_file), chunks = group_chunks(p);
    const uint64_t room = p->memory_bytes / 4 + METADATA_BYTES, most = room / CHUNK_BYTES;
    if (chunks == 0 || groups <= most / chunks / p->n_workers)
        return FBY_OK;
    p->n_workers = (uint32_t)fby__max_u64(1, most / chunks / groups);
    if (groups <= most / chunks)
        return FBY_OK;
    (void)snprintf(
        what, sizeof what,
        "a file of %llu row groups, of %llu columns each: what Parquet's footer says of them takes about %llu MiB until the file "
        "is written, and may take %llu; raise batch, lower rows_per_file, or",
        (unsigned long long)groups, (unsigned long long)chunks, (unsigned long long)(groups * chunks * CHUNK_BYTES >> 20),
        (unsigned long long)(room >> 20));
    return refuse(p, reader, what, err);
}

static double bucket_count(const fby__pack *p) { return fby__pack_buckets_for(p->rows, p->row_bytes, p->memory_bytes / p->n_workers); }

/* There are fewer, and larger ones, where fewer threads share the memory. */
static fby_status leave_room_for_buckets(fby__pack *p, const fby__pack_reader *reader, fby_error *err)
{
    char what[160];
    while (p->n_workers > 1 && bucket_count(p) > FBY__PACK_BUCKETS)
        p->n_workers--;
    if (bucket_count(p) <= FBY__PACK_BUCKETS)
        return FBY_OK;
    (void)snprintf(what, sizeof what, "%.3g rows of about %.3g bytes need more than %u buckets:", (double)p->rows, p->row_bytes,
                   FBY__PACK_BUCKETS);
    return refuse(p, reader, what, err);
}

/* If there is a key, its values are known by now. */
static fby_status count_files(fby__pack *p, fby_error *err)
{
    p->n_files = p->rows ? fby__div_up_u64(p->rows, p->rows_per_file) : 1; /* without rows, a file that has the columns */
    if (p->keys && p->keys->n) {
        const fby__pack_key *last = &p->keys->keys[p->keys->n - 1];
        p->n_files = last->first_file + fby__div_up_u64(last->rows, p->rows_per_file);
    }
    if (p->n_files > MAX_FILES)
        return fby__fail(err, FBY_E_ARG, "%llu files: at most %llu; raise rows_per_file", (unsigned long long)p->n_files,
                         (unsigned long long)MAX_FILES);
    return FBY_OK;
}

/* ---- files ---- */

uint64_t fby__pack_file_begin(const fby__pack *p, uint64_t file)
{
    if (file >= p->n_files)
        return p->rows;
    if (!p->keys || p->keys->n == 0)
        return file * p->rows_per_file;
    const fby__pack_key *key = fby__pack_key_of_file(p->keys, file);
    return key->first_row + (file - key->first_file) * p->rows_per_file;
}

/* Files that begin before a destination. */
static uint64_t files_before(const fby__pack *p, uint64_t destination)
{
    if (destination == p->rows)
        return p->n_files;
    if (!p->keys)
        return fby__div_up_u64(destination, p->rows_per_file);
    const fby__pack_key *key = fby__pack_key_of_row(p->keys, destination);
    return key->first_file + fby__div_up_u64(destination - key->first_row, p->rows_per_file);
}

/* ---- memory ---- */

static fby_status choose_memory(fby__pack *p, fby_error *err)
{
    p->memory_bytes = p->o->memory_bytes ? p->o->memory_bytes : p->by_tasks ? TASK_MEMORY_BYTES : fby_memory_budget(0);
    if (p->memory_bytes < LEAST_MEMORY_BYTES)
        return fby__fail(err, FBY_E_BUDGET, "packing needs at least 16 MiB of memory; the budget is %llu bytes",
                         (unsigned long long)p->memory_bytes);
    const uint32_t threads = p->o->n_threads > 0 ? (uint32_t)p->o->n_threads : (uint32_t)fby__cpu_count();
    const uint64_t most = fby__max_u64(1, p->memory_bytes / 2 / LEAST_ROOM_BYTES);
    p->n_workers = p->by_tasks ? 1 : (uint32_t)fby__min_u64(fby__min_u64(threads, FBY__PACK_WORKERS), most);
    return FBY_OK;
}

/* ---- tasks ---- */

/* Only buckets in which a file begins have a write task: with a key of few values those are not all. */
static void list_writes(fby__pack *p)
{
    uint64_t first = 0;
    p->writes.n = 0;
    for (uint32_t k = 0; k < p->n_buckets; k++) {
        const uint64_t last = files_before(p, p->bucket_begin[k + 1]);
        if (last > first)
            p->writes.first[p->writes.n++] = first;
        first = last;
    }
    p->writes.first[p->writes.n] = first;
}

/*
 * Values have as many rows as they have: a bucket begins with the file that holds its share of the rows, and, so that none has more than two
 * shares and is read again and again, with the batch, where the file is larger than a share.
 */
static uint64_t bucket_begin_by_key(const fby__pack *p, uint32_t k)
{
    const uint64_t row = (uint64_t)((unsigned __int128)p->rows * k / p->n_buckets);
    if (row == p->rows)
        return row;
    const uint64_t before = files_before(p, row), end = fby__pack_file_begin(p, before);
    if (end == row)
        return row;
    const uint64_t begin = fby__pack_file_begin(p, before - 1);
    const bool whole = p->writes.are_buckets && end - begin <= p->rows / p->n_buckets;
    return whole ? begin : begin + (row - begin) / p->batch_rows * p->batch_rows;
}

uint32_t fby__pack_bucket_at(const fby__pack *p, uint64_t destination)
{
    uint32_t lo = 0, hi = p->n_buckets;
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (p->bucket_begin[middle] <= destination)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

/* Blocks are not divided: between two cuts there may be none, or none that has rows. */
fby_status fby__pack_cut_source(fby__pack *p, uint32_t n_cuts, fby_error *err)
{
    fby__free(p->cuts.of_scatter);
    p->cuts.of_scatter = fby__calloc((size_t)n_cuts + 1, sizeof *p->cuts.of_scatter);
    if (!p->cuts.of_scatter)
        return fby__fail_nomem(err, "a pack");
    p->cuts.n = n_cuts;
    p->n_scatters = 0;
    for (uint32_t k = 0; k < p->cuts.n; k++)
        if (fby__pack_block_begin(p, fby__pack_cut_begin(p, k + 1)) > fby__pack_block_begin(p, fby__pack_cut_begin(p, k)))
            p->cuts.of_scatter[p->n_scatters++] = k;
    p->n_scatters += p->n_scatters == 0;
    p->cuts.of_scatter[p->n_scatters] = p->cuts.n;
    return FBY_OK;
}

fby_status fby__pack_cut(fby__pack *p, uint32_t n_buckets, fby_error *err)
{
    const bool shuffled = p->o->shuffle == FBY_PACK_SHUFFLE_FULL;
    const bool fits = !p->keys || p->rows / n_buckets + p->rows_per_file <= UINT32_MAX; /* positions in a bucket have 32 bits */
    p->writes.are_buckets = p->rows && (p->keys || (uint64_t)n_buckets <= p->n_files) && fits;
    p->scattered = shuffled || p->keys;
    p->n_buckets = n_buckets;
    p->order = fby__pack_order_of(p->rows, p->writes.are_buckets ? p->rows_per_file : p->batch_rows, shuffled, p->o->seed);
    fby__free(p->bucket_begin);
    fby__free(p->writes.first);
    p->bucket_begin = fby__calloc((size_t)n_buckets + 1, sizeof *p->bucket_begin);
    p->writes.first = fby__calloc((size_t)n_buckets + 1, sizeof *p->writes.first);
    if (!p->bucket_begin || !p->writes.first)
        return fby__fail_nomem(err, "a pack");
    for (uint32_t k = 0; k <= n_buckets; k++)
        p->bucket_begin[k] = p->keys ? bucket_begin_by_key(p, k) : fby__pack_bucket_begin(&p->order, k, n_buckets);
    if (p->writes.are_buckets)
        list_writes(p);
    return FBY_OK;
}

static fby_status choose_tasks(fby__pack *p, fby_error *err)
{
    const uint64_t task_bytes = p->memory_bytes / p->n_workers;
    const double buckets = bucket_count(p), least = p->n_workers;
    const double scatters = fby__pack_scatters_for(p->rows, p->row_bytes, task_bytes), most = fby__pack_block_count(p);
    p->cuts.n = (uint32_t)fmax(1, fmin(fmax(scatters, least), most));
    if (p->o->by) {
        p->cuts.n = (uint32_t)power_of_two_below(p->cuts.n);
        FBY__TRY(fby__pack_keys_find(p, err));
    }
    FBY__TRY(count_files(p, err));
    FBY__TRY(fby__pack_cut_source(p, p->cuts.n, err));
    return fby__pack_cut(p, (uint32_t)fmax(buckets, least), err);
}

uint32_t fby__pack_scatter_begin(const fby__pack *p, uint32_t k) { return fby__pack_cut_begin(p, p->cuts.of_scatter[k]); }

uint64_t fby__pack_scatter_count(const fby__pack *p) { return p->scattered && p->rows ? p->n_scatters : 0; }

uint64_t fby__pack_write_count(const fby__pack *p) { return p->writes.are_buckets ? p->writes.n : p->n_files; }

uint32_t fby__pack_cut_begin(const fby__pack *p, uint32_t k)
{
    const uint64_t row = (uint64_t)((unsigned __int128)p->rows * k / p->cuts.n);
    if (k == 0 || row == p->rows)
        return k == 0 ? 0 : fby__pack_block_count(p);
    const uint32_t block = fby__pack_block_of(p, row);
    return fby__pack_block_begin(p, block) < row ? block + 1 : block;
}

uint64_t fby__pack_scatter_rows(const fby__pack *p, uint32_t k)
{
    const uint32_t first = fby__pack_scatter_begin(p, k), last = fby__pack_scatter_begin(p, k + 1);
    return fby__pack_block_begin(p, last) - fby__pack_block_begin(p, first);
}

void fby__pack_write_files(const fby__pack *p, uint64_t k, uint64_t *out_first, uint64_t *out_last)
{
    *out_first = p->writes.are_buckets ? p->writes.first[k] : k;
    *out_last = p->writes.are_buckets ? p->writes.first[k + 1] : k + 1;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static fby_status check_columns(const fby_pack_opts *o, fby_error *err)
{
    if (o->columns ? o->n_columns == 0 : o->n_columns > 0)
        return fby__fail(err, FBY_E_ARG, "no columns");
    if (!o->columns)
        return FBY_OK;
    const char **sorted = fby__calloc(o->n_columns, sizeof *sorted);
    if (!sorted)
        return fby__fail_nomem(err, "a pack");
    memcpy(sorted, o->columns, o->n_columns * sizeof *sorted);
    fby_status status = fby__sort(sorted, o->n_columns, sizeof *sorted, compare_names, err);
    for (size_t i = 1; status == FBY_OK && i < o->n_columns; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            status = fby__fail(err, FBY_E_ARG, "column '%s' is named twice: a reader of the pack would find one of them", sorted[i]);
    fby__free(sorted);
    return status;
}

static bool has_arrays(const struct ArrowSchema *field)
{
    bool found = strncmp(field->format, "+w:", 3) == 0;
    for (int64_t i = 0; !found && i < field->n_children; i++)
        found = has_arrays(field->children[i]);
    return found;
}

/* Parquet knows lists alone: a loader of the pack would have values of another shape. */
static fby_status check_shapes(const fby__pack *p, fby_error *err)
{
    for (int64_t i = 0; p->format == FBY__WRITE_PARQUET && i < p->schema.n_children; i++)
        if (has_arrays(p->schema.children[i]))
            return fby__fail(err, FBY_E_UNSUPPORTED, "%s '%s' holds arrays, whose shape Parquet does not keep: pack it as arrow",
                             p->pipeline ? "output" : "column", p->schema.children[i]->name);
    return FBY_OK;
}

/* Whoever opens the source again would have all rows twice. */
static fby_status refuse_inside(const fby__pack *p, fby_error *err)
{
    const char *root;
    char name[40];
    (void)snprintf(name, sizeof name, "part-00000.%s", p->extension);
    FBY__TRY(fby__dataset_would_find(p->ds, p->to, name, &root, err));
    if (root)
        return fby__fail(
            err, FBY_E_ARG,
            "'%s' lies inside of '%s', which is searched for the source's files: opened again, it would have the pack's rows among its "
            "own; choose a folder outside of it",
            p->to, root);
    return FBY_OK;
}

fby_status fby__pack_layout(fby__pack *p, fby_error *err)
{
    const fby_pack_opts *o = p->o;
    if ((unsigned)o->shuffle > FBY_PACK_SHUFFLE_NONE || (unsigned)o->format > FBY_PACK_HDF5 || (unsigned)o->codec > FBY_PACK_CODEC_GZIP ||
        (unsigned)o->units > FBY_PACK_UNITS_FIRST)
        return fby__fail(err, FBY_E_ARG, "shuffle, format, codec or units of a pack are none that there are");
    FBY__TRY(check_columns(o, err));
    if (o->columns && p->pipeline)
        return fby__fail(err, FBY_E_ARG, "columns and outputs both say what is packed: give one of them");
    p->format = FORMATS[o->format].format;
    p->extension = fby__pack_format_words[o->format];
    FBY__TRY(refuse_inside(p, err));
    p->codec = fby__pack_codec_words[o->codec != FBY_PACK_CODEC_AUTO ? o->codec : FORMATS[o->format].codec];
    p->rows = fby__pack_row_count(p);
    FBY__TRY(choose_memory(p, err));
    fby__pack_reader *reader;
    FBY__TRY(fby__pack_reader_open(p, p->memory_bytes / 4, &reader, err));
    fby_status status = fby__arrow_schema_copy(fby__pack_reader_schema(reader), &p->schema, err);
    if (status == FBY_OK)
        count_chunks(p);
    if (status == FBY_OK)
        status = fby__arrow_flat_check(&p->schema, err);
    if (status == FBY_OK)
        status = check_shapes(p, err);
    if (status == FBY_OK)
        status = fby__writer_check(p->format, &p->schema,
                                   &(fby__write_options){.codec = p->codec, .environment = fby__dataset_environment(p->ds)}, err);
    if (status == FBY_OK)
        status = measure(p, reader, err);
    choose_sizes(p, p->row_bytes, &p->batch_rows, &p->rows_per_file);
    if (status == FBY_OK)
        status = check_batch(p, reader, err);
    if (status == FBY_OK)
        status = leave_room_for_metadata(p, reader, err);
    if (status == FBY_OK)
        status = leave_room_for_buckets(p, reader, err);
    fby__pack_reader_close(reader);
    return status == FBY_OK ? choose_tasks(p, err) : status;
}

/* ---- words ---- */

fby__pack_name fby__pack_file_name(const fby__pack *p, uint64_t file)
{
    fby__pack_name name;
    int digits = 5;
    for (uint64_t n = 100000; n < p->n_files; n *= 10)
        digits++;
    const fby__pack_key *key = p->keys && p->keys->n ? fby__pack_key_of_file(p->keys, file) : NULL;
    (void)snprintf(name.text, sizeof name.text, "part-%s%s%0*llu.%s", key ? key->name : "", key ? "-" : "", digits,
                   (unsigned long long)(key ? file - key->first_file : file), p->extension); /* names of keys are checked to be short */
    return name;
}
