"""Key-value metadata of Parquet and Arrow files as ds.attrs, against pyarrow."""

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


def test_too_many_keys_and_formats_without_any_are_refused(tmp_path):
    pq.write_table(TABLE.replace_schema_metadata({f"k{i}": "" for i in range(10_001)}), tmp_path / "x.parquet")
    with fb.open(tmp_path / "x.parquet", cache_dir="") as ds, pytest.raises(fb.UnsupportedError, match="x.parquet.*10001 keys|x.parquet.*10002 keys"):
        ds.contents()
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
