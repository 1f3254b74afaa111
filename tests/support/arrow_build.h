/*
 * Schemas and arrays of the Arrow C data interface for tests that make record batches: everything is from malloc and goes with the
 * outermost release. Children come zeroed, to be filled in place; formats and names are borrowed.
 */
#ifndef FBY_TESTS_ARROW_BUILD_H
#define FBY_TESTS_ARROW_BUILD_H

#include <forebay/arrow.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline void arrow_release_schema(struct ArrowSchema *s)
{
    for (int64_t i = 0; i < s->n_children; i++) {
        if (s->children[i]->release)
            s->children[i]->release(s->children[i]);
        free(s->children[i]);
    }
    free(s->children);
    s->release = NULL;
}

/** flags: 0 or ARROW_FLAG_NULLABLE. */
static inline struct ArrowSchema arrow_field(const char *format, const char *name, int64_t flags, int64_t n_children)
{
    struct ArrowSchema s = {.format = format, .name = name, .flags = flags, .n_children = n_children, .release = arrow_release_schema};
    s.children = calloc((size_t)n_children + 1, sizeof *s.children);
    for (int64_t i = 0; i < n_children; i++)
        s.children[i] = calloc(1, sizeof **s.children);
    return s;
}

static inline void arrow_release_array(struct ArrowArray *a)
{
    for (int64_t i = 0; i < a->n_children; i++) {
        if (a->children[i]->release)
            a->children[i]->release(a->children[i]);
        free(a->children[i]);
    }
    free(a->children);
    for (int64_t i = 0; i < a->n_buffers; i++)
        free((void *)(uintptr_t)a->buffers[i]);
    free((void *)a->buffers);
    a->release = NULL;
}

static inline struct ArrowArray arrow_array(int64_t length, int64_t n_buffers, int64_t n_children)
{
    struct ArrowArray a = {.length = length, .n_buffers = n_buffers, .n_children = n_children, .release = arrow_release_array};
    a.buffers = calloc((size_t)n_buffers, sizeof *a.buffers);
    a.children = calloc((size_t)n_children + 1, sizeof *a.children);
    for (int64_t i = 0; i < n_children; i++)
        a.children[i] = calloc(1, sizeof **a.children);
    return a;
}

/** A column of numbers over two buffers, which it takes; valid (a bit a row, NULL = all) goes with null_count, -1 = not counted. */
static inline struct ArrowArray arrow_numbers(int64_t length, void *values, uint8_t *valid, int64_t null_count)
{
    struct ArrowArray a = arrow_array(length, 2, 0);
    a.buffers[0] = valid;
    a.buffers[1] = values;
    a.null_count = null_count;
    return a;
}

/* ---- what most streams of the tests answer ---- */

static inline const char *arrow_no_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return NULL;
}

static inline void arrow_free_stream(struct ArrowArrayStream *stream)
{
    free(stream->private_data);
    stream->release = NULL;
}

#endif
