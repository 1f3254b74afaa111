"""HDF5 files that somebody is writing: h5py holds them open in another process."""

import errno
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")
import forebay as fb  # noqa: E402

pytestmark = pytest.mark.skipif(
    os.environ.get("HDF5_USE_FILE_LOCKING", "").upper() in ("FALSE", "0"), reason="h5py was told to do without locks"
)

WRITER = """
    import sys, h5py, numpy as np
    file = h5py.File(sys.argv[1], sys.argv[2], libver=sys.argv[3])
    for line in sys.stdin:  # rows to append; nothing: done
        if not line.strip():
            break
        x = file.require_dataset("x", (0,), "f8", maxshape=(None,), chunks=(100,)) if "x" not in file else file["x"]
        n = len(x)
        x.resize((n + int(line),))
        x[n:] = np.arange(n, n + int(line))
        file.flush()
        print(len(x), flush=True)
    file.close()
    print("closed", flush=True)
"""


class Writer:
    """h5py with a file open in a process of its own."""

    def __init__(self, path, mode, libver="earliest"):
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(path), mode, libver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def append(self, rows):
        self.process.stdin.write(f"{rows}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "closed\n"
        assert self.process.wait(timeout=30) == 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.communicate()


def put(path, rows=100, chunk=100):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(rows, dtype="f8"), chunks=(chunk,), maxshape=(None,))
    return path


def test_a_file_that_is_being_written_is_refused_until_it_is_closed(tmp_path):
    path = tmp_path / "run.h5"
    with Writer(path, "w") as writer:
        for rows in (200, 500, 400):  # flushed each time
            writer.append(rows)
            with pytest.raises(fb.ReadError, match="run.h5' is being written.*HDF5_USE_FILE_LOCKING=FALSE") as caught:
                fb.open(path, cache_dir="")
            assert caught.value.errno == errno.EAGAIN
        writer.close()
    assert fb.open(path, cache_dir="").read(["x"])["x"].tolist() == list(range(1100))


@pytest.mark.parametrize("libver", ["latest", "v110"])
def test_a_file_that_is_marked_too_says_what_helps(tmp_path, monkeypatch, libver):
    path = tmp_path / "run.h5"
    with Writer(path, "w", libver) as writer:
        writer.append(200)
        with pytest.raises(fb.FileLockedError, match="run.h5' is being written.*HDF5_USE_FILE_LOCKING=FALSE does not help.*h5clear -s"):
            fb.open(path, cache_dir="")
        with monkeypatch.context() as without_locks:
            without_locks.setenv("HDF5_USE_FILE_LOCKING", "FALSE")
            with pytest.raises(fb.Error, match="run.h5.*marked as open for writing.*h5clear -s"):
                fb.open(path, cache_dir="")
    with pytest.raises(fb.Error, match="run.h5.*marked as open for writing.*h5clear -s"):  # the writer was killed: no lock, but the mark
        fb.open(path, cache_dir="")
    with Writer(tmp_path / "closed.h5", "w", libver) as writer:
        writer.append(200)
        writer.close()
    assert len(fb.open(tmp_path / "closed.h5", cache_dir="").read(["x"])["x"]) == 200


def test_a_writer_in_this_process_is_seen_and_readers_are_not_in_the_way(tmp_path):
    path = put(tmp_path / "a.h5")
    with h5py.File(path, "r"):
        assert len(fb.open(path, cache_dir="").read(["x"])["x"]) == 100
    with h5py.File(path, "r+"):
        with pytest.raises(fb.ReadError, match="being written"):
            fb.open(path, cache_dir="")


def test_a_writer_that_comes_later_is_seen_at_the_next_opening(tmp_path):
    for i in range(3):
        put(tmp_path / f"f{i}.h5", 2000)
    ds = fb.open(tmp_path / "*.h5", cache_dir="")
    assert len(ds.read(["x"])["x"]) == 6000
    with open(tmp_path / "f2.h5", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as libhdf5 does, and nothing written yet: only the lock tells
        with pytest.raises(fb.ReadError, match="f2.h5.*being written"):
            ds.read(["x"])
        with ds.loader("x", batch_size=2000, shuffle=False, framework="numpy") as loader:
            batches = iter(loader)
            assert next(batches)["x"][-1] == 1999 and next(batches)["x"][-1] == 1999
            with pytest.raises(fb.ReadError, match="f2.h5.*being written"):
                next(batches)
    assert len(ds.read(["x"])["x"]) == 6000  # the file is as it was
    with ds.loader("x", batch_size=100, framework="numpy") as loader:
        next(iter(loader))
        with Writer(tmp_path / "f2.h5", "r+") as writer:  # an open data set keeps no writer out
            assert writer.append(1) == 2001
            loader.close()  # it has decoded blocks of before, which a read may share
            with pytest.raises(fb.Error, match="f2.h5"):
                ds.read(["x"])


def test_locks_are_left_out_when_the_environment_says_so(tmp_path, monkeypatch):
    path = put(tmp_path / "a.h5")
    with Writer(path, "r+") as writer:
        assert writer.append(100) == 200
        for value in ("TRUE", "1", "BEST_EFFORT", "whatever"):
            monkeypatch.setenv("HDF5_USE_FILE_LOCKING", value)
            with pytest.raises(fb.ReadError, match="being written"):
                fb.open(path, cache_dir="")
        for value in ("FALSE", "0"):
            monkeypatch.setenv("HDF5_USE_FILE_LOCKING", value)
            with fb.open(path, cache_dir="") as ds:
                assert len(ds) >= 100
                assert [note for note in ds.notes if "'a.h5' is being written, and read all the same" in note and "LOCKING" in note]
        writer.close()
    with fb.open(path, cache_dir="") as ds:
        assert len(ds) == 200 and not any("LOCKING" in note for note in ds.notes)


@pytest.mark.skipif(not shutil.which("cc"), reason="no compiler, so no file system without locks to be had")
def test_file_systems_without_locks_are_noted_once(tmp_path):
    source, library = tmp_path / "no_locks.c", tmp_path / "no_locks.so"
    source.write_text("#include <errno.h>\nint flock(int fd, int how) { (void)fd; (void)how; errno = ENOSYS; return -1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    for i in range(3):
        os.utime(put(tmp_path / f"{i}.h5"), (10**9, 10**9))
    program = """
        import sys, forebay as fb
        for _ in range(2):
            with fb.open(sys.argv[1] + "/*.h5", cache_dir=sys.argv[1] + "/cache") as ds:
                print(len(ds.read(["x"])["x"]), sum("has no locks" in note for note in ds.notes))
    """
    for value, want in (("BEST_EFFORT", ["300 1", "300 0"]), ("TRUE", "HDF5_USE_FILE_LOCKING asks for it"), ("FALSE", ["300 0", "300 0"])):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        environment = os.environ | {"LD_PRELOAD": str(library), "HDF5_USE_FILE_LOCKING": value}
        environment.pop("ASAN_OPTIONS", None)
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], env=environment, capture_output=True, text=True, timeout=60
        )
        if isinstance(want, list):
            assert run.stdout.splitlines() == want, run.stderr
        else:
            assert run.returncode != 0 and want in run.stderr
    assert pathlib.Path(tmp_path / "cache").exists()
