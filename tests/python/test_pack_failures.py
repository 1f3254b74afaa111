"""fb.pack where something fails: full disks, targets that cannot be written, sources that change or are damaged. Errors say what to do, and
nothing gets a final name."""

import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from pack_cases import floats, killed_until_done, read, write

FORMATS = ["arrow", "parquet", "hdf5"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
needs_cli = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")
MOUNTS = subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0 if shutil.which("unshare") else False
needs_mounts = pytest.mark.skipif(not MOUNTS, reason="no mounts of our own: user namespaces are off")


def pack(source, to, *options, **run):
    command = [CLI, "pack", source, "--to", to, "--no-cache", "--memory", "16MiB", "--threads", "1", *options]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **run)


def assert_nothing_final(folder):
    assert [p.name for p in folder.iterdir()] in ([], [".forebay-pack"])
    assert not list(folder.glob(".forebay-pack/*.new"))


# ---- full disks ----


def limited(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY)), "restore_signals": False}


@needs_cli
@pytest.mark.parametrize("where, limit", [("scatter-", 1 << 20), ("part-", 8 << 20)])
def test_a_file_that_may_not_grow_is_said_in_either_pass(tmp_path, where, limit):
    write(floats(300_000), tmp_path / "src", row_group_size=5_000)  # 12 MB, in scatter files of at most 4 MiB
    result = pack(tmp_path / "src", tmp_path / "out", **limited(limit))
    assert result.returncode == 1
    assert "cannot write" in result.stderr and f"/{where}" in result.stderr and "too large" in result.stderr
    assert "try: " in result.stderr and "ulimit -f" in result.stderr
    assert_nothing_final(tmp_path / "out")
    assert bool(list((tmp_path / "out/.forebay-pack").glob("scatter-*"))) == (where == "part-")
    assert pack(tmp_path / "src", tmp_path / "out").returncode == 0
    assert len(read(tmp_path / "out")) == 300_000


def mounted(script, *arguments):
    return subprocess.run(["unshare", "-rm", "sh", "-ec", script, "sh", *map(str, arguments)], capture_output=True, text=True)


@needs_cli
@needs_mounts
@pytest.mark.parametrize("megabytes, where, format", [(6, "scatter-", "arrow"), (18, "part-", "arrow"), (18, "part-", "parquet"), (18, "part-", "hdf5")])
def test_a_full_disk_is_said_in_either_pass(tmp_path, megabytes, where, format):
    write(floats(300_000), tmp_path / "src", row_group_size=5_000)
    (tmp_path / "disk").mkdir()
    script = f"""mount -t tmpfs -o size={megabytes}m tmpfs "$3"
        "$1" pack "$2" --to "$3/out" --no-cache --memory 16MiB --threads 1 --format "$4" || echo "returned $?"
        find "$3/out" -type f"""
    result = mounted(script, CLI, tmp_path / "src", tmp_path / "disk", format)
    assert "returned 1" in result.stdout, result.stderr
    assert "No space left" in result.stderr and f"/{where}" in result.stderr and "make room on that disk" in result.stderr
    assert f"MiB of {megabytes} MiB are free on that disk)" in result.stderr and "libhdf5" not in result.stderr
    left = [line.split("/disk/out/")[1] for line in result.stdout.splitlines() if "/disk/out/" in line]
    assert left and all(name.startswith(".forebay-pack/") and not name.endswith(".new") for name in left)


# ---- targets that cannot be written ----


@needs_cli
@needs_mounts
@pytest.mark.parametrize("format", FORMATS)
def test_a_read_only_file_system_is_said(tmp_path, format):
    write(floats(100), tmp_path / "src")
    (tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o ro tmpfs "$3"; "$1" pack "$2" --to "$3/out" --no-cache --format "$4"'
    result = mounted(script, CLI, tmp_path / "src", tmp_path / "disk", format)
    assert result.returncode == 1
    assert "disk/out'" in result.stderr and "Read-only file system" in result.stderr and "not mounted read-only" in result.stderr


@needs_cli
def test_a_folder_of_somebody_elses_is_said():
    """By a user who may do less than root."""
    user = {} if os.geteuid() else {"user": 65534, "group": 65534, "extra_groups": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        write(floats(100), folder / "src")
        (folder / "theirs").mkdir()
        (folder / "theirs").chmod(0o555)
        try:
            result = pack(folder / "src", folder / "theirs/out", **user)
        except PermissionError:
            pytest.skip("another user may not run the command where it was built")
        assert result.returncode == 1
        assert "theirs/out'" in result.stderr and "Permission denied" in result.stderr and "may read the files, and write to the folder" in result.stderr
        assert not list((folder / "theirs").iterdir())


# ---- sources that change, or are damaged ----


@pytest.mark.parametrize("format", FORMATS)
def test_what_another_pack_or_anyone_else_has_written_is_left_alone(tmp_path, format):
    src = write(floats(100), tmp_path / "src")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/part-00000.arrow").write_text("mine")
    fb.pack(src, tmp_path / "done", format=format)
    before = {path: path.read_bytes() for name in ("notes", "done") for path in (tmp_path / name).iterdir()}
    with pytest.raises(ValueError, match="not empty: it holds 'part-00000.arrow'"):
        fb.pack(src, tmp_path / "notes", format=format)
    with pytest.raises(ValueError, match="holds a finished pack"):
        fb.pack(src, tmp_path / "done", format=format)
    assert {path: path.read_bytes() for name in ("notes", "done") for path in (tmp_path / name).iterdir()} == before


@pytest.mark.parametrize("phase, format", [("scattering", "arrow"), *(("verifying", format) for format in FORMATS)])
def test_a_source_that_changes_meanwhile_is_named(tmp_path, phase, format):
    src = write(floats(300_000), tmp_path / "src", row_group_size=2_000)
    ds = fb.open(src)
    seen = []

    def change(done, total, what):
        if what == phase and phase not in seen:
            os.utime(src / "2.arrow", (1, 1))
        seen.append(what)

    with pytest.raises(fb.ChangedError, match="2.arrow"):
        fb.pack(ds, tmp_path / "out", progress=change, verify=True, memory="16MiB", threads=1, format=format)
    assert seen[-1] == phase
    assert_nothing_final(tmp_path / "out")
    with pytest.raises(fb.ChangedError, match="of a source that has changed"):
        fb.pack(fb.open(src), tmp_path / "out", verify=True, format=format)


@needs_cli
@pytest.mark.parametrize("shuffle", ["full", "none"])
@pytest.mark.parametrize("format", ["arrow", "parquet"])
@pytest.mark.parametrize("into", FORMATS)
def test_one_damaged_file_among_many_is_named(tmp_path, shuffle, format, into):
    (tmp_path / "src").mkdir()
    table = pa.table({"i": range(20_000), "s": [f"text {i}" for i in range(20_000)]})
    for k in range(20):
        path, part = tmp_path / f"src/{k:02}.{format}", table.slice(1000 * k, 1000)
        if format == "arrow":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, part.schema) as writer:
                writer.write_table(part.combine_chunks())
        else:
            pq.write_table(part, path, compression="zstd", use_dictionary=False)
    data = bytearray((tmp_path / f"src/13.{format}").read_bytes())
    half = len(data) // 2  # of one, offsets of texts; of the other, a page
    data[half : half + 64] = b"\xff" * 64
    at = data.find((40).to_bytes(4, "little")) if format == "arrow" else half
    data[at : at + 4] = b"\xff" * 4
    (tmp_path / f"src/13.{format}").write_bytes(data)
    result = pack(tmp_path / "src", tmp_path / "out", "--shuffle", shuffle, "--rows-per-file", "1000", "--format", into)
    assert result.returncode == 1
    assert f"13.{format}" in result.stderr and "try: " in result.stderr and "leave it out for now" in result.stderr
    assert_nothing_final(tmp_path / "out")
    with pytest.raises(fb.FormatError, match=f"13.{format}"):
        fb.pack(tmp_path / "src", tmp_path / "other", shuffle=shuffle, format=into)


# ---- kills ----


@needs_cli
@pytest.mark.parametrize("by", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_killed_at_random_moments_goes_on_to_the_same_bytes(tmp_path, format, by):
    table = floats(100_000)
    table = table.append_column("region", pa.array([("north", "a b", "Zürich", "")[i * i % 7 % 4] for i in range(len(table))]))
    source = write(table, tmp_path / "src", row_group_size=5_000)
    key = ["--by", "region"] if by else []
    command = [CLI, "pack", source, "--format", format, "--rows-per-file", "4000", "--memory", "16MiB", "--seed", "2", *key, "--to"]
    rng = random.Random(5 + by)
    done, whole = killed_until_done(command, tmp_path / "out", [rng.uniform(0.05, 0.9) for _ in range(20)])
    assert done == whole
