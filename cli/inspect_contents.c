/*
 * forebay inspect on HDF5: every data set of the first file as h5dump -H -p would describe it, what one sample costs to decode, which path
 * reads it and why, and which layouts cannot be fast.
 */
#include "cli.h"

#include <string.h>

static bool is_hdf5(const fby_dataset *ds)
{
    fby_file_info file = {.size = sizeof file};
    return fby_dataset_file(ds, 0, &file, NULL) == FBY_OK && file.format && strcmp(file.format, "hdf5") == 0;
}

static void add_dims(cli_text *text, const uint64_t *dims, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        cli_text_addf(text, "%s%llu", i ? " × " : "", (unsigned long long)dims[i]);
}

static void shape_text(const fby_object *o, cli_text *text)
{
    cli_text_clear(text);
    for (uint32_t i = 0; i < o->ndim; i++) {
        if (i)
            cli_text_add(text, " × ");
        if (o->dimensions[i]) {
            cli_text_add(text, o->dimensions[i]);
            cli_text_add(text, " ");
        }
        cli_text_addf(text, "%llu", (unsigned long long)o->shape[i]);
    }
    if (o->ndim == 0)
        cli_text_add(text, "scalar");
}

/* Decoded bytes of one chunk; 0 where there are no chunks. */
static uint64_t chunk_bytes(const fby_object *o)
{
    uint64_t n = 1, all = 1;
    for (uint32_t i = 0; i < o->ndim; i++) {
        n *= o->chunk[i];
        all *= o->shape[i];
    }
    return o->chunk_index && all ? (uint64_t)((double)o->decoded_bytes / (double)all * (double)n) : 0;
}

/* Bytes decoded to read one index of axis 0 alone: all chunks that lie beside one another, whole, though the rest of each is wasted. */
static uint64_t bytes_a_row_alone(const fby_object *o)
{
    if (o->ndim == 0 || o->shape[0] == 0)
        return o->decoded_bytes;
    uint64_t across = 1;
    for (uint32_t i = 1; o->chunk_index && i < o->ndim; i++)
        across *= o->chunk[i] ? (o->shape[i] + o->chunk[i] - 1) / o->chunk[i] : 1;
    return o->chunk_index ? across * chunk_bytes(o) : o->decoded_bytes / o->shape[0];
}

static void add_object(cli_table *table, const fby_object *o, cli_text *text)
{
    cli_table_add(table, o->path);
    cli_table_add(table, o->type);
    shape_text(o, text);
    cli_table_add(table, cli_text_str(text));
    cli_text_clear(text);
    add_dims(text, o->chunk, o->chunk_index ? o->ndim : 0);
    cli_table_add(table, o->chunk_index ? cli_text_str(text) : o->layout);
    cli_table_add(table, o->filters && *o->filters ? o->filters : "-");
    cli_table_addf(table, "%s", o->chunk_index ? cli_count(o->n_chunks_written) : "-");
    cli_table_add(table, cli_size(o->stored_bytes));
    cli_table_addf(table, "%.2f", o->stored_bytes ? (double)o->decoded_bytes / (double)o->stored_bytes : 0.0);
    cli_table_add(table, o->column ? cli_size(bytes_a_row_alone(o)) : "-");
    cli_table_add(table, o->direct ? "direct" : "helper");
}

int cli_contents_print(const fby_dataset *ds)
{
    static const char *const TITLES[] = {"data set", "type",   "shape", "chunks",    "filters",
                                         "written",  "stored", "ratio", "row alone", "read"};
    fby_contents *contents;
    fby_error err = {0};
    if (!is_hdf5(ds))
        return CLI_CONTINUE;
    if (fby_contents_open(ds, 0, &contents, &err) != FBY_OK)
        return cli_library_error(&err);
    cli_table table;
    cli_text text = {0};
    size_t n_reasons = 0;
    const fby_object *o;
    cli_table_init(&table, sizeof TITLES / sizeof *TITLES);
    for (size_t i = 0; i < sizeof TITLES / sizeof *TITLES; i++)
        cli_table_add(&table, TITLES[i]);
    for (size_t c = 5; c < 9; c++)
        cli_table_right(&table, c);
    table.max_width = 48;
    for (size_t i = 0; (o = fby_contents_object(contents, i)) != NULL; i++)
        if (o->kind == FBY_OBJECT_ARRAY)
            add_object(&table, o, &text);
    fby_file_info file = {.size = sizeof file};
    (void)fby_dataset_file(ds, 0, &file, NULL); /* it was there a moment ago */
    printf("\n%sData sets%s of %s\n", cli_bold, cli_plain, cli_printable(file.name));
    cli_table_print(&table, stdout);
    printf("  %srow alone: bytes decoded to read one row by itself; blocks are decoded once an epoch, whatever the order.%s\n", cli_dim,
           cli_plain);
    for (size_t i = 0; (o = fby_contents_object(contents, i)) != NULL; i++)
        if (o->kind == FBY_OBJECT_ARRAY && !o->direct && o->why) {
            printf("%s  %s is read by the helper program: %s\n", n_reasons++ ? "" : "\n", cli_printable(o->path), cli_printable(o->why));
        }
    const char *note;
    for (size_t i = 0; (note = fby_contents_note(contents, i)) != NULL; i++)
        printf("%s  %s-%s %s\n", i ? "" : "\nWhat is slow about the layout\n", cli_yellow, cli_plain, note);
    cli_table_fini(&table);
    cli_text_free(&text);
    fby_contents_close(contents);
    return CLI_CONTINUE;
}

static json_t *dims_json(const uint64_t *dims, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)dims[i]));
    return list;
}

static json_t *text_json(const char *s) { return s ? cli_json_text(s) : json_null(); }

static json_t *names_json(const fby_object *o)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < o->ndim; i++) {
        json_array_append_new(list, text_json(o->dimensions[i]));
    }
    return list;
}

int cli_contents_json(const fby_dataset *ds, json_t *root)
{
    static const char *const KINDS[] = {"group", "array", "type", "link", "column"};
    fby_contents *contents;
    fby_error err = {0};
    if (!is_hdf5(ds))
        return CLI_CONTINUE;
    if (fby_contents_open(ds, 0, &contents, &err) != FBY_OK)
        return cli_library_error(&err);
    json_t *list = json_array(), *notes = json_array();
    const fby_object *o;
    const char *note;
    for (size_t i = 0; (o = fby_contents_object(contents, i)) != NULL; i++) {
        json_t *item =
            json_pack("{s:o, s:s, s:I}", "path", cli_json_text(o->path), "kind", KINDS[o->kind], "attributes", (json_int_t)o->n_attributes);
        if (item && o->kind == FBY_OBJECT_ARRAY) {
            json_t *more = json_pack("{s:o, s:o, s:o, s:s?, s:o, s:s?, s:o, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "type",
                                     text_json(o->type), "shape", dims_json(o->shape, o->ndim), "dimensions", names_json(o), "layout",
                                     o->layout, "chunks", dims_json(o->chunk, o->chunk_index ? o->ndim : 0), "chunk_index", o->chunk_index,
                                     "filters", text_json(o->filters), "n_chunks", (json_int_t)o->n_chunks, "n_chunks_written",
                                     (json_int_t)o->n_chunks_written, "stored_bytes", (json_int_t)o->stored_bytes, "decoded_bytes",
                                     (json_int_t)o->decoded_bytes, "bytes_a_row_alone", (json_int_t)bytes_a_row_alone(o), "direct",
                                     (int)o->direct, "why", text_json(o->why), "column", text_json(o->column));
            json_object_update(item, more);
            json_decref(more);
        }
        json_array_append_new(list, item ? item : json_null());
    }
    for (size_t i = 0; (note = fby_contents_note(contents, i)) != NULL; i++)
        json_array_append_new(notes, json_string(note));
    json_object_set_new(root, "contents", list);
    json_object_set_new(root, "layout_notes", notes);
    fby_contents_close(contents);
    return CLI_CONTINUE;
}
