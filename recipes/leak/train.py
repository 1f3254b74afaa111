"""Trains a small CNN on segments, and evaluates it by recording: `python recipes/leak/train.py --both` (recipes/training.py has the arguments)."""

import pathlib
import sys

import numpy as np
import torch
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import training
from recipes.leak import baseline, evaluate, expert, generate, loader

FACTOR = 8


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


def data(split, folder, args, **options):
    """Segments to train with; to validate and test with, whole recordings."""
    options = {"memory": args.memory, "framework": "torch", "batch_size": args.batch_size if split == "train" else evaluate.RECORDINGS, **options}
    if split != "train":
        whole = loader.recordings(folder / f"{split}.h5")
        return whole.loader(loader.recording_outputs(whole.dataset), **options)
    segments = loader.segments(folder / "train.h5", leak=evaluate.LEAK, factor=FACTOR)
    return segments.loader(loader.outputs(segments.dataset, augment=True), **options)


def today(folder, args, in_memory=False):
    """Masks are drawn in the training loop, on what the DataLoader gives."""
    batches = baseline.loader(folder / "train.h5", args.batch_size, args.workers, leak=evaluate.LEAK, factor=FACTOR, in_memory=in_memory, pin_memory=training.to_gpu(args))
    return Augmented(batches, np.random.default_rng(args.seed))


def experts(folder, args):
    return expert.Segments(folder / "train.h5", args.batch_size, args.seed, evaluate.LEAK, FACTOR)


class Augmented:
    """Batches with SpecAugment done to them, as the owner's loop does it."""

    def __init__(self, batches, rng):
        self.batches, self.rng = batches, rng

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return ({"mel": baseline.spec_augment(mel, self.rng), "label": label} for mel, label in self.batches)


def segments_of(batch):
    """(segments, 1, mels, frames): a batch's, or those of its recordings, one after the other."""
    mel = batch["mel"]
    return mel.values if not isinstance(mel, torch.Tensor) else mel if mel.dim() == 4 else mel.flatten(0, 1)


def labels_of(batch):
    """Of every segment."""
    return batch["label"].long().repeat_interleave(len(segments_of(batch)) // len(batch["label"]))


def loss(network, batch):
    return nn.functional.cross_entropy(network(segments_of(batch)), labels_of(batch))


RECIPE = training.Recipe(
    name="leak", generate=lambda folder, scale: generate.generate(folder, **generate.SCALES[scale]), data=data,
    loaders={"today": today, "today-ram": lambda folder, args: today(folder, args, in_memory=True), "expert": experts},
    network=lambda folder, args: Network(), predict=lambda network, batch: network(segments_of(batch)), loss=loss,
    truth=lambda batch: nn.functional.one_hot(labels_of(batch), len(generate.LABELS)), constant=training.of_classes,
    scores=evaluate.Scores, chance=0.5, target=0.9,
    equal_to=("today", "today-ram", "expert"), large="1GiB", defaults=dict(batch_size=128, epochs=5, learning_rate=3e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
