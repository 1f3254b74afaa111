/* Aligned tables: plain columns for lists of things, a box for rows of data. Widths are display columns, not bytes. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void cli_table_init(cli_table *table, size_t n_columns)
{
    *table = (cli_table){.n_columns = n_columns, .right = cli_alloc(n_columns * sizeof(bool))};
}

void cli_table_fini(cli_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table->right);
    *table = (cli_table){0};
}

void cli_table_right(cli_table *table, size_t column) { table->right[column] = true; }

void cli_table_add(cli_table *table, const char *s)
{
    if (table->n_cells == table->cap) {
        table->cap = table->cap ? table->cap * 2 : 64;
        table->cells = cli_realloc(table->cells, table->cap * sizeof *table->cells);
    }
    cli_text cell = {0};
    cli_text_add_escaped(&cell, s, strlen(s));
    if (table->max_width)
        cli_cut(&cell, table->max_width);
    table->cells[table->n_cells++] = cell.data;
}

void cli_table_addf(cli_table *table, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *s = cli_alloc((size_t)(n < 0 ? 0 : n) + 1);
    (void)vsnprintf(s, (size_t)(n < 0 ? 0 : n) + 1, fmt, again); /* the length is known to fit */
    va_end(again);
    cli_table_add(table, s);
    free(s);
}

static size_t *widths_of(const cli_table *table)
{
    size_t *widths = cli_alloc(table->n_columns * sizeof *widths);
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t w = cli_width(table->cells[i]);
        if (w > widths[i % table->n_columns])
            widths[i % table->n_columns] = w;
    }
    return widths;
}

static void add_blanks(cli_text *line, size_t n)
{
    while (n-- > 0)
        cli_text_add(line, " ");
}

static void add_cell(cli_text *line, const char *cell, size_t width, bool right)
{
    size_t used = cli_width(cell), blanks = width > used ? width - used : 0;
    if (right)
        add_blanks(line, blanks);
    cli_text_add(line, cell);
    if (!right)
        add_blanks(line, blanks);
}

void cli_table_print(const cli_table *table, FILE *out)
{
    size_t *widths = widths_of(table), n = table->n_columns;
    cli_text line = {0};
    for (size_t row = 0; row < table->n_cells / n; row++) {
        cli_text_clear(&line);
        for (size_t c = 0; c < n; c++) {
            cli_text_add(&line, "  ");
            add_cell(&line, table->cells[row * n + c], widths[c], table->right[c]);
        }
        while (line.n && line.data[line.n - 1] == ' ')
            line.data[--line.n] = 0;
        fprintf(out, "%s%s%s\n", row == 0 ? cli_dim : "", cli_text_str(&line), row == 0 ? cli_plain : "");
    }
    cli_text_free(&line);
    free(widths);
}

typedef struct rule {
    const char *left, *line, *cross, *right;
} rule;

static void print_rule(const rule *r, const size_t *widths, size_t n, FILE *out)
{
    fputs(r->left, out);
    for (size_t c = 0; c < n; c++) {
        if (c)
            fputs(r->cross, out);
        for (size_t i = 0; i < widths[c] + 2; i++)
            fputs(r->line, out);
    }
    fputs(r->right, out);
    fputc('\n', out);
}

/**
 * Which columns fit. The table has one column more than the caller's: column `gap`, "…", stands where columns were left out;
 * the first half and the last stay.
 */
static size_t choose(const cli_table *table, const size_t *widths, size_t width, bool *shown)
{
    size_t n = table->n_columns, total = 1, gap = n;
    for (size_t c = 0; c < n; c++) {
        shown[c] = true;
        total += widths[c] + 3;
    }
    if (width == 0 || total <= width)
        return gap;
    total += 4; /* the gap itself */
    size_t first = n / 2, left = n;
    gap = first;
    for (size_t drop = 0; drop < n && total > width && left > 2; drop++) {
        /* From the middle outwards, the right side first. */
        size_t c = drop % 2 == 0 ? first + drop / 2 : first - 1 - drop / 2;
        if (c >= n || c == 0 || c == n - 1 || !shown[c])
            continue;
        shown[c] = false;
        gap = c < gap ? c : gap;
        total -= widths[c] + 3;
        left--;
    }
    return gap;
}

void cli_table_print_box(const cli_table *table, size_t header, size_t width, FILE *out)
{
    static const rule top = {"┌", "─", "┬", "┐"}, middle = {"╞", "═", "╪", "╡"}, bottom = {"└", "─", "┴", "┘"};
    size_t n = table->n_columns, rows = n ? table->n_cells / n : 0;
    size_t *widths = widths_of(table);
    bool *chosen = cli_alloc(n + 1);
    size_t gap = choose(table, widths, width, chosen);

    /* The columns as they are printed, the gap among them. */
    size_t *show_width = cli_alloc((n + 1) * sizeof *show_width), *source = cli_alloc((n + 1) * sizeof *source), shown = 0;
    for (size_t c = 0; c < n; c++) {
        if (c == gap) {
            show_width[shown] = 1;
            source[shown++] = n;
        }
        if (chosen[c]) {
            show_width[shown] = widths[c];
            source[shown++] = c;
        }
    }

    cli_text line = {0};
    print_rule(&top, show_width, shown, out);
    for (size_t row = 0; row < rows; row++) {
        if (row == header)
            print_rule(&middle, show_width, shown, out);
        cli_text_clear(&line);
        for (size_t s = 0; s < shown; s++) {
            size_t c = source[s];
            cli_text_add(&line, s ? " ┆ " : "│ ");
            if (row < header)
                cli_text_add(&line, row == 0 ? cli_bold : cli_dim);
            add_cell(&line, c == n ? "…" : table->cells[row * n + c], show_width[s], c < n && table->right[c]);
            if (row < header)
                cli_text_add(&line, cli_plain);
        }
        fprintf(out, "%s │\n", cli_text_str(&line));
    }
    cli_text_free(&line);
    if (rows == header)
        print_rule(&middle, show_width, shown, out);
    print_rule(&bottom, show_width, shown, out);
    free(widths);
    free(chosen);
    free(show_width);
    free(source);
}
