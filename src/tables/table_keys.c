/* Columns of keys, read in file order through a loader. */
#include "tables/table_keys.h"

#include "dataset/dataset.h"

#include <stdio.h>
#include <string.h>

static fby_status find_column(fby_dataset *ds, const char *column, bool *out_text, fby_error *err)
{
    fby__dataset_column c;
    char type[160];
    FBY__TRY(fby__dataset_resolve(ds, column, &c, err));
    *out_text = c.field->kind == FBY_KIND_STRING || c.field->kind == FBY_KIND_BINARY;
    if (*out_text || c.field->kind == FBY_KIND_INT)
        return FBY_OK;
    (void)fby_field_type_text(c.field, type, sizeof type);
    return fby__fail(err, FBY_E_UNSUPPORTED, "column '%s' of type %s cannot be a key: keys are whole numbers or strings", column, type);
}

fby_status fby__table_key_find(fby_dataset *ds, const char *first, const char *const *more, size_t n_more, fby__table_key *out,
                               fby_error *err)
{
    fby__table_key k = {.ds = ds, .n = n_more + 1, .column = {first}};
    if (n_more >= FBY_MAX_KEYS)
        return fby__fail(err, FBY_E_ARG, "a key has at most %d columns, not %zu", FBY_MAX_KEYS, k.n);
    for (size_t i = 0; i < k.n; i++) {
        if (i > 0)
            k.column[i] = more[i - 1];
        for (size_t j = 0; j < i; j++)
            if (strcmp(k.column[j], k.column[i]) == 0)
                return fby__fail(err, FBY_E_ARG, "the column '%s' comes twice in a key", k.column[i]);
        FBY__TRY(find_column(ds, k.column[i], &k.text[i], err));
    }
    *out = k;
    return FBY_OK;
}

size_t fby__table_key_outputs(const fby__table_key *k, fby_output *outputs)
{
    static const fby_op ZERO = {.kind = FBY_OP_FILL_NULL};
    static const char *const value[FBY_MAX_KEYS] = {"key", "key 2", "key 3", "key 4", "key 5", "key 6", "key 7", "key 8"};
    static const char *const missing[FBY_MAX_KEYS] = {"missing",   "missing 2", "missing 3", "missing 4",
                                                      "missing 5", "missing 6", "missing 7", "missing 8"};
    for (size_t i = 0; i < k->n; i++, outputs += 2) {
        outputs[0] = (fby_output){.name = value[i], .columns = &k->column[i], .n_columns = 1};
        if (!k->text[i]) {
            outputs[0].dtype = FBY_INT64;
            outputs[0].ops = &ZERO; /* the mask tells; so the message is ours */
            outputs[0].n_ops = 1;
        }
        outputs[1] = (fby_output){.name = missing[i], .from = FBY_FROM_IS_NULL, .columns = &k->column[i], .n_columns = 1};
    }
    return 2 * k->n;
}

void fby__table_key_batch(const fby__table_key *k, const fby_batch *batch, fby__batch_keys *out)
{
    size_t at = 0;
    *out = (fby__batch_keys){0};
    for (size_t i = 0; i < k->n; i++) {
        if (k->text[i]) {
            out->column[i].text = fby_batch_tensor(batch, at++)->data;
            out->column[i].offsets = fby_batch_tensor(batch, at++)->data;
        } else {
            out->column[i].numbers = fby_batch_tensor(batch, at++)->data;
        }
        out->column[i].missing = fby_batch_tensor(batch, at++)->data;
    }
    out->n_tensors = at;
}

fby_status fby__table_key_add(const fby__table_key *k, const fby__batch_keys *keys, uint64_t i, uint64_t first_row, fby_lookup *table,
                              uint32_t *out_row, fby_error *err)
{
    char where[320];
    fby__lookup_key value[FBY_MAX_KEYS] = {0};
    fby_status status = FBY_OK;
    for (size_t c = 0; c < k->n && status == FBY_OK; c++) {
        const int64_t *offsets = keys->column[c].offsets;
        if (keys->column[c].missing[i])
            status = fby__fail(err, FBY_E_DATA, "the key '%s' is missing", k->column[c]);
        else if (k->text[c])
            value[c] = (fby__lookup_key){.text = keys->column[c].text + offsets[i], .n_bytes = (size_t)(offsets[i + 1] - offsets[i])};
        else
            value[c].number = keys->column[c].numbers[i];
    }
    if (status == FBY_OK)
        status = fby__lookup_add(table, value, out_row, err);
    if (status != FBY_OK) {
        fby__table_where(k->ds, first_row + i, where);
        fby__error_context(err, "%s", where);
    }
    return status;
}

bool fby__table_key_missing(const fby__table_key *k, const fby__batch_keys *keys, uint64_t i)
{
    bool missing = false;
    for (size_t c = 0; c < k->n; c++)
        missing |= keys->column[c].missing[i] != 0;
    return missing;
}

bool fby__table_key_repeats(const fby__table_key *k, const fby__batch_keys *keys, uint64_t i)
{
    bool same = !fby__table_key_missing(k, keys, i) && !fby__table_key_missing(k, keys, i - 1);
    for (size_t c = 0; c < k->n && same; c++) {
        if (!k->text[c]) {
            same = keys->column[c].numbers[i] == keys->column[c].numbers[i - 1];
            continue;
        }
        const int64_t *at = keys->column[c].offsets + i;
        const uint8_t *text = keys->column[c].text;
        same = at[1] - at[0] == at[0] - at[-1] && memcmp(text + at[0], text + at[-1], (size_t)(at[1] - at[0])) == 0;
    }
    return same;
}

void fby__table_where(const fby_dataset *ds, uint64_t row, char out[320])
{
    fby_file_info file = {.size = sizeof file};
    uint64_t n = fby_dataset_file_count(ds);
    for (uint64_t i = 0; i < n && fby_dataset_file(ds, i, &file, NULL) == FBY_OK; i++) {
        if (row < file.rows) {
            (void)snprintf(out, 320, "row %llu of %.250s", (unsigned long long)row, file.name && *file.name ? file.name : file.path);
            return;
        }
        row -= file.rows;
    }
    (void)snprintf(out, 320, "row %llu", (unsigned long long)row);
}

fby_status fby__table_scope_begin(fby__account_scope *scope, const fby_dataset *ds, uint64_t bytes, fby_error *err)
{
    fby__account *account;
    if (bytes)
        FBY__TRY(fby__account_open(bytes, &account, err));
    else
        FBY__TRY(fby__dataset_account(ds, &account, err));
    fby__account_scope_begin(scope, account);
    return FBY_OK;
}

fby_status fby__table_scope_end(fby__account_scope *scope, const fby_dataset *ds, fby_status status, fby_error *err)
{
    char what[400];
    const char *path = fby__dataset_file_path(ds, 0);
    (void)snprintf(what, sizeof what, "'%.300s': the table of its keys", path ? path : "(memory)");
    return fby__account_scope_end(scope, status, what, err);
}

fby_status fby__table_loader_open(fby__account_scope *scope, fby_dataset *ds, const fby_loader_opts *opts, fby_loader **out, fby_error *err)
{
    fby__account_stats all;
    fby_report report = {.size = sizeof report};
    fby_loader_opts o = *opts;
    fby__account_stats_of(scope->own.account, &all);
    o.memory_bytes = all.limit_bytes / 2;
    fby_status status = fby_loader_open(ds, &o, out, NULL);
    if (status != FBY_OK) { /* all of it, to learn what it needs at least */
        o.memory_bytes = all.limit_bytes;
        status = fby_loader_open(ds, &o, out, err);
        const char *path = fby__dataset_file_path(ds, 0);
        if (status == FBY_E_BUDGET)
            fby__error_context(err, "'%.300s'", path ? path : "(memory)");
        FBY__TRY(status);
        status = fby_loader_report(*out, &report, err);
        fby_loader_close(*out);
        FBY__TRY(status);
        o.memory_bytes = report.budget_minimum_bytes;
        FBY__TRY(fby_loader_open(ds, &o, out, err));
    }
    status = fby_loader_report(*out, &report, err);
    if (status != FBY_OK)
        fby_loader_close(*out);
    else
        fby__account_charge(scope->own.account, report.budget_bytes);
    return status;
}

void fby__table_loader_close(fby__account_scope *scope, fby_loader *l)
{
    fby_report report = {.size = sizeof report};
    const bool known = fby_loader_report(l, &report, NULL) == FBY_OK;
    fby_loader_close(l);
    if (known)
        fby__account_discharge(scope->own.account, report.budget_bytes);
}
