/*
 * Windows: from the stretches of rows without a missing value to runs of starts, block by block.
 *
 *   series     |·······································|        starts lie on a grid: series_begin, + stride, + 2 stride …
 *   stretches  |----------|  |---------------|   |----|        a window lies wholly in one of them
 *   blocks     |             |             |                    a run of starts is cut where a block ends
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "samples/samples_impl.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

fby_status fby__stretches_add(fby__sample_base *base, const fby__stretch *t, fby_error *err)
{
    base->longest_stretch = fby__max_u64(base->longest_stretch, t->end - t->begin);
    if (t->end - t->begin < base->length)
        return FBY_OK;
    if (fby__grow((void **)&base->stretches, &base->cap_stretches, base->n_stretches + 1, sizeof *base->stretches) != 0)
        return fby__fail_nomem(err, "the windows");
    base->stretches[base->n_stretches++] = *t;
    return FBY_OK;
}

fby_status fby__stretches_of_files(fby__sample_base *base, fby_error *err)
{
    uint64_t row = 0;
    for (uint64_t f = 0; f < fby_dataset_file_count(base->ds); f++) {
        fby_file_info info = {.size = sizeof info};
        FBY__TRY(fby_dataset_file(base->ds, f, &info, err));
        base->longest_series = fby__max_u64(base->longest_series, info.rows);
        FBY__TRY(fby__stretches_add(base, &(fby__stretch){row, row + info.rows, row, row + info.rows, row, row + info.rows}, err));
        row += info.rows;
    }
    return FBY_OK;
}

/* The starts of windows within rows [lo, hi) of a series: how many, and the first one. */
static uint64_t starts_between(const fby__sample_base *base, uint64_t series_begin, uint64_t lo, uint64_t hi, uint64_t *out_first)
{
    if (hi < lo || hi - lo < base->length)
        return 0;
    uint64_t skipped = lo - series_begin, steps = fby__div_up_u64(skipped, base->stride), ahead;
    if (!fby__mul_u64_checked(steps, base->stride, &ahead) || ahead - skipped > hi - lo - base->length)
        return 0;
    *out_first = series_begin + ahead;
    return (hi - base->length - *out_first) / base->stride + 1;
}

static uint64_t starts_of(const fby_samples *s, const fby__stretch *t, uint64_t *out_first)
{
    uint64_t lo = t->begin, hi = t->end, rows = t->whole_end - t->whole_begin;
    if (s->is_time_split) {
        /* of a window, `ahead` rows may lie before the split and `behind` rows after it: all but the first one of the target */
        uint64_t ahead = s->at_target ? s->base->target : 0, behind = s->at_target ? s->base->length - 1 - ahead : 0;
        uint64_t from = t->whole_begin + fby__fraction_of(s->from, rows), to = t->whole_begin + fby__fraction_of(s->to, rows);
        lo = fby__max_u64(lo, from > ahead ? from - ahead : 0);
        hi = fby__min_u64(hi, to + behind);
    }
    return starts_between(s->base, t->series_begin, lo, hi, out_first);
}

void fby__dropped_count(const fby__sample_base *base, size_t first_stretch, uint64_t begin, uint64_t end, fby__dropped *io)
{
    uint64_t first = 0, kept = 0;
    const uint64_t all = starts_between(base, begin, begin, end, &first);
    for (size_t i = first_stretch; i < base->n_stretches; i++)
        kept += starts_between(base, begin, base->stretches[i].begin, base->stretches[i].end, &first);
    io->all += all;
    io->out += all - kept;
}

fby_status fby__dropped_note(fby__sample_base *base, fby_error *err)
{
    const fby__dropped *d = &base->dropped;
    char files[500] = "";
    if (d->out == 0)
        return FBY_OK;
    if (d->files)
        (void)snprintf(files, sizeof files, ", with them all of %u of %llu files, such as '%.400s'", d->files,
                       (unsigned long long)fby_dataset_file_count(base->ds), fby__dataset_facts(base->ds, d->first_file).name);
    return fby__notes_put(&base->notes, err, "drop_missing leaves out %llu of %llu windows%s", (unsigned long long)d->out,
                          (unsigned long long)d->all, files);
}

static bool is_in_key(const char *column, const fby_samples_opts *opts)
{
    bool found = opts->key && strcmp(column, opts->key) == 0;
    for (size_t i = 0; i < opts->n_more_keys && !found; i++)
        found = strcmp(column, opts->more_keys[i]) == 0;
    return found;
}

const char *fby__samples_times(const fby_dataset *ds, const fby_samples_opts *but)
{
    const fby_field *schema = fby_dataset_schema(ds);
    for (uint32_t i = 0; i < schema->n_children; i++) {
        const fby_field *field = &schema->children[i];
        if ((field->kind == FBY_KIND_DATE || field->kind == FBY_KIND_TIMESTAMP) && !(but && is_in_key(field->path, but)))
            return field->path;
    }
    return NULL;
}

fby_status fby__untimed_note(fby__sample_base *base, const fby_samples_opts *opts, fby_error *err)
{
    const bool exempt = base->kind != FBY_SAMPLES_WINDOWS || base->length == 1 || opts->time;
    const char *times = exempt ? NULL : fby__samples_times(base->ds, opts);
    if (!times)
        return FBY_OK;
    return fby__notes_put(
        &base->notes, err,
        "windows do not look at '%.200s': rows that follow one another are in one window, whatever time lies between them. If "
        "that is the time of the rows, name it as time, with a step, to leave out windows over gaps; with time alone a "
        "series ends where it does not rise",
        times);
}

static uint64_t end_of_block(const fby__block *b) { return b->first_row + (b->row_end - b->row_begin); }

fby_status fby__samples_windows(fby_samples *s, fby_error *err)
{
    const fby__sample_base *base = s->base;
    uint32_t n_blocks = fby__dataset_block_count(base->ds), b = 0;
    uint64_t total = 0, in_block = 0;
    s->run_at = fby__calloc((size_t)n_blocks + 1, sizeof *s->run_at);
    if (!s->run_at)
        return fby__fail_nomem(err, "the windows");
    for (size_t i = 0; i < base->n_stretches; i++) {
        FBY__TRY(fby__cancel_check_at(i, err));
        uint64_t row = 0, n = starts_of(s, &base->stretches[i], &row);
        while (n > 0) {
            const fby__block *block = fby__dataset_block(base->ds, b);
            while (row >= end_of_block(block)) { /* stretches are in order: so are the blocks of their starts */
                s->first[++b] = total;
                s->run_at[b] = s->n_runs;
                in_block = 0;
                block = fby__dataset_block(base->ds, b);
            }
            uint64_t here = fby__min_u64(n, fby__div_up_u64(end_of_block(block) - row, base->stride));
            if (!s->file_in || s->file_in[block->file]) {
                if (fby__grow((void **)&s->runs, &s->cap_runs, s->n_runs + 1, sizeof *s->runs) != 0)
                    return fby__fail_nomem(err, "the windows");
                s->runs[s->n_runs++] = (fby__start_run){row - block->first_row, in_block};
                in_block += here;
                total += here;
            }
            n -= here;
            row += here * base->stride;
        }
    }
    while (b < n_blocks) {
        s->first[++b] = total;
        s->run_at[b] = s->n_runs;
    }
    s->max_rows = base->length;
    return FBY_OK;
}
