/* What each block takes to be read, decoded and kept, and what a worker needs for it: upper bounds from metadata, when the loader opens. */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <string.h>

uint64_t fby__loader_capacity(const fby__loader_source *in, uint32_t block, const fby__read_panel *panel)
{
    const size_t i = (size_t)block * in->n_variable + panel->variable;
    return panel->variable == UINT32_MAX ? 0 : fby__max_u64(in->capacity[i], fby__progress_of(in)->outgrown[i]);
}

size_t fby__loader_outgrown_bytes(const fby__loader_source *in, uint32_t block, uint32_t panel, uint64_t capacity)
{
    const fby__read_panel *p = &in->panels[panel];
    const uint64_t known = p->variable == UINT32_MAX ? capacity : in->capacity[(size_t)block * in->n_variable + p->variable];
    size_t before = 0, after = 0; /* what fits in memory was checked when the loader was opened, and when the panel was placed */
    (void)fby__panel_bytes(&p->layout, 0, known, &before, NULL);
    (void)fby__panel_bytes(&p->layout, 0, capacity, &after, NULL);
    return after - fby__min_u64(after, before);
}

/* Bytes of all panels of a block with these rows. */
size_t fby__loader_entry_bytes(const fby__loader_source *in, uint32_t block, uint64_t rows)
{
    size_t total = 0, bytes;
    for (uint32_t i = 0; i < in->n_panels; i++) {
        const fby__read_panel *p = &in->panels[i];
        if (fby__panel_bytes(&p->layout, rows, fby__loader_capacity(in, block, p), &bytes, NULL) != FBY_OK ||
            !fby__add_checked(total, bytes, &total))
            return SIZE_MAX / 4;
    }
    return total;
}

static size_t slab_bytes(size_t bytes) { return bytes ? fby__slab_class_bytes(bytes) : 0; }

/* Room for one variable panel of one block: levels bound elements, stored bytes bound strings. */
static uint64_t capacity_of(const fby__read_panel *p, const fby__table *table, const fby__block *block, const fby__file_column *origin)
{
    if (origin->origin == FBY__ORIGIN_CONSTANT)
        return p->layout.kind == FBY__PANEL_BYTES ? strlen(origin->constant) : 0;
    if (origin->origin == FBY__ORIGIN_MISSING)
        return 0;
    fby__leaf_bounds bounds;
    table->ops->leaf_bounds(table, block->group, block->row_begin, block->row_end, origin->leaf, &bounds);
    return p->layout.kind == FBY__PANEL_RAGGED ? bounds.n_values : bounds.uncompressed_bytes;
}

/* Reading and decoding rows of one group: what it takes for all columns. */
static void cost_of_segment(fby__loader_source *in, const fby__block *block, const fby__read_segment *seg, const fby__table *table,
                            fby__block_cost *cost)
{
    fby_loader *l = in->loader;
    uint64_t pages = 0, largest = 0;
    fby__file_column origin;
    for (uint32_t c = 0; c < in->n_columns; c++) {
        fby__dataset_file_column(in->ds, block->file, &in->columns[c], &origin);
        if (origin.origin != FBY__ORIGIN_LEAF)
            continue;
        fby__leaf_bounds bounds;
        table->ops->leaf_bounds(table, seg->group, seg->row_begin, seg->row_end, origin.leaf, &bounds);
        cost->io_bytes += bounds.compressed_bytes + FBY__READ_GAP_BYTES;
        pages += fby__min_u64(bounds.scratch_bytes, FBY__SCRATCH_BYTES);
        largest = fby__max_u64(largest, bounds.scratch_bytes);
        l->memory.shared_bytes += bounds.shared_bytes;
    }
    /* tiles and values of a run (800 KiB from Parquet, 576 from Arrow), levels, codec contexts */
    in->scratch_bytes = fby__max_u64(in->scratch_bytes, (3u << 19) + fby__max_u64(largest, fby__min_u64(pages, FBY__SCRATCH_BYTES)));
}

static fby_status cost_of_block(fby__loader_source *in, uint32_t b, const fby__table *table, fby_error *err)
{
    fby_loader *l = in->loader;
    const fby__block *block = fby__dataset_block(in->ds, b);
    fby__block_cost *cost = &in->cost[b];
    fby__read_segment one, *segments = &one;
    fby__file_column origin;
    cost->samples = cost->least = cost->most = fby__samples_of_block(in->samples, b);
    if (cost->samples && fby__samples_are_drawn(in->samples))
        fby__samples_draw_bounds(in->samples, b, &cost->least, &cost->most);
    if (cost->most == 0) /* none, or none that is ever drawn */
        cost->samples = 0;
    if (cost->samples == 0)
        return FBY_OK;
    fby__samples_range(in->samples, b, 0, cost->samples, &cost->row_begin, &cost->row_end);
    uint32_t n = fby__read_segments(table, block, cost->row_begin, cost->row_end, &one, 1);
    if (n > 1 && !(segments = fby__calloc(n, sizeof *segments)))
        return fby__fail_nomem(err, "the blocks' sizes");
    if (n > 1)
        (void)fby__read_segments(table, block, cost->row_begin, cost->row_end, segments, n);
    for (uint32_t i = 0; i < n; i++)
        cost_of_segment(in, block, &segments[i], table, cost);
    if (segments != &one)
        fby__free(segments);
    l->memory.max_segments = n > l->memory.max_segments ? n : l->memory.max_segments;
    for (uint32_t i = 0; i < in->n_panels; i++) {
        const fby__read_panel *p = &in->panels[i];
        if (p->variable == UINT32_MAX)
            continue;
        fby__dataset_file_column(in->ds, block->file, &in->columns[p->column[0]], &origin);
        uint64_t *capacity = &in->capacity[(size_t)b * in->n_variable + p->variable];
        *capacity = fby__max_u64(*capacity, capacity_of(p, table, block, &origin));
    }
    if (fby__loader_entry_bytes(in, b, cost->row_end - cost->row_begin) >= SIZE_MAX / 4) {
        char text[FBY__BLOCK_TEXT_BYTES];
        fby__dataset_block_text(in->ds, b, text);
        return fby__fail(err, FBY_E_UNSUPPORTED, "%s decodes to more than memory can hold", text);
    }
    fby__thin_cost(in, b);
    const fby__room room = fby__thin_room(in, b, cost->row_end - cost->row_begin, cost->thin);
    cost->bytes = slab_bytes(room.stays) + slab_bytes(room.kept) + fby__load_entry_bytes(&l->outputs);
    cost->load_bytes = cost->bytes + slab_bytes(room.whole); /* where few rows are kept, all of them are there for a moment */
    return FBY_OK;
}

static void add_cost(fby__block_costs *all, const fby__block_cost *cost)
{
    all->rows += cost->row_end - cost->row_begin;
    all->bytes += cost->bytes;
    all->largest = fby__max_u64(all->largest, cost->bytes);
    all->largest_load = fby__max_u64(all->largest_load, cost->load_bytes);
    all->moment = fby__max_u64(all->moment, cost->load_bytes - cost->bytes);
    all->most = fby__max_u64(all->most, cost->most);
}

/* Finds the costs of all blocks of a source. */
static fby_status costs_of(fby__loader_source *in, fby_error *err)
{
    fby_loader *l = in->loader;
    fby__table *table = NULL;
    uint32_t file = UINT32_MAX;
    fby_status status = FBY_OK;
    in->cost = l->memory.cost + in->first_block;
    for (uint32_t i = 0; i < in->n_panels; i++)
        in->has_firsts |= in->panels[i].first_only;
    in->capacity = fby__calloc((size_t)in->n_blocks * in->n_variable, sizeof *in->capacity);
    fby__source_progress *progress = fby__progress_of(in);
    progress->outgrown = fby__calloc((size_t)in->n_blocks * in->n_variable, sizeof *progress->outgrown);
    progress->company = fby__calloc(in->n_blocks, sizeof *progress->company);
    if (!in->capacity || !progress->outgrown || !progress->company)
        return fby__fail_nomem(err, "the blocks' sizes");
    FBY__TRY(fby__loader_read_lengths(in, err));
    for (uint32_t b = 0; b < in->n_blocks && status == FBY_OK; b++) {
        uint32_t f = fby__dataset_block(in->ds, b)->file;
        if (f != file) {
            fby__table_unref(table);
            table = NULL;
            file = f;
            status = fby__dataset_table(in->ds, f, &table, err);
            if (status == FBY_OK && !in->format)
                in->format = table->ops;
        }
        if (status == FBY_OK)
            status = cost_of_block(in, b, table, err);
        l->memory.max_io_bytes = fby__max_u64(l->memory.max_io_bytes, in->cost[b].io_bytes);
        add_cost(&in->costs, &in->cost[b]);
    }
    fby__table_unref(table);
    return status;
}

/* Scratch, which sources of one format share; and reads, of which a loader over one data set has too few to count. */
static void cost_of_reading(fby__loader_sources *sources, fby__loader_memory *m)
{
    for (uint32_t i = 0; i < sources->n; i++) {
        fby__loader_source *in = &sources->at[i];
        while (sources->at[in->scratch_of].format != in->format)
            in->scratch_of++;
        fby__loader_source *first = &sources->at[in->scratch_of];
        first->reserved_bytes = fby__max_u64(first->reserved_bytes, in->scratch_bytes);
        const fby__reader reader = {.columns = in->columns,
                                    .n_columns = in->n_columns,
                                    .panels = in->panels,
                                    .n_panels = in->n_panels,
                                    .max_segments = m->max_segments};
        if (sources->n > 1)
            m->reads_bytes += fby__read_memory_bytes(&reader);
    }
    for (uint32_t i = 0; i < sources->n; i++)
        m->worker_bytes += sources->at[i].reserved_bytes;
}

fby_status fby__loader_costs(fby_loader *l, fby_error *err)
{
    l->memory.max_segments = 1;
    if (!(l->memory.cost = fby__calloc(l->memory.n_blocks, sizeof *l->memory.cost)))
        return fby__fail_nomem(err, "the blocks' sizes");
    for (uint32_t i = 0; i < l->sources.n; i++)
        FBY__TRY(costs_of(&l->sources.at[i], err));
    cost_of_reading(&l->sources, &l->memory);
    return FBY_OK;
}
