"""How much memory a pack asks for: what the first refusal names does, whatever the format, the columns and the options."""

import re

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from pack_task_cases import CLI, needs_cli, run

LEAST = 16 << 20
RNG = np.random.default_rng(0)


def lists(n, mean):
    offsets = np.concatenate([[0], np.cumsum(RNG.integers(0, 2 * mean, n))]).astype("i4")
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(RNG.standard_normal(offsets[-1]).astype("f4")))


def texts(n, most):
    return pa.array(["abcdefghij" * int(k) for k in RNG.integers(0, most, n)])


def structs(n):
    parts = [pa.array(np.arange(n)), pa.array(RNG.standard_normal(n)), texts(n, 6)]
    return pa.StructArray.from_arrays(parts, ["a", "b", "c"])


SHAPES = {
    "many columns": (15_000, lambda n: {f"x{i}": RNG.standard_normal(n).astype("f4") for i in range(200)}),
    "longer and longer lists": (8_000, lambda n: {f"l{i}": lists(n, 40 * (i + 1)) for i in range(4)}),
    "one long list": (8_000, lambda n: {"a": np.arange(n), "l": lists(n, 300), "z": np.arange(n)}),
    "texts": (60_000, lambda n: {f"s{i}": texts(n, 4 + 3 * i) for i in range(5)}),
    "structs": (150_000, lambda n: {"s": structs(n), "l": lists(n, 8)}),
    "arrays": (40_000, lambda n: {"m": pa.FixedSizeListArray.from_arrays(pa.array(RNG.standard_normal(n * 100).astype("f4")), 100)}),
    "decimals": (300_000, lambda n: {f"d{i}": pa.array(np.arange(n)).cast(pa.decimal128(30, 2)) for i in range(2)}),
}
KINDS = ["arrow", "arrow zstd", "parquet", "hdf5"]
OF_HDF5 = ("many columns", "arrays")  # whose sizes its metadata say


def write(path, table, kind):
    """One block a file."""
    if kind == "parquet":
        pq.write_table(table, f"{path}.parquet", row_group_size=len(table))
    elif kind == "hdf5":
        with h5py.File(f"{path}.h5", "w") as file:
            for name, column in zip(table.column_names, table.columns):
                values = column.combine_chunks()
                array = pa.types.is_fixed_size_list(values.type)
                flat = values.flatten().to_numpy().reshape(len(values), -1) if array else values.to_numpy(zero_copy_only=False)
                file.create_dataset(name, data=flat, chunks=flat.shape, compression="gzip", compression_opts=1)
    else:
        options = pa.ipc.IpcWriteOptions(compression="zstd" if kind.endswith("zstd") else None)
        with pa.OSFile(f"{path}.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(table)


@pytest.fixture(scope="module")
def source(request, tmp_path_factory):
    """Files that grow, so that the first block is not the one that needs most."""
    shape, kind = request.param
    rows, make = SHAPES[shape]
    folder = tmp_path_factory.mktemp("memory") / "src"
    folder.mkdir()
    table = pa.table({**make(rows), "key": np.arange(rows) % 5})
    for i, (begin, end) in enumerate([(0, rows // 10), (rows // 10, rows // 3), (rows // 3, rows)]):
        write(folder / str(i), table.slice(begin, end - begin), kind)
    return folder, table


def named(error):
    return int(re.search(r"raise memory (?:from \d+ )?to (\d+) bytes", str(error)).group(1))


VARIANTS = {
    "shuffled": {},
    "as it is": {"shuffle": "none"},
    "by": {"by": "key"},
    "verified": {"verify": True, "threads": 1},
    "tiny row groups": {"format": "parquet", "batch": 30},
    "one batch": {"batch": 1 << 30},
}
NO_PARQUET = ("arrays", "tiny row groups")


SOURCES = [(shape, kind) for shape in SHAPES for kind in KINDS if kind != "hdf5" or shape in OF_HDF5]
CASES = [(source, variant) for i, source in enumerate(SOURCES) for variant in list(VARIANTS)[i % 2 :: 2] if (source[0], variant) != NO_PARQUET]


@pytest.mark.parametrize("source, variant", CASES, indirect=["source"], ids=[f"{'-'.join(source)}-{variant}" for source, variant in CASES])
def test_the_memory_that_the_first_refusal_names_does(source, variant, tmp_path):
    folder, table = source
    options = {"rows_per_file": len(table), **VARIANTS[variant]}
    try:
        fb.pack(folder, tmp_path / "out", memory=LEAST, **options)
    except fb.BudgetError as error:
        memory = named(error)
        assert LEAST < memory < 40 * table.nbytes + (64 << 20)
        assert fb.pack(folder, tmp_path / "again", memory=memory, **options).rows == len(table)


OUTPUTS = {
    "a matrix of rows": ("many columns", lambda ds: ds.rows(), {"x": fb.col(*(f"x{i}" for i in range(200))), "key": "key"}),
    "columns": ("many columns", lambda ds: ds.rows(), {f"x{i}": f"x{i}" for i in range(200)}),
    "windows": ("many columns", lambda ds: ds.windows(48), {"x": fb.col(*(f"x{i}" for i in range(40)))}),
    "lists": ("longer and longer lists", lambda ds: ds.rows(), {f"l{i}": f"l{i}" for i in range(4)}),
    "texts": ("texts", lambda ds: ds.rows(), {f"s{i}": f"s{i}" for i in range(5)}),
}
OF_OUTPUTS = [
    ("a matrix of rows", "verified"), ("columns", "one batch"), ("windows", "as it is"), ("windows", "one batch"),
    ("lists", "shuffled"), ("lists", "one batch"), ("texts", "tiny row groups"), ("texts", "one batch"),
]  # fmt: skip


@pytest.mark.parametrize(
    "source, outputs, variant", [((OUTPUTS[o][0], "arrow"), o, v) for o, v in OF_OUTPUTS], indirect=["source"], ids=[f"{o}-{v}" for o, v in OF_OUTPUTS]
)
def test_the_memory_that_the_first_refusal_names_does_for_outputs(source, outputs, variant, tmp_path):
    folder, _ = source
    _, make, given = OUTPUTS[outputs]
    samples, options = make(fb.open(folder)), {"outputs": given, "rows_per_file": 1 << 20, **VARIANTS[variant]}
    with pytest.raises(fb.BudgetError) as error:
        fb.pack(samples, tmp_path / "out", memory=LEAST, **options)
    assert LEAST < named(error.value) < 1 << 30
    assert fb.pack(samples, tmp_path / "again", memory=named(error.value), **options).rows == len(samples)


def test_batches_that_no_memory_of_the_pack_holds_are_refused_before_rows_are_read(tmp_path):
    table = pa.table({"x": np.arange(3_000_000.0)})
    seen = []
    options = {"batch": 3_000_000, "progress": lambda *said: seen.append(said)}
    message = r"a batch of 3000000 rows takes about 80 MiB; lower batch, or raise memory from 16777216 to \d+ bytes"
    with pytest.raises(fb.BudgetError, match=message) as error:
        fb.pack(table, tmp_path / "out", memory=LEAST, **options)
    assert not seen and not (tmp_path / "out").exists()
    fb.pack(table, tmp_path / "out", memory=named(error.value), **options)


def test_one_refusal_is_enough_for_very_many_columns(tmp_path):
    table = pa.table({f"x{i}": np.zeros(10, "f4") for i in range(8_000)})
    write(tmp_path / "wide", table, "arrow")
    ds = fb.open(tmp_path / "wide.arrow", cache_dir=None)
    for shuffle in ("full", "none"):
        with pytest.raises(fb.BudgetError) as error:
            fb.pack(ds, tmp_path / shuffle, shuffle=shuffle, memory=LEAST)
        assert named(error.value) < 96 << 20
        fb.pack(ds, tmp_path / f"{shuffle} again", shuffle=shuffle, memory=named(error.value))


@needs_cli
def test_what_opening_lacks_is_a_quarter_of_the_commands_memory(tmp_path):
    table = pa.table({f"a column of many, the one with number {i}": [0.0] for i in range(20_000)})
    pq.write_table(table, tmp_path / "wide.parquet")
    command = [CLI, "pack", tmp_path / "wide.parquet", "--to", tmp_path / "out", "--no-cache", "--dry-run", "--memory"]
    refused = run([*command, LEAST])
    assert "budget of 4194304 bytes" in refused.stderr
    assert "try: a --memory of 4 times the last figure: opening has a quarter of it" in refused.stderr
    again = run([*command, 4 * named(refused.stderr)])
    assert again.returncode == 0 or named(again.stderr) > named(refused.stderr), again.stderr
