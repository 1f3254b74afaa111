"""Segments as an expert loads them: recordings as one array, a class several times by its segments' numbers, the masks of a batch in one product.

    train = expert.Segments("train.h5", leak=0, factor=8, batch_size=5632)
"""

import h5py
import numpy as np

from recipes.expert import Expert

RECORDINGS = 64  # read together


class Segments(Expert):
    """Batches of mel and label."""

    def __init__(self, path, batch_size=5632, seed=0, leak=None, factor=1, freq_masks=2, max_freq=6):
        self.path, self.masks, self.max_freq = path, freq_masks, max_freq
        with h5py.File(path) as file:
            self.labels, cells = file["labels"][()], file["segments_mel"]
            self.shape, self.a_recording = cells.shape[-2:], int(np.prod(cells.shape[1:3]))
            piece_bytes = RECORDINGS * cells.dtype.itemsize * int(np.prod(cells.shape[1:]))
        self.times = np.where(self.labels == leak, factor, 1)
        pieces = [slice(begin, min(begin + RECORDINGS, len(self.labels))) for begin in range(0, len(self.labels), RECORDINGS)]
        super().__init__(pieces, int(self.times.sum()) * self.a_recording, piece_bytes, batch_size, seed)

    def read(self, pieces):
        with h5py.File(self.path) as file:
            cells = np.concatenate([file["segments_mel"][piece].reshape(-1, 1, *self.shape) for piece in pieces])
        labels, times = (np.repeat(np.concatenate([of[piece] for piece in pieces]), self.a_recording) for of in (self.labels, self.times))
        segments = np.repeat(np.arange(len(cells)), times)
        return (cells, labels, segments), len(segments)

    def take(self, lot, rows):
        cells, labels, segments = lot
        at = segments[rows]
        mel, band = cells[at].astype(np.float32), np.arange(self.shape[0])
        for _ in range(self.masks):
            width = self.rng.integers(0, self.max_freq + 1, len(at))
            begin = self.rng.integers(0, len(band) - width + 1)
            mel *= ((band < begin[:, None]) | (band >= (begin + width)[:, None]))[:, None, :, None]
        return {"mel": mel, "label": labels[at]}
