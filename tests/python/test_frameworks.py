"""Accelerate, Ray Train, mpi4py, jax.distributed: the examples train as a plain loop does, and every rank gets its own share."""

import importlib.util
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pytest.importorskip("pyarrow")
torch = pytest.importorskip("torch")

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"
SAMPLES, STEPS, EPOCHS = 16_000, 50, 2  # of the examples


def needs(module, how):
    spec = importlib.util.find_spec(module)
    missing = spec is None or spec.origin is None  # a folder of that name is no module
    return pytest.mark.skipif(missing, reason=f"{module} is not installed: {how}")


needs_accelerate = needs("accelerate", "pip install -r tests/requirements-frameworks.txt")
needs_ray = needs("ray", 'pip install "ray[train]", left out of the requirements: a quarter of a GB to install, and most of a minute a run')
needs_mpi4py = needs("mpi4py", "pip install mpi4py")


@pytest.fixture(scope="module")
def rivers(tmp_path_factory):
    """A folder with the examples' data, and what a loop in one process, without any framework, prints of both epochs."""
    sys.path.insert(0, str(EXAMPLES))
    import rivers

    folder = tmp_path_factory.mktemp("rivers")
    rivers.make(folder / "data")
    model = rivers.model()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    ds, lines = fb.open(folder / "data"), []
    outputs = {"x": rivers.INPUTS, "y": "flow", "row": fb.sample_index()}
    with ds.loader(outputs, batch_size=320, seed=0, superbatch="4 blocks", rank=0, world_size=1) as loader:
        for _ in range(EPOCHS):
            rows, loss_sum = [], 0.0
            for batch in loader:
                loss = torch.nn.functional.mse_loss(model(batch["x"])[:, 0], batch["y"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                rows += batch["row"].tolist()
                loss_sum += loss.item() * len(batch["y"])
            assert sorted(rows) == list(range(SAMPLES))
            lines.append((loss_sum / SAMPLES, sum(p.detach().double().abs().sum().item() for p in model.parameters())))
    assert lines[1][0] < 0.2 * lines[0][0]  # it learned something
    return folder, lines


def run_example(command, script, *arguments, timeout=250):
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    done = subprocess.run(
        [sys.executable, *command, str(EXAMPLES / script), *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
        env={**environment, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def figures(text, name):
    return [float(value) for value in re.findall(rf"\b{name} ([0-9.e+-]+)", text)]


def close(got, want):
    return np.allclose(got, want, rtol=1e-5, atol=0)


def workspace(rivers, tmp_path):
    (tmp_path / "data").symlink_to(rivers[0] / "data")
    return tmp_path


# ---- Accelerate ----

SINGLE = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]  # or it warns that they have defaults
LAUNCH = ["-m", "accelerate.commands.launch", "--cpu", *SINGLE, "--num_processes"]


@needs_accelerate
def test_accelerate_on_two_ranks_stopped_and_resumed_on_one_trains_as_a_plain_loop(rivers, tmp_path):
    folder, (first, second) = workspace(rivers, tmp_path), rivers[1]
    stopped = run_example([*LAUNCH, "2"], "train_accelerate.py", "--folder", folder, "--stop-after", STEPS + 21)
    assert figures(stopped, "samples") == figures(stopped, "distinct") == [SAMPLES, 21 * 320]
    assert close(figures(stopped, "loss")[0], first[0]) and close(figures(stopped, "weights")[0], first[1])
    resumed = run_example([*LAUNCH, "1"], "train_accelerate.py", "--folder", folder, "--resume")
    assert figures(resumed, "epoch") == [1] and figures(resumed, "samples") == figures(resumed, "distinct") == [SAMPLES - 21 * 320]
    assert close(figures(resumed, "weights"), second[1])
    losses = np.average([figures(stopped, "loss")[1], figures(resumed, "loss")[0]], weights=[21, STEPS - 21])
    assert close(losses, second[0])


@needs_accelerate
@pytest.mark.filterwarnings("ignore")
def test_accelerate_takes_a_loader_as_it_is_and_a_prepared_dataloader_of_a_share_is_refused(run_python):
    run_python(
        """
        import numpy as np, torch
        from accelerate import Accelerator
        from accelerate.data_loader import DataLoaderDispatcher, DataLoaderShard, IterableDatasetShard, prepare_data_loader
        import forebay as fb, forebay.torch

        accelerator = Accelerator(cpu=True)
        ds = fb.open({"a": np.arange(160)})

        def data(**rank):
            return forebay.torch.IterableDataset(ds.rows(), "a", batch_size=20, seed=1, **rank)

        def rows(batches):
            return sorted(torch.cat([b["a"].reshape(-1) for b in batches]).tolist())

        loader = ds.loader("a", batch_size=20)
        assert accelerator.prepare(loader) is loader and rows(loader) == list(range(160))

        # One process: nothing is shared, so anything goes.
        prepared = accelerator.prepare(torch.utils.data.DataLoader(data(), batch_size=None))
        assert isinstance(prepared, DataLoaderDispatcher | DataLoaderShard) and rows(prepared) == list(range(160))

        # A share: the DataLoader as it is goes on, what prepare() makes of it in its two ways does not.
        half = data(rank=0, world_size=2)
        assert len(rows(torch.utils.data.DataLoader(half, batch_size=None))) == 80
        for make in (
            lambda: DataLoaderDispatcher(half, batch_size=None),
            lambda: IterableDatasetShard(half, batch_size=1, num_processes=2, process_index=0),
            lambda: prepare_data_loader(
                torch.utils.data.DataLoader(half, batch_size=1, collate_fn=lambda b: b), num_processes=2, process_index=0,
                dispatch_batches=False,
            ),
        ):
            try:
                list(make())
            except fb.StateError as error:
                assert "second time" in str(error) and "rank 0 of 2" in str(error) and "model and optimizer alone" in str(error), error
            else:
                raise AssertionError("samples were lost")

        # All samples in every process, which Accelerate then shares: said so by rank and world size, that is fine.
        whole = data(rank=0, world_size=1)
        seen = []
        for k in range(2):
            whole.set_epoch(0)
            seen += rows(IterableDatasetShard(whole, batch_size=1, num_processes=2, process_index=k))
        assert sorted(seen) == list(range(160))
        print("ok")
        """,
        timeout=120,
    )


# ---- Ray Train ----


@needs_ray
def test_ray_train_on_two_workers_goes_on_after_a_crash_and_trains_as_a_plain_loop(rivers, tmp_path):
    folder, (_, second) = workspace(rivers, tmp_path), rivers[1]
    done = run_example([], "train_ray.py", "--folder", folder, "--workers", 2, "--crash-at", STEPS + 25)
    last = done.strip().splitlines()[-1]
    assert (folder / "crashed").exists()
    assert (figures(last, "epoch"), figures(last, "step"), figures(last, "samples")) == ([1], [2 * STEPS], [SAMPLES])
    assert close(figures(last, "loss"), second[0]) and close(figures(last, "weights"), second[1])


def test_rays_context_says_the_rank_inside_of_a_training_function_and_nothing_outside(monkeypatch):
    from types import SimpleNamespace

    from forebay._ranks import detected_rank

    def outside():
        raise RuntimeError("not inside of a training function")

    def context(rank, size):
        return lambda: SimpleNamespace(get_world_rank=lambda: rank, get_world_size=lambda: size)

    monkeypatch.setenv("SLURM_PROCID", "5")  # of whoever started Ray
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "8")
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for get_context, expect in ((context(1, 4), (1, 4)), (outside, (5, 8)), (context(None, None), (5, 8)), (context(4, 4), (5, 8))):
        monkeypatch.setitem(sys.modules, "ray.train", SimpleNamespace(get_context=get_context))
        assert detected_rank() == expect


# ---- MPI and JAX ----

OF_MPI = """
import json, os, sys
import numpy as np
from mpi4py import MPI
import forebay as fb

for name in list(os.environ):  # a launcher that tells the library of MPI alone
    if name.startswith(("OMPI_COMM", "PMI_", "SLURM")):
        del os.environ[name]
world = MPI.COMM_WORLD.Get_size()
loader = fb.open(sys.argv[1]).loader({"x": ["prcp", "tmax", "tmin"], "y": "flow", "row": fb.sample_index()}, batch_size=320 // world, seed=0,
                                     superbatch="4 blocks", threads=1, framework="numpy")
weights, rows = np.zeros(4), []
for batch in loader:
    x = np.hstack([batch["x"] / 10.0, np.ones((len(batch["y"]), 1))]).astype(float)
    gradient = 2 * x.T @ (x @ weights - batch["y"]) / len(x)
    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, gradient)
    weights -= 0.05 * gradient / world
    rows.append(batch["row"].tolist())
gathered = MPI.COMM_WORLD.gather((loader.rank, loader.world_size, rows, weights.tolist()))
if MPI.COMM_WORLD.Get_rank() == 0:
    print(json.dumps(gathered))
"""


@needs_mpi4py
def test_mpi4py_says_the_rank_and_a_numpy_model_trains_as_on_one(rivers, tmp_path):
    import json

    if not shutil.which("mpirun"):
        pytest.skip("no mpirun here: apt-get install openmpi-bin")
    script = tmp_path / "of_mpi.py"
    script.write_text(OF_MPI)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    ranks = {}
    for world in (1, 4):
        mpirun = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-n", str(world)]
        done = subprocess.run([*mpirun, sys.executable, str(script), str(rivers[0] / "data")], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-3000:]
        ranks[world] = json.loads(done.stdout)
        assert [r[:2] for r in ranks[world]] == [[k, world] for k in range(world)]
    steps = [sum(step, []) for step in zip(*(r[2] for r in ranks[4]), strict=True)]
    assert steps == ranks[1][0][2] and sorted(sum(steps, [])) == list(range(SAMPLES))
    assert np.allclose([r[3] for r in ranks[4]], ranks[1][0][3], rtol=0, atol=1e-12)


def test_jax_distributed_says_the_rank(tmp_path):
    pytest.importorskip("jax", reason="JAX is not installed")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    script = tmp_path / "of_jax.py"
    script.write_text(
        "import sys, jax, numpy as np, forebay as fb, forebay.jax\n"
        "loader = forebay.jax.Loader(fb.open({'a': np.arange(64)}), 'a', batch_size=8)\n"
        "assert loader.loader.world_size == 1\n"
        "jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))\n"
        "print(sorted(sum((b['a'].tolist() for b in loader), [])), loader.loader.rank, loader.loader.world_size)\n"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen([sys.executable, str(script), address, str(k)], env=environment, stdout=subprocess.PIPE, text=True)
        for k in range(2)
    ]
    outputs = [p.communicate(timeout=120)[0] for p in processes]
    assert [p.returncode for p in processes] == [0, 0]
    seen = []
    for k, text in enumerate(outputs):
        rows, rank, world = text.rsplit(maxsplit=2)
        assert (rank, world) == (str(k), "2")
        seen += eval(rows)
    assert sorted(seen) == list(range(64))
