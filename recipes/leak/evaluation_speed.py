"""How many recordings of gzipped files are evaluated in a second, by a loop file by file as today and with Forebay, without a network and with one:
`python recipes/leak/evaluation_speed.py`, two minutes. Each run is a process of its own (recipes/contest.py), the network has learnt nothing.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys

import torch

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import forebay.torch
from recipes import contest, meter, training
from recipes.leak import evaluate, generate, train

DATA = pathlib.Path(__file__).parent / "data-evaluation"
RECORDINGS = generate.SCALES["bench"]["files"]  # as many as the owner has


class Anew:
    """Pass after pass, each from the files: an evaluation is one, and what Forebay has inflated for it would serve the next."""

    def __init__(self, way, args):
        self.open, self.args = WAYS[way], args

    def __iter__(self):
        with contextlib.closing(self.open(self.args.data, self.args)) as batches:
            yield from batches


WAYS = {
    "today": evaluate.today,
    "forebay": lambda folder, args: train.data(args.split, folder, args, shuffle=False),
    "forebay, packed": evaluate.packed,
}


def measured(way, args):
    """One run."""
    network, scores = train.Network().eval().to(args.device), evaluate.Scores(args.data)

    def judged(batch):
        scores.add(lambda of: train.RECIPE.predict(network, of), forebay.torch.to_device(batch, args.device))
        for column in scores.table.values():
            column.clear()

    with torch.no_grad():
        return training.paced(way, 0, lambda: Anew(way, args), args.seconds, judged if args.network else lambda batch: None)


def tables(argv=(), runs=3, data=DATA):
    """(what was measured, results) without a network and with one."""
    command = [pathlib.Path(__file__).resolve(), *argv]
    for said, more in (("without a network", []), ("with a network", ["--network"])):
        yield said, contest.race(lambda way, seed: [*command, *more, "--alone", way], list(WAYS), range(runs), data)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help=f"generated when it is not there: {DATA.name}, {RECORDINGS:,} recordings")
    parser.set_defaults(split="val")
    parser.add_argument("--memory", default="32MiB", help="Forebay's budget: small, since nothing is read twice")
    parser.add_argument("--seconds", type=training.positive, default=5, help="of the first epoch at most, and of what follows it")
    parser.add_argument("--runs", type=training.count, default=3)
    parser.add_argument("--device", type=training.device, default="auto")
    for hidden in (dict(dest="alone", choices=WAYS), dict(dest="network", action="store_true"), dict(dest="json", type=pathlib.Path)):
        parser.add_argument(f"--{hidden['dest']}", help=argparse.SUPPRESS, **hidden)
    argv = sys.argv[1:] if argv is None else argv
    args = parser.parse_args(argv)
    if not args.data.exists():
        scale, splits = generate.SCALES["bench"], {"val": RECORDINGS}
        training.generated(args.data, lambda partial: generate.generate(partial, **scale, gzip=True, splits=splits))
    if args.alone:
        meter.keep_freed_memory()
        args.json.write_text(json.dumps([dataclasses.asdict(measured(args.alone, args))]))
        return
    for said, results in tables(argv, args.runs, args.data):
        print(f"\n{said}\n\n{contest.table(results)}")


if __name__ == "__main__":
    main()
