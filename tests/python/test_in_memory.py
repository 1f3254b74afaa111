"""Tables and arrays in memory as data sets."""

import array
import gc
import weakref

import pytest

import forebay as fb
from arrow_compare import assert_tables_equal
from loader_compare import assert_loader_delivers

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")


def table(n=1000):
    rng = np.random.default_rng(1)
    some = rng.random(n) < 0.2
    return pa.table(
        {
            "f": pa.array(rng.random(n).astype(np.float32), mask=some),
            "i": pa.array(rng.integers(-99, 99, n).astype(np.int16), mask=some),
            "b": pa.array(rng.random(n) < 0.5, mask=some),
            "s": pa.array([None if m else "é" * (i % 4) for i, m in enumerate(some)], pa.string()),
            "t": pa.array(rng.integers(0, 10**12, n), pa.timestamp("us", "UTC"), mask=some),
            "l": pa.array([None if m else list(range(i % 5)) for i, m in enumerate(some)], pa.list_(pa.int32())),
            "st": pa.array([None if m else {"x": i, "y": [float(i)]} for i, m in enumerate(some)], pa.struct({"x": pa.int64(), "y": pa.list_(pa.float64())})),
            "w": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * 3)), 3),
        }
    )


def test_a_pyarrow_table_is_a_dataset():
    t = table()
    ds = fb.open(t)
    assert len(ds) == 1000 and ds.columns == tuple(t.column_names)
    assert_tables_equal(pa.table(ds), t)
    assert "in memory" in repr(ds) or "arrow" in repr(ds)
    assert_loader_delivers(ds, t)
    assert_loader_delivers(ds, t, shuffle=True, seed=3)


def test_slices_and_many_batches_are_read_where_they_are():
    t = pa.concat_tables([table(10).slice(3), table(300).slice(7, 250), table(0), table(64)])
    ds = fb.open(t)
    assert_tables_equal(pa.table(ds), t)
    assert_loader_delivers(ds, t)
    assert len(fb.open(table(0))) == 0


def test_record_batches_and_readers_are_datasets():
    t = table(100)
    assert_tables_equal(pa.table(fb.open(t.to_reader(max_chunksize=30))), t)
    assert_tables_equal(pa.table(fb.open(t.combine_chunks().to_batches()[0])), t)


def test_a_failing_producer_is_an_error_with_its_message():
    t = table(10)

    def batches():
        yield from t.to_batches()
        raise RuntimeError("the river is dry")

    reader = pa.RecordBatchReader.from_batches(t.schema, batches())
    with pytest.raises(Exception, match="the river is dry"):
        fb.open(reader)


def test_a_pandas_frame_is_a_dataset():
    pd = pytest.importorskip("pandas")
    t = table().drop_columns(["st", "w", "l"])
    frame = t.to_pandas(types_mapper=pd.ArrowDtype)
    assert_tables_equal(pa.table(fb.open(frame)), t)
    plain = pd.DataFrame({"x": np.arange(5.0), "k": ["a", "b", None, "d", "e"], "c": pd.Categorical(["u", "v", "u", None, "v"])})
    ds = fb.open(plain)
    got = pa.table(ds)
    assert got["k"].to_pylist() == ["a", "b", None, "d", "e"] and got["c"].to_pylist() == ["u", "v", "u", None, "v"]
    with ds.loader({"x": "x", "c": "c"}, batch_size=5, shuffle=False, framework="numpy") as loader:
        (batch,) = loader
    assert batch["c"].to_list() == ["u", "v", "u", "", "v"]


def test_a_polars_frame_is_a_dataset():
    pl = pytest.importorskip("polars")
    t = table()
    frame = pl.from_arrow(t)
    got = pa.table(fb.open(frame))
    for name in t.column_names:
        assert got[name].to_pylist() == t[name].to_pylist(), name
    with pytest.raises(TypeError, match=r"collect\(\)"):
        fb.open(frame.lazy())


def test_a_duckdb_relation_is_a_dataset():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select range::integer as a, 'v' || range as s from range(5000)")
    ds = fb.open(relation)
    assert len(ds) == 5000
    with ds.loader(["a", "s"], batch_size=5000, shuffle=False, framework="numpy") as loader:
        (batch,) = loader
    assert batch["a"].tolist() == list(range(5000)) and batch["s"].to_list()[-1] == "v4999"


def test_a_frame_without_the_protocol_says_what_to_do():
    class Old:
        columns = ["a"]
        dtypes = {}

    with pytest.raises(TypeError, match=r"upgrade it, or pass a dict of arrays"):
        fb.open(Old())


@pytest.mark.parametrize("dtype",
                         ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">i4", ">f8", "M8[s]", "M8[ms]", "M8[us]", "M8[ns]",
                          "M8[D]", "M8[h]", "M8[M]", "m8[us]", "m8[h]", "U7", "S7"])  # fmt: skip
@pytest.mark.parametrize("shape", [(0,), (1,), (300,), (300, 1), (300, 3), (40, 2, 5)])
def test_numpy_arrays_are_columns(dtype, shape):
    rng = np.random.default_rng(5)
    values = rng.integers(0, 120, shape)
    values = values.astype(dtype)
    if values.ndim > 1 and values.dtype.kind in "US":
        ds = fb.open({"x": values})
        assert pa.table(ds)["x"].to_pylist() == values.tolist()
        return
    ds = fb.open({"x": values})
    assert len(ds) == shape[0]
    got = ds.read()["x"]
    if values.dtype.kind in "US":
        assert got.tolist() == values.tolist()
        return
    assert got.shape == values.shape
    want = values.astype(got.dtype)
    assert np.array_equal(got, want) and (got.dtype.kind == values.dtype.kind)
    if values.dtype.kind not in "Mm":
        assert got.dtype == values.dtype.newbyteorder("=")


def test_arrays_of_any_layout_and_missing_values():
    base = np.arange(600, dtype=np.int32).reshape(30, 20)
    masked = np.ma.MaskedArray(np.arange(30), np.arange(30) % 3 == 0)
    times = np.arange(30).astype("M8[us]")
    times[4] = "NaT"
    words = np.array([None if i % 5 == 0 else f"w{i}" for i in range(30)], dtype=object)
    ds = fb.open({"strided": base[:, ::3], "fortran": np.asfortranarray(base), "masked": masked, "times": times, "words": words, "list": list(range(30))})
    got = ds.read()
    assert np.array_equal(got["strided"], base[:, ::3]) and np.array_equal(got["fortran"], base)
    assert got["masked"].tolist() == masked.tolist()
    assert np.isnat(got["times"][4]) and np.array_equal(np.delete(got["times"], 4), np.delete(times, 4))
    assert got["words"].tolist() == words.tolist() and got["list"].tolist() == list(range(30))


def test_any_buffer_is_a_column():
    ds = fb.open({"a": array.array("h", [1, 2, 3]), "b": memoryview(np.arange(6.0).reshape(3, 2)), "c": memoryview(np.array([True, False, True]))})
    got = ds.read()
    assert got["a"].tolist() == [1, 2, 3] and got["b"].tolist() == [[0, 1], [2, 3], [4, 5]] and got["c"].tolist() == [True, False, True]


def test_torch_tensors_are_columns():
    torch = pytest.importorskip("torch")
    got = fb.open({"x": torch.arange(6, dtype=torch.float32).reshape(3, 2).requires_grad_()}).read()
    assert got["x"].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_structured_arrays_are_tables():
    values = np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i2"), ("b", "f8")])
    assert {k: v.tolist() for k, v in fb.open(values).read().items()} == {"a": [1, 3], "b": [2.5, 4.5]}


def test_arrays_that_cannot_be_columns_are_refused_by_name():
    for value, kind, hint in (
        (np.zeros(3, "c8"), TypeError, "'x' has dtype complex64"), (np.array(3), ValueError, "no rows axis"),
        (np.array([{}, 1, 2], dtype=object), TypeError, "'x' holds Python objects of type dict"), (np.array(["a", b"b"], dtype=object), TypeError, "mixes"),
        (np.zeros(3, [("p", "i4")]), TypeError, "'x' has fields p"), (np.zeros(3, "M8[ps]"), TypeError, "unit ps"), (np.zeros(3, "m8[Y]"), TypeError, "years"),
        ("abc", TypeError, "'x'|not both"), (3, TypeError, "int"), ([[1], [2, 3], [4]], (TypeError, ValueError), "lengths|inhomogeneous"),
    ):  # fmt: skip
        with pytest.raises(kind, match=hint):
            fb.open({"x": value, "y": np.arange(3)})
    with pytest.raises(ValueError, match="'a' has 2 rows, 'b' has 3"):
        fb.open({"a": np.arange(2), "b": np.arange(3)})
    with pytest.raises(TypeError, match="named by a str"):
        fb.open({1: np.arange(2)})
    with pytest.raises(ValueError, match="missing_columns= is about files"):
        fb.open({"a": np.arange(2)}, missing_columns="fill")


def test_large_arrays_are_cut_into_blocks_without_a_copy():
    values = np.arange(2_000_000, dtype=np.float32).reshape(-1, 4)
    flags = np.arange(500_000) % 3 == 0
    ds = fb.open({"x": values, "flag": flags, "word": np.array(["a", "bb"] * 250_000)})
    assert len(ds.blocks) > 3 and sum(b.row_end - b.row_begin for b in ds.blocks) == 500_000
    got = ds.read()
    assert np.array_equal(got["x"], values) and np.array_equal(got["flag"], flags) and got["word"][:3].tolist() == ["a", "bb", "a"]


def test_arrays_are_held_while_anything_needs_them_and_no_longer():
    class Array(np.ndarray):
        pass

    values = Array(1000)  # owns its memory
    values[:] = np.arange(1000.0)
    gone = weakref.ref(values)
    ds = fb.open({"x": values})
    del values
    gc.collect()
    assert gone() is not None
    loader = ds.loader("x", batch_size=1000, shuffle=False, framework="numpy")
    stream = ds.__arrow_c_stream__()
    ds.close()
    assert np.array_equal(next(iter(loader))["x"], np.arange(1000.0))
    loader.close()
    assert gone() is not None
    kept = pa.RecordBatchReader._import_from_c_capsule(stream).read_all()
    assert kept["x"].to_pylist() == list(np.arange(1000.0))
    del stream, kept, ds, loader
    gc.collect()
    assert gone() is None
