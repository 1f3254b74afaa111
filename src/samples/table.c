/*
 * Groups from an index table, as train_meta.parquet gives them: no row of the data is read.
 *
 *   table     file 7, rows 0–9 │ file 7, rows 12–30 │ file 9, …        one row a group, in any order
 *   groups    |---------|··|------------------|                         starts, as a scan would find; what lies between is a group, too
 *   choice     1         0  1                                           … that is not chosen
 */
#include "samples/table.h"

#include "base/checked.h"

#include "base/alloc.h"
#include "base/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ---- */

/* The column of the pattern that names a file, the last one; the names of sources are of many files. NULL: it has none. */
static const char *pattern_label(const fby_dataset *ds, const fby__file_facts *f)
{
    const fby__constants columns = fby__dataset_constants(ds);
    for (uint32_t c = columns.n; f->constants && c-- > 0;)
        if (c != columns.source && f->constants[c])
            return f->constants[c];
    return NULL;
}

fby__value fby__file_label(const fby_dataset *ds, const uint8_t *shared, uint32_t file)
{
    const fby__file_facts f = fby__dataset_facts(ds, file);
    const char *text = pattern_label(ds, &f), *base = f.name ? fby__path_base(f.name) : "";
    if (text)
        return (fby__value){FBY__VALUE_TEXT, .text = (const uint8_t *)text, .n = strlen(text)};
    size_t n = f.name ? fby__path_stem(base) : 0;
    if (shared && shared[file])
        n += (size_t)(base - f.name), base = f.name;
    return (fby__value){FBY__VALUE_TEXT, .text = (const uint8_t *)base, .n = n};
}

/* Slots of a table by what names a file without its folders; two files in one slot share the name. */
static void mark_shared(const fby_dataset *ds, uint32_t *slots, size_t n_slots, uint8_t *shared)
{
    for (uint32_t i = 0; i < fby__dataset_file_count(ds); i++) {
        const fby__file_facts file = fby__dataset_facts(ds, i);
        if (pattern_label(ds, &file))
            continue;
        const fby__value v = fby__file_label(ds, NULL, i);
        for (size_t at = (size_t)fby__table_hash(v.text, v.n);; at++) {
            uint32_t *slot = &slots[at & (n_slots - 1)];
            if (*slot == 0) {
                *slot = i + 1;
                break;
            }
            const fby__value other = fby__file_label(ds, NULL, *slot - 1);
            if (other.n == v.n && memcmp(other.text, v.text, v.n) == 0) {
                shared[i] = shared[*slot - 1] = 1;
                break;
            }
        }
    }
}

const uint8_t *fby__file_names_shared(fby__sample_base *base)
{
    const fby_dataset *ds = base->ds;
    uint8_t *none = NULL, *shared = atomic_load_explicit(&base->shared_names, memory_order_acquire);
    if (shared)
        return shared;
    size_t n_slots = 16;
    while (n_slots < 2 * (size_t)fby__dataset_file_count(ds))
        n_slots *= 2;
    uint32_t *slots = fby__calloc(n_slots, sizeof *slots);
    shared = fby__calloc((size_t)fby__dataset_file_count(ds) + 1, 1);
    if (slots && shared)
        mark_shared(ds, slots, n_slots, shared);
    const bool failed = !slots || !shared;
    fby__free(slots);
    if (failed ||
        !atomic_compare_exchange_strong_explicit(&base->shared_names, &none, shared, memory_order_acq_rel, memory_order_acquire)) {
        fby__free(shared); /* another thread was first */
        return none;
    }
    return shared;
}

/* A name that a file answers to. */
typedef struct label {
    const char *text; /* borrowed */
    size_t n;
    uint32_t file;
} label;

/* What the table's file column holds, and which file that is. */
typedef struct files {
    const fby_dataset *ds;
    char *column;         /* owned: of the table; NULL = one file */
    char *before, *after; /* owned: a file's name is before, value, after; NULL = the value alone */
    bool by_position;
    label *labels; /* owned, sorted */
    size_t n_labels;
} files;

static int by_text(const void *a, const void *b)
{
    const label *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : x->n < y->n ? -1 : x->n > y->n;
}

static void files_fini(files *f)
{
    fby__free(f->column);
    fby__free(f->before);
    fby__free(f->after);
    fby__free(f->labels);
}

/* "batch_{batch_id}.parquet" → column, before, after. */
static fby_status parse_pattern(files *f, const char *text, fby_error *err)
{
    const char *open = strchr(text, '{'), *close = open ? strchr(open, '}') : NULL;
    if (open && (!close || close == open + 1 || strchr(close, '{')))
        return fby__fail(err, FBY_E_ARG, "file '%s': a pattern names one column in braces, as batch_{batch_id}.parquet", text);
    f->column = open ? fby__strndup(open + 1, (size_t)(close - open - 1)) : fby__strdup(text);
    f->before = open ? fby__strndup(text, (size_t)(open - text)) : NULL;
    f->after = open ? fby__strdup(close + 1) : NULL;
    return f->column && (!open || (f->before && f->after)) ? FBY_OK : fby__fail_nomem(err, "the index table");
}

static void add_label(files *f, const char *text, size_t n, uint32_t file)
{
    if (text)
        f->labels[f->n_labels++] = (label){text, n, file};
}

/* The names of the files: the pattern's column of this name, or the names on disk. */
static fby_status add_labels(files *f, fby_error *err)
{
    const fby_dataset *ds = f->ds;
    const fby__constants columns = fby__dataset_constants(ds);
    const uint32_t n_files = fby__dataset_file_count(ds);
    uint32_t constant = 0;
    while (constant < columns.n && strcmp(columns.names[constant], f->column) != 0)
        constant++;
    f->labels = fby__calloc(n_files, 3 * sizeof *f->labels);
    if (!f->labels)
        return fby__fail_nomem(err, "the index table");
    for (uint32_t i = 0; i < n_files; i++) {
        const fby__file_facts file = fby__dataset_facts(ds, i);
        if (constant < columns.n && !f->before) {
            const char *text = file.constants ? file.constants[constant] : NULL;
            add_label(f, text, text ? strlen(text) : 0, i);
            continue;
        }
        if (!file.name)
            continue;
        const char *base = fby__path_base(file.name);
        add_label(f, file.name, strlen(file.name), i);
        if (base != file.name)
            add_label(f, base, strlen(base), i);
        if (!f->before)
            add_label(f, base, fby__path_stem(base), i);
    }
    FBY__TRY(fby__sort(f->labels, f->n_labels, sizeof *f->labels, by_text, err));
    for (size_t i = 1; i < f->n_labels; i++)
        if (by_text(&f->labels[i - 1], &f->labels[i]) == 0 && f->labels[i - 1].file != f->labels[i].file)
            return fby__fail(err, FBY_E_ARG, "files '%s' and '%s' are both called '%.*s': open them by a pattern with {%s} in it",
                             fby__dataset_facts(ds, f->labels[i - 1].file).name, fby__dataset_facts(ds, f->labels[i].file).name,
                             (int)f->labels[i].n, f->labels[i].text, f->column);
    return FBY_OK;
}

static fby_status files_init(files *f, const fby__sample_base *base, fby_error *err)
{
    *f = (files){.ds = base->ds, .by_position = base->table.by_position};
    if (!base->table.file && fby__dataset_file_count(base->ds) > 1)
        return fby__fail(err, FBY_E_ARG,
                         "the data set has %u files: name the index table's column that says in which file a group is (file)",
                         fby__dataset_file_count(base->ds));
    if (!base->table.file)
        return FBY_OK;
    FBY__TRY(parse_pattern(f, base->table.file, err));
    return f->by_position ? FBY_OK : add_labels(f, err);
}

/* The file of a value; FBY__NONE when it is not in the dataset. */
static uint32_t file_of(const files *f, const fby__value *v)
{
    char text[600];
    int n;
    if (f->by_position)
        return v->kind == FBY__VALUE_NUMBER && v->number >= 0 && v->number < fby__dataset_file_count(f->ds) ? (uint32_t)v->number
                                                                                                            : FBY__NONE;
    const char *before = f->before ? f->before : "", *after = f->after ? f->after : "";
    if (v->kind == FBY__VALUE_NUMBER)
        n = snprintf(text, sizeof text, "%s%lld%s", before, (long long)v->number, after);
    else if (v->kind == FBY__VALUE_TEXT && v->n < sizeof text)
        n = snprintf(text, sizeof text, "%s%.*s%s", before, (int)v->n, (const char *)v->text, after);
    else
        return FBY__NONE;
    if (n < 0 || (size_t)n >= sizeof text)
        return FBY__NONE;
    label key = {text, (size_t)n, 0};
    const label *found = bsearch(&key, f->labels, f->n_labels, sizeof key, by_text);
    return found ? found->file : FBY__NONE;
}

/* ---- reading the table ---- */

enum { FILE_COLUMN, FIRST_COLUMN, LAST_COLUMN, VALUE_COLUMN, KEY_COLUMN, N_COLUMNS };

/* A thread's rows handed over at once. */
typedef struct local {
    uint32_t *file;
    int64_t *first;
    size_t cap_file, cap_first;
    fby__value last_value; /* the file named last: rows of one file mostly follow one another */
    char last_text[120];
    uint32_t last_file;
    bool any;
} local;

typedef fby__table_group group;

typedef struct table_reading {
    const fby__sample_base *base;
    const fby_dataset *table;
    files files;
    fby__read_column columns[N_COLUMNS];
    uint32_t role[N_COLUMNS]; /* of columns[i] */
    uint32_t n_columns;
    group *groups;         /* owned: one a row of the table; begin = end: its file is not in the dataset. NULL when only values are read */
    fby__key_check *check; /* NULL when only values are read */
    fby__group_value_fn visit;
    void *user;
} table_reading;

static void local_fini(void *memory)
{
    local *w = memory;
    fby__free(w->file);
    fby__free(w->first);
}

/* As file_of, remembering the last one. */
static uint32_t file_of_row(const files *f, local *w, const fby__value *v)
{
    bool same = w->any && v->kind == w->last_value.kind && v->number == w->last_value.number && v->n == w->last_value.n &&
                (v->kind != FBY__VALUE_TEXT || memcmp(v->text, w->last_text, v->n) == 0);
    if (same)
        return w->last_file;
    w->last_file = file_of(f, v);
    w->last_value = *v;
    w->any = v->n <= sizeof w->last_text;
    if (w->any && v->n)
        memcpy(w->last_text, v->text, v->n);
    return w->last_file;
}

static fby_status bad_row(const table_reading *t, uint64_t row, const char *why, int64_t first, int64_t last, uint32_t file, fby_error *err)
{
    const fby__file_facts in = fby__dataset_facts(t->base->ds, file);
    return fby__fail(err, FBY_E_DATA, "row %llu of the index table: %s (%s = %lld, %s = %lld, '%s' has %llu rows)", (unsigned long long)row,
                     why, t->base->table.first, (long long)first, t->base->table.last, (long long)last, in.name ? in.name : "the data set",
                     (unsigned long long)in.rows);
}

static fby_status note_files(const table_reading *t, local *w, const fby__scan_rows *rows, const fby__read_column *c,
                             const fby__panel *panel, const char *constant, fby_error *err)
{
    if (fby__grow((void **)&w->file, &w->cap_file, (size_t)rows->n, sizeof *w->file) != 0)
        return fby__fail_nomem(err, "the index table");
    for (uint64_t r = 0; r < rows->n; r++) {
        fby__value v = c ? fby__value_at(c, panel, constant, r) : (fby__value){.kind = FBY__VALUE_MISSING};
        w->file[r] = c ? file_of_row(&t->files, w, &v) : 0;
    }
    return FBY_OK;
}

/* The first rows of the groups, or with them and the last rows the groups. */
static fby_status note_rows(const table_reading *t, local *w, const fby__scan_rows *rows, const fby__read_column *c, bool is_last,
                            const fby__panel *panel, const char *constant, fby_error *err)
{
    const fby_dataset *ds = t->base->ds;
    uint64_t table_row = rows->block->first_row + rows->row;
    if (!is_last && fby__grow((void **)&w->first, &w->cap_first, (size_t)rows->n, sizeof *w->first) != 0)
        return fby__fail_nomem(err, "the index table");
    for (uint64_t r = 0; r < rows->n; r++) {
        fby__value v = fby__value_at(c, panel, constant, r);
        uint32_t file = w->file[r];
        if (v.kind == FBY__VALUE_FLOAT && v.real >= 0 && v.real < 9e15 && (double)(int64_t)v.real == v.real)
            v = (fby__value){FBY__VALUE_NUMBER, .number = (int64_t)v.real};
        if (!is_last)
            w->first[r] = v.kind == FBY__VALUE_NUMBER ? v.number : -1;
        if (file == FBY__NONE)
            continue;
        int64_t first = w->first[r], last = is_last ? v.number : first;
        if (v.kind != FBY__VALUE_NUMBER || first < 0)
            return bad_row(t, table_row + r, "a row number is missing, negative or no whole number", first, last, file, err);
        const uint64_t file_rows = fby__dataset_facts(ds, file).rows;
        if ((uint64_t)first >= file_rows || (uint64_t)last >= file_rows)
            return bad_row(t, table_row + r, "the group reaches beyond its file; rows count from 0 and the last one belongs to it", first,
                           last, file, err);
        if (last < first)
            return bad_row(t, table_row + r, "the last row comes before the first", first, last, file, err);
        if (is_last && t->groups) {
            uint64_t begin = fby__dataset_facts(ds, file).first_row;
            t->groups[table_row + r] = (group){.begin = begin + (uint64_t)first, .end = begin + (uint64_t)last + 1};
        }
    }
    return FBY_OK;
}

static fby_status visit_values(const table_reading *t, const local *w, const fby__scan_rows *rows, const fby__read_column *c,
                               const fby__panel *panel, const char *constant, fby_error *err)
{
    for (uint64_t r = 0; r < rows->n; r++) {
        if (w->file[r] == FBY__NONE)
            continue;
        fby__value v = fby__value_at(c, panel, constant, r);
        FBY__TRY(t->visit(t->user, rows->block->first_row + rows->row + r,
                          fby__dataset_facts(t->base->ds, w->file[r]).first_row + (uint64_t)w->first[r], &v, err));
    }
    return FBY_OK;
}

static void hash_keys(const table_reading *t, const fby__scan_rows *rows, const fby__read_column *c, const fby__panel *panel,
                      const char *constant)
{
    const uint64_t table_row = rows->block->first_row + rows->row;
    for (uint64_t r = 0; r < rows->n; r++) {
        const fby__value v = fby__value_at(c, panel, constant, r);
        t->groups[table_row + r].key = fby__key_hash(&v);
    }
}

static fby_status visit_column(void *user, void *memory, const fby__scan_rows *rows, uint32_t number, const fby__panel *panel,
                               const char *constant, fby_error *err)
{
    const table_reading *t = user;
    const fby__read_column *c = &t->columns[number];
    local *w = memory;
    if (t->role[number] == FILE_COLUMN)
        return note_files(t, w, rows, c, panel, constant, err);
    if (number == 0)
        FBY__TRY(note_files(t, w, rows, NULL, NULL, NULL, err));
    if (t->role[number] == VALUE_COLUMN)
        return visit_values(t, w, rows, c, panel, constant, err);
    if (t->role[number] == KEY_COLUMN) {
        hash_keys(t, rows, c, panel, constant);
        return FBY_OK;
    }
    return note_rows(t, w, rows, c, t->role[number] == LAST_COLUMN, panel, constant, err);
}

static fby_status add_column(table_reading *t, uint32_t role, const char *name, fby_error *err)
{
    fby__read_column *c = &t->columns[t->n_columns];
    fby_status status = fby__read_column_init(c, t->table, FBY__READ_VALUE, name, err);
    if (status == FBY_OK && role != FILE_COLUMN && c->layout.dtype != FBY_INT64 && c->layout.dtype != FBY_UINT64 &&
        c->layout.dtype != FBY_FLOAT64)
        status = fby__read_column_refuse(c, "a row number", err);
    if (status != FBY_OK)
        return fby__error_context(err, "the index table"), status;
    t->role[t->n_columns++] = role;
    return FBY_OK;
}

/* Read the table: its file and first columns, and either the last rows or the values. */
static fby_status read_table(table_reading *t, const fby__read_column *values, int n_threads, fby_error *err)
{
    const fby__group_table *names = &t->base->table;
    t->table = names->ds;
    FBY__TRY(files_init(&t->files, t->base, err));
    if (t->files.column)
        FBY__TRY(add_column(t, FILE_COLUMN, t->files.column, err));
    FBY__TRY(add_column(t, FIRST_COLUMN, names->first, err));
    if (!values)
        FBY__TRY(add_column(t, LAST_COLUMN, names->last, err));
    else
        FBY__TRY(fby__read_column_init(&t->columns[t->n_columns], t->table, values->as, values->in.path, err));
    if (values)
        t->role[t->n_columns++] = VALUE_COLUMN;
    if (t->check) {
        FBY__TRY(fby__key_check_init(t->check, t->base, err));
        t->columns[t->n_columns] = t->check->of_table;
        if (t->check->on)
            t->role[t->n_columns++] = KEY_COLUMN; /* the last: rows become groups before it */
    }
    return fby__read_columns(&(fby__column_reader){.ds = t->table,
                                                   .columns = t->columns,
                                                   .n_columns = t->n_columns,
                                                   .n_threads = n_threads,
                                                   .user = t,
                                                   .local_bytes = sizeof(local),
                                                   .column = visit_column,
                                                   .fini = local_fini},
                             err);
}

fby_status fby__group_table_values(const fby__sample_base *base, const fby__read_column *column, int n_threads, fby__group_value_fn visit,
                                   void *user, fby_error *err)
{
    table_reading t = {.base = base, .visit = visit, .user = user};
    fby_status status = read_table(&t, column, n_threads, err);
    files_fini(&t.files);
    return status;
}

/* ---- from the table to groups ---- */

static int by_begin(const void *a, const void *b)
{
    const group *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Those in the dataset, in order. */
static fby_status sort_groups(const table_reading *t, uint64_t *io_n, fby_error *err)
{
    const fby_dataset *ds = t->base->ds;
    group *g = t->groups;
    uint64_t n = 0;
    bool sorted = true;
    for (uint64_t i = 0; i < *io_n; i++)
        if (g[i].end > g[i].begin)
            g[n++] = g[i];
    for (uint64_t i = 1; i < n; i++)
        sorted &= g[i - 1].begin <= g[i].begin;
    if (!sorted)
        FBY__TRY(fby__sort(g, (size_t)n, sizeof *g, by_begin, err));
    for (uint64_t i = 1; i < n; i++) {
        if (g[i].begin >= g[i - 1].end)
            continue;
        uint32_t file = fby__dataset_block(ds, fby__block_of_row(ds, g[i].begin))->file;
        const fby__file_facts in = fby__dataset_facts(ds, file);
        const uint64_t row = in.first_row;
        return fby__fail(err, FBY_E_DATA, "the index table has groups that overlap: rows %llu to %llu and %llu to %llu of '%s'",
                         (unsigned long long)(g[i - 1].begin - row), (unsigned long long)(g[i - 1].end - 1 - row),
                         (unsigned long long)(g[i].begin - row), (unsigned long long)(g[i].end - 1 - row),
                         in.name ? in.name : "the data set");
    }
    *io_n = n;
    return FBY_OK;
}

static fby_status none_found(const table_reading *t, fby_error *err)
{
    const files *f = &t->files;
    fby__value name = fby__file_label(t->base->ds, NULL, 0);
    if (!f->column)
        return fby__fail(err, FBY_E_ARG, "the index table has no rows");
    if (f->by_position)
        return fby__fail(err, FBY_E_ARG, "no row of the index table is of a file of the data set: '%s' holds no place from 0 to %u",
                         f->column, fby__dataset_file_count(t->base->ds) - 1);
    return fby__fail(
        err, FBY_E_ARG,
        "no row of the index table is of a file of the data set: no value of '%s' is the name of a file, such as '%.*s'. Open the "
        "files by a pattern with {%s} in it, or give file as such a pattern",
        f->column, (int)fby__min_u64(name.n, 200), (const char *)name.text, f->column);
}

/* Where a block's groups begin, those between the table's, too. A cursor over the groups goes on from block to block. */
typedef struct cutting {
    const group *groups;
    uint64_t n, next; /* the first group that does not end before the block */
    uint32_t *begins; /* owned: of the block, row 0 not listed */
    uint16_t *counts; /* owned: of the starts, that of row 0 first: is it one of the table's? */
    size_t n_begins, cap_begins, cap_counts;
} cutting;

static fby_status cut(cutting *c, uint64_t row, bool in, fby_error *err)
{
    if (fby__grow((void **)&c->begins, &c->cap_begins, c->n_begins + 1, sizeof *c->begins) != 0 ||
        fby__grow((void **)&c->counts, &c->cap_counts, c->n_begins + 2, sizeof *c->counts) != 0)
        return fby__fail_nomem(err, "the groups");
    if (row) {
        c->begins[c->n_begins++] = (uint32_t)row;
        c->counts[c->n_begins] = in;
    } else {
        c->counts[0] = in;
    }
    return FBY_OK;
}

static fby_status cut_block(cutting *c, const fby__block *block, bool *out_goes_on, fby_error *err)
{
    uint64_t begin = block->first_row, end = begin + (block->row_end - block->row_begin);
    c->n_begins = 0;
    while (c->next < c->n && c->groups[c->next].end <= begin)
        c->next++;
    *out_goes_on = c->next < c->n && c->groups[c->next].begin < begin;
    FBY__TRY(cut(c, 0, *out_goes_on, err));
    for (uint64_t i = c->next; i < c->n && c->groups[i].begin < end; i++) {
        const group *g = &c->groups[i];
        if (g->begin >= begin)
            FBY__TRY(cut(c, g->begin - begin, true, err));
        if (g->end < end && (i + 1 == c->n || c->groups[i + 1].begin > g->end))
            FBY__TRY(cut(c, g->end - begin, false, err));
    }
    return FBY_OK;
}

/* Where the last group that begins in block b ends. Between the table's groups it may as well end with its block. */
static uint64_t end_of_last(const cutting *c, const fby__block *block)
{
    uint64_t begin = block->first_row, end = begin + (block->row_end - block->row_begin), lo = c->next, hi = c->n;
    while (lo < hi) { /* the first group that begins beyond the block */
        uint64_t mid = lo + (hi - lo) / 2;
        if (c->groups[mid].begin < end)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 && c->groups[lo - 1].end > end ? c->groups[lo - 1].end - begin : end - begin;
}

/* Both passes over the blocks: the first makes the base's groups, the second the choice. */
static fby_status cut_blocks(cutting *c, fby__sample_base *base, const fby_samples *s, fby__choice *choice, fby_error *err)
{
    const fby_dataset *ds = base->ds;
    c->next = 0;
    for (uint32_t b = 0; b < fby__dataset_block_count(ds); b++) {
        const fby__block *block = fby__dataset_block(ds, b);
        bool goes_on;
        if (block->row_end - block->row_begin > FBY__MAX_GROUP_BLOCK_ROWS)
            return fby__fail(err, FBY_E_UNSUPPORTED, "a block of %llu rows is more than the sample index holds",
                             (unsigned long long)(block->row_end - block->row_begin));
        if (block->row_end == block->row_begin)
            continue;
        FBY__TRY(cut_block(c, block, &goes_on, err));
        if (choice) {
            FBY__TRY(fby__choice_set(choice, s, b, c->counts + base->groups[b].skip, fby__samples_of_block(s, b), err));
            continue;
        }
        fby__block_groups *g = &base->groups[b];
        FBY__TRY(fby__groups_pack(g, c->begins, c->n_begins, err));
        g->skip = goes_on;
        g->last_end = end_of_last(c, block);
        base->hash = fby__hash_more(base->hash, g->frames, g->bytes);
        base->hash = fby__hash_more(base->hash, &g->last_end, sizeof g->last_end);
    }
    return FBY_OK;
}

static fby_status make_groups(fby__sample_base *base, const group *groups, uint64_t n, fby_samples **out, fby_error *err)
{
    static const fby__sample_view WHOLE = {0};
    uint32_t n_blocks = fby__dataset_block_count(base->ds);
    cutting c = {.groups = groups, .n = n};
    fby__choice *choice = NULL;
    fby_samples *all = NULL;
    base->groups = fby__calloc(n_blocks, sizeof *base->groups);
    fby_status status = base->groups ? cut_blocks(&c, base, NULL, NULL, err) : fby__fail_nomem(err, "the groups");
    if (status == FBY_OK)
        status = fby__samples_create(base, &WHOLE, NULL, &all, err);
    if (status == FBY_OK && !(choice = fby__choice_create(n_blocks)))
        status = fby__fail_nomem(err, "the groups");
    if (status == FBY_OK)
        status = cut_blocks(&c, base, all, choice, err);
    if (status == FBY_OK)
        status = fby__samples_choose(all, choice, out, err);
    else
        fby__choice_unref(choice);
    fby_samples_close(all);
    fby__free(c.begins);
    fby__free(c.counts);
    return status;
}

fby_status fby__samples_from_table(fby__sample_base *base, const fby_samples_opts *opts, fby_samples **out, fby_error *err)
{
    fby__key_check check = {0};
    table_reading t = {.base = base, .check = &check};
    uint64_t n = fby_dataset_rows(opts->table);
    t.groups = fby__calloc((size_t)n, sizeof *t.groups);
    fby_status status = t.groups ? read_table(&t, NULL, opts->n_threads, err) : fby__fail_nomem(err, "the index table");
    if (status == FBY_OK)
        status = sort_groups(&t, &n, err);
    if (status == FBY_OK && n == 0)
        status = none_found(&t, err);
    if (status == FBY_OK)
        status = fby__key_check_run(&check, base, t.groups, n, opts->n_threads, err);
    if (status == FBY_OK)
        status = make_groups(base, t.groups, n, out, err);
    files_fini(&t.files);
    fby__free(t.groups);
    return status;
}
