/* Parquet column chunks made of levels and plain values, as tables of one row group, and their Arrow arrays. */
#ifndef FBY_TEST_PARQUET_LEVELS_H
#define FBY_TEST_PARQUET_LEVELS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "format/parquet_builder.h"
#include "support/test_seed.h"

enum { MAX_LEAVES = 48, MAX_NODES = 160 };

/* ---- a chunk made of levels and plain values ---- */

typedef struct column {
    fby__buf rep, def;   /* one byte a level */
    fby__buf values;     /* plain, without booleans */
    fby__buf bools;      /* BOOLEAN: one byte a value */
    fby__buf value_ends; /* uint32: end of each value in `values` */
    fby__buf pages;
} column;

static inline void put(fby__buf *b, const void *p, size_t n)
{
    if (fby__buf_put(b, p, n) != 0)
        abort();
}

static inline void put_level(column *c, unsigned rep, unsigned def)
{
    uint8_t r = (uint8_t)rep, d = (uint8_t)def;
    put(&c->rep, &r, 1);
    put(&c->def, &d, 1);
}

static inline void put_value(column *c, const void *p, size_t n)
{
    put(&c->values, p, n);
    uint32_t end = (uint32_t)c->values.n;
    put(&c->value_ends, &end, sizeof end);
}

static inline void column_fini(column *c)
{
    fby__buf_fini(&c->rep);
    fby__buf_fini(&c->def);
    fby__buf_fini(&c->values);
    fby__buf_fini(&c->bools);
    fby__buf_fini(&c->value_ends);
    fby__buf_fini(&c->pages);
}

/* Levels as RLE runs behind their length, as v1 pages have them. */
static inline void put_levels(fby__buf *out, const uint8_t *levels, size_t n, unsigned max)
{
    if (max == 0)
        return;
    writer w = {0};
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && levels[j] == levels[i];)
            j++;
        w_varint(&w, (uint64_t)(j - i) << 1);
        w_byte(&w, levels[i]);
    }
    uint32_t bytes = (uint32_t)w.b.n;
    put(out, &bytes, sizeof bytes);
    put(out, w.b.data, w.b.n);
    fby__buf_fini(&w.b);
}

/* All levels of a column as v1 pages of random lengths up to page_levels. */
static inline void make_pages(column *c, unsigned max_rep, unsigned max_def, bool is_bool, fby__random *rng, uint64_t page_levels)
{
    size_t value = 0;
    for (size_t i = 0, n; i < c->def.n; i += n) {
        n = (size_t)fby__random_below(rng, page_levels) + 1;
        n = n < c->def.n - i ? n : c->def.n - i;
        fby__buf body = {0};
        put_levels(&body, c->rep.data + i, n, max_rep);
        put_levels(&body, c->def.data + i, n, max_def);
        size_t present = 0;
        for (size_t k = 0; k < n; k++)
            present += c->def.data[i + k] == max_def;
        if (is_bool) {
            for (size_t k = 0; k < present; k += 8) {
                uint8_t byte = 0;
                for (size_t bit = 0; bit < 8 && k + bit < present; bit++)
                    byte |= (uint8_t)(c->bools.data[value + k + bit] << bit);
                put(&body, &byte, 1);
            }
        } else if (present) {
            const uint8_t *ends = c->value_ends.data;
            size_t begin = value ? fby__load_u32(ends + 4 * (value - 1)) : 0, end = fby__load_u32(ends + 4 * (value + present - 1));
            put(&body, c->values.data + begin, end - begin);
        }
        value += present;
        writer w = {0};
        w_page_v1(&w, (int32_t)n, (int32_t)body.n);
        put(&c->pages, w.b.data, w.b.n);
        put(&c->pages, body.data, body.n);
        fby__buf_fini(&w.b);
        fby__buf_fini(&body);
    }
}

static inline fby__pq_table *make_table(const fby__schema_element *elements, size_t n, uint64_t rows, const column *columns)
{
    fby__schema *schema = NULL;
    fby__pq_table *table = NULL;
    fby_error err;
    if (fby__schema_create(elements, n, &schema, &err) != FBY_OK ||
        fby__pq_table_create(schema, 1, UINT64_C(1) << 40, &table, &err) != FBY_OK)
        fail_msg("%s", err.message);
    table->base.groups[0].rows = table->base.n_rows = rows;
    for (uint32_t i = 0; i < schema->n_leaves; i++)
        table->chunks[i] = (fby__pq_chunk){.data_offset = 4,
                                           .compressed_bytes = columns[i].pages.n,
                                           .uncompressed_bytes = columns[i].pages.n,
                                           .n_values = columns[i].def.n,
                                           .null_count = -1};
    fby__schema_unref(schema);
    return table;
}

/* Rows of the table's field f (by its place among the root's children). */
static inline fby_status decode(const fby__pq_table *table, const column *columns, uint32_t f, uint64_t begin, uint64_t end,
                                fby__scratch *scratch, struct ArrowArray *out, fby_error *err)
{
    const fby__schema *schema = table->base.schema;
    uint32_t field = (uint32_t)(&schema->fields[0].children[f] - schema->fields);
    fby__leaf_source sources[MAX_LEAVES] = {{0}};
    for (uint32_t i = 0; i < schema->nodes[field].n_leaves; i++) {
        sources[i].leaf = schema->nodes[field].first_leaf + i;
        const fby__buf *pages = &columns[sources[i].leaf].pages;
        sources[i].range[1].offset = 4;
        sources[i].range[1].n = pages->n;
        sources[i].range[1].data = pages->data;
    }
    return fby__pq_decode_arrow(&table->base, "model.parquet", 0, begin, end, field, false, sources, scratch, out, err);
}

#endif
