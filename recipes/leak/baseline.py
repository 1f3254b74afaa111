"""What spectrograms are trained and evaluated with today: one segment an item, SpecAugment in the training loop, recordings one at a time.

    for mel, label in baseline.loader("train.h5", batch_size=5632):
        mel = baseline.spec_augment(mel, generator, …)
    for mel, label in baseline.recordings("val.h5"):
        …
"""

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler


class SegmentDataset(Dataset):
    """One short segment an item, read from the file when it is asked for; with in_memory, from an array."""

    def __init__(self, path, in_memory=False):
        self.path, self.file = str(path), None
        with h5py.File(self.path) as file:
            self.labels, self.shape = file["labels"][()], file["segments_mel"].shape
            self.cells = file["segments_mel"][()] if in_memory else None

    def __len__(self):
        return int(np.prod(self.shape[:3]))

    def __getitem__(self, i):
        place = np.unravel_index(i, self.shape[:3])
        if self.cells is None and self.file is None:  # once a worker
            self.file = h5py.File(self.path, rdcc_nbytes=32 * 2**20)
        cells = self.cells if self.cells is not None else self.file["segments_mel"]
        cell = np.asarray(cells[tuple(place)], np.float32).reshape(1, *self.shape[-2:])
        return torch.from_numpy(cell), int(self.labels[place[0]])


def loader(path, batch_size=5632, workers=8, leak=None, factor=1, in_memory=False, pin_memory=False):
    """A shuffling DataLoader; with `leak`, that class is drawn `factor` times as often."""
    dataset = SegmentDataset(path, in_memory)
    sampler = None
    if leak is not None:
        weights = np.repeat(np.where(dataset.labels == leak, factor, 1), len(dataset) // len(dataset.labels))
        sampler = WeightedRandomSampler(torch.from_numpy(weights.astype(np.float64)), int(weights.sum()))
    return DataLoader(
        dataset, batch_size, shuffle=sampler is None, sampler=sampler, num_workers=workers, persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None, pin_memory=pin_memory,
    )  # fmt: skip


def spec_augment(mel, rng, time_masks=0, max_time=0, freq_masks=2, max_freq=6):
    """Masks over time and frequency, sample by sample, in place."""
    mels, frames = mel.shape[-2:]
    for sample in mel:
        for _ in range(time_masks):
            width = int(rng.integers(0, max_time + 1))
            at = int(rng.integers(0, frames - width + 1))
            sample[..., at : at + width] = 0
        for _ in range(freq_masks):
            width = int(rng.integers(0, max_freq + 1))
            at = int(rng.integers(0, mels - width + 1))
            sample[..., at : at + width, :] = 0
    return mel


def recordings(path):
    """Evaluation: every recording on its own, (segments, 1, mels, frames) and its label."""
    with h5py.File(path) as file:
        cells, labels = file["segments_mel"], file["labels"][()]
        for i, label in enumerate(labels):
            mel = np.asarray(cells[i], np.float32).reshape(-1, 1, *cells.shape[-2:])
            yield torch.from_numpy(mel), int(label)
