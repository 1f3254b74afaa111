/*
 * How the tables of options are written: a row a field. Each row's macro checks the C type of its field, so a table cannot drift from its
 * struct; tools/options.py checks that no field is left out.
 */
#ifndef FBY_OPTIONS_TABLE_H
#define FBY_OPTIONS_TABLE_H

#include <forebay/options.h>

#include <stddef.h>

/* The tables, each ended by a row without a name. */
extern const fby_option fby__open_table[], fby__windows_table[], fby__groups_table[], fby__select_table[], fby__split_table[],
    fby__oversample_table[], fby__resample_table[], fby__lookup_table[], fby__fit_table[], fby__pipeline_table[], fby__loader_table[],
    fby__state_table[], fby__report_table[], fby__cure_table[], fby__epoch_table[], fby__output_table[], fby__op_table[], fby__make_table[],
    fby__bits_table[], fby__channel_table[], fby__after_table[], fby__one_hot_table[], fby__map_table[], fby__ngrams_table[],
    fby__make_lookup_table[], fby__expression_table[], fby__make_standardize_table[], fby__symmetric_table[], fby__group_channels_table[],
    fby__crop_table[], fby__sequence_mask_table[], fby__axes_table[], fby__time_table[], fby__spec_augment_table[], fby__pack_table[],
    fby__mix_table[], fby__source_report_table[], fby__ragged_table[], fby__padded_table[];

#define IN_FILE FBY_OPTION_IN_FILE
#define IN_PYTHON FBY_OPTION_IN_PYTHON
#define BOTH (IN_FILE | IN_PYTHON)
#define ORDER FBY_OPTION_ORDER
#define LATER FBY_OPTION_LATER

/* The offset of a field; no program where its type is another one. */
#define FBY__FIELD(m) (((STRUCT *)0)->m)
#define FBY__AT(m, type) (offsetof(STRUCT, m) + 0 * sizeof(char[__builtin_types_compatible_p(__typeof__(FBY__FIELD(m)), type) ? 1 : -1]))

#define FBY__ROW(word, m, type_, ctype, flags_, fallback_, help_, ...)                                                                     \
    {                                                                                                                                      \
        .name = (word), .field = #m, .type = (type_), .flags = (flags_), .offset = FBY__AT(m, ctype), .fallback = (fallback_),             \
        .help = (help_), __VA_ARGS__                                                                                                       \
    }

/* STRUCT is defined before each table. */
#define OPT_BOOL(word, m, flags, help) FBY__ROW(word, m, FBY_OPTION_BOOL, bool, flags, "false", help, .form = NULL)
#define OPT_U32(word, m, flags, from, fallback, help) FBY__ROW(word, m, FBY_OPTION_U32, uint32_t, flags, fallback, help, .least = (from))
#define OPT_U64(word, m, flags, from, fallback, help) FBY__ROW(word, m, FBY_OPTION_U64, uint64_t, flags, fallback, help, .least = (from))
#define OPT_INT(word, m, flags, from, to, fallback, help)                                                                                  \
    FBY__ROW(word, m, FBY_OPTION_INT, int, flags, fallback, help, .least = (from), .most = (to))
#define OPT_DOUBLE(word, m, flags, fallback, help) FBY__ROW(word, m, FBY_OPTION_DOUBLE, double, flags, fallback, help, .form = NULL)
#define OPT_GIVEN_DOUBLE(word, m, has, flags, fallback, help)                                                                              \
    FBY__ROW(word, m, FBY_OPTION_DOUBLE, double, flags, fallback, help, .also = FBY__AT(has, bool))
#define OPT_BYTES(word, m, flags, fallback, help) FBY__ROW(word, m, FBY_OPTION_BYTES, uint64_t, flags, fallback, help, .least = 1)
#define OPT_TEXT(word, m, flags, fallback, help) FBY__ROW(word, m, FBY_OPTION_TEXT, const char *, flags, fallback, help, .form = NULL)
#define OPT_PATH(word, m, flags, fallback, help) FBY__ROW(word, m, FBY_OPTION_PATH, const char *, flags, fallback, help, .form = NULL)
#define OPT_TEXTS(word, m, n, flags, fallback, help)                                                                                       \
    FBY__ROW(word, m, FBY_OPTION_TEXTS, const char *const *, flags, fallback, help, .also = FBY__AT(n, size_t))
#define OPT_PATHS(word, m, n, flags, words, fallback, help)                                                                                \
    FBY__ROW(word, m, FBY_OPTION_PATHS, const char *const *, flags, fallback, help, .also = FBY__AT(n, size_t), .choices = (words))
#define OPT_CHOICE(word, m, type, flags, words, fallback, help)                                                                            \
    FBY__ROW(word, m, FBY_OPTION_CHOICE, type, flags, fallback, help, .choices = (words))
#define OPT_CHARS(word, m, flags, help)                                                                                                    \
    FBY__ROW(word, m, FBY_OPTION_CHARS, __typeof__(FBY__FIELD(m)), flags, "", help, .most = sizeof FBY__FIELD(m))
/* A field of a plain type that a form of its own fills. */
#define OPT_FORM(word, m, type_, ctype, flags, form_, fallback, help, ...)                                                                 \
    FBY__ROW(word, m, type_, ctype, flags, fallback, help, .form = (form_), __VA_ARGS__)
#define OPT_OTHER(word, m, flags, form_, fallback, help)                                                                                   \
    FBY__ROW(word, m, FBY_OPTION_OTHER, __typeof__(FBY__FIELD(m)), flags, fallback, help, .form = (form_))
#define OPT_END                                                                                                                            \
    {                                                                                                                                      \
        .name = NULL                                                                                                                       \
    }

#endif
