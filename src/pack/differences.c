/*
 * Where files of the source do not say the same about themselves and their columns: a pack says what all of them do, and a note names the rest,
 * and what no pack can say.
 *
 * Two kinds of differences are errors, because one column would hold numbers that mean two things: other units or another calendar, and, where
 * numbers are packed as they are stored, another scale or fill value, or none. A file that states no units leaves open what its numbers are:
 * the pack does, too. Whether two units mean the same (degC, celsius) is not known here: whoever knows says that the first file's hold for all.
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
#define NAME_BYTES 104u

typedef fby__write_attribute attribute;

typedef struct fby__pack_comparison {
    pthread_mutex_t lock;
    uint32_t *differs;   /* owned; of each that the first file says: the first file that says something else, or nothing; or NO_FILE */
    uint32_t *overruled; /* owned; the same of those that stay nevertheless: units of the first file, where these are asked for */
    fby__pack_attributes later; /* what the first file does not say, by field */
    uint32_t *says;             /* owned; of each of these: the first file that says it */
    size_t cap_says;
    uint32_t noted; /* the first file of which something is not even known, or NO_FILE; what, is in note */
    char note[sizeof((fby__pack_attributes){0}.note)];
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
    return (x.n == y.n && memcmp(x.data, y.data, x.n) == 0) || (a->field < 0 && has_name(a, "pandas") && same_but_length(a->text, b->text));
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
    if (a->field < 0)
        return false;
    if (fby__pack_is_encoding(a->name))
        return !changes_nothing(a) || (b && !changes_nothing(b));
    return is_unit(a) && b && !(has_name(a, "calendar") && is_standard(a) && is_standard(b)); /* two names of one calendar, as CF has it */
}

/* The name of a field as contents have it; of a long one the last `most` bytes, at most 96. */
static const char *name_of(const fby__pack *p, int64_t field, size_t most, char out[NAME_BYTES])
{
    fby__buf path = {0};
    const bool found = fby__pack_field_path(p, field, &path) == 0, cut = found && path.n > most;
    size_t at = cut ? path.n - most : 0; /* what lies in one group, or one column, differs at its end */
    while (found && at < path.n && (path.data[at] & 0xC0) == 0x80)
        at++;
    (void)snprintf(out, NAME_BYTES, "%s%.*s", cut ? "…" : "", found ? (int)(path.n - at) : 0, found ? (const char *)path.data + at : "");
    fby__buf_fini(&path);
    return out;
}

/* one, other: files that say a, and b or nothing. */
static fby_status fail_differs(const fby__pack *p, const attribute *a, const attribute *b, uint32_t one, uint32_t other, fby_error *err)
{
    if (b && other < one)
        return fail_differs(p, b, a, other, one, err);
    const char *names[] = {fby__dataset_facts(p->ds, one).name, fby__dataset_facts(p->ds, other).name};
    const bool encoding = fby__pack_is_encoding(a->name);
    char name[NAME_BYTES];
    return fby__fail(err, FBY_E_SCHEMA,
                     "column '%s' has %s '%.60s' in '%.150s', and %s%.60s%s in '%.150s': its numbers would mean two things in one column. "
                     "%seave it out, or pack it among outputs, whose numbers are packed as they are%s",
                     name_of(p, a->field, 96, name), a->name, a->text, names[0], b ? "'" : "", b ? b->text : "none", b ? "'" : "", names[1],
                     encoding ? "L" : "If both mean the same, units=first keeps the first file's; else l",
                     encoding && fby__dataset_stored_values(p->ds) ? "; or open the source without stored_values" : "");
}

/* The range of one field in a list by field. */
static size_t end_of_field(const fby__pack_attributes *all, size_t begin, int64_t field)
{
    while (begin < all->n && all->list[begin].field <= field)
        begin++;
    return begin;
}

static size_t begin_of_field(const fby__pack_attributes *all, int64_t field)
{
    size_t low = 0, high = all->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (all->list[middle].field < field)
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

/* In the order of fields and names, whichever file comes first. */
static fby_status insert_later(fby__pack_comparison *c, size_t at, const attribute *a, uint32_t file, fby_error *err)
{
    fby__pack_attributes *later = &c->later;
    FBY__TRY(fby__pack_attributes_add(later, *a, 0, err));
    if (fby__grow((void **)&c->says, &c->cap_says, later->n, sizeof *c->says) != 0)
        return fby__fail_nomem(err, "a pack's attributes");
    const attribute added = later->list[later->n - 1];
    while (at < later->n - 1 && later->list[at].field == added.field && strcmp(later->list[at].name, added.name) < 0)
        at++;
    memmove(later->list + at + 1, later->list + at, (later->n - 1 - at) * sizeof added);
    memmove(c->says + at + 1, c->says + at, (later->n - 1 - at) * sizeof *c->says);
    later->list[at] = added;
    c->says[at] = file;
    return FBY_OK;
}

static void count_file(uint32_t *io_first, uint32_t file) { *io_first = file < *io_first ? file : *io_first; }

static bool keeps_first_units(const fby__pack *p, const attribute *a)
{
    return p->o->units == FBY_PACK_UNITS_FIRST && a->field >= 0 && is_unit(a);
}

/* What the first file does not say. */
static fby_status compare_later(fby__pack *p, const attribute *a, uint32_t file, fby_error *err)
{
    fby__pack_comparison *c = p->attributes.comparison;
    const size_t begin = begin_of_field(&c->later, a->field), end = end_of_field(&c->later, begin, a->field);
    size_t at = begin;
    if (fby__pack_is_encoding(a->name) && means_another(a, NULL))
        return fail_differs(p, a, NULL, file, 0, err);
    const attribute *known = find(&c->later, begin, end, a->name, &at);
    if (!known)
        return insert_later(c, begin, a, file, err);
    if (!says_the_same(a, known) && means_another(a, known) && !keeps_first_units(p, a))
        return fail_differs(p, a, known, file, c->says[at], err);
    count_file(&c->says[at], file);
    return FBY_OK;
}

/* Attributes [begin, end) of a field in the first file, [b, b_end) in another. */
static fby_status compare_field(fby__pack *p, size_t begin, size_t end, const fby__pack_attributes *other, size_t b, size_t b_end,
                                uint32_t file, fby_error *err)
{
    fby__pack_attributes *first = &p->attributes;
    fby__pack_comparison *c = first->comparison;
    size_t at = b;
    for (size_t i = begin; i < end; i++) {
        const attribute *a = &first->list[i], *found = find(other, b, b_end, a->name, &at);
        if (found && says_the_same(a, found))
            continue;
        const bool stays = keeps_first_units(p, a);
        if (!stays && means_another(a, found))
            return fail_differs(p, a, found, 0, file, err);
        count_file(stays ? &c->overruled[i] : &c->differs[i], file);
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
        int64_t field = a < first->n ? first->list[a].field : INT64_MAX;
        if (b < other->n && other->list[b].field < field)
            field = other->list[b].field;
        const size_t a_end = end_of_field(first, a, field), b_end = end_of_field(other, b, field);
        FBY__TRY(compare_field(p, a, a_end, other, b, b_end, file, err));
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

static void keep_note(fby__pack_comparison *c, const char *note, uint32_t file)
{
    if (*note && file < c->noted) {
        c->noted = file;
        memcpy(c->note, note, strlen(note) + 1);
    }
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
        keep_note(p->attributes.comparison, other.note, (uint32_t)file);
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

/* Between what was said and what comes. */
static void put_next(note *to)
{
    if (to->n)
        put(to, "; ");
}

/* More than `most` are counted, not named. */
static void put_name(note *to, const fby__pack *p, const attribute *a, size_t most)
{
    char name[NAME_BYTES];
    if (to->all == 0)
        put_next(to);
    if (to->all++ >= most)
        return;
    put(to, "%s'%.24s'", to->named++ ? ", " : "", a->name);
    if (a->field >= 0)
        put(to, " of '%s'", name_of(p, a->field, 24, name));
}

/* What was named is said so. */
static void put_rest(note *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put_rest(note *to, const char *fmt, ...)
{
    char text[200];
    va_list args;
    if (to->all == 0)
        return;
    if (to->all > to->named)
        put(to, " and %zu more", to->all - to->named);
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* cut, as the note is */
    va_end(args);
    put(to, ": %s", text);
    to->all = to->named = 0;
}

static const char *file_name(const fby__pack *p, uint32_t file) { return file == NO_FILE ? "" : fby__dataset_facts(p->ds, file).name; }

static void note_differences(note *to, const fby__pack *p)
{
    const fby__pack_attributes *all = &p->attributes;
    const fby__pack_comparison *c = all->comparison;
    uint32_t file = NO_FILE;
    for (size_t i = 0; i < all->n; i++)
        if (c->differs[i] != NO_FILE) {
            put_name(to, p, &all->list[i], NAMED);
            count_file(&file, c->differs[i]);
        }
    for (size_t i = 0; i < c->later.n; i++) {
        put_name(to, p, &c->later.list[i], NAMED);
        count_file(&file, c->says[i]);
    }
    put_rest(to, "left out, as the source's files do not say the same; the first that differs is '%.120s'", file_name(p, file));
    file = NO_FILE;
    for (size_t i = 0; i < all->n; i++)
        if (c->overruled[i] != NO_FILE && all->list[i].n) {
            put_name(to, p, &all->list[i], NAMED);
            count_file(&file, c->overruled[i]);
        }
    put_rest(to, "as the first file has it, though others differ; the first is '%.120s'", file_name(p, file));
}

static bool is_column(const fby__pack *p, int64_t field)
{
    int64_t at = 0;
    for (int64_t i = 0; at < field && i < p->schema.n_children; i++)
        at += fby__write_field_count(p->schema.children[i]);
    return at == field;
}

/* What can be written, and no file contradicts. */
static void drop(fby__pack *p, note *to)
{
    fby__pack_attributes *all = &p->attributes;
    size_t n = 0;
    bool inside = false; /* of a column */
    for (size_t i = 0; i < all->n; i++) {
        if (all->comparison->differs[i] != NO_FILE)
            continue;
        if (all->list[i].n) {
            all->list[n++] = all->list[i];
            continue;
        }
        put_name(to, p, &all->list[i], NAMED_LOST);
        inside |= all->list[i].field >= 0 && !is_column(p, all->list[i].field);
    }
    all->n = n;
    put_rest(to, "left out, as a pack keeps single texts in UTF-8 and up to 1,024 numbers%s",
             inside && p->format == FBY__WRITE_HDF5 ? ", in HDF5 of whole columns" : "");
}

/* Where all columns are packed: those that no reader has. */
static void note_columns(const fby__pack *p, note *to)
{
    size_t n = 0;
    while (!p->o->columns && fby_dataset_left_out(p->ds, n))
        n++;
    if (n == 0)
        return;
    put_next(to);
    put(to, "not packed: %.250s", fby_dataset_left_out(p->ds, 0));
    size_t named = 1;
    for (const size_t most = to->n + 200; named < n && named < NAMED && to->n < most; named++)
        put(to, "; %.120s", fby_dataset_left_out(p->ds, named));
    if (n > named)
        put(to, "; and %zu more column%s", n - named, n - named == 1 ? "" : "s");
}

static fby_status compare_all(fby__pack *p, fby_error *err)
{
    fby__pack_comparison *c = p->attributes.comparison;
    if (fby__dataset_file_count(p->ds) < 2)
        return FBY_OK;
    (void)pthread_mutex_init(&c->lock, NULL);
    const fby_status status = fby__pack_crew_run(p, &compare_phase, 1, fby__dataset_file_count(p->ds), err);
    (void)pthread_mutex_destroy(&c->lock);
    return status;
}

fby_status fby__pack_differences_drop(fby__pack *p, fby_error *err)
{
    fby__pack_attributes *all = &p->attributes;
    fby__pack_comparison c = {.noted = NO_FILE};
    note said = {.text = all->note, .room = sizeof all->note};
    c.differs = fby__malloc((all->n + 1) * sizeof *c.differs);
    c.overruled = fby__malloc((all->n + 1) * sizeof *c.overruled);
    fby_status status = c.differs && c.overruled ? FBY_OK : fby__fail_nomem(err, "a pack's attributes");
    for (size_t i = 0; status == FBY_OK && i < all->n; i++)
        c.differs[i] = c.overruled[i] = NO_FILE;
    all->comparison = &c;
    keep_note(&c, all->note, 0);
    all->note[0] = 0;
    if (status == FBY_OK)
        status = compare_all(p, err);
    if (status == FBY_OK) {
        note_columns(p, &said);
        note_differences(&said, p);
        drop(p, &said);
        if (c.noted != NO_FILE) {
            put_next(&said);
            put(&said, "%s", c.note);
        }
        fby__make_printable(all->note, sizeof all->note, said.n + 1 == said.room);
    }
    all->comparison = NULL;
    fby__free(c.differs);
    fby__free(c.overruled);
    fby__free(c.says);
    fby__pack_attributes_fini(&c.later);
    return status;
}
