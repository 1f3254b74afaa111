"""What the examples train on: a few years of weather and flow at sixteen made-up rivers, and a small network that predicts the flow."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

INPUTS = ["prcp", "tmax", "tmin"]
RIVERS, DAYS = 16, 1000


def make(folder):
    """A Parquet file a river with a row a day: weather, and a flow that follows the rain of the last days and the melt."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for river in range(RIVERS):
        rng = np.random.default_rng(river)
        prcp = rng.gamma(0.4, 8.0, DAYS)
        mean = 10 - 12 * np.cos(2 * np.pi * np.arange(DAYS) / 365) + rng.normal(0, 3, DAYS)
        spread = rng.gamma(4.0, 1.0, DAYS)
        flow = 0.2 + 0.6 * prcp + 0.3 * np.maximum(mean, 0) + rng.normal(0, 0.1, DAYS)
        columns = {"prcp": prcp, "tmax": mean + spread, "tmin": mean - spread, "flow": np.log1p(np.maximum(flow, 0))}
        table = pa.table({name: pa.array(values, pa.float32()) for name, values in columns.items()})
        pq.write_table(table, Path(folder) / f"river{river:02}.parquet")


def model():
    """The same weights in every process."""
    torch.manual_seed(0)
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    return torch.nn.Sequential(linear(len(INPUTS), 32), relu(), linear(32, 32), relu(), linear(32, 1))
