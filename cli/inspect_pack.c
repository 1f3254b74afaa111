/*
 * forebay inspect on a pack: what its files say that they were made of, and, where _pack.json is still beside them, what that knows beyond it:
 * where the source lay, and the hash of its rows.
 */
#include "cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "forebay."
#define MOST_OF_A_MANIFEST ((off_t)16 << 20)

/** Is the first file of a format that packs are written in? *file: what it is. */
static bool has_format_of_packs(const fby_dataset *ds, fby_file_info *file)
{
    return fby_dataset_file(ds, 0, file, NULL) == FBY_OK && file->format &&
           (strcmp(file->format, "parquet") == 0 || strcmp(file->format, "ipc") == 0 || strcmp(file->format, "hdf5") == 0);
}

static bool is_count(const char *key) { return !strcmp(key, "seed") || !strcmp(key, "batch") || !strcmp(key, "rows_per_file"); }

/** Numbers and lists as what they are, in files that are what they claim to be; anything else is text. */
static json_t *value_json(const char *key, const char *text)
{
    json_t *value = is_count(key) || strcmp(key, "columns") == 0 ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    const bool fits = is_count(key) ? json_is_integer(value) : json_is_array(value);
    if (fits)
        return value;
    json_decref(value);
    return cli_json_text(text);
}

/** A file of JSON that lies beside the data; NULL where it cannot be one. A link is not followed, and a pipe not waited for. */
static json_t *load_beside(const char *path)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    json_t *root =
        fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= MOST_OF_A_MANIFEST ? json_loadfd(fd, 0, NULL) : NULL;
    if (fd >= 0)
        (void)close(fd); /* it was only read */
    return root;
}

/** What only the manifest knows, if it is that of these files. */
static void add_manifest(const char *path, json_t *pack)
{
    static const char *const KEYS[] = {"source_root", "source_fingerprint", "rows_hash"};
    const char *name = strrchr(path, '/');
    cli_text file = {0};
    if (name)
        cli_text_addf(&file, "%.*s/", (int)(name - path), path);
    cli_text_add(&file, "_pack.json");
    json_t *manifest = load_beside(cli_text_str(&file)), *contents = json_object_get(manifest, "source_contents");
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS && contents && json_equal(contents, json_object_get(pack, "source_contents")); i++) {
        json_t *value = json_object_get(manifest, KEYS[i]);
        if (json_is_string(value))
            json_object_set(pack, KEYS[i], value);
    }
    json_decref(manifest);
    cli_text_free(&file);
}

/** What the first file says about its pack; *out stays NULL where it is no pack's. */
static int find(const fby_dataset *ds, json_t **out)
{
    fby_file_info file = {.size = sizeof file};
    fby_error err = {0};
    fby_contents *contents;
    if (!has_format_of_packs(ds, &file))
        return CLI_CONTINUE;
    const fby_status status = fby_contents_open(ds, 0, &contents, &err);
    if (status == FBY_E_UNSUPPORTED)
        return CLI_CONTINUE; /* so many keys are none of a pack */
    if (status != FBY_OK)
        return cli_library_error(&err);
    const fby_object *root = fby_contents_object(contents, 0);
    json_t *pack = json_object();
    for (uint32_t i = 0; fby_contents_attribute(contents, "/", PREFIX "source_contents") && i < root->n_attributes; i++) {
        const fby_attribute *a = &root->attributes[i];
        if (strncmp(a->name, PREFIX, strlen(PREFIX)) == 0 && a->strings && a->n > 0 && a->utf8)
            json_object_set_new(pack, a->name + strlen(PREFIX), value_json(a->name + strlen(PREFIX), a->strings[0]));
    }
    fby_contents_close(contents);
    if (json_object_size(pack)) {
        add_manifest(file.path, pack);
        *out = pack;
    } else {
        json_decref(pack);
    }
    return CLI_CONTINUE;
}

int cli_packed_json(const fby_dataset *ds, json_t *root)
{
    json_t *pack = NULL;
    const int code = find(ds, &pack);
    if (pack)
        json_object_set_new(root, "pack", pack);
    return code;
}

/** A member as text, safe to print; "" where it is not there. */
static const char *text_of(const json_t *pack, const char *key)
{
    const char *text = json_string_value(json_object_get(pack, key));
    return text ? cli_printable(text) : "";
}

static const char *count_of(const json_t *pack, const char *key)
{
    return cli_count((uint64_t)json_integer_value(json_object_get(pack, key)));
}

int cli_packed_print(const fby_dataset *ds)
{
    json_t *pack = NULL;
    const int code = find(ds, &pack);
    if (!pack)
        return code;
    json_t *root = json_object_get(pack, "source_root"), *hash = json_object_get(pack, "rows_hash"),
           *columns = json_object_get(pack, "columns"), *column;
    size_t i;
    printf("\n%sPacked%s\n  by         forebay %s, shuffle %s", cli_bold, cli_plain, text_of(pack, "version"), text_of(pack, "shuffle"));
    if (json_object_get(pack, "seed"))
        printf(", seed %lld", (long long)json_integer_value(json_object_get(pack, "seed")));
    if (json_object_get(pack, "by"))
        printf(", by the key %s", text_of(pack, "by"));
    printf("\n  from       %s%scontents %s", root ? text_of(pack, "source_root") : "", root ? ", " : "", text_of(pack, "source_contents"));
    printf("\n  options    codec %s", text_of(pack, "codec"));
    printf(", batches of %s rows", count_of(pack, "batch"));
    printf(", %s rows a file", count_of(pack, "rows_per_file"));
    json_array_foreach(columns, i, column)
    {
        const char *name = json_string_value(column);
        printf("%s%s", i ? ", " : ", columns ", name ? cli_printable(name) : "");
    }
    if (hash)
        printf("\n  verified   the rows of its source, %s", text_of(pack, "rows_hash"));
    printf("\n");
    json_decref(pack);
    return code;
}
