/*
 * Hyperslabs of fixed-size elements, straight into the shared memory that the client reads. Long reads go in runs of rows, so that
 * the client sees signs of life between them.
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RUN_BYTES ((uint64_t)32 << 20)

int box_begin(work *w, hid_t dataset, hid_t space, uint64_t elements, box *out)
{
    const fby__h5p_request *q = w->request;
    hsize_t dims[H5S_MAX_RANK];
    H5S_class_t class = H5Sget_simple_extent_type(space);
    int rank = class == H5S_SIMPLE ? H5Sget_simple_extent_dims(space, dims, NULL) : 0;
    if (class == H5S_NO_CLASS || rank < 0)
        return fail_h5(w, "the data space");
    if (class == H5S_NULL)
        return fail(w, FBY__H5P_ARG, "the data set has no elements");
    const bool row = rank == 0 && q->rank == 1 && q->start[0] == 0 && q->count[0] == 1; /* a scalar as one row */
    if ((uint32_t)rank != q->rank && !row)
        return fail(w, FBY__H5P_ARG, "the data set has %d dimensions, not %u", rank, q->rank);
    *out = (box){.file_space = space, .rank = (uint32_t)rank, .rows = 1, .row_elements = 1, .n = 1};
    for (uint32_t i = 0; i < out->rank; i++) {
        if (q->start[i] > dims[i] || q->count[i] > dims[i] - q->start[i])
            return fail(w, FBY__H5P_ARG, "elements %llu to %llu of dimension %u are wanted, it has %llu", (unsigned long long)q->start[i],
                        (unsigned long long)(q->start[i] + q->count[i]), i, (unsigned long long)dims[i]);
        if (i && __builtin_mul_overflow(out->row_elements, q->count[i], &out->row_elements))
            return fail(w, FBY__H5P_ARG, "too many elements");
    }
    if (rank)
        out->rows = q->count[0];
    if (__builtin_mul_overflow(out->rows, out->row_elements, &out->n) || out->n > INT64_MAX)
        return fail(w, FBY__H5P_ARG, "too many elements");
    out->step = out->row_elements ? elements / out->row_elements : 1;
    out->step = out->step ? out->step : 1;
    AUTO_ID dcpl = H5Dget_create_plist(dataset);
    hsize_t chunk[H5S_MAX_RANK];
    if (dcpl >= 0 && q->rank && H5Pget_layout(dcpl) == H5D_CHUNKED && H5Pget_chunk(dcpl, H5S_MAX_RANK, chunk) == rank && chunk[0])
        out->step = (out->step + chunk[0] - 1) / chunk[0] * chunk[0]; /* no chunk is decoded for two runs (but at the ends) */
    return 0;
}

int box_next(work *w, box *b, uint64_t *out_elements, hid_t *out_memory_space)
{
    const fby__h5p_request *q = w->request;
    if (b->at >= b->rows || !b->n)
        return 0;
    progress(w);
    uint64_t rows = b->rows - b->at;
    if (b->rank == 0) {
        *out_memory_space = H5Screate(H5S_SCALAR);
        *out_elements = 1;
        b->at = 1;
        return *out_memory_space < 0 || H5Sselect_all(b->file_space) < 0 ? fail_h5(w, "the selection") : 1;
    }
    hsize_t start[H5S_MAX_RANK], count[H5S_MAX_RANK];
    for (uint32_t i = 0; i < b->rank; i++) {
        start[i] = q->start[i];
        count[i] = q->count[i];
    }
    /* The first run ends at a multiple of the step, as counted from the data set's start: there chunks begin. */
    start[0] += b->at;
    uint64_t until = b->step - start[0] % b->step;
    rows = rows < until ? rows : until;
    count[0] = rows;
    /* The memory space has the file's rank: between spaces of different shapes libhdf5 goes element by element, far slower. */
    *out_memory_space = H5Screate_simple((int)b->rank, count, NULL);
    if (*out_memory_space < 0 || H5Sselect_hyperslab(b->file_space, H5S_SELECT_SET, start, NULL, count, NULL) < 0)
        return fail_h5(w, "the selection");
    *out_elements = rows * b->row_elements;
    b->at += rows;
    return 1;
}

/* ---- the type wanted ---- */

/* Elements are read as `read`, and where `from` is set then converted as `from` to `to`. */
typedef struct plan {
    hid_t read, from, to;     /* owned; from: -1 = not needed */
    size_t read_bytes, bytes; /* of an element when read, and in the result */
    size_t numbers;           /* numbers of an element: more than 1 for arrays */
    bool as_bool;
} plan;

/* Stored with fewer bits than its bytes have? Enums: what they are made of. */
static bool is_reduced(hid_t number)
{
    AUTO_ID base = H5Tget_class(number) == H5T_ENUM ? H5Tget_super(number) : H5Tcopy(number);
    return base >= 0 && H5Tget_class(base) == H5T_INTEGER && H5Tget_size(base) <= 8 && H5Tget_precision(base) < 8 * H5Tget_size(base);
}

/* The numbers that an array is made of (new id; no array: the type itself), and how many. */
static hid_t numbers_of(hid_t type, int *n_dims, hsize_t *dims)
{
    *n_dims = H5Tget_class(type) == H5T_ARRAY ? H5Tget_array_dims2(type, dims) : 0;
    return *n_dims ? H5Tget_super(type) : H5Tcopy(type);
}

static int target_type(work *w, hid_t number, hid_t *out)
{
    const fby__h5p_request *q = w->request;
    switch (q->as) {
    case FBY__H5P_NATIVE: return memory_type(w, number, 0, out);
    case FBY__H5P_AS_BOOL: *out = integer_type(true, 1); break;
    case FBY__H5P_AS_INT: *out = integer_type(true, q->as_bytes); break;
    case FBY__H5P_AS_UINT: *out = integer_type(false, q->as_bytes); break;
    default: *out = float_type(q->as == FBY__H5P_AS_BFLOAT, q->as_bytes); break;
    }
    return *out < 0 ? fail_h5(w, "the type wanted") : 0;
}

static int plan_numbers(work *w, hid_t number, int n_dims, const hsize_t *dims, plan *out)
{
    H5T_class_t class = H5Tget_class(number);
    if (class != H5T_INTEGER && class != H5T_FLOAT && class != H5T_ENUM && class != H5T_BITFIELD)
        return fail(w, FBY__H5P_UNSUPPORTED, "its elements are no numbers");
    AUTO_ID target = -1;
    AUTO_ID memory = -1;
    TRY(target_type(w, number, &target));
    if (class == H5T_BITFIELD) { /* libhdf5 knows no way from them to numbers */
        TRY(memory_type(w, number, 0, &memory));
        if (H5Tget_size(memory) > 8)
            return fail(w, FBY__H5P_UNSUPPORTED, "bitfields of more than 8 bytes are no numbers");
        out->from = integer_type(false, H5Tget_size(memory));
    } else if (is_reduced(number)) { /* to integers of the same size, libhdf5 1.10 leaves the sign's bits zero */
        AUTO_ID base = class == H5T_ENUM ? H5Tget_super(number) : H5Tcopy(number);
        memory = integer_type(H5Tget_sign(base) != H5T_SGN_NONE, 8);
        out->from = H5Tcopy(memory);
    } else {
        memory = H5Tcopy(target);
    }
    for (int i = 0; i < n_dims; i++)
        if (__builtin_mul_overflow(out->numbers, dims[i], &out->numbers))
            return fail(w, FBY__H5P_FORMAT, "an array type is too large");
    out->to = H5Tcopy(target);
    out->read = n_dims ? H5Tarray_create2(memory, (unsigned)n_dims, dims) : H5Tcopy(memory);
    if (out->read < 0 || out->to < 0 || ((class == H5T_BITFIELD || is_reduced(number)) && out->from < 0))
        return fail_h5(w, "the type wanted");
    out->as_bool = w->request->as == FBY__H5P_AS_BOOL;
    if (__builtin_mul_overflow(out->numbers, H5Tget_size(target), &out->bytes))
        return fail(w, FBY__H5P_FORMAT, "an array type is too large");
    return 0;
}

static int plan_init(work *w, hid_t type, plan *out)
{
    hsize_t dims[H5S_MAX_RANK];
    int n_dims;
    AUTO_ID number = numbers_of(type, &n_dims, dims);
    *out = (plan){.read = -1, .from = -1, .to = -1, .numbers = 1};
    if (number < 0 || n_dims < 0)
        return fail_h5(w, "the type");
    if (w->request->as == FBY__H5P_NATIVE && has_variable_parts(type) != 0)
        return fail(w, FBY__H5P_UNSUPPORTED, "a type with parts of variable length has no native bytes");
    if (w->request->as == FBY__H5P_NATIVE && !is_reduced(number))
        return memory_type(w, type, 0, &out->read);
    return plan_numbers(w, number, n_dims, dims, out);
}

static void plan_fini(plan *p)
{
    close_id(&p->read);
    close_id(&p->from);
    close_id(&p->to);
}

/* ---- reading ---- */

static int read_run(work *w, hid_t dataset, const box *b, const plan *p, uint64_t n, hid_t memory_space, uint8_t *dst)
{
    if (p->from < 0) {
        if (H5Dread(dataset, p->read, memory_space, b->file_space, H5P_DEFAULT, dst) < 0)
            return fail_read(w, dataset);
    } else {
        size_t larger = p->read_bytes > p->bytes ? p->read_bytes : p->bytes, all;
        AUTO_FREE uint8_t *both = __builtin_mul_overflow(n, larger, &all) ? NULL : malloc(all ? all : 1);
        if (!both)
            return fail_nomem(w);
        if (H5Dread(dataset, p->read, memory_space, b->file_space, H5P_DEFAULT, both) < 0 ||
            H5Tconvert(p->from, p->to, n * p->numbers, both, NULL, H5P_DEFAULT) < 0)
            return fail_read(w, dataset);
        memcpy(dst, both, n * p->bytes);
    }
    for (size_t i = 0; p->as_bool && i < n * p->bytes; i++)
        dst[i] = dst[i] != 0;
    return 0;
}

static int read_box(work *w, hid_t dataset, hid_t space, plan *p)
{
    box b;
    uint64_t total, n;
    p->read_bytes = H5Tget_size(p->read);
    if (!p->bytes)
        p->bytes = p->read_bytes; /* native */
    if (!p->bytes)
        return fail_h5(w, "the type");
    TRY(box_begin(w, dataset, space, RUN_BYTES / p->bytes, &b));
    if (__builtin_mul_overflow(b.n, p->bytes, &total) || total != w->request->result_bytes)
        return fail(w, FBY__H5P_ARG, "%llu elements of %zu bytes are not the %llu bytes wanted", (unsigned long long)b.n, p->bytes,
                    (unsigned long long)w->request->result_bytes);
    void *map;
    TRY(result_map(w, total, &map));
    uint8_t *dst = map;
    int r;
    do {
        AUTO_ID memory_space = -1;
        r = box_next(w, &b, &n, &memory_space);
        if (r > 0 && read_run(w, dataset, &b, p, n, memory_space, dst) != 0)
            r = -1;
        if (r > 0)
            dst += n * p->bytes;
    } while (r > 0);
    if (map)
        (void)munmap(map, (size_t)total); /* cannot fail: it is what was mapped */
    return r;
}

int do_read(work *w)
{
    hid_t dataset;
    limit_memory(w, w->request->result_bytes);
    TRY(dataset_of(w, &dataset));
    AUTO_ID type = H5Dget_type(dataset);
    AUTO_ID space = H5Dget_space(dataset);
    AUTO_ID dcpl = H5Dget_create_plist(dataset);
    if (type < 0 || space < 0 || dcpl < 0)
        return fail_h5(w, "the data set");
    hsize_t chunk[H5S_MAX_RANK];
    if (H5Pget_layout(dcpl) == H5D_CHUNKED) {
        uint64_t bytes = H5Tget_size(type); /* libhdf5 holds to chunks below 4 GiB: no overflow that matters */
        int rank = H5Pget_chunk(dcpl, H5S_MAX_RANK, chunk);
        for (int i = 0; i < rank; i++)
            bytes = __builtin_mul_overflow(bytes, chunk[i], &bytes) ? UINT32_MAX : bytes;
        bytes = bytes < UINT32_MAX ? bytes : UINT32_MAX;
        if (w->request->result_bytes < UINT64_MAX / 8)
            limit_memory(w, w->request->result_bytes + bytes);
    }
    plan p;
    int r = plan_init(w, type, &p);
    if (r == 0)
        r = read_box(w, dataset, space, &p);
    plan_fini(&p);
    return r;
}
