#!/usr/bin/env python3
"""Does `forebay advise` predict what `forebay bench` measures?

    bench/advise.py PATH|PIPELINE.yaml…     in turn, warm and cold; writes results/advise.csv

Predicted is the first epoch, which is what bench measures by default: from the page cache by the CPUs alone, cold also by the storage. Two runs of
bench for each, the faster one counts: other programs only ever take time away.
"""

import argparse
import json
import subprocess
import sys

from common import Csv, find_cli, warn_when_busy


def forebay(*args):
    done = subprocess.run([find_cli(), *map(str, args), "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def predicted(path):
    """(warm, cold) samples a second of the first epoch."""
    got = forebay("advise", path)
    sample = got["sample"]
    cpu = sum(sample[f"{stage}_cpu_seconds"] for stage in ("read", "decompress", "decode", "assemble"))
    return got["first_epoch_measured"] or 0.95 * got["machine"]["threads"] / cpu, got["expected"][0]["first_epoch_samples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    warn_when_busy()
    results = Csv("advise.csv", ["path", "page_cache", "predicted_samples_per_s", "measured_samples_per_s", "off"])
    for path in parser.parse_args().paths:
        for state, rate in zip(("warm", "cold"), predicted(path)):
            flags = ["--cold"] if state == "cold" else []
            found = max(forebay("bench", path, "--epochs", 1, *flags)["samples_per_second"] for _ in range(2))
            results.add(path=path, page_cache=state, predicted_samples_per_s=rate, measured_samples_per_s=found, off=f"{rate / found - 1:+.0%}")
            print(f"{path}  {state}  predicted {rate:,.0f}  measured {found:,.0f}  {rate / found - 1:+.0%}", flush=True)
    results.write()


if __name__ == "__main__":
    main()
