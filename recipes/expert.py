"""The loader that somebody writes who knows pyarrow, h5py and NumPy well, and has a few days: what the recipes' expert.py share.

Data are pieces that are read whole (a basin, a file of events, a run of HDF5 rows). A lot of them, drawn at random, is read into a few arrays, its
samples are permuted together, and a batch is a take of each array: in the training process, since moving batches out of worker processes costs more
than making them. One thread reads the next lot, and another makes the next batches, while training goes on.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

LOT_BYTES, KEPT_BYTES = 256 << 20, 4 << 30
BATCHES_AHEAD = 4


def runs(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Numbers of the rows of some runs of rows, one run after the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(begins - (ends - lengths), lengths)


def joined(parts: list[Any]) -> Any:
    """A batch as torch tensors, out of what several lots give to it."""
    first = parts[0]
    if isinstance(first, dict):
        return {name: joined([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(map(joined, zip(*parts)))
    return torch.from_numpy(first if len(parts) == 1 else np.concatenate(parts))


def ahead(items: Iterable[Any], n: int) -> Iterator[Any]:
    """The items, of which a thread makes n before they are asked for."""
    items, end = iter(items), object()
    thread = ThreadPoolExecutor(1)
    try:
        coming = collections.deque(thread.submit(next, items, end) for _ in range(n))
        while (item := coming.popleft().result()) is not end:
            coming.append(thread.submit(next, items, end))
            yield item
            del item  # a lot, before the next one is waited for
    finally:
        thread.shutdown(cancel_futures=True)


class Expert:
    """An iterable of shuffled batches, epoch after epoch. Data that have room are read once: their lots stay as they were drawn in the first epoch.

    A recipe's says in `read` what a lot of pieces holds, and how many samples that are, and in `take` what a batch is of some of them.
    """

    def __init__(self, pieces: Sequence[Any], samples: int, piece_bytes: int, batch_size: int, seed: int = 0, drop_last: bool = False) -> None:
        self.pieces, self.samples, self.batch_size, self.drop_last = pieces, samples, batch_size, drop_last
        self.together = max(2, LOT_BYTES // max(1, piece_bytes))
        self.rng = np.random.default_rng(seed)
        self.keeps, self.kept, self.complete = len(pieces) * piece_bytes <= KEPT_BYTES, [], False

    def read(self, pieces: Sequence[Any]) -> tuple[Any, int]:
        raise NotImplementedError

    def take(self, lot: Any, rows: np.ndarray) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        whole, rest = divmod(self.samples, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def lots(self) -> Iterator[tuple[Any, int]]:
        if self.complete:
            yield from (self.kept[k] for k in self.rng.permutation(len(self.kept)))
            return
        order, self.kept = self.rng.permutation(len(self.pieces)), []
        for begin in range(0, len(order), self.together):
            lot = self.read([self.pieces[k] for k in order[begin : begin + self.together]])
            if self.keeps:
                self.kept.append(lot)
            yield lot
        self.complete = self.keeps

    def __iter__(self) -> Iterator[Any]:
        return ahead(self.batches(), BATCHES_AHEAD)

    def batches(self) -> Iterator[Any]:
        parts, missing = [], self.batch_size
        for lot, n in ahead(self.lots(), 1):
            rows = self.rng.permutation(n)
            while len(rows):
                some, rows = rows[:missing], rows[missing:]
                parts.append(self.take(lot, some))
                missing -= len(some)
                if not missing:
                    yield joined(parts)
                    parts, missing = [], self.batch_size
            del lot  # before the next one is read
        if parts and not self.drop_last:
            yield joined(parts)
