/*
 * Writing YAML with libyaml's emitter: block style, short lists of scalars in one line. Texts that a reader could take for something else are
 * quoted, numbers have as few digits as bring them back.
 */
#include "pipeline/pipeline.h"

#include "pipeline/pipeline_internal.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "options/options.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

enum { FLOW_ITEMS = 16 };

typedef struct writer {
    yaml_emitter_t emitter;
    FILE *file;    /* NULL: into text */
    fby__buf text; /* owned */
    const char *path;
    fby_error *err;
} writer;

static int write_some(void *user, unsigned char *bytes, size_t n)
{
    writer *w = user;
    return w->file ? fwrite(bytes, 1, n, w->file) == n : fby__buf_put(&w->text, bytes, n) == 0;
}

/* An event that could not be made is out of memory, or a text that is no UTF-8. */
static fby_status emit(writer *w, yaml_event_t *event, int made)
{
    if (!made)
        return fby__fail(w->err, FBY_E_ARG, "%s: a text that is no valid UTF-8, or out of memory", w->path);
    if (yaml_emitter_emit(&w->emitter, event))
        return FBY_OK;
    if (w->emitter.error == YAML_MEMORY_ERROR || (w->emitter.error == YAML_WRITER_ERROR && !w->file))
        return fby__fail_nomem(w->err, "a YAML file");
    if (w->emitter.error == YAML_WRITER_ERROR)
        return fby__fail_errno(w->err, errno ? errno : EIO, "%s", w->path);
    return fby__fail(w->err, FBY_E_ARG, "%s: %s", w->path, w->emitter.problem ? w->emitter.problem : "cannot be written");
}

static fby_status emit_scalar(writer *w, const char *text, yaml_scalar_style_t style)
{
    yaml_event_t event;
    size_t n = strlen(text);
    if (n > INT32_MAX)
        return fby__fail(w->err, FBY_E_ARG, "%s: a text of 2 GiB or more", w->path);
    return emit(w, &event, yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text, (int)n, 1, 1, style));
}

/* YAML 1.1 readers take these for booleans. */
static bool is_old_bool(const char *text)
{
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(words[i], text) == 0)
            return true;
    return false;
}

static fby_status emit_text(writer *w, const char *text, bool is_key)
{
    fby_node seen = {0};
    fby__tree_resolve(text, &seen);
    bool quoted = seen.kind != FBY_NODE_TEXT || (is_old_bool(text) && !(is_key && strcmp(text, "on") == 0)) || strcmp(text, "<<") == 0;
    return emit_scalar(w, text, quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_ANY_SCALAR_STYLE);
}

/* The fewest digits that bring the number back, with a point or an exponent so that it stays a float. */
static fby_status emit_number(writer *w, double value)
{
    char text[48];
    if (isnan(value))
        return emit_scalar(w, ".nan", YAML_PLAIN_SCALAR_STYLE);
    if (isinf(value))
        return emit_scalar(w, value > 0 ? ".inf" : "-.inf", YAML_PLAIN_SCALAR_STYLE);
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text - 3, "%.*g", digits, value); /* at most 24 characters */
        if (strtod(text, NULL) == value)
            break;
    }
    char *comma = strpbrk(text, ",");
    if (comma)
        *comma = '.'; /* another locale's decimal point */
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    return emit_scalar(w, text, YAML_PLAIN_SCALAR_STYLE);
}

static bool is_flow(const fby_node *node)
{
    if (node->n == 0)
        return true;
    if (node->kind == FBY_NODE_MAP)
        return false;
    bool numbers = node->items[0]->kind == FBY_NODE_FLOAT || node->items[0]->kind == FBY_NODE_INT;
    for (size_t i = 0; i < node->n; i++)
        if (node->items[i]->kind == FBY_NODE_LIST || node->items[i]->kind == FBY_NODE_MAP)
            return false;
    return numbers || node->n <= FLOW_ITEMS;
}

static fby_status emit_node(writer *w, const fby_node *node, int depth)
{
    char text[32];
    yaml_event_t event;
    if (depth > FBY_TREE_MAX_DEPTH)
        return fby__fail(w->err, FBY_E_ARG, "%s: nested more than %d deep", w->path, FBY_TREE_MAX_DEPTH);
    switch (node->kind) {
    case FBY_NODE_NULL: return emit_scalar(w, "null", YAML_PLAIN_SCALAR_STYLE);
    case FBY_NODE_BOOL: return emit_scalar(w, node->boolean ? "true" : "false", YAML_PLAIN_SCALAR_STYLE);
    case FBY_NODE_INT: (void)snprintf(text, sizeof text, "%" PRId64, node->integer); return emit_scalar(w, text, YAML_PLAIN_SCALAR_STYLE);
    case FBY_NODE_FLOAT: /* a whole number beyond int64_t that was read stays what it is */
        if (node->text && *node->text && strspn(node->text, "0123456789") == strlen(node->text))
            return emit_scalar(w, node->text, YAML_PLAIN_SCALAR_STYLE);
        return emit_number(w, node->number);
    case FBY_NODE_TEXT: return emit_text(w, node->text, false);
    case FBY_NODE_LIST:
        FBY__TRY(emit(w, &event,
                      yaml_sequence_start_event_initialize(&event, NULL, NULL, 1,
                                                           is_flow(node) ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE)));
        for (size_t i = 0; i < node->n; i++)
            FBY__TRY(emit_node(w, node->items[i], depth + 1));
        return emit(w, &event, yaml_sequence_end_event_initialize(&event));
    case FBY_NODE_MAP:
        FBY__TRY(emit(w, &event,
                      yaml_mapping_start_event_initialize(&event, NULL, NULL, 1,
                                                          is_flow(node) ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE)));
        for (size_t i = 0; i < node->n; i++) {
            FBY__TRY(emit_text(w, node->keys[i]->text, true));
            FBY__TRY(emit_node(w, node->items[i], depth + 1));
        }
        return emit(w, &event, yaml_mapping_end_event_initialize(&event));
    }
    return fby__fail(w->err, FBY_E_ARG, "%s: a node of unknown kind", w->path);
}

static fby_status emit_events(writer *w, const fby_node *root)
{
    yaml_event_t event;
    FBY__TRY(emit(w, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING)));
    FBY__TRY(emit(w, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)));
    FBY__TRY(emit_node(w, root, 1));
    FBY__TRY(emit(w, &event, yaml_document_end_event_initialize(&event, 1)));
    return emit(w, &event, yaml_stream_end_event_initialize(&event));
}

static fby_status emit_document(writer *w, const fby_node *root)
{
    if (!yaml_emitter_initialize(&w->emitter))
        return fby__fail_nomem(w->err, "a YAML file");
    yaml_emitter_set_output(&w->emitter, write_some, w);
    yaml_emitter_set_unicode(&w->emitter, 1);
    yaml_emitter_set_width(&w->emitter, 120);
    const fby_status status = emit_events(w, root);
    yaml_emitter_delete(&w->emitter);
    return status;
}

/* Beside the path, then renamed: a reader never sees half a file. */
static fby_status write_file(const fby_node *root, const char *path, fby_error *err)
{
    writer *w = fby__calloc(1, sizeof *w);
    char *aside = fby__format("%s.XXXXXX", path);
    fby_status status = FBY_OK;
    int fd = -1, failed = 0;
    bool made = false;
    if (!w || !aside) {
        status = fby__fail_nomem(err, "a YAML file");
        goto done;
    }
    w->path = path;
    w->err = err;
    fd = mkostemp(aside, O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0644) != 0 || !(w->file = fdopen(fd, "w"))) {
        status = fby__fail_errno(err, errno, "%s", path);
        made = fd >= 0;
        goto done;
    }
    fd = -1; /* the stream's */
    made = true;
    status = emit_document(w, root);
    if (status != FBY_OK)
        goto done;
    failed = fclose(w->file);
    w->file = NULL;
    if (failed || rename(aside, path) != 0)
        status = fby__fail_errno(err, errno, "%s", path);
    else
        made = false;
done:
    if (w && w->file)
        (void)fclose(w->file); /* an error is already there */
    if (fd >= 0)
        (void)close(fd);
    if (made)
        (void)unlink(aside);
    fby__free(aside);
    fby__free(w);
    return status;
}

/* The root with `value` under `key`; with `join`, a map's keys are added to what is there. NULL when memory ran out. */
static const fby_node *with_key(const fby__reading *r, const fby_node *root, const char *key, const fby_node *value, bool join)
{
    size_t at = 0;
    while (at < root->n && strcmp(root->keys[at]->text, key) != 0)
        at++;
    if (join && at < root->n && root->items[at]->kind == FBY_NODE_MAP) {
        const fby_node *joined = root->items[at];
        for (size_t i = 0; joined && i < value->n; i++)
            joined = with_key(r, joined, value->keys[i]->text, value->items[i], false);
        value = joined;
    }
    size_t n = root->n + (at == root->n);
    fby_node *copy = fby__reading_alloc(r, 1, sizeof *copy), *name = fby__reading_alloc(r, 1, sizeof *name);
    const fby_node **items = fby__reading_alloc(r, n, sizeof *items), **keys = fby__reading_alloc(r, n, sizeof *keys);
    if (!copy || !name || !items || !keys || !value)
        return NULL;
    for (size_t i = 0; i < root->n; i++) {
        items[i] = root->items[i];
        keys[i] = root->keys[i];
    }
    *name = (fby_node){.kind = FBY_NODE_TEXT, .text = key};
    keys[at] = name;
    items[at] = value;
    *copy = (fby_node){.kind = FBY_NODE_MAP, .n = n, .items = items, .keys = keys};
    return copy;
}

/* The root with outputs, and the tables that they look into. */
static fby_status add_outputs(fby__describing *d, const fby_output *outputs, size_t n, const fby_node **root)
{
    const fby_node *described = NULL, *lookups = NULL;
    FBY__TRY(fby__describe_outputs(d, outputs, n, &described));
    FBY__TRY(fby__describe_tables(d, &lookups));
    if (lookups->n)
        *root = with_key(&d->r, *root, "lookups", lookups, true);
    if (*root)
        *root = with_key(&d->r, *root, "outputs", described, false);
    return *root ? FBY_OK : fby__fail_nomem(d->r.err, "a YAML file");
}

fby_status fby__outputs_text(const fby_output *outputs, size_t n, char **out, fby_error *err)
{
    static const fby_node empty = {.kind = FBY_NODE_MAP};
    fby__arena arena = {0};
    fby__describing d = {.r = {.arena = &arena, .file = "the outputs", .base_dir = "", .err = err}};
    const fby_node *root = &empty;
    writer w = {.path = "the outputs", .err = err};
    fby_status status = add_outputs(&d, outputs, n, &root);
    if (status == FBY_OK)
        status = emit_document(&w, root);
    if (status == FBY_OK && !(*out = fby__strndup((const char *)w.text.data, w.text.n)))
        status = fby__fail_nomem(err, "the text of outputs");
    fby__buf_fini(&w.text);
    fby__arena_fini(&arena);
    return status;
}

fby_status fby_tree_write(const fby_node *root, const fby_loader_opts *loader, const fby_lookup *const *tables,
                          const char *const *table_names, size_t n_tables, const char *path, fby_error *err)
{
    fby__arena arena = {0};
    fby__describing d = {.r = {.arena = &arena, .file = path, .base_dir = "", .err = err},
                         .tables = tables,
                         .table_names = table_names,
                         .n_tables = n_tables};
    fby_loader_opts o = {0};
    if (!root || !path || (loader && root->kind != FBY_NODE_MAP))
        return fby__fail(err, FBY_E_ARG, "a tree and a path are needed; where outputs are given, the tree is a map");
    fby_status status = loader ? fby__loader_opts_in(loader, &o, &arena, err) : FBY_OK;
    if (status == FBY_OK && o.n_outputs)
        status = add_outputs(&d, o.outputs, o.n_outputs, &root);
    if (status == FBY_OK)
        status = write_file(root, path, err);
    fby__arena_fini(&arena);
    return status;
}
