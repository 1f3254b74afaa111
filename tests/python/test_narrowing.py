"""Finite values that a narrower float would make infinite: an error with file, row group, column, row and value, wherever values become narrower."""

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
h5py = pytest.importorskip("h5py")

LARGE = {"float16": 70000.0, "bfloat16": 3.4e38, "float32": 1e39}
EDGE = {"float16": (65519.9, 65520.0), "bfloat16": (3.3895e38, 3.397e38), "float32": (3.4028235e38, 3.4028236e38)}


def put(path, **columns):
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file[name] = values
    else:
        pq.write_table(pa.table(columns), path, row_group_size=500)
    return path


@pytest.mark.parametrize("suffix", [".h5", ".parquet"])
@pytest.mark.parametrize("dtype", LARGE)
def test_a_value_too_large_for_a_float_is_an_error_that_names_it(tmp_path, suffix, dtype):
    good = np.linspace(-100, 100, 1000)
    good[[3, 4, 5]] = np.inf, -np.inf, np.nan
    bad = good.copy()
    bad[777] = -LARGE[dtype]
    for column in (fb.col("x", dtype=dtype), fb.col("x", "y", dtype=dtype), fb.col("x").scale(1.0).cast(dtype)):
        with fb.open(put(tmp_path / f"good{suffix}", x=good, y=good), cache_dir="") as ds:
            for batch in ds.rows().loader({"x": column}, batch_size=1000, framework="torch" if dtype == "bfloat16" else "numpy"):
                x = batch["x"].float().numpy() if dtype == "bfloat16" else batch["x"].astype("f8")
                assert np.isinf(x).any(axis=-1 if x.ndim > 1 else None).sum() in (1, 2) and np.isnan(x).any()
        with fb.open(put(tmp_path / f"bad{suffix}", x=bad, y=good), cache_dir="") as ds:
            with pytest.raises(fb.DataError, match="fit (float|bfloat)") as caught:
                list(ds.rows().loader({"x": column}, batch_size=100, framework="torch" if dtype == "bfloat16" else "numpy"))
        message = str(caught.value)
        assert f"bad{suffix}" in message and "777" in message and "'x'" in message, message


@pytest.mark.parametrize("dtype", EDGE)
def test_rounding_stays_up_to_the_largest_value(dtype):
    fits, not_any_more = EDGE[dtype]
    framework = "torch" if dtype == "bfloat16" else "numpy"
    for n in (1, 7, 64, 1000):
        for sign in (1, -1):
            x = np.zeros(n)
            x[-1] = sign * fits
            (batch,) = fb.open({"x": x}).rows().loader({"x": fb.col("x", dtype=dtype)}, batch_size=n, shuffle=False, framework=framework)
            assert np.isfinite(float(batch["x"][-1])) and float(batch["x"][-1]) == pytest.approx(sign * fits, rel=0.01)
            x[-1] = sign * not_any_more
            with pytest.raises(fb.DataError, match=f"does not fit {dtype}"):
                list(fb.open({"x": x}).rows().loader({"x": fb.col("x", dtype=dtype)}, batch_size=n, framework=framework))


@pytest.mark.parametrize("kind", ["rows", "windows", "lists"])
def test_results_of_operations_are_held_to_the_same(kind):
    x = np.full(1000, 1000.0, "f4")
    x[600] = 66000
    if kind == "lists":
        ds = fb.open(pa.table({"x": pa.array([x[i : i + 10].tolist() for i in range(0, 1000, 10)], pa.list_(pa.float32()))}))
    else:
        ds = fb.open({"x": x})
    samples = ds.windows(10) if kind == "windows" else ds.rows()
    with pytest.raises(fb.DataError, match="fit float16"):
        list(samples.loader({"x": fb.col("x").scale(1.0).cast("float16")}, batch_size=10))
    assert len(list(samples.loader({"x": fb.col("x").scale(0.1).cast("float16")}, batch_size=10))) > 0
    with pytest.raises(fb.DataError, match="result of its operations does not fit float32"):
        list(samples.loader({"x": fb.col("x").scale(1e36)}, batch_size=10))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64"])
def test_inverse_of_narrow_values_is_wide(dtype):
    torch = pytest.importorskip("torch")
    ds = fb.open({"x": np.arange(70000.0, 70100), "a": np.arange(70000.0, 70100)[:, None], "g": np.repeat([1, 2], 50)})
    alone, along, grouped = fb.fit(ds, "x"), fb.fit(ds, "a", axis=-1), fb.fit(ds, "x", by="g")
    zeros = torch.zeros((2, 1), dtype=getattr(torch, dtype))
    for back, want in (
        (alone.inverse(zeros[:, 0], "x"), [70049.5] * 2), (alone.inverse(zeros, ["x"])[:, 0], [70049.5] * 2),
        (along.inverse(zeros, "a")[:, 0], [70049.5] * 2), (grouped.inverse(zeros[:, 0], "x", [1, 2]), [70024.5, 70074.5]),
    ):  # fmt: skip
        assert back.tolist() == want and back.dtype == torch.float32
    if dtype == "float16":
        assert alone.inverse(np.zeros(2, dtype), "x").tolist() == [70049.5] * 2
        assert grouped.inverse(np.zeros(2, dtype), "x", [1, 2]).dtype == np.float32


@pytest.mark.parametrize("kind, place", [("parquet", "row group 1"), ("arrow", "record batch 1"), ("csv", "rows 0 to 999"), ("h5", "rows 0 to 999"),
                                         ("memory", r"'\(in memory\)', batch 0")])  # fmt: skip
def test_a_place_is_said_in_the_words_of_the_format(tmp_path, kind, place):
    x = np.zeros(1000, np.float32)
    x[700] = 1000
    path, table = tmp_path / f"x.{kind}", pa.table({"x": x})
    if kind == "arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=500)
    elif kind == "csv":
        path.write_text("x\n" + "".join(f"{value}\n" for value in x))
    elif kind != "memory":
        put(path, x=x)
    ds = fb.open({"x": x}) if kind == "memory" else fb.open(path, dtypes={"x": "float32"} if kind == "csv" else None)
    with pytest.raises(fb.DataError, match=place) as caught:
        list(ds.rows().loader({"x": fb.col("x").scale(1e36)}, batch_size=100, framework="numpy"))
    assert ("row group" in str(caught.value)) == (kind == "parquet") and "row 700" in str(caught.value)
