"""forebay.lightning: a Trainer stopped anywhere and started again sees the same batches; DDP; reloaded dataloaders."""

import copy
import functools
import logging
import pickle
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
    assert len(data.train_dataloader().dataset) == 30 and data.train_dataloader() is data.train_dataloader()
    data.close()
    for wrong, meant in (("trian", "train"), ("predcit", "predict"), ("eval_batchsize", "eval_batch_size"), ("sede", "seed")):
        with pytest.raises(TypeError, match=f"did you mean '{meant}'"):
            forebay.lightning.DataModule(**{wrong: 1})
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


FILES = 12


@pytest.fixture
def files(tmp_path, parquet):
    pytest.importorskip("pyarrow")
    for i in range(FILES):
        parquet({"a": np.arange(N) + N * i, "x": np.zeros(N, dtype="float32")}, f"parts/{i:02}.parquet")
    return str(tmp_path / "parts/*.parquet")


class Parts(pl.LightningModule):
    """Trains on data of its own, if it is given any, and tells a loader the epoch, if it is to."""

    def __init__(self, data=None, loader=None, tells=None):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.data, self.loader, self.tells, self.seen = data, loader, tells, {}
        if data is not None:
            self.train_dataloader = self._give

    def _give(self):
        if self.tells == "where it is given":
            self.loader.set_epoch(self.current_epoch)
        return self.data

    def on_train_epoch_start(self):
        if self.tells == "at the start of an epoch":
            self.loader.set_epoch(self.current_epoch)

    def training_step(self, batch, index):
        self.seen.setdefault(self.current_epoch, []).append(batch["a"].tolist())
        return self.layer(batch["x"][:, None]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def trainer(**options):
    return pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, **options)


TELLS = [
    (given, tells, reload) for given in ("bare", "IterableDataset", "DataLoader", "to fit", "to fit, wrapped") for reload in (0, 1)
    for tells in (None, "where it is given", "at the start of an epoch")
    if tells != "where it is given" or reload and not given.startswith("to fit")  # Lightning asks once
]  # fmt: skip


@pytest.mark.parametrize(("given", "tells", "reload"), TELLS)
def test_every_file_comes_once_in_a_sweep_whoever_makes_the_iterators(files, given, tells, reload):
    import forebay.torch

    options = {"batch_size": BATCH, "seed": 1, "part": "3 files"}
    with fb.open(files).rows().loader(["a", "x"], framework="torch", **options) as loader, \
            fb.open(files).rows().loader(["a", "x"], framework="torch", **options) as plain:  # fmt: skip
        expected = {epoch: [batch["a"].tolist() for batch in plain] for epoch in range(8)}
        data = loader if given in ("bare", "to fit") else forebay.torch.IterableDataset(loader)
        if given == "DataLoader":
            data = torch.utils.data.DataLoader(data, batch_size=None)
        fit = given.startswith("to fit")
        model = Parts(None if fit else data, loader, tells)
        trainer(max_epochs=8, reload_dataloaders_every_n_epochs=reload).fit(model, *([data] if fit else []))
    assert model.seen == expected
    for sweep in (range(4), range(4, 8)):
        assert sorted(a for epoch in sweep for batch in model.seen[epoch] for a in batch) == list(range(FILES * N))


def test_parts_that_the_trainer_cuts_short_are_warned_of(tmp_path):
    """Of six files one is longer, so that the two parts of a sweep differ in length, and with them the epochs."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    paths = []
    for i, rows in enumerate((10, 10, 10, 30, 10, 10)):
        paths.append(tmp_path / f"{i}.parquet")
        pq.write_table(pa.table({"a": np.arange(rows), "x": np.zeros(rows, np.float32)}), paths[-1])
    for reload, epochs in ((0, 8), (1, 8)):
        with fb.open(paths).rows().loader(["a", "x"], framework="torch", batch_size=10, part="3 files", seed=1) as loader:
            lengths = [loader._core.count_of(epoch)[0] for epoch in range(epochs)]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                trainer(max_epochs=epochs, reload_dataloaders_every_n_epochs=reload).fit(Parts(None, loader, None), loader)
        said = [str(w.message) for w in caught if "asks for len() only once" in str(w.message)]
        longer = [epoch for epoch in range(epochs - 1) if lengths[epoch] > lengths[0]]  # after the last one nothing begins
        assert longer and (bool(said) == (reload == 0)), (lengths, said)
        if said:
            assert f"epoch {longer[0]} has {lengths[longer[0]]} batches, and {lengths[0]} of them were taken" in said[0]


class Anew(Parts):
    """Makes a loader whenever Lightning asks for one, as many do, and says which epoch it begins with."""

    def __init__(self, files):
        super().__init__()
        self.files = files
        self.train_dataloader = self._make

    def _make(self):
        loader = fb.open(self.files).rows().loader(["a", "x"], batch_size=BATCH, framework="torch", part="3 files")
        loader.set_epoch(self.current_epoch)
        return loader


def test_loaders_made_anew_in_every_epoch_give_every_file_once_in_a_sweep(files):
    model = Anew(files)
    trainer(max_epochs=8, reload_dataloaders_every_n_epochs=1).fit(model)
    for sweep in (range(4), range(4, 8)):
        assert sorted(a for epoch in sweep for batch in model.seen[epoch] for a in batch) == list(range(FILES * N))


def test_loaders_made_anew_that_all_begin_at_epoch_0_are_pointed_out(files):
    """They have the same files every time; two may be a look at a batch and the training."""

    def begin():
        with fb.open(files).rows().loader(["a"], batch_size=BATCH, part="3 files", seed=4711) as loader:
            next(iter(loader))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begin()
        begin()
    with pytest.warns(UserWarning, match="third loader of the same data and options"):
        begin()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begin()


@pytest.mark.parametrize("reload", [0, 1])
def test_a_data_module_gives_every_file_once_in_a_sweep(files, reload):
    data = forebay.lightning.DataModule(train=files, outputs=["a", "x"], batch_size=BATCH, seed=1, part="3 files")
    model = Parts()
    trainer(max_epochs=8, reload_dataloaders_every_n_epochs=reload).fit(model, data)
    data.close()
    for sweep in (range(4), range(4, 8)):
        assert sorted(a for epoch in sweep for batch in model.seen[epoch] for a in batch) == list(range(FILES * N))


@pytest.mark.parametrize("reload", [0, 1])
def test_a_bare_loader_goes_on_from_a_checkpoint_in_the_middle_of_an_epoch(files, tmp_path, reload):
    class Checkpoint(pl.Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 18 * 2 + 7:
                trainer.save_checkpoint(tmp_path / "checkpoint")

    def fitted(path=None, **options):
        with fb.open(files).rows().loader(["a", "x"], framework="torch", batch_size=BATCH, seed=1, part="3 files") as loader:
            model = Parts(loader, loader, "at the start of an epoch")
            trainer(max_epochs=4, reload_dataloaders_every_n_epochs=reload, **options).fit(model, ckpt_path=path, weights_only=False if path else None)
        return model.seen

    whole = fitted(callbacks=[Checkpoint()])
    after = fitted(tmp_path / "checkpoint")
    assert after == {2: whole[2][7:], 3: whole[3]}


def test_two_processes_of_ddp_see_every_file_once_in_a_sweep(files, run_python, tmp_path):
    run_python(
        """
        import json, sys, os, logging
        import torch, lightning.pytorch as pl
        import forebay as fb, forebay.torch, forebay.lightning
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        class Model(pl.LightningModule):
            def __init__(self, loader=None, tells=False):
                super().__init__()
                self.layer, self.seen, self.loader, self.tells = torch.nn.Linear(1, 1), {}, loader, tells
            def on_train_epoch_start(self):
                if self.tells:
                    self.loader.set_epoch(self.current_epoch)
            def training_step(self, batch, index):
                self.seen.setdefault(self.current_epoch, []).append(batch["a"].tolist())
                return self.layer(batch["x"][:, None]).square().mean()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.01)

        def work(files, out, given, tells, reload):
            options = dict(batch_size=5, seed=1, part="3 files", framework="torch")
            loader = fb.open(files).rows().loader(["a", "x"], **options)
            data = {"bare": loader, "dataset": forebay.torch.IterableDataset(loader), "module": None}[given]
            if data is None:
                data = forebay.lightning.DataModule(train=files, outputs=["a", "x"], **options)
            model = Model(loader, tells)
            trainer = pl.Trainer(max_epochs=8, accelerator="cpu", devices=2, strategy="ddp", logger=False, reload_dataloaders_every_n_epochs=reload,
                                 enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
            trainer.fit(model, data)
            seen = [None, None]
            torch.distributed.all_gather_object(seen, model.seen)
            for sweep in (range(4), range(4, 8)):
                rows = sorted(a for one in seen for epoch in sweep for batch in one[epoch] for a in batch)
                assert rows == list(range(12 * 60)), (given, tells, reload)
            loader.close(), data.close()

        if __name__ == "__main__":
            for given, tells, reload in [("bare", 0, 0), ("bare", 0, 1), ("bare", 1, 0), ("bare", 1, 1), ("dataset", 1, 1), ("dataset", 0, 0),
                                         ("module", 0, 1), ("module", 0, 0)]:
                work(*sys.argv[1:], given, tells, reload)
        """,
        files, tmp_path, timeout=250,
    )  # fmt: skip


def test_two_processes_predict_every_sample_once_and_validate_with_marked_repeats(run_python, tmp_path):
    run_python(
        """
        import logging
        import numpy as np, torch, lightning.pytorch as pl
        import forebay as fb, forebay.lightning
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        class Model(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer, self.seen = torch.nn.Linear(1, 1), []
            def validation_step(self, batch, index):
                self.seen.append((batch["a"].tolist(), batch["again"].tolist()))
            def predict_step(self, batch, index):
                self.seen.append((batch["a"].tolist(), batch["again"].tolist()))
                return batch["a"]

        def everywhere(model):
            seen = [None, None]
            torch.distributed.all_gather_object(seen, model.seen)
            model.seen = []
            return [len(one) for one in seen], [pair for one in seen for rows, again in one for pair in zip(rows, again, strict=True)]

        if __name__ == "__main__":
            for n in (400, 30):  # of 30, one rank has all
                ds = fb.open({"a": np.arange(n)})
                data = forebay.lightning.DataModule(val=ds, predict=ds, outputs={"a": "a", "again": fb.is_repeat()}, batch_size=64)
                trainer = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_progress_bar=False,
                                     enable_model_summary=False, enable_checkpointing=False)
                model = Model()
                trainer.predict(model, data, return_predictions=False)
                lengths, samples = everywhere(model)
                assert lengths == [(n + 127) // 128, n // 128] and sorted(samples) == [(i, False) for i in range(n)], (lengths, samples)
                trainer.validate(model, data, verbose=False)
                lengths, samples = everywhere(model)
                assert lengths == [(n + 127) // 128] * 2 and len(samples) == 128 * lengths[0]
                assert sorted(i for i, again in samples if not again) == list(range(n))
                data.close()
        """,
        timeout=250,
    )  # fmt: skip


def test_an_argument_that_no_loader_has_is_refused_when_the_module_is_made():
    with pytest.raises(TypeError, match=r"DataModule\(\) has no argument 'num_workers': there are no worker processes"):
        forebay.lightning.DataModule(train="x", num_workers=3)


def test_data_that_were_not_given_are_not_passed_over(tmp_path, parquet):
    parquet({"x": np.arange(32, dtype=np.float32), "a": np.arange(32)}, "a.parquet")
    samples = fb.open(tmp_path / "a.parquet").rows()
    make = functools.partial(forebay.lightning.DataModule, outputs={"x": ["x"], "a": "a"}, batch_size=8)
    with pytest.warns(UserWarning, match="no `val_dataloader`. Skipping val loop"):
        trainer(max_epochs=1).fit(model := Model(), make(samples))
    assert len(model.seen) == 4 and not model.validated
    for copied in (pickle.loads(pickle.dumps(make(samples))), copy.deepcopy(make(samples))):  # as strategies that spawn do
        with pytest.warns(UserWarning, match="no `val_dataloader`. Skipping val loop"):
            trainer(max_epochs=1).fit(Model(), copied)
    with pytest.raises(ValueError, match=r"was given no train=: DataModule\(train="):
        trainer(max_epochs=1).fit(Model(), make(val=samples))
    with pytest.raises(ValueError, match="was given no test="):
        trainer().test(type("Tested", (Model,), {"test_step": Model.validation_step})(), make(samples))
    with pytest.raises(ValueError, match="was given no predict="):
        trainer().predict(type("Predicted", (Model,), {"predict_step": Model.validation_step})(), make(samples))
    with pytest.raises(pl.utilities.exceptions.MisconfigurationException, match="val_dataloader"):
        trainer().validate(Model(), make(samples))


def test_what_is_no_source_of_batches_says_what_to_write(tmp_path, parquet):
    parquet({"x": np.arange(32, dtype=np.float32), "a": np.arange(32)}, "a.parquet")
    samples = fb.open(tmp_path / "a.parquet").rows()
    parts = samples.split(train=0.5, val=0.5, by="samples")
    with pytest.raises(TypeError, match=r"train= is one data set, not several by name: give splits as DataModule\(\*\*splits"):
        forebay.lightning.DataModule(train=parts, outputs={"x": ["x"], "a": "a"}, batch_size=8)
    with pytest.raises(TypeError, match=r"samples .* have no values for a .*Trainer.* write samples.loader\(batch_size=512, shuffle=True\)"):
        trainer(max_epochs=1).fit(Model(), samples)
    trainer(max_epochs=1, num_sanity_val_steps=0).fit(model := Model(), forebay.lightning.DataModule(**parts, outputs={"x": ["x"], "a": "a"}, batch_size=8))
    assert len(model.seen) == 2 and len(model.validated) == 2


def test_diagnose_measures_the_step_and_training_is_what_it_would_have_been(tmp_path, parquet):
    path = parquet({"a": np.arange(float(N)), "x": np.random.default_rng(0).standard_normal(N)})

    class Slow(Model):
        def training_step(self, batch, index):
            import time

            time.sleep(0.01)
            self.log("loss", 1.0)
            return super().training_step({**batch, "x": batch["x"][:, None].float()}, index)

    def run(*callbacks):
        torch.manual_seed(7)
        model = Slow()
        data = fb.lightning.DataModule(path, outputs={"a": "a", "x": "x"}, batch_size=BATCH)
        trainer = pl.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                             accelerator="cpu", callbacks=list(callbacks), default_root_dir=tmp_path)  # fmt: skip
        trainer.fit(model, data)
        return model.seen[-12:], [p.tolist() for p in model.parameters()]

    callback = fb.lightning.Diagnose(seconds=0.6, verbose=False)
    assert run(callback) == run()
    found = callback.diagnosis
    assert found.limit == "model" and found.not_restored == []
    assert found.step > 0.01 and found.forward > 0.01 and found.backward is not None and found.optimizer is not None


def test_diagnose_refuses_a_step_that_is_not_the_trainers(tmp_path, parquet):
    class Manual(Model):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

    data = fb.lightning.DataModule(parquet({"a": np.arange(float(N))}), outputs={"a": "a"}, batch_size=BATCH)
    trainer = pl.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                         accelerator="cpu", callbacks=[fb.lightning.Diagnose(seconds=0.1)], default_root_dir=tmp_path)  # fmt: skip
    with pytest.raises(ValueError, match="a step of yours"):
        trainer.fit(Manual(), data)


def test_metrics_are_logged_by_the_trainers_loggers(tmp_path, parquet):
    pytest.importorskip("lightning.pytorch.loggers")
    from lightning.pytorch.loggers import CSVLogger

    path = parquet({"a": np.arange(float(N)), "x": np.ones(N)})

    class Columns(Model):
        def training_step(self, batch, index):
            return super().training_step({**batch, "x": batch["x"][:, None].float()}, index)

    data = fb.lightning.DataModule(path, outputs={"a": "a", "x": "x"}, batch_size=BATCH)
    logger = CSVLogger(tmp_path, flush_logs_every_n_steps=1)
    trainer = pl.Trainer(max_epochs=2, logger=logger, log_every_n_steps=2, enable_checkpointing=False, enable_progress_bar=False,
                         enable_model_summary=False, accelerator="cpu", callbacks=[fb.lightning.Metrics()])  # fmt: skip
    trainer.fit(Columns(), data)
    rows = [dict(zip(lines[0].split(","), line.split(","))) for lines in [(tmp_path / "lightning_logs/version_0/metrics.csv").read_text().splitlines()]
            for line in lines[1:]]  # fmt: skip
    assert rows and all(float(row["forebay/samples_per_s"]) > 0 and float(row["forebay/wait_ms"]) >= 0 for row in rows)
    assert all(0 <= float(row["forebay/wait_share"]) <= 1 for row in rows)
