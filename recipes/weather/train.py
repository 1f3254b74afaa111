"""Trains a CNN to forecast temperature from four past fields: `python recipes/weather/train.py --both` (recipes/training.py has the arguments)."""

import functools
import pathlib
import sys

from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import forebay as fb
from recipes import training
from recipes.weather import baseline, evaluate, generate, loader

TARGET = "t2m"


class Network(nn.Module):
    """x (B, input, variables, lat, lon) to y (B, output, lat, lon): what changes since the last field."""

    def __init__(self, width=24, layers=3):
        super().__init__()
        channels = [loader.INPUT * len(loader.VARIABLES), *[width] * layers]
        steps = [(nn.Conv2d(a, b, 5, padding=2, padding_mode="circular"), nn.GELU()) for a, b in zip(channels, channels[1:])]
        self.layers = nn.Sequential(*[layer for pair in steps for layer in pair], nn.Conv2d(width, loader.OUTPUT, 1))

    def forward(self, x):
        return x[:, -1, :1] + self.layers(x.flatten(1, 2))


def years(folder):
    """The files to train with, and the last year, to validate with."""
    every = sorted(folder.glob("*.nc"))
    return every[:-1], every[-1:]


@functools.lru_cache
def moments(folder):
    return fb.fit(loader.windows(years(folder)[0]), loader.VARIABLES)


def fields(paths, folder, args, **options):
    outputs = loader.outputs(moments(folder))
    return loader.windows(paths).loader(outputs, batch_size=args.batch_size, memory=args.memory, framework="torch", **options)


def train(folder, args):
    return fields(years(folder)[0], folder, args, seed=args.seed)


def validation(folder, args):
    return fields(years(folder)[1], folder, args, shuffle=False)


def today(folder, args):
    mean, std = ({name: getattr(moments(folder)[name], what) for name in loader.VARIABLES} for what in ("mean", "std"))
    return baseline.loader(years(folder)[0], mean, std, args.batch_size, args.workers)


def loss(network, batch):
    return nn.functional.mse_loss(network(batch["x"]), batch["y"])


def scores(network, batches, folder):
    latitude = fb.open(years(folder)[1]).read("/lat")
    return evaluate.evaluate(lambda batch: network(batch["x"]), batches, latitude, moments(folder)[TARGET].std)


RECIPE = training.Recipe(
    name="weather", generate=lambda folder, scale: generate.generate(folder, **generate.SCALES[scale]), train=train, validation=validation, today=today,
    network=lambda folder, args: Network(), loss=loss, evaluate=scores, chance=0.0, defaults=dict(batch_size=16, epochs=4, learning_rate=3e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
