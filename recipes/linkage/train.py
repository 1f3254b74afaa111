"""Trains an MLP from filters' bits to two-grams: `python recipes/linkage/train.py --both` (recipes/training.py has the arguments)."""

import pathlib
import sys

import torch
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import forebay as fb
from recipes import training
from recipes.linkage import baseline, generate, loader

BITS, GRAMS, VALIDATION = 1024, 1296, "validation"


def make(folder, scale):
    """Records to train with, and a tenth as many others to validate with."""
    sizes = generate.SCALES[scale]
    generate.generate(folder, **sizes)
    generate.generate(folder / VALIDATION, **{**sizes, "rows": sizes["rows"] // 10}, seed=1)


def records(path, args, **options):
    ds = fb.open(path)
    return ds.loader(loader.outputs(ds, missing="nan"), batch_size=args.batch_size, memory=args.memory, as_="tuple", framework="torch", **options)


def data(folder, args):
    train = records(folder / "records.tsv", args, seed=args.seed, drop_last=True)
    return train, records(folder / VALIDATION / "records.tsv", args, shuffle=False)


def today(folder, args):
    return baseline.loader(folder / "records.tsv", args.batch_size, args.workers)


def loss(network, batch):
    bits, labels, _ = batch
    return nn.functional.binary_cross_entropy_with_logits(network(bits), labels)


def evaluate(network, batches, folder):
    """Of all two-grams of all records: how many are found, and how many of those found are there."""
    right = found = there = 0
    for bits, labels, _ in batches:
        guess = network(bits) > 0
        right, found, there = right + (guess & (labels > 0)).sum().item(), found + guess.sum().item(), there + labels.sum().item()
    return {"f1": 2 * right / max(found + there, 1), "precision": right / max(found, 1), "recall": right / max(there, 1)}


RECIPE = training.Recipe(
    name="linkage", generate=make, data=data, today=today,
    network=lambda folder, args: nn.Sequential(nn.Linear(BITS, 512), nn.ReLU(), nn.Linear(512, GRAMS)),
    loss=loss, evaluate=evaluate, chance=0.0, defaults=dict(batch_size=64, epochs=5, learning_rate=3e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
