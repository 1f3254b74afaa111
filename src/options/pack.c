/* Options of packing. */
#include "options/options.h"
#include "options/table.h"

#include <forebay/pack.h>

static const char *const SHUFFLE[] = {"full", "none", NULL};
const char *const fby__pack_format_words[] = {"arrow", "parquet", "hdf5", NULL};
static const char *const UNITS[] = {"same", "first", NULL};
const char *const fby__pack_codec_words[] = {"auto", "none", "lz4", "zstd", "snappy", "gzip", NULL};

#define STRUCT fby_pack_opts
const fby_option fby__pack_table[] = {
    OPT_CHOICE("shuffle", shuffle, fby_pack_shuffle, IN_PYTHON, SHUFFLE, "full",
               "the order of the rows: all of them mixed, or as they are"),
    OPT_U64("seed", seed, IN_PYTHON, 0, "0", "of the shuffle"),
    OPT_CHOICE("format", format, fby_pack_format, IN_PYTHON, fby__pack_format_words, "arrow", "of the files"),
    OPT_CHOICE("codec", codec, fby_pack_codec, IN_PYTHON, fby__pack_codec_words, "auto",
               "of the files; auto is none for Arrow and HDF5 and zstd for Parquet, snappy is for Parquet alone, gzip for HDF5 alone"),
    OPT_U64("batch", batch_rows, IN_PYTHON, 1, "about 4 MiB of them, at most 65,536", "rows of a record batch, row group or chunk"),
    OPT_U64("rows_per_file", rows_per_file, IN_PYTHON, 1, "about 256 MiB of them", "rows of a file"),
    OPT_TEXTS("columns", columns, n_columns, IN_PYTHON, "all", "the columns to pack"),
    OPT_BYTES("memory", memory_bytes, IN_PYTHON, "half of what the process may take; of a task 4 GiB",
              "what packing may hold: how many passes over the disk follows from it, and no byte of the pack"),
    OPT_INT("threads", n_threads, IN_PYTHON, 1, 1024, "the CPUs this process may use", "tasks at a time"),
    OPT_BOOL("verify", verify, IN_PYTHON, "read source and pack again, and compare the hashes of their rows"),
    OPT_BOOL("dry_run", dry_run, IN_PYTHON, "say what would be done, and do nothing"),
    OPT_OTHER("progress", progress, IN_PYTHON, "true, or a function", "none", "called while it goes on"),
    OPT_OTHER("progress", progress_user, 0, "", "", "handed to progress"),
    OPT_OTHER("outputs", loader, IN_PYTHON, "as of a loader", "none", "pack what a loader with these outputs gives, in place of rows"),
    OPT_TEXT("by", by, IN_PYTHON, "none", "a column each of whose values has files of its own, in which its rows are mixed"),
    OPT_CHOICE("units", units, fby_pack_units, IN_PYTHON, UNITS, "same",
               "where files state other units or calendars: same is an error, first means that the first file's hold of all"),
    OPT_OTHER("pipeline", pipeline, 0, "", "", "a text that the pack keeps with the outputs"),
    OPT_END,
};
#undef STRUCT
