"""What others read from a data set through __arrow_c_stream__: polars, DuckDB, pandas, pyarrow."""

import ctypes
import gc

import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")


@pytest.fixture
def ds(tmp_path, parquet):
    for i in range(3):
        n = np.arange(i * 100, i * 100 + 100)
        parquet(
            pa.table(
                {
                    "a": n,
                    "f": pa.array(n * 0.5, mask=n % 7 == 0),
                    "s": [None if v % 5 == 0 else f"é{v}" for v in n],
                    "t": pa.array(n * 10**6, pa.timestamp("us", "UTC")),
                    "d": pa.array([None if v % 3 == 0 else v for v in n.tolist()], pa.date32()),
                    "l": [list(range(v % 4)) for v in n],
                    "st": [{"x": float(v), "y": None if v % 2 else "z"} for v in n],
                }
            ),
            f"parts/{i}.parquet",
            row_group_size=30,
        )
    return fb.open(tmp_path / "parts")


def test_pyarrow_reads_the_schema_the_table_and_batches(ds):
    schema = pa.schema(ds)
    table = pa.table(ds)
    assert schema.names == list(ds.columns) and table.schema.equals(schema)
    reader = pa.RecordBatchReader.from_stream(ds)
    assert [b.num_rows for b in reader] == [b.row_end - b.row_begin for b in ds.blocks]
    assert schema.field("t").type == pa.timestamp("us", "UTC")
    assert pa.table(ds).equals(table), "every call is a stream of its own"


class _Allocated(ctypes.Structure):
    """What glibc's mallinfo2() returns."""

    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks mapped usmblks fsmblks used fordblks keepcost".split()]


def _allocated_bytes():
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("the C library does not say what is allocated")
    libc.mallinfo2.restype = _Allocated
    gc.collect()
    found = libc.mallinfo2()
    return found.mapped + found.used


def test_a_stream_that_nobody_reads_is_released(ds):
    def begin():
        reader = pa.RecordBatchReader.from_stream(ds)
        reader.read_next_batch()
        return ds.__arrow_c_stream__(), ds.__arrow_c_schema__(), reader

    begin()
    before = _allocated_bytes()
    held = [begin() for _ in range(50)]
    taken = _allocated_bytes() - before
    del held
    for _ in range(50):
        begin()
    left = _allocated_bytes() - before
    assert left < taken / 10, f"{left} bytes of {taken} are still there"


def test_polars_reads_it(ds):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(ds)
    want = pa.table(ds)
    assert frame.shape == (300, 7)
    for name in want.column_names:
        assert frame[name].to_list() == want[name].to_pylist(), name
    assert pl.DataFrame(ds.select(["a", "s"])).columns == ["a", "s"]


def test_duckdb_reads_it(ds):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("basins", pa.RecordBatchReader.from_stream(ds))
    assert connection.sql("select count(*), sum(a), count(s), max(st.x) from basins").fetchall() == [(300, 44850, 240, 299.0)]
    assert duckdb.sql("select count(*), sum(len(l)) from ds where a >= 150").fetchall() == [(150, sum(v % 4 for v in range(150, 300)))]


def test_pandas_reads_it(ds):
    pd = pytest.importorskip("pandas")
    if not hasattr(pd.DataFrame, "from_arrow"):
        pytest.skip("this pandas has no DataFrame.from_arrow")
    frame = pd.DataFrame.from_arrow(ds)
    assert frame.shape == (300, 7) and frame["a"].sum() == 44850


def test_a_round_trip_through_every_frame_is_the_same_table(ds):
    pl = pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    narrow = ds.select(["a", "f", "s"])
    want = pa.table(narrow).to_pylist()
    for frame in (pa.table(narrow), pl.DataFrame(narrow), pa.table(narrow).to_pandas(types_mapper=pd.ArrowDtype)):
        assert pa.table(fb.open(frame)).to_pylist() == want


def test_an_error_in_the_middle_of_a_stream_reaches_the_reader(tmp_path, parquet):
    path = parquet({"a": np.random.default_rng(0).random(50_000)}, row_group_size=10_000, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    path.write_bytes(data)
    ds = fb.open(path, cache_dir="")
    with pytest.raises(Exception, match="t0.parquet"):
        pa.table(ds)
    with ds.loader("a", batch_size=1000, shuffle=False, framework="numpy") as loader:
        good = []
        with pytest.raises(fb.Error, match="t0.parquet"):
            for batch in loader:
                good.append(batch["a"])
        assert len(good) == 20, "batches before the damage were delivered"
