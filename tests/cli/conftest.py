"""Data that tests of several commands run over."""

import os

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def env(tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FOREBAY_CACHE": str(tmp_path / "cache")}



@pytest.fixture
def basins(tmp_path):
    for i in range(4):
        table = pa.table({"a": [float(i * 1000 + k) for k in range(1000)], "b": list(range(1000)), "name": ["x"] * 1000,
                          "t": pa.array(range(1000), pa.timestamp("us"))})
        pq.write_table(table, tmp_path / f"b{i}.parquet")
    return tmp_path


@pytest.fixture
def pipeline(basins):
    (basins / "p.yaml").write_text(
        "data: b*.parquet\nsplits: {train: 0.75, test: 0.25}\nmoments: {m: {columns: [a, b], split: train}}\n"
        "outputs:\n  x: {columns: [a, b], ops: [standardize: m], dtype: float32}\n  name: name\n  n: {columns: b, ops: {fill_missing: 0}}\n"
        "loader: {batch_size: 300, seed: 3, memory: 64MiB}\n"
    )
    return basins / "p.yaml"


@pytest.fixture
def mixture(basins):
    (basins / "m.yaml").write_text(
        "mix:\n  sources: {many: 'b[0-2].parquet', one: {data: b3.parquet, outputs: {x: b}}}\n  weights: {many: 1, one: 3}\n  stop: 1000\n"
        "splits: {train: 0.75, test: 0.25}\noutputs: {x: {columns: b}}\nloader: {batch_size: 100, seed: 3, memory: 64MiB}\n"
    )
    return basins / "m.yaml"


@pytest.fixture
def arrays(tmp_path):
    with h5py.File(tmp_path / "train.h5", "w") as f:
        f["mel"] = np.arange(300, dtype="f4").reshape(50, 3, 2) % 6 + 1
        f["mask"] = np.ones((50, 3), "?")
        f["label"], f["weight"], f["name"] = np.arange(50), np.full(50, 0.5), np.full(50, b"n")
    return tmp_path / "train.h5"
