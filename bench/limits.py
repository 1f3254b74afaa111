#!/usr/bin/env python3
"""Twelve planted bottlenecks: does the report name the one that was planted, after 2 s too, and does its first cure give what it says?

    bench/limits.py              all of them; writes results/limits.csv
    bench/limits.py budget disk  some of them; writes nothing
    bench/limits.py --seconds 4  of steady state for each

Each case says its right limit beforehand, and the first cure that is offered is applied: it must give what it says within 30 %.
Costs are sleeps, as of a program that waits for its GPU, a disk or a network, and data that cost the workers what they cost.
`build/bench` has the program (cmake -DFBY_BUILD_BENCH=ON); it and the data are made where they are missing.
Exits with 1 where a limit or a cure was wrong.
"""

import argparse
import functools
import re
import subprocess
import sys

from common import Csv, build_c, made, scratch, warn_when_busy

# ---- data ----


def parquet(name, columns, rows_per_group, **options):
    import pyarrow as pa
    import pyarrow.parquet as pq

    def make(path):
        pq.write_table(pa.table(columns()), path, row_group_size=rows_per_group, **{"use_dictionary": False, **options})

    return f"{name}.parquet", make


def numbers(n, width, kind="f4", decimals=None):
    import numpy as np

    def columns():
        rng = np.random.default_rng(1)
        values = (1e6 * rng.standard_normal((width, n)) if kind == "i4" else rng.standard_normal((width, n))).astype(kind)
        return {f"c{i}": values[i] if decimals is None else values[i].round(decimals) for i in range(width)}

    return columns


def tiny_chunks(path):
    import h5py
    import numpy as np

    values = np.random.default_rng(1).standard_normal((800_000, 4)).astype("f4")
    with h5py.File(path, "w", libver="latest") as file:  # whose index of chunks is written in seconds
        file.create_dataset("x", data=values, chunks=(2, 4), shuffle=True)


def heavy_tail():
    import numpy as np

    rng = np.random.default_rng(1)
    lengths = np.minimum(np.exp(rng.normal(2.0, 1.6, 40_000)).astype(int) + 1, 4_000)
    return {"event": np.repeat(np.arange(len(lengths)), lengths), **{f"c{i}": rng.standard_normal(lengths.sum()).astype("f4") for i in range(8)}}


DATA = {
    "plain": parquet("plain", numbers(3_000_000, 16), 20_000, compression="none"),
    "heavy": parquet("heavy", numbers(600_000, 16, decimals=2), 20_000, compression="brotli", compression_level=9),
    "coded": parquet("delta", numbers(2_000_000, 16, kind="i4"), 20_000, compression="none", column_encoding="DELTA_BINARY_PACKED"),
    "light": parquet("light", numbers(600_000, 16, decimals=2), 20_000, compression="lz4"),
    "huge": parquet("huge", numbers(4_000_000, 16, decimals=2), 250_000, compression="zstd"),
    "tiny": ("tiny.h5", tiny_chunks),
    "ragged": parquet("ragged", heavy_tail, 40_000, compression="none"),
}


def data(name):
    file, make = DATA[name]
    folder = scratch() / "limits"
    folder.mkdir(exist_ok=True)
    return made(folder / file, make)


# ---- cases: name, the right limit, data, settings ----

MIB = 1 << 20
MARGIN = 0.3  # of a cure's predicted factor
CASES = [
    ("disk", "storage", "plain", {"memory": 32 * MIB, "superbatch": 100_000, "delay_us": 20_000, "work_us": 100}),
    ("codec", "decompress", "heavy", {"memory": 32 * MIB, "superbatch": 100_000, "batch": 4_096, "work_us": 100}),
    ("tiny-chunks", "decode", "tiny", {"memory": -1, "superbatch": 100_000, "batch": 32_768}),
    ("one-thread", "threads", "huge", {"memory": -1, "superbatch": 200_000, "threads": 1, "batch": 32_768}),
    ("budget", "memory", "huge", {"memory": -1, "superbatch": 250_000, "batch": 16_384, "share": 1.2}),
    ("transform", "transform", "plain", {"memory": 64 * MIB, "superbatch": 100_000, "transform_us": 4_000, "work_us": 1_000}),
    ("transfer", "transfer", "plain", {"memory": 64 * MIB, "superbatch": 100_000, "transfer_us": 4_000, "work_us": 1_000}),
    ("model", "model", "plain", {"memory": 64 * MIB, "superbatch": 100_000, "work_us": 5_000}),
    ("no-work", "decode", "coded", {"memory": 40 * MIB, "superbatch": 100_000, "batch": 8_192}),
    ("cold-then-cached", "model", "plain", {"delay_us": 40_000, "work_us": 500, "batch": 4_096}),
    ("heavy-tail", "assemble", "ragged", {"group": "event", "batch": 256, "memory": 1024 * MIB}),
    ("balanced", "balanced", "heavy", {"memory": 48 * MIB, "superbatch": 100_000, "batch": 4_096, "share": 0.85}),
]


@functools.cache
def program():
    return build_c("bench_limits")[0]


def run(name, settings, seconds):
    done = subprocess.run([program(), data(name), f"seconds={seconds}", *(f"{key}={value}" for key, value in settings.items())], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    figures = {"cures": []}
    for line in done.stdout.splitlines():
        key, value = line.split(" ", 1)
        if key == "cure":
            factor, rate, change = value.split(" ", 2)
            figures["cures"].append((float(factor), float(rate), change))
        else:
            figures[key] = value
    return figures


def minimum(name, settings):
    """The smallest budget that would do."""
    return int(run(name, {**settings, "memory": 0, "work_us": 0}, 1)["minimum"])


def applied(change, name, settings):
    """(data, settings) with a cure."""
    units = {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}
    if match := re.fullmatch(r"memory=([\d.]+)([KMG]iB)", change):
        return name, {**settings, "memory": int(float(match[1]) * units[match[2]])}
    if match := re.fullmatch(r"(threads|superbatch)=(\d+)", change):
        return name, {**settings, match[1]: int(match[2])}
    if match := re.fullmatch(r"bucket_samples=(\d+)", change):
        return name, {**settings, "buckets": int(match[1])}
    if match := re.fullmatch(r"a transform of ([\d.e+-]+) ms .*", change):
        return name, {**settings, "transform_us": round(1000 * float(match[1]))}
    if change == "move batches to the device in transform=":
        return name, {**settings, "beside": 1}
    if change == "forebay pack PATH --to DIR --codec lz4":
        return {"heavy": "light"}[name], settings
    raise ValueError(f"what is {change!r}?")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(case[0] for case in CASES))
    parser.add_argument("--seconds", type=int, default=4, metavar="S", help="of steady state for each (default: 4)")
    options = parser.parse_args()
    warn_when_busy()
    rows = []
    results = Csv("limits.csv", ["case", "planted", "limit", "limit_after_2_s", "confidence", "samples_per_s", "right", "cure", "factor_predicted",
                                 "factor_found", "off", "cured"])  # fmt: skip
    for case, right, name, settings in CASES:
        if options.cases and case not in options.cases:
            continue
        settings = dict(settings)
        share = settings.pop("share", None)
        if settings.get("memory") == -1:
            settings["memory"] = minimum(name, settings)
        if share:
            alone = float(run(name, settings, options.seconds)["samples_per_second"])
            settings["work_us"] = round(share * 1e6 * settings.get("batch", 1024) / alone)
        found = run(name, settings, options.seconds)
        row = {"case": case, "planted": right, "limit": found["limit"], "limit_after_2_s": found["early_limit"], "confidence": found["confidence"],
               "samples_per_s": found["samples_per_second"], "right": found["limit"] == right == found["early_limit"]}
        if found["cures"]:
            factor, rate, change = found["cures"][0]
            cured = run(*applied(change, name, settings), options.seconds)
            gain = float(cured["samples_per_second"]) / float(found["samples_per_second"])
            row |= {"cure": change, "factor_predicted": f"{factor:.2f}", "factor_found": f"{gain:.2f}", "off": f"{gain / factor - 1:+.0%}",
                    "cured": abs(gain / factor - 1) <= MARGIN}  # fmt: skip
        rows.append(row)
        results.add(**row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        print("    " + found["reason"], flush=True)
    if not options.cases:
        results.write()
    return 0 if all(row["right"] and row.get("cured", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
