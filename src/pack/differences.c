/*
 * Where files of the source do not say the same of themselves and of their columns: a pack says what all of them do, and a note names the rest,
 * and what no pack can say.
 *
 * Two kinds of differences are errors, because one column would hold numbers that mean two things: other units or another calendar, and, where
 * numbers are packed as they are stored, another scale or fill value, or none. A file that states no units leaves open what its numbers are:
 * the pack does, too.
 *
 * Files are compared with the first one, whose attributes are those that may stay. What it does not say is kept beside them, with the first
 * file that says it: that is what others are compared with then. So it does not matter in which order they come.
 */
#include "base/number.h"
#include "base/printable.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_FILE UINT32_MAX
#define NAMED 4u      /* attributes that a note names */
#define NAMED_LOST 2u /* and of those that no pack can say */

typedef fby__write_attribute attribute;

typedef struct fby__pack_comparison {
    pthread_mutex_t lock;
    uint32_t *differs; /* owned; of each that the first file says: the first file that says something else, or nothing; or NO_FILE */
    fby__pack_attributes later; /* what the first file does not say, by column */
    uint32_t *says;             /* owned; of each of these: the first file that says it */
    size_t cap_says;
} fby__pack_comparison;

/* ---- two files ---- */

static bool has_name(const attribute *a, const char *name) { return strcmp(a->name, name) == 0; }

static bool is_unit(const attribute *a) { return has_name(a, "units") || has_name(a, "calendar"); }

/* Without the brackets of a list of one number. */
static fby__bytes bare_text(const attribute *a)
{
    const size_t n = strlen(a->text);
    const bool brackets = a->dtype != FBY_DTYPE_NONE && a->n == 1 && !a->is_scalar;
    return (fby__bytes){(const uint8_t *)a->text + brackets, n - 2u * brackets};
}

/* Do both describe the same table but for its length, which pandas' index has? A pack has another one anyway, and readers then count. */
static bool same_but_length(const char *a, const char *b)
{
    static const char LENGTH[] = "\"stop\": ";
    while (*a && *a == *b) {
        const bool here = strncmp(a, LENGTH, sizeof LENGTH - 1) == 0 && strncmp(b, LENGTH, sizeof LENGTH - 1) == 0;
        a += here ? sizeof LENGTH - 1 : 1;
        b += here ? sizeof LENGTH - 1 : 1;
        a += here ? strspn(a, "0123456789") : 0;
        b += here ? strspn(b, "0123456789") : 0;
    }
    return *a == *b;
}

static bool is_standard(const attribute *a) { return strcmp(a->text, "standard") == 0 || strcmp(a->text, "gregorian") == 0; }

static bool says_the_same(const attribute *a, const attribute *b)
{
    const fby__bytes x = bare_text(a), y = bare_text(b);
    return (x.n == y.n && memcmp(x.data, y.data, x.n) == 0) ||
           (a->column < 0 && has_name(a, "pandas") && same_but_length(a->text, b->text));
}

/* A scale as good as none. */
static bool changes_nothing(const attribute *a)
{
    const fby__bytes text = bare_text(a);
    char number[64], *end = number;
    if (text.n == 0 || text.n >= sizeof number)
        return false;
    memcpy(number, text.data, text.n);
    number[text.n] = 0;
    const double value = fby__strtod(number, &end);
    return *end == 0 && end != number && ((has_name(a, "scale_factor") && value == 1) || (has_name(a, "add_offset") && value == 0));
}

/* b: what the other file says instead; NULL = nothing. */
static bool means_another(const attribute *a, const attribute *b)
{
    if (a->column < 0)
        return false;
    if (fby__pack_is_encoding(a->name))
        return !changes_nothing(a) || (b && !changes_nothing(b));
    return is_unit(a) && b && !(has_name(a, "calendar") && is_standard(a) && is_standard(b)); /* two names of one calendar, as CF has it */
}

/* one, other: files that say a, and b or nothing. */
static fby_status fail_differs(const fby__pack *p, const attribute *a, const attribute *b, uint32_t one, uint32_t other, fby_error *err)
{
    if (b && other < one)
        return fail_differs(p, b, a, other, one, err);
    const char *names[] = {fby__dataset_facts(p->ds, one).name, fby__dataset_facts(p->ds, other).name};
    return fby__fail(
        err, FBY_E_SCHEMA,
        "column '%.100s' has %s '%.60s' in '%.150s', and %s%.60s%s in '%.150s': its numbers would mean two things in one column. "
        "Leave it out, or pack it among outputs, whose numbers are packed as they are%s",
        p->schema.children[a->column]->name, a->name, a->text, names[0], b ? "'" : "", b ? b->text : "none", b ? "'" : "", names[1],
        fby__pack_is_encoding(a->name) && fby__dataset_stored_values(p->ds) ? "; or open the source without stored_values" : "");
}

/* Of a list by column, the range of one. */
static size_t end_of_column(const fby__pack_attributes *all, size_t begin, int64_t column)
{
    while (begin < all->n && all->list[begin].column <= column)
        begin++;
    return begin;
}

static size_t begin_of_column(const fby__pack_attributes *all, int64_t column)
{
    size_t low = 0, high = all->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (all->list[middle].column < column)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
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

/* In the order of columns and names, whichever file comes first. */
static fby_status insert_later(fby__pack_comparison *c, size_t at, const attribute *a, uint32_t file, fby_error *err)
{
    fby__pack_attributes *later = &c->later;
    FBY__TRY(fby__pack_attributes_add(later, *a, 0, err));
    if (fby__grow((void **)&c->says, &c->cap_says, later->n, sizeof *c->says) != 0)
        return fby__fail_nomem(err, "a pack's attributes");
    const attribute added = later->list[later->n - 1];
    while (at < later->n - 1 && later->list[at].column == added.column && strcmp(later->list[at].name, added.name) < 0)
        at++;
    memmove(later->list + at + 1, later->list + at, (later->n - 1 - at) * sizeof added);
    memmove(c->says + at + 1, c->says + at, (later->n - 1 - at) * sizeof *c->says);
    later->list[at] = added;
    c->says[at] = file;
    return FBY_OK;
}

/* What the first file does not say. */
static fby_status compare_later(fby__pack *p, const attribute *a, uint32_t file, fby_error *err)
{
    fby__pack_comparison *c = p->attributes.comparison;
    const size_t begin = begin_of_column(&c->later, a->column), end = end_of_column(&c->later, begin, a->column);
    size_t at = begin;
    if (fby__pack_is_encoding(a->name) && means_another(a, NULL))
        return fail_differs(p, a, NULL, file, 0, err);
    const attribute *known = find(&c->later, begin, end, a->name, &at);
    if (!known)
        return insert_later(c, begin, a, file, err);
    if (!says_the_same(a, known) && means_another(a, known))
        return fail_differs(p, a, known, file, c->says[at], err);
    c->says[at] = file < c->says[at] ? file : c->says[at];
    return FBY_OK;
}

/* Attributes [begin, end) of a column in the first file, [b, b_end) in another. */
static fby_status compare_column(fby__pack *p, size_t begin, size_t end, const fby__pack_attributes *other, size_t b, size_t b_end,
                                 uint32_t file, fby_error *err)
{
    fby__pack_attributes *first = &p->attributes;
    uint32_t *differs = first->comparison->differs;
    size_t at = b;
    for (size_t i = begin; i < end; i++) {
        const attribute *a = &first->list[i], *found = find(other, b, b_end, a->name, &at);
        if (found && says_the_same(a, found))
            continue;
        if (means_another(a, found))
            return fail_differs(p, a, found, 0, file, err);
        differs[i] = file < differs[i] ? file : differs[i];
    }
    at = begin;
    for (size_t i = b; i < b_end; i++)
        if (!find(first, begin, end, other->list[i].name, &at))
            FBY__TRY(compare_later(p, &other->list[i], file, err));
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
    if (status == FBY_OK) {
        (void)pthread_mutex_lock(&p->attributes.comparison->lock);
        status = compare(p, &other, (uint32_t)file, err);
        (void)pthread_mutex_unlock(&p->attributes.comparison->lock);
    }
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

typedef struct note {
    char *text;
    size_t n, room;
    size_t all, named; /* attributes */
} note;

static void put(note *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(note *to, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(to->text + to->n, to->room - to->n, fmt, args); /* cut where there is no more room */
    va_end(args);
    to->n = n < 0 ? to->n : (size_t)n < to->room - to->n ? to->n + (size_t)n : to->room - 1;
}

/* More than `most` are counted, not named. */
static void put_name(note *to, const fby__pack *p, const attribute *a, size_t most)
{
    const char *column = a->column < 0 ? "" : p->schema.children[a->column]->name;
    if (to->all++ >= most)
        return;
    put(to, "%s'%.24s'%s%.24s%s", to->named++ ? ", " : "", a->name, *column ? " of '" : "", column, *column ? "'" : "");
}

static void put_more(note *to)
{
    if (to->all > to->named)
        put(to, " and %zu more", to->all - to->named);
    to->all = to->named = 0;
}

static void note_differences(note *to, const fby__pack *p)
{
    const fby__pack_attributes *all = &p->attributes;
    const fby__pack_comparison *c = all->comparison;
    uint32_t file = NO_FILE;
    for (size_t i = 0; i < all->n; i++)
        if (c->differs[i] != NO_FILE) {
            put_name(to, p, &all->list[i], NAMED);
            file = c->differs[i] < file ? c->differs[i] : file;
        }
    for (size_t i = 0; i < c->later.n; i++) {
        put_name(to, p, &c->later.list[i], NAMED);
        file = c->says[i] < file ? c->says[i] : file;
    }
    put_more(to);
    if (file != NO_FILE)
        put(to, ": left out, as the source's files do not say the same; the first that differs is '%.120s'",
            fby__dataset_facts(p->ds, file).name);
}

/* What can be written, and no file contradicts. */
static void drop(fby__pack *p, note *to)
{
    fby__pack_attributes *all = &p->attributes;
    const size_t before = to->n;
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++) {
        if (all->comparison && all->comparison->differs[i] != NO_FILE)
            continue;
        if (all->list[i].n) {
            all->list[n++] = all->list[i];
            continue;
        }
        if (to->all == 0 && before)
            put(to, "; ");
        put_name(to, p, &all->list[i], NAMED_LOST);
    }
    all->n = n;
    const bool lost = to->all != 0;
    put_more(to);
    if (lost)
        put(to, ": left out, as a pack keeps single texts in UTF-8 and up to 1,024 numbers");
}

static fby_status compare_all(fby__pack *p, fby__pack_comparison *c, fby_error *err)
{
    fby__pack_attributes *all = &p->attributes;
    c->differs = fby__calloc(all->n + 1, sizeof *c->differs);
    if (!c->differs)
        return fby__fail_nomem(err, "a pack's attributes");
    for (size_t i = 0; i < all->n; i++)
        c->differs[i] = NO_FILE;
    all->comparison = c;
    (void)pthread_mutex_init(&c->lock, NULL);
    const fby_status status = fby__pack_crew_run(p, &compare_phase, 1, fby__dataset_file_count(p->ds), err);
    (void)pthread_mutex_destroy(&c->lock);
    return status;
}

fby_status fby__pack_differences_drop(fby__pack *p, fby_error *err)
{
    fby__pack_attributes *all = &p->attributes;
    fby__pack_comparison c = {.differs = NULL};
    note said = {.text = all->note, .room = sizeof all->note};
    const bool several = fby__dataset_file_count(p->ds) > 1;
    const fby_status status = several ? compare_all(p, &c, err) : FBY_OK;
    if (status == FBY_OK) {
        if (several)
            note_differences(&said, p);
        drop(p, &said);
        fby__make_printable(all->note, sizeof all->note, said.n + 1 == said.room);
    }
    all->comparison = NULL;
    fby__free(c.differs);
    fby__free(c.says);
    fby__pack_attributes_fini(&c.later);
    return status;
}
