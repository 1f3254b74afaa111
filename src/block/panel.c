/* The shape of panels in memory: data, then offsets or views, then validity bytes, each 64-byte aligned. */
#include "block/panel.h"

#include "base/checked.h"
#include "block/convert.h"

/* Where the regions of a panel's memory begin. */
typedef struct regions {
    size_t row_bytes;
    size_t offsets, views, valid, element_valid, end; /* data is at 0 */
} regions;

/* at += n * size, 64-byte aligned. */
static bool put(size_t *at, uint64_t n, size_t size)
{
    size_t bytes;
    return fby__mul_checked((size_t)n, size, &bytes) && fby__add_checked(*at, bytes, at) && *at <= SIZE_MAX / 2 &&
           (*at = (size_t)fby__align_up_u64(*at, 64), true);
}

static bool measure(const fby__panel_layout *layout, uint64_t rows, uint64_t capacity, regions *p)
{
    const size_t elem = fby_dtype_bytes(layout->dtype);
    size_t at = 0;
    *p = (regions){0};
    if (rows > SIZE_MAX / 2 || capacity > SIZE_MAX / 2)
        return false;
    switch (layout->kind) {
    case FBY__PANEL_DENSE:
        p->row_bytes = layout->width * elem;
        if (!put(&at, rows, p->row_bytes))
            return false;
        break;
    case FBY__PANEL_RAGGED:
        if (!put(&at, capacity, elem))
            return false;
        p->offsets = at;
        if (!put(&at, rows + 1, sizeof(uint64_t)))
            return false;
        break;
    case FBY__PANEL_BYTES:
        if (!put(&at, capacity, 1))
            return false;
        p->views = at;
        if (!put(&at, rows, sizeof(fby__view)))
            return false;
        break;
    }
    p->valid = at;
    if (layout->want_valid && !put(&at, rows, layout->n_columns))
        return false;
    p->element_valid = at;
    if (layout->kind == FBY__PANEL_RAGGED && layout->elements_valid && !put(&at, capacity, 1))
        return false;
    p->end = at ? at : 64; /* values of no bytes lie somewhere too: nobody calculates with NULL */
    return true;
}

fby_status fby__panel_bytes(const fby__panel_layout *layout, uint64_t rows, uint64_t capacity, size_t *out_bytes, fby_error *err)
{
    regions p;
    if (!measure(layout, rows, capacity, &p))
        return fby__fail(err, FBY_E_ARG, "a panel of %llu rows does not fit the address space", (unsigned long long)rows);
    *out_bytes = p.end;
    return FBY_OK;
}

void fby__panel_place(const fby__panel_layout *layout, uint64_t rows, uint64_t capacity, void *memory, fby__panel *out)
{
    regions p;
    (void)measure(layout, rows, capacity, &p); /* fby__panel_bytes said that it fits */
    uint8_t *m = memory;
    *out = (fby__panel){.layout = layout, .rows = rows, .capacity = capacity, .row_bytes = p.row_bytes, .data = m};
    if (layout->kind == FBY__PANEL_RAGGED)
        out->offsets = (uint64_t *)(void *)(m + p.offsets);
    if (layout->kind == FBY__PANEL_BYTES)
        out->views = (fby__view *)(void *)(m + p.views);
    if (layout->want_valid)
        out->valid = m + p.valid;
    if (layout->kind == FBY__PANEL_RAGGED && layout->elements_valid)
        out->element_valid = m + p.element_valid;
}

/* By bits: a NaN is what lies above infinity once the sign is gone. A row's flags follow one another as its columns do. */
#define MARK_NAN(name, T)                                                                                                                  \
    static void name(uint8_t *valid, size_t valid_step, const uint8_t *row, size_t row_bytes, uint64_t n, size_t columns, size_t width,    \
                     T infinity)                                                                                                           \
    {                                                                                                                                      \
        typedef T any __attribute__((may_alias));                                                                                          \
        const T magnitude = (T)((T) ~(T)0 >> 1);                                                                                           \
        for (; n > 0; n--, row += row_bytes, valid += valid_step) {                                                                        \
            const any *v = (const any *)(const void *)row;                                                                                 \
            for (size_t c = 0; width == 1 && c < columns; c++)                                                                             \
                valid[c] = (uint8_t)(valid[c] << ((T)(v[c] & magnitude) > infinity));                                                      \
            for (size_t c = 0; width > 1 && c < columns; c++) {                                                                            \
                bool found = false;                                                                                                        \
                for (size_t e = 0; e < width; e++)                                                                                         \
                    found |= (T)(v[c * width + e] & magnitude) > infinity;                                                                 \
                valid[c] = (uint8_t)(valid[c] << found);                                                                                   \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
MARK_NAN(mark_2, uint16_t)
MARK_NAN(mark_4, uint32_t)
MARK_NAN(mark_8, uint64_t)

void fby__panel_mark_nan(fby__panel *p, uint64_t first, uint64_t n, uint32_t column, uint32_t n_columns)
{
    _Static_assert(FBY__VALID_NAN == FBY__VALID_THERE << 1 && FBY__VALID_NULL == 0, "flags move from one to the other by a shift");
    const fby__panel_layout *layout = p->layout;
    const fby__panel_column *c = &layout->columns[column];
    uint8_t *valid = p->valid + first * layout->n_columns + column;
    const uint8_t *row = p->data + first * p->row_bytes + c->offset * fby_dtype_bytes(layout->dtype);
    size_t columns = n_columns;
    if (layout->width == layout->n_columns && n_columns == layout->n_columns) { /* plain columns, whole rows: one long row */
        columns *= (size_t)n;
        n = n ? 1 : 0;
    }
    switch (layout->dtype) {
    case FBY_FLOAT16: mark_2(valid, layout->n_columns, row, p->row_bytes, n, columns, c->width, UINT16_C(0x7c00)); return;
    case FBY_BFLOAT16: mark_2(valid, layout->n_columns, row, p->row_bytes, n, columns, c->width, UINT16_C(0x7f80)); return;
    case FBY_FLOAT32: mark_4(valid, layout->n_columns, row, p->row_bytes, n, columns, c->width, UINT32_C(0x7f800000)); return;
    case FBY_FLOAT64: mark_8(valid, layout->n_columns, row, p->row_bytes, n, columns, c->width, UINT64_C(0x7ff0000000000000)); return;
    default: return; /* no others have NaN */
    }
}

bool fby__scalar_set(fby_dtype dtype, double value, fby__scalar *out)
{
    size_t bad;
    *out = (fby__scalar){.u64 = 0};
    return fby__convert(dtype, out->bytes, FBY_FLOAT64, &value, 1, FBY__SCALE_NONE, &bad) == FBY_OK;
}
