/* What a table leaves out of its file, or has slowly, as sentences for the dataset's notes. */
#include "format/hdf5/table/table.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_LISTED 8u /* of one sort: the rest is a number */

static const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

static void note_others(const fby__h5_table *t, char *out, size_t n)
{
    int at = snprintf(out, n, "the table is that of '%.200s'; others can be had with table=:", t->name);
    for (uint32_t i = 0; i < t->n_others && i < MAX_LISTED && at >= 0 && (size_t)at < n; i++)
        at += snprintf(out + at, n - (size_t)at, "%s '%.80s' (%" PRIu64 " row%s, %" PRIu32 " data set%s)", i ? "," : "", t->others[i].name,
                       t->others[i].rows, plural(t->others[i].rows), t->others[i].n_sets, plural(t->others[i].n_sets));
    if (t->n_others > MAX_LISTED && at >= 0 && (size_t)at < n)
        (void)snprintf(out + at, n - (size_t)at, " and %" PRIu32 "%s more", t->n_others - MAX_LISTED,
                       t->n_others == FBY__H5_MAX_OTHERS ? " or" : "");
}

/* Number i of the sets that the helper program reads; *out_n = how many there are. */
static const fby__h5_set *helped(const fby__h5_table *t, uint32_t i, uint32_t *out_n)
{
    const fby__h5_set *found = NULL;
    *out_n = 0;
    for (uint32_t s = 0; s < t->n_sets; s++)
        if (t->sets[s].way == FBY__H5_HELPER && (*out_n)++ == i)
            found = &t->sets[s];
    return found;
}

bool fby__h5_note(const fby__table *table, uint32_t i, char *out, size_t n)
{
    const fby__h5_table *t = fby__h5_table_of(table);
    if (t->n_others && i-- == 0) {
        note_others(t, out, n);
        return true;
    }
    uint32_t n_helped;
    const fby__h5_set *set = helped(t, i, &n_helped);
    const uint32_t listed = n_helped < MAX_LISTED ? n_helped : MAX_LISTED;
    if (i < listed && set) {
        (void)snprintf(out, n, "the data set '%.200s' is read by the helper program, more slowly: %.300s", set->path,
                       set->why ? set->why : "");
        return true;
    }
    i -= listed;
    if (n_helped > MAX_LISTED && i-- == 0) {
        (void)snprintf(out, n, "%" PRIu32 " more data sets are read by the helper program", n_helped - MAX_LISTED);
        return true;
    }
    if (i < t->n_left_out && i < MAX_LISTED) {
        (void)snprintf(out, n, "the data set '%.200s' is left out: %.600s", t->left_out[i].name, t->left_out[i].why);
        return true;
    }
    if (t->n_left_out > MAX_LISTED && i == MAX_LISTED) {
        (void)snprintf(out, n, "%" PRIu32 "%s more data sets are left out", t->n_left_out - MAX_LISTED,
                       t->n_left_out == FBY__H5_MAX_LEFT_OUT ? " or" : "");
        return true;
    }
    return false;
}

bool fby__h5_left_out(const fby__table *table, uint32_t i, const char **out_name, const char **out_why)
{
    const fby__h5_table *t = fby__h5_table_of(table);
    for (uint32_t k = 0; k < t->n_left_out; k++) {
        if (t->left_out[k].elsewhere || i-- > 0)
            continue;
        *out_name = t->left_out[k].name;
        *out_why = t->left_out[k].why;
        return true;
    }
    return false;
}
