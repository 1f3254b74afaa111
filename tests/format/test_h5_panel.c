/*
 * HDF5 → panels: tables made by hand (h5_model.h) against their naive twin, in every combination that a random walk meets; then
 * chunks shared by blocks, damaged chunks, every allocation failing in turn, and the helper program's values beside ours.
 */
#include "format/h5_random_table.h"

#include "format/hdf5/client/helper.h"
#include "format/hdf5/client/helper_internal.h"

#include <math.h>
#include <pthread.h>

/* ---- dense panels and the twin ---- */

typedef struct dense {
    fby__panel_layout layout;
    fby__panel_column columns[MAX_SETS * MAX_MEMBERS];
    fby__decode_column asked[MAX_SETS * MAX_MEMBERS];
    uint32_t leaves[MAX_SETS * MAX_MEMBERS];
    fby__panel panel;
    void *memory;
    uint64_t first_row;
} dense;

static uint64_t width_of(const model *m, uint32_t leaf)
{
    return m->table.sets[m->leaves[leaf].set].row_elements * m->leaves[leaf].elements;
}

/* Columns for the leaves, in order; sometimes with room between that nobody decodes into. */
static void dense_layout(const model *m, dense *d, fby_dtype dtype, bool want_valid, fby__random *rng)
{
    uint32_t width = 0;
    d->layout = (fby__panel_layout){.kind = FBY__PANEL_DENSE, .dtype = dtype, .want_valid = want_valid, .columns = d->columns};
    for (uint32_t leaf = 0; leaf < m->n_leaves; leaf++) {
        if (rng && m->n_leaves > 1 && leaf > 0 && pick(rng, 6) == 0)
            continue; /* not asked for */
        if (rng && pick(rng, 6) == 0)
            width += pick(rng, 3);
        const uint32_t c = d->layout.n_columns++;
        d->columns[c] =
            (fby__panel_column){.path = "x", .offset = width, .width = (uint32_t)width_of(m, leaf), .missing = FBY__MISSING_FILL};
        assert_true(fby__scalar_set(dtype, 55, &d->columns[c].fill));
        d->leaves[c] = leaf;
        width += d->columns[c].width;
    }
    d->layout.width = width ? width : 1;
}

static void dense_place(dense *d, uint64_t begin, uint64_t end)
{
    size_t bytes;
    assert_int_equal(fby__panel_bytes(&d->layout, end - begin, 0, &bytes, NULL), FBY_OK);
    d->memory = aligned_alloc(64, bytes ? bytes : 64);
    assert_non_null(d->memory);
    memset(d->memory, 0x5A, bytes ? bytes : 64);
    fby__panel_place(&d->layout, end - begin, 0, d->memory, &d->panel);
    d->first_row = begin;
}

/* Columns [c0, c1) of rows [begin, end): one call. */
static fby_status dense_decode(model *m, dense *d, fby__scratch *scratch, uint64_t begin, uint64_t end, uint32_t c0, uint32_t c1,
                               fby_error *err)
{
    for (uint32_t c = c0; c < c1; c++)
        d->asked[c] = (fby__decode_column){.source = &m->sources[c], .column = c, .unit_mul = 1, .unit_div = 1};
    fby__decode q = {.table = &m->table.base,
                     .file_name = "x.h5",
                     .row_begin = begin,
                     .row_end = end,
                     .panel_row = d->first_row,
                     .panel = &d->panel,
                     .columns = d->asked + c0,
                     .n_columns = c1 - c0,
                     .verify_crc = true};
    return fby__h5_decode_panel(&q, scratch, err);
}

static bool same_element(const dense *d, uint64_t row, uint64_t element, double want)
{
    const size_t bytes = fby_dtype_bytes(d->layout.dtype);
    uint8_t value[8];
    size_t bad;
    if (fby__convert(d->layout.dtype, value, FBY_FLOAT64, &want, 1, FBY__SCALE_NONE, &bad) != FBY_OK)
        return false;
    return memcmp(d->panel.data + (row - d->first_row) * d->panel.row_bytes + element * bytes, value, bytes) == 0;
}

static void check_dense(const model *m, const dense *d, uint64_t begin, uint64_t end, uint64_t seed)
{
    for (uint32_t c = 0; c < d->layout.n_columns; c++) {
        const fby__h5_leaf *leaf = &m->leaves[d->leaves[c]];
        const model_set *s = &m->sets[leaf->set];
        for (uint64_t row = begin; row < end; row++) {
            bool all = true;
            for (uint64_t e = 0; e < d->columns[c].width; e++) {
                double want;
                const bool there = twin_value(s, m->leaf_member[d->leaves[c]], row, e, &want);
                all &= there;
                if (!same_element(d, row, d->columns[c].offset + e, there ? want : 55))
                    fail_msg("seed %llu: column %u (set %u), row %llu, element %llu is not %g", (unsigned long long)seed, c, leaf->set,
                             (unsigned long long)row, (unsigned long long)e, there ? want : 55);
            }
            if (d->panel.valid && d->panel.valid[(row - d->first_row) * d->layout.n_columns + c] != all)
                fail_msg("seed %llu: column %u, row %llu: validity is not %d", (unsigned long long)seed, c, (unsigned long long)row, all);
        }
    }
    for (uint64_t row = begin; row < end; row++) /* between the columns nothing is written */
        for (uint32_t e = 0, c = 0; e < d->layout.width; e++) {
            while (c < d->layout.n_columns && e >= d->columns[c].offset + d->columns[c].width)
                c++;
            const uint8_t *at = d->panel.data + (row - d->first_row) * d->panel.row_bytes + e * fby_dtype_bytes(d->layout.dtype);
            if ((c == d->layout.n_columns || e < d->columns[c].offset) && *at != 0x5A)
                fail_msg("seed %llu: row %llu, element %u is no column's and was written", (unsigned long long)seed,
                         (unsigned long long)row, e);
        }
}

static fby_dtype random_panel_dtype(const model *m, fby__random *rng)
{
    static const fby_dtype REAL[] = {FBY_FLOAT64, FBY_FLOAT32, FBY_FLOAT16};
    for (uint32_t i = 0; i < m->n_sets; i++)
        if (m->sets[i].scaled)
            return REAL[pick(rng, COUNT(REAL))];
    return pick(rng, 3) ? m->leaves[pick(rng, m->n_leaves)].stored == FBY_BOOL ? FBY_UINT8 : m->leaves[pick(rng, m->n_leaves)].stored
                        : EVERY_DTYPE[pick(rng, COUNT(EVERY_DTYPE))];
}

static void one_random_table(uint64_t seed)
{
    fby__random rng = {.key = seed};
    model m;
    const uint64_t rows = random_table(&m, &rng);
    fby__chunk_store *chunk_store = NULL;
    if (pick(&rng, 2))
        check_ok(fby__chunk_store_create(pick(&rng, 2) ? 1u << 20 : 2000, NULL, &chunk_store, &m.err), &m.err);
    dense d = {0};
    fby_dtype dtype = random_panel_dtype(&m, &rng);
    if (dtype == FBY_BOOL)
        dtype = FBY_UINT8;
    dense_layout(&m, &d, dtype, pick(&rng, 2), &rng);
    for (int turn = 0; turn < 3; turn++) { /* all rows, then some */
        const uint64_t begin = turn ? pick(&rng, (unsigned)rows) : 0, end = turn ? begin + pick(&rng, (unsigned)(rows - begin)) + 1 : rows;
        fby_status status = locate(&m, d.leaves, d.layout.n_columns, begin, end, chunk_store);
        if (status != FBY_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, m.err.message);
        dense_place(&d, begin, end);
        const uint64_t cut = begin + pick(&rng, (unsigned)(end - begin) + 1);
        const uint32_t at = pick(&rng, d.layout.n_columns + 1);
        const uint64_t parts[2][2] = {{begin, cut}, {cut, end}};
        for (int p = 0; p < 2; p++) { /* several calls share a panel, by rows and by columns */
            status = dense_decode(&m, &d, &m.scratch, parts[p][0], parts[p][1], 0, at, &m.err);
            if (status == FBY_OK)
                status = dense_decode(&m, &d, &m.scratch, parts[p][0], parts[p][1], at, d.layout.n_columns, &m.err);
            if (status != FBY_OK)
                fail_msg("seed %llu: %s", (unsigned long long)seed, m.err.message);
        }
        check_dense(&m, &d, begin, end, seed);
        free(d.memory);
    }
    model_fini(&m);
    fby__chunk_store_destroy(chunk_store);
}

static void random_tables_decode_to_what_the_naive_twin_says(void **state)
{
    (void)state;
    const char *given = getenv("FBY_TEST_SEED"), *many = getenv("FBY_TEST_ROUNDS");
    const uint64_t first = given ? strtoull(given, NULL, 10) : 1, rounds = given ? 1 : many ? strtoull(many, NULL, 10) : 300;
    for (uint64_t seed = first; seed < first + rounds; seed++)
        one_random_table(seed);
}

/* ---- chosen tables ---- */

static const uint32_t FOUR = 4;

/* A column of its own: n values in chunks (0: contiguous), shuffled and deflated. */
static void narrow_set(model *m, model_set *s, fby_dtype dtype, uint64_t rows, uint32_t chunk, fby__random *rng)
{
    *s = (model_set){.seed = (uint32_t)fby__random_next(rng)};
    s->set.rank = s->set.axes = 1;
    s->set.repeat = 1;
    s->set.dims[0] = rows;
    s->set.chunk[0] = chunk;
    s->set.layout = chunk ? FBY__H5_CHUNKED : FBY__H5_CONTIGUOUS;
    simple_member(s, dtype, false);
    s->shuffle_bytes = FOUR;
    s->filter[0] = (fby__filter){.id = FBY__FILTER_SHUFFLE, .n_values = 1, .values = &s->shuffle_bytes};
    s->filter[1] = (fby__filter){.id = FBY__FILTER_DEFLATE};
    s->set.n_filters = chunk ? 2 : 0;
    store(m, s, false, rng);
}

/* Rows × 3 × 4 numbers in chunks of `chunk` rows. */
static void cube_set(model *m, model_set *s, fby_dtype dtype, uint64_t rows, uint32_t chunk, fby__random *rng)
{
    *s = (model_set){.seed = (uint32_t)fby__random_next(rng)};
    s->set.rank = 3;
    s->set.axes = 1;
    s->set.repeat = 1;
    memcpy(s->set.dims, (uint64_t[3]){rows, 3, 4}, sizeof(uint64_t[3]));
    memcpy(s->set.chunk, (uint32_t[3]){chunk, 3, 4}, sizeof(uint32_t[3]));
    s->set.layout = FBY__H5_CHUNKED;
    simple_member(s, dtype, false);
    s->filter[0] = (fby__filter){.id = FBY__FILTER_DEFLATE};
    s->set.n_filters = 1;
    store(m, s, false, rng);
}

/* Bytes that filters give when each chunk is decoded once. */
static uint64_t filtered_bytes(const fby__h5_set *s)
{
    uint64_t n = 0, bytes = s->type->bytes;
    for (uint32_t a = 0; a < s->rank; a++)
        bytes *= s->chunk[a];
    for (uint64_t i = 0; i < s->n_chunks; i++)
        n += (s->chunks[i].mask & ((1u << s->n_filters) - 1)) != (1u << s->n_filters) - 1;
    return n * bytes;
}

static void columns_of_many_data_sets_are_read_side_by_side_and_each_chunk_once(void **state)
{
    (void)state;
    fby__random rng = {.key = 11};
    const uint64_t rows = 20000;
    static const uint32_t CHUNKS[] = {7000, 300, 0, 20000, 4096, 1, 777, 30000};
    model m = {.n_sets = COUNT(CHUNKS)};
    for (uint32_t i = 0; i < m.n_sets; i++)
        narrow_set(&m, &m.sets[i], i % 2 ? FBY_FLOAT32 : FBY_INT16, i == 5 ? rows : rows, CHUNKS[i] == 1 ? 50 : CHUNKS[i], &rng);
    finish_table(&m, rows, 0);
    dense d = {0};
    dense_layout(&m, &d, FBY_FLOAT32, true, NULL);
    check_ok(locate(&m, d.leaves, d.layout.n_columns, 0, rows, NULL), &m.err);
    dense_place(&d, 0, rows);
    check_ok(dense_decode(&m, &d, &m.scratch, 0, rows, 0, d.layout.n_columns, &m.err), &m.err);
    check_dense(&m, &d, 0, rows, 0);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m.n_sets; i++)
        bytes += filtered_bytes(&m.sets[i].set);
    assert_int_equal(m.scratch.decompressed_bytes, bytes);
    assert_in_range(fby__scratch_bytes(&m.scratch), 1, 4u << 20);
    free(d.memory);
    model_fini(&m);
}

static void only_the_rows_of_chunks_without_filters_are_located(void **state)
{
    (void)state;
    fby__random rng = {.key = 12};
    model m = {.n_sets = 3};
    narrow_set(&m, &m.sets[0], FBY_FLOAT32, 1000, 0, &rng);
    narrow_set(&m, &m.sets[1], FBY_FLOAT32, 1000, 0, &rng);
    m.sets[1].set.layout = FBY__H5_CHUNKED;
    m.sets[1].set.chunk[0] = 300;
    fby__free(m.sets[1].written);
    store(&m, &m.sets[1], false, &rng);
    cube_set(&m, &m.sets[2], FBY_FLOAT64, 1000, 300, &rng);
    finish_table(&m, 1000, 0);
    const uint32_t leaves[] = {0, 1, 2};
    check_ok(locate(&m, leaves, 3, 250, 350, NULL), &m.err);
    assert_true(m.sources[0].rows_as_stored && m.sources[0].range[1].n == 400 && m.sources[0].n_chunks == 0);
    assert_true(m.sources[0].range[1].offset == m.sets[0].set.data_offset + 1000);
    assert_true(!m.sources[1].rows_as_stored && m.sources[1].n_chunks == 2);
    assert_true(m.sources[1].chunks[0].n == 200 && m.sources[1].chunks[0].offset == m.sets[1].set.chunks[0].offset + 1000);
    assert_true(m.sources[1].chunks[1].n == 200 && m.sources[1].chunks[1].offset == m.sets[1].set.chunks[1].offset);
    assert_true(m.sources[2].n_chunks == 2 && m.sources[2].chunks[0].n == m.sets[2].set.chunks[0].bytes && m.sources[2].chunks[1].tag == 1);
    dense d = {0};
    dense_layout(&m, &d, FBY_FLOAT32, false, NULL);
    dense_place(&d, 200, 400); /* rows that were not located are an error, not fill values */
    for (uint32_t c = 0; c < 2; c++)
        check_fails(&m, dense_decode(&m, &d, &m.scratch, 240, 350, c, c + 1, &m.err), FBY_E_INTERNAL, "not located");
    check_ok(locate(&m, leaves, 3, 250, 300, NULL), &m.err);
    check_fails(&m, dense_decode(&m, &d, &m.scratch, 250, 310, 2, 3, &m.err), FBY_E_INTERNAL, "not located");
    free(d.memory);
    model_fini(&m);
}

static void rows_along_the_last_axis_are_read_in_pieces_of_contiguous_data(void **state)
{
    (void)state;
    fby__random rng = {.key = 21};
    for (int inner = 0; inner < 2; inner++) { /* (5, rows) and (5, rows, 2), of arrays and members */
        model m = {.n_sets = 1};
        model_set *s = &m.sets[0];
        *s = (model_set){.seed = 3};
        s->set.rank = inner ? 3 : 2;
        s->set.axis = s->set.axes = 1;
        s->set.repeat = 1;
        memcpy(s->set.dims, (uint64_t[3]){5, 3000, 2}, sizeof(uint64_t[3]));
        s->set.layout = FBY__H5_CONTIGUOUS;
        do
            members(s, 3, &rng);
        while (s->member[0].elements == 1 || s->member[1].elements > 1);
        store(&m, s, false, &rng);
        finish_table(&m, 3000, 0);
        dense d = {0};
        dense_layout(&m, &d, FBY_FLOAT64, true, NULL);
        check_ok(locate(&m, d.leaves, 3, 700, 900, NULL), &m.err);
        assert_true(m.list.n == 5 && m.sources[2].chunks == m.sources[0].chunks && m.sources[2].n_chunks == 5);
        dense_place(&d, 700, 900);
        check_ok(dense_decode(&m, &d, &m.scratch, 700, 760, 0, 3, &m.err), &m.err);
        check_ok(dense_decode(&m, &d, &m.scratch, 760, 900, 0, 3, &m.err), &m.err);
        check_dense(&m, &d, 700, 900, 0);
        check_fails(&m,
                    dense_decode(&m, &(dense){.layout = d.layout, .panel = d.panel, .first_row = 600}, &m.scratch, 690, 700, 0, 3, &m.err),
                    FBY_E_INTERNAL, "not located");
        free(d.memory);
        model_fini(&m);
    }
}

static void values_that_are_missing_or_do_not_fit_name_column_and_row(void **state)
{
    (void)state;
    fby__random rng = {.key = 13};
    model m = {.n_sets = 2};
    narrow_set(&m, &m.sets[0], FBY_INT16, 500, 100, &rng);
    cube_set(&m, &m.sets[1], FBY_FLOAT64, 500, 64, &rng);
    m.sets[0].n_missing = m.sets[1].n_missing = 1;
    finish_table(&m, 500, 0);
    m.group.first_row = 0;
    dense d = {0};
    dense_layout(&m, &d, FBY_FLOAT32, false, NULL);
    d.columns[0].missing = d.columns[1].missing = FBY__MISSING_ERROR;
    check_ok(locate(&m, d.leaves, 2, 0, 500, NULL), &m.err);
    dense_place(&d, 0, 500);
    for (uint32_t c = 0; c < 2; c++) {
        char words[64];
        uint64_t row = 0;
        double v;
        for (;; row++) {
            bool all = true;
            for (uint64_t e = 0; e < d.columns[c].width; e++)
                all &= twin_value(&m.sets[c], 0, row, e, &v);
            if (!all)
                break;
        }
        snprintf(words, sizeof words, "column 'x': row %llu is missing", (unsigned long long)row);
        check_fails(&m, dense_decode(&m, &d, &m.scratch, 0, 500, c, c + 1, &m.err), FBY_E_DATA, words);
        check_ok(dense_decode(&m, &d, &m.scratch, 0, row, c, c + 1, &m.err), &m.err);
    }
    free(d.memory);
    /* -3 as a stored value into unsigned integers */
    m.leaves[0].n_missing = 0;
    m.leaves[0].scaled = true;
    m.leaves[0].dtype = FBY_FLOAT32;
    m.leaves[0].add_offset = -40;
    dense_layout(&m, &d, FBY_UINT8, false, NULL);
    dense_place(&d, 0, 500);
    check_fails(&m, dense_decode(&m, &d, &m.scratch, 0, 500, 0, 1, &m.err), FBY_E_DATA, "does not fit uint8");
    free(d.memory);
    model_fini(&m);
}

static void conventions_round_to_the_dtype_of_the_column_and_know_nan(void **state)
{
    (void)state;
    fby__random rng = {.key = 14};
    const double raw[4] = {1, NAN, 0.1, -2};
    const fby__h5_type type = number_type(FBY_FLOAT64, false);
    model m = {.n_sets = 1};
    raw_set(&m, &m.sets[0], &type, (const uint8_t *)raw, 4, 0, &rng);
    finish_table(&m, 4, 0);
    add_leaf(&m, 0, &type, FBY__H5_VALUE_NUMBER);
    m.leaves[0].n_missing = 1;
    m.leaves[0].scaled = true;
    m.leaves[0].scale_factor = 0.1;
    m.leaves[0].add_offset = 0.7;
    m.leaves[0].dtype = FBY_FLOAT32;
    const double nan = NAN;
    memcpy(&m.leaves[0].missing[0], &nan, 8);
    dense d = {
        .layout = {.kind = FBY__PANEL_DENSE, .dtype = FBY_FLOAT64, .n_columns = 1, .width = 1, .want_valid = true, .columns = d.columns}};
    d.columns[0] = (fby__panel_column){.path = "x", .width = 1, .missing = FBY__MISSING_FILL, .fill = {.f64 = -1}};
    check_ok(locate(&m, (uint32_t[]){0}, 1, 0, 4, NULL), &m.err);
    dense_place(&d, 0, 4);
    check_ok(dense_decode(&m, &d, &m.scratch, 0, 4, 0, 1, &m.err), &m.err);
    const double *got = (const double *)(const void *)d.panel.data;
    assert_true(got[0] == (double)(float)(1 * 0.1 + 0.7) && got[1] == -1 && got[2] == (double)(float)(0.1 * 0.1 + 0.7));
    assert_true(got[0] != 1 * 0.1 + 0.7);
    assert_true(d.panel.valid[0] && !d.panel.valid[1] && d.panel.valid[2] && d.panel.valid[3]);
    free(d.memory);
    model_fini(&m);
}

/* Bytes of what was read are changed, one place after the other: a value may change, nothing else may happen. */
static void damaged_chunks_are_errors_that_name_them(void **state)
{
    (void)state;
    fby__random rng = {.key = 15};
    model m = {.n_sets = 2};
    cube_set(&m, &m.sets[0], FBY_INT32, 40, 16, &rng);
    narrow_set(&m, &m.sets[1], FBY_INT32, 40, 9, &rng);
    finish_table(&m, 40, 0);
    dense d = {0};
    dense_layout(&m, &d, FBY_INT32, true, NULL);
    check_ok(locate(&m, d.leaves, 2, 0, 40, NULL), &m.err);
    dense_place(&d, 0, 40);
    unsigned failed = 0;
    for (size_t p = 0; p < m.list.n; p++)
        for (uint64_t i = 0; i < m.list.at[p].n; i++) {
            uint8_t *byte = (uint8_t *)m.copies[p] + i;
            const uint8_t kept = *byte;
            *byte ^= (uint8_t)(1u << (i % 8));
            fby_status status = dense_decode(&m, &d, &m.scratch, 0, 40, 0, 2, &m.err);
            *byte = kept;
            if (status == FBY_OK)
                continue;
            char words[80];
            const fby__h5_chunk *chunk = &m.set_list[p < 3 ? 0 : 1].chunks[p < 3 ? p : p - 3];
            if (p < 3)
                snprintf(words, sizeof words, "chunk (%zu, 0, 0), at byte %llu: deflate", p, (unsigned long long)chunk->offset);
            else
                snprintf(words, sizeof words, "chunk (%zu), at byte %llu: deflate", p - 3, (unsigned long long)chunk->offset);
            check_fails(&m, status, FBY_E_FORMAT, words);
            assert_int_equal(m.err.file_offset, chunk->offset);
            failed++;
        }
    assert_true(failed > 100);
    check_ok(dense_decode(&m, &d, &m.scratch, 0, 40, 0, 2, &m.err), &m.err);
    check_dense(&m, &d, 0, 40, 0);
    /* sizes that lie */
    for (size_t p = 0; p < m.list.n; p++) {
        m.list.at[p].n--;
        assert_int_equal(dense_decode(&m, &d, &m.scratch, 0, 40, 0, 2, &m.err), FBY_E_FORMAT);
        m.list.at[p].n++;
    }
    /* and a file that ends too early */
    m.table.file_bytes = m.file.n - 10;
    fby_status status = locate(&m, d.leaves, 2, 0, 40, NULL);
    assert_int_equal(status, FBY_E_FORMAT);
    assert_non_null(strstr(m.err.message, "beyond the end of the file"));
    free(d.memory);
    model_fini(&m);
}

static void numbers_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    fby__random rng = {.key = 16};
    model m = {.n_sets = 1};
    cube_set(&m, &m.sets[0], FBY_INT32, 40, 16, &rng);
    finish_table(&m, 40, 0);
    const fby__h5_set good = m.set_list[0];
    fby__h5_set *s = m.set_list;
    dense d = {0};
    dense_layout(&m, &d, FBY_INT32, false, NULL);
    for (int i = 0; i < 8; i++) {
        *s = good;
        switch (i) {
        case 0: s->rank = 0; break;
        case 1: s->rank = 33; break;
        case 2: s->chunk[1] = 0; break;
        case 3: s->repeat = 0; break;
        case 4: s->row_elements = 11; break;
        case 5: s->axis = 3; break;
        case 6: s->dims[1] = UINT64_MAX; break;
        default: s->chunk[0] = s->chunk[1] = s->chunk[2] = 1u << 20; break;
        }
        fby_status status = locate(&m, d.leaves, 1, 0, 40, NULL);
        if (status != FBY_E_FORMAT && status != FBY_E_UNSUPPORTED)
            fail_msg("case %d: %s", i, fby_status_name(status));
    }
    *s = good;
    model_fini(&m);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fby__random rng = {.key = 17};
    model m = {.n_sets = 4};
    cube_set(&m, &m.sets[0], FBY_INT32, 40, 16, &rng);
    narrow_set(&m, &m.sets[1], FBY_INT16, 40, 9, &rng);
    narrow_set(&m, &m.sets[2], FBY_INT32, 40, 7, &rng);
    narrow_set(&m, &m.sets[3], FBY_INT32, 40, 7, &rng);
    fby__free(m.sets[3].written);
    fby__free((void *)(uintptr_t)m.sets[3].set.chunks);
    m.sets[3].set.n_chunks = 0;
    store(&m, &m.sets[3], true, &rng);
    finish_table(&m, 40, 0);
    dense d = {0};
    dense_layout(&m, &d, FBY_FLOAT64, true, NULL);
    unsigned failed = 0;
    uint64_t total = 1;
    for (uint64_t at = 0; at <= total; at++) {
        fby__chunk_store *chunk_store;
        check_ok(fby__chunk_store_create(1 << 20, NULL, &chunk_store, &m.err), &m.err);
        fby__range_list_fini(&m.list);
        fby__scratch scratch = {0};
        dense_place(&d, 3, 35);
        const uint64_t before = fby__alloc_count();
        fby__alloc_fail_at(at);
        fby_status status = locate(&m, d.leaves, 4, 3, 35, chunk_store);
        if (status == FBY_OK)
            status = dense_decode(&m, &d, &scratch, 3, 35, 0, 4, &m.err);
        fby__alloc_fail_at(0);
        if (at == 0)
            total = fby__alloc_count() - before;
        if (status == FBY_OK) { /* a shared chunk that finds no room is decoded for oneself */
            check_dense(&m, &d, 3, 35, 0);
        } else {
            assert_int_equal(status, FBY_E_NOMEM);
            failed++;
        }
        fby__scratch_fini(&scratch);
        let_go(&m);
        fby__chunk_store_destroy(chunk_store);
        free(d.memory);
    }
    print_message("%u of %u allocations failed the call\n", failed, (unsigned)total);
    assert_true(failed > 5);
    model_fini(&m);
}

/* ---- chunks that blocks share ---- */

enum { SHARE_ROWS = 6000, SHARE_BLOCK = 250 };

typedef struct sharer {
    const model *from;
    fby__chunk_store *chunk_store;
    uint64_t key;
    uint64_t decompressed;
} sharer;

/* Every block in an order of its own. cmocka's asserts jump, which a thread may not: failures are counted. */
static void *share(void *arg)
{
    sharer *s = arg;
    fby__random rng = {.key = s->key};
    model *m = malloc(sizeof *m);
    *m = *s->from;
    m->scratch = (fby__scratch){0};
    m->list = (fby__range_list){0};
    m->copies = NULL;
    m->n_copies = 0;
    m->table.sets = m->set_list;
    m->table.leaves = m->leaves;
    m->table.base.groups = &m->group;
    dense *d = calloc(1, sizeof *d);
    dense_layout(m, d, FBY_FLOAT32, false, NULL);
    uint64_t wrong = 0;
    for (int i = 0; i < 60; i++) {
        const uint64_t begin = fby__random_below(&rng, SHARE_ROWS / SHARE_BLOCK) * SHARE_BLOCK, end = begin + SHARE_BLOCK;
        wrong += locate(m, d->leaves, d->layout.n_columns, begin, end, s->chunk_store) != FBY_OK;
        dense_place(d, begin, end);
        wrong += dense_decode(m, d, &m->scratch, begin, end, 0, d->layout.n_columns, &m->err) != FBY_OK;
        for (uint32_t c = 0; c < d->layout.n_columns; c++)
            for (uint64_t row = begin; row < end; row++)
                for (uint64_t e = 0; e < d->columns[c].width; e++) {
                    double want;
                    (void)twin_value(&m->sets[m->leaves[d->leaves[c]].set], 0, row, e, &want); /* nothing is missing */
                    wrong += !same_element(d, row, d->columns[c].offset + e, want);
                }
        free(d->memory);
    }
    s->decompressed = m->scratch.decompressed_bytes;
    let_go(m);
    free(m->copies);
    fby__range_list_fini(&m->list);
    fby__scratch_fini(&m->scratch);
    free(d);
    free(m);
    return wrong ? s : NULL;
}

static void threads_share_chunks_that_reach_into_several_blocks(void **state)
{
    (void)state;
    fby__random rng = {.key = 18};
    model m = {.n_sets = 3};
    cube_set(&m, &m.sets[0], FBY_FLOAT32, SHARE_ROWS, SHARE_BLOCK, &rng);
    m.sets[0].set.n_filters = 0; /* nobody else's: read as they lie */
    fby__free(m.sets[0].written);
    fby__free((void *)(uintptr_t)m.sets[0].set.chunks);
    m.sets[0].set.n_chunks = 0;
    store(&m, &m.sets[0], false, &rng);
    narrow_set(&m, &m.sets[1], FBY_INT16, SHARE_ROWS, SHARE_ROWS, &rng);
    cube_set(&m, &m.sets[2], FBY_FLOAT32, SHARE_ROWS, 1100, &rng);
    finish_table(&m, SHARE_ROWS, SHARE_BLOCK);
    for (int turn = 0; turn < 2; turn++) { /* room for all, then for one chunk at a time */
        fby__chunk_store *chunk_store;
        check_ok(fby__chunk_store_create(turn ? 60000 : 1 << 20, NULL, &chunk_store, &m.err), &m.err);
        sharer sharers[3];
        pthread_t threads[3];
        for (uint64_t i = 0; i < 3; i++) {
            sharers[i] = (sharer){&m, chunk_store, i, 0};
            assert_int_equal(pthread_create(&threads[i], NULL, share, &sharers[i]), 0);
        }
        uint64_t decompressed = 0;
        for (int i = 0; i < 3; i++) {
            void *wrong;
            assert_int_equal(pthread_join(threads[i], &wrong), 0);
            assert_null(wrong);
            decompressed += sharers[i].decompressed;
        }
        if (turn == 0) /* shared chunks: once each */
            assert_int_equal(decompressed, filtered_bytes(&m.set_list[1]) + filtered_bytes(&m.set_list[2]));
        fby__chunk_store_destroy(chunk_store);
    }
    model_fini(&m);
}

static void opaque_values_are_rows_of_bytes(void **state)
{
    (void)state;
    fby__random rng = {.key = 22};
    static const char RAW[6][5] = {"ab\0cd", "ab   ", " b \0 ", "\0\0\0\0\0", "abcde", "     "};
    const fby__h5_type type = {.class = FBY__H5_OPAQUE, .bytes = 5};
    model m = {.n_sets = 1};
    raw_set(&m, &m.sets[0], &type, (const uint8_t *)RAW, 6, 4, &rng);
    finish_table(&m, 6, 0);
    add_leaf(&m, 0, &type, FBY__H5_VALUE_OPAQUE);
    dense d = {.layout = {.kind = FBY__PANEL_DENSE, .dtype = FBY_UINT8, .n_columns = 1, .width = 7, .columns = d.columns}};
    d.columns[0] = (fby__panel_column){.path = "x", .offset = 1, .width = 5};
    check_ok(locate(&m, (uint32_t[]){0}, 1, 0, 6, NULL), &m.err);
    dense_place(&d, 0, 6);
    check_ok(dense_decode(&m, &d, &m.scratch, 0, 6, 0, 1, &m.err), &m.err);
    for (int i = 0; i < 6; i++)
        assert_memory_equal(d.panel.data + 7 * i + 1, RAW[i], 5);
    d.columns[0].width = 4;
    check_fails(&m, dense_decode(&m, &d, &m.scratch, 0, 6, 0, 1, &m.err), FBY_E_SCHEMA, "5 elements a row where 4");
    free(d.memory);
    model_fini(&m);
}

/* ---- the helper program ---- */

static fby_status file_decode(const fby__table *table, fby__file *file, uint32_t leaf, dense *d, uint64_t begin, uint64_t end,
                              fby_error *err)
{
    fby__range_list list = {0};
    fby__scratch scratch = {0};
    fby__leaf_source source = {.leaf = leaf};
    fby__locate_request located = {
        .table = table, .file = file, .row_begin = begin, .row_end = end, .sources = &source, .n = 1, .list = &list};
    fby_status status = fby__locate(&located, err);
    uint8_t **copies = calloc(list.n + 1, sizeof *copies);
    for (size_t i = 0; status == FBY_OK && i <= list.n; i++) {
        fby__range *range = i < list.n ? &list.at[i] : &source.range[1];
        if (range->n == 0)
            continue;
        range->data = copies[i] = malloc(range->n);
        status = fby__file_read(file, range->offset, copies[i], range->n, err);
    }
    const fby__decode_column asked = {.source = &source, .unit_mul = 1, .unit_div = 1};
    const fby__decode q = {.table = table,
                           .file_name = "x.h5",
                           .row_begin = begin,
                           .row_end = end,
                           .panel_row = begin,
                           .panel = &d->panel,
                           .columns = &asked,
                           .n_columns = 1,
                           .file = file};
    if (status == FBY_OK)
        status = fby__h5_decode_panel(&q, &scratch, err);
    for (size_t i = 0; i <= list.n; i++)
        free(copies[i]);
    free(copies);
    fby__range_list_fini(&list);
    fby__scratch_fini(&scratch);
    return status;
}

/* What ours reads of golden files, the helper program reads too: the panels must be the same. */
static unsigned compare_with_helper(const char *name, const fby__format_opts *opts)
{
    char path[512];
    fby_error err;
    fby__file *file;
    fby__table *base;
    unsigned compared = 0;
    snprintf(path, sizeof path, "%s/tests/golden/%s", FBY_SOURCE_DIR, name);
    check_ok(fby__file_open(path, NULL, &file, &err), &err);
    check_ok(fby__h5_table_open(file, opts, &base, &err), &err);
    fby__h5_table *table = (fby__h5_table *)base;
    for (uint32_t leaf = 0; leaf < base->schema->n_leaves; leaf++) {
        const fby__h5_leaf *l = &table->leaves[leaf];
        fby__h5_set *set = &table->sets[l->set];
        const uint64_t width = set->row_elements * l->elements, rows = base->n_rows;
        if (l->value != FBY__H5_VALUE_NUMBER || set->way != FBY__H5_DIRECT || !fby__h5_type_is_native(set->type) || width > 10000)
            continue;
        dense d = {.layout = {.kind = FBY__PANEL_DENSE,
                              .dtype = FBY_FLOAT64,
                              .n_columns = 1,
                              .width = (uint32_t)width,
                              .want_valid = true,
                              .columns = d.columns}};
        d.columns[0] = (fby__panel_column){.path = "x", .width = (uint32_t)width, .missing = FBY__MISSING_FILL, .fill = {.f64 = -77}};
        dense e = d;
        e.layout.columns = e.columns;
        const uint64_t begin = rows / 3, end = rows - rows / 7;
        dense_place(&d, begin, end);
        dense_place(&e, begin, end);
        check_ok(file_decode(base, file, leaf, &d, begin, end, &err), &err);
        set->way = FBY__H5_HELPER;
        check_ok(file_decode(base, file, leaf, &e, begin, end, &err), &err);
        set->way = FBY__H5_DIRECT;
        assert_memory_equal(d.panel.data, e.panel.data, (end - begin) * width * 8);
        assert_memory_equal(d.panel.valid, e.panel.valid, end - begin);
        free(d.memory);
        free(e.memory);
        compared++;
    }
    fby__table_unref(base);
    fby__file_unref(file);
    return compared;
}

static void the_helper_program_gives_the_same_panels(void **state)
{
    (void)state;
    char path[FBY__H5P_MAX_PATH];
    fby_error err;
    if (fby__h5_helper_find(path, &err) != FBY_OK) {
        print_message("skipped: forebay-hdf5 was not built (libhdf5 was not found)\n");
        skip();
    }
    unsigned n = compare_with_helper("hdf5_table/types.h5", &(fby__format_opts){0});
    n += compare_with_helper("hdf5_table/tables.h5", &(fby__format_opts){0});
    n += compare_with_helper("hdf5_table/tables.h5", &(fby__format_opts){.axis = 1});
    n += compare_with_helper("hdf5_table/cells.h5", &(fby__format_opts){.axes = 2});
    n += compare_with_helper("hdf5_table/station.nc", &(fby__format_opts){0});
    print_message("%u columns compared\n", n);
    fby__h5_helper_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_tables_decode_to_what_the_naive_twin_says),
        cmocka_unit_test(columns_of_many_data_sets_are_read_side_by_side_and_each_chunk_once),
        cmocka_unit_test(only_the_rows_of_chunks_without_filters_are_located),
        cmocka_unit_test(rows_along_the_last_axis_are_read_in_pieces_of_contiguous_data),
        cmocka_unit_test(values_that_are_missing_or_do_not_fit_name_column_and_row),
        cmocka_unit_test(conventions_round_to_the_dtype_of_the_column_and_know_nan),
        cmocka_unit_test(damaged_chunks_are_errors_that_name_them),
        cmocka_unit_test(numbers_that_make_no_sense_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(threads_share_chunks_that_reach_into_several_blocks),
        cmocka_unit_test(opaque_values_are_rows_of_bytes),
        cmocka_unit_test(the_helper_program_gives_the_same_panels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
