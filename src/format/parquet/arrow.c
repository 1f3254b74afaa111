/*
 * The columnar sink: one top-level field of a row group → an ArrowArray, for any nesting.
 *
 * Each leaf is read once (arrow_leaf.c) and becomes an array of its own; where there is nesting its levels are kept.
 * Offsets and validity of an inner node come from the levels of the first leaf below it, as Dremel defines them:
 *
 *     an entry of that leaf opens a slot of node N  ⇔  rep ≤ R and def ≥ D, (R, D) = rep_level and list_def_level of
 * the nearest list or map above N; (0, 0) when there is none the slot is not null                          ⇔  def ≥
 * N.def_level an entry is an element of list N              ⇔  rep ≤ N.rep_level and def ≥ N.list_def_level
 *
 * The leaves of a struct each carry the whole structure above them; they must agree (agree()), or the file is damaged.
 */
#include "format/parquet/arrow_leaf.h"

#include "block/arrow.h"

typedef struct sink {
    const fby__table *table;
    const char *file_name;
    uint32_t group;
    uint32_t first_leaf;
    fby__pq_arrow_leaf *leaves; /* of the field */
    bool verify_crc;
} sink;

static bool is_leaf(const fby_field *field)
{
    return field->kind != FBY_KIND_STRUCT && field->kind != FBY_KIND_LIST && field->kind != FBY_KIND_MAP;
}

static uint32_t index_of(const sink *s, const fby_field *field) { return (uint32_t)(field - s->table->schema->fields); }

static const fby__pq_arrow_leaf *first_leaf(const sink *s, const fby__schema_node *node)
{
    return &s->leaves[node->first_leaf - s->first_leaf];
}

/* ---- agreement of leaves ---- */

/* The deepest struct that holds both leaves. */
static uint32_t common_ancestor(const fby__schema *schema, uint32_t leaf, uint32_t other)
{
    uint32_t f = schema->leaves[leaf].field;
    while (f != 0 && !(other - schema->nodes[f].first_leaf < schema->nodes[f].n_leaves))
        f = schema->nodes[f].parent;
    return f;
}

/*
 * Do two leaves tell the same structure down to the struct that holds both? Entries that repeat something below it are
 * skipped; the others must repeat at the same level and be null at the same level.
 */
static bool agree(const fby__pq_arrow_leaf *a, const fby__pq_arrow_leaf *b, const fby__schema_node *node)
{
    const uint8_t *da = a->def.data, *db = b->def.data, *ra = a->rep.data, *rb = b->rep.data;
    const unsigned depth = node->def_level, rep = node->rep_level;
    size_t i = 0, j = 0, na = a->def.n, nb = b->def.n;
    if (!a->max_rep && !b->max_rep) {
        if (na != nb)
            return false;
        unsigned differ = 0;
        for (; i < na; i++)
            differ |= (da[i] < depth ? da[i] : depth) ^ (db[i] < depth ? db[i] : depth);
        return !differ;
    }
    for (;; i++, j++) {
        while (a->max_rep && i < na && ra[i] > rep)
            i++;
        while (b->max_rep && j < nb && rb[j] > rep)
            j++;
        if (i == na || j == nb)
            return i == na && j == nb;
        if ((a->max_rep ? ra[i] : 0) != (b->max_rep ? rb[j] : 0))
            return false;
        if ((da[i] < depth ? da[i] : depth) != (db[j] < depth ? db[j] : depth))
            return false;
    }
}

/* ---- inner nodes ---- */

static fby_status damaged(const sink *s, const fby_field *field, const char *what, fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "%s: row group %u, column '%s': %s", s->file_name, s->group, field->path, what);
}

/* Where slots of a node open: levels of the nearest list above. */
typedef struct slots {
    unsigned rep, def;
} slots;

/* Which slots of a node are not null, as a bitmap; NULL (and no nulls) for required nodes. n is the array's length. */
static fby_status node_validity(const sink *s, const fby_field *field, slots at, struct ArrowArray *array, fby_error *err)
{
    enum { TILE = 1024 };
    const fby__schema_node *node = &s->table->schema->nodes[index_of(s, field)];
    const fby__pq_arrow_leaf *leaf = first_leaf(s, node);
    if (node->def_level <= at.def)
        return FBY_OK;
    size_t length = (size_t)array->length;
    uint8_t *bits = fby__calloc(length / 8 + 1, 1);
    if (!bits)
        return fby__fail_nomem(err, "an Arrow column");
    const uint8_t *rep = leaf->max_rep ? leaf->rep.data : NULL;
    uint8_t flags[TILE + 1];
    size_t n = 0, done = 0, present = 0;
    for (uint64_t i = 0; i < leaf->n_levels; i++) {
        unsigned def = leaf->def.data[i];
        flags[n] = def >= node->def_level;
        n += (size_t)((def >= at.def) & (!rep || rep[i] <= at.rep));
        if (n == TILE || i + 1 == leaf->n_levels) {
            if (n > length - done) {
                fby__free(bits);
                return damaged(s, field, "more values than the lists above it hold", err);
            }
            for (size_t k = 0; k < n; k++)
                present += flags[k];
            fby__pq_arrow_put_bits(bits, done, flags, n);
            done += n;
            n = 0;
        }
    }
    if (done != length) {
        fby__free(bits);
        return damaged(s, field, "fewer values than its fields hold", err);
    }
    array->null_count = (int64_t)(length - present);
    if (present == length)
        fby__free(bits);
    else
        fby__arrow_array_set_buffer(array, 0, bits);
    return FBY_OK;
}

static fby_status build(const sink *s, const fby_field *field, slots at, struct ArrowArray *out, fby_error *err);

static fby_status build_struct(const sink *s, const fby_field *field, slots at, struct ArrowArray *out, fby_error *err)
{
    for (uint32_t c = 0; c < field->n_children; c++) {
        FBY__TRY(build(s, &field->children[c], at, out->children[c], err));
        if (c && out->children[c]->length != out->children[0]->length)
            return damaged(s, field, "its fields have different numbers of values", err);
    }
    out->length = out->children[0]->length;
    return node_validity(s, field, at, out, err);
}

static fby_status build_list(const sink *s, const fby_field *field, slots at, struct ArrowArray *out, fby_error *err)
{
    const fby__schema_node *node = &s->table->schema->nodes[index_of(s, field)];
    const fby__pq_arrow_leaf *leaf = first_leaf(s, node);
    bool is_map = fby__arrow_map_is_map(field);
    size_t offset_bytes = is_map ? sizeof(int32_t) : sizeof(int64_t);
    const uint8_t *def = leaf->def.data, *rep = leaf->rep.data;

    uint64_t n = 0, elements = 0;
    for (uint64_t i = 0; i < leaf->n_levels; i++)
        n += (uint64_t)((rep[i] <= at.rep) & (def[i] >= at.def));
    uint8_t *offsets = fby__malloc((size_t)(n + 1) * offset_bytes);
    if (!offsets)
        return fby__fail_nomem(err, "an Arrow list");
    fby__arrow_array_set_buffer(out, 1, offsets);
    /* Every entry writes the offset of the slot to come, whether it opens one or not: list lengths are no branches to
     * predict. */
    size_t k = 0;
    for (uint64_t i = 0; i < leaf->n_levels; i++) {
        if (is_map)
            fby__store_u32(offsets + 4 * k, (uint32_t)elements);
        else
            fby__store_u64(offsets + 8 * k, elements);
        k += (size_t)((rep[i] <= at.rep) & (def[i] >= at.def));
        elements += (uint64_t)((rep[i] <= node->rep_level) & (def[i] >= node->list_def_level));
    }
    if (is_map && elements > INT32_MAX)
        return fby__fail(err, FBY_E_UNSUPPORTED,
                         "%s: row group %u, column '%s': %llu map entries in one block, more than Arrow's 32-bit map "
                         "offsets can count; "
                         "read fewer rows at once",
                         s->file_name, s->group, field->path, (unsigned long long)elements);
    if (is_map)
        fby__store_u32(offsets + 4 * n, (uint32_t)elements);
    else
        fby__store_u64(offsets + 8 * n, elements);
    out->length = (int64_t)n;
    FBY__TRY(node_validity(s, field, at, out, err));

    slots below = {node->rep_level, node->list_def_level};
    FBY__TRY(build(s, &field->children[0], below, out->children[0], err));
    if ((uint64_t)out->children[0]->length != elements)
        return damaged(s, field, "its lists and its elements disagree", err);
    if (is_map && out->children[0]->children[0]->null_count)
        return damaged(s, &field->children[0].children[0], "a map key is missing", err);
    return FBY_OK;
}

/* On failure *out is released. */
static fby_status build(const sink *s, const fby_field *field, slots at, struct ArrowArray *out, fby_error *err)
{
    const fby__schema_node *node = &s->table->schema->nodes[index_of(s, field)];
    if (node->n_leaves == 0)
        return fby__fail(err, FBY_E_UNSUPPORTED, "%s: column '%s' is a group without fields", s->file_name, field->path);
    if (is_leaf(field))
        return fby__pq_arrow_leaf_finish(&s->leaves[node->first_leaf - s->first_leaf], out, err);

    bool is_struct = field->kind == FBY_KIND_STRUCT;
    FBY__TRY(fby__arrow_array_create(is_struct ? 1 : 2, field->n_children, out, err));
    fby_status status = is_struct ? build_struct(s, field, at, out, err) : build_list(s, field, at, out, err);
    if (status != FBY_OK)
        out->release(out);
    return status;
}

/* ---- the field ---- */

static fby_status read_leaves(const sink *s, uint32_t field, uint64_t row_begin, uint64_t row_end, const fby__leaf_source *sources,
                              fby__scratch *scratch, fby_error *err)
{
    const fby__schema *schema = s->table->schema;
    uint32_t n = schema->nodes[field].n_leaves;
    bool nested = !is_leaf(&schema->fields[field]);
    for (uint32_t i = 0; i < n; i++) {
        FBY__TRY(fby__pq_arrow_leaf_read(&s->leaves[i], s->table, s->file_name, s->group, row_begin, row_end, &sources[i], nested,
                                         s->verify_crc, scratch, err));
        if (i == 0)
            continue;
        uint32_t leaf = s->first_leaf + i - 1, ancestor = common_ancestor(schema, leaf, leaf + 1);
        if (!agree(&s->leaves[i - 1], &s->leaves[i], &schema->nodes[ancestor]))
            return fby__fail(err, FBY_E_FORMAT, "%s: row group %u: columns '%s' and '%s' disagree about the lists or nulls they share",
                             s->file_name, s->group, schema->fields[schema->leaves[leaf].field].path,
                             schema->fields[schema->leaves[leaf + 1].field].path);
        /* Levels of a leaf that no inner node begins with have served. */
        if (schema->nodes[schema->nodes[schema->leaves[leaf].field].parent].first_leaf != leaf)
            fby__pq_arrow_leaf_drop_levels(&s->leaves[i - 1]);
    }
    return FBY_OK;
}

fby_status fby__pq_decode_arrow(const fby__table *table, const char *file_name, uint32_t group, uint64_t row_begin, uint64_t row_end,
                                uint32_t field, bool verify_crc, const fby__leaf_source *sources, fby__scratch *scratch,
                                struct ArrowArray *out, fby_error *err)
{
    const fby__schema *schema = table->schema;
    const fby__schema_node *node = &schema->nodes[field];
    fby__pq_arrow_leaf *leaves = fby__calloc(node->n_leaves, sizeof *leaves); /* none: build() refuses */
    if (!leaves)
        return fby__fail_nomem(err, "an Arrow column");

    sink s = {table, file_name, group, node->first_leaf, leaves, verify_crc};
    struct ArrowArray array;
    fby_status status = read_leaves(&s, field, row_begin, row_end, sources, scratch, err);
    if (status == FBY_OK)
        status = build(&s, &schema->fields[field], (slots){0, 0}, &array, err);
    if (status == FBY_OK && (uint64_t)array.length != row_end - row_begin) {
        status = fby__fail(err, FBY_E_FORMAT, "%s: row group %u, column '%s': %lld rows where %llu were stated", file_name, group,
                           schema->fields[field].path, (long long)array.length, (unsigned long long)(row_end - row_begin));
        array.release(&array);
    }
    if (status == FBY_OK)
        *out = array;
    for (uint32_t i = 0; i < node->n_leaves; i++)
        fby__pq_arrow_leaf_fini(&leaves[i]);
    fby__free(leaves);
    return status;
}
