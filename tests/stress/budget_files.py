"""Files for tests/stress/budgets.py: every format, type, encoding, codec, nesting and shape of groups; some expand a thousandfold."""

import gzip

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
MOST = 2_000  # rows of what takes long to make


def keys(rng, n):
    """Groups of one row, of few, of the same large size, of all rows, or of sizes that differ by orders."""
    shape = rng.choice(["single", "few", "large", "one", "uneven"])
    rows = np.arange(n)
    if shape == "uneven":
        return np.searchsorted(np.unique(np.geomspace(1, n + 1, 20).astype("i8")), rows, "right")
    return rows if shape == "single" else rows // (7 if shape == "few" else n // 3 + 1 if shape == "large" else n)


def columns(rng, n, bomb):
    """Makers of columns of n rows (fewer where they take long)."""
    few, values = min(n, MOST), np.random.default_rng(rng.randrange(1 << 30))
    long = "x" * rng.choice([20_000, 100_000])
    counts = np.arange(few)
    texts = [long] * few if bomb else [f"v{i % 50}" for i in range(few)]
    null = values.random(n) < 0.1
    return {
        "int": lambda: pa.array(np.zeros(n, "i8") if bomb else values.integers(0, 99, n).astype(rng.choice(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]))),
        "float": lambda: pa.array(np.zeros(n) if bomb else values.random(n).astype(rng.choice(["f2", "f4", "f8"]))),
        "bool": lambda: pa.array(np.arange(n) % 2 == 0),
        "null": lambda: pa.array(values.random(n), mask=null),
        "string": lambda: pa.array(texts, pa.string() if rng.random() < 0.5 else pa.large_string()),
        "binary": lambda: pa.array([t.encode() for t in texts], pa.binary()),
        "category": lambda: pa.array(texts).dictionary_encode(),
        "fixed": lambda: pa.array([b"%016d" % (i % 9) for i in range(few)], pa.binary(16)),
        "time": lambda: pa.array(np.arange(n) % 1000, pa.timestamp(rng.choice(["ms", "us", "ns"]))),
        "date": lambda: pa.array((np.arange(n) % 1000).astype("i4"), pa.date32()),
        "decimal": lambda: pa.array([i % 7 for i in range(few)], pa.int64()).cast(pa.decimal128(20, 0)),
        "list": lambda: pa.array([[0] * (20_000 if bomb else int(i) % 5) for i in counts], pa.list_(pa.int32())),
        "lists": lambda: pa.array([[[1.0] * (int(i) % 3)] * (200 if bomb else 2) for i in counts], pa.list_(pa.list_(pa.float64()))),
        "array": lambda: pa.array([[1.0] * 8] * few, pa.list_(pa.float32(), 8)),
        "struct": lambda: pa.array([{"a": int(i), "b": [str(i)], "c": {"d": None if i % 3 else 1.0}} for i in counts]),
        "map": lambda: pa.array([[("k", 1), (str(i), 2)] for i in counts], pa.map_(pa.string(), pa.int64())),
    }


def table(rng, bomb, width=4):
    n = rng.choice([1, 100, 20_000, 200_000]) if not bomb else rng.choice([MOST, 1 << 20, 4 << 20])
    makers = columns(rng, n, bomb)
    made = {name: makers[name]() for name in rng.sample(sorted(makers), width)}
    rows = min([n, *map(len, made.values())])
    return pa.table({"k": keys(rng, rows), **{name: values[:rows] for name, values in made.items()}})


def parquet(rng, path, bomb):
    data = table(rng, bomb)
    dictionary = rng.random() < 0.4
    encodings = {
        "k": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"], "int": ["PLAIN"], "float": ["PLAIN", "BYTE_STREAM_SPLIT"],
        "null": ["PLAIN", "BYTE_STREAM_SPLIT"], "bool": ["PLAIN", "RLE"], "string": ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"],
        "binary": ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"], "fixed": ["PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"],
        "time": ["PLAIN", "DELTA_BINARY_PACKED"], "date": ["PLAIN", "DELTA_BINARY_PACKED"],
    }  # fmt: skip
    half = "float" in data.column_names and data.schema.field("float").type == pa.float16()
    chosen = {name: "PLAIN" if half and name == "float" else rng.choice(encodings[name]) for name in data.column_names if name in encodings}
    pq.write_table(
        data, path, row_group_size=rng.choice([len(data), max(len(data) // 7, 1)]), use_dictionary=dictionary, compression=rng.choice(CODECS),
        data_page_version=rng.choice(["1.0", "2.0"]), data_page_size=rng.choice([1 << 10, 1 << 20, 1 << 26]), write_page_index=rng.random() < 0.3,
        column_encoding=None if dictionary else chosen,
    )  # fmt: skip


def arrow(rng, path, bomb):
    data = table(rng, bomb)
    options = ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
    make = ipc.new_stream if path.suffix == ".arrows" else ipc.new_file
    with make(str(path), data.schema, options=options) as out:
        out.write_table(data, max_chunksize=rng.choice([len(data), max(len(data) // 7, 1)]))


def hdf5(rng, path, bomb):
    rows = rng.choice([100, 5_000, 50_000]) if not bomb else 1 << 16
    filters = [{}, {"compression": 4}, {"compression": "lzf"}, {"shuffle": True, "compression": 1}, {"fletcher32": True}, {"scaleoffset": 3},
               {"compression": "szip"}, {"compression": "lzf", "shuffle": True, "fletcher32": True}]  # fmt: skip
    with h5py.File(path, "w", libver=rng.choice(["earliest", "latest"])) as f:
        f.create_dataset("k", data=keys(rng, rows), chunks=(min(rows, 1000),))
        chunk = (rows if bomb else rng.randint(1, rows), 32)
        options = rng.choice(filters)
        dtype = rng.choice(["i4", "i8", "f4", "f8", ">i4", "u2"])
        if "scaleoffset" in options:
            dtype = "i4"
        try:
            f.create_dataset("x", (rows, 32), dtype, chunks=chunk, **options)[: rows // 2] = 3
        except ValueError:  # a libhdf5 without szip
            f.create_dataset("x", (rows, 32), dtype, chunks=chunk, compression=9)[: rows // 2] = 3
        f.create_dataset("never", (rows, 64), "f8", chunks=(min(rows, 512), 64), compression=1)  # nothing is stored
        if rows < 1 << 16 or rng.random() < 0.3:
            f.create_dataset("s", (rows,), h5py.string_dtype(), data=["y" * (500 if bomb else 3)] * rows)
        kind = np.dtype([("a", "i4"), ("b", "f8", (3,))])
        f.create_dataset("compound", (rows,), kind, chunks=(min(rows, 4096),), compression=1)
        if rows <= 5_000:
            lists = f.create_dataset("lists", (rows,), h5py.vlen_dtype(np.dtype("i4")))
            lists[:] = np.array([np.arange(i % 5) for i in range(rows)], dtype=object)


def csv(rng, path, bomb):
    rows = 8 << 20
    if bomb:
        with (gzip.open if path.suffix == ".gz" else open)(path, "wb") as f:
            f.write(b"k,x\n" + b"7,0\n" * (rows if path.suffix == ".gz" else rows // 8))
        return
    n = rng.choice([1, 2_000, 100_000])
    values = np.random.default_rng(3)
    times, texts = pa.array(np.arange(n) % 99, pa.timestamp("s")), [f"text, {i % 9}" for i in range(n)]
    data = pa.table({"k": keys(rng, n), "x": values.random(n), "s": texts, "d": times})
    with (gzip.open if path.suffix == ".gz" else open)(path, "wb") as f:
        pc.write_csv(data, f)


MAKERS = [(parquet, ".parquet")] * 8 + [(hdf5, ".h5")] * 4 + [(arrow, ".arrow")] * 2 + [(arrow, ".arrows"), (csv, ".csv")] + [(csv, ".csv.gz")] * 2


def generate(rng, folder, i):
    bomb = i % 4 == 3
    make, suffix = MAKERS[i // 4 % len(MAKERS)] if bomb else rng.choice(MAKERS)
    path = folder / f"{i:03}{'_bomb' if bomb else ''}{suffix}"
    make(rng, path, bomb)
    return path
