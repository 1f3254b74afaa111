/*
 * Parquet metadata: footers, schemas, page headers, the page index, freezing. Golden files of pyarrow (tests/golden), footers made
 * by hand (parquet_builder.h), every truncation and every flipped bit of small files, and real files where they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ftw.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "format/parquet_builder.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* their shadow memory and quarantine are not ours to bound */
#else
#define SANITIZED 0
#endif

#define GOLDEN FBY_SOURCE_DIR "/tests/golden/parquet/"
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const GOLDEN_FILES[] = {
    "flat_v1_two_groups.parquet", "pages_v1.parquet",   "pages_v1_offset_index.parquet", "nested_v2.parquet",
    "nested_v1.parquet",          "every_type.parquet", "int96.parquet",                 "no_rows.parquet"};

static fby__buf read_golden(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    fby__buf b = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t part[1024];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        assert_int_equal(fby__buf_put(&b, part, n), 0);
    assert_int_equal(fclose(f), 0);
    return b;
}

static void check_ok(fby_status st, const fby_error *err)
{
    if (st != FBY_OK)
        fail_msg("%s: %s", fby_status_name(st), err->message);
}

static fby__table *open_golden(const char *name, fby__file **out_file)
{
    fby__buf b = read_golden(name);
    fby__table *t = NULL;
    fby_error err;
    check_ok(open_bytes(b.data, b.n, &t, out_file, &err), &err);
    fby__buf_fini(&b);
    return t;
}

static void check_type(const fby_field *f, const char *want)
{
    char text[1024];
    (void)fby_field_type_text(f, text, sizeof text);
    assert_string_equal(text, want);
}

/* ---- golden files ---- */

static void a_flat_file_has_its_rows_groups_and_columns(void **state)
{
    (void)state;
    fby__table *t = open_golden("flat_v1_two_groups.parquet", NULL);
    check_type(&t->schema->fields[0], "struct<id: int32, x: float64, name: string>");
    assert_int_equal(t->n_groups, 2);
    assert_int_equal(t->n_rows, 30);
    assert_int_equal(t->groups[0].rows, 20);
    assert_int_equal(t->groups[1].rows, 10);
    assert_int_equal(t->groups[1].first_row, 20);
    assert_false(t->schema->fields[1].nullable);
    assert_true(t->schema->fields[2].nullable);
    assert_int_equal(t->schema->leaves[0].max_def, 0);
    assert_int_equal(t->schema->leaves[1].max_def, 1);
    uint64_t stored = 0;
    for (uint32_t leaf = 0; leaf < 3; leaf++) {
        const fby__pq_chunk *c = fby__pq_chunk_of(t, 0, leaf);
        assert_int_equal(c->codec, FBY__CODEC_SNAPPY);
        assert_int_equal(c->n_values, 20);
        stored += c->compressed_bytes;
    }
    assert_int_equal(t->groups[0].stored_bytes, stored);
    assert_int_equal(fby__pq_chunk_of(t, 0, 1)->null_count, 3);
    assert_int_equal(fby__pq_chunk_of(t, 0, 0)->null_count, -1);
    fby__leaf_bounds bounds;
    t->ops->leaf_bounds(t, 1, 1, &bounds);
    assert_int_equal(bounds.n_values, 10);
    assert_false(bounds.expands);
    fby__table_unref(t);
}

static void every_type_has_its_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *name, *type;
        fby_dtype dtype;
    } want[] = {{"bool", "bool", FBY_BOOL},
                {"i8", "int8", FBY_INT8},
                {"u16", "uint16", FBY_UINT16},
                {"u32", "uint32", FBY_UINT32},
                {"u64", "uint64", FBY_UINT64},
                {"f16", "float16", FBY_FLOAT16},
                {"f32", "float32", FBY_FLOAT32},
                {"dec9", "decimal(9, 2)", FBY_FLOAT64},
                {"dec38", "decimal(38, 1)", FBY_FLOAT64},
                {"date", "date", FBY_INT32},
                {"t_ms", "time[ms]", FBY_INT32},
                {"t_ns", "time[ns]", FBY_INT64},
                {"ts_us", "timestamp[us]", FBY_INT64},
                {"ts_ms_utc", "timestamp[ms, UTC]", FBY_INT64},
                {"str", "string", FBY_DTYPE_NONE},
                {"bin", "binary", FBY_DTYPE_NONE},
                {"fix", "fixed_binary[3]", FBY_DTYPE_NONE},
                {"nul", "null", FBY_DTYPE_NONE}};
    fby__table *t = open_golden("every_type.parquet", NULL);
    for (size_t i = 0; i < COUNT(want); i++) {
        const fby_field *f = &t->schema->fields[fby__schema_find(t->schema, want[i].name)];
        check_type(f, want[i].type);
        assert_int_equal(f->dtype, want[i].dtype);
    }
    fby__table_unref(t);
    t = open_golden("int96.parquet", NULL);
    check_type(&t->schema->fields[1], "timestamp[ns]");
    assert_int_equal(t->schema->leaves[0].physical, FBY__PQ_INT96);
    fby__table_unref(t);
}

static void nested_columns_have_their_levels(void **state)
{
    (void)state;
    fby__table *t = open_golden("nested_v2.parquet", NULL);
    fby__schema *s = t->schema;
    check_type(&s->fields[0], "struct<hits: list<int16>, pulses: list<struct<time: float32, dom: int32>>, "
                              "tags: map<string, int64>, deep: list<list<int8>>, s: struct<a: struct<b: int64>>>");
    static const struct {
        const char *path;
        uint16_t max_def, max_rep;
    } want[] = {{"hits", 3, 1}, {"pulses.time", 4, 1}, {"pulses.dom", 4, 1}, {"tags.key", 2, 1},
                {"tags.value", 3, 1}, {"deep", 5, 2}, {"s.a.b", 3, 0}};
    for (uint32_t i = 0; i < COUNT(want); i++) {
        assert_int_equal(fby__schema_find_leaf(s, want[i].path), i);
        assert_int_equal(s->leaves[i].max_def, want[i].max_def);
        assert_int_equal(s->leaves[i].max_rep, want[i].max_rep);
    }
    uint32_t deep = fby__schema_find(s, "deep");
    fby__node outer = s->nodes[deep], inner = s->nodes[s->fields[deep].children - s->fields];
    assert_int_equal(outer.def_level, 1);
    assert_int_equal(outer.list_def_level, 2);
    assert_int_equal(outer.rep_level, 1);
    assert_int_equal(inner.def_level, 3);
    assert_int_equal(inner.list_def_level, 4);
    assert_int_equal(inner.rep_level, 2);
    fby__table_unref(t);
}

static void a_file_without_rows_is_a_table_without_rows(void **state)
{
    (void)state;
    fby__table *t = open_golden("no_rows.parquet", NULL);
    assert_int_equal(t->n_rows, 0);
    assert_int_equal(t->schema->n_leaves, 3);
    fby__table_unref(t);
}

/* ---- locate ---- */

/* Each page of these files holds 10 rows; every row range must come with the pages that hold it and no others. */
static void check_row_ranges(const char *name, bool dictionary_of_name)
{
    fby__file *file;
    fby__table *t = open_golden(name, &file);
    fby_error err;
    assert_int_equal(t->n_rows, 45);
    for (uint64_t begin = 0; begin <= 45; begin++)
        for (uint64_t end = begin; end <= 45; end++) {
            fby__leaf_source src[3] = {{.leaf = 0}, {.leaf = 1}, {.leaf = 2}};
            bool whole = begin == 0 && end == 45;
            check_ok(t->ops->locate(t, file, 0, begin, end, src, 3, &err), &err);
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
        fby__file *file;
        *at = 0xff;
        check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
        fby__io_set_fault(&(fby__io_fault){0});
        fby__leaf_source src = {.leaf = 1};
        check_ok(t->ops->locate(t, file, 0, 12, 13, &src, 1, &err), &err);
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

static void the_offset_index_is_read_instead_of_page_headers(void **state)
{
    (void)state;
    fby__file *file;
    fby__table *t = open_golden("pages_v1_offset_index.parquet", &file);
    fby_error err;
    fby__io_set_fault(&(fby__io_fault){.seed = 1});
    fby__leaf_source src = {.leaf = 1};
    check_ok(t->ops->locate(t, file, 0, 12, 13, &src, 1, &err), &err);
    assert_int_equal(fby__io_fault_count(), 1); /* one read; five pages */
    check_ok(t->ops->locate(t, file, 0, 33, 44, &src, 1, &err), &err);
    assert_int_equal(fby__io_fault_count(), 1); /* remembered */
    check_ok(t->ops->locate(t, NULL, 0, 0, 45, &src, 1, &err), &err);
    fby__table_unref(t);
    fby__file_unref(file);
}

static void repeated_columns_are_located_in_v2_pages_only(void **state)
{
    (void)state;
    fby__file *file;
    fby_error err;
    fby__table *t = open_golden("nested_v2.parquet", &file);
    fby__leaf_source src = {.leaf = 1};
    check_ok(t->ops->locate(t, file, 0, 24, 25, &src, 1, &err), &err);
    assert_true(src.first_row > 0 && src.first_row <= 24);
    assert_true(src.range[1].n < fby__pq_chunk_of(t, 0, 1)->compressed_bytes);
    fby__table_unref(t);
    fby__file_unref(file);

    t = open_golden("nested_v1.parquet", &file); /* records may span v1 pages */
    check_ok(t->ops->locate(t, file, 0, 7, 8, &src, 1, &err), &err);
    assert_int_equal(src.first_row, 0);
    assert_int_equal(src.range[0].n, 0);
    assert_int_equal(src.range[1].offset, fby__pq_chunk_of(t, 0, 1)->data_offset);
    assert_int_equal(src.range[1].n, fby__pq_chunk_of(t, 0, 1)->compressed_bytes);
    src.leaf = 6; /* s.a.b does not repeat: its pages are found */
    check_ok(t->ops->locate(t, file, 0, 7, 8, &src, 1, &err), &err);
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
    check_ok(t->ops->locate(t, NULL, 0, 0, 45, &src, 1, &err), &err);
    assert_int_equal(t->ops->locate(t, NULL, 0, 0, 44, &src, 1, &err), FBY_E_ARG);
    assert_int_equal(t->ops->locate(t, NULL, 0, 0, 46, &src, 1, &err), FBY_E_ARG);
    assert_int_equal(t->ops->locate(t, NULL, 1, 0, 1, &src, 1, &err), FBY_E_ARG);
    src.leaf = 3;
    assert_int_equal(t->ops->locate(t, NULL, 0, 0, 45, &src, 1, &err), FBY_E_ARG);
    fby__table_unref(t);
}

static void *locate_many(void *user)
{
    fby__table *t = ((void **)user)[0];
    for (int i = 0; i < 200; i++) {
        fby__leaf_source src[3] = {{.leaf = 0}, {.leaf = 1}, {.leaf = 2}};
        uint64_t row = (uint64_t)(i * 7) % 44;
        if (t->ops->locate(t, ((void **)user)[1], 0, row, row + 1, src, 3, NULL) != FBY_OK || src[1].first_row != row / 10 * 10)
            return "wrong";
    }
    return NULL;
}

static void threads_that_locate_at_once_agree(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) { /* a fresh table each: they race to build its index */
        fby__file *file;
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

/* ---- hand-made files ---- */

static const spec ROOT_OF_ONE = {.name = "schema", .n_children = 1};

static fby__buf one_column_file(const spec *leaf, const chunk_spec *chunk, int64_t rows, fby__bytes body)
{
    writer w = {0};
    spec specs[] = {ROOT_OF_ONE, *leaf};
    w_i32(&w, 1, 2);
    w_schema(&w, specs, 2);
    w_i64(&w, 3, 99); /* wrong on purpose: the row groups count */
    w_list(&w, 4, FBY__THRIFT_STRUCT, 1);
    w_open(&w);
    w_list(&w, 1, FBY__THRIFT_STRUCT, 1);
    w_chunk(&w, chunk);
    w_i64(&w, 2, 0);
    w_i64(&w, 3, rows);
    w_close(&w);
    w_byte(&w, 0);
    fby__buf out = parquet_bytes(body, (fby__bytes){w.b.data, w.b.n});
    fby__buf_fini(&w.b);
    return out;
}

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

static const spec INT32_LEAF = {.name = "a", .type = FBY__PQ_INT32};

static void pages_of_any_size_are_indexed(void **state)
{
    (void)state;
    static const int32_t rows[] = {3, 0, 5, 0, 0, 1};
    fby__buf body = plain_pages(rows, COUNT(rows));
    chunk_spec c = {.type = FBY__PQ_INT32, .n_values = 9, .uncompressed = 1, .compressed = (int64_t)body.n, .data = 4, .dictionary = -1};
    fby__buf b = one_column_file(&INT32_LEAF, &c, 9, (fby__bytes){body.data, body.n});
    fby__table *t;
    fby__file *file;
    fby_error err;
    check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
    static const uint64_t page_of_row[] = {0, 0, 0, 3, 3, 3, 3, 3, 8};
    for (uint64_t row = 0; row < 9; row++) {
        fby__leaf_source src = {0};
        check_ok(t->ops->locate(t, file, 0, row, row + 1, &src, 1, &err), &err);
        assert_int_equal(src.first_row, page_of_row[row]);
        assert_int_equal(src.range[0].n, 0);
    }
    assert_int_equal(t->n_rows, 9);
    fby_chunk_info info;
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
        chunk_spec c = {.type = FBY__PQ_INT32, .n_values = 10, .compressed = (int64_t)w.b.n,
                        .data = stated == 2 ? pages_at : 4, .dictionary = stated == 2 ? 4 : stated - 1};
        fby__buf b = one_column_file(&INT32_LEAF, &c, 10, (fby__bytes){w.b.data, w.b.n});
        fby__table *t;
        fby__file *file;
        fby_error err;
        check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
        fby__leaf_source src = {0};
        check_ok(t->ops->locate(t, file, 0, 0, 10, &src, 1, &err), &err);
        assert_int_equal(src.range[1].offset, 4);
        check_ok(t->ops->locate(t, file, 0, 5, 10, &src, 1, &err), &err);
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
    fby__file *file;
    fby_error err;
    check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
    fby__leaf_source src = {0};
    check_ok(t->ops->locate(t, file, 0, 7, 8, &src, 1, &err), &err);
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
        fby__file *file;
        fby_error err;
        check_ok(open_bytes(b.data, b.n, &t, &file, &err), &err);
        fby__leaf_source src = {0};
        assert_int_equal(t->ops->locate(t, file, 0, 1, 2, &src, 1, &err), FBY_E_FORMAT);
        assert_non_null(strstr(err.message, "row group 0, column 'a'"));
        fby__table_unref(t);
        fby__file_unref(file);
        fby__buf_fini(&b);
    }
    fby__buf_fini(&body);
}

/* What is wrong with one chunk, and how the message must name it. */
static void chunks_that_lie_are_refused_with_row_group_and_column(void **state)
{
    (void)state;
    static const chunk_spec good = {.type = FBY__PQ_INT32, .n_values = 2, .uncompressed = 20, .compressed = 40, .data = 4, .dictionary = -1};
    struct {
        chunk_spec c;
        fby_status status;
        const char *word;
    } cases[16];
    size_t n = 0;
#define BAD(st, text, ...) cases[n].c = good, __VA_ARGS__, cases[n].status = st, cases[n++].word = text
#define C cases[n].c
    BAD(FBY_E_FORMAT, "negative", C.n_values = -2);
    BAD(FBY_E_FORMAT, "negative", C.compressed = -1);
    BAD(FBY_E_FORMAT, "negative", C.data = -4);
    BAD(FBY_E_FORMAT, "3 values", C.n_values = 3);
    BAD(FBY_E_FORMAT, "not lie in the file", C.compressed = 4000);
    BAD(FBY_E_FORMAT, "not lie in the file", C.data = 4000);
    BAD(FBY_E_FORMAT, "not lie in the file", C.data = INT64_MAX, C.compressed = INT64_MAX);
    BAD(FBY_E_FORMAT, "not lie in the file", C.data = 2);
    BAD(FBY_E_FORMAT, "physical type", C.type = FBY__PQ_INT64);
    BAD(FBY_E_FORMAT, "claims", C.uncompressed = (int64_t)1 << 40);
    BAD(FBY_E_UNSUPPORTED, "another file ('part-0.parquet')", C.file_path = "part-0.parquet");
    BAD(FBY_E_UNSUPPORTED, "encrypted", C.encrypted = true);
#undef C
#undef BAD
    uint8_t body[64] = {0};
    for (size_t i = 0; i < n; i++) {
        fby__buf b = one_column_file(&INT32_LEAF, &cases[i].c, 2, (fby__bytes){body, sizeof body});
        fby__table *t;
        fby_error err = {.code = FBY_OK};
        assert_int_equal(open_bytes(b.data, b.n, &t, NULL, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].word));
        assert_non_null(strstr(err.message, "row group 0, column 'a'"));
        assert_non_null(strstr(err.message, "/proc/self/fd/"));
        fby__buf_fini(&b);
    }
}

static void a_codec_that_is_not_supported_is_refused_at_use_by_name(void **state)
{
    (void)state;
    uint8_t body[64] = {0};
    for (int codec = 3; codec <= 99; codec += 96) {
        chunk_spec c = {.type = FBY__PQ_INT32, .codec = codec, .n_values = 2, .compressed = 40, .data = 4, .dictionary = -1};
        fby__buf b = one_column_file(&INT32_LEAF, &c, 2, (fby__bytes){body, sizeof body});
        fby__table *t;
        fby_error err;
        check_ok(open_bytes(b.data, b.n, &t, NULL, &err), &err);
        const char *name = codec == 3 ? "lzo" : "unknown codec";
        fby_chunk_info info;
        check_ok(t->ops->describe(t, NULL, 0, 0, &info, &err), &err);
        assert_non_null(strstr(info.codec, name));
        assert_int_equal(info.n_pages, -1);
        fby__leaf_source src = {0};
        assert_int_equal(t->ops->locate(t, NULL, 0, 0, 2, &src, 1, &err), FBY_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, name));
        fby__table_unref(t);
        fby__buf_fini(&b);
    }
}

static void encodings_to_come_do_not_keep_a_file_from_opening(void **state)
{
    (void)state;
    uint8_t body[64] = {0};
    static const struct {
        int encoding;
        uint16_t bits;
    } cases[] = {{10, 1 << 10}, {40, 1 << 15}, {-1, 1 << 15}, {7, 1 << 7}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        chunk_spec c = {.type = FBY__PQ_INT32, .encoding = cases[i].encoding, .n_values = 2, .compressed = 40, .data = 4, .dictionary = -1};
        fby__buf b = one_column_file(&INT32_LEAF, &c, 2, (fby__bytes){body, sizeof body});
        fby__table *t;
        fby_error err;
        check_ok(open_bytes(b.data, b.n, &t, NULL, &err), &err);
        assert_int_equal(fby__pq_chunk_of(t, 0, 0)->encodings, cases[i].bits);
        fby__leaf_bounds bounds;
        t->ops->leaf_bounds(t, 0, 0, &bounds);
        assert_int_equal(bounds.expands, cases[i].bits != 1 << 10);
        fby__table_unref(t);
        fby__buf_fini(&b);
    }
}

static void row_groups_before_the_schema_are_read(void **state)
{
    (void)state;
    writer w = {0};
    spec specs[] = {ROOT_OF_ONE, INT32_LEAF};
    chunk_spec c = {.type = FBY__PQ_INT32, .n_values = 2, .compressed = 40, .data = 4, .dictionary = -1};
    w_list(&w, 4, FBY__THRIFT_STRUCT, 1);
    w_open(&w);
    w_i64(&w, 3, 2); /* and the rows before the columns */
    w_list(&w, 1, FBY__THRIFT_STRUCT, 1);
    w_chunk(&w, &c);
    w_close(&w);
    w_schema(&w, specs, 2);
    w_byte(&w, 0);
    uint8_t body[64] = {0};
    fby__buf b = parquet_bytes((fby__bytes){body, sizeof body}, (fby__bytes){w.b.data, w.b.n});
    fby__table *t;
    fby_error err;
    check_ok(open_bytes(b.data, b.n, &t, NULL, &err), &err);
    assert_int_equal(t->n_rows, 2);
    fby__table_unref(t);
    fby__buf_fini(&b);
    fby__buf_fini(&w.b);
}

/* ---- schemas made by hand ---- */

/* Open a file of no row groups with this schema; its type as text, or the error. */
static fby__schema *schema_of(const spec *specs, size_t n, const char *want)
{
    writer w = {0};
    w_i32(&w, 1, 2);
    w_schema(&w, specs, n);
    w_i64(&w, 3, 0);
    w_list(&w, 4, FBY__THRIFT_STRUCT, 0);
    w_byte(&w, 0);
    fby__buf b = parquet_bytes((fby__bytes){0}, (fby__bytes){w.b.data, w.b.n});
    fby__table *t = NULL;
    fby_error err;
    fby_status st = open_bytes(b.data, b.n, &t, NULL, &err);
    fby__buf_fini(&w.b);
    fby__buf_fini(&b);
    if (st != FBY_OK) {
        assert_non_null(strstr(err.message, want));
        return NULL;
    }
    check_type(&t->schema->fields[0], want);
    fby__schema *s = fby__schema_ref(t->schema);
    fby__table_unref(t);
    return s;
}

#define R FBY__PQ_REQUIRED
#define O FBY__PQ_OPTIONAL
#define P FBY__PQ_REPEATED
#define LIST .converted = FBY__PQ_CONV_LIST + 1
#define MAP .converted = FBY__PQ_CONV_MAP + 1
#define I32 .type = FBY__PQ_INT32
#define G(n, r, children) {.name = n, .repetition = r, .n_children = children}

/* The examples of LogicalTypes.md, and what else is about. def and rep: of each leaf. */
static void every_legacy_shape_of_lists_and_maps_is_understood(void **state)
{
    (void)state;
    static const struct {
        const char *want;
        spec s[8];
        uint16_t def[2], rep[2];
    } cases[] = {
        {"struct<a: list<int32>>",
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, G("list", P, 1), {"element", O, I32}}, {3}, {1}},
        {"struct<a: list<int32>>", /* logical type alone, other names */
         {{"root", .n_children = 1}, {"a", R, 1, .logical = FBY__PQ_LOGICAL_LIST}, G("bag", P, 1), {"item", R, I32}}, {1}, {1}},
        {"struct<a: list<int32>>", /* two levels: a repeated primitive */
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, {"element", P, I32}}, {2}, {1}},
        {"struct<a: list<struct<str: int32, num: int32>>>", /* a repeated group of two */
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, G("element", P, 2), {"str", R, I32}, {"num", O, I32}}, {2, 3}, {1, 1}},
        {"struct<a: list<struct<str: int32>>>",
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, G("array", P, 1), {"str", R, I32}}, {2}, {1}},
        {"struct<a: list<struct<str: int32>>>",
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, G("a_tuple", P, 1), {"str", R, I32}}, {2}, {1}},
        {"struct<a: list<int32>>", /* another list's tuple is none */
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, G("b_tuple", P, 1), {"str", R, I32}}, {2}, {1}},
        {"struct<a: list<int32>>", /* repeated, no annotation */
         {{"root", .n_children = 1}, {"a", P, I32}}, {1}, {1}},
        {"struct<a: list<struct<x: int32, y: int32>>>",
         {{"root", .n_children = 1}, G("a", P, 2), {"x", R, I32}, {"y", O, I32}}, {1, 2}, {1, 1}},
        {"struct<a: list<list<int32>>>", /* two-level lists in each other: parquet-avro */
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, {"array", P, 1, LIST}, {"array", P, I32}}, {3}, {2}},
        {"struct<a: list<struct<list: list<int32>>>>", /* the inner one without annotation */
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, G("list", P, 1), {"list", P, I32}}, {3}, {2}},
        {"struct<a: list<list<int32>>>",
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, G("list", P, 1), {"element", O, 1, LIST}, G("list", P, 1), {"element", O, I32}},
         {5}, {2}},
        {"struct<a: map<int32, int32>>",
         {{"root", .n_children = 1}, {"a", O, 1, MAP}, G("key_value", P, 2), {"key", R, I32}, {"value", O, I32}}, {2, 3}, {1, 1}},
        {"struct<a: map<int32, int32>>", /* other names, the annotation on both */
         {{"root", .n_children = 1}, {"a", R, 1, MAP}, {"map", P, 2, .converted = FBY__PQ_CONV_MAP_KEY_VALUE + 1}, {"k", R, I32}, {"v", R, I32}},
         {1, 1}, {1, 1}},
        {"struct<a: map<int32, int32>>", /* MAP_KEY_VALUE on the outer group */
         {{"root", .n_children = 1}, {"a", O, 1, .converted = FBY__PQ_CONV_MAP_KEY_VALUE + 1}, G("map", P, 2), {"key", R, I32}, {"value", O, I32}},
         {2, 3}, {1, 1}},
        {"struct<a: list<int32>>", /* a map without values */
         {{"root", .n_children = 1}, {"a", O, 1, MAP}, {"key_value", P, 1, .converted = FBY__PQ_CONV_MAP_KEY_VALUE + 1}, {"key", R, I32}}, {2}, {1}},
        {"struct<a: list<map<int32, int32>>>", /* a repeated map is an element */
         {{"root", .n_children = 1}, {"a", O, 1, LIST}, {"element", P, 1, .logical = FBY__PQ_LOGICAL_MAP}, G("key_value", P, 2), {"key", R, I32}, {"value", R, I32}},
         {3, 3}, {2, 2}},
        {"struct<a: struct<x: int32, y: int32>>", /* no list, whatever it says */
         {{"root", .n_children = 1}, {"a", O, 2, LIST}, {"x", O, I32}, {"y", R, I32}}, {2, 1}, {0, 0}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t n = 0;
        while (n < 8 && cases[i].s[n].name)
            n++;
        fby__schema *s = schema_of(cases[i].s, n, cases[i].want);
        assert_non_null(s);
        for (uint32_t leaf = 0; leaf < s->n_leaves; leaf++) {
            assert_int_equal(s->leaves[leaf].max_def, cases[i].def[leaf]);
            assert_int_equal(s->leaves[leaf].max_rep, cases[i].rep[leaf]);
        }
        fby__schema_unref(s);
    }
}

static void elements_of_legacy_lists_are_never_null(void **state)
{
    (void)state;
    static const spec specs[] = {{"root", .n_children = 1}, {"a", O, 1, LIST}, {"array", P, I32}};
    fby__schema *s = schema_of(specs, 3, "struct<a: list<int32>>");
    assert_non_null(s);
    const fby_field *a = &s->fields[1];
    assert_true(a->nullable);
    assert_false(a->children[0].nullable);
    assert_string_equal(a->children[0].path, "a");
    assert_int_equal(s->nodes[1].def_level, 1);
    assert_int_equal(s->nodes[1].list_def_level, 2);
    assert_int_equal(s->nodes[2].def_level, 2);
    fby__schema_unref(s);
}

static void annotations_say_what_values_mean(void **state)
{
    (void)state;
    static const struct {
        const char *want;
        spec s;
    } cases[] = {
        {"uint8", {I32, .converted = FBY__PQ_CONV_UINT_8 + 1}},
        {"int16", {I32, .converted = FBY__PQ_CONV_INT_16 + 1}},
        {"uint64", {.type = FBY__PQ_INT64, .converted = FBY__PQ_CONV_UINT_64 + 1}},
        {"uint16", {I32, .logical = FBY__PQ_LOGICAL_INTEGER, .bits = 16}},
        {"int8", {I32, .logical = FBY__PQ_LOGICAL_INTEGER, .bits = 8, .flag = true}},
        {"int32", {I32, .logical = FBY__PQ_LOGICAL_INTEGER, .bits = 12, .flag = true}},             /* no such width */
        {"int64", {.type = FBY__PQ_INT64, .converted = FBY__PQ_CONV_UINT_8 + 1}},                   /* does not fit */
        {"uint32", {I32, .converted = FBY__PQ_CONV_INT_32 + 1, .logical = FBY__PQ_LOGICAL_INTEGER, .bits = 32}}, /* logical wins */
        {"timestamp[us, UTC]", {.type = FBY__PQ_INT64, .converted = FBY__PQ_CONV_TIMESTAMP_MICROS + 1}},
        {"timestamp[ms, UTC]", {.type = FBY__PQ_INT64, .converted = FBY__PQ_CONV_TIMESTAMP_MILLIS + 1}},
        {"timestamp[ns, UTC]", {.type = FBY__PQ_INT64, .logical = FBY__PQ_LOGICAL_TIMESTAMP, .unit = 3, .flag = true}},
        {"timestamp[ms]", {.type = FBY__PQ_INT64, .logical = FBY__PQ_LOGICAL_TIMESTAMP, .unit = 1}},
        {"time[ms]", {I32, .converted = FBY__PQ_CONV_TIME_MILLIS + 1}},
        {"time[us]", {.type = FBY__PQ_INT64, .logical = FBY__PQ_LOGICAL_TIME, .unit = 2, .flag = true}},
        {"date", {I32, .converted = FBY__PQ_CONV_DATE + 1}},
        {"decimal(5, 2)", {I32, .converted = FBY__PQ_CONV_DECIMAL + 1, .precision = 5, .scale = 2}},
        {"decimal(18, 18)", {.type = FBY__PQ_INT64, .logical = FBY__PQ_LOGICAL_DECIMAL, .precision = 18, .scale = 18}},
        {"decimal(40, 1)", {.type = FBY__PQ_FLBA, .type_length = 17, .logical = FBY__PQ_LOGICAL_DECIMAL, .precision = 40, .scale = 1}},
        {"decimal(40, 1)", {.type = FBY__PQ_BYTE_ARRAY, .logical = FBY__PQ_LOGICAL_DECIMAL, .precision = 40, .scale = 1}},
        {"int32", {I32, .converted = FBY__PQ_CONV_DECIMAL + 1, .precision = 2, .scale = 3}}, /* scale above precision */
        {"string", {.type = FBY__PQ_BYTE_ARRAY, .converted = FBY__PQ_CONV_UTF8 + 1}},
        {"string", {.type = FBY__PQ_BYTE_ARRAY, .logical = FBY__PQ_LOGICAL_JSON}},
        {"string", {.type = FBY__PQ_BYTE_ARRAY, .converted = FBY__PQ_CONV_ENUM + 1}},
        {"binary", {.type = FBY__PQ_BYTE_ARRAY, .logical = FBY__PQ_LOGICAL_BSON}},
        {"binary", {.type = FBY__PQ_BYTE_ARRAY, .logical = 17}}, /* geometry, to come */
        {"fixed_binary[16]", {.type = FBY__PQ_FLBA, .type_length = 16, .logical = FBY__PQ_LOGICAL_UUID}},
        {"float16", {.type = FBY__PQ_FLBA, .type_length = 2, .logical = FBY__PQ_LOGICAL_FLOAT16}},
        {"fixed_binary[4]", {.type = FBY__PQ_FLBA, .type_length = 4, .logical = FBY__PQ_LOGICAL_FLOAT16}},
        {"interval", {.type = FBY__PQ_FLBA, .type_length = 12, .converted = FBY__PQ_CONV_INTERVAL + 1}},
        {"null", {.type = FBY__PQ_BOOLEAN, .logical = FBY__PQ_LOGICAL_UNKNOWN}},
        {"bool", {.type = FBY__PQ_BOOLEAN}},
        {"float64", {.type = FBY__PQ_DOUBLE}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char want[64];
        spec specs[] = {ROOT_OF_ONE, cases[i].s};
        specs[1].name = "a";
        (void)snprintf(want, sizeof want, "struct<a: %s>", cases[i].want);
        fby__schema *s = schema_of(specs, 2, want);
        assert_non_null(s);
        fby__schema_unref(s);
    }
}

static void schemas_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const spec fixed[] = {{"root", .n_children = 1}, {"a", R, .type = FBY__PQ_FLBA}};
    assert_null(schema_of(fixed, 2, "'a' has fixed-length values of 0 bytes"));
    static const spec type[] = {{"root", .n_children = 1}, {"a", R, .type = 9}};
    assert_null(schema_of(type, 2, "'a' is a group without members or has an unknown type"));
    static const spec more[] = {{"root", .n_children = 2}, {"a", R, I32}};
    assert_null(schema_of(more, 2, "ends before"));
    static const spec less[] = {{"root", .n_children = 1}, {"a", R, I32}, {"b", R, I32}};
    assert_null(schema_of(less, 3, "ends after"));
    static const spec repetition[] = {{"root", .n_children = 1}, {"a", 3, I32}};
    assert_null(schema_of(repetition, 2, "neither required"));
    static const spec negative[] = {{"root", .n_children = 1}, G("a", R, -1)};
    assert_null(schema_of(negative, 2, "negative"));
    spec deep[FBY__MAX_LEVEL + 3];
    for (size_t i = 0; i < COUNT(deep); i++)
        deep[i] = (spec){"g", O, i + 1 < COUNT(deep), I32};
    assert_null(schema_of(deep, COUNT(deep), "deeper than"));
    for (size_t i = 1; i < 70; i++)
        deep[i].repetition = P; /* 70 repeated groups are 140 levels of ours */
    deep[70] = (spec){"x", R, I32};
    assert_null(schema_of(deep, 71, "deeper than"));
}

/* ---- what is not a Parquet file ---- */

static void refuse_bytes(const void *bytes, size_t n, fby_status want, const char *word)
{
    fby__table *t;
    fby_error err;
    assert_int_equal(open_bytes(bytes, n, &t, NULL, &err), want);
    assert_non_null(strstr(err.message, word));
    assert_non_null(strstr(err.message, "/proc/self/fd/"));
}

static void files_that_are_not_parquet_are_refused_with_what_to_do(void **state)
{
    (void)state;
    refuse_bytes("", 0, FBY_E_FORMAT, "0 bytes");
    refuse_bytes("PAR1PAR1", 8, FBY_E_FORMAT, "8 bytes");
    refuse_bytes("PAR1\0\0\0\0PAR1", 12, FBY_E_FORMAT, "footer of 0 bytes");
    refuse_bytes("PAR1\x00\x05\0\0\0PAR1", 13, FBY_E_FORMAT, "footer of 5 bytes in a file of 13");
    refuse_bytes("PAR1\0\xff\xff\xff\xffPAR1", 13, FBY_E_FORMAT, "footer of 4294967295 bytes");
    refuse_bytes("PAR1 this is some text, no more", 31, FBY_E_FORMAT, "cut short or not Parquet");
    refuse_bytes("PAR1\0\1\0\0\0PARE", 13, FBY_E_UNSUPPORTED, "encrypted");
    refuse_bytes("PAR1\0\1\0\0\0PAR1", 13, FBY_E_FORMAT, "lacks the schema");
}

static void an_encrypted_file_with_a_readable_footer_is_refused(void **state)
{
    (void)state;
    writer w = {0};
    spec specs[] = {ROOT_OF_ONE, INT32_LEAF};
    w_schema(&w, specs, 2);
    w_list(&w, 4, FBY__THRIFT_STRUCT, 0);
    w_struct(&w, 8);
    w_close(&w);
    w_byte(&w, 0);
    fby__buf b = parquet_bytes((fby__bytes){0}, (fby__bytes){w.b.data, w.b.n});
    refuse_bytes(b.data, b.n, FBY_E_UNSUPPORTED, "encrypted");
    fby__buf_fini(&b);
    fby__buf_fini(&w.b);
}

static void a_format_knows_its_files_by_their_ends(void **state)
{
    (void)state;
    fby__bytes par1 = {(const uint8_t *)"PAR1", 4}, text = {(const uint8_t *)"abcd", 4}, none = {0};
    assert_ptr_equal(fby__format_of(par1, par1), &fby__parquet_ops);
    assert_ptr_equal(fby__format_of(par1, text), &fby__parquet_ops);
    assert_ptr_equal(fby__format_of(text, par1), &fby__parquet_ops);
    assert_null(fby__format_of(text, text));
    assert_null(fby__format_of(none, none));
    assert_ptr_equal(fby__format_by_name("parquet"), &fby__parquet_ops);
    assert_null(fby__format_by_name("csv"));
}

/* ---- damage ---- */

/* Everything metadata can be asked: nothing may crash, whatever it says. */
static void use(fby__table *t, fby__file *file)
{
    fby__buf blob = {0};
    fby__table *again = NULL;
    fby_error err;
    for (uint32_t g = 0; g < t->n_groups; g++)
        for (uint32_t i = 0; i < t->schema->n_leaves; i++) {
            fby__leaf_source src = {.leaf = i};
            fby__leaf_bounds bounds;
            fby_chunk_info info;
            uint64_t rows = t->groups[g].rows;
            t->ops->leaf_bounds(t, g, i, &bounds);
            (void)t->ops->describe(t, file, g, i, &info, &err); /* may fail: the pages need not match */
            if (t->ops->locate(t, file, g, rows / 3, rows / 2, &src, 1, &err) == FBY_OK && rows / 3 < rows / 2) {
                uint64_t size = fby__file_stamp_of(file)->size_bytes;
                assert_true(src.first_row <= rows / 3);
                for (int k = 0; k < 2; k++)
                    assert_true(src.range[k].offset <= size && src.range[k].n <= size - src.range[k].offset);
            }
        }
    check_ok(t->ops->freeze(t, &blob, &err), &err);
    check_ok(t->ops->thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, &err), &err);
    fby__table_unref(again);
    fby__buf_fini(&blob);
}

static void files_truncated_at_every_byte_are_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(GOLDEN_FILES); i++) {
        fby__buf b = read_golden(GOLDEN_FILES[i]);
        for (size_t n = 0; n < b.n; n++) {
            fby__table *t;
            fby_error err;
            assert_int_equal(open_bytes(b.data, n, &t, NULL, &err), FBY_E_FORMAT);
            assert_non_null(strstr(err.message, "/proc/self/fd/"));
        }
        fby__buf_fini(&b);
    }
}

static void footers_cut_at_every_byte_but_framed_again_are_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(GOLDEN_FILES); i++) {
        fby__buf b = read_golden(GOLDEN_FILES[i]);
        uint32_t footer = fby__load_u32(b.data + b.n - 8);
        size_t start = b.n - 8 - footer;
        for (uint32_t n = 1; n < footer; n++) {
            fby__buf cut = parquet_bytes((fby__bytes){b.data + 4, start - 4}, (fby__bytes){b.data + start, n});
            fby__table *t;
            fby_error err;
            assert_int_equal(open_bytes(cut.data, cut.n, &t, NULL, &err), FBY_E_FORMAT);
            if (err.file_offset < (int64_t)start || err.file_offset > (int64_t)cut.n)
                fail_msg("offset %lld: %s", (long long)err.file_offset, err.message);
            fby__buf_fini(&cut);
        }
        fby__buf_fini(&b);
    }
}

static void flipped_bits_give_an_error_or_a_table_but_no_crash(void **state)
{
    (void)state;
    struct rusage before, after;
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    size_t tables = 0, errors = 0;
    for (size_t i = 0; i < COUNT(GOLDEN_FILES); i++) {
        fby__buf b = read_golden(GOLDEN_FILES[i]);
        for (size_t bit = 0; bit < b.n * 8; bit++) {
            fby__table *t = NULL;
            fby__file *file = NULL;
            fby_error err = {.code = FBY_OK};
            b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            fby_status st = open_bytes(b.data, b.n, &t, &file, &err);
            if (st == FBY_OK) {
                tables++;
                use(t, file);
                fby__table_unref(t);
                fby__file_unref(file);
            } else {
                errors++;
                assert_true(st == FBY_E_FORMAT || st == FBY_E_UNSUPPORTED);
                assert_non_null(strstr(err.message, "/proc/self/fd/"));
            }
            b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        fby__buf_fini(&b);
    }
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    print_message("%zu tables, %zu errors, %ld KiB more at the peak\n", tables, errors, after.ru_maxrss - before.ru_maxrss);
    assert_true(errors > 1000 && tables > 1000);
    if (!SANITIZED)
        assert_true(after.ru_maxrss - before.ru_maxrss < 16 * 1024);
}

/* Counts that promise more than a footer of a few bytes can hold must not be believed. */
static void huge_counts_in_small_footers_allocate_nothing_huge(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        writer w = {0};
        spec specs[] = {ROOT_OF_ONE, INT32_LEAF};
        if (which == 0) {
            w_list(&w, 2, FBY__THRIFT_STRUCT, UINT32_MAX);
        } else if (which == 1) {
            w_schema(&w, specs, 2);
            w_list(&w, 4, FBY__THRIFT_STRUCT, 1u << 30);
        } else if (which == 2) {
            w_field(&w, 5, FBY__THRIFT_MAP); /* skipped, were it not so long */
            w_varint(&w, UINT64_MAX);
            w_byte(&w, FBY__THRIFT_BINARY << 4 | FBY__THRIFT_BINARY);
        } else {
            for (int i = 0; i < 100000; i++)
                w_byte(&w, 0x10 | FBY__THRIFT_STRUCT); /* a tower of unknown structs */
        }
        fby__buf b = parquet_bytes((fby__bytes){0}, (fby__bytes){w.b.data, w.b.n});
        fby__table *t;
        fby_error err;
        uint64_t count = fby__alloc_count();
        assert_int_equal(open_bytes(b.data, b.n, &t, NULL, &err), FBY_E_FORMAT);
        assert_true(fby__alloc_count() - count < 32);
        fby__buf_fini(&b);
        fby__buf_fini(&w.b);
    }
}

static void every_failing_allocation_and_read_is_reported(void **state)
{
    (void)state;
    size_t allocations = 0, reads = 0;
    for (size_t i = 0; i < COUNT(GOLDEN_FILES); i++) {
        fby__buf b = read_golden(GOLDEN_FILES[i]);
        memory_file m = memory_file_of(b.data, b.n);
        for (int kind = 0; kind < 2; kind++) {
            fby_status st = FBY_E_NOMEM;
            for (uint64_t at = 1; st != FBY_OK; at++) {
                fby__file *file = NULL;
                fby__table *t = NULL, *again = NULL;
                fby__buf blob = {0};
                fby_error err;
                fby__leaf_source src = {.leaf = 1};
                if (kind == 0)
                    fby__alloc_fail_at(at);
                else
                    fby__io_set_fault(&(fby__io_fault){.fail_at = at});
                st = fby__file_open(m.path, NULL, &file, &err);
                if (st == FBY_OK)
                    st = fby__pq_open(file, &t, &err);
                if (st == FBY_OK && t->n_rows && t->schema->n_leaves > 1)
                    st = t->ops->locate(t, file, 0, 0, 1, &src, 1, &err);
                if (st == FBY_OK)
                    st = t->ops->freeze(t, &blob, &err);
                if (st == FBY_OK)
                    st = t->ops->thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, &err);
                fby__alloc_fail_at(0);
                fby__io_set_fault(&(fby__io_fault){0});
                if (st != FBY_OK)
                    assert_int_equal(st, kind == 0 ? FBY_E_NOMEM : FBY_E_IO);
                allocations += st == FBY_E_NOMEM;
                reads += st == FBY_E_IO;
                fby__buf_fini(&blob);
                fby__table_unref(again);
                fby__table_unref(t);
                fby__file_unref(file);
            }
        }
        (void)close(m.fd);
        fby__buf_fini(&b);
    }
    print_message("%zu allocations and %zu reads failed in turn\n", allocations, reads);
    assert_true(allocations > 50 && reads > 10);
}

/* ---- freezing ---- */

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
            assert_memory_equal(fby__pq(u)->chunks, fby__pq(t)->chunks,
                                t->n_groups * t->schema->n_leaves * sizeof(fby__pq_chunk));
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

/* ---- describe ---- */

static void describe_tells_what_a_chunk_is(void **state)
{
    (void)state;
    fby__file *file;
    fby__table *t = open_golden("pages_v1.parquet", &file);
    fby_chunk_info info;
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

/* ---- real files ---- */

static size_t g_real_files;
static uint64_t g_footer_bytes, g_open_ns;

static int open_real(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    size_t n = strlen(path);
    if (type != FTW_F || n < 8 || strcmp(path + n - 8, ".parquet") != 0)
        return 0;
    fby__file *file;
    fby__table *t;
    fby_error err;
    check_ok(fby__file_open(path, NULL, &file, &err), &err);
    uint64_t start = fby__now_ns();
    check_ok(fby__pq_open(file, &t, &err), &err);
    g_open_ns += fby__now_ns() - start;
    uint8_t length[4];
    check_ok(fby__file_read(file, fby__file_stamp_of(file)->size_bytes - 8, length, 4, &err), &err);
    g_footer_bytes += fby__load_u32(length);
    assert_true(t->n_rows > 0 && t->schema->n_leaves > 0);
    for (uint32_t i = 0; i < t->schema->n_leaves; i++) {
        fby__leaf_source src = {.leaf = i};
        fby_chunk_info info;
        uint64_t rows = t->groups[0].rows;
        check_ok(t->ops->describe(t, file, 0, i, &info, &err), &err);
        assert_true(info.n_pages > 0);
        check_ok(t->ops->locate(t, file, 0, rows / 2, rows, &src, 1, &err), &err);
    }
    fby__table_unref(t);
    fby__file_unref(file);
    g_real_files++;
    return 0;
}

static void every_real_file_opens(void **state)
{
    (void)state;
    const char *dir = getenv("FOREBAY_TEST_DATA");
    if (!dir)
        dir = FBY_SOURCE_DIR "/../shared/data";
    struct stat st;
    if (stat(dir, &st) != 0) {
        print_message("no real files at %s (FOREBAY_TEST_DATA says where): skipped\n", dir);
        skip();
    }
    assert_int_equal(nftw(dir, open_real, 16, FTW_PHYS), 0);
    print_message("%zu files, %.1f MB/s of footer, opening included\n", g_real_files,
                  (double)g_footer_bytes * 1e3 / (double)(g_open_ns + 1));
    assert_true(g_real_files > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flat_file_has_its_rows_groups_and_columns),
        cmocka_unit_test(every_type_has_its_meaning),
        cmocka_unit_test(nested_columns_have_their_levels),
        cmocka_unit_test(a_file_without_rows_is_a_table_without_rows),
        cmocka_unit_test(rows_are_located_by_page_headers),
        cmocka_unit_test(rows_are_located_by_the_offset_index),
        cmocka_unit_test(an_offset_index_that_makes_no_sense_is_left_aside),
        cmocka_unit_test(the_offset_index_is_read_instead_of_page_headers),
        cmocka_unit_test(repeated_columns_are_located_in_v2_pages_only),
        cmocka_unit_test(locate_without_a_file_needs_whole_groups),
        cmocka_unit_test(threads_that_locate_at_once_agree),
        cmocka_unit_test(pages_of_any_size_are_indexed),
        cmocka_unit_test(a_dictionary_page_is_found_though_its_offset_is_not_stated),
        cmocka_unit_test(page_headers_longer_than_the_first_read_are_read),
        cmocka_unit_test(pages_that_do_not_add_up_are_an_error_naming_the_column),
        cmocka_unit_test(chunks_that_lie_are_refused_with_row_group_and_column),
        cmocka_unit_test(a_codec_that_is_not_supported_is_refused_at_use_by_name),
        cmocka_unit_test(encodings_to_come_do_not_keep_a_file_from_opening),
        cmocka_unit_test(row_groups_before_the_schema_are_read),
        cmocka_unit_test(every_legacy_shape_of_lists_and_maps_is_understood),
        cmocka_unit_test(elements_of_legacy_lists_are_never_null),
        cmocka_unit_test(annotations_say_what_values_mean),
        cmocka_unit_test(schemas_that_make_no_sense_are_refused),
        cmocka_unit_test(files_that_are_not_parquet_are_refused_with_what_to_do),
        cmocka_unit_test(an_encrypted_file_with_a_readable_footer_is_refused),
        cmocka_unit_test(a_format_knows_its_files_by_their_ends),
        cmocka_unit_test(files_truncated_at_every_byte_are_errors),
        cmocka_unit_test(footers_cut_at_every_byte_but_framed_again_are_errors),
        cmocka_unit_test(flipped_bits_give_an_error_or_a_table_but_no_crash),
        cmocka_unit_test(huge_counts_in_small_footers_allocate_nothing_huge),
        cmocka_unit_test(every_failing_allocation_and_read_is_reported),
        cmocka_unit_test(a_thawed_table_equals_the_frozen_one),
        cmocka_unit_test(damaged_blobs_are_refused_whatever_bit_is_wrong),
        cmocka_unit_test(a_blob_whose_offsets_leave_the_file_is_refused),
        cmocka_unit_test(describe_tells_what_a_chunk_is),
        cmocka_unit_test(page_headers_cut_anywhere_are_errors),
        cmocka_unit_test(every_real_file_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
