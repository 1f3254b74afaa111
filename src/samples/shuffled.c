/*
 * Do rows follow one another as they did in the source? Not in a pack that was shuffled, which says so in the metadata of its files. Windows of
 * its rows would be of rows that never followed one another, and look like any other. The first file stands for all.
 */
#include "dataset/dataset.h"
#include "samples/samples_impl.h"

#include <forebay/contents.h>

#include <string.h>

/* Metadata that cannot be had say nothing: whoever reads the rows says what is wrong with the file. */
static fby_status is_shuffled(const fby_dataset *ds, bool *out, fby_error *err)
{
    fby_contents *said = NULL;
    *out = false;
    if (fby__dataset_file_count(ds) == 0 || !*fby__dataset_facts(ds, 0).name)
        return FBY_OK;
    const fby_status status = fby__dataset_said(ds, 0, &said, err);
    if (status == FBY_OK) {
        const fby_attribute *shuffle = fby_contents_attribute(said, "/", "forebay.shuffle");
        *out = shuffle && shuffle->strings && shuffle->n == 1 && strcmp(shuffle->strings[0], "full") == 0;
    }
    fby_contents_close(said);
    if (status == FBY_OK || status == FBY_E_NOMEM || status == FBY_E_BUDGET || status == FBY_E_CHANGED || status == FBY_E_CANCELLED)
        return status;
    fby__error_clear(err);
    return FBY_OK;
}

fby_status fby__shuffled_refuse(fby__sample_base *base, const fby_samples_opts *opts, fby_error *err)
{
    bool shuffled = false;
    /* Rows that are a step apart follow one another, and one row has none to follow. */
    if (base->kind == FBY_SAMPLES_ROWS || opts->step || (base->kind == FBY_SAMPLES_WINDOWS && base->length == 1))
        return FBY_OK;
    FBY__TRY(is_shuffled(base->ds, &shuffled, err));
    if (!shuffled)
        return FBY_OK;
    const char *name = fby__dataset_facts(base->ds, 0).name;
    if (base->kind == FBY_SAMPLES_WINDOWS && !opts->time)
        return fby__fail(
            err, FBY_E_ARG,
            "'%.300s' is a shuffled pack (its metadata say forebay.shuffle: full): rows that follow one another in it did not "
            "in its source, and windows would mix them. Pack with --shuffle none, and --by the column of a series, or pack the "
            "windows, with --outputs; of rows that were sorted since, name the column of their time",
            name);
    base->is_shuffled = true;
    return FBY_OK;
}

fby_status fby__shuffled_note(fby__sample_base *base, fby_error *err)
{
    if (!base->is_shuffled)
        return FBY_OK;
    return fby__notes_put(
        &base->notes, err, "'%.300s' is a shuffled pack (its metadata say forebay.shuffle: full): %s", fby__dataset_facts(base->ds, 0).name,
        base->kind == FBY_SAMPLES_GROUPS
            ? "the rows of a group are in another order than in its source. Pack with --shuffle none, or the groups, with "
              "--outputs, to keep it"
            : "without a step, windows are of rows whose times rise by chance, unless they were sorted since");
}
