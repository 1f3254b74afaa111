/* Options of mixtures. */
#include "options/table.h"

#include <forebay/mix.h>

static const char *const STOP[] = {"first", "all", "samples", NULL};

#define STRUCT fby_mix
const fby_option fby__mix_table[] = {
    OPT_OTHER("sources", sources, BOTH, "a map of names to sources, see below", "needed", "what is mixed"),
    OPT_OTHER("sources", n_sources, 0, "", "", "how many"),
    OPT_OTHER("weights", weights, BOTH, "a map of all sources to numbers, or a list of such maps, one for each epoch",
              "the numbers of samples", "how often each source comes relative to the others; 0 leaves one out"),
    OPT_OTHER("weights", n_epochs, 0, "", "", "for how many epochs"),
    OPT_FORM(
        "stop", stop, FBY_OPTION_CHOICE, fby_mix_stop, BOTH, "first, all, or a number of samples", "first",
        "an epoch ends before the first source would have no sample left; when every sample of every source came; after so many samples",
        .choices = STOP),
    OPT_FORM("stop", n_samples, FBY_OPTION_U64, uint64_t, BOTH, "first, all, or a number of samples", "first", "after so many samples",
             .least = 1),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_source_report
#define COUNT(member, help) OPT_U64(#member, member, IN_PYTHON, 0, "", help)
#define FIGURE(member, help) OPT_DOUBLE(#member, member, IN_PYTHON, "", help)
const fby_option fby__source_report_table[] = {
    OPT_TEXT("name", name, IN_PYTHON, "", "of the source"),
    COUNT(samples, "handed out"),
    COUNT(bytes_read, "of its files"),
    COUNT(wait_ns, "the program's, for batches of which this source's samples were decoded last"),
    FIGURE(padding, "share of its rows of padded outputs that is padding"),
    FIGURE(samples_per_batch, "on average"),
    FIGURE(files_per_batch, "distinct ones, on average"),
    OPT_END,
};
#undef COUNT
#undef FIGURE
#undef STRUCT
