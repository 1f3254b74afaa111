#!/usr/bin/env python3
"""Generated files under budgets from the least that is stated: what each takes, the HDF5 helper program counted.

    tests/stress/budgets.py --files 200 --seed 0     print what went beyond its budget and 64 MiB, or was refused late; exit 1 when something did
    tests/stress/budgets.py --limit                  the same while the address space of the process ends there: nothing may be killed
    tests/stress/budgets.py --cgroup                 the same in a control group with that limit, helper included (v1, as root): nothing may be killed

Each file is searched for groups, looked up in, fitted, read whole and through Arrow, and loaded for an epoch by rows and by groups, in batches
of 16 and of up to all of them, in a process of its own: with a budget of 1 MiB first, then with the one that the refusal names, until it is
accepted, and then with more. budget_files.py makes the files.

A loader that its metadata show not to fit is refused by the call that would make it, within 0.1 s of CPU time (wall time, which other processes
add to, is printed beside it). Opening the data set before that may take longer, and what only reading shows is refused when it is read.
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

SLACK = 64 << 20

CHILD = """if True:
    import ctypes, gc, json, os, re, resource, sys, time
    import forebay as fb
    import numpy, pyarrow

    page, me, path, slack, group = os.sysconf("SC_PAGESIZE"), os.getpid(), sys.argv[1], int(sys.argv[2]), sys.argv[3]
    pyarrow.table({"x": [1]}), pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("x", pyarrow.int64())]), []).read_all()

    def status(pid, field):
        try:
            return next((int(line.split()[1]) << 10 for line in open(f"/proc/{pid}/status") if line.startswith(field)), 0)
        except OSError:
            return 0

    def everyone():
        return [me, *map(int, open(f"/proc/{me}/task/{me}/children").read().split())]

    def together(field):
        return sum(status(pid, field) for pid in everyone())

    def forget_peaks():
        for pid in everyone():
            try:
                open(f"/proc/{pid}/clear_refs", "w").write("5")
            except OSError:
                pass

    trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)
    slowest, done = (0.0, 0.0), []

    def clocks():
        return time.process_time(), time.perf_counter()

    def limit_group(bytes):
        for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes")[:: 1 if bytes < 0 else -1]:
            if os.path.exists(f"{group}/{name}"):
                open(f"{group}/{name}", "w").write(str(bytes))

    def once(name, work, memory):
        global slowest
        gc.collect()
        trim(0)  # what was freed is the system's again
        forget_peaks()
        before = together("VmRSS")
        if group:
            limit_group(before + memory + slack)
        elif slack:
            size = int(open("/proc/self/statm").read().split()[0]) * page
            resource.setrlimit(resource.RLIMIT_AS, (size + memory + slack, resource.RLIM_INFINITY))
        error, how, asked[0], refused = "", "fits", None, (0.0, 0.0)
        try:
            work(memory)
        except fb.BudgetError as caught:
            error, how = str(caught), "refused"
            if asked[0]:
                refused = tuple(now - then for now, then in zip(clocks(), asked[0]))
        except (fb.Error, ValueError, pyarrow.ArrowException, OSError, MemoryError) as caught:
            error, how = str(caught), type(caught).__name__
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if group:
            limit_group(-1)
        slowest = max(slowest, refused)
        done.append([name, memory, together("VmHWM") - before, how, error[:300]])
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

    def load(samples, memory, share):
        forget_peaks()  # finding samples has a budget of its own
        asked[0] = clocks()
        loader = samples.loader(batch_size=max(16, int(share * len(samples))), memory=memory, framework="numpy")
        asked[0] = None  # what only reading shows is refused when it is read
        with loader:
            batches = iter(loader)
            for _ in range(4000):
                if next(batches, None) is None:  # a batch that is kept is the program's, beyond the budget
                    break

    def rows(share):
        def run(memory):
            with fb.open(path, cache_dir="") as ds:
                load(ds.rows(), memory, share)
        return run

    def groups(share):
        def run(memory):
            with fb.open(path, cache_dir="") as ds:
                load(ds.groups("k"), memory, share)
        return run

    asked = [None]
    for name, work in (
        ("groups", opened(lambda ds: ds.groups("k"))), ("take", opened(lambda ds: ds.rows().limit(0.5, random=True))),
        ("lookup", opened(lambda ds: fb.Lookup(ds, "k", first_wins=True))), ("fit", opened(lambda ds: fb.fit(ds, "k", by="k"))),
        ("read", opened(lambda ds: ds.read(["k"]))), ("arrow", opened(arrow)), ("rows", rows(0)), ("batches of groups", groups(0)),
        ("a fifth of the rows", rows(0.2)), ("all rows", rows(1)), ("all groups", groups(1)),
    ):
        within(name, work)
    print(json.dumps([done, slowest]))
"""


def small_stacks():
    """Threads reserve their stacks, which count as address space."""
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY))


MEMORY = pathlib.Path("/sys/fs/cgroup/memory")


def control_group():
    """A group of its own for a child, or why there is none."""
    if not (MEMORY / "memory.limit_in_bytes").exists():
        return None, f"there is no memory controller of version 1 at {MEMORY}"
    group = MEMORY / f"forebay-budgets-{os.getpid()}"
    try:
        group.mkdir(exist_ok=True)
    except OSError as error:
        return None, f"no control group can be made: {error}"
    return group, ""


def killed(group):
    counts = dict(line.split() for line in (group / "memory.oom_control").read_text().splitlines())
    return int(counts.get("oom_kill", 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="begin with this file: all before are made, and not read")
    parser.add_argument("--refused-s", type=float, default=0.1, help="the CPU time that a call which refuses a loader may take")
    parser.add_argument("--limit", action="store_true", help="end the address space of the process at the budget and 64 MiB")
    parser.add_argument("--cgroup", action="store_true", help="run in a control group whose limit is the budget and 64 MiB")
    options = parser.parse_args()
    group, why = control_group() if options.cgroup else (None, "")
    if why:
        print(f"skipped: {why}")
        return 0
    limited = options.limit or group is not None

    def begin():
        if options.limit:
            small_stacks()
        if group:
            (group / "cgroup.procs").write_text("0")

    wrong, counts, most = [], {}, 0
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} if options.limit else None
    for i in range(options.first, options.files):
        rng = random.Random(f"{options.seed}/{i}")
        with tempfile.TemporaryDirectory() as folder:
            path = budget_files.generate(rng, pathlib.Path(folder), i)
            child = subprocess.run([sys.executable, "-c", CHILD, str(path), str(SLACK if limited else 0), str(group or "")], capture_output=True,
                                   text=True, timeout=1800, env=environment, preexec_fn=begin)  # fmt: skip
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
        cpu_s, wall_s = slowest
        if cpu_s > options.refused_s:
            wrong.append(f"{path.name}: a loader was refused after {cpu_s:.2f} s of CPU time, {wall_s:.2f} s in all")
        beyond = max(peak - memory for _, memory, peak, *_ in done) / 2**20
        refused = f"refused in {cpu_s:.3f} s of CPU time, {wall_s:.3f} in all"
        print(f"{path.name}: {len(done)} readings, at most {beyond:.1f} MiB beyond, {refused}", flush=True)
    if group:
        if killed(group):
            wrong.append(f"{killed(group)} processes were killed")
        group.rmdir()
    readings = ", ".join(f"{n} {how}" for how, n in sorted(counts.items()))
    wrong_all = f"{options.files - options.first} files, readings: {readings}; at most {most / 2**20:.1f} MiB beyond a budget, {len(wrong)} wrong"
    print("\n".join([*wrong, wrong_all]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
