/* Options of a loader, where it stands, and what it reports. */
#include "options/options.h"
#include "options/table.h"

#include <forebay/loader.h>

const char *const fby__shuffle_words[] = {"superbatch", "full", "block", "none", NULL};
const char *const fby__tail_words[] = {"auto", "keep", "drop", "wrap", "uneven", NULL};
#define LIMIT_WORD(name, word) word,
static const char *const LIMIT[] = {FBY_LIMIT_LIST(LIMIT_WORD) NULL};

#define MEMORY_FORM "a size such as `8GiB`, `70%` of what is available, or `all`: hold everything"
#define SUPERBATCH_FORM "`50 blocks`, `100000 samples`, `256MiB` (as stored), or a number of samples"
#define PART_FORM "`1000 files`, `1000 keys`, or `1/10`"

#define STRUCT fby_loader_opts
const fby_option fby__loader_table[] = {
    OPT_FORM("outputs", outputs, FBY_OPTION_OTHER, const fby_output *, IN_PYTHON, "a map of names to outputs",
             "every column that can be a tensor", "what a batch holds", .also = FBY__AT(n_outputs, size_t)),
    OPT_U64("batch_size", batch_size, BOTH | ORDER, 1, "needed without batch_elements",
            "samples a batch of this rank; with batch_elements the most of them"),
    OPT_FORM("shuffle", shuffle, FBY_OPTION_CHOICE, fby_shuffle_kind, BOTH | ORDER,
             "true (superbatch), false (none), superbatch, full, block or none", "superbatch",
             "blocks permuted and samples mixed within superbatches; one permutation of all samples; blocks permuted; file order",
             .choices = fby__shuffle_words),
    OPT_CHOICE("tail", tail, fby_tail_kind, BOTH | ORDER, fby__tail_words, "auto",
               "the last, shorter batch; auto keeps it in one process and fills it with repeats (wrap) in several"),
    OPT_U64("seed", seed, BOTH | ORDER, 0, "0", "same data, seed, epoch and options that belong to the order: same batches"),
    OPT_FORM("superbatch", superbatch_samples, FBY_OPTION_U64, uint64_t, BOTH | ORDER, SUPERBATCH_FORM, "512MiB, at least 8 blocks",
             "how much is mixed at once", .least = 0),
    OPT_FORM("superbatch", superbatch_blocks, FBY_OPTION_U64, uint64_t, BOTH | ORDER, SUPERBATCH_FORM, "", "the same in blocks",
             .least = 0),
    OPT_FORM("superbatch", superbatch_bytes, FBY_OPTION_U64, uint64_t, BOTH | ORDER, SUPERBATCH_FORM, "", "the same in stored bytes",
             .least = 0),
    OPT_U32("streams", streams, BOTH | ORDER, 1, "8", "equal cuts of the epoch's order, of which ranks have whole ones"),
    OPT_U32("rank", rank, BOTH, 0, "0", "which part of every batch is this process's; Python finds out by itself"),
    OPT_U32("world_size", world_size, BOTH, 1, "1", "how many there are; it divides the streams"),
    OPT_FORM("memory", memory_bytes, FBY_OPTION_BYTES, uint64_t, BOTH, MEMORY_FORM,
             "two superbatches, at most half of the memory available to this loader", "the budget: all that the loader holds at once",
             .least = 1),
    OPT_FORM("memory", memory_fraction, FBY_OPTION_DOUBLE, double, BOTH, MEMORY_FORM, "", "a share of what is available", .least = 0),
    OPT_FORM("memory", memory_all, FBY_OPTION_BOOL, bool, BOTH, MEMORY_FORM, "", "as much as holds everything", .least = 0),
    OPT_INT("threads", n_threads, BOTH, 1, 1024, "the CPUs this process may use", "for reading, decoding and assembling"),
    OPT_U32("prefetch", prefetch_batches, BOTH, 1, "8", "finished batches kept ready"),
    OPT_OTHER("split", samples, IN_FILE, "the name of a split", "needed where there are splits",
              "what a loader is over when none is named"),
    OPT_OTHER("transform", transform, IN_PYTHON, "a function", "none", "code of yours, run on every batch before it is handed out"),
    OPT_OTHER("transform", transform_user, 0, "", "", "handed to transform"),
    OPT_FORM("check", transform_unchecked, FBY_OPTION_BOOL, bool, IN_PYTHON, "true or false", "true",
             "try the transform when the loader is made", .least = 0),
    OPT_FORM("part", part_files, FBY_OPTION_U32, uint32_t, BOTH | ORDER, PART_FORM, "all",
             "an epoch is a part of the files, or of the keys of part_key", .least = 0),
    OPT_FORM("part", n_parts, FBY_OPTION_U32, uint32_t, BOTH | ORDER, PART_FORM, "", "the same by their number", .least = 0),
    OPT_FORM("part", part_keys, FBY_OPTION_U32, uint32_t, BOTH | ORDER, PART_FORM, "", "the same in keys", .least = 0),
    OPT_TEXT("part_key", part_key, BOTH | ORDER, "the key of the samples", "the column of the keys that parts are made of"),
    OPT_U32("diversity_files", diversity_files, BOTH | ORDER, 1, "as it comes",
            "at least so many distinct files in every whole batch over all ranks"),
    OPT_U32("max_superbatch_batches", max_superbatch_batches, BOTH | ORDER, 2, "as it comes",
            "at most so many batches in a row from one superbatch"),
    OPT_U64("batch_elements", batch_elements, BOTH | ORDER, 1, "batches of batch_size samples",
            "batches of whole samples up to so many rows in all"),
    OPT_U64("bucket_samples", bucket_samples, BOTH | ORDER, 1, "none",
            "so many samples are sorted by length together, so that padding wastes little"),
    OPT_FORM("warmup", no_warmup, FBY_OPTION_BOOL, bool, BOTH | ORDER, "true or false", "true",
             "the first superbatches of an epoch are smaller, so that the first batch comes early", .least = 0),
    OPT_U32("local_world_size", local_world_size, IN_FILE, 1, "world_size", "ranks on this host, which share its memory"),
    OPT_U64("slow_next_ms", slow_next_ms, BOTH, 1, "50",
            "a wait for a batch that is longer is logged with its cause; first batches of epochs are not"),
    OPT_END,
};
#undef STRUCT

/*
 * Where a field is named as one of fby_loader_opts and has its type, it is what was asked for, and nothing else sets it. Help is what
 * messages say of those that are compared by themselves: "saved with <help> 3".
 */
#define ALONE (ORDER | LATER)
#define STRUCT fby_loader_state
const fby_option fby__state_table[] = {
    OPT_U32("version", version, 0, 0, "", "FBY_STATE_VERSION"),
    OPT_U32("world_size", world_size, 0, 0, "", "ranks"),
    OPT_CHOICE("shuffle", shuffle, fby_shuffle_kind, 0, fby__shuffle_words, "", "shuffle in effect"),
    OPT_CHOICE("tail", tail, fby_tail_kind, 0, fby__tail_words, "", "tail in effect"),
    OPT_U64("epoch", epoch, 0, 0, "", "the epoch"),
    OPT_U64("batch", batch, 0, 0, "", "the batch that comes next"),
    OPT_U64("seed", seed, ORDER, 0, "", "seed"),
    OPT_U64("global_batch", global_batch, 0, 0, "", "samples a batch of all ranks"),
    OPT_U64("superbatch", superbatch_samples, ORDER | FBY_OPTION_OF_SUPERBATCH, 0, "", "a superbatch in samples of"),
    OPT_U64("rows", n_rows, 0, 0, "", "rows of the data set"),
    OPT_U64("files", n_files, 0, 0, "", "its files"),
    OPT_U64("blocks", n_blocks, 0, 0, "", "its blocks"),
    OPT_U64("samples", n_samples, 0, 0, "", "samples"),
    OPT_U64("samples_hash", samples, 0, 0, "", "a hash of how many each block has"),
    OPT_OTHER("hashes", files, 0, "bytes", "", "hashes of runs of files"),
    OPT_CHARS("identity", identity, 0, "the data set's identity"),
    OPT_CHARS("fingerprint", fingerprint, 0, "the data set's fingerprint"),
    OPT_U32("part_files", part_files, LATER, 0, "", "files a part"),
    OPT_U32("n_parts", n_parts, LATER, 0, "", "parts"),
    OPT_U32("diversity_files", diversity_files, ALONE | FBY_OPTION_OF_SUPERBATCH, 0, "", "distinct files in every batch (0 = as it comes)"),
    OPT_U32("max_superbatch_batches", max_superbatch_batches, ALONE | FBY_OPTION_OF_SUPERBATCH, 0, "",
            "batches at most from a superbatch (0 = as it comes)"),
    OPT_U64("batch_elements", batch_elements, ALONE, 0, "", "rows a batch (0 = batches of one size)"),
    OPT_U64("bucket_samples", bucket_samples, ALONE, 0, "", "samples sorted by length together (0 = none)"),
    OPT_U32("streams", streams, ORDER, 0, "", "streams in effect"),
    OPT_U32("part_keys", part_keys, LATER, 0, "", "keys a part"),
    OPT_U64("part_keys_hash", part_keys_hash, LATER, 0, "", "of parts by key, which samples have which"),
    OPT_CHARS("contents", contents, LATER, "the fingerprint without the files' times"),
    OPT_U64("inodes", inodes, LATER, 0, "", "a hash of the files' inodes"),
    OPT_BOOL("no_warmup", no_warmup, ALONE | FBY_OPTION_OF_SUPERBATCH, "warm-up left out (1) or not (0):"),
    OPT_END,
};
#undef STRUCT

#define COUNT(word, m) OPT_U64(word, m, IN_PYTHON, 0, "", "")
#define COUNT32(word, m) OPT_U32(word, m, IN_PYTHON, 0, "", "")
#define NUMBER(word, m) OPT_DOUBLE(word, m, IN_PYTHON, "", "")
#define STRUCT fby_report
const fby_option fby__report_table[] = {
    COUNT("epochs_begun", epochs_begun),
    COUNT("batches", batches),
    COUNT("samples", samples),
    COUNT("bytes_read", bytes_read),
    COUNT("bytes_decompressed", bytes_decompressed),
    COUNT("bytes_decoded", bytes_decoded),
    COUNT("bytes_delivered", bytes_delivered),
    COUNT("blocks_read", blocks_read),
    COUNT("blocks_from_cache", blocks_from_cache),
    COUNT("blocks_evicted", blocks_evicted),
    COUNT("elapsed_ns", elapsed_ns),
    COUNT("first_batch_ns", first_batch_ns),
    COUNT("read_ns", read_ns),
    COUNT("decompress_ns", decompress_ns),
    COUNT("decode_ns", decode_ns),
    COUNT("assemble_ns", assemble_ns),
    COUNT("transform_ns", transform_ns),
    COUNT("wait_ns", wait_ns),
    COUNT("work_ns", work_ns),
    COUNT("consumer_cpu_ns", consumer_cpu_ns),
    COUNT("worker_cpu_ns", worker_cpu_ns),
    COUNT("wait_p50_ns", wait_p50_ns),
    COUNT("wait_p95_ns", wait_p95_ns),
    COUNT("wait_p99_ns", wait_p99_ns),
    COUNT("wait_max_ns", wait_max_ns),
    COUNT("budget_bytes", budget_bytes),
    COUNT("budget_peak_bytes", budget_peak_bytes),
    COUNT("budget_minimum_bytes", budget_minimum_bytes),
    COUNT("batches_out", batches_out),
    COUNT("batches_out_bytes", batches_out_bytes),
    COUNT("superbatch_samples", superbatch_samples),
    COUNT32("streams", streams),
    COUNT32("threads", n_threads),
    COUNT("dropped", n_dropped),
    COUNT("wrapped", n_wrapped),
    COUNT32("parts", n_parts),
    COUNT("slice_samples", slice_samples),
    NUMBER("reads_per_block", reads_per_block),
    COUNT("epoch_bytes", epoch_bytes),
    NUMBER("files_per_batch", files_per_batch),
    NUMBER("files_per_batch_uniform", files_per_batch_uniform),
    COUNT("files_per_batch_least", files_per_batch_least),
    NUMBER("padding", padding),
    NUMBER("padding_unsorted", padding_unsorted),
    NUMBER("same_block", same_block),
    NUMBER("same_block_uniform", same_block_uniform),
    NUMBER("entropy_bits", entropy_bits),
    NUMBER("entropy_bits_uniform", entropy_bits_uniform),
    OPT_TEXT("io_engine", io_engine, IN_PYTHON, "", ""),
    OPT_CHARS("verdict", verdict, IN_PYTHON, ""),
    OPT_CHARS("mixing", mixing, IN_PYTHON, ""),
    COUNT("memory_available_bytes", memory_available_bytes),
    COUNT("memory_limit_bytes", memory_limit_bytes),
    OPT_CHARS("memory_limit", memory_limit, IN_PYTHON, ""),
    OPT_CHOICE("limit", limit, fby_limit, IN_PYTHON, LIMIT, "", ""),
    NUMBER("confidence", confidence),
    OPT_CHARS("reason", reason, IN_PYTHON, ""),
    OPT_OTHER("cures", cures, IN_PYTHON, "list", "", ""),
    OPT_OTHER("cures", n_cures, 0, "list", "", ""),
    OPT_OTHER("epochs", n_epochs, IN_PYTHON, "list", "", ""),
    COUNT32("cpus", n_cpus),
    COUNT("transfer_ns", transfer_ns),
    COUNT("gap_ns", gap_ns),
    COUNT("first_batches_ns", first_batches_ns),
    COUNT("first_step_ns", first_step_ns),
    COUNT("reading_ns", reading_ns),
    COUNT("memory_wait_ns", memory_wait_ns),
    COUNT("process_cpu_ns", process_cpu_ns),
    COUNT("overlap_bytes", overlap_bytes),
    COUNT("keep_all_bytes", keep_all_bytes),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_cure
const fby_option fby__cure_table[] = {
    OPT_CHARS("change", change, IN_PYTHON, ""),
    OPT_CHARS("why", why, IN_PYTHON, ""),
    NUMBER("samples_per_second", samples_per_second),
    NUMBER("factor", factor),
    OPT_END,
};
#undef STRUCT

#define STRUCT fby_epoch
const fby_option fby__epoch_table[] = {
    COUNT("epoch", epoch),
    OPT_BOOL("ended", ended, IN_PYTHON, ""),
    OPT_CHOICE("limit", limit, fby_limit, IN_PYTHON, LIMIT, "", ""),
    COUNT("batches", batches),
    COUNT("samples", samples),
    COUNT("elapsed_ns", elapsed_ns),
    COUNT("first_batch_ns", first_batch_ns),
    COUNT("wait_ns", wait_ns),
    COUNT("work_ns", work_ns),
    COUNT("transfer_ns", transfer_ns),
    COUNT("gap_ns", gap_ns),
    COUNT("bytes_read", bytes_read),
    COUNT("bytes_decompressed", bytes_decompressed),
    COUNT("bytes_decoded", bytes_decoded),
    COUNT("bytes_delivered", bytes_delivered),
    COUNT("blocks_read", blocks_read),
    COUNT("blocks_from_cache", blocks_from_cache),
    COUNT("blocks_evicted", blocks_evicted),
    COUNT("reading_ns", reading_ns),
    COUNT("read_ns", read_ns),
    COUNT("decompress_ns", decompress_ns),
    COUNT("decode_ns", decode_ns),
    COUNT("assemble_ns", assemble_ns),
    COUNT("transform_ns", transform_ns),
    COUNT("memory_wait_ns", memory_wait_ns),
    COUNT("worker_cpu_ns", worker_cpu_ns),
    COUNT("consumer_cpu_ns", consumer_cpu_ns),
    OPT_END,
};
#undef STRUCT
