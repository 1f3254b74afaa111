"""Makes basins as rainfall-runoff modellers keep them: one Parquet file of daily rows a basin, and tables of static attributes.

    python recipes/hydrology/generate.py OUT [--scale small|medium|bench|full] [--basins N] [--years 20 45] [--forcings N] [--attributes N] [--seed N]

    OUT/series/<region>/<gauge_id>.parquet          date, gauge_id, streamflow, forcings; one row group, SNAPPY, dictionaries, all OPTIONAL
    OUT/attributes/attributes_caravan_<region>.parquet, attributes_hydroatlas_<region>.parquet
    OUT/gauges.txt                                  the ids to use: all but one of every region

Streamflow follows the rain of the last weeks, by attributes of the basin, so that there is something to learn. It has gaps: null where pandas
wrote the file, NaN where polars would have. Regions differ in order and number of their columns, and in one region days are missing.
"""

import functools
import pathlib
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import data

REGIONS = ("north", "south", "coast")
TARGET = "streamflow"
NAMES = ("prcp", "tmin", "tmax", "srad", "vp", "pet", "swe", "wind_u", "wind_v", "soil_1", "soil_2", "soil_3", "soil_4", "press", "dew")
SCALES = {
    "small": dict(basins=12, years=(8.0, 10.0), forcings=6, attributes=8),
    "medium": dict(basins=60, years=(20, 30), forcings=6, attributes=8),
    "bench": dict(basins=400, years=(20, 45), forcings=15, attributes=30),
    "full": dict(basins=10_000, years=(20, 45), forcings=15, attributes=200),
}


def forcing_names(n):
    """The first n names of forcings."""
    return [NAMES[i] if i < len(NAMES) else f"forcing_{i}" for i in range(n)]


def attribute_names(n):
    """The names of n attributes: the first ten, or half of a few, are in the first table, the others in the second."""
    first = min(10, n // 2)
    return [f"clim_{i}" for i in range(first)], [f"atlas_{i}" for i in range(n - first)]


def series(rng, days, forcings, wetness, memory):
    """Columns of one basin: rain in showers, seasons, and a discharge that remembers the rain."""
    t = np.arange(days)
    season = np.sin(2 * np.pi * t / 365.25 + rng.uniform(0, 6.28))
    rain = rng.gamma(0.6, 6.0, days) * (rng.random(days) < wetness)
    kernel = np.exp(-np.arange(60) / memory)
    flow = np.convolve(rain * np.clip(0.8 - 0.4 * season, 0.1, None), kernel / kernel.sum())[:days] + 0.1
    columns = {}
    for i, name in enumerate(forcing_names(forcings)):
        values = rain if i == 0 else 10 * season + i + rng.standard_normal(days) * (1 + i % 4)
        columns[name] = np.round(values, 2).astype(np.float32 if i % 2 == 0 else np.float64)
    flow = np.round(flow * rng.lognormal(0, 0.05, days), 3)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, days))
        flow[at : at + int(rng.integers(1, 40))] = np.nan
    return flow, columns


def generate(out, basins=12, years=(8.0, 10.0), forcings=6, attributes=8, seed=0):
    """Write everything; returns the ids to use."""
    out = pathlib.Path(out)
    (out / "attributes").mkdir(parents=True, exist_ok=True)
    first, second = attribute_names(attributes)
    table = np.random.default_rng(seed).standard_normal((basins, attributes))
    use = []
    for r, region in enumerate(REGIONS):
        (out / "series" / region).mkdir(parents=True, exist_ok=True)
        numbers = range(r, basins, len(REGIONS))
        ids = [f"{region}_{n:05d}" for n in numbers]
        use += ids[:-1] if len(ids) > 1 else ids
        for gauge, n in zip(ids, numbers):
            rng = np.random.default_rng((seed, n))
            days = int(rng.uniform(*years) * 365.25)
            dates = np.datetime64("1990-01-01", "D") + int(rng.integers(0, 3000)) + np.arange(days)
            flow, columns = series(rng, days, forcings, wetness=0.3 + 0.1 * np.tanh(table[n, 0]), memory=8 * np.exp(0.5 * np.tanh(table[n, -1])))
            frame = {"date": dates.astype("datetime64[ns]"), "gauge_id": np.full(days, gauge, object), TARGET: flow, **columns}
            if region == "south":  # other columns, in another order
                frame = {"quality": rng.integers(0, 3, days), **dict(reversed(frame.items()))}
            keep = np.ones(days, bool)
            if region == "coast" and n % 2:  # a logger that was off for some days
                at = days // 2 + int(rng.integers(0, 100))
                keep[at : at + 5] = False
            path = out / "series" / region / f"{gauge}.parquet"
            if region == "north":  # NaN stays NaN
                pq.write_table(pa.table({name: values[keep] for name, values in frame.items()}), path)
            else:  # NaN becomes null
                pd.DataFrame(frame)[keep].to_parquet(path, index=False)
        order = np.random.default_rng((seed, 1, r)).permutation(len(ids))
        for kind, names, begin in (("caravan", first, 0), ("hydroatlas", second, len(first))):
            values = table[list(numbers)][order]
            columns = {name: values[:, begin + i] for i, name in enumerate(names)}
            rows = pd.DataFrame({"gauge_id": [ids[i] for i in order], **columns})
            rows.to_parquet(out / "attributes" / f"attributes_{kind}_{region}.parquet", index=False)
    (out / "gauges.txt").write_text("\n".join(use) + "\n")
    return use


def main():
    parser = data.command(__doc__, SCALES)
    parser.add_argument("--basins", type=functools.partial(data.whole, least=len(REGIONS)))
    parser.add_argument("--years", type=float, nargs=2, metavar=("LEAST", "MOST"))
    parser.add_argument("--forcings", type=data.count)
    parser.add_argument("--attributes", type=data.count)
    out, use = data.write("hydrology", parser, SCALES, generate)
    print(f"{out}: {len(list(out.glob('series/*/*')))} basins, {len(use):,} of them in gauges.txt, which train.py takes")


if __name__ == "__main__":
    main()
