"""The forebay command: exact output on the golden files, values against pyarrow, exit codes, terminals, pipes, Ctrl-C.

Expected texts lie in tests/cli/expected; durations and other figures of the clock are masked. After a change on purpose:
    FOREBAY_CLI_UPDATE=1 python -m pytest tests/cli && git diff tests/cli/expected
"""

import base64
import datetime
import decimal
import math
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import CLI, GOLDEN, run, run_json
from refusals import HOSTILE, SHOWN, safe

EXPECTED = pathlib.Path(__file__).parent / "expected"
UPDATE = os.environ.get("FOREBAY_CLI_UPDATE") == "1"

pytestmark = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")


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


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_the_folder_of_a_pack_is_escaped(env, tmp_path, more):
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "x.parquet")
    result = run(["pack", tmp_path / "x.parquet", "--to", tmp_path / "\x1b[2Jout", *more], env)
    assert result.returncode == 0 and r"\x1b[2Jout" in result.stdout and safe(result.stdout + result.stderr)
