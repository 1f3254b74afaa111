/* Between write.c and the formats: what each of them is. */
#ifndef FBY_WRITE_WRITE_IMPL_H
#define FBY_WRITE_WRITE_IMPL_H

#include "write/write.h"

/** The first member of each format's writer. */
struct fby__writer {
    const struct fby__writer_ops *ops;
    fby__byte_sink sink;
    uint64_t at; /* bytes that the sink has got: fby__writer_put counts them */
};

typedef struct fby__writer_ops {
    const char *name; /* "arrow", as users write it */
    /** See fby__writer_check. */
    fby_status (*check)(const struct ArrowSchema *schema, const fby__write_options *options, fby_error *err);
    /** *out is the format's writer, zeroed but for its own fields; write.c has set nothing yet. May write the file's head by fby__writer_put. */
    fby_status (*begin)(const struct ArrowSchema *schema, const fby__write_options *options, fby__byte_sink sink, fby__writer **out,
                        fby_error *err);
    fby_status (*batch)(fby__writer *w, const struct ArrowArray *batch, fby_error *err);
    fby_status (*end)(fby__writer *w, const fby__key_value *metadata, size_t n, fby_error *err);
    void (*free)(fby__writer *w);
} fby__writer_ops;

extern const fby__writer_ops fby__writer_arrow, fby__writer_parquet, fby__writer_hdf5;

/** n bytes to the sink; n = 0 is fine. */
fby_status fby__writer_put(fby__writer *w, const void *bytes, size_t n, fby_error *err);

#endif
