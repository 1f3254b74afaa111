/*
 * What a pack says of itself: in each of its files, in its plan, and in its manifest.
 *
 * Files and plan are functions of the source and the options. What only one run knows (where the source lay, its fingerprint with the times of
 * files, the hash of its rows) is the manifest's alone, but for the fingerprint: an unfinished pack goes on with files of the same times only.
 */
#include "base/checked.h"
#include "base/utf8.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <stdio.h>
#include <string.h>

#define LONGEST_TEXT ((size_t)16 << 10) /* every file has it: a longer one is the manifest's alone */

/* JSON is UTF-8: a byte that is none, of a file's name, is written as \xff, as the library prints it elsewhere. */
static int put_text_n(fby__buf *b, const char *text, size_t n)
{
    int failed = fby__buf_put(b, "\"", 1);
    const uint8_t *at = (const uint8_t *)text, *end = at + n;
    while (at < end) {
        char escaped[8];
        const uint8_t *next = at;
        const bool valid = fby__utf8_next(&next, end) >= 0;
        if (!valid) {
            failed |= fby__buf_put(b, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\\\x%02x", *at));
        } else if (*at == '"' || *at == '\\') {
            failed |= fby__buf_put(b, (char[]){'\\', (char)*at}, 2);
        } else if (*at < 32) {
            failed |= fby__buf_put(b, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", *at));
        } else {
            failed |= fby__buf_put(b, at, (size_t)(next - at));
        }
        at = next;
    }
    return failed | fby__buf_put(b, "\"", 1);
}

static int put_text(fby__buf *b, const char *text) { return put_text_n(b, text, strlen(text)); }

static int put_name(fby__buf *b, const char *name) { return fby__buf_put(b, "  ", 2) | put_text(b, name) | fby__buf_put(b, ": ", 2); }

static int put_member(fby__buf *b, const char *name, const char *text)
{
    return put_name(b, name) | put_text(b, text) | fby__buf_put(b, ",\n", 2);
}

static int put_number(fby__buf *b, const char *name, uint64_t n)
{
    char text[32];
    return put_name(b, name) | fby__buf_put(b, text, (size_t)snprintf(text, sizeof text, "%llu,\n", (unsigned long long)n));
}

/* Each value, and how many rows and files it has, in the order of its files. */
static int put_keys(fby__buf *b, const fby__pack *p)
{
    int failed = put_name(b, "keys") | fby__buf_put(b, "[", 1);
    for (uint32_t i = 0; i < p->keys->n; i++) {
        const fby__pack_key *key = &p->keys->keys[i];
        char text[80];
        const int n = snprintf(text, sizeof text, ", \"rows\": %llu, \"files\": %llu}", (unsigned long long)key->rows,
                               (unsigned long long)fby__div_up_u64(key->rows, p->rows_per_file));
        failed |= fby__buf_put(b, i ? ",\n    " : "\n    ", i ? 6 : 5) | fby__buf_put(b, "{\"value\": ", 10) | put_text(b, key->text) |
                  fby__buf_put(b, text, (size_t)n);
    }
    return failed | fby__buf_put(b, "],\n", 3);
}

static int put_columns(fby__buf *b, const struct ArrowSchema *schema)
{
    int failed = fby__buf_put(b, "[", 1);
    for (int64_t i = 0; i < schema->n_children; i++)
        failed |= (i ? fby__buf_put(b, ", ", 2) : 0) | put_text(b, schema->children[i]->name);
    return failed | fby__buf_put(b, "]", 1);
}

/* The folder that the names of the source's files are relative to; of tables in memory there is none. */
static int put_root(fby__buf *b, const fby_dataset *ds)
{
    if (fby__dataset_file_count(ds) == 0)
        return 0;
    const fby__file_facts file = fby__dataset_facts(ds, 0);
    if (!file.name || !*file.name || !file.path)
        return 0;
    const size_t n = strlen(file.path), m = strlen(file.name);
    size_t root = n > m && strcmp(file.path + n - m, file.name) == 0 ? n - m : (size_t)(fby__path_base(file.path) - file.path);
    while (root > 1 && file.path[root - 1] == '/')
        root--;
    return put_name(b, "source_root") | put_text_n(b, file.path, root) | fby__buf_put(b, ",\n", 2);
}

fby_status fby__pack_describe(fby__pack *p, bool manifest, fby_error *err)
{
    fby__buf *b = &p->plan;
    b->n = 0;
    int failed = fby__buf_put(b, "{\n", 2);
    failed |= put_number(b, "pack", 1);
    failed |= put_member(b, "forebay", fby_version());
    failed |= put_member(b, "source_identity", fby_dataset_identity(p->ds));
    failed |= put_member(b, "source_contents", fby__dataset_contents(p->ds));
    failed |= put_member(b, "source_fingerprint", fby_dataset_fingerprint(p->ds));
    failed |= manifest ? put_root(b, p->ds) : 0;
    if (p->pipeline) { /* texts before hashes: a message that two packs differ quotes the first line that does */
        failed |= put_member(b, "outputs", fby__pack_pipeline_text(p->pipeline));
        failed |= p->o->pipeline ? put_member(b, "pipeline", p->o->pipeline) : 0;
        failed |= put_member(b, "samples_identity", fby__pack_pipeline_samples(p->pipeline));
        failed |= put_member(b, "outputs_hash", fby__pack_pipeline_hash(p->pipeline));
    }
    failed |= put_member(b, "shuffle", p->order.shuffled ? "full" : "none");
    failed |= put_number(b, "seed", p->o->seed);
    failed |= p->keys ? put_member(b, "by", p->o->by) | put_keys(b, p) : 0;
    failed |= p->o->units == FBY_PACK_UNITS_FIRST ? put_member(b, "units", "first") : 0;
    failed |= put_member(b, "format", p->extension);
    failed |= put_member(b, "codec", p->codec);
    failed |= put_name(b, "columns") | put_columns(b, &p->schema) | fby__buf_put(b, ",\n", 2); /* before the numbers that follow of them */
    failed |= manifest && p->rows_hash[0] ? put_member(b, "rows_hash", p->rows_hash) : 0;
    failed |= put_number(b, "rows", p->rows);
    failed |= put_number(b, "files", p->n_files);
    failed |= put_number(b, "rows_per_file", p->rows_per_file);
    failed |= put_number(b, "batch", p->batch_rows);
    b->n -= failed ? 0 : 2; /* no comma behind the last */
    failed |= fby__buf_put(b, "\n}\n", 3);
    return failed ? fby__fail_nomem(err, "a pack") : FBY_OK;
}

fby_status fby__pack_say(fby__pack *p, fby_error *err)
{
    fby__pack_words *w = &p->words;
    (void)snprintf(w->seed, sizeof w->seed, "%llu", (unsigned long long)p->o->seed);
    (void)snprintf(w->batch, sizeof w->batch, "%llu", (unsigned long long)p->batch_rows);
    (void)snprintf(w->rows_per_file, sizeof w->rows_per_file, "%llu", (unsigned long long)p->rows_per_file);
    if (p->o->n_columns && (put_columns(&w->columns, &p->schema) | fby__buf_put(&w->columns, "", 1)) != 0)
        return fby__fail_nomem(err, "a pack");
    return FBY_OK;
}

size_t fby__pack_metadata(const fby__pack *p, fby__key_value out[FBY__PACK_METADATA])
{
    const fby__pack_words *w = &p->words;
    const fby__key_value always[] = {{"forebay.version", fby_version()},
                                     {"forebay.source_identity", fby_dataset_identity(p->ds)},
                                     {"forebay.source_contents", fby__dataset_contents(p->ds)},
                                     {"forebay.shuffle", p->order.shuffled ? "full" : "none"},
                                     {"forebay.codec", p->codec},
                                     {"forebay.batch", w->batch},
                                     {"forebay.rows_per_file", w->rows_per_file}};
    size_t n = sizeof always / sizeof *always;
    memcpy(out, always, sizeof always);
    if (p->order.shuffled)
        out[n++] = (fby__key_value){"forebay.seed", w->seed};
    if (p->keys)
        out[n++] = (fby__key_value){"forebay.by", p->o->by};
    if (p->pipeline) {
        out[n++] = (fby__key_value){"forebay.samples_identity", fby__pack_pipeline_samples(p->pipeline)};
        out[n++] = (fby__key_value){"forebay.outputs_hash", fby__pack_pipeline_hash(p->pipeline)};
    }
    if (p->pipeline && strlen(fby__pack_pipeline_text(p->pipeline)) <= LONGEST_TEXT)
        out[n++] = (fby__key_value){"forebay.outputs", fby__pack_pipeline_text(p->pipeline)};
    if (p->pipeline && p->o->pipeline && strlen(p->o->pipeline) <= LONGEST_TEXT)
        out[n++] = (fby__key_value){"forebay.pipeline", p->o->pipeline};
    if (w->columns.n)
        out[n++] = (fby__key_value){"forebay.columns", (const char *)w->columns.data};
    return n;
}
