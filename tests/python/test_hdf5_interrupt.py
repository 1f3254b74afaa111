"""Ctrl-C, close() and leaving early while the HDF5 helper program is stuck: every wait ends at once, and no process is left."""

import contextlib
import os
import signal
import threading
import time

import forebay as fb
import numpy as np
import pytest

h5py = pytest.importorskip("h5py")

TIMES = int(os.environ.get("FOREBAY_INTERRUPTS", "0"))  # make interrupts: each wait so many times, and with the limit that is promised
ENOUGH = 0.2 if TIMES else 1.0  # seconds; it takes about 0.05, but machines of the CI stand still at times


@pytest.fixture(autouse=True, params=range(max(TIMES, 1)), ids=str)
def interrupts(request):
    """SIGINT is ignored in what a shell starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def path(tmp_path):
    """Data sets that only libhdf5 reads."""
    name = tmp_path / "x.h5"
    with h5py.File(name, "w") as f:
        f.create_dataset("x", data=np.arange(20_000, dtype="i4"), chunks=(1000,), scaleoffset=0)
        f.create_dataset("key", data=np.repeat(np.arange(100), 200), chunks=(1000,), scaleoffset=0)
    with fb.open(name, cache_dir="") as ds:
        if not any("helper program" in note and "left out" not in note for note in ds.notes):
            pytest.skip("forebay-hdf5 was not built")
    return name


def helpers():
    """The helper programs of this process, with their states."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as f:
                name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
                if int(rest.split()[1]) == os.getpid() and name in ("forebay-hdf5", "sleep", "sh"):
                    found[int(entry)] = rest.split()[0]
    return found


def stop_helpers():
    for pid in helpers():
        os.kill(pid, signal.SIGSTOP)


@contextlib.contextmanager
def interrupted(after=0.5):
    """The block is ended by KeyboardInterrupt, soon after it was sent, and the stuck program is gone."""
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    stop_helpers()
    timer = threading.Timer(after, send)
    with pytest.raises(KeyboardInterrupt):
        try:
            timer.start()
            yield
        finally:
            took = time.monotonic() - sent[0] if sent else None
            time.sleep(0.1 if sent else 5)  # pyarrow raises an error of its own first
    timer.join()
    assert took is not None, "it did not wait"
    print(f"{took * 1e3:.0f} ms")
    assert took < ENOUGH
    assert not any(state in "Tt" for state in helpers().values())


def test_reading_a_data_set_ends(path):
    with fb.open(path, cache_dir="") as ds:
        with interrupted():
            ds.read(["x"])
        np.testing.assert_array_equal(ds.read(["x"])["x"], np.arange(20_000))


def test_opening_ends(path):
    with interrupted():
        fb.open(path, cache_dir="")
    fb.open(path, cache_dir="").close()


def test_opening_ends_while_the_program_starts(path, tmp_path, monkeypatch):
    script = tmp_path / "stuck"
    script.write_text("#!/bin/sh\nexec sleep 1000\n")
    script.chmod(0o755)
    for pid in helpers():  # the next request starts another
        os.kill(pid, signal.SIGKILL)
    monkeypatch.setenv("FOREBAY_HDF5_HELPER", str(script))
    with interrupted():
        fb.open(path, cache_dir="")
    assert not helpers()


def test_scans_end(path):
    with fb.open(path, cache_dir="") as ds:
        with interrupted():
            ds.groups("key")
        assert len(ds.groups("key")) == 100


def test_fitting_ends(path):
    with fb.open(path, cache_dir="") as ds:
        with interrupted():
            fb.fit(ds, "x")
        assert fb.fit(ds, "x") is not None


def test_fitting_by_key_ends(path):
    with fb.open(path, cache_dir="") as ds, interrupted():
        fb.fit(ds, "x", by="key")


def test_contents_end(path):
    with h5py.File(path, "a") as f:
        f["other"] = h5py.ExternalLink("y.h5", "/x")
    with h5py.File(path.with_name("y.h5"), "w") as f:
        f["x"] = np.arange(3)
    with fb.open(path, cache_dir="") as ds, interrupted():
        ds.contents()


def test_arrow_exports_end(path):
    pa = pytest.importorskip("pyarrow")
    with fb.open(path, cache_dir="") as ds:
        pa.table(ds)  # the first time it imports half of itself
        sent = []
        stop_helpers()
        timer = threading.Timer(0.5, lambda: (sent.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT)))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            try:
                pa.table(ds)
            except OSError:  # pyarrow's; KeyboardInterrupt comes with the next line of Python
                for _ in range(100):
                    time.sleep(0.05)
        assert time.monotonic() - sent[0] < ENOUGH
        timer.join()
        assert not any(state in "Tt" for state in helpers().values())
        assert pa.table(ds).num_rows == 20_000


def test_a_loader_ends_and_closes(path):
    with fb.open(path, cache_dir="") as ds:
        loader = ds.rows().loader({"x": "x"}, batch_size=100, memory="300MiB", seed=1)
        with interrupted():
            for _ in loader:
                pass
        begin = time.monotonic()
        stop_helpers()
        loader.close()
        print(f"close: {(time.monotonic() - begin) * 1e3:.0f} ms")
        assert time.monotonic() - begin < ENOUGH


def test_close_ends_the_reads_under_way(path):
    with fb.open(path, cache_dir="") as ds:
        loader = ds.rows().loader({"x": "x"}, batch_size=100, memory="300MiB", seed=1)
        stop_helpers()
        iterator = iter(loader)
        time.sleep(0.1)
        begin = time.monotonic()
        loader.close()
        took = time.monotonic() - begin
        assert took < ENOUGH
        del iterator
        assert not any(state in "Tt" for state in helpers().values())


def test_a_cancelled_epoch_is_read_again(path):
    with fb.open(path, cache_dir="") as ds, ds.rows().loader({"x": "x"}, batch_size=1000, memory="300MiB", shuffle=False) as loader:
        stop_helpers()
        iterator = iter(loader)
        time.sleep(0.1)
        del iterator
        got = np.concatenate([np.asarray(batch["x"]).reshape(-1) for batch in loader])
        np.testing.assert_array_equal(got, np.arange(20_000))


def test_a_handler_that_raises_nothing_lets_the_call_go_on(path):
    seen = []
    with fb.open(path, cache_dir="") as ds:
        stop_helpers()
        before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        try:
            timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            assert len(ds.groups("key")) == 100
            timer.join()
        finally:
            signal.signal(signal.SIGINT, before)
    assert seen == [1]


def test_a_wait_that_looks_for_signals_is_one_wait_in_the_report(path):
    with fb.open(path, cache_dir="") as ds, ds.rows().loader({"x": "x"}, batch_size=1000, memory="300MiB") as loader:
        stop_helpers()
        timer = threading.Timer(0.4, lambda: [os.kill(pid, signal.SIGCONT) for pid in helpers()])
        timer.start()
        assert len(list(loader)) == 20
        timer.join()
        report = loader.report()
    assert 250_000_000 <= report.wait_max_ns <= report.wait_ns
