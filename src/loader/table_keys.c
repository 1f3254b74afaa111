/* A column of keys, read in file order through a loader. */
#include "loader/table_keys.h"

#include "dataset/dataset.h"

#include <stdio.h>
#include <string.h>

fby_status fby__table_key_find(fby_dataset *ds, const char *column, fby__table_key *out, fby_error *err)
{
    fby__dataset_column c;
    char type[160];
    FBY__TRY(fby__dataset_resolve(ds, column, &c, err));
    bool text = c.field->kind == FBY_KIND_STRING || c.field->kind == FBY_KIND_BINARY;
    if (!text && c.field->kind != FBY_KIND_INT) {
        (void)fby_field_type_text(c.field, type, sizeof type);
        return fby__fail(err, FBY_E_UNSUPPORTED, "column '%s' of type %s cannot be a key: keys are whole numbers or strings", column, type);
    }
    *out = (fby__table_key){.ds = ds, .column = column, .text = text};
    return FBY_OK;
}

void fby__table_key_outputs(const fby__table_key *k, fby_output *outputs)
{
    outputs[0] = (fby_output){.name = "key", .columns = &k->column, .n_columns = 1};
    if (!k->text) {
        outputs[0].dtype = FBY_INT64;
        outputs[0].has_fill = true; /* the mask tells; so the message is ours */
    }
    outputs[1] = (fby_output){.name = "missing", .from = FBY_FROM_MISSING, .columns = &k->column, .n_columns = 1};
}

void fby__table_key_batch(const fby__table_key *k, const fby_batch *batch, fby__batch_keys *out)
{
    *out = (fby__batch_keys){.n_tensors = k->text ? 3 : 2};
    if (k->text) {
        out->text = fby_batch_tensor(batch, 0)->data;
        out->offsets = fby_batch_tensor(batch, 1)->data;
    } else {
        out->numbers = fby_batch_tensor(batch, 0)->data;
    }
    out->missing = fby_batch_tensor(batch, out->n_tensors - 1)->data;
}

fby_status fby__table_key_add(const fby__table_key *k, const fby__batch_keys *keys, uint64_t i, uint64_t first_row, fby_lookup *table,
                              uint32_t *out_row, fby_error *err)
{
    char where[320];
    fby_status status = FBY_OK;
    if (keys->missing[i])
        status = fby__fail(err, FBY_E_DATA, "the key '%s' is missing", k->column);
    else if (k->text)
        status =
            fby__lookup_add_text(table, keys->text + keys->offsets[i], (size_t)(keys->offsets[i + 1] - keys->offsets[i]), out_row, err);
    else
        status = fby__lookup_add_number(table, keys->numbers[i], out_row, err);
    if (status != FBY_OK) {
        fby__table_where(k->ds, first_row + i, where);
        fby__error_context(err, "%s", where);
    }
    return status;
}

bool fby__table_key_repeats(const fby__table_key *k, const fby__batch_keys *keys, uint64_t i)
{
    if (keys->missing[i] || keys->missing[i - 1])
        return false;
    if (!k->text)
        return keys->numbers[i] == keys->numbers[i - 1];
    const int64_t *at = keys->offsets + i;
    return at[1] - at[0] == at[0] - at[-1] && memcmp(keys->text + at[0], keys->text + at[-1], (size_t)(at[1] - at[0])) == 0;
}

void fby__table_where(const fby_dataset *ds, uint64_t row, char out[320])
{
    fby_file_info file;
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

fby_status fby__table_loader_open(fby_dataset *ds, const fby_output *outputs, size_t n_outputs, uint64_t batch_rows, int n_threads,
                                  fby_loader **out, fby_error *err)
{
    fby_loader_opts opts = {.size = sizeof opts,
                            .outputs = outputs,
                            .n_outputs = n_outputs,
                            .batch_size = batch_rows,
                            .shuffle = FBY_SHUFFLE_NONE,
                            .tail = FBY_TAIL_KEEP,
                            .n_threads = n_threads};
    return fby_loader_open(ds, &opts, out, err);
}
