/* Options of opening data sets, tables and pipelines. */
#include "options/table.h"

#include <forebay/loader.h>
#include <forebay/lookup.h>
#include <forebay/pipeline.h>

static const char *const IO[] = {"auto", "threads", "uring", "mmap", "null", NULL};
static const char *const MISSING[] = {"error", "fill", NULL};
static const char *const EXTERNAL[] = {"anywhere", NULL};
static const char *const MISSING_IDS[] = {"error", "skip", NULL};

#define STRUCT fby_open_opts
const fby_option fby__open_table[] = {
    OPT_TEXTS("ids", ids, n_ids, BOTH, "all", "open only the files with these ids"),
    OPT_TEXT("id_column", id_column, BOTH, "the last one, or the file's stem without a pattern",
             "which placeholder of the pattern the ids are"),
    OPT_TEXT("source_column", source_column, BOTH, "`source`", "name of the column that holds the names of a map of paths"),
    OPT_PATH("cache_dir", cache_dir, BOTH, "$FOREBAY_CACHE, $XDG_CACHE_HOME/forebay or ~/.cache/forebay",
             "where the index cache lives; `\"\"` is no cache"),
    OPT_INT("threads", n_threads, BOTH, 1, 4096, "twice the CPUs, at least 8", "for reading metadata"),
    OPT_CHOICE("io", io, fby_io_engine, BOTH, IO, "auto",
               "how files are read; mmap needs `immutable`, null reads nothing and is for timing"),
    OPT_BOOL("immutable", immutable, BOTH, "the files will not change while they are open"),
    OPT_BOOL("verify_crc", verify_crc, BOTH, "check page checksums where the writer stored them"),
    OPT_CHOICE("missing_columns", missing_columns, fby_missing_columns, BOTH, MISSING, "error",
               "a column that some files lack: refused when it is used, or null in their rows"),
    OPT_OTHER("progress", progress, IN_PYTHON, "true, or a function", "none", "called while a long open goes on"),
    OPT_OTHER("progress", progress_user, 0, "", "", "handed to progress"),
    OPT_TEXT("table", table, BOTH, "the largest table", "HDF5: a dataset's path (the table that holds it) or a group's (what is below it)"),
    OPT_FORM("axis", dimension, FBY_OPTION_TEXT, const char *, BOTH, "a number, or a dimension's name", "0",
             "HDF5: the axis that runs over rows", .least = 0),
    OPT_FORM("axis", sample_axis, FBY_OPTION_INT, int, BOTH, "a number, or a dimension's name", "0", "HDF5: the axis that runs over rows",
             .most = 31),
    OPT_INT("axes", sample_axes, BOTH, 1, 32, "1", "HDF5, cells: so many leading axes run over rows together"),
    OPT_BOOL("single", single, BOTH, "HDF5: the table is the dataset `table` alone"),
    OPT_BOOL("stored_values", stored_values, BOTH, "HDF5: leave values as stored: no _FillValue, no scale_factor and add_offset"),
    OPT_CHOICE("missing_ids", missing_ids, fby_missing_ids, BOTH, MISSING_IDS, "error",
               "an id without a file: refused, or left out and noted"),
    OPT_CHOICE("missing_sources", missing_sources, fby_missing_sources, BOTH, MISSING, "error",
               "HDF5: a file that values come from is not there: opening fails, or the fill value stands in its place"),
    OPT_PATHS("external", external, n_external, BOTH, EXTERNAL,
              "those below the folder of the file that names them, and where it was found",
              "HDF5: folders with files that others may name in links, virtual datasets and external raw data, or `anywhere`"),
    OPT_FORM("dtypes", dtypes, FBY_OPTION_OTHER, const fby_column_dtype *, BOTH, "a map of columns to types, `{uid: str, level: float32}`",
             "as the values are", "CSV and TSV: types of columns; of any format bytes, for text", .also = FBY__AT(n_dtypes, size_t)),
    OPT_BYTES(
        "memory", memory_bytes, BOTH, "half of what the process may take",
        "what opening may hold, and each search for samples, lookup, fit, read or Arrow stream over the data set; loaders have their own"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_lookup_opts
const fby_option fby__lookup_table[] = {
    OPT_FORM("key", key, FBY_OPTION_TEXT, const char *, BOTH, "a column, or a list of them", "needed",
             "the columns by which rows are found, in every table", .least = 0),
    OPT_FORM("key", more_keys, FBY_OPTION_TEXTS, const char *const *, BOTH, "a column, or a list of them", "",
             "the columns behind the first", .also = FBY__AT(n_more_keys, size_t)),
    OPT_TEXTS("columns", columns, n_columns, BOTH, "all that are numbers", "the values to keep, in this order"),
    OPT_GIVEN_DOUBLE("fill_missing", fill_missing, has_fill_missing, BOTH, "NaN", "in place of missing values"),
    OPT_BOOL("first_wins", first_wins, BOTH, "of different values for one key the first counts; otherwise they are an error"),
    OPT_INT("threads", n_threads, IN_PYTHON, 1, 1024, "the CPUs this process may use", "for reading"),
    OPT_BYTES("memory", memory_bytes, BOTH, "that of the data set", "what the table, and reading it, may hold"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_fit_opts
const fby_option fby__fit_table[] = {
    OPT_TEXTS("columns", columns, n_columns, BOTH, "needed", "columns of numbers, or of lists of them"),
    OPT_GIVEN_DOUBLE("pad", pad, has_pad, BOTH, "none", "values that are stored as this one are left out, and counted as missing"),
    OPT_TEXT("count", count, BOTH, "none", "of arrays: a column of how many places of the first axis hold values"),
    OPT_BOOL("clip_count", clip_count, BOTH, "a count beyond the axis means all of it"),
    OPT_INT("axis", axis, BOTH, -32, 0, "whole columns", "of arrays: moments of each place on this axis, -1 the last"),
    OPT_OTHER("n_each", n_each, 0, "a number", "", "places of the axis"),
    OPT_FORM("ops", ops, FBY_OPTION_OTHER, const fby_op *, IN_FILE, "a list, as of an output", "none",
             "done first: the moments are of what comes out", .also = FBY__AT(n_ops, size_t)),
    OPT_OTHER("split", samples, IN_FILE, "the name of a split", "all samples", "fitted over"),
    OPT_BYTES("memory", memory_bytes, BOTH, "that of the data set", "the budget of the pass"),
    OPT_INT("threads", n_threads, BOTH, 1, 1024, "the CPUs this process may use", "of the pass"),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_pipeline_opts
const fby_option fby__pipeline_table[] = {
    OPT_FORM("overrides", overrides, FBY_OPTION_TEXTS, const char *const *, IN_PYTHON, "a map of keys by their path to values", "none",
             "values in place of the file's", .also = FBY__AT(n_overrides, size_t)),
    OPT_PATH("base_dir", base_dir, 0, "the file's directory", "what the paths in it are relative to"),
    OPT_PATH("cache_dir", cache_dir, IN_PYTHON, "as of opening",
             "where the index cache lives, of data sets that name none; `\"\"`: of none"),
    OPT_OTHER("progress", progress, 0, "a function", "none", "called by what opens data sets and samples"),
    OPT_OTHER("progress", progress_user, 0, "", "", "handed to progress"),
    OPT_END,
};
#undef STRUCT
