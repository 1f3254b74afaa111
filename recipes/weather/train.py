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


def years(folder, split):
    """The files to train with; the last two years are to validate and to test with."""
    return training.at_least_three(sorted(folder.glob("*.nc")), folder, "*.nc")[{"train": slice(-2), "val": slice(-2, -1), "test": slice(-1, None)}[split]]


@functools.lru_cache
def moments(folder):
    return fb.fit(loader.windows(years(folder, "train")), loader.VARIABLES)


def data(split, folder, args, **options):
    outputs = loader.outputs(moments(folder))
    return loader.windows(years(folder, split)).loader(outputs, batch_size=args.batch_size, memory=args.memory, framework="torch", **options)


def today(folder, args):
    """It fits its moments itself, as Forebay does: neither pays for the other's."""
    paths = years(folder, "train")
    return baseline.loader(paths, *baseline.moments(paths), args.batch_size, args.workers)


def loss(network, batch):
    return nn.functional.mse_loss(network(batch["x"]), batch["y"])


def scores(folder):
    return evaluate.Scores(fb.open(years(folder, "val")).read("/lat"), moments(folder)[TARGET].std)


RECIPE = training.Recipe(
    name="weather", generate=lambda folder, scale: generate.generate(folder, **generate.SCALES[scale]), data=data, loaders={"today": today},
    network=lambda folder, args: Network(), predict=lambda network, batch: network(batch["x"]), loss=loss, truth=lambda batch: batch["y"].flatten(1),
    constant=training.of_mean, scores=scores, chance=0.0, target=0.5, large="2GiB", defaults=dict(batch_size=16, epochs=4, learning_rate=3e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
