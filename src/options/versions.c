/* Options with arrays in them, of programs that were compiled against another version of the headers. */
#include "options/options.h"

#include "base/sized.h"

#include <string.h>

/* What the first version of each element ends with. */
#define OUTPUT_LEAST FBY__SIZE_UP_TO(fby_output, pad)
#define OP_LEAST FBY__SIZE_UP_TO(fby_op, b_each)
#define MAKE_LEAST FBY__SIZE_UP_TO(fby_make, room)
#define AFTER_LEAST FBY__SIZE_UP_TO(fby_after, room)

static fby_status size_ops(const fby_op **ops, size_t n, size_t stride, fby__arena *arena, fby_error *err)
{
    const void *taken;
    FBY__TRY(fby__strided("fby_op", "op_size", *ops, n, stride, OP_LEAST, sizeof **ops, arena, &taken, err));
    *ops = taken;
    return FBY_OK;
}

static fby_status size_column_ops(const fby_loader_opts *sizes, fby_output *o, fby__arena *arena, fby_error *err)
{
    if (!o->column_ops || !o->n_column_ops || sizes->op_size == sizeof(fby_op))
        return FBY_OK;
    const fby_op **each = fby__arena_alloc(arena, (o->n_columns + 1) * sizeof *each);
    if (!each)
        return fby__fail_nomem(err, "the outputs");
    for (size_t c = 0; c < o->n_columns; c++) {
        each[c] = o->column_ops[c];
        FBY__TRY(size_ops(&each[c], o->n_column_ops[c], sizes->op_size, arena, err));
    }
    o->column_ops = each;
    return FBY_OK;
}

/* What an output points to. */
static fby_status size_pointers(const fby_loader_opts *sizes, fby_output *o, fby__arena *arena, fby_error *err)
{
    const void *taken;
    FBY__TRY(size_ops(&o->ops, o->n_ops, sizes->op_size, arena, err));
    FBY__TRY(size_column_ops(sizes, o, arena, err));
    FBY__TRY(fby__strided("fby_make", "make_size", o->make, 1, sizes->make_size, MAKE_LEAST, sizeof *o->make, arena, &taken, err));
    o->make = taken;
    FBY__TRY(fby__strided("fby_after", "after_size", o->after, o->n_after, sizes->after_size, AFTER_LEAST, sizeof *o->after, arena, &taken,
                          err));
    o->after = taken;
    return FBY_OK;
}

fby_status fby__loader_opts_in(const fby_loader_opts *from, fby_loader_opts *to, fby__arena *arena, fby_error *err)
{
    const void *taken;
    FBY__TRY(FBY__SIZED_IN(fby_loader_opts, batch_size, from, to, err));
    if (to->n_outputs == 0 || !to->outputs)
        return FBY_OK;
    FBY__TRY(fby__strided("fby_output", "output_size", to->outputs, to->n_outputs, to->output_size, OUTPUT_LEAST, sizeof *to->outputs,
                          arena, &taken, err));
    fby_output *outputs = fby__arena_alloc(arena, to->n_outputs * sizeof *outputs);
    if (!outputs)
        return fby__fail_nomem(err, "the outputs");
    memcpy(outputs, taken, to->n_outputs * sizeof *outputs);
    for (size_t i = 0; i < to->n_outputs; i++)
        FBY__TRY(size_pointers(to, &outputs[i], arena, err));
    to->outputs = outputs;
    to->output_size = sizeof(fby_output);
    to->op_size = sizeof(fby_op);
    to->make_size = sizeof(fby_make);
    to->after_size = sizeof(fby_after);
    return FBY_OK;
}

fby_status fby__fit_opts_in(const fby_fit_opts *from, fby_fit_opts *to, fby__arena *arena, fby_error *err)
{
    FBY__TRY(FBY__SIZED_IN(fby_fit_opts, n_columns, from, to, err));
    FBY__TRY(size_ops(&to->ops, to->n_ops, to->op_size, arena, err));
    to->op_size = sizeof(fby_op);
    return FBY_OK;
}

static fby_status check_names(const fby_mix *mix, fby_error *err)
{
    for (size_t i = 0; i < mix->n_sources; i++) {
        if (!mix->sources[i].name || !*mix->sources[i].name || !mix->sources[i].samples)
            return fby__fail(err, FBY_E_ARG, "source %zu of the mixture has no %s", i, mix->sources[i].samples ? "name" : "samples");
        for (size_t k = 0; k < i; k++)
            if (strcmp(mix->sources[k].name, mix->sources[i].name) == 0)
                return fby__fail(err, FBY_E_ARG, "two sources are named '%s'", mix->sources[i].name);
    }
    return FBY_OK;
}

fby_status fby__mix_in(const fby_mix *from, fby_mix *to, fby__arena *arena, fby_error *err)
{
    const void *taken;
    FBY__TRY(FBY__SIZED_IN(fby_mix, n_samples, from, to, err));
    if (to->n_sources == 0 || to->n_sources > FBY__MIX_MAX_SOURCES)
        return fby__fail(err, FBY_E_ARG, "a mixture of %zu sources: choose from 1 to %d", to->n_sources, FBY__MIX_MAX_SOURCES);
    if (!to->sources)
        return fby__fail(err, FBY_E_ARG, "a mixture of %zu sources, but its sources is NULL", to->n_sources);
    FBY__TRY(fby__strided("fby_mix_source", "source_size", to->sources, to->n_sources, to->source_size,
                          FBY__SIZE_UP_TO(fby_mix_source, n_outputs), sizeof *to->sources, arena, &taken, err));
    to->sources = taken;
    return check_names(to, err);
}
