"""Makes the HDF5 files that hdf5.py reads. Seeded, written once, kept in the scratch directory.

jets     100,000 × 128 × 8 float32 as the jets system writes them: an event has n particles, the rest of its 128 rows is zero; chunks of 1,000
         events; a file a filter
pairs    10,000 × 8,128 × 4 float32, flat upper triangles padded with −999, gzip-4, chunks of 100 events
plain    the jets without chunks or filters
mel      7,913 × 79 × 3 × 32 × 1 float16 cells of 64 bytes, and the same with 256 bytes and 1 KiB; labels a file
many     1,000 small files
tiny     65,536 chunks of one row each
"""
import h5py
import hdf5plugin
import numpy as np

from make_data import ensure
from common import scratch

EVENTS, PARTICLES, FEATURES, CHUNK = 100_000, 128, 8, 1_000

# name: (filters as written, for the bare codecs; arguments of create_dataset)
FILTERS = {
    "gzip": ("deflate", {"compression": "gzip", "compression_opts": 4}),
    "shuffle_gzip": ("shuffle,deflate", {"compression": "gzip", "compression_opts": 4, "shuffle": True}),
    "lzf": ("lzf", {"compression": "lzf"}),
    "zstd": ("zstd", dict(hdf5plugin.Zstd(clevel=3))),
    "blosc": ("blosc", dict(hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=hdf5plugin.Blosc.SHUFFLE))),
    "bitshuffle": ("bitshuffle", dict(hdf5plugin.Bitshuffle(cname="lz4"))),
}


def jet_block(rng, n):
    """n events of a few dozen particles, falling momenta, angles rounded as detectors give them."""
    count = np.clip(rng.poisson(48, n), 4, PARTICLES)
    x = rng.standard_normal((n, PARTICLES, FEATURES), dtype=np.float32)
    x[..., 0] = np.exp(x[..., 0])
    x[..., 4:] = np.round(x[..., 4:] * 64) / 64
    x[np.arange(PARTICLES) >= count[:, None]] = 0
    return x, count


def jets(name, events=EVENTS):
    def write(folder):
        with h5py.File(folder / "jets.h5", "w") as f:
            options = {"chunks": (CHUNK, PARTICLES, FEATURES), **FILTERS[name][1]} if name in FILTERS else {}
            data = f.create_dataset("feature_matrix", (events, PARTICLES, FEATURES), "f4", **options)
            labels, counts = np.empty(events, np.int64), np.empty(events, np.int64)
            for i in range(0, events, CHUNK):
                rng = np.random.default_rng(i)
                data[i : i + CHUNK], counts[i : i + CHUNK] = jet_block(rng, CHUNK)
                labels[i : i + CHUNK] = rng.integers(0, 10, CHUNK)
            f["labels"], f["n_particles"] = labels, counts
            f.attrs["max_particles"] = PARTICLES

    return ensure(scratch() / f"h5_jets_{name}", write, f"{events:,} jets, {name}") / "jets.h5"


def pairs(events=10_000, chunk=100):
    def write(folder):
        m = PARTICLES * (PARTICLES - 1) // 2
        with h5py.File(folder / "pairs.h5", "w") as f:
            data = f.create_dataset("adjacency_matrix", (events, m, 4), "f4", chunks=(chunk, m, 4), compression="gzip", compression_opts=4)
            for i in range(0, events, chunk):
                rng = np.random.default_rng(i)
                count = np.clip(rng.poisson(48, chunk), 4, PARTICLES)
                x = rng.standard_normal((chunk, m, 4), dtype=np.float32)
                x[np.arange(m) >= (count * (count - 1) // 2)[:, None]] = -999
                data[i : i + chunk] = x

    return ensure(scratch() / "h5_pairs", write, f"{events:,} jets' pairs") / "pairs.h5"


def mel(cell_bytes, files=7_913):
    mels = {64: (32, 1), 256: (64, 2), 1024: (64, 8)}[cell_bytes]
    files = files * 64 // cell_bytes

    def write(folder):
        rng = np.random.default_rng(0)
        with h5py.File(folder / "mel.h5", "w") as f:
            data = f.create_dataset("segments_mel", (files, 79, 3, *mels), "f2")
            for i in range(0, files, 500):
                data[i : i + 500] = rng.standard_normal((min(500, files - i), 79, 3, *mels)).astype("f2")
            f["labels"] = rng.integers(0, 2, files).astype("i2")

    return ensure(scratch() / f"h5_mel_{cell_bytes}", write, f"mel cells of {cell_bytes} bytes") / "mel.h5"


def many(files=1_000):
    def write(folder):
        rng = np.random.default_rng(0)
        for i in range(files):
            with h5py.File(folder / f"part-{i:05d}.h5", "w") as f:
                f.create_dataset("x", data=rng.standard_normal((200, 16)).astype("f4"), chunks=(50, 16), compression="gzip")
                f["y"] = rng.integers(0, 9, 200)

    return ensure(scratch() / "h5_many", write, f"{files:,} small HDF5 files")


def tiny(chunks=65_536):
    def write(folder):
        with h5py.File(folder / "tiny.h5", "w") as f:
            f.create_dataset("x", data=np.arange(chunks * 5, dtype="f4").reshape(chunks, 5), chunks=(1, 5))
        with h5py.File(folder / "tiny_latest.h5", "w", libver="latest") as f:
            f.create_dataset("x", data=np.arange(chunks * 5, dtype="f4").reshape(chunks, 5), chunks=(1, 5), maxshape=(None, 5))

    return ensure(scratch() / "h5_tiny", write, f"{chunks:,} chunks")
