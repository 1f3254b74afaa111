/*
 * The distinct values of a column chunk, found by hashing.
 *
 * A dictionary pays when its page and the indices take fewer bytes than the values. That is known at the end; before it, the search is given
 * up when the page would be larger than readers like to keep (1 MiB), and for numbers when the first few thousand hardly repeat: then there
 * are more than about 30,000 of them, and an index is half of a float already. All of it depends on the values alone.
 *
 * Numbers are hashed by a multiplication, which spreads most of them well. A table in which they cluster all the same, as doubles that are whole do, or
 * such as somebody chose, mixes them from then on (fby__table_hash_u64): its slots are other ones, and the values' indices the same.
 */
#include "write/parquet_impl.h"

#include "base/hash.h"

#define PAGE_MOST (1u << 20)
#define FIRST_LOOK 4096u
#define MANY (FIRST_LOOK / 16 * 15) /* different values among them: they hardly repeat */
#define MARKS 131072u               /* few of FIRST_LOOK values meet in one */
#define BLOCK 1024u
#define MOST_OCCUPIED 128u /* slots beside each other that a new value finds occupied: random ones find some 40 */

static inline uint64_t hash_of_number(uint64_t v, bool mixed)
{
    if (mixed)
        return fby__table_hash_u64(v);
    v *= FBY__GOLDEN;
    return (v ^ v >> 29) >> 20;
}

static inline uint64_t hash_of(const uint8_t *value, size_t n, bool mixed)
{
    if (n == 4)
        return hash_of_number(fby__load_u32(value), mixed);
    return n == 8 ? hash_of_number(fby__load_u64(value), mixed) : fby__table_hash(value, n);
}

/* Where the table keeps a value of this hash that was there before (same), or would be kept. */
static inline uint32_t *slot_of(const fby__pqw_dictionary *d, uint64_t hash, const uint8_t *value, size_t n, bool is_string)
{
    uint32_t *slots = (uint32_t *)(void *)d->slots.data;
    const size_t mask = d->slots.n / sizeof *slots - 1;
    const fby__pq_string *strings = (const fby__pq_string *)(const void *)d->strings.data;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        if (slots[at] == 0)
            return &slots[at];
        const size_t index = slots[at] - 1;
        if (is_string ? strings[index].n == n && (n == 0 || memcmp(strings[index].data, value, n) == 0)
                      : memcmp(d->plain.data + index * n, value, n) == 0)
            return &slots[at];
    }
}

static fby_status make_slots(fby__pqw_dictionary *d, size_t n, fby_error *err)
{
    FBY__TRY(fby__pqw_room(&d->slots, n * sizeof(uint32_t), err));
    d->slots.n = n * sizeof(uint32_t);
    memset(d->slots.data, 0, d->slots.n);
    return FBY_OK;
}

/* So many slots, and every value in its new one. */
static fby_status rehash(fby__pqw_dictionary *d, size_t n_slots, size_t value_bytes, fby_error *err)
{
    FBY__TRY(make_slots(d, n_slots, err));
    const fby__pq_string *strings = (const fby__pq_string *)(const void *)d->strings.data;
    for (uint32_t i = 0; i < d->n; i++) {
        const uint8_t *value = value_bytes ? d->plain.data + i * value_bytes : strings[i].data;
        const size_t n = value_bytes ? value_bytes : strings[i].n;
        *slot_of(d, hash_of(value, n, d->search == FBY__PQW_MIXED), value, n, value_bytes == 0) = i + 1;
    }
    return FBY_OK;
}

/* A value that was not there, for which so many slots were occupied; it is not kept when the page would grow too large. */
static fby_status add_distinct(fby__pqw_dictionary *d, const uint8_t *value, size_t n, bool is_string, size_t occupied, fby_error *err)
{
    const fby__pq_string string = {value, (uint32_t)n};
    uint8_t length[4];
    fby__store_u32(length, (uint32_t)n);
    if (d->plain.n + n > PAGE_MOST) {
        d->search = FBY__PQW_GIVEN_UP;
        return FBY_OK;
    }
    if ((is_string && (fby__buf_put(&d->plain, length, 4) != 0 || fby__buf_put(&d->strings, &string, sizeof string) != 0)) ||
        fby__buf_put(&d->plain, value, n) != 0)
        return fby__fail_nomem(err, "a dictionary");
    d->n++;
    const size_t n_slots = d->slots.n / sizeof(uint32_t);
    const bool begins_to_mix = occupied > MOST_OCCUPIED && d->search == FBY__PQW_PLAIN;
    if (begins_to_mix)
        d->search = FBY__PQW_MIXED;
    if ((size_t)d->n * 2 > n_slots)
        return rehash(d, 2 * n_slots, is_string ? 0 : n, err); /* half of them are free then */
    return begins_to_mix ? rehash(d, n_slots, is_string ? 0 : n, err) : FBY_OK;
}

/* The index of a value, new or not. mixed: is the search? */
static inline fby_status index_of(fby__pqw_dictionary *d, const uint8_t *value, size_t n, bool is_string, bool mixed, uint32_t *out,
                                  fby_error *err)
{
    const uint64_t hash = hash_of(value, n, mixed);
    uint32_t *slot = slot_of(d, hash, value, n, is_string);
    if (*slot) {
        *out = *slot - 1;
        return FBY_OK;
    }
    const uint32_t *slots = (const uint32_t *)(const void *)d->slots.data;
    *out = d->n;
    *slot = d->n + 1;
    return add_distinct(d, value, n, is_string, ((size_t)(slot - slots) - (size_t)hash) & (d->slots.n / sizeof *slots - 1), err);
}

/*
 * Values of a block from *i on, while the search is this one. Inlined, so that the compiler knows it, and the width (0: texts): the comparison of
 * numbers is one instruction then.
 */
static inline __attribute__((always_inline)) fby_status find_all(fby__pqw_dictionary *d, const uint8_t *values,
                                                                 const fby__pq_string *strings, size_t n, size_t width,
                                                                 fby__pqw_search search, uint32_t *index, size_t *i, fby_error *err)
{
    const bool mixed = search == FBY__PQW_MIXED;
    for (; *i < n && d->search == search; ++*i)
        FBY__TRY(width ? index_of(d, values + width * *i, width, false, mixed, &index[*i], err)
                       : index_of(d, strings[*i].data, strings[*i].n, true, mixed, &index[*i], err));
    return FBY_OK;
}

/* Indices of all values, and in *plain_bytes how many bytes they are as PLAIN; until the search is given up. */
static fby_status collect(fby__pqw_dictionary *d, fby__pqw_values *v, size_t n, uint64_t *plain_bytes, fby_error *err)
{
    const size_t width = v->leaf->value_bytes;
    uint32_t *index = (uint32_t *)(void *)d->indices.data;
    fby__pq_string strings[BLOCK];
    for (size_t done = 0; done < n; done += BLOCK, index += BLOCK) {
        const size_t n_block = n - done < BLOCK ? n - done : BLOCK;
        fby__bytes values = {0};
        if (width)
            FBY__TRY(fby__pqw_next(v, n_block, &d->scratch, &values, err));
        else
            FBY__TRY(fby__pqw_next_strings(v, n_block, strings, err));
        for (size_t i = 0; i < n_block && d->search != FBY__PQW_GIVEN_UP;) { /* one that begins to mix goes on where it was */
#define FIND(w, search) find_all(d, values.data, strings, n_block, w, search, index, &i, err)
#define FIND_OF(w) (d->search == FBY__PQW_MIXED ? FIND(w, FBY__PQW_MIXED) : FIND(w, FBY__PQW_PLAIN))
            FBY__TRY(width == 4 ? FIND_OF(4) : width == 8 ? FIND_OF(8) : width ? FIND_OF(width) : FIND_OF(0));
        }
        for (size_t i = 0; i < n_block; i++)
            *plain_bytes += width ? width : 4 + (uint64_t)strings[i].n;
        if (width && width <= 8 && done + BLOCK == FIRST_LOOK && d->n > MANY)
            d->search = FBY__PQW_GIVEN_UP;
        if (d->search == FBY__PQW_GIVEN_UP)
            break;
    }
    return FBY_OK;
}

/*
 * Do so many of the first values differ that the search would be given up? Each value marks a bit: no more bits can be set than values differ, so many set
 * ones are an answer, for a fraction of what the search takes. Few are none: it begins.
 */
static fby_status many_differ(fby__pqw_dictionary *d, fby__pqw_values values, size_t n, bool *out, fby_error *err)
{
    const size_t width = values.leaf->value_bytes, n_look = n < FIRST_LOOK ? n : FIRST_LOOK;
    uint64_t marks[MARKS / 64] = {0};
    fby__bytes look = {0};
    uint32_t set = 0;
    *out = false;
    if ((width != 4 && width != 8) || n_look <= FIRST_LOOK - BLOCK)
        return FBY_OK;
    for (size_t done = 0, n_block; done < n_look; done += n_block) {
        n_block = n_look - done < BLOCK ? n_look - done : BLOCK;
        FBY__TRY(fby__pqw_next(&values, n_block, &d->scratch, &look, err));
        for (size_t i = 0; i < n_block; i++) {
            const uint64_t hash = width == 4 ? hash_of(look.data + 4 * i, 4, false) : hash_of(look.data + 8 * i, 8, false);
            const uint64_t at = hash & (MARKS - 1);
            set += (marks[at / 64] >> at % 64 & 1) == 0;
            marks[at / 64] |= UINT64_C(1) << at % 64;
        }
    }
    *out = set > MANY;
    return FBY_OK;
}

fby_status fby__pqw_dictionary_make(fby__pqw_dictionary *d, fby__pqw_values values, size_t n, fby_error *err)
{
    uint64_t plain_bytes = 0;
    bool hardly_repeats;
    d->used = false;
    d->search = FBY__PQW_PLAIN;
    d->n = 0;
    d->plain.n = d->strings.n = 0;
    if (n == 0 || values.leaf->from == FBY__PQW_BITS)
        return FBY_OK;
    FBY__TRY(many_differ(d, values, n, &hardly_repeats, err));
    if (hardly_repeats)
        return FBY_OK;
    FBY__TRY(make_slots(d, FIRST_LOOK, err));
    FBY__TRY(fby__pqw_room(&d->indices, n * sizeof(uint32_t), err));
    FBY__TRY(collect(d, &values, n, &plain_bytes, err));
    if (d->search == FBY__PQW_GIVEN_UP)
        return FBY_OK;
    const uint64_t index_bytes = (n * (uint64_t)fby__pqw_width(d->n - 1) + 7) / 8;
    d->used = d->plain.n + index_bytes < plain_bytes;
    return FBY_OK;
}

void fby__pqw_dictionary_fini(fby__pqw_dictionary *d)
{
    fby__buf_fini(&d->plain);
    fby__buf_fini(&d->indices);
    fby__buf_fini(&d->strings);
    fby__buf_fini(&d->slots);
    fby__buf_fini(&d->scratch);
    *d = (fby__pqw_dictionary){0};
}
