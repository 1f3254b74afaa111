/*
 * HDF5 files made by hand: an image in memory with a superblock of version 2, a place for each structure, checksums, and a
 * temporary file that holds it. Also: a golden file as bytes, to damage and to open.
 */
#ifndef TESTS_FORMAT_H5_IMAGE_H
#define TESTS_FORMAT_H5_IMAGE_H

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "format/hdf5/metadata/hdf5.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define SUPERBLOCK_BYTES 48u
#define NONE UINT64_MAX

typedef struct image {
    uint8_t *data; /* owned */
    size_t n, cap;
} image;

/* n bytes at the end, zeroed, on a multiple of 8: their address. */
static inline uint64_t place(image *im, size_t n)
{
    size_t at = (im->n + 7) & ~(size_t)7;
    if (fby__grow((void **)&im->data, &im->cap, at + n, 1) != 0)
        abort();
    memset(im->data + im->n, 0, at + n - im->n);
    im->n = at + n;
    return at;
}

static inline void image_init(image *im)
{
    *im = (image){0};
    (void)place(im, SUPERBLOCK_BYTES);
}

static inline void image_fini(image *im) { fby__free(im->data); }

/* Writing forward at an address. */
typedef struct pen {
    image *im;
    uint64_t begin, at;
} pen;

static inline pen pen_at(image *im, uint64_t address) { return (pen){im, address, address}; }

static inline void p_uint(pen *p, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        p->im->data[p->at++] = (uint8_t)(i < 8 ? v >> (8 * i) : 0);
}

static inline void p_bytes(pen *p, const void *data, size_t n)
{
    memcpy(p->im->data + p->at, data, n);
    p->at += n;
}

static inline void p_text(pen *p, const char *s) { p_bytes(p, s, strlen(s)); }

/* The checksum of what was written since the pen began. */
static inline void p_checksum(pen *p) { p_uint(p, fby__h5_checksum(p->im->data + p->begin, (size_t)(p->at - p->begin)), 4); }

/* The superblock, when all else is placed. */
static inline void image_finish(image *im, uint64_t root)
{
    pen p = pen_at(im, 0);
    p_bytes(&p, "\x89HDF\r\n\x1a\n\2\x08\x08\0", 12);
    p_uint(&p, 0, 8);
    p_uint(&p, NONE, 8);
    p_uint(&p, im->n, 8);
    p_uint(&p, root, 8);
    p_checksum(&p);
}

static inline fby__file *file_of(const void *data, size_t n)
{
    int fd = memfd_create("h5", MFD_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t done = 0; done < n;) {
        ssize_t k = write(fd, (const char *)data + done, n - done);
        assert_true(k > 0);
        done += (size_t)k;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fby__file *file = NULL;
    fby_error err;
    if (fby__file_open(path, NULL, &file, &err) != FBY_OK)
        fail_msg("%s", err.message);
    close(fd);
    return file;
}

/* An image, opened: no superblock of ours is wrong. */
static inline fby__h5_file *open_image(const image *im)
{
    fby__file *file = file_of(im->data, im->n);
    fby__h5_file *f = NULL;
    fby_error err;
    if (fby__h5_file_open(file, &f, &err) != FBY_OK)
        fail_msg("%s", err.message);
    fby__file_unref(file);
    return f;
}

/* A file of tests/golden/hdf5_tree: fby__free. */
static inline uint8_t *read_golden(const char *name, size_t *out_n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/hdf5_tree/%s", FBY_TEST_DATA, name);
    FILE *in = fopen(path, "rb");
    if (!in)
        fail_msg("%s cannot be opened", path);
    fseek(in, 0, SEEK_END);
    size_t n = (size_t)ftell(in);
    rewind(in);
    uint8_t *data = fby__malloc(n + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, n, in), n);
    data[n] = 0;
    fclose(in);
    *out_n = n;
    return data;
}

/* Every entry of a tree used a little, so that a sanitizer sees what it points to. Links found by name again. */
static inline void touch_tree(const fby__h5_tree *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const fby__h5_entry *e = &t->entries[i];
        assert_ptr_equal(fby__h5_tree_find(t, e->path), e);
        assert_true(e->object || e->declined);
        for (uint32_t k = 0; e->object && k < e->object->n_attributes; k++)
            assert_non_null(fby__h5_attribute_find(e->object, e->object->attributes[k].name));
    }
}

/* Opens bytes and reads the tree, if that can be done: the status. Failures say something. */
static inline fby_status try_tree(const void *data, size_t n, fby_error *err)
{
    fby__file *file = file_of(data, n);
    fby__h5_file *f = NULL;
    *err = (fby_error){0};
    fby_status status = fby__h5_file_open(file, &f, err);
    fby__h5_tree tree;
    if (status == FBY_OK)
        status = fby__h5_tree_read(f, &tree, err);
    if (status == FBY_OK) {
        touch_tree(&tree);
    } else {
        assert_int_equal(err->code, status);
        assert_true(err->message[0]);
    }
    fby__h5_file_close(f);
    fby__file_unref(file);
    return status;
}

/** A file of tests/golden/hdf5_tree, and its tree. */
static inline fby__h5_file *open_golden_tree(const char *name, fby__h5_tree *tree)
{
    char file_name[64];
    snprintf(file_name, sizeof file_name, "%s.h5", name);
    size_t n;
    uint8_t *data = read_golden(file_name, &n);
    fby__file *file = file_of(data, n);
    fby__free(data);
    fby__h5_file *f = NULL;
    fby_error err;
    if (fby__h5_file_open(file, &f, &err) != FBY_OK || fby__h5_tree_read(f, tree, &err) != FBY_OK)
        fail_msg("%s: %s", name, err.message);
    fby__file_unref(file);
    return f;
}

/* ---- B-trees 2 ---- */

#define NODE_BYTES 64u
#define RECORD_BYTES 12u
#define TREE_HEADER_BYTES 38u

static inline void put_tree_header(image *im, uint64_t at, uint8_t type, unsigned depth, uint64_t root, unsigned n, uint64_t total)
{
    pen p = pen_at(im, at);
    p_text(&p, "BTHD");
    p_uint(&p, 0, 1);
    p_uint(&p, type, 1);
    p_uint(&p, NODE_BYTES, 4);
    p_uint(&p, RECORD_BYTES, 2);
    p_uint(&p, depth, 2);
    p_uint(&p, 40 << 8 | 100, 2);
    p_uint(&p, root, 8);
    p_uint(&p, n, 2);
    p_uint(&p, total, 8);
    p_checksum(&p);
}

/** A node whose bytes are changed and whose checksum is right again. */
static inline void amend(image *im, uint64_t node, size_t bytes, size_t at, uint64_t v, unsigned n)
{
    pen p = pen_at(im, node + at);
    p_uint(&p, v, n);
    p = pen_at(im, node);
    p.at = node + bytes - 4;
    p_checksum(&p);
}

#endif
