/* Reads of blocks: where they end, panels that are placed again, errors; with engines and without. */
#include "dataset/dataset_fixture.h"
#include "read/scan.h"

#include <pthread.h>

#define PANELS 2

/* A sink with memory of its own. */
typedef struct probe {
    fby__reader reader;
    fby__read read;
    fby__task task;
    fby__panel panels[PANELS];
    fby__slab memory[PANELS];
    uint32_t numbers[PANELS];
    uint64_t capacity, most; /* strings: what they get at first, and at most */
    bool asks;               /* the sink whether there is room for what decoding allocates */
    bool gives;              /* and it says yes */
    _Atomic uint64_t asked;  /* so many bytes */
    bool exhausts;           /* panels are placed when their turn comes, and then nothing is left in the account */
    uint64_t taken;          /* by that */
    uint32_t n_placed;
    char thread[16]; /* that done() ran on */
    fby_error error;
    bool lacks_room;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done;
    bool apart; /* begins on this thread, which is none of the pool's */
} probe;

static probe *probe_of(fby__read *read) { return FBY__TASK_OWNER(read, probe, read); }

static fby__grant place(fby__read *read, uint32_t i, uint64_t capacity, fby_error *err)
{
    probe *p = probe_of(read);
    const fby__panel_layout *layout = &read->reader->panels[i].layout;
    size_t bytes;
    if (capacity > p->most) {
        (void)fby__read_refuse(read->reader, read->block, fby__read_panel_name(read->reader, i), false, capacity, 0, 0, err);
        return FBY__NO_ROOM;
    }
    p->n_placed++;
    fby__slab_free(read->reader->account, &p->memory[i]);
    assert_int_equal(fby__panel_bytes(layout, read->hi - read->lo, capacity, &bytes, err), FBY_OK);
    fby__account_discharge(read->reader->account, p->taken); /* it fits */
    assert_true(fby__slab_reserve(read->reader->account, bytes, &p->memory[i]));
    fby__account_charge(read->reader->account, p->taken);
    assert_int_equal(fby__slab_map(read->reader->account, &p->memory[i], err), FBY_OK);
    fby__panel_place(layout, read->hi - read->lo, capacity, p->memory[i].data, &read->panels[i]);
    if (p->exhausts && p->taken == 0)
        fby__account_charge(read->reader->account, p->taken = (uint64_t)1 << 30);
    return FBY__GRANTED;
}

static fby_status reserve(fby__read *read, fby_error *err)
{
    for (uint32_t i = 0; i < read->reader->n_panels; i++)
        read->panels[i] = (fby__panel){0};
    if (probe_of(read)->exhausts)
        return FBY_OK;
    for (uint32_t i = 0; i < read->reader->n_panels; i++)
        if (place(read, i, read->reader->panels[i].layout.kind == FBY__PANEL_DENSE ? 0 : probe_of(read)->capacity, err) != FBY__GRANTED)
            return err->code;
    return FBY_OK;
}

static void done(fby__read *read, const fby_error *error)
{
    probe *p = probe_of(read);
    pthread_mutex_lock(&p->lock);
    assert_int_equal(pthread_getname_np(pthread_self(), p->thread, sizeof p->thread), 0);
    p->error = error ? *error : (fby_error){0};
    p->lacks_room = error && read->lacks_room;
    p->is_done = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static bool room(fby__read *read, size_t bytes)
{
    probe *p = probe_of(read);
    p->asked += bytes;
    if (p->gives)
        fby__account_charge(read->reader->account, bytes);
    return p->gives;
}

static const fby__sink SINK = {.reserve = reserve, .place = place, .done = done, .room = room};

static void begin_task(fby__task *task, int worker) { fby__read_begin(&FBY__TASK_OWNER(task, probe, task)->read, worker); }

typedef struct wanted {
    fby_dataset *ds;
    const char *path[PANELS];
    fby__panel_layout layout[PANELS];
    fby__panel_column column[PANELS];
    fby__dataset_column in[PANELS];
    fby__read_panel panels[PANELS];
    uint32_t numbers[PANELS];
} wanted;

static void want(wanted *w, uint32_t i, const char *path, fby__panel_kind kind, fby_dtype dtype, uint32_t width)
{
    fby_error err;
    assert_int_equal(fby__dataset_resolve(w->ds, path, &w->in[i], &err), FBY_OK);
    w->column[i] = (fby__panel_column){.path = path, .width = width, .missing = FBY__MISSING_FILL};
    w->numbers[i] = i;
    w->panels[i] = (fby__read_panel){.layout = {.kind = kind, .dtype = dtype, .n_columns = 1, .width = width, .columns = &w->column[i]},
                                     .column = &w->numbers[i]};
}

/* Reads block b with an engine of that kind, or without one (FBY__IO_KIND_COUNT), and waits. */
static fby_status read_block(probe *p, const wanted *w, uint32_t n, uint32_t b, fby__io_kind kind)
{
    fby__account *account = NULL;
    fby__pool *pool = NULL;
    fby__io *io = NULL;
    fby_error err;
    const fby__block *block = fby__dataset_block(w->ds, b);
    assert_int_equal(fby__account_open((uint64_t)1 << 30, &account, &err), FBY_OK);
    if (kind != FBY__IO_KIND_COUNT) {
        assert_int_equal(fby__io_create(&(fby__io_opts){.kind = kind}, &io, &err), FBY_OK);
        assert_int_equal(fby__pool_create(2, "reads", FBY__STACK_OWN, &pool, &err), FBY_OK);
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->is_done = false;
    p->reader = (fby__reader){.ds = w->ds,
                              .columns = w->in,
                              .n_columns = n,
                              .panels = w->panels,
                              .n_panels = n,
                              .n_workers = 2,
                              .pool = pool,
                              .io = io,
                              .asks_sink = p->asks,
                              .account = account};
    assert_int_equal(fby__reader_open(&p->reader, &err), FBY_OK);
    assert_int_equal(fby__read_init(&p->read, &p->reader, &err), FBY_OK);
    p->read.sink = &SINK;
    p->read.panels = p->panels;
    p->read.block = b;
    p->read.hi = block->row_end - block->row_begin;
    p->task = (fby__task){.run = begin_task};
    if (pool && p->apart)
        fby__read_begin(&p->read, FBY__NO_WORKER);
    else if (pool)
        fby__pool_submit(pool, &p->task);
    else
        begin_task(&p->task, 0);
    pthread_mutex_lock(&p->lock);
    while (!p->is_done)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    fby__pool_destroy(pool);
    fby__io_destroy(io);
    fby__account_discharge(account, p->taken);
    return p->error.code;
}

static void finish(probe *p)
{
    fby__account *account = p->reader.account;
    for (int i = 0; i < PANELS; i++)
        fby__slab_free(account, &p->memory[i]);
    fby__file_unref(p->read.mapped);
    fby__read_fini(&p->read);
    fby__reader_close(&p->reader);
    fby__account_stats stats;
    fby__account_retire(account);
    fby__account_stats_of(account, &stats);
    assert_int_equal(stats.charged_bytes, 0);
    fby__account_unref(account);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
}

/* Engines, and FBY__IO_KIND_COUNT for none. */
static const fby__io_kind KINDS[] = {FBY__IO_THREADS, FBY__IO_URING, FBY__IO_MMAP, FBY__IO_KIND_COUNT};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

static bool has_engine(fby__io_kind kind)
{
    fby__io *io = NULL;
    fby_error err;
    if (kind == FBY__IO_KIND_COUNT)
        return true;
    const bool has = fby__io_create(&(fby__io_opts){.kind = kind}, &io, &err) == FBY_OK;
    if (!has)
        print_message("%s: %s\n", fby__io_kind_name(kind), err.message);
    fby__io_destroy(io);
    return has;
}

/* All rows are read in place, so nothing is left to decode: the engine's thread is the only one that knows, and must not go on. */
static void rows_as_stored_are_finished_on_a_thread_of_the_pool(void **state)
{
    (void)state;
    char path[600];
    golden_path(path, "hdf5_helper/part_0.h5");
    wanted w = {.ds = open_path(path, NULL)};
    want(&w, 0, "x", FBY__PANEL_DENSE, FBY_INT32, 5);
    for (int way = 0; way < 4; way++)
        for (int k = 0; k < N_KINDS; k++) {
            probe p = {.most = UINT64_MAX, .apart = way > 1, .asks = way > 1, .gives = true};
            if (!has_engine(KINDS[k]))
                continue;
            fby__io_fault fault = {.delay_max_ns = way % 2 ? 2000000 : 0};
            fby__io_set_fault(&fault);
            assert_int_equal(read_block(&p, &w, 1, 0, KINDS[k]), FBY_OK);
            fby__io_set_fault(&(fby__io_fault){0});
            if (KINDS[k] != FBY__IO_KIND_COUNT && strncmp(p.thread, "reads", 5) != 0)
                fail_msg("done() of %s ran on the thread '%s'", fby__io_kind_name(KINDS[k]), p.thread);
            assert_int_equal(p.panels[0].row_bytes, 20);
            assert_int_equal(p.read.n_tasks, 0); /* nothing was decoded */
            uint32_t x[20];
            memcpy(x, p.panels[0].data, sizeof x);
            for (uint32_t i = 1; i < 20; i++)
                assert_int_equal(x[i], x[0] + i);
            finish(&p);
        }
    fby_dataset_close(w.ds);
}

/* Begun on a thread that has no scratch, a read is decoded by the pool, whether its bytes come at once or later. */
static void a_read_may_begin_on_a_thread_that_decodes_nothing(void **state)
{
    (void)state;
    char path[600];
    golden_path(path, "loader/rows_zstd.parquet");
    wanted w = {.ds = open_path(path, NULL)};
    want(&w, 0, "id", FBY__PANEL_DENSE, FBY_INT64, 1);
    want(&w, 1, "word", FBY__PANEL_BYTES, FBY_UINT8, 1);
    for (int delayed = 0; delayed < 2; delayed++)
        for (int k = 0; k < N_KINDS; k++) {
            if (KINDS[k] == FBY__IO_KIND_COUNT || !has_engine(KINDS[k]))
                continue;
            probe p = {.capacity = 1, .most = UINT64_MAX, .apart = true, .asks = true, .gives = true};
            fby__io_set_fault(&(fby__io_fault){.delay_max_ns = delayed ? 2000000 : 0});
            assert_int_equal(read_block(&p, &w, 2, 0, KINDS[k]), FBY_OK);
            assert_memory_equal(p.thread, "reads", 5);
            assert_true(p.read.n_tasks > 0);
            finish(&p);
            p = (probe){.capacity = 1, .most = 10, .apart = true, .asks = true, .gives = true};
            assert_int_equal(read_block(&p, &w, 2, 0, KINDS[k]), FBY_E_BUDGET);
            finish(&p);
            fby__io_set_fault(&(fby__io_fault){0});
        }
    fby_dataset_close(w.ds);
}

/* Neighbours in a file are read ahead by the kernel: one answer that comes at once does not say that the storage lets nobody wait. */
static void a_reader_knows_whether_the_storage_lets_it_wait(void **state)
{
    (void)state;
    char path[600];
    golden_path(path, "hdf5_helper/part_0.h5");
    wanted w = {.ds = open_path(path, NULL)};
    want(&w, 0, "x", FBY__PANEL_DENSE, FBY_INT32, 5);
    for (int k = 0; k < N_KINDS; k++) {
        if (KINDS[k] == FBY__IO_KIND_COUNT || !has_engine(KINDS[k]))
            continue;
        for (int delayed = 0; delayed < 2; delayed++) { /* the first time, the file may be nowhere in memory */
            probe p = {.most = UINT64_MAX};
            assert_int_equal(read_block(&p, &w, 1, 0, KINDS[k]), FBY_OK);
            finish(&p);
            p = (probe){.most = UINT64_MAX};
            fby__io_set_fault(&(fby__io_fault){.delay_max_ns = delayed ? 50000000 : 0});
            assert_int_equal(read_block(&p, &w, 1, 0, KINDS[k]), FBY_OK);
            fby__io_set_fault(&(fby__io_fault){0});
            assert_int_equal(fby__reader_waits(&p.reader), delayed && KINDS[k] != FBY__IO_MMAP);
            finish(&p);
        }
    }
    fby_dataset_close(w.ds);
}

static void a_panel_that_is_too_small_is_placed_again_or_refused_by_name(void **state)
{
    (void)state;
    char path[600];
    golden_path(path, "loader/rows_zstd.parquet");
    wanted w = {.ds = open_path(path, NULL)};
    want(&w, 0, "id", FBY__PANEL_DENSE, FBY_INT64, 1);
    want(&w, 1, "word", FBY__PANEL_BYTES, FBY_UINT8, 1);
    for (int k = 0; k < N_KINDS; k++) {
        probe p = {.capacity = 1, .most = UINT64_MAX};
        if (!has_engine(KINDS[k]))
            continue;
        assert_int_equal(read_block(&p, &w, 2, 0, KINDS[k]), FBY_OK);
        assert_true(p.n_placed > 2 && p.panels[1].used > 1 && p.panels[1].used <= p.panels[1].capacity);
        finish(&p);
        p = (probe){.capacity = 1, .most = 10};
        assert_int_equal(read_block(&p, &w, 2, 0, KINDS[k]), FBY_E_BUDGET);
        assert_non_null(strstr(p.error.message, "rows_zstd.parquet', row group 0: column 'word' need"));
        finish(&p);
    }
    fby_dataset_close(w.ds);
}

static void what_decoding_allocates_fits_the_account_or_is_refused_by_name(void **state)
{
    (void)state;
    char path[600];
    golden_path(path, "loader/rows_zstd.parquet");
    wanted w = {.ds = open_path(path, NULL)};
    want(&w, 0, "id", FBY__PANEL_DENSE, FBY_INT64, 1);
    want(&w, 1, "word", FBY__PANEL_BYTES, FBY_UINT8, 1);
    for (int asks = 0; asks < 2; asks++)
        for (int gives = 0; gives < 2; gives++) { /* of the account, or by the sink */
            probe p = {.capacity = 1 << 16, .most = UINT64_MAX, .asks = asks, .gives = gives, .exhausts = asks || !gives};
            const bool fits = gives;
            assert_int_equal(read_block(&p, &w, 2, 0, FBY__IO_KIND_COUNT), fits ? FBY_OK : FBY_E_BUDGET);
            assert_int_equal(p.lacks_room, !fits);
            assert_int_equal(p.asked > 0, asks);
            if (!fits)
                assert_non_null(strstr(p.error.message, "rows_zstd.parquet', row group 0: column 'id' needs at least"));
            finish(&p);
        }
    fby_dataset_close(w.ds);
}

/* ---- scans ---- */

typedef struct handed {
    _Atomic uint64_t rows[PANELS]; /* of each column */
    _Atomic uint64_t blocks;
} handed;

static fby_status count_rows(void *user, void *local, const fby__scan_rows *rows, uint32_t c, const fby__panel *panel, const char *constant,
                             fby_error *err)
{
    (void)local;
    (void)panel;
    (void)constant;
    (void)err;
    atomic_fetch_add(&((handed *)user)->rows[c], rows->n);
    return FBY_OK;
}

static fby_status count_block(void *user, void *local, uint32_t block, fby_error *err)
{
    (void)local;
    (void)block;
    (void)err;
    atomic_fetch_add(&((handed *)user)->blocks, 1);
    return FBY_OK;
}

static fby_status scan(const wanted *w, int n_threads, uint64_t limit, handed *got, fby_error *err)
{
    fby__read_column columns[PANELS] = {0};
    fby__account *account = NULL;
    for (int i = 0; i < PANELS; i++) {
        columns[i] = (fby__read_column){.in = w->in[i], .panel_column = w->column[i], .layout = w->panels[i].layout};
        columns[i].layout.columns = &columns[i].panel_column;
    }
    assert_int_equal(fby__account_open(limit, &account, err), FBY_OK);
    *got = (handed){0};
    const fby_status status = fby__read_columns(&(fby__column_reader){.ds = w->ds,
                                                                      .columns = columns,
                                                                      .n_columns = PANELS,
                                                                      .n_threads = n_threads,
                                                                      .account = account,
                                                                      .user = got,
                                                                      .local_bytes = 1,
                                                                      .column = count_rows,
                                                                      .block = count_block},
                                                err);
    fby__account_stats stats;
    fby__account_stats_of(account, &stats);
    assert_int_equal(stats.charged_bytes, 0);
    fby__account_unref(account);
    return status;
}

/* The least budget with which one thread reads these columns: between 0 and what is far more than they take. */
static uint64_t least_for_one_thread(const wanted *w)
{
    handed got;
    fby_error err = {0};
    uint64_t low = 0, high = 64u << 20;
    while (high - low > 1) {
        const uint64_t limit = (low + high) / 2;
        if (scan(w, 1, limit, &got, &err) == FBY_OK)
            high = limit;
        else
            low = limit;
    }
    return high;
}

#define STEP (1u << 20) /* that a reader asks of its account at once */

static void what_one_thread_has_room_for_several_have_too(void **state)
{
    (void)state;
    char path[600];
    golden_path(path, "loader/rows_*.parquet");
    wanted w = {.ds = open_path(path, NULL)};
    handed got;
    fby_error err = {0};
    want(&w, 0, "id", FBY__PANEL_DENSE, FBY_INT64, 1);
    want(&w, 1, "word", FBY__PANEL_BYTES, FBY_UINT8, 1);
    assert_true(fby__dataset_block_count(w.ds) > 3);
    const uint64_t high = least_for_one_thread(&w);
    assert_true(high > STEP);
    const uint64_t low =
        high - 1 - STEP; /* one thread may hold a step that it does not use up; where several ask, each gets what it lacks */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(scan(&w, 4, high, &got, &err), FBY_OK);
        assert_int_equal(got.rows[0], fby_dataset_rows(w.ds));
        assert_int_equal(got.rows[1], fby_dataset_rows(w.ds));
        assert_int_equal(got.blocks, fby__dataset_block_count(w.ds));
        assert_int_equal(scan(&w, 4, low, &got, &err), FBY_E_BUDGET);
    }
    fby_dataset_close(w.ds);
}

/* Rows are read again where a column found no room: whoever is handed columns gets the ones before it first, then and now. */
static void no_column_is_handed_over_before_one_that_found_no_room(void **state)
{
    (void)state;
    char path[600];
    golden_path(path, "loader/rows_*.parquet");
    wanted w = {.ds = open_path(path, NULL)};
    handed got;
    fby_error err = {0};
    want(&w, 0, "word", FBY__PANEL_BYTES, FBY_UINT8, 1);
    want(&w, 1, "id", FBY__PANEL_DENSE, FBY_INT64, 1);
    const uint64_t least = least_for_one_thread(&w);
    for (uint64_t limit = least - 1, i = 0; i < 64 && limit > 256; i++, limit -= limit / 16) {
        assert_int_equal(scan(&w, 1, limit, &got, &err), FBY_E_BUDGET);
        assert_true(got.rows[1] <= got.rows[0]);
    }
    fby_dataset_close(w.ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_as_stored_are_finished_on_a_thread_of_the_pool),
        cmocka_unit_test(a_read_may_begin_on_a_thread_that_decodes_nothing),
        cmocka_unit_test(a_reader_knows_whether_the_storage_lets_it_wait),
        cmocka_unit_test(a_panel_that_is_too_small_is_placed_again_or_refused_by_name),
        cmocka_unit_test(what_decoding_allocates_fits_the_account_or_is_refused_by_name),
        cmocka_unit_test(what_one_thread_has_room_for_several_have_too),
        cmocka_unit_test(no_column_is_handed_over_before_one_that_found_no_room),
    };
    return cmocka_run_group_tests_name("read", tests, setup_dir, teardown_dir);
}
