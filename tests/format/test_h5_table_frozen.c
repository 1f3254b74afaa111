/* HDF5 tables frozen and thawed, failing allocations and reads, damage, and real files where they are. The helper program is taken away. */
#include "format/h5_golden_tables.h"

/* ---- freezing ---- */

static fby__buf frozen_of(const fby__table *t)
{
    fby__buf blob = {0};
    assert_int_equal(fby__h5_freeze(t, &blob, NULL), FBY_OK);
    return blob;
}

static void a_frozen_table_thaws_to_an_equal_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GOLDEN; i++)
        for (int axes = 0; axes < 4; axes += 3) {
            if (axes && strcmp(GOLDEN_FILES[i], "cells.h5") != 0)
                continue;
            fby__table *t = open_golden(GOLDEN_FILES[i], (fby__format_opts){.axes = axes}), *again = NULL;
            fby__buf schema_blob = {0}, blob = frozen_of(t);
            fby__schema *schema;
            assert_int_equal(fby__schema_freeze(t->schema, &schema_blob, NULL), FBY_OK);
            assert_int_equal(fby__schema_thaw((fby__bytes){schema_blob.data, schema_blob.n}, &schema, NULL), FBY_OK);
            assert_true(fby__hash_equal(schema->hash, t->schema->hash));
            for (uint32_t k = 0; k < schema->n_fields; k++) {
                const char *a = schema->fields[k].units, *b = t->schema->fields[k].units;
                assert_true(a == b || strcmp(a, b) == 0);
            }
            assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, blob.n}, schema, &again, NULL), FBY_OK);
            fby__schema_unref(schema);
            fby__buf second = frozen_of(again);
            assert_int_equal(second.n, blob.n);
            assert_memory_equal(second.data, blob.data, blob.n);
            assert_memory_equal(again->groups, t->groups, sizeof *t->groups);
            fby__buf_fini(&second);
            fby__buf_fini(&blob);
            fby__buf_fini(&schema_blob);
            fby__table_unref(again);
            fby__table_unref(t);
        }
}

static void a_damaged_frozen_table_is_refused(void **state)
{
    (void)state;
    fby__table *t = open_golden("station.nc", (fby__format_opts){0}), *again = NULL;
    fby__table *other = open_golden("tables.h5", (fby__format_opts){0});
    fby__buf blob = frozen_of(t);
    for (size_t i = 0; i < blob.n; i++) {
        blob.data[i] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, NULL), FBY_E_FORMAT);
        blob.data[i] ^= (uint8_t)(1u << i % 8);
    }
    for (size_t n = 0; n < blob.n; n++)
        assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, n}, t->schema, &again, NULL), FBY_E_FORMAT);
    assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, blob.n}, other->schema, &again, NULL), FBY_E_FORMAT);
    fby__buf_fini(&blob);
    fby__table_unref(other);
    fby__table_unref(t);
}

/* The checksum set right again after each change: what is wrong then has to be found by itself, or to do no harm. */
static void a_forged_frozen_table_never_points_outside_its_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        fby__table *t = open_golden(GOLDEN_FILES[i], (fby__format_opts){0});
        fby__buf blob = frozen_of(t);
        for (size_t at = 24; at < blob.n; at++) {
            uint8_t before = blob.data[at];
            for (int k = 0; k < 2; k++) {
                fby__table *again = NULL;
                blob.data[at] = k ? (uint8_t)(before ^ 1) : 0xff;
                fby__hash128 h = fby__hash_more(fby__hash(blob.data, 16), blob.data + 24, blob.n - 24);
                memcpy(blob.data + 16, &h.lo, 8);
                fby_status st = fby__h5_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, NULL);
                assert_true(st == FBY_OK || st == FBY_E_FORMAT || st == FBY_E_NOMEM);
                if (st != FBY_OK)
                    continue;
                const fby__h5_table *g = fby__h5_table_of(again);
                for (uint32_t s = 0; s < g->n_sets; s++)
                    for (uint64_t c = 0; c < g->sets[s].n_chunks; c++)
                        assert_true(g->sets[s].chunks[c].offset + g->sets[s].chunks[c].bytes <= g->file_bytes);
                assert_true(*(const uint8_t *)&g->leaves[0].scaled <= 1); /* a bool */
                fby__table_unref(again);
            }
            blob.data[at] = before;
        }
        fby__buf_fini(&blob);
        fby__table_unref(t);
    }
}

/* ---- failures ---- */

static fby_status open_freeze_thaw(const char *path, fby_error *err)
{
    fby__file *file = NULL;
    fby__table *t = NULL, *again = NULL;
    fby__buf blob = {0};
    fby_status st = fby__file_open(path, NULL, &file, err);
    if (st == FBY_OK)
        st = fby__h5_table_open(file, &(fby__format_opts){0}, &t, err);
    if (st == FBY_OK)
        st = fby__h5_freeze(t, &blob, err);
    if (st == FBY_OK)
        st = fby__h5_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, err);
    fby__alloc_fail_at(0);
    fby__io_set_fault(&(fby__io_fault){0});
    fby__buf_fini(&blob);
    fby__table_unref(again);
    fby__table_unref(t);
    fby__file_unref(file);
    return st;
}

static void a_failing_allocation_or_read_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GOLDEN; i++)
        for (int kind = 0; kind < 2; kind++) {
            char path[512];
            fby_status st = FBY_E_INTERNAL;
            unsigned failed = 0;
            (void)snprintf(path, sizeof path, GOLDEN "%s", GOLDEN_FILES[i]);
            for (uint64_t at = 1; st != FBY_OK; at++) {
                fby_error err = {0};
                if (kind == 0)
                    fby__alloc_fail_at(at);
                else
                    fby__io_set_fault(&(fby__io_fault){.fail_at = at});
                st = open_freeze_thaw(path, &err);
                if (st == FBY_OK)
                    break;
                if (st != (kind == 0 ? FBY_E_NOMEM : FBY_E_IO))
                    fail_msg("%s, %s %llu: %s", path, kind ? "read" : "allocation", (unsigned long long)at, err.message);
                failed++;
            }
            assert_true(failed > (kind == 0 ? 8 : 0));
        }
}

/* Each byte of the small files turned round, a few of each 64 in the larger ones: a table or an error, no crash. */
static void a_damaged_file_is_an_error_or_a_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GOLDEN; i++) {
        char path[512], copy[64];
        fby_error err = {0};
        (void)snprintf(path, sizeof path, GOLDEN "%s", GOLDEN_FILES[i]);
        fby__file *file;
        assert_int_equal(fby__file_open(path, NULL, &file, &err), FBY_OK);
        size_t n = (size_t)fby__file_stamp_of(file)->size_bytes, step = n / 1500 + 1;
        int fd = memfd_create("damaged", 0);
        uint8_t *bytes = fd >= 0 && ftruncate(fd, (off_t)n) == 0 ? mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        assert_true(bytes != MAP_FAILED);
        assert_int_equal(fby__file_read(file, 0, bytes, n, &err), FBY_OK);
        (void)snprintf(copy, sizeof copy, "/proc/self/fd/%d", fd);
        for (size_t at = 0; at < n; at += step) {
            uint8_t before = bytes[at];
            bytes[at] = (uint8_t)(at % 3 == 0 ? 0xff : at % 3 == 1 ? before ^ 1 : before + 3);
            fby_status st = open_freeze_thaw(copy, &err);
            if (st != FBY_OK && st != FBY_E_FORMAT && st != FBY_E_UNSUPPORTED && st != FBY_E_SCHEMA && st != FBY_E_NOMEM)
                fail_msg("%s, byte %zu: %s", path, at, err.message);
            bytes[at] = before;
        }
        (void)munmap(bytes, n);
        (void)close(fd);
        fby__file_unref(file);
    }
}

/* ---- real files ---- */

static void real_files_have_the_tables_that_h5py_shows(void **state)
{
    (void)state;
    static const struct {
        const char *file, *name, *table, *dimension;
        uint64_t rows;
        uint32_t leaves;
    } want[] = {{"acoustic/decimated_optodas.hdf5", "/data", NULL, NULL, 5000, 1},
                {"acoustic/febus_2.h5", "/fa1-24090193/Source1/Zone1/PSD [dB re 1 nStrain|sqrt(Hz)]", NULL, NULL, 1, 2},
                {"acoustic/neubrex_dts_forge.h5", "/data", NULL, NULL, 458, 3},
                {"acoustic/neubrex_dts_forge.h5", "/depth", "depth", NULL, 6183, 1},
                {"acoustic/prodml_fbe_1.h5", "/Acquisition/Processed/Fbe[0]/FbeData[0]", NULL, NULL, 453, 6},
                {"acoustic/terra15_v5_test_file.hdf5", "/data_product/data", NULL, NULL, 2060, 3},
                {"acoustic/xdas_netcdf.nc", "/__values__", NULL, NULL, 300, 1},
                {"hydrology/ngen_gauge_01073000_forcing.nc", "/Time", NULL, NULL, 5, 10},
                {"hydrology/ngen_gauge_01073000_forcing.nc", "/Time", NULL, "time", 720, 9},
                {"hydrology/rapid_qout_sandbox.nc4", "/Qout", NULL, NULL, 80, 1},
                {"jets/spanet_full_hadronic_ttbar.h5", "/INPUTS/Source/btag", NULL, NULL, 10000, 12},
                {"jets/spanet_full_hadronic_ttbar.h5", "/TARGETS/t1/b", "TARGETS", NULL, 10000, 6},
                {"neutrino/liquido_electrons.h5", "/HitData", NULL, NULL, 121096, 1},
                {"neutrino/liquido_electrons.h5", "/SiPMIDxyz", "SiPMIDxyz", NULL, 12860, 4}};
    unsigned absent = 0;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, FBY_SOURCE_DIR "/../shared/data/%s", want[i].file);
        if (access(path, R_OK) != 0) {
            absent++;
            continue;
        }
        fby__table *t = open_path(path, &(fby__format_opts){.table = want[i].table, .dimension = want[i].dimension});
        const fby__h5_table *h = fby__h5_table_of(t);
        assert_string_equal(h->name, want[i].name);
        assert_int_equal(t->n_rows, want[i].rows);
        assert_int_equal(t->schema->n_leaves, want[i].leaves);
        assert_int_equal(h->n_left_out, 0);
        /* Blocks add up: each stored byte belongs to a block, those of chunks across a border to two or more. */
        uint64_t stored = 0, block = t->groups[0].block_rows;
        for (uint64_t at = 0; at < t->n_rows; at += block)
            for (uint32_t leaf = 0; leaf < t->schema->n_leaves; leaf++) {
                fby__leaf_bounds b;
                fby__h5_leaf_bounds(t, 0, at, at + block < t->n_rows ? at + block : t->n_rows, leaf, &b);
                stored += b.compressed_bytes;
            }
        assert_true(stored >= t->groups[0].stored_bytes || h->sets[0].layout == FBY__H5_CHUNKED);
        fby__table_unref(t);
    }
    if (absent == sizeof want / sizeof *want) {
        print_message("skipped: no real files at " FBY_SOURCE_DIR "/../shared/data\n");
        skip();
    }
}

static void thawing_a_thousand_tables_takes_a_moment(void **state)
{
    (void)state;
    fby__table *t = open_golden("tables.h5", (fby__format_opts){0});
    fby__buf blob = frozen_of(t);
    uint64_t begin = fby__clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < 1000; i++) {
        fby__table *again = NULL;
        assert_int_equal(fby__h5_thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, NULL), FBY_OK);
        fby__table_unref(again);
    }
    double seconds = (double)(fby__clock_ns(CLOCK_MONOTONIC) - begin) / 1e9;
    print_message("1,000 tables of %zu bytes: %.4f s\n", blob.n, seconds);
    assert_true(seconds < 5); /* sanitizers and a busy machine: 0.005 s without */
    fby__buf_fini(&blob);
    fby__table_unref(t);
}

int main(void)
{
    hide_helper();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frozen_table_thaws_to_an_equal_one),
        cmocka_unit_test(a_damaged_frozen_table_is_refused),
        cmocka_unit_test(a_forged_frozen_table_never_points_outside_its_file),
        cmocka_unit_test(a_failing_allocation_or_read_is_an_error_and_leaks_nothing),
        cmocka_unit_test(a_damaged_file_is_an_error_or_a_table),
        cmocka_unit_test(real_files_have_the_tables_that_h5py_shows),
        cmocka_unit_test(thawing_a_thousand_tables_takes_a_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
