"""Trains a small CNN on segments, and evaluates it by recording: `python recipes/leak/train.py --both` (recipes/training.py has the arguments)."""

import pathlib
import sys

import numpy as np
import torch
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import training
from recipes.leak import baseline, evaluate, generate, loader

FACTOR = 8
SCALES = {**generate.SCALES, "small": {**generate.SCALES["small"], "files": 160}}


class Network(nn.Module):
    """Convolutions over the mels of a cell: (B, 1, mels, frames) to (B, classes)."""

    def __init__(self, classes=len(generate.LABELS), width=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, (5, 1), padding=(2, 0)), nn.ReLU(), nn.MaxPool2d((2, 1)), nn.Conv2d(width, width, (5, 1), padding=(2, 0)), nn.ReLU(),
            nn.AdaptiveAvgPool2d((8, 1)), nn.Flatten(), nn.Linear(8 * width, classes),
        )  # fmt: skip

    def forward(self, mel):
        return self.layers(mel)


def train(folder, args):
    segments = loader.segments(folder / "train.h5", leak=evaluate.LEAK, factor=FACTOR)
    return segments.loader(
        loader.outputs(segments.dataset, augment=True), batch_size=args.batch_size, memory=args.memory, seed=args.seed, framework="torch",
    )  # fmt: skip


def validation(folder, args):
    whole = loader.recordings(folder / "val.h5")
    return whole.loader(loader.recording_outputs(whole.dataset), batch_size=16, shuffle=False, memory=args.memory, framework="torch")


def today(folder, args):
    """Masks are drawn in the training loop, on what the DataLoader gives."""
    batches = baseline.loader(folder / "train.h5", args.batch_size, args.workers, leak=evaluate.LEAK, factor=FACTOR)
    return Augmented(batches, np.random.default_rng(args.seed))


class Augmented:
    """Batches with SpecAugment done to them, as the owner's loop does it."""

    def __init__(self, batches, rng):
        self.batches, self.rng = batches, rng

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return ({"mel": baseline.spec_augment(mel, self.rng), "label": label} for mel, label in self.batches)


def loss(network, batch):
    return nn.functional.cross_entropy(network(batch["mel"]), batch["label"].long())


RECIPE = training.Recipe(
    name="leak", generate=lambda folder, scale: generate.generate(folder, **SCALES[scale]), train=train, validation=validation, today=today,
    network=lambda folder, args: Network(), loss=loss, evaluate=evaluate.evaluate, chance=0.5, defaults=dict(batch_size=128, epochs=5, learning_rate=3e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
