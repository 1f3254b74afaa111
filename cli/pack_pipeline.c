/* forebay pack --outputs: what a pipeline file gives, in place of rows. */
#include "pack.h"

/* The outputs, the samples of the split, and what the pack says that it was made by. */
static fby_status take(fby_pipeline *pipeline, const char *split, fby_dataset **out_ds, fby_loader_opts *out, const char **out_text,
                       fby_error *err)
{
    fby_status status = fby_pipeline_dataset(pipeline, out_ds, err);
    if (status == FBY_OK)
        status = fby_pipeline_outputs(pipeline, out, err);
    if (status == FBY_OK)
        status = fby_pipeline_samples(pipeline, split, &out->samples, err);
    return status == FBY_OK ? fby_pipeline_text(pipeline, split, out_text, err) : status;
}

int pack_pipeline(const pack_options *o,
                  int (*pack)(fby_dataset *ds, const pack_options *o, const fby_loader_opts *loader, const char *text))
{
    fby_pipeline *pipeline = NULL;
    fby_dataset *ds = NULL;
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    fby_error err = {0};
    const char *split = NULL, *text = NULL;
    int code = cli_pipeline_open(&o->source, o->outputs, &o->set, &pipeline);
    if (code == CLI_CONTINUE && fby_pipeline_source(pipeline, 0, NULL))
        code = cli_error(CLI_USAGE, "pack each source, and mix the packs", "pack: '%s': mix: a mixture is not packed", o->outputs);
    if (code == CLI_CONTINUE && fby_pipeline_choose_split(pipeline, o->split, &split, &err) != FBY_OK)
        code = cli_error(CLI_USAGE, "--split with one of its splits", "%s", err.message);
    if (code == CLI_CONTINUE) {
        const fby_status status = take(pipeline, split, &ds, &opts, &text, &err);
        cli_progress_end();
        code = status == FBY_OK ? CLI_CONTINUE : cli_pipeline_error(&err);
    }
    if (code == CLI_CONTINUE)
        code = pack(ds, o, &opts, text);
    fby_pipeline_close(pipeline);
    return code;
}
