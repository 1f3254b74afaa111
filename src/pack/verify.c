/*
 * Do two data sets have the same rows, in whatever order? Each row is hashed, and the hashes are added up, as numbers of 128 bits: a sum
 * that no order changes, and that no missing, doubled or changed row leaves as it was.
 *
 * A row is hashed as a text of its values that is the same wherever they lay: nulls are told apart from values, lists and strings say how
 * long they are; values under a null are not looked at. In HDF5, which has none, a null among floats is the NaN that it is written as. Times are
 * seconds and nanoseconds, since a format that lacks a unit stores them in another.
 *
 * A task sums up a range of the source's blocks and a range of the pack's files. These have nothing to do with each other: all sums are
 * added up before they are compared.
 */
#include "base/checked.h"
#include "dataset/dataset.h"
#include "io/io.h"
#include "pack/pack_impl.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUM_FORMAT "forebay verify 2" /* of the files that hold sums */

/* A node of a block, its format parsed once. */
typedef struct node {
    fby__arrow_format format;
    const struct ArrowArray *array;
    const uint8_t *validity;
    int64_t per_second; /* of times and timestamps, the unit; else 0 */
    bool null_is_nan;
    uint32_t n_children;
    const struct node *children; /* those behind it in the list */
} node;

typedef struct node_list {
    node *nodes; /* owned */
    size_t n, cap;
} node_list;

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "the hash of rows"); }

static uint64_t count_nodes(const struct ArrowSchema *schema)
{
    uint64_t n = 1;
    for (int64_t i = 0; i < schema->n_children; i++)
        n += count_nodes(schema->children[i]);
    return n;
}

static int64_t per_second(const fby_field *field)
{
    static const int64_t units[] = {[FBY_UNIT_S] = 1, [FBY_UNIT_MS] = 1000, [FBY_UNIT_US] = 1000000, [FBY_UNIT_NS] = 1000000000};
    return field->kind == FBY_KIND_TIME || field->kind == FBY_KIND_TIMESTAMP ? units[field->unit] : 0;
}

/* Children of one node follow one another; the list has room for all. */
static fby_status list_nodes(const struct ArrowSchema *schema, const struct ArrowArray *array, bool nulls_are_nan, node *at,
                             node_list *list, fby_error *err)
{
    FBY__TRY(fby__arrow_format_parse(schema->format, &at->format, err));
    at->array = array;
    at->validity = at->format.storage != FBY__ARROW_NULL && array->null_count != 0 && array->n_buffers > 0 ? array->buffers[0] : NULL;
    at->per_second = per_second(&at->format.field);
    at->null_is_nan = nulls_are_nan && at->format.field.kind == FBY_KIND_FLOAT;
    at->n_children = (uint32_t)schema->n_children;
    node *children = &list->nodes[list->n];
    at->children = children;
    list->n += at->n_children;
    for (uint32_t i = 0; i < at->n_children; i++)
        FBY__TRY(list_nodes(schema->children[i], array->children[i], nulls_are_nan, &children[i], list, err));
    return FBY_OK;
}

static int put_u64(fby__buf *b, uint64_t v) { return fby__buf_put(b, &v, sizeof v); }

static int put_time(fby__buf *b, const node *n, uint64_t i)
{
    const void *values = n->array->buffers[1];
    const int64_t v = n->format.width == 4 ? ((const int32_t *)values)[i] : ((const int64_t *)values)[i];
    int64_t seconds = v / n->per_second, rest = v % n->per_second;
    if (rest < 0) {
        seconds--;
        rest += n->per_second;
    }
    return put_u64(b, (uint64_t)seconds) | put_u64(b, (uint64_t)(rest * (1000000000 / n->per_second)));
}

static int put_value(fby__buf *b, const node *n, uint64_t row);

static int put_elements(fby__buf *b, const node *n, uint64_t first, uint64_t count)
{
    int failed = 0;
    for (uint64_t i = 0; !failed && i < count; i++)
        failed = put_value(b, &n->children[0], first + i);
    return failed;
}

static int put_value(fby__buf *b, const node *n, uint64_t row)
{
    const struct ArrowArray *a = n->array;
    const uint64_t i = row + (uint64_t)a->offset;
    uint8_t there = 1;
    if (n->format.storage == FBY__ARROW_NULL || (n->validity && !fby__bit(n->validity, i))) {
        const uint64_t nan = fby__arrow_null_as_nan(n->format.width);
        return n->null_is_nan ? fby__buf_put(b, &there, 1) | fby__buf_put(b, &nan, n->format.width) : fby__buf_put(b, "\0", 1);
    }
    if (fby__buf_put(b, &there, 1) != 0)
        return -1;
    uint64_t first = 0, count = 0;
    switch (n->format.storage) {
    case FBY__ARROW_BITS: there = fby__bit(a->buffers[1], i); return fby__buf_put(b, &there, 1);
    case FBY__ARROW_FIXED:
        if (n->per_second)
            return put_time(b, n, i);
        return fby__buf_put(b, (const uint8_t *)a->buffers[1] + i * n->format.width, n->format.width);
    case FBY__ARROW_VAR32:
    case FBY__ARROW_LIST32:
        first = (uint64_t)((const int32_t *)a->buffers[1])[i];
        count = (uint64_t)((const int32_t *)a->buffers[1])[i + 1] - first;
        break;
    case FBY__ARROW_VAR64:
    case FBY__ARROW_LIST64:
        first = (uint64_t)((const int64_t *)a->buffers[1])[i];
        count = (uint64_t)((const int64_t *)a->buffers[1])[i + 1] - first;
        break;
    case FBY__ARROW_FIXED_LIST:
        count = (uint64_t)n->format.field.list_size;
        first = i * count;
        break;
    default:
        for (uint32_t c = 0; c < n->n_children; c++)
            if (put_value(b, &n->children[c], i) != 0)
                return -1;
        return 0;
    }
    if (put_u64(b, count) != 0)
        return -1;
    if (n->format.storage == FBY__ARROW_VAR32 || n->format.storage == FBY__ARROW_VAR64)
        return count ? fby__buf_put(b, (const uint8_t *)a->buffers[2] + first, (size_t)count) : 0;
    return put_elements(b, n, first, count);
}

static void add(fby__hash128 *sum, fby__hash128 h) { sum->hi += h.hi + __builtin_add_overflow(sum->lo, h.lo, &sum->lo); }

static fby_status add_block(const struct ArrowSchema *schema, const struct ArrowArray *array, bool nulls_are_nan, fby__hash128 *sum,
                            fby_error *err)
{
    node root;
    fby__buf row = {0};
    node_list list = {.cap = (size_t)count_nodes(schema)};
    list.nodes = fby__calloc(list.cap, sizeof *list.nodes);
    fby_status status = list.nodes ? list_nodes(schema, array, nulls_are_nan, &root, &list, err) : no_memory(err);
    root.validity = NULL;
    for (uint64_t i = 0; status == FBY_OK && i < (uint64_t)array->length; i++) {
        row.n = 0;
        if (put_value(&row, &root, i) != 0)
            status = no_memory(err);
        add(sum, fby__hash(row.data, row.n));
    }
    fby__buf_fini(&row);
    fby__free(list.nodes);
    return status;
}

/* ---- data sets ---- */

/* Sums the rows of blocks [first, last) of the reader. */
static fby_status sum_rows(fby__pack *p, fby__pack_reader *reader, uint32_t first, uint32_t last, fby__hash128 *out, fby_error *err)
{
    fby_status status = FBY_OK;
    for (uint32_t b = first; status == FBY_OK && b < last; b++) {
        struct ArrowArray array;
        status = fby__pack_go_on(p, err);
        if (status == FBY_OK)
            status = fby__pack_reader_block(reader, b, &array, err);
        if (status != FBY_OK)
            break;
        status = add_block(fby__pack_reader_schema(reader), &array, p->format == FBY__WRITE_HDF5, out, err);
        fby__pack_count(p, (uint64_t)array.length);
        array.release(&array);
    }
    return status;
}

/* The files of the pack [first, last), wherever they are by now. */
static fby_status open_pack(const fby__pack *p, uint64_t first, uint64_t last, fby_dataset **out, fby_error *err)
{
    const fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .stored_values = true}; /* as they were written */
    const size_t n = (size_t)(last - first);
    fby_source *sources = fby__calloc(n, sizeof *sources);
    fby_status status = sources ? FBY_OK : no_memory(err);
    for (size_t i = 0; status == FBY_OK && i < n; i++)
        if (!(sources[i].path = fby__pack_file_path(p, first + i)))
            status = no_memory(err);
    if (status == FBY_OK)
        status = fby_dataset_open(sources, n, &opts, out, err);
    for (size_t i = 0; sources && i < n; i++)
        fby__free((char *)(uintptr_t)sources[i].path); /* ours */
    fby__free(sources);
    return status;
}

/* In the order that the source's rows have them: HDF5 has one of its own. */
static fby_status open_rows(const fby__pack *p, fby_dataset *packed, uint64_t memory_bytes, fby__pack_reader **out, fby_error *err)
{
    const size_t n = (size_t)p->schema.n_children;
    const char **columns = fby__calloc(n + 1, sizeof *columns);
    if (!columns)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        columns[i] = p->schema.children[i]->name;
    const fby_status status = fby__pack_reader_open_rows(packed, columns, n, memory_bytes, out, err);
    fby__free(columns);
    return status;
}

/* ---- a task ---- */

typedef struct verifier {
    fby__pack *p;
    uint64_t memory_bytes;
    bool lacks_memory;
} verifier;

/* Sums the range of the source's blocks that scatter task k has. */
static fby_status sum_source(verifier *v, uint64_t k, fby__pack_sum *sum, fby_error *err)
{
    fby__pack *p = v->p;
    fby__pack_reader *reader;
    const uint32_t first = fby__pack_scatter_begin(p, (uint32_t)k), last = fby__pack_scatter_begin(p, (uint32_t)k + 1);
    if (p->rows == 0 || first == last)
        return FBY_OK;
    FBY__TRY(fby__pack_reader_open(p, v->memory_bytes, &reader, err));
    const fby_status status = sum_rows(p, reader, first, last, &sum->of_source, err);
    v->lacks_memory = status != FBY_OK && fby__pack_reader_lacks_room(reader);
    fby__pack_reader_close(reader);
    return status;
}

static fby_status sum_files(verifier *v, uint64_t first, uint64_t last, fby__pack_sum *sum, fby_error *err)
{
    fby__pack *p = v->p;
    fby_dataset *packed = NULL;
    fby__pack_reader *reader = NULL;
    fby_status status = open_pack(p, first, last, &packed, err);
    const uint64_t rows = status == FBY_OK ? fby_dataset_rows(packed) : 0;
    sum->rows += rows;
    if (rows > 0)
        status = open_rows(p, packed, v->memory_bytes, &reader, err);
    if (reader)
        status = sum_rows(p, reader, 0, fby__dataset_block_count(packed), &sum->of_pack, err);
    v->lacks_memory = status != FBY_OK && reader && fby__pack_reader_lacks_room(reader);
    fby__pack_reader_close(reader);
    fby_dataset_close(packed);
    return status;
}

/* Sums the range of the pack's files that verify task k has. */
static fby_status sum_pack(verifier *v, uint64_t k, fby__pack_sum *sum, fby_error *err)
{
    const uint64_t at_once = fby__pack_files_at_once(v->p);
    uint64_t first, last;
    for (fby__pack_verify_files(v->p, k, &first, &last); first < last; first += fby__min_u64(at_once, last - first))
        FBY__TRY(sum_files(v, first, first + fby__min_u64(at_once, last - first), sum, err));
    return FBY_OK;
}

/*
 * What the sum of task k is made of: the plan, which knows the source by its fingerprint, and the files of the pack as they are now. Stamps are
 * taken before files are read, so that a sum does not hold of what was written meanwhile.
 */
static fby_status hash_inputs(const fby__pack *p, uint64_t k, fby__hash128 *out, fby_error *err)
{
    const uint64_t tasks[] = {k, p->n_scatters, p->n_buckets};
    uint64_t first, last;
    *out = fby__hash_more(fby__hash(SUM_FORMAT, sizeof SUM_FORMAT), p->plan.data, p->plan.n);
    *out = fby__hash_more(*out, tasks, sizeof tasks);
    for (fby__pack_verify_files(p, k, &first, &last); first < last; first++) {
        fby__file_stamp stamp;
        char *path = fby__pack_file_path(p, first);
        const fby_status status = path ? fby__file_stat(path, &stamp, err) : no_memory(err);
        fby__free(path);
        if (status != FBY_OK)
            return status;
        *out = fby__hash_more(*out, &stamp, sizeof stamp);
    }
    return FBY_OK;
}

/* One that is there, whole, and made of the same; else *out_replaces is what is there in its place, or 0. */
static bool read_sum(const fby__pack *p, const char *name, fby__hash128 made_of, fby__pack_sum *out, ino_t *out_replaces)
{
    struct {
        fby__pack_sum sum;
        fby__hash128 hash;
    } found;
    struct stat st;
    char *path = fby__format("%s/%s", p->work, name);
    const int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    const bool holds = fd >= 0 && read(fd, &found, sizeof found) == (ssize_t)sizeof found &&
                       fby__hash_equal(fby__hash(&found.sum, sizeof found.sum), found.hash) && fby__hash_equal(found.sum.made_of, made_of);
    if (holds)
        *out = found.sum;
    *out_replaces = !holds && path && lstat(path, &st) == 0 ? st.st_ino : 0;
    if (fd >= 0)
        (void)close(fd); /* it was only read */
    fby__free(path);
    return holds;
}

static fby_status write_sum(const fby__pack *p, const char *name, ino_t replaces, const fby__pack_sum *sum, fby_error *err)
{
    fby__pack_out out;
    const fby__hash128 hash = fby__hash(sum, sizeof *sum);
    FBY__TRY(fby__pack_out_open(p->work, name, &out, err));
    out.replaces = replaces;
    fby_status status = fby__pack_out_write(&out, sum, sizeof *sum, err);
    if (status == FBY_OK)
        status = fby__pack_out_write(&out, &hash, sizeof hash, err);
    if (status == FBY_OK)
        return fby__pack_out_close(&out, true, err);
    fby__pack_out_drop(&out);
    return status;
}

char *fby__pack_verify_name(uint64_t k) { return fby__format("verify-%05llu", (unsigned long long)k); }

void fby__pack_verify_files(const fby__pack *p, uint64_t k, uint64_t *out_first, uint64_t *out_last)
{
    *out_first = (uint64_t)((unsigned __int128)p->n_files * k / p->n_scatters);
    *out_last = (uint64_t)((unsigned __int128)p->n_files * (k + 1) / p->n_scatters);
}

static fby_status make_sum(verifier *v, uint64_t k, fby__pack_sum *sum, fby_error *err)
{
    FBY__TRY(sum_source(v, k, sum, err));
    FBY__TRY(sum_pack(v, k, sum, err));
    sum->known = 1;
    return FBY_OK;
}

/* Others do so too, and the sum is a file for whoever adds them up. */
static fby_status share_sum(verifier *v, uint64_t k, const char *name, fby__pack_sum *sum, fby_error *err)
{
    fby__pack *p = v->p;
    fby__hash128 made_of;
    ino_t replaces;
    FBY__TRY(hash_inputs(p, k, &made_of, err));
    if (read_sum(p, name, made_of, sum, &replaces)) {
        p->resumed = true;
        fby__pack_count(p, fby__pack_scatter_rows(p, (uint32_t)k) + sum->rows);
        return FBY_OK;
    }
    sum->made_of = made_of;
    FBY__TRY(make_sum(v, k, sum, err));
    return write_sum(p, name, replaces, sum, err);
}

static fby_status verify_task(void *worker, uint64_t k, fby_error *err)
{
    verifier *v = worker;
    fby__pack_sum *sum = &v->p->sums[k];
    if (sum->known)
        return FBY_OK;
    *sum = (fby__pack_sum){0};
    if (!v->p->by_tasks)
        return make_sum(v, k, sum, err);
    char *name = fby__pack_verify_name(k);
    const fby_status status = name ? share_sum(v, k, name, sum, err) : no_memory(err);
    fby__free(name);
    return status;
}

static fby_status begin_verifier(fby__pack *p, uint32_t n_workers, void **out, fby_error *err)
{
    verifier *v = fby__calloc(1, sizeof *v);
    if (!v)
        return no_memory(err);
    *v = (verifier){.p = p, .memory_bytes = p->memory_bytes / n_workers};
    *out = v;
    return FBY_OK;
}

static void end_verifier(void *worker) { fby__free(worker); }

static bool verifier_lacks_memory(const void *worker) { return ((const verifier *)worker)->lacks_memory; }

static bool reads_source(const fby__pack *p)
{
    (void)p;
    return true;
}

static const fby__pack_phase_ops verify_phase = {"verifying",           begin_verifier, verify_task,
                                                 verifier_lacks_memory, end_verifier,   reads_source};

/* ---- tasks, and all of them ---- */

uint64_t fby__pack_verify_count(const fby__pack *p) { return p->o->verify ? p->n_scatters : 0; }

fby_status fby__pack_verify_run(fby__pack *p, uint64_t first, uint64_t last, fby_error *err)
{
    if (!p->sums && !(p->sums = fby__calloc((size_t)p->n_scatters, sizeof *p->sums)))
        return no_memory(err);
    return fby__pack_crew_run(p, &verify_phase, first, last, err);
}

/* Where rows differ, no sum is believed again: files may have been damaged in a way that their stamps do not show. */
static void remove_sums(const fby__pack *p)
{
    for (uint64_t k = 0; k < p->n_scatters; k++) {
        char *name = fby__pack_verify_name(k), *path = name ? fby__format("%s/%s", p->work, name) : NULL;
        if (path)
            (void)unlink(path); /* there may be none */
        fby__free(path);
        fby__free(name);
    }
}

fby_status fby__pack_verify(fby__pack *p, char text[33], fby_error *err)
{
    fby__hash128 of_source = {0, 0}, of_pack = {0, 0};
    uint64_t rows = 0;
    FBY__TRY(fby__pack_verify_run(p, 0, p->n_scatters, err));
    for (uint64_t k = 0; k < p->n_scatters; k++) {
        add(&of_source, p->sums[k].of_source);
        add(&of_pack, p->sums[k].of_pack);
        rows += p->sums[k].rows;
    }
    if (rows != p->rows || !fby__hash_equal(of_source, of_pack)) {
        remove_sums(p);
        return fby__fail(
            err, FBY_E_DATA,
            "'%s' does not hold the rows of its source: %llu of %llu rows, and their hashes differ. Disk, memory or this program "
            "is at fault: remove it, and pack again",
            p->work, (unsigned long long)rows, (unsigned long long)p->rows);
    }
    fby__hash_text(of_pack, text);
    return FBY_OK;
}
