/*
 * Memory is mapped and unmapped while no lock is held: a call into the kernel for it walks page tables and waits for other threads' page
 * faults, and everyone who wants the lock would wait with it. The linker puts the functions here before those of the C library.
 */
#include "support/loader_delivery.h"
#include "support/loader_fixture.h"
#include "support/memory_dataset.h"

#include "format/chunk_store.h"
#include "loader/internal.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define LARGE_BYTES ((size_t)128 << 10)

static _Thread_local int t_locks; /* that this thread holds */
static atomic_int g_maps, g_unmaps, g_bad_maps, g_bad_unmaps;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    const int rc = __real_pthread_mutex_lock(lock);
    t_locks++;
    return rc;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    t_locks--;
    return __real_pthread_mutex_unlock(lock);
}

void *__real_mmap64(void *at, size_t n, int access, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t n, int access, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t n, int access, int flags, int fd, off_t offset)
{
    atomic_fetch_add(t_locks ? &g_bad_maps : &g_maps, 1);
    return __real_mmap64(at, n, access, flags, fd, offset);
}

int __real_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n)
{
    atomic_fetch_add(t_locks ? &g_bad_unmaps : &g_unmaps, 1);
    return __real_munmap(at, n);
}

/* The C library maps what is large. */
static void count_large(size_t n, atomic_int *bad, atomic_int *good)
{
    if (n >= LARGE_BYTES)
        atomic_fetch_add(t_locks ? bad : good, 1);
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
    count_large(n, &g_bad_maps, &g_maps);
    return __real_malloc(n);
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
    count_large(malloc_usable_size(p), &g_bad_unmaps, &g_unmaps);
    __real_free(p);
}

static int setup(void **state)
{
    atomic_store(&g_maps, 0);
    atomic_store(&g_unmaps, 0);
    atomic_store(&g_bad_maps, 0);
    atomic_store(&g_bad_unmaps, 0);
    return setup_dir(state);
}

static void assert_no_lock_was_held(int least)
{
    print_message("%d mapped, %d unmapped; under a lock %d and %d\n", atomic_load(&g_maps), atomic_load(&g_unmaps),
                  atomic_load(&g_bad_maps), atomic_load(&g_bad_unmaps));
    assert_int_equal(atomic_load(&g_bad_maps), 0);
    assert_int_equal(atomic_load(&g_bad_unmaps), 0);
    assert_true(atomic_load(&g_maps) >= least && atomic_load(&g_unmaps) >= least);
}

/* Some batches are held for a while, so that their buffers are missing; an epoch is left in its middle. */
static void read_epochs(fby_loader *l)
{
    enum { HELD = 40 };
    fby_batch *held[HELD] = {0};
    fby_error err = {0};
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        fby_status status = fby_loader_begin(l, epoch, &err);
        const uint64_t n = epoch == 2 ? fby_loader_batch_count(l) / 2 : UINT64_MAX;
        for (uint64_t k = 0; k < n && status == FBY_OK; k++) {
            fby_batch *b = NULL;
            if ((status = fby_loader_next(l, -1, &b, &err)) != FBY_OK)
                break;
            fby_batch **place = &held[k % (epoch == 1 ? HELD : 2)];
            fby_batch_unref(*place);
            *place = b;
        }
        if (status != FBY_OK && status != FBY_END)
            fail_msg("%s", err.message);
    }
    for (int i = 0; i < HELD; i++)
        fby_batch_unref(held[i]);
}

static uint64_t minimum_of(fby_dataset *ds, fby_loader_opts opts)
{
    opts.memory_bytes = (uint64_t)4 << 30;
    fby_loader *l = open_loader(ds, opts);
    const uint64_t bytes = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    return bytes;
}

static void blocks_that_come_and_go_are_mapped_without_a_lock(void **state)
{
    (void)state;
    put_files("d", 40);
    fby_dataset *ds = open_dataset("d", NULL);
    fby_loader_opts opts = {.superbatch_blocks = 4, .streams = 1, .seed = 3};
    opts.memory_bytes = minimum_of(ds, opts);
    fby_loader *l = open_loader(ds, opts);
    read_epochs(l);
    assert_true(report_of(l).blocks_evicted > 0);
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_no_lock_was_held(20);
}

static void mapped_files_are_closed_without_a_lock(void **state)
{
    (void)state;
    put_files("m", 40);
    fby_dataset *ds = open_dataset("m", &(fby_open_opts){.cache_dir = "", .io = FBY_IO_MMAP, .immutable = true});
    fby_loader_opts opts = {.superbatch_blocks = 4, .streams = 1, .seed = 3};
    opts.memory_bytes = minimum_of(ds, opts);
    fby_loader *l = open_loader(ds, opts);
    read_epochs(l);
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_no_lock_was_held(20);
}

static void batches_that_rows_go_to_directly_are_mapped_without_a_lock(void **state)
{
    (void)state;
    if (!has_direct())
        skip();
    enum { BLOCKS = 150 };
    static const char *wide[] = {"x", "narrow", "id", "x", "narrow", "id", "x", "narrow", "id"};
    static const fby_output outputs[] = {{.name = "all", .columns = wide, .n_columns = 9, .dtype = FBY_FLOAT64}};
    uint64_t counts[BLOCKS];
    for (uint64_t i = 0; i < BLOCKS; i++)
        counts[i] = 300 + 371 * i % 500;
    fby_dataset *ds = NULL;
    assert_int_equal(memory_dataset_open(counts, BLOCKS, &ds, NULL), FBY_OK);
    fby_loader_opts opts = {
        .outputs = outputs, .n_outputs = 1, .batch_size = 64, .superbatch_samples = 4000, .streams = 1, .seed = 3, .n_threads = 3};
    opts.memory_bytes = minimum_of(ds, opts) + (600u << 10);
    fby_loader *l = open_loader(ds, opts);
    assert_true(is_direct(l));
    read_epochs(l);
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_no_lock_was_held(4);
}

/* More of them than the store may keep, so that each takes the place of others. */
static void chunks_that_blocks_share_come_and_go_without_a_lock(void **state)
{
    fby_error err = {0};
    fby__chunk_store *store;
    (void)state;
    assert_int_equal(fby__chunk_store_create((size_t)4 << 20, NULL, &store, &err), FBY_OK);
    for (uint64_t i = 0; i < 40; i++) {
        fby__shared_chunk *c = fby__chunk_store_get(store, 0, 0, i % 7, (size_t)1 << 20);
        assert_non_null(c);
        if (i % 3 != 0 && fby__shared_chunk_begin(c)) { /* else it is given up */
            assert_int_equal(t_locks, 0);               /* whoever fills it may read */
            fby__shared_chunk_filled(c, true);
        }
        fby__shared_chunk_unref(c);
    }
    fby__chunk_store_destroy(store);
    assert_no_lock_was_held(20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chunks_that_blocks_share_come_and_go_without_a_lock, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(blocks_that_come_and_go_are_mapped_without_a_lock, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(mapped_files_are_closed_without_a_lock, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(batches_that_rows_go_to_directly_are_mapped_without_a_lock, setup, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
