/* HDF5 → panels: chunks that blocks and threads share, and the helper program's values beside ours. */
#include "format/h5_dense_panel.h"
#include "format/hdf5/client/output.h"

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
    fby_error err;
    if (fby__h5_output_find(NULL, &err) != FBY_OK) {
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
        cmocka_unit_test(threads_share_chunks_that_reach_into_several_blocks),
        cmocka_unit_test(the_helper_program_gives_the_same_panels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
