"""What a source says of itself and its columns, a pack says as well: units and names, pandas' index, a geometry's CRS; provenance stays apart."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from pack_cases import contents, floats, write

h5py = pytest.importorskip("h5py")

OF_FILE = {"title": "Rivers of Zürich", "version": np.int32(3)}
OF_X = {"units": "m/s", "long_name": "flow", "bounds": np.array([-1.5, 0.1]), "levels": np.array([1, 2, 3], "u2"), "accuracy": np.float32(0.1)}
DROPPED = {"_FillValue": np.float32(-9), "missing_value": np.float32(-9)}
AS_TEXT = {"units": "m/s", "long_name": "flow", "bounds": "[-1.5, 0.10000000000000001]", "levels": "[1, 2, 3]", "accuracy": "0.100000001"}


@pytest.fixture
def rivers(tmp_path):
    (tmp_path / "src").mkdir()
    for k in range(2):
        with h5py.File(tmp_path / f"src/{k}.h5", "w") as f:
            f.attrs.update(OF_FILE)
            f["x"] = np.arange(50, dtype="f4")
            f["x"].attrs.update({**OF_X, **DROPPED})
            f["t"] = np.arange(50)
            f["t"].attrs.update({"units": "days since 2000-01-01", "calendar": "standard", "axis": "T"})
    return tmp_path / "src"


@pytest.mark.parametrize("shuffle", ["full", "none"])
def test_attributes_of_hdf5_become_those_of_each_format(rivers, tmp_path, shuffle):
    for format in ("arrow", "parquet"):
        fb.pack(rivers, tmp_path / format, format=format, shuffle=shuffle, verify=True)
    fb.pack(rivers, tmp_path / "hdf5", format="hdf5", columns=["x"], shuffle=shuffle, verify=True)
    arrow = pa.ipc.open_file(tmp_path / "arrow/part-00000.arrow").schema
    parquet = pq.read_schema(tmp_path / "parquet/part-00000.parquet")
    for schema in (arrow, parquet):
        assert {k.decode(): v.decode() for k, v in schema.field("x").metadata.items()} == AS_TEXT
        assert schema.metadata[b"title"].decode() == OF_FILE["title"] and schema.metadata[b"version"] == b"3"
        assert {k: v for k, v in schema.field("t").metadata.items() if not k.startswith(b"PARQUET")} == {
            b"axis": b"T", b"units": b"days since 2000-01-01", b"calendar": b"standard"}  # numbers, not timestamps: without their unit they mean nothing
    with h5py.File(tmp_path / "hdf5/part-00000.hdf5") as f:
        assert set(f["x"].attrs) == set(OF_X)
        for name, value in OF_X.items():
            found = f["x"].attrs[name]
            assert np.array_equal(found, value) and np.asarray(found).dtype.kind == np.asarray(value).dtype.kind or found == value, name
            assert isinstance(value, str) or (found.dtype, found.shape) == (value.dtype, value.shape), name
        assert f.attrs["title"] == OF_FILE["title"] and f.attrs["version"] == 3 and f.attrs["version"].dtype == "i4"
        assert f.attrs["forebay.shuffle"] == shuffle
    values = pa.table(fb.open(rivers))["x"].to_pylist()
    assert sorted(pa.table(fb.open(tmp_path / "hdf5"))["x"].to_pylist()) == sorted(values)


@pytest.mark.parametrize("format", ["arrow", "parquet", "hdf5"])
def test_metadata_of_tables_stay_but_not_those_of_columns_that_are_gone(tmp_path, format):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]}, index=pd.Index([7, 8], name="site"))
    table = pa.Table.from_pandas(frame)
    (tmp_path / "src").mkdir()
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, "geo": '{"version": "1.0.0"}', "license": "CC0"}), tmp_path / "src/0.parquet")

    def said(name):
        attrs = fb.open(tmp_path / name).attrs
        return {key: attrs[key] for key in ("pandas", "geo", "license") if key in attrs}

    fb.pack(tmp_path / "src", tmp_path / "all", format=format, shuffle="none")
    assert said("all") == {"pandas": table.schema.metadata[b"pandas"].decode(), "geo": '{"version": "1.0.0"}', "license": "CC0"}
    if format == "parquet":
        assert pq.read_table(tmp_path / "all/part-00000.parquet").to_pandas().equals(frame)
    fb.pack(tmp_path / "src", tmp_path / "some", format=format, columns=["a"])
    assert said("some") == {"license": "CC0"}
    fb.pack(tmp_path / "all", tmp_path / "again", format=format, seed=9)
    assert said("again") == said("all") and fb.open(tmp_path / "again").attrs["forebay.seed"] == "9"
    assert json.loads((tmp_path / "again/_pack.json").read_text())["seed"] == 9


def test_samples_and_sources_that_say_nothing_have_none(rivers, tmp_path):
    fb.pack(fb.open(rivers), tmp_path / "samples", outputs=["x"])
    schema = pa.ipc.open_file(tmp_path / "samples/part-00000.arrow").schema
    assert not schema.metadata and not schema.field("x").metadata
    a = fb.pack(write(floats(100), tmp_path / "plain"), tmp_path / "a", verify=True)
    assert a.rows == 100 and not pa.ipc.open_file(tmp_path / "a/part-00000.arrow").schema.metadata
    assert len(contents(tmp_path / "a")) == 2
