/* Outputs, and the words of what they are made of. */
#include "options/options.h"
#include "options/table.h"

#include <forebay/loader.h>

const char *const fby__from_words[] = {"columns",     "is_missing", "is_null",   "sample_index", "row_index", "n_rows",
                                       "segment_ids", "lit",        "is_repeat", "source",       NULL};
const char *const fby__layout_words[] = {"auto", "dense", "ragged", "padded", NULL};
static const char *const OP[] = {"affine", "standardize", "clip", "log", "log10", "log1p", "fill_nan", "fill_missing", "fill_null", NULL};
const char *const fby__make_words[] = {"none",   "bits",          "one_hot",     "map",       "ngrams",
                                       "lookup", "expression",    "standardize", "symmetric", "group_channels",
                                       "crop",   "sequence_mask", "select",      "time",      NULL};
const char *const fby__encoding_words[] = {"auto", "text", "packed", "packed_little", "base64", NULL};
const char *const fby__channel_words[] = {"first_rows", "min", "max", "sum", "mean", "std", "count", "key", NULL};
const char *const fby__after_words[] = {"spec_augment", "channels_last", "forward_fill", "channels_first", NULL};
const char *const fby__keep_words[] = {"random", "first", NULL};
#define DTYPE_WORD(name, text, bytes, kind) text,
static const char *const DTYPE[] = {"none", FBY_DTYPE_LIST(DTYPE_WORD) NULL};

#define WORDS(words) (sizeof(words) / sizeof *(words)-1)
_Static_assert(WORDS(fby__from_words) == FBY_FROM_SOURCE + 1 && WORDS(fby__layout_words) == FBY_LAYOUT_PADDED + 1 &&
                   WORDS(OP) == FBY_OP_FILL_NULL + 1,
               "words");
_Static_assert(WORDS(fby__make_words) == FBY__N_MAKES && WORDS(fby__encoding_words) == FBY_BITS_BASE64 + 1 &&
                   WORDS(fby__after_words) == FBY_AFTER_CHANNELS_FIRST + 1,
               "words");
_Static_assert(WORDS(fby__channel_words) == FBY_CHANNEL_KEY + 1 && WORDS(fby__keep_words) == FBY_KEEP_FIRST + 1 &&
                   WORDS(DTYPE) == FBY_DTYPE_COUNT,
               "words");

#define STRUCT fby_output
const fby_option fby__output_table[] = {
    OPT_TEXT("name", name, IN_PYTHON, "needed", "what batches call it"),
    OPT_FORM("columns", columns, FBY_OPTION_TEXTS, const char *const *, BOTH, "a name, or a list, which keeps its axis", "none",
             "dotted paths, in the order they are stacked", .also = FBY__AT(n_columns, size_t)),
    OPT_CHOICE("from", from, fby_source_kind, BOTH, fby__from_words, "columns",
               "what it holds: masks are of the columns, the others of none"),
    OPT_BOOL("keep_axis", keep_axis, IN_PYTHON, "with one column: an axis of 1"),
    OPT_FORM("dtype", dtype, FBY_OPTION_CHOICE, fby_dtype, BOTH, "a dtype, or a dtype of times: `timestamp[ns]`, `duration[s]`",
             "the columns' own, or float32", "of the tensor; times are int64 in their unit", .choices = DTYPE),
    OPT_FORM("value", value, FBY_OPTION_DOUBLE, double, BOTH, "a number", "needed with `from: lit`", "of a literal"),
    OPT_BOOL("one_step", one_step, IN_PYTHON, "one row of each sample"),
    OPT_U64("step_begin", step_begin, IN_PYTHON, 0, "0", "of windows: the first row"),
    OPT_U64("step_end", step_end, IN_PYTHON, 0, "all", "of windows: the row behind the last"),
    OPT_OTHER("steps", step_end, IN_FILE, "`[begin, end]`", "all", "of windows: rows begin up to, not with, end"),
    OPT_OTHER("at", step_begin, IN_FILE, "a whole number", "all", "of windows: one row"),
    OPT_OTHER("first", one_step, IN_FILE, "true or false", "false", "of windows and groups: the first row"),
    OPT_OTHER("ops", ops, BOTH, "a list of operations", "none", "done to every value, in order"),
    OPT_OTHER("ops", n_ops, 0, "a list of operations", "", "their number"),
    OPT_OTHER("make", make, IN_PYTHON, "a make", "the values as they are", "what is made of the columns"),
    OPT_OTHER("column_ops", column_ops, BOTH, "columns with such lists, or a list of them", "none", "with a make, in place of ops"),
    OPT_OTHER("column_ops", n_column_ops, 0, "columns with such lists, or a list of them", "", "their numbers"),
    OPT_OTHER("reshape", reshape, BOTH, "a list of axes", "its own", "axes of one value; one may be -1"),
    OPT_OTHER("reshape", n_reshape, 0, "a list of axes", "", "their number"),
    OPT_OTHER("after", after, BOTH, "a list of operations on batches", "none", "done in place when a batch is built"),
    OPT_OTHER("after", n_after, 0, "a list of operations on batches", "", "their number"),
    OPT_CHOICE("layout", layout, fby_layout, BOTH, fby__layout_words, "auto", "how samples of several rows lie in a batch"),
    OPT_OTHER("ragged", layout, BOTH, "true, or `max_rows` and `keep`", "where lengths differ", "packed: values and offsets"),
    OPT_OTHER("padded", layout, BOTH, "true, or its options, below", "not padded", "brought to one length, with a mask"),
    OPT_OTHER("on", columns, IN_FILE, "a column, or a list of them", "needed with `lookup`", "of the key that is looked up"),
    OPT_OTHER("default", make, IN_FILE, "a number", "an error", "with `lookup`: of keys that are not in the table"),
    OPT_BOOL("optional", optional, BOTH, "left out when a column is not there"),
    OPT_END,
};
#undef STRUCT

/* Options of the layouts, which are in the struct of the output. */
#define STRUCT fby_output
#define MAX_ROWS                                                                                                                           \
    OPT_FORM("max_rows", max_rows, FBY_OPTION_U64, uint64_t, BOTH, NULL, "all", "of longer samples so many rows", .least = 1,              \
             .most = UINT32_MAX)
#define KEEP OPT_CHOICE("keep", keep, fby_keep_kind, BOTH, fby__keep_words, "random", "which rows longer samples keep")
const fby_option fby__ragged_table[] = {MAX_ROWS, KEEP, OPT_END};
const fby_option fby__padded_table[] = {
    MAX_ROWS,
    KEEP,
    OPT_DOUBLE("pad", pad, BOTH, "0", "the value where there is no row"),
    OPT_FORM("multiple_of", multiple_of, FBY_OPTION_U64, uint64_t, BOTH, NULL, "1", "the length is rounded up to a multiple of it",
             .least = 1, .most = UINT32_MAX),
    OPT_BOOL("to_max", pad_to_max, BOTH, "the length is max_rows in every batch"),
    OPT_BOOL("lengths", want_lengths, BOTH, "lengths with the values, not a mask"),
    OPT_END,
};
#undef STRUCT

/* Of those below, the words of their enums alone. */
#define KIND(type, member, words)                                                                                                          \
    {                                                                                                                                      \
        OPT_CHOICE(#member, member, type, 0, words, "", ""), OPT_END                                                                       \
    }
#define STRUCT fby_op
const fby_option fby__op_table[] = KIND(fby_op_kind, kind, OP);
#undef STRUCT
#define STRUCT fby_make
const fby_option fby__make_table[] = KIND(fby_make_kind, kind, fby__make_words);
#undef STRUCT
#define STRUCT fby_channel
const fby_option fby__channel_table[] = KIND(fby_channel_value, value, fby__channel_words);
#undef STRUCT
#define STRUCT fby_after
const fby_option fby__after_table[] = KIND(fby_after_kind, kind, fby__after_words);
#undef STRUCT
