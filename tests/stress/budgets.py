#!/usr/bin/env python3
"""Generated files under budgets from the least that is stated: what each takes, the HDF5 helper program counted.

    tests/stress/budgets.py --files 200 --seed 0     print what went beyond its budget and 64 MiB, or was refused late; exit 1 when something did

Each file is opened, searched for groups, read through Arrow and loaded for an epoch in a process of its own, with a budget of 1 MiB first and then with
the one that the refusal names, until it is accepted. Files are of every type, encoding, codec, nesting and shape of groups; every fifth expands a
thousandfold.
"""
import argparse
import gzip
import json
import pathlib
import random
import subprocess
import sys
import tempfile

SLACK, REFUSED_S = 64 << 20, 0.1

CHILD = """if True:
    import json, os, re, sys, threading, time
    import forebay as fb
    import numpy, pyarrow

    page, me = os.sysconf("SC_PAGESIZE"), os.getpid()

    def resident(pid):
        try:
            return int(open(f"/proc/{pid}/statm").read().split()[1]) * page
        except OSError:
            return 0

    def together():
        return resident(me) + sum(resident(kid) for kid in open(f"/proc/{me}/task/{me}/children").read().split())

    before, peak, over, slowest = together(), [0], threading.Event(), 0.0

    def watch():
        while not over.wait(0.002):
            peak[0] = max(peak[0], together() - before)

    def within(name, work):
        memory = 1 << 20
        for _ in range(20):
            peak[0] = 0
            try:
                work(memory)
                found = [name, memory, peak[0], "fits"]
                done.append(found)
                return
            except fb.BudgetError as error:
                done.append([name, memory, peak[0], "refused"])
                said = re.search(r"(?:raise memory to|needs at least) (\\d+) bytes", str(error))
                memory = max(int(said[1]), memory + 1) if said else 2 * memory
                if memory > 2 << 30:
                    return
            except (fb.Error, ValueError, pyarrow.ArrowException, OSError) as error:
                done.append([name, memory, peak[0], type(error).__name__])
                return

    def scan(memory):
        with fb.open(sys.argv[1], memory=memory, cache_dir="") as ds:
            ds.groups(ds.columns[0])

    def arrow(memory):
        with fb.open(sys.argv[1], memory=memory, cache_dir="") as ds:
            try:
                for _ in pyarrow.RecordBatchReader.from_stream(ds):
                    pass
            except Exception as error:
                raise fb.BudgetError(str(error)) if "memory budget" in str(error) else error

    def load(memory):
        global slowest
        with fb.open(sys.argv[1], cache_dir="") as ds:
            begin = time.perf_counter()
            try:
                loader = ds.loader(batch_size=16, memory=memory, framework="numpy")
            except fb.BudgetError:
                slowest = max(slowest, time.perf_counter() - begin)
                raise
            with loader:
                for _ in loader:
                    pass

    done = []
    threading.Thread(target=watch, daemon=True).start()
    for name, work in (("groups", scan), ("arrow", arrow), ("loader", load)):
        within(name, work)
    over.set()
    print(json.dumps([done, slowest]))
"""


def parquet(rng, path, bomb):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = rng.choice([1, 100, 20_000]) if not bomb else rng.choice([2_000, 1 << 20, 4 << 20])
    long = "x" * rng.choice([20_000, 100_000])
    makers = {
        "i": lambda: np.arange(n) if bomb else np.random.default_rng(1).integers(0, 99, n).astype(rng.choice(["i1", "i2", "i4", "i8", "u4"])),
        "f": lambda: np.zeros(n) if bomb else np.random.default_rng(2).random(n).astype(rng.choice(["f2", "f4", "f8"])),
        "b": lambda: np.arange(n) % 2 == 0,
        "s": lambda: [long if bomb else f"v{i % 50}" for i in range(min(n, 2_000))],
        "d": lambda: pa.array(np.arange(n) % 1000, pa.timestamp("us")),
        "l": lambda: pa.array([[0] * (20_000 if bomb else i % 5) for i in range(min(n, 2_000))], pa.list_(pa.int32())),
        "z": lambda: pa.array([[1.0] * 8] * min(n, 2_000), pa.list_(pa.float32(), 8)),
        "t": lambda: pa.array([{"a": i, "b": [str(i)]} for i in range(min(n, 2_000))]),
    }
    columns = {"k": makers["i"]()}
    for name in rng.sample(sorted(makers), 3):
        columns[name] = makers[name]()
    rows = min(map(len, columns.values()))
    columns = {name: values[:rows] for name, values in columns.items()}
    encodings = {"k": rng.choice(["PLAIN", "DELTA_BINARY_PACKED"]), "s": rng.choice(["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])}
    dictionary = rng.random() < 0.5
    pq.write_table(
        pa.table(columns), path, row_group_size=rng.choice([rows, max(rows // 7, 1)]), use_dictionary=dictionary,
        compression=rng.choice(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]), data_page_version=rng.choice(["1.0", "2.0"]),
        column_encoding=None if dictionary else {name: encodings[name] for name in columns if name in encodings},
    )  # fmt: skip


def hdf5(rng, path, bomb):
    import h5py
    import numpy as np

    rows = rng.choice([100, 5_000]) if not bomb else 1 << 16
    options = rng.choice([{}, {"compression": 4}, {"compression": "lzf"}, {"shuffle": True, "compression": 1}, {"scaleoffset": 3}])
    with h5py.File(path, "w") as f:
        f.create_dataset("k", data=np.arange(rows) // 7, chunks=(min(rows, 1000),))
        shape, chunk = (rows, 32), (rows if bomb else rng.randint(1, rows), 32)
        f.create_dataset("x", shape, rng.choice(["i4", "i8"]), chunks=chunk, **options)[: rows // 2] = 3
        f.create_dataset("s", (rows,), h5py.string_dtype(), data=["y" * (2_000 if bomb else 3)] * rows if rows < 1 << 16 else None)


def csv(rng, path, bomb):
    rows = 2_000 if not bomb else 8 << 20
    line = b"7,0\n" if bomb else b"7,0.5\n"
    with (gzip.open if path.suffix == ".gz" else open)(path, "wb") as f:
        f.write(b"k,x\n")
        f.write(line * rows)


def generate(rng, folder, i):
    bomb = i % 5 == 4
    make, suffix = rng.choice([(parquet, ".parquet"), (parquet, ".parquet"), (hdf5, ".h5"), (csv, ".csv.gz"), (csv, ".csv")])
    path = folder / f"{i:03}{'_bomb' if bomb else ''}{suffix}"
    make(rng, path, bomb)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, wrong, n_fit, most = random.Random(options.seed), [], 0, 0
    for i in range(options.files):
        with tempfile.TemporaryDirectory() as folder:
            path = generate(rng, pathlib.Path(folder), i)
            child = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=600)
            if child.returncode:
                wrong.append(f"{path.name}: exit {child.returncode}: {child.stderr[-400:]}")
                continue
            done, slowest = json.loads(child.stdout)
        for name, memory, peak, how in done:
            n_fit += how == "fits"
            most = max(most, peak - memory)
            if peak > memory + SLACK:
                wrong.append(f"{path.name}: {name} took {peak >> 20} MiB with a budget of {memory >> 20} ({how})")
        if slowest > REFUSED_S:
            wrong.append(f"{path.name}: a loader was refused after {slowest:.2f} s")
    print("\n".join(wrong + [f"{options.files} files, {n_fit} readings fit, at most {most / 2**20:.1f} MiB beyond a budget, {len(wrong)} wrong"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
