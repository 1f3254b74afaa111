/* Footers frozen and thawed: the same table, and blobs that are damaged or lie. */
#include "format/parquet_meta_tests.h"

static void a_thawed_table_equals_the_frozen_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(GOLDEN_FILES); i++) {
        fby__table *t = open_golden(GOLDEN_FILES[i], NULL), *u;
        fby__buf blob = {0};
        fby_error err;
        check_ok(t->ops->freeze(t, &blob, &err), &err);
        check_ok(t->ops->thaw((fby__bytes){blob.data, blob.n}, t->schema, &u, &err), &err);
        assert_int_equal(u->n_rows, t->n_rows);
        assert_int_equal(u->n_groups, t->n_groups);
        assert_memory_equal(u->groups, t->groups, t->n_groups * sizeof *t->groups);
        if (t->n_groups)
            assert_memory_equal(fby__pq(u)->chunks, fby__pq(t)->chunks, t->n_groups * t->schema->n_leaves * sizeof(fby__pq_chunk));
        assert_int_equal(fby__pq(u)->file_bytes, fby__pq(t)->file_bytes);
        fby__table_unref(t);
        fby__table_unref(u);
        fby__buf_fini(&blob);
    }
}

static void damaged_blobs_are_refused_whatever_bit_is_wrong(void **state)
{
    (void)state;
    fby__table *t = open_golden("flat_v1_two_groups.parquet", NULL), *other = open_golden("int96.parquet", NULL), *u;
    fby__buf blob = {0};
    fby_error err;
    check_ok(t->ops->freeze(t, &blob, &err), &err);
    for (size_t i = 0; i < blob.n * 8; i++) {
        blob.data[i / 8] ^= (uint8_t)(1u << (i % 8));
        assert_int_equal(t->ops->thaw((fby__bytes){blob.data, blob.n}, t->schema, &u, &err), FBY_E_FORMAT);
        blob.data[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    for (size_t n = 0; n < blob.n; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, blob.data, n);
        assert_int_equal(t->ops->thaw((fby__bytes){copy, n}, t->schema, &u, &err), FBY_E_FORMAT);
        free(copy);
    }
    assert_int_equal(t->ops->thaw((fby__bytes){blob.data, blob.n}, other->schema, &u, &err), FBY_E_FORMAT);
    fby__table_unref(t);
    fby__table_unref(other);
    fby__buf_fini(&blob);
}

/* The checksum passes here; offsets and counts must still be checked. */
static void a_blob_whose_offsets_leave_the_file_is_refused(void **state)
{
    (void)state;
    fby__table *t = open_golden("pages_v1_offset_index.parquet", NULL), *u;
    fby__pq_chunk *c = &((fby__pq_table *)t)->chunks[0];
    const fby__pq_chunk good = *c;
    for (int which = 0; which < 8; which++) {
        fby__buf blob = {0};
        fby_error err;
        *c = good;
        switch (which) {
        case 0: c->data_offset = fby__pq(t)->file_bytes; break;
        case 1: c->compressed_bytes = UINT64_MAX; break;
        case 2: c->n_values++; break;
        case 3: c->offset_index_offset = UINT64_MAX; break;
        case 4: c->codec = FBY__CODEC_COUNT; break;
        case 5: c->dictionary_offset = 5; break;
        case 6: c->data_offset = 0; break;
        default: c->uncompressed_bytes = UINT64_MAX; break;
        }
        check_ok(t->ops->freeze(t, &blob, &err), &err);
        assert_int_equal(t->ops->thaw((fby__bytes){blob.data, blob.n}, t->schema, &u, &err), FBY_E_FORMAT);
        fby__buf_fini(&blob);
    }
    fby__table_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thawed_table_equals_the_frozen_one),
        cmocka_unit_test(damaged_blobs_are_refused_whatever_bit_is_wrong),
        cmocka_unit_test(a_blob_whose_offsets_leave_the_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
