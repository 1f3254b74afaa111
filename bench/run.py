"""The benchmarks of bench/README.md, side by side with the rivals. Prints tables as it goes, writes results/*.csv, then report.py.

    bench/run.py [--quick] [ceilings decode batches busy roofline scaling small
                           hdf5 hdf5_plain hdf5_cells hdf5_index operations]               which questions; all by default

--quick: three short runs instead of five longer ones, the fastest rivals only; its results are not written.
Rivals that need packages of their own run in the environment that bench/setup.sh makes, and are left out, with the reason, without it.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ceilings
import common
import hdf5
import make_data
import operations

MIB = 1 << 20


class Settings:
    """What --quick changes."""

    def __init__(self, quick):
        self.quick = quick
        self.runs = 3 if quick else 5
        self.seconds = 1.0 if quick else 2.5
        self.decode_seconds = 0.4 if quick else 1.0


def rates(results, key="rows_per_s"):
    return [r[key] for r in results if key in r]


# ---- (a) decode alone ----

PYARROW_DECODE = r"""
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
import pyarrow as pa, pyarrow.parquet as pq
path, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
data = pa.py_buffer(open(path, "rb").read())
def spin(_):
    file, values, start = pq.ParquetFile(pa.BufferReader(data)), 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for group in range(file.num_row_groups):
            for batch in file.read_row_group(group, use_threads=False).to_batches():
                values += batch.to_tensor(null_to_nan=True, row_major=True).size
    return values / (time.perf_counter() - start)
spin(0) if seconds > 0.5 else None
with ThreadPoolExecutor(threads) as pool:
    print(json.dumps({"values_per_s": sum(pool.map(spin, range(threads)))}))
"""


def decode(settings):
    """Row groups to float32 rows, bytes in memory, at 1 and 2 threads: bench_decode against pyarrow's to_tensor."""
    folder = make_data.decode()
    (program,) = common.build_c("bench_decode")

    def ours(path, threads):
        # Threads that share nothing are processes here: each decodes the whole file on its own.
        with ThreadPoolExecutor(threads) as pool:
            lines = list(pool.map(lambda _: subprocess.run([str(program), str(path)], capture_output=True, text=True, check=True).stdout,
                                  range(threads)))
        return {"values_per_s": sum(decode_rate(common.keyed(line)) for line in lines)}

    def theirs(path, threads):
        line = subprocess.run([sys.executable, "-c", PYARROW_DECODE, str(path), str(threads), str(settings.decode_seconds)],
                              capture_output=True, text=True, check=True).stdout
        return json.loads(line)

    table = common.Table("(a) Decode alone, to float32 rows, file in memory: million values a second",
                         [("case", -46), ("threads", 7), ("forebay", 8), ("pyarrow", 8), ("ratio", 6), ("goal", 5), ("spread", 7), ("", 4)])
    out = common.Csv("decode.csv", ["case", "threads", "forebay_mvalues_per_s_median", "forebay_mvalues_per_s_min", "forebay_mvalues_per_s_max",
                                    "pyarrow_mvalues_per_s_median", "ratio", "goal_ratio", "runs", "passed"])
    for name, (what, goal) in make_data.DECODE_CASES.items():
        path = folder / f"{name}.parquet"
        for threads in (1, 2):
            got = common.interleave({"ours": lambda: ours(path, threads), "theirs": lambda: theirs(path, threads)}, settings.runs)
            a, b = (rates(got[k], "values_per_s") for k in ("ours", "theirs"))
            ratio = common.median(a) / common.median(b)
            table.row(what, threads, f"{common.median(a) / 1e6:.0f}", f"{common.median(b) / 1e6:.0f}", f"{ratio:.2f}", f"{goal:.1f}",
                      f"{common.spread(a):.0%}", common.verdict(ratio >= goal))
            out.add(case=what, threads=threads, forebay_mvalues_per_s_median=common.median(a) / 1e6, forebay_mvalues_per_s_min=min(a) / 1e6,
                    forebay_mvalues_per_s_max=max(a) / 1e6, pyarrow_mvalues_per_s_median=common.median(b) / 1e6, ratio=ratio, goal_ratio=goal,
                    runs=settings.runs, passed=common.verdict(ratio >= goal))
    return out


def decode_rate(line):
    """Values a second of bench_decode's line."""
    return line["Mvalues_per_s_median"] * 1e6


# ---- (b) shuffled batches ----

# The budget is a quarter of the decoded size; two superbatches fit, so that one loads while the other drains.
DECODED_BYTES = 200 * 5_000 * 64 * 4
QUARTER = {"memory": str(DECODED_BYTES // 4), "superbatch": 130_000}
CACHED = {"memory": str(4 * DECODED_BYTES)}


def entries(settings, work):
    """name: (label, contestant, options, goal of the quarter-budget loader against it)"""
    rivals = common.rival_python()
    quick = {
        "quarter": ("forebay, budget 1/4 of decoded", "forebay", QUARTER, None),
        "cached": ("forebay, all cached", "forebay", CACHED, None),
        "expert_table": ("expert, in the training process", "expert_table", {}, 6),
        "expert": ("expert, tuned: a file a thread", "expert", {}, None),
        "expert_thread": ("expert, tuned, reading ahead", "expert_thread", {}, None),
        "expert_workers": ("expert, two worker processes", "expert_workers", {"workers": 2}, 10),
    }
    if settings.quick:
        return quick
    fast = quick | {
        "hf_map": ("HF datasets, map-style", "hf_map", {"python": rivals}, 10),
        "hf_stream": ("HF datasets, streaming + buffer", "hf_stream", {"python": rivals}, 10),
    }
    if work:  # a step of 0.25 ms a batch changes nothing for loaders that need 20 ms for one
        return fast
    return fast | {
        "torch_rows": ("one row per item, DataLoader", "torch_rows", {"workers": 2}, 10),
        "litdata": ("LitData, optimised chunks", "litdata", {"python": rivals}, 10),
        "grain": ("Grain over a decoded .npy", "grain", {"python": rivals}, 10),
    }


def batches(settings, work=0.0, title="(b) Shuffled float32 batches of 1,024 rows, 200 files × 5,000 rows × 64 columns, page cache warm", csv="batches.csv"):
    data = make_data.table()
    common.warm_page_cache(make_data.table_files(data))
    listed = entries(settings, work)
    slow = {"torch_rows"}
    runs = {}
    for name, (label, contestant, options, _) in listed.items():
        given = dict(options, seconds=settings.seconds, batch=1024, cpu=True, warmup_limit=3 if name in slow else 6)
        if work:
            given["work"] = work
        runs[name] = lambda c=contestant, g=given: common.contestant(c, data, **g)
    table = common.Table(title, [("loader", -34), ("rows/s", 9), ("spread", 7), ("1/4 budget is", 13), ("cached is", 10), ("goal", 9),
                                 ("CPU in next()", 13), ("", 4)])
    got = common.interleave(runs, settings.runs)
    if "skipped" in got["quarter"][0]:
        raise SystemExit(f"bench: forebay does not run: {got['quarter'][0]['skipped']}")
    quarter, cached = common.median(rates(got["quarter"])), common.median(rates(got["cached"]))
    our_sums, their_sums = ([r["checksum"] for r in runs if r.get("checked_rows")] for runs in (got["quarter"] + got["cached"], got["expert"]))
    out = common.Csv(csv, ["loader", "consumer_work_ms", "rows_per_s_median", "rows_per_s_min", "rows_per_s_max", "runs", "quarter_budget_ratio",
                           "cached_ratio", "goal_ratio", "next_cpu_share_percent", "next_cpu_us_per_batch", "library_cpu_us_per_batch", "bytes_read_per_row",
                           "skipped",
                           "passed"])
    for name, (label, _, _, goal) in listed.items():
        if work:
            goal = None  # the step bounds everyone: ratios to a slow rival say little
        results = got[name]
        if "skipped" in results[0]:
            table.row(label, "-", "", "", "", "", "", results[0]["skipped"])
            out.add(loader=label, skipped=results[0]["skipped"], runs=0)
            continue
        r = rates(results)
        rate, share = common.median(r), common.median([x["next_cpu_share"] for x in results])
        per_batch = common.median([x["next_cpu_share"] * x["seconds"] / max(x["batches"], 1) * 1e6 for x in results])
        ours = name in ("quarter", "cached")
        ok = share <= 0.02 if ours else quarter / rate >= goal if goal else None
        if name == "expert_table" and goal:
            ok = ok and cached / rate >= 12
        text = "CPU ≤ 2 %" if ours else ("6×, 12×" if name == "expert_table" and goal else f"{goal}×" if goal else "")
        table.row(label, common.si(rate), f"{common.spread(r):.0%}", "" if ours else f"{quarter / rate:.1f}×", "" if ours else f"{cached / rate:.1f}×", text,
                  f"{share:.1%} {per_batch:6.1f} µs", common.verdict(ok))
        read = common.median([x["bytes_read"] / max(x["rows"], 1) for x in results]) if ours else ""
        library = common.median([x["library_cpu_s_in_next"] / max(x["batches"], 1) * 1e6 for x in results]) if ours else ""
        out.add(loader=label, library_cpu_us_per_batch=library, consumer_work_ms=work * 1e3, rows_per_s_median=rate, rows_per_s_min=min(r),
                rows_per_s_max=max(r), runs=len(r), quarter_budget_ratio="" if ours else quarter / rate, cached_ratio="" if ours else cached / rate,
                goal_ratio=goal or "",
                next_cpu_share_percent=share * 100, next_cpu_us_per_batch=per_batch, bytes_read_per_row=read, passed=common.verdict(ok))
    first = got["quarter"][0]
    print(f"  quarter budget: {first['budget_peak_bytes'] / MIB:.0f} MiB used at most of {first['budget_bytes'] / MIB:.0f}, superbatch "
          f"{first['superbatch_rows']:,} rows, two samples of a batch share a file with chance {first['same_block']:.4f} "
          f"(uniform {first['same_block_uniform']:.4f}); io {first['io_engine']}, {first['threads']} threads")
    sums, compared = [*our_sums, *their_sums], our_sums and their_sums
    same = compared and all(abs(s - min(sums)) <= 1e-6 * abs(min(sums)) for s in sums)
    if compared and not same:
        raise SystemExit("bench: Forebay and the expert have not delivered the same rows: their sums of one column over an epoch differ")
    print(f"  same rows delivered: {'yes (sum of one column over an epoch, Forebay and expert)' if same else 'not compared, no whole epoch of both'}")
    return out


def busy(settings):
    """The same beside a consumer whose own step keeps one core busy for 0.25 ms a batch: 4.1 million rows a second at most."""
    step = 0.25e-3
    return batches(settings, step,
                   f"(b') The same, the consumer's step busy on its core for {step * 1e3:g} ms a batch: at most {1024 / step / 1e6:.1f} M rows/s",
                   "batches_busy.csv")


# ---- (c) the roofline ----


def roofline(settings):
    data = make_data.table()
    files = make_data.table_files(data)
    common.warm_page_cache(files)
    stored_per_row = sum(f.stat().st_size for f in files) / 1e6
    ceilings_program, decode_program = common.build_c("bench_ceilings", "bench_decode")
    cores = common.cpus()

    def decode_rows_per_s():
        with ThreadPoolExecutor(cores) as pool:
            lines = list(pool.map(lambda f: subprocess.run([str(decode_program), str(f)], capture_output=True, text=True, check=True).stdout,
                                  files[:cores]))
        return sum(decode_rate(common.keyed(line)) for line in lines) / 64

    def ceiling(sequential):
        """Core-seconds a row of each stage, measured with all cores busy; the smaller of CPU and storage."""
        read = cores / (ceilings.c_ceiling(ceilings_program, "read", cores, *files) * 1e9 / stored_per_row)
        decode_s = cores / decode_rows_per_s()
        gather = cores / (ceilings.c_ceiling(ceilings_program, "copy" if sequential else "gather", cores) * 1e9 / 256)
        return {"rows_per_s": cores / (read + decode_s + gather), "read_ns": read * 1e9, "decode_ns": decode_s * 1e9, "gather_ns": gather * 1e9}

    def load(**options):
        return lambda: common.contestant("forebay", data, seconds=settings.seconds, warmup_epochs=1, memory=DECODED_BYTES // 4, **options)

    cases = {
        "roofline": lambda: ceiling(True), "unshuffled": load(no_shuffle=True),
        "roofline_shuffled": lambda: ceiling(False), "shuffled": load(superbatch=QUARTER["superbatch"]),
    }  # fmt: skip
    got = common.interleave(cases, settings.runs)
    for name in cases:
        if "skipped" in got[name][0]:
            raise SystemExit(f"bench: {name}: {got[name][0]['skipped']}")
    table = common.Table(f"(c) The roofline: {cores} cores ÷ Σ core-seconds a row of read, decompress + decode and copy; "
                         "budget 1/4 of decoded, page cache warm",
                         [("what", -34), ("rows/s", 9), ("spread", 7), ("share", 7), ("goal", 6), ("", 4)])
    out = common.Csv("roofline.csv", ["what", "rows_per_s_median", "rows_per_s_min", "rows_per_s_max", "share_percent", "of", "goal_percent",
                                      "read_ns_per_row", "decode_ns_per_row", "copy_ns_per_row", "runs", "passed"])
    mid = {name: common.median(rates(r)) for name, r in got.items()}

    def line(what, name, base=None, base_name="", goal=None):
        r = rates(got[name])
        share = common.median([a / b for a, b in zip(r, rates(got[base]))]) if base else None  # of runs side by side: the host's speed drifts
        ok = None if goal is None else share >= goal
        table.row(what, common.si(mid[name]), f"{common.spread(r):.0%}", f"{share:.0%}" if base else "", f"{goal:.0%}" if goal else "", common.verdict(ok))
        stages = {k: common.median([x[k] for x in got[name]]) if k in got[name][0] else "" for k in ("read_ns", "decode_ns", "gather_ns")}
        out.add(what=what, rows_per_s_median=mid[name], rows_per_s_min=min(r), rows_per_s_max=max(r), share_percent=share * 100 if base else "",
                of=base_name, goal_percent=goal * 100 if goal else "", read_ns_per_row=stages["read_ns"], decode_ns_per_row=stages["decode_ns"],
                copy_ns_per_row=stages["gather_ns"], runs=len(r), passed=common.verdict(ok))

    line("roofline, rows in order", "roofline")
    line("forebay unshuffled", "unshuffled", "roofline", "roofline, rows in order", 0.85)
    line("roofline, rows at random", "roofline_shuffled")
    line("forebay shuffled", "shuffled", "roofline_shuffled", "roofline, rows at random")
    line("forebay shuffled / unshuffled", "shuffled", "unshuffled", "forebay unshuffled", 0.95)
    # Cold: what the disk gives, once; the kernel keeps pages that others map, so it says how much was read from it.
    common.drop_page_cache(files)
    cold = common.contestant("forebay", data, seconds=60, warmup_epochs=0, epochs=1, memory=DECODED_BYTES // 4, superbatch=QUARTER["superbatch"])
    if "skipped" not in cold:
        common.drop_page_cache(files)
        disk = ceilings.c_ceiling(ceilings_program, "read", 16, *files)
        table.row("cold page cache, first epoch", common.si(cold["rows_per_s"]), "", "", "", "")
        out.add(what="cold page cache, first epoch", rows_per_s_median=cold["rows_per_s"], of=f"cold first pass and warm ones after: {disk:.2f} GB/s", runs=1)
    return out


# ---- (d) one row group; many small files ----


def scaling(settings):
    data = make_data.group()
    common.warm_page_cache(make_data.table_files(data))

    def load(threads):
        # One epoch from nothing: a second one would come from the cache.
        return lambda: common.contestant("forebay", data, seconds=120, warmup_epochs=0, epochs=1, columns=16, batch=4096, threads=threads,
                                         no_shuffle=True, memory="2GiB", touch=3072)

    got = common.interleave({1: load(1), 2: load(2)}, settings.runs + 4)  # a run is 0.3 s, and one that meets pages not yet backed takes twice that
    for results in got.values():
        if "skipped" in results[0]:
            raise SystemExit(f"bench: {results[0]['skipped']}")
    table = common.Table("(d) One file of one row group, 10 million rows × 16 columns, unshuffled, one epoch",
                         [("threads", 7), ("rows/s", 9), ("spread", 7), ("ratio", 6), ("goal", 6), ("", 4)])
    out = common.Csv("scaling.csv", ["threads", "rows_per_s_median", "rows_per_s_min", "rows_per_s_max", "ratio", "goal_ratio", "runs", "passed"])
    one = common.median(rates(got[1]))
    for threads, results in got.items():
        r = rates(results)
        ratio = common.median(r) / one
        ok = ratio >= 1.8 if threads == 2 else None
        table.row(threads, common.si(common.median(r)), f"{common.spread(r):.0%}", f"{ratio:.2f}", "1.8" if threads == 2 else "", common.verdict(ok))
        out.add(threads=threads, rows_per_s_median=common.median(r), rows_per_s_min=min(r), rows_per_s_max=max(r), ratio=ratio,
                goal_ratio=1.8 if threads == 2 else "", runs=len(r), passed=common.verdict(ok))
    return out


SMALL = r"""
import json, sys, time
begin = time.perf_counter()
import forebay as fb
imported = time.perf_counter()
ds = fb.open(sys.argv[1], cache_dir=sys.argv[2])
opened = time.perf_counter()
loader = ds.rows().loader({"x": [f"f{i:02d}" for i in range(8)]}, batch_size=1024, memory="1GiB", framework="numpy")
rows = next(iter(loader))["x"].shape[0]
done = time.perf_counter()
print(json.dumps({"rows": rows, "open_s": opened - imported, "loader_s": done - opened, "total_s": done - imported,
                  "cached": ds.open_stats["files_from_cache"], "files": ds.open_stats["files"]}))
loader.close()
"""


def small(settings):
    data = make_data.small()
    files = make_data.table_files(data)

    def start(cache, cold):
        if cold:
            common.drop_page_cache(files)
        line = subprocess.run([sys.executable, "-c", SMALL, str(data), str(cache)], capture_output=True, text=True, check=True).stdout
        return json.loads(line)

    def pair(cold):
        """A cold index and then the warm one that it left."""
        def run():
            with tempfile.TemporaryDirectory() as cache:
                first = start(cache, cold)
                second = start(cache, cold)
            if second["cached"] != second["files"]:
                print(f"  note: {second['files'] - second['cached']:,} files were not in the index")
            return {"cold_index": first, "warm_index": second}
        return run

    common.warm_page_cache(files)
    got = common.interleave({"warm": pair(False)}, settings.runs)
    got |= common.interleave({"cold": pair(True)}, settings.runs)
    table = common.Table("(d) 10,000 small files: from open() to the first batch in hand",
                         [("page cache", -10), ("index", -6), ("seconds", 8), ("spread", 7), ("open", 7), ("loader", 7), ("goal", 6), ("", 4)])
    out = common.Csv("small_files.csv", ["page_cache", "index", "first_batch_s_median", "first_batch_s_min", "first_batch_s_max", "open_s_median",
                                         "loader_s_median", "goal_s", "runs", "passed"])
    for cache, results in got.items():
        for index, goal in (("cold_index", 3.0), ("warm_index", 1.0)):
            r = [x[index] for x in results]
            total = [x["total_s"] for x in r]
            ok = common.median(total) < goal
            open_s, loader_s = (common.median([x[k] for x in r]) for k in ("open_s", "loader_s"))
            table.row(cache, index.split("_")[0], f"{common.median(total):.2f}", f"{common.spread(total):.0%}", f"{open_s:.2f}", f"{loader_s:.2f}",
                      f"< {goal:g}", common.verdict(ok))
            out.add(page_cache=cache, index=index.split("_")[0], first_batch_s_median=common.median(total), first_batch_s_min=min(total),
                    first_batch_s_max=max(total), open_s_median=open_s, loader_s_median=loader_s, goal_s=goal, runs=len(total), passed=common.verdict(ok))
    return out


QUESTIONS = {"ceilings": lambda settings: ceilings.measure(settings.runs), "decode": decode, "batches": batches, "busy": busy, "roofline": roofline,
             "scaling": scaling, "small": small,
             "hdf5": hdf5.filters, "hdf5_plain": hdf5.plain, "hdf5_cells": hdf5.cells, "hdf5_index": hdf5.index,
             "operations": operations.encode}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("questions", nargs="*", default=list(QUESTIONS), metavar="QUESTION", help=f"of {', '.join(QUESTIONS)}")
    parser.add_argument("--quick", action="store_true", help="short runs, fastest rivals; nothing is written")
    parser.add_argument("--seconds", type=float, default=None, help="measure each run so long")
    options = parser.parse_args()
    for name in options.questions:
        if name not in QUESTIONS:
            parser.error(f"no question is called {name!r}; there are {', '.join(QUESTIONS)}")
    settings = Settings(options.quick)
    settings.seconds = options.seconds or settings.seconds
    print(f"{common.machine()}; commit {common.commit()}; data in {common.scratch()}", flush=True)
    common.warn_when_busy()
    for name in options.questions:
        result = QUESTIONS[name](settings)
        if not options.quick:
            result.write()
    if not options.quick:
        (common.RESULTS / "machine.txt").write_text(common.machine() + "\n")
        subprocess.run([sys.executable, str(Path(__file__).with_name("report.py"))], check=True)


if __name__ == "__main__":
    main()
