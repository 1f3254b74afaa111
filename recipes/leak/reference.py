"""What the batches of spectrograms must hold, by definition: h5py and NumPy.

A segment is named by its number, counted through files, long and short segments; a recording ("file") by its number.
"""

import json

import h5py
import numpy as np


class Reference:
    """Segments of one HDF5 file as generate.py writes it."""

    def __init__(self, path):
        with h5py.File(path) as file:
            self.stored, self.file_labels = file["segments_mel"][()], file["labels"][()]
            self.names = json.loads(file.attrs["labels_json"])
        self.files, self.long, self.short = self.stored.shape[:3]
        self.per_file = self.long * self.short
        self.cells = self.stored.reshape(-1, 1, *self.stored.shape[-2:])

    def __len__(self):
        return len(self.cells)

    def mel(self, ids, channels_last=False):
        """(B, 1, mels, frames), or (B, mels, frames, 1), in float32."""
        values = self.cells[ids].astype(np.float32)
        return np.moveaxis(values, 1, -1) if channels_last else values

    def labels(self, ids):
        """(B,): the label of the recording."""
        return self.file_labels[np.asarray(ids) // self.per_file]

    def oversampled(self, factors):
        """How often each segment comes in an epoch."""
        return np.array([factors.get(int(label), 1) for label in self.labels(np.arange(len(self)))])

    def file_mel(self, files):
        """(B, segments, 1, mels, frames) of whole recordings in float32."""
        return self.mel(np.arange(len(self))).reshape(self.files, self.per_file, 1, *self.stored.shape[-2:])[files]


def masked_bands(plain, masked, value=0.0):
    """What SpecAugment did to (B, 1, mels, frames): (bool (B, mels), bool (B, frames)) of masked bands and times; everything else must be equal."""
    hidden = masked != plain
    assert (masked[hidden] == value).all(), "a masked value is not the mask's"
    at = (masked == value).all(axis=1)
    bands, times = at.all(axis=2), at.all(axis=1)
    covered = bands[:, :, None] | times[:, None, :]
    assert not (hidden[:, 0] & ~covered).any(), "a change that is no band and no time"
    return bands, times
