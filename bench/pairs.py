"""Is a change as fast as what it replaces? Two checkouts, each with its own build, run in turns: ratios of pairs, their median and its interval.

    bench/pairs.py OLD NEW [--pairs 15] [--seconds 2] [CASE …]       OLD and NEW: checkouts in which `make python` has run

Each checkout runs its own bench/*_rivals.py, or bench_decode, with its own .venv, over the same data; hydrology, neutrino, linkage and leak run the
loaders of the checkout that this program is of, with the library of each. A pair is one run of each, the order changes from pair to pair. The interval
holds the median of ratios new / old with 95 % (order statistics). Passes where the median is at least 0.97 and the interval lies above 0.94.
"""
import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import common
import hdf5_data
import make_data
import workloads

QUARTER = ["--memory", str(200 * 5_000 * 64), "--superbatch", "130000"]  # of the decoded bytes; run.py says why
CACHED = ["--memory", str(200 * 5_000 * 64 * 16)]

IMPORT = "import time; t = time.perf_counter(); import forebay; print(1 / (time.perf_counter() - t))"
OPEN = """
import sys, time, forebay as fb
begin = time.perf_counter()
ds = fb.open(sys.argv[1], cache_dir=sys.argv[3])
opened = time.perf_counter()
next(iter(ds.rows().loader(["f00", "f01"], batch_size=1024, seed=0, memory="1GiB")))
print(1 / ((opened if sys.argv[2] == "open" else time.perf_counter()) - begin))
"""
DECODE = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
import common
(program,) = common.build_c("bench_decode")
print(common.keyed(subprocess.run([str(program), sys.argv[2]], stdout=subprocess.PIPE, text=True, check=True).stdout)["Mvalues_per_s_median"] * 1e6)
"""


def rivals(script, name, folder, *options):
    return lambda tree, seconds: [str(tree / "bench" / script), name, str(folder), "--seconds", str(seconds), *options]


def system(name, folder, *options):
    """The recipe's loader, the same for both: checkouts differ in the library."""
    return lambda tree, seconds: [str(Path(workloads.__file__)), name, str(folder), "--seconds", str(seconds), *options]


def code(text, *argv):
    return lambda tree, seconds: ["-c", text, *map(str, argv)]


def decoded(name):
    """Row groups in memory to float32 rows, by each checkout's own program."""
    path = make_data.decode() / f"{name}.parquet"
    return lambda tree, seconds: ["-c", DECODE, str(tree / "bench"), str(path)]


def opened(until, cached=False):
    """The index cache is a checkout's own: in one folder each build would replace what the other has just written."""
    folder = make_data.small()
    return lambda tree, seconds: ["-c", OPEN, str(folder), until, str(tree / ".demo" / "index") if cached else ""]


def cases():
    """name: what Python runs, made when it is asked for: data are generated once."""
    table = "rivals.py", "forebay"
    return {
        "batches, quarter": lambda: rivals(*table, make_data.table(), "--batch", "1024", *QUARTER),
        "batches, cached": lambda: rivals(*table, make_data.table(), "--batch", "1024", *CACHED),
        "hydrology, quarter": lambda: system("hydrology", workloads.data("hydrology")),
        "hydrology, cached": lambda: system("hydrology", workloads.data("hydrology"), "--cached"),
        "neutrino": lambda: system("neutrino", workloads.data("neutrino")),
        "linkage": lambda: system("linkage", workloads.data("linkage_million")),
        "leak": lambda: system("leak", workloads.data("leak")),
        "leak, files": lambda: system("evaluation", workloads.data("leak_gzip")),
        "jets, gzip": lambda: rivals("hdf5_rivals.py", "forebay", hdf5_data.jets("gzip")),
        "jets, contiguous": lambda: rivals("hdf5_rivals.py", "forebay", hdf5_data.jets("plain")),
        **{f"decode, {name}": lambda name=name: decoded(name) for name in make_data.DECODE_CASES},
        "import": lambda: code(IMPORT),
        "open 10,000 files": lambda: opened("open"),
        "open 10,000 files again": lambda: opened("open", cached=True),
        "first batch of 10,000 files": lambda: opened("first"),
    }


def rate(argv, tree):
    done = subprocess.run([str(tree / ".venv" / "bin" / "python"), *argv], capture_output=True, text=True, timeout=300, cwd=tempfile.gettempdir())
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise SystemExit(f"bench: {tree}: {' '.join(argv[:3])} failed: {done.stderr.strip()[-600:]}")
    if not lines[-1].startswith("{"):
        return float(lines[-1])
    result = json.loads(lines[-1])
    if "skipped" in result:
        raise SystemExit(f"bench: {tree}: {argv[:3]}: {result['skipped']}")
    return result.get("samples_per_s") or result["rows_per_s"]


def interval(ratios):
    """Order statistics between which the median lies with 95 %: the largest k with P(Bin(n, ½) < k) ≤ 2.5 %."""
    n, k, below = len(ratios), 0, 0.0
    while below + math.comb(n, k) / 2**n <= 0.025:
        below += math.comb(n, k) / 2**n
        k += 1
    values = sorted(ratios)
    return values[max(k - 1, 0)], values[min(n - k, n - 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("cases", nargs="*", help=", ".join(cases()))
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    trees = [options.old.resolve(), options.new.resolve()]
    common.warn_when_busy()
    table = common.Table(f"{options.pairs} pairs: samples/s (or 1/s) of old and new, ratio new / old",
                         [("case", -28), ("old", 9), ("new", 9), ("ratio", 7), ("95 %", 14), ("", 4)])
    failed = 0
    for name, make in cases().items():
        if options.cases and not any(wanted in name for wanted in options.cases):
            continue
        argv, got = make(), ([], [])
        for i in (0, 1):
            rate(argv(trees[i], 0.5), trees[i])  # warm: page cache, index cache, compiled modules
        for pair in range(options.pairs):
            for i in (0, 1) if pair % 2 == 0 else (1, 0):
                got[i].append(rate(argv(trees[i], options.seconds), trees[i]))
        ratios = [new / old for old, new in zip(*got)]
        low, high = interval(ratios)
        ok = common.median(ratios) >= 0.97 and low > 0.94
        failed += not ok
        table.row(name, common.si(common.median(got[0])), common.si(common.median(got[1])), f"{common.median(ratios):.3f}", f"{low:.3f} {high:.3f}",
                  common.verdict(ok))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
