/*
 * Elements of no fixed size: strings, sequences, and references as the paths they point to. Each becomes a run of bytes; the result
 * is the runs back to back with n + 1 offsets before them.
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>

enum { RUN_ELEMENTS = 16384 };

typedef struct output {
    uint64_t *offsets; /* owned: n + 1 */
    uint64_t done;     /* elements */
    buffer bytes;
} output;

static int put_element(work *w, output *o, const void *p, size_t n)
{
    if (n > w->request->result_bytes - o->bytes.n)
        return fail(w, FBY__H5P_BUDGET, "the elements from here on need more than the %llu bytes allowed",
                    (unsigned long long)w->request->result_bytes);
    /* put() has the limit of a description: this has the client's. */
    if (o->bytes.cap - o->bytes.n < n) {
        size_t cap = o->bytes.cap ? o->bytes.cap : 65536;
        while (cap - o->bytes.n < n)
            cap *= 2;
        uint8_t *data = realloc(o->bytes.data, cap);
        if (!data)
            return fail_nomem(w);
        o->bytes.data = data;
        o->bytes.cap = cap;
    }
    if (n)
        memcpy(o->bytes.data + o->bytes.n, p, n);
    o->bytes.n += n;
    o->offsets[++o->done] = o->bytes.n;
    return 0;
}

typedef enum element_form { FIXED, VARIABLE, SEQUENCE, OBJECT_REFERENCE, REGION_REFERENCE } element_form;

static size_t trimmed(const uint8_t *p, size_t n, H5T_str_t padding)
{
    const uint8_t *nul = padding == H5T_STR_NULLTERM ? memchr(p, 0, n) : NULL;
    if (nul)
        return (size_t)(nul - p);
    uint8_t pad = padding == H5T_STR_SPACEPAD ? ' ' : 0;
    while (n && p[n - 1] == pad)
        n--;
    return n;
}

static int put_reference(work *w, output *o, hid_t dataset, H5R_type_t kind, const uint8_t *p, size_t n)
{
    static char path[FBY__H5P_MAX_OBJECT_PATH];
    bool null = true;
    for (size_t i = 0; i < n; i++)
        null &= p[i] == 0;
    if (null)
        return put_element(w, o, "", 0);
    ssize_t length = H5Rget_name(dataset, kind, p, path, sizeof path);
    if (length <= 0)
        return fail_h5(w, "element %llu is a reference to nothing", (unsigned long long)o->done);
    if ((size_t)length >= sizeof path)
        return fail(w, FBY__H5P_UNSUPPORTED, "the path of an object is longer than %u bytes", FBY__H5P_MAX_OBJECT_PATH);
    return put_element(w, o, path, (size_t)length);
}

static int put_run(work *w, output *o, hid_t dataset, hid_t memory, element_form form, const uint8_t *data, uint64_t n)
{
    size_t bytes = H5Tget_size(memory);
    H5T_str_t padding = form == FIXED ? H5Tget_strpad(memory) : H5T_STR_NULLTERM;
    size_t base_bytes = 0;
    if (form == SEQUENCE) {
        AUTO_ID base = H5Tget_super(memory);
        base_bytes = base < 0 ? 0 : H5Tget_size(base);
    }
    for (uint64_t i = 0; i < n; i++, data += bytes) {
        const char *text;
        hvl_t sequence;
        size_t k;
        switch (form) {
        case FIXED: TRY(put_element(w, o, data, trimmed(data, bytes, padding))); break;
        case VARIABLE:
            memcpy(&text, data, sizeof text);
            TRY(put_element(w, o, text, text ? strlen(text) : 0));
            break;
        case SEQUENCE:
            memcpy(&sequence, data, sizeof sequence);
            if (__builtin_mul_overflow(sequence.len, base_bytes, &k))
                return fail(w, FBY__H5P_FORMAT, "a sequence is too long");
            TRY(put_element(w, o, sequence.p, sequence.p ? k : 0));
            break;
        case OBJECT_REFERENCE: TRY(put_reference(w, o, dataset, H5R_OBJECT, data, bytes)); break;
        case REGION_REFERENCE: TRY(put_reference(w, o, dataset, H5R_DATASET_REGION, data, bytes)); break;
        }
    }
    return 0;
}

static int choose(work *w, hid_t type, element_form *form, hid_t *memory)
{
    switch (H5Tget_class(type)) {
    case H5T_STRING:
        *form = H5Tis_variable_str(type) > 0 ? VARIABLE : FIXED;
        *memory = H5Tcopy(type);
        break;
    case H5T_VLEN: {
        AUTO_ID base = H5Tget_super(type);
        AUTO_ID element = -1;
        if (base < 0)
            return fail_h5(w, "a sequence type");
        TRY(memory_type(w, base, 0, &element));
        *form = SEQUENCE;
        *memory = H5Tvlen_create(element);
        break;
    }
    case H5T_REFERENCE:
        *form = H5Tequal(type, H5T_STD_REF_OBJ) > 0 ? OBJECT_REFERENCE : REGION_REFERENCE;
        if (*form == REGION_REFERENCE && H5Tequal(type, H5T_STD_REF_DSETREG) <= 0)
            return fail(w, FBY__H5P_UNSUPPORTED, "references of this kind are not read");
        *memory = H5Tcopy(type);
        break;
    default: return fail(w, FBY__H5P_UNSUPPORTED, "its elements are no strings, sequences or references");
    }
    return *memory < 0 ? fail_h5(w, "a type in memory") : 0;
}

static int read_elements(work *w, hid_t dataset, hid_t space, element_form form, hid_t memory, output *o)
{
    box b;
    uint64_t n;
    size_t all;
    int r;
    TRY(box_begin(w, dataset, space, RUN_ELEMENTS, &b));
    if (b.n >= SIZE_MAX / 16 || !(o->offsets = calloc((size_t)b.n + 1, 8)))
        return fail_nomem(w);
    do {
        AUTO_ID memory_space = -1;
        AUTO_FREE uint8_t *data = NULL;
        r = box_next(w, &b, &n, &memory_space);
        if (r <= 0)
            break;
        if (__builtin_mul_overflow(n, H5Tget_size(memory), &all) || !(data = calloc(1, all)))
            return fail_nomem(w);
        if (H5Dread(dataset, memory, memory_space, b.file_space, H5P_DEFAULT, data) < 0)
            r = fail_read(w, dataset);
        else if (put_run(w, o, dataset, memory, form, data, n) != 0)
            r = -1;
        if (form == VARIABLE || form == SEQUENCE)
            (void)H5Dvlen_reclaim(memory, memory_space, H5P_DEFAULT, data);
    } while (r > 0);
    return r < 0 ? -1 : result_write(w, o->offsets, 8 * ((size_t)b.n + 1), o->bytes.data, o->bytes.n);
}

int do_strings(work *w)
{
    hid_t dataset;
    limit_memory(w->request->result_bytes);
    TRY(dataset_of(w, &dataset));
    AUTO_ID type = H5Dget_type(dataset);
    AUTO_ID space = H5Dget_space(dataset);
    AUTO_ID memory = -1;
    element_form form = FIXED;
    if (type < 0 || space < 0)
        return fail_h5(w, "the data set");
    TRY(choose(w, type, &form, &memory));
    output o = {0};
    int r = read_elements(w, dataset, space, form, memory, &o);
    free(o.offsets);
    free(o.bytes.data);
    return r;
}
