#!/usr/bin/env python3
"""Is `forebay bench --against` steady on a machine that does other things too, and does it see a loss of 20 %?

    tests/stress/regression.py [--times 10] [--busy]

Saves a base, compares with it so many times, which must hold each time, and then with a loss planted: the consumer works after each batch (--work)
so long that it takes batches at 80 % of the base's pace, which must be found each time. One worker, so that the machine has a CPU left for the
consumer. With --busy another program uses a CPU for half of the runs, in bursts.
"""

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CLI = os.environ.get("FOREBAY_CLI", str(Path(__file__).resolve().parents[2] / "build" / "forebay"))
BATCH = 1024


def make(path):
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.standard_normal(1_000_000).astype("f4").round(2) for i in range(16)}
    pq.write_table(pa.table(columns), path, row_group_size=20_000, compression="zstd")


def bench(path, *args):
    done = subprocess.run([CLI, "bench", path, "--threads", "1", "--memory", "32MiB", "--superbatch", "100000", "--batch-size", str(BATCH), "--json",
                           *map(str, args)], capture_output=True, text=True)  # fmt: skip
    if not done.stdout:
        sys.exit(done.stderr)
    return done.returncode, json.loads(done.stdout)


def bother():
    """Another program: bursts of work, and rests."""
    data = np.ones(1 << 20)
    while True:
        until = time.monotonic() + random.uniform(0.1, 1)
        while time.monotonic() < until:
            np.add(data, 1, out=data)
        time.sleep(random.uniform(0.1, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--busy", action="store_true")
    o = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path, base = Path(folder, "t.parquet"), Path(folder, "base.json")
        make(path)
        _, saved = bench(path, "--save", base)
        work = BATCH / (0.8 * saved["samples_per_second"])
        other = multiprocessing.Process(target=bother, daemon=True)
        for planted in (False, True):
            for i in range(o.times):
                if o.busy and i == o.times // 2:
                    other = multiprocessing.Process(target=bother, daemon=True)
                    other.start()
                code, got = bench(path, "--against", base, "--margin", "10%", *(["--work", f"{1e6 * work:.1f}us"] if planted else []))
                a = got["against"]
                good = code == planted
                wrong += not good
                print(f"{'planted' if planted else 'same':8} {a['ratio']:.3f} ({a['low']:.3f} to {a['high']:.3f})  {len(got['saved']['ratios'])} runs  "
                      f"{'slower' if code else 'holds'}  {'' if good else 'WRONG'}", flush=True)  # fmt: skip
            if other.is_alive():
                other.terminate()
    print(f"{2 * o.times - wrong} of {2 * o.times} as planted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
