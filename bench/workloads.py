"""Data and loaders of the five systems for pairs.py and advise.py. Beside what their owners and experts write: recipes/bench.py.

    bench/workloads.py NAME FOLDER [--seconds 3] [--cached]

Runs one of LOADERS over data of recipes/<system>/generate.py in this process, and prints one line of JSON: samples a second after a warm-up, bytes read
and decoded. Every loader gives torch tensors, epoch after epoch.
"""
import argparse
import gc
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import common

sys.path.insert(0, str(common.ROOT))

SIZES = {
    "hydrology": ["hydrology", "--scale", "bench"],
    "jets": ["jets", "--scale", "bench"],
    "neutrino": ["neutrino", "--scale", "bench"],
    "linkage_million": ["linkage", "--scale", "bench"],
    "leak": ["leak", "--scale", "bench"],
    "leak_gzip": ["leak", "--scale", "bench", "--gzip"],
}
WINDOW, PAST = 372, 365


def data(name):
    """The system's data, generated once (some minutes): whole, or not there."""
    folder, (made, *options) = common.scratch() / "workloads" / name, SIZES[name]
    if not folder.exists():
        subprocess.run([sys.executable, str(common.ROOT / "recipes" / made / "generate.py"), str(folder), *options], check=True)
    return folder


def hydrology(folder, cached):
    """Windows without what the recipe does to their values: the way from blocks to batches alone."""
    import forebay as fb
    from recipes.hydrology.generate import NAMES as FORCINGS

    ds = fb.open(sorted(str(p) for p in Path(folder, "series").glob("*/*.parquet")))
    windows = ds.windows(PAST, WINDOW - PAST, time="date", step=np.timedelta64(1, "D"), drop_missing=["streamflow", *FORCINGS])
    outputs = {
        "x": fb.col(*FORCINGS, dtype="float32").steps(0, PAST),
        "y": fb.col("streamflow", dtype="float32").steps(PAST, WINDOW),
        "future": fb.col(*FORCINGS, dtype="float32").steps(PAST, WINDOW),
    }
    decoded = sum(f.rows for f in ds.files) * 16 * 4
    return windows.loader(outputs, batch_size=512, superbatch="16 blocks", memory="2GiB" if cached else decoded // 4, framework="torch")


def neutrino(folder, cached):
    from recipes.neutrino import loader

    events = loader.samples(str(folder))
    decoded = sum(f.rows for f in events.dataset.files) * 24  # four features as float32, the event as int64
    return events.loader(loader.packed(str(folder)), batch_size=512, superbatch="20000 samples", streams=1, memory=decoded // 4, framework="torch")


def linkage(folder, cached):
    import forebay as fb
    from recipes.linkage import loader

    ds = fb.open(str(Path(folder, "text.parquet")))
    return ds.rows().loader(loader.outputs(ds), batch_size=512, as_="tuple", memory="2GiB", framework="torch")


def leak(folder, cached):
    from recipes.leak import loader

    cells = loader.segments(str(Path(folder, "train.h5")))
    return cells.loader(loader.outputs(cells.dataset, augment=True), batch_size=5632, memory="2GiB", framework="torch")


def evaluation(folder, cached):
    from recipes.leak import loader

    recordings = loader.recordings(str(Path(folder, "train.h5")))
    return recordings.loader(loader.recording_outputs(recordings.dataset), batch_size=16, shuffle=False, memory="64MiB", framework="torch")


LOADERS = {"hydrology": hydrology, "neutrino": neutrino, "linkage": linkage, "leak": leak, "evaluation": evaluation}
OPENED_ANEW = ("linkage", "evaluation")  # each epoch: opening is part of it; an evaluation is one pass, and what it has inflated would serve the next


def samples_of(batch):
    if isinstance(batch, tuple):
        return len(batch[0])
    return len(batch["event_lengths"]) if "event_lengths" in batch else len(next(iter(batch.values())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=LOADERS)
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cached", action="store_true", help="hydrology: all data fit into the budget")
    o = parser.parse_args()
    if o.cached and o.name != "hydrology":
        parser.error("--cached is of hydrology")
    import torch  # noqa: F401  before anything is measured, as a training has it

    import forebay  # noqa: F401

    whole = o.name == "linkage"  # epochs: construction is part of them
    warm = 0.0 if whole else None  # until the first batch is there
    gc.collect()  # what torch's import left would be collected (0.1 s) in whichever run happens to reach the collector's threshold
    n, begin, loader, over = 0, time.perf_counter(), None, False
    while not over:
        if loader is None or o.name in OPENED_ANEW:
            loader = LOADERS[o.name](o.folder, o.cached)
        for batch in loader:
            now = time.perf_counter()
            warm = now + max(1.0, o.seconds / 2) if warm is None else warm
            if now < warm:
                begin, n = now, 0
                continue
            n += samples_of(batch)
            if not whole and now - begin > o.seconds:
                over = True
                break
        over = over or whole and time.perf_counter() - begin > o.seconds
    out, r = {"samples_per_s": n / (time.perf_counter() - begin)}, loader.report()
    print(json.dumps(out | {"bytes_read": r.bytes_read, "bytes_decoded": r.bytes_decoded, "epochs": r.epochs_begun}))


if __name__ == "__main__":
    main()
