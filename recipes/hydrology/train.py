"""Trains an LSTM with static attributes to forecast discharge: `python recipes/hydrology/train.py --both` (recipes/training.py has the arguments)."""

import functools
import pathlib
import sys

import pyarrow.parquet as pq
import torch
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import forebay as fb
from recipes import training
from recipes.hydrology import baseline, evaluate, expert, generate, loader

TARGET = generate.TARGET


class Network(nn.Module):
    """X (B, input, F), static (B, S), future (B, output, F) to y (B, output), standardised."""

    def __init__(self, features, static, output=loader.OUTPUT, width=32):
        super().__init__()
        self.lstm = nn.LSTM(features + static, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width + output * features, 2 * width), nn.ReLU(), nn.Linear(2 * width, output))

    def forward(self, x, static, future):
        steps = torch.cat([x, static[:, None].expand(-1, x.shape[1], -1)], -1)
        _, (state, _) = self.lstm(steps)
        return self.head(torch.cat([state[-1], future.flatten(1)], 1))


@functools.lru_cache
def columns(folder):
    """The forcings that all regions have, and the static attributes."""
    first = [next(region.glob("*.parquet"), region) for region in sorted((folder / "series").iterdir())]
    if empty := [path for path in first if path.is_dir()]:
        raise SystemExit(f"{empty[0]} has no *.parquet: a region without basins is no region")
    names = [pq.read_schema(path).names for path in first]
    features = [name for name in names[0] if name not in ("date", "gauge_id", TARGET) and all(name in other for other in names)]
    tables = (folder / "attributes").glob("*.parquet")
    static = sorted({name for table in tables for name in pq.read_schema(table).names if name != "gauge_id"})
    return features, static


def gauges(folder):
    return (folder / "gauges.txt").read_text().split()


@functools.lru_cache
def splits(folder):
    """The windows of every basin by time, and the moments over those to train with."""
    features, _ = columns(folder)
    of = loader.samples(folder, gauges(folder), TARGET, features)
    return of, loader.fit(of["train"], TARGET, features)


def data(split, folder, args, **options):
    features, static = columns(folder)
    of, moments = splits(folder)
    outputs = loader.outputs(folder, TARGET, features, static, moments)
    return of[split].loader(outputs, batch_size=args.batch_size, memory=args.memory, framework="torch", **options)


def today(folder, args):
    """It finds its windows and fits its moments itself, as Forebay does: neither pays for the other's."""
    features, static = columns(folder)
    return baseline.loader(
        folder, gauges(folder), TARGET, features, static, batch_size=args.batch_size, workers=args.workers, seed=args.seed, pin_memory=training.to_gpu(args)
    )


def experts(folder, args):
    """It finds its windows and moments itself, too."""
    return expert.Basins(folder, gauges(folder), TARGET, *columns(folder), batch_size=args.batch_size, seed=args.seed)


def predict(network, batch):
    return network(batch["X"].float(), batch["static"].float(), batch["future"].float())


def loss(network, batch):
    return nn.functional.mse_loss(predict(network, batch), batch["y"].float())


def scores(folder):
    of, moments = splits(folder)
    return evaluate.Scores(moments, TARGET, fb.encode("gauge_id", of["val"].dataset).names)


RECIPE = training.Recipe(
    name="hydrology", generate=lambda folder, scale: generate.generate(folder, **generate.SCALES[scale]), data=data,
    loaders={"today": today, "expert": experts},
    network=lambda folder, args: Network(*map(len, columns(folder))), predict=predict, loss=loss, truth=lambda batch: batch["y"],
    constant=training.of_mean, scores=scores, chance=0.0, target=0.5,
    large="1GiB", defaults=dict(batch_size=256, epochs=1, learning_rate=3e-3, points=4),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
