"""Make tests/golden/ipc: small Arrow IPC files and streams of every type, whole and damaged: the first inputs of fuzz/fuzz_ipc.c. Needs pyarrow.

    python tests/golden/make_ipc_golden.py
"""

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

HERE = pathlib.Path(__file__).resolve().parent / "ipc"


def dictionary(indices, values):
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(values))


def tables():
    n = 12
    some = pa.array([i % 3 == 0 for i in range(n)])
    numbers = {str(t): pa.array(range(n), mask=np.array(some)).cast(t) for t in (pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float32(), pa.float64())}
    times = {str(t): pa.array(range(n), pa.int64()).cast(t) for t in (pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.duration("ms"), pa.time64("us"))}
    other = {
        "half": pa.array(np.arange(n, dtype=np.float16)),
        "bool": some,
        "null": pa.nulls(n),
        "date": pa.array(range(n), pa.int32()).cast(pa.date32()),
        "decimal": pa.array(range(n), pa.int64()).cast(pa.decimal128(20, 1)),
        "decimal256": pa.array(range(n), pa.int64()).cast(pa.decimal256(40, 1)),
        "fixed": pa.array([b"abc"] * n, pa.binary(3)),
    }
    words = pa.array([None if i == 4 else "word" * i for i in range(n)])
    texts = {"string": words, "large": words.cast(pa.large_string()), "view": words.cast(pa.string_view()), "binary": words.cast(pa.binary())}
    lists = pa.array([None if i == 5 else list(range(i % 4)) for i in range(n)], pa.list_(pa.int16()))
    nested = {
        "list": lists,
        "large_list": lists.cast(pa.large_list(pa.int16())),
        "fixed_list": pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.float32(), 2)),
        "struct": pa.array([None if i == 2 else {"x": i, "s": str(i)} for i in range(n)]),
        "map": pa.array([[("k", i)] * (i % 3) for i in range(n)], pa.map_(pa.string(), pa.int8())),
        "list_of_structs": pa.array([[{"x": i, "l": ["a"] * i}] for i in range(n)]),
    }
    coded = {"d": dictionary([0, 1, None] * 4, ["a", "b"]), "l": pa.ListArray.from_arrays(pa.array(range(n + 1), pa.int32()), dictionary([1, 0] * 6, [5, 6]))}
    return {"numbers": numbers, "times": times, "other": other, "texts": texts, "nested": nested, "coded": coded}


def put(name, batches, stream=False, **options):
    with pa.OSFile(str(HERE / name), "wb") as sink:
        with (ipc.new_stream if stream else ipc.new_file)(sink, batches[0].schema, options=ipc.IpcWriteOptions(**options)) as writer:
            for batch in batches:
                writer.write_batch(batch)


def main():
    HERE.mkdir(exist_ok=True)
    for old in HERE.iterdir():
        old.unlink()
    for name, columns in tables().items():
        batches = pa.table(columns).to_batches(max_chunksize=7)
        put(f"{name}.arrow", batches)
        put(f"{name}.arrows", batches, stream=True)
        put(f"{name}_lz4.arrow", batches, compression="lz4")
        put(f"{name}_zstd.arrows", batches, stream=True, compression="zstd")
    put("version4.arrows", pa.table(tables()["texts"]).to_batches(), stream=True, metadata_version=ipc.MetadataVersion.V4, use_legacy_format=True)
    growing = [pa.RecordBatch.from_arrays([dictionary([0, n - 1], list("abcdefgh")[:n])], ["d"]) for n in (2, 4, 7)]
    put("grow.arrow", growing, emit_dictionary_deltas=True)
    put("replace.arrows", [*growing, growing[0]], stream=True, emit_dictionary_deltas=True)
    rng = np.random.default_rng(1)
    for path in sorted(HERE.iterdir()):
        data = bytearray(path.read_bytes())
        for at in rng.integers(8, len(data) - 10, 3):
            data[at] ^= 1 << int(rng.integers(0, 8))
        (HERE / f"{path.stem}{path.suffix}.flipped").write_bytes(data)
    for name in ("texts.arrow", "nested_zstd.arrows"):
        data = (HERE / name).read_bytes()
        (HERE / f"{name}.cut").write_bytes(data[: len(data) * 2 // 3])


if __name__ == "__main__":
    main()
