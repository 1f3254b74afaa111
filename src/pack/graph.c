/* The graph of a pack's tasks: which there are, with the files they read and write, and each of them run by itself. */
#include "base/checked.h"
#include "base/sized.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <string.h>

static uint64_t one(const fby__pack *p)
{
    (void)p;
    return 1;
}

/* In the order that they run in. */
static const struct {
    fby_pack_phase phase;
    const char *name;
    uint64_t (*count)(const fby__pack *p); /* of its tasks */
} PHASES[] = {{FBY_PACK_PLAN, "plan", one},
              {FBY_PACK_SCATTER, "scatter", fby__pack_scatter_count},
              {FBY_PACK_WRITE, "write", fby__pack_write_count},
              {FBY_PACK_VERIFY, "verify", fby__pack_verify_count},
              {FBY_PACK_FINISH, "finish", one}};
enum { N_PHASES = sizeof PHASES / sizeof *PHASES };

const char *fby_pack_phase_name(fby_pack_phase phase)
{
    for (size_t i = 0; i < N_PHASES; i++)
        if (PHASES[i].phase == phase)
            return PHASES[i].name;
    return NULL;
}

static uint64_t task_count(const fby__pack *p, fby_pack_phase phase)
{
    size_t i = 0;
    while (PHASES[i].phase != phase)
        i++;
    return PHASES[i].count(p);
}

/* ---- names of files ---- */

typedef struct name_list {
    char **names; /* owned, and each of them */
    size_t n, cap;
} name_list;

/* Takes the name over; NULL = there was no memory for it. */
static fby_status add_name(name_list *list, char *name, fby_error *err)
{
    if (!name || fby__grow((void **)&list->names, &list->cap, list->n + 1, sizeof *list->names) != 0) {
        fby__free(name);
        return fby__fail_nomem(err, "a pack");
    }
    list->names[list->n++] = name;
    return FBY_OK;
}

static void clear_names(name_list *list)
{
    while (list->n)
        fby__free(list->names[--list->n]);
}

static void free_names(name_list *list)
{
    clear_names(list);
    fby__free(list->names);
}

static fby_status add_in_work(name_list *list, const char *name, fby_error *err)
{
    return add_name(list, fby__format(".forebay-pack/%s", name), err);
}

/* Takes it over, too. */
static fby_status add_made_name(name_list *list, char *name, fby_error *err)
{
    const fby_status status = name ? add_in_work(list, name, err) : fby__fail_nomem(err, "a pack");
    fby__free(name);
    return status;
}

/* Files of the source that rows [begin, end) lie in, and the bytes of their blocks. */
static fby_status add_source(const fby__pack *p, uint64_t begin, uint64_t end, name_list *list, uint64_t *bytes, fby_error *err)
{
    uint32_t file = UINT32_MAX;
    const uint32_t last = fby__pack_source_block_of(p, end - 1);
    for (uint32_t b = fby__pack_source_block_of(p, begin); b <= last; b++) {
        const fby__block *block = fby__dataset_block(p->ds, b);
        const char *path = fby__dataset_file_path(p->ds, block->file);
        *bytes += block->stored_bytes;
        if (block->file != file && path)
            FBY__TRY(add_name(list, fby__strdup(path), err));
        file = block->file;
    }
    return FBY_OK;
}

/* ---- what a task is ---- */

static uint64_t rows_of_files(const fby__pack *p, uint64_t first, uint64_t last)
{
    return fby__pack_file_begin(p, last) - fby__pack_file_begin(p, first);
}

/* That it moves. */
static uint64_t task_rows(const fby__pack *p, fby_pack_phase phase, uint64_t k)
{
    uint64_t first, last;
    if (phase == FBY_PACK_SCATTER)
        return fby__pack_scatter_rows(p, (uint32_t)k);
    if (phase == FBY_PACK_WRITE) {
        fby__pack_write_files(p, k, &first, &last);
        return rows_of_files(p, first, last);
    }
    if (phase == FBY_PACK_VERIFY) {
        fby__pack_verify_files(p, k, &first, &last);
        return fby__pack_scatter_rows(p, (uint32_t)k) + rows_of_files(p, first, last);
    }
    return 0;
}

static fby_status describe_scatter(const fby__pack *p, fby_pack_task *t, name_list *in, name_list *out, fby_error *err)
{
    t->bytes_out = (uint64_t)((double)t->rows * (p->row_bytes + sizeof(uint32_t)));
    const uint64_t row = fby__pack_block_begin(p, fby__pack_scatter_begin(p, (uint32_t)t->k));
    FBY__TRY(add_source(p, row, row + t->rows, in, &t->bytes_in, err));
    return add_made_name(out, fby__pack_scatter_name(t->k), err);
}

static fby_status describe_verify(const fby__pack *p, fby_pack_task *t, name_list *in, name_list *out, fby_error *err)
{
    uint64_t first, last;
    const uint64_t row = fby__pack_block_begin(p, fby__pack_scatter_begin(p, (uint32_t)t->k));
    const uint64_t rows = fby__pack_scatter_rows(p, (uint32_t)t->k);
    if (rows)
        FBY__TRY(add_source(p, row, row + rows, in, &t->bytes_in, err));
    fby__pack_verify_files(p, t->k, &first, &last);
    t->bytes_in += (uint64_t)((double)(t->rows - rows) * p->row_bytes);
    for (; first < last; first++)
        FBY__TRY(add_in_work(in, fby__pack_file_name(p, first).text, err));
    return add_made_name(out, fby__pack_verify_name(t->k), err);
}

static fby_status describe_write(const fby__pack *p, fby_pack_task *t, name_list *in, name_list *out, fby_error *err)
{
    uint64_t first, last;
    fby__pack_write_files(p, t->k, &first, &last);
    t->bytes_out = (uint64_t)((double)t->rows * p->row_bytes);
    t->bytes_in = t->bytes_out + t->rows * sizeof(uint32_t);
    if (p->scattered) {
        FBY__TRY(add_in_work(in, "scatter-*", err));
    } else if (t->rows) {
        t->bytes_in = 0;
        FBY__TRY(add_source(p, fby__pack_file_begin(p, first), fby__pack_file_begin(p, last), in, &t->bytes_in, err));
    }
    for (; first < last; first++)
        FBY__TRY(add_in_work(out, fby__pack_file_name(p, first).text, err));
    return FBY_OK;
}

static fby_status describe(const fby__pack *p, fby_pack_task *t, name_list *in, name_list *out, fby_error *err)
{
    t->rows = task_rows(p, t->phase, t->k);
    if (t->phase == FBY_PACK_PLAN)
        return add_in_work(out, FBY__PACK_PLAN, err);
    FBY__TRY(add_in_work(in, FBY__PACK_PLAN, err));
    if (t->phase == FBY_PACK_SCATTER)
        return describe_scatter(p, t, in, out, err);
    if (t->phase == FBY_PACK_WRITE)
        return describe_write(p, t, in, out, err);
    if (t->phase == FBY_PACK_VERIFY)
        return describe_verify(p, t, in, out, err);
    FBY__TRY(add_in_work(in, "part-*", err));
    if (p->o->verify)
        FBY__TRY(add_in_work(in, "verify-*", err));
    FBY__TRY(add_name(out, fby__strdup("part-*"), err));
    return add_name(out, fby__strdup(FBY__PACK_MANIFEST), err);
}

/* What is agreed on, if anything is yet. */
static fby_status adopt(fby__pack *p, fby__pack_state *out, fby_error *err)
{
    if (fby__pack_in_memory(p))
        return fby__fail(err, FBY_E_UNSUPPORTED, "tasks of a table in memory: write it to a file first, which all of them can read");
    FBY__TRY(fby__pack_look(p, out, err));
    return fby__pack_adopt(p, *out, err);
}

static fby_status list_tasks(fby__pack *p, fby_pack_task_fn each, void *user, fby_error *err)
{
    fby__pack_state state;
    name_list in = {0}, out = {0};
    bool more = true;
    fby_status status = adopt(p, &state, err);
    for (size_t i = 0; i < N_PHASES; i++) {
        const uint64_t n = PHASES[i].count(p);
        for (uint64_t k = 0; status == FBY_OK && more && k < n; k++) {
            fby_pack_task t = {.size = sizeof t, .phase = PHASES[i].phase, .k = k, .n = n};
            status = describe(p, &t, &in, &out, err);
            t.inputs = (const char *const *)in.names;
            t.n_inputs = in.n;
            t.outputs = (const char *const *)out.names;
            t.n_outputs = out.n;
            if (status == FBY_OK)
                more = each(user, &t);
            clear_names(&in);
            clear_names(&out);
        }
    }
    free_names(&in);
    free_names(&out);
    return status;
}

fby_status fby_pack_tasks(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_pack_task_fn each, void *user, fby_error *err)
{
    fby__pack p;
    fby_pack_opts o = {.size = sizeof o};
    FBY__TRY(fby__pack_check_call(ds, to, opts, &o, err));
    if (!each)
        return fby__fail(err, FBY_E_ARG, "no function that is told the tasks");
    fby_status status = fby__pack_init(&p, ds, to, &o, true, err);
    if (status == FBY_OK)
        status = list_tasks(&p, each, user, err);
    fby__pack_fini(&p);
    return status;
}

/* ---- one of them ---- */

/* Each task lists a folder that has a file of each: of tasks that write little this would be most of their work. */
static bool is_worth_listing(const fby__pack *p, uint64_t bytes)
{
    const uint64_t names = p->n_files + fby__pack_scatter_count(p);
    return names <= 1000 || names <= bytes / 4096;
}

/* Removes what killed runs of this task left: each file may be as large as what the task writes. */
static fby_status remove_left(const fby__pack *p, fby_pack_phase phase, uint64_t k, fby_error *err)
{
    uint64_t first, last;
    if (!is_worth_listing(p, (uint64_t)((double)task_rows(p, phase, k) * p->row_bytes)))
        return FBY_OK;
    if (phase == FBY_PACK_WRITE) {
        fby__pack_write_files(p, k, &first, &last);
        fby__pack_remove_left(p, NULL, first, last);
        return FBY_OK;
    }
    char *name = phase == FBY_PACK_SCATTER ? fby__pack_scatter_name(k) : fby__pack_verify_name(k);
    if (!name)
        return fby__fail_nomem(err, "a pack");
    fby__pack_remove_left(p, name, 0, 0);
    fby__free(name);
    return FBY_OK;
}

static fby_status write_plan(fby__pack *p, fby_error *err)
{
    fby__pack_remove_left(p, FBY__PACK_PLAN, 0, 0);
    FBY__TRY(fby__pack_plan_write(p, err));
    return fby__pack_plan_read(p, err); /* another process may have been first */
}

/* Files [first, last) of the pack. */
static fby_status need_files(const fby__pack *p, uint64_t first, uint64_t last, fby_error *err)
{
    for (uint64_t k = 0, file = 0; k < fby__pack_write_count(p); k++) {
        uint64_t end;
        for (fby__pack_write_files(p, k, &file, &end); file < end; file++)
            if (file >= first && file < last && !fby__pack_has_file(p, file))
                return fby__fail(err, FBY_E_ARG, "file %llu of the pack in '%s' is not there: run task write:%llu first",
                                 (unsigned long long)file, p->to, (unsigned long long)k);
    }
    return FBY_OK;
}

static fby_status finish(fby__pack *p, fby__pack_state state, fby_error *err)
{
    if (state == FBY__PACK_UNFINISHED)
        FBY__TRY(need_files(p, 0, p->n_files, err));
    p->total = p->o->verify ? 2 * p->rows : 0;
    FBY__TRY(fby__pack_end(p, state == FBY__PACK_UNTIDY, err));
    if (state == FBY__PACK_UNTIDY)
        fby__pack_folder_tidy(p);
    return FBY_OK;
}

static fby_status run_locked(fby__pack *p, fby_pack_phase phase, uint64_t k, fby__pack_state state, fby_error *err)
{
    const uint64_t n = task_count(p, phase);
    if (phase == FBY_PACK_PLAN)
        return write_plan(p, err);
    p->resumed = state == FBY__PACK_UNTIDY;
    if (k >= n)
        return fby__fail(err, FBY_E_ARG, "there is no task %s:%llu: the plan in '%s' has %llu of this phase", fby_pack_phase_name(phase),
                         (unsigned long long)k, p->to, (unsigned long long)n);
    if (phase == FBY_PACK_FINISH)
        return finish(p, state, err);
    p->total = task_rows(p, phase, k);
    FBY__TRY(remove_left(p, phase, k, err));
    if (phase == FBY_PACK_VERIFY) {
        uint64_t first, last;
        fby__pack_verify_files(p, k, &first, &last);
        FBY__TRY(need_files(p, first, last, err));
        return fby__pack_verify_run(p, k, k + 1, err);
    }
    return fby__pack_crew_run(p, phase == FBY_PACK_SCATTER ? &fby__pack_scatter_phase : &fby__pack_write_phase, k, k + 1, err);
}

/* What a task that was finished already reports. */
static fby_status done_before(fby__pack *p, fby_pack_phase phase)
{
    p->resumed = true;
    if (phase == FBY_PACK_FINISH)
        p->written_bytes = fby__pack_written_bytes(p);
    if (phase == FBY_PACK_FINISH || phase == FBY_PACK_PLAN)
        fby__pack_folder_tidy(p); /* what one that was stopped at the very end has left; the folder of a plan that came late */
    return FBY_OK;
}

/* Is there a plan, as there has to be for all phases but the first? */
static fby_status find_plan(fby__pack *p, fby_pack_phase phase, fby__pack_state *out, fby_error *err)
{
    FBY__TRY(adopt(p, out, err));
    return *out != FBY__PACK_NOTHING || phase == FBY_PACK_PLAN
               ? FBY_OK
               : fby__fail(err, FBY_E_ARG, "'%s' holds no plan of a pack: run task plan:0 first", p->to);
}

static fby_status run_task(fby__pack *p, fby_pack_phase phase, uint64_t k, fby_error *err)
{
    fby__pack_state state;
    FBY__TRY(find_plan(p, phase, &state, err)); /* what is wrong is said before anyone is waited for */
    if (state == FBY__PACK_FINISHED)
        return done_before(p, phase);
    p->resumed = phase == FBY_PACK_PLAN && state != FBY__PACK_NOTHING;
    if (p->resumed)
        return FBY_OK;
    if (state == FBY__PACK_NOTHING) {
        FBY__TRY(fby__pack_attributes_find(p, err)); /* what is wrong with the source is said before there is a folder */
        FBY__TRY(fby__pack_make_folders(p, err));
    }
    const fby_status status = fby__pack_lock(p, phase == FBY_PACK_FINISH ? FBY__PACK_LAST : FBY__PACK_TOGETHER, err);
    FBY__TRY(find_plan(p, phase, &state, err)); /* since then another process may have finished this pack, or begun another one */
    if (state == FBY__PACK_FINISHED)
        return done_before(p, phase);
    return status == FBY_OK ? run_locked(p, phase, k, state, err) : status;
}

fby_status fby_pack_run_task(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_pack_phase phase, uint64_t k,
                             fby_pack_info *out, fby_error *err)
{
    fby__pack p;
    fby_pack_opts o = {.size = sizeof o};
    fby_pack_info info = {.size = sizeof info};
    FBY__TRY(fby__pack_check_call(ds, to, opts, &o, err));
    if (o.dry_run)
        return fby__fail(err, FBY_E_ARG, "dry_run is of a pack as a whole: list its tasks instead");
    if (!fby_pack_phase_name(phase) || ((phase == FBY_PACK_PLAN || phase == FBY_PACK_FINISH) && k != 0))
        return fby__fail(err, FBY_E_ARG, "there is no such task of a pack");
    fby_status status = fby__pack_init(&p, ds, to, &o, true, err);
    if (status == FBY_OK)
        status = run_task(&p, phase, k, err);
    if (status == FBY_OK)
        fby__pack_inform(&p, &info);
    fby__pack_fini(&p);
    if (status == FBY_OK && out)
        status = FBY__SIZED_OUT(fby_pack_info, rows_hash, &info, out, err);
    return status;
}
