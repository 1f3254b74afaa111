/*
 * Options as data: what each option struct holds, for bindings, documentation and tools. YAML keys, the Python package's arguments and what a
 * state is compared by all come from these tables, and so can another language's.
 *
 *     const fby_option *o;
 *     for (size_t i = 0; (o = fby_option_at(FBY_OPTIONS_LOADER, i)); i++)
 *         if (o->flags & FBY_OPTION_IN_FILE)
 *             printf("%s: %s\n", o->name, o->help);
 *
 * Where a function says nothing else: Threads: any. Blocks: no. What it returns is static.
 */
#ifndef FOREBAY_OPTIONS_H
#define FOREBAY_OPTIONS_H

#include <forebay/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** X(enum, name, struct). "op", "make", "channel" and "after" have only the words of their enums. */
#define FBY_OPTION_SET_LIST(X)                                                                                                             \
    X(FBY_OPTIONS_OPEN, "open", fby_open_opts)                                                                                             \
    X(FBY_OPTIONS_WINDOWS, "windows", fby_samples_opts)                                                                                    \
    X(FBY_OPTIONS_GROUPS, "groups", fby_samples_opts)                                                                                      \
    X(FBY_OPTIONS_SELECT, "select", fby_select_opts)                                                                                       \
    X(FBY_OPTIONS_SPLIT, "split", fby_split_opts)                                                                                          \
    X(FBY_OPTIONS_OVERSAMPLE, "oversample", fby_oversample_opts)                                                                           \
    X(FBY_OPTIONS_RESAMPLE, "resample", fby_resample_opts)                                                                                 \
    X(FBY_OPTIONS_LOOKUP, "lookup", fby_lookup_opts)                                                                                       \
    X(FBY_OPTIONS_FIT, "fit", fby_fit_opts)                                                                                                \
    X(FBY_OPTIONS_PIPELINE, "pipeline", fby_pipeline_opts)                                                                                 \
    X(FBY_OPTIONS_LOADER, "loader", fby_loader_opts)                                                                                       \
    X(FBY_OPTIONS_STATE, "state", fby_loader_state)                                                                                        \
    X(FBY_OPTIONS_REPORT, "report", fby_report)                                                                                            \
    X(FBY_OPTIONS_OUTPUT, "output", fby_output)                                                                                            \
    X(FBY_OPTIONS_OP, "op", fby_op)                                                                                                        \
    X(FBY_OPTIONS_MAKE, "make", fby_make)                                                                                                  \
    X(FBY_OPTIONS_BITS, "bits", fby_make_bits)                                                                                             \
    X(FBY_OPTIONS_CHANNEL, "channel", fby_channel)                                                                                         \
    X(FBY_OPTIONS_AFTER, "after", fby_after)                                                                                               \
    X(FBY_OPTIONS_CURE, "cure", fby_cure)                                                                                                  \
    X(FBY_OPTIONS_EPOCH, "epoch", fby_epoch)                                                                                               \
    X(FBY_OPTIONS_ONE_HOT, "one_hot", fby_make_one_hot)                                                                                    \
    X(FBY_OPTIONS_MAP, "map", fby_make_map)                                                                                                \
    X(FBY_OPTIONS_NGRAMS, "ngrams", fby_make_ngrams)                                                                                       \
    X(FBY_OPTIONS_MAKE_LOOKUP, "make_lookup", fby_make_lookup)                                                                             \
    X(FBY_OPTIONS_EXPRESSION, "expression", fby_make_expression)                                                                           \
    X(FBY_OPTIONS_MAKE_STANDARDIZE, "make_standardize", fby_make_standardize)                                                              \
    X(FBY_OPTIONS_SYMMETRIC, "symmetric", fby_make_symmetric)                                                                              \
    X(FBY_OPTIONS_GROUP_CHANNELS, "group_channels", fby_make_group_channels)                                                               \
    X(FBY_OPTIONS_CROP, "crop", fby_make_crop)                                                                                             \
    X(FBY_OPTIONS_SEQUENCE_MASK, "sequence_mask", fby_make_sequence_mask)                                                                  \
    X(FBY_OPTIONS_AXES, "axes", fby_make_select)                                                                                           \
    X(FBY_OPTIONS_TIME, "time", fby_make_time)                                                                                             \
    X(FBY_OPTIONS_SPEC_AUGMENT, "spec_augment", fby_after_spec_augment)                                                                    \
    X(FBY_OPTIONS_PACK, "pack", fby_pack_opts)                                                                                             \
    X(FBY_OPTIONS_MIX, "mix", fby_mix)                                                                                                     \
    X(FBY_OPTIONS_SOURCE_REPORT, "source_report", fby_source_report)                                                                       \
    X(FBY_OPTIONS_RAGGED, "ragged", fby_output)                                                                                            \
    X(FBY_OPTIONS_PADDED, "padded", fby_output)

typedef enum fby_option_set {
#define FBY_OPTION_SET_ENUM(set, name, type) set,
    FBY_OPTION_SET_LIST(FBY_OPTION_SET_ENUM)
#undef FBY_OPTION_SET_ENUM
        FBY_OPTION_SETS
} fby_option_set;

/** The C type of a field. */
typedef enum fby_option_type {
    FBY_OPTION_BOOL,   /* bool */
    FBY_OPTION_U32,    /* uint32_t */
    FBY_OPTION_U64,    /* uint64_t */
    FBY_OPTION_INT,    /* int */
    FBY_OPTION_I64,    /* int64_t */
    FBY_OPTION_DOUBLE, /* double */
    FBY_OPTION_BYTES,  /* uint64_t: a size such as 8GiB */
    FBY_OPTION_CHOICE, /* an enum of 4 bytes: the place of a word in `choices` */
    FBY_OPTION_TEXT,   /* const char * */
    FBY_OPTION_PATH,   /* const char *: of a file or directory */
    FBY_OPTION_TEXTS,  /* const char *const *, their number at `also` */
    FBY_OPTION_PATHS,  /* the same of paths */
    FBY_OPTION_CHARS,  /* char[most]: a text in the struct itself */
    FBY_OPTION_OTHER   /* anything else */
} fby_option_type;

#define FBY_OPTION_IN_FILE 1u       /* a key of pipeline files */
#define FBY_OPTION_IN_PYTHON 2u     /* an argument of the Python package */
#define FBY_OPTION_ORDER 4u         /* the order of the samples depends on it: a state goes on only where it is the same */
#define FBY_OPTION_OF_SUPERBATCH 8u /* of a state: only with shuffle SUPERBATCH */
#define FBY_OPTION_LATER 16u        /* of a state: those of older libraries may lack it; 0 stands for it */

/** One option, or one field of a state or report. Static; fields are only ever added at the end. */
typedef struct fby_option {
    const char *name;  /* in pipeline files, in Python, in what is printed: "threads" */
    const char *field; /* in the struct: "n_threads" */
    fby_option_type type;
    uint32_t flags; /* FBY_OPTION_IN_FILE … */
    size_t offset;  /* of the field in the struct */
    size_t also;    /* 0, or the offset of the number of TEXTS and PATHS (size_t), else of the bool that says the option is given */
    int64_t least;  /* of numbers that are given; DOUBLE: 1 = above 0, 0 = any */
    uint64_t most;  /* of numbers; 0 = what the type holds. CHARS: bytes, the NUL included */
    const char *const *choices; /* CHOICE: NULL-terminated. OTHER, PATHS: NULL, or words that are allowed as well */
    const char *fallback;       /* the default: a number or word, or a description */
    const char *form;           /* NULL: written as its type. Else how it is written; one form may fill several fields of the same name */
    const char *help;           /* one line */
} fby_option;

/** Field i of a set, in no order that anyone may rely on; NULL past the last, and for what is no set. Threads: any. Since: 0.2 */
FBY_API const fby_option *fby_option_at(fby_option_set set, size_t i);
/** "loader"; NULL for what is no set. Static. Threads: any. Since: 0.2 */
FBY_API const char *fby_option_set_name(fby_option_set set);
/** "fby_loader_opts"; NULL for what is no set. Static. Threads: any. Since: 0.2 */
FBY_API const char *fby_option_set_struct(fby_option_set set);

/**
 * A size as people write it: "8GiB", "512 MB". GiB is 2^30 and GB is 10^9; "8G" is refused as ambiguous, and so is "8".
 *
 * FBY_E_ARG says what to write. *out_bytes is untouched on failure. Threads: any. Blocks: no. Since: 0.2
 */
FBY_API fby_status fby_size_parse(const char *text, uint64_t *out_bytes, fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
