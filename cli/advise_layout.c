/* forebay advise: what is wrong with how files are written, and a copy of a pipeline file with settings that fit. */
#include "advise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

enum { MANY_CHUNKS = 64, MANY_TEXTS = 1000, FEW_TEXTS = 10, MOST_COLUMNS = 64 };

static void note(advise_notes *notes, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void note(advise_notes *notes, const char *fmt, ...)
{
    cli_text text = {0};
    va_list args;
    va_start(args, fmt);
    cli_text_addv(&text, fmt, args);
    va_end(args);
    notes->texts = cli_realloc(notes->texts, (notes->n + 1) * sizeof *notes->texts);
    notes->texts[notes->n++] = text.data;
}

void advise_notes_free(advise_notes *notes)
{
    for (size_t i = 0; i < notes->n; i++)
        free(notes->texts[i]);
    free(notes->texts);
}

/** The codec of the first column that has one; NULL for formats that do not say it. */
static const char *codec_of(const fby_dataset *ds, const fby_field *field)
{
    for (uint32_t i = 0; i < field->n_children; i++) {
        fby_chunk_info chunk = {.size = sizeof chunk};
        if (field->children[i].n_children == 0 && fby_dataset_chunk(ds, 0, 0, field->children[i].path, false, &chunk, NULL) == FBY_OK)
            return chunk.codec;
    }
    return NULL;
}

static void note_row_groups(const fby_dataset *ds, advise_notes *notes)
{
    uint64_t groups = 0, largest = 0, stored = fby_dataset_stored_bytes(ds), of_group = 0;
    for (uint64_t i = 0; i < fby_dataset_block_count(ds); i++) {
        fby_block_info block = {.size = sizeof block};
        if (fby_dataset_block(ds, i, &block, NULL) != FBY_OK)
            return;
        of_group = block.row_begin == 0 ? block.stored_bytes : of_group + block.stored_bytes;
        groups += block.row_begin == 0;
        largest = of_group > largest ? of_group : largest;
    }
    const char *word = cli_groups(ds, groups);
    notes->packing = (word && largest > 1024 * MIB) || (groups > 64 && stored / groups < 256 * 1024);
    if (word && largest > 1024 * MIB)
        note(notes, "the largest %s has %s stored: ones of 16 to 128 MiB are read and mixed in smaller pieces", cli_groups(ds, 1),
             cli_memory(largest));
    const uint64_t files = fby_dataset_file_count(ds);
    if (files >= 1000 && stored / files < 256 * 1024) {
        notes->packing = true;
        note(notes, "%s files have %s stored each in the mean: every one is found, opened and described by itself", cli_count(files),
             cli_memory(stored / files));
    } else if (groups > 64 && stored / groups < 256 * 1024)
        note(notes, "%s %s have %s stored each in the mean: larger ones, of 16 to 128 MiB, cost less to find and to open",
             cli_count(groups),
             word              ? word
             : files == groups ? "files"
                               : "blocks",
             cli_memory(stored / groups));
}

/** In how many chunks a row lies, which are cut across the axes inside of a row. */
static uint64_t chunks_of_a_row(const fby_object *o)
{
    uint64_t chunks = 1;
    for (uint32_t k = 1; o->chunk_index && k < o->ndim; k++)
        chunks *= o->chunk[k] ? (o->shape[k] + o->chunk[k] - 1) / o->chunk[k] : 1;
    return chunks;
}

/** Chunks that one row has to be put together from: those of one data set, and how many others there are. */
static void note_chunks(const fby_contents *contents, advise_notes *notes)
{
    const fby_object *o, *first = NULL;
    uint64_t others = 0;
    for (size_t i = 0; (o = fby_contents_object(contents, i)); i++)
        if (o->column && chunks_of_a_row(o) >= MANY_CHUNKS && o->chunk[0] > 1) {
            others += first != NULL;
            first = first ? first : o;
        }
    if (first)
        note(notes,
             "'%s'%s%s %s cut across the wrong axes: a row lies in %s chunks of %s rows each; cut the first axis, and leave the others "
             "whole",
             first->path, others ? " and others, in all " : "", others ? cli_count(others + 1) : "", others ? "data sets, are" : "is",
             cli_count(chunks_of_a_row(first)), cli_count(first->chunk[0]));
}

/** Does all of a text say a number? */
static bool is_number(const char *text, size_t n)
{
    char copy[40], *end;
    if (n == 0 || n >= sizeof copy)
        return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    (void)strtod(copy, &end);
    return *end == 0 && strspn(copy, "+-.0123456789eE") == n && !(copy[0] == '0' && n > 1 && copy[1] != '.'); /* 007 is a name */
}

static bool all_numbers(const struct ArrowArray *texts)
{
    const int64_t *offsets = texts->buffers[1];
    int64_t seen = 0;
    for (int64_t i = texts->offset; i < texts->offset + texts->length && i < texts->offset + MANY_TEXTS; i++) {
        const size_t n = (size_t)(offsets[i + 1] - offsets[i]);
        if (n && !is_number((const char *)texts->buffers[2] + offsets[i], n))
            return false;
        seen += n > 0;
    }
    return seen >= FEW_TEXTS;
}

/** Columns of text whose first values are numbers. Lists and what is inside of structs is not looked at. */
static void note_texts(fby_dataset *ds, advise_notes *notes)
{
    const fby_field *root = fby_dataset_schema(ds);
    const char **names = cli_alloc((root->n_children + 1) * sizeof *names);
    size_t n = 0;
    for (uint32_t i = 0; i < root->n_children && n < MOST_COLUMNS; i++)
        if (root->children[i].kind == FBY_KIND_STRING)
            names[n++] = root->children[i].name;
    struct ArrowArrayStream stream;
    if (n && fby_dataset_export_arrow(ds, names, n, &stream, NULL) == FBY_OK) {
        struct ArrowSchema schema = {0};
        struct ArrowArray array = {0};
        if (stream.get_schema(&stream, &schema) == 0 && stream.get_next(&stream, &array) == 0 && array.release)
            for (size_t i = 0; i < n; i++)
                if (strcmp(schema.children[i]->format, "U") == 0 && all_numbers(array.children[i]))
                    note(notes, "column '%s' holds numbers as text: written as numbers they are smaller, and need no parsing", names[i]);
        if (array.release)
            array.release(&array);
        if (schema.release)
            schema.release(&schema);
        stream.release(&stream);
    }
    free(names);
}

/** Looks at the first file alone: those of a data set are alike. */
static void note_files(const fby_dataset *ds, const advise_packing *packing, advise_notes *notes)
{
    fby_error err = {0};
    fby_file_info file = {.size = sizeof file};
    fby_contents *contents;
    if (fby_dataset_file_count(ds) == 0 || fby_dataset_file(ds, 0, &file, &err) != FBY_OK || !file.format)
        return;
    if (strcmp(file.format, "csv") == 0) {
        cli_text command = {0};
        advise_add_pack_command(&command, packing);
        note(notes, "the files are text: numbers in Parquet are several times smaller, and need no parsing: %s", cli_text_str(&command));
        cli_text_free(&command);
    }
    if (strcmp(file.format, "hdf5") != 0 || fby_contents_open(ds, 0, &contents, &err) != FBY_OK)
        return;
    const char *text;
    for (size_t i = 0; i < 8 && (text = fby_contents_note(contents, i)); i++)
        note(notes, "%s", text);
    note_chunks(contents, notes);
    fby_contents_close(contents);
}

void advise_layout(fby_dataset *ds, const fby_samples *samples, const advise_packing *packing, const advise_costs *c, advise_notes *out)
{
    const double all = c->read_cpu + c->decompress_cpu + c->decode_cpu + c->assemble_cpu;
    *out = (advise_notes){0};
    note_row_groups(ds, out);
    note_files(ds, packing, out);
    note_texts(ds, out);
    if (all > 0 && c->decompress_cpu > 0.5 * all) {
        const char *codec = codec_of(ds, fby_dataset_schema(ds));
        cli_text command = {0};
        advise_add_pack_command(&command, packing);
        note(out, "%.0f %% of the CPU time goes to decompressing%s%s: LZ4 takes a fraction of it: %s --codec lz4",
             100 * c->decompress_cpu / all, codec ? " " : "", codec ? codec : "", cli_text_str(&command));
        cli_text_free(&command);
    }
    const char *text;
    for (size_t i = 0; (text = fby_dataset_note(ds, i)) && i < 8; i++)
        note(out, "%s", text);
    for (size_t i = 0; samples && (text = fby_samples_note(samples, i)) && i < 8; i++)
        note(out, "%s", text);
}

/* ---- a copy with settings ---- */

static char *folder_of(const char *path)
{
    char *copy = cli_alloc(strlen(path) + 3);
    strcpy(copy, path);
    char *end = strrchr(copy, '/');
    if (end)
        end[end == copy] = 0;
    else
        strcpy(copy, ".");
    char *real = realpath(copy, NULL);
    free(copy);
    return real;
}

/** A map with one value replaced, or added behind the others. The arrays are owned. */
static fby_node with(const fby_node *map, const fby_node *key, const fby_node *value)
{
    const size_t n = map ? map->n : 0;
    const fby_node **keys = cli_alloc((n + 1) * sizeof *keys), **items = cli_alloc((n + 1) * sizeof *items);
    size_t at = n;
    for (size_t i = 0; i < n; i++) {
        keys[i] = map->keys[i];
        items[i] = map->items[i];
        at = strcmp(map->keys[i]->text, key->text) == 0 ? i : at;
    }
    keys[at] = key;
    items[at] = value;
    return (fby_node){.kind = FBY_NODE_MAP, .n = at == n ? n + 1 : n, .keys = keys, .items = items};
}

static void drop(const fby_node *map)
{
    free((void *)(uintptr_t)map->keys);
    free((void *)(uintptr_t)map->items);
}

int advise_write(const fby_pipeline *pipeline, const char *from, const char *to, uint64_t memory_bytes, uint64_t threads,
                 uint64_t superbatch)
{
    struct stat st;
    char *here = folder_of(from), *there = folder_of(to);
    const bool beside = here && there && strcmp(here, there) == 0;
    free(here);
    free(there);
    if (stat(to, &st) == 0)
        return cli_error(CLI_USAGE, "--write another-name.yaml", "advise: %s is there already, and is not written over", to);
    if (!beside)
        return cli_error(CLI_USAGE, NULL, "advise: %s lies in another folder than %s, where the paths in it would lead elsewhere", to,
                         from);
    char size[32];
    (void)snprintf(size, sizeof size, "%lluMiB", (unsigned long long)(memory_bytes / MIB));
    const fby_node *root = fby_pipeline_tree(pipeline), *old = NULL;
    for (size_t i = 0; i < root->n; i++)
        old = strcmp(root->keys[i]->text, "loader") == 0 && root->items[i]->kind == FBY_NODE_MAP ? root->items[i] : old;
    const fby_node names[] = {{.kind = FBY_NODE_TEXT, .text = "loader"},
                              {.kind = FBY_NODE_TEXT, .text = "memory"},
                              {.kind = FBY_NODE_TEXT, .text = "threads"},
                              {.kind = FBY_NODE_TEXT, .text = "superbatch"}};
    const fby_node memory = {.kind = FBY_NODE_TEXT, .text = size};
    const fby_node count = {.kind = FBY_NODE_INT, .integer = (int64_t)threads, .number = (double)threads};
    const fby_node samples = {.kind = FBY_NODE_INT, .integer = (int64_t)superbatch, .number = (double)superbatch};
    const fby_node first = with(old, &names[1], &memory), second = with(&first, &names[2], &count),
                   loader = superbatch ? with(&second, &names[3], &samples) : second, all = with(root, &names[0], &loader);
    fby_error err = {0};
    const fby_status status = fby_tree_write(&all, NULL, NULL, NULL, 0, to, &err);
    drop(&first);
    drop(&second);
    if (superbatch)
        drop(&loader);
    drop(&all);
    return status == FBY_OK ? CLI_OK : cli_library_error(&err);
}
