"""Text that is not UTF-8: bytes wherever it is delivered, never replaced characters, never an Arrow string that is none."""

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
h5py = pytest.importorskip("h5py")

WORDS = ["Köln", "Zürich", "plain", "Łódź" * 30]
LATIN = [b"K\xf6ln", b"Z\xfcrich", b"plain", b"\xe9" * 100]


@pytest.fixture(params=["fixed", "vlen", "parquet"])
def path(request, tmp_path):
    if request.param == "parquet":
        path = tmp_path / "a.parquet"
        good = pa.array([w.encode("utf-8") for w in WORDS] * 5).cast(pa.string())
        offsets = pa.array(LATIN * 5, pa.binary())
        bad = pa.StringArray.from_buffers(20, offsets.buffers()[1], offsets.buffers()[2])
        pq.write_table(pa.table({"good": good, "bad": bad}), path, row_group_size=10)
        return path
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.array(WORDS * 5, object)
        if request.param == "fixed":
            file["bad"] = np.array(LATIN * 5)
        else:
            file.create_dataset("bad", data=np.array(LATIN * 5, object), dtype=h5py.string_dtype("ascii"))
        file["bad"].attrs["where"] = np.bytes_(b"caf\xe9")
        file["bad"].attrs["many"] = np.array([b"caf\xe9", b"tea"])
        file["bad"].attrs["fine"] = "café"
    return path


def test_batches_and_whole_columns_have_the_bytes(path):
    with fb.open(path, cache_dir="") as ds:
        (batch,) = ds.rows().loader({"good": "good", "bad": "bad"}, batch_size=20, shuffle=False)
        assert batch["good"].to_list() == WORDS * 5 and batch["bad"].to_list() == LATIN * 5
        columns = ds.read()
        assert columns["good"].tolist() == WORDS * 5 and columns["bad"].dtype == "S100" and columns["bad"].tolist() == LATIN * 5
        record = pa.record_batch(batch.arrow)
        record.validate(full=True)
        assert record["good"].type == pa.large_string() and record["bad"].type == pa.large_binary() and record["bad"].to_pylist() == LATIN * 5


def test_arrow_names_the_row_and_what_to_do(path):
    with fb.open(path, cache_dir="") as ds:
        with pytest.raises(Exception, match="column 'bad': row 0 is not UTF-8.*dtypes={\"bad\": \"bytes\"}") as caught:
            pa.table(ds)
        assert path.name in str(caught.value)
    with fb.open(path, cache_dir="", dtypes={"bad": bytes}) as ds:
        table = pa.table(ds)
        table.validate(full=True)
        assert table.schema.field("good").type == pa.large_string() and table.schema.field("bad").type == pa.large_binary()
        assert table["bad"].to_pylist() == LATIN * 5 and table["good"].to_pylist() == WORDS * 5
        (batch,) = ds.rows().loader({"bad": "bad"}, batch_size=20, shuffle=False)
        assert isinstance(batch["bad"], fb.Bytes) and batch["bad"].to_list() == LATIN * 5


def test_attributes_are_bytes_where_they_are_no_utf8(path):
    if path.suffix != ".h5":
        return
    with fb.open(path, cache_dir="") as ds:
        attributes = ds.contents()["bad"].attributes
        assert attributes["where"] == b"caf\xe9" and attributes["many"].tolist() == [b"caf\xe9", b"tea"] and attributes["fine"] == "café"


def test_one_long_value_does_not_make_all_of_them_long(tmp_path):
    values = [b"\xfex"] * 399 + [b"\xff" + b"a" * 2_000_000]
    packed = pa.array(values, pa.binary()).buffers()
    pq.write_table(pa.table({"s": pa.StringArray.from_buffers(400, packed[1], packed[2])}), tmp_path / "a.parquet", compression="zstd")
    with fb.open(tmp_path / "a.parquet", cache_dir="", memory="64MiB") as ds:
        column = ds.read("s")["s"]
    assert column.dtype == object and column.tolist() == values
