#!/usr/bin/env python3
"""Batches on a GPU: what `device="cuda"` costs the program, beside the copy itself and a DataLoader of the same rows.

    bench/gpu.py [--seconds 2] [--workers 8]

For each shape of batch, rows that are in memory, shuffled: batches a second in CPU memory (forebay), the same on the GPU (forebay, cuda), copies of a
pinned batch back to back (the ceiling of the bus), and a DataLoader with worker processes and pin_memory=True whose batches are copied without waiting.
Then with a step beside them that keeps the GPU busy for a known time: the share of its ceiling that training reaches. Needs a GPU; writes results/gpu.csv.
"""
import argparse
import sys
import time

import common
import numpy as np
import torch

import forebay as fb

SHAPES = {"leak, 5,632 cells of 32 mels": (5632, (32,)), "hydrology, 512 windows of 372 × 8": (512, (372, 8)), "jets, 512 × 128 × 16": (512, (128, 16)),
          "one large batch, 64 MiB": (1024, (16384,))}  # fmt: skip


def rate(epoch, seconds):
    """Batches a second of epoch(), again and again, the GPU waited for at both ends; the first few are not counted."""
    def endless():
        while True:
            yield from epoch()

    given = endless()
    for _ in range(5):
        next(given)
    torch.cuda.synchronize()
    began, n = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        next(given)
        n += 1
    torch.cuda.synchronize()
    return n / (time.perf_counter() - began)


class Rows(torch.utils.data.Dataset):
    """The same rows, a batch an item: the fastest that a DataLoader can be given."""

    def __init__(self, rows):
        self.rows = torch.from_numpy(rows)

    def __len__(self):
        return len(self.rows)

    def __getitems__(self, chosen):
        return [self.rows[torch.tensor(chosen)]]

    def __getitem__(self, i):
        return self.rows[i]


def dataloader(rows, batch, workers):
    return torch.utils.data.DataLoader(Rows(rows), batch_size=batch, shuffle=True, num_workers=workers, pin_memory=True, persistent_workers=workers > 0,
                                       collate_fn=lambda items: items[0])  # fmt: skip


def to_gpu(batches):
    for batch in batches:
        yield batch.to("cuda", non_blocking=True)


def copies(batch, shape, seconds):
    host = torch.zeros((batch, *shape)).pin_memory()
    return rate(lambda: to_gpu([host]), seconds)


def with_step(batches, step_ms, seconds):
    """Share of the ceiling that a step reaches which keeps the GPU busy for so long."""
    cycles = int(step_ms * 1e-3 * clock())
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(50):
        torch.cuda._sleep(cycles)
    torch.cuda.synchronize()
    alone = (time.perf_counter() - began) / 50

    def stepped():
        for batch in batches:
            torch.cuda._sleep(cycles)
            yield batch

    return rate(stepped, seconds) * alone


def clock():
    """Cycles a second of torch.cuda._sleep."""
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    began = time.perf_counter()
    torch.cuda._sleep(200_000_000)
    torch.cuda.synchronize()
    return 200_000_000 / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--workers", type=int, default=8)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("torch sees no GPU: nothing is measured")
        return 0
    print(torch.cuda.get_device_name(), torch.__version__)
    results = common.Csv("gpu.csv", ["gpu", "batch", "megabytes", "cpu_batches_per_s", "cuda_batches_per_s", "copies_per_s", "dataloader_batches_per_s",
                                     "share_of_a_step_of_10_ms", "share_of_a_step_of_3_ms"])  # fmt: skip
    for name, (batch, shape) in SHAPES.items():
        size = 4 * batch * int(np.prod(shape))
        rows = np.random.default_rng(0).standard_normal((max(4 * batch, 2**28 // size * batch), *shape), dtype=np.float32)
        ds = fb.open({"x": rows})
        options = dict(batch_size=batch, seed=0, memory=max(2**30, 8 * rows.nbytes))
        with ds.loader("x", framework="torch", as_="tuple", **options) as loader:
            here = rate(lambda: iter(loader), args.seconds)
        with ds.loader("x", device="cuda", as_="tuple", **options) as loader:
            there = rate(lambda: iter(loader), args.seconds)
            shares = [with_step(loader, ms, args.seconds) for ms in (10, 3)]
        ceiling = copies(batch, shape, args.seconds)
        workers = dataloader(rows, batch, args.workers)
        peer = rate(lambda: to_gpu(workers), args.seconds)
        results.add(gpu=torch.cuda.get_device_name(), batch=name, megabytes=size / 1e6, cpu_batches_per_s=here, cuda_batches_per_s=there, copies_per_s=ceiling,
                    dataloader_batches_per_s=peer, share_of_a_step_of_10_ms=shares[0], share_of_a_step_of_3_ms=shares[1])  # fmt: skip
        print(f"{name:<36} {size / 1e6:6.1f} MB  CPU {here:8,.0f}/s  cuda {there:8,.0f}/s ({there * size / 1e9:5.1f} GB/s)  copy {ceiling:8,.0f}/s "
              f"({ceiling * size / 1e9:5.1f} GB/s)  DataLoader {peer:8,.0f}/s  step 10 ms {shares[0]:.1%}  3 ms {shares[1]:.1%}", flush=True)
    results.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
