/*
 * N-grams: of every row the columns' text, joined, and a 1 for each entry of the vocabulary that occurs in it.
 *
 *   string   ──────────────────────────┐
 *   number   ──► text (value_text.h) ──┼──► classes of characters, of all columns and the separators ──► strip ──► columns (gram_table.h)
 *   missing  ──► its text ─────────────┘
 *
 * Characters are lowered and left out on their way to a class, so the text itself is never written down.
 */
#include "transform/maker_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "block/panel.h"
#include "transform/gram_table.h"
#include "transform/make_values.h"
#include "transform/value_text.h"

#include <string.h>

#define MAX_TEXT_BYTES ((uint64_t)1 << 31) /* of one row */
enum { MAX_COLUMNS = 1024 };

typedef struct ngram_column {
    bool is_text, want_valid;
    fby_field field; /* what matters of it is plain */
    fby_dtype dtype;
    const char *missing; /* static, or the maker's */
    size_t missing_bytes;
} ngram_column;

typedef struct ngrams {
    fby__gram_table *table;    /* owned */
    char *separator, *missing; /* owned; missing may be NULL */
    size_t separator_bytes;
    size_t result_bytes, element_bytes;
    uint64_t one;
    uint32_t n_columns;
    ngram_column columns[];
} ngrams;

static void destroy_ngrams(void *state)
{
    ngrams *g = state;
    if (!g)
        return;
    fby__gram_table_destroy(g->table);
    fby__free(g->separator);
    fby__free(g->missing);
    fby__free(g);
}

static fby_status use_column(fby__make_spec *spec, uint32_t i, ngrams *g, fby_error *err)
{
    fby__make_column *c = &spec->columns[i];
    ngram_column *out = &g->columns[i];
    out->is_text = c->kind == FBY__PANEL_BYTES;
    if (c->kind == FBY__PANEL_RAGGED || c->width != 1 || c->n_axes != 0)
        return fby__make_refuse_column(spec, i, "has several values a row, which are no text", err);
    if (!out->is_text && !(c->computed || fby__value_has_text(c->field)))
        return fby__make_refuse_column(spec, i, "cannot be made text: strings, bools, numbers, dates and timestamps can", err);
    if (out->is_text && spec->max_rows > 1)
        return fby__make_refuse_column(spec, i,
                                       "varies in length from row to row, and a sample has several rows: take those of its first row", err);
    out->want_valid = c->want_valid = c->nullable;
    out->field = *c->field;
    out->dtype = c->dtype;
    out->missing = g->missing ? g->missing : fby__value_missing_text(c->field, c->computed);
    out->missing_bytes = strlen(out->missing);
    return FBY_OK;
}

static fby_status create_ngrams(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    const fby_make_ngrams *asked = &spec->make->ngrams;
    FBY__TRY(fby__make_expect_columns(spec, "an output of n-grams", 1, MAX_COLUMNS, err));
    const size_t bytes = sizeof(ngrams) + spec->n_columns * sizeof(ngram_column);
    ngrams *g = fby__calloc(1, bytes);
    if (!g)
        return fby__fail_nomem(err, "an output of n-grams");
    *out_state = g;
    g->n_columns = spec->n_columns;
    g->separator = fby__strdup(asked->separator ? asked->separator : "");
    if (!g->separator || (asked->missing && !(g->missing = fby__strdup(asked->missing))))
        return fby__fail_nomem(err, "an output of n-grams");
    g->separator_bytes = strlen(g->separator);
    for (uint32_t i = 0; i < spec->n_columns; i++)
        FBY__TRY(use_column(spec, i, g, err));
    FBY__TRY(fby__gram_table_create(asked, spec->output, &g->table, err));
    const fby_dtype dtype = fby__make_dtype(spec, FBY_FLOAT32);
    g->element_bytes = fby_dtype_bytes(dtype);
    g->result_bytes = asked->n_vocabulary * g->element_bytes;
    g->one = fby__make_one(dtype);
    *made = (fby__made){.dtype = dtype,
                        .ndim = 1,
                        .shape = {(int64_t)asked->n_vocabulary},
                        .memory_bytes = bytes + fby__gram_table_bytes(g->table),
                        .scratch_bytes = 4096};
    return FBY_OK;
}

/* The most bytes that the text of a sample's row can have. */
static uint64_t text_room(const ngrams *g, const fby__make_job *job, uint64_t s)
{
    uint64_t room = (uint64_t)g->separator_bytes * g->n_columns;
    for (uint32_t c = 0; c < g->n_columns; c++) {
        const ngram_column *column = &g->columns[c];
        const uint64_t own = column->is_text ? job->views[c].count[s] : FBY__VALUE_TEXT_BYTES;
        if (!fby__add_u64_checked(room, own + column->missing_bytes, &room) || room > MAX_TEXT_BYTES)
            return MAX_TEXT_BYTES + 1;
    }
    return room;
}

static size_t classes_of_row(const ngrams *g, const fby__make_job *job, uint64_t s, uint64_t r, uint16_t *classes)
{
    size_t n = 0;
    for (uint32_t c = 0; c < g->n_columns; c++) {
        const ngram_column *column = &g->columns[c];
        const fby__make_view *v = &job->views[c];
        if (c && g->separator_bytes)
            n += fby__gram_classes(g->table, (const uint8_t *)g->separator, g->separator_bytes, classes + n);
        if (column->want_valid && !v->valid[s][r * v->valid_bytes]) {
            n += fby__gram_classes(g->table, (const uint8_t *)column->missing, column->missing_bytes, classes + n);
        } else if (column->is_text) {
            n += fby__gram_classes(g->table, v->data[s], (size_t)v->count[s], classes + n);
        } else {
            uint8_t text[FBY__VALUE_TEXT_BYTES];
            const size_t bytes = fby__value_write(&column->field, column->dtype, v->data[s] + r * v->row_bytes, text);
            n += fby__gram_classes(g->table, text, bytes, classes + n);
        }
    }
    return n;
}

static fby_status run_ngrams(const void *state, fby__make_job *job, fby_error *err)
{
    const ngrams *g = state;
    for (uint64_t s = 0; s < job->n; s++) {
        const uint64_t room = text_room(g, job, s);
        uint16_t *classes = room > MAX_TEXT_BYTES ? NULL : fby__make_scratch_get(job->scratch, (size_t)(room + 1) * sizeof *classes);
        if (!classes) {
            job->bad = s;
            return room > MAX_TEXT_BYTES ? fby__fail(err, FBY_E_DATA, "a row's text is longer than 2 GiB")
                                         : fby__fail_nomem(err, "a row's text");
        }
        for (uint64_t r = 0; r < job->n_rows[s]; r++) {
            const uint16_t *kept = classes;
            const size_t n = fby__gram_strip(g->table, &kept, classes_of_row(g, job, s, r, classes));
            uint8_t *dst = job->dst[s] + r * g->result_bytes;
            memset(dst, 0, g->result_bytes);
            fby__gram_mark(g->table, kept, n, dst, g->element_bytes, g->one);
        }
    }
    return FBY_OK;
}

const fby__maker_ops fby__maker_ngrams = {create_ngrams, destroy_ngrams, run_ngrams};
