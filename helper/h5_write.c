/*
 * A file written, by a program that was started for it (protocol.h): data sets, one a column, rows of them in chunks, attributes. Nothing in
 * the file depends on when it was written: no times are kept, and what libhdf5 does not write is zero.
 */
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define NAME "/" /* of the file, for libhdf5, which looks whether there is such a name: the real one is the client's */

typedef struct column {
    hid_t set, type;
    fby__h5p_write of; /* as it was asked for */
    uint64_t row_bytes;
} column;

static hid_t g_file = -1;
static bool g_ended; /* nothing comes after the end: the file would be begun anew */
static column *g_columns;
static uint32_t g_n_columns;

/* ---- columns ---- */

static hid_t bool_type(void)
{
    const signed char values[] = {0, 1};
    hid_t t = H5Tenum_create(H5T_STD_I8LE);
    if (t >= 0 && (H5Tenum_insert(t, "FALSE", &values[0]) < 0 || H5Tenum_insert(t, "TRUE", &values[1]) < 0)) {
        (void)H5Tclose(t);
        return -1;
    }
    return t;
}

static hid_t text_type(void)
{
    hid_t t = H5Tcopy(H5T_C_S1);
    if (t >= 0 && (H5Tset_size(t, H5T_VARIABLE) < 0 || H5Tset_cset(t, H5T_CSET_UTF8) < 0)) {
        (void)H5Tclose(t);
        return -1;
    }
    return t;
}

static hid_t type_of(const fby__h5p_write *q)
{
    switch (q->value) {
    case FBY__H5P_OF_BOOL: return bool_type();
    case FBY__H5P_OF_INT: return integer_type(true, q->value_bytes);
    case FBY__H5P_OF_UINT: return integer_type(false, q->value_bytes);
    case FBY__H5P_OF_FLOAT: return float_type(false, q->value_bytes);
    case FBY__H5P_OF_BYTES: return H5Tcreate(H5T_OPAQUE, q->value_bytes);
    default: return text_type();
    }
}

/* Chunks of whole rows, which are written whole: no cache of them is of use. */
static hid_t storage_of(const fby__h5p_write *q)
{
    hsize_t chunk[FBY__H5P_MAX_RANK];
    hid_t p = H5Pcreate(H5P_DATASET_CREATE);
    for (uint32_t i = 0; i < q->rank; i++)
        chunk[i] = i ? q->dims[i] : q->chunk_rows;
    if (p >= 0 && (H5Pset_obj_track_times(p, false) < 0 || (q->chunk_rows && H5Pset_chunk(p, (int)q->rank, chunk) < 0) ||
                   (q->level && ((q->value_bytes > 1 && H5Pset_shuffle(p) < 0) || H5Pset_deflate(p, q->level) < 0)))) {
        (void)H5Pclose(p);
        return -1;
    }
    return p;
}

static int add_column(work *w, const fby__h5p_write *q, const char *name)
{
    if (q->value == FBY__H5P_OF_TEXT && q->rank != 1)
        return fail(w, FBY__H5P_ARG, "texts have one axis");
    hsize_t dims[FBY__H5P_MAX_RANK];
    column c = {.of = *q, .set = -1, .type = -1, .row_bytes = q->value_bytes};
    for (uint32_t i = 0; i < q->rank; i++) {
        dims[i] = q->dims[i];
        c.row_bytes *= i ? q->dims[i] : 1;
    }
    column *more = realloc(g_columns, (g_n_columns + 1) * sizeof *more);
    if (!more)
        return fail_nomem(w);
    g_columns = more;
    AUTO_ID space = H5Screate_simple((int)q->rank, dims, NULL);
    AUTO_ID storage = storage_of(q);
    AUTO_ID links = H5Pcreate(H5P_LINK_CREATE);
    AUTO_ID access = H5Pcreate(H5P_DATASET_ACCESS);
    if (space < 0 || storage < 0 || links < 0 || access < 0 || (c.type = type_of(q)) < 0 ||
        H5Pset_create_intermediate_group(links, 1) < 0 || H5Pset_char_encoding(links, H5T_CSET_UTF8) < 0 ||
        H5Pset_chunk_cache(access, 1, 0, 1) < 0 || (c.set = H5Dcreate2(g_file, name, c.type, space, links, storage, access)) < 0)
        return fail_h5(w, "a data set cannot be made");
    g_columns[g_n_columns++] = c;
    return 0;
}

/* ---- rows ---- */

/* As libhdf5 wants them: a pointer each. */
static int point_to_texts(work *w, const fby__h5p_write *q, const char *bytes, char ***out)
{
    const char *at = bytes, *end = bytes + q->bytes;
    char **texts = malloc((q->rows + 1) * sizeof *texts);
    if (!texts)
        return fail_nomem(w);
    for (uint64_t i = 0; i < q->rows && at < end; i++) { /* the last byte is a NUL */
        texts[i] = (char *)(uintptr_t)at;
        at += strlen(at) + 1;
        if (i + 1 == q->rows && at == end) {
            *out = texts;
            return 0;
        }
    }
    free(texts);
    return fail(w, FBY__H5P_ARG, "texts that are not as many as rows");
}

static int add_rows(work *w, const fby__h5p_write *q, const char *bytes)
{
    if (q->column >= g_n_columns)
        return fail(w, FBY__H5P_ARG, "rows of no column");
    const column *c = &g_columns[q->column];
    const bool text = c->of.value == FBY__H5P_OF_TEXT;
    AUTO_FREE char **texts = NULL;
    if (!text && (q->rows == 0 || c->row_bytes != q->bytes / q->rows || q->bytes % q->rows))
        return fail(w, FBY__H5P_ARG, "rows of another size");
    if (text)
        TRY(point_to_texts(w, q, bytes, &texts));
    hsize_t start[FBY__H5P_MAX_RANK] = {q->first}, count[FBY__H5P_MAX_RANK] = {q->rows};
    for (uint32_t i = 1; i < c->of.rank; i++)
        count[i] = c->of.dims[i];
    AUTO_ID from = H5Screate_simple((int)c->of.rank, count, NULL);
    AUTO_ID to = H5Dget_space(c->set);
    if (from < 0 || to < 0 || H5Sselect_hyperslab(to, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
        H5Dwrite(c->set, c->type, from, to, H5P_DEFAULT, text ? (const void *)texts : bytes) < 0)
        return fail_h5(w, "rows cannot be written");
    return 0;
}

/* ---- the file ---- */

/* value: a text, or as many numbers as q says. */
static int add_attribute(work *w, const fby__h5p_write *q, const char *name, const char *value, size_t n)
{
    const bool is_text = q->value == FBY__H5P_OF_TEXT;
    if (q->column != FBY__H5P_OF_FILE && q->column >= g_n_columns)
        return fail(w, FBY__H5P_ARG, "an attribute of no column");
    if (!is_text && (q->rank > 1 || q->value_bytes == 0 || n % q->value_bytes || n / q->value_bytes != (q->rank ? q->dims[0] : 1)))
        return fail(w, FBY__H5P_ARG, "an attribute of another size");
    const hid_t of = q->column == FBY__H5P_OF_FILE ? g_file : g_columns[q->column].set;
    AUTO_ID space = q->rank && !is_text ? H5Screate_simple(1, (const hsize_t *)q->dims, NULL) : H5Screate(H5S_SCALAR);
    AUTO_ID type = type_of(q);
    AUTO_ID creation = H5Pcreate(H5P_ATTRIBUTE_CREATE);
    AUTO_ID attribute = -1;
    if (space < 0 || type < 0 || creation < 0 || H5Pset_char_encoding(creation, H5T_CSET_UTF8) < 0 ||
        (attribute = H5Acreate2(of, name, type, space, creation, H5P_DEFAULT)) < 0 ||
        H5Awrite(attribute, type, is_text ? (const void *)&value : value) < 0)
        return fail_h5(w, "an attribute cannot be written");
    return 0;
}

static int end_file(work *w)
{
    herr_t failed = 0;
    for (; g_n_columns > 0; g_n_columns--)
        failed |= H5Dclose(g_columns[g_n_columns - 1].set) | H5Tclose(g_columns[g_n_columns - 1].type);
    const hid_t file = g_file;
    g_file = -1;
    g_ended = true;
    return failed < 0 || H5Fclose(file) < 0 ? fail_h5(w, "the file cannot be written") : 0;
}

static int begin_file(work *w)
{
    if (g_ended)
        return fail(w, FBY__H5P_ARG, "a request after the end of the file");
    if (g_file >= 0)
        return 0;
    AUTO_ID access = H5Pcreate(H5P_FILE_ACCESS);
    /* What the oldest versions read, whose headers of groups have no times: libhdf5 2.0 has another default. */
    if (access < 0 || H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST) < 0 ||
        (g_file = H5Fcreate(NAME, H5F_ACC_TRUNC, H5P_DEFAULT, access)) < 0)
        return fail_h5(w, "the file cannot be written");
    return 0;
}

/* ---- requests ---- */

static bool receive(void *out, size_t n)
{
    for (char *at = out; n > 0;) {
        const ssize_t got = recv(FBY__H5P_FD, at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

/* The bytes that follow: of all but rows of numbers, they end with a NUL. */
static int answer(work *w, const fby__h5p_write *q, const char *bytes)
{
    TRY(begin_file(w));
    switch (q->op) {
    case FBY__H5P_COLUMN: return add_column(w, q, bytes);
    case FBY__H5P_ROWS: return add_rows(w, q, bytes);
    case FBY__H5P_ATTRIBUTE: {
        const char *nul = memchr(bytes, 0, q->bytes + 1); /* between name and text: there is one beyond the bytes in any case */
        const char *value = nul < bytes + q->bytes ? nul + 1 : nul;
        return add_attribute(w, q, bytes, value, (size_t)(bytes + q->bytes - value));
    }
    case FBY__H5P_END: return end_file(w);
    default: return fail(w, FBY__H5P_ARG, "an unknown request");
    }
}

bool serve_writing(void)
{
    fby__h5p_write q;
    work w = {.fd = -1, .reply = {.magic = FBY__H5P_MAGIC, .version = FBY__H5P_VERSION, .kind = FBY__H5P_DONE}};
    if (!receive(&q, sizeof q) || q.magic != FBY__H5P_MAGIC || q.version != FBY__H5P_VERSION || q.rank > FBY__H5P_MAX_RANK ||
        q.bytes >= SIZE_MAX)
        return false;
    AUTO_FREE char *bytes = malloc(q.bytes + 1);
    if (!bytes || !receive(bytes, q.bytes))
        return false;
    bytes[q.bytes] = 0;
    if (answer(&w, &q, bytes) == 0)
        w.reply.status = FBY__H5P_OK;
    (void)H5Eclear2(H5E_DEFAULT);
    return send_reply(&w.reply, -1) == 0;
}
