"""forebay.lightning: a Trainer stopped anywhere and started again sees the same batches; DDP; reloaded dataloaders."""

import logging
import warnings

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pytest.importorskip("torch")
pl = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")

import torch  # noqa: E402

import forebay.lightning  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore")]
N, BATCH, EPOCHS = 60, 10, 3


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen, self.validated = [], []

    def training_step(self, batch, index):
        self.seen.append((self.current_epoch, index, batch["a"].tolist()))
        return self.layer(batch["x"]).square().mean()

    def validation_step(self, batch, index):
        self.validated.append(batch["a"].tolist())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class Stop(pl.Callback):
    """Saves after a step, or at the end of an epoch, and ends the run there as a crash would."""

    def __init__(self, path, step=None, epoch=None):
        self.path, self.step, self.epoch = path, step, epoch

    def _stop(self, trainer):
        trainer.save_checkpoint(self.path)
        raise KeyboardInterrupt

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == self.step:
            self._stop(trainer)

    def on_train_epoch_end(self, trainer, *_):
        if trainer.current_epoch == self.epoch:
            self._stop(trainer)


@pytest.fixture
def ds():
    a = np.arange(N)
    return fb.open({"a": a, "x": (a / N).astype("float32")[:, None]})


def fit(ds, stop=None, checkpoint=None, val=None, bare=False, **options):
    model = Model()
    data = forebay.lightning.DataModule(train=ds, val=val, outputs=["a", "x"], batch_size=BATCH, seed=1)
    trainer = pl.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        callbacks=[stop] if stop else [], **options,
    )  # fmt: skip
    try:
        trainer.fit(model, data, ckpt_path=checkpoint, weights_only=False if checkpoint else None)
    except (KeyboardInterrupt, SystemExit):
        assert stop
    data.close()
    return model


@pytest.mark.parametrize("kind", ["plain", "with validation", "reloaded", "limited"])
def test_a_trainer_goes_on_from_every_step_and_every_end_of_an_epoch(ds, tmp_path, kind):
    options = {"plain": {}, "with validation": {"val": ds}, "reloaded": {"reload_dataloaders_every_n_epochs": 1}, "limited": {"limit_train_batches": 4}}[kind]
    whole = fit(ds, **options).seen
    steps = 4 if kind == "limited" else N // BATCH
    assert len(whole) == EPOCHS * steps
    for epoch in range(EPOCHS):
        rows = sorted(sum((rows for e, _, rows in whole if e == epoch), []))
        assert rows == list(range(N)) or kind == "limited" and len(set(rows)) == 40
    if kind == "reloaded":
        assert whole == fit(ds).seen
    path = tmp_path / "checkpoint"
    stops = [Stop(path, step=k) for k in range(1, EPOCHS * steps)] + [Stop(path, epoch=e) for e in range(EPOCHS)]
    for stop in stops:
        before = fit(ds, stop=stop, **options).seen
        after = fit(ds, checkpoint=path, **options).seen
        assert before + after == whole, (stop.step, stop.epoch)


def test_validation_comes_in_file_order_and_whole(ds):
    model = fit(ds, val=ds, num_sanity_val_steps=0)
    assert model.validated == [list(range(k, k + BATCH)) for k in range(0, N, BATCH)] * EPOCHS


def test_sources_are_globs_samples_or_loaders(tmp_path, parquet):
    pytest.importorskip("pyarrow")
    for i in range(3):
        parquet({"a": np.arange(10) + 10 * i}, f"data/{i}.parquet")
    data = forebay.lightning.DataModule(train=str(tmp_path / "data/*.parquet"), outputs=["a"], batch_size=5, eval_batch_size=15,
                                        val=fb.open(tmp_path / "data").rows(), test=fb.open(tmp_path / "data").loader("a", batch_size=3))  # fmt: skip
    assert len(data.train_dataloader()) == 6 and len(data.val_dataloader()) == 2 and len(data.test_dataloader()) == 10
    assert len(data.train_dataloader().dataset) == 30 and data.train_dataloader() is data.train_dataloader() and data.predict_dataloader() == []
    data.close()
    with pytest.raises(ValueError, match="batch_size"):
        forebay.lightning.DataModule(train=fb.open(tmp_path / "data")).train_dataloader()


def test_two_processes_of_ddp_train_as_one_would(run_python, tmp_path):
    run_python(
        """
        import json, sys, os, logging
        import numpy as np, torch, lightning.pytorch as pl
        import forebay as fb, forebay.lightning
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        class Model(pl.LightningModule):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.layers = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
                self.seen, self.losses = [], []
            def training_step(self, batch, index):
                self.seen.append((self.current_epoch, batch["a"].tolist()))
                loss = (self.layers(batch["x"].double())[:, 0] - batch["y"]).square().mean()
                self.losses.append(loss.item())
                return loss
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.3)

        def work(devices, out):
            a = np.arange(3200)
            x = np.random.default_rng(0).normal(size=(len(a), 2)).astype("float32")
            ds = fb.open({"a": a, "x": x, "y": np.tanh(x[:, 0] - x[:, 1]).astype("float64")})
            model = Model()
            data = forebay.lightning.DataModule(train=ds, outputs=["a", "x", "y"], batch_size=64 // devices, seed=1)
            trainer = pl.Trainer(max_epochs=2, accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto", logger=False,
                                 enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
            trainer.fit(model, data)
            with open(f"{out}/{devices}-{trainer.global_rank}", "w") as f:
                json.dump([model.seen, model.losses, [w for p in model.parameters() for w in p.detach().flatten().tolist()]], f)

        if __name__ == "__main__":
            out = sys.argv[1]
            if "LOCAL_RANK" not in os.environ:
                work(1, out)
            work(2, out)
            if os.environ["LOCAL_RANK"] == "0":
                torch.distributed.barrier()
                (alone, losses, weights), (one, l1, w1), (two, l2, w2) = (json.load(open(f"{out}/{n}")) for n in ("1-0", "2-0", "2-1"))
                assert [(e, a + b) for (e, a), (_, b) in zip(one, two, strict=True)] == [(e, a) for e, a in alone]
                for epoch in range(2):
                    assert sorted(sum((a for e, a in alone if e == epoch), [])) == list(range(3200))
                assert len(losses) == 100 and np.mean(losses[-5:]) < 0.1 * np.mean(losses[:5]), losses  # it learned something
                assert np.allclose(np.add(l1, l2) / 2, losses, rtol=0, atol=1e-12)
                assert w1 == w2 and np.allclose(w1, weights, rtol=0, atol=1e-12), (w1, w2, weights)
            else:
                torch.distributed.barrier()
        """,
        tmp_path,
        timeout=250,
    )
