/*
 * A program compiled against the kept headers, run with the library as it is: opens a file, fits, loads an epoch, stops in the middle and goes on.
 *     old_program FILE.parquet COLUMN COLUMN
 */
#include <forebay/forebay.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static fby_error err;

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, err.message);
    return 1;
}

/* The sum of a column over the rest of an epoch. */
static int sum(fby_loader *l, double *out)
{
    fby_batch *b;
    fby_status status;
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        const fby_tensor *t = fby_batch_tensor(b, 0);
        for (uint64_t i = 0; i < fby_batch_size(b); i++)
            *out += ((const double *)t->data)[i];
        fby_batch_unref(b);
    }
    return status == FBY_END ? 0 : failed("next");
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *const columns[] = {argv[2], argv[3]};
    const fby_source source = {.path = argv[1]};
    const fby_open_opts open_opts = {.size = sizeof open_opts, .cache_dir = ""};
    fby_dataset *ds;
    if (fby_dataset_open(&source, 1, &open_opts, &ds, &err) != FBY_OK)
        return failed("open");
    fby_file_info file = {.size = sizeof file};
    if (fby_dataset_file(ds, 0, &file, &err) != FBY_OK || strcmp(file.format, "parquet") != 0)
        return failed("file");

    fby_moments m[2];
    const fby_fit_opts fit = {FBY_FIT_SIZES, .columns = columns, .n_columns = 2};
    if (fby_fit_moments(ds, &fit, m, &err) != FBY_OK)
        return failed("fit");

    const fby_op ops[] = {{.kind = FBY_OP_FILL_MISSING, .a = 0}, {.kind = FBY_OP_AFFINE, .a = 2, .b = 1}};
    const fby_make twice = {.kind = FBY_MAKE_EXPRESSION, .expression = {.text = argv[3]}};
    const fby_output outputs[] = {
        {.name = "first", .columns = &columns[0], .n_columns = 1, .dtype = FBY_FLOAT64, .ops = ops, .n_ops = 2},
        {.name = "second", .columns = &columns[1], .n_columns = 1, .make = &twice},
    };
    const fby_loader_opts opts = {FBY_LOADER_SIZES, .outputs = outputs, .n_outputs = 2, .batch_size = 7, .seed = 3, .n_threads = 2};
    fby_loader *l;
    fby_batch *b;
    if (fby_loader_open(ds, &opts, &l, &err) != FBY_OK)
        return failed("loader");
    double whole = 0, rest = 0, head = 0;
    if (sum(l, &whole) != 0 || fby_loader_begin(l, 0, &err) != FBY_OK || fby_loader_next(l, -1, &b, &err) != FBY_OK)
        return failed("epoch");
    for (uint64_t i = 0; i < fby_batch_size(b); i++)
        head += ((const double *)fby_batch_tensor(b, 0)->data)[i];
    fby_batch_unref(b);
    fby_loader_state state = {.size = sizeof state};
    if (fby_loader_state_get(l, &state, &err) != FBY_OK || fby_loader_state_set(l, &state, &err) != FBY_OK || sum(l, &rest) != 0)
        return failed("state");
    fby_report report = {.size = sizeof report};
    fby_output_info info = {.size = sizeof info};
    if (fby_loader_report(l, &report, &err) != FBY_OK || fby_loader_output(l, 1, &info, &err) != FBY_OK)
        return failed("report");
    const uint64_t rows = fby_dataset_rows(ds);
    printf("%" PRIu64 " rows, %" PRIu64 " delivered, sum %g, %g + %g, mean %g of %" PRIu64 ", %s\n", rows, report.samples, whole, head,
           rest, m[0].mean, m[0].count, info.name);
    const double want = 2 * m[0].mean * (double)m[0].count + (double)rows; /* missing values are 0 */
    const double tolerance = 1e-9 * (want < 0 ? -want : want) + 1e-9;
    fby_loader_close(l);
    fby_dataset_close(ds);
    return whole - want < tolerance && want - whole < tolerance && head + rest - whole < tolerance && whole - head - rest < tolerance ? 0
                                                                                                                                      : 1;
}
