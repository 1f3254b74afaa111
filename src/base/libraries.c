/* fby_library_at(): the list is written when the build is configured (cmake/libraries.cmake). */
#include <forebay/base.h>

static const struct {
    const char *name, *version, *license;
} LIBRARIES[] = {
#include <forebay_libraries.h>
};

bool fby_library_at(size_t i, const char **out_name, const char **out_version, const char **out_license)
{
    if (i >= sizeof LIBRARIES / sizeof *LIBRARIES)
        return false;
    if (out_name)
        *out_name = LIBRARIES[i].name;
    if (out_version)
        *out_version = LIBRARIES[i].version;
    if (out_license)
        *out_license = LIBRARIES[i].license;
    return true;
}
