"""Jets as an expert loads them: whole chunks through h5py, matrices of a batch in one take, by a table of where each pair stands.

    train = expert.Jets(files, batch_size=512)
"""

import h5py
import numpy as np

from recipes.expert import Expert


def places(particles):
    """(P + 1, P, P): of events of 0 to P particles, which stored pair every entry of the matrix is; one beyond the last, where there is none."""
    table = np.full((particles + 1, particles, particles), particles * (particles - 1) // 2)
    for p in range(2, particles + 1):
        i, j = np.triu_indices(p, 1)
        table[p, i, j] = table[p, j, i] = np.arange(len(i))
    return table


class Jets(Expert):
    """Batches of node_features, edge_features, labels and n_particles."""

    def __init__(self, files, batch_size=512, seed=0):
        pieces = []
        for file in map(h5py.File, files):
            pairs, n = file["adjacency_matrix"], len(file["labels"])
            step = pairs.chunks[0] if pairs.chunks else 1024
            pieces += [(file, begin, min(begin + step, n)) for begin in range(0, n, step)]
            piece_bytes = step * pairs.dtype.itemsize * int(np.prod(pairs.shape[1:]))
            self.particles, self.features = int(file.attrs["max_particles"]), len(file.attrs["feature_names"])
        self.places = places(self.particles)
        super().__init__(pieces, sum(end - begin for _, begin, end in pieces), piece_bytes, batch_size, seed)

    def read(self, pieces):
        n, pairs, at = sum(end - begin for _, begin, end in pieces), self.particles * (self.particles - 1) // 2, 0
        nodes, edges = np.empty((n, self.particles, self.features), np.float32), None
        labels, count = np.empty(n, np.int64), np.empty(n, np.int32)
        for file, begin, end in pieces:
            of = slice(at, at + end - begin)
            stored = file["adjacency_matrix"][begin:end]
            if edges is None:
                edges = np.empty((n, pairs + 1, stored.shape[-1]), np.float32)
            edges[of, :pairs], edges[of, pairs] = stored, 0
            nodes[of] = file["feature_matrix"][begin:end].reshape(-1, self.particles, self.features)
            labels[of], count[of] = file["labels"][begin:end], file["n_particles"][begin:end]
            at = of.stop
        return (nodes, edges, labels, count), n

    def take(self, lot, rows):
        nodes, edges, labels, count = lot
        at = self.places[count[rows]] + (rows * edges.shape[1])[:, None, None]
        matrices = edges.reshape(-1, edges.shape[-1]).take(at, axis=0, mode="clip")
        return {"node_features": nodes[rows], "edge_features": matrices, "labels": labels[rows], "n_particles": count[rows]}
