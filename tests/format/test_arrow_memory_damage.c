/* Record batches in memory of which something fails or is wrong: producers, arrays, allocations. */
#include "format/arrow_producer.h"

static void a_failing_producer_is_quoted(void **state)
{
    (void)state;
    static const int32_t x[] = {1, 2};
    const void *buffers[] = {NULL, x};
    struct ArrowArray a = array(2, 0, 0, 2, buffers);
    producer p = {.rows = {2}, .fail_next = 5, .message = "the query was interrupted"};
    add_column(&p, "x", "i", &a);
    struct ArrowArrayStream stream = stream_of(&p);
    fby__table *table = NULL;
    fby_error err;
    assert_int_equal(fby__arrow_table_create(&stream, &table, &err), FBY_E_IO);
    assert_non_null(strstr(err.message, "the query was interrupted"));
    assert_null(table);
    assert_int_equal(g_live_arrays + g_live_streams, 0);
    assert_int_equal(fby__arrow_table_create(&stream, &table, &err), FBY_E_ARG); /* moved from: released */

    producer q = {.fail_schema = 12}; /* ENOMEM without a message */
    stream = stream_of(&q);
    assert_int_equal(fby__arrow_table_create(&stream, &table, &err), FBY_E_NOMEM);
    assert_int_equal(g_live_streams, 0);
}

static void arrays_that_do_not_fit_their_schema_are_refused(void **state)
{
    (void)state;
    static const int32_t x[] = {0, 5, 3};
    for (int what = 0; what < 8; what++) {
        const void *buffers[] = {NULL, x, x}, *none[] = {NULL, NULL, NULL};
        struct ArrowArray a = array(2, 0, 0, 2, buffers), child = array(2, 0, 0, 2, buffers);
        producer p = {.rows = {2}};
        add_column(&p, "x", "i", &a);
        struct ArrowArray *children[] = {&child};
        a.children = children;
        switch (what) {
        case 0: a.n_buffers = 3; break;
        case 1: a.length = 1; break; /* shorter than the batch */
        case 2: a.buffers = none; break;
        case 3: a.offset = -1; break;
        case 4:
            p.schemas[0].format = "u";
            a.n_buffers = 3;
            a.offset = 1;
            a.length = 1;
            break; /* offsets 5, 3; and too short */
        case 5: a.n_children = 1; break;
        case 6: p.schemas[0].format = "+ud:0"; break;
        case 7: p.rows[0] = 3; break;
        default: break;
        }
        struct ArrowArrayStream stream = stream_of(&p);
        fby__table *table = NULL;
        fby_error err;
        fby_status status = fby__arrow_table_create(&stream, &table, &err);
        assert_int_equal(status, what == 6 ? FBY_E_UNSUPPORTED : FBY_E_ARG);
        assert_non_null(strstr(err.message, "'x'"));
        assert_int_equal(g_live_streams, 0);
        if (child.release)
            child.release(&child);
        assert_int_equal(g_live_arrays, 0);
    }
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    static const int32_t x[] = {0, 1, 3};
    static const uint8_t valid[] = {0x6};
    static const uint8_t indices[] = {1, 0, 1};
    uint64_t total = 0;
    unsigned failed = 0;
    for (uint64_t at = 0; at <= total; at++) {
        const void *buffers[] = {valid, x}, *s_buffers[] = {valid, x, "abcd"}, *i_buffers[] = {NULL, indices};
        struct ArrowArray a = array(2, 1, 1, 2, buffers), s = array(2, 1, 0, 3, s_buffers), i = array(2, 0, 1, 2, i_buffers),
                          dict = array(2, 0, 0, 3, s_buffers);
        struct ArrowSchema dict_schema = {.format = "u", .name = "", .release = schema_done};
        i.dictionary = &dict;
        producer p = {.rows = {2}};
        add_column(&p, "x", "i", &a);
        add_column(&p, "s", "u", &s);
        add_column(&p, "d", "C", &i);
        p.schemas[2].dictionary = &dict_schema;
        struct ArrowArrayStream stream = stream_of(&p);
        fby__table *table = NULL;
        fby_error err;
        uint64_t before = fby__alloc_count();
        fby__alloc_fail_at(at);
        fby_status status = fby__arrow_table_create(&stream, &table, &err);
        for (uint32_t c = 0; c < 3 && status == FBY_OK; c++) {
            struct ArrowArray out;
            status = export_rows(table, c, 0, 2, &out, &err);
            if (status == FBY_OK)
                out.release(&out);
        }
        const char *names[] = {"x", "d"};
        for (uint32_t c = 0; c < 2 && status == FBY_OK; c++) {
            decoded d;
            status = decode(table, c ? FBY__PANEL_BYTES : FBY__PANEL_DENSE, c ? FBY_UINT8 : FBY_INT32, 0, 2, &names[c], NULL, 1,
                            FBY__MISSING_FILL, 0, &d);
            free(d.memory);
        }
        fby__alloc_fail_at(0);
        if (at == 0)
            total = fby__alloc_count() - before;
        fby__table_unref(table);
        assert_int_equal(g_live_arrays + g_live_streams, 0);
        assert_int_equal(status, at ? FBY_E_NOMEM : FBY_OK);
        failed += at != 0;
    }
    print_message("%u allocations failed in turn\n", failed);
    assert_true(failed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_producer_is_quoted),
        cmocka_unit_test(arrays_that_do_not_fit_their_schema_are_refused),
        cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
