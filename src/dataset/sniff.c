/* What a file looks like that no reader knows, by its first and last bytes: for messages only. */
#include "dataset/dataset_impl.h"

static const struct {
    uint8_t n;
    const char *magic;
    const char *what;
} MAGIC[] = {
    {4, "CDF\x01", "a NetCDF-3 file"},
    {4, "CDF\x02", "a NetCDF-3 file"},
    {4, "CDF\x05", "a NetCDF-3 file"},
    {4, "FEA1", "a Feather version 1 file"},
    {4, "PARE", "a Parquet file with an encrypted footer"},
    {3, "ORC", "an ORC file"},
    {4, "Obj\x01", "an Avro file"},
    {6, "\x93NUMPY", "a NumPy array (.npy)"},
    {4, "PK\x03\x04", "a Zip archive (perhaps .npz)"},
    {2, "\x1f\x8b", "a gzip-compressed file"},
    {4, "\x28\xb5\x2f\xfd", "a Zstandard-compressed file"},
    {6,
     "\xfd"
     "7zXZ\0",
     "an xz-compressed file"},
    {3, "BZh", "a bzip2-compressed file"},
    {4, "\x04\x22\x4d\x18", "an LZ4-compressed file"},
    {16, "SQLite format 3\0", "an SQLite database"},
    {4, "\x89PNG", "a PNG image"},
    {4,
     "\x7f"
     "ELF",
     "a program"},
    {4, "GRIB", "a GRIB file"},
    {2, "\x80\x04", "a Python pickle"},
    {2, "\x80\x05", "a Python pickle"},
};

const char *fby__sniff(fby__bytes head, fby__bytes tail, bool *out_known)
{
    *out_known = true;
    for (size_t i = 0; i < sizeof MAGIC / sizeof *MAGIC; i++)
        if (head.n >= MAGIC[i].n && memcmp(head.data, MAGIC[i].magic, MAGIC[i].n) == 0)
            return MAGIC[i].what;
    *out_known = false;
    if (head.n == 0)
        return "an empty file";
    bool parquet_head = head.n >= 4 && memcmp(head.data, "PAR1", 4) == 0;
    if (parquet_head)
        return "a Parquet file whose end is missing (a copy or write that was cut short)";
    if (tail.n >= 4 && memcmp(tail.data + tail.n - 4, "PAR1", 4) == 0)
        return "a Parquet file whose beginning is damaged";
    bool zero = true, text = true, comma = false;
    for (size_t i = 0; i < head.n; i++) {
        uint8_t c = head.data[i];
        zero &= c == 0;
        text &= (c >= 32 && c != 127) || c == '\t' || c == '\n' || c == '\r';
        comma |= c == ',' || c == ';' || c == '\t';
    }
    if (zero)
        return "a file of zero bytes (perhaps a download that was cut short)";
    if (text && (head.data[0] == '{' || head.data[0] == '['))
        return "JSON text";
    if (text && head.data[0] == '<')
        return "HTML or XML text (perhaps a download that failed)";
    if (text)
        return comma ? "CSV or other text (CSV files are known by the names *.csv, *.tsv, *.csv.gz, *.tsv.gz)" : "text";
    return "nothing that a reader knows";
}
