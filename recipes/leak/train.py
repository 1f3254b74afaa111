"""Trains a small CNN on segments, and evaluates it by recording: `python recipes/leak/train.py --both` (recipes/training.py has the arguments)."""

import pathlib
import sys

import h5py
import numpy as np
import torch
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import training
from recipes.leak import baseline, generate, loader

LEAK, FACTOR = 0, 8
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


def data(folder, args):
    segments, val = loader.segments(folder / "train.h5", leak=LEAK, factor=FACTOR), loader.recordings(folder / "val.h5")
    train = segments.loader(
        loader.outputs(segments.dataset, augment=True), batch_size=args.batch_size, memory=args.memory, seed=args.seed, framework="torch",
    )  # fmt: skip
    return train, val.loader(loader.recording_outputs(val.dataset), batch_size=16, shuffle=False, memory=args.memory, framework="torch")


def today(folder, args):
    """Masks are drawn in the training loop, on what the DataLoader gives."""
    batches = baseline.loader(folder / "train.h5", args.batch_size, args.workers, leak=LEAK, factor=FACTOR)
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


def evaluate(network, batches, folder):
    """Recordings: probabilities are averaged over short segments, then the long ones vote. How many leaks are found, how many alarms are right."""
    with h5py.File(folder / "val.h5") as file:
        _, long, short, *_ = file["segments_mel"].shape
    found, true = [], []
    for batch in batches:
        probability = network(batch["mel"].flatten(0, 1)).softmax(-1).unflatten(0, (-1, long, short)).mean(2)  # (B, long, classes)
        found.append(probability.argmax(-1).mode(1).values == LEAK)
        true.append(batch["label"] == LEAK)
    found, true = torch.cat(found), torch.cat(true)
    right = (found & true).sum().item()
    recall, others = right / max(true.sum().item(), 1), (~found & ~true).sum().item() / max((~true).sum().item(), 1)
    return {"balanced accuracy": (recall + others) / 2, "recall": recall, "precision": right / max(found.sum().item(), 1)}


RECIPE = training.Recipe(
    name="leak", generate=lambda folder, scale: generate.generate(folder, **SCALES[scale]), data=data, today=today,
    network=lambda folder, args: Network(), loss=loss, evaluate=evaluate, chance=0.5, defaults=dict(batch_size=128, epochs=5, learning_rate=3e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
