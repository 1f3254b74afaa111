/* What a file of a dataset holds beyond its table: found by the file's format, owned by whoever opened it. */
#include "format/contents.h"
#include "budget/allowance.h"
#include "dataset/dataset_impl.h"

#include <stdio.h>

#define WIDEST_CHAR_BYTES 4u /* of a text in Python: as many for each character, where one of them needs it */
#define OBJECT_BYTES 64u     /* of a text in Python, and of the reference to it */

/* scope: NULL, or the one that it happens in. */
static fby_status open_contents(const fby_dataset *ds, uint64_t file, bool of_table, fby__account_scope *scope, fby_contents **out,
                                fby_error *err)
{
    const fby__dataset_file *info = &ds->files[file];
    if (!info->ops->contents)
        return fby__fail(err, FBY_E_UNSUPPORTED, "'%s': files of format %s hold nothing beyond their table", info->path, info->ops->name);
    fby__file *opened = NULL;
    fby__table *table = NULL;
    fby_contents *c = fby__calloc(1, sizeof *c);
    fby_status status = c ? fby__dataset_open_file(ds, (uint32_t)file, &opened, err) : fby__fail_nomem(err, "the contents of a file");
    if (status == FBY_OK)
        status = fby__dataset_table(ds, (uint32_t)file, &table, err);
    if (status == FBY_OK) {
        c->of_table = of_table;
        status = info->ops->contents(opened, table, c, err);
    }
    fby__table_unref(table);
    fby__file_unref(opened);
    if (status != FBY_OK) {
        if (scope && c)
            scope->done = c->done;
        fby_contents_close(c);
        return status;
    }
    *out = c;
    return FBY_OK;
}

/* Whoever asks for contents copies them, into Python or JSON: what that takes at most. */
static uint64_t copy_bytes(const fby_contents *c)
{
    uint64_t bytes = c->arena.total_bytes;
    for (size_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->objects[i].n_attributes; k++) {
            const fby_attribute *a = &c->objects[i].attributes[k];
            for (uint64_t t = 0; a->strings && t < a->n; t++)
                bytes += (WIDEST_CHAR_BYTES - 1) * a->string_bytes[t] + OBJECT_BYTES;
        }
    return bytes;
}

static fby_status open_within(const fby_dataset *ds, uint64_t file, fby__account_scope *scope, const char *what, fby_contents **out,
                              fby_error *err)
{
    fby_contents *c = NULL;
    FBY__TRY(open_contents(ds, file, false, scope, &c, err));
    const uint64_t copy = copy_bytes(c);
    if (!fby__account_try_charge(scope->own.account, copy)) {
        const fby_status status = fby__account_refuse(scope->own.account, what, copy, err);
        fby_contents_close(c);
        return status;
    }
    fby__account_discharge(scope->own.account, copy); /* it is the caller's */
    *out = c;
    return FBY_OK;
}

fby_status fby_contents_open(const fby_dataset *ds, uint64_t file, fby_contents **out, fby_error *err)
{
    fby__account *account;
    fby__account_scope scope;
    char what[400];
    fby__error_clear(err);
    if (file >= ds->n_files)
        return fby__fail(err, FBY_E_ARG, "there is no file %llu among the data set's %u", (unsigned long long)file, ds->n_files);
    (void)snprintf(what, sizeof what, "what '%.300s' holds beyond its table", ds->files[file].path ? ds->files[file].path : "(memory)");
    FBY__TRY(fby__dataset_account(ds, &account, err));
    fby__account_scope_begin(&scope, account);
    return fby__account_scope_end(&scope, open_within(ds, file, &scope, what, out, err), what, err);
}

fby_status fby__dataset_said(const fby_dataset *ds, uint32_t file, fby_contents **out, fby_error *err)
{
    return open_contents(ds, file, true, NULL, out, err);
}

void fby_contents_close(fby_contents *c)
{
    if (!c)
        return;
    fby__free(c->objects);
    fby__free((void *)c->notes);
    fby__arena_fini(&c->arena);
    fby__free(c);
}

size_t fby_contents_count(const fby_contents *c) { return c->n; }

const fby_object *fby_contents_object(const fby_contents *c, size_t i) { return i < c->n ? &c->objects[i] : NULL; }

/* With or without a leading slash. */
static const fby_object *find(const fby_contents *c, const char *path)
{
    while (*path == '/')
        path++;
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->objects[i].path + 1, path) == 0)
            return &c->objects[i];
    return NULL;
}

const fby_attribute *fby_contents_attribute(const fby_contents *c, const char *path, const char *name)
{
    const fby_object *o = find(c, path);
    for (uint32_t i = 0; o && i < o->n_attributes; i++)
        if (strcmp(o->attributes[i].name, name) == 0)
            return &o->attributes[i];
    return NULL;
}

const char *fby_contents_note(const fby_contents *c, size_t i) { return i < c->n_notes ? c->notes[i] : NULL; }
