/* Names and sizes of tensor dtypes. */
#include <forebay/base.h>

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} DTYPE[FBY_DTYPE_COUNT] = {{"none", 0},
#define DTYPE_ROW(id, text, size, kind) {text, size},
                            FBY_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

size_t fby_dtype_bytes(fby_dtype dtype) { return (unsigned)dtype < FBY_DTYPE_COUNT ? DTYPE[dtype].bytes : 0; }

const char *fby_dtype_name(fby_dtype dtype) { return DTYPE[(unsigned)dtype < FBY_DTYPE_COUNT ? dtype : 0].name; }

fby_dtype fby_dtype_from_name(const char *name)
{
    for (int i = 1; name && i < FBY_DTYPE_COUNT; i++)
        if (strcmp(name, DTYPE[i].name) == 0)
            return (fby_dtype)i;
    return FBY_DTYPE_NONE;
}
