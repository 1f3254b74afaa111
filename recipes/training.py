"""What the recipes' train.py share: their arguments, and a run under Lightning.

A recipe says what its data, network, loss and scores are (`Recipe`); everything else is the framework's: training, validation and test steps, mixed
precision, accumulation, compile, checkpoints, and resuming in the middle of an epoch. contest.py compares loaders.

    python recipes/jets/train.py                       # Forebay, on generated data of the small scale
    python recipes/jets/train.py --today               # the owner's loader; same network, seed and data
    python recipes/jets/train.py --both --seeds 3 --workers 2      # one after the other over seeds, each in a process of its own: a table and a picture
    python recipes/jets/train.py --diagnose            # first: is the loader the limit?
    python recipes/jets/train.py --both --no-network   # the loaders alone
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import itertools
import json
import logging
import math
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import lightning
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.profilers import Profiler
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import forebay as fb
import forebay.lightning
from recipes.data import SCALES, count, generated, positive, scale_of, whole
from recipes.meter import Meter, keep_freed_memory
from recipes.outcome import IN_ORDER, OURS, Loading, Point, Result

RECIPES = pathlib.Path(__file__).parent
LOAD_SECONDS = 5
BUDGET = "512MiB"  # of a loader of small and medium data
# What --set is not for, and who says it.
IMPLIED = {
    "memory": "--memory", "seed": "--seed", "batch_size": "--batch-size", "shuffle": "--loaders forebay-in-order", "device": "--device",
    "framework": "the recipe", "as_": "the recipe",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores of a network, and what they were computed from: columns with a value for every recording, basin, event, …"""

    scores: dict[str, float]
    table: dict[str, list]


class Scores(Protocol):
    """What an evaluate.py makes of batches, one after the other."""

    def add(self, predict: Callable[[Any], torch.Tensor], batch: Any) -> None: ...

    def result(self) -> Evaluation: ...


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One of the systems.

    Attributes
    ----------
    name : str
    generate : callable
        ``generate(folder, scale)`` writes the data of a scale.
    data : callable
        ``data(split, folder, args, **options)`` gives "train", "val" or "test" as a Forebay loader; `options` are the loader's.
    loaders : mapping
        The other loaders, "today" among them, by name: ``loader(folder, args)`` gives the training data as an iterable of batches, as `data` gives them.
    network : callable
        ``network(folder, args)``, a torch.nn.Module.
    predict : callable
        ``predict(network, batch)``: what `scores` takes. Of a recipe that evaluates otherwise than it trains, of its ``mel`` or the like alone.
    loss : callable
        ``loss(network, batch)``, a scalar tensor: a mean over what `truth` has.
    truth : callable
        ``truth(batch)``, (N, K): what the loss compares with, classes one-hot.
    constant : callable
        ``constant(mean, square)``: the loss of the best constant prediction, of the means (K) of the truth and of its squares.
    scores : callable
        ``scores(folder)``, a `Scores`; the first score is what runs are compared by.
    chance, target : float
        The first score of a network that has learnt nothing, and one to reach: the time that takes is measured.
    equal_to : tuple of str
        Of `loaders`, those whose scores Forebay's must equal: they draw on the same samples, in an order of the same kind.
    large : str
        The loader's budget for data of the scales ``"bench"`` and ``"full"``.
    defaults : mapping
        Of the arguments.
    """

    name: str
    generate: Callable[[pathlib.Path, str], Any]
    data: Callable[..., fb.Loader]
    loaders: Mapping[str, Callable[[pathlib.Path, argparse.Namespace], Iterable[Any]]]
    network: Callable[[pathlib.Path, argparse.Namespace], torch.nn.Module]
    predict: Callable[[torch.nn.Module, Any], torch.Tensor]
    loss: Callable[[torch.nn.Module, Any], torch.Tensor]
    truth: Callable[[Any], torch.Tensor]
    constant: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    scores: Callable[[pathlib.Path], Scores]
    chance: float
    target: float
    equal_to: tuple[str, ...] = ("today", "expert")
    large: str = BUDGET
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def reaches(self, score: float) -> bool:
        """Is that the target, or beyond it?"""
        return score >= self.target if self.target > self.chance else score <= self.target


def of_mean(mean: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
    """The mean squared error of predicting the mean."""
    return (square - mean**2).mean()


def of_classes(mean: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
    """The cross entropy of predicting how often each class comes."""
    return -torch.special.xlogy(mean, mean).sum()


def of_bits(mean: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
    """The binary cross entropy of predicting how often each bit is set."""
    return -(torch.special.xlogy(mean, mean) + torch.special.xlogy(1 - mean, 1 - mean)).mean()


def size_of(batch: Any) -> int:
    """Samples of a batch: the length of its last value, which in all recipes has one row a sample."""
    values = list(batch.values()) if isinstance(batch, Mapping) else list(batch)
    return len(values[-1])


class Task(lightning.LightningModule):
    """A recipe's network, loss, scores and optimizer."""

    def __init__(self, recipe: Recipe, network: torch.nn.Module, folder: pathlib.Path, learning_rate: float = 1e-3) -> None:
        super().__init__()
        self.recipe, self.network, self.folder, self.learning_rate = recipe, network, folder, learning_rate
        self.evaluation, self.loss, self.constant = Evaluation({}, {}), math.nan, math.nan

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return self.recipe.loss(self.network, batch)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["recipe"] = {"name": self.recipe.name, "data": str(self.folder.absolute())}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.network.parameters(), self.learning_rate)

    def on_validation_epoch_start(self) -> None:
        self._scores, self._n, self._sums = self.recipe.scores(self.folder), 0, [0.0, 0.0, 0.0]

    def validation_step(self, batch: Any, index: int) -> None:
        self._scores.add(lambda of: self.recipe.predict(self.network, of), batch)
        truth = self.recipe.truth(batch).double()
        of = [self.recipe.loss(self.network, batch).double() * len(truth), truth.sum(0), (truth**2).sum(0)]
        self._sums, self._n = [a + b for a, b in zip(self._sums, of)], self._n + len(truth)

    def on_validation_epoch_end(self) -> None:
        self.evaluation = self._scores.result()
        loss, mean, square = (of / self._n for of in self._sums)
        self.loss, self.constant = float(loss), float(self.recipe.constant(mean, square))

    on_test_epoch_start, test_step, on_test_epoch_end = on_validation_epoch_start, validation_step, on_validation_epoch_end


class Nexts(Profiler):
    """How long every call of the training data's next() takes, as Lightning makes it, and every iter() before them, where workers start: from `begin` on."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self.iter_seconds: list[float] = []
        self._began = 0.0
        self._since: float | None = None

    def begin(self) -> None:
        """An epoch, or what goes before the first."""
        self._since = self._since or time.perf_counter()

    def start(self, action_name: str) -> None:
        if action_name.endswith("train_dataloader_next"):
            self._began = time.perf_counter()
            if self._since:
                self.iter_seconds.append(self._began - self._since)
                self._since = None

    def stop(self, action_name: str) -> None:
        if action_name.endswith("train_dataloader_next"):
            self.seconds.append(time.perf_counter() - self._began)


class Clock(lightning.Callback):
    """Notes time, samples and loss of every step, and keeps the network every few steps: it is evaluated when training is over, on nobody's time."""

    def __init__(self, points: int, nexts: Nexts | None = None) -> None:
        self.points, self.curve, self.samples, self.began, self.nexts = points, [], 0, 0.0, nexts or Nexts()
        self.kept: list[tuple[float, int, dict[str, torch.Tensor]]] = []

    def on_fit_start(self, trainer: Any, module: Any) -> None:
        self.began = time.perf_counter()
        self.nexts.begin()

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        self.nexts.begin()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int) -> None:
        self.samples += size_of(batch)
        n, total = len(self.curve) + 1, trainer.num_training_batches * trainer.max_epochs
        keeps = n * self.points // total > (n - 1) * self.points // total
        if keeps and torch.cuda.is_initialized():
            torch.cuda.synchronize()  # a point has the time at which its network was there
        now = time.perf_counter() - self.began
        self.curve.append((now, self.samples, outputs["loss"].detach()))  # of which a number would wait for the device
        if keeps:
            self.kept.append((now, self.samples, {name: value.detach().clone() for name, value in module.state_dict().items()}))

    def on_train_end(self, trainer: Any, module: Any) -> None:
        parts = trainer.accumulate_grad_batches  # by which Lightning has divided it
        self.curve = [(seconds, samples, parts * float(loss)) for seconds, samples, loss in self.curve]
        if self.curve:  # the last step is over when its loss is there
            self.curve[-1] = (time.perf_counter() - self.began, *self.curve[-1][1:])


def to_gpu(args: argparse.Namespace) -> bool:
    """Do batches go to one?"""
    return args.device in ("auto", "gpu", "cuda") and torch.cuda.is_available()


def on_device(args: argparse.Namespace) -> dict[str, Any]:
    """Options of the loaders that bring batches to the GPU, where training is on one."""
    return {"device": "cuda"} if to_gpu(args) else {}


def again(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A part's forward that keeps its inputs alone, in training; of a sequence, those of about as many runs of it as a run has layers."""
    part = forward.__self__
    if not part.training:
        return forward(*args, **kwargs)
    if isinstance(part, torch.nn.Sequential):
        return checkpoint_sequential(part, min(len(part), math.isqrt(len(part)) + 1), *args, use_reentrant=False)
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)


def checkpointed(network: torch.nn.Module) -> None:
    """Its parts, and of a list of parts each, compute their activations again in the backward pass instead of keeping them."""
    for part in [network] if isinstance(network, torch.nn.Sequential) else network.children():
        for one in part if isinstance(part, torch.nn.ModuleList) else [part]:
            one.forward = functools.partial(again, one.forward)


def unpickled(path: str | pathlib.Path) -> Any:
    """What torch.save wrote there."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, IsADirectoryError):
        raise SystemExit(f"{path} is no file: train.py --checkpoints FOLDER keeps FOLDER/end.ckpt") from None
    except OSError:
        raise
    except Exception as error:  # whatever the unpickler makes of a file that is none of its own
        raise SystemExit(f"{path} is no checkpoint, or not whole") from error


def read_checkpoint(path: str | pathlib.Path, name: str) -> dict[str, Any]:
    """What train.py --checkpoints of this recipe kept."""
    kept = unpickled(path)
    if not isinstance(kept, dict) or "state_dict" not in kept:
        raise SystemExit(f"{path} is not of train.py --checkpoints FOLDER, which keeps FOLDER/end.ckpt")
    of = kept.get("recipe", {}).get("name", name)
    if of != name:
        raise SystemExit(f"{path} is of the recipe {of!r}, not {name!r}: run the commands of recipes/{of}")
    return kept


def network_of(recipe: Recipe, folder: pathlib.Path, args: argparse.Namespace) -> torch.nn.Module:
    """The network, as the arguments say."""
    network = recipe.network(folder, args)
    if args.gradient_checkpointing:
        checkpointed(network)
    return torch.compile(network) if args.compile else network


def make(recipe: Recipe, folder: pathlib.Path, args: argparse.Namespace, loader: str) -> Any:
    """The training data by a loader."""
    if loader not in (OURS, IN_ORDER):
        return recipe.loaders[loader](folder, args)
    order = {"seed": args.seed} if loader == OURS else {"shuffle": False}
    try:
        return recipe.data("train", folder, args, **order, **on_device(args), **dict(args.set))
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError) and not args.set:  # no value of an option, then
            raise
        raise SystemExit(f"train.py: {error}") from error


def trainer_of(args: argparse.Namespace, **options: Any) -> lightning.Trainer:
    """Lightning's Trainer, as the arguments say."""
    most = {"seconds": args.max_seconds} if args.max_seconds else None
    options = {"max_epochs": args.epochs, "limit_train_batches": args.batches, "max_time": most, "enable_checkpointing": False, **options}
    try:
        return lightning.Trainer(
            accelerator=args.device, devices=1, precision=args.precision, accumulate_grad_batches=args.accumulate, logger=False,
            enable_progress_bar=args.progress, enable_model_summary=False, **options,
        )  # fmt: skip
    except ValueError as error:  # a device or a precision that it does not know
        raise SystemExit(f"train.py: {error}") from error


def given(data: Any) -> dict[str, Any]:
    """How a Trainer takes training data: Forebay's by a DataModule, which checkpoints its place."""
    return {"datamodule": forebay.lightning.DataModule(train=data)} if isinstance(data, fb.Loader) else {"train_dataloaders": data}


def run(recipe: Recipe, folder: pathlib.Path, args: argparse.Namespace, loader: str = OURS, seed: int = 0) -> Result:
    """Train once, then validate what was kept on the way, and test the end."""
    lightning.seed_everything(seed, verbose=False)
    args = argparse.Namespace(**{**vars(args), "seed": seed})
    task = Task(recipe, network_of(recipe, folder, args), folder, args.learning_rate)
    if args.resume:
        ours, kept = ({(name, value.shape) for name, value in of.items()} for of in (task.state_dict(), read_checkpoint(args.resume, recipe.name)["state_dict"]))
        if other := ours ^ kept:
            raise SystemExit(f"train.py: {args.resume} is of another network: --compile, or other data? {min(other)[0]}")
    nexts = Nexts()
    clock = Clock(args.points, nexts)
    callbacks: list[lightning.Callback] = [clock]
    if args.checkpoints:
        callbacks.append(ModelCheckpoint(args.checkpoints, every_n_train_steps=args.checkpoint_every, save_top_k=-1))
    trainer = trainer_of(args, callbacks=callbacks, profiler=nexts, enable_checkpointing=bool(args.checkpoints))
    with Meter() as meter:
        began = time.perf_counter()
        data = make(recipe, folder, args, loader)
        setup = time.perf_counter() - began
        trainer.fit(task, **given(data), ckpt_path=args.resume)
    if not clock.curve:
        raise SystemExit(f"{recipe.name}: no batch was trained with: an epoch has none of --batch-size, or the checkpoint is of the end of --epochs")
    if args.checkpoints:
        trainer.save_checkpoint(args.checkpoints / "end.ckpt")
    if args.report and isinstance(data, fb.Loader):
        print(data.report())
    if isinstance(data, fb.Loader):
        data.close()
    drawn = {"seed": 0} if args.held_out_batches else {"shuffle": False}
    val, test = (recipe.data(split, folder, args, **drawn, **on_device(args)) for split in ("val", "test"))
    held_out = forebay.lightning.DataModule(val=val, test=test)
    judge = trainer_of(args, limit_val_batches=args.held_out_batches, limit_test_batches=args.held_out_batches)
    end = {name: value.detach().clone() for name, value in task.state_dict().items()}
    seconds = clock.curve[-1][0]
    if not clock.kept or clock.kept[-1][1] < clock.samples:  # it ended early
        clock.kept.append((seconds, clock.samples, end))
    points = []
    for at, samples, state in clock.kept:
        task.load_state_dict(state)
        val.set_epoch(0)  # the same batches for every point
        judge.validate(task, datamodule=held_out, verbose=False)
        points.append(Point(setup + at, samples, task.loss, next(iter(task.evaluation.scores.values()))))
    scores, loss, constant = task.evaluation.scores, task.loss, task.constant
    judge.test(task, datamodule=held_out, verbose=False)
    held_out.close()
    reached = next((point.seconds for point in points if recipe.reaches(point.score)), None)
    return Result(
        loader, seed, clock.curve, points, scores, task.evaluation.scores, loss, constant, setup, seconds, clock.samples, nexts.iter_seconds, nexts.seconds,
        meter.cpu_seconds, meter.seconds, meter.memory_bytes, reached,
    )  # fmt: skip


def taken(batches: Iterator[Any], seconds: float, use: Callable[[Any], Any], together: int = 1) -> tuple[int, list[float]]:
    """Take batches until there are no more or the time is up: the samples, and what every next() took.

    `together`: so many are made side by side, one by each worker. A round is finished: where a batch takes seconds, one of two would be half of what was made.
    """
    samples, nexts, end = 0, [], time.perf_counter() + seconds
    while ((began := time.perf_counter()) < end or len(nexts) % together) and (batch := next(batches, None)) is not None:
        nexts.append(time.perf_counter() - began)
        samples += size_of(batch)
        use(batch)
    return samples, nexts


def paced(
    name: str, seed: int, make: Callable[[], Iterable[Any]], seconds: float, use: Callable[[Any], Any] = lambda batch: None, together: int = 1
) -> Loading:
    """Take the batches of a loader for an epoch, `seconds` at most, and for `seconds` after that; `together` as of `taken`."""
    with Meter() as meter:
        began = time.perf_counter()
        data = make()
        epoch = iter(data)
        first, _ = taken(epoch, seconds, use, together)
        if not first:
            raise SystemExit(f"{name}: an epoch has no batch of this size")
        steady = time.perf_counter()
        then = itertools.chain(epoch, itertools.chain.from_iterable(itertools.repeat(data)))
        samples, nexts = taken(then, seconds, use, together)
        end = time.perf_counter()  # before the iterator goes, which joins a loader's processes and threads
    if isinstance(data, fb.Loader):
        data.close()
    return Loading(name, seed, steady - began, first, end - steady, samples, nexts, meter.cpu_seconds, meter.seconds, meter.memory_bytes)


def load(recipe: Recipe, folder: pathlib.Path, args: argparse.Namespace, loader: str = OURS, seed: int = 0) -> Loading:
    """Take batches, in host memory, and train nothing."""
    lightning.seed_everything(seed, verbose=False)  # which today's loaders draw from
    args = argparse.Namespace(**{**vars(args), "seed": seed, "device": "cpu"})
    workers = args.workers if loader in recipe.loaders else 0
    return paced(loader, seed, lambda: make(recipe, folder, args, loader), args.max_seconds or LOAD_SECONDS, together=max(workers, 1))


def diagnose(recipe: Recipe, folder: pathlib.Path, args: argparse.Namespace, loader: str) -> fb.Diagnosis:
    """Step alone, loader alone, both together: printed, and as a page in the data's folder, beside that of Forebay's report."""
    lightning.seed_everything(args.seed, verbose=False)
    task = Task(recipe, network_of(recipe, folder, args), folder, args.learning_rate)
    data, asks = make(recipe, folder, args, loader), forebay.lightning.Diagnose(args.seconds, verbose=False)
    trainer_of(args, callbacks=[asks], max_epochs=1, limit_train_batches=1).fit(task, **given(data))
    page = folder / f"diagnosis-{loader}.html"
    asks.diagnosis.html(page, f"{recipe.name}: {loader}")
    print(f"{loader}\n{asks.diagnosis}\npage    {page}")
    if isinstance(data, fb.Loader):
        data.report().html(folder / f"report-{loader}.html")
        data.close()
    return asks.diagnosis


def setting(text: str) -> tuple[str, Any]:
    """An argument NAME=VALUE; the value is a number, true or false, or text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    if name in IMPLIED:
        raise argparse.ArgumentTypeError(f"{name} is said by {IMPLIED[name]}")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            pass
    return name, value


def arguments(recipe: Recipe) -> argparse.ArgumentParser:
    """What every train.py takes."""
    parser = argparse.ArgumentParser(description=f"Train the recipe {recipe.name!r}.", allow_abbrev=False)
    add, defaults = parser.add_argument, {"batch_size": 256, "epochs": 2, "learning_rate": 1e-3, "points": 8, **recipe.defaults}
    add("--data", type=pathlib.Path, help="folder of the data, generated when it is not there; by default recipes/<name>/data, data-<scale> of other scales")
    add("--scale", choices=SCALES, help="of the data: small where they are generated; data of another scale are refused")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--loaders", nargs="+", choices=(OURS, IN_ORDER, *recipe.loaders), help="which to train with, one after the other")
    which.add_argument("--today", action="store_true", help="the owner's loader")
    which.add_argument("--both", action="store_true", help="today's loader, and Forebay's: a table, a verdict and a picture")
    add("--order", action="store_true", help="and Forebay's without shuffling")
    add("--seeds", type=count, default=1, help="so many runs, with seeds from --seed on")
    add("--seed", type=whole, default=0)
    add("--batch-size", type=count, default=defaults["batch_size"])
    add("--epochs", type=count, default=defaults["epochs"])
    add("--batches", type=count, help="at most so many batches an epoch")
    add("--held-out-batches", type=count, help="validate and test on at most so many batches, drawn at random, the same for every loader")
    add("--max-seconds", type=count, help="end training then, wherever it is")
    add("--points", type=count, default=defaults["points"], help="how often the network is kept on the way, to be evaluated at the end")
    add("--target", type=float, default=recipe.target, help="a score to reach: the seconds that takes are measured, set-up with them")
    add("--learning-rate", type=positive, default=defaults["learning_rate"])
    add("--memory", help=f"the loader's budget: by default {BUDGET}, of the scales bench and full {recipe.large}")
    add("--set", type=setting, nargs="+", default=[], metavar="NAME=VALUE", help="other options of Forebay's loader: threads=1 streams=1")
    add("--workers", type=whole, default=0, help="of the other loaders")
    add("--torch-threads", type=count, help="for the network on a CPU; the loaders' are theirs")
    add("--device", default="auto", help="as Lightning's accelerator: auto, cpu, gpu, …")
    add("--precision", default="32-true", help="as Lightning's: 32-true, bf16-mixed, 16-mixed")
    add("--accumulate", type=count, default=1, help="batches a step of the optimizer")
    add("--compile", action="store_true", help="torch.compile the network")
    add("--gradient-checkpointing", action="store_true", help="compute activations again instead of keeping them")
    add("--checkpoints", type=pathlib.Path, help="folder for Lightning's checkpoints, which hold the place in the data too; the last is end.ckpt")
    add("--checkpoint-every", type=count, default=100, help="optimizer steps: batches, unless --accumulate says otherwise")
    add("--resume", help="a checkpoint to go on from, in the middle of an epoch too")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--diagnose", action="store_true", help="measure what limits training with each loader: fb.diagnose, and pages in the data's folder")
    instead.add_argument("--no-network", action="store_true", help=f"the loaders alone: an epoch, --max-seconds ({LOAD_SECONDS}) at most, and as many seconds more")
    add("--seconds", type=positive, default=5, help="of --diagnose, for each loader")
    add("--report", action="store_true", help="print the loader's report")
    add("--must-learn", action="store_true", help="exit with 1 unless every loader reaches the target, or a loss below the best constant prediction's")
    add("--progress", action="store_true", help="Lightning's progress bar")
    add("--json", type=pathlib.Path, help="write the results there")
    add("--picture", type=pathlib.Path, help="of the loss over time; by default <data>/loss.png with several loaders")
    add("--alone", choices=(OURS, IN_ORDER, *recipe.loaders), help=argparse.SUPPRESS)  # this process is one contestant's, whatever else is asked for
    return parser


def device(text: str) -> torch.device:
    """An argument that is a device which is there, by PyTorch's name or Lightning's."""
    try:
        found = torch.device("cuda" if text == "gpu" or text == "auto" and torch.cuda.is_available() else "cpu" if text == "auto" else text)
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no device: cpu, cuda, cuda:1, …") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise argparse.ArgumentTypeError(f"{text!r}: PyTorch finds no GPU here")
    return found


def at_least_three(files: Sequence[pathlib.Path], folder: pathlib.Path, pattern: str) -> Sequence[pathlib.Path]:
    """Files that are to be split, if they can be."""
    if len(files) < 3:
        raise SystemExit(f"{folder} has {len(files)} of {pattern}: at least three are needed, to train, to validate and to test with")
    return files


def budget(recipe: Recipe, folder: pathlib.Path) -> str:
    """The loader's, for the data in the folder."""
    return recipe.large if scale_of(folder, recipe.name) in ("bench", "full") else BUDGET


def ready(recipe: Recipe, folder: pathlib.Path, scale: str | None) -> None:
    """Data of a scale in the folder: generated where there are none, refused where they are others."""
    if not folder.exists():
        made = scale or "small"
        generated(folder, lambda partial: recipe.generate(partial, made), f"{recipe.name} {made}")
        return
    there = scale_of(folder, recipe.name)
    if scale and there != scale:
        found = "a scale that is not known" if there is None else f"scale {there!r}"
        cure = "leave --scale out to train on what is there, or name another folder with --data"
        raise SystemExit(f"train.py: {folder} has data of {found}, not {scale!r}: {cure}")


def prepare(recipe: Recipe, argv: list[str] | None) -> tuple[argparse.Namespace, pathlib.Path, list[str]]:
    """The arguments, the folder with the data, which loaders."""
    args = arguments(recipe).parse_args(argv)
    keep_freed_memory()
    if args.torch_threads:
        torch.set_num_threads(args.torch_threads)
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for module in ("lightning", "torch"):
        warnings.filterwarnings("ignore", module=module)
    loaders = args.loaders or (["today"] if args.today else ["today", OURS] if args.both else [OURS])
    loaders = [args.alone] if args.alone else list(dict.fromkeys([*loaders, *[IN_ORDER] * args.order]))
    without = args.diagnose or args.no_network
    if (args.checkpoints or args.resume) and (len(loaders) * args.seeds > 1 or without):
        raise SystemExit("train.py: --checkpoints and --resume are of a single run that trains: give one loader and one seed")
    if args.must_learn and without:
        raise SystemExit("train.py: --must-learn is of training, which --diagnose and --no-network do without")
    if args.resume and loaders[0] not in (OURS, IN_ORDER):
        raise SystemExit("train.py: --resume is of Forebay's loader: any other would begin its epoch anew")
    if args.resume:
        read_checkpoint(args.resume, recipe.name)
    for path in filter(None, (args.json, args.picture)):
        if not path.parent.is_dir():
            raise SystemExit(f"train.py: {path}: there is no folder {path.parent}")
    if not args.no_network:
        trainer_of(args)  # refused now, not once data are generated
    folder = args.data or RECIPES / recipe.name / ("data" if args.scale in (None, "small") else f"data-{args.scale}")
    ready(recipe, folder, args.scale)
    args.memory = args.memory or budget(recipe, folder)
    return args, folder, loaders


def main(recipe: Recipe, argv: list[str] | None = None) -> list[Result] | list[Loading]:
    """The command: train, or only load, and say what came of it."""
    with said_by("train.py"):
        return _main(recipe, argv)


@contextlib.contextmanager
def said_by(program: str) -> Iterator[None]:
    """What data, options and files are refused for, as a command says it."""
    try:
        yield
    except (fb.Error, MisconfigurationException, OSError) as error:
        raise SystemExit(f"{program}: {type(error).__name__}: {error}") from error
    except ValueError as error:
        if not str(error).startswith("memory="):
            raise
        raise SystemExit(f"{program}: {error}") from error


def _main(recipe: Recipe, argv: list[str] | None) -> list[Result] | list[Loading]:
    from recipes import contest

    argv = sys.argv[1:] if argv is None else argv
    args, folder, loaders = prepare(recipe, argv)
    recipe = dataclasses.replace(recipe, target=args.target)
    if args.diagnose:
        for loader in loaders:
            diagnose(recipe, folder, args, loader)
        return []
    if len(loaders) * args.seeds == 1:
        results = [(load if args.no_network else run)(recipe, folder, args, loaders[0], args.seed)]
    else:
        program = RECIPES / recipe.name / "train.py"
        results = contest.race(
            lambda loader, seed: [program, *argv, "--alone", loader, "--seed", seed, "--seeds", 1], loaders, range(args.seed, args.seed + args.seeds), folder
        )
    if not args.alone:
        print(contest.table(results))
        if not args.no_network:
            print("\n" + "\n".join(contest.verdict(recipe, results)))
    if args.json:
        args.json.write_text(json.dumps([dataclasses.asdict(result) for result in results]))
    if args.alone or args.no_network:
        return results
    if args.picture or len(loaders) > 1:
        path = args.picture or folder / "loss.png"
        scale = scale_of(folder, recipe.name)
        contest.picture(f"{recipe.name}, scale {scale}" if scale else recipe.name, results, path)
        print(f"picture: {path}")
    if args.must_learn and (nothing := contest.without_learning(recipe, results)):
        raise SystemExit(f"train.py: {recipe.name} has learnt nothing with {', '.join(nothing)}")
    return results
