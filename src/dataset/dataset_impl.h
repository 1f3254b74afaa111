/*
 * Inside the dataset module.
 *
 *   find.c     sources → files (walk.c: directories and patterns; glob.c: one part of a path; names.c: text of paths;
 *              searched.c: would they find another one? packs.c: are packs among them whole?)
 *   scan.c     files → metadata, by several threads, from the index cache (index.c, docs/index_cache.md) where it still
 *              holds (sniff.c: what a file looks like that no reader knows)
 *   join.c     the files' schemas → one
 *   dtypes.c   types of columns whose files do not say them
 *   open.c     all of these in order; blocks, identity, fingerprint
 *   notes.c    what is odd, as sentences
 *   access.c   what others ask of an open dataset
 *
 * A dataset is immutable once open, but for the few thawed tables it keeps (struct fby_dataset, `slots`).
 */
#ifndef FBY_DATASET_IMPL_H
#define FBY_DATASET_IMPL_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/nearest.h"
#include "base/notes.h"
#include "dataset/dataset.h"

#include <pthread.h>
#include <sys/types.h>

/** Columns by name. */
typedef struct fby__column_list {
    const char **at; /* owned: n, each borrowed from a schema */
    size_t n, cap;
} fby__column_list;

/* ---- glob.c ---- */

#define FBY__MAX_BRACES 16

typedef struct fby__capture {
    const char *text; /* borrowed; NULL = not matched yet */
    size_t n;
} fby__capture;

typedef enum fby__path_part_kind {
    FBY__PATH_PART_FIXED,    /* no wildcard */
    FBY__PATH_PART_MATCH,    /* wildcards or braces */
    FBY__PATH_PART_ANY_DEPTH /* "**" */
} fby__path_part_kind;

typedef struct fby__path_part {
    fby__path_part_kind kind;
    const char *text; /* NUL-terminated */
} fby__path_part;

/** A path pattern cut in parts: the fixed directory in front, then what has to be matched. All memory is the arena's. */
typedef struct fby__pattern {
    const char *root; /* "" = the working directory */
    fby__path_part *parts;
    uint32_t n_parts;
    const char *names[FBY__MAX_BRACES]; /* of the braces, in order of appearance, each once */
    uint32_t n_names;
} fby__pattern;

bool fby__glob_has_wildcards(const char *path);
/** FBY_E_ARG: braces that hold no name, too many of them. */
fby_status fby__pattern_parse(const char *path, fby__arena *arena, fby__pattern *out, fby_error *err);
/** Does `name` match the part? Fills captures[0 … n_names) of its braces; one that is filled already must hold the same text. */
bool fby__path_part_match(const fby__pattern *pattern, const char *part, const char *name, fby__capture *captures);
/** The index of the brace `name`, FBY__NONE when there is none. */
uint32_t fby__pattern_name(const fby__pattern *pattern, const char *name, size_t n);
/** The text of a part without wildcards whose braces are all captured, appended to out; 1 = it is not such a part, -1 = no memory. */
int fby__path_part_build(const fby__pattern *pattern, const char *part, const fby__capture *captures, fby__buf *out);

/* ---- names.c ---- */

/** dir "/" name, without a slash too many; dir "" is the working directory. Arena memory; NULL = no memory. */
char *fby__path_join(fby__arena *arena, const char *dir, const char *name);
/** The path as it is now, whatever the working directory will be: below it, links and ".." left to the system. */
fby_status fby__path_anchor(fby__arena *arena, const char *path, const char **out, fby_error *err);
/** Absolute, with "." and ".." and double slashes resolved by text alone. FBY_E_IO when the working directory is gone. */
fby_status fby__path_absolute(fby__arena *arena, const char *path, const char **out, fby_error *err);

/* ---- sniff.c ---- */

/**
 * What a file's ends look like when no reader knows it: "an HDF5 or NetCDF-4 file". Static. *out_known: a format, not just text or noise.
 */
const char *fby__sniff(fby__bytes head, fby__bytes tail, bool *out_known);

/* ---- find.c, walk.c ---- */

typedef struct fby__found_file {
    const char *path;       /* to open: absolute */
    const char *name;       /* relative to the source's root, then to the dataset's */
    const char **constants; /* one per column of fby__found; NULL = this source has no such part */
    uint32_t source;
    uint32_t up; /* levels from the source's root to the file's folder */
    bool strict; /* named, or matched by more than "*": content that no reader knows is an error */
} fby__found_file;

/** A directory that a source is, or that is the root of its pattern. All memory is the arena's. */
typedef struct fby__searched {
    struct fby__searched *next;
    const char *root;     /* absolute */
    fby__pattern pattern; /* no parts: everything below the root */
} fby__searched;

/** A pack in a directory that was listed. All memory is the arena's. */
typedef struct fby__packed {
    struct fby__packed *next;
    const char *manifest; /* absolute */
    bool whole;           /* all files of the directory were taken */
    uint64_t files, rows; /* that are there: packs.c */
} fby__packed;

typedef struct fby__found {
    fby__found_file *files; /* owned */
    size_t n_files, cap;
    const char **columns; /* owned array; constant columns, in order */
    uint32_t n_columns;
    uint32_t source_column;      /* of them, the one that holds the sources' names, or FBY__NONE */
    uint64_t n_special;          /* sockets, fifos and devices left out */
    size_t n_ids, n_missing_ids; /* that were listed, and those of them without a file */
    char missing_ids[400];       /* the first of those */
    fby__searched *searched;     /* where not just listed ids were looked for */
    fby__packed *packs;
    fby__hash128 key; /* of what was asked for by the caller */
} fby__found;

typedef struct fby__id {
    const char *text;
    bool used;
} fby__id;

/** One source being searched. */
typedef struct fby__walk {
    fby__arena *arena;
    fby__found *found;
    fby__id *ids; /* sorted; NULL = all */
    size_t n_ids;
    char other_id[100]; /* one that is there and not listed, the first: for messages */
    uint32_t id_name;   /* the brace that is the id, or FBY__NONE: the stem */
    uint32_t source;
    const fby__pattern *pattern; /* NULL for directories */
    fby__capture captures[FBY__MAX_BRACES];
    uint32_t brace_column[FBY__MAX_BRACES]; /* the found column each brace fills */
    uint32_t source_column;                 /* FBY__NONE, or the column that holds source_name */
    const char *source_name;
    fby__buf path; /* the path walked, NUL-terminated; n counts without the NUL */
    size_t root_n; /* bytes of path before the relative name */
    struct {
        dev_t dev;
        ino_t ino;
        size_t path_n;
    } above[128]; /* directories from the root to here: a second meeting is a loop */
    unsigned depth;
    bool names_only;         /* take directories and all else as they are: for messages */
    uint64_t n_dirs, n_seen; /* directories listed, names in them: for "no match" */
    char sample[200];        /* a few of the names that did not match */
    unsigned n_sample;
} fby__walk;

/** Add the file at w->path, unless its id is not listed. */
fby_status fby__walk_add(fby__walk *w, bool strict, fby_error *err);
/** Is the id listed (or is there no list)? */
bool fby__walk_has_id(fby__walk *w, const char *id, size_t n);
fby_status fby__walk_directory(fby__walk *w, fby_error *err);
/** Names below a directory that a walk passes over. */
static inline bool fby__is_hidden(const char *name) { return *name == '.' || *name == '_'; }
/** pattern: NULL for directories. */
fby_status fby__searched_add(fby__found *found, fby__arena *arena, const char *root, const fby__pattern *pattern, fby_error *err);
fby_status fby__walk_pattern(fby__walk *w, fby_error *err);
/** Set w->path. */
fby_status fby__walk_set_path(fby__walk *w, const char *path, fby_error *err);

fby_status fby__find(const fby_source *sources, size_t n_sources, const fby_open_opts *opts, fby__arena *arena, fby__found *out,
                     fby_error *err);
void fby__found_fini(fby__found *found);

/* ---- packs.c ---- */

/** A walk has found a manifest in a directory. */
fby_status fby__packs_note(fby__found *found, fby__arena *arena, const char *folder, bool whole, fby_error *err);
/** Once the files' metadata are read. FBY_E_FORMAT: a pack has other files or rows than its manifest states. */
fby_status fby__packs_check(const fby_dataset *ds, fby__packed *packs, fby_error *err);

/* ---- index.c ---- */

/** Rows and stored bytes of a group, as the index keeps them. */
typedef struct fby__group_size {
    uint64_t rows, stored_bytes, block_rows, step_rows; /* as in fby__group */
} fby__group_size;

/** What the dataset knows of a file. */
typedef struct fby__dataset_file {
    const char *path, *name;    /* arena */
    const char **constants;     /* arena: n_constants */
    const fby__format_ops *ops; /* NULL: no reader knows it, left out */
    fby__file_stamp stamp;
    uint32_t schema; /* of ds->schemas */
    uint32_t n_groups;
    const fby__group_size *groups;   /* arena or index image */
    fby__bytes frozen;               /* arena or index image; empty for datasets in memory */
    const fby__source_file *sources; /* arena or index: other files that its values come from */
    uint32_t n_sources;
    uint64_t rows, stored_bytes, metadata_bytes;
    uint64_t first_block, n_blocks;
    uint32_t up; /* as of fby__found_file */
    bool strict, from_cache;
    bool waits; /* while it is opened: for memory that others hold */
    bool racy;  /* no entry in the index: written just now, or not read whole for a reason that may pass */
} fby__dataset_file;

typedef struct fby__index_entry {
    const char *name;
    fby__file_stamp stamp;
    const fby__format_ops *ops; /* NULL: known to be no data */
    uint32_t schema, n_groups, n_sources;
    const fby__group_size *groups;
    const fby__source_file *sources; /* owned by the index */
    fby__bytes frozen;
} fby__index_entry;

/** A loaded index: everything else points into the image. */
typedef struct fby__index {
    fby__buf image;
    fby__arena arena;
    fby__index_entry *entries; /* sorted by name */
    uint32_t n_entries;
    fby__schema **schemas;
    uint32_t n_schemas;
    bool foreign; /* there is one, but others may have written it */
} fby__index;

/** The directory of the cache: NULL in *out when there is to be none. Arena memory. */
fby_status fby__index_dir(const char *wanted, fby__arena *arena, const char **out, fby_error *err);
/** Why a directory of the cache is not to be used, as the end of a sentence. NULL: it is the user's own, and its key too, or not there yet. */
const char *fby__cache_refusal(const char *dir);
/** Load the index of `key`; an absent, damaged or foreign file leaves *out empty. Only FBY_E_NOMEM is an error. */
fby_status fby__index_load(const char *dir, fby__hash128 key, fby__index *out, fby_error *err);
/** An entry by name; NULL: there is none. `guess`: where it is if nothing was added or removed. */
const fby__index_entry *fby__index_find(const fby__index *index, const char *name, uint32_t guess);
/** Write the index of a dataset (entries of racy files left out). The error says why not; it is for a note. */
fby_status fby__index_store(const char *dir, fby__hash128 key, const fby_dataset *ds, fby_error *err);
void fby__index_fini(fby__index *index);

/* ---- scan.c ---- */

/** Read the metadata of all ds->files, through the index where its stamps hold. Fills files, schemas, stats. Within a scope of an account. */
fby_status fby__scan(fby_dataset *ds, const fby__index *index, const fby_open_opts *opts, fby_error *err);
/** Read one file's table anew; *out NULL when no reader knows the content and the file is not strict. */
fby_status fby__scan_table(const fby__dataset_file *info, const fby__format_opts *opts, const fby__file_stamp *expect,
                           fby__file_stamp *out_stamp, fby__table **out, fby_error *err);

/* ---- join.c ---- */

/** What is known of one field of the joined schema besides its type. */
typedef struct fby__join {
    uint32_t conflict_a, conflict_b; /* schemas whose types do not join; FBY__NONE = they do */
    const fby_field *type_a, *type_b;
    uint32_t missing; /* the first schema without it; FBY__NONE = all have it */
} fby__join;

/** ds->schemas → ds->schema and ds->join. */
fby_status fby__join_schemas(fby_dataset *ds, fby_error *err);
/** A child of a struct by name, near *hint (which moves on); NULL when there is none. */
const fby_field *fby__join_child(const fby_field *parent, const char *name, uint32_t *hint);

/* ---- dtypes.c ---- */

/** Do the files of a schema leave the types of their columns open (CSV)? */
bool fby__dtypes_open(const fby_dataset *ds, uint32_t schema);
/** The schemas as opts->dtypes says. FBY_E_ARG: no such dtype; FBY_E_SCHEMA: no such column, or its file says its type. */
fby_status fby__dtypes_apply(fby_dataset *ds, const fby_open_opts *opts, fby_error *err);
/** After the join: a column that is text in the whole is read as text from each file. */
fby_status fby__dtypes_join(fby_dataset *ds, fby_error *err);
/** Which columns of numbers are text, and why, as notes. */
fby_status fby__dtypes_note(fby_dataset *ds, fby_error *err);

/* ---- the dataset ---- */

#define FBY__TABLE_SLOTS 64
#define FBY__MAP_SLOTS 256 /* descriptors, of the 1,024 that a process usually may have */

/* What was asked for when it was opened. */
typedef struct fby__dataset_config {
    fby__format_opts format;         /* strings in the arena */
    fby__h5_environment environment; /* that of `format`: texts in the arena */
    const char *cache_dir;           /* arena; NULL = none */
    fby_io_engine io;
    bool verify_crc;
    fby_missing_columns missing_columns;
    int n_threads;
    uint64_t memory_bytes; /* 0 = not said */
} fby__dataset_config;

/* What opening met, for its notes. */
typedef struct fby__dataset_seen {
    uint64_t n_unknown, n_special;      /* files left out */
    const char *unknown;                /* name of the first one */
    uint32_t n_schemas;                 /* while opening */
    uint64_t n_hard_links;              /* files that are others of the dataset under another name */
    fby__column_list hidden, duplicate; /* columns of a constant's name, and those of a name that comes twice, each once */
} fby__dataset_seen;

/* What threads used lately. */
typedef struct fby__dataset_recent {
    pthread_mutex_t lock; /* guards the rest */
    struct {
        uint32_t file;
        fby__table *table;
    } tables[FBY__TABLE_SLOTS]; /* thawed lately, so that page indexes built while reading are not lost from block to block */
    struct {
        uint32_t file;
        fby__file *opened;
    } maps[FBY__MAP_SLOTS]; /* read through maps, so that a page is faulted in once and not once a block */
} fby__dataset_recent;

struct fby_dataset {
    /* set once, before the dataset is published */
    _Atomic uint32_t refs;
    pid_t pid;
    fby__arena arena;
    fby__index index;         /* frozen tables of files that came from the cache point into it */
    fby__dataset_file *files; /* owned; those with data */
    uint32_t n_files;
    const fby__searched *searched; /* arena */
    fby__schema **schemas;         /* distinct, in order of the first file that has each */
    uint32_t n_schemas;
    uint32_t *schema_file;                 /* that file */
    fby__schema **found_schemas;           /* owned; NULL, or the schemas before columns became text: conflicts point to their fields */
    fby__schema *schema;                   /* joined */
    fby__join *join;                       /* one per field of schema */
    const char **constants;                /* arena: names of the constant columns, the first fields of schema */
    uint32_t n_constants, source_constant; /* the latter: which of them holds the sources' names, or FBY__NONE */
    const char **bytes;                    /* arena: columns of text that are to be bytes (dtypes.c) */
    size_t n_bytes;
    fby__block *blocks;
    uint32_t n_blocks;
    uint64_t rows, stored_bytes;
    fby__table *memory_table;   /* a dataset in memory: its only file */
    fby__notes notes, left_out; /* the latter: fby_dataset_left_out */
    char identity[33], contents[33], fingerprint[33];
    fby__hash128 stamps;
    uint64_t inodes; /* a hash of them */
    fby_open_stats stats;
    fby__dataset_config config;
    fby__dataset_seen seen;
    size_t max_frozen_bytes, memory_bytes;
    fby__dataset_recent recent;
};

/** ds->memory_bytes, once all else is set. */
void fby__dataset_measure(fby_dataset *ds);
fby_status fby__notes_make(fby_dataset *ds, fby_error *err);
fby_status fby__notes_add(fby_dataset *ds, fby_error *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
