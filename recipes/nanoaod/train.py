"""Trains a network of sets to tell top quarks from Z bosons: `python recipes/nanoaod/train.py --both` (recipes/training.py has the arguments)."""

import pathlib
import sys

import torch
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import training
from recipes.nanoaod import baseline, evaluate, generate, loader


class Objects(nn.Module):
    """Jets or muons (B, L, F) with their mask (B, L), to the sum of what a network makes of each: (B, width)."""

    def __init__(self, features, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, values, mask):
        values = torch.cat([values[..., :1].clamp(min=1).log(), values[..., 1:3], values[..., 3:].clamp(-1, 1)], -1)
        return (self.layers(values) * mask[..., None]).sum(1)


class Network(nn.Module):
    """jets, muons and met to a logit (B)."""

    def __init__(self, width=32):
        super().__init__()
        self.jets, self.muons = Objects(len(loader.JETS), width), Objects(len(loader.MUONS), width)
        self.head = nn.Sequential(nn.Linear(2 * width + 1, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, jets, jet_mask, muons, muon_mask, met):
        x = torch.cat([self.jets(jets, jet_mask), self.muons(muons, muon_mask), met[:, :1].log1p()], -1)
        return self.head(x)[:, 0]


def files(folder, split):
    """The files of each process to train with; the last two of each are to validate and to test with."""
    of = {"train": slice(-2), "val": slice(-2, -1), "test": slice(-1, None)}[split]
    every = {process: sorted((folder / process).glob("*.parquet")) for process in loader.PROCESSES}
    return {process: training.at_least_three(paths, folder, f"{process}/*.parquet")[of] for process, paths in every.items()}


def data(split, folder, args, **options):
    events = loader.events(files(folder, split))
    return events.loader(loader.outputs(), batch_size=args.batch_size, memory=args.memory, framework="torch", **options)


class Named:
    """Batches of today's loader in the form of Forebay's."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        for jets, jet_mask, muons, muon_mask, met, event, label in self.batches:
            yield {"jets": (jets, jet_mask), "muons": (muons, muon_mask), "met": met, "event": event, "label": label}


def today(folder, args):
    return Named(baseline.loader(files(folder, "train"), args.batch_size, args.workers))


def predict(network, batch):
    jets, muons = (of if isinstance(of, (tuple, list)) else (of.values, of.mask) for of in (batch["jets"], batch["muons"]))
    return network(*jets, *muons, batch["met"])


def loss(network, batch):
    return nn.functional.binary_cross_entropy_with_logits(predict(network, batch), batch["label"].float())


RECIPE = training.Recipe(
    name="nanoaod", generate=lambda folder, scale: generate.generate(folder, **generate.SCALES[scale]), data=data, loaders={"today": today},
    network=lambda folder, args: Network(), predict=predict, loss=loss, truth=lambda batch: batch["label"][:, None].float(), constant=training.of_bits,
    scores=lambda folder: evaluate.Scores(), chance=0.5, target=0.9, defaults=dict(batch_size=64, epochs=4, learning_rate=3e-3),
)  # fmt: skip

if __name__ == "__main__":
    training.main(RECIPE)
