/*
 * HDF5 → panels: tables made by hand against their naive twin, in every combination that a random walk meets; then damaged chunks, and every
 * allocation failing in turn.
 */
#include "format/h5_dense_panel.h"

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
        cmocka_unit_test(opaque_values_are_rows_of_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
