/*
 * Options as data: one table per command gives the parser and the help. getopt_long does the parsing, so that "--name=value",
 * "--name value", unambiguous abbreviations and "--" work as users expect.
 */
#include "cli.h"

#include <fnmatch.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 48, HELP_CODE = 256, FIRST_CODE = 257 };

const char cli_path_text[] = "PATH is a file, a directory, a quoted glob (\"b*.parquet\", \"**\" crosses directories) or a pattern whose\n"
                             "braces become columns (\"data/{region}/{id}.parquet\"). Several paths are one data set, in that order.\n";
const char cli_exit_text[] = "0 done; 1 the data or a file is at fault; 2 the command line is; 130 interrupted.\n";
const char cli_environment_text[] =
    "FOREBAY_CACHE, where the index cache lives; FOREBAY_LOG=info, what happens meanwhile; NO_COLOR, no colours.\n";
const char cli_examples_text[] =
    "  forebay inspect basins/                         what is in the files: columns, types, sizes, what is odd\n"
    "  forebay head basins/b001.parquet                the first rows\n"
    "  forebay bench \"basins/*.parquet\" --memory 1GiB  how fast batches come, and what limits them\n"
    "  forebay plan basins.yaml                        what a pipeline file gives, without training\n"
    "  forebay doctor                                  what this machine has, and what will be slow\n";

static void print_help(const cli_command *command)
{
    printf("%sforebay %s%s: %s\n\n", cli_bold, command->name, cli_plain, command->summary);
    printf("%sExamples%s\n%s\n", cli_bold, cli_plain, command->examples);
    printf("%sUsage%s\n  forebay %s %s\n\n%sOptions%s\n", cli_bold, cli_plain, command->name, command->synopsis, cli_bold, cli_plain);
    for (const cli_option *o = command->options; o->name; o++) {
        cli_text left = {0};
        if (o->letter)
            cli_text_addf(&left, "-%c, ", o->letter);
        cli_text_addf(&left, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-24s %s", cli_text_str(&left), o->help);
        const char *const *words = cli_option_words(o);
        for (size_t i = 0; words[i]; i++)
            printf("%s%s", i ? ", " : ": ", words[i]);
        fputc('\n', stdout);
        cli_text_free(&left);
    }
    printf("  %-24s %s\n", "-h, --help", "this text");
    if (command->notes)
        printf("\n%s", command->notes);
    if (!command->paths_optional)
        printf("\n%sPATH%s%s", cli_bold, cli_plain, cli_path_text + strlen("PATH"));
    printf("\n%sExit codes%s: %s", cli_bold, cli_plain, cli_exit_text);
}

/** The parts of a text between commas, or all of it as one. */
static void list_add(cli_list *list, const char *text, bool whole)
{
    while (*text) {
        size_t n = whole ? strlen(text) : strcspn(text, ",");
        if (n) {
            list->items = cli_realloc(list->items, (list->n + 1) * sizeof *list->items);
            char *item = cli_alloc(n + 1);
            memcpy(item, text, n);
            list->items[list->n++] = item;
        }
        text += n + (text[n] == ',');
    }
}

void cli_list_free(cli_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
    free(list->items);
    *list = (cli_list){0};
}

bool cli_list_match(const cli_list *list, const char *path)
{
    for (size_t i = 0; i < list->n; i++) {
        if (fnmatch(list->items[i], path, 0) == 0)
            return true;
        cli_text below = {0};
        cli_text_addf(&below, "%s.*", list->items[i]);
        bool match = fnmatch(cli_text_str(&below), path, 0) == 0;
        cli_text_free(&below);
        if (match)
            return true;
    }
    return list->n == 0;
}

static const char *const NO_WORDS[] = {NULL};

cli_kind cli_option_kind(const cli_option *o) { return CLI_KIND_OF(o->kind); }

/* "missing-columns" is the library's missing_columns. */
static bool has_name(const fby_option *o, const char *name)
{
    size_t i = 0;
    while (name[i] && (o->name[i] == name[i] || (o->name[i] == '_' && name[i] == '-')))
        i++;
    return !name[i] && !o->name[i];
}

const char *const *cli_words(fby_option_set set, const char *name)
{
    const fby_option *o;
    for (size_t i = 0; (o = fby_option_at(set, i)); i++)
        if (o->choices && has_name(o, name))
            return o->choices;
    return NO_WORDS;
}

const char *cli_shuffle_name(fby_shuffle_kind kind) { return cli_words(FBY_OPTIONS_LOADER, "shuffle")[kind]; }

const char *const *cli_option_words(const cli_option *o)
{
    if (cli_option_kind(o) != CLI_CHOICE)
        return NO_WORDS;
    return o->choices ? o->choices : cli_words(CLI_SET_OF(o->kind), o->name);
}

/** Read one argument of an option; false with what is expected instead. */
static bool parse(const cli_option *o, const char *arg, void *at, const char **expected)
{
    switch (cli_option_kind(o)) {
    case CLI_FLAG: *(bool *)at = true; return true;
    case CLI_TEXT: *(const char **)at = arg; return true;
    case CLI_LIST: list_add(at, arg, false); return true;
    case CLI_EACH: list_add(at, arg, true); return true;
    case CLI_COUNT:
        *expected = "a whole number from 1 on, such as 1000, 1_000 or 1e6";
        return cli_parse_count(arg, at) && *(const uint64_t *)at > 0;
    case CLI_NUMBER: *expected = "a whole number such as 1000, 1_000 or 1e6"; return cli_parse_count(arg, at);
    case CLI_SIZE: *expected = "a size such as 8GiB, 500MB or 1048576"; return cli_parse_size(arg, at);
    case CLI_MEMORY: *expected = "a size such as 8GiB, 500MB or 1048576, 70% of what is free, or all"; return cli_parse_memory(arg, at);
    case CLI_TIME: *expected = "a time such as 10, 1.5s or 20ms"; return cli_parse_seconds(arg, at);
    case CLI_SHARE: *expected = "a share such as 10% or 0.1"; return cli_parse_share(arg, at);
    case CLI_CHOICE: {
        const char *const *words = cli_option_words(o);
        for (int i = 0; words[i]; i++) {
            if (strcmp(arg, words[i]) == 0) {
                *(int *)at = i;
                return true;
            }
        }
        return false;
    }
    }
    return false;
}

void cli_option_read(const cli_option *o, const char *text, void *at)
{
    const char *expected;
    (void)parse(o, text, at, &expected); /* it was checked when the arguments were read */
}

/** Store one option's argument; what is wrong with it is printed. */
static int store(const cli_command *command, const cli_option *o, const char *arg, void *values)
{
    void *at = (char *)values + o->offset;
    union {
        uint64_t count;
        double number;
        cli_memory_size memory;
        const char *text;
    } each;
    const char *expected = "", *wrong = NULL;
    if (o->kind & CLI_VARIED) {
        cli_list *list = at;
        cli_list_free(list); /* given twice, the last one counts, as of options with one value */
        list_add(list, arg, false);
        wrong = list->n ? NULL : arg;
        for (size_t i = 0; i < list->n && !wrong; i++)
            wrong = parse(o, list->items[i], &each, &expected) ? NULL : list->items[i];
    } else if (!parse(o, arg, at, &expected)) {
        wrong = arg;
    }
    if (!wrong)
        return CLI_CONTINUE;
    cli_text all = {0};
    const char *const *words = cli_option_words(o);
    for (size_t i = 0; words[i]; i++)
        cli_text_addf(&all, "%s%s", i ? ", " : "one of ", words[i]);
    int code = cli_error(CLI_USAGE, NULL, "%s: --%s does not take '%s': it is %s", command->name, o->name, wrong,
                         all.n ? cli_text_str(&all) : expected);
    cli_text_free(&all);
    return code;
}

/*
 * Levenshtein's distance. The library has one of its own (src/base/nearest.h), which is internal: a program that uses the library has no
 * need of it, so it is no public function, and the command uses public headers alone, as that program would.
 */
static size_t edit_distance(const char *a, const char *b)
{
    size_t n = strlen(b), row[64];
    if (n >= 64 || strlen(a) >= 64)
        return 64;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

const char *cli_closest(const char *word, const char *const *names)
{
    const char *found = NULL;
    size_t best = strlen(word) < 5 ? 2 : 3; /* at most that many typing errors */
    for (; *names; names++) {
        size_t distance = edit_distance(word, *names);
        if (distance <= best) {
            best = distance;
            found = *names;
            if (best > 0)
                best--; /* only a better one replaces it */
        }
    }
    return found;
}

/** getopt found an option it does not know, or one without its argument. */
static int complain(const cli_command *command, char **argv, int at, int code, const cli_option *options)
{
    const char *word = at > 0 && argv[at] ? argv[at] : "?";
    cli_text try = {0};
    if (code == ':') {
        cli_text_addf(&try, "forebay %s --help", command->name);
        code = cli_error(CLI_USAGE, cli_text_str(&try), "%s: %s needs a value", command->name, word);
    } else {
        const char *names[MAX_OPTIONS] = {NULL};
        size_t n = 0;
        for (const cli_option *o = options; o->name && n + 1 < MAX_OPTIONS; o++)
            names[n++] = o->name;
        const char *close = strncmp(word, "--", 2) == 0 ? cli_closest(word + 2, names) : NULL;
        if (close)
            cli_text_addf(&try, "--%s", close);
        else
            cli_text_addf(&try, "forebay %s --help", command->name);
        code = cli_error(CLI_USAGE, cli_text_str(&try), "%s: there is no option %s", command->name, word);
    }
    cli_text_free(&try);
    return code;
}

int cli_args_parse(const cli_command *command, int argc, char **argv, void *values, char ***out_paths, size_t *out_n_paths)
{
    struct option longs[MAX_OPTIONS] = {0};
    cli_text letters = {0};
    cli_text_add(&letters, ":h"); /* ':' first: a missing value is told apart, and getopt prints nothing */
    int n = 0;
    for (const cli_option *o = command->options; o->name && n + 2 < MAX_OPTIONS; o++, n++) {
        longs[n] = (struct option){o->name, o->kind == CLI_FLAG ? no_argument : required_argument, NULL, FIRST_CODE + n};
        if (o->letter)
            cli_text_addf(&letters, "%c%s", o->letter, o->kind == CLI_FLAG ? "" : ":");
    }
    longs[n] = (struct option){"help", no_argument, NULL, HELP_CODE};

    int result = CLI_CONTINUE, code;
    optind = 1;
    opterr = 0;
    while (result == CLI_CONTINUE) {
        int before = optind;
        code = getopt_long(argc, argv, cli_text_str(&letters), longs, NULL);
        if (code == -1)
            break;
        if (code == 'h' || code == HELP_CODE) {
            print_help(command);
            result = CLI_OK;
        } else if (code == '?' || code == ':') {
            /* optind has moved past a whole word; inside a bundle of letters it has not. */
            result = complain(command, argv, optind > before ? optind - 1 : optind, code, command->options);
        } else {
            const cli_option *o = command->options;
            if (code >= FIRST_CODE)
                o += code - FIRST_CODE;
            else
                while (o->letter != (char)code)
                    o++;
            result = store(command, o, optarg, values);
        }
    }
    cli_text_free(&letters);
    if (result != CLI_CONTINUE)
        return result;
    *out_paths = argv + optind;
    *out_n_paths = (size_t)(argc - optind);
    if (*out_n_paths == 0 && !command->paths_optional) {
        cli_text try = {0};
        cli_text_addf(&try, "forebay %s --help", command->name);
        result = cli_error(CLI_USAGE, cli_text_str(&try), "%s: no path given", command->name);
        cli_text_free(&try);
    }
    return result;
}
