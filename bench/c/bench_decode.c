/*
 * How fast do column chunks become rows? Times fby__pq_decode_panel alone, on one thread, with the file's bytes in memory.
 *
 *   bench_decode [-t dtype] [-n repeats] [-r rows] [-c] FILE.parquet [column …]
 *
 *     -t   dtype of the panel, float32 by default
 *     -n   how often to decode the whole file (default: about a second's worth); the median, best and worst are printed
 *     -r   decode row groups in pieces of so many rows, as the dataset cuts large ones
 *     -c   check page checksums
 *   Columns default to all flat ones that convert.
 *
 * The ceiling: the panel is written once, so no more than memory bandwidth / dtype bytes; compressed pages are read once
 * more by the codec, whose share is printed. One line of key=value pairs on stdout.
 */
#include "base/clock.h"
#include "format/parquet/parquet.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Room for any element that the fill is read as. */
static const fby__scalar NAN_FILL = {.f32 = __builtin_nanf("")};

typedef struct bench {
    fby__table *table;
    const char *path;
    const uint8_t *file;
    fby_dtype dtype;
    uint64_t piece_rows;
    bool verify_crc;
    uint32_t *leaves, n_leaves;
    fby__panel_column *columns;
    fby__panel_layout layout;
    void *memory;
    fby__scratch scratch;
    uint64_t values;
} bench;

static int stop(const char *what, const fby_error *err)
{
    (void)fprintf(stderr, "bench_decode: %s%s%s\n", what, err ? ": " : "", err ? err->message : "");
    return 1;
}

static fby_status decode_rows(bench *b, fby__file *file, uint32_t group, uint64_t begin, uint64_t end, fby_error *err)
{
    fby__leaf_source *sources = calloc(b->n_leaves, sizeof *sources);
    fby__decode_column *columns = calloc(b->n_leaves, sizeof *columns);
    if (!sources || !columns)
        return fby__fail_nomem(err, "sources");
    for (uint32_t i = 0; i < b->n_leaves; i++)
        sources[i].leaf = b->leaves[i];
    fby_status status = fby__pq_locate(b->table, file, group, begin, end, sources, b->n_leaves, err);
    for (uint32_t i = 0; i < b->n_leaves; i++) {
        for (int k = 0; k < 2; k++)
            sources[i].range[k].data = b->file + sources[i].range[k].offset;
        columns[i] = (fby__decode_column){.source = &sources[i], .column = i, .unit_mul = 1, .unit_div = 1};
    }
    fby__panel panel;
    fby__panel_place(&b->layout, end - begin, 0, b->memory, &panel);
    fby__decode request = {.table = b->table,
                           .file_name = b->path,
                           .group = group,
                           .row_begin = begin,
                           .row_end = end,
                           .panel_row = begin,
                           .panel = &panel,
                           .columns = columns,
                           .n_columns = b->n_leaves,
                           .verify_crc = b->verify_crc};
    if (status == FBY_OK)
        status = b->table->ops->decode_panel(&request, &b->scratch, err);
    free(columns);
    free(sources);
    b->values += (end - begin) * b->n_leaves;
    return status;
}

static fby_status decode_all(bench *b, fby__file *file, fby_error *err)
{
    b->values = 0;
    for (uint32_t g = 0; g < b->table->n_groups; g++)
        for (uint64_t row = 0; row < b->table->groups[g].rows; row += b->piece_rows) {
            uint64_t end = b->table->groups[g].rows - row < b->piece_rows ? b->table->groups[g].rows : row + b->piece_rows;
            FBY__TRY(decode_rows(b, file, g, row, end, err));
        }
    return FBY_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Named columns, or every flat numeric one. */
static bool choose(bench *b, char **names, int n_names)
{
    const fby__schema *s = b->table->schema;
    b->leaves = calloc(s->n_leaves ? s->n_leaves : 1, sizeof *b->leaves);
    b->columns = calloc(s->n_leaves ? s->n_leaves : 1, sizeof *b->columns);
    if (!b->leaves || !b->columns)
        return false;
    for (uint32_t i = 0; i < s->n_leaves; i++) {
        const fby_field *f = &s->fields[s->leaves[i].field];
        bool wanted = n_names == 0 && s->leaves[i].max_rep == 0 && f->dtype != FBY_DTYPE_NONE;
        for (int k = 0; k < n_names; k++)
            wanted |= strcmp(names[k], f->path) == 0;
        if (!wanted)
            continue;
        b->columns[b->n_leaves] =
            (fby__panel_column){.path = f->path, .offset = b->n_leaves, .width = 1, .missing = FBY__MISSING_FILL, .fill = NAN_FILL};
        b->leaves[b->n_leaves++] = i;
    }
    b->layout = (fby__panel_layout){
        .kind = FBY__PANEL_DENSE, .dtype = b->dtype, .n_columns = b->n_leaves, .width = b->n_leaves, .columns = b->columns};
    return b->n_leaves > 0;
}

int main(int argc, char **argv)
{
    bench b = {.dtype = FBY_FLOAT32, .piece_rows = UINT64_MAX};
    int repeats = 0;
    for (int opt; (opt = getopt(argc, argv, "t:n:r:c")) != -1;) {
        if (opt == 't')
            b.dtype = fby_dtype_from_name(optarg);
        else if (opt == 'n')
            repeats = atoi(optarg);
        else if (opt == 'r')
            b.piece_rows = strtoull(optarg, NULL, 10);
        else if (opt == 'c')
            b.verify_crc = true;
        else
            return stop("usage: bench_decode [-t dtype] [-n repeats] [-r rows] [-c] FILE.parquet [column …]", NULL);
    }
    if (optind >= argc || b.dtype == FBY_DTYPE_NONE || b.piece_rows == 0)
        return stop("which file, which dtype?", NULL);
    b.path = argv[optind];
    fby_error err = {0};
    fby__file *file;
    if (fby__file_open(b.path, NULL, &file, &err) != FBY_OK || fby__parquet_ops.open(file, NULL, &b.table, &err) != FBY_OK)
        return stop("cannot open", &err);
    const uint64_t size = fby__file_stamp_of(file)->size_bytes;
    uint8_t *bytes = malloc(size);
    if (!bytes || fby__file_read(file, 0, bytes, size, &err) != FBY_OK)
        return stop("cannot read", &err);
    b.file = bytes;
    if (!choose(&b, argv + optind + 1, argc - optind - 1))
        return stop("no such flat numeric column", NULL);
    uint64_t most = 0;
    for (uint32_t g = 0; g < b.table->n_groups; g++)
        most = b.table->groups[g].rows > most ? b.table->groups[g].rows : most;
    size_t panel_bytes;
    if (fby__panel_bytes(&b.layout, most < b.piece_rows ? most : b.piece_rows, 0, &panel_bytes, &err) != FBY_OK)
        return stop("panel", &err);
    b.memory = aligned_alloc(64, panel_bytes ? panel_bytes : 64);
    if (!b.memory)
        return stop("no memory", NULL);

    double *ns = NULL, spent = 0;
    int n = 0;
    for (int i = -1; repeats ? i < repeats : n < 5 || spent < 1e9; i++) { /* the first warms up */
        uint64_t begin = fby__now_ns();
        if (i == 0)
            b.scratch.decompress_ns = 0;
        if (decode_all(&b, file, &err) != FBY_OK)
            return stop("decode", &err);
        if (i < 0)
            continue;
        double *grown = realloc(ns, (size_t)(n + 1) * sizeof *ns);
        if (!grown)
            return stop("no memory", NULL);
        ns = grown;
        ns[n] = (double)(fby__now_ns() - begin);
        spent += ns[n++];
    }
    qsort(ns, (size_t)n, sizeof *ns, by_value);
    const double v = (double)b.values;
    (void)printf("file=%s columns=%u rows=%llu dtype=%s runs=%d Mvalues_per_s_median=%.0f best=%.0f worst=%.0f decompress_share=%.2f\n",
                 b.path, b.n_leaves, (unsigned long long)b.table->n_rows, fby_dtype_name(b.dtype), n, v / ns[n / 2] * 1e3, v / ns[0] * 1e3,
                 v / ns[n - 1] * 1e3, (double)b.scratch.decompress_ns / spent);
    free(ns);
    free(b.memory);
    free(b.columns);
    free(b.leaves);
    free(bytes);
    fby__scratch_fini(&b.scratch);
    fby__table_unref(b.table);
    fby__file_unref(file);
    return 0;
}
