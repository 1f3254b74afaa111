"""The contestants of workloads.py: each of the five systems with Forebay, and as an expert writes it in NumPy.

    bench/workload_rivals.py NAME FOLDER [--seconds 3] [--workers 0]

Runs one contestant over data of recipes/<workload>/generate.py in this process and prints one line of JSON: samples a second after a
warm-up, bytes read and decoded where it is Forebay. Every contestant gives torch tensors, epoch after epoch.

The experts read as much at once as mixes well (50 basins, a file of events, 50,000 records, all recordings), make one array of it, and cut
shuffled batches out of that with one take: in the training process, or in two worker processes of a DataLoader.
"""
import argparse
import gc
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
FORCINGS = ["prcp", "tmin", "tmax", "srad", "vp", "pet", "swe", "wind_u", "wind_v", "soil_1", "soil_2", "soil_3", "soil_4", "press", "dew"]
WINDOW, PAST = 372, 365


def recipe(name):
    sys.path.insert(0, str(ROOT / "recipes" / name))
    import loader

    return loader


# ---- hydrology ----


def hydrology_forebay(folder, o):
    import forebay as fb

    paths = sorted(str(p) for p in Path(folder, "series").glob("*/*.parquet"))
    ds = fb.open(paths)
    windows = ds.windows(PAST, WINDOW - PAST, time="date", step=np.timedelta64(1, "D"), drop_missing=["streamflow", *FORCINGS])
    outputs = {
        "x": fb.col(*FORCINGS, dtype="float32").steps(0, PAST),
        "y": fb.col("streamflow", dtype="float32").steps(PAST, WINDOW),
        "future": fb.col(*FORCINGS, dtype="float32").steps(PAST, WINDOW),
    }
    decoded = sum(f.rows for f in ds.files) * 16 * 4
    return windows.loader(outputs, batch_size=512, superbatch="16 blocks", memory="2GiB" if o.cached else decoded // 4, framework="torch")


def hydrology_expert(folder, o, part=0, parts=1):
    import pyarrow.parquet as pq

    paths = sorted(Path(folder, "series").glob("*/*.parquet"))[part::parts]
    rng = np.random.default_rng(part)
    columns = ["streamflow", *FORCINGS]
    while True:
        order = rng.permutation(len(paths))
        for s in range(0, len(order), 50):
            series, starts, at = [], [], 0
            for i in order[s : s + 50]:
                table = pq.read_table(paths[i], columns=columns, use_threads=True)
                matrix = np.stack([table[c].to_numpy().astype(np.float32) for c in columns], axis=1)
                bad = np.concatenate([[0], np.cumsum(np.isnan(matrix).any(axis=1))])
                first = np.flatnonzero(bad[WINDOW:] == bad[:-WINDOW])
                series.append(matrix)
                starts.append(first + at)
                at += len(matrix)
            data, starts = np.concatenate(series), rng.permutation(np.concatenate(starts))
            windows = np.lib.stride_tricks.sliding_window_view(data, WINDOW, axis=0)
            for b in range(0, len(starts) - 511, 512):
                batch = np.ascontiguousarray(windows[starts[b : b + 512]].transpose(0, 2, 1))
                yield {"x": torch.from_numpy(batch[:, :PAST, 1:]), "y": torch.from_numpy(batch[:, PAST:, 0]),
                       "future": torch.from_numpy(batch[:, PAST:, 1:])}, 512


# ---- neutrino ----


def chosen(folder, o):
    import pandas as pd

    meta = pd.read_parquet(Path(folder, "train_meta.parquet"))
    return meta if not o.some else meta.sample(len(meta) // 100, random_state=0).sort_index()


def neutrino_forebay(folder, o):
    r = recipe("neutrino")
    events = r.samples(str(folder), chosen(folder, o)["event_id"].tolist() if o.some else None)
    decoded = sum(f.rows for f in events.dataset.files) * 24  # four features as float32, the event as int64
    budget = decoded // (2 if o.some else 4)  # all blocks are read for one event in 100, and the longest events are as long
    return events.loader(r.packed(str(folder)), batch_size=512, superbatch="20000 samples", streams=1, memory=budget, framework="torch")


def neutrino_expert(folder, o, part=0, parts=1):
    import pyarrow.parquet as pq

    meta = chosen(folder, o)
    groups = [g for _, g in meta.groupby("batch_id")][part::parts]
    rng = np.random.default_rng(part)
    while True:
        for i in rng.permutation(len(groups)):
            g = groups[i]
            table = pq.read_table(Path(folder, "train", f"batch_{g['batch_id'].iloc[0]}.parquet"), columns=["time", "charge", "sensor_id", "auxiliary"])
            data = np.stack([table[c].to_numpy().astype(np.float32) for c in table.column_names], axis=1)
            first, n = g["first_pulse_index"].to_numpy(), (g["last_pulse_index"] - g["first_pulse_index"] + 1).to_numpy()
            target, event = g[["azimuth", "zenith"]].to_numpy(np.float32), g["event_id"].to_numpy()
            order = rng.permutation(len(g))
            for b in range(0, len(order) - (511 if not o.some else 0), 512):
                at = order[b : b + 512]
                lengths = n[at]
                slot = np.repeat(np.arange(len(at)), lengths)
                offsets = np.concatenate([[0], np.cumsum(lengths)])
                rows = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - first[at], lengths)
                yield {"pulse_features": torch.from_numpy(data[rows]), "pulse_to_event": torch.from_numpy(slot), "event_lengths": torch.from_numpy(lengths),
                       "targets": torch.from_numpy(target[at]), "event_ids": torch.from_numpy(event[at])}, len(at)


# ---- linkage: opening and construction are counted, so every epoch begins with open() ----


def linkage_forebay(folder, o):
    import forebay as fb

    ds = fb.open(str(Path(folder, "text.parquet")))
    return ds.rows().loader(recipe("linkage").outputs(ds), batch_size=512, as_="tuple", memory="2GiB", framework="torch")


def linkage_expert(folder, o, part=0, parts=1):
    import pandas as pd

    letters, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
    vocabulary = [a + b for x, y in ((letters, letters), (digits, digits), (letters, digits), (digits, letters)) for a in x for b in y]
    place = np.full(65536, -1, np.int32)
    for k, gram in enumerate(vocabulary):
        place[ord(gram[0]) * 256 + ord(gram[1])] = k
    rng = np.random.default_rng(part)
    while True:
        frame = pd.read_parquet(Path(folder, "text.parquet"))
        columns = [frame[name].astype(str).tolist() for name in frame.columns[:-2]]
        joined = ["".join(map(str, row)).lower().encode("latin-1", "replace") for row in zip(*columns)]
        lengths = np.fromiter(map(len, joined), np.int64, len(joined))
        flat, offsets = np.frombuffer(b"".join(joined), np.uint8).astype(np.int32), np.concatenate([[0], np.cumsum(lengths)])
        gram = place[flat[:-1] * 256 + flat[1:]]
        bits = np.frombuffer("".join(frame["bloomfilter"]).encode(), np.uint8).reshape(len(frame), -1) - 48
        uid = frame["uid"].to_numpy()
        order = rng.permutation(len(frame))
        for b in range(0, len(order) - 511, 512):
            at = order[b : b + 512]
            n = lengths[at] - 1
            row = np.repeat(np.arange(512), n)
            index = np.arange(n.sum()) - np.repeat(np.concatenate([[0], np.cumsum(n)])[:-1] - offsets[at], n)
            which = gram[index]
            labels = np.zeros((512, len(vocabulary)), np.float32)
            labels[row[which >= 0], which[which >= 0]] = 1
            yield (torch.from_numpy(bits[at].astype(np.float32)), torch.from_numpy(labels), torch.from_numpy(uid[at])), 512


# ---- leak ----


def leak_forebay(folder, o):
    r = recipe("leak")
    cells = r.segments(str(Path(folder, "train.h5")))
    return cells.loader(r.outputs(cells.dataset, augment=True), batch_size=5632, memory="2GiB", framework="torch")


def leak_expert(folder, o, part=0, parts=1):
    import h5py

    with h5py.File(Path(folder, "train.h5")) as f:
        mel, label = f["segments_mel"][:], f["labels"][:]
    per = mel.shape[1] * mel.shape[2]
    mels = mel.reshape(len(mel) * per, 1, *mel.shape[-2:])
    rng = np.random.default_rng(part)
    band = np.arange(mels.shape[2])
    while True:
        order = rng.permutation(len(mels))[part::parts]
        for b in range(0, len(order) - 5631, 5632):
            at = order[b : b + 5632]
            x = mels[at].astype(np.float32)
            for _ in range(2):
                width = rng.integers(0, 7, len(at))
                start = rng.integers(0, len(band) - width + 1)
                x[((band >= start[:, None]) & (band < (start + width)[:, None]))[:, None, :, None] & np.ones_like(x, bool)] = 0
            yield {"mel": torch.from_numpy(x), "label": torch.from_numpy(label[at // per])}, 5632


def evaluation_forebay(folder, o):
    r = recipe("leak")
    recordings = r.recordings(str(Path(folder, "train.h5")))
    return recordings.loader(r.recording_outputs(recordings.dataset), batch_size=16, shuffle=False, memory="64MiB", framework="torch")


def evaluation_expert(folder, o, part=0, parts=1):
    """File by file through h5py, as the owner evaluates."""
    import h5py

    with h5py.File(Path(folder, "train.h5")) as f:
        mel, label = f["segments_mel"], f["labels"]
        while True:
            for i in range(len(label)):
                x = mel[i].astype(np.float32)
                yield {"mel": torch.from_numpy(x.reshape(-1, 1, *x.shape[-2:])), "label": int(label[i])}, 1


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, make, folder, options):
        self.make, self.folder, self.options = make, folder, options

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        yield from self.make(self.folder, self.options, worker.id if worker else 0, worker.num_workers if worker else 1)


def batches(make, folder, o):
    if make.__name__.endswith("_expert"):
        stream = Stream(make, folder, o)
        yield from torch.utils.data.DataLoader(stream, batch_size=None, num_workers=o.workers) if o.workers else stream
        return
    loader = make(folder, o)
    o.loader = loader
    while True:
        for batch in loader:
            tensor = batch[0] if isinstance(batch, tuple) else next(iter(batch.values()))
            yield batch, batch["event_lengths"].shape[0] if "event_lengths" in (batch if isinstance(batch, dict) else ()) else len(tensor)
        if make in (linkage_forebay, evaluation_forebay):  # an evaluation is one pass: what it has inflated would serve the next
            loader = o.loader = make(folder, o)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("--some", action="store_true", help="neutrino: 1 event in 100")
    o = parser.parse_args()
    o.loader = None
    n, source = 0, batches(globals()[o.name], o.folder, o)
    warm = time.perf_counter() + (0 if o.name.startswith("linkage") else max(1.0, o.seconds / 2))
    whole = 0
    if o.name.startswith("linkage"):  # whole epochs: construction is part of them, and the expert's last batch is a whole one
        import pyarrow.parquet as pq

        whole = pq.read_metadata(Path(o.folder, "text.parquet")).num_rows
        whole -= whole % 512 if o.name.endswith("expert") else 0
    gc.collect()  # what torch's import left would be collected (0.1 s) in whichever contestant happens to reach the collector's threshold
    begin = time.perf_counter()
    for _, k in source:
        now = time.perf_counter()
        if now < warm:
            begin, n = now, 0
            continue
        n += k
        if now - begin > o.seconds and (whole == 0 or n % whole == 0):
            break
    out = {"samples_per_s": n / (time.perf_counter() - begin)}
    if o.loader is not None:
        r = o.loader.report()
        out |= {"bytes_read": r.bytes_read, "bytes_decoded": r.bytes_decoded, "epochs": r.epochs_begun}
    print(json.dumps(out), flush=True)
    import os

    os._exit(0)  # worker processes and threads need not be waited for


if __name__ == "__main__":
    main()
