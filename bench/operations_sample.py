"""What loaders make of a sample as a whole, side by side with the same in torch; and what it adds to a loader that does not.

    python bench/operations_sample.py group_channels      events to (B, D, channels): a torch expression for the whole batch, and a torch loop over events
    python bench/operations_sample.py augment   mel batches of (5632, 1, 32, frames) with SpecAugment and without, the same loader otherwise

`group_channels` is the whole path for forebay (decoded blocks in the budget, shuffled, batches in the consumer's hands) and the computation alone for
torch, whose pulses lie ready in memory: the ratio is a lower bound. Contestants take turns; medians, and the spread as (max - min) / median.
The C side of both, and symmetric matrices beside memset and memcpy, is bench/c/bench_sample.c.
"""
import argparse
import statistics
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from common import commit, machine, scratch, warn_when_busy

import forebay as fb

EVENTS, BATCH, SENSORS, D, K = 16384, 512, 5160, 128, 5


def median(runs):
    middle = statistics.median(runs)
    return middle, (max(runs) - min(runs)) / middle


# ---- packed groups ----


def make_events(path):
    rng = np.random.default_rng(1)
    lengths = np.clip(np.exp(rng.normal(np.log(60), 1.1, EVENTS)).astype(int), 5, 178_000)
    n = lengths.sum()
    event = np.repeat(np.arange(EVENTS), lengths)
    times = 9000 + rng.integers(0, 12000, n)
    times = times[np.lexsort((times, event))]
    sensor = (rng.integers(0, 1 + np.repeat(lengths, lengths) // 3) * 7 + event * 13) % SENSORS
    table = pa.table({
        "event_id": event, "sensor_id": sensor.astype(np.int16), "time": times, "charge": rng.exponential(1, n).round(3),
        "auxiliary": rng.random(n) < 0.3,
    })  # fmt: skip
    pq.write_table(table, path, row_group_size=1 << 18)
    return table, lengths, rng.normal(size=(SENSORS, 3))


def torch_values(t, q, a):
    return torch.stack([(t - 1e4) / 3e4, torch.log10(q.clamp(min=1e-6)) / 3, a - 0.5], 1)


def torch_batch(event, n_events, sensor, t, q, a, geometry):
    """The whole batch at once: sorts and scatters. Pulses of an event lie by time."""
    values = torch_values(t, q, a)
    key, inverse, count = torch.unique(event * SENSORS + sensor, return_inverse=True, return_counts=True)
    n = len(key)
    order = torch.argsort(inverse, stable=True)
    start = torch.cumsum(count, 0) - count
    place = torch.empty_like(inverse)
    place[order] = torch.arange(len(order)) - torch.repeat_interleave(start, count)
    least = torch.full((n,), torch.inf).scatter_reduce_(0, inverse, t, "amin")
    charge = torch.zeros(n).scatter_add_(0, inverse, q)
    mean = torch.zeros(n).scatter_add_(0, inverse, t) / count
    std = (torch.zeros(n).scatter_add_(0, inverse, (t - mean[inverse]) ** 2) / count).sqrt()
    of = key // SENSORS
    by_time = torch.argsort(least, stable=True)
    by_event = by_time[torch.argsort(of[by_time], stable=True)]
    per_event = torch.bincount(of, minlength=n_events)
    rank = torch.empty(n, dtype=torch.long)
    rank[by_event] = torch.arange(n) - torch.repeat_interleave(torch.cumsum(per_event, 0) - per_event, per_event)
    out = torch.zeros(n_events, D, 4 + 3 * K + 3)
    kept = rank < D
    heads = torch.cat([geometry[key % SENSORS], count[:, None].float()], 1)
    out[of[kept], rank[kept], :4] = heads[kept]
    out[of[kept], rank[kept], -3:] = torch.stack([least, charge, std], 1)[kept]
    rows = (place < K) & kept[inverse]
    i = inverse[rows]
    out[:, :, 4:-3].view(n_events, D, K, 3)[of[i], rank[i], place[rows]] = values[rows]
    mask = torch.arange(D)[None] < per_event[:, None]
    return out, mask


def torch_event(sensor, t, q, a, geometry, out, mask):
    """One event, as people write it first."""
    values = torch_values(t, q, a)
    key, inverse, count = torch.unique(sensor, return_inverse=True, return_counts=True)
    least = torch.full((len(key),), torch.inf).scatter_reduce_(0, inverse, t, "amin")
    for k, g in enumerate(torch.argsort(least, stable=True)[:D].tolist()):
        rows = inverse == g
        first = values[rows][:K].flatten()
        out[k, :3] = geometry[key[g]]
        out[k, 3] = count[g]
        out[k, 4 : 4 + len(first)] = first
        out[k, -3:] = torch.stack([least[g], q[rows].sum(), t[rows].std(unbiased=False)])
        mask[k] = True


def group_channels():
    table, lengths, geometry = make_events(scratch() / "events_pack.parquet")
    columns = [torch.from_numpy(table[name].to_numpy().astype(dtype)) for name, dtype in
               (("sensor_id", np.int64), ("time", np.float32), ("charge", np.float32), ("auxiliary", np.float32))]  # fmt: skip
    places = torch.from_numpy(geometry.astype(np.float32))
    ends = np.concatenate([[0], np.cumsum(lengths)])

    def whole_batches():
        for b in range(0, EVENTS, BATCH):
            pulses = slice(ends[b], ends[b + BATCH])
            event = torch.repeat_interleave(torch.arange(BATCH), torch.from_numpy(lengths[b : b + BATCH]))
            torch_batch(event, BATCH, *(c[pulses] for c in columns), places)
        return EVENTS

    def loop(n=BATCH // 4):
        out, mask = torch.zeros(n, D, 4 + 3 * K + 3), torch.zeros(n, D, dtype=torch.bool)
        for e in range(n):
            torch_event(*(c[ends[e] : ends[e + 1]] for c in columns), places, out[e], mask[e])
        return n

    positions = fb.Lookup({"sensor_id": np.arange(SENSORS), **{axis: geometry[:, k] for k, axis in enumerate("xyz")}}, "sensor_id")
    dom = fb.group_channels(
        key="sensor_id", order="time", first_rows=K, max_groups=D, positions=positions,
        features=[fb.col("time").standardize(1e4, 3e4), fb.col("charge").log10(1e-6).scale(1 / 3), fb.col("auxiliary").offset(-0.5)],
        aggregates={fb.col("time"): ["min"], fb.col("charge"): "sum", fb.col("time").scale(1): "std"},
    )  # fmt: skip
    loader = fb.open(str(scratch() / "events_pack.parquet")).groups("event_id").loader(
        {"dom": dom, "mask": dom.mask(), "i": fb.sample_index()}, batch_size=BATCH, shuffle=True, framework="torch")  # fmt: skip

    def forebay():
        return sum(len(batch["dom"]) for batch in loader)

    events = fb.open(str(scratch() / "events_pack.parquet")).groups("event_id")
    first = next(iter(events.loader({"dom": dom}, batch_size=BATCH, shuffle=False, framework="torch")))
    event = torch.repeat_interleave(torch.arange(BATCH), torch.from_numpy(lengths[:BATCH]))
    expect, _ = torch_batch(event, BATCH, *(c[: ends[BATCH]] for c in columns), places)
    # torch's float32 sums cost the deviation some digits; ties of subgroups go by key in torch.unique, so rows may change places
    same = torch.isclose(first["dom"], expect, rtol=1e-3, atol=0.5).all(2).float().mean()
    print(f"rows that agree with torch: {same:.3f}")
    rates = {"forebay, whole path": [], "torch, whole batch": [], "torch, loop": []}
    for run in range(6):
        for name, work in zip(rates, (forebay, whole_batches, loop)):
            begin = time.perf_counter()
            n = work()
            if run:  # the first one fills caches
                rates[name].append(n / (time.perf_counter() - begin))
    base = median(rates["forebay, whole path"])[0]
    for name, runs in rates.items():
        middle, spread = median(runs)
        print(f"{name:22} {middle:10,.0f} events/s  ± {spread:.0%}   forebay is {base / middle:.1f} times as fast", flush=True)


# ---- SpecAugment ----


AUGMENT_OPENED, AUGMENT_PAIRS, AUGMENT_SECONDS = 3, 5, 0.3


def augment_beside(frames, stored="float32"):
    """
    float32 mel batches with masks and without, all in memory: samples a second of CPU time of each, and by the clock.

    share: of CPU time, the median of 15 pairs' ratios. A pair is epochs of some 0.3 s with masks and as many without, one after the other,
    first the one, next time the other; after every fifth pair both loaders are opened anew, since where their memory happens to lie
    is worth some per cent. Of a loader beside itself that says 0 to 1 %.
    """
    import h5py

    n = max(5632 * 4, 5632 * 64 // frames)
    path = scratch() / f"mel_{frames}.h5"
    with h5py.File(path, "w") as file:
        file["mel"] = np.random.default_rng(0).random((n, 1, 32, frames), dtype=np.float32).astype(stored)
    plain = fb.col("mel", dtype="float32")
    outputs = {"plain": plain, "masked": plain.spec_augment(time_masks=1, max_time=min(frames, 8), freq_masks=1, max_freq=4)}
    seconds, cpu = {name: [] for name in outputs}, {name: [] for name in outputs}

    def epochs(loader, count):
        """Seconds by the clock and of CPU time, an epoch."""
        begin, begin_cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            for _ in loader:
                pass
        return (time.perf_counter() - begin) / count, (time.process_time() - begin_cpu) / count

    for _ in range(AUGMENT_OPENED):
        loaders = {
            name: fb.open(path).loader({"mel": output}, batch_size=5632, shuffle=True, memory="4GiB", framework="numpy")
            for name, output in outputs.items()
        }
        for loader in loaders.values():
            epochs(loader, 2)  # read, and the batches' memory touched
        count = max(1, round(AUGMENT_SECONDS / epochs(loaders["plain"], 3)[0]))
        for pair in range(AUGMENT_PAIRS):
            for name in sorted(outputs, reverse=pair % 2 == 1):
                by_clock, by_cpu = epochs(loaders[name], count)
                seconds[name].append(by_clock)
                cpu[name].append(by_cpu)
        for loader in loaders.values():
            loader.close()
    path.unlink()
    share = median([a / b for a, b in zip(cpu["plain"], cpu["masked"])])[0]
    result = {"share": share, "spread": median(cpu["masked"])[1]}
    for name in outputs:
        result |= {name: n / median(cpu[name])[0], f"{name}_by_clock": n / median(seconds[name])[0]}
    return result


def augment():
    for stored, frames in ((stored, frames) for stored in ("float32", "float16") for frames in (1, 4, 16, 64)):
        r = augment_beside(frames, stored)
        print(
            f"{stored} frames={frames:3}: {r['plain_by_clock']:12,.0f} samples/s plain, {r['masked_by_clock']:12,.0f} masked, CPU a sample "
            f"{1e9 / r['plain']:.0f} ns and {1e9 / r['masked']:.0f} ns ({1 / r['share'] - 1:+.1%})", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["group_channels", "augment"])
    what = parser.parse_args().what
    print(machine(), commit())
    warn_when_busy()
    {"group_channels": group_channels, "augment": augment}[what]()
