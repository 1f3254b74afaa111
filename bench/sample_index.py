#!/usr/bin/env python3
"""The sample index at scale: 100 million windows over 10,000 files, and a choice of 900,000 groups among 13 million.

    bench/sample_index.py [--files N] [--rows N] [--events N] [--fresh]

Ceiling: the scan reads and decodes two columns of every file, so no faster than reading them with no index in the way; from the cache it
reads one small file. Goals: built in under 10 s with the files' pages dropped first, under 0.5 s from the cache, under 64 MiB.

Makes the files once, in $FOREBAY_BENCH_DIR or .demo/: days with a target that has gaps, and pulses of events. A step is a process of its own.
Memory is what its largest resident size lies above its size before, readers' buffers and all; CPU is that of all threads, and says more than
the clock when other programs run.
"""
import argparse
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import common

DISTINCT = 40  # files that differ; the others are copies under other names


def image(table, **options):
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def make_days(directory, n_files, n_rows):
    """One basin a file: date, a target with two gaps, two forcings."""
    import pyarrow as pa

    rng = np.random.default_rng(5)
    directory.mkdir(parents=True, exist_ok=True)
    images = []
    for _ in range(DISTINCT):
        flow = rng.gamma(2, 3, n_rows).astype(np.float32)
        for start in rng.integers(0, n_rows, 2):
            flow[start : start + rng.integers(1, n_rows // 50)] = np.nan
        date = np.datetime64("1980-01-01", "ns") + np.arange(n_rows) * np.timedelta64(1, "D")
        columns = {"date": date, "streamflow": flow, "prcp": rng.random(n_rows, np.float32), "temp": rng.random(n_rows, np.float32)}
        images.append(image(pa.table(columns), compression="snappy"))
    for i in range(n_files):
        (directory / f"basin_{i:05}.parquet").write_bytes(images[i % DISTINCT])


def make_pulses(directory, n_files, n_events):
    """Events of a median of a few pulses, ids that rise by 1 to 30 from one to the next, and the table of those chosen."""
    import pyarrow as pa

    rng = np.random.default_rng(6)
    directory.mkdir(parents=True, exist_ok=True)
    chosen = []
    for i in range(n_files):
        lengths = np.minimum(1 + rng.pareto(1.3, n_events).astype(np.int64) * 2, 400)
        ids = (i << 32) + np.cumsum(rng.integers(1, 31, n_events))
        event = np.repeat(ids, lengths)
        charge = rng.random(len(event), np.float32)
        (directory / f"batch_{i:03}.parquet").write_bytes(image(pa.table({"event_id": event, "charge": charge}), row_group_size=1 << 18))
        chosen.append(ids[rng.random(n_events) < 900_000 / 13_200_000])
    np.save(directory / "chosen.npy", np.concatenate(chosen))


def days(directory):
    import forebay as fb

    return fb.open(directory / "*.parquet"), lambda ds: ds.windows(
        365, 7, time="date", step=np.timedelta64(1, "D"), drop_missing="streamflow"
    )


def pulses(directory):
    import forebay as fb

    return fb.open(directory / "batch_*.parquet"), lambda ds: ds.groups("event_id")


def resident_kib(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def step(name, directory):
    """Runs in a process of its own: what it took, as JSON."""
    ds, find = {"days": days, "pulses": pulses, "chosen": pulses}[name](directory)
    if name == "chosen":
        samples, ids = find(ds), np.load(directory / "chosen.npy")
        find = lambda _: samples.select(ids)
    Path("/proc/self/clear_refs").write_text("5")  # the largest resident size is the present one
    before = resident_kib("VmRSS")
    began, cpu = time.perf_counter(), time.process_time()
    found = find(ds)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(json.dumps({"samples": len(found), "seconds": seconds, "cpu": cpu, "grown_mib": (resident_kib("VmHWM") - before) / 1024}))


def run(name, directory, cache):
    environment = {**os.environ, "FOREBAY_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, __file__, "--step", name, "--directory", str(directory)], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def drop_indexes(cache):
    for path in cache.glob("*.fbysamples"):
        path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=11_200, help="days of a basin")
    parser.add_argument("--events", type=int, default=200_000, help="of each of 66 files of pulses")
    parser.add_argument("--fresh", action="store_true", help="make the files anew")
    parser.add_argument("--step", choices=["days", "pulses", "chosen"], help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        step(args.step, args.directory)
        return
    base = common.scratch() / "sample_index"
    basins, events, cache = base / f"days_{args.files}_{args.rows}", base / f"pulses_{args.events}", base / "cache"
    if args.fresh or not (basins / f"basin_{args.files - 1:05}.parquet").exists():
        make_days(basins, args.files, args.rows)
    if args.fresh or not (events / "chosen.npy").exists():
        make_pulses(events, 66, args.events)
    time.sleep(2.5)  # files of the last two seconds are not trusted, so nothing would be kept
    print(common.machine())
    common.warn_when_busy()
    print(f"{'':<44}{'samples':>13}{'seconds':>10}{'CPU s':>10}{'memory MiB':>12}")

    def row(text, result):
        print(f"{text:<44}{result['samples']:>13,}{result['seconds']:>10.3f}{result['cpu']:>10.3f}{result['grown_mib']:>12.1f}", flush=True)

    run("days", basins, cache)  # fills the index of metadata, which is measured elsewhere
    drop_indexes(cache)
    common.drop_page_cache(sorted(basins.glob("*.parquet")))
    row("windows of days, pages dropped", run("days", basins, cache))
    drop_indexes(cache)
    row("windows of days, pages cached", run("days", basins, cache))
    row("windows of days, from the index on disk", run("days", basins, cache))
    run("pulses", events, cache)
    drop_indexes(cache)
    row("groups of pulses, pages cached", run("pulses", events, cache))
    row("groups of pulses, from the index on disk", run("pulses", events, cache))
    row("… some of them, by a list of ids", run("chosen", events, cache))


if __name__ == "__main__":
    main()
