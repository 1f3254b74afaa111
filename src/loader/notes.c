/* What a colleague would ask about the outputs of a loader, as sentences. Nothing here is an error. */
#include "loader/outputs_internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_NOTES 8

const char *fby_loader_note(const fby_loader *l, size_t i) { return fby__notes_at(&l->outputs.notes, i); }

static bool is_values(const fby_output *spec) { return spec->from == FBY_FROM_COLUMNS && !spec->make; }

/* Nothing was said of the steps. */
static bool takes_whole_windows(const fby_output *spec)
{
    return is_values(spec) && !spec->one_step && !spec->step_begin && !spec->step_end;
}

static const char *shared_column(const fby_output *a, const fby_output *b)
{
    for (size_t i = 0; i < a->n_columns; i++)
        for (size_t k = 0; k < b->n_columns; k++)
            if (strcmp(a->columns[i], b->columns[k]) == 0)
                return a->columns[i];
    return NULL;
}

/* The last steps of a column are asked for by themselves, and are in an output for which no steps were named: the target is in the input. */
static fby_status note_covered(fby_loader *l, const fby__plan_output *whole, const fby__plan_output *target, fby_error *err)
{
    const unsigned long long length = fby_samples_max_rows(l->samples), begin = target->step, end = begin + target->n_steps;
    const char *column = shared_column(whole->spec, target->spec);
    char steps[64];
    if (!column)
        return FBY_OK;
    if (target->n_steps > 1)
        (void)snprintf(steps, sizeof steps, "steps %llu to %llu", begin, end - 1);
    else
        (void)snprintf(steps, sizeof steps, "step %llu", begin);
    return fby__notes_put(
        &l->outputs.notes, err,
        "output '%.200s' takes all %llu steps of a window, and with them those of '%.200s' that output '%.200s' asks for, "
        "%s of %llu: write .steps(0, %llu) (of a pipeline file: steps: [0, %llu]) if that is the target, or with 0 and "
        "%llu if it is meant",
        whole->spec->name, length, column, target->spec->name, steps, length, begin, begin, length);
}

fby_status fby__loader_notes_make(fby_loader *l, const fby__plan_output *outputs, size_t n, fby_error *err)
{
    if (fby_samples_kind(l->samples) != FBY_SAMPLES_WINDOWS)
        return FBY_OK;
    for (size_t i = 0; i < n; i++) {
        const fby__plan_output *target = &outputs[i];
        if (!is_values(target->spec) || target->step == 0 || target->step + target->n_steps != fby_samples_max_rows(l->samples))
            continue;
        for (size_t k = 0; k < n && l->outputs.notes.n < MAX_NOTES; k++)
            if (takes_whole_windows(outputs[k].spec))
                FBY__TRY(note_covered(l, &outputs[k], target, err));
    }
    return FBY_OK;
}
