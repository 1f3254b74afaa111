"""Key-value metadata of Parquet and Arrow files as ds.attrs, and of their columns as ds.contents(), against pyarrow."""

import base64
import struct
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

TABLE = pa.table({"a": [1, 2, 3]})
METADATA = {b"where": b"Potsdam \xc3\xb6", b"": b"no name", b"empty": b"", b"latin": b"\xf6\xff", b"nul": b"a\x00b", b"long": b"x" * 200_000}
EXPECTED = {"where": "Potsdam ö", "": "no name", "empty": "", "latin": b"\xf6\xff", "nul": b"a\x00b", "long": "x" * 200_000}


def attrs(path):
    with fb.open(path, cache_dir="") as ds:
        return {key: value for key, value in ds.attrs.items() if key != "ARROW:schema"}


def test_parquet_files(tmp_path):
    pq.write_table(TABLE.replace_schema_metadata(METADATA), tmp_path / "x.parquet")
    assert attrs(tmp_path / "x.parquet") == EXPECTED
    pq.write_table(TABLE, tmp_path / "none.parquet", store_schema=False)
    assert attrs(tmp_path / "none.parquet") == {}


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_arrow_files_and_streams(tmp_path, kind):
    table = TABLE.replace_schema_metadata(METADATA)
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink:
        with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(sink, table.schema) as writer:
            writer.write_table(table)
    assert attrs(tmp_path / "x.arrow") == EXPECTED


def test_of_an_arrow_file_and_its_schema_the_files_come_first(tmp_path):
    table = TABLE.replace_schema_metadata({"both": "the schema's", "schema": "1"})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink:
        with pa.ipc.new_file(sink, table.schema, metadata={"both": "the file's", "file": "2"}) as writer:
            writer.write_table(table)
    assert attrs(tmp_path / "x.arrow") == {"both": "the file's", "file": "2", "schema": "1"}


def test_keys_that_are_no_text_are_noted(tmp_path):
    pq.write_table(TABLE.replace_schema_metadata({b"\xff\xfe": b"?", b"x": b"1"}), tmp_path / "x.parquet")
    assert attrs(tmp_path / "x.parquet") == {"x": "1"}
    with fb.open(tmp_path / "x.parquet", cache_dir="") as ds:
        assert "no UTF-8 text" in ds.contents().notes[0]


def test_long_keys_are_no_work_for_each_other(tmp_path):
    """In CPU time: comparing each with all would take a hundred times as long."""
    expected = {f"{'x' * 5_990}{i:06}": str(i) for i in range(9_000)}
    pq.write_table(TABLE.replace_schema_metadata(expected), tmp_path / "x.parquet")
    with fb.open(tmp_path / "x.parquet", cache_dir="") as ds:
        begun = time.process_time()
        ds.contents()
        assert time.process_time() - begun < 3
        assert {key: value for key, value in ds.attrs.items() if key != "ARROW:schema"} == expected


def test_formats_without_any_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n")
    with fb.open(tmp_path / "x.csv", cache_dir="") as ds, pytest.raises(fb.UnsupportedError, match="nothing beyond their table"):
        ds.contents()


def test_arrow_metadata_that_share_their_bytes_are_damage(tmp_path):
    """Thousands of keys that are all the same long text would take gigabytes."""
    table = TABLE.replace_schema_metadata({f"key {i}": "v" * 3000 for i in range(200)})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = bytearray((tmp_path / "x.arrow").read_bytes())
    lengths = [i for i in range(0, len(data) - 4, 4) if struct.unpack_from("<I", data, i)[0] == 3000]
    assert len(lengths) == 200
    for at in lengths:  # every value reaches over those behind it
        struct.pack_into("<I", data, at, min(300_000, max(lengths) + 3000 - at))
    (tmp_path / "x.arrow").write_bytes(data)
    with fb.open(tmp_path / "x.arrow", cache_dir="") as ds, pytest.raises(fb.FormatError, match="x.arrow"):
        ds.contents()


def write_as(kind, path, table):
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(sink, table.schema) as writer:
            writer.write_table(table)


def columns(path):
    with fb.open(path, cache_dir="") as ds:
        found = ds.contents()
        assert all(found[name].kind == "column" and found[name].column == name[1:] for name in found if name != "/")
        return {name: dict(found[name].attributes) for name in found if name != "/"}, found.notes


OF_X, OF_Y = {"units": "K", "ä": "ö"}, {"note": ""}
FIELDS = pa.schema([pa.field("x", pa.float64(), metadata=OF_X), pa.field("plain", pa.int32()), pa.field("y/z", pa.string(), metadata=OF_Y)])
OF_FIELDS = {"/x": OF_X, "/y/z": OF_Y}


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_columns_with_metadata_of_their_own_are_objects(tmp_path, kind):
    table = pa.table({"x": [1.0], "plain": pa.array([1], "i4"), "y/z": ["a"]}).cast(FIELDS)
    path = tmp_path / ("x.parquet" if kind == "parquet" else "x.arrow")
    write_as(kind, path, table)
    assert columns(path) == (OF_FIELDS, [])


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_column_with_too_many_keys_is_left_out_and_noted(tmp_path, kind):
    fields = [pa.field(name, pa.int64(), metadata=metadata) for name, metadata in
              (("a", {"units": "K"}), ("many", {f"k{i}": "" for i in range(10_001)}), ("b", {"units": "m"}))]  # fmt: skip
    table = pa.table({field.name: [1] for field in fields}).cast(pa.schema(fields, metadata={"of": "the file"}))
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(sink, table.schema) as writer:
        writer.write_table(table)
    found, notes = columns(tmp_path / "x.arrow")
    assert found == {"/a": {"units": "K"}, "/b": {"units": "m"}}
    assert len(notes) == 1 and "10,000 keys" in notes[0]
    assert attrs(tmp_path / "x.arrow") == {"of": "the file"}


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_a_file_with_too_many_keys_has_contents_without_them(tmp_path, kind):
    schema = pa.schema([pa.field("x", pa.int64(), metadata={"units": "K"})], metadata={f"k{i}": "" for i in range(10_001)})
    path = tmp_path / ("x.parquet" if kind == "parquet" else "x.arrow")
    write_as(kind, path, pa.table({"x": [1]}).cast(schema))
    assert columns(path) == ({"/x": {"units": "K"}}, ["metadata of more than 10,000 keys, of the file or of a column, are left out"])
    assert attrs(path) == {}


NESTED = pa.schema([
    pa.field("s", pa.struct([pa.field("a", pa.float32(), metadata={"units": "K"}), pa.field("b.c", pa.int8()),
                             pa.field("t", pa.struct([pa.field("u", pa.int8(), metadata={"of": "u"})]))]), metadata={"of": "s"}),
    pa.field("l", pa.list_(pa.field("element", pa.struct([pa.field("x", pa.float64(), metadata={"units": "m"})]), metadata={"of": "each"}))),
    pa.field("f", pa.list_(pa.field("item", pa.float32(), metadata={"units": "s"}), 2)),
    pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int64(), metadata={"units": "kg"}))),
])  # fmt: skip
OF_NESTED = {"/s": ("s", {"of": "s"}), "/s.a": ("s", {"units": "K"}), "/s.t.u": ("s", {"of": "u"}), "/l[]": ("l", {"of": "each"}),
             "/l[].x": ("l", {"units": "m"}), "/f[]": ("f", {"units": "s"}), "/m[].value": ("m", {"units": "kg"})}  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_fields_inside_of_columns_with_metadata_of_their_own_are_objects(tmp_path, kind):
    path = tmp_path / ("x.parquet" if kind == "parquet" else "x.arrow")
    write_as(kind, path, pa.table({name: pa.array([None], NESTED.field(name).type) for name in NESTED.names}, schema=NESTED))
    with fb.open(path, cache_dir="") as ds:
        found = ds.contents()
        assert {name: (found[name].column, dict(found[name].attributes)) for name in found if name != "/"} == OF_NESTED and not found.notes
        assert found["/l[].x"].kind == "column"


def test_an_arrow_schema_that_is_damaged_is_noted(tmp_path):
    pq.write_table(pa.table({"x": [1.0], "plain": pa.array([1], "i4"), "y/z": ["a"]}).cast(FIELDS), tmp_path / "x.parquet")
    data, schema = (tmp_path / "x.parquet").read_bytes(), pq.read_metadata(tmp_path / "x.parquet").metadata[b"ARROW:schema"]
    assert data.count(schema) == 1
    decoded = base64.b64decode(schema)
    for damaged in (b"A" * len(schema), b"!" + schema[1:], schema[:-4] + b"?AAA", base64.b64encode(decoded[:8] + b"\xff\xff\xff\x7f" + decoded[12:])):
        (tmp_path / "x.parquet").write_bytes(data.replace(schema, damaged))
        found, notes = columns(tmp_path / "x.parquet")
        assert not found and any("Arrow schema among its metadata is damaged" in note for note in notes), damaged


def test_an_arrow_schema_that_is_of_other_columns_says_nothing(tmp_path):
    """A writer that dropped, renamed or turned round columns and copied the metadata."""
    names = ["x", "plain", "y/z"]
    schema = base64.b64encode(bytes(FIELDS.serialize()))
    for k, (written, expected) in enumerate([(names, OF_FIELDS), (names[:2], {}), (["x", "plain", "y"], {}), (names[::-1], {}), ([*names, "more"], {})]):
        table = pa.table({name: [1] for name in written})
        with pq.ParquetWriter(tmp_path / f"{k}.parquet", table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({b"ARROW:schema": schema})
        assert columns(tmp_path / f"{k}.parquet") == (expected, []), written


def test_an_arrow_schema_with_very_many_keys_is_not_called_damaged(tmp_path):
    field = pa.field("x", pa.float64(), metadata={f"k{i}": "" for i in range(10001)})
    pq.write_table(pa.table({"x": [1.0]}).cast(pa.schema([field])), tmp_path / "x.parquet")
    found, notes = columns(tmp_path / "x.parquet")
    assert not found and len(notes) == 1 and "more than 10,000 keys" in notes[0]


def test_a_column_without_a_name_is_not_the_root(tmp_path):
    schema = pa.schema([pa.field("", pa.int64(), metadata={"units": "K"})], metadata={"license": "CC0"})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.table([[1]], schema=schema))
    with fb.open(tmp_path / "x.arrow", cache_dir="") as ds:
        assert dict(ds.attrs) == {"license": "CC0"} and ds.contents()["/"].kind == "group"


def test_fields_that_share_their_metadata_are_damage(tmp_path):
    """Hundreds of columns that all have the same thousand keys would take gigabytes."""
    fields = [pa.field("c0", pa.int64(), metadata={f"key {k}": "v" * 50 for k in range(1000)})]
    fields += [pa.field(f"c{i}", pa.int64(), metadata={f"k{k}": "" for k in range(77)}) for i in range(1, 300)]
    table = pa.table({field.name: [1] for field in fields}).cast(pa.schema(fields))
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = bytearray((tmp_path / "x.arrow").read_bytes())
    words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
    long = max(4 * i for i, word in enumerate(words) if word == 1000)  # flatbuffers are written from the end: the first field's lies behind the others
    small = {4 * i for i, word in enumerate(words) if word == 77}
    offsets = [4 * i for i, word in enumerate(words) if 4 * i + word in small and 4 * i < long]
    assert len(small) >= 299 and len(offsets) > 200
    for at in offsets:
        struct.pack_into("<I", data, at, long - at)
    (tmp_path / "x.arrow").write_bytes(data)
    with fb.open(tmp_path / "x.arrow", cache_dir="") as ds:
        with pytest.raises(fb.FormatError, match="damaged"):
            ds.contents()
