"""forebay.torch: as a dataset of PyTorch's, and under torchrun and mpirun; the gradients of many ranks are those of one."""

import contextlib
import functools
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import types
import weakref

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, random_split  # noqa: E402

import forebay.torch  # noqa: E402

N = 1000


@pytest.fixture
def ds():
    a = np.arange(N)
    return fb.open({"a": a, "x": np.stack([np.sin(a), np.cos(a)], 1).astype("float32"), "s": [str(v) for v in a]})


@pytest.fixture
def data(ds):
    with_outputs = forebay.torch.IterableDataset(ds.rows(), ["a", "x"], batch_size=64, seed=2)
    yield with_outputs
    with_outputs.close()


def test_bare_and_inside_a_dataloader(data):
    assert isinstance(data, torch.utils.data.IterableDataset) and len(data) == 16 and data.batch_size == 64
    bare = [b["a"] for b in data]
    loader = torch.utils.data.DataLoader(data, batch_size=None)
    assert len(loader) == 16
    data.set_epoch(0)
    wrapped = [b["a"] for b in loader]
    assert all(torch.equal(x, y) for x, y in zip(bare, wrapped, strict=True)) and torch.equal(torch.cat(bare).sort().values, torch.arange(N))
    assert not torch.equal(torch.cat([b["a"] for b in loader]), torch.cat(bare))  # the next epoch


def test_a_hand_written_loop_over_tuples_runs_unchanged(ds):
    loader = ds.loader({"x": "x", "y": "a", "row": fb.sample_index()}, batch_size=64, as_="tuple")
    seen = 0
    for x, y, _ in loader:
        assert x.shape == (len(y), 2) and x.dtype == torch.float32
        seen += len(y)
    assert seen == len(loader.dataset) == N and loader.batch_size == 64 and len(loader) == 16
    loader.close()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64"])
def test_tensors_are_the_same_with_and_without_the_c_functions_of_dlpack(dtype, monkeypatch):
    ds = fb.open({"a": np.arange(N) % (2 if dtype == "bool" else 200), "s": [str(v) for v in range(N)]})
    outputs = {"a": fb.col("a", dtype=dtype), "s": fb.col("s")}
    fast = ds.loader(outputs, batch_size=64, seed=2)
    from forebay import _delivery

    table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)  # from PyTorch 2.10 on
    assert _delivery._converter("torch")[1] is table
    monkeypatch.setattr(_delivery, "_converter", lambda framework: (torch.utils.dlpack.from_dlpack, None))
    plain = ds.loader(outputs, batch_size=64, seed=2)
    kept = list(zip(fast, plain, strict=True))
    fast.close()
    plain.close()
    for x, y in kept:  # after the loaders are gone
        assert x["a"].dtype == y["a"].dtype == getattr(torch, dtype) and torch.equal(x["a"], y["a"]) and x["s"].to_list() == y["s"].to_list()
        x["a"].zero_()  # writable, and each its own
    assert len(kept) == 16 and all(not x["a"].any() for x, _ in kept)


def test_a_progress_bar_knows_how_far_it_is(ds):
    tqdm = pytest.importorskip("tqdm")
    out = io.StringIO()
    with ds.loader(["a", "x"], batch_size=64, as_="tuple") as loader:
        for make in (lambda: loader, lambda: torch.utils.data.DataLoader(forebay.torch.IterableDataset(loader), batch_size=None)):
            bar = tqdm.tqdm(make(), file=out, mininterval=0)
            assert bar.total == len(loader) == 16
            for k, (a, x) in enumerate(bar):
                assert bar.n == k
            assert bar.n == 16
    assert "100%" in out.getvalue() and "16/16" in out.getvalue()


def test_what_wraps_a_loader_has_what_a_loader_has(data):
    with data:
        assert len(data) == len(data.loader) and data.batch_size == 64 and data.dataset is data.loader.dataset and len(data.dataset) == N
        assert next(iter(data))["a"].numel() == 64 and data.report().batches == data.loader.report().batches > 0
        state = data.state_dict()
        data.set_epoch(3)
        assert (data.state_dict()["epoch"], data.state_dict()["batch"]) == (3, 0)
        data.load_state_dict(state)
        assert data.state_dict() == state == data.loader.state_dict() and state["batch"] == 1
    assert data.loader.closed


def test_single_samples_for_looking_at_them(ds):
    with_all = forebay.torch.IterableDataset(ds, None, batch_size=64)
    for i in (0, 17, N - 1, -1):
        sample = with_all.sample(i)
        at = i % N
        assert sample["a"].item() == at and sample["s"] == str(at) and sample["x"].shape == (2,)
    for i in (N, -N - 1):
        with pytest.raises(IndexError, match=f"sample {i} of 1000"):
            with_all.sample(i)
    assert [b["a"].numel() for b in with_all][:2] == [64, 64]  # looking did not move the loader
    with_all.close()


def test_a_loader_is_taken_as_it_is(ds):
    data = forebay.torch.IterableDataset(ds.loader("a", batch_size=10))
    assert len(data) == 100 and pickle.loads(pickle.dumps(forebay.torch.IterableDataset(ds.loader("a", batch_size=10)).loader._options))["batch_size"] == 10
    with pytest.raises(TypeError, match="outputs and options already"):
        forebay.torch.IterableDataset(data.loader, batch_size=3)
    with pytest.raises(ValueError, match="gives numpy batches"):
        forebay.torch.IterableDataset(ds.loader("a", batch_size=10, framework="numpy"))


def test_the_module_is_not_torch():
    assert forebay.torch is not torch and issubclass(forebay.torch.IterableDataset, torch.utils.data.IterableDataset)
    assert fb._delivery.choose_framework(None) == "torch"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_torchdatas_stateful_dataloader_saves_and_restores_it(ds):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def make():
        return stateful.StatefulDataLoader(forebay.torch.IterableDataset(ds.rows(), "a", batch_size=64, seed=1), batch_size=None)

    first = make()
    iterator = iter(first)
    for _ in range(5):
        next(iterator)
    state = pickle.loads(pickle.dumps(first.state_dict()))
    rest = [b["a"].tolist() for b in iterator]
    second = make()
    second.load_state_dict(state)
    assert len(rest) == 11 and [b["a"].tolist() for b in second] == rest


def test_batches_go_to_a_device_as_they_are(ds):
    with ds.loader(["a", "s"], batch_size=100, device="cpu", shuffle=False) as loader:
        batch = next(iter(loader))
        assert type(batch) is fb.Batch and batch.index == 0 and batch["a"].device.type == "cpu" and batch["s"].to_list()[:3] == ["0", "1", "2"]
    with ds.loader(["a", "x"], batch_size=100, device="meta", as_="namedtuple") as loader:
        batch = next(iter(loader))
        assert batch.x.device.type == "meta" and batch.x.shape == (100, 2) and type(batch).__name__ == "Batch"
    with pytest.raises(ValueError, match="needs torch tensors"):
        ds.loader("a", batch_size=1, device="cuda", framework="numpy")
    for device, said in (("gpu", "device='gpu' is no device of torch: 'cpu', 'cuda'"), (f"cuda:{torch.cuda.device_count()}", "device='cuda:.': torch sees")):
        with pytest.raises(ValueError, match=said):
            ds.loader("a", batch_size=1, device=device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_batches_on_a_gpu_hold_the_same_values(ds):
    with ds.loader(["a", "x"], batch_size=100, device="cuda", seed=1) as there, ds.loader(["a", "x"], batch_size=100, seed=1) as here:
        for x, y in zip(there, here, strict=True):
            assert x["x"].is_cuda and torch.equal(x["x"].cpu(), y["x"]) and torch.equal(x["a"].cpu(), y["a"])


class Pinnable:
    """A tensor that says what is done to it."""

    is_cuda = False

    def __init__(self, did=()):
        self.did = did

    def pin_memory(self):
        return Pinnable((*self.did, "pin"))

    def to(self, device, non_blocking=False):
        return Pinnable((*self.did, f"{device}{' without waiting' * non_blocking}"))


def test_batches_are_pinned_on_their_way_to_cuda_and_nowhere_else():
    for device, did in (
        ("cuda", ("pin", "cuda without waiting")), ("cuda:1", ("pin", "cuda:1 without waiting")), ("cpu", ("cpu",)), ("meta", ("meta",)),
        (torch.device("cuda", 0), ("pin", "cuda:0 without waiting")),
    ):  # fmt: skip
        moved = forebay.torch.to_device({"x": Pinnable(), "l": fb.Ragged(Pinnable(), [Pinnable()]), "other": 3}, device)
        assert moved["x"].did == moved["l"].values.did == moved["l"].offsets[0].did == did and moved["other"] == 3
    there = Pinnable()
    there.is_cuda = True
    assert forebay.torch.to_device(there, "cuda").did == ("cuda",)


class Stream:
    """Of a GPU: what was recorded is over when it was waited for."""

    device = torch.device("cuda", 0)

    def __init__(self):
        self.waits_for, self.events = [], []

    def record_event(self):
        self.events.append(types.SimpleNamespace(over=False))
        self.events[-1].synchronize = functools.partial(setattr, self.events[-1], "over", True)
        return self.events[-1]

    def wait_event(self, event):
        self.waits_for.append(event)


class Lent(torch.Tensor):
    """Memory that a loader writes to again when nobody has it any more."""

    def pin_memory(self):
        return self

    def to(self, device, non_blocking=False):
        if self[0] < 0:
            raise MemoryError
        return Lent.of(float(self[0]))

    def record_stream(self, stream):
        pass

    @staticmethod
    def of(number):
        return torch.tensor([float(number)]).as_subclass(Lent)


@pytest.fixture
def mover(monkeypatch):
    """With the streams of a program and of copies, and a function that moves a batch and says whose memory is still held."""
    from forebay._device import Mover

    program, copies = Stream(), Stream()
    gpu = types.SimpleNamespace(current_stream=lambda device: program, Stream=lambda device: copies, stream=lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch, "cuda", gpu)
    lent = []

    def move(*numbers):
        batch = tuple(map(Lent.of, numbers))
        lent.append(weakref.ref(batch[0]))
        moved = made(batch)
        assert [float(value) for value in moved] == list(numbers) and program.waits_for[-1] is copies.events[-1]
        del batch
        return [n for n, of in enumerate(lent) if of() is not None]

    made = Mover(torch.device("cuda", 0))
    return types.SimpleNamespace(mover=made, move=move, program=program, copies=copies, lent=lent)


def test_batches_are_held_until_their_copies_are_over_and_no_more_than_two_are(mover):
    assert mover.move(0) == [0] and mover.move(1) == [0, 1]
    assert mover.move(2) == [1, 2] and [event.over for event in mover.copies.events] == [True, False, False]
    mover.mover.finish()
    assert all(event.over for event in mover.copies.events) and all(of() is None for of in mover.lent)


def test_a_program_is_no_more_than_two_steps_ahead_of_its_gpu(mover):
    for n in range(5):
        mover.mover.keep_up()
        mover.move(n)
    assert [event.over for event in mover.program.events] == [True, True, True, False, False] and not mover.copies.waits_for


def test_batches_of_failed_moves_are_let_go_of(mover):
    for _ in range(5):
        with pytest.raises(MemoryError):
            mover.move(0, -1)
    assert sum(of() is not None for of in mover.lent) <= 2


def test_a_child_of_fork_asks_no_gpu(mover, monkeypatch):
    mover.move(0)
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    mover.mover.finish()
    assert not mover.copies.events[0].over


def test_a_batch_of_which_a_part_cannot_be_moved_is_held_too(mover):
    with pytest.raises(MemoryError):
        mover.move(0, -1)
    assert mover.lent[0]() is not None
    mover.mover.finish()
    assert mover.lent[0]() is None and mover.copies.events[0].over


def test_a_loader_that_is_closed_while_a_batch_is_moved_waits_for_its_copy(mover):
    freed = []

    def close():
        while not over.is_set():
            mover.mover.finish()

    over = threading.Event()
    thread = threading.Thread(target=close)
    thread.start()
    try:
        for n in range(3000):
            batch = (Lent.of(n),)
            weakref.finalize(batch[0], lambda n=n: freed.append(mover.copies.events[n].over))
            mover.mover(batch)
            del batch
    finally:
        over.set()
        thread.join()
    mover.mover.finish()
    assert len(freed) == 3000 and all(freed)


TRAINING = """
import json, os, sys
import torch
import torch.distributed as dist
import forebay as fb

folder, out, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
mpi_world = int(os.environ.get("OMPI_COMM_WORLD_SIZE") or 0)
world = mpi_world or int(os.environ.get("WORLD_SIZE") or 1)
outputs = {"x": ["x0", "x1", "x2", "x3"], "y": "y", "row": fb.sample_index()}
loader = fb.open(folder).loader(outputs, batch_size=batch // world, seed=3, superbatch="300 samples", threads=1)
if mpi_world:
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    dist.init_process_group("gloo", init_method=f"file://{out}/rendezvous", rank=rank, world_size=mpi_world)
elif "WORLD_SIZE" in os.environ:
    dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
step = torch.nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model
optimizer = torch.optim.SGD(model.parameters(), 0.2)
rows, losses = [], []
for batch in loader:
    optimizer.zero_grad()
    loss = (step(batch["x"].double())[:, 0] - batch["y"].double()).square().mean()
    loss.backward()
    optimizer.step()
    rows.append(batch["row"].tolist())
    losses.append(loss.item())
weights = [w for p in model.parameters() for w in p.detach().flatten().tolist()]
with open(f"{out}/{loader.world_size}-{loader.rank}.json", "w") as f:
    json.dump({"rows": rows, "losses": losses, "weights": weights, "world": loader.world_size, "bytes": loader.report().bytes_read}, f)
if dist.is_initialized():
    dist.barrier()
    del step  # DistributedDataParallel holds the group, whose threads must end before the interpreter does
    dist.destroy_process_group()
"""

TRAINING_FILES, TRAINING_ROWS = 80, 40


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A script that trains on 80 files of 40 rows and writes what each rank saw and learned; its arguments; what one rank alone did."""
    if not torch.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    root = tmp_path_factory.mktemp("training")
    rng = np.random.default_rng(0)
    (root / "data").mkdir()
    for i in range(TRAINING_FILES):
        x = rng.normal(size=(TRAINING_ROWS, 4)).astype("float32")
        pq.write_table(pa.table({**{f"x{k}": x[:, k] for k in range(4)}, "y": np.tanh(x.sum(1))}), root / f"data/{i:02}.parquet")
    script = root / "training.py"
    script.write_text(TRAINING)
    alone = root / "alone"
    alone.mkdir()
    subprocess.run([sys.executable, str(script), str(root / "data"), str(alone), "80"], check=True, timeout=200)
    return script, root / "data", results(alone, 1)


def results(out, world):
    found = [json.loads((out / f"{world}-{rank}.json").read_text()) for rank in range(world)]
    assert {r["world"] for r in found} == {world}
    rows = [sum(step, []) for step in zip(*(r["rows"] for r in found), strict=True)]
    losses = [sum(step) / world for step in zip(*(r["losses"] for r in found), strict=True)]
    return rows, losses, [r["weights"] for r in found], sum(r["bytes"] for r in found)


def assert_trained_as_one_rank_would(training, out, world):
    """The same samples in the same steps, every one once; the same losses and weights to rounding; bytes that are shared."""
    rows, losses, weights, read = results(out, world)
    alone, losses_alone, (weights_alone,), read_alone = training[2]
    assert rows == alone and sorted(sum(rows, [])) == list(range(TRAINING_FILES * TRAINING_ROWS))
    assert np.mean(losses_alone[-5:]) < 0.25 * np.mean(losses_alone[:5])  # it learned something
    assert np.allclose(losses, losses_alone, rtol=0, atol=1e-12)
    assert all(w == weights[0] for w in weights) and np.allclose(weights[0], weights_alone, rtol=0, atol=1e-12)
    assert read <= 1.05 * read_alone  # footers, which opening reads, not counted; a border between two ranks cuts one file of 80


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_under_torchrun_train_as_one_rank_would(training, tmp_path, world):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={world}"]
    done = subprocess.run([*torchrun, str(training[0]), str(training[1]), str(tmp_path), "80"], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_trained_as_one_rank_would(training, tmp_path, world)


def test_four_ranks_of_mpirun_train_as_one_rank_would(training, tmp_path):
    if not shutil.which("mpirun"):
        pytest.skip("no mpirun here: apt-get install openmpi-bin")
    if "Open MPI" not in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout:
        pytest.skip("mpirun is not Open MPI's: its options and variables are others")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    mpirun = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-n", "4"]
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(
        [*mpirun, sys.executable, str(training[0]), str(training[1]), str(tmp_path), "80"], capture_output=True, text=True, timeout=250,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert_trained_as_one_rank_would(training, tmp_path, 4)


def test_four_processes_with_what_an_mpi_launcher_sets_train_as_one_rank_would(training, tmp_path):
    """As mpirun starts them, where there is none."""
    if shutil.which("mpirun"):
        pytest.skip("mpirun is here, and has a test of its own")
    processes = [
        subprocess.Popen(
            [sys.executable, str(training[0]), str(training[1]), str(tmp_path), "80"],
            env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "4"},
        )
        for rank in range(4)
    ]
    assert [p.wait(200) for p in processes] == [0] * 4
    assert_trained_as_one_rank_would(training, tmp_path, 4)


def written(message, before, after):
    """The line between two phrases of a message, as a user would paste it."""
    line = message.partition(before)[2].partition(after)[0]
    assert line and "…" not in message, message
    return line


@pytest.mark.parametrize("use", [
    lambda ds, loader, data: random_split(data, [0.5, 0.5]), lambda ds, loader, data: random_split(data, [3, 2]),
    lambda ds, loader, data: torch.utils.data.Subset(data, [1])[0], lambda ds, loader, data: data[0],
])  # fmt: skip
def test_splitting_a_dataset_of_batches_says_to_split_the_samples(use):
    ds = fb.open({"a": np.arange(20)})
    with ds.loader("a", batch_size=4, framework="torch") as loader, pytest.raises(TypeError) as refused:
        use(ds, loader, forebay.torch.IterableDataset(loader))
    there = {"ds": ds, "forebay": forebay}
    exec(written(str(refused.value), "split the samples, ", ", and make a dataset"), there)
    with eval(written(str(refused.value), "a dataset of each, ", ". data.sample(i)"), there) as data:
        assert len(next(iter(data))["a"]) == 16


@pytest.mark.parametrize("use", [
    lambda ds: next(iter(DataLoader(random_split(ds.rows(), [0.5, 0.5])[0]))), lambda ds: next(iter(DataLoader(ds.windows(3)))),
    lambda ds: next(iter(DataLoader(ds.windows(3), batch_size=None))), lambda ds: next(iter(DataLoader(ds.rows(), num_workers=2))),
    lambda ds: torch.utils.data.Subset(ds.rows(), [1])[0], lambda ds: next(iter(DataLoader(ds))), lambda ds: next(iter(DataLoader(ds.rows(), shuffle=True))),
])  # fmt: skip
def test_samples_and_data_sets_are_no_map_style_datasets(use):
    ds = fb.open({"a": np.arange(20)})
    with pytest.raises(TypeError) as refused:
        use(ds)
    there = {"ds": ds, "samples": ds.rows()}
    with eval(written(str(refused.value), "write ", " in place of the DataLoader"), there) as loader:
        assert sorted(next(iter(loader))["a"].tolist()) == list(range(20))
    assert [*eval(written(str(refused.value), "DataLoader, and ", " in place of random_split"), there)] == ["train", "val"]


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"batch_size": None}, {"shuffle": True}])
def test_a_bare_loader_in_a_dataloader_is_refused_with_the_reason(options):
    with fb.open({"a": np.arange(20)}).loader("a", batch_size=4) as loader:
        with pytest.raises(TypeError, match="threads of its own: iterate it directly") as refused:
            next(iter(DataLoader(loader, **options)))
        there = {"torch": torch, "forebay": forebay, "loader": loader, "samples": loader.dataset}
        assert len(next(iter(eval(written(str(refused.value), "wants a DataLoader: ", ". To split"), there)))["a"]) == 4
        exec(written(str(refused.value), "split the samples: ", ", then"), there)
        with eval(str(refused.value).rpartition(", then ")[2], there) as train:
            assert len(next(iter(train))["a"]) == 16
        with pytest.raises(TypeError, match="split the samples"):
            random_split(loader, [0.5, 0.5])
        assert len(loader) == 5 and len(loader.dataset) == 20


def test_a_dataloader_that_would_batch_batches_says_batch_size_none():
    with forebay.torch.IterableDataset(fb.open({"a": np.arange(20)}), "a", batch_size=4) as data:
        for options in ({}, {"batch_size": 8}, {"batch_size": 2, "drop_last": True}):
            with pytest.raises(TypeError, match=r"DataLoader\(data, batch_size=None\)"):
                next(iter(DataLoader(data, **options)))
        assert len(list(DataLoader(data, batch_size=None))) == len(data) == len(DataLoader(data, batch_size=None)) == 5


def test_len_and_items_of_one_object_count_the_same():
    ds = fb.open({"a": np.arange(20)})
    samples = ds.windows(3)
    assert len(samples) == len(list(samples)) == 18 and samples[17] == range(17, 20)
    with forebay.torch.IterableDataset(samples, {"a": fb.col("a").at(0)}, batch_size=4, shuffle=False) as data:
        assert len(data) == len(list(data)) == 5 and data.sample(17)["a"].item() == 17
