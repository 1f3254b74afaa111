/* forebay advise, between its files: what was measured, what machine it is for, what is to be expected there. */
#ifndef CLI_ADVISE_H
#define CLI_ADVISE_H

#include "bench.h"

/** Where the files lie. */
typedef struct advise_storage {
    const char *kind;              /* "NVMe", "SATA SSD", "disk", "NFS", …; static */
    char device[64];               /* "nvme0n1"; "" where there is none */
    double bytes_per_second;       /* of reads that no cache answered, as far as that can be had; INFINITY: too little to tell */
    double first_bytes_per_second; /* the same of however little: opening, and the wait for the first answers, included */
    double cpu_per_byte;           /* seconds of CPU time: the storage's reads cost more than those of the page cache */
    double read_seconds;           /* of one such read */
    uint64_t read_bytes;           /* of one such read, at most */
    uint64_t bytes_read;
} advise_storage;

/**
 * Name the storage of a data set, and read parts of its files, about `read_bytes` at a time, as the loader reads them. Returns CLI_CONTINUE, or the
 * code of an error that was printed.
 */
int advise_storage_measure(const fby_dataset *ds, uint64_t read_bytes, advise_storage *out);

/** Costs of one sample, from a run over some samples. CPU seconds of the workers. */
typedef struct advise_costs {
    double read_cpu, decompress_cpu, decode_cpu, assemble_cpu;
    double stored_bytes, decoded_bytes, delivered_bytes;
    double block_samples; /* of a block, on average */
    double first_batch_seconds;
    double run_seconds, run_decoded, run_delivered; /* of the first epoch, from the page cache, as far as it ran; 0: on another machine */
    double cold_seconds;                            /* of all of it, of files that left the page cache before; 0: it did not run */
    uint64_t samples, batch_samples;
    uint64_t superbatch_samples;                         /* of all ranks; 0: no batch waits for one */
    uint64_t least_bytes, overlap_bytes, keep_all_bytes; /* budgets: the minimum; without a stall; with which nothing is read twice */
} advise_costs;

/** What is to be planned for. */
typedef struct advise_machine {
    double threads, ranks, work_seconds;
    uint64_t memory_bytes;                                                         /* of all limits, for all ranks and the page cache */
    double storage_bytes_per_second, first_bytes_per_second, storage_cpu_per_byte; /* as of advise_storage */
} advise_machine;

/** What is to be expected of one rank. Samples a second; INFINITY where nothing limits. */
typedef struct advise_expected {
    double cpu, storage, work; /* each alone, after the first epoch */
    double rate;               /* together, after the first epoch */
    double first_rate;         /* in it, of cold files */
    double first_cached_rate;  /* in it, of files that are in the page cache */
    double kept, page_cache;   /* shares of the blocks that stay decoded; of the reads that the page cache answers */
    const char *limit;         /* the word of a fby_limit */
    uint64_t budget_bytes;     /* of one rank: advise_budget */
    bool fits;                 /* that is no less than the least one: a loader takes it */
    double epoch_seconds;      /* after the first one */
} advise_expected;

/** Pure. `times`: the data are so many times as large. */
advise_expected advise_expect(const advise_costs *costs, const advise_machine *machine, double times);

/** Pure: what to expect of these data packed as Arrow files without a codec, whose rows are used as they lie; outputs: of samples as delivered. */
advise_expected advise_expect_packed(const advise_costs *costs, const advise_machine *machine, bool outputs);

/** Pure: the budget of one rank, in whole MiB, at most 70 % of the memory for all ranks, where the data are so many times as large. */
uint64_t advise_budget(const advise_costs *costs, const advise_machine *machine, double times);

/** What is wrong with how the files are written: owned texts. */
typedef struct advise_notes {
    char **texts;
    size_t n;
    bool packing; /* one of them is what packing cures */
} advise_notes;

/** How to pack what paths lead to, such that samples stay what they are. All borrowed. */
typedef struct advise_packing {
    char *const *paths;
    size_t n_paths;
    const char
        *series;  /* windows: the column each of whose values has files of its own, where rows keep their order; NULL = rows are mixed */
    bool outputs; /* groups, and other windows: they are packed themselves, as the pipeline file, the one path, makes them */
    const char *split; /* of that file; NULL = its own choice */
    const cli_list *set;
} advise_packing;

/** pipeline, samples: NULL = rows of data. */
advise_packing advise_packing_of(char *const *paths, size_t n_paths, const fby_pipeline *pipeline, const fby_samples *samples,
                                 const char *split, const cli_list *set);
/** The command, for a shell, behind what is in *out. */
void advise_add_pack_command(cli_text *out, const advise_packing *packing);

/** samples: of a pipeline file; NULL = rows. */
void advise_layout(fby_dataset *ds, const fby_samples *samples, const advise_packing *packing, const advise_costs *costs,
                   advise_notes *out);
void advise_notes_free(advise_notes *notes);

/**
 * Write a copy of a pipeline file with these settings, to a name that is not there yet. superbatch: 0 = as it is. CLI_OK, or the code of an error
 * that was printed.
 */
int advise_write(const fby_pipeline *pipeline, const char *from, const char *to, uint64_t memory_bytes, uint64_t threads,
                 uint64_t superbatch);

#endif
