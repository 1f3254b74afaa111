/*
 * Parquet tables in the index cache: one flat blob.
 *
 *     head · rows of each group (u64) · chunks as they are in memory
 *
 * The blob is of this machine and version: a cache, not a file format. Its checksum finds damage; what passes is
 * checked again as a footer is, because a table must never point outside its file.
 */
#include "format/parquet/meta.h"

#include "base/checked.h"
#include "base/hash.h"

#define FROZEN_MAGIC 0x54515046u /* "FPQT" */
#define FROZEN_VERSION 1u

typedef struct frozen_head {
    uint32_t magic, version;
    uint32_t n_groups, n_leaves;
    uint64_t file_bytes;
    uint64_t schema_hash;
    uint64_t checksum; /* of the fields above and all that follows */
} frozen_head;

_Static_assert(sizeof(fby__pq_chunk) == 64, "chunks have no padding: they are stored and hashed as they are");

static uint64_t checksum(const frozen_head *head, const uint8_t *body, size_t n)
{
    return fby__hash_more(fby__hash(head, offsetof(frozen_head, checksum)), body, n).lo;
}

fby_status fby__pq_freeze(const fby__table *base, fby__buf *out, fby_error *err)
{
    const fby__pq_table *table = fby__pq(base);
    frozen_head head = {FROZEN_MAGIC, FROZEN_VERSION, base->n_groups, base->schema->n_leaves, table->file_bytes, base->schema->hash.lo, 0};
    size_t rows_bytes = base->n_groups * sizeof(uint64_t);
    size_t chunk_bytes = (size_t)base->n_groups * base->schema->n_leaves * sizeof(fby__pq_chunk);
    size_t start = out->n, all = sizeof head + rows_bytes + chunk_bytes;
    if (fby__grow((void **)&out->data, &out->cap, start + all, 1) != 0)
        return fby__fail_nomem(err, "freezing a Parquet table");
    uint8_t *body = out->data + start + sizeof head;
    for (uint32_t g = 0; g < base->n_groups; g++)
        fby__store_u64(body + g * sizeof(uint64_t), base->groups[g].rows);
    memcpy(body + rows_bytes, table->chunks, chunk_bytes);
    head.checksum = checksum(&head, body, rows_bytes + chunk_bytes);
    memcpy(out->data + start, &head, sizeof head);
    out->n = start + all;
    return FBY_OK;
}

/* Offsets that footer.c puts in by rule, so that nothing reads outside the file. */
static bool offsets_fit(const fby__pq_chunk *c, uint64_t file_bytes)
{
    return c->offset_index_offset <= file_bytes && c->offset_index_bytes <= file_bytes - c->offset_index_offset &&
           (c->dictionary_offset == 0 || c->dictionary_offset == c->data_offset) &&
           (c->codec < FBY__CODEC_COUNT || (c->codec & FBY__PQ_CODEC_REFUSED)) && c->null_count >= -1;
}

static fby_status damaged(fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "the stored Parquet metadata is damaged or of another version");
}

fby_status fby__pq_thaw(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err)
{
    frozen_head head;
    size_t rows_bytes, chunks, chunk_bytes, all;
    if (bytes.n < sizeof head)
        return damaged(err);
    memcpy(&head, bytes.data, sizeof head);
    const uint8_t *body = bytes.data + sizeof head;
    if (head.magic != FROZEN_MAGIC || head.version != FROZEN_VERSION || head.n_leaves != schema->n_leaves ||
        head.schema_hash != schema->hash.lo || !fby__mul_checked(head.n_groups, sizeof(uint64_t), &rows_bytes) ||
        !fby__mul_checked(head.n_groups, head.n_leaves, &chunks) || !fby__mul_checked(chunks, sizeof(fby__pq_chunk), &chunk_bytes) ||
        !fby__add_checked(rows_bytes, chunk_bytes, &all) || all != bytes.n - sizeof head ||
        !fby__checksum_holds(head.checksum, checksum(&head, body, all)))
        return damaged(err);
    fby__pq_table *table;
    FBY__TRY(fby__pq_table_create(schema, head.n_groups, head.file_bytes, &table, err));
    memcpy(table->chunks, body + rows_bytes, chunk_bytes);
    bool good = true;
    for (uint32_t g = 0; good && g < head.n_groups; g++) {
        uint64_t rows = fby__load_u64(body + g * sizeof(uint64_t));
        table->base.groups[g].rows = rows;
        for (uint32_t i = 0; good && i < head.n_leaves; i++) {
            const fby__pq_chunk *c = &table->chunks[(size_t)g * head.n_leaves + i];
            good = offsets_fit(c, head.file_bytes) && fby__pq_chunk_check(c, &schema->leaves[i], rows, head.file_bytes, NULL) == FBY_OK;
        }
    }
    if (!good || !fby__pq_table_sum(table)) {
        fby__pq_destroy(&table->base);
        return damaged(err);
    }
    *out = &table->base;
    return FBY_OK;
}
