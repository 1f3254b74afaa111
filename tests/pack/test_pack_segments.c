/* Scatter files whose hashes hold, and whose numbers were made up: an error that says so, or rows as the plan has them; never a byte beyond theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/files.h"
#include "support/temp_dir.h"

#include "base/random.h"
#include "pack/pack_impl.h"

enum { BUCKETS = 2, RANDOM_FILES = 1000 };

static const fby_pack_opts OPTS = {
    .size = sizeof OPTS, .seed = 5, .batch_rows = 2, .rows_per_file = 1000, .memory_bytes = (uint64_t)64 << 20};

typedef struct scattered {
    fby_dataset *ds;
    char to[600], path[700];
    uint8_t *bytes; /* of scatter-00000: a round of BUCKETS segments, their index, its end */
    size_t n, index;
} scattered;

static fby_dataset *open_golden(const char *name)
{
    char path[600];
    fby_error err;
    fby_dataset *ds;
    (void)snprintf(path, sizeof path, FBY_SOURCE_DIR "/tests/golden/ipc/%s", name);
    const fby_source source = {.path = path};
    const fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1};
    if (fby_dataset_open(&source, 1, &opts, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static fby_status run(const scattered *s, fby_pack_phase phase, fby_error *err)
{
    return fby_pack_run_task(s->ds, s->to, &OPTS, phase, 0, NULL, err);
}

/* The plan as one of BUCKETS buckets: a machine with less memory might have written it. */
static void cut_plan(const char *to)
{
    char path[700];
    size_t n;
    (void)snprintf(path, sizeof path, "%s/.forebay-pack/plan", to);
    uint8_t *plan = read_bytes(path, &n);
    assert_memory_equal(plan, "buckets 1\n", 10);
    plan[8] = '0' + BUCKETS;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(plan, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(plan);
}

static scattered scatter(const char *name)
{
    scattered s = {.ds = open_golden(name)};
    fby_error err;
    (void)snprintf(s.to, sizeof s.to, "%s/%s", g_dir, name);
    (void)snprintf(s.path, sizeof s.path, "%s/.forebay-pack/scatter-00000", s.to);
    if (run(&s, FBY_PACK_PLAN, &err) != FBY_OK)
        fail_msg("%s", err.message);
    cut_plan(s.to);
    if (run(&s, FBY_PACK_SCATTER, &err) != FBY_OK)
        fail_msg("%s", err.message);
    s.bytes = read_bytes(s.path, &s.n);
    s.index = s.n - sizeof(fby__pack_scatter_end) - BUCKETS * sizeof(fby__pack_segment);
    return s;
}

static void end_scattered(scattered *s)
{
    free(s->bytes);
    fby_dataset_close(s->ds);
}

static fby__pack_segment segment_of(const scattered *s, int bucket)
{
    fby__pack_segment segment;
    memcpy(&segment, s->bytes + s->index + (size_t)bucket * sizeof segment, sizeof segment);
    return segment;
}

/* The file with n other bytes, and what they say of segments hashed anew where `hashed`. Is it believed? */
static bool is_believed(const scattered *s, const uint8_t *bytes, size_t n, bool hashed, const char *what, size_t at)
{
    uint8_t *copy = malloc(n);
    char part[700];
    fby_error err = {0};
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    for (int k = 0; hashed && k < BUCKETS; k++) {
        const fby__pack_segment was = segment_of(s, k);
        const fby__hash128 hash = fby__hash(copy + was.at, was.bytes);
        memcpy(copy + s->index + (size_t)k * sizeof was + offsetof(fby__pack_segment, hash), &hash, sizeof hash);
    }
    FILE *f = fopen(s->path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(copy, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(copy);
    const fby_status status = run(s, FBY_PACK_WRITE, &err);
    if (status != FBY_OK &&
        (status != FBY_E_FORMAT || !(strstr(err.message, "scatter-00000' is damaged") || strstr(err.message, "do not hold all rows"))))
        fail_msg("%s %zu: %d, %s", what, at, (int)status, err.message);
    (void)snprintf(part, sizeof part, "%s/.forebay-pack/part-00000.arrow", s->to);
    assert_int_equal(remove(part) == 0, status == FBY_OK);
    return status == FBY_OK;
}

static const uint8_t FLIPS[] = {1, 0x80, 0xFF};

static uint64_t padded(uint64_t n) { return (n + 7) & ~UINT64_C(7); }

/* Numbers of segments: how many rows, nodes and buffers, where rows go, how long buffers are. */
static void no_number_of_a_segment_is_believed(void **state)
{
    (void)state;
    static const char *const names[] = {"numbers.arrow", "nested.arrow", "texts.arrow"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        scattered s = scatter(names[i]);
        assert_true(is_believed(&s, s.bytes, s.n, true, "as it was", 0));
        for (int k = 0; k < BUCKETS; k++) {
            const fby__pack_segment segment = segment_of(&s, k);
            uint64_t head[3];
            memcpy(head, s.bytes + segment.at, sizeof head);
            assert_int_equal(head[0], segment.rows);
            assert_true(segment.rows > 0);
            const size_t where = segment.at + sizeof head, nodes = where + padded(4 * head[0]), sizes = nodes + 16 * head[1];
            for (size_t at = segment.at; at < segment.at + segment.bytes; at++) {
                const bool is_number = at < where + 4 * head[0] || (at >= nodes && at < sizes && (at - nodes) % 16 < 8) ||
                                       (at >= sizes && at < sizes + 8 * head[2]);
                for (size_t flip = 0; flip < (is_number ? sizeof FLIPS : 1); flip++) {
                    s.bytes[at] ^= FLIPS[flip];
                    if (is_believed(&s, s.bytes, s.n, true, names[i], at) && is_number)
                        fail_msg("%s: byte %zu of a segment is believed", names[i], at - segment.at);
                    s.bytes[at] ^= FLIPS[flip];
                }
            }
        }
        end_scattered(&s);
    }
}

static void no_number_of_the_index_is_believed(void **state)
{
    (void)state;
    scattered s = scatter("nested.arrow");
    for (size_t at = s.index; at < s.n - sizeof(fby__hash128); at++)
        for (size_t flip = 0; flip < sizeof FLIPS; flip++) {
            s.bytes[at] ^= FLIPS[flip];
            if (is_believed(&s, s.bytes, s.n, false, "index", at - s.index))
                fail_msg("byte %zu of the index is believed", at - s.index);
            s.bytes[at] ^= FLIPS[flip];
        }
    for (size_t n = 0; n < s.n; n++) /* files that end early */
        assert_false(is_believed(&s, s.bytes, n, false, "end", n));
    end_scattered(&s);
}

static void files_of_random_bytes_are_refused(void **state)
{
    (void)state;
    const uint64_t seed = 17;
    fby__random random = {.key = seed};
    scattered s = scatter("nested.arrow");
    uint8_t *bytes = malloc(s.n);
    assert_non_null(bytes);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < RANDOM_FILES; i++) {
        memcpy(bytes, s.bytes, s.n);
        for (uint64_t k = 1 + fby__random_below(&random, 8); k > 0; k--) {
            const uint64_t at = fby__random_below(&random, s.index - 7), value = fby__random_next(&random);
            memcpy(bytes + at, &value, 1 + fby__random_below(&random, 8));
        }
        (void)is_believed(&s, bytes, s.n, true, "random", (size_t)i);
    }
    free(bytes);
    end_scattered(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_number_of_a_segment_is_believed, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(no_number_of_the_index_is_believed, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(files_of_random_bytes_are_refused, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
