/*
 * Train in C, without Python: a linear model fitted by stochastic gradient descent to shuffled batches.
 *
 *     train_mean basins/ streamflow prcp tmax tmin
 *
 * The first epoch learns each column's mean and spread, the following ones fit target = w · (x − mean) / spread + b and print
 * the loss: the mean squared error in units of the target's variance, so that 1 is what the mean alone achieves.
 */
#include <forebay/forebay.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { EPOCHS = 5, BATCH = 256 };

typedef struct model {
    size_t n;       /* columns; the target is column 0 of every row */
    double *mean;   /* n */
    double *spread; /* n */
    double *weight; /* n; weight[0] is the bias */
    double *step;   /* n: the gradient of one batch */
} model;

static double standard(const model *m, const float *row, size_t column)
{
    return ((double)row[column] - m->mean[column]) / m->spread[column];
}

/** One gradient step on a batch of rows; returns the sum of squared errors before it. */
static double fit(model *m, const float *rows, size_t n_rows, double rate)
{
    double loss = 0;
    for (size_t c = 0; c < m->n; c++)
        m->step[c] = 0;
    for (size_t i = 0; i < n_rows; i++) {
        const float *row = rows + i * m->n;
        double guess = m->weight[0];
        for (size_t c = 1; c < m->n; c++)
            guess += m->weight[c] * standard(m, row, c);
        double error = guess - standard(m, row, 0);
        loss += error * error;
        m->step[0] += error;
        for (size_t c = 1; c < m->n; c++)
            m->step[c] += error * standard(m, row, c);
    }
    for (size_t c = 0; c < m->n; c++)
        m->weight[c] -= rate * m->step[c] / (double)n_rows;
    return loss;
}

/** Welford's running mean and sum of squared distances, which end in mean and spread. */
static void learn_scale(model *m, const float *rows, size_t n_rows, size_t seen)
{
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t c = 0; c < m->n; c++) {
            double value = (double)rows[i * m->n + c], delta = value - m->mean[c];
            m->mean[c] += delta / (double)(seen + i + 1);
            m->spread[c] += delta * (value - m->mean[c]);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s PATH TARGET COLUMN…\n", argv[0]);
        return 2;
    }
    model m = {.n = (size_t)argc - 2};
    fby_dataset *ds = NULL;
    fby_loader *loader = NULL;
    fby_error err = {0};
    int code = 1;
    double *memory = calloc(m.n * 4, sizeof *memory);
    if (!memory)
        return 1;
    m.mean = memory, m.spread = memory + m.n, m.weight = memory + 2 * m.n, m.step = memory + 3 * m.n;

    /* One output: target and features side by side, float32, missing values as 0. */
    const fby_op zero = {.kind = FBY_OP_FILL_MISSING, .a = 0};
    fby_output rows = {
        .name = "rows", .columns = (const char *const *)(argv + 2), .n_columns = m.n, .dtype = FBY_FLOAT32, .ops = &zero, .n_ops = 1};
    fby_loader_opts opts = {FBY_LOADER_SIZES, .outputs = &rows, .n_outputs = 1, .batch_size = BATCH, .seed = 1};
    if (fby_dataset_open(&(fby_source){.path = argv[1]}, 1, NULL, &ds, &err) != FBY_OK ||
        fby_loader_open(ds, &opts, &loader, &err) != FBY_OK)
        goto failed;

    for (int epoch = 0; epoch <= EPOCHS; epoch++) {
        fby_batch *batch;
        fby_status status;
        double loss = 0;
        size_t seen = 0;
        while ((status = fby_loader_next(loader, -1, &batch, &err)) == FBY_OK) {
            size_t n = (size_t)fby_batch_size(batch);
            const float *data = fby_batch_tensor(batch, 0)->data;
            if (epoch == 0)
                learn_scale(&m, data, n, seen);
            else
                loss += fit(&m, data, n, 0.2 / (epoch + 1));
            seen += n;
            fby_batch_unref(batch);
        }
        if (status != FBY_END)
            goto failed;
        if (epoch > 0) {
            printf("epoch %d: loss %.4f over %zu rows\n", epoch, seen ? loss / (double)seen : 0, seen);
            continue;
        }
        for (size_t c = 0; c < m.n; c++) {
            m.spread[c] = seen ? sqrt(m.spread[c] / (double)seen) : 0;
            printf("%-16s mean %.6g, spread %.6g\n", argv[c + 2], m.mean[c], m.spread[c]);
            if (m.spread[c] < 1e-12)
                m.spread[c] = 1; /* a constant column */
        }
    }
    code = 0;
    goto done;

failed:
    fprintf(stderr, "%s\n", err.message);
done:
    fby_loader_close(loader);
    fby_dataset_close(ds);
    free(memory);
    return code;
}
