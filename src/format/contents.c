/* Key-value metadata as the attributes of a root and of columns: what files of formats without objects hold beyond their table. */
#include "format/contents.h"

#include "base/cancel.h"
#include "base/error.h"
#include "block/schema.h"

#include <stdio.h>
#include <string.h>

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "the contents of a file"); }

static fby_status begin(fby_contents *c, const char *path, fby_object_kind kind, size_t most, fby_error *err)
{
    if (most > FBY__CONTENTS_TEXTS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "its metadata have %zu keys; %u is the limit", most, FBY__CONTENTS_TEXTS);
    for (c->keys_mask = 0; c->keys_mask < 2 * most;)
        c->keys_mask = 2 * c->keys_mask + 1;
    fby_attribute *list = fby__arena_alloc(&c->arena, most * sizeof *list);
    c->keys = fby__arena_alloc(&c->arena, (c->keys_mask + 1) * sizeof *c->keys);
    if (!path || !list || !c->keys || fby__grow((void **)&c->objects, &c->cap, c->n + 1, sizeof *c->objects) != 0)
        return no_memory(err);
    memset(c->keys, 0, (c->keys_mask + 1) * sizeof *c->keys);
    c->objects[c->n++] = (fby_object){.path = path,
                                      .kind = kind,
                                      .attributes = list,
                                      .type = "",
                                      .filters = "",
                                      .direct = true,
                                      .column = kind == FBY_OBJECT_COLUMN ? path + 1 : NULL};
    return FBY_OK;
}

fby_status fby__contents_begin(fby_contents *c, size_t most, fby_error *err) { return begin(c, "/", FBY_OBJECT_GROUP, most, err); }

fby_status fby__contents_begin_column(fby_contents *c, fby__bytes name, size_t most, bool *out_there, fby_error *err)
{
    const char *text = name.n ? (const char *)name.data : "";
    *out_there = fby__schema_text_valid(text, name.n);
    if (!*out_there)
        return FBY_OK;
    char *path = fby__arena_alloc(&c->arena, name.n + 2);
    if (path) {
        path[0] = '/';
        memcpy(path + 1, text, name.n);
        path[name.n + 1] = 0;
    }
    return begin(c, path, FBY_OBJECT_COLUMN, most, err);
}

/* Where the key is, or the free slot where it belongs. */
static fby__contents_key *find_key(const fby_contents *c, const char *key, size_t n, fby__hash128 hash)
{
    for (size_t at = hash.lo;; at++) {
        fby__contents_key *k = &c->keys[at & c->keys_mask];
        if (k->attribute == 0)
            return k;
        const char *name = c->objects[c->n - 1].attributes[k->attribute - 1].name;
        if (fby__hash_equal(k->hash, hash) && strlen(name) == n && memcmp(name, key, n) == 0)
            return k;
    }
}

fby_status fby__contents_note(fby_contents *c, const char *text, fby_error *err)
{
    if (fby__grow((void **)&c->notes, &c->cap_notes, c->n_notes + 1, sizeof *c->notes) != 0)
        return no_memory(err);
    c->notes[c->n_notes++] = text;
    return FBY_OK;
}

static fby_status note_key(fby_contents *c, fby_error *err)
{
    static const char NOTE[] = "some keys of its metadata are no UTF-8 text: they are left out";
    for (size_t i = 0; i < c->n_notes; i++)
        if (c->notes[i] == NOTE)
            return FBY_OK;
    return fby__contents_note(c, NOTE, err);
}

fby_status fby__contents_add_text(fby_contents *c, fby__bytes name, fby__bytes value, fby_error *err)
{
    fby_object *object = &c->objects[c->n - 1];
    const char *key = name.n ? (const char *)name.data : "", *text = value.n ? (const char *)value.data : "";
    if (!fby__schema_text_valid(key, name.n))
        return note_key(c, err);
    FBY__TRY(fby__cancel_check(err));
    const fby__hash128 hash = fby__hash(key, name.n);
    fby__contents_key *slot = find_key(c, key, name.n, hash);
    if (slot->attribute)
        return FBY_OK;
    const char **texts = fby__arena_alloc(&c->arena, sizeof *texts);
    uint64_t *bytes = fby__arena_alloc(&c->arena, sizeof *bytes);
    const char *copy = fby__arena_copy(&c->arena, key, name.n);
    if (!texts || !bytes || !copy || !(texts[0] = fby__arena_copy(&c->arena, text, value.n)))
        return no_memory(err);
    bytes[0] = value.n;
    ((fby_attribute *)(uintptr_t)object->attributes)[object->n_attributes++] = /* the arena's: its beginning made room */
        (fby_attribute){.name = copy,
                        .type = "string",
                        .dtype = FBY_DTYPE_NONE,
                        .n = 1,
                        .strings = texts,
                        .string_bytes = bytes,
                        .utf8 = fby__schema_text_valid(text, value.n)};
    *slot = (fby__contents_key){hash, object->n_attributes};
    return FBY_OK;
}
