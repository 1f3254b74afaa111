/*
 * HDF5 tables in the index cache: one flat blob of this machine and version, a cache and not a file format.
 *
 *     head (magic, version, hash of the schema, checksum) · table · sets, each with its types, filters and chunk list · leaves · notes
 *
 * One function for each struct says what is stored, for both directions: `ice` copies out of the struct when it freezes and into it
 * when it thaws. The checksum finds damage; what passes is checked again, because a table must never point outside its file.
 * A table that was just built from a file takes the same way (table.c), so it owns its memory and no bytes more.
 */
#include "base/checked.h"
#include "base/hash.h"
#include "format/hdf5/table/table_internal.h"

#define FROZEN_MAGIC 0x54354846u /* "FH5T" */
#define FROZEN_VERSION 4u
#define NO_TEXT UINT32_MAX

typedef struct frozen_head {
    uint32_t magic, version;
    uint64_t schema_hash;
    uint64_t checksum; /* of the fields above and all that follows */
} frozen_head;

typedef struct ice {
    fby__buf *out;           /* freezing: appended to; NULL: thawing */
    const uint8_t *at, *end; /* thawing */
    fby__arena *arena;       /* thawing */
    unsigned depth;          /* of types */
    enum { FINE, DAMAGED, NO_MEMORY } state;
} ice;

static bool stop(ice *z, int state)
{
    if (z->state == FINE)
        z->state = state == NO_MEMORY ? NO_MEMORY : DAMAGED;
    return false;
}

/* n bytes, out of p or into it. After a fault nothing moves, and what was to be filled is zero. */
static bool raw(ice *z, void *p, size_t n)
{
    if (z->out)
        return z->state == FINE && (fby__buf_put(z->out, p, n) == 0 || stop(z, NO_MEMORY));
    if (z->state != FINE || (size_t)(z->end - z->at) < n) {
        memset(p, 0, n);
        return stop(z, DAMAGED);
    }
    memcpy(p, z->at, n);
    z->at += n;
    return true;
}

/* Is there room for n elements of at least so many stored bytes each? Before memory is asked for. */
static bool room(ice *z, uint64_t n, size_t least)
{
    return z->out || (z->state == FINE && n <= (uint64_t)(z->end - z->at) / least) || stop(z, DAMAGED);
}

/* Thawing: memory for n elements, zeroed. */
static void *memory(ice *z, uint64_t n, size_t size)
{
    size_t all;
    void *p = fby__mul_checked(n, size, &all) ? fby__arena_alloc(z->arena, all) : NULL;
    if (!p) {
        stop(z, NO_MEMORY);
        return NULL;
    }
    memset(p, 0, all);
    return p;
}

/* A run of n plain values. p points to the pointer. */
static void run(ice *z, const void **p, uint64_t n, size_t size)
{
    if (n == 0 || !room(z, n, size))
        return;
    void *to = z->out ? (void *)(uintptr_t)*p : memory(z, n, size);
    if (!to)
        return;
    *p = to;
    raw(z, to, n * size);
}

static void text(ice *z, const char **s)
{
    uint32_t n = z->out && *s ? (uint32_t)strlen(*s) : NO_TEXT;
    raw(z, &n, sizeof n);
    if (n == NO_TEXT || !room(z, n, 1))
        return;
    if (z->out) {
        raw(z, (void *)(uintptr_t)*s, n);
        return;
    }
    char *to = memory(z, (uint64_t)n + 1, 1);
    *s = to;
    if (to && raw(z, to, n) && strlen(to) != n)
        stop(z, DAMAGED);
}

static void needed_text(ice *z, const char **s)
{
    text(z, s);
    if (!*s)
        stop(z, DAMAGED);
}

static void bytes(ice *z, fby__bytes *b)
{
    uint64_t n = b->n;
    raw(z, &n, sizeof n);
    b->n = n;
    run(z, (const void **)&b->data, n, 1);
    if (z->state != FINE)
        *b = (fby__bytes){0};
}

#define FIELD(z, x) raw((z), &(x), sizeof(x))

/* Not as a FIELD: a bool that is neither is no value at all. */
static void flag(ice *z, bool *v)
{
    uint8_t stored = z->out && *v;
    FIELD(z, stored);
    *v = stored == 1;
    if (stored > 1)
        stop(z, DAMAGED);
}

static void type(ice *z, const fby__h5_type **p);

static void member(ice *z, fby__h5_member *m, const fby__h5_type *of)
{
    needed_text(z, &m->name);
    if (of->class == FBY__H5_COMPOUND) {
        FIELD(z, m->offset);
        type(z, &m->type);
    } else if (of->base) {
        run(z, (const void **)&m->value, of->base->bytes, 1);
    }
}

/* Needed by what decodes: sizes that say how far a value reaches, and children where the class has some. */
static bool type_holds(const fby__h5_type *t)
{
    if (t->class >= FBY__H5_CLASS_COUNT || t->bytes == 0 || t->n_dims > FBY__H5_MAX_RANK ||
        t->bit_offset + t->bit_precision > 8ull * t->bytes)
        return false;
    uint64_t n = t->base ? t->base->bytes : 0;
    switch (t->class) {
    case FBY__H5_ENUM: return t->base && t->base->bytes == t->bytes;
    case FBY__H5_VLEN: return t->vlen_string || t->base;
    case FBY__H5_ARRAY:
        for (uint32_t i = 0; i < t->n_dims; i++)
            if (!fby__mul_u64_checked(n, t->dims[i], &n))
                return false;
        return t->base && n == t->bytes;
    case FBY__H5_COMPOUND:
        for (uint32_t i = 0; i < t->n_members; i++)
            if (!t->members[i].type || (uint64_t)t->members[i].offset + t->members[i].type->bytes > t->bytes)
                return false;
        return true;
    default: return true;
    }
}

static void type(ice *z, const fby__h5_type **p)
{
    if (z->depth > FBY__H5_MAX_DEPTH) {
        stop(z, DAMAGED);
        return;
    }
    z->depth++;
    fby__h5_type *t = z->out ? (fby__h5_type *)(uintptr_t)*p : memory(z, 1, sizeof *t);
    uint8_t class = t && z->out ? (uint8_t)t->class : 0, based = t && z->out && t->base ? 1 : 0;
    FIELD(z, class);
    FIELD(z, based);
    if (!t || z->state != FINE)
        return;
    t->class = (fby__h5_class) class;
    FIELD(z, t->bytes);
    uint8_t flags = (uint8_t)((t->big_endian ? 1 : 0) | (t->is_signed ? 2 : 0) | (t->vax ? 4 : 0) | (t->vlen_string ? 8 : 0));
    FIELD(z, flags);
    t->big_endian = flags & 1;
    t->is_signed = flags & 2;
    t->vax = flags & 4;
    t->vlen_string = flags & 8;
    FIELD(z, t->bit_offset);
    FIELD(z, t->bit_precision);
    FIELD(z, t->exponent_at);
    FIELD(z, t->exponent_bits);
    FIELD(z, t->mantissa_at);
    FIELD(z, t->mantissa_bits);
    FIELD(z, t->sign_at);
    FIELD(z, t->normalisation);
    FIELD(z, t->exponent_bias);
    FIELD(z, t->padding);
    FIELD(z, t->charset);
    FIELD(z, t->reference);
    text(z, &t->tag);
    if (based)
        type(z, &t->base);
    FIELD(z, t->n_dims);
    if (t->n_dims <= FBY__H5_MAX_RANK)
        raw(z, t->dims, t->n_dims * sizeof *t->dims);
    FIELD(z, t->n_members);
    if (t->n_members && room(z, t->n_members, sizeof(uint32_t))) {
        fby__h5_member *m = z->out ? (fby__h5_member *)(uintptr_t)t->members : memory(z, t->n_members, sizeof *m);
        t->members = m;
        for (uint32_t i = 0; m && i < t->n_members && z->state == FINE; i++)
            member(z, &m[i], t);
    }
    if (!z->out) {
        *p = t;
        if (z->state == FINE && !type_holds(t))
            stop(z, DAMAGED);
    }
    z->depth--;
}

static void filters(ice *z, fby__h5_set *s)
{
    FIELD(z, s->n_filters);
    if (s->n_filters > FBY__H5_MAX_FILTERS)
        stop(z, DAMAGED);
    if (s->n_filters == 0 || z->state != FINE)
        return;
    fby__filter *f = z->out ? (fby__filter *)(uintptr_t)s->filters : memory(z, s->n_filters, sizeof *f);
    s->filters = f;
    for (uint32_t i = 0; f && i < s->n_filters; i++) {
        FIELD(z, f[i].id);
        flag(z, &f[i].optional);
        FIELD(z, f[i].n_values);
        run(z, (const void **)&f[i].values, f[i].n_values, sizeof *f[i].values);
    }
}

_Static_assert(sizeof(fby__h5_chunk) == 24, "chunks have no padding: they are stored and hashed as they are");

static void set(ice *z, fby__h5_set *s)
{
    uint8_t way = (uint8_t)s->way, layout = (uint8_t)s->layout;
    needed_text(z, &s->path);
    FIELD(z, way);
    s->way = way == FBY__H5_HELPER ? FBY__H5_HELPER : FBY__H5_DIRECT;
    text(z, &s->why);
    type(z, &s->type);
    FIELD(z, s->rank);
    if (s->rank == 0 || s->rank > FBY__H5_MAX_RANK)
        stop(z, DAMAGED);
    if (z->state != FINE)
        return;
    raw(z, s->dims, s->rank * sizeof *s->dims);
    for (uint32_t i = 0; i < s->rank; i++)
        text(z, &s->dim_names[i]);
    FIELD(z, s->axis);
    FIELD(z, s->axes);
    FIELD(z, s->repeat);
    FIELD(z, s->row_elements);
    FIELD(z, layout);
    s->layout = (fby__h5_layout)layout;
    FIELD(z, s->data_offset);
    bytes(z, &s->compact);
    raw(z, s->chunk, s->rank * sizeof *s->chunk);
    raw(z, s->grid, s->rank * sizeof *s->grid);
    flag(z, &s->partial_edge_unfiltered);
    filters(z, s);
    bytes(z, &s->fill);
    FIELD(z, s->n_chunks);
    run(z, (const void **)&s->chunks, s->n_chunks, sizeof *s->chunks);
    FIELD(z, s->stored_bytes);
    FIELD(z, s->promise);
    FIELD(z, s->n_sources);
    run(z, (const void **)&s->sources, s->n_sources, sizeof *s->sources);
}

static void leaf(ice *z, fby__h5_leaf *l)
{
    uint8_t stored = (uint8_t)l->stored, dtype = (uint8_t)l->dtype, value = (uint8_t)l->value;
    FIELD(z, l->set);
    FIELD(z, l->offset);
    type(z, &l->type);
    FIELD(z, l->elements);
    FIELD(z, l->n_strides);
    if (l->n_strides > FBY__H5_MAX_STRIDES)
        stop(z, DAMAGED);
    else
        raw(z, l->strides, l->n_strides * sizeof *l->strides);
    FIELD(z, l->levels);
    FIELD(z, stored);
    FIELD(z, dtype);
    FIELD(z, value);
    if (stored >= FBY_DTYPE_COUNT || dtype >= FBY_DTYPE_COUNT || value > FBY__H5_VALUE_NESTED)
        stop(z, DAMAGED);
    l->stored = (fby_dtype)stored;
    l->dtype = (fby_dtype)dtype;
    switch (value) { /* an anonymous enum has no name to cast to */
    case FBY__H5_VALUE_NUMBER: l->value = FBY__H5_VALUE_NUMBER; break;
    case FBY__H5_VALUE_FIXED_STRING: l->value = FBY__H5_VALUE_FIXED_STRING; break;
    case FBY__H5_VALUE_VLEN_STRING: l->value = FBY__H5_VALUE_VLEN_STRING; break;
    case FBY__H5_VALUE_VLEN_LIST: l->value = FBY__H5_VALUE_VLEN_LIST; break;
    case FBY__H5_VALUE_OPAQUE: l->value = FBY__H5_VALUE_OPAQUE; break;
    case FBY__H5_VALUE_REFERENCE: l->value = FBY__H5_VALUE_REFERENCE; break;
    default: l->value = FBY__H5_VALUE_NESTED; break;
    }
    FIELD(z, l->n_missing);
    if (l->n_missing > FBY__H5_MAX_MISSING)
        stop(z, DAMAGED);
    else
        raw(z, l->missing, l->n_missing * sizeof *l->missing);
    flag(z, &l->has_least);
    flag(z, &l->has_most);
    FIELD(z, l->least);
    FIELD(z, l->most);
    flag(z, &l->scaled);
    FIELD(z, l->scale_factor);
    FIELD(z, l->add_offset);
}

/* Everything but the schema and what fby__h5_cut derives. */
static void table(ice *z, fby__h5_table *t, uint32_t n_leaves)
{
    FIELD(z, t->base.n_rows);
    FIELD(z, t->file_bytes);
    FIELD(z, t->address_base);
    FIELD(z, t->offset_bytes);
    FIELD(z, t->length_bytes);
    needed_text(z, &t->name);
    FIELD(z, t->base.n_sources);
    flag(z, &t->base.reach.anywhere);
    FIELD(z, t->base.reach.up);
    FIELD(z, t->base.reach.folders_bytes);
    run(z, (const void **)&t->base.reach.folders, t->base.reach.folders_bytes, 1);
    FIELD(z, t->n_sets);
    uint32_t leaves = n_leaves;
    FIELD(z, leaves);
    if (leaves != n_leaves || !room(z, t->n_sets, 64) || !room(z, leaves, 32))
        stop(z, DAMAGED);
    FIELD(z, t->n_others);
    FIELD(z, t->n_left_out);
    if (!room(z, t->n_others, 8) || !room(z, t->n_left_out, 8) || z->state != FINE)
        return;
    struct fby__h5_other *others = (struct fby__h5_other *)(uintptr_t)t->others;
    struct fby__h5_left_out *left_out = (struct fby__h5_left_out *)(uintptr_t)t->left_out;
    if (!z->out) {
        t->sets = memory(z, t->n_sets, sizeof *t->sets);
        t->leaves = memory(z, n_leaves, sizeof *t->leaves);
        t->others = others = memory(z, t->n_others, sizeof *others);
        t->left_out = left_out = memory(z, t->n_left_out, sizeof *left_out);
    }
    for (uint32_t i = 0; z->state == FINE && i < t->n_sets; i++)
        set(z, &t->sets[i]);
    for (uint32_t i = 0; z->state == FINE && i < n_leaves; i++)
        leaf(z, &t->leaves[i]);
    for (uint32_t i = 0; z->state == FINE && i < t->n_others; i++) {
        needed_text(z, &others[i].name);
        FIELD(z, others[i].rows);
        FIELD(z, others[i].n_sets);
    }
    for (uint32_t i = 0; z->state == FINE && i < t->n_left_out; i++) {
        needed_text(z, &left_out[i].name);
        needed_text(z, &left_out[i].why);
        flag(z, &left_out[i].elsewhere);
    }
}

/* ---- what must hold of any table ---- */

static bool chunks_hold(const fby__h5_set *s, uint64_t file_bytes)
{
    uint64_t all = 1, n = s->type->bytes;
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->chunk[i] == 0 || s->grid[i] != fby__div_up_u64(s->dims[i], s->chunk[i]) || !fby__mul_u64_checked(all, s->grid[i], &all) ||
            !fby__mul_u64_checked(n, s->chunk[i], &n))
            return false;
    if (s->way == FBY__H5_HELPER)
        return s->n_chunks == 0;
    if (n >= FBY__FILTER_MAX_BYTES)
        return false;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < s->n_chunks; i++) {
        const fby__h5_chunk *c = &s->chunks[i];
        if (c->number >= all || (i > 0 && c->number <= s->chunks[i - 1].number) || c->bytes > file_bytes ||
            c->offset > file_bytes - c->bytes || (s->n_filters == 0 && c->bytes != n))
            return false;
        sum += c->bytes; /* at most 2^64: no more chunks than memory, each below 4 GiB */
    }
    return sum == s->stored_bytes;
}

static bool set_holds(const fby__h5_set *s, uint64_t rows, uint64_t file_bytes)
{
    uint64_t indices = 1, row = 1, all;
    if (s->axes == 0 || s->axes > s->rank || s->axis > s->rank - s->axes || (s->axis > 0 && s->axes > 1) || s->repeat == 0)
        return false;
    for (uint32_t i = 0; i < s->rank; i++) {
        uint64_t *product = i >= s->axis && i < s->axis + s->axes ? &indices : &row;
        if (!fby__mul_u64_checked(*product, s->dims[i], product))
            return false;
    }
    if (row != s->row_elements || row == 0 || !fby__mul_u64_checked(indices, s->repeat, &all) || all != rows ||
        !fby__mul_u64_checked(indices, row, &all) || !fby__mul_u64_checked(all, s->type->bytes, &all))
        return false;
    if (s->fill.n != 0 && s->fill.n != s->type->bytes)
        return false;
    switch (s->layout) {
    case FBY__H5_COMPACT: return s->way == FBY__H5_HELPER || s->compact.n >= all || s->compact.n == 0;
    case FBY__H5_CONTIGUOUS:
        return s->way == FBY__H5_HELPER || s->data_offset == FBY__H5_UNDEFINED || (all <= file_bytes && s->data_offset <= file_bytes - all);
    case FBY__H5_CHUNKED: return chunks_hold(s, file_bytes);
    default: return false;
    }
}

static bool leaf_holds(const fby__h5_table *t, const fby__h5_leaf *l)
{
    if (l->set >= t->n_sets || l->elements == 0)
        return false;
    uint64_t run = l->elements, bytes, all = t->sets[l->set].type->bytes, span = 0;
    for (uint32_t i = 0; i < l->n_strides; i++) {
        if (l->strides[i].n == 0 || run % l->strides[i].n != 0)
            return false;
        run /= l->strides[i].n;
        span += (uint64_t)(l->strides[i].n - 1) * l->strides[i].stride;
    }
    bytes = span + run * fby__h5_value_bytes(t, l);
    bool number = l->value == FBY__H5_VALUE_NUMBER || l->value == FBY__H5_VALUE_VLEN_LIST;
    return bytes <= all && l->offset <= all - bytes && number == (l->stored != FBY_DTYPE_NONE) && number == (l->dtype != FBY_DTYPE_NONE) &&
           (!number || fby__h5_type_dtype(l->type) == l->stored);
}

static bool table_holds(const fby__h5_table *t, uint32_t n_leaves)
{
    if (t->offset_bytes > 8 || t->length_bytes > 8 || t->n_sets == 0)
        return false;
    for (uint32_t i = 0; i < t->n_sets; i++) {
        const fby__h5_set *s = &t->sets[i];
        if (!set_holds(s, t->base.n_rows, t->file_bytes))
            return false;
        for (uint32_t k = 0; k < s->n_sources; k++)
            if (s->sources[k] >= t->base.n_sources)
                return false;
    }
    for (uint32_t i = 0; i < n_leaves; i++)
        if (!leaf_holds(t, &t->leaves[i]))
            return false;
    return true;
}

/* ---- both directions ---- */

static uint64_t checksum(const frozen_head *head, const uint8_t *body, size_t n)
{
    return fby__hash_more(fby__hash(head, offsetof(frozen_head, checksum)), body, n).lo;
}

fby_status fby__h5_freeze(const fby__table *base, fby__buf *out, fby_error *err)
{
    frozen_head head = {FROZEN_MAGIC, FROZEN_VERSION, base->schema->hash.lo, 0};
    fby__buf blob = {0};
    ice z = {.out = &blob};
    raw(&z, &head, sizeof head);
    table(&z, (fby__h5_table *)(uintptr_t)fby__h5_table_of(base), base->schema->n_leaves); /* read only when it freezes */
    if (z.state == FINE) {
        head.checksum = checksum(&head, blob.data + sizeof head, blob.n - sizeof head);
        memcpy(blob.data, &head, sizeof head);
        if (fby__buf_put(out, blob.data, blob.n) != 0)
            stop(&z, NO_MEMORY);
    }
    fby__buf_fini(&blob);
    return z.state == FINE        ? FBY_OK
           : z.state == NO_MEMORY ? fby__fail_nomem(err, "freezing an HDF5 table")
                                  : fby__fail(err, FBY_E_INTERNAL, "an HDF5 table cannot be frozen");
}

static fby_status damaged(fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "the stored HDF5 metadata is damaged or of another version");
}

fby_status fby__h5_thaw(fby__bytes from, fby__schema *schema, fby__table **out, fby_error *err)
{
    frozen_head head;
    if (from.n < sizeof head)
        return damaged(err);
    memcpy(&head, from.data, sizeof head);
    const uint8_t *body = from.data + sizeof head, *end = from.data + from.n;
    if (head.magic != FROZEN_MAGIC || head.version != FROZEN_VERSION || head.schema_hash != schema->hash.lo ||
        !fby__checksum_holds(head.checksum, checksum(&head, body, (size_t)(end - body))))
        return damaged(err);
    fby__h5_table *t = fby__calloc(1, sizeof *t);
    if (!t)
        return fby__fail_nomem(err, "an HDF5 table");
    atomic_init(&t->base.refs, 1);
    t->base.ops = &fby__hdf5_ops;
    t->base.schema = fby__schema_ref(schema);
    t->base.n_groups = 1;
    t->base.groups = fby__calloc(1, sizeof *t->base.groups);
    ice z = {.at = body, .end = end, .arena = &t->arena};
    if (!t->base.groups)
        stop(&z, NO_MEMORY);
    table(&z, t, schema->n_leaves);
    if (z.state == FINE && (z.at != z.end || !table_holds(t, schema->n_leaves)))
        stop(&z, DAMAGED);
    if (z.state != FINE) {
        fby__h5_destroy(&t->base);
        return z.state == NO_MEMORY ? fby__fail_nomem(err, "an HDF5 table") : damaged(err);
    }
    fby__h5_cut(t, t->base.groups);
    *out = &t->base;
    return FBY_OK;
}
