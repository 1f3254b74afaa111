/* The tables of options, handed out. */
#include "options/options.h"

#include "options/table.h"

#include <string.h>

static const char *const NAME[] = {
#define SET_NAME(set, name, type) [set] = (name),
    FBY_OPTION_SET_LIST(SET_NAME)};
static const char *const STRUCT_NAME[] = {
#define SET_STRUCT(set, name, type) [set] = #type,
    FBY_OPTION_SET_LIST(SET_STRUCT)};

static const fby_option *const TABLE[] = {
    [FBY_OPTIONS_OPEN] = fby__open_table,
    [FBY_OPTIONS_WINDOWS] = fby__windows_table,
    [FBY_OPTIONS_GROUPS] = fby__groups_table,
    [FBY_OPTIONS_SELECT] = fby__select_table,
    [FBY_OPTIONS_SPLIT] = fby__split_table,
    [FBY_OPTIONS_OVERSAMPLE] = fby__oversample_table,
    [FBY_OPTIONS_RESAMPLE] = fby__resample_table,
    [FBY_OPTIONS_LOOKUP] = fby__lookup_table,
    [FBY_OPTIONS_FIT] = fby__fit_table,
    [FBY_OPTIONS_PIPELINE] = fby__pipeline_table,
    [FBY_OPTIONS_LOADER] = fby__loader_table,
    [FBY_OPTIONS_STATE] = fby__state_table,
    [FBY_OPTIONS_REPORT] = fby__report_table,
    [FBY_OPTIONS_CURE] = fby__cure_table,
    [FBY_OPTIONS_EPOCH] = fby__epoch_table,
    [FBY_OPTIONS_OUTPUT] = fby__output_table,
    [FBY_OPTIONS_OP] = fby__op_table,
    [FBY_OPTIONS_MAKE] = fby__make_table,
    [FBY_OPTIONS_BITS] = fby__bits_table,
    [FBY_OPTIONS_CHANNEL] = fby__channel_table,
    [FBY_OPTIONS_AFTER] = fby__after_table,
    [FBY_OPTIONS_ONE_HOT] = fby__one_hot_table,
    [FBY_OPTIONS_MAP] = fby__map_table,
    [FBY_OPTIONS_NGRAMS] = fby__ngrams_table,
    [FBY_OPTIONS_MAKE_LOOKUP] = fby__make_lookup_table,
    [FBY_OPTIONS_EXPRESSION] = fby__expression_table,
    [FBY_OPTIONS_MAKE_STANDARDIZE] = fby__make_standardize_table,
    [FBY_OPTIONS_SYMMETRIC] = fby__symmetric_table,
    [FBY_OPTIONS_GROUP_CHANNELS] = fby__group_channels_table,
    [FBY_OPTIONS_CROP] = fby__crop_table,
    [FBY_OPTIONS_SEQUENCE_MASK] = fby__sequence_mask_table,
    [FBY_OPTIONS_AXES] = fby__axes_table,
    [FBY_OPTIONS_TIME] = fby__time_table,
    [FBY_OPTIONS_SPEC_AUGMENT] = fby__spec_augment_table,
    [FBY_OPTIONS_PACK] = fby__pack_table,
    [FBY_OPTIONS_MIX] = fby__mix_table,
    [FBY_OPTIONS_SOURCE_REPORT] = fby__source_report_table,
    [FBY_OPTIONS_RAGGED] = fby__ragged_table,
    [FBY_OPTIONS_PADDED] = fby__padded_table,
};

const fby_option *fby__option_table(fby_option_set set) { return TABLE[set]; }

const fby_option *fby_option_at(fby_option_set set, size_t i)
{
    const fby_option *o = (unsigned)set < FBY_OPTION_SETS ? TABLE[set] : NULL;
    for (; o && o->name && i > 0; i--)
        o++;
    return o && o->name ? o : NULL;
}

const char *fby_option_set_name(fby_option_set set) { return (unsigned)set < FBY_OPTION_SETS ? NAME[set] : NULL; }

const char *fby_option_set_struct(fby_option_set set) { return (unsigned)set < FBY_OPTION_SETS ? STRUCT_NAME[set] : NULL; }

size_t fby__option_bytes(const fby_option *o)
{
    switch (o->type) {
    case FBY_OPTION_BOOL: return sizeof(bool);
    case FBY_OPTION_U32:
    case FBY_OPTION_CHOICE: return sizeof(uint32_t);
    case FBY_OPTION_INT: return sizeof(int);
    case FBY_OPTION_U64:
    case FBY_OPTION_BYTES: return sizeof(uint64_t);
    case FBY_OPTION_I64: return sizeof(int64_t);
    case FBY_OPTION_DOUBLE: return sizeof(double);
    case FBY_OPTION_TEXT:
    case FBY_OPTION_PATH:
    case FBY_OPTION_TEXTS:
    case FBY_OPTION_PATHS: return sizeof(const char *);
    case FBY_OPTION_CHARS: return o->most;
    case FBY_OPTION_OTHER: break;
    }
    return 0;
}

void fby__state_asked(const fby_loader_opts *opts, fby_loader_state *out)
{
    for (const fby_option *to = fby__state_table; to->name; to++) {
        const fby_option *from = fby__loader_table;
        while (from->name && strcmp(from->field, to->field) != 0)
            from++;
        if (from->name && (to->flags & LATER))
            memcpy((char *)out + to->offset, (const char *)opts + from->offset, fby__option_bytes(to));
    }
}
