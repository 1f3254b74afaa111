/*
 * Arrow IPC tables from inside: flatbuffers cut anywhere, metadata that survives the index cache, parts of batches, and every allocation and
 * read failing. What files mean is tested against pyarrow in tests/python/test_ipc.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/ipc/ipc.h"
#include "support/table_damage.h"

#define GOLDEN FBY_SOURCE_DIR "/tests/golden/ipc/"
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const GOOD[] = {"numbers.arrow", "texts.arrows",    "texts_lz4.arrow", "nested_zstd.arrows", "nested.arrow",
                                   "other.arrow",   "coded_lz4.arrow", "grow.arrow",      "replace.arrows",     "version4.arrows"};

static fby_status open_path(const char *name, fby__table **out, fby__file **out_file, fby_error *err)
{
    char path[600];
    *out = NULL;
    *out_file = NULL;
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    fby_status status = fby__file_open(path, NULL, out_file, err);
    return status == FBY_OK ? fby__ipc_open(*out_file, &(fby__format_opts){0}, out, err) : status;
}

/* What the reader of blocks does: the ranges' bytes, one behind the other. */
static fby_status fetch(fby__file *file, fby__leaf_source *source, fby__buf *bytes, fby_error *err)
{
    size_t n = 0;
    for (size_t k = 0; k < 2 + source->n_chunks; k++)
        n += fby__source_range(source, k)->n;
    if (fby__grow((void **)&bytes->data, &bytes->cap, n, 1) != 0)
        return FBY_E_NOMEM;
    n = 0;
    for (size_t k = 0; k < 2 + source->n_chunks; k++) {
        fby__range *range = fby__source_range(source, k);
        FBY__TRY(fby__file_read(file, range->offset, bytes->data + n, range->n, err));
        range->data = bytes->data + n;
        n += range->n;
    }
    return FBY_OK;
}

/* Rows of a column of one leaf as Arrow, and as a panel of bytes where it is text. */
static fby_status use_rows(fby__table *t, fby__file *file, fby__chunk_store *store, uint32_t group, uint64_t begin, uint64_t end,
                           uint32_t leaf, struct ArrowArray *out, fby_error *err)
{
    const uint32_t number = t->schema->leaves[leaf].field;
    const fby_field *field = &t->schema->fields[number];
    fby__leaf_source source = {.leaf = leaf};
    fby__scratch scratch = {0};
    fby__range_list list = {0};
    fby__buf bytes = {0};
    void *memory = NULL;
    fby_status status = fby__locate(&(fby__locate_request){.table = t,
                                                           .file = file,
                                                           .group = group,
                                                           .row_begin = begin,
                                                           .row_end = end,
                                                           .sources = &source,
                                                           .n = 1,
                                                           .list = &list,
                                                           .store = store},
                                    err);
    if (status == FBY_OK)
        status = fetch(file, &source, &bytes, err);
    if (status == FBY_OK)
        status = t->ops->decode_arrow(&(fby__arrow_request){.table = t,
                                                            .file = file,
                                                            .file_name = "f",
                                                            .group = group,
                                                            .row_begin = begin,
                                                            .row_end = end,
                                                            .field = number,
                                                            .sources = &source},
                                      &scratch, out, err);
    if (status == FBY_OK && field->kind == FBY_KIND_STRING) {
        fby__panel_column column = {.path = "c", .width = 1, .missing = FBY__MISSING_FILL};
        const fby__panel_layout layout = {
            .kind = FBY__PANEL_BYTES, .dtype = FBY_UINT8, .n_columns = 1, .width = 1, .want_valid = true, .columns = &column};
        size_t n;
        fby__panel panel;
        assert_int_equal(fby__panel_bytes(&layout, end - begin, 4096, &n, NULL), FBY_OK);
        memory = aligned_alloc(64, (n + 63) / 64 * 64);
        assert_non_null(memory);
        fby__panel_place(&layout, end - begin, 4096, memory, &panel);
        const fby__decode_column from = {&source, 0, 1, 1};
        status = t->ops->decode_panel(&(fby__decode){.table = t,
                                                     .file_name = "f",
                                                     .file = file,
                                                     .group = group,
                                                     .row_begin = begin,
                                                     .row_end = end,
                                                     .panel_row = begin,
                                                     .panel = &panel,
                                                     .columns = &from,
                                                     .n_columns = 1},
                                      &scratch, err);
        for (uint64_t r = 0; status == FBY_OK && r < end - begin; r++) { /* the same as in Arrow */
            const int64_t *offsets = out->buffers[1];
            assert_int_equal(panel.views[r].n, offsets[r + 1] - offsets[r]);
            assert_memory_equal(panel.data + panel.views[r].offset, (const uint8_t *)out->buffers[2] + offsets[r], panel.views[r].n);
        }
    }
    free(memory);
    fby__buf_fini(&bytes);
    fby__range_list_fini(&list);
    fby__scratch_fini(&scratch);
    return status;
}

static bool is_column(const fby__table *t, uint32_t leaf) { return t->schema->nodes[t->schema->leaves[leaf].field].parent == 0; }

/* All columns without anything below them, whole or in parts. */
static fby_status use(fby__table *t, fby__file *file, bool with_store, uint64_t step, fby_error *err)
{
    fby__chunk_store *store = NULL;
    fby_status status = with_store ? fby__chunk_store_create(1 << 20, NULL, &store, err) : FBY_OK;
    for (uint32_t g = 0; g < t->n_groups; g++)
        for (uint32_t leaf = 0; leaf < t->schema->n_leaves; leaf++)
            for (uint64_t row = 0; is_column(t, leaf) && row < t->groups[g].rows && status == FBY_OK; row += step) {
                struct ArrowArray array = {0};
                const uint64_t end = row + step < t->groups[g].rows ? row + step : t->groups[g].rows;
                status = use_rows(t, file, store, g, row, end, leaf, &array, err);
                if (array.release)
                    array.release(&array);
            }
    fby__chunk_store_destroy(store);
    return status;
}

static fby_status open_freeze_thaw_use(const char *name, fby_error *err)
{
    fby__table *t = NULL, *again = NULL;
    fby__file *file = NULL;
    fby__buf blob = {0};
    fby_status status = open_path(name, &t, &file, err);
    if (status == FBY_OK)
        status = fby__ipc_freeze(t, &blob, err);
    if (status == FBY_OK)
        status = fby__ipc_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, err);
    if (status == FBY_OK)
        status = use(t, file, false, UINT64_C(1) << 40, err);
    if (status == FBY_OK)
        status = use(again, file, true, 3, err);
    fby__alloc_fail_at(0);
    fby__io_set_fault(&(fby__io_fault){0});
    if (status == FBY_OK) {
        assert_int_equal(t->n_rows, again->n_rows);
        assert_int_equal(t->n_groups, again->n_groups);
    }
    fby__buf_fini(&blob);
    fby__table_unref(again);
    fby__table_unref(t);
    fby__file_unref(file);
    return status;
}

static void a_failing_allocation_or_read_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(GOOD); i++) { /* without room in the chunk store each reader decompresses for itself */
        const fault_counts counts = fail_in_turn(open_freeze_thaw_use, GOOD[i]);
        assert_true(counts.failed_allocations > 20);
        assert_true(counts.failed_reads > 3);
    }
}

static void what_the_index_cache_kept_is_refused_when_damaged(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(GOOD); i++) {
        fby__table *t;
        fby__file *file;
        fby_error err;
        assert_int_equal(open_path(GOOD[i], &t, &file, &err), FBY_OK);
        assert_frozen_damage_is_refused(t, 7);
        fby__table_unref(t);
        fby__file_unref(file);
    }
}

static void flatbuffers_do_not_reach_outside(void **state)
{
    (void)state;
    /* A table of one field, an int32, and a string. */
    static const uint8_t GOOD_ONE[] = {12, 0, 0, 0, 8,   0,   12,  0, 4, 0, 8, 0, /* root, vtable */
                                       8,  0, 0, 0, 7,   0,   0,   0, 4, 0, 0, 0, /* table */
                                       3,  0, 0, 0, 'a', 'b', 'c', 0};
    fby__flatbuffer b = fby__flatbuffer_of((fby__bytes){GOOD_ONE, sizeof GOOD_ONE});
    fby__flat_table t = fby__flat_root(&b);
    assert_int_equal(fby__flat_int(&b, &t, 0, 4, -1), 7);
    assert_int_equal(fby__flat_int(&b, &t, 5, 4, -1), -1);
    fby__bytes text = fby__flat_string(&b, &t, 1);
    assert_true(!b.damaged && text.n == 3 && memcmp(text.data, "abc", 3) == 0);
    for (size_t n = 0; n + 1 < sizeof GOOD_ONE; n++) /* but for the NUL */
        for (size_t at = 0; at < n || at == 0; at++) {
            uint8_t *exact = malloc(n ? n : 1);
            assert_non_null(exact);
            memcpy(exact, GOOD_ONE, n);
            b = fby__flatbuffer_of((fby__bytes){exact, n});
            t = fby__flat_root(&b);
            (void)fby__flat_int(&b, &t, 0, 4, -1);
            (void)fby__flat_string(&b, &t, 1);
            assert_true(b.damaged);
            if (at < n)
                exact[at] ^= 0x81; /* whatever it is then, it lies inside */
            b = fby__flatbuffer_of((fby__bytes){exact, n});
            t = fby__flat_root(&b);
            text = fby__flat_string(&b, &t, 1);
            assert_true(!text.data || (text.data >= exact && text.data + text.n <= exact + n));
            free(exact);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flatbuffers_do_not_reach_outside),
        cmocka_unit_test(what_the_index_cache_kept_is_refused_when_damaged),
        cmocka_unit_test(a_failing_allocation_or_read_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
