/*
 * Outputs whose samples differ in length: the rows of groups, the elements of lists, the bytes of strings; packed or padded.
 *
 * Lengths come first, of all outputs and slots; then all memory for the values is reserved at once, or none, so that a batch holds none while it
 * waits for more. Samples that are longer than the output wants give a random subset of their rows, in order.
 */
#include "loader/assemble_internal.h"

#include "base/cancel.h"
#include "base/checked.h"
#include "base/random.h"
#include "block/convert.h"
#include "block/prefetch.h"

#include <string.h>

#define PURPOSE_ROWS 0x524f5753u /* "ROWS": with max_rows, what draws of rows are keyed by */

/* First number and number of elements of a row's list (RAGGED), whose elements have `item` numbers each; or of its bytes (BYTES). */
static inline void extent(const fby__panel *p, uint64_t row, size_t item, uint64_t *first, uint64_t *n)
{
    if (p->offsets) {
        *first = p->offsets[row];
        *n = (p->offsets[row + 1] - *first) / item;
    } else {
        *first = p->views[row].offset;
        *n = p->views[row].n;
    }
}

/* The length of a sample before a subset of it is drawn. */
static uint64_t length_of(const fby__fill *f, uint64_t slot)
{
    uint64_t first, n;
    if (f->s->rows == FBY__ROWS_ALL)
        return f->w->n_rows[slot];
    extent(&f->w->entry[slot]->data.panels[f->s->panel], fby__fill_row(f, slot, f->s->panel), f->s->item_elements, &first, &n);
    return n;
}

static inline uint64_t kept(const fby__fill *f, uint64_t n) { return n < f->s->max_rows ? n : f->s->max_rows; }

/*
 * k of n without repeats, each subset as likely as any other (Floyd; Bentley and Floyd, CACM 30(9), 1987): as bits, read out in order.
 * The draw depends on seed, epoch, sample and k, so that outputs with one max_rows take the same rows.
 */
fby_status fby__pick_rows(const fby__fill *f, uint64_t slot, uint64_t n, fby__picked *out, fby_error *err)
{
    uint64_t k = f->s->max_rows;
    *out = (fby__picked){.n = n};
    if (n <= k || f->s->keep == FBY_KEEP_FIRST) {
        out->n = n < k ? n : k;
        return FBY_OK;
    }
    size_t words = (size_t)(n / 64 + 1);
    uint64_t *bits = fby__make_scratch_get(&f->w->scratch_picked, words * sizeof *bits + (size_t)k * sizeof(uint32_t));
    if (!bits || n > UINT32_MAX)
        return fby__fail_nomem(err, "the rows of a sample");
    uint32_t *index = (uint32_t *)(void *)(bits + words);
    memset(bits, 0, words * sizeof *bits);
    fby__random random = fby__make_random(fby__source_seed(f->in), f->b->epoch, fby__fill_sample(f, slot), PURPOSE_ROWS + (k << 32));
    for (uint64_t j = n - k; j < n; j++) {
        uint64_t t = fby__random_below(&random, j + 1);
        if (bits[t / 64] >> (t % 64) & 1)
            t = j;
        bits[t / 64] |= (uint64_t)1 << (t % 64);
    }
    uint32_t at = 0;
    for (size_t i = 0; i < words; i++)
        for (uint64_t left = bits[i]; left; left &= left - 1)
            index[at++] = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(left);
    *out = (fby__picked){.index = index, .n = k};
    return FBY_OK;
}

/* ---- values of one sample ---- */

static void slots_of(uint64_t slot, uint64_t n, uint8_t *dst)
{
    for (uint64_t k = 0; k < n; k++) {
        int64_t value = (int64_t)slot;
        memcpy(dst + k * sizeof value, &value, sizeof value);
    }
}

static void mask_of(const fby__fill *f, uint64_t slot, const fby__picked *rows, uint8_t *dst)
{
    const fby__output_source *s = f->s;
    uint32_t columns = f->in->panels[s->panel].layout.n_columns;
    const uint8_t *valid = f->w->entry[slot]->data.panels[s->panel].valid + fby__fill_row(f, slot, f->s->panel) * columns + s->first_column;
    for (uint64_t k = 0; k < rows->n; k++) {
        const uint8_t *row = valid + (rows->index ? rows->index[k] : k) * columns;
        for (uint32_t c = 0; c < s->n_columns; c++)
            *dst++ = fby__mask_of(s->from, row[c]);
    }
}

/* Items of item_bytes, stride_bytes apart: as they are, or those that were drawn. */
static fby_status items_of(const fby__fill *f, const uint8_t *src, size_t item_bytes, size_t stride_bytes, const fby__picked *rows,
                           uint8_t *dst, fby_error *err)
{
    bool converts = f->s->panel_dtype != f->o->dtype;
    size_t elements = item_bytes / fby_dtype_bytes(f->s->panel_dtype), bad;
    uint8_t *to = dst;
    if (converts && (rows->index || item_bytes != stride_bytes)) { /* gathered, then converted */
        to = fby__make_scratch_get(&f->w->scratch_rows, rows->n * item_bytes + 1);
        if (!to)
            return fby__fail_nomem(err, "the rows of a sample");
    }
    if (rows->index)
        for (uint64_t k = 0; k < rows->n; k++)
            memcpy(to + k * item_bytes, src + rows->index[k] * stride_bytes, item_bytes);
    else if (item_bytes != stride_bytes)
        fby__gather_steps(to, &src, &(fby__steps){.step_bytes = item_bytes, .row_bytes = stride_bytes, .n_steps = rows->n}, 1);
    else if (!converts)
        memcpy(to, src, rows->n * item_bytes);
    if (!converts)
        return FBY_OK;
    if (fby__convert(f->o->dtype, dst, f->s->panel_dtype, to == dst ? src : to, rows->n * elements, FBY__SCALE_NONE, &bad) != FBY_OK)
        return fby__fail(err, FBY_E_DATA, "a value does not fit %s", fby_dtype_name(f->o->dtype));
    return FBY_OK;
}

/* The elements of several lists side by side: element k of list c goes to dst (k, c). */
static fby_status lists_of(const fby__fill *f, uint64_t slot, const fby__picked *rows, uint64_t length, uint8_t *dst, fby_error *err)
{
    const fby__output_source *s = f->s;
    const size_t bytes = fby_dtype_bytes(s->panel_dtype), n = s->n_inputs, values = (size_t)rows->n * n;
    const bool converts = s->panel_dtype != f->o->dtype;
    uint8_t *to = converts ? fby__make_scratch_get(&f->w->scratch_rows, values * bytes + 1) : dst;
    size_t bad;
    if (!to)
        return fby__fail_nomem(err, "the rows of a sample");
    for (size_t c = 0; c < n; c++) {
        const fby__panel *p = &f->w->entry[slot]->data.panels[s->inputs[c].panel];
        uint64_t first, here;
        extent(p, fby__fill_row(f, slot, s->inputs[c].panel), 1, &first, &here);
        if (here != length)
            return fby__fail(err, FBY_E_DATA, "lists that are stacked have one length: column '%s' has %llu elements, and '%s' %llu",
                             p->layout->columns[0].path, (unsigned long long)here, f->in->panels[s->panel].layout.columns[0].path,
                             (unsigned long long)length);
        for (uint64_t k = 0; k < rows->n; k++)
            memcpy(to + (k * n + c) * bytes, p->data + (first + (rows->index ? rows->index[k] : k)) * bytes, bytes);
    }
    if (converts && fby__convert(f->o->dtype, dst, s->panel_dtype, to, values, FBY__SCALE_NONE, &bad) != FBY_OK)
        return fby__fail(err, FBY_E_DATA, "a value does not fit %s", fby_dtype_name(f->o->dtype));
    return FBY_OK;
}

/* Where the values of a sample lie in its panel, before some are drawn: n items of item_bytes, stride_bytes apart. */
typedef struct stored_values {
    const uint8_t *at;
    size_t item_bytes, stride_bytes;
    uint64_t n;
} stored_values;

static inline stored_values stored_of(const fby__fill *f, uint64_t slot)
{
    const fby__output_source *s = f->s;
    const fby__panel *p = &f->w->entry[slot]->data.panels[s->panel];
    const uint64_t row = fby__fill_row(f, slot, s->panel);
    const size_t element = fby_dtype_bytes(s->panel_dtype), item = s->item_elements * element;
    if (s->rows == FBY__ROWS_ALL)
        return (stored_values){p->data + row * p->row_bytes + s->offset, s->row_elements * element, p->row_bytes, f->w->n_rows[slot]};
    uint64_t first, n;
    extent(p, row, s->item_elements, &first, &n);
    return (stored_values){p->data + first * element, item, item, n};
}

static fby_status sample_of(const fby__fill *f, uint64_t slot, uint8_t *dst, fby_error *err)
{
    const fby__output_source *s = f->s;
    fby__picked rows;
    const uint64_t length = length_of(f, slot);
    FBY__TRY(fby__pick_rows(f, slot, length, &rows, err));
    if (s->n_inputs)
        return lists_of(f, slot, &rows, length, dst, err);
    if (s->from == FBY_FROM_SEGMENT_IDS) {
        slots_of(slot, rows.n, dst);
        return FBY_OK;
    }
    if (fby_source_is_mask(s->from)) {
        mask_of(f, slot, &rows, dst);
        return FBY_OK;
    }
    const stored_values v = stored_of(f, slot);
    return items_of(f, v.at, v.item_bytes, v.stride_bytes, &rows, dst, err);
}

/*
 * In a shuffled epoch the values of the next sample can lie anywhere in memory. Long rows with few values of the output are not
 * fetched: most of each would not be read.
 */
static void fetch_ahead(const fby__fill *f, uint64_t slot)
{
    if (f->s->n_inputs || f->s->from != FBY_FROM_COLUMNS)
        return;
    const stored_values v = stored_of(f, slot);
    if (v.stride_bytes <= FBY__LINE_BYTES || 2 * v.item_bytes >= v.stride_bytes)
        fby__prefetch_values(v.at, v.n * v.stride_bytes);
}

/* Values of the run's samples from dst on: packed, or stride_bytes apart. */
static fby_status values_of(const fby__fill *f, const fby__slots *slots, size_t stride_bytes, uint8_t *dst, fby_error *err)
{
    if (f->s->maker)
        return fby__fill_made(f, slots->slot, slots->n, stride_bytes, dst, err);
    const uint8_t *heard = dst;
    for (uint64_t i = slots->slot; i < slots->slot + slots->n; i++) {
        if (dst - heard >= (ptrdiff_t)FBY__SLICE_BYTES) {
            FBY__TRY(fby__cancel_check(err));
            heard = dst;
        }
        FBY__TRY(fby__cancel_check_at(i - slots->slot, err));
        if (i + 1 < slots->slot + slots->n)
            fetch_ahead(f, i + 1);
        const fby_status status = sample_of(f, i, dst, err);
        if (status != FBY_OK)
            return fby__fill_row_error(f, i, status, err);
        dst += stride_bytes ? stride_bytes : kept(f, length_of(f, i)) * f->o->row_bytes;
    }
    return FBY_OK;
}

fby_status fby__fill_varying(const fby__fill *f, uint32_t ragged, const fby__slots *slots, fby_error *err)
{
    const bool padded = f->o->layout == FBY_LAYOUT_PADDED;
    const int64_t *lengths = fby__batch_lengths(f->b, f->output); /* before the mask of a padded one comes in their place */
    if (slots->staged)
        return values_of(f, slots, 0, (uint8_t *)(uintptr_t)slots->staged[ragged].data, err);
    fby__batch_place(f->b, f->output);
    FBY__TRY(values_of(f, slots, padded ? fby__batch_slot_bytes(f->b, f->output) : 0, f->b->tensors[f->o->tensor].data, err));
    if (padded)
        fby__batch_pad(f->b, f->output, lengths);
    return FBY_OK;
}

/* ---- memory for values ---- */

/* The lengths of some samples; returns their sum. */
static uint64_t measure(const fby__fill *f, uint64_t slot, uint64_t n)
{
    int64_t *lengths = fby__batch_lengths(f->b, f->output);
    uint64_t total = 0;
    for (uint64_t i = slot; i < slot + n; i++) {
        const uint64_t rows = kept(f, length_of(f, i));
        lengths[i + 1] = (int64_t)rows;
        total += rows;
    }
    return total;
}

typedef struct values_round {
    fby_loader *l;
    fby__worker *w;
    fby__flight *f;
    uint32_t n_gathering;
    bool stages, places; /* values wait for other pieces; all lengths are known */
} values_round;

static fby__staged *staged_of(const values_round *r, uint32_t k, uint32_t ragged)
{
    return &r->f->staged[(size_t)r->w->gathering[k] * r->l->outputs.shape->n_ragged + ragged];
}

/* How much memory an output's values take in this round. */
static fby_status count_output(const values_round *r, uint32_t output, uint32_t ragged, uint64_t *out, uint64_t *out_placed, fby_error *err)
{
    fby__fill fill = {.w = r->w, .b = r->f->batch, .output = output, .o = &r->l->outputs.shape->outputs[output]};
    size_t bytes = 0;
    uint64_t total = 0;
    *out = 0;
    for (uint32_t k = 0; k < r->n_gathering; k++) {
        const fby__plan_piece *piece = &r->f->pieces[r->w->gathering[k]];
        fill.in = fby__source_of_piece(r->l, piece);
        fill.s = &fill.in->outputs[output];
        const uint64_t n = measure(&fill, piece->slot, piece->n);
        total += n;
        if (r->stages)
            staged_of(r, k, ragged)->n_values = n;
    }
    if (!fby__mul_checked(total, fill.o->row_bytes, &bytes) || bytes > SIZE_MAX / 4)
        return fby__fail(err, FBY_E_DATA, "output '%s': %llu values do not fit in memory", fill.o->name, (unsigned long long)total);
    if (r->stages)
        *out += fby__slab_class_bytes(bytes);
    if (r->places) {
        FBY__TRY(fby__batch_values_bytes(r->f->batch, output, &bytes, err));
        *out += fby__slab_class_bytes(bytes);
        *out_placed += fby__slab_class_bytes(bytes);
    }
    return FBY_OK;
}

static fby__grant stage_output(const values_round *r, uint32_t output, uint32_t ragged, bool exact, fby_error *err)
{
    const size_t row_bytes = r->l->outputs.shape->outputs[output].row_bytes;
    fby__slab *memory = &staged_of(r, 0, ragged)->memory;
    size_t bytes = 0;
    for (uint32_t k = 0; k < r->n_gathering; k++)
        bytes += staged_of(r, k, ragged)->n_values * row_bytes;
    const fby__grant grant = fby__values_slab_get(r->l->engine.account, bytes, exact, memory, err);
    const uint8_t *at = memory->data;
    for (uint32_t k = 0; k < r->n_gathering && grant == FBY__GRANTED; k++) {
        staged_of(r, k, ragged)->data = at;
        at += staged_of(r, k, ragged)->n_values * row_bytes;
    }
    return grant;
}

static fby__grant reserve_output(const values_round *r, uint32_t output, uint32_t ragged, bool exact, fby_error *err)
{
    const fby__grant grant = r->stages ? stage_output(r, output, ragged, exact, err) : FBY__GRANTED;
    return r->places && grant == FBY__GRANTED ? fby__batch_reserve(r->f->batch, output, exact, err) : grant;
}

static void give_back(const values_round *r)
{
    for (uint32_t g = 0; r->stages && g < r->l->outputs.shape->n_ragged; g++)
        fby__values_slab_drop(r->l->engine.account, &staged_of(r, 0, g)->memory);
    fby__batch_give_back(r->f->batch);
}

/* All of them or none. */
static fby__grant reserve_all(const values_round *r, bool exact, fby_error *err)
{
    fby__grant grant = FBY__GRANTED;
    uint32_t ragged = 0;
    for (uint32_t i = 0; i < r->l->outputs.shape->n_outputs && grant == FBY__GRANTED; i++)
        if (fby__batch_output_varies(&r->l->outputs.shape->outputs[i]))
            grant = reserve_output(r, i, ragged++, exact, err);
    if (grant != FBY__GRANTED)
        give_back(r);
    return grant;
}

fby__grant fby__reserve_values(fby_loader *l, fby__worker *w, fby__flight *f, uint32_t n_gathering, bool last, fby__lack *out,
                               fby_error *err)
{
    const bool stages = fby__comes_in_pieces(&l->sources, f, n_gathering);
    const values_round r = {.l = l, .w = w, .f = f, .n_gathering = n_gathering, .stages = stages, .places = !stages || last};
    uint32_t ragged = 0;
    uint64_t most = 0, bytes;
    *out = (fby__lack){0};
    for (uint32_t k = 0; k < n_gathering; k++)
        out->samples += f->pieces[w->gathering[k]].n;
    for (uint32_t i = 0; i < l->outputs.shape->n_outputs; i++) {
        if (!fby__batch_output_varies(&l->outputs.shape->outputs[i]))
            continue;
        if (count_output(&r, i, ragged++, &bytes, &out->placed, err) != FBY_OK)
            return FBY__GRANT_FAILED;
        out->output = bytes > most ? i : out->output;
        most = fby__max_u64(most, bytes);
        out->bytes += bytes;
    }
    const fby__grant grant = reserve_all(&r, false, err);
    return grant == FBY__NO_ROOM ? reserve_all(&r, true, err) : grant;
}

/* ---- staged values ---- */

static uint8_t *join_piece(const fby__staged *staged, const fby__plan_piece *piece, const int64_t *lengths, size_t row_bytes,
                           size_t slot_bytes, uint8_t *dst)
{
    if (!slot_bytes) {
        memcpy(dst, staged->data, staged->n_values * row_bytes);
        return dst + staged->n_values * row_bytes;
    }
    const uint8_t *src = staged->data;
    for (uint64_t i = piece->slot; i < piece->slot + piece->n; i++, dst += slot_bytes) {
        memcpy(dst, src, (size_t)lengths[i] * row_bytes);
        src += (size_t)lengths[i] * row_bytes;
    }
    return dst;
}

void fby__join_staged(fby_loader *l, fby__flight *f)
{
    uint32_t ragged = 0;
    for (uint32_t i = 0; i < l->outputs.shape->n_outputs; i++) {
        const fby__batch_output *o = &l->outputs.shape->outputs[i];
        if (!fby__batch_output_varies(o))
            continue;
        bool padded = o->layout == FBY_LAYOUT_PADDED;
        int64_t *lengths = fby__batch_lengths(f->batch, i);
        fby__batch_place(f->batch, i);
        size_t slot_bytes = padded ? fby__batch_slot_bytes(f->batch, i) : 0;
        uint8_t *dst = f->batch->tensors[o->tensor].data;
        for (uint32_t p = 0; p < f->n_pieces; p++) {
            const fby__staged *staged = &f->staged[p * l->outputs.shape->n_ragged + ragged];
            dst = join_piece(staged, &f->pieces[p], lengths, o->row_bytes, slot_bytes, dst);
        }
        for (uint32_t p = 0; p < f->n_pieces; p++)
            fby__values_slab_drop(l->engine.account, &f->staged[p * l->outputs.shape->n_ragged + ragged].memory);
        if (padded)
            fby__batch_pad(f->batch, i, lengths);
        ragged++;
    }
}
