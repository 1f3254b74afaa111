"""Make the small Parquet files under tests/golden/parquet. Their bytes are committed: the C tests need no Python.

Run it only to add a file or to change one on purpose (another pyarrow writes other bytes):
    python tests/golden/make_golden.py
"""

import datetime
import decimal
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).parent / "parquet"
LIMIT_BYTES = 3 * 1024


def write(name, table, **options):
    path = OUT / name
    options = {"store_schema": False, "write_statistics": False, "compression": "none"} | options
    pq.write_table(table, path, **options)
    size = path.stat().st_size
    assert size <= LIMIT_BYTES, f"{name} has {size} bytes"
    print(f"{size:5d}  {name}")


def flat(n):
    return pa.table(
        {
            "id": pa.array(range(n), pa.int32()),
            "x": pa.array([None if i % 7 == 3 else i * 0.5 for i in range(n)], pa.float64()),
            "name": pa.array([f"n{i % 5}" for i in range(n)], pa.string()),
        },
        schema=pa.schema([pa.field("id", pa.int32(), nullable=False), ("x", pa.float64()), ("name", pa.string())]),
    )


def nested(n):
    return pa.table(
        {
            "hits": pa.array([[i, i + 1] if i % 3 else None if i % 2 else [] for i in range(n)], pa.list_(pa.int16())),
            "pulses": pa.array(
                [[{"time": i * 1.0, "dom": i}] * (i % 3) for i in range(n)],
                pa.list_(pa.struct([("time", pa.float32()), ("dom", pa.int32())])),
            ),
            "tags": pa.array([[("a", i)] * (i % 2) for i in range(n)], pa.map_(pa.string(), pa.int64())),
            "deep": pa.array([[[i], []] for i in range(n)], pa.list_(pa.list_(pa.int8()))),
            "s": pa.array([{"a": {"b": i}} for i in range(n)], pa.struct([("a", pa.struct([("b", pa.int64())]))])),
        }
    )


def every_type():
    utc = datetime.timezone.utc
    day = datetime.datetime(2024, 2, 29, 12, 30, 15)
    return pa.table(
        {
            "bool": pa.array([True, None]),
            "i8": pa.array([-1, None], pa.int8()),
            "u16": pa.array([65535, None], pa.uint16()),
            "u32": pa.array([2**32 - 1, None], pa.uint32()),
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "f16": pa.array([np.float16(1.5), None], pa.float16()),
            "f32": pa.array([1.5, None], pa.float32()),
            "dec9": pa.array([decimal.Decimal("12.34"), None], pa.decimal128(9, 2)),
            "dec38": pa.array([decimal.Decimal("-1.5"), None], pa.decimal128(38, 1)),
            "date": pa.array([day.date(), None], pa.date32()),
            "t_ms": pa.array([day.time(), None], pa.time32("ms")),
            "t_ns": pa.array([1, None], pa.time64("ns")),
            "ts_us": pa.array([day, None], pa.timestamp("us")),
            "ts_ms_utc": pa.array([day.replace(tzinfo=utc), None], pa.timestamp("ms", "UTC")),
            "str": pa.array(["grün", None]),
            "bin": pa.array([b"\0\1", None]),
            "fix": pa.array([b"abc", None], pa.binary(3)),
            "nul": pa.nulls(2),
        }
    )


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    write("flat_v1_two_groups.parquet", flat(30), row_group_size=20, compression="snappy", write_statistics=["x"])
    # Pages of 10 rows: the writer looks at page sizes every write_batch_size values.
    pages = {"data_page_size": 1, "write_batch_size": 10}
    write("pages_v1.parquet", flat(45), use_dictionary=["name"], **pages)
    write("pages_v1_offset_index.parquet", flat(45), use_dictionary=["name"], write_page_index=True, **pages)
    write("nested_v2.parquet", nested(25), data_page_version="2.0", use_dictionary=False, compression="zstd",
          data_page_size=1, write_batch_size=20)
    write("nested_v1.parquet", nested(8), use_dictionary=False, data_page_size=1, write_batch_size=4)
    write("every_type.parquet", every_type(), use_dictionary=False, version="2.6")
    write("int96.parquet", pa.table({"t": pa.array([0, 1, None], pa.timestamp("ns"))}), use_deprecated_int96_timestamps=True)
    write("no_rows.parquet", flat(0))


if __name__ == "__main__":
    main()
