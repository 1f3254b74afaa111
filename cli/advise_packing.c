/*
 * The command that forebay advise proposes for packing. Rows may be mixed; a window or a group of mixed rows is none. A series has files of its
 * own then, one that lay in several files is one series; groups, and other windows, are packed as they are.
 */
#include "advise.h"

#include <string.h>

#define MANY 8u /* paths that nobody reads: the user has them */

static const fby_node *member(const fby_node *map, const char *key)
{
    for (size_t i = 0; map && map->kind == FBY_NODE_MAP && i < map->n; i++)
        if (strcmp(map->keys[i]->text, key) == 0)
            return map->items[i];
    return NULL;
}

/* The one column of which each value is a series of windows; NULL: files are the series, or several columns say them. */
static const char *series_of(const fby_pipeline *pipeline)
{
    const fby_node *by = member(member(member(fby_pipeline_tree(pipeline), "samples"), "windows"), "by");
    if (by && by->kind == FBY_NODE_LIST && by->n == 1)
        by = by->items[0];
    return by && by->kind == FBY_NODE_TEXT && strcmp(by->text, "file") != 0 ? by->text : NULL;
}

advise_packing advise_packing_of(char *const *paths, size_t n_paths, const fby_pipeline *pipeline, const fby_samples *samples,
                                 const char *split, const cli_list *set)
{
    advise_packing p = {.paths = paths, .n_paths = n_paths, .split = split, .set = set};
    const fby_sample_kind kind = samples ? fby_samples_kind(samples) : FBY_SAMPLES_ROWS;
    if (pipeline && kind == FBY_SAMPLES_WINDOWS && !set->n) /* which packing rows does not know */
        p.series = series_of(pipeline);
    p.outputs = pipeline && kind != FBY_SAMPLES_ROWS && !p.series;
    return p;
}

void advise_add_pack_command(cli_text *out, const advise_packing *p)
{
    cli_text_add(out, p->outputs ? "forebay pack --outputs" : "forebay pack");
    for (size_t i = 0; i < p->n_paths && p->n_paths <= MANY; i++) {
        cli_text_add(out, " ");
        cli_text_add_quoted(out, p->paths[i]);
    }
    if (p->n_paths > MANY)
        cli_text_add(out, " PATH…");
    if (p->outputs && p->split) {
        cli_text_add(out, " --split ");
        cli_text_add_quoted(out, p->split);
    }
    for (size_t i = 0; p->outputs && i < p->set->n; i++) {
        cli_text_add(out, " --set ");
        cli_text_add_quoted(out, p->set->items[i]);
    }
    if (p->series) {
        cli_text_add(out, " --shuffle none --by ");
        cli_text_add_quoted(out, p->series);
    }
    cli_text_add(out, " --to packed --verify");
}
