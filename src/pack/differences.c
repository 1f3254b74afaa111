/*
 * Where files of the source do not say the same of themselves and of their columns: a pack says what all of them do, and a note names the rest.
 *
 * Two kinds of differences are errors, because one column would hold numbers that mean two things: other units or another calendar, and, where
 * numbers are packed as they are stored, another scale.
 */
#include "base/printable.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_FILE UINT32_MAX
#define NAMED 4u /* attributes that a note names */

typedef fby__write_attribute attribute;

/* ---- two files ---- */

static bool has_name(const attribute *a, const char *name) { return strcmp(a->name, name) == 0; }

static bool is_unit(const attribute *a) { return has_name(a, "units") || has_name(a, "calendar"); }

static bool is_scale(const attribute *a) { return has_name(a, "scale_factor") || has_name(a, "add_offset") || has_name(a, "_Unsigned"); }

/* A scale as good as none. */
static bool changes_nothing(const attribute *a)
{
    char *end;
    const double value = strtod(a->text, &end);
    return *end == 0 && end != a->text && ((has_name(a, "scale_factor") && value == 1) || (has_name(a, "add_offset") && value == 0));
}

/* CF: two names of one calendar. */
static bool same_calendar(const attribute *a, const attribute *b)
{
    return has_name(a, "calendar") && (strcmp(a->text, "standard") == 0 || strcmp(a->text, "gregorian") == 0) &&
           (strcmp(b->text, "standard") == 0 || strcmp(b->text, "gregorian") == 0);
}

/* b: what the other file says instead; NULL = nothing. */
static bool means_another(const attribute *a, const attribute *b)
{
    if (a->column < 0)
        return false;
    return is_scale(a) ? !(b ? changes_nothing(a) && changes_nothing(b) : changes_nothing(a)) : is_unit(a) && b && !same_calendar(a, b);
}

/* one, other: files that say a, and b or nothing. */
static fby_status fail_differs(const fby__pack *p, const attribute *a, const attribute *b, uint32_t one, uint32_t other, fby_error *err)
{
    const char *names[] = {fby__dataset_facts(p->ds, one).name, fby__dataset_facts(p->ds, other).name};
    return fby__fail(
        err, FBY_E_SCHEMA,
        "column '%.100s' has %s '%.60s' in '%.150s', and %s%.60s%s in '%.150s': its numbers would mean two things in one column. "
        "Leave it out, or pack it among outputs, whose numbers are packed as they are%s",
        p->schema.children[a->column]->name, a->name, a->text, names[0], b ? "'" : "", b ? b->text : "none", b ? "'" : "", names[1],
        is_scale(a) && fby__dataset_stored_values(p->ds) ? "; or open the source without stored_values" : "");
}

/* Of a list by column, the range of one. */
static size_t end_of_column(const fby__pack_attributes *all, size_t begin, int64_t column)
{
    while (begin < all->n && all->list[begin].column <= column)
        begin++;
    return begin;
}

/* Names come in much the same order: *at is near. */
static const attribute *find(const fby__pack_attributes *all, size_t begin, size_t end, const char *name, size_t *at)
{
    for (size_t i = 0, n = end - begin; i < n; i++) {
        const size_t k = begin + (*at - begin + i) % n;
        if (has_name(&all->list[k], name)) {
            *at = k;
            return &all->list[k];
        }
    }
    return NULL;
}

static void note_differs(fby__pack_attributes *first, size_t i, uint32_t file)
{
    uint32_t known = atomic_load_explicit(&first->differs[i], memory_order_relaxed);
    while (file < known &&
           !atomic_compare_exchange_weak_explicit(&first->differs[i], &known, file, memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Attributes [begin, end) of a column in the first file, [b, b_end) in another. */
static fby_status compare_column(fby__pack *p, size_t begin, size_t end, const fby__pack_attributes *other, size_t b, size_t b_end,
                                 uint32_t file, fby_error *err)
{
    fby__pack_attributes *first = &p->attributes;
    size_t at = b;
    for (size_t i = begin; i < end; i++) {
        const attribute *a = &first->list[i], *found = find(other, b, b_end, a->name, &at);
        if (found && strcmp(found->text, a->text) == 0)
            continue;
        if (means_another(a, found))
            return fail_differs(p, a, found, 0, file, err);
        note_differs(first, i, file);
    }
    at = begin;
    for (size_t i = b; i < b_end; i++) /* a scale that the first file does not have */
        if (is_scale(&other->list[i]) && means_another(&other->list[i], NULL) && !find(first, begin, end, other->list[i].name, &at))
            return fail_differs(p, &other->list[i], NULL, file, 0, err);
    return FBY_OK;
}

static fby_status compare(fby__pack *p, const fby__pack_attributes *other, uint32_t file, fby_error *err)
{
    const fby__pack_attributes *first = &p->attributes;
    for (size_t a = 0, b = 0; a < first->n || b < other->n;) {
        int64_t column = a < first->n ? first->list[a].column : INT64_MAX;
        if (b < other->n && other->list[b].column < column)
            column = other->list[b].column;
        const size_t a_end = end_of_column(first, a, column), b_end = end_of_column(other, b, column);
        FBY__TRY(compare_column(p, a, a_end, other, b, b_end, file, err));
        a = a_end;
        b = b_end;
    }
    return FBY_OK;
}

/* ---- all files, by threads ---- */

static fby_status begin_comparing(fby__pack *p, uint32_t n_workers, void **out, fby_error *err)
{
    (void)n_workers, (void)err;
    *out = p;
    return FBY_OK;
}

static fby_status compare_file(void *worker, uint64_t file, fby_error *err)
{
    fby__pack *p = worker;
    fby__pack_attributes other = {.n = 0};
    FBY__TRY(fby__pack_go_on(p, err));
    fby_status status = fby__pack_attributes_of_file(p, (uint32_t)file, &other, err);
    if (status == FBY_OK)
        status = compare(p, &other, (uint32_t)file, err);
    fby__pack_attributes_fini(&other);
    return status;
}

static bool lacks_no_memory(const void *worker)
{
    (void)worker;
    return false;
}

static void end_comparing(void *worker) { (void)worker; }

static bool reads_no_rows(const fby__pack *p)
{
    (void)p;
    return false;
}

static const fby__pack_phase_ops compare_phase = {"comparing files", begin_comparing, compare_file,
                                                  lacks_no_memory,   end_comparing,   reads_no_rows};

/* ---- what is left ---- */

/* More texts than there is room for are counted, not named. */
static void write_note(const fby__pack *p, fby__pack_attributes *all)
{
    size_t n = 0, at = 0;
    uint32_t file = NO_FILE;
    for (size_t i = 0; i < all->n; i++) {
        n += all->differs[i] != NO_FILE;
        file = all->differs[i] < file ? all->differs[i] : file;
    }
    if (n == 0)
        return;
    all->note[0] = 0;
    for (size_t i = 0, named = 0; i < all->n && named < NAMED; i++) {
        const attribute *a = &all->list[i];
        if (all->differs[i] == NO_FILE)
            continue;
        const char *column = a->column < 0 ? "" : p->schema.children[a->column]->name;
        at += (size_t)snprintf(all->note + at, sizeof all->note - at, "%s'%.24s'%s%.24s%s", named++ ? ", " : "", a->name,
                               *column ? " of '" : "", column, *column ? "'" : "");
    }
    if (n > NAMED)
        at += (size_t)snprintf(all->note + at, sizeof all->note - at, " and %zu more", n - NAMED);
    (void)snprintf(all->note + at, sizeof all->note - at,
                   ": left out, as the source's files do not say the same; the first that differs is '%.120s'",
                   fby__dataset_facts(p->ds, file).name);
    fby__make_printable(all->note, sizeof all->note, false);
}

static void drop(fby__pack_attributes *all)
{
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (all->differs[i] == NO_FILE)
            all->list[n++] = all->list[i];
    all->n = n;
}

fby_status fby__pack_differences_drop(fby__pack *p, fby_error *err)
{
    fby__pack_attributes *all = &p->attributes;
    const uint32_t n_files = fby__dataset_file_count(p->ds);
    if (n_files < 2 || (all->n == 0 && !fby__dataset_stored_values(p->ds)))
        return FBY_OK;
    all->differs = fby__calloc(all->n + 1, sizeof *all->differs);
    if (!all->differs)
        return fby__fail_nomem(err, "a pack's attributes");
    for (size_t i = 0; i < all->n; i++)
        atomic_init(&all->differs[i], NO_FILE);
    FBY__TRY(fby__pack_crew_run(p, &compare_phase, 1, n_files, err));
    write_note(p, all);
    drop(all);
    return FBY_OK;
}
