"""Row operations and fitting against NumPy: every dtype in and out, missing values, several panels, threads, windows, groups, lists."""

import copy
import json
import pickle

import numpy as np
import pytest

import forebay as fb
from loader_compare import deliver

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

STORED = {"h": "float16", "f": "float32", "d": "float64", "b": "int8", "s": "int16", "i": "int32", "l": "int64", "u": "uint8", "t": "uint32"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """(data set, columns as float64 with NaN where a value is missing): three files, several row groups, nulls and NaN."""
    folder, rng, parts = tmp_path_factory.mktemp("ops"), np.random.default_rng(7), []
    for k, rows in enumerate((1000, 3, 2500)):
        columns, values = {}, {}
        for name, dtype in STORED.items():
            v = rng.normal(20, 8, rows).astype(dtype) if dtype[0] == "f" else rng.integers(0, 120, rows).astype(dtype)
            if dtype[0] == "f":
                v[rng.random(rows) < 0.03] = np.nan
            null = rng.random(rows) < 0.05
            columns[name] = pa.array(v, mask=null)
            values[name] = np.where(null, np.nan, v.astype("float64"))
        columns["clock"] = pa.array(1_700_000_000_000_000_000 + rng.integers(0, 10**12, rows))
        columns["series"] = pa.array(np.arange(rows) // 7)
        image = rng.random((rows, 6)).astype("float32")
        columns["image"] = pa.FixedSizeListArray.from_arrays(pa.array(image.ravel()), 6)
        lists = [rng.random(int(rng.integers(0, 5))).astype("float32") for _ in range(rows)]
        columns["list"] = pa.array(lists, pa.list_(pa.float32()))
        columns["word"] = pa.array([f"w{i}" for i in range(rows)])
        values |= {"clock": columns["clock"].to_numpy(), "image": image, "list": lists, "series": columns["series"].to_numpy()}
        pq.write_table(pa.table(columns), folder / f"f{k}.parquet", row_group_size=400)
        parts.append(values)
    joined = {n: sum((p[n] for p in parts), []) if n == "list" else np.concatenate([p[n] for p in parts]) for n in parts[0]}
    return fb.open(folder), joined


def same(got, expect, dtype, atol=None):
    assert got.dtype == np.dtype(dtype) and got.shape == expect.shape
    digits = {"float16": 2e-3, "float32": 3e-7, "float64": 1e-14}[str(np.dtype(dtype))]
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(got.astype("float64"), expect.astype(dtype).astype("float64"), rtol=digits, atol=digits / 16 if atol is None else atol)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_stored_dtype_is_computed_as_numpy_does_it_in_float64(data, dtype, threads):
    ds, v = data
    outputs, expect = {}, {}
    for name in STORED:
        outputs[f"{name}_affine"] = fb.col(name, dtype=dtype).scale(0.5).offset(3)
        expect[f"{name}_affine"] = v[name] * 0.5 + 3
        outputs[f"{name}_std"] = fb.col(name, dtype=dtype).standardize(20, 8).clip(-1.5, 1.25)
        expect[f"{name}_std"] = np.clip((v[name] - 20) / 8, -1.5, 1.25)
        outputs[f"{name}_log"] = fb.col(name, dtype=dtype).log(eps=0.5)
        expect[f"{name}_log"] = np.log(np.maximum(v[name], 0.5))
        outputs[f"{name}_fill"] = fb.col(name, dtype=dtype).fill_missing(9).log10(eps=1e-3)
        expect[f"{name}_fill"] = np.log10(np.maximum(np.where(np.isnan(v[name]), 9.0, v[name]), 1e-3))
        outputs[f"{name}_late"] = fb.col(name, dtype=dtype).log(eps=0.5).scale(0.5).fill_missing(9)
        expect[f"{name}_late"] = np.where(np.isnan(v[name]), 9.0, np.log(np.maximum(v[name], 0.5)) / 2)
        outputs[f"{name}_log1p"] = fb.col(name, dtype=dtype).clip(low=0).log1p().fill_nan(7)
        expect[f"{name}_log1p"] = np.nan_to_num(np.log1p(np.maximum(v[name], 0)), nan=7.0)
    got = deliver(ds.rows(), outputs, threads)
    for name, array in got.items():
        # float64 that is standardised into no more than float32 is rounded to float32 first: 2^-24 of mean / std
        same(array, expect[name], dtype, atol=1e-6 if name == "d_std" and dtype == "float32" else None)


def test_each_column_has_numbers_of_its_own_and_panels_are_shared_where_they_agree(data):
    ds, v = data
    mean, std = [20.0, 60.0, 1.0], np.array([8.0, 30.0, 2.0])
    all_three = fb.col("f", "i", "d").standardize(mean, std)
    outputs = {"x": all_three, "middle": fb.col("i", dtype="float32").standardize(60, 30), "raw": fb.col("f", "i", "d"),
               "other": fb.col("f", "i", "d").scale([1, 2, 3])}
    got = deliver(ds.rows(), outputs | {"gone": fb.col("f", "i", "d").is_missing()})
    stacked = np.stack([v["f"], v["i"], v["d"]], 1)
    same(got["x"], (stacked - mean) / std, "float32", atol=1e-6)
    same(got["middle"], (v["i"] - 60) / 30, "float32")
    same(got["raw"], stacked, "float32")
    same(got["other"], stacked * [1, 2, 3], "float32")
    for k, name in enumerate("fid"):
        assert (np.isnan(v[name]) == got["gone"][:, k]).all()


def test_threads_budgets_and_order_do_not_change_a_bit(data):
    ds, _ = data
    outputs = {"row": fb.row_index(), "x": fb.col("f", "i", "d", "h").log1p().standardize([1, 2, 3, 4], [2, 2, 2, 2]),
               "y": fb.col("h", dtype="float16").scale(0.3)}
    once = deliver(ds.rows(), outputs, 1)
    for threads in (2, 8):
        for batch_size in (1, 977):
            again = deliver(ds.rows(), outputs, threads, batch_size)
            for name in once:
                assert once[name].tobytes() == again[name].tobytes()
    loader = ds.rows().loader(outputs, batch_size=100, threads=2, framework="numpy", seed=3)
    for epoch in range(2):  # the second one from the cache: nothing is computed twice
        for batch in loader:
            assert batch["x"].tobytes() == once["x"][batch["row"]].tobytes()
            assert batch["y"].tobytes() == once["y"][batch["row"]].tobytes()
    loader.close()


def test_what_would_lose_its_digits_in_float32_keeps_them(data):
    ds, v = data
    start = 1_700_000_000_000_000_000
    got = deliver(ds.rows(), {"s": fb.col("clock", dtype="float32").offset(-start).scale(1e-9)})
    same(got["s"], (v["clock"] - start) * 1e-9, "float32")


def test_arrays_in_a_column_and_lists_are_computed_with(data):
    ds, v = data
    got = deliver(ds.rows(), {"list": fb.col("list").scale(2).offset(1), "log": fb.col("list", dtype="float64").offset(1).log()})
    same(got["list"], np.concatenate(v["list"]).astype("float64") * 2 + 1, "float32")
    same(got["log"], np.log(np.concatenate(v["list"]).astype("float64") + 1), "float64")
    arrays = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6000) % 97, pa.int16()), 6)
    memory = fb.open(pa.table({"image": arrays, "other": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6000.0)), 6)}))
    got = deliver(memory.rows(), {"image": fb.col("image").offset(1).log10(), "both": fb.col("image", "other").scale([2, 3]).offset([0, 1])})
    image = (np.arange(6000) % 97).reshape(-1, 6)
    same(got["image"], np.log10(image + 1), "float32")
    same(got["both"], np.stack([image * 2, np.arange(6000.0).reshape(-1, 6) * 3 + 1], 1), "float32")


@pytest.mark.parametrize("threads", [1, 4])
def test_a_large_row_group_is_computed_by_many_tasks_each_its_own_rows_and_columns(tmp_path, threads):
    rng = np.random.default_rng(2)
    values = rng.normal(5, 3, (150_000, 40)).astype("float32")
    pq.write_table(pa.table({f"c{i}": values[:, i] for i in range(40)}), tmp_path / "large.parquet", row_group_size=150_000)
    names, means = [f"c{i}" for i in range(40)], np.arange(40.0)
    got = deliver(fb.open(tmp_path).rows(), {"x": fb.col(names).standardize(means, 3).clip(-2, 2)}, threads, 50_000)
    same(got["x"], np.clip((values - means) / 3, -2, 2), "float32")


def test_hdf5_rows_that_would_be_read_in_place_are_computed_with(tmp_path):
    h5py = pytest.importorskip("h5py")
    x = np.random.default_rng(3).normal(size=(5000, 3)).astype("float32")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["plain"] = x
        f.create_dataset("chunked", data=x, chunks=(700, 2), compression="gzip", shuffle=True)
    for options in ({}, {"io": "mmap", "immutable": True}):
        got = deliver(fb.open(tmp_path / "a.h5", **options).rows(),
                      {"a": fb.col("plain").scale(2), "b": fb.col("plain", "chunked").scale([2, -1]), "raw": fb.col("plain")}, 4)
        same(got["a"], x.astype("float64") * 2, "float32")
        same(got["b"], np.stack([x * 2.0, -x], 1), "float32")
        same(got["raw"], x, "float32")


def test_windows_and_groups_take_computed_rows(data):
    ds, v = data
    moments = fb.fit(ds, ["f", "i"])
    x = fb.col("f", "i").standardize(moments)
    expect = np.stack([(v[n] - moments[n].mean) / moments[n].std for n in ("f", "i")], 1)
    windows = ds.windows(9, 2)
    got = deliver(windows, {"row": fb.row_index(), "x": x, "tail": fb.col("f").steps(9, 11).scale(2)})
    for k, row in enumerate(got["row"]):
        same(got["x"][k], expect[row : row + 11], "float32")
        same(got["tail"][k], v["f"][row + 9 : row + 11] * 2, "float32")
    groups = ds.groups("series")
    got = deliver(groups, {"x": x, "first": fb.col("i").offset(0.5).first()})
    same(got["x"], expect, "float32")
    assert len(got["first"]) == len(groups)


def test_a_data_set_in_memory_is_computed_with_too():
    table = pa.table({"a": np.arange(10.0), "n": np.arange(10)})
    got = deliver(fb.open(table).rows(), {"x": fb.col("a", "n").scale(2)})
    same(got["x"], np.stack([np.arange(10) * 2.0] * 2, 1), got["x"].dtype)


# ---- fit ----


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_fit_is_numpys_mean_and_deviation_of_what_is_there(data, threads):
    ds, v = data
    moments = fb.fit(ds, [*STORED, "image", "list"], threads=threads)
    assert list(moments) == [*STORED, "image", "list"]
    for name, m in moments.items():
        x = np.concatenate(v[name]) if name == "list" else v[name].ravel()
        x = x.astype("float64")
        there = x[np.isfinite(x)]
        assert (m.n, m.missing) == (len(there), len(x) - len(there))
        np.testing.assert_allclose([m.mean, m.std, m.min, m.max], [there.mean(), there.std(), there.min(), there.max()], rtol=1e-12)
    assert moments == fb.fit(ds, [*STORED, "image", "list"], threads=3)


def test_fit_sees_the_rows_of_the_samples_each_once(data):
    ds, v = data
    parts = ds.windows(30, 5).split(by="time", train=0.6, test=0.4)
    for part in parts.values():
        rows = sorted({r for s in range(len(part)) for r in part[s]})
        m = fb.fit(part, "d")["d"]
        x = v["d"][rows]
        assert (m.n, m.missing) == (int(np.isfinite(x).sum()), int(np.isnan(x).sum()))
        np.testing.assert_allclose([m.mean, m.std], [np.nanmean(x), np.nanstd(x)], rtol=1e-12)
    for samples in (ds.rows().split(train=0.5, test=0.5)["train"], ds.groups("series").split(a=0.4, b=0.6)["b"], ds.windows(4, 0, stride=6), ds.rows()):
        rows = [r for s in range(len(samples)) for r in samples[s]]
        m = fb.fit(samples, "l")["l"]
        assert m.n == np.isfinite(v["l"][rows]).sum()
        np.testing.assert_allclose(m.mean, np.nanmean(v["l"][rows]), rtol=1e-12)


def test_fit_after_operations_standardises_what_comes_out_of_them(data):
    ds, v = data
    x = fb.col("i", "s").log1p()
    moments = fb.fit(ds, x)
    got = deliver(ds.rows(), {"x": x.standardize(moments)})["x"].astype("float64")
    np.testing.assert_allclose(np.nanmean(got, 0), 0, atol=1e-6)
    np.testing.assert_allclose(np.nanstd(got, 0), 1, rtol=1e-6)
    filled = fb.fit(ds, fb.col("i", "s").fill_missing(1000).scale([1, 2]))
    assert filled["i"].missing == 0 and filled["i"].max == 1000 and filled["s"].max == 2000


def test_moments_are_saved_and_taken_back_off(data):
    ds, v = data
    moments = fb.fit(ds, ["f", "d"])
    saved = json.loads(json.dumps(moments.to_dict()))
    again = fb.Moments.from_dict(saved)
    assert again == moments and pickle.loads(pickle.dumps(moments)) == moments and copy.deepcopy(moments) == moments
    got = deliver(ds.rows(), {"x": fb.col("f", "d").standardize(again), "y": fb.col("f").standardize(again)})
    back = moments.inverse(got["x"], ["f", "d"])
    assert back.dtype == np.float32
    np.testing.assert_allclose(back, np.stack([v["f"], v["d"]], 1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(moments.inverse(got["y"], "f"), v["f"], rtol=1e-5, atol=1e-5)
    torch = pytest.importorskip("torch")
    tensor = moments.inverse(torch.from_numpy(got["x"]), ["f", "d"])
    assert tensor.dtype == torch.float32
    np.testing.assert_array_equal(tensor.numpy(), back)
    with pytest.raises(ValueError, match="last axis is 2 long"):
        moments.inverse(got["x"], ["f"])
    with pytest.raises(ValueError, match="nothing was fitted for column 'h'"):
        moments.inverse(got["x"], ["f", "h"])
    for bad in ({}, {"version": 99, "columns": {}}, {"version": 1, "columns": {"a": {"n": 1}}}, {"version": 1, "columns": 3}, None):
        with pytest.raises(ValueError, match="moments"):
            fb.Moments.from_dict(bad)


def test_constant_and_empty_columns_are_told_apart():
    ds = fb.open(pa.table({"c": np.full(9, 4.0), "e": pa.array([None] * 9, pa.float64()), "n": np.arange(9)}))
    moments = fb.fit(ds, ["c", "e"])
    assert moments["c"].std == 0 and moments["e"].n == 0 and moments["e"].missing == 9 and np.isnan(moments["e"].mean)
    assert fb.Moments.from_dict(json.loads(json.dumps(moments.to_dict())))["e"].missing == 9
    assert (deliver(ds.rows(), {"x": fb.col("c").standardize(moments)})["x"] == 0).all()
    with pytest.raises(ValueError, match="column 'e' had no values"):
        fb.col("e").standardize(moments)


# ---- what is refused ----


def test_operations_that_cannot_be_are_refused_with_the_reason(data):
    ds, _ = data
    rows = ds.rows()
    for output, message in [
        (fb.col("f").standardize(1, 0), "output 'x': column 'f', operation standardize.*above 0"),
        (fb.col("f", "d").standardize([1, 2], [1, -1]), "column 'd'"),
        (fb.col("f").scale(float("nan")), "must be finite"),
        (fb.col("f").clip(3, 2), "lower limit"),
        (fb.col("i", dtype="int32").scale(2), "floating-point values, not int32"),
        (fb.col("word").scale(2), "'word' holds strings"),
        (fb.col("nowhere").scale(2), "nowhere"),
    ]:
        with pytest.raises(fb.Error, match=message):
            rows.loader({"x": output}, batch_size=4)
    with pytest.raises(ValueError, match="2 numbers for 1 column; axis=-1 says that they are of the last axis of an array"):
        fb.col("f").scale([1, 2])
    with pytest.raises(ValueError, match="eps=0"):
        fb.col("f").log(0)
    with pytest.raises(ValueError, match="mask"):
        fb.col("f").is_missing().scale(2)
    with pytest.raises(TypeError, match="fb.fit"):
        fb.col("f").standardize(3)
    with pytest.raises(TypeError, match="a number"):
        fb.col("f").scale("2")
    with pytest.raises(ValueError, match="at most 16"):
        column = fb.col("f")
        for _ in range(17):
            column = column.log1p()
        rows.loader({"x": column}, batch_size=4)
    with pytest.raises(ValueError, match="'word' holds strings"):
        fb.fit(ds, "word")
    with pytest.raises(fb.SchemaError, match="nowhere"):
        fb.fit(ds, ["f", "nowhere"])
    with pytest.raises(TypeError, match="a data set, samples or a mixture"):
        fb.fit([1.0], "f")


def test_fills_are_numbers_that_the_output_holds():
    ds = fb.open({"x": np.array([1.0, np.nan]), "i": np.ma.masked_equal([7, 0], 0), "b": np.ma.masked_array([False, True], [False, True])})
    infinity = float("inf")

    def first(column):
        with ds.loader({"x": column}, batch_size=2, shuffle=False, framework="numpy") as loader:
            return next(iter(loader))["x"]

    np.testing.assert_array_equal(first(fb.col("x").fill_missing(-infinity)), [1, -infinity])
    np.testing.assert_array_equal(first(fb.col("x").log().fill_missing(infinity)), [0, infinity])
    np.testing.assert_array_equal(first(fb.col("x").fill_missing(True)), [1, 1])
    filled = first(fb.col("b").fill_missing(True))
    assert filled.dtype == bool and filled.tolist() == [False, True]
    assert first(fb.col("i").fill_missing(False)).tolist() == [7, 0]
    with pytest.raises(ValueError, match="inf is not a value of int64"):
        first(fb.col("i").fill_missing(infinity))
    nan = float("nan")
    for fill in (fb.col("x").fill_missing, fb.col("x").fill_null, fb.col("x").fill_nan):
        with pytest.raises(ValueError, match=r"fill_\w+\(nan\): NaN is what is missing in floats without it"):
            fill(nan)
    with pytest.raises(ValueError, match=r"fill_missing\(\[0, nan\]\): NaN"):
        fb.col("x", "i").fill_missing([0, nan])
    with pytest.raises(TypeError, match="fill_missing=None: a number, or one for each column"):
        fb.col("x").fill_missing(None)


def test_operations_print_as_they_are_written_and_make_new_objects():
    x = fb.col("a", "b").fill_missing(0)
    y = x.scale(2).offset([1, 2]).standardize(3, (4, 5)).clip(0).clip(None, 1).log(1e-3).log10().log1p().fill_nan(0)
    assert len(x.ops) == 1 and len(y.ops) == 10
    assert eval(repr(y), {"col": fb.col}) == y
    assert pickle.loads(pickle.dumps(y)) == y
    assert y.is_missing().ops == ()
    assert fb.col("a").scale(np.float32(2)).ops == (("affine", 2.0, 0.0, None),)
    assert fb.col("a", "b").scale(np.array([1, 2])).ops == (("affine", (1.0, 2.0), 0.0, None),)
    for column in (fb.col("a"), fb.col("a", "b")):
        along = column.scale([1, 2, 3], axis=-1).clip(None, [4, 5], axis=-2).standardize([[1, 2]] * len(column.columns), 2, axis=-1).log([1, 2], axis=-1)
        assert eval(repr(along), {"col": fb.col}) == along
