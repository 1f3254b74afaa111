"""Write the golden files of tests/format/test_parquet_reader.c, with pyarrow. The test states the same values by formula.

    python make_reader_golden.py [folder]

Each file is small (≤ 4 KB) and covers what the in-test page writer does not: encodings as a real writer lays them out.
"""
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "parquet")
N = 60


def null(i, v):
    return None if i % 7 == 3 else v


def columns():
    return {
        "i32": pa.array([null(i, i * i * 1000 - 5) for i in range(N)], pa.int32()),
        "i64": pa.array([i * (1 << 57) - (1 << 62) for i in range(N)], pa.int64()),
        "f32": pa.array([null(i, i * 0.25) for i in range(N)], pa.float32()),
        "f64": pa.array([-i * 0.125 for i in range(N)], pa.float64()),
        "flag": pa.array([null(i, i % 3 == 0) for i in range(N)], pa.bool_()),
        "text": pa.array([null(i, "s%d" % (i // 2)) for i in range(N)], pa.string()),
        "fixed": pa.array([b"%03d" % i for i in range(N)], pa.binary(3)),
        "hits": pa.array([None if i % 5 == 4 else [null(k, k) for k in range(i % 4)] for i in range(N)], pa.list_(pa.int16())),
    }


def write(name, encodings, **kw):
    cols = columns()
    table = pa.table({k: cols[k] for k in encodings})
    paths = {k: k + ".list.element" if k == "hits" else k for k in encodings}
    explicit = {paths[k]: e for k, e in encodings.items() if e != "DICTIONARY"}
    path = os.path.join(folder, name)
    pq.write_table(table, path, column_encoding=explicit or None, use_dictionary=[paths[k] for k in encodings if encodings[k] == "DICTIONARY"] or False,
                   store_schema=False, write_statistics=False, **kw)
    assert os.path.getsize(path) <= 4096, (path, os.path.getsize(path))


write("reader_delta_v1.parquet", {"i32": "DELTA_BINARY_PACKED", "i64": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "flag": "RLE",
                                  "fixed": "DELTA_BYTE_ARRAY"}, compression="none", data_page_version="1.0")
write("reader_delta_v2.parquet", {"i32": "DELTA_BINARY_PACKED", "text": "DELTA_LENGTH_BYTE_ARRAY", "flag": "RLE",
                                  "hits": "DELTA_BINARY_PACKED"}, compression="zstd", data_page_version="2.0", data_page_size=100, write_batch_size=16)
write("reader_split.parquet", {"i32": "BYTE_STREAM_SPLIT", "f32": "BYTE_STREAM_SPLIT", "f64": "BYTE_STREAM_SPLIT", "fixed": "BYTE_STREAM_SPLIT"},
      compression="snappy", write_page_checksum=True)
write("reader_dictionary.parquet", {"i32": "DICTIONARY", "f32": "DICTIONARY", "text": "DICTIONARY", "hits": "DICTIONARY", "f64": "DICTIONARY"},
      compression="snappy", data_page_version="2.0", data_page_size=64, write_batch_size=16, dictionary_pagesize_limit=200)
