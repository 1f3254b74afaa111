"""The recipes over seeds, with each loader that their owners have: tables, verdicts and what limits in recipes/results.md, pictures in docs/img.

    python recipes/bench.py                         # scale medium: some 100 MB, an hour on two cores
    python recipes/bench.py --scale bench           # several GB, hours
    python recipes/bench.py jets leak               # these alone; what results.md says of the others stays
    python recipes/bench.py jets --max-seconds 20   # other arguments of train.py, which stand in results.md too
    python recipes/bench.py --no-network            # the loaders alone: as long again

Every run has the same network, data, seed and time: a loader that is so slow that its time is up before the epochs are is not waited for.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib
import itertools
import os
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from common import commit, machine  # noqa: E402

import forebay as fb  # noqa: E402
from recipes import contest, training  # noqa: E402
from recipes.leak import evaluation_speed  # noqa: E402

DIAGNOSE_SECONDS = 6  # of the three measurements of a loader, together; warming up and waiting until it is idle take as long again, or twice
OTHERWISE_SECONDS = 20  # of a run: imports, set-up, validation

# Arguments of train.py.
SIZES = {
    "medium": {
        "hydrology": "--loaders today expert forebay "
        "--seeds 3 --epochs 1 --batches 128 --points 4 --max-seconds 60 --batch-size 128 --workers 2 --torch-threads 1",
        "neutrino": "--loaders today today-by-file today-random expert forebay forebay-in-order "
        "--seeds 3 --epochs 1 --points 12 --max-seconds 45 --workers 2 --torch-threads 1",
        "linkage": "--loaders today today-tuned expert forebay "
        "--seeds 5 --epochs 2 --points 16 --max-seconds 45 --workers 2 --torch-threads 1",
        "jets": "--loaders today today-lru today-ram expert forebay "
        "--seeds 3 --epochs 1 --batches 112 --points 28 --max-seconds 120 --workers 2 --torch-threads 1",
        "leak": "--loaders today today-ram expert forebay "
        "--seeds 3 --epochs 1 --points 32 --batch-size 512 --max-seconds 45 --workers 2 --torch-threads 2",
        "nanoaod": "--loaders today forebay --seeds 3 --epochs 1 --points 16 --max-seconds 20 --workers 2 --torch-threads 1",
        "weather": "--loaders today forebay --seeds 3 --epochs 2 --points 16 --max-seconds 80 --workers 2 --torch-threads 1",
    },
    "bench": {
        "hydrology": "--loaders today expert forebay --seeds 3 --epochs 1 --batches 128 --points 4 --held-out-batches 64 "
        "--max-seconds 120 --batch-size 128 --workers 2 --torch-threads 1",
        "neutrino": "--loaders today today-random expert forebay forebay-in-order --seeds 3 --epochs 1 --batches 100 --points 10 "
        "--held-out-batches 16 --max-seconds 240 --workers 2 --torch-threads 1",
        "linkage": "--loaders expert forebay --seeds 3 --epochs 1 --batches 300 --points 10 --held-out-batches 16 "
        "--batch-size 512 --max-seconds 120 --torch-threads 1",  # without today's: see SIZES_OF_LOADERS
        "jets": "--loaders today today-lru today-ram expert forebay --seeds 3 --epochs 1 --batches 72 --points 9 --held-out-batches 8 "
        "--max-seconds 100 --batch-size 64 --workers 2 --torch-threads 1",
        "leak": "--loaders today today-ram expert forebay --seeds 3 --epochs 1 --batches 32 --points 16 --held-out-batches 24 "
        "--max-seconds 90 --batch-size 5632 --workers 2 --torch-threads 2",
    },
}

OF_LOADERS = "--no-network --seeds 3 --max-seconds 10"
# With the batch sizes of their owners, but for jets: 256 matrices would be most of a tenth of the memory.
SIZES_OF_LOADERS = {
    "medium": {
        "hydrology": "--loaders today expert forebay --workers 2 --batch-size 512",
        "neutrino": "--loaders today today-by-file today-random expert forebay forebay-in-order --workers 2 --batch-size 512",
        "linkage": "--loaders today today-tuned expert forebay --workers 2 --batch-size 512",
        "jets": "--loaders today today-lru today-ram expert forebay --workers 2",
        "leak": "--loaders today today-ram expert forebay --workers 2 --batch-size 5632",
        "nanoaod": "--loaders today forebay --workers 2",
        "weather": "--loaders today forebay --workers 2",
    },
    "bench": {
        "hydrology": "--loaders today expert forebay --workers 2 --batch-size 512",
        "neutrino": "--loaders today today-by-file today-random expert forebay forebay-in-order --workers 2 --batch-size 512",
        "linkage": "--loaders expert forebay --batch-size 512",  # lists of a million records, as both of today's make, do not fit into 24 GiB
        "jets": "--loaders today today-lru today-ram expert forebay --workers 4",  # as many as the owner calls safe: each has an LRU
        "leak": "--loaders today today-ram expert forebay --workers 2 --batch-size 5632",
    },
}
# Forebay with a tenth of the memory that a loader takes, and options that need little.
OF_A_TENTH = {"jets": ("today-lru", "--set threads=1 streams=1 superbatch=2000")}
PAIRS_OF_ORDER = {"neutrino": "--loaders forebay forebay-in-order --seeds 8 --points 1 --held-out-batches 1"}  # what does shuffling cost?


def load_average() -> str:
    """How busy the machine is."""
    return f"{os.getloadavg()[1]:.1f}"


def at_most(recipe: training.Recipe, arguments: list[str]) -> float:
    """Seconds that a recipe takes, if every run lasts as long as it may: imports, set-up and validation with it, pairs, a tenth of the memory, evaluation,
    then fb.diagnose."""
    args = training.arguments(recipe).parse_args(arguments)
    run = args.max_seconds * (1 + args.no_network) + OTHERWISE_SECONDS
    seconds = run * len(args.loaders) * args.seeds
    if options := PAIRS_OF_ORDER.get(recipe.name):
        pairs = training.arguments(recipe).parse_args([*arguments, *options.split()])
        seconds += run * len(pairs.loaders) * pairs.seeds
    if not args.no_network:
        return seconds + len(args.loaders) * (3 * DIAGNOSE_SECONDS + OTHERWISE_SECONDS)
    seconds += run * args.seeds * (recipe.name in OF_A_TENTH)
    evaluations = 2 * 3 * len(evaluation_speed.WAYS)  # without a network and with one, three runs of each way
    return seconds + evaluations * (10 + OTHERWISE_SECONDS) * (recipe.name == "leak" and args.scale == "medium")


def limits(recipe: training.Recipe, arguments: list[str]) -> dict[str, fb.Diagnosis]:
    """What limits training with each loader: fb.diagnose."""
    args, folder, loaders = training.prepare(recipe, [*arguments, "--seconds", str(DIAGNOSE_SECONDS)])
    return {loader: training.diagnose(recipe, folder, args, loader) for loader in loaders}


def limits_table(found: dict[str, fb.Diagnosis]) -> str:
    """The same as a table."""
    lines = ["| loader | loader alone, samples/s | step alone | together | limit |", "| --- | ---: | ---: | ---: | --- |"]
    for loader, of in found.items():
        lines.append(f"| {loader} | {of.loader:,.0f} | {of.ceiling:,.0f} | {of.together:,.0f} ({of.share:.0%}) | {of.limit} |")
    return "\n".join(lines)


def caption(recipe: training.Recipe, results: list[training.Result], found: dict[str, fb.Diagnosis], batches: int | None = None) -> str:
    """What the table's figures are, what limits each loader, and how scores were compared."""
    seeds, score = len({result.seed for result in results}), next(iter(results[0].scores))
    said = f"Medians of {seeds} seeds, ± half the distance between the least and the most. Target: {score} {recipe.target:g} ({recipe.chance:g} by guessing) "
    kept, data = max(len(result.points) for result in results), f"{batches} batches of validation data" if batches else "the validation data"
    said += f"of {data}, of which all scores here are; networks are evaluated at up to {kept} points of a run, so a target may be noticed one "
    said += f"point late. The last {score} of a loader is compared with Forebay's by Welch's t over seeds, at 95 %. "
    limited = ", ".join(f"{loader} by `{of.limit}`" for loader, of in found.items())
    return said + f"What limits training (`fb.diagnose`, below): {limited or 'not measured'}."


def recipe_of(name: str) -> training.Recipe:
    return importlib.import_module(f"recipes.{name}.train").RECIPE


def arguments_of(name: str, scale: str, more: list[str]) -> list[str]:
    """Of train.py."""
    size = f"{OF_LOADERS} {SIZES_OF_LOADERS[scale][name]}" if "--no-network" in more else SIZES[scale][name]
    return ["--scale", scale, *size.split(), *(word for word in more if word != "--no-network")]


def heading(name: str, folder: pathlib.Path, arguments: list[str], before: str) -> str:
    """The command, its data, when and where it ran."""
    bytes_of = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return (
        f"`python recipes/{name}/train.py {' '.join(arguments)}`, {bytes_of / 1e6:,.0f} MB of data. {datetime.date.today()}, commit {commit()}, {machine()}; "
        f"load average (5 minutes) {before} before, {load_average()} after."
    )


def section(name: str, scale: str, more: list[str]) -> Iterator[str]:
    """What results.md says of a recipe: what was raced, and then with what limits. Its command is the one that is run here: data and arguments are in it."""
    recipe, before, arguments = recipe_of(name), load_average(), arguments_of(name, scale, more)
    folder = training.prepare(recipe, arguments)[1]
    picture = f"docs/img/loss-{title(name, scale, False).replace(', ', '-')}.png"
    results = training.main(recipe, [*arguments, "--picture", str(ROOT / picture)])
    head = heading(name, folder, arguments, before)
    args = training.arguments(recipe).parse_args(arguments)
    recipe = dataclasses.replace(recipe, target=args.target)
    said = "\n".join(f"* {line}" for line in contest.verdict(recipe, results))
    drawn = f"![Loss over wall time, {title(name, scale, False)}: a line a run](../{picture})"

    def page(found: dict[str, fb.Diagnosis]) -> str:
        return f"## {title(name, scale, False)}\n\n{head}\n\n{contest.markdown(results)}\n\n{caption(recipe, results, found, args.held_out_batches)}\n\n{said}\n\n{drawn}\n"

    yield page({})
    if pairs := PAIRS_OF_ORDER.get(name):
        said += f"\n* {'order':<9}{of_pairs(recipe, arguments, pairs)}"
        yield page({})
    found = limits(recipe, arguments)
    limiting = picture.replace("loss-", "limits-")
    contest.limits_picture(title(name, scale, False), found, ROOT / limiting)
    yield f"{page(found)}\n{limits_table(found)}\n\n![What limits training, {title(name, scale, False)}: loader, step, and both](../{limiting})\n"


def loaders_alone(name: str, scale: str, more: list[str]) -> Iterator[str]:
    """What results.md says of a recipe's loaders alone."""
    recipe, before, arguments = recipe_of(name), load_average(), arguments_of(name, scale, more)
    folder = training.prepare(recipe, arguments)[1]
    results = training.main(recipe, arguments)
    said = [f"## {title(name, scale, True)}", heading(name, folder, arguments, before), contest.markdown(results)]
    yield "\n\n".join(said) + "\n"
    if name in OF_A_TENTH and (theirs := [r for r in results if r.loader == OF_A_TENTH[name][0]]):
        ours, words = of_a_tenth(recipe, arguments, OF_A_TENTH[name][1], theirs)
        said[2:] = [contest.markdown(results + ours), words]
        yield "\n\n".join(said) + "\n"
    if pairs := PAIRS_OF_ORDER.get(name):
        said.append(of_pairs(recipe, arguments, pairs))
        yield "\n\n".join(said) + "\n"
    if name == "leak" and scale == "medium":  # its data are of one size
        for words, evaluated in evaluation_speed.tables():
            said += [f"Evaluation of {evaluation_speed.RECORDINGS:,} gzipped recordings {words}: `python recipes/leak/evaluation_speed.py`.", contest.markdown(evaluated)]
        yield "\n\n".join(said) + "\n"


def of_pairs(recipe: training.Recipe, arguments: list[str], options: str) -> str:
    """What shuffling costs, of runs of their own."""
    said = contest.cost_of_order(training.main(recipe, [*arguments, *options.split()]))
    return f"{said} Of the same command with `{options}`, {datetime.date.today()}, commit {commit()}."


def of_a_tenth(recipe: training.Recipe, arguments: list[str], options: str, theirs: list[training.Loading]) -> tuple[list[training.Loading], str]:
    """Forebay with a tenth of the memory that another loader took, and what is to be said of that."""
    memory, other = f"{contest.median(r.memory_bytes for r in theirs) / 10 / 2**20:.0f}MiB", theirs[0].loader
    try:
        ours = training.main(recipe, [*arguments, *options.split(), "--loaders", training.OURS, "--memory", memory])
    except SystemExit as refused:
        if "BudgetError" not in str(refused):
            raise
        return [], f"With a budget of {memory}, a tenth of what {other} takes, Forebay did not run: {str(refused).strip().splitlines()[-1]}"
    name = f"forebay, {memory}"
    rates = ("first_samples_per_second", "samples_per_second")
    first, then = (contest.median(getattr(r, rate) for r in ours) / contest.median(getattr(r, rate) for r in theirs) for rate in rates)
    words = f"`{name}`, after the others: with a budget of a tenth of what {other} takes, and `{options}`; "
    words += f"{first:,.1f} times its samples/s in the first epoch, {then:,.1f} times after it."
    return [dataclasses.replace(r, loader=name) for r in ours], words


def title(name: str, scale: str, without: bool) -> str:
    """Of a section."""
    return name + ", larger" * (scale == "bench") + ", loaders alone" * without


def table_of(section: str, column: str) -> dict[str, dict[str, str]]:
    """The table of a section that has this column: its cells by loader and column."""
    for lines in re.findall(r"^\| loader \|.*\n(?:\|.*\n?)+", section, re.M):
        head, _, *rows = (re.split(r"\s*\|\s*", line.strip()[1:-1].strip(" ")) for line in lines.splitlines())
        if column in head:
            return {row[0]: dict(zip(head, row)) for row in rows}
    return {}


ALONE, TRAINED, LIMITED = ("samples/s, first epoch", "samples/s, then"), ("samples/s", "waiting", "CPU", "memory", "to target"), ("limit",)


def without_spread(cell: str) -> str:
    return re.sub(r" ±[0-9.,]+%?", "", cell)


def rows(sections: dict[str, str], name: str) -> Iterator[list[str]]:
    """Of a system: the loaders of its sections of the scale medium, beside what they gave."""
    alone = table_of(sections.get(title(name, "medium", True), ""), ALONE[0])
    trained, limited = (table_of(sections.get(name, ""), columns[0]) for columns in (TRAINED, LIMITED))
    for loader in dict.fromkeys([*trained, *(key for key in alone if "," not in key)]):
        found = [of.get(loader, {}).get(column, "") for of, columns in ((alone, ALONE), (trained, TRAINED), (limited, LIMITED)) for column in columns]
        yield [loader, *map(without_spread, found)]


def side_by_side(words: list[str], lines: Iterable[list[str]]) -> str:
    """A table of loaders; `words` are of what stands before their figures."""
    head = [*words, "alone: samples/s, first epoch", "then", "training: samples/s", *TRAINED[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [[*head, *LIMITED], [*["---"] * len(words), *["---:"] * (len(head) - len(words)), "---"], *lines])


def summary(sections: dict[str, str]) -> str:
    """All systems and loaders of the scale medium in one table, of what their sections say."""
    lines = [[name, *row] for name in SIZES["medium"] for row in rows(sections, name)]
    table = side_by_side(["system", "loader"], lines)
    return f"## All of them, side by side\n\nMedians, from the sections below, which have the spread, the commands and the machine.\n\n{table}\n"


def larger(sections: dict[str, str]) -> str:
    """The loaders alone, on the data of the scale bench."""
    lines = [["system", "loader", *ALONE, "CPU", "memory"], ["---", "---", "---:", "---:", "---:", "---:"]]
    for name in SIZES_OF_LOADERS["bench"]:
        for loader, of in table_of(sections.get(title(name, "bench", True), ""), ALONE[0]).items():
            lines.append([name, loader, *(without_spread(of[column]) for column in lines[0][2:])])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def pages() -> dict[pathlib.Path, str]:
    """The recipes' pages and that of speed, each of which has a place for its table."""
    found = {page: page.read_text() for page in sorted([*ROOT.glob("recipes/*/README.md"), *ROOT.glob("docs/speed.md")])}
    if lost := [str(page) for page, text in found.items() if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END)]:
        raise SystemExit(f"bench.py: no place for results in {', '.join(lost)}: {BEGIN.strip()} and {END.strip()} are to stand there once")
    return found


def keep(sections: dict[str, str]) -> None:
    """Into results.md, in place of what was said of the same recipes before, and the tables of the recipes' pages with it."""
    path = ROOT / "recipes" / "results.md"
    old = {name: text for text, name in re.findall(r"^(## ([^\n]+)\n.*?)(?=^## |\Z)", path.read_text(), re.M | re.S)} if path.exists() else {}
    kept = {**old, **sections}
    places = pages()
    names = [title(name, scale, without) for without in (False, True) for scale in SIZES for name in SIZES[scale]]
    path.write_text("\n".join([HEAD, summary(kept), *(kept[name].rstrip() + "\n" for name in names if name in kept)]))
    for page, text in places.items():
        table = larger(kept) if page.name == "speed.md" else side_by_side(["loader"], rows(kept, page.parent.name))
        page.write_text(f"{text.partition(BEGIN)[0]}{BEGIN}{table}\n{END}{text.partition(END)[2]}")


BEGIN, END = "<!-- results: written by recipes/bench.py -->\n", "<!-- end of recipes' results -->\n"  # of a page's table

HEAD = """# Results

What `make recipes-bench` measured: networks trained from files to scores, each run in a process of its own with an empty index cache, medians
over seeds. `today…` are the loaders that a system's owner has (of nanoaod and weather, those that are written by hand), `expert` is what somebody
writes who knows NumPy, pyarrow and h5py well, in the training process ([recipes](README.md)), of which a thread reads ahead. CPU (seconds of CPU
time a second) and memory (its peak, as what grew since the loader was made) are of loader and network together, *waiting* is the share of training
inside `iter()`, where workers start, and `next()`, and *to target* has set-up in it. The second table is `--diagnose`, all loaders in one process: the step on one cached batch, the
loader alone, both together. Its limits are those of [diagnosis](../docs/diagnosis.md), and the scores are in the [glossary](../docs/glossary.md).

*Loaders alone*, below them, are in processes of their own, too: samples/s of the first epoch, or of as much of it as there was time for, with set-up
in it, then of what follows, epoch after epoch, and how many times as many Forebay gives; CPU and memory are of both. Of loaders with workers, rounds of
batches count, one of each worker. All data fit into memory, where Forebay keeps them, unless a row names its budget: what follows the first epoch is of a
loader that reads nothing any more. `today-ram`, linkage's, nanoaod's and an expert's read nothing then either (an expert's keeps up to 4 GiB); the
other ones of today read every epoch, but for an LRU with room for all. *Larger* is the scale `bench`, the rest `medium`.
"""


def main() -> None:
    usage = f"bench.py [RECIPE …] [--scale SCALE] [argument of train.py …]\nrecipes: {', '.join(SIZES['medium'])}; by default all that are measured at the scale"
    parser = argparse.ArgumentParser(usage=usage, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=SIZES, default="medium")
    args, more = parser.parse_known_args()
    asked = list(itertools.takewhile(lambda word: not word.startswith("-"), more))
    more = more[len(asked) :]
    if unknown := [name for name in asked if name not in SIZES["medium"]]:
        parser.error(f"{', '.join(unknown)}: no recipe")
    if refused := {"--diagnose", "--json", "--picture", "--alone"} & {word.partition("=")[0] for word in more}:
        parser.error(f"{', '.join(sorted(refused))}: this command has that of its own")
    commit()  # the one that is measured, whatever is edited meanwhile
    names, without = asked or list(SIZES[args.scale]), "--no-network" in more
    if others := [name for name in names if name not in SIZES[args.scale]]:
        parser.error(f"{', '.join(others)}: not measured at the scale {args.scale}")
    for name in names:
        seconds = at_most(recipe_of(name), arguments_of(name, args.scale, more))
        print(f"{name}: {seconds / 60:.0f} minutes at most by a rough sum, and the data where they are not there", flush=True)
    pages()  # better asked now than when an hour has gone into the results
    failed = []
    for name in names:
        print(f"\n{name}", flush=True)
        try:
            for said in (loaders_alone if without else section)(name, args.scale, more):
                keep({title(name, args.scale, without): said})
        except (SystemExit, fb.Error, OSError) as error:  # the others are measured all the same
            print(error, file=sys.stderr)
            failed.append(name)
    if failed:
        raise SystemExit(f"bench.py: not measured to the end: {', '.join(failed)}")


if __name__ == "__main__":
    main()
