/*
 * forebay inspect: what is in a data set, from metadata alone. Reads no values; page headers only for --chunks.
 *
 * Codecs, encodings and sizes are sums over column chunks. A data set of very many files and columns would need millions of
 * them for one page of text: then evenly spaced files stand for all, and the output says so (--exact reads every one).
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLED_CHUNKS = 500000, MAX_CODECS = 8 };

typedef struct inspect_options {
    bool files, blocks, chunks, exact;
    cli_list columns;
    cli_source source;
} inspect_options;

static const cli_option options[] = {
    {"columns", 'c', CLI_LIST, offsetof(inspect_options, columns), "NAMES", "only these columns: names or shell patterns of dotted paths",
     NULL},
    {"files", 0, CLI_FLAG, offsetof(inspect_options, files), NULL, "list the files", NULL},
    {"blocks", 0, CLI_FLAG, offsetof(inspect_options, blocks), NULL, "list the blocks, the units of scheduling", NULL},
    {"chunks", 0, CLI_FLAG, offsetof(inspect_options, chunks), NULL,
     "list every column of every row group or record batch; reads page headers", NULL},
    {"exact", 0, CLI_FLAG, offsetof(inspect_options, exact), NULL, "sum over every file, however many there are", NULL},
    CLI_MEMORY_OPTION(inspect_options),
    CLI_SOURCE_OPTIONS(inspect_options),
};

/** One line of the schema: a field, and for leaves what its chunks add up to. */
typedef struct column {
    const fby_field *field;
    unsigned depth;
    const char *codecs[MAX_CODECS]; /* static strings of the library */
    size_t n_codecs;
    uint64_t encodings, compressed_bytes, uncompressed_bytes, values, nulls, chunks;
    bool nulls_unknown;
} column;

typedef struct columns {
    column *items;
    size_t n, cap;
} columns;

/** Does a pattern select this field, or something below it? */
static bool selected(const fby_field *field, const cli_list *patterns)
{
    if (cli_list_match(patterns, field->path))
        return true;
    for (uint32_t i = 0; i < field->n_children; i++)
        if (selected(&field->children[i], patterns))
            return true;
    return false;
}

/** The chunk of a list of plain values has the list's path: the element below would only repeat the line. */
static bool is_leaf(const fby_field *field)
{
    while ((field->kind == FBY_KIND_LIST || field->kind == FBY_KIND_FIXED_LIST) && field->n_children == 1)
        field = &field->children[0];
    return field->n_children == 0;
}

static void collect(columns *out, const fby_field *field, unsigned depth, const cli_list *patterns)
{
    for (uint32_t i = 0; i < field->n_children; i++) {
        const fby_field *child = &field->children[i];
        if (!selected(child, patterns))
            continue;
        /* The nameless structs inside lists and maps add a level to the tree, none to the path. */
        bool named = strcmp(child->path, field->path) != 0;
        if (named) {
            if (out->n == out->cap) {
                out->cap = out->cap ? out->cap * 2 : 64;
                out->items = cli_realloc(out->items, out->cap * sizeof *out->items);
            }
            out->items[out->n++] = (column){.field = child, .depth = depth};
        }
        if (!is_leaf(child))
            collect(out, child, depth + named, patterns);
    }
}

static void add_chunk(column *c, const fby_chunk_info *chunk)
{
    size_t i = 0;
    while (i < c->n_codecs && strcmp(c->codecs[i], chunk->codec) != 0)
        i++;
    if (i == c->n_codecs && i < MAX_CODECS)
        c->codecs[c->n_codecs++] = chunk->codec;
    c->chunks++;
    c->encodings |= chunk->encodings;
    c->compressed_bytes += chunk->compressed_bytes;
    c->uncompressed_bytes += chunk->uncompressed_bytes;
    c->values += chunk->n_values;
    if (chunk->null_count < 0)
        c->nulls_unknown = true;
    else
        c->nulls += (uint64_t)chunk->null_count;
}

/** Sum up the chunks of every step-th file. A column that a file does not store (a pattern's, a missing one) has none there. */
static int sum_chunks(fby_dataset *ds, columns *cols, uint64_t step)
{
    fby_error err = {0};
    uint64_t n_files = fby_dataset_file_count(ds);
    for (uint64_t f = 0; f < n_files; f += step) {
        fby_file_info file = {.size = sizeof file};
        if (fby_dataset_file(ds, f, &file, &err) != FBY_OK)
            return cli_library_error(&err);
        cli_progress("reading metadata: file %s of %s", cli_count(f), cli_count(n_files));
        for (uint32_t group = 0; group < file.groups; group++) {
            for (size_t i = 0; i < cols->n; i++) {
                if (!is_leaf(cols->items[i].field))
                    continue;
                fby_chunk_info chunk = {.size = sizeof chunk};
                fby_status status = fby_dataset_chunk(ds, f, group, cols->items[i].field->path, false, &chunk, &err);
                if (status == FBY_OK)
                    add_chunk(&cols->items[i], &chunk);
                else if (status != FBY_E_SCHEMA && status != FBY_E_ARG)
                    return cli_library_error(&err);
            }
        }
    }
    cli_progress_end();
    return CLI_CONTINUE;
}

/** Level encodings are in every chunk's list: said only where they are all there is (booleans). */
static void encodings_text(uint64_t encodings, cli_text *out)
{
    uint64_t levels = 1u << 3 | 1u << 4; /* RLE, BIT_PACKED */
    uint64_t shown = encodings & ~levels ? encodings & ~levels : encodings;
    for (unsigned bit = 0; bit < 64; bit++)
        if (shown >> bit & 1)
            cli_text_addf(out, "%s%s", out->n ? ", " : "", fby_encoding_name(bit));
}

static const char *ratio(uint64_t plain, uint64_t stored)
{
    static char buffers[2][24];
    static unsigned next;
    char *out = buffers[next++ % 2];
    if (stored == 0)
        (void)snprintf(out, sizeof buffers[0], "-");
    else
        (void)snprintf(out, sizeof buffers[0], "%.2f", (double)plain / (double)stored);
    return out;
}

/* --- text -------------------------------------------------------------------------------------------------------------------- */

static void print_columns(const columns *cols)
{
    static const char *const header[] = {"column", "type", "null", "codec", "encodings", "stored", "plain", "ratio", "nulls"};
    cli_table table;
    cli_table_init(&table, 9);
    table.max_width = 48;
    for (size_t i = 0; i < 9; i++)
        cli_table_add(&table, header[i]);
    for (size_t i = 5; i < 9; i++)
        cli_table_right(&table, i);
    cli_text cell = {0};
    for (size_t i = 0; i < cols->n; i++) {
        const column *c = &cols->items[i];
        char type[256];
        (void)fby_field_type_text(c->field, type, sizeof type);
        cli_text_clear(&cell);
        for (unsigned d = 0; d < c->depth; d++)
            cli_text_add(&cell, "  ");
        cli_text_add(&cell, c->depth ? c->field->name : c->field->path);
        cli_table_add(&table, cli_text_str(&cell));
        cli_table_add(&table, type);
        cli_table_add(&table, c->field->nullable ? "yes" : "no");
        cli_text_clear(&cell);
        for (size_t k = 0; k < c->n_codecs; k++)
            cli_text_addf(&cell, "%s%s", k ? ", " : "", c->codecs[k]);
        cli_table_add(&table, cli_text_str(&cell));
        cli_text_clear(&cell);
        encodings_text(c->encodings, &cell);
        cli_table_add(&table, cli_text_str(&cell));
        if (c->chunks == 0) {
            for (int k = 0; k < 4; k++)
                cli_table_add(&table, "");
            continue;
        }
        cli_table_add(&table, cli_size(c->compressed_bytes));
        cli_table_add(&table, cli_size(c->uncompressed_bytes));
        cli_table_add(&table, ratio(c->uncompressed_bytes, c->compressed_bytes));
        cli_table_add(&table, c->nulls_unknown ? "?" : cli_count(c->nulls));
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    cli_text_free(&cell);
}

static int print_files(fby_dataset *ds)
{
    const char *groups = cli_groups(ds, 0), *const header[] = {"file", "format", "rows", groups ? groups : "groups", "blocks", "size"};
    cli_table table;
    cli_table_init(&table, 6);
    for (size_t i = 0; i < 6; i++)
        cli_table_add(&table, header[i]);
    for (size_t i = 2; i < 6; i++)
        cli_table_right(&table, i);
    fby_error err = {0};
    int code = CLI_CONTINUE;
    for (uint64_t f = 0; f < fby_dataset_file_count(ds) && code == CLI_CONTINUE; f++) {
        fby_file_info file = {.size = sizeof file};
        if (fby_dataset_file(ds, f, &file, &err) != FBY_OK) {
            code = cli_library_error(&err);
            break;
        }
        cli_table_add(&table, file.name);
        cli_table_add(&table, file.format);
        cli_table_add(&table, cli_count(file.rows));
        cli_table_add(&table, cli_count(file.groups));
        cli_table_add(&table, cli_count(file.n_blocks));
        cli_table_add(&table, cli_size(file.size_bytes));
    }
    if (code == CLI_CONTINUE) {
        printf("\n%sFiles%s\n", cli_bold, cli_plain);
        cli_table_print(&table, stdout);
    }
    cli_table_fini(&table);
    return code;
}

static int print_blocks(fby_dataset *ds)
{
    const char *group = cli_groups(ds, 1);
    const char *const header[] = {"block", "file", group ? group : "group", "rows in group", "first row", "rows", "stored"};
    cli_table table;
    cli_table_init(&table, 7);
    for (size_t i = 0; i < 7; i++)
        cli_table_add(&table, header[i]);
    for (size_t i = 0; i < 7; i++)
        if (i != 1)
            cli_table_right(&table, i);
    fby_error err = {0};
    int code = CLI_CONTINUE;
    for (uint64_t b = 0; b < fby_dataset_block_count(ds) && code == CLI_CONTINUE; b++) {
        fby_block_info block = {.size = sizeof block};
        fby_file_info file = {.size = sizeof file};
        if (fby_dataset_block(ds, b, &block, &err) != FBY_OK || fby_dataset_file(ds, block.file, &file, &err) != FBY_OK) {
            code = cli_library_error(&err);
            break;
        }
        cli_table_add(&table, cli_count(b));
        cli_table_add(&table, file.name);
        cli_table_add(&table, cli_count(block.group));
        cli_table_addf(&table, "%s-%s", cli_count(block.row_begin), cli_count(block.row_end));
        cli_table_add(&table, cli_count(block.first_row));
        cli_table_add(&table, cli_count(block.row_end - block.row_begin));
        cli_table_add(&table, cli_size(block.stored_bytes));
    }
    if (code == CLI_CONTINUE) {
        printf("\n%sBlocks%s\n", cli_bold, cli_plain);
        cli_table_print(&table, stdout);
    }
    cli_table_fini(&table);
    return code;
}

/** Every chunk, as rows of the table and as JSON. */
static int list_chunks(fby_dataset *ds, const columns *cols, cli_table *table, json_t *list)
{
    fby_error err = {0};
    cli_text text = {0};
    int code = CLI_CONTINUE;
    for (uint64_t f = 0; f < fby_dataset_file_count(ds); f++) {
        fby_file_info file = {.size = sizeof file};
        if (fby_dataset_file(ds, f, &file, &err) != FBY_OK) {
            code = cli_library_error(&err);
            goto done;
        }
        cli_progress("reading page headers: file %s of %s", cli_count(f), cli_count(fby_dataset_file_count(ds)));
        for (uint32_t group = 0; group < file.groups; group++) {
            for (size_t i = 0; i < cols->n; i++) {
                const char *path = cols->items[i].field->path;
                fby_chunk_info c = {.size = sizeof c};
                if (!is_leaf(cols->items[i].field))
                    continue;
                fby_status status = fby_dataset_chunk(ds, f, group, path, true, &c, &err);
                if (status == FBY_E_SCHEMA || status == FBY_E_ARG)
                    continue; /* not stored in this file */
                if (status != FBY_OK) {
                    code = cli_library_error(&err);
                    goto done;
                }
                json_t *encodings = json_array();
                for (unsigned bit = 0; bit < 64; bit++)
                    if (c.encodings >> bit & 1)
                        json_array_append_new(encodings, json_string(fby_encoding_name(bit)));
                json_array_append_new(list, json_pack("{s:I, s:I, s:o, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:b, s:b}", "file",
                                                      (json_int_t)f, "row_group", (json_int_t)group, "column", cli_json_text(path), "codec",
                                                      c.codec, "encodings", encodings, "values", (json_int_t)c.n_values, "nulls",
                                                      (json_int_t)c.null_count, "pages", (json_int_t)c.n_pages, "dictionary_values",
                                                      (json_int_t)c.n_dictionary_values, "compressed_bytes", (json_int_t)c.compressed_bytes,
                                                      "uncompressed_bytes", (json_int_t)c.uncompressed_bytes, "page_version",
                                                      (int)c.page_version, "offset_index", (int)c.has_offset_index, "crc", (int)c.has_crc));
                cli_table_add(table, file.name);
                cli_table_add(table, cli_count(group));
                cli_table_add(table, path);
                cli_table_add(table, c.codec);
                cli_text_clear(&text);
                encodings_text(c.encodings, &text);
                cli_table_add(table, cli_text_str(&text));
                cli_table_add(table, cli_count(c.n_values));
                cli_table_add(table, c.null_count < 0 ? "?" : cli_count((uint64_t)c.null_count));
                cli_table_add(table, c.n_pages < 0 ? "?" : cli_count((uint64_t)c.n_pages));
                cli_table_add(table, c.n_dictionary_values < 0 ? "" : cli_count((uint64_t)c.n_dictionary_values));
                cli_table_add(table, cli_size(c.compressed_bytes));
                cli_table_add(table, cli_size(c.uncompressed_bytes));
                cli_table_add(table, ratio(c.uncompressed_bytes, c.compressed_bytes));
                cli_table_addf(table, "%s%s%s",
                               c.page_version == 2   ? "v2"
                               : c.page_version == 1 ? "v1"
                                                     : "",
                               c.has_offset_index ? " index" : "", c.has_crc ? " crc" : "");
            }
        }
    }
done:
    cli_progress_end();
    cli_text_free(&text);
    return code;
}

static void init_chunk_table(cli_table *table)
{
    static const char *const header[] = {"file",  "group",      "column", "codec", "encodings", "values",   "nulls",
                                         "pages", "dictionary", "stored", "plain", "ratio",     "pages are"};
    enum { N = sizeof header / sizeof header[0] };
    cli_table_init(table, N);
    for (size_t i = 0; i < N; i++)
        cli_table_add(table, header[i]);
    cli_table_right(table, 1);
    for (size_t i = 5; i < N - 1; i++)
        cli_table_right(table, i);
}

/* --- JSON -------------------------------------------------------------------------------------------------------------------- */

static json_t *columns_json(const columns *cols)
{
    json_t *list = json_array();
    for (size_t i = 0; i < cols->n; i++) {
        const column *c = &cols->items[i];
        char type[1024];
        (void)fby_field_type_text(c->field, type, sizeof type);
        json_t *item =
            json_pack("{s:o, s:o, s:s, s:s, s:b}", "path", cli_json_text(c->field->path), "type", cli_json_text(type), "kind",
                      fby_kind_name(c->field->kind), "dtype", fby_dtype_name(c->field->dtype), "nullable", (int)c->field->nullable);
        if (c->chunks) {
            json_t *codecs = json_array(), *encodings = json_array();
            for (size_t k = 0; k < c->n_codecs; k++)
                json_array_append_new(codecs, json_string(c->codecs[k]));
            for (unsigned bit = 0; bit < 64; bit++)
                if (c->encodings >> bit & 1)
                    json_array_append_new(encodings, json_string(fby_encoding_name(bit)));
            json_object_set_new(item, "codecs", codecs);
            json_object_set_new(item, "encodings", encodings);
            json_object_set_new(item, "chunks", json_integer((json_int_t)c->chunks));
            json_object_set_new(item, "values", json_integer((json_int_t)c->values));
            json_object_set_new(item, "nulls", c->nulls_unknown ? json_null() : json_integer((json_int_t)c->nulls));
            json_object_set_new(item, "compressed_bytes", json_integer((json_int_t)c->compressed_bytes));
            json_object_set_new(item, "uncompressed_bytes", json_integer((json_int_t)c->uncompressed_bytes));
        }
        json_array_append_new(list, item);
    }
    return list;
}

static int add_files_json(fby_dataset *ds, json_t *root)
{
    fby_error err = {0};
    json_t *list = json_array();
    json_object_set_new(root, "file_list", list);
    for (uint64_t f = 0; f < fby_dataset_file_count(ds); f++) {
        fby_file_info file = {.size = sizeof file};
        if (fby_dataset_file(ds, f, &file, &err) != FBY_OK)
            return cli_library_error(&err);
        json_array_append_new(list, json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I}", "path", cli_json_text(file.path), "name",
                                              cli_json_text(file.name), "format", file.format, "size_bytes", (json_int_t)file.size_bytes,
                                              "rows", (json_int_t)file.rows, "row_groups", (json_int_t)file.groups, "first_block",
                                              (json_int_t)file.first_block, "blocks", (json_int_t)file.n_blocks));
    }
    return CLI_CONTINUE;
}

static int add_blocks_json(fby_dataset *ds, json_t *root)
{
    fby_error err = {0};
    json_t *list = json_array();
    json_object_set_new(root, "block_list", list);
    for (uint64_t b = 0; b < fby_dataset_block_count(ds); b++) {
        fby_block_info block = {.size = sizeof block};
        if (fby_dataset_block(ds, b, &block, &err) != FBY_OK)
            return cli_library_error(&err);
        json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "file", (json_int_t)block.file, "row_group",
                                              (json_int_t)block.group, "row_begin", (json_int_t)block.row_begin, "row_end",
                                              (json_int_t)block.row_end, "first_row", (json_int_t)block.first_row, "stored_bytes",
                                              (json_int_t)block.stored_bytes));
    }
    return CLI_CONTINUE;
}

/* --- the command ---------------------------------------------------------------------------------------------------------------- */

typedef struct totals {
    uint64_t groups, stored, plain, leaves, all_leaves, sampled_files;
} totals;

static uint64_t count_leaves(const fby_field *field)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < field->n_children; i++)
        n += is_leaf(&field->children[i]) ? 1 : count_leaves(&field->children[i]);
    return n;
}

static int print_json_report(fby_dataset *ds, const inspect_options *o, const columns *cols, const totals *t)
{
    fby_open_stats stats = {.size = sizeof stats};
    (void)fby_dataset_open_stats(ds, &stats, NULL); /* the size is right: cannot fail */
    json_t *notes = json_array();
    const char *note;
    for (size_t i = 0; (note = fby_dataset_note(ds, i)) != NULL; i++)
        json_array_append_new(notes, json_string(note));
    json_t *root =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o, s:{s:f, s:I, s:I, s:b}}", "command", "inspect", "forebay",
                  fby_version(), "rows", (json_int_t)fby_dataset_rows(ds), "files", (json_int_t)fby_dataset_file_count(ds), "row_groups",
                  (json_int_t)t->groups, "blocks", (json_int_t)fby_dataset_block_count(ds), "stored_bytes",
                  (json_int_t)fby_dataset_stored_bytes(ds), "sampled_files", (json_int_t)t->sampled_files, "identity",
                  fby_dataset_identity(ds), "fingerprint", fby_dataset_fingerprint(ds), "columns", columns_json(cols), "notes", notes,
                  "open", "seconds", (double)stats.elapsed_ns * 1e-9, "files_from_cache", (json_int_t)stats.files_from_cache,
                  "metadata_bytes_read", (json_int_t)stats.metadata_bytes_read, "cache_written", (int)stats.cache_written);
    int code = cli_contents_json(ds, root);
    if (code == CLI_CONTINUE)
        code = cli_packed_json(ds, root);
    if (code == CLI_CONTINUE && o->files)
        code = add_files_json(ds, root);
    if (code == CLI_CONTINUE && o->blocks)
        code = add_blocks_json(ds, root);
    if (code == CLI_CONTINUE && o->chunks) {
        cli_table table;
        init_chunk_table(&table);
        json_t *list = json_array();
        json_object_set_new(root, "chunk_list", list);
        code = list_chunks(ds, cols, &table, list);
        cli_table_fini(&table);
    }
    if (code != CLI_CONTINUE) {
        json_decref(root);
        return code;
    }
    return cli_print_json(root, 9);
}

static int print_text_report(fby_dataset *ds, const inspect_options *o, char *const *paths, size_t n_paths, const columns *cols,
                             const totals *t)
{
    fby_open_stats stats = {.size = sizeof stats};
    (void)fby_dataset_open_stats(ds, &stats, NULL); /* the size is right: cannot fail */
    uint64_t n_files = fby_dataset_file_count(ds);
    for (size_t i = 0; i < n_paths && i < 3; i++)
        printf("%s%s%s%s", i ? ", " : "", cli_bold, cli_printable(paths[i]), cli_plain);
    if (n_paths > 3)
        printf(" and %s more", cli_count(n_paths - 3));
    cli_text shown = {0};
    if (t->leaves < t->all_leaves)
        cli_text_addf(&shown, "%s of ", cli_count(t->leaves));
    printf("\n  %s rows in %s %s, ", cli_count(fby_dataset_rows(ds)), cli_count(n_files), n_files == 1 ? "file" : "files");
    if (cli_groups(ds, t->groups))
        printf("%s %s, ", cli_count(t->groups), cli_groups(ds, t->groups));
    printf("%s %s; %s%s %s\n", cli_count(fby_dataset_block_count(ds)), fby_dataset_block_count(ds) == 1 ? "block" : "blocks",
           cli_text_str(&shown), cli_count(t->all_leaves), t->all_leaves == 1 ? "column" : "columns");
    cli_text_free(&shown);
    printf("  %s stored", cli_size(fby_dataset_stored_bytes(ds)));
    if (t->stored && o->columns.n == 0)
        printf(", %s uncompressed (%s×)", cli_size((uint64_t)((double)t->plain / (double)t->stored * (double)fby_dataset_stored_bytes(ds))),
               ratio(t->plain, t->stored));
    printf("; opened in %s", cli_seconds((double)stats.elapsed_ns * 1e-9));
    if (stats.files_from_cache == stats.files)
        printf(" from the index cache");
    else if (stats.files_from_cache)
        printf(", %s files from the index cache", cli_count(stats.files_from_cache));
    printf("\n\n");
    print_columns(cols);
    if (t->sampled_files < n_files)
        printf("  %sCodecs, encodings and sizes are of %s of %s files; --exact reads every one.%s\n", cli_dim, cli_count(t->sampled_files),
               cli_count(n_files), cli_plain);

    int code = cli_contents_print(ds);
    if (code == CLI_CONTINUE)
        code = cli_packed_print(ds);
    if (code == CLI_CONTINUE && o->files)
        code = print_files(ds);
    if (code == CLI_CONTINUE && o->blocks)
        code = print_blocks(ds);
    if (code == CLI_CONTINUE && o->chunks) {
        cli_table table;
        init_chunk_table(&table);
        json_t *list = json_array();
        code = list_chunks(ds, cols, &table, list);
        if (code == CLI_CONTINUE) {
            printf("\n%sColumn chunks%s\n", cli_bold, cli_plain);
            cli_table_print(&table, stdout);
        }
        json_decref(list);
        cli_table_fini(&table);
    }
    if (code != CLI_CONTINUE)
        return code;

    const char *note;
    for (size_t i = 0; (note = fby_dataset_note(ds, i)) != NULL; i++)
        printf("%s  %s-%s %s\n", i ? "" : "\nWhat is odd\n", cli_yellow, cli_plain, note);
    return CLI_OK;
}

static int report(fby_dataset *ds, const void *values, char *const *paths, size_t n_paths)
{
    const inspect_options *o = values;
    columns cols = {0};
    totals t = {0};
    uint64_t n_files = fby_dataset_file_count(ds), step = 1, chunks;
    fby_error err = {0};
    int code;
    collect(&cols, fby_dataset_schema(ds), 0, &o->columns);
    for (size_t i = 0; i < cols.n; i++)
        t.leaves += is_leaf(cols.items[i].field);
    t.all_leaves = count_leaves(fby_dataset_schema(ds));
    if (cols.n == 0 && o->columns.n) {
        code = cli_error(CLI_USAGE, "forebay inspect PATH, without --columns, for the names", "inspect: no column matches --columns");
        goto done;
    }
    for (uint64_t f = 0; f < n_files; f++) {
        fby_file_info file = {.size = sizeof file};
        if (fby_dataset_file(ds, f, &file, &err) != FBY_OK) {
            code = cli_library_error(&err);
            goto done;
        }
        t.groups += file.groups;
    }
    chunks = t.groups * (t.leaves ? t.leaves : 1);
    if (!o->exact && chunks > SAMPLED_CHUNKS && n_files > 1)
        step = (chunks + SAMPLED_CHUNKS - 1) / SAMPLED_CHUNKS;
    t.sampled_files = (n_files + step - 1) / step;
    code = sum_chunks(ds, &cols, step);
    if (code != CLI_CONTINUE)
        goto done;
    for (size_t i = 0; i < cols.n; i++) {
        t.stored += cols.items[i].compressed_bytes;
        t.plain += cols.items[i].uncompressed_bytes;
    }
    code = o->source.json ? print_json_report(ds, o, &cols, &t) : print_text_report(ds, o, paths, n_paths, &cols, &t);
done:
    free(cols.items);
    return code;
}

static int run(const cli_command *command, int argc, char **argv)
{
    inspect_options o = {.source.memory = CLI_MEMORY_DEFAULT};
    int code = cli_source_run(command, argc, argv, &o, &o.source, report);
    cli_list_free(&o.columns);
    cli_list_free(&o.source.dtypes);
    return code;
}

const cli_command cli_inspect = {
    .name = "inspect",
    .summary = "what is in the files: columns, types, codecs, sizes, what is odd",
    .synopsis = "PATH… [options]",
    .examples = "  forebay inspect basins/                               every data file below a directory\n"
                "  forebay inspect \"data/{region}/{id}.parquet\" --files  names become columns; list the files\n"
                "  forebay inspect x.parquet --columns \"hits.*\" --chunks  pages, dictionaries, encodings of some columns\n"
                "  forebay inspect mel.h5 --axes 3                       HDF5: rows over the first three axes; chunks, filters, ratios\n"
                "  forebay inspect basins/ --json | jq .rows\n",
    .notes = "stored and plain are bytes before and after decompression, as the files' metadata has them; ratio is plain/stored.\n"
             "A block is the unit of scheduling and caching: a row group, record batch or run of chunks, or a piece of a large one.\n"
             "--json: {command, forebay, rows, files, row_groups, blocks, stored_bytes, sampled_files, identity, fingerprint,\n"
             "columns: [{path, type, kind, dtype, nullable, codecs, encodings, chunks, values, nulls, compressed_bytes,\n"
             "uncompressed_bytes}], notes: [text], open: {seconds, …}} and file_list, block_list, chunk_list when asked for;\n"
             "of HDF5 files also contents: [{path, kind, type, shape, dimensions, layout, chunks, filters, …}] of the first one;\n"
             "of a pack also pack: {version, source_identity, source_contents, shuffle, seed, codec, batch, rows_per_file, columns,\n"
             "source_root, source_fingerprint, rows_hash}, as far as the first file and _pack.json beside it say so.\n",
    .options = options,
    .run = run,
};
