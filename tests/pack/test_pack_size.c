/* A pack of 10 TB by a thousand tasks, on paper: how many there are, what each of them knows, opens, and hands on to the others. By the plan's own code. */
#include "base/checked.h"
#include "pack/pack_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define GIB ((uint64_t)1 << 30)
#define SAMPLE 200000u /* rows of a task that are looked at */

static fby__pack planned(uint64_t rows, double row_bytes, uint64_t task_bytes, fby_pack_opts *opts)
{
    fby__pack p = {.o = opts, .rows = rows, .row_bytes = row_bytes, .batch_rows = 4096, .lock = -1};
    p.rows_per_file = 4096 * (uint64_t)(256 * 1024 * 1024 / (row_bytes * 4096));
    p.n_files = fby__div_up_u64(rows, p.rows_per_file);
    const double buckets = fby__pack_buckets_for(rows, row_bytes, task_bytes),
                 scatters = fby__pack_scatters_for(rows, row_bytes, task_bytes);
    assert_true(buckets <= FBY__PACK_BUCKETS && scatters <= UINT32_MAX);
    assert_int_equal(fby__pack_cut(&p, (uint32_t)buckets, NULL), FBY_OK);
    p.n_scatters = (uint32_t)scatters; /* blocks are far smaller than what a task has */
    return p;
}

static void every_file_is_written_by_one_task(void **state)
{
    (void)state;
    fby_pack_opts opts = {.seed = 1};
    fby__pack p = planned(UINT64_C(10000000000), 1000, 64 * GIB, &opts);
    uint64_t next = 0, most = 0;
    for (uint64_t k = 0; k < fby__pack_write_count(&p); k++) {
        uint64_t first, last;
        fby__pack_write_files(&p, k, &first, &last);
        assert_int_equal(first, next);
        assert_true(last > first);
        most = fby__max_u64(most, (last - first) * p.rows_per_file);
        next = last;
    }
    assert_int_equal(next, p.n_files);
    assert_true((double)most * 1020 <= 32.0 * (double)GIB); /* half of a task's memory */
    fby__pack_fini(&p);
}

static void ten_terabytes_are_a_thousand_tasks_that_know_little_and_open_one_file(void **state)
{
    (void)state;
    fby_pack_opts opts = {.seed = 7};
    fby__pack p = planned(UINT64_C(10000000000), 1000, 64 * GIB, &opts);
    const uint64_t scatters = fby__pack_scatter_count(&p), writes = fby__pack_write_count(&p), rows = p.rows / scatters;
    const uint64_t plan = sizeof p + (p.n_buckets + 1) * sizeof *p.bucket_begin;
    const uint64_t index = p.n_buckets * sizeof(fby__pack_segment), parts = scatters * (sizeof(fby__pack_segment) + sizeof(uint64_t));
    print_message("10 TB, 64 GiB a task: %llu scatter and %llu write tasks\n", (unsigned long long)scatters, (unsigned long long)writes);
    print_message("memory: plan %llu bytes, index of a scatter task %llu, list of a write task %llu\n", (unsigned long long)plan,
                  (unsigned long long)index, (unsigned long long)parts);
    print_message("files: %llu meanwhile, %llu of the pack; open at a time: 1 a task\n", (unsigned long long)scatters,
                  (unsigned long long)p.n_files);
    assert_true(scatters + writes + 2 > 900 && scatters + writes + 2 < 1200);
    assert_true(plan + index + parts < 128 * 1024);

    /* What tasks hand on: each of the first phase gives each of the second about the same. */
    uint64_t *to = malloc(SAMPLE * sizeof *to), *count = calloc(writes, sizeof *count);
    assert_non_null(to);
    assert_non_null(count);
    for (uint64_t task = 0; task < scatters; task += scatters / 3) {
        fby__pack_destinations(&p.order, task * rows, SAMPLE, to);
        for (uint32_t i = 0; i < SAMPLE; i++)
            count[fby__pack_bucket_at(&p, to[i])]++;
        for (uint64_t k = 0; k < writes; k++) {
            const double expected = (double)(p.bucket_begin[k + 1] - p.bucket_begin[k]) / (double)p.rows * SAMPLE;
            assert_true((double)count[k] > expected * 0.7 && (double)count[k] < expected * 1.3); /* six times its deviation, and more */
            count[k] = 0;
        }
    }
    const double segment = (double)rows / (double)writes * (p.row_bytes + 4);
    print_message("traffic: 10 TB in %llu segments of %.1f MB\n", (unsigned long long)(scatters * writes), segment / 1e6);
    assert_true(segment > 16e6);
    free(to);
    free(count);
    fby__pack_fini(&p);
}

/* The figures of docs/pack.md: up to so many bytes a segment is at least 1 MiB, and reading it is not seeking. */
static void segments_are_a_mebibyte_up_to_the_sizes_that_the_documentation_names(void **state)
{
    (void)state;
    static const struct {
        uint64_t task_bytes;
        double most;
    } LIMITS[] = {{GIB, 90e9}, {4 * GIB, 1.4e12}, {16 * GIB, 22e12}, {64 * GIB, 360e12}};
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++) {
        const uint64_t rows = (uint64_t)(LIMITS[i].most / 1000);
        const double buckets = fby__pack_buckets_for(rows, 1000, LIMITS[i].task_bytes);
        const double scatters = fby__pack_scatters_for(rows, 1000, LIMITS[i].task_bytes), segment = LIMITS[i].most / buckets / scatters;
        print_message("%llu GiB a task: %g TB, %.0f + %.0f tasks, segments of %.2f MiB\n", (unsigned long long)(LIMITS[i].task_bytes / GIB),
                      LIMITS[i].most / 1e12, scatters, buckets, segment / 1048576);
        assert_true(segment >= 1048576 && segment < 1.2 * 1048576 && buckets <= FBY__PACK_BUCKETS);
    }
}

/* What a refusal names. */
static void the_memory_of_a_task_that_is_named_has_few_enough_buckets(void **state)
{
    (void)state;
    for (uint64_t rows = 1; rows < UINT64_C(100000000000000); rows *= 7)
        for (double row_bytes = 0.125; row_bytes < 1e6; row_bytes *= 11) {
            const double bytes = fby__pack_task_bytes_for(rows, row_bytes);
            if (bytes < (double)((uint64_t)16 << 20))
                continue;
            assert_true(fby__pack_buckets_for(rows, row_bytes, (uint64_t)bytes) <= FBY__PACK_BUCKETS);
            assert_true(fby__pack_buckets_for(rows, row_bytes, (uint64_t)(0.99 * bytes)) > FBY__PACK_BUCKETS);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_written_by_one_task),
        cmocka_unit_test(ten_terabytes_are_a_thousand_tasks_that_know_little_and_open_one_file),
        cmocka_unit_test(segments_are_a_mebibyte_up_to_the_sizes_that_the_documentation_names),
        cmocka_unit_test(the_memory_of_a_task_that_is_named_has_few_enough_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
