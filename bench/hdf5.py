"""HDF5 questions of bench/README.md: run by run.py under the names hdf5, hdf5_plain, hdf5_cells, hdf5_index."""
import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py

import common

BENCH = Path(__file__).resolve().parent
ROW_BYTES = 128 * 8 * 4
GOAL_SHARE, GOAL_EXPERT, GOAL_ROWS = 0.9, 5, 2500
CELL_BYTES = (64, 256, 1024)
# Whole seconds, as the loaders run: of each second Linux takes 5 % from real-time tasks (chrt -f), which a run of 0.8 s does not notice.
STAGE_SECONDS = 2
STREAMS = 4  # 100 chunks divide by it: with the default of 8, streams' borders cut four chunks, which are then decoded twice


def contestant(name, path, timeout=300, python=None, **options):
    argv = [python or sys.executable, str(BENCH / "hdf5_rivals.py"), name, str(path)]
    for key, value in options.items():
        argv += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    return common.result_of(argv, timeout)


def chunk_list(path, name, folder):
    """A file with "offset bytes" for every stored chunk, as libhdf5 says."""
    out = Path(folder) / "chunks.txt"
    with h5py.File(path) as f:
        data = f[name]
        lines = []
        if data.chunks:
            for i in range(data.id.get_num_chunks()):
                info = data.id.get_chunk_info(i)
                lines.append(f"{info.byte_offset} {info.size}")
            decoded = int(data.dtype.itemsize)
            for d in data.chunks:
                decoded *= d
        else:  # runs of a megabyte, as a reader would take them
            offset, total, decoded = data.id.get_offset(), data.id.get_storage_size(), 1 << 20
            lines = [f"{offset + at} {decoded}" for at in range(0, total - decoded + 1, decoded)]
    out.write_text("\n".join(lines) + "\n")
    return out, decoded


def stages(program, path, name, filters, row_bytes, threads, folder, which=("read", "decode", "gather")):
    """Rows a second of each stage alone with all threads, and of the three composed: 1 / Σ (1 / rate)."""
    chunks, decoded = chunk_list(path, name, folder)
    rates = {}
    for stage in which:
        argv = [str(program), stage, "-j", str(threads), "-r", str(row_bytes), "-c", str(decoded), "-l", str(chunks), "-e", "4", "-s", str(STAGE_SECONDS)]
        if filters:
            argv += ["-f", filters]
        line = subprocess.run([*argv, str(path)], capture_output=True, text=True, check=True).stdout
        rates[stage] = common.keyed(line)["rows_per_s"]
    rates["composed"] = 1 / sum(1 / r for r in rates.values())
    return rates


def filters(settings):
    """Shuffled batches of chunked, filtered jets against the composed roofline; gzip also against the rivals."""
    import hdf5_data

    (program,) = common.build_c("bench_hdf5")
    threads = common.cpus()
    table = common.Table("(e) HDF5: shuffled batches of 512 jets (128 × 8 float32), chunks of 1,000, budget ≤ 1/4 of decoded, page cache warm",
                         [("filters", -14), ("loader", -38), ("rows/s", 9), ("spread", 7), ("of roofline", 11), ("forebay is", 10), ("goal", 7), ("", 4)])
    out = common.Csv("hdf5.csv", ["filters", "loader", "rows_per_s_median", "rows_per_s_min", "rows_per_s_max", "runs", "roofline_share_percent",
                                  "forebay_ratio", "goal", "skipped", "passed"])
    budget = hdf5_data.EVENTS * ROW_BYTES // 4
    names = ["gzip"] if settings.quick else list(hdf5_data.FILTERS)
    cases = [(name, hdf5_data.FILTERS[name][0], hdf5_data.jets(name), "feature_matrix", ROW_BYTES, budget, 512, 12_000, 0.9) for name in names]
    if not settings.quick:
        cases.append(("pairs, gzip", "deflate", hdf5_data.pairs(), "adjacency_matrix", 8128 * 16, 10_000 * 8128 * 16 // 4, 64, 800, 0.8))
    for name, filter_names, path, data, row_bytes, memory, batch, superbatch, share_goal in cases:
        common.warm_page_cache([path])
        with tempfile.TemporaryDirectory() as folder:
            runs = {
                "roofline": lambda: stages(program, path, data, filter_names, row_bytes, threads, folder),
                "one": lambda: {"rows_per_s": stages(program, path, data, filter_names, row_bytes, 1, folder, ("decode",))["decode"]},
                "forebay": lambda: contestant("forebay", path, data=data, seconds=settings.seconds, batch=batch, memory=memory, superbatch=superbatch,
                                              streams=STREAMS),
                "forebay_1": lambda: contestant("forebay", path, data=data, seconds=settings.seconds, batch=batch, memory=memory, superbatch=superbatch,
                                                streams=STREAMS, threads=1),
            }
            if name == "gzip":
                runs["expert"] = lambda: contestant("expert", path, seconds=settings.seconds)
                runs["expert_workers"] = lambda: contestant("expert", path, seconds=settings.seconds, workers=2)
                if settings.quick:
                    runs.pop("expert_workers")
            if name == "gzip" and not settings.quick:
                runs["lru_chunks"] = lambda: contestant("lru_chunks", path, seconds=settings.seconds, workers=2)
                runs["scdataset"] = lambda: contestant("scdataset", path, python=common.rival_python(), seconds=settings.seconds, workers=2)
                runs["h5py_rows"] = lambda: contestant("h5py_rows", path, seconds=settings.seconds, workers=2, warmup=0)
            got = common.interleave(runs, settings.runs)
        if "skipped" in got["forebay"][0]:
            raise SystemExit(f"bench: forebay does not run: {got['forebay'][0]['skipped']}")
        roof = common.median([r["composed"] for r in got["roofline"]])
        decode = common.median([r["decode"] for r in got["roofline"]])
        ours = common.median([r["rows_per_s"] for r in got["forebay"]])
        stage_text = ", ".join(f"{k} {common.si(common.median([r[k] for r in got['roofline']]))}" for k in ("read", "decode", "gather"))
        line(table, out, name, f"roofline ({stage_text})", [r["composed"] for r in got["roofline"]])
        base = decode if share_goal == 0.8 else roof  # pairs: the goal is against the codec's rate
        line(table, out, name, "forebay", [r["rows_per_s"] for r in got["forebay"]], share=ours / base, goal=f"≥ {share_goal:.0%}",
             ok=ours / base >= share_goal)
        codec = decode / common.median([r["rows_per_s"] for r in got["one"]])
        scaling = ours / common.median([r["rows_per_s"] for r in got["forebay_1"]])
        line(table, out, name, f"forebay, one thread (codec scales {codec:.2f}×, forebay {scaling:.2f}×)", [r["rows_per_s"] for r in got["forebay_1"]],
             goal="≥ 95 %", ok=scaling / codec >= 0.95)
        for rival, label, goal in (("expert", "expert: whole chunks, one take a batch", GOAL_EXPERT),
                                   ("expert_workers", "the same, two worker processes", GOAL_EXPERT),
                                   ("lru_chunks", "LRU of blocks, block-ordered sampler", GOAL_EXPERT), ("scdataset", "scDataset", GOAL_EXPERT),
                                   ("h5py_rows", "one row per item, DataLoader of two", GOAL_ROWS)):
            if rival not in got:
                continue
            if "skipped" in got[rival][0]:
                table.row(name, label, "-", "", "", "", "", got[rival][0]["skipped"])
                out.add(filters=name, loader=label, skipped=got[rival][0]["skipped"], runs=0)
                continue
            r = [x["rows_per_s"] for x in got[rival]]
            ratio = ours / common.median(r)
            line(table, out, name, label, r, ratio=ratio, goal=f"{goal:,}×", ok=ratio >= goal)
    return out


def line(table, out, case, label, rates, share=None, ratio=None, goal="", ok=None):
    passed = common.verdict(ok)
    table.row(case, label, common.si(common.median(rates)), f"{common.spread(rates):.0%}", "" if share is None else f"{share:.0%}",
              "" if ratio is None else f"{ratio:,.1f}×", goal, passed)
    out.add(filters=case, loader=label, rows_per_s_median=common.median(rates), rows_per_s_min=min(rates), rows_per_s_max=max(rates), runs=len(rates),
            roofline_share_percent="" if share is None else share * 100, forebay_ratio="" if ratio is None else ratio, goal=goal, passed=passed)


def disk_rows_per_s(path, depth=16, piece=1 << 20):
    """The file once past the page cache, `depth` reads of 1 MiB in flight: what the disk gives, nothing done with the bytes."""
    fd, local = os.open(path, os.O_RDONLY | os.O_DIRECT), threading.local()

    def read(offset):
        if not hasattr(local, "buffer"):
            local.buffer = mmap.mmap(-1, piece)  # a page's alignment, as O_DIRECT wants it
        return os.preadv(fd, [local.buffer], offset)

    try:
        with ThreadPoolExecutor(depth) as pool:
            begin = time.perf_counter()
            total = sum(pool.map(read, range(0, os.fstat(fd).st_size, piece)))
            return {"rows_per_s": total / ROW_BYTES / (time.perf_counter() - begin)}
    finally:
        os.close(fd)


def plain(settings):
    """Contiguous, uncompressed: against a gather of the same rows by memcpy, warm; against the disk, cold."""
    import hdf5_data

    (program,) = common.build_c("bench_hdf5")
    path = hdf5_data.jets("plain")
    memory = hdf5_data.EVENTS * ROW_BYTES // 4
    table = common.Table("(f) HDF5, contiguous and uncompressed: shuffled batches of 512 jets, budget 1/4 of decoded",
                         [("case", -14), ("loader", -38), ("rows/s", 9), ("spread", 7), ("of roofline", 11), ("", 10), ("goal", 7), ("", 4)])
    out = common.Csv("hdf5_plain.csv", ["filters", "loader", "rows_per_s_median", "rows_per_s_min", "rows_per_s_max", "runs", "roofline_share_percent",
                                        "forebay_ratio", "goal", "skipped", "passed"])
    common.warm_page_cache([path])
    with tempfile.TemporaryDirectory() as folder:
        got = common.interleave({
            "gather": lambda: {"rows_per_s": stages(program, path, "feature_matrix", "", ROW_BYTES, common.cpus(), folder, ("gather",))["gather"]},
            "composed": lambda: {"rows_per_s": stages(program, path, "feature_matrix", "", ROW_BYTES, common.cpus(), folder, ("read", "gather"))["composed"]},
            "forebay": lambda: contestant("forebay", path, seconds=settings.seconds, memory=memory, superbatch=12_000, streams=STREAMS),
            "mapped": lambda: contestant("forebay", path, seconds=settings.seconds, memory=memory, superbatch=12_000, streams=STREAMS, immutable=True),
        }, settings.runs)

    def cold():
        common.drop_page_cache([path])
        return contestant("forebay", path, once=True, memory=memory, superbatch=12_000, streams=STREAMS)

    got |= common.interleave({"disk": lambda: disk_rows_per_s(path), "cold": cold}, settings.runs)
    rates = {k: [r["rows_per_s"] for r in v] for k, v in got.items()}
    gather, composed = common.median(rates["gather"]), common.median(rates["composed"])
    line(table, out, "warm", "gather by memcpy, all in memory", rates["gather"])
    line(table, out, "warm", "read and gather composed", rates["composed"])
    line(table, out, "warm", "forebay, read (share of the composed)", rates["forebay"], share=common.median(rates["forebay"]) / composed)
    share = common.median(rates["forebay"]) / gather
    line(table, out, "warm", "forebay, read (share of the gather)", rates["forebay"], share=share, goal="≥ 85 %", ok=share >= 0.85)
    share = common.median(rates["mapped"]) / gather
    line(table, out, "warm", "forebay, mapped (files declared immutable)", rates["mapped"], share=share, goal="≥ 85 %", ok=share >= 0.85)
    share = common.median(rates["cold"]) / common.median(rates["disk"])
    line(table, out, "cold", "the disk: 16 reads of 1 MiB in flight, past the page cache", rates["disk"])
    line(table, out, "cold", "forebay, one epoch from an empty page cache", rates["cold"], share=share, goal="≥ 85 %", ok=share >= 0.85)
    return out


def cells(settings):
    """Cells of N-d float16 data as float32 batches of 5,632, cached: against NumPy's take and cast."""
    import hdf5_data

    table = common.Table("(g) Cells of (files, long, short, mels, frames) float16 → float32, batch 5,632, data in memory: million cells a second",
                         [("cell", -14), ("loader", -38), ("rows/s", 9), ("spread", 7), ("", 11), ("forebay is", 10), ("goal", 7), ("", 4)])
    out = common.Csv("hdf5_cells.csv", ["filters", "loader", "rows_per_s_median", "rows_per_s_min", "rows_per_s_max", "runs", "roofline_share_percent",
                                        "forebay_ratio", "goal", "skipped", "passed"])
    for cell in CELL_BYTES:
        path = hdf5_data.mel(cell)
        common.warm_page_cache([path])
        options = {"data": "segments_mel", "cells": 3, "batch": 5632, "seconds": settings.seconds}
        got = common.interleave({
            "forebay": lambda: contestant("forebay", path, memory="2GiB", warmup=2, **options),
            "take": lambda: contestant("take", path, **options),
            "ram": lambda: contestant("ram_loader", path, workers=2, **options),
        }, settings.runs)
        if "skipped" in got["forebay"][0]:
            raise SystemExit(f"bench: forebay does not run: {got['forebay'][0]['skipped']}")
        ours = common.median([r["rows_per_s"] for r in got["forebay"]])
        line(table, out, f"{cell} B", "forebay", [r["rows_per_s"] for r in got["forebay"]])
        for rival, label, goal in (("take", "NumPy take + cast, array in memory", 4), ("ram", "DataLoader over the array, two workers", None)):
            r = [x["rows_per_s"] for x in got[rival]]
            ratio = ours / common.median(r)
            line(table, out, f"{cell} B", label, r, ratio=ratio, goal=f"{goal}×" if goal else "", ok=ratio >= goal if goal else None)
    return out


OPEN = r"""
import sys, time, forebay as fb
start = time.perf_counter()
ds = fb.open(sys.argv[1], cache_dir=sys.argv[2])
print('{"seconds": %f, "cached": %d}' % (time.perf_counter() - start, ds.open_stats["files_from_cache"]))
"""


def index(settings):
    """Opening: 65,536 chunks, and 1,000 files with a cold and a warm index cache."""
    import hdf5_data

    def opened(path, cache):
        done = subprocess.run([sys.executable, "-c", OPEN, str(path), str(cache)], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    table = common.Table("(h) HDF5: seconds to open()", [("what", -44), ("seconds", 9), ("spread", 7), ("goal", 8), ("", 4)])
    out = common.Csv("hdf5_index.csv", ["what", "seconds_median", "seconds_min", "seconds_max", "runs", "goal_s", "passed"])

    def row(what, values, goal):
        ok = None if goal is None else common.median(values) < goal
        table.row(what, f"{common.median(values):.3f}", f"{common.spread(values):.0%}", f"< {goal}" if goal else "", common.verdict(ok))
        out.add(what=what, seconds_median=common.median(values), seconds_min=min(values), seconds_max=max(values), runs=len(values), goal_s=goal or "",
                passed=common.verdict(ok))

    folder, many = hdf5_data.tiny(), hdf5_data.many()
    for name, what in (("tiny.h5", "65,536 chunks, B-tree 1"), ("tiny_latest.h5", "65,536 chunks, extensible array")):
        row(what, [opened(folder / name, "")["seconds"] for _ in range(settings.runs)], 0.2)
    cold, warm = [], []
    for _ in range(settings.runs):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(opened(many, cache)["seconds"])
            second = opened(many, cache)
            assert second["cached"] == 1000, second
            warm.append(second["seconds"])
    row("1,000 files, cold index cache", cold, None)
    row("1,000 files, warm index cache", warm, 0.5)
    return out
