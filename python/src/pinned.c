/*
 * Memory of batches that a GPU copies from by itself, pinned by the functions of CUDA's driver. Those of the runtime would make a context of their own
 * on the first GPU whenever a thread of ours calls them.
 */
#include "loader.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/utsname.h>

#define PORTABLE 1u         /* CU_MEMHOSTREGISTER_PORTABLE: for all contexts of the process */
#define OLDEST_DRIVER 11040 /* of CUDA 11.4 */
#define DEINITIALIZED 4     /* CUDA_ERROR_DEINITIALIZED: the program ends, and all that was pinned is not any more */
#define NOT_REGISTERED 713  /* CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED */

typedef void *context;

static struct {
    int (*retain)(context *out, int device);
    int (*release)(int device);
    int (*push)(context);
    int (*pop)(context *out);
    int (*pin)(void *memory, size_t bytes, unsigned flags);
    int (*version)(int *out);
    int (*unpin)(void *memory);
} g_cuda; /* set once, under the GIL */

static bool load(void)
{
    if (g_cuda.unpin)
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
        {"cuMemHostRegister_v2", &g_cuda.pin},        {"cuDriverGetVersion", &g_cuda.version},
        {"cuMemHostUnregister", &g_cuda.unpin},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        void *found = dlsym(library, needed[i].name);
        if (!found)
            return false;
        memcpy(needed[i].to, &found, sizeof found); /* ISO C has no cast from an object's address to a function's */
    }
    return true;
}

/*
 * Where a process forks, Linux from 5.9 on gives copies of pinned pages to the child, if the driver has said that they are pinned, which newer ones do.
 * Else the process itself may get a copy in place of the page, and the GPU reads what was there before.
 */
static bool pages_stay(void)
{
    struct utsname is;
    unsigned major, minor;
    int version = 0;
    return uname(&is) == 0 && sscanf(is.release, "%u.%u", &major, &minor) == 2 && (major > 5 || (major == 5 && minor >= 9)) &&
           g_cuda.version(&version) == 0 && version >= OLDEST_DRIVER;
}

/* With the context that programs of the runtime share (torch is one) as this thread's for the time of a call. */
static int enter(int device)
{
    context its;
    int status = g_cuda.retain(&its, device);
    if (status == 0 && (status = g_cuda.push(its)) != 0)
        (void)g_cuda.release(device);
    return status;
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
    int status = enter(device);
    if (status == 0) {
        status = g_cuda.pin(memory, bytes, PORTABLE);
        leave(device);
    }
    return status;
}

static int unpin(void *user, void *memory)
{
    const int device = (int)(intptr_t)user;
    int status = enter(device);
    if (status == 0) {
        status = g_cuda.unpin(memory);
        leave(device);
    }
    return status == DEINITIALIZED || status == NOT_REGISTERED ? 0 : status;
}

bool fbpy_batch_pin(fby_batch *batch, int device) { return fby_batch_pin(batch, pin, unpin, (void *)(intptr_t)device); }

PyObject *fbpy_loader_pin(PyObject *op, PyObject *number)
{
    const long device = PyLong_AsLong(number);
    if (device == -1 && PyErr_Occurred())
        return NULL;
    const bool can = device >= 0 && device <= INT32_MAX && load() && pages_stay();
    ((fbpy_loader *)op)->pinned_for = can ? (int)device : -1;
    return PyBool_FromLong(can);
}
