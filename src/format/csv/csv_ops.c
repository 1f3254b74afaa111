/*
 * CSV as a format: the table of operations, and how to know a file, which is by its name: text has no signature. So it never bids, and is
 * asked last, when no other format knows the content.
 */
#include "base/checked.h"
#include "format/csv/csv.h"

#include <stdio.h>
#include <strings.h>

#define PROBE_BYTES 4096u

static int csv_bid(fby__bytes head, fby__bytes tail)
{
    (void)head;
    (void)tail;
    return 0;
}

bool fby__csv_named(const char *path)
{
    static const char *const SUFFIXES[] = {".csv", ".tsv", ".csv.gz", ".tsv.gz"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof SUFFIXES / sizeof *SUFFIXES; i++) {
        size_t m = strlen(SUFFIXES[i]);
        if (n > m && strcasecmp(path + n - m, SUFFIXES[i]) == 0)
            return true;
    }
    return false;
}

/* Text has no NUL bytes, unless it is UTF-16: that is ours to refuse with a reason. */
static bool csv_probe(fby__file *file)
{
    uint8_t head[PROBE_BYTES];
    size_t n = (size_t)fby__min_u64(fby__file_stamp_of(file)->size_bytes, sizeof head);
    if (!fby__csv_named(fby__file_path(file)) || n == 0 || fby__file_read(file, 0, head, n, NULL) != FBY_OK)
        return false;
    if (n >= 2 && ((head[0] == 0x1f && head[1] == 0x8b) || (head[0] == 0xff && head[1] == 0xfe) || (head[0] == 0xfe && head[1] == 0xff)))
        return true;
    return memchr(head, 0, n) == NULL;
}

static bool csv_note(const fby__table *table, uint32_t i, char *out, size_t n)
{
    if (i > 0 || !fby__csv(table)->numbers_for_names)
        return false;
    (void)snprintf(out, n, "the first line, which names the columns, holds nothing but numbers, such as '%s'",
                   table->schema->fields[0].children[0].name); /* a cut note is still a note */
    return true;
}

const fby__format_ops fby__csv_ops = {
    .name = "csv",
    .bid = csv_bid,
    .probe = csv_probe,
    .open = fby__csv_open,
    .freeze = fby__csv_freeze,
    .thaw = fby__csv_thaw,
    .destroy = fby__csv_destroy,
    .leaf_bounds = fby__csv_leaf_bounds,
    .locate = fby__csv_locate,
    .decode_panel = fby__csv_decode_panel,
    .decode_arrow = fby__csv_decode_arrow,
    .describe = fby__csv_describe,
    .note = csv_note,
    .retype = fby__csv_retype,
    .number_text = fby__csv_number_text,
};
