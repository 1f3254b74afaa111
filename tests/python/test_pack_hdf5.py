"""fb.pack(format="hdf5"): what h5py and Forebay read is what went in, bytes depend on the source alone, and what HDF5 has no place for is named."""

import datetime
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

import forebay as fb
from pack_cases import contents, killed_until_done, write

h5py = pytest.importorskip("h5py")

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
needs_cli = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")

NUMBERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


def every_number(n, seed=0):
    rng = np.random.default_rng(seed)
    columns = {kind: rng.integers(0, 100, n).astype(kind) for kind in NUMBERS}
    grid = rng.standard_normal((n, 3, 4)).astype("f4")
    nested = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(pa.array(grid.ravel()), 4), 3)
    texts = ["".join(rng.choice(list("aöü€x"), rng.integers(12))) for _ in range(n)]
    flags = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(2 * n) < 0.5), 2)
    return pa.table({
        "i": np.arange(n), **columns, "yes": rng.random(n) < 0.5, "text": texts, "raw": pa.array([rng.bytes(5) for _ in range(n)], pa.binary(5)),
        "grid": nested, "flags": flags, "group/inner": rng.random(n),
    })  # fmt: skip


def read(folder, name):
    return np.concatenate([h5py.File(f)[name][()] for f in sorted(folder.glob("part-*.hdf5"))])


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("shuffle", ["full", "none"])
def test_h5py_and_forebay_read_what_went_in(tmp_path, shuffle, codec):
    table = every_number(2_345)
    options = {"codec": codec, "shuffle": shuffle, "seed": 3, "batch": 100, "rows_per_file": 1000, "verify": True}
    done = fb.pack(write(table, tmp_path / "src"), tmp_path / "out", format="hdf5", **options)
    assert (done.rows, done.files) == (2345, 3) and done.rows_hash
    order = read(tmp_path / "out", "i")
    assert sorted(order) == list(range(2345)) and (list(order) == sorted(order)) == (shuffle == "none")
    wanted = table.take(order)
    for name in table.column_names:
        found, column = read(tmp_path / "out", name), wanted[name]
        if name in ("grid", "flags"):
            shape = (-1, 3, 4) if name == "grid" else (-1, 2)
            assert np.array_equal(found, np.array(column.to_pylist()).reshape(shape)) and found.shape[1:] == shape[1:]
        elif name == "text":
            assert [text.decode() for text in found] == column.to_pylist()
        elif name == "raw":
            assert [value.tobytes() for value in found] == column.to_pylist()
        else:
            assert np.array_equal(found, column.to_numpy()) and found.dtype == column.to_numpy().dtype, name
    again = pa.table(fb.open(tmp_path / "out")).select(table.column_names)
    for name in table.column_names:
        assert again[name].to_pylist() == wanted[name].to_pylist(), name


def test_chunks_are_batches_and_attributes_say_where_rows_come_from(tmp_path):
    ds = fb.open(write(every_number(1_050), tmp_path / "src"))
    done = fb.pack(ds, tmp_path / "out", format="hdf5", codec="gzip", seed=4, batch=200, rows_per_file=400)
    for i, rows in enumerate((400, 400, 250)):
        with h5py.File(tmp_path / f"out/part-{i:05}.hdf5") as f:
            assert f["f4"].shape == (rows,) and f["f4"].chunks == (200,) and f["grid"].chunks == (200, 3, 4)
            assert (f["f4"].compression, f["f4"].shuffle, f["u1"].shuffle, f["text"].compression) == ("gzip", True, False, None)
            assert f["yes"].dtype == bool and h5py.check_string_dtype(f["text"].dtype).encoding == "utf-8"
            assert f.attrs["forebay.seed"] == "4" and f.attrs["forebay.source_contents"] == done.source_contents
    assert fb.open(tmp_path / "out").attrs["forebay.codec"] == "gzip"


def test_bytes_depend_on_neither_time_nor_memory_nor_threads_nor_tasks(tmp_path):
    source = write(every_number(30_000), tmp_path / "src", files=4)
    options = {"format": "hdf5", "codec": "gzip", "seed": 9, "batch": 512, "rows_per_file": 7000}
    fb.pack(source, tmp_path / "a", memory="16MiB", threads=1, **options)
    time.sleep(1.1)  # HDF5 keeps times in seconds, where it keeps them
    fb.pack(source, tmp_path / "b", memory="1GiB", threads=3, **options)
    for task in fb.pack_tasks(source, tmp_path / "c", memory="16MiB", verify=True, **options):
        fb.pack_task(source, tmp_path / "c", task, memory="16MiB", verify=True, **options)
    found = [{k: v for k, v in contents(tmp_path / name).items() if k != "_pack.json"} for name in "abc"]
    assert len(found[0]) == 5 and found[0] == found[1] == found[2]


def test_no_rows_and_one_row(tmp_path):
    table = every_number(1)
    for n in (0, 1):
        done = fb.pack(table.slice(0, n), tmp_path / f"{n}", format="hdf5", codec="gzip", verify=True)
        assert (done.rows, done.files) == (n, 1)
        assert len(read(tmp_path / f"{n}", "grid")) == n
        assert read(tmp_path / f"{n}", "text").tolist() == [t.encode() for t in table["text"].to_pylist()[:n]]


REFUSED = {
    "timestamp[us]": pa.array([datetime.datetime(2020, 1, 1)] * 2),
    "date": pa.array([datetime.date(2020, 1, 1)] * 2),
    "decimal(21, 0)": pa.array([1, 2]).cast(pa.decimal128(21, 0)),
    "list<int64>": pa.array([[1], []]),
    "struct<a: int64>": pa.array([{"a": 1}] * 2),
    "binary": pa.array([b"a", b"bc"]),
    "fixed_list<string>[2]": pa.array([["a", "b"]] * 2, pa.list_(pa.string(), 2)),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_types_are_refused_by_name_before_anything_is_read(tmp_path, kind):
    with pytest.raises(fb.UnsupportedError, match=re.escape(f"column 'odd' is {kind}: HDF5 files are written with")):
        fb.pack(pa.table({"i": [1, 2], "odd": REFUSED[kind]}), tmp_path / "out", format="hdf5")
    assert not (tmp_path / "out").exists()


ODD = [
    (r"\(int64\), row 1 of .*no nulls but among floats.*Leave the column out, or name it as an output, with fill_missing", pa.array([1, None, 2])),
    (", row 1 of .*NUL", ["a", "b\0c", "d"]),
    (r"\(fixed_list<int8>\[2\]\), row 1 of .*no nulls", pa.array([[1, 2], [3, None], [4, 5]], pa.list_(pa.int8(), 2))),
    (r"\(fixed_list<float32>\[2\]\), row 1 of .*no nulls", pa.array([[1, 2], None, [4, 5]], pa.list_(pa.float32(), 2))),
]


@pytest.mark.parametrize("source", ["memory", "files"])
def test_null_floats_are_nan_and_verified(tmp_path, source):
    nan = float("nan")
    table = pa.table({
        "f2": pa.array([np.float16(1.5), None, np.float16(nan), None], pa.float16()), "f4": pa.array([None, 1.0, 2.0, nan], pa.float32()),
        "f8": [None, None, None, 3.5], "pair": pa.array([[1.0, None], [None, None], [2.0, nan], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    })  # fmt: skip
    rows = write(table, tmp_path / "src") if source == "files" else table
    fb.pack(rows, tmp_path / "out", format="hdf5", shuffle="none", verify=True)
    for name, column in zip(table.column_names, table.columns):
        wanted = [[nan if v is None else v for v in row] if isinstance(row, list) else nan if row is None else row for row in column.to_pylist()]
        assert np.array_equal(read(tmp_path / "out", name), np.array(wanted, dtype=read(tmp_path / "out", name).dtype), equal_nan=True), name
    fb.pack(rows, tmp_path / "shuffled", format="hdf5", seed=3, verify=True)
    if source == "files":
        flat = ["f2", "f4", "f8"]  # Parquet has no arrays
        hashes = [fb.pack(rows, tmp_path / format, format=format, columns=flat, verify=True).rows_hash for format in ("arrow", "parquet")]
        other = fb.pack(rows, tmp_path / "flat", format="hdf5", columns=flat, seed=3, verify=True)
        assert hashes[0] == hashes[1] != other.rows_hash, "elsewhere a null is none"


@pytest.mark.parametrize(("what", "values"), ODD)
def test_values_that_hdf5_has_no_place_for_are_named_and_nothing_is_left_under_a_final_name(tmp_path, what, values):
    with pytest.raises(fb.DataError, match=f"column 'odd'.*{what}"):
        fb.pack(pa.table({"i": [1, 2, 3], "odd": values}), tmp_path / "out", format="hdf5", shuffle="none")
    assert not list((tmp_path / "out").glob("part-*"))


@pytest.mark.parametrize("name", ["", "/a", "a//b", "a/", ".", "a/./b"])
def test_names_that_are_no_data_sets_are_refused(tmp_path, name):
    with pytest.raises(fb.UnsupportedError, match=re.escape(f"column '{name}'")):
        fb.pack(pa.table({"i": [1], name: [2]}), tmp_path / "out", format="hdf5")


def test_a_column_inside_another_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(fb.UnsupportedError, match="column 'a': an HDF5 path is a data set or a group"):
        fb.pack(pa.table({"ab": [3], "a/b": [2], "a": [1]}), tmp_path / "out", format="hdf5")
    assert not (tmp_path / "out").exists()


def test_codecs_are_those_of_the_format(tmp_path):
    table = pa.table({"i": [1]})
    with pytest.raises(ValueError, match="HDF5 files are not written with codec 'zstd'; none and gzip are"):
        fb.pack(table, tmp_path / "a", format="hdf5", codec="zstd")
    for format, words in (("arrow", "no codec 'gzip'"), ("parquet", "not written with codec 'gzip'")):
        with pytest.raises(ValueError, match=words):
            fb.pack(table, tmp_path / format, format=format, codec="gzip")


def test_without_the_helper_program_it_is_refused_with_the_way_out(tmp_path):
    code = "import forebay as fb, pyarrow as pa\nfb.pack(pa.table({'i': [1]}), 'out', format='hdf5')"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "FOREBAY_HDF5_HELPER": "none"}, capture_output=True, text=True)
    assert "UnsupportedError" in run.stderr and "FOREBAY_HDF5_HELPER" in run.stderr and not (tmp_path / "out").exists()


def test_a_helper_program_that_does_not_start_is_named(tmp_path):
    code = "import forebay as fb, pyarrow as pa\nfb.pack(pa.table({'i': [1]}), 'out', format='hdf5')"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "FOREBAY_HDF5_HELPER": "/bin/false"}, capture_output=True, text=True)
    assert "/bin/false: the helper program ended with status 1 while it started" in run.stderr, run.stderr
    assert not list((tmp_path / "out").glob("part-*"))


def test_a_dry_run_expects_the_size(tmp_path):
    source = write(every_number(20_000), tmp_path / "src")
    expected = fb.pack(source, tmp_path / "out", format="hdf5", dry_run=True).expected_bytes
    written = fb.pack(source, tmp_path / "out", format="hdf5").written_bytes
    assert 0.7 < expected / written < 1.4


def test_a_file_that_may_not_grow_is_said(tmp_path):
    source = write(every_number(40_000), tmp_path / "src")
    limit = "import resource, sys, forebay as fb\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))"
    code = f"{limit}\nfb.pack(sys.argv[1], sys.argv[2], format='hdf5', shuffle='none')"
    run = subprocess.run([sys.executable, "-c", code, source, tmp_path / "out"], capture_output=True, text=True)
    assert "ReadError" in run.stderr and "cannot write '" in run.stderr and "/part-0" in run.stderr and "File too large" in run.stderr, run.stderr
    assert "libhdf5" not in run.stderr
    assert not list((tmp_path / "out").glob("part-*"))


def processes_of(session):
    """Of a session, zombies aside: their numbers."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@needs_cli
def test_no_helper_program_outlives_a_packer_that_is_killed(tmp_path):
    source = write(every_number(3_000), tmp_path / "src")
    command = [CLI, "pack", source, "--format", "hdf5", "--rows-per-file", "5", "--shuffle", "none", "--no-cache", "--to"]
    rng, killed, seen = random.Random(11), 0, 0
    for i in range(30):  # programs are started and end all the time
        process = subprocess.Popen([*command, tmp_path / f"{i}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(rng.uniform(0.02, 0.6))
        seen += len(processes_of(process.pid)) > 1
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        until = time.monotonic() + 5
        while processes_of(process.pid) and time.monotonic() < until:
            time.sleep(0.01)
        assert not processes_of(process.pid), i
    assert killed > 20 and seen > 5


@needs_cli
def test_inspect_says_what_a_pack_was_made_of(tmp_path):
    subprocess.run([CLI, "pack", write(every_number(100), tmp_path / "src"), "--to", tmp_path / "out", "--format", "hdf5"], check=True, capture_output=True)
    text = subprocess.run([CLI, "inspect", tmp_path / "out"], check=True, capture_output=True, text=True).stdout
    assert "Packed" in text and "codec none" in text
