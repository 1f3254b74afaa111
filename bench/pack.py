#!/usr/bin/env python3
"""Packs: how fast they load beside what is written by hand, and how fast they are made beside those that shuffle files too.

    bench/pack.py [load shuffle] [--runs 5]          both by default; writes results/pack_load.csv and results/pack_shuffle.csv

load      a float32 matrix of 512 MB with rows of 64, 256 and 1,024 values, page cache warm, batches of 1,024 in full random order: Forebay over the
          pack, and a NumPy memory map with `take` in the training loop, or in a thread a core. The ceiling: such rows gathered from the mapped matrix
          by a C program on all cores, which neither decides which rows come nor hands them to anybody: of short rows that is most of the rest.
shuffle   a global shuffle of ten times the memory allowed, Parquet to Parquet; the bound: all bytes read twice and written twice by the disk as it
          was measured. Beside it DuckDB's ORDER BY random(), Hugging Face's shuffle().flatten_indices() and Ray Data, where they are installed; what takes
          six times as long as Forebay did first is stopped then.

A contestant runs in a process of its own: `bench/pack.py --one NAME …`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import common

VALUES, WIDTHS, WIDTH, BATCH = 128_000_000, (64, 256, 1024), 64, 1024
MIB = 1 << 20
ROW_GROUP = 20_000
SHUFFLED_ROWS = 8_000_000  # × 64 float32: 2 GiB
MEMORY = SHUFFLED_ROWS * WIDTH * 4 // 10
PATIENCE = 6  # times Forebay's time


# ---- data ----


def scratch():
    folder = common.scratch() / "pack"
    folder.mkdir(exist_ok=True)
    return folder


def matrix(width):
    def make(path):
        np.save(open(path, "wb"), np.random.default_rng(1).standard_normal((VALUES // width, width), np.float32))

    return common.made(scratch() / f"x{width}.npy", make)


def packed(width):
    import forebay as fb

    folder = scratch() / f"packed{width}"
    if not (folder / "_pack.json").exists():
        fb.pack(fb.open({"x": np.load(matrix(width), mmap_mode="r")}), folder, seed=1)
    return folder


def table():
    """Files of incompressible floats, as large on disk as in memory: what a shuffle moves, not what a codec does."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def make(folder):
        folder.mkdir()
        for i in range(8):
            values = np.random.default_rng(i).standard_normal((WIDTH, SHUFFLED_ROWS // 8), np.float32)
            pq.write_table(pa.table({f"f{c:02d}": column for c, column in enumerate(values)}), folder / f"part-{i}.parquet", row_group_size=ROW_GROUP,
                           use_dictionary=False, compression="none")  # fmt: skip

    return common.made(scratch() / "table", make)


# ---- loading: contestants ----


def load_forebay(width):
    import forebay as fb

    samples = fb.open(packed(width), immutable=True, io="mmap").rows()
    with samples.loader({"x": "x"}, batch_size=BATCH, shuffle="full", seed=1, memory=1024 * MIB, framework="numpy") as loader:
        while True:
            yield from (batch["x"] for batch in loader)


def orders(n):
    rng = np.random.default_rng(1)
    while True:
        order = rng.permutation(n)
        yield from (order[i : i + BATCH] for i in range(0, n, BATCH))


def load_take(width):
    x = np.load(matrix(width), mmap_mode="r")
    for rows in orders(len(x)):
        yield x.take(rows, axis=0)


def load_take_threads(width):
    import collections
    from concurrent.futures import ThreadPoolExecutor

    x = np.load(matrix(width), mmap_mode="r")
    cores = common.cpus()
    with ThreadPoolExecutor(cores) as pool:
        ahead = collections.deque()
        for rows in orders(len(x)):
            ahead.append(pool.submit(x.take, rows, axis=0))
            if len(ahead) > 4 * cores:
                yield ahead.popleft().result()


def load_rate(make, width, seconds):
    """Rows a second, after a second of warm-up."""
    begin, rows, started = time.perf_counter(), 0, None
    for batch in make(width):
        if batch.shape[1:] != (width,) or len(batch) > BATCH:
            raise ValueError(f"a batch of {batch.shape}")
        now = time.perf_counter()
        if started is None:
            if now - begin > 1:
                started = now
            continue
        rows += len(batch)
        if now - started > seconds:
            return {"rows_per_s": rows / (now - started)}


# ---- shuffling: contestants, each from a folder of Parquet files to another ----


def shuffle_forebay(source, to):
    import forebay as fb

    fb.pack(source, to, seed=1, format="parquet", codec="none", batch=ROW_GROUP, memory=MEMORY, progress=False)


def shuffle_duckdb(source, to):
    import duckdb

    connection = duckdb.connect(str(to) + ".db")
    connection.execute(f"SET memory_limit = '{MEMORY // MIB}MiB'; SET temp_directory = '{to}.tmp'; SET preserve_insertion_order = true")
    connection.execute(f"COPY (SELECT * FROM '{source}/*.parquet' ORDER BY random()) TO '{to}' (FORMAT parquet, COMPRESSION uncompressed, "
                       f"ROW_GROUP_SIZE {ROW_GROUP})")  # fmt: skip


def shuffle_huggingface(source, to):
    os.environ["HF_HUB_OFFLINE"], os.environ["HF_DATASETS_CACHE"] = "1", str(to) + ".cache"
    import datasets

    datasets.disable_progress_bars()
    files = sorted(map(str, Path(source).glob("*.parquet")))
    data = datasets.load_dataset("parquet", data_files=files, split="train").shuffle(seed=1).flatten_indices(num_proc=os.cpu_count())
    data.to_parquet(str(to))


def shuffle_ray(source, to):
    import ray

    ray.init(object_store_memory=MEMORY, logging_level="error")
    ray.data.read_parquet(str(source)).random_shuffle(seed=1).write_parquet(str(to))


ONE = {name: value for name, value in globals().items() if name.startswith(("load_", "shuffle_")) and name != "load_rate"}


def one(name, seconds, source, to):
    try:
        if name.startswith("load_"):
            result = load_rate(ONE[name], int(source), seconds)
        else:
            begin = time.perf_counter()
            ONE[name](source, to)
            os.sync()
            result = {"seconds": time.perf_counter() - begin}
    except ImportError as error:
        result = {"skipped": f"{error.name} is not installed"}
    print(json.dumps(result))


def contestant(name, *, seconds=0, source="", to="", python=sys.executable, timeout=900):
    """What one contestant says, with the largest memory that it and its children held; of one that is stopped, the seconds until then."""
    before = time.perf_counter()
    command = [python, __file__, "--one", name, str(seconds), str(source), str(to)]
    peak = 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:  # nobody would empty pipes while it runs
        process = subprocess.Popen(command, stdout=out, stderr=err, text=True, start_new_session=True)
        while process.poll() is None and time.perf_counter() - before < timeout:
            peak = max(peak, group_rss(process.pid))
            time.sleep(0.02)
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
            return {"seconds": timeout, "peak": peak, "stopped": True}
        out.seek(0)
        err.seek(0)
        return {**common.result_in(out.read(), err.read()), "peak": peak}


def group_rss(session):
    """Private memory (not mapped files) of all processes of a session, in bytes."""
    total = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.getsid(int(entry)) == session:
                    total += int(next(line for line in open(f"/proc/{entry}/status") if line.startswith("RssAnon")).split()[1]) << 10
            except (OSError, StopIteration):
                pass
    return total


# ---- the two questions ----


def load(runs, seconds):
    out = common.Csv("pack_load.csv", ["row_bytes", "loader", "rows_per_s_median", "spread", "forebay_ratio", "runs"])
    for width in WIDTHS:
        load_rows(width, runs, seconds, out)
    out.write()


def load_rows(width, runs, seconds, out):
    folder = packed(width)
    common.warm_page_cache([matrix(width), *folder.glob("*.arrow")])
    (program,) = common.build_c("bench_ceilings")
    cores = common.cpus()

    def gather():
        command = [str(program), "gather", "-j", str(cores), "-r", str(4 * width), str(matrix(width))]
        line = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {"rows_per_s": common.keyed(line)["gb_per_s"] * 1e9 / (4 * width)}

    loaders = {name: lambda n=name: contestant(n, seconds=seconds, source=width) for name in ONE if name.startswith("load_")}
    found = common.interleave({"ceiling": gather, **loaders}, runs)
    for name in loaders:
        if "skipped" in found[name][0]:
            raise SystemExit(f"{name}: {found[name][0]['skipped']}")
    shown = common.Table(f"Loading a pack: {VALUES // width:,} rows of {4 * width:,} bytes, full shuffle, warm",
                         [("loader", -42), ("rows/s", 9), ("spread", 7), ("Forebay is", 11)])  # fmt: skip
    names = {"ceiling": f"gather of random rows in C, {cores} threads", "load_forebay": "forebay, pack mapped",
             "load_take": "NumPy memory map, take in the loop", "load_take_threads": f"NumPy memory map, take in {cores} threads"}  # fmt: skip
    ours = [result["rows_per_s"] for result in found["load_forebay"]]
    for name, results in found.items():
        rates = [result["rows_per_s"] for result in results]
        ratio = common.median([a / b for a, b in zip(ours, rates)])
        shown.row(names[name], common.si(common.median(rates)), f"{common.spread(rates):.0%}", f"{ratio:.2f}×")
        out.add(row_bytes=4 * width, loader=names[name], rows_per_s_median=common.median(rates), spread=common.spread(rates), forebay_ratio=ratio, runs=runs)


def disk_rate(folder):
    """GB a second of writing and of reading 1 GiB, synced and from a page cache that has forgotten it."""
    path, block = folder / "probe", np.random.default_rng(1).bytes(16 * MIB)
    begin = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for _ in range(64):
            file.write(block)
        os.fsync(file.fileno())
    written = time.perf_counter() - begin
    common.drop_page_cache([path])
    begin = time.perf_counter()
    common.warm_page_cache([path])
    read = time.perf_counter() - begin
    path.unlink()
    return {"write": 1024 * MIB / written, "read": 1024 * MIB / read}


def shuffle(runs):
    source = table()
    files = sorted(source.glob("*.parquet"))
    size = sum(file.stat().st_size for file in files)
    target = source.with_name("shuffled")

    patience = 900

    def run(name, python):
        nonlocal patience
        common.drop_page_cache(files)
        shutil.rmtree(target, ignore_errors=True)
        try:
            got = contestant(name, source=source, to=target, python=python, timeout=patience)
            if name == "shuffle_forebay" and patience == 900:
                patience = PATIENCE * got["seconds"]
            return got
        finally:
            for path in target.parent.glob(target.name + "*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def bound():
        disk = disk_rate(source.parent)
        return {"seconds": 2 * size / disk["write"] + 2 * size / disk["read"], "peak": 0}

    pythons = {"shuffle_huggingface": common.rival_python(), "shuffle_ray": common.rival_python()}
    tools = {name: lambda n=name: run(n, pythons.get(n, sys.executable)) for name in ONE if name.startswith("shuffle_")}
    found = common.interleave({"bound": bound, **tools}, runs)
    out = common.Csv("pack_shuffle.csv", ["tool", "seconds_median", "spread", "peak_mib", "forebay_ratio", "runs", "note"])
    shown = common.Table(f"Shuffling {size / MIB:,.0f} MiB of Parquet with {MEMORY // MIB} MiB",
                         [("tool", -36), ("s", 7), ("spread", 7), ("peak MiB", 9), ("Forebay is", 11)])  # fmt: skip
    names = {"bound": "the disk: read twice, written twice", "shuffle_forebay": "forebay pack", "shuffle_duckdb": "DuckDB, ORDER BY random()",
             "shuffle_huggingface": "Hugging Face, flatten_indices", "shuffle_ray": "Ray Data, random_shuffle"}  # fmt: skip
    ours = [result["seconds"] for result in found["shuffle_forebay"]]
    for name, results in found.items():
        if "skipped" in results[0]:
            shown.row(names[name], results[0]["skipped"])
            out.add(tool=names[name], note=results[0]["skipped"])
            continue
        times, peak = [result["seconds"] for result in results], max(result["peak"] for result in results) / MIB
        ratio = common.median([b / a for a, b in zip(ours, times)])
        more = "> " if any(result.get("stopped") for result in results) else ""
        shown.row(names[name], f"{more}{common.median(times):.1f}", f"{common.spread(times):.0%}", f"{peak:,.0f}", f"{more}{ratio:.2f}×")
        out.add(tool=names[name], seconds_median=common.median(times), spread=common.spread(times), peak_mib=round(peak), forebay_ratio=ratio, runs=runs,
                note="stopped then" if more else "")
    out.write()


def main():
    if sys.argv[1:2] == ["--one"]:
        return one(sys.argv[2], float(sys.argv[3]), *sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="load, shuffle")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    print(f"{common.machine()}; commit {common.commit()}", flush=True)
    common.warn_when_busy()
    if not options.what or "load" in options.what:
        load(options.runs, options.seconds)
    if not options.what or "shuffle" in options.what:
        shuffle(options.runs)


if __name__ == "__main__":
    main()
