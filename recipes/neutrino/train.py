"""Trains a transformer over sensors to tell where a neutrino came from: `python recipes/neutrino/train.py --both` (arguments: recipes/training.py)."""

import pathlib
import sys

import pandas as pd
import torch
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import training
from recipes.neutrino import baseline, evaluate, expert, generate, loader

MAX_DOMS, FIRST_PULSES = 64, 4


class Network(nn.Module):
    """doms (B, D, 7 + 3K) and mask (B, D) to a direction, (B, 3), of any length."""

    def __init__(self, channels=7 + 3 * FIRST_PULSES, width=48, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(channels, width), nn.GELU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, 3)

    def forward(self, doms, mask):
        place, rest = doms[..., :3] / 500, doms[..., 3:]
        x = torch.cat([place, rest[..., :1].log1p(), 10 * rest[..., 1:-1], rest[..., -1:].clamp(min=0).log1p()], -1)
        x = self.embed(x * mask[..., None])
        hidden = ~mask.bool()
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=hidden)
        return self.head((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1))


def ids(folder, split):
    """The events of a split: every tenth is to validate with, every tenth to test with."""
    event = pd.read_parquet(folder / "train_meta.parquet", columns=["event_id"])["event_id"].to_numpy()
    return event[{"val": event % 10 == 0, "test": event % 10 == 1, "train": event % 10 > 1}[split]]


def data(split, folder, args, **options):
    outputs = loader.doms(folder, MAX_DOMS, FIRST_PULSES)
    return loader.samples(folder, ids(folder, split)).loader(outputs, batch_size=args.batch_size, memory=args.memory, framework="torch", **options)


def geometry(folder):
    """Where each sensor is, (sensors, 3)."""
    return torch.tensor(pd.read_csv(folder / "sensor_geometry.csv")[["x", "y", "z"]].to_numpy(), dtype=torch.float32)


class Doms:
    """Batches of today's loader with the pulses grouped by sensor, as the owner's loop does it."""

    def __init__(self, batches, geometry):
        self.batches, self.geometry = batches, geometry

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        for batch in self.batches:
            doms, mask = baseline.pack_doms(batch, self.geometry, MAX_DOMS, FIRST_PULSES)
            yield {"doms": doms, "mask": mask, "targets": batch["targets"], "event_ids": batch["event_ids"]}


def today(folder, args, order="none"):
    """In the order of the files, since a random one costs 11.6 s a batch: the owner's stopgap."""
    return Doms(baseline.loader(folder, ids(folder, "train"), args.batch_size, order, args.workers, args.seed), geometry(folder))


def experts(folder, args):
    return expert.Events(folder, ids(folder, "train"), geometry(folder), args.batch_size, args.seed, MAX_DOMS, FIRST_PULSES)


def predict(network, batch):
    return network(batch["doms"].float(), batch["mask"].float())


def loss(network, batch):
    return (1 - nn.functional.cosine_similarity(predict(network, batch), evaluate.direction(batch["targets"]), dim=-1)).mean()


RECIPE = training.Recipe(
    name="neutrino", generate=lambda folder, scale: generate.generate(folder, **generate.SCALES[scale]), data=data,
    loaders={
        "today": today,
        "today-by-file": lambda folder, args: today(folder, args, "file"),
        "today-random": lambda folder, args: today(folder, args, "random"),
        "expert": experts,
    },
    network=lambda folder, args: Network(), predict=predict, loss=loss,
    truth=lambda batch: evaluate.direction(batch["targets"]), constant=lambda mean, square: 1 - mean.norm(), scores=lambda folder: evaluate.Scores(),
    chance=1.5708, target=0.4, equal_to=("today-random", "expert"),
    large="4GiB", defaults=dict(batch_size=128, epochs=2, learning_rate=2e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
