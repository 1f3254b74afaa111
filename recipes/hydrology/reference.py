"""What the batches of basins must hold, by definition: pandas and NumPy, one window at a time.

A window is named by its gauge and the last day of its input. It is one row a day, without a missing value in any column that is used.
"""

import pathlib

import numpy as np
import pandas as pd

DAY = np.timedelta64(1, "D")


class Basin:
    """One file: its dates and values, and where its runs of consecutive days begin and end."""

    def __init__(self, frame, columns):
        self.dates = frame["date"].to_numpy("datetime64[ns]")
        self.values = frame[list(columns)].to_numpy(np.float64)
        breaks = np.flatnonzero(np.diff(self.dates) != DAY) + 1
        self.runs = list(zip([0, *breaks], [*breaks, len(self.dates)]))

    def starts(self, length, input, part=(0.0, 1.0)):
        """First rows of the windows that lie in one run of days, touch nothing missing, and have their first target in a part of the basin's rows."""
        missing = np.isnan(self.values).any(axis=1)
        found = []
        first, last = (int(f * len(self.dates) + 1e-6) for f in part)
        for begin, end in self.runs:
            found += [s for s in range(begin, end - length + 1) if first <= s + input < last and not missing[s : s + length].any()]
        return np.array(found, np.int64)


class Reference:
    """All windows of some basins.

    files: {gauge_id: path of Parquet}; attributes: list of tables with gauge_id, joined; part: fractions of every basin's days.
    """

    def __init__(self, files, attributes, target, features, input=365, output=7, part=(0.0, 1.0)):
        self.target, self.features, self.input, self.length = target, list(features), input, input + output
        self.basins = {gauge: Basin(pd.read_parquet(path), [target, *features]) for gauge, path in files.items()}
        self.starts = {gauge: basin.starts(self.length, input, part) for gauge, basin in self.basins.items()}
        self.attributes = None
        if attributes:
            tables = pd.concat([table.set_index("gauge_id") for table in attributes])
            self.attributes = tables.groupby(level=0).first()

    @classmethod
    def of_folder(cls, folder, gauges, *args, **options):
        """Of what generate.py wrote."""
        folder = pathlib.Path(folder)
        files = {path.stem: path for path in folder.glob("series/*/*.parquet") if path.stem in set(gauges)}
        attributes = [pd.read_parquet(path) for path in sorted(folder.glob("attributes/*.parquet"))]
        return cls(files, attributes, *args, **options)

    def ids(self):
        """(gauge, last day of the input in ns) of every window."""
        return {
            (gauge, int(end))
            for gauge, basin in self.basins.items()
            for end in basin.dates[self.starts[gauge] + self.input - 1].astype(np.int64)
        }

    def moments(self, by_basin=False):
        """(mean, std) of target and features over the rows that lie in windows, each once; of each basin, {gauge: (mean, std)}."""
        rows = {}
        for gauge, basin in self.basins.items():
            inside = np.zeros(len(basin.dates), bool)
            for s in self.starts[gauge]:
                inside[s : s + self.length] = True
            rows[gauge] = basin.values[inside]
        if by_basin:
            return {gauge: _scale(values) for gauge, values in rows.items() if len(values)}
        return _scale(np.concatenate(list(rows.values())))

    def batch(self, gauges, ends, moments=None, autoregressive=False):
        """X, y, future of the named windows in float64; moments as :meth:`moments` gives them."""
        X, y, future = [], [], []
        for gauge, end in zip(gauges, np.asarray(ends).tolist()):
            basin = self.basins[gauge]
            start = int(np.searchsorted(basin.dates, np.datetime64(end, "ns"))) - self.input + 1
            values = basin.values[start : start + self.length]
            if moments is not None:
                mean, std = moments[gauge] if isinstance(moments, dict) else moments
                values = (values - mean) / std
            X.append(values[: self.input, 0 if autoregressive else 1 :])
            y.append(values[self.input :, 0])
            future.append(values[self.input :, 1:])
        return {"X": np.stack(X), "y": np.stack(y), "future": np.stack(future)}

    def static(self, gauges, columns):
        """Attributes of the named basins."""
        return self.attributes.loc[list(gauges), list(columns)].to_numpy(np.float64)


def _scale(values):
    std = values.std(axis=0)
    return values.mean(axis=0), np.where(std == 0, 1.0, std)
