"""What the batches of jets must hold, by definition: h5py and NumPy. An event is named by its number, counted through the files in their order."""

import h5py
import numpy as np


class Reference:
    """Events of files as generate.py writes them."""

    def __init__(self, files):
        arrays = {name: [] for name in ("feature_matrix", "adjacency_matrix", "labels", "n_particles")}
        for path in files:
            with h5py.File(path) as file:
                for name, parts in arrays.items():
                    parts.append(file[name][()])
                self.particles = int(file.attrs["max_particles"])
                self.features = len(file.attrs["feature_names"])
        self.arrays = {name: np.concatenate(parts) for name, parts in arrays.items()}

    def __len__(self):
        return len(self.arrays["labels"])

    def nodes(self, ids):
        """(B, P, F)."""
        return self.arrays["feature_matrix"][ids].reshape(len(ids), self.particles, self.features)

    def labels(self, ids):
        """(B,) and (B,): class and particles."""
        return self.arrays["labels"][ids], self.arrays["n_particles"][ids]

    def flat_edges(self, ids):
        """(B, P(P-1)/2, E) as stored."""
        return self.arrays["adjacency_matrix"][ids]

    def edges(self, ids):
        """(B, P, P, E): symmetric, zero on the diagonal and beyond the particles."""
        flat = self.flat_edges(ids)
        matrix = np.zeros((len(ids), self.particles, self.particles, flat.shape[-1]), flat.dtype)
        for b, p in enumerate(self.labels(ids)[1]):
            pair = 0
            for i in range(p):
                for j in range(i + 1, p):
                    matrix[b, i, j] = matrix[b, j, i] = flat[b, pair]
                    pair += 1
        return matrix
