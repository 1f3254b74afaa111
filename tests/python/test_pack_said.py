"""What a source says of itself and a pack cannot say, or may not: no number may come to mean something else, and nothing is lost without a word."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from test_pack_attributes import FIELDS, column, said_by_columns, write_fields

h5py = pytest.importorskip("h5py")

END = {"hdf5": "h5", "parquet": "parquet", "arrow": "arrow"}
CANNOT = "left out, as a pack keeps single texts in UTF-8 and up to 1,024 numbers"


def write_said(folder, *said, kind="hdf5", values=(1, 2, 3), dtype="f8", root=()):
    """A file for each: attributes of the column x."""
    folder.mkdir(exist_ok=True)
    for k, attributes in enumerate(said):
        if kind == "hdf5":
            with h5py.File(folder / f"{k}.h5", "w") as f:
                f.attrs.update(root)
                f["x"] = np.array(values, dtype)
                f["x"].attrs.update(attributes)
        else:
            write_fields(folder, kind, FIELDS.set(0, FIELDS.field(0).with_metadata(attributes)), str(k))
    return folder


# ---- of several files ----


@pytest.mark.parametrize("name, one, other", [("units", "K", "degC"), ("calendar", "standard", "noleap")])
@pytest.mark.parametrize("kind", END)
def test_units_of_two_meanings_are_refused_also_where_the_first_file_states_none(tmp_path, kind, name, one, other):
    src = write_said(tmp_path / "src", {}, {name: one}, {}, {name: other}, kind=kind)
    end = END[kind]
    for threads in (1, 4):
        with pytest.raises(fb.SchemaError, match=f"column 'x' has {name} '{one}' in '1.{end}', and '{other}' in '3.{end}'"):
            fb.pack(src, tmp_path / "out", threads=threads)
    (src / f"3.{end}").unlink()
    assert f"'{name}' of 'x': left out" in fb.pack(src, tmp_path / "out").note  # what the others' numbers are, nobody says
    assert name not in said_by_columns(tmp_path / "out", "arrow")["x"]


@pytest.mark.parametrize("name", ["_FillValue", "missing_value", "valid_min", "valid_max"])
@pytest.mark.parametrize("said", [(-9, -8), (-9, None), (None, -9), (None, None, -9)], ids=str)
def test_stored_values_of_other_fill_values_are_refused(tmp_path, name, said):
    src = write_said(tmp_path / "src", *({} if value is None else {name: np.int16(value)} for value in said), values=[-9, 1, 2], dtype="i2")
    with pytest.raises(fb.SchemaError, match=f"column 'x' has {name} '-9' in .*two things.*without stored_values"):
        fb.pack(fb.open(src, stored_values=True), tmp_path / "out")
    fb.pack(src, tmp_path / "out", verify=True)
    assert column(tmp_path / "out") == column(src)


def test_a_list_of_one_number_is_that_number(tmp_path):
    src = write_said(tmp_path / "src", {"scale_factor": np.float32(0.5)}, {"scale_factor": np.array([0.5], "f4")}, dtype="i2")
    assert fb.pack(fb.open(src, stored_values=True), tmp_path / "out", format="hdf5").note is None
    assert column(tmp_path / "out") == column(src)
    src = write_said(tmp_path / "one", {}, {"scale_factor": np.array([1.0])}, dtype="i2")
    assert "'scale_factor' of 'x'" in fb.pack(fb.open(src, stored_values=True), tmp_path / "same").note


def test_pandas_of_files_of_other_lengths_says_the_same(tmp_path):
    (tmp_path / "src").mkdir()
    for k, rows in enumerate((3, 50, 7)):
        pd.DataFrame({"x": np.arange(rows), "when": pd.date_range("2020-01-01", periods=rows, tz="Europe/Zurich")}).to_parquet(tmp_path / f"src/{k}.parquet")
    done = fb.pack(tmp_path / "src", tmp_path / "out", format="parquet", shuffle="none", verify=True)
    assert done.note is None and "pandas" in fb.open(tmp_path / "out").attrs
    frame = pd.read_parquet(tmp_path / "out/part-00000.parquet")
    assert list(frame.index) == list(range(60)) and str(frame["when"].dtype).endswith("Europe/Zurich]")
    frame.set_index(pd.RangeIndex(5, 65)).to_parquet(tmp_path / "src/3.parquet")
    assert "'pandas': left out" in fb.pack(tmp_path / "src", tmp_path / "other", format="parquet").note


# ---- what a pack cannot say ----


def test_names_that_are_no_text_are_left_out_and_counted(tmp_path):
    src = write_said(tmp_path / "src", {"units": "K"})
    with h5py.File(src / "0.h5", "a") as f:
        for at in (f, f["x"]):
            h5py.h5a.create(at.id, b"\xb0C", h5py.h5t.NATIVE_INT32, h5py.h5s.create(h5py.h5s.SCALAR)).write(np.array(1, "i4"))
    for format in ("arrow", "parquet", "hdf5"):
        for task in fb.pack_tasks(src, tmp_path / format, format=format):
            done = fb.pack_task(src, tmp_path / format, task, format=format)
        assert CANNOT in done.note and done.note.count("xb0C") == 2
        assert said_by_columns(tmp_path / format, format) == {"x": {"units": "K"}}


LOST = {"names": ["a", "b"], "good": True, "matrix": np.eye(2), "many": np.arange(1025), "of": np.bytes_(b"Z\xfcrich")}


@pytest.mark.parametrize("files", [1, 2])
def test_values_that_a_pack_cannot_say_are_named(tmp_path, files):
    src = write_said(tmp_path / "src", *[{"long_name": "flow", **LOST}] * files)
    note = fb.pack(src, tmp_path / "out").note
    assert sum(f"'{name}' of 'x'" in note for name in LOST) == 2 and note.endswith(f" and 3 more: {CANNOT}"), note
    assert said_by_columns(tmp_path / "out", "arrow") == {"x": {"long_name": "flow"}}


@pytest.mark.parametrize("said", [(b"\xb0C", "K"), ("K", b"\xb0C"), (None, b"\xb0C", "K"), (b"\xb0C", b"\xb0F")], ids=str)
def test_units_that_are_not_utf8_are_compared(tmp_path, said):
    src = write_said(tmp_path / "src", *({} if value is None else {"units": np.bytes_(value) if isinstance(value, bytes) else value} for value in said))
    with pytest.raises(fb.SchemaError, match="column 'x' has units .*two things"):
        fb.pack(src, tmp_path / "out")
    same = write_said(tmp_path / "same", *[{"units": np.bytes_(b"\xb0C")}] * 2)
    assert fb.pack(same, tmp_path / "out").note == f"'units' of 'x': {CANNOT}"


# ---- what may not become something else ----


@pytest.mark.parametrize("dtype, fill", [("f4", 9.969209968386869e36), ("f8", 9.969209968386869e36), ("i2", -32767), ("u2", 65535), ("i4", -2147483647)])
def test_default_fill_values_of_netcdf_are_said(tmp_path, dtype, fill):
    src = write_said(tmp_path / "src", {"units": "K"}, values=[1, fill, 3], dtype=dtype, root={"_NCProperties": "version=2,netcdf=4.9.2"})
    assert None in column(src)
    fb.pack(fb.open(src, stored_values=True), tmp_path / "out", format="hdf5", verify=True)
    with h5py.File(tmp_path / "out/part-00000.hdf5") as f:
        assert f["x"].attrs["_FillValue"] == np.array(fill, dtype) and f["x"].attrs["_FillValue"].dtype == dtype
    assert column(tmp_path / "out") == column(src) and column(tmp_path / "out", stored_values=True) == column(src, stored_values=True)
    fb.pack(src, tmp_path / "unpacked")
    assert said_by_columns(tmp_path / "unpacked", "arrow") == {"x": {"units": "K"}}
    assert "_FillValue" not in fb.open(src).contents()["/x"].attributes  # the file does not say it


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_a_text_of_metadata_does_not_change_numbers(tmp_path, kind):
    schema = pa.schema([pa.field("x", pa.int8(), metadata={"_Unsigned": "true", "units": "K"})])
    (tmp_path / "src").mkdir()
    table = pa.table({"x": pa.array([-1, 2], pa.int8())}, schema=schema)
    if kind == "parquet":
        pq.write_table(table, tmp_path / "src/0.parquet")
    else:
        with pa.OSFile(str(tmp_path / "src/0.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(table)
    for stored in (False, True):
        fb.pack(fb.open(tmp_path / "src", stored_values=stored), tmp_path / f"{stored}", format="hdf5", verify=True)
        assert column(tmp_path / f"{stored}") == [-1, 2] and said_by_columns(tmp_path / f"{stored}", "hdf5") == {"x": {"units": "K"}}
    fb.pack(tmp_path / "src", tmp_path / "arrow")
    assert said_by_columns(tmp_path / "arrow", "arrow") == {"x": {"units": "K", "_Unsigned": "true"}}


LISTS = ["pandas", "huggingface", "org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema", "iceberg.schema", "r"]


def test_lists_of_columns_stay_where_the_columns_are_the_files_own(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "b": [3, 4]}).replace_schema_metadata({**dict.fromkeys(LISTS, "a, b"), "license": "CC0"})
    (tmp_path / "src/site=1").mkdir(parents=True)
    pq.write_table(table, tmp_path / "src/site=1/0.parquet")

    def said(source, name, **options):
        fb.pack(source, tmp_path / name, **options)
        return set(fb.open(tmp_path / name).attrs) & {*LISTS, "license"}

    src = tmp_path / "src/site=1"
    assert said(src, "all") == said(src, "named", columns=["a", "b"]) == {*LISTS, "license"}
    assert said(src, "one", columns=["a"]) == said(src, "turned", columns=["b", "a"]) == {"license"}
    assert said(str(tmp_path / "src/site={site}/*.parquet"), "more") == {"license"}


def test_numbers_of_parquets_fields_are_not_copied(tmp_path):
    write_fields(tmp_path / "src", "arrow", FIELDS.set(0, FIELDS.field(0).with_metadata({"PARQUET:field_id": "7", "units": "K"})))
    fb.pack(tmp_path / "src", tmp_path / "out")
    assert pa.ipc.open_file(tmp_path / "out/part-00000.arrow").schema.field("x").metadata == {b"units": b"K"}
