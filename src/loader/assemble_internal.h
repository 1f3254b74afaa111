/* Assembling a batch: what its files share. */
#ifndef FBY_LOADER_ASSEMBLE_INTERNAL_H
#define FBY_LOADER_ASSEMBLE_INTERNAL_H

#include "loader/internal.h"

#define FBY__SLICE_BYTES (4u << 20) /* a millisecond or a few, after which a loader that is closed or cancelled is heard */

/** Slots [slot, slot + n) of a batch, all of them resolved in the worker's arrays. */
typedef struct fby__slots {
    uint64_t slot;
    uint32_t n;
    const fby__loader_source *in; /* that their samples are of */
    fby__staged *staged;          /* NULL: values that vary go straight to where they belong */
} fby__slots;

/** What a function that fills an output needs. */
typedef struct fby__fill {
    fby__worker *w;
    fby_batch *b;
    const fby__loader_source *in; /* that the samples are of */
    uint32_t output;
    const fby__batch_output *o;
    const fby__output_source *s;
    uint64_t pointed_begin, pointed_end; /* slots around these whose rows of this output are known: worker.row */
} fby__fill;

/** Rows that are taken of a sample: `index` of them; NULL = n from the first on. */
typedef struct fby__picked {
    const uint32_t *index;
    uint64_t n;
} fby__picked;

/** The source that a piece's samples are of. */
static inline const fby__loader_source *fby__source_of_piece(const fby_loader *l, const fby__plan_piece *piece)
{
    return &l->sources.at[fby__epoch_source(l->schedule.epoch, piece->phase)];
}

/** Are values that vary staged piece by piece? Where some pieces are missing; and of a mixture, whose pieces are of several sources. */
static inline bool fby__comes_in_pieces(const fby__loader_sources *sources, const fby__flight *f, uint32_t n_gathering)
{
    return n_gathering < f->n_pieces || sources->n > 1;
}

/** Where the first row of a slot's sample lies in a panel of its block. */
static inline uint64_t fby__fill_row(const fby__fill *f, uint64_t slot, uint32_t panel)
{
    const fby__cache_entry *e = f->w->entry[slot];
    return e->data.n_firsts && f->in->panels[panel].first_only ? f->w->sample[slot] - e->data.first_sample : f->w->first_row[slot];
}

/* ---- assemble.c ---- */

/** Context for an error at a row: output, and which row. Returns the code. */
fby_status fby__fill_row_error(const fby__fill *f, uint64_t slot, fby_status status, fby_error *err);
/** The number of a slot's sample in the dataset. */
uint64_t fby__fill_sample(const fby__fill *f, uint64_t slot);

/* ---- assemble_rows.c ---- */

/** An output whose samples differ in length: packed or padded, or staged. `ragged`: its number among those. */
fby_status fby__fill_varying(const fby__fill *f, uint32_t ragged, const fby__slots *slots, fby_error *err);
/**
 * Memory for what the pieces that a worker gathers have of values that vary, all outputs together: granted in full, or none of it is. last: no other
 * pieces are missing. *out: how much it is.
 */
fby__grant fby__reserve_values(fby_loader *l, fby__worker *w, fby__flight *f, uint32_t n_gathering, bool last, fby__lack *out,
                               fby_error *err);
/** All pieces are staged: put their values together in slot order. */
void fby__join_staged(fby_loader *l, fby__flight *f);
/** The rows of slot i, of n, that an output takes. NULL in out->index where there are no more than max_rows. */
fby_status fby__pick_rows(const fby__fill *f, uint64_t slot, uint64_t n, fby__picked *out, fby_error *err);

/* ---- assemble_made.c ---- */

/** A made output of slots [slot, slot + n): results one behind the other (stride_bytes 0) or that far apart, from dst on. */
fby_status fby__fill_made(const fby__fill *f, uint64_t slot, uint64_t n, size_t stride_bytes, uint8_t *dst, fby_error *err);

#endif
