/*
 * Man pages and shell completions, made of the tables and texts that give --help: `forebay --man [COMMAND]`, `forebay --completions SHELL`.
 * The build runs both and installs what they print.
 */
#include "cli.h"

#include <string.h>

/* --- man pages ------------------------------------------------------------------------------------------------------------ */

/** A text as roff: what roff would take for a request or an escape, or set as another character, is escaped. */
static void roff(const char *s)
{
    static const char ESCAPED[] = "\\-'`^~";
    static const char *const ESCAPES[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
    bool begin = true;
    for (; *s; s++) {
        if (begin && *s == '.')
            fputs("\\&", stdout);
        begin = *s == '\n';
        const char *found = strchr(ESCAPED, *s);
        if (found)
            fputs(ESCAPES[found - ESCAPED], stdout);
        else
            putchar(*s);
    }
}

static void section(const char *name, const char *text, bool as_is)
{
    printf(".SH %s\n%s", name, as_is ? ".nf\n" : "");
    roff(text);
    if (*text && text[strlen(text) - 1] != '\n')
        putchar('\n');
    if (as_is)
        fputs(".fi\n", stdout);
}

static void man_options(const cli_option *options)
{
    puts(".SH OPTIONS");
    for (const cli_option *o = options; o->name; o++) {
        puts(".TP");
        if (o->letter)
            printf("\\fB\\-%c\\fR, ", o->letter);
        fputs("\\fB\\-\\-", stdout);
        roff(o->name);
        fputs("\\fR", stdout);
        if (o->value)
            printf(" \\fI%s\\fR", o->value);
        putchar('\n');
        roff(o->help);
        const char *const *words = cli_option_words(o);
        for (int i = 0; words[i]; i++) {
            fputs(i ? ", " : ": ", stdout);
            roff(words[i]);
        }
        putchar('\n');
    }
    puts(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nthe same as text");
}

static void man_head(const char *name, const char *summary)
{
    printf(".TH \"%s\" 1 \"\" \"forebay %s\" \"Forebay\"\n.SH NAME\n", name, fby_version());
    roff(name);
    fputs(" \\- ", stdout);
    roff(summary);
    putchar('\n');
}

static void man_command(const cli_command *command)
{
    cli_text name = {0}, synopsis = {0};
    cli_text_addf(&name, "forebay-%s", command->name);
    cli_text_addf(&synopsis, "forebay %s %s", command->name, command->synopsis);
    man_head(cli_text_str(&name), command->summary);
    section("SYNOPSIS", cli_text_str(&synopsis), true);
    if (command->notes)
        section("DESCRIPTION", command->notes, false);
    man_options(command->options);
    if (!command->paths_optional)
        section("PATHS", cli_path_text, false);
    section("EXAMPLES", command->examples, true);
    section("EXIT STATUS", cli_exit_text, false);
    section("SEE ALSO", "forebay(1)", false);
    cli_text_free(&name);
    cli_text_free(&synopsis);
}

static void man_program(void)
{
    man_head("forebay", "shuffled training batches from data files as they lie on disk");
    section(
        "SYNOPSIS",
        "forebay COMMAND [options]\nforebay --version [--verbose] [--json]\nforebay --completions bash|zsh|fish\nforebay --man [COMMAND]",
        true);
    puts(".SH COMMANDS");
    for (const cli_command *const *c = cli_commands; *c; c++) {
        printf(".TP\n\\fBforebay\\-%s\\fR(1)\n", (*c)->name);
        roff((*c)->summary);
        putchar('\n');
    }
    section("EXAMPLES", cli_examples_text, true);
    section("EXIT STATUS", cli_exit_text, false);
    section("ENVIRONMENT", cli_environment_text, false);
}

int cli_print_man(const char *name)
{
    if (!name) {
        man_program();
        return CLI_OK;
    }
    for (const cli_command *const *c = cli_commands; *c; c++) {
        if (strcmp((*c)->name, name) == 0) {
            man_command(*c);
            return CLI_OK;
        }
    }
    return cli_error(CLI_USAGE, "forebay --help", "--man: there is no command '%s'", name);
}

/* --- completions ---------------------------------------------------------------------------------------------------------- */

static void print_words(const cli_option *o)
{
    const char *const *words = cli_option_words(o);
    for (int i = 0; words[i]; i++)
        printf("%s%s", i ? " " : "", words[i]);
}

static void bash(void)
{
    fputs("# bash completion for forebay\n_forebay() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} options= values=\n"
          "    COMPREPLY=()\n"
          "    if [ \"$word\" = = ]; then word=; elif [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi # --option=value is "
          "three words\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W \"",
          stdout);
    for (const cli_command *const *c = cli_commands; *c; c++)
        printf("%s ", (*c)->name);
    fputs("--help --version --completions --man\" -- \"$word\"))\n        return\n    fi\n    case $command in\n", stdout);
    for (const cli_command *const *c = cli_commands; *c; c++) {
        printf("    %s)\n        options=\"", (*c)->name);
        for (const cli_option *o = (*c)->options; o->name; o++)
            printf("--%s ", o->name);
        fputs("--help\"\n        case $before in\n", stdout);
        for (const cli_option *o = (*c)->options; o->name; o++) {
            if (cli_option_kind(o) != CLI_CHOICE)
                continue;
            printf("        --%s) values=\"", o->name);
            print_words(o);
            fputs("\" ;;\n", stdout);
        }
        fputs("        esac\n        ;;\n", stdout);
    }
    fputs("    --completions) values=\"bash zsh fish\" ;;\n    esac\n"
          "    if [ -n \"$values\" ]; then\n        COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
          "    elif [[ $word == -* ]]; then\n        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n    fi\n}\n"
          "complete -o default -F _forebay forebay\n", /* files: what bash itself knows to quote */
          stdout);
}

/** A help text between single quotes; zsh gives [] and : a meaning, which a backslash takes away. */
static void quoted(const char *s, bool zsh)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs(zsh ? "'\\''" : "\\'", stdout);
        else if (zsh && strchr("[]:\\", *s))
            printf("\\%c", *s);
        else if (!zsh && *s == '\\')
            fputs("\\\\", stdout);
        else
            putchar(*s);
    }
}

static void zsh(void)
{
    fputs("#compdef forebay\n_forebay() {\n    local -a commands\n    commands=(\n", stdout);
    for (const cli_command *const *c = cli_commands; *c; c++) {
        printf("        '%s:", (*c)->name);
        quoted((*c)->summary, true);
        fputs("'\n", stdout);
    }
    fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe -t commands 'forebay command' commands\n        return\n    fi\n"
          "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n",
          stdout);
    for (const cli_command *const *c = cli_commands; *c; c++) {
        printf("    %s) _arguments", (*c)->name);
        for (const cli_option *o = (*c)->options; o->name; o++) {
            printf(" \\\n        '%s--%s%s[", o->kind == CLI_LIST || o->kind == CLI_EACH ? "*" : "", o->name, o->value ? "=" : "");
            quoted(o->help, true);
            putchar(']');
            if (o->value) {
                putchar(':');
                quoted(o->value, true);
                putchar(':');
            }
            if (cli_option_kind(o) == CLI_CHOICE) {
                putchar('(');
                print_words(o);
                putchar(')');
            } else if (o->value && (strncmp(o->value, "FILE", 4) == 0 || strcmp(o->value, "DIR") == 0)) {
                fputs("_files", stdout);
            }
            putchar('\'');
        }
        fputs(" \\\n        '--help[this text]' '*:path:_files' ;;\n", stdout);
    }
    /* A file of fpath is the function's own text; eval has to say what it is for. */
    fputs("    esac\n}\nif [[ $funcstack[1] == _forebay ]]; then\n    _forebay \"$@\"\nelse\n    compdef _forebay forebay\nfi\n", stdout);
}

static void fish(void)
{
    fputs("# fish completion for forebay\ncomplete -c forebay -n __fish_use_subcommand -l version -d 'the version'\n", stdout);
    for (const cli_command *const *c = cli_commands; *c; c++) {
        printf("complete -c forebay -n __fish_use_subcommand -f -a %s -d '", (*c)->name);
        quoted((*c)->summary, false);
        fputs("'\n", stdout);
        for (const cli_option *o = (*c)->options; o->name; o++) {
            printf("complete -c forebay -n '__fish_seen_subcommand_from %s' -l %s", (*c)->name, o->name);
            if (o->letter)
                printf(" -s %c", o->letter);
            if (cli_option_kind(o) == CLI_CHOICE) {
                fputs(" -x -a '", stdout);
                print_words(o);
                putchar('\'');
            } else if (o->value) {
                fputs(" -r", stdout);
            }
            fputs(" -d '", stdout);
            quoted(o->help, false);
            fputs("'\n", stdout);
        }
    }
}

int cli_print_completions(const char *shell)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } SHELLS[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; shell && i < sizeof SHELLS / sizeof *SHELLS; i++) {
        if (strcmp(shell, SHELLS[i].name) == 0) {
            SHELLS[i].print();
            return CLI_OK;
        }
    }
    return cli_error(CLI_USAGE, "forebay --completions bash", "--completions takes bash, zsh or fish%s%s%s", shell ? ", not '" : "",
                     shell ? shell : "", shell ? "'" : "");
}
