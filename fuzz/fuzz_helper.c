/*
 * libFuzzer target: the helper program's request loop, with hostile requests, and with hostile HDF5 files behind it.
 *
 * An input is one byte (which golden file), one byte with the number of patches of that file, patches of 11 bytes (u16 where, u8 how many,
 * 8 bytes), and requests of 20 bytes for objects that the file has. Requests for a file as it is run here. With patches, libhdf5 may crash,
 * which in the program is contained: those run in a fork, whose end is told apart by whose code is innermost on the stack. Nobody's,
 * the helper's own or the client's (whatever the helper answers, the client must be able to take apart) is a finding, libhdf5's is none.
 * Like the program, a fork serves on until it ends, for some inputs at most: forking takes longer than an input. A changed file is opened anew,
 * and what it does is mostly libhdf5's: of libFuzzer's inputs, one of HOSTILE_EVERY has its patches put in.
 *
 * Correct is an answer of the protocol to every request that makes sense.
 */
#include "helper_pair.h"

#include "base/alloc.h"
#include "format/hdf5/client/helper_internal.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((visibility("default"))) void __asan_on_error(void);
uint8_t *helper_counters(size_t *out_n); /* helper_under_test.c */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum {
    PATCH = 11,
    REQUEST = 20,
    MAX_REQUESTS = 8,
    MAX_OBJECTS = 64,
    MAX_RESULT = 1 << 24,
    CPU_SECONDS = 20,
    FORK_INPUTS = 100,
    HOSTILE_EVERY = 8
};
enum { FINE, OURS = 101, OF_LIBHDF5 = 102 }; /* how a fork ends */
enum { PROMISED = 1, ANYWHERE = 2, RAW = 4, SHORT = 8, OTHER_FILE = 16, NO_OBJECT = 32, WRONG_SIZE = 64, FAR = 128 };

static const char *const FILES[] = {"hdf5_helper/types.h5",  "hdf5_helper/virtual.h5", "hdf5_helper/external.h5", "hdf5_table/tables.h5",
                                    "hdf5_table/station.nc", "hdf5_tree/links_new.h5", "hdf5_chunks/btree2.h5",   "hdf5/dense.h5",
                                    "hdf5/types_latest.h5",  "hdf5_table/elsewhere.h5"};
enum { N_FILES = sizeof FILES / sizeof *FILES };

typedef struct object {
    char path[256];
    uint64_t promise;
    uint32_t rank, bytes;
    uint64_t dims[FBY__H5_MAX_RANK];
} object;

/* A golden file, where it may be changed, and what is in it. */
typedef struct subject {
    char path[512]; /* of the copy */
    int fd;         /* of that */
    uint8_t *data;
    size_t n;
    object objects[MAX_OBJECTS];
    unsigned n_objects;
} subject;

static subject subjects[N_FILES];
static char folder[64];
static unsigned n_forks, n_changed, n_of_libhdf5; /* forks, files that were changed, and how many of those ended in libhdf5 */

static void clean_up(void)
{
    for (unsigned i = 0; i < N_FILES; i++)
        (void)unlink(subjects[i].path);
    (void)rmdir(folder);
    (void)fprintf(stderr, "%u of %u changed files ended libhdf5, %u forks\n", n_of_libhdf5, n_changed, n_forks);
}

/* ---- requests ---- */

static void begin_request(message *m, uint32_t op, const char *path, const char *name)
{
    m->request = (fby__h5p_request){.magic = FBY__H5P_MAGIC,
                                    .version = FBY__H5P_VERSION,
                                    .id = 7,
                                    .op = op,
                                    .path_bytes = (uint32_t)strlen(path) + 1,
                                    .object_bytes = (uint32_t)strlen(name) + 1,
                                    .memory_bytes = 64u << 20};
    memcpy(m->bytes + sizeof m->request, path, m->request.path_bytes);
    memcpy(m->bytes + sizeof m->request + m->request.path_bytes, name, m->request.object_bytes);
    m->n = sizeof m->request + m->request.path_bytes + m->request.object_bytes;
}

/* What a client may rely on. */
static void check_answer(const message *m, const fby__h5p_reply *r, int fd)
{
    size_t n;
    fby__arena arena = {0};
    fby__h5_tree tree;
    const fby__h5_object *o;
    fby_error err;
    if (r->magic != FBY__H5P_MAGIC || r->version != FBY__H5P_VERSION || r->id != m->request.id || r->kind != FBY__H5P_DONE ||
        r->status >= FBY__H5P_STATUS_COUNT || !memchr(r->message, 0, sizeof r->message) || (r->status == FBY__H5P_OK) != (fd >= 0))
        abort();
    if (fd < 0)
        return;
    struct stat st;
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_size != r->bytes)
        abort();
    if (m->request.op == FBY__H5P_READ && r->bytes != m->request.result_bytes)
        abort();
    if (m->request.op == FBY__H5P_VALUES && r->bytes > m->request.result_bytes)
        abort();
    if (m->request.op == FBY__H5P_READ || m->request.op == FBY__H5P_VALUES)
        return;
    uint8_t *result = whole_file(fd, &n);
    if (!result)
        return; /* no memory */
    const fby__bytes bytes = {result, n};
    const fby_status status = m->request.op == FBY__H5P_TREE ? fby__h5_helper_parse_tree(bytes, "of a fuzzer", &arena, &tree, &err)
                                                             : fby__h5_helper_parse_object(bytes, "of a fuzzer", &arena, &o, &err);
    if (status != FBY_OK && status != FBY_E_NOMEM && status != FBY_E_UNSUPPORTED) {
        (void)fprintf(stderr, "the client does not take what the helper describes: %s\n", err.message);
        abort();
    }
    fby__arena_fini(&arena);
    free(result);
}

static bool ask(const message *m)
{
    fby__h5p_reply reply;
    int fd;
    if (!helper_answers(m, &reply, &fd))
        return false;
    check_answer(m, &reply, fd);
    if (fd >= 0)
        (void)close(fd);
    return true;
}

/* One of 20 bytes: op, object, rank, as, as_bytes, flags, first, count; u32 where a raw patch goes; 8 bytes of it. */
static void make_request(message *m, const subject *s, const uint8_t *p)
{
    static const object NONE = {.path = "/no/such", .rank = 1, .dims = {5}, .bytes = 4};
    const unsigned flags = p[5];
    const object *o = flags & NO_OBJECT || s->n_objects == 0 ? &NONE : &s->objects[p[1] % s->n_objects];
    const subject *where = flags & OTHER_FILE ? &subjects[p[6] % N_FILES] : s;
    begin_request(m, p[0] % 5u + (p[0] > 250 ? 1u : 0u), where->path, o->path);
    fby__h5p_request *q = &m->request;
    uint64_t n = 1;
    q->rank = p[2] < 200 ? o->rank : p[2] % (FBY__H5P_MAX_RANK + 1);
    for (uint32_t i = 0; i < q->rank; i++) {
        q->start[i] = o->dims[i] ? p[6] % o->dims[i] : 0;
        q->count[i] = o->dims[i] - q->start[i];
        if (p[7] < 128 && q->count[i] > p[7] % 8u)
            q->count[i] = p[7] % 8u;
        n *= q->count[i] < 1000 ? q->count[i] : 1000;
    }
    if (flags & FAR && q->rank)
        memcpy(p[8] & 1 ? &q->start[q->rank - 1] : &q->count[q->rank - 1], p + 12, 8);
    q->as = p[3] % 8;
    q->as_bytes = p[4] < 200 ? (uint8_t)(1u << p[4] % 4) : p[4];
    q->result_bytes = q->op == FBY__H5P_VALUES ? MAX_RESULT : n * (q->as == FBY__H5P_NATIVE ? o->bytes : q->as_bytes);
    if (flags & WRONG_SIZE)
        q->result_bytes = (p[8] | (uint64_t)p[9] << 8) * n;
    if (q->result_bytes > MAX_RESULT) /* in the program, limits of memory hold it */
        q->result_bytes = MAX_RESULT;
    q->promise = flags & PROMISED ? o->promise : 0;
    q->anywhere = (flags & ANYWHERE) != 0;
    if (flags & RAW && !(flags & FAR)) {
        const size_t at = (p[8] | (size_t)p[9] << 8) % m->n, left = m->n - at, room = p[10] % 8u + 1;
        memcpy(m->bytes + at, p + 12, room < left ? room : left);
        q->result_bytes %= MAX_RESULT + 1;
    }
    if (flags & SHORT)
        m->n = (p[8] | (size_t)p[9] << 8) % m->n;
}

static void ask_all(const subject *s, const uint8_t *data, size_t n)
{
    static message m;
    for (unsigned i = 0; i < MAX_REQUESTS && n >= REQUEST; i++, data += REQUEST, n -= REQUEST) {
        make_request(&m, s, data);
        if (m.n > 0) /* an empty message is the end of the socket */
            (void)ask(&m);
    }
}

/* ---- whose fault ---- */

/* Shared with forks. */
static struct {
    unsigned subject;
    size_t n;
    uint8_t requests[MAX_REQUESTS * REQUEST];
    uint8_t counters[]; /* the helper's, behind the input or when the fork ended */
} * shared;

static pid_t the_fork; /* 0: there is none */
static int fork_end;   /* a byte there is an input; a byte from there, that it is done */
static unsigned n_inputs;
static bool in_fork;

static void keep_counters(void)
{
    size_t n;
    const uint8_t *counters = helper_counters(&n);
    if (n)
        memcpy(shared->counters, counters, n);
}

/* A fork has met its end: the innermost code on its stack that is the helper's or libhdf5's has done it. */
static void judge(void)
{
    void *stack[200];
    Dl_info own, info;
    const int n = backtrace(stack, sizeof stack / sizeof *stack);
    keep_counters();
    if (!dladdr((void *)(uintptr_t)&serve, &own))
        _exit(OURS);
    for (int i = 0; i < n; i++)
        if (dladdr(stack[i], &info) && info.dli_fname) {
            if (info.dli_fbase == own.dli_fbase)
                _exit(OURS);
            if (strstr(info.dli_fname, "libhdf5"))
                _exit(OF_LIBHDF5);
        }
    _exit(OURS);
}

static void judge_signal(int number)
{
    (void)number;
    judge();
}

/* Before a report is made, which would have the symbols looked up. */
void __asan_on_error(void)
{
    if (in_fork)
        judge();
}

static void be_judged(void)
{
    static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF, SIGTRAP};
    static uint8_t stack[1 << 16];
    struct sigaction action = {.sa_handler = judge_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    (void)sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        (void)sigaction(SIGNALS[i], &action, NULL);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(judge);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);                   /* where libFuzzer's own limit ends the fuzzer */
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC); /* a report on libhdf5 helps nobody; of the others there is another one */
    if (null >= 0)
        (void)dup2(null, STDERR_FILENO);
}

static void serve_inputs(int end)
{
    const struct itimerval limit = {.it_value = {.tv_sec = CPU_SECONDS}};
    size_t n;
    uint8_t *counters = helper_counters(&n);
    char byte;
    in_fork = true;
    be_judged();
    while (read(end, &byte, 1) == 1) {
        (void)setitimer(ITIMER_PROF, &limit, NULL);
        if (n)
            memset(counters, 0, n);
        ask_all(&subjects[shared->subject], shared->requests, shared->n);
        keep_counters();
        if (write(end, &byte, 1) != 1)
            break;
    }
    _exit(FINE);
}

static bool start_fork(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    the_fork = fork();
    if (the_fork == 0) {
        (void)close(ends[0]);
        serve_inputs(ends[1]);
    }
    (void)close(ends[1]);
    fork_end = ends[0];
    n_inputs = 0;
    n_forks += the_fork > 0;
    if (the_fork < 0) {
        (void)close(ends[0]);
        the_fork = 0;
    }
    return the_fork > 0;
}

/* How the fork ended. */
static int end_fork(void)
{
    int status = 0;
    (void)close(fork_end);
    while (waitpid(the_fork, &status, 0) < 0 && errno == EINTR)
        continue;
    the_fork = 0;
    return status;
}

static void ask_in_a_fork(const subject *s, const uint8_t *data, size_t n)
{
    size_t n_counters;
    uint8_t *counters = helper_counters(&n_counters);
    char byte = 0;
    ssize_t got;
    if (!the_fork && !start_fork())
        return;
    shared->subject = (unsigned)(s - subjects);
    shared->n = n < sizeof shared->requests ? n : sizeof shared->requests;
    memcpy(shared->requests, data, shared->n);
    if (n_counters)
        memset(shared->counters, 0, n_counters);
    n_inputs++;
    n_changed++;
    got = send(fork_end, &byte, 1, MSG_NOSIGNAL);
    while (got == 1 && (got = read(fork_end, &byte, 1)) < 0 && errno == EINTR)
        got = 1;
    const int status = got != 1 || n_inputs == FORK_INPUTS ? end_fork() : 0;
    if (n_counters)
        memcpy(counters, shared->counters, n_counters);
    n_of_libhdf5 += WIFEXITED(status) && WEXITSTATUS(status) == OF_LIBHDF5;
    if (WIFEXITED(status) && (WEXITSTATUS(status) == FINE || WEXITSTATUS(status) == OF_LIBHDF5))
        return;
    (void)fprintf(stderr, "a fork ended with status %#x at its input %u: once more, here\n", (unsigned)status, n_inputs);
    ask_all(s, data, n);
    abort();
}

/* ---- the files ---- */

/* Gives the copy a time of its own: the helper keeps files open that are as they were, and a clock's tick is longer than an input. */
static void touch(const subject *s)
{
    static time_t time;
    const struct timespec times[2] = {{.tv_sec = ++time}, {.tv_sec = time}};
    if (futimens(s->fd, times) != 0)
        abort();
}

/* The patches put in, or taken out again. */
static void patch(const subject *s, const uint8_t *patches, size_t n_patches, bool in)
{
    for (const uint8_t *p = patches; p < patches + n_patches * PATCH; p += PATCH) {
        const size_t at = (p[0] | (size_t)p[1] << 8) % s->n, wanted = p[2] % 8u + 1, n = wanted < s->n - at ? wanted : s->n - at;
        if (pwrite(s->fd, in ? p + 3 : s->data + at, n, (off_t)at) != (ssize_t)n)
            abort();
    }
    touch(s);
}

/* Are the input's patches put in? All of those that are replayed. */
static bool is_hostile(const uint8_t *data, size_t size)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    uint32_t sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    return sum / 16 % HOSTILE_EVERY == 0;
#else
    (void)data, (void)size;
    return true;
#endif
}

static void list_objects(subject *s)
{
    static message m;
    fby__h5p_reply reply;
    fby__arena arena = {0};
    fby__h5_tree tree;
    fby_error err;
    size_t n;
    int fd;
    begin_request(&m, FBY__H5P_TREE, s->path, "/");
    if (!helper_answers(&m, &reply, &fd) || fd < 0)
        abort();
    uint8_t *result = whole_file(fd, &n);
    (void)close(fd);
    if (!result || fby__h5_helper_parse_tree((fby__bytes){result, n}, "", &arena, &tree, &err) != FBY_OK)
        abort();
    for (uint32_t i = 0; i < tree.n && s->n_objects < MAX_OBJECTS; i++) {
        const fby__h5_object *o = tree.entries[i].object;
        object *out = &s->objects[s->n_objects];
        if (strlen(tree.entries[i].path) >= sizeof out->path)
            continue;
        strcpy(out->path, tree.entries[i].path);
        s->n_objects++;
        if (!o || o->kind != FBY__H5_DATASET)
            continue;
        out->promise = o->promise;
        out->rank = o->space.rank;
        out->bytes = o->type->bytes;
        memcpy(out->dims, o->space.dims, sizeof out->dims);
    }
    fby__arena_fini(&arena);
    free(result);
}

static void start(void)
{
    size_t n;
    (void)snprintf(folder, sizeof folder, "%s/forebay-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder))
        abort();
    (void)atexit(clean_up); /* forks end without it */
    (void)helper_counters(&n);
    shared = mmap(NULL, sizeof *shared + n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    for (unsigned i = 0; i < N_FILES; i++) {
        subject *s = &subjects[i];
        const int fd = openat(AT_FDCWD, FUZZ_GOLDEN, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                  golden = fd < 0 ? -1 : openat(fd, FILES[i], O_RDONLY);
        s->data = whole_file(golden, &s->n);
        (void)close(golden);
        (void)close(fd);
        (void)snprintf(s->path, sizeof s->path, "%s/%u.h5", folder, i);
        s->fd = open(s->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (!s->data || s->fd < 0 || write(s->fd, s->data, s->n) != (ssize_t)s->n)
            abort(); /* no golden files, or nowhere to write: the target would test nothing */
        touch(s);
        list_objects(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!folder[0])
        start();
    if (size < 2)
        return 0;
    subject *s = &subjects[data[0] % N_FILES];
    const bool hostile = data[1] % 16u != 0 && is_hostile(data, size);
    const size_t asked = data[1] % 16u, n_patches = asked < (size - 2) / PATCH ? asked : (size - 2) / PATCH;
    const uint8_t *patches = data + 2;
    data = patches + n_patches * PATCH;
    size -= 2 + n_patches * PATCH;
    if (!hostile) {
        ask_all(s, data, size);
        return 0;
    }
    patch(s, patches, n_patches, true);
    ask_in_a_fork(s, data, size);
    patch(s, patches, n_patches, false);
    return 0;
}
