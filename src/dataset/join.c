/*
 * Many schemas as one. Only names matter: other orders and extra columns are nothing, a column that is null throughout joins
 * any type, a narrower type is widened. What does not join is remembered for the day that somebody uses the column.
 *
 *   int + int            the wider; signed with unsigned: the next signed one that holds both (not for uint64)
 *   float + float        the wider
 *   int + float          float64; float32 where ≤ 16-bit integers meet ≤ float32
 *   decimal + decimal    enough digits on both sides of the point, up to 76
 *   time, timestamp, duration: the finer unit, when both are UTC or neither is
 *   string, binary, fixed binary: binary
 *   list, struct, map    their children, struct members by name
 *   text + anything      text, where the files do not say the types of their columns (CSV): all of it is text there (dtypes.c)
 */
#include "dataset/dataset_impl.h"

#include "base/dtype.h"

#include <stdio.h>

typedef struct node {
    fby_field field; /* name and type so far; children below instead */
    bool hidden;     /* a list or map level: no part of dotted paths */
    bool open;       /* all files that have it leave its type open: fby__dtypes_open */
    bool told;       /* it is among those that are hidden or come twice */
    struct node **children;
    uint32_t n_children, cap;
    uint32_t seen_by; /* schema + 1 that had it last: a name twice in one struct counts once */
    uint32_t origin;  /* the schema that last set the type */
    const fby_field *origin_field;
    fby__join join;
} node;

typedef struct joiner {
    fby_dataset *ds;
    const node *root;
    fby__arena arena; /* nodes and their child arrays */
} joiner;

static bool is_nested(fby_kind kind)
{
    return kind == FBY_KIND_LIST || kind == FBY_KIND_FIXED_LIST || kind == FBY_KIND_STRUCT || kind == FBY_KIND_MAP;
}

static fby_dtype signed_of(size_t bytes) { return bytes == 1 ? FBY_INT8 : bytes == 2 ? FBY_INT16 : bytes == 4 ? FBY_INT32 : FBY_INT64; }

static bool join_ints(fby_dtype a, fby_dtype b, fby_dtype *out)
{
    size_t na = fby_dtype_bytes(a), nb = fby_dtype_bytes(b);
    if (fby__dtype_is_unsigned(a) == fby__dtype_is_unsigned(b)) {
        *out = na >= nb ? a : b;
        return true;
    }
    size_t u = fby__dtype_is_unsigned(a) ? na : nb, s = fby__dtype_is_unsigned(a) ? nb : na;
    if (u == 8)
        return false;
    *out = signed_of(s > u ? s : 2 * u);
    return true;
}

static fby_dtype join_int_float(fby_dtype i, fby_dtype f)
{
    return fby_dtype_bytes(i) <= 2 && f != FBY_FLOAT64 ? FBY_FLOAT32 : FBY_FLOAT64;
}

static bool is_bytes(fby_kind k) { return k == FBY_KIND_STRING || k == FBY_KIND_BINARY || k == FBY_KIND_FIXED_BINARY; }

/* Widen *a so that it holds b's values too; false when no type does. Neither is FBY_KIND_NULL. Children are not looked at. */
static bool join_types(fby_field *a, const fby_field *b)
{
    if (a->kind == b->kind) {
        switch (a->kind) {
        case FBY_KIND_INT: return join_ints(a->dtype, b->dtype, &a->dtype);
        case FBY_KIND_FLOAT:
            if (fby_dtype_bytes(b->dtype) > fby_dtype_bytes(a->dtype))
                a->dtype = b->dtype;
            return true;
        case FBY_KIND_DECIMAL: {
            int32_t whole_a = a->precision - a->scale, whole_b = b->precision - b->scale;
            int32_t scale = a->scale > b->scale ? a->scale : b->scale;
            int32_t precision = (whole_a > whole_b ? whole_a : whole_b) + scale;
            if (precision > 76)
                return false;
            a->scale = scale;
            a->precision = precision;
            if (b->byte_width > a->byte_width)
                a->byte_width = b->byte_width;
            return true;
        }
        case FBY_KIND_TIME:
        case FBY_KIND_TIMESTAMP:
            if (a->utc != b->utc)
                return false;
            /* fall through */
        case FBY_KIND_DURATION:
            if (b->unit > a->unit) {
                a->unit = b->unit;
                a->dtype = b->dtype;
            }
            return true;
        case FBY_KIND_FIXED_BINARY:
            if (a->byte_width != b->byte_width) {
                a->kind = FBY_KIND_BINARY;
                a->byte_width = 0;
                a->dtype = FBY_DTYPE_NONE;
            }
            return true;
        case FBY_KIND_FIXED_LIST: return a->list_size == b->list_size;
        default: return true;
        }
    }
    if (a->kind == FBY_KIND_INT && b->kind == FBY_KIND_FLOAT) {
        fby_dtype dtype = join_int_float(a->dtype, b->dtype);
        a->kind = FBY_KIND_FLOAT;
        a->dtype = dtype;
        return true;
    }
    if (a->kind == FBY_KIND_FLOAT && b->kind == FBY_KIND_INT) {
        a->dtype = join_int_float(b->dtype, a->dtype);
        return true;
    }
    if (is_bytes(a->kind) && is_bytes(b->kind)) {
        a->kind = FBY_KIND_BINARY;
        a->byte_width = 0;
        a->dtype = FBY_DTYPE_NONE;
        return true;
    }
    return false;
}

const fby_field *fby__join_child(const fby_field *parent, const char *name, uint32_t *hint)
{
    uint32_t n = parent->n_children, start = *hint < n ? *hint : 0; /* the hint may come from a longer struct */
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = start + k < n ? start + k : start + k - n;
        if (strcmp(parent->children[i].name, name) == 0) {
            /* A name that is there twice means the first, as in a look-up by path. */
            for (uint32_t first = 0; k > 0 && first < i; first++)
                if (strcmp(parent->children[first].name, name) == 0)
                    i = first;
            *hint = i + 1 < n ? i + 1 : 0;
            return &parent->children[i];
        }
    }
    return NULL;
}

bool fby__join_same_type(const fby_field *a, const fby_field *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype || a->unit != b->unit || a->utc != b->utc || a->precision != b->precision ||
        a->scale != b->scale || a->byte_width != b->byte_width || a->list_size != b->list_size || a->n_children != b->n_children)
        return false;
    for (uint32_t i = 0; i < a->n_children; i++)
        if ((a->kind == FBY_KIND_STRUCT && strcmp(a->children[i].name, b->children[i].name) != 0) ||
            !fby__join_same_type(&a->children[i], &b->children[i]))
            return false;
    return true;
}

static node *find_node(const node *parent, const char *name, uint32_t *hint)
{
    for (uint32_t k = 0; k < parent->n_children; k++) {
        uint32_t i = *hint + k < parent->n_children ? *hint + k : *hint + k - parent->n_children;
        if (strcmp(parent->children[i]->field.name, name) == 0) {
            *hint = i + 1 < parent->n_children ? i + 1 : 0;
            return parent->children[i];
        }
    }
    return NULL;
}

static node *add_node(joiner *j, node *parent, const fby_field *field, bool hidden)
{
    if (parent->n_children == parent->cap) {
        uint32_t cap = parent->cap ? 2 * parent->cap : 4;
        node **children = fby__arena_alloc(&j->arena, cap * sizeof(node *));
        if (!children)
            return NULL;
        if (parent->n_children)
            memcpy(children, parent->children, parent->n_children * sizeof(node *));
        parent->children = children;
        parent->cap = cap;
    }
    node *n = fby__arena_alloc(&j->arena, sizeof *n);
    if (!n)
        return NULL;
    *n = (node){.field = *field, .hidden = hidden};
    n->field.kind = FBY_KIND_NULL; /* until the field is joined into it */
    n->field.nullable = field->nullable;
    n->join = (fby__join){.conflict_a = FBY__NONE, .conflict_b = FBY__NONE, .missing = FBY__NONE};
    parent->children[parent->n_children++] = n;
    return n;
}

static fby_status join_field(joiner *j, node *n, const fby_field *field, uint32_t schema, bool in_map, fby_error *err);

/* Members of a struct go by name; elements of lists, and keys and values of maps, by position: writers name them as they like. */
static bool goes_by_name(const fby_field *field, bool in_map) { return field->kind == FBY_KIND_STRUCT && !in_map; }

/* Another column of a node's name, which no reader has. */
static fby_status leave_out(node *n, fby__column_list *list, const char *name, fby_error *err)
{
    if (n->told)
        return FBY_OK;
    n->told = true;
    if (fby__grow((void **)&list->at, &list->cap, list->n + 1, sizeof *list->at) != 0)
        return fby__fail_nomem(err, "joined schema");
    list->at[list->n++] = name;
    return FBY_OK;
}

static fby_status join_children(joiner *j, node *n, const fby_field *field, uint32_t schema, bool by_name, fby_error *err)
{
    uint32_t hint = 0;
    bool is_root = n == j->root;
    for (uint32_t i = 0; i < field->n_children; i++) {
        const fby_field *child = &field->children[i];
        node *constant = NULL;
        for (uint32_t k = 0; is_root && !constant && k < j->ds->n_constants; k++)
            if (strcmp(child->name, j->ds->constants[k]) == 0)
                constant = n->children[k];
        if (constant) {
            FBY__TRY(leave_out(constant, &j->ds->seen.hidden, child->name, err));
            continue;
        }
        node *c = by_name ? find_node(n, child->name, &hint) : i < n->n_children ? n->children[i] : NULL;
        if (!c) /* hidden levels share their parent's path, the very pointer (block/schema.c) */
            c = add_node(j, n, child, child->path == field->path);
        if (!c)
            return fby__fail_nomem(err, "joined schema");
        if (by_name && c->seen_by == schema + 1) {
            FBY__TRY(leave_out(c, &j->ds->seen.duplicate, child->path, err));
            continue;
        }
        c->seen_by = schema + 1;
        FBY__TRY(join_field(j, c, child, schema, field->kind == FBY_KIND_MAP, err));
    }
    return FBY_OK;
}

/* Types that no type holds, of which one is text and the others can be read as text. */
static bool join_as_text(node *n, const fby_field *field, bool open)
{
    bool was_text = n->field.kind == FBY_KIND_STRING, is_text = field->kind == FBY_KIND_STRING;
    if (!((was_text && open) || (is_text && n->open)))
        return false;
    n->field.kind = FBY_KIND_STRING;
    n->field.dtype = FBY_DTYPE_NONE;
    n->field.unit = FBY_UNIT_NONE;
    n->field.utc = false;
    if (!was_text) /* others that did not join are text now, too */
        n->join = (fby__join){.conflict_a = FBY__NONE, .conflict_b = FBY__NONE, .missing = FBY__NONE};
    return true;
}

static fby_status join_field(joiner *j, node *n, const fby_field *field, uint32_t schema, bool in_map, fby_error *err)
{
    n->field.nullable |= field->nullable || field->kind == FBY_KIND_NULL;
    if (field->kind == FBY_KIND_NULL)
        return FBY_OK;
    fby_field before = n->field;
    bool open = fby__dtypes_open(j->ds, schema);
    if (n->field.kind == FBY_KIND_NULL) {
        const char *name = n->field.name;
        bool nullable = n->field.nullable;
        n->field = *field;
        n->field.name = name;
        n->field.nullable = nullable;
        n->open = open;
    } else {
        bool joined = join_types(&n->field, field) || join_as_text(n, field, open);
        n->open &= open;
        if (!joined && n->join.conflict_a == FBY__NONE)
            n->join = (fby__join){
                .conflict_a = n->origin, .conflict_b = schema, .type_a = n->origin_field, .type_b = field, .missing = FBY__NONE};
        if (!joined)
            return FBY_OK;
    }
    if (n->field.kind != before.kind || n->field.dtype != before.dtype || n->field.unit != before.unit) {
        n->origin = schema;
        n->origin_field = field;
    }
    return is_nested(field->kind) ? join_children(j, n, field, schema, goes_by_name(field, in_map), err) : FBY_OK;
}

/* Which fields are missing where: the first schema without each. A null column counts as having everything below it. */
static void find_missing(node *n, const fby_field *field, uint32_t schema, bool by_name)
{
    if (n->field.kind != field->kind || !is_nested(field->kind))
        return;
    uint32_t hint = 0;
    for (uint32_t i = 0; i < n->n_children; i++) {
        node *c = n->children[i];
        const fby_field *child = by_name                 ? fby__join_child(field, c->field.name, &hint)
                                 : i < field->n_children ? &field->children[i]
                                                         : NULL;
        if (child) {
            find_missing(c, child, schema, goes_by_name(child, field->kind == FBY_KIND_MAP));
        } else if (c->join.missing == FBY__NONE) {
            c->join.missing = schema;
            c->field.nullable = true;
        }
    }
}

static size_t count_nodes(const node *n)
{
    size_t sum = 1;
    for (uint32_t i = 0; i < n->n_children; i++)
        sum += count_nodes(n->children[i]);
    return sum;
}

/* In pre-order, with levels as Parquet would count them. */
static void emit(const node *n, uint16_t def, uint16_t rep, fby__schema_element **at)
{
    fby__schema_element *e = (*at)++;
    bool repeated = n->field.kind == FBY_KIND_LIST || n->field.kind == FBY_KIND_MAP;
    def = (uint16_t)(def + n->field.nullable);
    rep = (uint16_t)(rep + repeated);
    *e = (fby__schema_element){.name = n->field.name,
                               .name_n = (uint32_t)strlen(n->field.name),
                               .hidden_in_path = n->hidden,
                               .n_children = n->n_children,
                               .field = n->field,
                               .def_level = def,
                               .rep_level = rep,
                               .list_def_level = (uint16_t)(repeated ? def + 1 : 0),
                               .max_def = def,
                               .max_rep = rep};
    for (uint32_t i = 0; i < n->n_children; i++)
        emit(n->children[i], (uint16_t)(def + repeated), rep, at);
}

static void collect(const node *n, const fby__schema *schema, const fby_field *field, fby__join *join)
{
    join[field - schema->fields] = n->join;
    for (uint32_t i = 0; i < field->n_children; i++)
        collect(n->children[i], schema, &field->children[i], join);
}

static fby_status build(fby_dataset *ds, const node *root, fby_error *err)
{
    size_t n = count_nodes(root);
    fby__schema_element *elements = fby__calloc(n, sizeof *elements), *at = elements;
    if (!elements)
        return fby__fail_nomem(err, "joined schema");
    emit(root, 0, 0, &at);
    fby_status status = fby__schema_create(elements, n, &ds->schema, err);
    fby__free(elements);
    FBY__TRY(status);
    ds->join = fby__calloc(ds->schema->n_fields, sizeof *ds->join);
    if (!ds->join)
        return fby__fail_nomem(err, "joined schema");
    collect(root, ds->schema, &ds->schema->fields[0], ds->join);
    return FBY_OK;
}

fby_status fby__join_schemas(fby_dataset *ds, fby_error *err)
{
    fby_status status = FBY_OK;
    node columns, root = {.field = {.name = "", .kind = FBY_KIND_STRUCT},
                          .join = {.conflict_a = FBY__NONE, .conflict_b = FBY__NONE, .missing = FBY__NONE}};
    joiner j = {.ds = ds, .root = &root};
    for (uint32_t i = 0; i < ds->n_constants; i++) {
        const fby_field field = {.name = ds->constants[i]};
        node *n = add_node(&j, &root, &field, false);
        if (!n) {
            status = fby__fail_nomem(err, "joined schema");
            goto done;
        }
        n->field.kind = FBY_KIND_STRING;
        for (uint32_t f = 0; f < ds->n_files; f++)
            n->field.nullable |= !ds->files[f].constants[i];
    }
    for (uint32_t i = 0; i < ds->n_schemas; i++) {
        status = join_children(&j, &root, &ds->schemas[i]->fields[0], i, true, err);
        if (status != FBY_OK)
            goto done;
    }
    /* The constants, in front, are no columns of the files. */
    columns = root;
    if (ds->n_constants) { /* else there may be no children at all, and nothing to move along */
        columns.children += ds->n_constants;
        columns.n_children -= ds->n_constants;
    }
    for (uint32_t i = 0; i < ds->n_schemas; i++)
        find_missing(&columns, &ds->schemas[i]->fields[0], i, true);
    for (size_t i = 0; i < ds->n_bytes; i++) {
        uint32_t hint = 0;
        node *n = find_node(&columns, ds->bytes[i], &hint);
        if (n && n->field.kind == FBY_KIND_STRING)
            n->field.kind = FBY_KIND_BINARY;
    }
    status = build(ds, &root, err);
done:
    fby__arena_fini(&j.arena);
    return status;
}
