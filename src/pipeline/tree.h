/*
 * YAML trees: reading with libyaml's parser, writing with its emitter. Nodes are as in forebay/pipeline.h and live in the tree's arena.
 *
 * Limits: bytes of the file, values with aliases followed, levels. A node that several aliases point to is there once, so walking a tree
 * visits it as often as the file refers to it; the limits count it as often.
 */
#ifndef FBY_PIPELINE_TREE_H
#define FBY_PIPELINE_TREE_H

#include "base/arena.h"

#include <forebay/pipeline.h>

#define FBY_TREE_MAX_BYTES (16u << 20)
#define FBY_TREE_MAX_NODES 1000000u
#define FBY_TREE_MAX_DEPTH 32
#define FBY_TREE_MAX_ANCHORS 100

struct fby_tree {
    fby__arena arena;
    const fby_node *root;
    const char *name; /* in the arena: what messages call the file */
};

/** All of a file, for fby_tree_parse: owned by the caller, with a NUL behind it. Errors as fby_tree_read. */
fby_status fby__tree_read_text(const char *path, char **out, size_t *out_n, fby_error *err);
/** What a plain (unquoted) scalar is by YAML 1.2's core schema (section 10.3.2); fills kind and value. `text` is NUL-terminated. */
void fby__tree_resolve(const char *text, fby_node *out);

/** The value of a key, or NULL. */
const fby_node *fby__node_get(const fby_node *map, const char *key);

#endif
