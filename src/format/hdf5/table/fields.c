/*
 * The type of a data set's elements into fields and leaves of the schema.
 *
 *     data set (1000, 3, 4) of float32        "x": fixed_list[3] of fixed_list[4] of float32, inner levels named by dimension
 *     data set (1000) of compound {a, b}      "x": struct; leaves "x.a", "x.b"
 *     data set (1000) of array [2] of int8    "x": fixed_list[2] of int8
 *     data set (1000) of vlen of float64      "x": list of float64
 *     data set (1000) of vlen of compound     "x": list of struct; leaves "x.a", "x.b"
 *
 * A member that can be no column is left out with the reason, the others stay.
 */
#include "base/checked.h"
#include "format/hdf5/table/table_internal.h"

fby__schema_element *fby__h5_add_element(fby__h5_builder *b, const char *name, bool hidden, fby_kind kind)
{
    if (fby__grow((void **)&b->elements, &b->cap, b->n + 1, sizeof *b->elements) != 0) {
        (void)fby__fail_nomem(b->err, "the schema of a file"); /* the caller sees NULL */
        return NULL;
    }
    fby__schema_element *e = &b->elements[b->n++];
    *e = (fby__schema_element){.name = name, .name_n = (uint32_t)strlen(name), .hidden_in_path = hidden, .field = {.kind = kind}};
    return e;
}

/* The lists of a value: the first has the column's name, each level below that of the dimension it runs along. */
static fby_status add_lists(fby__h5_builder *b, const fby__h5_field_context *at, uint32_t n, const uint64_t *dims, const char **name,
                            bool *hidden)
{
    for (uint32_t i = 0; i < n; i++) {
        fby__schema_element *e = fby__h5_add_element(b, *name, *hidden, FBY_KIND_FIXED_LIST);
        if (!e)
            return FBY_E_NOMEM;
        e->field.list_size = (int32_t)dims[i];
        e->n_children = 1;
        const char *own = at->dim_names && i < at->n_dims ? at->dim_names[i] : NULL;
        *name = own ? own : "item";
        *hidden = true;
    }
    return FBY_OK;
}

/* @outside  the arrays of compounds around its members. */
static fby_status add_struct(fby__h5_builder *b, const fby__h5_field_context *at, const fby__h5_type *type, const fby__h5_leaf *outside,
                             uint32_t levels, const char *name, bool hidden, const char **out_why)
{
    size_t index = b->n, first_leaf = b->n_leaves;
    if (!fby__h5_add_element(b, name, hidden, FBY_KIND_STRUCT))
        return FBY_E_NOMEM;
    for (uint32_t i = 0; i < type->n_members; i++) {
        const fby__h5_member *m = &type->members[i];
        const char *why = NULL, *path = fby__h5_text(b->o, "%s.%s", at->path, m->name);
        if (!path)
            return fby__fail_nomem(b->err, "the schema of a file");
        fby__h5_field_context inner = {.name = m->name,
                                       .path = path,
                                       .offset = at->offset + m->offset,
                                       .outside = outside,
                                       .levels = levels + 1,
                                       .inner = true,
                                       .depth = at->depth + 1};
        size_t n = b->n, n_leaves = b->n_leaves;
        FBY__TRY(fby__h5_add_value(b, &inner, m->type, &why));
        if (why) {
            b->n = n;
            b->n_leaves = n_leaves;
            FBY__TRY(fby__h5_leave_out(b->o, path, why, b->err));
        } else {
            b->elements[index].n_children++;
        }
    }
    if (b->n_leaves == first_leaf)
        *out_why = "none of its members can be a column";
    return FBY_OK;
}

/* How values of a type that is no compound or array are read; false: not at all, *out_why says why. */
static bool value_of(const fby__h5_builder *b, const fby__h5_type *type, fby__h5_leaf *leaf, const char **out_why)
{
    leaf->type = type;
    leaf->stored = leaf->dtype = fby__h5_type_dtype(type);
    if (leaf->stored != FBY_DTYPE_NONE) {
        leaf->value = FBY__H5_VALUE_NUMBER;
        return true;
    }
    switch (type->class) {
    case FBY__H5_STRING: leaf->value = FBY__H5_VALUE_FIXED_STRING; return true;
    case FBY__H5_OPAQUE:
        leaf->value = FBY__H5_VALUE_OPAQUE;
        *out_why = type->bytes > INT32_MAX ? "its values have 2 GiB or more" : NULL;
        break;
    case FBY__H5_VLEN:
        leaf->value = FBY__H5_VALUE_VLEN_STRING;
        if (type->vlen_string)
            break;
        leaf->value = FBY__H5_VALUE_VLEN_LIST; /* of numbers: others do not come here */
        leaf->type = type->base;
        leaf->stored = leaf->dtype = fby__h5_type_dtype(type->base);
        break;
    case FBY__H5_REFERENCE:
        leaf->value = FBY__H5_VALUE_REFERENCE;
        *out_why = b->by_helper ? NULL
                                : fby__h5_text(b->o,
                                               "only the helper program reads references, which makes the others slow: read(\"%s\") "
                                               "gives it with them",
                                               b->c->path);
        break;
    case FBY__H5_TIME: *out_why = "its type (HDF5 time) is one that nothing reads"; break;
    default: *out_why = "its numbers are of no type that a tensor has";
    }
    return *out_why == NULL;
}

static fby_status add_leaf(fby__h5_builder *b, const fby__h5_field_context *at, const fby__h5_type *type, const fby__h5_leaf *outside,
                           uint32_t levels, const char *name, bool hidden, const char **out_why)
{
    fby__h5_leaf leaf = *outside;
    leaf.set = b->n_sets;
    leaf.offset = (uint32_t)at->offset;
    leaf.scale_factor = 1;
    if (!value_of(b, type, &leaf, out_why))
        return FBY_OK;
    if (!b->o->opts->stored_values && !at->inner && !b->list)
        FBY__TRY(fby__h5_conventions(b->o, b->c->attributes, &leaf, out_why, b->err));
    if (*out_why)
        return FBY_OK;
    if (leaf.value == FBY__H5_VALUE_VLEN_LIST) {
        fby__schema_element *list = fby__h5_add_element(b, name, hidden, FBY_KIND_LIST);
        if (!list)
            return FBY_E_NOMEM;
        list->n_children = 1;
        name = "item";
        hidden = true;
        levels++;
    }
    fby_kind kind = leaf.value == FBY__H5_VALUE_OPAQUE ? FBY_KIND_FIXED_BINARY
                    : leaf.dtype == FBY_DTYPE_NONE     ? FBY_KIND_STRING
                    : leaf.dtype == FBY_BOOL           ? FBY_KIND_BOOL
                    : leaf.dtype >= FBY_FLOAT16        ? FBY_KIND_FLOAT
                                                       : FBY_KIND_INT;
    fby__schema_element *e = fby__h5_add_element(b, name, hidden, kind);
    if (!e)
        return FBY_E_NOMEM;
    e->field.dtype = leaf.dtype;
    e->field.nullable = fby__h5_leaf_can_miss(&leaf);
    e->field.byte_width = kind == FBY_KIND_FIXED_BINARY ? (int32_t)leaf.type->bytes : 0;
    if (b->list) {
        leaf = *b->list;
        leaf.levels = levels;
    }
    if (fby__grow((void **)&b->leaves, &b->leaves_cap, b->n_leaves + 1, sizeof *b->leaves) != 0)
        return fby__fail_nomem(b->err, "the schema of a file");
    b->leaves[b->n_leaves++] = leaf;
    return FBY_OK;
}

/* A list of anything but numbers: all leaves below it are read together. */
static fby_status add_list(fby__h5_builder *b, const fby__h5_field_context *at, const fby__h5_type *type, const fby__h5_leaf *outside,
                           uint32_t levels, const char *name, bool hidden, const char **out_why)
{
    fby__h5_leaf list = *outside;
    list.set = b->n_sets;
    list.offset = (uint32_t)at->offset;
    list.type = type;
    list.scale_factor = 1;
    list.value = FBY__H5_VALUE_NESTED;
    const bool outermost = !b->list;
    fby__schema_element *e = fby__h5_add_element(b, name, hidden, FBY_KIND_LIST);
    if (!e)
        return FBY_E_NOMEM;
    e->n_children = 1;
    b->list = outermost ? &list : b->list;
    fby__h5_field_context item = {
        .name = "item", .path = at->path, .levels = (outermost ? 0 : levels) + 1, .hidden = true, .inner = true, .depth = at->depth + 1};
    fby_status status = fby__h5_add_value(b, &item, type->base, out_why);
    b->list = outermost ? NULL : b->list;
    return status;
}

fby_status fby__h5_add_value(fby__h5_builder *b, const fby__h5_field_context *at, const fby__h5_type *type, const char **out_why)
{
    static const fby__h5_leaf ALONE = {.elements = 1};
    uint64_t dims[3 * FBY__H5_MAX_RANK];
    uint32_t n = 0;
    if (at->depth > FBY__H5_MAX_DEPTH || !fby__schema_text_valid(at->name, strlen(at->name))) {
        *out_why = at->depth > FBY__H5_MAX_DEPTH ? "its type is nested too deep" : "its name is not valid UTF-8";
        return FBY_OK;
    }
    for (; n < at->n_dims; n++)
        dims[n] = at->dims[n];
    fby__h5_leaf outside = at->outside ? *at->outside : ALONE;
    uint64_t array = 1, elements;
    for (; type->class == FBY__H5_ARRAY; type = type->base)
        for (uint32_t i = 0; i < type->n_dims; i++) {
            if (n == sizeof dims / sizeof *dims || !fby__mul_u64_checked(array, type->dims[i], &array) || array > UINT32_MAX) {
                *out_why = "its array type is too large";
                return FBY_OK;
            }
            dims[n++] = type->dims[i];
        }
    for (uint32_t i = 0; i < n; i++)
        if (dims[i] == 0 || dims[i] > INT32_MAX) {
            *out_why = dims[i] ? "a row has 2^31 or more values along one axis" : "a row of it has no values";
            return FBY_OK;
        }
    if (!fby__mul_u64_checked(outside.elements, array, &elements) || elements > UINT32_MAX) {
        *out_why = "its array type is too large";
        return FBY_OK;
    }
    outside.elements = (uint32_t)elements;
    if (array > 1 && type->class == FBY__H5_COMPOUND && !b->list) {
        if (outside.n_strides == FBY__H5_MAX_STRIDES) {
            *out_why = "arrays of compounds are inside each other more than 4 deep";
            return FBY_OK;
        }
        outside.strides[outside.n_strides].n = (uint32_t)array;
        outside.strides[outside.n_strides++].stride = type->bytes;
    }
    const char *name = at->name;
    bool hidden = at->hidden;
    const uint32_t levels = at->levels + n;
    FBY__TRY(add_lists(b, at, n, dims, &name, &hidden));
    if (type->class == FBY__H5_COMPOUND)
        return add_struct(b, at, type, &outside, levels, name, hidden, out_why);
    if (type->class == FBY__H5_VLEN && !type->vlen_string && (b->list || fby__h5_type_dtype(type->base) == FBY_DTYPE_NONE))
        return add_list(b, at, type, &outside, levels, name, hidden, out_why);
    return add_leaf(b, at, type, &outside, levels, name, hidden, out_why);
}
