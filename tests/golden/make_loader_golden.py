"""Make the small Parquet files of tests/golden/loader: what the loader's tests copy into their datasets. Needs pyarrow.

Row i of every rows_*.parquet holds what tests/support/loader_fixture.h expects of it:
    id i · x i/2, missing where i % 7 = 3 · n i % 1000 · word "w<i>", missing where i % 11 = 5 · hits i % 4 values i, i + 1, …,
    missing where i % 5 = 4
Row i of wide.parquet: c<k> = i // 64 % 500 + k.

    python tests/golden/make_loader_golden.py
"""

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).parent / "loader"
LIMIT_BYTES = 64 * 1024


def write(name, table, **options):
    path = OUT / name
    pq.write_table(table, path, **({"store_schema": False, "write_statistics": False} | options))
    size = path.stat().st_size
    assert size <= LIMIT_BYTES, f"{name} has {size} bytes"
    print(f"{size:6d}  {name}")


def rows(n):
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "x": pa.array([None if i % 7 == 3 else i / 2 for i in range(n)], pa.float32()),
            "n": pa.array([i % 1000 for i in range(n)], pa.int16()),
            "word": pa.array([None if i % 11 == 5 else f"w{i}" for i in range(n)], pa.string()),
            "hits": pa.array([None if i % 5 == 4 else list(range(i, i + i % 4)) for i in range(n)], pa.list_(pa.int32())),
        }
    )


def wide(n, columns):
    base = np.arange(n) // 64 % 500
    return pa.table({f"c{k}": pa.array((base + k).astype(np.float32)) for k in range(columns)})


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    write("rows_none.parquet", rows(60), row_group_size=25, compression="none")
    write("rows_snappy.parquet", rows(60), row_group_size=25, compression="snappy")
    write("rows_gzip.parquet", rows(60), row_group_size=25, compression="gzip", use_dictionary=False)
    write("rows_zstd.parquet", rows(60), row_group_size=25, compression="zstd", data_page_version="2.0", use_dictionary=False,
          column_encoding={"id": "DELTA_BINARY_PACKED", "x": "BYTE_STREAM_SPLIT", "n": "PLAIN", "word": "DELTA_BYTE_ARRAY"})
    write("rows_lz4.parquet", rows(60), row_group_size=25, compression="lz4", data_page_size=1, write_batch_size=10)
    write("rows_brotli.parquet", rows(60), row_group_size=25, compression="brotli", write_page_index=True)
    write("rows_one_group.parquet", rows(33), compression="snappy")
    write("rows_one_row.parquet", rows(1), compression="none")
    write("rows_tiny.parquet", rows(8), compression="snappy", write_page_checksum=True)
    write("wide.parquet", wide(50_000, 16), compression="zstd", row_group_size=50_000, use_dictionary=True)


if __name__ == "__main__":
    main()
