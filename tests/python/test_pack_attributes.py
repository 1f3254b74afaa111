"""What a source says of itself and its columns, a pack says as well: units and names, pandas' index, a geometry's CRS; provenance stays apart."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from pack_cases import contents, floats, write

h5py = pytest.importorskip("h5py")

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
needs_cli = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")

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


# ---- of columns of Arrow and Parquet files ----

FIELDS = pa.schema([
    pa.field("x", pa.float32(), metadata={"units": "K", "long_name": "Temperatur in Zürich"}),
    pa.field("n", pa.int32()),
    pa.field("j", pa.string(), metadata={"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": "", "of": "a document"}),
], metadata={"license": "CC0"})  # fmt: skip


def write_fields(folder, format, schema=FIELDS, name="0"):
    table = pa.table({"x": np.arange(20, dtype="f4"), "n": np.arange(20, dtype="i4"), "j": ["{}"] * 20}).cast(schema)
    folder.mkdir(exist_ok=True)
    if format == "parquet":
        pq.write_table(table, folder / f"{name}.parquet")
    else:
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(table)
    return folder


def said_by_columns(folder, format):
    """Of each column, without the numbers of fields that pyarrow adds to what it reads."""
    if format == "hdf5":
        with h5py.File(folder / "part-00000.hdf5") as f:
            return {name: dict(f[name].attrs) for name in f}
    schema = pa.ipc.open_file(folder / "part-00000.arrow").schema if format == "arrow" else pq.read_schema(folder / "part-00000.parquet")
    return {f.name: {k.decode(): v.decode() for k, v in (f.metadata or {}).items() if not k.startswith(b"PARQUET")} for f in schema}


@pytest.mark.parametrize("source", ["arrow", "parquet"])
@pytest.mark.parametrize("format", ["arrow", "parquet", "hdf5"])
def test_metadata_of_columns_stay(tmp_path, source, format):
    write_fields(tmp_path / "src", source)
    done = fb.pack(tmp_path / "src", tmp_path / "out", format=format, columns=["n", "x", "j"], verify=True)
    expected = {"x": {"units": "K", "long_name": "Temperatur in Zürich"}, "n": {}, "j": {"of": "a document"}}  # a text, and no extension's any more
    assert said_by_columns(tmp_path / "out", format) == expected and done.note is None
    assert fb.open(tmp_path / "out").attrs["license"] == "CC0"
    assert fb.open(tmp_path / "out").contents()["/x"].attributes["units"] == "K"
    fb.pack(tmp_path / "out", tmp_path / "again", format=source, seed=3)
    assert said_by_columns(tmp_path / "again", source) == expected


# ---- of fields inside of columns ----


def nested(x_units="K", item_units="m", entry=None):
    fields = {
        "i": pa.int64(),
        "s": pa.struct([pa.field("n", pa.int32()), pa.field("x", pa.float32(), metadata={"units": x_units, "long_name": "temperature"})]),
        "l": pa.list_(pa.field("item", pa.struct([pa.field("y", pa.float64(), metadata={"units": item_units})]))),
        "m": pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("item", pa.int8(), metadata={"of": "a list in a map"})))),
        "f": pa.list_(pa.field("item", pa.float32(), metadata=entry or {"units": "s"}), 2),
    }
    return pa.schema(list(fields.items()))


def write_nested(folder, kind, *schemas):
    folder.mkdir()
    for k, schema in enumerate(schemas):
        rows = [{"i": i, "s": {"n": i, "x": i / 2}, "l": [{"y": i}] * (i % 3), "m": [("k", [i])], "f": [i, i]} for i in range(k * 20, k * 20 + 20)]
        table = pa.Table.from_pylist(rows, schema)
        if kind == "parquet":
            pq.write_table(table, folder / f"{k}.parquet")
        else:
            with pa.OSFile(str(folder / f"{k}.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                writer.write_table(table)
    return folder


def said_inside(field, path=""):
    """Of each field, by where it lies: what pyarrow reads of its metadata."""
    said = {k.decode(): v.decode() for k, v in (field.metadata or {}).items() if not k.startswith(b"PARQUET")}
    below = [field.type.field(i) for i in range(field.type.num_fields)] if pa.types.is_nested(field.type) else []
    return {**({path + field.name: said} if said else {}), **{k: v for f in below for k, v in said_inside(f, f"{path}{field.name}/").items()}}


INSIDE = {"x": {"units": "K", "long_name": "temperature"}, "y": {"units": "m"}, "a list in a map": {"of": "a list in a map"}, "f": {"units": "s"}}


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_metadata_of_fields_inside_of_columns_stay(tmp_path, kind, format):
    source = write_nested(tmp_path / "src", kind, nested(), nested())
    inside = {k: v for k, v in INSIDE.items() if (k, kind, format) != ("f", "arrow", "parquet")}  # which has no arrays
    done = fb.pack(source, tmp_path / "out", format=format, verify=True, columns=[*(["f"] if "f" in inside else []), "m", "l", "s", "i"])
    fb.pack(tmp_path / "out", tmp_path / "again", format=kind, seed=3)
    for folder, written in (("out", format), ("again", kind)):
        end = "arrow" if written == "arrow" else "parquet"
        schema = pa.ipc.open_file(tmp_path / folder / "part-00000.arrow").schema if end == "arrow" else pq.read_schema(tmp_path / folder / "part-00000.parquet")
        said = [(k, v) for field in schema for k, v in said_inside(field).items()]
        assert sorted(map(str, (v for _, v in said))) == sorted(map(str, inside.values())), said
        assert {k.split("/")[0]: v for k, v in said}["s"] == INSIDE["x"] and any(k == "s/x" for k, _ in said)
        if "f" in inside:
            assert {k: v for k, v in said if k.startswith("f/")} == {"f/" + schema.field("f").type.field(0).name: INSIDE["f"]}
    assert done.note is None


def test_hdf5_has_no_place_for_them_and_the_note_says_so(tmp_path):
    source = write_nested(tmp_path / "src", "arrow", nested())
    done = fb.pack(source, tmp_path / "out", format="hdf5", columns=["f", "i"])
    assert done.note == "'units' of 'f[]': left out, as a pack keeps single texts in UTF-8 and up to 1,024 numbers, in HDF5 of whole columns"
    assert said_by_columns(tmp_path / "out", "hdf5") == {"f": {}, "i": {}}


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_numbers_inside_of_columns_that_would_mean_two_things_are_refused(tmp_path, kind):
    source = write_nested(tmp_path / "x", kind, nested(), nested("degC"))
    with pytest.raises(fb.SchemaError, match=rf"column 's\.x' has units 'K' in '0\.{kind}', and 'degC' in '1\.{kind}'"):
        fb.pack(source, tmp_path / "out")
    source = write_nested(tmp_path / "y", kind, nested(), nested(), nested(item_units="km"))
    with pytest.raises(fb.SchemaError, match=rf"column 'l\[\]\.y' has units 'm' in '0\.{kind}', and 'km' in '2\.{kind}'"):
        fb.pack(source, tmp_path / "out")
    assert fb.pack(source, tmp_path / "s", columns=["s"]).note is None
    source = write_nested(tmp_path / "z", kind, nested(), nested(entry={"units": "s", "only": "here"}))
    assert fb.pack(source, tmp_path / "out").note.startswith("'only' of 'f[]': left out, as the source's files do not say the same")


# ---- that nobody can keep ----


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_too_many_keys_are_left_out_and_the_note_says_so(tmp_path, kind):
    many = FIELDS.with_metadata({f"k{i}": "" for i in range(10_001)})
    write_fields(tmp_path / "src", kind, FIELDS, "0")
    for name in ("2", "1"):
        write_fields(tmp_path / "src", kind, many, name)
    done = fb.pack(tmp_path / "src", tmp_path / "out")
    end = {"arrow": "arrow", "parquet": "parquet"}[kind]
    assert f"'1.{end}': metadata of more than 10,000 keys, of the file or of a column, are left out" in done.note and "'license'" in done.note
    assert said_by_columns(tmp_path / "out", "arrow")["x"] == {"units": "K", "long_name": "Temperatur in Zürich"}
    (tmp_path / "one").mkdir()
    (tmp_path / "src" / f"1.{end}").rename(tmp_path / "one" / f"1.{end}")
    assert fb.pack(tmp_path / "one", tmp_path / "of one").note == f"'1.{end}': metadata of more than 10,000 keys, of the file or of a column, are left out"


# ---- of files that do not say the same ----


def write_differing(folder, files=5):
    folder.mkdir()
    for k in range(files):
        with h5py.File(folder / f"{k}.h5", "w") as f:
            f.attrs.update({"title": "Rivers", "version": np.int32(3), "history": f"made on day {k}", **({"only": "the first"} if k == 0 else {"later": k})})
            f["x"] = np.arange(50, dtype="f4")
            f["x"].attrs.update({"units": "m/s", "level": np.float32(k // 3), **({"long_name": "flow"} if k != 4 else {})})
            f["y"] = np.arange(50.0)
            f["y"].attrs.update({"calendar": "standard" if k else "gregorian", **({} if k == 3 else {"units": "K"})})
    return folder


LEFT_OUT = ["'history'", "'only'", "'later'", "'long_name' of 'x'", "'level' of 'x'", "'units' of 'y'", "'calendar' of 'y'"]


@pytest.mark.parametrize("format", ["arrow", "parquet", "hdf5"])
def test_only_what_all_files_say_is_said_and_a_note_names_the_rest(tmp_path, format):
    src = write_differing(tmp_path / "src")
    done = fb.pack(src, tmp_path / "out", format=format, verify=True)
    assert sum(name in done.note for name in LEFT_OUT) == 4 and "and 3 more: left" in done.note, done.note
    assert "the first that differs is '1.h5'" in done.note and "left out, as the source's files do not say the same" in done.note
    assert fb.pack(src, tmp_path / "dry", dry_run=True).note == done.note
    assert said_by_columns(tmp_path / "out", format) == {"x": {"units": "m/s"}, "y": {}}
    attrs = fb.open(tmp_path / "out").attrs
    assert {name for name in attrs if not name.startswith(("forebay.", "ARROW"))} == {"title", "version"}
    for task in fb.pack_tasks(src, tmp_path / "tasks", format=format, verify=True):
        assert fb.pack_task(src, tmp_path / "tasks", task, format=format, verify=True).note == done.note
    assert contents(tmp_path / "tasks") == contents(tmp_path / "out")
    fb.pack(src, tmp_path / "threads", format=format, threads=4, verify=True)
    assert contents(tmp_path / "threads") == contents(tmp_path / "out")
    assert fb.pack(src, tmp_path / "x", columns=["x"]).note.count("'units'") == 0
    for threads in (1, 4) * 3:
        assert fb.pack(src, tmp_path / "dry", dry_run=True, threads=threads).note == done.note
    assert fb.pack(src, tmp_path / "samples", outputs=["x", "y"]).note is None


@needs_cli
def test_the_command_prints_the_note(tmp_path):
    src = write_differing(tmp_path / "src")
    pack = [CLI, "pack", src, "--no-cache", "--to"]
    done = subprocess.run([*pack, tmp_path / "a"], capture_output=True, text=True, check=True)
    assert "forebay: note: 'only'" in done.stderr or "forebay: note: 'history'" in done.stderr
    plan = subprocess.run([*pack, tmp_path / "b", "--task", "plan:0"], capture_output=True, text=True, check=True)
    assert plan.stderr == done.stderr
    scatter = subprocess.run([*pack, tmp_path / "b", "--task", "scatter:0"], capture_output=True, text=True, check=True)
    assert "note" not in scatter.stderr
    said = json.loads(subprocess.run([*pack, tmp_path / "c", "--json"], capture_output=True, text=True, check=True).stdout)
    assert f"forebay: note: {said['note']}\n" == done.stderr


UNITS = [
    ("units", "days since 2000-01-01", "days since 2001-01-01"), ("units", "K", "degC"), ("calendar", "standard", "noleap"),
]  # fmt: skip


@pytest.mark.parametrize("name, first, other", UNITS)
@pytest.mark.parametrize("kind", ["hdf5", "parquet", "arrow"])
def test_numbers_that_would_mean_two_things_are_refused_by_column_and_file(tmp_path, kind, name, first, other):
    for k in range(3):
        said = {name: other if k == 2 else first}
        if kind == "hdf5":
            (tmp_path / "src").mkdir(exist_ok=True)
            with h5py.File(tmp_path / f"src/{k}.h5", "w") as f:
                f["x"], f["n"] = np.arange(9.0), np.arange(9)
                f["x"].attrs.update(said)
        else:
            write_fields(tmp_path / "src", kind, FIELDS.set(0, FIELDS.field(0).with_metadata(said)), str(k))
    end = {"hdf5": "h5"}.get(kind, kind)
    message = f"column 'x' has {name} '{first}' in '0.{end}', and '{other}' in '2.{end}'"
    for call in (lambda: fb.pack(tmp_path / "src", tmp_path / "out"), lambda: fb.pack_task(tmp_path / "src", tmp_path / "out", "plan:0"),
                 lambda: fb.pack(tmp_path / "src", tmp_path / "out", dry_run=True)):  # fmt: skip
        with pytest.raises(fb.SchemaError, match=message):
            call()
        assert not (tmp_path / "out").exists()
    if CLI.exists():
        refused = subprocess.run([CLI, "pack", tmp_path / "src", "--to", tmp_path / "out", "--no-cache"], capture_output=True, text=True, check=False)
        assert refused.returncode == 1 and message in refused.stderr and "--columns without it" in refused.stderr
    assert fb.pack(tmp_path / "src", tmp_path / "n", columns=["n"]).note is None
    fb.pack(tmp_path / "src", tmp_path / "samples", outputs=["x"])
    assert "x" not in said_by_columns(tmp_path / "n", "arrow") and said_by_columns(tmp_path / "samples", "arrow") == {"x": {}}


def test_the_units_of_the_first_file_hold_where_they_are_asked_for(tmp_path):
    (tmp_path / "src").mkdir()
    units = [{"units": "degC"}, {"units": "celsius"}, {}, {"units": "degC"}]
    for k, said in enumerate(units):
        with h5py.File(tmp_path / f"src/{k}.h5", "w") as f:
            f["x"], f["t"], f["u"] = np.arange(9.0) + k, np.arange(9), np.arange(9)
            f["x"].attrs.update(said)
            f["t"].attrs.update({"units": "days since 2000-01-01", "calendar": "noleap" if k == 3 else "365_day"})
            f["u"].attrs.update({"units": f"unit {k}"} if k else {})
    with pytest.raises(fb.SchemaError, match="If both mean the same, units=first keeps the first file's"):
        fb.pack(tmp_path / "src", tmp_path / "out")
    done = fb.pack(tmp_path / "src", tmp_path / "out", units="first", verify=True)
    assert done.note == ("'units' of 'u': left out, as the source's files do not say the same; the first that differs is '1.h5'; "
                         "'calendar' of 't', 'units' of 'x': as the first file has it, though others differ; the first is '1.h5'")  # fmt: skip
    assert said_by_columns(tmp_path / "out", "arrow") == {"x": {"units": "degC"}, "t": {"units": "days since 2000-01-01", "calendar": "365_day"}, "u": {}}
    assert sorted(pa.table(fb.open(tmp_path / "out"))["x"].to_pylist()) == sorted(v + k for k in range(4) for v in range(9))
    assert json.loads((tmp_path / "out/_pack.json").read_text())["units"] == "first"
    fb.pack_task(tmp_path / "src", tmp_path / "tasks", "plan:0", units="first")
    with pytest.raises(ValueError, match="it has \"units\": \"first\", and this one only units that are the same"):
        fb.pack(tmp_path / "src", tmp_path / "tasks")
    if CLI.exists():
        pack = [CLI, "pack", tmp_path / "src", "--no-cache", "--to", tmp_path / "cli"]
        refused = subprocess.run(pack, capture_output=True, text=True, check=False)
        assert refused.returncode == 1 and "--units first, if both mean the same" in refused.stderr
        taken = subprocess.run([*pack, "--units", "first"], capture_output=True, text=True, check=True)
        assert f"forebay: note: {done.note}\n" == taken.stderr and contents(tmp_path / "cli").keys() == contents(tmp_path / "out").keys()


# ---- numbers as they are stored ----

PACKED = {"units": "K", "scale_factor": np.float32(0.5), "add_offset": np.float64(200), "_FillValue": np.int16(-9), "valid_min": np.int16(-5)}
PACKED_TEXT = {"units": "K", "scale_factor": "0.5", "add_offset": "200", "_FillValue": "-9", "valid_min": "-5"}


def write_packed(folder, *scales):
    folder.mkdir()
    for k, scale in enumerate(scales):
        with h5py.File(folder / f"{k}.h5", "w") as f:
            f["x"] = np.array([-9, -7, 1, 2, 40], "i2")
            f["x"].attrs.update({name: value for name, value in {**PACKED, "scale_factor": scale}.items() if value is not None})
    return folder


def column(folder, **options):
    """Sorted; what is missing, NaN or null, as None."""
    values = pa.table(fb.open(folder, **options))["x"].to_pylist()
    return sorted((None if v != v else v for v in values), key=lambda v: (v is None, v))


@pytest.mark.parametrize("format", ["arrow", "parquet", "hdf5"])
def test_stored_values_keep_what_their_units_need(tmp_path, format):
    src = write_packed(tmp_path / "src", np.float32(0.5), np.float32(0.5))
    done = fb.pack(fb.open(src, stored_values=True), tmp_path / "stored", format=format, verify=True)
    said = said_by_columns(tmp_path / "stored", format)["x"]
    assert said == (PACKED if format == "hdf5" else PACKED_TEXT) and done.note is None
    if format == "hdf5":
        assert {name: np.asarray(value).dtype for name, value in said.items()} == {name: np.asarray(value).dtype for name, value in PACKED.items()}
    stored = column(src, stored_values=True)
    assert column(tmp_path / "stored", stored_values=True) == stored == sorted([-9, -7, 1, 2, 40] * 2)
    assert column(tmp_path / "stored") == (column(src) if format == "hdf5" else stored)
    for option in (True, False):
        fb.pack(fb.open(tmp_path / "stored", stored_values=option), tmp_path / f"again {option}", format="hdf5", verify=True)
        assert column(tmp_path / f"again {option}", stored_values=True) == column(tmp_path / "stored", stored_values=option)
    if format != "hdf5":  # what are texts there stay texts, and unpack nothing
        assert column(tmp_path / "again True") == stored
    fb.pack(src, tmp_path / "unpacked", format=format, verify=True)
    assert said_by_columns(tmp_path / "unpacked", format)["x"] == {"units": "K"} and column(tmp_path / "unpacked") == column(src)


@pytest.mark.parametrize("scales", [(0.5, 0.25), (0.5, None), (None, 0.5)], ids=["another", "none", "none at first"])
def test_stored_values_of_other_scales_are_refused(tmp_path, scales):
    src = write_packed(tmp_path / "src", *scales)
    with pytest.raises(fb.SchemaError, match=r"column 'x' has scale_factor '0\.5' in .*two things.*without stored_values"):
        fb.pack(fb.open(src, stored_values=True), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    if None not in scales:  # unpacked, they are what they are, in each file by its own scale
        fb.pack(src, tmp_path / "out", verify=True)
        assert column(tmp_path / "out") == column(src)


def test_a_scale_of_one_is_none(tmp_path):
    src = write_packed(tmp_path / "src", np.float32(1), None)
    assert "'scale_factor' of 'x'" in fb.pack(fb.open(src, stored_values=True), tmp_path / "out").note


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_what_is_in_compounds_is_not_unpacked_and_says_so(tmp_path, format):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.zeros(10, np.dtype([("a", "i2"), ("b", "f4")]))
        f["y"] = np.arange(10)
        f["x"].attrs.update({"units": "K", "scale_factor": 0.1})
    fb.pack(tmp_path / "a.h5", tmp_path / "out", format=format)
    found = said_by_columns(tmp_path / "out", format)
    assert {"units": "K", "scale_factor": "0.10000000000000001"} in found.values(), found


def test_the_plan_alone_reads_what_files_say(tmp_path):
    """So a task that runs behind it does not open each file for it."""
    src = write_differing(tmp_path / "src", 30)
    said = {}
    for task in fb.pack_tasks(src, tmp_path / "out"):
        seen = said[task.name] = set()
        fb.pack_task(src, tmp_path / "out", task, progress=lambda done, total, what: seen.add(what))
    assert [name for name, what in said.items() if "comparing files" in what] == ["plan:0"]


# ---- columns that are not there ----


def test_columns_that_no_reader_has_are_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(9)
        f["gone"], f["lost"] = h5py.SoftLink("/nowhere"), h5py.SoftLink("/nowhere/else")
    done = fb.pack(tmp_path / "a.h5", tmp_path / "out")
    assert done.note.startswith("not packed: 'gone': a soft link to nothing") and "; 'lost': a soft link to nothing" in done.note
    assert fb.pack(tmp_path / "a.h5", tmp_path / "x", columns=["x"]).note is None


def write_arrow(path, table):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("n", [1, 3, 20])
def test_columns_of_one_name_are_all_named(tmp_path, n):
    names = [f"c{i}" for i in range(n)]
    for file in "xy":  # both have them, which is told once
        write_arrow(tmp_path / f"{file}.arrow", pa.Table.from_arrays([pa.array([i, 2]) for i in range(3 * n)], [*names, *names, *names]))
    ds = fb.open(tmp_path / "*.arrow")
    why = "the second column of that name in a file"
    assert ds._core.left_out() == [f"'{name}': {why}" for name in names]
    (note,) = (note for note in ds.notes if "twice" in note)
    listed = ", ".join(f"'{name}'" for name in names[:8]) + (f" and {n - 8} more" if n > 8 else "")
    assert note == (f"the column {listed} is there twice in a file; the first one counts" if n == 1
                    else f"the columns {listed} are there twice in a file; the first ones count")  # fmt: skip
    more = "; and 16 more columns" if n > 4 else ""
    assert fb.pack(ds, tmp_path / "out").note == "not packed: " + "; ".join(f"'{name}': {why}" for name in names[:4]) + more


def test_columns_that_a_placeholder_hides_are_named(tmp_path):
    for region, year in (("north", 1), ("south", 2)):
        write_arrow(tmp_path / f"{region}-{year}.arrow", pa.table({"region": [9, 9], "year": [8, 8], "x": [year, year]}))
    ds = fb.open(tmp_path / "{region}-{year}.arrow")
    why = "hidden by the column of that name that comes from the files' names"
    assert ds._core.left_out() == [f"'region': {why}", f"'year': {why}"]
    assert "the columns 'region', 'year' come from the files' names; the columns of those names inside the files are hidden" in ds.notes
    done = fb.pack(ds, tmp_path / "out", shuffle="none")
    assert done.note == f"not packed: 'region': {why}; 'year': {why}"
    assert pa.table(fb.open(tmp_path / "out"))["region"].to_pylist() == ["north", "north", "south", "south"]


def test_columns_that_make_no_table_are_refused(tmp_path):
    source = write(floats(10), tmp_path / "src")
    with pytest.raises(ValueError, match="column 'x1' is named twice"):
        fb.pack(source, tmp_path / "out", columns=["x1", "i", "x1"])
    with pytest.raises(ValueError, match="columns= is empty"):
        fb.pack(source, tmp_path / "out", columns=[])
    assert not (tmp_path / "out").exists()


def test_long_names_are_told_apart_by_their_ends(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name in ("one", "two"):
            f[f"a/very/long/group/of/data/sets/{name}"] = np.arange(9)
            f[f"a/very/long/group/of/data/sets/{name}"].attrs["flags"] = np.array([True, False])
    note = fb.pack(tmp_path / "a.h5", tmp_path / "out", format="hdf5").note
    assert note == ("'flags' of '…g/group/of/data/sets/one', 'flags' of '…g/group/of/data/sets/two': left out, as a pack keeps single texts in UTF-8 "
                    "and up to 1,024 numbers"), note  # fmt: skip
