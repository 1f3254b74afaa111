"""Does a mixture come as fast as its sources allow? Parquet, HDF5 and a DataFrame, each alone and mixed in equal parts, in turns in one session.

    bench/mix.py [--runs 7] [--seconds 3] [--write]       --write: results/mix.csv

*Ceiling:* of each source the share w(i) of the samples has to be made at the rate r(i) that it has alone, with all cores: 1 / Σ (w(i) / r(i)).
*Goal:* 0.9 of it. A process each: it warms up for an epoch, 6 s at most. A source alone has the superbatch of the mixture, so that a row
is gathered from as much memory in either, and a third of its budget: less than two thirds of the source's decoded rows, which is the share of
them that the mixture holds, so that as many have to be decoded. Beside it Grain's and Hugging Face's mixing of the same data, where those
packages are (bench/setup.sh); Grain is given the rows decoded already.
"""
import argparse
import itertools
import json
import sys
import time

import common
import make_data
import rivals

ROWS, COLUMNS, BATCH, SUPERBATCH, MEMORY = 900_000, 64, 1024, 180_000, 144 << 20  # of a source alone
SOURCES = ("table", "array", "frame")
NAMES = {"table": "Parquet alone", "array": "HDF5 alone", "frame": "DataFrame alone", "mixture": "mixture", "bound": "bound 1 / Σ (w / r)",
         "grain": "Grain, rows in memory", "hugging_face": "Hugging Face interleave_datasets"}  # fmt: skip


def data():
    """The folder with 180 Parquet files, an HDF5 file and the rows of the DataFrame as they are in memory."""
    import numpy as np

    folder = make_data.table(files=ROWS // 5_000, columns=COLUMNS, name="mix_900k")

    def make(path):
        import h5py

        rows = make_data.sensor_frame(np.random.default_rng(7), ROWS, COLUMNS).to_numpy()
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=rows, chunks=(1_000, COLUMNS), compression="gzip", compression_opts=1, shuffle=True)

    common.made(folder / "array.h5", make)
    return folder


def frame():
    import numpy as np

    return make_data.sensor_frame(np.random.default_rng(9), ROWS, COLUMNS)


def in_blocks(frame):
    """A DataFrame as a table of record batches: of one piece, it would be one block, which needs twice its size as budget."""
    import pyarrow as pa

    return pa.Table.from_batches(pa.Table.from_pandas(frame).to_batches(max_chunksize=5_000))


# ---- contestants: epochs of torch tensors (batch, 64) ----


def forebay(which, folder):
    import torch  # noqa: F401

    import forebay as fb

    columns = [f"f{i:02d}" for i in range(COLUMNS)]
    openers = {"table": lambda: fb.open(folder / "*.parquet", cache_dir=""), "array": lambda: fb.open(folder / "array.h5", cache_dir=""),
               "frame": lambda: fb.open(in_blocks(frame()))}  # fmt: skip
    outputs = {"table": {"x": columns}, "array": {"x": "x"}, "frame": {"x": columns}}
    options = {"batch_size": BATCH, "framework": "torch", "seed": 0, "superbatch": SUPERBATCH, "memory": MEMORY}
    if which != "mixture":
        loader = openers[which]().rows().loader(outputs[which], **options)
    else:
        mixture = fb.mix({name: openers[name]().rows() for name in SOURCES}, stop="all")
        loader = mixture.loader(outputs, **options | {"memory": len(SOURCES) * MEMORY})
    return lambda: (batch["x"] for batch in loader), loader.report


def grain(folder):
    import grain.python as grain
    import h5py
    import numpy as np
    import pyarrow.dataset
    import torch

    table = np.stack([c.to_numpy() for c in pyarrow.dataset.dataset(sorted(folder.glob("*.parquet"))).to_table().columns], 1)
    with h5py.File(folder / "array.h5") as file:
        rows = [table, file["x"][:], frame().to_numpy()]
    mixed = grain.MapDataset.mix([grain.MapDataset.source(each).shuffle(seed=i) for i, each in enumerate(rows)], weights=[1 / 3] * 3)
    batches = mixed.batch(BATCH)  # before it becomes an iterator, as in rivals.py

    def epoch():
        for batch in batches.to_iter_dataset(grain.ReadOptions(num_threads=common.cpus(), prefetch_buffer_size=8)):
            yield torch.from_numpy(np.asarray(batch))

    return epoch, None


def hugging_face(folder):
    import datasets
    import h5py

    columns = [f"f{i:02d}" for i in range(COLUMNS)]
    with h5py.File(folder / "array.h5") as file:
        import pandas as pd

        array = datasets.Dataset.from_pandas(pd.DataFrame(file["x"][:], columns=columns))  # it has no reader for HDF5
    each = [datasets.load_dataset("parquet", data_files=str(folder / "*.parquet"), split="train"), array, datasets.Dataset.from_pandas(frame())]
    each = [d.with_format("arrow").map(rivals.as_one_column, batched=True, batch_size=5_000, remove_columns=columns) for d in each]
    mixed = datasets.interleave_datasets([d.to_iterable_dataset(8).shuffle(seed=0, buffer_size=SUPERBATCH // 3) for d in each], [1 / 3] * 3, seed=0)

    def epoch():
        return map(rivals.to_rows, mixed.with_format("arrow").iter(BATCH))

    return epoch, None


def contestant(name, folder, seconds):
    """Samples a second after a warm-up, and where the CPU time went."""
    try:
        epoch, report = grain(folder) if name == "grain" else hugging_face(folder) if name == "hugging_face" else forebay(name, folder)
    except ImportError as error:
        return {"skipped": str(error)}
    batches = itertools.chain.from_iterable(iter(epoch, None))  # the same one through the warm-up and what is measured: buffers stay filled
    until = time.perf_counter() + 6
    while time.perf_counter() < until:
        next(batches)
    before, samples, begun = report() if report else None, 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        samples += len(next(batches))
    result = {"rows_per_s": samples / (time.perf_counter() - begun)}
    if before is not None:
        after = report()
        for stage in ("read", "decompress", "decode", "assemble"):
            result[f"{stage}_ns_per_row"] = (getattr(after, f"{stage}_ns") - getattr(before, f"{stage}_ns")) / max(samples, 1)
        result["worker_cpu_ns_per_row"] = (after.worker_cpu_ns - before.worker_cpu_ns) / max(samples, 1)
    return result


def run(name, folder, seconds):
    python = common.rival_python() if name in ("grain", "hugging_face") else sys.executable
    argv = [python, __file__, "--contestant", name, "--folder", str(folder), "--seconds", str(seconds)]
    return common.result_of(argv, 600)


STAGES = ("read", "decompress", "decode", "assemble", "worker_cpu")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.contestant:
        print(json.dumps(contestant(o.contestant, common.Path(o.folder), o.seconds)))
        return
    folder = data()
    print(f"{common.machine()}; commit {common.commit()}")
    common.warn_when_busy()
    names = [*SOURCES, "mixture", "grain", "hugging_face"]
    found = common.interleave({name: (lambda name=name: run(name, folder, o.seconds)) for name in names}, o.runs)
    table = common.Table("Mixtures: rows a second", [("", -34), ("median", 9), ("spread", 7), ("of bound", 8), *((s, 10) for s in STAGES)])
    csv = common.Csv("mix.csv", ["loader", "rows_per_s_median", "rows_per_s_min", "rows_per_s_max", "runs", "of_bound_median", "skipped",
                                 *(f"{stage}_ns_per_row" for stage in STAGES)])  # fmt: skip
    for name in (*SOURCES, "mixture"):
        if "skipped" in found[name][0]:
            raise SystemExit(f"{NAMES[name]}: {found[name][0]['skipped']}")
    # The bound of each round, from the sources that ran beside the mixture.
    bounds = [3 / sum(1 / found[name][i]["rows_per_s"] for name in SOURCES) for i in range(o.runs)]
    for name in (*SOURCES, "bound", "mixture", "grain", "hugging_face"):
        rows = [{"rows_per_s": bound} for bound in bounds] if name == "bound" else found[name]
        if "skipped" in rows[0]:
            table.row(NAMES[name], f"not run: {rows[0]['skipped']}")
            csv.add(loader=NAMES[name], skipped=rows[0]["skipped"])
            continue
        rates = [row["rows_per_s"] for row in rows]
        stages = {stage: common.median([row[f"{stage}_ns_per_row"] for row in rows]) for stage in STAGES if f"{stage}_ns_per_row" in rows[0]}
        share = "" if name in SOURCES else common.median([rate / bound for rate, bound in zip(rates, bounds)])
        table.row(NAMES[name], common.si(common.median(rates)), f"{100 * common.spread(rates):.0f}%", f"{share:.2f}" if share else "",
                  *(f"{stages[stage]:.0f} ns" if stage in stages else "" for stage in STAGES))  # fmt: skip
        csv.add(loader=NAMES[name], rows_per_s_median=common.median(rates), rows_per_s_min=min(rates), rows_per_s_max=max(rates), runs=len(rates),
                of_bound_median=share, **{f"{stage}_ns_per_row": value for stage, value in stages.items()})  # fmt: skip
    if o.write:
        csv.write()


if __name__ == "__main__":
    main()
