/*
 * CSV tables in memory and in the index cache: where the groups lie, and how much text and how many empty cells each column has there.
 *
 *     head · positions (offset, bytes, line, rows) · stats [group][leaf] · lines [leaf]
 *
 * The blob is of this machine and version: a cache, not a file format. What passes its checksum is checked again, because a table must
 * never point outside its file. The types are in the schema, and they are only how the text is read: a table may be thawed over any
 * schema with as many columns (fby__csv_retype).
 */
#include "base/checked.h"
#include "base/hash.h"
#include "block/arrow.h"
#include "format/csv/csv.h"

#define FROZEN_MAGIC 0x56534346u /* "FCSV" */
#define FROZEN_VERSION 2u

typedef struct frozen_head {
    uint32_t magic, version;
    uint32_t n_groups, n_leaves;
    uint8_t delimiter, gzip, numbers_for_names, unused[5];
    uint64_t file_bytes, text_bytes;
    uint64_t checksum; /* of the fields above and all that follows */
} frozen_head;

fby_status fby__csv_table_create(fby__schema *schema, fby__csv_table **out, fby_error *err)
{
    fby__csv_table *table = fby__calloc(1, sizeof *table);
    if (!table)
        return fby__fail_nomem(err, "a CSV table");
    table->base.ops = &fby__csv_ops;
    table->base.refs = 1;
    table->base.schema = fby__schema_ref(schema);
    fby_status status = fby__arrow_schema_export(&schema->fields[0], "", &table->arrow, err);
    if (status != FBY_OK) {
        table->arrow.release = NULL;
        fby__csv_destroy(&table->base);
        return status;
    }
    *out = table;
    return FBY_OK;
}

void fby__csv_destroy(fby__table *base)
{
    fby__csv_table *table = (fby__csv_table *)base;
    if (table->arrow.release)
        table->arrow.release(&table->arrow);
    fby__schema_unref(base->schema);
    fby__free(base->groups);
    fby__free(table->positions);
    fby__free(table->stats);
    fby__free(table->lines);
    fby__free(table);
}

bool fby__csv_table_sum(fby__csv_table *table)
{
    uint64_t at = 0;
    for (uint32_t g = 0; g < table->base.n_groups; g++) {
        fby__group *group = &table->base.groups[g];
        const fby__csv_position *position = &table->positions[g];
        /* A record has a byte at least, but for the last, which may be an empty pair of quotes; groups come in order. */
        if (position->offset < at || position->offset > table->text_bytes || position->n > table->text_bytes - position->offset ||
            group->rows == 0 || group->rows > position->n || position->n >= FBY__CSV_DOUBLED)
            return false;
        at = position->offset + position->n;
        for (uint32_t i = 0; i < table->base.schema->n_leaves; i++) {
            const fby__csv_stat *stat = &table->stats[(size_t)g * table->base.schema->n_leaves + i];
            if (stat->bytes > position->n || stat->nulls > group->rows)
                return false;
        }
        /* In a gzip file, its share of what is stored. */
        group->stored_bytes =
            !table->gzip ? position->n : (uint64_t)((double)table->file_bytes * (double)position->n / (double)table->text_bytes);
        group->block_rows = group->rows; /* a group is a block */
        group->first_row = table->base.n_rows;
        if (!fby__add_u64_checked(table->base.n_rows, group->rows, &table->base.n_rows))
            return false;
    }
    return true;
}

/* ---- the index cache ---- */

static uint64_t checksum(const frozen_head *head, const uint8_t *body, size_t n)
{
    return fby__hash_more(fby__hash(head, offsetof(frozen_head, checksum)), body, n).lo;
}

fby_status fby__csv_freeze(const fby__table *base, fby__buf *out, fby_error *err)
{
    const fby__csv_table *table = fby__csv(base);
    frozen_head head = {.magic = FROZEN_MAGIC,
                        .version = FROZEN_VERSION,
                        .n_groups = base->n_groups,
                        .n_leaves = base->schema->n_leaves,
                        .delimiter = table->delimiter,
                        .gzip = table->gzip,
                        .numbers_for_names = table->numbers_for_names,
                        .file_bytes = table->file_bytes,
                        .text_bytes = table->text_bytes};
    size_t group_bytes = (size_t)base->n_groups * 32;
    size_t stat_bytes = (size_t)base->n_groups * base->schema->n_leaves * sizeof(fby__csv_stat);
    size_t line_bytes = base->schema->n_leaves * sizeof *table->lines, body_bytes = group_bytes + stat_bytes + line_bytes;
    size_t start = out->n, all = sizeof head + body_bytes;
    if (fby__grow((void **)&out->data, &out->cap, start + all, 1) != 0)
        return fby__fail_nomem(err, "freezing a CSV table");
    uint8_t *body = out->data + start + sizeof head;
    for (uint32_t g = 0; g < base->n_groups; g++) {
        const fby__csv_position *position = &table->positions[g];
        const uint64_t values[4] = {position->offset, position->n, position->line, base->groups[g].rows};
        memcpy(body + (size_t)g * 32, values, sizeof values);
    }
    if (stat_bytes)
        memcpy(body + group_bytes, table->stats, stat_bytes);
    memcpy(body + group_bytes + stat_bytes, table->lines, line_bytes);
    head.checksum = checksum(&head, body, body_bytes);
    memcpy(out->data + start, &head, sizeof head);
    out->n = start + all;
    return FBY_OK;
}

static fby_status damaged(fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "the stored CSV metadata is damaged or of another version");
}

fby_status fby__csv_thaw(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err)
{
    frozen_head head;
    size_t group_bytes, stats, stat_bytes, line_bytes, all;
    if (bytes.n < sizeof head)
        return damaged(err);
    memcpy(&head, bytes.data, sizeof head);
    const uint8_t *body = bytes.data + sizeof head;
    if (head.magic != FROZEN_MAGIC || head.version != FROZEN_VERSION || head.n_leaves != schema->n_leaves ||
        !fby__mul_checked(head.n_groups, 32, &group_bytes) || !fby__mul_checked(head.n_groups, head.n_leaves, &stats) ||
        !fby__mul_checked(stats, sizeof(fby__csv_stat), &stat_bytes) || !fby__mul_checked(head.n_leaves, sizeof(uint64_t), &line_bytes) ||
        !fby__add_checked(group_bytes, stat_bytes, &all) || !fby__add_checked(all, line_bytes, &all) || all != bytes.n - sizeof head ||
        !fby__checksum_holds(head.checksum, checksum(&head, body, all)))
        return damaged(err);
    fby__csv_table *table;
    FBY__TRY(fby__csv_table_create(schema, &table, err));
    table->delimiter = head.delimiter;
    table->gzip = head.gzip;
    table->numbers_for_names = head.numbers_for_names;
    table->file_bytes = head.file_bytes;
    table->text_bytes = head.text_bytes;
    table->base.groups = fby__calloc(head.n_groups, sizeof *table->base.groups);
    table->positions = fby__calloc(head.n_groups, sizeof *table->positions);
    table->stats = fby__malloc(stat_bytes);
    table->lines = fby__malloc(line_bytes);
    if (!table->base.groups || !table->positions || !table->stats || !table->lines) {
        fby__csv_destroy(&table->base);
        return fby__fail_nomem(err, "a CSV table");
    }
    table->base.n_groups = head.n_groups;
    for (uint32_t g = 0; g < head.n_groups; g++, body += 32) {
        table->positions[g] = (fby__csv_position){fby__load_u64(body), fby__load_u64(body + 8), fby__load_u64(body + 16)};
        table->base.groups[g].rows = fby__load_u64(body + 24);
    }
    if (stat_bytes)
        memcpy(table->stats, body, stat_bytes);
    memcpy(table->lines, body + stat_bytes, line_bytes);
    if (!fby__csv_table_sum(table) || (!table->gzip && table->text_bytes != table->file_bytes) ||
        (table->gzip && (table->text_bytes > FBY__CSV_GZIP_BYTES || table->file_bytes > FBY__CSV_GZIP_BYTES))) {
        fby__csv_destroy(&table->base);
        return damaged(err);
    }
    *out = &table->base;
    return FBY_OK;
}

/* ---- types ---- */

fby_status fby__csv_retype(const fby__schema *schema, const fby_field *const *types, bool said, fby__schema **out, fby_error *err)
{
    const fby_field *root = &schema->fields[0];
    uint32_t n = root->n_children;
    fby__schema_element *elements = fby__calloc((size_t)n + 1, sizeof *elements);
    if (!elements)
        return fby__fail_nomem(err, "the columns of a CSV file");
    elements[0] = (fby__schema_element){.name = "", .n_children = n, .field = {.kind = FBY_KIND_STRUCT}};
    for (uint32_t i = 0; i < n; i++) { /* a column is a leaf */
        const fby_field *field = &root->children[i];
        fby__schema_element *e = &elements[i + 1];
        *e = (fby__schema_element){.name = field->name, .name_n = (uint32_t)strlen(field->name), .physical = schema->leaves[i].physical};
        e->field = types[i] ? (fby_field){.kind = types[i]->kind, .dtype = types[i]->dtype, .nullable = true} : *field;
        if (types[i])
            e->physical = said ? FBY__CSV_SAID : FBY__CSV_TEXT_ELSEWHERE;
    }
    fby_status status = fby__schema_create(elements, (size_t)n + 1, out, err);
    fby__free(elements);
    return status;
}

uint64_t fby__csv_number_text(const fby__table *base, uint32_t leaf, fby_dtype *out)
{
    int32_t physical = base->schema->leaves[leaf].physical;
    *out = physical == FBY__CSV_INT_TEXT ? FBY_INT64 : FBY_FLOAT64;
    return physical == FBY__CSV_INT_TEXT || physical == FBY__CSV_NUMBER_TEXT ? fby__csv(base)->lines[leaf] : 0;
}

/* ---- what a column takes ---- */

void fby__csv_leaf_bounds(const fby__table *base, uint32_t group, uint64_t row_begin, uint64_t row_end, uint32_t leaf,
                          fby__leaf_bounds *out)
{
    const fby__csv_table *table = fby__csv(base);
    const fby__csv_stat *stat = &table->stats[(size_t)group * base->schema->n_leaves + leaf];
    uint64_t cells = base->groups[group].rows * base->schema->n_leaves * sizeof(fby__csv_cell);
    uint64_t text = table->gzip ? table->file_bytes + table->text_bytes : table->positions[group].n;
    const fby_field *field = &base->schema->fields[base->schema->leaves[leaf].field];
    /* Nothing is read ahead: whoever decodes reads the text, in which the columns cannot be told apart before. */
    *out = (fby__leaf_bounds){.n_values = row_end - row_begin,
                              .uncompressed_bytes = stat->bytes,
                              .scratch_bytes = text + cells + fby__csv_column_bytes(field, row_end - row_begin, stat->bytes)};
}

fby_status fby__csv_describe(const fby__table *base, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out, fby_error *err)
{
    (void)file; /* metadata says it all */
    (void)err;
    const fby__csv_table *table = fby__csv(base);
    const fby__csv_stat *stat = &table->stats[(size_t)group * base->schema->n_leaves + leaf];
    double share = (double)base->groups[group].stored_bytes / (double)table->positions[group].n;
    *out = (fby_chunk_info){.codec = fby__codec_name(table->gzip ? FBY__CODEC_GZIP : FBY__CODEC_NONE),
                            .n_values = base->groups[group].rows,
                            .compressed_bytes = (uint64_t)((double)stat->bytes * share),
                            .uncompressed_bytes = stat->bytes,
                            .n_pages = -1,
                            .n_dictionary_values = -1,
                            .null_count = (int64_t)stat->nulls};
    return FBY_OK;
}
