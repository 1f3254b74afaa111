"""forebay.torch: as a dataset of PyTorch's, and under torchrun; the gradients of many ranks are those of one."""

import json
import os
import pickle
import subprocess
import sys

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
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
    class Listed(list):
        """What a progress bar asks for."""

        def __init__(self, loader):
            super().__init__(loader)
            assert len(self) == len(loader)

    loader = ds.loader({"x": "x", "y": "a", "row": fb.index()}, batch_size=64, as_="tuple")
    seen = 0
    for x, y, _ in Listed(loader):
        assert x.shape == (len(y), 2) and x.dtype == torch.float32
        seen += len(y)
    assert seen == len(loader.dataset) == N and loader.batch_size == 64
    loader.close()


def test_single_samples_for_looking_at_them(ds):
    with_all = forebay.torch.IterableDataset(ds, None, batch_size=64)
    for i in (0, 17, N - 1, -1):
        sample = with_all[i]
        at = i % N
        assert sample["a"].item() == at and sample["s"] == str(at) and sample["x"].shape == (2,)
    for i in (N, -N - 1):
        with pytest.raises(IndexError, match=f"sample {i} of 1000"):
            with_all[i]
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
    assert forebay.torch is not torch and forebay.torch._torch is torch
    assert fb._outputs.choose_framework(None) == "torch"


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_batches_on_a_gpu_hold_the_same_values(ds):
    with ds.loader(["a", "x"], batch_size=100, device="cuda", seed=1) as there, ds.loader(["a", "x"], batch_size=100, seed=1) as here:
        for x, y in zip(there, here, strict=True):
            assert x["x"].is_cuda and torch.equal(x["x"].cpu(), y["x"]) and torch.equal(x["a"].cpu(), y["a"])


TRAINING = """
import json, os, sys
import torch
import torch.distributed as dist
import forebay as fb

folder, out, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
world = int(os.environ.get("WORLD_SIZE") or 1)
loader = fb.open(folder).loader({"x": ["x0", "x1", "x2", "x3"], "y": "y", "row": fb.index()}, batch_size=batch // world, seed=3, superbatch="300 samples", threads=1)
if "WORLD_SIZE" in os.environ:
    dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
step = torch.nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model
optimizer = torch.optim.SGD(model.parameters(), 0.1)
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
    json.dump({"rows": rows, "weights": weights, "world": loader.world_size, "bytes": loader.report().bytes_read}, f)
if dist.is_initialized():
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture
def training(tmp_path, parquet):
    """32 files of 50 rows, and a script that trains on them and writes what each rank saw and learned."""
    rng = np.random.default_rng(0)
    for i in range(32):
        x = rng.normal(size=(50, 4)).astype("float32")
        parquet({**{f"x{k}": x[:, k] for k in range(4)}, "y": np.tanh(x.sum(1))}, f"data/{i:02}.parquet")
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    (tmp_path / "out").mkdir()
    return script


def results(folder, world):
    found = [json.loads((folder / "out" / f"{world}-{rank}.json").read_text()) for rank in range(world)]
    assert {r["world"] for r in found} == {world}
    steps = [sum(step, []) for step in zip(*(r["rows"] for r in found), strict=True)]
    return steps, [r["weights"] for r in found], sum(r["bytes"] for r in found)


def test_ranks_under_torchrun_train_as_one_rank_would(training, tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    arguments = [str(training), str(tmp_path / "data"), str(tmp_path / "out"), "80"]
    subprocess.run([sys.executable, *arguments], check=True, timeout=200)
    alone, (weights,), read_alone = results(tmp_path, 1)
    assert sorted(sum(alone, [])) == list(range(1600))
    for world in (2, 4):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={world}"]
        done = subprocess.run(torchrun + arguments, capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stderr[-3000:]
        together, all_weights, read_together = results(tmp_path, world)
        assert together == alone
        assert all(w == all_weights[0] for w in all_weights)
        assert np.allclose(all_weights[0], weights, rtol=0, atol=1e-12)
        assert read_together <= 1.15 * read_alone  # a file is 3 % here; at most one is cut at each border between ranks


def test_four_processes_of_an_mpi_launcher_share_an_epoch(training, tmp_path):
    script = tmp_path / "ranks.py"
    script.write_text(
        "import json, sys\nimport forebay as fb\n"
        "loader = fb.open(sys.argv[1]).loader({'row': fb.index()}, batch_size=20, seed=3, superbatch='300 samples', framework='numpy')\n"
        "rows = [b['row'].tolist() for b in loader]\n"
        "result = {'rows': rows, 'weights': [], 'world': loader.world_size, 'bytes': loader.report().bytes_read}\n"
        "json.dump(result, open(f'{sys.argv[2]}/{loader.world_size}-{loader.rank}.json', 'w'))\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(tmp_path / "data"), str(tmp_path / "out")],
            env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "4"},
        )
        for rank in range(4)
    ]
    assert [p.wait(120) for p in processes] == [0] * 4
    together, _, _ = results(tmp_path, 4)
    assert len(together) == 20 and sorted(sum(together, [])) == list(range(1600))
