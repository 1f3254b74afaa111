"""forebay.diagnose: what limits is found by measurement, and what was given is put back bit for bit."""

import json
import mmap
import random
import subprocess
import sys
import time
import types

import pytest

import forebay as fb
from forebay import _diagnose, _nvml, _sizes

np = pytest.importorskip("numpy")

N = 4000


@pytest.fixture
def ds():
    rng = np.random.default_rng(0)
    return fb.open({"x": rng.standard_normal((N, 8)).astype(np.float32), "y": rng.standard_normal(N).astype(np.float32)})


@pytest.fixture
def no_gpu(monkeypatch):
    """Also where there is one, and other tests use it."""
    monkeypatch.setattr(_diagnose._step, "cuda", lambda: None)
    monkeypatch.setattr(_nvml, "of_torch", lambda: None)


class Slow:
    """Batches that come no faster than one in `seconds`."""

    def __init__(self, loader, seconds):
        self.loader, self.seconds = loader, seconds

    def __iter__(self):
        for batch in self.loader:
            time.sleep(self.seconds)
            yield batch


def test_a_slow_step_is_the_limit(ds):
    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy")
    found = fb.diagnose(lambda batch: time.sleep(0.02), loader, seconds=1.2)
    assert found.limit == "model"
    assert 0.5 * 100 / 0.02 < found.ceiling < 1.01 * 100 / 0.02
    assert found.headroom > 5 and found.share > 0.8 and found.confidence > 0.3
    assert found.batch_size == 100 and 0.02 <= found.step < 0.04


def test_a_slow_loader_is_not_the_model(ds):
    loader = Slow(ds.loader({"x": "x"}, batch_size=100, framework="numpy"), 0.02)
    found = fb.diagnose(lambda batch: time.sleep(0.001), loader, seconds=1.2)
    assert found.limit == "loader"
    assert found.share < 0.2 and found.headroom < 0.2
    assert 0.5 * 100 / 0.02 < found.loader < 1.01 * 100 / 0.02


def sequences(n):
    """A batch as the collate functions of many make it: lists one after the other, where they begin, and a row a sample."""
    return {"values": np.zeros((10 * n, 3)), "offsets": np.arange(n + 1), "y": np.zeros(n), "names": "of no length"}


def test_a_batch_is_as_large_as_its_shortest_value():
    for batch in (sequences(10), list(sequences(10).values()), {"x": sequences(10), "y": np.zeros((10, 2))}, np.zeros((10, 7)), ["text"] * 10):
        assert _sizes.batch_size_of(batch) == 10
    assert _sizes.batch_size_of([np.zeros((20, 2)), ["text"] * 10]) == 10
    assert _sizes.batch_size_of([[np.zeros(10), np.zeros(10)], np.zeros(10)]) == 10
    for batch in ({}, {"a": 1, "b": np.float32(2), "c": np.array(3), "d": "text"}, 4, "text"):
        with pytest.raises(TypeError, match=rf"a batch of type {type(batch).__name__} has no length: it must be a tensor, or a dict or list of them"):
            _sizes.batch_size_of(batch)
    found = fb.diagnose(lambda batch: None, [sequences(10)] * 20, seconds=0.1)
    assert found.batch_size == 10


def test_a_batch_of_sequences_is_as_large_as_its_samples():
    pa = pytest.importorskip("pyarrow")
    ds = fb.open(pa.table({"x": [[1.0] * (i % 3) for i in range(40)], "text": ["some"] * 40}))
    with ds.loader({"x": "x", "text": "text"}, batch_size=10, framework="numpy") as loader:
        for batch in loader:
            assert _sizes.batch_size_of(batch) == _sizes.batch_size_of(dict(batch)) == _sizes.batch_size_of(batch["x"]) == 10


def test_of_a_loader_without_a_report_the_cures_say_what_can_be_said():
    torch = pytest.importorskip("torch")

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 2000

        def __getitem__(self, i):
            time.sleep(0.0005)
            return torch.zeros(4)

    loader = torch.utils.data.DataLoader(Rows(), batch_size=20)
    found = fb.diagnose(lambda batch: time.sleep(0.006), loader, seconds=1.2)
    assert found.limit == "loader" and ".cures says" in found.verdict and "report()" not in found.verdict
    other, workers = found.cures
    assert other.samples_per_second == found.ceiling and other.factor == pytest.approx(1 / found.share) and "forebay bench FILES" in other.why
    assert workers.change == "num_workers=1" and workers.samples_per_second == min(found.loader, found.ceiling)
    assert "cure" in str(found) and "num_workers=1" in str(found)


def test_of_a_loader_that_says_its_stage_is_the_limit(ds):
    def transform(batch):
        time.sleep(0.01)
        return batch

    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy", transform=transform)
    found = fb.diagnose(lambda batch: None, loader, seconds=0.6)
    assert found.limit == "transform"


def test_a_cure_gives_training_what_the_step_takes_and_no_more(ds):
    def transform(batch):
        time.sleep(0.02)
        return batch

    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy", transform=transform)
    found = fb.diagnose(lambda batch: time.sleep(0.008), loader, seconds=1)
    (cure,) = found.cures
    assert found.limit == "transform" and ".cures says what to change." in found.verdict
    assert cure.samples_per_second == found.ceiling and cure.factor == pytest.approx(1 / found.share)  # the loader alone could be 100 times faster


class Clock:
    """A clock in place of the time, which goes on when a step or a loader says what it takes."""

    now = 0.0
    loading = 0.0001  # a batch

    def take(self, seconds):
        self.now += seconds

    def __iter__(self):
        for _ in range(1000):
            self.take(self.loading)
            yield tuple([0] * 100)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_diagnose, "time", types.SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_what_cures_the_loader_alone_is_no_cure_for_what_it_and_the_step_compete_for(clock, monkeypatch):
    monkeypatch.setattr(_diagnose, "_of_loader", lambda before, after: ("threads", (fb.Cure("threads=8", 1e6, 4.0, "there are CPUs"),)))
    clock.loading = 0.001
    seen = []

    def step(batch):
        seen.append(batch)
        clock.take(0.004 if batch is seen[0] else 0.02)  # beside the loader it is slow

    found = fb.diagnose(step, clock, seconds=1)
    assert found.limit == "threads" and "fewer threads" in found.verdict and found.cures == ()
    clock.loading = 0.00001  # which takes no CPUs to speak of
    seen.clear()
    found = fb.diagnose(step, clock, seconds=1)
    assert found.limit == "model" and "Its work differs from batch to batch" in found.verdict and found.cures == ()


def test_speeds_that_change_meanwhile_are_said(clock):
    found = fb.diagnose(lambda batch: clock.take(0.004), clock, seconds=1)
    assert found.limit == "model" and "measure again" not in found.verdict and "at 98% of its ceiling" in found.verdict
    began = clock.now
    found = fb.diagnose(lambda batch: clock.take(0.004 if clock.now - began < 0.6 else 0.012), clock, seconds=1)
    assert "measure again" in found.verdict and "step alone 8,333 to 25,000/s" in found.verdict
    assert found.confidence < 0.6


def test_a_machine_that_grows_slower_meanwhile_is_not_seen_in_the_shares(monkeypatch):
    now = 0.0

    def take(seconds):
        nonlocal now
        now += seconds * (1 + now / 2)

    class Fast:
        def __iter__(self):
            for _ in range(1000):
                take(0.0001)
                yield [0] * 100

    monkeypatch.setattr(_diagnose, "time", types.SimpleNamespace(perf_counter=lambda: now))
    found = fb.diagnose(lambda batch: take(0.004), Fast(), seconds=1.5)
    assert found.limit == "model" and 0.9 < found.share <= 1


def test_only_what_is_lost_for_certain_is_lost():
    assert _diagnose._judge(100, 300, 80, "decode")[0] == "threads"
    assert _diagnose._judge(100, 300, 80, "decode", kept=0.84)[0] == "threads"
    assert _diagnose._judge(100, 300, 80, "decode", kept=0.90)[0] == "balanced"
    assert _diagnose._judge(100, 300, 80, "decode", kept=0.96)[0] == "model"
    assert _diagnose._judge(100, 50, 49, "decode", kept=0.6)[0] == "decode"


@pytest.mark.parametrize(
    ("ceiling", "loader", "together", "limit"),
    [
        (100, 1000, 99, "model"), (100, 600, 90, "model"), (100, 120, 90, "balanced"), (100, 300, 50, "threads"), (100, 50, 49, "decode"),
        (100, 105, 80, "decode"), (100, 900, 20, "threads"), (100, 3000, 70, "threads"), (100, 3000, 60, "model"), (100, 100_000, 50, "model"),
    ],
)  # fmt: skip
def test_the_limit_is_a_function_of_three_speeds(ceiling, loader, together, limit):
    said, clear, verdict = _diagnose._judge(ceiling, loader, together, "decode")
    assert said == limit and 0 <= clear <= 1 and verdict.endswith((".", "change."))


def test_states_come_back_bit_for_bit(ds):
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    loader = ds.loader({"x": "x", "y": "y"}, batch_size=64, framework="torch", seed=5)

    def step(batch):
        loss = (model(batch["x"])[:, 0] - batch["y"]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        random.random(), np.random.rand()
        return loss

    def everything():
        kept = (model.state_dict(), optimizer.state_dict(), scheduler.state_dict(), loader.state_dict(), random.getstate(), np.random.get_state(),
                torch.get_rng_state(), [p.grad for p in model.parameters()], [m.training for m in model.modules()])  # fmt: skip
        return repr(torch.utils._pytree.tree_map(lambda t: t.numpy().tobytes() if isinstance(t, torch.Tensor) else t, kept))

    batches = iter(loader)
    for _ in range(5):  # in the middle of an epoch, with an optimizer that has a state
        step(next(batches))
    before = everything()
    found = fb.diagnose(step, loader, seconds=0.5, model=model, optimizer=optimizer, restore=[scheduler])
    assert everything() == before
    assert found.not_restored == []
    follows = [next(iter(loader))["x"] for _ in range(1)]
    twin = iter(ds.loader({"x": "x", "y": "y"}, batch_size=64, framework="torch", seed=5))
    expected = [next(twin)["x"] for _ in range(6)]
    assert torch.equal(follows[0], expected[5])


def test_states_come_back_when_the_step_fails(ds):
    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy")
    before, state = loader.state_dict(), random.getstate()
    calls = []

    def step(batch):
        calls.append(random.random())
        if len(calls) == 5:
            raise RuntimeError("the fifth")

    with pytest.raises(RuntimeError, match="the fifth"):
        fb.diagnose(step, loader, seconds=0.2)
    assert loader.state_dict() == before and random.getstate() == state


def test_an_epoch_may_be_set_after_it_without_a_warning(ds, recwarn):
    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy")
    fb.diagnose(lambda batch: None, loader, seconds=0.1)
    loader.set_epoch(7)
    assert next(iter(loader)).epoch == 7
    assert not [str(w.message) for w in recwarn if "set_epoch" in str(w.message)]


def test_what_cannot_be_put_back_is_said(ds):
    class Odd:
        def state_dict(self):
            return {"a": 1}

        def load_state_dict(self, state):
            raise OSError("no room")

    found = fb.diagnose(lambda batch: None, Slow(ds.loader({"x": "x"}, batch_size=500, framework="numpy"), 0.001), seconds=0.1, restore=[Odd(), 3])
    text = "\n".join(found.not_restored)
    assert "give model=" in text and "give optimizer=" in text
    assert "Slow has no state_dict()" in text
    assert "Odd" in text and "no room" in text and "int" in text
    assert "not restored" in str(found)


def test_parts_of_a_step_are_told_apart(ds, no_gpu):
    torch = pytest.importorskip("torch")

    class Sleeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            time.sleep(0.004)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            time.sleep(0.04)
            return grad

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, x):
            return Sleeps.apply(self.layer(x))

    class Sgd(torch.optim.SGD):
        def step(self, closure=None):
            time.sleep(0.002)
            return super().step(closure)

    model = Model()
    optimizer = Sgd(model.parameters(), 0.01)
    loader = ds.loader({"x": "x"}, batch_size=100, framework="torch")
    backward = torch.autograd.backward

    def step(batch):
        optimizer.zero_grad()
        model(batch["x"]).mean().backward()
        optimizer.step()

    found = fb.diagnose(step, loader, seconds=0.6, model=model, optimizer=optimizer)
    assert 0.003 < found.forward < found.backward / 2 and found.backward > 0.03  # of a step as it is without what measures its parts
    assert 0.0015 < found.optimizer < found.backward / 2
    assert found.forward + found.backward + found.optimizer <= found.step
    assert found.flops == 2 * 100 * 8 * 2  # forward, and the weights' gradient
    assert found.transfer is None and found.peak is None and found.gpu is None
    assert torch.autograd.backward is backward
    assert not model._forward_hooks and not model._forward_pre_hooks


def test_parts_are_of_a_step_that_nothing_makes_slower(clock, no_gpu, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(_diagnose._step, "time", _diagnose.time)

    class Model(torch.nn.Module):
        def slowly(self, seconds):
            clock.take(seconds * (3 if self._forward_hooks else 1))  # while parts are measured

        def forward(self, x):
            self.slowly(0.003)
            return x

    model = Model()

    def step(batch):
        model(batch)
        model.slowly(0.001)

    found = fb.diagnose(step, clock, seconds=1, model=model)
    assert found.step == pytest.approx(0.004) and found.forward == pytest.approx(0.003)


def test_memory_that_is_taken_anew_in_each_step_is_said(ds, no_gpu):
    n = 64 << 20

    def step(batch):
        with mmap.mmap(-1, n) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            memory[:: mmap.PAGESIZE] = bytes(n // mmap.PAGESIZE)

    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy")
    found = fb.diagnose(step, loader, seconds=0.6)
    assert found.pages >= n // mmap.PAGESIZE and 0.15 < found.paging <= 1 and found.limit == "model"
    assert "MALLOC_TRIM_THRESHOLD_=2147483647 MALLOC_MMAP_MAX_=0" in found.verdict and f"{found.pages:,.0f} pages" in str(found)
    quiet = fb.diagnose(lambda batch: time.sleep(0.005), loader, seconds=0.3)
    assert quiet.pages < 256 and "MALLOC" not in quiet.verdict and "kernel" not in str(quiet)


def test_operations_of_recurrent_layers_are_not_known(ds):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LSTM(8, 8, batch_first=True))
    loader = ds.loader({"x": "x"}, batch_size=100, framework="torch")
    found = fb.diagnose(lambda batch: model(batch["x"][:, None]), loader, seconds=0.1, model=model)
    assert found.flops is None and found.peak is None and "FLOP" not in str(found)
    assert fb.diagnose(lambda batch: model[0](batch["x"]), loader, seconds=0.1, model=model[0]).flops == 2 * 100 * 8 * 8


def test_what_runs_inside_a_part_is_not_counted_twice(ds):
    torch = pytest.importorskip("torch")

    class Sleeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            time.sleep(0.02)
            return grad

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, x, deep=True):
            time.sleep(0.004)
            return self(x, deep=False) if deep else Sleeps.apply(self.layer(x))

    class Sgd(torch.optim.SGD):
        def step(self, closure):
            time.sleep(0.002)
            return super().step(closure)

    model = Model()
    optimizer = Sgd(model.parameters(), 0.01)

    def step(batch):
        def closure():
            optimizer.zero_grad()
            loss = model(batch["x"]).mean()
            loss.backward()
            return loss

        return optimizer.step(closure)

    found = fb.diagnose(step, ds.loader({"x": "x"}, batch_size=100, framework="torch"), seconds=0.6, model=model, optimizer=optimizer)
    assert 0.0015 < found.optimizer < found.forward < found.backward and found.forward > 0.006
    assert found.forward + found.backward + found.optimizer <= found.step


def test_batch_sizes_are_tried(ds):
    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy")
    found = fb.diagnose(lambda batch: time.sleep(0.005 if len(batch["x"]) < 1000 else 0.05), loader, seconds=0.6, batch_sizes=(100, 400, 1000))
    assert [one.batch_size for one in found.batch_sizes] == [100, 400, 1000]
    assert found.best_batch_size == 400
    assert all(one.memory_bytes > 0 for one in found.batch_sizes)
    assert "batch 400" in str(found) and "best" in str(found)


def test_a_batch_size_that_does_not_fit_is_said():
    tried = [
        fb.BatchSize(256, 100.0, 10), fb.BatchSize(512, 190.0, 85), fb.BatchSize(1024, 300.0, 95), fb.BatchSize(2048, None, None),
    ]  # fmt: skip
    assert _diagnose._best(tried, 100) == 512
    assert _diagnose._best(tried, None) == 1024
    assert _diagnose._best(tried[3:], 100) is None

    def step(batch):
        if len(batch["x"]) > 500:
            raise MemoryError

    loader = fb.open({"x": np.zeros(2000)}).loader({"x": "x"}, batch_size=100, framework="numpy")
    found = fb.diagnose(step, loader, seconds=0.2, batch_sizes=(100, 1000))
    assert found.batch_sizes[1].samples_per_s is None and "out of memory" in str(found)


def test_the_table_aligns_and_speaks_html_and_json(ds, tmp_path):
    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy")
    found = fb.diagnose(lambda batch: time.sleep(0.002), loader, seconds=0.3, batch_sizes=(100,))
    lines = str(found).splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == ["step alone", "loader alone", "together"]
    assert len({line.index("%") for line in lines[:3]}) == 1
    assert lines[-3].startswith("limit") and "confidence" in lines[-3] or "not restored" in lines[-1]
    assert repr(found) == str(found)
    said = json.loads(found.to_json())
    assert said["limit"] == found.limit and said["ceiling"] == found.ceiling and said["batch_sizes"][0]["batch_size"] == 100
    page = found._repr_html_()
    assert page.startswith("<table>") and page.count("<tr>") == page.count("</tr>") and "step alone" in page
    found.save(tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text()) == said
    found.html(tmp_path / "found.html", "a <small> model")
    whole = (tmp_path / "found.html").read_text()
    assert whole.startswith("<!doctype html>") and page in whole and "prefers-color-scheme: dark" in whole
    assert "<title>a &lt;small&gt; model</title>" in whole and "<script" not in whole and "http" not in whole


def test_what_cannot_be_measured_is_refused(ds):
    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy")
    with pytest.raises(TypeError, match="give the loader itself"):
        fb.diagnose(lambda batch: None, iter(loader))
    for step in (3, loader):
        with pytest.raises(TypeError, match=f"^step is a {type(step).__name__}: give a function that takes a batch"):
            fb.diagnose(step, loader)
    with pytest.raises(TypeError, match="^loader is a function: give what `for batch in loader` goes through"):
        fb.diagnose(print, lambda: loader)
    with pytest.raises(TypeError, match=r"^restore is a Generator: give a list, restore=\[scheduler\]"):
        fb.diagnose(print, loader, restore=np.random.default_rng(0))
    for seconds in (0, -1, None, "10", float("nan"), float("inf")):
        with pytest.raises(ValueError, match="it must be a number, and more than 0"):
            fb.diagnose(lambda batch: None, loader, seconds=seconds)
    with pytest.raises(ValueError, match="no batch"):
        fb.diagnose(lambda batch: None, [], seconds=0.1)
    with pytest.raises(TypeError, match="no length"):
        fb.diagnose(lambda batch: None, [1, 2], seconds=0.1)
    with pytest.raises(TypeError, match="needs a forebay.Loader"):
        fb.diagnose(lambda batch: None, [[1, 2]] * 50, seconds=0.1, batch_sizes=(3,))
    steps = []
    with pytest.raises(ValueError, match="a batch of 4000 only"):
        fb.diagnose(steps.append, loader, seconds=0.1, batch_sizes=(5000,))
    with pytest.raises(TypeError, match=r"batch_sizes=512: give several, such as \(256, 512, 1024\)"):
        fb.diagnose(steps.append, loader, seconds=0.1, batch_sizes=512)
    assert not steps  # before anything was measured


def test_a_step_of_jax_is_waited_for(ds):
    jax = pytest.importorskip("jax")

    @jax.jit
    def update(w, x):
        for _ in range(30):
            x = jax.numpy.tanh(x @ w)
        return w + x.mean()

    w = jax.numpy.zeros((8, 8))
    x = jax.numpy.zeros((100_000, 8))

    def step(batch):
        nonlocal w
        w = update(w, x)
        return w

    jax.block_until_ready(step(None))  # compiles
    began = time.perf_counter()
    for _ in range(3):
        jax.block_until_ready(step(None))
    one = (time.perf_counter() - began) / 3
    loader = ds.loader({"x": "x"}, batch_size=100, framework="numpy")
    found = fb.diagnose(step, loader, seconds=0.6)
    assert found.step > one / 20  # without waiting it would be the time of a call


def test_figures_are_of_three_digits_without_exponents():
    for value, text in ((0.5, "0.5"), (1.234, "1.23"), (99.96, "100"), (1234.5, "1,234")):
        assert _sizes.format_figure(value) == text
    for value, text in ((999.7, "1 k"), (12_345, "12.3 k"), (8.74e8, "874 M"), (1.5e13, "15 T")):
        assert _sizes.format_scaled(value) == text


def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Working:
    """A map-style dataset for a DataLoader: how many of its items are being made just now is in `working`."""

    def __init__(self, working):
        self.working = working

    def __len__(self):
        return 100

    def __getitem__(self, i):
        with self.working.get_lock():
            self.working.value += 1
        burn(0.05)
        with self.working.get_lock():
            self.working.value -= 1
        return np.float32(i)


class Noting:
    """A loader that knows whether somebody goes through it."""

    def __init__(self, loader):
        self.loader, self.used = loader, False

    def __iter__(self):
        self.used = True
        try:
            yield from self.loader
        finally:
            self.used = False


def test_the_step_is_measured_when_workers_that_stay_have_filled_their_queues():
    torch = pytest.importorskip("torch")
    import multiprocessing

    working = multiprocessing.Value("i", 0)
    loader = Noting(torch.utils.data.DataLoader(Working(working), 4, num_workers=1, persistent_workers=True, prefetch_factor=4))
    seen = []

    def step(batch):
        time.sleep(0.002)
        if not loader.used:
            seen.append(working.value)

    found = fb.diagnose(step, loader, seconds=1.5)
    assert found.limit == "loader"
    assert len(seen) > 20 and max(seen) == 0


WAITING = """
import threading, time
from forebay._idle import settle

def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass

assert settle(10)
thread = threading.Thread(target=burn, args=(0.4,))
thread.start()
assert settle(30) and not thread.is_alive()
thread = threading.Thread(target=burn, args=(1.0,))
thread.start()
assert not settle(0.3) and thread.is_alive()
thread.join()
"""


def test_waiting_for_what_a_loader_left_running_ends():
    subprocess.run([sys.executable, "-c", WAITING], check=True, timeout=120)  # a process of its own: other tests leave threads that work
