/* Outputs, and the words of what they are made of. */
#include "options/options.h"
#include "options/table.h"

#include <forebay/loader.h>

const char *const fby__from_words[] = {"columns",     "is_missing", "is_null",   "sample_index", "row_index", "n_rows",
                                       "segment_ids", "lit",        "is_repeat", "source",       NULL};
const char *const fby__layout_words[] = {"auto", "dense", "ragged", "padded", NULL};
static const char *const OP[] = {"affine", "standardize", "clip", "log", "log10", "log1p", "fill_nan", "fill_missing", "fill_null", NULL};
static const char *const MAKE[] = {"none",   "bits",          "one_hot",     "map",       "ngrams",
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
_Static_assert(WORDS(MAKE) == FBY_MAKE_TIME + 1 && WORDS(fby__encoding_words) == FBY_BITS_BASE64 + 1 &&
                   WORDS(fby__after_words) == FBY_AFTER_CHANNELS_FIRST + 1,
               "words");
_Static_assert(WORDS(fby__channel_words) == FBY_CHANNEL_KEY + 1 && WORDS(fby__keep_words) == FBY_KEEP_FIRST + 1 &&
                   WORDS(DTYPE) == FBY_DTYPE_COUNT,
               "words");

#define STRUCT fby_output
const fby_option fby__output_table[] = {
    OPT_TEXT("name", name, IN_PYTHON, "needed", "what batches call it"),
    OPT_CHOICE("from", from, fby_source_kind, IN_PYTHON, fby__from_words, "columns", "what it holds"),
    OPT_TEXTS("columns", columns, n_columns, IN_PYTHON, "none", "dotted paths, in the order they are stacked"),
    OPT_BOOL("keep_axis", keep_axis, IN_PYTHON, "with one column: an axis of 1"),
    OPT_CHOICE("dtype", dtype, fby_dtype, IN_PYTHON, DTYPE, "the columns' own, or float32", "of the tensor"),
    OPT_CHOICE("layout", layout, fby_layout, IN_PYTHON, fby__layout_words, "auto", "how samples of several rows lie in a batch"),
    OPT_DOUBLE("value", value, IN_PYTHON, "0", "of a literal"),
    OPT_BOOL("one_step", one_step, IN_PYTHON, "one row of each sample"),
    OPT_U64("step_begin", step_begin, IN_PYTHON, 0, "0", "of windows: the first row"),
    OPT_U64("step_end", step_end, IN_PYTHON, 0, "all", "of windows: the row behind the last"),
    OPT_OTHER("ops", ops, IN_PYTHON, "operations", "none", "done to every value, in order"),
    OPT_OTHER("ops", n_ops, 0, "operations", "", "their number"),
    OPT_OTHER("make", make, IN_PYTHON, "a make", "the values as they are", "what is made of the columns"),
    OPT_OTHER("column_ops", column_ops, IN_PYTHON, "operations of each column", "none", "with a make, in place of ops"),
    OPT_OTHER("column_ops", n_column_ops, 0, "operations of each column", "", "their numbers"),
    OPT_OTHER("after", after, IN_PYTHON, "operations on batches", "none", "done in place when a batch is built"),
    OPT_OTHER("after", n_after, 0, "operations on batches", "", "their number"),
    OPT_OTHER("reshape", reshape, IN_PYTHON, "axes", "its own", "axes of one value"),
    OPT_OTHER("reshape", n_reshape, 0, "axes", "", "their number"),
    OPT_BOOL("optional", optional, IN_PYTHON, "left out when a column is not there"),
    OPT_U64("max_rows", max_rows, IN_PYTHON, 0, "all", "of longer samples so many rows"),
    OPT_U64("multiple_of", multiple_of, IN_PYTHON, 0, "1", "padded: the length is a multiple of it"),
    OPT_BOOL("pad_to_max", pad_to_max, IN_PYTHON, "padded: the length is max_rows always"),
    OPT_BOOL("want_lengths", want_lengths, IN_PYTHON, "padded: lengths, not a mask"),
    OPT_DOUBLE("pad", pad, IN_PYTHON, "0", "padded: where there is no row"),
    OPT_CHOICE("keep", keep, fby_keep_kind, IN_PYTHON, fby__keep_words, "random", "which rows longer samples keep"),
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
const fby_option fby__make_table[] = KIND(fby_make_kind, kind, MAKE);
#undef STRUCT
#define STRUCT fby_channel
const fby_option fby__channel_table[] = KIND(fby_channel_value, value, fby__channel_words);
#undef STRUCT
#define STRUCT fby_after
const fby_option fby__after_table[] = KIND(fby_after_kind, kind, fby__after_words);
#undef STRUCT
