"""What the recipes' evaluate.py share: a checkpoint that train.py kept, held-out data, scores, and a table of what they come from.

    python recipes/leak/train.py --checkpoints kept
    python recipes/leak/evaluate.py kept/end.ckpt --csv recordings.csv
"""

from __future__ import annotations

import argparse
import csv
import importlib
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

import forebay as fb
import forebay.torch
from recipes import training
from recipes.meter import keep_freed_memory


def kept_in(checkpoint: str, name: str, data: pathlib.Path | None) -> tuple[dict[str, torch.Tensor], pathlib.Path]:
    """The state of the network of a checkpoint of this recipe, and the folder of `data`: where that is None, of those that it was trained with."""
    kept = training.read_checkpoint(checkpoint, name)
    of = kept.get("recipe") or {"data": data}
    if of["data"] is None:
        raise SystemExit(f"evaluate.py: {checkpoint} does not say which data it was trained with: name them with --data")
    folder = data or pathlib.Path(of["data"])
    if not folder.exists():
        raise SystemExit(f"evaluate.py: the data of {folder} are not there: name them with --data")
    return kept["state_dict"], folder


def restore(recipe: training.Recipe, state: dict[str, torch.Tensor], folder: pathlib.Path, args: argparse.Namespace) -> torch.nn.Module:
    """The network, compiled or not when it was trained."""
    network = recipe.network(folder, args)
    try:
        network.load_state_dict({name.removeprefix("network.").removeprefix("_orig_mod."): value for name, value in state.items()})
    except RuntimeError as error:
        raise SystemExit(f"evaluate.py: the network that was kept is of other data than those of {folder}: {str(error).splitlines()[-1].strip()}") from error
    return network.eval()


def scored(scores: training.Scores, predict: Callable[[Any], torch.Tensor], batches: Iterable[Any]) -> tuple[training.Evaluation, int]:
    """The scores of all batches, and how many samples they have."""
    samples = 0
    for batch in batches:
        scores.add(predict, batch)
        samples += training.size_of(batch)
    return scores.result(), samples


def lines(table: Mapping[str, list]) -> list[str]:
    """A table as text, numbers to four digits."""
    rows = [list(table), *([f"{value:.4g}" if isinstance(value, float) else str(value) for value in row] for row in zip(*table.values()))]
    widths = [max(map(len, column)) + 2 for column in zip(*rows)]
    return ["".join(f"{value:>{width}}" for value, width in zip(row, widths)) for row in rows]


def main(
    name: str,
    argv: list[str] | None = None,
    ways: Mapping[str, Callable[[pathlib.Path, argparse.Namespace], Iterable[Any]]] | None = None,
    memory: str | None = None,
    batch_size: int | None = None,
) -> training.Evaluation:
    """The command of a recipe. `ways` are other loaders of the same validation data: the scores do not depend on the one that is taken. `memory`
    and `batch_size`: unless the command names others, by default those of training."""
    with training.said_by("evaluate.py"):
        return _main(name, argv, ways or {}, memory, batch_size)


def _main(name: str, argv: list[str] | None, ways: Mapping[str, Callable], memory: str | None, batch_size: int | None) -> training.Evaluation:
    recipe = importlib.import_module(f"recipes.{name}.train").RECIPE

    def in_order(folder: pathlib.Path, args: argparse.Namespace) -> fb.Loader:
        own = {"batch_size": args.batch_size} if batch_size else {}  # of what is not the samples that it trains with
        return recipe.data(args.split, folder, args, shuffle=False, **own)

    ways = {"batches": in_order, **ways}
    defaults = training.arguments(recipe).parse_args([])
    parser = argparse.ArgumentParser(description=f"Evaluate a checkpoint of the recipe {name!r} on its validation or test data.")
    parser.add_argument("checkpoint", help="what train.py --checkpoints FOLDER kept: FOLDER/end.ckpt")
    parser.add_argument("--data", type=pathlib.Path, help="folder of the data (that of the training)")
    parser.add_argument("--split", choices=("val", "test"), default="val", help="of the data (validation)")
    parser.add_argument("--way", choices=ways, default="batches", help="how the data are loaded")
    parser.add_argument("--batch-size", type=training.count, default=batch_size or defaults.batch_size)
    parser.add_argument("--memory", default=memory, help=f"the loader's budget: by default {memory or 'that of training'}")
    parser.add_argument("--device", type=training.device, default="auto")
    parser.add_argument("--torch-threads", type=training.count, help="for the network on a CPU; the loader's are its own")
    parser.add_argument("--csv", type=pathlib.Path, help="write the table there")
    parser.add_argument("--rows", type=int, default=10, help="print so many lines of the table")
    args = argparse.Namespace(**{**vars(defaults), **vars(parser.parse_args(argv))})
    if args.csv and not args.csv.parent.is_dir():
        parser.error(f"{args.csv}: there is no folder {args.csv.parent}")
    keep_freed_memory()
    if args.torch_threads:
        torch.set_num_threads(args.torch_threads)
    state, folder = kept_in(args.checkpoint, name, args.data)
    args.memory = args.memory or training.budget(recipe, folder)
    network = restore(recipe, state, folder, args).to(args.device)
    began = time.perf_counter()
    with torch.no_grad():
        batches = (forebay.torch.to_device(batch, args.device) for batch in ways[args.way](folder, args))
        evaluation, samples = scored(recipe.scores(folder), lambda batch: recipe.predict(network, batch), batches)
    seconds = time.perf_counter() - began
    text = lines(evaluation.table)
    print("\n".join(text[: args.rows + 1]))
    if len(text) > args.rows + 1:
        print(f"… {len(text) - 1 - args.rows:,} more; --csv FILE has all")
    print(f"\n{args.split}: " + ", ".join(f"{name} {value:.4f}" for name, value in evaluation.scores.items()))
    rate = samples / seconds
    print(f"{samples:,} samples in {seconds:.2f} s: {rate:,.{0 if rate >= 10 else 2}f} a second")
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows([list(evaluation.table), *zip(*evaluation.table.values())])
    return evaluation
