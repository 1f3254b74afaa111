/* forebay head: the first rows as a table, read through the Arrow stream that any Arrow consumer gets. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct head_options {
    uint64_t rows;
    cli_list columns;
    uint64_t width;
    bool wide;
    cli_source source;
} head_options;

static const cli_option options[] = {
    {"rows", 'n', CLI_NUMBER, offsetof(head_options, rows), "N", "how many rows (default: 10)", NULL},
    {"columns", 'c', CLI_LIST, offsetof(head_options, columns), "NAMES", "top-level columns, as names or shell patterns", NULL},
    {"width", 'w', CLI_COUNT, offsetof(head_options, width), "N", "cut the table to N columns of text (default: the terminal)", NULL},
    {"wide", 0, CLI_FLAG, offsetof(head_options, wide), NULL, "cut nothing: every column, whole values", NULL},
    CLI_MEMORY_OPTION(head_options),
    CLI_SOURCE_OPTIONS(head_options),
};

enum { CELL_WIDTH = 32, CELL_BYTES = 96, WHOLE_BYTES = 1 << 20 };

/** The top-level columns that the patterns select, in the order of the schema. */
typedef struct selection {
    const fby_field **fields;
    const char **names;
    size_t n;
} selection;

static selection select_columns(const fby_field *schema, const cli_list *patterns)
{
    selection s = {.fields = cli_alloc((schema->n_children + 1) * sizeof *s.fields),
                   .names = cli_alloc((schema->n_children + 1) * sizeof *s.names)};
    for (uint32_t i = 0; i < schema->n_children; i++) {
        if (cli_list_match(patterns, schema->children[i].path)) {
            s.fields[s.n] = &schema->children[i];
            s.names[s.n++] = schema->children[i].name;
        }
    }
    return s;
}

static int stream_error(struct ArrowArrayStream *stream)
{
    const char *message = stream->get_last_error(stream);
    return cli_error(CLI_FAILED, "forebay inspect PATH, which names the columns and the files", "%s", message ? message : "reading failed");
}

static void add_rows(const struct ArrowSchema *schema, const struct ArrowArray *batch, int64_t n, size_t limit, cli_table *table)
{
    cli_text cell = {0};
    for (int64_t row = 0; row < n; row++) {
        for (int64_t c = 0; c < schema->n_children; c++) {
            cli_text_clear(&cell);
            cli_arrow_text(schema->children[c], batch->children[c], row + batch->offset, limit, false, &cell);
            cli_table_add(table, cli_text_str(&cell));
        }
    }
    cli_text_free(&cell);
}

static void add_json_rows(const struct ArrowSchema *schema, const struct ArrowArray *batch, int64_t n, json_t *rows)
{
    for (int64_t row = 0; row < n; row++) {
        json_t *object = json_object();
        for (int64_t c = 0; c < schema->n_children; c++)
            json_object_set_new(object, schema->children[c]->name,
                                cli_arrow_json(schema->children[c], batch->children[c], row + batch->offset));
        json_array_append_new(rows, object);
    }
}

/** Names in the first row, types in the second. */
static void add_header(const selection *s, cli_table *table, json_t *columns)
{
    char type[256]; /* a longer one is cut */
    for (size_t i = 0; i < s->n; i++) {
        cli_table_add(table, s->names[i]);
        (void)fby_field_type_text(s->fields[i], type, sizeof type);
        json_array_append_new(columns, json_pack("{s:o, s:o, s:b}", "name", cli_json_text(s->names[i]), "type", cli_json_text(type),
                                                 "nullable", (int)s->fields[i]->nullable));
    }
    for (size_t i = 0; i < s->n; i++) {
        (void)fby_field_type_text(s->fields[i], type, sizeof type);
        cli_table_add(table, type);
    }
}

static int print_rows(fby_dataset *ds, const void *values, char *const *paths, size_t n_paths)
{
    (void)paths, (void)n_paths;
    const head_options *o = values;
    const fby_field *fields = fby_dataset_schema(ds);
    selection selected = select_columns(fields, &o->columns);
    cli_table table;
    cli_table_init(&table, selected.n ? selected.n : 1);
    table.max_width = o->wide ? 0 : CELL_WIDTH;
    json_t *json_columns = json_array(), *json_rows = json_array();
    struct ArrowArrayStream stream = {.release = NULL};
    struct ArrowSchema schema = {.release = NULL};
    struct ArrowArray batch = {.release = NULL};
    fby_error err = {0};
    uint64_t shown = 0, total = fby_dataset_rows(ds);
    int code = CLI_OK;

    if (selected.n == 0 && fields->n_children > 0) {
        code = cli_error(CLI_USAGE, "forebay inspect PATH for the names", "head: no column matches --columns");
        goto done;
    }
    if (fby_dataset_export_arrow(ds, selected.names, selected.n, &stream, &err) != FBY_OK) {
        code = cli_library_error(&err);
        goto done;
    }
    if (stream.get_schema(&stream, &schema) != 0) {
        code = stream_error(&stream);
        goto done;
    }
    add_header(&selected, &table, json_columns);
    for (int64_t c = 0; c < schema.n_children; c++)
        if (cli_arrow_is_number(schema.children[c]))
            cli_table_right(&table, (size_t)c);
    while (shown < o->rows) {
        if (stream.get_next(&stream, &batch) != 0) {
            code = stream_error(&stream);
            goto done;
        }
        if (!batch.release)
            break; /* the end */
        int64_t n = batch.length;
        if ((uint64_t)n > o->rows - shown)
            n = (int64_t)(o->rows - shown);
        if (o->source.json)
            add_json_rows(&schema, &batch, n, json_rows);
        else
            add_rows(&schema, &batch, n, o->wide ? WHOLE_BYTES : CELL_BYTES, &table);
        shown += (uint64_t)n;
        batch.release(&batch);
        batch.release = NULL;
    }
    if (o->source.json) {
        code = cli_print_json(json_pack("{s:s, s:s, s:I, s:I, s:O, s:O}", "command", "head", "forebay", fby_version(), "total_rows",
                                        (json_int_t)total, "shown_rows", (json_int_t)shown, "columns", json_columns, "rows", json_rows),
                              17);
        goto done;
    }
    printf("%s of %s rows, %s of %s columns\n", cli_count(shown), cli_count(total), cli_count(selected.n), cli_count(fields->n_children));
    if (selected.n)
        cli_table_print_box(&table, 2, o->wide ? 0 : o->width ? (size_t)o->width : cli_term_width(), stdout);

done:
    if (batch.release)
        batch.release(&batch);
    if (schema.release)
        schema.release(&schema);
    if (stream.release)
        stream.release(&stream);
    json_decref(json_columns);
    json_decref(json_rows);
    cli_table_fini(&table);
    free(selected.fields);
    free(selected.names);
    return code;
}

static int run(const cli_command *command, int argc, char **argv)
{
    head_options o = {.rows = 10, .source.memory = CLI_MEMORY_DEFAULT};
    int code = cli_source_run(command, argc, argv, &o, &o.source, print_rows);
    cli_list_free(&o.columns);
    cli_list_free(&o.source.dtypes);
    return code;
}

const cli_command cli_head = {
    .name = "head",
    .summary = "the first rows as a table",
    .synopsis = "PATH… [options]",
    .examples = "  forebay head basins/b001.parquet\n"
                "  forebay head \"basins/*.parquet\" -n 3 --columns \"time,p*\"\n"
                "  forebay head basins/b001.parquet --json | jq \".rows[0]\"\n",
    .notes = "Values that are too wide are cut (\"…\"), and columns that do not fit are left out, until --wide. Control characters\n"
             "in text are shown escaped. --json: {command, forebay, total_rows, shown_rows, columns: [{name, type, nullable}],\n"
             "rows: [{column: value}]}; times are ISO 8601 text, binary is hex, decimals and integers beyond 64 signed bits are\n"
             "text, NaN and infinities are \"NaN\", \"Infinity\", \"-Infinity\", maps are lists of {key, value}.\n",
    .options = options,
    .run = run,
};
