/* The sample index: opening, counting, looking up. See samples.h. */
#include "base/checked.h"
#include "samples/samples_impl.h"

#include "base/alloc.h"
#include "base/sized.h"

#include <stdio.h>
#include <string.h>

/* ---- life ---- */

void fby__sample_base_clear(fby__sample_base *base)
{
    for (uint32_t b = 0; base->groups && b < fby__dataset_block_count(base->ds); b++)
        fby__free(base->groups[b].frames);
    fby__free(base->groups);
    fby__free(base->stretches);
    fby__free(atomic_load_explicit(&base->shared_names, memory_order_relaxed));
    fby__free(atomic_load_explicit(&base->choice_note, memory_order_relaxed));
    base->groups = NULL;
    base->stretches = NULL;
    base->n_stretches = base->cap_stretches = 0;
    base->longest_stretch = base->longest_series = 0;
    fby__notes_fini(&base->notes);
    base->dropped = (fby__dropped){0};
    base->scattered = (fby__scattered){0};
}

static void base_unref(fby__sample_base *base)
{
    /* acq_rel: the last holder sees every write of the others before it frees */
    if (!base || atomic_fetch_sub_explicit(&base->refs, 1, memory_order_acq_rel) != 1)
        return;
    fby__sample_base_clear(base);
    fby_dataset_close(base->table.ds);
    fby__free(base->table.file);
    fby__free(base->table.first);
    fby__free(base->table.last);
    fby__free(base->key);
    for (size_t i = 0; i < base->n_more_keys; i++)
        fby__free(base->more_keys[i]);
    fby__free((void *)base->more_keys);
    fby_dataset_close(base->ds);
    fby__free(base);
}

fby_samples *fby_samples_ref(fby_samples *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void fby_samples_close(fby_samples *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    base_unref(s->base);
    fby__free(s->first);
    fby__free(s->runs);
    fby__free(s->run_at);
    fby__free(s->file_in);
    fby__choice_unref(s->choice);
    fby__draw_destroy(s->draw);
    fby__free(s);
}

/* A copy of a text that may be NULL; false when there is no memory for it. */
static bool copy_text(const char *text, char **out) { return !text || (*out = fby__strdup(text)); }

static bool copy_more_keys(const fby_samples_opts *opts, fby__sample_base *base)
{
    if (opts->n_more_keys == 0)
        return true;
    base->more_keys = fby__calloc(opts->n_more_keys, sizeof *base->more_keys);
    base->n_more_keys = base->more_keys ? opts->n_more_keys : 0;
    bool ok = base->more_keys != NULL;
    for (size_t i = 0; ok && i < opts->n_more_keys; i++)
        ok = copy_text(opts->more_keys[i], &base->more_keys[i]);
    return ok;
}

static fby__sample_base *create_base(fby_dataset *ds, const fby_samples_opts *opts)
{
    fby__sample_base *base = fby__calloc(1, sizeof *base);
    if (!base)
        return NULL;
    atomic_init(&base->refs, 1);
    base->ds = fby_dataset_ref(ds);
    base->kind = opts->kind;
    base->length = opts->kind == FBY_SAMPLES_WINDOWS ? opts->input + opts->output : 0;
    base->stride = opts->stride ? opts->stride : 1;
    base->target = opts->output ? opts->input : base->length - (base->length > 0);
    base->table.ds = opts->table ? fby_dataset_ref(opts->table) : NULL;
    base->table.by_position = opts->file_by_position;
    if (copy_text(opts->key, &base->key) && copy_more_keys(opts, base) && copy_text(opts->file, &base->table.file) &&
        copy_text(opts->first, &base->table.first) && copy_text(opts->last, &base->table.last))
        return base;
    base_unref(base);
    return NULL;
}

/* ---- counts ---- */

static fby_status count_rows(fby_samples *s, fby_error *err)
{
    (void)err;
    uint32_t n = fby__dataset_block_count(s->base->ds);
    for (uint32_t b = 0; b < n; b++) {
        const fby__block *block = fby__dataset_block(s->base->ds, b);
        bool in = !s->file_in || s->file_in[block->file];
        s->first[b + 1] = s->first[b] + (in ? block->row_end - block->row_begin : 0);
    }
    s->max_rows = 1;
    return FBY_OK;
}

static fby_status count_groups(fby_samples *s, fby_error *err)
{
    (void)err;
    uint32_t n = fby__dataset_block_count(s->base->ds);
    for (uint32_t b = 0; b < n; b++) {
        const fby__block_groups *g = &s->base->groups[b];
        bool in = !s->file_in || s->file_in[fby__dataset_block(s->base->ds, b)->file];
        s->first[b + 1] = s->first[b] + (in ? g->n - g->skip : 0);
    }
    return FBY_OK;
}

static void longest_group(fby_samples *s)
{
    s->max_rows = 1;
    for (uint32_t b = 0; b < fby__dataset_block_count(s->base->ds); b++)
        for (uint64_t i = 0; i < fby__samples_of_block(s, b); i++) {
            uint64_t row, rows;
            fby__samples_at(s, b, i, &row, &rows);
            s->max_rows = fby__max_u64(s->max_rows, rows);
        }
}

/* From the numbers of the view to those of its choice. A choice of everything is none. */
static void count_chosen(fby_samples *s)
{
    uint64_t before = 0;
    bool any = false;
    for (uint32_t b = 0; s->choice && b < s->choice->n_blocks; b++) {
        const fby__chosen *c = &s->choice->blocks[b];
        uint64_t in_view = s->first[b + 1] - before;
        before = s->first[b + 1];
        s->first[b + 1] = s->first[b] + (c->some && in_view ? c->n : in_view);
        any |= c->some && in_view;
    }
    if (any)
        return;
    fby__choice_unref(s->choice);
    s->choice = NULL;
}

static void identify(fby_samples *s)
{
    uint32_t n = fby__dataset_block_count(s->base->ds);
    const char *dataset = fby_dataset_identity(s->base->ds);
    if (s->base->kind == FBY_SAMPLES_ROWS && !s->file_in && !s->choice) {
        memcpy(s->identity, dataset, sizeof s->identity);
        return;
    }
    double part[2] = {s->from, s->to};
    fby__hash128 h = fby__hash_more(s->base->hash, dataset, strlen(dataset));
    h = fby__hash_more(h, part, sizeof part);
    if (s->at_target)
        h = fby__hash_more(h, &s->base->target, sizeof s->base->target);
    h = fby__hash_more(h, s->first, ((size_t)n + 1) * sizeof *s->first);
    if (s->choice)
        h = fby__choice_hash(h, s->choice);
    fby__hash_text(h, s->identity);
}

static fby_status count_samples(fby_samples *s, fby_error *err)
{
    static fby_status (*const COUNT[])(fby_samples *, fby_error *) = {count_rows, fby__samples_windows, count_groups};
    s->first = fby__calloc((size_t)fby__dataset_block_count(s->base->ds) + 1, sizeof *s->first);
    if (!s->first)
        return fby__fail_nomem(err, "the samples");
    FBY__TRY(COUNT[s->base->kind](s, err));
    count_chosen(s);
    if (s->base->kind == FBY_SAMPLES_GROUPS)
        longest_group(s);
    identify(s);
    return FBY_OK;
}

fby_status fby__samples_create(fby__sample_base *base, const fby__sample_view *view, fby__choice *choice, fby_samples **out, fby_error *err)
{
    size_t n_files = (size_t)fby_dataset_file_count(base->ds);
    fby_samples *s = fby__calloc(1, sizeof *s);
    fby_status status = s ? FBY_OK : fby__fail_nomem(err, "the samples");
    if (!s) {
        fby__choice_unref(choice);
        return status;
    }
    atomic_init(&s->refs, 1);
    atomic_fetch_add_explicit(&base->refs, 1, memory_order_relaxed);
    s->base = base;
    s->choice = choice;
    s->is_time_split = view->is_time_split;
    s->at_target = view->at_target;
    s->from = view->from;
    s->to = view->to;
    if (view->file_in && !(s->file_in = fby__malloc(n_files * sizeof *s->file_in)))
        status = fby__fail_nomem(err, "the samples");
    else if (view->file_in)
        memcpy(s->file_in, view->file_in, n_files * sizeof *s->file_in);
    if (status == FBY_OK)
        status = count_samples(s, err);
    if (status != FBY_OK)
        fby_samples_close(s);
    else
        *out = s;
    return status;
}

fby__sample_view fby__samples_view(const fby_samples *s)
{
    return (fby__sample_view){s->file_in, s->is_time_split, s->at_target, s->from, s->to};
}

fby_status fby__samples_choose(const fby_samples *s, fby__choice *choice, fby_samples **out, fby_error *err)
{
    fby__sample_view view = fby__samples_view(s);
    return fby__samples_create(s->base, &view, choice, out, err);
}

fby_status fby__samples_refuse_drawn(const fby_samples *s, const char *what, fby_error *err)
{
    if (!s->draw)
        return FBY_OK;
    return fby__fail(err, FBY_E_ARG, "%s: these samples are drawn anew in every epoch (each_epoch): do it before they are drawn", what);
}

/* ---- open ---- */

static fby_status check_options(const fby_samples_opts *o, fby_error *err)
{
    uint64_t length;
    if ((unsigned)o->kind > FBY_SAMPLES_GROUPS)
        return fby__fail(err, FBY_E_ARG, "unknown kind of samples");
    bool windows = o->kind == FBY_SAMPLES_WINDOWS;
    if (!windows && (o->input || o->output || o->stride || o->time || o->step || o->n_drop_missing))
        return fby__fail(err, FBY_E_ARG, "input, output, stride, time, step and drop_missing are about windows");
    if (windows && (!fby__add_u64_checked(o->input, o->output, &length) || length == 0))
        return fby__fail(err, FBY_E_ARG, "a window has at least one row: give input, output or both");
    if (o->kind == FBY_SAMPLES_GROUPS && !o->key && !o->table && !o->rows)
        return fby__fail(err, FBY_E_ARG, "groups need the column of their key, their number of rows, or an index table");
    if (o->rows && (o->kind != FBY_SAMPLES_GROUPS || o->key || o->table))
        return fby__fail(err, FBY_E_ARG, "rows is about groups that have neither a key nor an index table");
    if (o->n_more_keys && (!o->more_keys || !o->key || o->table || o->n_more_keys >= FBY_MAX_KEYS))
        return fby__fail(err, FBY_E_ARG, "a key of several columns has 2 to %d of them, and no index table", FBY_MAX_KEYS);
    if (!o->table && (o->file || o->first || o->last || o->file_by_position))
        return fby__fail(err, FBY_E_ARG, "file, first and last name columns of an index table: give the table");
    if (o->table && o->kind != FBY_SAMPLES_GROUPS)
        return fby__fail(err, FBY_E_ARG, "an index table is about groups");
    if (o->table && (!o->first || !o->last))
        return fby__fail(err, FBY_E_ARG, "an index table needs first and last: the columns with the first and the last row of each group");
    if (o->kind == FBY_SAMPLES_ROWS && o->key)
        return fby__fail(err, FBY_E_ARG, "rows have no key");
    if (o->step && !o->time)
        return fby__fail(err, FBY_E_ARG, "a step needs the column of the time");
    if (o->step < 0)
        return fby__fail(err, FBY_E_ARG, "the step of the time must be above 0");
    if (o->n_drop_missing && !o->drop_missing)
        return fby__fail(err, FBY_E_ARG, "drop_missing is NULL");
    return FBY_OK;
}

static fby__hash128 hash_text(fby__hash128 h, const char *text)
{
    size_t n = text ? strlen(text) + 1 : 0;
    h = fby__hash_more(h, &n, sizeof n);
    return n ? fby__hash_more(h, text, n) : h;
}

static fby__hash128 hash_options(const fby_samples_opts *o, const fby__sample_base *base)
{
    uint64_t numbers[] = {(uint64_t)o->kind, base->length, base->stride, (uint64_t)o->step, o->n_drop_missing};
    fby__hash128 h = fby__hash(numbers, sizeof numbers);
    h = hash_text(hash_text(h, o->key), o->time);
    for (size_t i = 0; i < o->n_drop_missing; i++)
        h = hash_text(h, o->drop_missing[i]);
    for (size_t i = 0; i < o->n_more_keys; i++)
        h = hash_text(h, o->more_keys[i]);
    return o->rows ? fby__hash_more(h, &o->rows, sizeof o->rows) : h;
}

static fby_status no_window(const fby__sample_base *base, const fby_samples_opts *o, fby_error *err)
{
    if (o->time && base->longest_series <= 1 && fby_dataset_rows(base->ds) > 1)
        return fby__step_never_fits(base, o, err);
    if (base->key && base->longest_series <= 1 && fby_dataset_rows(base->ds) > 1)
        return fby__fail(
            err, FBY_E_ARG,
            "no window of %llu rows fits, since the key '%s' changes from row to row: name the column that is the same in all rows "
            "of a series, whose rows follow one another",
            (unsigned long long)base->length, base->key);
    return fby__fail(err, FBY_E_ARG,
                     "no window of %llu rows fits: the longest series has %llu rows, the longest run of rows without a "
                     "missing value %llu",
                     (unsigned long long)base->length, (unsigned long long)base->longest_series, (unsigned long long)base->longest_stretch);
}

/* What the data say, from disk or from the data. */
static fby_status find_samples(fby__sample_base *base, const fby_samples_opts *opts, fby_error *err)
{
    bool found = false;
    FBY__TRY(fby__samples_load(base, &found, err));
    if (found)
        return FBY_OK;
    FBY__TRY(fby__samples_scan(base, opts, err));
    if (base->kind != FBY_SAMPLES_WINDOWS || base->longest_stretch >= base->length) /* what is refused is looked at again */
        fby__samples_store(base);
    return FBY_OK;
}

/* *out: of a table, the samples as well. */
static fby_status make_base(fby__sample_base *base, const fby_samples_opts *opts, fby_samples **out, fby_error *err)
{
    if (opts->table)
        return fby__samples_from_table(base, opts, out, err);
    if (opts->rows)
        return fby__groups_of_rows(base, opts->rows, err);
    if (opts->key || opts->time || opts->n_drop_missing)
        return find_samples(base, opts, err);
    return opts->kind == FBY_SAMPLES_WINDOWS ? fby__stretches_of_files(base, err) : FBY_OK;
}

static fby_status open_samples(fby_dataset *ds, const fby_samples_opts *opts, fby_samples **out, fby_error *err)
{
    static const fby__sample_view WHOLE = {0};
    fby__sample_base *base = create_base(ds, opts);
    if (!base)
        return fby__fail_nomem(err, "the samples");
    base->hash = hash_options(opts, base);
    fby_samples *s = NULL;
    fby_status status = fby__shuffled_refuse(base, opts, err);
    if (status == FBY_OK)
        status = make_base(base, opts, &s, err);
    if (status == FBY_OK)
        status = fby__dropped_note(base, err);
    if (status == FBY_OK)
        status = fby__scattered_note(base, err);
    if (status == FBY_OK)
        status = fby__shuffled_note(base, err);
    if (status == FBY_OK)
        status = fby__untimed_note(base, opts, err);
    if (status == FBY_OK && !s)
        status = fby__samples_create(base, &WHOLE, NULL, &s, err);
    if (status == FBY_OK && opts->kind == FBY_SAMPLES_WINDOWS && fby_samples_count(s) == 0)
        status = no_window(base, opts, err);
    base_unref(base);
    if (status != FBY_OK)
        fby_samples_close(s);
    else
        *out = s;
    return status;
}

/* What was looked for in ds: `what` is found or chosen. */
static fby_status end_scope(fby__account_scope *scope, const fby_dataset *ds, const char *what, fby_status status, fby_error *err)
{
    char text[400];
    const char *path = fby__dataset_file_path(ds, 0);
    (void)snprintf(text, sizeof text, "'%.300s'%s: %s", path ? path : "(memory)", fby_dataset_file_count(ds) > 1 ? " and the others" : "",
                   what);
    return fby__account_scope_end(scope, status, text, err);
}

fby_status fby_samples_open(fby_dataset *ds, const fby_samples_opts *given, fby_samples **out, fby_error *err)
{
    fby_samples_opts opts;
    FBY__TRY(FBY__SIZED_IN(fby_samples_opts, output, given, &opts, err));
    if (opts.step_text)
        FBY__TRY(fby__step_from_text(ds, &opts, err));
    FBY__TRY(check_options(&opts, err));
    if (opts.kind == FBY_SAMPLES_ROWS) /* as many as the blocks have: nothing is looked for */
        return open_samples(ds, &opts, out, err);
    fby__account *account;
    fby__account_scope scope;
    FBY__TRY(fby__dataset_account(ds, &account, err));
    fby__account_scope_begin(&scope, account);
    return end_scope(&scope, ds, "what is found", open_samples(ds, &opts, out, err), err);
}

fby_status fby__samples_choosing_begin(fby__account_scope *scope, const fby_samples *s, fby_error *err)
{
    fby__account *account;
    FBY__TRY(fby__dataset_account(s->base->ds, &account, err));
    fby__account_charge(account, fby__samples_memory_bytes(s));
    fby__account_scope_begin(scope, account);
    return FBY_OK;
}

fby_status fby__samples_choosing_end(fby__account_scope *scope, const fby_samples *s, fby_status status, fby_error *err)
{
    return end_scope(scope, s->base->ds, "what is chosen of its samples", status, err);
}

fby_status fby__samples_rows(fby_dataset *ds, fby_samples **out, fby_error *err)
{
    fby_samples_opts rows = {.size = sizeof rows, .kind = FBY_SAMPLES_ROWS};
    return fby_samples_open(ds, &rows, out, err);
}

/* ---- looking ---- */

uint64_t fby_samples_count(const fby_samples *s)
{
    return s->draw ? fby__draw_count(s->draw) : s->first[fby__dataset_block_count(s->base->ds)];
}
fby_sample_kind fby_samples_kind(const fby_samples *s) { return s->base->kind; }
uint64_t fby_samples_max_rows(const fby_samples *s) { return s->max_rows; }
const char *fby_samples_note(const fby_samples *s, size_t i)
{
    const fby__sample_base *base = s->base;
    return i == base->notes.n ? atomic_load_explicit(&base->choice_note, memory_order_acquire) : fby__notes_at(&base->notes, i);
}
uint64_t fby_samples_files_dropped(const fby_samples *s) { return s->base->dropped.files; }
const fby_dataset *fby__samples_dataset(const fby_samples *s) { return s->base->ds; }
bool fby__samples_group_by(const fby_samples *s, const char *column)
{
    const fby__sample_base *base = s->base;
    if (base->kind != FBY_SAMPLES_GROUPS || base->table.ds || !base->key)
        return false;
    bool is_key = strcmp(base->key, column) == 0;
    for (size_t i = 0; i < base->n_more_keys; i++)
        is_key |= strcmp(base->more_keys[i], column) == 0;
    return is_key;
}
const char *fby__samples_identity(const fby_samples *s) { return s->identity; }
uint64_t fby__samples_of_block(const fby_samples *s, uint32_t b) { return s->first[b + 1] - s->first[b]; }
const uint64_t *fby__samples_first(const fby_samples *s) { return s->first; }

/* The run that holds window i of a block. */
static const fby__start_run *run_of(const fby_samples *s, uint32_t block, uint64_t i)
{
    const fby__start_run *run = &s->runs[s->run_at[block]];
    size_t lo = 0, hi = s->run_at[block + 1] - s->run_at[block];
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (run[mid].before <= i)
            lo = mid;
        else
            hi = mid;
    }
    return &run[lo];
}

void fby__samples_at(const fby_samples *s, uint32_t block, uint64_t i, uint64_t *out_row, uint64_t *out_rows)
{
    const fby__sample_base *base = s->base;
    if (s->choice && s->choice->blocks[block].some)
        i = fby__chosen_at(&s->choice->blocks[block], i);
    *out_row = i;
    *out_rows = 1;
    if (base->kind == FBY_SAMPLES_WINDOWS) {
        const fby__start_run *run = run_of(s, block, i);
        *out_row = run->row + (i - run->before) * base->stride;
        *out_rows = base->length;
    } else if (base->kind == FBY_SAMPLES_GROUPS) {
        const fby__block_groups *g = &base->groups[block];
        i += g->skip;
        *out_row = fby__group_start(g, i);
        *out_rows = (i + 1 < g->n ? fby__group_start(g, i + 1) : g->last_end) - *out_row;
    }
}

bool fby__samples_are_rows(const fby_samples *s, uint32_t block)
{
    return s->base->kind == FBY_SAMPLES_ROWS && !(s->choice && s->choice->blocks[block].some);
}

bool fby__samples_are_all_rows(const fby_samples *s) { return s->base->kind == FBY_SAMPLES_ROWS && !s->choice; }

uint64_t fby__samples_from(const fby_samples *s, uint32_t block, uint64_t row)
{
    uint64_t lo = 0, hi = fby__samples_of_block(s, block), at, rows;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        fby__samples_at(s, block, mid, &at, &rows);
        if (at < row)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void fby__samples_range(const fby_samples *s, uint32_t block, uint64_t lo, uint64_t hi, uint64_t *out_begin, uint64_t *out_end)
{
    uint64_t row, rows;
    fby__samples_at(s, block, lo, out_begin, &rows);
    fby__samples_at(s, block, hi - 1, &row, &rows);
    *out_end = row + rows;
}

/* The starts of a view's windows lie in runs: the rows of a whole run at once, when its windows touch. */
static uint64_t rows_of_run(const fby_samples *s, uint32_t block, uint64_t lo, uint64_t hi, uint64_t gap, uint64_t *out_begin,
                            uint64_t *out_end)
{
    const fby__start_run *run = run_of(s, block, lo), *end = &s->runs[s->run_at[block + 1]];
    uint64_t n = 1, stop = run + 1 < end ? fby__min_u64(hi, run[1].before) : hi;
    if (s->base->stride <= s->base->length + gap)
        n = stop - lo;
    *out_begin = run->row + (lo - run->before) * s->base->stride;
    *out_end = *out_begin + (n - 1) * s->base->stride + s->base->length;
    return n;
}

/* The rows of sample lo of a block, and of those after it that are known to touch it; how many samples that is. */
static uint64_t rows_from(const fby_samples *s, uint32_t block, uint64_t lo, uint64_t hi, uint64_t gap, uint64_t *out_begin,
                          uint64_t *out_end)
{
    if (s->choice && s->choice->blocks[block].some) {
        uint64_t rows;
        fby__samples_at(s, block, lo, out_begin, &rows);
        *out_end = *out_begin + rows;
        return 1;
    }
    if (s->base->kind == FBY_SAMPLES_WINDOWS)
        return rows_of_run(s, block, lo, hi, gap, out_begin, out_end);
    fby__samples_range(s, block, lo, hi, out_begin, out_end); /* rows, or groups without a gap between them */
    return hi - lo;
}

bool fby__samples_next_span(const fby_samples *s, uint32_t block, uint64_t *io_lo, uint64_t hi, uint64_t gap, uint64_t *out_begin,
                            uint64_t *out_end)
{
    uint64_t begin, end;
    if (*io_lo >= hi)
        return false;
    *io_lo += rows_from(s, block, *io_lo, hi, gap, out_begin, out_end);
    while (*io_lo < hi) {
        uint64_t n = rows_from(s, block, *io_lo, hi, gap, &begin, &end);
        if (begin > *out_end && begin - *out_end > gap)
            break;
        *out_end = fby__max_u64(*out_end, end);
        *io_lo += n;
    }
    return true;
}

fby_status fby_samples_get(const fby_samples *s, uint64_t i, uint64_t *out_first_row, uint64_t *out_rows, fby_error *err)
{
    uint32_t lo = 0, hi = fby__dataset_block_count(s->base->ds);
    if (i >= fby_samples_count(s))
        return fby__fail(err, FBY_E_ARG, "sample %llu of %llu", (unsigned long long)i, (unsigned long long)fby_samples_count(s));
    if (s->draw)
        fby__samples_drawn(s, 0, &i, 1, &i);
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->first[mid] <= i)
            lo = mid;
        else
            hi = mid;
    }
    fby__samples_at(s, lo, i - s->first[lo], out_first_row, out_rows);
    *out_first_row += fby__dataset_block(s->base->ds, lo)->first_row;
    return FBY_OK;
}

size_t fby__samples_memory_bytes(const fby_samples *s)
{
    const fby__sample_base *base = s->base;
    size_t n = fby__dataset_block_count(base->ds);
    size_t bytes = sizeof *s + sizeof *base + (n + 1) * sizeof *s->first + s->cap_runs * sizeof *s->runs +
                   base->cap_stretches * sizeof *base->stretches;
    bytes += s->run_at ? (n + 1) * sizeof *s->run_at : 0;
    bytes += s->file_in ? (size_t)fby_dataset_file_count(base->ds) : 0;
    bytes += s->choice ? fby__choice_memory_bytes(s->choice) : 0;
    bytes += s->draw ? fby__draw_memory_bytes(s->draw) : 0;
    for (size_t b = 0; base->groups && b < n; b++)
        bytes += sizeof *base->groups + (base->groups[b].frames ? fby__alloc_bytes(base->groups[b].bytes) : 0);
    return bytes;
}
