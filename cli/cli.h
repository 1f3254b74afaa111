/*
 * What the commands share: option tables, text, terminal, tables, errors, exit codes.
 *
 * The command line uses the public API alone. It is a program, not the library: it may print and exit, and running out of
 * memory ends it with a message (the cli_ allocators never return NULL).
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <forebay/forebay.h>

#include <jansson.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130, CLI_CONTINUE = -1 };

/* --- text.c: growing strings, figures for people ----------------------------------------------------------------------- */

void *cli_alloc(size_t n); /* zeroed */
void *cli_realloc(void *p, size_t n);

/** A growing string. Zeroed = empty; data is NULL until something was added. */
typedef struct cli_text {
    char *data;
    size_t n, cap;
} cli_text;
void cli_text_add(cli_text *text, const char *s);
void cli_text_add_n(cli_text *text, const char *s, size_t n);
void cli_text_add_quoted(cli_text *text, const char *word); /* a word of a shell */
void cli_text_addf(cli_text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_text_addv(cli_text *text, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
/** Bytes of a string from a file, made safe for a terminal by fby_printable(). */
void cli_text_add_escaped(cli_text *text, const char *s, size_t n);
void cli_text_clear(cli_text *text); /* keeps the memory */
void cli_text_free(cli_text *text);
const char *cli_text_str(const cli_text *text); /* never NULL */

/*
 * What comes from files, paths and links passes here on its way to a terminal: through cli_table_add() and cli_error(), which see to it
 * themselves, else through this, which returns one of a ring of eight buffers. JSON needs it for bytes that are no UTF-8 alone.
 */
const char *cli_printable(const char *s);
json_t *cli_json_text(const char *s);

/** Columns that UTF-8 text takes on a terminal. */
size_t cli_width(const char *s);
/** Cut to `width` columns in place, "…" last. */
void cli_cut(cli_text *text, size_t width);

/*
 * Figures. Each call returns one of a ring of static buffers, enough for one printf.
 */
const char *cli_count(uint64_t n);       /* 1,234,567 */
const char *cli_size(uint64_t bytes);    /* 1.23 MB: decimal, as rates are */
const char *cli_memory(uint64_t bytes);  /* 512 MiB: binary, as budgets are given */
const char *cli_factor(double factor);   /* 1.23, 123 */
const char *cli_rate(double per_second); /* 1.23 M */
const char *cli_seconds(double seconds); /* 1.23 ms */

bool cli_parse_size(const char *s, uint64_t *out); /* 8GiB, 500MB, 1024 */
/** A budget: one of the three. */
typedef struct cli_memory_size {
    bool given, all;
    double fraction;
    uint64_t bytes;
} cli_memory_size;
bool cli_parse_memory(const char *s, cli_memory_size *out); /* a size, 70%, all */
bool cli_parse_count(const char *s, uint64_t *out);         /* 1000, 1_000, 1e6 */
bool cli_parse_seconds(const char *s, double *out);         /* 2, 1.5s, 20ms, 5m */
bool cli_parse_share(const char *s, double *out);           /* 10%, 0.1: from 0 to 1 */

/* --- term.c: colours, progress, errors ----------------------------------------------------------------------------------- */

extern const char *cli_bold, *cli_dim, *cli_red, *cli_green, *cli_yellow, *cli_plain; /* empty without a colour terminal */
void cli_term_init(void);
size_t cli_term_width(void); /* of standard output; 120 when it is no terminal */
double cli_now(void);        /* seconds, monotonic */

/** One line on standard error that replaces itself, made printable, at most ten times a second; nothing when that is no terminal. */
void cli_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_progress_end(void);

/** "forebay: error: …", then "  try: …" when `try` is not NULL, both made printable. Returns code. */
int cli_error(int code, const char *try, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** The same for an error of the library, with the next step its status implies. FBY_E_ARG is a usage error, all else is data. */
int cli_library_error(const fby_error *err);
/** The same for an error of a pipeline file, whose message has the place in it. */
int cli_pipeline_error(const fby_error *err);
int cli_print_json(json_t *root, int digits); /* steals root; CLI_OK, or CLI_FAILED when standard output is closed */

/* --- args.c: options as data --------------------------------------------------------------------------------------------- */

typedef enum cli_kind {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_LIST,   /* cli_list: comma-separated, may be repeated */
    CLI_EACH,   /* cli_list: may be repeated, commas and all */
    CLI_COUNT,  /* uint64_t, at least 1 */
    CLI_NUMBER, /* uint64_t */
    CLI_SIZE,   /* uint64_t bytes */
    CLI_MEMORY, /* cli_memory_size */
    CLI_TIME,   /* double seconds */
    CLI_SHARE,  /* double: 10% or 0.1 */
    CLI_CHOICE  /* int: the index of the word */
} cli_kind;

/* With a kind: one value or several between commas, a cli_list of their texts; each was checked, and cli_option_read() reads it. */
#define CLI_VARIED 64
/* The words of the option that a set of the library's has under the same name, which are its enum's. */
#define CLI_CHOICE_OF(set) (CLI_CHOICE | (int)(set) << 8)
/* What was put together so. */
#define CLI_KIND_OF(kind) ((cli_kind)((kind) & (CLI_VARIED - 1)))
#define CLI_SET_OF(kind) ((fby_option_set)((kind) >> 8))

typedef struct cli_list {
    char **items; /* owned */
    size_t n;
} cli_list;

typedef struct cli_option {
    const char *name;  /* long name; NULL ends a table */
    char letter;       /* 0 = none */
    int kind;          /* a cli_kind, or CLI_CHOICE_OF(), perhaps with CLI_VARIED */
    size_t offset;     /* of the value in the command's own struct */
    const char *value; /* how help calls the value; NULL for flags */
    const char *help;
    const char *const *choices; /* CLI_CHOICE: NULL-terminated; NULL otherwise */
} cli_option;

typedef struct cli_command {
    const char *name;
    const char *summary;  /* one line */
    const char *synopsis; /* "PATH… [options]" */
    const char *examples; /* shown first */
    const char *notes;    /* shown last: what the output means, the JSON; may be NULL */
    const cli_option *options;
    bool paths_optional; /* it does something without a PATH */
    int (*run)(const struct cli_command *command, int argc, char **argv);
} cli_command;

/** All of them, NULL-terminated. */
extern const cli_command *const cli_commands[];
extern const cli_command cli_inspect, cli_head, cli_bench, cli_plan, cli_advise, cli_pack, cli_report, cli_doctor;

/**
 * Parse argv[1…] into `values`; *out_paths are the other arguments, in order (they stay in argv).
 * CLI_CONTINUE to go on, else the code to exit with: help was printed, or a usage error.
 */
int cli_args_parse(const cli_command *command, int argc, char **argv, void *values, char ***out_paths, size_t *out_n_paths);
/** The kind alone. */
cli_kind cli_option_kind(const cli_option *o);
/** The words that it takes, NULL-terminated; none where it is no choice. */
const char *const *cli_option_words(const cli_option *o);
/** The words of an option of the library, by the numbers of its enum. */
const char *const *cli_words(fby_option_set set, const char *name);
const char *cli_shuffle_name(fby_shuffle_kind kind);
/** Read one of the texts of an option with CLI_VARIED, as its kind says; a CLI_TEXT borrows it. */
void cli_option_read(const cli_option *o, const char *text, void *at);
/** The most similar of `names` (NULL-terminated), or NULL when none is close. */
const char *cli_closest(const char *word, const char *const *names);
/** Does a shell pattern of `list` match? An empty list matches all. A pattern also selects what lies below what it matches. */
bool cli_list_match(const cli_list *list, const char *path);
void cli_list_free(cli_list *list);

/* What help and man pages both say; lines end with \n. In args.c. */
extern const char cli_path_text[], cli_exit_text[], cli_environment_text[], cli_examples_text[];

/* --- generate.c: man pages and shell completions; each returns the code to exit with ---------------------------------------- */

int cli_print_man(const char *name);          /* NULL: of the program, else of a command */
int cli_print_completions(const char *shell); /* NULL is an error */

/* --- source.c: the options by which every command opens a data set -------------------------------------------------------- */

typedef struct cli_source {
    bool json, immutable, no_cache;
    int missing_columns; /* fby_missing_columns */
    const char *cache_dir;
    int io; /* fby_io_engine */
    /* HDF5: how a file is seen as a table */
    bool stored_values;
    int missing_sources; /* fby_missing_sources */
    uint64_t memory;     /* of opening, and of what is read without a loader; 0 = half of what is free */
    bool quarter;        /* that is a quarter of what --memory says */
    const char *table, *axis, *external;
    uint64_t axes;
    /* CSV: COLUMN=DTYPE each; owned */
    cli_list dtypes;
} cli_source;

/** The row of commands that read without a loader, whose budget would be another one. */
#define CLI_MEMORY_DEFAULT ((uint64_t)1 << 30)
#define CLI_MEMORY_OPTION(type)                                                                                                            \
    {                                                                                                                                      \
        "memory", 'm', CLI_SIZE, offsetof(type, source.memory), "SIZE", "what opening and reading may hold (default: 1GiB)", NULL          \
    }

/** The rows every option table ends with; `type` is the command's struct, which has a member `source`. */
/* clang-format off */
#define CLI_SOURCE_OPTIONS(type)                                                                                                        \
    {"json", 0, CLI_FLAG, offsetof(type, source.json), NULL, "print one JSON object instead of text", NULL},                               \
    {"io", 0, CLI_CHOICE_OF(FBY_OPTIONS_OPEN), offsetof(type, source.io), "ENGINE", "how to read", NULL},                                   \
    {"immutable", 0, CLI_FLAG, offsetof(type, source.immutable), NULL, "the files will not change: allows --io mmap", NULL},               \
    {"missing-columns", 0, CLI_CHOICE_OF(FBY_OPTIONS_OPEN), offsetof(type, source.missing_columns), "HOW",                                 \
     "a column that some files lack", NULL},                                                                                               \
    {"cache-dir", 0, CLI_TEXT, offsetof(type, source.cache_dir), "DIR", "where the index cache lives (default: ~/.cache/forebay)", NULL},  \
    {"no-cache", 0, CLI_FLAG, offsetof(type, source.no_cache), NULL, "neither read nor write the index cache", NULL},                      \
    {"table", 0, CLI_TEXT, offsetof(type, source.table), "PATH",                                                                           \
     "HDF5: the table that holds this data set, or what is below this group", NULL},                                                       \
    {"axis", 0, CLI_TEXT, offsetof(type, source.axis), "AXIS",                                                                             \
     "HDF5: the axis that runs over rows, a number or a dimension's name", NULL},                                                          \
    {"axes", 0, CLI_COUNT, offsetof(type, source.axes), "N", "HDF5: cells: rows run over the first N axes together", NULL},                \
    {"stored-values", 0, CLI_FLAG, offsetof(type, source.stored_values), NULL,                                                             \
     "HDF5: leave _FillValue, scale_factor, add_offset alone", NULL},                                                                      \
    {"missing-sources", 0, CLI_CHOICE_OF(FBY_OPTIONS_OPEN), offsetof(type, source.missing_sources), "HOW",                                 \
     "HDF5: what stands for a source file that is missing", NULL},                                                                         \
    {"external", 0, CLI_TEXT, offsetof(type, source.external), "DIRS",                                                                     \
     "HDF5: a file may name others below DIR:DIR, or anywhere", NULL},                                                                     \
    {"dtype", 0, CLI_EACH, offsetof(type, source.dtypes), "COLUMN=DTYPE",                                                                  \
     "CSV: the type of a column (str, int64, float32, …); may be repeated", NULL},                                                         \
    {NULL, 0, CLI_FLAG, 0, NULL, NULL, NULL}
/* clang-format on */

/**
 * A command about one data set: parse the arguments into `values`, open as `source` (a member of it) says, with progress on a terminal, hand over
 * to `use`, close. One path that ends in .yaml stands for the data of that pipeline file.
 * What was put into lists stays the caller's to free. Returns the code to exit with.
 */
typedef int (*cli_use)(fby_dataset *ds, const void *values, char *const *paths, size_t n_paths);
int cli_source_run(const cli_command *command, int argc, char **argv, void *values, const cli_source *source, cli_use use);
/** The same when the arguments are parsed. */
int cli_source_use(const cli_source *source, char *const *paths, size_t n_paths, cli_use use, const void *values);

/** Does the name end in .yaml or .yml? */
bool cli_is_pipeline(const char *path);
/**
 * Read a pipeline file, with `set` (may be NULL) in place of its values, and progress on a terminal; prints the error and returns its exit code,
 * or CLI_CONTINUE. The list must outlive the call alone.
 */
int cli_pipeline_open(const cli_source *source, const char *path, const cli_list *set, fby_pipeline **out);

/** What a command that shows or measures takes: the split that is named, else the file's own choice, else the first; NULL of a file without splits. */
const char *cli_split(const fby_pipeline *pipeline, const char *named);

/** What is loaded: one data set, or those of a mixture. */
typedef struct cli_data {
    fby_dataset *const *each; /* borrowed, n of them */
    size_t n;
    fby_dataset **taken; /* owned: the list of a pipeline file's; NULL = it is the caller's */
} cli_data;
/** The data sets of a pipeline file: cli_data_free() in any case. `out` is zeroed before. */
fby_status cli_data_of(fby_pipeline *pipeline, cli_data *out, fby_error *err);
void cli_data_free(cli_data *data);
/** Sums over all data sets. */
uint64_t cli_data_rows(const cli_data *data);
uint64_t cli_data_files(const cli_data *data);
uint64_t cli_data_blocks(const cli_data *data);
uint64_t cli_data_stored_bytes(const cli_data *data);
/** What the format of the first file has so many of, "row groups"; NULL where files have no such thing. */
const char *cli_groups(const fby_dataset *ds, uint64_t n);

/* --- plan_sources.c: what an epoch has of each source of a mixture -------------------------------------------------------------- */

void cli_plan_sources_print(const cli_data *data, fby_loader *loader);
json_t *cli_plan_sources_json(const cli_data *data, fby_loader *loader);

/** What people call an output's layout: dense, packed, padded, text. In plan.c. */
const char *cli_layout_name(const fby_output_info *info);

/* --- inspect_contents.c: what an HDF5 file holds beyond its table; nothing for other formats ---------------------------------- */

int cli_contents_print(const fby_dataset *ds);
int cli_contents_json(const fby_dataset *ds, json_t *root);

/* --- inspect_pack.c: what a pack was made of; nothing for other files ---------------------------------------------------------- */

int cli_packed_print(const fby_dataset *ds);
int cli_packed_json(const fby_dataset *ds, json_t *root);

/* --- report_json.c ------------------------------------------------------------------------------------------------------------ */

#define CLI_REPORT_SCHEMA 1 /* of reports as JSON; Python's SCHEMA is the same */
/** A report of a loader, epochs included, as Python's Report.to_json() has it. */
json_t *cli_report_json(const fby_report *r, fby_loader *loader);

/* --- report.c ----------------------------------------------------------------------------------------------------------------- */

/**
 * Write a report as one HTML page. `file`: the report, or an object whose `report` it is; what else the page draws of that object
 * (batch_times, comparison) goes with it. CLI_OK, or the code of an error that was printed.
 */
int cli_page_write(json_t *file, const char *path);

/* --- table.c: aligned tables ------------------------------------------------------------------------------------------------ */

typedef struct cli_table {
    size_t n_columns, n_cells, cap;
    char **cells;     /* owned; row-major, the header is row 0 */
    bool *right;      /* numbers */
    size_t max_width; /* of a cell; longer ones are cut. 0 = any */
} cli_table;

void cli_table_init(cli_table *table, size_t n_columns);
void cli_table_fini(cli_table *table);
void cli_table_right(cli_table *table, size_t column);
/** Append a cell, made printable; after n_columns of them a new row begins. */
void cli_table_add(cli_table *table, const char *text);
void cli_table_addf(cli_table *table, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Columns two blanks apart, the header dim. */
void cli_table_print(const cli_table *table, FILE *out);
/** In a box, its first `header` rows above the line; columns that do not fit into `width` (0 = any) give way to one "…". */
void cli_table_print_box(const cli_table *table, size_t header, size_t width, FILE *out);

/* --- arrow_text.c: values of Arrow arrays ------------------------------------------------------------------------------------- */

/** The value in row i as a reader expects it, at most about `limit` bytes of it. `quoted`: inside a list or struct. */
void cli_arrow_text(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t i, size_t limit, bool quoted, cli_text *out);
/** The value as JSON: times as ISO 8601 text, binary as hex, decimals and what JSON numbers cannot hold as text. */
json_t *cli_arrow_json(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t i);
/** Shown to the right: numbers. */
bool cli_arrow_is_number(const struct ArrowSchema *schema);

#endif
