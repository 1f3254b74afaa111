/*
 * What the tests of chosen samples share: small tables in memory of int64 columns, cut in record batches, and a sample's place in short.
 */
#ifndef FBY_TESTS_DATASET_SAMPLES_FIXTURE_H
#define FBY_TESTS_DATASET_SAMPLES_FIXTURE_H

#include "base/alloc.h"
#include "base/random.h"
#include "samples/samples.h"
#include "support/memory_dataset.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MAX_COLUMNS = 6 };

/** A table: values[c] has `rows` numbers; INT64_MIN stands for missing. */
typedef struct numbers {
    const char *names[MAX_COLUMNS];
    const int64_t *values[MAX_COLUMNS];
    int64_t n_columns, rows, batch_rows, at;
    const char *formats[MAX_COLUMNS]; /* NULL: "l" */
} numbers;

static inline int numbers_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    const numbers *t = stream->private_data;
    *out = arrow_field("+s", "", ARROW_FLAG_NULLABLE, t->n_columns);
    for (int64_t c = 0; c < t->n_columns; c++)
        *out->children[c] = arrow_field(t->formats[c] ? t->formats[c] : "l", t->names[c], ARROW_FLAG_NULLABLE, 0);
    return 0;
}

static inline int numbers_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    numbers *t = stream->private_data;
    int64_t n = t->rows - t->at < t->batch_rows ? t->rows - t->at : t->batch_rows;
    *out = (struct ArrowArray){0};
    if (n == 0)
        return 0;
    *out = arrow_array(n, 1, t->n_columns);
    for (int64_t c = 0; c < t->n_columns; c++) {
        int64_t *data = malloc((size_t)n * sizeof *data);
        uint8_t *valid = calloc((size_t)n / 8 + 1, 1);
        memcpy(data, t->values[c] + t->at, (size_t)n * sizeof *data);
        for (int64_t i = 0; i < n; i++)
            valid[i / 8] |= (uint8_t)((data[i] != INT64_MIN) << (i % 8));
        *out->children[c] = arrow_numbers(n, data, valid, -1);
    }
    t->at += n;
    return 0;
}

static inline void numbers_release(struct ArrowArrayStream *stream) { stream->release = NULL; }

static inline fby_dataset *open_numbers(numbers table)
{
    fby_dataset *ds = NULL;
    fby_error err = {0};
    struct ArrowArrayStream stream = {numbers_schema, numbers_next, arrow_no_error, numbers_release, &table};
    if (fby_dataset_from_arrow(&stream, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static inline fby_samples *open_samples(fby_dataset *ds, fby_samples_opts opts)
{
    fby_samples *s = NULL;
    fby_error err = {0};
    opts.size = sizeof opts;
    if (fby_samples_open(ds, &opts, &s, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return s;
}

static inline uint64_t row_of(const fby_samples *s, uint64_t i)
{
    uint64_t row, rows;
    assert_int_equal(fby_samples_get(s, i, &row, &rows, NULL), FBY_OK);
    return row;
}

static inline uint64_t rows_of(const fby_samples *s, uint64_t i)
{
    uint64_t row, rows;
    assert_int_equal(fby_samples_get(s, i, &row, &rows, NULL), FBY_OK);
    return rows;
}

/** These samples begin at these rows. */
static inline void assert_rows(const fby_samples *s, const uint64_t *rows, uint64_t n)
{
    assert_int_equal(fby_samples_count(s), n);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(row_of(s, i), rows[i]);
}

/** A call failed, with words in its message. */
static inline void assert_says(fby_status status, fby_status want, const fby_error *err, const char *words)
{
    if (status != want || !strstr(err->message, words))
        fail_msg("expected %s with \"%s\", got %s: %s", fby_status_name(want), words, fby_status_name(status), err->message);
}

#endif
