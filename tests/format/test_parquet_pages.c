/* Parquet pages: headers, the page index, locate, describe. On golden files and on pages made by hand. */
#include "format/parquet_meta_tests.h"

/* ---- locate ---- */

/* Each page of these files holds 10 rows; every row range must come with the pages that hold it and no others. */
static void check_row_ranges(const char *name, bool dictionary_of_name)
{
    fby__file *file = NULL;
    fby__table *t = open_golden(name, &file);
    fby_error err;
    assert_int_equal(t->n_rows, 45);
    for (uint64_t begin = 0; begin <= 45; begin++)
        for (uint64_t end = begin; end <= 45; end++) {
            fby__leaf_source src[3] = {{.leaf = 0}, {.leaf = 1}, {.leaf = 2}};
            bool whole = begin == 0 && end == 45;
            check_ok(fby__pq_locate(t, file, 0, begin, end, src, 3, &err), &err);
            for (uint32_t i = 0; i < 3; i++) {
                const fby__pq_chunk *c = fby__pq_chunk_of(t, 0, i);
                assert_int_equal(src[i].leaf, i);
                assert_null(src[i].range[1].data);
                if (whole || begin == end) {
                    assert_int_equal(src[i].range[0].n, 0);
                    assert_int_equal(src[i].range[1].n, whole ? c->compressed_bytes : 0);
                    assert_int_equal(src[i].first_row, 0);
                    continue;
                }
                assert_int_equal(src[i].range[0].n > 0, i == 2 && dictionary_of_name);
                assert_int_equal(src[i].first_row, begin / 10 * 10);
                assert_true(src[i].range[1].offset >= c->data_offset);
                assert_true(src[i].range[1].offset + src[i].range[1].n <= c->data_offset + c->compressed_bytes);
                /* The range is whole pages that hold the rows up to `end`. */
                uint64_t at = src[i].range[1].offset, stop = at + src[i].range[1].n, rows = src[i].first_row;
                while (at < stop) {
                    uint8_t head[64];
                    fby__pq_page page;
                    assert_true(rows < end);
                    check_ok(fby__file_read(file, at, head, sizeof head, &err), &err);
                    check_ok(fby__pq_page_parse((fby__bytes){head, sizeof head}, &page, &err), &err);
                    assert_int_equal(page.type, FBY__PQ_DATA_PAGE);
                    at += page.header_bytes + page.compressed_bytes;
                    rows += page.n_values;
                }
                assert_int_equal(at, stop);
                assert_true(rows >= end);
                assert_int_equal(src[i].n_rows, rows - src[i].first_row);
            }
        }
    fby__table_unref(t);
    fby__file_unref(file);
}

static void rows_are_located_by_page_headers(void **state)
{
    (void)state;
    check_row_ranges("pages_v1.parquet", true);
}

static void rows_are_located_by_the_offset_index(void **state)
{
    (void)state;
    check_row_ranges("pages_v1_offset_index.parquet", true);
}

/* Whatever is wrong with an OffsetIndex, the page headers tell the same. */
static void an_offset_index_that_makes_no_sense_is_left_aside(void **state)
{
    (void)state;
    fby__buf b = read_golden("pages_v1_offset_index.parquet");
    fby__table *t;
    fby_error err;
    check_ok(open_bytes(b.data, b.n, &t, NULL, &err), &err);
    const fby__pq_chunk c = *fby__pq_chunk_of(t, 0, 1);
    fby__table_unref(t);
    assert_true(c.offset_index_bytes > 0);
    size_t fell_back = 0;
    for (size_t i = 0; i < c.offset_index_bytes; i++) {
        uint8_t *at = b.data + c.offset_index_offset + i, old = *at;
        fby__file *file = NULL;
        *at = 0xff;
        check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
        fby__io_set_fault(&(fby__io_fault){0});
        fby__leaf_source src = {.leaf = 1};
        check_ok(fby__pq_locate(t, file, 0, 12, 13, &src, 1, &err), &err);
        if (fby__io_fault_count() > 1) {
            fell_back++;
            assert_int_equal(src.first_row, 10);
            assert_int_equal(src.n_rows, 10);
        }
        fby__table_unref(t);
        fby__file_unref(file);
        *at = old;
    }
    assert_true(fell_back > c.offset_index_bytes / 2u);
    fby__buf_fini(&b);
}

/* A row number that is off cannot be seen here (fby__leaf_source.n_rows lets the decoder see it); a position can. */
static void an_offset_index_with_a_flipped_bit_never_points_between_pages(void **state)
{
    (void)state;
    fby__buf b = read_golden("pages_v1_offset_index.parquet");
    fby__table *t;
    fby_error err;
    check_ok(open_bytes(b.data, b.n, &t, NULL, &err), &err);
    const fby__pq_chunk c = *fby__pq_chunk_of(t, 0, 1);
    fby__table_unref(t);
    for (size_t bit = 0; bit < c.offset_index_bytes * (size_t)8; bit++) {
        uint8_t *byte = b.data + c.offset_index_offset + bit / 8;
        fby__file *file = NULL;
        *byte ^= (uint8_t)(1u << bit % 8);
        check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
        for (uint64_t row = 2; row < 45; row += 10) {
            fby__leaf_source src = {.leaf = 1};
            check_ok(fby__pq_locate(t, file, 0, row, row + 1, &src, 1, &err), &err);
            uint64_t at = src.range[1].offset, end = at + src.range[1].n;
            while (at < end) {
                fby__pq_page page;
                check_ok(fby__pq_page_parse((fby__bytes){b.data + at, b.n - at}, &page, &err), &err);
                assert_int_equal(page.type, FBY__PQ_DATA_PAGE);
                at += page.header_bytes + page.compressed_bytes;
            }
            assert_int_equal(at, end);
        }
        fby__table_unref(t);
        fby__file_unref(file);
        *byte ^= (uint8_t)(1u << bit % 8);
    }
    fby__buf_fini(&b);
}

static void the_offset_index_is_read_instead_of_page_headers(void **state)
{
    (void)state;
    fby__file *file = NULL;
    fby__table *t = open_golden("pages_v1_offset_index.parquet", &file);
    fby_error err;
    fby__io_set_fault(&(fby__io_fault){.seed = 1});
    fby__leaf_source src = {.leaf = 1};
    check_ok(fby__pq_locate(t, file, 0, 12, 13, &src, 1, &err), &err);
    assert_int_equal(fby__io_fault_count(), 1); /* one read; five pages */
    check_ok(fby__pq_locate(t, file, 0, 33, 44, &src, 1, &err), &err);
    assert_int_equal(fby__io_fault_count(), 1); /* remembered */
    check_ok(fby__pq_locate(t, NULL, 0, 0, 45, &src, 1, &err), &err);
    fby__table_unref(t);
    fby__file_unref(file);
}

static void repeated_columns_are_located_in_v2_pages_only(void **state)
{
    (void)state;
    fby__file *file = NULL;
    fby_error err;
    fby__table *t = open_golden("nested_v2.parquet", &file);
    fby__leaf_source src = {.leaf = 1};
    check_ok(fby__pq_locate(t, file, 0, 24, 25, &src, 1, &err), &err);
    assert_true(src.first_row > 0 && src.first_row <= 24);
    assert_true(src.range[1].n < fby__pq_chunk_of(t, 0, 1)->compressed_bytes);
    fby__table_unref(t);
    fby__file_unref(file);

    t = open_golden("nested_v1.parquet", &file); /* records may span v1 pages */
    check_ok(fby__pq_locate(t, file, 0, 7, 8, &src, 1, &err), &err);
    assert_int_equal(src.first_row, 0);
    assert_int_equal(src.range[0].n, 0);
    assert_int_equal(src.range[1].offset, fby__pq_chunk_of(t, 0, 1)->data_offset);
    assert_int_equal(src.range[1].n, fby__pq_chunk_of(t, 0, 1)->compressed_bytes);
    src.leaf = 6; /* s.a.b does not repeat: its pages are found */
    check_ok(fby__pq_locate(t, file, 0, 7, 8, &src, 1, &err), &err);
    assert_true(src.first_row > 0);
    fby__table_unref(t);
    fby__file_unref(file);
}

static void locate_without_a_file_needs_whole_groups(void **state)
{
    (void)state;
    fby__table *t = open_golden("pages_v1.parquet", NULL);
    fby__leaf_source src = {.leaf = 0};
    fby_error err;
    check_ok(fby__pq_locate(t, NULL, 0, 0, 45, &src, 1, &err), &err);
    assert_int_equal(fby__pq_locate(t, NULL, 0, 0, 44, &src, 1, &err), FBY_E_ARG);
    assert_int_equal(fby__pq_locate(t, NULL, 0, 0, 46, &src, 1, &err), FBY_E_ARG);
    assert_int_equal(fby__pq_locate(t, NULL, 1, 0, 1, &src, 1, &err), FBY_E_ARG);
    src.leaf = 3;
    assert_int_equal(fby__pq_locate(t, NULL, 0, 0, 45, &src, 1, &err), FBY_E_ARG);
    fby__table_unref(t);
}

static void *locate_many(void *user)
{
    fby__table *t = ((void **)user)[0];
    for (int i = 0; i < 200; i++) {
        fby__leaf_source src[3] = {{.leaf = 0}, {.leaf = 1}, {.leaf = 2}};
        uint64_t row = (uint64_t)(i * 7) % 44;
        if (fby__pq_locate(t, ((void **)user)[1], 0, row, row + 1, src, 3, NULL) != FBY_OK || src[1].first_row != row / 10 * 10)
            return "wrong";
    }
    return NULL;
}

static void threads_that_locate_at_once_agree(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) { /* a fresh table each: they race to build its index */
        fby__file *file = NULL;
        fby__table *t = open_golden("pages_v1.parquet", &file);
        void *arg[] = {t, file};
        pthread_t threads[4];
        for (size_t i = 0; i < COUNT(threads); i++)
            assert_int_equal(pthread_create(&threads[i], NULL, locate_many, arg), 0);
        for (size_t i = 0; i < COUNT(threads); i++) {
            void *wrong;
            assert_int_equal(pthread_join(threads[i], &wrong), 0);
            assert_null(wrong);
        }
        fby__table_unref(t);
        fby__file_unref(file);
    }
}

/* ---- hand-made pages ---- */

/* v1 pages of 4-byte values with `rows` each, PLAIN. */
static fby__buf plain_pages(const int32_t *rows, size_t n)
{
    writer w = {0};
    for (size_t i = 0; i < n; i++) {
        w_page_v1(&w, rows[i], rows[i] * 4);
        for (int32_t k = 0; k < rows[i] * 4; k++)
            w_byte(&w, 0);
    }
    return w.b;
}

static void pages_of_any_size_are_indexed(void **state)
{
    (void)state;
    static const int32_t rows[] = {3, 0, 5, 0, 0, 1};
    fby__buf body = plain_pages(rows, COUNT(rows));
    chunk_spec c = {.type = FBY__PQ_INT32, .n_values = 9, .uncompressed = 1, .compressed = (int64_t)body.n, .data = 4, .dictionary = -1};
    fby__buf b = one_column_file(&INT32_LEAF, &c, 9, (fby__bytes){body.data, body.n});
    fby__table *t;
    fby__file *file = NULL;
    fby_error err;
    check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
    static const uint64_t page_of_row[] = {0, 0, 0, 3, 3, 3, 3, 3, 8};
    for (uint64_t row = 0; row < 9; row++) {
        fby__leaf_source src = {0};
        check_ok(fby__pq_locate(t, file, 0, row, row + 1, &src, 1, &err), &err);
        assert_int_equal(src.first_row, page_of_row[row]);
        assert_int_equal(src.range[0].n, 0);
    }
    assert_int_equal(t->n_rows, 9);
    fby_chunk_info info = {.size = sizeof info};
    check_ok(t->ops->describe(t, file, 0, 0, &info, &err), &err);
    assert_int_equal(info.n_pages, 6);
    fby__table_unref(t);
    fby__file_unref(file);
    fby__buf_fini(&b);
    fby__buf_fini(&body);
}

static void a_dictionary_page_is_found_though_its_offset_is_not_stated(void **state)
{
    (void)state;
    for (int stated = 0; stated < 3; stated++) { /* absent, 0, right */
        writer w = {0};
        w_dictionary(&w, 1, 4);
        for (int i = 0; i < 4; i++)
            w_byte(&w, 7);
        int64_t pages_at = 4 + (int64_t)w.b.n;
        w_page_v1(&w, 5, 1);
        w_byte(&w, 0);
        w_page_v1(&w, 5, 1);
        w_byte(&w, 0);
        chunk_spec c = {.type = FBY__PQ_INT32,
                        .n_values = 10,
                        .compressed = (int64_t)w.b.n,
                        .data = stated == 2 ? pages_at : 4,
                        .dictionary = stated == 2 ? 4 : stated - 1};
        fby__buf b = one_column_file(&INT32_LEAF, &c, 10, (fby__bytes){w.b.data, w.b.n});
        fby__table *t;
        fby__file *file = NULL;
        fby_error err;
        check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
        fby__leaf_source src = {0};
        check_ok(fby__pq_locate(t, file, 0, 0, 10, &src, 1, &err), &err);
        assert_int_equal(src.range[1].offset, 4);
        check_ok(fby__pq_locate(t, file, 0, 5, 10, &src, 1, &err), &err);
        assert_int_equal(src.range[0].offset, 4);
        assert_int_equal(src.range[0].n, pages_at - 4);
        assert_int_equal(src.first_row, 5);
        fby__table_unref(t);
        fby__file_unref(file);
        fby__buf_fini(&b);
        fby__buf_fini(&w.b);
    }
}

static void page_headers_longer_than_the_first_read_are_read(void **state)
{
    (void)state;
    writer w = {0};
    for (int page = 0; page < 2; page++) {
        w_open(&w);
        w_i32(&w, 1, FBY__PQ_DATA_PAGE);
        w_i32(&w, 2, 0);
        w_i32(&w, 3, 0);
        w_struct(&w, 5);
        w_i32(&w, 1, 5);
        w_i32(&w, 2, 0);
        w_struct(&w, 5); /* statistics with a long maximum */
        char text[3001];
        memset(text, 'z', 3000);
        text[3000] = 0;
        w_text(&w, 1, text);
        w_close(&w);
        w_close(&w);
        w_close(&w);
    }
    chunk_spec c = {.type = FBY__PQ_INT32, .n_values = 10, .compressed = (int64_t)w.b.n, .data = 4, .dictionary = -1};
    fby__buf b = one_column_file(&INT32_LEAF, &c, 10, (fby__bytes){w.b.data, w.b.n});
    fby__table *t;
    fby__file *file = NULL;
    fby_error err;
    check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
    fby__leaf_source src = {0};
    check_ok(fby__pq_locate(t, file, 0, 7, 8, &src, 1, &err), &err);
    assert_int_equal(src.first_row, 5);
    fby__table_unref(t);
    fby__file_unref(file);
    fby__buf_fini(&b);
    fby__buf_fini(&w.b);
}

static void pages_that_do_not_add_up_are_an_error_naming_the_column(void **state)
{
    (void)state;
    static const int32_t rows[] = {3, 5};
    fby__buf body = plain_pages(rows, 2);
    for (int less = 0; less < 2; less++) {
        chunk_spec c = {.type = FBY__PQ_INT32, .n_values = 8 + !less, .compressed = (int64_t)body.n - less, .data = 4, .dictionary = -1};
        fby__buf b = one_column_file(&INT32_LEAF, &c, 8 + !less, (fby__bytes){body.data, body.n});
        fby__table *t;
        fby__file *file = NULL;
        fby_error err;
        check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
        fby__leaf_source src = {0};
        assert_int_equal(fby__pq_locate(t, file, 0, 1, 2, &src, 1, &err), FBY_E_FORMAT);
        assert_non_null(strstr(err.message, "row group 0, column 'a'"));
        fby__table_unref(t);
        fby__file_unref(file);
        fby__buf_fini(&b);
    }
    fby__buf_fini(&body);
}

/* ---- describe ---- */

static void describe_tells_what_a_chunk_is(void **state)
{
    (void)state;
    fby__file *file = NULL;
    fby__table *t = open_golden("pages_v1.parquet", &file);
    fby_chunk_info info = {.size = sizeof info};
    fby_error err;
    check_ok(t->ops->describe(t, file, 0, 2, &info, &err), &err);
    assert_string_equal(info.codec, fby__codec_name(FBY__CODEC_NONE));
    assert_int_equal(info.n_pages, 5);
    assert_int_equal(info.n_dictionary_values, 5);
    assert_int_equal(info.page_version, 1);
    assert_int_equal(info.n_values, 45);
    assert_int_equal(info.null_count, -1);
    assert_true(info.encodings & 1u << FBY__PQ_RLE_DICTIONARY);
    assert_false(info.has_offset_index);
    assert_int_equal(t->ops->describe(t, file, 0, 3, &info, &err), FBY_E_ARG);
    fby__table_unref(t);
    fby__file_unref(file);
    t = open_golden("nested_v2.parquet", &file);
    check_ok(t->ops->describe(t, file, 0, 0, &info, &err), &err);
    assert_int_equal(info.page_version, 2);
    assert_int_equal(info.n_dictionary_values, -1);
    fby__table_unref(t);
    fby__file_unref(file);
}

static void page_headers_cut_anywhere_are_errors(void **state)
{
    (void)state;
    writer w = {0};
    w_page_v2(&w, 10, 3, 40);
    fby__pq_page page;
    fby_error err;
    check_ok(fby__pq_page_parse((fby__bytes){w.b.data, w.b.n}, &page, &err), &err);
    assert_int_equal(page.header_bytes, w.b.n);
    assert_int_equal(page.n_rows, 3);
    assert_true(page.is_compressed); /* the default */
    for (size_t n = 0; n < w.b.n; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, w.b.data, n);
        assert_int_equal(fby__pq_page_parse((fby__bytes){copy, n}, &page, &err), FBY_E_FORMAT);
        free(copy);
    }
    fby__buf_fini(&w.b);
    for (int which = 0; which < 4; which++) {
        w = (writer){0};
        if (which == 0)
            w_page_v1(&w, -1, 4);
        else if (which == 1)
            w_page_v1(&w, 1, -4);
        else if (which == 2)
            w_page_v2(&w, 3, 4, 4); /* more rows than values */
        else
            w_page_v2(&w, -1, 0, 4);
        assert_int_equal(fby__pq_page_parse((fby__bytes){w.b.data, w.b.n}, &page, &err), FBY_E_FORMAT);
        fby__buf_fini(&w.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_located_by_page_headers),
        cmocka_unit_test(rows_are_located_by_the_offset_index),
        cmocka_unit_test(an_offset_index_that_makes_no_sense_is_left_aside),
        cmocka_unit_test(an_offset_index_with_a_flipped_bit_never_points_between_pages),
        cmocka_unit_test(the_offset_index_is_read_instead_of_page_headers),
        cmocka_unit_test(repeated_columns_are_located_in_v2_pages_only),
        cmocka_unit_test(locate_without_a_file_needs_whole_groups),
        cmocka_unit_test(threads_that_locate_at_once_agree),
        cmocka_unit_test(pages_of_any_size_are_indexed),
        cmocka_unit_test(a_dictionary_page_is_found_though_its_offset_is_not_stated),
        cmocka_unit_test(page_headers_longer_than_the_first_read_are_read),
        cmocka_unit_test(pages_that_do_not_add_up_are_an_error_naming_the_column),
        cmocka_unit_test(describe_tells_what_a_chunk_is),
        cmocka_unit_test(page_headers_cut_anywhere_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
