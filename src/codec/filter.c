/*
 * The pipeline: filters undone in reverse, each from the buffer of the one before.
 *
 *     stored ──undo n−1──► between[0] ──undo n−2──► between[1] ──undo n−3──► between[0] … ──undo 0──► dst
 *
 * The size between two filters is known where the filters below keep theirs (shuffle, fletcher32): then a filter must make exactly that.
 * Otherwise the stream states it, or (deflate, lzf) the buffer grows until it fits, within a bound that follows from dst_n.
 * fletcher32 is not run as a filter: its four bytes are cut off in place.
 */
#include "codec/filter_impl.h"

#include "base/checked.h"
#include "base/clock.h"

/* H5Z_MAX_NFILTERS; also the bits of a mask. */
enum { MAX_FILTERS = 32, FLETCHER_BYTES = 4 };

/* zstd's and libdeflate's contexts are about this large; neither library says so exactly. */
enum { ZSTD_CONTEXT_BYTES = 160 << 10, DEFLATE_CONTEXT_BYTES = 12 << 10 };

static const struct {
    uint16_t id;
    const char *name;
    const fby__filter_ops *ops; /* NULL: not undone here */
} FILTER[] = {
    {FBY__FILTER_DEFLATE, "deflate", &fby__filter_deflate},
    {FBY__FILTER_SHUFFLE, "shuffle", &fby__filter_shuffle},
    {FBY__FILTER_FLETCHER32, "fletcher32", NULL},
    {FBY__FILTER_SZIP, "szip", &fby__filter_szip},
    {FBY__FILTER_NBIT, "nbit", NULL},
    {FBY__FILTER_SCALEOFFSET, "scaleoffset", NULL},
    {FBY__FILTER_LZF, "lzf", &fby__filter_lzf},
    {FBY__FILTER_BLOSC, "blosc", &fby__filter_blosc},
    {FBY__FILTER_LZ4, "lz4", &fby__filter_lz4},
    {FBY__FILTER_BITSHUFFLE, "bitshuffle", &fby__filter_bitshuffle},
    {FBY__FILTER_ZFP, "zfp", NULL},
    {FBY__FILTER_ZSTD, "zstd", &fby__filter_zstd},
    {FBY__FILTER_BLOSC2, "blosc2", NULL},
};
enum { N_FILTERS = sizeof FILTER / sizeof FILTER[0] };

static const fby__filter_ops *ops_of(uint16_t id)
{
    for (size_t i = 0; i < N_FILTERS; i++)
        if (FILTER[i].id == id)
            return FILTER[i].ops;
    return NULL;
}

const char *fby__filter_name(uint16_t id)
{
    for (size_t i = 0; i < N_FILTERS; i++)
        if (FILTER[i].id == id)
            return FILTER[i].name;
    return NULL;
}

void fby__filter_state_fini(fby__filter_state *state)
{
    fby__codec_state_fini(&state->codec);
    if (state->ctx[FBY__FILTER_CTX_DEFLATE])
        fby__filter_deflate_destroy(state->ctx[FBY__FILTER_CTX_DEFLATE]);
    state->ctx[FBY__FILTER_CTX_DEFLATE] = NULL;
    fby__buf_fini(&state->between[0]);
    fby__buf_fini(&state->between[1]);
    fby__buf_fini(&state->inside);
}

size_t fby__filter_state_bytes(const fby__filter_state *state)
{
    return state->between[0].cap + state->between[1].cap + state->inside.cap +
           (state->codec.ctx[FBY__CODEC_ZSTD] ? ZSTD_CONTEXT_BYTES : 0) + (state->ctx[FBY__FILTER_CTX_DEFLATE] ? DEFLATE_CONTEXT_BYTES : 0);
}

fby_status fby__filter_room(fby__buf *buf, size_t n, fby_error *err)
{
    if (n <= buf->cap)
        return FBY_OK;
    fby__buf_fini(buf); /* first: the old bytes are of no use, and both need not fit */
    buf->data = fby__malloc(n);
    if (!buf->data)
        return fby__fail_nomem(err, "buffer of the filters");
    buf->cap = n;
    return FBY_OK;
}

static fby_status unsupported(uint16_t id, fby_error *err)
{
    const char *name = fby__filter_name(id);
    if (name)
        return fby__fail(err, FBY_E_UNSUPPORTED, "filter %u (%s) is not undone here", id, name);
    return fby__fail(err, FBY_E_UNSUPPORTED, "filter %u is unknown", id);
}

fby_status fby__filters_check(const fby__filter *filters, uint32_t n, size_t element_bytes, fby_error *err)
{
    if (element_bytes == 0)
        return fby__fail(err, FBY_E_FORMAT, "filters over elements of no bytes");
    if (n > MAX_FILTERS)
        return fby__fail(err, FBY_E_FORMAT, "%u filters, where HDF5 allows %d", n, MAX_FILTERS);
    for (uint32_t i = 0; i < n; i++) {
        const fby__filter_ops *ops = ops_of(filters[i].id);
        if (filters[i].id == FBY__FILTER_FLETCHER32)
            continue;
        if (!ops)
            return unsupported(filters[i].id, err);
        fby_status status = ops->check ? ops->check(&filters[i], err) : FBY_OK;
        /*
         * For elements of variable length libhdf5 leaves an optional filter without the parameters that it would work out, and
         * skips it in every chunk. A chunk that does use it fails when it is undone.
         */
        if (status == FBY_E_FORMAT && filters[i].optional)
            continue;
        if (status != FBY_OK) {
            fby__error_context(err, "filter %u (%s)", filters[i].id, ops->name);
            return status;
        }
    }
    return FBY_OK;
}

/* ---- one pipeline ---- */

typedef struct run {
    fby__filter_state *state;
    size_t dst_n;
    size_t limit;    /* of what lies between two filters */
    unsigned buffer; /* the next of state->between to write */
} run;

/* Cut off the sum. */
static fby_status strip_fletcher32(fby__bytes *bytes, bool verify, fby_error *err)
{
    if (bytes->n < FLETCHER_BYTES)
        return fby__fail(err, FBY_E_FORMAT, "fletcher32: %zu stored bytes hold no check sum", bytes->n);
    bytes->n -= FLETCHER_BYTES;
    if (verify && !fby__fletcher32_fits(bytes->data, bytes->n, fby__load_u32(bytes->data + bytes->n)))
        return fby__fail(err, FBY_E_FORMAT, "fletcher32: the check sum of %zu bytes does not match", bytes->n);
    return FBY_OK;
}

/* ops->undo with the error named, and the empty stream refused. */
static fby_status undo(fby__filter_state *state, const fby__filter *filter, const fby__filter_ops *ops, fby__bytes src, uint8_t *dst,
                       size_t cap, size_t wanted, size_t *out_n, fby_error *err)
{
    fby_status status = src.n ? ops->undo(state, filter, src, dst, cap, out_n, err) : fby__fail(err, FBY_E_FORMAT, "the stream is empty");
    if (status == FBY_OK)
        return FBY_OK;
    if (wanted)
        fby__error_context(err, "%s: %zu stored bytes, %zu wanted", ops->name, src.n, wanted);
    else
        fby__error_context(err, "%s: %zu stored bytes", ops->name, src.n);
    return status;
}

static fby_status undo_exactly(fby__filter_state *state, const fby__filter *filter, const fby__filter_ops *ops, fby__bytes src,
                               uint8_t *dst, size_t n, fby_error *err)
{
    size_t got = 0;
    FBY__TRY(undo(state, filter, ops, src, dst, n, n, &got, err));
    if (got == n)
        return FBY_OK;
    if (got == n + 1 && !(ops->keeps_size && ops->keeps_size(filter)))
        return fby__fail(err, FBY_E_FORMAT, "%s: %zu stored bytes give more than %zu", ops->name, src.n, n);
    return fby__fail(err, FBY_E_FORMAT, "%s: %zu stored bytes give %zu, not %zu", ops->name, src.n, got, n);
}

/* A filter whose size nothing tells beforehand: try, and grow. */
static fby_status undo_growing(run *r, const fby__filter *filter, const fby__filter_ops *ops, fby__bytes *bytes, fby_error *err)
{
    fby__buf *to = &r->state->between[r->buffer];
    size_t cap = r->dst_n + r->dst_n / 8 + 4096, got = 0; /* a little more than what an encoder makes of incompressible bytes */
    for (;;) {
        cap = cap < r->limit ? cap : r->limit;
        FBY__TRY(fby__filter_room(to, cap, err));
        FBY__TRY(undo(r->state, filter, ops, *bytes, to->data, cap, 0, &got, err));
        if (got <= cap)
            break;
        if (got > r->limit)
            return fby__fail(err, FBY_E_FORMAT, "%s: %zu stored bytes give %zu or more on the way to %zu, which is not plausible",
                             ops->name, bytes->n, got, r->dst_n);
        cap = got == cap + 1 ? 2 * cap : got;
    }
    *bytes = (fby__bytes){to->data, got};
    r->buffer ^= 1;
    return FBY_OK;
}

/*
 * Size of what goes into filter i, when filters i−1 … 0 (those not in mask) all keep sizes; 0 when one of them does not. A step can
 * have no bytes for input only when dst_n is 0, which is then found out at the end.
 */
static size_t size_below(const fby__filter *filters, uint32_t i, uint32_t mask, size_t dst_n)
{
    size_t n = dst_n;
    for (uint32_t k = 0; k < i; k++) {
        if (mask >> k & 1)
            continue;
        const fby__filter_ops *ops = ops_of(filters[k].id);
        if (filters[k].id == FBY__FILTER_FLETCHER32) {
            if (!fby__add_checked(n, FLETCHER_BYTES, &n))
                return 0;
        } else if (!ops || !ops->keeps_size || !ops->keeps_size(&filters[k])) {
            return 0;
        }
    }
    return n;
}

static fby_status undo_all(fby__filter_state *state, const fby__filter *filters, uint32_t n, uint32_t mask, bool verify, fby__bytes src,
                           uint8_t *dst, size_t dst_n, fby_error *err)
{
    run r = {.state = state, .dst_n = dst_n, .limit = FBY__FILTER_MAX_BYTES};
    if (dst_n < (FBY__FILTER_MAX_BYTES - 65536) / 8)
        r.limit = 8 * dst_n + 65536;
    fby__bytes bytes = src;
    const bool streaming = state->streaming;
    for (uint32_t i = n; i-- > 0;) {
        if (mask >> i & 1)
            continue;
        const fby__filter *filter = &filters[i];
        const bool last = (~mask & ((UINT32_C(1) << i) - 1)) == 0;
        state->streaming = streaming && last; /* what lies between two filters is read at once */
        if (filter->id == FBY__FILTER_FLETCHER32) {
            FBY__TRY(strip_fletcher32(&bytes, verify, err));
            continue;
        }
        const fby__filter_ops *ops = ops_of(filter->id);
        if (!ops)
            return unsupported(filter->id, err);
        if (last)
            return undo_exactly(state, filter, ops, bytes, dst, dst_n, err);

        /* A filter that keeps its size needs no guess either; whether the size is right shows at the next one. */
        size_t wanted = size_below(filters, i, mask, dst_n);
        if (wanted == 0 && ops->keeps_size && ops->keeps_size(filter))
            wanted = bytes.n;
        if (wanted == 0) {
            FBY__TRY(undo_growing(&r, filter, ops, &bytes, err));
            continue;
        }
        fby__buf *to = &state->between[r.buffer];
        FBY__TRY(fby__filter_room(to, wanted, err));
        FBY__TRY(undo_exactly(state, filter, ops, bytes, to->data, wanted, err));
        bytes = (fby__bytes){to->data, wanted};
        r.buffer ^= 1;
    }
    if (bytes.n != dst_n)
        return fby__fail(err, FBY_E_FORMAT, "the chunk has %zu bytes, not %zu", bytes.n, dst_n);
    if (dst_n)
        memcpy(dst, bytes.data, dst_n);
    return FBY_OK;
}

uint32_t fby__filters_buffers(const fby__filter *filters, uint32_t n)
{
    uint32_t steps = 0, inside = 0;
    bool keeps = true, varies = false; /* keeps: what is above the last filter seen has the size of its result */
    for (uint32_t i = 0; i < n; i++) {
        const fby__filter_ops *ops = ops_of(filters[i].id);
        if (!ops)
            continue; /* fletcher32, which is cut off in place */
        steps++;
        inside |= ops->uses_inside;
        varies |= !keeps;
        keeps = ops->keeps_size && ops->keeps_size(&filters[i]);
    }
    const bool copied = n > 0 && steps > 0 && !ops_of(filters[0].id); /* what is left is cut from the last buffer */
    const uint32_t between = copied ? steps : steps - (steps > 0);
    return (between < 2 ? between : 2) * (varies ? 2 : 1) + inside;
}

fby_status fby__filters_undo(fby__filter_state *state, const fby__filter *filters, uint32_t n, uint32_t mask, bool verify, fby__bytes src,
                             uint8_t *dst, size_t dst_n, fby_error *err)
{
    uint8_t nothing;
    if (n > MAX_FILTERS)
        return fby__fail(err, FBY_E_FORMAT, "%u filters, where HDF5 allows %d", n, MAX_FILTERS);
    const uint64_t begin = fby__now_ns();
    const bool streaming = state->streaming;
    fby_status status = undo_all(state, filters, n, mask, verify, src, dst_n ? dst : &nothing, dst_n, err);
    state->streaming = streaming;
    state->decompress_ns += fby__now_ns() - begin;
    return status;
}
