"""Signals, forks, spawned processes, threads, exit. Each case is a process of its own with a timeout: a hang is a failure."""

import pytest

pytest.importorskip("numpy")

PRELUDE = """
import gc, os, signal, sys, threading, time
import numpy as np
import forebay as fb

signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background of a shell, it is ignored

def threads():
    return len(os.listdir("/proc/self/task"))

def dataset(n=20_000):
    return fb.open({"x": np.arange(n, dtype=np.float64), "y": np.arange(n)})
"""


@pytest.mark.parametrize("where", ["loader", "read"])
def test_ctrl_c_in_the_middle_of_a_wait_returns_at_once(run_python, where):
    done = run_python(
        PRELUDE
        + """
wide = fb.open({"x": np.zeros((1_500_000, 64), np.float32)})
sent = []
def interrupt():
    time.sleep(0.15)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
loader = wide.loader("x", batch_size=1_500_000, shuffle="full", framework="numpy")
threading.Thread(target=interrupt).start()
try:
    while True:           # the program does nothing but wait
        if sys.argv[1] == "read":
            wide.read()
        for batch in loader:
            del batch
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - sent[0])
loader.close()
""",
        where,
    )
    word, seconds = done.stdout.split()
    assert word == "interrupted" and float(seconds) < 1.0, done.stdout


def test_after_ctrl_c_the_epoch_goes_on_where_it_was(run_python):
    done = run_python(
        PRELUDE
        + """
ds = dataset()
loader = ds.loader("y", batch_size=1000, shuffle=False, framework="numpy")
it = iter(loader)
got = [next(it)["y"]]
armed = False             # only what the test is about is interrupted, and once: not its own lines on a busy machine
def handler(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
interrupts = 0
while True:
    try:
        armed = True
        batch = next(it, None)
        y = None if batch is None else batch["y"]
        armed = False
    except KeyboardInterrupt:
        interrupts += 1
        continue
    if batch is None:
        break
    got.append(y)
signal.setitimer(signal.ITIMER_REAL, 0)
rows = np.concatenate(got)
assert (np.diff(rows) > 0).all()
print("ok")
"""
    )
    assert done.stdout.strip().endswith("ok")


def test_a_signal_handler_may_close_the_loader(run_python):
    run_python(
        PRELUDE
        + """
wide = fb.open({"x": np.zeros((1_000_000, 64), np.float32)})
loader = wide.loader("x", batch_size=1_000_000, shuffle="full", framework="numpy")
signal.signal(signal.SIGALRM, lambda *_: loader.close())
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    while True:
        for batch in loader:
            del batch
except (fb.StateError, fb.CancelledError) as error:
    assert "closed" in str(error) or "cancelled" in str(error), error
assert loader.closed
"""
    )


def test_an_exception_in_the_consumer_leaves_no_thread_behind(run_python):
    run_python(
        PRELUDE
        + """
ds = dataset()
list(ds.loader("x", batch_size=100))  # whatever NumPy and the like start, they have started
gc.collect()
before = threads()
for _ in range(20):
    try:
        for batch in ds.loader("x", batch_size=100, framework="numpy", threads=3):
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    try:
        with ds.loader("x", batch_size=100, threads=2) as loader:
            for batch in loader:
                assert threads() > before
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert loader.closed
gc.collect()
assert threads() == before, (threads(), before)
"""
    )


def test_opening_and_exporting_leave_no_thread_behind(run_python, parquet):
    import numpy as np

    paths = [parquet({"a": np.arange(1000)}, f"many/{i}.parquet") for i in range(20)]
    run_python(
        PRELUDE
        + """
import pyarrow as pa
pa.table(fb.open(sys.argv[1]))
gc.collect()
time.sleep(0.05)
before = threads()
for _ in range(10):
    pa.table(fb.open(sys.argv[1], cache_dir=""))
    try:
        fb.open(sys.argv[1] + "/nope*")
    except fb.Error:
        pass
gc.collect()
assert threads() <= before, (threads(), before)
""",
        paths[0].parent,
    )


@pytest.mark.parametrize("how", ["module", "cycle", "iterator", "thread"])
def test_the_interpreter_exits_with_a_loader_alive(run_python, how):
    done = run_python(
        PRELUDE
        + """
loader = dataset(200_000).loader("x", batch_size=10, framework="numpy")
it = iter(loader)
next(it)
if sys.argv[1] == "cycle":
    class Node: pass
    node = Node()
    node.self, node.it, node.loader = node, it, loader
    del it, loader
elif sys.argv[1] == "iterator":
    del loader
elif sys.argv[1] == "thread":
    def consume():
        for batch in it:
            time.sleep(0.001)
    threading.Thread(target=consume, daemon=True).start()
    time.sleep(0.05)
print("end")
""",
        how,
        timeout=30,
    )
    assert done.stdout == "end\n" and "Traceback" not in done.stderr, done.stderr


def test_objects_made_before_a_fork_say_so_in_the_child(run_python):
    done = run_python(
        PRELUDE
        + """
ds = dataset()
loader = ds.loader("x", batch_size=100, framework="numpy")
it = iter(loader)
batch = next(it)
pid = os.fork()
if pid == 0:
    code = 1
    try:
        for use in (lambda: next(it), lambda: next(iter(loader))):
            try:
                use()
            except fb.StateError as error:
                assert "fork" in str(error), error
            else:
                raise AssertionError("no error")
        assert batch["x"].sum() >= 0          # what was delivered stays valid
        del batch, it, loader, ds             # and is freed without waiting for threads that are not there
        gc.collect()
        again = dataset().loader("x", batch_size=100, framework="numpy")
        assert sum(len(b["x"]) for b in again) == 20_000
        again.close()
        code = 0
    except BaseException as error:
        import traceback
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert sum(len(b["x"]) for b in it) == 19_900
print("parent ok")
""",
        timeout=40,
    )
    assert done.stdout == "parent ok\n"


def test_a_forked_child_may_exit_normally(run_python):
    done = run_python(
        PRELUDE
        + """
loader = dataset().loader("x", batch_size=100, framework="numpy")
it = iter(loader)
batch = next(it)
pid = os.fork()
if pid == 0:
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0, status
loader.close()
print("ok")
""",
        timeout=30,
    )
    assert done.stdout == "ok\n" and not done.stderr


def test_importing_before_a_fork_is_no_error(run_python):
    run_python(
        PRELUDE
        + """
import multiprocessing
def work(_):
    with dataset().loader("x", batch_size=100, framework="numpy") as loader:
        return sum(len(b["x"]) for b in loader)
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(work, range(4)) == [20_000] * 4
"""
    )


def test_spawned_processes_get_a_loader_of_their_own(run_python, parquet):
    import numpy as np

    path = parquet({"a": np.arange(5000)}, row_group_size=500)
    done = run_python(
        PRELUDE
        + """
import multiprocessing
def work(loader):
    with loader:
        return [b["a"].tolist() for b in loader]
if __name__ == "__main__":
    loader = fb.open(sys.argv[1]).loader("a", batch_size=128, seed=3, framework="numpy")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(work, (loader,))
    assert there == [b["a"].tolist() for b in loader]
    print("same")
""",
        path,
    )
    assert done.stdout == "same\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_of_a_dataloader_are_refused_with_the_reason(run_python, parquet, method):
    pytest.importorskip("torch")
    import numpy as np

    path = parquet({"a": np.arange(500)})
    done = run_python(
        """
        import sys
        import torch
        import forebay as fb

        class Wrapped(torch.utils.data.IterableDataset):
            def __init__(self, loader):
                self.loader = loader
            def __iter__(self):
                return iter(self.loader)

        if __name__ == "__main__":
            loader = fb.open(sys.argv[1]).loader("a", batch_size=100)
            inline = list(torch.utils.data.DataLoader(Wrapped(loader), batch_size=None))
            assert len(inline) == 5 and isinstance(inline[0]["a"], torch.Tensor)
            try:
                list(torch.utils.data.DataLoader(Wrapped(loader), batch_size=None, num_workers=1, multiprocessing_context=sys.argv[2]))
            except Exception as error:
                assert "worker process of a torch DataLoader" in str(error) and "num_workers=0" in str(error), error
                print("refused")
        """,
        path,
        method,
        timeout=120,
    )
    assert done.stdout == "refused\n"


def test_ranks_come_from_torch_distributed(run_python, tmp_path):
    pytest.importorskip("torch")
    done = run_python(
        """
        import sys, os
        import numpy as np
        import torch
        import torch.multiprocessing as mp
        import forebay as fb

        def work(rank, folder):
            loader = fb.open({"x": np.arange(1000)}).loader("x", batch_size=50, seed=1)   # before the group exists
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
            rows = torch.cat([b["x"] for b in loader])
            assert (loader.rank, loader.world_size, len(loader)) == (rank, 2, 10), (loader.rank, loader.world_size, len(loader))
            both = [torch.empty_like(rows), torch.empty_like(rows)]
            torch.distributed.all_gather(both, rows)
            assert torch.equal(torch.cat(both).sort().values, torch.arange(1000))
            torch.distributed.destroy_process_group()

        if __name__ == "__main__":
            mp.spawn(work, (sys.argv[1],), nprocs=2)
            print("all rows once")
        """,
        tmp_path,
        timeout=120,
    )
    assert done.stdout == "all rows once\n"


def test_waiting_lets_other_python_threads_run(run_python):
    run_python(
        PRELUDE
        + """
wide = fb.open({"x": np.zeros((1_000_000, 64), np.float32)})
ticks, stop = [], threading.Event()
def tick():
    while not stop.is_set():
        ticks.append(time.monotonic())
        time.sleep(0.001)
thread = threading.Thread(target=tick)
thread.start()
loader = wide.loader("x", batch_size=1_000_000, shuffle="full", framework="numpy")
start = time.monotonic()
for batch in loader:
    pass
took = time.monotonic() - start
loader.close()
stop.set()
thread.join()
gaps = np.diff([t for t in ticks if start <= t <= start + took])
assert len(gaps) > 5 and np.median(gaps) < 0.05, (took, len(gaps), gaps.max())
"""
    )
