/* What the reader asks of the helper program (helper.h): requests made, results checked and taken over. */
#include "format/hdf5/client/helper.h"

#include "base/checked.h"
#include "format/hdf5/client/helper_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(FBY__H5_HELPER_VLEN_BYTES == FBY__H5P_VLEN_BYTES, "values of variable length are handed on as the program gives them");

/* The program keeps the working directory that it was started in: names go to it in full. */
static fby_status full_path(const char *path, char *out, fby_error *err)
{
    size_t n = 0, path_n = strlen(path);
    if (path[0] != '/') {
        if (!getcwd(out, FBY__H5P_MAX_PATH - 1))
            return fby__fail_errno(err, errno, "the working directory");
        n = strlen(out);
        out[n++] = '/';
    }
    if (path_n >= FBY__H5P_MAX_PATH - n)
        return fby__fail_errno(err, ENAMETOOLONG, "the path");
    memcpy(out + n, path, path_n + 1);
    return FBY_OK;
}

static _Thread_local const fby__reach *t_reach;

const fby__reach *fby__h5_helper_reach(const fby__reach *reach)
{
    const fby__reach *before = t_reach;
    t_reach = reach;
    return before;
}

typedef struct asked {
    char path[FBY__H5P_MAX_PATH];
    char folders[FBY__H5P_MAX_FOLDERS];
} asked;

/* The file by its full name, and what it may reach. `text` lives as long as the ask. */
static fby_status complete(fby__h5_ask *ask, asked *text, fby_error *err)
{
    const fby__reach none = {0}, *reach = t_reach ? t_reach : &none;
    FBY__TRY(full_path(ask->path, text->path, err));
    ask->path = text->path;
    size_t n = strlen(text->path);
    for (uint32_t i = 0; i <= reach->up && n > 0; i++) /* its own folder, and on */
        while (n > 0 && text->path[--n] != '/')
            continue;
    if (n + 1 > sizeof text->folders - reach->folders_bytes || reach->folders_bytes >= sizeof text->folders)
        return fby__fail(err, FBY_E_ARG, "the folders of external= are too many");
    memcpy(text->folders, text->path, n);
    text->folders[n] = 0;
    if (reach->folders_bytes)
        memcpy(text->folders + n + 1, reach->folders, reach->folders_bytes);
    ask->anywhere = reach->anywhere;
    ask->environment = reach->environment;
    ask->folders = (fby__bytes){(const uint8_t *)text->folders, n + 1 + reach->folders_bytes};
    return FBY_OK;
}

/* An ask, its result in memory of its own: *out is the caller's (fby__free). */
static fby_status ask_for_bytes(fby__h5_ask *ask, fby__bytes *out, fby_error *err)
{
    asked text;
    int fd;
    uint64_t n;
    FBY__TRY(complete(ask, &text, err));
    FBY__TRY(fby__h5_helper_ask(ask, &fd, &n, err));
    uint8_t *p = fby__malloc((size_t)n);
    fby_status r = p ? fby__h5_helper_fetch(fd, 0, p, (size_t)n, err) : fby__fail_nomem(err, "the helper program's answer");
    (void)close(fd);
    if (r != FBY_OK)
        fby__free(p);
    else
        *out = (fby__bytes){p, (size_t)n};
    return r;
}

fby_status fby__h5_helper_tree(fby__h5_file *f, const char *path, const char *why, fby__arena *arena, fby__h5_tree *out, fby_error *err)
{
    fby__h5_ask ask = {.path = path, .object = "/", .op = FBY__H5P_TREE, .least = 1, .most = 2 * FBY__H5P_MAX_DESCRIPTION};
    fby__bytes b;
    fby_status r = ask_for_bytes(&ask, &b, err);
    if (r == FBY_OK) {
        r = fby__h5_helper_parse_tree(b, why, arena ? arena : &f->arena, out, err);
        fby__free((void *)(uintptr_t)b.data);
    }
    if (r != FBY_OK)
        fby__error_context(err, "%.300s", path);
    return r;
}

fby_status fby__h5_helper_object(const char *path, const char *object_path, const char *why, fby__arena *arena, const fby__h5_object **out,
                                 fby_error *err)
{
    fby__h5_ask ask = {.path = path, .object = object_path, .op = FBY__H5P_OBJECT, .least = 1, .most = FBY__H5P_MAX_DESCRIPTION};
    fby__bytes b;
    fby_status r = ask_for_bytes(&ask, &b, err);
    if (r == FBY_OK) {
        r = fby__h5_helper_parse_object(b, why, arena, out, err);
        fby__free((void *)(uintptr_t)b.data);
    }
    if (r != FBY_OK)
        fby__error_context(err, "%.300s: %.300s", path, object_path);
    return r;
}

static uint8_t as_of(fby_dtype dtype)
{
    switch (dtype) {
    case FBY_DTYPE_NONE: return FBY__H5P_NATIVE;
    case FBY_BOOL: return FBY__H5P_AS_BOOL;
    case FBY_BFLOAT16: return FBY__H5P_AS_BFLOAT;
    case FBY_FLOAT16:
    case FBY_FLOAT32:
    case FBY_FLOAT64: return FBY__H5P_AS_FLOAT;
    case FBY_UINT8:
    case FBY_UINT16:
    case FBY_UINT32:
    case FBY_UINT64: return FBY__H5P_AS_UINT;
    default: return FBY__H5P_AS_INT;
    }
}

/* The elements into dst; what is behind them, where the request leaves room for it, into the heap. */
static fby_status read_into(fby__h5_ask *ask, void *dst, size_t dst_n, fby__buf *heap, fby_error *err)
{
    asked text;
    int fd;
    uint64_t n;
    FBY__TRY(complete(ask, &text, err));
    FBY__TRY(fby__h5_helper_ask(ask, &fd, &n, err));
    fby_status r = fby__h5_helper_fetch(fd, 0, dst, dst_n, err);
    n -= dst_n;
    if (r == FBY_OK && n > 0) {
        r = fby__grow((void **)&heap->data, &heap->cap, heap->n + (size_t)n, 1) == 0
                ? fby__h5_helper_fetch(fd, dst_n, heap->data + heap->n, (size_t)n, err)
                : fby__fail_nomem(err, "values of variable length");
        heap->n += r == FBY_OK ? (size_t)n : 0;
    }
    (void)close(fd);
    return r;
}

fby_status fby__h5_helper_read(const char *path, const char *object_path, fby__h5_promise promise, uint32_t rank, const uint64_t *start,
                               const uint64_t *count, fby_dtype dtype, void *dst, size_t dst_n, fby_error *err)
{
    fby__h5_ask ask = {.path = path,
                       .object = object_path,
                       .op = FBY__H5P_READ,
                       .as = as_of(dtype),
                       .as_bytes = (uint8_t)fby_dtype_bytes(dtype),
                       .result_bytes = dst_n,
                       .promise = promise,
                       .rank = rank,
                       .start = start,
                       .count = count,
                       .least = dst_n,
                       .most = dst_n};
    fby_status r = read_into(&ask, dst, dst_n, NULL, err);
    if (r != FBY_OK)
        fby__error_context(err, "%.300s: %.300s", path, object_path);
    return r;
}

fby_status fby__h5_helper_read_values(const char *path, const char *object_path, fby__h5_promise promise, uint32_t rank,
                                      const uint64_t *start, const uint64_t *count, void *dst, size_t dst_n, size_t max_bytes,
                                      fby__buf *heap, fby_error *err)
{
    const uint64_t most = fby__max_u64(max_bytes < INT64_MAX ? max_bytes : INT64_MAX, dst_n);
    fby__h5_ask ask = {.path = path,
                       .object = object_path,
                       .op = FBY__H5P_VALUES,
                       .result_bytes = most,
                       .heap_at = heap->n,
                       .promise = promise,
                       .rank = rank,
                       .start = start,
                       .count = count,
                       .least = dst_n,
                       .most = most};
    fby_status r = rank > FBY__H5P_MAX_RANK ? fby__fail(err, FBY_E_ARG, "%u dimensions", rank) : read_into(&ask, dst, dst_n, heap, err);
    if (r != FBY_OK)
        fby__error_context(err, "%.300s: %.300s", path, object_path);
    return r;
}

fby_status fby__h5_helper_vlen(const fby__buf *heap, const uint8_t *vlen, size_t bytes, fby__bytes *out, uint64_t *out_n, fby_error *err)
{
    const uint32_t n = fby__load_u32(vlen);
    const uint64_t at = fby__load_u64(vlen + 4);
    uint64_t need;
    *out = (fby__bytes){NULL, 0};
    *out_n = 0;
    if (n == 0)
        return FBY_OK;
    if (!fby__mul_u64_checked(n, bytes, &need) || at > heap->n || need > heap->n - at)
        return fby__fail(err, FBY_E_FORMAT, "the helper program's values make no sense");
    *out = (fby__bytes){heap->data + at, (size_t)need};
    *out_n = n;
    return FBY_OK;
}
