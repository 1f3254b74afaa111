"""The loaders that events are trained with today: whole files of pulses behind an LRU cache, one event an item.

    train = baseline.loader("data", batch_size=512)                          # order "file": mixed inside a file alone
    train = baseline.loader("data", batch_size=512, order="random")          # a RandomSampler over all files
    train = baseline.loader("data", batch_size=512, order="none")            # what they train with, since random takes 11.6 s a batch

`pack_doms` is the torch code that groups the pulses of a batch by sensor.
"""

import functools
import pathlib

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler

FEATURES = ("time", "charge", "sensor_id", "auxiliary")


class EventDataset(Dataset):
    """One event an item; the last files that were read stay in memory."""

    def __init__(self, folder, ids=None, max_files=2):
        self.folder = pathlib.Path(folder)
        meta = pd.read_parquet(self.folder / "train_meta.parquet")
        if ids is not None:
            meta = meta[meta["event_id"].isin(ids)]
        self.meta = meta.reset_index(drop=True)
        self.batch_id, self.event_id = self.meta["batch_id"].to_numpy(), self.meta["event_id"].to_numpy()
        self.first, self.last = self.meta["first_pulse_index"].to_numpy(), self.meta["last_pulse_index"].to_numpy()
        self.targets = torch.tensor(self.meta[["azimuth", "zenith"]].to_numpy(np.float32))
        self.file = functools.lru_cache(max_files)(self._read)

    def _read(self, batch_id):
        return pq.read_table(self.folder / "train" / f"batch_{batch_id}.parquet", columns=list(FEATURES))

    def __len__(self):
        return len(self.event_id)

    def __getitem__(self, i):
        rows = self.file(int(self.batch_id[i])).slice(int(self.first[i]), int(self.last[i] - self.first[i] + 1))
        features = np.stack([rows[name].to_numpy(zero_copy_only=False).astype(np.float32) for name in FEATURES], axis=1)
        return torch.from_numpy(features), self.targets[i], int(self.event_id[i])


class FileOrder(Sampler):
    """Files in random order, their events in random order: nothing is mixed across files."""

    def __init__(self, dataset, seed=0):
        self.rng = np.random.default_rng(seed)
        self.files = [np.flatnonzero(dataset.batch_id == f) for f in np.unique(dataset.batch_id)]

    def __len__(self):
        return sum(map(len, self.files))

    def __iter__(self):
        for f in self.rng.permutation(len(self.files)):
            yield from self.rng.permutation(self.files[f]).tolist()


def collate(items):
    """Packed: pulse_features (ΣL, 4), pulse_to_event (ΣL), event_lengths (B), targets (B, 2), event_ids (B)."""
    features, targets, ids = zip(*items)
    lengths = torch.tensor([len(f) for f in features])
    return {
        "pulse_features": torch.cat(features),
        "pulse_to_event": torch.repeat_interleave(torch.arange(len(features)), lengths),
        "event_lengths": lengths,
        "targets": torch.stack(targets),
        "event_ids": torch.tensor(ids),
    }


def loader(folder, ids=None, batch_size=512, order="file", workers=0, seed=0):
    """A DataLoader of packed batches."""
    dataset = EventDataset(folder, ids)
    sampler = {"file": lambda of: FileOrder(of, seed), "random": RandomSampler, "none": SequentialSampler}[order](dataset)
    return DataLoader(dataset, batch_size, sampler=sampler, collate_fn=collate, num_workers=workers, persistent_workers=workers > 0)


def pack_doms(batch, geometry, max_doms=128, first_pulses=8):
    """Packed pulses grouped by sensor: (B, D, 7 + 3K) and mask (B, D), with torch's sorts and scatters.

    geometry: (sensors, 3). Channels: place, count, first pulses of (time, charge, auxiliary), earliest time, std of time, summed charge.
    Sensors with equal earliest times come by number.
    """
    pulses, event = batch["pulse_features"], batch["pulse_to_event"]
    n, n_sensors = len(batch["event_lengths"]), len(geometry)
    time, charge, sensor, aux = pulses[:, 0], pulses[:, 1], pulses[:, 2].long(), pulses[:, 3]
    key = event * n_sensors + sensor
    order = torch.argsort(time, stable=True)
    order = order[torch.argsort(key[order], stable=True)]
    doms, inverse, count = torch.unique_consecutive(key[order], return_inverse=True, return_counts=True)
    place = torch.arange(len(order)) - (torch.cumsum(count, 0) - count)[inverse]
    t, q, a = (time[order] - 1e4) / 3e4, torch.log10(torch.clamp(charge[order], min=1e-6)) / 3, aux[order] - 0.5
    first = torch.zeros(len(doms), first_pulses, 3)
    keep = place < first_pulses
    first[inverse[keep], place[keep]] = torch.stack([t, q, a], 1)[keep]
    earliest = torch.full((len(doms),), torch.inf).scatter_reduce(0, inverse, t, "amin")
    total = torch.zeros(len(doms)).scatter_add(0, inverse, charge[order])
    mean = torch.zeros(len(doms)).scatter_add(0, inverse, t) / count
    std = (torch.zeros(len(doms)).scatter_add(0, inverse, (t - mean[inverse]) ** 2) / count).sqrt()
    rows = torch.cat([geometry[doms % n_sensors], count[:, None].float(), first.flatten(1), earliest[:, None], std[:, None], total[:, None]], 1)
    of = doms // n_sensors
    by_time = torch.argsort(earliest, stable=True)
    by_time = by_time[torch.argsort(of[by_time], stable=True)]
    of = of[by_time]
    per_event = torch.bincount(of, minlength=n)
    rank = torch.arange(len(of)) - (torch.cumsum(per_event, 0) - per_event)[of]
    keep = rank < max_doms
    out, mask = torch.zeros(n, max_doms, rows.shape[1]), torch.zeros(n, max_doms, dtype=torch.bool)
    out[of[keep], rank[keep]] = rows[by_time[keep]]
    mask[of[keep], rank[keep]] = True
    return out, mask
