/*
 * A loader beside a program whose every cost is planted: what limits, as the report has it, and how fast it really is. limits.py gives the cases.
 *
 *   bench_limits PATH [key=value …]
 *     memory= superbatch= buckets= batch= threads=    as the options of the loader; 0 = the default
 *     group=COLUMN               groups, padded; else rows. All columns but that one are stacked as x
 *     work_us= transfer_us= transform_us=   sleeps a batch: of the program, of a stand-in for a copy to a device, inside a transform
 *     beside=1                   the stand-in runs in the transform
 *     delay_us=                  each read takes a random time up to it
 *     seconds=                   of the second epoch on, once two have ended, or of the first
 *
 * One line a figure: limit, confidence, samples_per_second of the steady state, early_limit after 2 s of it, cures.
 */
#include "base/clock.h"
#include "io/io.h"

#include <forebay/forebay.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EARLY_NS = 2000000000 };

typedef struct plan {
    uint64_t memory, superbatch, buckets, batch, threads, work_us, transfer_us, transform_us, beside, delay_us, seconds;
    const char *group;
} plan;

static uint64_t *number_of(plan *p, const char *key)
{
    const struct {
        const char *key;
        uint64_t *value;
    } keys[] = {
        {"memory", &p->memory},   {"superbatch", &p->superbatch}, {"buckets", &p->buckets},         {"batch", &p->batch},
        {"threads", &p->threads}, {"work_us", &p->work_us},       {"transfer_us", &p->transfer_us}, {"transform_us", &p->transform_us},
        {"beside", &p->beside},   {"delay_us", &p->delay_us},     {"seconds", &p->seconds}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i].key) == 0)
            return keys[i].value;
    return NULL;
}

static void parse(plan *p, char *text)
{
    char *value = strchr(text, '=');
    if (value)
        *value++ = '\0';
    uint64_t *number = value ? number_of(p, text) : NULL;
    if (number)
        *number = strtoull(value, NULL, 10);
    else if (value && strcmp(text, "group") == 0)
        p->group = value;
    else {
        (void)fprintf(stderr, "bench_limits: there is no %s\n", text);
        exit(2);
    }
}

static void need(fby_status status, const fby_error *err)
{
    if (status == FBY_OK)
        return;
    (void)fprintf(stderr, "bench_limits: %s\n", err->message);
    exit(1);
}

static void take(uint64_t us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000 * 1000)};
    while (us && nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

static fby_status transform(void *user, fby_batch *batch, fby_error *err)
{
    const plan *p = user;
    (void)batch;
    (void)err;
    take(p->transform_us + (p->beside ? p->transfer_us : 0));
    return FBY_OK;
}

static const char **columns_of(const fby_field *schema, const char *but, size_t *out_n)
{
    const char **names = calloc(schema->n_children, sizeof *names);
    *out_n = 0;
    for (uint32_t i = 0; names && i < schema->n_children; i++)
        if (!but || strcmp(schema->children[i].path, but) != 0)
            names[(*out_n)++] = schema->children[i].path;
    return names;
}

static double rate(const fby_report *r)
{
    const uint64_t steady = r->wait_ns + r->work_ns + r->transfer_ns - r->first_batches_ns - r->first_step_ns;
    return steady ? 1e9 * (double)r->samples / (double)steady : 0;
}

/* Epochs until the time is over; the report of what came after the first one, or of all where there is one alone. */
static fby_report run(fby_loader *loader, const plan *p, fby_limit *early)
{
    fby_error err = {0};
    fby_report r = {.size = sizeof r}, settled = {.size = sizeof settled};
    uint64_t begun = fby__now_ns();
    bool is_early = true;
    *early = FBY_LIMIT_TOO_EARLY;
    for (uint64_t epoch = 0;; epoch++) {
        fby_batch *batch;
        fby_status status;
        need(fby_loader_begin(loader, epoch, &err), &err);
        if (epoch == 1) { /* what came before is warm-up, to the report as well */
            begun = fby__now_ns();
            is_early = true;
            need(fby_loader_report(loader, &settled, &err), &err);
        }
        while ((status = fby_loader_next(loader, -1, &batch, &err)) == FBY_OK) {
            if (!p->beside && p->transfer_us) {
                const uint64_t before = fby__now_ns();
                take(p->transfer_us);
                fby_loader_transferred(loader, fby__now_ns() - before);
            }
            take(p->work_us);
            fby_batch_unref(batch);
            const uint64_t now = fby__now_ns();
            if (is_early && now - begun >= EARLY_NS) {
                is_early = false;
                need(fby_loader_report(loader, &r, &err), &err);
                *early = r.limit;
            }
            if (now - begun >= 1000000000 * p->seconds) {
                need(fby_loader_report(loader, &r, &err), &err);
                fby_report window = r;
                if (epoch > 0)
                    need(fby_report_since(&window, &settled, &err), &err);
                (void)printf("samples_per_second %.1f\nrate %.1f\nfirst_epoch_limit ", rate(&window),
                             1e9 * (double)window.samples / (double)window.elapsed_ns);
                fby_epoch first = {.size = sizeof first};
                need(fby_loader_epoch(loader, 0, &first, &err), &err);
                (void)printf("%s\nepochs %" PRIu64 "\n", fby_limit_name(first.limit), epoch + 1);
                return r;
            }
        }
        if (status != FBY_END)
            need(status, &err);
    }
}

int main(int argc, char **argv)
{
    plan p = {.batch = 1024, .seconds = 4};
    fby_dataset *ds;
    fby_samples *samples = NULL;
    fby_loader *loader;
    fby_error err = {0};
    fby_limit early;
    if (argc < 2)
        return 2;
    for (int i = 2; i < argc; i++)
        parse(&p, argv[i]);
    const fby_open_opts open = {.size = sizeof open};
    need(fby_dataset_open(&(fby_source){.path = argv[1]}, 1, &open, &ds, &err), &err);
    if (p.group) {
        const fby_samples_opts groups = {.size = sizeof groups, .kind = FBY_SAMPLES_GROUPS, .key = p.group};
        need(fby_samples_open(ds, &groups, &samples, &err), &err);
    }
    size_t n;
    const char **columns = columns_of(fby_dataset_schema(ds), p.group, &n);
    const fby_output x = {.name = "x",
                          .columns = columns,
                          .n_columns = n,
                          .keep_axis = true,
                          .dtype = FBY_FLOAT32,
                          .layout = p.group ? FBY_LAYOUT_PADDED : FBY_LAYOUT_DENSE};
    const fby_loader_opts opts = {FBY_LOADER_SIZES,
                                  .outputs = &x,
                                  .n_outputs = 1,
                                  .samples = samples,
                                  .batch_size = p.batch,
                                  .memory_bytes = p.memory,
                                  .superbatch_samples = p.superbatch,
                                  .bucket_samples = p.buckets,
                                  .n_threads = (int)p.threads,
                                  .transform = p.transform_us || p.beside ? transform : NULL,
                                  .transform_user = &p,
                                  .transform_unchecked = true};
    need(fby_loader_open(ds, &opts, &loader, &err), &err);
    fby__io_set_fault(&(fby__io_fault){.delay_max_ns = 1000 * p.delay_us, .seed = 1});
    const fby_report r = run(loader, &p, &early);
    (void)printf("limit %s\nearly_limit %s\nconfidence %.3f\nreason %s\nverdict %s\nminimum %" PRIu64 "\nkeep_all %" PRIu64 "\n",
                 fby_limit_name(r.limit), fby_limit_name(early), r.confidence, r.reason, r.verdict, r.budget_minimum_bytes,
                 r.keep_all_bytes);
    for (uint32_t i = 0; i < r.n_cures; i++)
        (void)printf("cure %.3f %.1f %s\n", r.cures[i].factor, r.cures[i].samples_per_second, r.cures[i].change);
    fby_loader_close(loader);
    fby_samples_close(samples);
    fby_dataset_close(ds);
    free(columns);
    return 0;
}
