/*
 * io_uring: one thread owns the ring, makes it, submits, reaps and unmakes it; nobody else touches it.
 *
 *     submit() ──list──► ring thread ──sqe──► kernel ──cqe──► ring thread ──► done()
 *         └──eventfd──────────┘ a read of it is always armed, so that waiting for the kernel is also waiting for work
 *
 * Submitting from the callers' threads would need a lock around the ring, held while the kernel copies pages that are
 * in memory. Those were tried on the calling thread already (try_now), so what comes here mostly waits for the device.
 *
 * The kernel keeps a list of the threads that made a ring or submitted to it, and when the ring is gone, it interrupts them in whatever
 * they wait in (io_ring_exit_work: TWA_SIGNAL): a thread of the program would see its write to a pipe return early. A thread that has
 * ended is not on the list.
 *
 * A request in flight has a slot; there are `depth` of them, the others wait in the list. A read that comes back short
 * is submitted again for the rest. Delays of fault injection are a linked timeout before the read, so that delayed
 * reads overtake each other as real ones do.
 *
 * Needs IORING_OP_READ (Linux 5.6) and IORING_FEAT_NODROP (5.5). Where the kernel, a container's seccomp filter or
 * kernel.io_uring_disabled refuses it, creation says so and FBY__IO_AUTO takes threads.
 */
#ifdef FBY_HAVE_URING
#include "io/io_impl.h"

#include "pool/pool.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEFAULT_DEPTH 64 /* NVMe drives level off at 32 to 64 reads of 128 KiB or more in flight */
#define MAX_DEPTH 4096
#define MAX_AGAIN 1000 /* EAGAINs in a row, without a byte between, before a read is given up */

/*
 * Rings made and gone. The kernel may give a new ring the addresses of an old one: that order is its own, in system calls that
 * liburing makes without libc, so ThreadSanitizer learns of it here. Released before a ring is unmapped, acquired after one was
 * mapped.
 */
static _Atomic unsigned g_rings;

/* user_data of what is not a slot. */
#define DATA_EVENT ((uint64_t)1)
#define DATA_TIMEOUT ((uint64_t)2)

typedef struct slot {
    fby__io_batch *batch; /* NULL: free */
    fby__io_request *request;
    size_t got;
    int n_again;
    struct __kernel_timespec delay; /* read by the kernel when the timeout is submitted */
    struct slot *next_free;
} slot;

typedef struct uring {
    /* set once */
    pthread_t thread;
    int event_fd;
    unsigned depth;
    sem_t started; /* the ring is there, or could not be made */
    fby_status start_status;
    fby_error *start_error; /* the creator's, which waits */

    /* ring thread only (and create, destroy) */
    struct io_uring ring;
    uint64_t event_value; /* the kernel writes here */
    slot *slots;          /* owned, depth of them */
    slot *free_slots;
    unsigned n_in_flight;
    fby__io_batch *todo, *todo_tail; /* batches with requests that were not started yet; borrowed */

    pthread_mutex_t lock; /* guards the rest, and `next` of the batches in the list */
    fby__io_batch *incoming, *incoming_tail;
    bool woken; /* event_fd was written since the ring thread last took the list */
    bool stopping;
    int dead_errno; /* the ring stopped working: nothing is accepted any more */
} uring;

/* ---- ring thread ---- */

static void finish_slot(uring *self, slot *s, const fby_error *error)
{
    fby__io_batch *batch = s->batch;
    s->batch = NULL;
    s->next_free = self->free_slots;
    self->free_slots = s;
    self->n_in_flight--;
    if (error)
        fby__io_batch_fail(batch, error);
    fby__io_batch_finish(batch, 1);
}

/* Submit the rest of a slot's request; finishes it when nothing is left or a fault is injected. */
static void start_read(uring *self, slot *s)
{
    fby__io_request *request = s->request;
    if (s->got == request->n || (s->got > 0 && fby__io_batch_is_over(s->batch))) {
        finish_slot(self, s, NULL);
        return;
    }
    size_t ask = request->n - s->got < FBY__IO_MAX_READ_BYTES ? request->n - s->got : FBY__IO_MAX_READ_BYTES;
    uint64_t delay_ns;
    int error = fby__io_fault_read(&ask, &delay_ns);
    if (error) {
        fby_error why;
        fby__file_fail_read(request->file, request->offset, request->n, error, &why);
        finish_slot(self, s, &why);
        return;
    }
    if (delay_ns) {
        s->delay =
            (struct __kernel_timespec){.tv_sec = (long long)(delay_ns / 1000000000u), .tv_nsec = (long long)(delay_ns % 1000000000u)};
        struct io_uring_sqe *wait = io_uring_get_sqe(&self->ring);
        assert(wait);
        io_uring_prep_timeout(wait, &s->delay, 0, 0);
        io_uring_sqe_set_flags(wait, IOSQE_IO_HARDLINK); /* its end is ETIME, an error that must not break the link */
        wait->user_data = DATA_TIMEOUT;
    }
    struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);
    assert(sqe); /* the ring holds two entries a slot and one for the event */
    io_uring_prep_read(sqe, fby__file_fd(request->file), request->dst + s->got, (unsigned)ask, request->offset + s->got);
    sqe->user_data = (uint64_t)(uintptr_t)s;
}

static void arm_event(uring *self)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);
    assert(sqe);
    io_uring_prep_read(sqe, self->event_fd, &self->event_value, sizeof self->event_value, 0);
    sqe->user_data = DATA_EVENT;
}

static void complete_read(uring *self, slot *s, int result)
{
    fby__io_request *request = s->request;
    fby_error error;
    if (result > 0) {
        s->got += (size_t)result;
        s->n_again = 0;
    } else if (result == 0) {
        fby__file_fail_short(request->file, request->offset, request->n, request->offset + s->got, &error);
        finish_slot(self, s, &error);
        return;
    } else if (result != -EINTR && (result != -EAGAIN || ++s->n_again > MAX_AGAIN)) {
        fby__file_fail_read(request->file, request->offset, request->n, -result, &error);
        finish_slot(self, s, &error);
        return;
    }
    start_read(self, s);
}

/* Move what was submitted since to the end of `todo`; true when the engine is to stop. */
static bool append_incoming(uring *self)
{
    pthread_mutex_lock(&self->lock);
    if (self->incoming) {
        if (self->todo)
            self->todo_tail->next = self->incoming;
        else
            self->todo = self->incoming;
        self->todo_tail = self->incoming_tail;
        self->incoming = NULL;
    }
    self->woken = false;
    bool stopping = self->stopping;
    pthread_mutex_unlock(&self->lock);
    return stopping;
}

/* The next request that was not started, or NULL. Takes its batch off `todo` with the last one. */
static fby__io_request *next_request(uring *self, fby__io_batch **out_batch)
{
    fby__io_batch *batch = self->todo;
    if (!batch)
        return NULL;
    fby__io_request *request = &batch->requests[batch->cursor++];
    if (batch->cursor == batch->n_requests)
        self->todo = batch->next;
    *out_batch = batch;
    return request;
}

static void start_requests(uring *self)
{
    fby__io_batch *batch;
    fby__io_request *request;
    while (self->free_slots && (request = next_request(self, &batch)) != NULL) {
        if (fby__io_batch_is_over(batch)) {
            fby__io_batch_finish(batch, 1);
            continue;
        }
        slot *s = self->free_slots;
        self->free_slots = s->next_free;
        self->n_in_flight++;
        s->batch = batch;
        s->request = request;
        s->got = 0;
        s->n_again = 0;
        start_read(self, s);
    }
}

/*
 * io_uring_enter failed in a way that cannot pass, such as a descriptor closed under our feet: refuse what comes, fail
 * what the kernel did not take, and wait for what it did, because it still writes to those buffers. The mappings keep
 * the ring alive, and any system call lets it complete.
 */
static void give_up(uring *self, int sys_errno)
{
    pthread_mutex_lock(&self->lock);
    self->dead_errno = sys_errno;
    pthread_mutex_unlock(&self->lock);
    (void)append_incoming(self); /* the last time: submit refuses from now on */

    fby_error why;
    fby__fail_errno(&why, sys_errno, "io_uring stopped working");
    const struct io_uring_sq *sq = &self->ring.sq;
    for (unsigned i = io_uring_smp_load_acquire(sq->khead); i != sq->sqe_tail; i++) {
        uint64_t data = sq->sqes[i & *sq->kring_mask].user_data;
        if (data != DATA_EVENT && data != DATA_TIMEOUT)
            finish_slot(self, (slot *)(uintptr_t)data, &why);
    }
    fby__io_batch *batch;
    while (next_request(self, &batch)) {
        fby__io_batch_fail(batch, &why);
        fby__io_batch_finish(batch, 1);
    }
    while (self->n_in_flight > 0) {
        struct io_uring_cqe *cqe;
        if (io_uring_peek_cqe(&self->ring, &cqe) != 0) {
            fby__io_sleep(100000);
            continue;
        }
        uint64_t data = cqe->user_data;
        int result = cqe->res;
        io_uring_cqe_seen(&self->ring, cqe);
        if (data == DATA_EVENT || data == DATA_TIMEOUT)
            continue;
        slot *s = (slot *)(uintptr_t)data;
        finish_slot(self, s, result > 0 && s->got + (size_t)result == s->request->n ? NULL : &why);
    }
}

static void serve(uring *self)
{
    arm_event(self);
    for (;;) {
        bool stopping = append_incoming(self);
        start_requests(self);
        if (stopping && self->n_in_flight == 0 && !self->todo)
            return;
        int result = io_uring_submit_and_wait(&self->ring, 1);
        if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY) {
            give_up(self, -result);
            return;
        }
        struct io_uring_cqe *cqe;
        while (io_uring_peek_cqe(&self->ring, &cqe) == 0) {
            uint64_t data = cqe->user_data;
            result = cqe->res;
            io_uring_cqe_seen(&self->ring, cqe);
            if (data == DATA_EVENT)
                arm_event(self);
            else if (data != DATA_TIMEOUT)
                complete_read(self, (slot *)(uintptr_t)data, result);
        }
    }
}

static void destroy_ring(uring *self)
{
    (void)atomic_fetch_add_explicit(&g_rings, 1, memory_order_release);
    io_uring_queue_exit(&self->ring);
}

/* FBY_E_UNSUPPORTED with the reason where the kernel has no io_uring for us. */
static fby_status create_ring(uring *self, fby_error *err)
{
    /* Two entries a slot (a delayed read has a timeout before it) and the event; as many completions can be due. */
    unsigned entries = 2 * self->depth + 1;
    struct io_uring_params params = {.flags = IORING_SETUP_CLAMP};
    int result;
#ifdef IORING_SETUP_COOP_TASKRUN
    /* Linux 5.19: no interrupts to a thread that comes back to the kernel by itself. */
    params.flags |= IORING_SETUP_COOP_TASKRUN;
    result = io_uring_queue_init_params(entries, &self->ring, &params);
    if (result == -EINVAL) {
        params = (struct io_uring_params){.flags = IORING_SETUP_CLAMP};
        result = io_uring_queue_init_params(entries, &self->ring, &params);
    }
#else
    result = io_uring_queue_init_params(entries, &self->ring, &params);
#endif
    if (result < 0)
        return fby__fail(err, FBY_E_UNSUPPORTED, "io_uring is not available here: %s%s", strerror(-result),
                         result == -EPERM    ? " (kernel.io_uring_disabled, or a container that forbids it)"
                         : result == -ENOMEM ? " (kernels before 5.12 count it against `ulimit -l`)"
                                             : "");
    (void)atomic_fetch_add_explicit(&g_rings, 1, memory_order_acquire); /* reads the last value: a plain load need not */
    struct io_uring_probe *probe = io_uring_get_probe_ring(&self->ring);
    bool ok = probe && io_uring_opcode_supported(probe, IORING_OP_READ) && io_uring_opcode_supported(probe, IORING_OP_TIMEOUT) &&
              (params.features & IORING_FEAT_NODROP) && params.sq_entries >= entries;
    io_uring_free_probe(probe);
    if (!ok) {
        destroy_ring(self);
        return fby__fail(err, FBY_E_UNSUPPORTED, "io_uring is too old here: Linux 5.6 is needed");
    }
    (void)io_uring_ring_dontfork(&self->ring); /* saves a child the pages; without it nothing is wrong */
    return FBY_OK;
}

static void *live(void *arg)
{
    uring *self = arg;
    const fby_status status = self->start_status = create_ring(self, self->start_error);
    (void)sem_post(&self->started); /* where the ring could not be made, the creator joins this thread */
    if (status == FBY_OK) {
        serve(self);
        destroy_ring(self);
    }
    return NULL;
}

/* ---- any thread ---- */

static void wake_locked(uring *self)
{
    uint64_t one = 1;
    if (!self->woken)
        (void)!write(self->event_fd, &one, sizeof one); /* fails when the counter is full only, and then it is awake */
    self->woken = true;
}

static fby_status submit(void *arg, fby__io_batch *batch, fby_error *err)
{
    uring *self = arg;
    pthread_mutex_lock(&self->lock);
    int dead_errno = self->dead_errno;
    if (!dead_errno) {
        if (self->incoming)
            self->incoming_tail->next = batch;
        else
            self->incoming = batch;
        self->incoming_tail = batch;
        wake_locked(self); /* under the lock: afterwards the batch may be done and the engine destroyed */
    }
    pthread_mutex_unlock(&self->lock);
    return dead_errno ? fby__fail_errno(err, dead_errno, "io_uring stopped working; open the data set again") : FBY_OK;
}

static void release(uring *self)
{
    if (self->event_fd >= 0)
        (void)close(self->event_fd); /* holds no data */
    sem_destroy(&self->started);
    pthread_mutex_destroy(&self->lock);
    fby__free(self->slots);
    fby__free(self);
}

static void destroy(void *arg)
{
    uring *self = arg;
    pthread_mutex_lock(&self->lock);
    self->stopping = true;
    wake_locked(self);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    release(self);
}

static fby_status create(const fby__io_opts *opts, void **out, fby_error *err)
{
    unsigned depth = opts->depth ? opts->depth : DEFAULT_DEPTH;
    if (depth > MAX_DEPTH)
        return fby__fail(err, FBY_E_ARG, "an io_uring depth of %u: choose 1 to %d, or 0 for %d", depth, MAX_DEPTH, DEFAULT_DEPTH);
    fby_status status = FBY_E_NOMEM;
    uring *self = fby__calloc(1, sizeof *self);
    if (!self)
        return fby__fail_nomem(err, "io_uring engine");
    self->event_fd = -1;
    self->depth = depth;
    self->start_error = err;
    pthread_mutex_init(&self->lock, NULL);
    (void)sem_init(&self->started, 0, 0); /* fails for large values only */
    self->slots = fby__calloc(depth, sizeof *self->slots);
    if (!self->slots) {
        status = fby__fail_nomem(err, "io_uring engine");
        goto fail;
    }
    for (unsigned i = depth; i-- > 0;) {
        self->slots[i].next_free = self->free_slots;
        self->free_slots = &self->slots[i];
    }
    self->event_fd = eventfd(0, EFD_CLOEXEC);
    if (self->event_fd < 0) {
        status = fby__fail_errno(err, errno, "cannot create an eventfd");
        goto fail;
    }
    status = fby__thread_start(&self->thread, "forebay-ring", 0, FBY__STACK_OWN, live, self, err);
    if (status != FBY_OK)
        goto fail;
    while (sem_wait(&self->started) != 0) /* EINTR */
        continue;
    status = self->start_status;
    if (status != FBY_OK) {
        pthread_join(self->thread, NULL);
        goto fail;
    }
    *out = self;
    return FBY_OK;
fail:
    release(self);
    return status;
}

const fby__io_ops fby__io_uring = {.create = create, .submit = submit, .destroy = destroy, .tries_now = true};
#else
typedef int fby__io_uring_is_not_built; /* ISO C wants a declaration in every file */
#endif
