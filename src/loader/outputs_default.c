/* Default outputs: every column that can be one. */
#include "loader/outputs_internal.h"

#include "base/alloc.h"

typedef struct name_list {
    const char **path;
    bool *one_step; /* what varies in length is taken from the first row of a sample */
    size_t n, cap, cap_one_step;
    const fby_field **left_out; /* columns that cannot be a tensor */
    size_t n_left_out, cap_left_out;
} name_list;

static fby_status collect(const fby_field *field, bool arrays_in_lists, name_list *list, fby_error *err)
{
    if (field->kind == FBY_KIND_STRUCT) {
        for (uint32_t i = 0; i < field->n_children; i++)
            FBY__TRY(collect(&field->children[i], arrays_in_lists, list, err));
        return FBY_OK;
    }
    const fby_field *value = field;
    if (value->kind == FBY_KIND_LIST)
        value = &value->children[0];
    while (value->kind == FBY_KIND_FIXED_LIST && (field->kind != FBY_KIND_LIST || arrays_in_lists))
        value = &value->children[0];
    bool is_list = value != field;
    if (value->n_children || value->kind == FBY_KIND_INTERVAL ||
        (is_list && (value->kind == FBY_KIND_STRING || value->kind == FBY_KIND_BINARY || value->kind == FBY_KIND_FIXED_BINARY))) {
        if (fby__grow((void **)&list->left_out, &list->cap_left_out, list->n_left_out + 1, sizeof *list->left_out) != 0)
            return fby__fail_nomem(err, "the outputs");
        list->left_out[list->n_left_out++] = field;
        return FBY_OK;
    }
    if (fby__grow((void **)&list->path, &list->cap, list->n + 1, sizeof *list->path) != 0 ||
        fby__grow((void **)&list->one_step, &list->cap_one_step, list->n + 1, sizeof *list->one_step) != 0)
        return fby__fail_nomem(err, "the outputs");
    list->one_step[list->n] = field->kind == FBY_KIND_LIST || value->kind == FBY_KIND_STRING || value->kind == FBY_KIND_BINARY;
    list->path[list->n++] = field->path;
    return FBY_OK;
}

fby_status fby__default_outputs(fby__loader_source *in, fby_error *err)
{
    name_list list = {0};
    fby_output *specs = NULL;
    fby_status status = collect(fby_dataset_schema(in->ds), fby__lists_may_hold_arrays(in->ds), &list, err);
    if (status == FBY_OK && list.n == 0)
        status = fby__fail(err, FBY_E_UNSUPPORTED, "no column of the data set can be a tensor");
    if (status == FBY_OK && !(specs = fby__calloc(list.n, sizeof *specs)))
        status = fby__fail_nomem(err, "the outputs");
    for (size_t i = 0; status == FBY_OK && i < list.n; i++)
        specs[i] = (fby_output){.name = list.path[i], .columns = &list.path[i], .n_columns = 1, .one_step = list.one_step[i]};
    if (status == FBY_OK)
        status = fby__resolve_outputs(in, specs, list.n, err);
    if (status == FBY_OK)
        status = fby__loader_note_left_out(in, list.left_out, list.n_left_out, err);
    fby__free(specs);
    fby__free((void *)list.path);
    fby__free(list.one_step);
    fby__free((void *)list.left_out);
    return status;
}
