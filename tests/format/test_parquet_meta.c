/*
 * Parquet footers: golden files of pyarrow (tests/golden), footers made by hand, every truncation and every flipped bit
 * of small files, failing allocations and reads, and real files where they are.
 */
#include "format/parquet_meta_tests.h"

#include <ftw.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"

#ifndef __has_feature
#define __has_feature(x) 0 /* gcc says it with macros */
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1 /* their shadow memory and quarantine are not ours to bound */
#else
#define SANITIZED 0
#endif

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
    fby__pq_leaf_bounds(t, 1, 1, &bounds);
    assert_int_equal(bounds.n_values, 10);
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
    } want[] = {{"hits", 3, 1},       {"pulses.time", 4, 1}, {"pulses.dom", 4, 1}, {"tags.key", 2, 1},
                {"tags.value", 3, 1}, {"deep", 5, 2},        {"s.a.b", 3, 0}};
    for (uint32_t i = 0; i < COUNT(want); i++) {
        assert_int_equal(fby__schema_find_leaf(s, want[i].path), i);
        assert_int_equal(s->leaves[i].max_def, want[i].max_def);
        assert_int_equal(s->leaves[i].max_rep, want[i].max_rep);
    }
    uint32_t deep = fby__schema_find(s, "deep");
    fby__schema_node outer = s->nodes[deep], inner = s->nodes[s->fields[deep].children - s->fields];
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

/* ---- hand-made files ---- */

/* What is wrong with one chunk, and how the message must name it. */
static void chunks_that_lie_are_refused_with_row_group_and_column(void **state)
{
    (void)state;
    static const chunk_spec good = {
        .type = FBY__PQ_INT32, .n_values = 2, .uncompressed = 20, .compressed = 40, .data = 4, .dictionary = -1};
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
        fby_chunk_info info = {.size = sizeof info};
        check_ok(t->ops->describe(t, NULL, 0, 0, &info, &err), &err);
        assert_non_null(strstr(info.codec, name));
        assert_int_equal(info.n_pages, -1);
        fby__leaf_source src = {0};
        assert_int_equal(fby__pq_locate(t, NULL, 0, 0, 2, &src, 1, &err), FBY_E_UNSUPPORTED);
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
        fby__table_unref(t);
        fby__buf_fini(&b);
    }
}

static void footers_longer_than_the_first_read_are_read_whole(void **state)
{
    (void)state;
    for (size_t n = 65000; n < 66000; n += 7) { /* around the 64 KiB of the first read */
        writer w = {0};
        spec specs[] = {ROOT_OF_ONE, INT32_LEAF};
        char *text = malloc(n + 1);
        memset(text, 'v', n);
        text[n] = 0;
        w_text(&w, 1, text); /* skipped: stands before the schema */
        w_schema(&w, specs, 2);
        w_list(&w, 4, FBY__THRIFT_STRUCT, 0);
        w_byte(&w, 0);
        fby__buf b = parquet_bytes((fby__bytes){0}, (fby__bytes){w.b.data, w.b.n});
        fby__table *t = NULL;
        fby_error err;
        fby__io_set_fault(&(fby__io_fault){0});
        check_ok(open_bytes(b.data, b.n, &t, NULL, &err), &err);
        assert_int_equal(fby__io_fault_count(), w.b.n + 8 <= 65536 ? 2 : 3); /* opening is one */
        check_type(&t->schema->fields[0], "struct<a: int32>");
        fby__table_unref(t);
        free(text);
        fby__buf_fini(&b);
        fby__buf_fini(&w.b);
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
    assert_ptr_equal(fby__format_of(par1, par1, NULL), &fby__parquet_ops);
    assert_ptr_equal(fby__format_of(par1, text, NULL), &fby__parquet_ops);
    assert_ptr_equal(fby__format_of(text, par1, NULL), &fby__parquet_ops);
    assert_null(fby__format_of(text, text, NULL));
    assert_null(fby__format_of(none, none, NULL));
    assert_ptr_equal(fby__format_by_name("parquet"), &fby__parquet_ops);
    assert_null(fby__format_by_name("orc"));
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
            fby_chunk_info info = {.size = sizeof info};
            uint64_t rows = t->groups[g].rows;
            fby__pq_leaf_bounds(t, g, i, &bounds);
            (void)t->ops->describe(t, file, g, i, &info, &err); /* may fail: the pages need not match */
            if (fby__pq_locate(t, file, g, rows / 3, rows / 2, &src, 1, &err) == FBY_OK && rows / 3 < rows / 2) {
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
                    st = fby__pq_locate(t, file, 0, 0, 1, &src, 1, &err);
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
    fby__file *file = NULL;
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
        fby_chunk_info info = {.size = sizeof info};
        uint64_t rows = t->groups[0].rows;
        check_ok(t->ops->describe(t, file, 0, i, &info, &err), &err);
        assert_true(info.n_pages > 0);
        check_ok(fby__pq_locate(t, file, 0, rows / 2, rows, &src, 1, &err), &err);
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
        cmocka_unit_test(chunks_that_lie_are_refused_with_row_group_and_column),
        cmocka_unit_test(a_codec_that_is_not_supported_is_refused_at_use_by_name),
        cmocka_unit_test(encodings_to_come_do_not_keep_a_file_from_opening),
        cmocka_unit_test(footers_longer_than_the_first_read_are_read_whole),
        cmocka_unit_test(row_groups_before_the_schema_are_read),
        cmocka_unit_test(files_that_are_not_parquet_are_refused_with_what_to_do),
        cmocka_unit_test(an_encrypted_file_with_a_readable_footer_is_refused),
        cmocka_unit_test(a_format_knows_its_files_by_their_ends),
        cmocka_unit_test(files_truncated_at_every_byte_are_errors),
        cmocka_unit_test(footers_cut_at_every_byte_but_framed_again_are_errors),
        cmocka_unit_test(flipped_bits_give_an_error_or_a_table_but_no_crash),
        cmocka_unit_test(huge_counts_in_small_footers_allocate_nothing_huge),
        cmocka_unit_test(every_failing_allocation_and_read_is_reported),
        cmocka_unit_test(every_real_file_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
