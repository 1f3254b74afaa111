"""Opening files and looking at the data set."""

import os
import gzip
import pathlib
import pickle

import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")


@pytest.fixture
def basins(tmp_path, parquet):
    """Three files of 10, 20 and 30 rows in two regions."""
    root = tmp_path / "data"
    for region, gauge, n in (("north", "g1", 10), ("north", "g2", 20), ("south", "g3", 30)):
        parquet({"time": np.arange(n), "flow": np.arange(n) + n * 1000.0}, f"data/{region}/{gauge}.parquet", compression="zstd")
    return root


def test_a_file_a_directory_a_glob_and_a_list_are_one_table(basins):
    files = sorted(basins.glob("*/*.parquet"))
    for source in (basins, str(basins), f"{basins}/**/*.parquet", [str(f) for f in files], files, iter(files)):
        ds = fb.open(source)
        assert len(ds) == 60 and len(ds.files) == 3
        assert [pathlib.Path(f.path) for f in ds.files] == files
        assert [f.rows for f in ds.files] == [10, 20, 30]
    assert [f.rows for f in fb.open([files[2], files[0]]).files] == [30, 10]


def test_a_mapping_adds_a_source_column(basins):
    ds = fb.open({"N": basins / "north", "S": basins / "south"})
    assert ds.columns == ("source", "time", "flow")
    table = pa.table(ds)
    assert table["source"].to_pylist() == ["N"] * 30 + ["S"] * 30
    assert fb.open({"N": basins / "north"}, source_column="side").columns[0] == "side"


def test_the_parts_of_a_pattern_are_columns(basins):
    ds = fb.open(f"{basins}/{{region}}/{{gauge_id}}.parquet")
    assert ds.columns == ("region", "gauge_id", "time", "flow")
    table = pa.table(ds)
    assert table["gauge_id"].to_pylist() == ["g1"] * 10 + ["g2"] * 20 + ["g3"] * 30
    assert table["region"].to_pylist() == ["north"] * 30 + ["south"] * 30


def test_ids_open_only_their_files(basins):
    pattern = f"{basins}/{{region}}/{{gauge_id}}.parquet"
    assert len(fb.open(pattern, ids=["g1", "g3"])) == 40
    assert len(fb.open(pattern, ids=["north"], id_column="region")) == 30
    with pytest.raises(fb.SchemaError, match="g9"):
        fb.open(pattern, ids=["g1", "g9"])
    with pytest.raises(TypeError, match=r"ids=\['g1'\]"):
        fb.open(pattern, ids="g1")
    with pytest.raises(TypeError, match="an id is a str, not int"):
        fb.open(pattern, ids=[1])


def test_schema_objects_say_names_types_and_children(parquet):
    schema = pa.schema(
        [
            pa.field("i", pa.int16(), nullable=False),
            pa.field("t", pa.timestamp("us", "UTC")),
            pa.field("d", pa.decimal128(9, 2)),
            pa.field("l", pa.list_(pa.float32())),
            pa.field("s", pa.struct([pa.field("x", pa.string()), pa.field("y", pa.list_(pa.int64()))])),
        ]
    )
    ds = fb.open(parquet(schema.empty_table()))
    assert ds.columns == ds.schema.names == ("i", "t", "d", "l", "s")
    i, t, d, l, s = ds.schema
    assert (i.name, i.path, i.kind, i.dtype, i.nullable) == ("i", "i", "int", "int16", False)
    assert (t.kind, t.unit, t.utc, t.dtype, t.type) == ("timestamp", "us", True, "int64", "timestamp[us, UTC]")
    assert (d.kind, d.precision, d.scale, d.type) == ("decimal", 9, 2, "decimal(9, 2)")
    assert l.kind == "list" and l.type == "list<float32>" and l.children[0].dtype == "float32"
    assert [c.path for c in s.children] == ["s.x", "s.y"]
    assert ds.schema["s.y"] == s.children[1] and "s.y" in ds.schema and "s.z" not in ds.schema
    assert ds.schema.paths == ("i", "t", "d", "l", "s.x", "s.y")
    with pytest.raises(KeyError, match="did you mean 's.x'"):
        ds.schema["s.xx"]
    text = repr(ds.schema)
    assert "int16 not null" in text and "timestamp[us, UTC]" in text and "  x" in text
    assert str(i) == "i: int16 not null"


def test_the_repr_is_a_summary(basins):
    text = repr(fb.open(basins))
    for part in ("60 rows × 2 columns", "3 parquet files", "3 blocks", "stored", "zstd", "time", "int64", "flow", "float64"):
        assert part in text, text
    assert len(text.splitlines()) < 12


def test_files_blocks_and_chunks_tell_how_it_is_stored(parquet):
    path = parquet({"a": np.arange(1000), "b": ["x", "y"] * 500}, row_group_size=300, compression="gzip", data_page_version="2.0")
    ds = fb.open(path)
    assert len(ds.blocks) == 4 and [b.row_end - b.row_begin for b in ds.blocks] == [300, 300, 300, 100]
    assert [b.first_row for b in ds.blocks] == [0, 300, 600, 900]
    file = ds.files[0]
    assert (file.rows, file.groups, file.first_block, file.n_blocks, file.format) == (1000, 4, 0, 4, "parquet")
    assert file.size_bytes == os.path.getsize(path) and (file.group_word, file.groups_word) == ("row group", "row groups")
    chunk = ds.chunk(0, 1, "b", pages=True)
    assert chunk.codec == "gzip" and chunk.page_version == 2 and chunk.n_values == 300 and chunk.n_dictionary_values == 2
    assert any("DICT" in name for name in chunk.encodings)
    assert sum(b.stored_bytes for b in ds.blocks) == ds.stored_bytes
    assert ds.blocks[-1] == ds.blocks[3] and ds.blocks[1:3] == [ds.blocks[1], ds.blocks[2]]
    with pytest.raises(IndexError, match="there are 4"):
        ds.blocks[4]
    assert "Block(" in repr(ds.blocks)
    with pytest.raises(fb.Error):
        ds.chunk(0, 99, "b")
    with pytest.raises(fb.SchemaError):
        ds.chunk(0, 0, "nope")


def test_identity_survives_a_copy_elsewhere_and_the_fingerprint_sees_a_change(basins, tmp_path):
    import shutil

    first = fb.open(basins)
    shutil.copytree(basins, tmp_path / "copy")
    second = fb.open(tmp_path / "copy")
    assert first.identity == second.identity and len(first.identity) == 32
    assert first.fingerprint == fb.open(basins).fingerprint
    os.utime(basins / "north/g1.parquet", ns=(1, 1))
    third = fb.open(basins)
    assert third.identity == first.identity and third.fingerprint != first.fingerprint


def test_relative_paths_survive_chdir(basins, tmp_path, monkeypatch):
    monkeypatch.chdir(basins.parent)
    relative = fb.open(f"{basins.name}/*/*.parquet", cache_dir="cache")
    assert relative.identity == fb.open(basins / "*/*.parquet").identity
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with relative.loader(relative.columns[-1], batch_size=2, framework="numpy") as loader:
        assert sum(len(next(iter(batch.values()))) for batch in loader) == len(relative.rows())
    again = pickle.loads(pickle.dumps(relative))
    assert again.identity == relative.identity
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_edit_with_size_and_time_kept_is_a_change(tmp_path):
    h5py = pytest.importorskip("h5py")
    path, cache = tmp_path / "a.h5", tmp_path / "cache"
    with h5py.File(path, "w") as f:
        f["x"] = np.zeros(1000)  # contiguous: no metadata tells of its values
    os.utime(path, (1_600_000_000, 1_600_000_000))

    def kept():
        with fb.open(path, cache_dir=cache) as ds:
            return ds.open_stats["files_from_cache"], ds.read(["x"])["x"].tolist()

    assert kept() == (0, [0.0] * 1000) and kept() == (1, [0.0] * 1000)
    ds = fb.open(path, cache_dir=cache)
    with h5py.File(path, "r+") as f:
        f["x"][:] = 1
    os.utime(path, (1_600_000_000, 1_600_000_000))
    with pytest.raises(fb.ChangedError, match="its time set back"):
        ds.read(["x"])
    assert kept() == (0, [1.0] * 1000)


def test_the_second_opening_reads_no_footer(basins, tmp_path):
    cache = tmp_path / "cache"
    for file in basins.glob("*/*.parquet"):  # a file written this moment may change again within its timestamp: it is not trusted
        os.utime(file, (1_600_000_000, 1_600_000_000))
    first = fb.open(basins, cache_dir=cache).open_stats
    assert first["files_from_cache"] == 0 and first["cache_written"] and first["metadata_bytes_read"] > 0
    again = fb.open(basins, cache_dir=cache).open_stats
    assert again["files_from_cache"] == 3 and again["metadata_bytes_read"] == 0
    none = fb.open(basins, cache_dir="").open_stats
    assert none["files_from_cache"] == 0 and not none["cache_written"]


def test_missing_things_are_file_not_found(tmp_path):
    for source in (tmp_path / "nope.parquet", str(tmp_path / "nope")):
        with pytest.raises(FileNotFoundError) as error:
            fb.open(source)
        assert isinstance(error.value, fb.ReadError) and isinstance(error.value, fb.Error)
        assert error.value.errno == 2 and "nope" in str(error.value) and error.value.status == "FBY_E_IO"
    with pytest.raises(fb.Error, match=r"\*\.parquet"):
        fb.open(tmp_path / "*.parquet")


def test_a_damaged_file_says_where(tmp_path, parquet):
    path = parquet({"a": np.arange(100)})
    data = bytearray(path.read_bytes())
    path.write_bytes(data[:-20])
    with pytest.raises(fb.FormatError, match="t0.parquet"):
        fb.open(path, cache_dir="")
    (tmp_path / "empty.parquet").write_bytes(b"")
    with pytest.raises(fb.Error, match="empty.parquet"):
        fb.open(tmp_path / "empty.parquet")
    (tmp_path / "note.txt").write_text("hello, this is no table at all")
    with pytest.raises(fb.Error, match="note.txt"):
        fb.open(tmp_path / "note.txt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_a_permission_error(parquet):
    path = parquet({"a": [1]})
    path.chmod(0)
    with pytest.raises(PermissionError):
        fb.open(path)


def test_sources_that_are_none_of_these_are_refused_clearly(tmp_path):
    for source, kind, hint in (
        (b"x", TypeError, "not bytes"), ([], ValueError, "empty"), ({}, ValueError, "empty"), ("", ValueError, "empty"), (3, TypeError, "takes a path"),
        ([5], TypeError, "item 0 of the list is 5, of type int: a list is of paths, each a str"),
        (["a.parquet", None], TypeError, "item 1 of the list is None, of type NoneType"), (iter([b"x"]), TypeError, "of type bytes"),
        ({"a": tmp_path, "b": np.arange(3)}, TypeError, "not both"), ({"x.parquet"}, TypeError, "no order"),
        (np.arange(3), TypeError, r"\{'x': array\}"), ("a\0b", ValueError, "null"),
    ):  # fmt: skip
        with pytest.raises(kind, match=hint):
            fb.open(source)
    with pytest.raises(ValueError, match="io='fast'"):
        fb.open(tmp_path, io="fast")
    with pytest.raises(ValueError, match="threads=0"):
        fb.open(tmp_path, threads=0)
    with pytest.raises(TypeError, match="progress"):
        fb.open(tmp_path, progress=3)
    with pytest.raises(fb.ArgumentError):
        fb.open(tmp_path, io="mmap")


def test_progress_is_called_and_its_exception_ends_the_open(tmp_path, parquet):
    for i in range(40):
        parquet({"a": [i]}, f"many/{i:03}.parquet")
    calls = []
    fb.open(tmp_path / "many", cache_dir="", progress=lambda *call: calls.append(call))
    for done, total, what in calls:
        assert 0 <= done <= total and isinstance(what, str)

    def stop(done, total, what):
        raise RuntimeError("enough")

    if calls:
        with pytest.raises(RuntimeError, match="enough"):
            fb.open(tmp_path / "many", cache_dir="", progress=stop)


@pytest.mark.parametrize("io", ["auto", "threads", "uring", "mmap"])
def test_every_engine_reads_the_same(basins, io):
    want = pa.table(fb.open(basins))
    ds = fb.open(basins, io=io, immutable=io == "mmap")
    try:
        assert pa.table(ds).equals(want)
        with ds.loader("flow", batch_size=7, shuffle=False, framework="numpy") as loader:
            got = np.concatenate([b["flow"] for b in loader])
    except fb.UnsupportedError as error:
        if io != "uring":
            raise
        pytest.skip(str(error))
    assert np.array_equal(got, want["flow"])


def test_closing_ends_it_and_what_came_from_it_lives_on(basins):
    ds = fb.open(basins)
    loader = ds.loader("flow", batch_size=60, shuffle=False, framework="numpy")
    stream = ds.__arrow_c_stream__()
    ds.close()
    ds.close()
    assert ds.closed and repr(ds) == "<forebay.Dataset, closed>"
    for use in (lambda: ds.notes, lambda: pa.table(ds), lambda: ds.loader("flow", batch_size=1)):
        with pytest.raises(fb.StateError, match="closed"):
            use()
    assert len(next(iter(loader))["flow"]) == 60
    loader.close()
    assert pa.RecordBatchReader._import_from_c_capsule(stream).read_all().num_rows == 60
    with fb.open(basins) as ds:
        assert not ds.closed
    assert ds.closed


def test_a_dataset_pickles_as_its_specification(basins):
    ds = fb.open(f"{basins}/{{region}}/{{gauge_id}}.parquet", ids=["g2"])
    again = pickle.loads(pickle.dumps(ds))
    assert again.identity == ds.identity and again.columns == ds.columns and len(again) == 20
    assert pickle.loads(pickle.dumps(fb.open({"N": basins / "north"}))).columns[0] == "source"
    with pytest.raises(TypeError, match="in memory does not pickle"):
        pickle.dumps(fb.open({"x": np.arange(3)}))


def test_columns_only_have_to_agree_where_they_are_used(tmp_path, parquet):
    parquet({"a": pa.array([1, 2], pa.int16()), "x": [1, 2]}, "mix/1.parquet")
    parquet({"x": ["p", "q"], "a": pa.array([3, None], pa.int32())}, "mix/2.parquet")
    parquet({"b": [0.5], "a": pa.array([None], pa.int32())}, "mix/3.parquet")
    ds = fb.open(tmp_path / "mix")
    assert pa.table(ds.select("a"))["a"].to_pylist() == [1, 2, 3, None, None]
    assert ds.schema["a"].dtype == "int32"
    for name in ("x", "b"):
        with pytest.raises(fb.SchemaError, match=f"{name}"):
            ds.loader(name, batch_size=1)
    assert ds.notes
    filled = fb.open(tmp_path / "mix", missing_columns="fill")
    assert pa.table(filled.select("b"))["b"].to_pylist() == [None] * 4 + [0.5]


def test_select_is_a_table_of_some_columns(basins):
    ds = fb.open(basins)
    part = ds.select(["flow"])
    assert part.columns == ("flow",) and len(part) == 60
    assert pa.table(part).column_names == ["flow"] and pa.schema(part).names == ["flow"]
    assert pa.table(ds.select(["flow", "time"])).column_names == ["flow", "time"]
    assert list(part.read()) == ["flow"]
    with pytest.raises(fb.SchemaError, match="did you mean 'flow'"):
        ds.select(["flows"])


def test_read_gives_numpy_whole(parquet):
    table = pa.table(
        {
            "f": pa.array([1.5, None, np.nan], pa.float32()),
            "i": pa.array([1, None, 3], pa.int16()),
            "full": pa.array([1, 2, 3], pa.int64()),
            "b": pa.array([True, None, False]),
            "t": pa.array([0, None, 5], pa.timestamp("us")),
            "d": pa.array([1, 2, None], pa.date32()),
            "s": pa.array(["é", None, ""]),
            "z": pa.array([b"\0\1", b"", None]),
            "l": pa.array([[1, 2], None, [3]], pa.list_(pa.int32())),
            "st": pa.array([{"x": 1.0}, None, {"x": 3.0}]),
        }
    )
    got = fb.open(parquet(table)).read()
    assert list(got) == ["f", "i", "full", "b", "t", "d", "s", "z", "l", "st.x"]
    assert got["f"].dtype == np.float32 and got["f"][0] == 1.5 and np.isnan(got["f"][1:]).all()
    assert isinstance(got["i"], np.ma.MaskedArray) and got["i"].tolist() == [1, None, 3] and got["i"].dtype == np.int16
    assert type(got["full"]) is np.ndarray and got["full"].tolist() == [1, 2, 3]
    assert got["b"].tolist() == [True, None, False]
    assert got["t"].dtype == "datetime64[us]" and np.isnat(got["t"]).tolist() == [False, True, False]
    assert got["d"].dtype == "datetime64[D]" and got["d"][1] == np.datetime64("1970-01-03") and np.isnat(got["d"][2])
    assert got["s"].tolist() == ["é", None, ""] and got["z"].tolist() == [b"\0\1", b"", None]
    assert got["l"].to_list() == [[1, 2], [], [3]]
    assert np.array_equal(got["st.x"], [1, np.nan, 3], equal_nan=True)
    assert list(fb.open(parquet(table)).read(["i", "s"])) == ["i", "s"]
    empty = fb.open(parquet(table.slice(0, 0))).read()
    assert all(len(v) == 0 for k, v in empty.items() if k != "l") and empty["l"].to_list() == []


def test_ids_may_be_missing_on_request(basins, tmp_path):
    there = [file.name.split("/")[-1].split(".")[0] for file in fb.open(basins).files][:2]
    ids = [*there, "nowhere", "x1", "x2", "x3", "x4", "x5", "x5"]
    with pytest.raises(fb.SchemaError, match="for 6 of the ids: 'nowhere', 'x1', 'x2', 'x3', 'x4', …"):
        fb.open(basins, ids=ids)
    for source in (basins, str(basins) + "/**/{id}.parquet"):
        ds = fb.open(source, ids=ids, missing_ids="skip")
        assert len(ds.files) == 2
        assert "6 of 8 ids have no file and were skipped: 'nowhere', 'x1', 'x2', 'x3', 'x4', …" in ds.notes
        assert len(pickle.loads(pickle.dumps(ds)).files) == 2
    with pytest.raises(fb.SchemaError, match="no id matched at all"):
        fb.open(basins, ids=["nowhere"], missing_ids="skip")
    with pytest.raises(ValueError, match="use 'error' or 'skip'"):
        fb.open(basins, missing_ids="ignore")
    (tmp_path / "p.yaml").write_text(f"data: {{paths: {basins}, ids: [{there[0]}, nowhere], missing_ids: skip}}\nloader: {{batch_size: 4}}\n")
    assert len(fb.pipeline(tmp_path / "p.yaml").dataset.files) == 1


def test_ids_of_compressed_text_have_no_extension(tmp_path):
    for name in ("b001", "b.002"):
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as f:
            f.write("x,y\n1,2\n3,4\n")
    assert [file.name for file in fb.open(tmp_path, ids=["b001"]).files] == ["b001.csv.gz"]
    assert [file.name for file in fb.open(tmp_path, ids=["b.002"]).files] == ["b.002.csv.gz"]


@pytest.mark.parametrize("source", ["s3://bucket/x.parquet", "s3://bucket/*.parquet", "https://x.org/a.parquet", "hf://datasets/x", "abfss://c@a/x.h5"])
def test_urls_are_refused_with_what_to_do(source):
    for given in (source, [source], {"train": source}):
        with pytest.raises(FileNotFoundError, match=r"is a URL, and only files of a file system are read: copy the files"):
            fb.open(given)
    with pytest.raises(FileNotFoundError, match=r"'file:///no/such.parquet' is a URL: write the path alone, '/no/such.parquet'"):
        fb.open("file:///no/such.parquet")


def test_parquet_beside_hdf5(tmp_path):
    """Threads come from one format to the other, with what they keep between files."""
    h5py, pq = pytest.importorskip("h5py"), pytest.importorskip("pyarrow.parquet")
    x = np.arange(3000, dtype=np.float32)
    for i in range(8):
        pq.write_table(pa.table({"x": x + i}), tmp_path / f"{i}a.parquet", compression="zstd")
        with h5py.File(tmp_path / f"{i}b.h5", "w") as f:
            f.create_dataset("x", data=x + i, chunks=(500,), compression="gzip")
    with fb.open(tmp_path, cache_dir="").loader({"x": "x"}, batch_size=500, shuffle=False, threads=2, framework="numpy") as loader:
        got = np.concatenate([batch["x"] for batch in loader])
    np.testing.assert_array_equal(got, np.concatenate([x + i for i in range(8) for _ in range(2)]))


def test_a_cache_file_of_any_size_counts_as_absent(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    paths = [tmp_path / f"{i}.parquet" for i in range(2)]
    for path in paths:
        pq.write_table(pa.table({"x": range(10)}), path)
        os.utime(path, (1_600_000_000, 1_600_000_000))  # what has just been written is not kept yet
    assert len(fb.open(paths, cache_dir=tmp_path / "cache")) == 20
    (index,) = (tmp_path / "cache").glob("*.fbyindex")
    size = index.stat().st_size
    os.truncate(index, 1 << 40)  # a hole
    assert len(fb.open(paths, cache_dir=tmp_path / "cache")) == 20 and index.stat().st_size == size
