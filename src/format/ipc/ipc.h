/*
 * Arrow IPC: files (.arrow, .feather version 2) and streams (.arrows), as
 * https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc lays them out.
 *
 *     file     "ARROW1" 2 bytes │ messages │ end of stream │ footer │ i32 its bytes │ "ARROW1"
 *     stream   the schema's message, dictionary batches and record batches │ end of stream
 *     message  ff ff ff ff │ i32 bytes of metadata │ metadata: a flatbuffer, padded │ body: buffers
 *
 *   flatbuffer.c    metadata, every position checked
 *   ipc_schema.c    the schema: as Arrow's C data interface has it, as ours, and the nodes that batches list their figures by
 *   ipc_message.c   messages of batches: where their buffers lie, checked against the schema
 *   ipc_open.c      a file's footer, or a stream from its beginning to its end
 *   ipc_table.c     metadata in memory and in the index cache, sizes
 *   ipc_locate.c    rows of a leaf → byte ranges
 *   ipc_array.c     bytes → arrays, checked, which format/arrow turns into panels and Arrow
 *   ipc_decode.c    the two sinks
 *   ipc_ops.c       the format's vtable, and how a file is known
 *
 * A record batch is a group; those without rows are left out. A buffer lies in the file as it lies in memory, or compressed: then it is
 * read and decompressed whole, whatever rows are asked for, and kept for the blocks that share it. Dictionary batches are read with the
 * record batches that refer to them.
 *
 *   1. What metadata says of a batch is checked once, against the schema and the file's size (fby__ipc_batch_check); lengths of buffers
 *      that follow from numbers of rows need no further check.
 *   2. What bodies say (offsets of lists and strings, views, indices of dictionaries) is checked whenever it is decoded.
 */
#ifndef FBY_FORMAT_IPC_IPC_H
#define FBY_FORMAT_IPC_IPC_H

#include "block/arrow_format.h"
#include "format/format.h"
#include "format/ipc/flatbuffer.h"

#define FBY__IPC_NONE UINT32_MAX
#define FBY__IPC_LENGTH_BYTES 8u /* before each compressed buffer: how many bytes it holds; -1 = it is as it is */

/** A node of the schema, depth first: in this order batches list lengths and buffers. */
typedef struct fby__ipc_node {
    fby__arrow_format format;         /* of its buffers: of a dictionary's indices, where it has one */
    const struct ArrowSchema *schema; /* borrowed from the table's */
    uint32_t parent;                  /* FBY__IPC_NONE: it is a column */
    uint32_t n_below;                 /* nodes from here on that belong to it, itself included */
    uint32_t first_leaf, n_leaves;
    uint32_t first_buffer; /* not counting those that views add */
    uint32_t first_view;   /* nodes of views before it */
    uint32_t dictionary;   /* index in the table's; FBY__IPC_NONE = none */
} fby__ipc_node;

typedef struct fby__ipc_dictionary {
    int64_t id;
    const struct ArrowSchema *schema; /* of its values; borrowed */
    fby__arrow_format format;
} fby__ipc_dictionary;

/** Length and nulls of a node in a batch. */
typedef struct fby__ipc_length {
    uint64_t n, nulls;
} fby__ipc_length;

typedef struct fby__ipc_buffer {
    uint64_t offset, n; /* in the body, as stored */
    uint64_t plain;     /* bytes that it holds: n, unless it is compressed */
} fby__ipc_buffer;

/** A record batch, or a dictionary batch: one of a single node. */
typedef struct fby__ipc_batch {
    uint64_t at;   /* of the message, in the file */
    uint64_t body; /* of its body */
    uint64_t body_bytes;
    uint64_t rows;
    uint64_t first_length;  /* in the table's */
    uint64_t first_buffer;  /* in the table's */
    uint64_t n_buffers;     /* with those that views add */
    uint32_t number;        /* of the message, for messages */
    uint32_t codec;         /* fby__codec_id */
    uint32_t dictionary;    /* of a dictionary batch: index in the table's */
    uint32_t before;        /* the dictionary batch that it adds to; FBY__IPC_NONE = it is the first, or replaces others */
    uint64_t values_before; /* of a dictionary batch: those of the ones that it adds to */
} fby__ipc_batch;

typedef struct fby__ipc_table {
    fby__table base;
    bool is_stream, no_end; /* no_end: a stream that stops without saying so */
    uint64_t file_bytes;
    fby__buf metadata;         /* the flatbuffer that holds the schema: the footer's, or the first message's */
    struct ArrowSchema schema; /* owned */
    fby__ipc_node *nodes;      /* owned, as all arrays below */
    uint32_t n_nodes, n_views, n_fixed_buffers;
    uint32_t *leaf_nodes; /* of each leaf of the schema */
    fby__ipc_dictionary *dictionaries;
    uint32_t n_dictionaries;
    fby__ipc_batch *batches; /* base.n_groups */
    fby__ipc_batch *dictionary_batches;
    uint32_t n_dictionary_batches;
    /* [(group + 1) * n_dictionaries + dictionary]: the newest dictionary batch that the group sees; FBY__IPC_NONE = there is none. In front, those
     * that were read last. */
    uint32_t *last;
    fby__ipc_length *lengths; /* of each batch: of its nodes, then, as n, how many buffers each node of views adds */
    fby__ipc_buffer *buffers;
    size_t n_lengths, n_buffers;
    size_t cap_batches, cap_dictionary_batches, cap_last, cap_lengths, cap_buffers;
} fby__ipc_table;

static inline const fby__ipc_table *fby__ipc(const fby__table *table) { return (const fby__ipc_table *)table; }

/* ---- ipc_schema.c ---- */

/** table->metadata → schema, nodes, dictionaries, base.schema. FBY_E_FORMAT, FBY_E_UNSUPPORTED naming the column, FBY_E_NOMEM. */
fby_status fby__ipc_schema_read(fby__ipc_table *table, fby_error *err);
/** The file's key-value metadata, then its schema's, then its columns'. */
fby_status fby__ipc_contents(fby__file *file, const fby__table *base, fby_contents *out, fby_error *err);
/** The columns' metadata in an encapsulated message with a schema, added behind what `out` holds. FBY_E_FORMAT. */
fby_status fby__ipc_contents_of_message(fby__bytes message, fby_contents *out, fby_error *err);

/* ---- ipc_message.c ---- */

/** What a message is; codes of the format. */
typedef enum fby__ipc_kind { FBY__IPC_SCHEMA = 1, FBY__IPC_DICTIONARY = 2, FBY__IPC_RECORDS = 3 } fby__ipc_kind;

typedef struct fby__ipc_message {
    uint64_t at;          /* in the file */
    uint32_t number;      /* for messages */
    uint64_t body;        /* where it begins */
    uint64_t body_bytes;  /* as the metadata says */
    bool end;             /* the mark at the end of a stream */
    fby__bytes metadata;  /* in the reader's buffer */
    fby__flatbuffer flat; /* over it */
    fby__flat_table header;
    fby__ipc_kind kind;
} fby__ipc_message;

/**
 * Read the metadata of the message at `at`; nothing of it lies at or behind `end`. FBY_E_FORMAT with the message's number and offset,
 * FBY_E_UNSUPPORTED (tensors, versions before 4), FBY_E_IO, FBY_E_NOMEM.
 */
fby_status fby__ipc_message_read(fby__file *file, uint64_t at, uint64_t end, uint32_t number, fby__buf *buffer, fby__ipc_message *out,
                                 fby_error *err);
/** "'x.arrow', message 3 at byte 1,024: …", FBY_E_FORMAT. */
fby_status fby__ipc_damaged(const char *path, uint32_t number, uint64_t at, fby_error *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/** A dictionary batch or record batch, added to the table. What the metadata does not say of compressed buffers is read from the file. */
fby_status fby__ipc_batch_add(fby__ipc_table *table, fby__file *file, fby__ipc_message *message, fby_error *err);
/** Does the batch fit its schema and the file? The reason in *out_why. */
bool fby__ipc_batch_check(const fby__ipc_table *table, const fby__ipc_batch *batch, bool of_dictionary, const char **out_why);
/** Node n of a batch: its first buffer among the table's, and how many it has. */
fby__ipc_buffer *fby__ipc_buffers(const fby__ipc_table *table, const fby__ipc_batch *batch, uint32_t node, uint32_t *out_n);
static inline const fby__ipc_length *fby__ipc_length_of(const fby__ipc_table *table, const fby__ipc_batch *batch, uint32_t node)
{
    return &table->lengths[batch->first_length + node];
}

/* ---- ipc_open.c ---- */

fby_status fby__ipc_open(fby__file *file, const fby__format_opts *opts, fby__table **out, fby_error *err);
bool fby__ipc_probe(fby__file *file);

/* ---- ipc_table.c ---- */

fby_status fby__ipc_table_create(fby__ipc_table **out, fby_error *err);
void fby__ipc_destroy(fby__table *table);
/** groups, and all that follows from the batches; FBY_E_UNSUPPORTED, FBY_E_NOMEM. */
fby_status fby__ipc_table_sum(fby__ipc_table *table, fby_error *err);
fby_status fby__ipc_freeze(const fby__table *table, fby__buf *out, fby_error *err);
fby_status fby__ipc_thaw(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err);
void fby__ipc_leaf_bounds(const fby__table *table, uint32_t group, uint64_t row_begin, uint64_t row_end, uint32_t leaf,
                          fby__leaf_bounds *out);
fby_status fby__ipc_describe(const fby__table *table, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out, fby_error *err);

/* ---- ipc_locate.c ---- */

/**
 * The ranges of a leaf: those of each node on the way to it, from the top, then those of each batch of its dictionary, the newest one first.
 * A range's tag is the first element (of bytes: the first byte) that it holds. Rows that lie in one run as they are wanted come as range[1].
 */
fby_status fby__ipc_locate(const fby__locate_request *q, fby_error *err);
/** Where elements from `first` on begin in the buffers of a node: earlier, where bits are read by the byte. */
static inline uint64_t fby__ipc_base(const fby__ipc_node *node, const fby__ipc_length *length, uint64_t first)
{
    return length->nulls || node->format.storage == FBY__ARROW_BITS ? first & ~UINT64_C(7) : first;
}

/* ---- ipc_array.c ---- */

/** Memory that is given back at once. Small allocations share blocks; what took a thread several blocks is one block the next time. */
typedef struct fby__ipc_space {
    struct fby__ipc_block *blocks; /* owned, newest first */
    size_t bytes;                  /* of all blocks */
    size_t next;                   /* of the next one at least */
} fby__ipc_space;
void *fby__ipc_space_alloc(fby__ipc_space *space, size_t n); /* aligned to 64; NULL when out of memory */
void fby__ipc_space_reset(fby__ipc_space *space);
void fby__ipc_space_fini(fby__ipc_space *space);

/** What arrays are made of. */
typedef struct fby__ipc_source {
    const fby__ipc_table *table;
    const char *file_name;
    uint32_t group;
    const fby__leaf_source **by_leaf; /* of each leaf of the schema: NULL = it is not wanted */
    fby__scratch *scratch;            /* codecs and their time */
    fby__ipc_space *space;            /* for what is made */
    bool copies;                      /* buffers that lie where they were read are copied */
} fby__ipc_source;

/**
 * Elements [begin, end) of a node and what is wanted below it, as an array without owner: of structs, children that are not wanted stay NULL.
 * FBY_E_FORMAT with message, offset and column, FBY_E_NOMEM.
 */
fby_status fby__ipc_array(const fby__ipc_source *s, uint32_t node, uint64_t begin, uint64_t end, struct ArrowArray **out, fby_error *err);

/* ---- ipc_decode.c ---- */

fby_status fby__ipc_decode_panel(const fby__decode *request, fby__scratch *scratch, fby_error *err);
fby_status fby__ipc_decode_arrow(const fby__arrow_request *request, fby__scratch *scratch, struct ArrowArray *out, fby_error *err);

#endif
