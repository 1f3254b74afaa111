/*
 * What lists and strings take, read from the data: for a budget that is to hold everything, and says beforehand how much that is. Metadata
 * bounds them neither in a block, where writers share prefixes or keep values in a heap, nor in a batch, where a dictionary's are written out.
 * Their columns are read once, when such a loader is opened.
 */
#include "loader/internal.h"
#include "read/scan.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <string.h>

/* One variable panel of one block: elements of lists, bytes of strings. */
typedef struct measured {
    uint64_t used;               /* what the panel has to have room for */
    uint64_t rows, sum, longest; /* of rows: their number, all they have, and the most that one has */
} measured;

typedef struct measuring {
    const fby__loader_source *in;
    measured *found;  /* owned: per block and variable panel */
    uint32_t *number; /* owned: of the variable panel that a column of the scan is of */
} measuring;

static bool wanted(void *user, uint32_t block, uint64_t *out_begin, uint64_t *out_end)
{
    const fby__loader_source *in = ((const measuring *)user)->in;
    const fby__block *b = fby__dataset_block(in->ds, block);
    const uint64_t n = fby__samples_of_block(in->samples, block);
    if (n == 0)
        return false;
    fby__samples_range(in->samples, block, 0, n, out_begin, out_end);
    *out_end = fby__min_u64(*out_end, b->row_end - b->row_begin); /* what lies beyond is another block's */
    return true;
}

static fby_status measure_column(void *user, void *local, const fby__scan_rows *rows, uint32_t c, const fby__panel *panel,
                                 const char *constant, fby_error *err)
{
    const measuring *m = user;
    measured *at = &m->found[(size_t)rows->block_number * m->in->n_variable + m->number[c]]; /* one thread has all of a block */
    const uint64_t same = constant ? strlen(constant) : 0;
    (void)local;
    (void)err; /* nothing fails */
    for (uint64_t i = 0; i < rows->n; i++) {
        const uint64_t n = !panel ? same : panel->views ? panel->views[i].n : panel->offsets[i + 1] - panel->offsets[i];
        at->sum += n;
        at->longest = fby__max_u64(at->longest, n);
    }
    at->rows += rows->n;
    at->used += panel ? panel->used : same;
    return FBY_OK;
}

static void learn(fby__loader_source *in, const measured *found)
{
    const uint32_t n = in->n_variable;
    for (size_t i = 0; i < (size_t)in->n_blocks * n; i++) {
        fby__lengths *lengths = &in->lengths[i % n];
        in->capacity[i] = fby__max_u64(in->capacity[i], found[i].used);
        lengths->sum += found[i].sum;
        lengths->longest = fby__max_u64(lengths->longest, found[i].longest);
        if (found[i].rows && (double)found[i].sum / (double)found[i].rows > lengths->densest)
            lengths->densest = (double)found[i].sum / (double)found[i].rows;
    }
}

static fby_status read_columns(fby__loader_source *in, measuring *m, fby_error *err)
{
    uint32_t n = 0;
    fby__read_column *columns = fby__calloc(in->n_variable, sizeof *columns);
    m->found = fby__calloc((size_t)in->n_blocks * in->n_variable, sizeof *m->found);
    m->number = fby__calloc(in->n_variable, sizeof *m->number);
    fby_status status = columns && m->found && m->number ? FBY_OK : fby__fail_nomem(err, "the sizes of lists and strings");
    for (uint32_t i = 0; status == FBY_OK && i < in->n_panels; i++) {
        const fby__read_panel *p = &in->panels[i];
        if (p->variable == UINT32_MAX)
            continue;
        columns[n] = (fby__read_column){.in = in->columns[p->column[0]], .panel_column = p->layout.columns[0], .layout = p->layout};
        columns[n].panel_column.missing = FBY__MISSING_FILL;
        columns[n].layout.columns = &columns[n].panel_column;
        m->number[n++] = p->variable;
    }
    if (status == FBY_OK)
        status = fby__read_columns(&(fby__column_reader){.ds = in->ds,
                                                         .columns = columns,
                                                         .n_columns = n,
                                                         .n_threads = in->loader->config.n_threads,
                                                         .user = m,
                                                         .wanted = wanted,
                                                         .column = measure_column},
                                   err);
    fby__free(columns);
    return status;
}

fby_status fby__loader_read_lengths(fby__loader_source *in, fby_error *err)
{
    measuring m = {.in = in};
    if (!in->loader->config.asked.memory_all || in->n_variable == 0)
        return FBY_OK;
    in->lengths = fby__calloc(in->n_variable, sizeof *in->lengths);
    fby_status status = in->lengths ? read_columns(in, &m, err) : fby__fail_nomem(err, "the sizes of lists and strings");
    if (status == FBY_OK)
        learn(in, m.found);
    fby__free(m.found);
    fby__free(m.number);
    return status;
}
