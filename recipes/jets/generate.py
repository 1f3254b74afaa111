"""Makes jets as HDF5: particles, the features of their pairs as a flat upper triangle padded with -999, labels.

    python recipes/jets/generate.py OUT [--scale small|medium|bench|full] [--files N] [--events N] [--particles N] [--features N] [--flat]
                                        [--chunk N] [--seed N]

    OUT/train_<i>.h5   feature_matrix (N, P, F) float32, or (N, P·F) with --flat; adjacency_matrix (N, P(P-1)/2, 4) float32; labels (N) int64;
                       n_particles (N) int32; attributes max_particles, pad_max_pairs, label_order, feature_names; gzip-4

The pairs of an event's p particles are the first p(p-1)/2 rows: (0,1), (0,2), …, (0,p-1), (1,2), … The label decides how wide and
how heavy a jet is, so that there is something to learn.
"""

import pathlib
import sys

import h5py
import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import data

LABELS = ("qcd", "hbb", "hcc", "hgg", "h4q", "hqql", "zqq", "wqq", "tbqq", "tbl")
PAIR_FEATURES = ("ln_dr", "ln_kt", "ln_z", "ln_m2")
PAD = -999.0
SCALES = {
    "small": dict(files=4, events=700, particles=16, features=9, chunk=100),
    "medium": dict(files=8, events=2_000, particles=32, features=9, chunk=1_000),
    "bench": dict(files=4, events=5_000, particles=128, features=9, chunk=1_000),
    "full": dict(files=100, events=100_000, particles=128, features=17, chunk=1_000),
}


def pairs(pt, eta, phi):
    """(n, p(p-1)/2, 4) of n events with p particles each."""
    i, j = np.triu_indices(pt.shape[1], 1)
    d_phi = np.abs(phi[:, i] - phi[:, j])
    dr = np.hypot(eta[:, i] - eta[:, j], np.minimum(d_phi, 2 * np.pi - d_phi)) + 1e-8
    low = np.minimum(pt[:, i], pt[:, j])
    m2 = 2 * pt[:, i] * pt[:, j] * (np.cosh(eta[:, i] - eta[:, j]) - np.cos(d_phi)) + 1e-8
    return np.stack([np.log(dr), np.log(low * dr), np.log(low / (pt[:, i] + pt[:, j])), np.log(m2)], -1)


def made(rng, n, particles, features):
    """(feature_matrix, adjacency_matrix, labels, n_particles)."""
    labels = rng.integers(0, len(LABELS), n)
    count = np.clip(rng.normal(particles * (0.4 + 0.04 * labels), particles / 6), 0, particles).astype(np.int32)
    matrix = np.zeros((n, particles, features), np.float32)
    edges = np.full((n, particles * (particles - 1) // 2, len(PAIR_FEATURES)), PAD, np.float32)
    for p in np.unique(count):
        at = np.flatnonzero(count == p)
        width = 0.1 + 0.05 * labels[at, None]
        pt = np.sort(rng.exponential(20, (len(at), p)) + 0.5, axis=1)[:, ::-1]
        eta, phi = rng.normal(0, width, (len(at), p)), rng.normal(0, width, (len(at), p)) % (2 * np.pi)
        values = [np.log(pt), eta, phi, np.log(pt * np.cosh(eta)), np.hypot(eta, phi)]
        values += [rng.standard_normal(pt.shape) for _ in range(features - len(values))]
        matrix[at, :p] = np.stack(values[:features], -1)
        edges[at, : p * (p - 1) // 2] = pairs(pt, eta, phi)
    return matrix, edges, labels, count


def generate(out, files=3, events=700, particles=16, features=9, flat=False, chunk=100, seed=0):
    """Write everything."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for f in range(files):
        rng = np.random.default_rng((seed, f))
        n_pairs = particles * (particles - 1) // 2
        shapes = {
            "feature_matrix": ((particles * features,) if flat else (particles, features), np.float32),
            "adjacency_matrix": ((n_pairs, len(PAIR_FEATURES)), np.float32),
            "labels": ((), np.int64),
            "n_particles": ((), np.int32),
        }
        with h5py.File(out / f"train_{f}.h5", "w") as file:
            file.attrs.update(max_particles=particles, pad_max_pairs=n_pairs, label_order=list(LABELS))
            file.attrs["feature_names"] = [f"f{i}" for i in range(features)]
            for name, (shape, dtype) in shapes.items():
                rows = min(chunk, events)
                file.create_dataset(name, (events, *shape), dtype, chunks=(rows, *shape), compression="gzip", compression_opts=4)
            for begin in range(0, events, chunk):  # a chunk's rows at a time: any size fits into memory
                n = min(chunk, events - begin)
                for name, values in zip(shapes, made(rng, n, particles, features)):
                    file[name][begin : begin + n] = values.reshape(n, *shapes[name][0])


def main():
    parser = data.command(__doc__, SCALES)
    parser.add_argument("--files", type=data.count)
    parser.add_argument("--events", type=data.count, help="a file")
    parser.add_argument("--particles", type=data.count)
    parser.add_argument("--features", type=data.count)
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--chunk", type=data.count, help="rows")
    out, _ = data.write("jets", parser, SCALES, generate)
    print(f"{out}: written")


if __name__ == "__main__":
    main()
