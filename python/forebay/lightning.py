"""Forebay under Lightning: a DataModule over files, whose place in the data the Trainer saves and restores.

>>> import forebay.lightning
>>> data = forebay.lightning.DataModule(
...     train="train/*.parquet", val="val/*.parquet", outputs={"x": ["prcp", "tmax"], "y": "flow"}, batch_size=512)
>>> trainer.fit(model, data, ckpt_path="last")

Pass a loader of your own through ``DataModule(train=loader)`` too: given to ``trainer.fit`` directly, Lightning restores its state in the middle
of an epoch, but not from a checkpoint made at an epoch's end.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

try:
    # Whichever of the two packages the program uses: their classes are not the same.
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        from pytorch_lightning import Callback as _Callback, LightningDataModule as _LightningDataModule
    else:
        try:
            from lightning.pytorch import Callback as _Callback, LightningDataModule as _LightningDataModule
        except ImportError:
            from pytorch_lightning import Callback as _Callback, LightningDataModule as _LightningDataModule
except ImportError as _error:
    raise ImportError(f"forebay.lightning needs Lightning: {_error}. Install lightning, or use forebay.torch in a loop of your own") from _error

from ._advice import LOADER_WORDS, unknown_argument
from ._batch import to_device
from ._dataset import Dataset, open as _open
from ._diagnose import Diagnosis, diagnose
from ._forwarding import Forwarding
from ._loader import Loader
from ._mix import Mix
from ._samples import Samples

__all__ = ["DataModule", "Diagnose", "Metrics"]


class _TrainLoader(Forwarding):
    """A loader for ``trainer.fit``, with Lightning's idea of where an epoch begins and ends.

    Parameters
    ----------
    loader : forebay.Loader
    trainer : lightning.Trainer, optional
        Says where an epoch ends early (``limit_train_batches``).
    """

    def __init__(self, loader: Loader, trainer: Any = None) -> None:
        self.loader = loader
        self._trainer = trainer

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands. At the end of an epoch that is the beginning of the next."""
        state = super().state_dict()
        limit = getattr(self._trainer, "num_training_batches", None)
        last = len(self.loader) if not isinstance(limit, int) or limit <= 0 else min(limit, len(self.loader))
        if state["batch"] >= last:
            state["epoch"], state["batch"] = state["epoch"] + 1, 0
        return state


class DataModule(_LightningDataModule):
    """Loaders for training, validation, test and prediction, opened on each rank when Lightning asks for them.

    With ``part="1000 files"``, or ``part="1000 keys", part_key="basin"``, each of the Trainer's epochs is the next part. Parts
    differ in their number of batches, which Lightning asks for when it sets up the loader: ``trainer.reload_dataloaders_every_n_epochs`` is set
    to 1 then. Nothing is opened anew for it.

    Parameters
    ----------
    train, val, test, predict : optional
        What :func:`forebay.open` takes (a glob, a list of paths, …), or a data set, samples, a mixture, or a loader.
    outputs : dict, list of str or str, optional
        As :class:`forebay.Loader` takes them, for all four.
    batch_size : int, optional
        Samples a batch of one rank.
    eval_batch_size : int, optional
        The same for validation, test and prediction; by default batch_size.
    **options
        Of :class:`forebay.Loader`: seed, memory, superbatch, threads, … `shuffle`, `tail`, `part`, diversity and length buckets are for training;
        validation, test and prediction take all samples in file order, every time. On several ranks prediction gives every sample once, and some
        ranks have a batch fewer (``tail="uneven"``); validation and test give all ranks as many batches, the last one filled with repeats, which
        ``fb.is_repeat()`` marks.
    """

    def __init__(
        self, train: Any = None, val: Any = None, test: Any = None, predict: Any = None, *, outputs: Any = None, batch_size: int | None = None,
        eval_batch_size: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        known = frozenset(inspect.signature(Loader).parameters)
        for name in options:
            if name not in known:
                own = ("train", "val", "test", "predict", "outputs", "batch_size", "eval_batch_size")
                raise unknown_argument("DataModule", name, dict.fromkeys((*own, *sorted(known - {"samples"}))), LOADER_WORDS)
        self._sources = {"train": train, "val": val, "test": test, "predict": predict}
        self._outputs = outputs
        self._batch_size = batch_size
        self._eval_batch_size = batch_size if eval_batch_size is None else eval_batch_size
        self._options = options
        self._loaders: dict[str, Loader] = {}
        self._train: _TrainLoader | None = None
        self._state: dict[str, Any] | None = None  # of a checkpoint, until the loader is open
        for kind, source in self._sources.items():
            if isinstance(source, Mapping) and any(isinstance(part, (Samples, Mix, Dataset, Loader)) for part in source.values()):
                raise TypeError(f"{kind}= is one data set, not several by name: give splits as DataModule(**splits, …) or {kind}=splits[…]")
        if val is None:  # Lightning's own method: fit() goes without validation, validate() is refused
            # a partial: of a bound method, a pickle would name this class's
            self.val_dataloader = functools.partial(_LightningDataModule.val_dataloader, self)  # type: ignore[method-assign]

    def _loader(self, kind: str) -> Loader:
        if kind not in self._loaders:
            source = self._sources[kind]
            if source is None:
                raise ValueError(f"this DataModule was given no {kind}=: DataModule({kind}=…)")
            if not isinstance(source, Loader):
                size = self._batch_size if kind == "train" else self._eval_batch_size
                if size is None and self._options.get("batch_elements") is None:
                    raise ValueError(f"batch_size is needed for {kind}, which was given data, not a loader: DataModule(..., batch_size=512)")
                options = {"framework": "torch", **self._options}
                if kind != "train":
                    options.update(shuffle=False, tail="uneven" if kind == "predict" else "auto", drop_last=None, part=None, part_key=None,
                                   diversity_files=None,
                                   max_superbatch_batches=None, bucket_samples=None)
                samples = source if isinstance(source, (Samples, Mix, Dataset)) else _open(source)
                source = samples.loader(self._outputs, batch_size=size, **options)
            self._loaders[kind] = source
        return self._loaders[kind]

    def train_dataloader(self) -> _TrainLoader:
        """The loader of the training data: the same one whenever it is asked for."""
        if self._train is None:
            self._train = _TrainLoader(self._loader("train"), self.trainer)
            if self.trainer is not None and self._train.loader.parts > 1:
                self.trainer.reload_dataloaders_every_n_epochs = 1
        if self._state is not None:
            self._train.load_state_dict(self._state)
            self._state = None
        return self._train

    def state_dict(self) -> dict[str, Any]:
        """Where the training data stand, for the Trainer's checkpoint."""
        return {} if self._train is None else {"train": self._train.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a checkpoint was made; checked against the data when the loader is opened."""
        self._state = state_dict.get("train")

    def val_dataloader(self) -> Loader:
        """The loader of the validation data, in file order."""
        return self._loader("val")

    def test_dataloader(self) -> Loader:
        """The loader of the test data, in file order."""
        return self._loader("test")

    def predict_dataloader(self) -> Loader:
        """The loader of the data to predict for, in file order; over all ranks every sample once."""
        self.allow_zero_length_dataloader_with_multiple_devices = True  # of few samples, some ranks have none
        return self._loader("predict")

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Pinned by torch's allocator and copied without waiting, on the way to CUDA."""
        return to_device(batch, device)

    def __repr__(self) -> str:
        lines = ["<forebay.lightning.DataModule"]
        for kind, source in self._sources.items():
            if source is not None:
                text = repr(self._loaders.get(kind, source)).replace("\n", "\n           ")
                lines.append(f"  {kind:<8} {text if len(text) <= 2000 else text[:1997] + '…'}")
        return "\n".join([*lines[:-1], lines[-1] + ">"])

    __str__ = __repr__

    def close(self) -> None:
        """Close the loaders; they are opened again when they are asked for."""
        for loader in self._loaders.values():
            loader.close()
        self._loaders.clear()
        self._train = None


def _training_step(trainer: Any, pl_module: Any) -> Any:
    """The model with training_step() as its forward pass."""
    import torch

    index = (0,) if len(inspect.signature(pl_module.training_step).parameters) > 1 else ()
    mixed = "mixed" in str(trainer.precision)

    class TrainingStep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.of = pl_module

        def forward(self, batch: Any) -> Any:
            result = trainer.strategy.training_step(batch, *index)
            return {"loss": result} if mixed and isinstance(result, torch.Tensor) else result  # whose dtype says nothing of the arithmetic

    return TrainingStep()


class Diagnose(_Callback):
    """Measures what limits training before it begins, and prints it: :func:`forebay.diagnose` of the model's training step.

    Model, optimizer, loader and random numbers are put back, so training is what it would have been. The step is training_step() with the Trainer's
    precision, backward() and the optimizer's step, without gradient accumulation, clipping, scaling and other callbacks; what it logs is dropped.

    Parameters
    ----------
    seconds, batch_sizes
        As :func:`forebay.diagnose` takes them.
    verbose : bool
        Print the diagnosis on rank 0.

    Attributes
    ----------
    diagnosis : forebay.Diagnosis or None
        What was found.

    Examples
    --------
    >>> trainer = Trainer(callbacks=[forebay.lightning.Diagnose()])
    """

    def __init__(self, seconds: float = 10, *, batch_sizes: Iterable[int] | None = None, verbose: bool = True) -> None:
        self.diagnosis: Diagnosis | None = None
        self._seconds, self._sizes, self._verbose = seconds, batch_sizes, verbose

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning when model and optimizer are on their device."""
        if not pl_module.automatic_optimization or len(trainer.optimizers) != 1:
            raise ValueError(
                "forebay.lightning.Diagnose runs the step of automatic optimization with one optimizer, and this model has "
                f"automatic_optimization={pl_module.automatic_optimization} and {len(trainer.optimizers)} optimizers: call "
                "forebay.diagnose(step, loader, model=model, optimizer=optimizer) with a step of yours"
            )
        (optimizer,) = trainer.optimizers
        forward = _training_step(trainer, pl_module)

        def step(batch: Any) -> Any:
            result = forward(trainer.strategy.batch_to_device(batch))
            loss = result["loss"] if isinstance(result, Mapping) else result
            if loss is not None:  # a step that Lightning would skip
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss

        logged = {"log": _logs_nothing, "log_dict": _logs_nothing}
        kept = {name: pl_module.__dict__[name] for name in logged if name in pl_module.__dict__}
        pl_module.__dict__.update(logged)
        try:
            self.diagnosis = diagnose(
                step, trainer.fit_loop._data_source.dataloader(), self._seconds, forward, optimizer, batch_sizes=self._sizes
            )
        finally:
            for name in logged:
                del pl_module.__dict__[name]
            pl_module.__dict__.update(kept)
        if self._verbose and trainer.is_global_zero:
            print(self.diagnosis)


class Metrics(_Callback):
    """Logs by the Trainer's loggers (TensorBoard, W&B, CSV, …) how the training data come, as often as the Trainer logs.

    `forebay/wait_ms` is the wait for a batch, on average since it was logged last, `forebay/samples_per_s` the samples of this rank that came in
    that time, `forebay/wait_share` the share of it that went to waiting, `forebay/memory_bytes` the most that the loader has held.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int, int, int] | None = None

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning: the time between epochs is not the data's."""
        self._last = None

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Called by Lightning after every step."""
        if (trainer.fit_loop.epoch_loop._batches_that_stepped + 1) % trainer.log_every_n_steps and self._last is not None:
            return
        report = getattr(trainer.train_dataloader, "report", None)
        if report is None:
            raise TypeError(f"forebay.lightning.Metrics: the training data are a {type(trainer.train_dataloader).__name__}, which has no report()")
        now = report()
        last, self._last = self._last, (now.batches, now.samples, now.wait_ns, now.wait_ns + now.work_ns)
        if last is None or now.batches == last[0]:
            return
        batches, samples, wait, span = (b - a for a, b in zip(last, self._last, strict=True))
        figures = {
            "forebay/wait_ms": wait / batches / 1e6,
            "forebay/samples_per_s": samples * 1e9 / max(span, 1),
            "forebay/wait_share": wait / max(span, 1),
            "forebay/memory_bytes": float(now.budget_peak_bytes),
        }
        for logger in trainer.loggers:
            logger.log_metrics(figures, step=trainer.fit_loop.epoch_loop._batches_that_stepped)


def _logs_nothing(*_: Any, **__: Any) -> None:
    """In place of a model's log() while its step is measured."""
