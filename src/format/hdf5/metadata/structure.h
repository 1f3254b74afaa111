/* What the structures of groups, heaps and B-trees have in common: four letters, a version, and then their fields. */
#ifndef FBY_FORMAT_HDF5_METADATA_STRUCTURE_H
#define FBY_FORMAT_HDF5_METADATA_STRUCTURE_H

#include "format/hdf5/metadata/object_internal.h"

#include <inttypes.h>

/** The structure at an address breaks a rule: fby__h5_damaged_at(f, address, err, "a B-tree node …") makes FBY_E_FORMAT. */
#define fby__h5_damaged_at(f, address, err, ...) fby__fail_at(err, FBY_E_FORMAT, (f)->base + (address), __VA_ARGS__)

/**
 * View a structure of n bytes and check how it begins; the cursor stands behind signature and version.
 * Another version is FBY_E_UNSUPPORTED: a newer writer, which the helper program may know.
 *
 * @what  a noun with its article, for messages: "a B-tree 2 header"
 */
static inline fby_status fby__h5_structure(fby__h5_file *f, uint64_t address, uint64_t n, const char signature[4], uint8_t version,
                                           const char *what, fby__bytes *out_view, fby__h5_cursor *out, fby_error *err)
{
    FBY__TRY(fby__h5_view(f, address, n, what, out_view, err));
    *out = fby__h5_cursor_of(f, *out_view, address, what);
    const uint8_t *begin = fby__h5_next(out, 4);
    uint8_t found = fby__h5_u8(out);
    FBY__TRY(fby__h5_cursor_check(out, err));
    if (memcmp(begin, signature, 4) != 0)
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 " does not begin with \"%.4s\"", what, address, signature);
    if (found != version)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, f->base + address, "%s of version %u", what, found);
    return FBY_OK;
}

#endif
