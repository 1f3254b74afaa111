/*
 * Memory of batches that a GPU copies from by itself, locked by the functions of CUDA's driver. Those of the runtime would make a context of their own
 * on the first GPU whenever a thread of ours calls them.
 */
#include "loader.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/utsname.h>

#define PORTABLE 1u /* CU_MEMHOSTREGISTER_PORTABLE: for all contexts of the process */

typedef void *context;

static struct {
    int (*retain)(context *out, int device);
    int (*release)(int device);
    int (*push)(context);
    int (*pop)(context *out);
    int (*lock)(void *memory, size_t bytes, unsigned flags);
    int (*unlock)(void *memory);
} g_cuda; /* set once, under the GIL */

static bool load(void)
{
    if (g_cuda.unlock)
        return true;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* stays: there is no end of the program at which it could go */
    if (!library)
        return false;
    const struct {
        const char *name;
        void *to;
    } needed[] = {
        {"cuDevicePrimaryCtxRetain", &g_cuda.retain}, {"cuDevicePrimaryCtxRelease_v2", &g_cuda.release},
        {"cuCtxPushCurrent_v2", &g_cuda.push},        {"cuCtxPopCurrent_v2", &g_cuda.pop},
        {"cuMemHostRegister_v2", &g_cuda.lock},       {"cuMemHostUnregister", &g_cuda.unlock},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        void *found = dlsym(library, needed[i].name);
        if (!found)
            return false;
        memcpy(needed[i].to, &found, sizeof found); /* ISO C has no cast from an object's address to a function's */
    }
    return true;
}

/* Linux before 5.9 may give a process that forks, in place of the page that is locked, a copy: the GPU then reads what was there before. */
static bool pages_stay(void)
{
    struct utsname is;
    unsigned major, minor;
    return uname(&is) == 0 && sscanf(is.release, "%u.%u", &major, &minor) == 2 && (major > 5 || (major == 5 && minor >= 9));
}

/* With the context that programs of the runtime share (torch is one) as this thread's for the time of a call. */
static bool enter(int device)
{
    context its;
    if (g_cuda.retain(&its, device) != 0)
        return false;
    if (g_cuda.push(its) == 0)
        return true;
    (void)g_cuda.release(device);
    return false;
}

static void leave(int device)
{
    context its;
    (void)g_cuda.pop(&its);
    (void)g_cuda.release(device);
}

static int pin(void *user, void *memory, size_t bytes)
{
    const int device = (int)(intptr_t)user;
    if (!enter(device))
        return -1;
    const int status = g_cuda.lock(memory, bytes, PORTABLE);
    leave(device);
    return status;
}

static void unpin(void *user, void *memory)
{
    const int device = (int)(intptr_t)user;
    if (!enter(device)) /* the driver is gone with the program's end, and so is the lock */
        return;
    (void)g_cuda.unlock(memory);
    leave(device);
}

bool fbpy_batch_pin(fby_batch *batch, int device) { return fby_batch_pin(batch, pin, unpin, (void *)(intptr_t)device); }

PyObject *fbpy_loader_pin(PyObject *op, PyObject *number)
{
    const long device = PyLong_AsLong(number);
    if (device == -1 && PyErr_Occurred())
        return NULL;
    const bool can = device >= 0 && device <= INT32_MAX && pages_stay() && load();
    ((fbpy_loader *)op)->pinned_for = can ? (int)device : -1;
    return PyBool_FromLong(can);
}
