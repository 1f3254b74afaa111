#!/usr/bin/env python3
"""Does `forebay advise` predict what `forebay bench` measures, and are its settings the best?

    bench/advise.py                         the five recipes' pipelines and three real files; writes results/advise.csv where all are there
    bench/advise.py PATH|PIPELINE.yaml…     these; writes nothing

Predicted is the first epoch, which is what bench measures by default; it should be within 25 %. What takes less than 3 s advise has run, from the page
cache and cold; of the others, jets among them, it works out the rest. Medians of three to nine runs in turn, as 25 s have room for them. Before each is a
pause: of memory that was freed a moment ago a virtual machine's host has not taken back all, so that the next process gets some of it for nothing, and
first epochs, which touch all of their memory, differ by a factor of two. Before those of less than a second is the same run, which does not count, in its
place: the little memory that they need stays.
The settings that advise proposes then run beside a grid around them, in turn, for epochs on end, of which the first one does not count: they should be within
10 % of the best, which was found in the grid, when the two run beside each other once more. Exits with 1 where either was not so.
"""

import argparse
import itertools
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import common
import workloads
from common import Csv, find_cli, median, warn_when_busy

RECIPES = {"hydrology": "hydrology", "jets": "jets", "leak": "leak", "linkage": "linkage_million", "neutrino": "neutrino"}
DATA = Path(os.environ.get("FOREBAY_TEST_DATA", common.ROOT.parent / "shared" / "data"))  # as tests/python/real_data.py
REAL = ["jets/cms_nano_dy.parquet", "neutrino/prometheus_example_photons.parquet", "neutrino/liquido_electrons.h5"]
PREDICTION, SETTINGS = 0.25, 0.10
RUNS, SECONDS, PAUSE, WHOLE_EPOCH = 3, 25.0, 3.0, 10**9


def forebay(*args):
    done = subprocess.run([find_cli(), *map(str, args), "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def recipe(name):
    """Its pipeline file beside data of the scale `bench`, some of whose blocks are too large for the budget of the small ones."""
    folder = common.scratch() / "advise" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data").unlink(missing_ok=True)  # it may lead nowhere any more
    (folder / "data").symlink_to(workloads.data(RECIPES[name]))
    path = folder / "pipeline.yaml"
    text = (common.ROOT / "recipes" / name / "pipeline.yaml").read_text()
    path.write_text(re.sub(r"memory: [\d.]+[MG]iB", "memory: 6GiB", text))
    return path


def usual():
    """The paths; and whether all of them are there."""
    real = [DATA / path for path in REAL]
    there = [path for path in real if path.exists()]
    for path in real:
        if path not in there:
            print(f"left out: {path} is not there; results/advise.csv stays as it is")
    return [*map(recipe, RECIPES), *there], there == real


def first_epochs(path):
    """{"warm": [(predicted, measured) samples a second, a pair each run], "cold": […]}, and what advise printed last."""
    states = [("warm", "first_epoch_cached_samples_per_second", []), ("cold", "first_epoch_samples_per_second", ["--cold"])]
    pairs, began, got = {"warm": [], "cold": []}, time.monotonic(), forebay("advise", path)
    short = got["samples"] / got["expected"][0][states[0][1]] < 1

    def settled(*args):
        if short:
            forebay(*args)
        else:
            time.sleep(PAUSE)
        return forebay(*args)

    while len(pairs["cold"]) < RUNS or time.monotonic() < began + SECONDS and len(pairs["cold"]) < 3 * RUNS:
        got = settled("advise", path)
        for state, key, flags in states:
            found = settled("bench", path, "--epochs", 1, *flags)
            pairs[state].append((got["expected"][0][key], found["samples_per_second"]))
        states.reverse()
    return pairs, got


def grid(got):
    """Settings around those that are proposed, which come first: no threads beyond the machine's, no budget below the minimum or above 70 % of the memory."""
    settings, memory = got["settings"], got["memory"]
    most = 0.7 * got["machine"]["memory_bytes"]
    asked = [settings["memory"], settings["memory"] // 2, settings["memory"] * 2, memory["overlap_bytes"], memory["keep_all_bytes"]]
    if settings["memory"] >= memory["keep_all_bytes"]:  # of more, nothing would be used
        asked = [b for b in asked if b <= settings["memory"]]
    budgets = []
    for budget in (max(b, memory["minimum_bytes"]) for b in asked if b <= most):
        if all(abs(budget / b - 1) > 0.01 for b in budgets):  # settings are whole MiB
            budgets.append(budget)
    return budgets, [settings["threads"], *(n for n in (1, 2, 4, 8) if n < got["machine"]["threads"])]


def rates(path, memory, threads, epochs, runs):
    """{(memory, threads): samples a second}, of epochs after the first."""
    rows = forebay("bench", path, "--memory", ",".join(map(str, memory)), "--threads", ",".join(f"{n:g}" for n in threads), "--runs", runs,
                   "--warmup", WHOLE_EPOCH, "--epochs", epochs)["comparison"]["rows"]  # fmt: skip
    return dict(zip(itertools.product(memory, threads), (row["samples_per_second"] for row in rows)))


def share_of_best(path, got):
    """Rate with the proposed settings as a share of the best of the grid, and which that is: the two beside each other once more, or luck chooses the best."""
    budgets, threads = grid(got)
    once, proposed = got["expected"][0], (budgets[0], threads[0])
    if len(budgets) * len(threads) == 1:
        return 1.0, "the only one"
    seconds = forebay("bench", path, "--memory", proposed[0], "--threads", f"{proposed[1]:g}", "--warmup", WHOLE_EPOCH, "--epochs", 1)["seconds"]
    epochs = math.ceil(min(1 / seconds, 1000))  # a second of them, or one
    seconds = len(budgets) * len(threads) * (got["samples"] / once["first_epoch_cached_samples_per_second"] + epochs * seconds)
    found = rates(path, budgets, threads, epochs, max(1, min(RUNS, int(SECONDS / seconds))))
    best = max(found, key=found.get)
    if best != proposed:
        memory, cpus = ([a, b] if a != b else [a] for a, b in zip(proposed, best))
        found = rates(path, memory, cpus, epochs, 2 * RUNS - 1)
    return min(1.0, found[proposed] / found[best]), f"memory={best[0]} threads={best[1]:g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", type=Path)
    paths = parser.parse_args().paths
    paths, complete = (paths, False) if paths else usual()
    warn_when_busy()
    results = Csv("advise.csv", ["path", "page_cache", "predicted_samples_per_s", "measured_samples_per_s", "off", "settings_share_of_best", "best_settings",
                                 "passed"])  # fmt: skip
    failed = 0
    for path in paths:
        name = path.name if path.suffix != ".yaml" else f"recipes/{path.parent.name}"
        files = path.parent.glob("data/**/*") if path.suffix == ".yaml" else [path]
        common.warm_page_cache(file for file in files if file.is_file())
        pairs, got = first_epochs(path)
        share, best = share_of_best(path, got)
        for state, runs in pairs.items():
            rate, found = (median(values) for values in zip(*runs))
            off = median([rate / found for rate, found in runs]) - 1  # of runs that follow each other
            passed = abs(off) <= PREDICTION and share >= 1 - SETTINGS
            failed += not passed
            results.add(path=name, page_cache=state, predicted_samples_per_s=rate, measured_samples_per_s=found, off=f"{off:+.0%}",
                        settings_share_of_best=share, best_settings=best, passed=passed)
            print(f"{name}  {state}  predicted {rate:,.0f}  measured {found:,.0f}  {off:+.0%}  settings {share:.0%} of the best ({best})  "
                  f"{'pass' if passed else 'FAIL'}", flush=True)
    if complete:
        results.write()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
