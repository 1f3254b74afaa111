"""Contestants over HDF5 files: Forebay, and what people use today, each written as well as we can write it.

    bench/hdf5_rivals.py NAME FILE [--seconds 5] [--batch 512] [--data feature_matrix] …

Prints one line of JSON: rows a second after a warm-up. Every contestant gives shuffled torch tensors (batch, …) of one data set, epoch after
epoch. A contestant whose package is missing prints {"skipped": reason}.

forebay        the loader; --memory, --superbatch, --streams, --threads, --cells AXES, --dtype, --immutable
h5py_rows      one row per item: h5py in a DataLoader (--workers), as most write it first
lru_chunks     a map-style Dataset with an LRU of decoded blocks of 1,024 rows, and a sampler that visits block after block (--workers)
scdataset      scDataset: blocks of rows fetched sorted, shuffled in a buffer
expert         whole chunks through h5py, eight a superbatch, into one array that is reused; one NumPy take a batch (--workers)
take           NumPy's take and cast of an array that is in memory already: no file at all (cells)
ram_loader     a DataLoader over the array in memory, one row per item (--workers)
"""
import argparse
import json
import time
from collections import OrderedDict

import h5py
import numpy as np

import common

SUPERBATCH_CHUNKS = 8


class Forebay:
    def __init__(self, o):
        import torch  # noqa: F401

        import forebay as fb

        options = {"immutable": True, "io": "mmap"} if o.immutable else {}
        ds = fb.open(o.file, cache_dir="", **options)
        samples = ds.cells(o.cells) if o.cells else ds.rows()
        settings = {"batch_size": o.batch, "framework": "torch", "seed": 0}
        for key in ("memory", "superbatch", "streams", "threads"):
            if getattr(o, key) is not None:
                settings[key] = getattr(o, key)
        self.loader = samples.loader({"x": fb.col(o.data, dtype=o.dtype)}, **settings)

    def epoch(self):
        for batch in self.loader:
            yield batch["x"]

    def report(self):
        r = self.loader.report()
        return {"bytes_read": r.bytes_read, "bytes_decoded": r.bytes_decoded, "blocks_read": r.blocks_read, "samples": r.samples,
                "worker_cpu_s": r.worker_cpu_ns / 1e9, "elapsed_s": r.elapsed, "budget_bytes": r.budget_bytes, "threads": r.threads,
                "read_s": r.read_ns / 1e9, "decompress_s": r.decompress_ns / 1e9, "decode_s": r.decode_ns / 1e9,
                "assemble_s": r.assemble_ns / 1e9, "verdict": r.verdict}  # fmt: skip


class Rows:
    """What most people write first: the file opened in the worker, one row an item."""

    def __init__(self, path, name):
        self.path, self.name, self.file = path, name, None
        with h5py.File(path) as f:
            self.n, self.chunks = len(f[name]), f[name].chunks

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        import torch

        if self.file is None:
            self.file = h5py.File(self.path)
        return torch.from_numpy(self.file[self.name][i].astype(np.float32))


def data_loader(dataset, o, **more):
    from torch.utils.data import DataLoader

    return DataLoader(dataset, num_workers=o.workers, persistent_workers=o.workers > 0, **more)


class H5pyRows:
    def __init__(self, o):
        self.loader = data_loader(Rows(o.file, o.data), o, batch_size=o.batch, shuffle=True)

    def epoch(self):
        return iter(self.loader)


class LruRows(Rows):
    KEEP = 10

    def __init__(self, path, name):
        super().__init__(path, name)
        self.blocks, self.block = OrderedDict(), (self.chunks or (1024,))[0]

    def __getitem__(self, i):
        import torch

        if self.file is None:
            self.file = h5py.File(self.path)
        b = i // self.block
        block = self.blocks.get(b)
        if block is None:
            block = self.blocks[b] = self.file[self.name][b * self.block : (b + 1) * self.block].astype(np.float32)
            if len(self.blocks) > self.KEEP:
                self.blocks.popitem(last=False)
        return torch.from_numpy(block[i - b * self.block])


class LruChunks:
    def __init__(self, o):
        self.dataset, self.rng = LruRows(o.file, o.data), np.random.default_rng(0)
        self.loader = data_loader(self.dataset, o, batch_size=o.batch, sampler=self)

    def __len__(self):
        return len(self.dataset)

    def __iter__(self):
        n, size = len(self.dataset), self.dataset.block
        blocks = self.rng.permutation(-(-n // size))
        for i in range(0, len(blocks), LruRows.KEEP // 2):  # rows of five blocks mixed
            rows = np.concatenate([np.arange(b * size, min((b + 1) * size, n)) for b in blocks[i : i + LruRows.KEEP // 2]])
            yield from self.rng.permutation(rows).tolist()

    def epoch(self):
        return iter(self.loader)


class ScDataset:
    def __init__(self, o):
        try:
            from scdataset import BlockShuffling, scDataset
        except ImportError as error:
            raise common.Missing(f"scDataset is not installed: {error}") from None

        class Array(Rows):
            def __getitem__(self, rows):
                import torch

                if self.file is None:
                    self.file = h5py.File(self.path)
                rows = np.asarray(rows)
                order = np.argsort(rows)
                out = np.empty((len(rows), *self.file[self.name].shape[1:]), np.float32)
                out[order] = self.file[self.name][rows[order]]
                return torch.from_numpy(out)

        self.loader = data_loader(scDataset(Array(o.file, o.data), BlockShuffling(block_size=1000), batch_size=o.batch, fetch_factor=16), o, batch_size=None)

    def epoch(self):
        return iter(self.loader)


def expert_epoch(path, name, batch, seed, part=(0, 1)):
    import torch

    with h5py.File(path) as f:
        data = f[name]
        size = data.chunks[0] if data.chunks else 1000
        starts = np.random.default_rng(seed).permutation(np.arange(0, len(data), size))[part[0] :: part[1]]
        space = np.empty((SUPERBATCH_CHUNKS * size, *data.shape[1:]), np.float32 if data.dtype != np.float32 else data.dtype)
        rng = np.random.default_rng((seed, part[0]))
        for i in range(0, len(starts), SUPERBATCH_CHUNKS):
            n = 0
            for start in starts[i : i + SUPERBATCH_CHUNKS]:
                rows = min(size, len(data) - start)
                data.read_direct(space, np.s_[start : start + rows], np.s_[n : n + rows])
                n += rows
            order = rng.permutation(n)
            for k in range(0, n, batch):
                yield torch.from_numpy(space.take(order[k : k + batch], axis=0))


class Expert:
    def __init__(self, o):
        import torch

        class Stream(torch.utils.data.IterableDataset):
            epoch = 0

            def __iter__(self):
                info = torch.utils.data.get_worker_info()
                self.epoch += 1
                return expert_epoch(o.file, o.data, o.batch, self.epoch, (info.id, info.num_workers) if info else (0, 1))

        self.stream = Stream()
        self.loader = data_loader(self.stream, o, batch_size=None) if o.workers else self.stream

    def epoch(self):
        return iter(self.loader)


def flat_array(o):
    with h5py.File(o.file) as f:
        data = f[o.data][()]
    return data.reshape(-1, *data.shape[o.cells or 1 :])


class Take:
    def __init__(self, o):
        self.data, self.o, self.rng = flat_array(o), o, np.random.default_rng(0)

    def epoch(self):
        import torch

        order = self.rng.permutation(len(self.data))
        for k in range(0, len(order), self.o.batch):
            yield torch.from_numpy(self.data.take(order[k : k + self.o.batch], axis=0).astype(self.o.dtype, copy=False))


class RamLoader:
    def __init__(self, o):
        import torch

        data, dtype = torch.from_numpy(flat_array(o)), getattr(torch, o.dtype)

        class Array:
            def __len__(self):
                return len(data)

            def __getitem__(self, i):
                return data[i].to(dtype)

        self.loader = data_loader(Array(), o, batch_size=o.batch, shuffle=True)

    def epoch(self):
        return iter(self.loader)


CONTESTANTS = {"forebay": Forebay, "h5py_rows": H5pyRows, "lru_chunks": LruChunks, "scdataset": ScDataset, "expert": Expert, "take": Take,
               "ram_loader": RamLoader}


def measure(contestant, o):
    """Batches for so many seconds, after a warm-up; an epoch that ends begins anew."""
    rows = batches = 0
    begin = time.perf_counter()
    started, before = None, {}
    while True:
        for x in contestant.epoch():
            now = time.perf_counter()
            if started is None:
                if now - begin >= o.warmup:
                    started, before = now, contestant.report() if hasattr(contestant, "report") else {}
                continue
            rows += x.shape[0]
            batches += 1
            if now - started >= o.seconds:
                seconds = now - started
                after = contestant.report() if hasattr(contestant, "report") else {}
                spent = {k: v - before[k] if k.endswith("_s") or k in ("bytes_read", "bytes_decoded", "blocks_read", "samples") else v
                         for k, v in after.items()}
                return {"rows_per_s": rows / seconds, "rows": rows, "batches": batches, "seconds": seconds, **spent}


def measure_once(contestant):
    begin, rows = time.perf_counter(), 0
    for x in contestant.epoch():
        rows += x.shape[0]
    seconds = time.perf_counter() - begin
    return {"rows_per_s": rows / seconds, "rows": rows, "seconds": seconds}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("name", choices=sorted(CONTESTANTS))
    p.add_argument("file")
    p.add_argument("--data", default="feature_matrix")
    p.add_argument("--seconds", type=float, default=4.0)
    p.add_argument("--warmup", type=float, default=1.0)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--dtype", default="float32")
    p.add_argument("--cells", type=int, default=0)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--memory", type=lambda text: int(text) if text.isdigit() else text, default=None)
    p.add_argument("--superbatch", type=int, default=None)
    p.add_argument("--streams", type=int, default=None)
    p.add_argument("--threads", type=int, default=None)
    p.add_argument("--once", action="store_true", help="one epoch from nothing, its first batch counted, instead of so many seconds")
    p.add_argument("--immutable", action="store_true")
    o = p.parse_args()
    try:
        contestant = CONTESTANTS[o.name](o)
        result = measure_once(contestant) if o.once else measure(contestant, o)
    except common.Missing as missing:
        result = {"skipped": str(missing)}
    print(json.dumps(result), flush=True)
    common.leave()


if __name__ == "__main__":
    main()
