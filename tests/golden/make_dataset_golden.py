#!/usr/bin/env python3
"""Make the tiny Parquet files of tests/golden/dataset: pairs of schemas that join, widen, or do not. Needs pyarrow.

    python tests/golden/make_dataset_golden.py [directory]
"""
import decimal
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "dataset")
out.mkdir(parents=True, exist_ok=True)
D = decimal.Decimal


def write(name, columns, **options):
    table = pa.table({k: pa.array(v, t) for k, (v, t) in columns.items()})
    pq.write_table(table, out / f"{name}.parquet", store_schema=False, compression="none", **options)


ts = pa.timestamp
pair = pa.struct([("a", pa.int32()), ("b", pa.string())])
other_pair = pa.struct([("b", pa.string()), ("c", pa.float64())])
write("narrow", {
    "id": ([1, 2], pa.int32()), "i": ([1, None], pa.int8()), "f": ([1, 2], pa.int16()), "g": ([1, 2], pa.int32()),
    "n": ([None, None], pa.null()), "s": (["a", "b"], pa.string()), "t": ([1000, None], ts("ms")),
    "d": ([D("1.5"), None], pa.decimal128(5, 1)), "st": ([{"a": 1, "b": "x"}, None], pair),
    "l": ([[1, 2], None], pa.list_(pa.int16())), "u": ([255, 2], pa.uint8()), "w": ([b"abc", None], pa.binary(3)),
    "big": ([1, 2], pa.uint64()), "c": ([1, 2], pa.int64()), "day": ([1, 2], pa.date32()), "z": ([1, 2], ts("us", "UTC")),
    "only": ([7, 8], pa.int64()),
})
write("wide", {
    "l": ([[1], []], pa.list_(pa.int64())), "i": ([3, 4], pa.int64()), "f": ([1.5, None], pa.float32()),
    "g": ([1.5, 2.5], pa.float32()), "n": ([[1], None], pa.list_(pa.int64())), "s": ([b"c", b"d"], pa.binary()),
    "t": ([1000, None], ts("us")), "d": ([D("-2.125"), None], pa.decimal128(30, 3)),
    "st": ([{"b": "y", "c": 2.5}, None], other_pair), "u": ([-1, 2], pa.int8()), "w": ([b"z", None], pa.binary()),
    "big": ([1, 2], pa.int64()), "c": (["1", "2"], pa.string()), "day": ([1, 2], ts("us")), "z": ([1, 2], ts("us")),
    "id": ([3, 4], pa.int32()), "extra": ([1.0, 2.0], pa.float64()),
})
write("plain", {"x": ([1, 2, 3], pa.int32()), "y": ([0.5, 1.5, None], pa.float64())})
write("groups", {"x": (list(range(10)), pa.int32())}, row_group_size=4)
write("empty", {"x": ([], pa.int32()), "y": ([], pa.float64())})
