"""Arrow IPC files and streams against pyarrow: random tables, dictionaries, parts of batches, refusals, damage."""

import json
import os
import struct
import subprocess

import pytest

import forebay as fb
from arrow_compare import assert_tables_equal
from loader_compare import assert_loader_delivers, deliver

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
feather = pytest.importorskip("pyarrow.feather")

from random_tables import Case  # noqa: E402

V4, V5 = ipc.MetadataVersion.V4, ipc.MetadataVersion.V5
CASES = int(os.environ.get("FOREBAY_IPC_CASES", 400))
GROUPS = 8


def write(path, table, stream=False, rows=None, **options):
    """The file's path; `table` may be a list of batches or tables."""
    tables = table if isinstance(table, list) else [table]
    with pa.OSFile(str(path), "wb") as sink:
        with (ipc.new_stream if stream else ipc.new_file)(sink, tables[0].schema, options=ipc.IpcWriteOptions(**options)) as writer:
            for t in tables:
                writer.write_batch(t) if isinstance(t, pa.RecordBatch) else writer.write_table(t, rows)
    return path


def read(path, **options):
    with fb.open(path, cache_dir="", **options) as ds:
        return pa.table(ds)


def same(path, want, loader=True, **options):
    with fb.open(path, cache_dir="", **options) as ds:
        assert_tables_equal(pa.table(ds), want)
        if loader and want.num_rows:
            assert_loader_delivers(ds, want, batch_size=100, threads=2)


# ---- every type ----


def other_types(rng, table):
    """Some columns as types that Parquet does not have: views, large lists, narrow decimals, dictionaries of anything flat."""
    columns = []
    for column in table.columns:
        t = column.type
        if pa.types.is_string(t) and rng.random() < 0.4:
            column = column.cast(pa.string_view())
        elif pa.types.is_binary(t) and rng.random() < 0.5:
            column = column.cast(pa.binary_view())
        elif pa.types.is_list(t) and rng.random() < 0.4:
            column = column.cast(pa.large_list(t.value_type))
        elif pa.types.is_decimal128(t) and t.precision <= 18 and rng.random() < 0.6:
            column = column.cast(pa.decimal64(t.precision, t.scale) if t.precision > 9 else pa.decimal32(t.precision, t.scale))
        elif (pa.types.is_integer(t) or pa.types.is_temporal(t) or pa.types.is_large_string(t)) and rng.random() < 0.3:
            column = column.dictionary_encode()
        columns.append(column)
    return pa.table(columns, names=table.column_names)


@pytest.mark.parametrize("group", range(GROUPS))
def test_what_pyarrow_writes_forebay_reads(tmp_path, group):
    for seed in range(group, CASES, GROUPS):
        rng = np.random.default_rng(seed + 10**6)
        table = other_types(rng, Case(seed).table)
        stream = bool(rng.random() < 0.5)
        codec = [None, "lz4", "zstd"][int(rng.integers(0, 3))]
        options = {"compression": codec, "metadata_version": [V4, V5][int(rng.integers(0, 2))], "emit_dictionary_deltas": bool(rng.random() < 0.5)}
        options["unify_dictionaries"] = not stream
        options["use_legacy_format"] = stream and bool(rng.random() < 0.2)  # no mark in front of messages
        path = write(tmp_path / f"{seed}.arrow", table, stream, int(rng.choice([1, 7, 64, 1000, 5000])), **options)
        try:
            with fb.open(path, cache_dir="") as ds:
                assert_tables_equal(pa.table(ds), table)
                if table.num_rows:
                    assert_loader_delivers(ds, table, shuffle=(False, "full", "block", True)[seed // GROUPS % 4], seed=seed, batch_size=100, threads=2)
        except Exception as error:
            raise AssertionError(f"seed {seed}, stream {stream}, {options}: {table.schema}") from error
        path.unlink()


def test_feather_files_and_all_endings(tmp_path):
    table = pa.table({"x": pa.array(range(1000), pa.float32()), "s": [f"s{i % 7}" for i in range(1000)]})
    feather.write_feather(table, tmp_path / "a.feather", chunksize=300)  # lz4
    feather.write_feather(table, tmp_path / "b.ipc", compression="uncompressed")
    write(tmp_path / "c.arrows", table, stream=True)
    write(tmp_path / "d.arrow", table)
    (tmp_path / "notes.txt").write_text("not data")
    same(tmp_path, pa.concat_tables([table] * 4))
    same(str(tmp_path / "*.a*"), pa.concat_tables([table] * 2))


def test_formats_may_be_mixed(tmp_path):
    import h5py
    import pyarrow.parquet as pq

    x = np.arange(3000, dtype=np.float32)
    for i in range(8):  # threads come from one format to the next
        pq.write_table(pa.table({"x": x + i}), tmp_path / f"{i}a.parquet", compression="zstd")
        write(tmp_path / f"{i}b.arrow", pa.table({"x": x + i}), compression="lz4")
        with h5py.File(tmp_path / f"{i}c.h5", "w") as h:
            h.create_dataset("x", data=x + i, chunks=(500,), compression="gzip")
    with fb.open(tmp_path, cache_dir="") as ds:
        got = deliver(ds, {"x": "x"}, threads=2)["x"]
    np.testing.assert_array_equal(got, np.concatenate([x + i for i in range(8) for _ in range(3)]))


def test_extension_types_come_as_their_storage(tmp_path):
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(60, dtype=np.float32).reshape(10, 2, 3))
    path = write(tmp_path / "t.arrow", pa.table({"t": tensors}))
    with fb.open(path, cache_dir="") as ds:
        np.testing.assert_array_equal(deliver(ds, {"t": "t"})["t"].reshape(10, 6), np.arange(60, dtype=np.float32).reshape(10, 6))


def test_a_file_without_rows_or_batches(tmp_path):
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    for stream in (False, True):
        path = write(tmp_path / f"{stream}.arrow", schema.empty_table(), stream)
        assert read(path).num_rows == 0
        path = write(tmp_path / f"{stream}2.arrow", [pa.RecordBatch.from_pylist([], schema), pa.RecordBatch.from_pylist([{"x": 1, "s": "a"}], schema)], stream)
        assert read(path).to_pylist() == [{"x": 1, "s": "a"}]


# ---- dictionaries ----


def coded(indices, values, type=None):
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(values, type))


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("type", [pa.string(), pa.large_binary(), pa.string_view(), pa.int32(), pa.float64(), pa.bool_(), pa.decimal128(5, 2), pa.date32(),
                                  pa.binary(2)])  # fmt: skip
def test_dictionaries_grow_and_are_replaced(tmp_path, type, codec):
    def values(n):
        if pa.types.is_decimal(type):
            return pa.array([None if i == 3 else i for i in range(n)], pa.int16()).cast(pa.decimal128(5, 0)).cast(type)
        if pa.types.is_boolean(type):
            return pa.array([(None, True, False)[i % 3] for i in range(n)], type)
        if pa.types.is_fixed_size_binary(type):
            return pa.array([None if i == 3 else b"%02d" % i for i in range(n)], type)
        if pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_date(type):
            return pa.array([None if i == 3 else i for i in range(n)], pa.int32()).cast(type)
        return pa.array([None if i == 3 else f"value {i} " + "long" * (i % 4) for i in range(n)], pa.string()).cast(type)

    def batch(indices, n, first=0):
        return pa.RecordBatch.from_arrays([pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values(n)[first:])], ["d"])

    growing = [batch([0, 1, None], 2), batch([2, 3, 1], 4), batch([4, 0, 5, 3], 9)]
    replaced = [*growing, batch([0, 1, None, 2], 8, 4), batch([0, None], 2)]
    for name, stream, batches in (("grow.arrow", False, growing), ("grow.arrows", True, growing), ("replace.arrows", True, replaced)):
        path = write(tmp_path / name, batches, stream, compression=codec, emit_dictionary_deltas=True)
        want = [pa.RecordBatch.from_arrays([pa.array(b["d"].to_pylist(), type)], ["d"]) for b in batches]  # tables cannot join such dictionaries
        same(path, pa.Table.from_batches(want))


def test_dictionaries_below_lists_and_structs(tmp_path):
    words = coded([0, 1, None, 1, 0, 2], ["a", "b", "c"])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, None, 6], pa.int32()), words)
    structs = pa.StructArray.from_arrays([coded([1, None, 0], ["x", "y"]), coded([0, 0, 1], [1.5, 2.5])], ["s", "f"])
    table = pa.table({"l": lists, "t": structs})
    for stream in (False, True):
        same(write(tmp_path / f"{stream}.arrow", table, stream), table)


def test_a_dictionary_index_outside_of_its_dictionary(tmp_path):
    table = pa.table({"d": pa.DictionaryArray.from_arrays(pa.array([0, 7, 1], pa.int8()), ["a", "b"], safe=False)})
    path = write(tmp_path / "d.arrow", table)
    with pytest.raises(OSError, match=r"d.arrow.*'d'.*dictionary index 7 is outside the dictionary of 2 values"):
        read(path)
    with fb.open(path, cache_dir="") as ds, pytest.raises(fb.FormatError, match="dictionary index 7"):
        deliver(ds, {"d": "d"})


# ---- parts of a batch ----


@pytest.mark.parametrize("codec", [None, "lz4"])
def test_a_large_batch_is_cut_into_blocks(tmp_path, codec):
    rng = np.random.default_rng(1)
    n = 600_000
    lengths = rng.integers(0, 5, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    noise = rng.integers(0, 2**62, int(offsets[-1]))
    text = pa.array([f"{v:x}" for v in rng.integers(0, 2**62, n)])
    mask = rng.random(n) < 0.1
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(noise, mask=rng.random(len(noise)) < 0.05), mask=pa.array(mask))
    table = pa.table(
        {
            "i": pa.array(rng.integers(0, 2**62, n), mask=mask),
            "f": rng.standard_normal((n, 8)).astype(np.float32).reshape(-1)[:n],
            "b": pa.array(rng.random(n) < 0.5, mask=mask),
            "s": pa.array([None if m else v for m, v in zip(mask, text.to_pylist())]),
            "v": text.cast(pa.string_view()),
            "l": lists,
            "w": pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(8 * n).astype(np.float32)), 8),
            "t": pa.StructArray.from_arrays([text, pa.array(rng.random(n))], ["s", "x"], mask=pa.array(rng.random(n) < 0.1)),
        }
    )
    path = write(tmp_path / "large.arrow", table, compression=codec)
    with fb.open(path, cache_dir="") as ds:
        assert len(ds.blocks) > 1 and len({b.group for b in ds.blocks}) == 1
        assert_tables_equal(pa.table(ds), table)
        assert_loader_delivers(ds, table, shuffle="block", seed=2, batch_size=5000, memory="1GiB", threads=2)
        assert_loader_delivers(ds, table, batch_size=5000, memory="1GiB", threads=1, columns=["l", "s"])


def test_windows_reach_into_the_next_batch(tmp_path):
    x = np.arange(1000, dtype=np.float32)
    table = pa.table({"x": x, "n": pa.array([None if i % 5 == 0 else float(i) for i in range(1000)])})
    for codec in (None, "zstd"):
        path = write(tmp_path / f"{codec}.arrow", table, rows=33, compression=codec)
        with fb.open(path, cache_dir="") as ds:
            got = deliver(ds.windows(input=50, output=1), {"x": fb.col("x"), "n": fb.col("n").fill_missing(-1)})
        np.testing.assert_array_equal(got["x"][:, 0], x[:950])
        np.testing.assert_array_equal(got["n"][7, 0::1][:51].reshape(-1), [-1 if i % 5 == 0 else i for i in range(7, 58)])


def test_rows_are_used_where_they_lie(tmp_path):
    """Uncompressed rows of one column: their bytes are read, no others, and none is decoded."""
    values = np.random.default_rng(0).standard_normal((20_000, 64)).astype(np.float32)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 64), "other": np.zeros(20_000)})
    path = write(tmp_path / "x.arrow", table, rows=5000)
    for options in ({}, {"io": "mmap", "immutable": True}):
        with fb.open(path, cache_dir="", **options) as ds, ds.loader({"x": "x"}, batch_size=1000, shuffle=False, framework="numpy") as loader:
            got = np.concatenate([b["x"] for b in loader])
            report = loader.report().to_dict()
        np.testing.assert_array_equal(got, values)
        assert report["bytes_read"] == values.nbytes and report["decode_ns"] == 0


# ---- what is refused ----


@pytest.mark.parametrize(
    "column, message",
    [
        (pa.array([[1], [2]], pa.list_view(pa.int32())), "list views"),
        (pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])]), "unions"),
        (pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([5, 6])), "run-end"),
        (pa.array([(1, 2, 3), None], pa.month_day_nano_interval()), "intervals"),
        (pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([[1]], pa.list_(pa.int8()))), "dictionaries of nested values"),
    ],
)
def test_types_without_counterpart_are_refused_by_name(tmp_path, column, message):
    path = write(tmp_path / "t.arrow", pa.table({"good": [1, 2], "bad": column}))
    with pytest.raises(fb.UnsupportedError, match=f"t.arrow.*column 'bad'.*{message}"):
        fb.open(path, cache_dir="")


def flat_schema(endianness):
    """The message of a schema without columns, as a flatbuffer made by hand."""
    schema_vtable = struct.pack("<HHHH", 8, 12, 4, 8)  # endianness at 4, fields at 8
    schema = struct.pack("<ihxxI", 8, endianness, 4) + struct.pack("<I", 0)
    message_vtable = struct.pack("<HHHHH", 10, 12, 4, 6, 8)  # version, header type, header
    root = 4 + len(message_vtable) + 2
    message = struct.pack("<ihBxI", root - 4, 4, 1, 4 + len(schema_vtable))
    body = struct.pack("<I", root) + message_vtable + b"\0\0" + message + schema_vtable + schema
    body += b"\0" * (-len(body) % 8)
    return b"\xff\xff\xff\xff" + struct.pack("<i", len(body)) + body + struct.pack("<Ii", 0xFFFFFFFF, 0)


def test_big_endian_files_are_refused(tmp_path):
    (tmp_path / "big.arrows").write_bytes(flat_schema(1))
    with pytest.raises(fb.UnsupportedError, match="big.arrows.*big-endian"):
        fb.open(tmp_path / "big.arrows", cache_dir="")
    assert ipc.open_stream(flat_schema(0)).schema == pa.schema([])  # what is made by hand is well made


def test_other_files_of_these_names(tmp_path):
    (tmp_path / "old.feather").write_bytes(b"FEA1" + bytes(100))
    with pytest.raises(fb.UnsupportedError, match="Feather version 1"):
        fb.open(tmp_path / "old.feather", cache_dir="")
    (tmp_path / "text.arrow").write_text("hello, world\n" * 10)
    with pytest.raises(fb.FormatError, match="no Parquet, HDF5, NetCDF-4, Arrow or CSV file"):
        fb.open(tmp_path / "text.arrow", cache_dir="")
    with pa.OSFile(str(tmp_path / "tensor.arrow"), "wb") as sink:
        ipc.write_tensor(pa.Tensor.from_numpy(np.zeros((3, 4))), sink)
    with pytest.raises(fb.Error):
        fb.open(tmp_path / "tensor.arrow", cache_dir="")


def test_two_streams_in_one_file_are_refused(tmp_path):
    path = write(tmp_path / "t.arrows", pa.table({"x": [1, 2]}), stream=True)
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(fb.UnsupportedError, match="follow the stream's end"):
        fb.open(path, cache_dir="")


def test_compression_of_arrow_0_17_is_refused(tmp_path):
    batch = pa.RecordBatch.from_pydict({"x": [1, 2]})
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, ipc.new_file(sink, batch.schema, options=ipc.IpcWriteOptions(metadata_version=V4)) as writer:
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "ZSTD"})
    with pytest.raises(fb.UnsupportedError, match="message 1 at byte .*Arrow 0.17"):
        fb.open(tmp_path / "t.arrow", cache_dir="")


# ---- damage ----


def outcome(path):
    """Everything that reads the file: a table, or the error's class."""
    try:
        with fb.open(path, cache_dir="") as ds:
            table = pa.table(ds)
            if table.num_rows:
                assert_loader_delivers(ds, table, batch_size=50, threads=1, memory="64MiB")
            table.validate(full=True)
            return table
    except (fb.Error, OSError, pa.ArrowException) as error:  # pyarrow's are those of the Arrow stream
        assert str(path) in str(error) or "budget" in str(error), error
        return None


def small_table():
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "i": pa.array(rng.integers(0, 1000, 90), mask=rng.random(90) < 0.3),
            "s": pa.array([None if i % 9 == 0 else f"text {i}" * (i % 3) for i in range(90)]),
            "v": pa.array([f"a view of more than twelve bytes {i}" for i in range(90)], pa.string_view()),
            "l": pa.array([[float(k) for k in range(i % 4)] for i in range(90)], pa.list_(pa.float32())),
            "d": pa.array([f"d{i % 5}" for i in range(90)]).dictionary_encode(),
            "t": pa.array([{"x": i, "b": i % 2 == 0} for i in range(90)], pa.struct([("x", pa.int16()), ("b", pa.bool_())])),
        }
    )


def borders(data):
    """Where messages and bodies of a stream begin."""
    at, found = 0, []
    while at < len(data):
        found.append(at)
        n = struct.unpack_from("<i", data, at + 4)[0]
        if n == 0:
            break
        found.append(at + 8 + n)
        at += 8 + n + ipc.read_message(pa.py_buffer(data[at:])).body.size if n else 0
    return [*found, len(data)]


@pytest.mark.parametrize("stream", [False, True])
def test_files_that_are_cut_short(tmp_path, stream):
    table = small_table()
    data = write(tmp_path / "whole.arrow", table, stream, rows=30, compression="lz4").read_bytes()
    cuts = set(borders(data)) if stream else set()
    cuts |= {c + d for c in cuts for d in (-8, -4, -1, 1, 4, 8)} | set(range(0, len(data), 97)) | set(range(len(data) - 40, len(data)))
    path = tmp_path / "cut.arrow"
    for n in sorted(c for c in cuts if 0 <= c < len(data)):
        path.write_bytes(data[:n])
        got = outcome(path)
        if got is None:
            continue
        assert stream and n in borders(data), f"cut at {n}"
        assert_tables_equal(got, table.slice(0, got.num_rows))
        with fb.open(path, cache_dir="") as ds:
            assert any("end mark" in note for note in ds.notes)


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_bits_that_are_flipped(tmp_path, codec):
    """An error, or values: of the right number, and where text, valid. Bodies have no checksum."""
    rng = np.random.default_rng(7)
    data = write(tmp_path / "whole.arrow", small_table(), rows=30, compression=codec).read_bytes()
    path, refused = tmp_path / "flipped.arrow", 0
    for _ in range(300):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), int(rng.integers(1, 4))):
            broken[at] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(broken)
        refused += outcome(path) is None
    assert refused > 20


def test_damage_is_named_by_message_and_offset(tmp_path):
    table = pa.table({"s": ["a", "bc", "def"]})
    path = write(tmp_path / "t.arrow", table)
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<4i", 0, 1, 3, 6))
    data[at + 4 : at + 8] = struct.pack("<i", 9)
    path.write_bytes(data)
    with pytest.raises(OSError, match=r"t.arrow', message 1 at byte \d+: column 's': its offsets are not in order"):
        read(path)


# ---- the index cache, and files that change ----


def test_metadata_is_kept_in_the_index_cache(tmp_path):
    batches = [pa.RecordBatch.from_arrays([coded([0, 1], v)], ["d"]) for v in (["a", "b"], ["a", "b", "c"], ["x", "y"])]
    for i, (stream, codec) in enumerate([(False, None), (True, None), (False, "zstd"), (True, "lz4")]):
        write(tmp_path / f"{i}.arrow", small_table().select(["i", "s", "v", "l", "t"]).append_column("d", small_table()["d"]), stream, compression=codec)
    write(tmp_path / "dictionaries.arrows", batches, stream=True)
    for name in sorted(os.listdir(tmp_path)):
        old = os.stat(tmp_path / name).st_mtime - 100
        os.utime(tmp_path / name, (old, old))
    for name in ("?.arrow", "*.arrows"):
        first = None
        for _ in range(2):
            with fb.open(str(tmp_path / name), cache_dir=tmp_path / "cache") as ds:
                table, prints = pa.table(ds), ds.fingerprint
                if first is None:
                    first = (table, prints)
                else:
                    assert prints == first[1]
                    assert_tables_equal(table, first[0])


def test_a_file_that_changed(tmp_path):
    path = write(tmp_path / "t.arrow", pa.table({"x": np.arange(1000)}))
    with fb.open(path, cache_dir="") as ds:
        write(path, pa.table({"x": np.arange(2000)}))
        with pytest.raises(fb.ChangedError):
            deliver(ds, {"x": "x"})


# ---- the command ----


def test_the_command(tmp_path):
    cli = os.environ.get("FOREBAY_CLI")
    if not cli:
        pytest.skip("FOREBAY_CLI is not set")
    path = write(tmp_path / "t.arrow", small_table(), rows=30, compression="zstd")

    def run(*args):
        return subprocess.run([cli, *args], capture_output=True, text=True, check=True).stdout

    shown = json.loads(run("inspect", "--no-cache", "--json", str(path)))
    assert shown["rows"] == 90 and shown["row_groups"] == 3 and "zstd" in json.dumps(shown)
    assert "text 1" in run("head", "--no-cache", str(path))
    assert run("plan", "--no-cache", str(path))
    assert json.loads(run("bench", "--no-cache", "--columns", "t.x", "--epochs", "1", "--json", str(path)))["samples"] == 90


def test_a_thousand_small_columns_take_little_memory(tmp_path):
    """Each column's array has memory of its own, which was 64 KiB at least."""
    table = pa.table({f"c{i}": pa.array([i % 2 == 0, None, True]) if i % 2 else pa.array([[i], [], None], pa.list_(pa.int16())) for i in range(1_500)})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with fb.open(tmp_path / "x.arrow", memory="16MiB", cache_dir="") as ds:
        assert pa.table(ds).to_pydict() == table.to_pydict()
