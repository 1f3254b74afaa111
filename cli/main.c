/* forebay: the command. Chooses the sub-command; each has a file of its own. */
#include "cli.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

const cli_command *const cli_commands[] = {&cli_inspect, &cli_head,   &cli_bench,  &cli_plan, &cli_advise,
                                           &cli_pack,    &cli_report, &cli_doctor, NULL};
enum { N_COMMANDS = sizeof cli_commands / sizeof cli_commands[0] - 1 };

static void print_help(void)
{
    printf("%sforebay%s %s: shuffled training batches from data files as they lie on disk\n\n", cli_bold, cli_plain, fby_version());
    printf("%sExamples%s\n%s\n%sCommands%s\n", cli_bold, cli_plain, cli_examples_text, cli_bold, cli_plain);
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    printf("\nforebay COMMAND --help explains each. Every command takes --json. --version prints the version, with --verbose\n"
           "the libraries inside too; --completions bash|zsh|fish what a shell completes, --man [COMMAND] a man page.\n\n"
           "%sExit codes%s: %s%sEnvironment%s: %s",
           cli_bold, cli_plain, cli_exit_text, cli_bold, cli_plain, cli_environment_text);
}

/* The version; with --verbose what the command is built with too, with --json as one object. */
static int print_version(int argc, char **argv)
{
    bool verbose = false, json = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0 || strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--json") == 0)
            json = true;
        else
            return cli_error(CLI_USAGE, "forebay --version --verbose", "--version does not take '%s'", argv[i]);
    }
    const char *name, *version, *license;
    if (json) {
        json_t *libraries = json_array();
        for (size_t i = 0; fby_library_at(i, &name, &version, &license); i++)
            json_array_append_new(libraries, json_pack("{s:s, s:s, s:s}", "name", name, "version", version, "license", license));
        json_array_append_new(libraries, json_pack("{s:s, s:s, s:s}", "name", "jansson", "version", JANSSON_VERSION, "license", "MIT"));
        return cli_print_json(json_pack("{s:s, s:s, s:o}", "forebay", fby_version(), "license", "Apache-2.0", "libraries", libraries), 6);
    }
    printf("forebay %s\n", fby_version());
    if (!verbose)
        return CLI_OK;
    cli_table table;
    cli_table_init(&table, 3);
    cli_table_add(&table, "library");
    cli_table_add(&table, "version");
    cli_table_add(&table, "license");
    for (size_t i = 0; fby_library_at(i, &name, &version, &license); i++) {
        cli_table_add(&table, name);
        cli_table_add(&table, *version ? version : "?");
        cli_table_add(&table, license);
    }
    cli_table_add(&table, "jansson");
    cli_table_add(&table, JANSSON_VERSION);
    cli_table_add(&table, "MIT");
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    return CLI_OK;
}

static void on_log(void *user, fby_log_level level, const char *message)
{
    (void)user;
    cli_progress_end();
    (void)fprintf(stderr, "forebay: %s%s\n", level >= FBY_LOG_WARNING ? "warning: " : "", message);
}

/* Messages from the level on that FOREBAY_LOG names, in whatever case. */
static void start_log(const char *asked)
{
    char name[16] = "";
    for (size_t i = 0; asked[i] && i < sizeof name - 1; i++)
        name[i] = (char)tolower((unsigned char)asked[i]);
    const fby_log_level level = fby_log_level_of(name);
    if (level == FBY_LOG_OFF && name[0] && strcmp(name, "off") != 0)
        (void)fprintf(stderr, "forebay: warning: FOREBAY_LOG=%s: use debug, info, warning or off\n", cli_printable(asked));
    fby_log_set(level, on_log, NULL);
}

/* The command of that name; NULL, and it is said, when there is none. */
static const cli_command *find_command(const char *word)
{
    const char *names[N_COMMANDS + 1] = {NULL};
    for (size_t i = 0; i < N_COMMANDS; i++) {
        names[i] = cli_commands[i]->name;
        if (strcmp(word, names[i]) == 0)
            return cli_commands[i];
    }
    const char *close = cli_closest(word, names);
    cli_text try = {0};
    if (close)
        cli_text_addf(&try, "forebay %s", close);
    else
        cli_text_add(&try, "forebay --help");
    (void)cli_error(CLI_USAGE, cli_text_str(&try), "there is no command '%s'", word);
    cli_text_free(&try);
    return NULL;
}

int main(int argc, char **argv)
{
    cli_term_init();
    const char *log = getenv("FOREBAY_LOG");
    if (log)
        start_log(log);
    /* A reader that closes the pipe (head, less) ends us quietly at the next write, as it does other tools. */
    (void)signal(SIGPIPE, SIG_DFL);
    if (argc < 2) {
        print_help();
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        if (argc > 3)
            return cli_error(CLI_USAGE, "forebay COMMAND --help", "'%s' behind the command's name", argv[3]);
        if (argc > 2) {
            const cli_command *command = find_command(argv[2]);
            char help[] = "--help", *args[] = {argv[2], help, NULL};
            return command ? command->run(command, 2, args) : CLI_USAGE;
        }
        print_help();
        return CLI_OK;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        return print_version(argc - 2, argv + 2);
    }
    if (strcmp(word, "--completions") == 0 || strcmp(word, "--man") == 0) {
        if (argc > 3)
            return cli_error(CLI_USAGE, "forebay --help", "%s does not take '%s'", word, argv[3]);
        return strcmp(word, "--man") == 0 ? cli_print_man(argv[2]) : cli_print_completions(argv[2]); /* NULL behind the last one */
    }
    const cli_command *command = find_command(word);
    return command ? command->run(command, argc - 1, argv + 1) : CLI_USAGE;
}
