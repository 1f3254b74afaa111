/* forebay: the command. Chooses the sub-command; each has a file of its own. */
#include "cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const cli_command *const commands[] = {&cli_inspect, &cli_head, &cli_bench, &cli_plan, &cli_advise};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void)
{
    printf("%sforebay%s %s: shuffled training batches from data files as they lie on disk\n\n", cli_bold, cli_plain, fby_version());
    printf("%sExamples%s\n"
           "  forebay inspect basins/                         what is in the files: columns, types, sizes, what is odd\n"
           "  forebay head basins/b001.parquet                the first rows\n"
           "  forebay bench \"basins/*.parquet\" --memory 1GiB  how fast batches come, and what limits them\n"
           "  forebay plan basins.yaml                        what a pipeline file gives, without training\n\n",
           cli_bold, cli_plain);
    printf("%sCommands%s\n", cli_bold, cli_plain);
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf("\nforebay COMMAND --help explains each. Every command takes --json. --version prints the version.\n\n"
           "%sExit codes%s: 0 done; 1 the data or a file is at fault; 2 the command line is; 130 interrupted.\n"
           "%sEnvironment%s: FOREBAY_CACHE, where the index cache lives; FOREBAY_LOG=info, what happens meanwhile; NO_COLOR, no colours.\n",
           cli_bold, cli_plain, cli_bold, cli_plain);
}

static void on_log(void *user, fby_log_level level, const char *message)
{
    (void)user;
    cli_progress_end();
    (void)fprintf(stderr, "forebay: %s%s\n", level >= FBY_LOG_WARNING ? "warning: " : "", message);
}

int main(int argc, char **argv)
{
    cli_term_init();
    const char *log = getenv("FOREBAY_LOG");
    if (log)
        fby_log_set(fby_log_level_of(log), on_log, NULL);
    /* A reader that closes the pipe (head, less) ends us quietly at the next write, as it does other tools. */
    (void)signal(SIGPIPE, SIG_DFL);
    if (argc < 2) {
        print_help();
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        if (argc > 2) {
            for (size_t i = 0; i < N_COMMANDS; i++) {
                if (strcmp(argv[2], commands[i]->name) == 0) {
                    char help[] = "--help", *args[] = {argv[2], help, NULL};
                    return commands[i]->run(commands[i], 2, args);
                }
            }
        }
        print_help();
        return CLI_OK;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("forebay %s\n", fby_version());
        return CLI_OK;
    }
    const char *names[N_COMMANDS + 1] = {NULL};
    for (size_t i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
        if (strcmp(word, names[i]) == 0)
            return commands[i]->run(commands[i], argc - 1, argv + 1);
    }
    const char *close = cli_closest(word, names);
    cli_text try = {0};
    if (close)
        cli_text_addf(&try, "forebay %s", close);
    else
        cli_text_add(&try, "forebay --help");
    int code = cli_error(CLI_USAGE, cli_text_str(&try), "there is no command '%s'", word);
    cli_text_free(&try);
    return code;
}
