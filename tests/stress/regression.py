#!/usr/bin/env python3
"""Is `forebay bench --against` steady on a machine that does other things too, and does it see a loss of 20 %?

    tests/stress/regression.py [--times 10] [--busy] [--quick]

Saves a base, compares with it so many times, which must hold each time, and then with a loss of 20 %, which must be found each time: with a base of
1 / 0.8 times as many samples a unit of the reference, as if it had been as fast as that. With --busy another program uses a CPU for half of the
comparisons, in bursts. With --quick runs are half as long.
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
COLUMNS, LOSS = 40, 0.2


def make(path):
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.standard_normal(1_000_000).astype("f4").round(2) for i in range(COLUMNS)}
    pq.write_table(pa.table(columns), path, row_group_size=20_000, compression="zstd")
    return path


def bench(path, *args):
    done = subprocess.run([CLI, "bench", path, "--threads", "1", "--memory", "40MiB", "--shuffle", "none", "--json", *map(str, args)],
                          capture_output=True, text=True)  # fmt: skip
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
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    quick = ["--quick"] * o.quick
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        path = make(folder / "columns.parquet")
        bases = {planted: folder / f"{planted}.json" for planted in (False, True)}
        _, base = bench(path, "--save", bases[False], *quick)
        faster = {name: [ratio / (1 - LOSS) for ratio in base["saved"][name]] for name in ("ratios", "cpu_ratios")}
        bases[True].write_text(json.dumps({**base, "saved": {**base["saved"], **faster}}))
        print(f"base of {len(base['saved']['ratios'])} runs", flush=True)
        other = multiprocessing.Process(target=bother, daemon=True)
        for planted in (False, True):
            for i in range(o.times):
                if o.busy and i == o.times // 2:
                    other = multiprocessing.Process(target=bother, daemon=True)
                    other.start()
                code, got = bench(path, "--against", bases[planted], "--margin", "10%", *quick)
                wall, cpu = (got["against"][m] for m in ("wall", "cpu"))
                good = code == planted
                wrong += not good
                print(f"{'planted' if planted else 'same':8} time {wall['ratio']:.3f} ({wall['low']:.3f} to {wall['high']:.3f})  "
                      f"CPU {cpu['ratio']:.3f} ({cpu['low']:.3f} to {cpu['high']:.3f})  {len(got['saved']['ratios'])} runs  "
                      f"{'slower' if code else 'holds'}  {'' if good else 'WRONG'}", flush=True)  # fmt: skip
            if other.is_alive():
                other.terminate()
    print(f"{2 * o.times - wrong} of {2 * o.times} as planted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
