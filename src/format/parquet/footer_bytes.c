/* The footer's bytes, and the key-value metadata in them, which no table keeps. One read of the last 64 KiB, a second only for a longer footer. */
#include "base/checked.h"
#include "format/contents.h"
#include "format/parquet/meta.h"

#define TAIL_BYTES 65536u

static fby_status check_tail(const char *path, uint64_t file_bytes, const uint8_t end[8], fby_error *err)
{
    if (memcmp(end + 4, "PARE", 4) == 0)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, file_bytes - 4, "%s: the file is encrypted (it ends with 'PARE'); decrypt it first",
                            path);
    if (memcmp(end + 4, "PAR1", 4) != 0)
        return fby__fail_at(err, FBY_E_FORMAT, file_bytes - 4,
                            "%s: does not end with 'PAR1' (%llu bytes): it is cut short or not Parquet; copy or write it again", path,
                            (unsigned long long)file_bytes);
    uint32_t n = fby__load_u32(end);
    if (n == 0 || n > file_bytes - 12)
        return fby__fail_at(err, FBY_E_FORMAT, file_bytes - 8, "%s: states a footer of %u bytes in a file of %llu; copy or write it again",
                            path, n, (unsigned long long)file_bytes);
    return FBY_OK;
}

fby_status fby__pq_footer_read(fby__file *file, fby__pq_footer *out, fby_error *err)
{
    const char *path = fby__file_path(file);
    uint64_t size = fby__file_stamp_of(file)->size_bytes;
    if (size < 12)
        return fby__fail_at(err, FBY_E_FORMAT, 0, "%s: has %llu bytes, too few for a Parquet file; copy or write it again", path,
                            (unsigned long long)size);
    size_t tail_n = (size_t)fby__min_u64(size, TAIL_BYTES), footer_n, kept;
    uint8_t *tail = fby__malloc(tail_n), *whole = NULL;
    fby_status st;
    if (!tail)
        return fby__fail_nomem(err, "a Parquet footer");
    st = fby__file_read(file, size - tail_n, tail, tail_n, err);
    if (st == FBY_OK)
        st = check_tail(path, size, tail + tail_n - 8, err);
    if (st != FBY_OK)
        goto fail;
    footer_n = fby__load_u32(tail + tail_n - 8);
    *out = (fby__pq_footer){.memory = tail, .bytes = {tail + tail_n - 8 - footer_n, footer_n}, .offset = size - 8 - footer_n};
    if (footer_n <= tail_n - 8)
        return FBY_OK;
    kept = tail_n - 8; /* the rest of it lies before what was read */
    whole = fby__malloc(footer_n);
    st = whole ? fby__file_read(file, out->offset, whole, footer_n - kept, err) : fby__fail_nomem(err, "a Parquet footer");
    if (st != FBY_OK)
        goto fail;
    memcpy(whole + footer_n - kept, tail, kept);
    out->memory = whole;
    out->bytes.data = whole;
    fby__free(tail);
    return FBY_OK;
fail:
    fby__free(tail);
    fby__free(whole);
    return st;
}

/* ---- key-value metadata ---- */

static fby_status add_pairs(fby__thrift *t, uint8_t type, fby_contents *out, fby_error *err)
{
    const uint32_t n = fby__thrift_list(t, type, FBY__THRIFT_STRUCT);
    FBY__TRY(fby__contents_begin(out, n, err));
    for (uint32_t i = 0; i < n && !t->fault; i++) {
        fby__thrift_field m = {0};
        fby__bytes key = {0}, value = {0};
        while (fby__thrift_next(t, &m)) {
            if (m.id == 1 && m.type == FBY__THRIFT_BINARY)
                key = fby__thrift_binary(t, m.type);
            else if (m.id == 2 && m.type == FBY__THRIFT_BINARY)
                value = fby__thrift_binary(t, m.type);
            else
                fby__thrift_skip(t, m.type);
        }
        if (!t->fault)
            FBY__TRY(fby__contents_add_text(out, key, value, err));
    }
    return FBY_OK;
}

fby_status fby__pq_contents(fby__file *file, const fby__table *table, fby_contents *out, fby_error *err)
{
    fby__pq_footer footer;
    FBY__TRY(fby__pq_footer_read(file, &footer, err));
    fby__thrift t = fby__thrift_over(footer.bytes);
    fby__thrift_field m = {0};
    fby__bytes arrow = {0};
    fby_status status = FBY_OK;
    while (status == FBY_OK && fby__thrift_next(&t, &m))
        if (m.id == 5 && out->n == 0) {
            fby__thrift again = t;
            arrow = fby__pq_arrow_schema(&again, m.type);
            status = add_pairs(&t, m.type, out, err);
        } else {
            fby__thrift_skip(&t, m.type);
        }
    if (status == FBY_OK && t.fault)
        status = fby__fail(err, FBY_E_FORMAT, "the Parquet footer is damaged: %s; copy or write the file again", t.fault);
    else if (status == FBY_OK && out->n == 0)
        status = fby__contents_begin(out, 0, err);
    if (status == FBY_OK && arrow.n)
        status = fby__pq_contents_of_columns(arrow, &table->schema->fields[0], out, err);
    fby__free(footer.memory);
    if (status != FBY_OK)
        fby__error_context(err, "%s", fby__file_path(file));
    return status;
}
