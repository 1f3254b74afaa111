/* Structs of other versions of the headers (sized.h). */
#include "base/sized.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

#define MAX_GROWTH 4096 /* bytes that a newer version may have more: beyond, it is no size */

static bool all_zero(const char *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i])
            return false;
    return true;
}

/* Is `given` a size of the struct in some version, older or newer? All of them are multiples of a pointer's: no field is cut in two. */
static fby_status check_size(const char *type, const char *field, size_t given, size_t least, size_t size, fby_error *err)
{
    if (given >= least && given <= size + MAX_GROWTH && given % sizeof(void *) == 0)
        return FBY_OK;
    return fby__fail(err, FBY_E_ARG, "%s is %zu: set it to sizeof(%s), %zu in this version", field, given, type, size);
}

static fby_status check_beyond(const char *type, const char *from, size_t given, size_t size, fby_error *err)
{
    if (given <= size || all_zero(from + size, given - size))
        return FBY_OK;
    return fby__fail(err, FBY_E_ARG,
                     "the program sets fields of %s that this library, %s, does not have: it is older than the program's header", type,
                     fby_version());
}

static fby_status check_own_size(const char *type, const void *sized, size_t least, size_t size, size_t *out, fby_error *err)
{
    char field[80];
    if (!sized)
        return fby__fail(err, FBY_E_ARG, "%s is needed, and it is NULL", type);
    (void)snprintf(field, sizeof field, "%s.size", type);
    memcpy(out, sized, sizeof *out);
    return check_size(type, field, *out, least, size, err);
}

fby_status fby__sized_in(const char *type, const void *from, size_t least, void *to, size_t size, fby_error *err)
{
    size_t given = 0;
    FBY__TRY(check_own_size(type, from, least, size, &given, err));
    FBY__TRY(check_beyond(type, from, given, size, err));
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    memcpy(to, &size, sizeof size);
    return FBY_OK;
}

fby_status fby__sized_out(const char *type, const void *from, size_t size, size_t least, void *to, fby_error *err)
{
    size_t given = 0;
    FBY__TRY(check_own_size(type, to, least, size, &given, err));
    memset(to, 0, given);
    memcpy(to, from, given < size ? given : size);
    memcpy(to, &given, sizeof given);
    return FBY_OK;
}

fby_status fby__strided(const char *type, const char *field, const void *from, size_t n, size_t stride, size_t least, size_t size,
                        fby__arena *arena, const void **out, fby_error *err)
{
    size_t bytes;
    *out = from;
    if (!from || n == 0)
        return FBY_OK;
    FBY__TRY(check_size(type, field, stride, least, size, err));
    if (stride == size)
        return FBY_OK;
    char *to = fby__mul_checked(n, size, &bytes) ? fby__arena_alloc(arena, bytes) : NULL;
    if (!to)
        return fby__fail_nomem(err, type);
    memset(to, 0, bytes);
    for (size_t i = 0; i < n; i++) {
        const char *element = (const char *)from + i * stride;
        FBY__TRY(check_beyond(type, element, stride, size, err));
        memcpy(to + i * size, element, stride < size ? stride : size);
    }
    *out = to;
    return FBY_OK;
}

fby_status fby__strided_out(const char *type, const char *field, const void *from, size_t n, size_t size, size_t least, void *to,
                            size_t stride, fby_error *err)
{
    FBY__TRY(check_size(type, field, stride, least, size, err));
    memset(to, 0, n * stride);
    for (size_t i = 0; i < n; i++)
        memcpy((char *)to + i * stride, (const char *)from + i * size, stride < size ? stride : size);
    return FBY_OK;
}
