/* forebay pack --outputs: what a pipeline file gives, in place of rows. */
#include "pack.h"

#include <errno.h>
#include <string.h>

static void add_note(cli_text *out, const char *option, const char *value)
{
    cli_text_add(out, "# ");
    cli_text_add(out, option);
    cli_text_add(out, " ");
    cli_text_add(out, value);
    cli_text_add(out, "\n");
}

/* The file, and what the command has in place of its values: what the pack says that it was made by. Python's packs say the same. */
static int read_text(const pack_options *o, const fby_pipeline *pipeline, cli_text *out)
{
    const char *usual = fby_pipeline_default_split(pipeline);
    const bool other_split = o->split && !(usual && strcmp(o->split, usual) == 0);
    char part[4097];
    size_t n;
    char last = '\n';
    FILE *file = fopen(o->outputs, "r");
    while (file && (n = fread(part, 1, sizeof part - 1, file)) > 0) {
        part[n] = 0;
        last = part[n - 1];
        cli_text_add(out, part);
    }
    const bool failed = !file || ferror(file);
    const int error = errno;
    if (file)
        (void)fclose(file); /* it was only read */
    if (failed)
        return cli_error(CLI_FAILED, NULL, "cannot read '%s': %s", o->outputs, strerror(error));
    if ((o->set.n || other_split) && last != '\n')
        cli_text_add(out, "\n");
    for (size_t i = 0; i < o->set.n; i++)
        add_note(out, "--set", o->set.items[i]);
    if (other_split)
        add_note(out, "--split", o->split);
    return CLI_CONTINUE;
}

/* The outputs, and the samples of the split. */
static fby_status take(fby_pipeline *pipeline, const char *split, fby_dataset **out_ds, fby_loader_opts *out, fby_error *err)
{
    fby_status status = fby_pipeline_dataset(pipeline, out_ds, err);
    if (status == FBY_OK)
        status = fby_pipeline_outputs(pipeline, out, err);
    return status == FBY_OK ? fby_pipeline_samples(pipeline, split, &out->samples, err) : status;
}

int pack_pipeline(const pack_options *o,
                  int (*pack)(fby_dataset *ds, const pack_options *o, const fby_loader_opts *loader, const char *text))
{
    fby_pipeline *pipeline = NULL;
    fby_dataset *ds = NULL;
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    fby_error err = {0};
    cli_text text = {0};
    const char *split = NULL;
    int code = cli_pipeline_open(&o->source, o->outputs, &o->set, &pipeline);
    if (code == CLI_CONTINUE && fby_pipeline_source(pipeline, 0, NULL))
        code = cli_error(CLI_USAGE, "pack each source, and mix the packs", "pack: '%s': mix: a mixture is not packed", o->outputs);
    if (code == CLI_CONTINUE && fby_pipeline_choose_split(pipeline, o->split, &split, &err) != FBY_OK)
        code = cli_error(CLI_USAGE, "--split with one of its splits", "%s", err.message);
    if (code == CLI_CONTINUE) {
        const fby_status status = take(pipeline, split, &ds, &opts, &err);
        cli_progress_end();
        code = status == FBY_OK ? read_text(o, pipeline, &text) : cli_pipeline_error(&err);
    }
    if (code == CLI_CONTINUE)
        code = pack(ds, o, &opts, cli_text_str(&text));
    cli_text_free(&text);
    fby_pipeline_close(pipeline);
    return code;
}
