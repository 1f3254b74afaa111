/* HDF5 files as tables: golden files of h5py and netCDF4 (tests/golden/make_hdf5_table_golden.py), and what to look at in them. */
#ifndef FBY_TEST_H5_GOLDEN_TABLES_H
#define FBY_TEST_H5_GOLDEN_TABLES_H

#include "base/clock.h"
#include "base/hash.h"
#include "format/hdf5/table/table_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define GOLDEN FBY_TEST_DATA "/golden/hdf5_table/"

static const char *const GOLDEN_FILES[] = {"tables.h5", "types.h5",     "cells.h5",      "station.nc",
                                           "blocks.h5", "elsewhere.h5", "user_block.h5", "empty.h5"};
#define N_GOLDEN (sizeof GOLDEN_FILES / sizeof *GOLDEN_FILES)

static inline void hide_helper(void) { (void)setenv("FOREBAY_HDF5_HELPER", "none", 1); }

static inline fby__table *open_path(const char *path, const fby__format_opts *opts)
{
    fby__file *file;
    fby__table *t = NULL;
    fby_error err = {0};
    assert_int_equal(fby__file_open(path, NULL, &file, &err), FBY_OK);
    if (fby__h5_table_open(file, opts, &t, &err) != FBY_OK)
        fail_msg("%s: %s", path, err.message);
    fby__file_unref(file);
    return t;
}

static inline fby__table *open_golden(const char *name, fby__format_opts opts)
{
    char path[512];
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    return open_path(path, &opts);
}

/* The message of an opening that fails, in a static buffer. */
static inline const char *refusal(const char *name, fby__format_opts opts, fby_status want)
{
    static fby_error err;
    char path[512];
    fby__file *file;
    fby__table *t = NULL;
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    assert_int_equal(fby__file_open(path, NULL, &file, NULL), FBY_OK);
    assert_int_equal(fby__h5_table_open(file, &opts, &t, &err), want);
    assert_null(t);
    fby__file_unref(file);
    return err.message;
}

static inline const fby_field *field_of(const fby__table *t, const char *path)
{
    uint32_t i = fby__schema_find(t->schema, path);
    if (i == UINT32_MAX)
        fail_msg("there is no '%s'", path);
    return &t->schema->fields[i];
}

static inline const fby__h5_leaf *leaf_of(const fby__table *t, const char *path)
{
    uint32_t i = fby__schema_find_leaf(t->schema, path);
    if (i == FBY__NO_LEAF)
        fail_msg("there is no leaf '%s'", path);
    return &fby__h5_table_of(t)->leaves[i];
}

static inline const fby__h5_set *set_of(const fby__table *t, const char *path) { return &fby__h5_table_of(t)->sets[leaf_of(t, path)->set]; }

static inline void check_type(const fby__table *t, const char *path, const char *want)
{
    char text[256];
    (void)fby_field_type_text(field_of(t, path), text, sizeof text);
    assert_string_equal(text, want);
}

/* Names of the top-level fields, joined by spaces. */
static inline void check_columns(const fby__table *t, const char *want)
{
    char text[512] = "";
    const fby_field *root = t->schema->fields;
    for (uint32_t i = 0; i < root->n_children; i++) {
        (void)strcat(text, i ? " " : "");
        (void)strcat(text, root->children[i].name);
    }
    assert_string_equal(text, want);
}

static inline const char *why_left_out(const fby__table *t, const char *name)
{
    const fby__h5_table *h = fby__h5_table_of(t);
    for (uint32_t i = 0; i < h->n_left_out; i++)
        if (strcmp(h->left_out[i].name, name) == 0)
            return h->left_out[i].why;
    fail_msg("'%s' is not left out", name);
    return NULL;
}

#endif
