/* A pack from beginning to end: see pack_impl.h. */
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

fby_status fby__pack_read(fby__arrow_reader *reader, uint32_t block, struct ArrowArray *out, fby_error *err)
{
    const fby_status status = fby__arrow_reader_block(reader, block, out, err);
    if (status == FBY_E_BUDGET)
        fby__error_context(err, "packing reads with a quarter of its memory, and without a shuffle its threads share that");
    return status;
}

/* What is done from now on is said at once. */
static fby_status begin_phase(fby__pack *p, const char *doing, fby_error *err)
{
    p->doing = doing;
    p->last_progress_ns = 0;
    return fby__pack_tick(p, err);
}

static void pack_fini(fby__pack *p)
{
    if (p->schema.release)
        p->schema.release(&p->schema);
    for (size_t i = 0; i < p->n_scatters; i++)
        fby__free(p->scatters[i].segments);
    if (p->lock >= 0)
        (void)close(p->lock); /* which lets go of the lock */
    fby__free(p->scatters);
    fby__free(p->bucket_begin);
    fby__free(p->to);
    fby__free(p->work);
    fby__buf_fini(&p->plan);
    fby__buf_fini(&p->words.columns);
}

static void say(const fby__pack *p, fby_pack_info *info)
{
    const bool shuffled = p->order.shuffled;
    *info = (fby_pack_info){.size = sizeof *info,
                            .rows = p->rows,
                            .files = p->n_files,
                            .rows_per_file = p->rows_per_file,
                            .batch_rows = p->batch_rows,
                            .source_bytes = fby_dataset_stored_bytes(p->ds),
                            .decoded_bytes = (uint64_t)((double)p->rows * p->row_bytes),
                            .passes = shuffled ? 2 : 1,
                            .buckets = shuffled ? p->n_buckets : 0,
                            .resumed = p->resumed};
    if (shuffled)
        info->scratch_bytes = info->decoded_bytes + 4 * p->rows;
    (void)snprintf(info->contents, sizeof info->contents, "%s", fby__dataset_contents(p->ds));
}

static bool all_files_there(const fby__pack *p)
{
    for (uint64_t i = 0; i < p->n_files; i++)
        if (!fby__pack_has_file(p, i))
            return false;
    return true;
}

static fby_status write_files(fby__pack *p, fby_error *err)
{
    if (all_files_there(p))
        return FBY_OK;
    if (p->order.shuffled && p->rows) {
        FBY__TRY(begin_phase(p, "scattering", err));
        FBY__TRY(fby__pack_scatter_all(p, err));
    }
    FBY__TRY(begin_phase(p, "writing", err));
    return fby__pack_write_all(p, err);
}

static fby_status make(fby__pack *p, fby_pack_info *info, fby_error *err)
{
    bool finished;
    FBY__TRY(fby__pack_describe(p, false, err));
    FBY__TRY(fby__pack_folder_begin(p, &finished, err));
    if (!finished)
        FBY__TRY(write_files(p, err));
    if (p->o->verify) { /* before anything has a final name */
        FBY__TRY(begin_phase(p, "verifying", err));
        FBY__TRY(fby__pack_verify(p, p->rows_hash, err));
    }
    if (!finished) {
        FBY__TRY(fby__pack_describe(p, true, err));
        FBY__TRY(fby__pack_folder_finish(p, err));
    }
    say(p, info);
    info->written_bytes = fby__pack_written_bytes(p);
    info->verified = p->o->verify;
    memcpy(info->rows_hash, p->rows_hash, sizeof p->rows_hash);
    return FBY_OK;
}

static fby_status pack(fby__pack *p, const char *to, fby_pack_info *info, fby_error *err)
{
    size_t n = strlen(to);
    while (n > 1 && to[n - 1] == '/')
        n--;
    p->to = fby__strndup(to, n);
    p->work = p->to ? fby__format("%s/.forebay-pack", p->to) : NULL;
    if (!p->work)
        return fby__fail_nomem(err, "a pack");
    FBY__TRY(fby__pack_layout(p, err));
    FBY__TRY(fby__pack_say(p, err));
    p->total = p->rows * ((p->order.shuffled ? 2 : 1) + (p->o->verify ? 2 : 0));
    if (!p->o->dry_run)
        return make(p, info, err);
    say(p, info);
    return fby__pack_forecast(p, info, err);
}

fby_status fby_pack(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_pack_info *out, fby_error *err)
{
    fby_pack_opts o = {.size = sizeof o};
    fby_pack_info info = {.size = sizeof info};
    fby__error_clear(err);
    if (!ds || !to || !*to)
        return fby__fail(err, FBY_E_ARG, "no %s", ds ? "folder to pack into" : "data set");
    FBY__TRY(fby__dataset_check_process(ds, err));
    if (opts)
        FBY__TRY(FBY__SIZED_IN(fby_pack_opts, progress_user, opts, &o, err));
    fby__pack p = {.ds = ds, .o = &o, .lock = -1};
    fby_status status = pack(&p, to, &info, err);
    pack_fini(&p);
    if (status == FBY_OK && out)
        status = FBY__SIZED_OUT(fby_pack_info, rows_hash, &info, out, err);
    return status;
}
