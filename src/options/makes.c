/* What outputs are made of: the struct of each kind (<forebay/make.h>), read from pipeline files and from Python by these tables. */
#include "options/options.h"
#include "options/table.h"

#include <forebay/make.h>

static const char *const UNIT[] = {"none", "s", "ms", "us", "ns", NULL};
_Static_assert(FBY_UNIT_S == 1 && FBY_UNIT_MS == 2 && FBY_UNIT_US == 3 && FBY_UNIT_NS == 4, "words");

#define STRUCT fby_make_bits
const fby_option fby__bits_table[] = {
    OPT_U64("n", n_bits, BOTH, 1, "what the column's type says", "of every value"),
    OPT_CHOICE("encoding", encoding, fby_bits_encoding, BOTH, fby__encoding_words, "auto", "how the column holds them"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_one_hot
const fby_option fby__one_hot_table[] = {
    OPT_U64("n_classes", n_classes, BOTH, 1, "needed", "values are whole numbers below it"),
    OPT_BOOL("ignore_unknown", ignore_unknown, BOTH, "other values give zeros"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_map
const fby_option fby__map_table[] = {
    OPT_OTHER("values", texts, IN_FILE, "texts or whole numbers", "needed without class_map", "what is mapped"),
    OPT_OTHER("values", numbers, IN_FILE, "texts or whole numbers", "", "the same as numbers"),
    OPT_OTHER("to", to, IN_FILE, "numbers", "each value's place", "what each is mapped to"),
    OPT_OTHER("to", n, IN_FILE, "numbers", "", "their number"),
    OPT_OTHER("class_map", texts, IN_FILE, "the name of an attribute, or true: `labels_json`", "none",
              "in place of values: the names of classes that the first file's root has, to their numbers"),
    OPT_OTHER("classes", to, IN_FILE, "`{quiet: [none], leak: [drip, burst]}`, `{none: 0, drip: 1}`", "its numbers",
              "with class_map: names to new classes"),
    OPT_GIVEN_DOUBLE("default", default_to, has_default, BOTH, "an error", "of other and missing values"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_ngrams
const fby_option fby__ngrams_table[] = {
    OPT_FORM("n", n, FBY_OPTION_U32, uint32_t, BOTH, NULL, "2", "characters of a gram, at most 8", .least = 1, .most = 8),
    OPT_FORM("vocabulary", vocabulary, FBY_OPTION_TEXTS, const char *const *, BOTH, "texts, or products of alphabets", "needed",
             "the grams, whose places are those of the output", .also = FBY__AT(n_vocabulary, size_t)),
    OPT_TEXT("separator", separator, BOTH, "nothing", "between the columns' texts"),
    OPT_TEXT("delete", delete_chars, BOTH, "nothing", "characters that are left out"),
    OPT_BOOL("lower", lower, BOTH, "in lower case"),
    OPT_BOOL("strip", strip, BOTH, "without white space at both ends"),
    OPT_BOOL("drop_spaces", drop_spaces, BOTH, "grams that hold a space are none"),
    OPT_TEXT("missing", missing, BOTH, "as pandas writes it", "the text of a missing value"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_lookup
const fby_option fby__make_lookup_table[] = {
    OPT_OTHER("table", table, 0, "a lookup", "needed", "what is looked up in"),
    OPT_OTHER("columns", columns, 0, "places in the table", "the key's place", "in the order they are stacked"),
    OPT_OTHER("columns", n_columns, 0, "places in the table", "", "their number"),
    OPT_BOOL("keep_axis", keep_axis, 0, "with one column: an axis of 1"),
    OPT_GIVEN_DOUBLE("default", default_value, has_default, 0, "an error", "of keys that are not in the table"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_expression
const fby_option fby__expression_table[] = {
    OPT_TEXT("text", text, 0, "needed", "of columns, numbers and functions"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_standardize
const fby_option fby__make_standardize_table[] = {
    OPT_OTHER("moments", moments, IN_FILE, "a name of moments", "needed without table", "means and deviations by key"),
    OPT_OTHER("table", moments, IN_FILE, "a lookup", "needed without moments", "of all columns the means, then the deviations"),
    OPT_OTHER("by", moments, IN_FILE, "a column", "that of the moments; needed with table", "of the key"),
    OPT_BOOL("keep_unknown", has_default, IN_FILE, "values of keys that are not there stay as they are"),
    OPT_GIVEN_DOUBLE("fill_nan", fill_nan, has_fill_nan, IN_FILE, "NaN", "of what is NaN after it"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_symmetric
const fby_option fby__symmetric_table[] = {
    OPT_U64("size", size, BOTH, 1, "the largest that the column has pairs for", "of the matrix"),
    OPT_BOOL("count_is_pairs", count_is_pairs, IN_FILE, "the second column counts pairs, not points"),
    OPT_GIVEN_DOUBLE("pad", pad, has_pad, BOTH, "none", "where it begins, pairs end"),
    OPT_U64("n_features", n_features, BOTH, 1, "those of the column's last axis", "of a pair"),
    OPT_BOOL("clip_count", clip_count, BOTH, "a count that is too large means all"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_group_channels
const fby_option fby__group_channels_table[] = {
    OPT_OTHER("channels", channels, IN_FILE, "channels", "needed without positions", "values of a subgroup"),
    OPT_OTHER("channels", n_channels, IN_FILE, "channels", "", "their number"),
    OPT_U32("first_rows", n_rows, BOTH, 0, "0", "rows of a subgroup whose features are channels"),
    OPT_U32("max_groups", max_groups, BOTH, 1, "needed", "subgroups that the output has room for"),
    OPT_DOUBLE("pad", pad, BOTH, "0", "where a subgroup or row is not there"),
    OPT_OTHER("positions", positions, IN_FILE, "a lookup", "none", "by the key: its columns come first"),
    OPT_BOOL("mask", mask, IN_FILE, "where there is a subgroup, instead"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_crop
const fby_option fby__crop_table[] = {
    OPT_U64("length", length, BOTH, 1, "needed", "rows, or places of the first axis"),
    OPT_BOOL("random", random, BOTH, "where it begins is drawn"),
    OPT_U64("begin", begin, BOTH, 0, "0", "where it begins otherwise"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_sequence_mask
const fby_option fby__sequence_mask_table[] = {
    OPT_U64("size", size, BOTH, 1, "needed", "places of the mask"),
    OPT_BOOL("clip_count", clip_count, BOTH, "a count that is too large means all"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_select
const fby_option fby__axes_table[] = {
    OPT_OTHER("axes", axes, 0, "places of each axis", "needed", "what is taken of them"),
    OPT_OTHER("axes", n_axes, 0, "places of each axis", "", "their number"),
    OPT_BOOL("of_last", of_last, 0, "they are the last axes"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_make_time
const fby_option fby__time_table[] = {
    OPT_BOOL("is_duration", is_duration, 0, "of durations, not dates or timestamps"),
    OPT_CHOICE("unit", unit, fby_unit, 0, UNIT, "needed", "that they are counted in"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_after_spec_augment
const fby_option fby__spec_augment_table[] = {
    OPT_U32("time_masks", n_time, BOTH, 0, "0", "masks of time"),
    OPT_U32("freq_masks", n_freq, BOTH, 0, "0", "masks of frequency"),
    OPT_U32("max_time", max_time, BOTH, 0, "0", "the widest mask of time"),
    OPT_U32("max_freq", max_freq, BOTH, 0, "0", "the widest mask of frequency"),
    OPT_INT("time_axis", time_axis, BOTH, -FBY_MAX_DIMS, FBY_MAX_DIMS, "-1", "the axis of time"),
    OPT_INT("freq_axis", freq_axis, BOTH, -FBY_MAX_DIMS, FBY_MAX_DIMS, "-2", "the axis of frequency"),
    OPT_DOUBLE("value", value, BOTH, "0", "what masked values become"),
    OPT_END,
};
#undef STRUCT
