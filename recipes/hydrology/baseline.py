"""The loader that basins are trained with today: a map-style Dataset over a cache of polars frames, batches drawn from 50 files each.

    train = baseline.loader("data", gauges, TARGET, FEATURES, STATIC, mean, std, batch_size=512, workers=10)

Every sample slices a frame, makes NumPy of it, casts that and copies it into a tensor. The cache is locked as a whole.
"""

import atexit
import collections
import os
import pathlib
import random
import threading

import numpy as np
import polars as pl
import torch
from torch.utils.data import DataLoader, Dataset, Sampler


class FileCache:
    """The last frames that were read; one lock for all of them."""

    def __init__(self, max_files=50):
        self.max_files, self.frames, self._lock = max_files, collections.OrderedDict(), threading.Lock()

    def get(self, path, columns):
        with self._lock:
            if path in self.frames:
                self.frames.move_to_end(path)
                return self.frames[path]
            frame = pl.read_parquet(path, columns=columns)
            self.frames[path] = frame
            if len(self.frames) > self.max_files:
                self.frames.popitem(last=False)
            return frame

    def __getstate__(self):  # a worker begins with an empty cache
        return self.max_files

    def __setstate__(self, max_files):
        self.__init__(max_files)


class BasinDataset(Dataset):
    """One window an item, found by its number in an index of (file, first row)."""

    def __init__(self, folder, gauges, target, features, static, mean=None, std=None, input=365, output=7, part=(0.0, 0.7)):
        folder, wanted = pathlib.Path(folder), set(gauges)
        self.paths = sorted(path for path in folder.glob("series/*/*.parquet") if path.stem in wanted)
        self.target, self.features, self.input, self.length = target, list(features), input, input + output
        tables = [pl.read_parquet(path) for path in sorted(folder.glob("attributes/*.parquet"))]
        attributes = {}
        for table in tables:
            for row in table.iter_rows(named=True):
                attributes.setdefault(row["gauge_id"], {}).update(row)
        self.static = {gauge: torch.tensor([attributes[gauge][name] for name in static], dtype=torch.float32) for gauge in wanted}
        self.cache, self.index = FileCache(), []
        for f, path in enumerate(self.paths):
            self.index += [(f, start) for start in self._starts(path, part)]
        mean, std = (mean, std) if mean is not None else self._moments()
        self.mean, self.std = np.asarray(mean, np.float32), np.asarray(std, np.float32)

    def _moments(self):
        """Mean and std of target and features over the rows that lie in windows, each once: another pass over all files."""
        columns, starts, n, total, squares = [self.target, *self.features], collections.defaultdict(list), 0, 0.0, 0.0
        for f, start in self.index:
            starts[f].append(start)
        for f, firsts in starts.items():
            values = pl.read_parquet(self.paths[f], columns=columns).select(columns).to_numpy().astype(np.float64)
            inside = np.zeros(len(values) + 1, np.int64)
            np.add.at(inside, firsts, 1)
            np.add.at(inside, np.add(firsts, self.length), -1)
            rows = values[np.cumsum(inside[:-1]) > 0]
            n, total, squares = n + len(rows), total + rows.sum(0), squares + (rows**2).sum(0)
        std = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0))
        return total / n, np.where(std == 0, 1, std)

    def _starts(self, path, part):
        frame = pl.read_parquet(path, columns=["date", self.target, *self.features])
        values = frame.drop("date").to_numpy()
        breaks = np.flatnonzero(np.diff(frame["date"].to_numpy()) != np.timedelta64(1, "D")) + 1
        bad = np.concatenate([[0], np.cumsum(np.isnan(values).any(axis=1))])
        low, high = (int(f * len(values) + 1e-6) for f in part)
        for begin, end in zip([0, *breaks], [*breaks, len(values)]):
            yield from (s for s in range(begin, end - self.length + 1) if low <= s + self.input < high and bad[s + self.length] == bad[s])

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        f, start = self.index[i]
        frame = self.cache.get(self.paths[f], ["date", self.target, *self.features])
        window = frame.slice(start, self.length)
        past, future = window.slice(0, self.input), window.slice(self.input)
        scale = (self.mean[1:], self.std[1:])
        X = torch.tensor((past.select(self.features).to_numpy().astype(np.float32) - scale[0]) / scale[1], dtype=torch.float32)
        ahead = torch.tensor((future.select(self.features).to_numpy().astype(np.float32) - scale[0]) / scale[1], dtype=torch.float32)
        y = torch.tensor((future[self.target].to_numpy().astype(np.float32) - self.mean[0]) / self.std[0], dtype=torch.float32)
        gauge = self.paths[f].stem
        end = int(past["date"].to_numpy()[-1].astype("datetime64[ns]").astype(np.int64))
        return {"X": X, "y": y, "future": ahead, "static": self.static[gauge], "gauge": gauge, "input_end_date": end}


class FileGroupedBatchSampler(Sampler):
    """Batches of samples from a few files each, in random order."""

    def __init__(self, dataset, batch_size, files_per_batch=50, seed=0):
        self.batch_size, self.files_per_batch, self.random, self.n = batch_size, files_per_batch, random.Random(seed), len(dataset)
        self.by_file = collections.defaultdict(list)
        for i, (f, _) in enumerate(dataset.index):
            self.by_file[f].append(i)

    def __len__(self):
        return -(-self.n // self.batch_size)

    def __iter__(self):
        left = {f: self.random.sample(items, len(items)) for f, items in self.by_file.items()}
        while left:
            files = self.random.sample(list(left), min(self.files_per_batch, len(left)))
            each, batch = -(-self.batch_size // len(files)), []
            for f in files:
                take = min(each, len(left[f]), self.batch_size - len(batch))
                batch += [left[f].pop() for _ in range(take)]
                if not left[f]:
                    del left[f]
            yield batch


def leaves(_worker):
    """A worker that is spawned ends without its libraries' static destructors, which abort it where their threads still run."""
    atexit.register(os._exit, 0)


def loader(folder, gauges, target, features, static, mean=None, std=None, batch_size=512, workers=10, seed=0, pin_memory=False, **options):
    """A DataLoader over the training part; its moments, where none are given."""
    dataset = BasinDataset(folder, gauges, target, features, static, mean, std, **options)
    return DataLoader(
        dataset, batch_sampler=FileGroupedBatchSampler(dataset, batch_size, seed=seed), num_workers=workers, pin_memory=pin_memory,
        persistent_workers=workers > 0, multiprocessing_context="spawn" if workers else None,  # polars' threads do not survive a fork
        worker_init_fn=leaves,
    )  # fmt: skip
