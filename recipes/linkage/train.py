"""Trains an MLP from filters' bits to two-grams: `python recipes/linkage/train.py --both` (recipes/training.py has the arguments)."""

import pathlib
import sys

from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import forebay as fb
from recipes import training
from recipes.linkage import baseline, evaluate, expert, generate, loader

BITS, GRAMS = 1024, 1296
FOLDERS = generate.FOLDERS


def data(split, folder, args, **options):
    ds = fb.open(folder / FOLDERS[split] / "records.tsv")
    options = {"drop_last": split == "train", "as_": "tuple", "framework": "torch", **options}
    return ds.loader(loader.outputs(ds), batch_size=args.batch_size, memory=args.memory, **options)


def today(folder, args, **options):
    return baseline.loader(folder / "records.tsv", args.batch_size, args.workers, pin_memory=training.to_gpu(args), **options)


def experts(folder, args):
    return expert.Records(folder / "records.tsv", args.batch_size, args.seed)


def loss(network, batch):
    bits, labels, _ = batch
    return nn.functional.binary_cross_entropy_with_logits(network(bits), labels)


RECIPE = training.Recipe(
    name="linkage", generate=lambda folder, scale: generate.generate_parts(folder, **generate.SCALES[scale]), data=data,
    loaders={"today": today, "today-tuned": lambda folder, args: today(folder, args, tuned=True), "expert": experts},
    network=lambda folder, args: nn.Sequential(nn.Linear(BITS, 512), nn.ReLU(), nn.Linear(512, GRAMS)),
    predict=lambda network, batch: network(batch[0]), loss=loss, truth=lambda batch: batch[1], constant=training.of_bits,
    scores=lambda folder: evaluate.Scores(), chance=0.0, target=0.8,
    equal_to=("today", "today-tuned", "expert"), large="4GiB", defaults=dict(batch_size=64, epochs=5, learning_rate=3e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
