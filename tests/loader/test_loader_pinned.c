/*
 * Batches whose memory is pinned for a device: once for memory that batch after batch lies in, unpinned while it is still mapped, and at the end all
 * of it, also of batches that outlive their loader. A table stands for the device.
 */
#include "support/loader_sizes.h"
#include "support/memory_dataset.h"

#include <forebay/forebay.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 40000, BATCH = 100, HELD = 3 };

static const char *ID[] = {"id"}, *HITS[] = {"hits"};

typedef struct device {
    pthread_mutex_t lock;
    int refuse; /* from this call on; 0 = never */
    int keeps;  /* what unpin() gives */
    int pins, unpins, wrong;
    struct {
        uint8_t *memory;
        size_t bytes;
    } ranges[256];
    int n;
} device;

static int pin(void *user, void *memory, size_t bytes)
{
    device *d = user;
    pthread_mutex_lock(&d->lock);
    const int status = d->refuse && d->pins + 1 >= d->refuse ? 1 : 0;
    if (status == 0) {
        d->pins++;
        d->wrong += (uintptr_t)memory % 4096 != 0 || bytes % 4096 != 0;
        for (int i = 0; i < d->n; i++)
            d->wrong += d->ranges[i].memory < (uint8_t *)memory + bytes && (uint8_t *)memory < d->ranges[i].memory + d->ranges[i].bytes;
        d->ranges[d->n].memory = memory;
        d->ranges[d->n++].bytes = bytes;
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

static int unpin(void *user, void *memory)
{
    device *d = user;
    pthread_mutex_lock(&d->lock);
    int i = 0;
    while (i < d->n && d->ranges[i].memory != memory)
        i++;
    if (i == d->n) {
        d->wrong++;
    } else {
        ((volatile uint8_t *)memory)[d->ranges[i].bytes - 1]++; /* it is still mapped, or this is the end of the test */
        d->ranges[i] = d->ranges[--d->n];
        d->unpins++;
    }
    pthread_mutex_unlock(&d->lock);
    return d->keeps;
}

static fby_loader *open_loader(fby_dataset *ds)
{
    const fby_output outputs[] = {{.name = "id", .columns = ID, .n_columns = 1}, {.name = "hits", .columns = HITS, .n_columns = 1}};
    fby_loader_opts opts = {.outputs = outputs, .n_outputs = 2, .batch_size = BATCH, .n_threads = 3, .memory_bytes = 64 << 20, .seed = 7};
    fby_loader *l = NULL;
    fby_error err = {0};
    set_sizes(&opts);
    if (fby_loader_open(ds, &opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

static fby_dataset *open_dataset(void)
{
    const uint64_t counts[] = {ROWS / 4, ROWS / 4, ROWS / 4, ROWS / 4};
    fby_dataset *ds = NULL;
    assert_int_equal(memory_dataset_open(counts, 4, &ds, NULL), FBY_OK);
    return ds;
}

static fby_batch *next_batch(fby_loader *l)
{
    fby_batch *b = NULL;
    fby_error err = {0};
    if (fby_loader_next(l, -1, &b, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return b;
}

/* Read epochs, each batch pinned and held for a while; how many were pinned, and a sum of the rows. The last HELD stay in `held`. */
static uint64_t read_epochs(fby_loader *l, device *d, int epochs, int *pinned, fby_batch **held)
{
    uint64_t sum = 0;
    fby_error err = {0};
    for (int epoch = 0; epoch < epochs; epoch++) {
        assert_int_equal(fby_loader_begin(l, (uint64_t)epoch, &err), FBY_OK);
        for (;;) {
            fby_batch *b;
            const fby_status status = fby_loader_next(l, -1, &b, &err);
            if (status == FBY_END)
                break;
            assert_int_equal(status, FBY_OK);
            *pinned += fby_batch_pin(b, pin, unpin, d);
            const fby_tensor *id = fby_batch_tensor(b, 0);
            for (int64_t i = 0; i < id->shape[0]; i++)
                sum += (uint64_t)((int64_t *)id->data)[i];
            fby_batch_unref(held[0]);
            memmove(held, held + 1, (HELD - 1) * sizeof *held);
            held[HELD - 1] = b;
        }
    }
    return sum;
}

static void memory_is_pinned_once_and_unpinned_before_it_is_unmapped(void **state)
{
    (void)state;
    device d = {.lock = PTHREAD_MUTEX_INITIALIZER};
    fby_dataset *ds = open_dataset();
    fby_loader *l = open_loader(ds);
    fby_batch *held[HELD] = {0};
    int pinned = 0;
    const uint64_t sum = read_epochs(l, &d, 3, &pinned, held);
    assert_int_equal(sum, 3 * ((uint64_t)ROWS * (ROWS - 1) / 2));
    assert_int_equal(pinned, 3 * ROWS / BATCH);
    print_message("%d batches in memory that was pinned %d times and unpinned %d times\n", pinned, d.pins, d.unpins);
    assert_true(d.pins < pinned / 4); /* it is used again */
    fby_loader_close(l);
    assert_int_equal(d.n, HELD); /* those that are held */
    fby_dataset_close(ds);
    for (int i = 0; i < HELD; i++)
        fby_batch_unref(held[i]);
    assert_int_equal(d.n, 0);
    assert_int_equal(d.pins, d.unpins);
    assert_int_equal(d.wrong, 0);
}

static void a_device_that_refuses_changes_nothing(void **state)
{
    (void)state;
    device d = {.lock = PTHREAD_MUTEX_INITIALIZER, .refuse = 2};
    fby_dataset *ds = open_dataset();
    fby_loader *l = open_loader(ds);
    fby_batch *held[HELD] = {0};
    int pinned = 0;
    assert_int_equal(read_epochs(l, &d, 1, &pinned, held), (uint64_t)ROWS * (ROWS - 1) / 2);
    assert_true(d.pins == 1 && pinned >= 1 && pinned < ROWS / BATCH);
    device other = {.lock = PTHREAD_MUTEX_INITIALIZER};
    int of_other = 0;
    fby_batch *none[HELD] = {0};
    (void)read_epochs(l, &other, 1, &of_other, none);
    assert_true(other.pins == 0 && of_other < ROWS / BATCH); /* one device a loader; what is pinned for it stays so */
    for (int i = 0; i < HELD; i++) {
        fby_batch_unref(held[i]);
        fby_batch_unref(none[i]);
    }
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_int_equal(d.n, 0);
    assert_int_equal(d.wrong, 0);
}

static void a_child_of_fork_neither_pins_nor_unpins(void **state)
{
    (void)state;
    device d = {.lock = PTHREAD_MUTEX_INITIALIZER};
    fby_dataset *ds = open_dataset();
    fby_loader *l = open_loader(ds);
    fby_batch *first = next_batch(l), *second = next_batch(l);
    assert_true(fby_batch_pin(first, pin, unpin, &d));
    const pid_t child = fork();
    if (child == 0) {
        const bool pinned = fby_batch_pin(second, pin, unpin, &d);
        fby_batch_unref(first);
        fby_batch_unref(second);
        _exit(pinned || d.pins != 1 || d.unpins != 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fby_batch_unref(first);
    fby_batch_unref(second);
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_int_equal(d.pins, d.unpins);
    assert_int_equal(d.wrong, 0);
}

static void what_cannot_be_unpinned_stays_mapped(void **state)
{
    (void)state;
    device d = {.lock = PTHREAD_MUTEX_INITIALIZER, .keeps = 1};
    fby_dataset *ds = open_dataset();
    fby_loader *l = open_loader(ds);
    fby_batch *b = next_batch(l);
    assert_true(fby_batch_pin(b, pin, unpin, &d));
    uint8_t *memory = d.ranges[0].memory;
    const size_t bytes = d.ranges[0].bytes;
    fby_loader_close(l);
    fby_batch_unref(b);
    assert_int_equal(d.unpins, 1);
    memory[0]++;
    assert_int_equal(munmap(memory, bytes), 0);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_pinned_once_and_unpinned_before_it_is_unmapped),
        cmocka_unit_test(a_device_that_refuses_changes_nothing),
        cmocka_unit_test(a_child_of_fork_neither_pins_nor_unpins),
        cmocka_unit_test(what_cannot_be_unpinned_stays_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
