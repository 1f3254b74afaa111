#!/usr/bin/env python3
"""Generated files under budgets from the least that is stated: what each takes, the HDF5 helper program counted.

    tests/stress/budgets.py --files 200 --seed 0     print what went beyond its budget and 64 MiB, or was refused late; exit 1 when something did
    tests/stress/budgets.py --limit                  the same while the address space of the process ends there: nothing may be killed

Each file is searched for groups, looked up in, fitted, read whole and through Arrow, and loaded for an epoch by rows and by groups, in a process of its own:
with a budget of 1 MiB first, then with the one that the refusal names, until it is accepted, and then with more. budget_files.py makes the files.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

import budget_files

SLACK, REFUSED_S = 64 << 20, 0.1

CHILD = """if True:
    import json, os, re, resource, sys, threading, time
    import forebay as fb
    import numpy, pyarrow

    page, me, path, slack = os.sysconf("SC_PAGESIZE"), os.getpid(), sys.argv[1], int(sys.argv[2])
    pyarrow.table({"x": [1]}), pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("x", pyarrow.int64())]), []).read_all()

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

    def once(name, work, memory):
        peak[0] = 0
        if slack:
            size = int(open("/proc/self/statm").read().split()[0]) * page
            resource.setrlimit(resource.RLIMIT_AS, (size + memory + slack, resource.RLIM_INFINITY))
        error, how = "", "fits"
        try:
            work(memory)
        except fb.BudgetError as caught:
            error, how = str(caught), "refused"
        except (fb.Error, ValueError, pyarrow.ArrowException, OSError, MemoryError) as caught:
            error, how = str(caught), type(caught).__name__
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        done.append([name, memory, peak[0], how, error[:300]])
        return how, error

    def within(name, work):
        memory = 1 << 20
        for _ in range(20):
            how, error = once(name, work, memory)
            if how == "fits":
                for more in (5 * memory // 4, 2 * memory):
                    once(name, work, more)
            if how != "refused":
                return
            said = re.search(r"(?:raise memory to|needs at least) (\\d+) bytes", error)
            memory = max(int(said[1]), memory + 1) if said else 2 * memory
            if memory > 2 << 30:
                return

    def opened(work):
        def run(memory):
            with fb.open(path, memory=memory, cache_dir="") as ds:
                work(ds)
        return run

    def arrow(ds):
        try:
            for _ in pyarrow.RecordBatchReader.from_stream(ds):
                pass
        except Exception as error:
            raise fb.BudgetError(str(error)) if "memory budget" in str(error) else error

    def load(ds, samples, memory):
        global slowest
        begin = time.perf_counter()
        try:
            loader = samples.loader(batch_size=16, memory=memory, framework="numpy")
        except fb.BudgetError:
            slowest = max(slowest, time.perf_counter() - begin)
            raise
        with loader:
            for i, _ in enumerate(loader):
                if i == 4000:
                    break

    def rows(memory):
        with fb.open(path, cache_dir="") as ds:
            load(ds, ds.rows(), memory)

    def groups(memory):
        with fb.open(path, cache_dir="") as ds:
            load(ds, ds.groups("k"), memory)

    done = []
    threading.Thread(target=watch, daemon=True).start()
    for name, work in (
        ("groups", opened(lambda ds: ds.groups("k"))), ("take", opened(lambda ds: ds.rows().limit(0.5, random=True))),
        ("lookup", opened(lambda ds: fb.Lookup(ds, "k", first_wins=True))), ("fit", opened(lambda ds: fb.fit(ds, "k", by="k"))),
        ("read", opened(lambda ds: ds.read(["k"]))), ("arrow", opened(arrow)), ("rows", rows), ("batches of groups", groups),
    ):
        within(name, work)
    over.set()
    print(json.dumps([done, slowest]))
"""


def small_stacks():
    """Threads reserve their stacks, which count as address space."""
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="begin with this file: all before are made, and not read")
    parser.add_argument("--limit", action="store_true", help="end the address space of the process at the budget and 64 MiB")
    options = parser.parse_args()
    wrong, counts, most = [], {}, 0
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} if options.limit else None
    for i in range(options.first, options.files):
        rng = random.Random(f"{options.seed}/{i}")
        with tempfile.TemporaryDirectory() as folder:
            path = budget_files.generate(rng, pathlib.Path(folder), i)
            child = subprocess.run([sys.executable, "-c", CHILD, str(path), str(SLACK if options.limit else 0)], capture_output=True, text=True,
                                   timeout=1800, env=environment, preexec_fn=small_stacks if options.limit else None)  # fmt: skip
        if child.returncode:
            wrong.append(f"{path.name}: exit {child.returncode}: {child.stderr[-400:]}")
            print(wrong[-1], flush=True)
            continue
        done, slowest = json.loads(child.stdout)
        for name, memory, peak, how, error in done:
            counts[how] = counts.get(how, 0) + 1
            most = max(most, peak - memory)
            if peak > memory + SLACK:
                wrong.append(f"{path.name}: {name} took {peak / 2**20:.1f} MiB with a budget of {memory / 2**20:.1f} ({how})")
            if how not in ("fits", "refused"):
                print(f"{path.name}: {name}, {memory / 2**20:.1f} MiB: {how}: {error}")
        if slowest > REFUSED_S:
            wrong.append(f"{path.name}: a loader was refused after {slowest:.2f} s")
        print(f"{path.name}: {len(done)} readings, at most {max(peak - memory for _, memory, peak, *_ in done) / 2**20:.1f} MiB beyond", flush=True)
    readings = ", ".join(f"{n} {how}" for how, n in sorted(counts.items()))
    wrong_all = f"{options.files - options.first} files, readings: {readings}; at most {most / 2**20:.1f} MiB beyond a budget, {len(wrong)} wrong"
    print("\n".join([*wrong, wrong_all]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
