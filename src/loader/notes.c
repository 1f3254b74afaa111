/* What a colleague would ask about the outputs of a loader and its order, as sentences. Nothing here is an error. */
#include "loader/outputs_internal.h"

#include "base/checked.h"
#include "base/dtype.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_NOTES 8
#define MAX_NAMED 3  /* columns of one sort: then "and N more" */
#define MAX_READS 64 /* of the largest block, as diversity_files accepts */

typedef unsigned long long ull;

/* Columns that a note names, as text: "'a' (int64), 'b' (uint32) and 4 more". */
typedef struct named {
    char text[900];
    size_t n;
} named;

static void name_column(named *list, const char *path, const char *type)
{
    const size_t used = strlen(list->text);
    if (list->n++ < MAX_NAMED)
        (void)snprintf(list->text + used, sizeof list->text - used, "%s'%.150s' (%.60s)", list->n > 1 ? ", " : "", path, type);
}

static bool is_number(const fby_field *field)
{
    return field->kind == FBY_KIND_INT || field->kind == FBY_KIND_FLOAT || field->kind == FBY_KIND_BOOL;
}

static void end_names(named *list)
{
    const size_t used = strlen(list->text);
    if (list->n > MAX_NAMED)
        (void)snprintf(list->text + used, sizeof list->text - used, " and %zu more", list->n - MAX_NAMED);
}

static fby_status put_note(const fby__loader_source *in, fby_error *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A note on what is a source's own: in a mixture it names the source. */
static fby_status put_note(const fby__loader_source *in, fby_error *err, const char *fmt, ...)
{
    char text[1400]; /* as long as a note can be */
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return in->loader->sources.n > 1 ? fby__notes_put(&in->loader->outputs.notes, err, "source '%.200s': %s", in->name, text)
                                     : fby__notes_put(&in->loader->outputs.notes, err, "%s", text);
}

const char *fby_loader_note(const fby_loader *l, size_t i) { return fby__notes_at(&l->outputs.notes, i); }

static bool is_values(const fby_output *spec) { return spec->from == FBY_FROM_COLUMNS && !spec->make; }

/* How many of its columns, from the first on, an output shows the values of, row by row: as they are, computed with or chosen from. */
static size_t n_values(const fby_output *spec)
{
    if (spec->from != FBY_FROM_COLUMNS)
        return 0;
    switch (spec->make ? spec->make->kind : FBY_MAKE_NONE) {
    case FBY_MAKE_NONE:
    case FBY_MAKE_EXPRESSION:
    case FBY_MAKE_SELECT: return spec->n_columns;
    case FBY_MAKE_STANDARDIZE: return spec->n_columns - 1; /* the last is the key */
    default: return 0;
    }
}

/* Nothing was said of the steps. */
static bool has_whole_windows(const fby_output *spec)
{
    return n_values(spec) > 0 && !spec->one_step && !spec->step_begin && !spec->step_end;
}

/* A column of the target that the other output has too. What is computed from several columns shows only where all of them are. */
static const char *shared_column(const fby_output *whole, const fby_output *target)
{
    const char *shared = NULL;
    size_t n = 0;
    for (size_t k = 0; k < n_values(target); k++)
        for (size_t i = 0; i < n_values(whole); i++)
            if (strcmp(whole->columns[i], target->columns[k]) == 0) {
                shared = shared ? shared : target->columns[k];
                n++;
                break;
            }
    return target->make && target->make->kind == FBY_MAKE_EXPRESSION && n < target->n_columns ? NULL : shared;
}

/* The last steps of a column are asked for by themselves, and are in an output for which no steps were named: the target is in the input. */
static fby_status note_covered(fby__loader_source *in, const fby__plan_output *whole, const fby__plan_output *target, fby_error *err)
{
    const unsigned long long length = fby_samples_max_rows(in->samples), begin = target->step, end = begin + target->n_steps;
    const char *column = shared_column(whole->spec, target->spec);
    char steps[64];
    if (!column)
        return FBY_OK;
    if (target->n_steps > 1)
        (void)snprintf(steps, sizeof steps, "steps %llu to %llu", begin, end - 1);
    else
        (void)snprintf(steps, sizeof steps, "step %llu", begin);
    return put_note(in, err,
                    "output '%.200s' takes all %llu steps of a window, and with them those of '%.200s' that output '%.200s' asks for, "
                    "%s of %llu: write .steps(0, %llu) (of a pipeline file: steps: [0, %llu]) if that is the target, or with 0 and "
                    "%llu if it is meant",
                    whole->spec->name, length, column, target->spec->name, steps, length, begin, begin, length);
}

/* Stacked columns of several types become float32 where nobody named a dtype: large integers are rounded. Dates are small ones. */
static fby_status note_rounded(fby__loader_source *in, const fby__plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    named wide = {0};
    bool floats = false;
    if (!is_values(spec) || spec->dtype != FBY_DTYPE_NONE || o->dtype != FBY_FLOAT32 || fby__computes(spec))
        return FBY_OK;
    for (size_t i = 0; i < spec->n_columns; i++) {
        const fby_dtype stored = o->stored[i];
        floats |= fby__dtype_is_float(stored);
        if (!fby__dtype_is_float(stored) && fby_dtype_bytes(stored) >= 4 && in->columns[o->column[i]].leaf->kind != FBY_KIND_DATE)
            name_column(&wide, spec->columns[i], fby_dtype_name(stored));
    }
    if (wide.n == 0)
        return FBY_OK;
    end_names(&wide);
    return put_note(in, err,
                    "output '%.200s' stacks columns of different types as float32, which rounds integers above 16777216 (2^24): %s. "
                    "If there are such values, write .cast(\"%s\") (of a pipeline file: dtype: %s); .cast(\"float32\") says that they "
                    "are small, or need no more digits",
                    spec->name, wide.text, floats ? "float64" : "int64", floats ? "float64" : "int64");
}

fby_status fby__loader_note_optional(fby__loader_source *in, const char *name, const char *why, fby_error *err)
{
    in->loader->outputs.n_left_out++;
    return put_note(in, err, "output '%.200s' is optional, and left out of all batches: %.900s", name, why);
}

fby_status fby__loader_note_left_out(fby__loader_source *in, const fby_field *const *fields, size_t n, fby_error *err)
{
    named list = {0};
    const fby_field *inside = NULL; /* a field of structs in a list, which can be an output */
    for (size_t i = 0; i < n; i++) {
        char type[160];
        (void)fby_field_type_text(fields[i], type, sizeof type);
        name_column(&list, fields[i]->path, type);
        const fby_field *child = fields[i]->kind == FBY_KIND_LIST ? &fields[i]->children[0] : NULL;
        for (uint32_t k = 0; !inside && child && child->kind == FBY_KIND_STRUCT && k < child->n_children; k++)
            if (is_number(&child->children[k]))
                inside = &child->children[k];
    }
    if (n == 0)
        return FBY_OK;
    end_names(&list);
    return put_note(in, err,
                    "without outputs, batches have every column that can be a tensor, and %s cannot: read %s through "
                    "Arrow%s%.200s%s",
                    list.text, n == 1 ? "it" : "them", inside ? ", or name a field in outputs, such as '" : "", inside ? inside->path : "",
                    inside ? "'" : "");
}

/* Streams divide the batch: with another batch there would be more of them. Half of the default is as good. */
static fby_status note_streams(fby_loader *l, const fby_loader_opts *opts, fby_error *err)
{
    const uint64_t wanted = opts->streams ? opts->streams : 8, used = fby__plan_streams(l->plan);
    const fby__shuffle shuffle = fby__plan_shuffle(l->plan);
    if (used >= wanted || (!opts->streams && 2 * used >= wanted) || opts->batch_elements || opts->bucket_samples ||
        fby__plan_whole_streams(l->plan) || (shuffle != FBY__SHUFFLE_SUPERBATCH && shuffle != FBY__SHUFFLE_BLOCK))
        return FBY_OK;
    const uint64_t world = fby__plan_world_size(l->plan), size = opts->batch_size ? opts->batch_size : l->config.batch_size;
    uint64_t step = 1; /* the least batch_size that keeps them */
    while (step * world % wanted != 0)
        step++;
    const uint64_t below = size / step * step;
    char sizes[64];
    if (below)
        (void)snprintf(sizes, sizeof sizes, "%llu or %llu", (ull)below, (ull)(below + step));
    else
        (void)snprintf(sizes, sizeof sizes, "%llu", (ull)step);
    return fby__notes_put(
        &l->outputs.notes, err,
        "the order has %llu stream%s, not %llu: their number divides a batch over all ranks, here of %llu samples. Fewer "
        "streams mix fewer blocks in a batch, and wait at the end of each superbatch: batch_size %s keeps %llu, streams=%llu "
        "says that this is meant",
        (ull)used, used == 1 ? "" : "s", (ull)wanted, (ull)(size * world), sizes, (ull)wanted, (ull)used);
}

/* A cap on batches from a superbatch cuts blocks into slices, and each is a read. */
static fby_status note_slices(fby_loader *l, const fby_loader_opts *opts, fby_error *err)
{
    const uint64_t slice = fby__plan_slice_samples(l->plan);
    uint64_t largest = 0;
    for (uint32_t b = 0; b < l->memory.n_blocks; b++)
        largest = fby__max_u64(largest, l->memory.cost[b].most);
    const uint64_t reads = slice ? fby__div_up_u64(largest, slice) : 0;
    if (!opts->max_superbatch_batches || reads <= MAX_READS)
        return FBY_OK;
    const uint64_t share = fby__max_u64(1, l->config.batch_size / fby__plan_own_streams(l->plan));
    const uint64_t enough =
        2 + 2 * fby__div_up_u64(largest, MAX_READS) / share; /* phases of two slices, which then are a 64th of a block */
    return fby__notes_put(
        &l->outputs.notes, err,
        "max_superbatch_batches=%llu cuts the largest block (%llu samples) into %llu slices, which are read one by one, and "
        "read and decoded anew each time unless all blocks fit into memory: %llu or more, larger batches or smaller row "
        "groups make it at most %d",
        (ull)opts->max_superbatch_batches, (ull)largest, (ull)reads, (ull)enough, MAX_READS);
}

/* Parts of more files than there are do not divide an epoch. */
static fby_status note_part(fby_loader *l, fby_error *err)
{
    if (!fby__plan_part_is_all(l->plan))
        return FBY_OK;
    return fby__notes_put(&l->outputs.notes, err,
                          "part=\"%u files\" is more files than there are with samples: every epoch is all of them, one part",
                          l->config.asked.part_files);
}

fby_status fby__loader_notes_order(fby_loader *l, const fby_loader_opts *opts, fby_error *err)
{
    FBY__TRY(note_part(l, err));
    FBY__TRY(note_streams(l, opts, err));
    return note_slices(l, opts, err);
}

fby_status fby__loader_notes_make(fby__loader_source *in, const fby__plan_output *outputs, size_t n, fby_error *err)
{
    fby_loader *l = in->loader;
    const size_t most = MAX_NOTES + l->outputs.n_left_out; /* of all sources together */
    for (size_t i = 0; i < n && l->outputs.notes.n < most; i++)
        FBY__TRY(note_rounded(in, &outputs[i], err));
    if (fby_samples_kind(in->samples) != FBY_SAMPLES_WINDOWS)
        return FBY_OK;
    for (size_t i = 0; i < n; i++) {
        const fby__plan_output *target = &outputs[i];
        if (n_values(target->spec) == 0 || target->step == 0 || target->step + target->n_steps != fby_samples_max_rows(in->samples))
            continue;
        for (size_t k = 0; k < n && l->outputs.notes.n < most; k++)
            if (has_whole_windows(outputs[k].spec))
                FBY__TRY(note_covered(in, &outputs[k], target, err));
    }
    return FBY_OK;
}
