"""Trains an MLP from filters' bits to two-grams: `python recipes/linkage/train.py --both` (recipes/training.py has the arguments)."""

import pathlib
import sys

import torch
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import forebay as fb
from recipes import training
from recipes.linkage import baseline, evaluate, generate, loader

BITS, GRAMS, VALIDATION = 1024, 1296, "validation"


def make(folder, scale):
    """Records to train with, and a tenth as many others to validate with."""
    sizes = generate.SCALES[scale]
    generate.generate(folder, **sizes)
    generate.generate(folder / VALIDATION, **{**sizes, "rows": sizes["rows"] // 10}, seed=1)


def records(path, args, **options):
    ds = fb.open(path)
    return ds.loader(loader.outputs(ds, missing="nan"), batch_size=args.batch_size, memory=args.memory, as_="tuple", framework="torch", **options)


def train(folder, args):
    return records(folder / "records.tsv", args, seed=args.seed, drop_last=True)


def validation(folder, args):
    return records(folder / VALIDATION / "records.tsv", args, shuffle=False)


def today(folder, args):
    return baseline.loader(folder / "records.tsv", args.batch_size, args.workers)


def loss(network, batch):
    bits, labels, _ = batch
    return nn.functional.binary_cross_entropy_with_logits(network(bits), labels)


RECIPE = training.Recipe(
    name="linkage", generate=make, train=train, validation=validation, today=today,
    network=lambda folder, args: nn.Sequential(nn.Linear(BITS, 512), nn.ReLU(), nn.Linear(512, GRAMS)),
    loss=loss, evaluate=lambda network, batches, folder: evaluate.evaluate(network, batches),
    chance=0.0, defaults=dict(batch_size=64, epochs=5, learning_rate=3e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
