"""How contestants of a benchmark are measured: their batches by the clock, and how well they mix."""

from __future__ import annotations

import collections
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._rivals import COPY_BYTES, Files, LeftOutError, bytes_a_row, need
from ._sizes import batch_size_of

# ---- the clock ----


def descendants(pid: int) -> list[int]:
    """A process and all below it."""
    children = collections.defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                children[int(Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()[1])].append(int(entry))
            except (OSError, IndexError):
                continue  # it has ended
    found = [pid]
    for process in found:
        found += children[process]
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and all below it that still run."""
    ticks = 0
    for process in descendants(pid):
        try:
            fields = Path("/proc", str(process), "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def work(seconds: float, data: Any) -> None:
    """A training step that keeps one core busy without Python's lock."""
    np, until = need("numpy"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        np.multiply(data, np.float32(1), out=data)


def measure(contestant: Any, spec: dict[str, Any]) -> tuple[dict[str, Any], Iterator[Any]]:
    """Its figures, and its batches from there on."""
    np = need("numpy")
    data, begin, batches = np.full(16_384, 1.000001, np.float32), time.perf_counter(), forever(contestant)
    first = next(batches)
    first_batch = time.perf_counter() - begin
    check(first, spec)
    while time.perf_counter() - begin < spec["warmup"]:
        next(batches)
        work(spec["work"], data)
    for _ in range(spec["warmup_batches"] - 1):
        next(batches)
        work(spec["work"], data)
    cpu, started, samples, worked, taken = cpu_seconds(os.getpid()), time.perf_counter(), 0, 0.0, 0
    while (elapsed := time.perf_counter() - started) < spec["seconds"] and not 0 < spec["batches"] <= taken:
        samples += batch_size_of(next(batches))
        taken += 1
        before = time.perf_counter()
        work(spec["work"], data)
        worked += time.perf_counter() - before
    figures = {
        "samples_per_second": samples / elapsed,
        "first_batch_seconds": first_batch,
        "cpu_seconds_per_million_samples": 1e6 * (cpu_seconds(os.getpid()) - cpu) / max(samples, 1),
        "epoch_seconds": spec["rows"] * elapsed / max(samples, 1),
    }
    if spec["work"]:
        figures["utilisation"] = worked / elapsed
    return figures, batches


def forever(contestant: Any) -> Iterator[Any]:
    number = 0
    while True:
        yield from contestant.epoch(number)
        number += 1


def check(batch: dict[str, Any], spec: dict[str, Any]) -> None:
    """A contestant that gives something else is no contestant."""
    for output in spec["outputs"]:
        values = batch[output["name"]]
        dtype = str(values.dtype).removeprefix("torch.")
        if (output["matrix"] and values.shape[1:] != (len(output["columns"]),)) or (output["dtype"] and dtype != output["dtype"]):
            raise LeftOutError(f"gives {output['name']} as {dtype} {tuple(values.shape)}")


# ---- mixing ----


def fingerprints(values: Any, weights: Any) -> Any:
    """A number for each row: equal rows, equal numbers."""
    np = need("numpy")
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    words = np.zeros((len(raw), -(-raw.shape[1] // 8) * 8), np.uint8)
    words[:, : raw.shape[1]] = raw
    return (words.view(np.uint64) * weights[: words.shape[1] // 8]).sum(axis=1, dtype=np.uint64)


def mixing(batches: Iterator[Any], spec: dict[str, Any], n: int = 20) -> dict[str, float]:
    """In bits, the entropy of batches over the units of the files that their rows come from, and a uniform shuffle's; nothing where rows cannot be told."""
    np = need("numpy")
    files, name = Files(spec), spec["outputs"][0]["name"]
    if files.rows * bytes_a_row(files) > COPY_BYTES:
        return {}
    weights = np.random.default_rng(0).integers(0, 1 << 63, 1 << 16, np.uint64) * 2 + 1
    keys = [fingerprints(files.read(u)[name], weights) for u in range(len(files.units))]
    units = np.repeat(np.arange(len(keys)), [len(k) for k in keys])
    keys, first = np.unique(np.concatenate(keys), return_index=True)
    if len(keys) < 0.9 * files.rows:  # rows repeat
        return {}
    units = units[first]
    rng, found, uniform = np.random.default_rng(1), [], []
    for _ in range(n):
        rows = fingerprints(next(batches)[name].numpy(), weights)
        at = np.minimum(np.searchsorted(keys, rows), len(keys) - 1)
        if (keys[at] != rows).mean() > 0.05:
            return {}
        found.append(entropy(units[at]))
        uniform.append(entropy(units[rng.choice(len(units), len(rows), replace=False)]))
    return {"entropy_bits": float(np.mean(found)), "entropy_bits_uniform": float(np.mean(uniform))}


def entropy(labels: Any) -> float:
    shares = need("numpy").unique(labels, return_counts=True)[1] / len(labels)
    return float(-(shares * need("numpy").log2(shares)).sum()) + 0.0
