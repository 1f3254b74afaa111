"""Your own code on batches: order, errors, state, and how the thread ends. What may hang is in test_transform_processes.py."""

import copy
import functools
import gc
import pickle
import threading
import time
import traceback

import pytest

import forebay as fb

np = pytest.importorskip("numpy")

N = 1000


def thread_is_gone(seconds=5.0):
    until = time.monotonic() + seconds
    while any(t.name == "forebay-transform" for t in threading.enumerate()):
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    gc.collect()
    assert thread_is_gone()


@pytest.fixture
def ds():
    return fb.open({"a": np.arange(N), "x": np.sin(np.arange(N)).astype("float32")})


def loader_of(ds, transform, **options):
    options = {"batch_size": 64, "seed": 1, "framework": "numpy", "check": False, **options}
    return ds.rows().loader({"a": "a", "x": "x"}, **options, transform=transform)


def doubled(batch):
    return {"a2": batch["a"] * 2, "n": len(batch["a"])}


def refuse(batch, *, index=0):
    if batch.index == index:
        raise KeyError(f"no basin in batch {batch.index}")
    return batch


def test_results_are_what_the_transform_returns_in_the_order_of_the_batches(ds):
    plain = [b["a"] for b in loader_of(ds, None)]
    main = threading.get_ident()
    seen = []

    def transform(batch):
        time.sleep(0.001 * (batch.index % 3))
        seen.append((batch.epoch, batch.index, threading.get_ident() != main))
        return doubled(batch)

    loader = loader_of(ds, transform)
    for epoch in range(2):
        got = list(loader)
        assert len(got) == len(loader) == 16 and loader.epoch == epoch
        if epoch == 0:
            assert all((g["a2"] == 2 * p).all() for g, p in zip(got, plain, strict=True))
    assert seen == [(e, i, True) for e in range(2) for i in range(16)]


@pytest.mark.parametrize("as_", ["dict", "tuple", "namedtuple"])
@pytest.mark.parametrize("framework", ["numpy", "torch", "buffer"])
def test_the_transform_gets_what_the_program_would_get(ds, as_, framework):
    if framework == "torch":
        pytest.importorskip("torch")
    kinds = []
    plain = next(iter(loader_of(ds, None, as_=as_, framework=framework)))
    got = next(iter(loader_of(ds, lambda b: kinds.append(type(b)) or b, as_=as_, framework=framework)))
    tensors = got.values() if as_ == "dict" else got
    assert [type(t) for t in tensors] == [type(t) for t in (plain.values() if as_ == "dict" else plain)]
    assert kinds[0].__name__ == type(plain).__name__ == type(got).__name__


def test_an_error_comes_at_its_batch_with_its_traceback_and_the_epoch_is_over(ds):
    loader = loader_of(ds, functools.partial(refuse, index=5))
    it = iter(loader)
    assert [next(it).index for _ in range(5)] == list(range(5))
    with pytest.raises(KeyError, match="no basin in batch 5") as caught:
        next(it)
    text = "".join(traceback.format_exception(caught.value))
    assert "in refuse" in text
    if hasattr(caught.value, "add_note"):
        assert "transform refuse, batch 5 of epoch 0" in text
    assert next(it, None) is None
    assert loader.state_dict()["batch"] == 5
    assert loader_of(ds, None).state_dict()["dataset"] == loader.state_dict()["dataset"]
    with pytest.raises(KeyError):
        list(loader)
    assert loader.epoch == 1


def test_none_stopiteration_and_what_is_no_function(ds):
    with pytest.raises(TypeError, match=r"transform .*<lambda>, batch 0 of epoch 0: it returned None: return the batch"):
        next(iter(loader_of(ds, lambda batch: None)))

    def stops(batch):
        raise StopIteration

    with pytest.raises(RuntimeError, match="stops, batch 0 of epoch 0: it raised StopIteration"):
        next(iter(loader_of(ds, stops)))
    with pytest.raises(TypeError, match="transform='double': give a function"):
        loader_of(ds, "double")

    async def later(batch):
        return batch

    with pytest.raises(TypeError, match="async function"):
        loader_of(ds, later)
    for wrong in (0, -1, 2000, "2"):
        with pytest.raises((ValueError, TypeError), match="transform_prefetch"):
            loader_of(ds, doubled, transform_prefetch=wrong)


def test_an_error_of_the_loader_comes_through(parquet):
    pa = pytest.importorskip("pyarrow")
    path = parquet(pa.table({"i": pa.array([1, 2, None, 4], pa.int64())}), row_group_size=1)
    loader = fb.open(path).rows().loader({"i": "i"}, batch_size=1, shuffle=False, framework="numpy", transform=lambda b: int(b["i"][0]))
    it = iter(loader)
    assert [next(it), next(it)] == [1, 2]
    with pytest.raises(fb.DataError):
        next(it)
    assert next(it, None) is None


@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_it_runs_ahead_by_transform_prefetch(ds, prefetch):
    calls = []
    loader = loader_of(ds, lambda b: calls.append(b.index) or b, transform_prefetch=prefetch)
    it = iter(loader)
    for taken in range(4):
        until = time.monotonic() + 5
        while len(calls) < taken + prefetch and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(0.02)
        assert len(calls) == taken + prefetch
        assert loader.state_dict()["batch"] == taken
        assert next(it).index == taken
    loader.close()


def test_state_counts_what_the_program_received_and_resumes_there(ds):
    expect = [b["a"] for b in loader_of(ds, None)]
    first = loader_of(ds, doubled)
    it = iter(first)
    assert first.state_dict()["batch"] == 0
    for _ in range(7):
        next(it)
    time.sleep(0.05)  # the thread is ahead
    state = first.state_dict()
    assert (state["epoch"], state["batch"]) == (0, 7)
    second = loader_of(ds, doubled)
    second.load_state_dict(state)
    rest = [b["a2"] for b in second]
    assert all((g == 2 * e).all() for g, e in zip(rest, expect[7:], strict=True))
    assert (second.state_dict()["epoch"], second.state_dict()["batch"]) == (1, 0)

    first.load_state_dict(state)  # in the middle of an epoch, with the thread at work
    with pytest.raises(fb.Error, match="is over"):
        next(it)
    assert first.state_dict() == state
    assert len(list(first)) == 9
    del it
    list_of_all = loader_of(ds, doubled)
    for _ in list_of_all:
        last = list_of_all.state_dict()
    assert (last["epoch"], last["batch"]) == (0, 16)


def test_break_ends_the_thread_and_the_next_loop_is_the_next_epoch(ds):
    loader = loader_of(ds, lambda b: b)
    for batch in loader:
        if batch.index == 3:
            break
    assert thread_is_gone()  # while the loader lives, and nobody asked it for anything
    assert loader.state_dict()["batch"] == 4
    assert [b.epoch for b in loader] == [1] * 16
    loader.set_epoch(0)
    assert sorted(np.concatenate([b["a"] for b in loader])) == list(range(N))


def test_a_second_iter_ends_the_first(ds):
    loader = loader_of(ds, lambda b: b)
    one = iter(loader)
    next(one)
    two = iter(loader)
    with pytest.raises(fb.Error, match="iter\\(\\) was called again"):
        next(one)
    del one
    assert next(two).epoch == 1 and len(list(two)) == 15


def test_close_waits_for_the_call_that_runs_and_the_iterator_says_so(ds):
    inside, done = threading.Event(), []

    def slow(batch):
        inside.set()
        time.sleep(0.2)
        done.append(batch.index)
        return batch

    loader = loader_of(ds, slow)
    it = iter(loader)
    inside.wait()
    loader.close()
    assert done == [0] and thread_is_gone(0.5) and loader.closed
    with pytest.raises(fb.Error, match="closed"):
        next(it)
    with pytest.raises(fb.Error, match="closed"):
        loader.state_dict()
    loader.close()


def test_another_thread_may_close_while_the_program_waits(ds):
    hold = threading.Event()

    def slow(batch):
        hold.wait(10)
        return batch

    loader = loader_of(ds, slow)
    it = iter(loader)

    def close():
        time.sleep(0.1)
        closer = threading.Thread(target=loader.close)  # waits for the call
        closer.start()
        time.sleep(0.1)
        hold.set()
        closer.join()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(fb.Error, match="closed"):
        next(it)
    thread.join()


def test_a_loader_that_is_forgotten_takes_its_thread_along(ds):
    class Kept:
        pass

    kept = Kept()
    loader = loader_of(ds, lambda b, kept=kept: b)
    it = iter(loader)
    next(it)
    del loader
    assert next(it).index == 1  # the iterator goes on alone
    del it, kept
    assert thread_is_gone()
    cycle = [loader_of(ds, doubled)]
    cycle.append(iter(cycle[0]))
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert thread_is_gone()


def test_the_transform_may_close_its_own_loader(ds):
    def transform(batch):
        if batch.index == 3:
            loader.close()
        return batch

    loader = loader_of(ds, transform)
    with pytest.raises(fb.Error, match="closed"):
        list(loader)


def test_pickling_needs_a_transform_that_pickles(parquet):
    import sys

    path = parquet({"a": np.arange(100)})
    rows = fb.open(path).rows()
    loader = rows.loader({"a": "a"}, batch_size=10, framework="numpy", transform=doubled)
    again = pickle.loads(pickle.dumps(loader))
    assert next(iter(again))["n"] == 10
    local = rows.loader({"a": "a"}, batch_size=10, framework="numpy", transform=lambda b: b)
    if not {"cloudpickle", "dill"} & set(sys.modules):
        with pytest.raises(pickle.PicklingError, match=r"transform .*<lambda> cannot be pickled .*top level of a module"):
            pickle.dumps(local)
    assert next(iter(copy.deepcopy(local))).index == 0
    assert next(iter(copy.copy(local))).index == 0


def test_check_runs_one_batch_now_and_moves_nothing(ds):
    calls = []
    loader = loader_of(ds, lambda b: calls.append(b["a"].tolist()) or doubled(b))
    assert calls == []
    assert loader.check()["n"] == 64 and calls == [list(range(64))]
    assert loader.state_dict()["batch"] == 0 and loader.epoch is None
    with pytest.raises(KeyError, match="no basin") as caught:
        loader_of(ds, refuse).check()
    if hasattr(caught.value, "add_note"):
        assert "transform refuse, the first batch in file order" in "".join(caught.value.__notes__)
    assert loader_of(ds, None).check().index == 0


def test_one_that_never_works_is_refused_when_the_loader_is_made(ds):
    def wants_y(batch):
        return batch["y"]

    with pytest.raises(fb.ArgumentError, match=r"transform .*wants_y fails on the first batch in file order: KeyError: 'y'\.") as caught:
        loader_of(ds, wants_y, check=True)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "It was given a int64 (64,), x float32 (64,); check=False makes the loader" in str(caught.value)
    assert "in wants_y" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(ValueError, match=r"TypeError: transform .*<lambda>, the first batch in file order: it returned None"):
        ds.rows().loader("a", batch_size=8, framework="numpy", transform=lambda batch: None)  # by default
    with pytest.raises(ValueError, match=r"broadcast .*It was given x float32 \(64, 2\)"):
        ds.rows().loader({"x": ["a", "x"]}, batch_size=64, framework="numpy", transform=lambda batch: batch["x"] + np.zeros(3))
    with pytest.raises(KeyError):
        next(iter(loader_of(ds, wants_y, check=False)))

    def interrupted(batch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loader_of(ds, interrupted, check=True)


def test_trying_it_once_moves_neither_order_nor_state(ds):
    calls = []

    def seen(batch):
        calls.append((batch.epoch, batch.index, threading.get_ident()))
        return batch["a"].tolist()

    tried, plain = loader_of(ds, seen, check=True), loader_of(ds, lambda b: b["a"].tolist())
    assert calls == [(0, 0, threading.get_ident())]
    assert tried.state_dict() == plain.state_dict() and tried.epoch is None and len(tried) == len(plain)
    for _ in range(2):
        assert list(tried) == list(plain)
    state = {**plain.state_dict(), "epoch": 1, "batch": 7}
    tried.load_state_dict(state)
    plain.load_state_dict(state)
    assert tried.state_dict() == plain.state_dict()
    assert list(tried) == list(plain)
    assert tried.report().batches == plain.report().batches  # the first call's batch is another loader's


def test_a_loader_of_rows_alone_is_tried_and_one_that_is_unpickled_is_not(parquet):
    rows = fb.open(parquet({"k": np.repeat(np.arange(20), 5), "a": np.arange(100)})).groups("k")
    loader = rows.loader({"a": "a"}, batch_elements=12, framework="numpy", transform=count_calls)
    assert loader.check().values.tolist() == list(range(10))
    before = len(CALLS)
    again = pickle.loads(pickle.dumps(loader))
    assert len(CALLS) == before > 0
    assert [b.values.tolist() for b in again] == [b.values.tolist() for b in loader]


CALLS = []


def count_calls(batch):
    CALLS.append(batch.index)
    return batch["a"]


def test_the_report_has_its_time_and_names_it_when_it_is_the_limit(ds):
    loader = loader_of(ds, lambda b: time.sleep(0.005) or b)
    assert loader.report().transform_ns == 0
    for _ in loader:
        pass
    report = loader.report()
    assert 16 * 5_000_000 <= report.transform_ns <= report.elapsed_ns
    assert report.wait_ns > report.transform_ns // 2 and report.wait_p50_ns > 0 and report.first_batch_ns > 0
    assert report.limit == "transform" and 0 < report.confidence < 1
    assert "transform is the limit" in report.verdict and "transform" in str(report)
    slow = loader_of(ds, lambda b: time.sleep(0.15) or b, batch_size=500)  # longer than a slice between looks at signals
    assert len(list(slow)) == 2 and slow.report().wait_max_ns > 100_000_000
    fast = loader_of(ds, doubled)
    assert fast.report().limit == "too_early"
    for _ in fast:
        time.sleep(0.005)
    report = fast.report()
    assert report.limit != "transform" and (report.limit == "model" or report.wait_ns > report.work_ns // 20)


def test_the_context_of_iter_is_that_of_the_transform(ds):
    import contextvars

    var = contextvars.ContextVar("var", default=0)
    var.set(7)
    assert next(iter(loader_of(ds, lambda b: var.get()))) == 7


# ---- frameworks ----


def test_inside_a_torch_dataloader_and_on_a_device(ds):
    torch = pytest.importorskip("torch")
    import forebay.torch

    data = forebay.torch.IterableDataset(ds.rows(), ["a", "x"], batch_size=64, transform=lambda b: (b["x"] + 1, [b["a"]]), device="cpu")
    got = list(torch.utils.data.DataLoader(data, batch_size=None))
    assert len(got) == 16 and got[0][0].dtype == torch.float32 and isinstance(got[0][1], list)
    assert torch.equal(torch.cat([a for _, (a,) in got]).sort().values, torch.arange(N))
    assert data.sample(3)["a"] == 3  # one sample, as it is in the data
    data.close()
    if torch.cuda.is_available():
        moved = next(iter(loader_of(ds, lambda b: [b["x"], {"a": b["a"]}], framework="torch", device="cuda")))
        assert moved[0].is_cuda and moved[1]["a"].is_cuda


def test_under_lightning(ds, tmp_path):
    pytest.importorskip("lightning")
    torch = pytest.importorskip("torch")
    import forebay.lightning
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen = []

        def training_step(self, batch, i):
            self.seen.append(batch["twice"])
            return self.layer(batch["twice"][:, None].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    data = forebay.lightning.DataModule(ds.rows(), outputs=["a"], batch_size=64, transform=lambda b: {"twice": 2 * b["a"]})
    model = Model()
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(model, data)
    assert torch.equal(torch.cat(model.seen).sort().values, torch.arange(N).repeat_interleave(2) * 2)
    data.close()


def test_with_jax(ds):
    jax = pytest.importorskip("jax")
    import forebay.jax

    kinds = []

    def transform(batch):
        kinds.append(isinstance(batch["x"], jax.Array))
        return (batch["x"] * 2, batch["a"])

    for device in (None, jax.devices()[0]):
        loader = forebay.jax.Loader(ds.rows(), ["a", "x"], batch_size=64, shuffle=False, transform=transform, device=device)
        got = list(loader)
        assert all(kinds) and isinstance(got[0][0], jax.Array)
        assert np.allclose(np.concatenate([np.asarray(x) for x, _ in got]), 2 * np.sin(np.arange(N)), atol=1e-6)
        loader.close()


def test_results_that_nobody_takes_are_released_when_the_epoch_is_left(ds):
    import weakref

    class Result:
        pass

    made = []

    def transform(batch):
        result = Result()
        made.append(weakref.ref(result))
        return result

    loader = loader_of(ds, transform, transform_prefetch=4)
    it = iter(loader)
    until = time.monotonic() + 5
    while len(made) < 4 and time.monotonic() < until:
        time.sleep(0.002)
    assert len(made) == 4 and all(ref() is not None for ref in made)
    del it
    assert thread_is_gone() and all(ref() is None for ref in made)


def test_a_result_may_close_its_loader_as_it_goes(ds):
    class Result:
        def __del__(self):
            loader.close()

    made = []
    loader = loader_of(ds, lambda b: made.append(b.index) or Result())
    it = iter(loader)
    until = time.monotonic() + 5
    while len(made) < 2 and time.monotonic() < until:
        time.sleep(0.002)
    del it
    assert thread_is_gone() and loader.closed


def test_another_process_of_a_dataloader_is_refused(ds):
    torch = pytest.importorskip("torch")
    import forebay.torch

    data = forebay.torch.IterableDataset(ds.rows(), ["a"], batch_size=64, transform=doubled)
    with pytest.raises(fb.StateError, match="num_workers=0"):
        next(iter(torch.utils.data.DataLoader(data, batch_size=None, num_workers=1, multiprocessing_context="fork")))
    data.close()
