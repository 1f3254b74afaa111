"""The five systems, whole path, shuffled: Forebay beside what an expert writes; run by run.py under the name workloads."""
import subprocess
import sys
from pathlib import Path

import common

BENCH = Path(__file__).resolve().parent

# (case, contestant of workload_rivals.py, folder, options of Forebay, options of the expert, goal against the expert in process)
CASES = [
    ("hydrology, budget 1/4", "hydrology", "hydrology", {}, {}, 1.5),
    ("hydrology, cached", "hydrology", "hydrology", {"cached": True}, {}, 1.5),
    ("neutrino, packed", "neutrino", "neutrino", {}, {}, 5),
    ("neutrino, 1 event in 100, kept", "neutrino", "neutrino", {"some": True}, {"some": True}, 5),
    ("linkage, opening counted, cached", "linkage", "linkage_million", {}, {}, 5),
    ("leak, SpecAugment, in memory", "leak", "leak", {}, {}, 10),
    ("leak, evaluation of files, gzip", "evaluation", "leak_gzip", {}, {}, 3.5),
]
SIZES = {
    "hydrology": ["hydrology", "--scale", "bench"],
    "jets": ["jets", "--scale", "bench"],
    "neutrino": ["neutrino", "--scale", "bench"],
    "linkage_million": ["linkage", "--scale", "bench"],
    "leak": ["leak", "--scale", "bench"],
    "leak_gzip": ["leak", "--scale", "bench", "--gzip"],
}


def data(name):
    """The workload's data, generated once (some minutes)."""
    folder = common.scratch() / "workloads" / name
    if not folder.exists():
        made, *options = SIZES[name]
        subprocess.run([sys.executable, str(common.ROOT / "recipes" / made / "generate.py"), str(folder), *options], check=True)
    return folder


def contestant(name, folder, seconds, **options):
    argv = [sys.executable, str(BENCH / "workload_rivals.py"), name, str(folder), "--seconds", str(seconds)]
    for key, value in options.items():
        argv += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    return common.result_of(argv)


def run(settings):
    table = common.Table("(i) The five systems, shuffled, float32, page cache warm: samples a second",
                         [("case", -32), ("loader", -34), ("samples/s", 10), ("spread", 7), ("forebay is", 10), ("goal", 6),
                          ("decoded / epoch begun", 21), ("", 4)])
    out = common.Csv("workloads.csv", ["case", "loader", "samples_per_s_median", "samples_per_s_min", "samples_per_s_max", "runs", "forebay_ratio", "goal",
                                       "decoded_bytes_per_epoch_begun", "skipped", "passed"])
    for case, name, folder, ours, theirs, goal in CASES:
        path = data(folder)
        common.warm_page_cache([p for p in path.rglob("*") if p.suffix in (".parquet", ".h5")])
        runs = {
            "forebay": lambda: contestant(f"{name}_forebay", path, settings.seconds, **ours),
            "expert": lambda: contestant(f"{name}_expert", path, settings.seconds, **theirs),
        }
        if name not in ("linkage", "evaluation") and not settings.quick:
            runs["workers"] = lambda: contestant(f"{name}_expert", path, settings.seconds, workers=2, **theirs)
        got = common.interleave(runs, settings.runs)
        base = None
        for who, label in (("forebay", "forebay"), ("expert", "file by file, h5py" if name == "evaluation" else "expert, in the training process"),
                           ("workers", "the same, two worker processes")):
            if who not in got:
                continue
            if "skipped" in got[who][0]:
                if who == "forebay":
                    raise SystemExit(f"bench: forebay does not run: {got[who][0]['skipped']}")
                table.row(case, label, "-", "", "", "", "", got[who][0]["skipped"])
                out.add(case=case, loader=label, runs=0, skipped=got[who][0]["skipped"])
                continue
            rates = [r["samples_per_s"] for r in got[who]]
            base = base or common.median(rates)
            ratio = None if who == "forebay" else base / common.median(rates)
            decoded = got[who][0].get("bytes_decoded", 0) // max(got[who][0].get("epochs", 1), 1) if who == "forebay" else ""
            ok = "" if who != "expert" else "pass" if ratio >= goal else "FAIL"
            table.row(case, label, common.si(common.median(rates)), f"{common.spread(rates):.0%}", f"{ratio:.1f}×" if ratio else "",
                      f"{goal}×" if who == "expert" else "", common.si(decoded) if decoded != "" else "", ok)
            out.add(case=case, loader=label, samples_per_s_median=common.median(rates), samples_per_s_min=min(rates), samples_per_s_max=max(rates),
                    runs=len(rates), forebay_ratio=ratio or "", goal=goal if who == "expert" else "", decoded_bytes_per_epoch_begun=decoded, passed=ok)
    return out
