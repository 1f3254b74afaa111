"""fb.pack: the order is the loader's, values are pyarrow's, bytes depend on neither memory nor threads, and nothing is half-done."""

import json
import math
import os
import pathlib
import pty
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from pack_cases import contents, every_type, floats, order_of, read, write

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
needs_cli = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")


# ---- order and values ----


def test_a_pack_read_in_file_order_is_the_loaders_first_epoch(tmp_path):
    ds = fb.open(write(floats(20_011), tmp_path / "src"))
    done = fb.pack(ds, tmp_path / "out", seed=7, batch=512, rows_per_file=4096)
    packed = read(tmp_path / "out")
    order = order_of(ds, 7)
    assert sorted(order) == list(range(20_011))
    assert packed.equals(pa.table(ds).take(order))
    assert (done.rows, done.files, done.passes) == (20_011, 5, 2)
    again = fb.open(tmp_path / "out")
    found = [np.asarray(batch["i"]) for batch in again.rows().loader({"i": "i"}, batch_size=999, shuffle="none", tail="keep")]
    assert np.array_equal(np.concatenate(found).ravel(), order)


@pytest.mark.parametrize("rows_per_file", [1000, 4000])
def test_a_state_of_the_source_is_refused_by_its_pack(tmp_path, rows_per_file):
    """Also where the pack has as many files, rows and blocks: its samples have other places."""
    src = write(floats(4_000), tmp_path / "src", files=4, row_group_size=1000)
    fb.pack(src, tmp_path / "out", batch=1000, rows_per_file=rows_per_file)
    options = {"batch_size": 100, "shuffle": "full", "seed": 1}
    loader = fb.open(src).loader(["x0"], **options)
    next(iter(loader))
    with fb.open(tmp_path / "out").loader(["x0"], **options) as packed, pytest.raises(fb.ChangedError, match="saved over another data set"):
        packed.load_state_dict(loader.state_dict())


def test_rows_are_the_same_in_each_of_three_memories(tmp_path):
    ds = fb.open(write(floats(400_000, columns=12), tmp_path / "src", row_group_size=20_000))
    found = []
    for name, memory, threads in (("a", "16MiB", 1), ("b", "40MiB", 2), ("c", "1GiB", 7)):
        done = fb.pack(ds, tmp_path / name, seed=5, memory=memory, threads=threads, batch=1000, rows_per_file=30_000)
        found.append((done.buckets, contents(tmp_path / name)))
    assert len({buckets for buckets, _ in found}) == 3, "the memories are to give different numbers of buckets"
    assert found[0][1] == found[1][1] == found[2][1]
    assert read(tmp_path / "a")["i"].to_numpy().tolist() == order_of(ds, 5).tolist()


def test_a_file_larger_than_a_bucket_is_written_from_several(tmp_path):
    ds = fb.open(write(floats(300_000, columns=12), tmp_path / "src", row_group_size=20_000))
    done = fb.pack(ds, tmp_path / "small", memory="16MiB", threads=1, batch=777, rows_per_file=250_000)
    assert done.buckets > done.files == 2
    fb.pack(ds, tmp_path / "large", memory="1GiB", threads=1, batch=777, rows_per_file=250_000)
    assert contents(tmp_path / "small") == contents(tmp_path / "large")


@pytest.mark.parametrize("shuffle", ["full", "none"])
def test_threads_give_way_where_a_block_needs_more_than_its_part_of_the_memory(tmp_path, shuffle):
    texts = [f"{i}" for i in range(1000)] + [f"{i}" + "a" * 12_000 for i in range(1000)]  # which nothing but decoding shows
    (tmp_path / "src").mkdir()
    for i in range(4):
        pq.write_table(pa.table({"s": texts}), tmp_path / f"src/{i}.parquet", row_group_size=1000, use_dictionary=False, compression="zstd")
    fb.pack(tmp_path / "src", tmp_path / "out", shuffle=shuffle, memory="192MiB", threads=4)
    assert sorted(read(tmp_path / "out")["s"].to_pylist()) == sorted(texts * 4)


def test_buffers_are_aligned_and_metadata_says_where_rows_come_from(tmp_path):
    ds = fb.open(write(every_type(500, seed=1), tmp_path / "src"))
    fb.pack(ds, tmp_path / "out", seed=3, batch=100)
    reader = pa.ipc.open_file(pa.memory_map(str(next((tmp_path / "out").glob("*.arrow")))))
    for i in range(reader.num_record_batches):
        for column in reader.get_batch(i).columns:
            assert all(b is None or b.size == 0 or b.address % 64 == 0 for b in column.buffers())
    if hasattr(reader, "metadata"):
        said = json.loads((tmp_path / "out/_pack.json").read_text())
        assert reader.metadata[b"forebay.source_contents"].decode() == said["source_contents"]
        assert reader.metadata[b"forebay.seed"] == b"3" and said["seed"] == 3


def test_tables_in_memory_chosen_columns_and_no_rows(tmp_path):
    table = floats(5000)
    fb.pack(table, tmp_path / "memory", seed=1, columns=["x3", "i"])
    packed = read(tmp_path / "memory")
    assert packed.column_names == ["x3", "i"]
    assert packed["x3"].to_pylist() == table["x3"].take(packed["i"]).to_pylist()
    done = fb.pack(table.slice(0, 0), tmp_path / "none")
    assert (done.rows, done.files) == (0, 1)
    assert read(tmp_path / "none").schema.equals(pa.table(fb.open(table)).schema)
    with pytest.raises(fb.SchemaError, match="nothing"):
        fb.pack(table, tmp_path / "x", columns="nothing")
    assert not (tmp_path / "x").exists()


# ---- options ----


def test_a_dry_run_says_sizes_and_writes_nothing(tmp_path):
    ds = fb.open(write(floats(10_000), tmp_path / "src"))
    plan = fb.pack(ds, tmp_path / "out", dry_run=True, batch=100, rows_per_file=2500)
    assert (plan.rows, plan.files, plan.batch, plan.passes, plan.written_bytes) == (10_000, 4, 100, 2, 0)
    assert plan.decoded_bytes == 10_000 * (8 + 8 * 4)
    assert [p.name for p in tmp_path.iterdir()] == ["src"]


@pytest.mark.parametrize("format, codec", [("arrow", "none"), ("arrow", "lz4"), ("parquet", "zstd")])
def test_a_dry_run_expects_the_size_and_about_the_time(tmp_path, format, codec):
    ds = fb.open(write(floats(1_000_000), tmp_path / "src", row_group_size=20_000))
    options = {"format": format, "codec": codec, "memory": "64MiB", "batch": 5000}
    plan = fb.pack(ds, tmp_path / "deep/er/out", dry_run=True, **options)
    began = time.monotonic()
    done = fb.pack(ds, tmp_path / "out", **options)
    took = time.monotonic() - began
    assert plan.expected_bytes == pytest.approx(done.written_bytes, rel=0.1)
    assert took / 8 < plan.expected_seconds < 8 * took  # on machines that do other things, too
    assert done.expected_bytes is None and done.expected_seconds is None and done.keys is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "src"]


def test_a_dry_run_where_nothing_can_be_written_knows_no_time(tmp_path):
    plan = fb.pack(floats(1000), "/proc/nowhere", dry_run=True)
    assert plan.expected_seconds is None and plan.expected_bytes > 1000 * 40
    assert fb.pack(floats(0), tmp_path / "x", dry_run=True).expected_bytes is None


@needs_cli
def test_the_command_says_what_a_dry_run_expects(tmp_path):
    write(floats(400_000), tmp_path / "src", row_group_size=20_000)
    command = [CLI, "pack", tmp_path / "src", "--to", tmp_path / "out", "--no-cache", "--dry-run", "--memory", "16MiB", "--threads", "1"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "nothing was written" in text and re.search(r"time +about [\d.]+ (m?s|min)", text) and re.search(r"size +about 1[67]\.?\d* M", text)
    assert re.search(r"passes +2, through \d+ buckets in .*meanwhile, beside the pack", text)
    said = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True).stdout)
    assert said["expected_seconds"] > 0 and said["buckets"] > 1 and said["expected_bytes"] > 400_000 * 40


@needs_cli
def test_the_command_shows_progress_on_a_terminal(tmp_path):
    write(floats(1_000_000), tmp_path / "src", row_group_size=2_000)
    parent, child = pty.openpty()
    command = [CLI, "pack", tmp_path / "src", "--to", tmp_path / "out", "--no-cache", "--memory", "16MiB", "--verify"]
    process = subprocess.Popen(command, stderr=child, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"})
    os.close(child)
    shown = b""
    try:
        while part := os.read(parent, 65536):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(parent)
    assert process.wait() == 0, shown
    lines = shown.decode().split("\r\033[K")
    assert any(re.fullmatch(r"(scattering|writing|verifying): \d+ %, [\d.]+ ?[kM]?rows/s, [\d.]+ .* left", line) for line in lines), lines
    percent = [int(line.split(": ")[1].split(" %")[0]) for line in lines if " %" in line]
    assert percent == sorted(percent) and lines[-1] == "", "it is gone when the command ends"


def test_a_pack_among_its_sources_files_is_refused(tmp_path, monkeypatch):
    """Whoever opens the source again would have all rows twice."""
    src = write(floats(100), tmp_path / "src", files=2)
    monkeypatch.chdir(tmp_path)
    inside = [(src, src / "packed"), ("src", "src/a/b"), (".", "packed"), (tmp_path, src / "../other"), ("**/*.arrow", "a/b"), ("s*/**", src / "a"),
              ("{set}/*.arrow", "new"), ([tmp_path / "**"], "src/new"), ("s?c", "src/a")]  # fmt: skip
    for source, to in inside:
        with pytest.raises(ValueError, match="lies inside of '.*', which is searched for the source's files"):
            fb.pack(source, to)
        with pytest.raises(ValueError, match="lies inside of"):
            fb.pack_tasks(source, to)
    assert sorted(path.name for path in src.iterdir()) == ["0.arrow", "1.arrow"] and list(tmp_path.iterdir()) == [src]
    outside = [("src/*.arrow", "src/packed", "arrow"), ("src", "src/.packed", "arrow"), ("src", "src/_packed", "arrow"), ("src", "srcs", "arrow"),
               (src / "0.arrow", "src/x", "arrow"), ("*/[01].arrow", "new", "arrow"), ("**/*.arrow", "as_parquet", "parquet")]  # fmt: skip
    rows = {}
    for source, to, format in outside:
        before = len(fb.open(source))
        fb.pack(source, to, format=format)
        rows[to] = (before, len(fb.open(source)))
    assert all(before == after for before, after in rows.values()), rows


def test_sixty_thousand_chosen_columns_are_looked_at_in_no_time(tmp_path):
    """None is there: that is said after they were compared with each other."""
    ds = fb.open(floats(10))
    names = [f"a_rather_long_name_of_a_column_{i:06d}" for i in range(60_000)]
    begun = time.process_time()
    with pytest.raises(fb.SchemaError, match="a_rather_long_name_of_a_column_000000"):
        fb.pack(ds, tmp_path / "out", columns=names)
    assert time.process_time() - begun < 2
    with pytest.raises(ValueError, match="'a_rather_long_name_of_a_column_000007' is named twice"):
        fb.pack(ds, tmp_path / "out", columns=[*names, names[7]])


def test_what_options_do_not_fit_is_said(tmp_path):
    ds = fb.open(floats(100))
    with pytest.raises(ValueError, match="snappy.*none, lz4 or zstd"):
        fb.pack(ds, tmp_path / "a", codec="snappy")
    with pytest.raises(ValueError, match="'gzip'; none, lz4, snappy and zstd"):
        fb.pack(ds, tmp_path / "a", format="parquet", codec="gzip")
    with pytest.raises(ValueError, match="'gzip'"):
        fb.pack_tasks(ds, tmp_path / "a", format="parquet", codec="gzip")
    with pytest.raises(fb.BudgetError, match="16 MiB"):
        fb.pack(ds, tmp_path / "b", memory="1MiB")
    write(floats(400_000, columns=12), tmp_path / "src", row_group_size=200_000)
    with pytest.raises(fb.BudgetError, match="one part in 4 of its memory: .*0.arrow.*raise memory to"):
        fb.pack(tmp_path / "src", tmp_path / "f", memory="16MiB")
    with pytest.raises(ValueError, match="shuffle='some'"):
        fb.pack(ds, tmp_path / "c", shuffle="some")
    with pytest.raises(ValueError, match="batch=0"):
        fb.pack(ds, tmp_path / "d", batch=0)
    with pytest.raises(ValueError, match="files"):
        fb.pack(fb.open(floats(20_000_000, columns=0)), tmp_path / "e", rows_per_file=1)
    for name in "abcdef":
        assert not (tmp_path / name).exists()


def test_a_data_set_that_reads_nothing_is_not_packed(tmp_path):
    src = write(floats(100), tmp_path / "src")
    with pytest.raises(ValueError, match="io 'null', which reads nothing"):
        fb.pack(fb.open(src, io="null"), tmp_path / "out", verify=True)
    with pytest.raises(ValueError, match="io 'null', which reads nothing"):
        fb.pack_tasks(fb.open(src, io="null"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_progress_counts_rows_and_may_end_it(tmp_path):
    ds = fb.open(write(floats(300_000), tmp_path / "src", row_group_size=2_000))
    seen = []
    fb.pack(ds, tmp_path / "out", verify=True, progress=lambda *said: seen.append(said))
    assert seen and all(0 <= done <= total == 4 * 300_000 for done, total, _ in seen)
    assert {what for _, _, what in seen} <= {"comparing files", "scattering", "writing", "verifying"}

    def stop(done, total, what):
        if what != "comparing files":  # before there is a folder
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fb.pack(ds, tmp_path / "stopped", progress=stop, batch=100)
    assert [p.name for p in (tmp_path / "stopped").iterdir()] == [".forebay-pack"]
    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="enough"):  # where Ctrl-C is not heard
        pool.submit(fb.pack, ds, tmp_path / "stopped", progress=stop, batch=100).result()
    assert [p.name for p in (tmp_path / "stopped").iterdir()] == [".forebay-pack"]
    fb.pack(ds, tmp_path / "stopped", batch=100)
    fb.pack(ds, tmp_path / "whole", batch=100)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


# ---- nothing half-done ----


def test_a_folder_with_something_else_is_refused(tmp_path):
    ds = fb.open(floats(100))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes.txt").write_text("mine")
    for dry_run in (False, True):
        with pytest.raises(ValueError, match="not empty: it holds 'notes.txt'"):
            fb.pack(ds, tmp_path / "out", dry_run=dry_run)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["notes.txt"]
    fb.pack(ds, tmp_path / "done")
    (tmp_path / "file").write_text("")
    for dry_run in (False, True):
        with pytest.raises(ValueError, match="finished pack"):
            fb.pack(ds, tmp_path / "done", dry_run=dry_run)
        with pytest.raises(OSError):
            fb.pack(ds, tmp_path / "file", dry_run=dry_run)


def unfinished(ds, folder, **options):
    """A pack that was stopped, with its first scatter files."""

    def stop(done, total, what):
        if what == "writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fb.pack(ds, folder, progress=stop, **options)
    assert [p.name for p in folder.iterdir()] == [".forebay-pack"]


def test_an_unfinished_pack_goes_on_with_the_same_source_and_options_alone(tmp_path):
    src = write(floats(200_000), tmp_path / "src", row_group_size=5_000)
    ds = fb.open(src)
    unfinished(ds, tmp_path / "out", seed=1, batch=50)
    with pytest.raises(ValueError, match='other options: it has "seed": 1, and this one "seed": 2'):
        fb.pack(ds, tmp_path / "out", seed=2, batch=50)
    os.utime(src / "1.arrow", (1, 1))
    with pytest.raises(fb.ChangedError, match="of a source that has changed"):
        fb.pack(fb.open(src), tmp_path / "out", seed=1, batch=50)
    with pytest.raises(fb.ChangedError, match="1.arrow"):
        fb.pack(ds, tmp_path / "new", seed=1, batch=50)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("buckets", ["0", "4294967295", "many"])
def test_a_plan_with_numbers_that_make_no_sense_is_damaged(tmp_path, buckets):
    ds = fb.open(write(floats(200_000), tmp_path / "src", row_group_size=5_000))
    unfinished(ds, tmp_path / "out", batch=50)
    plan = tmp_path / "out/.forebay-pack/plan"
    plan.write_bytes(f"buckets {buckets}\n".encode() + plan.read_bytes().split(b"\n", 1)[1])
    with pytest.raises(fb.FormatError, match="forebay-pack/plan' is damaged"):
        fb.pack(ds, tmp_path / "out", batch=50)


def test_a_damaged_scatter_file_is_named(tmp_path):
    ds = fb.open(write(floats(200_000), tmp_path / "src", row_group_size=5_000))
    unfinished(ds, tmp_path / "out", batch=50)
    scatters = sorted((tmp_path / "out/.forebay-pack").glob("scatter-*"))
    assert scatters
    data = bytearray(scatters[0].read_bytes())
    data[len(data) // 2] ^= 1
    scatters[0].write_bytes(data)
    with pytest.raises(fb.FormatError, match=rf"{scatters[0].name}.*damaged"):
        fb.pack(ds, tmp_path / "out", batch=50)
    scatters[0].write_bytes(data[:-100])  # cut short: no file, and made again
    done = fb.pack(ds, tmp_path / "out", batch=50)
    assert done.resumed and read(tmp_path / "out")["i"].to_numpy().tolist() == order_of(ds, 0).tolist()


def test_a_table_in_memory_is_begun_anew_since_another_one_looks_the_same(tmp_path):
    unfinished(fb.open(floats(100_000, seed=1)), tmp_path / "out", batch=50)
    assert not fb.pack(floats(100_000, seed=2), tmp_path / "out", batch=50).resumed
    fb.pack(floats(100_000, seed=2), tmp_path / "whole", batch=50)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@needs_cli
def test_a_pack_that_is_being_written_is_refused(tmp_path):
    ds = fb.open(write(floats(100_000), tmp_path / "src"))
    refused = []

    def second(done, total, what):
        if not refused and what != "comparing files":
            result = subprocess.run([CLI, "pack", tmp_path / "src", "--to", tmp_path / "out", "--no-cache"], capture_output=True, text=True)
            refused.append(result)

    fb.pack(ds, tmp_path / "out", progress=second, threads=1)
    assert refused[0].returncode == 2 and "being packed by another process" in refused[0].stderr


def while_packing(ds, folder, do):
    """A pack into the folder, in the middle of which something else is done once."""
    did = []

    def progress(done, total, what):
        if what != "comparing files" and not did:
            did.append(True)
            do()

    fb.pack(ds, folder, progress=progress, threads=1)
    assert did


def test_whoever_replaces_the_plan_has_no_second_lock(tmp_path):
    """As another process does that begins at the same moment, and saw no plan either."""
    ds = fb.open(write(floats(100_000), tmp_path / "src"))
    work = tmp_path / "out/.forebay-pack"

    def replace():
        (work / "mine").write_bytes((work / "plan").read_bytes())
        os.replace(work / "mine", work / "plan")
        with pytest.raises(ValueError, match="being packed by another process"):
            fb.pack(fb.open(tmp_path / "src"), tmp_path / "out")

    while_packing(ds, tmp_path / "out", replace)
    assert read(tmp_path / "out")["i"].to_numpy().tolist() == order_of(ds, 0).tolist()


def test_two_that_begin_at_once_make_one_pack(tmp_path):
    write(floats(20_000), tmp_path / "src")
    code = "import sys, forebay as fb; ds = fb.open(sys.argv[1]); print(1, flush=True); sys.stdin.read(1); fb.pack(ds, sys.argv[2], batch=100)"
    for i in range(3):
        command = [sys.executable, "-c", code, tmp_path / "src", tmp_path / f"out{i}"]
        both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for process in both:
            process.stdout.readline()
        for process in both:
            process.stdin.write("1")
            process.stdin.flush()
        said = [process.communicate(timeout=60)[1] for process in both]
        assert sorted(process.returncode for process in both) == [0, 1], said
        assert any("being packed by another process" in text or "finished pack" in text for text in said)
        assert len(read(tmp_path / f"out{i}")) == 20_000 and not (tmp_path / f"out{i}/.forebay-pack").exists()


@needs_cli
@pytest.mark.parametrize("shuffle", ["full", "none"])
def test_what_is_killed_goes_on_to_the_same_bytes(tmp_path, shuffle):
    kills = int(os.environ.get("FOREBAY_PACK_KILLS", "5"))
    write(floats(400_000, columns=10), tmp_path / "src", row_group_size=4_000)
    base = [CLI, "pack", tmp_path / "src", "--no-cache", "--shuffle", shuffle, "--memory", "16MiB", "--rows-per-file", "20000", "--batch", "500"]
    took = math.inf
    for name in ("cold", "whole"):  # the first run reads the command itself from the disk
        began = time.monotonic()
        subprocess.run([*base, "--to", tmp_path / name], check=True, capture_output=True)
        took = min(took, time.monotonic() - began)
    whole, rng = contents(tmp_path / "whole"), random.Random(20261123)
    stopped = 0
    for i in range(kills):
        out = tmp_path / f"out{i}"
        for _ in range(50):
            process = subprocess.Popen([*base, "--to", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                process.wait(timeout=rng.uniform(0, 0.7 * took))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                stopped += 1
            if process.wait() == 0:
                break
            names = {p.name for p in out.iterdir()} if out.exists() else set()
            if "_pack.json" in names:
                break
            assert process.returncode == -signal.SIGKILL, process.stderr.read()
        else:
            subprocess.run([*base, "--to", out], check=True, capture_output=True)
        if (out / ".forebay-pack").exists():  # killed while it tidied up
            subprocess.run([*base, "--to", out], capture_output=True)
        assert contents(out) == whole
    assert stopped >= kills


@needs_cli
def test_the_command_says_what_it_did_as_json(tmp_path):
    write(floats(10_000), tmp_path / "src")
    command = [CLI, "pack", tmp_path / "src", "--to", tmp_path / "out", "--no-cache", "--seed", "4", "--verify", "--json"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    done = fb.pack(fb.open(tmp_path / "src"), tmp_path / "python", seed=4, verify=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "python")
    for word in ("rows", "files", "rows_per_file", "batch", "source_bytes", "written_bytes", "source_contents", "rows_hash"):
        assert said[word] == getattr(done, word), word
    missing = subprocess.run([CLI, "pack", tmp_path / "src"], capture_output=True, text=True)
    assert missing.returncode == 2 and "--to DIR" in missing.stderr


# ---- what a pack says of itself ----


@needs_cli
@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_a_pack_says_what_it_was_made_of(tmp_path, format):
    ds = fb.open(write(floats(1000), tmp_path / "src"))
    done = fb.pack(ds, tmp_path / "out", seed=5, format=format, codec="zstd", batch=50, rows_per_file=400, columns=["x1", "i"], verify=True)
    again = fb.open(tmp_path / "out")
    said = dict(again.attrs)
    said.pop("ARROW:schema", None)
    in_files = {
        "version": fb.__version__.split("+")[0],
        "source_identity": ds.identity,
        "source_contents": done.source_contents,
        "shuffle": "full",
        "codec": "zstd",
        "batch": "50",
        "rows_per_file": "400",
        "seed": "5",
        "columns": '["x1", "i"]',
    }
    assert said == {f"forebay.{key}": value for key, value in in_files.items()}
    manifest = json.loads((tmp_path / "out/_pack.json").read_text())
    assert (manifest["source_root"], manifest["rows_hash"], manifest["batch"]) == (str(tmp_path / "src"), done.rows_hash, 50)
    shown = subprocess.run([CLI, "inspect", tmp_path / "out", "--json", "--no-cache"], check=True, capture_output=True)
    beside = {"source_root": manifest["source_root"], "rows_hash": done.rows_hash, "source_fingerprint": ds.fingerprint}
    assert json.loads(shown.stdout)["pack"] == {**in_files, "batch": 50, "rows_per_file": 400, "seed": 5, "columns": ["x1", "i"], **beside}
    text = subprocess.run([CLI, "inspect", tmp_path / "out", "--no-cache"], check=True, capture_output=True, text=True).stdout
    for line in ("shuffle full, seed 5", f"{tmp_path / 'src'}, contents", "batches of 50 rows, 400 rows a file, columns x1, i", done.rows_hash):
        assert line in text
    os.remove(tmp_path / "out/_pack.json")  # the files still know most of it
    alone = json.loads(subprocess.run([CLI, "inspect", tmp_path / "out", "--json", "--no-cache"], check=True, capture_output=True).stdout)["pack"]
    assert alone["source_contents"] == done.source_contents and "source_root" not in alone
    source = subprocess.run([CLI, "inspect", tmp_path / "src", "--json", "--no-cache"], check=True, capture_output=True).stdout
    assert "pack" not in json.loads(source)


@needs_cli
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "large"])
def test_inspect_reads_no_manifest_that_is_no_manifest(tmp_path, kind):
    fb.pack(fb.open(write(floats(100), tmp_path / "src")), tmp_path / "out")
    manifest = tmp_path / "out/_pack.json"
    text = manifest.read_text()
    manifest.unlink()
    if kind == "pipe":
        os.mkfifo(manifest)
    elif kind == "link":
        (tmp_path / "elsewhere").write_text(text)
        manifest.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        manifest.mkdir()
    else:
        manifest.write_text(text + " " * (20 << 20))
    shown = subprocess.run([CLI, "inspect", tmp_path / "out", "--json", "--no-cache"], check=True, capture_output=True, timeout=20)
    pack = json.loads(shown.stdout)["pack"]
    assert pack["shuffle"] == "full" and "source_root" not in pack


def test_where_the_source_lies_decides_no_byte_and_no_resuming(tmp_path):
    src = write(floats(200_000), tmp_path / "src", row_group_size=5_000)
    fb.pack(fb.open(src), tmp_path / "whole", batch=50)
    unfinished(fb.open(src), tmp_path / "out", batch=50)
    src.rename(tmp_path / "moved")
    done = fb.pack(fb.open(tmp_path / "moved"), tmp_path / "out", batch=50)
    assert done.resumed
    a, b = contents(tmp_path / "whole"), contents(tmp_path / "out")
    assert json.loads(a.pop("_pack.json"))["source_root"] == str(src) and json.loads(b.pop("_pack.json"))["source_root"] == str(tmp_path / "moved")
    assert a == b


def test_a_manifest_is_json_whatever_the_source_is_called(tmp_path):
    folder = os.fsencode(tmp_path / "bad") + b"\xff \xc3\xa9"
    os.mkdir(folder)
    pq.write_table(pa.table({"x": range(10)}), tmp_path / "a.parquet")  # pyarrow wants a name of characters
    os.rename(tmp_path / "a.parquet", folder + b"/a.parquet")
    fb.pack(os.fsdecode(folder), tmp_path / "out")
    assert json.loads((tmp_path / "out/_pack.json").read_text("utf-8"))["source_root"].endswith("bad\\xff é")


@pytest.mark.parametrize("columns", [8, 64])
@pytest.mark.parametrize("files", [1, 100])
@pytest.mark.parametrize("format", ["arrow", "parquet", "hdf5"])
def test_a_dry_run_expects_the_size_within_5_percent(tmp_path, format, files, columns):
    """Metadata among it: schemas, footers, page indexes, attributes."""
    if format == "hdf5":
        pytest.importorskip("h5py")
    n, rng = 20_000, np.random.default_rng(4)
    table = floats(n, columns=columns - 3).append_column("k", pa.array(rng.integers(0, 50, n), pa.int32()))
    table = table.append_column("s", pa.array([f"station {i}" for i in rng.integers(0, 1000, n)]))
    source = write(table, tmp_path / "src", row_group_size=5_000)
    options = {"format": format, "rows_per_file": n // files, "batch": 2_000 if files == 1 else 60}
    expected = fb.pack(source, tmp_path / "out", dry_run=True, **options).expected_bytes
    written = fb.pack(source, tmp_path / "out", **options).written_bytes
    assert abs(expected / written - 1) < 0.05


# ---- samples of a pack ----


@pytest.mark.parametrize("format", ["arrow", "parquet", "hdf5"])
def test_windows_of_a_shuffled_pack_are_refused_and_groups_are_doubted(tmp_path, format):
    table = pa.table({"site": np.repeat(np.arange(4), 50), "t": np.tile(np.arange(50), 4)})
    for shuffle in "full", "none":
        fb.pack(table, tmp_path / shuffle, by="site", shuffle=shuffle, format=format)
    mixed, kept = fb.open(tmp_path / "full"), fb.open(tmp_path / "none")
    for options in {}, {"by": "site"}, {"drop_missing": "t"}:
        with pytest.raises(ValueError, match="'part-0-00000.*' is a shuffled pack .*--shuffle none, and --by"):
            mixed.windows(4, **options)
    with pytest.warns(UserWarning, match="without a step, windows are of rows whose times rise by chance"):
        mixed.windows(2, by="site", time="t")
    (note,) = mixed.groups("site").notes
    assert "the rows of a group are in another order than in its source" in note
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kept.groups("site").notes == [] == kept.windows(4, by="site").notes == mixed.windows(2, time="t", step=1).notes
        assert len(mixed.windows(1)) == 200  # a row, which has none to follow
    with kept.windows(4, by="site").loader({"t": "t"}, batch_size=8) as loader:
        assert all((np.diff(np.asarray(batch["t"])) == 1).all() for batch in loader)


def test_a_shuffle_that_says_nothing_is_none(tmp_path):
    h5py = pytest.importorskip("h5py")
    for name, value in ("none", h5py.Empty(h5py.string_dtype())), ("list", np.empty(0, h5py.string_dtype())), ("two", ["full", "full"]):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["x"] = np.arange(8)
            file.attrs.create("forebay.shuffle", value, dtype=h5py.string_dtype())
            file.attrs.create("forebay.source_contents", value, dtype=h5py.string_dtype())
        with fb.open(tmp_path / f"{name}.h5") as ds:
            assert len(ds.windows(4)) == 5
        if CLI.exists():
            subprocess.run([CLI, "inspect", tmp_path / f"{name}.h5"], check=True, capture_output=True)


# ---- metadata of Parquet ----


PACK_SMALL_GROUPS = """
import resource, sys
import forebay as fb
begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = fb.pack(sys.argv[1], sys.argv[2], format="parquet", memory="16MiB", threads=1, batch=1, verify=True)
print(done.files, done.rows_per_file, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun) >> 10)
"""


def test_row_groups_of_a_row_take_no_more_memory_than_stated(tmp_path):
    """Half a million column chunks: what the footer says of one takes 200 bytes until its file is written."""
    table = pa.table({f"x{c}": np.arange(9_000, dtype="f4") for c in range(60)})
    src = write(table, tmp_path / "src")
    command = [sys.executable, "-c", PACK_SMALL_GROUPS, src, tmp_path / "out"]
    files, rows_per_file, mib = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert (files, rows_per_file) == (17, 546) and mib <= 16 + 64
    with pytest.raises(fb.BudgetError, match="a file of 9000 row groups, of 60 columns each: .*; raise batch, lower rows_per_file, or raise memory"):
        fb.pack(src, tmp_path / "large", format="parquet", memory="16MiB", batch=1, rows_per_file=9_000)
    assert not (tmp_path / "large").exists()
