/*
 * Read a data set through Arrow: export columns as an Arrow C stream and sum the numeric ones.
 *
 *     read_arrow basins/ prcp tmax
 *
 * Any library that speaks the Arrow C stream interface (pyarrow, polars, DuckDB, nanoarrow) could take `stream` instead; the
 * few lines below read it without one.
 */
#include <forebay/forebay.h>

#include <stdio.h>
#include <stdlib.h>

/** The element as a number; 0 for types that are none. */
static double number_at(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t i)
{
    const void *values = array->n_buffers > 1 ? array->buffers[1] : NULL;
    switch (schema->format[0]) {
    case 'c': return ((const int8_t *)values)[i];
    case 'C': return ((const uint8_t *)values)[i];
    case 's': return ((const int16_t *)values)[i];
    case 'S': return ((const uint16_t *)values)[i];
    case 'i': return ((const int32_t *)values)[i];
    case 'I': return ((const uint32_t *)values)[i];
    case 'l': return (double)((const int64_t *)values)[i];
    case 'L': return (double)((const uint64_t *)values)[i];
    case 'f': return (double)((const float *)values)[i];
    case 'g': return ((const double *)values)[i];
    default: return 0;
    }
}

static int is_valid(const struct ArrowArray *array, int64_t i)
{
    const uint8_t *bits = array->n_buffers > 0 ? array->buffers[0] : NULL;
    return !bits || (bits[i / 8] >> (i % 8) & 1);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s PATH [COLUMN…]\n", argv[0]);
        return 2;
    }
    fby_dataset *ds = NULL;
    struct ArrowArrayStream stream = {.release = NULL};
    struct ArrowSchema schema = {.release = NULL};
    fby_error err = {0};
    double *sums = NULL;
    long long *counts = NULL;
    int code = 1;

    if (fby_dataset_open(&(fby_source){.path = argv[1]}, 1, NULL, &ds, &err) != FBY_OK ||
        fby_dataset_export_arrow(ds, (const char *const *)(argv + 2), (size_t)(argc - 2), &stream, &err) != FBY_OK) {
        fprintf(stderr, "%s\n", err.message);
        goto done;
    }
    if (stream.get_schema(&stream, &schema) != 0) {
        fprintf(stderr, "%s\n", stream.get_last_error(&stream));
        goto done;
    }
    sums = calloc((size_t)schema.n_children + 1, sizeof *sums);
    counts = calloc((size_t)schema.n_children + 1, sizeof *counts);
    if (!sums || !counts)
        goto done;

    for (;;) {
        struct ArrowArray batch = {.release = NULL};
        if (stream.get_next(&stream, &batch) != 0) {
            fprintf(stderr, "%s\n", stream.get_last_error(&stream));
            goto done;
        }
        if (!batch.release)
            break; /* the end of the stream */
        for (int64_t c = 0; c < batch.n_children; c++) {
            const struct ArrowArray *column = batch.children[c];
            for (int64_t i = column->offset; i < column->offset + column->length; i++) {
                if (is_valid(column, i)) {
                    sums[c] += number_at(schema.children[c], column, i);
                    counts[c]++;
                }
            }
        }
        batch.release(&batch);
    }
    for (int64_t c = 0; c < schema.n_children; c++)
        printf("%-24s %-8s %12lld values, sum %.9g\n", schema.children[c]->name, schema.children[c]->format, counts[c], sums[c]);
    code = 0;

done:
    free(sums);
    free(counts);
    if (schema.release)
        schema.release(&schema);
    if (stream.release)
        stream.release(&stream);
    fby_dataset_close(ds);
    return code;
}
