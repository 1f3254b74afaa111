/* Names of Parquet's encodings, by number (parquet.thrift, enum Encoding). */
#include "format/parquet/parquet.h"

const char *fby_encoding_name(unsigned bit)
{
    static const char *const NAME[] = {
        [FBY__PQ_PLAIN] = "PLAIN",
        [FBY__PQ_PLAIN_DICTIONARY] = "PLAIN_DICTIONARY",
        [FBY__PQ_RLE] = "RLE",
        [FBY__PQ_BIT_PACKED] = "BIT_PACKED",
        [FBY__PQ_DELTA_BINARY_PACKED] = "DELTA_BINARY_PACKED",
        [FBY__PQ_DELTA_LENGTH_BYTE_ARRAY] = "DELTA_LENGTH_BYTE_ARRAY",
        [FBY__PQ_DELTA_BYTE_ARRAY] = "DELTA_BYTE_ARRAY",
        [FBY__PQ_RLE_DICTIONARY] = "RLE_DICTIONARY",
        [FBY__PQ_BYTE_STREAM_SPLIT] = "BYTE_STREAM_SPLIT",
        [10] = "ALP",
    };
    return bit < sizeof NAME / sizeof *NAME && NAME[bit] ? NAME[bit] : "unknown";
}
