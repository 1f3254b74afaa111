/* Tables written: see write.h. The formats are in files of their own. */
#include "write/write_impl.h"

static const fby__write_options none = {0};

int64_t fby__write_field_count(const struct ArrowSchema *column)
{
    int64_t n = 1;
    for (int64_t i = 0; i < column->n_children; i++)
        n += fby__write_field_count(column->children[i]);
    return n;
}

static const fby__writer_ops *const formats[FBY__WRITE_FORMAT_COUNT] = {
    [FBY__WRITE_ARROW] = &fby__writer_arrow, [FBY__WRITE_PARQUET] = &fby__writer_parquet, [FBY__WRITE_HDF5] = &fby__writer_hdf5};

fby_status fby__writer_check(fby__write_format format, const struct ArrowSchema *schema, const fby__write_options *options, fby_error *err)
{
    return formats[format]->check(schema, options ? options : &none, err);
}

fby_status fby__writer_begin(fby__write_format format, const struct ArrowSchema *schema, const fby__write_options *options,
                             fby__byte_sink sink, fby__writer **out, fby_error *err)
{
    return formats[format]->begin(schema, options ? options : &none, sink, out, err);
}

fby_status fby__writer_batch(fby__writer *w, const struct ArrowArray *batch, fby_error *err) { return w->ops->batch(w, batch, err); }

fby_status fby__writer_end(fby__writer *w, const fby__key_value *metadata, size_t n, fby_error *err)
{
    return w->ops->end(w, metadata, n, err);
}

void fby__writer_free(fby__writer *w)
{
    if (w)
        w->ops->free(w);
}

fby_status fby__writer_put(fby__writer *w, const void *bytes, size_t n, fby_error *err)
{
    if (n == 0)
        return FBY_OK;
    w->at += n;
    return w->sink.write(w->sink.ctx, bytes, n, err);
}
