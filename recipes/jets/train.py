"""Trains a particle transformer with pair bias: `python recipes/jets/train.py --both` (recipes/training.py has the arguments)."""

import pathlib
import sys

import h5py
import torch
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import forebay as fb
from recipes import training
from recipes.jets import baseline, evaluate, expert, generate, loader

CLASSES = len(generate.LABELS)


class Layer(nn.Module):
    """Attention between particles, with a bias of every head for every pair, and what follows it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.after = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, bias):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.after(x)


class Network(nn.Module):
    """nodes (B, P, F), edges (B, P, P, E), n (B) to (B, classes)."""

    def __init__(self, features, width=32, heads=4, layers=2):
        super().__init__()
        self.embed, self.pair = nn.Linear(features, width), nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, heads))
        self.layers, self.head = nn.ModuleList(Layer(width, heads) for _ in range(layers)), nn.Linear(width + 1, CLASSES)

    def forward(self, nodes, edges, n):
        there = torch.arange(nodes.shape[1], device=nodes.device) < n[:, None]  # (B, P)
        bias = self.pair(edges).movedim(-1, 1).masked_fill(~there[:, None, None], -1e4)
        x = self.embed(nodes)
        for layer in self.layers:
            x = layer(x, bias)
        mean = (x * there[..., None]).sum(1) / n.clamp(min=1)[:, None]
        return self.head(torch.cat([mean, n[:, None] / nodes.shape[1]], 1))


def files(folder, split):
    """The files of a split: an eighth to validate with and an eighth to test with, one at least."""
    every = sorted(folder.glob("train_*.h5"), key=lambda path: int(path.stem.split("_")[1]))
    held = max(1, len(training.at_least_three(every, folder, "train_*.h5")) // 8)
    return {"train": every[: -2 * held], "val": every[-2 * held : -held], "test": every[-held:]}[split]


def data(split, folder, args, **options):
    ds = fb.open(files(folder, split))
    return ds.loader(loader.outputs(ds), batch_size=args.batch_size, memory=args.memory, framework="torch", **options)


def today(folder, args, **options):
    return baseline.loader(files(folder, "train"), args.batch_size, args.workers, **options)


def logits(network, batch):
    return network(batch["node_features"], batch["edge_features"], batch["n_particles"])


def loss(network, batch):
    return nn.functional.cross_entropy(logits(network, batch), batch["labels"].long())


def network(folder, args):
    with h5py.File(files(folder, "train")[0]) as file:  # not by fb.open: its start-up is measured
        features = len(file.attrs["feature_names"])
    return Network(features)


RECIPE = training.Recipe(
    name="jets", generate=lambda folder, scale: generate.generate(folder, **generate.SCALES[scale]), data=data,
    loaders={
        "today": today,
        "today-lru": lambda folder, args: today(folder, args, cached=True),
        "today-ram": lambda folder, args: today(folder, args, preload=True),
        "expert": lambda folder, args: expert.Jets(files(folder, "train"), args.batch_size, args.seed),
    },
    network=network, predict=logits, loss=loss, truth=lambda batch: nn.functional.one_hot(batch["labels"].long(), CLASSES), constant=training.of_classes,
    scores=lambda folder: evaluate.Scores(), chance=0.5, target=0.75,
    equal_to=("today", "today-lru", "today-ram", "expert"), large="6GiB", defaults=dict(batch_size=64, epochs=4, learning_rate=2e-3),
)  # fmt: skip


if __name__ == "__main__":
    training.main(RECIPE)
