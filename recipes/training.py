"""What the recipes' train.py share: their arguments, a run under Lightning, and the table and picture of today's loader beside Forebay's.

A recipe says what its data, network, loss and scores are (`Recipe`); everything else is the framework's: mixed precision, accumulation, compile,
checkpoints, and resuming in the middle of an epoch.

    python recipes/jets/train.py                       # Forebay, on generated data of the small scale
    python recipes/jets/train.py --today               # the owner's loader; same network, seed and data
    python recipes/jets/train.py --both --seeds 3      # one after the other over seeds: a table and a picture
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import forebay as fb
import forebay.lightning
import forebay.torch

COLOURS = {"today": "#9aa4b2", "forebay": "#1f77b4"}


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores of a network, and what they were computed from: columns with a value for every recording, basin, event, …"""

    scores: dict[str, float]
    table: dict[str, list]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One of the systems.

    Attributes
    ----------
    name : str
    generate : callable
        ``generate(folder, scale)`` writes the data of a scale.
    train, validation : callable
        ``train(folder, args)`` and ``validation(folder, args)`` give the data as Forebay loaders.
    today : callable
        ``today(folder, args)`` gives the training data as the owner loads it: an iterable of batches, as `data` gives them.
    network : callable
        ``network(folder, args)``, a torch.nn.Module.
    loss : callable
        ``loss(network, batch)``, a scalar tensor.
    evaluate : callable
        ``evaluate(network, batches, folder)``, an `Evaluation`; its first score is what runs are compared by.
    chance : float
        The first score of a network that has learnt nothing.
    defaults : mapping
        Of the arguments.
    """

    name: str
    generate: Callable[[pathlib.Path, str], Any]
    train: Callable[[pathlib.Path, argparse.Namespace], fb.Loader]
    validation: Callable[[pathlib.Path, argparse.Namespace], fb.Loader]
    today: Callable[[pathlib.Path, argparse.Namespace], Iterable[Any]]
    network: Callable[[pathlib.Path, argparse.Namespace], torch.nn.Module]
    loss: Callable[[torch.nn.Module, Any], torch.Tensor]
    evaluate: Callable[[torch.nn.Module, Iterable[Any], pathlib.Path], Evaluation]
    chance: float
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Result:
    """What came of a run. `curve` has (seconds since the loader was asked for its first batch, samples seen, loss)."""

    loader: str
    seed: int
    curve: list[tuple[float, int, float]]
    scores: dict[str, float]
    setup_seconds: float
    seconds: float
    samples: int
    waited: float  # share of the seconds inside the loader's next()

    @property
    def samples_per_second(self) -> float:
        """Over all epochs, validation left out."""
        return self.samples / self.seconds


def size_of(batch: Any) -> int:
    """Samples of a batch: the length of its last value, which in all recipes has one row a sample."""
    values = list(batch.values()) if isinstance(batch, Mapping) else list(batch)
    return len(values[-1])


class Task(lightning.LightningModule):
    """A recipe's network, loss and optimizer."""

    def __init__(self, recipe: Recipe, network: torch.nn.Module, learning_rate: float) -> None:
        super().__init__()
        self.recipe, self.network, self.learning_rate = recipe, network, learning_rate

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return self.recipe.loss(self.network, batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.network.parameters(), self.learning_rate)


class Clock(lightning.Callback):
    """Notes time, samples and loss of every step, and how long the program waited for each batch."""

    def __init__(self) -> None:
        self.curve: list[tuple[float, int, float]] = []
        self.samples, self.waited, self.began, self._since = 0, 0.0, 0.0, 0.0

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        self._since = time.perf_counter()
        self.began = self.began or self._since

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, index: int) -> None:
        self.waited += time.perf_counter() - self._since

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int) -> None:
        self.samples += size_of(batch)
        self._since = time.perf_counter()
        self.curve.append((self._since - self.began, self.samples, float(outputs["loss"])))


class Moved:
    """Batches on a device, for the validation loop."""

    def __init__(self, batches: Iterable[Any], device: torch.device) -> None:
        self.batches, self.device = batches, device

    def __iter__(self):
        return (forebay.torch.to_device(batch, self.device) for batch in self.batches)


def run(recipe: Recipe, folder: pathlib.Path, args: argparse.Namespace, loader: str = "forebay", seed: int = 0) -> Result:
    """Train and evaluate once."""
    lightning.seed_everything(seed, verbose=False)
    args = argparse.Namespace(**{**vars(args), "seed": seed})
    began = time.perf_counter()
    train = (recipe.today if loader == "today" else recipe.train)(folder, args)
    setup = time.perf_counter() - began
    network = recipe.network(folder, args)
    task = Task(recipe, torch.compile(network) if args.compile else network, args.learning_rate)
    clock = Clock()
    callbacks: list[lightning.Callback] = [clock]
    if args.checkpoints:
        callbacks.append(ModelCheckpoint(args.checkpoints, every_n_train_steps=args.checkpoint_every, save_top_k=-1))
    trainer = lightning.Trainer(
        accelerator=args.device, devices=1, max_epochs=args.epochs, limit_train_batches=args.batches, precision=args.precision,
        accumulate_grad_batches=args.accumulate, callbacks=callbacks, logger=False, enable_progress_bar=args.progress,
        enable_checkpointing=bool(args.checkpoints), enable_model_summary=False,
    )  # fmt: skip
    data = {"datamodule": forebay.lightning.DataModule(train=train)} if loader == "forebay" else {"train_dataloaders": train}
    trainer.fit(task, **data, ckpt_path=args.resume)
    if args.checkpoints:
        trainer.save_checkpoint(args.checkpoints / "end.ckpt")
    seconds = clock.curve[-1][0] if clock.curve else 0.0
    if args.report and loader == "forebay":
        print(train.report())
    network.eval()
    with recipe.validation(folder, args) as batches, torch.no_grad():
        evaluation = recipe.evaluate(network, Moved(batches, task.device), folder)
    if loader == "forebay":
        train.close()
    return Result(loader, seed, clock.curve, evaluation.scores, setup, seconds, clock.samples, clock.waited / seconds if seconds else 0.0)


# ---- what is shown ----


def equal(a: list[float], b: list[float], margin: float = 0.05) -> str:
    """Are two sets of scores the same? In words, by the spread over seeds and a margin of the larger mean."""
    if min(len(a), len(b)) < 2:
        return "one seed each: no spread to compare with"
    difference = abs(statistics.mean(a) - statistics.mean(b))
    spread = 2 * (statistics.variance(a) / len(a) + statistics.variance(b) / len(b)) ** 0.5
    allowed = max(spread, margin * max(abs(statistics.mean(a)), abs(statistics.mean(b))))
    verdict = "the same" if difference <= allowed else "NOT the same"
    return f"{verdict}: they differ by {difference:.4f}, two standard errors are {spread:.4f}, {margin:.0%} of the score is allowed anyway"


def table(results: list[Result]) -> str:
    """One line a loader: medians over seeds."""
    names = list(results[0].scores)
    lines = [f"{'loader':<10}{'samples/s':>12}{'waiting':>9}{'set up':>9}{'training':>10}" + "".join(f"{name:>{max(12, len(name) + 2)}}" for name in names)]
    lines.append("-" * len(lines[0]))
    for loader in dict.fromkeys(result.loader for result in results):
        of = [result for result in results if result.loader == loader]

        def median(value: Callable[[Result], float]) -> float:
            return statistics.median(map(value, of))

        line = f"{loader:<10}{median(lambda r: r.samples_per_second):>12,.0f}{median(lambda r: r.waited):>9.1%}"
        line += f"{median(lambda r: r.setup_seconds):>8.2f}s{median(lambda r: r.seconds):>9.2f}s"
        lines.append(line + "".join(f"{median(lambda r, n=name: r.scores[n]):>{max(12, len(name) + 2)}.4f}" for name in names))
    return "\n".join(lines)


def picture(recipe: Recipe, results: list[Result], path: pathlib.Path) -> None:
    """The loss over wall time: a line a run, today's grey."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    for result in results:
        window = max(1, len(result.curve) // 40)
        points = [result.curve[i : i + window] for i in range(0, len(result.curve), window)]
        axes.plot(
            [p[-1][0] for p in points], [statistics.mean(loss for _, _, loss in p) for p in points], color=COLOURS[result.loader],
            label=result.loader if result.seed == results[0].seed else None,
        )  # fmt: skip
    axes.set(xlabel="seconds of training", ylabel="loss", title=recipe.name)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def arguments(recipe: Recipe) -> argparse.ArgumentParser:
    """What every train.py takes."""
    parser = argparse.ArgumentParser(description=f"Train the recipe {recipe.name!r}: {__doc__.splitlines()[0]}")
    add, defaults = parser.add_argument, {"batch_size": 256, "epochs": 2, "learning_rate": 1e-3, "memory": "512MiB", **recipe.defaults}
    add("--data", type=pathlib.Path, help="folder of the data; by default recipes/<name>/data, generated when it is not there")
    add("--scale", default="small", choices=("small", "bench", "full"), help="of what is generated")
    add("--today", action="store_true", help="the owner's loader")
    add("--both", action="store_true", help="today's loader and Forebay, one after the other: a table and a picture")
    add("--seeds", type=int, default=1, help="so many runs, with seeds from --seed on")
    add("--seed", type=int, default=0)
    add("--batch-size", type=int, default=defaults["batch_size"])
    add("--epochs", type=int, default=defaults["epochs"])
    add("--batches", type=int, help="at most so many batches an epoch")
    add("--learning-rate", type=float, default=defaults["learning_rate"])
    add("--memory", default=defaults["memory"], help="the loader's budget")
    add("--workers", type=int, default=0, help="of today's loader")
    add("--device", default="auto", help="as Lightning's accelerator: auto, cpu, gpu, …")
    add("--precision", default="32-true", help="as Lightning's: 32-true, bf16-mixed, 16-mixed")
    add("--accumulate", type=int, default=1, help="batches a step of the optimizer")
    add("--compile", action="store_true", help="torch.compile the network")
    add("--gradient-checkpointing", action="store_true", help="compute activations again instead of keeping them (jets, neutrino)")
    add("--checkpoints", type=pathlib.Path, help="folder for Lightning's checkpoints, which hold the place in the data too; the last is end.ckpt")
    add("--checkpoint-every", type=int, default=100, help="batches")
    add("--resume", help="a checkpoint to go on from, in the middle of an epoch too")
    add("--report", action="store_true", help="print the loader's report")
    add("--progress", action="store_true", help="Lightning's progress bar")
    add("--json", type=pathlib.Path, help="write the results there")
    add("--picture", type=pathlib.Path, help="of the loss over time; by default <data>/loss.png with --both")
    return parser


def main(recipe: Recipe, argv: list[str] | None = None) -> list[Result]:
    """The command: train, and say what came of it."""
    args = arguments(recipe).parse_args(argv)
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    folder = args.data or pathlib.Path(__file__).parent / recipe.name / "data"
    if not folder.exists():
        print(f"generating data of scale {args.scale!r} in {folder}", file=sys.stderr)
        recipe.generate(folder, args.scale)
    loaders = ["today", "forebay"] if args.both else ["today" if args.today else "forebay"]
    results = [run(recipe, folder, args, loader, args.seed + k) for k in range(args.seeds) for loader in loaders]
    print(table(results))
    score = next(iter(results[0].scores))
    print(f"\n{score} of a network that has learnt nothing: {recipe.chance:g}")
    if args.both:
        today, ours = ([r.scores[score] for r in results if r.loader == name] for name in loaders)
        print(f"{score}, today's loader and Forebay's: {equal(today, ours)}")
        path = args.picture or folder / "loss.png"
        picture(recipe, results, path)
        print(f"picture: {path}")
    if args.json:
        args.json.write_text(json.dumps([dataclasses.asdict(result) for result in results]))
    return results
