"""Ctrl-C, close() and leaving early while the HDF5 helper program is stuck: every wait ends at once, and no process is left."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import forebay as fb
import interrupts
import numpy as np
import pytest
from interrupts import AFTER, ENOUGH, TIMES

h5py = pytest.importorskip("h5py")
CLI = os.environ.get("FOREBAY_CLI")


@pytest.fixture(autouse=True, params=range(max(TIMES, 1)), ids=str)
def _interrupts(request):
    with interrupts.default_sigint():
        yield


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
    return {pid: state for pid, (name, state) in interrupts.children(os.getpid()).items() if name in ("forebay-hdf5", "sleep", "sh")}


def stop_helpers():
    for pid in helpers():
        os.kill(pid, signal.SIGSTOP)


def soon(holds):
    until = time.monotonic() + ENOUGH
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


def interrupted(work, loaders=()):
    """The call waits for the stuck program, is ended by KeyboardInterrupt, and the program is gone: of loaders, which may go on, when they close."""
    stop_helpers()
    interrupts.interrupt(work)
    begin = time.monotonic()
    for loader in loaders:
        loader.close()
    assert time.monotonic() - begin < ENOUGH
    assert soon(lambda: not any(state in "Tt" for state in helpers().values()))


def test_reading_a_data_set_ends(path):
    with fb.open(path, cache_dir="") as ds:
        interrupted(lambda: ds.read(["x"]))
        np.testing.assert_array_equal(ds.read(["x"])["x"], np.arange(20_000))


def test_a_signal_that_another_thread_gets_ends_the_call_of_the_main_one(path):
    with fb.open(path, cache_dir="") as ds:
        stop_helpers()
        timer = threading.Timer(AFTER, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT))
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            ds.read(["x"])
        assert time.monotonic() - begin < AFTER + ENOUGH
        timer.join()


def test_opening_ends(path):
    interrupted(lambda: fb.open(path, cache_dir=""))
    fb.open(path, cache_dir="").close()


ANEW = """
import os, signal, sys, time
import forebay as fb, interrupts
fb.open(sys.argv[1], cache_dir="").close()
(pid,) = (pid for pid, (name, _) in interrupts.children(os.getpid()).items() if name == "forebay-hdf5")
os.kill(pid, signal.SIGSTOP)
begin = time.monotonic()
fb.open(sys.argv[2], cache_dir="").close()
print(time.monotonic() - begin, pid in interrupts.children(os.getpid()))
"""


def test_a_program_that_is_to_start_anew_is_not_waited_for(path, tmp_path_factory, run_python):
    """For a file of another folder; it was stopped while it had nothing to do. In a process of its own: here "/" may have been granted."""
    other = shutil.copy(path, tmp_path_factory.mktemp("other"))
    seconds, there = run_python(ANEW, path, other, env={"PYTHONPATH": os.path.dirname(interrupts.__file__)}).stdout.split()
    assert float(seconds) < ENOUGH + AFTER and there == "False"


@pytest.mark.parametrize("before", ["", "exec 3>&-\n"], ids=["says nothing", "has closed its socket"])
def test_opening_ends_while_the_program_starts(path, tmp_path, monkeypatch, before):
    script = tmp_path / "stuck"
    script.write_text(f"#!/bin/sh\n{before}exec sleep 1000\n")
    script.chmod(0o755)
    for pid in helpers():  # the next request starts another
        os.kill(pid, signal.SIGKILL)
    monkeypatch.setenv("FOREBAY_HDF5_HELPER", str(script))
    interrupted(lambda: fb.open(path, cache_dir=""))
    assert not helpers()


WAITS = {
    "groups": lambda ds: ds.groups("key"),
    "windows": lambda ds: ds.windows(1, time="x", step=1),
    "select": lambda ds: ds.rows().select("key", low=7),
    "split": lambda ds: ds.rows().split(by="key", train=0.5, test=0.5),
    "stratify": lambda ds: ds.rows().split(by="samples", stratify="key", train=0.5, test=0.5),
    "oversample": lambda ds: ds.rows().oversample("key", {3: 2}),
    "resample": lambda ds: ds.rows().resample("key"),
    "lookup": lambda ds: fb.Lookup(ds, "key", ["key"], first_wins=True),
    "encode": lambda ds: fb.encode("key", ds),
    "fit": lambda ds: fb.fit(ds, "x"),
    "fit by": lambda ds: fb.fit(ds, "x", by="key"),
    "read": lambda ds: ds.read(),
    "part_key": lambda ds: ds.loader("x", batch_size=4, memory="300MiB", part="10 keys", part_key="key"),
    "first batch": lambda ds: next(iter(ds.loader("x", batch_size=100, memory="300MiB"))),
}


@pytest.mark.parametrize("wait", WAITS)
def test_every_wait_ends(path, wait):
    with fb.open(path, cache_dir="") as ds:
        interrupted(lambda: WAITS[wait](ds))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """More than a loader of the smallest budget keeps."""
    name = tmp_path_factory.mktemp("large") / "large.h5"
    with h5py.File(name, "w") as f:
        f.create_dataset("x", data=np.zeros((20_000, 256), "i4"), chunks=(1000, 256), scaleoffset=0)
    return name


def smallest(ds, **options):
    options = {"batch_size": 100, "superbatch": 1000, "streams": 1, **options}
    with pytest.raises(fb.BudgetError) as error:
        ds.loader("x", memory="1MiB", **options)
    return ds.loader("x", memory=int(re.search(r"needs at least (\d+) bytes", str(error.value))[1]), **options)


def all_of(batches):
    for batch in batches:
        del batch


def test_a_loader_ends_in_the_middle_of_an_epoch(path, large):
    with fb.open(large, cache_dir="") as ds, smallest(ds) as loader:
        iterator = iter(loader)
        next(iterator)
        interrupted(lambda: all_of(iterator), [loader])


def test_a_loader_ends_between_two_epochs(path, large):
    """The next one is read ahead, and its beginning waits for what is being read."""
    with fb.open(large, cache_dir="") as ds, smallest(ds) as loader:
        all_of(loader)
        interrupted(lambda: [all_of(loader) for _ in range(1000)], [loader])


def test_two_loaders_end(path, large):
    """Each waits while the other has the turn with the program."""
    with fb.open(large, cache_dir="") as ds:
        loaders = [smallest(ds, seed=i) for i in range(2)]
        iterators = [iter(loader) for loader in loaders]
        interrupted(lambda: all_of(zip(*iterators)), loaders)


def test_a_pipeline_ends(path, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(f"data: {{paths: {path}, cache_dir: ''}}\nsamples: {{groups: key}}\nloader: {{batch_size: 4, memory: 300MiB}}\n")
    pipeline = fb.pipeline(file)
    interrupted(pipeline.loader)


@pytest.mark.skipif(not CLI, reason="FOREBAY_CLI is not set")
@pytest.mark.parametrize("command", ["inspect", "head", "bench", "advise"])
def test_the_command_ends_and_leaves_no_program(path, command):
    """Its helper program is stopped as soon as it is there."""
    started = subprocess.Popen([CLI, command, str(path), "--no-cache"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
    until, helper = time.monotonic() + 5, {}
    while not helper and started.poll() is None and time.monotonic() < until:
        helper = {pid for pid, (name, _) in interrupts.children(started.pid).items() if name == "forebay-hdf5"}
    if started.poll() is None:
        for pid in helper:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(AFTER)
    begin = time.monotonic()
    started.send_signal(signal.SIGINT)
    code = started.wait(timeout=10)
    took = time.monotonic() - begin
    for pid in helper:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)  # what was stopped from outside cannot see that its socket closes
    assert code in (0, 130, -signal.SIGINT) and took < ENOUGH, (code, took)
    assert soon(lambda: not any(interrupts.runs(pid) for pid in helper))


def test_scans_end(path):
    with fb.open(path, cache_dir="") as ds:
        interrupted(lambda: ds.groups("key"))
        assert len(ds.groups("key")) == 100


def test_fitting_ends(path):
    with fb.open(path, cache_dir="") as ds:
        interrupted(lambda: fb.fit(ds, "x"))
        assert fb.fit(ds, "x") is not None


def test_contents_end(path):
    with h5py.File(path, "a") as f:
        f["other"] = h5py.ExternalLink("y.h5", "/x")
    with h5py.File(path.with_name("y.h5"), "w") as f:
        f["x"] = np.arange(3)
    with fb.open(path, cache_dir="") as ds:
        interrupted(ds.contents)


def test_arrow_exports_end(path):
    pa = pytest.importorskip("pyarrow")
    with fb.open(path, cache_dir="") as ds:
        pa.table(ds)  # the first time it imports half of itself
        interrupted(lambda: pa.table(ds))
        assert pa.table(ds).num_rows == 20_000


def test_a_loader_ends_and_closes(path):
    with fb.open(path, cache_dir="") as ds:
        loader = ds.rows().loader({"x": "x"}, batch_size=100, memory="300MiB", seed=1)
        interrupted(lambda: all_of(loader))
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
