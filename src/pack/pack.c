/* All tasks of a pack in one process: see pack_impl.h. */
#include "base/cancel.h"
#include "base/clock.h"
#include "base/sized.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_NS 100000000u

fby_status fby__pack_tick(fby__pack *p, fby_error *err)
{
    const uint64_t now = fby__now_ns();
    if (p->o->progress && now - p->last_progress_ns >= PROGRESS_NS) {
        p->last_progress_ns = now;
        p->o->progress(p->o->progress_user, atomic_load_explicit(&p->done, memory_order_relaxed), p->total, p->doing);
    }
    return fby__cancel_check(err);
}

fby_status fby__pack_begin_doing(fby__pack *p, const char *doing, fby_error *err)
{
    p->doing = doing;
    p->last_progress_ns = 0;
    return fby__pack_tick(p, err);
}

void fby__pack_fini(fby__pack *p)
{
    if (p->schema.release)
        p->schema.release(&p->schema);
    if (p->lock >= 0)
        (void)close(p->lock); /* which lets go of the lock */
    fby__pack_pipeline_close(p->pipeline);
    fby__pack_keys_free(p->keys);
    fby__free(p->bucket_begin);
    fby__free(p->writes.first);
    fby__free(p->cuts.of_scatter);
    fby__free(p->sums);
    fby__free(p->to);
    fby__free(p->work);
    fby__buf_fini(&p->plan);
    fby__buf_fini(&p->words.columns);
    fby__pack_attributes_fini(&p->attributes);
}

void fby__pack_inform(const fby__pack *p, fby_pack_info *info)
{
    const bool scattered = p->scattered;
    *info = (fby_pack_info){.size = sizeof *info,
                            .rows = p->rows,
                            .files = p->n_files,
                            .rows_per_file = p->rows_per_file,
                            .batch_rows = p->batch_rows,
                            .source_bytes = fby_dataset_stored_bytes(p->ds),
                            .decoded_bytes = (uint64_t)((double)p->rows * p->row_bytes),
                            .passes = scattered ? 2 : 1,
                            .buckets = scattered ? p->n_buckets : 0,
                            .written_bytes = p->written_bytes,
                            .resumed = p->resumed,
                            .verified = *p->rows_hash != 0,
                            .keys = p->keys ? p->keys->n : 0};
    if (scattered)
        info->scratch_bytes = info->decoded_bytes + 4 * p->rows;
    (void)snprintf(info->contents, sizeof info->contents, "%s", fby__dataset_contents(p->ds));
    memcpy(info->rows_hash, p->rows_hash, sizeof p->rows_hash);
    memcpy(info->note, p->attributes.note, sizeof p->attributes.note);
}

static bool all_files_there(const fby__pack *p)
{
    for (uint64_t i = 0; i < p->n_files; i++)
        if (!fby__pack_has_file(p, i))
            return false;
    return true;
}

static fby_status run_phase(fby__pack *p, const fby__pack_phase_ops *phase, uint64_t n, fby_error *err)
{
    return n ? fby__pack_crew_run(p, phase, 0, n, err) : FBY_OK;
}

fby_status fby__pack_end(fby__pack *p, bool finished, fby_error *err)
{
    if (p->o->verify) /* before anything has a final name */
        FBY__TRY(fby__pack_verify(p, p->rows_hash, err));
    if (!finished) {
        FBY__TRY(fby__pack_describe(p, true, err));
        FBY__TRY(fby__pack_folder_finish(p, err));
    }
    p->written_bytes = fby__pack_written_bytes(p);
    return FBY_OK;
}

fby_status fby__pack_init(fby__pack *p, fby_dataset *ds, const char *to, const fby_pack_opts *opts, bool by_tasks, fby_error *err)
{
    *p = (fby__pack){.ds = ds, .o = opts, .by_tasks = by_tasks, .lock = -1};
    size_t n = strlen(to);
    while (n > 1 && to[n - 1] == '/')
        n--;
    p->to = fby__strndup(to, n);
    p->work = p->to ? fby__format("%s/.forebay-pack", p->to) : NULL;
    if (!p->work)
        return fby__fail_nomem(err, "a pack");
    if (opts->loader)
        FBY__TRY(fby__pack_pipeline_open(ds, opts->loader, &p->pipeline, err));
    FBY__TRY(fby__pack_layout(p, err));
    FBY__TRY(fby__pack_say(p, err));
    return fby__pack_describe(p, false, err);
}

static fby_status make(fby__pack *p, fby_error *err)
{
    bool finished;
    p->total = p->rows * ((p->scattered ? 2 : 1) + (p->o->verify ? 2 : 0));
    FBY__TRY(fby__pack_folder_begin(p, &finished, err));
    if (!finished && !all_files_there(p)) {
        FBY__TRY(run_phase(p, &fby__pack_scatter_phase, fby__pack_scatter_count(p), err));
        FBY__TRY(run_phase(p, &fby__pack_write_phase, fby__pack_write_count(p), err));
    }
    return fby__pack_end(p, finished, err);
}

fby_status fby__pack_check_call(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_pack_opts *out, fby_error *err)
{
    fby__error_clear(err);
    if (!ds || !to || !*to)
        return fby__fail(err, FBY_E_ARG, "no %s", ds ? "folder to pack into" : "data set");
    FBY__TRY(fby__dataset_check_process(ds, err));
    if (fby__dataset_io_engine(ds) == FBY_IO_NULL)
        return fby__fail(err, FBY_E_ARG, "the data set was opened with io 'null', which reads nothing: a pack of it would hold no values");
    return opts ? FBY__SIZED_IN(fby_pack_opts, progress_user, opts, out, err) : FBY_OK;
}

fby_status fby_pack(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_pack_info *out, fby_error *err)
{
    fby__pack p;
    fby_pack_opts o = {.size = sizeof o};
    fby_pack_info info = {.size = sizeof info};
    FBY__TRY(fby__pack_check_call(ds, to, opts, &o, err));
    fby_status status = fby__pack_init(&p, ds, to, &o, false, err);
    if (status == FBY_OK)
        status = o.dry_run ? fby__pack_folder_check(&p, err) : make(&p, err);
    if (status == FBY_OK)
        fby__pack_inform(&p, &info);
    if (status == FBY_OK && o.dry_run)
        status = fby__pack_forecast(&p, &info, err);
    fby__pack_fini(&p);
    if (status == FBY_OK && out)
        status = FBY__SIZED_OUT(fby_pack_info, rows_hash, &info, out, err);
    return status;
}
