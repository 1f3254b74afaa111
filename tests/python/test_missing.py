"""One meaning of missing, from every source: null, NaN and _FillValue; and the narrow words beside it."""

import h5py
import netCDF4
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import forebay as fb

NAN = np.nan
X = np.array([1.0, NAN, -3.0, 4.0, NAN, 6.0])  # as every source holds it: NaN stored
NULL = np.array([False, False, False, True, False, False])  # … and this one null, where a source has nulls
N = np.array([1, 2, 3, 4, 5, 6])


def arrow():
    return pa.table({"x": pa.array(X, mask=NULL), "n": pa.array(N, mask=NULL), "w": pa.array(X.astype("f2"), mask=NULL)})


def parquet(path):
    pq.write_table(arrow(), path / "t.parquet", row_group_size=4)
    return fb.open(path / "t.parquet"), NULL


def hdf5(path):
    with h5py.File(path / "t.h5", "w") as file:
        file["x"], file["n"], file["w"] = X, N, X.astype("f2")
    return fb.open(path / "t.h5", cache_dir=""), NULL & False


def netcdf(path):
    with netCDF4.Dataset(path / "t.nc", "w") as file:
        file.createDimension("time", None)
        for name, dtype, values in (("x", "f8", X), ("n", "i8", N), ("w", "f4", X)):
            variable = file.createVariable(name, dtype, ("time",), fill_value=-999)
            variable.set_auto_mask(False)
            variable[:] = np.where(NULL, -999, values)
    return fb.open(path / "t.nc", cache_dir=""), NULL


def csv(path):
    pa_csv.write_csv(arrow().drop_columns(["w"]).append_column("w", pa.array(X, mask=NULL)), path / "t.csv")
    return fb.open(path / "t.csv", cache_dir=""), NULL


def ipc(path, stream=False):
    table = arrow()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path / "t.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=4)
    return fb.open(path / "t.arrow", cache_dir=""), NULL


SOURCES = {
    "parquet": parquet,
    "ipc file": ipc,
    "ipc stream": lambda path: ipc(path, stream=True),
    "hdf5": hdf5,
    "netcdf": netcdf,
    "csv": csv,
    "arrow": lambda path: (fb.open(arrow()), NULL),
    "numpy": lambda path: (fb.open({"x": X, "n": N, "w": X.astype("f2")}), NULL & False),
    # A pandas frame's NaN arrives as null: pandas says so to everybody who asks for its Arrow stream.
    "pandas": lambda path: (fb.open(pd.DataFrame({"x": X, "n": N, "w": X.astype("f4")})), np.isnan(X)),
}


@pytest.fixture(params=SOURCES)
def source(request, tmp_path):
    return SOURCES[request.param](tmp_path)


def deliver(ds, outputs, **options):
    options = {"batch_size": 6, "shuffle": False, "framework": "numpy"} | options
    with ds.loader(outputs, **options) as loader:
        batches = list(loader)
    return {name: np.concatenate([b[name] for b in batches]) for name in outputs}


def expected(nulls, null, nan):
    return np.where(nulls, null, np.where(np.isnan(X), nan, X))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_missing_is_null_and_nan_from_every_source(source, dtype):
    ds, nulls = source
    x = fb.col("x", dtype=dtype)
    got = deliver(ds, {
        "x": x, "is_missing": x.is_missing(), "is_null": x.is_null(), "fill_missing": x.fill_missing(7), "fill_null": x.fill_null(8),
        "fill_nan": x.fill_null(8).fill_nan(9), "both": x.fill_null(8).fill_missing(9), "half": fb.col("w").fill_missing(7).cast("float32"),
    })  # fmt: skip
    np.testing.assert_array_equal(got["x"], expected(nulls, NAN, NAN))
    np.testing.assert_array_equal(got["is_missing"], nulls | np.isnan(X))
    np.testing.assert_array_equal(got["is_null"], nulls)
    np.testing.assert_array_equal(got["fill_missing"], expected(nulls, 7, 7))
    np.testing.assert_array_equal(got["fill_null"], expected(nulls, 8, NAN))
    np.testing.assert_array_equal(got["fill_nan"], expected(nulls, 8, 9))
    np.testing.assert_array_equal(got["both"], expected(nulls, 8, 9))
    np.testing.assert_array_equal(got["half"], expected(nulls, 7, 7))
    assert got["x"].dtype == got["fill_missing"].dtype == dtype


def test_what_is_missing_is_found_in_what_is_stored_and_filled_where_it_is_written(source):
    ds, nulls = source
    gone = nulls | np.isnan(X)
    log = fb.col("x").log10()  # of -3: NaN, and not missing
    got = deliver(ds, {
        "first": fb.col("x").fill_missing(100).log10(), "last": log.fill_missing(5), "any": log.fill_nan(5), "mask": log.is_missing(),
        "standard": fb.col("x").standardize(2, 4).fill_missing(0), "before": fb.col("x").fill_missing(0).standardize(2, 4),
        "each": fb.col("x", "n").scale(2).fill_missing([-1, -2]), "shared": fb.col("x").is_missing(),
    })  # fmt: skip
    with np.errstate(invalid="ignore"):
        plain = np.log10(X)
    np.testing.assert_allclose(got["first"], np.where(gone, 2.0, plain))
    np.testing.assert_allclose(got["last"], np.where(gone, 5.0, plain))
    assert np.isnan(got["last"][2])
    np.testing.assert_allclose(got["any"], np.where(gone | (X < 0), 5.0, plain))
    np.testing.assert_array_equal(got["mask"], gone)
    np.testing.assert_array_equal(got["shared"], gone)
    np.testing.assert_array_equal(got["standard"], np.where(gone, 0, (X - 2) / 4))
    np.testing.assert_array_equal(got["before"], np.where(gone, -0.5, (X - 2) / 4))
    np.testing.assert_array_equal(got["each"][:, 0], np.where(gone, -1, 2 * X))


def test_floats_become_integers_once_they_are_filled(source):
    ds, nulls = source
    gone = nulls | np.isnan(X)
    got = deliver(ds, {
        "x": fb.col("x", dtype="int64").fill_missing(-1), "flag": fb.col("x").fill_missing(0).clip(0, 1), "n": fb.col("n").fill_missing(-1),
        "w": fb.col("w").cast("int16").fill_missing(-1),
    })  # fmt: skip
    assert got["x"].dtype == np.int64 and got["w"].dtype == np.int16 and got["n"].dtype == np.int64
    np.testing.assert_array_equal(got["x"], np.where(gone, -1, X))
    np.testing.assert_array_equal(got["w"], np.where(gone, -1, X))
    with pytest.raises(fb.DataError):
        deliver(ds, {"x": fb.col("x", dtype="int64")})
    with pytest.raises(fb.ArgumentError, match="no float holds all of its values"):
        deliver(ds, {"x": fb.col("x", "n", dtype="int64").fill_missing(-1)})
    with pytest.raises(fb.ArgumentError, match="0.5 is not a value of int64"):
        deliver(ds, {"x": fb.col("n").fill_missing(0.5)})


def test_fit_and_windows_count_the_same_values(source):
    ds, nulls = source
    gone = nulls | np.isnan(X)
    assert fb.fit(ds, "x")["x"].missing == gone.sum()
    assert fb.fit(ds, fb.col("x").fill_missing(0))["x"].missing == 0
    assert len(ds.windows(1, 0, drop_missing="x")) == (~gone).sum()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_nan_is_no_key_and_zero_has_one_sign(tmp_path, dtype):
    keys = np.array([1, 1, NAN, NAN, 0.0, -0.0, 2], dtype)
    pq.write_table(pa.table({"k": keys}), tmp_path / "k.parquet", row_group_size=5)
    frame = pd.DataFrame({"k": keys.astype("f8")})
    for source in ({"k": keys}, frame, tmp_path / "k.parquet"):
        ds = fb.open(source)
        with pytest.raises(fb.DataError, match="the key 'k' is missing in row 2"):
            ds.groups("k")
        assert len(ds.windows(2, 0, by="k")) == 2  # of the ones, and of the zeros
    ds = fb.open({"k": keys[4:]})
    assert len(ds.groups("k")) == 2


def test_arrays_lists_strings_and_windows(tmp_path):
    values = np.arange(24.0).reshape(4, 3, 2)
    values[1, 2, 0] = values[3] = NAN
    table = pa.table({
        "list": pa.array([[1.0, NAN, None], None, [], [2.0]]), "text": ["a", None, "", "b"], "f": pa.array([1.0, NAN, None, 4.0]),
    })  # fmt: skip
    got = deliver(fb.open({"m": values}), {"m": fb.col("m").is_missing(), "null": fb.col("m").is_null(), "filled": fb.col("m").fill_missing(-1)})
    assert got["m"].tolist() == [False, True, False, True] and not got["null"].any()
    np.testing.assert_array_equal(got["filled"], np.where(np.isnan(values), -1, values))
    ds = fb.open(table)
    got = deliver(ds, {"list": fb.col("list").is_missing(), "text": fb.col("text").is_missing()})
    assert got["list"].tolist() == got["text"].tolist() == [False, True, False, False]
    batch = next(iter(ds.loader({"list": fb.col("list").fill_missing(-1)}, batch_size=4, framework="numpy")))
    np.testing.assert_array_equal(batch["list"].values, [1, -1, -1, 2])
    got = deliver(ds.windows(4, 0), {"f": fb.col("f").forward_fill(), "gone": fb.col("f").is_missing(), "wide": fb.col("f", "f").is_missing()})
    assert got["f"].tolist() == [[1, 1, 1, 4]] and got["gone"].tolist() == [[False, True, True, False]]
    assert got["wide"].shape == (1, 4, 2)
    with pytest.raises(fb.ArgumentError, match="strings"):
        deliver(ds, {"text": fb.col("text").fill_missing(0)})


def test_makers_see_filled_values():
    ds = fb.open(pa.table({"c": pa.array([1, None, 3]), "f": [1.0, NAN, 2.0]}))
    got = deliver(ds, {"hot": fb.col("c").fill_missing(0).one_hot(4), "sum": fb.expr("f + c")})
    np.testing.assert_array_equal(got["hot"].argmax(1), [1, 0, 3])
    np.testing.assert_array_equal(got["sum"], [2, NAN, 5])
    with pytest.raises(ValueError, match="write them first"):
        fb.col("c").one_hot(4).fill_missing(0)


def test_a_fill_and_forward_fill_exclude_each_other():
    with pytest.raises(ValueError, match="nothing to fill"):
        fb.col("x").forward_fill().fill_missing(0)
    with pytest.raises(ValueError, match="nothing to fill"):
        fb.col("x").fill_nan(0).forward_fill()
    with pytest.raises(ValueError, match="write it first"):
        fb.col("x").log().fill_null(0)
    assert fb.col("x").fill_missing(0).fill_null(1).fill_nan(2)


def test_names_that_there_are_not_say_the_nearest_one(tmp_path):
    for name in ("fill", "missing"):
        assert not hasattr(fb.col("x"), name)
    with pytest.raises(TypeError, match=r"open\(\) has no argument 'missing_column': did you mean 'missing_columns'\?"):
        fb.open(tmp_path, missing_column="fill")
    with pytest.raises(TypeError, match=r"open\(\) has no argument 'fill_missing': missing_columns=\"fill\""):
        fb.open(tmp_path, fill_missing=True)
    with pytest.raises(TypeError, match=r"Lookup\(\) has no argument 'fill'"):
        fb.Lookup({"k": [1], "v": [2.0]}, "k", fill=0)
    with pytest.raises(ValueError, match="use 'error' or 'fill'"):
        fb.open(tmp_path, missing_columns=True)
