/*
 * Lists of anything but numbers: of strings, of compounds, of lists, with all of these inside each other.
 *
 * Where the fixed part of a data set ends in such a list, its content lies in parts that point to parts: in the global heap, or in
 * what the helper program gave. A value is taken apart by its type while it is put to the ends of the arrays of the schema's fields:
 *
 *     field         type           what is kept
 *     list          vlen           offsets
 *     fixed list    array          nothing: all levels of it are one node
 *     struct        compound       nothing; members that can be no columns have no field
 *     leaf          the others     values, or offsets and bytes
 *
 * A hostile file can let parts share what they point to, which would multiply with each level: what one value takes from the heap
 * is bounded by the file's size.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"

#define NO_NODE UINT32_MAX

typedef struct node {
    const fby_field *field;
    const fby__h5_type *type; /* of a value; fixed lists: of the innermost element */
    enum { LIST, FIXED_LIST, STRUCT, NUMBER, TEXT } kind;
    uint32_t child, next; /* the first below it; the next one of its struct */
    size_t at;            /* bytes from the start of its struct */
    uint64_t elements;    /* FIXED_LIST: values below one of it, all levels together; LIST: so far */
    bool varies;          /* LIST: its elements have parts of their own */
    uint64_t n;           /* values so far */
    fby__buf offsets;     /* owned; LIST, TEXT of varying length: n + 1 int64 */
    fby__buf content;     /* owned; leaves */
} node;

struct fby__h5_nest {
    const fby__h5_rows *rows; /* borrowed */
    node *nodes;              /* owned; [0] is the list */
    size_t n_nodes, nodes_cap;
    fby__buf levels[FBY__H5_MAX_DEPTH + 1]; /* owned: elements of the lists that are being gone through */
    uint64_t used, most;                    /* bytes of parts: of this value, of any */
};

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a list"); }

/* ---- nodes ---- */

static bool is_text(const fby__h5_type *t)
{
    return t->class == FBY__H5_STRING || t->class == FBY__H5_OPAQUE || t->class == FBY__H5_REFERENCE ||
           (t->class == FBY__H5_VLEN && t->vlen_string);
}

static fby_status mismatch(const fby_field *field, fby_error *err)
{
    return fby__fail(err, FBY_E_INTERNAL, "'%s' and its type in the file do not go together", field->path);
}

static const fby__h5_member *member_of(const fby__h5_type *type, const char *name)
{
    for (uint32_t i = 0; type->class == FBY__H5_COMPOUND && i < type->n_members; i++)
        if (strcmp(type->members[i].name, name) == 0)
            return &type->members[i];
    return NULL;
}

/* The field's node and those below it, *out the first of them. Depth is that of a schema, which is bounded. */
static fby_status add_node(fby__h5_nest *nest, const fby_field *field, const fby__h5_type *type, size_t at, uint32_t *out, fby_error *err)
{
    const fby__h5_rows *r = nest->rows;
    if (fby__grow((void **)&nest->nodes, &nest->nodes_cap, nest->n_nodes + 1, sizeof *nest->nodes) != 0)
        return no_memory(err);
    const uint32_t index = (uint32_t)nest->n_nodes++;
    node own = {.field = field, .type = type, .child = NO_NODE, .next = NO_NODE, .at = at};
    nest->nodes[index] = own; /* the array moves as it grows: `own` goes back into it at the end */
    *out = index;
    const bool vlen = type->class == FBY__H5_VLEN || type->class == FBY__H5_REFERENCE;
    if (vlen && type->bytes != fby__h5_vlen_bytes(r->job->table, r->set))
        return mismatch(field, err);
    if (field->kind == FBY_KIND_FIXED_LIST) {
        own.kind = FIXED_LIST;
        own.elements = 1;
        for (; own.type->class == FBY__H5_ARRAY; own.type = own.type->base)
            for (uint32_t i = 0; i < own.type->n_dims; i++, field = &field->children[0]) {
                if (field->kind != FBY_KIND_FIXED_LIST)
                    return mismatch(own.field, err);
                own.elements *= own.type->dims[i]; /* of a type that has been checked: its bytes are counted in 32 bits */
            }
        FBY__TRY(add_node(nest, field, own.type, 0, &own.child, err));
    } else if (field->kind == FBY_KIND_LIST && type->class == FBY__H5_VLEN && type->base) {
        own.kind = LIST;
        own.varies = fby__h5_type_varies(type->base);
        FBY__TRY(add_node(nest, &field->children[0], type->base, 0, &own.child, err));
    } else if (field->kind == FBY_KIND_STRUCT && type->class == FBY__H5_COMPOUND) {
        own.kind = STRUCT;
        for (uint32_t i = 0, last = NO_NODE, child; i < field->n_children; i++, last = child) {
            const fby__h5_member *m = member_of(type, field->children[i].name);
            if (!m)
                return mismatch(field, err);
            FBY__TRY(add_node(nest, &field->children[i], m->type, m->offset, &child, err));
            *(last == NO_NODE ? &own.child : &nest->nodes[last].next) = child;
        }
    } else if (is_text(type) && (field->kind == FBY_KIND_STRING || field->kind == FBY_KIND_FIXED_BINARY)) {
        own.kind = TEXT;
    } else if (fby__h5_type_dtype(type) != FBY_DTYPE_NONE && fby__h5_type_dtype(type) == field->dtype) {
        own.kind = NUMBER;
    } else {
        return mismatch(field, err);
    }
    nest->nodes[index] = own;
    return FBY_OK;
}

static fby_status grow(fby__buf *buf, size_t bytes, fby_error *err)
{
    size_t n;
    return fby__add_checked(buf->n, bytes, &n) && fby__grow((void **)&buf->data, &buf->cap, n, 1) == 0 ? FBY_OK : no_memory(err);
}

static fby_status put_offset(fby__buf *offsets, uint64_t offset, fby_error *err)
{
    FBY__TRY(grow(offsets, sizeof offset, err));
    memcpy(offsets->data + offsets->n, &offset, sizeof offset);
    offsets->n += sizeof offset;
    return FBY_OK;
}

static const fby_field *list_field(const fby__schema *schema, const fby__h5_leaf *leaf, uint32_t index)
{
    uint32_t field = schema->leaves[index].field;
    for (uint32_t i = 0; i < leaf->levels; i++)
        field = schema->nodes[field].parent;
    return &schema->fields[field];
}

bool fby__h5_nest_begins(const fby__h5_table *table, uint32_t leaf)
{
    const fby__schema *schema = table->base.schema;
    const fby_field *list = list_field(schema, &table->leaves[leaf], leaf);
    return schema->nodes[list - schema->fields].first_leaf == leaf;
}

fby_status fby__h5_nest_create(const fby__h5_rows *r, uint32_t first_leaf, fby__h5_nest **out, fby_error *err)
{
    const fby__h5_leaf *leaf = &r->job->table->leaves[first_leaf];
    fby__h5_nest *nest = fby__calloc(1, sizeof *nest);
    if (!nest)
        return no_memory(err);
    nest->rows = r;
    uint32_t root;
    fby_status status = add_node(nest, list_field(r->job->table->base.schema, leaf, first_leaf), leaf->type, 0, &root, err);
    for (size_t i = 0; i < nest->n_nodes && status == FBY_OK; i++)
        if (nest->nodes[i].kind == LIST || (nest->nodes[i].kind == TEXT && nest->nodes[i].field->kind == FBY_KIND_STRING))
            status = put_offset(&nest->nodes[i].offsets, 0, err);
    if (status != FBY_OK) {
        fby__h5_nest_free(nest);
        return status;
    }
    *out = nest;
    return FBY_OK;
}

void fby__h5_nest_free(fby__h5_nest *nest)
{
    if (!nest)
        return;
    for (size_t i = 0; i < nest->n_nodes; i++) {
        fby__buf_fini(&nest->nodes[i].offsets);
        fby__buf_fini(&nest->nodes[i].content);
    }
    for (size_t i = 0; i < sizeof nest->levels / sizeof *nest->levels; i++)
        fby__buf_fini(&nest->levels[i]);
    fby__free(nest->nodes);
    fby__free(nest);
}

/* ---- values ---- */

/* What a part holds, counted. */
static fby_status count_vlen(fby__h5_nest *nest, uint64_t bytes, fby_error *err)
{
    nest->used += bytes;
    if (nest->used > nest->most)
        return fby__fail(err, FBY_E_FORMAT, "its lists hold more bytes than there are: they share what they point to");
    return FBY_OK;
}

static fby_status put_text(fby__h5_nest *nest, node *t, const uint8_t *raw, fby_error *err)
{
    fby__bytes text;
    FBY__TRY(fby__h5_text_of(nest->rows, t->type, raw, &text, err));
    FBY__TRY(count_vlen(nest, t->type->class == FBY__H5_VLEN || t->type->class == FBY__H5_REFERENCE ? text.n : 0, err));
    FBY__TRY(grow(&t->content, text.n, err));
    if (text.n)
        memcpy(t->content.data + t->content.n, text.data, text.n);
    t->content.n += text.n;
    t->n++;
    return t->offsets.n ? put_offset(&t->offsets, t->content.n, err) : FBY_OK;
}

/* n numbers, `stride` bytes apart. */
static fby_status put_numbers(node *t, const uint8_t *raw, size_t stride, size_t n, fby_error *err)
{
    size_t bytes;
    if (!fby__mul_checked(n, fby_dtype_bytes(t->field->dtype), &bytes))
        return no_memory(err);
    FBY__TRY(grow(&t->content, bytes, err));
    if (n)
        fby__h5_type_convert(t->type, raw, stride, n, t->content.data + t->content.n);
    t->content.n += bytes;
    t->n += n;
    return FBY_OK;
}

/* n values of a node, `stride` bytes apart. depth: of lists. */
static fby_status put_values(fby__h5_nest *nest, node *t, const uint8_t *raw, size_t stride, size_t n, unsigned depth, fby_error *err);

static fby_status put_list(fby__h5_nest *nest, node *t, const uint8_t *raw, unsigned depth, fby_error *err)
{
    node *below = &nest->nodes[t->child];
    fby__bytes list;
    uint64_t n;
    FBY__TRY(fby__h5_vlen_of(nest->rows, raw, t->type->base->bytes, &list, &n, err));
    FBY__TRY(count_vlen(nest, list.n, err));
    if (t->varies && n > 0) { /* the next part may overwrite this one */
        if (depth == sizeof nest->levels / sizeof *nest->levels)
            return fby__fail(err, FBY_E_FORMAT, "lists nest too deep");
        FBY__TRY(fby__h5_need(&nest->levels[depth], list.n, err));
        memcpy(nest->levels[depth].data, list.data, list.n);
        list.data = nest->levels[depth].data;
    }
    FBY__TRY(put_values(nest, below, list.data, t->type->base->bytes, (size_t)n, depth + 1, err));
    t->elements += n;
    t->n++;
    return put_offset(&t->offsets, t->elements, err);
}

static fby_status put_values(fby__h5_nest *nest, node *t, const uint8_t *raw, size_t stride, size_t n, unsigned depth, fby_error *err)
{
    switch (t->kind) {
    case NUMBER: return put_numbers(t, raw, stride, n, err);
    case TEXT:
        for (size_t i = 0; i < n; i++)
            FBY__TRY(put_text(nest, t, raw + i * stride, err));
        return FBY_OK;
    case LIST:
        for (size_t i = 0; i < n; i++)
            FBY__TRY(put_list(nest, t, raw + i * stride, depth, err));
        return FBY_OK;
    case FIXED_LIST:
        for (size_t i = 0; i < n; i++)
            FBY__TRY(put_values(nest, &nest->nodes[t->child], raw + i * stride, t->type->bytes, (size_t)t->elements, depth, err));
        t->n += n;
        return FBY_OK;
    case STRUCT:
        for (uint32_t i = t->child; i != NO_NODE && n; i = nest->nodes[i].next)
            FBY__TRY(put_values(nest, &nest->nodes[i], raw + nest->nodes[i].at, stride, n, depth, err));
        t->n += n;
        return FBY_OK;
    }
    return FBY_OK;
}

fby_status fby__h5_nest_put(fby__h5_nest *nest, const uint8_t *raw, fby_error *err)
{
    const fby__h5_rows *r = nest->rows;
    nest->used = 0;
    nest->most = r->set->way == FBY__H5_HELPER ? r->job->state->vlen.n : r->job->table->file_bytes;
    return put_list(nest, &nest->nodes[0], raw, 0, err);
}

/* ---- arrays ---- */

static fby_status finish_node(fby__h5_nest *nest, node *t, struct ArrowArray *out, fby_error *err);

/* The levels of a fixed list, n values of the outermost. */
static fby_status finish_fixed(fby__h5_nest *nest, node *t, const fby_field *field, uint64_t n, struct ArrowArray *out, fby_error *err)
{
    if (field->kind != FBY_KIND_FIXED_LIST)
        return finish_node(nest, &nest->nodes[t->child], out, err);
    FBY__TRY(fby__arrow_array_create(1, 1, out, err));
    out->length = (int64_t)n;
    fby_status status = finish_fixed(nest, t, &field->children[0], n * (uint64_t)field->list_size, out->children[0], err);
    if (status != FBY_OK)
        out->release(out);
    return status;
}

static fby_status finish_struct(fby__h5_nest *nest, node *t, struct ArrowArray *out, fby_error *err)
{
    FBY__TRY(fby__arrow_array_create(1, t->field->n_children, out, err));
    out->length = (int64_t)t->n;
    struct ArrowArray **child = out->children;
    for (uint32_t i = t->child; i != NO_NODE; i = nest->nodes[i].next) {
        fby_status status = finish_node(nest, &nest->nodes[i], *child++, err);
        if (status != FBY_OK) {
            out->release(out);
            return status;
        }
    }
    return FBY_OK;
}

static fby_status finish_list(fby__h5_nest *nest, node *t, struct ArrowArray *out, fby_error *err)
{
    FBY__TRY(fby__arrow_array_create(2, 1, out, err));
    fby_status status = finish_node(nest, &nest->nodes[t->child], out->children[0], err);
    if (status != FBY_OK) {
        out->release(out);
        return status;
    }
    out->length = (int64_t)t->n;
    fby__arrow_array_set_buffer(out, 1, t->offsets.data);
    t->offsets = (fby__buf){0};
    return FBY_OK;
}

static fby_status finish_node(fby__h5_nest *nest, node *t, struct ArrowArray *out, fby_error *err)
{
    switch (t->kind) {
    case LIST: return finish_list(nest, t, out, err);
    case FIXED_LIST: return finish_fixed(nest, t, t->field, t->n, out, err);
    case STRUCT: return finish_struct(nest, t, out, err);
    default: break;
    }
    FBY__TRY(grow(&t->content, 1, err)); /* a consumer wants a buffer where there is nothing in it */
    return t->offsets.n ? fby__h5_arrow_bytes(t->n, &t->offsets.data, &t->content.data, out, err)
                        : fby__h5_arrow_flat(t->n, t->field->kind == FBY_KIND_BOOL, &t->content.data, NULL, out, err);
}

fby_status fby__h5_nest_finish(fby__h5_nest *nest, struct ArrowArray *out, fby_error *err)
{
    return finish_node(nest, &nest->nodes[0], out, err);
}

/* ---- one number of each element ---- */

fby_status fby__h5_pick_open(const fby__h5_table *table, uint32_t index, fby__h5_pick *out, fby_error *err)
{
    const fby__schema *schema = table->base.schema;
    const fby__h5_leaf *leaf = &table->leaves[index];
    const fby__h5_type *type = leaf->type->base;
    const uint32_t own = schema->leaves[index].field;
    *out = (fby__h5_pick){.leaf = {.set = leaf->set, .elements = 1, .scale_factor = 1}, .bytes = type->bytes};
    for (uint32_t down = leaf->levels - 1; down > 0; down--) { /* from the list's item to the leaf, a member at a time */
        uint32_t field = own;
        for (uint32_t i = 1; i < down; i++)
            field = schema->nodes[field].parent;
        const fby__h5_member *m = member_of(type, schema->fields[field].name);
        if (!m)
            break;
        type = m->type;
        out->leaf.offset += m->offset;
    }
    out->leaf.type = type;
    out->leaf.stored = out->leaf.dtype = fby__h5_type_dtype(type);
    if (out->leaf.dtype == FBY_DTYPE_NONE)
        return fby__fail(err, FBY_E_UNSUPPORTED, "'%s' is not one number for each element of a list: read it through Arrow, or with read()",
                         schema->fields[own].path);
    return FBY_OK;
}
