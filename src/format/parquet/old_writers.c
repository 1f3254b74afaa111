/*
 * What old writers got wrong, and readers have to put right.
 *
 * parquet-mr before 1.2.9 left the header of the dictionary page out of a column chunk's stated size (PARQUET-816), so that the last page
 * seems to reach beyond the chunk. The pages themselves say where it ends.
 */
#include "format/parquet/meta.h"

#include "base/checked.h"

#define MAX_HEADER_BYTES 100u /* of those dictionary pages, as other readers assume */

static const uint8_t *skip_spaces(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p == ' ')
        p++;
    return p;
}

/* The text without a word that it begins with; NULL: it does not. */
static const uint8_t *after_word(const uint8_t *p, const uint8_t *end, const char *word)
{
    const size_t n = strlen(word);
    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

bool fby__pq_omits_dictionary_headers(fby__bytes created_by)
{
    static const unsigned FIXED[] = {1, 2, 9};
    if (created_by.n == 0)
        return false;
    const uint8_t *end = created_by.data + created_by.n, *p = after_word(created_by.data, end, "parquet-mr");
    if (!p || (p < end && *p != ' '))
        return false;
    p = after_word(skip_spaces(p, end), end, "version ");
    for (size_t i = 0; p && i < sizeof FIXED / sizeof *FIXED; i++, p += p < end) { /* behind a number its dot */
        unsigned number = 0;
        for (; p < end && *p >= '0' && *p <= '9' && number < 1000; p++)
            number = 10 * number + (unsigned)(*p - '0');
        if (number != FIXED[i])
            return number < FIXED[i];
    }
    return !p; /* the first ones did not state their version */
}

typedef struct measuring {
    uint64_t values_left, end;
} measuring;

static fby_status measure_page(void *user, uint64_t offset, const fby__pq_page *page, fby_error *err)
{
    measuring *m = user;
    (void)err; /* nothing fails */
    m->end = offset + page->header_bytes + page->compressed_bytes;
    if (page->type == FBY__PQ_DATA_PAGE || page->type == FBY__PQ_DATA_PAGE_V2)
        m->values_left -= fby__min_u64(page->n_values, m->values_left);
    return m->values_left == 0 ? FBY_END : FBY_OK;
}

fby_status fby__pq_measure_chunks(fby__pq_table *table, fby__file *file, fby_error *err)
{
    const size_t n = (size_t)table->base.n_groups * table->base.schema->n_leaves;
    uint64_t left = table->file_bytes;
    for (size_t i = 0; i < n; i++) {
        fby__pq_chunk *c = &table->chunks[i];
        if (c->compressed_bytes > left) /* no writer put chunks on top of each other: pages would be looked at once for each of them */
            return FBY_OK;
        left -= c->compressed_bytes;
        if (c->n_values == 0 || !(c->encodings & (1u << FBY__PQ_PLAIN_DICTIONARY | 1u << FBY__PQ_RLE_DICTIONARY)))
            continue;
        fby__pq_chunk more = *c;
        more.compressed_bytes += fby__min_u64(MAX_HEADER_BYTES, table->file_bytes - c->data_offset - c->compressed_bytes);
        measuring m = {.values_left = c->n_values};
        fby_error why;
        const fby_status status = fby__pq_walk(file, &more, measure_page, &m, &why);
        if (status == FBY_END)
            c->compressed_bytes = fby__max_u64(c->compressed_bytes, m.end - c->data_offset);
        else if (status != FBY_OK && status != FBY_E_FORMAT) { /* damaged pages are an error when they are read */
            if (err)
                *err = why;
            return status;
        }
    }
    return FBY_OK;
}
