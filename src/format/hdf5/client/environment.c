/* What the helper program gets of the environment, and where it is said to be. See format.h. */
#include "base/bytes.h"
#include "base/hash.h"
#include "format/hdf5/client/helper_internal.h"

#include <stdlib.h>
#include <string.h>

/* Nothing else of the environment is the program's business, for a file may get at what it has. Where files' sources are looked for comes first. */
static const char *const NAMES[] = {"HDF5_EXT_PREFIX", "HDF5_VDS_PREFIX", "HDF5_EXTFILE_PREFIX", "HDF5_PLUGIN_PATH", "HDF5_PLUGIN_PRELOAD",
                                    "LD_LIBRARY_PATH",
#if defined(FBY_HELPER_SANITIZED)
                                    "ASAN_OPTIONS",    "UBSAN_OPTIONS",   "LSAN_OPTIONS",        "TSAN_OPTIONS"
#endif
};
enum { N_PREFIXES = 3 };

_Static_assert(sizeof NAMES / sizeof *NAMES <= FBY__H5_VARIABLES, "room for each");

fby_status fby__h5_environment_read(fby__arena *arena, fby__h5_environment *out, fby_error *err)
{
    const char *program = secure_getenv("FOREBAY_HDF5_HELPER");
    fby__buf text = {0};
    bool put = true;
    *out = (fby__h5_environment){0};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && put; i++) {
        const char *value = getenv(NAMES[i]);
        if (value)
            put = fby__buf_put(&text, NAMES[i], strlen(NAMES[i])) == 0 && fby__buf_put(&text, "=", 1) == 0 &&
                  fby__buf_put(&text, value, strlen(value) + 1) == 0;
        if (i + 1 == N_PREFIXES)
            out->prefix_bytes = text.n;
    }
    out->bytes = text.n;
    out->hash = fby__hash(text.data, text.n).lo;
    if (program && put) /* a helper is that of who named it */
        out->hash = fby__hash_more((fby__hash128){out->hash, 0}, program, strlen(program)).lo;
    put = put && (text.n == 0 || (out->variables = fby__arena_copy(arena, text.data, text.n)) != NULL) &&
          (!program || !*program || (out->program = fby__arena_copy(arena, program, strlen(program))) != NULL);
    fby__buf_fini(&text);
    return put ? FBY_OK : fby__fail_nomem(err, "the environment");
}
