"""Damaged HDF5 files: an error that names the file, or values; never a crash, a hang, or memory without bound.

Each file is damaged and read in one fresh process under limits of time and memory, many times over.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

import forebay as fb
from real_data import DATA

np = pytest.importorskip("numpy")
h5py = pytest.importorskip("h5py")
pytest.importorskip("hdf5plugin")

import hdf5_files as files  # noqa: E402

REAL = [
    DATA / "acoustic" / "prodml_fbe_1.h5", DATA / "hydrology" / "ngen_gauge_01073000_forcing.nc", DATA / "hydrology" / "rapid_qout_sandbox.nc4",
]  # fmt: skip

# Opens, looks at and reads argv[1] after each damage; prints one line per damage. Never fails by itself.
READER = """
import json, random, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import forebay as fb, numpy as np

source, target, kind, seed, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
raw = open(source, "rb").read()
rng = random.Random(seed)
# Most of a file is data; most of what can go wrong is where it is not: near the signatures of structures, and at the beginning.
structures = list(range(min(len(raw), 800)))
for name in b"OHDR OCHK TREE SNOD HEAP GCOL FRHP FHIB FHDB BTHD BTLF BTIN FAHD FADB EAHD EAIB EADB EASB".split():
    at = raw.find(name)
    while at >= 0:
        structures += range(at, min(at + 120, len(raw)))
        at = raw.find(name, at + 1)
wrong = []

def attempt(what, action):
    try:
        action()
        return "values"
    except (fb.Error, OSError) as error:
        if target not in str(error) and target.rsplit("/", 1)[1] not in str(error):
            wrong.append(f"{what}: the message names no file: {error!r}")
        return type(error).__name__
    except Exception as error:
        wrong.append(f"{what}: {error!r}")
        return type(error).__name__

def look(ds):
    return ds.contents(), ds.notes, repr(ds)

if kind == "cut":
    step = max(1024, len(raw) // count // 1024 * 1024)
    damages = [("cut", n) for n in range(0, len(raw), step)]
else:
    damages = [("flip", i) for i in range(count)]
outcomes = {}
for what, n in damages:
    if what == "cut":
        data = raw[:n]
        label = f"cut at {n}"
    else:
        data = bytearray(raw)
        label = f"seed {seed} flip {n}:"
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.choice(structures)
            data[at] ^= rng.randrange(1, 256)
            label += f" {at}"
    with open(target, "wb") as file:
        file.write(data)
    print("try", label, flush=True)
    opened = []
    outcome = attempt(label, lambda: opened.append(fb.open(target, cache_dir="", verify_crc=True)))
    for ds in opened:
        outcome += "+" + attempt(label, lambda: look(ds))
        outcome += "+" + attempt(label, lambda: ds.read())
        for path in ("/hits", "/records"):  # lists in lists: no tensors
            if path[1:] in ds.columns:
                outcome += "+" + attempt(label, lambda: ds.read(path))
        ds.close()
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
with open("/proc/self/status") as status:  # ru_maxrss is not less than that of the process which started this one
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print("done", json.dumps({"outcomes": outcomes, "wrong": wrong[:3], "n_wrong": len(wrong), "peak": peak}))
"""


def damage(tmp_path, source, kind, seed, count, timeout=60):
    """Runs READER; returns what it says at the end."""
    import json
    import sys

    script = tmp_path / "reader.py"
    script.write_text(READER)
    target = tmp_path / f"damaged{pathlib.Path(source).suffix}"
    arguments = [sys.executable, str(script), str(source), str(target), kind, str(seed), str(count)]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        lines = (error.stdout or b"").decode().splitlines()
        raise AssertionError(f"a hang, or much too slow, after {len(lines)} tries; the last: {lines[-1:]}") from None
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1].startswith("done "), f"exit {done.returncode} at {lines[-1:]}: {done.stderr[-2000:]}"
    result = json.loads(lines[-1][5:])
    assert not result["wrong"], f"{result['n_wrong']} times: {result['wrong']}"
    return result


def varied(path, libver):
    """A small file with every structure: all chunk indexes, filters, dense groups and attributes, heaps, strings, lists, compounds."""
    with files.new_file(path, libver) as file:
        seed = 0
        for chunk, maxshape in (((8, 2), None), ((40, 3), None), ((8, 2), (None, 3)), ((8, 2), (None, None))):
            for name in files.SOME_FILTERS:
                if name.startswith("szip") and files.NO_SZIP:
                    continue
                seed += 1
                made = files.create(file, f"/n{seed}/{name}", np.dtype("<f4"), (40, 3), maxshape, files.properties(chunk=chunk, filters=files.FILTERS[name]))
                made[...] = files.numbers("<f4", (40, 3), seed)
        file["contiguous"] = np.arange(40)
        files.create(file, "/compact", np.dtype("<f4"), (40,), None, files.properties(compact=True))[...] = np.arange(40)
        file["text"] = np.array([f"text {i}" for i in range(40)], object)
        lists = np.empty(40, object)
        lists[:] = [np.arange(i % 4) for i in range(40)]
        file.create_dataset("lists", data=lists, dtype=h5py.vlen_dtype("i8"))
        file["rows"] = np.zeros(40, [("a", "<i4"), ("b", "S5"), ("c", "<f8", (2,))])
        hit = np.dtype([("t", "<f4"), ("q", ">i2")])
        hits, texts = file.create_dataset("hits", (40,), h5py.vlen_dtype(hit)), h5py.vlen_dtype(h5py.string_dtype())
        records = np.zeros(40, [("hits", h5py.vlen_dtype(hit)), ("texts", texts), ("pair", hit, (2,))])
        for i in range(40):
            hits[i] = records["hits"][i] = np.zeros(i % 5, hit)
            records["texts"][i] = np.array([f"t{i}"] * (i % 3), object)
        file.create_dataset("records", data=records)
        file["colour"] = np.zeros(40, h5py.enum_dtype({"red": 0, "green": 1}, "i1"))
        for i in range(40):
            file["wide" + "/" + str(i)] = i
            file["contiguous"].attrs[f"attribute {i}"] = np.arange(i)
        file["soft"] = h5py.SoftLink("/text")
        file.attrs["words"] = np.array(["a", "b"], object)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_file_cut_at_every_kilobyte(tmp_path, libver):
    varied(tmp_path / "whole.h5", libver)
    result = damage(tmp_path, tmp_path / "whole.h5", "cut", 0, 10**9)
    assert set(result["outcomes"]) == {"FormatError"}, result  # the superblock says how long the file is


@pytest.mark.parametrize("path", REAL, ids=[path.name for path in REAL])
def test_a_real_file_cut_in_many_places(tmp_path, path):
    if not path.exists():
        pytest.skip(f"no {path}")
    result = damage(tmp_path, path, "cut", 0, 40)
    assert set(result["outcomes"]) == {"FormatError"}, result


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("seed", [1, 2])
def test_flipped_bytes(tmp_path, libver, seed):
    varied(tmp_path / "whole.h5", libver)
    result = damage(tmp_path, tmp_path / "whole.h5", "flip", seed, 150)
    assert result["peak"] < 1 << 20, result  # KiB


@pytest.mark.parametrize("path", REAL, ids=[path.name for path in REAL])
def test_flipped_bytes_of_a_real_file(tmp_path, path):
    if not path.exists():
        pytest.skip(f"no {path}")
    damage(tmp_path, path, "flip", 5, 60)


def test_a_chunk_that_does_not_decode_is_named_with_its_place(tmp_path):
    path = tmp_path / "f.h5"
    with files.new_file(path) as file:
        made = files.create(file, "/events/x", np.dtype("<f4"), (100,), None, files.properties(chunk=(10,), filters=files.FILTERS["gzip"]))
        made[...] = np.arange(100)
        info = made.id.get_chunk_info(4)
    raw = bytearray(path.read_bytes())
    raw[info.byte_offset : info.byte_offset + info.size] = b"\xff" * info.size
    path.write_bytes(raw)
    with fb.open(path, cache_dir="") as ds:
        with pytest.raises(fb.FormatError, match="f.h5.*events/x.*deflate") as caught:
            ds.read()
        assert "40" in str(caught.value) or "chunk 4" in str(caught.value), caught.value
        with ds.loader({"i": fb.sample_index(), "x": fb.col("events/x")}, batch_size=10, shuffle=False, framework="numpy") as loader:
            with pytest.raises(fb.FormatError, match="f.h5.*events/x"):
                for _ in loader:
                    pass


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_bytes_behind_the_end_of_a_file_are_ignored_as_libhdf5_does(tmp_path, libver):
    path = tmp_path / "long.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("x", data=np.arange(1000.0), chunks=(100,), compression="gzip")
    with open(path, "ab") as file:
        file.write(bytes(range(256)) * 20)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["x"][:], np.arange(1000.0))
    np.testing.assert_array_equal(fb.open(path, cache_dir="").read("x")["x"], np.arange(1000.0))


def test_a_file_still_being_written_is_not_read_behind_its_writers_back(tmp_path):
    """SWMR: what the writer holds in memory is not in the file; the helper program's libhdf5 knows how to wait for it, or says no."""
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=np.arange(100), chunks=(10,), maxshape=(None,))
        file.swmr_mode = True
        try:
            with fb.open(path, cache_dir="") as ds:
                assert not any(item.direct for item in ds.contents().arrays)
        except fb.Error as error:
            assert "f.h5" in str(error)


# ---- the helper program ----


def children():
    """Ids of running helper programs that this process started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
            except OSError:
                continue
            if name.startswith("forebay-hdf5") and int(rest[1]) == os.getpid() and rest[0] not in "ZX":
                found.append(int(entry.name))
    return found


@pytest.fixture
def scaled(tmp_path):
    """A file that only the helper reads; skips where it is not built."""
    path = tmp_path / "scale.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(400_000).reshape(4000, 100) % 1000, scaleoffset=0, chunks=(10, 100))
    with fb.open(path, cache_dir="") as ds:
        try:
            ds.read("/x")
        except fb.UnsupportedError as error:
            pytest.skip(f"no helper program: {error}")
    return path


def test_the_helper_killed_between_reads_is_started_again(scaled):
    with fb.open(scaled, cache_dir="") as ds:
        first = ds.read("/x")
        (pid,) = children()
        os.kill(pid, signal.SIGKILL)
        while pid in children():  # dead now; the test after this one asks one that is about to die
            time.sleep(0.01)
        assert np.array_equal(ds.read("/x"), first)
        assert children() and children() != [pid]


def test_a_request_that_a_dying_helper_never_took_goes_to_the_next_one(scaled):
    """Stopped, it has the request in its socket and cannot take it; then it is killed. Nothing of the file is to blame."""
    with fb.open(scaled, cache_dir="") as ds:
        first = ds.read("x")["x"]
        (pid,) = children()
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)  # until then it may still take a request
        killer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
        killer.start()
        assert np.array_equal(ds.read("x")["x"], first)
        killer.join()
        assert children() and children() != [pid]


def test_the_helper_killed_in_the_middle_of_a_read_is_an_error_and_the_next_read_works(scaled):
    """Kills whatever helper there is until a read has failed of it, twice in one request, and reads again."""
    with fb.open(scaled, cache_dir="") as ds:
        want = ds.read("x")["x"]
        errors, stop = [], threading.Event()

        def killer():
            while not stop.is_set():
                for pid in children():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.003)

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            deadline = time.monotonic() + 20
            while not errors and time.monotonic() < deadline:
                try:
                    assert np.array_equal(ds.read("x")["x"], want)
                except fb.ReadError as error:
                    errors.append(str(error))
        finally:
            stop.set()
            thread.join()
        assert errors, "no read was hit"
        assert "scale.h5" in errors[0] and "x" in errors[0].split("scale.h5")[1] and "killed" in errors[0], errors
        assert np.array_equal(ds.read("x")["x"], want)


def test_a_helper_that_is_stopped_does_not_outlive_the_process(scaled, run_python):
    done = run_python(
        """
        import sys, forebay as fb
        with fb.open(sys.argv[1], cache_dir="") as ds:
            ds.read("/x")
        import os, pathlib
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    text = (entry / "stat").read_text()
                except OSError:
                    continue
                if "(forebay-hdf5)" in text and int(text[text.rindex(")") + 2 :].split()[1]) == os.getpid():
                    print(entry.name)
        """,
        scaled,
    )
    pids = done.stdout.split()
    assert pids
    deadline = time.monotonic() + 10
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)


def test_without_the_helper_the_rest_of_the_file_is_read(tmp_path, run_python):
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("packed", data=np.arange(50), scaleoffset=0, chunks=(10,))
        file["plain"] = np.arange(50)
    run_python(
        """
        import sys, forebay as fb, numpy as np
        with fb.open(sys.argv[1], cache_dir="") as ds:
            assert np.array_equal(ds.read("plain")["plain"], np.arange(50)), "plain"
            try:
                ds.read("/packed")
            except fb.Error as error:
                assert "packed" in str(error) or "f.h5" in str(error), error
            else:
                raise SystemExit("read without a helper")
        """,
        path,
        env={"FOREBAY_HDF5_HELPER": "none"},
    )
