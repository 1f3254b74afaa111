/*
 * Elements with parts of no fixed size, at any depth of compounds, arrays and sequences: strings, sequences, and references as the
 * paths they point to. Each part becomes 16 bytes that say where in the heap behind the elements its content lies; what a sequence
 * holds is laid out in the same way (protocol.h).
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>

enum { RUN_ELEMENTS = 16384 };

/* How a type in libhdf5's memory becomes what is described. */
typedef struct form {
    enum { FIXED, TEXT, SEQUENCE, REFERENCE, ARRAY, COMPOUND } kind;
    H5R_type_t reference;
    size_t memory_bytes, bytes; /* of an element: there, and as described */
    size_t n;                   /* ARRAY: elements; COMPOUND: members */
    struct form *parts;         /* owned: SEQUENCE, ARRAY: one; COMPOUND: n */
    size_t memory_at, at;       /* of a member in its compound */
} form;

typedef struct output {
    hid_t dataset; /* borrowed */
    uint64_t n;    /* elements so far: for messages */
    uint64_t left; /* bytes that the heap may still grow by */
    buffer heap;
} output;

/* ---- forms ---- */

static void form_fini(form *f)
{
    for (size_t i = 0; f->parts && i < (f->kind == COMPOUND ? f->n : 1); i++)
        form_fini(&f->parts[i]);
    free(f->parts);
    f->parts = NULL;
}

static int new_parts(work *w, form *f, size_t n)
{
    f->parts = calloc(n, sizeof *f->parts);
    return f->parts ? 0 : fail_nomem(w);
}

static int form_init(work *w, hid_t memory, form *out);

static int compound_form(work *w, hid_t memory, form *f)
{
    int n = H5Tget_nmembers(memory);
    if (n < 1)
        return fail_h5(w, "a compound type");
    f->kind = COMPOUND;
    f->n = (size_t)n;
    f->bytes = 0;
    TRY(new_parts(w, f, f->n));
    for (size_t i = 0; i < f->n; i++) {
        AUTO_ID member = H5Tget_member_type(memory, (unsigned)i);
        form *part = &f->parts[i];
        if (member < 0)
            return fail_h5(w, "a compound type");
        TRY(form_init(w, member, part));
        part->memory_at = H5Tget_member_offset(memory, (unsigned)i);
        part->at = f->bytes;
        f->bytes += part->bytes;
    }
    return 0;
}

/* Types of bounded depth: memory_type() has been through it. */
static int form_init(work *w, hid_t memory, form *out)
{
    H5T_class_t class = H5Tget_class(memory);
    size_t bytes = H5Tget_size(memory);
    *out = (form){.kind = FIXED, .memory_bytes = bytes, .bytes = bytes};
    int variable = has_variable_parts(memory);
    if (variable < 0 || !bytes)
        return fail_h5(w, "a type in memory");
    if (!variable)
        return 0;
    if (class == H5T_COMPOUND)
        return compound_form(w, memory, out);
    if (class == H5T_ARRAY || class == H5T_VLEN) {
        AUTO_ID base = H5Tget_super(memory);
        if (base < 0)
            return fail_h5(w, "a type in memory");
        out->kind = class == H5T_ARRAY ? ARRAY : SEQUENCE;
        TRY(new_parts(w, out, 1));
        TRY(form_init(w, base, out->parts));
        out->n = class == H5T_ARRAY ? bytes / out->parts->memory_bytes : 0;
        out->bytes = class == H5T_ARRAY ? out->n * out->parts->bytes : FBY__H5P_VLEN_BYTES;
        return 0;
    }
    out->bytes = FBY__H5P_VLEN_BYTES;
    out->kind = class == H5T_STRING ? TEXT : REFERENCE;
    out->reference = H5Tequal(memory, H5T_STD_REF_OBJ) > 0 ? H5R_OBJECT : H5R_DATASET_REGION;
    if (out->kind == REFERENCE && out->reference == H5R_DATASET_REGION && H5Tequal(memory, H5T_STD_REF_DSETREG) <= 0)
        return fail(w, FBY__H5P_UNSUPPORTED, "references of this kind are not read");
    return 0;
}

/* ---- elements ---- */

/* `n` units in `bytes` bytes of the heap, told at dst. */
static int put_part(work *w, output *o, const void *p, size_t bytes, size_t n, uint8_t *dst)
{
    const uint32_t length = (uint32_t)n, index = n > 0;
    const uint64_t at = n ? w->request->heap_at + o->heap.n : 0;
    if (bytes > o->left)
        return fail(w, FBY__H5P_TOO_LARGE, "the elements from %llu on need more than the %llu bytes allowed", (unsigned long long)o->n,
                    (unsigned long long)w->request->result_bytes);
    if (n > UINT32_MAX)
        return fail(w, FBY__H5P_FORMAT, "a sequence is too long");
    /* put() has the limit of a description: this has the client's. */
    if (o->heap.cap - o->heap.n < bytes) {
        size_t cap = o->heap.cap ? o->heap.cap : 65536;
        while (cap - o->heap.n < bytes)
            cap *= 2;
        uint8_t *data = realloc(o->heap.data, cap);
        if (!data)
            return fail_nomem(w);
        o->heap.data = data;
        o->heap.cap = cap;
    }
    if (bytes)
        memcpy(o->heap.data + o->heap.n, p, bytes);
    o->heap.n += bytes;
    o->left -= bytes;
    memcpy(dst, &length, 4);
    memcpy(dst + 4, &at, 8);
    memcpy(dst + 12, &index, 4);
    return 0;
}

static int put_reference(work *w, output *o, const form *f, const uint8_t *src, uint8_t *dst)
{
    static char path[FBY__H5P_MAX_OBJECT_PATH];
    bool null = true;
    for (size_t i = 0; i < f->memory_bytes; i++)
        null &= src[i] == 0;
    if (null)
        return put_part(w, o, NULL, 0, 0, dst);
    ssize_t length = H5Rget_name(o->dataset, f->reference, src, path, sizeof path);
    if (length <= 0)
        return fail_h5(w, "element %llu is a reference to nothing", (unsigned long long)o->n);
    if ((size_t)length >= sizeof path)
        return fail(w, FBY__H5P_UNSUPPORTED, "the path of an object is longer than %u bytes", FBY__H5P_MAX_OBJECT_PATH);
    return put_part(w, o, path, (size_t)length, (size_t)length, dst);
}

static int put_value(work *w, output *o, const form *f, const uint8_t *src, uint8_t *dst);

static int put_values(work *w, output *o, const form *f, const uint8_t *src, size_t n, uint8_t *dst)
{
    for (size_t i = 0; i < n; i++)
        TRY(put_value(w, o, f, src + i * f->memory_bytes, dst + i * f->bytes));
    return 0;
}

static int put_sequence(work *w, output *o, const form *f, const uint8_t *src, uint8_t *dst)
{
    const form *base = f->parts;
    hvl_t s;
    size_t bytes;
    memcpy(&s, src, sizeof s);
    if (!s.p)
        s.len = 0;
    if (__builtin_mul_overflow(s.len, base->bytes, &bytes) || bytes > o->left)
        bytes = SIZE_MAX; /* put_part says so */
    if (base->kind == FIXED || !s.len || bytes == SIZE_MAX)
        return put_part(w, o, s.p, bytes, s.len, dst);
    /* What the elements hold goes into the heap before them. */
    AUTO_FREE uint8_t *elements = malloc(bytes);
    if (!elements)
        return fail_nomem(w);
    TRY(put_values(w, o, base, s.p, s.len, elements));
    return put_part(w, o, elements, bytes, s.len, dst);
}

static int put_value(work *w, output *o, const form *f, const uint8_t *src, uint8_t *dst)
{
    const char *text;
    size_t n;
    switch (f->kind) {
    case FIXED: memcpy(dst, src, f->bytes); return 0;
    case TEXT:
        memcpy(&text, src, sizeof text);
        n = text ? strlen(text) : 0;
        return put_part(w, o, text, n, n, dst);
    case SEQUENCE: return put_sequence(w, o, f, src, dst);
    case REFERENCE: return put_reference(w, o, f, src, dst);
    case ARRAY: return put_values(w, o, f->parts, src, f->n, dst);
    case COMPOUND:
        for (size_t i = 0; i < f->n; i++)
            TRY(put_value(w, o, &f->parts[i], src + f->parts[i].memory_at, dst + f->parts[i].at));
        return 0;
    }
    return 0;
}

/* ---- reading ---- */

static int put_run(work *w, output *o, const form *f, const uint8_t *src, uint64_t n, uint8_t *dst)
{
    for (uint64_t i = 0; i < n; i++, o->n++)
        TRY(put_value(w, o, f, src + i * f->memory_bytes, dst + i * f->bytes));
    return 0;
}

static int read_elements(work *w, hid_t space, hid_t memory, const form *f, output *o)
{
    box b;
    uint64_t n, total;
    size_t all;
    int r;
    TRY(box_begin(w, o->dataset, space, RUN_ELEMENTS, &b));
    if (__builtin_mul_overflow(b.n, f->bytes, &total) || total > w->request->result_bytes)
        return fail(w, FBY__H5P_TOO_LARGE, "%llu elements of %zu bytes are more than the %llu bytes allowed", (unsigned long long)b.n,
                    f->bytes, (unsigned long long)w->request->result_bytes);
    o->left = w->request->result_bytes - total;
    AUTO_FREE uint8_t *elements = malloc(total ? total : 1);
    if (!elements)
        return fail_nomem(w);
    uint8_t *dst = elements;
    do {
        AUTO_ID memory_space = -1;
        AUTO_FREE uint8_t *data = NULL;
        r = box_next(w, &b, &n, &memory_space);
        if (r <= 0)
            break;
        if (__builtin_mul_overflow(n, f->memory_bytes, &all) || !(data = calloc(1, all)))
            return fail_nomem(w);
        if (H5Dread(o->dataset, memory, memory_space, b.file_space, H5P_DEFAULT, data) < 0)
            r = fail_read(w, o->dataset);
        else if (put_run(w, o, f, data, n, dst) != 0)
            r = -1;
        dst += n * f->bytes;
        (void)H5Dvlen_reclaim(memory, memory_space, H5P_DEFAULT, data); /* what it leaves is little, and the process's */
    } while (r > 0);
    return r < 0 ? -1 : result_write(w, elements, (size_t)total, o->heap.data, o->heap.n);
}

int do_values(work *w)
{
    output o = {0};
    form f = {0};
    limit_memory(w, w->request->result_bytes);
    TRY(dataset_of(w, &o.dataset));
    AUTO_ID type = H5Dget_type(o.dataset);
    AUTO_ID space = H5Dget_space(o.dataset);
    AUTO_ID memory = -1;
    if (type < 0 || space < 0)
        return fail_h5(w, "the data set");
    TRY(memory_type(w, type, 0, &memory));
    int r = form_init(w, memory, &f);
    if (r == 0)
        r = read_elements(w, space, memory, &f, &o);
    form_fini(&f);
    free(o.heap.data);
    return r;
}
