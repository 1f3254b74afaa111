"""The forebay command: exact output on the golden files, values against pyarrow, exit codes, terminals, pipes, Ctrl-C.

Expected texts lie in tests/cli/expected; durations and other figures of the clock are masked. After a change on purpose:
    FOREBAY_CLI_UPDATE=1 python -m pytest tests/cli && git diff tests/cli/expected
"""

import base64
import datetime
import decimal
import gzip
import json
import math
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))
from refusals import HOSTILE, SHOWN, safe  # noqa: E402

GOLDEN = ROOT / "tests/golden/parquet"
EXPECTED = pathlib.Path(__file__).parent / "expected"
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
UPDATE = os.environ.get("FOREBAY_CLI_UPDATE") == "1"

pytestmark = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")


@pytest.fixture
def env(tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FOREBAY_CACHE": str(tmp_path / "cache")}


def run(args, env, cwd=GOLDEN, **options):
    return subprocess.run([CLI, *map(str, args)], env=env, cwd=cwd, capture_output=True, text=True, timeout=60, **options)


def run_json(args, env, **options):
    result = run([*args, "--json"], env, **options)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def mask(text):
    """What the clock and the machine say becomes <time>, <n>."""
    text = re.sub(r"\b\d+(\.\d+)? (µs|ms|s|min|h)\b", "<time>", text)
    return re.sub(r"(version |forebay )\d+\.\d+\.\d+", r"\1<version>", text)


EXACT = {
    "help": ["--help"],
    "version": ["--version"],
    "no_command": [],
    "unknown_command": ["inspct", "x"],
    "inspect_help": ["inspect", "--help"],
    "head_help": ["help", "head"],
    "bench_help": ["bench", "-h"],
    "plan_help": ["plan", "--help"],
    "plan_missing": ["plan", "nothing_here.yaml"],
    "plan_two": ["plan", "a.yaml", "b.yaml"],
    "unknown_option": ["inspect", "--colums", "x", "y"],
    "unknown_letter": ["head", "-q", "x"],
    "missing_value": ["head", "-n"],
    "bad_count": ["head", "-n", "ten", "x"],
    "bad_choice": ["bench", "--shuffle", "well", "x"],
    "bad_size": ["bench", "--memory", "lots", "x"],
    "bad_superbatch": ["bench", "--superbatch", "many", "every_type.parquet"],
    "no_path": ["inspect"],
    "missing_file": ["inspect", "nothing_here.parquet"],
    "missing_glob": ["head", "nothing_*.parquet"],
    "inspect_every_type": ["inspect", "every_type.parquet"],
    "inspect_nested": ["inspect", "nested_v1.parquet"],
    "inspect_nested_below": ["inspect", "nested_v2.parquet", "--columns", "pulses,tags.v*"],
    "inspect_lists": ["inspect", "flat_v1_two_groups.parquet", "--files", "--blocks", "--chunks"],
    "inspect_no_rows": ["inspect", "no_rows.parquet"],
    "inspect_no_match": ["inspect", "every_type.parquet", "-c", "zz*"],
    "head_every_type": ["head", "every_type.parquet"],
    "head_every_type_wide": ["head", "every_type.parquet", "--wide"],
    "head_narrow": ["head", "every_type.parquet", "-w", "60"],
    "head_nested": ["head", "nested_v1.parquet", "-n", "4"],
    "head_columns": ["head", "flat_v1_two_groups.parquet", "--columns=x,na*", "-n", "12"],
    "head_no_rows": ["head", "no_rows.parquet"],
    "head_zero": ["head", "flat_v1_two_groups.parquet", "-n", "0"],
    "head_int96": ["head", "int96.parquet"],
    "head_no_match": ["head", "every_type.parquet", "-c", "zz"],
    "bench_no_match": ["bench", "every_type.parquet", "-c", "zz"],
    "mmap_needs_immutable": ["inspect", "every_type.parquet", "--io", "mmap"],
}


@pytest.mark.parametrize("name", EXACT)
def test_output_is_exactly_as_expected(name, env, tmp_path):
    here = tmp_path / "here"  # messages name neighbours: no others than these
    here.mkdir()
    for stem in ["every_type", "flat_v1_two_groups", "int96", "nested_v1", "nested_v2", "no_rows"]:
        shutil.copy(GOLDEN / f"{stem}.parquet", here)
    result = run(EXACT[name], env, cwd=here)
    text = f"$ forebay {' '.join(EXACT[name])}\n{mask(result.stdout)}"
    if result.stderr:
        text += f"--- stderr\n{mask(result.stderr)}"
    text += f"--- exit code {result.returncode}\n"
    path = EXPECTED / f"{name}.txt"
    if UPDATE:
        EXPECTED.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_every_expected_text_belongs_to_a_case():
    assert {p.stem for p in EXPECTED.glob("*.txt")} == set(EXACT)


# --- values ------------------------------------------------------------------------------------------------------------------


def plain(value, kind):
    """A pyarrow value the way --json writes it."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [{"key": plain(k, kind.key_type), "value": plain(v, kind.item_type)} for k, v in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain(v, kind.value_type) for v in value]
    if pa.types.is_struct(kind):
        return {f.name: plain(value[f.name], f.type) for f in kind}
    if pa.types.is_floating(kind):
        value = float(value)
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, decimal.Decimal):
        return str(value)
    return value


def moment(text):
    """Nanoseconds since 1970 of ISO text, exactly; years beyond datetime's are left to the library's own tests."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)(?:\.(\d+))?Z?)?", text)
    day, clock, fraction = match.groups()
    whole = datetime.datetime.fromisoformat(f"{day}T{clock or '00:00:00'}") - datetime.datetime(1970, 1, 1)
    return whole // datetime.timedelta(seconds=1) * 10**9 + int((fraction or "0").ljust(9, "0"))


def nanoseconds_of_day(text):
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 10**9 + int((fraction or "0").ljust(9, "0"))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.parquet")), ids=lambda p: p.stem)
def test_head_as_json_equals_pyarrow(path, env):
    table = pq.read_table(path)
    got = run_json(["head", path, "-n", table.num_rows + 1], env)
    assert got["total_rows"] == got["shown_rows"] == table.num_rows
    assert [c["name"] for c in got["columns"]] == table.column_names
    for name, kind, column in zip(table.column_names, table.schema.types, table.columns):
        values = [row[name] for row in got["rows"]]
        if pa.types.is_timestamp(kind):
            want = column.cast(pa.timestamp("ns")).cast(pa.int64()).to_pylist()
            values = [None if v is None else moment(v) for v in values]
        elif pa.types.is_date(kind):
            want = [None if v is None else v.isoformat() for v in column.to_pylist()]
        elif pa.types.is_time(kind):
            want = column.cast(pa.time64("ns")).cast(pa.int64()).to_pylist()
            values = [None if v is None else nanoseconds_of_day(v) for v in values]
        else:
            want = [plain(v, kind) for v in column.to_pylist()]
        if pa.types.is_uint64(kind):
            want = [str(v) if v is not None and v >= 2**63 else v for v in want]
        assert values == want, name


def test_inspect_as_json_has_exact_sizes_of_every_chunk(env):
    path = GOLDEN / "flat_v1_two_groups.parquet"
    meta = pq.ParquetFile(path).metadata
    got = run_json(["inspect", path, "--files", "--blocks", "--chunks"], env)
    assert (got["rows"], got["files"], got["row_groups"]) == (meta.num_rows, 1, meta.num_row_groups)
    assert got["file_list"][0]["size_bytes"] == path.stat().st_size
    assert sum(b["row_end"] - b["row_begin"] for b in got["block_list"]) == meta.num_rows
    for g in range(meta.num_row_groups):
        for c in range(meta.num_columns):
            chunk = meta.row_group(g).column(c)
            mine = [k for k in got["chunk_list"] if k["row_group"] == g and k["column"] == chunk.path_in_schema]
            assert len(mine) == 1
            assert mine[0]["compressed_bytes"] == chunk.total_compressed_size
            assert mine[0]["uncompressed_bytes"] == chunk.total_uncompressed_size
            assert mine[0]["values"] == chunk.num_values
            assert mine[0]["codec"].upper() == chunk.compression
    for column in got["columns"]:
        chunks = [k for k in got["chunk_list"] if k["column"] == column["path"]]
        assert column["compressed_bytes"] == sum(k["compressed_bytes"] for k in chunks)


def test_hostile_text_reaches_neither_the_terminal_nor_json_raw(tmp_path, env):
    text = ["\x1b[2Jcleared", "tab\tnew\nline", "\u0085c1", 'quote"', "wide 水 ok"]
    pq.write_table(pa.table({"a\x1b[31m": text, "l": [[t] for t in text]}), tmp_path / "x.parquet")
    out = run(["head", tmp_path / "x.parquet"], env).stdout
    assert "\x1b" not in out and "\u0085" not in out
    assert r"\x1b[2Jcleared" in out and r"tab\tnew\nline" in out
    assert "\x1b" not in run(["inspect", tmp_path / "x.parquet", "--chunks"], env).stdout
    got = run_json(["head", tmp_path / "x.parquet"], env)
    assert [row["l"][0] for row in got["rows"]] == text


def test_columns_of_a_table_stay_aligned_with_wide_characters(tmp_path, env):
    pq.write_table(pa.table({"名前": ["水", "ab", "é"], "n": [1, 22, 333]}), tmp_path / "x.parquet")
    lines = run(["head", tmp_path / "x.parquet"], env).stdout.splitlines()[1:]
    import unicodedata

    widths = {sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line) for line in lines}
    assert len(widths) == 1, lines


# --- bench ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def basins(tmp_path):
    for i in range(4):
        table = pa.table({"a": [float(i * 1000 + k) for k in range(1000)], "b": list(range(1000)), "name": ["x"] * 1000,
                          "t": pa.array(range(1000), pa.timestamp("us"))})
        pq.write_table(table, tmp_path / f"b{i}.parquet")
    return tmp_path


def test_bench_delivers_one_epoch_by_default(basins, env):
    got = run_json(["bench", basins, "--batch-size", 300, "--threads", 2, "--memory", "64MiB"], env)
    assert (got["samples"], got["epochs"], got["batches"]) == (4000, 1, 14)
    assert got["outputs"] == [{"name": "x", "dtype": "float32", "layout": "dense", "shape": [300, 2]}]
    assert got["left_out_columns"] == 2
    report = got["report"]
    assert report["bytes_delivered"] == 4000 * 2 * 4 and report["schema"] == 1 and report["epochs"][0]["samples"] == 4000
    assert report["budget_bytes"] == 64 << 20 and report["budget_peak_bytes"] <= 64 << 20
    assert got["samples_per_second"] == pytest.approx(got["samples"] / got["seconds"], rel=1e-3)
    assert got["batch_seconds"]["p50"] <= got["batch_seconds"]["p95"] <= got["batch_seconds"]["max"]
    assert got["options"]["threads"] == 2 and report["verdict"]


def test_benchs_report_has_the_keys_of_pythons(basins, env):
    fb = pytest.importorskip("forebay")
    with fb.open(str(basins)).loader(["a"], batch_size=300, framework="numpy") as loader:
        for _ in loader:
            pass
        expected = json.loads(loader.report().to_json())
    got = run_json(["bench", basins], env)["report"]
    assert set(got) == set(expected) and set(got["epochs"][0]) == set(expected["epochs"][0])
    assert {name: type(value) for name, value in got.items()} == {name: type(value) for name, value in expected.items()}
    assert fb.Report.from_dict(got).samples == 4000


def test_bench_counts_epochs_and_leaves_the_warm_up_out(basins, env):
    got = run_json(["bench", basins, "--epochs", 3, "--warmup", 2, "--shuffle", "none", "--dtype", "float64"], env)
    assert (got["samples"], got["epochs"]) == (12000, 3)
    assert got["outputs"][0]["dtype"] == "float64"


def test_bench_names_columns_of_other_types(basins, env):
    got = run_json(["bench", basins, "--columns", "b,name,t"], env)
    assert [o["name"] for o in got["outputs"]] == ["x", "name"]
    got = run_json(["bench", basins, "--separate", "--columns", "b,name"], env)
    assert [(o["name"], o["dtype"]) for o in got["outputs"]] == [("b", "int64"), ("name", "uint8")]


def test_bench_without_numbers_takes_what_there_is(tmp_path, env):
    pq.write_table(pa.table({"name": ["a", "bc"] * 50}), tmp_path / "x.parquet")
    assert [o["name"] for o in run_json(["bench", tmp_path / "x.parquet"], env)["outputs"]] == ["name"]


@pytest.mark.parametrize("superbatch, samples", [("2000", 2000), ("2blocks", 2000)])
def test_bench_takes_superbatches_as_samples_and_blocks(basins, env, superbatch, samples):
    got = run_json(["bench", basins, "--superbatch", superbatch], env)
    assert got["options"]["superbatch_samples"] == samples


def test_bench_stops_after_seconds(basins, env):
    started = time.monotonic()
    got = run_json(["bench", basins, "--seconds", "0.5", "--work", "2ms"], env)
    assert 0.4 < got["seconds"] < 5 and time.monotonic() - started < 20
    assert got["report"]["work_ns"] > 50_000_000 and len(got["report"]["epochs"]) >= got["epochs"]
    assert got["epochs"] > 1


def test_a_budget_is_a_share_of_what_is_free_or_all_of_the_data(basins, env):
    share, half = (run_json(["plan", basins, "--no-batch", "--memory", memory], env)["budget"]["bytes"] for memory in ("10%", "5%"))
    assert 1.6 * half < share < 2.4 * half
    everything = run_json(["plan", basins, "--no-batch", "--memory", "all"], env)["budget"]
    assert everything["minimum_bytes"] <= everything["bytes"] < 1 << 30
    report = run_json(["bench", basins, "--memory", "all"], env)["report"]
    assert report["budget_peak_bytes"] <= report["budget_bytes"] < 1 << 30
    assert run(["bench", basins, "--memory", "170%"], env).returncode == 2


def test_bench_refuses_a_budget_that_is_too_small_with_the_one_that_would_do(basins, env):
    result = run(["bench", basins, "--memory", "64KiB"], env)
    assert result.returncode == 1
    assert "budget" in result.stderr and "try:" in result.stderr
    assert result.stdout == ""


def test_bench_as_text_shows_rate_stages_and_verdict(basins, env):
    result = run(["bench", basins], env)
    assert result.returncode == 0 and result.stderr == ""
    for word in ["samples/s", "first batch after", "p50", "CPU", "peak RSS", "read", "decompress", "decode", "assemble", "waits"]:
        assert word in result.stdout, word
    assert "2 columns are no numbers and left out" in result.stdout


def test_bench_reads_again_what_cold_dropped(basins, env):
    got = run_json(["bench", basins, "--cold"], env)
    assert got["samples"] == 4000 and got["options"]["cold"] is True


def test_interrupted_bench_prints_what_it_has_and_exits_130(basins, env):
    process = subprocess.Popen([CLI, "bench", basins, "--seconds", "50", "--work", "1ms"], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "(interrupted)" in out and err == ""


# --- bad files -----------------------------------------------------------------------------------------------------------------


def bad_files(tmp_path):
    good = (GOLDEN / "flat_v1_two_groups.parquet").read_bytes()
    (tmp_path / "zero.parquet").write_bytes(b"")
    (tmp_path / "text.parquet").write_text("id,x\n1,2\n" * 100)
    (tmp_path / "cut.parquet").write_bytes(good[:-20])
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "fifo.parquet")
    return ["zero.parquet", "text.parquet", "cut.parquet", "empty", "fifo.parquet"]


@pytest.mark.parametrize("command", ["inspect", "head", "bench"])
def test_bad_files_are_exit_code_1_with_the_name_and_a_next_step(command, tmp_path, env):
    for name in bad_files(tmp_path):
        result = run([command, tmp_path / name], env)
        assert result.returncode == 1, (name, result.stdout)
        assert result.stdout == ""
        assert result.stderr.startswith("forebay: error: ") and name in result.stderr, result.stderr
        assert "\n  try: " in result.stderr


def test_damage_inside_a_page_is_reported_by_head_with_the_column(tmp_path, env):
    data = bytearray((GOLDEN / "flat_v1_two_groups.parquet").read_bytes())
    data[4:40] = b"\xff" * 36
    (tmp_path / "damaged.parquet").write_bytes(data)
    result = run(["head", tmp_path / "damaged.parquet"], env)
    assert result.returncode == 1
    assert "damaged.parquet" in result.stderr and "id" in result.stderr


# --- terminal, pipe ----------------------------------------------------------------------------------------------------------------


def run_on_terminal(args, env):
    """stdout and stderr on a pseudo-terminal 100 columns wide."""
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    process = subprocess.Popen([CLI, *map(str, args)], env=env, stdin=child, stdout=child, stderr=child, cwd=GOLDEN)
    os.close(child)
    out = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([parent], [], [], 0.2)
        if ready:
            try:
                block = os.read(parent, 65536)
            except OSError:  # the other end is closed
                break
            if not block:
                break
            out += block
    os.close(parent)
    assert process.wait(timeout=10) == 0, out
    return out.decode()


def test_a_terminal_gets_colours_and_its_width(env):
    out = run_on_terminal(["head", "every_type.parquet"], env | {"TERM": "xterm"})
    assert "\x1b[1m" in out
    bare = re.sub(r"\x1b\[[0-9;]*[mK]", "", out).replace("\r", "")
    assert max(len(line) for line in bare.splitlines()) <= 100


@pytest.mark.parametrize("more", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_no_colours_when_the_user_or_the_terminal_wants_none(env, more):
    assert "\x1b[1m" not in run_on_terminal(["inspect", "every_type.parquet"], env | more)


def test_progress_is_shown_on_a_terminal_only(basins, env):
    args = ["bench", basins, "--seconds", "0.6", "--work", "1ms"]
    assert "samples/s\r\x1b[K" in run_on_terminal(args, env | {"TERM": "xterm"})
    assert run(args, env | {"TERM": "xterm"}).stderr == ""


def test_a_closed_pipe_ends_it_quietly(env):
    shell = f"'{CLI}' head every_type.parquet --wide | head -n 1"
    result = subprocess.run(["bash", "-c", shell], env=env, cwd=GOLDEN, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stderr == ""


def test_patterns_and_several_paths_make_one_data_set(tmp_path, env):
    for region in ["north", "south"]:
        (tmp_path / region).mkdir()
        shutil.copy(GOLDEN / "flat_v1_two_groups.parquet", tmp_path / region / "b1.parquet")
    got = run_json(["head", tmp_path / "{region}" / "{gauge}.parquet", "-n", 60], env)
    assert got["total_rows"] == 60
    assert [got["rows"][i]["region"] for i in (0, 29, 30, 59)] == ["north", "north", "south", "south"]
    assert {row["gauge"] for row in got["rows"]} == {"b1"}
    got = run_json(["inspect", tmp_path / "south/b1.parquet", tmp_path / "north/b1.parquet", "--files"], env)
    assert got["files"] == 2 and "south" in got["file_list"][0]["path"]


def test_binary_columns_are_hex_in_json(tmp_path, env):
    value = base64.b64decode("AAH/fw==")
    pq.write_table(pa.table({"b": [value, None, b""]}), tmp_path / "x.parquet")
    assert [r["b"] for r in run_json(["head", tmp_path / "x.parquet"], env)["rows"]] == ["0001ff7f", None, ""]


def test_the_index_cache_is_where_it_was_asked_for(basins, env, tmp_path):
    where = tmp_path / "elsewhere"
    for path in basins.glob("*.parquet"):
        os.utime(path, (1.6e9, 1.6e9))  # files written a moment ago are not cached: their time stamps do not tell changes apart
    assert run_json(["inspect", basins, "--cache-dir", where], env)["open"]["cache_written"]
    assert list(where.rglob("*"))
    assert run_json(["inspect", basins, "--cache-dir", where], env)["open"]["files_from_cache"] == 4
    again = run_json(["inspect", basins, "--no-cache"], env)["open"]
    assert again["files_from_cache"] == 0 and not again["cache_written"]


# --- plan ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pipeline(basins):
    (basins / "p.yaml").write_text(
        "data: b*.parquet\nsplits: {train: 0.75, test: 0.25}\nmoments: {m: {columns: [a, b], split: train}}\n"
        "outputs:\n  x: {columns: [a, b], ops: [standardize: m], dtype: float32}\n  name: name\n  n: {columns: b, ops: {fill_missing: 0}}\n"
        "loader: {batch_size: 300, seed: 3, memory: 64MiB}\n"
    )
    return basins / "p.yaml"


def test_plan_says_what_a_pipeline_gives(pipeline, env):
    got = run_json(["plan", pipeline], env)
    assert (got["command"], got["split"], got["data"]["files"], got["data"]["rows"]) == ("plan", "train", 4, 4000)
    assert got["samples"] == {"kind": "rows", "count": 4000, "max_rows": 1, "splits": {"train": 3000, "test": 1000}}
    assert got["epoch"] == {"samples": 3000, "batches": 10, "batch_size": 300}
    assert got["order"]["seed"] == 3 and got["order"]["shuffle"] == "superbatch"
    assert got["budget"]["bytes"] == 64 << 20 and 0 < got["budget"]["minimum_bytes"] <= 64 << 20
    assert [(o["name"], o["dtype"], o["layout"], o["shape"]) for o in got["outputs"]] == [
        ("x", "float32", "dense", [300, 2]), ("name", "uint8", "text", [-1]), ("n", "int64", "dense", [300]),
    ]  # fmt: skip
    assert got["outputs"][0]["bytes"] == 300 * 2 * 4
    x = got["first_batch"][0]
    assert (x["output"], x["part"], x["missing"]) == ("x", "values", 0.0)
    assert abs(x["mean"]) < 0.5 and x["min"] < -1 < 1 < x["max"]


@pytest.fixture
def mixture(basins):
    (basins / "m.yaml").write_text(
        "mix:\n  sources: {many: 'b[0-2].parquet', one: {data: b3.parquet, outputs: {x: b}}}\n  weights: {many: 1, one: 3}\n  stop: 1000\n"
        "splits: {train: 0.75, test: 0.25}\noutputs: {x: {columns: b}}\nloader: {batch_size: 100, seed: 3, memory: 64MiB}\n"
    )
    return basins / "m.yaml"


def test_plan_shows_each_source_of_a_mixture(mixture, env):
    mixture.write_text(mixture.read_text().replace("splits: {train: 0.75, test: 0.25}", "splits: {train: 0.75, test: 0.25, by: samples}"))
    got = run_json(["plan", mixture], env)
    assert (got["split"], got["data"]["files"], got["data"]["rows"]) == ("train", 4, 4000) and "samples" not in got
    assert got["epoch"] == {"samples": 1000, "batches": 10, "batch_size": 100}
    many, one = got["sources"]
    assert {k: many[k] for k in ("name", "files", "rows", "samples", "left", "passes")} == {
        "name": "many", "files": 3, "rows": 3000, "samples": 250, "left": 2000, "passes": 1,
    }  # fmt: skip
    assert (one["samples"], one["left"], one["passes"], one["files_per_batch"]) == (750, 0, 1, 1)
    assert 20 < many["samples_per_batch"] < 30 and 2 < many["files_per_batch"] <= 3
    out = run(["plan", mixture], env).stdout
    assert re.search(r"^  source +files +rows +samples +share", out, re.M), out
    assert re.search(r"^  many +3 +3,000 +250 +25\.0 % +2,000 +1 ", out, re.M), out
    for command in (["advise", mixture], ["bench", mixture, "--compare", "--seconds", "1"]):
        result = run(command, env)
        assert result.returncode == 2 and "describes a mixture" in result.stderr, result.stderr
    result = run(["inspect", mixture], env)
    assert result.returncode == 2 and "m.yaml: the file describes a mixture: each of its sources has data of its own" in result.stderr


def test_sources_may_have_their_outputs_in_any_order(tmp_path, env):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("k,v\n1,2\n3,4\n")
    path = tmp_path / "mixed.yaml"
    path.write_text("mix: {sources: {a: {data: a.csv, outputs: {x: k, y: v}}, b: {data: b.csv, outputs: {y: v, x: k}}}}\nloader: {batch_size: 2}\n")
    assert run(["plan", path], env).returncode == 0
    path.write_text(path.read_text().replace("y: v, x", "z: v, x"))
    wrong = run(["plan", path], env)
    assert wrong.returncode != 0 and "output 'z'" in wrong.stderr, wrong.stderr


def test_options_of_data_files_are_refused_beside_a_pipeline_file(mixture, env):
    for option in (["--dtype", "uid=str"], ["--table", "x"], ["--axes", "2"], ["--stored-values"], ["--missing-columns", "fill"]):
        wrong = run(["plan", mixture, *option], env)
        assert wrong.returncode == 2 and f"{option[0]} is for data files" in wrong.stderr, wrong.stderr


def test_bench_measures_a_mixture(mixture, env):
    mixture.write_text(mixture.read_text().replace("splits: {train: 0.75, test: 0.25}\n", ""))
    got = run_json(["bench", mixture, "--batches", "30"], env)
    assert got["dataset"]["rows"] == 4000 and len(got["dataset"]["fingerprint"].split(",")) == 2
    many, one = got["report"]["sources"]
    assert (many["name"], one["name"]) == ("many", "one") and many["samples"] + one["samples"] == got["report"]["samples"]
    assert abs(3 * many["samples"] - one["samples"]) < 20
    result = run(["bench", mixture, "--set", "mix.weights.one=-1"], env)
    assert result.returncode != 0 and "mix: weights: a number from 0 on is expected" in result.stderr


def test_plan_without_a_cache_leaves_the_files_own_alone(pipeline, env):
    text = pipeline.read_text()
    pipeline.write_text(text.replace("data: b*.parquet", "data: {paths: b*.parquet, cache_dir: kept}"))
    for path in pipeline.parent.glob("b*.parquet"):
        os.utime(path, (1.6e9, 1.6e9))
    without = run_json(["plan", pipeline, "--no-cache"], env)
    assert not (pipeline.parent / "kept").exists()
    fresh = run_json(["plan", pipeline], env)
    assert list((pipeline.parent / "kept").glob("*.fbyindex"))
    known = run_json(["plan", pipeline], env)
    assert without["budget"]["minimum_bytes"] == fresh["budget"]["minimum_bytes"] == known["budget"]["minimum_bytes"]


def test_plan_prints_tables_and_takes_other_values(pipeline, env):
    out = run(["plan", pipeline, "--split", "test", "--set", "loader.batch_size=64", "--set", "outputs.x.columns=[b, a]"], env).stdout
    assert "4 files, 4,000 rows" in out and "4,000 rows: train 3,000, test 1,000" in out
    assert "test: 1,000 samples in 16 batches of 64" in out
    assert re.search(r"^  x +float32 +dense +\(64, 2\) +512 B$", out, re.M), out
    assert re.search(r"^  name +uint8 +text +\(ΣL,\) +", out, re.M), out
    assert re.search(r"^  name +offsets +\(65,\) +0 +32 +64$", out, re.M), out
    assert "first batch" not in run(["plan", pipeline, "--no-batch"], env).stdout


def test_plan_shows_the_steps_of_windows_and_what_covers_the_target(basins, env):
    pipeline = basins / "w.yaml"
    pipeline.write_text(
        "data: b*.parquet\nsamples: {windows: {input: 7, output: 3}}\noutputs:\n  x: {columns: [a, b], dtype: float32}\n  past: {columns: a, steps: [0, 7]}\n"
        "  y: {columns: b, steps: [7, 10]}\n  last: {columns: a, at: 9}\n  i: {from: sample_index}\nloader: {batch_size: 4}\n"
    )
    got = run_json(["plan", pipeline], env)
    assert {o["name"]: o.get("steps") for o in got["outputs"]} == {"x": [0, 10], "past": [0, 7], "y": [7, 10], "last": [9, 10], "i": None}
    assert len(got["notes"]) == 2
    assert got["notes"][0].startswith("output 'x' takes all 10 steps of a window, and with them those of 'b' that output 'y' asks for, steps 7 to 9 of 10: ")
    assert "steps: [0, 7]" in got["notes"][0] and "output 'last' asks for, step 9 of 10" in got["notes"][1]
    out = run(["plan", pipeline], env).stdout
    assert re.search(r"^  past +float64 +dense +\(4, 7\) +0 to 6 of 10 +224 B$", out, re.M), out
    assert re.search(r"^  last +float64 +dense +\(4,\) +9 of 10 +32 B$", out, re.M), out
    assert got["notes"][0] in out
    plain = run(["plan", pipeline, "--set", "outputs.x.steps=[0, 10]"], env).stdout
    assert "takes all" not in plain and run_json(["plan", basins / "b0.parquet"], env)["notes"] == []


def test_plan_names_an_optional_output_that_is_left_out(basins, env):
    pq.write_table(pa.table({"a": [1.0, 2.0]}), basins / "b9.parquet")
    pipeline = basins / "o.yaml"
    pipeline.write_text(
        "data: b*.parquet\noutputs:\n  x: a\n  y: {columns: b, optional: true}\n  labels: {columns: nowhere, optional: true}\nloader: {batch_size: 4}\n"
    )
    got = run_json(["plan", pipeline], env)
    assert [o["name"] for o in got["outputs"]] == ["x"]
    said = f"output 'y' is optional, and left out of all batches: column 'b' is missing in 1 of 5 files, such as '{basins}/b9.parquet'"
    assert len(got["notes"]) == 1 and got["notes"][0].startswith(said)
    assert f"note: {said}" in run(["plan", pipeline], env).stdout


@pytest.mark.parametrize("buckets", ["", ", bucket_samples: 40"])
def test_plan_says_how_much_is_padding(basins, env, buckets):
    lengths = np.tile([2, 2, 2, 12], 40)
    pq.write_table(pa.table({"k": np.repeat(np.arange(160), lengths), "v": np.arange(lengths.sum())}), basins / "g.parquet")
    pipeline = basins / "g.yaml"
    pipeline.write_text(
        f"data: g.parquet\nsamples: {{groups: k}}\noutputs: {{v: {{columns: v, padded: {{max_rows: 4}}}}}}\nloader: {{batch_size: 160, seed: 3{buckets}}}\n"
    )
    true = 1 - np.minimum(lengths, 4).mean() / 4  # a batch is all groups
    assert run_json(["plan", pipeline], env)["padding"] == pytest.approx(true, abs=1e-6)
    out = run(["plan", pipeline], env).stdout
    assert re.search(rf"^  padding     {100 * true:.1f} % of the rows of padded outputs$", out, re.M), out
    ragged = ["plan", pipeline, "--set", "outputs.v={columns: v}"]
    assert run_json(ragged, env)["padding"] is None and "  padding  " not in run(ragged, env).stdout


def test_plan_names_the_place_of_what_is_wrong(pipeline, env):
    text = pipeline.read_text()
    for old, new, code, message in [
        ("columns: b,", "colums: b,", 2, "p.yaml:7:7: output 'n': unknown key 'colums': did you mean 'columns'?"),
        ("name: name", "name: nam", 1, "p.yaml:6:3: output 'name'"),
        ("b*.parquet", "c*.parquet", 1, "p.yaml:1:7: data: "),
        ("batch_size: 300, ", "", 2, "p.yaml:8:9: loader: batch_size is missing"),
        ("memory: 64MiB", "memory: 1KiB", 1, "budget"),
        ("loader: {", "loader: [", 1, "no valid YAML"),
    ]:
        pipeline.write_text(text.replace(old, new, 1))
        result = run(["plan", pipeline], env)
        assert result.returncode == code, (old, result.stderr)
        assert message in result.stderr and result.stdout == "", result.stderr
    pipeline.write_text(text)
    assert "no split 'dev': there are train, test" in run(["plan", pipeline, "--split", "dev"], env).stderr
    assert "a value in place of the file's: loader: batch_size" in run(["plan", pipeline, "--set", "loader.batch_size=x"], env).stderr


def test_bench_measures_the_outputs_of_a_pipeline(pipeline, env):
    got = run_json(["bench", pipeline, "--epochs", 2], env)
    assert (got["pipeline"], got["split"], got["samples"], got["batches"], got["epochs"]) == (str(pipeline), "train", 6000, 20, 2)
    assert [(o["name"], o["dtype"], o["layout"], o["shape"]) for o in got["outputs"]] == [
        ("x", "float32", "dense", [300, 2]), ("name", "uint8", "text", [-1]), ("n", "int64", "dense", [300]),
    ]  # fmt: skip
    offsets = 2 * 10 * 301 * 8  # of the names, which are one byte each
    assert got["report"]["bytes_delivered"] == 6000 * (2 * 4 + 1 + 8) + offsets
    assert got["report"]["budget_bytes"] == 64 << 20 and got["options"]["seed"] == 3 and got["options"]["dtype"] is None
    assert got["left_out_columns"] == 0
    got = run_json(["bench", pipeline, "--split", "test", "--set", "outputs.n=a", "-b", 64, "--seed", 0, "--shuffle", "none", "--superbatch", "2blocks",
                    "--memory", "32MiB"], env)  # fmt: skip
    assert (got["split"], got["samples"], got["batches"]) == ("test", 1000, 16)
    assert got["options"]["batch_size"] == 64 and got["options"]["seed"] == 0 and got["options"]["shuffle"] == "none"
    assert got["outputs"][2]["dtype"] == "float64" and got["report"]["budget_bytes"] == 32 << 20
    out = run(["bench", pipeline], env).stdout
    assert "train: 3,000 in 10 batches an epoch" in out and "x float32(300, 2), name text(?), n int64(300)" in out
    assert re.search(r"^  transform +0 ", out, re.M), out


def test_bench_says_what_does_not_fit_a_pipeline(pipeline, basins, env):
    for args, code, message in [
        ([pipeline, "--columns", "a"], 2, "the outputs of a pipeline file are its own"),
        ([pipeline, "--dtype", "float64"], 2, "--dtype are of paths"),
        ([pipeline, "--split", "dev"], 2, "no split 'dev': there are train, test"),
        ([pipeline, "--set", "loader.batch_size=x"], 2, "a value in place of the file's: loader: batch_size"),
        ([pipeline, "--set", "outputs.n=nam"], 1, "p.yaml:7:3: output 'n': no column 'nam'"),
        ([pipeline, "--memory", "64KiB"], 1, "budget"),
        ([basins, "--split", "train"], 2, "--split and --set are of a pipeline file"),
    ]:
        result = run(["bench", *args], env)
        assert result.returncode == code and message in result.stderr and result.stdout == "", result.stderr


def test_other_commands_take_the_data_of_a_pipeline(pipeline, env):
    assert run_json(["inspect", pipeline], env)["rows"] == 4000
    assert run_json(["head", pipeline, "-n", 2], env)["rows"][1]["a"] == 1.0
    pipeline.write_text("data: {path: x}\n")
    assert "did you mean 'paths'?" in run(["inspect", pipeline], env).stderr


# ---- what files say does not reach the terminal as it is ----

VALUE = HOSTILE + "\n"


@pytest.fixture
def hostile(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    inner = pa.array([{VALUE: i} for i in range(8)], pa.struct([(VALUE, pa.int32())]))
    table = pa.table({VALUE: [VALUE] * 8, "x": pa.array(range(8), pa.float32()), "s": inner}, metadata={VALUE: VALUE})
    for i in range(2):
        pq.write_table(table, folder / f"{i}{HOSTILE}.parquet")
    shutil.copy(folder / f"0{HOSTILE}.parquet", os.fsencode(folder) + b"/2\xff.parquet")
    (folder / f"{HOSTILE}.txt").write_text("not data")
    return folder


@pytest.mark.parametrize("args", [["inspect", "--files", "--blocks", "--chunks"], ["head", "--wide"], ["bench", "--separate", "--seconds", "0.1"]],
                         ids=lambda a: a[0])
def test_names_and_values_of_files_are_escaped(hostile, env, args):
    result = run([*args, hostile], env)
    assert result.returncode == 0, result.stderr
    assert SHOWN + r"\n" in result.stdout
    assert safe(result.stdout) and safe(result.stderr)
    printed = run_json([*args, hostile], env)
    assert VALUE in strings_of(printed)  # JSON has the names themselves
    if args[0] == "inspect":
        assert printed["file_list"][2]["name"] == r"2\xff.parquet"


def strings_of(value):
    if isinstance(value, dict):
        return [s for k, v in value.items() for s in [k, *strings_of(v)]]
    if isinstance(value, list):
        return [s for v in value for s in strings_of(v)]
    return [value] if isinstance(value, str) else []


def test_messages_about_hostile_names_are_escaped(hostile, env, tmp_path):
    damaged = hostile / f"9{HOSTILE}.parquet"
    damaged.write_bytes(b"PAR1 nothing PAR1")
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text('data: {"\\e[31m": 1}\n')
    for args in (["inspect", damaged], ["head", hostile], ["bench", str(hostile) + "/\x1b[2J"], ["plan", pipeline], ["inspect", "--\x1b[2J", "x"], ["\x1b[2J"]):
        result = run(args, env)
        assert result.returncode in (1, 2)
        assert r"\x1b[" in result.stderr
        assert safe(result.stderr) and not result.stdout


# ---- what a training would load ----


@pytest.fixture
def arrays(tmp_path):
    with h5py.File(tmp_path / "train.h5", "w") as f:
        f["mel"] = np.arange(300, dtype="f4").reshape(50, 3, 2) % 6 + 1
        f["mask"] = np.ones((50, 3), "?")
        f["label"], f["weight"], f["name"] = np.arange(50), np.full(50, 0.5), np.full(50, b"n")
    return tmp_path / "train.h5"


def test_bench_loads_every_numeric_column_of_any_rank(arrays, env):
    result = run_json(["bench", arrays, "--batch-size", "10"], env)
    outputs = {o["name"]: (o["dtype"], o["layout"], o["shape"]) for o in result["outputs"]}
    assert outputs == {"x": ("float32", "dense", [10, 2]), "mel": ("float32", "dense", [10, 3, 2]), "mask": ("bool", "dense", [10, 3])}
    assert result["left_out_columns"] == 1
    lists = arrays.parent / "lists.parquet"
    pq.write_table(pa.table({"pulses": pa.array([[1.0] * (i % 3) for i in range(50)], pa.list_(pa.float32()))}), lists)
    assert [(o["name"], o["layout"]) for o in run_json(["bench", lists], env)["outputs"]] == [("pulses", "packed")]
    large = arrays.parent / "large.h5"
    with h5py.File(large, "w") as f:
        f["a"] = np.zeros((20, 1000, 200))
    assert run_json(["bench", large], env)["options"]["batch_size"] == 128  # of the 1,024 what takes 256 MiB


def test_plan_takes_data(arrays, env):
    plan = run_json(["plan", arrays, "--batch-size", "10"], env)
    assert plan["pipeline"] is None and plan["split"] is None
    assert plan["samples"] == {"kind": "rows", "count": 50, "max_rows": 1, "splits": {}} and plan["epoch"] == {"samples": 50, "batches": 5, "batch_size": 10}
    assert {o["name"]: o["shape"] for o in plan["outputs"]} == {"x": [10, 2], "mel": [10, 3, 2], "mask": [10, 3]}
    assert [t["max"] for t in plan["first_batch"] if t["output"] == "mel"] == [6.0]
    text = run(["plan", arrays, "--columns", "mel"], env)
    assert text.returncode == 0 and "mel" in text.stdout and "mask" not in text.stdout


@pytest.mark.parametrize(
    "content, message, next_step",
    [
        (b"PAR1\0\0", "p.yaml: byte 4: control characters are not allowed: this is no YAML, which is text", "docs/pipelines.md shows a pipeline file"),
        (b"a: [1, {\n", "no valid YAML", "mend or restore the file"),
        (b"hello\n", "a map of options is expected, not the text 'hello'", "docs/pipelines.md, which has every key"),
        (b"", "the file is empty", "mend or restore the file"),
        (b"data: {paths: train.h5}\noutputs: {x: {columns: [label]}}\nloader: {batch_size: 10, memory: 1}\n", "memory budget", "--set loader.memory=…"),
        (b"data: {paths: train.h5}\noutputs: {x: {columns: [name], dtype: float32}}\nloader: {batch_size: 10}\n", "output 'x': strings",
         "docs/pipelines.md, which has every key"),
    ],
)  # fmt: skip
def test_plan_says_what_is_wrong_of_a_pipeline_file(arrays, env, content, message, next_step):
    (arrays.parent / "p.yaml").write_bytes(content)
    result = run(["plan", arrays.parent / "p.yaml"], env)
    assert result.returncode in (1, 2) and result.stdout == ""
    assert message in result.stderr and next_step in result.stderr.split("  try: ")[1], result.stderr
    assert run(["plan", "--help"], env).stdout.count(re.search(r"--[a-z-]+|$", result.stderr.split("  try: ")[1])[0]) >= 1


@pytest.mark.parametrize(
    "data, more, message, wrong",
    [
        ("tagged", "", "tags (!…) are not used here", "column"),  # of YAML: there is no column to leave out
        ("rows.csv.gz", "", "UTF-16", "column"),
        ("broken.parquet", "", "broken.parquet", "at the place"),  # the pipeline file is as it should be
        ("rows.csv", "loader: {batch_size: 2, split: no}", "there is no split 'no'", "the key that is named"),
        ("rows.csv", "lookups: {t: {paths: side.csv, key: id}}\noutputs: {x: {lookup: t, on: id}}\nloader: {batch_size: 3}", "a default would stand in",
         "float64"),
    ],
)  # fmt: skip
def test_no_try_contradicts_the_cure_in_the_message(tmp_path, env, data, more, message, wrong):
    (tmp_path / "rows.csv").write_text("id,v\n1,2\n3,4\n")
    (tmp_path / "side.csv").write_text("id,w\n1,2\n")
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress("id,v\n1,2\n".encode("utf-16")))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + bytes(60) + b"PAR1")
    (tmp_path / "p.yaml").write_text(f"data: {{paths: {'!x a' if data == 'tagged' else data}}}\n{more or 'loader: {batch_size: 2}'}\n")
    result = run(["bench", tmp_path / "p.yaml", "--batches", 1], env)
    assert result.returncode in (1, 2) and message in result.stderr, result.stderr
    assert not any(wrong in advice for advice in re.findall(r"^  try: (.*)", result.stderr, re.MULTILINE)), result.stderr


def test_options_of_data_and_of_pipeline_files_are_told_apart(arrays, env):
    result = run(["plan", arrays, "--set", "loader.batch_size=2"], env)
    assert result.returncode == 2 and "are of a pipeline file, whose name ends in .yaml" in result.stderr
    (arrays.parent / "p.yaml").write_text("data: {paths: train.h5}\nloader: {batch_size: 10}\n")
    result = run(["plan", arrays.parent / "p.yaml", "--batch-size", "2"], env)
    assert result.returncode == 2 and "--set loader.batch_size=64" in result.stderr
