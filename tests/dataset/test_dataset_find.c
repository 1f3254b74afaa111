/* Which files a source is: every form of a path, order, ids, mappings, and what is wrong with paths. */
#include "dataset/dataset_fixture.h"

#include "dataset/dataset_impl.h"

#include <sys/socket.h>
#include <sys/un.h>

static void put_tree(void)
{
    static const char *const NAMES[] = {"p/b/b1.parquet", "p/b/b0.parquet", "p/a/a1.parquet", "p/a/a0.parquet", "p/a.parquet"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        put_file(NAMES[i], "plain");
}

static void expect_open(const char *path, const char *names)
{
    fby_dataset *ds = open_path(path, NULL);
    expect_names(ds, names);
    fby_dataset_close(ds);
}

static void a_path_is_a_file_a_directory_a_glob_or_a_pattern(void **state)
{
    (void)state;
    put_tree();
    expect_open("p/a/a0.parquet", "a0.parquet");
    expect_open("p/a", "a0.parquet a1.parquet");
    expect_open("p/", "a.parquet a/a0.parquet a/a1.parquet b/b0.parquet b/b1.parquet"); /* '.' sorts before '/' */
    expect_open("p/*/*1.parquet", "a/a1.parquet b/b1.parquet");
    expect_open("p/**/*1.parquet", "a/a1.parquet b/b1.parquet");
    expect_open("p/**/a*.parquet", "a.parquet a/a0.parquet a/a1.parquet");
    expect_open("p/**", "a.parquet a/a0.parquet a/a1.parquet b/b0.parquet b/b1.parquet");
    expect_open("**/**/b?.parquet", "p/b/b0.parquet p/b/b1.parquet");
    expect_open("p/[!a]/b[0-9].parquet", "b/b0.parquet b/b1.parquet");
    expect_open("p/[ab]", "a/a0.parquet a/a1.parquet b/b0.parquet b/b1.parquet"); /* directories that match are walked */
    expect_open("p/{region}/*1.parquet", "a/a1.parquet b/b1.parquet");
    char absolute[200];
    (void)snprintf(absolute, sizeof absolute, "%s/./p//b/{id}.parquet", g_dir);
    expect_open(absolute, "b0.parquet b1.parquet");
}

static void hidden_names_are_left_out_unless_they_are_named(void **state)
{
    (void)state;
    put_file("d/x.parquet", "plain");
    put_file("d/_x.parquet", "plain");
    put_file("d/.git/y.parquet", "plain");
    expect_open("d", "x.parquet");
    expect_open("d/*.parquet", "x.parquet");
    expect_open("d/**/*.parquet", "x.parquet");
    expect_open("d/_*.parquet", "_x.parquet");
    expect_open("d/.git", "y.parquet");
}

static void an_existing_file_wins_over_a_glob_of_the_same_spelling(void **state)
{
    (void)state;
    put_file("d/x[1].parquet", "plain");
    put_file("d/x1.parquet", "plain");
    put_file("d/{id}.parquet", "plain");
    expect_open("d/x[1].parquet", "x[1].parquet");
    expect_open("d/{id}.parquet", "{id}.parquet");
    unlink("d/x[1].parquet");
    expect_open("d/x[1].parquet", "x1.parquet");
}

static void directories_named_like_files_are_walked(void **state)
{
    (void)state;
    put_file("d/x.parquet/part-0.parquet", "plain");
    put_file("d/x.parquet/part-1.parquet", "plain");
    expect_open("d/x.parquet", "part-0.parquet part-1.parquet");
    expect_open("d/*.parquet", "x.parquet/part-0.parquet x.parquet/part-1.parquet");
}

static fby_dataset *open_sources(const fby_source *sources, size_t n, const fby_open_opts *opts)
{
    fby_open_opts o = opts ? *opts : (fby_open_opts){0};
    o.size = sizeof o;
    o.cache_dir = "";
    fby_dataset *ds = NULL;
    fby_error err;
    if (fby_dataset_open(sources, n, &o, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static void lists_keep_their_order_and_are_named_from_their_common_directory(void **state)
{
    (void)state;
    put_tree();
    fby_source sources[] = {{NULL, "p/b/b1.parquet"}, {NULL, "./p/a"}, {NULL, "p/b/b0.parquet"}};
    fby_dataset *ds = open_sources(sources, 3, NULL);
    expect_names(ds, "b/b1.parquet a/a0.parquet a/a1.parquet b/b0.parquet");
    fby_dataset_close(ds);
    ds = open_sources(sources + 2, 1, NULL);
    expect_names(ds, "b0.parquet");
    fby_dataset_close(ds);
    fby_source same[] = {{NULL, "p/b/b1.parquet"}, {NULL, "p/b/b0.parquet"}};
    ds = open_sources(same, 2, NULL);
    expect_names(ds, "b1.parquet b0.parquet");
    fby_dataset_close(ds);
}

static void mappings_name_their_files_and_fill_a_column(void **state)
{
    (void)state;
    put_tree();
    fby_source sources[] = {{"train", "p/b"}, {"test", "p/a/{id}.parquet"}};
    fby_dataset *ds = open_sources(sources, 2, &(fby_open_opts){.source_column = "split", .missing_columns = FBY_MISSING_COLUMNS_FILL});
    expect_names(ds, "train/b0.parquet train/b1.parquet test/a0.parquet test/a1.parquet");
    const fby_field *root = fby_dataset_schema(ds);
    assert_string_equal(root->children[0].name, "split");
    assert_string_equal(root->children[1].name, "id");
    assert_false(root->children[0].nullable);
    assert_true(root->children[1].nullable);
    fby__dataset_column column;
    fby__file_column origin;
    assert_int_equal(fby__dataset_resolve(ds, "split", &column, NULL), FBY_OK);
    fby__dataset_file_column(ds, 2, &column, &origin);
    assert_int_equal(origin.origin, FBY__ORIGIN_CONSTANT);
    assert_string_equal(origin.constant, "test");
    assert_int_equal(fby__dataset_resolve(ds, "id", &column, NULL), FBY_OK);
    fby__dataset_file_column(ds, 0, &column, &origin);
    assert_int_equal(origin.origin, FBY__ORIGIN_MISSING);
    fby__dataset_file_column(ds, 3, &column, &origin);
    assert_string_equal(origin.constant, "a1");
    fby_dataset_close(ds);

    fby_error err;
    fby_dataset *none = NULL;
    sources[1].name = NULL;
    assert_int_equal(fby_dataset_open(sources, 2, NULL, &none, &err), FBY_E_ARG);
    sources[1].name = "test";
    fby_open_opts clash = {.size = sizeof clash, .cache_dir = "", .source_column = "id"};
    assert_int_equal(fby_dataset_open(sources, 2, &clash, &none, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "source_column"));
}

static void braces_take_what_they_must_and_repeat_what_they_took(void **state)
{
    (void)state;
    fby__arena arena = {0};
    fby__pattern p;
    assert_int_equal(fby__pattern_parse("{a}_{b}.parquet", &arena, &p, NULL), FBY_OK);
    fby__capture c[FBY__MAX_BRACES] = {0};
    assert_true(fby__path_part_match(&p, p.parts[0].text, "x_y_z.parquet", c));
    assert_true(c[0].n == 1 && c[1].n == 3 && memcmp(c[1].text, "y_z", 3) == 0);
    memset(c, 0, sizeof c);
    assert_false(fby__path_part_match(&p, p.parts[0].text, "_y.parquet", c));
    assert_null(c[0].text);
    assert_false(fby__path_part_match(&p, p.parts[0].text, "x_.parquet", c));

    assert_int_equal(fby__pattern_parse("d/{id}/{id}*.p[aq]q", &arena, &p, NULL), FBY_OK);
    assert_string_equal(p.root, "d");
    assert_int_equal(p.n_names, 1);
    memset(c, 0, sizeof c);
    assert_true(fby__path_part_match(&p, p.parts[0].text, "g1", c));
    assert_true(fby__path_part_match(&p, p.parts[1].text, "g1-x.pqq", c));
    assert_false(fby__path_part_match(&p, p.parts[1].text, "g2-x.pqq", c));
    fby_error err;
    assert_int_equal(fby__pattern_parse("d/{a,b}.parquet", &arena, &p, &err), FBY_E_ARG);
    assert_int_equal(fby__pattern_parse("d/{a.parquet", &arena, &p, &err), FBY_E_ARG);
    fby__arena_fini(&arena);
}

static void ids_open_only_their_files(void **state)
{
    (void)state;
    char path[100];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(path, sizeof path, "d/r%d/g%02d.parquet", i % 2, i);
        put_file(path, "plain");
    }
    static const char *const IDS[] = {"g07", "g04", "g07"};
    fby_open_opts opts = {.cache_dir = "", .ids = IDS, .n_ids = 3};
    uint64_t two_files = count_io("d/r1/g01.parquet", NULL) * 2;
    static const char *const FORMS[] = {"d/{region}/{gauge}.parquet", "d", "d/*/*.parquet", "d/**/{gauge}.parquet"};
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        fby_dataset *ds = open_path(FORMS[i], &opts);
        expect_names(ds, "r0/g04.parquet r1/g07.parquet");
        fby_dataset_close(ds);
        assert_int_equal(count_io(FORMS[i], &opts), two_files);
    }
    static const char *const ONE[] = {"g07"};
    opts = (fby_open_opts){.cache_dir = "", .ids = ONE, .n_ids = 1};
    assert_int_equal(count_io("d/r1/{id}.parquet", &opts), two_files / 2);
    static const char *const REGION[] = {"r1"};
    opts = (fby_open_opts){.cache_dir = "", .ids = REGION, .n_ids = 1, .id_column = "region"};
    fby_dataset *ds = open_path("d/{region}/{gauge}.parquet", &opts);
    assert_int_equal(fby_dataset_file_count(ds), 25);
    fby_dataset_close(ds);
    opts.id_column = "basin";
    expect_fails("d/{region}/{gauge}.parquet", &opts, FBY_E_ARG, "{basin}");
}

static void an_id_without_a_file_is_an_error_that_names_it(void **state)
{
    (void)state;
    put_tree();
    static const char *const IDS[] = {"a0", "zz", "../b/b0", ""};
    fby_open_opts opts = {.cache_dir = "", .ids = IDS, .n_ids = 2};
    expect_fails("p/a/{id}.parquet", &opts, FBY_E_SCHEMA, "'zz'");
    expect_fails("p/{r}/{id}.parquet", &opts, FBY_E_SCHEMA, "'zz'");
    expect_fails("p", &opts, FBY_E_SCHEMA, "'zz'");
    opts.n_ids = 4; /* an id is no path: it cannot climb out of its directory */
    expect_fails("p/a/{id}.parquet", &opts, FBY_E_SCHEMA, "'../b/b0'");
    /* A directory of the right name that holds no file is no file. */
    assert_int_equal(mkdir("p/zz", 0755), 0);
    opts.n_ids = 2;
    expect_fails("p/{id}/data.parquet", &opts, FBY_E_SCHEMA, "'zz'");
    /* A listed file that is gone matters only when its id is wanted. */
    fby_source sources[] = {{NULL, "p/a/a0.parquet"}, {NULL, "p/a/gone.parquet"}};
    opts.n_ids = 1;
    fby_dataset *ds = open_sources(sources, 2, &opts);
    expect_names(ds, "a0.parquet");
    fby_dataset_close(ds);
}

static void the_same_file_twice_is_an_error_that_names_both(void **state)
{
    (void)state;
    put_tree();
    fby_error err;
    fby_dataset *ds = NULL;
    fby_open_opts opts = {.size = sizeof opts, .cache_dir = ""};
    fby_source sources[] = {{NULL, "p/a"}, {NULL, "./p/../p/a/a0.parquet"}};
    assert_int_equal(fby_dataset_open(sources, 2, &opts, &ds, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "/p/a/a0.parquet'"));
    assert_non_null(strstr(err.message, "/p/../p/a/a0.parquet'"));
    assert_int_equal(symlink("a0.parquet", "p/a/link.parquet"), 0);
    expect_fails("p/a", NULL, FBY_E_ARG, "link.parquet");
    unlink("p/a/link.parquet");
    assert_int_equal(link("p/a/a0.parquet", "p/a/hard.parquet"), 0);
    ds = open_path("p/a", NULL);
    expect_note(ds, "1 files are hard links");
    fby_dataset_close(ds);
}

static void links_that_are_broken_or_loop_are_errors(void **state)
{
    (void)state;
    put_tree();
    assert_int_equal(symlink("nowhere", "p/z.parquet"), 0);
    expect_fails("p", NULL, FBY_E_IO, "broken symbolic link to 'nowhere'");
    expect_fails("p/*.parquet", NULL, FBY_E_IO, "broken symbolic link");
    expect_fails("p/z.parquet", NULL, FBY_E_IO, "broken symbolic link");
    unlink("p/z.parquet");
    assert_int_equal(symlink("..", "p/a/up"), 0);
    expect_fails("p", NULL, FBY_E_IO, "directory loop");
    expect_fails("p/**/*.parquet", NULL, FBY_E_IO, "directory loop");
    unlink("p/a/up");
    assert_int_equal(symlink("self", "p/self"), 0);
    expect_fails("p", NULL, FBY_E_IO, "p/self");
}

static void directories_more_than_128_deep_are_refused(void **state)
{
    (void)state;
    char path[300] = "d";
    for (int i = 1; i < 128; i++)
        strcat(path, "/x");
    strcat(path, "/a.parquet");
    put_file(path, "plain");
    static const char *const WAYS[] = {"d", "d/**/*.parquet"};
    for (int way = 0; way < 2; way++) {
        fby_dataset *ds = open_path(WAYS[way], NULL);
        assert_int_equal(fby_dataset_file_count(ds), 1);
        fby_dataset_close(ds);
    }
    strcpy(strrchr(path, '/'), "/y/");
    make_dirs(path);
    for (int way = 0; way < 2; way++)
        expect_fails(WAYS[way], NULL, FBY_E_IO, "is more than 128 directories deep");
}

static void what_cannot_be_read_says_why(void **state)
{
    (void)state;
    put_tree();
    expect_fails("p/a/a9.parquet", NULL, FBY_E_IO, "did you mean 'a0.parquet'");
    expect_fails("q/x.parquet", NULL, FBY_E_IO, "its directory does not exist either");
    expect_fails("q/*.parquet", NULL, FBY_E_IO, "no directory 'q'");
    expect_fails("p/a/*.csv", NULL, FBY_E_IO, "'a0.parquet'");
    assert_int_equal(mkdir("empty", 0755), 0);
    expect_fails("empty", NULL, FBY_E_IO, "no files in the directory");
    expect_fails("", NULL, FBY_E_ARG, "no path");
    expect_fails("/dev/null", NULL, FBY_E_FORMAT, "device");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    expect_fails("fifo", NULL, FBY_E_FORMAT, "fifo");
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "p/socket.parquet"};
    assert_int_equal(bind(s, (struct sockaddr *)&name, sizeof name), 0);
    expect_fails("p/socket.parquet", NULL, FBY_E_FORMAT, "socket");
    fby_dataset *ds = open_path("p", NULL);
    expect_note(ds, "1 socket");
    fby_dataset_close(ds);
    (void)close(s);
    fby_dataset *none = NULL;
    assert_int_equal(fby_dataset_open(NULL, 0, NULL, &none, NULL), FBY_E_ARG);
    expect_fails("p", &(fby_open_opts){.cache_dir = "", .io = FBY_IO_MMAP}, FBY_E_ARG, "immutable");
}

static void unreadable_files_and_directories_are_errors(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        print_message("skipped: root reads everything\n");
        return;
    }
    put_tree();
    assert_int_equal(chmod("p/a/a0.parquet", 0), 0);
    expect_fails("p", NULL, FBY_E_IO, "p/a/a0.parquet");
    assert_int_equal(chmod("p/a", 0), 0);
    expect_fails("p", NULL, FBY_E_IO, "p/a");
    assert_int_equal(chmod("p/a", 0755), 0);
}

static void content_that_no_reader_knows_is_skipped_in_directories_and_refused_by_name(void **state)
{
    (void)state;
    put_tree();
    write_bytes("p/README.md", "# hello\n", 8);
    write_bytes("p/empty", "", 0);
    write_bytes("p/x.nc", "CDF\x01............", 16);
    fby_dataset *ds = open_path("p", NULL);
    assert_int_equal(fby_dataset_file_count(ds), 5);
    expect_note(ds, "3 files were left out");
    fby_dataset_close(ds);
    ds = open_path("p/*", NULL);
    assert_int_equal(fby_dataset_file_count(ds), 5);
    fby_dataset_close(ds);
    expect_fails("p/README.md", NULL, FBY_E_FORMAT, "text");
    expect_fails("p/*.nc", NULL, FBY_E_UNSUPPORTED, "NetCDF-3");
    expect_fails("p/empty", NULL, FBY_E_FORMAT, "is empty: 0 bytes");
    /* A name that says Parquet is never skipped: it is data that was lost. */
    write_bytes("p/cut.parquet", "PAR1", 4);
    expect_fails("p", NULL, FBY_E_FORMAT, "p/cut.parquet");
    write_bytes("p/cut.parquet", "", 0);
    expect_fails("p", NULL, FBY_E_FORMAT, "p/cut.parquet");
    unlink("p/cut.parquet");
    write_bytes("only/x.nc", "CDF\x01............", 16);
    expect_fails("only", NULL, FBY_E_UNSUPPORTED, "NetCDF-3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)
        TEST(a_path_is_a_file_a_directory_a_glob_or_a_pattern),
        TEST(hidden_names_are_left_out_unless_they_are_named),
        TEST(an_existing_file_wins_over_a_glob_of_the_same_spelling),
        TEST(directories_named_like_files_are_walked),
        TEST(lists_keep_their_order_and_are_named_from_their_common_directory),
        TEST(mappings_name_their_files_and_fill_a_column),
        TEST(braces_take_what_they_must_and_repeat_what_they_took),
        TEST(ids_open_only_their_files),
        TEST(an_id_without_a_file_is_an_error_that_names_it),
        TEST(the_same_file_twice_is_an_error_that_names_both),
        TEST(links_that_are_broken_or_loop_are_errors),
        TEST(directories_more_than_128_deep_are_refused),
        TEST(what_cannot_be_read_says_why),
        TEST(unreadable_files_and_directories_are_errors),
        TEST(content_that_no_reader_knows_is_skipped_in_directories_and_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
