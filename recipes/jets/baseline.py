"""The loaders that jets are trained with today.

    train = baseline.loader(files, batch_size=256)                       # the first: one read chunk of 128 rows is kept
    train = baseline.loader(files, batch_size=256, cached=True)          # the second: ten of 1,024 rows a worker, matrices made a chunk at a time
    train = baseline.loader(files, batch_size=256, preload=True)         # everything in memory
"""

import collections

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def matrices(flat, n_particles, particles):
    """(n, P, P, E) from the padded upper triangles of n events."""
    out = np.zeros((len(flat), particles, particles, flat.shape[-1]), np.float32)
    for p in np.unique(n_particles):
        at = np.flatnonzero(n_particles == p)
        i, j = np.triu_indices(p, 1)
        values = flat[at, : len(i)]
        out[at[:, None], i, j] = values
        out[at[:, None], j, i] = values
    return out


class JetDataset(Dataset):
    """One event an item, out of a few read chunks that are kept; files are opened once a process."""

    def __init__(self, files, read_chunk=128, max_chunks=1, whole_chunks=False, preload=False):
        self.files, self.read_chunk, self.max_chunks, self.whole_chunks = [str(f) for f in files], read_chunk, max_chunks, whole_chunks
        rows = []
        for path in self.files:
            with h5py.File(path) as file:
                rows.append(len(file["labels"]))
                self.particles, self.features = int(file.attrs["max_particles"]), len(file.attrs["feature_names"])
        self.ends = np.cumsum(rows)
        self.open, self.chunks = {}, collections.OrderedDict()
        self.preloaded = [self._read(f, 0, n) for f, n in enumerate(rows)] if preload else None

    def _read(self, f, begin, end):
        if f not in self.open:
            self.open[f] = h5py.File(self.files[f], rdcc_nbytes=2**30 if self.whole_chunks else 2**20)
        file = self.open[f]
        nodes = torch.from_numpy(file["feature_matrix"][begin:end].reshape(-1, self.particles, self.features))
        edges, counts = file["adjacency_matrix"][begin:end], file["n_particles"][begin:end]
        if self.whole_chunks:
            edges = torch.from_numpy(matrices(edges, counts, self.particles))
        return nodes, edges, file["labels"][begin:end], counts

    def _chunk(self, f, row):
        if self.preloaded is not None:
            return self.preloaded[f], row
        key = (f, row // self.read_chunk)
        if key not in self.chunks:
            begin = key[1] * self.read_chunk
            self.chunks[key] = self._read(f, begin, begin + self.read_chunk)
            if len(self.chunks) > self.max_chunks:
                self.chunks.popitem(last=False)
        self.chunks.move_to_end(key)
        return self.chunks[key], row % self.read_chunk

    def __len__(self):
        return int(self.ends[-1])

    def __getitem__(self, i):
        f = int(np.searchsorted(self.ends, i, side="right"))
        (nodes, edges, labels, counts), row = self._chunk(f, i - (int(self.ends[f - 1]) if f else 0))
        matrix = edges[row]
        if not self.whole_chunks:
            matrix = torch.from_numpy(matrices(matrix[None], counts[row : row + 1], self.particles)[0])
        return {"node_features": nodes[row], "edge_features": matrix, "labels": int(labels[row]), "n_particles": int(counts[row])}


def loader(files, batch_size=256, workers=8, cached=False, preload=False):
    """A shuffling DataLoader."""
    options = dict(read_chunk=1024, max_chunks=10, whole_chunks=True) if cached else {}
    dataset = JetDataset(files, preload=preload, **options)
    return DataLoader(dataset, batch_size, shuffle=True, num_workers=workers, persistent_workers=workers > 0, prefetch_factor=2 if workers else None)
