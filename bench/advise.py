#!/usr/bin/env python3
"""Does `forebay advise` predict what `forebay bench` measures, and are its settings the best?

    bench/advise.py                         the five recipes' pipelines and three real files; writes results/advise.csv where all are there
    bench/advise.py PATH|PIPELINE.yaml…     these; writes nothing

Predicted is the first epoch, which is what bench measures by default: from the page cache by the CPUs alone, cold also by the storage; it should be
within 25 %. Two runs of bench for each, the faster one counts: other programs only ever take time away.
The settings that advise proposes then run beside a grid around them, in turn, for epochs on end: they should be within 10 % of the best.
Exits with 1 where either was not so.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import common
import workloads
from common import Csv, find_cli, warn_when_busy

RECIPES = {"hydrology": "hydrology", "jets": "jets", "leak": "leak", "linkage": "linkage_million", "neutrino": "neutrino"}
DATA = Path(os.environ.get("FOREBAY_TEST_DATA", common.ROOT.parent / "shared" / "data"))  # as tests/python/real_data.py
REAL = ["jets/cms_nano_dy.parquet", "neutrino/prometheus_example_photons.parquet", "neutrino/liquido_electrons.h5"]
PREDICTION, SETTINGS = 0.25, 0.10


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


def predicted(got):
    """(warm, cold) samples a second of the first epoch."""
    sample = got["sample"]
    cpu = sum(sample[f"{stage}_cpu_seconds"] for stage in ("read", "decompress", "decode", "assemble"))
    return got["first_epoch_measured"] or 0.95 * got["machine"]["threads"] / cpu, got["expected"][0]["first_epoch_samples_per_second"]


def grid(got):
    """Settings around those that are proposed, which come first: no threads beyond the machine's, no budget below the minimum or above 70 % of the memory."""
    settings, memory = got["settings"], got["memory"]
    most = 0.7 * got["machine"]["memory_bytes"]
    budgets = {settings["memory"], settings["memory"] // 2, settings["memory"] * 2, memory["overlap_bytes"], memory["keep_all_bytes"]}
    budgets = sorted({max(b, memory["minimum_bytes"]) for b in budgets if b <= most} - {settings["memory"]})
    threads = [n for n in (1, 2, 4, 8) if n < got["machine"]["threads"]]
    return [settings["memory"], *budgets], [settings["threads"], *threads]


def share_of_best(path, got):
    """Rate with the proposed settings as a share of the best of the grid, and which that is."""
    budgets, threads = grid(got)
    rows = forebay("bench", path, "--memory", ",".join(map(str, budgets)), "--threads", ",".join(f"{n:g}" for n in threads), "--runs", 3,
                   "--seconds", 1)["comparison"]["rows"]
    best = max(rows, key=lambda row: row["samples_per_second"])
    return rows[0]["samples_per_second"] / best["samples_per_second"], best["name"]


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
        forebay("advise", path)  # a virtual machine's host then has the memory ready, which takes longer than loading
        got = forebay("advise", path)
        share, best = share_of_best(path, got)
        for state, rate in zip(("warm", "cold"), predicted(got)):
            flags = ["--cold"] if state == "cold" else []
            found = max(forebay("bench", path, "--epochs", 1, *flags)["samples_per_second"] for _ in range(2))
            passed = abs(rate / found - 1) <= PREDICTION and share >= 1 - SETTINGS
            failed += not passed
            results.add(path=name, page_cache=state, predicted_samples_per_s=rate, measured_samples_per_s=found, off=f"{rate / found - 1:+.0%}",
                        settings_share_of_best=share, best_settings=best, passed=passed)
            print(f"{name}  {state}  predicted {rate:,.0f}  measured {found:,.0f}  {rate / found - 1:+.0%}  settings {share:.0%} of the best ({best})  "
                  f"{'pass' if passed else 'FAIL'}", flush=True)
    if complete:
        results.write()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
