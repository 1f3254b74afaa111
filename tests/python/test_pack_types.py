"""fb.pack: every type that the Arrow path has comes back equal, through Forebay, pyarrow, polars and DuckDB; the rest is refused by name."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from arrow_compare import assert_tables_equal
from pack_cases import TYPES, every_type, order_of, read, write


# ---- value by value ----


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("shuffle", ["full", "none"])
def test_every_type_is_what_pyarrow_takes(tmp_path, shuffle, codec):
    ds = fb.open(write(every_type(2500, seed=3), tmp_path / "src"))
    fb.pack(ds, tmp_path / "out", seed=11, shuffle=shuffle, codec=codec, batch=300, rows_per_file=1000, threads=3, verify=True)
    packed, table = read(tmp_path / "out"), pa.table(ds)
    order = order_of(ds, 11) if shuffle == "full" else np.arange(2500)
    expected = table.take(order)
    assert packed.schema.equals(table.schema)
    for name in table.column_names:
        assert packed[name].to_pylist() == expected[name].to_pylist(), name
    batches = [batch.num_rows for f in sorted((tmp_path / "out").glob("*.arrow")) for batch in _batches(f)]
    assert batches == [300, 300, 300, 100] * 2 + [300, 200]


def _batches(path):
    reader = pa.ipc.open_file(path)
    return [reader.get_batch(i) for i in range(reader.num_record_batches)]


@pytest.mark.parametrize("codec", ["auto", "none", "lz4", "snappy"])
def test_parquet_files_hold_the_same_rows_in_row_groups_of_the_batch(tmp_path, codec):
    ds = fb.open(write(every_type(2500, seed=4, types=[t for t in TYPES if "fixed_size_list" not in str(t)]), tmp_path / "src"))
    fb.pack(ds, tmp_path / "out", seed=11, format="parquet", codec=codec, batch=300, rows_per_file=1000, threads=2, verify=True)
    fb.pack(ds, tmp_path / "arrow", seed=11, batch=300, rows_per_file=1000)
    packed, expected = pa.table(fb.open(tmp_path / "out")), read(tmp_path / "arrow")
    for name in expected.column_names:
        assert packed[name].to_pylist() == expected[name].to_pylist(), name
    assert_tables_equal(read(tmp_path / "out"), expected)
    first = pq.ParquetFile(tmp_path / "out/part-00000.parquet")
    assert [first.metadata.row_group(i).num_rows for i in range(first.num_row_groups)] == [300, 300, 300, 100]
    assert first.metadata.metadata[b"forebay.seed"] == b"11"
    assert first.read(["i"])["i"].to_pylist() == expected["i"].slice(0, 1000).to_pylist()


def test_the_hash_of_rows_depends_on_values_and_not_on_order(tmp_path):
    table = every_type(800, seed=9)
    first = fb.pack(table, tmp_path / "a", seed=1, verify=True)
    second = fb.pack(table, tmp_path / "b", shuffle="none", verify=True, codec="zstd")
    other = fb.pack(table.set_column(0, "i", pa.array([*range(799), 5])), tmp_path / "c", verify=True)
    assert first.rows_hash == second.rows_hash != other.rows_hash
    assert first.rows_hash is not None and len(first.rows_hash) == 32


# ---- by others ----


def others(tmp_path, not_these):
    """A pack of all types but some: its only file, and its table as pyarrow reads it."""
    table = every_type(500, seed=5, types=[t for t in TYPES if t not in not_these])
    fb.pack(table, tmp_path / "out", seed=2, batch=100)
    return tmp_path / "out/part-00000.arrow", read(tmp_path / "out")


def assert_equal_values(got, want):
    """Types may differ: polars, for one, has no binaries of a fixed size."""
    assert got.column_names == want.column_names
    for name in want.column_names:
        assert got[name].to_pylist() == want[name].to_pylist(), name


def test_polars_reads_the_arrow_files(tmp_path):
    pl = pytest.importorskip("polars")
    path, want = others(tmp_path, [pa.decimal256(50, 2)])  # polars has decimals of up to 38 digits
    assert_equal_values(pl.read_ipc(path).to_arrow(), want)


def test_duckdb_reads_the_arrow_files(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    dataset = pytest.importorskip("pyarrow.dataset")
    lacks = [pa.float16(), pa.decimal256(50, 2)]  # of Arrow's, DuckDB has neither
    intervals = [pa.duration(unit) for unit in ("s", "ms", "us", "ns")]  # which DuckDB gives back as calendar intervals
    path, want = others(tmp_path, lacks + intervals)
    packed = dataset.dataset(path, format="ipc")  # noqa: F841 (DuckDB finds it by this name)
    assert_equal_values(duckdb.sql("select * from packed").to_arrow_table(), want)


# ---- what is refused ----

UNREAD = {
    "list views": pa.array([[1], [2, 3]], pa.list_view(pa.int32())),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([1, 2])),
    "union": pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2])]),
    "struct without fields": pa.array([{}, None], pa.struct([])),
    "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
}


@pytest.mark.parametrize("format", ["arrow", "parquet"])
@pytest.mark.parametrize("kind", UNREAD)
def test_types_that_are_not_read_are_refused_by_name(tmp_path, kind, format):
    table = pa.table({"i": [1, 2], "odd": UNREAD[kind]})
    for source in (table, write(table, tmp_path / "src", files=1)):
        with pytest.raises(fb.UnsupportedError, match="'odd'"):
            fb.pack(source, tmp_path / "out", format=format)
        assert not (tmp_path / "out").exists()


UNWRITTEN = {
    "a fixed size of 0 bytes": pa.array([b"", None], pa.binary(0)),
    "decimals of 5 digits, -2 of them": pa.array([100, None]).cast(pa.decimal128(21, 0)).cast(pa.decimal128(5, -2)),
}


@pytest.mark.parametrize("kind", [t for t in TYPES if "fixed_size_list" in str(t)], ids=str)
def test_arrays_whose_shape_a_parquet_pack_would_lose_are_refused_by_name(tmp_path, kind):
    table = pa.table({"i": [1, 2], "odd": pa.array([None, None], kind)})
    with pytest.raises(fb.UnsupportedError, match="column 'odd' holds arrays, whose shape Parquet does not keep: pack it as arrow"):
        fb.pack(table, tmp_path / "parquet", format="parquet")
    assert not (tmp_path / "parquet").exists()
    fb.pack(table, tmp_path / "arrow", verify=True)
    assert fb.open(tmp_path / "arrow").schema["odd"].dtype == fb.open(table).schema["odd"].dtype


@pytest.mark.parametrize("what", UNWRITTEN)
def test_types_that_parquet_lacks_are_refused_by_name_and_written_to_arrow(tmp_path, what):
    table = pa.table({"i": [1, 2], "odd": UNWRITTEN[what]})
    with pytest.raises(fb.UnsupportedError, match=f"column 'odd'.*{re.escape(what)}"):
        fb.pack(table, tmp_path / "parquet", format="parquet")
    assert not (tmp_path / "parquet").exists()
    fb.pack(table, tmp_path / "arrow", shuffle="none", verify=True)
    assert read(tmp_path / "arrow")["odd"].to_pylist() == table["odd"].to_pylist()
