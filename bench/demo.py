"""make demo: a data set of some hundred MB, Forebay beside a PyTorch DataLoader and an expert's generator on the same files, a small model trained, a picture.

    bench/demo.py [--quick]

Needs about three minutes on two cores. Everything it makes lies in .demo/ (or $FOREBAY_BENCH_DIR): the data set is made once and kept.

1. `forebay inspect` and `forebay bench`, the command, on the files.
2. Three loaders in turn, each in a process of its own, shuffled float32 batches of 1,024 rows: the usual PyTorch DataLoader
   (one row per item), the generator that an expert writes by hand (rivals.py), Forebay. Of the last two the best of two runs, in turns.
3. A small network learns a target from the shuffled batches; the loss on files held out falls, or the demo fails.
4. A table, a verdict, a picture (.demo/demo.png).
"""
import argparse
import json
import subprocess
import sys
import time

import numpy as np
import pandas as pd

import common
import make_data

FILES, ROWS, COLUMNS, BATCH = 240, 5_000, 64, 1024
HELD_OUT = 12  # files
MEMORY = "192MiB"
SUPERBATCH = 250_000  # rows: 50 files, as many as the expert mixes
BOLD, DIM, GREEN, PLAIN = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("", "", "", "")


def heading(text):
    print(f"\n{BOLD}{text}{PLAIN}", flush=True)


# ---- the data ----


def target(x):
    """What the model must find: a smooth function of a few columns and their products, standardised columns in."""
    return np.tanh(x[:, 0] * x[:, 1]) + np.sin(2 * x[:, 2]) + 0.5 * x[:, 3] * (x[:, 4] > 0) - 0.3 * x[:, 5] ** 2


def make(files):
    def write(folder):
        for i in range(files):
            rng = np.random.default_rng([7, i])
            x = np.round(rng.standard_normal((ROWS, COLUMNS), dtype=np.float32), 3)
            frame = pd.DataFrame({f"f{c:02d}": x[:, c] for c in range(COLUMNS)})
            frame["y"] = (target(x) + 0.05 * rng.standard_normal(ROWS)).astype(np.float32)
            frame.to_parquet(folder / f"station-{i:04d}.parquet")

    return make_data.ensure(common.scratch() / f"demo-{files}", write, f"{files} Parquet files of {ROWS:,} rows × {COLUMNS + 1} columns")


# ---- the race ----

RACE = [
    # name, label, options, runs
    ("torch_rows", "PyTorch DataLoader, one row per item", {"workers": 2, "warmup_limit": 4, "seconds": 6}, 1),
    ("expert_table", "an expert's generator", {"seconds": 4}, 2),
    ("forebay", f"Forebay, budget {MEMORY}", {"seconds": 4, "memory": MEMORY, "superbatch": SUPERBATCH}, 2),
]


def race(folder):
    best = {}
    for turn in range(max(runs for *_, runs in RACE)):
        for name, label, options, runs in RACE:
            if turn >= runs:
                continue
            result = common.contestant(name, folder, batch=BATCH, cpu=True, **options)
            if "skipped" in result:
                raise SystemExit(f"demo: {label} did not run: {result['skipped']}")
            print(f"  {label:36} {result['rows_per_s']:>13,.0f} rows/s   {DIM}{result['batches']:,} batches in {result['seconds']:.1f} s{PLAIN}", flush=True)
            if name not in best or result["rows_per_s"] > best[name]["rows_per_s"]:
                best[name] = result
    return best


def command_line(folder):
    cli = common.find_cli()
    if not cli:
        print("  the forebay command is not built (make build): this part is left out")
        return None
    names = [f"f{c:02d}" for c in range(COLUMNS)]
    bench = [cli, "bench", str(folder), "--memory", MEMORY, "--superbatch", str(SUPERBATCH), "--seconds", "5", "--columns", ",".join(names)]
    print(f"{DIM}$ forebay inspect {folder.name}/ --columns f00,f01,y{PLAIN}", flush=True)
    text = subprocess.run([cli, "inspect", str(folder), "--columns", "f00,f01,y"], capture_output=True, text=True)
    if text.returncode:
        raise SystemExit(f"demo: forebay inspect failed: {text.stderr.strip()}")
    print("\n".join("  " + line for line in text.stdout.splitlines()[:24]))
    print(f"\n{DIM}$ forebay bench {folder.name}/ --memory {MEMORY} --superbatch {SUPERBATCH} --seconds 5 --columns f00,…,f63{PLAIN}", flush=True)
    text = subprocess.run(bench, capture_output=True, text=True)
    if text.returncode:
        raise SystemExit(f"demo: forebay bench failed: {text.stderr.strip()}")
    print("\n".join("  " + line for line in text.stdout.splitlines()))
    done = subprocess.run([*bench, "--seconds", "3", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


# ---- training ----


def train(folder, epochs):
    """Returns [(seconds, rows seen, held-out loss)] and the loader's report."""
    import torch

    import forebay as fb

    torch.manual_seed(0)
    files = make_data.table_files(folder)
    names = [f"f{c:02d}" for c in range(COLUMNS)]
    outputs = {"x": fb.col(*names), "y": fb.col("y")}
    held = fb.open([str(f) for f in files[:HELD_OUT]]).read([*names, "y"])
    x_test = torch.from_numpy(np.stack([held[n] for n in names], axis=1))
    y_test = torch.from_numpy(held["y"])

    model = torch.nn.Sequential(torch.nn.Linear(COLUMNS, 64), torch.nn.SiLU(), torch.nn.Linear(64, 64), torch.nn.SiLU(), torch.nn.Linear(64, 1))
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)

    def held_out_loss():
        with torch.no_grad():
            return float(torch.nn.functional.mse_loss(model(x_test).squeeze(1), y_test) / y_test.var())

    loader = fb.open([str(f) for f in files[HELD_OUT:]]).rows().loader(outputs, batch_size=BATCH, memory=MEMORY, superbatch=SUPERBATCH, seed=1)
    curve, rows, begin, testing = [(0.0, 0, held_out_loss())], 0, time.perf_counter(), 0.0
    for epoch in range(epochs):
        for i, batch in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(batch["x"]).squeeze(1), batch["y"])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            rows += len(batch["y"])
            if (i + 1) % 200 == 0:
                start = time.perf_counter()
                curve.append((start - begin - testing, rows, held_out_loss()))
                testing += time.perf_counter() - start
        print(f"  epoch {epoch + 1}: loss on held-out files {held_out_loss():.3f} of the target's variance", flush=True)
    curve.append((time.perf_counter() - begin - testing, rows, held_out_loss()))
    report = loader.report()
    loader.close()
    return curve, report


# ---- the end: table, bars, picture ----


def bars(best):
    top = max(r["rows_per_s"] for r in best.values())
    for name, label, _, _ in RACE:
        rate = best[name]["rows_per_s"]
        print(f"  {label:36} {GREEN}{'█' * max(1, round(rate / top * 40))}{PLAIN} {rate:,.0f}")


def picture(best, curve, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), gridspec_kw={"width_ratios": [1.5, 1]})
    labels = [label for _, label, _, _ in RACE]
    values = [best[name]["rows_per_s"] for name, *_ in RACE]
    colours = ["#9aa5b1", "#9aa5b1", "#1f78b4"]
    left.barh(labels, values, color=colours, height=0.6)
    left.set_xscale("log")
    left.set_xlim(min(values) / 3, max(values) * 25)
    left.invert_yaxis()
    for i, value in enumerate(values):
        left.text(value * 1.15, i, f"{value:,.0f}", va="center")
    left.set_xlabel("rows a second (logarithmic)")
    left.set_title(f"Shuffled batches of {BATCH:,} × {COLUMNS} float32, {FILES} Parquet files", fontsize=10)
    right.plot([r / 1e6 for _, r, _ in curve], [loss for *_, loss in curve], color="#1f78b4")
    right.set_ylim(0, None)
    right.set_xlabel("million rows seen")
    right.set_ylabel("loss ÷ variance of the target")
    right.set_title(f"A small network on them: {curve[-1][0]:.0f} s", fontsize=10)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def epoch_text(rows_per_s):
    seconds = FILES * ROWS / rows_per_s
    return f"{seconds * 1e3:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s" if seconds < 100 else f"{seconds / 60:,.0f} min"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one epoch of training")
    parser.add_argument("--picture", default=None, help="also save the picture here: docs/img/demo.png is made so")
    options = parser.parse_args()
    start = time.perf_counter()
    heading("1. A data set")
    folder = make(FILES)
    files = make_data.table_files(folder)
    size = sum(f.stat().st_size for f in files)
    print(f"  {folder}: {len(files)} files, {size / 1e6:.0f} MB, {FILES * ROWS:,} rows × {COLUMNS + 1} columns")
    common.warm_page_cache(files)

    heading("2. The command")
    cli = command_line(folder)

    heading("3. The same files, three loaders: shuffled float32 batches as torch tensors")
    common.warn_when_busy()
    best = race(folder)

    heading("4. Training a small network on them")
    curve, report = train(folder, 1 if options.quick else 2)
    print("\n".join("  " + line for line in str(report).splitlines()))

    heading("Result")
    ours = best["forebay"]
    table = common.Table(common.machine(), [("loader", -36), ("rows/s", 12), ("Forebay is", 10), ("epoch takes", 12)])
    for name, label, _, _ in RACE:
        rate = best[name]["rows_per_s"]
        factor = ours["rows_per_s"] / rate
        table.row(label, f"{rate:,.0f}", "" if name == "forebay" else f"{factor:,.1f}×", epoch_text(rate))
    if cli:
        table.row("forebay bench (the command)", f"{cli['samples_per_second']:,.0f}", "", epoch_text(cli["samples_per_second"]))
    print()
    bars(best)
    path = common.scratch() / "demo.png"
    picture(best, curve, path)
    if options.picture:
        picture(best, curve, options.picture)
    first, last = curve[0][2], curve[-1][2]
    expert, usual = best["expert_table"]["rows_per_s"], best["torch_rows"]["rows_per_s"]
    share = report.wait_ns / max(report.wait_ns + report.work_ns, 1)
    print(f"\n{BOLD}Verdict:{PLAIN} on this machine Forebay delivers {ours['rows_per_s'] / usual:,.0f} times the rows of a DataLoader of single rows and "
          f"{ours['rows_per_s'] / expert:.1f} times\nthose of the expert's generator, inside {ours['budget_peak_bytes'] / 2**20:.0f} MiB. "
          f"In training the network waited for batches {share:.1%} of the time;\n"
          f"its loss on held-out files fell from {first:.2f} to {last:.3f} of the target's variance.")
    print(f"Picture: {path}   ({time.perf_counter() - start:.0f} s in all)")
    if not last < 0.5 * first:
        raise SystemExit("demo: the loss did not fall: something is wrong with the batches or the model")


if __name__ == "__main__":
    main()
