"""Makes the data sets that the benchmarks and the demo read. Seeded, written once, kept in the scratch directory.

    bench/make_data.py [table decode group small]     which sets; all by default

table    200 files × 5,000 rows × 64 float32 columns as pandas writes them (OPTIONAL, SNAPPY, dictionary pages)
decode   seven files of 300,000 rows × 32 columns in row groups of 20,000: one encoding or codec each
group    one file of one row group: 10,000,000 rows × 16 float32 columns
small    10,000 files of 100 rows × 8 columns

A set is complete when its folder has a file .done that holds the version below; otherwise it is written again.
"""
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from common import scratch

VERSION = "2"


def finished(folder):
    mark = folder / ".done"
    return mark.exists() and mark.read_text() == VERSION


def ensure(folder, write, what):
    if finished(folder):
        return folder
    print(f"making {what} in {folder} (once)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write(folder)
    (folder / ".done").write_text(VERSION)
    return folder


def table_files(folder):
    return sorted(folder.glob("*.parquet"))


def sensor_frame(rng, rows, columns):
    """Readings of a sensor with two decimals: some thousand distinct values a column, in no order."""
    scale = np.float32(1) + np.arange(columns, dtype=np.float32) / 8
    values = np.round(rng.standard_normal((rows, columns), dtype=np.float32) * 4 * scale, 2)
    return pd.DataFrame({f"f{i:02d}": values[:, i] for i in range(columns)})


def table(root=None, files=200, rows=5_000, columns=64, name="table"):
    def write(folder):
        def one(i):
            sensor_frame(np.random.default_rng(i), rows, columns).to_parquet(folder / f"part-{i:05d}.parquet")

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, range(files)))

    return ensure((root or scratch()) / name, write, f"{files} files of {rows:,} rows × {columns} columns")


DECODE_CASES = {
    # name: what it is, goal (times pyarrow)
    "plain_random": ("PLAIN, SNAPPY, incompressible", 1.5),
    "plain_low_entropy": ("PLAIN, SNAPPY, low entropy", 1.5),
    "dictionary_5000": ("dictionary of 5,000, OPTIONAL, SNAPPY (pandas)", 2.0),
    "dictionary_50": ("dictionary of 50, OPTIONAL, SNAPPY (pandas)", 2.0),
    "zstd": ("dictionary of 5,000, OPTIONAL, ZSTD (pandas)", 1.5),
    "zstd_plain": ("PLAIN, ZSTD, low entropy", 1.5),
    "byte_stream_split": ("BYTE_STREAM_SPLIT, SNAPPY", 1.5),
}


def decode(root=None, rows=300_000, columns=32, group=20_000):
    def write(folder):
        rng = np.random.default_rng(1)
        random = rng.standard_normal((columns, rows), dtype=np.float32)
        low = np.round(random * 8) / np.float32(8)  # about 60 values, three bytes of four nearly constant

        def frame(entries):
            values = np.unique(rng.standard_normal(entries * 2, dtype=np.float32))[:entries]
            return pd.DataFrame({f"f{i:02d}": values[rng.integers(0, entries, rows)] for i in range(columns)})

        def plain(name, matrix, **options):
            names = [f"f{i:02d}" for i in range(columns)]
            data = pa.table([pa.array(c) for c in matrix], names=names)
            pq.write_table(data, folder / f"{name}.parquet", row_group_size=group, use_dictionary=False, **options)

        plain("plain_random", random, compression="snappy")
        plain("plain_low_entropy", low, compression="snappy")
        plain("zstd_plain", low, compression="zstd")
        plain("byte_stream_split", np.round(random * 100) / np.float32(100), compression="snappy",
              column_encoding={f"f{i:02d}": "BYTE_STREAM_SPLIT" for i in range(columns)})
        frame(5000).to_parquet(folder / "dictionary_5000.parquet", row_group_size=group)
        frame(50).to_parquet(folder / "dictionary_50.parquet", row_group_size=group)
        frame(5000).to_parquet(folder / "zstd.parquet", row_group_size=group, compression="zstd")

    return ensure((root or scratch()) / "decode", write, "a file for each encoding")


def group(root=None, rows=10_000_000, columns=16):
    def write(folder):
        frame = sensor_frame(np.random.default_rng(2), rows, columns)
        frame.to_parquet(folder / "one_group.parquet", row_group_size=rows)

    return ensure((root or scratch()) / f"group-{columns}", write, f"one row group of {rows:,} rows")


def small(root=None, files=10_000, rows=100, columns=8):
    def write(folder):
        frame = sensor_frame(np.random.default_rng(3), rows * 64, columns)
        for i in range(files):
            part = frame.iloc[(i % 64) * rows : (i % 64 + 1) * rows]
            pq.write_table(pa.Table.from_pandas(part, preserve_index=False), folder / f"basin-{i:05d}.parquet")

    return ensure((root or scratch()) / f"small-{files}", write, f"{files:,} files of {rows} rows")


SETS = {"table": table, "decode": decode, "group": group, "small": small}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or SETS:
        if wanted not in SETS:
            sys.exit(f"make_data.py: no data set is called {wanted!r}; there are {', '.join(SETS)}")
        print(SETS[wanted]())
