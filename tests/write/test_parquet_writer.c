/*
 * The Parquet writer's parts against the reader's, and the writer as a whole where memory or its sink fails. What files hold is compared with
 * pyarrow in tests/python/test_write_parquet.py.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "format/parquet/encodings.h"
#include "support/arrow_build.h"
#include "support/test_seed.h"
#include "write/parquet_impl.h"

static uint64_t below(uint64_t n) { return fby__random_below(&random_state, n); }

/* ---- Thrift ---- */

static void what_is_put_is_what_the_reader_takes(void **state)
{
    (void)state;
    fby__thrift_out t = {0};
    fby__thrift_open(&t);
    fby__thrift_put_i32(&t, 1, -5);
    fby__thrift_put_i64(&t, 40, INT64_MIN); /* a step that needs a number of its own */
    fby__thrift_put_bool(&t, 41, true);
    fby__thrift_put_bool(&t, 42, false);
    fby__thrift_put_i8(&t, 43, -8);
    fby__thrift_put_binary(&t, 44, "text", 4);
    fby__thrift_put_struct(&t, 45);
    fby__thrift_put_i32(&t, 3, 7);
    fby__thrift_close(&t);
    fby__thrift_put_list(&t, 46, FBY__THRIFT_I32, 20);
    for (int i = 0; i < 20; i++)
        fby__thrift_put_integer(&t, i);
    fby__thrift_close(&t);
    assert_false(t.failed);

    fby__thrift in = fby__thrift_over((fby__bytes){t.bytes.data, t.bytes.n});
    fby__thrift_field f = {0}, inner = {0};
    assert_true(fby__thrift_next(&in, &f) && f.id == 1 && fby__thrift_i32(&in, f.type) == -5);
    assert_true(fby__thrift_next(&in, &f) && f.id == 40 && fby__thrift_i64(&in, f.type) == INT64_MIN);
    assert_true(fby__thrift_next(&in, &f) && f.id == 41 && fby__thrift_bool(&in, f.type));
    assert_true(fby__thrift_next(&in, &f) && f.id == 42 && !fby__thrift_bool(&in, f.type));
    assert_true(fby__thrift_next(&in, &f) && f.id == 43 && fby__thrift_i64(&in, f.type) == -8);
    assert_true(fby__thrift_next(&in, &f) && f.id == 44);
    const fby__bytes text = fby__thrift_binary(&in, f.type);
    assert_true(text.n == 4 && memcmp(text.data, "text", 4) == 0);
    assert_true(fby__thrift_next(&in, &f) && f.id == 45 && fby__thrift_struct(&in, f.type));
    assert_true(fby__thrift_next(&in, &inner) && inner.id == 3 && fby__thrift_i32(&in, inner.type) == 7);
    assert_false(fby__thrift_next(&in, &inner));
    assert_true(fby__thrift_next(&in, &f) && f.id == 46);
    assert_int_equal(fby__thrift_list(&in, f.type, FBY__THRIFT_I32), 20);
    for (int i = 0; i < 20; i++)
        assert_int_equal(fby__thrift_i32(&in, FBY__THRIFT_I32), i);
    assert_false(fby__thrift_next(&in, &f));
    assert_null(in.fault);
    assert_ptr_equal(in.p, in.end);
    fby__buf_fini(&t.bytes);
}

/* ---- encodings ---- */

/* Runs of all lengths about 8, and values that do not repeat. */
static size_t random_values(uint32_t *v, size_t most, unsigned width)
{
    const size_t n = below(most + 1);
    for (size_t i = 0; i < n;) {
        const uint32_t x = (uint32_t)(fby__random_next(&random_state) >> (64 - width));
        for (size_t run = below(2) ? 1 : 1 + below(below(2) ? 12 : 300); run && i < n; run--)
            v[i++] = x;
    }
    return n;
}

static void runs_of_every_width_are_read_back(void **state)
{
    (void)state;
    static uint32_t v[3000], back[3000];
    fby__buf out = {0};
    for (unsigned width = 1; width <= 32; width++)
        for (int round = 0; round < 30; round++) {
            const size_t n = random_values(v, round < 10 ? 20 : 3000, width);
            out.n = 0;
            assert_int_equal(fby__pqw_put_hybrid(&out, v, n, width, NULL), FBY_OK);
            fby__hybrid h;
            fby__hybrid_init(&h, (fby__bytes){out.data, out.n}, width);
            assert_int_equal(fby__hybrid_u32(&h, back, n), n);
            assert_memory_equal(back, v, n * sizeof *v);
        }
    fby__buf_fini(&out);
}

static void a_run_takes_a_few_bytes_however_long_it_is(void **state)
{
    (void)state;
    uint32_t *same = calloc(1000000, sizeof *same);
    fby__buf out = {0};
    assert_int_equal(fby__pqw_put_hybrid(&out, same, 1000000, 20, NULL), FBY_OK);
    assert_int_equal(out.n, 6);
    free(same);
    fby__buf_fini(&out);
}

static void levels_are_read_back(void **state)
{
    (void)state;
    uint8_t levels[500], back[500];
    fby__buf out = {0};
    for (unsigned max = 1; max <= 200; max += 1 + max / 4)
        for (int all = 0; all < 2; all++) {
            const size_t n = 1 + below(500);
            for (size_t i = 0; i < n; i++)
                levels[i] = all || below(3) ? (uint8_t)max : (uint8_t)below(max + 1);
            out.n = 0;
            assert_int_equal(fby__pqw_put_levels(&out, all ? NULL : levels, n, max, NULL), FBY_OK);
            assert_int_equal(fby__load_u32(out.data), out.n - 4);
            fby__levels in;
            bool all_max;
            fby__levels_init(&in, (fby__bytes){out.data + 4, out.n - 4}, max, false);
            assert_int_equal(fby__levels_next(&in, back, n, &all_max, NULL), FBY_OK);
            if (all)
                assert_true(all_max);
            else if (!all_max)
                assert_memory_equal(back, levels, n);
        }
    fby__buf_fini(&out);
}

static void split_floats_are_put_together_again(void **state)
{
    (void)state;
    uint8_t values[5000 * 8], split[5000 * 8], back[5000 * 8];
    for (size_t width = 4; width <= 8; width += 4)
        for (int round = 0; round < 20; round++) {
            const size_t n = below(5001);
            for (size_t i = 0; i < n * width; i++)
                values[i] = (uint8_t)below(256);
            fby__pqw_split(values, n, width, split);
            fby__unsplit(split, n, width, 0, back, n);
            assert_memory_equal(back, values, n * width);
        }
}

/* ---- levels ---- */

static void nested_columns_become_levels_and_runs(void **state)
{
    (void)state;
    /* list<int32?>?  [[7, null], [], null, [8]] */
    struct ArrowSchema root = arrow_field("+s", "", 0, 1);
    *root.children[0] = arrow_field("+l", "l", ARROW_FLAG_NULLABLE, 1);
    *root.children[0]->children[0] = arrow_field("i", "item", ARROW_FLAG_NULLABLE, 0);
    struct ArrowArray batch = arrow_array(4, 1, 1);
    *batch.children[0] = arrow_array(4, 2, 1);
    struct ArrowArray *list = batch.children[0];
    int32_t *offsets = malloc(5 * sizeof *offsets), *values = malloc(3 * sizeof *values);
    uint8_t *valid = malloc(1), *valid_items = malloc(1);
    memcpy(offsets, (int32_t[]){0, 2, 2, 2, 3}, 5 * sizeof *offsets);
    memcpy(values, (int32_t[]){7, 0, 8}, 3 * sizeof *values);
    *valid = 0xb;       /* 1101 from the right */
    *valid_items = 0x5; /* 101 */
    list->buffers[0] = valid;
    list->buffers[1] = offsets;
    list->null_count = -1;
    *list->children[0] = arrow_numbers(3, values, valid_items, -1);

    fby__pqw_schema schema;
    fby__pqw_levels levels = {0};
    const struct ArrowArray *leaf;
    assert_int_equal(fby__pqw_schema_init(&root, &schema, NULL), FBY_OK);
    assert_int_equal(schema.n_leaves, 1);
    assert_int_equal(schema.leaves[0].max_def, 3);
    assert_int_equal(schema.leaves[0].max_rep, 1);
    assert_int_equal(fby__pqw_levels_make(&levels, &schema, &schema.leaves[0], &batch, &leaf, NULL), FBY_OK);
    assert_int_equal(levels.n, 5);
    assert_memory_equal(levels.def, ((uint8_t[]){3, 2, 1, 0, 3}), 5);
    assert_memory_equal(levels.rep, ((uint8_t[]){0, 1, 0, 0, 0}), 5);
    assert_int_equal(levels.n_values, 2);
    assert_int_equal(levels.n_runs, 2);
    assert_int_equal(levels.runs[0].first, 0);
    assert_int_equal(levels.runs[1].first, 2);
    fby__pqw_levels_fini(&levels);
    fby__pqw_schema_fini(&schema);
    root.release(&root);
    batch.release(&batch);
}

/* Validity of random lengths, densities and offsets: what is said of each row is what its bit says. */
static void every_null_is_found(void **state)
{
    (void)state;
    struct ArrowSchema root = arrow_field("+s", "", 0, 1);
    *root.children[0] = arrow_field("l", "v", ARROW_FLAG_NULLABLE, 0);
    fby__pqw_schema schema;
    fby__pqw_levels levels = {0};
    assert_int_equal(fby__pqw_schema_init(&root, &schema, NULL), FBY_OK);
    for (int round = 0; round < 300; round++) {
        const int64_t n = (int64_t)below(400), offset = (int64_t)below(70);
        const uint64_t density = below(4);
        uint8_t *valid = malloc((size_t)(n + offset + 7) / 8 + 1); /* no spare bytes for the sanitizers but one */
        for (int64_t i = 0; i < (n + offset + 7) / 8; i++)
            valid[i] = density == 0 ? 0xff : density == 1 ? 0 : (uint8_t)(below(256) | (density == 2 ? below(256) | below(256) : 0));
        struct ArrowArray batch = arrow_array(n, 1, 1);
        const struct ArrowArray *leaf;
        *batch.children[0] = arrow_numbers(n, calloc((size_t)(n + offset) + 1, 8), valid, -1);
        batch.children[0]->offset = offset;
        assert_int_equal(fby__pqw_levels_make(&levels, &schema, &schema.leaves[0], &batch, &leaf, NULL), FBY_OK);
        assert_int_equal(levels.n, n);
        size_t run = 0, in_run = 0, n_valid = 0;
        for (int64_t i = 0; i < n; i++) {
            const bool is_valid = valid[(offset + i) / 8] >> ((offset + i) % 8) & 1;
            assert_int_equal(levels.def ? levels.def[i] : 1, is_valid);
            if (!is_valid)
                continue;
            assert_int_equal(levels.runs[run].first + (int64_t)in_run, i);
            if (++in_run == (size_t)levels.runs[run].n) {
                run++;
                in_run = 0;
            }
            n_valid++;
        }
        assert_int_equal(levels.n_values, n_valid);
        assert_int_equal(levels.n_runs, run);
        batch.release(&batch);
    }
    fby__pqw_levels_fini(&levels);
    fby__pqw_schema_fini(&schema);
    root.release(&root);
}

/* ---- dictionaries ---- */

/* The longest run of slots that are taken. */
static size_t longest_run(const fby__pqw_dictionary *d)
{
    size_t longest = 0, n = 0;
    for (size_t i = 0; i < d->slots.n / sizeof(uint32_t); i++) {
        n = ((const uint32_t *)(const void *)d->slots.data)[i] ? n + 1 : 0;
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* The dictionary of one column: 2 n values, each twice. Is its search mixed? */
static bool find_pairs(const char *format, const void *values, size_t n, size_t bytes)
{
    struct ArrowSchema root = arrow_field("+s", "", 0, 1);
    *root.children[0] = arrow_field(format, "v", 0, 0);
    struct ArrowArray batch = arrow_array((int64_t)(2 * n), 1, 1);
    char *twice = malloc(2 * n * bytes);
    for (size_t i = 0; i < 2 * n; i++)
        memcpy(twice + i * bytes, (const char *)values + i / 2 * bytes, bytes);
    *batch.children[0] = arrow_numbers((int64_t)(2 * n), twice, NULL, 0);
    fby__pqw_schema schema;
    fby__pqw_levels levels = {0};
    fby__pqw_dictionary d = {0};
    fby__arrow_format parsed;
    const struct ArrowArray *leaf;
    assert_int_equal(fby__pqw_schema_init(&root, &schema, NULL), FBY_OK);
    assert_int_equal(fby__arrow_format_parse(format, &parsed, NULL), FBY_OK);
    assert_int_equal(fby__pqw_levels_make(&levels, &schema, &schema.leaves[0], &batch, &leaf, NULL), FBY_OK);
    assert_int_equal(fby__pqw_dictionary_make(&d, fby__pqw_values_of(&schema.leaves[0], &parsed, leaf, &levels), 2 * n, NULL), FBY_OK);
    const bool mixed = d.search == FBY__PQW_MIXED;
    assert_true(d.search != FBY__PQW_GIVEN_UP);
    assert_int_equal(d.n, n);
    assert_memory_equal(d.plain.data, values, n * bytes);
    for (size_t i = 0; i < 2 * n; i++)
        assert_int_equal(((const uint32_t *)(const void *)d.indices.data)[i], i / 2);
    assert_true(longest_run(&d) < 500); /* of half the slots taken at random: some 100 */
    fby__pqw_dictionary_fini(&d);
    fby__pqw_levels_fini(&levels);
    fby__pqw_schema_fini(&schema);
    root.release(&root);
    batch.release(&batch);
    return mixed;
}

static void numbers_of_a_dictionary_are_mixed_where_they_cluster_and_only_there(void **state)
{
    enum { N = 120000 };
    (void)state;
    static double whole[N], hundredths[N];
    static int64_t steps[N], chosen[N];
    static int32_t narrow[N];
    uint64_t inverse = 1; /* of the golden ratio's number, modulo 2^64 */
    for (int i = 0; i < 6; i++)
        inverse *= 2 - FBY__GOLDEN * inverse;
    for (uint64_t i = 0; i < N; i++) {
        whole[i] = (double)i;
        hundredths[i] = 0.01 * (double)i;
        steps[i] = 1000 * (int64_t)i;
        narrow[i] = (int32_t)i;
        chosen[i] = (int64_t)((i + 1) * inverse); /* their products are low numbers */
    }
    assert_false(find_pairs("l", steps, N, 8));
    assert_false(find_pairs("g", hundredths, N, 8));
    assert_false(find_pairs("i", narrow, N, 4));
    assert_true(find_pairs("g", whole, N, 8));
    assert_true(find_pairs("l", chosen, N, 8));
}

/* ---- the writer, where something fails ---- */

typedef struct sink {
    fby__buf bytes;
    uint64_t fail_at; /* the call that fails; 0: none */
    uint64_t calls;
} sink;

static fby_status collect(void *ctx, const void *bytes, size_t n, fby_error *err)
{
    sink *s = ctx;
    assert_true(n > 0);
    if (++s->calls == s->fail_at)
        return fby__fail(err, FBY_E_IO, "the disk is full");
    return fby__buf_put(&s->bytes, bytes, n) == 0 ? FBY_OK : fby__fail_nomem(err, "a sink");
}

/* Rows of a float that repeats, a string and a list, some of them null. */
static void make_table(struct ArrowSchema *schema, struct ArrowArray *batch, int64_t n)
{
    *schema = arrow_field("+s", "", 0, 3);
    *schema->children[0] = arrow_field("f", "x", ARROW_FLAG_NULLABLE, 0);
    *schema->children[1] = arrow_field("U", "s", 0, 0);
    *schema->children[2] = arrow_field("+L", "l", 0, 1);
    *schema->children[2]->children[0] = arrow_field("s", "item", 0, 0);
    float *x = malloc((size_t)n * sizeof *x);
    uint8_t *valid = malloc((size_t)n / 8 + 1);
    int64_t *ends = malloc((size_t)(n + 1) * sizeof *ends), *list_ends = malloc((size_t)(n + 1) * sizeof *list_ends);
    char *text = malloc((size_t)n * 5 + 1);
    int16_t *items = malloc((size_t)n * 2 * sizeof *items + 1);
    ends[0] = list_ends[0] = 0;
    memset(valid, 0xdd, (size_t)n / 8 + 1);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(i % 7);
        memcpy(text + ends[i], "abcde", 5);
        ends[i + 1] = ends[i] + i % 6;
        list_ends[i + 1] = list_ends[i] + i % 3;
        items[2 * i] = items[2 * i + 1] = (int16_t)i;
    }
    *batch = arrow_array(n, 1, 3);
    *batch->children[0] = arrow_numbers(n, x, valid, -1);
    *batch->children[1] = arrow_array(n, 3, 0);
    batch->children[1]->buffers[1] = ends;
    batch->children[1]->buffers[2] = text;
    *batch->children[2] = arrow_array(n, 2, 1);
    batch->children[2]->buffers[1] = list_ends;
    *batch->children[2]->children[0] = arrow_numbers(2 * n, items, NULL, 0);
}

static fby_status write_all(const struct ArrowSchema *schema, const struct ArrowArray *batch, sink *s, fby_error *err)
{
    const fby__write_options options = {.codec = "zstd", .page_bytes = 500};
    const fby__key_value pair = {"key", "value"};
    fby__writer *w = NULL;
    fby_status status = fby__writer_begin(FBY__WRITE_PARQUET, schema, &options, (fby__byte_sink){collect, s}, &w, err);
    for (int i = 0; i < 2 && status == FBY_OK; i++)
        status = fby__writer_batch(w, batch, err);
    if (status == FBY_OK)
        status = fby__writer_end(w, &pair, 1, err);
    fby__writer_free(w);
    return status;
}

static void every_failed_allocation_is_an_error_and_nothing_leaks(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    make_table(&schema, &batch, 2000);
    fby_status status = FBY_E_NOMEM;
    for (uint64_t at = 1; status != FBY_OK; at++) {
        sink s = {0};
        fby_error err = {0};
        fby__alloc_fail_at(at);
        status = write_all(&schema, &batch, &s, &err);
        fby__alloc_fail_at(0);
        if (status != FBY_OK) {
            assert_int_equal(status, FBY_E_NOMEM);
            assert_true(err.message[0]);
        }
        fby__buf_fini(&s.bytes);
    }
    schema.release(&schema);
    batch.release(&batch);
}

static void what_the_sink_says_is_what_the_writer_says(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    make_table(&schema, &batch, 500);
    fby_status status = FBY_E_IO;
    for (uint64_t at = 1; status != FBY_OK; at++) {
        sink s = {.fail_at = at};
        fby_error err = {0};
        status = write_all(&schema, &batch, &s, &err);
        if (status != FBY_OK) {
            assert_int_equal(status, FBY_E_IO);
            assert_non_null(strstr(err.message, "the disk is full"));
        }
        fby__buf_fini(&s.bytes);
    }
    schema.release(&schema);
    batch.release(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_what_the_reader_takes),
        cmocka_unit_test_setup(runs_of_every_width_are_read_back, seed_random),
        cmocka_unit_test(a_run_takes_a_few_bytes_however_long_it_is),
        cmocka_unit_test_setup(levels_are_read_back, seed_random),
        cmocka_unit_test_setup(split_floats_are_put_together_again, seed_random),
        cmocka_unit_test(nested_columns_become_levels_and_runs),
        cmocka_unit_test_setup(every_null_is_found, seed_random),
        cmocka_unit_test(numbers_of_a_dictionary_are_mixed_where_they_cluster_and_only_there),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_nothing_leaks),
        cmocka_unit_test(what_the_sink_says_is_what_the_writer_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
