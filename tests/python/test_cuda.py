"""On a GPU: batches are what they are without one, however far the GPU is behind, and what is said of it is true. Skipped where there is none."""

import time

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)

import forebay.torch  # noqa: E402

N = 4000


@pytest.fixture
def ds():
    rng = np.random.default_rng(0)
    return fb.open({
        "a": np.arange(N), "x": rng.standard_normal((N, 64)).astype(np.float32), "h": rng.standard_normal(N).astype(np.float16), "b": np.arange(N) % 3 == 0,
        "s": [str(v) for v in range(N)],
    })  # fmt: skip


@pytest.fixture
def lists(parquet):
    pytest.importorskip("pyarrow")
    return fb.open(parquet({"a": np.arange(N), "l": [list(range(v % 7)) for v in range(N)], "s": [str(v) for v in range(N)]}))


def values(batch):
    """Of every tensor in it, by name."""
    return {
        name: value.cpu() if isinstance(value, torch.Tensor) else value.to_list()
        for name, value in batch.items()
    }


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(x, b[name]) if isinstance(x, torch.Tensor) else x == b[name] for name, x in a.items())


def keep_busy(seconds):
    """The GPU is behind by so much: copies that are begun wait in its stream."""
    torch.cuda._sleep(int(seconds * 1.5e9))


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, torch.device("cuda", 0)], ids=repr)
@pytest.mark.parametrize("behind", [False, True], ids=["waited for", "behind"])
def test_batches_hold_the_same_values(ds, device, behind):
    outputs = ["a", "x", "h", "b", "s"]
    with ds.loader(outputs, batch_size=50, device=device, seed=1) as there, ds.loader(outputs, batch_size=50, seed=1, framework="torch") as here:
        for _ in range(2):
            keep_busy(0.5 * behind)
            held = []
            for batch in there:
                assert all(batch[name].is_cuda for name in "axhb")
                held.append(batch)
            assert len(held) == len(there)
            assert all(same(values(x), values(y)) for x, y in zip(held, here, strict=True))


@pytest.mark.parametrize("how", ["packed", "padded", "transformed"])
def test_what_is_not_pinned_in_place_goes_there_too(lists, how):
    outputs = {"a": "a", "l": fb.col("l").padded(max_rows=6) if how == "padded" else "l"}
    options = {"transform": lambda batch: {**batch, "b": batch["a"] * 2}} if how == "transformed" else {}
    there, here = (lists.loader(outputs, batch_size=50, seed=1, **more) for more in ({"device": "cuda", **options}, {"framework": "torch"}))
    with there, here:
        keep_busy(0.3)
        for x, y in zip(list(there), here, strict=True):
            assert torch.equal(x["a"].cpu(), y["a"]) and (how != "transformed" or torch.equal(x["b"].cpu(), 2 * y["a"]))
            if how == "padded":
                assert x["l"].values.is_cuda and torch.equal(x["l"].values.cpu(), y["l"].values) and torch.equal(x["l"].mask.cpu(), y["l"].mask)
            else:
                assert x["l"].values.is_cuda and x["l"].to_list() == y["l"].to_list()


def test_batches_are_copied_from_where_they_lie(ds):
    """Their memory is pinned in place, for batch after batch."""
    seen = []
    real = torch.Tensor.pin_memory
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "pin_memory", lambda tensor: seen.append(tensor.is_pinned()) or real(tensor))
        with ds.loader({"x": "x", "a": "a"}, batch_size=50, device="cuda", seed=1) as loader:
            for _ in loader:
                pass
    assert len(seen) == 2 * N // 50 and all(seen)


def test_a_process_that_forks_meanwhile_changes_nothing(tmp_path, run_python):
    """Its child has the pages too for a while, and ends without touching the GPU."""
    run_python("""
        import os, time
        import numpy as np, torch
        import forebay as fb
        x = np.arange(200_000 * 16, dtype="float32").reshape(-1, 16)
        ds = fb.open({"x": x})
        there, here = ds.loader("x", batch_size=1000, device="cuda", seed=1), ds.loader("x", batch_size=1000, seed=1, framework="torch")
        with there, here:
            children = []
            for epoch in range(3):
                for i, (a, b) in enumerate(zip(there, here, strict=True)):
                    if i % 20 == 5:
                        child = os.fork()
                        if child == 0:
                            time.sleep(0.5)
                            os._exit(0)
                        children.append(child)
                    torch.cuda._sleep(200_000)
                    assert torch.equal(a["x"].cpu(), b["x"]), (epoch, i)
            assert len(children) == 30 and all(os.waitpid(child, 0)[1] == 0 for child in children)
    """)


def test_batches_that_outlive_their_loader(ds):
    loader = ds.loader({"x": "x"}, batch_size=50, device="cuda", seed=1)
    iterator = iter(loader)
    keep_busy(0.3)
    first = next(iterator)["x"]
    del loader, iterator
    with ds.loader({"x": "x"}, batch_size=50, seed=1, framework="torch") as here:
        assert torch.equal(first.cpu(), next(iter(here))["x"])


def test_batches_of_another_stream_than_the_default(ds):
    stream = torch.cuda.Stream()
    with ds.loader({"x": "x"}, batch_size=100, device="cuda", seed=3) as there, ds.loader({"x": "x"}, batch_size=100, seed=3, framework="torch") as here:
        with torch.cuda.stream(stream):
            keep_busy(0.2)
            sums = [batch["x"].double().sum() for batch in there]
        stream.synchronize()
        assert [float(s) for s in sums] == pytest.approx([float(batch["x"].double().sum()) for batch in here])


def test_a_gpu_that_is_not_there_is_refused(ds):
    n = torch.cuda.device_count()
    for device in (f"cuda:{n}", n):
        with pytest.raises(ValueError, match=rf"torch sees {n} GPU"):
            ds.loader("a", batch_size=1, device=device)


def test_the_report_has_transfer_and_torchs_memory(ds):
    with ds.loader({"x": "x"}, batch_size=500, device="cuda", seed=1) as loader:
        for _ in range(2):
            for batch in loader:
                batch["x"].square().sum()
        report = loader.report()
    assert report.transfer_ns > 0
    epochs = report.to_dict()["epochs"]
    assert all(epoch["torch_allocated_bytes"] >= 500 * 64 * 4 and epoch["torch_reserved_bytes"] >= epoch["torch_allocated_bytes"] for epoch in epochs[:-1])


def training(ds, width=2048, dtype=torch.bfloat16):
    """A model whose step is matrix products, and its step."""
    model = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), *[torch.nn.Linear(width, width) for _ in range(8)]).to("cuda", dtype)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)

    def step(batch):
        loss = model(batch["x"].to(dtype)).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def test_a_step_is_taken_apart_by_the_gpus_clock(ds):
    model, optimizer, step = training(ds)
    before, random = [p.detach().clone() for p in model.parameters()], torch.cuda.get_rng_state()
    with ds.loader({"x": "x"}, batch_size=400, device="cuda", seed=1) as loader:
        found = fb.diagnose(step, loader, seconds=3, model=model, optimizer=optimizer, batch_sizes=(500, 1000))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before)) and torch.equal(torch.cuda.get_rng_state(), random)
    assert found.not_restored == []
    parts = [found.forward, found.backward, found.optimizer]
    assert all(part > 0 for part in parts) and 0.5 * found.step < sum(parts) < 1.1 * found.step
    assert 0 < found.transfer < found.step
    products = 2 * 400 * (64 * 2048 + 8 * 2048**2)  # of the forward pass
    assert found.flops == pytest.approx(3 * products, rel=0.02)
    if found.peak is not None:  # of a GPU whose peak is known
        assert 0.02 < found.peak < 1
    assert [tried.batch_size for tried in found.batch_sizes] == [500, 1000] and all(tried.memory_bytes > 0 for tried in found.batch_sizes)
    if found.gpu is not None:
        assert found.gpu.name and 0 <= found.gpu.utilisation <= 1 and 0 < found.gpu.memory_bytes < found.gpu.memory_total_bytes


def test_a_gpu_that_waits_and_one_that_works_are_told_apart(ds):
    from forebay import _nvml

    if _nvml.of_torch() is None:
        pytest.skip("there is no NVML library")
    x = torch.randn(4096, 4096, device="cuda")
    with ds.loader({"x": "x"}, batch_size=100, device="cuda", seed=1) as loader:
        working = fb.diagnose(lambda batch: [x @ x for _ in range(10)], loader, seconds=4)
        assert working.limit == "model" and working.gpu.utilisation > 0.8
        waiting = fb.diagnose(lambda batch: time.sleep(0.02), loader, seconds=4)
        assert waiting.limit == "model" and waiting.gpu.utilisation < 0.5


def test_a_program_that_waits_for_its_gpu_is_the_limit_in_the_report():
    ds, x = fb.open({"x": np.zeros((40_000, 3000), np.float32)}), torch.randn(4096, 4096, device="cuda")
    with ds.loader({"x": "x"}, batch_size=500, device="cuda", seed=1) as loader:
        for _ in range(3):
            for _ in loader:
                for _ in range(10):
                    x @ x
        report = loader.report()
    assert report.limit == "model", str(report)
    assert torch.cuda.memory_allocated() < 2**30


def test_a_batch_size_that_is_too_large_for_the_gpu_is_said(ds):
    total = torch.cuda.mem_get_info()[1]

    def step(batch):
        return torch.empty(total // 1500 * len(batch["x"]), dtype=torch.uint8, device="cuda").fill_(1)

    with ds.loader({"x": "x"}, batch_size=100, device="cuda", seed=1) as loader:
        found = fb.diagnose(step, loader, seconds=0.5, batch_sizes=(200, 2000))
    assert [tried.samples_per_s is None for tried in found.batch_sizes] == [False, True] and found.best_batch_size == 200


def test_a_step_that_replays_a_graph(ds):
    """Parameters are put back in place, so that a captured graph goes on with them."""
    static = torch.zeros(100, 64, device="cuda")
    model = torch.nn.Linear(64, 8).to("cuda")
    with torch.no_grad():
        graph = torch.cuda.CUDAGraph()
        model(static)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            result = model(static)

    def step(batch):
        static.copy_(batch["x"])
        graph.replay()

    with ds.loader({"x": "x"}, batch_size=100, device="cuda", seed=1) as loader:
        assert fb.diagnose(step, loader, seconds=1, model=model).flops is None
    step({"x": torch.ones(100, 64)})
    assert torch.allclose(result, model(torch.ones(100, 64, device="cuda")))


@pytest.mark.parametrize("api", ["older", "newer"])
def test_the_peak_is_found_with_either_flag_of_tf32(api, run_python):
    run_python(f"""
        import torch
        from forebay import _step
        torch.zeros(1, device="cuda")
        matmul, name = torch.backends.cuda.matmul, torch.cuda.get_device_name()
        if {api == "older"}:
            matmul.allow_tf32 = True
        elif hasattr(matmul, "fp32_precision"):
            matmul.fp32_precision = "tf32"
        peaks = next((peaks for part, peaks in _step._PEAKS if part in name), {{}})
        assert _step.peak_flops("float32") == peaks.get("tf32" if {api == "older"} or hasattr(matmul, "fp32_precision") else "float32")
        assert _step.peak_flops("bfloat16") == peaks.get("half")
    """)


def test_lightning_trains_and_diagnoses(ds, capsys):
    pl = pytest.importorskip("lightning.pytorch")
    import forebay.lightning

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(64, 1)

        def training_step(self, batch, _):
            assert batch["x"].is_cuda
            return self.layer(batch["x"]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-3)

    asks = forebay.lightning.Diagnose(1)
    data = forebay.lightning.DataModule(train=ds, outputs={"x": "x"}, batch_size=100, seed=1)
    trainer = pl.Trainer(max_epochs=1, accelerator="gpu", devices=1, callbacks=[asks], logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Model(), datamodule=data)
    found = asks.diagnosis
    assert trainer.global_step == N // 100 and found.transfer > 0 and 0 < found.forward < found.step
    assert "step alone" in capsys.readouterr().out
