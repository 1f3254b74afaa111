/*
 * The one pass over a CSV file when it is opened: dialect, names, types of all cells, where the groups begin.
 *
 * A plain file goes through a window that moves along; a gzip file is inflated whole. Everything that a later read relies on is checked
 * here: numbers of fields, UTF-8, quotes. Errors name the line.
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "format/csv/csv.h"

#include <stdio.h>
#include <strings.h>

#define WINDOW_BYTES ((size_t)1 << 20)

typedef struct reader {
    fby__file *file;
    fby__buf text; /* of a gzip file all, else what lies at `offset` of the file */
    size_t at;     /* in the text: where the next record begins */
    size_t begin;  /* and the one at hand; see next_record */
    uint64_t begin_line;
    uint64_t offset, total;
    bool gzip, last; /* last: the text ends where the file ends */
    fby__csv_scanner scanner;
    fby__csv_cell *cells; /* n_columns */
    uint32_t n_columns;
    fby__buf names; /* one behind the other */
    uint32_t *name_bytes;
    bool numbers_for_names;
    unsigned *classes; /* n_columns: of the cells so far */
    uint64_t *padded;  /* n_columns: the line of the first FBY__CSV_PADDED or BIG cell, */
    uint64_t *longest; /* and that of the first LONG one; 0 = none so far */
    fby__csv_position *positions;
    fby__csv_stat *stats;
    uint64_t *rows; /* of each group */
    size_t cap_positions, cap_stats, cap_rows;
    uint32_t n_groups;
} reader;

static void reader_fini(reader *r)
{
    fby__buf_fini(&r->text);
    fby__buf_fini(&r->names);
    fby__free(r->name_bytes);
    fby__free(r->cells);
    fby__free(r->classes);
    fby__free(r->padded);
    fby__free(r->longest);
    fby__free(r->positions);
    fby__free(r->stats);
    fby__free(r->rows);
    if (r->gzip)
        fby__alloc_trim(); /* all of the text, and what it grew from */
}

static uint64_t here(const reader *r) { return r->offset + r->at; }

static fby_status fail_line(const reader *r, fby_error *err, uint64_t line, const char *what)
{
    return fby__fail_at(err, FBY_E_FORMAT, here(r), "'%s', line %llu: %s", fby__file_path(r->file), (unsigned long long)line, what);
}

/* ---- text ---- */

static fby_status open_gzip(reader *r, uint64_t file_bytes, fby_error *err)
{
    const char *path = fby__file_path(r->file);
    if (file_bytes > FBY__CSV_GZIP_BYTES)
        return fby__fail(err, FBY_E_UNSUPPORTED,
                         "'%s' has more than %zu MiB, which have to be in memory: gunzip it, or convert it to "
                         "Parquet",
                         path, FBY__CSV_GZIP_BYTES >> 20);
    fby__buf stored = {.data = fby__malloc((size_t)file_bytes), .n = (size_t)file_bytes, .cap = (size_t)file_bytes};
    if (!stored.data)
        return fby__fail_nomem(err, "a gzip file");
    fby_status status = fby__file_read(r->file, 0, stored.data, stored.n, err);
    if (status == FBY_OK) {
        status = fby__csv_gunzip(&stored, FBY__CSV_GZIP_BYTES - 1, &r->text, err);
        if (status != FBY_OK)
            fby__error_context(err, "'%s'", path);
    }
    fby__buf_fini(&stored);
    r->gzip = r->last = true;
    r->total = r->text.n;
    return status;
}

/* More of a plain file behind what is left of the window. */
static fby_status refill(reader *r, fby_error *err)
{
    FBY__TRY(fby__cancel_check(err));
    size_t kept = r->text.n - r->at, want = 2 * kept > WINDOW_BYTES ? 2 * kept : WINDOW_BYTES;
    if (kept > FBY__CSV_RECORD_BYTES)
        return fail_line(r, err, r->scanner.next_line, "the record has more than 64 MiB; is a quote not closed?");
    if (kept)
        memmove(r->text.data, r->text.data + r->at, kept);
    r->offset += r->at;
    r->text.n = kept;
    r->at = 0;
    want = kept + (size_t)fby__min_u64(want - kept, r->total - r->offset - kept);
    if (fby__grow((void **)&r->text.data, &r->text.cap, want + 1, 1) != 0) /* never NULL */
        return fby__fail_nomem(err, "reading a CSV file");
    FBY__TRY(fby__file_read(r->file, r->offset + kept, r->text.data + kept, want - kept, err));
    r->text.n = want;
    r->last = r->offset + want == r->total;
    return FBY_OK;
}

/* The next record; *out_end when there is none. r->begin is then where it begins, or blank lines before it, r->begin_line that line. */
static fby_status next_record(reader *r, fby__csv_cell *cells, uint32_t cap, bool *out_end, fby_error *err)
{
    for (;;) {
        r->begin = r->at;
        r->begin_line = r->scanner.next_line;
        fby__csv_result result = fby__csv_next(&r->scanner, r->text.data, r->text.n, &r->at, r->last, cells, cap);
        *out_end = result == FBY__CSV_END;
        switch (result) {
        case FBY__CSV_RECORD:
        case FBY__CSV_END: return FBY_OK;
        case FBY__CSV_AFTER_QUOTE:
            return fail_line(r, err, r->scanner.line,
                             "something follows the closing quote of a field; a quote inside quotes is "
                             "written twice");
        case FBY__CSV_OPEN_QUOTE:
            return fail_line(r, err, r->scanner.line, "the file ends inside a quoted field of the record that begins here");
        case FBY__CSV_MORE: FBY__TRY(refill(r, err));
        }
    }
}

static bool ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && strcasecmp(path + n - m, suffix) == 0;
}

static fby_status begin(reader *r, fby_error *err)
{
    const char *path = fby__file_path(r->file);
    uint64_t bytes = fby__file_stamp_of(r->file)->size_bytes;
    uint8_t head[2] = {0, 0};
    if (bytes >= 2)
        FBY__TRY(fby__file_read(r->file, 0, head, 2, err));
    if (head[0] == 0x1f && head[1] == 0x8b) {
        FBY__TRY(open_gzip(r, bytes, err));
    } else {
        r->total = bytes;
        FBY__TRY(refill(r, err));
    }
    const uint8_t *p = r->text.data;
    size_t n = r->text.n;
    if (n >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff)))
        return fby__fail(err, FBY_E_UNSUPPORTED, "'%s' is UTF-16 text; save it as UTF-8", path);
    r->at = n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    uint8_t delimiter = ends_with(path, ".tsv") || ends_with(path, ".tsv.gz") ? '\t' : fby__csv_sniff(p + r->at, n - r->at);
    fby__csv_scanner_init(&r->scanner, delimiter, 1);
    return FBY_OK;
}

/* ---- the first record ---- */

/* Find the names: r->cells of the record at r->begin. */
static fby_status read_header(reader *r, fby_error *err)
{
    bool end;
    FBY__TRY(next_record(r, NULL, 0, &end, err)); /* how many there are */
    if (end)
        return fail_line(r, err, 1, "nothing is there; a CSV file begins with the names of its columns");
    uint32_t n = r->scanner.n_fields;
    if (n > FBY__CSV_MAX_COLUMNS)
        return fail_line(r, err, r->scanner.line, "more than 65,536 columns");
    r->cells = fby__calloc(n, sizeof *r->cells);
    r->classes = fby__calloc(n, sizeof *r->classes); /* FBY__CSV_NULL */
    r->padded = fby__calloc(n, sizeof *r->padded);
    r->longest = fby__calloc(n, sizeof *r->longest);
    r->name_bytes = fby__calloc(n, sizeof *r->name_bytes);
    if (!r->cells || !r->classes || !r->padded || !r->longest || !r->name_bytes)
        return fby__fail_nomem(err, "the columns of a CSV file");
    r->n_columns = n;
    fby__csv_scanner again = r->scanner;
    size_t at = r->begin;
    (void)fby__csv_next(&again, r->text.data, r->text.n, &at, r->last, r->cells, n); /* as before */
    return FBY_OK;
}

/* The header's names, one behind the other; a column without one is "Unnamed: 3", as pandas calls it. */
static fby_status keep_names(reader *r, fby_error *err)
{
    r->numbers_for_names = true;
    for (uint32_t c = 0; c < r->n_columns; c++) {
        fby__csv_cell cell = r->cells[c];
        uint32_t n = fby__csv_cell_n(cell);
        char unnamed[32];
        int64_t value;
        if (fby__grow((void **)&r->names.data, &r->names.cap, r->names.n + n + sizeof unnamed, 1) != 0)
            return fby__fail_nomem(err, "the columns of a CSV file");
        uint8_t *name = r->names.data + r->names.n;
        size_t length = fby__csv_copy(r->text.data, cell, name);
        if (length == 0)
            length = (size_t)snprintf((char *)name, sizeof unnamed, "Unnamed: %u", c);
        else if (!fby__schema_text_valid((const char *)name, length))
            return fail_line(r, err, r->scanner.line, "a column's name is not UTF-8");
        r->numbers_for_names &= n > 0 && (fby__csv_classify(name, length, &value) & FBY__CSV_NUMBERS);
        r->names.n += length;
        r->name_bytes[c] = (uint32_t)length;
    }
    return FBY_OK;
}

/* ---- the rest ---- */

static fby_status begin_group(reader *r, fby_error *err)
{
    uint32_t g = r->n_groups;
    size_t stats;
    if (g == UINT32_MAX || !fby__mul_checked((size_t)g + 1, r->n_columns, &stats) ||
        fby__grow((void **)&r->positions, &r->cap_positions, (size_t)g + 1, sizeof *r->positions) != 0 ||
        fby__grow((void **)&r->rows, &r->cap_rows, (size_t)g + 1, sizeof *r->rows) != 0 ||
        fby__grow((void **)&r->stats, &r->cap_stats, stats, sizeof *r->stats) != 0)
        return fby__fail_nomem(err, "the metadata of a CSV file");
    r->positions[g] = (fby__csv_position){.offset = r->offset + r->begin, .line = r->begin_line};
    r->rows[g] = 0;
    memset(r->stats + (size_t)g * r->n_columns, 0, r->n_columns * sizeof *r->stats);
    r->n_groups++;
    return FBY_OK;
}

static fby_status look_at(reader *r, uint32_t c, fby__csv_stat *stat, fby_error *err)
{
    fby__csv_cell cell = r->cells[c];
    uint32_t n = fby__csv_cell_n(cell);
    const uint8_t *p = r->text.data + cell.at;
    stat->bytes += n;
    if (n == 0 && !(cell.n_flags & FBY__CSV_QUOTED)) {
        stat->nulls++;
        return FBY_OK;
    }
    int64_t value;
    unsigned found = FBY__CSV_STRING;
    if (!(r->classes[c] & FBY__CSV_STRING) && !(cell.n_flags & FBY__CSV_DOUBLED))
        found = fby__csv_classify(p, n, &value);
    r->classes[c] |= found;
    if ((found & (FBY__CSV_PADDED | FBY__CSV_BIG)) && !r->padded[c])
        r->padded[c] = r->scanner.line;
    if (found == FBY__CSV_LONG && !r->longest[c])
        r->longest[c] = r->scanner.line;
    if (found != FBY__CSV_STRING || fby__schema_text_valid((const char *)p, n))
        return FBY_OK;
    char what[100];
    (void)snprintf(what, sizeof what, "field %u is not UTF-8 text; iconv converts other encodings", c + 1);
    return fail_line(r, err, r->scanner.line, what);
}

static fby_status read_records(reader *r, fby_error *err)
{
    uint64_t group_bytes = r->gzip ? fby__max_u64(FBY__CSV_GROUP_BYTES, r->total / FBY__CSV_GZIP_GROUPS) : FBY__CSV_GROUP_BYTES;
    uint64_t group_rows = r->gzip ? UINT64_MAX : FBY__CSV_GROUP_ROWS;
    for (uint64_t n = 0;; n++) {
        bool end;
        if (n % FBY__CSV_ASK_RECORDS == 0) /* text that is in memory is never refilled */
            FBY__TRY(fby__cancel_check(err));
        FBY__TRY(next_record(r, r->cells, r->n_columns, &end, err));
        if (end)
            return FBY_OK;
        if (r->scanner.n_fields != r->n_columns) {
            char what[100];
            (void)snprintf(what, sizeof what, "%u field%s where the first line has %u", r->scanner.n_fields,
                           r->scanner.n_fields == 1 ? "" : "s", r->n_columns);
            return fail_line(r, err, r->scanner.line, what);
        }
        uint32_t g = r->n_groups - 1;
        if (r->n_groups == 0 || r->rows[g] >= group_rows || r->positions[g].n >= group_bytes) {
            FBY__TRY(begin_group(r, err));
            g = r->n_groups - 1;
        }
        r->positions[g].n = here(r) - r->positions[g].offset;
        r->rows[g]++;
        for (uint32_t c = 0; c < r->n_columns; c++)
            FBY__TRY(look_at(r, c, &r->stats[(size_t)g * r->n_columns + c], err));
    }
}

static fby_status make_schema(const reader *r, fby__schema **out, fby_error *err)
{
    fby__schema_element *elements = fby__calloc((size_t)r->n_columns + 1, sizeof *elements);
    if (!elements)
        return fby__fail_nomem(err, "the columns of a CSV file");
    elements[0] = (fby__schema_element){.name = "", .n_children = r->n_columns, .field = {.kind = FBY_KIND_STRUCT}};
    const char *name = (const char *)r->names.data;
    for (uint32_t c = 0; c < r->n_columns; c++) {
        fby__schema_element *e = &elements[c + 1];
        *e = (fby__schema_element){.name = name, .name_n = r->name_bytes[c]};
        e->physical = (int32_t)fby__csv_type(r->classes[c], &e->field);
        name += r->name_bytes[c];
    }
    fby_status status = fby__schema_create(elements, (size_t)r->n_columns + 1, out, err);
    fby__free(elements);
    return status;
}

static fby_status make_table(reader *r, fby__csv_table **out, fby_error *err)
{
    fby__schema *schema;
    fby__csv_table *table;
    FBY__TRY(make_schema(r, &schema, err));
    fby_status status = fby__csv_table_create(schema, &table, err);
    fby__schema_unref(schema);
    FBY__TRY(status);
    table->base.groups = fby__calloc(r->n_groups, sizeof *table->base.groups);
    if (!table->base.groups) {
        fby__csv_destroy(&table->base);
        return fby__fail_nomem(err, "a CSV table");
    }
    table->delimiter = r->scanner.delimiter;
    table->gzip = r->gzip;
    table->numbers_for_names = r->numbers_for_names;
    table->file_bytes = fby__file_stamp_of(r->file)->size_bytes;
    table->text_bytes = r->total;
    table->base.n_groups = r->n_groups;
    table->positions = r->positions;
    table->stats = r->stats;
    table->lines = r->padded;
    for (uint32_t c = 0; c < r->n_columns; c++)
        table->lines[c] = r->padded[c] ? r->padded[c] : r->longest[c];
    r->positions = NULL;
    r->stats = NULL;
    r->padded = NULL;
    for (uint32_t g = 0; g < r->n_groups; g++)
        table->base.groups[g].rows = r->rows[g];
    if (!fby__csv_table_sum(table)) {
        fby__csv_destroy(&table->base);
        return fby__fail(err, FBY_E_INTERNAL, "'%s': the groups of a CSV file do not add up", fby__file_path(r->file));
    }
    *out = table;
    return FBY_OK;
}

fby_status fby__csv_open(fby__file *file, const fby__format_opts *opts, fby__table **out, fby_error *err)
{
    (void)opts; /* a CSV file is one table */
    reader r = {.file = file};
    fby__csv_table *table = NULL;
    fby_status status = begin(&r, err);
    if (status == FBY_OK)
        status = read_header(&r, err);
    if (status == FBY_OK)
        status = keep_names(&r, err);
    if (status == FBY_OK)
        status = read_records(&r, err);
    if (status == FBY_OK)
        status = make_table(&r, &table, err);
    reader_fini(&r);
    if (status == FBY_OK)
        *out = &table->base;
    return status;
}
