/* Options of samples: windows, groups, and those that choose, split, repeat and draw. */
#include "options/table.h"

#include <forebay/samples.h>

static const char *const SPLIT[] = {"files", "time", "groups", "samples", NULL};
static const char *const KIND[] = {"rows", "windows", "groups", NULL};

#define CPUS "the CPUs this process may use"
#define KEY_FORM "a column, or a list of them"
#define VALUES_FORM "a list of numbers, texts or dates"

#define STRUCT fby_samples_opts
const fby_option fby__windows_table[] = {
    OPT_FORM("kind", kind, FBY_OPTION_CHOICE, fby_sample_kind, 0, "rows, windows or groups", "rows", "what a sample is", .choices = KIND),
    OPT_U64("input", input, BOTH, 0, "needed", "rows of a window's input"),
    OPT_U64("output", output, BOTH, 0, "0", "rows of its output"),
    OPT_U64("stride", stride, BOTH, 1, "1", "rows from one start to the next"),
    OPT_FORM("by", key, FBY_OPTION_TEXT, const char *, BOTH, "file, " KEY_FORM, "file",
             "what a series is: a file, or a run of rows with equal keys in one", .least = 0),
    OPT_FORM("by", more_keys, FBY_OPTION_TEXTS, const char *const *, BOTH, KEY_FORM, "", "the columns behind the first",
             .also = FBY__AT(n_more_keys, size_t)),
    OPT_TEXT("time", time, BOTH, "none", "a column of times or numbers; a series ends where it does not advance by `step`"),
    OPT_FORM("step", step, FBY_OPTION_I64, int64_t, BOTH,
             "`1 day`, `6 hours`, `10 min`, `30 s`, `20 ms`, `us`, `ns`, or a number in the column's unit", "it must only rise",
             "how far the time advances from row to row", .least = INT64_MIN),
    OPT_FORM("step", step_text, FBY_OPTION_TEXT, const char *, BOTH, "as words", "", "the same of a column of times", .least = 0),
    OPT_TEXTS("drop_missing", drop_missing, n_drop_missing, BOTH, "none",
              "windows with a missing value in one of these columns are left out"),
    OPT_INT("threads", n_threads, BOTH, 1, 4096, CPUS, "for reading the columns named here"),
    OPT_OTHER("progress", progress, IN_PYTHON, "true, or a function", "none", "called while they are read"),
    OPT_OTHER("progress", progress_user, 0, "", "", "handed to progress"),
    OPT_END,
};
const fby_option fby__groups_table[] = {
    OPT_FORM("key", key, FBY_OPTION_TEXT, const char *, BOTH, KEY_FORM, "needed without rows or table",
             "consecutive rows that agree in these columns are a group", .least = 0),
    OPT_FORM("key", more_keys, FBY_OPTION_TEXTS, const char *const *, BOTH, KEY_FORM, "", "the columns behind the first",
             .also = FBY__AT(n_more_keys, size_t)),
    OPT_U64("rows", rows, BOTH, 1, "by key", "each file is cut into groups of so many rows, in place of a key"),
    OPT_OTHER("table", table, BOTH, "a data set", "none", "an index table, with one row for each group"),
    OPT_TEXT("first", first, BOTH, "needed with table", "its column of a group's first row in its file, from 0"),
    OPT_TEXT("last", last, BOTH, "needed with table", "its column of a group's last row"),
    OPT_TEXT("file", file, BOTH, "the data set is one file",
             "its column of the file, or `batch_{batch_id}.parquet`: the name made of columns"),
    OPT_FORM("file_by", file_by_position, FBY_OPTION_BOOL, bool, BOTH, "name or position", "name",
             "whether `file` holds names, or places in the data set from 0", .least = 0),
    OPT_INT("threads", n_threads, BOTH, 1, 4096, CPUS, "for reading the columns named here"),
    OPT_OTHER("progress", progress, IN_PYTHON, "true, or a function", "none", "called while they are read"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_select_opts
const fby_option fby__select_table[] = {
    OPT_TEXT("column", column, BOTH, "the key", "the column whose value in a sample's first row decides"),
    OPT_OTHER("values", values, BOTH, VALUES_FORM, "the bounds decide", "the value is one of these"),
    OPT_OTHER("low", low, BOTH, "a number, or a date or time such as 2001-01-31T12:30", "none", "the value is this or above"),
    OPT_OTHER("high", high, BOTH, "a number, or a date or time", "none", "the value is below this"),
    OPT_BOOL("exclude", exclude, BOTH, "choose the others"),
    OPT_FORM("unknown", ignore_unknown, FBY_OPTION_BOOL, bool, BOTH, "error or ignore", "error", "values that no sample has", .least = 0),
    OPT_OTHER("table", table, BOTH, "a data set", "none", "a side table: its rows that satisfy the condition say which keys are chosen"),
    OPT_TEXT("table_key", table_key, IN_FILE, "as `column`", "its column of the keys"),
    OPT_TEXT("table_column", table_column, IN_FILE, "a row is enough", "its column that values and bounds are about"),
    OPT_INT("threads", n_threads, BOTH, 1, 4096, CPUS, "for reading the column"),
    OPT_OTHER("progress", progress, 0, "a function", "none", "called while it is read"),
    OPT_OTHER("progress", progress_user, 0, "", "", "handed to progress"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_split_opts
const fby_option fby__split_table[] = {
    OPT_FORM("by", kind, FBY_OPTION_CHOICE, fby_split_kind, BOTH, "files, time, samples, groups, or a column", "files, or of lists groups",
             "what splits do not share", .choices = SPLIT),
    OPT_FORM("by", column, FBY_OPTION_TEXT, const char *, BOTH, "a column", "", "of the keys", .least = 0),
    OPT_TEXT("stratify", stratify, BOTH, "none", "by samples: the column of a class, of which every split has its share"),
    OPT_TEXT("time", time, BOTH, "windows by their rows", "by time: the column of the time, of samples that are no windows"),
    OPT_FORM("at", at_target, FBY_OPTION_BOOL, bool, BOTH, "window or target", "window",
             "by time: a window is in the split that all of it lies in, or that its target begins in", .least = 0),
    OPT_U64("seed", seed, BOTH, 0, "0", "which files, keys or samples a fraction holds"),
    OPT_FORM("unknown", ignore_unknown, FBY_OPTION_BOOL, bool, BOTH, "error or ignore", "error", "listed keys that no sample has",
             .least = 0),
    OPT_INT("threads", n_threads, 0, 1, 4096, CPUS, "for reading the column"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_oversample_opts
const fby_option fby__oversample_table[] = {
    OPT_TEXT("column", column, BOTH, "the key", "holds the class, in a sample's first row"),
    OPT_OTHER("values", values, IN_FILE, VALUES_FORM, "needed", "classes"),
    OPT_OTHER("factors", factors, BOTH, "a whole number for each class", "needed", "how often its samples come; 0 leaves them out"),
    OPT_FORM("unknown", ignore_unknown, FBY_OPTION_BOOL, bool, BOTH, "error or ignore", "error", "classes that no sample has", .least = 0),
    OPT_INT("threads", n_threads, BOTH, 1, 4096, CPUS, "for reading the column"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_resample_opts
const fby_option fby__resample_table[] = {
    OPT_OTHER("weights", weights, IN_PYTHON, "a column, a mapping of classes, or a number for each sample", "needed",
              "what samples are drawn by"),
    OPT_TEXT("column", column, BOTH, "the key", "holds the weights, or, with class weights, the classes"),
    OPT_OTHER("values", values, IN_FILE, VALUES_FORM, "none", "classes; a sample of another one is an error"),
    OPT_OTHER("class_weights", class_weights, IN_FILE, "a number for each class", "none", "their weights"),
    OPT_U64("n", n, BOTH, 1, "as many as there are", "samples that come out"),
    OPT_U64("seed", seed, BOTH, 0, "0", "the same seed always draws the same"),
    OPT_INT("threads", n_threads, BOTH, 1, 4096, CPUS, "for reading the column"),
    OPT_BOOL("each_epoch", each_epoch, BOTH, "draw anew in every epoch"),
    OPT_END,
};
#undef STRUCT
