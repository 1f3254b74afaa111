/*
 * CSV tables from inside: the scanner whatever the window, values at their limits, metadata that survives the index cache, parts of
 * groups, damage, and every allocation and read failing. What files mean is tested against others in tests/python/test_csv.py.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "format/csv/csv.h"
#include "support/table_damage.h"
#include "support/temp_dir.h"

#define CORPUS FBY_SOURCE_DIR "/fuzz/corpus/csv/"
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const GOOD[] = {"types.csv", "tabs.tsv", "semicolon.csv", "one_column.csv", "header_only.csv", "members.csv.gz"};

static size_t read_corpus(const char *name, uint8_t *out, size_t cap)
{
    char path[600];
    (void)snprintf(path, sizeof path, CORPUS "%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(out, 1, cap, f);
    assert_int_equal(fclose(f), 0);
    return n;
}

static void put(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* ---- the scanner ---- */

/* All cells of a text, read whole or with no more than `step` bytes more at a time; returns how many records, -1 for an error. */
static int scan(const uint8_t *text, size_t n, size_t step, fby__csv_cell *cells, uint32_t cap, uint32_t *n_cells, uint64_t *line)
{
    fby__csv_scanner s;
    size_t at = 0, seen = step ? 0 : n;
    int records = 0;
    fby__csv_scanner_init(&s, ',', 1);
    *n_cells = 0;
    for (;;) {
        uint8_t *exact = malloc(seen ? seen : 1); /* so that AddressSanitizer sees the first byte beyond */
        assert_non_null(exact);
        memcpy(exact, text, seen);
        fby__csv_result r = fby__csv_next(&s, exact, seen, &at, seen == n, cells + *n_cells, cap - *n_cells);
        free(exact);
        *line = s.line;
        if (r == FBY__CSV_MORE) {
            assert_true(seen < n);
            seen = seen + step < n ? seen + step : n;
            continue;
        }
        if (r == FBY__CSV_END)
            return records;
        if (r != FBY__CSV_RECORD)
            return -1;
        records++;
        *n_cells += s.n_fields;
        assert_true(*n_cells <= cap);
    }
}

static void the_window_makes_no_difference(void **state)
{
    (void)state;
    static const char LETTERS[] = "ab,,\"\"\"\n\n\r\r ";
    fby__random random = {.key = 11};
    for (int round = 0; round < 20000; round++) {
        uint8_t text[40];
        fby__csv_cell whole[64], parts[64];
        uint32_t n_whole, n_parts;
        uint64_t line_whole, line_parts;
        size_t n = fby__random_below(&random, sizeof text + 1);
        for (size_t i = 0; i < n; i++)
            text[i] = (uint8_t)LETTERS[fby__random_below(&random, sizeof LETTERS - 1)];
        int records = scan(text, n, 0, whole, COUNT(whole), &n_whole, &line_whole);
        assert_int_equal(scan(text, n, 1 + fby__random_below(&random, 4), parts, COUNT(parts), &n_parts, &line_parts), records);
        assert_int_equal(n_parts, n_whole);
        assert_int_equal(line_parts, line_whole);
        assert_memory_equal(parts, whole, n_whole * sizeof *whole);
    }
}

static void fields_of_any_length_end_where_they_do(void **state)
{
    (void)state;
    static const char ENDS[] = ",\n\r";
    for (size_t n = 0; n <= 100; n++) {
        for (size_t e = 0; e < sizeof ENDS; e++) { /* the last: the text ends */
            uint8_t text[104] = "x,";
            memset(text + 2, 'a', n);
            const bool ends = !ENDS[e];
            text[2 + n] = (uint8_t)ENDS[e];
            const size_t size = 2 + n + !ends;
            for (size_t step = 0; step <= 40; step += 13) {
                fby__csv_cell cells[3];
                uint32_t n_cells;
                uint64_t line;
                assert_int_equal(scan(text, size, step, cells, COUNT(cells), &n_cells, &line), 1);
                assert_int_equal(n_cells, ENDS[e] == ',' ? 3 : 2);
                assert_int_equal(cells[1].at, 2);
                assert_int_equal(cells[1].n_flags, n);
            }
        }
    }
}

static void lines_are_counted_inside_quotes_and_over_empty_ones(void **state)
{
    (void)state;
    static const char TEXT[] = "a\r\n\r\n\n\"x\ny\rz\r\n\"\r\rb\nc";
    fby__csv_scanner s;
    size_t at = 0;
    fby__csv_cell cell;
    fby__csv_scanner_init(&s, ',', 1);
    const uint64_t lines[] = {1, 4, 9, 10};
    for (size_t i = 0; i < COUNT(lines); i++) {
        assert_int_equal(fby__csv_next(&s, (const uint8_t *)TEXT, sizeof TEXT - 1, &at, true, &cell, 1), FBY__CSV_RECORD);
        assert_int_equal(s.line, lines[i]);
    }
    assert_int_equal(fby__csv_next(&s, (const uint8_t *)TEXT, sizeof TEXT - 1, &at, true, &cell, 1), FBY__CSV_END);
}

/* ---- values ---- */

static void cells_are_of_the_class_that_they_look_like(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fby__csv_class class;
        int64_t value;
    } CASES[] = {
        {"0", FBY__CSV_INT, 0},
        {" -7 ", FBY__CSV_INT, -7},
        {"+007", FBY__CSV_PADDED, 7},
        {"+7", FBY__CSV_PADDED, 7},
        {"-07", FBY__CSV_PADDED, -7},
        {"00", FBY__CSV_PADDED, 0},
        {"00.5", FBY__CSV_PADDED_FLOAT, 0},
        {"+1e5", FBY__CSV_PADDED_FLOAT, 0},
        {"9007199254740992", FBY__CSV_INT, INT64_C(1) << 53},
        {"9007199254740993", FBY__CSV_LONG, (INT64_C(1) << 53) + 1},
        {"9007199254740994", FBY__CSV_INT, (INT64_C(1) << 53) + 2},
        {"9223372036854775807", FBY__CSV_LONG, INT64_MAX},
        {"-9223372036854775808", FBY__CSV_INT, INT64_MIN},
        {"9223372036854775808", FBY__CSV_BIG, 0},
        {"-9223372036854775809", FBY__CSV_BIG, 0},
        {"99999999999999999999999", FBY__CSV_BIG, 0},
        {"1.", FBY__CSV_FLOAT, 0},
        {".5", FBY__CSV_FLOAT, 0},
        {"1e5", FBY__CSV_FLOAT, 0},
        {"-NaN", FBY__CSV_FLOAT, 0},
        {"Infinity", FBY__CSV_FLOAT, 0},
        {"-inf", FBY__CSV_FLOAT, 0},
        {"1.5e-00010", FBY__CSV_FLOAT, 0},
        {"true", FBY__CSV_BOOL, 1},
        {"FALSE", FBY__CSV_BOOL, 0},
        {"True", FBY__CSV_BOOL, 1},
        {"2000-02-29", FBY__CSV_DATE, 11016},
        {"1970-01-01", FBY__CSV_DATE, 0},
        {"0001-01-01", FBY__CSV_DATE, -719162},
        {"9999-12-31", FBY__CSV_DATE, 2932896},
        {"1970-01-01T00:00:00.000001", FBY__CSV_LOCAL, 1},
        {"1970-01-02 00:00", FBY__CSV_LOCAL, INT64_C(86400000000)},
        {"1969-12-31 23:59:59.9", FBY__CSV_LOCAL, -100000},
        {"1970-01-01T00:00:01.250000000", FBY__CSV_LOCAL, 1250000},
        {"1970-01-01T01:00+01:00", FBY__CSV_UTC, 0},
        {"1969-12-31 19:00:00-0500", FBY__CSV_UTC, 0},
        {"1970-01-01T00:00:00Z", FBY__CSV_UTC, 0},
        {"1970-01-01T02:00:00+02", FBY__CSV_UTC, 0},
    };
    static const char *const TEXTS[] = {" ",
                                        "-",
                                        "+",
                                        ".",
                                        "e5",
                                        "1e",
                                        "1e+",
                                        "0x10",
                                        "1_000",
                                        "1 2",
                                        "tRUE",
                                        "True1",
                                        "t",
                                        "nano",
                                        "in",
                                        "2001-02-29",
                                        "2000-13-01",
                                        "2000-00-01",
                                        "2000-01-00",
                                        "0000-01-01",
                                        "2000-1-1",
                                        "2000-01-01T",
                                        "2000-01-01T24:00",
                                        "2000-01-01T00:60",
                                        "2000-01-01T00:00:60",
                                        "2000-01-01T00:00:00.",
                                        "2000-01-01T00:00:00.1234567",
                                        "2000-01-01T00:00:00.0000000000",
                                        "2000-01-01T00:00ZZ",
                                        "2000-01-01T00:00+1",
                                        "2000-01-01T00:00+01:6",
                                        "+-1"};
    for (size_t i = 0; i < COUNT(CASES); i++) {
        int64_t value = 0;
        if (fby__csv_classify((const uint8_t *)CASES[i].text, strlen(CASES[i].text), &value) != CASES[i].class)
            fail_msg("'%s' is of another class", CASES[i].text);
        if (CASES[i].class != FBY__CSV_BIG && CASES[i].class != FBY__CSV_FLOAT)
            assert_int_equal(value, CASES[i].value);
    }
    for (size_t i = 0; i < COUNT(TEXTS); i++) {
        int64_t value;
        if (fby__csv_classify((const uint8_t *)TEXTS[i], strlen(TEXTS[i]), &value) != FBY__CSV_STRING)
            fail_msg("'%s' is no text", TEXTS[i]);
    }
}

/* Every character beside the digits, at every place of a run of them. */
static void one_character_decides_what_a_long_number_is(void **state)
{
    (void)state;
    for (size_t n = 21; n < 60; n++)
        for (size_t at = 1; at < n; at++)
            for (int c = 1; c < 256; c++) {
                uint8_t text[60];
                int64_t value;
                memset(text, '9', n);
                text[at] = (uint8_t)c;
                const bool is_whole = (c >= '0' && c <= '9') || (c == ' ' && at == n - 1), is_power = (c | 0x20) == 'e' && at < n - 1;
                const fby__csv_class expect = is_whole ? FBY__CSV_BIG : c == '.' || is_power ? FBY__CSV_FLOAT : FBY__CSV_STRING;
                if (is_power && n - at > 3) /* beyond every double */
                    continue;
                if (fby__csv_classify(text, n, &value) != expect)
                    fail_msg("'%.*s' is of another class, with 0x%02x at %zu", (int)n, (const char *)text, (unsigned)c, at);
            }
}

static void doubles_are_those_of_strtod(void **state)
{
    (void)state;
    fby__random random = {.key = 5};
    for (int round = 0; round < 100000; round++) {
        char text[80];
        uint64_t bits = fby__random_next(&random);
        double want;
        memcpy(&want, &bits, sizeof want);
        if (!isfinite(want))
            continue;
        (void)snprintf(text, sizeof text, round % 2 ? "%.*g" : "%.*e", (int)fby__random_below(&random, 25), want);
        want = strtod(text, NULL);
        double got = 0;
        assert_true(fby__csv_double((const uint8_t *)text, strlen(text), &got));
        if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("'%s' is read as %.17g", text, got);
    }
    for (int round = 0; round < 200000; round++) { /* of 17 to 20 digits near 1, where most numbers are */
        char text[80];
        double got = 0;
        uint64_t digits = fby__random_next(&random) >> fby__random_below(&random, 12);
        (void)snprintf(text, sizeof text, "%llue-%d", (unsigned long long)digits, (int)fby__random_below(&random, 30));
        assert_true(fby__csv_double((const uint8_t *)text, strlen(text), &got));
        double want = strtod(text, NULL);
        if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("'%s' is read as %.17g", text, got);
    }
    double value;
    assert_true(fby__csv_double((const uint8_t *)"-nan", 4, &value) && isnan(value));
    assert_true(fby__csv_double((const uint8_t *)" -Infinity", 10, &value) && value < -1e308);
    /* 2^53 + 1 is in the middle: to even. */
    assert_true(fby__csv_double((const uint8_t *)"9007199254740993", 16, &value) && value == 9007199254740992.0);
    assert_true(fby__csv_double((const uint8_t *)"9007199254740993.00000000000000000001", 37, &value) && value == 9007199254740994.0);
    static const char *const OTHERS[] = {"", " ", "x", "-", "true", "2020-01-01", "na", "an"};
    for (size_t i = 0; i < COUNT(OTHERS); i++)
        assert_false(fby__csv_double((const uint8_t *)OTHERS[i], strlen(OTHERS[i]), &value));
}

/* ---- tables ---- */

static fby_status open_path(const char *path, fby__table **out, fby__file **out_file, fby_error *err)
{
    *out = NULL;
    fby_status status = fby__file_open(path, NULL, out_file, err);
    if (status == FBY_OK)
        status = fby__csv_open(*out_file, &(fby__format_opts){0}, out, err);
    return status;
}

/* Every column of every group as Arrow, with or without a store, and as a panel of strings or doubles. */
static fby_status use(fby__table *t, fby__file *file, bool with_store, fby_error *err)
{
    fby__scratch scratch = {0};
    fby__range_list list = {0};
    fby__chunk_store *store = NULL;
    fby_status status = with_store ? fby__chunk_store_create(1 << 20, NULL, &store, err) : FBY_OK;
    for (uint32_t g = 0; g < t->n_groups && status == FBY_OK; g++)
        for (uint32_t leaf = 0; leaf < t->schema->n_leaves && status == FBY_OK; leaf++) {
            uint64_t rows = t->groups[g].rows;
            const fby_field *field = &t->schema->fields[t->schema->leaves[leaf].field];
            fby__leaf_source source = {.leaf = leaf};
            status = fby__locate(
                &(fby__locate_request){
                    .table = t, .file = file, .group = g, .row_end = rows, .sources = &source, .n = 1, .list = &list, .store = store},
                err);
            struct ArrowArray array = {0};
            if (status == FBY_OK)
                status = t->ops->decode_arrow(&(fby__arrow_request){.table = t,
                                                                    .file = file,
                                                                    .file_name = "f",
                                                                    .group = g,
                                                                    .row_end = rows,
                                                                    .field = t->schema->leaves[leaf].field,
                                                                    .sources = &source},
                                              &scratch, &array, err);
            if (array.release)
                array.release(&array);
            fby__leaf_bounds bounds;
            t->ops->leaf_bounds(t, g, 0, rows, leaf, &bounds);
            fby__panel_column column = {.path = "c", .width = 1, .missing = FBY__MISSING_FILL};
            fby__panel_layout layout = {.kind = field->kind == FBY_KIND_STRING ? FBY__PANEL_BYTES : FBY__PANEL_DENSE,
                                        .dtype = field->kind == FBY_KIND_STRING ? FBY_UINT8 : FBY_FLOAT64,
                                        .n_columns = 1,
                                        .width = 1,
                                        .want_valid = true,
                                        .columns = &column};
            size_t bytes;
            assert_int_equal(fby__panel_bytes(&layout, rows, bounds.uncompressed_bytes, &bytes, NULL), FBY_OK);
            void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
            assert_non_null(memory);
            fby__panel panel;
            fby__panel_place(&layout, rows, bounds.uncompressed_bytes, memory, &panel);
            fby__decode_column from = {&source, 0, 1, 1};
            if (status == FBY_OK)
                status = t->ops->decode_panel(&(fby__decode){.table = t,
                                                             .file_name = "f",
                                                             .file = file,
                                                             .group = g,
                                                             .row_end = rows,
                                                             .panel = &panel,
                                                             .columns = &from,
                                                             .n_columns = 1},
                                              &scratch, err);
            free(memory);
        }
    fby__range_list_fini(&list);
    fby__chunk_store_destroy(store);
    fby__scratch_fini(&scratch);
    return status;
}

static fby_status open_freeze_thaw_use(const char *path, fby_error *err)
{
    fby__table *t = NULL, *again = NULL;
    fby__file *file = NULL;
    fby__buf blob = {0};
    fby_status status = open_path(path, &t, &file, err);
    if (status == FBY_OK)
        status = fby__csv_freeze(t, &blob, err);
    if (status == FBY_OK)
        status = fby__csv_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, err);
    if (status == FBY_OK)
        status = use(t, file, false, err);
    if (status == FBY_OK)
        status = use(again, file, true, err);
    fby__alloc_fail_at(0);
    fby__io_set_fault(&(fby__io_fault){0});
    if (status == FBY_OK) {
        assert_int_equal(t->n_rows, again->n_rows);
        assert_int_equal(t->n_groups, again->n_groups);
        assert_memory_equal(t->groups, again->groups, t->n_groups * sizeof *t->groups);
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
    for (size_t i = 0; i < COUNT(GOOD); i++) { /* without room in the chunk store each column is decoded for itself */
        char path[600];
        (void)snprintf(path, sizeof path, CORPUS "%s", GOOD[i]);
        const fault_counts counts = fail_in_turn(open_freeze_thaw_use, path);
        assert_true(counts.failed_allocations > 8 && counts.failed_allocations + 20 > counts.allocations);
        assert_true(counts.failed_reads > 1);
    }
}

static void damaged_files_and_blobs_give_an_error_or_a_table(void **state)
{
    (void)state;
    static const uint8_t BYTES[] = {0, '"', ',', '\n', '\r', '9', 0xe9};
    for (size_t i = 0; i < COUNT(GOOD); i++) {
        uint8_t data[2000];
        size_t n = read_corpus(GOOD[i], data, sizeof data);
        const char *name = strrchr(GOOD[i], 'g') ? "t.csv.gz" : "t.csv";
        for (size_t at = 0; at < n; at++)
            for (size_t k = 0; k <= COUNT(BYTES); k++) {
                uint8_t was = data[at];
                fby_error err = {0};
                data[at] = k < COUNT(BYTES) ? BYTES[k] : was;
                put(name, data, k < COUNT(BYTES) ? n : at); /* or cut */
                fby_status status = open_freeze_thaw_use(name, &err);
                if (status != FBY_OK && status != FBY_E_FORMAT && status != FBY_E_UNSUPPORTED)
                    fail_msg("%s at %zu: %s", GOOD[i], at, err.message);
                data[at] = was;
            }
        /* The metadata of one file over another's content, and damaged. */
        fby__table *t;
        fby__file *file, *other;
        fby_error err;
        put(name, data, n);
        assert_int_equal(open_path(name, &t, &file, &err), FBY_OK);
        for (size_t at = 0; at + 1 < n && t->n_groups; at++) {
            uint8_t changed[2000];
            memcpy(changed, data, n);
            changed[at] = changed[at] == '"' ? '7' : '"';
            put("other.csv", changed, n);
            assert_int_equal(fby__file_open("other.csv", NULL, &other, &err), FBY_OK);
            fby_status status = use(t, other, at & 1, &err);
            assert_true(status == FBY_OK || status == FBY_E_CHANGED || status == FBY_E_FORMAT);
            fby__file_unref(other);
        }
        assert_frozen_damage_is_refused(t, 1);
        fby__table_unref(t);
        fby__file_unref(file);
    }
}

static void rows_of_a_part_of_a_group_land_where_they_belong(void **state)
{
    (void)state;
    fby__buf text = {0};
    char line[64];
    assert_int_equal(fby__buf_put(&text, "x,y\n", 4), 0);
    const uint64_t n = 70000;
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(
            fby__buf_put(&text, line, (size_t)snprintf(line, sizeof line, "%llu,%llu.5\n", (unsigned long long)i, (unsigned long long)i)),
            0);
    put("t.csv", text.data, text.n);
    fby__buf_fini(&text);
    fby__table *t;
    fby__file *file;
    fby_error err;
    assert_int_equal(open_path("t.csv", &t, &file, &err), FBY_OK);
    assert_int_equal(t->n_rows, n);
    assert_int_equal(t->n_groups, 2);
    assert_int_equal(t->groups[1].first_row, FBY__CSV_GROUP_ROWS);
    /* Rows 10 to 99 of the second group, in two calls. */
    fby__panel_column columns[] = {{.path = "y", .width = 1}, {.path = "x", .offset = 1, .width = 1}};
    fby__panel_layout layout = {.dtype = FBY_FLOAT32, .n_columns = 2, .width = 2, .want_valid = true, .columns = columns};
    size_t bytes;
    assert_int_equal(fby__panel_bytes(&layout, 90, 0, &bytes, &err), FBY_OK);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    fby__panel panel;
    fby__panel_place(&layout, 90, 0, memory, &panel);
    fby__leaf_source sources[] = {{.leaf = 1}, {.leaf = 0}};
    fby__decode_column from[] = {{&sources[0], 0, 1, 1}, {&sources[1], 1, 1, 1}};
    fby__scratch scratch = {0};
    fby__decode q = {.table = t,
                     .file_name = "f",
                     .file = file,
                     .group = 1,
                     .row_begin = 10,
                     .row_end = 40,
                     .panel_row = 10,
                     .panel = &panel,
                     .columns = from,
                     .n_columns = 2};
    assert_int_equal(t->ops->decode_panel(&q, &scratch, &err), FBY_OK);
    q.row_begin = 40;
    q.row_end = 100;
    assert_int_equal(t->ops->decode_panel(&q, &scratch, &err), FBY_OK);
    for (uint64_t r = 0; r < 90; r++) {
        const float *row = (const float *)(const void *)(panel.data + r * panel.row_bytes);
        float x = (float)(FBY__CSV_GROUP_ROWS + 10 + r);
        assert_true(row[0] == x + 0.5f && row[1] == x);
        assert_true(panel.valid[2 * r] && panel.valid[2 * r + 1]);
    }
    fby__leaf_bounds bounds;
    t->ops->leaf_bounds(t, 0, 0, FBY__CSV_GROUP_ROWS, 0, &bounds);
    assert_true(fby__scratch_bytes(&scratch) < bounds.scratch_bytes + (1 << 20));
    fby__scratch_fini(&scratch);
    free(memory);
    fby__table_unref(t);
    fby__file_unref(file);
}

static void a_gzip_file_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    uint8_t data[2000];
    fby__buf out = {0}, src = {0};
    fby_error err;
    assert_int_equal(fby__buf_put(&src, data, read_corpus("members.csv.gz", data, sizeof data)), 0);
    assert_int_equal(fby__csv_gunzip(&src, 12, &out, &err), FBY_OK);
    assert_int_equal(out.n, 12);
    assert_memory_equal(out.data, "x,y\n1,2\n3,4\n", 12);
    out.n = 0;
    assert_int_equal(fby__csv_gunzip(&src, 11, &out, &err), FBY_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Parquet"));
    fby__buf_fini(&out);
    fby__buf_fini(&src);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_window_makes_no_difference),
        TEST(fields_of_any_length_end_where_they_do),
        TEST(lines_are_counted_inside_quotes_and_over_empty_ones),
        TEST(cells_are_of_the_class_that_they_look_like),
        TEST(one_character_decides_what_a_long_number_is),
        TEST(doubles_are_those_of_strtod),
        TEST(a_failing_allocation_or_read_is_an_error_and_leaks_nothing),
        TEST(damaged_files_and_blobs_give_an_error_or_a_table),
        TEST(rows_of_a_part_of_a_group_land_where_they_belong),
        TEST(a_gzip_file_beyond_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
