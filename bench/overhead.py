#!/usr/bin/env python3
"""What the counters and clocks that are always on cost, as a share of a loader's CPU time: below 1 %?

    bench/overhead.py            writes results/overhead.csv; exits with 1 when a case is above

Not by two builds, whose difference is smaller than what a machine varies by: every reading of a clock is counted, and priced (bench/c/bench_overhead.c).
Cases are data that cost little to decode, where what is fixed weighs most: small batches, small row groups, and ones as they usually are.
"""

import argparse
import subprocess
import sys

from common import Csv, Table, build_c, scratch, verdict

LIMIT = 0.01
MIB = 1 << 20
# name, rows a row group, batch size, budget, whether it must be below the limit: no program takes 100,000 batches a second
CASES = [
    ("usual: 20,000 rows a group, batches of 1,024", 20_000, 1_024, 64 * MIB, True),
    ("cached", 20_000, 1_024, 1024 * MIB, True),
    ("2,000 rows a group", 2_000, 1_024, 64 * MIB, True),
    ("batches of 256", 20_000, 256, 64 * MIB, True),
    ("batches of 64, as fast as they come", 20_000, 64, 64 * MIB, False),
]


def data(rows):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = scratch() / "overhead" / f"{rows}.parquet"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        values = np.random.default_rng(1).standard_normal((16, 1_000_000)).astype("f4")
        pq.write_table(pa.table({f"c{i}": column for i, column in enumerate(values)}), path, row_group_size=rows, use_dictionary=False, compression="lz4")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3)
    seconds = parser.parse_args().seconds
    (program,) = build_c("bench_overhead")
    table = Table("Always on: clocks and counters", [("case", -46), ("clocks a batch", 14), ("ns each", 8), ("share of CPU", 12)])
    out = Csv("overhead.csv", ["case", "clocks_per_batch", "event_ns", "cpu_clock_ns", "share_of_cpu", "limit", "passed"])
    worst = 0.0
    for case, rows, batch, memory, held in CASES:
        done = subprocess.run([program, data(rows), str(batch), str(memory), str(seconds)], capture_output=True, text=True, check=True)
        found = {key: float(value) for key, value in (line.split(" ") for line in done.stdout.splitlines())}
        a_batch = (found["clocks"] + found["cpu_clocks"]) / found["batches"]
        worst = max(worst, found["share"] * held)
        table.row(case, f"{a_batch:.1f}", f"{found['event_ns']:.0f}", f"{found['share']:.2%}")
        costs = {name: found[name] for name in ("event_ns", "cpu_clock_ns")}
        passed = verdict(found["share"] < LIMIT if held else None)
        out.add(case=case, clocks_per_batch=a_batch, **costs, share_of_cpu=found["share"], limit=LIMIT if held else "", passed=passed)
    out.write()
    return 0 if worst < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
