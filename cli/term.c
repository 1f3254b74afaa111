/* The terminal: colours, width, one progress line, errors with a next step. */
#include "cli.h"

#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

const char *cli_bold = "", *cli_dim = "", *cli_red = "", *cli_green = "", *cli_yellow = "", *cli_plain = "";

static bool progress_on, progress_shown;
static double progress_last;

void cli_term_init(void)
{
    /* Character widths for UTF-8 whatever the user's locale: names and values in files are UTF-8. Failure only costs alignment. */
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool smart = term && strcmp(term, "dumb") != 0;
    progress_on = smart && isatty(STDERR_FILENO);
    if (smart && isatty(STDOUT_FILENO) && !(no_color && *no_color)) {
        cli_bold = "\033[1m";
        cli_dim = "\033[2m";
        cli_red = "\033[31m";
        cli_green = "\033[32m";
        cli_yellow = "\033[33m";
        cli_plain = "\033[0m";
    }
}

size_t cli_term_width(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 120;
}

double cli_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/** On standard error, whatever names and paths there are among the arguments. */
static void print_safe(const char *fmt, va_list args)
{
    cli_text text = {0};
    cli_text_addv(&text, fmt, args);
    fputs(cli_printable(cli_text_str(&text)), stderr);
    cli_text_free(&text);
}

void cli_progress(const char *fmt, ...)
{
    double now = progress_on ? cli_now() : 0;
    if (!progress_on || now - progress_last < 0.1)
        return;
    progress_last = now;
    progress_shown = true;
    va_list args;
    va_start(args, fmt);
    fputs("\r\033[K", stderr);
    print_safe(fmt, args);
    fflush(stderr);
    va_end(args);
}

void cli_progress_end(void)
{
    if (progress_shown)
        fputs("\r\033[K", stderr);
    progress_shown = false;
    progress_last = 0;
}

static void print_try(const char *try)
{
    if (try)
        fprintf(stderr, "  try: %s\n", cli_printable(try));
}

int cli_error(int code, const char *try, const char *fmt, ...)
{
    cli_progress_end();
    va_list args;
    va_start(args, fmt);
    fputs("forebay: error: ", stderr);
    print_safe(fmt, args);
    fputc('\n', stderr);
    va_end(args);
    print_try(try);
    return code;
}

static const char *io_hint(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT: return "make room on that disk, or choose a folder on another one";
    case EFBIG: return "a higher limit on the size of files (ulimit -f), or smaller files";
    case EROFS: return "choose a folder on a file system that is not mounted read-only";
    case EACCES:
    case EPERM: return "check that you may read the files, and write to the folder";
    default: return "check that the path exists and that you may read it";
    }
}

/* "leave the column out" is a cure only where one column is at fault: not of an encrypted file, or of YAML that is not used. */
static bool is_about_a_column(const fby_error *err) { return strstr(err->message, "column '") || strstr(err->message, "output '"); }

/* "restore the file" is no cure for text that is what it should be, under a name that says nothing of it. */
static bool is_about_text(const fby_error *err)
{
    return err->code == FBY_E_FORMAT &&
           (strstr(err->message, "it looks like text") || strstr(err->message, "it looks like CSV or other text"));
}

int cli_library_error(const fby_error *err)
{
    /* Where the command line can say more than the library does. */
    static const char *const here[FBY_STATUS_COUNT] = {
        [FBY_E_ARG] = "--help",
        [FBY_E_NOMEM] = "a smaller --memory, or fewer columns",
        [FBY_E_FORMAT] = "restore the file or write it again; leave it out for now by naming the others",
        [FBY_E_SCHEMA] = "forebay inspect PATH for the columns there are; --missing-columns fill where some files lack one",
        [FBY_E_UNSUPPORTED] = "leave the column out: --columns with the ones you need",
        [FBY_E_DATA] = "another type with --dtype, or leave the column out with --columns",
        [FBY_E_BUDGET] = "--memory, or what else is named, with the figures above",
        [FBY_E_CHANGED] = "run the command again",
    };
    static const char *const library[FBY_STATUS_COUNT] = {
#define NEXT_STEP(name, text, step) [name] = step,
        FBY_STATUS_LIST(NEXT_STEP)
#undef NEXT_STEP
    };
    const char *try = NULL;
    if ((unsigned)err->code < FBY_STATUS_COUNT)
        try = err->code == FBY_E_IO                                       ? io_hint(err->sys_errno)
              : err->code == FBY_E_UNSUPPORTED && !is_about_a_column(err) ? NULL
              : is_about_text(err) ? "a name that ends in .yaml or .yml if it is a pipeline file, in .csv or .tsv if it is a table"
              : here[err->code]    ? here[err->code]
                                   : library[err->code];
    const char *message = err->message[0] ? err->message : fby_status_text(err->code);
    return cli_error(err->code == FBY_E_ARG ? CLI_USAGE : CLI_FAILED, try, "%s", message);
}

int cli_pipeline_error(const fby_error *err)
{
    /* What is said of paths names options that a pipeline file has as keys. Each is true of all errors of its code: the message has the cure. */
    static const char *const here[FBY_STATUS_COUNT] = {
        [FBY_E_ARG] = "docs/pipelines.md, which has every key and what it takes",
        [FBY_E_FORMAT] = "mend or restore the file that is named; docs/pipelines.md shows a pipeline file",
        [FBY_E_SCHEMA] = "forebay inspect PATH for the columns there are",
        [FBY_E_UNSUPPORTED] = "leave the column out of the section outputs",
        [FBY_E_DATA] = "another dtype, a fill or a default in the section outputs, whichever fits, or leave the column out",
        [FBY_E_BUDGET] = "--set loader.memory=… or --set loader.superbatch=… with the figures above",
        [FBY_E_NOMEM] = "--set loader.memory=… with less, or fewer columns in the section outputs",
    };
    if ((unsigned)err->code >= FBY_STATUS_COUNT || !here[err->code] || (err->code == FBY_E_UNSUPPORTED && !is_about_a_column(err)))
        return cli_library_error(err);
    return cli_error(err->code == FBY_E_ARG ? CLI_USAGE : CLI_FAILED, here[err->code], "%s", err->message);
}

int cli_print_json(json_t *root, int digits)
{
    size_t ascii = isatty(STDOUT_FILENO) ? JSON_ENSURE_ASCII : 0; /* the same JSON; a terminal obeys characters beyond ASCII, too */
    int failed = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(digits) | ascii);
    json_decref(root);
    if (failed || fputc('\n', stdout) == EOF || fflush(stdout) == EOF)
        return cli_error(CLI_FAILED, NULL, "cannot write the output: %s", strerror(errno));
    return CLI_OK;
}
