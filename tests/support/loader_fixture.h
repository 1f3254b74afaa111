/*
 * What the tests of the loader over files share: a temporary directory full of copies of tests/golden/loader, outputs that
 * every file has, and a check of each value against what tests/golden/make_loader_golden.py wrote.
 */
#ifndef FBY_TESTS_LOADER_FIXTURE_H
#define FBY_TESTS_LOADER_FIXTURE_H

#include "base/alloc.h"
#include "base/random.h"
#include "io/io.h"
#include "support/files.h"
#include "support/fill_op.h"
#include "support/loader_sizes.h"
#include "support/temp_dir.h"

#include <forebay/forebay.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED "AddressSanitizer"
#elif defined(__SANITIZE_THREAD__)
#define SANITIZED "ThreadSanitizer"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED "AddressSanitizer"
#elif __has_feature(thread_sanitizer)
#define SANITIZED "ThreadSanitizer"
#endif
#endif

static const char *const GOLDEN[] = {"rows_none", "rows_snappy", "rows_gzip", "rows_zstd", "rows_lz4", "rows_brotli"};
enum { N_GOLDEN = sizeof GOLDEN / sizeof *GOLDEN };

static const char *ID[] = {"id"}, *X[] = {"x"}, *N[] = {"n"}, *WORD[] = {"word"}, *HITS[] = {"hits"}, *XN[] = {"x", "n"};

/* Every kind of output: the row number, dense with and without conversion, stacked, a mask, bytes, lists. */
static const fby_output OUTPUTS[] = {
    {.name = "row", .from = FBY_FROM_SAMPLE_INDEX},
    {.name = "id", .columns = ID, .n_columns = 1},
    {.name = "x", .columns = X, .n_columns = 1},
    {.name = "xn", .columns = XN, .n_columns = 2, .dtype = FBY_FLOAT64, .ops = FILL(-1), .n_ops = 1},
    {.name = "gone", .from = FBY_FROM_IS_MISSING, .columns = X, .n_columns = 1},
    {.name = "n", .columns = N, .n_columns = 1, .dtype = FBY_FLOAT32},
    {.name = "word", .columns = WORD, .n_columns = 1},
    {.name = "hits", .columns = HITS, .n_columns = 1, .dtype = FBY_INT64},
};
enum { N_OUTPUTS = sizeof OUTPUTS / sizeof *OUTPUTS, N_DENSE = 6 };

static inline void write_bytes(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* A copy of tests/golden/loader/<golden>.parquet. */
static inline void put_golden(const char *path, const char *golden)
{
    char from[600];
    size_t n;
    (void)snprintf(from, sizeof from, FBY_SOURCE_DIR "/tests/golden/loader/%s.parquet", golden);
    uint8_t *p = read_bytes(from, &n);
    write_bytes(path, p, n);
    free(p);
}

/* <dir>/f00.parquet, f01.parquet, …: n files of every codec, some of one row group or one row. */
static inline void put_files(const char *dir, int n)
{
    assert_true(mkdir(dir, 0755) == 0 || errno == EEXIST);
    for (int i = 0; i < n; i++) {
        char path[200];
        (void)snprintf(path, sizeof path, "%s/f%02d.parquet", dir, i);
        put_golden(path, i % 9 == 7 ? "rows_one_group" : i % 9 == 8 ? "rows_one_row" : GOLDEN[i % N_GOLDEN]);
    }
}

static inline fby_status try_open(const char *path, const fby_open_opts *opts, fby_dataset **out, fby_error *err)
{
    fby_open_opts o = {.cache_dir = ""};
    if (opts)
        o = *opts;
    o.size = sizeof o;
    fby_source src = {.path = path};
    return fby_dataset_open(&src, 1, &o, out, err);
}

static inline fby_dataset *open_dataset(const char *path, const fby_open_opts *opts)
{
    fby_dataset *ds = NULL;
    fby_error err = {0};
    if (try_open(path, opts, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

/* With OUTPUTS, batches of 16 and two threads where opts say nothing. */
static inline fby_status try_loader(fby_dataset *ds, fby_loader_opts opts, fby_loader **out, fby_error *err)
{
    set_sizes(&opts);
    if (!opts.outputs) {
        opts.outputs = OUTPUTS;
        opts.n_outputs = N_OUTPUTS;
    }
    opts.batch_size = opts.batch_size ? opts.batch_size : 16;
    opts.n_threads = opts.n_threads ? opts.n_threads : 2;
    return fby_loader_open(ds, &opts, out, err);
}

static inline fby_loader *open_loader(fby_dataset *ds, fby_loader_opts opts)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    if (try_loader(ds, opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

static inline fby_report report_of(fby_loader *l)
{
    fby_report r = {.size = sizeof r};
    assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
    return r;
}

static inline const fby_tensor *find_tensor(const fby_batch *b, const char *output, const char *role)
{
    for (size_t i = 0; i < fby_batch_tensor_count(b); i++) {
        const fby_tensor *t = fby_batch_tensor(b, i);
        if (strcmp(t->output, output) == 0 && strcmp(t->role, role) == 0)
            return t;
    }
    return NULL;
}

static inline const void *values_of(const fby_batch *b, const char *output)
{
    const fby_tensor *t = find_tensor(b, output, "values");
    return t ? t->data : NULL;
}

/* NULL, or what of a batch's row is not as it was written. */
static inline const char *wrong_value(const fby_batch *b, uint64_t i)
{
    const int64_t *id = values_of(b, "id");
    if (!id)
        return NULL;
    int64_t k = id[i];
    const float *x = values_of(b, "x"), *n = values_of(b, "n");
    const double *xn = values_of(b, "xn");
    const uint8_t *gone = values_of(b, "gone");
    bool missing = k % 7 == 3;
    if (k < 0 || k >= 60)
        return "id";
    if (x && (missing ? !isnan(x[i]) : x[i] != (float)k / 2))
        return "x";
    if (xn && (xn[2 * i] != (missing ? -1 : (double)k / 2) || xn[2 * i + 1] != (double)(k % 1000)))
        return "xn";
    if (gone && gone[i] != missing)
        return "gone";
    if (n && n[i] != (float)(k % 1000))
        return "n";
    const fby_tensor *word = find_tensor(b, "word", "offsets"), *hits = find_tensor(b, "hits", "offsets");
    if (word) {
        char expect[24];
        int length = k % 11 == 5 ? 0 : snprintf(expect, sizeof expect, "w%lld", (long long)k);
        const int64_t *at = word->data;
        if (at[i + 1] - at[i] != length || memcmp((const char *)values_of(b, "word") + at[i], expect, (size_t)length) != 0)
            return "word";
    }
    if (hits) {
        const int64_t *at = hits->data, *value = values_of(b, "hits");
        if (at[i + 1] - at[i] != (k % 5 == 4 ? 0 : k % 4))
            return "hits' length";
        for (int64_t j = at[i]; j < at[i + 1]; j++)
            if (value[j] != k + j - at[i])
                return "hits";
    }
    return NULL;
}

static inline void check_batch(const fby_batch *b)
{
    for (uint64_t i = 0; i < fby_batch_size(b); i++) {
        const char *wrong = wrong_value(b, i);
        if (wrong)
            fail_msg("batch %llu, sample %llu: %s is wrong", (unsigned long long)fby_batch_index(b), (unsigned long long)i, wrong);
    }
}

/* The row numbers of an epoch in order of delivery; values are checked on the way. Owned by the caller: free(). */
/* Of an epoch that has begun, none of whose batches was taken. */
static inline int64_t *begun_rows(fby_loader *l, uint64_t *out_n)
{
    fby_error err = {0};
    int64_t *rows = calloc(fby_loader_sample_count(l) + 1, sizeof *rows);
    uint64_t n = 0, n_batches = 0;
    fby_batch *b;
    fby_status status;
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        assert_int_equal(fby_batch_index(b), n_batches++);
        assert_true(n + fby_batch_size(b) <= fby_loader_sample_count(l));
        memcpy(rows + n, values_of(b, "row"), fby_batch_size(b) * sizeof *rows);
        n += fby_batch_size(b);
        check_batch(b);
        fby_batch_unref(b);
    }
    if (status != FBY_END)
        fail_msg("%s", err.message);
    assert_int_equal(n, fby_loader_sample_count(l));
    assert_int_equal(n_batches, fby_loader_batch_count(l));
    *out_n = n;
    return rows;
}

static inline int64_t *epoch_rows(fby_loader *l, uint64_t epoch, uint64_t *out_n)
{
    fby_error err = {0};
    if (fby_loader_begin(l, epoch, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return begun_rows(l, out_n);
}

static inline void assert_once_each(const int64_t *rows, uint64_t n, uint64_t expect)
{
    char *seen = calloc(expect + 1, 1);
    assert_int_equal(n, expect);
    for (uint64_t i = 0; i < n; i++)
        if ((uint64_t)rows[i] < expect)
            seen[rows[i]]++;
    for (uint64_t row = 0; row < expect; row++)
        assert_int_equal(seen[row], 1);
    free(seen);
}

#endif
