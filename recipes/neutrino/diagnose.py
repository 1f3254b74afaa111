"""Is loading the limit at all? Training on one cached batch, the loader alone, and both together, in one call: `python recipes/neutrino/diagnose.py`.

First with the loader as it should be; then, on the same data, with the habits of the owner's first one: events in random order over all files, so that every
batch opens a few large compressed blocks, takes some rows of each, and drops the rest.
"""

import argparse
import pathlib
import sys

import torch

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import forebay as fb
from recipes import training
from recipes.neutrino import generate, loader, train

LARGE = dict(files=8, events=10_000, longest=2_000, row_group=1_000_000)  # as the owner's: a file is one row group


def scattered(folder, args):
    """Every batch draws on many files, and little is mixed at once: as a random order of events over compressed files reads them."""
    events = loader.samples(folder, train.ids(folder, "train"))
    files = len(list((folder / "train").glob("*.parquet")))
    outputs = loader.doms(folder, train.MAX_DOMS, train.FIRST_PULSES)
    habits = dict(
        batch_size=args.batch_size, superbatch=max(len(events) // 16, args.batch_size), diversity_files=files // 2, streams=1, warmup=False, framework="torch",
    )  # fmt: skip
    with events.loader(outputs, **habits) as any_budget:
        least = any_budget.report().budget_minimum_bytes  # nothing is kept, as behind a cache of two files
    return events.loader(outputs, memory=least, **habits)


def diagnose(folder, args, batches, seconds, sizes=None):
    """The step of the recipe's training beside a loader."""
    torch.manual_seed(0)
    network = train.RECIPE.network(folder, args).train()
    optimizer = torch.optim.AdamW(network.parameters(), args.learning_rate)

    def step(batch):
        loss = train.loss(network, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    with batches:
        return fb.diagnose(step, batches, seconds, model=network, optimizer=optimizer, batch_sizes=sizes)


def main(argv=None):
    with training.said_by("diagnose.py"):
        return _main(argv)


def _main(argv):
    defaults = training.arguments(train.RECIPE).parse_args([])
    parser = argparse.ArgumentParser(description="Is loading the limit of the recipe 'neutrino'?")
    parser.add_argument("--data", type=pathlib.Path, help="folder of the data; by default recipes/neutrino/data-large, generated when it is not there")
    parser.add_argument("--seconds", type=training.positive, default=10, help="for each of the two loaders")
    parser.add_argument("--batch-size", type=training.count, default=defaults.batch_size)
    parser.add_argument("--batch-sizes", type=training.count, nargs="+", help="try the step with these, too: of the loader, not of those habits")
    parser.add_argument("--memory", help="the loader's budget: by default as of train.py")
    parser.add_argument("--seed", type=training.whole, default=0)
    args = argparse.Namespace(**{**vars(defaults), **vars(parser.parse_args(argv))})
    folder = args.data or pathlib.Path(__file__).parent / "data-large"
    if not folder.exists():
        training.generated(folder, lambda partial: generate.generate(partial, **LARGE))
    args.memory = args.memory or training.budget(train.RECIPE, folder)
    found = {"the loader": train.data("train", folder, args, seed=args.seed), "the first loader's habits": scattered(folder, args)}
    for name, batches in found.items():
        found[name] = diagnose(folder, args, batches, args.seconds, args.batch_sizes if name == "the loader" else None)
        print(f"{name}\n{found[name]}\n")
    return found


if __name__ == "__main__":
    main()
