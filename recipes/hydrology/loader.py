"""Basins with Forebay: windows of past days, the days to forecast, static attributes.

    splits = loader.samples("data", gauges, TARGET, FEATURES)
    moments = loader.fit(splits["train"], TARGET, FEATURES)
    train = splits["train"].loader(loader.outputs("data", TARGET, FEATURES, STATIC, moments), batch_size=512, memory="8GiB", device="cuda")
"""

import pathlib

import numpy as np

import forebay as fb

INPUT, OUTPUT = 365, 7
SPLIT = {"train": 0.7, "val": 0.15, "test": 0.15}


def samples(folder, gauges, target, features, input=INPUT, output=OUTPUT, by="time", **split):
    """Windows without a gap, in splits: by time inside each basin, where a window belongs to the split that its target begins in; by="files" whole basins."""
    regions = {path.name: path for path in sorted(pathlib.Path(folder, "series").iterdir())}
    ds = fb.open(regions, source_column="region", ids=gauges)
    windows = ds.windows(input, output, time="date", step=np.timedelta64(1, "D"), drop_missing=[target, *features])
    return windows.split(**split or SPLIT, by=by, at="target" if by == "time" else "window")


def fit(train, target, features, per_basin=False):
    """Mean and std over the training part; keep them, ``moments.inverse(prediction, target)`` takes a forecast back."""
    return fb.fit(train, [target, *features], by="gauge_id") if per_basin else fb.fit(train, [target, *features])


def outputs(folder, target, features, static, moments, input=INPUT, output=OUTPUT, autoregressive=False):
    """X (B, input, F), y (B, output), future (B, output, F), static (B, S), gauge (B), input_end_date (B) in ns."""
    by = {"by": "gauge_id"} if isinstance(moments, fb.GroupedMoments) else {}

    def scaled(columns):
        return fb.col(columns, dtype="float32").standardize(moments, **by)

    return {
        "X": scaled([target, *features] if autoregressive else features).steps(0, input),
        "y": scaled(target).steps(input, input + output),
        "future": scaled(features).steps(input, input + output),
        "static": fb.lookup(f"{folder}/attributes/*.parquet", on="gauge_id", columns=static),
        "gauge": fb.encode("gauge_id"),  # loader.outputs["gauge"].names has the names
        "input_end_date": fb.col("date").at(input - 1),
    }
