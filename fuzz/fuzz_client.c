/*
 * libFuzzer target: the library's side of the helper's protocol, with a helper that lies. The helper's request loop runs in this process
 * (helper_pair.h) over golden files; its genuine replies are kept, and an input says how they are falsified on their way: figures of the
 * reply, bytes of the result, results that are too long, too short, missing, no shared memory, or come twice.
 *
 * An input is one byte (which file, and how it is read) and patches of 12 bytes: u8 which reply, and what of it; u16 where; u8 how many
 * bytes, or what is done; 8 bytes. Correct is any status; a crash, a sanitizer's report, a hang or memory without bound is not.
 */
#include "helper_pair.h"

#include "fuzz_file.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "format/hdf5/client/helper.h"
#include "format/hdf5/client/helper_internal.h"

#include <sys/mman.h>

enum { PATCH = 12, MAX_PATCHES = 32, MAX_KEPT = 4096, MAX_ASKED = 200, MAX_TRUE = 3, OF_OBJECT = 3, AS_DATA_SET = 224 };
enum { RESULT, RESULT_FAR, REPLY, MANNER };
enum { NOTHING, NO_RESULT, A_PIPE, TWO_DESCRIPTORS, CUT, LONGER, SHORT_FILE, TWICE, PROGRESS_FIRST, HANG_UP, MANNERS };

static const char *const FILES[] = {"hdf5_helper/types.h5",   "hdf5_table/types.h5",        "hdf5_table/tables.h5",
                                    "hdf5_helper/virtual.h5", "hdf5_table/only_virtual.h5", "hdf5_helper/external.h5",
                                    "hdf5_helper/plugin.h5"};
enum { N_FILES = sizeof FILES / sizeof *FILES };

/* A request and the genuine reply. */
typedef struct kept {
    char *request; /* without its number */
    size_t request_n;
    unsigned file;
    fby__h5p_reply reply;
    uint8_t *result; /* NULL: none */
    size_t result_n;
} kept;

static kept all_kept[MAX_KEPT];
static unsigned n_kept, n_asked, n_false, file; /* n_false: replies up to the last that is falsified */
static const uint8_t *patches;
static size_t n_patches;
static int client_end = -1;

/* ---- genuine replies ---- */

static const kept *genuine(message *m)
{
    m->request.id = 0;
    for (unsigned i = 0; i < n_kept; i++)
        if (all_kept[i].file == file && all_kept[i].request_n == m->n && memcmp(all_kept[i].request, m->bytes, m->n) == 0)
            return &all_kept[i];
    if (n_kept == MAX_KEPT)
        return NULL;
    kept *k = &all_kept[n_kept];
    int fd;
    if (!helper_answers(m, &k->reply, &fd))
        abort(); /* what the client sends is a request */
    k->result = whole_file(fd, &k->result_n);
    if (fd >= 0)
        (void)close(fd);
    k->request = malloc(m->n);
    if (!k->request)
        abort();
    memcpy(k->request, m->bytes, m->n);
    k->request_n = m->n;
    k->file = file;
    n_kept++;
    return k;
}

/* ---- lies ---- */

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
__attribute__((visibility("default"))) ssize_t __wrap_sendmsg(int fd, const struct msghdr *m,
                                                              int flags); /* libraries that are instrumented call it */
fby_status __wrap_fby__h5_helper_find(const fby__h5_environment *environment, char *out, fby_error *err);
fby_status __wrap_fby__h5_helper_spawn(const char *program, const fby__h5_environment *environment, fby__bytes folders, int socket,
                                       int written, pid_t *out_pid, fby_error *err);

static void give(const fby__h5p_reply *reply, const int *fds, size_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)reply, sizeof *reply};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (n_fds) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(n_fds * sizeof(int))};
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    (void)__real_sendmsg(client_end, &m, MSG_DONTWAIT | MSG_NOSIGNAL); /* a client that has hung up gets nothing */
}

static int memory_with(const uint8_t *data, size_t n, size_t file_n)
{
    const int fd = memfd_create("forebay-fuzz", MFD_CLOEXEC);
    if (fd < 0 || (n > 0 && pwrite(fd, data, n, 0) != (ssize_t)n) || ftruncate(fd, (off_t)file_n) != 0)
        abort();
    return fd;
}

static void change(uint8_t *data, size_t n, size_t at, const uint8_t *patch)
{
    if (n == 0)
        return;
    at %= n;
    const size_t m = patch[3] % 8u + 1;
    memcpy(data + at, patch + 4, m < n - at ? m : n - at);
}

/* What the genuine reply becomes: its patches are those of its number. */
static void lie(const kept *k, uint64_t id)
{
    const unsigned number = n_asked++ % 64;
    fby__h5p_reply reply = k->reply;
    size_t n = k->result_n, file_n;
    unsigned manner = NOTHING;
    uint8_t *result = malloc(n + 8);
    if (!result)
        abort();
    if (n)
        memcpy(result, k->result, n);
    reply.id = id;
    for (size_t i = 0; i < n_patches; i++) {
        const uint8_t *p = patches + i * PATCH;
        const size_t at = p[1] | (size_t)p[2] << 8;
        if (p[0] % 64 != number)
            continue;
        if (p[0] / 64 == REPLY)
            change((uint8_t *)&reply, sizeof reply, at, p);
        else if (p[0] / 64 != MANNER)
            change(result, n, p[0] / 64 == RESULT_FAR ? n / 2 + at : at, p);
        else if ((manner = p[3] % MANNERS) == CUT)
            reply.bytes = n = n ? at % n : 0;
    }
    if (manner == LONGER) {
        memset(result + n, 0, 8);
        reply.bytes = n += 8;
    }
    file_n = manner == SHORT_FILE && n ? n - 1 : n;
    int fds[2] = {-1, -1}, n_fds = k->result ? 1 : 0;
    if (n_fds && manner == A_PIPE && pipe2(fds, O_CLOEXEC) != 0)
        abort();
    if (n_fds && fds[0] < 0)
        fds[0] = memory_with(result, n, file_n);
    if (manner == TWO_DESCRIPTORS && n_fds)
        fds[1] = dup(fds[0]);
    if (manner == PROGRESS_FIRST) {
        const uint32_t kind = reply.kind;
        reply.kind = FBY__H5P_PROGRESS;
        give(&reply, NULL, 0);
        reply.kind = kind;
    }
    if (manner != HANG_UP)
        for (int i = 0; i < 1 + (manner == TWICE); i++)
            give(&reply, fds, manner == NO_RESULT ? 0 : manner == TWO_DESCRIPTORS ? 2u * (unsigned)n_fds : (unsigned)n_fds);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    if (manner == HANG_UP) {
        (void)close(client_end);
        client_end = -1;
    }
    free(result);
}

/* ---- in the place of the program (fuzz/CMakeLists.txt wraps these) ---- */

fby_status __wrap_fby__h5_helper_find(const fby__h5_environment *environment, char *out, fby_error *err)
{
    (void)environment, (void)err;
    strcpy(out, "the helper in this process");
    return FBY_OK;
}

fby_status __wrap_fby__h5_helper_spawn(const char *program, const fby__h5_environment *environment, fby__bytes folders, int socket,
                                       int written, pid_t *out_pid, fby_error *err)
{
    const fby__h5p_reply hello = {.magic = FBY__H5P_MAGIC, .version = FBY__H5P_VERSION, .kind = FBY__H5P_HELLO};
    (void)program, (void)environment, (void)folders, (void)written, (void)err;
    if (client_end >= 0)
        (void)close(client_end);
    client_end = fcntl(socket, F_DUPFD_CLOEXEC, 10);
    *out_pid = 0; /* no process: nothing is waited for, or killed */
    give(&hello, NULL, 0);
    return FBY_OK;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
    static message request;
    const ssize_t n = __real_sendmsg(fd, m, flags);
    if (n <= 0 || client_end < 0 || recv(client_end, request.bytes, sizeof request.bytes, MSG_DONTWAIT) != n)
        return n;
    request.n = (size_t)n;
    const uint64_t id = request.request.id;
    const kept *k = genuine(&request);
    if (k)
        lie(k, id);
    return n;
}

/* ---- the client's callers ---- */

static void ask_for_values(const char *name, const fby__h5_entry *e)
{
    const fby__h5_object *o = e->object;
    uint64_t start[FBY__H5_MAX_RANK] = {0}, count[FBY__H5_MAX_RANK], n = 1;
    char text[256];
    fby_error err;
    (void)fby__h5_type_text(o->type, text, sizeof text);
    (void)fby__h5_type_dtype(o->type);
    for (uint32_t i = 0; i < o->space.rank; i++)
        n *= count[i] = o->space.dims[i] < 3 ? o->space.dims[i] : 3;
    const uint64_t bytes = n * o->type->bytes;
    if (n == 0 || n > 1000 || bytes > 1 << 16)
        return;
    uint8_t *values = malloc((size_t)bytes);
    fby__buf heap = {0};
    if (values && fby__h5_helper_read_values(name, e->path, o->promise, o->space.rank, start, count, values, (size_t)bytes, 1 << 20, &heap,
                                             &err) == FBY_OK)
        for (size_t at = 0; o->type->class == FBY__H5_VLEN && at + FBY__H5_HELPER_VLEN_BYTES <= bytes; at += o->type->bytes) {
            fby__bytes part;
            uint64_t part_n;
            if (fby__h5_helper_vlen(&heap, values + at, o->type->base->bytes, &part, &part_n, &err) == FBY_OK && part.n > 0)
                (void)fby__hash(part.data, part.n);
        }
    (void)fby__h5_helper_read(name, e->path, o->promise, o->space.rank, start, count, FBY_DTYPE_NONE, values, (size_t)bytes, &err);
    fby__buf_fini(&heap);
    free(values);
}

/* Is one of the next replies falsified? What is true says nothing new. */
static bool lies_ahead(void)
{
    for (size_t i = 0; i < n_patches; i++)
        if (patches[i * PATCH] % 64u - n_asked < OF_OBJECT) /* unsigned: those before wrap around */
            return true;
    return n_asked >= n_false;
}

static void ask_directly(const char *name)
{
    fby__arena arena = {0};
    fby__h5_tree tree;
    const fby__h5_object *o;
    fby_error err;
    unsigned left = MAX_ASKED;
    if (fby__h5_helper_tree(NULL, name, "of a fuzzer", &arena, &tree, &err) == FBY_OK)
        for (uint32_t i = 0; i < tree.n && left > 0 && n_asked < n_false + MAX_TRUE; i++) { /* what is true says nothing new */
            const fby__h5_entry *e = &tree.entries[i];
            (void)fby__h5_tree_find(&tree, e->path);
            if (!e->object || e->object->kind != FBY__H5_DATASET)
                continue;
            left--;
            if (!lies_ahead()) {
                n_asked += OF_OBJECT;
                continue;
            }
            ask_for_values(name, e);
            (void)fby__h5_helper_object(name, e->path, "of a fuzzer", &arena, &o, &err); /* any status will do */
        }
    fby__arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char names[N_FILES][512];
    if (size == 0)
        return 0;
    file = data[0] % N_FILES;
    n_asked = 0;
    pick(data, size);
    patches = data + 1;
    n_patches = (size - 1) / PATCH < MAX_PATCHES ? (size - 1) / PATCH : MAX_PATCHES;
    n_false = 0;
    for (size_t i = 0; i < n_patches; i++)
        n_false = patches[i * PATCH] % 64u >= n_false ? patches[i * PATCH] % 64u + 1 : n_false;
    (void)snprintf(names[file], sizeof names[file], "%s/%s", FUZZ_GOLDEN, FILES[file]);
    fby__h5_helper_set_timeout(2); /* an answer is there, or never comes */
    if (data[0] < AS_DATA_SET) {
        ask_directly(names[file]);
    } else {
        fby_open_opts opts = {.size = sizeof opts,
                              .cache_dir = "",
                              .n_threads = 1,
                              .io = FBY_IO_THREADS,
                              .memory_bytes = MEMORY,
                              .stored_values = data[0] & 16};
        read_everything_of(names[file], &opts);
    }
    fby__h5_helper_stop(); /* the next input finds no old replies */
    return 0;
}
