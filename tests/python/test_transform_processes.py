"""Your own code on batches, and how a process ends: Ctrl-C, exit, fork, threads left behind. Each runs in a process of its own."""

import time

import pytest

PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import forebay as fb

signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background of a shell, it is ignored
ds = fb.open({"a": np.arange(20_000)})
def loader_of(transform, **options):
    return ds.loader("a", batch_size=100, framework="numpy", transform=transform, **options)
"""


def test_ctrl_c_returns_at_once_and_loses_nothing(run_python):
    done = run_python(
        PRELUDE
        + """
stuck = threading.Event()
def slow(batch):
    if batch.index == 3:
        stuck.wait(0.5)
    return batch
loader = loader_of(slow, shuffle=False)
threading.Thread(target=lambda: (time.sleep(0.2), os.kill(os.getpid(), signal.SIGINT))).start()
it = iter(loader)
got = []
try:
    while True:
        got.append(next(it))
except KeyboardInterrupt:
    print("interrupted", len(got), loader.state_dict()["batch"])
got.extend(it)
assert (np.concatenate([b["a"] for b in got]) == np.arange(20_000)).all()
""")  # fmt: skip
    assert done.stdout.split() == ["interrupted", "3", "3"]


@pytest.mark.parametrize("how", ["finished", "half", "waiting", "in the transform", "exception", "daemon"])
def test_the_interpreter_exits_with_a_thread_in_any_state(run_python, how):
    begin = time.monotonic()
    done = run_python(
        PRELUDE
        + """
how = sys.argv[1]
def transform(batch):
    if how == "in the transform":
        time.sleep(0.5)
    return batch
loader = loader_of(transform)
it = iter(loader)
if how == "finished":
    list(it)
elif how == "daemon":
    threading.Thread(target=lambda: [list(loader) for _ in range(10**9)], daemon=True).start()
    time.sleep(0.2)
elif how != "in the transform":
    next(it)
if how == "waiting":
    time.sleep(0.1)
if how == "exception":
    raise SystemExit(0)
print("end")
""",
        how,
    )
    assert done.stderr == "" and time.monotonic() - begin < 30


def test_a_forked_child_gets_a_clear_error_and_ends(run_python):
    done = run_python(
        PRELUDE
        + """
loader = loader_of(lambda b: b)
it = iter(loader)
first = next(it)
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    try:
        next(it)
    except fb.StateError as error:
        assert "fork" in str(error)
    else:
        os._exit(2)
    try:
        iter(loader)
    except fb.StateError as error:
        assert "fork" in str(error), error
    else:
        os._exit(3)
    loader.close()
    del it, loader
    sys.exit(0)          # through atexit
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert len(list(it)) == 199
print("ok")
"""
    )
    assert done.stdout.strip() == "ok" and done.stderr == ""


def test_threads_and_memory_do_not_grow_with_epochs_left_early(run_python):
    done = run_python(
        PRELUDE
        + """
def threads():
    return len(os.listdir("/proc/self/task"))
loader = loader_of(lambda b: {"a": b["a"] + 1})
for batch in loader:
    pass
before = threads()
for i in range(200):
    for n, batch in enumerate(loader):
        if n == i % 7:
            break
    if i % 50 == 0:
        assert loader.report().batches_out < 12, loader.report()
del batch
loader.close()
assert not any(t.name == "forebay-transform" for t in threading.enumerate())
assert threads() <= before, (threads(), before)
print("ok")
"""
    )
    assert done.stdout.strip() == "ok" and done.stderr == ""


@pytest.mark.parametrize("seed", range(4))
def test_epochs_left_at_random_points_in_random_ways_end(run_python, seed):
    done = run_python(
        PRELUDE
        + """
import gc, logging, random, warnings, weakref
warnings.simplefilter("ignore")  # set_epoch() behind a state
logging.getLogger("forebay").setLevel("ERROR")  # on a busy machine a batch may take long
draw = random.Random(int(sys.argv[1]))
signal.alarm(100)
live = []  # no WeakSet: an interrupt that falls into its own callback leaves what is dead in it
class Result:
    def __init__(self, batch):
        self.a, self.index = batch["a"], batch.index
        live.append(weakref.ref(self))
def transform(batch):
    if draw.random() < 0.02:
        raise ValueError("now and then")
    if draw.random() < 0.3:
        time.sleep(draw.random() * 2e-3)
    if draw.random() < 0.01:
        loader.close()
    return Result(batch)
def new():
    return loader_of(transform, check=False, threads=draw.randint(1, 3), prefetch=draw.randint(1, 8), transform_prefetch=draw.randint(1, 6))
loader = new()
for step in range(250):
    if loader.closed:
        loader = new()
    it = None
    try:
        it = iter(loader)  # the transform may close it meanwhile
        begin = loader.state_dict()["batch"]
        for i in range(draw.choice((0, 1, 3, 30, 300))):
            result = next(it, None)
            if result is None:
                break
            assert result.index == begin + i, (result.index, begin, i)
            del result
    except ValueError as error:
        assert "now and then" in str(error)
    except fb.StateError as error:
        assert "closed" in str(error), error
    way = draw.randrange(9) if it is not None else 0
    try:
        if way == 0:
            loader.close()
        elif way == 1:
            other = threading.Thread(target=loader.close)
            other.start()
            next(it, None)
            other.join()
        elif way == 2:
            loader.load_state_dict({**loader.state_dict(), "epoch": draw.randrange(3), "batch": draw.randrange(190)})
        elif way == 3:
            loader.set_epoch(draw.randrange(5))
            next(it, None)
        elif way == 4:
            cycle = [it, loader]
            cycle.append(cycle)
            del cycle, it
            loader = new()
            gc.collect()
        elif way == 5:
            del it
        elif way == 6:
            interrupt = threading.Timer(draw.random() * 5e-3, os.kill, (os.getpid(), signal.SIGINT))
            interrupt.start()
            try:
                try:
                    while next(it, None) is not None:
                        pass
                finally:
                    interrupt.join()
                    time.sleep(0.01)
            except KeyboardInterrupt:
                interrupt.join()
        elif way == 7:
            iter(loader), iter(loader)
    except (ValueError, fb.StateError):
        pass
    except KeyboardInterrupt:
        pass
it = None
loader.close()
gc.collect()
until = time.monotonic() + 10
while any(t.name == "forebay-transform" for t in threading.enumerate()) and time.monotonic() < until:
    time.sleep(0.01)
assert not any(t.name == "forebay-transform" for t in threading.enumerate())
result = error = None
gc.collect()
live = [result for result in (ref() for ref in live) if result is not None]
assert len(live) == 0, len(live)
print("ok")
""",
        str(seed),
    )
    assert done.stdout.strip() == "ok" and done.stderr == "", done.stderr


def test_a_transform_that_never_returns_does_not_keep_the_interpreter(run_python):
    begin = time.monotonic()
    done = run_python(
        PRELUDE
        + """
entered = threading.Event()
def transform(batch):
    entered.set()
    threading.Event().wait()
it = iter(loader_of(transform, check=False))
entered.wait()
print("end")
"""
    )
    assert done.stdout.strip() == "end" and done.stderr == "" and time.monotonic() - begin < 30


def test_ctrl_c_ends_the_wait_for_a_call_that_does_not_end(run_python):
    done = run_python(
        PRELUDE
        + """
entered, end = threading.Event(), threading.Event()
def transform(batch):
    entered.set()
    end.wait(20)
    return batch
loader = loader_of(transform, check=False)
it = iter(loader)
for call in (lambda: next(it), lambda: loader.load_state_dict(loader.state_dict()), lambda: (loader.set_epoch(3), iter(loader)), loader.close):
    entered.wait()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - begin < 2)
end.set()
loader.close()
"""
    )
    assert done.stdout.split() == ["interrupted", "True"] * 4 and done.stderr == ""
