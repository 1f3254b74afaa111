"""What this machine can do at best: the ceilings that bench/README.md names, measured with nothing of Forebay in the way.

    bench/ceilings.py [--runs 5]

Copies and random gathers of rows of 256 bytes, page-cache reads, and the codecs' own rate on pages of the table set.
Writes results/ceilings.csv; run.py uses the same functions.
"""
import argparse
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

import common
import make_data

ROW_BYTES = 256  # 64 float32


def c_ceiling(program, what, threads, *arguments, row_bytes=ROW_BYTES):
    line = subprocess.run([str(program), what, "-j", str(threads), "-r", str(row_bytes), *map(str, arguments)], capture_output=True, text=True,
                          check=True).stdout
    return common.keyed(line)["gb_per_s"]


def codec_rate(codec, threads, payload, seconds=0.5):
    """Decoded GB a second of one codec library through pyarrow, which hands whole buffers to it."""
    stored = pa.Codec(codec).compress(payload, asbytes=True)

    def spin(_):
        decoder, n, start = pa.Codec(codec), 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            for _ in range(8):
                decoder.decompress(stored, decompressed_size=len(payload))
            n += 8
        return n * len(payload) / (time.perf_counter() - start)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(spin, range(threads))) / 1e9


def payloads():
    """Bytes as pages of the data sets hold them: packed dictionary indices, and float32 of low entropy."""
    rng = np.random.default_rng(0)
    indices = np.packbits(rng.integers(0, 2, (1 << 20, 8), dtype=np.uint8))  # as random as indices of a shuffled column
    low = (np.round(rng.standard_normal(1 << 18).astype(np.float32) * 8) / np.float32(8)).tobytes()
    return {"dictionary indices": indices.tobytes()[: 1 << 20], "low-entropy float32": low}


def questions(program, files):
    yield "copy, runs of 256 B", lambda t: c_ceiling(program, "copy", t)
    yield "copy, runs of 8 KiB", lambda t: c_ceiling(program, "copy", t, row_bytes=8192)
    yield "gather of random 256-B rows, 64 MB", lambda t: c_ceiling(program, "gather", t)
    yield "gather of random 256-B rows, 512 MB", lambda t: c_ceiling(program, "gather", t, "-m", 512)
    yield "page-cache read, whole files", lambda t: c_ceiling(program, "read", t, *files)
    for name, payload in payloads().items():
        for codec in ("snappy", "zstd"):
            yield f"{codec}, {name}", lambda t, c=codec, p=payload: codec_rate(c, t, p)


def measure(runs):
    """Prints the table; the CSV is the caller's to write."""
    (program,) = common.build_c("bench_ceilings")
    files = make_data.table_files(make_data.table())
    common.warm_page_cache(files)
    table = common.Table("Ceilings: medians, and the spread of the runs",
                         [("what", -38), ("1 thread", 12), ("spread", 7), ("2 threads", 12), ("spread", 7)])
    out = common.Csv("ceilings.csv", ["what", "threads", "gb_per_s_median", "gb_per_s_min", "gb_per_s_max", "runs"])
    for what, rate in questions(program, files):
        values = common.interleave({1: lambda r=rate: r(1), 2: lambda r=rate: r(2)}, runs)
        for threads, v in values.items():
            out.add(what=what, threads=threads, gb_per_s_median=common.median(v), gb_per_s_min=min(v), gb_per_s_max=max(v), runs=runs)
        table.row(what, *(cell for v in values.values() for cell in (f"{common.median(v):.2f} GB/s", f"{common.spread(v):.0%}")))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    print(common.machine(), flush=True)
    common.warn_when_busy()
    measure(runs).write()


if __name__ == "__main__":
    main()
