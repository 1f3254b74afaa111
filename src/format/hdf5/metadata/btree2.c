/*
 * B-trees of version 2: every record, in order (spec III.A.2).
 *
 *   header "BTHD" ── root ─► "BTIN" records, then children ─► … ─► "BTLF" records
 *
 * A child pointer states how many records its node has and, above the last level, how many its subtree has; these numbers
 * take as few bytes as the largest possible one needs, which follows from the node size. A node does not state its own count.
 *
 * The walk ends whatever the bytes are: depth is limited, every node has a record, and the records seen must add up to the
 * header's total, which the file must be large enough to hold. So a node that is reached twice is an error soon.
 */
#include "base/checked.h"
#include "format/hdf5/metadata/structure.h"

#define HEADER_FIELDS_BYTES 16u /* signature to root address */
#define NODE_PREFIX_BYTES 6u
#define CHECKSUM_BYTES 4u

/* How a child pointer to a node of one level is stored, and the most that node and its subtree hold. Level 0: leaves. */
typedef struct level {
    uint64_t max_records; /* of one node */
    uint64_t max_total;   /* of its subtree */
    uint8_t total_bytes;  /* of the subtree's count in a child pointer: 0 for leaves */
} level;

typedef struct tree {
    fby__h5_file *f;
    fby__h5_record_fn fn;
    void *user;
    uint8_t type;
    uint16_t record_bytes, depth;
    uint8_t count_bytes; /* of a node's count in a child pointer */
    uint64_t left;       /* records of the header's total not seen yet */
    level levels[FBY__H5_MAX_DEPTH + 1];
} tree;

/* Bytes that numbers up to `limit` take. */
static uint8_t bytes_for(uint64_t limit) { return (uint8_t)((63 - __builtin_clzll(limit | 1)) / 8 + 1); }

static unsigned pointer_bytes(const tree *t, unsigned child_level)
{
    return t->f->offset_bytes + (unsigned)t->count_bytes + t->levels[child_level].total_bytes;
}

/* The capacity of nodes of each level: false when a node cannot hold what it must. */
static bool size_levels(tree *t, uint32_t node_bytes)
{
    const uint32_t overhead = NODE_PREFIX_BYTES + CHECKSUM_BYTES;
    if (t->record_bytes == 0 || node_bytes < overhead + t->record_bytes)
        return false;
    t->levels[0].max_records = t->levels[0].max_total = (node_bytes - overhead) / t->record_bytes;
    t->count_bytes = bytes_for(t->levels[0].max_records);
    for (unsigned i = 1; i <= t->depth; i++) {
        unsigned pointer = pointer_bytes(t, i - 1);
        if (node_bytes < overhead + pointer)
            return false;
        level *l = &t->levels[i];
        l->max_records = (node_bytes - overhead - pointer) / (t->record_bytes + pointer);
        if (l->max_records == 0 || !fby__mul_u64_checked(l->max_records + 1, t->levels[i - 1].max_total, &l->max_total) ||
            !fby__add_u64_checked(l->max_total, l->max_records, &l->max_total))
            return false;
        l->total_bytes = bytes_for(l->max_total);
    }
    return true;
}

/* A node and what is below it. n_total: records of the whole subtree, as the pointer to it states. */
static fby_status walk_node(tree *t, uint64_t address, uint64_t n, uint64_t n_total, unsigned at_level, fby_error *err)
{
    fby__h5_file *f = t->f;
    const char *what = at_level ? "an internal node of a B-tree 2" : "a leaf of a B-tree 2";
    if (n == 0 || n > t->levels[at_level].max_records || n_total > t->left || n > n_total)
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 ": %" PRIu64 " records in it and %" PRIu64 " below cannot be", what,
                                  address, n, n_total);
    unsigned pointer = at_level ? pointer_bytes(t, at_level - 1) : 0;
    uint64_t bytes = NODE_PREFIX_BYTES + n * t->record_bytes + (at_level ? (n + 1) * pointer : 0) + CHECKSUM_BYTES;
    fby__bytes view;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_structure(f, address, bytes, at_level ? "BTIN" : "BTLF", 0, what, &view, &c, err));
    FBY__TRY(fby__h5_verify(f, address, view, what, err));
    uint8_t type = fby__h5_u8(&c);
    if (type != t->type)
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 " has type %u in a tree of type %u", what, address, type, t->type);
    const uint8_t *record = fby__h5_next(&c, (size_t)n * t->record_bytes);
    if (!record)
        return fby__h5_cursor_check(&c, err);
    if (at_level == 0 && n != n_total)
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 " has %" PRIu64 " records and was said to have %" PRIu64, what, address,
                                  n, n_total);

    uint64_t below = n_total - n; /* records that the children must have together */
    for (uint64_t i = 0; i <= n; i++) {
        if (at_level) {
            uint64_t child = fby__h5_offset(&c), child_n = fby__h5_uint(&c, t->count_bytes);
            uint64_t child_total = at_level > 1 ? fby__h5_uint(&c, t->levels[at_level - 1].total_bytes) : child_n;
            FBY__TRY(fby__h5_cursor_check(&c, err));
            if (child_total > below)
                return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 ": the children have more records than was said", what,
                                          address);
            FBY__TRY(walk_node(t, child, child_n, child_total, at_level - 1, err));
            below -= child_total;
        }
        if (i < n) {
            t->left--;
            FBY__TRY(t->fn(t->user, record + i * t->record_bytes, err));
        }
    }
    if (below != 0)
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 ": the children have fewer records than was said", what, address);
    return FBY_OK;
}

fby_status fby__h5_btree2_walk(fby__h5_file *f, uint64_t address, uint8_t type, uint16_t *out_record_bytes, fby__h5_record_fn fn,
                               void *user, fby_error *err)
{
    static const char what[] = "a B-tree 2 header";
    uint64_t bytes = HEADER_FIELDS_BYTES + (uint64_t)f->offset_bytes + 2 + f->length_bytes + CHECKSUM_BYTES;
    fby__bytes view;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_structure(f, address, bytes, "BTHD", 0, what, &view, &c, err));
    FBY__TRY(fby__h5_verify(f, address, view, what, err));
    tree t = {.f = f, .fn = fn, .user = user, .type = fby__h5_u8(&c)};
    uint32_t node_bytes = fby__h5_u32(&c);
    t.record_bytes = fby__h5_u16(&c);
    t.depth = fby__h5_u16(&c);
    (void)fby__h5_u16(&c); /* when to split and merge: for writers */
    uint64_t root = fby__h5_offset(&c);
    uint16_t root_records = fby__h5_u16(&c);
    t.left = fby__h5_length(&c);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    if (t.type != type)
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 " has type %u where %u belongs", what, address, t.type, type);
    if (t.depth > FBY__H5_MAX_DEPTH || !size_levels(&t, node_bytes))
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 ": records of %u bytes in nodes of %u bytes, %u levels, cannot be",
                                  what, address, t.record_bytes, node_bytes, t.depth);
    *out_record_bytes = t.record_bytes;
    if (root == FBY__H5_UNDEFINED || t.left == 0) { /* empty: a writer that removed the last record may leave a root behind */
        if (t.left != 0)
            return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 " has records but no root", what, address);
        return FBY_OK;
    }
    if (t.left > f->end / t.record_bytes)
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 " claims %" PRIu64 " records, more than the file has room for", what,
                                  address, t.left);
    return walk_node(&t, root, root_records, t.left, t.depth, err);
}
