"""Ctrl-C and close() at any moment of work that takes long: the call ends at once, wherever it is just then, and what comes after is right."""

import _thread
import contextlib
import ctypes
import functools
import gzip
import itertools
import operator
import os
import random
import signal
import subprocess
import threading
import time

import forebay as fb
import interrupts
import numpy as np
import pytest
from interrupts import AFTER, ENOUGH, TIMES

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")

CLI = os.environ.get("FOREBAY_CLI")
MIB = 1 << 20


@pytest.fixture(autouse=True, params=range(max(TIMES, 1)), ids=str)
def moment(request):
    """Seconds until SIGINT: another moment of the work each time."""
    with interrupts.default_sigint():
        yield random.Random(request.node.name).uniform(0.03, 0.4)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What takes long to open, to scan and to read."""
    folder = tmp_path_factory.mktemp("interrupts")
    rng, n = np.random.default_rng(0), 400_000
    text = pa.table({name: rng.random(n) for name in "abc"})
    csv.write_csv(text, folder / "text.csv")
    (folder / "text.csv.gz").write_bytes(gzip.compress((folder / "text.csv").read_bytes() * 3, 1))
    lines = b"k,x\n" + b"7,0\n" * (16 * MIB)  # inflates at once, and is then scanned
    (folder / "lines.csv.gz").write_bytes(gzip.compress(lines, 6))
    (folder / "many").mkdir()
    for i in range(400):
        pq.write_table(pa.table({"k": [i, i], "x": [0.5, 1.5]}), folder / "many" / f"{i:04}.parquet")
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("c", pa.int64())])
    with pq.ParquetWriter(folder / "rows.parquet", schema, use_dictionary=False, compression="zstd", column_encoding="DELTA_BINARY_PACKED") as out:
        for i in range(8):
            k = np.arange(i * MIB, (i + 1) * MIB)
            out.write_table(pa.table({"k": k // 5, "t": k, "c": k % 11}), row_group_size=MIB)
    wide = {f"f{i}": rng.random(500_000, dtype=np.float32) for i in range(16)}
    wide["s"] = [f"text {i}" for i in range(500_000)]
    pq.write_table(pa.table(wide), folder / "wide.parquet", compression="gzip", row_group_size=50_000)
    return folder


@pytest.fixture
def rows(files):
    with fb.open(files / "rows.parquet", cache_dir="") as ds:
        yield ds


@pytest.fixture
def wide(files):
    with fb.open(files / "wide.parquet", cache_dir="") as ds:
        yield ds


def again_and_again(moment, work):
    def forever():
        while True:
            work()

    interrupts.interrupt(forever, moment)


class Interrupting:
    """At its end comes a Ctrl-C, while no line of Python runs."""

    __del__ = staticmethod(functools.partial(_thread.interrupt_main, signal.SIGINT))


def test_no_ctrl_c_is_lost_when_a_loader_goes(rows):
    with pytest.raises(KeyboardInterrupt):
        [rows.loader("c", batch_size=100), Interrupting()].clear()  # the last one goes first


def test_ctrl_c_that_another_thread_hears_for_the_main_one_ends_its_call(rows):
    sent = []

    def hear():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        time.sleep(AFTER)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        thread = threading.Thread(target=hear)
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            while True:
                fb.Lookup(rows, "k", ["c"], first_wins=True)
        assert time.monotonic() - sent[0] < ENOUGH
        thread.join()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # of one signal there is one: nothing else is raised here


@pytest.mark.parametrize("name", ["text.csv", "text.csv.gz", "lines.csv.gz", "many", "rows.parquet"])
def test_opening_ends(files, moment, name):
    again_and_again(moment, lambda: fb.open(files / name, cache_dir="").close())


@pytest.fixture(scope="module")
def small_batches():
    return pa.Table.from_batches([pa.record_batch({name: [1, 2] for name in "abcdefgh"})] * 40_000)  # which their owner frees one by one, in 2 µs each


def test_opening_a_stream_ends(small_batches, moment):
    again_and_again(moment, lambda: fb.open(small_batches.to_reader()).close())


def test_opening_a_stream_goes_on_where_the_handler_raises_nothing(small_batches):
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with fb.open(small_batches.to_reader()) as ds:
            timer.join()
            assert len(ds) == 80_000 and heard
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_before(call):
    """Ctrl-C comes when no line of Python is left before a function in C, which is the first to see it."""
    with pytest.raises(KeyboardInterrupt):
        list(map(operator.call, [ctypes.pythonapi.PyErr_SetInterrupt, call]))


def test_a_call_that_ctrl_c_has_come_before_is_not_made(files, tmp_path):
    path = os.fsencode(files / "many")
    call = functools.partial(fb._forebay.open_files, [(None, path)], {"cache_dir": str(tmp_path), "progress": None, "dtypes": None})
    interrupt_before(call)
    assert not list(tmp_path.iterdir())
    call()
    assert list(tmp_path.iterdir())


def test_ctrl_c_before_a_stream_is_opened_is_not_lost(small_batches):
    interrupt_before(functools.partial(fb._forebay.open_columns, [("x", "l", (), np.arange(8), None, None)], 8, 8))
    interrupt_before(functools.partial(fb._forebay.open_arrow, small_batches.__arrow_c_stream__()))


@functools.cache
def shuffled(n):
    return np.random.default_rng(0).permutation(n)


SCANS = {
    "groups": lambda ds: ds.groups("k"),
    "windows": lambda ds: ds.windows(4, time="t", step=1, by="c"),
    "select": lambda ds: ds.rows().select("c", values=[3, 4]),
    "table": lambda ds: ds.rows().select("c", table=fb.open({"c": [3, 4]})),
    "split": lambda ds: ds.rows().split(by="c", train=0.5, test=0.5),
    "stratify": lambda ds: ds.rows().split(by="samples", stratify="c", train=0.5, test=0.5),
    "oversample": lambda ds: ds.rows().oversample("c", {3: 2}),
    "resample": lambda ds: ds.rows().resample("c"),
    "limit": lambda ds: ds.rows().limit(MIB, random=True),
    "take": lambda ds: ds.rows().take(slice(0, None, 3)),
    "take listed": lambda ds: ds.rows().take(shuffled(len(ds))),  # sorting is most of it
    "split by time": lambda ds: ds.rows().split(time="c", train=0.5, test=0.5),
    "fit": lambda ds: fb.fit(ds, ["c", "t"]),
    "fit by": lambda ds: fb.fit(ds, "t", by="c"),
    "lookup": lambda ds: fb.Lookup(ds, "k", ["c"], first_wins=True),
    "encode": lambda ds: fb.encode("c", ds),
    "read": lambda ds: ds.read(),
    "arrow": lambda ds: pa.table(ds),
    "arrow stream": lambda ds: [batch.num_rows for batch in pa.RecordBatchReader.from_stream(ds)],
}


@pytest.mark.parametrize("scan", SCANS)
def test_scanning_ends(rows, moment, scan):
    SCANS[scan](rows) if "arrow" in scan else None  # the first time pyarrow imports half of itself
    shuffled(len(rows)) if "listed" in scan else None  # one call of NumPy's, which Ctrl-C does not end
    again_and_again(moment, lambda: SCANS[scan](rows))


@pytest.mark.parametrize("name", ["text.csv.gz", "wide.parquet"])
def test_reading_whole_ends(files, moment, name):
    with fb.open(files / name) as ds:
        again_and_again(moment, ds.read)


def an_epoch(loader):
    for batch in loader:
        del batch


LOADERS = {
    "rows": {"batch_size": 4096},
    "one batch": {"batch_size": 500_000, "shuffle": "full"},
    "tight": {"batch_size": 64, "shuffle": False},
    "uring": {"batch_size": 4096},
}


@pytest.fixture(params=LOADERS)
def loader(files, request):
    with fb.open(files / "wide.parquet", io="uring" if request.param == "uring" else "threads") as ds:
        options = dict(LOADERS[request.param], framework="numpy")
        if request.param == "tight":
            with pytest.raises(fb.BudgetError) as error:
                ds.loader(**options, memory=MIB)
            options["memory"] = error.value.minimum_bytes if hasattr(error.value, "minimum_bytes") else said(error.value)
        with ds.loader(**options) as loader:
            yield loader


def said(error):
    import re

    return int(re.search(r"needs at least (\d+) bytes", str(error))[1])


def test_epochs_end(loader, moment):
    """In a first batch, in the middle, or between two epochs."""
    again_and_again(moment, lambda: an_epoch(loader))
    assert next(iter(loader)) is not None


def test_close_ends_whatever_runs(loader, moment):
    iterator = iter(loader)
    until = time.monotonic() + moment
    while time.monotonic() < until and next(iterator, None) is not None:
        pass
    begin = time.monotonic()
    loader.close()
    assert time.monotonic() - begin < ENOUGH


def test_close_by_another_thread_ends_a_wait(wide, moment):
    loader = wide.loader(batch_size=500_000, shuffle="full", framework="numpy")
    closed = []

    def close():
        closed.append(time.monotonic())
        loader.close()

    timer = threading.Timer(moment, close)
    timer.start()
    with pytest.raises((fb.StateError, fb.CancelledError)):
        while True:
            an_epoch(loader)
    took = time.monotonic() - closed[0]
    timer.join()
    assert took < ENOUGH


OPENINGS = {
    "groups": lambda ds: (ds.groups("k"), {}),
    "buckets": lambda ds: (ds.groups("k"), {"bucket_samples": MIB}),
    "parts": lambda ds: (ds.rows(), {"part": "1000 keys", "part_key": "k"}),  # a million runs of keys and more
    "slices": lambda ds: (ds.rows(), {"max_superbatch_batches": 2}),
}


@pytest.mark.parametrize("opening", OPENINGS)
def test_opening_a_loader_ends(rows, moment, opening):
    samples, options = OPENINGS[opening](rows)
    again_and_again(moment, lambda: samples.loader("c", batch_size=16, **options).close())


def test_epochs_of_large_buckets_end(rows, moment):
    with rows.groups("k").loader("c", batch_size=16, bucket_samples=MIB, framework="numpy") as loader:
        again_and_again(moment, lambda: next(iter(loader)))


def test_two_loaders_of_small_budgets_end(wide, moment):
    """Each takes what the other has decoded, and has no room of its own to spare."""
    with pytest.raises(fb.BudgetError) as error:
        wide.loader(batch_size=64, memory=MIB)
    loaders = [wide.loader(batch_size=64, memory=said(error.value), seed=1, framework="numpy") for _ in range(2)]

    def both():
        for batches in zip(*loaders):
            del batches

    again_and_again(moment, both)
    begin = time.monotonic()
    for loader in loaders:
        loader.close()
    assert time.monotonic() - begin < ENOUGH


@pytest.mark.parametrize("options", [{}, {"shuffle": "none", "format": "parquet"}], ids=["shuffled", "in order"])
def test_packing_ends_and_goes_on(rows, moment, options, tmp_path):
    folders = (tmp_path / f"out{i}" for i in itertools.count())
    tried = []

    def pack():
        tried.append(next(folders))
        fb.pack(rows, tried[-1], **options)

    again_and_again(moment, pack)
    assert not (tried[-1] / "_pack.json").exists()
    assert fb.pack(rows, tried[-1], **options).rows == 8 * MIB


def test_a_wait_for_the_users_transform_ends(wide, moment):
    waits = threading.Event()
    with wide.loader(batch_size=4096, transform=lambda batch: waits.wait(20) and batch, check=False, framework="numpy") as loader:
        try:
            again_and_again(moment, lambda: an_epoch(loader))
        finally:
            waits.set()


@pytest.mark.skipif(not CLI, reason="FOREBAY_CLI is not set")
@pytest.mark.parametrize(
    "call",
    [
        ["inspect", "text.csv.gz", "--no-cache"],
        ["head", "lines.csv.gz", "--no-cache"],
        ["bench", "wide.parquet", "--no-cache", "--batch-size", "64", "--seconds", "20"],
        ["bench", "wide.parquet", "--no-cache", "--batch-size", "64", "--work", "20s"],
        ["advise", "wide.parquet", "--no-cache"],
        ["pack", "rows.parquet", "--no-cache", "--to", "OUT"],
    ],
    ids=" ".join,
)
def test_the_command_ends(files, moment, call, tmp_path):
    command = [CLI, call[0], str(files / call[1]), *(str(tmp_path / "out") if word == "OUT" else word for word in call[2:])]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
    time.sleep(moment)
    begin = time.monotonic()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGINT)
    code = started.wait(timeout=20)
    took = time.monotonic() - begin
    assert code in (0, 130, -signal.SIGINT), code
    assert took < ENOUGH, took
    with pytest.raises(ProcessLookupError):  # nobody is left in its group
        for _ in range(20):
            os.killpg(started.pid, 0)
            time.sleep(0.01)
