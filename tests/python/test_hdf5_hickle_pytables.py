"""Files of hickle, PyTables and pandas: plain arrays and tables are read, the rest is refused with the lines that convert it.

The layouts are written with h5py, attribute for attribute as hickle 4 and 5, PyTables 3 and pandas 2 write them; where these packages are
installed, real files of theirs are read too.
"""

import importlib.util

import numpy as np
import pytest

import forebay as fb

h5py = pytest.importorskip("h5py")


def values(ds, *names):
    batch = next(iter(ds.loader(list(names), batch_size=len(ds), shuffle=False)))
    return [np.asarray(batch[name]) for name in names]


def convertible(error, *texts):
    message = str(error.value)
    assert "convert the file once, in Python: " in message and "\n" not in message
    for text in texts:
        assert text in message, message


# ---- hickle ----


def hickle_file(path):
    file = h5py.File(path, "w")
    file.attrs["HICKLE_VERSION"] = "5.0.3"
    file.attrs["HICKLE_PYTHON_VERSION"] = "3.11.7"
    types = file.create_group("hickle_types_table", track_order=True)
    types["ndarray"] = h5py.Empty("u1")
    types.create_dataset("0", data=np.zeros((1, 32), "S1"))
    return file, types


def typed(file, types, name, data):
    file[name] = data
    file[name].attrs["type"] = types["0"].ref


def test_an_array_of_hickle_is_a_column(tmp_path):
    x = np.arange(24.0).reshape(12, 2)
    file, types = hickle_file(tmp_path / "a.hkl")
    with file:
        typed(file, types, "data", x)
    ds = fb.open(tmp_path / "a.hkl")
    assert "hickle_types_table" not in str(ds)
    np.testing.assert_array_equal(values(ds, "data")[0], x)


def test_a_dict_of_hickle_has_its_keys_as_columns(tmp_path):
    x, bits = np.arange(24.0).reshape(12, 2), np.arange(12, dtype=np.uint8) % 2
    file, types = hickle_file(tmp_path / "a.hkl")
    with file:
        typed(file, types, 'data/"x"', x)
        typed(file, types, 'data/"bits"', bits)
        typed(file, types, 'data/"inner"/"y"', x[:, 0])
        file['data/"frame"'] = np.frombuffer(b"\x80\x05 pickled", np.uint8)
    ds = fb.open(tmp_path / "a.hkl")
    for got, expect in zip(values(ds, "x", "bits", "inner/y"), (x, bits, x[:, 0])):
        np.testing.assert_array_equal(got, expect)
    assert "frame" in str(ds) and "hickle.load('a.hkl')" in str(ds)


def test_a_tuple_of_arrays_is_columns_and_a_list_of_rows_is_refused(tmp_path):
    file, types = hickle_file(tmp_path / "a.hkl")
    with file:
        typed(file, types, "data/data0", np.ones((9, 2)))
        typed(file, types, "data/data1", np.arange(9))
    np.testing.assert_array_equal(values(fb.open(tmp_path / "a.hkl"), "data1")[0], np.arange(9))
    for name, items in {"ragged": [np.ones(3), np.ones(5)], "scalars": [np.ones(3), 4]}.items():
        file, types = hickle_file(tmp_path / f"{name}.hkl")
        with file:
            for k, item in enumerate(items):
                typed(file, types, f"data/data{k}", item)
        with pytest.raises(fb.UnsupportedError) as error:
            fb.open(tmp_path / f"{name}.hkl")
        convertible(error, "a list", f"rows = hickle.load('{name}.hkl'); pandas.DataFrame(rows).to_parquet('{name}.parquet')")


@pytest.mark.parametrize("version", [4, 5])
def test_what_hickle_pickled_is_refused(tmp_path, version):
    file, types = hickle_file(tmp_path / "df.hkl")
    with file:
        file["data"] = np.frombuffer(b"\x80\x05 pickled", np.uint8)
        if version == 4:
            file["data"].attrs["base_type"] = np.bytes_(b"pickle")
            file["data"].attrs["type"] = np.void(b"pandas")
    with pytest.raises(fb.UnsupportedError) as error:
        fb.open(tmp_path / "df.hkl")
    convertible(error, "df.hkl", "df = hickle.load('df.hkl'); df.to_parquet('df.parquet')")
    assert len(fb.open(tmp_path / "df.hkl", table="data")) == 10  # its bytes, for those who insist


# ---- PyTables and pandas ----


def pytables_file(path):
    file = h5py.File(path, "w")
    file.attrs.update({"CLASS": np.bytes_(b"GROUP"), "PYTABLES_FORMAT_VERSION": np.bytes_(b"2.1"), "VERSION": np.bytes_(b"1.0")})
    return file


def node(file, name, data, kind, **attributes):
    file[name] = data
    file[name].attrs["CLASS"] = np.bytes_(kind)
    for key, value in attributes.items():
        file[name].attrs[key] = np.bytes_(value)


def records(n=20):
    out = np.zeros(n, [("t", "i8"), ("q", "f4"), ("v", "f4", (3,)), ("name", "S8")])
    out["t"], out["q"], out["v"] = np.arange(n), np.arange(n) / 2, np.arange(3 * n).reshape(n, 3)
    return out


def test_a_table_of_pytables_is_read_and_its_index_is_not(tmp_path):
    with pytables_file(tmp_path / "a.h5") as file:
        node(file, "pulses", records(), "TABLE")
        node(file, "_i_pulses/t/sortedLR", np.arange(131201), "LASTROWARRAY")
        node(file, "_i_pulses/t/indicesLR", np.arange(131072), "LASTROWARRAY")
    ds = fb.open(tmp_path / "a.h5")
    assert len(ds) == 20 and "_i_" not in str(ds)
    t, v = values(ds, "pulses.t", "pulses.v")
    np.testing.assert_array_equal(t, np.arange(20))
    np.testing.assert_array_equal(v, records()["v"])


def test_arrays_of_pytables_are_columns_and_pickled_rows_are_left_out(tmp_path):
    with pytables_file(tmp_path / "a.h5") as file:
        node(file, "a", np.arange(20.0), "ARRAY")
        node(file, "c", np.arange(40).reshape(20, 2), "CARRAY")
        file.create_dataset("o", (20,), h5py.vlen_dtype(np.uint8))
        file["o"].attrs["PSEUDOATOM"] = np.bytes_(b"object")
    ds = fb.open(tmp_path / "a.h5")
    np.testing.assert_array_equal(values(ds, "c")[0], np.arange(40).reshape(20, 2))
    assert "'o' is left out: PyTables pickled its rows" in str(ds) and "get_node('/o')" in str(ds)
    assert "o" not in [field.name for field in ds.schema]


def test_a_frame_that_pandas_wrote_in_blocks_is_refused(tmp_path):
    with pytables_file(tmp_path / "fixed.h5") as file:
        for name in ("axis0", "axis1", "block0_items", "block0_values"):
            node(file, f"runs/df/{name}", np.ones((12, 2)) if name == "block0_values" else np.arange(2), "ARRAY")
        file["runs/df"].attrs["pandas_type"] = np.bytes_(b"frame")
    with pytest.raises(fb.UnsupportedError) as error:
        fb.open(tmp_path / "fixed.h5")
    convertible(error, "format='fixed'", "df = pandas.read_hdf('fixed.h5', 'runs/df'); df.to_parquet('fixed.parquet')")
    assert len(fb.open(tmp_path / "fixed.h5", table="runs/df/block0_values")) == 12
    blocks = np.zeros(9, [("index", "i8"), ("values_block_0", "f8", (2,)), ("values_block_1", "S4", (1,))])
    with pytables_file(tmp_path / "table.h5") as file:
        node(file, "df/table", blocks, "TABLE")
        file["df"].attrs["pandas_type"] = np.bytes_(b"frame_table")
    with pytest.raises(fb.UnsupportedError) as error:
        fb.open(tmp_path / "table.h5")
    convertible(error, "format='table'", "df = pandas.read_hdf('table.h5', 'df'); df.to_parquet('table.parquet')")


def test_a_frame_with_data_columns_is_a_table(tmp_path):
    with pytables_file(tmp_path / "table.h5") as file:
        node(file, "df/table", records(), "TABLE")
        node(file, "df/_i_table/index/sortedLR", np.arange(131201), "LASTROWARRAY")
        file["df"].attrs["pandas_type"] = np.bytes_(b"frame_table")
    np.testing.assert_array_equal(values(fb.open(tmp_path / "table.h5"), "df/table.q")[0], records()["q"])


def test_other_files_with_such_names_are_read_as_ever(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["_i_/x"] = np.arange(50)
        file["data"] = np.arange(7, dtype=np.uint8)
        file["df/axis0"] = np.arange(9)
        file["df"].attrs["pandas_type"] = "frame"
    assert len(fb.open(tmp_path / "a.h5")) == 50


# ---- the packages themselves ----


def needs(*packages):
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


@needs("hickle")
def test_real_files_of_hickle(tmp_path):
    import hickle

    x, y = np.arange(24.0).reshape(12, 2), np.arange(12)
    hickle.dump({"x": x, "y": y}, str(tmp_path / "d.hkl"), compression="gzip")
    for got, expect in zip(values(fb.open(tmp_path / "d.hkl"), "x", "y"), (x, y)):
        np.testing.assert_array_equal(got, expect)
    hickle.dump([(1, "ann"), (2, "bob")], str(tmp_path / "rows.hkl"))
    with pytest.raises(fb.UnsupportedError, match="hickle wrote a list"):
        fb.open(tmp_path / "rows.hkl")


@needs("tables", "pandas")
def test_real_files_of_pandas(tmp_path):
    import pandas as pd

    df = pd.DataFrame({"year": np.arange(12), "score": np.arange(12) / 8, "name": ["a", "b"] * 6})
    df.to_hdf(tmp_path / "fixed.h5", key="df")
    with pytest.raises(fb.UnsupportedError, match="pandas.read_hdf"):
        fb.open(tmp_path / "fixed.h5")
    df.to_hdf(tmp_path / "table.h5", key="df", format="table", data_columns=True)
    np.testing.assert_array_equal(values(fb.open(tmp_path / "table.h5"), "df/table.score")[0], df["score"])
    df["score"].to_hdf(tmp_path / "series.h5", key="s")
    np.testing.assert_array_equal(values(fb.open(tmp_path / "series.h5"), "s/values")[0], df["score"])
