"""The recipes over seeds, with each loader that their owners have: tables and verdicts in recipes/results.md.

    python recipes/bench.py                         # medium: some 100 MB and ten minutes on two cores
    python recipes/bench.py --size large            # generate.py's scale "bench": several GB, hours
    python recipes/bench.py jets leak               # these alone; what results.md says of the others stays

Every run has the same network, data, seed and time: a loader that is so slow that its time is up before the epochs are is not waited for.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from common import commit, machine, scratch  # noqa: E402

from recipes import contest, training  # noqa: E402

# What generate() takes, and arguments of train.py.
MEDIUM = {
    "hydrology": (
        dict(basins=60, years=(20, 30), forcings=6, attributes=8),
        "--loaders today forebay --seeds 2 --epochs 1 --batches 24 --points 4 --max-seconds 60 --batch-size 128 --torch-threads 1",
    ),
    "neutrino": (
        dict(files=8, events=1_500, longest=5_000, row_group=1_000_000, drift=0.9),
        "--loaders today today-random forebay forebay-in-order --seeds 2 --epochs 1 --points 4 --max-seconds 60 --torch-threads 1",
    ),
    "linkage": (dict(rows=10_000, bits=1024), "--loaders today forebay --seeds 2 --epochs 2 --points 8 --torch-threads 1"),
    "jets": (
        dict(files=8, events_a_file=2_000, particles=32, features=9, chunk=1_000),
        "--loaders today today-lru forebay --seeds 2 --epochs 2 --points 8 --max-seconds 60 --torch-threads 1",
    ),
    "leak": (
        dict(files=800, long=20, short=3),
        "--loaders today today-ram forebay --seeds 2 --epochs 1 --points 8 --batch-size 512 --max-seconds 60 --torch-threads 1",
    ),
}
LARGE = {
    "hydrology": "--loaders today forebay --seeds 3 --epochs 1 --batches 1000 --workers 10 --max-seconds 900",
    "neutrino": "--loaders today today-by-file today-random forebay forebay-in-order --seeds 3 --epochs 1 --max-seconds 900",
    "linkage": "--loaders today forebay --seeds 3 --epochs 1 --workers 2 --batch-size 512 --max-seconds 900",
    "jets": "--loaders today today-lru today-ram forebay --seeds 3 --epochs 2 --workers 8 --batch-size 256 --max-seconds 900",
    "leak": "--loaders today today-ram forebay --seeds 3 --epochs 1 --workers 8 --batch-size 5632 --max-seconds 900",
}


def prepare(name: str, size: str, folder: pathlib.Path) -> list[str]:
    """The data, if they are not there, and the arguments of train.py."""
    train = importlib.import_module(f"recipes.{name}.train")
    sizes, arguments = MEDIUM[name] if size == "medium" else (None, LARGE[name])
    if not folder.exists():
        print(f"{name}: generating", file=sys.stderr, flush=True)
        if sizes is None:
            train.RECIPE.generate(folder, "bench")
        else:
            generate = importlib.import_module(f"recipes.{name}.generate").generate
            generate(folder, **sizes)
            for seed, part in enumerate(("val", "test"), 1):
                if name == "linkage":
                    generate(folder / train.FOLDERS[part], **{**sizes, "rows": sizes["rows"] // 10}, seed=seed)
    return arguments.split()


def section(name: str, size: str, folder: pathlib.Path) -> str:
    """What results.md says of a recipe."""
    arguments = prepare(name, size, folder)
    recipe = importlib.import_module(f"recipes.{name}.train").RECIPE
    results = training.main(recipe, ["--data", str(folder), *arguments])
    bytes_of = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    where = re.sub(r"(Linux [0-9.]+).*", r"\1", machine())
    head = f"`python recipes/{name}/train.py {' '.join(arguments)}`, {bytes_of / 1e6:,.0f} MB of data (size `{size}`). "
    head += f"{datetime.date.today()}, commit {commit()}, {where}."
    said = "\n".join(f"* {line}" for line in contest.verdict(recipe, results))
    return f"## {name}\n\n{head}\n\n{contest.markdown(results)}\n\n{said}\n"


def keep(sections: dict[str, str]) -> None:
    """Into results.md, in place of what was said of the same recipes before."""
    path = ROOT / "recipes" / "results.md"
    old = {name: text for text, name in re.findall(r"^(## (\w+)\n.*?)(?=^## |\Z)", path.read_text(), re.M | re.S)} if path.exists() else {}
    kept = {**old, **sections}
    path.write_text("\n".join([HEAD, *(kept[name].rstrip() + "\n" for name in MEDIUM if name in kept)]))


HEAD = """# Results

What `make recipes-bench` measured: networks trained from files to scores, each run in a process of its own with an empty index cache, medians
over seeds. `today…` are the loaders that a system's owner has ([recipes](README.md)). CPU and memory are of loader and network together, memory as
what grew since the loader was made; *to target* has set-up in it. Loaders alone, at larger sizes: [speed](../docs/speed.md).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", choices=[[], *MEDIUM], help="by default all five")
    parser.add_argument("--size", choices=("medium", "large"), default="medium")
    args = parser.parse_args()
    for name in args.recipes or MEDIUM:
        print(f"\n{name}", flush=True)
        keep({name: section(name, args.size, scratch() / f"recipes-{args.size}" / name)})


if __name__ == "__main__":
    main()
