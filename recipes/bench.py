"""The recipes over seeds, with each loader that their owners have: tables, verdicts and what limits in recipes/results.md, losses in docs/img.

    python recipes/bench.py                         # scale medium: some 100 MB and ten minutes on two cores
    python recipes/bench.py --scale bench           # several GB, hours
    python recipes/bench.py jets leak               # these alone; what results.md says of the others stays
    python recipes/bench.py jets --max-seconds 20   # other arguments of train.py, which stand in results.md too

Every run has the same network, data, seed and time: a loader that is so slow that its time is up before the epochs are is not waited for.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from common import commit, machine  # noqa: E402

from recipes import contest, training  # noqa: E402

# Arguments of train.py.
SIZES = {
    "medium": {
        "hydrology": "--loaders today forebay --seeds 2 --epochs 1 --batches 24 --points 4 --max-seconds 60 --batch-size 128 --torch-threads 1",
        "neutrino": "--loaders today today-random forebay forebay-in-order --seeds 2 --epochs 1 --points 4 --max-seconds 60 --torch-threads 1",
        "linkage": "--loaders today forebay --seeds 2 --epochs 2 --points 8 --torch-threads 1",
        "jets": "--loaders today today-lru forebay --seeds 2 --epochs 2 --points 8 --max-seconds 60 --torch-threads 1",
        "leak": "--loaders today today-ram forebay --seeds 2 --epochs 1 --points 8 --batch-size 512 --max-seconds 60 --torch-threads 1",
    },
    "bench": {
        "hydrology": "--loaders today forebay --seeds 3 --epochs 1 --batches 1000 --workers 10 --max-seconds 900",
        "neutrino": "--loaders today today-by-file today-random forebay forebay-in-order --seeds 3 --epochs 1 --max-seconds 900",
        "linkage": "--loaders today forebay --seeds 3 --epochs 1 --workers 2 --batch-size 512 --max-seconds 900",
        "jets": "--loaders today today-lru today-ram forebay --seeds 3 --epochs 2 --workers 8 --batch-size 256 --max-seconds 900",
        "leak": "--loaders today today-ram forebay --seeds 3 --epochs 1 --workers 8 --batch-size 5632 --max-seconds 900",
    },
}


def load() -> str:
    """How busy the machine is."""
    return f"{os.getloadavg()[1]:.1f}"


def limits(recipe: training.Recipe, arguments: list[str]) -> str:
    """What limits training with each loader: fb.diagnose, as a table."""
    args, folder, loaders = training.prepare(recipe, [*arguments, "--seconds", "3"])
    lines = ["| loader | loader alone, samples/s | step alone | together | limit |", "| --- | ---: | ---: | ---: | --- |"]
    for loader in loaders:
        found = training.diagnose(recipe, folder, args, loader)
        lines.append(f"| {loader} | {found.loader:,.0f} | {found.ceiling:,.0f} | {found.together:,.0f} ({found.share:.0%}) | {found.limit} |")
    return "\n".join(lines)


def section(name: str, scale: str, more: list[str]) -> Iterator[str]:
    """What results.md says of a recipe: what was raced, and then with what limits. Its command is the one that is run here: data and arguments are in it."""
    recipe, before = importlib.import_module(f"recipes.{name}.train").RECIPE, load()
    arguments = ["--scale", scale, *SIZES[scale][name].split(), *more]
    folder = training.prepare(recipe, arguments)[1]
    picture = f"docs/img/loss-{name}.png"
    results = training.main(recipe, [*arguments, "--picture", str(ROOT / picture)])
    bytes_of = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    where = re.sub(r"(Linux [0-9.]+).*", r"\1", machine())
    head = f"`python recipes/{name}/train.py {' '.join(arguments)}`, {bytes_of / 1e6:,.0f} MB of data. {datetime.date.today()}, commit {commit()}, {where}; "
    head += f"load average (5 minutes) {before} before, {load()} after."
    said = "\n".join(f"* {line}" for line in contest.verdict(recipe, results))
    drawn = f"![Loss over wall time, {name}: a line a run](../{picture})"
    raced = f"## {name}\n\n{head}\n\n{contest.markdown(results)}\n\n{said}\n\n{drawn}\n"
    yield raced
    yield f"{raced}\n{limits(recipe, arguments)}\n"


def keep(sections: dict[str, str]) -> None:
    """Into results.md, in place of what was said of the same recipes before."""
    path = ROOT / "recipes" / "results.md"
    old = {name: text for text, name in re.findall(r"^(## (\w+)\n.*?)(?=^## |\Z)", path.read_text(), re.M | re.S)} if path.exists() else {}
    kept = {**old, **sections}
    path.write_text("\n".join([HEAD, *(kept[name].rstrip() + "\n" for name in SIZES["medium"] if name in kept)]))


HEAD = """# Results

What `make recipes-bench` measured: networks trained from files to scores, each run in a process of its own with an empty index cache, medians
over seeds. `today…` are the loaders that a system's owner has ([recipes](README.md)). CPU and memory are of loader and network together, memory as
what grew since the loader was made; *to target* has set-up in it. The second table is `--diagnose`, all loaders in one process: the step on one cached batch, the loader alone, both together.
Loaders alone, at larger sizes: [speed](../docs/speed.md).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", choices=[[], *SIZES["medium"]], help="by default all five")
    parser.add_argument("--scale", choices=SIZES, default="medium")
    args, more = parser.parse_known_args()  # what it does not know is train.py's
    for name in args.recipes or SIZES["medium"]:
        print(f"\n{name}", flush=True)
        for said in section(name, args.scale, more):
            keep({name: said})


if __name__ == "__main__":
    main()
