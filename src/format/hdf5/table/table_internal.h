/*
 * What table.c, fields.c, candidates.c, choose.c, writers.c and netcdf.c share while a file becomes a table. None of it outlives
 * fby__h5_table_open: the table is built in memory of the file and of `arena`, frozen, and thawed into memory of its own.
 */
#ifndef FBY_FORMAT_HDF5_TABLE_TABLE_INTERNAL_H
#define FBY_FORMAT_HDF5_TABLE_TABLE_INTERNAL_H

#include "base/checked.h"
#include "format/hdf5/table/table.h"

/** A data set that could be a column, or columns. */
typedef struct fby__h5_candidate {
    const char *path;
    const fby__h5_object *object;     /* ours, or what the helper program says */
    const fby__h5_object *attributes; /* whose attributes count: ours where it was parsed */
    const char *why;                  /* NULL: we read it; else why the helper program has to */
    bool described;                   /* the helper program described this very object, its sources too */
    const char **dim_names;           /* rank; NULL until fby__h5_dims */
    uint32_t axis, axes;              /* as in fby__h5_set */
    uint64_t rows, repeat, row_elements;
    uint64_t decoded_bytes;
} fby__h5_candidate;

/** What choose.c found. Arena memory but for candidates. */
typedef struct fby__h5_choice {
    uint32_t *sets; /* n: candidates, in the tree's order */
    uint32_t n;
    uint64_t rows;
    const char *name; /* of the largest data set */
    size_t prefix;    /* bytes at the front of each path that are not in the column's name */
    struct fby__h5_other *others;
    uint32_t n_others;
} fby__h5_choice;

/** Programs whose files are known by their layout: writers.c. */
typedef enum fby__h5_writer { FBY__H5_BY_OTHERS, FBY__H5_BY_HICKLE, FBY__H5_BY_PYTABLES } fby__h5_writer;

typedef struct fby__h5_opening {
    fby__file *file;
    const fby__format_opts *opts;
    fby__h5_file *f;  /* owned; NULL: only the helper program can read it */
    fby__arena arena; /* owned */
    fby__h5_tree tree;
    fby__h5_tree whole;    /* the file as the helper program sees it, links to other files followed; n = 0: not asked, or it failed */
    const char *whole_why; /* why there is none; NULL: it was not asked */
    fby__h5_candidate *candidates; /* owned */
    size_t n_candidates, candidates_cap;
    struct fby__h5_left_out *left_out; /* owned; texts in arena */
    size_t n_left_out, left_out_cap;
    fby__source_file *sources; /* owned: files that values of the chosen data sets come from; texts in arena */
    size_t n_sources, sources_cap;
    bool unsettled; /* a request to the helper program failed: what is left out for it may be there the next time */
    /* netcdf.c */
    fby__h5_global_cache heap;    /* owned */
    struct fby__h5_scale *scales; /* arena: dimension scales by address, then again by number */
    uint32_t n_scales;
    bool scales_read;
    /* writers.c */
    fby__h5_writer writer;
    bool holds_rows; /* hickle: a list, one object an item */
} fby__h5_opening;

/** printf into the opening's arena; NULL when out of memory. */
const char *fby__h5_text(fby__h5_opening *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Why we do not read an object, and why the helper program does not either (its message without file and path). NULL: no memory. */
const char *fby__h5_reasons(fby__h5_opening *o, const char *ours, const char *path, const fby_error *helpers);
/**
 * The helper program failed at something. FBY_OK: because of the file, or because what the file needs is not there (a filter, another
 * file): the data set is then left out by name, and looked for again at the next opening. Otherwise the failure is the opening's.
 */
fby_status fby__h5_helper_failed(fby__h5_opening *o, const fby_error *helpers, fby_error *err);
/** Note what does not become a column, and why; both texts are copied. */
fby_status fby__h5_leave_out(fby__h5_opening *o, const char *name, const char *why, fby_error *err);

/* table.c */
/** The file's objects as we parse them, or as the helper program does where we cannot begin (then f is NULL). Fills f and tree. */
fby_status fby__h5_read_tree(fby__h5_opening *o, fby_error *err);
/** Why only the helper program reads this type; NULL: we do. */
const char *fby__h5_foreign_reason(fby__h5_opening *o, const fby__h5_type *type);

/**
 * Ask the helper program for `whole`, once: for what links to other files lead to, and for groups that we cannot list. Where it cannot
 * tell, whole.n stays 0 and whole_why says why; failures are those of fby__h5_helper_failed.
 */
fby_status fby__h5_read_whole(fby__h5_opening *o, fby_error *err);
/** Is entry i of `whole` an object that our tree lacks: behind a link to another file, or in a group that we cannot list? */
bool fby__h5_is_hidden(const fby__h5_opening *o, uint32_t i);
/** Why our tree lacks such an entry: what it says about the link or group that leads there. NULL: no memory. */
const char *fby__h5_why_hidden(fby__h5_opening *o, const fby__h5_entry *hidden);

/* fields.c */
/** A schema as it grows from the data sets. */
typedef struct fby__h5_builder {
    fby__h5_opening *o;
    fby__schema_element *elements; /* owned */
    size_t n, cap;
    fby__h5_leaf *leaves; /* owned */
    size_t n_leaves, leaves_cap;
    fby__h5_set *sets; /* owned */
    uint32_t n_sets;
    /* of the data set being added */
    const fby__h5_candidate *c;
    bool by_helper;
    const fby__h5_leaf *list; /* inside a list of anything but numbers: that list's leaf; NULL elsewhere */
    fby_error *err;
} fby__h5_builder;

/** What surrounds a value that becomes a field of the schema. */
typedef struct fby__h5_field_context {
    const char *name; /* of the column or member */
    const char *path; /* dotted, for notes */
    uint32_t n_dims;  /* fixed lists around it */
    const uint64_t *dims;
    const char *const *dim_names; /* NULL, or n_dims of them */
    uint64_t offset;              /* in the data set's element */
    const fby__h5_leaf *outside;  /* whose elements and strides are those of the arrays of compounds around it; NULL: none */
    uint32_t levels;              /* inside a list: fields down from it */
    bool hidden;                  /* its name is not in paths: a list's item */
    bool inner;                   /* a member of a compound */
    unsigned depth;
} fby__h5_field_context;

/** A field at the end of the schema; NULL with the error set when out of memory. Valid until the next one is added. */
fby__schema_element *fby__h5_add_element(fby__h5_builder *b, const char *name, bool hidden, fby_kind kind);
/**
 * Add one value of the data set's element: lists for its dims and array types, then what is inside. *out_why: NULL, or why it cannot be a
 * column; the caller then removes what was added.
 */
fby_status fby__h5_add_value(fby__h5_builder *b, const fby__h5_field_context *at, const fby__h5_type *type, const char **out_why);

/* candidates.c */
/** Fills `candidates`; what cannot be one although it holds data is noted. */
fby_status fby__h5_find_candidates(fby__h5_opening *o, fby_error *err);
/** Where a candidate's rows run, or axes = 0: it has none. */
fby_status fby__h5_find_rows(fby__h5_opening *o, fby__h5_candidate *c, fby_error *err);
/** Why only the helper program reads this data set, as far as its header tells; NULL: perhaps we do. */
const char *fby__h5_reason_of(const fby__h5_opening *o, const fby__h5_object *object);
/** A data set without axes as one row; NULL: no memory. */
const fby__h5_object *fby__h5_as_row(fby__h5_opening *o, const fby__h5_object *scalar);
/** a * b, or UINT64_MAX. */
static inline uint64_t fby__h5_mul_capped(uint64_t a, uint64_t b)
{
    uint64_t product;
    return fby__mul_u64_checked(a, b, &product) ? product : UINT64_MAX;
}

/* choose.c */
fby_status fby__h5_choose(fby__h5_opening *o, fby__h5_choice *out, fby_error *err);

/* writers.c */
/** Which program wrote the file: fills writer. Needs the tree. */
fby_status fby__h5_find_writer(fby__h5_opening *o, fby_error *err);
/** In its writer's layout, is this data set something else than a column? Where it holds data, notes why, and lines that convert it. */
fby_status fby__h5_writer_declines(fby__h5_opening *o, const char *path, const fby__h5_object *object, const fby__h5_object *attributes,
                                   bool *out, fby_error *err);
/** A column's name without what its writer put around it; NULL: no memory. `name` or arena. */
const char *fby__h5_column_name(fby__h5_opening *o, const char *name);

/* netcdf.c */
/** Element i of a text attribute as stored, without its padding; n = 0 when it holds none. Valid until the next call. */
fby_status fby__h5_text_bytes(fby__h5_opening *o, const fby__h5_attribute *a, uint64_t i, fby__bytes *out, fby_error *err);
/** Names of a candidate's dimensions, from dimension scales or labels: fills dim_names. */
fby_status fby__h5_dims(fby__h5_opening *o, fby__h5_candidate *c, fby_error *err);
/** Is it a NetCDF dimension without a variable: a data set without data? */
bool fby__h5_is_pure_dimension(const fby__h5_object *object);
/** A text attribute of one element; *out is NULL when there is none, or it is no UTF-8 text of at most 4 KiB. Arena. */
fby_status fby__h5_attribute_text(fby__h5_opening *o, const fby__h5_attribute *a, const char **out, fby_error *err);
/** NetCDF's default fill value, which means "no value" in a data set of numbers of this type without _FillValue; false: it has none. */
bool fby__h5_default_fill(const fby__h5_opening *o, const fby__h5_object *attributes, const fby__h5_type *type, uint64_t *out);
/**
 * _Unsigned, _FillValue, missing_value, valid_range, valid_min, valid_max, scale_factor, add_offset of a data set of plain numbers:
 * changes type, stored, dtype and the last group of the leaf. *out_why: NULL, or why the set cannot be a column.
 */
fby_status fby__h5_conventions(fby__h5_opening *o, const fby__h5_object *attributes, fby__h5_leaf *leaf, const char **out_why,
                               fby_error *err);

/* blocks.c */
/** The table's only group: its rows, stored bytes, and how blocks and tasks are cut. A function of the sets alone. */
void fby__h5_cut(const fby__h5_table *table, fby__group *out);

#endif
