/*
 * Pages → ragged panels: one list column, its elements and where each row's begin. A null list is an empty one whose row is
 * not valid; a null element is filled. Lists of lists do not fit a ragged panel.
 */
#include "format/parquet/panel_column.h"

#include "base/checked.h"

typedef struct ragged {
    fby__pq_column *column;
    fby__panel *panel;
    uint8_t list_level;    /* definition level: the list is there */
    uint8_t element_level; /* … and has an element at this level */
    uint64_t rows;         /* begun */
} ragged;

static fby_status list_levels(const fby__decode *q, uint32_t leaf, ragged *out, fby_error *err)
{
    const fby__schema *schema = q->table->schema;
    uint32_t f = schema->leaves[leaf].field;
    while (f != 0 && schema->fields[f].kind != FBY_KIND_LIST && schema->fields[f].kind != FBY_KIND_MAP)
        f = schema->nodes[f].parent;
    if (schema->leaves[leaf].max_rep != 1 || f == 0)
        return fby__fail(err, FBY_E_SCHEMA,
                         schema->leaves[leaf].max_rep > 1 ? "a list of lists cannot be a ragged tensor" : "the column is not a list");
    out->list_level = (uint8_t)schema->nodes[f].def_level;
    out->element_level = (uint8_t)schema->nodes[f].list_def_level;
    return FBY_OK;
}

/* Where rows begin. Levels without an element come alone in their row. */
static fby_status begin_rows(ragged *g, const fby__pq_step *s, uint64_t used, fby_error *err)
{
    fby__panel *panel = g->panel;
    uint64_t *offsets = panel->offsets;
    uint64_t row = g->rows;
    uint8_t misplaced = 0;
    if (panel->rows - row < fby__levels_count(s->rep, s->n_levels, 0))
        return fby__fail(err, FBY_E_FORMAT, "more rows than were asked for");
    for (size_t i = 0; i < s->n_levels; i++) {
        const bool begins = s->rep[i] == 0, element = !s->def || s->def[i] >= g->element_level;
        offsets[row] = used; /* of the row that begins here, or of the next one: written again then */
        if (panel->valid && begins)
            panel->valid[row] = !s->def || s->def[i] >= g->list_level;
        row += begins;
        used += element;
        misplaced |= !begins & !element;
    }
    g->rows = row;
    return misplaced ? fby__fail(err, FBY_E_FORMAT, "a list that is empty or null goes on") : FBY_OK;
}

/* Elements that do not fit are counted, up to what the metadata states: the panel is then decoded again, with that room. */
static fby_status count(ragged *g, const fby__pq_step *s, size_t elements, fby_error *err)
{
    fby__pq_column *c = g->column;
    const uint64_t row = c->request->row_begin + g->rows;
    if (g->panel->used + elements > c->reader->chunk->n_values) /* else rows of a part of the group, which were given their share */
        return fby__fail(err, FBY_E_FORMAT, "more list elements than the metadata states");
    FBY__TRY(begin_rows(g, s, g->panel->used, err));
    g->panel->used += elements;
    FBY__TRY(fby__pq_mem_need(&c->scratch->work, s->n_values * c->elem_bytes, err));
    return fby__pq_column_next(c, s->n_values, c->scratch->work.data, s->def, row, err);
}

static fby_status append(ragged *g, const fby__pq_step *s, fby_error *err)
{
    fby__pq_column *c = g->column;
    fby__panel *panel = g->panel;
    const uint8_t max = (uint8_t)c->reader->leaf->max_def;
    const uint64_t row = c->request->row_begin + g->rows;
    size_t elements = s->n_levels;
    if (s->def) {
        elements = 0;
        for (size_t i = 0; i < s->n_levels; i++)
            elements += s->def[i] >= g->element_level;
    }
    if (panel->used > panel->capacity || elements > panel->capacity - panel->used)
        return count(g, s, elements, err);
    FBY__TRY(begin_rows(g, s, panel->used, err));
    uint8_t *dst = panel->data + panel->used * c->elem_bytes, *valid = panel->element_valid ? panel->element_valid + panel->used : NULL;
    panel->used += elements;
    if (elements == s->n_values) { /* no element is null */
        if (valid)
            memset(valid, 1, elements);
        return fby__pq_column_next(c, s->n_values, dst, s->def, row, err);
    }
    if (c->target->missing == FBY__MISSING_ERROR)
        return fby__fail(err, FBY_E_DATA, "an element of a list near row %llu is null, and " FBY__NULL_ADVICE,
                         (unsigned long long)(c->request->table->groups[c->request->group].first_row + row));
    /* levels of elements alone, then as a flat column with nulls */
    FBY__TRY(fby__pq_mem_need(&c->scratch->tiles, elements, err));
    uint8_t *def = c->scratch->tiles.data;
    for (size_t i = 0, k = 0; i < s->n_levels; i++) {
        if (s->def[i] >= g->element_level)
            def[k++] = s->def[i];
    }
    FBY__TRY(fby__pq_mem_need(&c->scratch->work, s->n_values * c->elem_bytes, err));
    FBY__TRY(fby__pq_column_next(c, s->n_values, c->scratch->work.data, s->def, row, err));
    fby__pq_expand(dst, c->scratch->work.data, def, max, elements, c->fill, c->elem_bytes);
    for (size_t i = 0; valid && i < elements; i++)
        valid[i] = def[i] == max;
    return FBY_OK;
}

static fby_status decode(ragged *g, fby_error *err)
{
    for (;;) {
        fby__pq_step s = {0};
        FBY__TRY(fby__pq_reader_levels(g->column->reader, FBY__PQ_TILE_ROWS, &s, err));
        if (s.n_levels == 0)
            break;
        FBY__TRY(append(g, &s, err));
    }
    g->panel->offsets[g->rows] = g->panel->used;
    return FBY_OK;
}

fby_status fby__pq_decode_ragged(const fby__decode *q, fby__scratch *scratch, fby_error *err)
{
    fby__pq_column c;
    FBY__TRY(fby__pq_column_open(q, &q->columns[0], scratch, 0, &c, err));
    ragged g = {.column = &c, .panel = q->panel, .rows = q->row_begin - q->panel_row};
    q->panel->used = 0;
    fby_status status = list_levels(q, q->columns[0].source->leaf, &g, err);
    if (status == FBY_OK)
        status = decode(&g, err);
    if (status != FBY_OK)
        status = fby__pq_column_fail(&c, status, err);
    fby__pq_column_close(&c);
    return status;
}
