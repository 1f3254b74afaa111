/* Key-value metadata as the attributes of a root and of columns: what files of formats without objects hold beyond their table. */
#include "format/contents.h"

#include "base/cancel.h"
#include "base/error.h"
#include "block/schema.h"

#include <stdio.h>
#include <string.h>

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "the contents of a file"); }

fby_status fby__contents_note(fby_contents *c, const char *text, fby_error *err)
{
    for (size_t i = 0; i < c->n_notes; i++)
        if (strcmp(c->notes[i], text) == 0)
            return FBY_OK;
    if (fby__grow((void **)&c->notes, &c->cap_notes, c->n_notes + 1, sizeof *c->notes) != 0)
        return no_memory(err);
    c->notes[c->n_notes++] = text;
    return FBY_OK;
}

/* column: NULL = the root. */
static fby_status begin(fby_contents *c, const char *path, const char *column, size_t most, fby_error *err)
{
    for (c->keys_mask = 0; c->keys_mask < 2 * most;)
        c->keys_mask = 2 * c->keys_mask + 1;
    fby_attribute *list = fby__arena_alloc(&c->arena, most * sizeof *list);
    c->keys = fby__arena_alloc(&c->arena, (c->keys_mask + 1) * sizeof *c->keys);
    if (!list || !c->keys || fby__grow((void **)&c->objects, &c->cap, c->n + 1, sizeof *c->objects) != 0)
        return no_memory(err);
    memset(c->keys, 0, (c->keys_mask + 1) * sizeof *c->keys);
    c->objects[c->n++] = (fby_object){.path = path,
                                      .kind = column ? FBY_OBJECT_COLUMN : FBY_OBJECT_GROUP,
                                      .attributes = list,
                                      .type = "",
                                      .filters = "",
                                      .direct = true,
                                      .column = column};
    return FBY_OK;
}

static fby_status check_count(fby_contents *c, size_t most, fby_error *err)
{
    c->left_out = most > FBY__CONTENTS_TEXTS;
    return c->left_out ? fby__contents_note(c, "metadata of more than 10,000 keys, of the file or of a column, are left out", err) : FBY_OK;
}

fby_status fby__contents_begin(fby_contents *c, size_t most, fby_error *err)
{
    FBY__TRY(check_count(c, most, err));
    return begin(c, "/", NULL, c->left_out ? 0 : most, err);
}

/* Fields of one column, which follow each other, share its name. */
static const char *column_name(fby_contents *c, const char *path, size_t n)
{
    const char *last = c->n ? c->objects[c->n - 1].column : NULL;
    return last && strlen(last) == n && memcmp(last, path, n) == 0 ? last : fby__arena_copy(&c->arena, path, n);
}

fby_status fby__contents_begin_field(fby_contents *c, fby__bytes path, size_t column_n, size_t most, fby_error *err)
{
    const char *text = path.n ? (const char *)path.data : "";
    FBY__TRY(check_count(c, most, err));
    c->left_out |= !fby__schema_text_valid(text, path.n);
    if (c->left_out)
        return FBY_OK;
    char *own = fby__arena_alloc(&c->arena, path.n + 2);
    const char *column = column_name(c, text, column_n);
    if (!own || !column)
        return no_memory(err);
    own[0] = '/';
    memcpy(own + 1, text, path.n);
    own[path.n + 1] = 0;
    return begin(c, own, column, most, err);
}

fby__contents_level fby__contents_level_of(const char *format, fby__contents_level in)
{
    if (format[0] != '+')
        return FBY__LEVEL_LEAF;
    switch (format[1]) {
    case 's': return in == FBY__LEVEL_MAP ? FBY__LEVEL_ENTRIES : FBY__LEVEL_STRUCT;
    case 'm': return FBY__LEVEL_MAP;
    case 'l':
    case 'L':
    case 'w':
    case 'v': return FBY__LEVEL_LIST;
    default: return FBY__LEVEL_LEAF; /* unions and the like, which no table has */
    }
}

int fby__contents_step(fby__buf *path, fby__contents_level from, uint32_t i, fby__bytes name)
{
    if (from == FBY__LEVEL_STRUCT)
        return fby__buf_put(path, ".", 1) | (name.n ? fby__buf_put(path, name.data, name.n) : 0);
    const char *step = from != FBY__LEVEL_ENTRIES ? "[]" : i ? ".value" : ".key";
    return fby__buf_put(path, step, strlen(step));
}

/* Where the key is, or the free slot where it belongs. */
static fby__contents_key *find_key(const fby_contents *c, const char *key, size_t n, uint64_t hash)
{
    for (size_t at = hash;; at++) {
        fby__contents_key *k = &c->keys[at & c->keys_mask];
        if (k->attribute == 0)
            return k;
        const char *name = c->objects[c->n - 1].attributes[k->attribute - 1].name;
        if (k->hash == hash && strlen(name) == n && memcmp(name, key, n) == 0)
            return k;
    }
}

fby_status fby__contents_add_text(fby_contents *c, fby__bytes name, fby__bytes value, fby_error *err)
{
    if (c->left_out)
        return FBY_OK;
    fby_object *object = &c->objects[c->n - 1];
    const char *key = name.n ? (const char *)name.data : "", *text = value.n ? (const char *)value.data : "";
    if (!fby__schema_text_valid(key, name.n))
        return fby__contents_note(c, "some keys of its metadata are no UTF-8 text: they are left out", err);
    FBY__TRY(fby__cancel_check(err));
    const uint64_t hash = fby__table_hash(key, name.n);
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
