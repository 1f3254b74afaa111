/*
 * The whole file: a walk from the root group over hard links, then soft links among what was found.
 *
 * The walk keeps its own stack, one frame for each group on the way down. An object is parsed when its address is met for
 * the first time; that link's path is its own, every other hard link to it is an alias and is not walked into, so cycles end.
 * Names are found by a hash table of (the group's own entry, name): a path is followed name by name, and where a name is an
 * alias of a group the search goes on below the group's own entry. Soft links are resolved by the same search, when all
 * names are known. There is no ".." in HDF5: it would be a name.
 */
#include "base/checked.h"
#include "base/hash.h"
#include "block/schema.h"
#include "format/hdf5/metadata/structure.h"

#include <stdio.h>

#define MAX_ENTRIES ((uint32_t)4 << 20)
#define MAX_GROUP_DEPTH 256u
#define MAX_SOFT_LINKS 16u /* that lead to each other: what libhdf5 follows unless told otherwise */
#define NOBODY UINT32_MAX

struct fby__h5_tree_index {
    uint32_t mask; /* slots less one */
    struct tree_slot {
        uint32_t entry, group; /* NOBODY: free; the group's own entry */
    } * slots;
    const struct tree_node *nodes; /* by entry */
};

/* What an entry needs besides itself, for the search. */
typedef struct tree_node {
    uint32_t own;     /* the entry that the object is first found by: itself, unless it is an alias; NOBODY: leads nowhere */
    uint32_t group;   /* own entry of the group that the link lies in */
    uint32_t name_at; /* of the last name in the path */
    enum { SETTLED, SOFT, SOFT_IN_PROGRESS } state;
    const char *target; /* of a soft link; arena */
} tree_node;

/* A group on the way down. */
typedef struct frame {
    uint32_t group;      /* own entry */
    fby__h5_link *links; /* owned */
    size_t n, cap, next;
} frame;

/* Addresses of parsed objects → own entries. Open addressing, at most half full. */
typedef struct address_slot {
    uint64_t address; /* FBY__H5_UNDEFINED: free */
    uint32_t entry;
} address_slot;

typedef struct builder {
    fby__h5_file *f;
    fby__h5_entry *entries; /* owned until they are published */
    size_t entries_cap;
    tree_node *nodes; /* owned, parallel */
    size_t nodes_cap;
    uint32_t n;
    address_slot *addresses; /* owned */
    size_t addresses_n, addresses_cap;
    frame *frames; /* owned: MAX_GROUP_DEPTH */
    unsigned depth;
    size_t waiting; /* links in frames, not entries yet */
    struct fby__h5_tree_index index;
    uint64_t path_bytes; /* that soft links may still be followed for */
} builder;

/* ---- entries ---- */

static address_slot *slot_of_address(address_slot *table, size_t cap, uint64_t address)
{
    size_t i = (size_t)fby__table_hash_u64(address) & (cap - 1);
    while (table[i].address != FBY__H5_UNDEFINED && table[i].address != address)
        i = (i + 1) & (cap - 1);
    return &table[i];
}

static fby_status remember_address(builder *b, uint64_t address, uint32_t entry, fby_error *err)
{
    if (2 * (b->addresses_n + 1) > b->addresses_cap) {
        size_t cap = b->addresses_cap ? 2 * b->addresses_cap : 64;
        address_slot *table = fby__calloc(cap, sizeof *table);
        if (!table)
            return fby__fail_nomem(err, "the tree of an HDF5 file");
        for (size_t i = 0; i < cap; i++)
            table[i].address = FBY__H5_UNDEFINED;
        for (size_t i = 0; i < b->addresses_cap; i++)
            if (b->addresses[i].address != FBY__H5_UNDEFINED)
                *slot_of_address(table, cap, b->addresses[i].address) = b->addresses[i];
        fby__free(b->addresses);
        b->addresses = table;
        b->addresses_cap = cap;
    }
    *slot_of_address(b->addresses, b->addresses_cap, address) = (address_slot){address, entry};
    b->addresses_n++;
    return FBY_OK;
}

/* The own entry of the object at an address, or NOBODY. */
static uint32_t find_address(const builder *b, uint64_t address)
{
    const address_slot *s = b->addresses_cap ? slot_of_address(b->addresses, b->addresses_cap, address) : NULL;
    return s && s->address == address ? s->entry : NOBODY;
}

static fby_status text(fby__h5_file *f, const char *s, const char **out, fby_error *err)
{
    size_t n = strlen(s) + 1;
    char *copy;
    FBY__TRY(fby__h5_alloc(f, n, 1, (void **)&copy, err));
    memcpy(copy, s, n);
    *out = copy;
    return FBY_OK;
}

/* An entry for a name in a group, or for the root (group NOBODY). The caller fills in what it leads to. */
static fby_status add_entry(builder *b, uint32_t group, const char *name, uint32_t *out, fby_error *err)
{
    if (b->n >= MAX_ENTRIES)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a file of more than %u objects", MAX_ENTRIES);
    if (fby__grow((void **)&b->entries, &b->entries_cap, b->n + 1u, sizeof *b->entries) != 0 ||
        fby__grow((void **)&b->nodes, &b->nodes_cap, b->n + 1u, sizeof *b->nodes) != 0)
        return fby__fail_nomem(err, "the tree of an HDF5 file");
    const char *above = group == NOBODY || group == 0 ? "" : b->entries[group].path; /* the root's slash is the one between */
    size_t above_n = strlen(above), name_n = strlen(name);
    if (above_n + name_n > UINT32_MAX - 2)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a path longer than 4 GiB");
    char *path;
    FBY__TRY(fby__h5_alloc(b->f, above_n + name_n + 2, 1, (void **)&path, err));
    memcpy(path, above, above_n);
    path[above_n] = '/';
    memcpy(path + above_n + 1, name, name_n + 1);
    b->entries[b->n] = (fby__h5_entry){.path = path};
    b->nodes[b->n] = (tree_node){.own = b->n, .group = group, .name_at = (uint32_t)above_n + 1};
    *out = b->n++;
    return FBY_OK;
}

/* ---- the walk ---- */

static fby_status add_link(void *user, const fby__h5_link *link, fby_error *err)
{
    builder *b = user;
    frame *fr = &b->frames[b->depth];
    if (!link->name[0] || strchr(link->name, '/'))
        return fby__fail(err, FBY_E_FORMAT, "a link has the name \"%.100s\"", link->name);
    if (b->waiting + b->n >= MAX_ENTRIES)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a file of more than %u objects", MAX_ENTRIES);
    if (fby__grow((void **)&fr->links, &fr->cap, fr->n + 1, sizeof *fr->links) != 0)
        return fby__fail_nomem(err, "the links of a group");
    fr->links[fr->n++] = *link;
    b->waiting++;
    return FBY_OK;
}

/* "ours does not read this" becomes the entry's reason; other failures end the walk, and say where it was. */
static fby_status decline_or_fail(builder *b, uint32_t entry, const fby_error *found, fby_error *err)
{
    if (found->code == FBY_E_UNSUPPORTED)
        return text(b->f, found->message, &b->entries[entry].declined, err);
    if (err) {
        *err = *found;
        fby__error_context(err, "%.200s", b->entries[entry].path);
    }
    return found->code;
}

/* The group's links, in a new frame. */
static fby_status enter_group(builder *b, uint32_t entry, fby_error *err)
{
    if (b->depth == MAX_GROUP_DEPTH) {
        b->entries[entry].object = NULL;
        b->entries[entry].declined = "groups are nested too deep here";
        return FBY_OK;
    }
    frame *fr = &b->frames[b->depth];
    *fr = (frame){.group = entry};
    fby_error found;
    fby_status status = fby__h5_group_links(b->f, b->entries[entry].object, add_link, b, &found);
    if (status == FBY_OK) {
        b->depth++;
        return FBY_OK;
    }
    b->waiting -= fr->n;
    fby__free(fr->links);
    *fr = (frame){0};
    return decline_or_fail(b, entry, &found, err);
}

/* What a hard link leads to: parsed when it is met first, an alias when not. */
static fby_status add_object(builder *b, uint32_t entry, uint64_t address, fby_error *err)
{
    fby__h5_entry *e = &b->entries[entry];
    uint32_t own = find_address(b, address);
    if (own != NOBODY) {
        b->nodes[entry].own = own;
        *e = (fby__h5_entry){e->path, b->entries[own].object, b->entries[own].declined, true, false};
        return FBY_OK;
    }
    if (address == FBY__H5_UNDEFINED)
        return fby__fail(err, FBY_E_FORMAT, "%.200s: a link to no address", e->path);
    FBY__TRY(remember_address(b, address, entry, err));
    fby__h5_object *object = NULL;
    fby_error found;
    if (fby__h5_object_parse(b->f, address, &object, &found) != FBY_OK)
        return decline_or_fail(b, entry, &found, err);
    e->object = object;
    e->declined = object->declined;
    return object->kind == FBY__H5_GROUP ? enter_group(b, entry, err) : FBY_OK;
}

static fby_status add_elsewhere(builder *b, uint32_t entry, const char *target, fby_error *err)
{
    const size_t n = strlen(target) + 40;
    char *why;
    FBY__TRY(fby__h5_alloc(b->f, n, 1, (void **)&why, err));
    (void)snprintf(why, n, "a link to another file%s%s%s", *target ? " (" : "", target, *target ? ")" : "");
    if (!fby__schema_text_valid(why, strlen(why))) /* names are bytes in old files */
        (void)snprintf(why, n, "a link to another file");
    b->entries[entry].declined = why;
    b->entries[entry].elsewhere = true;
    return FBY_OK;
}

static fby_status add_linked(builder *b, uint32_t group, const fby__h5_link *link, fby_error *err)
{
    uint32_t entry;
    FBY__TRY(add_entry(b, group, link->name, &entry, err));
    switch (link->kind) {
    case FBY__H5_HARD: return add_object(b, entry, link->address, err);
    case FBY__H5_SOFT:
        b->nodes[entry].state = SOFT;
        b->nodes[entry].target = link->target;
        b->nodes[entry].own = NOBODY;
        b->path_bytes += MAX_SOFT_LINKS * (strlen(link->target) + 1);
        return FBY_OK;
    case FBY__H5_EXTERNAL:
    case FBY__H5_USER: break;
    }
    b->nodes[entry].own = NOBODY;
    b->entries[entry].declined = "a link of a kind that a program defined";
    return link->kind == FBY__H5_EXTERNAL ? add_elsewhere(b, entry, link->target, err) : FBY_OK;
}

static fby_status walk(builder *b, fby_error *err)
{
    uint32_t root;
    FBY__TRY(add_entry(b, NOBODY, "", &root, err));
    FBY__TRY(add_object(b, root, b->f->root_address, err));
    while (b->depth) {
        frame *fr = &b->frames[b->depth - 1];
        if (fr->next == fr->n) {
            fby__free(fr->links);
            *fr = (frame){0};
            b->depth--;
            continue;
        }
        b->waiting--;
        FBY__TRY(add_linked(b, fr->group, &fr->links[fr->next++], err));
    }
    return FBY_OK;
}

/* ---- names ---- */

static uint64_t name_hash(uint32_t group, const char *name, size_t n) { return fby__table_hash_u64(fby__table_hash(name, n) + group); }

/* The slot of a name, or the free one where it would be. */
static struct tree_slot *slot_of_name(const struct fby__h5_tree_index *x, const fby__h5_entry *entries, uint32_t group, const char *name,
                                      size_t n)
{
    for (uint32_t i = (uint32_t)name_hash(group, name, n) & x->mask;; i = (i + 1) & x->mask) {
        struct tree_slot *s = &x->slots[i];
        if (s->entry == NOBODY)
            return s;
        const char *there = entries[s->entry].path + x->nodes[s->entry].name_at;
        if (s->group == group && strncmp(there, name, n) == 0 && there[n] == 0)
            return s;
    }
}

static fby_status index_names(builder *b, fby_error *err)
{
    size_t n_slots = 16;
    while (n_slots < 2 * (size_t)b->n)
        n_slots *= 2;
    struct fby__h5_tree_index *x = &b->index;
    FBY__TRY(fby__h5_alloc(b->f, n_slots, sizeof *x->slots, (void **)&x->slots, err));
    memset(x->slots, 0xff, n_slots * sizeof *x->slots); /* NOBODY */
    x->mask = (uint32_t)n_slots - 1;
    x->nodes = b->nodes;
    for (uint32_t i = 1; i < b->n; i++) { /* the root has no name */
        const char *name = b->entries[i].path + b->nodes[i].name_at;
        struct tree_slot *s = slot_of_name(x, b->entries, b->nodes[i].group, name, strlen(name));
        if (s->entry != NOBODY)
            return fby__fail(err, FBY_E_FORMAT, "%.200s: a group has two links of this name", b->entries[i].path);
        *s = (struct tree_slot){i, b->nodes[i].group};
    }
    return FBY_OK;
}

/* The next name of a path: skips slashes and "." before it. n = 0 at the end. */
static const char *next_name(const char **at, size_t *n)
{
    for (;;) {
        const char *name = *at + strspn(*at, "/");
        *n = strcspn(name, "/");
        *at = name + *n;
        if (*n != 1 || name[0] != '.')
            return name;
    }
}

/* ---- soft links ---- */

/*
 * A link is resolved once. But where a chain is too long, only the first link of it is: a later one may lead somewhere when it
 * is the first. So that many chains that share a long end cannot take forever, all the names followed have a limit together.
 */
static void resolve(builder *b, uint32_t entry, unsigned links, bool *too_long);

/* The entry that a path from a group leads to, or NOBODY. */
static uint32_t follow(builder *b, uint32_t from, const char *path, unsigned links, bool *too_long)
{
    uint32_t at = path[0] == '/' ? 0 : from;
    for (;;) {
        size_t n;
        const char *begin = path, *name = next_name(&path, &n);
        if (n == 0)
            return at;
        uint64_t bytes = (uint64_t)(path - begin);
        uint32_t own = b->nodes[at].own;
        uint32_t entry = own == NOBODY ? NOBODY : slot_of_name(&b->index, b->entries, own, name, n)->entry;
        if (entry == NOBODY)
            return NOBODY;
        if (b->nodes[entry].state != SETTLED) {
            if (b->nodes[entry].state == SOFT_IN_PROGRESS || links == MAX_SOFT_LINKS || bytes > b->path_bytes) {
                *too_long = true;
                return NOBODY;
            }
            resolve(b, entry, links + 1, too_long);
            if (*too_long)
                return NOBODY;
        }
        b->path_bytes -= bytes < b->path_bytes ? bytes : b->path_bytes;
        at = entry;
    }
}

static void resolve(builder *b, uint32_t entry, unsigned links, bool *too_long)
{
    tree_node *node = &b->nodes[entry];
    fby__h5_entry *e = &b->entries[entry];
    node->state = SOFT_IN_PROGRESS;
    uint32_t to = follow(b, node->group, node->target, links, too_long);
    if (*too_long && links > 1) {
        node->state = SOFT;
        return;
    }
    node->state = SETTLED;
    if (to == NOBODY) {
        e->declined = *too_long ? "a soft link that leads through too many others" : "a soft link to nothing that is read";
        return;
    }
    node->own = b->nodes[to].own;
    *e = (fby__h5_entry){e->path, b->entries[to].object, b->entries[to].declined, node->own != NOBODY, b->entries[to].elsewhere};
}

/* ---- all of it ---- */

static fby_status publish(builder *b, fby__h5_tree *out, fby_error *err)
{
    fby__h5_entry *entries;
    tree_node *nodes;
    struct fby__h5_tree_index *index;
    FBY__TRY(fby__h5_alloc(b->f, b->n, sizeof *entries, (void **)&entries, err));
    FBY__TRY(fby__h5_alloc(b->f, b->n, sizeof *nodes, (void **)&nodes, err));
    FBY__TRY(fby__h5_alloc(b->f, 1, sizeof *index, (void **)&index, err));
    memcpy(entries, b->entries, b->n * sizeof *entries);
    memcpy(nodes, b->nodes, b->n * sizeof *nodes);
    *index = b->index;
    index->nodes = nodes;
    *out = (fby__h5_tree){b->n, entries, index};
    return FBY_OK;
}

fby_status fby__h5_tree_read(fby__h5_file *f, fby__h5_tree *out, fby_error *err)
{
    builder b = {.f = f};
    b.frames = fby__calloc(MAX_GROUP_DEPTH, sizeof *b.frames);
    fby_status status = b.frames ? walk(&b, err) : fby__fail_nomem(err, "the tree of an HDF5 file");
    if (status == FBY_OK)
        status = index_names(&b, err);
    for (uint32_t i = 0; status == FBY_OK && i < b.n; i++) {
        bool too_long = false;
        if (b.nodes[i].state == SOFT)
            resolve(&b, i, 1, &too_long);
    }
    if (status == FBY_OK)
        status = publish(&b, out, err);
    for (unsigned i = 0; b.frames && i < MAX_GROUP_DEPTH; i++)
        fby__free(b.frames[i].links);
    fby__free(b.frames);
    fby__free(b.addresses);
    fby__free(b.nodes);
    fby__free(b.entries);
    return status;
}

/* ---- a tree that somebody else walked ---- */

/* Where the last name of a path begins, when the rest of it is the group's. 0: it is not below the group. */
static uint32_t name_below(const char *group, const char *path)
{
    size_t n = strlen(group);
    n -= n == 1; /* "/" */
    if (strncmp(path, group, n) != 0 || path[n] != '/' || !path[n + 1] || strchr(path + n + 1, '/'))
        return 0;
    return (uint32_t)n + 1;
}

fby_status fby__h5_tree_of_entries(fby__arena *arena, const fby__h5_entry *entries, const uint32_t *own, uint32_t n, fby__h5_tree *out,
                                   fby_error *err)
{
    uint32_t groups[MAX_GROUP_DEPTH + 1], depth = 0; /* own entries of the groups on the way down */
    size_t n_slots = 16;
    while (n_slots < 2 * (size_t)n)
        n_slots *= 2;
    struct fby__h5_tree_index *x = fby__arena_alloc(arena, sizeof *x);
    tree_node *nodes = fby__arena_alloc(arena, (size_t)n * sizeof *nodes);
    if (!x || !nodes || !(x->slots = fby__arena_alloc(arena, n_slots * sizeof *x->slots)))
        return fby__fail_nomem(err, "the tree of an HDF5 file");
    memset(x->slots, 0xff, n_slots * sizeof *x->slots); /* NOBODY */
    x->mask = (uint32_t)n_slots - 1;
    x->nodes = nodes;
    for (uint32_t i = 0; i < n; i++) {
        const fby__h5_entry *e = &entries[i];
        uint32_t name_at = 0;
        while (depth && !(name_at = name_below(entries[groups[depth - 1]].path, e->path)))
            depth--;
        if ((i == 0) != (strcmp(e->path, "/") == 0) || (i && !depth))
            return fby__fail(err, FBY_E_FORMAT, "%.200s: an entry outside of its group", e->path);
        nodes[i] = (tree_node){.own = own[i], .group = i ? groups[depth - 1] : 0, .name_at = name_at, .state = SETTLED};
        if (i) {
            struct tree_slot *s = slot_of_name(x, entries, nodes[i].group, e->path + name_at, strlen(e->path + name_at));
            if (s->entry == NOBODY)
                *s = (struct tree_slot){i, nodes[i].group};
        }
        if (own[i] == i && e->object && e->object->kind == FBY__H5_GROUP) {
            if (depth > MAX_GROUP_DEPTH)
                return fby__fail(err, FBY_E_FORMAT, "%.200s: groups are nested too deep", e->path);
            groups[depth++] = i;
        }
    }
    *out = (fby__h5_tree){n, entries, x};
    return FBY_OK;
}

const fby__h5_entry *fby__h5_tree_find(const fby__h5_tree *tree, const char *path)
{
    uint32_t at = 0;
    size_t n;
    for (const char *name = next_name(&path, &n); n; name = next_name(&path, &n)) {
        uint32_t own = tree->index->nodes[at].own;
        if (own == NOBODY)
            return NULL;
        at = slot_of_name(tree->index, tree->entries, own, name, n)->entry;
        if (at == NOBODY)
            return NULL;
    }
    return &tree->entries[at];
}

const fby__h5_attribute *fby__h5_attribute_find(const fby__h5_object *object, const char *name)
{
    for (uint32_t i = 0; i < object->n_attributes; i++)
        if (strcmp(object->attributes[i].name, name) == 0)
            return &object->attributes[i];
    return NULL;
}
