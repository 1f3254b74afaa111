"""Loaders beside each other, each run in a process of its own, so that CPU time, memory and caches are its own: a table, a verdict, pictures.

Network, data and seeds are the same for all. Every process begins with an empty index cache, as a first start does; files are in the page cache as far
as memory goes. Runs are interleaved, A B B A, so that what else the machine does meets all of them.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.outcome import IN_ORDER, OURS, Loading, Point, Result

if TYPE_CHECKING:
    import forebay as fb
    from recipes.training import Recipe

COLOURS = {"today": "#9aa4b2", "expert": "#c8553d", "forebay": "#1f77b4", "forebay-in-order": "#9ecae9"}
OTHERS = ("#d0a04c", "#8c6bb1", "#74a57f")
BARS = {"loader alone": "#3a9188", "step alone": "#c9c9c9", "together": "#7b5ea7"}


def race(command: Callable[[str, int], list[Any]], loaders: Sequence[str], seeds: Iterable[int], data: pathlib.Path) -> list[Result] | list[Loading]:
    """All loaders with all seeds; `command` gives the program that runs one of each, and its arguments. Files of `data` are in the page cache from the
    start, if they fit."""
    into_page_cache(data)
    turns = (loaders, tuple(reversed(loaders)))  # who runs first does not always
    runs, results = [(seed, loader) for n, seed in enumerate(seeds) for loader in turns[n % 2]], []
    for seed, loader in runs:
        print(f"run {len(results) + 1} of {len(runs)}: {loader}, seed {seed}", end="", file=sys.stderr, flush=True)
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as own:
            out = pathlib.Path(own, "result.json")
            words = [sys.executable, *map(str, command(loader, seed)), "--json", str(out)]
            done = subprocess.run(words, env={**os.environ, "FOREBAY_CACHE": own}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                name = pathlib.Path(words[1]).parent.name
                raise SystemExit(f"\n{name} with the loader {loader!r} and seed {seed} ended with status {done.returncode}:\n{done.stdout}")
            results.append(read(json.loads(out.read_text())[0]))
        print("\n".join([f", {time.perf_counter() - began:.0f} s", *done.stdout.strip().splitlines()]), file=sys.stderr)
    return results


def into_page_cache(folder: pathlib.Path) -> None:
    """Read every file once, or the loader that runs first is alone in reading the disk."""
    room = bytearray(1 << 24)
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.readinto(room):
                    pass


def read(of: dict[str, Any]) -> Result | Loading:
    """A result out of the JSON that a run wrote."""
    if "scores" not in of:
        return Loading(**of)
    return Result(**{**of, "points": [Point(**point) for point in of["points"]], "curve": [tuple(step) for step in of["curve"]]})


# ---- statistics ----


def quantile(p: float, freedom: float) -> float:
    """Of Student's t, for p above one half."""
    angle = np.linspace(0, np.pi / 2, 200_001)  # t = sqrt(freedom) tan(angle) has a density of cos(angle) ** (freedom - 1)
    mass = np.cumsum(np.cos(angle) ** (freedom - 1))
    return math.sqrt(freedom) * math.tan(angle[np.searchsorted(mass / mass[-1], 2 * p - 1)])


def difference(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Of the means, a - b, and half the width of its 95 % interval by Welch's t: variances may differ."""
    parts = [statistics.variance(of) / len(of) for of in (a, b)]
    spread = sum(parts)
    half = 0.0
    if spread > 0:
        half = quantile(0.975, spread**2 / sum(part**2 / (len(of) - 1) for part, of in zip(parts, (a, b)))) * math.sqrt(spread)
    return statistics.mean(a) - statistics.mean(b), half


def at_least(value: float) -> str:
    """Two digits, rounded up: a bound stays one."""
    unit = 10 ** (math.floor(math.log10(value)) - 1) if value > 0 else 1
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.6g}"


def compared(a: Sequence[float], b: Sequence[float]) -> tuple[str, str, float]:
    """("same", "more", "less" or "unknown", the words, by how much they may differ)."""
    if min(len(a), len(b)) < 2:
        return "unknown", "one seed each: no spread to compare with", math.inf
    by, half = difference(a, b)
    words = f"the means differ by {by:+.4f}, 95 % interval {by - half:+.4f} to {by + half:+.4f} (Welch's t, {len(a)} and {len(b)} seeds)"
    return "same" if abs(by) <= half else "more" if by > 0 else "less", words, abs(by) + half


def cost_of_order(results: list[Result] | list[Loading]) -> str:
    """What shuffling costs Forebay, seed by seed beside the files' order."""
    rates = {"in the first epoch": lambda r: r.first_samples_per_second, "after it": lambda r: r.samples_per_second}
    rates = rates if isinstance(results[0], Loading) else {"in training": lambda r: r.samples_per_second}
    said, by = [], by_loader(results)
    for when, rate in rates.items():
        ours, theirs = ({r.seed: rate(r) for r in by[loader]} for loader in (OURS, IN_ORDER))
        gains = [100 * (ours[seed] / theirs[seed] - 1) for seed in ours if seed in theirs]
        mean, half = statistics.mean(gains), quantile(0.975, len(gains) - 1) * statistics.stdev(gains) / math.sqrt(len(gains))
        said.append(f"{mean:+.1f} % {when} (95 % interval {mean - half:+.1f} to {mean + half:+.1f} %, {len(gains)} pairs of runs)")
    return f"Samples/s when shuffled, beside the files' order: {'; '.join(said)}."


# ---- what is shown ----


def median(values: Iterable[float | None]) -> float | None:
    """None is more than any number: a target that was not reached."""
    ranked = sorted(math.inf if value is None else value for value in values)
    middle = (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2
    return None if math.isinf(middle) else middle


def percentile(result: Result | Loading, share: float) -> float:
    """Milliseconds of next(), without the first, which is part of getting ready."""
    return 1e3 * float(np.percentile(result.next_seconds[1:] or result.next_seconds or [0.0], share))


# The value, how its number is written, its unit.
COLUMNS: dict[str, tuple[Callable[[Result], float | None], str, str]] = {
    "samples/s": (lambda r: r.samples_per_second, "{:,.0f}", ""),
    "set up": (lambda r: r.setup_seconds, "{:.2f}", " s"),
    "training": (lambda r: r.seconds, "{:.2f}", " s"),
    "waiting": (lambda r: r.waited, "{:.1%}", ""),
    "next p50": (lambda r: percentile(r, 50), "{:.2f}", " ms"),
    "next p99": (lambda r: percentile(r, 99), "{:.1f}", " ms"),
    "CPU": (lambda r: r.cores, "{:.2f}", " cores"),
    "memory": (lambda r: r.memory_bytes / 2**20, "{:,.0f}", " MiB"),
    "to target": (lambda r: r.target_seconds, "{:.1f}", " s"),
}


LOADING: dict[str, tuple[Callable[[Loading], float], str, str]] = {
    "samples/s, first epoch": (lambda r: r.first_samples_per_second, "{:,.0f}", ""),
    "samples/s, then": (lambda r: r.samples_per_second, "{:,.0f}", ""),
    **{name: COLUMNS[name] for name in ("next p50", "next p99", "CPU", "memory")},
}


def cell(values: list[float | None], form: str, unit: str) -> str:
    """The median, and half the distance between the least and the most; how many there are, where some are not."""
    middle, there = median(values), [value for value in values if value is not None]
    if middle is None:
        return "not reached"
    spread = f" ±{form.format((max(there) - min(there)) / 2)}" if len(there) > 1 else ""
    return form.format(middle) + spread + unit + (f" ({len(there)} of {len(values)})" if len(there) < len(values) else "")


def cells(results: list[Result]) -> list[list[str]]:
    """The table: a header, and a row of medians over seeds with their spread for every loader."""
    if isinstance(results[0], Loading):
        return loading_cells(results)
    names = list(results[0].scores)
    rows = [["loader", *COLUMNS, *names]]
    for loader, of in by_loader(results).items():
        columns = [cell(list(map(value, of)), form, unit) for value, form, unit in COLUMNS.values()]
        rows.append([loader, *columns, *[cell([result.scores[name] for result in of], "{:.4f}", "") for name in names]])
    return rows


def loading_cells(results: list[Loading]) -> list[list[str]]:
    """The same of loaders alone: after a rate of theirs, how many times as many Forebay gives."""
    by = by_loader(results)
    rows = [["loader"], *([loader] for loader in by)]
    for name, (value, form, unit) in LOADING.items():
        beside = "forebay" in by and name.startswith("samples/s")
        rows[0] += [name, "Forebay gives"] if beside else [name]
        for row, (loader, of) in zip(rows[1:], by.items()):
            row.append(cell(list(map(value, of)), form, unit))
            if beside:
                row.append("" if loader == "forebay" else f"{median(map(value, by['forebay'])) / median(map(value, of)):,.1f} ×")
    return rows


def by_loader(results: list[Result]) -> dict[str, list[Result]]:
    """In the order in which they ran."""
    return {loader: [r for r in results if r.loader == loader] for loader in dict.fromkeys(r.loader for r in results)}


def table(results: list[Result]) -> str:
    """For a terminal."""
    rows = cells(results)
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [f"{row[0]:<{widths[0]}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:])) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def markdown(results: list[Result]) -> str:
    """For a page."""
    head, *rows = cells(results)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _times(name: str, theirs: float | None, ours: float | None, of: str) -> str:
    if theirs is None or ours is None:
        both = theirs is None and ours is None
        return f"neither reaches {of}" if both else f"{of} is reached by {name if ours is None else 'Forebay'} alone"
    return f"{of} after {ours:.1f} s, {name} after {theirs:.1f} s: {theirs / ours:.1f} times as fast"


def _speed(recipe: Recipe, loader: str, theirs: list[Result], ours: list[Result]) -> str:
    """Forebay beside another loader."""
    rates, cpu, reached = (
        [median(map(value, of)) for of in (theirs, ours)]
        for value in (lambda r: r.samples_per_second, lambda r: r.cpu_seconds / max(r.samples, 1), lambda r: r.target_seconds)
    )
    more = f"{rates[1] / rates[0]:.2f} times the samples/s, {cpu[1] / max(cpu[0], 1e-12):.2f} of the CPU time a sample"
    return f"beside {loader} {more}; {_times(loader, *reached, f'{next(iter(ours[0].scores))} {recipe.target:g}')}"


def _accuracy(loader: str, theirs: list[Result], ours: list[Result]) -> str:
    """Is its score Forebay's, once both have seen as many samples?"""
    score = next(iter(ours[0].scores))
    for name, fewer, others in ((loader, theirs, ours), ("Forebay", ours, theirs)):
        share = min(r.samples for r in fewer) / max(r.samples for r in others)
        if share < 0.95:
            return f"not compared: {name} had seen {share:.1%} of the samples when its time was up"
    same, words, most = compared(*[[r.scores[score] for r in of] for of in (ours, theirs)])
    said = f"no difference beyond the spread, {at_least(most)} at most" if same == "same" else "not known" if same == "unknown" else "DIFFERENT"
    return f"{score} with Forebay and {loader}: {said}; {words}"


def constant_of(results: list[Result]) -> float:
    """The loss of the best constant prediction."""
    return statistics.mean(r.constant for r in results)


def without_learning(recipe: Recipe, results: list[Result]) -> list[str]:
    """The loaders of which a run neither ends at the target nor with a loss below that of the best constant prediction. A network that is trained with one
    class more often than it comes, as leak's is, finds what it is to find at a loss that may be larger."""
    constant = constant_of(results)

    def learnt(result: Result) -> bool:
        return math.isfinite(result.loss) and (recipe.reaches(next(iter(result.scores.values()))) or result.loss < constant)

    return [loader for loader, of in by_loader(results).items() if not all(map(learnt, of))]


def verdict(recipe: Recipe, results: list[Result]) -> list[str]:
    """What the table says, in words."""
    by = by_loader(results)
    score = next(iter(results[0].scores))
    loss = {loader: statistics.mean(r.loss for r in of) for loader, of in by.items()}
    nothing, constant = without_learning(recipe, results), constant_of(results)
    how = {of: " (NOTHING is learnt)" if of in nothing else " (not below it; the target is reached)" if value >= constant else "" for of, value in loss.items()}
    learnt = ", ".join(f"{value:.4f} with {loader}{how[loader]}" for loader, value in loss.items())
    lines = [f"{'loss':<9}{learnt}; {constant:.4f} of the best constant prediction; {score} of guessing is {recipe.chance:g}"]
    for result in results:
        lines += [f"{'test':<9}" + ", ".join(f"{name} {value:.4f}" for name, value in result.test_scores.items())] * (len(results) == 1)
    scores = {loader: [r.scores[score] for r in of] for loader, of in by.items()}
    if "forebay" in by:
        lines += [f"{'speed':<9}{_speed(recipe, loader, of, by['forebay'])}" for loader, of in by.items() if loader in recipe.loaders]
        lines += [f"{'accuracy':<9}{_accuracy(loader, by[loader], by['forebay'])}" for loader in recipe.equal_to if loader in by]
    if "forebay" in by and "forebay-in-order" in by:
        same, words, _ = compared(scores["forebay"], scores["forebay-in-order"])
        better = "more" if recipe.target > recipe.chance else "less"
        said = {"same": "makes no difference that shows", "unknown": "not known", better: "is better"}.get(same, "is WORSE")
        lines.append(f"{'order':<9}shuffling {said}; {score}: {words}")
    return lines


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def limits_picture(name: str, limits: dict[str, fb.Diagnosis], path: pathlib.Path) -> None:
    """What limits training with each loader: bars of the loader alone, the step alone and both together."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(7, 1.2 + 0.5 * len(limits)), layout="constrained")
    for i, of in enumerate(limits.values()):
        for k, (label, value) in enumerate((("loader alone", of.loader), ("step alone", of.ceiling), ("together", of.together))):
            axes.barh(i + 0.26 * (k - 1), value, 0.24, color=BARS[label], label=None if i else label)
            axes.annotate(f"{value:,.0f}", (value, i + 0.26 * (k - 1)), (3, 0), textcoords="offset points", va="center", size=7)
    rates = [rate for of in limits.values() for rate in (of.loader, of.ceiling, of.together)]
    axes.set(
        xscale="log", xlim=(10 ** math.floor(math.log10(min(rates))) / 2, max(rates) * 3), xlabel="samples/s (logarithmic)",
        title=f"{name}: what limits training", yticks=range(len(limits)), yticklabels=[f"{loader}\nlimit: {of.limit}" for loader, of in limits.items()],
    )  # fmt: skip
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, ncols=3, loc="outside lower center")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def picture(name: str, results: list[Result], path: pathlib.Path) -> None:
    """The loss over wall time: a line a run. `name`: its title."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    others = iter(OTHERS)
    colours = {loader: COLOURS.get(loader) or next(others, "#666666") for loader in dict.fromkeys(result.loader for result in results)}
    seen = set()
    for result in results:
        window = max(1, len(result.curve) // 40)
        points = [result.curve[i : i + window] for i in range(0, len(result.curve), window)]
        axes.plot(
            [result.setup_seconds + p[-1][0] for p in points], [statistics.mean(loss for _, _, loss in p) for p in points],
            color=colours[result.loader], label=None if result.loader in seen else result.loader,
        )  # fmt: skip
        seen.add(result.loader)
    axes.set(xlabel="seconds, set-up with them", ylabel="loss", title=name)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
