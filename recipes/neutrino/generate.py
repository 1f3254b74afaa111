"""Makes events of a neutrino telescope: files of pulses, one row a pulse, and a table of events beside them.

    python recipes/neutrino/generate.py OUT [--scale small|medium|bench|full] [--files N] [--events N] [--longest N] [--row-group N] [--drift X] [--seed N]

    OUT/train/batch_<batch_id>.parquet   sensor_id int16, time int64, charge float64, auxiliary bool; event_id is the pandas index
    OUT/train_meta.parquet               batch_id, event_id, first_pulse_index, last_pulse_index (inclusive), azimuth, zenith
    OUT/sensor_geometry.csv              sensor_id, x, y, z

Events have 5 pulses and more, about 60 in the median, with a heavy tail. A wave front crosses the sensors in the direction that azimuth
and zenith say, and pulses marked auxiliary are noise, so that there is something to learn. With a drift the zenith of a file's events depends on its
number, from above in the first file to below in the last: an order that is not mixed across files trains worse.
"""

import pathlib
import sys

import numpy as np
import pandas as pd

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import data

STRINGS, DOMS = 86, 60  # 5,160 sensors
SCALES = {
    "small": dict(files=4, events=2_500, longest=2_000, row_group=100_000, drift=0.9),
    "medium": dict(files=8, events=1_500, longest=5_000, row_group=1_000_000, drift=0.9),
    "bench": dict(files=20, events=20_000, longest=178_000, row_group=1_000_000),
    "full": dict(files=660, events=200_000, longest=178_000, row_group=1_000_000),
}


def geometry():
    """(5160, 3): strings on a hexagonal grid of 125 m, sensors 17 m apart on them."""
    grid = [(125 * (i + (j % 2) / 2), 108 * j) for j in range(-5, 6) for i in range(-5, 6)]
    grid = sorted(grid, key=lambda p: p[0] ** 2 + p[1] ** 2)[:STRINGS]
    place = [(x, y, 500 - 17 * k) for x, y in grid for k in range(DOMS)]
    return np.array(place, np.float64)


def lengths(rng, n, longest):
    """Pulses of n events."""
    return np.clip(np.exp(rng.normal(np.log(60), 1.1, n)), 5, longest).astype(np.int64)


def generate(out, files=4, events=200, longest=3_000, row_group=20_000, drift=0.0, seed=0):
    """Write everything; returns the table of events."""
    out = pathlib.Path(out)
    (out / "train").mkdir(parents=True, exist_ok=True)
    place = geometry()
    sensors = pd.DataFrame(np.round(place, 2), columns=["x", "y", "z"])
    sensors.insert(0, "sensor_id", np.arange(len(place)))
    sensors.to_csv(out / "sensor_geometry.csv", index=False)
    meta, event_id = [], 24
    for batch in range(1, files + 1):
        rng = np.random.default_rng((seed, batch))
        n = lengths(rng, events, longest)
        azimuth, height = rng.uniform(0, 2 * np.pi, events), rng.uniform(-1, 1, events)
        zenith = np.arccos((1 - drift) * height + drift * (1 - 2 * (batch - 1) / max(files - 1, 1)))
        direction = np.stack([np.sin(zenith) * np.cos(azimuth), np.sin(zenith) * np.sin(azimuth), np.cos(zenith)], 1)
        ids = event_id + np.cumsum(rng.integers(1, 40, events))
        event_id = int(ids[-1])
        of = np.repeat(np.arange(events), n)
        sensor = rng.integers(0, len(place), len(of))
        noise = rng.random(len(of)) < 0.3
        front = 10_000 - np.einsum("ij,ij->i", place[sensor], direction[of]) / 0.3 + rng.normal(0, 30, len(of))
        time = np.where(noise, rng.uniform(6_000, 16_000, len(of)), front).astype(np.int64)
        order = np.lexsort((time, of))
        ends = np.cumsum(n)
        pulses = pd.DataFrame(
            {
                "sensor_id": sensor[order].astype(np.int16),
                "time": time[order],
                "charge": np.round(rng.lognormal(0, 0.6, len(of)) / 0.025) * 0.025,
                "auxiliary": noise[order],
            },
            index=pd.Index(ids[of], name="event_id"),
        )
        pulses.to_parquet(out / "train" / f"batch_{batch}.parquet", row_group_size=row_group)
        rows = {"batch_id": batch, "event_id": ids, "first_pulse_index": ends - n, "last_pulse_index": ends - 1, "azimuth": azimuth, "zenith": zenith}
        meta.append(pd.DataFrame(rows))
    table = pd.concat(meta, ignore_index=True)
    table.to_parquet(out / "train_meta.parquet", index=False)
    return table


def main():
    parser = data.command(__doc__, SCALES)
    parser.add_argument("--files", type=data.count)
    parser.add_argument("--events", type=data.count, help="a file")
    parser.add_argument("--longest", type=data.count, help="pulses of an event at most")
    parser.add_argument("--row-group", type=data.count, help="rows")
    parser.add_argument("--drift", type=float, help="of the zenith from file to file, from 0 (none) to 1 (one direction a file)")
    out, table = data.write("neutrino", parser, SCALES, generate)
    pulses = table["last_pulse_index"] - table["first_pulse_index"] + 1
    print(f"{out}: {len(table):,} events, {pulses.sum():,} pulses, median {pulses.median():.0f}, most {pulses.max():,}")


if __name__ == "__main__":
    main()
